"""How a training is fitted to custom data: what it starts from, how long it lasts, its words, and how val selects.

The preset `flickr8k` was made for 6,000 photos with five captions each. For custom data, `fitted` changes it:

- **Updates.** A training has at least `UPDATES` updates, expressed in epochs, and at most `MOST_EPOCHS`. Fewer leave an
  undertrained model, since an epoch of a small set has few batches.
- **Words.** A word is learnt if it is seen once for every `CAPTIONS_A_TIME` training captions, and five times at most.
- **Val.** With fewer than `VAL_FOR_BLEU` photos, the best epoch has the best CIDEr and nats a word together.
  BLEU-4 of so few captions depends more on chance than on the epoch.
- **Tokenizer.** `retokenize` gives the captions in the words of the tokenizer that fits their language.
- **Start.** A training that starts from the default model has the settings of the second stage of `flickr8k-soft`.

With fewer than `cautious.SMALL` training photos, the training is cautious: `training.cautious` has the rules.

`why_afresh` says why a training does not start from the default model. Nothing that the user has set is changed.
"""

import math
from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.hub import DEFAULT_MODEL, SHIPPED
from show_attend_tell.data.datasets import Dataset
from show_attend_tell.data.inspection import ENGLISH, choose_tokenizer, language_of, start_tokenizer
from show_attend_tell.data.tokenizers import Tokenizer
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.messages import plural
from show_attend_tell.training import cautious
from show_attend_tell.training.cautious import SMALL
from show_attend_tell.training.config import TrainingConfig

START = DEFAULT_MODEL  # a soft model
VAL_FOR_BLEU = 200  # photos
CAPTIONS_A_TIME = 6000
UPDATES = {"started": 400, "afresh": 1500}
MOST_EPOCHS = {"started": 20, "afresh": 40}
STARTED = {"epochs": 3, "learning_rate": 5e-4, "scheduled_sampling": 0.3}  # of soft attention: the notes on training


def english_words() -> frozenset[str]:
    """The English words that the default model knows."""
    return frozenset(Vocabulary.load(SHIPPED / START / "vocabulary.json").words)


def retokenize(dataset: Dataset, config: TrainingConfig, start: Checkpoint | None) -> tuple[Dataset, str]:
    """A data set cut into words as the model ``start`` cuts them, or as fits the captions, and a line that says how."""
    if start is not None:
        tokenizer: Tokenizer = start_tokenizer(start.vocabulary.tokenizer, dataset)
        if tokenizer.between and not language_of(dataset.texts(), ()).spaces:
            raise SatError(
                f"the model to start from splits captions at spaces (tokenizer {tokenizer.name}), and these captions "
                "have none: leave out --init-from, or name a model of their language"
            )
        why = "as in the model to start from"
        why += "" if tokenizer == start.vocabulary.tokenizer else ", but numbers keep their points"
    else:
        size = {"minimum_count": least_count(dataset, config), "size": config.vocabulary_size}
        tokenizer, why = choose_tokenizer(dataset, english=english_words(), **size)
    return dataset.retokenize(tokenizer), f"tokenizer {tokenizer.name}: {why}"


def least_count(dataset: Dataset, config: TrainingConfig) -> int:
    """How often a word must be seen to be learnt: fewer times in small custom data."""
    captions = sum(len(example.captions) for example in dataset.split("train"))
    return min(config.minimum_count, max(1, captions // CAPTIONS_A_TIME))


def why_afresh(dataset: Dataset) -> str:
    """Why a training on a data set does not start from the default model; empty if it does."""
    if not dataset.custom:
        return f"{dataset.name} is one of the paper's data sets"
    photos = len(dataset.split("train"))
    if photos >= SMALL:
        return f"{plural(photos, 'training photo')} are enough ({SMALL:,})"
    language = language_of(dataset.texts(), english_words())
    if not language.is_english:
        return (
            f"the captions are not English: {100 * language.english:.0f} % of their words are English ones that "
            f"{START} knows, fewer than {100 * ENGLISH:.0f} %"
        )
    return ""


def fitted(
    dataset: Dataset,
    config: TrainingConfig,
    *,
    given: Collection[str] = (),
    started: bool = False,
    any_length: bool = False,
) -> tuple[TrainingConfig, list[str]]:
    """The settings for custom data, and a line for each change. The ``given`` settings stay.

    ``started`` says that the training starts from a model, ``any_length`` that a mini-batch has captions of any length.
    """
    lines: list[str] = []
    changes: dict[str, object] = {}
    val = len(dataset.split("val"))
    started_soft = started and config.decoder.attention == "soft"
    if started_soft:
        changes |= STARTED
        small = [f"{name} {value:g}" for name, value in STARTED.items() if name not in ("epochs", *given)]
        if small:
            lines.append(f"{' and '.join(small)}, for a model that is trained on (--set NAME=VALUE chooses)")
    least = least_count(dataset, config)
    if least != config.minimum_count:
        changes["minimum_count"] = least
        if "minimum_count" not in given and dataset.tokenizer.between:
            lines.append(f"words seen {plural(least, 'time')} or more are learnt, for a set this small")
    train = len(dataset.split("train"))
    if train < SMALL:
        changes["cautious"] = True
        if "cautious" not in given:
            lines.append(
                f"{plural(train, 'training photo')}: what they cannot prove stays as in the model to start from, or "
                "usual (--set cautious=false)"
            )
    if val < VAL_FOR_BLEU and config.selected_by == "bleu_4":
        changes["selected_by"] = "cider_and_nats"
    config = replace(config, **{name: value for name, value in changes.items() if name not in given})  # type: ignore[arg-type]
    if "selected_by" in changes.keys() - {*given}:
        chosen = "CIDEr and nats a word together say which weights are best, not BLEU-4"
        if started_soft and not any_length and cautious.judged_by_halves(config, val):
            chosen = "two trainings on half of the photos, each judged by the others, say what a training gains"
        lines.append(f"val has {plural(val, 'photo')}, too few to choose by: {chosen}")
    if "epochs" not in given:
        kind = "started" if started else "afresh"
        batches = batches_an_epoch(dataset, config, any_length=any_length)
        epochs = max(config.epochs, min(MOST_EPOCHS[kind], math.ceil(UPDATES[kind] / batches)))
        if epochs != config.epochs:
            lines.append(
                f"{epochs} epochs of {plural(batches, 'batch')}: {epochs * batches:,} updates, by the rule for small "
                f"sets (from {UPDATES[kind]:,} on, in at most {MOST_EPOCHS[kind]} epochs; --set epochs=N chooses)"
            )
        config = replace(config, epochs=epochs)
    return config, lines


def batches_an_epoch(dataset: Dataset, config: TrainingConfig, *, any_length: bool) -> int:
    """About how many mini-batches an epoch has, each of captions of one length, or of ``any_length``."""
    weights = {part.name: part.weight for part in dataset.parts}  # of data sets that are joined
    captions: dict[int, float] = defaultdict(float)  # that an epoch shows, by their length
    for example in dataset.split("train"):
        for words in example.captions:
            captions[0 if any_length else len(words)] += weights.get(example.name.partition("/")[0], 1)
    return sum(math.ceil(number / config.batch_size) for number in captions.values())
