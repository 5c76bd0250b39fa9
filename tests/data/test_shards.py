"""Photos in any number: each is in the output once, whatever happens to a worker, and a shard cannot do harm."""

import dataclasses
import errno
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import tracemalloc
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from show_attend_tell.data.photos import Found
from show_attend_tell.data.shards import engine as engines
from show_attend_tell.data.shards import reading, sources, writing
from show_attend_tell.data.shards.reading import Item, photos_of
from show_attend_tell.data.shards.sources import Shard, shards_of
from show_attend_tell.data.shards.writing import SCRATCH, Kind, Row, quarantine_of
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


@dataclasses.dataclass(frozen=True)
class Shade:
    """A work: the shade of photos. While the file ``deadly`` exists, a worker dies of the photo that is named in it.

    Then the file goes, unless it is ``lasting``.
    """

    deadly: str = ""
    lasting: bool = False
    slow: float = 0.0
    columns: Mapping[str, Kind] = dataclasses.field(default_factory=lambda: {"source": "text", "shade": "number"})

    def settings(self) -> dict[str, Any]:
        return {"what": "shades"}

    def on_gpu(self) -> bool:
        return False

    def __call__(self, photos: Iterator[Item]) -> Iterator[tuple[str, Row | SatError]]:
        for source, content in photos:
            time.sleep(self.slow)
            if self.deadly and os.path.exists(self.deadly) and Path(self.deadly).read_text() in source:
                if not self.lasting:
                    os.remove(self.deadly)
                os.kill(os.getpid(), signal.SIGKILL)
            if isinstance(content, SatError):
                yield source, content
            elif content == b"broken":
                yield source, SatError("broken")
            else:
                shade = Image.open(io.BytesIO(content)).getpixel((0, 0))
                assert isinstance(shade, tuple)
                yield source, {"source": source, "shade": float(shade[0])}


def rows_of(output: Path) -> list[dict[str, Any]]:
    if output.suffix == ".parquet":
        from pyarrow import parquet

        files = sorted(output.glob("part-*.parquet"))
        return [row for file in files for row in parquet.ParquetFile(file).read().to_pylist()]
    return [json.loads(line) for file in sorted(output.glob("part-*")) for line in file.read_text().splitlines()]


def run(found: list[Path | str], output: Path, work: Any = None, **how: Any) -> engines.Result:
    said: list[str] = []
    return engines.run([str(each) for each in found], output, work or Shade(), log=said.append, show=False, **how)


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


def test_photos_come_from_anything_that_fsspec_opens(tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    tar = tar_of(tmp_path / "x.tar", {"in/a.png": photo(7), "in/a.json": b"{}"})
    memory.pipe({"/bucket/1.png": photo(1), "/bucket/sub/2.png": photo(2), "/bucket/x.tar": tar.read_bytes()})
    run(["memory://bucket"], tmp_path / "out.jsonl", recursive=True)
    assert [(row["source"], row["shade"]) for row in rows_of(tmp_path / "out.jsonl")] == [
        ("memory:///bucket/x.tar#in/a.png", 7),
        ("memory:///bucket/1.png", 1),
        ("memory:///bucket/sub/2.png", 2),
    ]


def test_a_photo_behind_an_address_that_fails_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(address: str) -> Any:
        raise RuntimeError("no connection")  # not an OSError

    monkeypatch.setattr(reading, "opened", broken)
    ((_, found),) = photos_of(Shard(kind="photos", file="memory://bucket/", names=["1.png"]))
    assert str(found) == "cannot be read (no connection)"


# Output


def test_each_photo_is_in_the_output_once_and_bad_ones_in_quarantine(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "photos", 7)
    (folder / "003.png").write_bytes(b"broken")
    (folder / "005.png").write_bytes(b"")
    found = run([folder], tmp_path / "out.jsonl", size=3)
    assert (found.photos, found.failed, found.shards) == (7, 2, 3)
    assert [row["shade"] for row in rows_of(tmp_path / "out.jsonl")] == [0, 1, 2, 4, 6]
    assert rows_of(quarantine_of(tmp_path / "out.jsonl")) == [
        {"source": str(folder / "003.png"), "reason": "broken"},
        {"source": str(folder / "005.png"), "reason": "an empty file"},
    ]
    again = run([folder], tmp_path / "out.jsonl", size=3)
    assert (again.photos, again.failed) == (0, 2)  # all is done
    quarantine = quarantine_of(tmp_path / "out.jsonl")
    (quarantine / "part-00003.jsonl").write_text("{}\n")  # left by an output of more shards
    assert run([folder], tmp_path / "out.jsonl", size=3).failed == 2


def test_an_interrupted_run_goes_on_and_the_plan_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, output = folder_of(tmp_path / "photos", 9), tmp_path / "out.jsonl"
    seen = []

    class Stopped(Shade):
        def __call__(self, photos: Iterator[Item]) -> Iterator[tuple[str, Row | SatError]]:
            for source, row in super().__call__(photos):
                seen.append(source)
                if len(seen) == 5:
                    raise KeyboardInterrupt
                yield source, row

    with pytest.raises(engines.Interrupted, match="2 shards of 3 left"):
        run([folder], output, Stopped(), size=3)
    assert len(rows_of(output)) == 3 and not list(output.glob(f"{SCRATCH}*"))
    (output / f"{SCRATCH}killed-part-00001.jsonl").write_text("half a li")
    (folder / "007.png").unlink()
    folder_of(folder, 1, start=20)  # comes too late
    run([folder], output, size=3)
    assert [row["shade"] for row in rows_of(output)] == [0, 1, 2, 3, 4, 5, 6, 8]
    (gone,) = rows_of(quarantine_of(output))
    assert gone["reason"] == "cannot be read (No such file or directory)"
    assert not list(output.glob(f"{SCRATCH}*"))


def test_an_output_of_something_else_is_refused(tmp_path: Path) -> None:
    folder, output = folder_of(tmp_path / "photos", 2), tmp_path / "out.jsonl"
    run([folder], output)
    with pytest.raises(SatError, match="begun with other sources"):
        run([folder_of(tmp_path / "others", 1)], output)
    with pytest.raises(SatError, match="begun with other sizes of shards"):
        run([folder], output, size=1)
    (tmp_path / "file.jsonl").write_text("")
    with pytest.raises(SatError, match="is a file"):
        run([folder], tmp_path / "file.jsonl")
    with pytest.raises(SatError, match=r"ends in \.parquet or \.jsonl"):
        run([folder], tmp_path / "out.csv")
    plan = json.loads((output / "_plan.json").read_text())
    (output / "_plan.json").write_text(json.dumps({**plan, "version": 99}))
    with pytest.raises(SatError, match="another version"):
        run([folder], output)


def test_a_source_that_is_refused_leaves_nothing_to_go_on_with(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "photos", 2)
    with pytest.raises(SatError, match="nothing of that name"):
        run([folder, tmp_path / "absent"], tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()
    (tmp_path / "mine.jsonl").mkdir()
    with pytest.raises(SatError, match="nothing of that name"):
        run([tmp_path / "absent"], tmp_path / "mine.jsonl")
    assert (tmp_path / "mine.jsonl").is_dir()
    assert run([folder], tmp_path / "out.jsonl").photos == 2


@pytest.mark.parametrize("kept", [0, 1, 60])  # whole lines, or bytes
def test_a_plan_that_was_cut_short_is_refused(kept: int, tmp_path: Path) -> None:
    folder, output = folder_of(tmp_path / "photos", 6), tmp_path / "out.jsonl"
    run([folder], output, size=2)
    plan = (output / "_plan.jsonl").read_bytes()
    (output / "_plan.jsonl").write_bytes(plan[:kept] if kept == 60 else b"".join(plan.splitlines(True)[:kept]))
    (output / "part-00002.jsonl").unlink()
    with pytest.raises(SatError, match=r"_plan\.jsonl was changed or cut short"):
        run([folder], output, size=2)
    (output / "_plan.jsonl").write_bytes(plan)
    assert run([folder], output, size=2).photos == 2
    made = json.loads((output / "_plan.json").read_text())
    (output / "_plan.json").write_text(json.dumps({name: made[name] for name in made if name != "digest"}))
    assert run([folder], output, size=2).photos == 0  # an earlier version kept no digest


def test_a_full_disk_is_told_and_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, output = folder_of(tmp_path / "photos", 2), tmp_path / "out.jsonl"

    def full(part: Any) -> None:
        part.file.close()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(writing._Lines, "close", full)
        patched.setattr(writing._Lines, "leave", full)
        with pytest.raises(SatError, match=r"part-00000\.jsonl cannot be written \(No space left on device\): make"):
            run([folder], output)
    assert not list(output.glob(f"{SCRATCH}*"))
    assert run([folder], output).photos == 2


def test_a_worker_that_is_killed_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    folder, deadly = folder_of(tmp_path / "photos", 12), tmp_path / "deadly"
    deadly.write_text("007.png")
    found = run([folder], tmp_path / "out.jsonl", Shade(str(deadly)), size=2, workers=2)
    assert not deadly.exists()  # a worker died of it
    assert found.photos == 12 and [row["shade"] for row in rows_of(tmp_path / "out.jsonl")] == list(range(12))
    assert found.alone is not None and found.alone > 0
    assert "2 workers; one alone did" in engines.told(found, tmp_path / "out.jsonl", 2)[0]


def test_a_first_shard_that_was_done_by_a_lost_worker_is_no_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [engines.Done(0, 0, 0.0), engines.Done(1, 2, 0.1), engines.Done(2, 2, 0.1)]
    monkeypatch.setattr(engines, "_local", lambda job, todo, workers: iter(found))
    result = run([folder_of(tmp_path / "photos", 6)], tmp_path / "out.jsonl", size=2, workers=2)
    assert (result.photos, result.alone) == (4, None)


def test_a_shard_that_kills_its_workers_is_named_and_not_one_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "DEATHS", 2)
    folder, output, deadly = folder_of(tmp_path / "photos", 4), tmp_path / "out.jsonl", tmp_path / "deadly"
    deadly.write_text("000.png")
    with pytest.raises(SatError, match="a worker was killed 2 times while it did shard 0"):
        run([folder], output, Shade(str(deadly), lasting=True, slow=0.3), size=2, workers=2)
    deadly.unlink()
    run([folder], output, size=2)
    assert [row["shade"] for row in rows_of(output)] == [0, 1, 2, 3]


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


def test_without_pyarrow_parquet_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(SatError, match=r"pip install 'show-attend-tell\[scale\]'"):
        run([folder_of(tmp_path / "photos", 1)], tmp_path / "out.parquet")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SatError, match=r"--engine ray needs Ray Data: pip install"):
        run([tmp_path / "photos"], tmp_path / "out.jsonl", engine="ray")
    assert run([tmp_path / "photos"], tmp_path / "out.jsonl", size=3).photos == 1  # nothing was planned


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
def test_parquet_files_give_bytes_paths_and_what_hugging_face_writes(tmp_path: Path) -> None:
    folder_of(tmp_path / "photos", 3)
    secret = tmp_path.parent / "secret.png"
    secret.write_bytes(photo(99))
    names = ["photos/000.png", "../secret.png", str(secret), "photos/002.png", "file:///etc/passwd", None]
    paths = parquet_of(tmp_path / "paths.parquet", {"id": [1, 2, 3, 4, 5, 6], "path": names})
    bytes_ = parquet_of(tmp_path / "bytes.pq", {"image": [photo(n) for n in range(20)]}, row_group_size=6)
    structs = [{"bytes": photo(5), "path": "x.png"}, {"bytes": None, "path": "photos/001.png"}]
    hub = parquet_of(tmp_path / "hub.parquet", {"text": ["a", "b"], "image": structs})
    output = tmp_path / "out.parquet"
    found = run([paths, bytes_, hub], output)
    assert (found.photos, found.failed) == (28, 4)
    rows = [(Path(row["source"]).name, row["shade"]) for row in rows_of(output)]
    assert rows[:2] == [("paths.parquet#0", 0), ("paths.parquet#3", 2)]
    assert rows[2:22] == [(f"bytes.pq#{n}", n) for n in range(20)]
    assert rows[22:] == [("hub.parquet#0", 5), ("hub.parquet#1", 1)]
    reasons = {row["source"].partition("#")[2]: row["reason"] for row in rows_of(quarantine_of(output))}
    assert [("leaves the folder" in reasons[number]) for number in "124"] == [True] * 3
    assert reasons["5"] == "nothing where a photo should be"
    from pyarrow import dataset

    assert dataset.dataset(output).count_rows() == 24  # the plan is passed over
    with pytest.raises(SatError, match="there is no column 'pixels'"):
        run([paths], tmp_path / "other.parquet", column="pixels")
    odd = parquet_of(tmp_path / "odd.parquet", {"x": [1], "y": ["a"]})
    with pytest.raises(SatError, match="which column has the photos"):
        run([odd], tmp_path / "odd-out.parquet")
    addresses = parquet_of(tmp_path / "addresses.parquet", {"url": ["https://example.org/a.jpg"]})
    with pytest.raises(
        SatError, match=r"or their paths\? \(Addresses are not fetched\.\) Give --column, one of \['url'"
    ):
        run([addresses], tmp_path / "addresses-out.parquet")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and not much more PAR1")
    with pytest.raises(SatError, match="the Parquet file cannot be read"):
        run([tmp_path / "damaged.parquet"], tmp_path / "damaged-out.parquet")


@pytest.mark.proof
def test_an_absurd_row_group_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = parquet_of(tmp_path / "x.parquet", {"image": [bytes(5000)]})
    monkeypatch.setattr(reading, "MOST_GROUP", 1000)
    (shard,) = sources.shards_of([str(file)], size=5)
    ((_, found),) = photos_of(shard)
    assert "write row groups of at most" in str(found)


@pytest.mark.proof
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_ray_does_what_the_local_engine_does_also_when_a_worker_is_killed(form: str, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra [scale] is not installed")
    folder, deadly = folder_of(tmp_path / "photos", 14), tmp_path / "deadly"
    (folder / "004.png").write_bytes(b"broken")
    tar = tar_of(tmp_path / "x.tar", {f"{n}.png": photo(n) for n in range(100, 104)})
    deadly.write_text("007.png")
    script = (
        "import sys; from pathlib import Path; from test_shards import Shade; "
        "from show_attend_tell.data.shards import engine\n"
        "deadly, output, *sources = sys.argv[1:]\n"
        "found = engine.run(sources, Path(output), Shade(deadly), engine='ray', workers=2, size=2, say=print)\n"
        "print(*engine.told(found, Path(output), 2))"
    )
    output = tmp_path / f"ray.{form}"
    path = os.pathsep.join([str(Path(__file__).parent), *(part for part in sys.path if part)])
    command = [sys.executable, "-c", script, str(deadly), str(output), str(folder), str(tar)]
    environment = {**os.environ, "PYTHONPATH": path, "RAY_worker_niceness": "0"}  # on a busy machine too
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not deadly.exists()  # a worker died of it
    run([folder, tar], tmp_path / f"local.{form}", size=2)
    local = tmp_path / f"local.{form}"
    assert rows_of(output) == rows_of(local) and len(rows_of(output)) == 17
    assert rows_of(quarantine_of(output)) == rows_of(quarantine_of(local)) and len(rows_of(quarantine_of(local))) == 1
    assert "18 photos in 8 shards" in done.stdout and "one alone did" in done.stdout
    again = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0 and "has 8 of 8 shards already" in again.stdout

    deadly.write_text("010.png")  # and now a photo that kills every worker
    command = [*command[:2], script.replace("Shade(deadly)", "Shade(deadly, True)"), *command[3:]]
    command[4] = str(tmp_path / f"killed.{form}")
    never = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert never.returncode == 1 and "a worker was killed 3 times while it did shard 5" in never.stderr
    deadly.unlink()
    assert subprocess.run(command, env=environment, capture_output=True, timeout=300).returncode == 0
    assert rows_of(tmp_path / f"killed.{form}") == rows_of(local)
