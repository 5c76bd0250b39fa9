"""Evidence of the paper's decoder in closed form, by its ONNX graph.

B photos · T words · L locations · D annotation size.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.backends.onnx.decoder import OnnxDecoder
from show_attend_tell.search.hypotheses import Hypothesis

Array = NDArray[Any]


def evidence_closed_form(decoder: OnnxDecoder, annotations: Array, captions: Sequence[Hypothesis]) -> list[Array]:
    """α_ti g_t · (a_i − z_t) in nats (T, L) of one caption for each photo's annotations (B, L, D).

    z_t = Σ_j α_tj a_j is the mean context, and g_t = ∂ log p(y_t) / ∂ z_t, with β_t and the state before the step held
    fixed. It is the gradient of log p(y_t) with respect to the energies of the attention. The captions are those of an
    `OnnxSession`, which kept α, β and the states.
    """
    words = padded([np.array(caption.words) for caption in captions])
    alpha, hidden, memory = (
        padded([caption.trace.along(name) for caption in captions]) for name in ("alpha", "hidden", "memory")
    )
    beta = np.ones(words.shape, np.float32)
    if decoder.config.gate:
        beta = padded([caption.beta for caption in captions])
    before = np.concatenate([np.full((len(words), 1), decoder.vocabulary_size), words[:, :-1]], axis=1)
    given = {"alpha": alpha, "beta": beta[..., None], "hidden": hidden, "memory": memory}
    (found,) = decoder.evidence(annotations=annotations, **given, words=decoder.of_words(before), said=words)
    return [part[: len(caption.words)] for part, caption in zip(found, captions, strict=True)]


def padded(rows: Sequence[Array]) -> Array:
    """Arrays (T, ·) of several lengths as one, with zeros at their ends (B, T, ·)."""
    found = np.zeros((len(rows), max(map(len, rows)), *rows[0].shape[1:]), rows[0].dtype)
    for one, row in zip(found, rows, strict=True):
        one[: len(row)] = row
    return found
