"""`make table1` runs what is missing, by the project's own commands, keeps the evaluations and writes the table."""

import json
from pathlib import Path
from typing import Any

import pytest
import results
import shipped
import stages
import table1

from show_attend_tell.scoring import java as java_metrics

CAPTIONS = ["a dog runs", "a boy swims in a pool", "two people walk on the beach", "a child", "the dog jumps over it"]

WITHOUT = {"without_reranker": {"beam": 20, "length_normalisation": 0.75}}


def write_evaluation(folder: Path, name: str, *, right: int, bleu: float) -> None:
    """An evaluation of five photos whose first ``right`` captions are those that the references have."""
    entries = [
        {"photo": f"{n}.jpg", "caption": text if n < right else "nothing at all", "references": [text, f"{text} now"]}
        for n, text in enumerate(CAPTIONS)
    ]
    found: dict[str, Any] = dict.fromkeys(("meteor", "bleu_4", "cider"), bleu)
    found |= {f"bleu_{n}_no_brevity": bleu for n in range(1, 5)}
    found |= {"model": name, "data": "flickr8k", "split": "test", "beam": 5, "look": "expectation"}
    found |= {"length_normalisation": 0.5, "reranker_weight": 0.0, "tokens": "split", "results": entries}
    (folder / f"{name}.json").write_text(json.dumps(found))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the script would run, filled as it is asked; a training leaves a configuration."""
    found: list[str] = []

    def sat(*arguments: object) -> None:
        found.append(" ".join(map(str, arguments)))
        if arguments[0] == "train":
            model = Path(str(arguments[arguments.index("--output") + 1]))
            model.mkdir(exist_ok=True)
            (model / "config.json").write_text(json.dumps({"training": {"validation_bleu_4": {}, **WITHOUT}}))

    monkeypatch.setattr(stages, "sat", sat)
    return found


def test_missing_runs_are_made_cheap_first(tmp_path: Path, asked: list[str]) -> None:
    for name in table1.RUN_ORDER:
        stages.run(table1.stages_of(name, Path("DATA"), tmp_path, shipped.SEEDS))
    assert set(table1.RUN_ORDER) == set(table1.SYSTEMS)
    assert asked[0] == f"analyse retrieval DATA --geometry squash --json {tmp_path}/retrieval-test.json"
    second = "--epochs 3 --set learning_rate=5e-4 --set scheduled_sampling=0.3 --set scheduled_sampling_end=0.3"
    assert asked[1:4] == [
        f"train DATA --comparator brnn --seed 1 --geometry squash --output {tmp_path}/brnn-plain-1",
        f"train DATA --comparator brnn {second} --start-from {tmp_path}/brnn-plain-1 --seed 1 --geometry squash "
        f"--output {tmp_path}/brnn-1",
        f"evaluate --model {tmp_path}/brnn-1 --data DATA --split test --json {tmp_path}/brnn-1-test.json",
    ]
    uniform = [line.split(" --geometry")[0] for line in asked if "--attention uniform" in line and "--seed 2" in line]
    soft = [line.split(" --geometry")[0] for line in asked if "--attention soft" in line and "--seed 2" in line]
    alike = [line.replace("uniform", "soft").replace("soft-plain", "plain") for line in uniform]
    assert [line.replace("--set visual_ngrams=false ", "") for line in alike] == [
        line.replace("--set visual_ngrams=false ", "") for line in soft
    ]  # the control differs in its attention alone
    hard = next(line for line in asked if "--attention hard" in line and "--seed 3" in line)
    assert f"--start-from {tmp_path}/soft-3 " in hard and f"--output {tmp_path}/hard-3" in hard
    members = " ".join(f"--model {tmp_path}/nic-{seed}" for seed in (1, 2, 3))
    assert asked[-1] == f"evaluate {members} --data DATA --split test --json {tmp_path}/nic-ensemble-test.json"


def test_runs_that_are_there_are_not_made_again(tmp_path: Path, asked: list[str]) -> None:
    write_evaluation(tmp_path, "soft-1-test-alone", right=3, bleu=20.0)
    for seed in (1, 2):  # trained elsewhere, or by `make models`
        (tmp_path / f"soft-{seed}").mkdir()
        config = {"training": {"validation_bleu_4": {}, **WITHOUT}}
        (tmp_path / f"soft-{seed}" / "config.json").write_text(json.dumps(config))
    (tmp_path / "soft-3" / "training").mkdir(parents=True)  # interrupted
    (tmp_path / "soft-3" / "training" / "state.safetensors").touch()
    stages.run(table1.stages_of("soft", Path("DATA"), tmp_path, shipped.SEEDS))
    assert [line.split()[0] for line in asked] == ["evaluate", "train", "evaluate"]
    assert "/soft-2 " in asked[0] and "--reranker-weight 0 --beam 20 --length-normalisation 0.75 --json" in asked[0]
    assert asked[1].endswith(f"--output {tmp_path}/soft-3 --resume")


def test_one_system_and_one_seed_can_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table1.main(["DATA", str(tmp_path), "uniform", "--seeds", "2", "--list"])
    lines = [line.split("] ")[1].split(":")[0] for line in capsys.readouterr().out.splitlines() if line[0] == "["]
    assert lines == ["train uniform-plain-2", "train uniform-2", "evaluate uniform-2-test"]
    with pytest.raises(SystemExit, match="no system 'vgg'"):
        table1.main(["DATA", str(tmp_path), "vgg"])


def test_a_command_that_fails_ends_it() -> None:
    with pytest.raises(SystemExit) as ended:
        stages.sat("train", "nowhere", "--attention", "soft", "--output", "model")
    assert ended.value.code == 1


def test_the_document_has_the_papers_figures_and_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycocoevalcap")

    def absent(module: Any, jar: str) -> Path:
        raise java_metrics.JavaError("no Java in this test")

    monkeypatch.setattr(java_metrics, "java_program", absent)
    for name, right, bleu in (("nic-1-test", 2, 20.0), ("nic-2-test", 3, 22.0), ("soft-1-test-alone", 5, 25.0)):
        write_evaluation(tmp_path, name, right=right, bleu=bleu)
    (tmp_path / "soft-1" / "training").mkdir(parents=True)
    (tmp_path / "soft-1" / "training" / "log.jsonl").write_text('{"seconds": 90}\n{"seconds": 150}\n')
    training = {"seed": 1, "epochs": 7, "validation_bleu_4": {"beam 1, γ 0": 17.5, "beam 100, γ 0.25, ω 32": 23.5}}
    training |= {"without_reranker": {"beam": 5, "length_normalisation": 0.5, "validation_bleu_4": 19.25}}
    config = {"decoding": {"beam": 100, "length_normalisation": 0.25}, "training": training}
    (tmp_path / "soft-1" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    folder = tmp_path / "results"
    table1.keep(tmp_path, folder)
    assert results.names(folder) == ["nic-1-test", "nic-2-test", "soft-1-test-alone"]
    table1.write(tmp_path, tmp_path / "docs" / "table1.md", folder)
    text = (tmp_path / "docs" / "table1.md").read_text(encoding="utf-8")

    main = text.split("## Attention against Google NIC, single")[0]
    rows = {line.split(" | ")[0].lstrip("| "): line for line in main.splitlines() if line.startswith("|")}
    assert rows["Google NIC †Σ"].startswith("| Google NIC †Σ | its mean | 63 | 41 | 27 | – | – | – |")
    assert "| 21.0 ± 1.4 |" in rows["Google NIC, single"] and rows["Google NIC, single"].endswith("| 2 |")
    assert "| the map | 67 | 44.8 | 29.9 | 19.5 | 18.93 | 25.0 |" in rows["Soft attention"]
    assert rows["soft-1"].startswith("| soft-1 | `--attention soft --epochs 3 --set learning_rate=5e-4 ")
    assert "--start-from runs/plain-1 " in rows["soft-1"]
    assert rows["soft-1"].endswith("--seed 1` | 7 | 4 | 19.25 | 5 | 0.5 |")
    assert "| COCO | CMU/MS Research a |" in text and "| COCO | MS Research †a |" in text
    assert "METEOR is left out: no Java in this test" in text and "Hard attention (mean" not in text
    by_length = text.split("By the mean length")[1].split("## Quoted only")[0]
    quarters = [line for line in by_length.splitlines() if line.startswith("| Soft attention")]
    assert len(quarters) == 4 and "2.5 to 2.5" in quarters[0] and "– |" in quarters[0]  # METEOR's cell


def test_the_document_says_where_its_figures_come_from() -> None:
    text = table1.DOCUMENT.read_text(encoding="utf-8")
    found = table1.kept()
    if any(found.values()):
        assert table1.main_table(found) in text
    else:
        assert "The evaluations behind this page were not kept" in text
