"""What a training decides at its end besides its weights: the reranker, the class words and the decoding.

With few photos (the setting ``cautious``) each leaves what it was by proof only: by `bootstrap.first_not_worse`.
`presets.custom` states the rules.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from show_attend_tell.backends.torch import decoder_weights
from show_attend_tell.checkpoint.checkpoint import Checkpoint, StoredReranker
from show_attend_tell.data.tokenizers import ENGLISH, KARPATHY
from show_attend_tell.generation import Decoding
from show_attend_tell.messages import plural
from show_attend_tell.metrics.bootstrap import first_not_worse
from show_attend_tell.model.interface import Decoder
from show_attend_tell.progress import Progress
from show_attend_tell.rerank import class_words
from show_attend_tell.rerank.adapt import adapt_ngrams
from show_attend_tell.rerank.fit import LEAST, fit_ngrams
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.training.config import TrainingPlan
from show_attend_tell.training.data import TrainingData
from show_attend_tell.training.judge import Verdict, mixed
from show_attend_tell.training.ranks import log
from show_attend_tell.training.selection import Chosen, Metric, captions_of, ciders_of, usual_generation
from show_attend_tell.training.start import competes

VAL_FOR_DECODING = 200  # photos
SECOND_USE = 2.0  # nats that a second use of a noun or color costs
# How a model with a reranker makes captions where val cannot choose: as the default model does.
DECODING = {"beam_size": 20, "length_penalty": 0.75, "rerank_weight": 16.0, "rare_word_exponent": 0.75}
LARGE_BEAM_SIZE = 100  # where photos are so unlike those of the start that its reranker was replaced


def apply_verdict(plan: TrainingPlan, verdict: Verdict, best: Checkpoint, decoder: Decoder, start: Decoder) -> None:
    """Move the weights as far from the start's as the verdict says."""
    best.training["on_val"] = verdict.text
    decoder.load_state_dict(mixed(start.state_dict(), decoder.state_dict(), verdict.share))
    best.weights = decoder_weights(decoder)
    if verdict.share == 0:
        best.training["epochs"] = 0
    elif verdict.share < 1:
        best.training["share"] = f"{verdict.share:g} of the way from the start's weights"
        log(f"the weights go {verdict.share:g} of the way from those of {plan.start.name} to the trained ones")


def give_start_back(plan: TrainingPlan, best: Checkpoint) -> None:
    """Let the model make captions as the one to start from does, whose weights it has, and say what to try."""
    start = plan.start.checkpoint
    assert start is not None
    best.generation, best.reranker, best.confidence = start.generation, start.reranker, start.confidence
    best.class_words = class_words.moved(start, best.vocabulary)
    log(
        f"no training was clearly better than {plan.start.name}, so the model in {plan.output} is this one, with the "
        "words and capitals of these captions: give more photos, or a learning rate below "
        f"{plan.config.learning_rate:g} (--set learning_rate=RATE)"
    )


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


@torch.no_grad()
def fit_class_words(plan: TrainingPlan, data: TrainingData, best: Checkpoint, *, show: bool) -> None:
    """Give an English model on custom data class words: with few photos the start's, else fitted if val can judge."""
    start, best.class_words = plan.start.checkpoint, None
    if not plan.dataset.custom or data.vocabulary.tokenizer not in (KARPATHY, ENGLISH):
        return
    if plan.config.cautious and start is not None and start.class_words is not None:
        best.class_words = class_words.moved(start, best.vocabulary)
    elif len(data.validation) >= VAL_FOR_DECODING and (classes := class_words.classes_of(best.encoder.name)):
        captions = defaultdict[str, list[list[str]]](list)
        for name, words in data.captions:
            captions[name].append(data.vocabulary.decode(words))
        with Progress(captions.items(), desc="class words", unit="photo", disable=not show, leave=False) as bar:
            photos = ((classes.probabilities(data.views[0][[name]])[0], of_photo) for name, of_photo in bar)
            best.class_words = class_words.fit(classes, best.vocabulary, photos)


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

    With few photos it stays as in the model to start from (which must use a reranker just where there is one), unless
    another one has a CIDEr on val that is better by more than two standard errors. Where the start's reranker was
    ``replaced``, the beam is large. A second use of a noun costs `SECOND_USE`, and class words are raised, each where
    val's CIDEr does not fall by it.
    """
    config, start = plan.config, plan.start.checkpoint
    decoding = Decoding.of(best)

    def ciders(generation: GenerationConfig) -> NDArray[np.float64]:
        tried = replace(decoding, config=generation)
        (captions,) = captions_of(decoder, data, tried, show=show)
        return ciders_of(captions, data)

    for name in [*best.training]:  # decisions before the training went on
        if name.startswith("validation_") or name in ("without_reranker", "decoding"):
            del best.training[name]
    kept = usual_generation(config)
    if best.reranker is not None:
        kept = kept.merge(**DECODING)
    if start is not None and competes(plan.start, config.decoder):
        if bool(start.generation.rerank_weight) == (best.reranker is not None):
            kept = start.generation.merge(max_length=config.max_length if "max_length" in (plan.given or ()) else None)
        kept = kept if best.class_words is not None else kept.merge(class_weight=0.0)
    kept = kept.merge(beam_size=LARGE_BEAM_SIZE) if replaced else kept
    photos, better = len(data.validation), False
    if not config.cautious or photos >= VAL_FOR_DECODING:
        by = "cider" if config.selected_by == "cider_and_nats" else config.selected_by
        metric: Metric = by if by in ("bleu_4_no_brevity", "cider") else "bleu_4"
        usual = replace(decoding, config=usual_generation(config), class_words=None)
        chosen = choose(decoder, data, usual, metric=metric, show=show)
        both = kept, chosen.generation
        better = not config.cautious or first_not_worse(-np.stack([*map(ciders, both)]), proof=2.0) == 1
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
        if photos >= VAL_FOR_DECODING and plan.dataset.custom and data.vocabulary.tokenizer in (KARPATHY, ENGLISH):
            reached = float(ciders(best.generation).mean())
            filters = {"repetition_cost": SECOND_USE}
            if decoding.class_words is not None:
                filters["class_weight"] = 1.0
            for name, value in filters.items():
                filtered = best.generation.merge(**{name: value})
                with_it = float(ciders(filtered).mean())
                log(f"  CIDEr of val {with_it:.2f} with {name} {value:g}, {reached:.2f} without")
                if with_it >= reached:
                    best.generation, reached = filtered, with_it
    else:
        best.generation = kept
        why = "no other is clearly better" if photos >= VAL_FOR_DECODING else f"fewer than {VAL_FOR_DECODING}"
        best.training["decoding"] = f"not chosen on val, which has {plural(photos, 'photo')}: {why}"
        log(f"decoding is {best.training['decoding']}")
    if not best.generation.rerank_weight:
        best.reranker = None
    if not best.generation.class_weight:
        best.class_words = None
