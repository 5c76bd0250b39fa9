"""Pages of captions with the evidence and the attention of each word: of a few photos, of many, or of an evaluation.

- `captions.js` draws the captions of a photo; the web app uses it too.
- `hide.js` draws what came out when a place of a photo was hidden; the web app uses it too.
- `page.js` makes the page around them: an index to search and to sort, or the report of an evaluation.
- `page.css` is the stylesheet of all.

A page holds everything that it needs. This module puts the scripts, the stylesheet and the captions into one file.
"""

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from string import Template
from typing import Any

import numpy as np
from PIL import Image

from show_attend_tell.errors import SatError
from show_attend_tell.messages import plural, quoted
from show_attend_tell.show.pictures.vector import embedded

HERE = Path(__file__).parent
SCRIPTS = ("captions.js", "hide.js", "page.js")
FEW = 10  # photos that a page shows in full
HEADERS = {  # of what the servers of pages answer
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def read(name: str) -> str:
    """A script or a stylesheet of this folder."""
    return (HERE / name).read_text(encoding="utf-8")


def longest(photos: int) -> int:
    """How many pixels the longer side of a photo may have on a page of so many photos."""
    return 1000 if photos <= FEW else 400


def with_image(caption: Mapping[str, Any], photo: Image.Image | None, *, side: int = longest(1)) -> dict[str, Any]:
    """A caption as `captions_page` takes it: `Caption.to_dict` with the photo, of at most ``side`` pixels a side."""
    if photo is None:
        raise SatError("this caption has no photo to show: caption a photo, not annotations")
    where = f"the caption {caption['caption']!r}"
    words = len(caption["words"])
    return {
        **caption,
        **{name: packed(where, caption.get(name), words, name) for name in ("attention", "evidence")},
        "image": data_uri(photo, side),
        "size": caption.get("size") or list(photo.size),
    }


def captions_page(
    captions: Sequence[Mapping[str, Any]],
    *,
    title: str,
    cards: Mapping[str, str] | None = None,
    failed: Iterable[tuple[str, str]] = (),
) -> str:
    """A page of captions, those of `with_image`, in one HTML file; captions of one photo stand side by side.

    ``cards`` are texts of the models' cards by name, ``failed`` paths of photos without a caption, with the reasons. Up
    to `FEW` photos are shown in full; more become an index. Of a photo's path the page keeps the name only.
    """
    photos: dict[tuple[str, str | None], dict[str, Any]] = {}
    for caption in captions:
        key = caption["image"], caption["source"]
        if key not in photos:
            name = f"photo {len(photos) + 1}" if caption["source"] is None else PurePath(caption["source"]).name
            photos[key] = {"name": name, "image": caption["image"], "size": caption["size"], "captions": []}
        kept = {name: value for name, value in caption.items() if name not in ("image", "size", "source")}
        photos[key]["captions"].append(kept)
    reasons = [[PurePath(path).name, reason] for path, reason in failed]
    return document(title, list(photos.values()), cards=cards, failed=reasons)


def frame(text: str) -> str:
    """A page inside another, as Jupyter shows it: an iframe that may run scripts and reach nothing around it."""
    return (
        f'<iframe srcdoc="{html.escape(text)}" sandbox="allow-scripts" title="Evidence of each word" '
        'width="100%" height="560" style="border: 0"></iframe>'
    )


def document(
    title: str,
    photos: Sequence[Mapping[str, Any]],
    *,
    cards: Mapping[str, str] | None = None,
    report: Mapping[str, Any] | None = None,
    failed: Sequence[Sequence[str]] = (),
) -> str:
    """The page of photos or the report of an evaluation, whose policy allows nothing from outside (see page.js)."""
    script = "".join(map(read, SCRIPTS))
    style = read("page.css")
    data = {
        "title": title,
        "photos": photos,
        "full": report is None and len(photos) <= FEW,
        "cards": dict(cards or {}),
        "report": report,
        "failed": failed,
    }
    policy = (
        f"default-src 'none'; script-src {fingerprint(script)}; style-src {fingerprint(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return Template(read("page.html")).substitute(
        policy=policy,
        title=html.escape(title.encode("utf-8", "replace").decode()),  # a file's name may hold what UTF-8 cannot
        style=style,
        # in ASCII, and without "<", nothing in it can end the element that holds it
        data=json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        script=script,
    )


def fingerprint(text: str) -> str:
    """What a content policy calls an inline script or style by: its SHA-256."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def data_uri(photo: Image.Image, longest: int, *, quality: int = 85) -> str:
    """A photo as a data: URI of a JPEG, its longer side at most ``longest`` pixels."""
    small = photo.convert("RGB")
    small.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    return embedded(small, quality=quality)


def packed(where: str, maps: Any, words: int, name: str = "attention") -> dict[str, Any] | None:
    """Maps (T, R, C) in 255ths of each word's peak, of evidence the positive part; None where there is none."""
    if not maps:
        return None
    try:
        values = np.asarray(maps, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 3 or len(values) != words or not values.size or not np.isfinite(values).all():
        raise SatError(f"{where}: {name!r} must be a map for each of {plural(words, 'word')}, and is {quoted(maps)}")
    peaks = values.max(axis=(1, 2)).clip(0)
    levels = (255 * values / np.maximum(peaks, 1e-12)[:, None, None]).round().clip(0, 255).astype(np.uint8)
    return {
        "rows": values.shape[1],
        "columns": values.shape[2],
        "peaks": [round(float(peak), 5) for peak in peaks],
        "sums": values.clip(0).sum((1, 2)).round(4).tolist(),
        "data": base64.b64encode(levels.tobytes()).decode(),
    }
