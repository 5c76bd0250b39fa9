"""The queue before the models, and the one thread that owns them.

Requests take turns, one job each, so that a request of one photo does not wait for another request's sixteen.
Jobs of one kind (one model, one configuration) are searched together where the back end is faster so. Photos are
encoded one by one: on a processor this costs nothing, and a photo's features do not depend on the photos beside it.
"""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from show_attend_tell.captioner import Captioner
from show_attend_tell.generation import GenerationConfig, photo_seed
from show_attend_tell.server.limits import Problem

MOST_TOGETHER = 8  # jobs that are searched together: more would make the first of them wait


@dataclass(frozen=True, kw_only=True, eq=False)
class Photo:
    """What the models need of a photo, and a small copy of it where the answer shows it."""

    source: str | None
    size: tuple[int, int]  # width and height in pixels
    pixels: dict[str, NDArray[np.float32]]  # (3, size, size), by the encoder that they were made for
    copy: Image.Image | None = None
    features: dict[str, Any] = field(default_factory=dict)  # (1, L, D) of the back end, by the encoder, once encoded


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """One photo for one model: to be captioned, or to have ``captions`` scored on it.

    ``future`` will hold a `Caption` without its photo, or a log-probability for each of ``captions``.
    """

    captioner: Captioner
    encoder: str  # by which `Photo.pixels` and `Photo.features` are found
    photo: Photo
    config: GenerationConfig
    captions: tuple[str, ...] | None = None
    future: "Future[Any]" = field(default_factory=Future)

    @property
    def kind(self) -> tuple[str, bool, GenerationConfig]:
        return self.captioner.name, self.captions is None, self.config

    @property
    def most_together(self) -> int:
        """How many jobs of this kind are done together at most."""
        return 1 if self.captions is not None else min(MOST_TOGETHER, self.captioner.backend.batch_size(self.config))


class Queue:
    """A bounded queue of jobs and the thread that does them, until `stop`."""

    def __init__(self, size: int) -> None:
        self.size = size  # jobs that are taken on and not answered yet
        self._taken = 0
        self._requests: deque[deque[Job]] = deque()  # the jobs of each request that wait; the next in turn first
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="models", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        with self._changed:
            return sum(map(len, self._requests))

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._stopped

    @contextmanager
    def room(self, jobs: int) -> Iterator[None]:
        """Room for a request's jobs from before its photos are decoded until it is answered.

        Raises `Problem` when there is none.
        """
        with self._changed:
            if self._stopped or self._taken + jobs > self.size:
                detail = "Too many photos are waiting already: try again when Retry-After says."
                raise Problem.busy("waiting_photos", self.size, detail)
            self._taken += jobs
        try:
            yield
        finally:
            with self._changed:
                self._taken -= jobs

    @contextmanager
    def submitted(self, jobs: Sequence[Job]) -> Iterator[None]:
        """Queue all of a request's jobs; those that still wait at the end of the context are withdrawn."""
        waiting = deque(jobs)
        with self._changed:
            self._requests.append(waiting)
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                left = [*waiting]
                waiting.clear()
            for job in left:
                job.future.cancel()

    def stop(self) -> None:
        """Take no more, and return when all that waits is done."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while jobs := self._next():
            self._do([job for job in jobs if job.future.set_running_or_notify_cancel()])

    def _next(self) -> list[Job]:
        """The job whose turn it is, and others of its kind in their turns; none once stopped and done."""
        with self._changed:
            jobs: list[Job] = []
            while not jobs or len(jobs) < jobs[0].most_together:
                self._requests = deque(request for request in self._requests if request)
                alike = (each for each in self._requests if not jobs or each[0].kind == jobs[0].kind)
                request = next(alike, None)
                if request is not None:
                    self._requests.remove(request)
                    jobs.append(request.popleft())
                    self._requests.append(request)
                elif jobs or self._stopped:
                    break
                else:
                    self._changed.wait()
            return jobs

    def _do(self, jobs: Sequence[Job]) -> None:
        """Do jobs of one kind together; when that fails, one by one, so that an error reaches only its own job."""
        if not jobs:
            return
        try:
            results = self._results(jobs)
        except Exception as error:  # of a model or of the hardware: the thread lives on
            if len(jobs) == 1:
                jobs[0].future.set_exception(error)
            else:
                for job in jobs:
                    self._do([job])
        else:
            for job, result in zip(jobs, results, strict=True):
                job.future.set_result(result)

    def _results(self, jobs: Sequence[Job]) -> list[Any]:
        captioner, config, encoder = jobs[0].captioner, jobs[0].config, jobs[0].encoder
        for photo in (job.photo for job in jobs):
            if encoder not in photo.features:
                photo.features[encoder] = captioner.backend.encode(photo.pixels[encoder][None])
        features = captioner.backend.together([job.photo.features[encoder] for job in jobs])
        seeds = [photo_seed(config.seed, job.photo.pixels[encoder].tobytes()) for job in jobs]
        if jobs[0].captions is not None:
            texts = jobs[0].captions
            return [[captioner.explain_features(features, text, config, seeds[0]).log_probability for text in texts]]
        found = captioner.generate(features, config, seeds=seeds)
        return [
            captioner.assemble(hypotheses, config, size=job.photo.size, source=job.photo.source)
            for job, hypotheses in zip(jobs, found, strict=True)
        ]
