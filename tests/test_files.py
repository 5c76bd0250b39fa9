"""Writing whole or not at all: what is synced is on the disk before it replaces what was there."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

import show_attend_tell.files as files_module
from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write, atomic_write_all, file_lock, read_text


def test_a_synced_file_is_on_the_disk_before_it_replaces_another(tmp_path, monkeypatch):
    file, done = tmp_path / "weights", list[str]()
    file.write_text("old")
    file.chmod(0o600)  # it stays private
    rename = os.replace

    def renamed(source: Any, target: Any) -> None:
        rename(source, target)
        done.append("renamed")

    monkeypatch.setattr(os, "fsync", lambda handle: done.append("synced"))
    monkeypatch.setattr(os, "replace", renamed)
    atomic_write(file, lambda scratch: scratch.write_text("new"), sync=True)
    assert file.read_text() == "new"
    assert done == ["synced", "renamed", "synced"]  # last, the folder's names
    done.clear()
    atomic_write(file, lambda scratch: scratch.write_text("quick"))
    assert done == ["renamed"] and list(tmp_path.iterdir()) == [file] and file.stat().st_mode & 0o177 == 0


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path):
    file = tmp_path / "weights"
    file.write_text("old")
    for error, reason in (
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left on device"),
        (OSError(errno.EROFS, os.strerror(errno.EROFS)), "Read-only file system"),
        (SafetensorError("I/O error: No space left on device"), "No space left on device"),
    ):

        def full(scratch: Path, error: Exception = error) -> None:
            scratch.write_text("ne")
            raise error

        with pytest.raises(SatError, match=rf"weights cannot be written \(.*{reason}\). What was there before is unch"):
            atomic_write(file, full)
        assert file.read_text() == "old" and list(tmp_path.iterdir()) == [file]


def test_two_processes_that_write_one_file_leave_one_of_the_two_whole(tmp_path):
    file = tmp_path / "scores.json"
    program = "import pathlib, sys; from show_attend_tell.files import write_text; "
    program += "write_text(pathlib.Path(sys.argv[1]), 'second')"

    def first(scratch: Path) -> None:
        scratch.write_text("first, whole")
        environment = {**os.environ, "PYTHONPATH": str(Path(files_module.__file__).parents[1])}
        subprocess.run([sys.executable, "-c", program, file], env=environment, check=True)
        assert file.read_text() == "second"

    atomic_write(file, first)
    assert file.read_text() == "first, whole" and list(tmp_path.iterdir()) == [file]


def test_a_device_or_a_pipe_is_written_to_and_never_replaced(tmp_path):
    pipe, file, received = tmp_path / "pipe", tmp_path / "file", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()
    atomic_write_all({each: lambda target: target.write_text("both") for each in (pipe, file)})
    reader.join(timeout=60)
    assert received == ["both"] and pipe.is_fifo() and file.read_text() == "both"


def test_a_file_that_is_not_there_is_told_apart_from_one_that_is_no_text(tmp_path):
    with pytest.raises(SatError, match=r"cannot read .*absent\.txt \(No such file or directory\): name a text file"):
        read_text(tmp_path / "absent.txt")
    (tmp_path / "latin.txt").write_bytes("für".encode("latin-1"))
    with pytest.raises(SatError, match="it must be text in UTF-8"):
        read_text(tmp_path / "latin.txt")


def test_what_a_killed_process_left_is_cleared(tmp_path):
    left, running, other = (tmp_path / name for name in (".weights.1.part", ".weights.2.part", ".other.1.part"))
    for part in (left, running, other):
        part.touch()
    for part in (left, other):
        os.utime(part, (0, 0))  # nobody has written to it for an hour
    atomic_write(tmp_path / "weights", lambda scratch: scratch.touch(), sync=True)
    assert not left.exists() and running.exists() and other.exists() and len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP])
def test_a_disk_without_locks_keeps_nobody_out(tmp_path, monkeypatch, number):
    def no_lock(handle: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files_module.fcntl, "flock", no_lock)
    with file_lock(tmp_path, refusal="taken"), file_lock(tmp_path, refusal="taken"):
        pass
