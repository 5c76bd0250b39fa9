"""What the objectives of training share; each stands in a file of its own: `soft`, `hard`.

B batch · P paths of one caption · C caption length with the end token · L locations · K vocabulary. Captions of one
batch have one length, so nothing is padded and no mask is needed.

An objective is used in four steps: ``mode = objective.draw(…)``, then `teacher_forcing` with this attention mode along
``objective.paths`` paths, then ``objective(output, captions, mode)``, for all captions or for some at a time; at last
``objective.end_batch()``.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor

from show_attend_tell.model.kernels import Loop, word_scores


class Loss(NamedTuple):
    """A loss and what to watch with it."""

    total: Tensor  # to call ``backward`` on
    watch: dict[str, Tensor]  # means over the batch, without gradient


class Objective:
    """What both objectives have."""

    label_smoothing: float
    moving: Any = None  # the hard objective's `MovingBaseline`, if it has one
    word_scores: Loop = staticmethod(word_scores)  # `kernels.word_scores`, which a training may compile

    def word_losses(self, logits: Tensor, captions: Tensor) -> tuple[Tensor, Tensor]:
        """log p(y_t) of each word and its cross-entropy, (B, P, C) each, of logits (B, P, C, K) and captions (B, C).

        The cross-entropy is −log p(y_t); label smoothing spreads a share of its target evenly over the vocabulary.
        """
        words = captions[:, None].expand(logits.shape[:-1])
        scores = self.word_scores(logits.flatten(0, 2), words.flatten())
        log_probabilities, means = (values.view(words.shape) for values in scores)
        smoothing = self.label_smoothing
        return log_probabilities, -((1 - smoothing) * log_probabilities + smoothing * means)

    def end_batch(self) -> None:
        """Update the moving baseline, if there is one."""
        if self.moving is not None:
            self.moving.update()

    def state_dict(self) -> dict[str, Tensor]:
        """What a resumed training needs of this objective: the moving baseline, if it has one."""
        return {} if self.moving is None else {"baseline": self.moving.values}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state_dict` gave."""
        if self.moving is not None:
            self.moving.values = state["baseline"]


def entropy(alpha: Tensor) -> Tensor:
    """H[α_t] in nats, (..., L) → (...)."""
    return -(alpha * alpha.clamp_min(1e-12).log()).sum(-1)


def doubly_stochastic(alpha: Tensor) -> Tensor:
    """Σ_i (1 − Σ_t α_ti)² of each path (B, P), from alpha (B, P, C, L): eq. 9's penalty with τ = 1."""
    return (1 - alpha.sum(2)).square().sum(-1)
