"""What stands before the app: who may ask, and how long a client may stall in its headers."""

import asyncio
import hmac
import ipaddress
import re
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

import h11
import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from show_attend_tell.errors import InvalidValue
from show_attend_tell.messages import shorten
from show_attend_tell.server.limits import Problem
from show_attend_tell.show.page import HEADERS

PORTS = {"http": 80, "https": 443}  # of an address that names none


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address: localhost, 127.0.0.1 and the like."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks(names: Collection[str]) -> list[Network]:
    """The addresses and networks of those names, such as 127.0.0.1 and 10.0.0.0/8. Raises `SatError` for another."""
    try:
        return [ipaddress.ip_network(name, strict=False) for name in names]
    except ValueError as error:
        raise InvalidValue(f"the proxy's {error}: give addresses such as 127.0.0.1 or 10.0.0.0/8") from None


def is_within(client: str, networks: Collection[Network]) -> bool:
    """Whether a client's address is in one of the networks; the client of a Unix socket has none."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return any(address in network for network in networks)


def authority(scheme: str, host: str) -> tuple[str, int] | None:
    """The name and port of a host as a browser compares them; None for what is no host."""
    try:
        address = urlsplit(f"//{host}")
        plain = address.hostname and address.netloc == host and "@" not in host
        return (address.hostname or "", address.port or PORTS[scheme]) if plain else None
    except (KeyError, ValueError):
        return None


class Guard:
    """The app behind a guard, which lets requests pass or refuses them, and puts the safety headers on every answer.

    With a ``token``, all requests under /v1/ must bring it. Without one the server must be called by a name of this
    machine: a page elsewhere whose name has been pointed at 127.0.0.1 is refused (DNS rebinding). A browser's request
    for another site's page is always refused. The headers X-Forwarded-Proto, -Host and -Prefix of the ``proxies``,
    addresses or networks, count.
    """

    def __init__(self, app: ASGIApp, *, token: str | None, proxies: Collection[str] = ()) -> None:
        self.app = app
        self.token = token
        self.proxies = networks(proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        asked = self.as_asked(scope)
        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store" if scope["path"].startswith("/v1/") else "no-cache")
            await send(message)

        try:
            self.check(scope, Headers(scope=asked))
            as_get = {**asked, "method": "GET"} if asked["method"] == "HEAD" else asked
            await self.app(as_get, receive, guarded)
        except Problem as problem:
            await problem.answer()(scope, receive, guarded)
        except asyncio.CancelledError:  # by `Server`, which waits only so long at its end
            if started:
                raise
            detail = "The server is stopping: send the request again when the server is back."
            await Problem(503, detail, headers={"Connection": "close"}).answer()(scope, receive, guarded)

    def as_asked(self, scope: Scope) -> Scope:
        """The request as a client sent it to one of the proxies; any other request stays as it is."""
        if not self.proxies or not is_within(scope["client"][0] if scope["client"] else "", self.proxies):
            return scope
        headers = MutableHeaders(raw=list(scope["headers"]))
        scheme, host, prefix = (  # the last of several is that of the proxy nearest to here
            headers.get(f"x-forwarded-{name}", "").rpartition(",")[2].strip() for name in ("proto", "host", "prefix")
        )
        if host:
            headers["host"] = host
        scheme = scheme.lower() if scheme.lower() in PORTS else scope["scheme"]
        whole = re.fullmatch(r"(/[\w.~-]+)+/?", prefix) and scope["path"].startswith("/")  # /v and 1/models are not
        root = prefix.rstrip("/") if whole else ""
        return {**scope, "scheme": scheme, "root_path": root, "path": root + scope["path"], "headers": headers.raw}

    def check(self, scope: Scope, headers: Headers) -> None:
        """Raise `Problem` for a request that may not pass; ``headers`` are those of the request `as_asked`."""
        called = Headers(scope=scope).get("host", "")
        host = headers.get("host", "")
        if self.token is None and not all(is_loopback(re.sub(r":\d*$", "", name)) for name in (called, host)):
            detail = "This server answers only this machine: use localhost or 127.0.0.1, or start it with a token."
            raise Problem(403, detail)
        origin = headers.get("origin")
        if origin is not None:
            scheme, _, site = origin.partition("://")
            if authority(scheme, site) is None or authority(scheme, site) != authority(scheme, host):
                detail = f"A page of another site may not use this server. The request called it {shorten(host)}: "
                raise Problem(403, f"{detail}a proxy in front of it must pass on the header Host.")
        if self.token is not None and scope["path"].startswith("/v1/"):
            kind, _, token = headers.get("authorization", "").partition(" ")
            right = hmac.compare_digest(token.strip().encode(), self.token.encode())
            if kind.lower() != "bearer" or not right:
                detail = "The token is missing or wrong: send the header `Authorization: Bearer TOKEN`."
                raise Problem(401, detail, headers={"WWW-Authenticate": "Bearer"})


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1 connection, which ends when a client stalls in its headers."""

    head_seconds = 10.0  # for a request's headers, from the first byte; for a new connection, from its opening
    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._head is not None:
            self._head.cancel()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_head()

    def _await_head(self) -> None:
        """Start the time for a request's headers when they are missing, and end it when they are there."""
        missing = self.conn.their_state is h11.IDLE and not self.transport.is_closing()
        if missing and self._head is None:
            self._head = self.loop.call_later(self.head_seconds, self.transport.close)
        elif not missing and self._head is not None:
            self._head.cancel()
            self._head = None

    def send_400_response(self, msg: str) -> None:
        """Close a connection that speaks no HTTP, without an answer."""
        self.transport.close()


class Server(uvicorn.Server):
    """uvicorn for a guarded app: at its end it waits ten seconds for requests, and always for the photo in work."""

    def __init__(self, app: Guard, **options: Any) -> None:
        options = {"http": Connection, "log_level": "error", **options}
        super().__init__(
            uvicorn.Config(
                app,
                ws="none",
                lifespan="on",
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=10,
                **options,
            )
        )
