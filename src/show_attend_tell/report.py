"""The report of one evaluation, or of two of the same photos: scores, mistakes, and where the model looked.

T words shown · R rows and C columns of locations.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from show_attend_tell.data.parts_of_speech import FUNCTION_WORDS
from show_attend_tell.data.photos import open_photo
from show_attend_tell.data.tokenizers import Tokens, detokenize
from show_attend_tell.errors import SatError
from show_attend_tell.files import list_of_objects, read_object
from show_attend_tell.messages import quoted
from show_attend_tell.metrics.caption_files import check_alike, read_evaluation
from show_attend_tell.metrics.scores import words_of
from show_attend_tell.metrics.table import METRICS, Metric, besides_bleu
from show_attend_tell.progress import Progress
from show_attend_tell.show.page import data_uri, document, packed

SIDE = 224  # pixels of a photo's longer side
QUALITY = 60  # of its JPEG: about 10 kB a photo


@dataclass(frozen=True)
class Report:
    """A report as a page, and what could not be put into it."""

    page: str
    photos: int
    missing: list[str]  # the photos whose file is not where the evaluation found it, or is damaged
    attention: bool  # whether any evaluation says where its model looked
    files: list[str]  # of the photos


def report(files: Sequence[Path], *, cards: Mapping[str, str] | None = None, show: bool = True) -> Report:
    """Make the report of evaluations, as `sat evaluate --json` and `sat score --json` write them; cards by model."""
    content = [read_object(file, "results") for file in files]
    evaluations = [read_evaluation(*read) for read in zip(files, content, strict=True)]
    first = evaluations[0]
    for other in evaluations[1:]:
        check_alike(first, other)
    models = _models(files, content)
    entries = [
        {entry["photo"]: (f"{file}: results[{index}]", entry) for index, entry in enumerate(found["results"])}
        for file, found in zip(files, content, strict=True)
    ]
    photos, missing, files_of_photos = [], [], []
    for name, references in Progress(first.references.items(), desc="photos", unit="photo", disable=not show):
        found = [of_model[name] for of_model in entries]
        file = next((entry["file"] for _, entry in found if isinstance(entry.get("file"), str)), None)
        image = size = None
        if file is not None:
            with suppress(SatError):  # it is not there any more, or damaged
                photo = open_photo(file)
                image = data_uri(photo, SIDE, quality=QUALITY)
                size = list(photo.size)
                files_of_photos.append(file)
        if image is None:
            missing.append(name)
        captions = [
            _caption(where, entry, references, first.tokens, {"model": model["name"], **model["settings"]})
            for (where, entry), model in zip(found, models, strict=True)
        ]
        photos.append({"name": name, "image": image, "size": size, "references": references, "captions": captions})
    title = " ".join(str(content[0][key]) for key in ("data", "split") if content[0].get(key)) or files[0].stem
    known_cards = cards or {}
    page = document(
        f"Report: {title}",
        photos,
        cards={model["name"]: known_cards[model["model"]] for model in models if model["model"] in known_cards},
        report={
            "tokens": first.tokens,
            "models": models,
            "metrics": list(besides_bleu().items()),
            "scores": [[name, metric.label, metric.higher_is_better] for name, metric in of_captions().items()],
        },
    )
    attention = any("attention" in caption for photo in photos for caption in photo["captions"])
    return Report(page=page, photos=len(photos), missing=missing, attention=attention, files=files_of_photos)


def _models(files: Sequence[Path], content: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The models of the evaluations, each with a name of its own."""
    names = [str(found.get("model") or file.stem) for file, found in zip(files, content, strict=True)]
    if len(set(names)) < len(names):  # one model, decoded in two ways
        names = [f"{name} ({file})" for name, file in zip(names, files, strict=True)]
    return [
        {
            "name": name,
            "model": str(found.get("model")),
            "beam_size": found.get("beam_size"),
            "attention_mode": found.get("attention_mode"),
            "settings": {key: found.get(key) for key in ("beam_size", "attention_mode")}
            | ({"tokenizer": str(found["tokenizer"])} if "tokenizer" in found else {}),
            "scores": {key: _numbers(str(file), found, key, (), 4) for key, metric in METRICS.items() if metric.corpus}
            | {f"{key}_missing": found.get(f"{key}_missing") for key in METRICS},
        }
        for name, file, found in zip(names, files, content, strict=True)
    ]


def of_captions() -> dict[str, Metric]:
    """The metrics that a caption by itself has; captions are sorted by the first that all have."""
    names = sorted((name for name, metric in METRICS.items() if metric.each), key=lambda name: name != "cider")
    return {name: METRICS[name] for name in names}


def _caption(
    where: str, entry: Mapping[str, Any], references: Sequence[str], tokens: Tokens, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """What the report keeps of a caption; ``references`` are what people said of the photo."""
    tokenizer = settings.get("tokenizer", "")
    words = entry.get("words", None if tokenizer == "unigram" else entry["caption"].split())
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise SatError(f"{where}: 'words' must be a list of texts, and is {quoted(words)}")
    maps = {name: packed(where, entry.get(name), len(words), name) for name in ("attention", "evidence")}
    others = list_of_objects({"alternatives": [], **entry}, "alternatives", where)
    return {
        "caption": detokenize(words, tokenizer),
        "words": words,
        "settings": dict(settings),
        "unsupported": _unsupported(words, references, tokens),
        "complete": entry.get("complete"),
        "log_probability": _numbers(where, entry, "log_probability", (), 3),
        "word_log_probabilities": _numbers(where, entry, "word_log_probabilities", (len(words),), 4),
        **{key: _numbers(where, entry, key, (), 1) for key in of_captions()},
        **{name: each for name, each in maps.items() if each is not None},
        "gate": _numbers(where, entry, "gate", (len(words),), 3),
        "locations": _numbers(where, entry, "locations", (len(words), 2)),
        "size": _numbers(where, entry, "size", (2,)),
        "visible_box": _numbers(where, entry, "visible_box", (4,), 3),
        "offset": _numbers(where, entry, "offset", (2,), 3),
        "alternatives": [
            {
                "caption": str(other.get("caption", "")),
                "log_probability": _numbers(f"{where}: alternatives[{number}]", other, "log_probability", (), 2),
            }
            for number, other in enumerate(others)
        ],
    }


def _unsupported(words: Sequence[str], references: Sequence[str], tokens: Tokens) -> list[int]:
    """The numbers of the words that no reference has, without function words; with characters, of such pieces."""
    if tokens == "characters":
        return [number for number, piece in enumerate(words) if not any(piece.strip() in text for text in references)]
    known = {word for text in references for word in words_of(text, tokens)} | FUNCTION_WORDS
    return [number for number, word in enumerate(words) if not known.issuperset(words_of(word, tokens))]


def _numbers(where: str, entry: Mapping[str, Any], key: str, shape: tuple[int, ...], digits: int = 0) -> Any:
    """A list of numbers of that shape, or None where an entry has none; without digits they are whole numbers."""
    value = entry.get(key)
    if value is None or value == []:
        return None
    try:
        found = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        found = np.empty(0)
    if found.shape != shape or not np.isfinite(found).all():
        number = f"{' × '.join(map(str, shape))} numbers" if shape else "a number"
        raise SatError(f"{where}: {key!r} must be {number}, and is {quoted(value)}")
    return found.round(digits).tolist() if digits else found.astype(int).tolist()
