"""Stage "data": photos are encoded, and tokenizer, vocabulary, settings and sizes fitted to those that can be read."""

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from show_attend_tell.backends.torch import fastest_encode
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.datasets.dataset import Dataset
from show_attend_tell.data.photos import PREPROCESSING_VERSION, mirrors
from show_attend_tell.data.sides import side_words
from show_attend_tell.data.text_corpus import read_text_corpus
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three, plural, read_without
from show_attend_tell.model.config import DecoderConfig
from show_attend_tell.training import RunOptions
from show_attend_tell.training.config import Start, TrainingConfig
from show_attend_tell.training.data import TrainingData
from show_attend_tell.training.presets import custom
from show_attend_tell.training.ranks import log
from show_attend_tell.vision.blocks import LastBlocks, cut
from show_attend_tell.vision.encoder import Encoder
from show_attend_tell.vision.feature_cache import UnreadablePhotos
from show_attend_tell.vision.reading import unreadable
from show_attend_tell.vision.sources import Annotations, LivePhotos, TunedAnnotations, cached


def prepare(
    dataset: Dataset,
    config: TrainingConfig,
    start: Start,
    options: RunOptions,
    *,
    cache: Path,
    fit: bool,
    given: Collection[str],
) -> tuple[Dataset, TrainingConfig, TrainingData]:
    """The data set as it is learnt from, the settings for it, and the data of the training.

    With ``fit``, the settings that are not ``given`` are fitted to custom data.
    """
    dataset, why = custom.retokenize(dataset, config, start.checkpoint)
    notes = [*dataset.report.lines(), *start.lines, why]
    file = options.text_corpus
    corpus = () if file is None else read_text_corpus(file, dataset.tokenizer, notes)
    tell(notes)
    try:
        encoded = encode(dataset, config, start.encoder, options, cache)
    except UnreadablePhotos as error:
        log(f"left out: {error.reason}")
        dataset = without_unreadable(dataset, error)
        tell(line for line in dataset.report.lines() if line not in notes)
        encoded = encode(dataset, config, start.encoder, options, cache)
    if fit and dataset.custom:
        started = start.checkpoint is not None
        config, changes = custom.fitted(
            dataset, config, given=given, started=started, any_length=options.encoder_lr is not None
        )
        tell(changes)
    vocabulary = learnt_vocabulary(start.checkpoint, dataset, config, corpus)
    new = () if start.checkpoint is None else vocabulary.words[len(start.checkpoint.vocabulary) :]
    if new:
        log(f"{plural(len(new), 'new word')} for the model to start from: {first_three(new)}")
    texts = [vocabulary.encode(text) for text in corpus if all(word in vocabulary for word in text)]
    if corpus:
        log(
            f"{plural(len(texts), 'caption')} without photos, and {len(corpus) - len(texts):,} left out, which have "
            "words that no photo's caption has"
        )
    captions = [
        (example.name, vocabulary.encode(caption)) for example in dataset.split("train") for caption in example.captions
    ]
    weights = {part.name: part.weight for part in dataset.parts}  # of data sets that are joined
    photos_of_val = [sum(example.split == "val" for example in part.dataset.examples) for part in dataset.parts]
    ends = [0, *accumulate(photos_of_val)]
    data = TrainingData(
        vocabulary=vocabulary,
        captions=captions,
        validation=[(example.name, example.captions) for example in dataset.split("val")],
        weights=[weights[name.partition("/")[0]] for name, _ in captions] if weights else (),
        text_corpus=texts,
        parts=[slice(first, end) for first, end in pairwise(ends) if first < end],
        **encoded,
    )
    return dataset, config.sized(len(vocabulary), start.encoder.annotation_size), data


def tell(lines: Iterable[str]) -> None:
    """Log some lines."""
    for line in lines:
        log(line)


def encode(
    dataset: Dataset, config: TrainingConfig, encoder: Encoder, options: RunOptions, cache: Path
) -> dict[str, Any]:
    """What the encoder gives a `TrainingData` of photos that can all be read. Raises `UnreadablePhotos` for others."""
    train = dataset.split("train")
    validation = dataset.split("val")
    frozen = encoder  # what is cached
    trained: Encoder | LastBlocks | None = None
    names: list[str] = []
    if options.unfreeze_from is not None:
        frozen, trained, names = cut(encoder, options.unfreeze_from)
    elif options.encoder_lr is not None:
        # found now, not hours later in the training
        passed_over: dict[str, str] = {}
        problems = {name: problem for name, problem in unreadable([*train, *validation], passed_over) if problem}
        if problems:
            raise UnreadablePhotos(problems, len(train) + len(validation))
        if passed_over:
            log(read_without(passed_over))
        trained = encoder
        names = list(encoder.body.state_dict())
        encoder.unfreeze()
    if trained is not None and config.precision != "auto":
        encoder.fixed_precision = encoder.fixed_precision or config.precision  # resumed elsewhere, it goes on in it
    fastest = fastest_encode(frozen)

    originals: dict[str, Path] = {}  # stored files of the photos as they are

    def source(view: str, splits: Sequence[str], plain: Collection[str] = ()) -> Annotations:
        """The annotations of a view; the photos ``plain`` are shown as they are."""
        if isinstance(trained, Encoder):
            examples = [example for split in splits for example in dataset.split(split)]
            return LivePhotos(examples, encoder, view, plain=plain)
        annotations = cached(dataset, frozen, cache, splits=splits, encode=fastest, view=view)
        if view == "original":
            originals.update(annotations.files)
        annotations.files |= {name: originals[name] for name in plain}
        return annotations if trained is None else TunedAnnotations(annotations, trained, encoder.precision)

    original = source("original", ("train", "val"))
    joined = dataset.parts and not isinstance(trained, Encoder)
    named = {  # photos with sides, by their names here, and in their own cache, by which their crops are drawn
        example.name: example.name.partition("/")[2] if joined else example.name
        for example in train
        if not config.mirror_sides and any(map(side_words, example.raw))
    }

    def training_view(view: str) -> Annotations:
        mirrored = {name for name, own in named.items() if mirrors(view, own)}
        if len(mirrored) == len(train):
            return original  # no photo is shown in this view
        return source(view, ("train",), mirrored)  # photos with sides are not shown mirrored

    return {
        "views": [original, *map(training_view, config.views)],
        "encoder": trained,
        "encoder_learning_rate": options.encoder_lr or 0.0,
        "tuned_names": names,
        "encoder_record": {
            "digest": encoder.digest,
            **encoder.preprocessing.to_dict(),
            "preprocessing_version": PREPROCESSING_VERSION,
            "unfreeze_from": options.unfreeze_from,
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
    learns = isinstance(start.config, DecoderConfig)
    return Vocabulary.build(captions if learns else (), start=start.vocabulary, **limits)
