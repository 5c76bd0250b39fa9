"""The paper's settings (sec. 4.3), with the authors' program's where the paper is silent.

The optimizer is Flickr8k's, RMSProp. research/notes/training.md, "The paper's own recipe", has what differs from it.

The paper gives no values of λ, λ_r and λ_e. Those here are what the authors' program amounts to with batches of 64,
where a loss is the mean over a batch of sums over captions:

- λ = 0.33: its penalty is 1 · Σ over the batch, averaged over the 196 locations.
- λ_r = 0.5: it pays a tenth of a caption's mean log p a word, and adds this up over the batch. 64 / 10 of the mean are
  half of the sum over 12 words. (Its baseline, a mean too, fits all lengths; that of the paper's sum fits a mean one.)
- λ_e = 0.128: its 0.002 is added up over the batch too.

Selection is by val BLEU-4 with brevity penalty, by greedy search, where a hard model reads the mean context, as in the
authors' program, since the paper is silent. A training stops when that has not improved for ten epochs, at the latest
after 20 (soft) or 40 (hard).

Test BLEU-4 without penalty: soft 21.0, 20.2, 19.7 (seeds 1 to 3; two hours of a core); hard 19.0, 17.4, 18.3 (2 to 5).
"""

from dataclasses import replace

from show_attend_tell.model.config import DecoderConfig
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.objectives.hard import HardObjective

# all other settings have their defaults, which are the paper's
DECODER = DecoderConfig(output_tanh=False)
SOFT = TrainingConfig(decoder=DECODER, epochs=20)
HARD = replace(
    SOFT,
    epochs=40,
    validation_attention_mode="mean",
    decoder=replace(DECODER, attention="hard", gate=False),
    hard=HardObjective(reward_weight=0.5, entropy_weight=0.128),
)
