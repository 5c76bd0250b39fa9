"""The server of a review's page: for this machine alone, and only for who knows its address.

The address has a token, which no other page and no other user of the machine knows. Nothing else than this address is
answered under another name of the host, so that a page elsewhere cannot reach it by a name of its own (DNS rebinding).
"""

import json
import secrets
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from show_attend_tell.errors import SatError
from show_attend_tell.review.answers import Answers
from show_attend_tell.review.thumbnails import shrunk, thumbnail
from show_attend_tell.show import page

HOST = "127.0.0.1"
LARGE = 1600  # pixels of the longer side of a photo that is looked at by itself
FILES = {file.name: file for file in (Path(__file__).parent / "page").iterdir()} | {"page.css": page.HERE / "page.css"}
KINDS = {".html": "html", ".css": "css", ".js": "javascript"}
QUESTIONS = ("state", "order", "rows", "decide", "undo", "accept", "replace", "draw", "save")  # methods of `Answers`


class Server(ThreadingHTTPServer):
    """A server at a port of this machine; 0 picks a free one."""

    daemon_threads = True

    def __init__(self, answers: Answers, cache: Path, port: int = 0) -> None:
        """Raises `SatError` for a port that is taken."""
        self.answers = answers
        self.cache = cache  # of thumbnails
        self.token = secrets.token_urlsafe(16)
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            raise SatError(f"cannot listen at port {port} ({error.strerror}): choose another --port") from None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that is closed ends its connection in the middle, which is nothing to report."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"


class Handler(BaseHTTPRequestHandler):
    """Answers one connection of a page."""

    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds
    server: Server

    def do_GET(self) -> None:
        """Files of the page, and photos by their rows' numbers: ``photo?7``."""
        name = self._name()
        file = FILES.get(name or "review.html")
        if name is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        elif file is not None:
            self._send(file.read_bytes(), f"text/{KINDS[file.suffix]}; charset=utf-8")
        else:
            self._photo(name)

    def do_POST(self) -> None:
        """What the page asks, in JSON."""
        name = self._name()
        if name is None or name not in QUESTIONS:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        status = HTTPStatus.OK
        try:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = getattr(self.server.answers, name)(**asked)
        except SatError as error:
            status = HTTPStatus.CONFLICT
            answer = {"problem": str(error)}
        except (LookupError, ValueError, TypeError, AttributeError) as error:  # of another page than ours
            status = HTTPStatus.BAD_REQUEST
            answer = {"problem": f"the request is not understood: {error}"}
        self._send(json.dumps(answer).encode(), "application/json", status)

    def _name(self) -> str | None:
        """What is asked for; None without the token, or under another name of the host."""
        hosts = {f"{HOST}:{self.server.server_port}", f"localhost:{self.server.server_port}"}
        _, token, *names = urlsplit(self.path).path.split("/")
        known = secrets.compare_digest(token.encode(), self.server.token.encode())
        return names[0] if known and len(names) == 1 and self.headers.get("Host") in hosts else None

    def _photo(self, name: str) -> None:
        try:
            path = self.server.answers.row(urlsplit(self.path).query).path
            content = thumbnail(path, self.server.cache) if name == "thumbnail" else shrunk(path, LARGE)
        except (OSError, SatError):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self._send(content, "image/jpeg", keep="private, max-age=3600")

    def _send(self, content: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK, *, keep: str = "no-store") -> None:
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(content)), "Cache-Control": keep, **page.HEADERS}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing on standard error."""
