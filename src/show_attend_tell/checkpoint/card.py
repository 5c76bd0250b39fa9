"""The model card: what a model is, what it was trained on, and what it scores, in Markdown."""

import json
import textwrap
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from show_attend_tell.checkpoint.packing import Arrays
from show_attend_tell.checkpoint.records import Description
from show_attend_tell.metrics.table import METRICS, besides_bleu
from show_attend_tell.search.config import GenerationConfig

WIDTH = 100  # columns of a line of Markdown
HUB = {"pipeline_tag": "image-to-text", "library_name": "show-attend-tell", "tags": ["image-captioning", "attention"]}
PICTURE = "example.jpg"  # of a model's folder, where there is one
SHOWN = f"![A photo by this model: its caption, and bright what supported each word]({PICTURE})\n\n"
NOT_KEPT = ("results", "variety", "model", "split")  # of an evaluation
USE = (
    "- To see, test, teach and train attention, and for captions that a person checks.",
    "- Not to identify or judge people, and not where a wrong caption does harm.",
)
SHAPES = {
    "squash": "squashed to a square",
    "squash-256": "squashed to 256×256, then enlarged to a square",
    "crop": "cropped to the centre square",
}
TITLES = {  # of entries of a model's training
    "epochs": "Best epoch",
    "validation_bleu_4": "Best BLEU-4 on val with brevity penalty",
    "validation_bleu_4_no_brevity": "Best BLEU-4 on val without brevity penalty",
    "validation_cider": "Best CIDEr on val",
    "without_reranker": "Best on val without the reranker",
}
READS = {"mean": "α's weighted mean", "argmax": "the location of the largest α", "sample": "a location drawn from α"}


def card(model: Any, name: str) -> str:
    """The card of a `Checkpoint`, in Markdown, under a name."""
    attention = model.config.attention
    purpose = model.training.get("purpose", "the kind of photos it was trained on")
    sections = {
        "Intended use": [f"- For {purpose}.", *USE],
        "Model": model_lines(model),
        "Training": training_lines(model.training),
        "Scores": score_lines(model.scores) or ["Not evaluated yet."],
        "Limits": limits(attention),
    }
    lines = [f"# {name}", "", f"{model.config.title} Made with show-attend-tell."]
    for title, section in sections.items():
        lines += ["", f"## {title}", "", *section]
    return "\n".join(map(wrapped, lines)) + "\n"


def reads(attention_mode: str) -> str:
    """What the decoder reads in an attention mode, in words."""
    return READS.get(attention_mode, f"what the attention mode {attention_mode} makes of α")


def head(model: Description, folder: Path) -> str:
    """What stands above a card in the file of a model's folder: YAML for the Hugging Face Hub, and the picture."""
    entries = HUB | model.training.get("hub", {})
    lines = [f"{name}: {json.dumps(value)}\n" for name, value in entries.items()]
    return f"---\n{''.join(lines)}---\n\n{SHOWN * (folder / PICTURE).exists()}"


def reranker(kind: str, arrays: Arrays) -> str:
    """What a reranker is, in words."""
    if kind != "ngrams":
        return f"{kind}."
    return (
        f"visual n-grams ({len(arrays['prior']):,} of 1 to 3 words, by {len(arrays['offset'])} directions). For a "
        "photo they predict the words, pairs and triples of words that people would use."
    )


def wrapped(line: str) -> str:
    """A line of prose, or an item of a list, as lines of at most `WIDTH` columns; a table's row stays whole."""
    if line.startswith("|") or not line:
        return line
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def model_lines(model: Any) -> list[str]:
    """What a `Checkpoint` consists of, and how it makes captions."""
    decoder = model.config
    encoder = model.encoder
    generation = model.generation
    frozen = "frozen" if model.tuned_encoder is None else "fine-tuned"
    photos = SHAPES[encoder.preprocessing.resize]
    of = f"weights SHA-256 `{encoder.digest}`" if encoder.digest else "the weights must be given for photos"
    lines = [
        f"- Encoder: {encoder.name}, {frozen}; {of}. Photos are {photos} of {encoder.preprocessing.size} pixels.",
        f"- Decoder: {decoder.sizes}, {decoder.vocabulary_size:,} words.",
        f"- Generation by default: {generation.summary()}; the decoder reads {reads(generation.attention_mode)}.",
    ]
    if not generation.allow_repetitions:
        lines.append("- No caption has a word twice in a row, or the same three words in a row twice.")
    if model.reranker is not None:
        lines.append(
            f"- Reranker: {reranker(*model.reranker)} The model returns the caption of the beam with the best "
            "log p / C^γ + ω r. C is the caption's length with its end token, γ the length penalty, r the caption's "
            "rerank score, its agreement with the prediction, and ω the rerank weight."
            + (" Rare words count more in the rerank score." if generation.rare_word_exponent else "")
        )
    if model.confidence is not None:
        lines.append("- Nouns have a confidence: the probability, by val, that a person would use them.")
    return lines


def training_lines(training: Mapping[str, Any]) -> list[str]:
    """How a model was trained; the settings are in config.json alone."""
    lines = []
    for name, value in training.items():
        title = TITLES.get(name, name.replace("_", " ").capitalize())
        if isinstance(value, dict):
            value = "; ".join(f"{key.replace('_', ' ')}: {figure}" for key, figure in value.items())
        elif name.startswith("stage_"):
            value = f"`{value}`"
        if name not in ("settings", "purpose", "hub"):
            lines.append(f"- {title}: {value}")
    return lines


def limits(attention: str) -> list[str]:
    """What a model with that kind of attention does badly, with the numbers of the page of limits."""
    read = "; hard models read the mean of several locations (6)" if attention == "hard" else ""
    return [
        "The numbers are those of the page of limits in the documentation.",
        "",
        "- Captions are often wrong (1), and the model knows few things (2).",
        "- Captions repeat what people wrote, also their prejudices (3).",
        f"- A high log p or a sharp map is no proof (4); attention explains a part (5){read}.",
        "- A large vision-language model captions any picture better (7).",
        "- Models that learnt from Flickr8k: its terms may limit use (8). A copy may get another caption (10).",
    ]


def figures(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """What a model's configuration keeps of an evaluation: the scores of all captions, and how these were made."""
    left_out = (*NOT_KEPT, *(f"{metric}_missing" for metric in METRICS))
    return {name: value for name, value in evaluation.items() if name not in left_out}


def score_lines(scores: Mapping[str, Any]) -> list[str]:
    """A Markdown table of scores by split, ×100, and how the captions were made; nothing without scores."""
    if not scores:
        return []
    others = {
        name: label for name, label in besides_bleu().items() if any(of_split.get(name) for of_split in scores.values())
    }
    shown = {f"bleu_{n}": f"B-{n}" for n in range(1, 5)} | others
    lines = ["| split | " + " | ".join(shown.values()) + " |", "| --- |" + " ---: |" * len(shown)]
    scored: dict[str, list[str]] = {}  # what was scored, by how it was made
    for split, of_split in scores.items():
        for kind, suffix in (("with brevity penalty", ""), ("without brevity penalty", "_no_brevity")):
            cells = [of_split.get(name + suffix if name.startswith("bleu") else name) for name in shown]
            lines.append(f"| {split}, {kind} | " + " | ".join("–" if c is None else f"{c:.1f}" for c in cells) + " |")
        known = [field.name for field in fields(GenerationConfig) if of_split.get(field.name) is not None]
        generation = GenerationConfig(**{name: of_split[name] for name in known})
        unit = of_split.get("tokens", "split")
        tokens = "scores count characters" if unit == "characters" else f"{unit} tokens"
        how = f"{generation.summary()}; the decoder reads {reads(generation.attention_mode)}; {tokens}"
        scored.setdefault(how, []).append(split)
    lines += ["", "Scores are ×100. How the captions were made:", ""]
    return lines + [f"- {'; '.join(splits)}: {how}." for how, splits in scored.items()]
