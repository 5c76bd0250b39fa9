"""Beam search over any `DecoderSession`; a beam of one is greedy search.

B photos · B′ those that still have an unfinished path · P paths, the beam · P′ paths that are followed · K vocabulary ·
N continuations · t words so far.
"""

from typing import Any

import numpy as np

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.search.hypotheses import NEVER, Backpointers, Hypothesis, ranked, read_back, repeating
from show_attend_tell.search.session import SearchSession, taken

CPU_PATHS, GPU_PATHS = 400, 1000  # how many paths run fastest together; a CPU's share its cache
CPU_PHOTOS = 100  # at most, since more only take more memory


def search_batch_size(beam_size: int, device: Any) -> int:
    """How many photos to search at once, of a long list, with that beam."""
    return max(1, min(CPU_PHOTOS, CPU_PATHS // beam_size) if device.type == "cpu" else GPU_PATHS // beam_size)


def check_beam(beam_size: int, max_length: int) -> None:
    """Raise `SatError` for a beam or a longest caption below one."""
    if beam_size < 1 or max_length < 1:
        raise SatError(f"beam is {beam_size} and the longest caption {max_length}: give at least 1 of each")


def search(
    session: SearchSession,
    *,
    beam_size: int = 1,
    max_length: int = 40,
    length_penalty: float = 0.0,
    allow_repetitions: bool = True,
) -> list[list[Hypothesis]]:
    """The ``beam_size`` best captions of each photo that a beam search finds, best first; a beam of one is greedy.

    All photos of the walker are searched at once. Scores are sums of log-probabilities, never renormalized over the
    words allowed. A greedy search never begins with the end token, so that its caption is not empty; a wider beam has
    other captions, and its empty one comes last. A finished path is frozen: it keeps its score, and its place until
    better paths push it out. The search ends when every path of every photo is finished, or after ``max_length`` words,
    the end token counted; then each photo's paths are `ranked`. Without ``allow_repetitions`` no path says a word twice
    in a row, or the same three words in a row twice. Finished paths and photos are not followed any more, unless the
    walker follows the `whole`.
    Raises `SatError` for a beam or length below one and for a decoder whose probabilities are not finite numbers.
    """
    check_beam(beam_size, max_length)
    scores = np.full((session.photos, beam_size), NEVER)
    scores[:, 0] = 0.0  # all paths are equal at first: only one may have children
    finished = np.zeros((session.photos, beam_size), dtype=bool)
    photos = np.arange(session.photos)  # (B′,)
    live = np.tile(np.arange(session.paths), (session.photos, 1))  # (B′, P′)
    words = np.full_like(live, session.vocabulary_size)
    said = np.empty((*live.shape, 0), dtype=np.int64)  # by each followed path so far (B′, P′, t)
    backpointers: list[Backpointers] = []

    for _ in range(max_length):
        step = session.step(words)
        before, done = scores[photos], finished[photos]  # (B′, P)
        running = taken(np.where(done, NEVER, before), live)  # (B′, P′)
        forbidden = [Vocabulary.UNKNOWN, *([Vocabulary.END] if beam_size == 1 and not backpointers else [])]
        banned = repeating(said) if backpointers and not allow_repetitions else None
        new = session.best(running, beam_size, forbidden, banned)
        # a finished path has one child: itself, at no cost
        children = np.concatenate([np.where(done, before, NEVER), new.scores], axis=1)  # (B′, P + N)
        chosen = np.argsort(-children, axis=1, kind="stable")[:, :beam_size]
        kept, frozen, child = taken(children, chosen), chosen < beam_size, np.maximum(chosen - beam_size, 0)
        path = np.where(frozen, np.minimum(chosen, live.shape[1] - 1), taken(new.paths, child))
        words = np.where(frozen, Vocabulary.END, taken(new.words, child))
        parents = np.where(frozen, chosen, taken(live, path))
        backpointers.append(Backpointers(photos, words, parents, taken(step.rows, path), *step[1:]))
        ended = words == Vocabulary.END
        scores[photos], finished[photos] = kept, ended

        going = ~ended & (kept > NEVER)
        unfinished = going.sum(1)  # (B′,)
        if not unfinished.any():
            break
        some = None
        if not session.whole:
            if not unfinished.all():
                some = unfinished > 0
                photos, words, path, going, said = (each[some] for each in (photos, words, path, going, said))
            live = np.argsort(~going, axis=1, kind="stable")[:, : int(unfinished.max())]
            words, path = taken(words, live), taken(path, live)
            path = np.where(taken(going, live), path, path[:, :1])  # what fills up adds no history
        said = np.concatenate([taken(said, path), words[..., None]], axis=-1)
        session.reorder(some, path)

    return [ranked(found, length_penalty) for found in read_back(backpointers, scores, finished)]
