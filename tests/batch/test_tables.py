"""Rows of captions as the bytes of a table."""

import csv
import io

import pytest

from show_attend_tell.batch.tables import DIALECTS, read_rows, write_rows

ROWS = [
    {"source": "=1+1.jpg", "caption": "+ 3 dogs", "log_probability": -9.5},
    {"source": "@SUM(1).jpg", "caption": "=HYPERLINK(1)", "log_probability": -0.5},
    {"source": "-2.jpg", "caption": "a dog", "log_probability": -1.0},
    {"source": "photos/=3.jpg", "caption": None, "log_probability": None},
]


@pytest.mark.parametrize("form", DIALECTS)
def test_no_cell_of_a_table_is_a_formula(form):
    stream = io.BytesIO()
    write_rows(stream, ROWS, dict.fromkeys(ROWS[0], ""), form)
    _, *cells = csv.reader(io.StringIO(stream.getvalue().decode(), newline=""), dialect=DIALECTS[form])
    assert [(source, caption) for source, caption, _ in cells] == [
        ("./=1+1.jpg", " + 3 dogs"),
        ("./@SUM(1).jpg", " =HYPERLINK(1)"),
        ("./-2.jpg", "a dog"),
        ("photos/=3.jpg", ""),
    ]
    assert [number for *_, number in cells] == ["-9.5", "-0.5", "-1.0", ""]
    stream.seek(0)
    again = [(row["source"], row["caption"]) for row in read_rows(stream, form)]
    assert again == [(row["source"], row["caption"]) for row in ROWS]
