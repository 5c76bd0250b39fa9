"""A work for the tests of `batch`: the shade of photos, by workers that may be killed."""

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from PIL import Image

from show_attend_tell.batch.output import Output
from show_attend_tell.batch.run import Targets, run, select, tables_of
from show_attend_tell.batch.tables import read_rows
from show_attend_tell.batch.work import BatchConfig, PhotoBatch, Row
from show_attend_tell.errors import PhotoError, SatError

RAY = {"RAY_worker_niceness": "0", "RAY_raylet_start_wait_time_s": "120"}  # on a busy machine too


class Shade(PhotoBatch):
    """The red of a photo's corner, 9 with a part passed over. A ``deadly`` one kills the worker, see ``deaths``."""

    columns: ClassVar[Mapping[str, str]] = {"shade": "double", "never": "string", "error": "string"}

    def __init__(self, *, deadly: int = -1, deaths: str = os.devnull, slow: float = 0.0, what: str = "shades") -> None:
        super().__init__("shades", device="cpu")
        self.deadly, self.deaths, self.slow, self.what = deadly, deaths, slow, what

    @property
    def model(self) -> None:  # type: ignore[override]
        """None is needed."""

    def settings(self) -> dict[str, Any]:
        return {"what": self.what}

    def made(self, photos: list[Any]) -> Iterator[Row | SatError]:
        for content in photos:
            time.sleep(self.slow)
            try:
                shade = Image.open(content if isinstance(content, Path) else io.BytesIO(content)).getpixel((0, 0))
            except OSError:
                yield PhotoError("broken")
                continue
            assert isinstance(shade, tuple)
            if shade[0] == self.deadly:
                with open(self.deaths, "a") as file:
                    file.write("+")
                os.kill(os.getpid(), signal.SIGKILL)
            yield {"shade": float(shade[0]), "passed_over": "pHYs" if shade[0] == 9 else None}


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


def rows_of(output: Path) -> list[dict[str, Any]]:
    """All rows of an output, a file or a folder of parts."""
    if output.is_file():
        with output.open("rb") as stream:
            return list(read_rows(stream, output.suffix[1:]))
    if output.suffix == ".jsonl":
        return [json.loads(line) for file in sorted(output.glob("*.jsonl")) for line in file.read_text().splitlines()]
    from pyarrow import parquet

    return [row for file in sorted(output.glob("*.parquet")) for row in parquet.ParquetFile(file).read().to_pylist()]


def start(sources: Iterable[Path], output: Path, engine: str, **work: Any) -> "subprocess.Popen[str]":
    """A run in a process of its own: into a folder, with two workers, parts of 20 rows, and a `Shade` of ``work``."""
    path = os.pathsep.join([str(Path(__file__).parent), *(part for part in sys.path if part)])
    command = [sys.executable, __file__, json.dumps([list(map(str, sources)), f"{output}/", engine, work])]
    environment = {**os.environ, "PYTHONPATH": path, **RAY}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def made(
    sources: Iterable[object], output: str, work: PhotoBatch, config: BatchConfig, log: Any = lambda text: None
) -> tuple[int, int, int]:
    """A run into one table: its photos, those with errors, and those that are new."""
    targets = Targets(tables_of([output], work, config))
    (result,) = run(select(list(map(str, sources)), config), targets, work, config, log=log, show=False)
    return result.photos, result.errors, result.new


if __name__ == "__main__":
    import shades

    sources, output, engine, work = json.loads(sys.argv[1])
    Output.together = 20
    config = BatchConfig(engine=engine, workers=2)
    print(json.dumps(made(sources, output, shades.Shade(**work), config, print)))
