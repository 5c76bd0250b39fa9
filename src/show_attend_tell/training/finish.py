"""What a training decides at its end: how far the weights go from the start, the reranker, the decoding.

With few photos (the setting ``cautious``) each leaves what it was by proof only: by `bootstrap.first_not_worse`.
`presets.custom` states the rules. N photos of val.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from show_attend_tell.backends.torch import decoder_weights
from show_attend_tell.checkpoint.checkpoint import Checkpoint, StoredReranker
from show_attend_tell.messages import plural
from show_attend_tell.metrics.bootstrap import RESAMPLES, draw, first_not_worse, interval
from show_attend_tell.model.interface import Decoder
from show_attend_tell.rerank.adapt import adapt_ngrams
from show_attend_tell.rerank.fit import LEAST, fit_ngrams
from show_attend_tell.rerank.registry import load_reranker
from show_attend_tell.training.config import TrainingPlan
from show_attend_tell.training.data import TrainingData
from show_attend_tell.training.ranks import log
from show_attend_tell.training.selection import (
    Chosen,
    Metric,
    captions_of,
    ciders_of,
    nats_of_photos,
    usual_generation,
)
from show_attend_tell.training.start import competes

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
LITTLE = 0.1  # nats a word; a training that gains less had photos like those that its start learnt from
VAL_FOR_DECODING = 200  # photos
# How a model with a reranker makes captions where val cannot choose: as the default model does.
DECODING = {"beam_size": 20, "length_penalty": 0.75, "rerank_weight": 16.0, "rare_word_exponent": 0.75}
LARGE_BEAM_SIZE = 100  # where photos are so unlike those of the start that its reranker was replaced
SHOWN = 200  # photos of val, of which a model is compared with its start at the end


def give_start_back(plan: TrainingPlan, best: Checkpoint) -> None:
    """Let the model make captions as the one to start from does, whose weights it has, and say what to try."""
    start = plan.start.checkpoint
    assert start is not None
    best.generation, best.reranker, best.confidence = start.generation, start.reranker, start.confidence
    best.training["epochs"] = 0
    log(
        f"no epoch was better on val than {plan.start.name}, so the model in {plan.output} is this one, with the words "
        f"of this training: give more photos, or a learning rate below {plan.config.learning_rate:g} "
        "(--set learning_rate=RATE)"
    )


def mixed(start: Mapping[str, Tensor], trained: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """Weights that lie this share of the way from ``start`` to ``trained`` (Wortsman et al. 2022)."""
    return {
        name: torch.lerp(before.float(), trained[name].float(), share) if before.is_floating_point() else before
        for name, before in start.items()
    }


def choose_share(plan: TrainingPlan, best: Checkpoint, decoder: Decoder, start: Decoder, data: TrainingData) -> float:
    """How far from ``start`` to its own weights a decoder should go, by nats on val; it then has these weights.

    It is the first of `SHARES` that val does not prove worse than the best of them. If the best gains less than
    `LITTLE` on the start, it is at most a quarter: beyond that, CIDEr falls while nats a word still improve.
    """
    before, trained = ({name: v.clone() for name, v in each.state_dict().items()} for each in (start, decoder))
    found = []
    for share in SHARES:
        decoder.load_state_dict(mixed(before, trained, share))
        found.append(nats_of_photos(decoder, data))
    nats = np.stack([each[0] for each in found])  # of each share and photo
    gained = (nats[0].sum() - nats.sum(1).min()) / found[0][1].sum()
    share = SHARES[first_not_worse(nats if gained >= LITTLE else nats[:2])]
    decoder.load_state_dict(mixed(before, trained, share))
    best.weights = decoder_weights(decoder)
    if 0 < share < 1:
        best.training["share"] = f"{share:g} of the way from the start's weights, by val"
        log(f"the weights go {share:g} of the way from those of {plan.start.name} to the best epoch's, by val")
    return share


def fit_reranker(plan: TrainingPlan, data: TrainingData, best: Checkpoint, *, show: bool) -> bool:
    """Give the model the visual n-grams of the training captions; none where no word is seen often enough.

    With few photos those of the model to start from are kept or adapted, unless new ones are better. Returns whether
    they were replaced.
    """
    start = plan.start.checkpoint
    before = start.reranker if start is not None and plan.config.cautious else None
    captions: dict[str, list[list[int]]] = {}
    for name, words in data.captions:
        captions.setdefault(name, []).append(words)
    device = next(plan.start.encoder.parameters()).device
    if before is not None and before.kind == "ngrams":
        adapted = adapt_ngrams(before.arrays, data.views[0], captions, device=device)
        made = "fitted anew" if adapted is None else "kept" if adapted is before.arrays else "adapted"
        log(f"the reranker of the model to start from is {made}")
        if adapted is not None:
            best.reranker = StoredReranker("ngrams", adapted)
            return False
    ngrams = fit_ngrams(data.views[0], captions, device=device, show=show)
    best.reranker = None if ngrams is None else StoredReranker("ngrams", ngrams)
    if ngrams is None:
        log(f"no word is in {LEAST} training captions or more, so there are no visual n-grams to rank captions by")
    return ngrams is not None and before is not None


def choose_decoding(
    plan: TrainingPlan,
    data: TrainingData,
    best: Checkpoint,
    decoder: Decoder,
    *,
    choose: Callable[..., Chosen],
    replaced: bool,
    show: bool,
) -> None:
    """Choose how the model generates captions, by val; its reranker stays only if it is used.

    With few photos it stays as in the model to start from, unless another one has a CIDEr on val that is better by more
    than two standard errors. The start's fits if it uses a reranker just where there is one; else the usual one stays.
    Where the start's reranker was ``replaced``, the beam is large: n-grams of photos of another kind gain from more
    captions to choose from.
    """
    config, start, reranker = plan.config, plan.start.checkpoint, load_reranker(best)
    for name in [*best.training]:  # decisions before the training went on
        if name.startswith("validation_") or name in ("without_reranker", "decoding"):
            del best.training[name]
    kept = usual_generation(config)
    if reranker is not None:
        kept = kept.merge(**DECODING)
    if start is not None and competes(plan.start, config.decoder):
        kept = start.generation if bool(start.generation.rerank_weight) == (reranker is not None) else kept
    kept = kept.merge(beam_size=LARGE_BEAM_SIZE) if replaced else kept
    photos, better = len(data.validation), False
    if not config.cautious or photos >= VAL_FOR_DECODING:
        metric: Metric = config.selected_by if config.selected_by in ("bleu_4_no_brevity", "cider") else "bleu_4"
        usual = config.validation_beam_size
        chosen = choose(decoder, data, config.max_length, metric=metric, reranker=reranker, usual=usual, show=show)
        better = not config.cautious
        if config.cautious:
            ciders = [
                ciders_of(captions_of(decoder, data, each, reranker=reranker, show=show)[0], data)
                for each in (kept, chosen.generation)
            ]
            better = first_not_worse(-np.stack(ciders), proof=2.0) == 1
    if better:
        score = f"validation_{metric}"
        best.generation = chosen.generation
        best.training[score] = chosen.scores
        if chosen.generation.rerank_weight:
            best.training["without_reranker"] = {
                "beam_size": chosen.without_reranker.beam_size,
                "length_penalty": chosen.without_reranker.length_penalty,
                score: chosen.score_without_reranker,
            }
    else:
        best.generation = kept
        why = "no other is clearly better" if photos >= VAL_FOR_DECODING else f"fewer than {VAL_FOR_DECODING}"
        best.training["decoding"] = f"not chosen on val, which has {plural(photos, 'photo')}: {why}"
        log(f"decoding is {best.training['decoding']}")
    if not best.generation.rerank_weight:
        best.reranker = None


def compare_with_start(
    plan: TrainingPlan, data: TrainingData, best: Checkpoint, decoder: Decoder, before: Decoder
) -> None:
    """Log the model's figures on val beside those of the model to start from, and note them for the card.

    Both make captions as they are shipped to, of `SHOWN` photos of val at most; intervals of the differences are of
    95 %. ``before`` has the weights of the start with the words of this training, so that both know the same.
    """
    start = plan.start.checkpoint
    assert start is not None
    few = replace(data, validation=data.validation[:: -(-len(data.validation) // SHOWN)], parts=())
    nats, ciders = [], []
    for network, model in ((decoder, best), (before, start)):
        nats.append(nats_of_photos(network, few))
        captions = captions_of(network, few, model.generation, reranker=load_reranker(model))[0]
        ciders.append(ciders_of(captions, few))
    photos, words = len(few.validation), nats[0][1]
    drawn = draw(np.random.default_rng(0), photos, photos, RESAMPLES)
    low, high = interval((drawn @ (nats[0][0] - nats[1][0])) / (drawn @ words))
    least, most = interval(drawn @ (ciders[0] - ciders[1]) / photos)
    now, earlier = (each[0].sum() / words.sum() for each in nats)
    best.training["on_val"] = (
        f"{now:.2f} nats a word, start {earlier:.2f} ({now - earlier:+.2f}, 95 % interval {low:+.2f} to {high:+.2f}); "
        f"CIDEr {ciders[0].mean():.1f}, start {ciders[1].mean():.1f} ({ciders[0].mean() - ciders[1].mean():+.1f}, "
        f"{least:+.1f} to {most:+.1f}); of {plural(photos, 'photo')}"
    )
    log(f"on val: {best.training['on_val']}")
