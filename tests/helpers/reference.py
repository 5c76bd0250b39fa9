"""The paper's equations in plain NumPy, one photo, one place and one word at a time: what the decoder is held against.

Written from the paper in its own notation, loops and all, and never from the torch code. Everything is float64.
Weights come as a dictionary under the paper's names; an absent name is an absent part of the model:

    E              word embeddings (K, m); E·y_0 is zero
    scale          the number that multiplies annotations; absent: each place's annotation is normalized instead
    W_d, b_d       the extra tanh layer on annotations (D, D), (D,)
    W_a, b_a, W_h  the attention MLP's hidden layer (A, D), (A,), (A, n), and w its output (A,)
    W_b, b_b       f_β (n,), ()
    W_s, b_s       the ReLU layer that both initial-state MLPs share (n, D), (n,), or of another size than n
    W_h0, b_h0, W_c0, b_c0   their last layers
    T, b           the affine map of the LSTM from (E·y, h, ẑ) to (i, f, o, g), (4n, m + n + D), (4n,)
    L_h, b_h, L_z, L_o, b_o  the deep output; L_o is (K, m)
    L_1, b_1, L_2, b_2, …    ReLU layers before L_o (m, m), (m,)
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy import ndarray


class DecoderOutput(NamedTuple):
    """A caption's C steps."""

    log_p: ndarray  # log p(· | history), (C, K)
    alpha: ndarray  # (C, L)
    beta: ndarray  # (C,), ones without a gate
    locations: ndarray  # the place looked at (C,), or −1 for the expectation


def sigmoid(x: ndarray) -> ndarray:
    return 1 / (1 + np.exp(-x))


def log_softmax(x: ndarray) -> ndarray:
    return x - x.max() - np.log(np.exp(x - x.max()).sum())


def multinoulli(alpha: ndarray, uniform: float) -> int:
    """The place whose stretch of the unit interval, places laid end to end, the uniform number falls in."""
    reached = 0.0
    for i, p in enumerate(alpha):
        reached += p
        if uniform < reached:
            return i
    return len(alpha) - 1


def teacher_forcing(  # noqa: PLR0912, PLR0915 - the whole model in one piece, to be read beside the paper
    w: Mapping[str, ndarray],
    annotations: ndarray,
    words: Sequence[int],
    *,
    mode: str | Sequence[int] | Sequence[float] = "mean",
    tanh_output: bool = True,
    word_output: bool = True,
) -> DecoderOutput:
    """A caption's words y_1 … y_C (the end token last), each given the true ones before it.

    ``mode`` is "mean", "argmax", the C places to look at (integers), or the C uniform numbers to draw
    them with (floats).
    """
    places_count = len(annotations)  # L
    if "scale" in w:
        a = [annotations[i] * w["scale"] for i in range(places_count)]
    else:
        a = [(x - x.mean()) / np.sqrt(x.var() + 1e-5) for x in annotations]

    mean = sum(a) / places_count  # (D,)
    shared = np.maximum(0, w["W_s"] @ mean + w["b_s"]) if "W_s" in w else mean
    h = np.tanh(w["W_h0"] @ shared + w["b_h0"])
    c = np.tanh(w["W_c0"] @ shared + w["b_c0"])
    n = len(h)

    log_p, alphas, betas, locations = [], [], [], []
    for t in range(len(words)):
        Ey = np.zeros_like(w["E"][0]) if t == 0 else w["E"][words[t - 1]]

        e = np.zeros(places_count)  # e_ti = f_att(a_i, h_{t−1})
        for i in range(places_count):
            seen = np.tanh(w["W_d"] @ a[i] + w["b_d"]) if "W_d" in w else a[i]
            e[i] = w["w"] @ np.tanh(w["W_a"] @ seen + w["b_a"] + w["W_h"] @ h)
        alpha = np.exp(e - e.max()) / np.exp(e - e.max()).sum()

        if mode == "mean":
            location = -1
            z = sum(alpha[i] * a[i] for i in range(places_count))
        else:
            if mode == "argmax":
                location = int(alpha.argmax())
            elif isinstance(mode[t], float):
                location = multinoulli(alpha, mode[t])
            else:
                location = int(mode[t])
            z = a[location]
        beta = sigmoid(w["W_b"] @ h + w["b_b"]) if "W_b" in w else 1.0
        z = beta * z

        gates = w["T"] @ np.concatenate([Ey, h, z]) + w["b"]
        i_gate, f_gate, o_gate = (sigmoid(gates[k * n : (k + 1) * n]) for k in range(3))
        c = f_gate * c + i_gate * np.tanh(gates[3 * n :])
        h = o_gate * np.tanh(c)

        total = w["L_h"] @ h + w["b_h"]
        if word_output:
            total = total + Ey
        if "L_z" in w:
            total = total + w["L_z"] @ z
        if tanh_output:
            total = np.tanh(total)
        layer = 1
        while f"L_{layer}" in w:
            total = np.maximum(0, w[f"L_{layer}"] @ total + w[f"b_{layer}"])
            layer += 1
        log_p.append(log_softmax(w["L_o"] @ total + w["b_o"]))
        alphas.append(alpha)
        betas.append(beta)
        locations.append(location)
    return DecoderOutput(np.array(log_p), np.array(alphas), np.array(betas), np.array(locations))


def doubly_stochastic(alpha: ndarray) -> float:
    """Σ_i (1 − Σ_t α_ti)² of one caption's alpha (C, L): eq. 9's penalty with τ = 1."""
    penalty = 0.0
    for i in range(alpha.shape[1]):
        penalty += (1 - sum(alpha[t, i] for t in range(alpha.shape[0]))) ** 2
    return penalty


def entropy(alpha: ndarray) -> float:
    """The multinoulli's entropy in nats, summed over a caption's steps."""
    return -sum(p * np.log(p) for step in alpha for p in step)


def returns(log_p: ndarray, reward: str) -> ndarray:
    """What the place of each step is paid (C,): the whole sentence's log p, or only of the words from that step on."""
    steps = len(log_p)
    return np.array([sum(log_p[t:] if reward == "to_go" else log_p) for t in range(steps)])
