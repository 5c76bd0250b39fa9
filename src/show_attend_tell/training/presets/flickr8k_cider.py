"""Flickr8k, a last stage that maximizes CIDEr (`training.self_critical`), ``--init-from`` a model of `flickr8k`.

Words, photos, decoder and reranker are those of `flickr8k`. Five captions are drawn of each photo of a batch, and true
captions have a small weight too. The best epoch and generation config are those with the best CIDEr on val.

Reached: no model of it ships. The lab notes have trials with smaller batches and a frozen attention (S, V, W).
"""

from dataclasses import replace

from show_attend_tell.training.presets import flickr8k
from show_attend_tell.training.self_critical import SelfCritical

SOFT, HARD = (
    replace(
        before,
        maximize="cider",
        self_critical=SelfCritical(samples=5, likelihood_weight=0.05),
        selected_by="cider",
        epochs=6,
        learning_rate=2e-4,
        warmup=20,
        averaging=0.99,
    )
    for before in (flickr8k.SOFT, flickr8k.HARD)
)
