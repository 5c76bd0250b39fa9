"""An encoder cut in two: both parts together are the whole, they share its weights, and the last blocks learn."""

import pytest
import torch
from backbones import lite_encoder, noise
from builders import InMemoryAnnotations
from scenes_encoder import SmallEncoder
from torch import nn

from show_attend_tell.backends.onnx import encoder as onnx
from show_attend_tell.backends.torch import fastest_encode
from show_attend_tell.checkpoint.packing import as_array, as_tensors, pack, unpack
from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.errors import SatError
from show_attend_tell.vision.backbones import Backbone, ConvolutionalNetwork
from show_attend_tell.vision.blocks import cut
from show_attend_tell.vision.encoder import Encoder, load_encoder
from show_attend_tell.vision.sources import TunedAnnotations
from show_attend_tell.vision.vgg import VGG19


def made(body: nn.Module, name: str, size: int, annotation_size: int, locations: int) -> Encoder:
    """An encoder with random weights, for small photos."""
    return Encoder(Backbone(body, name, annotation_size, (locations, locations), Preprocessing(size=size)))


def vgg19() -> Encoder:
    torch.manual_seed(0)
    return made(ConvolutionalNetwork(VGG19.blocks), "vgg19", 32, 512, 2)


def small() -> Encoder:
    torch.manual_seed(0)
    return made(SmallEncoder(), "small", 64, 64, 8)


def lite() -> Encoder:
    return lite_encoder(load_encoder("efficientnet-lite2-1280").body.state_dict())


@pytest.mark.parametrize(
    ("encoder", "block", "read", "names"),
    [
        (vgg19, "conv5_1", (4, 512), [28, 30, 32, 34]),
        (vgg19, "conv5_4", (4, 512), [34]),
        (small, "conv3", (16 * 16, 64), [4]),
        (lite, "block21", (2 * 2, 208), ["block21_expand", "block21_depthwise", "block21_project", "head"]),
        (lite, "head", (2 * 2, 352), ["head"]),
    ],
)
def test_both_parts_are_the_whole(encoder, block, read, names):
    whole = encoder()
    pixels = noise(2, whole.preprocessing.size)
    expected = whole(pixels)
    below, last, found = cut(whole, block)
    assert below(pixels).shape == (2, *read) and (below.grid[0] * below.grid[1], below.annotation_size) == read
    torch.testing.assert_close(last(below(pixels)), expected)
    layers = {vgg19: "features.", small: "convolutions.", lite: ""}[encoder]
    assert sorted(found) == sorted(f"{layers}{number}.{part}" for number in names for part in ("bias", "weight"))
    assert {id(weight) for weight in last.parameters()} == {
        id(weight) for name, weight in whole.body.named_parameters() if name in found
    }


def test_the_cached_part_is_known_by_its_own_weights_alone():
    """So all trainings that tune the same blocks share one cache, from one start or another."""
    encoder = vgg19()
    below, last, _ = cut(encoder, "conv5_1")
    before, whole = below.digest, encoder.digest
    with torch.no_grad():
        for weight in last.parameters():
            weight.add_(0.1)
    assert below.digest == before == cut(encoder, "conv5_1").below.digest and encoder.digest != whole
    assert cut(encoder, "conv5_2").below.digest != before


def test_tuned_blocks_of_efficientnet_are_cached_stored_and_run_by_both_back_ends():
    encoder, pixels = lite(), noise(2, 64)
    below, last, names = cut(encoder, "block20")
    read = below.annotate(pixels)
    encode = fastest_encode(below)
    assert below.precision == "float32" and encode != below.annotate
    torch.testing.assert_close(encode(pixels), read, atol=1e-4, rtol=1e-4)

    last(read).square().mean().backward()
    with torch.no_grad():
        for weight in last.parameters():
            assert weight.grad is not None
            weight += 0.01 * weight.grad.sign() * weight.abs().mean()
    stored = unpack(pack({name: as_array(encoder.body.get_parameter(name)) for name in names}))
    tuned, light = load_encoder("efficientnet-lite2-1280"), onnx.load_encoder("efficientnet-lite2-1280")
    tuned.adopt(as_tensors(stored))
    light.adopt(stored)
    assert tuned.digest == light.digest != load_encoder("efficientnet-lite2-1280").digest


def test_a_photo_of_a_batch_is_computed_once():
    below, last, _ = cut(small(), "conv2")
    read = dict(zip("abc", below(noise(3, 64)), strict=True))
    seen = []
    last.register_forward_pre_hook(lambda module, given: seen.append(len(given[0])))
    annotations = TunedAnnotations(InMemoryAnnotations(read), last, "float32")
    found = annotations["a", "b", "a", "a"]
    assert seen == [2] and found.requires_grad and found.shape == (4, 64, 64)
    torch.testing.assert_close(found[2], last(read["a"][None])[0])
    torch.testing.assert_close(found[1], annotations["b",][0])
    with torch.no_grad():
        assert not annotations["c",].requires_grad
    norm = nn.BatchNorm1d(64)
    TunedAnnotations(InMemoryAnnotations(read), nn.Sequential(last, norm), "float32")["a", "b"]
    assert norm.num_batches_tracked == 0  # it keeps its running statistics


def test_refusals():
    other = made(nn.Conv2d(3, 5, 1), "tiny", 6, 5, 6)
    for encoder, block, message in (
        (small(), "conv4", "no block 'conv4': choose one of conv2, conv3"),
        (small(), "conv1", "choose one of conv2, conv3"),  # before it there is nothing to cache
        (other, "conv1", "tiny cannot be cut into blocks: leave out --unfreeze-from, or name another"),
    ):
        with pytest.raises(SatError, match=message):
            cut(encoder, block)
    for name, message in (("nothing", "small, which has no nothing"), ("convolutions.0.bias", "small: ")):
        with pytest.raises(SatError, match=f"do not fit the encoder {message}"):
            small().adopt({name: torch.zeros(7)})
