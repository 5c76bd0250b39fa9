"""Beam search over any `Walker`; a beam of one is greedy search.

B photos · B′ those that still have an unfinished path · P paths, the beam · P′ paths that are followed · K vocabulary ·
N continuations · t words so far.
"""

from typing import Any

import numpy as np

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.search.hypotheses import NEVER, Hypothesis, Trail, ranked, read_back, repeating
from show_attend_tell.search.session import Searched, taken

CPU_PATHS, GPU_PATHS = 400, 1000  # how many paths run fastest together; a CPU's share its cache
CPU_PHOTOS = 100  # at most, since more only take more memory


def photos_together(beam: int, device: Any) -> int:
    """How many photos to search at once, of a long list, with that beam."""
    return max(1, min(CPU_PHOTOS, CPU_PATHS // beam) if device.type == "cpu" else GPU_PATHS // beam)


def check_beam(beam: int, max_length: int) -> None:
    """Raise `SatError` for a beam or a longest caption below one."""
    if beam < 1 or max_length < 1:
        raise SatError(f"beam is {beam} and the longest caption {max_length}: give at least 1 of each")


def search(
    walker: Searched,
    *,
    beam: int = 1,
    max_length: int = 40,
    length_normalisation: float = 0.0,
    allow_repetitions: bool = True,
) -> list[list[Hypothesis]]:
    """The ``beam`` best captions of each photo that a beam search finds, best first; a beam of one is greedy.

    All photos of the walker are searched at once. Scores are sums of log-probabilities, never renormalised over the
    words allowed. A greedy search never begins with the end token, so that its caption is not empty; a wider beam has
    other captions, and its empty one comes last. A finished path is frozen: it keeps its score, and its place until
    better paths push it out. The search ends when every path of every photo is finished, or after ``max_length`` words,
    the end token counted; then each photo's paths are `ranked`. Without ``allow_repetitions`` no path says a word twice
    in a row, or the same three words in a row twice. Finished paths and photos are not followed any more, unless the
    walker follows the `whole`.
    Raises `SatError` for a beam or length below one and for a decoder whose probabilities are not finite numbers.
    """
    check_beam(beam, max_length)
    scores = np.full((walker.photos, beam), NEVER)
    scores[:, 0] = 0.0  # all paths are equal at first: only one may have children
    finished = np.zeros((walker.photos, beam), dtype=bool)
    photos = np.arange(walker.photos)  # (B′,)
    live = np.tile(np.arange(walker.paths), (walker.photos, 1))  # (B′, P′)
    words = np.full_like(live, walker.vocabulary_size)
    said = np.empty((*live.shape, 0), dtype=np.int64)  # by each followed path so far (B′, P′, t)
    trail: list[Trail] = []

    for _ in range(max_length):
        glimpse = walker.step(words)
        before, done = scores[photos], finished[photos]  # (B′, P)
        running = taken(np.where(done, NEVER, before), live)  # (B′, P′)
        forbidden = [Vocabulary.UNKNOWN, *([Vocabulary.END] if beam == 1 and not trail else [])]
        again = repeating(said) if trail and not allow_repetitions else None
        new = walker.best(running, beam, forbidden, again)
        # a finished path has one child: itself, at no cost
        children = np.concatenate([np.where(done, before, NEVER), new.scores], axis=1)  # (B′, P + N)
        chosen = np.argsort(-children, axis=1, kind="stable")[:, :beam]
        kept, frozen, child = taken(children, chosen), chosen < beam, np.maximum(chosen - beam, 0)
        path = np.where(frozen, np.minimum(chosen, live.shape[1] - 1), taken(new.paths, child))
        words = np.where(frozen, Vocabulary.END, taken(new.words, child))
        parents = np.where(frozen, chosen, taken(live, path))
        trail.append(Trail(photos, words, parents, taken(glimpse.rows, path), *glimpse[1:]))
        ended = words == Vocabulary.END
        scores[photos], finished[photos] = kept, ended

        going = ~ended & (kept > NEVER)
        unfinished = going.sum(1)  # (B′,)
        if not unfinished.any():
            break
        some = None
        if not walker.whole:
            if not unfinished.all():
                some = unfinished > 0
                photos, words, path, going, said = (each[some] for each in (photos, words, path, going, said))
            live = np.argsort(~going, axis=1, kind="stable")[:, : int(unfinished.max())]
            words, path = taken(words, live), taken(path, live)
            path = np.where(taken(going, live), path, path[:, :1])  # what fills up adds no history
        said = np.concatenate([taken(said, path), words[..., None]], axis=-1)
        walker.follow(some, path)

    return [ranked(found, length_normalisation) for found in read_back(trail, scores, finished)]
