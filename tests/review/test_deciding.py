"""What is decided of a row, in which order rows are shown, when to stop, and what a table holds."""

from pathlib import Path

import pytest

from show_attend_tell.errors import InvalidValue, SatError
from show_attend_tell.review.deciding import accepted, choices, described, drawn, exchanged, left_out, replaced, written
from show_attend_tell.review.order import shown
from show_attend_tell.review.stopping import DRAW, Forecast, forecast
from show_attend_tell.review.table import Decided, Row, read_table, write_table


def row(key: str = "a.png", caption: str = "a red dog", confidence: float | None = 0.5, **decided: str) -> Row:
    alternatives = ["a red cat", "a dog"]
    decision = Decided(caption, **decided)
    return Row(Path(key), key, key, decision, "a red dog", confidence, alternatives=alternatives, offered="a red fox")


@pytest.mark.parametrize(
    ("before", "text", "reviewed"),
    [
        (row(), " a blue\ndog ", "edited"),
        (row(), "a red dog", "accepted"),  # nothing was changed
        (row(), "a red fox", "accepted"),  # another model's
        (row(split="val"), "a red dog", "written"),  # without seeing the model's
        (Row(Path("b.png"), "b.png", "b.png"), "a blue dog", "written"),
        (row(reviewed="written"), "a blue dog", "written"),
        (row(reviewed="accepted"), "a blue dog", "edited"),
    ],
)
def test_what_a_person_writes_is_told_from_what_is_changed(before, text, reviewed):
    assert written(before, text) == before.decided._replace(caption=" ".join(text.split()), reviewed=reviewed)


def test_the_other_decisions():
    assert accepted(row()).reviewed == "accepted"
    assert accepted(row(reviewed="edited")).reviewed == "edited"  # looked at again
    assert left_out(row()).reviewed == "left out" and left_out(row(reviewed="left out")).reviewed == ""
    assert described(row(), " a  dog ", False).alt_text == "a dog"
    assert described(row(), "a dog", True) == Decided("a red dog", decorative="yes")
    for wrong in (lambda: accepted(row(split="val")), lambda: accepted(row(caption="")), lambda: written(row(), " ")):
        with pytest.raises(InvalidValue):
            wrong()
    assert choices(row(caption="a dog", other_caption="their dog"))[:3] == ["their dog", "a red fox", "a red cat"]
    assert choices(row(split="val")) == []
    assert exchanged(row(), 1, "orange") == Decided("an orange dog", "edited")
    assert exchanged(row(caption="an owl"), 1, "dog").caption == "a dog"


@pytest.mark.parametrize(
    ("caption", "old", "new", "after"),
    [
        ("a Dog and a hotdog", "dog", "cat", "a cat and a hotdog"),
        ("a dog", "dog", r"\1", r"a \1"),
        ("a big red dog", "big red", "", "a dog"),
        ("dog", "dog", "", "dog"),  # a caption has a word
    ],
)
def test_whole_words_are_replaced(caption, old, new, after):
    reviewed = "accepted" if caption == after else "edited"
    assert replaced(row(caption=caption, reviewed="accepted"), old, new) == Decided(after, reviewed)


@pytest.mark.parametrize(
    ("view", "keys"),
    [
        ({}, "sub/deep/doubt unknown sub/sure done new"),
        ({"sort": "name"}, "done new sub/deep/doubt sub/sure unknown"),
        ({"sort": "chance"}, "sub/deep/doubt unknown sub/sure done new"),
        ({"sort": "change"}, "new done sub/deep/doubt sub/sure unknown"),
        ({"folder": "sub"}, "sub/deep/doubt sub/sure"),
        ({"folder": "sub/deep", "word": "DOG re"}, "sub/deep/doubt"),
        ({"word": "og"}, ""),
        ({"state": "edited"}, "done"),
        ({"state": "drawn"}, "new"),
    ],
)
def test_the_least_trusted_come_first_and_what_is_reviewed_last(view, keys):
    rows = [
        row("new", "", drawn="yes"),
        row("sub/sure", confidence=0.9),
        row("done", "a man", confidence=0.1, reviewed="edited"),
        row("sub/deep/doubt", confidence=0.2),
        row("unknown", confidence=None),
    ]
    assert [each.key for each in shown(rows, view)] == keys.split()


def test_how_many_of_the_rest_are_wrong_follows_the_photos_drawn_at_random():
    rows = [row(f"{number}.png", confidence=0.75) for number in range(500)]
    alone = forecast(rows)
    assert alone.reviewed == 0 and 200 < alone.wrong < 300  # 1 − 0.75³ of them
    sample = drawn(rows, DRAW, seed=3)

    def after(text: str, drawn: str) -> Forecast:
        for each in sample:
            each.decided = written(each, text)._replace(drawn=drawn)
        return forecast(rows)

    right, wrong = after("a red dog", "yes"), after("something else", "yes")
    assert right.wrong < alone.wrong / 2 and alone.wrong < wrong.wrong <= 480 and "20 of 500" in wrong.sentence()
    assert after("something else", "").wrong == pytest.approx(
        alone.wrong * 480 / 500
    )  # others tell nothing of the rest


def test_tables_of_several_forms(tmp_path):
    file = tmp_path / "captions.csv"

    def rows_of(text: str) -> list[Row]:
        file.write_text(text, encoding="utf-8")
        return read_table(file).rows

    one, two = rows_of("photo\tcaption\nsub/a.png\tOne.\nsub/a.png\tTwo.\n")
    assert (one.key, two.key) == ("sub/a.png", "sub/a.png#2")
    assert one.decided == Decided("One.", "written") and one.model_caption == ""  # by people
    assert one.path == tmp_path / "sub/a.png"
    for photo in ("images/b.png", "c.png"):
        (tmp_path / photo).parent.mkdir(exist_ok=True)
        (tmp_path / photo).touch()
    for source, photo in (("b.png", "images/b.png"), (f"elsewhere/{tmp_path.name}/c.png", "c.png")):
        (found,) = rows_of(f"photo,caption\n{source},One\n")
        assert (found.source, found.path) == (source, tmp_path / photo)  # of a data folder, of `sat caption`
    (made,) = rows_of('source,caption,confidence,to_check\na.png,"a dog, red",0.25,"dog, red"\n')
    assert made.to_check == ["dog", "red"] and made.confidence == 0.25 and made.model_caption == "a dog, red"
    made.decided = Decided("ein großer Hund", "edited", split="val")
    write_table(file, ["source", "notes"], [made])
    (again,) = read_table(file).rows
    assert again == Row(**{**vars(made), "more": {"notes": ""}})
    made.decided, made.more = Decided("=1+1", "edited"), {"log_probability": "-7.5"}
    write_table(file, ["source", "log_probability"], [made])
    assert file.read_text(encoding="utf-8").splitlines() == [
        "source,log_probability,caption,confidence,to_check,reviewed,model_caption",
        'a.png,-7.5, =1+1,0.25,"dog, red",edited,"a dog, red"',  # no cell is a formula
    ]
    assert read_table(file).rows[0].decided.caption == "=1+1"
    for wrong in ("", "a,b\n1,2\n", 'source,caption\na.png,"open\n'):
        with pytest.raises(SatError):
            rows_of(wrong)
