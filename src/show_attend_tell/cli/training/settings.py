"""The settings that ``--preset``, ``--attention``, ``--decoder`` and ``--set`` name."""

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from show_attend_tell.errors import SatError


def preset_of(name: str, attention: str | None, decoder: str | None) -> Any:
    """The settings to start from, those of a preset or of a file that `sat tune` wrote.

    Raises a usage error if both attention and another decoder are given.
    """
    from show_attend_tell.training.presets import preset

    if decoder is None:
        base, attention, changes = preset_behind(name, attention)
        return changed(preset(base, attention), changes)
    if attention is None:
        return preset(name, decoder=decoder)
    raise click.UsageError("Give only one of --attention (soft, hard or uniform) and --decoder.")


def preset_behind(name: str, attention: str | None) -> tuple[str, str, list[str]]:
    """The preset of that name with its attention, and the changes of it if the name is of a file of `sat tune`.

    Raises `SatError` for a file with settings of another attention.
    """
    from show_attend_tell.training.tune import read_settings

    if not name.lower().endswith(".json"):
        return name, attention or "soft", []
    base, tuned, changes = read_settings(Path(name))
    if attention not in (None, tuned):
        raise SatError(f"{name} has settings of {tuned} attention: leave out --attention")
    return base, tuned, changes


SET_ELSEWHERE = {
    "decoder.attention": "--attention",
    "decoder.annotation_size": "the encoder",
    "decoder.vocabulary_size": "vocabulary_size and minimum_count",
}


def changed(config: Any, changes: Sequence[str]) -> Any:
    """A configuration with settings changed, "decoder.hidden_size=1024" and the like, all at once.

    Raises `SatError` for an unknown name, listing the names of all settings, and for a wrong value.
    """
    from show_attend_tell.settings import read_setting

    groups: dict[str, dict[str, Any]] = defaultdict(dict)
    for change in changes:
        name, equals, text = change.partition("=")
        if elsewhere := SET_ELSEWHERE.get(name):
            raise SatError(f"--set {change}: {name} is set by {elsewhere}")
        known = settings(config)
        if not equals or name not in known:
            raise SatError(f"--set {change}: give NAME=VALUE with one of these names: {', '.join(known)}")
        group, _, entry = name.rpartition(".")
        try:
            groups[group][entry] = read_setting(type(getattr(config, group) if group else config), entry, text)
        except SatError as error:
            raise SatError(f"--set {change}: {error}") from None
    plain: dict[str, Any] = groups.pop("", {})
    parts = {group: dataclasses.replace(getattr(config, group), **values) for group, values in groups.items()}
    return dataclasses.replace(config, **plain, **parts)


def settings(config: Any) -> list[str]:
    """The names of all settings, "epochs" or "decoder.hidden_size"."""
    found: list[str] = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        parts = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
        found += [f"{field.name}.{part.name}" for part in parts] or [field.name]
    return found
