"""What a training learns from: captions, views of photos, and mini-batches of them."""

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from show_attend_tell.data.datasets.dataset import repeat_by_weight
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.training.config import TrainingConfig, flat
from show_attend_tell.vision.sources import Annotations


@dataclass(kw_only=True)
class TrainingData:
    """What a training learns from and is selected by."""

    vocabulary: Vocabulary
    captions: Sequence[tuple[str, list[int]]]  # photo name and word ids, end token included
    validation: Sequence[tuple[str, Sequence[Sequence[str]]]]  # photo name and its references
    views: Sequence[Annotations]  # the photos as they are; then, if asked for, mirrored and cropped
    weights: Sequence[float] = ()  # how often an epoch shows each caption; empty: once
    text_corpus: Sequence[list[int]] = ()  # word ids of captions without photos, end token included
    parts: Sequence[slice] = ()  # the photos of ``validation`` that are scored by themselves; empty: all together
    encoder: nn.Module | None = None  # only when it is to be fine-tuned: all of it, or its last blocks
    encoder_learning_rate: float = 0.0
    tuned_names: Sequence[str] = ()  # of the encoder's weights that are fine-tuned
    encoder_record: dict[str, Any] = field(default_factory=dict)  # what the annotations come from, before any training

    def captions_by_photo(self) -> dict[str, list[list[int]]]:
        """The word ids of each training photo's captions, by its name."""
        captions: dict[str, list[list[int]]] = defaultdict(list)
        for name, words in self.captions:
            captions[name].append(words)
        return captions


class InMemoryAnnotations:
    """Annotations in memory, by photo name."""

    def __init__(self, annotations: Mapping[str, Tensor]) -> None:
        self.annotations = annotations

    def __getitem__(self, names: Sequence[str]) -> Tensor:
        return torch.stack([self.annotations[name] for name in names])


def identity(config: TrainingConfig, data: TrainingData) -> dict[str, Any]:
    """What a resumed training must share with the interrupted one, as JSON has it: settings, captions, encoder."""
    vocabulary = Vocabulary(data.vocabulary.words[2:], data.vocabulary.tokenizer)  # however words are spelt
    captions = json.dumps(
        [vocabulary.to_json(), list(data.captions), list(data.validation), *data.weights, *data.text_corpus]
    )
    shared = {
        **config.to_dict(),
        "captions": hashlib.sha256(captions.encode()).hexdigest()[:12],
        "encoder_learning_rate": None if data.encoder is None else data.encoder_learning_rate,
        **flat({"encoder": data.encoder_record}),
    }
    del shared["visual_ngrams"]  # they are fitted after the training
    del shared["micro_batch_size"]  # the gradients are equal
    return json.loads(json.dumps(shared))  # type: ignore[no-any-return]


def batches(
    captions: Sequence[tuple[str, list[int]]], size: int, seed: int, weights: Sequence[float] = ()
) -> list[list[int]]:
    """One epoch's mini-batches: each of one length, in random order, a caption once (sec. 4.3) or by its weight."""
    order = random.Random(seed)
    result = []
    for indices in of_one_length(captions, repeat_by_weight(weights, order) if weights else range(len(captions))):
        order.shuffle(indices)
        result += [indices[i : i + size] for i in range(0, len(indices), size)]
    order.shuffle(result)
    return result


def batches_of_photos(
    captions: Sequence[tuple[str, list[int]]], size: int, seed: int, weights: Sequence[float] = ()
) -> list[list[int]]:
    """One epoch's mini-batches as in `batches`, but each has all captions of its photos, of any length.

    An encoder that is trained sees each photo once an epoch then. A mini-batch ends with the photo that fills it.
    """
    order = random.Random(seed)
    of_photo: dict[str, list[int]] = defaultdict(list)
    for index in repeat_by_weight(weights, order) if weights else range(len(captions)):
        of_photo[captions[index][0]].append(index)
    photos = list(of_photo.values())
    order.shuffle(photos)
    result: list[list[int]] = [[]]
    for indices in photos:
        if len(result[-1]) >= size:
            result.append([])
        result[-1] += indices
    return result


def of_one_length(captions: Sequence[tuple[str, list[int]]], indices: Sequence[int]) -> list[list[int]]:
    """The numbers of captions in groups of one length, the shortest first."""
    groups: dict[int, list[int]] = defaultdict(list)
    for index in indices:
        groups[len(captions[index][1])].append(index)
    return [group for _, group in sorted(groups.items())]


@torch.no_grad()
def annotation_scale(data: TrainingData) -> float:
    """1 / the root mean square of the training photos' annotations, over an even choice of 500 to 999 photos."""
    names = sorted({name for name, _ in data.captions})
    chosen = names[:: max(1, len(names) // 500)]
    groups = [chosen[start : start + 8] for start in range(0, len(chosen), 8)]
    squares = [data.views[0][part].float().square().mean((1, 2)).cpu() for part in groups]
    return float(1 / torch.cat(squares).mean().sqrt())
