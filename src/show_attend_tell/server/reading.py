"""From a request's body to photos, within the limits: counted while read, measured before decoded, never on a disk."""

import asyncio
import io
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import PureWindowsPath
from typing import NamedTuple, TypeVar

from fastapi import Request
from PIL import Image, UnidentifiedImageError
from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from show_attend_tell.data.photos import formats_read, open_header, open_photo
from show_attend_tell.errors import SatError
from show_attend_tell.messages import shorten
from show_attend_tell.server.limits import Limits, Problem

DECODERS = 2  # photos decoded at once: each takes several bytes for every pixel
DROPPED = 10  # times the limit: so much of a body that is too long is read and dropped, so that its sender hears why

F = TypeVar("F", bound=BaseModel)
T = TypeVar("T")


class Upload(NamedTuple):
    """A photo as it came."""

    name: str | None
    data: bytes
    label: str  # what a refusal calls it


class InMemory(MultiPartParser):
    """Starlette's reader of forms, which by itself writes files of more than a megabyte to the disk."""

    spool_max_size = 0  # for `tempfile.SpooledTemporaryFile`: never


def check_in_memory() -> None:
    """Raise `SatError` when this Starlette is too old to keep the photos of a form off the disk."""
    if not hasattr(MultiPartParser, "spool_max_size"):
        raise SatError("this Starlette would write photos to the disk: pip install 'starlette>=0.46'")


class Body:
    """A request's body: its bytes are counted against the limits while they come, and until `release`."""

    def __init__(self, request: Request, reader: "Reader") -> None:
        self.request, self.reader = request, reader
        self.size = 0
        self.uploads: list[Upload] = []

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes; raises `Problem` for too many bytes, once its sender can hear it."""
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
        """Let go of the photos as they came."""
        self.uploads.clear()
        self.reader.held -= self.size
        self.size = 0


class Reader:
    """Reads the fields and photos of requests."""

    def __init__(self, limits: Limits) -> None:
        check_in_memory()
        self.limits = limits
        self.held = 0  # bytes of bodies in memory
        self._threads = ThreadPoolExecutor(DECODERS, "photos")

    async def read(self, request: Request, fields: type[F]) -> tuple[F, Body]:
        """The fields of a form, and its body with the photos, which the caller must `release`.

        Raises `Problem` for what cannot be read and for what is over a limit.
        """
        if request.query_params:
            given = ", ".join(sorted(set(request.query_params)))
            raise Problem(422, f"{given} in the address says nothing here: send it as a field of the form.")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "multipart/form-data":
            raise Problem(415, f"The content type is {kind or 'missing'}: send a form, multipart/form-data.")
        body = Body(request, self)
        try:
            found = await from_form(body, fields)
            most = self.limits.request_photos
            if len(body.uploads) > most:
                detail = f"{len(body.uploads)} photos in one request: send at most {most}."
                raise Problem.over("request_photos", most, 413, detail)
            if not body.uploads:
                raise Problem(422, "There is no photo in the request: send one or several as `photos`.")
        except BaseException:
            body.release()
            raise
        return found, body

    async def aside(self, work: Callable[[], T]) -> T:
        """Do work in one of the photos' threads that would hold up the other requests here."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


async def from_form(body: Body, fields: type[F]) -> F:
    """The fields of a form, whose photos become the body's; a field that comes several times is a list."""
    try:
        form = await InMemory(body.request.headers, body.chunks()).parse()
    except ClientDisconnect:
        raise Problem(400, "The request broke off.") from None
    except (MultiPartException, ValueError) as error:  # ValueError: an unknown charset
        reason = getattr(error, "message", "its charset is not known")
        raise Problem(400, f"The form cannot be read: {reason}") from None
    values: dict[str, list[str]] = {}
    try:
        for name, value in form.multi_items():
            if name == "photos":
                if isinstance(value, str):
                    raise Problem(422, "A photo came as text: send `photos` as files, with a file name.")
                body.uploads.append(upload(len(body.uploads), value.filename, await value.read()))
            elif isinstance(value, UploadFile):
                raise Problem(422, f"{name}: is a file and should be text. Photos belong in `photos`.")
            else:
                values.setdefault(name, []).append(value)
    finally:
        await form.close()
    try:
        return fields.model_validate({name: found[0] if len(found) == 1 else found for name, found in values.items()})
    except ValidationError as error:
        raise unfit(error, fields) from None


def upload(number: int, filename: str | None, data: bytes) -> Upload:
    """The photo of that number, from 0, under the last part of its file name."""
    name = PureWindowsPath(filename).name if filename else None  # which parts at both kinds of slashes
    return Upload(name, data, f"Photo {number + 1}" + (f" ({name})" if name else ""))


def unfit(error: ValidationError, fields: type[BaseModel]) -> Problem:
    """What is wrong with the fields, what was given, and what to give."""
    told = []
    for found in error.errors(include_url=False, include_context=False):
        given = "" if found["type"] == "missing" else f" (given: {shorten(found['input'])})"
        what = _remedy(found["type"], str(found["loc"][0]), fields) if found["loc"] else None
        told.append(f"{'.'.join(map(str, found['loc'])) or 'the request'}: {what or found['msg']}{given}")
    return Problem(422, "; ".join(told[:3]) + ".")


def _remedy(kind: str, name: str, fields: type[BaseModel]) -> str | None:
    """What to do about an error of pydantic of that kind, where its own message does not say it."""
    if kind == "extra_forbidden":
        return f"there is no such field: the fields are photos, {', '.join(fields.model_fields)}"
    if kind == "bool_type":
        return "give true or false"
    if kind.startswith("int_") or kind in ("greater_than_equal", "less_than_equal"):
        limits = fields.model_fields[name].metadata
        bounds = {bound: getattr(limit, bound) for limit in limits for bound in ("ge", "le") if hasattr(limit, bound)}
        return f"give a whole number from {bounds['ge']} to {bounds['le']}"
    return None


def opened(upload: Upload, limits: Limits) -> Image.Image:
    """The photo as `photos.open_photo` gives it; raises `Problem` for a file that is not a photo or is too large."""
    if not upload.data:
        raise Problem(422, f"{upload.label} is empty.")
    try:
        with header(upload) as image:
            pixels = image.width * image.height
            if pixels > limits.photo_pixels:
                raise too_large(upload, f"{image.width} × {image.height} pixels", limits)
            return open_photo(image)
    except Problem:
        raise
    except UnidentifiedImageError:
        known = ", ".join(formats_read())
        raise Problem(415, f"{upload.label} is not a photo in a format that is read here ({known}, HEIC).") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise too_large(upload, "too many pixels", limits) from None
    except SatError as error:
        reason = str(error).partition(": ")[2] or str(error)  # without Pillow's name for the image
        raise Problem(422, f"{upload.label}: {reason}.") from None
    except Exception as error:  # of Pillow's readers of headers, which raise almost anything on a damaged file
        raise Problem(422, f"{upload.label} is damaged ({type(error).__name__}).") from None


def header(upload: Upload) -> Image.Image:
    """The photo, of which only the header is read; raises `Problem` where its format needs a package."""
    try:
        return open_header(io.BytesIO(upload.data), upload.label)
    except SatError as error:
        raise Problem(415, f"{error}.") from None


def too_large(upload: Upload, size: str, limits: Limits) -> Problem:
    detail = f"{upload.label} has {size}, and at most {limits.photo_pixels:,} are decoded here: make it smaller first."
    return Problem.over("photo_pixels", limits.photo_pixels, 413, detail)
