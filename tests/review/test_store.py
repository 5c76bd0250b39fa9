"""Nothing is lost: decisions, undo, snapshots, a table that another program changes, a process that is killed."""

import os
import random
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT
from reviewing import act, captions, opened, write_table

from show_attend_tell.errors import SatError
from show_attend_tell.review import deciding
from show_attend_tell.review.journal import Journal
from show_attend_tell.review.store import Review
from show_attend_tell.review.table import read_table


def write(review: Review, key: str, text: str) -> None:
    review.decide("write", {key: deciding.written(review.by_key[key], text)})


def in_table(table: Path) -> dict[str, str]:
    return {row.key: row.caption for row in read_table(table).rows}


def change(table: Path, old: str, new: str) -> None:
    """Another program changes the table."""
    text = table.read_text(encoding="utf-8")
    assert old in text
    table.write_text(text.replace(old, new, 1), encoding="utf-8")


STEPS = """
import random, sys
from pathlib import Path
from reviewing import act, opened

review, chance = opened(Path(sys.argv[1])), random.Random(int(sys.argv[2]))
for step in range(10_000):
    act(review, chance, step)
    print(step, flush=True)
"""


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment_it_has_all_that_was_confirmed(tmp_path, seed):
    (tmp_path / "killed").mkdir()
    (tmp_path / "told").mkdir()
    table = write_table(tmp_path / "killed")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests/helpers'}"}
    command = [sys.executable, "-c", STEPS, str(table), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(random.Random(seed).randrange(7, 60))]
        process.kill()
        lines += process.stdout.readlines()
    confirmed = len(lines) if lines[-1].endswith("\n") else len(lines) - 1

    restored, told, chance = opened(table), opened(write_table(tmp_path / "told")), random.Random(seed)
    for step in range(confirmed):
        act(told, chance, step)
    possible = [captions(told)]
    act(told, chance, confirmed)  # which was under way
    possible.append(captions(told))
    assert captions(restored) in possible
    while restored.undo():
        pass
    assert {key: text for key, (text, _) in captions(restored).items()} == in_table(write_table(tmp_path / "told"))


@pytest.mark.parametrize("again", [False, True])  # after it was killed
@pytest.mark.parametrize(
    ("mine", "their", "caption", "other"),
    [
        ("a red dog", "a red dog", "a red dog", ""),
        ("my dog", "a red dog", "my dog", ""),
        ("a red dog", "their dog", "their dog", ""),
        ("our dog", "our dog", "our dog", ""),
        ("my dog", "their dog", "my dog", "their dog"),  # both are kept
    ],
)
def test_a_table_that_another_program_changed_is_merged(tmp_path, again, mine, their, caption, other):
    table = write_table(tmp_path)
    review = opened(table)
    write(review, "b.png", "three cats")
    review.save()
    write(review, "c.png", "an owl")
    if mine != "a red dog":
        write(review, "a.png", mine)
    change(table, "a red dog", their)
    if again:
        review = opened(table)
    review.save()
    row = review.by_key["a.png"]
    assert (row.caption, row.decided.other_caption) == (caption, other)
    assert captions(review)["b.png"] == ("three cats", "edited") and captions(review)["c.png"][0] == "an owl"
    assert captions(opened(table)) == captions(review)
    assert in_table(table)["a.png"] == caption and (other or "a") in table.read_text(encoding="utf-8")
    assert (row.reviewed == "") == (caption == "a red dog")


@pytest.mark.parametrize("again", [False, True])  # after it was killed
def test_a_copy_that_another_program_read_long_ago_takes_nothing_back(tmp_path, again):
    table = write_table(tmp_path)
    review = opened(table)
    review.save()
    old = table.read_text(encoding="utf-8")
    write(review, "a.png", "my dog")
    write(review, "b.png", "my cats")
    review.save()
    table.write_text(old.replace("two cats", "their cats", 1).replace("a man", "their man", 1), encoding="utf-8")
    if again:
        review = opened(table)
    review.save()
    assert captions(review)["a.png"] == ("my dog", "edited")
    assert captions(review)["b.png"] == ("my cats", "edited") and captions(review)["d.png"] == ("their man", "edited")
    assert review.by_key["b.png"].decided.other_caption == "their cats"


def test_what_excel_makes_of_a_table_is_read_again(tmp_path):
    """Semicolons, Windows' letters, a row and a column more."""
    table = write_table(tmp_path)
    review = opened(table)
    write(review, "a.png", "a dog in a café")
    review.save()
    lines = table.read_text(encoding="utf-8-sig").replace(",", ";").splitlines()
    lines = [f"{lines[0]};notes", *(f"{line};mine" for line in lines[1:]), "new.png;a new one;0,5;;;;of today"]
    table.write_bytes("\r\n".join(lines).encode("cp1252"))
    review.look_at_table()
    assert captions(review)["a.png"] == ("a dog in a café", "edited")
    assert captions(review)["new.png"] == ("a new one", "") and review.by_key["new.png"].confidence == 0.5
    review.save()
    assert "notes" in table.read_text(encoding="utf-8-sig").splitlines()[0]
    assert review.by_key["a.png"].more == {"notes": "mine"}


def test_a_damaged_table_is_not_written_over(tmp_path):
    table = write_table(tmp_path)
    review = opened(table)
    write(review, "a.png", "my dog")
    table.write_text("something else", encoding="utf-8")
    with pytest.raises(SatError, match="source"):
        review.save()
    assert table.read_text(encoding="utf-8") == "something else"
    write_table(tmp_path)
    assert captions(opened(table))["a.png"] == ("my dog", "edited")


def test_a_full_disk_costs_the_decision_and_nothing_else(tmp_path):
    table = write_table(tmp_path)
    review = opened(table)
    write(review, "a.png", "my dog")
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:  # a file may grow by 20 bytes, so that part of the line is written
        resource.setrlimit(resource.RLIMIT_FSIZE, (review.journal.file.stat().st_size + 20, limit[1]))
        with pytest.raises(SatError, match="make room"):
            write(review, "b.png", "three cats")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)
    assert captions(review)["b.png"] == ("two cats", "")
    write(review, "c.png", "an owl")
    assert captions(opened(table)) == captions(review)


def test_a_line_that_was_cut_off_was_never_confirmed(tmp_path):
    journal = Journal(tmp_path / "journal")
    journal.append({"undo": 1})
    with open(journal.file, "ab") as file:
        file.write(b'not json\n{"undo": 1')
    again = Journal(journal.file)
    assert again.entries() == [{"undo": 1}]
    again.append({"drawn": []})
    assert again.entries() == [{"undo": 1}, {"drawn": []}]
