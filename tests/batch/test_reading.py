"""Photos in folders, tar files and Parquet files: what is read, and what a damaged or hostile file can do."""

import base64
import gzip
import io
import tarfile
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import fsspec
import pytest
from shades import folder_of, photo, tar_of

from show_attend_tell.batch.reading import batches_left, expected, from_base64, photos_of, sources_of
from show_attend_tell.batch.sources import Piece, find_pieces
from show_attend_tell.data.photos import LeftOut, open_photo
from show_attend_tell.errors import SatError


def read(*sources: object, **how: Any) -> dict[str, bytes | str]:
    """The photos of sources, by the ends of their names, or why there are none."""
    pieces = find_pieces([str(each) for each in sources], **how)
    items = [item for piece in pieces for item in photos_of(piece)]
    assert [item.source for item in items] == [source for piece in pieces for source in sources_of(piece)]
    found = {item.source.rpartition("/")[2]: content_of(item.content) for item in items}
    assert len(found) == len(items)
    return found


def content_of(content: Any) -> bytes | str:
    """The bytes of a photo, also in a file of its own, or why there are none."""
    if isinstance(content, (Path, str)):
        with fsspec.open(content) as file:
            return file.read()
    return content if isinstance(content, bytes) else str(content)


def parquet_of(file: Path, columns: dict[str, list[Any]], **options: Any) -> Path:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), file, **options)
    return file


# Sources


def test_a_folder_gives_its_photos_in_order(tmp_path):
    folder = folder_of(tmp_path / "photos", 100)
    folder_of(folder / "more", 2, start=200)
    for hidden in (".hidden.png", "._000.png"):
        (folder / hidden).write_bytes(photo(1))
    (folder / "notes.txt").write_text("no photo")
    (folder / "000.png.xmp").write_text("<x/>")  # a sidecar is no photo that was left out
    (folder / "a link").symlink_to(folder)
    tar_of(folder / "zoo.tar", {"a.png": photo(1)})
    skipped = LeftOut()
    pieces = find_pieces([str(folder)], skipped=skipped)
    assert [(piece.kind, len(piece.files)) for piece in pieces] == [("tar", 1), ("photos", 64), ("photos", 36)]
    assert (skipped.files, skipped.folders) == (2, 1)
    twice = find_pieces([str(folder), f"{folder}/*.png", str(folder / "more")], recursive=True)
    deeper = find_pieces([str(folder)], recursive=True)
    assert sum(len(piece.files) for piece in twice) == sum(len(piece.files) for piece in deeper)  # each is read once
    assert deeper[:2] == pieces[:2] and sum(len(piece.files) for piece in deeper) == 103  # the link is not followed
    (folder / "more" / "._200.png").write_bytes(b"of macOS")
    for pattern in ("*.png", "*", "._*", ".*", "2*.png"):
        if pattern.startswith("."):
            with pytest.raises(SatError, match="no photo"):
                read(folder / "more" / pattern)
        else:
            assert list(read(folder / "more" / pattern)) == ["200.png", "201.png"]
    assert list(read(folder / "more" / "._200.png")) == ["._200.png"]  # it is named
    members = ("200.png", "._200.png", ".cache/1.png", "__MACOSX/._200.png", "./201.png", "a.txt")
    found = read(tar_of(tmp_path / "x.tar", dict.fromkeys(members, photo(3))))
    assert list(found) == ["x.tar#200.png", "201.png"]


@pytest.mark.parametrize(
    ("source", "column", "why"),
    [
        ("empty", None, r"empty: no photo in this folder, .* \(--recursive reads subfolders\)$"),
        ("*.jpg", None, "no such photo, .*: put quotes around a name with spaces"),
        ("photos", "nope", "--column nope: no source is or contains a Parquet file"),
        ("nosuchprotocol://x", None, "cannot be opened"),
    ],
)
def test_a_source_without_photos_is_refused(source, column, why, tmp_path):
    (tmp_path / "empty").mkdir()
    folder_of(tmp_path / "photos", 2)
    with pytest.raises(SatError, match=why):
        find_pieces([source if "://" in source else str(tmp_path / source)], column=column)


class Refusing(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """Each of its files ends in an HTTP status, with which its server answers: at once, or when it is read."""

    protocol = "refusing"

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        return {"name": path, "size": 100, "type": "file"} if "late" in path else self._open(path)

    def _open(self, path: str, *rest: Any, **options: Any) -> Any:
        error = OSError("traceback")
        error.status = int(path.rpartition("-")[2].partition(".")[0])  # type: ignore[attr-defined]
        raise error

    def isdir(self, path: str) -> bool:
        return bool(self.info(path)["type"] == "directory")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (403, "Forbidden"),
        (503, "Service Unavailable"),
    ],
)
def test_what_a_server_refuses_costs_one_line(status, words):
    fsspec.register_implementation("refusing", Refusing, clobber=True)
    said = f"the server answered {status}, {words}"
    with pytest.raises(SatError, match=rf"^REFUSING://x/a-{status}.jpg: {said}"):
        find_pieces([f"REFUSING://x/a-{status}.jpg"])  # schemes are alike in capitals
    (photo,) = find_pieces([f"refusing://x/late-{status}.jpg"])
    with pytest.raises(SatError, match=said):
        open_photo(*(item.content for item in photos_of(photo)))
    broken = read(f"refusing://x/late-{status}.tar")[f"late-{status}.tar"]
    assert broken == f"photos from here on are missing: {said}"


def test_photos_come_from_anything_that_fsspec_opens(tmp_path):
    for packing in ("gz", "bz2", "xz"):
        assert list(read(tar_of(tmp_path / f"x.tar.{packing}", {"a.png": photo(3)}, f"w:{packing}")).values()) == [
            photo(3)
        ]
    memory = fsspec.filesystem("memory")
    tar = tar_of(tmp_path / "x.tar", {"in/a.png": photo(7), "in/a.json": b"{}"})
    memory.pipe({"/bucket/1.png": photo(1), "/bucket/sub/2.png": photo(2), "/bucket/x.tar": tar.read_bytes()})
    assert read("memory://bucket", recursive=True) == {"a.png": photo(7), "1.png": photo(1), "2.png": photo(2)}


def test_base64_is_told_from_a_path():
    content, plain = photo(5) * 2, base64.b64encode(photo(5) * 2).decode()
    lines = "\n".join(plain[at : at + 76] for at in range(0, len(plain), 76))
    for text in (plain, lines, f"data:image/png;base64,{plain}", plain.replace("+", "-").replace("/", "_")):
        assert from_base64(text) == content
    for path in ("photos/000.png", "photos/000", "", "a" * 99, f"{'a' * 100}.jpg", f"{'a' * 100}.x"):
        assert from_base64(path) is None


def test_photos_that_are_done_are_not_given_again(tmp_path):
    folder = folder_of(tmp_path / "photos", 3)
    tar = tar_of(tmp_path / "x.tar", {f"{n}.png": photo(n) for n in range(3)})
    pieces, every = find_pieces([str(folder), str(tar)]), [f"{folder}/00{n}.png" for n in range(3)]
    every += [f"{tar}#{n}.png" for n in range(3)]
    for done in (set[str](), {str(folder / "001.png"), f"{tar}#2.png"}, set(every)):
        left = [item.source for batch in batches_left(pieces, done) for item in batch]
        assert left == [source for source in every if source not in done]
    assert 3 <= expected(pieces) <= 13  # an estimate, of a tar file that is mostly its end


# Hostile files


def test_what_a_tar_file_says_is_not_trusted(tmp_path):
    file, leaving = tmp_path / "x.tar", ("../up.png", "/root.png", "a/../../b.png", "C:\\x.png")
    with tarfile.open(file, "w") as tar:
        for name in ("good.png", *leaving, "good.png"):
            member = tarfile.TarInfo(name)
            member.size = len(photo(1))
            tar.addfile(member, io.BytesIO(photo(1)))
        link = tarfile.TarInfo("link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        huge = tarfile.TarInfo("huge.png")
        huge.size = 2**60
        tar.fileobj.write(huge.tobuf(tarfile.GNU_FORMAT))  # type: ignore[union-attr]
    found = {item.source.partition("#")[2]: item.content for item in photos_of(Piece("tar", (f"file://{file}",)))}
    reasons = {name: str(content) for name, content in found.items() if isinstance(content, SatError)}
    assert found["good.png"] == found["good.png#2"] == photo(1)  # of the same name, and yet two
    assert all(reasons[name] == "its name leaves the file's own folder" for name in leaving)
    assert reasons["link.png"].startswith("a link") and reasons["huge.png"].startswith("larger than")
    assert reasons[""].startswith("photos from here on are missing")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.tar"]


def test_a_header_of_a_tar_file_cannot_take_memory(tmp_path):
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 200 * 2**20
    file = tmp_path / "bomb.tar.gz"
    with gzip.open(file, "wb", compresslevel=1) as packed:
        packed.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(50):
            packed.write(bytes(2**20))
    tracemalloc.start()
    (found,) = photos_of(Piece("tar", (f"file://{file}",)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "a header of 209,715,200 bytes" in str(found.content) and peak < 20 * 2**20


@pytest.mark.parametrize("damage", ["cut header", "cut photo", "cut between", "changed header", "changed packing"])
def test_a_damaged_tar_file_keeps_what_came_before(damage, tmp_path):
    whole = tar_of(tmp_path / "x.tar", {"0.png": photo(0), "1.png": photo(1), "2.png": bytes(30_000)}).read_bytes()
    ends = {"cut header": 1300, "cut photo": 1600, "cut between": 2048}
    if damage == "changed packing":
        pack, file = zlib.compressobj(wbits=31), tmp_path / "cut.tar.gz"
        file.write_bytes(pack.compress(whole[:20_000]) + pack.flush(zlib.Z_FULL_FLUSH) + b"\xff" * 50)
    else:
        changed = whole[:2060] + b"\xff" + whole[2061:]  # in the third header
        file = tmp_path / "cut.tar"
        file.write_bytes(whole[: ends[damage]] if damage in ends else changed)
    *before, last = read(file).values()
    assert before == [photo(0), photo(1)][: len(before)] and len(before) >= 1
    assert "photos from here on are missing" in str(last)


@pytest.mark.proof
def test_parquet_files_give_bytes_paths_and_what_hugging_face_writes(tmp_path):
    folder_of(tmp_path / "photos", 3)
    (tmp_path.parent / "secret.png").write_bytes(photo(9))
    names = ["photos/000.png", "../secret.png", "/etc/passwd", "photos/002.png", "file:///etc/passwd", None]
    paths = parquet_of(tmp_path / "paths.parquet", {"id": [1, 2, 3, 4, 5, 6], "path": names})
    many = parquet_of(tmp_path / "bytes.pq", {"image": [photo(n) for n in range(20)]}, row_group_size=6)
    coded = parquet_of(tmp_path / "coded.parquet", {"image": [base64.b64encode(photo(3)).decode()]})
    structs = [{"bytes": photo(5), "path": "x.png"}, {"bytes": None, "path": "photos/001.png"}]
    hub = parquet_of(tmp_path / "hub.parquet", {"text": ["a", "b"], "image": structs})
    found = read(paths, many, hub, coded)
    assert found["coded.parquet#0"] == photo(3)
    assert [found[f"paths.parquet#{row}"] for row in (0, 3)] == [photo(0), photo(2)]
    assert all("leaves the folder" in str(found[f"paths.parquet#{row}"]) for row in (1, 2, 4))
    assert found["paths.parquet#5"] == "nothing where a photo should be"
    assert [found[f"bytes.pq#{row}"] for row in range(20)] == [photo(row) for row in range(20)]
    assert [found[f"hub.parquet#{row}"] for row in (0, 1)] == [photo(5), photo(1)]
    (piece,) = find_pieces([str(many)])
    assert piece.rows == 20
    done = {f"{many}#{row}" for row in range(7)}
    assert next(batches_left([piece], done))[0].source == f"{many}#7"


@pytest.mark.proof
def test_parquet_files_that_cannot_be_read(tmp_path):
    odd = parquet_of(tmp_path / "odd.parquet", {"x": [1], "url": ["https://example.org/a.jpg"]})
    with pytest.raises(SatError, match=r"no column of photos .*: give --column, one of \['x', 'url'\]"):
        read(odd)
    with pytest.raises(SatError, match="no column 'pixels'"):
        read(odd, column="pixels")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and not much more PAR1")
    assert "photos from here on are missing" in str(read(tmp_path / "damaged.parquet")["damaged.parquet"])
