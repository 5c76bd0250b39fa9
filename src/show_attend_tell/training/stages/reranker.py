"""Stage "reranker": visual n-grams of the training captions, by which captions are ranked."""

import torch

from show_attend_tell.checkpoint.checkpoint import Checkpoint, StoredReranker
from show_attend_tell.rerank.adapt import adapt_ngrams
from show_attend_tell.rerank.fit import CAPTIONS_OF_NGRAM, fit_ngrams
from show_attend_tell.training.cautious import ANEW, RERANKER
from show_attend_tell.training.data import TrainingData
from show_attend_tell.training.ranks import log


def fit_reranker(
    model: Checkpoint,
    data: TrainingData,
    start: StoredReranker | None,
    device: torch.device,
    *,
    wanted: bool,
) -> None:
    """Give the model visual n-grams if they are ``wanted`` and some word is seen often enough.

    ``start`` is the reranker to keep or adapt, unless new n-grams are better; None where there is none to heed.
    """
    model.reranker = None
    model.training.pop(RERANKER, None)
    if not wanted:
        return
    captions = data.captions_by_photo()
    if start is not None and start.kind == "ngrams":
        adapted = adapt_ngrams(start.arrays, data.views[0], captions, device=device)
        if adapted is not None:
            model.reranker = StoredReranker("ngrams", adapted)
            log(f"the reranker of the model to start from is {'kept' if adapted is start.arrays else 'adapted'}")
            return
    ngrams = fit_ngrams(data.views[0], captions, device=device)
    if ngrams is None:
        log(
            f"no word is in {CAPTIONS_OF_NGRAM} training captions or more, so there are no visual n-grams to rank "
            "captions by"
        )
        return
    model.reranker = StoredReranker("ngrams", ngrams)
    if start is not None:
        log("the reranker of the model to start from is replaced by a new one")
        model.training[RERANKER] = ANEW
