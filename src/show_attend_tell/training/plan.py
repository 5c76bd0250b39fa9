"""The plan of a training: made of folders with the defaults of `sat train`, and checked before photos are encoded."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from show_attend_tell.checkpoint.checkpoint import check_vacant
from show_attend_tell.data.datasets import join, read_dataset
from show_attend_tell.devices import native_bf16
from show_attend_tell.errors import SatError
from show_attend_tell.files import check_writable
from show_attend_tell.training import RunOptions, presets, ranks
from show_attend_tell.training.config import TrainingPlan, changed
from show_attend_tell.training.start import choose_start, mismatch

KEPT = ("epochs", "selected_by")  # settings that a resumed training keeps where the user gives no others


def plan_for(
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    settings: Mapping[str, object] | Sequence[str] = (),
    preset: str | None = None,
    attention: str = "soft",
    decoder: str | None = None,
    weights: Sequence[float] = (),
    restval: bool = False,
    init_from: str | None = None,
    encoder: Mapping[str, Any] | None = None,
    cache: Path | None = None,
    device: str = "auto",
    **run: Any,
) -> TrainingPlan:
    """The plan of a training on the photos of one folder or of several, as the command `sat train` makes it.

    ``settings`` are those of `TrainingConfig` by name, such as {"epochs": 3, "decoder.hidden_size": 1024}, or lines
    "NAME=VALUE". The others are the preset's; without a ``preset`` they are fitted to custom data. ``encoder`` has what
    `load_start` takes of it, and ``run`` is of `RunOptions`. The rest is as the options of that name. Raises `SatError`
    for data, a model or settings that do not fit.
    """
    folders = [data] if isinstance(data, (str, os.PathLike)) else list(data)
    datasets = [read_dataset(Path(folder), restval=restval) for folder in folders]
    dataset = join(datasets, weights) if len(datasets) > 1 or weights else datasets[0]
    name = preset or "flickr8k"
    if isinstance(settings, Mapping):
        settings = [f"{setting}={value}" for setting, value in settings.items()]
    config = changed(presets.preset(name, attention, decoder=decoder), settings)
    fit_to_data = decoder is None and preset is None
    start = choose_start(dataset, config, init_from=init_from, fit_to_data=fit_to_data, **(encoder or {}))
    corpus = run.get("text_corpus")
    run = vars(RunOptions(**{**run, "text_corpus": corpus and Path(corpus)}))
    notes = {
        "preset": name,
        "weights": list(weights),
        "text_corpus": corpus and Path(corpus).name,
        "init_from": start.name,
        "unfreeze_from": run["unfreeze_from"],
    }
    return TrainingPlan(
        dataset=dataset,
        start=start,
        config=config,
        output=Path(output),
        given={change.partition("=")[0].strip() for change in settings},
        fit_to_data=fit_to_data,
        cache=cache,
        device=device,
        notes={note: value for note, value in notes.items() if value},
        **run,
    )


def checked(plan: TrainingPlan, device: torch.device) -> TrainingPlan:
    """The plan with its precision, and if it resumes, with the earlier epochs and selected_by.

    Raises `SatError` for a plan that cannot be carried out.
    """
    plan = resolved(plan, device)
    if plan.start.checkpoint is not None:
        problem = mismatch(plan.start, plan.config.decoder)
        if problem:
            raise SatError(f"the model to start from {problem}")
    if ranks.is_main():
        check_output(plan)
        check_writable(plan.state, make=True)
    return plan


def resolved(plan: TrainingPlan, device: torch.device) -> TrainingPlan:
    """The plan, with the epochs, selected_by and precision of a training that it resumes; else a precision.

    A training keeps its precision on every device.
    """
    try:
        with safe_open(plan.state, framework="pt") as state:
            known = json.loads(state.metadata()["identity"]) if plan.resume else {}
    except (OSError, SafetensorError, ValueError, TypeError, KeyError):
        known = {}
    config = plan.config
    if plan.given is not None:
        kept = {name: known[name] for name in KEPT if name in known.keys() - {*plan.given}}
        config = replace(config, **kept)
        plan = replace(plan, given={*plan.given, *kept})
    if config.precision == "auto":
        usual = "bfloat16" if native_bf16(device) else "float32"
        config = replace(config, precision=known.get("precision", usual))
    return replace(plan, config=config)


def check_output(plan: TrainingPlan) -> None:
    """Raise `SatError` for an output that holds another model, or a training that cannot be resumed by this plan."""
    output = plan.output
    has_model = (output / "config.json").exists()
    has_state = plan.state.exists()
    if plan.resume and has_model and not has_state:
        raise SatError(
            f"{output} holds a model without the state of its training: it cannot be resumed. Give another --output; "
            f"--init-from {output} starts from this model"
        )
    if not plan.resume and (has_model or has_state):
        raise SatError(
            f"{output} holds a model already, or its training: give another --output, or --resume to go on with it"
        )
    check_vacant(output)
