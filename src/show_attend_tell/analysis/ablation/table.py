"""What `ablation` found, as a table for a terminal. Everything in it, and more, is in the result that `ablation` returns."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from show_attend_tell.analysis.ablation.captions import METRICS
from show_attend_tell.analysis.ablation.controls import CONTROLS, OWN
from show_attend_tell.analysis.ablation.occlusion import VARIANTS, WAYS
from show_attend_tell.analysis.ablation.run import STILL
from show_attend_tell.metrics.comparison import METRICS as TITLES

SHOWN = ("noun", "color", "verb", "function", "all")  # classes of words
COMPARED = ("other_word", "static", "other_photo", "patch", "random")  # with the most attended places, as ratios


def ablation_table(result: Mapping[str, Any]) -> str:
    """What `ablation` found, as lines of text."""
    title = f"gaze of {result['model']} on {result['photos']} photos of {result['data']} {result['split']}"
    whose = "its own captions" if result["captions"] == "own" else "each photo's first reference"
    unclassified = f"{100 * result['unclassified_share']:.1f} % of them in no class"
    if result["unclassified_words"]:
        unclassified += f" ({', '.join(result['unclassified_words'])})"
    lines = [
        f"{title}, drawn by seed {result['seed']}; look by {result['look']}",
        f"captions by beam {result['beam']}, length normalization {result['length_penalty']:g}, reranker weight "
        f"{result['rerank_weight']:g}",
        f"words of {whose}: {result['words']:,}, {unclassified}",
        "nats, with 95 % intervals over photos; – where a ratio's divisor is not surely above zero, or where all words",
        "of a class are of one photo, so that there is no interval",
        "",
        "What replacing alpha costs a word, at its own step, everything before it unchanged",
    ]
    rows = {"-log p by its own alpha": "log_loss", **{title: name for name, title in CONTROLS.items()}}
    lines += _by_class(result["at_word"], rows)
    lines += ["", *_throughout(result), *_captions_made(result["captions_made"])]
    for way, classes in result["occlusion"].items():
        if classes:
            lines += [
                "",
                f"What hiding {result['hidden']} of {result['places']} places costs a word: {WAYS[way]} "
                f"({result['captions_by_way'][way]} photos)",
            ]
            rows = {title: name for name, title in VARIANTS.items()}
            rows |= {f"own / {VARIANTS[name]}": f"ratio_{name}" for name in COMPARED}
            lines += _by_class(classes, rows)
    lines += ["", f"How it looked (uniform attention has an entropy of {np.log(result['places']):.2f} nats)"]
    columns = {"beta": "beta", "entropy of alpha": "entropy", "alpha on its most attended places": "share"}
    known = {title: name for title, name in columns.items() if name in result["attention"]["all"]}
    lines += _by_class(result["attention"], known)
    if "beta_missing" in result:
        lines.append(f"  no beta: {result['beta_missing']}")
    if "beta_noun_minus_function" in result:
        lines.append(f"  beta of nouns less that of function words: {_figure(result['beta_noun_minus_function'])}")
    lines += [
        f"  from word to word the centroid of alpha goes {_figure(result['travel'])} of the photo's side, and "
        f"{_figure(result['moved'])} of alpha moves",
        f"  maps that do not move (less than {STILL} of alpha from word to word): {len(result['still'])} of "
        f"{result['captions_told']} captions",
    ]
    return "\n".join(lines)


def _by_class(classes: Mapping[str, Any], rows: Mapping[str, str]) -> list[str]:
    """A line for each row, whose name in the classes is given by its title, with a column for each class of words."""
    there = [kind for kind in SHOWN if kind in classes]
    lines = [_line("", *(f"{kind} ({classes[kind]['words']:,})" for kind in there))]
    return lines + [_line(title, *(_of_class(classes[kind], name) for kind in there)) for title, name in rows.items()]


def _throughout(result: Mapping[str, Any]) -> list[str]:
    """−log p a word by each look and control."""
    found = result["throughout"]
    lines = [f"-log p a word, told so from the first word on ({found['words']:,} words, end tokens among them)"]
    lines.append(_line("", "nats a word", "more than its own"))
    for name, title in (OWN | CONTROLS).items():
        if name in found:
            lines.append(_line(title, _figure(found[name]["log_loss"]), _figure(found[name]["cost"])))
    return lines


def _captions_made(found: Mapping[str, Any] | None) -> list[str]:
    """The scores of captions made with each control."""
    if found is None:
        return []
    metrics = [metric for metric in METRICS if metric in found["own"]]
    lines = ["", f"Scores of the captions that it makes so of {found['photos']} photos, and the difference to its own"]
    lines.append(_line("", *(TITLES[metric].replace(" without penalty", " n. p.") for metric in metrics), width=32))
    for name, title in {"own": "its own alpha", **CONTROLS}.items():
        if name in found:
            cells = []
            for metric in metrics:
                one = found[name][metric]
                interval = f"{one['difference']:+.1f} [{one['low']:+.1f}, {one['high']:+.1f}]"
                cells.append(f"{one['score']:.1f}" + ("" if name == "own" else f"  {interval}"))
            lines.append(_line(title, *cells, width=32))
    return lines


def _line(title: str, *cells: str, width: int = 23) -> str:
    return f"  {title:<38}" + "".join(f"  {cell:>{width - 2}}" for cell in cells)


def _of_class(found: Mapping[str, Any], name: str) -> str:
    """A mean with its interval, which one photo does not give."""
    return _figure(found[name] if found["photos"] > 1 else None)


def _figure(mean: Mapping[str, float] | None) -> str:
    return "–" if mean is None else f"{mean['mean']:.2f} [{mean['low']:.2f}, {mean['high']:.2f}]"
