"""Several decoders as one, by the mean of their probabilities: the Σ of the paper's Table 1.

B batch · P paths of one photo · L places · K vocabulary.
"""

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import Look
from show_attend_tell.model.decoder import EXPECTATION
from show_attend_tell.model.interface import Config, Decoder, State, Step


class Ensemble(Decoder):
    """p(y_t) = (1/M) Σ_m p_m(y_t) over M decoders of one vocabulary, each with a state of its own.

    α and β are the members' means, or None unless every member has them. When places are sampled, each member looks at
    one of its own, by the same draws, and none is told. Raises `SatError` without members, and for members whose
    vocabularies differ in size.
    """

    def __init__(self, members: Sequence[Decoder]) -> None:
        super().__init__()
        sizes = sorted({member.vocabulary_size for member in members})
        if len(sizes) != 1:
            raise SatError(f"an ensemble's members must share one vocabulary; theirs have {sizes or 'no'} words")
        self.members = tuple(members)
        self.registered = nn.ModuleList(members)  # so that `to` and `eval` reach them
        self.vocabulary_size = sizes[0]
        self.parts: list[tuple[int, int]] = []  # how many tensors each member's state has, which `start` finds

    @property
    def config(self) -> Config:  # type: ignore[override]
        raise SatError("an ensemble is no model to train or to save: train and save its members")

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        """Every member's state, side by side."""
        states = [member.start(annotations, paths=paths) for member in self.members]
        self.parts = [(len(state.source), len(state.memory)) for state in states]
        return side_by_side(states)

    def embed(self, words: Tensor) -> Tensor:
        """The words as they are, (...) → (..., 1): every member has its own embeddings, which `step` asks it for."""
        return words[..., None]

    def step(self, embedded: Tensor, state: State, look: Look = EXPECTATION) -> Step:
        """One step of every member; the output is log p (B, P, K)."""
        words = embedded[..., 0]
        looks = [*(copy.copy(look) for _ in self.members[1:]), look]  # it may count its steps, and must count this once
        sources, memories = iter(state.source), iter(state.memory)
        steps, log_probabilities = [], []
        for member, (source, memory), its_look in zip(self.members, self.parts, looks, strict=True):
            own = State(tuple(next(sources) for _ in range(source)), tuple(next(memories) for _ in range(memory)))
            step = member.step(member.embed(words), own, its_look)
            steps.append(step)
            log_probabilities.append(torch.log_softmax(member.read_out(step.output).float(), dim=-1))
        return Step(
            output=torch.stack(log_probabilities).logsumexp(0) - math.log(len(steps)),
            state=side_by_side([step.state for step in steps]),
            alpha=mean([step.alpha for step in steps]),
            beta=mean([step.beta for step in steps]),
        )

    def read_out(self, output: Tensor) -> Tensor:
        """log p, which are logits too."""
        return output


def side_by_side(states: Sequence[State]) -> State:
    """Several states as one."""
    return State(
        tuple(part for state in states for part in state.source),
        tuple(part for state in states for part in state.memory),
    )


def mean(parts: Sequence[Tensor | None]) -> Tensor | None:
    """The mean of tensors of one shape, or None when one is missing."""
    there = [part for part in parts if part is not None]
    return torch.stack(there).mean(0) if len(there) == len(parts) else None
