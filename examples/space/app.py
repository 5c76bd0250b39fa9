"""The web app of show-attend-tell as a public Space of the Hugging Face Hub, of the kind "docker".

    python app.py            # serves at port 7860, where a Space is asked

`sat serve` answers its own machine, or whoever has its token. A Space stands behind the hub's proxy and is meant for
everybody: so `Public` lets every host's requests pass, still refuses those of other sites' pages, and lets the hub show
the app in its own page. Sizes, numbers and waiting requests stay limited (`server.limits`).
"""

import os
import socket
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from show_attend_tell import Captioner
from show_attend_tell.server import Server, make_app
from show_attend_tell.server.guard import Guard

MODELS = ("everyday-soft", "everyday-hard")
PORT = 7860
HUB = "https://huggingface.co"


class Public(Guard):
    """A guarded app for everybody: requests are passed on as if this machine had sent them.

    A browser names the page that a request comes from, its origin. It passes only if that page is this app's own.
    """

    def __init__(self, guarded: Guard) -> None:
        super().__init__(guarded, token=None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        host = Headers(scope=scope).get("host", "")
        headers = MutableHeaders(raw=list(scope["headers"]))
        headers["host"] = "localhost"
        if urlsplit(headers.get("origin", "")).netloc == host:
            del headers["origin"]

        async def shown_by_the_hub(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered = MutableHeaders(scope=message)
                policy = answered.get("content-security-policy", "")
                answered["content-security-policy"] = policy.replace("frame-ancestors 'none'", f"frame-ancestors {HUB}")
            await send(message)

        await self.app({**scope, "headers": headers.raw}, receive, shown_by_the_hub)


def public_app(captioners: list[Captioner]) -> Public:
    """The app of these models, for everybody."""
    return Public(make_app(captioners))


def main() -> None:
    """Serve the models until the Space stops."""
    captioners = [Captioner.from_pretrained(name, backend="onnx") for name in MODELS]
    port = int(os.environ.get("PORT", PORT))
    with socket.create_server(("0.0.0.0", port), backlog=128) as listener:
        print(f"serving {', '.join(MODELS)} at port {port}", flush=True)
        Server(public_app(captioners)).run(sockets=[listener])


if __name__ == "__main__":
    main()
