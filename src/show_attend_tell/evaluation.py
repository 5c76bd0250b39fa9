"""To evaluate is to caption a split, each photo once, and to score the captions."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Dataset, Example
from show_attend_tell.data.photos import open_photo
from show_attend_tell.data.tokenizers import KARPATHY, Tokens, in_form
from show_attend_tell.generation import GenerationConfig, photo_seed
from show_attend_tell.metrics.scores import Evaluation, check_scorers, score_entries
from show_attend_tell.progress import Progress, progress_shown
from show_attend_tell.search.hypotheses import Hypothesis
from show_attend_tell.vision.sources import cached

BATCH_SIZE = 64  # photos whose annotations are in memory at once
# of a caption in an evaluation without attention
CAPTION_FIELDS = ("caption", "words", "log_probability", "complete", "word_confidence")


def evaluate(
    captioner: Captioner,
    dataset: Dataset,
    split: str,
    config: GenerationConfig | None = None,
    *,
    cache: Path,
    tokens: Tokens | None = None,
    attention: bool = False,
    show: bool = True,
    **overrides: Any,
) -> Evaluation:
    """Caption a whole split, each photo once, and score it.

    Returns the metrics ×100, how they were made, and the captions under `results`. A caption's entry has the
    ``photo``'s name, its ``file``, the sentence, its words, log p, whether it is complete, its references and its own
    scores. With ``attention`` it has all of `Caption.to_dict`, evidence too, some 60 kB a photo.

    ``config`` and the overrides are those of `Captioner`. ``cache`` is the folder of encoded photos. ``tokens`` names
    the convention (`metrics`): "split" for the data set's own tokens joined by spaces, "ptb" for PTB tokenization of
    the raw captions; None for the one of the model's tokenizer. Sampled locations are drawn by the seed and the photo's
    name. Raises `SatError` for an unknown split and a wrong value.
    """
    check_scorers(tokens)
    dataset = dataset.retokenize(captioner.checkpoint.vocabulary.tokenizer)
    config = captioner.resolve_config(config, **overrides)
    entries = []
    with progress_shown(show):
        for batch, _, captions in searched(captioner, dataset, split, config, cache=cache, evidence=attention):
            for example, hypotheses in zip(batch, captions, strict=True):
                size = open_photo(example.photo).size if attention else None
                file = str(example.photo.resolve())
                caption = captioner.assemble(hypotheses, config, size=size, source=file).to_dict()
                words = hypotheses[0].said(captioner.checkpoint.vocabulary, compared=True)
                caption |= {"caption": dataset.tokenizer.text(words), "words": words}
                kept = caption if attention else {name: caption[name] for name in CAPTION_FIELDS}
                entries.append({"photo": example.name, "file": file, **kept})
    settings = {
        "model": captioner.name,
        **({} if dataset.tokenizer == KARPATHY else {"tokenizer": dataset.tokenizer.name}),
        **config.values(),
    }
    return score_split(dataset, split, entries, tokens=tokens, settings=settings)


def searched(
    captioner: Captioner,
    dataset: Dataset,
    split: str,
    config: GenerationConfig,
    *,
    cache: Path,
    evidence: bool = False,
) -> Iterator[tuple[Sequence[Example], Any, list[list[Hypothesis]]]]:
    """The photos of a split in batches: examples, features (B, L, D) of the back end, and captions of each photo."""
    examples = dataset.split(split)
    backend = captioner.backend
    annotations = cached(dataset, backend.encoder, cache, splits=(split,), encode=backend.encode)
    with Progress(total=len(examples), desc="captions", unit="photo") as bar:
        for start in range(0, len(examples), BATCH_SIZE):
            batch = examples[start : start + BATCH_SIZE]
            names = [example.name for example in batch]
            seeds = [photo_seed(config.seed, name.encode()) for name in names]
            features = backend.features(annotations[names])
            yield batch, features, captioner.generate(features, config, seeds=seeds, evidence=evidence)
            bar.update(len(batch))


def score_split(
    dataset: Dataset,
    split: str,
    entries: Sequence[Mapping[str, Any]],
    *,
    tokens: Tokens | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Score captions of a whole split, one for each photo, however they were made.

    ``entries`` have a ``photo``, its ``caption`` and more; ``tokens`` are by default those of the data's tokenizer.
    """
    examples = dataset.split(split)
    tokenizer = dataset.tokenizer
    tokens = tokens or tokenizer.tokens
    if tokens == tokenizer.tokens:
        references = {example.name: [tokenizer.text(words) for words in example.captions] for example in examples}
    else:
        references = {example.name: [in_form(raw, tokens) for raw in example.raw] for example in examples}
    training = [words for example in dataset.examples if example.split == "train" for words in example.captions]
    return score_entries(
        entries,
        references,
        tokens=tokens,
        training=training or None,
        cut=tokenizer.words,
        settings={"data": dataset.name, "split": split, **(settings or {})},
    )
