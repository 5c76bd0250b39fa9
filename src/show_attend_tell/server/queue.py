"""The queue before the models, and the one thread that owns them.

Requests take turns, one job each, so that a request of one photo does not wait for another request's sixteen.
Jobs of one kind (one model, one decoding) are searched eight at a time where that is faster: with any beam on a GPU,
and with a beam of up to 50 on a CPU. Wider searches share little on a CPU and are done one by one. Photos are encoded
one by one: on a CPU this costs nothing, and a photo's annotations do not depend on the photos beside it.
"""

import threading
import time
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
from show_attend_tell.generation import photo_seed
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.server.limits import Limits

TOGETHER = 8  # photos searched together at most, where it is faster
SPARE = 2.0  # how many times the expected time must be left: other requests join, and the machine may slow down


class Full(Exception):
    """There is no room for these jobs now, by the limit of that name; ``seconds`` is when to come back."""

    def __init__(self, limit: str, seconds: float) -> None:
        super().__init__(f"the queue is full by {limit}; room in about {seconds:.0f} s")
        self.limit, self.seconds = limit, seconds


@dataclass(frozen=True, kw_only=True, eq=False)
class Photo:
    """What the models need of a photo, and a small copy of it where the answer shows it."""

    source: str | None
    size: tuple[int, int]  # width and height in pixels
    pixels: dict[int, NDArray[np.float32]]  # (3, size, size), by the id of the encoder that they were made for
    copy: Image.Image | None = None
    annotations: dict[int, Any] = field(
        default_factory=dict
    )  # (1, L, D), of the back end, by the encoder's id, once encoded


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """One photo for one model: to be captioned, or to have ``captions`` scored on it.

    ``future`` will hold a `Caption` without its photo, or a log-probability for each of ``captions``.
    """

    captioner: Captioner
    photo: Photo
    generation: GenerationConfig
    captions: tuple[str, ...] | None = None
    future: "Future[Any]" = field(default_factory=Future)

    @property
    def act(self) -> str:
        return "search" if self.captions is None else "score"

    @property
    def paths(self) -> int:
        """How many word sequences the decoder follows: the beam, or the captions to be scored."""
        return self.generation.beam_size if self.captions is None else len(self.captions)

    @property
    def kind(self) -> tuple[str, str, GenerationConfig]:
        return self.captioner.name, self.act, self.generation

    @property
    def most_together(self) -> int:
        """How many jobs of this kind are done together at most."""
        alone = self.captions is not None or self.captioner.backend.batch_size(self.generation) < 2
        return 1 if alone else TOGETHER


@dataclass(frozen=True, kw_only=True, eq=False)
class Ticket:
    """One request's place in the queue."""

    jobs: deque[Job]  # those that wait
    each: float  # expected seconds a job
    due: float  # when its answer must be there, by `time.monotonic`


class Pace:
    """How many seconds each kind of work takes, learned from work that was done; the latest counts most."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, str], dict[int, float]] = {}  # by model and act; then by number of paths

    def learn(self, model: str, act: str, paths: int, seconds: float) -> None:
        known = self._seconds.setdefault((model, act), {})
        known[paths] = 0.8 * known[paths] + 0.2 * seconds if paths in known else seconds

    def forget(self, model: str) -> None:
        """Begin again with a model."""
        self._seconds = {key: known for key, known in self._seconds.items() if key[0] != model}

    def expected(self, model: str, act: str, paths: int) -> float:
        """Seconds for a number of paths: between the known numbers on a line, beyond the largest in proportion."""
        known = sorted(self._seconds.get((model, act), {}).items())
        if not known:
            return 0.0
        numbers, seconds = [number for number, _ in known], [one for _, one in known]
        between = float(np.interp(paths, numbers, seconds))
        return between * max(1.0, paths / numbers[-1])

    def of(self, jobs: Sequence[Job]) -> float:
        """Expected seconds for these jobs, one after the other; a photo is encoded once for models of one encoder."""
        encoded = {(id(job.photo), id(job.captioner.backend.encoder)): job.captioner.name for job in jobs}
        return sum(self.expected(model, "encode", 1) for model in encoded.values()) + sum(
            self.expected(job.captioner.name, job.act, job.paths) for job in jobs
        )


class Queue:
    """A bounded queue of jobs and the thread that does them, until `stop`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.pace = Pace()
        self._tickets: deque[Ticket] = deque()  # the next in turn first; each has a job that waits
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="models", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        with self._changed:
            return self._waiting()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._stopped

    def check(self, jobs: Sequence[Job], seconds: float | None = None) -> Ticket:
        """A ticket for a request's jobs, if there is room for them now.

        The request has that many seconds left, by default what any request has. Raises `Full` when too many jobs would
        wait, and when this request or one before it would come too late.
        """
        left = self.limits.request_seconds if seconds is None else seconds
        with self._changed:
            each = self.pace.of(jobs) / len(jobs)
            ticket = Ticket(jobs=deque(jobs), each=each, due=time.monotonic() + left)
            if self._stopped or self._waiting() + len(jobs) > self.limits.waiting_photos:
                raise Full("waiting_photos", sum(other.each * len(other.jobs) for other in self._tickets))
            late = self._late(ticket)
            if late > 0:
                raise Full("request_seconds", late)
        return ticket

    def submit(self, jobs: Sequence[Job], seconds: float | None = None) -> Ticket:
        """Queue all of the jobs, in their request's turns; raises `Full` as `check` does."""
        with self._changed:
            ticket = self.check(jobs, seconds)
            self._tickets.append(ticket)
            self._changed.notify()
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Take a request's jobs off the queue: nobody waits for them any more."""
        with self._changed:
            if ticket in self._tickets:
                self._tickets.remove(ticket)
        for job in ticket.jobs:
            job.future.cancel()

    def stop(self) -> None:
        """Take no more, and return when all that waits is done."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _waiting(self) -> int:
        return sum(len(ticket.jobs) for ticket in self._tickets)

    def _late(self, newcomer: Ticket) -> float:
        """How many seconds of work too many there are for the newcomer to be in time, and to make nobody late.

        With turns, a request of n jobs waits for n jobs of each other request, or for all that it has. When nothing
        waits, the newcomer is in time: it cannot be done any sooner.
        """
        if not self._tickets:
            return 0.0
        tickets = [*self._tickets, newcomer]
        jobs = np.array([len(ticket.jobs) for ticket in tickets])
        each = np.array([ticket.each for ticket in tickets])
        work = np.minimum.outer(jobs, jobs) * each  # [i, j]: seconds of request j that are done before i is answered
        left = (np.array([ticket.due for ticket in tickets]) - time.monotonic()) / SPARE
        late = work.sum(axis=1) - left
        late_anyway = work[:, :-1].sum(axis=1) > left
        late_anyway[-1] = False
        return float(np.where(late_anyway, 0.0, late).max())

    def _work(self) -> None:
        while jobs := self._next():
            self._do([job for job in jobs if job.future.set_running_or_notify_cancel()])

    def _next(self) -> list[Job]:
        """The job whose turn it is, and others of its kind in their turns; none once stopped and done."""
        with self._changed:
            while not self._tickets and not self._stopped:
                self._changed.wait()
            jobs: list[Job] = []
            while self._tickets and (not jobs or len(jobs) < jobs[0].most_together):
                alike = (ticket for ticket in self._tickets if not jobs or ticket.jobs[0].kind == jobs[0].kind)
                ticket = next(alike, None)
                if ticket is None:
                    break
                jobs.append(ticket.jobs.popleft())
                self._tickets.remove(ticket)
                if ticket.jobs:
                    self._tickets.append(ticket)
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
        first = jobs[0]
        captioner, generation, encoder = first.captioner, first.generation, id(first.captioner.backend.encoder)
        for job in jobs:
            if encoder not in job.photo.annotations:
                with self._timed(captioner, "encode", 1):
                    pixels = job.photo.pixels[encoder][None]
                    job.photo.annotations[encoder] = captioner.backend.encode(pixels)
        seeds = [photo_seed(0, job.photo.pixels[encoder].tobytes()) for job in jobs]
        if first.captions is not None:
            annotations = first.photo.annotations[encoder]
            with self._timed(captioner, "score", first.paths):
                return [
                    [
                        captioner.explain_features(annotations, text, generation, seeds[0]).log_probability
                        for text in first.captions
                    ]
                ]
        with self._timed(captioner, "search", first.paths, len(jobs)):
            annotations = captioner.backend.together([job.photo.annotations[encoder] for job in jobs])
            found = captioner.generate(annotations, generation, seeds=seeds)
            return [
                captioner.assemble(hypotheses, generation, size=job.photo.size, source=job.photo.source)
                for job, hypotheses in zip(jobs, found, strict=True)
            ]

    @contextmanager
    def _timed(self, captioner: Captioner, act: str, paths: int, jobs: int = 1) -> Iterator[None]:
        """Learn how long what is inside takes, a job."""
        begun = time.monotonic()
        yield
        seconds = (time.monotonic() - begun) / jobs
        with self._changed:
            self.pace.learn(captioner.name, act, paths, seconds)
