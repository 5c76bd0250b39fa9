"""The model card: what a model is, what it was trained on, and what it scores, in Markdown."""

from typing import TYPE_CHECKING, Any

from show_attend_tell.checkpoint.records import Decoding

if TYPE_CHECKING:
    from show_attend_tell.checkpoint.checkpoint import Checkpoint


def card(checkpoint: "Checkpoint", name: str) -> str:
    """The model card, in Markdown."""
    config = checkpoint.decoder.config
    by = ", by the likeliest places" if config.attention == "hard" else ""
    known = {"validation_bleu_4": f"BLEU-4 on val with brevity penalty{by}"}
    entries = [(key, value) for key, value in checkpoint.training.items() if key != "settings"]
    lines = [
        f"# {name}",
        "",
        f"{config.title} Made with show-attend-tell.",
        "",
        f"- Encoder: {checkpoint.encoder.name}, frozen"
        + (" until fine-tuned" if checkpoint.tuned_encoder is not None else "")
        + f"; weights SHA-256 `{checkpoint.encoder.digest}`; photos are "
        + (
            "squashed to a square"
            if checkpoint.encoder.preprocessing.geometry == "squash"
            else "cropped to the centre square"
        )
        + f" of {checkpoint.encoder.preprocessing.size} pixels.",
        f"- Decoder: {config.sizes}, {config.vocabulary_size:,} words.",
        *(
            []
            if checkpoint.reranker is None
            else [f"- Visual n-grams, which captions are ranked by too: {checkpoint.reranker}."]
        ),
        f"- Decoding defaults: {checkpoint.decoding.summary()}; look by {checkpoint.decoding.look}.",
        "",
        "## Training",
        "",
        *(f"- {known.get(key, key.replace('_', ' '))}: {told(value)}" for key, value in entries),
        "",
        "## Scores",
        "",
        *(score_lines(checkpoint.scores) or ["Not evaluated yet."]),
        "",
        "## Use",
        "",
        "Captions may be wrong, and repeat the habits of the people who described the training photos, "
        "about people above all. "
        + ("" if config.attention == "none" else "Look at the attention before trusting a word. ")
        + "Do not use it to identify or judge people.",
    ]
    return "\n".join(lines) + "\n"


def told(value: Any) -> str:
    """A value as a card says it: the entries of a dictionary one after the other."""
    return ", ".join(f"{key}: {entry}" for key, entry in value.items()) if isinstance(value, dict) else str(value)


def score_lines(scores: dict[str, Any]) -> list[str]:
    """A Markdown table of scores by split, ×100."""
    names = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l", "cider"]
    rows = []
    for split, found in sorted(scores.items()):
        for kind, suffix in (("with brevity penalty", ""), ("without", "_no_brevity")):
            cells = [found.get(n + suffix if n.startswith("bleu") else n) for n in names]
            rows.append(f"| {split}, {kind} | " + " | ".join("–" if c is None else f"{c:.1f}" for c in cells) + " |")
    if not rows:
        return []
    numbers = ("beam", "length_normalisation", "reranker_weight")
    made = {}
    for split, found in sorted(scores.items()):
        decoding = Decoding().but(**{name: found.get(name) for name in numbers})
        made[split] = f"{found['tokens']} tokens; {decoding.summary()}; look by {found['look']}"
    alike = len(set(made.values())) == 1
    legend = next(iter(made.values())) if alike else ". ".join(f"{split}: {one}" for split, one in made.items())
    return [
        "| split | B-1 | B-2 | B-3 | B-4 | METEOR | ROUGE-L | CIDEr |",
        "| " + " | ".join(["---"] * 8) + " |",
        *rows,
        "",
        f"×100; {legend}.",
    ]
