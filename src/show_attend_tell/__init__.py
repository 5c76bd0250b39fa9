"""Show, Attend and Tell: captions that show where they looked (Xu et al., ICML 2015).

>>> from show_attend_tell import Captioner
>>> captioner = Captioner.from_pretrained("flickr8k-soft")  # doctest: +SKIP
>>> caption = captioner("dog.jpg")  # doctest: +SKIP
>>> print(caption, caption.attention.shape)  # doctest: +SKIP
"""

from show_attend_tell.captioner import Caption, Captioner, Sampling
from show_attend_tell.errors import SatError

__version__ = "0.1.0"
__all__ = ["Caption", "Captioner", "Sampling", "SatError"]
