"""From captioned photos to what a training learns from: annotations, words, settings that fit, and mini-batches."""

import dataclasses
import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from show_attend_tell.backends.torch import fastest_encode
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.datasets.dataset import Dataset, repeat_by_weight
from show_attend_tell.data.photos import PREPROCESSING_VERSION, mirrors
from show_attend_tell.data.sides import side_words
from show_attend_tell.data.text_corpus import read_text_corpus
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three, plural
from show_attend_tell.model.config import DecoderConfig
from show_attend_tell.progress import Progress
from show_attend_tell.training.config import TrainingConfig, TrainingPlan, flat
from show_attend_tell.training.presets import custom
from show_attend_tell.training.ranks import log
from show_attend_tell.vision.blocks import LastBlocks, cut
from show_attend_tell.vision.encoder import Encoder
from show_attend_tell.vision.feature_cache import UnreadablePhotos, default_cache
from show_attend_tell.vision.reading import unreadable
from show_attend_tell.vision.sources import Annotations, LivePhotos, SeveralSources, TunedAnnotations, cached


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


class Held:
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
    found = {
        **config.to_dict(),
        "captions": hashlib.sha256(captions.encode()).hexdigest()[:12],
        "encoder_learning_rate": None if data.encoder is None else data.encoder_learning_rate,
        **flat({"encoder": data.encoder_record}),
    }
    del found["visual_ngrams"]  # they are fitted after the training
    del found["new_words"]  # the captions hold them
    if not data.text_corpus:
        del found["text_weight"]
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def prepare(plan: TrainingPlan, *, show: bool) -> tuple[TrainingPlan, TrainingData]:
    """Encode the photos, and fit the vocabulary and the plan's settings and sizes to those that can be read."""
    start, encoder, config = plan.start.checkpoint, plan.start.encoder, plan.config
    dataset, why = custom.retokenize(plan.dataset, config, start)
    notes = [*dataset.report.lines(), *plan.start.lines, why]
    corpus = () if plan.text_corpus is None else read_text_corpus(plan.text_corpus, dataset.tokenizer, notes)
    for line in notes:
        log(line)
    try:
        encoded = encode(dataset, plan, show=show)
    except UnreadablePhotos as error:
        log(f"left out: {error.reason}")
        dataset = without_unreadable(dataset, error)
        for line in dataset.report.lines():
            if line not in notes:
                log(line)
        encoded = encode(dataset, plan, show=show)
    notes = []
    if plan.fit_to_data and dataset.custom:
        mixed = plan.encoder_lr is not None
        config, notes = custom.fitted(dataset, config, given=plan.given or (), started=start is not None, mixed=mixed)
    vocabulary = learnt_vocabulary(start, dataset, config, corpus)
    if start is not None and (new := vocabulary.words[len(start.vocabulary) :]):
        notes.append(
            f"{plural(len(new), 'new word')} seen {plural(config.minimum_count, 'time')} or more: {first_three(new)}; "
            f"they are appended to the {len(start.vocabulary):,} of the model to start from (--set new_words=false "
            "leaves them out)"
        )
    texts = [vocabulary.encode(text) for text in corpus if all(word in vocabulary for word in text)]
    if corpus:
        notes.append(
            f"{plural(len(texts), 'caption')} without photos, and {len(corpus) - len(texts):,} left out, which have "
            "words that no photo's caption has"
        )
    train, validation = dataset.split("train"), dataset.split("val")
    captions = [(example.name, vocabulary.encode(caption)) for example in train for caption in example.captions]
    unknown = sum(words.count(Vocabulary.UNKNOWN) for _, words in captions)
    total = sum(len(words) - 1 for _, words in captions)
    if 10 * unknown > total:
        seen = f"seen fewer than {plural(config.minimum_count, 'time')}"
        remedy = f"{seen} (--set minimum_count=N), or beyond the vocabulary's size (--set vocabulary_size=N)"
        if start is not None and not config.new_words:
            remedy = "the model to start from keeps its vocabulary. --set new_words=true adds to it"
        notes.append(f"{100 * unknown / total:.0f} % of the words in the training captions are unknown: {remedy}")
    for line in notes:
        log(line)
    shown = {part.name: part.weight for part in dataset.parts}  # how often, of data sets that are joined
    ends = accumulate(sum(each.split == "val" for each in part.dataset.examples) for part in dataset.parts)
    sizes = {"vocabulary_size": len(vocabulary), "annotation_size": encoder.annotation_size}
    config = dataclasses.replace(config, decoder=dataclasses.replace(config.decoder, **sizes))
    return dataclasses.replace(plan, dataset=dataset, config=config), TrainingData(
        vocabulary=vocabulary,
        captions=captions,
        validation=[(example.name, example.captions) for example in validation],
        weights=[shown[name.partition("/")[0]] for name, _ in captions] if shown else (),
        text_corpus=texts,
        parts=[slice(start, end) for start, end in pairwise([0, *ends]) if start < end],
        **encoded,
    )


def encode(dataset: Dataset, plan: TrainingPlan, *, show: bool) -> dict[str, Any]:
    """What the encoder gives a `TrainingData` of photos that can all be read. Raises `UnreadablePhotos` for others."""
    config, encoder, cache = plan.config, plan.start.encoder, plan.cache or default_cache()
    train, validation = dataset.split("train"), dataset.split("val")
    below = encoder  # what is cached
    tuned: Encoder | LastBlocks | None = None
    names: list[str] = []
    if plan.unfreeze_from is not None:
        below, tuned, names = cut(encoder, plan.unfreeze_from)
    elif plan.encoder_lr is not None:
        # now, and not only when the training needs them
        if problems := {name: problem for name, problem in unreadable([*train, *validation]) if problem}:
            raise UnreadablePhotos(problems, len(train) + len(validation))
        tuned, names = encoder, list(encoder.body.state_dict())
        encoder.unfreeze()

    fastest = fastest_encode(below)

    def source(view: str, splits: Sequence[str]) -> Annotations:
        if isinstance(tuned, Encoder):
            return LivePhotos([example for split in splits for example in dataset.split(split)], encoder, view)
        found = cached(dataset, below, cache, splits=splits, encode=fastest, view=view, show=show)
        return found if tuned is None else TunedAnnotations(found, tuned, encoder.precision)

    original = source("original", ("train", "val"))
    named = {}  # photos with sides, by their names here, and in their own cache, by which their crops are drawn
    for example in train if not config.mirror_sides else ():
        if any(map(side_words, example.raw)):
            joined = dataset.parts and not isinstance(tuned, Encoder)
            named[example.name] = example.name.partition("/")[2] if joined else example.name

    def training_view(view: str) -> Annotations:
        mirrored = {name for name, own in named.items() if mirrors(view, own)}
        if len(mirrored) == len(train):
            return original  # no photo is shown in this view
        sources = {True: original, False: source(view, ("train",))}  # photos with sides are not shown mirrored
        return SeveralSources(sources, lambda name: (name in mirrored, name)) if mirrored else sources[False]

    return {
        "views": [original, *map(training_view, config.views)],
        "encoder": tuned,
        "encoder_learning_rate": plan.encoder_lr or 0.0,
        "tuned_names": names,
        "encoder_record": {
            "digest": encoder.digest,
            **encoder.preprocessing.to_dict(),
            "preprocessing_version": PREPROCESSING_VERSION,
            "unfreeze_from": plan.unfreeze_from,
        },
    }


def without_unreadable(dataset: Dataset, error: UnreadablePhotos) -> Dataset:
    """Custom data without photos that cannot be read; the paper's data sets need all of theirs."""
    papers = [part for part in dataset.parts if not part.dataset.custom]
    if not dataset.custom or any(part.own_names(error.problems) for part in papers):
        raise error
    readable = dataset.without(error.problems)
    for split in ("train", "val"):
        if dataset.report.photos.get(split) and not readable.report.photos[split]:
            raise SatError(
                f"no photo of {split} can be read: {error.reason}. Replace these photos, or put others in {split}"
            )
    return readable


def learnt_vocabulary(
    start: Checkpoint | None, data: Dataset, config: TrainingConfig, corpus: Sequence[Sequence[str]] = ()
) -> Vocabulary:
    """The vocabulary of a training, with the data's tokenizer; of a model to start from, with the words it lacks."""
    captions = [words for example in data.split("train") for words in example.captions]
    limits: dict[str, Any] = {"minimum_count": config.minimum_count, "size": config.vocabulary_size}
    limits |= {"tokenizer": data.tokenizer, "text_corpus": corpus, "texts": data.texts("train")}
    if start is None:
        return Vocabulary.build(captions, **limits)
    learns = config.new_words and isinstance(start.config, DecoderConfig)
    return start.vocabulary.extended(captions if learns else (), **limits)


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
def annotation_scale(data: TrainingData, *, show: bool = False) -> float:
    """1 / the root mean square of the training photos' annotations, over an even choice of 500 to 999 photos."""
    names = sorted({name for name, _ in data.captions})
    chosen = names[:: max(1, len(names) // 500)]
    parts = [chosen[start : start + 8] for start in range(0, len(chosen), 8)]
    bar = Progress(parts, desc="scale of the annotations", unit="batch", disable=not show, leave=False)
    squares = [data.views[0][part].float().square().mean((1, 2)).cpu() for part in bar]
    return float(1 / torch.cat(squares).mean().sqrt())
