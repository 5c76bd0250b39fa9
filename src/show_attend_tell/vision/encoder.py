"""The encoder: a photo in, a grid of annotation vectors out (section 3.1.1 of the paper).

Letters in shapes: B batch, H × W pixels, L = rows · columns places, D annotation size. A place's index is
row · columns + column, row 0 at the top.
"""

import hashlib
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from show_attend_tell.data.photos import IMAGENET_MEAN, IMAGENET_STD, Geometry, Preprocessing
from show_attend_tell.device import native_bf16
from show_attend_tell.errors import SatError
from show_attend_tell.packing import unpack_8bit

Precision = Literal["bfloat16", "float32"]

SHIPPED_VGG19 = Path(__file__).parent / "vgg19" / "model.safetensors"
TORCHVISION_VGG19 = "https://download.pytorch.org/models/vgg19-dcbb9e9d.pth"


class Encoder(nn.Module):
    """A network that turns a photo's pixels into annotation vectors, and the preprocessing it was made for.

    It is frozen: its parameters need no gradient, and it stays in evaluation mode whatever `train()` it or a
    parent module is told, so that dropout and batch norm never act up. `unfreeze()` allows fine-tuning.

    Attributes: `name`; `annotation_size` D; `grid`, the rows and columns of places; `preprocessing`.

    `body` maps pixels (B, 3, size, size) to a map (B, D, rows, columns) or to tokens (B, L, D).
    """

    def __init__(
        self,
        body: nn.Module,
        *,
        name: str,
        annotation_size: int,
        grid: tuple[int, int],
        preprocessing: Preprocessing,
    ) -> None:
        super().__init__()
        # Weights in channels_last: convolutions in bfloat16 on a CPU are several times faster so.
        self.body = body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.name = name
        self.annotation_size = annotation_size
        self.grid = grid
        self.preprocessing = preprocessing
        self.frozen = True
        self.requires_grad_(False)
        self.eval()

    @property
    def digest(self) -> str:
        """The SHA-256 of the weights in use, which a checkpoint or feature cache compares with its own.

        It covers the body's parameters and buffers in the order of their names: each one's name, type, shape
        and bytes (`weights_digest`). Floating weights count as float32, 8-bit ones as what they unpack to;
        the precision of computation has no part in it. Computed anew at each reading (0.1 s for VGG-19).
        """
        return weights_digest(self.body.state_dict())

    @property
    def precision(self) -> Precision:
        """What `annotate` computes in unless told: bfloat16 where the hardware has it, otherwise float32."""
        return "bfloat16" if native_bf16(self._device) else "float32"

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the annotations a of preprocessed pixels: (B, 3, size, size) → (B, L, D) float32.

        Gradients flow when the encoder is unfrozen. Raises `SatError` for pixels of another shape.
        """
        size = self.preprocessing.size
        if pixels.ndim != 4 or pixels.shape[1:] != (3, size, size):
            raise SatError(f"encoder {self.name}: pixels are (B, 3, {size}, {size}), not {tuple(pixels.shape)}")
        annotations = self.body(pixels)
        if annotations.ndim == 4:
            annotations = annotations.flatten(2).transpose(1, 2)  # (B, D, rows, columns) → (B, L, D)
        return annotations.float().contiguous()  # type: ignore[no-any-return]

    def annotate(self, pixels: Tensor, *, precision: Precision | None = None) -> Tensor:
        """Return the annotations as `forward` does, without gradient and as fast as the hardware goes.

        (B, 3, size, size) → (B, L, D) float32, on the encoder's device. Computed in `precision`, by default
        the encoder's own. An unfrozen encoder is put in evaluation mode meanwhile.
        """
        precision = precision or self.precision
        device = self._device
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

    @property
    def _device(self) -> torch.device:
        return next(self.parameters()).device


class VGG19(nn.Module):
    """The sixteen convolutions of VGG-19 up to conv5_4 and its ReLU: (B, 3, H, W) → (B, 512, H / 16, W / 16).

    Each convolution bears torchvision's name, `features.N`. The last pooling and the classifier are left out:
    the paper's annotations are the map "before max pooling" (section 4.3). Simonyan and Zisserman 2014,
    configuration E.
    """

    CHANNELS = (64, 64, "pool", 128, 128, "pool", *[256] * 4, "pool", *[512] * 4, "pool", *[512] * 4)

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for channels in self.CHANNELS:
            if isinstance(channels, int):
                layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU(inplace=True)]
                before = channels
            else:
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.features(pixels)  # type: ignore[no-any-return]


class SmallEncoder(nn.Module):
    """Three convolutions with random weights, to be trained along: (B, 3, H, W) → (B, 64, H / 8, W / 8).

    Made for the generated pictures of `scenes`. A place sees the 22 × 22 pixels around its own 8 × 8 (even kernels keep
    them centred), so that attention on it says what was seen; as "left of" cannot be known from there, two more
    channels tell each pixel's column and row, −1 to 1.
    """

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(5, 32, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 64, 4, stride=2, padding=1),
            nn.ReLU(),
        )
        for layer in self.convolutions:
            if isinstance(layer, nn.Conv2d):  # He et al. 2015: else the biases drown what tells places apart
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, pixels: Tensor) -> Tensor:
        batch, _, height, width = pixels.shape
        columns = torch.linspace(-1, 1, width, device=pixels.device).expand(batch, 1, height, width)
        rows = torch.linspace(-1, 1, height, device=pixels.device)[:, None].expand(batch, 1, height, width)
        return self.convolutions(torch.cat([pixels, columns, rows], dim=1))  # type: ignore[no-any-return]


def load_encoder(name: str = "vgg19", *, weights: str | Path | None = None, geometry: Geometry = "crop") -> Encoder:
    """Return a frozen encoder in float32 on the CPU.

    `name` is `vgg19`; or `small`, an untrained network for pictures of 64 × 64 that is to be trained along
    (`SmallEncoder`), always with the same weights at first; or the id or local folder of a vision model of Hugging
    Face `transformers` (an extra) that gives a feature map or patch tokens; class and register tokens are dropped.

    `weights` is for `vgg19` only. None takes the 8-bit file that is shipped with this package,
    `vision/vgg19/model.safetensors` of this package; `"torchvision"` downloads torchvision's published file,
    once, and checks its hash; a path takes a `.safetensors` file in torchvision's layout, plain or 8-bit
    (`pack_8bit`). These are different weights: a decoder works only with those that it was trained on
    (`Encoder.digest`).

    Raises `SatError` for an encoder or weights that cannot be had, and for weights that do not fit.
    """
    body: nn.Module
    if name == "vgg19":
        body = VGG19()
        body.load_state_dict(_vgg19_weights(weights))
        preprocessing = Preprocessing(geometry=geometry)
        places = preprocessing.size // 16
        return Encoder(body, name=name, annotation_size=512, grid=(places, places), preprocessing=preprocessing)
    if weights is not None:
        raise SatError(f"encoder {name}: only vgg19 takes a file of weights; name the model's local folder instead")
    if Path(name).is_dir():
        name = str(Path(name).resolve())  # a model's record of its encoder is read from other folders too
    if name == "small":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            body = SmallEncoder()
        preprocessing = Preprocessing(size=64, geometry=geometry)
        return Encoder(body, name=name, annotation_size=64, grid=(8, 8), preprocessing=preprocessing)
    return _load_transformers(name, geometry)


def weights_digest(state: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of named weights, in hexadecimal.

    Hashed are, in the order of the names, a line `NAME torch.float32 (SHAPE)` and the bytes of each tensor in
    row-major order; floating tensors count as float32.
    """
    sha = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu()
        if tensor.is_floating_point():
            tensor = tensor.float()
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        sha.update(tensor.contiguous().numpy().data)
    return sha.hexdigest()


def _vgg19_weights(weights: str | Path | None) -> dict[str, Tensor]:
    """Read float32 weights for `VGG19` and check that all of them are there, and nothing else."""
    if weights == "torchvision":
        source = TORCHVISION_VGG19
        try:
            state = torch.hub.load_state_dict_from_url(source, map_location="cpu", check_hash=True, weights_only=True)
        except (OSError, RuntimeError) as error:
            raise SatError(f"{source}: could not be downloaded ({error}); try again, or give a local file") from None
    else:
        path = SHIPPED_VGG19 if weights is None else Path(weights)
        source = str(path)
        if not path.is_file():
            raise SatError(f"{path}: no such file of VGG-19 weights; give another, or 'torchvision' to download them")
        try:
            state = safetensors.torch.load_file(path)
        except (SafetensorError, OSError) as error:
            raise SatError(f"{path}: not a readable .safetensors file ({error})") from None
    try:
        state = unpack_8bit({name: state[name] for name in state if not name.startswith("classifier.")})
    except SatError as error:
        raise SatError(f"{source}: {error}") from None
    with torch.device("meta"):
        expected = {name: tuple(tensor.shape) for name, tensor in VGG19().state_dict().items()}
    if missing := sorted(expected.keys() - state.keys()):
        raise SatError(f"{source}: not the weights of VGG-19, lacks {', '.join(missing)}")
    if extra := sorted(state.keys() - expected.keys()):
        raise SatError(f"{source}: not the weights of VGG-19, has besides {', '.join(extra)}")
    for name, shape in expected.items():
        if tuple(state[name].shape) != shape:
            raise SatError(f"{source}: {name} has shape {tuple(state[name].shape)}, VGG-19's is {shape}")
    return state


class _TransformersBody(nn.Module):
    """A vision model of `transformers`, its output brought to a map or to patch tokens in rows.

    (B, 3, H, W) → (B, D, rows, columns), or (B, L, D) with the tokens before the patches (class, registers)
    dropped.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.skipped = 0  # tokens before the first patch

    def forward(self, pixels: Tensor) -> Tensor:
        output = self.model(pixel_values=pixels).last_hidden_state
        return output if output.ndim == 4 else output[:, self.skipped :]  # type: ignore[no-any-return]


def _load_transformers(name: str, geometry: Geometry) -> Encoder:
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError:
        raise SatError(
            f"encoder {name!r}: all but vgg19 and small need transformers: pip install 'show-attend-tell[transformers]'"
        ) from None
    try:
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
        config = getattr(config, "vision_config", config)  # CLIP and its like: the half that sees
        model, info = transformers.AutoModel.from_pretrained(
            name,
            config=config,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError, ImportError, SafetensorError) as error:
        raise SatError(f"encoder {name!r}: neither vgg19 nor a model that transformers can load ({error})") from None
    model.float()
    # A pooler is not used, and checkpoints without one would get one at random: another digest at every
    # loading.
    if getattr(model, "pooler", None) is not None and next(model.pooler.parameters(), None) is not None:
        model.pooler = None
    if untrained := sorted(set(info["missing_keys"]) & model.state_dict().keys()):
        raise SatError(f"encoder {name!r}: its file of weights lacks {', '.join(untrained)}")
    preprocessing = _transformers_preprocessing(transformers, name, config, geometry)
    body = _TransformersBody(model)
    annotation_size, grid = _probe(body, name, config, preprocessing.size)
    return Encoder(body, name=name, annotation_size=annotation_size, grid=grid, preprocessing=preprocessing)


def _transformers_preprocessing(transformers: Any, name: str, config: Any, geometry: Geometry) -> Preprocessing:
    values: dict[str, Any] = {}  # of a model that comes without: ImageNet's usual ones
    if not Path(name).is_dir() or (Path(name) / "preprocessor_config.json").exists():
        try:
            values, _ = transformers.ImageProcessingMixin.get_image_processor_dict(name)
        except OSError as error:
            if Path(name).is_dir():
                raise SatError(f"encoder {name!r}: its preprocessor_config.json is damaged ({error})") from None
    size = values.get("crop_size") if values.get("do_center_crop") else None
    size = size or values.get("size") or getattr(config, "image_size", None) or 224
    if isinstance(size, Mapping):
        size = size.get("shortest_edge") or size.get("height")
    if isinstance(size, (list, tuple)):
        size = size[0]
    if not isinstance(size, int):
        raise SatError(f"encoder {name!r}: its preprocessor_config.json names no size in pixels")
    mean, std = (values.get("image_mean") or IMAGENET_MEAN), (values.get("image_std") or IMAGENET_STD)
    if values.get("do_normalize") is False:
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if not all(isinstance(three, (list, tuple)) and len(three) == 3 for three in (mean, std)):
        raise SatError(f"encoder {name!r}: its preprocessor_config.json has no mean and std of three colours")
    return Preprocessing(size=size, geometry=geometry, mean=tuple(mean), std=tuple(std))


def _probe(body: _TransformersBody, name: str, config: Any, size: int) -> tuple[int, tuple[int, int]]:
    """Find D and the grid by encoding a blank square; tell the body how many tokens precede the patches."""
    body.eval()
    try:
        with torch.no_grad():
            output = body.model(pixel_values=torch.zeros(1, 3, size, size), output_hidden_states=True)
        annotations = output.last_hidden_state
    except Exception as error:  # text, audio and other models fail in ways of their own
        raise SatError(f"encoder {name!r}: does not encode photos of {size} × {size} ({error})") from None
    if annotations.ndim == 4:
        return annotations.shape[1], (annotations.shape[2], annotations.shape[3])
    tokens = annotations.shape[1]
    maps = getattr(output, "reshaped_hidden_states", None)  # Swin and its like, whose last stage has fewer places
    if maps is not None:
        rows, columns = maps[-1].shape[2:]
        extra, known = tokens - rows * columns, {0}
    else:
        patch = getattr(config, "patch_size", None)
        if patch is None:
            raise SatError(f"encoder {name!r}: gives {tokens} tokens, but its configuration has no patch_size")
        height, width = patch if isinstance(patch, (list, tuple)) else (patch, patch)
        rows, columns = size // height, size // width
        registers = getattr(config, "num_register_tokens", 0)
        extra, known = tokens - rows * columns, {registers + i for i in range(3)}  # none, a class, DeiT's two
    if extra not in known:
        raise SatError(
            f"encoder {name!r}: gives {tokens} tokens for photos of {size} × {size}, which is no grid of"
            f" {rows} × {columns} places with the usual tokens before it"
        )
    body.skipped = extra
    return annotations.shape[2], (rows, columns)
