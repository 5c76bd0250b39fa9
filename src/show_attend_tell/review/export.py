"""What an edited table becomes for other programs: sidecars, JSON lines, an imagefolder, COCO's form, alt texts."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from show_attend_tell.errors import SatError
from show_attend_tell.review.table import Row, spelling
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


def exported(form: str, rows: Sequence[Row], folder: Path) -> str:
    """The content of a file in a folder, in one of the forms of `NAMES`.

    Raises `SatError` for an imagefolder without one of its photos.
    """
    names = [spelling(row.path, folder) for row in rows]
    named = list(zip(names, rows, strict=True))
    if form == "jsonl":
        return _lines(
            {"photo": name, "caption": row.decided.caption, "reviewed": row.decided.reviewed} for name, row in named
        )
    if form == "imagefolder":
        outside = [name for name in names if Path(name).is_absolute()]
        if outside:
            raise SatError(
                f"is not in {folder}, and an imagefolder holds its photos",
                subject=outside[0],
                remedy="name a file in the folder of the photos: --output photos/metadata.jsonl",
            )
        return _lines({"file_name": name, "text": row.decided.caption} for name, row in named)
    if form == "coco":
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names), start=1)}
        images = [{"id": number, "file_name": name} for name, number in numbers.items()]
        annotations = [
            {"id": number, "image_id": numbers[name], "caption": row.decided.caption}
            for number, (name, row) in enumerate(named, start=1)
        ]
        return json.dumps({"images": images, "annotations": annotations}, ensure_ascii=False, indent=1) + "\n"
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["source", "alt"])
    for name, row in named:
        if row.decided.alt_text or row.decided.decorative:  # a caption is no alternative text
            writer.writerow([name, row.decided.alt_text])
    return file.getvalue()


NAMES = {  # of the files
    "jsonl": "captions.jsonl",
    "imagefolder": "metadata.jsonl",
    "coco": "captions.json",
    "alt": "alt.csv",  # of a decorative photo an empty one
}


def _lines(records: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
