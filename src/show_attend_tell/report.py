"""The report of one evaluation, or of two of the same photos: a table of scores, and the page of the captions."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from show_attend_tell.data.photos import open_photo
from show_attend_tell.data.tokenizers import detokenize
from show_attend_tell.errors import SatError
from show_attend_tell.files import read_object
from show_attend_tell.messages import quoted
from show_attend_tell.metrics.caption_files import check_alike, read_evaluation
from show_attend_tell.metrics.table import METRICS
from show_attend_tell.progress import Progress
from show_attend_tell.show.page import data_uri, document, packed
from show_attend_tell.values import Record

SIDE = 224  # pixels of a photo's longer side
QUALITY = 60  # of its JPEG: about 10 kB a photo
SETTINGS = {"tokens": "tokens", "tokenizer": "tokenizer", "beam_size": "beam size", "attention_mode": "attention mode"}


@dataclass(frozen=True)
class Report:
    """A report as a page, and what could not be put into it."""

    page: str
    photos: int
    missing: list[str]  # the photos whose file is not where the evaluation found it, or is damaged
    attention: bool  # whether any evaluation says where its model looked
    files: list[str]  # of the photos


def report(files: Sequence[Path], *, show: bool = True) -> Report:
    """Make the report of evaluations, as `sat evaluate --json` and `sat score --json` write them."""
    content = [read_object(file, "results") for file in files]
    evaluations = [read_evaluation(*read) for read in zip(files, content, strict=True)]
    first = evaluations[0]
    for other in evaluations[1:]:
        check_alike(first, other)
    names = [str(evaluation.get("model") or file.stem) for file, evaluation in zip(files, content, strict=True)]
    if len(set(names)) < len(names):  # one model, decoded in two ways
        names = [f"{name} ({file})" for name, file in zip(names, files, strict=True)]
    entries = [
        {
            entry["photo"]: _caption(f"{file}: results[{index}]", entry, name, evaluation)
            for index, entry in enumerate(evaluation["results"])
        }
        for file, name, evaluation in zip(files, names, content, strict=True)
    ]
    results = [entry for evaluation in content for entry in evaluation["results"]]
    file_of = {entry["photo"]: entry["file"] for entry in results if isinstance(entry.get("file"), str)}
    photos, missing, files_of_photos = [], [], []
    for name, references in Progress(first.references.items(), desc="photos", unit="photo", disable=not show):
        file = file_of.get(name)
        image = size = None
        if file is not None:
            with suppress(SatError):  # it is not there any more, or damaged
                photo = open_photo(file)
                image = data_uri(photo, SIDE, quality=QUALITY)
                size = list(photo.size)
                files_of_photos.append(file)
        if image is None:
            missing.append(name)
        captions = [of_model[name] for of_model in entries]
        photos.append({"name": name, "image": image, "size": size, "references": references, "captions": captions})
    title = " ".join(str(content[0][key]) for key in ("data", "split") if content[0].get(key)) or files[0].stem
    of_captions = [[name, metric.label, metric.higher_is_better] for name, metric in METRICS.items() if metric.each]
    page = document(
        f"Report: {title}",
        photos,
        report={
            "table": [["", *names], *_rows(content)],
            "scores": sorted(of_captions, key=lambda score: score[0] != "cider"),  # the first is sorted by
        },
    )
    attention = any(caption.get("attention") for photo in photos for caption in photo["captions"])
    return Report(page=page, photos=len(photos), missing=missing, attention=attention, files=files_of_photos)


def _rows(content: Sequence[Record]) -> list[list[str]]:
    """The scores of the evaluations, and how the captions were made: a row for each that one of them has."""
    labels = {name: metric.label for name, metric in METRICS.items()} | SETTINGS
    rows = []
    for name, label in labels.items():
        values = [evaluation.get(name) for evaluation in content]
        if any(value is not None for value in values):
            cells = (
                "–" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value) for value in values
            )
            rows.append([label, *cells])
    return rows


def _caption(where: str, entry: Record, model: str, evaluation: Record) -> Record:
    """A caption as the page takes it, without paths. Raises `SatError` for damaged words and maps."""
    settings = {name: evaluation[name] for name in SETTINGS if evaluation.get(name) is not None}
    tokenizer = settings.get("tokenizer", "")
    words = entry.get("words", None if tokenizer == "unigram" else entry["caption"].split())
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise SatError(f"{where}: 'words' must be a list of texts, and is {quoted(words)}")
    for name in METRICS:
        value = entry.get(name)
        if not isinstance(value, int | float | None):
            raise SatError(f"{where}: {name!r} must be a number, and is {quoted(value)}")
    maps = {name: packed(where, entry.get(name), len(words), name) for name in ("attention", "evidence")}
    caption = {
        **{name: value for name, value in entry.items() if name not in ("photo", "file", "source", "references")},
        **{name: of_words for name, of_words in maps.items() if of_words is not None},
        "caption": detokenize(words, tokenizer),
        "words": words,
        "settings": {"model": model, **settings},
    }
    try:
        json.dumps(caption, allow_nan=False)
    except ValueError as error:
        raise SatError(f"{where}: {error}: write null for a number that is missing") from None
    return caption
