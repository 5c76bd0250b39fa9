"""Tables that `sat caption` writes as a whole."""

import io
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence

from show_attend_tell.batch.output import ANOTHER, Output, stored
from show_attend_tell.batch.tables import write_rows
from show_attend_tell.batch.work import Row
from show_attend_tell.errors import SatError

HEADS = (b"source", b'{"source"', b"PAR1")  # how a table of captions begins


def open_plain(target: str, columns: Mapping[str, str], *, overwrite: bool) -> Output:
    """A table that is written as a whole. Raises `SatError` for a file that is none, or that a run goes on with."""
    table = Output(target, {}, folder=False)
    table.columns = dict(columns)
    if not overwrite and table.system.exists(table.file):
        if table.has_manifest:
            raise SatError("holds rows of a run with other photos or settings", subject=target, remedy=ANOTHER)
        head = table.system.head(table.file, 20).removeprefix(BOM_UTF8)
        if head and not head.startswith(HEADS):
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
