"""Files of captions and of references of any system, to be scored, and our own evaluations, to be compared.

Captions (`read_captions`) and references (`read_references`) have any of the forms of `data.caption_rows`. Photos are
told by their names or numbers: COCO's `id`, in Karpathy's file `cocoid` or else `imgid`; a path that is no photo's name
stands for the photo of the same file name. Only sentences, one a line, are in the order of the references. Each of
several files of references adds to the photos' own, and so does a photo that is listed several times.
"""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, get_args

from show_attend_tell.data.caption_rows import Row, caption_rows, decoded
from show_attend_tell.data.datasets.coco import coco_photos, is_coco, papers_coco
from show_attend_tell.data.datasets.dataset import PAPERS
from show_attend_tell.data.datasets.karpathy import is_karpathy, karpathy_photos
from show_attend_tell.data.datasets.listing import SPLIT_NAMES
from show_attend_tell.data.inspection import language_of
from show_attend_tell.data.tokenizers import Tokens, in_form, tokenize
from show_attend_tell.errors import SatError
from show_attend_tell.files import list_of_objects, read_object, text_of
from show_attend_tell.messages import first_three, plural, quoted, shorten
from show_attend_tell.metrics.scores import words_of

Spoken = tuple[tuple[str, ...], str]  # a caption in words of the split file's form, and as it was written


@dataclass(frozen=True)
class References:
    """What captions of photos are scored against."""

    name: str  # of the data set, or the first file's
    source: Path  # the file to name in messages
    texts: dict[str, list[str]]  # by photo, in the file's order
    tokens: Tokens  # by which they are compared
    language: str = ""  # why these tokens, where the language of the references decided
    numbers: dict[str, str] = field(default_factory=dict)  # the photo's name, by its number
    split: str | None = None
    training: list[tuple[str, ...]] | None = None  # the words of the training captions, if the file has them
    notes: list[str] = field(default_factory=list)  # how the files were read, where a person should know


@dataclass(frozen=True)
class EvaluationFile:
    """The captions of an evaluation file, and what they were scored against."""

    file: Path
    tokens: Tokens
    captions: dict[str, str]  # by photo
    references: dict[str, list[str]]  # by photo


def read_references(
    files: Sequence[Path],
    *,
    split: str = "test",
    tokens: Tokens | None = None,
    english: Collection[str] = (),
    most: int | None = None,
) -> References:
    """Read what captions are scored against, in the form of ``tokens``; the first ``most`` of a photo count.

    Without ``tokens`` these are "split", or those of the references' language (`language_tokens`) where common
    ``english`` words are given and the data are none of the paper's.
    """
    file, training, known, numbers, papers = files[0], [], None, {}, False
    spoken: dict[str, list[Spoken]] = {}
    notes: list[str] = []
    content = _json(file)
    if isinstance(content, dict) and "results" in content:
        raise SatError(f"{file} is an evaluation, whose captions are no references: give the data set's own file")
    if not is_karpathy(content) and not is_coco(content):
        name = file.stem
        found = [_rows(each, notes) for each in files]
        splits = {row.split for rows in found for row in rows if row.split}
        if splits and split not in splits:
            raise SatError(f"{file} has no split {split!r}; it has {', '.join(sorted(splits))}")
        known = split if splits else None
        for each, rows in zip(files, found, strict=True):
            if bool(rows[0].photo) != bool(found[0][0].photo) or (not rows[0].photo and len(rows) != len(found[0])):
                raise SatError(
                    f"{each} has {plural(len(rows), 'line')} and {file} {len(found[0])}; they must be of the same "
                    "photos, in the same order or all with the photos' names"
                )
            for number, row in enumerate(rows, start=1):
                texts = [(tuple(tokenize(text)), text) for text in row.captions if text.strip()]
                if row.split in (None, split) and (texts or not row.photo):
                    spoken.setdefault(row.photo or str(number), []).extend(texts)
    else:
        if len(files) > 1:
            raise SatError(f"{files[1]} comes after {file}: give one such JSON file, or several files of another form")
        if is_karpathy(content):
            listed, name = karpathy_photos(file, content)
            papers, known = name in PAPERS, split
            chosen = [photo for photo in listed if photo.split == split]
            if not chosen:
                names = sorted({photo.split or "" for photo in listed})
                raise SatError(f"{file} has no split {split!r}; it has {', '.join(names) or 'no photos'}")
        else:
            (listed, _), name, papers = coco_photos(file, content=content), file.stem, papers_coco(file)
            chosen = listed
        numbers = {str(photo.number): photo.name for photo in chosen if photo.number is not None}
        training = [caption for photo in listed if photo.split == "train" for caption in photo.captions]
        for photo in chosen:
            if said := [caption for caption in photo.captions if caption[0]]:
                spoken.setdefault(photo.name, []).extend(said)
        if not spoken:
            raise SatError(f"{file} lists {plural(len(chosen), 'photo')} and no reference of any")
    language = ""
    if tokens is None:
        tokens = "split"
        if english and not papers:
            tokens, language = language_tokens([raw for said in spoken.values() for _, raw in said], english)

    def form(caption: Spoken) -> str:
        words, raw = caption
        return " ".join(words) if tokens == "split" else in_form(raw, tokens)

    return References(
        name,
        file,
        {photo: list(map(form, said[:most])) for photo, said in spoken.items()},
        tokens,
        language,
        numbers,
        known,
        [words if tokens in ("split", "raw", "ptb") else tuple(words_of(raw, tokens)) for words, raw in training]
        or None,
        notes,
    )


def language_tokens(texts: Sequence[str], english: Collection[str]) -> tuple[Tokens, str]:
    """The tokens for texts of their language, judged as a training judges captions, and why; "" for English."""
    language = language_of(texts, english)
    if language.is_english:
        return "english", ""
    script = language.script or "no"
    if not language.spaces:
        return "characters", f"the references are in {script} script, without spaces between words"
    return "unicode", f"the references are not English ({script} script)"


def read_captions(file: Path, references: References) -> dict[str, str]:
    """Read a system's captions, by the photos' names in ``references``, in the form of their tokens.

    Each photo with references has one caption; one that has several numbers there may have it under each.
    """
    rows = _rows(file, references.notes)
    if not rows[0].photo:
        if len(rows) != len(references.texts):
            raise SatError(
                f"{file} has {plural(len(rows), 'caption')} and {references.source} references of "
                f"{plural(len(references.texts), 'photo')}; give a caption a line, in that order"
            )
        rows = [row._replace(photo=photo) for photo, row in zip(references.texts, rows, strict=True)]
    times = Counter(PurePosixPath(photo).name for photo in references.texts)
    by_file = {name: photo for photo in references.texts if times[name := PurePosixPath(photo).name] == 1}
    captions: dict[str, str] = {}
    seen: set[str] = set()
    for where, photo, texts, _ in rows:
        if len(texts) > 1:
            raise SatError(f"{where}: the photo {photo!r} has {len(texts)} captions; keep one")
        (caption,), name = texts, photo
        if photo not in references.texts:
            file_name = PurePosixPath(photo.replace("\\", "/")).name
            name = references.numbers.get(photo) or by_file.get(file_name, photo)
        if name not in references.texts:
            split = f", split {references.split}" if references.split else ""
            raise SatError(f"{where}: the photo {photo!r} has no references in {references.source}{split}")
        text = in_form(caption, references.tokens)
        both = photo != name and photo not in seen  # another number of a photo that has a caption already
        if name in captions and not (both and captions[name] == text):
            raise SatError(f"{where}: the photo {photo!r} has a caption already; keep one")
        captions[name] = text
        seen.add(photo)
    if missing := [photo for photo in references.texts if photo not in captions]:
        raise SatError(
            f"{file} has no caption of {plural(len(missing), 'photo')} with references in {references.source}: "
            f"{first_three(missing)}; score the photos of one split"
        )
    return captions


def read_evaluation(file: Path) -> EvaluationFile:
    """Read the captions and references of an evaluation, as `sat evaluate --json` and `sat score --json` write it."""
    content = read_object(file, "results")
    tokens = _tokens(file, content)
    captions: dict[str, str] = {}
    references: dict[str, list[str]] = {}
    for index, entry in enumerate(list_of_objects(content, "results", str(file))):
        where = f"{file}: results[{index}]"
        photo, texts = text_of(entry, "photo", where), entry.get("references")
        if photo in captions:
            raise SatError(f"{where}: the photo {photo!r} is there twice; keep one")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise SatError(f"{where}: 'references' must be a list of texts, and is {quoted(texts)}; evaluate again")
        captions[photo], references[photo] = text_of(entry, "caption", where), texts
    if not captions:
        raise SatError(f"{file} holds no captions")
    return EvaluationFile(file, tokens, captions, references)


def tokens_of(file: Path) -> Tokens | None:
    """The tokens by which the captions of an evaluation were scored; None for a file of captions alone."""
    content = _json(file)
    return _tokens(file, content) if isinstance(content, dict) and "tokens" in content else None


def check_alike(first: EvaluationFile, other: EvaluationFile) -> None:
    """Raise `SatError` for evaluations with other tokens, photos or references, naming what differs."""
    if first.tokens != other.tokens:
        raise SatError(
            f"{other.file} compares {other.tokens} tokens and {first.file} {first.tokens} tokens, so their scores "
            "cannot be compared: evaluate both with the same --tokens"
        )
    for one, two in ((first, other), (other, first)):
        if strangers := [photo for photo in one.captions if photo not in two.captions]:
            raise SatError(
                f"{two.file} has no caption of {first_three(strangers)}, and {one.file} has: evaluate both on one split"
            )
    for photo, references in first.references.items():
        if references != other.references[photo]:
            raise SatError(
                f"{other.file} and {first.file} have other references of the photo {photo!r}: evaluate both on the "
                "same data"
            )


def _tokens(file: Path, content: dict[str, Any]) -> Tokens:
    named: Any = text_of(content, "tokens", str(file))
    if named not in get_args(Tokens):
        raise SatError(f"{file}: 'tokens' must be one of {', '.join(get_args(Tokens))}, and is {shorten(named)}")
    return named  # type: ignore[no-any-return]


def _json(file: Path) -> Any:
    """What a JSON file holds; None for another form, and for a damaged file, of which `_rows` says what is wrong."""
    text = decoded(file, []).lstrip()
    if text[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _rows(file: Path, notes: list[str]) -> list[Row]:
    """The rows of a file, with the usual names of splits; raises `SatError` where there are none."""
    found = caption_rows(file, notes, sentences=True)
    rows = [row._replace(split=row.split and SPLIT_NAMES.get(row.split.lower(), row.split)) for row in found]
    if not any(text.strip() for row in rows for text in row.captions):
        raise SatError(f"{file} is empty or holds no captions")
    return rows
