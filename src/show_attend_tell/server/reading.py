"""From a request's body to photos, within the limits: counted while read, measured before decoded, never on a disk."""

import asyncio
import io
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import Request
from PIL import Image, UnidentifiedImageError
from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from show_attend_tell.data.photos import formats_read, open_header, open_photo
from show_attend_tell.errors import PhotoError
from show_attend_tell.server.limits import Limits, Problem

DROPPED = 10  # times the limit: so much of a body that is too long is read and dropped, so that its sender hears why


class InMemory(MultiPartParser):
    """Starlette's reader of forms, which by itself writes files of more than a megabyte to the disk."""

    spool_max_size = 0  # for `tempfile.SpooledTemporaryFile`: never


class Arriving:
    """The bodies that are in memory, of all requests."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.held = 0  # bytes


class FormRequest(Request):
    """A request whose form is in memory, counted against the limits until `release`; it ends with its client."""

    def __init__(self, request: Request, arriving: Arriving) -> None:
        super().__init__(request.scope, request.receive)
        self.arriving = arriving
        self.task = asyncio.current_task()
        self.size = 0  # bytes that are counted
        self.watcher: asyncio.Task[None] | None = None

    async def form(self, **options: Any) -> FormData:  # type: ignore[override]  # FastAPI awaits it
        """The form. Raises `Problem` for what cannot be read and for what is over a limit."""
        if self.query_params:
            names = ", ".join(sorted(set(self.query_params)))
            raise Problem(422, f"{names} in the address has no effect: send it as a field of the form.")
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "multipart/form-data":
            raise Problem(415, f"The content type is {kind or 'missing'}: send a form, multipart/form-data.")
        try:
            form = await InMemory(self.headers, self.chunks()).parse()
        except ClientDisconnect:
            raise Problem(400, "The connection ended before the request did.") from None
        except (MultiPartException, ValueError) as error:  # ValueError: an unknown charset
            raise Problem(400, f"The form cannot be read: {getattr(error, 'message', 'unknown charset')}") from None
        self.watcher = asyncio.create_task(self._watch())
        return form

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes; raises `Problem` for too many bytes, once its sender can hear it."""
        limits = self.arriving.limits
        most = limits.request_bytes
        refusal: Problem | None = None
        dropped = 0
        async for chunk in self.stream():
            if refusal is not None:
                dropped += len(chunk)
                if dropped > DROPPED * most:
                    break
            elif self.size + len(chunk) > most:
                detail = f"The request has more than {most:,} bytes: send fewer photos at once, or smaller ones."
                refusal = limits.over("request_bytes", 413, detail)
            elif self.arriving.held + len(chunk) > limits.held_bytes:
                refusal = limits.over("held_bytes", 503, "Too many photos are coming in at once: try again.")
            else:
                self.size += len(chunk)
                self.arriving.held += len(chunk)
                yield chunk
        if refusal is not None:
            raise refusal

    async def _watch(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        if self.task is not None:
            self.task.cancel()

    def release(self) -> None:
        """Count the body no longer: its photos are decoded."""
        self.arriving.held -= self.size
        self.size = 0

    def leave(self) -> None:
        """The request is answered."""
        self.release()
        if self.watcher is not None:
            self.watcher.cancel()


def decoded(data: bytes, label: str, limits: Limits) -> Image.Image:
    """The photo as `photos.open_photo` gives it; raises `Problem` for one that is none or is too large."""
    most = limits.photo_pixels
    size = "too many"
    if not data:
        raise Problem(422, f"{label} is empty.")
    try:
        with open_header(io.BytesIO(data), label) as image:
            if image.width * image.height > most:
                size = f"{image.width} × {image.height}"
                raise Image.DecompressionBombError
        return open_photo(data)
    except UnidentifiedImageError:
        raise Problem(415, f"{label} is not a photo in a format that is read here ({formats_read()}).") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        detail = f"{label} has {size} pixels, and at most {most:,} are decoded here: make it smaller first."
        raise limits.over("photo_pixels", 413, detail) from None
    except PhotoError as error:
        if error.remedy:  # to install what reads HEIC, which a visitor cannot
            detail = f"{label} is a HEIC photo, which this server does not read: send it as JPEG."
            raise Problem(422, detail) from None
        raise Problem(422, f"{label}: {error.reason}.") from None
    except Exception as error:  # of Pillow's readers of headers, which raise almost anything on a damaged file
        raise Problem(422, f"{label} is damaged ({type(error).__name__}).") from None
