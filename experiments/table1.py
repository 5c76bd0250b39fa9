"""Train and evaluate every system of the paper's Table 1 on Flickr8k, and write docs/table1.md: `make table1`.

    python experiments/table1.py flickr8k/ table1/           # hours on two cores; stop and start it as you like
    python experiments/table1.py flickr8k/ table1/ --write   # run nothing, write the table of what is there

Each run is one or two of the project's own commands and leaves a model, table1/NAME/, and its evaluation on the test
split, table1/NAME.json. A run whose evaluation exists is not made again, and one whose model is there is not trained
again, so what was trained elsewhere may be put there.
"""

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from show_attend_tell.errors import SatError
from show_attend_tell.files import replace
from show_attend_tell.scoring.caption_files import Evaluation, read_evaluation
from show_attend_tell.scoring.comparison import Comparison, Difference, differences
from show_attend_tell.scoring.metrics import Scores, score

DOCUMENT = Path(__file__).parent.parent / "docs" / "table1.md"
SQUASHED = ["--geometry", "squash"]  # as the shipped models, for the copy of Flickr8k at hand holds squashed photos
SEEDS = (1, 2, 3)
QUARTERS = 4  # of the photos, by the length of their references
SHOWN = (
    "bleu_1_no_brevity",
    "bleu_2_no_brevity",
    "bleu_3_no_brevity",
    "bleu_4_no_brevity",
    "meteor",
    "bleu_4",
    "cider",
)
RUN_ORDER = [
    "retrieval",
    "brnn",
    "m_rnn",
    "log_bilinear",
    "lrcn",
    "nic",
    "plain",
    "soft",
    "hard",
    "nic-ensemble",
]  # cheap first


@dataclass(frozen=True)
class System:
    """A row of the table."""

    title: str
    paper: str  # B-1 to B-4 and METEOR in the paper's Table 1, Flickr8k
    train: tuple[str, ...] = ()  # what `sat train` is told besides data, seed and output; {seed} stands for the seed
    seeds: tuple[int, ...] = (1,)

    def runs(self, name: str) -> list[str]:
        return [f"{name}-{seed}" for seed in self.seeds] if self.train else [name]


ALIKE = ("--set", "visual_ngrams=false")  # no system's captions are ranked by more than log p
NOT_THERE = "– | – | – | – | –"
SYSTEMS = {  # in the table's order
    "retrieval": System("Retrieval: consensus caption", NOT_THERE),
    "nic-ensemble": System("Google NIC †Σ", "63 | 41 | 27 | – | –"),
    "nic": System("Google NIC, single", NOT_THERE, ("--comparator", "nic"), SEEDS),
    "lrcn": System("LRCN, one layer", NOT_THERE, ("--comparator", "lrcn")),
    "log_bilinear": System("Log Bilinear °", "65.6 | 42.4 | 27.7 | 17.7 | 17.31", ("--comparator", "log_bilinear")),
    "m_rnn": System("m-RNN", NOT_THERE, ("--comparator", "m_rnn")),
    "brnn": System("BRNN's generator", NOT_THERE, ("--comparator", "brnn")),
    "plain": System("Soft attention, first stage alone", NOT_THERE, ("--attention", "soft", *ALIKE), SEEDS),
    "soft": System(
        "Soft attention",
        "67 | 44.8 | 29.9 | 19.5 | 18.93",
        (
            *("--attention", "soft", *ALIKE, "--start-from", "{output}/plain-{seed}", "--epochs", "3"),
            *("--set", "learning_rate=5e-4", "--set", "scheduled_sampling=0.3"),
        ),
        SEEDS,
    ),
    "hard": System(
        "Hard attention",
        "67 | 45.7 | 31.4 | 21.3 | 20.30",
        ("--attention", "hard", *ALIKE, "--start-from", "{output}/soft-{seed}"),
        SEEDS,
    ),
}
ATTENTION_OVER_AVERAGING = ("nic", "soft", "hard")  # the baseline first

HEAD = """\
# Table 1, reproduced

The systems that the paper's Table 1 compares, trained and scored here on Flickr8k by one command:

    make table1 FLICKR8K=flickr8k/

Test split, 1,000 photos, five references, the split file's own tokens, ×100. B-1 to B-4 are without BLEU's brevity
penalty, as the paper has them; "B-4 p." is BLEU-4 with it. The first five figures are the paper's, the others ours:
where a system was trained with several seeds, their mean ± their standard deviation. † another split · ° figures by
personal communication · Σ an ensemble. "–": not in the paper's Flickr8k rows, or not run.

**What differs.** The originals read the photo through a network's top fully connected layer. The VGG-19 at hand has
convolutions only, so every system without attention, retrieval included, reads the mean of the same conv5_4 map that
the attention models look at. Nothing below says how good the originals were; it says what attention gives over
averaging the same map; the column "ours reads" says which. Further:

- All read the same VGG-19, vocabulary (words seen five times or more), captions and mirrored photos, and share the
  optimiser, its schedule, label smoothing and averaged weights of the `flickr8k` preset; each system had at most three
  trials on val. Photos are squashed to 224×224; the paper's were resized and cropped.
- Beam and length normalisation γ were chosen on val BLEU-4 of {{1, 3, 5, 10, 20}} × {{0, 0.25, 0.5, 0.75}}, the hard
  model's by its likeliest places; an ensemble decodes as its first member does. The shipped models' captions are ranked
  by visual n-grams too, no system's here.
- LRCN is the one-layer form, the LSTM without attention of tutorials, with 512 units instead of 1,000.
- Log Bilinear is the additive one (MLBL-B) with a context of five words.
- m-RNN and BRNN's generator keep their simple recurrences and rectifiers.
- Soft attention has a second stage with scheduled sampling, which the systems without attention have in their one
  stage. Hard attention starts from the soft model and sees photos cropped at random too; its annotations are means over
  windows of 5×5 places. hard-1's crops were drawn, in the same way, by a script that came before the setting.
- Retrieval takes the caption on which those of the most similar training photos agree best; how many photos count was
  chosen on val ({neighbours} here).
"""

QUOTED = """\
## Quoted only

The rest of the paper's Table 1, which was not run here. † another split · ° figures by personal communication · Σ an
ensemble · a AlexNet features.

| data | system | B-1 | B-2 | B-3 | B-4 | METEOR |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
| Flickr30k | Google NIC †°Σ | 66.3 | 42.3 | 27.7 | 18.3 | – |
| Flickr30k | Log Bilinear | 60.0 | 38 | 25.4 | 17.1 | 16.88 |
| Flickr30k | Soft attention | 66.7 | 43.4 | 28.8 | 19.1 | 18.49 |
| Flickr30k | Hard attention | 66.9 | 43.9 | 29.6 | 19.9 | 18.46 |
| COCO | CMU/MS Research a | – | – | – | – | 20.41 |
| COCO | MS Research †a | – | – | – | – | 20.71 |
| COCO | BRNN ° | 64.2 | 45.1 | 30.4 | 20.3 | – |
| COCO | Google NIC †°Σ | 66.6 | 46.1 | 32.9 | 24.6 | – |
| COCO | Log Bilinear ° | 70.8 | 48.9 | 34.4 | 24.3 | 20.03 |
| COCO | Soft attention | 70.7 | 49.2 | 34.4 | 24.3 | 23.90 |
| COCO | Hard attention | 71.8 | 50.4 | 35.7 | 25.0 | 23.04 |
"""


def run(name: str, data: Path, output: Path) -> None:
    """Make every run of a system that is not there yet."""
    system = SYSTEMS[name]
    for index, each in enumerate(system.runs(name)):
        evaluation, model = output / f"{each}.json", output / each
        if evaluation.exists():
            print(f"{each}: evaluated already")
            continue
        if name == "retrieval":
            sat("analyse", "retrieval", data, *SQUASHED, "--json", evaluation)
            continue
        if name == "nic-ensemble":
            members = [part for member in SYSTEMS["nic"].runs("nic") for part in ("--model", output / member)]
            sat("evaluate", *members, "--data", data, "--json", evaluation)
            continue
        state = model / "training" / "state.safetensors"
        if state.exists() or not (model / "config.json").exists():
            seed = system.seeds[index]
            told = [part.format(seed=seed, output=output) for part in system.train]
            resume = ["--resume"] if state.exists() else []
            sat("train", data, *told, *SQUASHED, "--seed", seed, "--output", model, *resume)
        sat("evaluate", "--model", model, "--data", data, "--json", evaluation)


def sat(*arguments: object) -> None:
    """One of the project's commands, shown before it is run; ends the script when it fails."""
    command = [str(Path(sys.executable).with_name("sat")), *map(str, arguments)]
    print("\n$ sat", *command[1:], flush=True)
    if code := subprocess.run(command, check=False).returncode:
        sys.exit(code)


def write(output: Path, document: Path) -> None:
    """Write the document from the evaluations that are there."""
    found: dict[str, list[dict[str, object]]] = {}
    for name, system in SYSTEMS.items():
        files = [output / f"{each}.json" for each in system.runs(name)]
        found[name] = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]
    neighbours = "–"
    if found["retrieval"]:
        chosen = found["retrieval"][0]["retrieval"]
        assert isinstance(chosen, dict)
        neighbours = f"{chosen['neighbours']}, {'whitened' if chosen['whitened'] else 'centred'}"
    parts = [HEAD.format(neighbours=neighbours), main_table(found), runs_table(output)]
    names = [name for name in ATTENTION_OVER_AVERAGING if found[name]]
    if ATTENTION_OVER_AVERAGING[0] in names and len(names) > 1:
        parts.append(attention_over_averaging(output, names))
    parts.append(QUOTED)
    document.parent.mkdir(parents=True, exist_ok=True)
    replace(document, lambda file: file.write_text("\n".join(parts), encoding="utf-8"))
    print(f"wrote {document}")


def main_table(found: dict[str, list[dict[str, object]]]) -> str:
    """The paper's figures beside ours."""
    lines = [
        "| | ours reads | B-1 | B-2 | B-3 | B-4 | METEOR "
        "| our B-1 | B-2 | B-3 | B-4 | METEOR | B-4 p. | CIDEr | seeds |",
        "| --- | --- |" + " ---: |" * 13,
    ]
    for name, system in SYSTEMS.items():
        ours = " | ".join(figure([evaluation[metric] for evaluation in found[name]]) for metric in SHOWN)
        reads = "the map" if name in ("plain", "soft", "hard") else "its mean"
        lines.append(f"| {system.title} | {reads} | {system.paper} | {ours} | {len(found[name]) or '–'} |")
    return "\n".join(lines) + "\n"


def figure(values: list[object]) -> str:
    """Their mean, with its spread when they are several."""
    given = [value for value in values if isinstance(value, float)]
    if not given or len(given) < len(values):
        return "–"
    mean = f"{statistics.fmean(given):.1f}"
    return mean if len(given) == 1 else f"{mean} ± {statistics.stdev(given):.1f}"


def runs_table(output: Path) -> str:
    """How each model was trained, by its own configuration."""
    command = "`sat train flickr8k/ --geometry squash --output table1/RUN` with"
    lines = ["## The runs", "", f"| run | {command} | epochs | minutes | val B-4 p. | beam | γ |"]
    lines += ["| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, system in SYSTEMS.items():
        for each, seed in zip(system.runs(name), system.seeds, strict=False):
            file, log = output / each / "config.json", output / each / "training" / "log.jsonl"
            if not system.train or not file.exists():
                continue
            config = json.loads(file.read_text(encoding="utf-8"))
            decoding, training = config["decoding"], config["training"]
            beam, gamma = decoding["beam"], decoding["length_normalisation"]
            validation = training.get("validation_bleu_4", {}).get(f"beam {beam}, γ {gamma:g}", "–")
            told = " ".join(part.format(seed=seed, output=output.name) for part in system.train)
            minutes = "–"
            if log.exists():
                seconds = [json.loads(line)["seconds"] for line in log.read_text(encoding="utf-8").splitlines()]
                minutes = f"{sum(seconds) / 60:.0f}"
            lines.append(
                f"| {each} | `{told} --seed {training.get('seed', '–')}` | {training.get('epochs', '–')} | {minutes} | "
                f"{validation} | {beam} | {gamma:g} |"
            )
    lines += ["", "Epochs are those of the checkpoint kept, minutes those of the whole training."]
    return "\n".join(lines) + "\n"


def attention_over_averaging(output: Path, names: list[str]) -> str:
    """The systems with attention against the single NIC, on all photos and by the length of their references."""
    evaluations = {
        name: [read_evaluation(file) for each in SYSTEMS[name].runs(name) if (file := output / f"{each}.json").exists()]
        for name in names
    }
    first = evaluations[names[0]][0]
    photos = list(first.captions)
    scores = {name: [scores_of(each, photos) for each in given] for name, given in evaluations.items()}
    missing = {
        metric: str(each.corpus[f"{metric}_missing"])
        for given in scores.values()
        for each in given
        for metric in ("meteor", "spice")
        if each.corpus[metric] is None
    }
    counts = {name: [each.statistics for each in given] for name, given in scores.items()}
    nic, *others = names
    whole = Comparison(
        first=SYSTEMS[nic].title,
        differences={SYSTEMS[name].title: differences(counts[nic], counts[name]) for name in others},
        trainings={SYSTEMS[name].title: len(given) for name, given in evaluations.items()},
        photos=len(photos),
        tokens=first.tokens,
        resamples=10_000,
        seed=0,
        missing=missing,
    )
    lines = [
        "## Attention over averaging the same map",
        "",
        "The same features, looked at or averaged. An interval that holds 0 shows no difference.",
        "",
        whole.to_markdown(),
        "By the mean length of a photo's references, a quarter of the photos each; differences with their intervals:",
        "",
        "| | words | CIDEr | METEOR | BLEU-4 |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    lengths = [statistics.fmean(len(text.split()) for text in first.references[photo]) for photo in photos]
    order = sorted(range(len(photos)), key=lambda index: (lengths[index], photos[index]))
    for quarter in range(QUARTERS):
        rows = order[len(order) * quarter // QUARTERS : len(order) * (quarter + 1) // QUARTERS]
        for name in others:
            by_metric = {one.metric: one for one in differences(counts[nic], counts[name], photos=rows)}
            cells = " | ".join(difference(by_metric.get(metric)) for metric in ("cider", "meteor", "bleu_4"))
            words = f"{lengths[rows[0]]:.1f} to {lengths[rows[-1]]:.1f}"
            lines.append(f"| {SYSTEMS[name].title} | {words} | {cells} |")
    return "\n".join(lines) + "\n"


def scores_of(evaluation: Evaluation, photos: list[str]) -> Scores:
    """The scores of an evaluation's captions, in that order of the photos."""
    captions = {photo: evaluation.captions[photo] for photo in photos}
    return score(captions, evaluation.references, tokens=evaluation.tokens)


def difference(one: Difference | None) -> str:
    """A difference with its interval, in a cell."""
    return "–" if one is None else f"{one.difference:+.1f} ({one.low:+.1f} to {one.high:+.1f})"


def main() -> None:
    """Run what is missing, then write the document."""
    parser = argparse.ArgumentParser(description="Train and evaluate the systems of Table 1, and write docs/table1.md.")
    parser.add_argument("data", type=Path, help="the folder of Flickr8k, as for sat train")
    parser.add_argument("output", type=Path, help="the folder for models and evaluations")
    parser.add_argument("--write", action="store_true", help="run nothing, write the table of what is there")
    given = parser.parse_args()
    try:
        if not given.write:
            given.output.mkdir(parents=True, exist_ok=True)
            for name in RUN_ORDER:
                run(name, given.data, given.output)
        write(given.output, DOCUMENT)
    except SatError as error:
        sys.exit(f"table1: {error}")
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on")


if __name__ == "__main__":
    main()
