"""From annotations to words: beam search, greedy (a beam of one) and sampling.

- `beam_size` has the beam search, the one to read; `sampling` draws words at random. Both are in NumPy, and know a decoder
  as a `session` of one of these kinds;
- `plain` has the walker for any `Decoder` of PyTorch;
- `fast` has one several times faster, for the paper's decoder on a CPU;
- `onnx` has one without PyTorch;
- `hypotheses` has what all of them give, and how captions are ordered.

What needs PyTorch is imported at first use.
"""

from typing import TYPE_CHECKING, Any

from show_attend_tell.search.beam import search_batch_size
from show_attend_tell.search.hypotheses import Hypothesis, different, ranked
from show_attend_tell.search.sampling import check_sampling

if TYPE_CHECKING:
    from show_attend_tell.backends.optimized import OptimizedBeamSearch, fastest_beam_search
    from show_attend_tell.backends.session import TorchSession, beam_search, sample

__all__ = [
    "Hypothesis",
    "OptimizedBeamSearch",
    "TorchSession",
    "beam_search",
    "check_sampling",
    "different",
    "fastest_beam_search",
    "ranked",
    "sample",
    "search_batch_size",
]


def __getattr__(name: str) -> Any:
    """What needs PyTorch."""
    if name in ("OptimizedBeamSearch", "fastest_beam_search"):
        from show_attend_tell.backends import optimized as fast

        return getattr(fast, name)
    if name in ("TorchSession", "beam_search", "sample"):
        from show_attend_tell.backends import session as plain

        return getattr(plain, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
