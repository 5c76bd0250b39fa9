"""The encoder: a photo in, a grid of annotation vectors out (section 3.1.1 of the paper).

Letters in shapes: B batch, H × W pixels, L = rows · columns locations, D annotation size. A location's index is
row · columns + column, row 0 at the top.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from show_attend_tell.checkpoint import packing
from show_attend_tell.data.photos import Resize
from show_attend_tell.devices import native_bf16
from show_attend_tell.errors import SatError
from show_attend_tell.vision.backbones import PYTORCH_ENCODERS, Backbone, network_backbone, transformers_model
from show_attend_tell.vision.network import Precision, Weights
from show_attend_tell.vision.registry import ENCODERS

Encode = Callable[[Tensor | NDArray[Any]], Tensor]  # pixels (B, 3, S, S) → annotations (B, L, D) in float32


class Encoder(nn.Module):
    """A network that turns a photo's pixels into annotation vectors, with the attributes of its `Backbone`.

    It is frozen until `unfreeze()`: no gradient, no dropout, and batch norm keeps its statistics, also under `train()`.
    """

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        body, self.name, self.annotation_size, self.grid, self.preprocessing, self.fixed_precision = backbone
        # Weights in channels_last: convolutions in bfloat16 on a CPU are several times faster so.
        self.body = body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.frozen = True
        self.requires_grad_(False)
        self.eval()

    @property
    def digest(self) -> str:
        """The SHA-256 of the weights in use (`packing.weights_digest`), computed anew at each reading."""
        return packing.weights_digest(
            {name: packing.as_array(weight) for name, weight in self.body.state_dict().items()}
        )

    @property
    def precision(self) -> Precision:
        """What `annotate` computes in by default: `fixed_precision`, or bfloat16 where the hardware has it."""
        return self.fixed_precision or ("bfloat16" if native_bf16(self._device) else "float32")

    def forward(self, pixels: Tensor) -> Tensor:
        """The annotations of pixels: (B, 3, size, size) → (B, L, D) float32, with gradient when it is unfrozen."""
        self.check(pixels)
        annotations = self.body(pixels)
        if annotations.ndim == 4:
            annotations = annotations.flatten(2).transpose(1, 2)  # (B, D, rows, columns) → (B, L, D)
        return annotations.float().contiguous()  # type: ignore[no-any-return]

    def annotate(self, pixels: Tensor | NDArray[Any], *, precision: Precision | None = None) -> Tensor:
        """As `forward`, without gradient and as fast as the hardware goes, in `precision`; pixels may be an array."""
        precision = precision or self.precision
        device = self._device
        pixels = pixels if isinstance(pixels, Tensor) else torch.from_numpy(pixels)
        training = self.training
        self.eval()
        try:
            # no_grad and not inference_mode: a decoder may then be trained on the result.
            autocast = torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")
            with torch.no_grad(), autocast:
                pixels = pixels.to(device, memory_format=torch.channels_last)
                return self(pixels)  # type: ignore[no-any-return]
        finally:
            self.train(training)

    def adopt(self, weights: Mapping[str, Tensor]) -> None:
        """Replace weights of the body by tuned ones; raises `SatError` for a name or a shape that it does not have."""
        try:
            unknown = self.body.load_state_dict(weights, strict=False).unexpected_keys
        except RuntimeError as error:
            raise SatError(f"tuned weights do not fit the encoder {self.name}: {error}") from error
        if unknown:
            raise SatError(f"tuned weights do not fit the encoder {self.name}, which has no {', '.join(unknown)}")

    def unfreeze(self) -> None:
        """Let the weights be trained; batch norm keeps its running statistics even then, as is usual."""
        self.frozen = False
        self.requires_grad_(True)

    def train(self, mode: bool = True) -> "Encoder":
        """Set training mode as PyTorch does, but leave a frozen encoder and any batch norm in evaluation."""
        super().train(mode and not self.frozen)
        for module in self.modules():
            if isinstance(module, _BatchNorm):
                module.eval()
        return self

    def check(self, pixels: Tensor | NDArray[Any]) -> None:
        """Raise `SatError` for pixels that are not (B, 3, size, size)."""
        size = self.preprocessing.size
        if pixels.ndim != 4 or pixels.shape[1:] != (3, size, size):
            raise SatError(f"encoder {self.name}: pixels are (B, 3, {size}, {size}), not {tuple(pixels.shape)}")

    @property
    def _device(self) -> torch.device:
        return next(self.parameters()).device


def load_encoder(name: str = "vgg19", *, weights: Weights = None, resize: Resize = "crop") -> Encoder:
    """Return a frozen encoder in float32 on the CPU.

    `name` is one of these:

    - `vgg19`, `efficientnet-lite2-1280`, or another of `registry.ENCODERS`;
    - an encoder of `backbones.PYTORCH_ENCODERS`, to which programs add their own;
    - the hub id or the local folder of a vision model of Hugging Face `transformers` (an extra) that
      gives a feature map or patch tokens. A folder of the hub's cache is known by its hub id, every
      other folder by its whole path.

    `weights` is for `registry.ENCODERS`. None takes the encoder's own file; a path takes another `.safetensors` file
    with the same names, plain or 8-bit (`pack`). A decoder works only with the weights that it was trained on
    (`Encoder.digest`).

    Raises `SatError` for an encoder or weights that cannot be had, and for weights that do not fit.
    """
    if name in ENCODERS:
        return Encoder(network_backbone(ENCODERS[name], weights, resize))
    if weights is not None:
        raise SatError(
            f"encoder {name}: only {' and '.join(ENCODERS)} take a file of weights; name the model's local folder "
            "instead"
        )
    own = PYTORCH_ENCODERS.get(name)
    return Encoder(own(resize) if own else transformers_model(name, resize))
