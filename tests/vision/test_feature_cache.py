"""The feature cache: what it holds, that it resumes, and what it refuses."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch import Tensor, nn

import show_attend_tell.vision.feature_cache as feature_cache_module
from show_attend_tell.data.photos import Preprocessing, open_photo
from show_attend_tell.errors import SatError
from show_attend_tell.vision import encoder as encoder_module
from show_attend_tell.vision import feature_cache as features
from show_attend_tell.vision.encoder import Encoder
from show_attend_tell.vision.feature_cache import FeatureCache, default_cache


class Counted(Encoder):
    """A small encoder, 2 × 2 places of 5 numbers, that counts the photos it saw and may be interrupted."""

    def __init__(self, seed: int = 0, preprocessing: Preprocessing | None = None, scale: float = 1.0) -> None:
        torch.manual_seed(seed)
        body = nn.Conv2d(3, 5, 3, stride=3)
        body.weight.data *= scale
        preprocessing = preprocessing or Preprocessing(size=6, geometry="squash")
        super().__init__(body, name="counted", annotation_size=5, grid=(2, 2), preprocessing=preprocessing)
        self.seen = 0
        self.stop_after: int | None = None

    def forward(self, pixels: Tensor) -> Tensor:
        if self.stop_after is not None and self.seen >= self.stop_after:
            raise KeyboardInterrupt
        self.seen += len(pixels)
        return super().forward(pixels)


@pytest.fixture
def photos(tmp_path: Path) -> dict[str, Path]:
    generator = np.random.default_rng(3)
    found = {}
    for number in range(11):
        name = f"photo{number}.png"
        Image.fromarray(generator.integers(0, 256, (7, 9, 3)).astype(np.uint8)).save(tmp_path / name)
        found[name] = tmp_path / name
    return found


Build = Callable[..., FeatureCache]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def run(photos: dict[str, Path], encoder: Encoder, **options: object) -> FeatureCache:
        return FeatureCache.build(
            tmp_path / "cache",
            photos,
            encoder,
            progress=False,
            batch_size=2,
            **options,  # type: ignore[arg-type]
        )

    return run


def expected(encoder: Encoder, path: Path, view: str = "original") -> Tensor:
    pixels = encoder.preprocessing(open_photo(path), view, path.name)
    return encoder.annotate(pixels[None])[0].half()


def test_rows_are_what_the_encoder_says(photos: dict[str, Path], build: Build, tmp_path: Path) -> None:
    encoder = Counted()
    cache = build(photos, encoder)
    assert cache.names == list(photos) and len(cache) == 11 and cache.grid == (2, 2)
    rows = cache[["photo7.png", "photo2.png", "photo7.png"]]
    assert rows.shape == (3, 4, 5) and rows.dtype == torch.float16
    for row, name in zip(rows, ("photo7.png", "photo2.png", "photo7.png"), strict=True):
        assert torch.equal(row, expected(encoder, photos[name]))
    assert torch.equal(cache[torch.tensor([7, 2, 7])], rows)
    assert cache.index("photo7.png") == 7

    again = FeatureCache.open(tmp_path / "cache", encoder.digest, encoder.preprocessing)
    assert torch.equal(again[range(11)], cache[range(11)]) and again.precision == encoder.precision
    assert again.encoder_digest == encoder.digest


@pytest.mark.parametrize("view", ["flipped", "crop-1"])
def test_another_view_is_a_cache_of_its_own(view: str, photos: dict[str, Path], build: Build, tmp_path: Path) -> None:
    encoder = Counted()
    original, other = build(photos, encoder), build(photos, encoder, view=view)
    assert original.folder != other.folder and encoder.seen == 22
    assert torch.equal(other[[4]][0], expected(encoder, photos["photo4.png"], view))
    opened = FeatureCache.open(tmp_path / "cache", encoder.digest, encoder.preprocessing, view)
    assert torch.equal(opened[[4]], other[[4]]) and not torch.equal(opened[[4]], original[[4]])


def test_a_view_that_does_not_exist_is_refused_before_anything_is_made(
    photos: dict[str, Path], build: Build, tmp_path: Path
) -> None:
    for view in ("mirrored", "crop", "crop-0", "crop-x"):
        with pytest.raises(SatError, match=f"view '{view}'"):
            build(photos, Counted(), view=view)
    assert not list(tmp_path.glob("cache/*"))


def test_an_interrupted_run_goes_on_where_it_was(photos: dict[str, Path], build: Build, tmp_path: Path) -> None:
    encoder = Counted()
    encoder.stop_after = 6
    with pytest.raises(KeyboardInterrupt):
        build(photos, encoder)
    partial = FeatureCache.open(tmp_path / "cache", encoder.digest, encoder.preprocessing)
    assert torch.equal(partial[[5]][0], expected(Counted(), photos["photo5.png"]))
    with pytest.raises(SatError, match=r"photo6\.png is not encoded yet"):
        partial[["photo5.png", "photo6.png"]]

    encoder.stop_after = None
    whole = build(photos, encoder)
    assert encoder.seen == 11  # none twice
    assert torch.equal(whole[range(11)], torch.stack([expected(Counted(), path) for path in photos.values()]))
    stamps = {file: os.stat(file).st_mtime_ns for file in whole.folder.iterdir() if file.name != "lock"}
    build(photos, encoder)
    assert encoder.seen == 11
    assert stamps == {file: os.stat(file).st_mtime_ns for file in stamps}  # a finished one costs nothing


def test_new_photos_are_appended_and_rows_never_move(photos: dict[str, Path], build: Build) -> None:
    encoder = Counted()
    names = list(photos)
    early = build({name: photos[name] for name in names[3:8]}, encoder)
    before = early[range(5)]
    cache = build(photos, encoder)
    assert encoder.seen == 11
    assert cache.names == names[3:8] + names[:3] + names[8:]
    assert torch.equal(cache[range(5)], before) and torch.equal(early[range(5)], before)
    assert torch.equal(cache[["photo9.png"]][0], expected(Counted(), photos["photo9.png"]))
    few = build({"photo9.png": photos["photo9.png"]}, encoder)
    assert len(few) == 11 and encoder.seen == 11


def test_growth_that_was_cut_short_is_mended(
    photos: dict[str, Path], build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Counted()
    first = dict(list(photos.items())[:5])
    build(first, encoder)

    def crash(path: Path, text: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(features, "_write", crash)
        with pytest.raises(KeyboardInterrupt):
            build(photos, encoder)
    assert len(build(first, encoder)) == 5 and encoder.seen == 5
    cache = build(photos, encoder)
    assert encoder.seen == 11
    assert torch.equal(cache[range(11)], torch.stack([expected(Counted(), path) for path in photos.values()]))


def test_a_photo_whose_file_changed_is_encoded_again(photos: dict[str, Path], build: Build) -> None:
    encoder = Counted()
    build(photos, encoder)
    ImageOps.invert(open_photo(photos["photo3.png"])).save(photos["photo3.png"])
    os.utime(photos["photo3.png"], (0, 0))
    stop = Counted()
    stop.stop_after = 0
    with pytest.raises(KeyboardInterrupt):
        build(photos, stop)  # the change is known by now, and must not be forgotten
    cache = build(photos, encoder)
    assert encoder.seen == 12
    assert torch.equal(cache[["photo3.png"]][0], expected(Counted(), photos["photo3.png"]))
    moved = {name: path.rename(path.with_suffix(".moved")) for name, path in photos.items()}
    build(moved, encoder)
    assert encoder.seen == 12  # photos are known by name, so a data set may move
    for path in moved.values():
        os.utime(path, (1, 1))
    build(moved, encoder)
    assert encoder.seen == 12  # and by their bytes, so it may be copied


def test_a_cache_from_before_digests_learns_them(photos: dict[str, Path], build: Build) -> None:
    encoder = Counted()
    manifest = build(photos, encoder).folder / "manifest.json"
    about = json.loads(manifest.read_text())
    about["photos"] = [entry[:3] for entry in about["photos"]]
    manifest.write_text(json.dumps(about))
    build(photos, encoder)
    assert encoder.seen == len(photos)
    digests = [entry[3] for entry in json.loads(manifest.read_text())["photos"]]
    assert digests == [hashlib.sha256(path.read_bytes()).hexdigest() for path in photos.values()]


def test_a_photo_that_changed_and_has_no_digest_is_not_taken_for_the_old_one(
    photos: dict[str, Path], build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Counted()
    monkeypatch.setattr(feature_cache_module, "_file_digest", lambda path: "")  # as when it cannot be read
    build(photos, encoder)
    os.utime(photos["photo3.png"], (0, 0))
    build(photos, encoder)
    assert encoder.seen == len(photos) + 1


def test_another_encoder_or_preprocessing_is_refused(photos: dict[str, Path], build: Build, tmp_path: Path) -> None:
    encoder, other = Counted(), Counted(seed=1)
    cropped = Preprocessing(size=6)
    build(photos, encoder)
    with pytest.raises(SatError) as refusal:
        FeatureCache.open(tmp_path / "cache", other.digest, encoder.preprocessing)
    assert encoder.digest[:12] in str(refusal.value) and other.digest[:12] in str(refusal.value)
    with pytest.raises(SatError, match=r"\(crop to 6.*, but .*\(squash to 6"):
        FeatureCache.open(tmp_path / "cache", encoder.digest, cropped)
    with pytest.raises(SatError, match=r"flipped.*, but .*original"):
        FeatureCache.open(tmp_path / "cache", encoder.digest, encoder.preprocessing, "flipped")
    with pytest.raises(SatError, match="none at all"):
        FeatureCache.open(tmp_path / "nowhere", encoder.digest, encoder.preprocessing)
    build(photos, other)
    build(photos, Counted(preprocessing=cropped))
    assert len(list((tmp_path / "cache").iterdir())) == 3

    folder = FeatureCache.open(tmp_path / "cache", encoder.digest, encoder.preprocessing).folder
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "digest": other.digest}))
    for attempt in (
        lambda: FeatureCache.open(tmp_path / "cache", encoder.digest, encoder.preprocessing),
        lambda: build(photos, encoder),
    ):
        with pytest.raises(SatError, match=f"holds annotations by encoder {other.digest[:12]}"):
            attempt()


def test_each_precision_has_a_cache(
    photos: dict[str, Path], build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Counted()
    for native, precision in ((True, "bfloat16"), (False, "float32")):
        monkeypatch.setattr(encoder_module, "native_bf16", lambda device, native=native: native)
        assert build(photos, encoder).precision == precision
        opened = FeatureCache.open(tmp_path / "cache", encoder.digest, encoder.preprocessing)
        assert opened.precision == precision  # the only one, then float32's
    assert encoder.seen == 22


def test_annotations_beyond_half_precision_are_refused(photos: dict[str, Path], build: Build) -> None:
    with pytest.raises(SatError, match=r"photo0\.png: annotations as large as .*65504"):
        build(photos, Counted(scale=1e6))


def test_photos_that_cannot_be_read_are_counted_after_the_others_are_stored(
    photos: dict[str, Path], build: Build, tmp_path: Path
) -> None:
    encoder = Counted()
    for name in ("photo2.png", "photo3.png", "photo9.png"):
        photos[name].write_bytes(b"no photo")
    photos["absent.png"] = tmp_path / "absent.png"
    with pytest.raises(SatError, match="4 of 12 photos cannot be read") as refusal:
        build(photos, encoder)
    assert "absent.png" in str(refusal.value) and "photo2.png" in str(refusal.value)
    assert "photo9.png" not in str(refusal.value)  # only the first few
    assert encoder.seen == 8
    for name in ("photo2.png", "photo3.png", "photo9.png", "absent.png"):
        del photos[name]
    cache = build(photos, encoder)
    assert encoder.seen == 8
    assert torch.equal(cache[["photo10.png"]][0], expected(encoder, photos["photo10.png"]))


def test_wrong_names_and_rows_are_refused(photos: dict[str, Path], build: Build) -> None:
    cache = build(photos, Counted())
    for wrong, message in (
        (["photo1.png", "photo99.png"], r"no photo 'photo99\.png' among the 11"),
        ([0, 11], "no row 11 among the 11"),
        ([-1], "no row -1"),
        ("photo1.png", r"give a list of names, \['photo1\.png'\]"),
    ):
        with pytest.raises(SatError, match=message):
            cache[wrong]
    with pytest.raises(SatError, match="no photo to encode"):
        build({}, Counted())


@pytest.mark.parametrize("file", ["manifest.json", "annotations.npy", "done"])
def test_a_damaged_cache_is_refused_not_filled_with_zeros(photos: dict[str, Path], build: Build, file: str) -> None:
    folder = build(photos, Counted()).folder
    content = (folder / file).read_bytes()
    for damage in (content[:9], content[:-50]):
        (folder / file).write_bytes(damage)
        with pytest.raises(SatError, match="damaged"):
            build(photos, Counted())


def test_a_cache_whose_manifest_is_gone_is_made_anew(photos: dict[str, Path], build: Build) -> None:
    first = build(photos, Counted())
    rows = {name: first[[name]].clone() for name in photos}
    (first.folder / "manifest.json").unlink()
    again = build(dict(reversed(photos.items())), encoder := Counted())
    assert encoder.seen == len(photos)
    assert all(torch.equal(again[[name]], row) for name, row in rows.items())


def test_an_empty_store_and_a_manifest_without_its_digest_are_refused(photos: dict[str, Path], build: Build) -> None:
    folder = build(photos, Counted()).folder
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    del manifest["digest"]
    kept = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(SatError, match=r"damaged \('digest'\)"):
        build(photos, Counted())
    (folder / "manifest.json").write_bytes(kept)
    (folder / "annotations.npy").write_bytes(b"")
    with pytest.raises(SatError, match="damaged"):
        build(photos, Counted())


def test_a_disk_without_room_is_noticed_first(
    photos: dict[str, Path], build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=99))
    with pytest.raises(SatError, match=r"11 photos need .* GB more"):
        build(photos, Counted())


def test_one_process_writes_at_a_time(
    photos: dict[str, Path], build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = Counted()
    folder = build({"photo0.png": photos["photo0.png"]}, encoder).folder
    with ThreadPoolExecutor() as pool:
        with features._lock(folder):
            waiting = pool.submit(build, photos, encoder)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.3)
            assert encoder.seen == 1
        assert len(waiting.result(timeout=60)) == 11
    assert "another process is writing" in capsys.readouterr().err


def test_progress_is_shown_only_when_asked(
    photos: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FeatureCache.build(tmp_path / "quiet", photos, Counted(), progress=False)
    assert capsys.readouterr() == ("", "")
    FeatureCache.build(tmp_path / "cache", photos, Counted())
    assert "11/11" in capsys.readouterr().err
    FeatureCache.build(tmp_path / "cache", photos, Counted())
    assert capsys.readouterr().err == ""  # nothing to do


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SAT_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("SAT_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache() == tmp_path / ".cache" / "show-attend-tell" / "features"
