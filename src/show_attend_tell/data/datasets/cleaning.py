"""What texts of custom data hold besides a caption: several of them, markers, HTML, invisible characters, or nothing.

The paper's data sets are read as they are.
"""

import html
import json
import re
import unicodedata
from collections.abc import Callable, Sequence

from show_attend_tell.data.datasets.listing import PhotoEntry
from show_attend_tell.data.rows import with_words
from show_attend_tell.messages import first_three, plural

_STRING = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_LIST = re.compile(rf"[\[(]\s*{_STRING}(?:\s*,?\s*{_STRING})*\s*,?\s*[\])]", re.DOTALL)
# What separates captions in one text, its name, and the least share of all texts that must have it: at a line break a
# long caption may also have been wrapped.
SEPARATORS = (("|", "|", 0.1), ("\n", "line breaks", 0.5))

_ENTITY = re.compile(r"&(?:#\d+|#x[0-9a-f]+|[a-z]\w*);", re.IGNORECASE)
_TAG = re.compile(
    r"</?(?:a|b|big|blockquote|br|center|code|div|em|font|h[1-6]|hr|i|img|li|mark|ol|p|q|s|small|span|strike|strong"
    r"|sub|sup|table|td|tr|tt|u|ul)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
# Where another program has a caption begin and end, and what it puts in place of words.
_MARKER = re.compile(
    r"</?s>|<(?:start|end|bos|eos|sos|go|cls|sep|pad|unk|mask|image)>|<(?:start|end)_?of_?\w+>|<\|\w+\|>"
    r"|\[(?:start|end|bos|eos|sos|cls|sep|pad|unk|mask)\]|\b(?:startseq|endseq)\b",
    re.IGNORECASE,
)
# Joiners, which say how the letters of some scripts are joined, stay between such letters.
_INVISIBLE = re.compile(
    r"[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\ufeff]"
    r"|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
_NOTHING = re.compile(r"nan|null|none|nil|n/?a|#n/a|<na>|undefined", re.IGNORECASE)
LONGEST_NOTHING = 12  # characters of a text that may be nothing, with some space around
_SUSPECT = re.compile(r"[&<(\[|\nqQ]")  # a longer text of ASCII without these has nothing to change: q is for startseq


def _decoded(text: str) -> str:
    """A text without HTML entities, also those that were encoded twice, as ``&amp;#39;``."""
    for _ in range(2):
        text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    return text


def _parts(text: str) -> list[str]:
    """The texts of a list in JSON, or as Python or NumPy print it; any other text as it is."""
    text = text.strip()
    if text[:1] not in ("[", "(") or not _LIST.fullmatch(text):
        return [text]
    try:
        texts = json.loads(text)
    except ValueError:
        texts = [re.sub(r"\\(.)", r"\1", quoted[1:-1]) for quoted in re.findall(_STRING, text, re.DOTALL)]
    return [text for text in texts if isinstance(text, str)]


# What is done to each caption, in this order; None stands for the separators, since a marker may hold one.
CHANGES: dict[str, Callable[[str], list[str]] | None] = {
    "markers such as <start>, [SEP] or <unk>, left out": lambda text: [_MARKER.sub(" ", text)],
    "a list, each part of which is read as a caption": _parts,
    "separators": None,
    "HTML entities, decoded": lambda text: [_decoded(text)],
    "HTML tags, left out": lambda text: [_TAG.sub(" ", text)],
    "invisible characters, left out": lambda text: [_INVISIBLE.sub("", text)],
    "decomposed letters, composed": lambda text: [unicodedata.normalize("NFC", text)],
    "only nan, null, NA or none, read as empty": lambda text: ["" if _NOTHING.fullmatch(text) else text],
}


def clean(photos: Sequence[PhotoEntry]) -> list[str]:
    """Put the captions of photos right, in place. Returns lines for the user: what was changed, and what to look at."""
    texts = sum(len(photo.captions) for photo in photos)
    suspicious = {
        id(photo): photo
        for photo in photos
        for _, raw in photo.captions
        if len(raw) <= LONGEST_NOTHING or not raw.isascii() or _SUSPECT.search(raw)
    }
    suspects = list(suspicious.values())
    notes = []
    for what, change in CHANGES.items():
        if change is None:
            for separator, name, least in SEPARATORS:
                notes += _separated(suspects, separator, name, least * texts)
        elif count := _replace(suspects, change):
            notes.append(f"{plural(count, 'caption')} with {what}")
    names = [photo.called for photo in suspects for _, raw in photo.captions if re.fullmatch(r"\[.*\]", raw, re.DOTALL)]
    if names:
        notes.append(
            f"to look at: {plural(len(names), 'caption')} in [ ] that cannot be read as a list, of {first_three(names)}"
        )
    return notes


def _separated(photos: Sequence[PhotoEntry], separator: str, what: str, least: float) -> list[str]:
    """Take texts apart at a separator, if at least so many have it; says so, or names those that do."""
    having = [photo.called for photo in photos for _, raw in photo.captions if separator in raw]
    if not having:
        return []
    if len(having) >= least:
        _replace(photos, lambda raw: list(filter(None, map(str.strip, raw.split(separator)))))
        return [f"{plural(len(having), 'caption')} with {what}, each part of which is read as a caption"]
    return [
        f"to look at: {plural(len(having), 'caption')} with {what} inside, read as one caption each "
        f"({first_three(having)}): if they are several, give each a row"
    ]


def _replace(photos: Sequence[PhotoEntry], texts_of: Callable[[str], list[str]]) -> int:
    """Put other captions in the place of each; returns how many captions were changed."""
    changed = 0
    for photo in photos:
        captions = []
        for words, raw in photo.captions:
            texts = texts_of(raw)
            if texts == [raw]:
                captions.append((words, raw))
            else:
                changed += 1
                captions += with_words(texts)
        photo.captions = captions
    return changed
