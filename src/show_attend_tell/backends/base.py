"""What everything above asks of a back end.

B photos · L locations · D annotation size · C channels of the annotations.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.hypotheses import Hypothesis
from show_attend_tell.search.session import DecoderSession
from show_attend_tell.values import Array

Features = Any  # annotations (B, L, D) in the back end's own type and memory; they can be sliced by photo


class Backend(Protocol):
    """A checkpoint that runs: it encodes photos, and its decoder opens sessions for a search."""

    name: str  # "torch" or "onnx"
    device: str  # where it computes: "cpu", "cuda:0", …

    encoder: Any  # its name, digest, precision, grid, and the preprocessing that makes pixels

    def encode(self, pixels: Any) -> Features:
        """The annotations (B, L, D) of preprocessed pixels (B, 3, size, size), an array or a tensor."""
        ...

    def features(self, annotations: Any) -> Features:
        """Annotations (B, L, D) from elsewhere, a feature cache for example, as this back end takes them."""
        ...

    def session(self, features: Features, config: GenerationConfig, *, seeds: Sequence[int]) -> DecoderSession:
        """The decoder before the first word of each photo; ``seeds`` has one a photo, for sampled locations."""
        ...

    def blind_session(self, features: Features, captions: int) -> DecoderSession:
        """The decoder before the first word of so many captions, at zeros in place of one photo's annotations."""
        ...

    def evidence(
        self, features: Features, captions: Sequence[Hypothesis], config: GenerationConfig
    ) -> list[Array] | None:
        """∂ log p(y_t) / ∂ e_ti in nats (T, L), e the energies of the attention, of one caption for each photo.

        The context is the mean one in every attention mode; β_t and the state before are held fixed. None without it.
        """
        ...

    def batch_size(self, config: GenerationConfig) -> int:
        """How many photos are searched fastest together."""
        ...

    def second_moments(self, features: Features, channels: Array) -> Array:
        """What the reranker reads of each photo (B, C (C + 1) / 2), see `rerank.ngrams`."""
        ...
