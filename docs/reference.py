"""The pages of docs/reference/ that are made from the code: the commands, the HTTP interface, settings and Python.

    python docs/reference.py          # write them anew
    python docs/reference.py --check  # say which are stale; `make test` does this

A page says where a part goes: between a line `<!-- generated NAME, by docs/reference.py -->` and a line
`<!-- end of generated -->`. What stands around it is written by hand.
"""

import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click

import show_attend_tell
from show_attend_tell import settings
from show_attend_tell.cli import main as sat
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.training.config import TrainingConfig

FOLDER = Path(__file__).parent / "reference"
BLOCK = re.compile(r"(<!-- generated ([a-z ]+), by docs/reference\.py -->\n).*?(<!-- end of generated -->)", re.DOTALL)
WIDTH = 96  # columns of a command's help
COLUMNS = 100  # of a line of prose

CAPTIONS = {
    "Captioner": [
        *("__call__", "from_pretrained", "stream", "hide"),
        *("explain", "score", "resolve_config", "torch_backend"),
    ],
    "Caption": [],
    "hide.trial.Hidden": [],
    "hide.trial.hide_place": [],
    "GenerationConfig": ["merge"],
}
TRAINING: dict[str, list[str]] = {
    "train": [],
    "training.plan.plan_for": [],
    "training.config.TrainingPlan": [],
    "data.datasets.read_dataset": [],
    "data.datasets.join": [],
    "training.config.Start": [],
    "training.start.load_start": [],
    "vision.encoder.load_encoder": [],
    "training.presets.preset": [],
    "training.config.changed": [],
}
SCORES: dict[str, list[str]] = {"evaluate": [], "register_decoder": []}
ERRORS: dict[str, list[str]] = {"SatError": [], "PhotoError": []}


# Commands


def commands() -> str:
    """The help of each command, under its name."""

    def sections(name: str, command: click.Command, level: int) -> Iterator[str]:
        context = click.Context(command, info_name=name, max_content_width=WIDTH, terminal_width=WIDTH)
        yield f"{'#' * level} `{name}`\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
        if isinstance(command, click.Group):
            for word in command.list_commands(context):
                member = command.get_command(context, word)
                if member is not None and not member.hidden:
                    yield from sections(f"{name} {word}", member, min(level + 1, 3))

    return "\n".join(sections("sat", sat, 2))


# HTTP


def http() -> str:
    """What can be asked over HTTP, from the API's own description."""
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.server.app import make_app

    guard = make_app([Captioner.from_pretrained("everyday-soft", backend="onnx")])
    document: dict[str, Any] = guard.app.openapi()  # type: ignore[attr-defined]
    schemas = document["components"]["schemas"]
    sections = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            sections.append(f"## {method.upper()} `{path}`\n\n{operation_text(operation, schemas)}")
    for name, schema in sorted(schemas.items()):
        if "properties" in schema and not name.endswith("Form"):
            sections.append(
                "\n\n".join([f"## `{name}`", prose(schema.get("description", "")), fields(schema, schemas)])
            )
    return "\n\n".join(sections) + "\n"


def operation_text(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """What one operation of the API does, takes and answers."""
    paragraphs = [prose(operation.get("description") or operation.get("summary", ""))]
    for media_type, body in operation.get("requestBody", {}).get("content", {}).items():
        paragraphs += [f"Fields of the form (`{media_type}`):", fields(body["schema"], schemas)]
    answers = [
        f"| {status} | {one_line(answer['description'])} |" for status, answer in sorted(operation["responses"].items())
    ]
    return "\n\n".join([*paragraphs, "\n".join(["| status | answer |", "| --- | --- |", *answers])])


def fields(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """A table of the fields of an object of the API."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    rows = ["| field | type | what |", "| --- | --- | --- |"]
    for name, field in schema.get("properties", {}).items():
        rows.append(f"| `{name}` | {kind(field)} | {one_line(field.get('description', ''))} |")
    return "\n".join(rows)


def kind(field: Mapping[str, Any]) -> str:
    """What a field of the API may be, in words."""
    if "$ref" in field:
        return f"`{field['$ref'].rpartition('/')[2]}`"
    if "anyOf" in field:
        return " or ".join(kind(choice) for choice in field["anyOf"])
    if "enum" in field:
        return " or ".join(f"`{choice}`" for choice in field["enum"])
    if field.get("type") == "array":
        return f"list of {kind(field.get('items', {}))}"
    return str(field.get("format") if field.get("format") == "binary" else field.get("type", "any"))


# Settings


def generation_settings() -> str:
    """The settings by which captions are made."""
    return settings_of(GenerationConfig)


def training_settings() -> str:
    """The settings of a training, and those of its groups."""
    sections = ["## Training\n", settings_of(TrainingConfig)]
    for field in dataclasses.fields(TrainingConfig):
        if field.default_factory is not dataclasses.MISSING:
            cls = type(field.default_factory())
            summary = first_sentence(cls)
            sections += [f"## `{field.name}.…`\n", f"{summary}\n", settings_of(cls)]
    return "\n".join(sections)


def settings_of(cls: type) -> str:
    """A table of the settings of a data class: the default and the description of each field."""
    texts = described(cls)
    rows = ["| setting | default | what |", "| --- | --- | --- |"]
    for field in dataclasses.fields(cls):
        if field.default_factory is not dataclasses.MISSING:
            continue  # a group of settings, with a table of its own
        default = "" if field.default is dataclasses.MISSING else f"`{field.default}`"
        rows.append(f"| `{field.name}` | {default} | {one_line(texts.get(field.name, ''))} |")
    return "\n".join(rows) + "\n"


def described(cls: type) -> dict[str, str]:
    """What each field of a data class is, by its name: its description, or the comment behind it."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            texts |= comments(base)
            descriptions: Callable[[type], Mapping[str, str]] | None = getattr(settings, "descriptions", None)
            texts |= descriptions(base) if descriptions else {}
    return texts


def comments(cls: type) -> dict[str, str]:
    """What the comment behind each field of a data class says, on one line or several, by the field's name."""
    pairs = re.findall(r"^    (\w+): .*?  # (.+(?:\n    # .+)*)$", inspect.getsource(cls), re.MULTILINE)
    return {name: comment.replace("\n    # ", " ") for name, comment in pairs}


# Python


def python(names: Mapping[str, list[str]]) -> str:
    """Classes, functions and exceptions of the package, by their paths, each with those of its members."""
    return "\n".join(section for path, members in names.items() for section in documented(path, members))


def documented(path: str, members: list[str]) -> Iterator[str]:
    """The sections of one name and of its members."""
    module, _, name = f"show_attend_tell.{path}".rpartition(".")
    thing = getattr(import_module(module), name)
    whole = f"{module}.{name}"
    if not inspect.isclass(thing):
        yield f"### `{name}`\n\n```py\n{signature(thing, whole)}\n```\n\n{docstring(thing)}\n"
        return
    yield f"### `{name}`\n\n`{whole}`\n\n{docstring(thing)}\n"
    if dataclasses.is_dataclass(thing):
        yield f"{fields_of(thing)}\n"
    for member in members or public_members(thing):
        attribute = inspect.getattr_static(thing, member)
        if isinstance(attribute, property):
            yield f"#### `{name}.{member}`\n\n{docstring(attribute)}\n"
        else:
            method = getattr(thing, member)
            title = f"{name}.{member}".removesuffix(".__call__")
            yield f"#### `{title}(…)`\n\n```py\n{signature(method, title)}\n```\n\n{docstring(method)}\n"


def public_members(cls: type) -> list[str]:
    """Methods and properties that a class itself defines, without those that begin with an underscore."""
    return [
        name
        for name, value in vars(cls).items()
        if not name.startswith("_") and (isinstance(value, (property, classmethod)) or inspect.isfunction(value))
    ]


def signature(function: Callable[..., Any], name: str) -> str:
    """How a function is called, a parameter a line where they do not fit one line."""
    whole = inspect.signature(function)
    lines = []
    for key, parameter in whole.parameters.items():
        named = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if named and "*" not in lines and not any(line.startswith("*") for line in lines):
            lines.append("*")
        if key not in ("self", "cls"):
            lines.append(short(str(parameter)))
    result = "" if whole.return_annotation is inspect.Signature.empty else f" -> {annotation(whole.return_annotation)}"
    text = f"{name}({', '.join(lines)}){result}"
    return text if len(text) <= COLUMNS else "\n".join([f"{name}(", *(f"    {line}," for line in lines), f"){result}"])


def annotation(hint: Any) -> str:
    """A type as it is written, without the modules of its names."""
    return short(hint if isinstance(hint, str) else inspect.formatannotation(hint))


def short(text: str) -> str:
    """Types in a text without the modules of their names, and without quotes or what only checks values."""
    text = re.sub(r"\b(?:show_attend_tell|typing|collections|pathlib|numpy)\.(?:[a-z_]\w*\.)*", "", text)
    text = re.sub(r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(\w+)\]\]", r"NDArray[\1]", text)
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    text = re.sub(r"Annotated\[([^\[\]]+(?:\[[^\[\]]*\])?), [^\]]*\]", r"\1", text)
    return re.sub(r"<(?:class|function) '?(?:\w+\.)*(\w+)[^>]*>", r"\1", text).replace("'", '"')


def docstring(thing: Any) -> str:
    """A docstring in Markdown: names in single backticks, and examples as code. Exits where there is none."""
    text = inspect.getdoc(thing)
    if not text:
        sys.exit(f"reference: {thing!r} has no docstring")
    blocks = re.split(r"\n\n+", text.replace("``", "`").replace("  # doctest: +SKIP", ""))
    return "\n\n".join(f"```py\n{block}\n```" if block.startswith(">>>") else prose(block) for block in blocks)


def prose(block: str) -> str:
    """A paragraph in lines of Markdown; lists, tables and indented code stay as they are."""
    if re.search(r"^(\s{4}|- |\| )", block, re.MULTILINE):
        return block
    return textwrap.fill(" ".join(block.split()), COLUMNS, break_long_words=False, break_on_hyphens=False)


def fields_of(cls: type) -> str:
    """A table of the fields of a data class, those that it inherits included. Exits for one that is not described."""
    texts = described(cls)
    hints = get_type_hints(cls, include_extras=True)
    rows = ["| field | type | default | what |", "| --- | --- | --- | --- |"]
    for field in dataclasses.fields(cls):
        if field.name.startswith("_"):
            continue
        if not texts.get(field.name):
            sys.exit(f"reference: {cls.__name__}.{field.name} is not described")
        default = f"`{field.default!r}`" if field.default is not dataclasses.MISSING else "needed"
        if field.default_factory is not dataclasses.MISSING:
            default = f"`{getattr(field.default_factory, '__name__', 'made')}()`"
        rows.append(
            f"| `{field.name}` | {type_text(hints[field.name], field)} | {default} | {one_line(texts[field.name])} |"
        )
    return "\n".join(rows)


def type_text(hint: Any, field: "dataclasses.Field[Any]") -> str:
    """The type of a field: in words where its values are checked, else as it is written."""
    choices = [choice for choice in get_args(hint) if choice is not type(None)]
    optional = len(choices) == 1 and type(None) in get_args(hint)
    checked = choices[0] if optional else hint
    if hasattr(checked, "__metadata__"):
        words = re.sub(r"^(give an? |give |choose one of )", "", settings.remedy(checked))
        return one_line(f"{words} or None" if optional else words)
    return f"`{one_line(annotation(field.type))}`"


def first_sentence(cls: type) -> str:
    """The first line of a class's docstring."""
    return (inspect.getdoc(cls) or "").replace("``", "`").splitlines()[0]


def one_line(text: str) -> str:
    """A text for a cell of a table."""
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


# Pages

GENERATED: dict[str, Callable[[], str]] = {
    "commands": commands,
    "http": http,
    "generation settings": generation_settings,
    "training settings": training_settings,
    "captions": lambda: python(CAPTIONS),
    "training": lambda: python(TRAINING),
    "scores": lambda: python(SCORES),
    "errors": lambda: python(ERRORS),
}


def renewed(page: str) -> str:
    """A page with its generated parts made anew. Exits for a part that there is not."""

    def part(block: re.Match[str]) -> str:
        if block[2] not in GENERATED:
            sys.exit(f"reference: there is no part {block[2]!r}: choose one of {', '.join(GENERATED)}")
        return f"{block[1]}\n{GENERATED[block[2]]().strip()}\n\n{block[3]}"

    return BLOCK.sub(part, page)


def stale() -> dict[Path, str]:
    """The pages that are not what the code gives, with what they should be."""
    left_out = [
        name
        for name in show_attend_tell.__all__
        if not any(name in part for part in (CAPTIONS, TRAINING, SCORES, ERRORS))
    ]
    if left_out:
        sys.exit(f"reference: docs/reference.py leaves out the public names {', '.join(left_out)}")
    texts = {page: page.read_text(encoding="utf-8") for page in sorted(FOLDER.glob("*.md"))}
    made = {page: renewed(text) for page, text in texts.items()}
    return {page: made[page] for page, text in texts.items() if made[page] != text}


def main() -> None:
    """Write the pages, or check them."""
    pages = stale()
    if "--check" in sys.argv:
        if pages:
            names = ", ".join(page.name for page in pages)
            sys.exit(f"reference: {names} are not what the code gives: python docs/reference.py")
        return
    for page, text in pages.items():
        page.write_text(text, encoding="utf-8")
        print(f"wrote {page}")


if __name__ == "__main__":
    main()
