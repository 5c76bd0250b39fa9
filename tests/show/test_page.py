"""The pages of captions and of reports: what they hold, and in Chromium, whether people find their way in them."""

import base64
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import becomes, press
from commands import read_json, refused, sat
from PIL import Image

from show_attend_tell.caption import Caption
from show_attend_tell.errors import SatError
from show_attend_tell.report import report
from show_attend_tell.show import page as pages
from show_attend_tell.show.pictures import attention_map
from show_attend_tell.show.pictures.figure import Panels
from show_attend_tell.show.pictures.maps import place
from show_attend_tell.show.pictures.style import Style

ROWS, COLUMNS = 3, 5
WIDTH, HEIGHT = 350, 210  # a location is 70 × 70
EVIL = "</script><img src=x onerror=alert(1)>"


def attention(*locations: tuple[int, int]) -> np.ndarray:
    """Maps of nine tenths on one location each."""
    maps = np.full((len(locations), ROWS, COLUMNS), 0.1 / (ROWS * COLUMNS - 1), np.float32)
    for alpha, location in zip(maps, locations, strict=True):
        alpha[location] = 0.9
    return maps


def caption(**changes: Any) -> Caption:
    """Attention at the upper left, at the lower right, and uniform."""
    maps = attention((0, 0), (2, 4), (1, 1))
    maps[2] = 1 / (ROWS * COLUMNS)
    settings = {
        "words": ["a", "small", "dog"],
        "log_probability": -3.25,
        "word_log_probabilities": np.array([-1.0, -1.25, -1.0]),
        "attention": maps,
        "gate": np.array([0.25, 0.75, 0.5], np.float32),
        "locations": None,
        "complete": True,
        "alternatives": [("a dog", -4.5), ("a cat", -7.0)],
        "settings": {"model": "soft", "attention_mode": "mean", "beam_size": 3},
        "source": "folder/dog.jpg",
        "kept": Image.new("RGB", (WIDTH, HEIGHT), (120, 120, 120)),
        "visible_box": (0.0, 0.0, float(WIDTH), float(HEIGHT)),
    }
    return Caption(**(settings | changes))


def hard(**changes: Any) -> Caption:
    settings = {"model": "hard", "attention_mode": "argmax", "beam_size": 1}
    return caption(locations=np.array([[0, 0], [2, 4], [1, 2]]), settings=settings, alternatives=[], **changes)


def with_image(caption: Caption, **options: int) -> dict[str, Any]:
    return pages.with_image(caption.to_dict(), caption.photo, **options)


# The page, without a browser


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="sat-data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_a_page_holds_each_photo_once_and_its_name_only():
    page = caption().html(compare=[hard()])
    data = data_of(page)
    (photo,) = data["photos"]
    assert photo["name"] == "dog.jpg" and [one["settings"]["model"] for one in photo["captions"]] == ["soft", "hard"]
    assert photo["captions"][0]["words"] == ["a", "small", "dog"]
    assert page.count("data:image/jpeg") == 1
    assert "folder/" not in page and not re.search(r'(src|href)="(?!data:)', page)


def test_what_a_photo_is_called_cannot_become_markup():
    evil = caption(words=[EVIL], attention=attention((0, 0)), gate=None, source=f"{EVIL}\udcff")
    page = pages.captions_page([with_image(evil)], title=f"{EVIL}\udcff", cards={"soft": EVIL})
    assert page.count("<img") == 0 and page.count("</script>") == 2
    page.encode()


def test_an_image_is_small_and_its_size_is_the_photos_own():
    wide = caption(kept=Image.new("RGB", (2003, 1001)), visible_box=(0.0, 0.0, 2003.0, 1001.0))
    held = with_image(wide)
    assert held["size"] == [2003, 1001] and held["visible_box"] == [0.0, 0.0, 2003.0, 1001.0]
    assert opened(held["image"]).size == (1000, 500)
    assert opened(with_image(wide, side=pages.longest(1000))["image"]).size == (400, 200)


def opened(uri: str) -> Image.Image:
    assert uri.startswith("data:image/jpeg;base64,")
    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))


def test_packed_attention_keeps_every_map_to_its_own_peak():
    maps = attention((0, 3), (2, 1))
    maps[1] = np.linspace(0.01, 0.12, ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    found = pages.packed("here", maps.tolist(), 2)
    assert (found["rows"], found["columns"]) == (ROWS, COLUMNS)
    levels = np.frombuffer(base64.b64decode(found["data"]), np.uint8).reshape(2, ROWS, COLUMNS)
    back = levels / 255 * np.array(found["peaks"])[:, None, None]
    assert np.abs(back - maps).max(axis=(1, 2)) == pytest.approx([0, 0], abs=0.003)
    assert np.abs(back - maps)[1].max() < 0.0005  # finer where the peak is lower
    assert pages.packed("here", None, 2) is None
    for wrong in (maps[0].tolist(), maps[:1].tolist(), [[["x"]]], "maps"):
        with pytest.raises(SatError, match="here: 'attention' must be a map for each of 2 words"):
            pages.packed("here", wrong, 2)


# The report, without a browser


def evaluation(folder: Path, name: str, captions: list[str], *, maps: bool = True, photos: int | None = None) -> Path:
    """An evaluation of photos in that folder; the n-th is better the smaller n is."""
    results = []
    for number, text in enumerate(captions):
        file, words = folder / f"{number % 50}.png", [word.replace("_", " ") for word in text.split()]
        if not file.exists() and (photos is None or number < photos):
            Image.new("RGB", (WIDTH // 10, HEIGHT // 10), (number % 256, 90, 90)).save(file)
        entry = {"photo": f"{number}.png", "file": str(file), "caption": " ".join(words)}
        entry |= {"log_probability": -1.5 - number, "complete": True, "cider": 200.0 - number, "meteor": None}
        entry |= {"words": words, "word_log_probabilities": [-1.5] * len(words)}
        entry["references"] = ["a brown dog runs", "The dog's running!"]
        if maps:
            entry |= {"attention": attention(*[(0, 4)] * len(words)).tolist(), "gate": [0.5] * len(words)}
            entry |= {"locations": None, "alternatives": [{"caption": "a dog", "log_probability": -9.0}]}
            entry["visible_box"] = [0.0, 0.0, WIDTH / 10, HEIGHT / 10]
        results.append(entry)
    scores = {f"bleu_{n}{kind}": 60.0 - n for n in (1, 2, 3, 4) for kind in ("", "_no_brevity")}
    scores |= {"meteor": None, "meteor_missing": "Java is not installed", "rouge_l": 44.0, "cider": 55.5}
    scores |= {"tokens": "split", "model": name, "data": "shapes", "split": "test"}
    scores |= {"beam_size": 3, "attention_mode": "mean"}
    file = folder / f"{name}.json"
    file.write_text(json.dumps({**scores, "results": results}))
    return file


CAPTIONS = ["a dog runs", "a red dog runs", "a cat", "a small cat sits on a red mat"]
OTHERS = ["a dog runs", "the dog", "a cat", "a dog on a mat"]


def test_a_report_keeps_what_it_shows_and_no_paths(tmp_path):
    captions = [*CAPTIONS[:3], "a small cat sits on a bath_mat"]  # the name of a class is one word
    made = report([evaluation(tmp_path, "soft", captions)], show=False)
    data = data_of(made.page)
    assert str(tmp_path) not in made.page
    assert (made.photos, made.missing, made.attention) == (4, [], True)
    assert opened(data["photos"][0]["image"]).size == (35, 21) and data["photos"][0]["size"] == [35, 21]
    worst = data["photos"][3]["captions"][0]
    assert (worst["cider"], worst["word_log_probabilities"][0], worst["words"][-1]) == (197, -1.5, "bath mat")
    table = data["report"]["table"]
    assert table[0] == ["", "soft"] and ["BLEU-4 without penalty", "56.0"] in table and ["beam size", "3"] in table


def test_a_report_beside_captions_from_elsewhere_has_the_photos_too(tmp_path):
    files = [evaluation(tmp_path, name, CAPTIONS) for name in ("soft", "elsewhere")]
    content = read_json(files[1])
    for entry in content["results"]:
        del entry["file"]  # as `sat score` writes them
    files[1].write_text(json.dumps(content))
    assert report(files, show=False).missing == []


def test_sat_report_says_what_it_could_not_show(tmp_path):
    file = evaluation(tmp_path, "soft", CAPTIONS, maps=False, photos=2)
    result = sat("report", file, "--output", tmp_path / "r.html")
    assert "2 of 4 photos were not found and stay empty: 2.png, 3.png" in result.stderr
    assert "the page cannot show where the model looked" in result.stderr
    assert result.stdout.startswith(f"{tmp_path / 'r.html'}: 4 photos, ")
    photo = (tmp_path / "0.png").read_bytes()
    for arguments, message in (
        (["soft.json", "--output", "0.png"], "0.png is read by this command, and would be overwritten"),
        (["absent.json"], r"cannot read .*absent\.json"),
        (["soft.json", "--output", "absent/r.html"], "is not a folder"),
        (["soft.json", "--output", "soft.json"], "is read by this command, and would be overwritten"),
    ):
        paths = [part if part.startswith("--") else str(tmp_path / part) for part in arguments]
        assert re.search(message, refused("report", *paths, code=1))
    assert (tmp_path / "0.png").read_bytes() == photo


REFUSED = [  # a field of the first entry, or of the file with a slash, and its value
    ("words", "a dog", "'words' must be a list of texts, and is 'a dog'"),
    ("attention", [[[float("nan")]]] * 3, "'attention' must be a map for each of 3 words"),
    ("cider", [1], r"'cider' must be a number, and is \[1\]"),
    ("gate", [float("nan")] * 3, ".*write null for a number that is missing"),
    ("/tokens", None, "'tokens' must be a text"),
]


@pytest.mark.parametrize(("key", "value", "message"), REFUSED)
def test_a_damaged_evaluation_is_told(key, value, message, tmp_path):
    file = evaluation(tmp_path, "soft", CAPTIONS)
    content = read_json(file)
    (content if key[0] == "/" else content["results"][0])[key.removeprefix("/")] = value
    file.write_text(json.dumps(content))
    where = "" if key[0] == "/" else r"results\[0\].*"
    with pytest.raises(SatError, match=rf"soft\.json: {where}{message}"):
        report([file], show=False)


def test_evaluations_that_cannot_be_read_together_or_at_all_are_refused(tmp_path):
    first, second = evaluation(tmp_path, "soft", CAPTIONS), evaluation(tmp_path, "hard", OTHERS[:3])
    with pytest.raises(SatError, match=r"references of the photo '3\.png', or one of them lacks it"):
        report([first, second], show=False)
    for text in ("[" * 100_000, '{"tokens": 1' + "0" * 5000 + "}"):
        first.write_text(text)
        with pytest.raises(SatError, match=r"soft\.json is not valid JSON"):
            report([first], show=False)


# In a browser


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Opens a page, or that of a caption, in a window of its own; it must not complain, nor ask for anything."""
    contexts = []
    complaints = []

    def visit(shown: str | Caption, **options: Any) -> Any:
        (tmp_path / "page.html").write_text(shown if isinstance(shown, str) else shown.html())
        context = browser.new_context(
            **{"viewport": {"width": 1100, "height": 800}, "reduced_motion": "reduce"} | options
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url[:80]))
        page.goto(f"file://{tmp_path}/page.html")
        return page

    yield visit
    for context in contexts:
        context.close()
    expected = ("data:", f"file://{tmp_path}/"[:80], "Canvas2D: Multiple readback")  # the last are the tests' own
    assert [text for text in complaints if not text.startswith(expected)] == []


def overlay(page: Any, x: float, y: float, *, panel: int = 0) -> list[int]:
    """What lies over a caption's photo at a point of it, 0 to 1: red, green, blue, alpha."""
    return page.evaluate(
        """([panel, x, y]) => {
            const canvas = document.querySelectorAll("canvas")[panel];
            const at = [Math.floor(x * canvas.width), Math.floor(y * canvas.height), 1, 1];
            return [...canvas.getContext("2d").getImageData(...at).data];
        }""",
        [panel, x, y],
    )


UPPER_LEFT, LOWER_RIGHT, CENTER = (0.1, 1 / 6), (0.9, 5 / 6), (0.5, 0.5)
FIRST = ["bright", "dark"]  # a map of the upper left
BARE = ["", ""]  # the photo as it is


def word(page: Any, text: str, *, panel: int = 0) -> Any:
    return page.locator(".sat-caption").nth(panel).get_by_role("button", name=re.compile(rf"^{text}\s*:"))


def light(page: Any, *points: tuple[float, float], panel: int = 0) -> list[str]:
    """What a map is at points of a caption's photo: bright, dark or between; empty where there is none."""
    kinds = []
    for point in points or (UPPER_LEFT, LOWER_RIGHT):
        red, *_, alpha = overlay(page, *point, panel=panel)
        kinds.append("" if not alpha else "bright" if red > 200 else "dark" if red < 30 and alpha > 150 else "between")
    return kinds


def text_of(page: Any, place: str = ".sat-readout") -> str:
    """The first text of that class."""
    return str(page.locator(place).first.inner_text())


def travel(page: Any, **keys: str) -> None:
    """Press keys; each leads to a word."""
    for key, expected in keys.items():
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.innerText.split(':')[0].trim()") == expected, key
        assert page.locator("[aria-pressed=true]").count() == 1


def test_maps_and_their_places_are_those_of_the_pictures(visit):
    chance, page = np.random.default_rng(7), visit(caption())
    alpha = chance.dirichlet(np.ones(ROWS * COLUMNS)).reshape(ROWS, COLUMNS)
    found = page.evaluate(
        "([alpha, rows, columns, offset]) => [...SatCaptions.smooth(alpha, rows, columns, offset)]",
        [alpha.ravel().tolist(), ROWS, COLUMNS, [0.3, -0.2]],
    )
    expected = attention_map(alpha, (112, 112), (0, 0, 112, 112), (0.3, -0.2))
    np.testing.assert_allclose(np.reshape(found, (112, 112)), expected, atol=2e-6)
    maps = [attention_map(chance.random((ROWS, COLUMNS)) ** 8, (112, 112), (0, 0, 112, 112)) for _ in range(20)]
    found = page.evaluate(
        "(maps) => maps.map((one) => SatCaptions.place(Float32Array.from(one)))", [one.ravel().tolist() for one in maps]
    )
    np.testing.assert_allclose(found, [place(one) for one in maps], atol=1e-4)


def test_evidence_is_shown_first_and_attention_is_one_click_away(visit):
    evidence = attention((2, 4), (0, 0), (1, 1)) * np.array([0.01, 1, 0.2])[:, None, None] - 0.001
    page = visit(caption(evidence=evidence))
    heard = [one.text_content() for one in page.locator(".sat-word").all()]
    assert heard == [
        "a: hardly any evidence in the photo, 1 % of the strongest, no place in the photo decides it",
        "small: the strongest evidence of the caption, at the upper left",
        "dog: evidence at the left, 16 % of the strongest",
    ]
    for bar, share in zip(page.locator(".sat-beta span").all(), (4, 100, 16), strict=True):  # at least a line
        assert bar.evaluate("bar => parseFloat(bar.style.height)") == pytest.approx(share, abs=1)
    assert page.locator("[aria-pressed=true]").count() == 0 and light(page) == BARE
    word(page, "a").click()
    assert light(page) == ["dark", "dark"]
    word(page, "small").click()
    assert light(page) == FIRST
    assert "white: most evidence of the caption" in text_of(page, ".sat-scale")
    page.get_by_label("Attention", exact=True).check()
    assert light(page)[1] == "bright" and "most attention" in text_of(page)
    word(page, "a").click()
    assert light(page)[0] == "bright"
    page.get_by_label("Evidence", exact=True).check()
    assert "bright places supported it" in text_of(page, ".sat-about")
    press(page, "Show its attention")  # of a word of hardly any evidence
    assert page.get_by_label("Attention", exact=True).is_checked() and light(page)[0] == "bright"
    assert "bright places had the attention" in text_of(page, ".sat-about")
    assert not re.search(r"nats|log p|β|α|rerank|attention mode", text_of(page, "main"))
    page.get_by_text("Details").click()
    assert re.search(r"log p −3.25 · beam size 3 · attention mode: mean", text_of(page, "main"))
    assert page.locator(".sat-more tr").nth(2).inner_text().split() == ["small", "−1.25", "0.98", "0.900", "0.75"]
    without = visit(caption())
    without.keyboard.press("Escape")
    without.locator(".sat-photo").click()
    assert "no evidence, so attention is shown" in text_of(without)
    assert without.get_by_label("Evidence", exact=True).count() == 0


def test_evidence_of_a_certain_word_is_as_bright_as_its_log_odds_say(visit):
    """log p of a word of p 0.99 hardly grows with the attention; its log-odds grow a hundred times as fast."""
    evidence = attention((2, 4), (0, 0), (1, 1)) * np.array([0.01, 0.5, 0.004])[:, None, None]
    told = np.array([np.log(0.99), np.log(0.5), np.log(0.98)])
    sure = caption(evidence=evidence, word_log_probabilities=told, word_confidence=np.array([np.nan, 0.9, 0.2]))
    page = visit(sure)
    heard = [one.text_content() for one in page.locator(".sat-word").all()]
    assert heard[0].startswith("a: the strongest evidence") or heard[1].startswith("small: the strongest evidence")
    assert "evidence at the left, 14 % of the strongest" in heard[2]
    about = text_of(page, ".sat-about")
    assert "Dotted words are doubted" in about and "doubted: confidence 0.20" in heard[2]
    assert "Dotted" not in text_of(visit(caption(evidence=evidence)), ".sat-about")
    shown = Panels(sure._figure_data("evidence"), Style(), area=90_000, widest=300, room=300)
    assert shown.peaks[0] == pytest.approx(shown.peaks[1], rel=0.02)
    known = visit(
        caption(evidence=evidence * np.array([1, 0.01, 0.0])[:, None, None], word_log_probabilities=told).html()
    )
    assert "a certain word needs none" in word(known, "dog").text_content()


def test_pointing_at_a_word_shows_and_tells_its_attention(visit):
    page = visit(caption())
    word(page, "a").hover()
    assert light(page) == FIRST
    assert "most attention at the upper left, relied 25 % on the photo" in text_of(page)
    page.mouse.move(5, 5)
    assert light(page) == BARE
    heard = page.get_by_role("group", name="The caption, word by word").get_by_role("button").all_text_contents()
    assert heard[2] == "dog: attention nearly uniform, relied 50 % on the photo"
    for role in ("article", "img"):
        assert page.get_by_role(role, name="a small dog").count() == 1


def test_flat_maps_are_dim(visit):
    points = (UPPER_LEFT, CENTER, LOWER_RIGHT)
    page = visit(caption())
    word(page, "dog").click()  # whose map is uniform
    assert light(page, *points) == ["dark"] * 3
    assert "nearly uniform" in text_of(page)
    uniform = visit(caption(attention=np.full((3, ROWS, COLUMNS), 1 / (ROWS * COLUMNS))).html())
    word(uniform, "a").click()
    assert all(overlay(uniform, *at)[0] < 30 and overlay(uniform, *at)[3] > 80 for at in points)


def test_the_keyboard_reaches_every_word(visit):
    page = visit(caption(evidence=attention((0, 0), (2, 4), (1, 1))))
    page.get_by_role("radio", name="Evidence").focus()
    travel(page, Tab="a")
    assert light(page)[0] == "bright"
    travel(page, ArrowRight="small", End="dog", ArrowLeft="small", Home="a")
    for key in ("ArrowLeft", "End", "ArrowRight"):  # the ends hold
        page.keyboard.press(key)
    assert word(page, "dog").get_attribute("aria-pressed") == "true" and light(page) != BARE
    page.get_by_role("button", name="Play").focus()
    page.keyboard.press("Escape")  # from anywhere in the caption
    assert light(page) == BARE and page.locator("[aria-pressed=true]").count() == 0
    travel(page, **{"Shift+Tab": "dog"})  # one stop for the sentence, at the last word visited


def test_a_caption_from_right_to_left_is_read_and_travelled_so(visit):
    words = ["قطة", "سوداء", "هنا"]
    page = visit(caption(words=words, alternatives=[("كلب هنا", -3.0)]).html())
    boxes = [word(page, text).bounding_box() for text in words]
    assert boxes[0]["x"] > boxes[1]["x"] > boxes[2]["x"]
    word(page, words[0]).click()
    travel(page, ArrowLeft=words[1], End=words[2], ArrowRight=words[1], Home=words[0])
    assert page.locator(".sat-beams bdi").all_text_contents() == ["قطة سوداء هنا", "كلب هنا"]
    assert page.locator(".sat-words").evaluate("one => getComputedStyle(one).direction") == "rtl"
    latin = visit(caption())
    assert latin.locator(".sat-words").evaluate("one => getComputedStyle(one).direction") == "ltr"


def test_soft_and_hard_stand_side_by_side_and_a_place_is_framed(visit):
    page = visit(caption().html(compare=[hard()]))
    left, right = (page.locator(".sat-photo").nth(panel).bounding_box() for panel in (0, 1))
    assert left["y"] == right["y"] and left["x"] + left["width"] < right["x"]
    word(page, "a", panel=0).click()
    word(page, "small", panel=1).hover()
    assert light(page)[1] == "dark"  # which shows its own word
    red, _, blue, alpha = overlay(page, 0.9, 2 / 3, panel=1)  # the upper edge of the location
    assert red > 200 and blue < 60 and alpha == 255
    assert "attention at one location, the lower right" in page.locator(".sat-readout").nth(1).inner_text()


def test_what_a_crop_did_not_see_is_hatched_and_never_lit(visit):
    page = visit(caption(visible_box=(70.0, 0.0, 280.0, 210.0)).html())
    page.locator(".sat-photo").click()
    assert overlay(page, 0.05, 0.5)[3] > 150 and light(page, CENTER) == [""]
    outside = [overlay(page, x, 0.5) for x in (0.02, 0.05, 0.15, 0.85, 0.95)]
    word(page, "a").hover()
    assert [overlay(page, x, 0.5) for x in (0.02, 0.05, 0.15, 0.85, 0.95)] == outside
    assert light(page, (0.2 + 0.6 * 0.1, 1 / 6)) == ["bright"] and "not seen" in text_of(page, ".sat-facts")


def test_words_are_text_whatever_they_hold(visit):
    evil = caption(words=[EVIL], attention=attention((0, 0)), gate=None, alternatives=[(EVIL, -1.0)], source=EVIL)
    page = visit(pages.captions_page([with_image(evil)], title=EVIL, cards={"soft": EVIL}))
    assert text_of(page, ".sat-word > span") == EVIL and text_of(page, "h1") == EVIL
    assert page.locator("img").count() == 1  # the photo


def test_other_captions_the_card_and_models_without_attention_or_words_are_shown(visit):
    card = "# soft\n\nA *model* of `words`, <b>here</b>.\n\n| B-1 | B-4 |"
    page = visit(pages.captions_page([with_image(caption(complete=False))], title="dog", cards={"soft": card}))
    page.get_by_text("The beam’s other captions").click()
    beams = [re.sub(r"\s+", " ", row) for row in page.locator(".sat-beams li").all_inner_texts()]
    assert beams == ["a small dog −3.25", "a dog −4.50", "a cat −7.00"]
    page.get_by_text("The model’s card").click()
    assert text_of(page, "pre.sat-card") == card  # as it is written
    assert "truncated at the maximum length" in text_of(page, ".sat-words")
    plain = caption(attention=None, gate=None)
    silent = caption(words=[], attention=np.zeros((0, ROWS, COLUMNS)), gate=np.zeros(0), settings={"model": "silent"})
    page = visit(plain.html(compare=[silent]))
    assert "no attention to show" in text_of(page)
    word(page, "small").click()
    assert light(page) == BARE and page.get_by_text("no word", exact=True).count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_light_or_dark(scheme, visit):
    page = visit(caption(), color_scheme=scheme)
    ground = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
    assert (page.evaluate(ground) > 200) == (scheme == "light")


def test_a_phone_taps_words_and_never_scrolls_sideways(visit):
    page = visit(
        caption().html(compare=[hard()]), viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    word(page, "small").tap()
    assert light(page)[1] == "bright"
    photo, sentence = page.locator(".sat-photo").first.bounding_box(), word(page, "small").bounding_box()
    assert photo["y"] >= 0 and sentence["y"] + sentence["height"] < 844  # both are on the screen
    page.locator(".sat-photo").first.tap()
    assert light(page) == BARE


def test_jupyters_frame_works_and_reaches_nothing(visit):
    shown = caption()._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and 'sandbox="allow-scripts"' in shown and shown.count("<") == 2
    page = visit(f"<!doctype html>{shown}")
    frame = page.frame_locator("iframe")
    frame.get_by_role("button", name=re.compile(r"^small\s*:")).hover()
    assert "lower right" in text_of(frame)


# The report, in a browser


def two_models(folder: Path) -> str:
    """The report of two evaluations."""
    return report([evaluation(folder, "soft", CAPTIONS), evaluation(folder, "hard", OTHERS)], show=False).page


def sentences(page: Any, within: str) -> list[str]:
    """The first model's captions of the photos shown there, those out of view as well."""
    script = "tiles => tiles.map(tile => tile.querySelector('.sat-sentence').textContent)"
    return list(page.locator(f"{within} .sat-tile").evaluate_all(script))


def test_a_report_shows_scores_and_is_searched_and_sorted(visit, tmp_path):
    page = visit(two_models(tmp_path))
    rows = [re.sub(r"\s+", " ", row) for row in page.locator(".sat-scores tr").all_inner_texts()]
    assert rows[:2] == [" soft hard", "BLEU-1 59.0 59.0"] and "attention mode mean mean" in rows
    assert sentences(page, ".sat-gallery") == CAPTIONS[::-1]  # worst first
    order = page.get_by_role("combobox", name="Order")
    order.select_option("best first")
    assert sentences(page, ".sat-gallery") == CAPTIONS
    order.select_option("models furthest apart in CIDEr")  # nowhere
    page.get_by_role("searchbox").fill("Dog runs")
    assert sentences(page, ".sat-gallery") == CAPTIONS[:2]
    assert page.get_by_role("status").inner_text() == "2 photos of 4."
    page.get_by_role("combobox", name="Model").select_option("hard")
    assert sentences(page, ".sat-gallery") == CAPTIONS[:1]


def test_a_photo_of_the_report_opens_in_full(visit, tmp_path):
    page = visit(two_models(tmp_path))
    page.locator(".sat-gallery .sat-tile").first.click()
    dialog = page.get_by_role("dialog")
    assert "3.png" in dialog.inner_text() and "a brown dog runs" in dialog.inner_text()
    word(page, "mat").click()
    assert light(page, (0.9, 1 / 6), (0.1, 5 / 6)) == FIRST
    assert "upper right, relied 50 % on the photo" in text_of(dialog)
    assert "CIDEr 197.0" in text_of(dialog, ".sat-facts")
    assert "log p −4.50 · beam size 3" in dialog.locator(".sat-more .sat-note").nth(1).text_content()
    page.keyboard.press("Escape")  # lets go of the word
    assert light(page) == BARE and dialog.is_visible()
    dialog.get_by_label("Next photo").click()
    assert "2.png" in dialog.inner_text() and "2 of 4" in dialog.inner_text()
    page.keyboard.press("Escape")
    assert not dialog.is_visible()


# Many captions, in a browser


@pytest.fixture(scope="module")
def thousand() -> str:
    """A page of a thousand captions: the n-th is of photo n.jpg, with log p −n / 100."""
    small = Image.new("RGB", (35, 21), (120, 120, 120))
    captions = []
    for number in range(1000):
        words = ["a", "cat" if number % 100 == 7 else "dog", *["runs"] * (number % 3)]
        one = caption(
            words=words,
            attention=attention(*[(0, 4)] * len(words)),
            gate=None,
            log_probability=-number / 100,
            alternatives=[],
            source=f"holiday/{number}.jpg",
            kept=small,
            visible_box=(0.0, 0.0, 35.0, 21.0),
        )
        captions.append(with_image(one))
    return pages.captions_page(captions, title="1,000 photos", cards={"soft": "# soft"})


CARDS = ".sat-tile, .sat-caption"


def test_a_thousand_captions_draw_few_cards_until_one_scrolls(visit, thousand):
    page = visit(thousand)
    becomes(lambda: page.locator(".sat-tile img[src]").count() > 0)
    assert 10 < page.locator(CARDS).count() <= 120 and page.locator("canvas").count() == 0
    assert page.get_by_role("status").inner_text() == "All 1,000 photos."
    for _ in range(3):
        drawn = page.locator(CARDS).count()
        page.locator(".sat-tile").last.scroll_into_view_if_needed()
        becomes(lambda drawn=drawn: page.locator(CARDS).count() > drawn)  # type: ignore[misc]
    assert page.locator(CARDS).count() < 1000
    assert page.locator(".sat-tile img[src]").count() < 120  # only those near the window hold their photo


def test_a_few_captions_are_shown_in_full_and_two_models_can_be_compared_in_many(visit):
    photos = [Image.new("RGB", (35, 21), (number, 90, 90)) for number in range(12)]

    def page_of(number: int) -> str:
        both = [
            one(source=f"{n}.jpg", kept=photos[n], words=["a", "dog", str(n % 2)] if one is caption else list("adb"))
            for n in range(number)
            for one in (caption, hard)
        ]
        return pages.captions_page([with_image(one) for one in both], title="photos")

    few = visit(page_of(pages.FEW))
    assert few.locator(".sat-caption").count() == 2 * pages.FEW and few.locator(".sat-tile, form").count() == 0
    many = visit(page_of(12))
    assert many.locator(".sat-tile").count() == 12 and many.locator(".sat-caption").count() == 0
    assert many.locator(".sat-tile small").all_inner_texts()[:2] == ["soft", "hard"]
    many.get_by_role("searchbox").fill("1")
    assert many.locator(".sat-tile").count() == 6 + 1  # said in six captions; and in the name of 10.jpg
    many.get_by_role("combobox", name="Model").select_option("hard")
    assert many.locator(".sat-tile").count() == 2 + 1
