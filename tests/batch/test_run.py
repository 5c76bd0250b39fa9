"""Batches of photos: each is in the output once, whatever happens to a photo, to a worker or to the command."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from shades import Shade, folder_of, made, photo, rows_of, start, tar_of

from show_attend_tell.batch.output import Output
from show_attend_tell.batch.reading import batches_left, photos_of
from show_attend_tell.batch.sources import Piece, find_pieces
from show_attend_tell.batch.work import BatchConfig, Row
from show_attend_tell.errors import SatError
from show_attend_tell.files import file_lock

ENGINES = pytest.mark.parametrize(
    ("engine", "form"),
    [
        ("local", "jsonl"),
        pytest.param("local", "parquet", marks=pytest.mark.proof),
        pytest.param("ray", "parquet", marks=pytest.mark.proof),
    ],
)


def go(
    sources: Iterable[Path | str], output: Path | str, work: Shade | None = None, **config: Any
) -> tuple[int, int, int]:
    """A run, into a folder unless the output is a text: its photos, those with errors, and new ones."""
    settings = BatchConfig(**{"engine": "local", "workers": 1, **config})
    return made(sources, output if isinstance(output, str) else f"{output}/", work or Shade(), settings)


def rows_left(pieces: list[Piece], target: Output) -> list[Row]:
    """The rows of photos that a target does not have."""
    items = [item for batch in batches_left(pieces, target) for item in batch]
    rows = Shade().rows([item.content for item in items])
    return [item.row(row) for item, row in zip(items, rows, strict=True)]


def shades(output: Path) -> list[float]:
    return sorted(row["shade"] for row in rows_of(output) if row["error"] is None)


def result_of(process: Any) -> list[int]:
    """What a run in a process of its own says that it did: photos, errors, new photos."""
    told, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return json.loads(told.splitlines()[-1])


def first_file(process: Any, output: Path) -> None:
    """Wait for a run's first file."""
    until = time.monotonic() + 200
    while not list(output.glob(f"[!_]*{output.suffix}")):
        assert process.poll() is None and time.monotonic() < until, process.communicate()
        time.sleep(0.05)


@ENGINES
def test_each_photo_is_a_row_also_when_workers_are_killed(engine, form, tmp_path):
    folder, output, deaths = folder_of(tmp_path / "photos", 70), tmp_path / f"out.{form}", tmp_path / "deaths"
    (folder / "003.png").write_bytes(b"broken")
    (folder / "005.png").write_bytes(b"")
    tar, cut = tar_of(tmp_path / "x.tar", {f"{n}.png": photo(n) for n in range(100, 110)}), tmp_path / "cut.tar"
    cut.write_bytes(tar.read_bytes()[:2600])  # two photos and some of the third
    assert result_of(start([folder, tar, cut], output, engine, deadly=7, deaths=str(deaths))) == [83, 4, 83]
    rows = {row["source"]: row for row in rows_of(output)}
    assert len(rows) == len(rows_of(output)) == 83 and deaths.read_text() == "+++"
    assert shades(output) == sorted([*(n for n in range(70) if n not in (3, 5, 7)), *range(100, 110), 100, 101])
    reasons = {name.rpartition("/")[2]: row["error"] for name, row in rows.items() if row["error"]}
    assert reasons["003.png"] == reasons["005.png"] == "broken"
    assert reasons["007.png"].startswith("its worker was killed 3 times")
    assert reasons["cut.tar"].startswith("photos from here on are missing")
    assert go([folder, tar, cut], output) == (83, 3, 4)  # errors are tried again; no photo is deadly now
    if form == "parquet":
        from pyarrow import dataset

        table = dataset.dataset(output)  # the manifest is passed over
        assert table.count_rows() == 83
        assert [str(field.type) for field in table.schema] == ["string", "string", "double", "string", "string"]


@ENGINES
def test_what_workers_passed_over_in_photos_is_counted(engine, form, tmp_path):
    folder, lines = folder_of(tmp_path / "photos", 12), list[str]()
    config = BatchConfig(engine=engine, workers=2)
    assert made([folder], f"{tmp_path}/out.{form}/", Shade(), config, lines.append) == (12, 0, 12)
    (line,) = lines
    assert line.startswith("1 photo read although") and line.endswith(f": {folder}/009.png (pHYs)")


@ENGINES
def test_a_command_that_is_killed_goes_on(engine, form, tmp_path):
    folder, output = folder_of(tmp_path / "photos", 200), tmp_path / f"out.{form}"
    killed = start([folder], output, engine, slow=0.02)
    first_file(killed, output)
    killed.kill()
    killed.communicate()
    if form == "parquet":  # as if the command had been killed while it wrote
        (output / "half.parquet").write_bytes(next(output.glob("*.parquet")).read_bytes()[:-30])
    else:
        (output / ".half.jsonl.1.part").write_text('{"source": "' + str(folder / "0"))
    folder_of(folder, 1, start=200)  # a photo that came meanwhile
    photos, errors, new = result_of(start([folder], output, engine))
    assert (photos, errors) == (201, 0) and 1 <= new <= 181
    assert shades(output) == list(range(201))
    assert not [file for file in output.iterdir() if "half" in file.name]


@ENGINES
def test_ctrl_c_keeps_what_was_made(engine, form, tmp_path):
    folder, output = folder_of(tmp_path / "photos", 200), tmp_path / f"out.{form}"
    stopped = start([folder], output, engine, slow=0.05)
    first_file(stopped, output)
    os.killpg(stopped.pid, signal.SIGINT)  # which the workers get too
    told, errors = stopped.communicate(timeout=100)
    kept = len(rows_of(output))
    assert 20 <= kept < 200 and f"{kept} of 200 photos done" in told, errors
    assert go([folder], output)[2] == 200 - kept
    assert shades(output) == list(range(200))


def test_an_output_of_something_else_is_refused(tmp_path):
    folder, tar = folder_of(tmp_path / "photos", 2), tar_of(tmp_path / "x.tar", {"0.png": photo(9)})
    output = tmp_path / "out.jsonl"
    go([folder, tar], output)
    (tmp_path / "file.jsonl").write_text("")
    folder_of(tmp_path / "mine.jsonl", 1)
    refusals = [
        ([folder], output, {}, "begun with other sources"),
        ([folder, tar], output, {"recursive": True}, "begun with other subfolders"),
        ([folder, tar], output, {"work": Shade(what="other shades")}, "begun with other model or settings"),
        ([folder], tmp_path / "out.csv", {}, r"must end in \.jsonl, \.parquet"),
        ([folder], str(tmp_path / "photos" / "000.png"), {}, r"must end in \.csv, \.tsv, \.jsonl, \.parquet"),
        ([folder], str(output), {}, r"out\.jsonl: a folder: give .*/out\.jsonl/ "),
        ([folder], str(tmp_path / "file.jsonl"), {}, "exists already, and was not made by a run"),
        ([folder], tmp_path / "file.jsonl", {}, "a file"),
        ([folder], tmp_path / "mine.jsonl", {}, "files that no run made"),
        ([tmp_path / "absent"], tmp_path / "new.jsonl", {}, "no photo"),
    ]
    for sources, target, how, why in refusals:
        with pytest.raises(SatError, match=why):
            go(sources, target, **how)
    assert not (tmp_path / "new.jsonl").exists() and not list(tmp_path.glob(".*.parts"))
    with file_lock(output), pytest.raises(SatError, match="another process writes"):
        go([folder, tar], output)
    (output / "other.jsonl").write_text('{"id": 3}\n')
    with pytest.raises(SatError, match="rows that no run wrote"):
        go([folder, tar], output)
    tar_of(tar, {f"{n}.png": photo(n) for n in range(100)})
    with pytest.raises(SatError, match="begun with other file sizes"):
        go([folder, tar], output)
    for content in ("{}", '{"a'):
        (output / "_manifest.json").write_text(content)
        with pytest.raises(SatError, match=r"its _manifest\.json is damaged"):
            go([folder, tar], output)


def test_an_output_behind_an_address(tmp_path):
    folder, output = folder_of(tmp_path / "photos", 3), f"{tmp_path}/out.jsonl"  # one that no other run has written
    assert [go([folder], f"memory://{output}")[2] for _ in range(2)] == [3, 0]
    folder_of(folder, 1, start=3)
    assert go([folder], f"memory://{output}") == (4, 0, 1)
    lines = fsspec.filesystem("memory").cat_file(output).splitlines()
    assert sorted(json.loads(line)["shade"] for line in lines) == [0, 1, 2, 3]


@pytest.mark.proof
def test_a_table_in_parquet_among_its_photos_is_no_source(tmp_path):
    folder = folder_of(tmp_path / "photos", 5)
    (folder / "003.png").write_bytes(b"broken")
    output = folder / "out.parquet"
    assert go([folder], str(output)) == (5, 1, 5)
    folder_of(folder, 4, start=100)
    assert go([folder], str(output)) == (9, 1, 5)  # with the error, which is tried again
    assert shades(output) == [0, 1, 2, 4, 100, 101, 102, 103]
    assert [file.name for file in (folder / ".out.parquet.parts").iterdir()] == ["_manifest.json"]


@pytest.mark.parametrize("form", ["csv", "jsonl", pytest.param("parquet", marks=pytest.mark.proof)])
def test_a_file_stays_as_it_was_until_rows_are_made_again(form, tmp_path):
    folder, output = folder_of(tmp_path / "photos", 4), tmp_path / f"out.{form}"

    def make(first: int = 99, *, ended: bool = True) -> tuple[int, int, int]:
        """Make the first rows that are left: how many rows are done before, are to be made again, and are done then."""
        pieces = find_pieces([str(folder)])
        target = Output(str(output), Shade.columns, folder=False)
        was = output.read_bytes() if output.exists() else None
        with target.opened({"file_sizes": {}}, pieces):
            target.write(rows_left(pieces, target)[:first])
            assert was == (output.read_bytes() if output.exists() else None)
            return len(target), target.again, len(target.finish(ended=ended))

    def found() -> list[float | None]:
        rows = sorted(rows_of(output), key=lambda row: row["source"])
        return [None if row["error"] else float(row["shade"]) for row in rows]

    for broken in ("001.png", "003.png"):
        (folder / broken).write_bytes(b"broken")
    assert make() == (0, 0, 4) and found() == [0, None, 2, None]
    (folder / "001.png").write_bytes(photo(101))
    (folder / "002.png").write_bytes(photo(102))  # of the same size
    (folder / "003.png").unlink()
    assert make(1, ended=False) == (1, 3, 2) and found() == [0, 101, 2, None]  # as Ctrl-C ends it: nothing is lost
    (row,) = [row for row in rows_of(output) if row["source"].endswith("002.png")]
    (item,) = photos_of(find_pieces([str(folder / "002.png")])[0])
    killed = Output(str(output), Shade.columns, folder=False)
    killed.together = 1
    killed.write([item.row({**row, "file_version": item.file_version, "shade": 102.0})])  # by a run that was killed
    assert make() == (3, 1, 3) and found() == [0, 101, 102]  # the photo of an error is gone, and so is its row


class Killed(BaseException):
    """What ends a command at once."""


class Dying(Output):
    """An output whose command is killed after some changes of the disk: nothing is written or removed any more."""

    changes = 0
    together = 2

    def put(self, path: str, write: Any) -> None:
        self.change()
        super().put(path, write)

    def remove(self, path: str) -> None:
        self.change()
        super().remove(path)

    def change(self) -> None:
        if not self.changes:
            raise Killed
        self.changes -= 1


@pytest.mark.parametrize("folder", [False, True])
def test_no_photo_is_lost_or_there_twice_whenever_a_command_is_killed(folder, tmp_path):
    """Two photos change between two commands, and each is killed after as many changes of the disk as there are."""
    photos = folder_of(tmp_path / "photos", 7)

    def command(address: str, changes: int) -> bool:
        """Go on; whether it came to its end."""
        pieces = find_pieces([str(photos)])
        output = Dying(address, Shade.columns, folder=folder)
        output.changes = changes
        try:
            with output.opened({"file_sizes": {}}, pieces):
                for row in rows_left(pieces, output):
                    output.write([row])
                output.finish()
        except Killed:
            return False
        return True

    for first in range(0, 11, 2):
        for name, shade in (("001.png", 1), ("004.png", 4)):
            (photos / name).write_bytes(photo(shade))
        ended, killed = False, 0
        while not ended:
            output = tmp_path / f"{first}-{killed}.jsonl"
            command(str(output), first)
            for name, shade in (("001.png", 101), ("004.png", 104)):
                (photos / name).write_bytes(photo(shade) + b"changed")
            ended = command(str(output), killed)
            assert command(str(output), 99)
            assert shades(output) == [0, 2, 3, 5, 6, 101, 104] and len(rows_of(output)) == 7, (first, killed)
            killed += 1


class Broken(Shade):
    """A model that is not there, or too large for the memory."""

    @property
    def model(self) -> None:  # type: ignore[override]
        if self.what == "absent":
            raise SatError("there is no model")
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("what", "why"), [("absent", "there is no model"), ("large", "killed while it loaded")])
def test_a_model_that_cannot_be_loaded_is_an_error(what, why, tmp_path):
    with pytest.raises(SatError, match=why):
        go([folder_of(tmp_path / "photos", 3)], tmp_path / "out.jsonl", Broken(what=what))
    assert rows_of(tmp_path / "out.jsonl") == []


def test_without_pyarrow_and_ray_the_error_says_what_to_install(tmp_path, monkeypatch):
    for name in ("pyarrow", "ray"):
        monkeypatch.setitem(sys.modules, name, None)
    folder = folder_of(tmp_path / "photos", 1)
    for form, engine, why in (("parquet", "local", "Parquet files need pyarrow"), ("jsonl", "ray", "needs Ray Data")):
        with pytest.raises(SatError, match=rf"{why}: pip install .*\[scale\]"):
            go([folder], str(tmp_path / f"out.{form}"), engine=engine)
    assert go([folder], str(tmp_path / "out.jsonl"), engine="auto")[0] == 1
