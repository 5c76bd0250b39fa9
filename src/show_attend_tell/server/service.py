"""What the server does for a request: finds its models, reads its photos, and asks the models' thread."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from fastapi import Request
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel

from show_attend_tell.captioner import Captioner
from show_attend_tell.errors import SatError
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.server.limits import Limits, Problem
from show_attend_tell.server.queue import Full, Job, Photo, Queue
from show_attend_tell.server.reading import Body, Reader, Upload, opened
from show_attend_tell.settings import AttentionModeName

KEPT = 1600  # pixels of the longer side of a photo that the answer will show

F = TypeVar("F", bound=BaseModel)


@dataclass(frozen=True)
class Visit(Generic[F]):
    """A request that is being answered: its fields, its body with the photos, and the clock that ends it."""

    asked: F
    body: Body
    clock: asyncio.Timeout

    @property
    def seconds_left(self) -> float:
        due = self.clock.when()
        assert due is not None  # every visit has its time
        return due - asyncio.get_running_loop().time()


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
                    captioner.backend.share_encoder(earlier.backend)  # so that a photo is encoded once for both
            self.captioners[captioner.name] = captioner
        self.limits = limits
        self.reader = Reader(limits)
        self.queue = Queue(limits)
        self._arriving: set[asyncio.Timeout] = set()  # of the requests whose bodies are not here yet
        self._closed = False
        try:
            self._warm_up()
        except BaseException:  # Ctrl-C too
            self.queue.stop()
            raise

    def _warm_up(self) -> None:
        """Try each model on noise: a first time is slow, and the next times tell the queue its pace.

        Noise, because its captions are as long as those of the photos that take longest.
        """
        noise = Image.effect_noise((64, 64), 100).convert("RGB")
        for captioner in self.captioners.values():
            pixels = {id(captioner.backend.encoder): captioner.backend.encoder.preprocessing.pixels(noise)}
            generation = captioner.checkpoint.generation
            greedy = generation.merge(beam_size=1)
            tries: list[tuple[GenerationConfig, tuple[str, ...] | None]] = [
                (greedy, None),
                (greedy, ("a photo of noise",)),
            ]
            for turn in (tries, [*tries, (generation, None)]):
                self.queue.pace.forget(captioner.name)
                for tried, captions in turn:
                    photo = Photo(source=None, size=noise.size, pixels=pixels)
                    job = Job(captioner=captioner, photo=photo, generation=tried, captions=captions)
                    self.queue.submit([job])
                    job.future.result()

    def named(self, names: Sequence[str]) -> list[Captioner]:
        """The models of those names, or the first served for none; raises `Problem` for one that is not there."""
        for name in names:
            if name not in self.captioners:
                raise Problem(422, f"model: there is no {name!r} here. Choose from {', '.join(self.captioners)}.")
        return [self.captioners[name] for name in dict.fromkeys(names)] or list(self.captioners.values())[:1]

    @asynccontextmanager
    async def visit(self, request: Request, fields: type[F]) -> AsyncGenerator[Visit[F], None]:
        """Read a request. What is inside ends when the request's time is over or its client has gone.

        Raises `Problem` for these, for what cannot be read, and when the server stops before the whole body is there.
        """
        seconds = self.limits.request_seconds
        try:
            async with asyncio.timeout(seconds) as clock:
                self._arriving.add(clock)
                try:
                    if self._closed:
                        raise Problem.stopping()
                    asked, body = await self.reader.read(request, fields)
                finally:
                    self._arriving.discard(clock)
                watcher = asyncio.create_task(leave(request, clock))
                try:
                    yield Visit(asked, body, clock)
                finally:
                    watcher.cancel()
                    body.release()
        except TimeoutError:
            if not clock.expired():
                raise
            if self._closed:
                raise Problem.stopping() from None
            detail = f"This took longer than {seconds:g} s: try again, or send fewer photos at once."
            raise Problem.over("request_seconds", seconds, 504, detail) from None

    async def answers(
        self,
        visit: Visit[Any],
        captioners: Sequence[Captioner],
        *,
        beam_size: int | None = None,
        attention_mode: AttentionModeName | None = None,
        captions: Sequence[str] | None = None,
        show: bool = False,
    ) -> tuple[list[Photo], list[Any]]:
        """A request's photos, and what the models make of them, photo by photo.

        Photos are decoded one after the other. ``show`` keeps a copy of each for the answer. Raises `Problem` when
        there is no room in the queue, if possible before the photos are decoded.
        """

        def jobs(photos: Sequence[Photo]) -> list[Job]:
            """Model by model, so that the photos of one model can be searched together."""
            return [
                Job(
                    captioner=captioner,
                    photo=photo,
                    generation=captioner.checkpoint.generation.merge(
                        beam_size=beam_size, attention_mode=attention_mode
                    ),
                    captions=None if captions is None else tuple(captions),
                )
                for captioner in captioners
                for photo in photos
            ]

        uploads, limits = visit.body.uploads, self.limits
        most, number = limits.waiting_photos, len(uploads) * len(captioners)
        if number > most:
            detail = f"{number} captions at once: ask for at most {most}."
            raise Problem.over("waiting_photos", most, 413, detail)
        try:
            self.queue.check(jobs([Photo(source=None, size=(0, 0), pixels={}) for _ in uploads]), visit.seconds_left)
            photos = [
                await self.reader.aside(partial(prepared, upload, limits, captioners, show=show)) for upload in uploads
            ]
            visit.body.release()
            waiting = jobs(photos)
            ticket = self.queue.submit(waiting, visit.seconds_left)
        except Full as full:
            detail = "Too many photos are waiting already: try again when Retry-After says."
            raise Problem.busy(full.limit, getattr(limits, full.limit), detail, full.seconds) from None
        try:
            found = await asyncio.gather(*[asyncio.wrap_future(job.future) for job in waiting])
        finally:
            self.queue.withdraw(ticket)
        return photos, [
            found[location] for start in range(len(photos)) for location in range(start, number, len(photos))
        ]

    def close(self) -> None:
        """Give up the requests whose bodies are still on their way: the server stops."""
        self._closed = True
        now = asyncio.get_running_loop().time()
        for clock in self._arriving:
            if not clock.expired():
                clock.reschedule(now)

    def stop(self) -> None:
        """End the models' thread when all that waits is done."""
        self.queue.stop()


async def leave(request: Request, clock: asyncio.Timeout) -> None:
    """End a request's time when its client goes away; for requests whose body has come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    if not clock.expired():
        clock.reschedule(asyncio.get_running_loop().time())


def prepared(upload: Upload, limits: Limits, captioners: Sequence[Captioner], *, show: bool) -> Photo:
    """Decode a photo, take from it what is needed, and let it go: it may be large."""
    image = opened(upload, limits)
    size, pixels = image.size, dict[int, NDArray[np.float32]]()
    for captioner in captioners:
        if id(captioner.backend.encoder) not in pixels:
            pixels[id(captioner.backend.encoder)] = captioner.backend.encoder.preprocessing.pixels(image)
    if show:
        image.thumbnail((KEPT, KEPT))
    return Photo(source=upload.name, size=size, pixels=pixels, copy=image if show else None)
