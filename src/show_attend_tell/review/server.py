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
from urllib.parse import parse_qsl, urlsplit

from show_attend_tell.errors import PhotoError, SatError
from show_attend_tell.review.answers import Answers
from show_attend_tell.review.thumbnails import Thumbnails, shrunk
from show_attend_tell.show import page

PAGE = Path(__file__).parent / "page"
HOST = "127.0.0.1"
LARGEST = 1_000_000  # bytes of a request
LARGE = 1600  # pixels of the longer side of a photo that is looked at by itself
FILES = ("review.html", "review.css", "review.js", "grid.js", "dialogs.js")  # of the page
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Server(ThreadingHTTPServer):
    """A server at a port of this machine; 0 picks a free one."""

    daemon_threads = True

    def __init__(self, answers: Answers, thumbnails: Thumbnails, port: int = 0) -> None:
        """Raises `SatError` for a port that is taken."""
        self.answers = answers
        self.thumbnails = thumbnails
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
        """Files of the page, photos, and what it asks without changing anything."""
        name = self._name()
        file = name or "review.html"
        asked = dict(parse_qsl(urlsplit(self.path).query))
        answers = self.server.answers
        if name is None:
            self._send(HTTPStatus.NOT_FOUND, b"not found", "text/plain")
        elif file in (*FILES, "page.css"):
            text = page.read(file) if file == "page.css" else (PAGE / file).read_text(encoding="utf-8")
            self._send(HTTPStatus.OK, text.encode(), f"{KINDS[Path(file).suffix]}; charset=utf-8")
        elif name in ("thumbnail", "photo"):
            self._photo(name, asked)
        else:
            self._answer({"state": answers.state, "order": answers.order, "rows": answers.rows}.get(name), asked)

    def do_POST(self) -> None:
        """What changes something."""
        name = self._name()
        answers = self.server.answers
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST:
            self.close_connection = True
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"too large", "text/plain")
            return
        content = self.rfile.read(int(length))
        try:
            asked = json.loads(content)
        except ValueError:
            asked = None
        if name is None or not isinstance(asked, dict):
            self._send(HTTPStatus.NOT_FOUND, b"not found", "text/plain")
            return
        actions = {
            "decide": answers.decide,
            "undo": answers.undo,
            "accept": answers.accept,
            "replace": answers.replace,
            "draw": answers.draw,
            "save": answers.save,
        }
        self._answer(actions.get(name), asked)

    def _name(self) -> str | None:
        """What is asked for; None without the token, or under another name of the host."""
        hosts = {f"{HOST}:{self.server.server_port}", f"localhost:{self.server.server_port}"}
        _, token, *names = urlsplit(self.path).path.split("/")
        known = secrets.compare_digest(token.encode(), self.server.token.encode())
        return names[0] if known and len(names) == 1 and self.headers.get("Host") in hosts else None

    def _answer(self, action: Any, asked: dict[str, Any]) -> None:
        if action is None:
            self._send(HTTPStatus.NOT_FOUND, b"not found", "text/plain")
            return
        status = HTTPStatus.OK
        try:
            answer = action(asked)
        except SatError as error:
            status = HTTPStatus.CONFLICT
            answer = {"problem": str(error)}
        except (KeyError, ValueError) as error:
            status = HTTPStatus.BAD_REQUEST
            answer = {"problem": f"the request lacks {error}"}
        self._send(status, json.dumps(answer).encode(), "application/json")

    def _photo(self, name: str, asked: dict[str, str]) -> None:
        try:
            path = self.server.answers.path(asked.get("id", ""))
            content = self.server.thumbnails(path) if name == "thumbnail" else shrunk(path, LARGE)
        except (PhotoError, SatError) as error:
            self._send(HTTPStatus.NOT_FOUND, str(error).encode(), "text/plain; charset=utf-8")
            return
        self._send(HTTPStatus.OK, content, "image/jpeg", keep="private, max-age=3600")

    def _send(self, status: HTTPStatus, content: bytes, kind: str, *, keep: str = "no-store") -> None:
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(content)), "Cache-Control": keep, **HEADERS}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing on standard error."""
