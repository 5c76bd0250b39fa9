"""Where to look: attention over the places of a photo, and how it becomes one context vector.

B batch · P paths of one photo (beams, sampled sequences) · L places · D annotation size · A attention size · n LSTM
size.

`Attention` computes α (paper sec. 3.1.2). A `Look` turns α into the context ẑ, and in a decoder's step it is the only
place where soft and hard attention differ: `Expectation` is the soft model's Σ α_i a_i (eq. 8), `Sampled` and
`Likeliest` are the hard model's one place (eq. 3 and 4), and `Mixed` is `Expectation` on some paths and `Sampled` on
the others, as a coin fell while a hard model learns (sec. 4.1).
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from show_attend_tell.errors import SatError
from show_attend_tell.model.precision import wide

LookName = Literal["expectation", "likeliest", "sampled"]
LOOKS: tuple[LookName, ...] = ("expectation", "likeliest", "sampled")


class Attention(nn.Module):
    """The attention MLP: e_ti = w·tanh(W_a a_i + W_h h_{t−1}), α_t = softmax_i(e_t) (sec. 3.1.2, "a multilayer
    perceptron").

    With ``depth`` 2 the annotations first pass one more square tanh layer, as in the authors' program. No bias is
    added to e, which the softmax would cancel; h acts inside the tanh, where it cannot cancel.
    """

    def __init__(self, *, annotation_size: int, hidden_size: int, attention_size: int, depth: int = 1) -> None:
        super().__init__()
        self.deepen = nn.Linear(annotation_size, annotation_size) if depth == 2 else None
        self.key = nn.Linear(annotation_size, attention_size)
        self.query = nn.Linear(hidden_size, attention_size, bias=False)
        self.energy = nn.Parameter(torch.empty(attention_size))

    def keys(self, annotations: Tensor) -> Tensor:
        """W_a a for every place, (B, L, D) → (B, L, A): computed once a photo, not once a step."""
        if self.deepen is not None:
            annotations = torch.tanh(self.deepen(annotations))
        keys: Tensor = self.key(annotations)
        return keys

    def forward(self, keys: Tensor, hidden: Tensor) -> Tensor:
        """α in float32 at least, (B, P, L), from keys (B, L, A) and the previous hidden state (B, P, n).

        The logistic σ stands for tanh, being many times faster on a CPU: w·tanh(z) = 2 w·σ(2z) − Σ_k w_k, and the last
        term is the same for every place, so the softmax cancels it.
        """
        query = self.query(hidden)  # (B, P, A)
        together = (keys[:, None] + query[:, :, None]).mul_(2).sigmoid_()  # (B, P, L, A)
        return torch.softmax(wide(together @ (2 * self.energy).to(together.dtype)), dim=-1)


class Looked(NamedTuple):
    """What looking at the annotations gave."""

    context: Tensor  # ẑ before the gate (B, P, D)
    places: Tensor | None  # s_t, the place looked at (B, P), or None when all were looked at


class Look(Protocol):
    """A way of turning α into a context: called once a step, in the order of the steps."""

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Looked:
        """Look at annotations (B, L, D) by alpha (B, P, L)."""
        ...


class Expectation:
    """ẑ_t = Σ_i α_ti a_i, the expectation of the context (eq. 8)."""

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Looked:
        return Looked(alpha.to(annotations.dtype) @ annotations, None)


class Likeliest:
    """ẑ_t = a_i at the place with the largest α_ti."""

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Looked:
        return look_at(alpha.argmax(-1), annotations)


class Sampled:
    """ẑ_t = a_i at a place drawn from Multinoulli(α_t) (eq. 3 and 4).

    ``uniforms`` (B, P, C) are the draws from [0, 1), one a step, turned into places by inverting the cumulative α.
    Drawn beforehand and per photo (`for_photos`), they make a photo's places independent of whatever else is in its
    batch. An instance counts the steps, so it serves one search.
    """

    def __init__(self, uniforms: Tensor) -> None:
        self.uniforms = uniforms
        self.time = 0

    @classmethod
    def for_photos(cls, seeds: Sequence[int], *, paths: int, steps: int, device: torch.device) -> "Sampled":
        """One stream of draws per photo: ``seeds[b]`` alone decides photo b's (paths, steps)."""
        draws = [
            torch.rand(steps, paths, generator=torch.Generator().manual_seed(seed)).T for seed in seeds
        ]  # time first, so that asking for more steps leaves the earlier ones as they were
        return cls(torch.stack(draws).to(device))

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Looked:
        uniform = self.uniforms[:, :, self.time].to(alpha.device)
        self.time += 1
        below = wide(alpha).cumsum(-1) <= uniform[..., None]
        return look_at(below.sum(-1).clamp_max(alpha.shape[-1] - 1), annotations)


class Mixed:
    """The expectation on the paths where ``expect`` (B, P) is true, a sampled place on the others (sec. 4.1's coin).

    The places are those drawn, also on the paths where the expectation was taken.
    """

    def __init__(self, expect: Tensor, uniforms: Tensor) -> None:
        self.expect = expect
        self.expectation = Expectation()
        self.sampled = Sampled(uniforms)

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Looked:
        drawn = self.sampled(alpha, annotations)
        expected = self.expectation(alpha, annotations)
        expect = self.expect.to(alpha.device)[..., None]
        return Looked(torch.where(expect, expected.context, drawn.context), drawn.places)


def look_at(places: Tensor, annotations: Tensor) -> Looked:
    """The annotations (B, L, D) at places (B, P)."""
    index = places[..., None].expand(-1, -1, annotations.shape[-1])
    return Looked(annotations.gather(1, index), places)


def look_by_name(
    name: str,
    *,
    seeds: Sequence[int] = (),
    paths: int = 1,
    steps: int = 0,
    device: torch.device | None = None,
) -> Look:
    """The look of that name for decoding; only "sampled" needs the seeds of the photos, the paths and the steps.

    Raises `SatError` for a name that is not one of `LOOKS`.
    """
    if name == "expectation":
        return Expectation()
    if name == "likeliest":
        return Likeliest()
    if name == "sampled":
        return Sampled.for_photos(seeds, paths=paths, steps=steps, device=device or torch.device("cpu"))
    raise SatError(f"look {name!r} is not known: choose one of {', '.join(LOOKS)}")
