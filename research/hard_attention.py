"""Hard attention examined, by three questions:

- How likely are captions when locations are sampled?
- How far is one pass with the expected context from the expectation over locations (NWGM)?
- How noisy is the gradient that trains a hard model?

    python research/hard_attention.py flickr8k/ flickr8k-soft flickr8k-hard --json examined.json
    python research/hard_attention.py flickr8k/ flickr8k-hard --photos 1000 --samples 1000 --draws 0

B batch · P paths of one caption · C caption length with the end token · L locations · K vocabulary · N sampled
sequences.

All figures are in nats, with teacher forcing: each step gets the caption's own words before it. The decoder is in
evaluation mode, so only locations are random. Soft models can be examined too. They then read one sampled location a
word, which they were not trained for.
"""

import json
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from measure import arguments
from stages import reporting
from torch import Tensor

from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Dataset, Example, read_dataset
from show_attend_tell.errors import SatError
from show_attend_tell.files import write_text
from show_attend_tell.generation import photo_seed
from show_attend_tell.model.attention import Attended, SampleAttention, attend_at
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.interface import (
    DecoderOutput,
    at_step,
    previous_words,
    teacher_forcing,
    word_log_probabilities,
)
from show_attend_tell.model.precision import promote
from show_attend_tell.progress import Progress
from show_attend_tell.training.data import batches
from show_attend_tell.training.objectives.hard import Baseline, Coin, HardObjective, MovingBaseline
from show_attend_tell.training.objectives.losses import Draws, Loss, entropy
from show_attend_tell.vision.sources import Annotations, cached

SIZES = (1, 5, 50, 500, 5000)  # n of the log-mean-exp; a size is used if the samples make two groups of it
PATHS = 128  # paths computed at once: more take memory and are not faster on a CPU
BATCHES, BATCH_SIZE = 4, 16  # batches, and captions of each, that the gradient is computed on
WARM_UP = 10  # first draws, which only start the moving baselines


class Likelihood(NamedTuple):
    """One caption's log p by some estimate, and the estimate's variance over random locations."""

    value: float
    variance: float = 0.0


# ---------------------------------------------------------------- log p(y|a), by sampled locations


@torch.inference_mode()
def sampled_log_probabilities(
    decoder: AttentionDecoder, annotations: Tensor, captions: Tensor, uniforms: Tensor
) -> tuple[Tensor, Tensor]:
    """log p(y|s, a) (B, N) and Σ_t H[α_t] (B, N) of captions (B, C) along N sequences of locations.

    s_t is drawn from α_t, given the true words and the locations before it, by ``uniforms`` (B, N, C) from [0, 1). So
    the proposal q(s) is the model's own p(s|a), and the importance weight p(y, s|a) / q(s) is p(y|s, a).
    """
    found: list[tuple[Tensor, Tensor]] = []
    for start in range(0, uniforms.shape[1], PATHS):
        part = uniforms[:, start : start + PATHS]
        output = teacher_forcing(decoder, annotations, captions, paths=part.shape[1], mode=SampleAttention(part))
        assert output.alpha is not None  # an attention decoder's
        found.append((word_log_probabilities(output.logits, captions).sum(-1), entropy(output.alpha).sum(-1)))
    log_p, uncertainty = zip(*found, strict=True)
    return torch.cat(log_p, dim=1), torch.cat(uncertainty, dim=1)


def log_mean_exp(log_weights: Tensor, size: int) -> Tensor:
    """log (1/n) Σ p(y|s, a) over each group of ``size`` n sequences (B, N // n), from their log p (B, N).

    Its expectation at n = 1 is L_s of eq. 5. It grows with n, stays below log p(y|a) and tends to it (Burda et al.
    2016).
    """
    groups = log_weights.shape[1] // size
    return log_weights[:, : groups * size].reshape(-1, groups, size).logsumexp(-1) - math.log(size)


@torch.inference_mode()
def particle_filter(
    decoder: AttentionDecoder, annotations: Tensor, captions: Tensor, uniforms: Tensor, redraws: Tensor
) -> Tensor:
    """The log of an unbiased estimate of p(y|a) (B,) of captions (B, C), by N paths that are redrawn after each word.

    A path is redrawn in proportion to p(y_t | its locations): paths that made the word likely go on more than once, and
    others end. The estimate is Σ_t log (1/N) Σ_n p(y_t | s^n). Its expectation is below log p(y|a), and mostly far
    closer to it than that of N separate sequences. ``uniforms`` (B, N, C) draw the locations. ``redraws`` (B, C) draw
    the paths: one number a word, and N evenly spaced positions from it.
    """
    paths = uniforms.shape[1]
    embedded = decoder.embed(previous_words(decoder, captions))  # (B, C, ·)
    state, mode = decoder.start(annotations, paths=paths), SampleAttention(uniforms)
    total = torch.zeros(len(captions), device=annotations.device)
    evenly = torch.arange(paths, device=annotations.device)
    for time in range(captions.shape[1]):
        step = decoder.step(at_step(embedded, time, paths), state, mode)
        logits = decoder.read_out(step.output)[:, :, None]  # (B, N, 1, K)
        log_p = word_log_probabilities(logits, captions[:, time : time + 1]).squeeze(-1)  # (B, N)
        total += log_p.logsumexp(1) - math.log(paths)
        positions = (redraws[:, time : time + 1] + evenly) / paths
        parents = torch.searchsorted(torch.softmax(log_p, dim=1).cumsum(1), positions).clamp_max(paths - 1)
        state = step.state.select(parents)
    return total


@torch.inference_mode()
def likelihoods(
    decoder: AttentionDecoder, annotations: Tensor, caption: Tensor, *, samples: int, generator: torch.Generator
) -> tuple[dict[str, Likelihood], float]:
    """One caption's log p by each estimate, and the mean Σ_t H[α_t] of sampled sequences.

    annotations (1, L, D), caption (1, C). The estimates are:

    - "expectation": the path of expected contexts;
    - "sampled_n": the log-mean-exp of n sequences, its mean over groups of ``samples`` sequences in all;
    - "particles_n": the particle filter with the largest such n, the mean of two runs.
    """
    steps = caption.shape[1]

    def uniforms(*shape: int) -> Tensor:
        return torch.rand(1, *shape, generator=generator).to(annotations.device)

    expected = word_log_probabilities(teacher_forcing(decoder, annotations, caption).logits, caption).sum()
    found = {"mean": Likelihood(float(expected))}
    log_weights, uncertainty = sampled_log_probabilities(decoder, annotations, caption, uniforms(samples, steps))
    for size in sizes(samples):
        found[f"sampled_{size}"] = mean_of(log_mean_exp(log_weights.double(), size)[0])
    paths = sizes(samples)[-1]
    twice = [particle_filter(decoder, annotations, caption, uniforms(paths, steps), uniforms(steps)) for _ in range(2)]
    found[f"particles_{paths}"] = mean_of(torch.cat(twice).double())
    return found, float(uncertainty.mean())


def sizes(samples: int) -> list[int]:
    """The group sizes of which that many sampled sequences make at least two groups."""
    return [size for size in SIZES if 2 * size <= samples]


def mean_of(values: Tensor) -> Likelihood:
    """The mean of two or more independent values, and the variance of that mean."""
    return Likelihood(float(values.mean()), float(values.var()) / len(values))


# ---------------------------------------------------------------- NWGM


class Everywhere:
    """Path i reads location i."""

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        batch, locations, _ = annotations.shape
        return attend_at(torch.arange(locations, device=annotations.device).expand(batch, locations), annotations)


@torch.inference_mode()
def nwgm_gap(decoder: AttentionDecoder, annotations: Tensor, captions: Tensor) -> dict[str, Tensor]:
    """How far one pass with the expected context is from the expectation over all L locations (sec. 4.2).

    n(s) are the logits of a step that reads location s. At each step of captions (B, C), from the state that the path
    of expected contexts has reached, every location is read: this gives E_s[softmax(n(s))] exactly. Two
    approximations are compared with it:

    - ``one_pass``: softmax(n(E[ẑ])), which a soft model computes, and a hard model with the attention mode "mean";
    - ``nwgm``: softmax(E_s[n(s)]), the normalized weighted geometric mean, which the one pass stands for.

    The entries are (B, C), in nats. For each approximation:

    - ``…_kl``: KL(E_s[softmax(n(s))] ‖ approximation);
    - ``…_word``: the approximation's log p of the true word, less the exact one;
    - ``…_word_absolute``: the absolute value of that.

    ``information`` is the mutual information of location and word, H[E_s softmax(n(s))] − E_s H[softmax(n(s))]. Where
    it is zero, the word does not depend on the location, and all approximations are exact.
    """
    batch, locations, _ = annotations.shape
    embedded = decoder.embed(previous_words(decoder, captions))  # (B, C, ·)
    state, everywhere = decoder.start(annotations), Everywhere()
    same = torch.zeros(batch, locations, dtype=torch.long, device=annotations.device)
    steps: list[dict[str, Tensor]] = []
    for time in range(captions.shape[1]):
        expected = decoder.step(at_step(embedded, time, 1), state)
        at_each = decoder.step(at_step(embedded, time, locations), state.select(same), everywhere)
        assert expected.alpha is not None
        alpha = expected.alpha.mT  # (B, L, 1)
        logits = promote(decoder.read_out(at_each.output))  # (B, L, K)
        by_location = logits.log_softmax(-1)
        exact = (alpha.log() + by_location).logsumexp(1)  # (B, K)
        information = (alpha * by_location.exp() * (by_location - exact[:, None])).sum((1, 2))
        found = {"information": information}
        for name, approximation in (
            ("one_pass", promote(decoder.read_out(expected.output)[:, 0]).log_softmax(-1)),
            ("nwgm", (alpha * logits).sum(1).log_softmax(-1)),
        ):
            excess = exact - approximation
            found[f"{name}_kl"] = (exact.exp() * excess).sum(-1)
            found[f"{name}_word"] = -excess.gather(-1, captions[:, time : time + 1]).squeeze(-1)
            found[f"{name}_word_absolute"] = found[f"{name}_word"].abs()
        steps.append(found)
        state = expected.state
    return {name: torch.stack([found[name] for found in steps], dim=1) for name in steps[0]}


# ---------------------------------------------------------------- the gradient's variance


def never(batch: int, samples: int, generator: torch.Generator) -> Tensor:
    """No coin: every path samples its locations."""
    return torch.zeros(batch, samples, dtype=torch.bool)


def no_baseline(rewards: Tensor, sampled: Tensor) -> Tensor:
    """b = 0."""
    return torch.zeros_like(rewards)


@dataclass(kw_only=True)
class Estimator(HardObjective):
    """The hard objective with choices that training does not offer.

    ``coin`` "none": every path samples its locations. ``baseline`` "none": b = 0; "length": a moving baseline for each
    caption length.
    """

    coin: Literal["image", "batch", "both", "none"] = "none"  # type: ignore[assignment]
    baseline: Literal["moving", "leave_one_out", "expected", "none", "length"] = "moving"  # type: ignore[assignment]

    coins: ClassVar[Mapping[str, Coin]] = {**HardObjective.coins, "none": never}
    baselines: ClassVar[Mapping[str, Callable[[], Baseline]]] = {
        **HardObjective.baselines,
        "none": lambda: no_baseline,
        "length": MovingBaseline,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self.by_length: dict[int, MovingBaseline] = defaultdict(MovingBaseline)

    def __call__(self, output: DecoderOutput, captions: Tensor, draws: Draws, **options: Any) -> Loss:
        if self.baseline == "length":
            self.baseline_of = self.by_length[captions.shape[1]]
        return super().__call__(output, captions, draws, **options)


def estimators() -> dict[str, Estimator]:
    """The gradient estimators compared, all at λ_r = 1: N, the baseline, λ_e, the reward and the coin vary."""
    return {
        "no baseline": Estimator(baseline="none"),
        "moving baseline": Estimator(),
        "baseline per length": Estimator(baseline="length"),
        "two samples, no baseline": Estimator(samples=2, baseline="none"),
        "two samples, leave one out": Estimator(samples=2, baseline="leave_one_out"),
        "reward to go, no baseline": Estimator(reward="to_go", baseline="none"),
        "reward to go, moving baseline": Estimator(reward="to_go"),
        "moving baseline, entropy 0.1": Estimator(entropy_weight=0.1),
        "coin per photo, no baseline": Estimator(coin="image", baseline="none"),
        "coin per photo, moving baseline (the paper)": Estimator(coin="image"),
        "coin per batch, moving baseline (its program)": Estimator(coin="batch"),
        "both paths, moving baseline": Estimator(coin="both"),
        "both paths, expected path as baseline": Estimator(coin="both", baseline="expected"),
        "the same, reward to go (the preset)": Estimator(coin="both", baseline="expected", reward="to_go"),
    }


def gradient_noise(
    decoder: AttentionDecoder,
    examples: Sequence[tuple[Tensor, Tensor]],
    objective: HardObjective,
    *,
    draws: int,
    seed: int = 0,
) -> dict[str, Any]:
    """The variance of an objective's gradient by the attention's weights, on fixed batches, over ``draws`` draws.

    ``examples`` are batches of annotations (B, L, D) and captions (B, C). They are taken in turn, so a moving baseline
    moves as in training. The result has:

    - ``variance``: the trace of the gradient's covariance within a batch, averaged over the batches;
    - ``squared_mean``: the squared norm of the mean gradient, without what the noise adds to it;
    - ``noise``: variance / squared_mean; None where the mean cannot be told from noise;
    - ``paths``: the cost of a draw, in runs of the decoder over a caption.
    """
    weights = list(decoder.attention.parameters())
    generator = torch.Generator().manual_seed(seed)
    total = [torch.zeros((), dtype=torch.float64)] * len(examples)
    squares = [0.0] * len(examples)
    for draw in range(WARM_UP + draws):
        for index, (annotations, captions) in enumerate(examples):
            batch, steps = captions.shape
            drawn = objective.draw(batch, steps, generator)
            output = teacher_forcing(decoder, annotations, captions, paths=objective.paths, mode=drawn.mode)
            gradients = torch.autograd.grad(objective(output, captions, drawn).total, weights)
            gradient = torch.cat([part.flatten() for part in gradients]).cpu().double()
            if draw >= WARM_UP:
                total[index] = total[index] + gradient
                squares[index] += float(gradient.square().sum())
    variance = squared_mean = 0.0
    for gradient, square in zip(total, squares, strict=True):
        norm = float((gradient / draws).square().sum())
        trace = (square - draws * norm) / (draws - 1)
        variance += trace / len(examples)
        squared_mean += (norm - trace / draws) / len(examples)
    return {
        "variance": variance,
        "squared_mean": squared_mean,
        "noise": variance / squared_mean if squared_mean > 0 else None,
        "paths": objective.paths,
    }


def gradient_batches(
    captioner: Captioner, examples: Sequence[Example], annotations: Annotations, seed: int
) -> list[tuple[Tensor, Tensor]]:
    """Four batches of up to 16 of the examples' captions, each of one length, the largest batches first.

    Batches of training are larger, so their gradients have less noise; the ratios of the estimators are the same.
    """
    encode, device = captioner.checkpoint.vocabulary.encode, captioner.torch_backend().torch_device
    captions = [(example.name, encode(words)) for example in examples for words in example.captions]
    chosen = sorted(batches(captions, BATCH_SIZE, seed), key=len, reverse=True)[:BATCHES]
    return [
        (
            annotations[[captions[index][0] for index in batch]].to(device),
            torch.tensor([captions[index][1] for index in batch], device=device),
        )
        for batch in chosen
    ]


def gradient_table(
    decoder: AttentionDecoder,
    examples: Sequence[tuple[Tensor, Tensor]],
    objectives: Mapping[str, HardObjective],
    *,
    draws: int,
    seed: int = 0,
    show: bool = True,
) -> dict[str, dict[str, Any]]:
    """`gradient_noise` of each objective, and ``relative``: its variance divided by that of the first."""
    table: dict[str, dict[str, Any]] = {}
    for name, objective in Progress(objectives.items(), desc="gradients", unit="estimator", disable=not show):
        table[name] = gradient_noise(decoder, examples, objective, draws=draws, seed=seed)
    plain = next(iter(table.values()))["variance"]
    return {name: {**row, "relative": row["variance"] / plain} for name, row in table.items()}


# ---------------------------------------------------------------- one model, and several


def examine(
    captioner: Captioner,
    dataset: Dataset,
    split: str,
    *,
    cache: Path,
    photos: int = 200,
    samples: int = 100,
    draws: int = 50,
    seed: int = 0,
    show: bool = True,
) -> dict[str, Any]:
    """Examine a model on the first captions of that many photos of a split.

    ``seed`` draws the photos; a smaller split is used whole. ``samples`` sequences of locations are drawn for each
    caption, and ``draws`` gradients for each estimator (0: no gradients). The result is in nats a word, and counts end
    tokens as words. It has:

    - ``log_loss``: −log p by each estimate of `likelihoods`, as `per_word` gives it, with ``draw_error``, the standard
      error over draws alone. ``own`` names the model's own estimate: for a soft model the expectation, which is exact;
      for a hard model the particle filter, which in expectation is an upper bound of −log p(y|a);
    - ``entropy``: the mean H[α_t] along sampled sequences;
    - ``nwgm``: the means of `nwgm_gap` over words, as `per_word` gives them;
    - ``gradient``: `gradient_table` on a few batches of the same photos' captions, or None;
    - ``captions``: the figures of each caption.

    Raises `SatError` for a model without attention, for an ensemble, for a split that is not there, and for fewer than
    two photos, samples or draws.
    """
    captioner.check_attention()
    decoder = captioner.torch_backend().decoder
    if not isinstance(decoder, AttentionDecoder):
        raise SatError(f"{captioner.name} is an ensemble: examine each of its models by itself")
    if min(photos, samples) < 2 or draws < 0 or draws == 1:
        raise SatError(f"{photos} photos, {samples} samples and {draws} draws: give 2 or more of each, or no draws (0)")
    examples = list(dataset.retokenize(captioner.checkpoint.vocabulary.tokenizer).split(split))
    if len(examples) < 2:
        raise SatError(f"the split {split!r} has one photo: give a split with 2 photos or more")
    if len(examples) > photos:
        examples = [examples[index] for index in sorted(random.Random(seed).sample(range(len(examples)), photos))]
    backend, encode_words = captioner.torch_backend(), captioner.checkpoint.vocabulary.encode
    annotations = cached(dataset, backend.encoder, cache, splits=(split,), encode=backend.encode, show=show)

    captions: list[dict[str, Any]] = []
    variances: dict[str, float] = defaultdict(float)
    for example in Progress(examples, desc=captioner.name, unit="caption", disable=not show):
        photo = annotations[[example.name]].to(backend.torch_device)
        ids = torch.tensor([encode_words(example.captions[0])], device=backend.torch_device)
        generator = torch.Generator().manual_seed(photo_seed(seed, example.name.encode()))
        found, uncertainty = likelihoods(decoder, photo, ids, samples=samples, generator=generator)
        gap = {name: float(values.sum()) for name, values in nwgm_gap(decoder, photo, ids).items()}
        log_p = {name: estimate.value for name, estimate in found.items()}
        captions.append(
            {"photo": example.name, "words": ids.shape[1], "log_p": log_p, "entropy": uncertainty, "nwgm": gap}
        )
        for name, estimate in found.items():
            variances[name] += estimate.variance
    lengths = [caption["words"] for caption in captions]
    table = None
    if draws:
        chosen = gradient_batches(captioner, examples, annotations, seed)
        table = gradient_table(decoder, chosen, estimators(), draws=draws, seed=seed, show=show)
    return {
        "model": captioner.name,
        "attention": decoder.config.attention,
        "data": dataset.name,
        "split": split,
        "photos": len(examples),
        "samples": samples,
        "draws": draws,
        "seed": seed,
        "own": "mean" if decoder.config.attention == "soft" else f"particles_{sizes(samples)[-1]}",
        "log_loss": {
            name: {
                **per_word([-caption["log_p"][name] for caption in captions], lengths),
                "draw_error": math.sqrt(variance) / sum(lengths),
            }
            for name, variance in variances.items()
        },
        "entropy": sum(caption["entropy"] for caption in captions) / sum(lengths),
        "nwgm": {
            name: per_word([caption["nwgm"][name] for caption in captions], lengths) for name in captions[0]["nwgm"]
        },
        "gradient": table,
        "captions": captions,
    }


def per_word(values: Sequence[float], words: Sequence[int]) -> dict[str, float]:
    """``mean``, Σ values / Σ words over two or more captions, and the ``standard_error`` of this ratio."""
    mean = sum(values) / sum(words)
    squares = sum((value - mean * length) ** 2 for value, length in zip(values, words, strict=True))
    return {"mean": mean, "standard_error": math.sqrt(squares * len(values) / (len(values) - 1)) / sum(words)}


def difference(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, float]:
    """−log p a word of ``other`` minus that of ``first``, each by its own estimate, paired by caption; see `per_word`.

    Both are results of `examine` on the same captions.
    """
    values = [
        mine["log_p"][first["own"]] - theirs["log_p"][other["own"]]
        for mine, theirs in zip(first["captions"], other["captions"], strict=True)
    ]
    return per_word(values, [caption["words"] for caption in first["captions"]])


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """What `examine` found, in lines for a terminal."""

    def figure(row: Mapping[str, float], digits: int) -> str:
        return f"{row['mean']:.{digits}f} ± {row['standard_error']:.{digits}f}"

    yield (
        f"{found['model']} ({found['attention']}) on {found['data']} {found['split']}, first captions of "
        f"{found['photos']:,} photos, nats a word"
    )
    for name, row in found["log_loss"].items():
        own = "  <- the model's own" if name == found["own"] else ""
        yield f"  -log p by {name:<16} {figure(row, 3)} (locations alone ± {row['draw_error']:.4f}){own}"
    yield f"  entropy of alpha  {found['entropy']:.2f}"
    for name, row in found["nwgm"].items():
        yield f"  {name:<24} {figure(row, 4)}"
    for name, row in (found["gradient"] or {}).items():
        noise = "lost in noise" if row["noise"] is None else f"{row['noise']:.3g} of its squared mean"
        yield f"  {name:<46} {row['paths']} paths, variance {row['relative']:.3f} of the first, {noise}"


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Examine models, print what was found, and write it."""
    parser = arguments(__doc__, split="val", photos=200)
    parser.add_argument("models", nargs="+", help="models; the others are compared with the first")
    parser.add_argument("--samples", type=int, default=100, help="number of sampled sequences of each caption")
    parser.add_argument("--draws", type=int, default=50, help="draws of each gradient estimator; 0 for none")
    options = parser.parse_args(given)
    settings = {name: getattr(options, name) for name in ("photos", "samples", "draws", "seed")}
    dataset = read_dataset(options.data)
    captioners = [Captioner.from_pretrained(model, device=options.device, backend="torch") for model in options.models]
    if any(each.checkpoint.vocabulary != captioners[0].checkpoint.vocabulary for each in captioners):
        raise SatError("nats a word of different vocabularies cannot be compared: examine each model by itself")
    found = [examine(captioner, dataset, options.split, cache=options.cache, **settings) for captioner in captioners]
    for each in found:
        print("\n".join(lines(each)))
    differences = {each["model"]: difference(found[0], each) for each in found[1:]}
    for model, less in differences.items():
        print(f"{model} minus {found[0]['model']}: {less['mean']:+.3f} ± {less['standard_error']:.3f} nats a word")
    if options.json:
        text = json.dumps({"models": found, "differences": differences}, ensure_ascii=False, indent=1) + "\n"
        write_text(options.json, text)


if __name__ == "__main__":
    main()
