"""The queue before the models: who is next, who is let in, and whom a fault reaches."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import torch
from builders import shape_photo
from serving import (
    PHOTOS,
    RED,
    SCENES,
    WEB,
    Gate,
    form,
    post_aside,
    refused,
    serving,
    small_captioners,
    until,
    waiting,
)

from show_attend_tell.captioner import Captioner
from show_attend_tell.errors import SatError
from show_attend_tell.server import queue as queue_module
from show_attend_tell.server import service
from show_attend_tell.server.limits import Limits
from show_attend_tell.server.queue import Full, Job, Photo, Queue
from show_attend_tell.server.reading import Upload
from show_attend_tell.server.service import prepared
from show_attend_tell.threads import use_threads


@pytest.fixture
def captioner() -> Captioner:
    return small_captioners()[0]


@pytest.fixture
def queue() -> Iterator[Queue]:
    found = Queue(Limits(request_seconds=20, waiting_photos=60))
    yield found
    found.stop()


@pytest.fixture
def gate(captioner: Captioner, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """The queue's thread, held by a first job; opened at the end."""
    found = Gate(captioner, monkeypatch)
    queue.submit(jobs(captioner, "first"))
    assert found.reached.wait(10)
    yield found
    found.open.set()


def jobs(captioner: Captioner, *sources: str, beam_size: int = 1, captions: Any = None) -> list[Job]:
    """A job for each photo."""
    found = []
    for number, source in enumerate(sources):
        image = shape_photo(*SCENES[number % len(SCENES)])
        pixels = {id(captioner.backend.encoder): captioner.backend.encoder.preprocessing.pixels(image)}
        photo = Photo(source=source, size=image.size, pixels=pixels)
        generation = captioner.checkpoint.generation.merge(beam_size=beam_size)
        found.append(Job(captioner=captioner, photo=photo, generation=generation, captions=captions))
    return found


# Turns


def test_requests_take_turns(captioner: Captioner, queue: Queue, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "TOGETHER", 1)
    requests = [jobs(captioner, "a1", "a2", "a3", "a4"), jobs(captioner, "b1"), jobs(captioner, "c1", "c2")]
    order: list[str] = []
    for request in requests:
        for job in request:
            job.future.add_done_callback(lambda _, source=job.photo.source: order.append(source))
        queue.submit(request)
    gate.open.set()
    for request in requests:
        for job in request:
            job.future.result(timeout=20)
    until(lambda: len(order) == 7)
    assert order == ["a1", "b1", "c1", "a2", "c2", "a3", "a4"]


def test_what_waits_is_searched_together_where_that_is_faster(captioner: Captioner, queue: Queue, gate: Gate) -> None:
    narrow, wide = jobs(captioner, *"abcdef", beam_size=50), jobs(captioner, *"abc", beam_size=51)
    scored = jobs(captioner, *"ab", captions=("word3 word4",))
    for request in (narrow[:2], wide, narrow[2:], scored):
        queue.submit(request)
    gate.open.set()
    for job in [*narrow, *wide, *scored]:
        job.future.result(timeout=20)
    assert gate.batches == [1, 6, 1, 1, 1]  # the first, the narrow ones, and on a CPU each of the wide ones alone


def test_what_is_searched_together_is_answered_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    captioner = small_captioners()[0]
    alone = [captioner(shape_photo(*scene)) for scene in SCENES]
    with serving([captioner]) as running:
        gate = Gate(captioner, monkeypatch)
        first = post_aside(running.url, PHOTOS[0])
        assert gate.reached.wait(10)
        others = [post_aside(running.url, photo) for photo in PHOTOS[1:]]
        until(lambda: waiting(running.url) == 6)
        gate.open.set()
        answers = [future.result().json()[0] for future in [first, *others]]
    assert gate.batches == [1, 6]
    for answer, caption in zip(answers, alone, strict=True):
        assert answer["words"] == caption.words
        assert answer["log_probability"] == pytest.approx(caption.log_probability, abs=1e-4)


def test_a_photo_is_encoded_once_for_models_of_one_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    captioners = small_captioners()
    with serving(captioners) as running:
        gate = Gate(captioners[0], monkeypatch)
        gate.open.set()
        asked = {"model": ["small-soft", "small-hard"]}
        answers = WEB.post(f"{running.url}/v1/captions", files=form(*PHOTOS[:3]), data=asked).json()
    assert gate.encoded == 3
    assert [answer["source"] for answer in answers] == [f"photo{number}.png" for number in (0, 0, 1, 1, 2, 2)]


def test_the_models_thread_uses_the_threads_that_were_asked_for(
    captioner: Captioner, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # put back afterwards
    search, before, found = captioner.search, torch.get_num_threads(), []

    def noted(*arguments: Any, **options: Any) -> Any:
        found.append(torch.get_num_threads())
        return search(*arguments, **options)

    monkeypatch.setattr(captioner, "search", noted)
    try:
        use_threads(before + 2)
        (job,) = jobs(captioner, "a")
        queue.submit([job])
        job.future.result(timeout=20)
    finally:
        torch.set_num_threads(before)
    assert found == [before + 2]


# Who leaves


def test_photos_of_a_client_that_has_gone_leave_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    captioner = small_captioners()[0]
    with serving([captioner]) as running:
        gate = Gate(captioner, monkeypatch)
        first = post_aside(running.url, RED)
        assert gate.reached.wait(10)
        for _ in range(3):
            with pytest.raises(httpx.ReadTimeout):  # whose client then closes the connection
                WEB.post(f"{running.url}/v1/captions", files=form(*[RED] * 16), timeout=httpx.Timeout(20, read=0.5))
        until(lambda: waiting(running.url) == 0)
        last = post_aside(running.url, RED)
        until(lambda: waiting(running.url) == 1)
        gate.open.set()
        assert [len(future.result().json()) for future in (first, last)] == [1, 1]
    assert gate.encoded == 2


def test_a_request_that_takes_too_long_is_told_so_and_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    captioner = small_captioners()[0]
    with serving([captioner], limits=Limits(request_seconds=0.3)) as running:
        gate = Gate(captioner, monkeypatch)
        first = post_aside(running.url, PHOTOS[0])
        assert gate.reached.wait(10)
        second = post_aside(running.url, PHOTOS[1])
        for future in (first, second):
            problem = refused(future.result(), 504, "0.3 s")
            assert problem["limit"] == "request_seconds"
        assert waiting(running.url) == 0
        gate.open.set()
        assert WEB.post(f"{running.url}/v1/captions", files=form(RED)).status_code == 200
    assert gate.batches == [1, 1]  # the first, which was begun, and the last: nobody waited for the second


# Who is let in


def test_a_full_queue_says_when_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    captioner, decoded = small_captioners()[0], list[str | None]()

    def noted(upload: Upload, *arguments: Any, **options: Any) -> Photo:
        decoded.append(upload.name)
        return prepared(upload, *arguments, **options)

    monkeypatch.setattr(service, "prepared", noted)
    with serving([captioner], limits=Limits(waiting_photos=3)) as running:
        gate = Gate(captioner, monkeypatch)
        first = post_aside(running.url, PHOTOS[0])
        assert gate.reached.wait(10)
        second = post_aside(running.url, *PHOTOS[1:3])
        until(lambda: waiting(running.url) == 2)
        busy = WEB.post(f"{running.url}/v1/captions", files=form(*PHOTOS[3:5]))
        problem = refused(busy, 503)
        assert problem["limit"] == "waiting_photos" and problem["maximum"] == 3
        assert int(busy.headers["retry-after"]) >= 1
        assert len(decoded) == 3  # no time went into the photos that are refused
        third = post_aside(running.url, PHOTOS[3])  # for one there is room
        until(lambda: waiting(running.url) == 3)
        gate.open.set()
        assert [len(future.result().json()) for future in (first, second, third)] == [1, 2, 1]
        refused(WEB.post(f"{running.url}/v1/captions", files=form(*PHOTOS[:4])), 413, "at most 3")


def learn(queue: Queue, **seconds: float) -> None:
    """The pace of a slow machine: seconds by act, a photo's encoding and searches of two beams."""
    for act, paths, each in (("encode", 1, 0.5), ("search", 1, 0.1), ("search", 100, 2.0), ("score", 1, 0.05)):
        queue.pace.learn("small-soft", act, paths, each)


def test_the_estimate_knows_the_kind_of_work(captioner: Captioner, queue: Queue, gate: Gate) -> None:
    learn(queue)
    assert queue.pace.of(jobs(captioner, "a", beam_size=1)) == pytest.approx(0.6)
    assert queue.pace.of(jobs(captioner, "a", "b", beam_size=100)) == pytest.approx(5.0)
    assert queue.pace.of(jobs(captioner, "a", beam_size=34)) == pytest.approx(0.5 + 0.1 + 1.9 / 3)  # on a line
    assert queue.pace.of(jobs(captioner, "a", captions=["a"] * 20)) == pytest.approx(0.5 + 1.0)  # in proportion
    (job,) = jobs(captioner, "a", beam_size=100)
    twice = Job(captioner=captioner, photo=job.photo, generation=job.generation)
    assert queue.pace.of([job, twice]) == pytest.approx(4.5)  # encoded once

    queue.submit(jobs(captioner, "a"))
    with pytest.raises(Full) as full:  # 0.6 + 12.5 s, and half of the 20 s count
        queue.submit(jobs(captioner, *"bbbbb", beam_size=100))
    assert full.value.limit == "request_seconds" and full.value.seconds == pytest.approx(3.1, abs=0.1)
    queue.submit(jobs(captioner, *"bbbbb"))  # 3.6 s


def test_a_small_request_is_let_in_beside_a_large_one_which_it_must_not_make_late(
    captioner: Captioner, queue: Queue, gate: Gate
) -> None:
    learn(queue)
    queue.submit(jobs(captioner, *"aaa", beam_size=100))  # 7.5 of 10 s
    queue.submit(jobs(captioner, *"bbb"))  # 3 × 0.6 s more for both
    queue.submit(jobs(captioner, "c"))  # in time after 0.6 + 2.5 + 0.6 s; the first after 9.9 s
    with pytest.raises(Full):  # in time itself, but it would make the first late
        queue.submit(jobs(captioner, "d"))
    assert queue.waiting == 7


def test_a_request_that_is_late_anyway_keeps_nobody_out(captioner: Captioner, queue: Queue, gate: Gate) -> None:
    learn(queue)
    queue.submit(jobs(captioner, *"aaaaaaaaaaaa", beam_size=100))  # 30 s: let in, because nothing waited
    queue.submit(jobs(captioner, "b", beam_size=1))
    assert queue.waiting == 13


# Faults


def test_an_error_of_one_job_fails_that_job_only(captioner: Captioner, queue: Queue, gate: Gate) -> None:
    good, (bad,), scored = jobs(captioner, *"abc"), jobs(captioner, "bad"), jobs(captioner, "d", captions=("word3",))
    bad.photo.pixels[id(captioner.backend.encoder)].fill(float("nan"))
    for request in (good[:1], [bad], good[1:], scored):
        queue.submit(request)
    gate.open.set()
    with pytest.raises(SatError):
        bad.future.result(timeout=20)
    found = [job.future.result(timeout=20) for job in good]
    assert len(scored[0].future.result(timeout=20)) == 1
    assert gate.batches == [1, 4, 1, 1, 1, 1]  # together, and after the fault one by one
    assert gate.encoded == 6  # and no photo twice
    assert queue.alive
    for caption, scene in zip(found, SCENES[:3], strict=True):
        assert caption.words == captioner(shape_photo(*scene), beam_size=1).words
