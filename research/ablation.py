"""Does where a model attends matter to what it says?

    python research/ablation.py flickr8k/ flickr8k-soft
    python research/ablation.py flickr8k/ flickr8k-hard --beam-size 20 --rerank-weight 0 --json hard.json
    python research/ablation.py flickr8k/ flickr8k-soft --captions reference --captioned 0
    python research/ablation.py flickr8k/ flickr8k-soft --encoded 100    # takes an hour on a CPU

Photos of a split are drawn and captioned. Each caption is read again by teacher forcing, and at every word something is
done to what the model sees: its α is replaced (`attention.controls`), or locations are hidden (`attention.occlusion`).
The tables say what that costs the word's log-probability in nats, by class of word, and what each replacement costs the
captions' scores. An annotation of VGG-19 sees nearly the whole photo, so hiding annotations and hiding parts of the
photo need not agree.

T words of a caption, end token excluded · L locations in a grid of rows and columns.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from attention.controls import CONTROLS, costs_at_words, mode_for_search
from attention.forcing import Forced, SeededMode, force
from attention.maps import check_attention
from attention.occlusion import VARIANTS, WAYS, falls, hidden_in_annotations, hidden_in_photo, hidden_locations
from measure import Bootstrap, Report, WordClass, add_generation, arguments, generation, table
from numpy.typing import NDArray
from stages import reporting
from torch import Tensor

from show_attend_tell.backends.torch import TorchBackend
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Dataset, Example, read_dataset
from show_attend_tell.data.parts_of_speech import PartOfSpeech, part_of_speech
from show_attend_tell.data.photos import open_photo
from show_attend_tell.errors import SatError
from show_attend_tell.generation import GenerationConfig, photo_seed
from show_attend_tell.metrics.comparison import differences
from show_attend_tell.metrics.scores import Scores, check_scorers, score
from show_attend_tell.model.attention import AttentionMode
from show_attend_tell.progress import Progress
from show_attend_tell.search.hypotheses import Hypothesis
from show_attend_tell.search.session import DecoderSession
from show_attend_tell.training.objectives.losses import entropy
from show_attend_tell.vision import registry
from show_attend_tell.vision.sources import Annotations, cached

Captions = Literal["own", "reference"]
SCORED = {"cider": "CIDEr", "meteor": "METEOR", "bleu_4": "BLEU-4", "bleu_4_no_brevity": "BLEU-4 without penalty"}
BATCH_SIZE = 32  # photos that are captioned together
CLASSES = (*get_args(PartOfSpeech), "unclassified", "all")
SHOWN = ("noun", "color", "verb", "function", "all")  # in tables
COMPARED = ("other_word", "static", "other_photo", "patch", "random")  # with the most attended locations, as ratios
SEARCHED = tuple(control for control in CONTROLS if control != "other_view")  # that is another photo's caption


class Measured(NamedTuple):
    """What was measured on one caption."""

    forced: Forced
    masks: Tensor  # the locations hidden (U, L)
    costs: dict[str, NDArray[np.float64]]  # by control (T,)
    falls: dict[str, NDArray[np.float64]]  # by way of hiding (T, V)


class Subject(NamedTuple):
    """The model, the photos drawn for it, and how it captions them."""

    captioner: Captioner
    annotations: Annotations
    examples: Sequence[Example]
    modes: Sequence[SeededMode]  # of each photo
    config: GenerationConfig

    @property
    def backend(self) -> TorchBackend:
        """What runs the model."""
        return self.captioner.torch_backend()

    def features(self, row: int) -> Tensor:
        """The annotations (1, L, D) of one photo, in float32."""
        return self.backend.features(self.annotations[[self.examples[row].name]]).float()


@torch.inference_mode()
def ablation(
    captioner: Captioner,
    dataset: Dataset,
    split: str,
    *,
    cache: Path,
    photos: int = 200,
    captions: Captions = "own",
    captioned: int | None = None,
    encoded: int = 0,
    seed: int = 0,
    show: bool = True,
    **overrides: Any,
) -> Report:
    """Measure whether the locations that a model attends to matter to its words.

    ``photos`` of the split are drawn by ``seed``. The words measured are those of each photo's caption by the model
    itself, which was found under its own α and so favors it, or, with ``captions`` "reference", of its first reference.
    ``captioned`` is on how many of the photos the model also makes captions with each control at every step, all by
    default and 0 for none. ``encoded`` is on how many locations are hidden in the photo too, which takes about 40
    encodings a photo. ``overrides`` change the `GenerationConfig` of the checkpoint, but captions are made without
    class words and the cost of a second use unless the overrides have them. Raises `SatError` for a model without
    attention, for fewer than two photos, and where fewer than two captions have two words.
    """
    check_attention(captioner)
    dataset = dataset.retokenize(captioner.checkpoint.vocabulary.tokenizer)
    check_numbers(dataset, split, photos=photos, encoded=encoded, captioned=captioned)
    ordered = sorted(dataset.split(split), key=lambda example: example.name)
    drawn = random.Random(seed).sample(ordered, min(photos, len(ordered)))
    captioned = len(drawn) if captioned is None else min(captioned, len(drawn))
    if captioned:
        check_scorers()
    config = captioner.resolve_config(**{"class_weight": 0.0, "repetition_cost": 0.0, **overrides})
    backend = captioner.torch_backend()
    annotations = cached(dataset, backend.encoder, cache, splits=(split,), encode=backend.encode, show=show)
    modes = [SeededMode(config.attention_mode, photo_seed(seed, example.name.encode())) for example in drawn]
    subject = Subject(captioner, annotations, drawn, modes, config)

    number = len(drawn) if captions == "own" else captioned
    own = caption_photos(subject, number, show=show)
    forced = force_all(subject, own if captions == "own" else None, show=show)
    if len(forced) < 2:
        raise SatError(f"{len(forced)} of {len(drawn)} captions have two words or more: is {captioner.name} trained?")
    rows = sorted(forced)
    others = dict(zip(rows, [*rows[1:], rows[0]], strict=True))
    measured = [
        measure(subject, forced, row, others[row], encoded=row < encoded)
        for row in Progress(rows, desc="ablation", unit="photo", disable=not show)
    ]
    scores = scores_of_controls(subject, own[:captioned], seed=seed, show=show) if captioned else None
    settings = {
        name: getattr(config, name) for name in ("attention_mode", "beam_size", "length_penalty", "rerank_weight")
    }
    facts = {
        **{"model": captioner.name, "data": dataset.name, "split": split, "photos": len(drawn), "seed": seed},
        **{"captions": captions, **settings},
    }
    figures = {**summarize(measured, seed), "captions_made": scores}
    return Report(facts, figures, tables_of(figures))


def check_numbers(dataset: Dataset, split: str, *, photos: int, encoded: int, captioned: int | None) -> None:
    """Raise `SatError` for numbers of photos that give no interval, which comes from how photos differ."""
    if min(photos, len(dataset.split(split))) < 2 or encoded == 1 or captioned == 1:
        raise SatError("one photo gives no interval: give 2 photos or more; --encoded and --captioned may be 0")


# ---------------------------------------------------------------- each caption


def force_all(subject: Subject, own: Sequence[Hypothesis] | None, *, show: bool) -> dict[int, Forced]:
    """Teacher forcing of each photo's own caption, or of its first reference where none are given, by the photo's row.

    Captions with fewer than two words are left out.
    """
    vocabulary, found = subject.captioner.checkpoint.vocabulary, {}
    examples = Progress(subject.examples, desc="teacher forcing", unit="photo", disable=not show)
    for row, (example, mode) in enumerate(zip(examples, subject.modes, strict=True)):
        words = vocabulary.encode(example.captions[0])[:-1] if own is None else own[row].words
        if len(words) > 1:
            ids = torch.tensor([words], device=subject.backend.torch_device)
            said = vocabulary.decode(words)
            found[row] = force(subject.backend.decoder, example, subject.features(row), said, ids, mode)
    return found


def measure(subject: Subject, forced: Mapping[int, Forced], row: int, other: int, *, encoded: bool) -> Measured:
    """Replace a caption's α and hide its photo's locations; ``other`` is the row of another photo."""
    backend, own = subject.backend, forced[row]
    decoder, grid, offset = backend.decoder, backend.encoder.grid, registry.offset(backend.encoder.name)
    features = subject.features(row)
    masks = hidden_locations(own.alpha, forced[other].alpha, grid, torch.Generator().manual_seed(own.mode.seed))
    by_way = {"annotations": falls(decoder, own, hidden_in_annotations(features, masks))}
    if encoded:
        pixels = backend.encoder.preprocessing(open_photo(own.example.photo)).to(backend.torch_device)
        by_way["gray"] = falls(decoder, own, hidden_in_photo(pixels, masks, grid, backend.encode, offset))
    costs = costs_at_words(decoder, features, own, subject.features(other), forced[other])
    return Measured(own, masks, costs, by_way)


# ---------------------------------------------------------------- captions made with other maps


class ByMode:
    """A back end whose searches have another attention mode; all photos that it is given are searched at once."""

    def __init__(self, backend: TorchBackend, mode: AttentionMode | None) -> None:
        self.backend, self.mode = backend, mode

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def batch_size(self, config: GenerationConfig) -> int:
        """As many as there are: the mode is made for all of them."""
        return BATCH_SIZE

    def session(self, features: Tensor, config: GenerationConfig, *, seeds: Sequence[int]) -> DecoderSession:
        """As `Backend.session`."""
        return self.backend.session(features, config, seeds=seeds, mode=self.mode)


def caption_photos(
    subject: Subject, number: int, *, control: str | None = None, own: Sequence[Hypothesis] = (), show: bool = True
) -> list[Hypothesis]:
    """The best captions of the first photos, by the config's attention mode, or by a control from their own captions.

    The other photo of a control is the next one, and the last one's is the first.
    """
    backend, config = subject.backend, subject.config
    decoding = replace(subject.captioner.decoding, config=config)
    alphas = [_maps(hypothesis) for hypothesis in own]
    captions: list[Hypothesis] = []
    title = "captions" if control is None else f"captions by {CONTROLS[control]}"
    with Progress(total=number, desc=title, unit="photo", disable=not show) as bar:
        for start in range(0, number, BATCH_SIZE):
            rows = range(start, min(start + BATCH_SIZE, number))
            modes, mode = [subject.modes[row] for row in rows], None
            if control is not None:
                others = [alphas[(row + 1) % number] for row in rows]
                of_photos = [alphas[row] for row in rows]
                size = {"paths": config.beam_size, "steps": config.max_length}
                mode = mode_for_search(control, of_photos, others, modes, **size)
            features = backend.features(subject.annotations[[subject.examples[row].name for row in rows]])
            candidates = decoding.candidates(ByMode(backend, mode), features, seeds=[each.seed for each in modes])
            captions += [decoding.ranked(of_photo)[0] for of_photo in candidates]
            bar.update(len(rows))
    return captions


def scores_of_controls(
    subject: Subject, own: Sequence[Hypothesis], *, seed: int = 0, show: bool = True
) -> dict[str, Any]:
    """The scores of captions that a model makes with each control at every step, and their differences to its own.

    ``own`` are its captions of the first photos by its own α. The intervals are by the paired bootstrap over photos.
    Metrics that cannot be computed here are left out.
    """
    examples, vocabulary = subject.examples[: len(own)], subject.captioner.checkpoint.vocabulary
    captions = {"own": own}
    for control in SEARCHED:
        captions[control] = caption_photos(subject, len(own), control=control, own=own, show=show)
    tokenizer = vocabulary.tokenizer
    references = {example.name: [tokenizer.text(words) for words in example.captions] for example in examples}
    scores: dict[str, Scores] = {}
    for name, hypotheses in captions.items():
        texts = {e.name: vocabulary.text(found.words) for e, found in zip(examples, hypotheses, strict=True)}
        scores[name] = score(texts, references, tokens=tokenizer.tokens)
    found: dict[str, Any] = {"photos": len(own)}
    for name in captions:
        of_metric = {one.metric: one for one in differences([scores["own"]], [scores[name]], seed=seed)}
        found[name] = {
            metric: {"score": one.system, "difference": one.difference, "low": one.low, "high": one.high}
            for metric, one in of_metric.items()
            if metric in SCORED
        }
    return found


def _maps(hypothesis: Hypothesis) -> Tensor:
    """α (T, L) of a caption; of one without words, even maps."""
    alpha = torch.as_tensor(hypothesis.alpha)
    return alpha if len(alpha) else torch.full((1, alpha.shape[1]), 1 / alpha.shape[1], device=alpha.device)


# ---------------------------------------------------------------- all photos


def summarize(measured: Sequence[Measured], seed: int) -> dict[str, Any]:
    """The figures of all captions, in nats:

    - ``at_word``, by class: −log p by the own α, and what each control costs at the word's own step;
    - ``occlusion``, by way of hiding and class: the mean fall for each choice of hidden locations, on as many captions
      as ``captions_by_way`` says;
    - ``attention``, by class: the entropy of α, and β if the model has a gate, which opens wider for nouns by
      ``beta_noun_minus_function``;
    - ``moved``: the part of α that is elsewhere than at the word before.
    """
    forced = [one.forced for one in measured]
    words = [word for one in forced for word in one.words]
    unknown = Counter(word for word in words if part_of_speech(word) is None)
    costs = {"log_loss": [-one.log_p.double().cpu().numpy() for one in forced]}
    costs |= {name: [one.costs[name] for one in measured] for name in CONTROLS}
    attention = {"entropy": [entropy(one.alpha).cpu().numpy() for one in forced]}
    if gates := [one.beta.cpu().numpy() for one in forced if one.beta is not None]:
        attention["beta"] = gates
    opened = by_class(forced, attention, seed)
    gap = None
    if gates and "noun" in opened and "function" in opened:
        gap = opened["noun"].means["beta"].minus(opened["function"].means["beta"]).interval()
    moves = [np.abs(np.diff(one.alpha.cpu().numpy(), axis=0)).sum(1) / 2 for one in forced]  # total variations (T − 1,)
    photos = np.repeat(np.arange(len(forced)), [len(each) for each in moves])
    return {
        "captions_forced": len(forced),
        "words": len(words),
        "unclassified_share": unknown.total() / len(words),
        "unclassified_words": [word for word, _ in unknown.most_common(10)],
        "locations": measured[0].masks.shape[1],
        "hidden": int(measured[0].masks[0].sum()),
        "at_word": by_class(forced, costs, seed),
        "captions_by_way": {way: sum(way in one.falls for one in measured) for way in WAYS},
        "occlusion": {way: occlusion(measured, way, seed) for way in WAYS},
        "attention": opened,
        "beta_noun_minus_function": gap,
        "moved": Bootstrap(len(forced), seed)(np.concatenate(moves), photos).interval(),
    }


def occlusion(measured: Sequence[Measured], way: str, seed: int) -> dict[str, WordClass]:
    """The falls by class of word for one way of hiding, on the captions for which it was measured, if two or more.

    ``ratio_…`` is how many times as much as another choice the ``most`` attended locations cost.
    """
    hidden = [one for one in measured if way in one.falls]
    if len(hidden) < 2:
        return {}
    columns = {name: [one.falls[way][:, column] for one in hidden] for column, name in enumerate(VARIANTS)}
    return {
        kind: found.with_ratios("most")
        for kind, found in by_class([one.forced for one in hidden], columns, seed).items()
    }


def by_class(forced: Sequence[Forced], columns: Mapping[str, list[NDArray[Any]]], seed: int) -> dict[str, WordClass]:
    """The mean of every column over each class of words that there are; a column has (T,) of each caption."""
    kinds = np.array([part_of_speech(word) or "unclassified" for one in forced for word in one.words])
    photos = np.repeat(np.arange(len(forced)), [len(one.words) for one in forced])
    joined = {name: np.concatenate(parts).astype(np.float64) for name, parts in columns.items()}  # of all words
    classes = {kind: (kinds == kind) | (kind == "all") for kind in CLASSES}
    return Bootstrap(len(forced), seed).by_class(joined, photos, classes)


def tables_of(found: Mapping[str, Any]) -> list[str]:
    """The figures as lines for a terminal."""
    words = f"{found['words']:,} words, {100 * found['unclassified_share']:.1f} % of them in no class"
    lines = [", ".join([words, *found["unclassified_words"]])]
    rows = {"-log p by its own alpha": "log_loss", **{title: name for name, title in CONTROLS.items()}}
    title = "What replacing alpha costs a word, at its own step, everything before it unchanged"
    lines += table_by_class(title, found["at_word"], rows)
    if (made := found["captions_made"]) is not None:
        heads = [SCORED[metric] for metric in made["own"]]
        scored = {
            {"own": "its own alpha", **CONTROLS}[name]: [
                "{score:.1f}  {difference:+.1f} [{low:+.1f}, {high:+.1f}]".format(**one) for one in of.values()
            ]
            for name, of in made.items()
            if name != "photos"
        }
        lines += table(f"Scores of the captions that it then makes of {made['photos']} photos", heads, scored)
    rows = {title: name for name, title in VARIANTS.items()}
    rows |= {f"own / {VARIANTS[name]}": f"ratio_{name}" for name in COMPARED}
    for way, classes in found["occlusion"].items():
        of = f"{found['hidden']} of {found['locations']} locations costs a word: {WAYS[way]}"
        lines += table_by_class(f"What hiding {of} ({found['captions_by_way'][way]} photos)", classes, rows)
    title = f"The maps (uniform attention has an entropy of {np.log(found['locations']):.2f} nats)"
    lines += table_by_class(title, found["attention"], {name: name for name in found["attention"]["all"].means})
    more = {
        "beta of nouns minus that of function words": [found["beta_noun_minus_function"]],
        "part of alpha that moves from word to word": [found["moved"]],
    }
    return lines + table("From step to step", ["all"], more)


def table_by_class(title: str, classes: Mapping[str, WordClass], rows: Mapping[str, str]) -> list[str]:
    """A table with a row for each figure, whose name is given by its title, and a column for each class of words."""
    there = {kind: classes[kind] for kind in SHOWN if kind in classes}
    figures = {kind: found.figures if found.photos > 1 else {} for kind, found in there.items()}
    heads = [f"{kind} ({found.words:,})" for kind, found in there.items()]
    cells = {row: [of.get(name) for of in figures.values()] for row, name in rows.items()}
    return table(title, heads, cells) if there else []


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Measure a model, and print the report."""
    parser = arguments(__doc__, split="val", photos=200)
    parser.add_argument("model", help="a model with attention")
    parser.add_argument("--captions", choices=get_args(Captions), default="own", help="whose words are measured")
    parser.add_argument("--captioned", type=int, help="photos captioned with each replacement; default: all")
    parser.add_argument("--encoded", type=int, default=0, help="photos in which locations are hidden in the pixels too")
    add_generation(parser, "beam_size", "length_penalty", "rerank_weight")
    options = parser.parse_args(given)
    captioner = Captioner.from_pretrained(options.model, backend="torch", device=options.device)
    named = ("split", "cache", "photos", "captions", "captioned", "encoded", "seed")
    settings = {name: getattr(options, name) for name in named} | generation(options)
    ablation(captioner, read_dataset(options.data), **settings).finish(options.json)


if __name__ == "__main__":
    main()
