"""The server: it answers what a `Captioner` answers, whatever comes at once, and refuses the rest politely."""

import base64
import io
import json
import re
import struct
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
from builders import shape_photo, shape_scenes
from click.testing import CliRunner
from PIL import Image
from pydantic import TypeAdapter
from serving import Serving, encoded, photo_bytes, serving, small_captioners

from show_attend_tell.captioner import Captioner
from show_attend_tell.cli import main
from show_attend_tell.cli.serve import listening
from show_attend_tell.errors import SatError
from show_attend_tell.server import schema
from show_attend_tell.server.app import make_app
from show_attend_tell.server.limits import Limits
from show_attend_tell.training.selection import WIDE

SCENES = shape_scenes(7)
PHOTOS = [photo_bytes(*scene) for scene in SCENES]
RED = PHOTOS[0]
WEB = httpx.Client(timeout=20, verify=False, trust_env=False)  # what follows is all http, and quicker without TLS


@pytest.fixture(scope="module", autouse=True)
def web() -> Iterator[None]:
    with WEB:
        yield


@pytest.fixture(scope="module")
def captioners() -> list[Captioner]:
    return small_captioners()


@pytest.fixture(scope="module")
def server(captioners: list[Captioner]) -> Iterator[Serving]:
    with serving(captioners) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Serving) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=20, verify=False) as found:
        yield found


def form(*photos: bytes) -> list[tuple[str, tuple[str, bytes]]]:
    return [("photos", (f"photo{number}.png", photo)) for number, photo in enumerate(photos)]


def refused(response: httpx.Response, status: int, *words: str) -> dict[str, Any]:
    """The problem that a refusal is, which says these words."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == status and problem["title"] and problem["type"]
    for word in words:
        assert word in problem["detail"]
    return problem


# Answers


def test_a_caption_is_what_the_captioner_says(client: httpx.Client, captioners: list[Captioner]) -> None:
    response = client.post("/v1/captions", files=form(*PHOTOS[:3]))
    assert response.status_code == 200
    answers = response.json()
    TypeAdapter(list[schema.CaptionAnswer]).validate_python(answers)
    for number, (answer, scene) in enumerate(zip(answers, SCENES[:3], strict=True)):
        expected = captioners[0](shape_photo(*scene)).to_dict() | {"source": f"photo{number}.png"}
        assert answer["log_probability"] == pytest.approx(expected.pop("log_probability"), abs=1e-5)
        assert np.allclose(answer.pop("attention"), expected.pop("attention"), atol=2e-6)
        assert np.allclose(answer.pop("gate"), expected.pop("gate"), atol=2e-6)
        for other, wanted in zip(answer.pop("alternatives"), expected.pop("alternatives"), strict=True):
            assert other["caption"] == wanted["caption"]
        assert {**answer, "log_probability": None} == {**expected, "log_probability": None}
    assert len({answer["caption"] for answer in answers}) > 1


def test_json_is_answered_as_a_form_is(client: httpx.Client) -> None:
    by_form = client.post("/v1/captions", files=form(*PHOTOS[:2]), data={"beam": "2", "look": "likeliest"}).json()
    photos = [base64.b64encode(PHOTOS[0]).decode(), "data:image/png;base64," + base64.b64encode(PHOTOS[1]).decode()]
    by_json = client.post("/v1/captions", json={"photos": photos, "beam": 2, "look": "likeliest"}).json()
    assert [answer["source"] for answer in by_form] == ["photo0.png", "photo1.png"]
    assert [answer | {"source": None} for answer in by_form] == by_json
    assert by_json[0]["settings"]["beam"] == 2 and by_json[0]["places"] is not None
    assert len(by_json[0]["alternatives"]) == 1


def test_fields_in_the_address_are_refused_not_ignored(client: httpx.Client) -> None:
    answer = client.post("/v1/captions?beam=3&attention=false", files=form(photo_bytes()))
    refused(answer, 422, "attention, beam in the address")


def test_what_is_null_is_the_default(client: httpx.Client) -> None:
    photos = [base64.b64encode(RED).decode()]
    plain = client.post("/v1/captions", json={"photos": photos}).json()
    assert client.post("/v1/captions", json={"photos": photos, "model": None, "beam": None}).json() == plain


def test_several_models_answer_photo_by_photo(client: httpx.Client, captioners: list[Captioner]) -> None:
    asked = {"model": ["small-hard", "small-soft"], "attention": "false"}
    answers = client.post("/v1/captions", files=form(*PHOTOS[:2]), data=asked).json()
    assert [answer["settings"]["model"] for answer in answers] == ["small-hard", "small-soft"] * 2
    assert [answer["source"] for answer in answers] == ["photo0.png"] * 2 + ["photo1.png"] * 2
    for answer, captioner in zip(answers, [captioners[1], captioners[0]] * 2, strict=True):
        scene = SCENES[int(answer["source"][5])]
        assert answer["words"] == captioner(shape_photo(*scene)).words
        assert answer["attention"] is None and answer["gate"] is not None


def test_the_answer_as_a_picture_and_as_a_page(client: httpx.Client) -> None:
    picture = client.post("/v1/captions", files=form(RED), data={"format": "png"})
    assert picture.headers["content-type"] == "image/png"
    with Image.open(io.BytesIO(picture.content)) as image:
        assert image.width > 50
    page = client.post("/v1/captions", files=form(RED), data={"format": "html", "model": ["small-soft", "small-hard"]})
    assert page.headers["content-type"].startswith("text/html")
    assert "<script" in page.text and "small-hard" in page.text and "data:image/jpeg" in page.text
    refused(client.post("/v1/captions", files=form(*PHOTOS[:2]), data={"format": "png"}), 422, "html")


def test_log_probabilities_are_the_captioner_s(client: httpx.Client, captioners: list[Captioner]) -> None:
    texts = ["Word3, word4!", "word5 zebra"]
    asked = {"captions": texts, "model": "small-hard", "look": "likeliest"}
    answers = client.post("/v1/log-probabilities", files=form(*PHOTOS[:2]), data=asked).json()
    TypeAdapter(list[schema.ScoresAnswer]).validate_python(answers)
    assert answers[0]["captions"][0]["words"] == ["word3", "word4"]
    assert [scored["unknown"] for scored in answers[1]["captions"]] == [[], ["zebra"]]
    for answer, scene in zip(answers, SCENES[:2], strict=True):
        for scored, text in zip(answer["captions"], texts, strict=True):
            expected = captioners[1].log_probability(shape_photo(*scene), text, look="likeliest")
            assert scored["log_probability"] == pytest.approx(expected, abs=1e-4)
    asked = {"photos": [base64.b64encode(RED).decode()], "captions": texts[0]}
    (by_json,) = client.post("/v1/log-probabilities", json=asked).json()
    expected = captioners[0].log_probability(shape_photo(*SCENES[0]), texts[0])
    assert by_json["captions"][0]["log_probability"] == pytest.approx(expected, abs=1e-4)
    refused(client.post("/v1/log-probabilities", files=form(RED), data={"captions": " ."}), 422, "no word")


def test_models_health_and_the_manual(client: httpx.Client) -> None:
    told = client.get("/v1/models").json()
    schema.ModelsAnswer.model_validate(told)
    assert [model["name"] for model in told["models"]] == ["small-soft", "small-hard"]
    assert told["models"][1]["attention"] == "hard" and told["models"][0]["card"].startswith("# small-soft")
    assert told["limits"]["request_photos"] == Limits().request_photos
    assert client.get("/healthz").json() == {"status": "ok", "waiting": 0}
    document = client.get("/openapi.json").json()
    manual = client.get("/docs").text
    for path in ("/v1/captions", "/v1/log-probabilities", "/v1/models", "/healthz"):
        assert path in document["paths"] and path in manual
    body = document["paths"]["/v1/captions"]["post"]["requestBody"]["content"]
    assert body["application/json"]["schema"]["properties"]["photos"]["maxItems"] == Limits().request_photos
    assert set(body) == {"application/json", "multipart/form-data"}


def test_the_page_may_load_from_here_alone(client: httpx.Client) -> None:
    for path in ("/", "/docs"):
        page = client.get(path)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert "//" not in re.sub(r"http://127.0.0.1:8000", "", page.text.replace("<!-- -->", ""))
        for asset in re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text):
            assert client.get(asset).status_code == 200, asset
        assert not re.search(r"<script>|<style>|\sstyle=|\son\w+=", page.text)
    assert client.get("/static/viewer.js").headers["content-type"].startswith("text/javascript")
    refused(client.get("/static/../app.py"), 404)
    refused(client.get("/nowhere"), 404)
    refused(client.put("/v1/captions"), 405)


# Many at once


class Gate:
    """Holds the models' thread at its first encoding until opened, and notes the batches that are searched."""

    def __init__(self, captioner: Captioner, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self.batches: list[int] = []
        annotate, search = captioner.encoder.annotate, captioner.search

        def held(pixels: Any) -> Any:
            self.reached.set()
            assert self.open.wait(20)
            return annotate(pixels)

        def noted(annotations: Any, *arguments: Any, **options: Any) -> Any:
            self.batches.append(len(annotations))
            return search(annotations, *arguments, **options)

        monkeypatch.setattr(captioner.encoder, "annotate", held)
        monkeypatch.setattr(captioner, "search", noted)


def post_aside(url: str, *photos: bytes) -> "Future[httpx.Response]":
    """Ask in a thread."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(lambda: WEB.post(f"{url}/v1/captions", files=form(*photos)))
    pool.shutdown(wait=False)
    return future


def until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it did not happen within 10 s")


def waiting(url: str) -> int:
    return int(WEB.get(f"{url}/healthz").json()["waiting"])


def test_what_waits_is_searched_together_and_answered_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    captioner = small_captioners()[0]
    alone = [captioner(shape_photo(*scene)) for scene in SCENES]
    with serving([captioner]) as running:
        gate = Gate(captioner, monkeypatch)
        first = post_aside(running.url, PHOTOS[0])
        assert gate.reached.wait(10)
        others = [post_aside(running.url, photo) for photo in PHOTOS[1:]]
        until(lambda: waiting(running.url) == 6)
        gate.open.set()
        answers = [future.result().json()[0] for future in [first, *others]]
    assert gate.batches == [1, 6]
    for answer, caption in zip(answers, alone, strict=True):
        assert answer["words"] == caption.words
        assert answer["log_probability"] == pytest.approx(caption.log_probability, abs=1e-4)


def test_a_full_queue_says_when_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    captioner = small_captioners()[0]
    with serving([captioner], limits=Limits(waiting_photos=3)) as running:
        gate = Gate(captioner, monkeypatch)
        first = post_aside(running.url, PHOTOS[0])
        assert gate.reached.wait(10)
        second = post_aside(running.url, *PHOTOS[1:3])
        until(lambda: waiting(running.url) == 2)
        busy = WEB.post(f"{running.url}/v1/captions", files=form(*PHOTOS[3:5]))
        problem = refused(busy, 503)
        assert problem["limit"] == "waiting_photos" and problem["maximum"] == 3
        assert int(busy.headers["retry-after"]) >= 1
        third = post_aside(running.url, PHOTOS[3])  # for one there is room
        until(lambda: waiting(running.url) == 3)
        gate.open.set()
        assert [len(future.result().json()) for future in (first, second, third)] == [1, 2, 1]
        refused(WEB.post(f"{running.url}/v1/captions", files=form(*PHOTOS[:4])), 413, "at most 3")


def test_a_request_that_takes_too_long_is_told_so_and_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    captioner = small_captioners()[0]
    with serving([captioner], limits=Limits(request_seconds=0.3)) as running:
        gate = Gate(captioner, monkeypatch)
        first = post_aside(running.url, PHOTOS[0])
        assert gate.reached.wait(10)
        second = post_aside(running.url, PHOTOS[1])
        for future in (first, second):
            problem = refused(future.result(), 504, "0.3 s")
            assert problem["limit"] == "request_seconds"
        gate.open.set()
        until(lambda: waiting(running.url) == 0)
        assert WEB.post(f"{running.url}/v1/captions", files=form(RED)).status_code == 200
    assert gate.batches == [1, 1]  # the first, which was begun, and the last: nobody waited for the second


def test_shutting_down_finishes_what_is_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    captioner = small_captioners()[0]
    with serving([captioner]) as running:
        gate = Gate(captioner, monkeypatch)
        futures = [post_aside(running.url, photo) for photo in PHOTOS[:3]]
        assert gate.reached.wait(10)
        until(lambda: len(running.server.server_state.tasks) == 3)
        running.server.should_exit = True
        threading.Event().wait(0.3)
        assert not any(future.done() for future in futures)
        gate.open.set()
        assert [future.result().status_code for future in futures] == [200, 200, 200]


def test_a_fault_of_a_model_is_told_and_survived(
    monkeypatch: pytest.MonkeyPatch, client: httpx.Client, captioners: list[Captioner]
) -> None:
    def broken(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(captioners[0], "search", broken)
        answer = client.post("/v1/captions", files=form(RED))
    refused(answer, 500, "RuntimeError")
    assert answer.headers["connection"] == "close"  # as uvicorn will: else the next request may meet a closed door
    assert client.post("/v1/captions", files=form(RED)).status_code == 200


# Refusals


def huge_png(width: int, height: int) -> bytes:
    """A PNG whose header claims that size."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("photo", "status", "word"),
    [
        (b"", 422, "empty"),
        (b"hello", 415, "JPEG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415, "not a photo"),
        (RED[:60], 422, "damaged"),
        (huge_png(10_001, 5_000), 413, "10001 × 5000"),
        (huge_png(12_000, 12_000), 413, "pixels"),  # where Pillow warns
        (huge_png(60_000, 60_000), 413, "pixels"),  # and where it refuses
    ],
    ids=["empty", "text", "svg", "truncated", "large", "larger", "bomb"],
)
def test_a_bad_photo_is_refused_by_name(client: httpx.Client, photo: bytes, status: int, word: str) -> None:
    problem = refused(client.post("/v1/captions", files=form(RED, photo)), status, "Photo 2 (photo1.png)", word)
    if status == 413:
        assert problem["limit"] == "photo_pixels" and problem["maximum"] == 50_000_000


@pytest.mark.parametrize(
    ("kind", "mode", "options"),
    [
        ("JPEG", "CMYK", {}),
        ("PNG", "I;16", {}),
        ("PNG", "RGBA", {}),
        ("GIF", "P", {"save_all": True, "append_images": [Image.new("P", (31, 17), 3)]}),
        ("WEBP", "RGB", {}),
        ("TIFF", "F", {}),
    ],
)
def test_photos_of_other_modes_are_captioned(
    client: httpx.Client, captioners: list[Captioner], kind: str, mode: str, options: dict[str, Any]
) -> None:
    image = Image.new("I;16", (31, 17), 3000) if mode == "I;16" else shape_photo(*SCENES[1]).convert(mode)
    data = encoded(image, kind, **options)
    (answer,) = client.post("/v1/captions", files=form(data)).json()
    with Image.open(io.BytesIO(data)) as decoded:
        assert answer["words"] == captioners[0](decoded).words


def asked(**fields: Any) -> dict[str, Any]:
    return {"photos": [base64.b64encode(RED).decode()], **fields}


def test_every_beam_that_a_training_may_choose_can_be_asked_for(client: httpx.Client) -> None:
    (answer,) = client.post("/v1/captions", json=asked(beam=max(WIDE))).raise_for_status().json()
    assert answer["settings"]["beam"] == max(WIDE)


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        ({"json": asked(beam=0)}, 422, ["beam", "greater than or equal to 1"]),
        ({"json": asked(beam=101)}, 422, ["beam", "100"]),
        ({"json": asked(beam="3")}, 422, ["beam"]),
        ({"json": asked(model="nobody")}, 422, ["nobody", "small-soft, small-hard"]),
        ({"json": asked(model=[])}, 422, ["model"]),
        ({"json": asked(look="away")}, 422, ["look", "expectation"]),
        ({"json": asked(url="http://example.org/a.jpg")}, 422, ["url", "not permitted"]),
        ({"json": {}}, 422, ["photos"]),
        ({"json": {"photos": []}}, 422, ["no photo"]),
        ({"json": {"photos": ["http://example.org/a.jpg"]}}, 422, ["Photo 1", "base64"]),
        ({"json": {"photos": ["ö"]}}, 422, ["base64"]),
        ({"json": {"photos": ["aGk="] * 17}}, 413, ["17 photos", "at most 16"]),
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 422, ["JSON"]),
        ({"content": b"[" * 9999, "headers": {"content-type": "application/json"}}, 422, ["JSON"]),
        ({"content": RED, "headers": {"content-type": "image/png"}}, 415, ["image/png", "multipart/form-data"]),
        ({"content": RED}, 415, ["missing"]),
        ({"content": b"xx", "headers": {"content-type": "multipart/form-data; boundary=a"}}, 400, ["form"]),
        ({"content": b"xx", "headers": {"content-type": "multipart/form-data"}}, 400, ["boundary"]),
        ({"files": form(RED), "data": {"beam": "many"}}, 422, ["beam"]),
        ({"files": form(RED), "data": {"beam": ["1", "2"]}}, 422, ["beam"]),
        ({"files": [("photos", (None, "text"))]}, 422, ["as files"]),
        ({"files": [("photo", ("a.png", RED))]}, 422, ["photo: is a file"]),
        ({"files": form(*[RED] * 17)}, 413, ["at most 16"]),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    client: httpx.Client, request_: dict[str, Any], status: int, words: list[str]
) -> None:
    problem = refused(client.post("/v1/captions", **request_), status, *words)
    assert base64.b64encode(RED).decode()[:20] not in json.dumps(problem)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_long_body_is_refused_and_not_kept(chunked: bool) -> None:
    with serving(small_captioners(), limits=Limits(request_bytes=100_000)) as running:
        body = [bytes(10_000)] * 30
        headers = {"content-type": "application/json"}
        content: Any = iter(body) if chunked else b"".join(body)
        response = WEB.post(f"{running.url}/v1/captions", content=content, headers=headers)
        problem = refused(response, 413, "100,000 bytes")
        assert problem["limit"] == "request_bytes" and problem["maximum"] == 100_000
        assert WEB.post(f"{running.url}/v1/captions", files=form(RED)).status_code == 200


def test_bodies_in_memory_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    small = len(RED) + 1000
    with serving(small_captioners(), limits=Limits(held_bytes=small)) as running:
        for _ in range(3):  # what was held is let go
            assert WEB.post(f"{running.url}/v1/captions", files=form(RED)).status_code == 200
            refused(WEB.post(f"{running.url}/v1/captions", files=form(b"no photo")), 415)
        busy = WEB.post(f"{running.url}/v1/captions", files=form(RED + bytes(1000)))
        assert refused(busy, 503)["limit"] == "held_bytes" and busy.headers["retry-after"] == "1"
        assert WEB.post(f"{running.url}/v1/captions", files=form(RED)).status_code == 200


def test_nothing_is_written_to_disk(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def rolled(file: Any) -> None:
        raise AssertionError("a photo went to the disk")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", rolled)
    noise = np.random.default_rng(1).integers(0, 256, (800, 900, 3), dtype=np.uint8)
    photo = encoded(Image.fromarray(noise))
    assert len(photo) > 2_000_000
    assert client.post("/v1/captions", files=form(photo)).status_code == 200


# Who may ask


def test_without_a_token_only_this_machine_is_answered(server: Serving) -> None:
    for host in ("localhost:1", "127.0.0.1", "[::1]:8000"):
        assert WEB.get(f"{server.url}/healthz", headers={"host": host}).status_code == 200
    for host in ("example.org", "example.org:8000", "127.0.0.1.example.org", "[", "192.168.1.5"):
        refused(WEB.get(f"{server.url}/", headers={"host": host}), 403, "this machine")
    url = f"{server.url}/v1/captions"
    refused(WEB.post(url, files=form(RED), headers={"origin": "https://example.org"}), 403, "Another site")
    refused(WEB.post(url, files=form(RED), headers={"origin": "null"}), 403)
    assert WEB.post(url, files=form(RED), headers={"origin": server.url}).status_code == 200


def test_with_a_token_every_question_must_bring_it() -> None:
    with serving(small_captioners(), token="se cret") as running:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "se cret"}, {"authorization": "ö"}):
            sent = {name: value.encode() for name, value in headers.items()}
            response = WEB.post(f"{running.url}/v1/captions", files=form(RED), headers=sent)
            refused(response, 401, "Bearer TOKEN")
            assert response.headers["www-authenticate"] == "Bearer"
            refused(WEB.get(f"{running.url}/v1/models", headers=sent), 401)
        right = {"authorization": "Bearer se cret", "host": "photos.example.org"}
        assert WEB.post(f"{running.url}/v1/captions", files=form(RED), headers=right).status_code == 200
        for path in ("/", "/healthz", "/static/app.js"):  # hold nothing of anybody's
            assert WEB.get(running.url + path).status_code == 200


# Starting


def test_models_that_cannot_be_served(captioners: list[Captioner]) -> None:
    with pytest.raises(SatError, match="no model"):
        make_app([])
    with pytest.raises(SatError, match="two models are called small-soft"):
        make_app([captioners[0], captioners[0]])


def test_models_of_one_encoder_share_it() -> None:
    captioners = small_captioners()
    assert captioners[0].encoder is not captioners[1].encoder
    with serving(captioners):
        assert captioners[0].encoder is captioners[1].encoder


def test_other_machines_are_not_served_without_a_token() -> None:
    found = CliRunner().invoke(main, ["serve", "--host", "0.0.0.0"])
    assert found.exit_code == 1 and "0.0.0.0 can be reached from other machines" in found.output
    assert "SAT_TOKEN" in found.output and found.output.count("\n") == 1
    found = CliRunner().invoke(main, ["serve", "--token", "no\nlines"])
    assert found.exit_code == 1 and "printable" in found.output


@pytest.mark.parametrize("host", ["a..b", "x" * 70 + ".example"])
def test_a_host_that_cannot_be_costs_one_line(host: str) -> None:
    with pytest.raises(SatError, match=rf"cannot listen at {re.escape(host)} port 0 \(.+\): choose another"):
        listening(host, 0)


def test_a_taken_port_costs_one_line(server: Serving) -> None:
    found = CliRunner().invoke(main, ["serve", "--port", str(server.port)])
    assert found.exit_code == 1 and f"port {server.port}" in found.output and found.output.count("\n") == 1


def test_serve_says_where_and_serves_until_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    served: dict[str, Any] = {}

    def load(name: str, **options: Any) -> Captioner:
        return next(captioner for captioner in small_captioners() if captioner.name == name)

    def run(server: Any, sockets: list[Any]) -> None:
        served["app"], served["port"] = server.config.app, sockets[0].getsockname()[1]
        raise KeyboardInterrupt

    monkeypatch.setattr(Captioner, "from_pretrained", load)
    monkeypatch.setattr("uvicorn.Server.run", run)
    found = CliRunner().invoke(main, ["serve", "--port", "0", "--model", "small-hard", "--model", "small-soft"])
    assert found.exit_code == 0, found.output
    assert f"serving small-hard, small-soft at http://127.0.0.1:{served['port']}/" in found.output
    assert found.output.endswith("stopped\n")
