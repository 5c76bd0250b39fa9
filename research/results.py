"""The evaluations that are kept in results/: captions and scores of every figure in README and docs.

    python research/results.py                       # list the files, with their scores and commands
    python research/results.py NAME EVALUATION.json  # keep an evaluation that `sat evaluate --json` wrote, as NAME
    python research/results.py NAME MEASURED.json    # keep what ablation.py or evidence.py wrote

results/NAME.json.gz holds one evaluation: the command that makes it again, its scores ×100, and for each photo its
name, caption and scores. References and paths are left out. results/evaluations.csv lists the files, and is written
with them.
results/ablation/NAME.json.gz holds the figures of an ablation and its command, results/evidence/ those of evidence.
"""

import csv
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stages import new_parser, reporting

from show_attend_tell.data.datasets import Dataset
from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write, list_of_objects, read_object, write_text
from show_attend_tell.metrics.caption_files import EvaluationFile
from show_attend_tell.metrics.comparison import compare
from show_attend_tell.metrics.table import METRICS

RESULTS = Path(__file__).parent / "results"
ABLATION, EVIDENCE, HIDE = RESULTS / "ablation", RESULTS / "evidence", RESULTS / "hide"
BASELINES = ("nic", "lrcn", "log_bilinear", "m_rnn", "brnn", "cmu_msr", "msr")  # the plugin table1 has their decoders
SHIPPED = {"soft": "flickr8k-soft-test", "hard": "flickr8k-hard-test"}  # where no seed's is kept
OF_A_PHOTO = {  # what is kept of each, and how many decimals of a number
    "photo": None,
    "caption": None,
    "log_probability": 3,
    "complete": None,
    **{name: 2 for name, metric in METRICS.items() if metric.each},
}
SEARCH = ("beam_size", "attention_mode", "length_penalty", "rerank_weight")
FILTERS = ("repetition_cost", "class_weight")  # settings that evaluations of models without class words lack
LIST = "evaluations.csv"  # of all evaluations
HOW = ("model", "data", "split", "attention_mode", "beam_size", "length_penalty", "rerank_weight")


def keep(evaluation: Mapping[str, Any], name: str, folder: Path = RESULTS) -> None:
    """Keep an evaluation, as `sat evaluate --json` writes it, as ``folder``/NAME.json.gz.

    Raises `SatError` for one without captions.
    """
    evaluation = dict(evaluation)
    rows = []
    for entry in list_of_objects(evaluation, "results", name):
        row = {}
        for key, decimals in OF_A_PHOTO.items():
            if key in entry:
                row[key] = entry[key] if decimals is None else round(float(entry[key]), decimals)
        rows.append(json.dumps(row, ensure_ascii=False))
    if not rows:
        raise SatError(f"{name} holds no captions: evaluate again")
    head = {"command": command(evaluation)}
    head |= {name: value for name, value in evaluation.items() if name != "results" and not name.endswith("_missing")}
    lines = json.dumps(head, ensure_ascii=False, indent=1).removesuffix("\n}")
    write(lines + ',\n "results": [\n  ' + ",\n  ".join(rows) + "\n ]\n}\n", name, folder)


def keep_analysis(found: Mapping[str, Any], name: str, folder: Path) -> None:
    """Keep what ablation.py or evidence.py wrote as ``folder``/NAME.json.gz."""
    content = {"command": ablation_command(found) if "at_word" in found else evidence_command(found), **found}
    write(json.dumps(content, ensure_ascii=False, indent=1) + "\n", name, folder)


def write(text: str, name: str, folder: Path) -> None:
    """Write a text as ``folder``/NAME.json.gz; the same text gives the same bytes."""
    data = gzip.compress(text.encode(), compresslevel=9, mtime=0)
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write(folder / f"{name}.json.gz", lambda file: file.write_bytes(data))


def read(name: str, folder: Path = RESULTS) -> dict[str, Any]:
    """The evaluation that was kept under that name; raises `SatError` naming a file that is missing or damaged."""
    file = folder / f"{name}.json.gz"
    try:
        found: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    except (OSError, EOFError, ValueError) as error:
        raise SatError(f"{file} cannot be read ({error}): get it again") from error
    return found


def names(folder: Path = RESULTS) -> list[str]:
    """The names of the evaluations that are kept."""
    return sorted(file.name.removesuffix(".json.gz") for file in folder.glob("*.json.gz"))


def kept(wanted: Sequence[str], instead: str | None, folder: Path = RESULTS) -> list[str]:
    """Those of the wanted evaluations that are kept; where there is none, the one ``instead``, if it is kept."""
    there = set(names(folder))
    return [name for name in wanted if name in there] or [name for name in [instead] if name in there]


def evaluation(name: str, dataset: Dataset, folder: Path = RESULTS) -> EvaluationFile:
    """An evaluation of test that is kept, with the references of the data.

    Raises `SatError` for one of another data set, split or tokens.
    """
    found = read(name, folder)
    if (found["data"], found["split"], found["tokens"]) != (dataset.name, "test", "split"):
        raise SatError(f"{name} is not an evaluation of {dataset.name}'s test split on its own tokens: evaluate again")
    return EvaluationFile(
        file=Path(f"{name}.json"),
        tokens="split",
        captions={row["photo"]: row["caption"] for row in found["results"]},
        references={
            example.name: [dataset.tokenizer.text(words) for words in example.captions]
            for example in dataset.split("test")
        },
    )


def compared(systems: Mapping[str, Sequence[str]], dataset: Dataset, folder: Path = RESULTS) -> str:
    """Systems minus the first one, over photos and seeds, as a table; nothing where evaluations of one are not kept.

    ``systems`` are the names of each system's evaluations, by its title.
    """
    if len(systems) < 2 or not all(systems.values()):
        return ""
    found = {title: [evaluation(name, dataset, folder) for name in names] for title, names in systems.items()}
    return compare(found, show=False).to_markdown()


def command(evaluation: Mapping[str, Any]) -> str:
    """The command that makes an evaluation again, with everything that it depends on."""
    data, split = f"{evaluation['data']}/", f"--split {evaluation['split']}"
    if "retrieval" in evaluation:
        return f"python research/retrieval.py {data} {split}"
    if "templates" in evaluation:
        return f"PYTHONPATH=research python -m table1.templates {data} msr-1 {split}"
    names = str(evaluation["model"]).split(" + ")
    if len(names) > 1:
        return f"PYTHONPATH=research python -m table1.ensemble {data} {' '.join(names)} {split}"
    model = f"--model {names[0]}"
    if names[0].rpartition("-")[0].partition("-")[0] in BASELINES:
        model = f"--plugin research/table1 {model}"
    filters = "".join(f" --generation {name}={evaluation[name]:g}" for name in FILTERS if name in evaluation)
    return (
        f"sat evaluate {model} --data {data} {split} --beam-size {evaluation['beam_size']} "
        f"--attention-mode {evaluation['attention_mode']} --length-penalty {evaluation['length_penalty']:g} "
        f"--rerank-weight {evaluation['rerank_weight']:g}{filters}"
    )


def ablation_command(found: Mapping[str, Any]) -> str:
    """The command that makes an ablation again."""
    made = found["captions_made"]
    return (
        f"python research/ablation.py {found['data']}/ {found['model']} --split {found['split']} "
        f"--photos {found['photos']} --captions {found['captions']} --captioned {made['photos'] if made else 0} "
        f"--encoded {found['captions_by_way']['gray']} "
        f"--beam-size {found['beam_size']} --attention-mode {found['attention_mode']} "
        f"--length-penalty {found['length_penalty']:g} --rerank-weight {found['rerank_weight']:g} "
        f"--seed {found['seed']}"
    )


def evidence_command(found: Mapping[str, Any]) -> str:
    """The command that measures evidence again."""
    mosaics = f"--mosaics {found['mosaics']} " if found["mosaics"] else ""
    return (
        f"python research/evidence.py {found['data']}/ {found['model']} --split {found['split']} {mosaics}"
        f"--attention-mode {found['attention_mode']} --seed {found['seed']}"
    )


def listed(folder: Path = RESULTS) -> str:
    """All evaluations as a table: the file of each, how its captions were made, its scores ×100, and its command."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["file", *HOW, *METRICS, "command"])
    for name in names(folder):
        evaluation = read(name, folder)
        scores = [evaluation.get(metric) for metric in METRICS]
        figures = [f"{score:.1f}" if isinstance(score, float) else "" for score in scores]
        writer.writerow([name, *(evaluation.get(column, "") for column in HOW), *figures, command(evaluation)])
    return text.getvalue()


def write_list(folder: Path = RESULTS) -> None:
    """Write the table of the evaluations into their folder."""
    write_text(folder / LIST, listed(folder))


@reporting
def main() -> None:
    """List what is kept, or keep one more."""
    parser = new_parser(__doc__)
    parser.add_argument("name", nargs="?", help="name to keep an evaluation or an analysis under")
    parser.add_argument("file", nargs="?", type=Path, help="file that sat evaluate, ablation.py or evidence.py wrote")
    given = parser.parse_args()
    if given.name is not None and given.file is None:
        parser.error("give the file too")
    if given.file is not None:
        found = read_object(given.file, "results")
        if "at_word" in found or "maps" in found:
            keep_analysis(found, given.name, ABLATION if "at_word" in found else EVIDENCE)
        else:
            keep(found, given.name)
            write_list()
    for name in names():
        found = read(name)
        print(f"{name:34} B-4 {found['bleu_4']:4.1f}  CIDEr {found['cider']:4.1f}  {command(found)}")


if __name__ == "__main__":
    main()
