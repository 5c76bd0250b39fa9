"""`sat check`: a data folder looked at before training."""

import dataclasses
import json
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from show_attend_tell.cli.command import (
    PATH,
    BaseCommand,
    check_targets,
    device_option,
    encoder_options,
    json_option,
    printable,
    write_output,
)
from show_attend_tell.messages import first_three, plural, read_without, shorten

if TYPE_CHECKING:
    from show_attend_tell.data.datasets import Dataset
    from show_attend_tell.data.inspection import Inspection
    from show_attend_tell.training.estimate import Estimate

CHECK_EXAMPLES = """
\b
Examples:
  sat check products/
  sat check products/ --json report.json
  sat check products/ --encoder facebook/dinov2-small
"""
SHOWN = 5  # captions and photos of one kind that are listed; the JSON file has all
PIECES = "pieces of words"  # what captions consist of in a script without spaces

Log = Callable[[str], None]


@click.command(cls=BaseCommand, epilog=CHECK_EXAMPLES)
@click.argument("data", type=PATH)
@encoder_options
@click.option("--restval", is_flag=True, help="COCO: restval photos count as training photos.")
@json_option("the whole report")
@device_option
def check(data: Path, restval: bool, json_file: str | None, device: str, **encoder: Any) -> None:
    """Look at a data set before training.

    Counts photos, captions and words, opens every photo to find damaged ones, lists captions to look at, and
    estimates from a few photos how much time, memory and disk space a training takes.
    """
    from show_attend_tell.data.datasets import read_dataset
    from show_attend_tell.data.inspection import inspect, without_captions
    from show_attend_tell.devices import pick_device
    from show_attend_tell.training.estimate import estimate
    from show_attend_tell.training.presets import preset
    from show_attend_tell.training.presets.custom import english_words, fitted, retokenize
    from show_attend_tell.training.stages.data import learnt_vocabulary, without_unreadable
    from show_attend_tell.training.start import choose_start
    from show_attend_tell.vision.feature_cache import UnreadablePhotos

    check_targets(json_file, read=[data])
    chosen = pick_device(device)
    everything = dataset = read_dataset(data, restval=restval)
    log: Log = (lambda text: None) if json_file == "-" else lambda text: click.echo(printable(text))
    log(f"{data}: {first_three(dataset.report.sources)}")
    passed_over: dict[str, str] = {}  # by the photo's name
    problems = _open_photos(dataset, passed_over, log)
    if problems and dataset.custom:
        dataset = without_unreadable(dataset, UnreadablePhotos(problems, len(dataset.examples)))
    config = preset("flickr8k", "soft")
    begin = choose_start(dataset, config, init_from=None, fit_to_data=True, **encoder)
    dataset, tokens_why = retokenize(dataset, config, begin.checkpoint)
    plan = [*begin.lines, tokens_why]
    if dataset.custom:
        config, lines = fitted(dataset, config, started=begin.checkpoint is not None)
        plan += lines
    vocabulary = learnt_vocabulary(begin.checkpoint, dataset, config)
    inspection = inspect(dataset, vocabulary, english=english_words(), longest=config.max_length)
    alone = without_captions(everything)

    for line in [*dataset.report.lines(), *in_words(inspection, "words" if dataset.tokenizer.between else PIECES)]:
        log(line)
    if alone:
        names = first_three([photo.name for photo in alone])
        log(f"{plural(len(alone), 'photo')} of the folder without a caption: {names}")
    begin.encoder.to(chosen)
    takes = estimate(dataset.without(problems), config, begin, vocabulary)
    log("a training would go like this:")
    for line in [*plan, *_estimated(takes, begin.name)]:
        log(f"  {line}")
    command = shlex.join(["sat", "train", str(data), "--output", f"{dataset.name}-model"])
    report = {
        "data": str(data),
        **dataclasses.asdict(dataset.report),
        **dataclasses.asdict(inspection),
        "without_captions": [str(photo) for photo in alone],
        "unreadable": problems,
        "passed_over": passed_over,
        "tokenizer": dataset.tokenizer.name,
        "plan": plan,
        "estimate": dataclasses.asdict(takes),
        "next": command,
    }
    write_output(json_file, json.dumps(report, ensure_ascii=False, indent=1) + "\n")
    log(f"Next, with the same options: {command}")


def _open_photos(dataset: "Dataset", passed_over: dict[str, str], log: Log) -> dict[str, str]:
    """What is wrong with each photo that cannot be read, by its name; the first ones are shown.

    ``passed_over`` gets what was left out of the files of the others.
    """
    from show_attend_tell.progress import Progress
    from show_attend_tell.vision.reading import unreadable

    number = len(dataset.examples)
    opening = Progress(
        unreadable(dataset.examples, passed_over),
        total=number,
        desc="opening photos",
        unit="photo",
        disable=number < 1000,
    )
    problems = {name: problem for name, problem in opening if problem is not None}
    left_out = ", which a training leaves out" if problems and dataset.custom else ""
    log(f"{plural(number, 'photo')} opened, {len(problems):,} of them cannot be read{left_out}")
    for problem in list(problems.values())[:SHOWN]:
        log(f"  {problem}")
    if passed_over:
        log(read_without(passed_over))
    return problems


def _estimated(takes: "Estimate", start: str | None) -> list[str]:
    """What a training takes and is expected to give, as lines."""
    from show_attend_tell.training.reports import duration

    lines = []
    if takes.likeness is not None:
        like = takes.likeness
        shift = "" if like.shift is None else f"; its distance to the photos is {like.shift:.1f} (0.3; charts 0.9)"
        lines.append(
            f"expect {like.expect}: {start} has {like.nats:.1f} nats a word for these captions (everyday photos "
            f"that it has not seen: about 3; charts: 5){shift}"
        )
    judging = f", {duration(takes.judging)} to see what a training gains" if takes.judging else ""
    training = f", {duration(takes.training)} for {plural(takes.updates, 'update')}" if takes.updates else ""
    choosing = f", {duration(takes.generation)} to choose the generation settings" if takes.generation else ""
    lines.append(
        f"it takes about {duration(takes.seconds)} here: {duration(takes.encoding)} to encode the photos{judging}"
        f"{training}{choosing}; {takes.memory / 1e9:.1f} GB of memory, and on the disk {takes.disk / 1e6:,.0f} MB for "
        f"the encoded photos and {takes.model / 1e6:,.0f} for the model and the state of its training"
    )
    if not takes.updates:
        lines.append("training will probably not help; then it ends with the start model")
    return lines


def in_words(inspection: "Inspection", tokens: str = "words") -> list[str]:
    """What captions are like, as lines; ``tokens`` is what they consist of."""
    from show_attend_tell.data.inspection import ENGLISH
    from show_attend_tell.training.presets.custom import START

    shortest, low, middle, high, longest = inspection.lengths
    lines = [
        f"captions: {shortest} to {longest} {tokens}, half of them {low} to {high}, the middle one {middle}",
        f"vocabulary: {inspection.words:,} different {tokens} in train, {inspection.once:,} of them once; "
        f"{inspection.learnt:,} are learnt",
    ]
    if inspection.coverage is not None:
        unknown = f"; not: {first_three(inspection.not_covered)}" if inspection.not_covered else ""
        lines.append(f"coverage: {100 * inspection.coverage:.1f} % of the {tokens} of val captions are learnt{unknown}")
    language = inspection.language
    if language.script == "Latin":
        verdict = "English" if language.is_english else "not English"
        lines.append(
            f"language: {100 * language.english:.0f} % of the words are English words that {START} knows, so {verdict} "
            f"(from {100 * ENGLISH:.0f} % on it counts as such)"
        )
    else:
        lines.append(f"language: {language.script or 'unknown'} script")
    rules = (
        (inspection.very_long, "longer than the model's captions can be"),
        (
            inspection.other_language,
            "of another script than most; or, by their share of English words, not of the language of the rest",
        ),
    )
    for captions, what in rules:
        if captions:
            lines.append(f"to look at: {plural(len(captions), 'caption')} {what}")
            lines += [f"  {odd.photo} ({odd.why}): {shorten(odd.caption)}" for odd in captions[:SHOWN]]
    if inspection.sides:
        often = first_three(word for word, _ in Counter(odd.why for odd in inspection.sides).most_common())
        lines.append(
            f"{plural(len(inspection.sides), 'caption')} with a side or readable text ({often}): a training shows "
            "their photos unmirrored only (--set mirror_sides=true mirrors them too)"
        )
    return lines
