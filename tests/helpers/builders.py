"""Builders for the tests of training, checkpoints and commands: a small encoder, photos of shapes, small models."""

import csv
import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor, nn

from show_attend_tell.backends.torch import TorchBackend, build_decoder, decoder_weights
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.records import EncoderRecord
from show_attend_tell.data.photos import Preprocessing, Resize
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.model.config import DecoderConfig
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.registries import Registry
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.data import InMemoryAnnotations, TrainingData
from show_attend_tell.vision.backbones import Backbone
from show_attend_tell.vision.encoder import Encoder
from show_attend_tell.vision.sources import Annotations

ROWS, COLUMNS = 3, 5  # co-prime, so that rows cannot be taken for columns
D = 11  # annotation size
SIZES = {"embedding_size": 17, "hidden_size": 19, "attention_size": 13}

COLORS = ("red", "blue", "green", "black", "white")
SHAPES = ("circle", "square")


def small_encoder(*, seed: int = 0, resize: Resize = "squash", name: str = "small") -> Encoder:
    """A frozen random encoder of 3 × 5 places, with a batch norm and a dropout that must keep still."""
    generator = torch.Generator().manual_seed(seed)
    # without bias before the batch norm, each place is seen by itself
    convolution = nn.Conv2d(3, D, (10, 6), stride=(10, 6))
    with torch.no_grad():
        for parameter in convolution.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 10)
    body = nn.Sequential(convolution, nn.BatchNorm2d(D), nn.ReLU(), nn.Dropout(0.5))
    preprocessing = Preprocessing(size=30, resize=resize)
    return Encoder(Backbone(body, name, D, (ROWS, COLUMNS), preprocessing, fixed_precision="float32"))


def small_load_encoder(name: str = "small", *, weights: Any = None, resize: Resize = "crop") -> Encoder:
    """Stands in for `encoder.load_encoder`; a path ending in a number gives other random weights."""
    return small_encoder(seed=0 if weights is None else int(str(weights)[-1]), resize=resize)


def shape_photo(color: str, shape: str, left: bool) -> Image.Image:
    """A colored shape on the left or right half of a photo whose noise makes every place of it another."""
    noise = np.random.default_rng(3).integers(90, 160, (30, 50, 3))
    image = Image.fromarray(noise.astype(np.uint8))
    box = (4, 6, 22, 24) if left else (28, 6, 46, 24)
    draw = ImageDraw.Draw(image)
    (draw.ellipse if shape == "circle" else draw.rectangle)(box, fill=color)
    return image


def shape_caption(color: str, shape: str, left: bool) -> str:
    """Of 6, 7 or 8 words, so that there is more than one length."""
    side = "left" if left else "right"
    if shape == "circle":
        return f"a {color} circle on the {side}"
    return f"there is a {color} square on the {side}"


def shape_scenes(photos: int) -> list[tuple[str, str, bool]]:
    """That many different scenes (at most 20)."""
    scenes = [(color, shape, left) for color in COLORS for shape in SHAPES for left in (True, False)]
    random.Random(4).shuffle(scenes)
    return scenes[:photos]


def shape_photos(folder: Path, photos: int = 3) -> list[Path]:
    """That many photos of different scenes as files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"photo{number}.png" for number in range(photos)]
    for file, scene in zip(files, shape_scenes(photos), strict=True):
        shape_photo(*scene).save(file)
    return files


def shape_folder(
    folder: Path,
    *,
    train: int = 10,
    val: int = 3,
    test: int = 4,
    captions: int = 1,
    say: Callable[[str, str, bool], str] = shape_caption,
) -> Path:
    """A data folder of photos of shapes with its captions.csv; several captions of a photo are equal."""
    splits = ["train"] * train + ["val"] * val + ["test"] * test
    photos = shape_photos(folder / "images", len(splits))
    with open(folder / "captions.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["photo", "caption", "split"])
        for photo, scene, split in zip(photos, shape_scenes(len(splits)), splits, strict=True):
            writer.writerows([[photo.name, say(*scene), split]] * captions)
    return folder


def small_config(**changes: Any) -> TrainingConfig:
    """Settings for a training of seconds; ``decoder`` adds to the small decoder's own.

    The precision is float32 on any processor, or $SAT_PRECISION.
    """
    decoder = DecoderConfig(**{**SIZES, "dropout": 0.0, **changes.pop("decoder", {})})
    settings = {"epochs": 3, "batch_size": 4, "optimizer": "adam", "learning_rate": 1e-2, "max_length": 12}
    settings |= {"precision": os.environ.get("SAT_PRECISION", "float32")}
    return TrainingConfig(decoder=decoder, **{**settings, **changes})


def same_weights(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether arrays or tensors are the same to the bit."""
    return ours.keys() == theirs.keys() and all(np.array_equal(ours[name], theirs[name]) for name in ours)


class Tuned:
    """What an encoder that learns makes of other annotations; the names that are read are noted."""

    def __init__(self, view: Annotations, encoder: nn.Module | None = None) -> None:
        self.view = view
        self.encoder = encoder or nn.Identity()
        self.read = list[str]()

    def __getitem__(self, names: Sequence[str]) -> Tensor:
        self.read += names
        annotations = self.encoder(self.view[names])
        return annotations


def random_data(*, photos: int = 10, views: int = 1, seed: int = 5, tuned: bool = False) -> TrainingData:
    """Random captions of random annotations, in memory, the photos validated on being those trained on.

    If it is ``tuned``, a linear encoder between the annotations and the decoder is trained too.
    """
    generator = torch.Generator().manual_seed(seed)
    names = [f"photo{number}" for number in range(photos)]
    vocabulary = Vocabulary([f"word{number}" for number in range(21)])
    captions = []
    for number, name in enumerate(names):
        for length in (3 + number % 2, 5):
            words = torch.randint(2, len(vocabulary), (length,), generator=generator).tolist()
            captions.append((name, [*words, Vocabulary.END]))
    sources = [
        InMemoryAnnotations({name: torch.randn(ROWS * COLUMNS, D, generator=generator).relu() for name in names})
        for _ in range(views)
    ]
    encoder = None
    if tuned:
        torch.manual_seed(3)
        encoder = nn.Linear(D, D)
        sources = [Tuned(view, encoder) for view in sources]
    return TrainingData(
        vocabulary=vocabulary,
        captions=captions,
        validation=[
            (name, [vocabulary.decode(words) for other, words in captions if other == name]) for name in names[:4]
        ],
        views=sources,
        encoder=encoder,
    )


def fitted(config: TrainingConfig, data: TrainingData) -> TrainingConfig:
    """The settings with the sizes of the vocabulary and of the annotations, as `training.stages.data` sets them."""
    return config.sized(len(data.vocabulary), D)


def small_checkpoint(encoder: Encoder, *, seed: int = 5, spread: float = 0.7, **decoder: Any) -> Checkpoint:
    """An untrained model whose weights are drawn wide enough that its captions differ from photo to photo."""
    vocabulary = Vocabulary([f"word{number}" for number in range(21)])
    settings = {"vocabulary_size": len(vocabulary), "annotation_size": D, **SIZES, **decoder}
    network = AttentionDecoder(DecoderConfig(**settings)).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
        network.embedding.weight[-1] = 0
        # The first channel of the deep output is 0 before the first word and 1 after it, and nothing else hears it: so
        # no caption is empty, and yet most end.
        network.embedding.weight[:, 0] = 20
        network.embedding.weight[-1, 0] = 0
        for layer in (network.output_hidden, network.output_context):
            if layer is not None:
                layer.weight[0] = 0
        network.output_hidden.bias[0] = 0
        network.gates_from_word.weight[:, 0] = 0
        words = network.embedding.weight if network.output_words is None else network.output_words.weight
        words[:, 0] = words[2, 0]
        words[-1] = 0 if network.output_words is None else words[-1]
        words[Vocabulary.END, 0] += 31
        network.output_bias[Vocabulary.END] -= 30
    return Checkpoint(
        config=network.config,
        weights=decoder_weights(network),
        vocabulary=vocabulary,
        encoder=EncoderRecord.of(encoder),
        generation=GenerationConfig(beam_size=3, max_length=11),
        training={"data": "shapes", "seed": seed, "settings": {"epochs": 3}},
    )


def captioner_of(checkpoint: Checkpoint, encoder: Encoder, *, name: str = "model") -> Captioner:
    """A captioner of a checkpoint and an encoder at hand, by PyTorch."""
    return Captioner(checkpoint, TorchBackend(build_decoder(checkpoint, name), encoder), name=name)


def forget(registry: Registry[Any], name: str) -> None:
    """Take an entry out of a registry, which the package itself never does."""
    del registry._entries[name]
