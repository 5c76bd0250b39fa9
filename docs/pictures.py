"""The pictures of README and docs that a program makes: run it when a shipped model or the look of a page has changed.

    python docs/pictures.py            # writes all; needs Chromium
    python docs/pictures.py --few      # without page.jpg and app.jpg, which need Chromium

The tutorials' pictures are made by tests/docs/test_tutorial.py, the chart by research/tables.py, and the pictures of
`sat review` by review_pictures.py.
"""

import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any

import hidden
from PIL import Image, ImageChops, ImageDraw, ImageOps

from show_attend_tell import Caption, Captioner
from show_attend_tell.checkpoint.card import PICTURE
from show_attend_tell.checkpoint.hub import SHIPPED, shipped_models
from show_attend_tell.data.parts_of_speech import FUNCTION_WORDS, part_of_speech
from show_attend_tell.show.pictures import Style, raster
from show_attend_tell.show.pictures.figure import Panels
from show_attend_tell.show.pictures.letters import draw_dots, draw_text, length
from show_attend_tell.show.pictures.raster import panel_image

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
PHOTO = ROOT / "examples" / "coffee.jpg"
CARD, CARD_WIDTH = ROOT / "examples" / "motorcycle.jpg", 800  # of the pictures of the models' cards
WORD = "cup"  # whose evidence the pictures of pages show
PROGRAM = (sys.executable, "-m", "show_attend_tell")  # `sat`
SERVER = "http://127.0.0.1:8123"
READINGS = ROOT / "examples" / "readings.csv"  # how captions were judged: right, partly or wrong, and what is missed
SHOWN = 6  # photos of the gallery
INK, GRAY = (32, 32, 32), (105, 105, 105)
COLORS = {"right": (30, 130, 60), "partly": (190, 125, 0), "wrong": (190, 40, 40)}
SIDE, HEIGHT, GAP, SIZE = 268, 200, 24, 22  # pixels: of a photo in the gallery, between two, and of letters
CELL = 2 * SIDE + 4  # a photo, and beside it the map of its strongest noun
WIDE, LETTERS, LINE = 720, 34, 80  # pixels of the moving picture: its width, its letters, what is below the photo
FIRST, EACH, LAST, FADE = 600, 700, 1300, 50  # milliseconds of the photo, of each word, of the end, of a step between


def launched(driver: Any) -> Any:
    """The browser of this machine, Chromium or Chrome, by Playwright."""
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    return driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])


def show(page: Any, file: Path) -> None:
    """Choose the word, and save what the page then shows."""
    page.locator(".sat-word", has_text=WORD).first.click()
    page.mouse.move(1, 1)
    page.wait_for_timeout(500)
    page.screenshot(path=file, type="jpeg", quality=60)


def panels_of(caption: Caption, style: Style, width: int, height: int) -> Panels:
    """The maps of a caption over its photo at about this size."""
    return Panels(caption._figure_data("evidence"), style, area=width * height, widest=width, room=width)


def content(caption: Caption) -> list[int]:
    """The words of a caption that are nouns, verbs, colors and their like."""
    return [number for number, word in enumerate(caption.words) if word not in FUNCTION_WORDS]


def strongest_noun(caption: Caption, panels: Panels) -> int:
    """The noun with the most evidence; of a caption without one, such a word."""
    nouns = [number for number in content(caption) if part_of_speech(caption.words[number]) == "noun"]
    return max(nouns or content(caption), key=panels.peaks.__getitem__)


def gallery(captioner: Captioner, columns: int, name: str) -> None:
    """The first photos of the readings, each beside the map of its strongest noun, with its caption and its verdict."""
    with READINGS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[:SHOWN]
    below = 2 * (SIZE + 8) + SIZE
    height = HEIGHT + below + GAP
    picture = Image.new("RGB", (columns * (CELL + GAP) - GAP, height * (SHOWN // columns) - GAP), "white")
    draw = ImageDraw.Draw(picture)
    for number, row in enumerate(rows):
        photo = ROOT / "examples" / row["photo"]
        caption = captioner(photo, evidence=True)
        if str(caption) != row["caption"]:
            raise SystemExit(f"{photo.name} has another caption now: judge it again, and write it into {READINGS.name}")
        x, y = number % columns * (CELL + GAP), number // columns * height
        panels = panels_of(caption, Style(), 2 * SIDE, 2 * HEIGHT)
        noun = strongest_noun(caption, panels)
        for place, image in enumerate((panels.photo, panel_image(panels, noun))):
            picture.paste(ImageOps.fit(image.convert("RGB"), (SIDE, HEIGHT)), (x + place * (SIDE + 4), y))
        line = write(draw, caption, x, y + HEIGHT + SIZE + 8, noun)
        mark(draw, row["reading"], x, line + SIZE + 10)
        draw_text(draw, x + 26, line + SIZE + 10, f"{row['reading']}: {row['note']}", SIZE - 3, GRAY)
    picture.save(IMAGES / name, quality=84)


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


def moving(caption: Caption, *, dark: bool) -> None:
    """The photo, then what lights up for each content word, with the caption below, in about five seconds."""
    style = Style(dark=dark)
    panels = panels_of(caption, style, WIDE, 10 * WIDE)
    words = content(caption)
    width, height = panels.size
    frames = []

    def page(photo: Image.Image, lit: int | None) -> Image.Image:
        image = Image.new("RGB", (width, height + LINE), style.theme.page)
        image.paste(photo, (0, 0))
        draw = ImageDraw.Draw(image)
        left = 8.0
        for number, word in enumerate(caption.words):
            ink = style.theme.ink if lit is None or number == lit else style.theme.faint
            draw_text(draw, left, height + 52, word, LETTERS, ink)
            left += length(word + " n", LETTERS) - length("n", LETTERS)
        return image

    plain = page(panels.photo, None)
    stands = [(plain, FIRST), *((page(panel_image(panels, step), step), EACH) for step in words), (plain, LAST)]
    for (image, stand), (following, _) in pairwise([*stands, stands[0]]):
        frames.append((image, stand))
        frames += [(Image.blend(image, following, share), FADE) for share in (0.33, 0.67)]
    name = "motorcycle-dark.webp" if dark else "motorcycle.webp"
    images = [image for image, _ in frames]
    times = [stand for _, stand in frames]
    images[0].save(IMAGES / name, save_all=True, append_images=images[1:], duration=times, loop=0, quality=90, method=6)


def write(draw: ImageDraw.ImageDraw, caption: Caption, x: int, y: int, noun: int) -> int:
    """Write a caption in lines, doubted words dotted and one noun underlined; gives the last line's baseline."""
    left, doubted = float(x), caption.to_check
    for number, word in enumerate(caption.words):
        width = length(word, SIZE)
        if left + width > x + CELL:
            left, y = float(x), y + SIZE + 8
        draw_text(draw, left, y, word, SIZE, INK)
        if number == noun:
            draw.line((left, y + 8, left + width, y + 8), fill=COLORS["partly"], width=3)
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
    gallery(captioner, 2, "gallery.jpg")
    gallery(captioner, 1, "gallery-phone.jpg")
    first_change(captioner)
    cards()
    caption = captioner(ROOT / "examples" / "motorcycle.jpg", evidence=True)
    for dark in (False, True):
        moving(caption, dark=dark)
    hidden.picture(captioner)
    if "--few" in sys.argv:
        return
    from playwright.sync_api import sync_playwright

    caption = captioner(PHOTO, evidence=True)
    command = [*PROGRAM, "serve", "--port", "8123"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = launched(driver)
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
