"""Stage "decoding": how the model generates captions, chosen on val."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.generation import Decoding
from show_attend_tell.messages import plural
from show_attend_tell.metrics.bootstrap import first_not_worse
from show_attend_tell.model.interface import Decoder
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.training.cautious import VAL_FOR_DECODING
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.data import TrainingData
from show_attend_tell.training.ranks import log
from show_attend_tell.training.selection import Chosen, Metric, captions_of, ciders_of, usual_generation

SECOND_USE = 2.0  # nats that a second use of a noun or color costs
# The score of val that chooses: the one that selects the best epoch, where it is a score of captions.
METRICS: dict[str, Metric] = {"cider": "cider", "cider_and_nats": "cider", "bleu_4_no_brevity": "bleu_4_no_brevity"}
DECISIONS = ("without_reranker", "decoding")  # entries of a model's training, besides the scores on val


def choose_decoding(
    model: Checkpoint,
    decoder: Decoder,
    data: TrainingData,
    config: TrainingConfig,
    *,
    kept: Callable[[], GenerationConfig] | None,
    filters: bool,
    choose: Callable[..., Chosen],
) -> None:
    """Choose how the model generates captions, by val; its reranker and class words stay only if they are used.

    ``kept`` gives a generation config that stays unless another one has a CIDEr on val that is better by more than two
    standard errors; None where val chooses freely. With ``filters``, a second use of a noun costs `SECOND_USE`, and
    class words are raised; either is kept only if val's CIDEr does not fall by it.
    """
    decoding = Decoding.of(model)
    photos = len(data.validation)

    def ciders(generation: GenerationConfig) -> NDArray[np.float64]:
        (captions,) = captions_of(decoder, data, replace(decoding, config=generation))
        return ciders_of(captions, data)

    for name in [*model.training]:  # decisions before the training went on
        if name.startswith("validation_") or name in DECISIONS:
            del model.training[name]
    stays = None if kept is None else kept()
    chosen = None
    metric = METRICS.get(config.selected_by, "bleu_4")
    if stays is None or photos >= VAL_FOR_DECODING:
        usual = replace(decoding, config=usual_generation(config), class_words=None)
        chosen = choose(decoder, data, usual, metric=metric)
    if chosen is not None and stays is not None:
        figures = np.stack([ciders(stays), ciders(chosen.generation)])
        chosen = chosen if first_not_worse(-figures, proof=2.0) == 1 else None
    if chosen is not None:
        note_choice(model, chosen, metric)
        if filters and photos >= VAL_FOR_DECODING:
            settings = {"repetition_cost": SECOND_USE}
            if decoding.class_words is not None:
                settings["class_weight"] = 1.0
            model.generation = filtered(model.generation, settings, ciders)
    elif stays is not None:
        model.generation = stays
        why = "no other is clearly better" if photos >= VAL_FOR_DECODING else f"fewer than {VAL_FOR_DECODING}"
        model.training["decoding"] = f"not chosen on val, which has {plural(photos, 'photo')}: {why}"
        log(f"decoding is {model.training['decoding']}")
    if not model.generation.rerank_weight:
        model.reranker = None
    if not model.generation.class_weight:
        model.class_words = None


def note_choice(model: Checkpoint, chosen: Chosen, metric: Metric) -> None:
    """Give the model the generation config that val chose, and its card the scores."""
    score = f"validation_{metric}"
    model.generation = chosen.generation
    model.training[score] = chosen.scores
    if chosen.generation.rerank_weight:
        model.training["without_reranker"] = {
            "beam_size": chosen.without_reranker.beam_size,
            "length_penalty": chosen.without_reranker.length_penalty,
            score: chosen.score_without_reranker,
        }


def filtered(
    generation: GenerationConfig,
    settings: dict[str, float],
    ciders: Callable[[GenerationConfig], NDArray[np.float64]],
) -> GenerationConfig:
    """The config with each of the settings by which val's CIDEr does not fall."""
    reached = float(ciders(generation).mean())
    for name, value in settings.items():
        tried = generation.merge(**{name: value})
        with_it = float(ciders(tried).mean())
        log(f"  CIDEr of val {with_it:.2f} with {name} {value:g}, {reached:.2f} without")
        if with_it >= reached:
            generation = tried
            reached = with_it
    return generation
