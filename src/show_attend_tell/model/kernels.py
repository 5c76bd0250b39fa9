"""The loops over large tensors that a training step spends its time in, as small pure functions.

B batch · P paths of one photo · Q steps of all paths · L locations · D annotation size · A attention size ·
K vocabulary · N words of a mini-batch.

`REFERENCE` has the functions as they are written here. `compiled` gives the same functions, each made into one loop by
`torch.compile`: nothing of the size (B, L, A) or (N, K) is then stored between their operations.
"""

import functools
import shutil
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from show_attend_tell.model.config import LARGEST

Loop: TypeAlias = Callable[..., Any]  # of tensors


def promote(values: Tensor) -> Tensor:
    """The values in float32 at least, as softmax, sums of log-probabilities and the LSTM's memory need it."""
    return values if values.dtype == torch.float64 else values.float()


def normalize(annotations: Tensor, kept: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Annotations (B, L, D) of mean 0 and variance 1, times dropout's factors (B, 1, D), and their mean (B, D)."""
    normal = torch.nn.functional.layer_norm(annotations.to(kept.dtype), annotations.shape[-1:]) * kept
    return normal.to(dtype), normal.mean(1)


def exponentials(keys: Tensor) -> Tensor:
    """exp(−2k) of keys k (B, L, A)."""
    return torch.exp((-2 * promote(keys)).clamp(-LARGEST, LARGEST)).to(keys.dtype)


def attend(keys: Tensor, query: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """exp(−2q) (B, P, A) and α = softmax_l Σ_a w_a σ_a (B, P, L), of exp(−2k) (B, L, A), q (B, P, A) and w (A,)."""
    query = torch.exp((-2 * query.to(weight.dtype)).clamp(-LARGEST, LARGEST))
    return query, torch.softmax((weight / (1 + keys[:, None] * query[:, :, None])).sum(-1), dim=-1)


def attend_slopes(context: Tensor, annotations: Tensor, alpha: Tensor, d_alpha: Tensor) -> Tensor:
    """The energies' gradient (B, P, L), from those of ẑ (B, P, D) and, besides ẑ, of α (B, P, L); a is (B, L, D)."""
    d_alpha = d_alpha + (context[:, :, None].to(alpha.dtype) * annotations[:, None]).sum(-1)
    return alpha * (d_alpha - (alpha * d_alpha).sum(-1, keepdim=True))


def query_sums(keys: Tensor, query: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_l s_l σ_la and Σ_l s_l σ_la², (B, P, A) each, of exp(−2k) (B, A, L), exp(−2q) (B, P, A) and s (B, P, L)."""
    sigma = 1 / (1 + keys[:, None] * query[..., None])
    weighted = slope[:, :, None] * sigma
    return weighted.sum(-1), (weighted * sigma).sum(-1)


def key_sums(keys: Tensor, queries: Tensor, slopes: Tensor, weight: Tensor) -> Tensor:
    """w_a Σ_q s_ql (σ_qla − σ_qla²) (B, L, A), of exp(−2k) (B, L, A), exp(−2q) (B, Q, A), s (B, Q, L), w (A,)."""
    sigma = 1 / (1 + keys[:, None] * queries[:, :, None])
    return (weight * (slopes[..., None] * (sigma - sigma * sigma)).sum(1)).to(keys.dtype)


def advance(words: Tensor, hidden: Tensor, context: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """i, f, o and g (B, P, 4n), c_t and h_t (B, P, n), of what the word, h_{t−1} and ẑ_t give to the gates."""
    gates = words.to(memory.dtype) + hidden.to(memory.dtype) + context.to(memory.dtype)
    n = memory.shape[-1]
    i, f, o = torch.sigmoid(gates[..., : 3 * n]).chunk(3, dim=-1)
    g = torch.tanh(gates[..., 3 * n :])
    memory = f * memory + i * g
    return torch.cat([i, f, o, g], dim=-1), memory, o * torch.tanh(memory)


def advance_slopes(
    d_hidden: Tensor, d_memory: Tensor, activations: Tensor, before: Tensor, after: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of the gates (B, P, 4n) and of c_{t−1}, from those of h_t and c_t, and c ``before``, ``after``."""
    i, f, o, g = activations.chunk(4, dim=-1)
    tanh_c = torch.tanh(after)
    d_c = d_memory + d_hidden * o * (1 - tanh_c * tanh_c)
    d_gates = [
        d_c * g * i * (1 - i),
        d_c * before * f * (1 - f),
        d_hidden * tanh_c * o * (1 - o),
        d_c * i * (1 - g * g),
    ]
    return torch.cat(d_gates, dim=-1), d_c * f


def word_scores(logits: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """log p of the words (N,), and the mean of log p over the vocabulary (N,), of logits (N, K)."""
    return word_sums(logits, words)[:2]


def word_sums(logits: Tensor, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What `word_scores` gives, and log Σ exp(logit), (N,) each."""
    total = promote(logits).logsumexp(-1)
    picked = promote(logits.gather(-1, words[:, None]).squeeze(-1))
    return picked - total, promote(logits).mean(-1) - total, total


def word_slopes(logits: Tensor, total: Tensor, even: Tensor, share: Tensor) -> Tensor:
    """even − share · exp(logit − total), the gradient of the logits (N, K) of words that are not the true one."""
    return (even[:, None] - share[:, None] * torch.exp(promote(logits) - total[:, None])).to(logits.dtype)


FUNCTIONS: list[Loop] = [
    normalize, exponentials, attend, attend_slopes, query_sums, key_sums, advance, advance_slopes, word_scores,
]  # fmt: skip
Kernels: TypeAlias = SimpleNamespace  # these functions by their names, as written or compiled
REFERENCE = Kernels(**{function.__name__: function for function in FUNCTIONS})


def can_compile() -> bool:
    """Whether there is a C++ compiler here for `torch.compile` to use."""
    return sys.platform != "win32" and any(shutil.which(name) for name in ("g++", "clang++"))


@functools.cache
def compiled() -> Kernels:
    """The functions made into loops by `torch.compile`, when first called; that takes seconds and a compiler."""
    loops: dict[str, Loop] = {function.__name__: torch.compile(function) for function in FUNCTIONS}
    loops["word_scores"] = functools.partial(_WordScores.apply, torch.compile(word_sums), torch.compile(word_slopes))
    return Kernels(**loops)


class _WordScores(torch.autograd.Function):
    """`word_scores` by `word_sums`, and its backward pass by `word_slopes`; the one that PyTorch derives is slower."""

    @staticmethod
    def forward(ctx: Any, sums: Any, slopes: Any, logits: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        picked, mean, total = sums(logits.detach(), words)
        ctx.save_for_backward(logits, words, total)
        ctx.slopes = slopes
        return picked, mean

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_picked: Tensor, d_mean: Tensor) -> tuple[None, None, Tensor, None]:
        logits, words, total = ctx.saved_tensors
        even = d_mean / logits.shape[-1]
        share = d_picked + d_mean
        d_logits = ctx.slopes(logits, total, even, share)
        true = word_slopes(promote(logits.gather(-1, words[:, None])), total, even, share).squeeze(-1) + d_picked
        d_logits[torch.arange(len(words), device=words.device), words] = true.to(d_logits.dtype)
        return None, None, d_logits, None
