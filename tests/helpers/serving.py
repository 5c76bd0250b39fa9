"""A real server in a thread, and clients of it, for the tests of the server and of its web app."""

import io
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from builders import shape_photo, shape_scenes, small_checkpoint, small_encoder
from PIL import Image

from show_attend_tell.captioner import Captioner
from show_attend_tell.server import Server, make_app
from show_attend_tell.server.guard import HEADERS

SCENES = shape_scenes(7)


def small_captioners() -> list[Captioner]:
    """Two untrained models on one encoder, which each loads for itself."""
    return [
        Captioner(small_checkpoint(small_encoder(), seed=5, attention="soft"), small_encoder(), name="small-soft"),
        Captioner(small_checkpoint(small_encoder(), seed=7, attention="hard"), small_encoder(), name="small-hard"),
    ]


class Serving:
    """A server that runs; ``url`` is where."""

    def __init__(self, app: Any, port: int = 0) -> None:
        self.listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = Server(app, log_level="critical")
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]})

    def start(self) -> None:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.005)

    def stop(self) -> None:
        """As Ctrl-C does: finish what is in flight, and end."""
        self.server.should_exit = True
        self.thread.join(timeout=20)
        assert not self.thread.is_alive()


@contextmanager
def serving(captioners: list[Captioner], *, port: int = 0, **options: Any) -> Iterator[Serving]:
    """A server of these models, until the context is left."""
    running = Serving(make_app(captioners, **options), port)
    running.start()
    try:
        yield running
    finally:
        running.stop()


# Photos


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """An image as a file of that kind."""
    file = io.BytesIO()
    image.save(file, format=kind, **options)
    return file.getvalue()


def photo_bytes(color: str = "red", shape: str = "circle", left: bool = True) -> bytes:
    """A photo of a shape, as a PNG."""
    return encoded(shape_photo(color, shape, left))


PHOTOS = [photo_bytes(*scene) for scene in SCENES]
RED = PHOTOS[0]


# Clients


def client(**options: Any) -> httpx.Client:
    """A client for http alone, which is quicker without TLS."""
    return httpx.Client(timeout=20, verify=False, trust_env=False, **options)


WEB = client()


def form(*photos: bytes) -> list[tuple[str, tuple[str, bytes]]]:
    """Photos as the files of a form, called photo0.png, photo1.png and so on."""
    return [("photos", (f"photo{number}.png", photo)) for number, photo in enumerate(photos)]


def refused(response: httpx.Response, status: int, *words: str) -> dict[str, Any]:
    """The problem that a refusal is; it must say these words, and carry the safety headers."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert_safe(response)
    problem: dict[str, Any] = response.json()
    assert problem["status"] == status and problem["title"] and problem["type"]
    for word in words:
        assert word in problem["detail"]
    return problem


def assert_safe(response: httpx.Response) -> None:
    """The answer must carry each of the safety headers once."""
    assert {name: response.headers.get_list(name) for name in HEADERS} == {
        name: [value] for name, value in HEADERS.items()
    }, response.headers


def post_aside(url: str, *photos: bytes, **fields: Any) -> "Future[httpx.Response]":
    """Ask in a thread."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(lambda: WEB.post(f"{url}/v1/captions", files=form(*photos), data=fields))
    pool.shutdown(wait=False)
    return future


def until(condition: Callable[[], bool]) -> None:
    """Wait until it is so; it must be within ten seconds."""
    for _ in range(2000):
        if condition():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it did not happen within 10 s")


def waiting(url: str) -> int:
    """How many photos wait in the server's queue."""
    return int(WEB.get(f"{url}/healthz").json()["waiting"])


class Gate:
    """Holds the models' thread at its first encoding until opened; notes how many photos each search takes together."""

    def __init__(self, captioner: Captioner, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self.encoded = 0
        self.batches: list[int] = []
        annotate, search = captioner.backend.encoder.annotate, captioner.search

        def held(pixels: Any) -> Any:
            self.reached.set()
            assert self.open.wait(20)
            self.encoded += 1
            return annotate(pixels)

        def noted(annotations: Any, *arguments: Any, **options: Any) -> Any:
            self.batches.append(len(annotations))
            return search(annotations, *arguments, **options)

        monkeypatch.setattr(captioner.backend.encoder, "annotate", held)
        monkeypatch.setattr(captioner, "search", noted)
