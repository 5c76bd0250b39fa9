"""Training. What the user of a training may choose besides its data and its settings stands here, for `sat train`."""

from pathlib import Path

from pydantic import Field

from show_attend_tell.checkpoint.checkpoint import Bits
from show_attend_tell.settings import Rate, settings


@settings
class RunOptions:
    """How a training runs, and what it writes."""

    text_corpus: Path | None = Field(
        None,
        description="captions without photos, one on each line of a text file, which may be gzipped: the decoder "
        "learns words and phrases from them",
    )
    encoder_lr: Rate | None = Field(None, description="learning rate of the encoder, which is then trained too")
    unfreeze_from: str | None = Field(
        None,
        description="first block of the encoder that is trained, such as conv5_1 of vgg19; without it, the whole "
        "encoder is",
    )
    resume: bool = Field(
        False,
        description="continue the interrupted training in --output, or start it if there is none yet",
    )
    bits: Bits = Field(16, description="bits per stored weight")
