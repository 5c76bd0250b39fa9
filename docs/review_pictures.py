"""The pictures of `sat review`: a still of its page, and a moving picture of twenty seconds. Needs Chromium.

``python docs/review_pictures.py`` writes docs/images/review.jpg and docs/images/review.webp.
"""

import shutil
import subprocess
import tempfile
from io import BytesIO
from pathlib import Path

from pictures import IMAGES, PROGRAM, ROOT, launched
from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

LEFT_OUT = ("dogs.jpg", "photographer.jpg")  # the photos are those that a rule has chosen, and coffee.jpg
PHOTOS = 13
HIDDEN = "#options, #draw { display: none }"  # in the moving picture, which is small
PHONE = {"width": 390, "height": 700}
DESKTOP = {"width": 1200, "height": 700}


class Film:
    """Screenshots of a page, and how long each is shown."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[Image.Image] = []
        self.times: list[int] = []  # milliseconds

    def shoot(self, seconds: float) -> None:
        """Show the page as it is now for some seconds."""
        self.page.wait_for_timeout(400)
        self.frames.append(Image.open(BytesIO(self.page.screenshot(type="png"))).convert("RGB"))
        self.times.append(round(1000 * seconds))

    def press(self, key: str, seconds: float) -> None:
        """Press a key, and show what it does."""
        self.page.keyboard.press(key)
        expect(self.page.locator("#saved")).to_have_text("Saved")
        self.shoot(seconds)

    def save(self, file: Path) -> None:
        """Write the moving picture, which goes on forever."""
        first, *others = self.frames
        first.save(file, save_all=True, append_images=others, duration=self.times, loop=0, quality=60, method=6)


def film(page: Page) -> Film:
    """The most doubtful first: a doubted word is exchanged for an offer, and the next caption is edited."""
    moving = Film(page)
    moving.shoot(3)
    offer = page.locator("#offers button", has_text="wall")  # what the sign leans against
    offer.focus()
    moving.shoot(2)
    offer.click()
    expect(page.locator("#saved")).to_have_text("Saved")
    moving.shoot(3)
    moving.press("ArrowRight", 2.5)
    moving.press("e", 2)
    page.locator("#text").fill("a bowl of noodles with vegetables and meat")
    moving.shoot(3)
    moving.press("Enter", 3)
    return moving


def main() -> None:
    """Make both pictures."""
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        folder = Path(scratch, "photos")
        folder.mkdir()
        photos = [photo for photo in (ROOT / "examples").glob("*.jpg") if photo.name not in LEFT_OUT]
        for photo in photos:
            shutil.copy(photo, folder)
        command = [*PROGRAM, "review", str(folder), "--no-browser"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = server.stdout.readline().split(" ")[0]
            browser = launched(driver)
            page = browser.new_page(viewport=DESKTOP)
            page.set_default_timeout(120_000)
            page.goto(address)
            expect(page.locator("#sentence")).to_contain_text(f"of {PHOTOS} reviewed", timeout=200_000)
            page.reload()
            page.wait_for_timeout(3000)
            page.screenshot(path=IMAGES / "review.jpg", type="jpeg", quality=70)
            page.close()
            page = browser.new_page(viewport=PHONE, device_scale_factor=2, bypass_csp=True)
            page.goto(address)
            page.add_style_tag(content=HIDDEN)
            page.wait_for_timeout(3000)
            film(page).save(IMAGES / "review.webp")
            browser.close()
            server.terminate()


if __name__ == "__main__":
    main()
