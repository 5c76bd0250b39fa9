"""The page that captions photos by itself, built and opened in a headless Chromium. Its captions are Python's."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from browsing import counts, reads, review_chosen, says
from documents import ROOT, needs_models
from PIL import Image
from playwright.sync_api import expect
from static import WEB, needs_chromium, needs_node, node, static

from show_attend_tell import Captioner
from show_attend_tell.review.table import read_table

pytestmark = [needs_node, needs_chromium, needs_models]

MODELS = ("everyday-soft", "everyday-hard")
BEAM = 5
PATIENCE = 240_000  # milliseconds: a photo takes seconds, and other tests may run at the same time
NAMES = ("dogs", "failures/mountain", "failures/otter", "photographer")
EXAMPLES = [ROOT / "examples" / f"{name}.jpg" for name in NAMES]


def build(folder, *models):
    """Build the page with models, as `make web` does."""
    node("node_modules/vite/bin/vite.js", "build", "--outDir", folder, "--emptyOutDir", "--logLevel", "warn")
    command = [sys.executable, str(WEB / "models.py"), str(folder / "models"), *models]
    subprocess.run(command, check=True, capture_output=True, timeout=300)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    build(folder, *MODELS)
    with static(folder) as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def patience(browser):
    expect.set_options(timeout=PATIENCE)
    yield
    expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def visited(browser, site):
    """A browser that has been on the page and has the soft model, and what it asked for on the way."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@pytest.fixture
def opened(site):
    """Opens the page; at the end no script may have failed, and nothing may have broken the content policy."""
    pages = []
    failures = []

    def open_page(context):
        page = context.new_page()
        pages.append(page)
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("console", lambda message: "Content Security" in message.text and failures.append(message.text))
        page.goto(site.url)
        counts(page, "#model option", 3)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert not failures


def photos(folder):
    """Three photos: a plain JPEG, one that its camera took lying on the side, and a PNG."""
    dogs, mountain, _, photographer = EXAMPLES
    lying, png = folder / "lying.jpg", folder / "mountain.png"
    with Image.open(photographer) as photo:
        exif = photo.getexif()
        exif[0x0112] = 6  # to be turned clockwise
        photo.transpose(Image.Transpose.ROTATE_90).save(lying, exif=exif, quality=92)
    with Image.open(mountain) as photo:
        photo.resize((1500, 1125)).save(png)
    return [dogs, lying, png]


def save(page, number, act, file):
    """Save what the page has of a photo."""
    with page.expect_download() as download:
        page.locator(".result").nth(number).get_by_role("button", name=act).click()
    assert download.value.suggested_filename.endswith(file.suffix)
    download.value.save_as(file)


def saved(page, number, file):
    """What the page saves of a photo as JSON."""
    save(page, number, "Save JSON", file)
    return json.loads(file.read_text(encoding="utf-8"))


def assert_pythons(found, captioner, photo):
    """That a caption of the page is Python's, with everything that it says of itself."""
    expected = captioner(photo, beam_size=BEAM, evidence=True).to_dict()
    assert found["caption"] == expected["caption"]
    assert [each["caption"] for each in found["alternatives"]] == [each["caption"] for each in expected["alternatives"]]
    for name in ("log_probability", "rerank_score", "confidence"):
        assert found[name] == pytest.approx(expected[name], abs=2e-3), name
    for name in ("attention", "evidence", "gate", "word_log_probabilities", "word_confidence"):
        assert (found[name] is None) == (expected[name] is None), name
        if found[name] is not None:
            one, other = (np.array(each[name], dtype=float) for each in (found, expected))  # null is NaN
            np.testing.assert_allclose(one, other, atol=2e-3, err_msg=name)
    for name in ("words", "locations", "complete", "size", "visible_box", "offset", "settings"):
        assert found[name] == expected[name], name
    assert found.keys() == expected.keys()


def test_captions_are_pythons_and_nothing_leaves_the_page(opened, visited, site, tmp_path):
    asked = []
    visited.on("request", lambda request: asked.append((request.method, request.url)))
    page = opened(visited)
    assert page.evaluate("crossOriginIsolated")  # threads, though the server sends no header for them
    says(page, "#cost", re.compile(r"The first caption downloads \d+ MB, once\."))
    page.select_option("#model", label="both, side by side")
    page.select_option("#beam_size", str(BEAM))
    given = photos(tmp_path)
    page.set_input_files("#choose", given)
    expect(page.locator("#download progress")).to_be_visible()
    counts(page, ".sat-caption", 6)
    expect(page.locator("#download progress")).to_be_hidden()
    says(page, "#cost", "kept in this browser")
    page.locator(".sat-word").first.hover()
    says(page, ".sat-readout", "evidence")
    captioners = [Captioner.from_pretrained(name, backend="onnx") for name in MODELS]
    for number, photo in enumerate(given):
        expect(page.locator(".sat-facts").nth(2 * number)).to_contain_text("s on this device")
        for found, captioner in zip(saved(page, number, tmp_path / "saved.json"), captioners, strict=True):
            assert_pythons({**found, "source": str(photo)}, captioner, photo)
    save(page, 0, "Save picture", tmp_path / "saved.png")
    with Image.open(tmp_path / "saved.png") as picture:
        assert picture.width > 1000 and picture.height > 500
    save(page, 0, "Save page", tmp_path / "saved.html")
    alone = visited.new_page()
    alone.goto(f"file://{tmp_path}/saved.html")  # it needs nothing else
    alone.locator(".sat-word").first.hover()
    says(alone, ".sat-readout", "evidence")
    counts(alone, ".sat-caption", 2)
    alone.close()
    assert asked and all(
        method == "GET" and url.startswith((site.url, "blob:", "data:", f"file://{tmp_path}/")) for method, url in asked
    )
    assert all(line.startswith("GET /sub/") for line in site.asked), site.asked


def test_what_is_not_a_photo_is_told_and_without_a_network_photos_are_captioned(opened, visited, site, tmp_path):
    bad = tmp_path / "notes <b>.jpg"
    bad.write_bytes(b"<svg onload=alert(1)>")
    page = opened(visited)
    page.set_input_files("#choose", bad)
    says(page, ".state", "not a photo that this browser can read")
    reads(page, ".result h2", "notes <b>.jpg")
    counts(page, ".state button", 0)
    says(page, "#cost", "no network is needed")
    site.away = True
    try:
        page.reload()
        page.select_option("#beam_size", "1")
        page.set_input_files("#choose", EXAMPLES[0])
        says(page, ".sat-facts", "s on this device")
    finally:
        site.away = False


def test_many_photos_are_reviewed_in_a_grid(opened, visited, site, tmp_path):
    given = photos(tmp_path)
    page = opened(visited)
    page.goto(f"{site.url}review.html")
    review_chosen(page, given, tmp_path / "captions.csv")
    rows = read_table(tmp_path / "captions.csv").rows
    captions = Captioner.from_pretrained(MODELS[0], backend="onnx")(given)
    for row, photo, caption in zip(rows, given, captions, strict=True):
        assert (row.source, row.model_caption) == (photo.name, caption.text)
        assert row.confidence == pytest.approx(caption.confidence, abs=2e-3)
        assert row.to_check == caption.to_check


def test_a_download_that_arrives_damaged_is_not_kept(opened, browser, site):
    with browser.new_context() as context:
        page = opened(context)
        site.damaged = MODELS[0]
        try:
            page.set_input_files("#choose", EXAMPLES[0])
            says(page, ".state", "arrived damaged")
        finally:
            site.damaged = ""
        expect(page.get_by_role("button", name="Try again")).to_be_visible()
        kept = page.evaluate(
            "caches.open('models /sub/').then((cache) => cache.keys()).then((all) => all.map((one) => one.url))"
        )
        assert kept and not any(MODELS[0] + "-" in url for url in kept)


def test_every_answer_has_the_safety_headers(opened, visited):
    page = opened(visited)
    for path in ("", "index.html", "sw.js", "models/models.json"):
        headers = page.evaluate("(path) => fetch(path).then((answer) => Object.fromEntries(answer.headers))", path)
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-embedder-policy"] == "require-corp"
        policy = headers["content-security-policy"].split("; ")
        assert {"default-src 'none'", "script-src 'self' 'wasm-unsafe-eval'", "connect-src 'self'"} <= set(policy)
