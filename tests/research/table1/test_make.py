"""`make table1` runs what is missing, by the project's own commands, keeps the evaluations and writes the table."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import results
import shipped
import stages
from builders import shape_folder
from table1 import make

from show_attend_tell.data.datasets import Dataset, read_dataset


def keep(dataset: Dataset, folder: Path, name: str, wrong: int, bleu: float = 50.0) -> None:
    """Keep an evaluation whose first captions are wrong, with a CIDEr of 0; others have 10 for each word."""
    rows = []
    for number, example in enumerate(dataset.split("test")):
        words = example.captions[0] if number >= wrong else ()
        rows.append({"photo": example.name, "caption": " ".join(words) or "nothing", "cider": 10.0 * len(words)})
    found = dict.fromkeys(("bleu_4", "cider", *(f"bleu_{n}_no_brevity" for n in range(1, 5))), bleu)
    about = {"model": name, "data": dataset.name, "split": "test", "meteor": None, "tokens": "split"}
    about |= {"beam_size": 5, "attention_mode": "mean", "length_penalty": 0.5, "rerank_weight": 0.0}
    results.keep({**found, **about, "results": rows}, name, folder)


def test_runs_that_are_there_are_not_made_again(tmp_path):
    def finished(model: Path) -> None:
        model.mkdir(exist_ok=True)
        (model / "config.json").write_text(json.dumps({"training": {"validation_bleu_4": {}}}))

    def sat(*arguments: object) -> None:
        asked.append(" ".join(map(str, arguments)))
        if arguments[0] == "train":
            finished(Path(str(arguments[arguments.index("--output") + 1])))

    asked = []
    (tmp_path / "soft-1-test.json").touch()
    for seed in (1, 2):  # trained elsewhere, or by `make models`
        finished(tmp_path / f"soft-{seed}")
    (tmp_path / "soft-3" / "training").mkdir(parents=True)  # interrupted
    (tmp_path / "soft-3" / "training" / "state.safetensors").touch()
    stages.run(make.stages_of("soft", Path("DATA"), tmp_path, shipped.SEEDS), sat=sat)
    assert [line.split()[0] for line in asked] == ["evaluate", "train", "train", "evaluate"]
    assert "/soft-2 " in asked[0] and asked[0].endswith(f"--split test --json {tmp_path}/soft-2-test.json")
    assert asked[1].endswith(f"--output {tmp_path}/plain-3")  # which it starts from
    assert asked[2].endswith(f"--output {tmp_path}/soft-3 --resume")


@pytest.mark.usefixtures("without_java")
def test_the_document_has_the_papers_figures_and_ours(tmp_path):
    pytest.importorskip("pycocoevalcap")
    dataset = read_dataset(shape_folder(tmp_path / "flickr8k", train=2, val=1, test=17, captions=2))
    folder = tmp_path / "results"
    keep(dataset, folder, "nic-1-test", 17, 20.0)
    keep(dataset, folder, "nic-2-test", 17, 22.0)
    keep(dataset, folder, "flickr8k-soft-test", 0, 25.0)
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


def test_a_slope_is_that_of_the_best_line():
    x, y = np.array([1.0, 2.0, 4.0, 7.0]), np.array([3.0, 1.0, 2.0, 8.0])
    weights = np.array([[1.0, 1.0, 1.0, 1.0], [2.0, 0.0, 1.0, 3.0]])
    for found, weight in zip(make.slope(x, y, weights), weights, strict=True):
        assert found == pytest.approx(np.polyfit(x, y, 1, w=np.sqrt(weight))[0])


def test_the_document_says_where_its_figures_come_from():
    tables = make.main_table(), make.msr_parts() + "<!-- end", make.runs_table()
    shown = "".join(document.read_text(encoding="utf-8") for document in make.DOCUMENTS)
    assert all(table in shown for table in tables)
