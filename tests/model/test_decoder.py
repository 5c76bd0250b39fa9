"""The decoder is the paper's equations, by a NumPy transcription and differences; and what every decoder shares."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
import reference
import torch
from decoders import SIZES, B, C, L, P, small_annotations, small_baseline, small_captions, small_decoder
from estimators import Estimator
from torch import nn

from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import (
    ArgmaxAttention,
    GivenLocations,
    MeanAttention,
    MixedAttention,
    SampleAttention,
)
from show_attend_tell.model.config import DecoderConfig
from show_attend_tell.model.decoder import AttentionDecoder, Dropout, grown, ungated, windowed
from show_attend_tell.model.interface import at_step, map_parts, previous_words
from show_attend_tell.training.objectives.hard import HardObjective
from show_attend_tell.training.objectives.soft import SoftObjective

OPTIONS = [
    {},
    {"attention_depth": 2},
    {"initial_size": 7, "output_depth": 3},
    {"gate": False},
    {"output_tanh": False},
    {"output_word": False},
    {"output_context": False},
    {
        "attention_depth": 2,
        "initial_depth": 1,
        "output_tanh": False,
        "tied_embeddings": True,
        "annotation_norm": "layer",
    },
    {"gate": False, "output_word": False, "output_context": False, "initial_depth": 1, "annotation_norm": "layer"},
]


PAPER = {  # names of weights in the paper's notation, for `reference`
    "W_a": "attention.key.weight",
    "b_a": "attention.key.bias",
    "W_h": "attention.query.weight",
    "w": "attention.energy",
    "W_d": "attention.deepen.weight",
    "b_d": "attention.deepen.bias",
    "W_b": "gate.weight",
    "b_b": "gate.bias",
    "W_s": "initial.weight",
    "b_s": "initial.bias",
    "W_h0": "initial_hidden.weight",
    "b_h0": "initial_hidden.bias",
    "W_c0": "initial_memory.weight",
    "b_c0": "initial_memory.bias",
    "b": "gates_from_word.bias",
    "L_h": "output_hidden.weight",
    "b_h": "output_hidden.bias",
    "L_z": "output_context.weight",
    "L_o": "output_words.weight",
    "b_o": "output_bias",
    **{
        f"{paper}_{n}": f"output_layers.{n - 1}.{ours}"
        for n in (1, 2)
        for paper, ours in (("L", "weight"), ("b", "bias"))
    },
}


def paper_weights(decoder):
    """A decoder's weights under the paper's names."""
    state = {name: value.detach().numpy() for name, value in decoder.state_dict().items()}
    w = {paper: state[name].squeeze() for paper, name in PAPER.items() if name in state}
    w["E"] = state["embedding.weight"][:-1]
    w["T"] = np.hstack([state[f"gates_from_{part}.weight"] for part in ("word", "hidden", "context")])
    w.setdefault("L_o", w["E"])  # tied
    if decoder.config.annotation_norm == "scale":
        w["scale"] = state["annotation_scale"]
    return w


def attention_modes():
    """Attention modes by name, each with what tells the reference the locations of a path (B, P, C), or None."""
    generator = torch.Generator().manual_seed(11)
    locations = torch.randint(0, L, (B, P, C), generator=generator)
    uniforms = torch.rand(B, P, C, generator=generator)
    return {
        "mean": (MeanAttention(), None),
        "argmax": (ArgmaxAttention(), None),
        "locations": (GivenLocations(locations), locations),
        "sample": (SampleAttention(uniforms), uniforms),
    }


@pytest.mark.parametrize("name", ["mean", "argmax", "locations", "sample"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "+".join(options) or "default")
def test_equals_numpy_transcription(options, name, float64):
    decoder = small_decoder(**options)
    annotations = small_annotations()
    captions = small_captions()
    mode, given = attention_modes()[name]
    with torch.no_grad():
        output = decoder.teacher_forcing(annotations, captions, paths=P, mode=mode)
    log_p = torch.log_softmax(output.logits, dim=-1)
    assert log_p.shape == (B, P, C, SIZES["vocabulary_size"]) and output.alpha.shape == (B, P, C, L)
    weights = paper_weights(decoder)
    for b in range(B):
        for p in range(P):
            expected = reference.teacher_forcing(
                weights,
                annotations[b].numpy(),
                captions[b].tolist(),
                mode=name if given is None else given[b, p].tolist(),
                tanh_output=decoder.config.output_tanh,
                word_output=decoder.config.output_word,
            )
            np.testing.assert_allclose(log_p[b, p].numpy(), expected.log_p, rtol=0, atol=1e-10)
            np.testing.assert_allclose(output.alpha[b, p].numpy(), expected.alpha, rtol=0, atol=1e-10)
            if decoder.config.gate:
                np.testing.assert_allclose(output.beta[b, p].numpy(), expected.beta, rtol=0, atol=1e-10)
            else:
                assert output.beta is None
            if name == "mean":
                assert output.locations is None
            else:
                assert output.locations[b, p].tolist() == expected.locations.tolist()


def test_every_option_of_the_function_is_held_against_the_reference():
    """A new field of `DecoderConfig` must either join `OPTIONS` or be named here."""
    tried = {name for options in OPTIONS for name in options}
    no_function = {"dropout", "annotation_dropout", "attention"}
    no_function |= {"annotation_window"}  # it needs a square grid: by hand below
    assert {field.name for field in fields(DecoderConfig)} == tried | no_function | set(SIZES)


class LossOf(nn.Module):
    """A decoder's loss as a function of its parameters, with the locations drawn by fixed uniform numbers."""

    def __init__(self, decoder, objective, captions):
        super().__init__()
        self.decoder = decoder
        self.objective = objective
        self.captions = captions

    def forward(self, annotations):
        generator = torch.Generator().manual_seed(13)
        mode = self.objective.draw(*self.captions.shape, generator)
        output = self.decoder.teacher_forcing(annotations, self.captions, paths=self.objective.paths, mode=mode)
        return self.objective(output, self.captions, mode).total


@pytest.mark.parametrize("options", [{}, OPTIONS[-2]], ids=["default", "other"])
@pytest.mark.parametrize(
    "objective",
    [
        SoftObjective(doubly_stochastic=0.7, label_smoothing=0.1),
        # the pathwise part: REINFORCE's term is no derivative of a value, and has its own proof in test_losses
        Estimator(samples=2, reward_weight=0, entropy_weight=0.3),
        HardObjective(samples=2, coin="both", reward_weight=0, entropy_weight=0.3, label_smoothing=0.1),
    ],
    ids=["soft", "sample", "both"],
)
def test_gradients_check(objective, options, float64):
    sizes = {"annotation_size": 3, "hidden_size": 2, "embedding_size": 4, "attention_size": 3, "vocabulary_size": 5}
    decoder = small_decoder(**sizes, **options)
    module = LossOf(decoder, objective, small_captions(steps=3, vocabulary=5))
    names = [name for name, _ in module.named_parameters()]
    values = [value.detach().clone().requires_grad_() for value in module.parameters()]
    annotations = small_annotations(locations=3, size=3).requires_grad_()

    def loss(annotations, *values):
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), (annotations,))

    at = names.index("decoder.embedding.weight")  # no gradient reaches its last row, so that is not a variable
    inner = values[at].detach()[:-1].requires_grad_()
    last = torch.zeros(1, 4)

    def free(annotations, *values):
        return loss(annotations, *values[:at], torch.cat([values[at], last]), *values[at + 1 :])

    assert torch.autograd.gradcheck(free, (annotations, *values[:at], inner, *values[at + 1 :]), fast_mode=True)


def test_zero_first_word_stays_zero():
    for tied in (False, True):
        decoder = small_decoder(tied_embeddings=tied)
        decoder.teacher_forcing(small_annotations(), small_captions()).logits.square().sum().backward()
        assert (decoder.embedding.weight.grad[-1] == 0).all()
        assert (decoder.embedding.weight.grad[:-1] != 0).any()


def test_initialization():
    """Products uniform in ±1/√(inputs), words Gaussian, biases zero: and no parameter left as memory happened to be."""
    torch.manual_seed(0)
    decoder = AttentionDecoder(DecoderConfig(**SIZES, attention_depth=2))
    for name, module in decoder.named_modules():
        if isinstance(module, nn.Linear) and name != "gate":
            bound = module.in_features**-0.5
            assert 0.9 * bound < module.weight.abs().max() <= bound, name
    assert all((p == 0).all() for name, p in decoder.named_parameters() if name.endswith("bias"))
    assert 0.04 < decoder.embedding.weight[:-1].std() < 0.06 and (decoder.embedding.weight[-1] == 0).all()
    assert 0.5 < decoder.attention.energy.std() * SIZES["attention_size"] ** 0.5 < 1.5


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("norm", ["scale", "layer"])
def test_uniform_attention_is_the_soft_decoder_with_equal_energies(norm):
    soft, uniform = (small_decoder(annotation_norm=norm, attention=attention) for attention in ("soft", "uniform"))
    with torch.no_grad():
        soft.attention.energy.zero_()  # e is 0 at every location
    annotations = small_annotations()
    captions = small_captions()
    even = soft.teacher_forcing(annotations, captions)
    output = uniform.teacher_forcing(annotations, captions)
    assert torch.allclose(even.alpha, torch.full_like(even.alpha, 1 / L))
    torch.testing.assert_close(output.logits, even.logits)
    torch.testing.assert_close(output.beta, even.beta)
    assert output.alpha is None  # nothing to show


def test_dropout_keeps_the_mean_and_draws_every_value_by_itself():
    dropout = Dropout(0.2).train()
    torch.manual_seed(0)
    values = dropout(torch.ones(400, 1000))
    share = round(256 * 0.2) / 256
    assert values.unique().tolist() == [0.0, pytest.approx(1 / (1 - share))]
    assert values.mean() == pytest.approx(1, abs=0.01)
    kept = (values > 0).float()
    together = (kept[:, 1:] * kept[:, :-1]).mean()  # neighbors come from one random word
    assert together == pytest.approx((1 - share) ** 2, abs=0.01)
    assert dropout.eval()(values) is values
    assert Dropout(0.999).train()(torch.ones(400, 1000)).unique().tolist() == [0, 256]  # 255/256 are dropped


def test_annotation_dropout_takes_whole_channels():
    decoder = small_decoder(annotation_dropout=0.4).train()
    annotations = torch.ones(B, L, SIZES["annotation_size"])
    dropped = []
    for _ in range(200):
        seen = decoder.start(annotations).source[0]
        assert (seen == seen[:, :1]).all()  # one fate for a channel at every location
        dropped.append((seen == 0).float().mean())
        torch.testing.assert_close(seen[seen != 0], torch.full_like(seen[seen != 0], 0.7 / 0.6))
    assert abs(torch.stack(dropped).mean() - 0.4) < 0.03


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DecoderConfig(attention="firm"), "attention is .*firm"),
        (lambda: DecoderConfig(annotation_window=4), "annotation_window is .*4"),
        (lambda: DecoderConfig.from_dict({"glimpses": 3}), "glimpses"),
        (lambda: small_decoder().start(torch.zeros(B, L, 12)), r"shape \(.*\) do not fit .* D = 11"),
        (lambda: small_decoder().start(torch.zeros(L, 11)), r"shape \(.*\) do not fit .* D = 11"),
        (
            lambda: small_decoder(annotation_window=3).start(small_annotations(2, locations=15)),
            "15 locations are not a square grid",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(SatError, match=message):
        call()


def test_mixed_path_is_one_or_the_other(float64):
    decoder = small_decoder()
    annotations = small_annotations()
    captions = small_captions()
    expect = torch.tensor([[True, False, True], [False, False, True]])
    uniforms = torch.rand(B, P, C, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        mixed = decoder.teacher_forcing(annotations, captions, paths=P, mode=MixedAttention(expect, uniforms)).logits
        expected = decoder.teacher_forcing(annotations, captions, paths=P).logits
        sampled = decoder.teacher_forcing(annotations, captions, paths=P, mode=SampleAttention(uniforms)).logits
    torch.testing.assert_close(mixed, torch.where(expect[..., None, None], expected, sampled), rtol=0, atol=1e-12)


def test_a_gate_taken_out_leaves_its_mean():
    """With a gate that is the same at every step, nothing changes at all."""
    decoder = small_decoder().eval()
    with torch.no_grad():
        decoder.gate.weight.zero_()
        decoder.gate.bias.fill_(-0.7)
    without = AttentionDecoder(replace(decoder.config, gate=False)).eval()
    without.load_state_dict(ungated(decoder.state_dict(), 1 / (1 + math.exp(0.7))))
    annotations = small_annotations(2)
    captions = small_captions(2, 5, decoder.vocabulary_size)
    before, after = (one.teacher_forcing(annotations, captions) for one in (decoder, without))
    assert torch.allclose(before.logits, after.logits, atol=1e-6)
    assert after.beta is None


def test_a_window_takes_the_mean_around_each_location_by_hand():
    annotations = small_annotations(2, locations=16)
    found = windowed(annotations, 3).view(2, 4, 4, -1)
    grid = annotations.view(2, 4, 4, -1)
    for row, column in np.ndindex(4, 4):
        around = grid[:, max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]
        torch.testing.assert_close(found[:, row, column], around.mean((1, 2)))


@torch.no_grad()
@pytest.mark.parametrize("tied", [True, False])
def test_a_decoder_grows_by_words(tied):
    """The old words keep their vectors, and so the log-probabilities among them; new biases follow the counts."""
    sizes = {"embedding_size": 11, "hidden_size": 7, "attention_size": 5, "annotation_size": 3, "tied_embeddings": tied}
    old = AttentionDecoder(DecoderConfig(vocabulary_size=200, **sizes)).eval()
    counts = torch.arange(1, 204)
    old.output_bias.copy_(0.5 * counts[:200].log() - 2)
    new = AttentionDecoder(DecoderConfig(vocabulary_size=203, **sizes)).eval()
    new.load_state_dict(grown(old.state_dict(), counts, torch.Generator().manual_seed(3)))
    torch.testing.assert_close(new.output_bias[200:], 0.5 * counts[200:].log() - 2, atol=1e-4, rtol=0)
    annotations = torch.randn(2, 4, 3)
    words = torch.randint(200, (2, 6))
    before = old.teacher_forcing(annotations, words).logits
    after = new.teacher_forcing(annotations, words).logits
    torch.testing.assert_close(after[..., :200], before)
    assert float(new.embedding.weight[200:203].std()) == pytest.approx(float(old.embedding.weight.std()), rel=0.5)
    assert float(new.word_weights[200:].std()) == pytest.approx(float(old.word_weights[2:].std()), rel=0.5)
    assert not new.embedding.weight[203].any()
    for seldom in (counts * (counts < 203), 0 * counts):  # a word that no training caption has
        assert grown(old.state_dict(), seldom, torch.Generator())["output_bias"].isfinite().all()


def test_edges_of_the_draw():
    alpha = torch.tensor([[[0.25, 0.25, 0.5]]])
    for uniform, location in ((0.0, 0), (0.2499, 0), (0.25, 1), (0.4999, 1), (0.5, 2), (1 - 2**-24, 2)):
        assert SampleAttention(torch.tensor([[[uniform]]]))(alpha, torch.zeros(1, 3, 1)).locations.item() == location
    short = alpha * 0.9  # rounding may leave the sum below the draw: the last location, not one past it
    assert SampleAttention(torch.tensor([[[0.95]]]))(short, torch.zeros(1, 3, 1)).locations.item() == 2


def test_more_steps_leave_the_numbers_of_the_first():
    first, longer = (
        SampleAttention.for_photos([3, 5, 7], paths=P, steps=steps, device=torch.device("cpu")).uniforms
        for steps in (C, C + 4)
    )
    assert first.shape == (3, P, C) and torch.equal(longer[..., :C], first)
    assert len(first.unique()) == first.numel()


every_decoder = pytest.mark.parametrize(
    "decoder",
    [small_decoder(), small_baseline("m_rnn")],
    ids=lambda decoder: type(decoder).__name__,
)


@every_decoder
def test_one_step_at_a_time_gives_what_all_steps_at_once_give(decoder):
    """What a search does and what training does: words embedded, and outputs read out, apart or together."""
    annotations = small_annotations()
    captions = small_captions()
    before = previous_words(decoder, captions)
    state = decoder.start(annotations, paths=P)
    assert before[:, 0].tolist() == [decoder.vocabulary_size] * B and torch.equal(before[:, 1:], captions[:, :-1])
    together = decoder.embed(before)
    with torch.no_grad():
        output = decoder.teacher_forcing(annotations, captions, paths=P)
        for time in range(C):
            embedded = decoder.embed(before[:, time : time + 1].expand(-1, P))
            map_parts(torch.testing.assert_close, at_step(together, time, P), embedded)
            step = decoder.step(embedded, state)
            torch.testing.assert_close(decoder.read_out(step.output), output.logits[:, :, time], rtol=0, atol=1e-5)
            state = step.state


@every_decoder
def test_a_decoder_in_float64_computes_in_float64(decoder, float64):
    output = decoder.double().teacher_forcing(small_annotations(), small_captions())
    assert output.logits.dtype == torch.float64 and (output.alpha is None or output.alpha.dtype == torch.float64)
