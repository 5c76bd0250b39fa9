"""What an edited table becomes for other programs: sidecars, JSON lines, an imagefolder, COCO's form, alt texts."""

import io
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from show_attend_tell.batch.tables import write_rows
from show_attend_tell.errors import SatError
from show_attend_tell.review.table import Row, spelling
from show_attend_tell.show.sidecar import REVIEW, Outcome, SidecarSettings, summary, write_sidecar

OPTIONS = SidecarSettings(replace="own")  # a caption of an earlier run gives way to what is reviewed
NAMES = {  # of the files
    "jsonl": "captions.jsonl",
    "imagefolder": "metadata.jsonl",
    "coco": "captions.json",
    "alt": "alt.csv",  # of a decorative photo an empty one
}


def for_sidecars(rows: Iterable[Row], above: float | None) -> list[Row]:
    """The rows whose captions people have reviewed, and others whose confidence is ``above`` this; None for none."""
    chosen = []
    for row in rows:
        trusted = above is not None and row.confidence is not None and row.confidence >= above
        if row.caption and row.reviewed != "left out" and (row.reviewed or trusted):
            chosen.append(row)
    return chosen


def with_alt(rows: Iterable[Row]) -> list[Row]:
    """The rows with an alternative text, or that are decorative: a person said so, whatever became of the caption."""
    return [row for row in rows if (row.decided.alt_text or row.decided.decorative) and row.reviewed != "left out"]


def write_sidecars(rows: Iterable[Row], *, alt: bool) -> tuple[list[str], list[str]]:
    """Write captions, and with ``alt`` alternative texts, into sidecars.

    Returns what became of them, in sentences, and what went wrong.
    """
    outcomes: Counter[Outcome] = Counter()
    problems = []
    for row in rows:
        model = REVIEW if row.reviewed else "unreviewed"
        alt_text = row.decided.alt_text if alt else None
        try:
            outcomes[write_sidecar(row.path, row.caption, model=model, options=OPTIONS, alt_text=alt_text)] += 1
        except SatError as error:
            problems.append(str(error))
    return summary(outcomes), problems


def exported(form: str, rows: Sequence[Row], folder: Path) -> str:
    """The content of a file in a folder, in one of the forms of `NAMES`.

    Raises `SatError` for an imagefolder without one of its photos.
    """
    named = [(spelling(row.path, folder), row.decided) for row in rows]
    names = list(dict.fromkeys(name for name, _ in named))
    if form == "coco":
        numbers = {name: number for number, name in enumerate(names, start=1)}
        images = [{"id": number, "file_name": name} for name, number in numbers.items()]
        annotations = [
            {"id": number, "image_id": numbers[name], "caption": decided.caption}
            for number, (name, decided) in enumerate(named, start=1)
        ]
        return json.dumps({"images": images, "annotations": annotations}, ensure_ascii=False, indent=1) + "\n"
    if form == "jsonl":
        records = [{"photo": name, "caption": decided.caption, "reviewed": decided.reviewed} for name, decided in named]
    elif form == "imagefolder":
        outside = [name for name in names if Path(name).is_absolute()]
        if outside:
            raise SatError(
                f"is not in {folder}, and an imagefolder holds its photos",
                subject=outside[0],
                remedy="name a file in the folder of the photos: --output photos/metadata.jsonl",
            )
        records = [{"file_name": name, "text": decided.caption} for name, decided in named]
    else:  # a caption is no alternative text
        records = [{"source": name, "alt": decided.alt_text} for name, decided in named]
    stream = io.BytesIO()
    write_rows(stream, records, {"source": "", "alt": ""}, "csv" if form == "alt" else "jsonl")
    return stream.getvalue().decode()
