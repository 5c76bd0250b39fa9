"""An encoder cut in two: what is computed once and cached, and the last blocks, which are trained with the decoder.

B batch · L′ locations and D′ size of what the last blocks read · L locations · D annotation size.
"""

import copy
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from show_attend_tell.errors import SatError
from show_attend_tell.vision.backbones import Backbone, ConvolutionalNetwork, TransformersBody
from show_attend_tell.vision.encoder import Encoder

NORMS = ("layernorm", "post_layernorm", "norm", "final_layer_norm")  # what transformers call a last normalization


class LastBlocks(nn.Module):
    """The last blocks of an encoder, which share its weights: what the first of them reads in, annotations out."""

    def __init__(self, body: nn.Module, grid: tuple[int, int] | None) -> None:
        """``grid`` has the rows and columns of what is read when ``body`` takes a map; None when it takes tokens."""
        super().__init__()
        self.body = body
        self.grid = grid

    def forward(self, read: Tensor) -> Tensor:
        """Annotations (B, L, D) in float32, from what is read (B, L′, D′)."""
        out = self.body(read if self.grid is None else read.mT.reshape(len(read), -1, *self.grid))
        if out.ndim == 4:
            out = out.flatten(2).mT
        return out.float().contiguous()  # type: ignore[no-any-return]


class Cut(NamedTuple):
    """An encoder cut in two."""

    below: Encoder  # gives what the last blocks read
    last: LastBlocks
    names: list[str]  # of the last blocks' weights, as the whole encoder's body has them


def cut(encoder: Encoder, block: str) -> Cut:
    """Cut an encoder before a block, as "conv5_1" or "encoder.layer.10"; raises `SatError` where it cannot be cut."""
    body = encoder.body
    below: nn.Module
    ways: list[nn.Module]
    if isinstance(body, ConvolutionalNetwork):
        names = [part.name for part in body.blocks]
        if block not in names[1:]:  # before the first there is nothing
            raise SatError(f"encoder {encoder.name} has no block {block!r}: choose one of {', '.join(names[1:])}")
        number = names.index(block)
        below = body.part(body.blocks[:number])
        ways = [body.part(body.blocks[number:])]
    elif isinstance(body, TransformersBody):
        below, ways = _cut_transformers(encoder, body, block)
    else:
        raise SatError(
            f"encoder {encoder.name} cannot be cut into blocks: leave out --unfreeze-from, or name another --encoder"
        )
    lower, last = _joined(encoder, below, ways, block)
    mine = {id(weight) for weight in (*last.parameters(), *last.buffers())}
    names = [name for name, weight in body.state_dict(keep_vars=True).items() if id(weight) in mine]
    last.requires_grad_(True)
    return Cut(lower, last, names)


def _joined(encoder: Encoder, below: nn.Module, ways: Sequence[nn.Module], block: str) -> tuple[Encoder, LastBlocks]:
    """Both parts of an encoder, the last blocks in the first of the ways that equals the whole encoder on noise."""
    size = encoder.preprocessing.size
    pixels = torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(0))
    pixels = pixels.to(next(encoder.parameters()).device)
    with torch.no_grad():
        expected = encoder(pixels)
        try:
            read = below.eval()(pixels)
            grid = (read.shape[2], read.shape[3]) if read.ndim == 4 else None
            name = f"{encoder.name} below {block}"
            size = read.shape[1 if grid else 2]
            locations = grid or (read.shape[1], 1)
            lower = Encoder(Backbone(below, name, size, locations, encoder.preprocessing, encoder.fixed_precision))
            for way in ways:
                last = LastBlocks(way, grid).eval()
                if torch.allclose(last(lower(pixels)), expected, rtol=1e-3, atol=1e-4):
                    return lower, last
        except (TypeError, RuntimeError, AttributeError, IndexError) as error:
            raise SatError(f"encoder {encoder.name} cannot be cut before {block} ({error})") from None
    raise SatError(f"encoder {encoder.name} cannot be cut before {block}: its layers alone give other annotations")


# Models of transformers


class _Layers(nn.Module):
    """The last layers of a transformers model, one after the other, and what follows them."""

    def __init__(self, layers: Sequence[nn.Module], norm: nn.Module | None, skipped: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.skipped = skipped

    def forward(self, hidden: Tensor) -> Tensor:
        for layer in self.layers:
            out = layer(hidden)
            hidden = out[0] if isinstance(out, tuple) else out
        if self.norm is not None:
            hidden = self.norm(hidden)
        return hidden if hidden.ndim == 4 else hidden[:, self.skipped :]


def _cut_transformers(encoder: Encoder, body: TransformersBody, block: str) -> tuple[nn.Module, list[nn.Module]]:
    """A copy without the last layers and the normalization; then these layers, without the normalization and with."""
    parent, _, number = block.rpartition(".")
    lists = {name: module for name, module in body.model.named_modules() if isinstance(module, nn.ModuleList)}
    if parent not in lists or not number.isdecimal() or not 0 < int(number) < len(lists[parent]):
        known = ", ".join(f"{name}.1 to {name}.{len(layers) - 1}" for name, layers in lists.items() if len(layers) > 1)
        raise SatError(f"encoder {encoder.name} has no block {block!r}: choose one of {known or 'none'}")
    below = copy.deepcopy(body)
    owner = below.model.get_submodule(parent.rpartition(".")[0])
    setattr(owner, parent.rpartition(".")[2], below.model.get_submodule(parent)[: int(number)])  # type: ignore[index]
    below.skipped = 0  # the first layer reads every token
    norm = next((name for name in NORMS if isinstance(getattr(body.model, name, None), nn.Module)), None)
    if norm is not None:
        setattr(below.model, norm, nn.Identity())
    layers = list(lists[parent])[int(number) :]
    norms = [None] if norm is None else [None, getattr(body.model, norm)]
    return below, [_Layers(layers, last_norm, body.skipped) for last_norm in norms]
