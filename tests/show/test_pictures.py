"""Attention lies on the right part of the photo, and pictures of every format say what they show."""

import base64
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from show_attend_tell.show.pictures import (
    FigureData,
    Style,
    animation,
    attention_map,
    letters,
    noted,
    save,
    strip,
)
from show_attend_tell.show.pictures import layout as layout_module
from show_attend_tell.show.pictures.figure import Panels
from show_attend_tell.show.pictures.layout import Layout, lay_out
from show_attend_tell.show.pictures.maps import place, region
from show_attend_tell.show.pictures.style import color_scale
from show_attend_tell.show.pictures.vector import svg

ROWS, COLUMNS = 5, 7
WIDE, TALL = (331, 197), (143, 307)  # (W, H)


def one_location(row: int, column: int) -> NDArray[np.float64]:
    alpha = np.zeros((ROWS, COLUMNS))
    alpha[row, column] = 1
    return alpha


def center_crop(size: tuple[int, int]) -> tuple[float, float, float, float]:
    side = min(size)
    left, top = (size[0] - side) / 2, (size[1] - side) / 2
    return left, top, left + side, top + side


def squash(size: tuple[int, int]) -> tuple[float, float, float, float]:
    return 0.0, 0.0, float(size[0]), float(size[1])


@pytest.mark.parametrize("size", [WIDE, TALL])
@pytest.mark.parametrize("resize", [squash, center_crop])
def test_the_peak_lies_where_the_location_looks_and_nothing_outside_the_visible_box(size, resize):
    left, top, right, bottom = box = resize(size)
    height, width = (bottom - top) / ROWS, (right - left) / COLUMNS
    for down, across in ((0, 0), (0.3, -0.2)):
        for row, column in ((2, 1), (2, 5), (1, 3), (3, 3)):
            laid = attention_map(one_location(row, column), size, box, (down, across))
            assert laid.shape == size[::-1]
            y, x = np.unravel_index(laid.argmax(), laid.shape)
            assert abs(y + 0.5 - (top + (row + 0.5 + down) * height)) <= 1
            assert abs(x + 0.5 - (left + (column + 0.5 + across) * width)) <= 1

    alpha = np.random.default_rng(3).dirichlet(np.ones(ROWS * COLUMNS)).reshape(ROWS, COLUMNS)
    laid = attention_map(alpha, size, box)
    inside = laid[math.ceil(top) : math.floor(bottom), math.ceil(left) : math.floor(right)]
    assert inside.mean() == pytest.approx(alpha.mean(), rel=0.01)
    assert inside.min() > 0
    outside = laid.copy()
    outside[math.floor(top) : math.ceil(bottom), math.floor(left) : math.ceil(right)] = 0
    assert not outside.any()


def test_the_map_is_the_papers_upsampling_and_gaussian():
    """Against both steps done one by one at the authors' size: 14 locations × 16 pixels, sigma 20, mirrored."""
    alpha = np.random.default_rng(7).random((14, 14))
    upsampled = np.pad(alpha.repeat(16, 0).repeat(16, 1), 120, mode="symmetric")
    kernel = np.exp(-(np.arange(-120, 121) ** 2) / (2 * 20**2))
    kernel /= kernel.sum()
    for axis in (0, 1):
        upsampled = np.apply_along_axis(np.convolve, axis, upsampled, kernel, "valid")
    np.testing.assert_allclose(attention_map(alpha, (224, 224), squash((224, 224))), upsampled, rtol=1e-3)


GRAY = Image.new("RGB", (300, 300), (128, 128, 128))
SQUARE = (0.0, 0.0, 300.0, 300.0)
FLAT = np.full((ROWS, COLUMNS), 1 / 35)


def figure(words: list[str], attention: Any, **changes: Any) -> FigureData:
    given = {"photo": GRAY, "visible_box": SQUARE, "gate": None, **changes}
    given["evidence"] = None if given.get("evidence") is None else np.asarray(given["evidence"])
    return FigureData(words=words, attention=np.asarray(attention), **given)


def panels_of(shown: FigureData) -> Panels:
    return Panels(shown, Style(), area=90_000, widest=600, room=600)


def test_words_to_check_have_a_dotted_line_in_every_format(tmp_path):
    words, alpha = ["dog", "stick"], np.stack([FLAT, FLAT])
    plain, marked = (figure(words, alpha, to_check=numbers) for numbers in ((), (1,)))
    style = Style()
    one, other = (np.asarray(strip([each], style))[:400].astype(int) for each in (plain, marked))
    rows, columns = np.nonzero(np.abs(one - other).sum(-1))  # above the legend, which says what the dots mean
    assert 1 <= np.ptp(rows) <= 2 and 20 < np.ptp(columns) < 120
    for form in ("svg", "gif"):
        for name, each in (("plain", plain), ("marked", marked)):
            save(tmp_path / f"{name}.{form}", [each], style, form=form)
    dashed = "stroke-dasharray"
    assert dashed in (tmp_path / "marked.svg").read_text() and dashed not in (tmp_path / "plain.svg").read_text()
    assert (tmp_path / "marked.gif").read_bytes() != (tmp_path / "plain.gif").read_bytes()


def panels(picture: Image.Image, count: int) -> list[NDArray[np.int64]]:
    """The first `count` panels of a picture of one row without a title, found by their known position."""
    width = (picture.width - 2 * 36 + 20) // count - 20
    pixels = np.asarray(picture.convert("RGB"), dtype=np.int64)
    return [pixels[36:, 36 + i * (width + 20) :][:width, :width] for i in range(count)]


def peak(pixels: NDArray[np.int64]) -> tuple[int, int]:
    """Row and column of the location that the brightest pixel of a square panel lies in."""
    light = pixels.sum(-1)
    y, x = np.unravel_index(light.argmax(), light.shape)
    return int(y / len(light) * ROWS), int(x / light.shape[1] * COLUMNS)


def texts_of(layout: Layout) -> list[str]:
    return [text.text for text in layout.texts]


# The strip


def test_each_word_is_lit_where_its_attention_is_and_a_flat_map_evenly():
    shown = figure(["dog", "a", "ball"], [one_location(1, 2), FLAT, one_location(3, 5)], gate=np.array([0.9, 0.2, 0.5]))
    photo, dog, flat, ball = panels(strip([shown]), 4)
    assert (photo == 128).all()
    assert peak(dog) == (1, 2) and peak(ball) == (3, 5)
    for lit in (dog, ball):
        brightest, darkest = (lit.reshape(-1, 3)[number] for number in (lit.sum(-1).argmax(), lit.sum(-1).argmin()))
        assert brightest.max() > 200 and darkest.max() < 90
    assert (flat.max((0, 1)) - flat.min((0, 1)) <= 1).all()
    assert dog.sum(-1).min() < flat.sum(-1).mean() < dog.sum(-1).max()


def test_the_numbers_are_those_of_the_caption():
    shown = figure(
        ["dog", "a"],
        [one_location(1, 2), FLAT],
        gate=np.array([0.876, 0.2]),
        locations=np.array([[1, 2], [0, 0]]),
        title="dog a",
        note="a model · log p −3.21",
    )
    assert texts_of(lay_out([shown], Style()))[:7] == [
        "dog a",
        "a model · log p −3.21",
        "photo",
        "dog",
        "β 0.88 · peak α 1.000",
        "a",
        "β 0.20 · peak α 0.029",
    ]
    assert "peak α 1.000" in texts_of(lay_out([figure(["dog"], [one_location(1, 2)])], Style()))  # without a gate, no β


def test_evidence_is_shown_on_one_scale_and_a_word_without_it_stays_dark():
    evidence = np.stack([one_location(1, 2), 0.02 * one_location(3, 5), -one_location(2, 3)])
    shown = figure(["dog", "a", "in"], [one_location(3, 0)] * 3, evidence=evidence, gate=np.array([0.9, 0.9, 0.9]))
    _, dog, article, preposition = panels(strip([shown]), 4)
    assert peak(dog) == (1, 2) and dog.max() > 200 and article.max() < 60 and preposition.max() < 40
    texts = " · ".join(texts_of(lay_out([shown], Style())))
    assert "evidence 100 % · upper middle · a · evidence 2 % · in · evidence 0 %" in texts
    assert "dark: least evidence" in texts and "α" not in texts
    _, alpha, *_ = panels(strip([shown], Style(shown="attention")), 4)
    assert peak(alpha) == (3, 0)
    noise = figure(["dog"], [FLAT], evidence=[1e-5 * one_location(1, 2)])
    assert panels_of(noise).strength(0).max() < 0.1


def test_a_place_is_the_middle_of_the_largest_connected_bright_part():
    laid = np.zeros((12, 12))
    laid[1:4, 1:5], laid[10, 11], laid[8:10, 8:10] = 0.8, 1, 0.3
    assert place(laid) == pytest.approx((3 / 12, 2.5 / 12))  # neither the mean of all nor the brightest cell
    laid[1:4, 1:5], laid[8:10, 8:10], laid[10, 9:] = 0.4, 0.9, 1
    assert place(laid) == pytest.approx(((3.6 * 9 + 3 * 10.5) / 6.6 / 12, (3.6 * 9 + 3 * 10.5) / 6.6 / 12))
    assert place(np.zeros((3, 4))) == (0.5, 0.5)
    assert [region(x, y) for y in (0.2, 0.5, 0.8) for x in (0.2, 0.5, 0.8)] == [
        "upper left",
        "upper middle",
        "upper right",
        "left",
        "centre",
        "right",
        "lower left",
        "lower middle",
        "lower right",
    ]


def test_a_word_that_hardly_relied_on_the_photo_does_not_set_the_scale():
    """It may be as bright as the others, and the others stay as bright as without it."""
    wide = (one_location(1, 2) + FLAT) / 2
    alone = panels_of(figure(["dog"], [wide], gate=np.array([0.8])))
    unrelied, relied = (
        panels_of(figure(["a", "dog"], [one_location(0, 0), wide], gate=np.array([gate, 0.8]))) for gate in (0.3, 0.4)
    )
    assert unrelied.white == alone.white < relied.white
    assert unrelied.strength(0).max() == unrelied.strength(1).max() == 1


def legend(shown: FigureData, style: Style) -> str:
    texts = texts_of(lay_out([shown], style))
    return " · ".join(texts[next(number for number, text in enumerate(texts) if ": least attention" in text) :])


def test_the_scale_is_explained_in_words_that_need_no_other_page():
    gate, locations = np.array([0.876, 0.2]), np.array([[1, 2], [0, 0]])
    shown = figure(["dog", "a"], [one_location(1, 2), FLAT], gate=gate, locations=locations)
    white = attention_map(one_location(1, 2), (300, 300), SQUARE).max()
    assert 10 < white * 35 < 20  # times the average of 35 locations
    assert legend(shown, Style()) == (
        f"dark: least attention · white: most attention, {white * 35:.0f} times the average · "
        "frame: the chosen location · α: a location’s share of the attention · "
        "β: how much a word relied on the photo, 0 to 1"
    )
    flat = figure(["a"], [FLAT])  # whose scale ends at four times the average
    assert legend(flat, Style()).startswith("dark: least attention · white: most attention, 4 times the average · α")


@pytest.mark.parametrize("dark", [False, True])
def test_what_a_crop_did_not_see_is_faded_into_the_page_in_every_panel(dark):
    photo = Image.new("RGB", (380, 225), (20, 160, 20))
    page = 18 if dark else 255
    full_photo = (0.0, 0.0, 380.0, 225.0)
    for box, faded in ((center_crop((380, 225)), True), (full_photo, False)):
        shown = figure(["grass"], [one_location(2, 3)], photo=photo, visible_box=box)
        pixels = np.asarray(strip([shown], Style(dark=dark)), dtype=np.int64)
        assert (pixels[0, 0] - page < 5).all()
        for left in (36 + 5, 36 + 380 + 20 + 5):  # in the photo's panel, and in the word's
            red = pixels[40:255, left : left + 20, 0]
            if dark:
                assert (red.max() > 60) == faded  # the hatching
            else:
                assert (red.min() > 150) == faded
        assert ("striped: not seen by the model" in " · ".join(texts_of(lay_out([shown], Style())))) == faded


@pytest.mark.parametrize("size", [(1000, 40), (40, 1000), (7, 5)])
@pytest.mark.parametrize("words", [0, 1, 23])
def test_any_photo_and_any_length_fit_a_page(size, words):
    shown = figure(
        ["word"] * words,
        np.full((words, ROWS, COLUMNS), 1 / 35),
        photo=Image.new("L", size),
        gate=np.zeros(words),
        visible_box=squash(size),
        title="a title that is much too long for a page as narrow as this one and so has to be wrapped " * 2,
    )
    layout = lay_out([shown], Style())
    assert 300 < layout.width <= 1700
    assert all(letters.length(text.text, text.size) <= layout.width - text.x for text in layout.texts)
    assert strip([shown]).mode == "RGB"


def test_more_attention_is_lighter_for_any_eye():
    """Luminance, which no color blindness takes away, rises all along the scale."""
    luminance = color_scale(64) @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(luminance) > 0).all() and luminance[-1] - luminance[0] > 120


# Letters


@pytest.fixture
def only_inter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A machine without any font, and without fontconfig."""
    for name in ("PATH", "XDG_DATA_HOME", "XDG_DATA_DIRS"):
        monkeypatch.setenv(name, str(tmp_path))
    caches = (letters._face, letters._is_here, letters._has, letters.font)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


@pytest.mark.usefixtures("only_inter")
@pytest.mark.parametrize("word", ["狗", "いぬ", "كلب"])
def test_a_letter_that_no_font_has_is_named(word):
    shown = figure(["a", word], [FLAT, FLAT], title=f"a {word}", note="soft")
    codes = [f"U+{ord(letter):04X}" for letter in word]
    assert [figure.note for figure in noted([shown])] == [
        f"soft · letters that no font found here has: {', '.join(codes)}"
    ]


def test_a_caption_from_right_to_left_stands_so():
    arabic = figure(["قطة", "سوداء"], [FLAT, FLAT], title="قطة سوداء", note="soft")
    layout = lay_out([arabic], Style())
    photo, first, second = (panel.x for panel in layout.panels)
    assert second < first < photo
    title, word = (next(text for text in layout.texts if text.text == wanted) for wanted in ("قطة سوداء", "قطة"))
    assert title.rtl and title.x == photo + layout.captions[0].size[0]  # its right end
    assert word.rtl and word.x == first + layout.captions[0].size[0]
    assert 'direction="rtl">قطة سوداء</text>' in svg(layout)
    latin = lay_out([figure(["a", "cat"], [FLAT, FLAT], title="a cat")], Style())
    assert not any(text.rtl for text in latin.texts) and "direction" not in svg(latin)


def test_pieces_of_words_stand_without_spaces():
    words = ["红色的", "圆形", " dog"] * 20
    chinese = figure(words, [FLAT] * 60, title="".join(words), between="")
    layout = lay_out([chinese], Style())
    lines = [text.text for text in layout.texts if text.size == layout_module.TITLE]
    assert "".join(lines) == "".join(words) and len(lines) > 1  # a text without spaces is broken between two signs
    assert all(letters.length(line, layout_module.TITLE) <= layout.width for line in lines)
    assert "dog" in [text.text for text in layout.texts]
    moving = animation._Scene(layout.captions[0])
    assert [word for line in moving.lines for word in line] == words


# SVG


SVG, HREF = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"


def test_an_svg_shows_what_the_png_shows_and_its_letters_are_text(tmp_path):
    noise = np.random.default_rng(3).integers(0, 255, (20, 20, 3), dtype=np.uint8)
    photo = Image.fromarray(noise).resize((400, 300), Image.Resampling.BICUBIC)
    attention = np.random.default_rng(5).dirichlet(np.full(35, 0.1), 2).reshape(2, ROWS, COLUMNS)
    shown = figure(["<unk>", "&"], attention, photo=photo, visible_box=center_crop((400, 300)), title="<unk> & co")
    save(tmp_path / "x.svg", [shown], form="svg")
    root = ElementTree.parse(tmp_path / "x.svg").getroot()
    layout, pixels = lay_out([shown], Style()), np.asarray(strip([shown]), dtype=np.float64)
    assert [text.text for text in root.iter(f"{SVG}text")] == texts_of(layout)
    assert root.findtext(f"{SVG}title") == "<unk> & co"
    (image,) = root.iter(f"{SVG}image")
    ground = np.asarray(Image.open(io.BytesIO(base64.b64decode(image.attrib[HREF].split(",")[1]))))
    assert ground.shape == pixels.shape
    for panel in layout.panels:
        width, height = layout.captions[0].size
        place = slice(panel.y, panel.y + height), slice(panel.x, panel.x + width)
        assert np.abs(ground[place] - pixels[place]).mean() < 4, panel


def test_words_cannot_become_markup_in_an_svg():
    evil = '</text><script>alert("&")</script>'
    drawn = ElementTree.fromstring(svg(lay_out([figure([evil], [FLAT], title=evil, note=evil)], Style())))
    assert {element.text for element in drawn.iter(f"{SVG}text")} >= {evil}
    assert drawn.find(f".//{SVG}script") is None


@pytest.mark.parametrize("form", ["gif", "webp"])
def test_an_animation_follows_the_attention(form, tmp_path):
    short = figure(["dog"], [one_location(1, 2)], gate=np.array([0.9]))
    long = figure(["a", "ball"], [one_location(3, 5), one_location(0, 1)])
    save(tmp_path / "x", [short, long], form=form)
    peaks, stands = [], []
    with Image.open(tmp_path / "x") as moving:
        assert moving.n_frames == 4 and moving.info["loop"] == 0
        for number in range(4):
            moving.seek(number)
            pixels = np.asarray(moving.convert("RGB"), dtype=np.int64)
            stands.append(moving.info["duration"])
            both = [pixels[36:376, left : left + 340] for left in (36, 36 + 340 + 64)]
            peaks.append([peak(panel) if np.ptp(panel) > 60 else None for panel in both])
    assert peaks == [[None, None], [(1, 2), (3, 5)], [None, (0, 1)], [None, None]]
    assert stands == [700, 900, 900, 2400]
