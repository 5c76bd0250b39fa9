"""An encoder cut in two: what is computed once and cached, and the last blocks, which are trained with the decoder.

B batch · L′ locations and D′ size of what the last blocks read · L locations · D annotation size.
"""

from typing import NamedTuple

from torch import Tensor, nn

from show_attend_tell.errors import SatError
from show_attend_tell.vision.backbones import Backbone, ConvolutionalNetwork
from show_attend_tell.vision.encoder import Encoder
from show_attend_tell.vision.network import convolutions, reach


class LastBlocks(nn.Module):
    """The last blocks of an encoder, which share its weights: what the first of them reads in, annotations out."""

    def __init__(self, body: nn.Module, grid: tuple[int, int]) -> None:
        """``grid`` has the rows and columns of what is read."""
        super().__init__()
        self.body = body
        self.grid = grid

    def forward(self, read: Tensor) -> Tensor:
        """Annotations (B, L, D) in float32, from what is read (B, L′, D′)."""
        out: Tensor = self.body(read.mT.reshape(len(read), -1, *self.grid))
        return out.flatten(2).mT.float().contiguous()


class Cut(NamedTuple):
    """An encoder cut in two."""

    below: Encoder  # gives what the last blocks read
    last: LastBlocks
    names: list[str]  # of the last blocks' weights, as the whole encoder's body has them


def cut(encoder: Encoder, block: str) -> Cut:
    """Cut an encoder that is known as data before a block, as "conv5_1"; raises `SatError` where it cannot be cut."""
    body = encoder.body
    if not isinstance(body, ConvolutionalNetwork):
        raise SatError(
            f"encoder {encoder.name} cannot be cut into blocks: leave out --unfreeze-from, or name another --encoder"
        )
    names = [part.name for part in body.blocks]
    if block not in names[1:]:  # before the first there is nothing
        raise SatError(f"encoder {encoder.name} has no block {block!r}: choose one of {', '.join(names[1:])}")
    number = names.index(block)
    below = body.blocks[:number]
    side = encoder.preprocessing.size // reach(below)
    lower = Backbone(
        body.part(below),
        f"{encoder.name} below {block}",
        convolutions(below)[-1].outputs,
        (side, side),
        encoder.preprocessing,
        encoder.fixed_precision,
    )
    last = LastBlocks(body.part(body.blocks[number:]), lower.grid)
    last.requires_grad_(True)
    trained = {id(weight) for weight in last.parameters()}
    return Cut(Encoder(lower), last, [name for name, weight in body.named_parameters() if id(weight) in trained])
