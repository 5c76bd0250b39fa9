"""Captions of any system, paired with the references of their photos, and our own evaluations, to be compared.

Files and folders are read by `data.datasets.read_listing`, as for a training. Photos are told by their names or
numbers: COCO's `id`, in Karpathy's file `cocoid` or else `imgid`; a path that is no photo's name stands for the photo
of the same file name. Only sentences, one a line, are in the order of the references. Each of several files of
references adds to the photos' own, and so does a photo that is listed several times.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, get_args

from show_attend_tell.data.datasets import read_dataset, read_listing
from show_attend_tell.data.datasets.listing import SPLIT_NAMES, CaptionFile, PhotoEntry
from show_attend_tell.data.inspection import language_of
from show_attend_tell.data.rows.records import parsed
from show_attend_tell.data.rows.text import decoded
from show_attend_tell.data.tokenizers import Tokens, in_form
from show_attend_tell.errors import SatError
from show_attend_tell.files import list_of_objects, read_object, text_of
from show_attend_tell.messages import first_three, plural, quoted, shorten
from show_attend_tell.metrics.scores import words_of

Words = tuple[str, ...]
Texts = dict[str, list[tuple[Words, str]]]  # the captions of each photo, in words of the file's form and as written


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
    those of the references' language (`language_tokens`) where common ``english`` words are given and the data are
    none of the paper's.
    """
    notes: list[str] = []
    listings = [_listing(file, notes) for file in files]
    _check_same_photos(listings)
    known = sorted({photo.split for listing in listings for photo in listing.photos if photo.split})
    if known and split not in known:
        raise SatError(f"{files[0]} has no split {split!r}; it has {', '.join(known)}")
    spoken: Texts = {}
    for listing in listings:
        for name, photo in _of_split(listing, split):
            with_words = [caption for caption in photo.captions if caption[0]]
            if with_words or not photo.name:
                spoken.setdefault(name, []).extend(with_words)
    if not any(spoken.values()):
        photos = plural(sum(len(listing.photos) for listing in listings), "photo")
        raise SatError(f"{files[0]} lists {photos} and no reference of any")
    photos_of_training = [photo for listing in listings for photo in listing.photos if photo.split == "train"]
    training = [caption for photo in photos_of_training for caption in photo.captions]
    language = ""
    if tokens is None:
        tokens = "split"
        if english and all(listing.custom for listing in listings):
            tokens, language = language_tokens([raw for texts in spoken.values() for _, raw in texts], english)
    return References(
        name=listings[0].name,
        source=files[0],
        texts={photo: [_in_form(caption, tokens) for caption in texts[:most]] for photo, texts in spoken.items()},
        tokens=tokens,
        language=language,
        numbers=_numbers(listings, spoken),
        split=split if known else None,
        training=_words(training, tokens) or None,
        notes=notes,
    )


def _listing(source: Path, notes: list[str]) -> CaptionFile:
    """What a file of references or of captions lists, or a data folder; ``notes`` get what a person should know."""
    if source.is_dir():
        return _listing_of_folder(source, notes)
    content = parsed(decoded(source, []))
    if isinstance(content, dict) and "results" in content:
        raise SatError(f"{source} is an evaluation, whose captions are no references: give the data set's own file")
    listing = read_listing(source, sentences=True)
    return _noted(listing, source, notes)


def _listing_of_folder(folder: Path, notes: list[str]) -> CaptionFile:
    """The photos of a data folder in their splits, as a training and an evaluation have them."""
    dataset = read_dataset(folder)
    photos = [
        PhotoEntry(example.name, example.split, "", list(zip(example.captions, example.raw, strict=True)))
        for example in dataset.examples
    ]
    notes += dataset.report.remarks()
    return CaptionFile(dataset.name, [folder], photos, custom=dataset.custom)


def _noted(listing: CaptionFile, source: Path, notes: list[str]) -> CaptionFile:
    """A listing with the usual names of splits, whose notes are added to ``notes``."""
    for photo in listing.photos:
        if photo.split:
            photo.split = SPLIT_NAMES.get(photo.split.lower(), photo.split)
    notes += [f"{source.name}: {note}" for note in listing.notes]
    if strays := listing.strays.total():
        notes.append(f"{source.name}: left out: {plural(strays, 'caption')} of photos that it does not list")
    empty = sum(not words for photo in listing.photos for words, _ in photo.captions if photo.name)
    if empty:
        notes.append(f"{source.name}: {plural(empty, 'caption')} without a word")
    return listing


def _check_same_photos(listings: Sequence[CaptionFile]) -> None:
    """Raise `SatError` where files of sentences have other numbers of lines, or only some files name their photos."""
    first = listings[0]
    named = any(photo.name for photo in first.photos)
    for listing in listings[1:]:
        other_kind = any(photo.name for photo in listing.photos) != named
        if other_kind or (not named and len(listing.photos) != len(first.photos)):
            raise SatError(
                f"{listing.sources[0]} has {plural(len(listing.photos), 'line')} and {first.sources[0]} "
                f"{len(first.photos)}; they must be of the same photos, in the same order or all with the photos' names"
            )


def _of_split(listing: CaptionFile, split: str) -> list[tuple[str, PhotoEntry]]:
    """The photos of a split, or of a file without splits, each entry once, by their names or the numbers of lines."""
    entries = {id(photo): photo for photo in listing.photos}
    return [
        (photo.name or str(line), photo)
        for line, photo in enumerate(entries.values(), start=1)
        if photo.split in (None, split)
    ]


def _numbers(listings: Sequence[CaptionFile], names: Collection[str]) -> dict[str, str]:
    """The names of photos by their numbers."""
    photos = (photo for listing in listings for photo in listing.photos if photo.name in names)
    return {str(photo.number): photo.name for photo in photos if photo.number is not None}


def _in_form(caption: tuple[Words, str], tokens: Tokens) -> str:
    """A caption as scores of such tokens take it."""
    words, raw = caption
    return " ".join(words) if tokens == "split" else in_form(raw, tokens)


def _words(captions: Sequence[tuple[Words, str]], tokens: Tokens) -> list[Words]:
    """The words of captions, as `variety` counts them with such tokens."""
    if tokens in ("split", "raw", "ptb"):
        return [words for words, _ in captions]
    return [tuple(words_of(raw, tokens)) for _, raw in captions]


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

    Each photo with references has one caption; one that has several numbers there may have it under each. Raises
    `SatError` for a photo that the file has without a caption because of an error.
    """
    listing = _noted(read_listing(file, sentences=True), file, references.notes)
    photos = _with_captions(file, listing, references)
    name_of = _names(references)
    captions: dict[str, str] = {}
    seen: set[str] = set()
    for photo in photos:
        where = photo.where or str(file)
        name = name_of(photo)
        if len(photo.captions) > 1:
            raise SatError(f"{where}: the photo {photo.name!r} has {len(photo.captions)} captions; keep one")
        if name is None:
            split = f", split {references.split}" if references.split else ""
            raise SatError(f"{where}: the photo {photo.name!r} has no references in {references.source}{split}")
        text = in_form(photo.captions[0][1], references.tokens)
        both = photo.name != name and photo.name not in seen  # another number of a photo that has a caption already
        if name in captions and not (both and captions[name] == text):
            raise SatError(f"{where}: the photo {photo.name!r} has a caption already; keep one")
        captions[name] = text
        seen.add(photo.name)
    if missing := [photo for photo in references.texts if photo not in captions]:
        raise SatError(
            f"{file} has no caption of {plural(len(missing), 'photo')} with references in {references.source}: "
            f"{first_three(missing)}; score the photos of one split"
        )
    if silent := [photo for photo, text in captions.items() if not text]:
        verb = "is" if len(silent) == 1 else "are"
        references.notes.append(
            f"{file.name}: {plural(len(silent), 'caption')} {verb} empty, and scored as such: {first_three(silent)}"
        )
    return captions


def _with_captions(file: Path, listing: CaptionFile, references: References) -> list[PhotoEntry]:
    """The photos of a system's captions; sentences get the names of the references, in their order."""
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
            f"{plural(len(references.texts), 'photo')}; give a caption a line, in that order"
        )
    return [replace(photo, name=name) for name, photo in zip(references.texts, photos, strict=True)]


def _names(references: References) -> Callable[[PhotoEntry], str | None]:
    """Finds the name that the references have for a photo: by its name, its number, or its file's name alone."""
    times = Counter(PurePosixPath(name).name for name in references.texts)
    by_file = {PurePosixPath(name).name: name for name in references.texts if times[PurePosixPath(name).name] == 1}

    def name_of(photo: PhotoEntry) -> str | None:
        if photo.name in references.texts:
            return photo.name
        for number in (photo.name, str(photo.number)):
            name = references.numbers.get(number)
            if name:
                return name
        return by_file.get(PurePosixPath(photo.name).name)

    return name_of


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
    content = parsed(decoded(file, []))
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
