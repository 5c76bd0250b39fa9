"""The parameters in an .npz archive of the authors' program, read without pickle.

Before an array takes memory, the size of its file in the archive is compared with the shape that the options give to
this parameter. So an archive cannot ask for more memory than the model needs. Arrays that are not parameters, such as
the history of a training, are not read at all.
"""

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three

LARGEST = 2 << 30  # bytes of all parameters; the authors' largest models have less than a tenth of this
HEADER = 4096  # bytes of an array's header at most; numpy writes 128
COMPARED = {"history_errs", "zipped_params", "train_err", "valid_err", "test_err"}  # what else the program saves
SAME = "give the options that were saved with this model"


def read_parameters(file: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[np.float64]]:
    """The parameters of those names and shapes, in float64.

    Raises `SatError` for a file that is missing or damaged, and for parameters that are missing, that nobody asked for,
    that have another shape or type, or that are not finite.
    """
    if sum(math.prod(shape) for shape in shapes.values()) * 8 > LARGEST:
        raise SatError(f"{file}: the options are of a model with more than {LARGEST >> 30} GB: give this model's own")
    try:
        with (
            open(file, "rb") as opened,
            np.load(opened, allow_pickle=False, max_header_size=HEADER) as archive,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", UserWarning)  # of numpy about headers that Python 2 wrote
            if missing := [name for name in shapes if name not in archive.files]:
                raise SatError(f"{file} lacks {first_three(missing)}, which a model of these options has: {SAME}")
            if extra := [name for name in archive.files if name not in shapes and name not in COMPARED]:
                raise SatError(f"{file} has {first_three(extra)} besides, which a model of these options lacks: {SAME}")
            return {name: _parameter(archive, name, shape, f"{file}: {name}") for name, shape in shapes.items()}
    except SatError:
        raise
    except OSError as error:
        raise SatError(f"{file} cannot be read ({error.strerror or error}): name another file") from None
    except Exception as error:  # the readers of damaged archives raise almost anything
        raise SatError(f"{file} is not an .npz archive, or is damaged ({error}): copy it again") from None


def _parameter(archive: Any, name: str, shape: tuple[int, ...], where: str) -> NDArray[np.float64]:
    if archive.zip.getinfo(f"{name}.npy").file_size > HEADER + 8 * math.prod(shape):
        raise SatError(f"{where} is larger than an array of shape {shape}, which it has by the options: {SAME}")
    try:
        values = archive[name]
    except (ValueError, MemoryError) as error:
        raise SatError(f"{where} is damaged, or not of floats ({error}): copy the archive again") from None
    if not isinstance(values, np.ndarray) or values.shape != shape:
        raise SatError(f"{where} has shape {np.shape(values)}, and by the options it has {shape}: {SAME}")
    if values.dtype not in (np.float32, np.float64):
        raise SatError(f"{where} has type {values.dtype}: parameters are float32 or float64")
    if not np.isfinite(values).all():
        raise SatError(f"{where} holds values that are not numbers: this model is damaged")
    return values.astype(np.float64)
