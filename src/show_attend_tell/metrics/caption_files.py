"""Captions of any system, paired with the references of their photos, and our own evaluations, to be compared.

Files and folders are read by `data.datasets.read_listing`, as for a training. Photos are told by their names or
numbers: COCO's `id`, in Karpathy's file `cocoid` or else `imgid`; a path that is no photo's name stands for the photo
of the same file name. Only sentences, one a line, are in the order of the references. Each of several files of
references adds to the photos' own, and so does a photo that is listed several times.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, get_args

from show_attend_tell.data.datasets import read_dataset, read_listing
from show_attend_tell.data.datasets.listing import SPLIT_NAMES, CaptionFile, PhotoEntry
from show_attend_tell.data.inspection import language_of, tokens_for
from show_attend_tell.data.rows.entry import WithWords, Words
from show_attend_tell.data.rows.records import parsed
from show_attend_tell.data.rows.text import decoded
from show_attend_tell.data.tokenizers import Tokens, in_form
from show_attend_tell.errors import SatError
from show_attend_tell.files import list_of_objects, read_object, text_of
from show_attend_tell.messages import first_three, plural, quoted, shorten
from show_attend_tell.metrics.scores import words_of

Texts = dict[str, list[WithWords]]  # the captions of each photo, in words of the file's form and as written


@dataclass(frozen=True)
class References:
    """What captions of photos are scored against."""

    name: str  # of the data set, or the first file's
    source: Path  # the file to name in messages
    texts: dict[str, list[str]]  # by photo, in the file's order
    tokens: Tokens  # by which they are compared
    language: str = ""  # why these tokens, where the language of the references decided
    names: dict[str, str] = field(default_factory=dict)  # of photos, by all that another file may call them
    split: str | None = None
    training: list[Words] | None = None  # the words of the training captions, if the file has them
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

    A folder stands for its photos of ``split``, as `sat evaluate` takes them. Without ``tokens`` these are "split", or
    those of the references' language (`tokens_for`) where common ``english`` words are given and the data are
    none of the paper's.
    """
    notes: list[str] = []
    listings = [_listing(file, notes) for file in files]
    by_lines = _number_sentences(listings)
    photos = [photo for listing in listings for photo in listing.photos]
    known = sorted({photo.split for photo in photos if photo.split})
    if known and split not in known:
        raise SatError(f"{files[0]} has no split {split!r}; it has {', '.join(known)}")
    spoken: Texts = {}
    of_split = [photo for photo in photos if photo.split in (None, split)]
    for photo in of_split:
        with_words = [caption for caption in photo.captions if caption[0]]
        if with_words or by_lines:
            spoken.setdefault(photo.name, []).extend(with_words)
    if not any(spoken.values()):
        raise SatError(f"{files[0]} holds no references")
    training = [caption for photo in photos if photo.split == "train" for caption in photo.captions]
    language = ""
    if tokens is None:
        tokens = "split"
        if english and all(listing.custom for listing in listings):
            tokens, language = tokens_for(language_of([raw for texts in spoken.values() for _, raw in texts], english))
    times = Counter(PurePosixPath(name).name for name in spoken)
    names = {PurePosixPath(name).name: name for name in spoken if times[PurePosixPath(name).name] == 1}
    names |= {photo.number: photo.name for photo in of_split if photo.number is not None and photo.name in spoken}
    return References(
        name=listings[0].name,
        source=files[0],
        texts={photo: [_in_form(caption, tokens) for caption in texts[:most]] for photo, texts in spoken.items()},
        tokens=tokens,
        language=language,
        names=names | {name: name for name in spoken},
        split=split if known else None,
        training=[tuple(words_of(_in_form(caption, tokens), tokens)) for caption in training] or None,
        notes=notes,
    )


def _listing(source: Path, notes: list[str], *, references: bool = True) -> CaptionFile:
    """What a file of references or of captions lists, or a data folder; ``notes`` get what a person should know."""
    if source.is_dir():
        dataset = read_dataset(source)
        notes += dataset.report.remarks()
        photos = [
            PhotoEntry(example.name, example.split, "", list(zip(example.captions, example.raw, strict=True)))
            for example in dataset.examples
        ]
        return CaptionFile(dataset.name, [source], photos, custom=dataset.custom)
    if references and tokens_of(source):
        raise SatError(f"{source} is an evaluation, whose captions are not references: give the data set's own file")
    listing = read_listing(source, sentences=True)
    remarks = [*listing.notes]
    if strays := listing.strays.total():
        remarks.append(f"left out: {plural(strays, 'caption')} of photos that it does not list")
    if empty := sum(not words for photo in listing.photos for words, _ in photo.captions if photo.name):
        remarks.append(f"{plural(empty, 'caption')} without a word")
    notes += [f"{source.name}: {remark}" for remark in remarks]
    for photo in listing.photos:
        if photo.split:
            photo.split = SPLIT_NAMES.get(photo.split.lower(), photo.split)
    return listing


def _number_sentences(listings: Sequence[CaptionFile]) -> bool:
    """Whether files are of sentences, which get the numbers of their lines as names.

    Raises `SatError` where they have other numbers of lines, or only some files name their photos.
    """
    kinds = {any(photo.name for photo in listing.photos) for listing in listings}
    by_lines = kinds == {False}
    if len(kinds) > 1 or (by_lines and len({len(listing.photos) for listing in listings}) > 1):
        lines = [f"{listing.sources[0]} ({plural(len(listing.photos), 'line')})" for listing in listings]
        raise SatError(
            f"{first_three(lines)} must be of the same photos, in the same order or all with the photos' names"
        )
    if by_lines:
        for listing in listings:
            for line, photo in enumerate(listing.photos, start=1):
                photo.name = str(line)
    return by_lines


def _in_form(caption: WithWords, tokens: Tokens) -> str:
    """A caption as scores of such tokens take it."""
    words, raw = caption
    return " ".join(words) if tokens == "split" else in_form(raw, tokens)


def read_captions(file: Path, references: References) -> dict[str, str]:
    """Read a system's captions, by the photos' names in ``references``, in the form of their tokens.

    Each photo with references has one caption. Raises `SatError` for a photo that the file has without a caption
    because of an error.
    """
    captions: dict[str, str] = {}
    for photo in _with_captions(file, references):
        where = f"{photo.where or file}: the photo {photo.name!r}"
        keys = (photo.name, photo.number, PurePosixPath(photo.name).name)
        name = next((references.names[key] for key in keys if key and key in references.names), None)
        if len(photo.captions) > 1:
            raise SatError(f"{where} has {len(photo.captions)} captions; keep one")
        if name is None:
            split = f", split {references.split}" if references.split else ""
            raise SatError(f"{where} has no references in {references.source}{split}")
        if name in captions:
            raise SatError(f"{where} has a caption already; keep one")
        captions[name] = in_form(photo.captions[0][1], references.tokens)
    if missing := [photo for photo in references.texts if photo not in captions]:
        raise SatError(
            f"{file} has no caption of {plural(len(missing), 'photo')} with references in {references.source}: "
            f"{first_three(missing)}; score the photos of one split"
        )
    if silent := [photo for photo, text in captions.items() if not text]:
        references.notes.append(
            f"{file.name}: empty, and scored as such: {plural(len(silent), 'caption')} of {first_three(silent)}"
        )
    return captions


def _with_captions(file: Path, references: References) -> list[PhotoEntry]:
    """The photos of a system's captions; sentences get the names of the references, in their order."""
    listing = _listing(file, references.notes, references=False)
    if errors := [f"{photo.name} ({photo.error})" for photo in listing.photos if photo.error]:
        raise SatError(
            f"{file} has an error instead of a caption for {plural(len(errors), 'photo')}: {first_three(errors)}; "
            "caption these photos again, or score the others against their references alone"
        )
    photos = [photo for photo in listing.photos if photo.captions]
    if not any(raw for photo in photos for _, raw in photo.captions):
        raise SatError(f"{file} is empty or holds no captions")
    if photos[0].name:
        return photos
    if len(photos) != len(references.texts):
        raise SatError(
            f"{file} has {plural(len(photos), 'caption')} and {references.source} references of "
            f"{plural(len(references.texts), 'photo')}; give one caption per line, in that order"
        )
    return [replace(photo, name=name) for name, photo in zip(references.texts, photos, strict=True)]


def read_evaluation(file: Path, content: dict[str, Any] | None = None) -> EvaluationFile:
    """Read the captions and references of an evaluation, as `sat evaluate --json` and `sat score --json` write it.

    ``content`` is what the file holds, if it has been read already.
    """
    content = content or read_object(file, "results")
    tokens = _tokens(file, content)
    evaluation = EvaluationFile(file, tokens, {}, {})
    for index, entry in enumerate(list_of_objects(content, "results", str(file))):
        where = f"{file}: results[{index}]"
        photo = text_of(entry, "photo", where)
        texts = entry.get("references")
        if photo in evaluation.captions:
            raise SatError(f"{where}: the photo {photo!r} is there twice; keep one")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise SatError(f"{where}: 'references' must be a list of texts, and is {quoted(texts)}; evaluate again")
        evaluation.captions[photo] = text_of(entry, "caption", where)
        evaluation.references[photo] = texts
    if not evaluation.captions:
        raise SatError(f"{file} holds no captions")
    return evaluation


def tokens_of(file: Path) -> Tokens | None:
    """The tokens by which the captions of an evaluation were scored; None for a file of captions alone."""
    content = parsed(decoded(file, []))
    return _tokens(file, content) if isinstance(content, dict) and "tokens" in content else None


def check_alike(first: EvaluationFile, other: EvaluationFile) -> None:
    """Raise `SatError` for evaluations with other tokens, photos or references, naming what differs."""
    if first.tokens != other.tokens:
        raise SatError(
            f"{other.file} compares {other.tokens} tokens and {first.file} {first.tokens} tokens, so their scores "
            "cannot be compared: evaluate both with the same --tokens"
        )
    for photo in {**first.captions, **other.captions}:
        if first.references.get(photo) != other.references.get(photo):
            raise SatError(
                f"{other.file} and {first.file} have other references of the photo {photo!r}, or one of them lacks it: "
                "evaluate both on one split of the same data"
            )


def _tokens(file: Path, content: dict[str, Any]) -> Tokens:
    named: Any = text_of(content, "tokens", str(file))
    if named not in get_args(Tokens):
        raise SatError(f"{file}: 'tokens' must be one of {', '.join(get_args(Tokens))}, and is {shorten(named)}")
    return named  # type: ignore[no-any-return]
