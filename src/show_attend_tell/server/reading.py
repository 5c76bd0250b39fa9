"""From a request's body to photos, within the limits: counted while read, measured before decoded, never on a disk."""

import asyncio
import base64
import binascii
import io
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import PureWindowsPath
from typing import Any, NamedTuple, TypeVar

from fastapi import Request
from PIL import Image, UnidentifiedImageError
from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from show_attend_tell.data.photos import FORMATS, open_photo
from show_attend_tell.errors import SatError
from show_attend_tell.server.limits import Limits, Problem

DECODERS = 2  # photos decoded at once: each takes several bytes for every pixel
DROPPED = 10  # times the limit: so much of too long a body is read and dropped, that its sender may hear why

F = TypeVar("F", bound=BaseModel)
T = TypeVar("T")


class Upload(NamedTuple):
    """A photo as it came."""

    name: str | None
    data: bytes
    label: str  # what a refusal calls it


class InMemory(MultiPartParser):
    """Starlette's reader of forms, which by itself puts files of more than a megabyte on the disk."""

    spool_max_size = 0  # for `tempfile.SpooledTemporaryFile`: there is no size at which it does


class Body:
    """A request's body in chunks, counted against the limits while it is read, until `release`."""

    def __init__(self, request: Request, reader: "Reader") -> None:
        self.request, self.reader = request, reader
        self.size = 0

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        most, room = self.reader.limits.request_bytes, self.reader.limits.held_bytes
        refusal: Problem | None = None
        dropped = 0
        async for chunk in self.request.stream():
            if refusal is None and self.size + len(chunk) > most:
                detail = f"The request has more than {most:,} bytes: send fewer photos at once, or smaller ones."
                refusal = Problem.over("request_bytes", most, 413, detail)
            elif refusal is None and self.reader.held + len(chunk) > room:
                refusal = Problem.busy("held_bytes", room, "Too many photos are coming in at once: try again.", 1)
            if refusal is None:
                self.size += len(chunk)
                self.reader.held += len(chunk)
                yield chunk
            else:
                dropped += len(chunk)
                if dropped > DROPPED * most:
                    break
        if refusal is not None:
            raise refusal

    def release(self) -> None:
        self.reader.held -= self.size


class Reader:
    """Reads the fields and photos of requests."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.held = 0  # bytes of bodies in memory
        self._threads = ThreadPoolExecutor(DECODERS, "photos")

    @asynccontextmanager
    async def uploads(
        self, request: Request, fields: type[F], body: type[F]
    ) -> AsyncGenerator[tuple[F, list[Upload]], None]:
        """The fields of a request and its photos, which are held in memory until the context is left.

        A form is read as ``fields`` and JSON as ``body``, the same with ``photos`` in base64. Raises `Problem` for what
        cannot be read and for what is over a limit.
        """
        if request.query_params:
            given = ", ".join(sorted(set(request.query_params)))
            raise Problem(422, f"{given} in the address says nothing here: send it as a field of the body.")
        arriving, uploads = Body(request, self), list[Upload]()
        try:
            try:
                found, uploads = await self._parsed(arriving, fields, body)
            except ClientDisconnect:
                raise Problem(400, "The request broke off.") from None
            most = self.limits.request_photos
            if len(uploads) > most:
                detail = f"{len(uploads)} photos in one request: send at most {most}."
                raise Problem.over("request_photos", most, 413, detail)
            if not uploads:
                raise Problem(422, "There is no photo in the request: send one or several as `photos`.")
            yield found, uploads
        finally:
            uploads.clear()
            arriving.release()

    async def aside(self, work: Callable[[], T]) -> T:
        """Do in a thread of the photos' what would keep the other requests waiting."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _parsed(self, arriving: Body, fields: type[F], body: type[F]) -> tuple[F, list[Upload]]:
        kind = arriving.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "multipart/form-data":
            return await from_form(arriving, fields)
        if kind == "application/json":
            return from_json(b"".join([chunk async for chunk in arriving.chunks()]), body)
        raise Problem(415, f"The content type is {kind or 'missing'}: send multipart/form-data or application/json.")


async def from_form(arriving: Body, fields: type[F]) -> tuple[F, list[Upload]]:
    """The fields and photos of a form; a field given several times is a list."""
    try:
        form = await InMemory(arriving.request.headers, arriving.chunks()).parse()
    except (MultiPartException, ValueError) as error:  # ValueError: of a charset that cannot be
        raise Problem(
            400, f"The form cannot be read: {getattr(error, 'message', 'its charset is not known')}"
        ) from None
    values: dict[str, Any] = {}
    uploads: list[Upload] = []
    try:
        for name, value in form.multi_items():
            if name == "photos":
                if isinstance(value, str):
                    raise Problem(422, "A photo came as text: send `photos` as files, with a file name.")
                uploads.append(upload(len(uploads), value.filename, await value.read()))
            elif isinstance(value, UploadFile):
                raise Problem(422, f"{name}: is a file, and should be text; photos belong in `photos`.")
            else:
                values[name] = [*values[name], value] if name in values else [value]
    finally:
        await form.close()
    single = {name: value[0] if len(value) == 1 else value for name, value in values.items()}
    try:
        return fields.model_validate(single), uploads
    except ValidationError as error:
        raise unfit(error) from None


def from_json(text: bytes, body: type[F]) -> tuple[F, list[Upload]]:
    """The fields and photos of a JSON object."""
    try:
        found = body.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise unfit(error) from None
    uploads = []
    for number, photo in enumerate(found.photos):  # type: ignore[attr-defined]
        encoded = photo.partition(",")[2] if photo.startswith("data:") else photo
        try:
            uploads.append(upload(number, None, base64.b64decode(encoded, validate=True)))
        except (binascii.Error, ValueError):
            raise Problem(422, f"Photo {number + 1} is not in base64.") from None
    found.photos.clear()  # type: ignore[attr-defined]  # the text is not needed any more
    return found, uploads


def upload(number: int, filename: str | None, data: bytes) -> Upload:
    name = PureWindowsPath(filename).name if filename else None  # which parts at both kinds of slashes
    return Upload(name, data, f"Photo {number + 1}" + (f" ({name})" if name else ""))


def unfit(error: ValidationError) -> Problem:
    """What is wrong with the fields, without repeating what was sent."""
    told = [
        f"{'.'.join(map(str, found['loc'])) or 'the request'}: {found['msg']}"
        for found in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return Problem(422, "; ".join(told[:3]) + ".")


def opened(upload: Upload, limits: Limits) -> Image.Image:
    """The photo as `photos.open_photo` gives it; raises `Problem` for what is none, or has too many pixels."""
    Image.init()
    formats = [name for name in FORMATS if name in Image.OPEN]
    if not upload.data:
        raise Problem(422, f"{upload.label} is empty.")
    try:
        with Image.open(io.BytesIO(upload.data), formats=formats) as image:  # reads the header, and no pixels yet
            pixels = image.width * image.height
            if pixels > limits.photo_pixels:
                raise too_large(upload, f"{image.width} × {image.height} pixels", limits)
            return open_photo(image)
    except Problem:
        raise
    except UnidentifiedImageError:
        known = ", ".join(formats)
        raise Problem(415, f"{upload.label} is not a photo in a format that is read here ({known}).") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise too_large(upload, "too many pixels", limits) from None
    except SatError as error:
        reason = str(error).partition(": ")[2] or str(error)  # without Pillow's name for the image
        raise Problem(422, f"{upload.label}: {reason}.") from None
    except Exception as error:  # of Pillow's readers of headers, which raise almost anything on a damaged file
        raise Problem(422, f"{upload.label} is damaged ({type(error).__name__}).") from None


def too_large(upload: Upload, size: str, limits: Limits) -> Problem:
    detail = f"{upload.label} has {size}: at most {limits.photo_pixels:,} are decoded here, make it smaller first."
    return Problem.over("photo_pixels", limits.photo_pixels, 413, detail)
