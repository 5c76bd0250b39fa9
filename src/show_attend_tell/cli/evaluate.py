"""`sat evaluate` and `sat score`: scores of a model's captions, and of captions from anywhere."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.command import (
    BaseCommand,
    cache_option,
    check_targets,
    data_option,
    device_option,
    fail,
    json_option,
    model_option,
    seed_option,
    split_option,
    was_given,
    weights_option,
    write_output,
)
from show_attend_tell.cli.options import F, generation_options
from show_attend_tell.errors import SatError
from show_attend_tell.files import check_writable

EVALUATE_EXAMPLES = """
\b
Examples:
  sat evaluate --model flickr8k-soft --data flickr8k/ --split test
  sat evaluate --model my-model --data flickr8k/ --split val --beam-size 3 --json scores.json
  sat evaluate --model flickr8k-hard --data flickr8k/ --attention --json hard.json
  sat evaluate --model nic-1 --model nic-2 --model nic-3 --data flickr8k/
"""

SCORE_EXAMPLES = """
\b
Examples:
  sat score captions.json dataset_flickr8k.json --split test
  sat score captions.json captions_val2014.json --tokens ptb
  sat score captions.txt reference-1.txt reference-2.txt --json scores.json
"""


def tokens_option(default: str) -> Callable[[F], F]:
    """``--tokens``; ``default`` says which they are where it is not given."""
    return click.option(
        "--tokens",
        type=click.Choice(["split", "raw", "ptb", "unicode", "characters"]),
        help="Tokens that are compared: split (those of the split file), raw (raw references, parted at spaces), ptb "
        "(PTB tokens of the raw captions), unicode (words by the rules of Unicode) or characters (for scripts without "
        f"spaces). [default: {default}]",
    )


@click.command(cls=BaseCommand, examples=EVALUATE_EXAMPLES)
@model_option(several="Give it several times for an ensemble, which averages their probabilities.")
@data_option
@split_option("test")
@generation_options
@tokens_option("those of the model's language, split for English")
@seed_option("sampled places")
@json_option("the scores and the captions")
@click.option("--attention", is_flag=True, help="With --json: attention maps too, about 30 kB a photo.")
@click.option(
    *("--gaze", "--gaze-photos", "--gaze-encoded"),
    is_flag=True,
    is_eager=True,
    hidden=True,
    expose_value=False,
    callback=lambda ctx, parameter, given: given and fail("--gaze is now a command: use sat analyze ablation", 2),
)
@click.option("--card", is_flag=True, help="Scores are also written on the model's card; --model must be a folder.")
@weights_option
@cache_option
@device_option
def evaluate(
    models: tuple[str, ...],
    data: Path,
    split: str,
    generation: dict[str, Any],
    tokens: Any,
    seed: int,
    json_file: str | None,
    attention: bool,
    card: bool,
    encoder_weights: str | None,
    cache: Path | None,
    device: str,
) -> None:
    """Caption a part of a data set, and score the captions.

    Scores are ×100: BLEU with and without brevity penalty, METEOR, ROUGE-L, CIDEr and SPICE.
    """
    from show_attend_tell import evaluation as run
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.checkpoint.card import figures
    from show_attend_tell.checkpoint.hub import find_model, named
    from show_attend_tell.data.datasets import read_dataset
    from show_attend_tell.vision.feature_cache import default_cache

    check_targets(json_file, read=[data, encoder_weights], models=models)
    if attention and not json_file:
        raise SatError("--attention goes into the JSON file: give --json FILE too")
    if card and not (len(models) == 1 and Path(models[0]).is_dir() and find_model(models[0]) == named(models[0])):
        raise SatError(f"--card writes into the model's folder, and {' + '.join(models)} is not one")
    for name in ("README.md", "config.json") if card else ():
        check_writable(Path(models[0]) / name, make=True)
    dataset = read_dataset(data)
    captioner = Captioner.from_pretrained(*models, device=device, encoder_weights=encoder_weights)
    result = run.evaluate(
        captioner,
        dataset,
        split,
        cache=cache or default_cache(),
        tokens=tokens,
        attention=attention,
        seed=seed,
        **generation,
    )
    if json_file != "-":  # before the file, which may not be writable any more
        click.echo(
            f"{result['model']} on {result['data']} {split}: {result['captions']} captions, beam {result['beam']}, "
            f"look by {result['look']}, {compared_by(result)}"
        )
        print_scores(result)
    write_scores(json_file, result)
    if card:
        model = captioner.checkpoint
        scored = [[example.name, *example.raw] for example in dataset.split(split)]
        digest = hashlib.sha256(json.dumps(scored).encode()).hexdigest()
        own = model.training.get("data") == result["data"]
        row = split if own else f"{result['data']}, {split}"
        if not _same_data(model.scores.get(row, {}), result, digest):  # another folder of that name
            row = f"{data.resolve()}, {split}"
        model.scores[row] = {**figures(result), "digest": digest}
        model.describe(models[0])


def _same_data(before: dict[str, Any], result: dict[str, Any], digest: str) -> bool:
    """Whether scores on a card are of the photos and captions that an evaluation is of, as far as they tell."""
    now = {"digest": digest, "captions": result["captions"]}
    return all(before.get(name, value) == value for name, value in now.items())


@click.command(cls=BaseCommand, examples=SCORE_EXAMPLES)
@click.argument("hypotheses", type=click.Path(path_type=Path))
@click.argument("references", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--split", default="test", show_default=True, help="Part of Karpathy's split file.")
@tokens_option("those of HYPOTHESES if it is a file of sat evaluate or sat score, otherwise split")
@json_option("the scores and the captions")
def score(hypotheses: Path, references: tuple[Path, ...], split: str, tokens: Any, json_file: str | None) -> None:
    """Score captions of any system against references.

    Scores are ×100: BLEU with and without brevity penalty, METEOR, ROUGE-L, CIDEr and SPICE.

    HYPOTHESES is COCO results JSON, a file of sat evaluate --json, or a text file with one caption per line. REFERENCES
    is Karpathy's split file, COCO's captions JSON, or text files. Each text file has one reference of each photo, one
    photo per line.
    """
    from show_attend_tell.metrics.caption_files import read_captions, read_references, tokens_of
    from show_attend_tell.metrics.scores import check_scorers, score_entries

    check_targets(json_file, read=[hypotheses, *references])
    check_scorers()
    tokens = tokens or tokens_of(hypotheses) or "split"
    wanted = read_references(references, split=split, tokens=tokens)
    if wanted.split is None and was_given("split"):
        raise SatError(f"--split {split}: {wanted.source} has no splits, so leave it out")
    captions = read_captions(hypotheses, wanted, tokens=tokens)
    entries = [{"photo": photo, "caption": captions[photo]} for photo in wanted.texts]
    result = {
        **score_entries(entries, wanted.texts, tokens=tokens, training=wanted.training, show=True),
        "model": hypotheses.stem,
        "data": wanted.name,
        "split": wanted.split,
    }
    if json_file != "-":
        where = wanted.name if wanted.split is None else f"{wanted.name} {wanted.split}"
        click.echo(f"{hypotheses.stem} on {where}: {result['captions']} captions, {compared_by(result)}")
        print_scores(result)
    write_scores(json_file, result)


def compared_by(result: dict[str, Any]) -> str:
    """What the scores of an evaluation compare, in words, with the model's tokenizer if it is not the English one."""
    by = f", tokenizer {result['tokenizer']}" if "tokenizer" in result else ""
    return ("scores count characters" if result["tokens"] == "characters" else f"{result['tokens']} tokens") + by


def print_scores(result: dict[str, Any]) -> None:
    """Print the figures of an evaluation."""
    for kind, suffix in (("with brevity penalty", ""), ("without", "_no_brevity")):
        figures = "  ".join(f"B-{n} {result[f'bleu_{n}{suffix}']:.1f}" for n in (1, 2, 3, 4))
        click.echo(f"  BLEU {kind:<21} {figures}")

    def figure(name: str) -> str:
        return f"– ({result[f'{name}_missing']})" if result[name] is None else f"{result[name]:.1f}"

    click.echo(f"  METEOR {figure('meteor')}  ROUGE-L {result['rouge_l']:.1f}  CIDEr {result['cider']:.1f}")
    click.echo(f"  SPICE {figure('spice')}")
    variety = result["variety"]
    against_training = ""
    if "not_in_training" in variety:
        against_training = f", {variety['not_in_training']:.0f} % not in training"
    broken_off = "–" if variety["broken_off"] is None else f"{variety['broken_off']:.1f} %"
    click.echo(
        f"  {variety['words_used']:,} different words, {variety['mean_length']:.1f} a caption; "
        f"{variety['distinct']:.0f} % of the captions distinct, {variety['repetitive']:.1f} % repetitive"
        f"{against_training}, {broken_off} broken off"
    )


def write_scores(json_file: str | None, result: dict[str, Any]) -> None:
    """Write an evaluation as JSON, one caption a line, to a file or to standard output ("-"), if one is named."""
    if not json_file:
        return
    captions = ",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in result["results"])
    figures = {name: value for name, value in result.items() if name != "results"}
    head = json.dumps(figures, ensure_ascii=False, indent=1).removesuffix("\n}")
    text = f'{head},\n "results": [\n{captions}\n ]\n}}\n'
    write_output(json_file, text)
