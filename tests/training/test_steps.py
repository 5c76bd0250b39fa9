"""A step does not wait: batches are read ahead, gradients add up, losses are read later, in a precision that stays."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from builders import InMemoryAnnotations, random_data, small_config
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from trainers import learn, logged, rounding_of, take, trainer_of

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.errors import SatError
from show_attend_tell.training.objectives.hard import HardObjective

HARD = {"decoder": {"attention": "hard"}, "hard": HardObjective(samples=2, entropy_weight=0.1)}


class Watched(InMemoryAnnotations):
    """Annotations that note the thread and the photos of each reading."""

    def __init__(self, annotations):
        super().__init__(annotations.annotations)
        self.readings = []

    def __getitem__(self, names):
        self.readings.append((threading.get_ident(), list(names)))
        return super().__getitem__(names)


def test_a_thread_reads_the_next_batch_while_one_is_computed():
    data = random_data()
    trainer = trainer_of(data)
    view = Watched(data.views[0])  # type: ignore[arg-type]
    data.views = [view]
    expected = [[data.captions[index][0] for index in indices] for indices in trainer.batches()]
    batches = trainer.mini_batches()
    next(batches)
    deadline = time.monotonic() + 60
    while len(view.readings) < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert [names for _, names in view.readings] == expected[:2]
    assert threading.get_ident() not in {thread for thread, _ in view.readings}
    batches.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("changes", [{}, HARD], ids=["soft", "hard"])
def test_what_is_drawn_ahead_changes_no_draw(changes):
    """A batch that was drawn ahead and not taken is drawn again: the weights are those of one batch after the other."""
    data = replace(random_data(views=3), text_corpus=[[5, 6, 0], [7, 8, 9, 0]])
    one_by_one, ahead = (trainer_of(data, **changes) for _ in range(2))
    for indices in one_by_one.batches():
        take(one_by_one, indices)
    for batch in ahead.mini_batches():
        ahead.take(batch)
        if ahead.batch == 2:
            break
    for batch in ahead.mini_batches():
        ahead.take(batch)
    ours = one_by_one.decoder.state_dict()
    theirs = ahead.decoder.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert torch.equal(one_by_one.generator.get_state(), ahead.generator.get_state())


@pytest.mark.parametrize("tuned", [False, True], ids=["frozen", "fine-tuned"])
@pytest.mark.parametrize("size", [1, 3, 7])
def test_gradients_of_micro_batches_add_up(size, tuned):
    gradients = []
    for micro_batch_size in (0, size):
        trainer = trainer_of(random_data(photos=7, tuned=tuned), batch_size=7, micro_batch_size=micro_batch_size)
        with ThreadPoolExecutor() as reader:
            batch = trainer.mini_batch(max(trainer.batches(), key=len), reader)
        assert (len(batch) > 1) == (0 < micro_batch_size < sum(piece.captions for piece in batch))
        watch = trainer.step(batch)
        weights = [each for group in trainer.optimizer.param_groups for each in group["params"]]
        gradients.append([watch["loss"], watch["entropy"], *(each.grad for each in weights if each.grad is not None)])
    for whole, added in zip(*gradients, strict=True):
        torch.testing.assert_close(added, whole, rtol=0, atol=rounding_of(whole))


def precision_of(state):
    with safe_open(state, framework="pt") as opened:
        return str(json.loads(opened.metadata()["identity"])["precision"])


def test_a_training_keeps_its_precision_on_another_processor(tmp_path, monkeypatch):
    config = small_config(epochs=1, precision="auto")
    data = random_data(photos=5)
    state = tmp_path / "training" / "state.safetensors"
    monkeypatch.setenv("SAT_PRECISION", "bfloat16")
    learn(config, data, output=tmp_path)
    assert precision_of(state) == "bfloat16"
    assert Checkpoint.load(tmp_path).training["settings"]["precision"] == "bfloat16"
    monkeypatch.setenv("SAT_PRECISION", "float32")
    more = replace(config, epochs=2)
    with pytest.raises(SatError, match="precision was 'bfloat16', is 'float32'"):
        learn(replace(more, precision="float32"), data, output=tmp_path, resume=True)
    learn(more, data, output=tmp_path, resume=True)
    assert precision_of(state) == "bfloat16"
    afresh, _ = learn(config, data)
    assert afresh.config.precision == "float32"
    monkeypatch.setenv("SAT_PRECISION", "half")
    with pytest.raises(SatError, match="SAT_PRECISION is 'half': give float32 or bfloat16"):
        learn(config, data)


def test_a_state_that_does_not_say_its_precision_is_resumed(tmp_path):
    config = small_config(epochs=2)
    data = random_data(photos=5)
    whole, _ = learn(config, data)
    learn(replace(config, epochs=1), data, output=tmp_path)
    state = tmp_path / "training" / "state.safetensors"
    with safe_open(state, framework="pt") as opened:
        header = opened.metadata()
    before = {name: value for name, value in json.loads(header["identity"]).items() if name != "precision"}
    save_file(load_file(state), state, metadata={**header, "identity": json.dumps(before)})
    with logged() as messages:
        resumed, _ = learn(config, data, output=tmp_path, resume=True)
    assert any(line.startswith("resumed after 1 epoch ") for line in messages)
    ours = resumed.decoder.state_dict()
    theirs = whole.decoder.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
