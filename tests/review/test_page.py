"""The page of a review in a headless Chromium, by keys alone, against a real server with a model of no size."""

from collections.abc import Callable

import pytest
from browsing import keys, press, reads, says
from builders import shape_photo, shape_scenes
from commands import sat, settings
from playwright.sync_api import Page, expect
from reviewing import captions, serving_review, write_table

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
def visit(open_page):
    """Opens a page of a review, and waits until keys are heard."""

    def visited(address):
        page = open_page(address, viewport={"width": 1280, "height": 800})
        expect(page.locator(CURRENT).first).to_be_focused()
        return page

    return visited


def names(page):
    """The cards in view, in order."""
    return [text.split(" · ")[-1] for text in page.locator(".cell .state").all_inner_texts()]


def decide_by_keys(page):
    """Decide all photos but two, e and m."""
    keys(page, "Enter")  # accept a
    keys(page, "2")  # take "a boat here" for b
    keys(page, "e")  # edit c
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.type(" and there")
    keys(page, "Enter")
    keys(page, "x")  # leave d out
    keys(page, "Enter")  # accept e
    keys(page, "Backspace")  # and take it back
    says(page, f"{CURRENT} .state", "e.png")
    keys(page, "a")  # alternative text of e
    page.keyboard.type("the letter e")
    keys(page, "Enter")
    says(page, "#sentence", "4 of 13 reviewed")
    reads(page, "#saved", "Saved")
    says(page, "#live", "Now 6 of 13")  # to a screen reader
    press(page, "owl instead of f")
    reads(page, "#caption", "an owl here")
    for name in "fghijkl":
        says(page, f"{CURRENT} .state", f"{name}.png")
        keys(page, "1")
    says(page, "#sentence", "11 of 13 reviewed")
    reads(page, "#saved", "Saved")


def test_from_a_folder_by_keys_through_a_kill_to_a_model_whose_captions_are_taken(visit, start, tmp_path, small):
    for name, scene in zip("abcdefghijklm", shape_scenes(13), strict=True):
        shape_photo(*scene).save(tmp_path / f"{name}.png")
    process, address = start("-c", SERVER, tmp_path)
    page = visit(address)
    says(page, "#sentence", "0 of 13 reviewed")
    reads(page, ".cell .check", "a")
    decide_by_keys(page)
    process.kill()
    process.wait()
    says(page, "#problem", "start sat review again")

    process, address = start("-c", SERVER, tmp_path)
    page = visit(address)
    says(page, "#sentence", "11 of 13 reviewed")
    press(page, "Save…")
    page.get_by_label("and sidecars").check()
    page.locator("#save .main").click()
    says(page, "#save output", "10 sidecars written")
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
        reads(page, "#count", "2 shown")
        reads(page, "#name", "e.png")
        says(page, "#choices small", "by parrot")
        taken = page.locator("#choices button").first.inner_text().removesuffix("by parrot").strip()
        page.locator(".cell").first.click()
        keys(page, "1")
        says(page, "#sentence", "12 of 13 reviewed")
    assert (taken, "accepted") in [(row.caption, row.reviewed) for row in read_table(table).rows]


def test_what_is_done_to_many_and_undone_as_one(visit, tmp_path):
    with serving_review(write_table(tmp_path)) as server:
        page, other = visit(server.address), visit(server.address)
        page.bring_to_front()
        assert names(page) == ["a.png", "b.png", "c.png", "d.png", "e.png"]  # the least trusted first
        press(page, "Replace…")
        page.locator("[name=old]").fill("a")
        page.locator("[name=new]").fill("one")
        says(page, "#replace output", "Captions that change: 4.\none red dog")
        page.locator("#replace .main").click()
        says(page, "#replace output", "Done")
        keys(page, "Escape")
        page.locator("[name=word]").fill("one")
        reads(page, "#count", "4 shown")
        press(page, "Accept shown…")
        says(page, "#accept output", "nobody has reviewed: 4")
        page.locator("#accept .main").click()
        says(page, "#sentence", "4 of 5 reviewed")
        says(other, "#sentence", "4 of 5 reviewed")  # the other window follows
        reads(other, ".cell .said", "one red dog")
        page.locator(".cell").first.click()
        keys(page, "Backspace")
        says(page, "#sentence", "0 of 5 reviewed")
        keys(page, "Backspace")
        reads(page, ".cell .said", "a red dog")

        keys(page, "?")
        page.get_by_label("Letters, digits and ? are keys").uncheck()
        keys(page, "Escape")
        page.locator(".cell").first.click()
        keys(page, "x", "Enter")
        says(page, "#sentence", "1 of 5 reviewed")
        assert captions(server.answers.review)["a.png"][1] == "accepted"  # and not left out

        keys(page, "Home")
        press(page, "Edit")
        page.locator("#text").fill("a green dog")
        page.locator(".cell").nth(2).click()  # which saves what is written, for its own photo
        reads(page, "#saved", "Saved")
        assert captions(server.answers.review)["a.png"] == ("a green dog", "edited")
        press(page, "Teach…")
        page.locator("#teach .main").click()
        reads(page, "#count", "4 shown")
        reads(page, "#caption", "Write what you see (E).")


def test_what_is_written_is_saved_whatever_is_pressed_next(visit, tmp_path):
    with serving_review(write_table(tmp_path)) as server:
        page = visit(server.address)
        page.locator(".cell").first.click()
        press(page, "Edit")
        page.locator("#text").fill("a gray dog")
        press(page, "Alt text")
        press(page, "Leave out")
        says(page, "#sentence", "1 of 5 reviewed")
        reads(page, "#saved", "Saved")
        assert captions(server.answers.review)["a.png"] == ("a gray dog", "left out")


def test_only_what_is_in_view_is_in_the_page(visit, tmp_path):
    table = tmp_path / "captions.csv"
    lines = [f"{number:05}.png,a photo,0.5," for number in range(20_000)]
    table.write_text("\n".join(["source,caption,confidence,to_check", *lines, ""]), encoding="utf-8")
    with serving_review(table) as server:
        page = visit(server.address)
        reads(page, ".cell .said", "a photo")
        assert page.locator(".cell").count() < 60
        keys(page, "End")
        says(page, f"{CURRENT} .state", "19999.png")
        assert page.locator(".cell").count() < 60
        keys(page, "Home")
        says(page, f"{CURRENT} .state", "00000.png")
