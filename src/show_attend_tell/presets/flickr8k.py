"""Flickr8k at its best here (placeholder until the search ends)."""

from dataclasses import replace

from show_attend_tell.objectives import HardObjective, SoftObjective
from show_attend_tell.presets import paper

SOFT = replace(
    paper.SOFT,
    decoder=replace(
        paper.SOFT.decoder,
        output_tanh=True,
        attention_size=256,
        tied_embeddings=True,
        annotation_norm="layer",
        annotation_dropout=0.2,
    ),
    soft=SoftObjective(label_smoothing=0.1),
    minimum_count=5,
    flipped=True,
    epochs=12,
    optimiser="adam",
    learning_rate=1e-3,
    warmup=200,
    schedule="cosine",
    averaging=0.999,
)
HARD = replace(
    SOFT,
    decoder=replace(SOFT.decoder, attention="hard"),
    hard=HardObjective(samples=2, coin="both", reward="to_go", baseline="leave_one_out", label_smoothing=0.1),
)
