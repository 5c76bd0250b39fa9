"""The Space answers everybody and may be shown by the hub, but is not used by the pages of other sites."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from documents import ROOT, module_of, needs_models
from serving import RED, WEB, Serving, form, serving, small_captioners, until

APP = ROOT / "examples" / "space" / "app.py"
HOST = "owner-space.hf.space"


@pytest.fixture(scope="module")
def space() -> Iterator[Serving]:
    with serving(small_captioners(), make=module_of(APP).public_app) as server:
        yield server


def test_it_captions_for_its_own_page_under_any_name(space):
    for origin in ({}, {"origin": f"https://{HOST}"}):
        answer = WEB.post(f"{space.url}/v1/captions", files=form(RED), headers={"host": HOST, **origin})
        assert answer.status_code == 200 and answer.json()[0]["caption"]


@pytest.mark.parametrize("origin", ["https://elsewhere.example", f"https://{HOST}.elsewhere.example", "null"])
def test_pages_of_other_sites_are_refused(origin, space):
    headers = {"host": HOST, "origin": origin}
    assert WEB.post(f"{space.url}/v1/captions", files=form(RED), headers=headers).status_code == 403


def test_the_hub_may_show_it_and_nobody_else(space):
    page = WEB.get(space.url, headers={"host": HOST})
    assert page.status_code == 200 and "<title>" in page.text
    assert page.headers["content-security-policy"].endswith("frame-ancestors https://huggingface.co")


@needs_models
@pytest.mark.acceptance
def test_the_program_serves_the_shipped_models():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "PORT": str(port)}
    with subprocess.Popen([sys.executable, str(APP)], env=environment, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert "everyday-soft" in program.stdout.readline()
            url = f"http://127.0.0.1:{port}"

            def answers() -> bool:
                try:
                    return WEB.get(f"{url}/healthz", headers={"host": HOST}).status_code == 200
                except httpx.TransportError:
                    return False

            until(answers)
            photo = Path(ROOT / "examples" / "coffee.jpg").read_bytes()
            answer = WEB.post(f"{url}/v1/captions", files=form(photo), headers={"host": HOST})
            assert "table" in answer.json()[0]["caption"]
        finally:
            program.terminate()
