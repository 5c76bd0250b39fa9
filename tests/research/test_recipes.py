"""The other recipes: what they train, and that controls differ in their attention alone."""

import dataclasses
from typing import Any

import everyday_uniform
import pytest
import recipes
import shipped
from shipped import Training

from show_attend_tell.training.config import TrainingConfig, changed
from show_attend_tell.training.objectives.hard import HardObjective
from show_attend_tell.training.objectives.soft import SoftObjective
from show_attend_tell.training.presets import preset


def config_of(training: Training) -> TrainingConfig:
    """The settings that a training has by its arguments."""
    options = list(zip(training.arguments[::2], training.arguments[1::2], strict=True))
    changes = [value for option, value in options if option == "--set"]
    changes += [f"epochs={value}" for option, value in options if option == "--epochs"]
    named = dict(options)
    return changed(preset(named.get("--preset", "flickr8k"), named["--attention"]), changes)


def with_soft(uniform: TrainingConfig) -> TrainingConfig:
    assert uniform.decoder.attention == "uniform"
    return dataclasses.replace(uniform, decoder=dataclasses.replace(uniform.decoder, attention="soft"))


def test_the_fair_pair_differs_in_its_look_alone() -> None:
    soft, hard = config_of(recipes.TRAININGS["soft-as-hard"]), preset("flickr8k", "hard")
    assert dataclasses.replace(soft.decoder, attention="hard") == hard.decoder
    alike: dict[str, Any] = {"decoder": hard.decoder, "visual_ngrams": True}
    # a soft model reads no hard objective, and λ_e is a part of that
    alike |= {"hard": hard.hard, "entropy_weight_end": hard.entropy_weight_end}
    assert dataclasses.replace(soft, **alike) == hard
    assert isinstance(soft.objective(), SoftObjective) and soft.soft.label_smoothing == hard.hard.label_smoothing


def test_the_papers_recipe_is_wholly_the_papers() -> None:
    soft, free, hard = (config_of(recipes.TRAININGS[name]) for name in ("paper-soft", "paper-soft-0", "paper-hard"))
    plain = SoftObjective(doubly_stochastic=0.33, label_smoothing=0.0)
    weights = {"reward_weight": 0.5, "entropy_weight": 0.128, "doubly_stochastic": 0.0, "label_smoothing": 0.0}
    rule = HardObjective(samples=1, coin="image", reward="sentence", baseline="moving", **weights)
    assert soft.objective() == plain and hard.objective() == rule and free == dataclasses.replace(soft, soft=free.soft)
    assert free.objective() == dataclasses.replace(plain, doubly_stochastic=0.0)
    assert (soft.decoder.attention, hard.decoder.attention) == ("soft", "hard")
    decoder = {"output_tanh": False, "tied_embeddings": False, "annotation_window": 1}
    decoder |= {"annotation_dropout": 0.0, "annotation_norm": "scale"}
    without_ours = {"flipped": False, "crops": 0, "visual_ngrams": False, "schedule": "constant", "warmup": 0}
    without_ours |= {"scheduled_sampling": 0.0, "scheduled_sampling_end": None, "averaging": 0.0, "clip": 0.0}
    papers = {"optimizer": "rmsprop", "batch_size": 64, "vocabulary_size": 10_000, "minimum_count": 1, "epochs": 10}
    papers |= {"entropy_weight_end": None, "selected_by": "bleu_4"}
    for config in (soft, free, hard):
        assert config.decoder.to_dict().items() >= {**decoder, "gate": config.decoder.attention == "soft"}.items()
        assert config.to_dict().items() >= {**without_ours, **papers}.items()


@pytest.mark.parametrize("stage", ["-plain", ""])
def test_the_control_on_another_encoder_has_uniform_attention_and_nothing_else(stage: str) -> None:
    control, model = (recipes.TRAININGS[f"efficientnet-{kind}"] for kind in (f"uniform{stage}", stage[1:] or "soft"))
    uniform, soft = config_of(control), config_of(model)
    reranked = dataclasses.replace(uniform, visual_ngrams=not stage)  # a reranker is fitted after the training
    assert with_soft(reranked) == soft
    assert ("--encoder" in control.arguments) == ("--encoder" in model.arguments) == bool(stage)
    assert dataclasses.replace(soft, visual_ngrams=False) == config_of(shipped.TRAININGS[stage[1:] or "soft"])
    starts = (None, None) if stage else ("efficientnet-plain", "efficientnet-uniform-plain")
    assert (model.start, control.start) == starts


@pytest.mark.parametrize("stage", ["-plain", "-texts", ""])
def test_the_control_of_everyday_soft_has_its_settings_but_for_attention(stage: str) -> None:
    control = everyday_uniform.TRAININGS[everyday_uniform.NAME + stage]
    model = shipped.TRAININGS[f"everyday{stage or '-soft'}"]
    assert with_soft(config_of(control)) == config_of(model) and control.arguments[2:] == model.arguments[2:]
    start = None if model.start is None else model.start.replace("everyday", everyday_uniform.NAME)
    assert (control.data, control.texts, control.start) == (model.data, model.texts, start)
