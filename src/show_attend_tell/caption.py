"""`Caption`: the words for a photo, and where in the photo each comes from; as text, JSON, picture and page.

T words, end token excluded · L locations in a grid of rows and columns.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from show_attend_tell.data.photos import FEWEST, open_photo
from show_attend_tell.data.tokenizers import KARPATHY, Unigram, detokenize
from show_attend_tell.errors import SatError
from show_attend_tell.files import as_path, atomic_write, write_text
from show_attend_tell.messages import shorten
from show_attend_tell.show import page, pictures
from show_attend_tell.show.outputs import OUTPUTS
from show_attend_tell.show.pictures import Shown, Style
from show_attend_tell.show.pictures.figure import FigureData, of_log_odds
from show_attend_tell.values import Array, Record

UNLIKE = "unlike the photos that it learnt from"
CHECK = 0.5  # confidence below which a word is marked, to be checked


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Caption:
    """A caption and the evidence for it; prints as its sentence, `text`."""

    words: list[str]  # T
    log_probability: float  # in nats, end token included, with the attention mode in `settings`
    word_log_probabilities: NDArray[np.float64]  # log p of each word, given those before (T,), in nats
    attention: NDArray[np.float32] | None  # α (T, rows, columns), each map sums to one
    gate: NDArray[np.float32] | None  # β (T,), 0 to 1; None for a model without a gate
    locations: NDArray[np.int64] | None  # (T, 2) row and column that the decoder read; None with the mode "mean"
    complete: bool  # False when the caption was truncated at its maximum length
    alternatives: list[tuple[str, float]]  # other captions of the beam with their log-probabilities, best first
    settings: Record  # model and generation settings; the tokenizer if it is not the English one
    evidence: NDArray[np.float32] | None = None  # (T, rows, columns) in nats, see `Backend.evidence`; None unless asked
    rerank_score: float | None = None  # agreement with the photo's visual n-grams, from 0; None without reranker
    word_confidence: NDArray[np.float64] | None = None  # (T,) 0 to 1: probability that a word is right; NaN: not judged
    unlike: bool = False  # whether the photo is unlike those that the model learnt from, where these were few
    source: str | None = None  # the photo's path, when it came from one
    size: tuple[int, int] | None = None  # the photo's width and height in pixels
    visible_box: tuple[float, float, float, float] | None = None  # what the encoder saw of it, in its pixels
    offset: tuple[float, float] = (0.0, 0.0)  # where a location looks, down and right of its cell's middle, in cells
    passed_over: str | None = None  # what was left out of the photo's file, so that its pixels could be read
    kept: Path | Image.Image | None = field(default=None, repr=False)  # where `photo` comes from
    others: Sequence["Caption"] = ()  # the other captions whole, where ``num_captions`` asked for several
    hidden: Sequence[Mapping[str, Any]] = ()  # what came out when words were hidden: `Hidden.to_dict`, if asked for

    @property
    def text(self) -> str:
        """The sentence."""
        return detokenize(self.words, self.settings.get("tokenizer", KARPATHY.name))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        source = "" if self.source is None else f", source={self.source!r}"
        return f"Caption({self.text!r}, log_probability={self.log_probability:.2f}{source})"

    @property
    def confidence(self) -> float | None:
        """The share of the caption's judged words that is expected to be right; None where none is judged."""
        if self.word_confidence is None or np.isnan(self.word_confidence).all():
            return None
        return float(np.nanmean(self.word_confidence))

    @property
    def to_check(self) -> list[str]:
        """The words that are more probably wrong than right: their confidence is below 0.5."""
        return [self.words[number] for number in self._to_check()]

    @property
    def doubts(self) -> list[str]:
        """`to_check`, and after it that the photo is `unlike` those that the model learnt from."""
        return self.to_check + [UNLIKE] * self.unlike

    def _to_check(self) -> list[int]:
        if self.word_confidence is None:
            return []
        return [number for number, each in enumerate(self.word_confidence) if each < CHECK]

    @property
    def reaches_min_confidence(self) -> bool | None:
        """Whether all judged words have the ``min_confidence`` that was asked for; None where none was."""
        if "min_confidence" not in self.settings or self.word_confidence is None:
            return None
        judged = self.word_confidence[~np.isnan(self.word_confidence)]
        return bool(len(judged) and judged.min() >= self.settings["min_confidence"])

    @property
    def warning(self) -> str | None:
        """Why the caption is a guess, and its confidence halved: its photo has too few pixels, or is `unlike`."""
        if self.size is not None and min(self.size) < FEWEST:
            return f"{self.size[0]} × {self.size[1]} pixels are too few to see what is there: the caption is a guess"
        return f"{UNLIKE}: the caption is a guess" if self.unlike else None

    @property
    def photo(self) -> Image.Image | None:
        """The photo, upright and in RGB, or None for a caption without one.

        A photo that came from a file is read from it again each time, so that many captions take little memory. Of any
        other photo this is a copy, with at most 1,000 pixels a side. Raises `SatError` for a file that is gone.
        """
        return open_photo(self.kept) if isinstance(self.kept, Path) else self.kept

    def to_dict(self) -> Record:
        """Plain values for JSON: everything but the photo itself."""

        def rounded(array: Array | None) -> Any:
            return None if array is None else np.round(array.astype(float), 6).tolist()

        confidence = rounded(self.word_confidence)
        return {
            "source": self.source,
            "caption": self.text,
            "words": self.words,
            "log_probability": self.log_probability,
            "word_log_probabilities": rounded(self.word_log_probabilities),
            "complete": self.complete,
            "attention": rounded(self.attention),
            "evidence": rounded(self.evidence),
            "gate": rounded(self.gate),
            "locations": None if self.locations is None else self.locations.tolist(),
            "rerank_score": self.rerank_score,
            "confidence": None if self.confidence is None else round(self.confidence, 6),
            "word_confidence": None if confidence is None else [None if each != each else each for each in confidence],
            "reaches_min_confidence": self.reaches_min_confidence,
            "warning": self.warning,
            "alternatives": [{"caption": text, "log_probability": score} for text, score in self.alternatives],
            "size": None if self.size is None else list(self.size),
            "visible_box": None if self.visible_box is None else list(self.visible_box),
            "offset": list(self.offset),
            "settings": self.settings,
            **({"passed_over": self.passed_over} if self.passed_over else {}),
            **({"hidden": self.hidden} if self.hidden else {}),
        }

    def to_row(self) -> Record:
        """What a table says of the caption; ``to_check`` is `doubts` with commas, or None where none was judged."""
        return {
            "caption": self.text,
            "confidence": None if self.confidence is None else round(self.confidence, 6),
            "to_check": None if self.word_confidence is None else ", ".join(self.doubts),
            "log_probability": round(self.log_probability, 6),
            "complete": self.complete,
        }

    def html(self, *, compare: Iterable["Caption"] = ()) -> str:
        """One page to explore the caption in, word by word, that needs no other file and no network.

        Captions in ``compare``, such as another model's, are on the page too. With `Caption.hidden` it shows what
        happens when a word's place is hidden. Raises `SatError` for a caption without its photo.
        """
        captions = [page.with_image(caption.to_dict(), caption.photo) for caption in self._with(compare)]
        return page.captions_page(captions, title=Path(self.source).name if self.source else self.text)

    def _repr_html_(self) -> str | None:
        """How Jupyter shows a caption: as a page, or as text when it has no photo or the photo's file is gone."""
        try:
            return page.frame(self.html())
        except SatError:
            return None

    def picture(
        self, *, compare: Iterable["Caption"] = (), shown: Shown = "evidence", dark: bool = False
    ) -> Image.Image:
        """The photo once for every word, light where its evidence is, or its attention (paper sec. 5.4).

        ``compare`` has captions to show beside it, such as another model's. ``shown`` "attention" shows α, and so does
        a caption without evidence. ``dark`` draws on a dark page. All words of a caption share one scale. Raises
        `SatError` for a caption without its photo or of a model without attention.
        """
        style = Style(shown=shown, dark=dark)
        return pictures.strip([caption._figure_data(shown) for caption in self._with(compare)], style)

    def save(
        self,
        file: str | os.PathLike[str],
        *,
        compare: Iterable["Caption"] = (),
        shown: Shown = "evidence",
        dark: bool = False,
    ) -> None:
        """Write the caption's picture, whole or not at all, in the format that the file's name ends in.

        That is .png or .jpg, the `picture`; .svg, the same with letters that stay letters, for papers and slides;
        .gif or .webp, which move from word to word; .html, a page to explore; .json, everything for a program; or a
        format that a plugin registers. The options are `picture`'s. Raises `SatError` for another ending and where
        `picture` does.
        """
        file = as_path(file)
        form = file.suffix.lower().removeprefix(".").replace("jpeg", "jpg")
        if form == "html":
            write_text(file, self.html(compare=compare))
        elif write := OUTPUTS.get(form):
            write_text(file, write([caption.to_dict() for caption in self._with(compare)]))
        elif form not in pictures.FORMATS:
            raise SatError(f"{file}: name a file that ends in .{', .'.join(pictures.FORMATS.names())}, .json or .html")
        else:
            figures = [caption._figure_data(shown) for caption in self._with(compare)]
            style = Style(shown=shown, dark=dark)
            atomic_write(file, lambda scratch: pictures.save(scratch, figures, style, form=form))

    def _with(self, compare: Iterable["Caption"]) -> list["Caption"]:
        others = list(compare) if isinstance(compare, Iterable) else [None]
        if not all(isinstance(caption, Caption) for caption in others):
            raise SatError(f"compare is {shorten(compare)}: give a list of captions")
        return [self, *others]

    def _figure_data(self, shown: Shown) -> FigureData:
        photo = self.photo
        if photo is None or self.visible_box is None or self.attention is None:
            raise SatError("this caption has no photo or no attention to draw: caption a photo with an attention model")
        width, height = self.size or photo.size
        x, y = photo.width / width, photo.height / height
        left, top, right, bottom = self.visible_box
        note = [self.settings["model"]]
        note += ["no evidence: attention is shown"] if shown == "evidence" and self.evidence is None else []
        return FigureData(
            photo=photo,
            words=self.words,
            between="" if self.settings.get("tokenizer") == Unigram.name else " ",
            attention=self.attention,
            evidence=None if self.evidence is None else of_log_odds(self.evidence, self.word_log_probabilities),
            gate=self.gate,
            visible_box=(left * x, top * y, right * x, bottom * y),
            offset=self.offset,
            locations=self.locations,
            to_check=self._to_check(),
            title=f"{self}{'' if self.complete else ' …'}",
            note=" · ".join(note),
        )
