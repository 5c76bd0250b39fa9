"""Do the locations that a word attended to matter to it? Locations are hidden, and what that costs a word is measured.

A word's *fall* is log p(word) with everything visible minus log p(word) with locations hidden, in nats: above zero, the
hidden locations had spoken for the word. A tenth of the locations is hidden every time, whatever α is: two models, or a
flat map and a sharp one, can be compared only when equally much is hidden.

T words of a caption · U masks of hidden locations · L locations in a grid of rows and columns · D annotation size · S
side of the encoder's square of pixels · V choices of hidden locations.
"""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from attention.forcing import Forced, log_p_throughout
from show_attend_tell.model.interface import Decoder

HIDDEN = 0.1  # of the locations
DRAWS = 4  # of random locations and of patches a photo
BATCH_SIZE = 16  # photos with hidden locations that are encoded or read together

VARIANTS = {  # which locations are hidden
    "most": "its own most attended locations",
    "other_word": "those of another word",
    "static": "those of the mean alpha",
    "other_photo": "those of another photo",
    "patch": "a compact patch elsewhere",
    "random": "scattered random locations",
    "least": "its least attended locations",
}
WAYS = {"annotations": "in the annotations", "gray": "in the photo, grayed and encoded again"}  # how they are hidden


def falls(decoder: Decoder, forced: Forced, views: Iterable[Tensor]) -> NDArray[np.float64]:
    """The falls (T, V) of a caption's words, where ``views`` are the photo's annotations (≤ U, L, D) under the masks of
    `hidden_locations`, in parts."""
    return by_variant(falls_of_masks(decoder, forced, views))


def falls_of_masks(decoder: Decoder, forced: Forced, views: Iterable[Tensor]) -> Tensor:
    """The falls (U, T) of a caption's words in each view of the photo, annotations (≤ U, L, D) in parts."""
    return forced.log_p - torch.cat([log_p_throughout(decoder, view, forced) for view in views])


def largest(values: Tensor) -> Tensor:
    """Masks (..., L) of the tenth of the locations with the largest values (..., L)."""
    locations = values.shape[-1]
    return one_hot(values.topk(hidden_number(locations)).indices, locations).sum(-2).bool()


def hidden_number(locations: int) -> int:
    """How many of so many locations are hidden."""
    return max(1, round(HIDDEN * locations))


def hidden_in_annotations(annotations: Tensor, masks: Tensor) -> Iterable[Tensor]:
    """A photo's annotations (1, L, D) with masked locations (U, L) replaced by the mean of the others, in parts."""
    for part in torch.split(masks, BATCH_SIZE):
        left = (~part).float()
        mean = left @ annotations[0] / left.sum(1, keepdim=True)  # (U, D)
        yield torch.where(part[..., None], mean[:, None], annotations)


def hidden_in_photo(
    pixels: Tensor,
    masks: Tensor,
    grid: tuple[int, int],
    encode: Callable[[Tensor], Tensor],
    offset: tuple[float, float] = (0.0, 0.0),
) -> Iterable[Tensor]:
    """Annotations of a photo's pixels (3, S, S) with masked locations (U, L) in the encoder's mean color, in parts.

    A location's cell is hidden where the location looks, by the ``offset`` of `registry.offset`.
    """
    rows, columns = (
        ((torch.arange(side, device=masks.device) + 0.5) * cells / side - by).floor().long().clamp(0, cells - 1)
        for side, cells, by in zip(pixels.shape[1:], grid, offset, strict=True)
    )
    cover = masks.view(-1, 1, *grid)[:, :, rows[:, None], columns]
    for part in torch.split(cover, BATCH_SIZE):  # (≤ BATCH_SIZE, 1, S, S)
        yield encode(torch.where(part, torch.zeros_like(pixels), pixels))  # 0 is the mean color, once normalized


def hidden_locations(alpha: Tensor, other: Tensor, grid: tuple[int, int], generator: torch.Generator) -> Tensor:
    """What to hide for one caption, with α (T, L) and another photo's α (T′, L): masks (U, L), true where hidden.

    In this order: each word's most attended locations (T), each word's least attended (T), another photo's most
    attended (T), those of the mean α (1), `DRAWS` patches and `DRAWS` random choices. Each mask hides as many
    locations. A patch is some word's most attended locations, moved as a whole by a random distance; what leaves the
    grid comes back on the other side. Random locations lie scattered, so that their neighbors still tell of them; a
    patch is as compact as attention.
    """
    steps, locations = alpha.shape
    most = largest(alpha)
    patches = []
    for _ in range(DRAWS):
        word = int(torch.randint(steps, (), generator=generator))
        moved = int(torch.randint(1, locations, (), generator=generator))
        by = (moved // grid[1], moved % grid[1])  # never (0, 0), where it was
        patches.append(most[word].view(grid).roll(by, (0, 1)).flatten())
    scattered = largest(torch.rand(DRAWS, locations, generator=generator).to(alpha.device))
    of_other = largest(other[torch.arange(steps, device=alpha.device) % len(other)])
    mean = largest(alpha.mean(0, keepdim=True))
    return torch.cat([most, largest(-alpha), of_other, mean, torch.stack(patches), scattered])


def by_variant(falls: Tensor) -> NDArray[np.float64]:
    """The falls of each word by `VARIANTS` (T, V), from those of all under every mask of `hidden_locations` (U, T).

    ``other_word`` is the mean over the caption's other words, of which there must be one.
    """
    steps = falls.shape[1]
    parts = falls.double().split_with_sizes([steps, steps, steps, 1, DRAWS, DRAWS])
    of_most, of_least, of_other_photo, of_mean, of_patches, of_random = parts
    most = of_most.diagonal()
    found = {
        "most": most,
        "other_word": (of_most.sum(0) - most) / (steps - 1),
        "static": of_mean[0],
        "other_photo": of_other_photo.diagonal(),
        "patch": of_patches.mean(0),
        "random": of_random.mean(0),
        "least": of_least.diagonal(),
    }
    return torch.stack([found[name] for name in VARIANTS], dim=1).cpu().numpy()
