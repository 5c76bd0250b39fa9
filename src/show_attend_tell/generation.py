"""From features to captions: search, then rerank. Everything that makes captions comes through here.

B photos · L locations · D annotation size.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

from show_attend_tell.backends.base import Backend
from show_attend_tell.errors import InvalidValue
from show_attend_tell.rerank import Reranker
from show_attend_tell.rerank.class_words import ClassWords
from show_attend_tell.rerank.confidence import Confidence
from show_attend_tell.search.beam import beam_search
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.filters import SecondUse, word_filters
from show_attend_tell.search.hypotheses import Hypothesis, diverse, force, rank
from show_attend_tell.search.sampling import sample

__all__ = ["GenerationConfig", "explain", "generate", "photo_seed", "search_candidates", "with_evidence"]


def generate(
    backend: Backend,
    features: Any,
    config: GenerationConfig,
    *,
    seeds: Sequence[int],
    confidence: Confidence | None = None,
    evidence: bool = False,
    **helpers: Any,
) -> list[list[Hypothesis]]:
    """The captions of photos, best first for each, of features (B, L, D); ``helpers`` are `search_candidates`'.

    With ``num_captions``, the others differ from the first in content; captions drawn at random are in the order of
    their drawing. With ``confidence``, the first has that of its words, and ``min_confidence`` may choose it. With
    ``evidence``, the first has it.
    """
    found = search_candidates(backend, features, config, seeds=seeds, **helpers)
    if not config.do_sample:
        found = [rank(each, config.length_penalty, config.rerank_weight) for each in found]
        if confidence is not None:
            found = confidence.add(backend, features, found, config.min_confidence)
        if config.num_captions is not None:
            found = [diverse(each, config.num_captions, config.length_penalty, config.rerank_weight) for each in found]
    if evidence:
        best = with_evidence(backend, features, [each[0] for each in found], config)
        found = [[first, *each[1:]] for first, each in zip(best, found, strict=True)]
    return found


def with_evidence(
    backend: Backend, features: Any, captions: Sequence[Hypothesis], config: GenerationConfig
) -> list[Hypothesis]:
    """One caption for each photo's features (B, L, D), with its evidence where it has a word and the decoder has it."""
    size, made = backend.batch_size(config), list(captions)
    said = [photo for photo, caption in enumerate(captions) if caption.words]
    for start in range(0, len(said), size):
        part = said[start : start + size]
        maps = backend.evidence(features[part], [captions[photo] for photo in part], config)
        for photo, each in zip(part, maps or [], strict=maps is not None):
            made[photo] = dataclasses.replace(captions[photo], evidence=each)
    return made


def search_candidates(
    backend: Backend,
    features: Any,
    config: GenerationConfig,
    *,
    seeds: Sequence[int],
    reranker: Reranker | None = None,
    class_words: ClassWords | None = None,
    second_use: SecondUse | None = None,
) -> list[list[Hypothesis]]:
    """What the search finds for each photo by its seed, with rerank scores from a reranker; `rank` orders it."""
    size, found = backend.batch_size(config), []
    for start in range(0, len(features), size):
        part = slice(start, start + size)
        session, filters = backend.session(features[part], config, seeds=seeds[part]), word_filters(config)
        if config.do_sample:
            apart = [seed + 1 for seed in seeds[part]]  # from the locations' seeds
            found += sample(session, config, apart, filters)
            continue
        if second_use is not None and config.repetition_cost:
            filters.append(second_use.filter(config.repetition_cost))
        if class_words is None or not config.class_weight:
            found += beam_search(session, config, filters)
            continue
        raised = class_words.filter(features[part], config.class_weight)
        found += raised.named(beam_search(session, config, [*filters, raised]))
    return found if reranker is None or config.do_sample else rescored(backend, features, found, config, reranker)


def rescored(
    backend: Backend, features: Any, found: list[list[Hypothesis]], config: GenerationConfig, reranker: Reranker
) -> list[list[Hypothesis]]:
    """The hypotheses of each photo with their rerank scores, by the photos' features (B, L, D)."""
    scores = reranker.scores(backend, features, found, config.rare_word_exponent)
    return [
        [dataclasses.replace(hypothesis, rerank_score=score) for hypothesis, score in zip(each, of_photo, strict=True)]
        for each, of_photo in zip(found, scores, strict=True)
    ]


def explain(backend: Backend, features: Any, ids: list[int], config: GenerationConfig, seed: int) -> Hypothesis:
    """A given caption, word ids with the end token, of one photo's features (1, L, D), by teacher forcing."""
    if len(ids) > 1000:
        raise InvalidValue(f"the caption has {len(ids) - 1:,} words: give at most 999")
    forced = GenerationConfig(beam_size=1, attention_mode=config.attention_mode, max_length=len(ids))
    return force(backend.session(features, forced, seeds=[seed]), ids)


def photo_seed(seed: int, identity: bytes) -> int:
    """A seed for one photo, from the user's seed and what identifies the photo: 32 bits of a hash of both."""
    return int.from_bytes(hashlib.sha256(f"{seed} ".encode() + identity).digest()[:4])
