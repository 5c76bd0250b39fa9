"""The help of every command, and options made from classes of settings."""

import dataclasses
import subprocess
import sys
from importlib import metadata
from typing import Any, ClassVar, Literal

import click
import pytest
from click.testing import CliRunner
from commands import sat
from pydantic import Field

import show_attend_tell
from show_attend_tell.batch.work import BatchConfig
from show_attend_tell.cli import main
from show_attend_tell.cli.command import BaseCommand, Commands
from show_attend_tell.cli.options import options_from
from show_attend_tell.model.config import DecoderConfig
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.settings import descriptions, settings
from show_attend_tell.show.pictures.style import Style


def options_of(command: click.Command) -> list[click.Option]:
    return [each for each in command.get_params(click.Context(command)) if isinstance(each, click.Option)]


each_command = pytest.mark.parametrize(("name", "command"), main.commands.items(), ids=str)


@each_command
def test_help_has_examples_whose_options_exist(name, command):
    text = sat(name, "--help").stdout
    assert text == sat(name, "-h").stdout
    known = {option for each in options_of(command) for option in each.opts}
    examples = [line.strip() for line in text.splitlines() if line.strip().startswith(f"sat {name} ")]
    assert examples
    for example in examples:
        assert {word for word in example.split("  ")[0].split() if word.startswith("--")} <= known, example


@each_command
def test_every_option_is_explained(name, command):
    for option in options_of(command):
        assert option.help and option.help[0].isupper(), option.opts


def test_the_help_shows_each_command_in_one_line():
    lines = [line.strip() for line in sat("--help").stdout.splitlines()]
    for name in main.commands:
        (line,) = (line for line in lines if line.startswith(f"{name} "))
        assert not line.endswith("...")


def test_version_is_that_of_the_package():
    assert sat("--version").stdout.split()[-1] == show_attend_tell.__version__
    try:
        assert metadata.version("show-attend-tell") == show_attend_tell.__version__
    except metadata.PackageNotFoundError:
        pytest.skip("the package is not installed")


@settings
class Cake:
    layers: int = Field(2, description="number of layers; 1 is a flat cake")
    icing: Literal["sugar", "cream"] = Field("sugar", description="what is on top")
    share: float | None = Field(None, description="part that is eaten")


class Baking(BaseCommand):
    sections: ClassVar[dict[str, str]] = {"Size": "layers"}


@click.command(cls=Baking)
@click.option("--plate", help="Plate.")
@options_from(f"{__name__}:Cake", "layers", into="cake", rest="--more", default="the baker's")
def bake(plate: str | None, cake: dict[str, Any]) -> None:
    click.echo(repr(cake))


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ([], {}),
        (["--layers", "3"], {"layers": 3}),
        (["--more", "icing=cream", "--more", "share=0.5", "--more", "layers=1"], None),
        (["--more", "share=none"], {"share": None}),
        (["--layers", "many"], "sat: layers is 'many': give a whole number"),
        (["--more", "icing=mud"], "sat: icing is 'mud': choose one of sugar, cream"),
        (["--more", "candles=3"], "'candles=3': give KEY=VALUE with one of the keys layers, icing, share"),
        (["--more", "icing"], "'icing': give KEY=VALUE"),
    ],
    ids=str,
)
def test_options_fill_a_class_of_settings(arguments, given):
    result = CliRunner().invoke(Commands(commands=[bake]), ["bake", *arguments])
    if isinstance(given, str):
        assert result.exit_code != 0 and given in result.output
    else:
        assert eval(result.stdout) == ({"icing": "cream", "share": 0.5, "layers": 1} if given is None else given)


def test_options_of_settings_are_explained_by_the_descriptions_of_the_fields():
    size, others, keys = CliRunner().invoke(bake, ["--help"]).stdout.split("\n\n")[1:4]
    assert size.split() == "Size: --layers INTEGER Number of layers; 1 is a flat cake. [default: the baker's]".split()
    assert others.startswith("Options:\n  --plate") and "--more KEY=VALUE" in others
    assert keys.split() == "Keys of --more: icing=sugar|cream what is on top share=NUMBER part that is eaten".split()


@pytest.mark.parametrize("cls", [BatchConfig, DecoderConfig, GenerationConfig, Style])
def test_each_setting_has_its_description_which_is_its_help(cls):
    assert {field.name for field in dataclasses.fields(cls)} <= descriptions(cls).keys()


def test_the_help_loads_no_large_package():
    code = "import sys; from show_attend_tell.cli import main; main(['--help'], standalone_mode=False); "
    loaded = "print(*sys.modules.keys() & {'numpy', 'pydantic', 'PIL', 'fsspec', 'torch', 'onnxruntime'})"
    done = subprocess.run([sys.executable, "-c", code + loaded], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""
