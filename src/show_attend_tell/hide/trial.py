"""What if it were hidden? What is hidden of a caption's photo, and the value that says what came out.

H, W sides of the photo in pixels · S side of the encoder's square · V variants: the place, then the controls.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from PIL import Image

from show_attend_tell.caption import Caption
from show_attend_tell.data.photos import Photo
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import InvalidValue, PhotoError
from show_attend_tell.generation import GenerationConfig, explain, photo_seed
from show_attend_tell.hide.masks import (
    CELLS,
    Mask,
    move,
    moves,
    of_place,
    on_cells,
    on_photo,
    on_square,
    outline,
    runs,
)
from show_attend_tell.hide.pixels import blurred, hide
from show_attend_tell.hide.verdict import Verdict, Word, judge, plain, words_of
from show_attend_tell.messages import shorten
from show_attend_tell.search.registry import Filter
from show_attend_tell.show.page import data_uri
from show_attend_tell.show.pictures.maps import Rectangle
from show_attend_tell.values import Record
from show_attend_tell.vision.prepared import prepare_photo

# of the everyday models, as research/hide.py measured it
USUALLY = "Of 1,781 nouns in everyday models’ captions, 61 % disappeared when hidden here, 20 % when hidden elsewhere."
SHOWN = 32  # pixels of a side of what hides, on a page: it has no detail


class Variant(NamedTuple):
    """A photo with a place hidden, captioned again."""

    caption: Caption
    mask: Mask  # the place (H, W), in the photo's own pixels
    log_p: float | None  # of the word, given the same words before it, in nats; None without a word
    verdict: Verdict | None  # what became of the word


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Hidden:
    """The results of hiding a place of a photo, and the same outline in other places, and captioning it again."""

    before: Caption  # of the whole photo
    step: int | None  # the number of the word that is looked for; None for a place without a word
    lit: bool  # whether the place is what the word lit, and not another one
    log_p: float | None  # of the word for the whole photo, in nats
    here: Variant  # the place
    controls: list[Variant]  # the same outline in other places
    cover: Image.Image  # what hides: the encoder's square without detail

    def __repr__(self) -> str:
        return f"Hidden({' '.join(self.lines)!r})"

    @property
    def caption(self) -> Caption:
        """The caption with the place hidden."""
        return self.here.caption

    @property
    def mask(self) -> Mask:
        """The place (H, W), in the photo's own pixels."""
        return self.here.mask

    @property
    def word(self) -> str | None:
        """The word that is looked for."""
        return None if self.step is None else self.before.words[self.step]

    @property
    def stayed(self) -> int:
        """In how many controls the word stays, or is renamed."""
        return sum(each.verdict is not None and each.verdict.kind != "gone" for each in self.controls)

    @property
    def lines(self) -> list[str]:
        """What came out, in sentences."""
        word, verdict = self.word, self.here.verdict
        if verdict is None:
            return [f"This place hidden: “{self.caption}”."]
        usual = 2 * self.stayed > len(self.controls)
        if verdict.kind == "stays":
            rest = "stays: the rest of the photo supports it too" if self.lit else "stays without this place"
            outcome = f"{rest if usual else 'stays: but other places matter to it'}."
        else:
            name = "gone" if verdict.kind == "gone" else f"renamed {verdict.word} (related by WordNet)"
            outcome = f"is {name}{'' if usual else ', as it mostly is whatever is hidden'}: “{self.caption}”."
        low, *_, high = sorted(cast("float", each.log_p) for each in self.controls)
        before, here, low, high = (math.exp(cast("float", log_p)) for log_p in (self.log_p, self.here.log_p, low, high))
        return [
            f"{word} {outcome} Hidden in {len(self.controls)} other places, it stayed in {self.stayed}.",
            f"Probability of {word} after the same words: {before:.2f} → {here:.2f}; hidden elsewhere {low:.2f} to "
            f"{high:.2f}.",
            *([USUALLY] if self.lit else []),
        ]

    def to_dict(self) -> Record:
        """Plain values for JSON, without the photo, as `show/page/hide.js` takes them; ``cover`` is a small picture.

        A mask is on a ``grid`` of what the encoder saw, as lengths of runs, row after row: visible, hidden, visible …
        """
        box = box_of(self.before)
        here, *elsewhere = (
            {
                "caption": each.caption.text,
                "mask": runs(on_cells(each.mask, box)),
                "log_p": each.log_p,
                "verdict": each.verdict and each.verdict.kind,
                "renamed": each.verdict and each.verdict.word,
            }
            for each in (self.here, *self.controls)
        )
        return {
            "word": self.word,
            "step": self.step,
            "lines": self.lines,
            "log_p": self.log_p,
            "grid": [CELLS, CELLS],
            "here": here,
            "elsewhere": elsewhere,
            "cover": data_uri(self.cover, SHOWN),
        }


def hide_place(
    captioner: Any, before: Caption, word: str | int | None, place: Any, filters: Sequence[Filter]
) -> Hidden:
    """Hide a place of a caption's photo, and as controls the same outline in five other places, and caption it again.

    The place of a word is the outline of a fifth of what the encoder saw, with most of the word's evidence, so the
    caption needs its evidence. Another place is boxes (left, top, right, bottom) or a mask (H, W), true where it is
    hidden, in the photo's own pixels. The controls are where it overlaps itself least; what leaves on one side comes
    back on the other. All are captioned in one batch, by the `Captioner` and the filters of the caption.

    Raises `InvalidValue` for a word or a place that cannot be hidden and for a caption that this captioner does not
    make of the photo, and `PhotoError` for a photo that cannot be read any more.
    """
    step, masks = places(before, word, place)
    config = captioner.resolve_config(**settings_of(before, captioner.name))
    backend = captioner.backend
    vocabulary = captioner.checkpoint.vocabulary
    preprocessing = backend.encoder.preprocessing
    photo = prepare_photo(cast("Photo", before.kept), preprocessing)
    if isinstance(photo, PhotoError):
        raise photo
    square = photo.pixels
    cover = blurred(square)
    hidden = [on_square(mask, box_of(before), square.shape[-1]) for mask in masks]
    features = backend.encode(hide(square, cover, hidden))
    seed = photo_seed(config.seed, square.tobytes())
    seeds = [seed] * len(features)
    whole, *found = (best for best, *_ in captioner.generate(features, config, seeds=seeds, filters=filters))
    words = words_of(whole, vocabulary)
    now = None if step is None else step_in(words, before, step)
    log_p: list[float | None] = [None] * len(features)
    verdicts: list[Verdict | None] = [None] * len(found)
    if now is not None:
        ids = [*whole.words[: now + 1], Vocabulary.END]
        forced = [explain(backend, features[[number]], ids, config, seed) for number in range(len(features))]
        log_p = [hypothesis.word_log_probabilities[now] for hypothesis in forced]
        verdicts = [judge(words[now], words, words_of(best, vocabulary)) for best in found]
    captions = [captioner.assemble([best], config, size=before.size, source=before.source) for best in found]
    here, *controls = map(Variant, captions, masks, log_p[1:], verdicts)
    colors = 255 * (cover.transpose(1, 2, 0) * preprocessing.std + preprocessing.mean)
    return Hidden(
        before=before,
        step=step,
        lit=place is None,
        log_p=log_p[0],
        here=here,
        controls=controls,
        cover=Image.fromarray(colors.round().clip(0, 255).astype(np.uint8)),
    )


def places(caption: Caption, word: str | int | None, place: Any) -> tuple[int | None, list[Mask]]:
    """The number of a word, and what is hidden: the place of its evidence or another one, then the controls."""
    if not isinstance(caption, Caption):
        raise InvalidValue(f"{shorten(caption)} is not a caption: give one that this captioner made of a photo")
    box, size = box_of(caption), caption.size
    assert size is not None  # of what has a box
    step = None if word is None else find_word(caption, word)
    if place is not None:
        mask = of_place(place, size, box)
    elif step is None:
        raise InvalidValue("there is nothing to hide: give a word of the caption or a place")
    else:
        mask = on_photo(outline_of(caption, step), size, box)
    cells = on_cells(mask, box)
    if not cells.any() or cells.all():
        much = "all" if cells.any() else "nothing"
        raise InvalidValue(f"this place is {much} of what the encoder saw of the photo: give a part of it")
    return step, [mask, *(move(mask, by, box) for by in moves(cells))]


def settings_of(caption: Caption, model: str) -> Record:
    """The settings that a caption was made with, by a model of that name.

    Raises `InvalidValue` for a caption by another model.
    """
    settings = dict(caption.settings)
    if settings["model"] != model:
        raise InvalidValue(f"this caption is by {settings['model']}, not by {model}: hide with that model")
    for name in ("model", "tokenizer", "evidence"):
        settings.pop(name, None)
    usual = GenerationConfig().values() if "beam_size" in settings else {}
    return usual | settings  # what is usual is not named


def step_in(words: Sequence[Word], before: Caption, step: int) -> int:
    """A word's number in the caption that the captioner makes of the whole photo now.

    It may be another one where the photo has other pixels now: a caption keeps a smaller copy of a large photo that did
    not come from a file. Raises `InvalidValue` for a caption without the word.
    """
    shown = [each.shown for each in words]
    word = plain(before.words[step])
    if word not in shown:
        raise InvalidValue(
            f"the model's caption of this photo is “{' '.join(shown)}”, without {word!r}: "
            "hide a word of the caption that the model makes with these settings"
        )
    return step if shown[step : step + 1] == [word] else shown.index(word)


def find_word(caption: Caption, word: str | int) -> int:
    """The number of a word of a caption, by itself or by its number; singular and plural are the same.

    Raises `InvalidValue` for a word that the caption does not have.
    """
    known = [plain(each) for each in caption.words]
    if isinstance(word, str) and plain(word) in known:
        return known.index(plain(word))
    if str(word) in map(str, range(len(known))):
        return int(word)
    raise InvalidValue(
        f"the caption has no word {shorten(word)}: give one of {', '.join(caption.words)}, or its number from 0"
    )


def outline_of(caption: Caption, step: int) -> Mask:
    """The outline (C, C) of a word's evidence. Raises `InvalidValue` for a word or a caption without evidence."""
    if caption.evidence is None:
        raise InvalidValue("this caption has no evidence: caption the photo with evidence=True, or give a place")
    found = outline(caption.evidence[step], caption.offset)
    if found is None:
        raise InvalidValue(f"the photo has no evidence for {caption.words[step]!r}: choose another word, or a place")
    return found


def box_of(caption: Caption) -> Rectangle:
    """What the encoder saw of a caption's photo. Raises `InvalidValue` for a caption without its photo."""
    if caption.kept is None or caption.visible_box is None:
        raise InvalidValue("this caption has no photo: caption a photo, and hide something of that caption")
    return caption.visible_box
