"""What the server does for a request: finds its models, reads its photos, and asks the models' thread."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from PIL import Image
from torch import Tensor

from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.records import Decoding
from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import LookName
from show_attend_tell.server.batching import Batcher, Full, Job
from show_attend_tell.server.limits import Limits, Problem
from show_attend_tell.server.reading import Reader, Upload, opened

KEPT = 1600  # pixels of the longer side of a photo that the answer will show


@dataclasses.dataclass(frozen=True)
class Photo:
    """What the models need of a photo, and a small copy of it where the answer shows it."""

    source: str | None
    size: tuple[int, int]
    pixels: dict[int, Tensor]  # (3, size, size), by the id of the encoder that they were made for
    copy: Image.Image | None


class Service:
    """The models that are served, the reader of requests, and the queue before the models."""

    def __init__(self, captioners: Sequence[Captioner], limits: Limits) -> None:
        if not captioners:
            raise SatError("there is no model to serve: give at least one")
        self.captioners: dict[str, Captioner] = {}
        for captioner in captioners:
            if captioner.name in self.captioners:
                raise SatError(f"two models are called {captioner.name}: rename the folder of one")
            for earlier in self.captioners.values():
                if earlier.checkpoint.encoder == captioner.checkpoint.encoder:
                    captioner.encoder = earlier.encoder  # so that a photo is encoded once for both
            self.captioners[captioner.name] = captioner
        self.limits = limits
        self.reader = Reader(limits)
        self.batcher = Batcher(limits)
        self._warm_up()

    def _warm_up(self) -> None:
        """Caption a grey photo twice by each model: a first time is slow, and a second tells the queue its pace."""
        for captioner in self.captioners.values():
            grey = Image.new("RGB", (16, 16), "grey")
            for _ in range(2):
                job = Job(
                    captioner=captioner,
                    pixels=captioner.encoder.preprocessing(grey),
                    size=grey.size,
                    source=None,
                    decoding=captioner.checkpoint.decoding,
                )
                self.batcher.submit([job])
                job.future.result()

    def named(self, names: Sequence[str]) -> list[Captioner]:
        """The models of those names, or the first served for none; raises `Problem` for one that is not there."""
        for name in names:
            if name not in self.captioners:
                raise Problem(422, f"model: there is no {name!r} here, choose from {', '.join(self.captioners)}.")
        return [self.captioners[name] for name in dict.fromkeys(names)] or list(self.captioners.values())[:1]

    @asynccontextmanager
    async def deadline(self) -> AsyncGenerator[None, None]:
        """Raises `Problem` when what is inside takes longer than a request may."""
        seconds = self.limits.request_seconds
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            detail = f"This took longer than {seconds:g} s: try again, or send fewer photos at once."
            raise Problem.over("request_seconds", seconds, 504, detail) from None

    async def photos(self, uploads: Sequence[Upload], captioners: Sequence[Captioner], *, show: bool) -> list[Photo]:
        """Decode photos one after the other, and keep of each what the models and the answer need."""
        return [
            await self.reader.aside(partial(prepared, upload, self.limits, captioners, show=show)) for upload in uploads
        ]

    async def answers(
        self,
        photos: Sequence[Photo],
        captioners: Sequence[Captioner],
        *,
        beam: int | None = None,
        look: LookName | None = None,
        captions: Sequence[str] | None = None,
    ) -> list[Any]:
        """What the models make of the photos, photo by photo; raises `Problem` when there is no room for them."""
        jobs = [
            Job(
                captioner=captioner,
                pixels=photo.pixels[id(captioner.encoder)],
                size=photo.size,
                source=photo.source,
                decoding=decoding(captioner, beam, look),
                captions=None if captions is None else tuple(captions),
            )
            for photo in photos
            for captioner in captioners
        ]
        most = self.limits.waiting_photos
        if len(jobs) > most:
            detail = f"{len(jobs)} captions at once: ask for at most {most}."
            raise Problem.over("waiting_photos", most, 413, detail)
        try:
            self.batcher.submit(jobs)
        except Full as full:
            detail = "Too many photos are waiting already: try again when Retry-After says."
            raise Problem.busy(full.limit, getattr(self.limits, full.limit), detail, full.seconds) from None
        return await asyncio.gather(*[asyncio.wrap_future(job.future) for job in jobs])


def decoding(captioner: Captioner, beam: int | None, look: LookName | None) -> Decoding:
    """The model's defaults with what the request changes of them."""
    return captioner.checkpoint.decoding.but(beam=beam, look=look)


def prepared(upload: Upload, limits: Limits, captioners: Sequence[Captioner], *, show: bool) -> Photo:
    """Decode a photo, take from it what is needed, and let it go: it may be large."""
    image = opened(upload, limits)
    size, pixels = image.size, dict[int, Tensor]()
    for captioner in captioners:
        if id(captioner.encoder) not in pixels:
            pixels[id(captioner.encoder)] = captioner.encoder.preprocessing(image)
    if show:
        image.thumbnail((KEPT, KEPT))
    return Photo(upload.name, size, pixels, image if show else None)
