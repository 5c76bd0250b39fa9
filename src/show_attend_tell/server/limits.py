"""The limits of a request, and refusals: each refusal is a JSON problem (RFC 9457)."""

import http
from dataclasses import dataclass
from typing import Any

from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

RETRY_SECONDS = "2"  # after which a client that was refused for lack of room may try again


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one server takes on; a refusal names one of these and its value."""

    request_bytes: int = 20_000_000  # a request's body, counted while it is read
    photo_pixels: int = 50_000_000  # a photo's width × height, read from its header before it is decoded
    request_photos: int = 16
    held_bytes: int = 256_000_000  # the bodies of all requests whose photos are not decoded yet
    waiting_photos: int = 32  # photos that are not answered yet, counted once for each model
    search_paths: int = 100  # the beam size of a search
    caption_words: int = 100  # the maximum length of a caption
    request_seconds: float = 60.0  # from a request's first byte to its answer

    def over(self, limit: str, status: int, detail: str) -> "Problem":
        """The refusal of more than the limit of that name allows; 503 when there will be room later."""
        return Problem(status, detail, limit=limit, maximum=getattr(self, limit))

    def check(self, limit: str, number: int, status: int, asked: str) -> None:
        """Raise `Problem` when ``number`` is over the limit of that name; ``asked`` says what was asked for."""
        if number > getattr(self, limit):
            raise self.over(limit, status, f"{asked}: at most {getattr(self, limit)} are allowed.")


class Problem(HTTPException):
    """A refusal: the status of its answer, one sentence, and what else the answer holds."""

    def __init__(self, status: int, detail: str, *, headers: dict[str, str] | None = None, **more: Any) -> None:
        retry = {"Retry-After": RETRY_SECONDS} if status == 503 else {}
        super().__init__(status, detail, {**retry, **(headers or {})})
        self.more = more

    def content(self) -> dict[str, Any]:
        """The problem as a client reads it."""
        title = http.HTTPStatus(self.status_code).phrase
        return {"type": "about:blank", "title": title, "status": self.status_code, "detail": self.detail, **self.more}

    def answer(self) -> JSONResponse:
        return JSONResponse(self.content(), self.status_code, self.headers, media_type="application/problem+json")
