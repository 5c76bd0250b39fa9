"""Rows of a table as the bytes of a file: CSV, TSV, JSON Lines or Parquet."""

import base64
import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import IO

from show_attend_tell.batch.sources import pyarrow_parquet
from show_attend_tell.batch.work import Row, as_table

FORMS = ("csv", "tsv", "jsonl", "parquet")
DIALECTS = {"csv": "excel", "tsv": "excel-tab"}
TOGETHER = 1000  # rows that are held in memory
# What stands before a text that a spreadsheet would take for a formula, by its column; `read_rows` takes it away.
GUARDS = {"source": "./", "caption": " ", "model_caption": " ", "other_caption": " ", "alt_text": " "}
FORMULA = re.compile(r"[=+@-]")


def write_rows(stream: IO[bytes], rows: Iterable[Row], columns: Mapping[str, str], form: str) -> None:
    """Write rows in one of the `FORMS`; ``columns`` are their names with Arrow's names of their types."""
    if form == "parquet":
        with pyarrow_parquet().ParquetWriter(stream, as_table([], columns).schema) as writer:
            rows = iter(rows)
            while several := list(islice(rows, TOGETHER)):
                writer.write_table(as_table(several, columns))
    elif form == "jsonl":
        for row in rows:
            text = json.dumps(row, ensure_ascii=False, default=lambda held: base64.b64encode(held).decode())
            stream.write(text.encode("utf-8", "backslashreplace") + b"\n")
    else:
        rows = iter(rows)
        first = next(rows, {})
        lines = io.TextIOWrapper(stream, "utf-8", "backslashreplace", newline="", write_through=True)
        names = {**columns, **first}
        table = csv.DictWriter(lines, names, extrasaction="ignore", dialect=DIALECTS[form], lineterminator="\n")
        table.writeheader()
        table.writerows(map(_guarded, chain([first] if first else [], rows)))
        lines.detach()


def read_rows(stream: IO[bytes], form: str, names: Iterable[str] | None = None) -> Iterator[Row]:
    """The rows of a file that `write_rows` wrote, of Parquet only the columns ``names``; `ValueError` if damaged."""
    if form == "parquet":
        with pyarrow_parquet().ParquetFile(stream) as table:
            for batch in table.iter_batches(TOGETHER, columns=names):
                yield from batch.to_pylist()
    elif form == "jsonl":
        yield from map(json.loads, stream)
    else:
        lines = io.TextIOWrapper(stream, "utf-8-sig", newline="")
        try:
            for row in csv.DictReader(lines, dialect=DIALECTS[form]):
                if None in row:  # a person wrote a comma without quotes
                    raise ValueError(f"too many cells: {row['source']}")
                yield {name: _unguarded(name, value) or None for name, value in row.items()}
        finally:
            lines.detach()


def _guarded(row: Row) -> Row:
    """A row in which no spreadsheet sees a formula."""
    guards = {name: guard for name, guard in GUARDS.items() if FORMULA.match(str(row.get(name)))}
    return {**row, **{name: f"{guard}{row[name]}" for name, guard in guards.items()}}


def _unguarded(name: str, value: str | None) -> str | None:
    """The value of a column as it was before `_guarded`."""
    guard = GUARDS.get(name, "")
    if value and guard and value.startswith(guard) and FORMULA.match(value, len(guard)):
        return value.removeprefix(guard)
    return value
