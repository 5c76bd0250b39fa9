"""Evidence of the paper's decoder in closed form, as an ONNX graph: for Python and for the page in a browser.

B photos · T words · L locations · D annotation size · n LSTM size · m word-embedding size.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.backends.onnx.decoder import OnnxDecoder
from show_attend_tell.checkpoint.packing import as_array
from show_attend_tell.search.hypotheses import Hypothesis

Array = NDArray[Any]


def evidence(decoder: OnnxDecoder, annotations: Array, captions: Sequence[Hypothesis]) -> list[Array]:
    """α_ti g_t · (a_i − z_t) in nats (T, L) of one caption for each photo's annotations (B, L, D).

    z_t = Σ_j α_tj a_j is the mean context, and g_t = ∂ log p(y_t) / ∂ z_t, with β_t and the state before the step held
    fixed. It is the gradient of log p(y_t) with respect to the energies of the attention. The states are those of the
    caption's own locations, where it has them.
    """
    config, w, n = decoder.config, decoder.weights, decoder.config.hidden_size
    lengths = [len(caption.words) for caption in captions]
    B, T = len(captions), max(lengths)
    words = np.zeros((B, T), dtype=np.int64)
    alpha = np.zeros((B, T, decoder.locations), np.float32)
    beta = np.ones((B, T, 1), np.float32)
    read = np.zeros((B, T), dtype=np.int64)
    for row, (caption, length) in enumerate(zip(captions, lengths, strict=True)):
        words[row, :length], alpha[row, :length] = caption.words, as_array(caption.alpha)
        if config.gate:
            beta[row, :length, 0] = as_array(caption.beta)
        if caption.locations is not None:
            read[row, :length] = as_array(caption.locations)
    weighed, gates, hidden, first = decoder.beginning(annotations=annotations, alpha=alpha, beta=beta)
    before = np.concatenate([np.full((B, 1), decoder.vocabulary_size), words[:, :-1]], axis=1)
    shares = decoder.of_words(before)
    gates += shares[..., : 4 * n]  # at the mean context
    entered = gates  # and at the context that the caption's own step read
    if captions[0].locations is not None:
        context = beta * np.take_along_axis(weighed, read[..., None], axis=1)
        entered = shares[..., : 4 * n] + context @ w["gates_from_context.weight"].T

    hidden, memory = hidden[:, 0], np.repeat(first, T, axis=1)  # c before each step (B, T, n)
    for time in range(T):
        of_state = hidden @ w["gates_from_hidden.weight"].T
        now = entered[:, time] + of_state
        three = (1 + np.tanh(now[:, : 3 * n] / 2)) / 2  # σ of i, f and o, which does not overflow
        gates[:, time] += of_state
        after = three[:, n : 2 * n] * memory[:, time] + three[:, :n] * np.tanh(now[:, 3 * n :])
        hidden = three[:, 2 * n :] * np.tanh(after)
        memory[:, time + 1 :] = after[:, None]
    given = {"alpha": alpha, "beta": beta, "gates": gates, "memory": memory, "words": shares, "said": words}
    (found,) = decoder.evidence(weighed=weighed, **given)
    return [part[:length] for part, length in zip(found, lengths, strict=True)]
