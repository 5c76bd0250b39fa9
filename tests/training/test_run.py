"""From a folder of photos to a checkpoint and its scores, with a frozen and with a fine-tuned encoder."""

import csv
import dataclasses
import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import (
    ROWS,
    SIZES,
    fitted,
    random_data,
    shape_caption,
    shape_folder,
    shape_photo,
    shape_scenes,
    small_config,
    small_encoder,
    small_load_encoder,
)
from safetensors.torch import load_file
from torch import Tensor

import show_attend_tell.checkpoint.checkpoint as checkpoint_module
import show_attend_tell.evaluation as scoring_run
import show_attend_tell.rerank.doubt as doubt_module
import show_attend_tell.rerank.visual_ngrams as visual_ngrams_module
import show_attend_tell.search.beam as search_module
import show_attend_tell.training.data as data_module
import show_attend_tell.training.loop as trainer_module
import show_attend_tell.training.run as run_module
import show_attend_tell.training.selection as selection_module
import show_attend_tell.vision.encoder as encoder_module
import show_attend_tell.vision.sources as sources_module
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.datasets import Dataset, join, read_dataset
from show_attend_tell.data.photos import open_photo
from show_attend_tell.errors import SatError
from show_attend_tell.files import file_lock
from show_attend_tell.metrics.scores import score
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.loop import Trainer
from show_attend_tell.training.losses import HardObjective
from show_attend_tell.training.presets import preset
from show_attend_tell.vision.backbones import small as small_backbone
from show_attend_tell.vision.encoder import Encoder

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, without_java: None) -> None:
    """Checkpoints find the small encoder, in float32 on any hardware; METEOR, which takes seconds, is left out."""
    monkeypatch.setattr(checkpoint_module, "load_encoder", small_load_encoder)
    monkeypatch.setattr(encoder_module, "native_bf16", lambda device: False)
    monkeypatch.setattr(trainer_module, "native_bf16", lambda device: False)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return read_dataset(shape_folder(tmp_path_factory.mktemp("data") / "shapes", captions=2))


def run(
    dataset: Dataset, config: TrainingConfig, output: Path, *, encoder: Encoder | None = None, **options: Any
) -> tuple[Checkpoint, list[str]]:
    """A training without progress bars; also what it said."""
    said: list[str] = []
    given = {"cache": output.parent / "cache", "device": CPU, "log": said.append, "show": False, **options}
    return run_module.train(dataset, config, encoder or small_encoder(), output, **given), said


def same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


# Training


def test_uniform_attention_trains_with_the_soft_model_s_settings(dataset: Dataset, tmp_path: Path) -> None:
    soft, uniform = preset("flickr8k", "soft"), preset("flickr8k", "uniform")
    assert replace(uniform.decoder, attention="soft") == soft.decoder
    assert replace(uniform, decoder=soft.decoder) == soft
    encoder = small_encoder()
    best, _ = run(dataset, small_config(decoder={"attention": "uniform"}), tmp_path / "model", encoder=encoder)
    caption = Captioner(best, encoder, name="uniform")(dataset.examples[0].photo)
    assert caption.words and caption.attention is None and caption.gate is not None
    assert "It is a control" in (tmp_path / "model" / "README.md").read_text()


def test_a_training_leaves_a_model_that_captions(dataset: Dataset, tmp_path: Path) -> None:
    config = small_config(epochs=3, flipped=True)
    best, said = run(dataset, config, tmp_path / "model", bits=16, notes={"preset": "small"})
    assert {path.name for path in (tmp_path / "model").iterdir()} == {
        "config.json",
        "model.safetensors",
        "vocabulary.json",
        "README.md",
        "training",
    }
    captioner = Captioner.from_pretrained(tmp_path / "model", device="cpu")
    assert same(captioner.torch_backend().decoder.state_dict(), best.decoder.state_dict())
    for example in dataset.split("test"):
        caption = captioner(example.photo)
        assert caption.attention is not None and caption.attention.shape[1] == ROWS
    assert captioner.checkpoint.training["preset"] == "small" and captioner.checkpoint.training["data"] == "shapes"
    assert captioner.checkpoint.training["settings"]["decoder.hidden_size"] == SIZES["hidden_size"]
    # the report comes first, then the size of it, then the epochs
    assert said[0] == "train: 10 photos, 20 captions" and "20 captions of 10 photos" in "\n".join(said)
    epochs = [line for line in said if line.startswith("epoch")]
    assert [line.split(":")[0] for line in epochs] == ["epoch 1", "epoch 2", "epoch 3"]
    assert [bool(re.search(r" s; at most \d+ (s|min) left$", line)) for line in epochs] == [True, True, False]
    log = [json.loads(line) for line in (tmp_path / "model" / "training" / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in log] == [1, 2, 3]
    assert {"bleu_4", "cider", "distinct", "repetitive", "truncated", "loss", "entropy", "seconds"} <= log[0].keys()
    for words in (
        "val BLEU-4 ",
        "CIDEr ",
        " % truncated",
        " % repetitive",
        " % distinct",
        " different words",
        "loss ",
    ):
        assert words in epochs[0]
    assert "(best)" in epochs[0] and epochs[0].index("(best)") < epochs[0].index("CIDEr")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (99.4, "99 s"), (100, "2 min"), (750, "12 min"), (5900, "98 min"), (6300, "1.8 h")],
)
def test_a_duration_in_words(seconds: float, words: str) -> None:
    assert run_module.duration(seconds) == words


def test_the_vocabulary_is_of_the_training_split_alone(dataset: Dataset, tmp_path: Path) -> None:
    data = data_module.prepare(dataset, small_config(), small_encoder(), tmp_path, show=False)
    spoken = {word for example in dataset.split("train") for caption in example.captions for word in caption}
    assert set(data.vocabulary.words[2:]) == spoken
    rare = data_module.prepare(dataset, small_config(minimum_count=12), small_encoder(), tmp_path, show=False)
    assert 2 < len(rare.vocabulary) < len(data.vocabulary)
    assert {name for name, _ in data.captions} == {example.name for example in dataset.split("train")}
    assert [name for name, _ in data.validation] == [example.name for example in dataset.split("val")]


def test_captions_without_photos_that_are_left_out_are_counted(dataset: Dataset, tmp_path: Path) -> None:
    known = [words for example in dataset.split("train") for words in example.captions][:3]
    _, said = run(dataset, small_config(epochs=1), tmp_path / "model", text_corpus=[*known, ("a", "zebra")])
    line = "3 captions without photos, and 1 left out, which have words that no photo's caption teaches"
    assert line in said
    with pytest.raises(SatError, match="maximize is cider"):
        run(dataset, small_config(maximize="cider"), tmp_path / "other", text_corpus=known)


def test_the_best_epoch_ships_and_the_beam_is_chosen_on_validation(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[dict[str, Tensor]] = []
    scores = iter([3.0, 9.0, 4.0, 8.0])

    def validate(self: Trainer, **_: Any) -> dict[str, float]:
        found.append({name: value.clone() for name, value in self.average.state_dict().items()})
        return {f"bleu_{n}": next(scores) if n == 4 else 0.0 for n in range(1, 5)}

    tried = {1: [3.0, 3.0], 3: [6.0, 7.0], 5: [7.0, 5.0], 10: [6.0, 2.0]}

    def validation_scores(decoder: Any, data: Any, beam_size: int, **rest: Any) -> list[dict[str, float]]:
        rankings = [(0.0, 0.0), (0.5, 0.0)]
        assert rest == {"only": "bleu_4", "max_length": 12, "rankings": rankings, "reranker": None, "show": False}
        return [{"bleu_4": score} for score in tried[beam_size]]

    monkeypatch.setattr(Trainer, "validate", validate)
    monkeypatch.setattr(selection_module, "validation_scores", validation_scores)
    monkeypatch.setattr(selection_module, "BEAMS", tuple(tried))
    monkeypatch.setattr(selection_module, "NORMALIZATIONS", (0.0, 0.5))
    best, said = run(dataset, small_config(epochs=4), tmp_path / "model")
    assert same(best.decoder.state_dict(), found[1]) and not same(best.decoder.state_dict(), found[3])
    assert same(Checkpoint.load(tmp_path / "model").decoder.state_dict(), found[1])
    assert best.training["epochs"] == 2 and ["(best)" in line for line in said if line.startswith("epoch")] == [
        True,
        True,
        False,
        False,
    ]
    generation = Checkpoint.load(tmp_path / "model").generation
    assert (generation.beam_size, generation.length_penalty) == (3, 0.5)  # the narrowest of the best
    assert best.training["validation_bleu_4"] == {
        "beam 1, γ 0": 3.0,
        "beam 3, γ 0.5": 7.0,
        "beam 5, γ 0": 7.0,
        "beam 10, γ 0": 6.0,
    }  # each beam's best


@pytest.mark.parametrize("attention", ["soft", "hard"])
def test_an_interrupted_training_resumes_to_the_same_model(
    attention: str, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(
        epochs=3,
        flipped=True,
        averaging=0.9,
        decoder={"attention": attention, "dropout": 0.3},
        hard=HardObjective(samples=2, baseline="moving"),
    )
    whole, _ = run(dataset, config, tmp_path / "whole")
    batch, taken = Trainer.one_batch, 0

    def interrupted(self: Trainer, indices: list[int]) -> dict[str, float]:
        nonlocal taken
        taken += 1
        if taken == 8:
            signal.raise_signal(signal.SIGINT)
        return batch(self, indices)

    monkeypatch.setattr(Trainer, "one_batch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(dataset, config, tmp_path / "model")
    with pytest.raises(SatError, match="resume"):  # forgetting --resume must not throw the work away
        run(dataset, config, tmp_path / "model")
    resumed, said = run(dataset, config, tmp_path / "model", resume=True)
    assert any(line.startswith("resumed after 1 epoch and") for line in said)
    assert same(resumed.decoder.state_dict(), whole.decoder.state_dict())
    assert resumed.generation == whole.generation
    log = [json.loads(line) for line in (tmp_path / "model" / "training" / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in log] == [1, 2, 3]


def test_an_interruption_before_the_first_epoch_s_end_is_kept(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "validate", lambda self, **_: signal.raise_signal(signal.SIGINT) or {"bleu_4": 0.0})
        with pytest.raises(KeyboardInterrupt):
            run(dataset, small_config(), tmp_path / "model")
    with pytest.raises(SatError, match="resume"):
        run(dataset, small_config(), tmp_path / "model")
    resumed, said = run(dataset, small_config(), tmp_path / "model", resume=True)
    whole, _ = run(dataset, small_config(), tmp_path / "whole")
    assert same(resumed.decoder.state_dict(), whole.decoder.state_dict())
    first, second, _ = (line for line in said if line.startswith("epoch "))
    assert ", ," not in first and "loss" not in first and "loss" in second  # no batch was left of the first


@pytest.mark.parametrize("killed", ["while encoding", "in the first epoch"])
def test_resuming_before_the_first_checkpoint_starts(
    killed: str, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One command, with --resume, is enough for a training that may be killed at any time."""

    class Killed(BaseException):
        pass

    def kill(*_: Any, **__: Any) -> None:
        raise Killed

    for _ in range(2):
        with monkeypatch.context() as patched:
            if killed == "while encoding":
                patched.setattr(Encoder, "annotate", kill)
            else:
                patched.setattr(Trainer, "one_batch", kill)
            with pytest.raises(Killed):
                run(dataset, small_config(), tmp_path / "model", resume=True)
    model, said = run(dataset, small_config(), tmp_path / "model", resume=True)
    assert any("nothing to resume" in line and "training starts" in line for line in said)
    whole, _ = run(dataset, small_config(), tmp_path / "whole")
    assert same(model.decoder.state_dict(), whole.decoder.state_dict())


def test_a_training_is_resumed_in_another_precision(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As happens on another device: the annotations differ a little, and the encoder is the same."""
    config = small_config(epochs=3)
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "validate", lambda self, **_: signal.raise_signal(signal.SIGINT) or {"bleu_4": 0.0})
        with pytest.raises(KeyboardInterrupt):
            run(dataset, config, tmp_path / "model")
    monkeypatch.setattr(encoder_module, "native_bf16", lambda device: True)
    _, said = run(dataset, config, tmp_path / "model", resume=True)
    assert "resumed after 0 epochs and 6 batches" in said


def test_the_log_has_each_epoch_once(dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when a training was killed after an epoch's line was written, and before its state was."""

    class Killed(BaseException):
        pass

    real, saved = trainer_module.save_state, 0

    def killed(trainer: Trainer, file: Path) -> None:
        nonlocal saved
        saved += 1
        if saved == 3:  # before the first checkpoint, after the first epoch, after the second
            raise Killed
        real(trainer, file)

    with monkeypatch.context() as patched:
        patched.setattr(trainer_module, "SAVED_EVERY", -1.0)  # after each epoch
        patched.setattr(trainer_module, "save_state", killed)
        with pytest.raises(Killed):
            run(dataset, small_config(), tmp_path / "model")
    run(dataset, small_config(), tmp_path / "model", resume=True)
    log = [json.loads(line) for line in (tmp_path / "model" / "training" / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in log] == [1, 2, 3]


def test_outputs_and_resumes_that_do_not_fit_are_refused(dataset: Dataset, tmp_path: Path) -> None:
    first, _ = run(dataset, small_config(epochs=1), tmp_path / "model")
    with pytest.raises(SatError, match="holds a model already"):
        run(dataset, small_config(epochs=1), tmp_path / "model")
    with pytest.raises(SatError, match="batch_size was 4, is 3"):
        run(dataset, small_config(epochs=1, batch_size=3), tmp_path / "model", resume=True)
    other = replace(
        dataset, examples=tuple(replace(each, captions=each.captions[::-1] * 2) for each in dataset.examples)
    )
    with pytest.raises(SatError, match=r"\(the captions, their weights, .* have changed since\): give the same"):
        run(other, small_config(epochs=1), tmp_path / "model", resume=True)
    with pytest.raises(SatError, match=r"encoder\.digest was"):  # the same sizes, other features
        run(dataset, small_config(epochs=1), tmp_path / "model", encoder=small_encoder(seed=1), resume=True)
    with pytest.raises(SatError, match=r"encoder_learning_rate was None, is 0\.001"):
        run(dataset, small_config(epochs=1), tmp_path / "model", resume=True, encoder_lr=1e-3)
    assert same(Checkpoint.load(tmp_path / "model").decoder.state_dict(), first.decoder.state_dict())


def test_a_data_set_without_validation_photos_is_refused(tmp_path: Path) -> None:
    whole = read_dataset(shape_folder(tmp_path / "shapes"))
    examples = tuple(example for example in whole.examples if example.split != "val")
    report = dataclasses.replace(whole.report, photos={**whole.report.photos, "val": 0})
    dataset = dataclasses.replace(whole, examples=examples, report=report)
    with pytest.raises(SatError, match="no split 'val'; it has train, test"):
        run(dataset, small_config(), tmp_path / "model")


def test_a_hard_model_starts_from_a_soft_one(dataset: Dataset, tmp_path: Path) -> None:
    soft, _ = run(dataset, small_config(epochs=2), tmp_path / "soft")
    hard = small_config(epochs=1, learning_rate=1e-12, decoder={"attention": "hard"})
    model, _ = run(dataset, hard, tmp_path / "hard", init_from=soft)
    # by default a hard model looks as it is selected, at one place a word
    assert (soft.generation.mode, model.generation.mode) == ("mean", "argmax")
    assert Checkpoint.load(tmp_path / "hard").generation.mode == "argmax"
    assert model.decoder.config.attention == "hard" and model.vocabulary == soft.vocabulary
    for name, value in model.decoder.state_dict().items():
        torch.testing.assert_close(value, soft.decoder.state_dict()[name], atol=1e-6, rtol=0)
    with pytest.raises(SatError, match="hidden_size"):  # naming what differs
        run(dataset, small_config(decoder={"hidden_size": 7}), tmp_path / "other", init_from=soft)
    with pytest.raises(SatError, match="SHA-256"):
        run(dataset, small_config(), tmp_path / "other", init_from=soft, encoder=small_encoder(seed=1))
    with pytest.raises(SatError, match="give --resize squash"):  # the same weights, another view of the photos
        run(dataset, small_config(), tmp_path / "other", init_from=soft, encoder=small_encoder(resize="crop"))


def test_a_hard_model_without_a_gate_starts_from_a_soft_one_with_it(dataset: Dataset, tmp_path: Path) -> None:
    soft, _ = run(dataset, small_config(epochs=2), tmp_path / "soft")
    hard = small_config(epochs=1, learning_rate=1e-12, decoder={"attention": "hard", "gate": False})
    model, said = run(dataset, hard, tmp_path / "hard", init_from=soft)
    beta = model.decoder.gates_from_context.weight / soft.decoder.gates_from_context.weight
    assert 0 < beta.mean() < 1
    torch.testing.assert_close(beta, beta.mean().expand_as(beta), atol=1e-3, rtol=0)
    assert any(f"its mean, {beta.mean():.2f}," in line for line in said)
    assert torch.allclose(model.decoder.attention.energy, soft.decoder.attention.energy, atol=1e-6)


def test_sharpening_multiplies_the_energies_once_after_the_last_epoch(dataset: Dataset, tmp_path: Path) -> None:
    model, _ = run(dataset, small_config(epochs=1), tmp_path / "wide")
    config = small_config(epochs=1, sharpening=3.0)
    sharp, _ = run(dataset, config, tmp_path / "sharp")
    again, _ = run(dataset, config, tmp_path / "sharp", resume=True)  # it had ended
    before = model.decoder.state_dict()
    energy = before.pop("attention.energy")
    for after in (sharp.decoder.state_dict(), again.decoder.state_dict()):
        torch.testing.assert_close(after.pop("attention.energy"), 3 * energy)
        torch.testing.assert_close(after, before)
    uniform = small_config(sharpening=3.0, decoder={"attention": "uniform"})
    for blind in (replace(preset("flickr8k", decoder="nic"), sharpening=3.0), uniform):
        with pytest.raises(SatError, match="sharpening is 3, and this decoder has no α"):
            run(dataset, blind, tmp_path / "other")


def test_words_unknown_to_the_model_to_start_from_are_appended(dataset: Dataset, tmp_path: Path) -> None:
    soft, said = run(dataset, small_config(epochs=1), tmp_path / "soft")
    assert not any(" are unknown" in line or "new word" in line for line in said)
    folder = shape_folder(tmp_path / "shapes")
    captions = folder / "captions.csv"
    captions.write_text(captions.read_text(encoding="utf-8").replace(" a ", " my "), encoding="utf-8")
    captions.write_text(captions.read_text(encoding="utf-8").replace(",a ", ",one "), encoding="utf-8")
    data = read_dataset(folder)

    still = small_config(epochs=1, learning_rate=1e-12)
    model, said = run(data, still, tmp_path / "again", init_from=soft)
    K = len(soft.vocabulary)
    assert model.vocabulary.words[:K] == soft.vocabulary.words and set(model.vocabulary.words[K:]) == {"my", "one"}
    assert any(line.startswith("2 new words seen once or more: ") for line in said)
    before, after = soft.decoder.state_dict(), model.decoder.state_dict()
    for name, old in before.items():
        new = after[name]
        if name == "embedding.weight":
            new = torch.cat([new[:K], new[-1:]])
        kept = new[: len(old)] if old.dim() else new
        torch.testing.assert_close(kept, old, atol=1e-3, rtol=0)
    spread = before["embedding.weight"][2:K].std()
    assert 0.3 * spread < after["embedding.weight"][K:-1].std() < 3 * spread
    assert Checkpoint.load(tmp_path / "again").vocabulary == model.vocabulary

    hard = small_config(epochs=1, decoder={"attention": "hard", "gate": False})
    found, _ = run(data, hard, tmp_path / "hard", init_from=soft)  # β's mean is of the words that the soft model knows
    assert len(found.vocabulary) == K + 2
    model, said = run(data, small_config(epochs=1, new_words=False), tmp_path / "old words", init_from=soft)
    (line,) = (line for line in said if " are unknown" in line)
    assert "unknown to the model to start from, which keeps its vocabulary: --set new_words=true" in line
    assert model.vocabulary == soft.vocabulary
    _, said = run(data, small_config(epochs=1, minimum_count=9), tmp_path / "rare")
    assert any("seen fewer than 9 times. --set minimum_count=1 keeps every word" in line for line in said)


def test_an_ended_training_goes_on_with_more_epochs(dataset: Dataset, tmp_path: Path) -> None:
    """From half of the first rate, by a new cosine; and it can be interrupted and resumed like any other."""
    rates: list[float] = []

    class Watched(Trainer):
        def one_batch(self, indices: list[int]) -> dict[str, float]:
            found = super().one_batch(indices)
            rates.append(self.optimizer.param_groups[0]["lr"])
            return found

    def go(output: str, epochs: int, **more: Any) -> tuple[Checkpoint, list[str]]:
        config = small_config(epochs=epochs, schedule="cosine", learning_rate=0.01, patience=50, **more)
        return run(dataset, config, tmp_path / output, resume=True)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run_module, "Trainer", Watched)
        _, said = go("model", 2)
        each = len(rates) // 2
        if any("(best)" in line and line.startswith("epoch 2") for line in said):
            assert any("with --resume --epochs 3 goes on" in line for line in said)
        assert rates[0] == 0.01 and rates[-1] < 0.002
        rates.clear()
        _, said = go("model", 4)
    _, last = go("last", 2, selected_by="last")
    assert not any("may still improve" in line for line in last)  # the last epoch is always the best of these
    assert "4 epochs instead of 2: the learning rate goes from 0.005 to 0 again, by a new cosine" in said
    assert len(rates) == 2 * each and rates[0] == pytest.approx(0.005) and rates[-1] < 0.001
    assert rates == sorted(rates, reverse=True)
    with pytest.raises(SatError, match="epochs was 4, is 3"):
        go("model", 3)

    go("other", 2)
    taken = 0
    with pytest.MonkeyPatch.context() as patched:

        class Interrupted(Trainer):
            def one_batch(self, indices: list[int]) -> dict[str, float]:
                nonlocal taken
                taken += 1
                if taken == each + 1:
                    signal.raise_signal(signal.SIGINT)
                return super().one_batch(indices)

        patched.setattr(run_module, "Trainer", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            go("other", 4)
    go("other", 4)
    whole, resumed = (load_file(tmp_path / name / "training" / "state.safetensors") for name in ("model", "other"))
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())


def test_own_photos_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    folder = shape_folder(tmp_path / "shapes")
    broken = folder / "images" / "photo3.png"
    broken.write_bytes(broken.read_bytes()[:100])
    dataset = read_dataset(folder)
    _, said = run(dataset, small_config(epochs=1), tmp_path / "model")
    assert any(line.startswith("left out: 1 of 13 photos cannot be read") and "photo3.png" in line for line in said)
    papers = replace(dataset, custom=False)
    with pytest.raises(SatError, match=r"1 of 13 photos cannot be read.* Replace these photos"):
        run(papers, small_config(epochs=1), tmp_path / "papers")

    other = read_dataset(shape_folder(tmp_path / "others"))
    (tmp_path / "others" / "images" / "photo11.png").write_bytes(b"no photo")
    _, said = run(join([dataset, other]), small_config(epochs=1), tmp_path / "joined")
    assert any(line.startswith("left out: 2 of 26 photos cannot be read") for line in said)
    with pytest.raises(SatError, match=r"2 of 26 photos cannot be read.* Replace these photos"):
        run(join([papers, other]), small_config(epochs=1), tmp_path / "with papers")

    _, said = run(dataset, small_config(epochs=1), tmp_path / "tuned", encoder_lr=1e-3)  # nothing is cached
    assert any(line.startswith("left out: 1 of 13 photos cannot be read") and "photo3.png" in line for line in said)


def test_words_of_photos_that_cannot_be_read_are_not_learnt(dataset: Dataset, tmp_path: Path) -> None:
    soft, _ = run(dataset, small_config(epochs=1), tmp_path / "soft")
    folder = shape_folder(tmp_path / "shapes")
    captions = folder / "captions.csv"
    first, second, *rest = captions.read_text(encoding="utf-8").splitlines()
    captions.write_text("\n".join([first, second.replace(" on ", " upon "), *rest]), encoding="utf-8")
    (folder / "images" / "photo0.png").write_bytes(b"no photo")
    model, said = run(read_dataset(folder), small_config(epochs=1), tmp_path / "model", init_from=soft)
    assert any(line.startswith("left out: 1 of 13 photos cannot be read") for line in said)
    assert not any("new word" in line for line in said) and "upon" not in model.vocabulary
    assert model.decoder.output_bias.isfinite().all()


def test_damaged_lines_of_the_log_are_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b'{"epoch": 1}\n{"epoch": 2, "nats\n[]\n\xff\n')
    run_module.write_log(log, trainer_module.Epoch(3, {}, {}, 0.5))
    assert log.read_text(encoding="utf-8") == '{"epoch": 1}\n{"epoch": 3, "seconds": 0.5}\n'


def test_a_fine_tuned_training_is_resumed_with_its_own_view_of_the_photos(dataset: Dataset, tmp_path: Path) -> None:
    run(dataset, small_config(epochs=1), tmp_path / "model", encoder_lr=1e-3)
    encoder = small_encoder(resize="crop")
    with pytest.raises(SatError, match=r"encoder\.geometry was 'squash', is 'crop'"):
        run(dataset, small_config(epochs=1), tmp_path / "model", encoder=encoder, encoder_lr=1e-3, resume=True)


def test_a_window_on_a_grid_that_is_no_square_is_refused_before_the_photos_are_encoded(
    dataset: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(SatError, match="annotation_window is 3, and 3 × 5 locations are not a square grid: give 1"):
        run(dataset, small_config(decoder={"annotation_window": 3}), tmp_path / "model")
    for mosaics in ({"mosaics": 0.5}, {"mosaics_end": 0.5}):
        with pytest.raises(SatError, match="mosaics is above 0, and 3 × 5 places are not a square grid: give 0"):
            run(dataset, small_config(**mosaics), tmp_path / "model")
    with pytest.raises(SatError, match="mosaics is above 0, and without attention nothing can find the photo"):
        run(dataset, replace(preset("flickr8k", decoder="nic"), mosaics=0.5), tmp_path / "model")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("file", ["vocabulary.json", "config.json"])
def test_a_training_that_dies_at_its_first_checkpoint_is_resumed(
    file: str, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    real = os.replace

    def killed(source: Path, target: Path) -> None:
        real(source, target)
        if Path(target).name == file:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(Killed):
            run(dataset, small_config(epochs=2), tmp_path / "model")
    with pytest.raises(SatError, match="--resume to go on"):
        run(dataset, small_config(epochs=2), tmp_path / "model")
    resumed, _ = run(dataset, small_config(epochs=2), tmp_path / "model", resume=True)
    whole, _ = run(dataset, small_config(epochs=2), tmp_path / "whole")
    assert same(resumed.decoder.state_dict(), whole.decoder.state_dict())


def test_only_what_can_be_resumed_is_said_to_be(dataset: Dataset, tmp_path: Path) -> None:
    model, _ = run(dataset, small_config(epochs=1), tmp_path / "model")
    model.save(tmp_path / "copied")  # which has no training of its own
    with pytest.raises(SatError, match=r"copied holds a model already: give another --output$"):
        run(dataset, small_config(epochs=1), tmp_path / "copied")
    with pytest.raises(SatError, match=r"copied holds a model without the state of its training: it cannot be resumed"):
        run(dataset, small_config(epochs=1), tmp_path / "copied", resume=True)


def test_tensorboard_gets_scalars_and_pictures(dataset: Dataset, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(dataset, small_config(epochs=2), tmp_path / "model", tensorboard=True)
    events = EventAccumulator(str(tmp_path / "model" / "training" / "tensorboard"))
    events.Reload()
    assert {"bleu_4", "loss", "entropy", "beta"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("bleu_4")] == [1, 2]
    assert len(events.Tags()["images"]) == 3  # validation photos


# The encoder


def test_a_frozen_encoder_is_unchanged_to_the_bit(dataset: Dataset, tmp_path: Path) -> None:
    encoder = small_encoder()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    model, _ = run(dataset, small_config(), tmp_path / "model", encoder=encoder)
    assert same(encoder.state_dict(), before)  # the statistics of batch norm included
    assert not encoder.training and not any(module.training for module in encoder.modules())
    assert all(not weight.requires_grad and weight.grad is None for weight in encoder.parameters())
    assert model.tuned_encoder is None and not (tmp_path / "model" / "encoder.safetensors").exists()


def test_fine_tuning_changes_the_encoder_and_ships_it(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: set[tuple[float, ...]] = set()
    batch = Trainer.one_batch

    def noted(self: Trainer, indices: list[int]) -> dict[str, float]:
        found = batch(self, indices)
        rates.add(tuple(group["lr"] for group in self.optimizer.param_groups))
        return found

    monkeypatch.setattr(Trainer, "one_batch", noted)
    encoder = small_encoder()
    before = {name: value.clone() for name, value in encoder.body.state_dict().items()}
    model, _ = run(dataset, small_config(), tmp_path / "model", encoder=encoder, encoder_lr=0.003)
    assert rates == {(0.01, 0.01, 0.003)}  # of the decoder, its attention and the encoder
    assert model.tuned_encoder is not None
    changed = {name for name, value in model.tuned_encoder.items() if not torch.equal(value, before[name])}
    assert changed == {"0.weight", "0.bias", "1.weight", "1.bias"}  # not the statistics of batch norm
    assert not (tmp_path / "cache").exists()  # features that change are not kept

    assert (tmp_path / "model" / "encoder.safetensors").exists()
    again = Captioner.from_pretrained(tmp_path / "model", device="cpu")
    assert same(again.encoder.body.state_dict(), model.tuned_encoder) and again.encoder.digest == model.encoder.digest
    assert again.encoder.digest != small_encoder().digest
    photos = [shape_photo(*scene) for scene in shape_scenes(5)]
    encoder.body.load_state_dict(model.tuned_encoder)
    expected = Captioner(model, encoder)(photos)
    for found, caption in zip(again(photos), expected, strict=True):
        assert str(found) == str(caption) and found.log_probability == caption.log_probability
    assert again.encoder.frozen


def test_the_beam_of_a_fine_tuned_model_is_chosen_with_its_own_encoder(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best epoch's, which ships, and not the last one's."""
    scores = iter([9.0, 1.0, 1.0])
    monkeypatch.setattr(Trainer, "validate", lambda self, **_: {"bleu_4": next(scores)})
    used: list[str] = []

    def validation_scores(decoder: Any, data: Any, **rest: Any) -> list[dict[str, float]]:
        used.append(data.encoder.digest)
        return [{"bleu_4": 0.0}] * len(rest["rankings"])

    monkeypatch.setattr(selection_module, "validation_scores", validation_scores)
    model, _ = run(dataset, small_config(), tmp_path / "model", encoder_lr=0.003)
    assert set(used) == {model.encoder.digest}


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Encoder]:
    """An encoder of three convolutions, which checkpoints find too."""

    def load(name: str = "small", *, weights: Any = None, resize: Any = "squash") -> Encoder:
        return Encoder(**small_backbone(resize)._asdict())

    monkeypatch.setattr(checkpoint_module, "load_encoder", load)
    return load


def test_fine_tuning_from_a_block_trains_it_alone_and_ships_it_alone(
    dataset: Dataset, tmp_path: Path, blocks: Callable[[], Encoder]
) -> None:
    encoder = blocks()
    model, _ = run(dataset, small_config(), tmp_path / "soft", encoder=encoder, encoder_lr=0.01, unfreeze_from="conv3")
    stored = load_file(tmp_path / "soft" / "encoder.safetensors")
    assert {name: value.dtype for name, value in stored.items()} == {
        "convolutions.4.weight": torch.int8,
        "convolutions.4.weight.scale": torch.float32,
        "convolutions.4.bias": torch.float32,
    }
    assert model.tuned_encoder is not None
    plain = blocks().body.state_dict()
    assert all(not torch.equal(value, plain[name]) for name, value in model.tuned_encoder.items())
    again = Captioner.from_pretrained(tmp_path / "soft", device="cpu")  # which checks the digest
    for name, value in again.encoder.body.state_dict().items():
        assert torch.equal(value, model.tuned_encoder.get(name, plain[name])), name
    caption = again(dataset.examples[0].photo)
    assert str(caption) == str(Captioner(model, encoder)(dataset.examples[0].photo)) and caption.words
    folders = [folder for folder in (tmp_path / "cache" / "shapes").iterdir() if folder.is_dir()]
    assert len(folders) == 1  # what the block reads, and nothing else

    hard = small_config(epochs=1, decoder={"attention": "hard"})
    tuned = blocks()
    tuned.adopt(model.tuned_encoder)
    shared, _ = run(dataset, hard, tmp_path / "hard", encoder=tuned, init_from=model)  # frozen now
    assert (tmp_path / "hard" / "encoder.safetensors").read_bytes() == (
        tmp_path / "soft" / "encoder.safetensors"
    ).read_bytes()
    assert shared.encoder == model.encoder
    tuned = blocks()
    tuned.adopt(model.tuned_encoder)
    further = {"init_from": model, "encoder_lr": 0.01, "unfreeze_from": "conv3"}
    other, _ = run(dataset, hard, tmp_path / "further", encoder=tuned, **further)
    assert other.encoder.digest != model.encoder.digest and other.tuned_encoder is not None
    assert other.tuned_encoder.keys() == model.tuned_encoder.keys()


def test_fine_tuning_from_a_block_resumes_to_the_bit(
    dataset: Dataset, tmp_path: Path, blocks: Callable[[], Encoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    further = {"encoder_lr": 0.01, "unfreeze_from": "conv3"}
    whole, _ = run(dataset, small_config(), tmp_path / "whole", encoder=blocks(), **further)
    batch, taken = Trainer.one_batch, 0

    def interrupted(self: Trainer, indices: list[int]) -> dict[str, float]:
        nonlocal taken
        taken += 1
        if taken == 7:
            signal.raise_signal(signal.SIGINT)
        return batch(self, indices)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Trainer, "one_batch", interrupted)
        run(dataset, small_config(), tmp_path / "model", encoder=blocks(), **further)
    resumed, _ = run(dataset, small_config(), tmp_path / "model", encoder=blocks(), resume=True, **further)
    assert whole.tuned_encoder is not None and resumed.tuned_encoder is not None
    assert same(resumed.tuned_encoder, whole.tuned_encoder)
    assert same(resumed.decoder.state_dict(), whole.decoder.state_dict())
    with pytest.raises(SatError, match=r"encoder\.unfreeze_from was 'conv3', is 'conv2'"):
        run(
            dataset,
            small_config(),
            tmp_path / "model",
            encoder=blocks(),
            resume=True,
            **{**further, "unfreeze_from": "conv2"},
        )


def test_fine_tuning_resumes_to_the_bit(dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = run(dataset, small_config(), tmp_path / "whole", encoder_lr=0.003)
    reading, read = sources_module.LivePhotos.__getitem__, 0

    def interrupted(self: sources_module.LivePhotos, names: Sequence[str]) -> Tensor:
        nonlocal read
        read += 1
        if read == 14:
            signal.raise_signal(signal.SIGINT)
        return reading(self, names)

    monkeypatch.setattr(sources_module.LivePhotos, "__getitem__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(dataset, small_config(), tmp_path / "model", encoder_lr=0.003)
    resumed, _ = run(dataset, small_config(), tmp_path / "model", encoder_lr=0.003, resume=True)
    assert whole.tuned_encoder is not None and resumed.tuned_encoder is not None
    assert same(resumed.decoder.state_dict(), whole.decoder.state_dict())
    assert same(resumed.tuned_encoder, whole.tuned_encoder)


def test_validation_keeps_no_graph_of_the_encoder(dataset: Dataset, tmp_path: Path) -> None:
    encoder = small_encoder()
    data = data_module.prepare(dataset, small_config(), encoder, tmp_path, encoder_lr=0.003, show=False)
    grown: list[bool] = []
    encoder.register_forward_hook(lambda module, given, found: grown.append(found.requires_grad))
    config = small_config(decoder={"vocabulary_size": len(data.vocabulary), "annotation_size": encoder.annotation_size})
    trainer = Trainer(config, data, device=CPU)
    assert not any(grown)  # the scale of the annotations: of 500 photos, a graph each
    trainer.validate()
    assert not any(grown)
    trainer.one_batch([0])
    assert grown[-1]


def test_photos_of_other_views_are_read_so(dataset: Dataset) -> None:
    encoder = small_encoder()
    examples = dataset.split("train")
    names = [example.name for example in examples]
    plain = sources_module.LivePhotos(examples, encoder)[names]
    mirrored = sources_module.LivePhotos(examples, encoder, "flipped")[names]
    cropped = sources_module.LivePhotos(examples, encoder, "crop-2")[names]
    pixels = torch.stack([encoder.preprocessing(open_photo(example.photo)) for example in examples])
    torch.testing.assert_close(plain, encoder.annotate(pixels))
    torch.testing.assert_close(mirrored, encoder.annotate(pixels.flip(-1)))
    assert (plain - mirrored).abs().max() > 0.1
    windows = [encoder.preprocessing(open_photo(example.photo), "crop-2", example.name) for example in examples]
    torch.testing.assert_close(cropped, encoder.annotate(torch.stack(windows)))


def test_a_training_reads_the_views_that_its_settings_ask_for(dataset: Dataset, tmp_path: Path) -> None:
    changes = {"flipped": True, "mirror_sides": True, "crops": 2, "mosaics_end": 0.5, "mosaic_pairs": 0.5}
    config, encoder = small_config(**changes), small_encoder()
    assert config.views == ["flipped", "crop-1", "crop-2"] and not small_config().tiled
    assert small_config(mosaics=0.5).tiled == [2] and small_config(mosaics=0.5, mosaic_pairs=1).tiled == [1]
    data = data_module.prepare(dataset, config, encoder, tmp_path, show=False)
    name = dataset.split("train")[0].name
    found = torch.cat([view[[name]] for view in (*data.views, data.tiled[2], data.tiled[1])])
    photo = open_photo(dataset.split("train")[0].photo)
    views = ("original", *config.views, "tiled-2x2", "tiled-1x2")
    expected = torch.stack([encoder.preprocessing(photo, view, name) for view in views])
    assert torch.equal(found, encoder.annotate(expected).half())


def test_two_processes_never_train_in_one_folder(dataset: Dataset, tmp_path: Path) -> None:
    output = tmp_path / "model"
    (output / "training").mkdir(parents=True)
    with (
        file_lock(output / "training"),
        pytest.raises(SatError, match=r"another process trains in .*: wait for it, or give"),
    ):
        run(dataset, small_config(), output)
    run(dataset, small_config(), output)
    with file_lock(output / "training"), pytest.raises(SatError, match="another process trains"):
        run(dataset, small_config(), output, resume=True)


def test_a_training_makes_a_scale_of_doubt_from_val(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(dataset, small_config(), tmp_path / "few")
    assert not (tmp_path / "few" / "doubt.safetensors").exists()  # val has fewer than 100 photos
    for module in (doubt_module, selection_module):
        monkeypatch.setattr(module, "LEAST", 2)
    checkpoint, _ = run(dataset, small_config(), tmp_path / "model")
    scale = Checkpoint.load(tmp_path / "model").doubt
    assert scale is not None and checkpoint.doubt is not None
    captioner = Captioner(checkpoint, small_encoder())
    doubts = [captioner(example.photo).doubt for example in dataset.split("val")]
    assert None not in doubts and len(set(doubts)) > 1  # the val photos are spread over the scale
    assert max(float(doubt or 0) for doubt in doubts) > 0.9


def test_the_scale_of_doubt_is_of_captions_that_are_made_as_the_model_makes_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, seen = random_data(), list[object]()
    decoder = Trainer(fitted(small_config(), data), data, device=CPU).average

    class Reranker:
        def add_rerank_scores(self, annotations: Tensor, found: Any, rare_word_exponent: float) -> Any:
            seen.append(rare_word_exponent)
            return found

    real = selection_module.fastest_beam_search(CPU, bf16=False)

    def search(*given: Any, **how: Any) -> Any:
        seen.append((how["beam_size"], how["max_length"], how["allow_repetitions"]))
        return real(*given, **how)

    monkeypatch.setattr(selection_module, "fastest_beam_search", lambda *_, **__: search)
    generation = GenerationConfig(beam_size=4, max_length=6, rare_word_exponent=0.5, repetitions=True)
    assert selection_module.fit_doubt(decoder, data, generation, reranker=Reranker()) is None  # type: ignore[arg-type]
    assert not seen  # val has too few photos, so nothing is searched
    for module in (doubt_module, selection_module):
        monkeypatch.setattr(module, "LEAST", 2)
    assert selection_module.fit_doubt(decoder, data, generation, reranker=Reranker())  # type: ignore[arg-type]
    assert seen == [(4, 6, True), 0.5]


# Evaluating


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """More test photos than one batch of decoding, with five references each, some of words never seen in training."""
    folder = shape_folder(tmp_path_factory.mktemp("data") / "large", train=6, val=3, test=0)
    with open(folder / "captions.csv", "a", encoding="utf-8", newline="") as file:
        for number in range(53):
            scene = shape_scenes(20)[number % 20]
            photo = shape_photo(*scene)
            photo.putpixel((0, 0), (4 * number, 0, 0))
            photo.save(folder / "images" / f"test{number}.png")
            for extra in ("", " zebra", " and a yak", " again", " ."):
                csv.writer(file).writerow([f"test{number}.png", shape_caption(*scene).capitalize() + extra, "test"])
    return read_dataset(folder)


@pytest.fixture(scope="module")
def trained(large: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    run_module.train(
        large,
        small_config(epochs=8),
        small_encoder(),
        folder / "model",
        cache=folder / "cache",
        device=CPU,
        log=lambda line: None,
        show=False,
    )
    return folder / "model"


def evaluated(trained: Path, large: Dataset, split: str = "test", **options: Any) -> tuple[Captioner, dict[str, Any]]:
    captioner = Captioner.from_pretrained(trained, device="cpu")
    return captioner, scoring_run.evaluate(
        captioner, large, split, cache=trained.parent / "cache", show=False, **options
    ).to_dict()


def test_every_photo_is_decoded_once_and_scored_against_its_own_references(
    trained: Path, large: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pycocoevalcap")
    decoded: list[int] = []
    search, known = Captioner.search, scoring_run.score_entries

    def counted(self: Captioner, annotations: Tensor, *rest: Any, **options: Any) -> Any:
        decoded.append(len(annotations))
        assert len(options["seeds"]) == len(annotations)
        return search(self, annotations, *rest, **options)

    scored: dict[str, Any] = {}

    def noted(entries: Any, references: Any, **options: Any) -> Any:
        scored.update(references=references, **options)
        return known(entries, references, **options)

    monkeypatch.setattr(Captioner, "search", counted)
    monkeypatch.setattr(scoring_run, "score_entries", noted)
    monkeypatch.setattr(search_module, "CPU_PATHS", 40)
    captioner, result = evaluated(trained, large)
    examples = large.split("test")
    assert sum(decoded) == len(examples) == 53 and len(decoded) > 1
    assert Counter(found["photo"] for found in result["results"]) == Counter(example.name for example in examples)
    assert scored["references"] == {
        example.name: [" ".join(words) for words in example.captions] for example in examples
    }
    spoken = " ".join(text for texts in scored["references"].values() for text in texts)
    assert "zebra" in spoken and "<unk>" not in spoken and "." not in spoken
    assert "zebra" not in captioner.checkpoint.vocabulary
    assert scored["training"] == [words for example in large.split("train") for words in example.captions]

    assert {f"bleu_{n}{suffix}" for n in range(1, 5) for suffix in ("", "_no_brevity")} <= result.keys()
    assert {"meteor", "rouge_l", "cider", "brevity_penalty", "variety"} <= result.keys()
    assert result["model"] == "model" and result["data"] == "large" and result["split"] == "test"
    assert result["beam_size"] == captioner.checkpoint.generation.beam_size and result["attention_mode"] == "mean"
    assert result["tokens"] == "split" and result["captions"] == 53 and result["seed"] == 0
    json.dumps(result, allow_nan=False)

    again = score({found["photo"]: found["caption"] for found in result["results"]}, scored["references"]).corpus
    for name in ("bleu_1", "bleu_4", "bleu_4_no_brevity", "rouge_l", "cider", "brevity_penalty"):
        assert result[name] == again[name], name
    captions = captioner([example.photo for example in examples])
    for found, caption in zip(result["results"], captions, strict=True):  # the cache is of half precision
        assert found["caption"] == str(caption)
        assert found["log_probability"] == pytest.approx(caption.log_probability, abs=2e-2)
        assert found["words"] == caption.words and found["complete"] == caption.complete
        assert {"bleu_4_smoothed", "rouge_l", "cider"} <= found.keys() and "attention" not in found
    for found, example in zip(result["results"], examples, strict=True):
        assert Path(found["file"]).samefile(example.photo)
        assert found["references"] == [" ".join(words) for words in example.captions]


@pytest.mark.usefixtures("without_java")
def test_an_evaluation_can_hold_where_every_word_looked(trained: Path, large: Dataset) -> None:
    pytest.importorskip("pycocoevalcap")
    captioner, result = evaluated(trained, large, "val", attention=True)
    for found, example in zip(result["results"], large.split("val"), strict=True):
        caption = captioner(example.photo).to_dict()
        assert caption.keys() <= found.keys() and {"photo", "file", "references", "cider"} <= found.keys()
        assert found["visible_box"] == caption["visible_box"] is not None and found["source"] == found["file"]
        assert [len(found["attention"]), len(found["gate"])] == [len(found["words"])] * 2
        assert torch.tensor(found["attention"]).allclose(torch.tensor(caption["attention"]), atol=1e-2)
        assert found["settings"] == caption["settings"]
        assert [one["caption"] for one in found["alternatives"]] == [one["caption"] for one in caption["alternatives"]]
    json.dumps(result, allow_nan=False)


@pytest.mark.usefixtures("without_java")
def test_options_of_evaluation_are_used_and_told(trained: Path, large: Dataset) -> None:
    pytest.importorskip("pycocoevalcap")
    _, plain = evaluated(trained, large, "val", beam_size=1, mode="argmax", length_penalty=0.5)
    assert (plain["beam_size"], plain["attention_mode"], plain["length_penalty"], plain["split"]) == (
        1,
        "argmax",
        0.5,
        "val",
    )
    drawn = [evaluated(trained, large, mode="sample", beam_size=1, seed=seed)[1] for seed in (1, 1, 2)]
    scores = [[found["log_probability"] for found in result["results"]] for result in drawn]
    assert scores[0] == scores[1] != scores[2]
    with pytest.raises(SatError, match="no split 'dev'; it has train, val, test"):
        evaluated(trained, large, "dev")
    with pytest.raises(SatError, match=r"ptb.*Java"):
        evaluated(trained, large, "val", tokens="ptb")


def test_another_encoder_s_features_are_not_used(trained: Path, large: Dataset) -> None:
    """The cache holds the trained model's own; a model of another encoder must not be given them."""
    other = small_encoder(seed=1)
    with pytest.raises(SatError, match="SHA-256"):
        Captioner(Checkpoint.load(trained), other)
    found = [
        sources_module.cached(large, encoder, trained.parent / "cache", splits=("val",), show=False)
        for encoder in (small_encoder(), other)
    ]
    names = [example.name for example in large.split("val")]
    assert found[0].folder != found[1].folder and not torch.equal(found[0][names], found[1][names])


# Visual n-grams


def test_a_training_fits_visual_n_grams_and_weighs_them_on_validation(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def validation_scores(decoder: Any, data: Any, beam_size: int, rankings: Any, reranker: Any, **rest: Any) -> Any:
        asked[beam_size] = rankings
        assert reranker is not None
        return [{"bleu_4": beam_size + (9.0 if ranking == best_of_all else sum(ranking) / 100)} for ranking in rankings]

    def scores_of_beams(decoder: Any, data: Any, beam_size: int, rankings: Any, reranker: Any, **rest: Any) -> Any:
        assert reranker is None
        return [{"bleu_4": float(beam_size)} for _ in rankings]

    monkeypatch.setattr(selection_module, "validation_scores", validation_scores)
    monkeypatch.setattr(selection_module, "BEAMS", (1,))
    monkeypatch.setattr(selection_module, "WIDE", (3, 4))
    monkeypatch.setattr(selection_module, "NORMALIZATIONS", (0.0, 0.5))
    monkeypatch.setattr(selection_module, "AGREEMENTS", (0.0, 32.0, 64.0))
    config = small_config(epochs=1, visual_ngrams=True)

    asked: dict[int, Any] = {}
    best_of_all = (0.5, 32.0)
    best, said = run(dataset, config, tmp_path / "ranked")
    every = [(g, w) for w in (0.0, 32.0, 64.0) for g in (0.0, 0.5)]
    assert asked == {1: [(0.0, 0.0), (0.5, 0.0)], 3: every, 4: every}
    assert (best.generation.beam_size, best.generation.length_penalty, best.generation.rerank_weight) == (4, 0.5, 32.0)
    assert best.training["validation_bleu_4"]["beam 3, γ 0.5, ω 32"] == 12.0
    assert best.training["without_reranker"] == {"beam_size": 1, "length_penalty": 0.5, "validation_bleu_4": 1.0}
    assert any("beam 4, length normalization 0.5, reranker weight 32" in line for line in said)
    loaded = Checkpoint.load(tmp_path / "ranked")
    assert loaded.reranker is not None and best.reranker is not None and loaded.reranker.digest == best.reranker.digest
    assert (0, loaded.vocabulary.encode(["circle"])[0]) in loaded.reranker.numbers

    without = replace(config, epochs=2, visual_ngrams=False)
    assert run(dataset, config, tmp_path / "on")[0].reranker is not None
    with monkeypatch.context() as patched:  # as before, and no reranker is left to be asked about
        patched.setattr(selection_module, "validation_scores", scores_of_beams)
        best, _ = run(dataset, without, tmp_path / "on", resume=True)
    assert best.reranker is None and "without_reranker" not in best.training
    result = scoring_run.evaluate(
        Captioner(loaded, small_encoder(), name="ranked"), dataset, "test", cache=tmp_path / "cache", show=False
    ).to_dict()
    assert (
        result["rerank_weight"] == 32.0
        and result["rare_word_exponent"] == loaded.generation.rare_word_exponent == selection_module.RARE_WORD_EXPONENT
    )

    best_of_all = (0.5, 0.0)  # what does not pay is not kept
    best, _ = run(dataset, config, tmp_path / "plain")
    assert best.generation.rerank_weight == best.generation.rare_word_exponent == 0
    assert best.reranker is None and "without_reranker" not in best.training
    assert {file.name for file in (tmp_path / "plain").glob("*.safetensors")} == {"model.safetensors"}


def test_without_n_grams_that_are_seen_often_nothing_is_ranked(tmp_path: Path) -> None:
    few = read_dataset(shape_folder(tmp_path / "few", train=4))
    best, said = run(few, small_config(epochs=1, visual_ngrams=True), tmp_path / "model")
    assert best.reranker is None and any("no word is in 10 training captions" in line for line in said)


def test_visual_n_grams_need_every_place(dataset: Dataset, tmp_path: Path) -> None:
    config = replace(preset("flickr8k", decoder="nic"), visual_ngrams=True, epochs=1)
    with pytest.raises(SatError, match="visual_ngrams"):
        run(dataset, config, tmp_path / "model")


def test_a_tuned_encoder_s_visual_n_grams_read_what_it_ends_with(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Tensor] = []

    def fit(annotations: Any, captions: dict[str, Any], **rest: Any) -> None:
        with torch.no_grad():
            read.append(annotations[list(captions)])

    monkeypatch.setattr(visual_ngrams_module.VisualNgrams, "fit", fit)
    run(dataset, small_config(epochs=2, visual_ngrams=True), tmp_path / "model", encoder_lr=0.01)
    encoder = small_encoder()
    before = encoder.digest
    encoder = Checkpoint.load(tmp_path / "model").load_encoder("model")
    assert encoder.digest != before
    pixels = torch.stack([encoder.preprocessing(open_photo(example.photo)) for example in dataset.split("train")])
    torch.testing.assert_close(read[0], encoder.annotate(pixels), rtol=0, atol=1e-5)
