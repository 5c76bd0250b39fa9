"""Train and evaluate every system of the paper's Table 1 on Flickr8k, and write the tables of its
two pages in notes/: `make table1`.

    export PYTHONPATH=research
    python -m table1.make flickr8k/ runs/                    # hours on two cores; stop and start it as you like
    python -m table1.make flickr8k/ runs/ uniform --seeds 1  # one system of `SYSTEMS`, one seed
    python -m table1.make flickr8k/ runs/ --list             # list what is done and what is left
    python -m table1.make flickr8k/ runs/ --write            # run nothing, write the tables of what is kept

Each run leaves a model, runs/NAME/, and its evaluation on the test split, which is kept in results/ too. The runs of
soft and hard attention are those of `shipped.py`, evaluated without their reranker. The other systems have the same two
stages as soft attention. A stage whose result is there is not made again, so what was trained elsewhere may be put
there.
"""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import results
import retrieval
import shipped
import stages
import tables
from reproduction import XU
from shipped import Training
from stages import Stage

from show_attend_tell.backends.torch import build_decoder, fastest_encode
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.hub import SHIPPED
from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.errors import SatError
from show_attend_tell.files import read_object, read_text, write_text
from show_attend_tell.generation import Decoding
from show_attend_tell.metrics.bootstrap import RESAMPLES, Array, draw, interval
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.training.selection import choose_generation
from show_attend_tell.vision.encoder import load_encoder
from show_attend_tell.vision.feature_cache import default_cache
from show_attend_tell.vision.sources import cached
from table1 import ensemble, msr_training, templates

DOCUMENTS = [results.RESULTS.parent / "notes" / name for name in ("table1.md", "table1-runs.md")]
PLUGIN = ("--plugin", os.path.relpath(Path(__file__).parent))
RUN_ORDER = (
    *("retrieval", "brnn", "m_rnn", "log_bilinear", "cmu_msr", "templates", "msr", "lrcn", "nic"),
    *("uniform", "plain", "soft", "soft-as-paper", "hard", "hard-as-paper", "nic-ensemble"),
)
SECOND_STAGE = ("--epochs", "3", "--set", "learning_rate=5e-4", "--set", "scheduled_sampling=0.3")
TRAININGS = {  # two stages of each system; the first of a system NAME is NAME-plain
    **shipped.TRAININGS,
    "uniform-plain": Training(("--attention", "uniform", "--set", "visual_ngrams=false")),
    "uniform": Training(
        ("--attention", "uniform", "--set", "visual_ngrams=false", *SECOND_STAGE), start="uniform-plain"
    ),
}
for name in results.BASELINES:
    given = (*PLUGIN, "--decoder", name, "--set", "clip=5")
    TRAININGS[f"{name}-plain"] = Training((*given, "--set", "scheduled_sampling_end=0.5"))
    second = (*given, *SECOND_STAGE, "--set", "scheduled_sampling_end=0.3")
    TRAININGS[name] = Training(second, start=f"{name}-plain")
del TRAININGS["msr-plain"], TRAININGS["msr"]  # which `msr_training` makes
AS_PAPER = "-as-paper"  # the end of the name of a shipped model that decodes as its BLEU without penalty is best
MSR_SCORES = {"BLEU-4": "bleu_4", "METEOR": "meteor", "CIDEr": "cider"}
MADE_OTHERWISE = {
    "msr": "`python -m table1.msr_training`",
    "soft-as-paper": "`flickr8k-soft`, beam and γ chosen anew",
    "hard-as-paper": "`flickr8k-hard`, beam and γ chosen anew",
}


@dataclass(frozen=True)
class System:
    """A row of the table."""

    title: str
    paper: str  # B-1 to B-4 and METEOR in the paper's Table 1, Flickr8k
    reads: str = "mean of the map"  # the conv5_4 map
    seeds: tuple[int, ...] = ()  # of its trainings; none where nothing is trained


NOT_THERE = "–"
SYSTEMS = {  # in the table's order; the name is that of the decoder or of the training in `shipped.py`
    "retrieval": System("Retrieval: consensus caption", NOT_THERE),
    "templates": System("Templates filled with detected words", NOT_THERE, "all locations"),
    "nic-ensemble": System("Google NIC †Σ, three seeds", "63 / 41 / 27"),
    "nic": System("Google NIC, single", NOT_THERE, seeds=shipped.SEEDS),
    "lrcn": System("LRCN, one layer", NOT_THERE, seeds=shipped.SEEDS),
    "log_bilinear": System("Log Bilinear °", "65.6 / 42.4 / 27.7 / 17.7 / 17.31", seeds=(1,)),
    "m_rnn": System("m-RNN", NOT_THERE, seeds=(1,)),
    "brnn": System("BRNN's generator", NOT_THERE, seeds=(1,)),
    "cmu_msr": System("CMU/MS Research", NOT_THERE, seeds=(1,)),
    "msr": System("MS Research", NOT_THERE, "all locations", seeds=(1,)),
    "uniform": System("Uniform attention", NOT_THERE, "all locations, evenly", shipped.SEEDS),
    "plain": System("Soft attention, first stage alone", NOT_THERE, "all locations", shipped.SEEDS),
    "soft": System("Soft attention", " / ".join(XU["soft"]), "all locations", shipped.SEEDS),
    "soft-as-paper": System(
        "Soft attention, beam and γ chosen without penalty", NOT_THERE, "all locations", seeds=(1,)
    ),
    "hard": System("Hard attention", " / ".join(XU["hard"]), "all locations", shipped.SEEDS),
    "hard-as-paper": System("Hard attention, the same", NOT_THERE, "all locations", seeds=(1,)),
}
ATTENTION = ("soft", "hard")
WITHOUT_ATTENTION = ("uniform", "lrcn", "nic")  # what attention is compared with: the headline first


def runs(name: str) -> list[str]:
    """The names of a system's runs."""
    return [f"{name}-{seed}" for seed in SYSTEMS[name].seeds] or [name]


def evaluated(name: str) -> list[str]:
    """The names of a system's evaluations."""
    return [f"{each}-test" for each in runs(name)]


def arguments(name: str, seed: int, output: Path) -> list[object]:
    """What `sat train` is given for a run, besides data, resize and output."""
    return shipped.arguments(name, seed, output, TRAININGS)


def stages_of(name: str, data: Path, output: Path, seeds: Sequence[int]) -> list[Stage]:
    """The stages of a system, with those of its seeds."""
    system = SYSTEMS[name]
    files = [output / f"{each}.json" for each in evaluated(name)]
    if name == "retrieval":
        make = partial(retrieval.main, [str(data), "--json", str(files[0])])
        return [Stage(f"evaluate {files[0].stem}", files[0].exists, make)]
    plugin = PLUGIN if name.partition("-")[0] in results.BASELINES else ()
    if name == "nic-ensemble":
        members = [str(output / each) for each in runs("nic")]
        make = partial(ensemble.main, [str(data), *members, "--json", str(files[0])])
        return [Stage(f"evaluate {files[0].stem}", files[0].exists, make)]
    if name == "templates":
        start = output / "msr-1"
        make = partial(templates.main, [str(data), str(start), "--json", str(files[0])])
        return [msr_stage(data, start, 1), Stage(f"evaluate {files[0].stem}", files[0].exists, make)]
    found = []
    for seed, each, file in zip(system.seeds, runs(name), files, strict=True):
        if seed not in seeds:
            continue
        if name == "msr":
            found.append(msr_stage(data, output / each, seed))
        elif name.endswith(AS_PAPER):
            shipped_model = SHIPPED / f"flickr8k-{name.removesuffix(AS_PAPER)}"
            make = partial(choose_as_paper, shipped_model, data, output / each)
            found.append(Stage(f"train {each}", (output / each / "config.json").exists, make))
        else:
            found += shipped.trainings_to(name, seed, data, output, TRAININGS)
        found.append(stages.evaluation(data, [output / each], file, "test", lambda: plugin))
    return found


def msr_stage(data: Path, model: Path, seed: int) -> Stage:
    """Make a model of MS Research, whose detectors the templates use too."""
    make = partial(msr_training.main, [str(data), str(model), "--seed", str(seed)])
    return Stage(f"train {model.name}", (model / "config.json").exists, make)


def choose_as_paper(model: Path, data: Path, output: Path) -> None:
    """Save a trained model whose beam size and γ are those with the best BLEU-4 without brevity penalty on val."""
    checkpoint, dataset = Checkpoint.load(model), read_dataset(data)
    encoder = checkpoint.encoder.load(load_encoder, str(model))
    source = cached(dataset, encoder, default_cache(), splits=("val",), encode=fastest_encode(encoder))
    on_val = msr_training.validation_data(dataset, checkpoint.vocabulary, source)
    mode, most = checkpoint.generation.attention_mode, checkpoint.generation.max_length
    greedy = GenerationConfig(beam_size=1, attention_mode=mode, max_length=most)
    usual = Decoding(vocabulary=checkpoint.vocabulary, config=greedy)
    chosen = choose_generation(build_decoder(checkpoint), on_val, usual, metric="bleu_4_no_brevity")
    print(f"on val: {chosen.scores}", flush=True)
    replace(checkpoint, generation=chosen.generation, reranker=None).save(output, bits=16)


def keep(output: Path, folder: Path = results.RESULTS) -> None:
    """Keep the evaluations that are there."""
    for name in SYSTEMS:
        for each in evaluated(name):
            if (output / f"{each}.json").exists():
                results.keep(read_object(output / f"{each}.json", "results"), each, folder)
    results.write_list(folder)


def kept(name: str, folder: Path = results.RESULTS) -> list[str]:
    """The names of a system's evaluations that are kept; where no seed's is, that of the shipped model."""
    return results.kept(evaluated(name), results.SHIPPED.get(name), folder)


def write(dataset: Dataset, documents: Sequence[Path] = DOCUMENTS, folder: Path = results.RESULTS) -> None:
    """Write the tables of the documents from the evaluations that are kept; ``dataset`` has their references."""
    made: dict[str, Callable[[], str]] = {
        "systems": partial(main_table, folder),
        "parts": partial(msr_parts, folder),
        "runs": partial(runs_table, folder),
        **{f"over_{name}": partial(attention_over, dataset, name, folder) for name in WITHOUT_ATTENTION},
        "by_length": partial(by_length, dataset, folder),
    }
    for document in documents:
        write_text(document, tables.with_tables(read_text(document), made, "table1/make"))
        print(f"wrote {document}")


def main_table(folder: Path = results.RESULTS) -> str:
    """The paper's figures and ours, one row a system."""
    lines = [
        "| | it reads | seeds | paper: B-1 to B-4, METEOR | ours: B-1 to B-4 | METEOR | CIDEr | 95 % interval |",
        "| --- | --- | ---: | --- | --- | ---: | ---: | --- |",
    ]
    for name, system in SYSTEMS.items():
        found = [results.read(each, folder) for each in kept(name, folder)]
        values = {metric: [evaluation[metric] for evaluation in found] for metric in tables.SHOWN}
        precisions = (values[f"bleu_{n}_no_brevity"] for n in (1, 2, 3, 4))
        bleu = " / ".join(f"{np.mean(each):.1f}" for each in precisions) if found else "–"
        cells = [len(found) or "–", system.paper, bleu, *(tables.mean(values[each]) for each in ("meteor", "cider"))]
        cells.append(photos_interval(found) if found else "–")
        lines.append(f"| {system.title} | {system.reads} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def msr_parts(folder: Path = results.RESULTS) -> str:
    """What the parts of MS Research are worth, one by one."""
    file = folder / "msr-parts.json"
    if not file.exists():
        return ""
    found = read_object(file, "nats")
    precision = " · ".join(f"{name} {value:.1f}" for name, value in found["mean_average_precision"].items())
    nats = " · ".join(f"{name} {value:.2f}" for name, value in found["nats"].items())
    lines = [
        *("| part | figures |", "| --- | --- |"),
        f"| detectors: mean average precision | {precision} |",
        f"| language model: −log p, nats a word | {nats} |",
    ]
    for words, scores in found["scores"].items():
        shown = " · ".join(f"{name} {scores[metric]:.1f}" for name, metric in MSR_SCORES.items())
        lines.append(f"| captions with {words} | {shown} |")
    return "\n".join(lines) + "\n"


def photos_interval(evaluations: Sequence[Mapping[str, Any]]) -> str:
    """The 95 % interval over photos of CIDEr, the mean of evaluations of the same photos."""
    by_photo = [{row["photo"]: row["cider"] for row in each["results"]} for each in evaluations]
    means = np.array([np.mean([scores[photo] for scores in by_photo]) for photo in by_photo[0]])
    low, high = interval(draw(np.random.default_rng(0), len(means), len(means), RESAMPLES) @ means / len(means))
    return f"[{low:.1f}, {high:.1f}]"


def runs_table(folder: Path = results.RESULTS) -> str:
    """How each run was trained, and how it decodes."""
    command = f"`sat train {stages.DATA} --resize squash --output runs/RUN` with"
    lines = [f"| run | {command} | beam | γ | file |", "| --- | --- | ---: | ---: | --- |"]
    for name, system in SYSTEMS.items():
        there = kept(name, folder)
        for each, seed, file in zip(runs(name), system.seeds, evaluated(name), strict=False):
            if file not in there and results.SHIPPED.get(name) in there and seed == 1:
                file = results.SHIPPED[name]  # the shipped models are of seed 1
            if file not in there:
                continue
            found = results.read(file, folder)
            given = MADE_OTHERWISE.get(name) or f"`{shlex.join(map(str, arguments(name, seed, Path('runs'))))}`"
            lines.append(f"| {each} | {given} | {found['beam_size']} | {found['length_penalty']:g} | {file} |")
    return "\n".join(lines) + "\n"


def attention_over(dataset: Dataset, without: str, folder: Path = results.RESULTS) -> str:
    """Systems with attention minus one without, over photos and seeds."""
    systems = {SYSTEMS[name].title: kept(name, folder) for name in (without, *ATTENTION)}
    with_rows = {title: names for title, names in systems.items() if names or title == SYSTEMS[without].title}
    return results.compared(with_rows, dataset, folder)


def by_length(dataset: Dataset, folder: Path = results.RESULTS) -> str:
    """How the differences grow with the length of a photo's references."""
    lines = ["| | CIDEr | METEOR |", "| --- | ---: | ---: |"]
    for name, without in product(ATTENTION, WITHOUT_ATTENTION):
        if kept(name, folder) and kept(without, folder):
            cells = [slope_over_length(dataset, without, name, metric, folder) for metric in ("cider", "meteor")]
            lines.append(f"| {SYSTEMS[name].title} minus {SYSTEMS[without].title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def slope_over_length(dataset: Dataset, without: str, name: str, metric: str, folder: Path) -> str:
    """The slope of a difference of photos' scores over the length of their references, in a cell."""
    photos = dataset.split("test")
    means = []
    for system in (without, name):
        found = [
            {row["photo"]: row.get(metric) for row in results.read(each, folder)["results"]}
            for each in kept(system, folder)
        ]
        if any(score is None for scores in found for score in scores.values()):
            return "–"
        means.append(np.mean([[scores[photo.name] for photo in photos] for scores in found], axis=0))
    lengths = np.array([np.mean([len(words) for words in photo.captions]) for photo in photos])
    weights = draw(np.random.default_rng(0), len(photos), len(photos), RESAMPLES)
    low, high = interval(slope(lengths, means[1] - means[0], weights))
    middle = slope(lengths, means[1] - means[0], np.ones((1, len(photos))))[0]
    return f"{middle:+.2f} [{low:+.2f}, {high:+.2f}]".replace("-", "−")


def slope(x: Array, y: Array, weights: Array) -> Array:
    """The slopes (R,) of the lines that fit y (N,) over x (N,) best, by weights of the points (R, N)."""
    total = weights.sum(1)
    x_mean, y_mean = weights @ x / total, weights @ y / total
    slopes: Array = (weights @ (x * y) / total - x_mean * y_mean) / (weights @ (x * x) / total - x_mean * x_mean)
    return slopes


@stages.reporting
def main(given: Sequence[str] | None = None) -> None:
    """Make what is missing, keep the evaluations, and write the tables."""
    parser = stages.new_parser(__doc__)
    parser.add_argument("data", type=Path, help="folder of Flickr8k, as for sat train")
    parser.add_argument("output", type=Path, help="folder for models and evaluations")
    parser.add_argument("names", nargs="*", metavar="system", help=f"of {', '.join(RUN_ORDER)}; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", help="random seeds, of those that a system has; default: all")
    parser.add_argument("--list", action="store_true", help="list the stages, and make nothing")
    parser.add_argument("--write", action="store_true", help="write the tables of what is kept, and make nothing else")
    options = parser.parse_args(given)
    if unknown := [name for name in options.names if name not in RUN_ORDER]:
        raise SatError(f"there is no system {unknown[0]!r}: choose one of {', '.join(RUN_ORDER)}")
    by_title: dict[str, Stage] = {}  # some share their first trainings
    for name in options.names or RUN_ORDER:
        seeds = [seed for seed in SYSTEMS[name].seeds if not options.seeds or seed in options.seeds]
        by_title |= {stage.title: stage for stage in stages_of(name, options.data, options.output, seeds)}
    if not (wanted := list(by_title.values())):
        raise SatError(f"no system that is asked for has one of the seeds {options.seeds}: leave --seeds out")
    if options.list:
        stages.list_stages(wanted)
        return
    if not options.write:
        options.output.mkdir(parents=True, exist_ok=True)
        stages.run(wanted)
    keep(options.output)
    write(read_dataset(options.data))


if __name__ == "__main__":
    main()
