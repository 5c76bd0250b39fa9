"""`sat evaluate`: a model's scores on a split."""

import json
from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.shared import Teaching, cache_option, check_target, device_option, weights_option, write_text
from show_attend_tell.errors import SatError

EXAMPLES = """
\b
Examples:
  sat evaluate --model flickr8k-soft --data flickr8k/ --split test
  sat evaluate --model my-model --data flickr8k/ --split val --beam 3 --json scores.json
"""


@click.command(cls=Teaching, examples=EXAMPLES)
@click.option("--model", default="flickr8k-soft", show_default=True, help="A shipped model, a folder, or a hub id.")
@click.option("--data", type=click.Path(path_type=Path), required=True, help="A folder as for sat train.")
@click.option("--split", default="test", show_default=True, help="train, val or test.")
@click.option("--beam", type=click.IntRange(1, 100), help="[default: the model's]")
@click.option("--look", type=click.Choice(["expectation", "likeliest", "sampled"]), help="[default: the model's]")
@click.option("--length-normalisation", type=click.FloatRange(0), help="γ of log p / length^γ. [default: the model's]")
@click.option(
    "--tokens",
    type=click.Choice(["split", "ptb"]),
    default="split",
    show_default=True,
    help="What is compared: the data set's own tokens, or PTB tokens of the raw captions.",
)
@click.option(
    "--bound",
    type=click.IntRange(1),
    metavar="N",
    help="Also the lower bound L_s of log p by N sampled sequences of places (first caption of each photo).",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of sampled places.")
@click.option("--json", "json_file", metavar="FILE", help="Write the scores and the captions; - is standard output.")
@click.option("--card", is_flag=True, help="Write the scores on the model's card too; --model must be a folder.")
@weights_option
@cache_option
@device_option
def evaluate(
    model: str,
    data: Path,
    split: str,
    beam: int | None,
    look: Any,
    length_normalisation: float | None,
    tokens: Any,
    bound: int | None,
    seed: int,
    json_file: str | None,
    card: bool,
    encoder_weights: str | None,
    cache: Path | None,
    device: str,
) -> None:
    """Score a model on a split: BLEU with and without brevity penalty, METEOR, ROUGE-L and CIDEr, ×100."""
    from show_attend_tell import pipeline
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.datasets import read_dataset
    from show_attend_tell.features import default_cache

    check_target(json_file)
    if card and not Path(model).is_dir():
        raise SatError(f"--card writes into the model's folder, and {model} is not one")
    dataset = read_dataset(data)
    captioner = Captioner.from_pretrained(model, device=device, encoder_weights=encoder_weights)
    result = pipeline.evaluate(
        captioner,
        dataset,
        split,
        cache=cache or default_cache(),
        beam=beam,
        look=look,
        length_normalisation=length_normalisation,
        tokens=tokens,
        bound_samples=bound or 0,
        seed=seed,
    )
    if card:
        kept = {name: value for name, value in result.items() if name not in ("results", "variety", "model", "split")}
        captioner.checkpoint.scores[split] = kept
        captioner.checkpoint.describe(model)
    text = json.dumps(result, ensure_ascii=False, indent=1) + "\n"
    if json_file == "-":
        click.echo(text, nl=False)
        return
    if json_file:
        write_text(Path(json_file), text)
    click.echo(
        f"{result['model']} on {result['data']} {split}: {result['captions']} captions, beam {result['beam']}, look by "
        f"{result['look']}, {result['tokens']} tokens"
    )
    for kind, suffix in (("with brevity penalty", ""), ("without", "_no_brevity")):
        figures = "  ".join(f"B-{n} {result[f'bleu_{n}{suffix}']:.1f}" for n in (1, 2, 3, 4))
        click.echo(f"  BLEU {kind:<21} {figures}")
    meteor = f"{result['meteor']:.1f}" if result["meteor"] is not None else f"– ({result['meteor_missing']})"
    click.echo(f"  METEOR {meteor}  ROUGE-L {result['rouge_l']:.1f}  CIDEr {result['cider']:.1f}")
    if bound:
        found = result["bound"]
        click.echo(
            f"  -L_s by {found['samples']} sampled sequences: {found['nats_per_word']:.3f} nats a word, "
            f"{found['nats_per_caption']:.2f} a caption; entropy of alpha {found['entropy']:.2f} nats"
        )
