"""Stage "weights": how far the trained weights go from those of the model to start from, which may be given back."""

from show_attend_tell.backends.torch import decoder_weights
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.model.interface import Decoder
from show_attend_tell.rerank import class_words
from show_attend_tell.training.cautious import Verdict, interpolate
from show_attend_tell.training.ranks import log

VERDICT = "on_val"  # entry of a model's training whose weights the verdict has moved


def apply_verdict(model: Checkpoint, decoder: Decoder, start: Decoder, verdict: Verdict, name: str) -> None:
    """Move the weights as far from those of the start, the model ``name``, as the verdict says."""
    model.training[VERDICT] = verdict.text
    decoder.load_state_dict(interpolate(start.state_dict(), decoder.state_dict(), verdict.share))
    model.weights = decoder_weights(decoder)
    if verdict.share == 0:
        model.training["epochs"] = 0  # as where the start was the best epoch: it is given back
    elif verdict.share < 1:
        model.training["share"] = f"{verdict.share:g} of the way from the weights of {name}"


def give_start_back(model: Checkpoint, start: Checkpoint, name: str, learning_rate: float) -> None:
    """Let a model with the start's weights caption as the start does, and say what to try."""
    model.generation = start.generation
    model.reranker = start.reranker
    model.confidence = start.confidence
    model.class_words = class_words.moved(start, model.vocabulary)
    log(
        f"no training was clearly better than {name}, so the new model is this one, with the words and capitals of "
        f"these captions: give more photos, or a learning rate below {learning_rate:g} (--set learning_rate=RATE)"
    )
