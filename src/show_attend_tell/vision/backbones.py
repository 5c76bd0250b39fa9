"""The networks that an encoder may hold: VGG-19, EfficientNet-Lite2, a small one, and those of `transformers`.

Letters in shapes: B batch, H × W pixels, L = rows · columns locations, D annotation size.
"""

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn import functional

from show_attend_tell.checkpoint.packing import as_array, as_tensors
from show_attend_tell.data.photos import IMAGENET_MEAN, IMAGENET_STD, Preprocessing, Resize
from show_attend_tell.errors import MissingPackage, SatError
from show_attend_tell.files import hub_id
from show_attend_tell.messages import install_command
from show_attend_tell.vision import efficientnet, vgg
from show_attend_tell.vision.weights import Weights

Precision = Literal["bfloat16", "float32"]
BUILT_IN = ("vgg19", efficientnet.NAME, "small")  # encoders that need no transformers
TORCHVISION_VGG19 = "https://download.pytorch.org/models/vgg19-dcbb9e9d.pth"


class Backbone(NamedTuple):
    """A network with everything that `encoder.Encoder` needs to know of it."""

    body: nn.Module  # (B, 3, size, size) → a map (B, D, rows, columns) or tokens (B, L, D)
    name: str
    annotation_size: int  # D
    grid: tuple[int, int]  # rows and columns of locations
    preprocessing: Preprocessing
    fixed_precision: Precision | None = None  # what `Encoder.annotate` always computes in; None: what is fastest


# VGG-19


class VGG19(nn.Module):
    """The sixteen convolutions of VGG-19 up to conv5_4 and its ReLU: (B, 3, H, W) → (B, 512, H / 16, W / 16).

    Each convolution bears torchvision's name, `features.N`. The last pooling and the classifier are left out:
    the paper's annotations are the map "before max pooling" (section 4.3). Simonyan and Zisserman 2014,
    configuration E.
    """

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for channels in vgg.LAYERS:
            if isinstance(channels, int):
                layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU(inplace=True)]
                before = channels
            else:
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.features(pixels)  # type: ignore[no-any-return]


def vgg19(weights: Weights, resize: Resize) -> Backbone:
    """VGG-19 with the shipped weights, torchvision's or those of a file, as `encoder.load_encoder` has it."""
    if weights == "torchvision":
        try:
            state = torch.hub.load_state_dict_from_url(
                TORCHVISION_VGG19, map_location="cpu", check_hash=True, weights_only=True
            )
        except (OSError, RuntimeError) as error:
            reason, remedy = f"could not be downloaded ({error})", "try again, or give a local file"
            raise SatError(reason, subject=TORCHVISION_VGG19, remedy=remedy) from None
        weights = {name: as_array(tensor) for name, tensor in state.items()}
    body = VGG19()
    body.load_state_dict(as_tensors(vgg.read(weights)))
    preprocessing = Preprocessing(resize=resize)
    locations = preprocessing.size // 16
    return Backbone(body, "vgg19", 512, (locations, locations), preprocessing)


# EfficientNet-Lite2


class EfficientNetLite2(nn.Module):
    """EfficientNet-Lite2 up to the head: (B, 3, H, W) → (B, 1280, H / 32, W / 32).

    H and W are multiples of 32. Each convolution bears its name in ``blocks``.
    """

    def __init__(self, blocks: Sequence[efficientnet.Block] = efficientnet.BLOCKS) -> None:
        super().__init__()
        self.blocks = blocks
        for block in blocks:
            for each in block.convolutions:
                layer = nn.Conv2d(each.inputs, each.outputs, each.kernel, each.stride, groups=each.groups)
                self.add_module(each.name, layer)

    def part(self, blocks: Sequence[efficientnet.Block]) -> "EfficientNetLite2":
        """A network of some of the blocks, one after the other, that shares their weights."""
        part = EfficientNetLite2(())
        part.blocks = blocks
        for each in (convolution for block in blocks for convolution in block.convolutions):
            part.add_module(each.name, self.get_submodule(each.name))
        return part

    def forward(self, pixels: Tensor) -> Tensor:
        value = pixels
        for block in self.blocks:
            read = value
            for each in block.convolutions:
                weight, bias = getattr(self, each.name).parameters()
                before, after = each.padding
                if before != after:  # zeros before the kernel do the same as fewer before the map, without a copy of it
                    weight = functional.pad(weight, (after - before, 0, after - before, 0))
                value = functional.conv2d(value, weight, bias, each.stride, after, groups=each.groups)
                if each.relu6:
                    value = functional.relu6(value, inplace=True)
            if block.adds_input:
                value = value + read
        return value


def efficientnet_lite2(weights: Weights, resize: Resize) -> Backbone:
    """EfficientNet-Lite2 with the shipped weights or with those that are given.

    It computes in float32. In bfloat16 its annotations change by a tenth (relative L2 norm), VGG-19's by 0.8 %.
    """
    body = EfficientNetLite2()
    body.load_state_dict(as_tensors(efficientnet.read(weights)))
    preprocessing, side = efficientnet.preprocessing(resize), efficientnet.SIZE // efficientnet.STEP
    return Backbone(body, efficientnet.NAME, efficientnet.CHANNELS, (side, side), preprocessing, "float32")


# The small one


class SmallEncoder(nn.Module):
    """Three convolutions with random weights, to be trained along: (B, 3, H, W) → (B, 64, H / 8, W / 8).

    Made for the generated pictures of `scenes`. A location sees 22 × 22 pixels around its own 8 × 8 (even kernels keep
    them centered), so that attention on it says what was seen. "Left of" cannot be known from these, so two more
    channels give each pixel's column and row, −1 to 1.
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
            if isinstance(layer, nn.Conv2d):  # He et al. 2015: else the biases drown what tells locations apart
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, pixels: Tensor) -> Tensor:
        batch, _, height, width = pixels.shape
        columns = torch.linspace(-1, 1, width, device=pixels.device).expand(batch, 1, height, width)
        rows = torch.linspace(-1, 1, height, device=pixels.device)[:, None].expand(batch, 1, height, width)
        return self.convolutions(torch.cat([pixels, columns, rows], dim=1))  # type: ignore[no-any-return]


def small(resize: Resize) -> Backbone:
    """A `SmallEncoder`, always with the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body = SmallEncoder()
    return Backbone(body, "small", 64, (8, 8), Preprocessing(size=64, resize=resize))


# Vision models of transformers


class TransformersBody(nn.Module):
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


def transformers_model(name: str, resize: Resize) -> Backbone:
    """The vision model of a hub id or a local folder; raises `SatError` for one that cannot be had or does not fit."""
    if Path(name).is_dir():  # a checkpoint that names this encoder is read from other folders too
        name = str(Path(name).resolve())
    elif "/" not in name:  # a misspelt name, which the hub takes half a minute to refuse
        raise SatError(
            f"there is no encoder {name!r}: choose {', '.join(BUILT_IN)}, a model of the Hugging Face hub "
            "(OWNER/NAME), or a local folder"
        )
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError:
        raise MissingPackage(
            f"encoder {name!r}: all but {', '.join(BUILT_IN)} need transformers", remedy=install_command("transformers")
        ) from None
    try:
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
        config = getattr(config, "vision_config", config)  # CLIP and similar models: the half for images
        model, info = transformers.AutoModel.from_pretrained(
            name,
            config=config,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError, ImportError, SafetensorError) as error:
        raise SatError(
            f"encoder {name!r}: neither one of {', '.join(BUILT_IN)} nor a model that transformers can load ({error})"
        ) from None
    model.float()
    # A pooler is not used, and checkpoints without one would get one at random: another digest at every
    # loading.
    if getattr(model, "pooler", None) is not None and next(model.pooler.parameters(), None) is not None:
        model.pooler = None
    if untrained := sorted(set(info["missing_keys"]) & model.state_dict().keys()):
        raise SatError(f"encoder {name!r}: its file of weights lacks {', '.join(untrained)}")
    preprocessing = _transformers_preprocessing(transformers, name, config, resize)
    body = TransformersBody(model)
    annotation_size, grid = _probe(body, name, config, preprocessing.size)
    return Backbone(body, hub_id(Path(name)) or name, annotation_size, grid, preprocessing)


def _transformers_preprocessing(transformers: Any, name: str, config: Any, resize: Resize) -> Preprocessing:
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
        raise SatError(f"encoder {name!r}: its preprocessor_config.json has no mean and std of three colors")
    return Preprocessing(size=size, resize=resize, mean=tuple(mean), std=tuple(std))


def _probe(body: TransformersBody, name: str, config: Any, size: int) -> tuple[int, tuple[int, int]]:
    """Find D and the grid by encoding a blank square; set how many tokens the body drops before the patches."""
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
    maps = getattr(output, "reshaped_hidden_states", None)  # Swin and similar ones, whose last stage has fewer
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
            f"encoder {name!r}: gives {tokens} tokens for photos of {size} × {size}, which are not"
            f" {rows} × {columns} locations with the usual tokens before them"
        )
    body.skipped = extra
    return annotations.shape[2], (rows, columns)
