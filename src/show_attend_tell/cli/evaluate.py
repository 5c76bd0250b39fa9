"""`sat evaluate` and `sat score`: scores of a model's captions, and of captions from anywhere."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from show_attend_tell.cli.command import (
    PATH,
    BaseCommand,
    check_targets,
    device_option,
    json_option,
    log_printed,
    model_option,
    note,
    weights_option,
    write_output,
)
from show_attend_tell.cli.options import F, generation_options
from show_attend_tell.data.tokenizers import Tokens
from show_attend_tell.errors import SatError

if TYPE_CHECKING:
    from show_attend_tell.metrics.scores import Evaluation

EVALUATE_EXAMPLES = """
\b
Examples:
  sat evaluate --model flickr8k-soft --data flickr8k/ --split test
  sat evaluate --model my-model --data flickr8k/ --split val --beam-size 3 --json scores.json
  sat evaluate --model flickr8k-hard --data flickr8k/ --attention --json hard.json
"""

SCORE_EXAMPLES = """
\b
Examples:
  sat score captions.json dataset_flickr8k.json --split test
  sat score captions.json captions_val2014.json --tokens ptb
  sat score captions.txt reference-1.txt reference-2.txt --json scores.json
  sat score captions.json dataset_coco.json --references 5      as the paper and sat evaluate count
"""


def tokens_option(default: str) -> Callable[[F], F]:
    """``--tokens``; ``default`` says which they are where it is not given."""
    return click.option(
        "--tokens",
        type=click.Choice(get_args(Tokens)),
        help="Tokens that are compared: split (those of the split file), english (the same, but numbers keep their "
        "decimal points), raw (raw references, split at spaces), ptb (PTB tokens of the raw captions), unicode (words "
        f"by the rules of Unicode) or characters (for scripts without spaces). [default: {default}]",
    )


@click.command(cls=BaseCommand, epilog=EVALUATE_EXAMPLES)
@model_option()
@click.option("--data", type=PATH, required=True, help="Folder of captioned photos, as for sat train.")
@click.option("--split", default="test", show_default=True, help="Part of the data: train, val or test.")
@generation_options
@tokens_option("those of the model's tokenizer")
@json_option("the scores and the captions")
@click.option("--attention", is_flag=True, help="With --json: evidence and attention maps too, about 60 kB a photo.")
@weights_option
@device_option
def evaluate(
    model: str,
    data: Path,
    split: str,
    generation: dict[str, Any],
    tokens: Any,
    json_file: str | None,
    attention: bool,
    **loading: Any,
) -> None:
    """Caption a part of a data set, and score the captions.

    Scores are ×100: BLEU with and without brevity penalty, METEOR, ROUGE-L, CIDEr and SPICE.
    """
    from show_attend_tell import evaluation
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.data.datasets import read_dataset
    from show_attend_tell.vision.feature_cache import default_cache

    check_targets(json_file, read=[data, loading["encoder_weights"], model])
    if attention and not json_file:
        raise SatError("--attention goes into the JSON file: give --json FILE too")
    dataset = read_dataset(data)
    for remark in dataset.report.remarks():
        note(remark)
    captioner = Captioner.from_pretrained(model, **loading)
    config = captioner.resolve_config(**generation)
    with log_printed(notes=True):
        result = evaluation.evaluate(
            captioner, dataset, split, config, cache=default_cache(), tokens=tokens, attention=attention
        )
    settings = result.settings
    title = f"{settings['model']} on {settings['data']} {split}"
    how = f"{config.summary()}, attention mode {config.attention_mode}"
    write_scores(json_file, result, title, how)


@click.command(cls=BaseCommand, epilog=SCORE_EXAMPLES)
@click.argument("hypotheses", type=PATH)
@click.argument("references", nargs=-1, required=True, type=PATH)
@click.option("--split", help="Part of Karpathy's split file. [default: test]")
@tokens_option(
    "those of HYPOTHESES if it is a file of sat evaluate or sat score, otherwise those of the references' language, "
    "split for English and for the paper's data sets"
)
@click.option(
    "--references",
    "most",
    type=click.IntRange(1),
    help="Number of references that count for a photo, from the first on. [default: all]",
)
@json_option("the scores and the captions")
def score(
    hypotheses: Path,
    references: tuple[Path, ...],
    split: str | None,
    tokens: Any,
    most: int | None,
    json_file: str | None,
) -> None:
    """Score captions of any system against references.

    Scores are ×100: BLEU with and without brevity penalty, METEOR, ROUGE-L, CIDEr and SPICE.

    HYPOTHESES is COCO results JSON, a file of sat evaluate --json, JSON lines, a table with or without column names
    (photo,caption), or a text file with one caption per line. REFERENCES is a data folder, Karpathy's split
    file, COCO's captions JSON, Flickr's token file, or files in those formats. Captions are cleaned as for sat
    train. Photos are matched by name or number; plain text files have neither, so their lines are matched by order.
    """
    from show_attend_tell.checkpoint.hub import DEFAULT_MODEL, SHIPPED
    from show_attend_tell.data.vocabulary import Vocabulary
    from show_attend_tell.metrics.caption_files import read_captions, read_references, tokens_of
    from show_attend_tell.metrics.scores import score_entries

    check_targets(json_file, read=[hypotheses, *references])
    english = frozenset(Vocabulary.load(SHIPPED / DEFAULT_MODEL / "vocabulary.json").words)
    wanted = read_references(
        references, split=split or "test", tokens=tokens or tokens_of(hypotheses), english=english, most=most
    )
    if split and wanted.split is None:
        raise SatError(f"--split {split}: {wanted.source} has no splits, so leave it out")
    captions = read_captions(hypotheses, wanted)
    for remark in wanted.notes:
        note(remark)
    result = score_entries(
        [{"photo": photo, "caption": captions[photo]} for photo in wanted.texts],
        wanted.texts,
        tokens=wanted.tokens,
        training=wanted.training,
        settings={"model": hypotheses.stem, "data": wanted.name, "split": wanted.split},
    )
    title = f"{hypotheses.stem} on {wanted.name if wanted.split is None else f'{wanted.name} {wanted.split}'}"
    write_scores(
        json_file, result, title, wanted.language and f"the references are {wanted.language} (--tokens chooses)"
    )


def write_scores(json_file: str | None, result: "Evaluation", title: str, how: str = "") -> None:
    """Print an evaluation's figures, how they were made, and write it as JSON, a caption a line; "-": JSON alone."""
    content = result.to_dict()
    tokens = "scores count characters" if content["tokens"] == "characters" else f"{content['tokens']} tokens"
    tokenizer = f"tokenizer {content['tokenizer']}" if "tokenizer" in content else ""
    if json_file != "-":
        conditions = ", ".join(filter(None, (how, tokens, tokenizer)))
        click.echo("\n".join([f"{title}: {len(result.results)} captions, {conditions}", *_lines(result)]))
    if json_file:
        captions = ",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in content.pop("results"))
        head = json.dumps(content, ensure_ascii=False, indent=1).removesuffix("\n}")
        write_output(json_file, f'{head},\n "results": [\n{captions}\n ]\n}}\n')


def _lines(result: "Evaluation") -> list[str]:
    """The figures of an evaluation, in lines for a terminal."""
    from show_attend_tell.metrics.table import besides_bleu

    corpus = result.scores.corpus
    variety = result.variety

    def figure(name: str) -> str:
        value = corpus[name]
        return f"– ({result.scores.missing[name]})" if value is None else f"{value:.1f}"

    lines = []
    for kind, suffix in (("with brevity penalty", ""), ("without", "_no_brevity")):
        figures = "  ".join(f"B-{n} {figure(f'bleu_{n}{suffix}')}" for n in (1, 2, 3, 4))
        lines.append(f"  BLEU {kind:<21} {figures}")
    others = [(f"{label} {figure(name)}", corpus[name] is None) for name, label in besides_bleu().items()]
    lines.append("  " + "  ".join(text for text, missing in others if not missing))
    lines += [f"  {text}" for text, missing in others if missing]
    if len(result.results) == 1:
        lines.append(
            "  CIDEr is 0 for one photo: it weighs words by how few photos have them, so it needs several photos"
        )
    truncated = "–" if variety.truncated is None else f"{variety.truncated:.1f} %"
    lines.append(
        f"  {variety.words_used:,} different words; {variety.distinct:.0f} % of "
        f"the captions distinct, {variety.repetitive:.1f} % repetitive, {truncated} truncated"
    )
    return lines
