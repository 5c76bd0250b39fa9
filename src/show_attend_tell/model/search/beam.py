"""Beam search over any `Decoder`; a beam of one is greedy search.

B photos · P paths, the beam · K vocabulary · L places · T words, end token excluded.
"""

import torch
from torch import Tensor

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import Look
from show_attend_tell.model.interface import EXPECTATION, Decoder
from show_attend_tell.model.precision import wide
from show_attend_tell.model.search.hypotheses import NEVER, Hypothesis, Trail, ranked, read_back, repeating

CPU_PATHS, GPU_PATHS = 400, 1000  # how many paths run fastest together; a CPU's share its cache
CPU_PHOTOS = 100  # at most, since more only take more memory


def photos_together(beam: int, device: torch.device) -> int:
    """How many photos to search at once, of a long list, with that beam."""
    return max(1, min(CPU_PHOTOS, CPU_PATHS // beam) if device.type == "cpu" else GPU_PATHS // beam)


@torch.inference_mode()
def beam_search(
    decoder: Decoder,
    annotations: Tensor,
    *,
    beam: int = 1,
    max_length: int = 40,
    look: Look = EXPECTATION,
    length_normalisation: float = 0.0,
    allow_unknown: bool = False,
    allow_repetitions: bool = True,
) -> list[list[Hypothesis]]:
    """The ``beam`` best captions of each photo that a beam search finds, best first; a beam of one is greedy.

    annotations: (B, L, D), all photos searched at once. Scores are sums of log-probabilities, never renormalised over
    the words allowed. A greedy search never begins with the end token, so that its caption is not empty; a wider beam
    has other captions, and its empty one comes last. A finished path is frozen: it keeps its score, and its place until
    better paths push it out. The search ends when every path of every photo is finished, or after ``max_length`` words,
    the end token counted; then each photo's paths are `ranked`. Without ``allow_repetitions`` no path says a word twice
    in a row, or the same three words in a row twice.
    Raises `SatError` for a beam or length below one and for a decoder whose probabilities are not finite numbers.
    """
    if beam < 1 or max_length < 1:
        raise SatError(f"beam is {beam} and the longest caption {max_length}: give at least 1 of each")
    batch, device = annotations.shape[0], annotations.device
    K = decoder.vocabulary_size
    state = decoder.start(annotations, paths=beam)
    words = torch.full((batch, beam), K, device=device)
    said = words.new_empty(batch, beam, 0)  # by each path so far (B, P, t)
    scores = torch.full((batch, beam), NEVER, device=device)
    scores[:, 0] = 0.0  # all paths are equal at first: only one may have children
    finished = torch.zeros((batch, beam), dtype=torch.bool, device=device)
    frozen = torch.full((K,), NEVER, device=device)
    frozen[Vocabulary.END] = 0.0  # the only child of a finished path, at no cost
    trail: list[Trail] = []
    photos = torch.arange(batch, device=device)

    for _ in range(max_length):
        step = decoder.step(decoder.embed(words), state, look)
        log_probabilities = torch.log_softmax(wide(decoder.read_out(step.output)), dim=-1)  # (B, P, K)
        if not allow_unknown:
            log_probabilities[..., Vocabulary.UNKNOWN] = NEVER
        if beam == 1 and not trail:
            log_probabilities[..., Vocabulary.END] = NEVER
        if trail and not allow_repetitions:
            log_probabilities.scatter_(-1, repeating(said), NEVER)
        log_probabilities = torch.where(finished[..., None], frozen, log_probabilities)
        scores, chosen = (scores[..., None] + log_probabilities).flatten(1).topk(beam, dim=-1)
        parents, words = chosen // K, chosen % K
        trail.append(Trail(photos, words, parents, parents, step.alpha, step.beta, step.places))
        state = step.state.select(parents)
        said = torch.cat([said[photos[:, None], parents], words[..., None]], dim=-1)
        finished = finished.gather(1, parents) | (words == Vocabulary.END)
        if finished.all():
            break

    return [ranked(found, length_normalisation) for found in read_back(trail, scores, finished)]
