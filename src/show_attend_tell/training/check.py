"""Whether a training can be carried out: before any photo is encoded, and again when its folder is its own."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from show_attend_tell.checkpoint.checkpoint import check_vacant
from show_attend_tell.devices import native_bf16
from show_attend_tell.errors import SatError
from show_attend_tell.files import check_writable
from show_attend_tell.training import ranks
from show_attend_tell.training.config import TrainingPlan
from show_attend_tell.training.start import mismatch

KEPT = ("epochs", "selected_by")  # settings that a resumed training keeps where the user gives no others


def checked(plan: TrainingPlan, device: torch.device) -> TrainingPlan:
    """The plan with its precision, and if it resumes, with the epochs of before and their choice.

    Raises `SatError` for a plan that cannot be carried out.
    """
    header = header_of(plan.state)
    plan = resolved(plan, header.get("identity"), device)
    if ranks.is_main():
        check_output(plan, header)
    rows, columns = plan.start.encoder.grid
    window = getattr(plan.config.decoder, "annotation_window", 1)
    if window > 1 and rows != columns:
        raise SatError(f"annotation_window is {window}, and {rows} × {columns} locations are not a square grid: give 1")
    if plan.start.checkpoint is not None:
        problem = mismatch(plan.start, plan.config.decoder)
        if problem:
            raise SatError(f"the model to start from {problem.reason}", remedy=problem.remedy)
    if ranks.is_main():
        check_writable(plan.state, make=True)
    return plan


def header_of(state: Path) -> dict[str, Any]:
    """The header of a training's state; empty where there is none that can be read."""
    try:
        with safe_open(state, framework="pt") as stored:
            return {name: json.loads(text) for name, text in (stored.metadata() or {}).items()}
    except (OSError, SafetensorError, ValueError):
        return {}


def resolved(plan: TrainingPlan, before: object, device: torch.device) -> TrainingPlan:
    """The plan whose settings are those of the training ``before`` where it resumes, its precision as on this device.

    A training keeps its precision on every device.
    """
    config = plan.config
    known = before if plan.resume and isinstance(before, dict) else {}
    if plan.given is not None:
        kept = {name: known[name] for name in KEPT if name in known.keys() - {*plan.given}}
        config = replace(config, **kept)
        plan = replace(plan, given={*plan.given, *kept})
    if config.precision == "auto":
        usual = "bfloat16" if native_bf16(device) else "float32"
        config = replace(config, precision=known.get("precision", usual))
    return replace(plan, config=config)


def check_output(plan: TrainingPlan, header: dict[str, Any]) -> None:
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
        content = "a model" if has_model else "an interrupted training"
        further = ", or --resume to go on with its training" if has_state else ""
        raise SatError(f"{output} holds {content} already: give another --output{further}")
    check_vacant(output)
    name = plan.start.name
    origin = header.get("init_from", name) if plan.resume else name
    if origin != name:
        raise SatError(
            f"the training in {plan.state} started from {origin or 'none'}, and this command starts from "
            f"{name or 'none'}: give --init-from {origin or 'none'}"
        )
