"""Writing whole or not at all: what is synced is on the disk before it replaces what was there."""

import os
from pathlib import Path
from typing import Any

import pytest

import show_attend_tell.files as files_module
from show_attend_tell.files import _synced, alone, replace


def test_a_synced_file_is_on_the_disk_before_it_replaces_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, done = tmp_path / "weights", list[str]()
    file.write_text("old", encoding="utf-8")
    sync, rename = os.fsync, os.replace

    def synced(handle: int) -> None:
        sync(handle)
        done.append("synced")

    def renamed(source: Any, target: Any) -> None:
        rename(source, target)
        done.append("renamed")

    monkeypatch.setattr(files_module, "_synced", _synced)  # which the other tests do not wait for
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    replace(file, lambda scratch: scratch.write_text("new", encoding="utf-8"), sync=True)
    assert file.read_text(encoding="utf-8") == "new"
    assert done == ["synced", "renamed", *(["synced"] if os.name == "posix" else [])]  # last, the folder's names
    done.clear()
    replace(file, lambda scratch: scratch.write_text("quick", encoding="utf-8"))
    assert done == ["renamed"]
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_is_free_again_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="inside"), alone(tmp_path, refusal="taken"):
        raise ValueError("inside")
    with alone(tmp_path, refusal="taken"):
        pass
