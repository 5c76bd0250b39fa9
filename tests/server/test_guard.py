"""What stands before the app: who may ask, the headers of every answer, and clients that stall."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from serving import (
    PHOTOS,
    RED,
    WEB,
    Serving,
    assert_safe,
    held,
    post_aside,
    refused,
    serving,
    small_captioners,
    until,
    waiting,
)

from show_attend_tell.errors import SatError
from show_attend_tell.server.guard import Connection, networks

# Who may ask


def test_without_a_token_only_this_machine_is_answered(server):
    for host in ("localhost:1", "127.0.0.1", "[::1]:8000"):
        assert WEB.get(f"{server.url}/healthz", headers={"host": host}).status_code == 200
    for host in ("example.org", "example.org:8000", "127.0.0.1.example.org", "[", "192.168.1.5"):
        refused(WEB.get(f"{server.url}/", headers={"host": host}), 403, "this machine")
    foreign = server.ask(RED, headers={"origin": "https://example.org"})
    refused(foreign, 403, "another site", f"127.0.0.1:{server.port}", "must pass on the header Host")
    for origin in ("null", "http://[", "http://]", "://", "", f"{server.url}.example.org"):
        refused(server.ask(RED, headers={"origin": origin}), 403, "another site")
    assert server.ask(RED, headers={"origin": server.url}).is_success


def test_with_a_token_every_question_must_bring_it():
    with serving(small_captioners(), token="se cret") as running:
        for kind in ("bearer", "BEARER", "Bearer "):
            assert WEB.get(f"{running.url}/v1/models", headers={"authorization": f"{kind} se cret"}).status_code == 200
        for wrong in ("", "Bearer wrong", "se cret", "ö"):
            sent = {"authorization": wrong.encode()}
            response = running.ask(RED, headers=sent)
            refused(response, 401, "Bearer TOKEN")
            assert response.headers["www-authenticate"] == "Bearer"
            refused(WEB.get(f"{running.url}/v1/models", headers=sent), 401)
        right = {"authorization": "Bearer se cret", "host": "photos.example.org"}
        assert running.ask(RED, headers=right).is_success
        for path in ("/", "/healthz", "/static/app.js"):  # hold nothing of anybody's
            assert WEB.get(running.url + path).status_code == 200


HERE = "photos.example.org"


@pytest.mark.parametrize(
    ("host", "origin", "forwarded", "status"),
    [
        (HERE, f"https://{HERE}", {}, 200),
        (f"{HERE}:443", f"https://{HERE}", {}, 200),  # the port of the scheme
        (HERE, f"https://{HERE}:443", {}, 200),
        (HERE.upper(), f"https://{HERE}", {}, 200),
        ("[2001:DB8::1]", "https://[2001:db8::1]:443", {}, 200),
        (f"{HERE}:8443", f"https://{HERE}", {}, 403),
        (HERE, f"ftp://{HERE}", {}, 403),
        (HERE, f"https://{HERE}/", {}, 403),
        (HERE, "null", {}, 403),
        ("127.0.0.1:8000", f"https://{HERE}", {}, 403),  # a proxy that does not pass the host on
        ("127.0.0.1:8000", f"https://{HERE}", {"host": HERE, "proto": "https"}, 200),  # but says it
        ("127.0.0.1:8000", f"https://{HERE}", {"host": f"other.example, {HERE}:443"}, 200),  # the last is the nearest's
        ("127.0.0.1:8000", f"https://{HERE}", {"host": f"{HERE}, other.example"}, 403),
    ],
)
def test_an_origin_is_compared_as_browsers_do(host, origin, forwarded, status, proxied, named):
    headers = {"host": host, "origin": origin, "authorization": "Bearer t"}
    headers |= {f"x-forwarded-{name}": value for name, value in forwarded.items()}
    assert WEB.get(f"{named.url}/v1/models", headers=headers).status_code == status
    expected = 403 if forwarded else status  # said by an address that the operator has not named, it does not count
    assert WEB.get(f"{proxied.url}/v1/models", headers=headers).status_code == expected


def test_what_a_named_proxy_says_is_in_the_document_alone(proxied, named):
    said = {"x-forwarded-host": HERE, "x-forwarded-proto": "HTTPS", "x-forwarded-prefix": "/captions/"}
    for server, address in ((named, f"https://{HERE}/captions"), (proxied, proxied.url)):
        document = WEB.get(f"{server.url}/openapi.json", headers=said).json()
        assert f" {address}/v1/captions\n" in document["info"]["description"]
        for prefix in ("/v1", "/captions", "//evil", 'x"y'):  # none of which leads past the token
            headers = {**said, "x-forwarded-prefix": prefix}
            assert WEB.get(f"{server.url}/v1/models", headers=headers).status_code == 401
            assert WEB.get(f"{server.url}/static/app.js", headers=headers).status_code == 200
            right = {**headers, "authorization": "Bearer t"}
            assert WEB.get(f"{server.url}/v1/models", headers=right).status_code == 200
    split = b"GET 1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-Prefix: /v\r\n\r\n"
    refused(response(answer_to(named, split)), 404)  # nor does a prefix that the path would complete
    with serving(small_captioners(), proxies=["127.0.0.0/8"]) as open_one:  # without a token, it is for this machine
        refused(WEB.get(f"{open_one.url}/", headers=said), 403, "this machine")
        refused(WEB.get(f"{open_one.url}/", headers={"host": HERE, "x-forwarded-host": "localhost"}), 403)
    with pytest.raises(SatError, match="such as 127"):
        networks(["the proxy"])


@pytest.fixture(scope="module")
def proxied() -> Iterator[Serving]:
    """A server that trusts no proxy."""
    with serving(small_captioners(), token="t") as running:
        yield running


@pytest.fixture(scope="module")
def named() -> Iterator[Serving]:
    """A server that trusts the proxies of this machine."""
    with serving(small_captioners(), token="t", proxies=["::1", "127.0.0.1"]) as running:
        yield running


# The headers of every answer


def connected(server: Serving) -> Any:
    """A connection to a server, which is closed when the context is left."""
    return closing(socket.create_connection(("127.0.0.1", server.port), timeout=20))


def received(connection: socket.socket) -> bytes:
    """All that a server sends until it closes the connection."""
    answer = b""
    while data := connection.recv(65536):
        answer += data
    return answer


def answer_to(server: Serving, sent: bytes) -> bytes:
    """What a server answers to these bytes until it closes the connection."""
    with connected(server) as connection:
        connection.sendall(sent)
        return received(connection)


def response(answer: bytes) -> httpx.Response:
    """An answer as it came through a socket."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = [tuple(line.split(": ", 1)) for line in lines]
    return httpx.Response(int(status.split()[1]), headers=headers, content=body)


def test_every_answer_carries_the_safety_headers(server):
    captions = f"{server.url}/v1/captions"
    assert_safe(server.ask(RED).raise_for_status())
    refused(WEB.get(f"{server.url}/nowhere"), 404)
    refused(WEB.put(captions), 405)
    refused(server.ask(*[RED] * 17), 413)
    refused(WEB.post(captions, content=b"", headers={"content-type": "text/plain"}), 415)
    refused(server.ask(b""), 422)
    refused(WEB.get(f"{server.url}/", headers={"host": "example.org"}), 403)
    assert_safe(WEB.get(f"{server.url}/docs/", headers={"host": "localhost"}))  # sent on to /docs
    assert answer_to(server, b"GET\r\n\r\n") == b""  # which is not HTTP


def test_the_answers_to_faults_carry_them():
    with held() as (running, gate, first):
        gate.open.set()
        first.result()
        gate.error = RuntimeError("out of memory")
        fault = running.ask(RED)
        refused(fault, 500, "RuntimeError")
        assert fault.headers["connection"] == "close"  # as uvicorn will: else the next request meets a closed door
        gate.error = None
        assert running.ask(RED).is_success


# Clients that stall


HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: "
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = (
    b"POST /v1/captions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n"
    b"Content-Type: multipart/form-data; boundary=a\r\n\r\n--a\r\n"
)


class Impatient(Connection):
    """Connections with less time."""

    head_seconds = 0.2


@pytest.fixture(scope="module")
def impatient() -> Iterator[Serving]:
    with serving(small_captioners(), connection=Impatient) as running:
        yield running


def test_half_sent_headers_time_out(impatient):
    assert answer_to(impatient, HALF) == b""
    with connected(impatient) as connection:
        connection.sendall(WHOLE)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(HALF)
        assert b"HTTP" not in received(connection)
    assert answer_to(impatient, b"") == b""  # nothing came, and nothing is said


def test_a_stalled_body_does_not_hold_up_the_end():
    with serving(small_captioners()) as running, connected(running) as connection:
        connection.sendall(BODY)
        running.server.config.timeout_graceful_shutdown = 0.2
        until(lambda: len(running.server.server_state.tasks) == 1)
        running.server.should_exit = True
        refused(response(received(connection)), 503, "stopping")


def test_shutting_down_finishes_what_is_in_flight():
    with held() as (running, gate, first):
        futures = [first, *(post_aside(running, photo) for photo in PHOTOS[1:3])]
        until(lambda: len(running.server.server_state.tasks) == 3)
        running.server.should_exit = True
        threading.Event().wait(0.3)
        assert not any(future.done() for future in futures)
        gate.open.set()
        assert [future.result().status_code for future in futures] == [200, 200, 200]


def test_what_takes_too_long_at_the_end_is_told_so():
    with held() as (running, gate, first):
        running.server.config.timeout_graceful_shutdown = 0.2
        futures = [first, post_aside(running, PHOTOS[1])]
        until(lambda: waiting(running) == 1)
        running.server.should_exit = True
        for future in futures:
            refused(future.result(), 503, "stopping")
        gate.open.set()
    assert gate.encoded == 1  # nobody waited for the other
