"""The networks that an encoder may hold: those that are known as data, and those of `transformers`.

Letters in shapes: B batch, H × W pixels, L = rows · columns locations, D annotation size.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn import functional

from show_attend_tell.checkpoint.packing import as_tensors
from show_attend_tell.data.photos import IMAGENET_MEAN, IMAGENET_STD, Preprocessing, Resize
from show_attend_tell.errors import MissingPackage, SatError
from show_attend_tell.files import hub_id
from show_attend_tell.messages import install_command
from show_attend_tell.registries import Registry
from show_attend_tell.vision.network import Block, Network, Precision, Weights, convolutions, reach
from show_attend_tell.vision.registry import ENCODERS


class Backbone(NamedTuple):
    """A network with everything that `encoder.Encoder` needs to know of it."""

    body: nn.Module  # (B, 3, size, size) → a map (B, D, rows, columns) or tokens (B, L, D)
    name: str
    annotation_size: int  # D
    grid: tuple[int, int]  # rows and columns of locations
    preprocessing: Preprocessing
    fixed_precision: Precision | None = None  # what `Encoder.annotate` always computes in; None: what is fastest


# Encoders that programs add, which only PyTorch computes
PYTORCH_ENCODERS: Registry[Callable[[Resize], Backbone]] = Registry("an encoder", "pytorch_encoders")


# Networks that are known as data


class ConvolutionalNetwork(nn.Module):
    """The network of some blocks: (B, C, H, W) → (B, D, rows, columns). The weights have the convolutions' names."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        super().__init__()
        self.blocks = blocks
        for layer in convolutions(blocks):
            self._add(
                layer.name, nn.Conv2d(layer.inputs, layer.outputs, layer.kernel, layer.stride, groups=layer.groups)
            )

    def _add(self, name: str, layer: nn.Module) -> None:
        """Add a layer under a name that may have points, as torchvision's names have."""
        *path, last = name.split(".")
        owner: nn.Module = self
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, nn.Module())
            owner = owner.get_submodule(part)
        owner.add_module(last, layer)

    def part(self, blocks: Sequence[Block]) -> "ConvolutionalNetwork":
        """A network of some of the blocks, one after the other, that shares their weights."""
        part = type(self)(())
        part.blocks = blocks
        for layer in convolutions(blocks):
            part._add(layer.name, self.get_submodule(layer.name))
        return part

    def forward(self, pixels: Tensor) -> Tensor:
        value = pixels
        for block in self.blocks:
            read = value
            for layer in block.convolutions:
                weight: Tensor = self.get_parameter(f"{layer.name}.weight")
                before, after = layer.padding
                if before != after:  # zeros before the kernel do the same as fewer before the map, without a copy of it
                    weight = functional.pad(weight, (after - before, 0, after - before, 0))
                value = functional.conv2d(
                    value, weight, self.get_parameter(f"{layer.name}.bias"), layer.stride, after, groups=layer.groups
                )
                if layer.activation:
                    value = getattr(functional, layer.activation)(value, inplace=True)
            if block.adds_input:
                value = value + read
            if block.pools:
                value = functional.max_pool2d(value, 2)
        return value


def network_backbone(network: Network, weights: Weights, resize: Resize) -> Backbone:
    """A network with its shipped weights, or those of a file, as `encoder.load_encoder` has it."""
    body = ConvolutionalNetwork(network.blocks)
    body.load_state_dict(as_tensors(network.read(weights)))
    locations = network.size // reach(network.blocks)
    return Backbone(
        body,
        network.name,
        convolutions(network.blocks)[-1].outputs,
        (locations, locations),
        network.preprocessing(resize),
        network.fixed_precision,
    )


# Vision models of transformers


class TransformersBody(nn.Module):
    """A vision model of `transformers`: (B, 3, H, W) → a map (B, D, rows, columns), or patch tokens (B, L, D)."""

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
            f"there is no encoder {name!r}: choose {', '.join(ENCODERS)}, a model of the Hugging Face hub "
            "(OWNER/NAME), a local folder, or one that a --plugin registers"
        )
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError:
        raise MissingPackage(
            f"encoder {name!r}: all but {', '.join(ENCODERS)} need transformers",
            remedy=install_command("transformers"),
        ) from None
    try:
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
        config = getattr(config, "vision_config", config)  # CLIP and similar models: the half for images
        how = {"use_safetensors": True, "trust_remote_code": False, "output_loading_info": True}
        model, info = transformers.AutoModel.from_pretrained(name, config=config, **how)
    except (OSError, ValueError, RuntimeError, ImportError, SafetensorError) as error:
        raise SatError(
            f"encoder {name!r}: neither one of {', '.join(ENCODERS)} nor a model that transformers can load ({error})"
        ) from None
    model.float()
    # A pooler is not used, and checkpoints without one would get a random one: another digest at every loading.
    if getattr(model, "pooler", None) is not None and next(model.pooler.parameters(), None) is not None:
        model.pooler = None
    untrained = sorted(set(info["missing_keys"]) & model.state_dict().keys())
    if untrained:
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
    mean = values.get("image_mean") or IMAGENET_MEAN
    std = values.get("image_std") or IMAGENET_STD
    if values.get("do_normalize") is False:
        mean = (0.0, 0.0, 0.0)
        std = (1.0, 1.0, 1.0)
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
    else:
        patch = getattr(config, "patch_size", None)
        if patch is None:
            raise SatError(f"encoder {name!r}: gives {tokens} tokens, but its configuration has no patch_size")
        height, width = patch if isinstance(patch, (list, tuple)) else (patch, patch)
        rows = size // height
        columns = size // width
    body.skipped = tokens - rows * columns
    if not 0 <= body.skipped - getattr(config, "num_register_tokens", 0) <= 2:  # none, a class, DeiT's two
        raise SatError(
            f"encoder {name!r}: gives {tokens} tokens for photos of {size} × {size}, which are not"
            f" {rows} × {columns} locations with the usual tokens before them"
        )
    return annotations.shape[2], (rows, columns)
