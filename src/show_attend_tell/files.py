"""Files: reading text and JSON with messages that name the file, and writing whole or not at all."""

import errno
import fcntl
import glob
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from show_attend_tell.errors import InvalidValue, MissingFile, SatError
from show_attend_tell.messages import quoted, shorten

STDIN = "-"  # what standard input is called, which has one photo


def read_text(file: Path) -> str:
    """The text of a file in UTF-8, without the byte-order mark that spreadsheets put first."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SatError(f"cannot read {file}: {error}; it must be text in UTF-8") from error
    except OSError as error:
        kind = MissingFile if isinstance(error, FileNotFoundError) else SatError
        raise kind(f"cannot read {file} ({error.strerror})", remedy="name a text file that exists") from error


def read_json(file: Path) -> Any:
    """What a JSON file holds; raises `SatError` for a damaged file."""
    try:
        return json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise SatError(f"{file} is not valid JSON: {error}; get it again") from error


def read_object(file: Path, key: str) -> dict[str, Any]:
    """The JSON object in a file. The message about another kind of file says that it must have ``key``."""
    content = read_json(file)
    if not isinstance(content, dict):
        raise SatError(f"{file} must hold a JSON object with {key!r}, and holds {quoted(content)}")
    return content


def list_of_objects(record: dict[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    """``record[key]``, a list of JSON objects; raises `SatError`, saying ``where``, if it is anything else."""
    value = record.get(key)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise SatError(f"{where}: {key!r} must be a list of JSON objects, and is {quoted(value)}")
    return value


def text_of(record: dict[str, Any], key: str, where: str) -> str:
    """``record[key]``, a text; raises `SatError`, saying ``where``, if it is anything else."""
    value = record.get(key)
    if not isinstance(value, str):
        raise SatError(f"{where}: {key!r} must be a text, and is {quoted(value)}")
    return encodable(value, where)


def encodable(text: str, where: str) -> str:
    """A text of a JSON file; raises `SatError` for one with half of a character, which no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SatError(
            f"{where}: {shorten(text)} holds half of a character ({error.reason}): write the text again"
        ) from None
    return text


def number_of(record: dict[str, Any], key: str, where: str) -> int:
    """``record[key]``, a whole number, also as 74.0; raises `SatError`, saying ``where``, if it is anything else."""
    value = record.get(key)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int):
        raise SatError(f"{where}: {key!r} must be a whole number, and is {quoted(value)}")
    return value


def atomic_write(file: Path, write: Callable[[Path], object], *, sync: bool = False) -> None:
    """Write a file under a temporary name and then rename it into place; a file that is a link stays one.

    With ``sync``, it is on the disk when this returns. When it cannot be written, what was there stays.
    """
    atomic_write_all({file: write}, sync=sync)


def write_text(file: Path, text: str) -> None:
    """Write a text in UTF-8, as `atomic_write` does."""
    atomic_write(file, lambda scratch: scratch.write_text(text, encoding="utf-8"))


def atomic_write_all(files: Mapping[Path, Callable[[Path], object]], *, sync: bool = True) -> None:
    """Write files that belong together: only when all are whole are they renamed, in order (`atomic_write`)."""
    scratches: dict[Path, Path] = {}  # with the file that each becomes
    try:
        for file, write in files.items():
            check_file(file)
            if file.exists() and not file.is_file():  # a device or a pipe, which must not be replaced
                write(file)
                continue
            file = Path(os.path.realpath(file))
            scratch = _scratch(file)
            scratches[scratch] = file
            if sync:  # these files are large; to look for others would take too long
                _remove_left_behind(file)
            write(scratch)
            mask = os.umask(0)
            os.umask(mask)
            # safetensors would have it readable by its owner alone
            scratch.chmod(file.stat().st_mode & 0o777 if file.exists() else 0o666 & ~mask)
            if sync:
                _synced(scratch)
        for scratch, file in scratches.items():
            os.replace(scratch, file)
        for folder in {file.parent for file in scratches.values()} if sync else ():
            _synced(folder)
    except (BrokenPipeError, SatError):
        raise
    except (OSError, SafetensorError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise SatError(
            f"{file} cannot be written ({reason}). What was there before is unchanged: make room or choose another "
            "place, and give the command again"
        ) from error
    finally:
        for scratch in scratches:
            with suppress(OSError):
                scratch.unlink(missing_ok=True)


def _synced(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def file_lock(folder: Path, *, waiting: str | None = None, refusal: str = "") -> Iterator[None]:
    """Keep other processes that ask for the same folder out, where its file system has such locks.

    While another one is in, this one says ``waiting`` and waits; without it, `SatError` is raised with ``refusal``.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is None:
                raise SatError(refusal) from None
            print(waiting, file=sys.stderr)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP):
                raise
        yield
    finally:
        os.close(handle)


def make_folder(folder: Path, remedy: str) -> None:
    """Make a folder, unless it is there; raises `SatError`, which ends with the remedy, if it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SatError(f"{folder}: the folder cannot be made ({error.strerror}): {remedy}") from None


def check_file(file: Path) -> None:
    """Raise `SatError` for a file that is a folder, or whose folder does not exist."""
    if not file.parent.is_dir():
        raise SatError(f"{file.parent} is not a folder: make it first, or name another file")
    if file.is_dir():
        raise SatError(f"{file} is a folder: name a file")


def check_writable(file: Path, *, make: bool = False) -> None:
    """Raise `SatError` for a file that cannot be written; with ``make`` its folder may be one to be made."""
    try:
        if make:
            file = next(parent for parent in file.absolute().parents if parent.exists()) / file.name
        check_file(file)
        if file.exists() and not file.is_file():  # a device or a pipe: only a writer may open it
            if not os.access(file, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        scratch = _scratch(Path(os.path.realpath(file)))
        scratch.touch()
        scratch.unlink()
    except OSError as error:
        written, other = (file.parent, "folder") if make else (file, "file")
        raise SatError(f"{written} cannot be written ({error.strerror}): name another {other}") from None


def _scratch(file: Path) -> Path:
    """Where this process writes a file before it is renamed into place; other processes write theirs elsewhere."""
    return file.with_name(f".{file.name[:40]}.{os.getpid()}.part")  # a name may have 255 bytes


def _remove_left_behind(file: Path) -> None:
    """Remove what processes that were killed have left of this file: what nobody has written to for an hour."""
    for part in file.parent.glob(f".{glob.escape(file.name[:40])}.*.part"):
        with suppress(OSError):  # another process removes it, or renames it into place; or it is another user's
            if time.time() - part.stat().st_mtime > 3600:
                part.unlink()


def as_path(path: object) -> Path:
    """A path. Raises `InvalidValue` for what is not one."""
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidValue(f"{shorten(path)} is not a path: give a text or a pathlib.Path")
    return Path(os.fsdecode(path))


def hub_id(folder: Path) -> str | None:
    """The id "owner/name" of a model's folder in the hub's cache (models--OWNER--NAME/snapshots/COMMIT), or None."""
    repository = folder.absolute().parent.parent.name
    if folder.absolute().parent.name != "snapshots" or not repository.startswith("models--"):
        return None
    return repository.removeprefix("models--").replace("--", "/", 1)
