"""`sat evaluate`: a model's captions of a split, and their scores."""

from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.command import (
    Teaching,
    beam_option,
    cache_option,
    check_targets,
    data_option,
    device_option,
    fail,
    json_option,
    look_option,
    ranking_options,
    seed_option,
    split_option,
    tell_scores,
    tokens_option,
    weights_option,
    write_scores,
)
from show_attend_tell.errors import SatError

EXAMPLES = """
\b
Examples:
  sat evaluate --model flickr8k-soft --data flickr8k/ --split test
  sat evaluate --model my-model --data flickr8k/ --split val --beam 3 --json scores.json
  sat evaluate --model flickr8k-hard --data flickr8k/ --attention --json hard.json
  sat evaluate --model nic-1 --model nic-2 --model nic-3 --data flickr8k/
"""


@click.command(cls=Teaching, examples=EXAMPLES)
@click.option(
    "--model",
    "models",
    multiple=True,
    default=["flickr8k-soft"],
    show_default=True,
    help="Shipped model, folder or hub id. Give it several times for an ensemble, which averages their probabilities.",
)
@data_option
@split_option("test")
@beam_option
@look_option
@ranking_options
@tokens_option
@seed_option("sampled places")
@json_option("the scores and the captions")
@click.option("--attention", is_flag=True, help="With --json: attention maps too, about 30 kB a photo.")
@click.option(
    *("--gaze", "--gaze-photos", "--gaze-encoded"),
    is_flag=True,
    is_eager=True,
    hidden=True,
    expose_value=False,
    callback=lambda ctx, parameter, given: given and fail("--gaze is now a command: use sat analyse gaze", 2),
)
@click.option("--card", is_flag=True, help="Scores are also written on the model's card; --model must be a folder.")
@weights_option
@cache_option
@device_option
def evaluate(
    models: tuple[str, ...],
    data: Path,
    split: str,
    beam: int | None,
    look: Any,
    length_normalisation: float | None,
    reranker_weight: float | None,
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
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.checkpoint.card import figures
    from show_attend_tell.checkpoint.find import find_model, named
    from show_attend_tell.data.datasets import read_dataset
    from show_attend_tell.scoring import run
    from show_attend_tell.vision.feature_cache import default_cache

    check_targets(json_file, read=[data])
    if attention and not json_file:
        raise SatError("--attention goes into the JSON file: give --json FILE too")
    if card and not (len(models) == 1 and Path(models[0]).is_dir() and find_model(models[0]) == named(models[0])):
        raise SatError(f"--card writes into the model's folder, and {' + '.join(models)} is not one")
    dataset = read_dataset(data)
    captioner = Captioner.from_pretrained(*models, device=device, encoder_weights=encoder_weights)
    result = run.evaluate(
        captioner,
        dataset,
        split,
        cache=cache or default_cache(),
        beam=beam,
        look=look,
        length_normalisation=length_normalisation,
        reranker_weight=reranker_weight,
        tokens=tokens,
        attention=attention,
        seed=seed,
    )
    if card:
        captioner.checkpoint.scores[split] = figures(result)
        captioner.checkpoint.describe(models[0])
    if write_scores(json_file, result):
        return
    click.echo(
        f"{result['model']} on {result['data']} {split}: {result['captions']} captions, beam {result['beam']}, look by "
        f"{result['look']}, {result['tokens']} tokens"
    )
    tell_scores(result)
