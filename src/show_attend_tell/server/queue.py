"""The queue before the models, and the one thread that owns them.

Requests take turns, one job each, so that a request of one photo does not wait for another request's sixteen.
Jobs of one task (one model, one configuration) are searched together where the back end is faster so. Photos are
encoded one by one: on a processor this costs nothing, and a photo's features do not depend on the photos beside it.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.packing import as_array
from show_attend_tell.generation import GenerationConfig, photo_seed
from show_attend_tell.server.limits import Limits, Problem

MOST_TOGETHER = 8  # jobs that are searched together: more would make the first of them wait


@dataclass(kw_only=True, eq=False)
class Photo:
    """What the models need of a photo, a small copy of it where the answer shows it, and what became of it."""

    source: str | None
    size: tuple[int, int] = (0, 0)  # width and height in pixels
    pixels: dict[str, NDArray[np.float32]] = field(default_factory=dict)  # (3, size, size), by the encoder that reads
    copy: Image.Image | None = None
    passed_over: str | None = None  # what was left out of its file
    features: dict[str, NDArray[Any]] = field(default_factory=dict)  # (1, L, D), by the encoder, once encoded
    problem: Problem | None = None  # why it cannot be used
    results: list[Any] = field(default_factory=list)  # one for each of the request's tasks


class Hide(NamedTuple):
    """What is hidden of a photo once it is captioned."""

    word: str | int | None
    place: Any  # of `Captioner.hide`


class Task(NamedTuple):
    """What a request asks of one model for each of its photos."""

    captioner: Captioner
    encoder: str  # by which `Photo.pixels` and `Photo.features` are found
    config: GenerationConfig
    captions: Sequence[str] | None = None  # to be scored; None: the photo is captioned
    evidence: bool = False  # whether a caption has it
    hide: Hide | None = None  # the answer is what came out, instead of the caption

    @property
    def most_together(self) -> int:
        """How many photos are done together at most."""
        alone = self.captions is not None or self.hide
        return 1 if alone else min(MOST_TOGETHER, self.captioner.backend.batch_size(self.config))


@dataclass(frozen=True, eq=False)
class Job:
    """A task for one photo. ``future`` will hold a `Caption`, a `Hidden`, or a log-probability for each caption."""

    task: Task
    photo: Photo
    future: "asyncio.Future[Any]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Queue:
    """A bounded queue of jobs, and the thread that does them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._taken = 0  # jobs that are taken on and not answered yet
        self._requests: deque[deque[Job]] = deque()  # the jobs of each request that wait; the next in turn first
        self._models = ThreadPoolExecutor(1, "models")
        self._worker: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return sum(map(len, self._requests))

    @contextmanager
    def room(self, jobs: int) -> Iterator[None]:
        """Room for a request's jobs until it is answered; raises `Problem` when there is none."""
        if self._taken + jobs > self.limits.waiting_photos:
            detail = "Too many photos are waiting already: try again when Retry-After says."
            raise self.limits.over("waiting_photos", 503, detail)
        self._taken += jobs
        try:
            yield
        finally:
            self._taken -= jobs

    async def answer(self, jobs: Sequence[Job]) -> None:
        """Do all of a request's jobs, some of which may fail; those that wait when it is cancelled are withdrawn."""
        waiting = deque(jobs)
        self._requests.append(waiting)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        try:
            await asyncio.gather(*(job.future for job in jobs), return_exceptions=True)
        finally:
            waiting.clear()

    def stop(self) -> None:
        """Return when what is in work is done."""
        self._models.shutdown()

    async def _work(self) -> None:
        while True:
            jobs = self._next()
            if not jobs:
                return
            results = await asyncio.get_running_loop().run_in_executor(self._models, self._do, jobs)
            for future, result in zip((job.future for job in jobs), results, strict=True):
                if future.done():  # its request was cancelled
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def _next(self) -> list[Job]:
        """The job whose turn it is, and others of its task in their turns; none where none waits."""
        jobs: list[Job] = []
        while not jobs or len(jobs) < jobs[0].task.most_together:
            self._requests = deque(request for request in self._requests if request)
            alike = (waiting for waiting in self._requests if not jobs or waiting[0].task == jobs[0].task)
            request = next(alike, None)
            if request is None:
                break
            self._requests.remove(request)
            jobs.append(request.popleft())
            self._requests.append(request)
        return jobs

    def _do(self, jobs: Sequence[Job]) -> list[Any]:
        """The results of jobs of one task; where they fail together, of each alone: an error is its own job's."""
        try:
            return self._results(jobs)
        except Exception as error:  # of a model or of the hardware
            return [error] if len(jobs) == 1 else [result for job in jobs for result in self._do([job])]

    def _results(self, jobs: Sequence[Job]) -> list[Any]:
        captioner, encoder, config, captions, evidence, hide = jobs[0].task
        photos = [job.photo for job in jobs]
        for photo in photos:
            if encoder not in photo.features:
                photo.features[encoder] = as_array(captioner.backend.encode(photo.pixels[encoder][None]))
        features = captioner.backend.features(np.concatenate([photo.features[encoder] for photo in photos]))
        seeds = [photo_seed(config.seed, photo.pixels[encoder].tobytes()) for photo in photos]
        if captions is not None:
            return [[captioner.explain_features(features, text, config, seeds[0]).log_probability for text in captions]]
        hypotheses_by_photo = captioner.generate(features, config, seeds=seeds, evidence=evidence)
        results: list[Any] = []
        for photo, hypotheses in zip(photos, hypotheses_by_photo, strict=True):
            caption = captioner.assemble(
                hypotheses,
                config,
                size=photo.size,
                source=photo.source,
                kept=photo.copy,
                passed_over=photo.passed_over,
            )
            results.append(caption if hide is None else captioner.hide(caption, hide.word, place=hide.place))
        return results
