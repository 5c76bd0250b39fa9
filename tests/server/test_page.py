"""The web app and the API's manual, in a headless Chromium against a real server with small models."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import shape_photo, shape_scenes
from PIL import Image
from playwright.sync_api import Page, expect
from serving import Serving, serving, small_captioners

SCENES = shape_scenes(3)
Open = Callable[..., Page]


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    """Photos of shapes as files."""
    files = [tmp_path / f"photo{number}.png" for number in range(len(SCENES))]
    for file, scene in zip(files, SCENES, strict=True):
        shape_photo(*scene).save(file)
    return files


def test_a_photo_is_captioned_and_explored(
    open_page: Open, server: Serving, photos: list[Path], tmp_path: Path
) -> None:
    page = open_page(server.url)
    expect(page.locator("#model option")).to_have_text(["small-soft", "small-hard", "both, side by side"])
    page.set_input_files("#choose", photos[:2])
    expect(page.locator(".result h2")).to_have_text(["photo0.png", "photo1.png"])  # in the order of the choice
    expect(page.locator(".sat-captions")).to_have_count(2)
    expected = small_captioners()[0](shape_photo(*SCENES[0])).words
    first = page.locator(".result").first
    expect(first.locator(".sat-word > span:first-child")).to_have_text(expected)
    expect(page.locator("#announcement")).to_contain_text("by small-soft: ")  # to a screen reader

    first.locator(".sat-word").nth(0).hover()
    expect(first.locator(".sat-readout")).to_contain_text("evidence")
    expect(first.locator(".sat-photo")).to_have_class("sat-photo sat-lit")

    first.locator(".sat-word").nth(0).click()
    first.get_by_role("button", name="Hide this").click()
    hidden = small_captioners()[0]
    lines = hidden.hide(hidden(photos[0], evidence=True), 0).lines
    expect(first.locator(".sat-lines p")).to_have_text(lines)
    first.get_by_role("button", name="Undo").click()
    first.get_by_role("button", name="Paint").click()
    box = first.locator(".sat-photo").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 30, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 60, steps=5)
    page.mouse.up()
    expect(first.locator(".sat-columns figure")).to_have_count(3)
    first.get_by_role("button", name="Undo").click()

    for act, suffix in (("Save picture", ".png"), ("Save page", ".html"), ("Save JSON", ".json")):
        with page.expect_download() as download:
            first.get_by_role("button", name=act).click()
        assert download.value.suggested_filename == f"photo0{suffix}"
        file = tmp_path / f"saved{suffix}"
        download.value.save_as(file)
        if suffix == ".png":
            with Image.open(file) as picture:
                assert picture.width > 50
        else:
            text = file.read_text(encoding="utf-8")
            assert all(word in text for word in expected)
            data = re.search(r'id="sat-data">(.*?)</script>', text)
            captions = json.loads(data[1])["photos"][0]["captions"] if data else json.loads(text)
            assert [[answer["lines"] for answer in one["hidden"]] for one in captions] == [[lines]]
            assert captions[0]["hidden"][0]["step"] == 0

    first.get_by_role("button", name="Remove").click()
    expect(page.locator(".result h2")).to_have_text(["photo1.png"])
    expect(page.get_by_role("button", name="Remove: photo1.png")).to_be_focused()


def test_by_keyboard_alone(open_page: Open, server: Serving, photos: list[Path]) -> None:
    page = open_page(server.url)
    page.on("filechooser", lambda _: None)  # the browser hands its choosers over from now on, not just when Space falls
    expect(page.locator("#settings")).to_be_visible()
    for _ in range(6):  # the header's links come first
        page.keyboard.press("Tab")
        if page.locator("#choose").evaluate("one => one === document.activeElement"):
            break
    expect(page.locator("#choose")).to_be_focused()
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Space")
    chooser.value.set_files(photos[0])
    expect(page.locator(".sat-word").first).to_be_visible()
    for _ in range(15):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.sat-word')"):
            break
    expect(page.locator(".sat-word").first).to_have_class("sat-word sat-on")
    page.keyboard.press("Home")
    expect(page.locator(".sat-word").first).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".sat-word").nth(1)).to_be_focused()
    expect(page.locator(".sat-readout")).to_contain_text("evidence")


def test_a_bad_file_is_told_and_the_others_are_captioned(
    open_page: Open, server: Serving, photos: list[Path], tmp_path: Path
) -> None:
    bad = tmp_path / "notes <b>.jpg"
    bad.write_bytes(b"<svg onload=alert(1)>")
    page = open_page(server.url)
    page.set_input_files("#choose", [photos[0], bad, photos[1]])
    expect(page.locator(".sat-captions")).to_have_count(2)
    failed = page.locator(".result", has_text="notes <b>.jpg")
    expect(failed.locator(".state")).to_contain_text("Photo 1 (notes <b>.jpg) is not a photo")
    expect(failed.get_by_role("button", name="Try again")).to_have_count(0)
    expect(failed.get_by_role("button", name="Save")).to_have_count(0)


def test_many_photos_are_a_grid_and_each_opens_in_its_place(
    open_page: Open, server: Serving, photos: list[Path]
) -> None:
    page = open_page(server.url)
    page.set_input_files("#choose", photos * 2)
    expect(page.locator(".sat-captions")).to_have_count(6)  # few are shown in full
    page.set_input_files("#choose", photos[:1])
    expect(page.locator(".small .sat-sentence")).to_have_count(7)
    expect(page.locator(".sat-captions")).to_have_count(0)
    caption = small_captioners()[0](photos[2])
    third = page.locator(".result").nth(3)
    expect(third.locator(".sat-sentence")).to_have_text(str(caption))
    third.locator(".sat-tile").click()
    expect(third.locator(".sat-word > span:first-child")).to_have_text(caption.words)
    third.get_by_role("button", name="Close").click()
    expect(third.locator(".sat-tile")).to_be_focused()
    third.locator(".sat-tile").click()
    third.get_by_role("button", name="Remove").click()
    expect(page.locator(".sat-captions")).to_have_count(6)
    expect(page.locator(".sat-tile")).to_have_count(0)


def test_on_a_phone_and_in_the_dark(open_page: Open, server: Serving, photos: list[Path]) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    page = open_page(server.url, color_scheme="dark", **phone)
    expect(page.get_by_text("Take a photo")).to_be_visible()
    expect(page.get_by_text("see what in the photo supports each word")).to_be_visible()
    page.get_by_text("Options").tap()
    page.select_option("#model", label="both, side by side")
    assert page.locator("#model").bounding_box()["width"] > 160  # so that a model's name is not cut off
    page.get_by_role("button", name="Try an example").tap()
    expect(page.locator(".result h2")).to_have_text("example.jpg")
    expect(page.locator(".sat-word").first).to_be_visible()
    expect(page.locator(".sat-word.sat-on")).to_have_count(0)  # the photo as it is
    page.locator(".sat-word").first.tap()
    expect(page.locator(".sat-readout").first).to_contain_text("evidence")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="light")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")

    def brightness(color: str) -> int:
        return sum(int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(","))

    assert brightness(dark) < 150 < 600 < brightness(light)
    expect(open_page(server.url).get_by_text("Take a photo")).to_be_hidden()  # where there is a mouse


def test_a_server_that_goes_away_and_comes_back(open_page: Open, photos: list[Path]) -> None:
    with serving(small_captioners()) as running:
        page = open_page(running.url)
        page.set_input_files("#choose", photos[0])
        expect(page.locator(".sat-captions")).to_have_count(1)
    page.set_input_files("#choose", photos[1])
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    expect(page.locator(".result").first.locator(".state")).to_contain_text("Waiting for the server")
    expect(page.locator(".sat-captions")).to_have_count(1)  # what is there stays
    with serving(small_captioners(), port=running.port):
        expect(page.locator(".sat-captions")).to_have_count(2)
        expect(page.get_by_role("alert")).to_be_hidden()


def test_a_token_is_asked_for_once(open_page: Open, photos: list[Path]) -> None:
    with serving(small_captioners(), token="secret") as running:
        page = open_page(running.url)
        page.get_by_role("textbox", name="Token").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("textbox", name="Token")).to_have_value("")  # asked again
        for _ in range(3):
            page.keyboard.press("Escape")  # nothing works without it
        expect(page.get_by_role("textbox", name="Token")).to_be_visible()
        page.get_by_role("textbox", name="Token").fill("secret")
        page.get_by_role("button", name="Go on").click()
        expect(page.locator("#asked")).to_be_hidden()
        page.set_input_files("#choose", photos[:2])
        expect(page.locator(".sat-captions")).to_have_count(2)


def test_the_manual_can_be_tried_out_and_asks_no_other_host(
    open_page: Open, server: Serving, photos: list[Path]
) -> None:
    page = open_page(server.url)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("link", name="API").click()
    operation = page.locator(".opblock", has_text="/v1/captions")
    operation.locator(".opblock-summary-control").click()
    expect(page.locator(".servers option")).to_have_text(["."])  # below whatever path a proxy gives it
    expect(page.locator(".info")).to_contain_text(f"{server.url}/v1/captions")
    operation.get_by_role("button", name="Try it out").click()
    operation.locator("input[type=file]").set_input_files(photos[0])
    operation.get_by_role("button", name="Execute").click()
    answer = operation.locator(".live-responses-table")
    expect(answer).to_contain_text(str(small_captioners()[0](shape_photo(*SCENES[0]))))  # by the model's own settings
    assert asked and all(url.startswith((server.url, "blob:", "data:")) for url in asked)
