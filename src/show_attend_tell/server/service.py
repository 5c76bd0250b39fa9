"""What the server does for a request: finds its models, reads its photos, and asks the models' thread."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import PureWindowsPath
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from PIL import Image
from starlette.datastructures import UploadFile

from show_attend_tell.captioner import Captioner
from show_attend_tell.data.photos import PASSED_OVER
from show_attend_tell.errors import InvalidValue, SatError
from show_attend_tell.server.limits import Limits, Problem
from show_attend_tell.server.queue import Hide, Job, Photo, Queue, Task
from show_attend_tell.server.reading import Arriving, FormRequest, decoded

KEPT = 1600  # pixels of the longer side of a photo that the answer will show
DECODERS = 2  # photos decoded at once: each takes several bytes for every pixel

T = TypeVar("T")
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Service:
    """The models that are served, the requests that arrive, and the queue before the models."""

    def __init__(self, captioners: Sequence[Captioner], limits: Limits) -> None:
        if not captioners:
            raise InvalidValue("there is no model to serve: give one of Captioner.from_pretrained")
        names = [captioner.name for captioner in captioners]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InvalidValue(f"two models are called {twice[0]}: rename the folder of one")
        self.captioners = dict(zip(names, captioners, strict=True))
        self.limits = limits
        self.encoders: dict[str, str] = {}  # by model, the first one with the same encoder: photos are encoded once
        for name, captioner in self.captioners.items():
            alike = (first for first in self.encoders if self._encoder(first) == self._encoder(name))
            first = next(alike, name)
            self.encoders[name] = first
            if first != name:
                captioner.backend.encoder = self.captioners[first].backend.encoder
            captioner(Image.effect_noise((64, 64), 100).convert("RGB"))  # a first time is slow
        self.arriving = Arriving(limits)
        self.queue = Queue(limits)
        self._threads = ThreadPoolExecutor(DECODERS, "photos")

    def _encoder(self, name: str) -> Any:
        return self.captioners[name].backend.name, self.captioners[name].checkpoint.encoder

    def named(self, names: Sequence[str]) -> list[Captioner]:
        """The models of those names, or the first served for none; raises `Problem` for one that is not there."""
        names = [name for name in names if name]  # Swagger UI sends an empty one for none
        for name in names:
            if name not in self.captioners:
                raise Problem(422, f"model: there is no {name!r} here. Choose from {', '.join(self.captioners)}.")
        return [self.captioners[name] for name in dict.fromkeys(names)] or list(self.captioners.values())[:1]

    def task(
        self,
        captioner: Captioner,
        captions: Sequence[str] | None = None,
        *,
        evidence: bool = False,
        hide: Hide | None = None,
        **settings: Any,
    ) -> Task:
        """What to ask of a model, which sets what is None; raises `Problem` for more than one request may ask."""
        config = captioner.resolve_config(**settings)
        self.limits.check("search_paths", config.beam_size, 422, f"beam_size is {config.beam_size}")
        self.limits.check("caption_words", config.max_length, 422, f"max_length is {config.max_length}")
        encoder = self.encoders[captioner.name]
        return Task(captioner, encoder, config, captions, evidence, hide)

    def route_class(self) -> type[APIRoute]:
        """A class of routes whose requests have a `FormRequest`, and the time that is allowed for one."""
        service = self

        class FormRoute(APIRoute):
            def get_route_handler(self) -> Handler:
                return partial(service.bounded, super().get_route_handler())

        return FormRoute

    async def bounded(self, handle: Handler, request: Request) -> Response:
        """Answer a request, unless its time is over."""
        seconds = self.limits.request_seconds
        visit = FormRequest(request, self.arriving)
        try:
            async with asyncio.timeout(seconds) as clock:
                return await handle(visit)
        except TimeoutError:
            if not clock.expired():
                raise
            detail = f"This took longer than {seconds:g} s: try again, or send fewer photos at once."
            raise self.limits.over("request_seconds", 504, detail) from None
        finally:
            visit.leave()

    async def answers(
        self, request: FormRequest, uploads: Sequence[UploadFile], tasks: Sequence[Task], *, show: bool = False
    ) -> list[Photo]:
        """The photos of a request with what became of them; ``show`` keeps a copy of each for the answer.

        Raises `Problem` for too many photos, when there is no room in the queue, and when no photo can be used.
        """
        number = len(uploads) * len(tasks)
        self.limits.check("request_photos", len(uploads), 413, f"{len(uploads)} photos in one request")
        self.limits.check("waiting_photos", number, 413, f"{number} captions at once")
        with self.queue.room(number):
            photos = [await self._prepared(*numbered, tasks, show) for numbered in enumerate(uploads, start=1)]
            request.release()
            # in this order, so that one model's are searched together
            jobs = [Job(task, photo) for task in tasks for photo in photos if not photo.problem]
            await self.queue.answer(jobs)
        for job in jobs:
            try:
                job.photo.results.append(job.future.result())
            except SatError as error:  # its caption has no such word
                job.photo.problem = Problem(422, f"{error}.")
        problems = [photo.problem for photo in photos if photo.problem]
        if len(problems) == len(photos):
            raise problems[0]
        return photos

    async def _prepared(self, number: int, upload: UploadFile, tasks: Sequence[Task], show: bool) -> Photo:
        """Decode a photo, take from it what is needed, and let it go: it may be large."""
        source = PureWindowsPath(upload.filename or "").name or None  # which parts at both kinds of slashes
        data = await upload.read()
        await upload.close()
        label = f"Photo {number}" + (f" ({source})" if source else "")
        try:
            return await self.aside(partial(self._photo, source, data, label, tasks, show))
        except Problem as problem:
            return Photo(source=source, problem=problem)

    def _photo(self, source: str | None, data: bytes, label: str, tasks: Sequence[Task], show: bool) -> Photo:
        image = decoded(data, label, self.limits)
        size = image.size
        passed_over = image.info.get(PASSED_OVER)
        names = {task.encoder for task in tasks}
        pixels = {name: self.captioners[name].backend.encoder.preprocessing.pixels(image) for name in names}
        if show:
            image.thumbnail((KEPT, KEPT))
        return Photo(source=source, size=size, pixels=pixels, copy=image if show else None, passed_over=passed_over)

    async def aside(self, work: Callable[[], T]) -> T:
        """Do work in one of the photos' threads that would hold up the other requests here."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
