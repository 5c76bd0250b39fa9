"""A server of small models, and a client of it, that the tests of a file share."""

from collections.abc import Iterator

import httpx
import pytest
from serving import Serving, client, serving, small_captioners

from show_attend_tell.captioner import Captioner


@pytest.fixture(scope="module")
def captioners() -> list[Captioner]:
    return small_captioners()


@pytest.fixture(scope="module")
def server(captioners: list[Captioner]) -> Iterator[Serving]:
    with serving(captioners) as running:
        yield running


@pytest.fixture(scope="module")
def web(server: Serving) -> Iterator[httpx.Client]:
    with client(base_url=server.url) as found:
        yield found
