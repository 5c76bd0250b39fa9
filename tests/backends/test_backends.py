"""Choosing a device and a back end, and asking for bfloat16."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from builders import small_checkpoint

from show_attend_tell.backends import pick_backend
from show_attend_tell.devices import native_bf16, pick_device
from show_attend_tell.errors import InvalidValue, MissingPackage, SatError
from show_attend_tell.model.config import Config
from show_attend_tell.vision.encoder import load_encoder


def test_auto_is_a_device_that_is_there(monkeypatch):
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


def test_devices_that_are_not_there_are_refused(monkeypatch):
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


def test_native_bf16_follows_the_instructions_of_the_processor(monkeypatch):
    monkeypatch.delenv("SAT_PRECISION", raising=False)
    for avx512, amx in ((True, False), (False, True), (False, False)):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda there=avx512: there, raising=False)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda there=amx: there, raising=False)
        assert native_bf16("cpu") is (avx512 or amx)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert not native_bf16("cuda")
    assert not native_bf16("mps")


def test_auto_is_the_faster_back_end_that_has_the_model():
    """On a processor ONNX Runtime, where it has the decoder and the encoder; PyTorch on a GPU and for all else."""
    attention = small_checkpoint(load_encoder("efficientnet-lite2-1280", resize="squash"), annotation_size=1280)
    other_encoder = replace(attention, encoder=replace(attention.encoder, name="small"))
    other_decoder = replace(attention, config=ScriptedConfig())
    assert pick_backend("auto", attention, "cpu") == "onnx"
    assert pick_backend("auto", attention, "cuda:0") == pick_backend("torch", attention, "cpu") == "torch"
    for checkpoint, what in ((other_encoder, "the encoder small"), (other_decoder, "a decoder of kind 'scripted'")):
        assert pick_backend("auto", checkpoint, "cpu") == "torch"
        with pytest.raises(MissingPackage, match=f"{what} needs PyTorch"):
            pick_backend("onnx", checkpoint)
    with pytest.raises(InvalidValue, match="backend 'tpu': choose auto, torch or onnx"):
        pick_backend("tpu", attention)


class ScriptedConfig(Config):
    kind = "scripted"


@pytest.mark.acceptance
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process is forked here")
def test_a_forked_process_does_not_wait_for_threads_that_it_lacks():
    program = (
        "import os, torch; import show_attend_tell.backends.torch; torch.set_num_threads(2)\n"
        "numbers = torch.rand(500, 500); numbers @ numbers; child = os.fork()\n"
        "if not child: numbers @ numbers; os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "7\n"
