"""A real server in a thread, and clients of it, for the tests of the server and of its web app."""

import io
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
from builders import shape_photo, shape_scenes, small_checkpoint, small_encoder
from PIL import Image

from show_attend_tell.backends.torch import TorchBackend, build_decoder
from show_attend_tell.captioner import Captioner
from show_attend_tell.server import Server, make_app
from show_attend_tell.server.guard import Connection
from show_attend_tell.show.page import HEADERS

SCENES = shape_scenes(7)


def small_captioners() -> list[Captioner]:
    """Two untrained models on one encoder, which each loads for itself."""
    found = []
    for seed, attention in ((5, "soft"), (7, "hard")):
        encoder = small_encoder()
        checkpoint = small_checkpoint(encoder, seed=seed, attention=attention)
        backend = TorchBackend(build_decoder(checkpoint), encoder)
        found.append(Captioner(checkpoint, backend, name=f"small-{attention}"))
    return found


class Serving(NamedTuple):
    """A server that runs, and where."""

    server: Server
    port: int
    url: str

    def ask(self, *photos: bytes, path: str = "captions", headers: Any = None, **fields: Any) -> httpx.Response:
        """What it answers to a form with photos and fields."""
        return WEB.post(f"{self.url}/v1/{path}", files=form(*photos), data=fields, headers=headers)


@contextmanager
def serving(
    captioners: list[Captioner],
    *,
    port: int = 0,
    connection: type[Connection] = Connection,
    make: Callable[..., Any] = make_app,
    **options: Any,
) -> Iterator[Serving]:
    """A server of these models, until the context is left: as after Ctrl-C it finishes what is in flight, and ends.

    ``make`` makes its app of the models and the options.
    """
    listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    server = Server(make(captioners, **options), log_level="critical", http=connection)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        until(lambda: server.started)
        port = listener.getsockname()[1]
        yield Serving(server, port, f"http://127.0.0.1:{port}")
    finally:
        server.should_exit = True
        thread.join(timeout=60)
        assert not thread.is_alive()


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """An image as a file of that kind."""
    file = io.BytesIO()
    image.save(file, format=kind, **options)
    return file.getvalue()


PHOTOS = [encoded(shape_photo(*scene)) for scene in SCENES]
RED = PHOTOS[0]


def client(**options: Any) -> httpx.Client:
    """A client for http alone, which is quicker without TLS."""
    return httpx.Client(timeout=60, verify=False, trust_env=False, **options)


WEB = client()


def form(*photos: bytes) -> list[tuple[str, tuple[str, bytes]]]:
    """Photos as the files of a form, called photo0.png, photo1.png and so on."""
    return [("photos", (f"photo{number}.png", photo)) for number, photo in enumerate(photos)]


def refused(response: httpx.Response, status: int, *words: str) -> dict[str, Any]:
    """The problem that a refusal is; it must say these words, and carry the safety headers."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert_safe(response)
    problem = response.json()
    assert problem["status"] == status and problem["title"] and problem["type"]
    for word in words:
        assert word in problem["detail"]
    return problem


def assert_safe(response: httpx.Response) -> None:
    """The answer must carry each of the safety headers once."""
    assert {name: response.headers.get_list(name) for name in HEADERS} == {
        name: [value] for name, value in HEADERS.items()
    }, response.headers


def post_aside(running: Serving, *photos: bytes) -> "Future[httpx.Response]":
    """Ask in a thread."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(running.ask, *photos)
    pool.shutdown(wait=False)
    return future


def until(condition: Callable[[], bool]) -> None:
    """Wait until it is so; it must be within ten seconds."""
    for _ in range(2000):
        if condition():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it did not happen within 10 s")


def waiting(running: Serving) -> int:
    """How many photos wait in the server's queue."""
    return int(WEB.get(f"{running.url}/healthz").json()["waiting"])


class Gate:
    """The back end of a captioner, whose encoding waits while it is held; notes what it is asked.

    ``batches`` has the number of photos of each search or scoring, ``encoded`` counts photos.
    """

    def __init__(self, captioner: Captioner) -> None:
        self.backend, captioner.backend = captioner.backend, self
        self.reached, self.open = threading.Event(), threading.Event()
        self.open.set()
        self.encoded = 0
        self.batches = []
        self.error = None  # to be raised by the next search

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def hold(self) -> None:
        """Hold the models' thread at its next encoding until ``open`` is set, and begin to count."""
        self.open.clear()
        self.encoded, self.batches = 0, []

    def encode(self, pixels: Any) -> Any:
        self.reached.set()
        assert self.open.wait(60)
        self.encoded += 1
        return self.backend.encode(pixels)

    def features(self, features: Any) -> Any:
        self.batches.append(len(features))
        if self.error is not None:
            raise self.error
        return self.backend.features(features)


@contextmanager
def held(**options: Any) -> Iterator[tuple[Serving, Gate, "Future[httpx.Response]"]]:
    """A server of one model whose thread is held at a first photo, its gate, and the first request."""
    captioner = small_captioners()[0]
    gate = Gate(captioner)
    with serving([captioner], **options) as running:
        gate.hold()
        gate.reached.clear()
        first = post_aside(running, PHOTOS[0])
        assert gate.reached.wait(60)
        try:
            yield running, gate, first
        finally:
            gate.open.set()
