"""The encoder `small` for pictures of 64 × 64 pixels, such as generated scenes; it is trained along with the decoder.

A plugin of every command: `sat caption scenes/ --model scenes-soft --plugin research/scenes_encoder.py`.
"""

import torch
from torch import Tensor, nn

from show_attend_tell.data.photos import Preprocessing, Resize
from show_attend_tell.vision.backbones import PYTORCH_ENCODERS, Backbone, ConvolutionalNetwork
from show_attend_tell.vision.network import Block, Convolution

NAME = "small"
CHANNELS = [(5, 32), (32, 64), (64, 64)]  # read and given by each convolution
BLOCKS = tuple(
    Block(f"conv{number + 1}", (Convolution(f"convolutions.{2 * number}", inputs, outputs, kernel=4, stride=2),))
    for number, (inputs, outputs) in enumerate(CHANNELS)
)


class SmallEncoder(ConvolutionalNetwork):
    """Three convolutions: (B, 3, H, W) → (B, 64, H / 8, W / 8).

    Two more channels give each pixel's column and row, −1 to 1, since "left of" cannot be known from the 22 × 22 pixels
    that a location sees.
    """

    def __init__(self, blocks: tuple[Block, ...] = BLOCKS) -> None:
        super().__init__(blocks)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):  # He et al. 2015: else the biases drown what tells locations apart
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, pixels: Tensor) -> Tensor:
        if self.blocks[0] == BLOCKS[0]:
            batch, _, height, width = pixels.shape
            columns = torch.linspace(-1, 1, width, device=pixels.device).expand(batch, 1, height, width)
            rows = torch.linspace(-1, 1, height, device=pixels.device)[:, None].expand(batch, 1, height, width)
            pixels = torch.cat([pixels, columns, rows], dim=1)
        return super().forward(pixels)


@PYTORCH_ENCODERS.register(NAME)
def small(resize: Resize) -> Backbone:
    """A `SmallEncoder`, always with the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body = SmallEncoder()
    return Backbone(body, NAME, 64, (8, 8), Preprocessing(size=64, resize=resize))
