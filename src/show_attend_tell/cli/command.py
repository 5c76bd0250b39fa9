"""What the commands share: one-line messages about mistakes, help, options, and files written whole."""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import click

from show_attend_tell import threads
from show_attend_tell.checkpoint.hub import DEFAULT_MODEL
from show_attend_tell.cli.options import F, PairsOption
from show_attend_tell.errors import SatError
from show_attend_tell.files import check_writable, write_text
from show_attend_tell.messages import install_command


class BaseCommand(click.Command):
    """A command whose help has ``sections``, each with the names of its options."""

    sections: ClassVar[Mapping[str, str]] = {}

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        parameters: list[click.Parameter] = []
        for parameter in self.params:  # options of settings, which are made now, stand where they were given
            parameters += [parameter] if isinstance(parameter, click.Parameter) else parameter()
        self.params = parameters
        return super().get_params(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = {option.opts[-1]: option for option in self.get_params(ctx) if isinstance(option, click.Option)}
        keys = {f"Keys of {name}": option.keys for name, option in options.items() if isinstance(option, PairsOption)}
        sections: dict[str, Any] = {
            title: [options.pop(f"--{name}").get_help_record(ctx) for name in names.split()]
            for title, names in self.sections.items()
        }
        sections["Options"] = [option.get_help_record(ctx) for option in options.values()]
        for title, lines in [*sections.items(), *keys.items()]:
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "" in args:
            why = "perhaps from a shell variable that is not set: give a value, or leave it out"
            raise click.UsageError(f"an argument is empty, {why}", ctx)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if meant := self._option_for(ctx, error.option_name):
                raise click.UsageError(f"there is no {error.option_name}: did you mean {meant}?", ctx) from None
            raise

    def _option_for(self, ctx: click.Context, name: str) -> str:
        """The option for a setting that was given as ``--name``, by its name here or in `transformers`; or nothing."""
        from show_attend_tell.settings import TRANSFORMERS_NAMES

        key = name.removeprefix("--").replace("-", "_")
        key = TRANSFORMERS_NAMES.get(key, key)
        for option in self.get_params(ctx):
            if f"--{key.replace('_', '-')}" in option.opts:
                return option.opts[0]
            if isinstance(option, PairsOption) and any(pair.startswith(f"{key}=") for pair, _ in option.keys):
                return f"{option.opts[0]} {key}=VALUE"
        return ""


MOVED = {  # where the work of earlier commands is done now
    "analyze": "measurements of attention are programs of a checkout now (research/README.md): for example python "
    "research/ablation.py DATA MODEL",
    "caption-batch": "sat caption takes the same photos and --output; --beam-size 3 is --generation beam_size=3 there, "
    "likewise other settings of the search, and --rows is left out",
    "import-arctic": "models of the paper's authors are imported by a program of a checkout now: python "
    "research/import_arctic.py",
    "tune": "the search for settings is a program to copy now: examples/tune.py in a checkout",
}


class Commands(click.Group):
    """A group that reports a mistake in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which they were added

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        from show_attend_tell.data.photos import SUFFIXES

        name = args[0]
        if name in MOVED:
            raise SatError(f"sat {name} is gone: {MOVED[name]}")
        if name not in self.commands and (Path(name).suffix.lower() in SUFFIXES or Path(name).exists()):
            raise click.UsageError(f"there is no command {name}: did you mean sat caption {name}?", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx is not None else "sat"
            fail(f"{error.format_message()} (see {command} --help)", error.exit_code)
        except SatError as error:
            fail(str(error), 1)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            fail(f"sat {ctx.invoked_subcommand} needs PyTorch: {install_command('torch')}", 1)
        except BrokenPipeError:
            raise  # `sat … | head`, which click sees to
        except OSError as error:  # a full disk, a folder that may not be written
            what = error.filename or "a file or standard output"
            fail(f"{what} cannot be read or written ({error.strerror or error}): fix that, or name another place", 1)
        except KeyboardInterrupt:
            fail("interrupted", 130)

    def main(self, *arguments: Any, **options: Any) -> Any:
        threads.prepare_process()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # names of files may be no text
        return super().main(*arguments, **options)


@contextmanager
def log_printed(*, notes: bool = False) -> Iterator[None]:
    """Print what the package logs, from level INFO on, on standard output; or as ``notes`` on standard error."""
    logger = logging.getLogger("show_attend_tell")
    handler = logging.StreamHandler(sys.stderr if notes else sys.stdout)
    handler.setFormatter(logging.Formatter("note: %(message)s" if notes else None))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def fail(message: str, code: int) -> NoReturn:
    click.echo(f"sat: {printable(' '.join(message.split()))}", err=True)
    sys.exit(code)


def complain(text: str) -> None:
    """Say what went wrong with one photo."""
    click.echo(f"sat: {printable(text)}", err=True)


def note(text: str) -> None:
    """Say what is worth knowing, and no mistake."""
    click.echo(f"note: {printable(text)}", err=True)


def printable(text: str) -> str:
    """A text in which signs that command a terminal or change the direction of text are spelled out."""
    return "".join(sign if sign.isprintable() or sign in SEEN else repr(sign)[1:-1] for sign in text)


SEEN = "\u200c\u200d\ufffd"  # not printable to Python, but they belong to words; and the sign for what is not text


def options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """One decorator that adds several options, in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


SEED = click.IntRange(0, 2**32 - 1)  # as `settings.Seed`
PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


def json_option(content: str) -> Callable[[F], F]:
    """``--json FILE``, where ``content`` says what the file holds."""
    return click.option(
        "--json", "json_file", metavar="FILE", help=f"File for {content} as JSON; - is standard output."
    )


def _import_plugins(ctx: click.Context, parameter: click.Parameter, plugins: tuple[str, ...]) -> None:
    from show_attend_tell.model.registry import import_plugin

    for plugin in plugins:
        import_plugin(plugin)


plugin_option = click.option(
    "--plugin",
    multiple=True,
    metavar="MODULE",
    expose_value=False,
    is_eager=True,  # before the settings whose values it registers
    callback=_import_plugins,
    help="Module that registers a decoder, an encoder, a filter and the like: its name, its .py file or its folder. It "
    "may be given several times.",
)


def model_option(*, default: str | None = DEFAULT_MODEL, several: str = "") -> Callable[[F], F]:
    """``--model``. With ``several``, a sentence for its help, it may be repeated, and its name is ``models``."""
    option = click.option(
        "--model",
        "models" if several else "model",
        default=[default] if default and several else default,
        show_default=default is not None,
        multiple=bool(several),
        help="Model: the name of a shipped model, a folder (./NAME if a shipped model has its name) or a hub id."
        + (f" {several}" if several else ""),
    )
    return options(option, plugin_option)


device_option = click.option(
    "--device", default="auto", show_default=True, help="Device to compute on: auto, cpu, cuda, cuda:1 or mps."
)
weights_option = click.option(
    "--encoder-weights",
    metavar="FILE",
    help="Weights of the encoder, for vgg19 and efficientnet-lite2-1280: a safetensors file with the names of "
    "the shipped one. [default: the shipped weights]",
)
loading_options = options(
    weights_option,
    click.option(
        "--backend",
        type=click.Choice(["auto", "torch", "onnx"]),
        default="auto",
        show_default=True,
        help="Back end: torch, or onnx (ONNX Runtime), which starts sooner; auto is the faster one.",
    ),
    device_option,
)
PAPERS_ENCODER = "vgg19"
encoder_options = options(
    plugin_option,
    click.option(
        "--encoder",
        help="Encoder: vgg19, efficientnet-lite2-1280, or a vision model of Hugging Face transformers. "
        f"[default: that of the model to start from; without one, efficientnet-lite2-1280 for custom data, otherwise "
        f"{PAPERS_ENCODER}]",
    ),
    weights_option,
    click.option(
        "--resize",
        type=click.Choice(["crop", "squash", "squash-256"]),
        help="Shape of the encoder's square: crop (shortest side, then the center), squash (the whole photo) or "
        "squash-256 (by way of 256 × 256, so that the size of a photo matters less). "
        "[default: crop, or that of the model to start from]",
    ),
)


def check_targets(*targets: str | None, read: Iterable[str | os.PathLike[str] | None] = ()) -> None:
    """Raise `SatError` for an output file that cannot be written, is named twice, or is read by the command."""
    inputs = [Path(path).resolve() for path in read if path is not None]
    files = [Path(target) for target in targets if target and target != "-"]
    for file in files:
        check_writable(file)
        if file.is_file() and any(file.resolve().is_relative_to(path) for path in inputs):
            raise SatError(f"{file} is read by this command, and would be overwritten: name another file")
    if len({file.resolve() for file in files}) < len(files):
        raise SatError(f"{files[0]} is named for two outputs: give each a file of its own")


def write_output(target: str | None, text: str) -> bool:
    """Write a text to the file that an option names, if any; returns true for "-", standard output."""
    text = text.encode("utf-8", "backslashreplace").decode()  # a file's name may hold bytes that are not UTF-8
    if target == "-":
        click.echo(text, nl=False)
    elif target:
        write_text(Path(target), text)
    return target == "-"
