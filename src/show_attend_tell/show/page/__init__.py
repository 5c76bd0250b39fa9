"""One viewer, in three hosts: the page of a caption, the report of an evaluation, the web app.

The viewer itself is viewer.js and viewer.css; no framework, nothing fetched from a network. This module puts it and its
data into one HTML file.
"""

import base64
import hashlib
import html
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from string import Template
from typing import Any

from PIL import Image

from show_attend_tell.errors import SatError

HERE = Path(__file__).parent
LONGEST = 1000  # pixels of a photo's longer side in a page


def assets() -> dict[str, str]:
    """The viewer's stylesheet and script by file name, for a server to send."""
    return {name: (HERE / name).read_text(encoding="utf-8") for name in ("viewer.css", "viewer.js")}


def with_image(told: Mapping[str, Any], photo: Image.Image | None) -> dict[str, Any]:
    """A caption as the viewer takes it: what `Caption.to_dict` says of it, with its photo.

    ``image`` is a data: URI of a JPEG of at most 1,000 pixels a side, ``size`` the photo's own [width, height], in
    whose pixels ``seen`` is. Raises `SatError` for a caption without a photo.
    """
    if photo is None:
        raise SatError("this caption has no photo to show: caption a photo, not annotations")
    return {**told, "image": data_uri(photo, LONGEST), "size": list(photo.size)}


def page(captions: Sequence[Mapping[str, Any]], *, title: str, cards: Mapping[str, str] | None = None) -> str:
    """One HTML page that shows captions and holds everything it needs; captions of one image stand side by side.

    ``captions`` are those of `with_image`, and ``cards`` the Markdown of models' cards by model name. Of a photo's path
    the page keeps the name only.
    """
    images = list(dict.fromkeys(caption["image"] for caption in captions))  # each once, however many models spoke of it
    where = {image: number for number, image in enumerate(images)}
    told = [
        {
            **caption,
            "image": where[caption["image"]],
            "source": None if caption["source"] is None else PurePath(caption["source"]).name,
        }
        for caption in captions
    ]
    data = {"title": title, "images": images, "captions": told, "cards": dict(cards or {})}
    return document(title, data, script="page.js")


def frame(text: str) -> str:
    """A page inside another, as Jupyter shows it: an iframe that may run scripts and reach nothing around it."""
    return (
        f'<iframe srcdoc="{html.escape(text)}" sandbox="allow-scripts" title="Where the model looked" '
        'width="100%" height="560" style="border: 0"></iframe>'
    )


def document(title: str, data: Mapping[str, Any], *, script: str, style: str = "") -> str:
    """A page of the viewer, its data and a script of this folder that brings the two together.

    The page's own policy allows these very scripts and styles, images that the page holds, and nothing else. ``style``
    names a further stylesheet of this folder.
    """
    found = assets()
    scripts = found["viewer.js"] + (HERE / script).read_text(encoding="utf-8")
    styles = found["viewer.css"] + ((HERE / style).read_text(encoding="utf-8") if style else "")
    policy = (
        f"default-src 'none'; script-src {fingerprint(scripts)}; style-src {fingerprint(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(
        policy=policy,
        title=html.escape(title.encode("utf-8", "replace").decode()),  # a file's name may hold what UTF-8 cannot
        style=styles,
        # in ASCII, and without "<", nothing in it can end the element that holds it
        data=json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        script=scripts,
    )


def fingerprint(text: str) -> str:
    """What a content policy calls an inline script or style by: its SHA-256."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def data_uri(photo: Image.Image, longest: int, *, most: int | None = None) -> str:
    """A photo as a data: URI of a JPEG, its longer side at most ``longest`` pixels.

    With ``most``, of at most that many bytes: coarser, and then smaller, until it is.
    """
    small = photo.convert("RGB")
    small.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    for quality in (85, 70, 55):
        file = io.BytesIO()
        small.save(file, format="JPEG", quality=quality, optimize=True)
        if most is None or file.tell() <= most:
            return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
    return data_uri(small, max(1, longest * 3 // 4), most=most)
