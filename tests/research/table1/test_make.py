"""`make table1` runs what is missing, by the project's own commands, keeps the evaluations and writes the table."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import shipped
import stages
from builders import shape_folder
from evaluations import keep
from table1 import make

from show_attend_tell.data.datasets import read_dataset


class Recorder:
    """Stands in for `sat`: records the commands; a training leaves a configuration."""

    def __init__(self) -> None:
        self.commands: list[str] = []

    def __call__(self, *arguments: object) -> None:
        self.commands.append(" ".join(map(str, arguments)))
        if arguments[0] == "train":
            finished(Path(str(arguments[arguments.index("--output") + 1])))


def finished(model: Path) -> None:
    """A folder that looks like that of a finished training."""
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps({"training": {"validation_bleu_4": {}}}))


def test_missing_runs_are_made_cheap_first(tmp_path: Path) -> None:
    recorder = Recorder()
    for name in ("retrieval", "templates"):
        (tmp_path / f"{name}-test.json").touch()
    for name in ("msr-1", "soft-as-paper-1", "hard-as-paper-1"):
        finished(tmp_path / name)
    for name in make.RUN_ORDER:
        stages.run(make.stages_of(name, Path("DATA"), tmp_path, shipped.SEEDS), sat=recorder)
    asked = recorder.commands
    assert set(make.RUN_ORDER) == set(make.SYSTEMS)
    second = "--epochs 3 --set learning_rate=5e-4 --set scheduled_sampling=0.3 --set scheduled_sampling_end=0.3"
    brnn = "train DATA --plugin research/table1 --decoder brnn --set clip=5"
    assert asked[:3] == [
        f"{brnn} --set scheduled_sampling_end=0.5 --seed 1 --resize squash --output {tmp_path}/brnn-plain-1",
        f"{brnn} {second} --init-from {tmp_path}/brnn-plain-1 --seed 1 --resize squash --output {tmp_path}/brnn-1",
        f"evaluate --model {tmp_path}/brnn-1 --data DATA --split test --plugin research/table1 "
        f"--json {tmp_path}/brnn-1-test.json",
    ]
    uniform = [line.split(" --resize")[0] for line in asked if "--attention uniform" in line and "--seed 2" in line]
    soft = [line.split(" --resize")[0] for line in asked if "--attention soft" in line and "--seed 2" in line]
    alike = [line.replace("uniform", "soft").replace("soft-plain", "plain") for line in uniform]
    assert [line.replace("--set visual_ngrams=false ", "") for line in alike] == [
        line.replace("--set visual_ngrams=false ", "") for line in soft
    ]  # the control differs in its attention alone
    hard = next(line for line in asked if "--attention hard" in line and "--seed 3" in line)
    assert f"--init-from {tmp_path}/soft-3 " in hard and f"--output {tmp_path}/hard-3" in hard
    members = " ".join(f"--model {tmp_path}/nic-{seed}" for seed in (1, 2, 3))
    assert asked[-1].startswith(f"evaluate {members} --data DATA --split test --plugin ")


def test_runs_that_are_there_are_not_made_again(tmp_path: Path) -> None:
    (tmp_path / "soft-1-test.json").touch()
    for seed in (1, 2):  # trained elsewhere, or by `make models`
        finished(tmp_path / f"soft-{seed}")
    (tmp_path / "soft-3" / "training").mkdir(parents=True)  # interrupted
    (tmp_path / "soft-3" / "training" / "state.safetensors").touch()
    recorder = Recorder()
    stages.run(make.stages_of("soft", Path("DATA"), tmp_path, shipped.SEEDS), sat=recorder)
    asked = recorder.commands
    assert [line.split()[0] for line in asked] == ["evaluate", "train", "train", "evaluate"]
    assert "/soft-2 " in asked[0] and asked[0].endswith(f"--split test --json {tmp_path}/soft-2-test.json")
    assert asked[1].endswith(f"--output {tmp_path}/plain-3")  # which it starts from
    assert asked[2].endswith(f"--output {tmp_path}/soft-3 --resume")


def test_one_system_and_one_seed_can_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make.main(["DATA", str(tmp_path), "uniform", "--seeds", "2", "--list"])
    lines = [line.split("] ")[1].split(":")[0] for line in capsys.readouterr().out.splitlines() if line[0] == "["]
    assert lines == ["train uniform-plain-2", "train uniform-2", "evaluate uniform-2-test"]
    make.main(["DATA", str(tmp_path), "hard", "--seeds", "1", "--list"])
    lines = [line.split("] ")[1].split(":")[0] for line in capsys.readouterr().out.splitlines() if line[0] == "["]
    assert lines == ["train plain-1", "train soft-1", "train hard-1", "evaluate hard-1-test"]


def test_a_command_that_fails_ends_it() -> None:
    with pytest.raises(SystemExit) as ended:
        stages.sat("train", "nowhere", "--attention", "soft", "--output", "model")
    assert ended.value.code == 1


@pytest.mark.usefixtures("without_java")
def test_the_document_has_the_papers_figures_and_ours(tmp_path: Path) -> None:
    pytest.importorskip("pycocoevalcap")
    dataset = read_dataset(shape_folder(tmp_path / "flickr8k", train=2, val=1, test=17, captions=2))
    folder = tmp_path / "results"
    for name, wrong, bleu in (
        ("nic-1-test", 17, 20.0),
        ("nic-2-test", 17, 22.0),
        ("flickr8k-soft-test", 0, 25.0),
    ):
        keep(dataset, folder, name, wrong, bleu)
    copies = [Path(shutil.copy(document, tmp_path)) for document in make.DOCUMENTS]
    make.write(dataset, copies, folder)
    main, text = (document.read_text(encoding="utf-8") for document in copies)
    shown = main + text.split("### Minus Google NIC")[0]
    rows = {line.split(" | ")[0].lstrip("| "): line for line in shown.splitlines() if line.startswith("|")}
    assert rows["Google NIC †Σ, three seeds"].startswith(
        "| Google NIC †Σ, three seeds | mean of the map | – | 63 / 41 / 27 | – | – | – | – |"
    )
    assert rows["Google NIC, single"].startswith("| Google NIC, single | mean of the map | 2 | – | ")
    assert " / 21.0 | – | " in rows["Google NIC, single"] and " / 25.0 | – | " in rows["Soft attention"]
    assert "| all locations | 1 | 67 / 44.8 / 29.9 / 19.5 / 18.93 | " in rows["Soft attention"]
    low, high = map(float, rows["Soft attention"].rpartition("[")[2].rstrip("] |").split(", "))
    mean = np.mean([10 * len(example.captions[0]) for example in dataset.split("test")])
    assert low < mean < high
    assert rows["soft-1"].startswith("| soft-1 | `--attention soft --epochs 3 --set visual_ngrams=false ")
    assert "--init-from runs/plain-1 " in rows["soft-1"]
    assert rows["soft-1"].endswith("--seed 1` | 5 | 0.5 | flickr8k-soft-test |") and "soft-2" not in rows
    assert rows["nic-2"].endswith("| 5 | 0.5 | nic-2-test |")
    assert "| COCO | CMU/MS Research a |" in text and "| COCO | MS Research †a |" in text
    assert "Hard attention (mean" not in text
    # soft attention's captions are right, and a right one has 10 of CIDEr for each word
    assert "| Soft attention minus Google NIC, single | +10.00 [+10.00, +10.00] | – |" in text

    keep(dataset, folder, "soft-3-test", 0)
    assert make.kept("soft", folder) == ["soft-3-test"]  # and not the shipped model's any more


def test_a_slope_is_that_of_the_best_line() -> None:
    x, y = np.array([1.0, 2.0, 4.0, 7.0]), np.array([3.0, 1.0, 2.0, 8.0])
    weights = np.array([[1.0, 1.0, 1.0, 1.0], [2.0, 0.0, 1.0, 3.0]])
    for found, weight in zip(make.slope(x, y, weights), weights, strict=True):
        assert found == pytest.approx(np.polyfit(x, y, 1, w=np.sqrt(weight))[0])


def test_the_document_says_where_its_figures_come_from() -> None:
    tables = make.main_table(), make.msr_parts() + "<!-- end", make.runs_table()
    shown = "".join(document.read_text(encoding="utf-8") for document in make.DOCUMENTS)
    assert all(table in shown for table in tables)
