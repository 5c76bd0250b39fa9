"""The recurrence over a whole caption at once is the one of the decoder's step, gradients too."""

import functools

import pytest
import torch
from decoders import B, C, P, small_annotations, small_captions, small_decoder

from show_attend_tell.model import kernels
from show_attend_tell.model.attention import MeanAttention, MixedAttention

MODELS = {
    "soft": {},
    "soft without a gate": {"gate": False},
    "as shipped": {"tied_embeddings": True, "annotation_norm": "layer", "output_tanh": True},
    "two layers of attention": {"attention_depth": 2, "initial_depth": 1},
    "hard": {"attention": "hard", "gate": False},
    "hard with a gate": {"attention": "hard"},
    "uniform": {"attention": "uniform"},
}


def draws():
    """The same locations and expected paths at each call."""
    generator = torch.Generator().manual_seed(5)
    expect = torch.arange(B * P).view(B, P) % 2 == 0
    return MixedAttention(expect, torch.rand(B, P, C, generator=generator))


def output_and_gradients(decoder, loops, hard):
    """The output of small captions after words of others, and the gradients of a sum that weighs all of it."""
    annotations = small_annotations().requires_grad_()
    mode = draws() if hard else MeanAttention()
    decoder.kernels = loops
    history = small_captions(seed=9)
    output = decoder.teacher_forcing(annotations, small_captions(), paths=P if hard else 1, mode=mode, history=history)
    generator = torch.Generator().manual_seed(6)
    total = torch.zeros(())
    for part in (output.logits, output.alpha, output.beta):
        if part is not None:
            total = total + (part * torch.randn(part.shape, generator=generator)).sum()
    decoder.zero_grad()
    total.backward()
    gradients = {name: value.grad for name, value in decoder.named_parameters() if value.grad is not None}
    return output, {**gradients, "annotations": annotations.grad}


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_step_by_step_recurrence(name):
    decoder = small_decoder(**MODELS[name])
    hard = decoder.config.attention == "hard"
    (reference, expected), (unrolled, found) = (
        output_and_gradients(decoder, each, hard) for each in (None, kernels.REFERENCE)
    )
    for part in ("logits", "alpha", "beta", "locations"):
        wanted = getattr(reference, part)
        have = getattr(unrolled, part)
        assert (wanted is None) == (have is None), part
        if wanted is not None:
            torch.testing.assert_close(have, wanted, msg=lambda text, part=part: f"{part}: {text}")
    assert set(found) == set(expected)
    for part, gradient in expected.items():
        torch.testing.assert_close(found[part], gradient, msg=lambda text, part=part: f"{part}: {text}")


@pytest.mark.parametrize("loops", [None, kernels.REFERENCE], ids=["step by step", "all steps at once"])
@pytest.mark.parametrize("name", ["soft", "as shipped", "two layers of attention", "uniform"])
def test_bfloat16_is_near_float32(name, loops):
    """It rounds to 2⁻⁸ of the largest value: in about 8 operations from a word to its logits, none of which amplifies.

    A gradient passes as many on its way back, and the states of C words.
    """
    decoder = small_decoder(**MODELS[name])
    exact, slopes = output_and_gradients(decoder, None, hard=False)
    with torch.autocast("cpu", torch.bfloat16):
        rounded, rounded_slopes = output_and_gradients(decoder, loops, hard=False)
    pairs = [(exact.logits, rounded.logits, 8), (exact.alpha, rounded.alpha, 8), (exact.beta, rounded.beta, 8)]
    pairs += [(slopes[part], rounded_slopes[part], 8 + 8 + C) for part in slopes]
    for wanted, found, operations in pairs:
        if wanted is not None:
            limit = operations * 2**-8 * float(wanted.detach().abs().max())
            torch.testing.assert_close(found.float(), wanted, rtol=0, atol=limit)
    assert rounded.logits.dtype == torch.bfloat16


@pytest.mark.parametrize(("spread", "same"), [(3.0, True), (40.0, False)])
def test_large_keys_and_queries(spread, same):
    """Keys and queries up to ±20 give the α of the reference; larger ones are clamped there, and all stays finite."""
    decoder = small_decoder(spread=spread)
    largest = decoder.start(small_annotations()).source[1].abs().max()
    assert (largest < 20) == same
    output, gradients = output_and_gradients(decoder, kernels.REFERENCE, hard=False)
    assert output.alpha.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients.values())
    if same:
        expected, _ = output_and_gradients(decoder, None, hard=False)
        torch.testing.assert_close(output.alpha, expected.alpha)


@pytest.mark.proof  # compiling takes a while
@pytest.mark.skipif(not kernels.can_compile(), reason="no C++ compiler here")
@pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler
def test_compiled_kernels_are_the_written_ones():
    """By the output, the gradients and the words' log-probabilities of a decoder that uses all of them."""
    compiled = kernels.compiled()
    decoder = small_decoder(tied_embeddings=True, annotation_norm="layer")
    (_, expected), (_, found) = (
        output_and_gradients(decoder, each, hard=False) for each in (kernels.REFERENCE, compiled)
    )
    torch.testing.assert_close(found, expected)
    logits = torch.randn(6, 9)
    words = torch.tensor([0, 3, 8, 8, 1, 2])
    torch.testing.assert_close(compiled.word_scores(logits, words), kernels.word_scores(logits, words))


def test_the_gradient_of_word_scores_is_the_one_that_pytorch_derives():
    generator = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(6, 9, generator=generator)
    words = torch.tensor([0, 3, 8, 8, 1, 2])
    by_hand = functools.partial(kernels._WordScores.apply, kernels.word_sums, kernels.word_slopes)
    found = []
    for scores in (kernels.word_scores, by_hand):
        leaf = logits.clone().requires_grad_()
        picked, mean = scores(leaf, words)
        (picked * torch.arange(6.0) + mean.square()).sum().backward()
        found.append((picked, mean, leaf.grad))
    torch.testing.assert_close(found[1], found[0])
