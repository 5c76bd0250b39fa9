"""Stage "class words": the words of the classes that the encoder knows, which a photo of such a class raises."""

import torch

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.progress import Progress
from show_attend_tell.rerank import class_words
from show_attend_tell.training.cautious import VAL_FOR_DECODING
from show_attend_tell.training.data import TrainingData


@torch.no_grad()
def fit_class_words(model: Checkpoint, data: TrainingData, start: Checkpoint | None, *, wanted: bool) -> None:
    """Give the model class words if they are ``wanted``: the start's, or new ones where val is large enough to judge.

    ``start`` is the model whose class words are kept if it has some; None where there is none to heed.
    """
    model.class_words = None
    if not wanted:
        return
    if start is not None and start.class_words is not None:
        model.class_words = class_words.moved(start, model.vocabulary)
        return
    classes = class_words.classes_of(model.encoder.name)
    if classes is None or len(data.validation) < VAL_FOR_DECODING:
        return
    decode = data.vocabulary.decode
    with Progress(data.captions_by_photo().items(), desc="class words", unit="photo", leave=False) as bar:
        photos = ((classes.probabilities(data.views[0][[name]])[0], [*map(decode, captions)]) for name, captions in bar)
        model.class_words = class_words.fit(classes, model.vocabulary, photos)
