"""Searches by the graphs of `OnnxDecoder`, and the evidence of the captions that they find.

B photos · B′ photos that are still searched · P paths · T words of a caption · L locations · D annotation size.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.backends.onnx.decoder import OnnxDecoder
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.hypotheses import Hypothesis
from show_attend_tell.search.session import Continuations, Numbers, Scores, SessionStep, distinct, gather, padded
from show_attend_tell.values import Array

WIDE = 30  # beam sizes from which on the products with the weights of ẑ pay


class OnnxSession:
    """A `DecoderSession`; finished paths and photos leave it, unless it `keeps_all`."""

    def __init__(
        self,
        decoder: OnnxDecoder,
        annotations: NDArray[np.float32],
        config: GenerationConfig,
        *,
        seeds: Sequence[int] = (),
        forced: int = 0,
    ) -> None:
        """Start at annotations (B, L, D); ``seeds`` has one for each photo, for sampled locations.

        It follows so many ``forced`` captions of each photo, or for 0 the paths of a search.
        """
        self.decoder = decoder
        self.attention_mode = config.attention_mode
        self.vocabulary_size = decoder.vocabulary_size
        self.photos = len(annotations)
        sampled = self.attention_mode == "sample"
        self.keeps_all = sampled or forced > 0
        self.paths = forced or (config.beam_size if sampled else 1)
        self.wide = not forced and config.beam_size >= WIDE
        self.uniforms = [uniforms(seed, config.max_length, self.paths) for seed in seeds if sampled]
        hidden, memory, self.weighed, self.keys = decoder.run(decoder.start, self.wide, annotations=annotations)
        self.rows: Numbers = np.tile(np.arange(self.paths), (self.photos, 1))  # the history of each path (B′, P′)
        self.hidden, self.memory = (np.repeat(part, self.paths, axis=1) for part in (hidden, memory))
        self.time = 0
        self.deep: NDArray[np.float32]

    def step(self, words: Numbers) -> SessionStep:
        decoder = self.decoder
        before = (self.hidden, self.memory)
        inputs = {"weighed": self.weighed, "keys": self.keys, "hidden": self.hidden}
        if self.attention_mode == "sample":
            inputs["uniforms"] = np.stack([of_photo[self.time] for of_photo in self.uniforms])
        alpha, shares, *others = decoder.run(decoder.attend, self.attention_mode, self.wide, **inputs)
        inputs = {"shares": shares, "memory": self.memory, "rows": self.rows, "words": decoder.of_words(words)}
        self.hidden, self.memory, self.deep = decoder.run(decoder.advance, **inputs)
        self.time += 1
        beta = others.pop(0) if decoder.config.gate else None
        shown = alpha if decoder.config.attends else None
        return SessionStep(self.rows, shown, beta, others[0] if others else None, *before)

    def reorder(self, photos: NDArray[np.bool_] | None, paths: Numbers) -> None:
        if photos is not None:
            self.weighed, self.keys, self.hidden, self.memory = (
                part[photos] for part in (self.weighed, self.keys, self.hidden, self.memory)
            )
        histories = paths  # each path has its own when all are followed
        if not self.keeps_all:
            histories, self.rows = distinct(paths, self.hidden.shape[1])
        self.hidden = gather(self.hidden, histories)
        self.memory = gather(self.memory, histories)

    def best(self, before: Scores, count: int, ids: Numbers, weights: Scores) -> Continuations:
        scores, chosen = self.decoder.run(
            self.decoder.best,
            deep=self.deep,
            before=before.astype(np.float32),
            ids=ids,
            weights=weights.astype(np.float32, copy=False),
            count=np.array([min(count, before.shape[1] * self.vocabulary_size)]),
        )
        return Continuations(scores, chosen // self.vocabulary_size, chosen % self.vocabulary_size)

    def log_probabilities(self) -> Scores:
        (log_p,) = self.decoder.run(self.decoder.log_probabilities, deep=self.deep)
        return log_p


def blind_session(decoder: OnnxDecoder, captions: int) -> OnnxSession:
    """As `Backend.blind_session`, with one location, since all of a photo of zeros are alike."""
    nothing = np.zeros((1, decoder.locations, decoder.config.annotation_size), np.float32)
    session = OnnxSession(decoder, nothing, GenerationConfig(), forced=captions)
    session.weighed = session.weighed[:, :1]
    session.keys = session.keys[:, :1]
    return session


def uniforms(seed: int, steps: int, paths: int) -> NDArray[np.float32]:
    """Numbers (steps, paths) from 0 to 1 by a seed, those of PyTorch's generator: both back ends draw alike.

    On a CPU, PyTorch takes the lower 24 of the 32 bits that a Mersenne twister gives, and ignores the higher bits of a
    seed.
    """
    twister = np.random.MT19937()
    twister._legacy_seeding(seed & 0xFFFFFFFF)
    bits = twister.random_raw(steps * paths) & 0xFFFFFF
    return (bits.astype(np.float32) / np.float32(1 << 24)).reshape(steps, paths)


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
    inputs = {"alpha": alpha, "beta": beta[..., None], "hidden": hidden, "memory": memory}
    inputs |= {"annotations": annotations, "words": decoder.of_words(before), "said": words}
    (maps,) = decoder.run(decoder.evidence, **inputs)
    return [of_photo[: len(caption.words)] for of_photo, caption in zip(maps, captions, strict=True)]


def batch_size(config: GenerationConfig) -> int:
    """How many photos are searched fastest together: those whose attention stays in the processor's cache."""
    return max(2, min(8, 40 // config.beam_size))
