"""The parameters in an .npz archive of the authors' program, read without pickle.

An .npz archive is a zip file of .npy files. Before an array takes memory, its header is compared with the shape that
the options give to this parameter, and with the bytes that are really there. So a header cannot ask for more memory
than the model needs. Arrays that are not parameters, such as the history of a training, are not read at all.
"""

import io
import math
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three

LARGEST = 2 << 30  # bytes of all parameters; the authors' largest models have less than a tenth of this
HEADER = 4096  # bytes of an array's header at most; numpy writes 128
COMPARED = {"history_errs", "zipped_params", "train_err", "valid_err", "test_err"}  # what else the program saves


def read_parameters(file: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[np.float64]]:
    """The parameters of those names and shapes, in float64.

    Raises `SatError` for a file that is missing or damaged, and for parameters that are missing, that nobody asked for,
    that have another shape or type, or that are not finite.
    """
    if sum(math.prod(shape) for shape in shapes.values()) * 8 > LARGEST:
        raise SatError(f"{file}: the options are of a model with more than {LARGEST >> 30} GB: give this model's own")
    try:
        with zipfile.ZipFile(file) as archive:
            held = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            if missing := [name for name in shapes if name not in held]:
                raise SatError(f"{file} lacks {first_three(missing)}, which a model of these options has: {SAME}")
            if extra := [name for name in held if name not in shapes and name not in COMPARED]:
                raise SatError(f"{file} has {first_three(extra)} besides, which a model of these options lacks: {SAME}")
            return {name: _parameter(archive, held[name], shape, f"{file}: {name}") for name, shape in shapes.items()}
    except OSError as error:
        raise SatError(f"{file} cannot be read ({error.strerror or error}): name another file") from None
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, RuntimeError) as error:
        raise SatError(f"{file} is not an .npz archive, or is damaged ({error}): copy it again") from None


SAME = "give the options that were saved with this model"


def _parameter(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, shape: tuple[int, ...], name: str
) -> NDArray[np.float64]:
    """One array of the archive; ``name`` is for messages."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise SatError(f"{name} is compressed in a way that numpy does not use: save the archive with numpy.savez")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of numpy about headers that Python 2 wrote
        with archive.open(info) as stream:
            start = io.BytesIO(stream.read(HEADER))
        version = npy.read_magic(start)
        if version not in ((1, 0), (2, 0)):
            raise SatError(f"{name} has version {version} of numpy's format: save the archive with numpy.savez")
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        try:
            found, _, dtype = read_header(start, max_header_size=HEADER)
        except Exception as error:  # the parser raises almost anything on a damaged header
            raise ValueError(f"{name} has a damaged header") from error
        if found != shape:
            raise SatError(f"{name} has shape {found}, and by the options it has {shape}: {SAME}")
        if dtype.kind != "f" or dtype.itemsize not in (4, 8):
            raise SatError(f"{name} has type {dtype}: parameters are float32 or float64")
        if info.file_size != start.tell() + math.prod(shape) * dtype.itemsize:
            raise SatError(f"{name} does not have the size that its header says: copy the archive again")
        with archive.open(info) as stream:
            values = npy.read_array(stream, allow_pickle=False, max_header_size=HEADER)
    if not np.isfinite(values).all():
        raise SatError(f"{name} holds values that are not numbers: this model is damaged")
    return np.asarray(values, dtype=np.float64)
