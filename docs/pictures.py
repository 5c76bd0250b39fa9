"""The pictures of README and docs that a program makes: run it when a shipped model or the look of a page has changed.

    python docs/pictures.py            # writes all; needs Chromium
    python docs/pictures.py --few      # without page.jpg and app.jpg, which need Chromium

The tutorials' pictures are made by tests/docs/test_tutorial.py, and the chart by research/tables.py.
"""

import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops, ImageDraw, ImageOps

from show_attend_tell import Caption, Captioner
from show_attend_tell.checkpoint.card import PICTURE
from show_attend_tell.checkpoint.hub import SHIPPED, shipped_models
from show_attend_tell.show.pictures import raster
from show_attend_tell.show.pictures.letters import draw_dots, draw_text, length

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
PHOTO = ROOT / "examples" / "coffee.jpg"
CARD, CARD_WIDTH = ROOT / "examples" / "motorcycle.jpg", 800  # of the pictures of the models' cards
WORD = "cup"  # whose evidence the pictures of pages show
SERVER = "http://127.0.0.1:8123"
READINGS = ROOT / "examples" / "readings.csv"  # how captions were judged: right, partly or wrong, and what is missed
SHOWN, WIDTH, HEIGHT, BELOW, GAP, SIZE = 6, 360, 270, 96, 20, 17  # photos of the gallery, and pixels
INK, GRAY, COLORS = (
    (32, 32, 32),
    (105, 105, 105),
    {"right": (30, 130, 60), "partly": (190, 125, 0), "wrong": (190, 40, 40)},
)


def show(page: Any, file: Path) -> None:
    """Choose the word, and save what the page then shows."""
    page.locator(".sat-word", has_text=WORD).first.click()
    page.mouse.move(1, 1)
    page.wait_for_timeout(500)
    page.screenshot(path=file, type="jpeg", quality=60)


def gallery(captioner: Captioner) -> None:
    """The first photos of the readings as one picture: captions, doubted words dotted, and how they were judged."""
    with READINGS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[:SHOWN]
    columns, height = 3, HEIGHT + BELOW + GAP
    picture = Image.new("RGB", (columns * (WIDTH + GAP) - GAP, height * (SHOWN // columns) - GAP), "white")
    draw = ImageDraw.Draw(picture)
    for number, row in enumerate(rows):
        photo = ROOT / "examples" / row["photo"]
        caption = captioner(photo)
        if str(caption) != row["caption"]:
            raise SystemExit(f"{photo.name} has another caption now: judge it again, and write it into {READINGS.name}")
        x, y = number % columns * (WIDTH + GAP), number // columns * height
        with Image.open(photo) as image:
            picture.paste(ImageOps.fit(image.convert("RGB"), (WIDTH, HEIGHT)), (x, y))
        line = write(draw, caption, x, y + HEIGHT + 24)
        mark(draw, row["reading"], x, line + 27)
        draw_text(draw, x + 24, line + 27, row["note"], SIZE - 2, GRAY)
    picture.save(IMAGES / "gallery.jpg", quality=82)


def cards() -> None:
    """A photo by each shipped model, for the model's card; a card without one gets it by shipped.py --describe."""
    for name in shipped_models():
        caption = Captioner.from_pretrained(name, backend="onnx")(CARD, evidence=True)
        picture = caption.picture()
        scale = CARD_WIDTH / picture.width
        small = picture.resize((CARD_WIDTH, round(picture.height * scale)), Image.Resampling.LANCZOS)
        small.save(SHIPPED / name / PICTURE, quality=80)


def first_change(captioner: Captioner) -> None:
    """What CONTRIBUTING's first change makes of a picture: larger dots below a doubted word."""
    caption = captioner(ROOT / "examples" / "dogs.jpg", evidence=True)
    before = caption.picture()
    draw_small_dots = raster.draw_dots

    def draw_large_dots(draw: ImageDraw.ImageDraw, x: float, y: float, width: float, ink: tuple[int, int, int]) -> None:
        for left in range(round(x), round(x + width) - 1, 4):
            draw.rectangle((left, y, left + 2, y + 2), fill=ink)

    raster.draw_dots = draw_large_dots
    try:
        after = caption.picture()
    finally:
        raster.draw_dots = draw_small_dots
    changed = ImageChops.difference(before, after).getbbox()
    if changed is None:
        raise SystemExit("no word of dogs.jpg is doubted any more: take another photo for the first change")
    left, _, right, bottom = changed
    box = (max(0, left - 4), max(0, bottom - 240), min(before.width, right + 90), bottom + 2)
    parts = [picture.crop(box) for picture in (before, after)]
    sheet = Image.new("RGB", (2 * parts[0].width + GAP, parts[0].height), "white")
    for number, part in enumerate(parts):
        sheet.paste(part, (number * (part.width + GAP), 0))
    sheet.save(IMAGES / "first-change.png", optimize=True)


def write(draw: ImageDraw.ImageDraw, caption: Caption, x: int, y: int) -> int:
    """Write a caption in lines, with doubted words dotted; gives the baseline of the last line."""
    left, doubted = float(x), caption.to_check
    for word in caption.words:
        width = length(word, SIZE)
        if left + width > x + WIDTH:
            left, y = float(x), y + SIZE + 7
        draw_text(draw, left, y, word, SIZE, INK)
        if word in doubted:
            draw_dots(draw, left, y + 5, width, INK)
        left += width + length(" n", SIZE) - length("n", SIZE)
    return y


def mark(draw: ImageDraw.ImageDraw, reading: str, x: int, y: int) -> None:
    """A disk before a reading: full for right, half for partly, crossed for wrong."""
    color, box = COLORS[reading], (x, y - 14, x + 16, y + 2)
    draw.ellipse(box, outline=color, width=2)
    if reading == "wrong":
        draw.line((x + 4, y - 10, x + 12, y - 2), fill=color, width=2)
        draw.line((x + 12, y - 10, x + 4, y - 2), fill=color, width=2)
    else:
        draw.pieslice(box, 90, 450 if reading == "right" else 270, fill=color)


def main() -> None:
    """Make all pictures."""
    captioner = Captioner.from_pretrained("everyday-soft", backend="onnx")
    gallery(captioner)
    captioner(ROOT / "examples" / "dogs.jpg", evidence=True).save(IMAGES / "dogs.webp", colormap="heat")
    first_change(captioner)
    cards()
    if "--few" in sys.argv:
        return
    from playwright.sync_api import sync_playwright

    caption = captioner(PHOTO, evidence=True)
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
