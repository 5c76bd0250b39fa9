"""The loops over large tensors that a training step spends its time in, as small pure functions.

B batch · P paths of one photo · Q steps of all paths · L places · D annotation size · A attention size · K vocabulary ·
N words of a mini-batch.

`PLAIN` has the functions as they stand here. `compiled` gives the same functions, each made into one loop by
`torch.compile`: nothing of the size (B, L, A) or (N, K) is then stored between their operations.
"""

import functools
import shutil
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from show_attend_tell.model.precision import wide

LARGEST = 40.0  # of |2k| and |2q|, so that the product of their exponentials is finite in float32 and bfloat16


WordScores: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
Normalise: TypeAlias = Callable[[Tensor, Tensor, torch.dtype], tuple[Tensor, Tensor]]


def normalise(annotations: Tensor, kept: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Annotations (B, L, D) scaled to mean 0 and variance 1 over their channels, in ``dtype``, and their mean (B, D).

    ``kept`` (B, 1, D) are the factors of the channels: dropout's, or ones.
    """
    normal = torch.nn.functional.layer_norm(annotations.to(kept.dtype), annotations.shape[-1:]) * kept
    return normal.to(dtype), normal.mean(1)


def exponentials(keys: Tensor) -> Tensor:
    """exp(−2k) of keys k (B, L, A)."""
    return torch.exp((-2 * wide(keys)).clamp(-LARGEST, LARGEST)).to(keys.dtype)


def energies(keys: Tensor, query: Tensor, weight: Tensor) -> Tensor:
    """Σ_a w_a σ_a, (B, P, L), of exp(−2k) (B, L, A), exp(−2q) (B, P, A) and w (A,)."""
    return (weight / (1 + keys[:, None] * query[:, :, None])).sum(-1)


def query_sums(keys: Tensor, query: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_l s_l σ_la and Σ_l s_l σ_la², (B, P, A) each, of exp(−2k) (B, A, L), exp(−2q) (B, P, A) and s (B, P, L)."""
    sigma = 1 / (1 + keys[:, None] * query[..., None])
    weighted = slope[:, :, None] * sigma
    return weighted.sum(-1), (weighted * sigma).sum(-1)


def key_sums(keys: Tensor, queries: Tensor, slopes: Tensor) -> Tensor:
    """Σ_q s_ql (σ_qla − σ_qla²), (B, L, A), of exp(−2k) (B, L, A), all exp(−2q) (B, Q, A) and s (B, Q, L)."""
    sigma = 1 / (1 + keys[:, None] * queries[:, :, None])
    return (slopes[..., None] * (sigma - sigma * sigma)).sum(1)


def word_scores(logits: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """log p of the words (N,), and the mean of log p over the vocabulary (N,), of logits (N, K)."""
    total = wide(logits).logsumexp(-1)
    picked = wide(logits.gather(-1, words[:, None]).squeeze(-1))
    return picked - total, wide(logits).mean(-1) - total


class Kernels(NamedTuple):
    """The functions above, plain or compiled."""

    normalise: Normalise
    exponentials: Callable[[Tensor], Tensor]
    energies: Callable[[Tensor, Tensor, Tensor], Tensor]
    query_sums: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    key_sums: Callable[[Tensor, Tensor, Tensor], Tensor]
    word_scores: WordScores


PLAIN = Kernels(normalise, exponentials, energies, query_sums, key_sums, word_scores)


def can_compile() -> bool:
    """Whether there is a C++ compiler here for `torch.compile` to use."""
    return sys.platform != "win32" and any(shutil.which(name) for name in ("g++", "clang++"))


@functools.cache
def compiled() -> Kernels:
    """The functions made into loops by `torch.compile`, which needs a compiler (`can_compile`).

    Each is compiled when it is first called, and again once for sizes that vary; that takes seconds.
    """
    made: list[Any] = [torch.compile(function) for function in PLAIN]
    return Kernels(*made)
