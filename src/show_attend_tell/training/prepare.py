"""From captioned photos to what a training learns from: annotations, words, and settings that fit."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from torch import nn

from show_attend_tell.backends.encoding import fastest_encode
from show_attend_tell.data.datasets import Dataset
from show_attend_tell.data.photos import PREPROCESSING_VERSION, mirrors
from show_attend_tell.data.sides import names_side
from show_attend_tell.data.text_corpus import read_text_corpus
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.messages import first_three, plural, times
from show_attend_tell.training.config import TrainingPlan
from show_attend_tell.training.data import TrainingData, without_unreadable
from show_attend_tell.training.presets import custom
from show_attend_tell.training.ranks import log
from show_attend_tell.training.start import learnt_vocabulary
from show_attend_tell.vision.blocks import LastBlocks, cut
from show_attend_tell.vision.encoder import Encoder
from show_attend_tell.vision.feature_cache import UnreadablePhotos, default_cache
from show_attend_tell.vision.reading import unreadable
from show_attend_tell.vision.sources import Annotations, LivePhotos, SeveralSources, TunedAnnotations, cached


def prepare(plan: TrainingPlan, *, show: bool) -> tuple[TrainingPlan, TrainingData]:
    """Encode the photos, leave out those that cannot be read, and fit settings and vocabulary to the others.

    The plan that is returned has these photos and settings, with the sizes of the vocabulary and the annotations.
    """
    start, encoder, config = plan.start.checkpoint, plan.start.encoder, plan.config
    dataset, why = custom.retokenize(plan.dataset, config, start)
    notes = [*dataset.report.lines(), *plan.start.lines, why]
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
        config, notes = custom.fitted(dataset, config, given=plan.given or (), started=start is not None)
    corpus = () if plan.text_corpus is None else read_text_corpus(plan.text_corpus, dataset.tokenizer, notes)
    vocabulary = learnt_vocabulary(start, dataset, config, corpus)
    if start is not None and (new := vocabulary.words[len(start.vocabulary) :]):
        notes.append(
            f"{plural(len(new), 'new word')} seen {times(config.minimum_count)} or more: {first_three(new)}; they are "
            f"appended to the {len(start.vocabulary):,} of the model to start from (--set new_words=false leaves them "
            "out)"
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
        remedy = f"they are seen fewer than {config.minimum_count} times. --set minimum_count=1 keeps every word"
        if start is not None and not config.new_words:
            remedy = "the model to start from keeps its vocabulary. --set new_words=true adds to it"
        notes.append(f"{100 * unknown / total:.0f} % of the words in the training captions are unknown: {remedy}")
    for line in notes:
        log(line)
    weights, parts = joined_sets(dataset)
    sizes = {"vocabulary_size": len(vocabulary), "annotation_size": encoder.annotation_size}
    config = dataclasses.replace(config, decoder=dataclasses.replace(config.decoder, **sizes))
    return dataclasses.replace(plan, dataset=dataset, config=config), TrainingData(
        vocabulary=vocabulary,
        captions=captions,
        validation=[(example.name, example.captions) for example in validation],
        weights=weights,
        text_corpus=texts,
        parts=parts,
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
    named = (
        {} if config.mirror_sides else {e.name: own_name(dataset, e.name, tuned) for e in train if names_side(e.raw)}
    )

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


def own_name(dataset: Dataset, name: str, tuned: nn.Module | None) -> str:
    """The name by which a photo's random crops are drawn: in a cache, that in its own data set."""
    return name.partition("/")[2] if dataset.parts and not isinstance(tuned, Encoder) else name


def joined_sets(dataset: Dataset) -> tuple[list[float], list[slice]]:
    """How often an epoch shows each training caption, and which validation photos are of each joined data set."""
    weights: list[float] = []
    photos: list[slice] = []
    start = 0
    for part in dataset.parts:
        train, validation = ([e for e in part.dataset.examples if e.split == split] for split in ("train", "val"))
        weights += [part.weight] * sum(len(example.captions) for example in train)
        if validation:
            photos.append(slice(start, start + len(validation)))
            start += len(validation)
    return weights, photos
