"""The page of a review in a headless Chromium, by keys alone, against a real server with a model of no size."""

from collections.abc import Callable
from pathlib import Path

import pytest
from builders import shape_photo, shape_scenes
from commands import sat, settings
from playwright.sync_api import Page, expect
from reviewing import Start, captions, serving_review, write_table

from show_attend_tell.captioner import Captioner
from show_attend_tell.review.table import read_table
from show_attend_tell.show.sidecar import sidecar_of

Visit = Callable[[str], Page]
CURRENT = '.cell[aria-selected="true"]'
SERVER = """
import sys
from pathlib import Path
from reviewing import Parrot
from show_attend_tell.review.running import serving

folder = Path(sys.argv[1])
photos = sorted(folder.glob("*.png"))
with serving(folder / "captions.csv", photos, Parrot, model="parrot", cache=folder / "cache") as server:
    print(server.address, flush=True)
    server.serve_forever()
"""


@pytest.fixture
def visit(open_page: Callable[..., Page]) -> Visit:
    """Opens a page of a review, and waits until keys are heard."""

    def visited(address: str) -> Page:
        page = open_page(address, viewport={"width": 1280, "height": 800})
        expect(page.locator(CURRENT).first).to_be_focused()
        return page

    return visited


def names(page: Page) -> list[str]:
    """The cards in view, in order."""
    return [text.split(" · ")[-1] for text in page.locator(".cell .state").all_inner_texts()]


def decide_by_keys(page: Page) -> None:
    """Decide all photos but two, e and m."""
    page.keyboard.press("Enter")  # accept a
    page.keyboard.press("2")  # take "a boat here" for b
    page.keyboard.press("e")  # edit c
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.type(" and there")
    page.keyboard.press("Enter")
    page.keyboard.press("x")  # leave d out
    page.keyboard.press("Enter")  # accept e
    page.keyboard.press("Backspace")  # and take it back
    expect(page.locator(f"{CURRENT} .state")).to_contain_text("e.png")
    page.keyboard.press("a")  # alternative text of e
    page.keyboard.type("the letter e")
    page.keyboard.press("Enter")
    expect(page.locator("#sentence")).to_contain_text("4 of 13 reviewed")
    expect(page.locator("#saved")).to_have_text("Saved")
    expect(page.locator("#live")).to_contain_text("Now 6 of 13")  # to a screen reader
    page.get_by_role("button", name="owl instead of f").click()
    expect(page.locator("#caption")).to_have_text("an owl here")
    for name in "fghijkl":
        expect(page.locator(f"{CURRENT} .state")).to_contain_text(f"{name}.png")
        page.keyboard.press("1")
    expect(page.locator("#sentence")).to_contain_text("11 of 13 reviewed")
    expect(page.locator("#saved")).to_have_text("Saved")


def test_from_a_folder_by_keys_through_a_kill_to_a_model_whose_captions_are_taken(
    visit: Visit, start: Start, tmp_path: Path, small: None
) -> None:
    for name, scene in zip("abcdefghijklm", shape_scenes(13), strict=True):
        shape_photo(*scene).save(tmp_path / f"{name}.png")
    process, address = start("-c", SERVER, tmp_path)
    page = visit(address)
    expect(page.locator("#sentence")).to_contain_text("0 of 13 reviewed")
    expect(page.locator(".cell .check").first).to_have_text("a")
    decide_by_keys(page)
    process.kill()
    process.wait()
    expect(page.locator("#problem")).to_contain_text("start sat review again")

    process, address = start("-c", SERVER, tmp_path)
    page = visit(address)
    expect(page.locator("#sentence")).to_contain_text("11 of 13 reviewed")
    page.get_by_role("button", name="Save…").click()
    page.get_by_label("and sidecars").check()
    page.locator("#save .main").click()
    expect(page.locator("#save output")).to_contain_text("10 sidecars written")
    rows = {row.key: row.decided for row in read_table(tmp_path / "captions.csv").rows}
    assert [(rows[f"{name}.png"].caption, rows[f"{name}.png"].reviewed) for name in "abcde"] == [
        ("a a here", "accepted"),
        ("a boat here", "edited"),
        ("a c here and there", "edited"),
        ("a d here", "left out"),
        ("a e here", ""),
    ]
    assert rows["e.png"].alt_text == "the letter e"
    assert "a boat here" in sidecar_of(tmp_path / "b.png").read_text(encoding="utf-8")
    process.kill()
    process.wait()

    model = tmp_path / "model"
    options = ("--attention", "soft", "--epochs", 2, "--init-from", "none", *settings(minimum_count=1))
    assert "train: 8 photos, 8 captions" in sat("train", tmp_path, "--output", model, *options).output
    table = tmp_path / "captions.csv"
    with serving_review(table, load=lambda: Captioner.from_pretrained(str(model)), compare=True) as server:
        page = visit(server.address)
        page.locator("[name=state]").select_option("differs")
        expect(page.locator("#count")).to_have_text("2 shown")
        expect(page.locator("#name")).to_have_text("e.png")
        expect(page.locator("#choices small").first).to_contain_text("by parrot")
        taken = page.locator("#choices button").first.inner_text().removesuffix("by parrot").strip()
        page.locator(".cell").first.click()
        page.keyboard.press("1")
        expect(page.locator("#sentence")).to_contain_text("12 of 13 reviewed")
    assert (taken, "accepted") in [(row.caption, row.reviewed) for row in read_table(table).rows]


def test_what_is_done_to_many_and_undone_as_one(visit: Visit, tmp_path: Path) -> None:
    with serving_review(write_table(tmp_path)) as server:
        page, other = visit(server.address), visit(server.address)
        page.bring_to_front()
        assert names(page) == ["a.png", "b.png", "c.png", "d.png", "e.png"]  # the least trusted first
        page.get_by_role("button", name="Replace…").click()
        page.locator("[name=old]").fill("a")
        page.locator("[name=new]").fill("one")
        expect(page.locator("#replace output")).to_contain_text("4 captions change.\none red dog")
        page.locator("#replace .main").click()
        expect(page.locator("#replace output")).to_contain_text("Done")
        page.keyboard.press("Escape")
        page.locator("[name=word]").fill("one")
        expect(page.locator("#count")).to_have_text("4 shown")
        page.get_by_role("button", name="Accept shown…").click()
        expect(page.locator("#accept output")).to_contain_text("4 captions")
        page.locator("#accept .main").click()
        expect(page.locator("#sentence")).to_contain_text("4 of 5 reviewed")
        expect(other.locator("#sentence")).to_contain_text("4 of 5 reviewed")  # the other window follows
        expect(other.locator(".cell .said").first).to_have_text("one red dog")
        page.locator(".cell").first.click()
        page.keyboard.press("Backspace")
        expect(page.locator("#sentence")).to_contain_text("0 of 5 reviewed")
        page.keyboard.press("Backspace")
        expect(page.locator(".cell .said").first).to_have_text("a red dog")

        page.keyboard.press("?")
        page.get_by_label("Letters, digits and ? are keys").uncheck()
        page.keyboard.press("Escape")
        page.locator(".cell").first.click()
        page.keyboard.press("x")
        page.keyboard.press("Enter")
        expect(page.locator("#sentence")).to_contain_text("1 of 5 reviewed")
        assert captions(server.answers.review)["a.png"][1] == "accepted"  # and not left out

        page.keyboard.press("Home")
        page.get_by_role("button", name="Edit").click()
        page.locator("#text").fill("a green dog")
        page.locator(".cell").nth(2).click()  # which saves what is written, for its own photo
        expect(page.locator("#saved")).to_have_text("Saved")
        assert captions(server.answers.review)["a.png"] == ("a green dog", "edited")
        page.get_by_role("button", name="Teach…").click()
        page.locator("#teach .main").click()
        expect(page.locator("#count")).to_have_text("4 shown")
        expect(page.locator("#caption")).to_have_text("Write what you see (E).")


def test_only_what_is_in_view_is_in_the_page(visit: Visit, tmp_path: Path) -> None:
    table = tmp_path / "captions.csv"
    lines = [f"{number:05}.png,a photo,0.5," for number in range(20_000)]
    table.write_text("\n".join(["source,caption,confidence,to_check", *lines, ""]), encoding="utf-8")
    with serving_review(table) as server:
        page = visit(server.address)
        expect(page.locator(".cell .said").first).to_have_text("a photo")
        assert page.locator(".cell").count() < 60
        page.keyboard.press("End")
        expect(page.locator(f"{CURRENT} .state")).to_contain_text("19999.png")
        assert page.locator(".cell").count() < 60
        page.keyboard.press("Home")
        expect(page.locator(f"{CURRENT} .state")).to_contain_text("00000.png")
