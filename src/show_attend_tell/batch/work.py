"""What is made of photos, in batches: captions, or features.

`CaptionBatch` and `EncodeBatch` are functions of batches, as Ray Data's ``map_batches``, the ``map`` of Hugging Face's
datasets and Spark's ``mapInPandas`` take them. They are sent to workers without their model, which each worker loads
when it is first needed.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from show_attend_tell.checkpoint.hub import DEFAULT_MODEL, find_model
from show_attend_tell.data.photos import PREPROCESSING_VERSION, Resize, open_photo
from show_attend_tell.errors import InvalidValue, PhotoError, SatError
from show_attend_tell.model import registry
from show_attend_tell.settings import Count, settings
from show_attend_tell.vision.reading import read_ahead

if TYPE_CHECKING:
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.vision.encoder import Encode, Encoder

Row = dict[str, Any]
TOGETHER = 8  # photos that the encoder sees at once


@settings
class BatchConfig:
    """Who makes the rows of photos, and how they are read and written. Raises `InvalidValue` for a wrong value."""

    engine: Literal["auto", "ray", "local"] = Field(
        "auto", description="Ray Data, or processes of this machine; auto: Ray if installed"
    )
    workers: Count = Field(1, description="workers, each with the model")
    column: str | None = Field(
        None, description="column of Parquet files that holds the photos or their paths; none: a usual name"
    )
    recursive: bool = Field(False, description="photos in subfolders too")
    overwrite: bool = Field(False, description="replace a table that was made with other settings; a copy is kept")


@dataclass
class PhotoBatch:
    """A function of batches of photos."""

    columns: ClassVar[Mapping[str, str]]  # that it makes, with Arrow's names of their types
    name: str  # of the model
    _: KW_ONLY
    column: str = "bytes"  # of a batch, with the photos: the bytes of their files, or any `Photo`
    device: str = "auto"
    encoder_weights: str | None = None
    plugins: tuple[str, ...] = field(default_factory=lambda: tuple(registry.plugins))  # which each worker imports

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("model", "encode")}  # what is loaded

    @cached_property
    def model(self) -> Any:
        """The model. Raises `SatError` where it cannot be loaded, or cannot do what is asked for."""
        for plugin in self.plugins:
            registry.import_plugin(plugin)
        return self.load()

    def load(self) -> Any:
        """Load the model."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """What a row depends on besides its photo, as plain values."""
        raise NotImplementedError

    def made(self, photos: list[Any]) -> Iterator[Row | SatError]:
        """For each photo its row, or why there is none; ``passed_over`` in a row is counted, and no column."""
        raise NotImplementedError

    def rows(self, photos: Sequence[Any]) -> list[Row]:
        """A row for each photo; an error that stands for one becomes the row's ``error``."""
        made = self.made([photo for photo in photos if not isinstance(photo, SatError)])
        return [self.row(photo if isinstance(photo, SatError) else next(made)) for photo in photos]

    def row(self, made: Row | SatError) -> Row:
        """A row with all columns."""
        if isinstance(made, SatError):
            made = {"error": made.why}
        return {**dict.fromkeys(self.columns), **made}

    def __call__(self, batch: Any) -> Any:
        """The batch without its photos, and with the columns that are made of them; ``error`` says why there are none.

        A batch is a table of pyarrow, which stays one and has the type of each column, or a mapping of columns, such as
        a DataFrame, which becomes a dictionary of lists.
        """
        values = batch[self.column]
        photos = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
        photos = [photo.get("bytes") or photo.get("path") if isinstance(photo, dict) else photo for photo in photos]
        nothing = PhotoError("nothing where a photo should be")
        rows = self.rows([nothing if photo is None else photo for photo in photos])
        if not hasattr(batch, "column_names"):
            kept = {name: batch[name] for name in batch if name != self.column}
            return kept | {name: [row[name] for row in rows] for name in self.columns}
        table = as_table(rows, self.columns)
        kept = {name: batch[name] for name in batch.column_names if name != self.column}
        return type(table).from_pydict(kept | dict(zip(table.column_names, table.columns, strict=True)))


class CaptionBatch(PhotoBatch):
    """Captions of batches of photos by a model; ``overrides`` are settings of `GenerationConfig`."""

    columns: ClassVar[Mapping[str, str]] = {
        "caption": "string",
        "confidence": "double",
        "to_check": "string",
        "log_probability": "double",
        "complete": "bool",
        "error": "string",
    }

    def __init__(
        self,
        name: str = DEFAULT_MODEL,
        *,
        column: str = "bytes",
        device: str = "auto",
        encoder_weights: str | None = None,
        backend: str = "auto",
        **overrides: Any,
    ) -> None:
        super().__init__(name, column=column, device=device, encoder_weights=encoder_weights)
        self.backend = backend
        self.overrides = overrides

    def load(self) -> "Captioner":
        from show_attend_tell.captioner import Captioner

        captioner = Captioner.from_pretrained(
            self.name, device=self.device, backend=self.backend, encoder_weights=self.encoder_weights
        )
        if (captioner.resolve_config(**self.overrides).num_captions or 1) > 1:
            raise InvalidValue("a table has one caption of each photo", subject="num_captions", remedy="leave it out")
        return captioner

    def settings(self) -> dict[str, Any]:
        """The files of the model by their hash, and how captions are made."""
        folder = find_model(self.name)
        files = [*sorted(folder.glob("*.json")), *sorted(folder.glob("*.safetensors"))]
        weights = self.encoder_weights
        return {
            "what": "captions",
            "preprocessing_version": PREPROCESSING_VERSION,
            "model": _digest(files),
            "encoder_weights": _digest([Path(weights)]) if weights and Path(weights).is_file() else weights,
            "generation": self.model.resolve_config(**self.overrides).values(),
        }

    def made(self, photos: list[Any]) -> Iterator[Row | SatError]:
        for caption in self.model.stream(photos, batch_size=TOGETHER, **self.overrides):
            if isinstance(caption, SatError):
                yield caption
            else:
                yield {**caption.to_row(), "passed_over": caption.passed_over}


@dataclass
class EncodeBatch(PhotoBatch):
    """Annotations of batches of photos: L × D little-endian numbers of half precision, location after location."""

    columns: ClassVar[Mapping[str, str]] = {"annotations": "binary", "error": "string"}

    _: KW_ONLY
    resize: Resize = "crop"

    def load(self) -> "Encoder":
        from show_attend_tell.devices import pick_device
        from show_attend_tell.vision.encoder import load_encoder

        return load_encoder(self.name, weights=self.encoder_weights, resize=self.resize).to(pick_device(self.device))

    @cached_property
    def encode(self) -> "Encode":
        """Pixels to annotations."""
        from show_attend_tell.backends.torch import fastest_encode

        return fastest_encode(self.model)

    def settings(self) -> dict[str, Any]:
        """The encoder by the hash of its weights, how it sees photos, and the shape of a row's annotations."""
        rows, columns = self.model.grid
        return {
            "what": "annotations",
            "preprocessing_version": PREPROCESSING_VERSION,
            "encoder": self.model.name,
            "weights": self.model.digest,
            "preprocessing": self.model.preprocessing.to_dict(),
            "precision": self.model.precision,
            "shape": [rows * columns, self.model.annotation_size],
        }

    def made(self, photos: list[Any]) -> Iterator[Row | SatError]:
        pixels = list(read_ahead(lambda photo: self.model.preprocessing.pixels(open_photo(photo)), photos))
        good = [square for square in pixels if not isinstance(square, SatError)]
        batches = (self.encode(np.stack(good[at : at + TOGETHER])) for at in range(0, len(good), TOGETHER))
        encoded = (half for batch in batches for half in batch.half().cpu().numpy())
        for square in pixels:
            if isinstance(square, SatError):
                yield square
            elif np.isfinite(half := next(encoded)).all():
                yield {"annotations": half.astype("<f2").tobytes()}
            else:
                yield PhotoError("annotations beyond half precision (65,504)")


def passed_over(rows: Iterable[Row]) -> dict[str, str]:
    """What was left out of the files of photos that were read without it, by their sources."""
    return {row["source"]: row["passed_over"] for row in rows if row.get("passed_over")}


def as_table(rows: Sequence[Row], columns: Mapping[str, str]) -> Any:
    """Rows as a table of pyarrow, in which a column has its type also where all of its values are null."""
    import pyarrow

    return pyarrow.Table.from_pylist(rows, pyarrow.schema(list(columns.items())))


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
