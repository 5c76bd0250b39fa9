"""What val chooses, by a score of the captions that the model makes: the best epoch, and how it decodes."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from show_attend_tell.backends.torch import TorchBackend
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.generation import search_candidates
from show_attend_tell.metrics.cider import cider
from show_attend_tell.metrics.scores import bleu
from show_attend_tell.model.config import Config
from show_attend_tell.model.interface import Decoder, teacher_forcing, word_log_probabilities
from show_attend_tell.progress import Progress
from show_attend_tell.rerank import Reranker, doubt
from show_attend_tell.rerank.fit import evenly
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.hypotheses import Hypothesis, rank
from show_attend_tell.settings import AttentionModeName
from show_attend_tell.training import ranks
from show_attend_tell.training.data import TrainingData, batches

# Decodings that are tried on val after training, each value with each. The best ones are the checkpoint's defaults.
BEAMS = (1, 3, 5, 10, 20)
WIDE = (40, 100)  # with a reranker only, which gains from more captions to choose from
LENGTH_PENALTIES = (0.0, 0.25, 0.5, 0.75)
FORCED_BATCH_SIZE = 32  # captions of val whose words' probabilities are computed at once
RERANK_WEIGHTS = (0.0, 8.0, 16.0, 32.0, 64.0, 96.0, 128.0)  # with a reranker
RARE_WORD_EXPONENT = (
    0.75  # with a reranker: about the least with which the captions of 1,000 photos have 300 different words
)

TRAINED, KNOWN = 10_000, 500  # photos of train and of val that the scale of doubt is made of, at most

Metric = Literal["bleu_4", "cider"]
BATCH_SIZE = 64  # photos whose annotations are in memory at once
TITLES: dict[Metric, str] = {"bleu_4": "BLEU-4", "cider": "CIDEr"}


def default_attention_mode(decoder: Config) -> AttentionModeName:
    """How a model reads its attention on val and, unless told otherwise, later: a hard model by its likeliest place.

    Read by expectation, a hard model with diffuse α would score as well as one with decided α.
    """
    return "argmax" if decoder.attention == "hard" else "mean"


@torch.no_grad()
def validation_captions(
    decoder: Decoder,
    data: TrainingData,
    *,
    beam_size: int,
    max_length: int,
    rankings: Sequence[tuple[float, float]] = ((0.0, 0.0),),
    reranker: Reranker | None = None,
    show: bool = False,
) -> list[list[list[str]]]:
    """A decoder's own captions of the validation photos, as words, for each of the ``rankings``.

    Several ranks share the photos, and then each has all captions. One search serves all rankings, γ and ω of
    `search.ranked`. The decoder looks by its `default_attention_mode`, and its
    captions have no word twice in a row, and no three words in a row twice.
    """
    found: list[list[list[str]]] = [[] for _ in rankings]
    names = ranks.mine([name for name, _ in data.validation])
    generation = GenerationConfig(
        beam_size=beam_size,
        attention_mode=default_attention_mode(decoder.config),
        max_length=max_length,
        rare_word_exponent=RARE_WORD_EXPONENT,
    )
    for _, searched in searches(decoder, data, names, generation, reranker=reranker, show=show):
        for hypotheses in searched:
            for captions, ranking in zip(found, rankings, strict=True):
                captions.append(data.vocabulary.decode(rank(hypotheses, *ranking)[0].words))
    return [list(chain.from_iterable(parts)) for parts in zip(*ranks.gathered(found), strict=True)]


@torch.no_grad()
def searches(
    decoder: Decoder,
    data: TrainingData,
    names: Sequence[str],
    generation: GenerationConfig,
    *,
    reranker: Reranker | None = None,
    show: bool = False,
) -> Iterator[tuple[Tensor, list[list[Hypothesis]]]]:
    """The annotations (B, L, D) of photos and what the search found of each, as many photos at a time as is fastest.

    The hypotheses are not yet in the order of the decoding's γ and ω.
    """
    backend = TorchBackend(decoder)
    what = f"val, beam size {generation.beam_size}"
    with Progress(total=len(names), desc=what, unit="photo", disable=not show, leave=False) as bar:
        for start in range(0, len(names), BATCH_SIZE):
            annotations = backend.features(data.views[0][names[start : start + BATCH_SIZE]])
            seeds = [0] * len(annotations)
            yield annotations, search_candidates(backend, annotations, generation, seeds=seeds, reranker=reranker)
            bar.update(len(annotations))


def validation_scores(
    decoder: Decoder, data: TrainingData, *, only: Metric | None = None, **how: Any
) -> list[dict[str, float]]:
    """The scores (`scores_of`) of `validation_captions`, for each ranking; ``how`` are that function's arguments.

    Rankings that choose the same captions are scored once.
    """
    known: dict[tuple[tuple[str, ...], ...], dict[str, float]] = {}
    found = []
    for captions in validation_captions(decoder, data, **how):
        key = tuple(map(tuple, captions))
        if key not in known:
            known[key] = scores_of(captions, data, only=only)
        found.append(known[key])
    return found


def scores_of(captions: Sequence[Sequence[str]], data: TrainingData, *, only: Metric | None = None) -> dict[str, float]:
    """``bleu_1`` to ``bleu_4`` with brevity penalty and ``cider``, ×100, of captions of the validation photos.

    ``only`` is the metric that is needed, where that is one: the other's scores are not computed. They count what the
    tokenizer's `units` are: words, or characters in scripts without spaces. Where data sets were joined, each score is
    the mean of their scores.
    """
    units = data.vocabulary.tokenizer.units
    captions = [units(words) for words in captions]
    references = [[units(words) for words in said] for _, said in data.validation]
    parts = data.parts or [slice(None)]
    totals: dict[str, float] = {}
    for part in parts:
        scores: dict[str, float] = {}
        if only != "cider":
            scores |= {f"bleu_{n}": value for n, value in enumerate(bleu(captions[part], references[part]), 1)}
        if only != "bleu_4":
            scores["cider"] = cider(captions[part], references[part])
        for name, score in scores.items():
            totals[name] = totals.get(name, 0.0) + score / len(parts)
    return totals


@torch.no_grad()
def nats_a_word(decoder: Decoder, data: TrainingData) -> float:
    """The mean −log p of the words of the validation captions, the end token included, each given the true words
    before it.

    Words that are not in the vocabulary are not counted. Even a hard decoder looks by expectation here.
    """
    device = next(decoder.parameters()).device
    captions = [(name, data.vocabulary.encode(words)) for name, said in data.validation for words in said]
    total, words = 0.0, 0
    for indices in ranks.mine(batches(captions, FORCED_BATCH_SIZE, seed=0)):
        annotations = data.views[0][[captions[index][0] for index in indices]].to(device)
        told = torch.tensor([captions[index][1] for index in indices], device=device)
        log_p = word_log_probabilities(teacher_forcing(decoder, annotations, told).logits, told)[:, 0]
        known = told != Vocabulary.UNKNOWN
        total -= float(log_p[known].double().sum())
        words += int(known.sum())
    parts = ranks.gathered((total, words))
    return sum(part for part, _ in parts) / sum(number for _, number in parts)


class Chosen(NamedTuple):
    """The decodings that val chose, and what they reached."""

    generation: GenerationConfig  # the best of all
    scores: dict[str, float]  # each beam's best val score
    alone: GenerationConfig  # the best without a reranker, of `BEAMS`
    alone_score: float  # its val score


def choose_generation(
    decoder: Decoder,
    data: TrainingData,
    max_length: int,
    *,
    metric: Metric = "bleu_4",
    reranker: Reranker | None = None,
    usual: int = 1,
    log: Callable[[str], None],
    show: bool = False,
) -> Chosen:
    """The beam, length normalization γ and reranker weight ω that have the best val score.

    ``metric`` is this score: BLEU-4 (with penalty) or CIDEr, ×100. ω other than 0 is tried where there is a
    reranker and several captions to rank. The look is the decoder's `default_attention_mode`. Where all of them score alike, for
    example 0, val cannot tell them apart: then the beam is the ``usual`` one, and γ and ω are 0.
    """
    chosen = alone = GenerationConfig(attention_mode=default_attention_mode(decoder.config), max_length=max_length)
    best = best_alone = -1.0
    scores = {}
    different: set[float] = set()
    title = f"val {TITLES[metric]} by length normalization"
    log(f"{title:<37}" + "  ".join(f"{gamma:5g}" for gamma in LENGTH_PENALTIES))
    for beam_size in BEAMS if reranker is None else (*BEAMS, *WIDE):
        weights = (0.0,) if reranker is None or beam_size == 1 else RERANK_WEIGHTS
        rankings = [(gamma, weight) for weight in weights for gamma in LENGTH_PENALTIES]
        found = validation_scores(
            decoder,
            data,
            only=metric,
            beam_size=beam_size,
            max_length=max_length,
            rankings=rankings,
            reranker=reranker,
            show=show,
        )
        by_ranking = {ranking: each[metric] for ranking, each in zip(rankings, found, strict=True)}
        different |= {round(score, 2) for score in by_ranking.values()}  # as they are shown
        for weight in weights:
            by_gamma = {gamma: by_ranking[gamma, weight] for gamma in LENGTH_PENALTIES}
            told = f"{beam_size}, reranker weight {weight:g}" if weight else f"{beam_size}"
            log(f"  beam {told:<29}" + "  ".join(f"{score:5.2f}" for score in by_gamma.values()))
        gamma, weight = max(by_ranking, key=lambda ranking: by_ranking[ranking])
        score = by_ranking[gamma, weight]
        scores[f"beam {beam_size}, γ {gamma:g}" + (f", ω {weight:g}" if weight else "")] = round(score, 2)
        if score > best:
            rare_word_exponent = RARE_WORD_EXPONENT if weight else 0.0
            chosen = dataclasses.replace(
                chosen,
                beam_size=beam_size,
                length_penalty=gamma,
                rerank_weight=weight,
                rare_word_exponent=rare_word_exponent,
            )
            best = score
        gamma = max(LENGTH_PENALTIES, key=lambda gamma: by_ranking[gamma, 0.0])
        if beam_size in BEAMS and by_ranking[gamma, 0.0] > best_alone:
            alone = dataclasses.replace(alone, beam_size=beam_size, length_penalty=gamma)
            best_alone = by_ranking[gamma, 0.0]
    if len(different) == 1:
        log(f"val cannot tell these decodings apart, so the usual one stays: beam {usual}")
        chosen = alone = dataclasses.replace(alone, beam_size=usual, length_penalty=0.0)
    return Chosen(chosen, scores, alone, round(best_alone, 2))


@torch.no_grad()
def fit_doubt(
    decoder: Decoder,
    data: TrainingData,
    generation: GenerationConfig,
    *,
    reranker: Reranker | None = None,
    show: bool = False,
) -> dict[str, NDArray[Any]] | None:
    """The scale of doubt of a model that generates so, by its training photos and at most `KNOWN` photos of val.

    None where val has too few photos.
    """
    if len(data.validation) < doubt.LEAST:
        return None
    backend = TorchBackend(decoder)
    train = evenly(sorted({name for name, _ in data.captions}), TRAINED)
    means = []
    with Progress(total=len(train), desc="scale of doubt", unit="photo", disable=not show, leave=False) as bar:
        for start in range(0, len(train), BATCH_SIZE):
            batch = train[start : start + BATCH_SIZE]
            means.append(backend.mean_annotations(data.views[0][batch]))
            bar.update(len(batch))
    known, likelihoods = [], []
    names = evenly([name for name, _ in data.validation], KNOWN)
    ranking = (generation.length_penalty, generation.rerank_weight)
    for annotations, found in searches(decoder, data, names, generation, reranker=reranker, show=show):
        known.append(backend.mean_annotations(annotations))
        likelihoods.append(doubt.likelihood([rank(hypotheses, *ranking)[0] for hypotheses in found]))
    return doubt.fit(np.concatenate(means), np.concatenate(known), np.concatenate(likelihoods))
