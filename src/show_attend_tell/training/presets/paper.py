"""The paper's settings (sec. 4.3), with the authors' program's where the paper is silent.

The optimiser is Flickr8k's, RMSProp. Departures:

- batches take every caption once an epoch, instead of drawing lengths for ever;
- weights start uniform in ±1/√(inputs) (`AttentionDecoder.initialise`);
- the paper gives neither the constant of the reward nor that of the soft penalty. λ_r = 1 and λ = 0.33 are chosen here.

Selection is by val BLEU-4 with brevity penalty, by greedy search.

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
