"""Attention over the locations of a photo, and how it becomes one context vector.

B batch · P paths of one photo (beams, sampled sequences) · L locations · D annotation size · A attention size · n LSTM
size.

`Attention` computes α (paper sec. 3.1.2). An `AttentionMode` turns α into the context ẑ; only in it do soft and hard
attention differ.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from show_attend_tell.model.kernels import promote
from show_attend_tell.settings import ATTENTION_MODES

CPU = torch.device("cpu")


class Attention(nn.Module):
    """The attention MLP: e_ti = w·tanh(W_a a_i + W_h h_{t−1}), α_t = softmax_i(e_t) (sec. 3.1.2).

    With ``depth`` 2 the annotations first pass one more square tanh layer, as in the authors' program. e has no bias,
    since the softmax would cancel it.
    """

    def __init__(self, *, annotation_size: int, hidden_size: int, attention_size: int, depth: int = 1) -> None:
        super().__init__()
        self.deepen = nn.Linear(annotation_size, annotation_size) if depth == 2 else None
        self.key = nn.Linear(annotation_size, attention_size)
        self.query = nn.Linear(hidden_size, attention_size, bias=False)
        self.energy = nn.Parameter(torch.empty(attention_size))

    def keys(self, annotations: Tensor) -> Tensor:
        """W_a a of every location (B, L, A), from annotations (B, L, D): computed once a photo, not once a step."""
        if self.deepen is not None:
            annotations = torch.tanh(self.deepen(annotations))
        keys: Tensor = self.key(annotations)
        return keys

    def forward(self, keys: Tensor, hidden: Tensor) -> Tensor:
        """α (B, P, L) in float32 at least, from keys (B, L, A) and the previous hidden state (B, P, n).

        By σ instead of tanh, which is many times slower on a CPU: w·tanh(z) = 2 w·σ(2z) − Σ_k w_k, and the softmax
        cancels the last term.
        """
        query = self.query(hidden)  # (B, P, A)
        layer = (keys[:, None] + query[:, :, None]).mul_(2).sigmoid_()  # (B, P, L, A)
        return torch.softmax(promote(layer @ (2 * self.energy).to(layer.dtype)), dim=-1)


class Attended(NamedTuple):
    """What an `AttentionMode` gives."""

    context: Tensor  # ẑ before the gate (B, P, D)
    locations: Tensor | None  # s_t, the one location attended to (B, P); None for the mean of all


class AttentionMode(Protocol):
    """A way of turning α into a context. A decoder calls it once a step, in the order of the steps.

    `unroll.Unroll` computes a mode that has a method ``draws`` over all steps at once. Any other goes step by step.
    ``draws`` gives which paths read the mean (B, P), and the numbers that draw locations on the others (B, P, C); two
    times None for the mean on all paths.
    """

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        """The context of annotations (B, L, D) by alpha (B, P, L)."""
        ...


class MeanAttention:
    """ẑ_t = Σ_i α_ti a_i, the expected context (eq. 8)."""

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        return Attended(alpha.to(annotations.dtype) @ annotations, None)

    def draws(self) -> tuple[None, None]:
        """Nothing: it is the mean on every path."""
        return None, None


class ArgmaxAttention:
    """ẑ_t = a_i of the location i with the largest α_ti."""

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        return attend_at(alpha.argmax(-1), annotations)


class SampleAttention:
    """ẑ_t = a_i of a location i drawn from Multinoulli(α_t) (eq. 3 and 4).

    ``uniforms`` (B, P, C) from [0, 1), one a step, become locations by the inverse of the cumulative α. An instance
    counts its steps, so use it for one search or one `teacher_forcing`.
    """

    def __init__(self, uniforms: Tensor) -> None:
        self.uniforms = uniforms
        self.time = 0

    @classmethod
    def for_photos(cls, seeds: Sequence[int], *, paths: int, steps: int, device: torch.device) -> "SampleAttention":
        """Draw the numbers of each photo by its own seed, for that many paths and steps."""
        draws = [
            torch.rand(steps, paths, generator=torch.Generator().manual_seed(seed)).T for seed in seeds
        ]  # steps first, so that more steps leave the numbers of the earlier ones as they are
        return cls(torch.stack(draws).to(device))

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        uniform = self.uniforms[:, :, self.time].to(alpha.device)
        self.time += 1
        below = promote(alpha).cumsum(-1) <= uniform[..., None]
        return attend_at(below.sum(-1).clamp_max(alpha.shape[-1] - 1), annotations)


class GivenLocations:
    """ẑ_t = a_i of locations that were drawn before (B, P, C), one a step, for one `teacher_forcing`."""

    def __init__(self, locations: Tensor) -> None:
        self.locations = locations
        self.time = 0

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        locations = self.locations[:, :, self.time]
        self.time += 1
        return attend_at(locations.to(alpha.device), annotations)


class MixedAttention:
    """The mean on the paths where ``expected`` (B, P) is true, a sampled location on the others (sec. 4.1).

    ``uniforms`` are as in `SampleAttention`; `Attended.locations` has a sampled location for every path.
    """

    def __init__(self, expected: Tensor, uniforms: Tensor) -> None:
        self.expected = expected
        self.sampled = SampleAttention(uniforms)

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        sampled = self.sampled(alpha, annotations)
        mean, _ = MeanAttention()(alpha, annotations)
        expected = self.expected.to(alpha.device)[..., None]
        return Attended(torch.where(expected, mean, sampled.context), sampled.locations)

    def draws(self) -> tuple[Tensor, Tensor]:
        """Which paths read the mean, and the numbers that draw the locations of the others."""
        return self.expected, self.sampled.uniforms


def attend_at(locations: Tensor, annotations: Tensor) -> Attended:
    """Attend to one location of each path: annotations (B, L, D), locations (B, P)."""
    index = locations[..., None].expand(-1, -1, annotations.shape[-1])
    return Attended(annotations.gather(1, index), locations)


OWN_MODES: dict[str, Any] = {"mean": MeanAttention(), "argmax": ArgmaxAttention(), "sample": SampleAttention}
register_attention_mode = ATTENTION_MODES.register


def attention_mode_by_name(
    name: str, *, seeds: Sequence[int] = (), paths: int = 1, steps: int = 0, device: torch.device = CPU
) -> AttentionMode:
    """The mode of that name, for generation. Raises `UnknownName` for a name that is not registered.

    What is registered is the mode itself, or a class with a method ``for_photos``, as `SampleAttention` is. This makes
    a mode for one search, from the photos' seeds, and the numbers of paths and steps.
    """
    mode: Any = ATTENTION_MODES[name] or OWN_MODES[name]
    if hasattr(mode, "for_photos"):
        mode = mode.for_photos(seeds, paths=paths, steps=steps, device=device)
    return mode  # type: ignore[no-any-return]


def repeatable_mode(name: str) -> AttentionMode | None:
    """The mode of that name if it does the same in each search; None if it is made for one search, and may draw."""
    mode: Any = ATTENTION_MODES[name] or OWN_MODES[name]
    return None if hasattr(mode, "for_photos") else mode
