"""Beam search over any `DecoderSession`; a beam of one is greedy search.

B photos · B′ those that still have an unfinished path · P paths, the beam · P′ paths that are followed · K vocabulary ·
N continuations.
"""

from collections.abc import Sequence

import numpy as np

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.filters import NEVER, apply
from show_attend_tell.search.hypotheses import PATH, Hypothesis, Steps, extend, rank, read_back
from show_attend_tell.search.registry import Filter
from show_attend_tell.search.session import DecoderSession, gather


def beam_search(session: DecoderSession, config: GenerationConfig, filters: Sequence[Filter]) -> list[list[Hypothesis]]:
    """The ``beam_size`` best captions of each photo that a beam search finds, by `rank` without reranker.

    All photos of the session are searched at once. Scores are sums of log-probabilities, never renormalized over the
    words allowed, and of what the filters add (`filters.word_filters`). A finished path is frozen: it keeps its score,
    and its rank until better paths push it out. The search ends when every path of every photo is finished, or after
    ``max_length`` words, the end token counted. Finished paths and photos are not computed any more, unless the session
    `keeps_all`.
    """
    beam = config.beam_size
    scores = np.full((session.photos, beam), NEVER)
    scores[:, 0] = 0.0  # all paths are equal at first: only one may have children
    filtered = np.zeros_like(scores)  # what the filters added, as part of the scores
    finished = np.zeros((session.photos, beam), dtype=bool)
    photos = np.arange(session.photos)  # (B′,)
    live = np.tile(np.arange(session.paths), (session.photos, 1))  # (B′, P′)
    words = np.full_like(live, session.vocabulary_size)
    paths = np.zeros((session.photos, beam, config.max_length), PATH)  # all words are the end token, 0
    steps: Steps = []

    for time in range(config.max_length):
        step = session.step(words)
        before, done = scores[photos], finished[photos]  # (B′, P)
        running = gather(np.where(done, NEVER, before), live)  # (B′, P′)
        added = apply(filters, gather(paths["word"][photos, :, :time], live), photos)
        new = session.best(running, beam, *added)
        # a finished path has one child: itself, at no cost
        children = np.concatenate([np.where(done, before, NEVER), new.scores], axis=1)  # (B′, P + N)
        chosen = np.argsort(-children, axis=1, kind="stable")[:, :beam]
        kept = gather(children, chosen)
        frozen = chosen < beam
        child = np.maximum(chosen - beam, 0)
        path = np.where(frozen, np.minimum(chosen, live.shape[1] - 1), gather(new.paths, child))
        words = np.where(frozen, Vocabulary.END, gather(new.words, child))
        parents = np.where(frozen, chosen, gather(live, path))
        more = gather(filtered[photos], parents) + np.where(frozen, 0.0, added.to(path, words))
        steps.append((photos, step))
        extend(paths, photos, parents, time, word=words, row=gather(step.rows, path), score=kept - more)
        ended = words == Vocabulary.END
        scores[photos] = kept
        filtered[photos] = more
        finished[photos] = ended

        going = ~ended & (kept > NEVER)
        unfinished = going.sum(1)  # (B′,)
        if not unfinished.any():
            break
        remaining = None
        if not session.keeps_all:
            if not unfinished.all():
                remaining = unfinished > 0
                photos, words, path, going = (of_photos[remaining] for of_photos in (photos, words, path, going))
            live = np.argsort(~going, axis=1, kind="stable")[:, : int(unfinished.max())]
            words, path = gather(words, live), gather(path, live)
            path = np.where(gather(going, live), path, path[:, :1])  # padding adds no history
        session.reorder(remaining, path)

    captions = read_back(steps, paths, scores - filtered, filtered, finished)
    return [rank(of_photo, config.length_penalty) for of_photo in captions]
