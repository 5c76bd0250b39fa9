"""From a data set to a checkpoint, with a frozen and with a fine-tuned encoder."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scenes_encoder
import torch
from builders import (
    ROWS,
    SIZES,
    captioner_of,
    random_data,
    same_weights,
    shape_folder,
    small_config,
    small_encoder,
)
from safetensors.torch import load_file
from trainers import FEW, Killed, acting, interrupting, killing, logged, plan_of, scoring, take, trainer_of

from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.checkpoint import Checkpoint, StoredReranker
from show_attend_tell.checkpoint.packing import as_tensors
from show_attend_tell.data.datasets import join, read_dataset
from show_attend_tell.data.photos import open_photo
from show_attend_tell.data.tokenizers import ENGLISH, KARPATHY
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.files import file_lock
from show_attend_tell.generation import Decoding
from show_attend_tell.rerank import Reranker, confidence
from show_attend_tell.rerank.ngrams import VisualNgrams
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.training.cautious import DECODING, LARGE_BEAM_SIZE
from show_attend_tell.training.objectives.soft import SoftObjective
from show_attend_tell.training.presets import preset
from show_attend_tell.training.run import prepare_data, train
from show_attend_tell.training.selection import RARE_WORD_EXPONENT, Chosen, best_of
from show_attend_tell.training.stages.confidence import confidence_of
from show_attend_tell.training.trainer import Trainer
from show_attend_tell.vision.encoder import load_encoder

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def whole(dataset, tmp_path_factory):
    """What a training that nothing interrupts ends in."""
    return run(dataset, small_config(), tmp_path_factory.mktemp("whole") / "model")[0]


@pytest.fixture(scope="module")
def soft(dataset, tmp_path_factory):
    """A model to start from."""
    return run(dataset, small_config(epochs=1), tmp_path_factory.mktemp("soft") / "model")[0]


def run(
    dataset,
    config,
    output,
    *,
    trainer=Trainer,
    choose=FEW,
    **options,
):
    """A training without progress bars; also what it logged."""
    plan = plan_of(dataset, config, output, bits=32, **options)
    with logged() as messages:
        return train(plan, trainer=trainer, choose=choose, show=False), messages


def prepared(dataset, config, folder, encoder=None, **options):
    return prepare_data(plan_of(dataset, config, folder / "model", encoder=encoder, **options), CPU)


def same_model(ours, theirs):
    return same_weights(ours.weights, theirs.weights)


def epochs_logged(output):
    return [json.loads(line) for line in (output / "training" / "log.jsonl").read_text().splitlines()]


def test_uniform_attention_trains_with_the_soft_model_s_settings(dataset, tmp_path):
    soft = preset("flickr8k", "soft")
    uniform = preset("flickr8k", "uniform")
    assert replace(uniform.decoder, attention="soft") == soft.decoder
    assert replace(uniform, decoder=soft.decoder) == soft
    encoder = small_encoder()
    best, _ = run(dataset, small_config(decoder={"attention": "uniform"}), tmp_path / "model", encoder=encoder)
    caption = captioner_of(best, encoder)(dataset.examples[0].photo)
    assert caption.words and caption.attention is None and caption.gate is not None
    assert "It is a control" in (tmp_path / "model" / "README.md").read_text()


def test_a_training_leaves_a_model_that_captions(dataset, tmp_path):
    encoder = small_encoder()
    notes = {"preset": "small"}
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    best, messages = run(dataset, small_config(flipped=True), tmp_path / "model", encoder=encoder, notes=notes)
    assert same_weights(encoder.state_dict(), before)  # frozen, to the bit, the statistics of batch norm included
    files = {"config.json", "model.safetensors", "vocabulary.json", "README.md", "training"}
    assert {path.name for path in (tmp_path / "model").iterdir()} == files
    loaded = Checkpoint.load(tmp_path / "model")
    assert same_model(loaded, best)
    captioner = captioner_of(loaded, small_encoder())
    for example in dataset.split("test"):
        caption = captioner(example.photo)
        assert caption.attention.shape[1] == ROWS
    assert loaded.training["preset"] == "small" and loaded.training["data"] == "shapes"
    assert loaded.training["settings"]["decoder.hidden_size"] == SIZES["hidden_size"]
    assert best.generation.summary() in loaded.training["validation_bleu_4"]
    assert best.generation.beam_size in (1, 2) and best.generation.length_penalty in (0.0, 0.5)
    # the report of the data comes first, then the size of the training, then the epochs
    assert messages[0] == "train: 10 photos, 20 captions" and "20 captions of 10 photos" in "\n".join(messages)
    epochs = [line for line in messages if line.startswith("epoch")]
    assert [line.split(":")[0] for line in epochs] == ["epoch 1", "epoch 2", "epoch 3"]
    assert [bool(re.search(r" s; at most \d+ (s|min) left$", line)) for line in epochs] == [True, True, False]
    log = epochs_logged(tmp_path / "model")
    assert [line["epoch"] for line in log] == [1, 2, 3]
    assert {"bleu_4", "cider", "distinct", "repetitive", "loss", "entropy", "seconds"} <= log[0].keys()
    assert all(word in epochs[0] for word in ("val BLEU-4 ", "CIDEr ", " % distinct", "loss "))
    assert "(best)" in epochs[0] and epochs[0].index("(best)") < epochs[0].index("CIDEr")


def test_the_vocabulary_is_of_the_training_split_alone(dataset, tmp_path):
    known = [" ".join(words) for example in dataset.split("train") for words in example.captions][:3]
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join([*known, "a zebra"]), encoding="utf-8")
    with logged() as messages:
        data = prepared(dataset, small_config(), tmp_path, text_corpus=corpus)[1]
    assert any("captions without photos, and 1 left out" in line for line in messages)
    spoken = {word for example in dataset.split("train") for caption in example.captions for word in caption}
    assert set(data.vocabulary.words[2:]) == spoken
    rare = prepared(dataset, small_config(minimum_count=12), tmp_path)[1]
    assert 2 < len(rare.vocabulary) < len(data.vocabulary)
    assert {name for name, _ in data.captions} == {example.name for example in dataset.split("train")}
    assert [name for name, _ in data.validation] == [example.name for example in dataset.split("val")]


def test_val_chooses_the_first_of_the_best_generation_configs():
    def config(beam_size, length_penalty, rerank_weight=0.0):
        return GenerationConfig(beam_size=beam_size, length_penalty=length_penalty, rerank_weight=rerank_weight)

    plain = {config(1, 0): 3.0, config(1, 0.5): 3.0, config(3, 0): 6.0, config(3, 0.5): 7.0, config(5, 0): 7.0}
    chosen = best_of(plain, usual=4, plain_beam_sizes=(1, 3, 5))
    assert chosen.generation == chosen.without_reranker == config(3, 0.5) and chosen.score_without_reranker == 7
    assert chosen.scores == {config(3, 0.5).summary(): 7.0}
    ranked = {**plain, config(5, 0, 32): 9.0, config(40, 0): 8.0}
    chosen = best_of(ranked, usual=4, plain_beam_sizes=(1, 3, 5))
    assert (chosen.generation, chosen.without_reranker) == (config(5, 0, 32), config(3, 0.5))
    assert chosen.scores == {config(5, 0, 32).summary(): 9, config(3, 0.5).summary(): 7}
    equal = best_of(dict.fromkeys(plain, 0.0), usual=4, plain_beam_sizes=(1, 3, 5))
    assert equal.generation == equal.without_reranker == config(4, 0)


def test_an_interruption_before_the_first_epoch_s_end_is_kept(dataset, whole, tmp_path):
    """It is resumed in another precision too, as on another device: the annotations differ a little."""
    for name in ("model", "other"):
        with pytest.raises(KeyboardInterrupt):
            run(dataset, small_config(), tmp_path / name, trainer=interrupting(1, "validate"))
    with pytest.raises(SatError, match="--resume to go on"):
        run(dataset, small_config(), tmp_path / "model")
    resumed, messages = run(dataset, small_config(), tmp_path / "model", resume=True)
    assert same_model(resumed, whole)
    first, second, _ = (line for line in messages if line.startswith("epoch "))
    assert ", ," not in first and "loss" not in first and "loss" in second  # no batch was left of the first
    encoder = small_encoder()
    encoder.fixed_precision = "bfloat16"
    _, messages = run(dataset, small_config(), tmp_path / "other", encoder=encoder, resume=True)
    assert "resumed after 0 epochs and 6 batches" in messages


@pytest.mark.parametrize(
    "killed", ["while encoding", "before a batch", "after an epoch's line", "vocabulary.json", "config.json"]
)
def test_a_training_that_is_killed_ends_as_one_that_is_not(killed, dataset, whole, tmp_path, monkeypatch):
    """By one command, with --resume; also where a file of its first checkpoint has just been written."""
    encoder = small_encoder()
    trainer = Trainer
    replace_file = os.replace

    def kill(*_):
        raise Killed

    def replaced(source, target):
        replace_file(source, target)
        if Path(target).name == killed:
            raise Killed

    monkeypatch.setattr(os, "replace", replaced)
    if killed == "while encoding":
        encoder.body.register_forward_pre_hook(kill)
    elif killed == "before a batch":
        trainer = killing(1)
    elif killed == "after an epoch's line":
        trainer = killing(3, "save")  # states: before the first checkpoint, after the first epoch, after the second
        trainer.saved_every = -1.0
    with pytest.raises(Killed):
        run(dataset, small_config(), tmp_path / "model", encoder=encoder, trainer=trainer, resume=True)
    monkeypatch.undo()
    model, messages = run(dataset, small_config(), tmp_path / "model", resume=True)
    assert same_model(model, whole) and [line["epoch"] for line in epochs_logged(tmp_path / "model")] == [1, 2, 3]
    starts = any("nothing to resume" in line and "training starts" in line for line in messages)
    assert starts == (killed in ("while encoding", "before a batch"))


def test_outputs_and_resumes_that_do_not_fit_are_refused(dataset, tmp_path):
    model, copied, new = (tmp_path / name for name in ("model", "copied", "new/model"))
    first, _ = run(dataset, small_config(epochs=1), model)
    first.save(copied)  # which has no training of its own
    examples = tuple(replace(each, captions=each.captions * 2, raw=each.raw * 2) for each in dataset.examples)
    changed = replace(dataset, examples=examples)
    no_val = replace(
        dataset,
        examples=tuple(example for example in dataset.examples if example.split != "val"),
        report=replace(dataset.report, photos={**dataset.report.photos, "val": 0}),
    )
    resumed = {"resume": True}
    refusals = [
        ("holds a model already", model, dataset, {}, {}),
        ("batch_size was 4, is 3; seed was 1, is 2", model, dataset, {"batch_size": 3, "seed": 2}, resumed),
        (r"soft\.label_smoothing was 0", model, dataset, {"soft": SoftObjective(label_smoothing=0.1)}, resumed),
        (r"\(the captions, their weights, .* have changed since\)", model, changed, {}, resumed),
        (r"encoder\.digest was", model, dataset, {}, {"encoder": small_encoder(seed=1), **resumed}),
        (r"encoder_learning_rate was None, is 0\.001", model, dataset, {}, {"encoder_lr": 1e-3, **resumed}),
        (r"encoder\.resize was 'squash'", model, dataset, {}, {"encoder": small_encoder(resize="crop"), **resumed}),
        ("copied holds a model already, or its training: give another --output", copied, dataset, {}, {}),
        (r"copied holds a model without the state of its training", copied, dataset, {}, resumed),
        ("no split 'val'; it has train, test", new, no_val, {}, {}),
    ]
    for why, output, data, changes, options in refusals:
        with pytest.raises(SatError, match=why):
            run(data, small_config(epochs=1, **changes), output, **options)
    assert same_model(Checkpoint.load(model), first)
    assert not (tmp_path / "new" / "cache").exists()  # before the photos are encoded


def test_two_processes_never_train_in_one_folder(dataset, tmp_path):
    output = tmp_path / "model"
    (output / "training").mkdir(parents=True)
    with file_lock(output / "training"), pytest.raises(SatError, match=r"another process trains in .*: wait for it"):
        run(dataset, small_config(), output)


def test_a_hard_model_starts_from_a_soft_one(dataset, soft, tmp_path):
    hard = small_config(epochs=1, learning_rate=1e-12, decoder={"attention": "hard"})
    model, messages = run(dataset, hard, tmp_path / "hard", init_from=soft)
    assert not any("new word" in line for line in messages)
    # by default a hard model reads attention as it is selected, at one location a word
    saved = Checkpoint.load(tmp_path / "hard").generation
    assert (soft.generation.attention_mode, saved.attention_mode) == ("mean", "argmax")
    assert model.config.attention == "hard" and model.vocabulary == soft.vocabulary
    for name, value in model.weights.items():
        np.testing.assert_allclose(value, soft.weights[name], atol=1e-6, rtol=0)
    refusals = [
        ("hidden_size", {"decoder": {"hidden_size": 7}}, small_encoder()),  # naming what differs
        ("SHA-256", {}, small_encoder(seed=1)),
        ("give --resize squash", {}, small_encoder(resize="crop")),  # the same weights, another view of the photos
    ]
    for why, changes, encoder in refusals:
        with pytest.raises(SatError, match=why):
            run(dataset, small_config(**changes), tmp_path / "other", init_from=soft, encoder=encoder)


def test_a_hard_model_without_a_gate_starts_from_a_soft_one_with_it(dataset, soft, tmp_path):
    hard = small_config(epochs=1, learning_rate=1e-12, decoder={"attention": "hard", "gate": False})
    model, messages = run(dataset, hard, tmp_path / "hard", init_from=soft)
    after = model.weights
    before = soft.weights
    beta = after["gates_from_context.weight"] / before["gates_from_context.weight"]
    assert 0 < beta.mean() < 1
    np.testing.assert_allclose(beta, beta.mean(), atol=1e-3, rtol=0)
    assert any(f"its mean {beta.mean():.2f} scales" in line for line in messages)
    np.testing.assert_allclose(after["attention.energy"], before["attention.energy"], atol=1e-6)


def test_words_unknown_to_the_model_to_start_from_are_appended(soft, tmp_path):
    folder = shape_folder(tmp_path / "shapes")
    captions = folder / "captions.csv"
    text = captions.read_text(encoding="utf-8").replace(" a ", " my ").replace(",a ", ",one ")
    captions.write_text(text, encoding="utf-8")
    data = read_dataset(folder)

    still = small_config(epochs=1, learning_rate=1e-12)
    model, messages = run(data, still, tmp_path / "again", init_from=soft)
    K = len(soft.vocabulary)
    assert model.vocabulary.words[:K] == soft.vocabulary.words and set(model.vocabulary.words[K:]) == {"my", "one"}
    assert any(line.startswith("2 new words for the model to start from: ") for line in messages)
    before = soft.weights
    after = model.weights
    for name, old in before.items():
        new = after[name]
        if name == "embedding.weight":
            new = np.concatenate([new[:K], new[-1:]])
        kept = new[: len(old)] if old.ndim else new
        np.testing.assert_allclose(kept, old, atol=1e-3, rtol=0)
    spread = before["embedding.weight"][2:K].std()
    assert 0.3 * spread < after["embedding.weight"][K:-1].std() < 3 * spread
    assert Checkpoint.load(tmp_path / "again").vocabulary == model.vocabulary

    hard = small_config(epochs=1, decoder={"attention": "hard", "gate": False})
    found, _ = run(data, hard, tmp_path / "hard", init_from=soft)  # β's mean is of the words that the soft model knows
    assert len(found.vocabulary) == K + 2


def test_a_training_that_makes_its_start_worse_gives_the_start_back(dataset, soft, tmp_path):
    config = small_config(epochs=2, learning_rate=100.0, clip=1.0, selected_by="nats")
    output = tmp_path / "worse"
    model, messages = run(dataset, config, output, init_from=soft)
    start, *epochs = epochs_logged(output)
    assert start["epoch"] == 0 and all(epoch["nats"] > start["nats"] for epoch in epochs) and len(epochs) == 2
    kept = Checkpoint.load(output)
    assert same_model(kept, soft) and kept.vocabulary == soft.vocabulary
    assert kept.generation == model.generation == soft.generation and kept.training["epochs"] == 0
    assert any("no training was clearly better than start" in line and "below 100" in line for line in messages)
    again, _ = run(dataset, config, output, init_from=soft, resume=True)  # it had ended
    assert same_model(again, soft) and [line["epoch"] for line in epochs_logged(output)] == [0, 1, 2]
    diverged = "epoch 2 has diverged: .* lower the learning rate \\(100;"  # a finite loss, and worse than guessing
    assert any(re.match(diverged, line) for line in messages)


def test_an_epoch_is_the_best_if_it_beats_the_start(dataset, soft, tmp_path):
    rows = [{"nats": nats, "bleu_4": 0.0, "cider": cider} for nats, cider in [(3.21, 50.0), (3.02, 54.0), (3.4, 60.0)]]
    config = small_config(epochs=2, selected_by="nats", cautious=True)
    model, messages = run(dataset, config, tmp_path / "model", init_from=soft, trainer=scoring(*rows))
    assert model.training["epochs"] == 1
    (line,) = (line for line in messages if line.startswith("on val: "))
    assert line.startswith("on val: CIDEr ") and "nats a word, start " in line and line.endswith("; of 3 photos")
    assert f"- On val: {model.training['on_val'][:20]}" in (tmp_path / "model" / "README.md").read_text()
    # a hard model is of another kind than the soft one it starts from, which is measured and cannot be the best
    hard = small_config(epochs=1, selected_by="nats", decoder={"attention": "hard"})
    model, _ = run(dataset, hard, tmp_path / "hard", init_from=soft, trainer=scoring(rows[1], rows[0]))
    assert model.training["epochs"] == 1 and [line["epoch"] for line in epochs_logged(tmp_path / "hard")] == [0, 1]


def test_a_cautious_training_keeps_the_start_s_decoding_and_reranker(dataset, tmp_path):
    def decoded(decoder, data, usual, **options):
        config = usual.config.merge(beam_size=4, **ranked)
        return Chosen(config, {"beam 4": 1.0}, config, 1.0)

    ranked = {"length_penalty": 0.25, "rerank_weight": 8.0, "rare_word_exponent": 0.75}
    soft, _ = run(dataset, small_config(epochs=1, visual_ngrams=True), tmp_path / "soft", choose=decoded)
    config = small_config(epochs=4, cautious=True, selected_by="nats", visual_ngrams=True)
    model, messages = run(dataset, config, tmp_path / "model", init_from=soft, choose=None)
    assert model.generation == soft.generation and not same_model(model, soft)
    assert "decoding is not chosen on val, which has 3 photos: fewer than 200" in messages
    assert any(line.startswith("the reranker of the model to start from is ") for line in messages)
    card = (tmp_path / "model" / "README.md").read_text()
    assert "- Decoding: not chosen on val" in card and "- On val: " in card
    arrays = soft.reranker.arrays
    rolled = StoredReranker("ngrams", {**arrays, "ngrams": np.roll(arrays["ngrams"], 5, axis=0)})
    other = replace(soft, reranker=rolled)
    model, messages = run(dataset, config, tmp_path / "other", init_from=other, choose=None)
    assert "the reranker of the model to start from is replaced by a new one" in messages
    assert model.generation == soft.generation.merge(beam_size=LARGE_BEAM_SIZE)
    ranked = {"length_penalty": 0.0}  # a start without a reranker gets one, and decodes as the default model does
    soft, _ = run(dataset, small_config(epochs=1), tmp_path / "plain", choose=decoded)
    model, _ = run(dataset, config, tmp_path / "ranked", init_from=soft, choose=None)
    assert model.reranker and model.generation.rerank_weight == DECODING["rerank_weight"]
    again, _ = run(dataset, config, tmp_path / "ranked", init_from=soft, choose=None, resume=True)  # it had ended
    assert same_model(model, again) and again.generation == model.generation


def test_few_photos_are_judged_by_trainings_without_them(dataset, soft, tmp_path):
    how = {"cautious": True, "selected_by": "cider_and_nats", "epochs": 6}
    batches = []

    def watch(_, trainer):
        batches.append({name for name, _ in trainer.data.captions})

    model, messages = run(
        dataset, small_config(**how), tmp_path / "model", init_from=soft, trainer=acting(watch, "take")
    )
    first, second = dict.fromkeys(map(frozenset, batches[:-1])).keys() - {frozenset(batches[-1])}
    assert not first & second and first | second == batches[-1]  # the halves, and the training itself
    (line,) = (line for line in messages if line.startswith("two trainings, each on one half of 13 photos and judged"))
    assert "CIDEr " in line and line.endswith("of 13 photos") and model.training["on_val"] == line
    assert any("cannot tell how far its nouns can be trusted" in line for line in messages)
    epochs = [line["epoch"] for line in epochs_logged(tmp_path / "model")]
    assert epochs == [*range(model.training["epochs"] + 1)] and len(epochs) > 1

    again, _ = run(dataset, small_config(**how), tmp_path / "model", init_from=soft, resume=True, trainer=killing(1))
    assert same_model(again, model)  # it had ended, and is not judged again
    with pytest.raises(KeyboardInterrupt):
        run(dataset, small_config(**how), tmp_path / "cut", init_from=soft, trainer=interrupting(len(batches) - 1))
    resumed, _ = run(dataset, small_config(**how), tmp_path / "cut", init_from=soft, resume=True)
    assert same_model(resumed, model)

    worse = small_config(**how, learning_rate=30.0, clip=1.0)
    model, messages = run(dataset, worse, tmp_path / "worse", init_from=soft)
    assert same_model(model, soft) and model.training["epochs"] == 0
    assert any("neither had an epoch with fewer nats a word than start" in line for line in messages)
    assert [line["epoch"] for line in epochs_logged(tmp_path / "worse")] == [0]  # no training but the two


def test_the_trainings_that_judge_fit_the_confidence(dataset, soft, tmp_path):
    copies = [replace(each, name=f"{copy}-{each.name}") for copy in range(6) for each in dataset.examples]
    many = replace(dataset, examples=tuple(copies))
    arrays = {"words": soft.vocabulary.encode(["circle", "square"])[:-1], "offsets": [0.0] * 2, "weights": [0.1] * 3}
    start = replace(soft, confidence={name: np.array(values, "f4") for name, values in arrays.items()})
    how = {"cautious": True, "selected_by": "cider_and_nats", "epochs": 2, "clip": 1.0}
    for rate in (0.01, 30.0):  # the second gives the start back
        config = small_config(learning_rate=rate, **how)
        model, _ = run(many, config, tmp_path / str(rate), init_from=start)
        assert same_model(model, start) == (rate == 30.0)
        assert "far" in (model.confidence or ())
        again, _ = run(many, config, tmp_path / str(rate), init_from=start, resume=True, trainer=killing(1))
        np.testing.assert_equal(again.confidence, model.confidence)
        start = model


def test_an_ended_training_goes_on_with_more_epochs(dataset, tmp_path):
    """From half of the first rate, by a new cosine; and it can be interrupted and resumed like any other."""
    rates = []

    def go(output, epochs, trainer=Trainer):
        config = small_config(epochs=epochs, schedule="cosine", learning_rate=0.01, patience=50)
        return run(dataset, config, tmp_path / output, resume=True, trainer=trainer)

    watched = acting(lambda _, trainer: rates.append(trainer.optimizer.param_groups[0]["lr"]), "update_average")
    rising = {"validate": lambda self, **_: {"bleu_4": float(self.epoch)}}
    watched = type("Rising", (watched,), rising)  # so that the last epoch is the best
    _, messages = go("model", 2, watched)
    each = len(rates) // 2
    assert any("with --resume --epochs 3 goes on" in line for line in messages)
    assert rates[0] == 0.01 and rates[-1] < 0.002
    rates.clear()
    _, messages = go("model", 4, watched)
    assert "4 epochs instead of 2, at a learning rate of 0.01; a cosine goes to 0 again from 0.5 of it" in messages
    assert len(rates) == 2 * each and rates[0] == pytest.approx(0.005) and rates[-1] < 0.001
    assert rates == sorted(rates, reverse=True)
    with pytest.raises(SatError, match="epochs was 4, is 3"):
        go("model", 3)
    run(dataset, small_config(epochs=1), tmp_path / "constant")
    _, messages = run(dataset, small_config(epochs=2), tmp_path / "constant", resume=True)
    assert "2 epochs instead of 1, at a learning rate of 0.01; it stays" in messages

    go("other", 2)
    with pytest.raises(KeyboardInterrupt):
        go("other", 4, interrupting(each + 1))
    go("other", 4)
    states = [load_file(tmp_path / name / "training" / "state.safetensors") for name in ("model", "other")]
    assert same_weights(states[0], states[1])


def test_custom_photos_that_cannot_be_read_are_left_out_with_their_words(tmp_path):
    folder = shape_folder(tmp_path / "shapes")
    broken = folder / "images" / "photo3.png"
    broken.write_bytes(broken.read_bytes()[:100])
    captions = folder / "captions.csv"
    captions.write_text(re.sub(r"(photo3.*) on ", r"\1 upon ", captions.read_text(encoding="utf-8")), encoding="utf-8")
    dataset = read_dataset(folder)
    papers = replace(dataset, custom=False)
    other = read_dataset(shape_folder(tmp_path / "others"))
    (tmp_path / "others" / "images" / "photo11.png").write_bytes(b"no photo")
    cases = [
        (dataset, "left out: 1 of 13 photos cannot be read", {}),
        (join([dataset, other]), "left out: 2 of 26 photos cannot be read", {}),
        (dataset, "left out: 1 of 13 photos cannot be read", {"encoder_lr": 1e-3}),  # nothing is cached
    ]
    for number, (data, message, options) in enumerate(cases):
        model, messages = run(data, small_config(epochs=1), tmp_path / f"model{number}", **options)
        assert any(line.startswith(message) and "photo3.png" in line for line in messages)
        assert "on" in model.vocabulary and "upon" not in model.vocabulary
    for number, data in enumerate((papers, join([papers, other]))):
        with pytest.raises(SatError, match=r"photos cannot be read.* replace these photos"):
            run(data, small_config(epochs=1), tmp_path / f"papers{number}")


def test_generation_is_chosen_with_the_encoder_that_ships(dataset, tmp_path):
    """The best epoch's, and not the last one's; the reranker reads its annotations too."""
    read = []
    names = [example.name for example in dataset.split("train")]

    def choose(decoder, data, *arguments, **options):
        with torch.no_grad():
            read.append(data.views[0][names])
        return FEW(decoder, data, *arguments, **options)

    trainer = scoring(*({"bleu_4": score} for score in (9.0, 1.0, 1.0)))
    model, _ = run(
        dataset, small_config(visual_ngrams=True), tmp_path / "model", encoder_lr=0.01, trainer=trainer, choose=choose
    )
    encoder = small_encoder()
    assert model.encoder.digest != encoder.digest
    encoder.adopt(as_tensors(model.tuned_encoder))
    pixels = torch.stack([encoder.preprocessing(open_photo(example.photo)) for example in dataset.split("train")])
    torch.testing.assert_close(read[0], encoder.annotate(pixels), rtol=0, atol=1e-5)


def blocks():
    """An encoder of three convolutions, always with the same weights."""
    return load_encoder(scenes_encoder.NAME, resize="squash")


def test_fine_tuning_from_a_block_trains_it_alone_and_ships_it_alone(dataset, tmp_path):
    encoder = blocks()
    model, _ = run(dataset, small_config(), tmp_path / "soft", encoder=encoder, encoder_lr=0.01, unfreeze_from="conv3")
    stored = load_file(tmp_path / "soft" / "encoder.safetensors")
    assert {name: value.dtype for name, value in stored.items()} == {
        "convolutions.4.weight": torch.int8,
        "convolutions.4.weight.scale": torch.float32,
        "convolutions.4.bias": torch.float32,
    }
    plain = blocks().body.state_dict()
    assert all(not np.array_equal(value, plain[name]) for name, value in model.tuned_encoder.items())
    again = Captioner.from_pretrained(tmp_path / "soft", device="cpu")  # which checks the digest
    caption = again(dataset.examples[0].photo)
    assert str(caption) == str(captioner_of(model, encoder)(dataset.examples[0].photo)) and caption.words
    folders = [folder for folder in (tmp_path / "cache" / "shapes").iterdir() if folder.is_dir()]
    assert len(folders) == 1  # what the block reads, and nothing else

    hard = small_config(epochs=1, decoder={"attention": "hard"})

    def tuned():
        found = blocks()
        found.adopt(as_tensors(model.tuned_encoder))
        return found

    shared, _ = run(dataset, hard, tmp_path / "hard", encoder=tuned(), init_from=model)  # frozen now
    first, second = (tmp_path / name / "encoder.safetensors" for name in ("hard", "soft"))
    assert first.read_bytes() == second.read_bytes() and shared.encoder == model.encoder
    further = {"init_from": model, "encoder_lr": 0.01, "unfreeze_from": "conv3"}
    other, _ = run(dataset, hard, tmp_path / "further", encoder=tuned(), **further)
    assert other.encoder.digest != model.encoder.digest
    assert other.tuned_encoder.keys() == model.tuned_encoder.keys()


@pytest.mark.parametrize("block", ["conv3", None], ids=["from a block", "all of it"])
def test_fine_tuning_resumes_to_the_bit(block, dataset, tmp_path):
    def go(output, **options):
        how = {"encoder_lr": 0.003, "unfreeze_from": block, **options}
        return run(dataset, small_config(), tmp_path / output, encoder=blocks(), **how)[0]

    uninterrupted = go("uninterrupted")
    with pytest.raises(KeyboardInterrupt):
        go("model", trainer=interrupting(7))
    if block is not None:
        for other in ("conv2", None):
            with pytest.raises(SatError, match=rf"encoder\.unfreeze_from was 'conv3', is {other!r}"):
                go("model", resume=True, unfreeze_from=other)
    resumed = go("model", resume=True)
    assert same_weights(resumed.tuned_encoder, uninterrupted.tuned_encoder)
    assert same_model(resumed, uninterrupted)


def test_validation_keeps_no_graph_of_the_encoder(dataset, tmp_path):
    encoder = small_encoder()
    plan, data = prepared(dataset, small_config(), tmp_path, encoder, encoder_lr=0.003)
    with_graph = []
    encoder.register_forward_hook(lambda module, given, found: with_graph.append(found.requires_grad))
    trainer = Trainer(plan.config, data, device=CPU)
    assert not any(with_graph)  # the scale of the annotations: of 500 photos, a graph each
    trainer.validate()
    assert not any(with_graph)
    take(trainer, [0])
    assert with_graph[-1]


def test_a_training_reads_the_views_that_its_settings_ask_for(dataset, tmp_path):
    config = small_config(flipped=True, mirror_sides=True, crops=2)
    encoder = small_encoder()
    assert config.views == ["flipped", "crop-1", "crop-2"]
    _, data = prepared(dataset, config, tmp_path, encoder)
    name = dataset.split("train")[0].name
    found = torch.cat([view[[name]] for view in data.views])
    photo = open_photo(dataset.split("train")[0].photo)
    views = ("original", *config.views)
    expected = torch.stack([encoder.preprocessing(photo, view, name) for view in views])
    assert torch.equal(found, encoder.annotate(expected).half())


@pytest.mark.parametrize("tokenizer", [KARPATHY, ENGLISH], ids=lambda each: each.name)
def test_confidence_is_of_captions_that_are_made_as_the_model_makes_them(tokenizer):
    data = random_data(photos=confidence.PHOTOS_TO_JUDGE)
    words = "dog cat man woman tree ball car street a in on with of red blue two runs sits near the is"
    data = replace(data, vocabulary=Vocabulary(words.split(), tokenizer))
    decoder = trainer_of(data).average
    seen = []

    class Constant(Reranker):
        def scores(self, backend, features, found, rare_word_exponent=0.0):
            longest = max(len(hypothesis.words) for hypotheses in found for hypothesis in hypotheses)
            seen.append((len(found[0]), longest, rare_word_exponent))
            return [[0.0] * len(hypotheses) for hypotheses in found]

    generation = GenerationConfig(beam_size=4, max_length=6, rare_word_exponent=0.5, allow_repetitions=True)
    decoding = Decoding(vocabulary=data.vocabulary, config=generation, reranker=Constant({}))
    assert confidence_of([(decoder, data, decoding)], None) is None  # val has too few photos
    assert not seen
    references = {name: [data.vocabulary.decode(words)] for name, words in data.captions}
    many = replace(data, validation=list(references.items()))
    assert confidence_of([(decoder, many, decoding)], None)
    assert {(beam, weight) for beam, _, weight in seen} == {(4, 0.5)}
    assert all(longest <= 6 for _, longest, _ in seen)


def test_a_training_keeps_a_reranker_that_val_chooses(dataset, tmp_path):
    weight = 32.0

    def choose(decoder, data, usual, **options):
        rerankers.append(usual.reranker)
        plain = usual.config.merge(beam_size=1, length_penalty=0.5)
        best = plain.merge(beam_size=4, rerank_weight=weight, rare_word_exponent=RARE_WORD_EXPONENT if weight else 0.0)
        return Chosen(best, {"beam 4": 12.0}, plain, 1.0)

    rerankers = []
    config = small_config(epochs=1, visual_ngrams=True)
    best, messages = run(dataset, config, tmp_path / "model", choose=choose)
    assert rerankers.pop() is not None and best.reranker is not None
    assert best.training["validation_bleu_4"] == {"beam 4": 12.0}
    assert best.training["without_reranker"] == {"beam_size": 1, "length_penalty": 0.5, "validation_bleu_4": 1.0}
    assert any("beam size 4, length penalty 0.5, rerank weight 32" in line for line in messages)
    loaded = Checkpoint.load(tmp_path / "model")
    assert same_weights(loaded.reranker.arrays, best.reranker.arrays)
    assert (0, loaded.vocabulary.encode(["circle"])[0]) in VisualNgrams(loaded.reranker.arrays).numbers

    weight = 0.0  # what does not pay is not kept
    best, _ = run(dataset, replace(config, epochs=2), tmp_path / "model", resume=True, choose=choose)
    assert rerankers.pop() is not None and best.reranker is None and "without_reranker" not in best.training
    assert {file.name for file in (tmp_path / "model").glob("*.safetensors")} == {"model.safetensors"}
    best, _ = run(
        dataset, replace(config, epochs=2, visual_ngrams=False), tmp_path / "model", resume=True, choose=choose
    )
    assert rerankers.pop() is None and best.reranker is None


def test_without_n_grams_that_are_seen_often_nothing_is_ranked(tmp_path):
    few = read_dataset(shape_folder(tmp_path / "few", train=4))
    best, messages = run(few, small_config(epochs=1, visual_ngrams=True), tmp_path / "model")
    assert best.reranker is None and any("no word is in 10 training captions" in line for line in messages)
