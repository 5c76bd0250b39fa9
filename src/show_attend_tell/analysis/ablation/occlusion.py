"""Do the places that a word attended to matter to it? Places are hidden, and what that costs each word is measured.

A word's *fall* is log p(word) with everything visible less log p(word) with places hidden, in nats: above zero, the
hidden places had spoken for the word. A tenth of the places is hidden every time, whatever α is: two models, or a flat
map and a sharp one, can be compared only when equally much is hidden.

T words of a caption · U masks of hidden places · L places in a grid of rows and columns · D annotation size · S side of
the encoder's square of pixels · V choices of hidden places.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, interpolate, one_hot

from show_attend_tell.analysis.ablation.teacher_forcing import Watched, force_at_words, force_throughout
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.photos import open_photo
from show_attend_tell.model.interface import Decoder

HIDDEN = 0.1  # of the places
DRAWS = 4  # of random places and of patches a photo
AT_ONCE = 16  # photos with hidden places that are encoded or told together

VARIANTS = {  # which places are hidden
    "most": "its own most attended places",
    "other_word": "those of another word",
    "static": "those of the mean alpha",
    "other_photo": "those of another photo",
    "patch": "a compact patch elsewhere",
    "random": "scattered random places",
    "least": "its least attended places",
}
WAYS = {  # how they are hidden
    "annotations": "in the annotations",
    "annotations_at_word": "in the annotations, only at the word's own step",
    "gray": "in the photo, grayed and encoded again",
    "blur": "in the photo, blurred and encoded again",
}


def falls_in_annotations(
    decoder: Decoder, annotations: Tensor, watched: Watched, masks: Tensor
) -> dict[str, NDArray[np.float64]]:
    """The falls (T, V) of a caption's words, with places of the photo's annotations (1, L, D) hidden by masks (U, L).

    By two of `WAYS`: hidden throughout the caption, and only at the word's own step.
    """
    throughout, at_words = [], []
    steps = watched.ids.shape[1]
    for hidden in torch.split(hide_annotations(annotations, masks), AT_ONCE):
        rows = len(hidden)
        throughout.append(
            force_throughout(decoder, hidden, watched.ids, watched.looking.along(watched.ids, rows))[:, 0]
        )
        source = decoder.start(hidden, paths=steps).source
        at_words.append(force_at_words(decoder, source, watched, watched.looking.at_once(watched.ids, rows), rows))
    return {
        "annotations": by_variant(watched.visible - torch.cat(throughout)),
        "annotations_at_word": by_variant(watched.visible - torch.cat(at_words)),
    }


def falls_in_photo(captioner: Captioner, watched: Watched, masks: Tensor) -> dict[str, NDArray[np.float64]]:
    """The falls (T, V) of a caption's words, with places hidden by masks (U, L) in the photo, which is encoded again.

    By two of `WAYS`: hidden parts get the encoder's mean color (``gray``), or the photo's own mean color thereabouts,
    over about two by two cells (``blur``).
    """
    pixels = captioner.backend.encoder.preprocessing(open_photo(watched.example.photo)).to(
        captioner.torch_backend().torch_device
    )  # (3, S, S)
    rows, columns = captioner.backend.encoder.grid
    thumbnail = adaptive_avg_pool2d(pixels[None], (max(1, rows // 2), max(1, columns // 2)))
    blurred = interpolate(thumbnail, size=pixels.shape[1:], mode="bilinear")[0]
    gray = torch.zeros_like(pixels)  # the mean color, once normalized
    cover = interpolate(masks.view(-1, 1, rows, columns).float(), size=pixels.shape[1:], mode="nearest").bool()

    def told(instead: Tensor) -> Tensor:
        parts = []
        for part in torch.split(cover, AT_ONCE):  # (≤ AT_ONCE, 1, S, S)
            annotations = captioner.backend.encode(torch.where(part, instead, pixels))
            mode = watched.looking.along(watched.ids, len(part))
            parts.append(force_throughout(captioner.torch_backend().decoder, annotations, watched.ids, mode)[:, 0])
        return torch.cat(parts)

    return {
        "gray": by_variant(watched.visible - told(gray)),
        "blur": by_variant(watched.visible - told(blurred)),
    }


def hidden_locations(alpha: Tensor, other: Tensor, grid: tuple[int, int], generator: torch.Generator) -> Tensor:
    """What to hide for one caption, with α (T, L) and another photo's α (T′, L): masks (U, L), true where hidden.

    In this order: each word's most attended places (T), each word's least attended (T), another photo's most attended
    (T), those of the mean α (1), `DRAWS` patches and `DRAWS` random choices. Each mask hides as many places. A patch is
    some word's most attended places, moved as a whole by a random distance; what leaves the grid comes back on the
    other side. Random places lie scattered, so that their neighbors still tell of them; a patch is as compact as
    attention.
    """
    steps, locations = alpha.shape
    count = max(1, round(HIDDEN * locations))

    def largest(values: Tensor) -> Tensor:
        return one_hot(values.topk(count).indices, locations).sum(1).bool()

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


def hide_annotations(annotations: Tensor, masks: Tensor) -> Tensor:
    """Annotations (1, L, D) with masked places (U, L) replaced by the mean of the others: (U, L, D)."""
    left = (~masks).float()
    mean = left @ annotations[0] / left.sum(1, keepdim=True)  # (U, D)
    return torch.where(masks[..., None], mean[:, None], annotations)
