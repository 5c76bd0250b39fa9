"""What is decided of a row, in which order rows are shown, and when to stop."""

from pathlib import Path

import pytest

from show_attend_tell.errors import InvalidValue, SatError
from show_attend_tell.review.deciding import accepted, choices, described, drawn, instead, left_out, replaced, written
from show_attend_tell.review.order import View, shown
from show_attend_tell.review.stopping import DRAW, forecast
from show_attend_tell.review.table import Decided, Row, read_table, table_bytes


def row(key: str = "a.png", caption: str = "a red dog", confidence: float | None = 0.5, **decided: str) -> Row:
    made = Row(Path("/photos", key), key, key, Decided(caption, **decided), "a red dog", confidence)
    made.alternatives = ["a red cat", "a dog"]
    return made


@pytest.mark.parametrize(
    ("before", "text", "reviewed"),
    [
        (row(), " a blue\ndog ", "edited"),
        (row(), "a red dog", "accepted"),  # nothing was changed
        (row(split="val"), "a red dog", "written"),  # without seeing the model's
        (Row(Path("b.png"), "b.png", "b.png"), "a blue dog", "written"),
        (row(reviewed="written"), "a blue dog", "written"),
        (row(reviewed="accepted"), "a blue dog", "edited"),
    ],
)
def test_what_a_person_writes_is_told_from_what_is_changed(before: Row, text: str, reviewed: str) -> None:
    after = written(before, text)
    assert (after.caption, after.reviewed) == (" ".join(text.split()), reviewed)


def test_a_caption_of_another_model_that_is_taken_is_not_a_persons() -> None:
    compared = row()
    compared.offered = "a red fox"
    assert written(compared, "a red fox") == Decided("a red fox", "accepted")


def test_the_other_decisions() -> None:
    assert accepted(row()).reviewed == "accepted"
    assert accepted(row(reviewed="edited")).reviewed == "edited"  # looked at again
    assert left_out(row()).reviewed == "left out" and left_out(row(reviewed="left out")).reviewed == ""
    assert described(row(), " a  dog ", False).alt_text == "a dog"
    assert described(row(), "a dog", True)._asdict().items() >= {"alt_text": "", "decorative": "yes"}.items()
    for wrong in (lambda: accepted(row(split="val")), lambda: accepted(row(caption="")), lambda: written(row(), " ")):
        with pytest.raises(InvalidValue):
            wrong()


def test_other_captions_to_take_and_words_to_say_instead() -> None:
    assert choices(row()) == ["a red cat", "a dog"]
    assert choices(row(caption="a dog", other_caption="their dog")) == ["their dog", "a red cat", "a red dog"]
    assert choices(row(split="val")) == []
    others = ["a red cat on grass", "a blue dog", "a dark blue dog", "a red car"]
    assert instead("a red dog", others) == {1: ["blue", "dark blue"], 2: ["cat on grass", "car"]}


@pytest.mark.parametrize(
    ("caption", "old", "new", "after"),
    [
        ("a Dog and a hotdog", "dog", "cat", "a cat and a hotdog"),
        ("a dog", "dog", r"\1", r"a \1"),
        ("a big red dog", "big red", "", "a dog"),
        ("dog", "dog", "", "dog"),  # a caption has a word
    ],
)
def test_whole_words_are_replaced(caption: str, old: str, new: str, after: str) -> None:
    assert replaced(row(caption=caption), old, new) == Decided(after)
    reviewed = "accepted" if caption == after else "edited"
    assert replaced(row(caption=caption, reviewed="accepted"), old, new).reviewed == reviewed


def test_the_least_trusted_come_first_and_what_is_reviewed_last() -> None:
    rows = [
        row("new.png", ""),
        row("sub/sure.png", confidence=0.9),
        row("done.png", confidence=0.1, reviewed="edited"),
        row("sub/deep/doubt.png", confidence=0.2),
        row("unknown.png", confidence=None),
    ]

    def keys(**view: str) -> list[str]:
        return [each.key for each in shown(rows, View(**view), {"new.png"})]

    assert keys() == ["sub/deep/doubt.png", "unknown.png", "sub/sure.png", "done.png", "new.png"]
    assert keys(sort="name")[0] == "done.png"
    assert keys(folder="sub") == ["sub/deep/doubt.png", "sub/sure.png"]
    assert keys(word="DOG re", folder="sub/deep") == ["sub/deep/doubt.png"] and keys(word="og") == []
    assert keys(state="edited") == ["done.png"] and keys(state="drawn") == ["new.png"]
    rows[1].offered, rows[3].offered = "a red dog here", "something else"
    assert keys(sort="change")[:2] == ["sub/deep/doubt.png", "sub/sure.png"]
    with pytest.raises(InvalidValue):
        keys(sort="sideways")


def test_how_many_of_the_rest_are_wrong_follows_the_photos_drawn_at_random() -> None:
    rows = [row(f"{number}.png", confidence=0.75) for number in range(500)]
    alone = forecast(rows, set())
    assert alone.reviewed == 0 and 200 < alone.wrong < 300  # 1 − 0.75³ of them
    sample = drawn(rows, DRAW, seed=3)
    assert len({each.key for each in sample}) == DRAW == len(drawn(rows, DRAW, seed=4))
    for each in sample:
        each.decided = accepted(each)
    right = forecast(rows, {each.key for each in sample})
    assert right.checked == DRAW and right.wrong < alone.wrong / 2
    for each in sample:
        each.decided = written(each, "something else")
    wrong = forecast(rows, {each.key for each in sample})
    assert alone.wrong < wrong.wrong <= 480
    assert forecast(rows, set()).wrong == pytest.approx(alone.wrong * 480 / 500)  # others tell nothing of the rest
    assert str(DRAW) in alone.sentence() and "20 of 500" in wrong.sentence()


def test_tables_of_several_forms(tmp_path: Path) -> None:
    def rows_of(text: str) -> list[Row]:
        return read_table(text.encode(), tmp_path / "captions.csv").rows

    one, two = rows_of("photo\tcaption\nsub/a.png\tOne.\nsub/a.png\tTwo.\n")
    assert (one.key, two.key) == ("sub/a.png", "sub/a.png#2")
    assert one.decided == Decided("One.", "written") and one.model_caption == ""  # by people
    assert one.path == tmp_path / "sub/a.png"
    (tmp_path / "images").mkdir()
    (tmp_path / "images/b.png").touch()
    assert [row.key for row in rows_of("photo,caption\nb.png,One\n")] == ["images/b.png"]  # of a data folder
    (made,) = rows_of('source,caption,confidence,to_check\na.png,"a dog, red",0.25,"dog, red"\n')
    assert made.to_check == ["dog", "red"] and made.confidence == 0.25 and made.model_caption == "a dog, red"
    made.decided = Decided("ein großer Hund", "edited", split="val")
    (again,) = read_table(table_bytes(["source", "notes"], [made]), tmp_path / "captions.csv").rows
    assert again == Row(**{**vars(made), "more": {"notes": ""}})
    made.decided, made.source, made.more = Decided("=1+1", "edited"), "-a.png", {"log_probability": "-7.5"}
    content = table_bytes(["source", "log_probability"], [made])
    assert b"./-a.png,-7.5, =1+1," in content  # no cell is a formula
    (again,) = read_table(content, tmp_path / "captions.csv").rows
    assert (again.source, again.decided.caption, again.path) == ("-a.png", "=1+1", tmp_path / "-a.png")
    for wrong in ("", "a,b\n1,2\n", 'source,caption\na.png,"open\n'):
        with pytest.raises(SatError):
            rows_of(wrong)
