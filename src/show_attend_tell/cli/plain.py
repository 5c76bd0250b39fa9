"""Tables that `sat caption` writes as a whole."""

import io
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from show_attend_tell.batch.output import ANOTHER, Output, stored
from show_attend_tell.batch.tables import DAMAGED, write_rows
from show_attend_tell.batch.work import Row
from show_attend_tell.errors import SatError


def open_plain(target: str, columns: Mapping[str, str], *, overwrite: bool) -> Output:
    """A table that is written as a whole. Raises `SatError` for a file that is none, or that a run goes on with."""
    table = Output(target, {}, folder=False)
    table.columns = dict(columns)
    if overwrite or not table.system.exists(table.file) or not table.system.size(table.file):
        return table
    if table.has_manifest:
        raise SatError("holds rows of a run with other photos or settings", subject=target, remedy=ANOTHER)
    try:
        with closing(table.read(str(table.file), table.form)) as rows:
            row = next(rows, {})
    except DAMAGED:
        row = {}
    if not {"source", "caption"} <= row.keys():
        raise SatError("exists already and holds no captions", subject=target, remedy=ANOTHER)
    return table


def write_plain(table: Output, rows: Sequence[Row], log: Callable[[str], object]) -> None:
    """Write a table as a whole; one that has other rows is set aside: a person may have written into them."""
    content = io.BytesIO()
    write_rows(content, [stored(row, table.columns) for row in rows], table.columns, table.form)
    path = str(table.file)
    if table.system.exists(path):
        before = table.system.cat_file(path).removeprefix(BOM_UTF8)
        if table.has_manifest or set(before.splitlines()) - set(content.getvalue().splitlines()):
            log(f"{table.address} had other rows, which {table.set_aside()} keeps")
    table.put(path, lambda stream: stream.write(content.getvalue()))
