"""The systems of Table 1 on Flickr8k.

Words, mirrored photos, optimizer, label smoothing and averaged weights are those of the `flickr8k` preset, so the
systems differ from its soft model in their decoders alone. They depart from their papers in all of that, in the sizes
that their configurations note, and in that the gradient's norm is clipped.

Reached (val BLEU-4 with brevity penalty, the best beam and length normalization, 6 epochs): nic 17.0 to 18.0 (three
seeds, with a forget bias of 0), lrcn 20.4, log_bilinear 21.0, m_rnn 20.4, brnn 16.4.
"""

import dataclasses
from dataclasses import replace
from typing import Any

from show_attend_tell.model.registry import classes
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.presets import flickr8k

DROPOUTS: dict[str, Any] = {"dropout": 0.5, "annotation_dropout": 0.3, "embedding_dropout": 0.3}


def settings(kind: str) -> TrainingConfig:
    """The settings to train a comparator of that kind with."""
    config, _ = classes(kind)
    own: dict[str, Any] = {"forget_bias": 1.0} if kind == "nic" else {}
    has = {field.name for field in dataclasses.fields(config)}
    decoder = config(**{name: value for name, value in DROPOUTS.items() if name in has}, **own)
    return replace(flickr8k.SOFT, decoder=decoder, clip=5.0, scheduled_sampling_end=0.5, visual_ngrams=False)
