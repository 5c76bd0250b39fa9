"""What the tests of the experiments share: the small encoder, and no seconds of METEOR."""

from pathlib import Path
from typing import Any

import pytest
import torch
from builders import small_load_encoder

import show_attend_tell.checkpoint.checkpoint as checkpoint_module
import show_attend_tell.vision.encoder as encoder_module
from show_attend_tell.scoring import java as java_metrics


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The small encoder instead of VGG-19, the cache in the test's own folder, no GPU, no Java."""
    monkeypatch.setattr(encoder_module, "load_encoder", small_load_encoder)
    monkeypatch.setattr(checkpoint_module, "load_encoder", small_load_encoder)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("SAT_CACHE", str(tmp_path / "cache"))

    def absent(module: Any, jar: str) -> Path:
        raise java_metrics.JavaError("no Java in this test")

    monkeypatch.setattr(java_metrics, "java_program", absent)
