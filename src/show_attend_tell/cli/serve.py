"""`sat serve`: the models over HTTP, and the web app."""

import contextlib
import logging
import socket
import sys
from typing import Any

import click

from show_attend_tell.checkpoint.hub import DEFAULT_MODEL, shipped_models
from show_attend_tell.cli.command import BaseCommand, loading_options, model_option
from show_attend_tell.errors import SatError

EXAMPLES = """
\b
Examples:
  sat serve                                        then open http://127.0.0.1:8000/
  sat serve --model my-model --port 8080
  SAT_TOKEN=secret sat serve --host 0.0.0.0        for other machines, with a token
"""


@click.command(cls=BaseCommand, epilog=EXAMPLES)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@model_option(
    default=None,
    several="Give it several times to serve several; the first answers by default. [default: the shipped models, "
    f"{DEFAULT_MODEL} first]",
)
@click.option(
    "--token",
    envvar="SAT_TOKEN",
    show_envvar=True,
    help="Secret that requests must send as Authorization: Bearer TOKEN. Other users of this machine may see "
    "options; the variable is safer.",
)
@click.option(
    "--proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Address or network of a proxy whose headers X-Forwarded-Proto, -Host and -Prefix count. It may be given "
    "several times.",
)
@loading_options
def serve(
    host: str, port: int, models: tuple[str, ...], token: str | None, proxies: tuple[str, ...], **loading: Any
) -> None:
    """Serve captions over HTTP, with a web app.

    Photos stay in memory and are not logged. It needs pip install -e '.[serve]', or 'show-attend-tell[serve]'.
    """
    from show_attend_tell.server import Server, make_app
    from show_attend_tell.server.guard import is_loopback, networks

    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token and token):
        raise SatError("the token must be printable ASCII, without spaces around it: give another")
    if token is None and not is_loopback(host):
        raise SatError(
            f"{host or 'the empty address'} can be reached from other machines, so others could use this one: set "
            "SAT_TOKEN to a secret, or keep --host 127.0.0.1"
        )
    networks(proxies)  # before the models are loaded
    from show_attend_tell.captioner import Captioner

    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it warns of every form that is damaged
    host = host.removeprefix("[").removesuffix("]")  # as an address stands in a URL
    with listening(host, port) as listener:  # first, because the models take seconds to load
        chosen = models or sorted(shipped_models(), key=lambda name: name != DEFAULT_MODEL)
        captioners = [Captioner.from_pretrained(name, **loading) for name in chosen]
        server = Server(make_app(captioners, token=token, proxies=proxies))
        name = f"[{host}]" if ":" in host else host
        click.echo(f"serving {', '.join(captioner.name for captioner in captioners)} at ", nl=False)
        click.echo(f"http://{name}:{listener.getsockname()[1]}/ (Ctrl-C stops)")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):  # which uvicorn raises again at its end
            server.run(sockets=[listener])
        click.echo("stopped")


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; raises `SatError` when it cannot."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:  # the latter for a name that no machine can have
        reason = getattr(error, "strerror", None) or error
        raise SatError(f"cannot listen at {host} port {port} ({reason}): choose another --port or --host") from None
