"""The control of the everyday models: it differs in attention alone, and is compared over all its seeds."""

import dataclasses
from pathlib import Path

import everyday_uniform
import pytest
import shipped
from builders import shape_folder
from evaluations import keep
from everyday_uniform import NAME
from trainings import config_of

from show_attend_tell.data.datasets import read_dataset


@pytest.mark.parametrize("stage", ["-plain", "-texts", ""])
def test_the_control_has_the_settings_of_everyday_soft_but_for_attention(stage: str) -> None:
    control, model = everyday_uniform.TRAININGS[NAME + stage], shipped.TRAININGS[f"everyday{stage or '-soft'}"]
    uniform, soft = config_of(control), config_of(model)
    assert dataclasses.replace(uniform, decoder=dataclasses.replace(uniform.decoder, attention="soft")) == soft
    assert uniform.decoder.attention == "uniform" and control.arguments[2:] == model.arguments[2:]
    start = None if model.start is None else model.start.replace("everyday", NAME)
    assert (control.data, control.texts, control.start) == (model.data, model.texts, start)


def test_its_stages_are_those_of_an_everyday_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    everyday_uniform.main(["flickr8k", "coco", str(tmp_path), "--seeds", "1", "--list"])
    said = capsys.readouterr().out
    assert "[1/11] train everyday-uniform-plain-1: to do\n[2/11] train everyday-uniform-texts-1: to do\n" in said
    assert "evaluate everyday-uniform-1-coco-test-alone: to do" in said


@pytest.mark.usefixtures("without_java")
def test_all_seeds_are_compared(tmp_path: Path) -> None:
    pytest.importorskip("pycocoevalcap")
    dataset = read_dataset(shape_folder(tmp_path / "flickr8k", train=2, val=1, test=17, captions=2))
    folder = tmp_path / "results"
    for seed in shipped.SEEDS:
        keep(dataset, folder, f"everyday-uniform-{seed}-flickr8k-test-alone", 9)
        keep(dataset, folder, f"everyday-soft-{seed}-flickr8k-test-alone", 2)
    said = everyday_uniform.compared(dataset, everyday_uniform.ALONE, folder)
    assert "| uniform α (mean of 3) | everyday-soft (mean of 3) | difference | 95 % interval" in said
    (cider,) = (line for line in said.splitlines() if line.startswith("| CIDEr "))
    difference = float(cider.split(" | ")[3])
    assert difference > 0
