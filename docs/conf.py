"""The site of the documentation, built by `make docs` with Sphinx, MyST (Markdown) and Furo.

The source folder is the whole project, so that the links of README, docs and notes are the same files on the site.

Sphinx, because it is released several times a year; MkDocs has had no release since 2024. Warnings are errors: a broken
link, and a picture that a built page does not find. The pages of the reference are made by docs/reference.py.

SITE in the environment is the address of the published site, for pages that are shared; without it the address in
pyproject.toml counts, if there is one.
"""

import html
import math
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

import show_attend_tell

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "research"))
import release as addresses  # noqa: E402  (it is a file of research/)

project = "show-attend-tell"
author = "the authors of show-attend-tell"
version = release = show_attend_tell.__version__
extensions = ["myst_nb"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "examples/*", "research/**", "src/**/README.md", "web/README.md"]
exclude_patterns = [".*", "build", "demo", "runs", "tests", "web/node_modules", "**/__pycache__"]
html_theme = "furo"
html_use_index = False
html_copy_source = False
html_title = project
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("front.js", {"defer": "defer"})]
html_baseurl = f"{home}/" if (home := os.environ.get("SITE") or addresses.site()) else ""
html_favicon = "../src/show_attend_tell/server/page/icon.svg"
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
nb_execution_mode = "off"  # `make lesson` runs the notebook; its output is kept in it
nb_merge_streams = True
nb_code_prompt_show = "Show the {type}"
nb_code_prompt_hide = "Hide the {type}"
html_math_renderer = "mathml"  # browsers draw it themselves: the site asks no other host for a script
suppress_warnings = ["misc.highlighting_failure"]

DESCRIPTION = "Captions photos, and shows which part of the photo supports each word."
SHARED = "docs/images/page.jpg"  # the picture that is shown where a page is shared
UNLISTED = ("research/", "src/")  # in no list and in no search: notes, kept evaluations, cards
FRONT = re.compile("<!-- front.*<!-- end of front -->", re.DOTALL)  # where the first page has a finished example
PHOTO = "motorcycle.jpg"  # of examples/: one of the twelve that a rule chose, judged right, without a doubted word
LINK = re.compile(r'\b(src|srcset|href)="([^"#?]+)')
log = logging.getLogger(__name__)


# The lists of pages


def contents(index: str) -> str:
    """The table of contents that Sphinx needs, from the lists of links of the first page."""
    trees = []
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        pages = re.findall(r"^- \[(.+?)\]\((.+?)\)", text, re.MULTILINE)
        entries = [f"{title} <{re.sub(r'[.](md|ipynb)$', '', page)}>" for title, page in pages]
        options = [f":caption: {heading}", ":maxdepth: 1", ":hidden:", ""]
        trees.append("\n".join(["```{toctree}", *options, *entries, "```\n"]))
    return "\n".join([index, *trees])


def prepare(app: Sphinx, page: str, source: list[str]) -> None:
    """Give the first page its example and its lists, and keep the notes of research out of lists and search."""
    if page == root_doc:
        front = re.sub(r"\n\s*", "\n", (ROOT / "docs" / "front.html").read_text(encoding="utf-8")).strip()
        source[0] = contents(FRONT.sub(lambda _: front, source[0]))
    elif page.startswith(UNLISTED) and not source[0].startswith("{"):
        listed = "" if page == "research/README" else "orphan: true\n"
        body = re.sub(r"\A---\n.*?\n---\n", "", source[0], flags=re.DOTALL)  # what the hub reads of a card
        source[0] = f"---\n{listed}nosearch: true\n---\n{body}"


# What pages say where they are shared


def describe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Title, description and picture of a page for search engines, and for messages that have a link to it."""
    if doctree is None:
        return
    title = html.unescape(re.sub("<.*?>", "", context.get("title", project)))
    paragraphs = (node.astext() for node in doctree.findall(nodes.paragraph) if not any(node.findall(nodes.image)))
    text = DESCRIPTION if page == root_doc else next(filter(None, paragraphs), DESCRIPTION)
    text = " ".join(text.split())
    text = text if len(text) <= 160 else f"{text[:157].rsplit(' ', 1)[0]} …"
    metatags = {
        "og:type": "website",
        "og:site_name": project,
        "og:title": f"{project}: {title[0].lower()}{title[1:]}" if page == root_doc else title,
        "og:description": text,
        "og:image": f"{html_baseurl}_static/shared.jpg" if html_baseurl else context["pathto"]("_static/shared.jpg", 1),
        "og:image:alt": "A photo with its caption; what supported the chosen word is bright",
    }
    if html_baseurl:
        metatags["og:url"] = context["pageurl"]
    lines = [f'<meta property="{name}" content="{html.escape(value)}">' for name, value in metatags.items()]
    lines += [f'<meta name="description" content="{html.escape(text)}">']
    lines += ['<meta name="twitter:card" content="summary_large_image">']
    context["metatags"] = "\n".join([context.get("metatags", ""), *lines])


# Pictures


def arrange(app: Sphinx, doctree: nodes.document) -> None:
    """Make cards of the first page's first list; let pictures in raw HTML, such as README's, be found.

    Sphinx copies only the pictures that are not in raw HTML.
    """
    page = Path(app.env.docname)
    if app.env.docname == root_doc:
        next(doctree.findall(nodes.bullet_list))["classes"].append("cards")
    up = "../" * len(page.parent.parts)
    for node in doctree.findall(nodes.raw):
        for name in set(re.findall(r'\b(?:src|srcset)="([^":#?]+)"', node.astext())):
            file = (ROOT / page.parent / name).resolve()
            if file.is_file():
                copy = Path("_pictures", file.relative_to(ROOT))
                (app.outdir / copy).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, app.outdir / copy)
                text = node.rawsource or node.astext()
                node.children = [nodes.Text(text.replace(f'"{name}"', f'"{up}{copy.as_posix()}"'))]
                node.rawsource = node.children[0].astext()


def missing(folder: Path) -> list[str]:
    """Each picture, script and frame that a built page names and that is not there."""
    broken = []
    for page in sorted(folder.rglob("*.html")):
        for attribute, address in LINK.findall(page.read_text(encoding="utf-8")):
            here = attribute != "href" and not re.match(r"[a-z]+:|//", address)
            if here and not (page.parent / html.unescape(address)).exists():
                broken.append(f"{page.relative_to(folder)}: {address}")
    return broken


def finish(app: Sphinx, error: Exception | None) -> None:
    """Write the example, the shared picture and the page at the site's root, then look for what is missing."""
    if error is not None or app.builder.name != "html":
        return
    from show_attend_tell import Captioner

    folder = Path(app.outdir)
    captioner = Captioner.from_pretrained("everyday-soft", backend="onnx")
    caption = captioner(ROOT / "examples" / PHOTO, evidence=True)
    judged = [number for number, confidence in enumerate(caption.word_confidence) if not math.isnan(confidence)]
    hidden = [captioner.hide(caption, number) for number in judged]
    shown = replace(caption, hidden=[answer.to_dict() for answer in hidden])
    shown.save(folder / "_static" / "example.html")
    shutil.copyfile(ROOT / SHARED, folder / "_static" / "shared.jpg")
    first = (folder / "docs" / "index.html").read_text(encoding="utf-8")
    metatags = re.findall(r'<meta (?:property="og:|name="description).*?>', first)
    lines = [
        "<!doctype html>",
        '<html lang="en">',
        '<meta charset="utf-8">',
        f"<title>{project}</title>",
        *metatags,
        '<meta http-equiv="refresh" content="0; url=docs/index.html">',
        f'<a href="docs/index.html">{project}</a>',
    ]
    (folder / "index.html").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for broken in missing(folder):
        log.warning("%s is not there", broken)


def draw_math(translator: Any, node: nodes.Element) -> None:
    """Write an equation as MathML."""
    display = "inline" if isinstance(node, nodes.math) else "block"
    translator.body.append(convert(node.astext(), display=display) + "\n" * (display == "block"))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.add_html_math_renderer("mathml", (draw_math, None), (draw_math, None))
    app.connect("source-read", prepare)
    app.connect("doctree-read", arrange)
    app.connect("html-page-context", describe)
    app.connect("build-finished", finish)
