"""What an edited table becomes for other programs: sidecars, JSON lines, an imagefolder, COCO's form, alt texts."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from show_attend_tell.errors import SatError
from show_attend_tell.review.table import Row
from show_attend_tell.show.sidecar import REVIEW, Outcome, SidecarSettings, summary, write_sidecar

OPTIONS = SidecarSettings(replace="own")  # a caption of an earlier run gives way to what is reviewed


def for_sidecars(rows: Iterable[Row], above: float | None) -> list[Row]:
    """The rows whose captions people have reviewed, and others whose confidence is ``above`` this; None for none."""
    chosen = []
    for row in rows:
        decided = row.decided
        if not decided.caption or decided.reviewed == "left out":
            continue
        trusted = above is not None and row.confidence is not None and row.confidence >= above
        if decided.reviewed or trusted:
            chosen.append(row)
    return chosen


def write_sidecars(rows: Iterable[Row]) -> tuple[list[str], list[str]]:
    """Write captions into sidecars; returns what became of them, in sentences, and what went wrong."""
    outcomes: Counter[Outcome] = Counter()
    problems = []
    for row in rows:
        model = REVIEW if row.decided.reviewed else "unreviewed"
        try:
            outcomes[write_sidecar(row.path, row.decided.caption, model=model, options=OPTIONS)] += 1
        except SatError as error:
            problems.append(str(error))
    return summary(outcomes), problems


def jsonl(rows: Sequence[Row], folder: Path) -> str:
    """A line for each photo: its path, its caption and who is behind it."""
    return _lines(
        [{"photo": row.source, "caption": row.decided.caption, "reviewed": row.decided.reviewed} for row in rows]
    )


def imagefolder(rows: Sequence[Row], folder: Path) -> str:
    """The ``metadata.jsonl`` of a Hugging Face imagefolder; raises `SatError` for a photo outside of the folder."""
    outside = [row.source for row in rows if not row.path.is_relative_to(folder.absolute())]
    if outside:
        raise SatError(
            f"is not in {folder}, and an imagefolder holds its photos",
            subject=outside[0],
            remedy="name a file in the folder of the photos: --output photos/metadata.jsonl",
        )
    names = [row.path.relative_to(folder.absolute()).as_posix() for row in rows]
    return _lines([{"file_name": name, "text": row.decided.caption} for name, row in zip(names, rows, strict=True)])


def coco(rows: Sequence[Row], folder: Path) -> str:
    """Images and annotations as COCO has them."""
    numbers = {path: number for number, path in enumerate(dict.fromkeys(row.path for row in rows), start=1)}
    names = {row.path: row.source for row in rows}
    images = [{"id": number, "file_name": names[path]} for path, number in numbers.items()]
    annotations = [
        {"id": number, "image_id": numbers[row.path], "caption": row.decided.caption}
        for number, row in enumerate(rows, start=1)
    ]
    return json.dumps({"images": images, "annotations": annotations}, ensure_ascii=False, indent=1) + "\n"


def alt(rows: Sequence[Row], folder: Path) -> str:
    """A table of photos and their alternative texts, of a decorative photo an empty one; a caption is none."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["source", "alt"])
    described = [row for row in rows if row.decided.alt_text or row.decided.decorative]
    writer.writerows([row.source, row.decided.alt_text] for row in described)
    return file.getvalue()


FORMATS: dict[str, tuple[str, Callable[[Sequence[Row], Path], str]]] = {  # with the usual name of the file
    "jsonl": ("captions.jsonl", jsonl),
    "imagefolder": ("metadata.jsonl", imagefolder),
    "coco": ("captions.json", coco),
    "alt": ("alt.csv", alt),
}


def _lines(records: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
