"""`sat score`: the scores of captions from any system."""

from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.command import Teaching, check_targets, json_option, tell_scores, tokens_option, write_scores

EXAMPLES = """
\b
Examples:
  sat score captions.json dataset_flickr8k.json --split test
  sat score captions.json captions_val2014.json --tokens ptb
  sat score captions.txt reference-1.txt reference-2.txt --json scores.json
"""


@click.command(cls=Teaching, examples=EXAMPLES)
@click.argument("hypotheses", type=click.Path(path_type=Path))
@click.argument("references", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--split", default="test", show_default=True, help="Part of Karpathy's split file.")
@tokens_option
@json_option("the scores and the captions")
def score(hypotheses: Path, references: tuple[Path, ...], split: str, tokens: Any, json_file: str | None) -> None:
    """Score captions of any system against references.

    Scores are ×100: BLEU with and without brevity penalty, METEOR, ROUGE-L, CIDEr and SPICE.

    HYPOTHESES is COCO results JSON, a file of sat evaluate --json, or a text file with one caption per line. REFERENCES
    is Karpathy's split file, COCO's captions JSON, or text files. Each text file has one reference of each photo, one
    photo per line.
    """
    from show_attend_tell.scoring.caption_files import read_captions, read_references
    from show_attend_tell.scoring.metrics import check_scorers, score_entries

    check_targets(json_file, read=[hypotheses, *references])
    check_scorers()
    wanted = read_references(references, split=split, tokens=tokens)
    captions = read_captions(hypotheses, wanted, tokens=tokens)
    entries = [{"photo": photo, "caption": captions[photo]} for photo in wanted.texts]
    result = {
        **score_entries(entries, wanted.texts, tokens=tokens, training=wanted.training, show=True),
        "model": hypotheses.stem,
        "data": wanted.name,
        "split": wanted.split,
    }
    if write_scores(json_file, result):
        return
    where = wanted.name if wanted.split is None else f"{wanted.name} {wanted.split}"
    click.echo(f"{hypotheses.stem} on {where}: {result['captions']} captions, {tokens} tokens")
    tell_scores(result)
