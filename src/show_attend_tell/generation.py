"""From features to captions: search, then rerank. Everything that makes captions comes through `Decoding`.

B photos · L locations · D annotation size.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from show_attend_tell.backends.base import Backend
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.tokenizers import KARPATHY
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import InvalidValue
from show_attend_tell.messages import shorten
from show_attend_tell.rerank import Reranker
from show_attend_tell.rerank.class_words import ClassWords, class_words_of
from show_attend_tell.rerank.confidence import Confidence
from show_attend_tell.rerank.registry import load_reranker
from show_attend_tell.search.beam import beam_search
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.filters import word_filters
from show_attend_tell.search.hypotheses import Hypothesis, diverse, force, forced_steps, rank
from show_attend_tell.search.registry import FILTERS, Filter, MakeFilter
from show_attend_tell.search.session import DecoderSession
from show_attend_tell.values import Array

__all__ = ["Decoding", "GenerationConfig", "explain", "photo_seed", "with_evidence"]


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """All that turns features into captions, but for the back end that computes: one value, used everywhere.

    A part that is None is not used, whatever the configuration says. `dataclasses.replace` gives another one, for
    example with another ``config``.
    """

    vocabulary: Vocabulary
    config: GenerationConfig = field(default_factory=GenerationConfig)
    reranker: Reranker | None = None
    class_words: ClassWords | None = None
    confidence: Confidence | None = None
    filters: Sequence[Filter] = ()  # the caller's own, beside those of the configuration
    kinds_of_filters: dict[str, MakeFilter] = field(default_factory=dict, repr=False, compare=False)  # made so far

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "Decoding":
        """The decoding of a model, by its own configuration. Raises `SatError` for damaged or unknown parts."""
        reranker = load_reranker(checkpoint)
        class_words = class_words_of(checkpoint)
        confidence = None
        if checkpoint.confidence is not None:
            confidence = Confidence(checkpoint.confidence, reranker, class_words)
        return cls(
            vocabulary=checkpoint.vocabulary,
            config=checkpoint.generation,
            reranker=reranker,
            class_words=class_words,
            confidence=confidence,
        )

    def captions(
        self, backend: Backend, features: Any, *, seeds: Sequence[int], evidence: bool = False
    ) -> list[list[Hypothesis]]:
        """The captions of photos, best first for each, of features (B, L, D); ``seeds`` has one a photo.

        With ``num_captions``, the others differ from the first in content. The first has the confidence of its words,
        and ``min_confidence`` may choose it. With ``evidence``, the first has it.
        """
        config = self.config
        captions = [self.ranked(of_photo) for of_photo in self.candidates(backend, features, seeds=seeds)]
        if self.confidence is not None:
            captions = self.confidence.add(backend, features, captions, config.min_confidence)
        if config.num_captions is not None:
            order = config.length_penalty, config.rerank_weight
            captions = [diverse(of_photo, config.num_captions, *order) for of_photo in captions]
        if evidence:
            first = with_evidence(backend, features, [of_photo[0] for of_photo in captions], config)
            captions = [[best, *of_photo[1:]] for best, of_photo in zip(first, captions, strict=True)]
        return captions

    def candidates(self, backend: Backend, features: Any, *, seeds: Sequence[int]) -> list[list[Hypothesis]]:
        """What the search finds for each photo by its seed, with rerank scores from the reranker; `rank` orders it."""
        config = self.config
        size = backend.batch_size(config)
        candidates: list[list[Hypothesis]] = []
        for start in range(0, len(features), size):
            part = slice(start, start + size)
            candidates += self.searched(backend, features[part], seeds[part])
        if self.reranker is None:
            return candidates
        return rescored(backend, features, candidates, config, self.reranker)

    def searched(self, backend: Backend, features: Any, seeds: Sequence[int]) -> list[list[Hypothesis]]:
        """The captions that one search of some photos finds, without rerank scores."""
        config = self.config
        session = backend.session(features, config, seeds=seeds)
        filters = [*word_filters(config, self.vocabulary), *self.filters, *self.filters_with_settings()]
        if self.class_words is None or not config.class_weight:
            return beam_search(session, config, filters)
        of_classes = self.class_words.filter(features, config.class_weight)
        return of_classes.named(beam_search(session, config, [*filters, of_classes]))

    def filters_with_settings(self) -> list[Filter]:
        """The registered filters whose setting is not 0. Raises `SatError` for one that is not registered."""
        settings = {"repetition_cost": self.config.repetition_cost, **dict(self.config.filters)}
        used = {name: value for name, value in settings.items() if value}
        for name in used.keys() - self.kinds_of_filters.keys():
            self.kinds_of_filters[name] = FILTERS[name](self.vocabulary)
        return [self.kinds_of_filters[name](value) for name, value in used.items()]

    def settings(self) -> dict[str, Any]:
        """How captions are made, in plain values: attention mode, beam size, length penalty, and what is not usual."""
        tokenizer = self.vocabulary.tokenizer
        cut = {} if tokenizer == KARPATHY else {"tokenizer": tokenizer.name}
        usual = GenerationConfig().values()
        changed = {name: value for name, value in self.config.values().items() if value != usual.get(name)}
        always = {name: getattr(self.config, name) for name in ("attention_mode", "beam_size", "length_penalty")}
        return cut | always | changed

    def ranked(self, captions: list[Hypothesis]) -> list[Hypothesis]:
        """The captions of one photo, best first by the configuration's score."""
        return rank(captions, self.config.length_penalty, self.config.rerank_weight)


def rescored(
    backend: Backend, features: Any, captions: list[list[Hypothesis]], config: GenerationConfig, reranker: Reranker
) -> list[list[Hypothesis]]:
    """The captions of each photo with their rerank scores, by the photos' features (B, L, D)."""
    scores = reranker.scores(backend, features, captions, config.rare_word_exponent)
    return [
        [dataclasses.replace(caption, rerank_score=score) for caption, score in zip(of_photo, its_scores, strict=True)]
        for of_photo, its_scores in zip(captions, scores, strict=True)
    ]


def with_evidence(
    backend: Backend, features: Any, captions: Sequence[Hypothesis], config: GenerationConfig
) -> list[Hypothesis]:
    """One caption for each photo's features (B, L, D), with its evidence where it has a word and the decoder has it."""
    size = backend.batch_size(config)
    explained = list(captions)
    with_words = [photo for photo, caption in enumerate(captions) if caption.words]
    for start in range(0, len(with_words), size):
        part = with_words[start : start + size]
        maps = backend.evidence(features[part], [captions[photo] for photo in part], config)
        for photo, evidence in zip(part, maps or [], strict=maps is not None):
            explained[photo] = dataclasses.replace(captions[photo], evidence=evidence)
    return explained


def check_filters(filters: Sequence[Filter]) -> tuple[Filter, ...]:
    """A caller's filters. Raises `InvalidValue` for what is no list of functions."""
    if not isinstance(filters, (list, tuple)) or not all(map(callable, filters)):
        raise InvalidValue(
            f"filters is {shorten(filters)}",
            remedy="give a list of functions of the paths' words and their photos, see search.filters.Filter",
        )
    return tuple(filters)


def explain(backend: Backend, features: Any, ids: list[int], config: GenerationConfig, seed: int) -> Hypothesis:
    """A given caption, word ids with the end token, of one photo's features (1, L, D), by teacher forcing."""
    if len(ids) > 1000:
        raise InvalidValue(f"the caption has {len(ids) - 1:,} words: give at most 999")
    return force(_forced(backend, features, ids, config, seed), ids)


def next_words(backend: Backend, features: Any, ids: list[int], config: GenerationConfig, seed: int) -> list[Array]:
    """log p of all words (K,) in the place of each word of a caption, after the words before it; as `explain`."""
    return [log_p[0] for _, log_p in forced_steps(_forced(backend, features, ids, config, seed), np.array([ids]))]


def _forced(backend: Backend, features: Any, ids: list[int], config: GenerationConfig, seed: int) -> DecoderSession:
    forced = GenerationConfig(beam_size=1, attention_mode=config.attention_mode, max_length=len(ids))
    return backend.session(features, forced, seeds=[seed])


def photo_seed(seed: int, identity: bytes) -> int:
    """A seed for one photo, from the user's seed and what identifies the photo: 32 bits of a hash of both."""
    return int.from_bytes(hashlib.sha256(f"{seed} ".encode() + identity).digest()[:4])
