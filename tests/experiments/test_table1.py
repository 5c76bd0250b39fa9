"""`make table1` runs what is missing, by the project's own commands, and writes what it found."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from show_attend_tell.scoring import java as java_metrics

SCRIPT = Path(__file__).parents[2] / "experiments" / "table1.py"
CAPTIONS = ["a dog runs", "a boy swims in a pool", "two people walk on the beach", "a child", "the dog jumps over it"]


@pytest.fixture
def table1() -> ModuleType:
    spec = importlib.util.spec_from_file_location("table1", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = sys.modules["table1"] = importlib.util.module_from_spec(spec)  # which its dataclass looks for
    spec.loader.exec_module(module)
    return module


def evaluation(folder: Path, name: str, *, right: int, bleu: float) -> None:
    """An evaluation of five photos whose first ``right`` captions are those that the references have."""
    results = [
        {"photo": f"{n}.jpg", "caption": text if n < right else "nothing at all", "references": [text, f"{text} now"]}
        for n, text in enumerate(CAPTIONS)
    ]
    scores: dict[str, Any] = dict.fromkeys(("meteor", "bleu_4", "cider"), bleu)
    scores |= {f"bleu_{n}_no_brevity": bleu for n in range(1, 5)}
    (folder / f"{name}.json").write_text(json.dumps({**scores, "tokens": "split", "results": results}))


def commands(table1: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the script would run, filled as it is asked."""
    asked: list[str] = []
    monkeypatch.setattr(table1, "sat", lambda *arguments: asked.append(" ".join(map(str, arguments))))
    return asked


def test_missing_runs_are_made_cheap_first(table1: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = commands(table1, monkeypatch)
    for name in table1.RUN_ORDER:
        table1.run(name, Path("DATA"), tmp_path)
    assert set(table1.RUN_ORDER) == set(table1.SYSTEMS)
    assert asked[0] == f"retrieve DATA --geometry squash --json {tmp_path}/retrieval.json"
    assert asked[1:3] == [
        f"train DATA --comparator brnn --geometry squash --seed 1 --output {tmp_path}/brnn-1",
        f"evaluate --model {tmp_path}/brnn-1 --data DATA --json {tmp_path}/brnn-1.json",
    ]
    hard = next(line for line in asked if "--attention hard" in line and "--seed 3" in line)
    assert f"--start-from {tmp_path}/soft-3 " in hard and f"--output {tmp_path}/hard-3" in hard
    members = " ".join(f"--model {tmp_path}/nic-{seed}" for seed in (1, 2, 3))
    assert asked[-1] == f"evaluate {members} --data DATA --json {tmp_path}/nic-ensemble.json"


def test_runs_that_are_there_are_not_made_again(
    table1: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = commands(table1, monkeypatch)
    evaluation(tmp_path, "nic-1", right=3, bleu=20.0)
    (tmp_path / "nic-2").mkdir()  # trained elsewhere
    (tmp_path / "nic-2" / "config.json").touch()
    (tmp_path / "nic-3" / "training").mkdir(parents=True)  # interrupted
    (tmp_path / "nic-3" / "training" / "state.safetensors").touch()
    table1.run("nic", Path("DATA"), tmp_path)
    assert [line.split()[0] for line in asked] == ["evaluate", "train", "evaluate"]
    assert asked[1].endswith(f"--seed 3 --output {tmp_path}/nic-3 --resume")


def test_a_command_that_fails_ends_it(table1: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/python")
    monkeypatch.setattr(table1.Path, "with_name", lambda self, name: Path("/bin/false"))
    with pytest.raises(SystemExit) as ended:
        table1.sat("train")
    assert ended.value.code == 1


def test_the_document_has_the_papers_figures_and_ours(
    table1: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pycocoevalcap")

    def absent(module: Any, jar: str) -> Path:
        raise java_metrics.JavaError("no Java in this test")

    monkeypatch.setattr(java_metrics, "java_program", absent)
    for name, right, bleu in (("nic-1", 2, 20.0), ("nic-2", 3, 22.0), ("soft-1", 5, 25.0)):
        evaluation(tmp_path, name, right=right, bleu=bleu)
    (tmp_path / "soft-1" / "training").mkdir(parents=True)
    (tmp_path / "soft-1" / "training" / "log.jsonl").write_text('{"seconds": 90}\n{"seconds": 150}\n')
    training = {"seed": 1, "epochs": 7, "validation_bleu_4": {"beam 1, γ 0": 17.5, "beam 5, γ 0.5": 19.25}}
    config = {"decoding": {"beam": 5, "length_normalisation": 0.5}, "training": training}
    (tmp_path / "soft-1" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    table1.write(tmp_path, tmp_path / "docs" / "table1.md")
    text = (tmp_path / "docs" / "table1.md").read_text(encoding="utf-8")

    main = text.split("## Attention over averaging")[0]
    rows = {line.split(" | ")[0].lstrip("| "): line for line in main.splitlines() if line.startswith("|")}
    assert rows["Google NIC †Σ"].startswith("| Google NIC †Σ | its mean | 63 | 41 | 27 | – | – | – |")
    assert "| 21.0 ± 1.4 |" in rows["Google NIC, single"] and rows["Google NIC, single"].endswith("| 2 |")
    assert "| the map | 67 | 44.8 | 29.9 | 19.5 | 18.93 | 25.0 |" in rows["Soft attention"]
    assert rows["soft-1"].startswith("| soft-1 | `--attention soft --set visual_ngrams=false --start-from ")
    assert "/plain-1 " in rows["soft-1"]
    assert rows["soft-1"].endswith("--seed 1` | 7 | 4 | 19.25 | 5 | 0.5 |")
    assert "| COCO | CMU/MS Research a |" in text and "| COCO | MS Research †a |" in text
    assert "METEOR is left out: no Java in this test" in text and "Hard attention (mean" not in text
    by_length = text.split("By the mean length")[1].split("## Quoted only")[0]
    quarters = [line for line in by_length.splitlines() if line.startswith("| Soft attention")]
    assert len(quarters) == 4 and "2.5 to 2.5" in quarters[0] and "– |" in quarters[0]  # METEOR's cell
