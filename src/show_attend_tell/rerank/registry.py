"""The kinds of rerankers, by the names that models' files have."""

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.errors import SatError
from show_attend_tell.rerank import Reranker
from show_attend_tell.rerank.ngrams import VisualNgrams

RERANKERS: dict[str, type[Reranker]] = {"ngrams": VisualNgrams}


def register_reranker(kind: str, reranker: type[Reranker]) -> None:
    """Register a kind of reranker; a model stores its arrays in a file with this name (`Checkpoint.reranker`)."""
    RERANKERS[kind] = reranker


def load_reranker(checkpoint: Checkpoint) -> Reranker | None:
    """The reranker of a model, None where it has none. Raises `SatError` for a kind that is not registered."""
    if checkpoint.reranker is None:
        return None
    kind, arrays = checkpoint.reranker
    if kind not in RERANKERS:
        raise SatError(f"no reranker of the kind {kind!r} is registered: name the module that does it by --plugin")
    return RERANKERS[kind](arrays)
