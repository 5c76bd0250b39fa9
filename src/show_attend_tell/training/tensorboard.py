"""TensorBoard (an extra): the scalars of every epoch, and the attention of a few validation photos."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from show_attend_tell.backends.torch import TorchBackend
from show_attend_tell.checkpoint.packing import as_array
from show_attend_tell.data.datasets import Dataset
from show_attend_tell.data.photos import open_photo
from show_attend_tell.errors import MissingPackage
from show_attend_tell.generation import GenerationConfig, search_candidates
from show_attend_tell.messages import install_command
from show_attend_tell.show.pictures import strip
from show_attend_tell.show.pictures.figure import FigureData
from show_attend_tell.training.data import TrainingData
from show_attend_tell.training.loop import Epoch, Trainer
from show_attend_tell.training.selection import default_attention_mode
from show_attend_tell.vision.encoder import Encoder


def summary_writer() -> Any:
    """TensorBoard's writer; raises `MissingPackage` naming the extra when it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingPackage("TensorBoard is not installed", remedy=install_command("tensorboard")) from error
    return SummaryWriter


class TensorBoard:
    """Scalars of every epoch and the attention of a few validation photos, for TensorBoard (an extra)."""

    def __init__(self, folder: Path, dataset: Dataset, data: TrainingData, trainer: Trainer, encoder: Encoder) -> None:
        self.writer = summary_writer()(str(folder))
        self.examples = dataset.split("val")[:4]
        self.data, self.trainer, self.encoder = data, trainer, encoder

    def epoch(self, epoch: Epoch) -> None:
        """Write one epoch."""
        for name, value in {**epoch.scores, **epoch.watch}.items():
            self.writer.add_scalar(name, value, epoch.number)
        with torch.no_grad():
            annotations = self.data.views[0][[example.name for example in self.examples]].to(self.trainer.device)
        config = GenerationConfig(beam_size=1, attention_mode=default_attention_mode(self.trainer.average.config))
        backend = TorchBackend(self.trainer.average)
        found_by_photo = search_candidates(backend, annotations, config, seeds=[0] * len(annotations))
        for example, found in zip(self.examples, found_by_photo, strict=True):
            image = open_photo(example.photo)
            best = found[0]
            if best.alpha is None or not best.words:
                continue
            figure = FigureData(
                photo=image,
                words=self.data.vocabulary.decode(best.words),
                between=self.data.vocabulary.tokenizer.between,
                attention=as_array(best.alpha).reshape(-1, *self.encoder.grid),
                gate=as_array(best.beta),
                visible_box=self.encoder.preprocessing.seen(*image.size),
            )
            picture = np.array(strip([figure]))
            self.writer.add_image(example.name, picture, epoch.number, dataformats="HWC")
        self.writer.flush()
