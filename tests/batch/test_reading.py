"""Photos in any number: each is in the output once, whatever happens to a worker, and a shard cannot do harm."""

import dataclasses
import gzip
import io
import tarfile
import tracemalloc
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from show_attend_tell.batch import reading, sources
from show_attend_tell.batch.reading import photos_of
from show_attend_tell.batch.sources import Shard, shards_of
from show_attend_tell.data.photos import Found
from show_attend_tell.errors import SatError


def photo(shade: int) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (4, 3), (shade % 256, 0, 0)).save(content, "PNG")
    return content.getvalue()


def folder_of(folder: Path, number: int, start: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for shade in range(start, start + number):
        (folder / f"{shade:03d}.png").write_bytes(photo(shade))
    return folder


def tar_of(file: Path, members: Mapping[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(file, mode) as tar:  # type: ignore[call-overload]
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return file


# Sources


def test_sources_are_dealt_into_shards_in_a_fixed_order(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "photos", 5)
    folder_of(folder / "more", 2, start=10)
    (folder / ".hidden.png").write_bytes(photo(1))
    (folder / "notes.txt").write_text("no photo")
    (folder / "a link").symlink_to(tmp_path / "elsewhere")
    tar_of(folder / "zoo.tar", {"a.png": photo(1)})
    left_out = Found()
    found = list(shards_of([str(folder)], size=2, left_out=left_out))
    assert left_out.skipped == "2 files and 1 subfolder"  # the link leads nowhere
    base = f"file://{folder}/"
    assert [(shard.kind, shard.file, list(shard.names)) for shard in found] == [
        ("tar", f"{base}zoo.tar", []),
        ("photos", base, ["000.png", "001.png"]),
        ("photos", base, ["002.png", "003.png"]),
        ("photos", base, ["004.png"]),
    ]
    left_out = Found()
    deeper = list(shards_of([str(folder)], size=2, recursive=True, left_out=left_out))
    assert left_out.skipped == "2 files"
    assert deeper[:4] == found and [list(shard.names) for shard in deeper[4:]] == [["010.png", "011.png"]]
    (single,) = shards_of([str(folder / "more" / "*.png")], size=9)
    assert [name for name, _ in photos_of(single)] == [str(folder / "more" / name) for name in ("010.png", "011.png")]
    assert all(
        Shard.from_line(shard.to_line()) == dataclasses.replace(shard, names=list(shard.names)) for shard in found
    )


def test_sources_that_have_the_same_photos_are_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "photos", 2)
    inner = folder_of(folder / "inner", 2)
    folder_of(tmp_path / "photos-2", 1)

    def split_at_random(*given: object, recursive: bool = False) -> list[Shard]:
        return list(shards_of([str(each) for each in given], size=9, recursive=recursive))

    for pair in ([folder, f"{folder}/"], [folder, folder / "001.png"], [f"{folder}/*.png", folder / "001.png"]):
        for one, other in (pair, pair[::-1]):
            with pytest.raises(SatError, match="have photos in common: leave one of them out") as refusal:
                split_at_random(one, other)
            assert f"{other} and {one} " in str(refusal.value)
    for one, other in ((folder, inner), (inner, folder), (inner / "000.png", folder)):
        with pytest.raises(SatError, match="in common"):
            split_at_random(one, other, recursive=True)
        assert len(split_at_random(one, other)) == 2  # subfolders are not read
    assert len(split_at_random(folder, tmp_path / "photos-2", recursive=True)) == 3
    assert len(split_at_random(folder / "000.png", f"{folder}/*1.png")) == 2


def test_a_source_without_photos_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source, why in (("empty", "no photo"), ("absent", "nothing of that name"), ("*.jpg", "no photo")):
        with pytest.raises(SatError, match=why):
            list(shards_of([str(tmp_path / source)], size=2))
    with pytest.raises(SatError, match="--column nope: no source is a Parquet file"):
        list(shards_of([str(folder_of(tmp_path / "photos", 2))], size=2, column="nope"))
    with pytest.raises(SatError, match="cannot be opened"):
        list(shards_of(["nosuchprotocol://x"], size=2))


# Output


# Hostile shards


def test_what_a_tar_file_says_is_not_trusted(tmp_path: Path) -> None:
    file = tmp_path / "x.tar"
    with tarfile.open(file, "w") as tar:
        for name in ("good.png", "../up.png", "/root.png", "a/../../b.png", "C:\\x.png"):
            member = tarfile.TarInfo(name)
            member.size = len(photo(1))
            tar.addfile(member, io.BytesIO(photo(1)))
        link = tarfile.TarInfo("link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        huge = tarfile.TarInfo("huge.png")
        huge.size = 2**60
        tar.fileobj.write(huge.tobuf(tarfile.GNU_FORMAT))  # type: ignore[union-attr]
    found = dict(photos_of(Shard(kind="tar", file=f"file://{file}")))
    reasons = {name.partition("#")[2]: str(content) for name, content in found.items() if isinstance(content, SatError)}
    assert found[f"{file}#good.png"] == photo(1)
    leaves = "its name leaves the file's own folder"
    assert {name: reasons[name] for name in ("../up.png", "/root.png", "a/../../b.png", "C:\\x.png")} == dict.fromkeys(
        ("../up.png", "/root.png", "a/../../b.png", "C:\\x.png"), leaves
    )
    assert reasons["link.png"].startswith("a link") and reasons["huge.png"].startswith(f"{2**60:,} bytes")
    assert reasons[""].startswith("damaged: photos from here on are missing")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.tar"]


def test_a_header_of_a_tar_file_cannot_take_memory(tmp_path: Path) -> None:
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 200 * 2**20
    file = tmp_path / "bomb.tar.gz"
    with gzip.open(file, "wb", compresslevel=1) as packed:
        packed.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(50):
            packed.write(bytes(2**20))
    tracemalloc.start()
    ((_, found),) = photos_of(Shard(kind="tar", file=f"file://{file}"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "a header of 209,715,200 bytes" in str(found) and peak < 20 * 2**20


def test_a_photo_larger_than_any_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 1000)
    tar = tar_of(tmp_path / "x.tar", {"big.png": bytes(5000), "small.png": photo(2)})
    (tmp_path / "big.png").write_bytes(bytes(5000))
    (_, big), (_, small) = photos_of(Shard(kind="tar", file=f"file://{tar}"))
    assert "5,000 bytes, and no photo has more" in str(big) and small == photo(2)
    ((_, big),) = photos_of(Shard(kind="photos", file=f"file://{tmp_path}/", names=["big.png"]))
    assert "larger than" in str(big)


@pytest.mark.parametrize("cut", [1, 300, 700, 1100])
def test_a_tar_file_that_breaks_off_keeps_what_came_before(cut: int, tmp_path: Path) -> None:
    whole = tar_of(tmp_path / "x.tar", {f"{n}.png": photo(n) for n in range(3)}).read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[: 1024 + cut])
    *before, (_, last) = photos_of(Shard(kind="tar", file=f"file://{tmp_path}/cut.tar"))
    assert [content for _, content in before] == [photo(0), photo(1)][: len(before)] and len(before) >= 1
    assert "damaged: photos from here on are missing" in str(last)


def test_damage_inside_a_packed_tar_file_keeps_what_came_before(tmp_path: Path) -> None:
    whole = tar_of(tmp_path / "x.tar", {"0.png": photo(0), "1.png": bytes(30_000)}).read_bytes()
    pack = zlib.compressobj(wbits=31)
    damaged = pack.compress(whole[:20_000]) + pack.flush(zlib.Z_FULL_FLUSH) + b"\xff" * 50
    (tmp_path / "x.tar.gz").write_bytes(damaged)
    (_, first), (_, last) = photos_of(Shard(kind="tar", file=f"file://{tmp_path}/x.tar.gz"))
    assert first == photo(0) and "damaged: photos from here on are missing (Error -3" in str(last)


def test_memory_does_not_grow_with_the_number_of_photos(tmp_path: Path) -> None:
    def peak(photos: int) -> int:
        file = tmp_path / f"{photos}.tar.gz"
        tar_of(file, {f"{n}.png": bytes(20_000) for n in range(photos)}, "w:gz")
        tracemalloc.start()
        assert sum(1 for _ in photos_of(Shard(kind="tar", file=f"file://{file}"))) == photos
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(600) < 1.5 * peak(60)


def test_an_address_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(address: str) -> Any:
        raise ImportError('HTTPFileSystem requires "aiohttp"')

    monkeypatch.setattr(sources, "url_to_fs", missing)
    with pytest.raises(SatError, match=r"aiohttp.*: pip install 'fsspec\[http\]'"):
        list(shards_of(["https://example.org/a.png"], size=2))


# Proofs, which need the extra


def parquet_of(file: Path, columns: Mapping[str, list[Any]], **how: Any) -> Path:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra [scale] is not installed")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(dict(columns)), file, **how)
    return file


@pytest.mark.proof
def test_an_absurd_row_group_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = parquet_of(tmp_path / "x.parquet", {"image": [bytes(5000)]})
    monkeypatch.setattr(reading, "MOST_GROUP", 1000)
    (shard,) = sources.shards_of([str(file)], size=5)
    ((_, found),) = photos_of(shard)
    assert "write row groups of at most" in str(found)
