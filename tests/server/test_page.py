"""The web app and the API's manual, in a headless Chromium against a real server with small models."""

import json

import pytest
from browsing import counts, keys, press, reads, review_chosen, says
from builders import shape_photos
from PIL import Image
from playwright.sync_api import expect
from serving import serving, small_captioners

from show_attend_tell.review.table import read_table


@pytest.fixture
def photos(tmp_path):
    return shape_photos(tmp_path)


def test_a_photo_is_captioned_and_explored(open_page, server, photos, tmp_path):
    page = open_page(server.url)
    reads(page, "#model option", ["small-soft", "small-hard", "both, side by side"])
    page.set_input_files("#choose", photos[:2])
    reads(page, ".result h2", ["photo0.png", "photo1.png"])  # in the order of the choice
    counts(page, ".sat-captions", 2)
    expected = small_captioners()[0](photos[0]).words
    first = page.locator(".result").first
    reads(first, ".sat-word > span:first-child", expected)
    says(page, "#announcement", "by small-soft: ")  # to a screen reader

    first.locator(".sat-word").nth(0).hover()
    says(first, ".sat-readout", "evidence")
    expect(first.locator(".sat-photo")).to_have_class("sat-photo sat-lit")

    first.locator(".sat-word").nth(0).click()
    press(first, "Hide this")
    hidden = small_captioners()[0]
    lines = hidden.hide(hidden(photos[0], evidence=True), 0).lines
    reads(first, ".sat-lines p", lines)
    press(first, "Undo")

    for act, suffix in (("Save picture", ".png"), ("Save page", ".html"), ("Save JSON", ".json")):
        with page.expect_download() as download:
            press(first, act)
        assert download.value.suggested_filename == f"photo0{suffix}"
        file = tmp_path / f"saved{suffix}"
        download.value.save_as(file)
        if suffix == ".png":
            with Image.open(file) as picture:
                assert picture.width > 50
        else:
            text = file.read_text(encoding="utf-8")
            assert all(word in text for word in expected)
        if suffix == ".json":
            captions = json.loads(text)
            assert [[answer["lines"] for answer in one["hidden"]] for one in captions] == [[lines]]
            assert captions[0]["hidden"][0]["step"] == 0

    press(first, "Remove")
    reads(page, ".result h2", ["photo1.png"])
    expect(page.get_by_role("button", name="Remove: photo1.png")).to_be_focused()


def test_by_keyboard_alone(open_page, server, photos):
    page = open_page(server.url)
    page.on("filechooser", lambda _: None)  # the browser hands its choosers over from now on, not just when Space falls
    expect(page.locator("#settings")).to_be_visible()
    for _ in range(6):  # the header's links come first
        keys(page, "Tab")
        if page.locator("#choose").evaluate("one => one === document.activeElement"):
            break
    expect(page.locator("#choose")).to_be_focused()
    with page.expect_file_chooser() as chooser:
        keys(page, "Space")
    chooser.value.set_files(photos[0])
    expect(page.locator(".sat-word").first).to_be_visible()
    for _ in range(15):
        keys(page, "Tab")
        if page.evaluate("document.activeElement.matches('.sat-word')"):
            break
    expect(page.locator(".sat-word").first).to_have_class("sat-word sat-on")
    keys(page, "Home")
    expect(page.locator(".sat-word").first).to_be_focused()
    keys(page, "ArrowRight")
    expect(page.locator(".sat-word").nth(1)).to_be_focused()
    says(page, ".sat-readout", "evidence")


def test_a_bad_file_is_told_and_the_others_are_captioned(open_page, server, photos, tmp_path):
    bad = tmp_path / "notes <b>.jpg"
    bad.write_bytes(b"<svg onload=alert(1)>")
    page = open_page(server.url)
    page.set_input_files("#choose", [photos[0], bad, photos[1]])
    counts(page, ".sat-captions", 2)
    failed = page.locator(".result", has_text="notes <b>.jpg")
    says(failed, ".state", "Photo 1 (notes <b>.jpg) is not a photo")
    expect(failed.get_by_role("button", name="Try again")).to_have_count(0)
    expect(failed.get_by_role("button", name="Save")).to_have_count(0)


def test_many_photos_are_a_grid_and_each_opens_in_its_place(open_page, server, photos):
    page = open_page(server.url)
    page.set_input_files("#choose", photos * 2)
    counts(page, ".sat-captions", 6)  # few are shown in full
    page.set_input_files("#choose", photos[:1])
    counts(page, ".small .sat-sentence", 7)
    counts(page, ".sat-captions", 0)
    caption = small_captioners()[0](photos[2])
    third = page.locator(".result").nth(3)
    reads(third, ".sat-sentence", str(caption))
    third.locator(".sat-tile").click()
    reads(third, ".sat-word > span:first-child", caption.words)
    press(third, "Close")
    expect(third.locator(".sat-tile")).to_be_focused()
    third.locator(".sat-tile").click()
    press(third, "Remove")
    counts(page, ".sat-captions", 6)
    counts(page, ".sat-tile", 0)


def test_on_a_phone_and_in_the_dark(open_page, server, photos):
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    page = open_page(server.url, color_scheme="dark", **phone)
    expect(page.get_by_text("Take a photo")).to_be_visible()
    expect(page.get_by_text("see what in the photo supports each word")).to_be_visible()
    page.select_option("#model", label="both, side by side")
    assert page.locator("#model").bounding_box()["width"] > 160  # so that a model's name is not cut off
    page.get_by_role("button", name="Try an example").tap()
    reads(page, ".result h2", "example.jpg")
    expect(page.locator(".sat-word").first).to_be_visible()
    counts(page, ".sat-word.sat-on", 0)  # the photo as it is
    page.locator(".sat-word").first.tap()
    says(page, ".sat-readout", "evidence")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="light")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")

    def brightness(color):
        return sum(int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(","))

    assert brightness(dark) < 150 < 600 < brightness(light)
    expect(open_page(server.url).get_by_text("Take a photo")).to_be_hidden()  # where there is a mouse


def test_a_server_that_goes_away_and_comes_back(open_page, photos):
    with serving(small_captioners()) as running:
        page = open_page(running.url)
        page.set_input_files("#choose", photos[0])
        counts(page, ".sat-captions", 1)
    page.set_input_files("#choose", photos[1])
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    expect(page.locator(".result").first.locator(".state")).to_contain_text("Waiting for the server")
    counts(page, ".sat-captions", 1)  # what is there stays
    with serving(small_captioners(), port=running.port):
        counts(page, ".sat-captions", 2)
        expect(page.get_by_role("alert")).to_be_hidden()


def test_a_token_is_asked_for_once(open_page, photos):
    with serving(small_captioners(), token="secret") as running:
        page = open_page(running.url)
        page.get_by_role("textbox", name="Token").fill("wrong")
        keys(page, "Enter")
        expect(page.get_by_role("textbox", name="Token")).to_have_value("")  # asked again
        for _ in range(3):
            keys(page, "Escape")  # nothing works without it
        expect(page.get_by_role("textbox", name="Token")).to_be_visible()
        page.get_by_role("textbox", name="Token").fill("secret")
        press(page, "Go on")
        expect(page.locator("#asked")).to_be_hidden()
        page.set_input_files("#choose", photos[:2])
        counts(page, ".sat-captions", 2)


def test_the_manual_can_be_tried_out_and_asks_no_other_host(open_page, server, photos):
    page = open_page(server.url)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("link", name="API").click()
    operation = page.locator(".opblock", has_text="/v1/captions")
    operation.locator(".opblock-summary-control").click()
    reads(page, ".servers option", ["."])  # below whatever path a proxy gives it
    says(page, ".info", f"{server.url}/v1/captions")
    press(operation, "Try it out")
    operation.locator("input[type=file]").set_input_files(photos[0])
    press(operation, "Execute")
    answer = operation.locator(".live-responses-table")
    expect(answer).to_contain_text(str(small_captioners()[0](photos[0])))  # by the model's own settings
    assert asked and all(url.startswith((server.url, "blob:", "data:")) for url in asked)


def test_many_photos_are_reviewed_in_a_grid(open_page, server, photos, tmp_path):
    review_chosen(open_page(f"{server.url}/review"), photos, tmp_path / "captions.csv")
    columns, rows = read_table(tmp_path / "captions.csv")
    assert columns[:3] == ["source", "caption", "confidence"]
    assert [row.path for row in rows] == photos
    assert [row.model_caption for row in rows] == [str(caption) for caption in small_captioners()[0](photos)]
    assert sorted(row.reviewed for row in rows) == ["accepted in bulk", "edited", "left out"]
    assert [row.caption for row in rows if row.reviewed == "edited"] == ["=a, boat"]
