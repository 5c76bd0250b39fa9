"""The systems of Table 1 are their papers' equations, and live behind the decoder's seam."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import D as SMALL_D
from builders import Held, fitted, random_data, shape_folder, shape_photo, small_config, small_encoder
from decoders import COMPARATOR_SIZES, OWN_SIZES, B, C, L, P, small_annotations, small_captions, small_comparator
from numpy.typing import NDArray
from torch import Tensor

import show_attend_tell.checkpoint.checkpoint as checkpoint_module
import show_attend_tell.training.loop as trainer_module
import show_attend_tell.vision.encoder as encoder_module
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.records import EncoderRecord
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.model.config import read_config
from show_attend_tell.model.interface import teacher_forcing, word_log_probabilities
from show_attend_tell.model.registry import BASELINES, KINDS, build, classes
from show_attend_tell.search import beam_search, sample
from show_attend_tell.training.data import TrainingData
from show_attend_tell.training.loop import Trainer
from show_attend_tell.training.losses import SoftObjective
from show_attend_tell.training.presets import baseline_preset
from show_attend_tell.training.run import check_start, train
from show_attend_tell.vision.sources import MeanAnnotations

Array = NDArray[np.float64]
every_kind = pytest.mark.parametrize("kind", BASELINES)
averaging = pytest.mark.parametrize("kind", [kind for kind in BASELINES if kind != "msr"])  # they read ā alone


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
    decoder, annotations, captions = small_comparator(kind), small_annotations(), small_captions()
    told = teacher_forcing(decoder, annotations, captions, paths=P)
    assert told.alpha is None and told.beta is None and told.locations is None
    weights = {name: value.numpy() for name, value in decoder.state_dict().items()}
    for photo in range(B):
        mean = annotations[photo].numpy().mean(0)
        v = (mean - mean.mean()) / np.sqrt(mean.var() + 1e-5)
        before = [COMPARATOR_SIZES["vocabulary_size"], *captions[photo, :-1].tolist()]
        wanted = EQUATIONS[kind](weights, v, weights["embedding.weight"][before])
        for path in range(P):
            np.testing.assert_allclose(told.logits[photo, path].detach().numpy(), wanted, atol=1e-10)


def test_cmu_msr_learns_to_reconstruct_the_photo_from_the_words(float64: None) -> None:
    decoder, annotations, captions = (
        small_comparator("cmu_msr", reconstruction=0.25),
        small_annotations(),
        small_captions(),
    )
    told = teacher_forcing(decoder, annotations, captions, paths=P)
    weights = {name: value.numpy() for name, value in decoder.state_dict().items()}
    for photo in range(B):
        mean = annotations[photo].numpy().mean(0)
        v = (mean - mean.mean()) / np.sqrt(mean.var() + 1e-5)
        before = [COMPARATOR_SIZES["vocabulary_size"], *captions[photo, :-1].tolist()]
        steps = cmu_msr_steps(weights, v, weights["embedding.weight"][before])
        wanted = sum(float(((seen - v) ** 2).mean()) for _, seen in steps)
        assert told.penalty is not None
        np.testing.assert_allclose(told.penalty[photo].detach().numpy(), 0.25 * wanted, atol=1e-9)
    words = SoftObjective(doubly_stochastic=0.0)
    without = words(told._replace(penalty=None), captions).total
    torch.testing.assert_close(words(told, captions).total, without + told.penalty.mean())


def test_nic_forgets_little_at_first() -> None:
    config = replace(baseline_preset("flickr8k", "nic").decoder, hidden_size=13)  # type: ignore[call-arg]
    decoder = build(config)
    assert decoder.gates_from_input.bias.tolist() == [*[0] * 13, *[1] * 13, *[0] * 26]


# The seam


@averaging
def test_only_the_mean_annotation_counts(kind: str) -> None:
    decoder, annotations, captions = small_comparator(kind), small_annotations(), small_captions()
    whole = teacher_forcing(decoder, annotations, captions).logits
    assert torch.allclose(teacher_forcing(decoder, annotations.flip(1), captions).logits, whole, atol=1e-4)
    assert torch.allclose(
        teacher_forcing(decoder, annotations.mean(1, keepdim=True), captions).logits, whole, atol=1e-4
    )
    other = teacher_forcing(decoder, small_annotations(seed=9), captions).logits
    assert ((other - whole).abs().amax(-1) > 1e-3).all()  # the photo is heard at every step


@averaging
@pytest.mark.parametrize("name", ["dropout", "annotation_dropout", "embedding_dropout"])
def test_every_dropout_drops_while_training(kind: str, name: str) -> None:
    none = {"dropout": 0.0, "annotation_dropout": 0.0, "embedding_dropout": 0.0}
    decoder = small_comparator(kind, **{**none, name: 0.5})
    annotations, captions = torch.rand(3, 5, COMPARATOR_SIZES["annotation_size"]), torch.tensor([[4, 9, 2, 0]] * 3)
    with torch.no_grad():
        assert torch.equal(*(teacher_forcing(decoder, annotations, captions).logits for _ in range(2)))
        decoder.train()
        assert not torch.allclose(*(teacher_forcing(decoder, annotations, captions).logits for _ in range(2)))


@every_kind
def test_a_search_finds_captions_that_training_gives_the_same_probability(kind: str) -> None:
    decoder, annotations = small_comparator(kind), small_annotations()
    found = beam_search(decoder, annotations, beam_size=P, max_length=C)
    found += sample(decoder, annotations, seeds=[1, 2], captions=P, max_length=C)
    for photo, hypotheses in zip((0, 1, 0, 1), found, strict=True):
        assert len(hypotheses) == P
        for hypothesis in hypotheses:
            assert hypothesis.alpha is None and hypothesis.beta is None and hypothesis.locations is None
            words = torch.tensor([[*hypothesis.words, *([Vocabulary.END] if hypothesis.ended else [])]])
            logits = teacher_forcing(decoder, annotations[photo : photo + 1], words).logits
            expected = word_log_probabilities(logits, words).sum().item()
            assert hypothesis.log_probability == pytest.approx(expected, abs=1e-3)


@every_kind
def test_annotations_of_another_size_are_refused(kind: str) -> None:
    with pytest.raises(SatError, match=r"\(2, 5, 7\).*D = 11"):
        small_comparator(kind).start(torch.zeros(B, L, 7))


# Training


@averaging
def test_it_learns_from_the_mean_annotation(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer_module, "native_bf16", lambda device: False)
    data = random_data(views=2)
    data = replace(data, views=[MeanAnnotations(view) for view in data.views])
    config = replace(
        small_config(epochs=12, learning_rate=0.03), soft=SoftObjective(doubly_stochastic=0.0), flipped=True
    )
    found, _ = classes(kind)
    settings = fitted(replace(config, decoder=found(**{**COMPARATOR_SIZES, **OWN_SIZES[kind], "dropout": 0.0})), data)
    trainer = Trainer(settings, data, device=torch.device("cpu"))
    losses: list[float] = []
    trainer.run(on_epoch=lambda epoch, better: losses.append(epoch.watch["nats_per_word"]), show=False)
    assert losses[-1] < 0.6 * losses[0], losses


def test_means_are_read_once() -> None:
    asked: list[str] = []

    class Counted(Held):
        def __getitem__(self, names: Any) -> Tensor:
            asked.extend(names)
            return super().__getitem__(names).half()

    held = {name: small_annotations(1, seed=seed)[0] for seed, name in enumerate("abc")}
    means = MeanAnnotations(Counted(held))
    first = means[["b", "a", "b"]]
    assert first.shape == (3, 1, COMPARATOR_SIZES["annotation_size"]) and first.dtype == torch.float32
    assert torch.equal(first[0], first[2])
    assert torch.allclose(first[1, 0], held["a"].half().float().mean(0))
    again = means[["a", "c"]]
    assert torch.equal(again[0], first[1]) and sorted(asked) == ["a", "b", "c"]


def test_a_training_reads_averaged_photos_and_its_model_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[TrainingData] = []
    before = Trainer.__init__

    def watched(self: Trainer, config: Any, data: TrainingData, **options: Any) -> None:
        seen.append(data)
        before(self, config, data, **options)

    monkeypatch.setattr(Trainer, "__init__", watched)
    monkeypatch.setattr(encoder_module, "native_bf16", lambda device: False)
    encoder = small_encoder()
    monkeypatch.setattr(checkpoint_module, "load_encoder", lambda name, **options: encoder)
    from show_attend_tell.data.datasets import read_dataset

    config = baseline_preset("flickr8k", "lrcn")
    decoder = replace(config.decoder, embedding_size=7, hidden_size=9)
    config = replace(config, decoder=decoder, epochs=1, minimum_count=1, batch_size=4)
    dataset = read_dataset(shape_folder(tmp_path / "shapes"))
    device = torch.device("cpu")
    options: dict[str, Any] = {"cache": tmp_path, "device": device, "log": lambda line: None, "show": False}
    train(dataset, config, encoder, tmp_path / "lrcn", **options)
    assert all(view[["photo0.png"]].shape == (1, 1, SMALL_D) for view in seen[0].views) and len(seen[0].views) == 2

    captioner = Captioner.from_pretrained(tmp_path / "lrcn", device="cpu")
    assert captioner.checkpoint.training["settings"]["decoder.kind"] == "lrcn"
    photo = shape_photo("red", "circle", True)
    caption = captioner(photo, beam_size=2)
    assert caption.attention is None and caption.gate is None and caption.locations is None
    assert caption.to_dict()["attention"] is None
    with pytest.raises(SatError, match="no attention"):
        caption.picture()
    assert captioner.log_probability(photo, "a red circle") < 0

    nic = baseline_preset("flickr8k", "nic")
    with pytest.raises(SatError, match=r"of the kind lrcn, and this training of nic"):
        train(dataset, nic, encoder, tmp_path / "nic", init_from=captioner.checkpoint, **options)
    with pytest.raises(SatError, match=r"give --set decoder\.embedding_size=7 --set decoder\.hidden_size=9"):
        start = captioner.checkpoint
        train(dataset, baseline_preset("flickr8k", "lrcn"), encoder, tmp_path / "b", init_from=start, **options)
    check_start(start, replace(decoder, embedding_dropout=0.1), encoder)  # a dropout may differ


# Kinds, configurations and checkpoints


def saved(kind: str, folder: Path) -> Path:
    vocabulary = Vocabulary([f"word{number}" for number in range(21)])
    encoder = EncoderRecord.of(small_encoder())
    Checkpoint(decoder=small_comparator(kind), vocabulary=vocabulary, encoder=encoder).save(folder)
    return folder


@averaging
def test_a_checkpoint_comes_back_as_its_kind(kind: str, tmp_path: Path) -> None:
    decoder, found = small_comparator(kind), Checkpoint.load(saved(kind, tmp_path)).decoder
    assert found.config == decoder.config and type(found) is type(decoder)
    annotations, captions = small_annotations(), small_captions()
    assert torch.equal(
        teacher_forcing(found, annotations, captions).logits, teacher_forcing(decoder, annotations, captions).logits
    )
    card = " ".join((tmp_path / "README.md").read_text(encoding="utf-8").split())  # without line breaks
    assert decoder.config.title in card and "the mean of the annotations" in card and "embedding size 17" in card
    assert "AttentionMode at the attention" not in card


def test_an_unknown_kind_lists_the_known(tmp_path: Path) -> None:
    config = saved("nic", tmp_path) / "config.json"
    config.write_text(config.read_text(encoding="utf-8").replace('"kind": "nic"', '"kind": "nick"'), encoding="utf-8")
    with pytest.raises(SatError, match=r"config\.json.*'nick'.*attention, nic, lrcn, log_bilinear, m_rnn, brnn"):
        Checkpoint.load(tmp_path)


def test_what_has_no_kind_is_the_papers_decoder() -> None:
    assert read_config({"hidden_size": 13}).kind == "attention"
    assert list(KINDS) == ["attention", *BASELINES]


@every_kind
def test_nonsense_is_refused(kind: str) -> None:
    config, _ = classes(kind)
    for name in OWN_SIZES[kind]:
        with pytest.raises(SatError, match=f"{name} is 0: give a whole number from 1"):
            config(**{name: 0})
    with pytest.raises(SatError, match=r"annotation_dropout is 1\.0"):
        config(annotation_dropout=1.0)  # type: ignore[call-arg]
    with pytest.raises(SatError, match="unknown entries attention_size"):
        config.from_dict({"kind": kind, "attention_size": 3})


@every_kind
def test_every_kind_has_settings(kind: str) -> None:
    assert baseline_preset("flickr8k", kind).decoder.kind == kind
    with pytest.raises(SatError, match="no preset 'paper'"):
        baseline_preset("paper", kind)
    with pytest.raises(SatError, match="one of nic, lrcn"):
        baseline_preset("flickr8k", "soft")
