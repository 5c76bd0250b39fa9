"""Files of captions and of references of any system, to be scored, and our own evaluations, to be compared.

Captions to score (`read_captions`) are

1. COCO results: a JSON list of `{"image_id": NUMBER or file name, "caption": TEXT}`;
2. an evaluation, as `sat evaluate --json` and `sat score --json` write it;
3. any file that does not end in `.json`: one caption a line, in the order of the references.

References (`read_references`) are

1. Karpathy's split file, of which one split counts;
2. a file of COCO's captions, such as `captions_val2014.json`;
3. one or several files that do not end in `.json`: one photo a line, in the same order; each file holds one reference
   of each photo. An empty line is not a reference.

A photo that is listed several times has the references of all its entries. Where a photo is named by a number, this is
COCO's `id`, in Karpathy's file `cocoid` or, without that, `imgid`. Lines are named by their number, from 1.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from show_attend_tell.data.datasets import PAPERS
from show_attend_tell.data.datasets.coco import coco_photos, papers_coco
from show_attend_tell.data.datasets.karpathy import karpathy_photos
from show_attend_tell.data.inspection import language_of
from show_attend_tell.data.tokenizers import Tokens, in_form, tokenize
from show_attend_tell.errors import SatError
from show_attend_tell.files import list_of_objects, read_json, read_object, read_text, text_of
from show_attend_tell.messages import first_three, plural, shorten, shown
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
    """Read what captions are scored against; ``split`` is that of Karpathy's file.

    Without ``tokens`` these are "split", or those of the references' language (`language_tokens`) where common
    ``english`` words are given to judge it by and the data are none of the paper's. With the tokens "split" the
    references are in the split file's form: its own tokens, or raw text cut in the same way (`tokenizers.tokenize`).
    With the others they are in the form of `tokenizers.in_form`, which is the raw text for "raw" and "ptb". The first
    ``most`` references of a photo count, all by default. Raises `SatError` for a file of an unknown form, a damaged
    file, one without references, an unknown split, and files of lines of different lengths.
    """
    if not files:
        raise SatError("there are no references: name a file")
    file, training, known, numbers, papers = files[0], [], None, {}, False
    spoken: dict[str, list[Spoken]] = {}
    if file.suffix != ".json":
        columns = [_lines(each) for each in files]
        for each, lines in zip(files, columns, strict=True):
            if len(lines) != len(columns[0]):
                raise SatError(
                    f"{each} has {plural(len(lines), 'line')} and {file} {len(columns[0])}; they must be of the "
                    "same photos in the same order"
                )
        name = file.stem
        for number, row in enumerate(zip(*columns, strict=True), start=1):
            spoken[str(number)] = [(tuple(tokenize(text)), text) for text in row if text.strip()]
    else:
        if len(files) > 1:
            raise SatError(f"{files[1]} comes after {file}: give one JSON file, or several files of lines")
        if "annotations" in read_object(file, "images"):
            (listed, _), name, papers = coco_photos(file), file.stem, papers_coco(file)
            chosen = listed
        else:
            listed, name = karpathy_photos(file)
            papers, known = name in PAPERS, split
            chosen = [photo for photo in listed if photo.split == split]
            if not chosen:
                splits = sorted({photo.split or "" for photo in listed})
                raise SatError(f"{file} has no split {split!r}; it has {', '.join(splits) or 'no photos'}")
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
    """Read a system's captions, by the photos' names in ``references``, in their order in the file.

    Captions are put into the form of the references' tokens; with "split" this is the split file's
    (`tokenizers.tokenize`), which does not change captions that have it already. A photo that the references list under
    several numbers may have one caption under each, if they are the same. Raises `SatError`, naming the first offender,
    for a file of an unknown form, an empty or damaged file, a photo that has no references or two captions, and a
    number of lines that is not that of photos.
    """
    listed: list[tuple[str, str, str]] = []  # where, photo, caption
    if file.suffix == ".json":
        content = read_json(file)
        key = "photo" if isinstance(content, dict) else "image_id"
        record = content if isinstance(content, dict) else {"results": content}
        for index, entry in enumerate(list_of_objects(record, "results", str(file))):
            where, photo = f"{file}: caption {index + 1}", entry.get(key)
            if not isinstance(photo, (str, int)):
                raise SatError(f"{where}: {key!r} must be a number or a file name, and is {shown(photo)}")
            listed.append((where, str(photo), text_of(entry, "caption", where)))
    else:
        lines = _lines(file)
        if len(lines) != len(references.texts):
            raise SatError(
                f"{file} has {plural(len(lines), 'caption')} and {references.source} references of "
                f"{plural(len(references.texts), 'photo')}; give a caption a line, in that order"
            )
        listed = [
            (f"{file}: line {number}", photo, line)
            for number, (photo, line) in enumerate(zip(references.texts, lines, strict=True), start=1)
        ]
    if not listed:
        raise SatError(f"{file} holds no captions")
    captions: dict[str, str] = {}
    seen: set[str] = set()
    for where, photo, caption in listed:
        name = photo if photo in references.texts else references.numbers.get(photo, photo)
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
    """Read the captions and references of an evaluation, as `sat evaluate --json` and `sat score --json` write it.

    Raises `SatError` for a file that is not an evaluation, a damaged one, or one without captions or references.
    """
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
            raise SatError(f"{where}: 'references' must be a list of texts, and is {shown(texts)}; evaluate again")
        captions[photo], references[photo] = text_of(entry, "caption", where), texts
    if not captions:
        raise SatError(f"{file} holds no captions")
    return EvaluationFile(file, tokens, captions, references)


def tokens_of(file: Path) -> Tokens | None:
    """The tokens by which the captions of an evaluation were scored; None for a file of captions alone.

    Raises `SatError` for unknown tokens, and for a damaged file.
    """
    content = read_json(file) if file.suffix == ".json" else None
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
    named = text_of(content, "tokens", str(file))
    for tokens in get_args(Tokens):
        if tokens == named:
            return tokens  # type: ignore[no-any-return]
    raise SatError(f"{file}: 'tokens' must be one of {', '.join(get_args(Tokens))}, and is {shorten(named)}")


def _lines(file: Path) -> list[str]:
    text = read_text(file)
    if not text.strip():
        raise SatError(f"{file} is empty")
    return text.removesuffix("\n").split("\n")  # also the empty ones at its end: captions without a word
