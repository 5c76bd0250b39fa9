"""Fixtures that several test files share."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import small_load_encoder
from static import CHROMIUM

import show_attend_tell.backends.torch as torch_backend
import show_attend_tell.vision.encoder as encoder_module
from show_attend_tell.model.registry import plugins


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What happens in a browser is tested by `make acceptance`."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("acceptance")


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> None:
    """Ctrl-C is heard, also where the shell that started the tests in the background ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", autouse=True)
def no_plugins_of_other_files() -> Iterator[None]:
    """Plugins that a file's tests import are not those of the commands and workers of the next file."""
    before = [*plugins]
    yield
    plugins[:] = before


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Weights are not synced, which is a third of a test's time."""
    patch = pytest.MonkeyPatch()
    patch.setattr(os, "fsync", lambda handle: None)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium, driven by Playwright; a test is skipped where one of them is missing."""
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium to drive here")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        playwright.expect.set_options(timeout=60_000)  # on a busy machine too
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page in a window of its own, with options of Playwright's.

    At the end no script may have failed, and nothing may have broken the content policy.
    """
    contexts, failures = [], []

    def opened(url: str, **options: Any) -> Any:
        context = browser.new_context(**options)
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("console", lambda message: "Content Security" in message.text and failures.append(message.text))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not failures


@pytest.fixture
def float64() -> Iterator[None]:
    """Everything in float64: the tensors that are made here, and so all that is computed from them."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """METEOR, which takes seconds, is left out: no program is on the path."""
    monkeypatch.setenv("PATH", "")


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_java: None) -> None:
    """The small encoder instead of VGG-19, the cache in the test's own folder, no GPU, no seconds of METEOR."""
    monkeypatch.setattr(encoder_module, "load_encoder", small_load_encoder)
    monkeypatch.setattr(torch_backend, "load_encoder", small_load_encoder)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("SAT_CACHE", str(tmp_path / "cache"))
