"""What val selects by a score of the model's captions: the best epoch, and the generation config."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from show_attend_tell.backends.torch import TorchBackend
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.generation import Decoding
from show_attend_tell.metrics.bleu import bleu
from show_attend_tell.metrics.cider import CiderD, cider
from show_attend_tell.model.interface import Decoder, word_log_probabilities
from show_attend_tell.progress import Progress
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.hypotheses import Hypothesis, rank
from show_attend_tell.training import ranks
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.data import TrainingData, batches
from show_attend_tell.training.ranks import log

FORCED_BATCH_SIZE = 32  # captions of val whose words' probabilities are computed at once
CIDER_PER_NAT = 20.0  # CIDEr points that one nat a word counts as, where both choose together
# With a reranker: about the least with which the captions of 1,000 photos have 300 different words.
RARE_WORD_EXPONENT = 0.75


class Grid(NamedTuple):
    """Generation settings that are tried on val after training, each value with each."""

    beam_sizes: Sequence[int] = (1, 3, 5, 10, 20)
    large_beam_sizes: Sequence[int] = (40, 100)  # with a reranker only, which gains from more captions to choose from
    length_penalties: Sequence[float] = (0.0, 0.25, 0.5, 0.75)
    rerank_weights: Sequence[float] = (0.0, 8.0, 16.0, 32.0, 64.0, 96.0, 128.0)  # with a reranker only


GRID = Grid()

Metric = Literal["bleu_4", "bleu_4_no_brevity", "cider"]
BATCH_SIZE = 64  # photos whose annotations are in memory at once


def usual_generation(config: TrainingConfig) -> GenerationConfig:
    """How a training generates captions of val until one is chosen.

    By default a hard model attends by argmax, since by the mean one with diffuse α would score as well.
    """
    mode = config.validation_attention_mode or ("argmax" if config.decoder.attention == "hard" else "mean")
    return GenerationConfig(beam_size=config.validation_beam_size, attention_mode=mode, max_length=config.max_length)


def usual_decoding(config: TrainingConfig, data: TrainingData) -> Decoding:
    """How a training generates captions of val until its own decoding is chosen: without reranker and class words."""
    return Decoding(vocabulary=data.vocabulary, config=usual_generation(config))


@torch.no_grad()
def searches(
    decoder: Decoder, data: TrainingData, names: Sequence[str], decoding: Decoding
) -> Iterator[tuple[Tensor, list[list[Hypothesis]]]]:
    """The annotations (B, L, D) of some photos at a time, and the candidates that the decoding finds for them."""
    backend = TorchBackend(decoder)
    what = f"val, beam size {decoding.config.beam_size}"
    with Progress(total=len(names), desc=what, unit="photo", leave=False) as bar:
        for start in range(0, len(names), BATCH_SIZE):
            annotations = backend.features(data.views[0][names[start : start + BATCH_SIZE]])
            seeds = [0] * len(annotations)
            yield annotations, decoding.candidates(backend, annotations, seeds=seeds)
            bar.update(len(annotations))


def captions_of(
    decoder: Decoder,
    data: TrainingData,
    decoding: Decoding,
    *,
    rankings: Sequence[tuple[float, float]] = (),
) -> list[list[list[str]]]:
    """A decoder's captions of the validation photos, as words, for each of the ``rankings``.

    A ranking is a length penalty γ and a rerank weight ω of `hypotheses.rank`, by default those of ``decoding``; one
    search serves all of them. Ranks share the photos, and each gets all captions.
    """
    rankings = rankings or [(decoding.config.length_penalty, decoding.config.rerank_weight)]
    captions: list[list[list[str]]] = [[] for _ in rankings]
    names = ranks.local_share([name for name, _ in data.validation])
    for _, searched in searches(decoder, data, names, decoding):
        for hypotheses in searched:
            for of_ranking, ranking in zip(captions, rankings, strict=True):
                of_ranking.append(" ".join(rank(hypotheses, *ranking)[0].said(data.vocabulary, compared=True)).split())
    return [list(chain.from_iterable(of_ranks)) for of_ranks in zip(*ranks.gathered(captions), strict=True)]


def ciders_of(captions: Sequence[Sequence[str]], data: TrainingData) -> NDArray[np.float64]:
    """CIDEr-D ×100 of the caption of each validation photo (N,), with the document frequencies of val's references."""
    units = data.vocabulary.tokenizer.units
    references = [[units(words) for words in texts] for _, texts in data.validation]
    score = CiderD(references)
    ciders = [score(units(words), texts) for words, texts in zip(captions, references, strict=True)]
    return np.array(ciders, dtype=np.float64) * 100


def scores_of(captions: Sequence[Sequence[str]], data: TrainingData, *, only: Metric | None = None) -> dict[str, float]:
    """``bleu_1`` to ``bleu_4``, ``bleu_4_no_brevity`` and ``cider``, ×100, of captions of the validation photos.

    ``only`` is the metric that is needed, where that is one. Scores count words, or characters in scripts without
    spaces. Where data sets were joined, each score is the mean of theirs.
    """
    units = data.vocabulary.tokenizer.units
    parts = data.parts or [slice(None)]
    captions = [units(words) for words in captions]
    references = [[units(words) for words in texts] for _, texts in data.validation]
    totals: dict[str, float] = defaultdict(float)
    for of_part in ((captions[part], references[part]) for part in parts):
        if only != "cider":
            for n, score in enumerate(bleu(*of_part), 1):
                totals[f"bleu_{n}"] += score / len(parts)
            totals["bleu_4_no_brevity"] += bleu(*of_part, brevity=False)[3] / len(parts)
        if only in (None, "cider"):
            totals["cider"] += cider(*of_part) / len(parts)
    return dict(totals)


def nats_a_word(decoder: Decoder, data: TrainingData) -> float:
    """The mean −log p of the words of the validation captions, by `nats_of_photos`."""
    nats, words = nats_of_photos(decoder, data)
    return float(nats.sum() / words.sum())


@torch.no_grad()
def nats_of_photos(decoder: Decoder, data: TrainingData) -> NDArray[np.float64]:
    """−log p of each validation photo's captions by teacher forcing, and the number of their words: (2, N).

    Words that are not in the vocabulary are not counted. The attention mode is mean, for a hard decoder too.
    """
    device = next(decoder.parameters()).device
    rows = {name: row for row, (name, _) in enumerate(data.validation)}
    captions = [(name, data.vocabulary.encode(words)) for name, texts in data.validation for words in texts]
    nats = np.zeros((2, len(rows)))
    for indices in ranks.local_share(batches(captions, FORCED_BATCH_SIZE, seed=0)):
        annotations = data.views[0][[captions[index][0] for index in indices]].to(device)
        forced = torch.tensor([captions[index][1] for index in indices], device=device)
        log_p = word_log_probabilities(decoder.teacher_forcing(annotations, forced).logits, forced)[:, 0].cpu()
        known = forced.cpu() != Vocabulary.UNKNOWN
        sums = torch.stack([-log_p.masked_fill(~known, 0).double().sum(1), known.double().sum(1)])
        np.add.at(nats.T, [rows[captions[index][0]] for index in indices], sums.numpy().T)
    total: NDArray[np.float64] = np.stack(ranks.gathered(nats)).sum(0)
    return total


class Chosen(NamedTuple):
    """The generation config that val chose, and its score."""

    generation: GenerationConfig  # the best of all
    scores: dict[str, float]  # val's, of the best of all and of the best without a reranker
    without_reranker: GenerationConfig  # the best without a reranker
    score_without_reranker: float


def choose_generation(
    decoder: Decoder,
    data: TrainingData,
    usual: Decoding,
    *,
    metric: Metric = "bleu_4",
    grid: Grid = GRID,
) -> Chosen:
    """The beam size, length penalty γ and rerank weight ω that have the best val score.

    ``metric`` is this score, ×100: BLEU-4 with or without brevity penalty, or CIDEr. A rerank weight other than 0 is
    tried where there is a reranker and more than one caption to rank. The rest is as ``usual``, and so is the beam size
    if val cannot choose.
    """
    scored: dict[GenerationConfig, float] = {}
    title = f"val {metric} by length penalty"
    log(f"{title:<37}" + "  ".join(f"{gamma:5g}" for gamma in grid.length_penalties))
    reranks = usual.reranker is not None
    for beam_size in (*grid.beam_sizes, *grid.large_beam_sizes) if reranks else grid.beam_sizes:
        weights = grid.rerank_weights if reranks and beam_size > 1 else (0.0,)
        rankings = [(gamma, weight) for weight in weights for gamma in grid.length_penalties]
        tried = usual.config.merge(beam_size=beam_size, rare_word_exponent=RARE_WORD_EXPONENT)
        captions = captions_of(decoder, data, replace(usual, config=tried), rankings=rankings)
        known: dict[str, float] = {}  # rankings that choose the same captions are scored once
        scores = {}
        for ranking, chosen in zip(rankings, captions, strict=True):
            if repr(chosen) not in known:
                known[repr(chosen)] = scores_of(chosen, data, only=metric)[metric]
            scores[ranking] = known[repr(chosen)]
        for weight in weights:
            row = f"{beam_size}, rerank weight {weight:g}" if weight else f"{beam_size}"
            log(f"  beam {row:<29}" + "  ".join(f"{scores[gamma, weight]:5.2f}" for gamma in grid.length_penalties))
        for (gamma, weight), score in scores.items():
            exponent = RARE_WORD_EXPONENT if weight else 0.0
            how = {"length_penalty": gamma, "rerank_weight": weight, "rare_word_exponent": exponent}
            scored[usual.config.merge(beam_size=beam_size, **how)] = score
    return best_of(scored, usual=usual.config.beam_size, plain_beam_sizes=grid.beam_sizes)


def best_of(scored: Mapping[GenerationConfig, float], *, usual: int, plain_beam_sizes: Collection[int]) -> Chosen:
    """The configs with the best of the scores in ``scored``, the first of equals: of all, and without a reranker.

    ``plain_beam_sizes`` are those that count without a reranker. If all scores are the same, for example 0, the beam
    size is ``usual``, without length penalty and reranker.
    """
    plain = [config for config in scored if not config.rerank_weight and config.beam_size in plain_beam_sizes]
    best = max(scored, key=scored.__getitem__)
    best_plain = max(plain, key=scored.__getitem__)
    score_without_reranker = scored[best_plain]
    scores = {config.summary(): round(scored[config], 2) for config in (best, best_plain)}
    if len({round(score, 2) for score in scored.values()}) == 1:  # as they are shown
        log(f"val cannot tell these settings apart, so the default ones stay: beam {usual}")
        best = best_plain = plain[0].merge(beam_size=usual, length_penalty=0.0)
    return Chosen(
        generation=best,
        scores=scores,
        without_reranker=best_plain,
        score_without_reranker=round(score_without_reranker, 2),
    )
