"""An estimate of the time and the disk that a training takes, by rates measured on a handful of photos."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from show_attend_tell.backends.encoding import fastest_encode
from show_attend_tell.data.datasets import Dataset
from show_attend_tell.data.photos import open_photo
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.data import TrainingData, batches
from show_attend_tell.training.loop import Trainer
from show_attend_tell.training.selection import GRID, captions_of, usual_generation
from show_attend_tell.vision.encoder import Encoder

HANDFUL = 8  # photos that are measured
Result = TypeVar("Result")

STEPS = 3  # updates that are measured, after one that is not


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a training takes, in seconds and bytes, if no photo is encoded yet."""

    encoding: float  # seconds
    training: float  # seconds, with the captions of val after each epoch
    generation: float  # seconds for the choice of the decoding
    updates: int
    disk: int  # bytes of the feature cache

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.encoding + self.training + self.generation


class Few:
    """Annotations of a handful of photos, which stand for those of all others."""

    def __init__(self, annotations: Tensor) -> None:
        self.annotations = annotations

    def __getitem__(self, names: Sequence[str]) -> Tensor:
        return self.annotations[torch.arange(len(names)) % len(self.annotations)]


def estimate(dataset: Dataset, config: TrainingConfig, encoder: Encoder, vocabulary: Vocabulary) -> Estimate:
    """Measure the rates of encoding, training and captioning, and multiply them by the numbers of the data set.

    The encoder is on the device of the training. Raises `SatError` where none of the photos that are tried can be read.
    """
    train, val = dataset.split("train"), dataset.split("val")
    pixels = torch.stack(readable([example.photo for example in train], encoder))
    encode = fastest_encode(encoder)
    each, annotations = measured(lambda: encode(pixels))
    encoding = each / len(pixels)
    device = annotations.device
    count = len(train) * (1 + len(config.views)) + len(val)

    captions = [(example.name, vocabulary.encode(words)) for example in train for words in example.captions]
    todo = batches(captions, config.batch_size, seed=0)
    typical = sorted(len(words) for _, words in captions)[len(captions) // 2]
    size = max(1, round(len(captions) / len(todo)))  # captions of a batch
    few = Few(annotations.cpu())
    data = TrainingData(
        vocabulary=vocabulary,
        captions=[("", [*words, *[Vocabulary.UNKNOWN] * typical][:typical]) for _, words in captions[:size]],
        validation=[(str(number), ()) for number in range(HANDFUL)],
        views=[few] * (1 + len(config.views)),
    )
    sizes = {"vocabulary_size": len(vocabulary), "annotation_size": encoder.annotation_size}
    decoder = dataclasses.replace(config.decoder, **sizes)
    trainer = Trainer(dataclasses.replace(config, decoder=decoder, epochs=1), data, device=device)
    trainer.decoder.train()
    update, _ = measured(lambda: trainer.one_batch(list(range(size))), STEPS)
    caption, _ = measured(
        lambda: captions_of(
            trainer.average,
            data,
            usual_generation(config).merge(beam_size=max(2, config.validation_beam_size), max_length=typical),
        )
    )
    caption /= HANDFUL * max(2, config.validation_beam_size)  # of one photo, a beam of one
    beams = sum(GRID.beam_sizes) + (sum(GRID.large_beam_sizes) if config.visual_ngrams else 0)
    updates = config.epochs * len(todo)
    row = 2 * encoder.grid[0] * encoder.grid[1] * encoder.annotation_size  # bytes, in half precision
    return Estimate(
        encoding=encoding * count,
        training=update * updates + config.epochs * caption * config.validation_beam_size * len(val),
        generation=caption * beams * len(val),
        updates=updates,
        disk=row * count,
    )


def readable(photos: Sequence[Path], encoder: Encoder) -> list[Tensor]:
    """The pixels of a handful of photos, at even distances; those that cannot be read are left out."""
    found, problem = [], ""
    for photo in photos[:: max(1, len(photos) // HANDFUL)]:
        try:
            found.append(encoder.preprocessing(open_photo(photo)))
        except (SatError, OSError) as error:
            problem = str(error)
        if len(found) == HANDFUL:
            break
    if not found:
        raise SatError(f"none of the photos that were tried can be read, for example {problem}")
    return found


def measured(work: Callable[[], Result], times: int = 1) -> tuple[float, Result]:
    """The seconds that some work takes, after it was done once, and its result."""
    result = work()
    began = time.monotonic()
    for _ in range(times):
        result = work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    return (time.monotonic() - began) / times, result
