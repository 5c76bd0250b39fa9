"""The queue before the models: who is next, who is let in, and whom a fault reaches."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest
from builders import shape_photo
from serving import (
    PHOTOS,
    RED,
    SCENES,
    WEB,
    Gate,
    form,
    held,
    post_aside,
    refused,
    serving,
    small_captioners,
    until,
    waiting,
)

from show_attend_tell.captioner import Captioner
from show_attend_tell.errors import SatError
from show_attend_tell.server.limits import Limits
from show_attend_tell.server.queue import Job, Photo, Queue, Task


@pytest.fixture
def captioner() -> Captioner:
    return small_captioners()[0]


def jobs(captioner: Captioner, *sources: str, beam_size: int = 1, captions: Any = None) -> list[Job]:
    """A job for each photo."""
    found = []
    for number, source in enumerate(sources):
        image = shape_photo(*SCENES[number % len(SCENES)])
        photo = Photo(
            source=source, size=image.size, pixels={"e": captioner.backend.encoder.preprocessing.pixels(image)}
        )
        config = captioner.checkpoint.generation.merge(beam_size=beam_size)
        found.append(Job(Task(captioner, "e", config, captions), photo))
    return found


def done(captioner: Captioner, requests: Callable[[], Sequence[list[Job]]]) -> tuple[Gate, list[Job]]:
    """Ask for requests one after the other while a first job is held, and go on; gives their jobs as they were done."""

    async def answered() -> tuple[Gate, list[Job]]:
        queue, gate = Queue(Limits(waiting_photos=60)), Gate(captioner)
        gate.hold()
        answers = [asyncio.create_task(queue.answer(jobs(captioner, "first")))]
        assert await asyncio.to_thread(gate.reached.wait, 60)
        order = []
        for request in requests():
            answers.append(asyncio.create_task(queue.answer(request)))
            for job in request:
                job.future.add_done_callback(lambda _, job=job: order.append(job))  # type: ignore[misc]
            await asyncio.sleep(0)
        gate.open.set()
        await asyncio.wait(answers, timeout=60)
        queue.stop()
        return gate, order

    return asyncio.run(answered())


# Turns


def test_requests_take_turns(captioner):
    scored = {"captions": ("word3",)}  # one at a time
    names = (["a1", "a2", "a3", "a4"], ["b1"], ["c1", "c2"])
    _, order = done(captioner, lambda: [jobs(captioner, *each, **scored) for each in names])
    assert [job.photo.source for job in order] == ["a1", "b1", "c1", "a2", "c2", "a3", "a4"]


def test_what_waits_is_searched_together_where_that_is_faster(captioner):
    def requests() -> list[list[Job]]:
        narrow, wide = jobs(captioner, *"abcdef", beam_size=2), jobs(captioner, *"abc", beam_size=1000)
        return [narrow[:2], wide, narrow[2:], jobs(captioner, *"ab", captions=("word3 word4",))]

    gate, _ = done(captioner, requests)
    wide = captioner.checkpoint.generation.merge(beam_size=1000)
    of_wide = [2, 1] if captioner.backend.batch_size(wide) == 2 else [1, 1, 1]
    assert gate.batches == [1, 6, *of_wide, 1, 1]  # the first, the narrow ones, the wide ones, and each scored one


def test_what_is_searched_together_is_answered_as_alone():
    captioner = small_captioners()[0]
    alone = [captioner(shape_photo(*scene)) for scene in SCENES]
    with held() as (running, gate, first):
        others = [post_aside(running, photo) for photo in PHOTOS[1:]]
        until(lambda: waiting(running) == 6)
        gate.open.set()
        answers = [future.result().json()[0] for future in [first, *others]]
    assert gate.batches == [1, 6]
    for answer, caption in zip(answers, alone, strict=True):
        assert answer["words"] == caption.words
        assert answer["log_probability"] == pytest.approx(caption.log_probability, abs=1e-4)


def test_a_photo_is_encoded_once_for_models_of_one_encoder():
    captioners = small_captioners()
    gates = [Gate(captioner) for captioner in captioners]
    with serving(captioners) as running:
        before = sum(gate.encoded for gate in gates)
        answers = running.ask(*PHOTOS[:3], model=["small-soft", "small-hard"]).json()
    assert sum(gate.encoded for gate in gates) == before + 3
    assert [answer["source"] for answer in answers] == [f"photo{number}.png" for number in (0, 0, 1, 1, 2, 2)]


# Who leaves


def test_photos_of_a_client_that_has_gone_leave_the_queue():
    with held() as (running, gate, first):
        for _ in range(3):
            with pytest.raises(httpx.ReadTimeout):  # whose client then closes the connection
                WEB.post(f"{running.url}/v1/captions", files=form(*[RED] * 8), timeout=httpx.Timeout(20, read=0.5))
        until(lambda: waiting(running) == 0)
        last = post_aside(running, RED)
        until(lambda: waiting(running) == 1)
        gate.open.set()
        assert [len(future.result().json()) for future in (first, last)] == [1, 1]
    assert gate.encoded == 2


def test_a_request_that_takes_too_long_is_told_so_and_not_done():
    with held(limits=Limits(request_seconds=0.9)) as (running, gate, first):
        second = post_aside(running, PHOTOS[1])
        for future in (first, second):
            problem = refused(future.result(), 504, "0.9 s")
            assert problem["limit"] == "request_seconds"
        assert waiting(running) == 0
        gate.open.set()
        assert running.ask(RED).is_success
    assert gate.batches == [1, 1]  # the first, which was begun, and the last: nobody waited for the second


def test_a_full_queue_says_when_to_come_back():
    with held(limits=Limits(waiting_photos=4)) as (running, gate, first):
        second = post_aside(running, *PHOTOS[1:3])
        until(lambda: waiting(running) == 2)
        no_photos = [b"not decoded"] * 2  # else they would be refused as no photos
        busy = running.ask(*no_photos)
        problem = refused(busy, 503)
        assert problem["limit"] == "waiting_photos" and problem["maximum"] == 4
        assert int(busy.headers["retry-after"]) >= 1
        third = post_aside(running, PHOTOS[3])  # for one there is room
        until(lambda: waiting(running) == 3)
        gate.open.set()
        assert [len(future.result().json()) for future in (first, second, third)] == [1, 2, 1]
        refused(running.ask(*PHOTOS[:5]), 413, "at most 4")
        assert running.ask(*PHOTOS[:4]).is_success  # room again


def test_an_error_of_one_job_fails_that_job_only(captioner):
    def requests() -> list[list[Job]]:
        good, (bad,) = jobs(captioner, *"abc"), jobs(captioner, "bad")
        bad.photo.pixels["e"].fill(float("nan"))
        return [good[:1], [bad], good[1:], jobs(captioner, "d", captions=("word3",))]

    gate, order = done(captioner, requests)
    of = {job.photo.source: job for job in order}
    with pytest.raises(SatError):
        of["bad"].future.result()
    assert len(of["d"].future.result()) == 1
    assert gate.batches == [1, 4, 1, 1, 1, 1, 1]  # together, and after the fault one by one
    assert gate.encoded == 6  # and no photo twice
    for name, number in (("a", 0), ("b", 1), ("c", 2)):
        assert of[name].future.result().words == captioner(shape_photo(*SCENES[number]), beam_size=1).words
