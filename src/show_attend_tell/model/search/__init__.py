"""From annotations to words: beam search, greedy (a beam of one) and sampling.

- `beam` has the beam search over any `Decoder`: the one to read;
- `fast` has the same search several times faster, for the paper's decoder on a CPU;
- `sampling` draws words at random;
- `hypotheses` has what all of them give, and how captions are ordered.
"""

from show_attend_tell.model.search.beam import beam_search, photos_together
from show_attend_tell.model.search.fast import FastBeamSearch, fastest_beam_search
from show_attend_tell.model.search.hypotheses import Hypothesis, as_hypotheses, different, ranked
from show_attend_tell.model.search.sampling import check_sampling, drawn_words, sample

__all__ = [
    "FastBeamSearch",
    "Hypothesis",
    "as_hypotheses",
    "beam_search",
    "check_sampling",
    "different",
    "drawn_words",
    "fastest_beam_search",
    "photos_together",
    "ranked",
    "sample",
]
