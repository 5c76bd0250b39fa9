"""The kinds of rerankers, by the names that models' files have."""

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.registries import Registry
from show_attend_tell.rerank import Reranker
from show_attend_tell.rerank.ngrams import VisualNgrams

RERANKERS: Registry[type[Reranker]] = Registry("a reranker of the kind", "rerankers", {"ngrams": VisualNgrams})
register_reranker = RERANKERS.register  # a model stores its arrays in a file with this name (`Checkpoint.reranker`)


def load_reranker(checkpoint: Checkpoint) -> Reranker | None:
    """The reranker of a model, None where it has none. Raises `SatError` for a kind that is not registered."""
    if checkpoint.reranker is None:
        return None
    kind, arrays = checkpoint.reranker
    return RERANKERS[kind](arrays)
