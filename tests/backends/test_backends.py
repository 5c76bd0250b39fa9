"""Choosing a device, and asking it for bfloat16."""

import pytest
import torch

from show_attend_tell.devices import native_bf16, pick_device
from show_attend_tell.errors import SatError


def test_auto_is_a_device_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pick_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device() == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert pick_device() == torch.device("cuda")
    assert pick_device("cuda:1") == torch.device("cuda:1")
    assert pick_device(torch.device("cuda:1")) == torch.device("cuda:1")
    for name in ("cuda:2", torch.device("cuda:2")):
        with pytest.raises(SatError, match="'cuda:2': PyTorch sees 2 CUDA"):
            pick_device(name)


def test_devices_that_are_not_there_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for name, message in {
        "cuda": "sees 0 CUDA",
        "mps": "no Apple GPU",
        "gpu": "'gpu': choose auto",
        "meta": "'meta': choose auto",
    }.items():
        with pytest.raises(SatError, match=message):
            pick_device(name)


def test_native_bf16_follows_the_instructions_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    for avx512, amx in ((True, False), (False, True), (False, False)):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda there=avx512: there, raising=False)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda there=amx: there, raising=False)
        assert native_bf16("cpu") is (avx512 or amx)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert not native_bf16("cuda")
    assert not native_bf16("mps")
