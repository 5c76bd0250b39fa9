"""Does a model attend to what it names? Measured where boxes are known (`scenes`).

C words of a sentence, end token included · L locations in a grid of rows and columns.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from show_attend_tell.analysis.scenes import Box, Scene, read_scenes
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.data.photos import open_photo
from show_attend_tell.errors import SatError
from show_attend_tell.generation import photo_seed
from show_attend_tell.metrics.bootstrap import Bootstrap, WordClass, plain
from show_attend_tell.model.attention import attention_mode_by_name
from show_attend_tell.model.interface import teacher_forcing
from show_attend_tell.progress import Progress
from show_attend_tell.settings import AttentionModeName
from show_attend_tell.show.pictures.maps import cell_edges

FIGURES = ("share", "share_chance", "elsewhere", "elsewhere_chance", "hit", "hit_chance", "right")


@dataclass(frozen=True)
class ScenePointing:
    """How much of α falls on the object named, for ``all`` words that name one and by kind, ``color`` and ``shape``.

    - ``share``: α's part on the named object's box, 0 to 1; ``share_chance``: the box's part of the photo, as even
      attention gives;
    - ``elsewhere``: α's part on the boxes of the other objects, and ``elsewhere_chance``;
    - ``hit``: the words whose most attended location has its centre inside the box; ``hit_chance``: the locations that
      have;
    - ``right``: the words that are the model's own most probable ones.
    """

    model: str
    attention_mode: AttentionModeName
    split: str
    photos: int
    kinds: dict[str, WordClass]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found = plain(vars(self))
        kinds = found.pop("kinds")
        return {**found, **kinds}


# captioner, annotations (1, L, D), words, attention mode, seed → α (C, L) at each word, and whether the word was the
# most probable one (C,)
AlphaOf = Callable[
    [Captioner, Tensor, Sequence[str], AttentionModeName, int], tuple[NDArray[np.float64], NDArray[np.bool_]]
]


def alpha_along(
    captioner: Captioner, annotations: Tensor, words: Sequence[str], attention_mode: AttentionModeName, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """`AlphaOf` by teacher forcing of a caption."""
    backend = captioner.torch_backend()
    ids = torch.tensor([captioner.checkpoint.vocabulary.encode(words)], device=backend.torch_device)
    mode = attention_mode_by_name(attention_mode, seeds=[seed], paths=1, steps=ids.shape[1], device=ids.device)
    output = teacher_forcing(backend.decoder, annotations, ids, mode=mode)
    assert output.alpha is not None  # a model with attention's
    return output.alpha[0, 0].double().cpu().numpy(), (output.logits[0, 0].argmax(-1) == ids[0]).cpu().numpy()


@torch.inference_mode()
def point_in_scenes(
    captioner: Captioner,
    folder: str | os.PathLike[str],
    *,
    split: str = "test",
    attention_mode: AttentionModeName | None = None,
    seed: int = 0,
    alpha_of: AlphaOf = alpha_along,
    show: bool = True,
) -> ScenePointing:
    """How much of a model's attention falls on the object that each color and shape word names.

    The model reads every sentence of the split by teacher forcing. For each word that names an object, α is laid on the
    photo, and its part inside the object's box is added up. ``attention_mode`` is the model's by default; what is
    measured is α itself. Raises `SatError` for data without boxes, a model without attention and an unknown split.
    """
    captioner.check_attention()
    scenes = read_scenes(folder)
    examples = read_dataset(folder).split(split)
    attention_mode = attention_mode or captioner.checkpoint.generation.attention_mode
    square, grid = captioner.backend.preprocessing, captioner.checkpoint.encoder.grid
    kinds: list[str] = []  # of every naming word, as the two lists below
    photos: list[int] = []
    figures: list[tuple[float, ...]] = []
    for photo, example in enumerate(Progress(examples, desc="pointing", unit="photo", disable=not show)):
        scene = scenes.get(example.name)
        if scene is None:
            raise SatError(f"boxes.json says nothing of the photo {example.name}: make the folder again")
        image = open_photo(example.photo)
        if image.size != scene.size:
            width, height = image.size
            raise SatError(
                f"boxes.json has boxes in {scene.size[0]} × {scene.size[1]} pixels for the photo {example.name}, which "
                f"has {width} × {height}: make the folder again"
            )
        annotations = captioner.backend.encode(square.pixels(image)[None])
        cover = Cover(square.seen(*scene.size), grid, captioner.offset)
        for sentence in scene.sentences:
            own = photo_seed(seed, example.name.encode())
            alpha, right = alpha_of(captioner, annotations, sentence.words, attention_mode, own)
            for step, number in enumerate(sentence.objects):
                if number is not None:
                    kinds.append("color" if sentence.words[step] == scene.objects[number].color else "shape")
                    photos.append(photo)
                    figures.append((*cover.figures(alpha[step], scene, number), float(right[step])))
    if not figures:
        raise SatError(f"no word of the split {split!r} names an object in boxes.json: make the folder again")
    of_kind = np.array(kinds)
    classes = {kind: (of_kind == kind) | (kind == "all") for kind in ("all", "color", "shape")}
    columns = dict(zip(FIGURES, np.array(figures).T, strict=True))
    found = Bootstrap(len(examples), seed).by_class(columns, np.array(photos), classes)
    return ScenePointing(captioner.name, attention_mode, split, len(examples), found)


class Cover:
    """How boxes of a photo lie on the grid of locations, which is spread over the part of the photo that was seen.

    Each location's cell lies where the location looks, by the ``offset`` of the encoder, see `efficientnet.offset`.
    """

    def __init__(self, seen: Box, grid: tuple[int, int], offset: tuple[float, float] = (0.0, 0.0)) -> None:
        left, top, right, bottom = seen
        self.rows = top + (bottom - top) * cell_edges(grid[0], offset[0])  # edges, in pixels
        self.columns = left + (right - left) * cell_edges(grid[1], offset[1])

    def share(self, box: Box) -> NDArray[np.float64]:
        """The part of each location's own area that is inside the box (L,)."""
        left, top, right, bottom = box
        return np.outer(_overlap(self.rows, top, bottom), _overlap(self.columns, left, right)).ravel()

    def centred(self, box: Box) -> NDArray[np.bool_]:
        """Whether each location has its centre inside the box (L,)."""
        left, top, right, bottom = box
        down, across = (self.rows[:-1] + self.rows[1:]) / 2, (self.columns[:-1] + self.columns[1:]) / 2
        return np.outer((top <= down) & (down < bottom), (left <= across) & (across < right)).ravel()

    def figures(self, alpha: NDArray[Any], scene: Scene, number: int) -> tuple[float, ...]:
        """Share, chance, elsewhere, its chance, hit and its chance, of one word's α (L,) and the object it names."""
        box = scene.objects[number].box
        inside, centred = self.share(box), self.centred(box)
        others = sum((self.share(o.box) for i, o in enumerate(scene.objects) if i != number), np.zeros(len(alpha)))
        return (
            float(alpha @ inside),
            float(inside.mean()),
            float(alpha @ others),
            float(others.mean()),
            float(centred[alpha.argmax()]),
            float(centred.mean()),
        )


def _overlap(edges: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    inside = np.minimum(edges[1:], high) - np.maximum(edges[:-1], low)
    part: NDArray[np.float64] = np.clip(inside, 0, None) / np.diff(edges)
    return part
