"""Evidence of the paper's decoder in closed form, in NumPy.

B photos · T words · L locations · D annotation size · n LSTM size · m word-embedding size · K vocabulary.
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
    fixed. It is the gradient of log p(y_t) with respect to the energies of the attention.
    """
    config, w = decoder.config, decoder.weights
    lengths = [len(caption.words) for caption in captions]
    B, T = len(captions), max(lengths)
    words = np.zeros((B, T), dtype=np.int64)
    alpha = np.zeros((B, T, decoder.locations), np.float32)
    beta = np.ones((B, T, 1), np.float32)
    locations = np.zeros((B, T), dtype=np.int64)
    for row, (caption, length) in enumerate(zip(captions, lengths, strict=True)):
        words[row, :length], alpha[row, :length] = caption.words, as_array(caption.alpha)
        if config.gate:
            beta[row, :length, 0] = as_array(caption.beta)
        if caption.locations is not None:
            locations[row, :length] = as_array(caption.locations)
    weighed, _, hidden, memory = decoder.start(wide=False)(annotations=annotations)
    mean = alpha @ weighed  # z (B, T, D)
    before = np.concatenate([np.full((B, 1), decoder.vocabulary_size), words[:, :-1]], axis=1)
    word_gates, word_deep = np.split(decoder.of_words(before), [decoder.gates], axis=-1)
    read = mean
    if captions[0].locations is not None:
        read = np.take_along_axis(weighed, locations[..., None], axis=1)
    inputs = word_gates + (beta * read) @ w["gates_from_context.weight"].T

    hidden, memory = hidden[:, 0], memory[:, 0]
    from_hidden = np.empty_like(word_gates)  # the previous state's share of the gates
    memories = np.empty((B, T, config.hidden_size), np.float32)  # c_{t−1}
    for time in range(T):
        from_hidden[:, time], memories[:, time] = hidden @ w["gates_from_hidden.weight"].T, memory
        i, f, o, g = activated(inputs[:, time] + from_hidden[:, time])
        memory = f * memory + i * g
        hidden = o * np.tanh(memory)

    context = beta * mean
    i, f, o, g = activated(word_gates + from_hidden + context @ w["gates_from_context.weight"].T)
    tanh = np.tanh(f * memories + i * g)
    deep = word_deep + (o * tanh) @ w["output_hidden.weight"].T
    if config.output_context:
        deep = deep + context @ w["output_context.weight"].T
    layers = [np.tanh(deep) if config.output_tanh else deep]
    for number in range(config.output_depth - 1):
        name = f"output_layers.{number}"
        layers.append(np.maximum(layers[-1] @ w[f"{name}.weight"].T + w[f"{name}.bias"], 0))
    out = w["embedding.weight"][:-1] if config.tied_embeddings else w["output_words.weight"]
    logits = layers[-1] @ out.T + w["output_bias"]
    odds = np.exp(logits - logits.max(-1, keepdims=True))
    back = out[words] - (odds / odds.sum(-1, keepdims=True)) @ out  # ∂ log p / ∂ the last layer (B, T, m)
    for number in reversed(range(config.output_depth - 1)):
        back = (back * (layers[number + 1] > 0)) @ w[f"output_layers.{number}.weight"]
    if config.output_tanh:
        back = back * (1 - layers[0] ** 2)
    to_hidden = back @ w["output_hidden.weight"]
    to_memory = to_hidden * o * (1 - tanh**2)
    gates = [
        to_memory * g * i * (1 - i),
        to_memory * memories * f * (1 - f),
        to_hidden * tanh * o * (1 - o),
        to_memory * i * (1 - g**2),
    ]
    gradient = np.concatenate(gates, axis=-1) @ w["gates_from_context.weight"]
    if config.output_context:
        gradient = gradient + back @ w["output_context.weight"]
    along = (beta * gradient) @ weighed.swapaxes(1, 2)  # g · a_i (B, T, L)
    found = alpha * (along - (alpha * along).sum(-1, keepdims=True))
    return [part[:length] for part, length in zip(found, lengths, strict=True)]


def activated(gates: Array) -> tuple[Array, Array, Array, Array]:
    """The gates i, f and o and the modulator g of an LSTM, from what they are computed of (..., 4n)."""
    three, g = np.split(gates, [3 * gates.shape[-1] // 4], axis=-1)
    i, f, o = np.split((1 + np.tanh(three / 2)) / 2, 3, axis=-1)  # σ, which does not overflow
    return i, f, o, np.tanh(g)
