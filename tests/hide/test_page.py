"""In Chromium: a word's place is hidden by the button, any place by painting, and the page says what Python says."""

import base64
import dataclasses
import io
import json

import numpy as np
import pytest
from browsing import becomes, press
from builders import captioner_of, shape_photo, small_checkpoint, small_encoder
from PIL import Image

DESKTOP = {"viewport": {"width": 1100, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def hidden():
    encoder = small_encoder()
    captioner = captioner_of(small_checkpoint(encoder), encoder, name="small")
    return captioner.hide(captioner(shape_photo("red", "circle", left=True), evidence=True), 0)


def opened(open_page, folder, made, screen, hidden=()):
    file = folder / "page.html"
    dataclasses.replace(made.before, hidden=hidden).save(file)
    page = open_page(f"file://{file}", **screen, reduced_motion="reduce")
    page.locator(".sat-word").first.click()
    return page


def drawn(page):
    """The colors of the photo with the place hidden (30, 50, 3); black before it is drawn."""
    uri = page.locator('[aria-label$="the place hidden"]').evaluate("(canvas) => canvas.toDataURL()")
    picture = Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))).convert("RGB")
    return np.asarray(picture.resize((50, 30), Image.Resampling.BOX), dtype=int)


@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_answers_as_python_does(open_page, hidden, screen, tmp_path):
    page = opened(open_page, tmp_path, hidden, screen, hidden=[hidden.to_dict()])
    press(page, "Hide this")
    columns = page.locator(".sat-columns figure")
    assert [each.locator("h3").inner_text() for each in columns.all()] == ["Photo", "Hidden here", "Hidden elsewhere"]
    assert page.locator(".sat-lines p").all_inner_texts() == hidden.lines
    assert str(hidden.caption) in columns.nth(1).inner_text()
    others = page.locator(".sat-thumbs button")
    for number, variant in enumerate(hidden.controls):
        others.nth(number).click()
        assert str(variant.caption) in columns.nth(2).locator("figcaption").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") == screen["viewport"]["width"]
    becomes(lambda: bool(drawn(page).any()))
    photo, cover = np.asarray(hidden.before.photo), np.asarray(hidden.cover.resize((50, 30)))
    wrong = np.abs(drawn(page) - np.where(hidden.mask[..., None], cover, photo)).mean(-1)
    assert np.median(wrong[hidden.mask]) < 5 and np.median(wrong[~hidden.mask]) < 18
    assert np.median(np.abs(drawn(page) - photo).mean(-1)[hidden.mask]) > 9
    press(page, "Undo")
    assert page.locator(".sat-trial").count() == 0
    page.locator(".sat-word").nth(1).click()
    assert page.get_by_role("button", name="Hide this").is_disabled()
    press(page, "Play")
    becomes(lambda: "sat-on" in page.locator(".sat-word").nth(2).get_attribute("class"))


@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_painted_place_is_asked_for_and_a_failure_is_told(open_page, hidden, screen, tmp_path):
    page = opened(open_page, tmp_path, hidden, screen)
    page.evaluate(
        """(answer) => {
            const { photos } = JSON.parse(document.getElementById("sat-data").textContent);
            const caption = { ...photos[0].captions[0], image: photos[0].image, size: photos[0].size };
            document.getElementById("sat-main").replaceChildren();
            SatCaptions.mount(document.getElementById("sat-main"), [caption], { hide: (_, question) => {
                window.asked = question;
                return question.step === 1 ? Promise.reject(new Error("busy")) : Promise.resolve(answer);
            } });
        }""",
        json.loads(json.dumps(hidden.to_dict())),
    )
    page.locator(".sat-word").first.click()
    press(page, "Paint")
    box = page.locator(".sat-photo").bounding_box()
    x, y = box["x"] + box["width"] * 0.25, box["y"] + box["height"] * 0.5
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + box["width"] * 0.2, y, steps=9)
    page.mouse.up()
    page.wait_for_selector(".sat-trial")
    asked = page.evaluate("window.asked")
    assert asked["step"] == 0 and sum(asked["mask"]) == 56 * 56
    cells = np.concatenate([np.full(length, turn % 2) for turn, length in enumerate(asked["mask"])]).reshape(56, 56)
    assert cells[28, 15] and cells[28, 20] and not cells[28, 40] and not cells[5].any()
    page.locator(".sat-word").nth(1).click()
    press(page, "Hide this")
    page.wait_for_selector("[role=alert]")
    assert page.locator("[role=alert]").inner_text() == "busy" and page.evaluate("window.asked.mask") is None
