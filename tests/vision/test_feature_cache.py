"""The feature cache: what it holds, that it resumes, and what it refuses."""

import errno
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch import Tensor, nn

from show_attend_tell.data.datasets import Example
from show_attend_tell.data.photos import Preprocessing, open_photo
from show_attend_tell.errors import PhotoError, SatError
from show_attend_tell.files import file_lock
from show_attend_tell.vision.backbones import Backbone
from show_attend_tell.vision.encoder import Encoder
from show_attend_tell.vision.feature_cache import FeatureCache, UnreadablePhotos, default_cache, folder_name
from show_attend_tell.vision.sources import LivePhotos

STORED = 4 * 5 * 2 + 4  # bytes of a photo's stored file
SQUASHED = Preprocessing(size=6, resize="squash")


class Counted(Encoder):
    """A small encoder, 2 × 2 locations of 5 numbers, that counts the photos it saw and may be interrupted."""

    def __init__(self, seed: int = 0, preprocessing: Preprocessing = SQUASHED) -> None:
        torch.manual_seed(seed)
        body = nn.Conv2d(3, 5, 3, stride=3)
        super().__init__(Backbone(body, "counted", 5, (2, 2), preprocessing, "float32"))
        self.seen = 0
        self.stop_after = None

    def forward(self, pixels: Tensor) -> Tensor:
        if self.stop_after is not None and self.seen >= self.stop_after:
            raise KeyboardInterrupt
        self.seen += len(pixels)
        return super().forward(pixels)


def disturbed(photo: Path, disturb: Callable[[Path], None]) -> Preprocessing:
    """Preprocessing while which something happens to the photo's file."""

    class Disturbed(Preprocessing):
        def __call__(self, image: Image.Image, view: str = "original", name: str = "") -> Tensor:
            if name == photo.name:
                disturb(photo)
            return super().__call__(image, view, name)

    return Disturbed(size=6, resize="squash")


Photos = dict[str, Path]  # files by names
Build = Callable[..., FeatureCache]


@pytest.fixture
def photos(tmp_path: Path) -> Photos:
    generator = np.random.default_rng(3)
    found = {}
    for number in range(11):
        name = f"photo{number}.png"
        Image.fromarray(generator.integers(0, 256, (7, 9, 3)).astype(np.uint8)).save(tmp_path / name)
        found[name] = tmp_path / name
    return found


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def run(photos: Photos, encoder: Encoder, **options: Any) -> FeatureCache:
        return FeatureCache.build(tmp_path / "cache", photos, encoder, batch_size=2, progress=False, **options)

    return run


def expected(encoder: Encoder, path: Path, view: str = "original") -> Tensor:
    pixels = encoder.preprocessing(open_photo(path), view, path.name)
    return encoder.annotate(pixels[None])[0].half()


def all_expected(photos: Photos) -> Tensor:
    return torch.stack([expected(Counted(), path) for path in photos.values()])


def folder_of(cache: FeatureCache) -> Path:
    return next(iter(cache.files.values())).parents[1]


def inverted(path: Path) -> None:
    """Replace a photo by its negative."""
    ImageOps.invert(open_photo(path)).save(path)


@pytest.mark.parametrize("arrays", [False, True], ids=["tensors", "arrays"])
def test_rows_are_what_the_encoder_says(arrays, photos, build):
    encoder = Counted()
    cache = build(photos, encoder, encode=(lambda pixels: encoder.annotate(pixels).numpy()) if arrays else None)
    assert list(cache.files) == list(photos)
    rows = cache[["photo7.png", "photo2.png", "photo7.png"]]
    assert rows.dtype == torch.float16 and torch.equal(rows, all_expected(photos)[[7, 2, 7]])
    again = build(photos, encoder)
    assert torch.equal(again[list(photos)], cache[list(photos)]) and encoder.seen == 11


@pytest.mark.parametrize("view", ["flipped", "crop-1"])
def test_another_view_is_a_cache_of_its_own(view, photos, build):
    encoder = Counted()
    original, other = build(photos, encoder), build(photos, encoder, view=view)
    assert folder_of(original) != folder_of(other) and encoder.seen == 22
    assert torch.equal(other[["photo4.png"]][0], expected(encoder, photos["photo4.png"], view))
    assert not torch.equal(other[["photo4.png"]], original[["photo4.png"]])


def test_an_interrupted_run_goes_on_where_it_was(photos, build):
    encoder = Counted()
    encoder.stop_after = 6
    with pytest.raises(KeyboardInterrupt):
        build(photos, encoder)
    encoder.stop_after = None
    whole = build(photos, encoder)
    assert encoder.seen == 11  # none twice
    assert torch.equal(whole[list(photos)], all_expected(photos))
    stamps = {file: os.stat(file).st_mtime_ns for file in folder_of(whole).rglob("*")}
    (folder_of(whole) / ".DS_Store").touch()  # as macOS does
    build(photos, encoder)
    assert encoder.seen == 11 and stamps == {file: os.stat(file).st_mtime_ns for file in stamps}


@pytest.mark.parametrize("left", [0, 9, STORED - 1, STORED + 1, 10**12])
def test_a_file_that_is_not_whole_is_written_again(photos, build, left):
    """As the loss of power may leave it; nothing else is written, and nothing far too large is read."""
    encoder = Counted()
    cache = build(photos, encoder)
    file = sorted(folder_of(cache).glob("*/*"))[3]
    os.truncate(file, left)
    os.truncate(folder_of(cache).parent / "files.json", min(left, 1000))
    file.with_name(".left.1.part").write_bytes(b"of a process that was killed")
    whole = build(photos, encoder)
    assert encoder.seen == 12
    assert torch.equal(whole[list(photos)], all_expected(photos))


def test_new_photos_are_added(photos, build):
    encoder = Counted()
    some = list(photos)[3:8]
    early = build({name: photos[name] for name in some}, encoder)
    before = early[some]
    cache = build(photos, encoder)
    assert encoder.seen == 11 and folder_of(cache) == folder_of(early)
    assert torch.equal(cache[some], before) and torch.equal(early[some], before)
    assert torch.equal(cache[list(photos)], all_expected(photos))


# Rows are known by the bytes of the photos


def test_a_photo_whose_file_changed_is_encoded_again(photos, build):
    encoder = Counted()
    build(photos, encoder)
    inverted(photos["photo3.png"])
    os.utime(photos["photo3.png"], (0, 0))
    encoder.stop_after = 0
    with pytest.raises(KeyboardInterrupt):
        build(photos, encoder)  # the change is known by now, and must not be forgotten
    encoder.stop_after = None
    assert torch.equal(build(photos, encoder)[list(photos)], all_expected(photos)) and encoder.seen == 12


def test_a_data_set_may_move_and_be_copied(photos, build):
    encoder = Counted()
    before = build(photos, encoder)[list(photos)]
    moved = {name: path.rename(path.with_suffix(".moved")) for name, path in photos.items()}
    for path in moved.values():
        os.utime(path, (1, 1))
    assert torch.equal(build(moved, encoder)[list(photos)], before)
    renamed = {f"other {name}": path for name, path in moved.items()}
    assert torch.equal(build(renamed, encoder)[list(renamed)], before)
    assert encoder.seen == 11


@pytest.mark.parametrize("alike", ["size and time", "nothing"])
def test_two_photos_of_one_name_are_not_confused(alike, photos, build, tmp_path):
    """Two data sets may have one name, and use one name for different photos."""
    (tmp_path / "other").mkdir()
    theirs = {name: tmp_path / "other" / name for name in photos}
    for name, path in photos.items():
        pixels = np.asarray(open_photo(path))
        Image.fromarray(pixels).save(path, "BMP")
        Image.fromarray(255 - pixels).save(theirs[name], "BMP")
        if alike == "nothing":
            theirs[name].write_bytes(theirs[name].read_bytes() + b"\0")
        for file in (path, theirs[name]):
            os.utime(file, (1, 1) if alike != "nothing" else None)
    for each in (photos, theirs, photos):
        cache = build(each, Counted())
        torch.testing.assert_close(cache[list(each)], all_expected(each), atol=2e-3, rtol=0)  # in other batches


@pytest.mark.parametrize(
    ("disturb", "problem"),
    [(inverted, "changed while the photos were encoded"), (Path.unlink, "cannot be read .No such file")],
)
def test_a_photo_that_changes_or_vanishes_while_it_is_encoded_is_not_stored(disturb, problem, photos, build):
    """Its row would belong to the bytes that it had before."""
    photo = photos["photo3.png"]
    before, encoder = photo.read_bytes(), Counted(preprocessing=disturbed(photo, disturb))
    with pytest.raises(UnreadablePhotos, match=rf"1 of 11 photos cannot be read\. First: .*photo3\.png: {problem}"):
        build(photos, encoder)
    assert encoder.seen == 10
    photo.write_bytes(before)
    assert torch.equal(build(photos, Counted())[list(photos)], all_expected(photos))


@pytest.mark.parametrize(
    "name", ["../../escaped", "/tmp/escaped", "..", ".", "a/../../escaped", "\\escaped", "\0", "é" * 300, "\ud800", " "]
)
def test_a_cache_never_leaves_its_folder(name):
    """Whatever a JSON file has for the name of a data set."""
    folder = folder_name(name)
    assert Path(folder).name == folder and not folder.startswith(".") and 0 < len(folder) <= 40
    assert [folder_name(kept) for kept in ("coco-2014_v1.2", "фото")] == ["coco-2014_v1.2", "фото"]


# Damage


def flip(cache: FeatureCache, photo: Path) -> None:
    """Change one bit of a photo's annotations on the disk."""
    with open(cache.files[photo.name], "r+b") as file:
        file.seek(11)
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 4]))


def test_damaged_annotations_are_reported_and_their_photos_alone_are_encoded_again(photos, build):
    encoder = Counted()
    before = build(photos, encoder)[list(photos)]
    for number in (5, 8):
        flip(build(photos, encoder), photos[f"photo{number}.png"])
    cache = build(photos, encoder)  # which reads none
    whole = [number for number in range(11) if number not in (5, 8)]
    assert torch.equal(cache[[f"photo{number}.png" for number in whole]], before[whole])
    with pytest.raises(SatError, match=r"of photo5\.png, photo8\.png are damaged .*the same command encodes 2 photos"):
        cache[["photo4.png", "photo5.png"]]
    again = build(photos, encoder)
    assert encoder.seen == 13 and torch.equal(again[list(photos)], before)
    assert torch.equal(build(photos, encoder)[list(photos)], before) and encoder.seen == 13


def test_a_full_disk_is_reported_and_what_is_stored_stays(photos, build):
    resource = pytest.importorskip("resource")
    encoder = Counted()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (STORED - 1, limits[1]))  # bytes that a file may have
    try:
        with pytest.raises(SatError, match=rf"cannot be written \({os.strerror(errno.EFBIG)}\).*make room"):
            build(photos, encoder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert torch.equal(build(photos, encoder)[list(photos)], all_expected(photos))


# What is refused


def test_photos_that_cannot_be_read_are_counted_after_the_others_are_stored(photos, build, tmp_path):
    encoder = Counted()
    for name in ("photo2.png", "photo3.png", "photo9.png"):
        photos[name].write_bytes(b"no photo")
    photos["absent.png"] = tmp_path / "absent.png"
    with pytest.raises(UnreadablePhotos, match="4 of 12 photos cannot be read") as refusal:
        build(photos, encoder)
    error = pickle.loads(pickle.dumps(refusal.value))  # as it comes back from another process
    assert error.problems == refusal.value.problems and str(error) == str(refusal.value)
    assert set(error.problems) == {"absent.png", "photo2.png", "photo3.png", "photo9.png"}
    assert error.problems["absent.png"].startswith(f"{photos['absent.png']}: cannot be read (No such file")
    assert "photo9.png" not in str(error)  # only the first few
    whole = {name: path for name, path in photos.items() if name not in error.problems}
    assert torch.equal(build(whole, encoder)[list(whole)], all_expected(whole)) and encoder.seen == 8


def test_what_cannot_be_stored_is_refused(photos, build):
    large, wide = Counted(), Counted()
    large.body.weight.data *= 1e6
    with pytest.raises(SatError, match=r"photo0\.png: annotations as large as .*65504"):
        build(photos, large)
    wide.grid = (10**6, 10**6)
    with pytest.raises(SatError, match=r"11 photos need 110,000,000.* MB more, and the disk has only"):
        build(photos, wide)
    assert wide.seen == 0


def test_one_process_writes_at_a_time(photos, build, capsys):
    encoder = Counted()
    folder = folder_of(build({"photo0.png": photos["photo0.png"]}, encoder))
    with ThreadPoolExecutor() as pool:
        with file_lock(folder):
            waiting = pool.submit(build, photos, encoder)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.3)
            assert encoder.seen == 1
        assert len(waiting.result(timeout=60).files) == 11
    assert "another process is writing" in capsys.readouterr().err


def test_the_default_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("SAT_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.setenv("SAT_CACHE", "~no-such-user/cache")  # no such user: a folder of that name
    assert default_cache() == Path("~no-such-user/cache")
    monkeypatch.delenv("SAT_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache() == tmp_path / ".cache" / "show-attend-tell" / "features"


def test_a_live_photo_that_cannot_be_read_is_named(photos):
    examples = [Example(name, file, "train", (("a",),), ("a",)) for name, file in photos.items()]
    assert torch.equal(
        LivePhotos(examples, Counted())[["photo3.png"]][0].half(), expected(Counted(), photos["photo3.png"])
    )
    photos["photo3.png"].write_bytes(b"no photo")
    with pytest.raises(PhotoError, match=r"photo3\.png: not a photo"):
        LivePhotos(examples, Counted())[list(photos)]
