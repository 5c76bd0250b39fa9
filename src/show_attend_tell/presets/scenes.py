"""Generated scenes (`show_attend_tell.scenes`), with the encoder `small` trained along from the first batch:

    sat train scenes/ --attention soft --preset scenes --encoder small --geometry squash --fine-tune-encoder 1e-3 ...

Departures from the paper: small sizes and batches, no dropout, annotations layer-normalised, Adam at 1e-3 with a cosine
schedule, λ = 0. Hard, from scratch as well: every caption has one expected and one sampled path instead of a coin, the
expected path's log p is the baseline, and rewards are to go.
"""

from dataclasses import replace

from show_attend_tell.decoder import DecoderConfig
from show_attend_tell.objectives import HardObjective, SoftObjective
from show_attend_tell.training import TrainingConfig

SOFT_DECODER = DecoderConfig(
    embedding_size=64,
    hidden_size=128,
    attention_size=64,
    initial_depth=1,
    gate=False,
    annotation_norm="layer",
    dropout=0.0,
)
SOFT = TrainingConfig(
    decoder=SOFT_DECODER,
    soft=SoftObjective(doubly_stochastic=0.0),
    epochs=12,
    batch_size=16,
    optimiser="adam",
    learning_rate=1e-3,
    warmup=100,
    schedule="cosine",
    clip=5.0,
)
HARD = replace(
    SOFT,
    decoder=replace(SOFT_DECODER, attention="hard"),
    hard=HardObjective(samples=2, coin="image", reward="to_go", baseline="leave_one_out"),
    epochs=6,
    learning_rate=5e-4,
)
