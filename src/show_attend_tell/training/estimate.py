"""What is known before a training: the time, the disk and the memory that it takes, and what it is going to gain.

Both are measured on a handful of photos.
"""

import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from show_attend_tell.backends.torch import build_decoder, fastest_encode, second_moments
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.packing import as_array
from show_attend_tell.data.datasets import Dataset, Example
from show_attend_tell.data.photos import open_photo
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.progress import progress_shown
from show_attend_tell.rerank.ngrams import VisualNgrams
from show_attend_tell.training import cautious
from show_attend_tell.training.config import Start, TrainingConfig
from show_attend_tell.training.data import InMemoryAnnotations, TrainingData
from show_attend_tell.training.selection import GRID, captions_of, nats_a_word, usual_decoding
from show_attend_tell.training.trainer import Trainer

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

HANDFUL = 8  # photos that are measured
STEPS = 3  # that are measured
FORWARD = 0.4  # of the time of a step: without the gradient
# Measured on 12 photos of each draw, from `everyday-soft`: photos of Flickr8k's and COCO's val, which it has not seen,
# have 2.7 to 3.1 nats a word; generated scenes 4.9, charts 5.2.
KNOWN, NEW = 3.4, 4.2
SHIFTED = 0.7
Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class Likeness:
    """How well a model knows photos and captions like some."""

    nats: float  # a word of the captions, given the words before it
    # how far the mean of these photos' features lies from that of its training photos, in distances of one of these
    # photos; None without visual n-grams
    shift: float | None

    @property
    def expect(self) -> Literal["little", "something", "much"]:
        """What a training from this model is going to gain."""
        if self.nats > NEW:
            return "much"
        return "little" if self.nats < KNOWN and (self.shift or 0) < SHIFTED else "something"


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a training takes, in seconds and bytes, if no photo is encoded yet."""

    encoding: float  # seconds
    judging: float  # seconds for the trainings on half of the photos
    training: float  # seconds, with the captions of val after each epoch
    generation: float  # seconds for the choice of the decoding
    updates: int
    disk: int  # bytes of the feature cache
    model: int  # bytes of the model with the state of its training
    memory: int  # bytes of the process
    likeness: Likeness | None  # of the photos to what the model to start from knows

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.encoding + self.judging + self.training + self.generation


@progress_shown(False)
def estimate(dataset: Dataset, config: TrainingConfig, start: Start, vocabulary: Vocabulary) -> Estimate:
    """Measure the rates of encoding, training and captioning, and multiply them by the numbers of the data set."""
    encoder = start.encoder
    train = dataset.split("train")
    val = dataset.split("val")
    examples = train[:: -(-len(train) // HANDFUL)]
    pixels = torch.stack([encoder.preprocessing(open_photo(example.photo)) for example in examples])
    encode = fastest_encode(encoder)
    encode(pixels[:1])  # the first takes longer
    encoding, annotations = seconds_of(lambda: torch.cat([encode(single) for single in pixels[:, None]]))
    known = None if start.checkpoint is None else likeness(start.checkpoint, examples, annotations)

    captions = [vocabulary.encode(words) for example in train for words in example.captions]
    typical = sorted(map(len, captions))[len(captions) // 2]
    config = config.sized(len(vocabulary), encoder.annotation_size)
    data = handful(vocabulary, examples, annotations)
    data.captions = [(examples[row % len(examples)].name, words) for row, words in enumerate(captions)]
    trainer = Trainer(dataclasses.replace(config, epochs=1), data, device=annotations.device)
    step, caption = rates_of(trainer, typical)
    epoch = step * trainer.batches_an_epoch

    judging = 0.0
    stop = config.epochs
    if known is not None and cautious.judged_by_halves(config, len(val)):
        gains = known.expect != "little"
        # two halves, with the nats a word of the other half after each epoch
        judging = (1 + FORWARD) * epoch * cautious.epochs_to_judge(config, gains=gains)
        if gains:
            beams = len(cautious.SHARES) * config.validation_beam_size + cautious.LARGE_BEAM_SIZE  # for the confidence
            judging += beams * caption * (len(train) + len(val))
        else:
            stop = 0
    beams = sum(GRID.beam_sizes) + (sum(GRID.large_beam_sizes) if config.visual_ngrams else 0)
    chosen = not config.cautious or len(val) >= cautious.VAL_FOR_DECODING
    weights = sum(parameter.numel() for parameter in trainer.decoder.parameters())
    encoded = len(train) * (1 + len(config.views)) + len(val)
    return Estimate(
        encoding=encoding / len(pixels) * encoded,
        judging=judging,
        training=stop * (epoch + caption * config.validation_beam_size * len(val)),
        generation=caption * beams * len(val) if chosen else 0.0,
        updates=stop * trainer.batches_an_epoch,
        disk=2 * annotations[0].numel() * encoded,  # in half precision
        model=weights * (2 + 4 * (4 if stop else 2)),  # the model; its weights, their average, two of the optimizer
        memory=peak(),  # that of the steps that were measured
        likeness=known,
    )


def rates_of(trainer: Trainer, length: int) -> tuple[float, float]:
    """The seconds of a step, by a few mini-batches of an epoch, and of a caption of that length by a beam of one."""
    batches = trainer.batches()
    few = batches[:: -(-len(batches) // STEPS)]

    def steps(batches: Sequence[Sequence[int]]) -> None:
        with ThreadPoolExecutor() as reader:
            for batch in batches:
                trainer.take(trainer.mini_batch(batch, reader))
        trainer.read_losses()

    steps(few[:1])  # the first takes longer
    took, _ = seconds_of(lambda: steps(few))
    usual = usual_decoding(trainer.config, trainer.data)
    beam = max(2, trainer.config.validation_beam_size)
    decoding = dataclasses.replace(usual, config=usual.config.merge(beam_size=beam, max_length=length))
    two = dataclasses.replace(trainer.data, validation=trainer.data.validation[:2])
    generation, _ = seconds_of(lambda: captions_of(trainer.average, two, decoding))
    return took / len(few), generation / len(two.validation) / beam


def handful(vocabulary: Vocabulary, examples: Sequence[Example], annotations: Tensor) -> TrainingData:
    """Some examples, of which the annotations (N, L, D) are given, with at most two captions each, as val."""
    names = [example.name for example in examples]
    return TrainingData(
        vocabulary=vocabulary,
        captions=(),
        validation=[(example.name, example.captions[:2]) for example in examples],
        views=[InMemoryAnnotations(dict(zip(names, annotations, strict=True)))],
    )


def likeness(start: Checkpoint, examples: Sequence[Example], annotations: Tensor) -> Likeness:
    """The likeness of some examples, of which the annotations (N, L, D) are given, to what a model has learnt."""
    data = handful(start.vocabulary, examples, annotations)
    nats = nats_a_word(build_decoder(start).to(annotations.device), data)
    shift = None
    if start.reranker is not None and start.reranker.kind == "ngrams":
        ngrams = VisualNgrams(start.reranker.arrays)
        channels = torch.from_numpy(ngrams.channels).to(annotations.device)
        along = as_array(second_moments(annotations, channels).float()) @ ngrams.directions.T - ngrams.offset  # (N, R)
        shift = float(np.linalg.norm(along.mean(0)) / np.linalg.norm(along, axis=1).mean())
    return Likeness(nats, shift)


def peak() -> int:
    """The most memory that this process has had so far, in bytes; 0 where the system does not say."""
    if resource is None:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def seconds_of(work: Callable[[], Result]) -> tuple[float, Result]:
    """The seconds that some work takes, and its result."""
    began = time.monotonic()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.monotonic() - began, result
