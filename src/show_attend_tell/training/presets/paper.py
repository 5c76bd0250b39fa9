"""The paper's settings (sec. 4.3), with the authors' program's wherever the paper is silent.

Flickr8k's optimiser, RMSProp. Departures: batches take every caption once an epoch instead of drawing lengths for
ever, weights start uniform in ±1/√(inputs) (`AttentionDecoder.initialise`), and the constants of the reward (λ_r = 1)
and of the soft penalty (λ = 0.33) are a reading, since the paper gives none. Selection is by validation BLEU-4 with
brevity penalty, greedy.

Reached: not yet run here in full.
"""

from dataclasses import replace

from show_attend_tell.model.decoder import DecoderConfig
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.losses import HardObjective, SoftObjective

DECODER = DecoderConfig(attention="soft", gate=True, output_tanh=False)
SOFT = TrainingConfig(
    decoder=DECODER,
    soft=SoftObjective(doubly_stochastic=0.33),
    optimiser="rmsprop",
    learning_rate=1e-4,
)
HARD = replace(
    SOFT,
    decoder=replace(DECODER, attention="hard", gate=False),
    hard=HardObjective(
        samples=1, reward_weight=1.0, entropy_weight=0.002, coin="image", reward="sentence", baseline="moving"
    ),
)
