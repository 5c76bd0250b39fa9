"""What workers make of photos: captions, or annotations. A work is sent to its worker, and loads its model there."""

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch

from show_attend_tell.captioner import Captioner
from show_attend_tell.data.photos import Resize, open_photo
from show_attend_tell.data.shards.reading import Item
from show_attend_tell.data.shards.writing import Kind, Row
from show_attend_tell.devices import pick_device
from show_attend_tell.errors import SatError
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.vision.encoder import Encoder, weights_digest
from show_attend_tell.vision.reading import photo_readers

TOGETHER = 32  # photos that are held at once
BATCH = 8  # of these, how many the encoder sees at once

Made = Iterator[tuple[str, Row | SatError]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Sent:
    """A work that is sent without its model, which each worker loads."""

    device: str

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def on_gpu(self) -> bool:
        """Whether each worker needs a GPU."""
        return pick_device(self.device).type == "cuda"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Captioning(_Sent):
    """Captions of photos."""

    model: str
    encoder_weights: str | None
    search: Mapping[str, Any]  # what differs from the model's own decoding
    seed: int

    columns: Mapping[str, Kind] = dataclasses.field(
        default_factory=lambda: {
            **{"source": "text", "caption": "text", "log_probability": "number"},
            **{"complete": "flag", "doubt": "number"},
        }
    )

    @cached_property
    def captioner(self) -> Captioner:
        """The model, loaded."""
        return Captioner.from_pretrained(self.model, device=self.device, encoder_weights=self.encoder_weights)

    @cached_property
    def generation(self) -> GenerationConfig:
        """How it searches. Raises `SatError` for a search that the model cannot do."""
        generation = self.captioner.checkpoint.generation.merge(**self.search)
        self.captioner.check_generation(generation)
        return generation

    def settings(self) -> dict[str, Any]:
        """The model by the hashes of its weights, and how it searches."""
        checkpoint = self.captioner.checkpoint
        return {
            "what": "captions",
            "model": self.captioner.name,
            "decoder": weights_digest(checkpoint.decoder.state_dict()),
            "encoder": self.captioner.encoder.digest,  # an imported model does not record it
            "generation": dataclasses.asdict(self.generation),
            **({"seed": self.seed} if self.generation.attention_mode == "sample" else {}),
        }

    def __call__(self, photos: Iterator[Item]) -> Made:
        """A row for each photo with its caption, or why there is none."""
        while batch := list(islice(photos, TOGETHER)):
            contents = [content for _, content in batch if isinstance(content, bytes)]
            made = self.captioner.stream(contents, self.generation, seed=self.seed, batch_size=BATCH, errors="skip")
            for source, content in batch:
                found = content if isinstance(content, SatError) else next(made)
                yield (
                    source,
                    _reason(found)
                    if isinstance(found, SatError)
                    else {
                        "source": source,
                        "caption": str(found),
                        "log_probability": found.log_probability,
                        "complete": found.complete,
                        "doubt": found.doubt,
                    },
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Encoding(_Sent):
    """Annotations of photos: places times annotation size, row by row, as little-endian numbers of half precision."""

    name: str
    weights: str | None
    resize: Resize

    columns: Mapping[str, Kind] = dataclasses.field(default_factory=lambda: {"source": "text", "annotations": "bytes"})

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder, loaded."""
        from show_attend_tell.vision.encoder import load_encoder

        return load_encoder(self.name, weights=self.weights, resize=self.resize).to(pick_device(self.device))

    def settings(self) -> dict[str, Any]:
        """The encoder by the hash of its weights, how it sees photos, and the shape of a row's annotations."""
        rows, columns = self.encoder.grid
        return {
            "what": "annotations",
            "encoder": self.encoder.name,
            "digest": self.encoder.digest,
            "preprocessing": self.encoder.preprocessing.to_dict(),
            "precision": self.encoder.precision,
            "shape": [rows * columns, self.encoder.annotation_size],
        }

    def __call__(self, photos: Iterator[Item]) -> Made:
        """A row for each photo with its annotations, or why there is none."""
        readers = photo_readers()
        try:
            while batch := list(islice(photos, TOGETHER)):
                pixels = list(readers.map(self._pixels, (content for _, content in batch)))
                good = [each for each in pixels if not isinstance(each, SatError)]
                parts = [
                    self.encoder.annotate(torch.stack(good[start : start + BATCH])).half().cpu().numpy()
                    for start in range(0, len(good), BATCH)
                ]
                encoded = (each for part in parts for each in part)
                for (source, _), each in zip(batch, pixels, strict=True):
                    if isinstance(each, SatError):
                        yield source, each
                        continue
                    half = next(encoded)
                    if np.isfinite(half).all():
                        yield source, {"source": source, "annotations": half.astype("<f2").tobytes()}
                    else:
                        yield source, SatError("annotations beyond half precision (65,504)")
        finally:
            readers.shutdown(cancel_futures=True)

    def _pixels(self, content: bytes | SatError) -> torch.Tensor | SatError:
        if isinstance(content, SatError):
            return content
        try:
            return self.encoder.preprocessing(open_photo(content))
        except SatError as error:
            return _reason(error)


def _reason(error: SatError) -> SatError:
    """Why a photo cannot be read, without the number of its bytes, which stands for its name."""
    text = str(error)
    return SatError(text.partition(": ")[2] if text.startswith("photo of ") else text)
