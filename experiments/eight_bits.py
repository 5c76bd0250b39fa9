"""The largest value of each layer of VGG-19 on training photos: `LARGEST` of `vision/vgg.py`, for the encoder in int8.

    python experiments/eight_bits.py flickr8k/

It takes 48 photos of train, evenly spread, squashed, in float32, and prints the mean of their largest values after each
convolution's ReLU.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn

from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.data.photos import open_photo
from show_attend_tell.vision.encoder import load_encoder

PHOTOS = 48


def largest(photos: list[Path]) -> list[float]:
    """The mean of the photos' largest values, after each convolution's ReLU."""
    encoder = load_encoder("vgg19", resize="squash")
    found: list[list[float]] = []
    for module in encoder.body.modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_hook(lambda _, __, output: found[-1].append(float(output.max())))
    for photo in photos:
        found.append([])
        encoder.annotate(encoder.preprocessing.pixels(open_photo(photo))[None], precision="float32")
    means: list[float] = np.mean(found, axis=0).tolist()
    return means


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="The largest value of each layer of VGG-19.")
    parser.add_argument("data", type=Path, help="Data folder.")
    torch.set_grad_enabled(False)
    train = [example.photo for example in read_dataset(parser.parse_args().data).split("train")]
    means = largest(train[:: len(train) // PHOTOS][:PHOTOS])
    print(", ".join(f"{mean:.1f}" for mean in means))


if __name__ == "__main__":
    main()
