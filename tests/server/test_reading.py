"""Reading requests: photos are refused by name, bodies are counted, and nothing is written to the disk."""

import struct
import sys
import tempfile
import tomllib
import zlib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from PIL import Image
from pydantic import TypeAdapter
from serving import PHOTOS, RED, WEB, encoded, refused, serving, small_captioners

from show_attend_tell.server import schema
from show_attend_tell.server.limits import Limits

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def png(width: int, height: int) -> bytes:
    """A PNG whose header claims that size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(b"\0")), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )


@pytest.mark.parametrize(
    ("photo", "status", "word"),
    [
        (b"", 422, "empty"),
        (b"hello", 415, "JPEG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415, "not a photo"),
        (RED[:60], 422, "damaged"),
        (png(10_001, 5_000), 413, "10001 × 5000"),
        (png(12_000, 12_000), 413, "pixels"),  # where Pillow warns
        (png(60_000, 60_000), 413, "pixels"),  # and where it refuses
    ],
    ids=range(7),
)
def test_a_bad_photo_is_refused_by_name(server, photo, status, word):
    problem = refused(server.ask(photo), status, "Photo 1 (photo0.png)", word)
    if status == 413:
        assert problem["limit"] == "photo_pixels" and problem["maximum"] == 50_000_000


def test_a_bad_photo_is_answered_beside_the_others(server):
    photos = (PHOTOS[0], b"hello", PHOTOS[2], b"")
    answer = server.ask(*photos, model=["small-soft", "small-hard"])
    assert answer.status_code == 207
    found = answer.json()
    TypeAdapter(list[schema.CaptionAnswer | schema.FailedPhoto]).validate_python(found)
    assert [one["source"] for one in found] == [f"photo{number}.png" for number in (0, 0, 1, 1, 2, 2, 3, 3)]
    assert [one.get("error", {}).get("status") for one in found] == [None, None, 415, 415, None, None, 422, 422]
    assert "Photo 2 (photo1.png)" in found[2]["error"]["detail"] and "Photo 4" in found[6]["error"]["detail"]
    alone = server.ask(*PHOTOS[:3]).json()[2]
    assert found[4]["caption"] == alone["caption"]

    scores = server.ask(*photos, path="log-probabilities", captions="word3")
    assert scores.status_code == 207 and ["error" in one for one in scores.json()] == [False, True, False, True]
    page = server.ask(*photos, format="html")
    assert page.status_code == 207 and "photo1.png" in page.text and "not a photo" in page.text
    refused(server.ask(b"hello", b""), 415, "Photo 1")  # none is left


def part(disposition: str, content: bytes) -> bytes:
    return f"--a\r\ncontent-disposition: form-data; {disposition}\r\n\r\n".encode() + content + b"\r\n"


FORM = {"content-type": "multipart/form-data; boundary=a"}


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ('filename="C:\\photos\\a.jpg"', "a.jpg"),
        ('filename="../../etc/b.jpg"', "b.jpg"),
    ],
)
def test_names_of_files_have_no_folders(web, disposition, name):
    body = part(f'name="photos"; {disposition}', RED) + b"--a--\r\n"
    assert web.post("/v1/captions", content=body, headers=FORM).raise_for_status().json()[0]["source"] == name


def test_a_form_that_cannot_be_read_is_refused(web):
    for content in (part('name="photos"; filename="a.png"', RED)[1:], b"\x1f\x8b"):  # the latter is compressed
        refused(web.post("/v1/captions", content=content, headers=FORM), 400, "cannot be read")


def test_heic_is_read_with_its_package(server, monkeypatch):
    heif = pytest.importorskip("pillow_heif")
    heif.register_heif_opener()
    phone, large = (encoded(Image.new("RGB", size, "red"), "HEIF") for size in ((64, 48), (80, 70)))
    assert server.ask(phone).json()[0]["caption"]
    with serving(small_captioners(), limits=Limits(photo_pixels=64 * 48)) as running:
        answer = running.ask(large)
        assert refused(answer, 413, "80 × 70")["limit"] == "photo_pixels"
    refused(server.ask(phone[:40]), 415, "Photo 1", "HEIC")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)  # as where it is not installed
    refused(server.ask(phone), 422, "Photo 1", "HEIC", "send it as JPEG")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_long_body_is_refused_and_not_kept(chunked):
    with serving(small_captioners(), limits=Limits(request_bytes=100_000)) as running:
        body = [part('name="photos"; filename="a"', bytes(10_000)), *[bytes(10_000)] * 30]
        content = iter(body) if chunked else b"".join(body)
        response = WEB.post(f"{running.url}/v1/captions", content=content, headers=FORM)
        problem = refused(response, 413, "100,000 bytes")
        assert problem["limit"] == "request_bytes" and problem["maximum"] == 100_000
        assert running.ask(RED).is_success


def test_bodies_in_memory_are_bounded_together():
    small = len(RED) + 1000
    with serving(small_captioners(), limits=Limits(held_bytes=small)) as running:
        for _ in range(3):  # what was held is let go
            assert running.ask(RED).is_success
            refused(running.ask(b"no photo"), 415)
        busy = running.ask(RED + bytes(1000))
        assert refused(busy, 503)["limit"] == "held_bytes" and int(busy.headers["retry-after"]) >= 1
        assert running.ask(RED).is_success


def test_nothing_is_written_to_disk(server, monkeypatch):
    def rolled(file: Any) -> None:
        raise AssertionError("a photo went to the disk")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", rolled)
    photo = encoded(Image.effect_noise((1500, 1500), 100))
    assert len(photo) > 2_000_000
    assert server.ask(photo).is_success


def test_no_starlette_is_allowed_that_would_write_photos_to_the_disk():
    extras = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (starlette,) = (found for found in map(Requirement, extras["serve"]) if found.name == "starlette")
    assert "0.45.3" not in starlette.specifier and "0.46" in starlette.specifier
