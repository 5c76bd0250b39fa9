"""What comes after the loop is made in stages, each once, however often the training is killed."""

import pytest
from builders import small_config
from trainers import FEW, Killed, killed_at, logged, plan_of

from show_attend_tell.training.run import train

STAGES = ("reranker", "class words", "decoding", "confidence", "card")
LINES = [f"stage {number} of 5: {name}" for number, name in enumerate(STAGES, start=1)]


def run(dataset, output, start=None, **changes):
    """A training that resumes, with models in 16 bits; also the stages that it logged."""
    plan = plan_of(dataset, small_config(visual_ngrams=True, **changes), output, init_from=start, resume=True)
    with logged() as messages:
        model = train(plan, choose=FEW, show=False)
    return model, [line for line in messages if line.startswith("stage ")]


def files(output):
    return {file.name: file.read_bytes() for file in output.iterdir() if file.suffix in (".json", ".safetensors")}


@pytest.fixture(scope="module")
def whole(dataset, tmp_path_factory):
    """What a training that nothing interrupts ends in."""
    output = tmp_path_factory.mktemp("whole") / "model"
    model, lines = run(dataset, output, epochs=1)
    assert lines == LINES and not (output / "training" / "unfinished").exists()
    return model, files(output)


@pytest.mark.parametrize("number", range(5), ids=STAGES)
def test_a_training_that_is_killed_in_a_stage_goes_on_there(number, dataset, whole, tmp_path):
    output = tmp_path / "model"
    with pytest.raises(Killed), killed_at(LINES[number]):
        run(dataset, output, epochs=1)
    _, lines = run(dataset, output, epochs=1)
    assert lines == LINES[number:] and files(output) == whole[1]


def test_stages_of_other_settings_are_made_anew_and_so_are_those_cut_short(dataset, tmp_path):
    output = tmp_path / "model"
    for change in ("more epochs", "cut short"):
        with pytest.raises(Killed), killed_at(LINES[3]):
            run(dataset, output, epochs=1 if change == "more epochs" else 2)
        if change == "cut short":
            (output / "training" / "unfinished" / "config.json").write_bytes(b"{")
        assert run(dataset, output, epochs=2)[1] == LINES


def test_a_cautious_training_that_is_killed_after_its_verdict_moves_the_weights_once(dataset, whole, tmp_path):
    how = {"cautious": True, "selected_by": "nats", "epochs": 4}
    run(dataset, tmp_path / "one", whole[0], **how)
    for line in (LINES[0], LINES[4]):
        with pytest.raises(Killed), killed_at(line):
            run(dataset, tmp_path / line, whole[0], **how)
        run(dataset, tmp_path / line, whole[0], **how)
        assert files(tmp_path / line) == files(tmp_path / "one")
