"""A real server in a thread, for the tests of the server and of its web app."""

import io
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from builders import shape_photo, small_checkpoint, small_encoder
from PIL import Image

from show_attend_tell.captioner import Captioner
from show_attend_tell.server.app import make_app


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
        config = uvicorn.Config(app, ws="none", log_level="critical", server_header=False, lifespan="on")
        self.server = uvicorn.Server(config)
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


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """An image as a file of that kind."""
    file = io.BytesIO()
    image.save(file, format=kind, **options)
    return file.getvalue()


def photo_bytes(colour: str = "red", shape: str = "circle", left: bool = True) -> bytes:
    """A photo of a shape, as a PNG."""
    return encoded(shape_photo(colour, shape, left))
