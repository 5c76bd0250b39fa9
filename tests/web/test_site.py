"""The built site (`make site`), served below a path: its first page shows an example, and captions your own photo."""

from pathlib import Path

import pytest
from browsing import press
from documents import ROOT, needs_models
from playwright.sync_api import expect
from static import needs_chromium, static

from show_attend_tell import Captioner

SITE = ROOT / "build" / "site"
FIRST = sorted(SITE.glob("**/docs/index.html"))[:1]
PATIENCE = 240_000  # milliseconds
pytestmark = [needs_chromium, needs_models, pytest.mark.skipif(not FIRST, reason="the site is not built: make site")]


@pytest.fixture(scope="module")
def site():
    with static(SITE) as server:
        yield server


@pytest.fixture
def page(browser, site):
    """The first page in a browser that has never been there; at the end no script may have failed."""
    failures = []
    context = browser.new_context(service_workers="allow")
    page = context.new_page()
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.goto(f"{site.url}{FIRST[0].relative_to(SITE).as_posix()}")
    yield page
    context.close()
    assert not failures


def example(page):
    return page.frame_locator(".front-example")


def captioner(page):
    return page.frame_locator(".front iframe:not(.front-example)")


def spoken(words):
    """Words without what a screen reader hears besides."""
    return [text.partition("\n")[0] for text in words.all_inner_texts()]


def test_the_example_lights_words_and_nothing_is_downloaded(page, site):
    words = example(page).locator(".sat-word")
    expect(words.nth(3)).to_be_visible()
    words.nth(1).click()
    expect(words.nth(1)).to_have_class("sat-word sat-on")
    assert not [path for path in site.asked if "/models/" in path or "/runtime/" in path]
    caption = Captioner.from_pretrained("everyday-soft", backend="onnx")(ROOT / "examples" / "motorcycle.jpg")
    assert spoken(words) == caption.words


def test_hide_works_at_once_and_the_example_is_as_high_as_its_content(page):
    example(page).locator(".sat-word", has_text="motorcycle").click()
    press(example(page), "Hide this")
    expect(example(page).get_by_role("heading", name="Hidden elsewhere")).to_be_visible()
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(500)
        frame = page.locator(".front-example").bounding_box()
        content = example(page).locator("main").bounding_box()
        assert frame is not None and content is not None
        assert content["height"] <= frame["height"] <= content["height"] + 40
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_photo_is_captioned_in_the_example_s_place(page):
    page.set_input_files(".front input", ROOT / "examples" / "dogs.jpg")
    words = captioner(page).locator(".sat-word")
    expect(words.first).to_be_visible(timeout=PATIENCE)
    expect(page.locator(".front-example")).to_be_hidden()
    assert spoken(words) == Captioner.from_pretrained("everyday-soft")(ROOT / "examples" / "dogs.jpg").words
    press(page, "Back to the example")
    expect(page.locator(".front-example")).to_be_visible()
    expect(page.locator(".front iframe")).to_have_count(1)


def test_a_download_can_be_cancelled(page):
    page.route("**/models/*.bin", lambda route: None)  # which never arrive
    page.set_input_files(".front input", ROOT / "examples" / "dogs.jpg")
    back = page.locator(".front-back")
    expect(back).to_be_visible()
    expect(captioner(page).locator(".result")).to_be_visible(timeout=PATIENCE)
    back.click()
    expect(page.locator(".front iframe")).to_have_count(1)
    expect(page.locator(".front-example")).to_be_visible()
    expect(back).to_be_hidden()


def test_every_page_says_what_it_is_where_it_is_shared():
    pages = [file for file in SITE.rglob("*.html") if (Path(file).parts[-2] != "_static" and "try" not in file.parts)]
    assert len(pages) > 30
    for file in pages:
        text = file.read_text(encoding="utf-8")
        if file.name != "search.html":
            for name in ('property="og:title"', 'property="og:description"', 'property="og:image"', "<title>"):
                assert name in text, f"{file}: {name}"
