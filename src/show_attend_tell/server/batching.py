"""The one thread that owns the models: it takes what waits together, so that photos which came together share a search.

Photos are encoded one at a time, which costs a CPU nothing and makes a photo's annotations the same to the bit whatever
is in its batch, in bfloat16 too; the search then takes them together, in float32.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from show_attend_tell.captioner import Captioner, photo_seed
from show_attend_tell.checkpoint.records import Decoding
from show_attend_tell.server.limits import Limits

BATCH = 8  # photos searched together at most
WINDOW = 0.005  # seconds that a photo waits for company


class Full(Exception):
    """These jobs are too many for now, by the limit of that name; ``seconds`` is when to come back."""

    def __init__(self, limit: str, seconds: float) -> None:
        super().__init__(f"the queue is full by {limit}; room in about {seconds:.0f} s")
        self.limit, self.seconds = limit, seconds


@dataclass(frozen=True, kw_only=True)
class Job:
    """One photo for one model: to be captioned, or given captions to be scored on it.

    ``future`` will hold a `Caption` without its photo, or a log-probability for each of ``captions``.
    """

    captioner: Captioner
    pixels: Tensor  # (3, size, size); jobs that share an encoder and this very tensor are encoded once
    size: tuple[int, int]  # the photo's width and height
    source: str | None
    decoding: Decoding
    captions: tuple[str, ...] | None = None
    future: "Future[Any]" = field(default_factory=Future)
    came: float = field(default_factory=time.monotonic)

    @property
    def seed(self) -> int:
        return photo_seed(0, self.pixels.numpy().tobytes())


class Batcher:
    """A bounded queue of jobs and the thread that does them, until `stop`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.pace = 0.0  # seconds a job, as of late
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="models", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._stopped

    def submit(self, jobs: Sequence[Job]) -> None:
        """Queue all of the jobs, or none of them and raise `Full`: too many would wait, or would be done too late."""
        with self._changed:
            before, together = len(self._waiting), len(self._waiting) + len(jobs)
            if self._stopped or together > self.limits.waiting_photos:
                raise Full("waiting_photos", before * self.pace)
            # Half of the time, because the pace may slow down; when nothing waits, the pace is what it is.
            if before and together * self.pace > self.limits.request_seconds / 2:
                raise Full("request_seconds", together * self.pace - self.limits.request_seconds / 2)
            self._waiting.extend(jobs)
            self._changed.notify()

    def stop(self) -> None:
        """Take no more, and return when all that waits is done."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while batch := self._next():
            begun = time.monotonic()
            jobs = [job for job in batch if job.future.set_running_or_notify_cancel()]  # nobody waits for the others
            try:
                self._do(jobs)
            except Exception as error:  # of a model or the hardware: told to those who asked, and the thread lives on
                for job in jobs:
                    if not job.future.done():
                        job.future.set_exception(error)
            if jobs:
                pace = (time.monotonic() - begun) / len(jobs)
                self.pace = 0.8 * self.pace + 0.2 * pace if self.pace else pace

    def _next(self) -> list[Job]:
        """The next jobs, after the window in which more may join them; none once stopped and done."""
        with self._changed:
            while not self._waiting and not self._stopped:
                self._changed.wait()
            while 0 < len(self._waiting) < BATCH and not self._stopped:
                left = self._waiting[0].came + WINDOW - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            return [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]

    def _do(self, jobs: Sequence[Job]) -> None:
        annotations: dict[tuple[int, int], Tensor] = {}  # (1, L, D), by encoder and photo
        searches: dict[tuple[int, Decoding], list[tuple[Job, Tensor]]] = {}
        for job in jobs:
            captioner = job.captioner
            seen = (id(captioner.encoder), id(job.pixels))
            if seen not in annotations:
                annotations[seen] = captioner.encoder.annotate(job.pixels[None].to(captioner.device))
            if job.captions is None:
                searches.setdefault((id(captioner), job.decoding), []).append((job, annotations[seen]))
            else:
                look, seed = job.decoding.look, job.seed
                job.future.set_result(
                    [
                        captioner.log_probability_of(annotations[seen], text, look=look, seed=seed)
                        for text in job.captions
                    ]
                )
        for (_, decoding), together in searches.items():
            captioner = together[0][0].captioner
            found = captioner.search(
                torch.cat([part for _, part in together]), decoding, seeds=[job.seed for job, _ in together]
            )
            for (job, _), hypotheses in zip(together, found, strict=True):
                caption = captioner.caption_of(hypotheses, decoding, None, 0, size=job.size, source=job.source)
                job.future.set_result(caption)
