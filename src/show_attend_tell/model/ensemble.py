"""Several decoders as one, by the mean of their probabilities: Σ in the paper's Table 1.

B batch · P paths of one photo · L locations · K vocabulary.
"""

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import AttentionMode
from show_attend_tell.model.config import Config
from show_attend_tell.model.interface import MEAN_ATTENTION, Decoder, Parts, State, Step, initial_state
from show_attend_tell.model.kernels import promote


class Ensemble(Decoder):
    """p(y_t) = (1/M) Σ_m p_m(y_t) over M decoders of one vocabulary, each with a state of its own.

    α and β are the members' means, and None if a member has none. When locations are sampled, each member samples one
    from its own α, by the same random numbers; `Step.locations` is None.
    """

    def __init__(self, members: Sequence[Decoder]) -> None:
        super().__init__()
        self.members = tuple(members)
        self.registered = nn.ModuleList(members)  # so that `to` and `eval` reach them
        self.vocabulary_size = members[0].vocabulary_size

    @property
    def config(self) -> Config:  # type: ignore[override]
        raise SatError("Ensembles cannot be trained or saved: train and save the members")

    @property
    def attends(self) -> bool:
        return all(member.attends for member in self.members)

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        """The members' states side by side: a source and a memory have one part for each."""
        return State(*zip(*(initial_state(member, annotations, paths=paths) for member in self.members), strict=True))

    def embed(self, words: Tensor) -> tuple[Parts, ...]:
        """The words (...) as each member embeds them."""
        return tuple(member.embed(words) for member in self.members)

    def step(self, embedded: tuple[Parts, ...], state: State, mode: AttentionMode = MEAN_ATTENTION) -> Step:
        """One step of every member; the output is log p (B, P, K)."""
        modes = [*(copy.copy(mode) for _ in self.members[1:]), mode]  # a mode may count its steps: this is one step
        of_members = zip(self.members, embedded, state.source, state.memory, modes, strict=True)
        steps = [
            member.step(words, State(source, memory), own_mode)
            for member, words, source, memory, own_mode in of_members
        ]
        log_probabilities = [
            torch.log_softmax(promote(member.read_out(step.output)), dim=-1)
            for member, step in zip(self.members, steps, strict=True)
        ]
        return Step(
            output=torch.stack(log_probabilities).logsumexp(0) - math.log(len(steps)),
            state=State(*zip(*(step.state for step in steps), strict=True)),
            alpha=mean([step.alpha for step in steps]),
            beta=mean([step.beta for step in steps]),
        )

    def read_out(self, output: Tensor) -> Tensor:
        """log p (..., K), which are logits too."""
        return output


def mean(tensors: Sequence[Tensor | None]) -> Tensor | None:
    """The mean of tensors of one shape; None if one is missing."""
    present = [part for part in tensors if part is not None]
    return torch.stack(present).mean(0) if len(present) == len(tensors) else None
