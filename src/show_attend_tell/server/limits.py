"""The limits of a request, and refusals: each refusal is a JSON problem (RFC 9457)."""

import http
import math
from dataclasses import dataclass
from typing import Any

from fastapi.responses import JSONResponse


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one server takes on; a refusal names one of these and its value."""

    request_bytes: int = 20_000_000  # a request's body, counted while it is read
    photo_pixels: int = 50_000_000  # a photo's width × height, read from its header before it is decoded
    request_photos: int = 16
    held_bytes: int = 256_000_000  # the bodies of all requests whose photos are not decoded yet
    waiting_photos: int = 256  # photos in the queue, counted once for each model
    request_seconds: float = 60.0  # from a request's first byte to its answer


class Problem(Exception):
    """A refusal: the status of its answer, one sentence, and what else the answer holds."""

    def __init__(self, status: int, detail: str, *, headers: dict[str, str] | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.more = status, detail, headers, more

    @classmethod
    def over(cls, limit: str, maximum: float, status: int, detail: str) -> "Problem":
        """More than a limit allows."""
        return cls(status, detail, limit=limit, maximum=maximum)

    @classmethod
    def busy(cls, limit: str, maximum: float, detail: str, seconds: float) -> "Problem":
        """No room now, and when to come back."""
        retry = {"Retry-After": str(max(1, math.ceil(seconds)))}
        return cls(503, detail, headers=retry, limit=limit, maximum=maximum)

    @classmethod
    def stopping(cls) -> "Problem":
        """The server ends before it can answer."""
        retry = {"Retry-After": "5", "Connection": "close"}
        return cls(503, "The server is stopping: send the request again when the server is back.", headers=retry)

    def answer(self) -> JSONResponse:
        """The problem as a client reads it."""
        content = {
            "type": "about:blank",
            "title": http.HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }
        return JSONResponse(content, self.status, self.headers, media_type="application/problem+json")
