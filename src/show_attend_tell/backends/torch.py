"""The back end of PyTorch: any decoder and encoder, on a processor or a GPU.

B photos · P paths · L locations · D annotation size · K vocabulary.

`TorchSession` is the reference: every other session is tested equal to it. On a processor the paper's decoder is
searched by the session of ONNX Runtime, which takes about half the time. A process that is forked computes on one
thread; one that is started by "spawn" on all.
"""

import os
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from show_attend_tell.backends.onnx.decoder import OnnxDecoder
from show_attend_tell.backends.onnx.encoder import OnnxEncoder
from show_attend_tell.backends.onnx.session import OnnxSession, batch_size, blind_session, evidence_closed_form
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.packing import as_array, as_tensors
from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import (
    Attended,
    AttentionMode,
    GivenLocations,
    MeanAttention,
    attention_mode_by_name,
    repeatable_mode,
)
from show_attend_tell.model.config import misfit
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.interface import (
    Decoder,
    State,
    Step,
    at_step,
    initial_state,
    map_parts,
    previous_words,
)
from show_attend_tell.model.kernels import promote
from show_attend_tell.model.registry import build
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.hypotheses import Hypothesis
from show_attend_tell.search.session import Continuations, DecoderSession, Numbers, Scores, SessionStep, padded
from show_attend_tell.settings import EVERYWHERE
from show_attend_tell.values import Array
from show_attend_tell.vision.backbones import ConvolutionalNetwork
from show_attend_tell.vision.encoder import Encode, Encoder, load_encoder
from show_attend_tell.vision.network import convolutions

CPU_PATHS = 400  # how many paths are fastest together; a processor's share its cache
GPU_PATHS = 1000
CPU_PHOTOS = 100  # at most, since more only take more memory

# PyTorch's threads are not in a forked process, which would wait for them forever. With one thread it needs none.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


class TorchBackend:
    """A decoder and its encoder on a device; `backends.base.Backend` says what its methods do."""

    name = "torch"

    def __init__(
        self,
        decoder: Decoder,
        encoder: Encoder | None = None,
        *,
        device: torch.device | None = None,
    ) -> None:
        """``encoder`` is None while a decoder is trained."""
        where = device or next(decoder.parameters()).device
        self.torch_device = where
        self.device = str(where)
        self.decoder = decoder.to(where).eval()
        self.encoder: Any = None if encoder is None else encoder.to(where)
        self._optimized: dict[int, OnnxDecoder] = {}

    @classmethod
    def load(
        cls, checkpoint: Checkpoint, name: str, *, device: torch.device, encoder_weights: str | Path | None = None
    ) -> "TorchBackend":
        """The back end of the model called ``name``; raises `SatError` for an encoder that does not fit."""
        decoder = build_decoder(checkpoint, name)
        tuned = None if checkpoint.tuned_encoder is None else as_tensors(checkpoint.tuned_encoder)
        encoder = checkpoint.encoder.load(load_encoder, name, weights=encoder_weights, tuned=tuned)
        return cls(decoder, encoder, device=device)

    @cached_property
    def encode(self) -> Encode:
        return fastest_encode(self.encoder)

    def features(self, annotations: Any) -> Tensor:
        tensor = annotations if isinstance(annotations, Tensor) else torch.from_numpy(annotations)
        return tensor.to(self.torch_device)

    def session(
        self, features: Tensor, config: GenerationConfig, *, seeds: Sequence[int], mode: AttentionMode | None = None
    ) -> DecoderSession:
        """As `Backend.session`; ``mode`` is another attention mode than the configuration's, made for these paths."""
        if mode is None and config.attention_mode in EVERYWHERE:
            optimized = self.optimized(features.shape[1])
            if optimized is not None:
                return OnnxSession(optimized, optimized.array(features), config, seeds=seeds)
        mode = mode or attention_mode_by_name(
            config.attention_mode,
            seeds=seeds,
            paths=config.beam_size,
            steps=config.max_length,
            device=self.torch_device,
        )
        return TorchSession(self.decoder, features, paths=config.beam_size, mode=mode)

    def blind_session(self, features: Tensor, captions: int) -> DecoderSession:
        optimized = self.optimized(features.shape[1])
        if optimized is not None:
            return blind_session(optimized, captions)
        return TorchSession(self.decoder, torch.zeros_like(features[:1]), paths=captions, mode=MeanAttention())

    def optimized(self, locations: int) -> OnnxDecoder | None:
        """The paper's decoder for ONNX Runtime on a processor, with the weights that it has at the first call."""
        if self.torch_device.type != "cpu" or not isinstance(self.decoder, AttentionDecoder):
            return None
        if locations not in self._optimized:
            self._optimized[locations] = OnnxDecoder(self.decoder.config, decoder_weights(self.decoder), locations)
        return self._optimized[locations]

    def evidence(
        self, features: Tensor, captions: Sequence[Hypothesis], config: GenerationConfig
    ) -> list[Array] | None:
        if not self.decoder.attends:
            return None
        decoder = self.optimized(features.shape[1])
        if decoder is not None and captions[0].trace.along("hidden") is not None:  # of its own session
            return evidence_closed_form(decoder, decoder.array(features), captions)
        return evidence_by_autograd(self.decoder, features, captions, repeatable_mode(config.attention_mode))

    def batch_size(self, config: GenerationConfig) -> int:
        if self.torch_device.type == "cpu" and isinstance(self.decoder, AttentionDecoder):
            return batch_size(config)
        if self.torch_device.type != "cpu":
            return max(1, GPU_PATHS // config.beam_size)
        return max(1, min(CPU_PHOTOS, CPU_PATHS // config.beam_size))

    def second_moments(self, features: Tensor, channels: Array) -> Array:
        with torch.inference_mode():
            return second_moments(features, torch.from_numpy(channels).to(features.device)).numpy(force=True)


def fastest_encode(encoder: Encoder) -> Encode:
    """The fastest way on this machine to make annotations (B, L, D), float32, of pixels (B, 3, S, S).

    PyTorch's depthwise convolutions are slow on a CPU, so ONNX Runtime runs a frozen encoder that has them there, with
    the weights that it has now; its annotations agree to about 1e-5. Else it is `Encoder.annotate`.
    """
    body = encoder.body
    on_cpu = next(encoder.parameters()).device.type == "cpu"
    depthwise = isinstance(body, ConvolutionalNetwork) and any(layer.groups > 1 for layer in convolutions(body.blocks))
    if not (depthwise and encoder.frozen and on_cpu and encoder.precision == "float32"):
        return encoder.annotate
    weights = {name: as_array(tensor) for name, tensor in body.state_dict().items()}
    network = OnnxEncoder(encoder.name, body.blocks, weights, encoder.preprocessing)

    def encode(pixels: Tensor | Array) -> Tensor:
        encoder.check(pixels)
        return torch.from_numpy(network.annotate(pixels.numpy() if isinstance(pixels, Tensor) else pixels))

    return encode


class TorchSession:
    """A `DecoderSession` that follows ``paths`` paths of every photo to the end, with any attention mode."""

    keeps_all = True

    @torch.inference_mode()
    def __init__(self, decoder: Decoder, annotations: Tensor, *, paths: int, mode: AttentionMode) -> None:
        """Start at annotations (B, L, D)."""
        self.decoder = decoder
        self.mode = mode
        self.device = annotations.device
        self.vocabulary_size = decoder.vocabulary_size
        self.photos = len(annotations)
        self.paths = paths
        self.state = initial_state(decoder, annotations, paths=paths)
        self.rows = np.tile(np.arange(paths), (self.photos, 1))
        self.taken: Step

    @torch.inference_mode()
    def step(self, words: Numbers) -> SessionStep:
        embedded = self.decoder.embed(torch.from_numpy(words).to(self.device))
        self.taken = self.decoder.step(embedded, self.state, self.mode)
        return SessionStep(self.rows, self.taken.alpha, self.taken.beta, self.taken.locations)

    @torch.inference_mode()
    def reorder(self, photos: NDArray[np.bool_] | None, paths: Numbers) -> None:
        self.state = self.taken.state.select(torch.from_numpy(paths).to(self.device))

    @torch.inference_mode()
    def best(self, before: Scores, count: int, ids: Numbers, weights: Scores) -> Continuations:
        """As `DecoderSession.best`; the top candidates are taken on the device."""
        scores = self._log_probabilities()
        scores = scores + torch.from_numpy(before).to(scores)[..., None]
        scores.scatter_add_(-1, torch.from_numpy(ids).to(self.device), torch.from_numpy(weights).to(scores))
        best_scores, chosen = scores.flatten(1).topk(min(count, scores[0].numel()), dim=-1)
        children = chosen.numpy(force=True)
        return Continuations(
            best_scores.numpy(force=True), children // self.vocabulary_size, children % self.vocabulary_size
        )

    @torch.inference_mode()
    def log_probabilities(self) -> Scores:
        return self._log_probabilities().numpy(force=True)

    def _log_probabilities(self) -> Tensor:
        return torch.log_softmax(promote(self.decoder.read_out(self.taken.output)), dim=-1)


class ShiftedMean:
    """The mean context by α whose energies are shifted by ``shift`` (B, 1, L), to be differentiated by it."""

    def __init__(self, shift: Tensor) -> None:
        self.shift = shift

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        """The context of annotations (B, L, D) by alpha (B, 1, L)."""
        shifted = torch.softmax(promote(alpha.detach()).log() + self.shift, dim=-1)
        return Attended(shifted.to(annotations.dtype) @ annotations, None)


def evidence_by_autograd(
    decoder: Decoder, annotations: Tensor, captions: Sequence[Hypothesis], mode: AttentionMode | None
) -> list[Array] | None:
    """`Backend.evidence` by automatic differentiation, of annotations (B, L, D).

    The state goes on by the locations that the captions' decoder read, or else by ``mode``. None where a decoder does
    not depend on the context of its attention mode, and without locations and a mode.
    """
    words = torch.from_numpy(padded([np.array(caption.words) for caption in captions])).to(annotations.device)
    if captions[0].locations is not None:
        read = padded([as_array(caption.locations) for caption in captions])
        mode = GivenLocations(torch.from_numpy(read)[:, None])
    if mode is None:
        return None
    by_mean = isinstance(mode, MeanAttention)  # the step that is differentiated is the one that is taken
    with torch.no_grad():
        embedded = decoder.embed(previous_words(decoder, words))
        state = initial_state(decoder, annotations.clone())  # encoders give tensors that autograd does not take
    gradients = []
    for time in range(words.shape[1]):
        now = at_step(embedded, time, 1)
        shift = torch.zeros(len(words), 1, annotations.shape[1], device=words.device, requires_grad=True)
        with torch.enable_grad():
            step = decoder.step(now, state, ShiftedMean(shift))
            log_p = torch.log_softmax(promote(decoder.read_out(step.output)), dim=-1)
            total = log_p[torch.arange(len(words)), 0, words[:, time]].sum()
            (gradient,) = torch.autograd.grad(total, shift, allow_unused=True)
        if gradient is None:
            return None
        gradients.append(gradient[:, 0].numpy(force=True))
        with torch.no_grad():
            after = step.state if by_mean else decoder.step(now, state, mode).state
        state = State(state.source, map_parts(Tensor.detach, after.memory))
    maps = np.stack(gradients, axis=1)  # (B, T, L)
    return [of_photo[: len(caption.words)] for of_photo, caption in zip(maps, captions, strict=True)]


def build_decoder(checkpoint: Checkpoint, name: str = "the model") -> Decoder:
    """The decoder of a checkpoint; raises `SatError`, naming the model, for weights that do not fit."""
    try:
        decoder = build(checkpoint.config)
    except (TypeError, RuntimeError) as error:
        raise SatError(f"{name}: its config.json is damaged: the decoder cannot be made ({error})") from error
    shapes = {key: tuple(weight.shape) for key, weight in decoder.state_dict().items()}
    difference = misfit(checkpoint.weights, shapes)
    if difference:
        raise SatError(f"{name}: its model.safetensors does not fit its config.json: {difference}")
    decoder.load_state_dict(as_tensors(checkpoint.weights))
    return decoder.eval()


def decoder_weights(decoder: nn.Module) -> dict[str, Array]:
    """A decoder's weights as a checkpoint has them."""
    return {name: np.array(as_array(value), order="C") for name, value in decoder.state_dict().items()}


def second_moments(annotations: Tensor, channels: Tensor) -> Tensor:
    """Signed roots of Σ_i a_i a_iᵀ's upper triangle, scaled to length one (B, M), of normalized a (B, L, D)."""
    normal = nn.functional.layer_norm(annotations.float(), annotations.shape[-1:]).index_select(-1, channels)
    rows, columns = torch.triu_indices(len(channels), len(channels), device=annotations.device)
    moments = (normal.mT @ normal)[:, rows, columns]
    return nn.functional.normalize(torch.copysign(moments.abs().sqrt(), moments), dim=-1)
