"""Any `Decoder` of PyTorch as a `DecoderSession`, and the searches of such decoders.

B photos · P paths · L places · D annotation size · K vocabulary.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from show_attend_tell.model.attention import AttentionMode
from show_attend_tell.model.interface import MEAN_ATTENTION, Decoder, Step, initial_state
from show_attend_tell.model.precision import promote
from show_attend_tell.search import beam as beams
from show_attend_tell.search import sampling
from show_attend_tell.search.hypotheses import NEVER, Hypothesis
from show_attend_tell.search.session import Continuations, Numbers, Scores, SessionStep


class TorchSession:
    """A `Decoder` that follows ``paths`` paths of every photo to the end, with any look."""

    whole = True

    @torch.inference_mode()
    def __init__(
        self, decoder: Decoder, annotations: Tensor, *, paths: int, mode: AttentionMode = MEAN_ATTENTION
    ) -> None:
        """Start at annotations (B, L, D)."""
        self.decoder, self.mode, self.device = decoder, mode, annotations.device
        self.vocabulary_size = decoder.vocabulary_size
        self.photos, self.paths = len(annotations), paths
        self.state = initial_state(decoder, annotations, paths=paths)
        self.rows = np.tile(np.arange(paths), (self.photos, 1))
        self.taken: Step

    @torch.inference_mode()
    def step(self, words: Numbers) -> SessionStep:
        """As `DecoderSession.step`."""
        embedded = self.decoder.embed(torch.from_numpy(words).to(self.device))
        self.taken = self.decoder.step(embedded, self.state, self.mode)
        return SessionStep(self.rows, self.taken.alpha, self.taken.beta, self.taken.locations)

    @torch.inference_mode()
    def reorder(self, photos: NDArray[np.bool_] | None, paths: Numbers) -> None:
        """As `DecoderSession.follow`."""
        self.state = self.taken.state.select(torch.from_numpy(paths).to(self.device))

    @torch.inference_mode()
    def best(self, before: Scores, count: int, forbidden: list[int], banned: Numbers | None) -> Continuations:
        """As `SearchSession.best`."""
        scores = self._log_probabilities()
        for word in forbidden:
            scores[..., word] = NEVER
        if banned is not None:
            scores.scatter_(-1, torch.from_numpy(banned).to(self.device), NEVER)
        scores = (scores + torch.from_numpy(before).to(scores)[..., None]).flatten(1)
        found, chosen = scores.topk(min(count, scores.shape[1]), dim=-1)
        children = array(chosen)
        return Continuations(array(found), children // self.vocabulary_size, children % self.vocabulary_size)

    @torch.inference_mode()
    def log_probabilities(self) -> Scores:
        """As `Drawn.log_probabilities`."""
        return array(self._log_probabilities())

    def _log_probabilities(self) -> Tensor:
        return torch.log_softmax(promote(self.decoder.read_out(self.taken.output)), dim=-1)


def array(tensor: Tensor) -> NDArray[Any]:
    """A tensor's values on the CPU."""
    values: NDArray[Any] = tensor.numpy(force=True)
    return values


def beam_search(
    decoder: Decoder,
    annotations: Tensor,
    *,
    beam_size: int = 1,
    max_length: int = 40,
    mode: AttentionMode = MEAN_ATTENTION,
    **options: Any,
) -> list[list[Hypothesis]]:
    """`beam_size.search` of any decoder and look, on photos with annotations (B, L, D), with its options and errors."""
    beams.check_beam(beam_size, max_length)
    session = TorchSession(decoder, annotations, paths=beam_size, mode=mode)
    return beams.search(session, beam_size=beam_size, max_length=max_length, **options)


def sample(
    decoder: Decoder,
    annotations: Tensor,
    *,
    seeds: list[int],
    captions: int = 1,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    mode: AttentionMode = MEAN_ATTENTION,
    **options: Any,
) -> list[list[Hypothesis]]:
    """`sampling.draw` of any decoder and look: ``captions`` of each photo, with its options and errors."""
    sampling.check_sampling(captions, temperature, top_k, top_p)
    session = TorchSession(decoder, annotations, paths=captions, mode=mode)
    return sampling.draw(session, seeds=seeds, temperature=temperature, top_k=top_k, top_p=top_p, **options)
