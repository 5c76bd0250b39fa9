"""The site of the documentation, built by `make docs` with Sphinx, MyST (Markdown) and Furo.

The source folder is the whole project, so that the links of README, docs and notes are the same files on the site.

Sphinx, because it is released several times a year and links Python's docstrings; MkDocs has had no release since 2024.
Warnings are errors: a broken link, a public name that the reference leaves out, a public name without a docstring.

A line `<!-- generated: NAME -->` of a page is replaced by what a function of `GENERATED` makes from the code.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import click
from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

import show_attend_tell
from show_attend_tell import settings
from show_attend_tell.cli import main
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.settings import descriptions
from show_attend_tell.training.config import TrainingConfig

project = "show-attend-tell"
author = "the authors of show-attend-tell"
version = release = show_attend_tell.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "examples/*", "research/**", "src/**/README.md", "web/README.md"]
exclude_patterns = [".*", "build", "demo", "runs", "tests", "web/node_modules", "**/__pycache__"]
html_theme = "furo"
html_title = f"{project} {version}"
html_show_copyright = False
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
nb_execution_mode = "off"  # `make lesson` runs the notebook; its output is kept in it
html_math_renderer = "mathml"  # browsers draw it themselves: the site asks no other host for a script
default_role = "code"  # docstrings have `names` between single backticks
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
suppress_warnings = ["misc.highlighting_failure"]

log = logging.getLogger(__name__)


def commands() -> str:
    """The help of each command, under its name."""

    def each(name: str, command: click.Command, level: int) -> Iterator[str]:
        context = click.Context(command, info_name=name, max_content_width=96)
        yield f"{'#' * level} `{name}`\n\n```text\n{command.get_help(context)}\n```\n"
        if isinstance(command, click.Group):
            for part in command.list_commands(context):
                found = command.get_command(context, part)
                if found is not None and not found.hidden:
                    yield from each(f"{name} {part}", found, min(level + 1, 3))

    return "\n".join(each("sat", main, 2))


def paths() -> str:
    """What can be asked over HTTP, from the API's own description."""
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.server.app import make_app

    guard = make_app([Captioner.from_pretrained("everyday-soft", backend="onnx")])
    document: dict[str, Any] = guard.app.openapi()  # type: ignore[attr-defined]
    schemas = document["components"]["schemas"]
    lines: list[str] = []
    for path, methods in document["paths"].items():
        for method, what in methods.items():
            lines += [f"## {method.upper()} `{path}`", "", what.get("description") or what.get("summary", ""), ""]
            content = what.get("requestBody", {}).get("content", {})
            for kind, body in content.items():
                lines += [f"Fields of the form (`{kind}`):", "", *fields(body["schema"], schemas), ""]
            lines += ["| status | answer |", "| --- | --- |"]
            for status, answer in sorted(what["responses"].items()):
                lines.append(f"| {status} | {one_line(answer['description'])} |")
            lines.append("")
    for name, schema in sorted(schemas.items()):
        if "properties" in schema and not name.endswith("Form"):
            lines += [f"## `{name}`", "", schema.get("description", ""), "", *fields(schema, schemas), ""]
    return "\n".join(lines)


def fields(schema: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    """A table of an object's fields."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    rows = ["| field | type | what |", "| --- | --- | --- |"]
    for name, field in schema.get("properties", {}).items():
        rows.append(f"| `{name}` | {kind(field)} | {one_line(field.get('description', ''))} |")
    return rows


def kind(field: dict[str, Any]) -> str:
    """What a field of the API may be, in words."""
    if "$ref" in field:
        return f"`{field['$ref'].rpartition('/')[2]}`"
    if "anyOf" in field:
        return " or ".join(kind(each) for each in field["anyOf"])
    if "enum" in field:
        return " or ".join(f"`{each}`" for each in field["enum"])
    if field.get("type") == "array":
        return f"list of {kind(field.get('items', {}))}"
    return str(field.get("format") if field.get("format") == "binary" else field.get("type", "any"))


def one_line(text: str) -> str:
    """A text for a cell of a table."""
    return " ".join(text.replace("|", "\\|").split())


def settings_of(cls: type) -> str:
    """A table of the settings of a data class: the default and the description of each field."""
    said = descriptions(cls)
    rows = ["| setting | default | what |", "| --- | --- | --- |"]
    for field in dataclasses.fields(cls):
        default = field.default if field.default is not dataclasses.MISSING else None
        if default is None and field.default_factory is not dataclasses.MISSING:
            continue  # a group of settings, with a table of its own
        rows.append(f"| `{field.name}` | {default} | {one_line(said.get(field.name, ''))} |")
    return "\n".join(rows) + "\n"


def training_settings() -> str:
    """The settings of a training, and those of its parts."""
    made = ["## Training\n", settings_of(TrainingConfig)]
    for field in dataclasses.fields(TrainingConfig):
        if field.default_factory is not dataclasses.MISSING:
            cls = type(field.default_factory())
            made += [f"## `{field.name}.…`: {inspect.getdoc(cls).splitlines()[0]}\n", settings_of(cls)]  # type: ignore[union-attr]
    return "\n".join(made)


GENERATED: dict[str, Callable[[], str]] = {
    "commands": commands,
    "generation settings": lambda: settings_of(GenerationConfig),
    "http": paths,
    "training settings": training_settings,
}


def contents(index: str) -> str:
    """The table of contents that Sphinx needs, from the lists of links of the first page."""
    made = []
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        pages = re.findall(r"^- \[(.+?)\]\((.+?)\)", text, re.MULTILINE)
        entries = [f"{title} <{re.sub(r'[.](md|ipynb)$', '', page)}>" for title, page in pages]
        options = [f":caption: {heading}", ":maxdepth: 1", ":hidden:", ":glob:", ""]
        made.append("\n".join(["```{toctree}", *options, *entries, "```\n"]))
    return "\n".join([index, *made]).removesuffix("```\n") + "../src/**\n```\n"


def generate(app: Sphinx, page: str, source: list[str]) -> None:
    """Put what is generated into a page; check that the page of the Python reference has all public names."""
    if page == "docs/index":
        source[0] = contents(source[0])
    source[0] = re.sub(r"<!-- generated: (.+) -->", lambda found: GENERATED[found[1]](), source[0])
    if page == "docs/reference/python":
        for name in show_attend_tell.__all__:
            if not re.search(rf":: show_attend_tell\.{name}$", source[0], re.MULTILINE):
                log.warning("docs/reference/python.md leaves out the public name %s", name)


def check_docstring(app: Sphinx, what: str, name: str, found: object, options: object, lines: list[str]) -> None:
    """Warn of a public name without a docstring; put the fields of a data class under it, as a table."""
    if not "".join(lines).strip():
        log.warning("%s %s has no docstring", what, name)
    if isinstance(found, type) and dataclasses.is_dataclass(found):
        lines += ["", ".. list-table::", "   :header-rows: 1", ""]
        for row in (("field", "type", "default", "what"), *fields_of(found)):
            lines += [f"   {'*' if cell is row[0] else ' '} - {cell}" for cell in row]
        lines.append("")


def comments(cls: type) -> dict[str, str]:
    """What the comment behind each field of a plain data class says, on one line or several, by the field's name."""
    pairs = re.findall(r"^    (\w+): .*?  # (.+(?:\n    # .+)*)$", inspect.getsource(cls), re.MULTILINE)
    return {name: comment.replace("\n    # ", " ") for name, comment in pairs}


def fields_of(cls: type) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, default and comment of each field of a data class, those that it inherits included."""
    bases = [base for base in reversed(cls.__mro__) if dataclasses.is_dataclass(base)]
    said = {name: comment for base in bases for name, comment in comments(base).items()} | descriptions(cls)
    written = {
        name: text
        for base in bases
        for name, text in re.findall(r"^    (\w+): (.+?)(?: = .*| *)(?:  #.*)?$", inspect.getsource(base), re.MULTILINE)
    }
    hints = get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        if field.name.startswith("_"):
            continue
        if not said.get(field.name):
            log.warning("%s.%s is not described", cls.__name__, field.name)
        kind = re.sub(r" \| None$", "", written[field.name])
        checked = kind in vars(settings) or kind.startswith("Annotated")
        kind = re.sub(r"^(give an? |give |choose one of )", "", settings.remedy(hints[field.name]))
        default = f"`{field.default!r}`" if field.default is not dataclasses.MISSING else ""
        if field.default_factory is not dataclasses.MISSING:
            default = f"`{field.default_factory.__name__}()`"  # type: ignore[attr-defined]
        yield (
            f"`{field.name}`",
            kind if checked else f"`{written[field.name]}`",
            default or "needed",
            said.get(field.name, ""),
        )


def shorten(app: Sphinx, what: str, name: str, found: object, *of: object) -> tuple[str, None] | None:
    """No signature of a data class: its fields are listed."""
    return ("(…)", None) if dataclasses.is_dataclass(found) else None


def draw_math(translator: Any, node: nodes.Element) -> None:
    """Write an equation as MathML."""
    display = "inline" if isinstance(node, nodes.math) else "block"
    translator.body.append(convert(node.astext(), display=display) + "\n" * (display == "block"))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.add_html_math_renderer("mathml", (draw_math, None), (draw_math, None))
    app.connect("source-read", generate)
    app.connect("autodoc-process-docstring", check_docstring)
    app.connect("autodoc-process-signature", shorten)
