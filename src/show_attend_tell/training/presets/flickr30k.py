"""Flickr30k: the settings of `flickr8k`, with an LSTM of 1,024 units.

Hard attention trains without cropped photos, since Flickr30k has enough whole ones.

Reached: not yet run here.
"""

from dataclasses import replace

from show_attend_tell.training.presets import flickr8k

SOFT = replace(flickr8k.SOFT, decoder=replace(flickr8k.SOFT_DECODER, hidden_size=1024))
HARD = replace(flickr8k.HARD, decoder=replace(flickr8k.HARD_DECODER, hidden_size=1024), crops=0)
