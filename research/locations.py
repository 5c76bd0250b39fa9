"""Measure where a location of an encoder looks, relative to the middle of its cell.

    python research/locations.py ENCODER FOLDER_OF_PHOTOS NUMBER_OF_PHOTOS

The photos are every 200th of the folder's JPEG files. The network reads 9 × 9 cells, and only what is symmetric about
the middle location is measured, so that the borders cancel; every other photo is turned by 180 degrees, so that what
photos have in common cancels too. Printed in cells, to the right and below, with 95 % intervals over photos: the center
of the squared gradient of a random direction of the middle annotation by the pixels, and a patch's center (one cell in
its mean color, at five places) less the center of the squared changes of all annotations, and of these squared again.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from show_attend_tell.vision.encoder import load_encoder

SIDE = 9  # cells
PLACES = ((0.0, 0.0), (-0.5, -0.5), (-0.5, 0.5), (0.5, -0.5), (0.5, 0.5))  # of the patch, down and right, in cells


def main(name: str, folder: str, count: str) -> None:
    """Print the three measures after each photo from the second on."""
    encoder, rng, rows = load_encoder(name), np.random.default_rng(0), []
    cell = encoder.preprocessing.size // encoder.grid[0]
    size = SIDE * cell
    mean, std = (np.array(v, np.float32) for v in (encoder.preprocessing.mean, encoder.preprocessing.std))
    middles, centers = np.arange(size) + 0.5, (np.arange(SIDE) + 0.5) * cell
    for number, file in enumerate(sorted(Path(folder).glob("*.jpg"))[::200][: int(count)]):
        photo = Image.open(file).convert("RGB")
        left, top, short = (photo.width - min(photo.size)) // 2, (photo.height - min(photo.size)) // 2, min(photo.size)
        square = photo.crop((left, top, left + short, top + short)).resize((size, size), Image.Resampling.BICUBIC)
        values = (np.asarray(square, np.float32) / 255 - mean) / std
        values = values[::-1, ::-1] if number % 2 else values
        pixels = torch.from_numpy(values.transpose(2, 0, 1).copy())[None].requires_grad_(True)
        annotations = encoder.body(pixels)[0]
        direction = torch.from_numpy(rng.standard_normal(len(annotations)).astype(np.float32))
        (gradient,) = torch.autograd.grad((annotations[:, SIDE // 2, SIDE // 2] * direction).sum(), pixels)
        energy = (gradient[0] ** 2).sum(0).numpy()
        energy /= energy.sum()
        found = [energy.sum(0) @ middles - size / 2, energy.sum(1) @ middles - size / 2]
        hidden = pixels.detach().repeat(len(PLACES), 1, 1, 1)
        for each, (down, right) in zip(hidden, PLACES, strict=True):
            y, x = (int(size / 2 + shift * cell - cell / 2) for shift in (down, right))
            each[:, y : y + cell, x : x + cell] = each[:, y : y + cell, x : x + cell].mean((1, 2), keepdim=True)
        with torch.no_grad():
            changes = ((encoder.body(hidden) - annotations.detach()) ** 2).sum(1).numpy()
        for power in (1, 2):
            share = changes**power / (changes**power).sum((1, 2), keepdims=True)
            found += [size / 2 - (share.sum(1) @ centers).mean(), size / 2 - (share.sum(2) @ centers).mean()]
        rows.append(np.array(found) / cell)
        if number:
            half = 1.96 * np.std(rows, 0, ddof=1) / len(rows) ** 0.5
            print(len(rows), "photos:", *(f"{m:.3f} ± {h:.3f}" for m, h in zip(np.mean(rows, 0), half, strict=True)))


if __name__ == "__main__":
    main(*sys.argv[1:])
