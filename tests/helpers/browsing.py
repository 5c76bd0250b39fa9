"""What a page must show, as Playwright waits for it; a page may be a part of one."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import expect


def says(page: Any, where: str, text: Any) -> None:
    """The first place of that selector has the text in it."""
    expect(page.locator(where).first).to_contain_text(text)


def reads(page: Any, where: str, text: Any) -> None:
    """The first place of that selector has this text, or all places have the texts of a list."""
    places = page.locator(where)
    expect(places if isinstance(text, list) else places.first).to_have_text(text)


def counts(page: Any, where: str, number: int) -> None:
    """So many places are of that selector."""
    expect(page.locator(where)).to_have_count(number)


def press(page: Any, name: str) -> None:
    """Click the button of that name."""
    page.get_by_role("button", name=name).click()


def keys(page: Any, *names: str) -> None:
    """Press keys, one after the other."""
    for name in names:
        page.keyboard.press(name)


def becomes(true: Callable[[], bool]) -> None:
    """Wait, since the page's own policy lets no test wait inside it."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def review_chosen(page: Any, photos: Sequence[Path], table: Path) -> None:
    """Choose three photos for a review, edit one, leave one out, accept the other in bulk, and save the table."""
    page.set_input_files("#choose", photos)
    says(page, "#sentence", "0 of 3 reviewed. About")
    expect(page.locator(".cell .state").nth(2)).not_to_be_empty()
    page.locator(".cell").first.click()
    keys(page, "x", "e")
    page.locator("#text").fill(" =a,  boat ")
    keys(page, "Enter", "Enter")
    reads(page, "#sentence", "3 of 3 reviewed.")
    keys(page, "Backspace")
    says(page, "#sentence", "2 of 3 reviewed. About")
    press(page, "Accept shown…")
    page.locator("#accept button.main").click()
    reads(page, "#sentence", "3 of 3 reviewed.")
    keys(page, "s")
    with page.expect_download() as download:
        page.locator("#save button.main").click()
    download.value.save_as(table)
    page.reload()
    page.set_input_files("#choose", photos)  # what was decided is still there
    reads(page, "#sentence", "3 of 3 reviewed.")
