"""The decoder as training and search know it: `start`, `embed`, `step` and `read_out`.

B batch · P paths of one photo (beams, sampled sequences) · L places · D annotation size · K vocabulary · C caption
length with the end token.

A photo's paths share its annotations, which are never copied; only the memory has a row per path. `decoder` is the
paper's decoder, `comparators` the other systems of Table 1, `ensemble` several decoders as one, and `registry` finds a
decoder by its name.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import Expectation, Look

EXPECTATION = Expectation()


class State(NamedTuple):
    """What a decoder carries from one step to the next."""

    source: tuple[Tensor, ...]  # per photo (B, ...): never changed by a step, shared by the photo's paths
    memory: tuple[Tensor, ...]  # per path (B, P, ...)

    def select(self, paths: Tensor) -> "State":
        """The state whose path p continues the old path ``paths[b, p]``, for paths (B, P′): how a beam reorders."""
        rows = torch.arange(paths.shape[0], device=paths.device)[:, None]
        return State(self.source, tuple(part[rows, paths] for part in self.memory))


class Step(NamedTuple):
    """What one step gives."""

    output: Tensor  # what `read_out` makes logits of (B, P, ·)
    state: State
    alpha: Tensor | None = None  # where it looked (B, P, L); None for a decoder without attention
    beta: Tensor | None = None  # how much it relied on looking (B, P); None without a gate
    places: Tensor | None = None  # the place looked at (B, P); None when looking by expectation


@dataclass(frozen=True, kw_only=True)
class Config:
    """What the configuration of every kind of decoder says: the sizes that training fills in, and its kind."""

    kind: ClassVar[str]  # the name by which `kinds` finds it
    retired: ClassVar[tuple[str, ...]] = ()  # entries of earlier versions that had no part in what weights compute
    vocabulary_size: int = 10_000  # K, with the end and unknown tokens; training sets it to its vocabulary's
    annotation_size: int = 512  # D

    def check(self, *, sizes: Sequence[str], dropouts: Sequence[str]) -> None:
        """Raise `SatError` for a size below one and for a dropout outside [0, 1)."""
        for name in ("vocabulary_size", "annotation_size", *sizes):
            if getattr(self, name) < 1:
                raise SatError(f"{name} is {getattr(self, name)}: give at least 1")
        for name in dropouts:
            if not 0 <= getattr(self, name) < 1:
                raise SatError(f"{name} is {getattr(self, name)}: give a probability from 0 up to but not including 1")

    @property
    def attention(self) -> str:
        """How the model looks: "soft", "hard", or "none"."""
        return "none"

    @property
    def title(self) -> str:
        """What a model of this configuration is, for its card: a sentence or two."""
        raise NotImplementedError

    @property
    def sizes(self) -> str:
        """The sizes of its parts, for its card."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a JSON file, the kind among them."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The configuration that `to_dict` wrote; raises `SatError` for a name that it does not know."""
        values = {name: value for name, value in values.items() if name not in ("kind", *cls.retired)}
        unknown = sorted(set(values) - set(cls.__dataclass_fields__))
        if unknown:
            raise SatError(
                f"the decoder's configuration has unknown entries {', '.join(unknown)}: is it from a newer version?"
            )
        return cls(**values)


class Decoder(nn.Module):
    """The seam that training and search are written against: a distribution over the next word, given a photo and the
    words so far.

    The word before the first one is `vocabulary_size`, an id that no vocabulary has.
    """

    config: Config  # of a decoder that can be trained and saved
    vocabulary_size: int

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        """The state before the first word, from annotations (B, L, D), with that many equal paths."""
        raise NotImplementedError

    def embed(self, words: Tensor) -> Tensor:
        """Everything that a step needs of the previous words, (...) → (..., ·): for all steps at once when they are
        known."""
        raise NotImplementedError

    def step(self, embedded: Tensor, state: State, look: Look = EXPECTATION) -> Step:
        """One step for every path, from the embedded previous words (B, P, ·)."""
        raise NotImplementedError

    def read_out(self, output: Tensor) -> Tensor:
        """Logits (..., K) from steps' outputs (..., ·): for all steps at once when they are known."""
        raise NotImplementedError


class Told(NamedTuple):
    """A caption told step by step with its true history: what `tell` gives."""

    logits: Tensor  # (B, P, C, K)
    alpha: Tensor | None  # (B, P, C, L)
    beta: Tensor | None  # (B, P, C)
    places: Tensor | None  # (B, P, C)


def tell(
    decoder: Decoder,
    annotations: Tensor,
    captions: Tensor,
    *,
    paths: int = 1,
    look: Look = EXPECTATION,
    history: Tensor | None = None,
) -> Told:
    """Run a decoder over captions (B, C) that end with the end token, each along that many paths, with their true
    history or with another (B, C) that it is told it has said."""
    said = captions if history is None else history
    batch, steps = captions.shape
    first = captions.new_full((batch, 1), decoder.vocabulary_size)
    embedded = decoder.embed(torch.cat([first, said[:, :-1]], dim=1))[:, None].expand(-1, paths, -1, -1)
    state = decoder.start(annotations, paths=paths)
    taken: list[Step] = []
    for time in range(steps):
        step = decoder.step(embedded[:, :, time], state, look)
        state = step.state
        taken.append(step)

    def gather(name: str) -> Tensor | None:
        parts = [getattr(step, name) for step in taken]
        return None if parts[0] is None else torch.stack(parts, dim=2)

    outputs = torch.stack([step.output for step in taken], dim=2)
    return Told(decoder.read_out(outputs), gather("alpha"), gather("beta"), gather("places"))


def word_log_probabilities(logits: Tensor, captions: Tensor) -> Tensor:
    """log p(y_t | history) (B, P, C) of captions (B, C), from logits (B, P, C, K), in float32."""
    target = captions[:, None, :, None].expand(*logits.shape[:-1], 1)
    picked = logits.gather(-1, target).squeeze(-1).float()
    return picked - logits.float().logsumexp(-1)
