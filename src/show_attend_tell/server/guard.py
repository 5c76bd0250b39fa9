"""What stands before every request: who may ask, and what a browser may do with the answers."""

import hmac
import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from show_attend_tell.server.limits import Problem

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address: localhost, 127.0.0.1 and their like."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Guard:
    """Lets requests pass to the app or refuses them, and puts the safety headers on every answer.

    With a ``token``, all under /v1/ must bring it. Without one the server is for this machine, and must be called by a
    name of this machine: a page elsewhere whose name has been pointed at 127.0.0.1 is refused (DNS rebinding). What a
    browser sends on behalf of another site is refused in any case.
    """

    def __init__(self, app: ASGIApp, *, token: str | None) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store" if scope["path"].startswith("/v1/") else "no-cache")
            await send(message)

        try:
            self.check(scope["path"], Headers(scope=scope))
        except Problem as problem:
            return await problem.answer()(scope, receive, guarded)
        await self.app(scope, receive, guarded)

    def check(self, path: str, headers: Headers) -> None:
        """Raise `Problem` for a request that may not pass."""
        host = headers.get("host", "")
        if self.token is None and not is_loopback(name(f"//{host}")):
            detail = "This server is for this machine alone: call it localhost or 127.0.0.1, or start it with a token."
            raise Problem(403, detail)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise Problem(403, "Another site's page may not ask this server.")
        if self.token is not None and path.startswith("/v1/"):
            given = headers.get("authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
                detail = "The token is missing or wrong: send the header `Authorization: Bearer TOKEN`."
                raise Problem(401, detail, headers={"WWW-Authenticate": "Bearer"})


def name(url: str) -> str:
    """The host's name in a URL, without its port; empty when there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # [ without ]
        return ""
