"""The systems of Table 1 are their papers' equations, and decoders like any other."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from builders import fitted, random_data, shape_folder, shape_photo, small_config
from commands import refused, sat
from decoders import BASELINE_SIZES, OWN_SIZES, B, C, P, small_annotations, small_baseline, small_captions
from documents import ROOT
from numpy.typing import NDArray

from show_attend_tell.backends.torch import TorchBackend
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.generation import search_candidates
from show_attend_tell.model.interface import teacher_forcing, word_log_probabilities
from show_attend_tell.model.registry import build, config_class
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.training.loop import Trainer
from show_attend_tell.training.losses import SoftObjective
from show_attend_tell.training.presets import preset

Array = NDArray[np.float64]
AVERAGING = ("nic", "lrcn", "log_bilinear", "m_rnn", "brnn", "cmu_msr")  # which read ā alone
every_kind = pytest.mark.parametrize("kind", [*AVERAGING, "msr"])
averaging = pytest.mark.parametrize("kind", AVERAGING)
NO_DROPOUT = {"dropout": 0.0, "annotation_dropout": 0.0, "embedding_dropout": 0.0}


# The equations, once more, in NumPy and for one caption: v the mean annotation, x the embeddings of the words before


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def nic(w: dict[str, Array], v: Array, x: Array) -> Array:
    m = c = np.zeros(13)
    logits = []
    for word in [w["photo_as_word.weight"] @ v + w["photo_as_word.bias"], *x]:
        i, f, o, g = np.split(
            w["gates_from_input.weight"] @ word + w["gates_from_input.bias"] + w["gates_from_hidden.weight"] @ m, 4
        )
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        m = sigmoid(o) * c
        logits.append(w["output.weight"] @ m + w["output.bias"])
    return np.array(logits[1:])  # nothing is said of the photo itself


def lrcn(w: dict[str, Array], v: Array, x: Array) -> Array:
    h = c = np.zeros(13)
    both = np.hstack([w["gates_from_word.weight"], w["gates_from_photo.weight"]])
    logits = []
    for word in x:
        gates = both @ np.concatenate([word, v]) + w["gates_from_word.bias"] + w["gates_from_hidden.weight"] @ h
        i, f, o, g = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        logits.append(w["output.weight"] @ h + w["output.bias"])
    return np.array(logits)


def log_bilinear(w: dict[str, Array], v: Array, x: Array) -> Array:
    start = w["embedding.weight"][-1]
    oldest, middle, newest = np.split(w["context.weight"], 3, axis=1)
    logits = []
    for time in range(len(x)):
        before = [x[time - i] if time >= i else start for i in range(3)]  # the newest first
        predicted = newest @ before[0] + middle @ before[1] + oldest @ before[2] + w["photo_bias.weight"] @ v
        logits.append(w["embedding.weight"][:-1] @ predicted + w["output_bias"])
    return np.array(logits)


def m_rnn(w: dict[str, Array], v: Array, x: Array) -> Array:
    r = np.zeros(13)
    logits = []
    for word in x:
        word = w["second_embedding.weight"] @ word
        r = np.maximum(w["recurrence.weight"] @ r + word, 0)
        m = w["multimodal_from_word.weight"] @ word + w["multimodal_from_word.bias"]
        m = m + w["multimodal_from_recurrence.weight"] @ r + w["multimodal_from_photo.weight"] @ v
        logits.append(w["output.weight"] @ (1.7159 * np.tanh(2 / 3 * m)) + w["output.bias"])
    return np.array(logits)


def brnn(w: dict[str, Array], v: Array, x: Array) -> Array:
    h = np.zeros(13)
    logits = []
    for time, word in enumerate(x):
        total = w["hidden_from_word.weight"] @ word + w["hidden_from_word.bias"] + w["hidden_from_hidden.weight"] @ h
        h = np.maximum(total + (w["hidden_from_photo.weight"] @ v if time == 0 else 0), 0)
        logits.append(w["output.weight"] @ h + w["output.bias"])
    return np.array(logits)


def cmu_msr(w: dict[str, Array], v: Array, x: Array) -> Array:
    return np.array([logits for logits, _ in cmu_msr_steps(w, v, x)])


def cmu_msr_steps(w: dict[str, Array], v: Array, x: Array) -> Iterator[tuple[Array, Array]]:
    """Logits and reconstructed photo of each step."""
    s, u = np.zeros(13), np.zeros(10)
    for word in x:
        from_word = w["language_from_word.weight"] @ word + w["language_from_word.bias"]
        s = sigmoid(from_word + w["language_from_language.weight"] @ s + w["language_from_photo.weight"] @ v)
        u = sigmoid(
            w["visual_from_word.weight"] @ word + w["visual_from_word.bias"] + w["visual_from_visual.weight"] @ u
        )
        logits = w["output.weight"] @ np.hstack([s, u]) + w["output.bias"] + w["output_from_photo.weight"] @ v
        yield logits, w["photo_from_visual.weight"] @ u + w["photo_from_visual.bias"]


EQUATIONS = {"nic": nic, "lrcn": lrcn, "log_bilinear": log_bilinear, "m_rnn": m_rnn, "brnn": brnn, "cmu_msr": cmu_msr}


@averaging
def test_logits_are_the_papers(kind: str, float64: None) -> None:
    decoder, annotations, captions = small_baseline(kind), small_annotations(), small_captions()
    output = teacher_forcing(decoder, annotations, captions, paths=P)
    assert output.alpha is None and output.beta is None and output.locations is None
    weights = {name: value.numpy() for name, value in decoder.state_dict().items()}
    for photo in range(B):
        mean = annotations[photo].numpy().mean(0)
        v = (mean - mean.mean()) / np.sqrt(mean.var() + 1e-5)
        before = [BASELINE_SIZES["vocabulary_size"], *captions[photo, :-1].tolist()]
        wanted = EQUATIONS[kind](weights, v, weights["embedding.weight"][before])
        for path in range(P):
            np.testing.assert_allclose(output.logits[photo, path].detach().numpy(), wanted, atol=1e-10)


def test_cmu_msr_learns_to_reconstruct_the_photo_from_the_words(float64: None) -> None:
    decoder, annotations, captions = (
        small_baseline("cmu_msr", reconstruction=0.25),
        small_annotations(),
        small_captions(),
    )
    output = teacher_forcing(decoder, annotations, captions, paths=P)
    weights = {name: value.numpy() for name, value in decoder.state_dict().items()}
    for photo in range(B):
        mean = annotations[photo].numpy().mean(0)
        v = (mean - mean.mean()) / np.sqrt(mean.var() + 1e-5)
        before = [BASELINE_SIZES["vocabulary_size"], *captions[photo, :-1].tolist()]
        steps = cmu_msr_steps(weights, v, weights["embedding.weight"][before])
        wanted = sum(float(((seen - v) ** 2).mean()) for _, seen in steps)
        assert output.penalty is not None
        np.testing.assert_allclose(output.penalty[photo].detach().numpy(), 0.25 * wanted, atol=1e-9)
    words = SoftObjective(doubly_stochastic=0.0)
    without = words(output._replace(penalty=None), captions).total
    torch.testing.assert_close(words(output, captions).total, without + output.penalty.mean())


def test_nic_forgets_little_at_first() -> None:
    decoder = build(config_class("nic")(**BASELINE_SIZES, hidden_size=13))
    assert decoder.gates_from_input.bias.tolist() == [*[0] * 13, *[1] * 13, *[0] * 26]


# As any decoder


@averaging
def test_only_the_mean_annotation_counts(kind: str) -> None:
    decoder, annotations, captions = small_baseline(kind), small_annotations(), small_captions()
    whole = teacher_forcing(decoder, annotations, captions).logits
    assert torch.allclose(teacher_forcing(decoder, annotations.flip(1), captions).logits, whole, atol=1e-4)
    assert torch.allclose(
        teacher_forcing(decoder, annotations.mean(1, keepdim=True), captions).logits, whole, atol=1e-4
    )
    other = teacher_forcing(decoder, small_annotations(seed=9), captions).logits
    assert ((other - whole).abs().amax(-1) > 1e-3).all()  # the photo is heard at every step


@averaging
@pytest.mark.parametrize("name", NO_DROPOUT)
def test_every_dropout_drops_while_training(kind: str, name: str) -> None:
    decoder = small_baseline(kind, **{**NO_DROPOUT, name: 0.5})
    annotations, captions = torch.rand(3, 5, BASELINE_SIZES["annotation_size"]), torch.tensor([[4, 9, 2, 0]] * 3)
    with torch.no_grad():
        assert torch.equal(*(teacher_forcing(decoder, annotations, captions).logits for _ in range(2)))
        decoder.train()
        assert not torch.allclose(*(teacher_forcing(decoder, annotations, captions).logits for _ in range(2)))


@every_kind
def test_a_search_finds_captions_that_training_gives_the_same_probability(kind: str) -> None:
    decoder, annotations = small_baseline(kind), small_annotations()
    found, config = [], GenerationConfig(beam_size=P, max_length=C)
    for how in (config, config.merge(do_sample=True, num_captions=P)):
        found += search_candidates(TorchBackend(decoder), annotations, how, seeds=[1, 2])
    for photo, hypotheses in zip((0, 1, 0, 1), found, strict=True):
        assert len(hypotheses) == P
        for hypothesis in hypotheses:
            assert hypothesis.alpha is None and hypothesis.beta is None and hypothesis.locations is None
            words = torch.tensor([[*hypothesis.words, *([Vocabulary.END] if hypothesis.ended else [])]])
            logits = teacher_forcing(decoder, annotations[photo : photo + 1], words).logits
            expected = word_log_probabilities(logits, words).sum().item()
            assert hypothesis.log_probability == pytest.approx(expected, abs=1e-3)


# Training


@averaging
def test_it_learns_from_the_mean_annotation(kind: str) -> None:
    data = random_data(views=2)
    config = small_config(epochs=12, learning_rate=0.03, soft=SoftObjective(doubly_stochastic=0.0), flipped=True)
    decoder = config_class(kind)(**BASELINE_SIZES, **OWN_SIZES[kind], **NO_DROPOUT)
    trainer = Trainer(fitted(replace(config, decoder=decoder), data), data, device=torch.device("cpu"))
    losses: list[float] = []
    trainer.run(on_epoch=lambda epoch, better: losses.append(epoch.watch["nats_per_word"]), show=False)
    assert losses[-1] < 0.6 * losses[0], losses


@every_kind
def test_its_preset_is_the_soft_one_with_its_own_decoder(kind: str) -> None:
    config = preset("flickr8k", decoder=kind)
    assert config == replace(preset("flickr8k"), decoder=config_class(kind)(), visual_ngrams=False)


SMALL = ("--set", "decoder.embedding_size=7", "--set", "minimum_count=1", "--set", "batch_size=4", "--epochs", "1")
PLUGIN = ("--plugin", ROOT / "research" / "table1")


@pytest.mark.usefixtures("small")
def test_commands_train_caption_and_evaluate_them(tmp_path: Path) -> None:
    data = shape_folder(tmp_path / "shapes")
    for seed in (1, 2):
        sized = (*SMALL, "--set", "decoder.hidden_size=9", "--seed", seed)
        sat("train", data, *PLUGIN, "--decoder", "lrcn", "--output", tmp_path / f"lrcn-{seed}", *sized)
    card = " ".join((tmp_path / "lrcn-1" / "README.md").read_text(encoding="utf-8").split())  # without line breaks
    assert "LRCN, one layer (Donahue et al., 2014)" in card and "embedding size 7, hidden size 9" in card

    captioner = Captioner.from_pretrained(tmp_path / "lrcn-1", device="cpu")
    caption = captioner(shape_photo("red", "circle", True))
    assert caption.attention is None and caption.gate is None and caption.locations is None
    with pytest.raises(SatError, match="no attention"):
        caption.picture()

    ensemble = ("--model", tmp_path / "lrcn-1", "--model", tmp_path / "lrcn-2")
    said = sat("evaluate", *PLUGIN, *ensemble, "--data", data, "--json", tmp_path / "both.json").stdout
    assert said.startswith("lrcn-1 + lrcn-2 on shapes test: 4 captions")
    line = refused("evaluate", *PLUGIN, *ensemble, "--data", data, "--attention-mode", "sample")
    assert "lrcn-1 + lrcn-2 has no attention" in line

    again = ("train", data, *PLUGIN, "--init-from", tmp_path / "lrcn-1", "--output", tmp_path / "again")
    line = refused(*again, "--decoder", "nic")
    assert "of the kind lrcn, and this training of nic" in line
    line = refused(*again, "--decoder", "lrcn", "--set", "decoder.embedding_dropout=0.1")  # a dropout may differ
    assert "give --set decoder.embedding_size=7 --set decoder.hidden_size=9" in line


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    train = ("train", tmp_path, *PLUGIN, "--output", tmp_path / "model")
    assert "only one of --attention" in refused(*train, "--attention", "soft", "--decoder", "nic")
    assert "no decoder of the kind 'nick' is registered" in refused(*train, "--decoder", "nick")
    assert "decoder.hidden_size" in refused(*train, "--decoder", "nic", "--set", "decoder.attention_size=3")
