"""`sat evaluate`: a model's scores on a split."""

from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.shared import (
    Teaching,
    cache_option,
    check_targets,
    device_option,
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
  sat evaluate --model flickr8k-hard --data flickr8k/ --gaze --json hard.json
  sat evaluate --model nic-1 --model nic-2 --model nic-3 --data flickr8k/
"""


@click.command(cls=Teaching, examples=EXAMPLES)
@click.option(
    "--model",
    "models",
    multiple=True,
    default=["flickr8k-soft"],
    show_default=True,
    help="A shipped model, a folder, or a hub id; several are an ensemble, which averages their probabilities.",
)
@click.option("--data", type=click.Path(path_type=Path), required=True, help="A folder as for sat train.")
@click.option("--split", default="test", show_default=True, help="train, val or test.")
@click.option("--beam", type=click.IntRange(1, 100), help="[default: the model's]")
@click.option("--look", type=click.Choice(["expectation", "likeliest", "sampled"]), help="[default: the model's]")
@click.option("--length-normalisation", type=click.FloatRange(0), help="γ of log p / length^γ. [default: the model's]")
@click.option(
    "--reranker-weight",
    type=click.FloatRange(0),
    help="ω, the weight of a caption's agreement with the photo's visual n-grams; 0: log p alone. [default: the "
    "model's]",
)
@tokens_option
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of sampled places.")
@click.option("--json", "json_file", metavar="FILE", help="Write the scores and the captions; - is standard output.")
@click.option("--attention", is_flag=True, help="With --json: also where each word looked, about 30 kB a photo.")
@click.option(
    "--gaze",
    "with_gaze",
    is_flag=True,
    help="Also whether it looks where it should: what hiding the places that it attended to costs each word.",
)
@click.option("--gaze-photos", type=click.IntRange(2), default=200, show_default=True, help="Drawn by the seed.")
@click.option(
    "--gaze-encoded",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="Of these, hidden in the photo itself too; takes 60 encodings each.",
)
@click.option("--card", is_flag=True, help="Write the scores on the model's card too; --model must be a folder.")
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
    with_gaze: bool,
    gaze_photos: int,
    gaze_encoded: int,
    card: bool,
    encoder_weights: str | None,
    cache: Path | None,
    device: str,
) -> None:
    """Score a model on a split: BLEU with and without brevity penalty, METEOR, ROUGE-L, CIDEr and SPICE, ×100."""
    from show_attend_tell.analysis.occlusion import gaze, gaze_table
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.data.datasets import read_dataset
    from show_attend_tell.scoring import run
    from show_attend_tell.vision.feature_cache import default_cache

    check_targets(json_file, read=[data])
    if attention and not json_file:
        raise SatError("--attention goes into the JSON file: give --json FILE too")
    if gaze_encoded == 1:
        raise SatError("--gaze-encoded 1 gives no interval: give 2 or more, or 0 for none")
    if card and not (len(models) == 1 and Path(models[0]).is_dir()):
        raise SatError(f"--card writes into the model's folder, and {' + '.join(models)} is not one")
    dataset = read_dataset(data)
    if with_gaze and len(dataset.split(split)) < 2:
        raise SatError(f"--gaze draws photos of the split {split}, and it has one: it takes 2 or more")
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
    if with_gaze:
        used = {name: result[name] for name in ("beam", "look", "length_normalisation", "reranker_weight")}
        result["gaze"] = gaze(
            captioner,
            dataset.split(split),
            photos=gaze_photos,
            encoded=gaze_encoded,
            seed=seed,
            decoding=captioner.checkpoint.decoding.but(**used),
        )
    if card:
        left_out = ("results", "variety", "gaze", "model", "split", "meteor_missing", "spice_missing")
        kept = {name: value for name, value in result.items() if name not in left_out}
        captioner.checkpoint.scores[split] = kept
        captioner.checkpoint.describe(models[0])
    if write_scores(json_file, result):
        return
    click.echo(
        f"{result['model']} on {result['data']} {split}: {result['captions']} captions, beam {result['beam']}, look by "
        f"{result['look']}, {result['tokens']} tokens"
    )
    tell_scores(result)
    if with_gaze:
        click.echo(gaze_table(result["gaze"]))
