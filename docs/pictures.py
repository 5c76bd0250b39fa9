"""The pictures of README and docs that a program makes: run it when a shipped model or the look of a page has changed.

    python docs/pictures.py    # writes docs/images/coffee.webp, page.jpg and app.jpg; needs Chromium

The tutorials' pictures are made by tests/docs/test_tutorial.py, and the chart by research/tables.py.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from show_attend_tell import Captioner

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
PHOTO = ROOT / "examples" / "coffee.jpg"
WORD = "cup"  # whose evidence the pictures of pages show
SERVER = "http://127.0.0.1:8123"


def show(page: Page, file: Path) -> None:
    """Choose the word, and save what the page then shows."""
    page.locator(".sat-word", has_text=WORD).first.click()
    page.mouse.move(1, 1)
    page.wait_for_timeout(500)
    page.screenshot(path=file, type="jpeg", quality=60)


def main() -> None:
    """Make all pictures."""
    caption = Captioner.from_pretrained("everyday-soft", backend="onnx")(PHOTO, evidence=True)
    caption.save(IMAGES / "coffee.webp")
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    command = [sys.executable, "-c", "from show_attend_tell.cli import main; main()", "serve", "--port", "8123"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        file = Path(folder) / "page.html"
        caption.save(file)
        page = browser.new_page(viewport={"width": 1040, "height": 650})
        page.goto(file.as_uri())
        show(page, IMAGES / "page.jpg")
        server = subprocess.Popen(command, env=os.environ)
        try:
            for _ in range(100):
                try:
                    urllib.request.urlopen(SERVER)
                    break
                except OSError:
                    time.sleep(0.2)
            page = browser.new_page(viewport={"width": 1120, "height": 760})
            page.goto(SERVER)
            page.set_input_files("#choose", PHOTO)
            page.wait_for_selector(".sat-word")
            show(page, IMAGES / "app.jpg")
        finally:
            server.terminate()
            server.wait()
        browser.close()


if __name__ == "__main__":
    main()
