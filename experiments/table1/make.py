"""Train and evaluate every system of the paper's Table 1 on Flickr8k, and write notes/table1.md: `make table1`.

    export PYTHONPATH=experiments
    python -m table1.make flickr8k/ runs/                    # hours on two cores; stop and start it as you like
    python -m table1.make flickr8k/ runs/ uniform --seeds 1  # one system of `SYSTEMS`, one seed
    python -m table1.make flickr8k/ runs/ --list             # list what is done and what is left
    python -m table1.make flickr8k/ runs/ --write            # run nothing, write the table of what is there

Each run leaves a model, runs/NAME/, and its evaluation on the test split, which is kept in results/ too. The runs of
soft and hard attention are those of `shipped.py`, evaluated without their reranker. The other systems have the same two
stages as soft attention. A stage whose result is there is not made again, so what was trained elsewhere may be put
there.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import results
import shipped
import stages
import tables
from research import retrieval
from shipped import Training
from stages import Stage

from show_attend_tell.backends.encoding import fastest_encode
from show_attend_tell.backends.torch import build_decoder
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.hub import SHIPPED
from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.files import read_object, write_text
from show_attend_tell.metrics.bootstrap import RESAMPLES, Array, draw, interval
from show_attend_tell.metrics.comparison import compare
from show_attend_tell.training.selection import choose_generation
from show_attend_tell.vision.encoder import load_encoder
from show_attend_tell.vision.feature_cache import default_cache
from show_attend_tell.vision.sources import cached
from table1 import msr_training, templates

DOCUMENT = results.RESULTS.parent / "notes" / "table1.md"  # and table1-runs.md beside it
PLUGIN = ("--plugin", os.path.relpath(Path(__file__).parent))
RUN_ORDER = (
    *("retrieval", "brnn", "m_rnn", "log_bilinear", "cmu_msr", "templates", "msr", "lrcn", "nic", "nic-blind"),
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
for stage in ("nic-plain", "nic"):
    blind = "nic-blind-plain" if stage.endswith("-plain") else "nic-blind"
    start = None if blind.endswith("-plain") else "nic-blind-plain"
    TRAININGS[blind] = Training((*TRAININGS[stage].arguments, "--set", "decoder.sees_photo=false"), start=start)
del TRAININGS["msr-plain"], TRAININGS["msr"]  # which `msr_training` makes
BY_PRECISION = ("--set", "selected_by=bleu_4_no_brevity")  # epochs and decoding, as the paper's table quotes BLEU
TRAININGS["as-paper-plain"] = Training((*TRAININGS["plain"].arguments, *BY_PRECISION))
TRAININGS["soft-as-paper"] = Training((*TRAININGS["soft"].arguments, *BY_PRECISION), start="as-paper-plain")
MSR_SCORES = {"BLEU-4": "bleu_4", "METEOR": "meteor", "CIDEr": "cider"}
MADE_OTHERWISE = {"msr": "`python -m table1.msr_training`", "hard-as-paper": "the model that ships, decoded anew"}


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
    "nic-blind": System("Google NIC without the photo", NOT_THERE, "nothing", seeds=(1,)),
    "nic-ensemble": System("Google NIC †Σ", "63 / 41 / 27"),
    "nic": System("Google NIC, single", NOT_THERE, seeds=shipped.SEEDS),
    "lrcn": System("LRCN, one layer", NOT_THERE, seeds=shipped.SEEDS),
    "log_bilinear": System("Log Bilinear °", "65.6 / 42.4 / 27.7 / 17.7 / 17.31", seeds=(1,)),
    "m_rnn": System("m-RNN", NOT_THERE, seeds=(1,)),
    "brnn": System("BRNN's generator", NOT_THERE, seeds=(1,)),
    "cmu_msr": System("CMU/MS Research", NOT_THERE, seeds=(1,)),
    "msr": System("MS Research", NOT_THERE, "all locations", seeds=(1,)),
    "uniform": System("Uniform attention", NOT_THERE, "all locations, evenly", shipped.SEEDS),
    "plain": System("Soft attention, first stage alone", NOT_THERE, "all locations", shipped.SEEDS),
    "soft": System("Soft attention", "67 / 44.8 / 29.9 / 19.5 / 18.93", "all locations", shipped.SEEDS),
    "soft-as-paper": System("Soft attention, selected without penalty", NOT_THERE, "all locations", seeds=(1,)),
    "hard": System("Hard attention", "67 / 45.7 / 31.4 / 21.3 / 20.30", "all locations", shipped.SEEDS),
    "hard-as-paper": System("Hard attention, beam and γ selected so", NOT_THERE, "all locations", seeds=(1,)),
}
ATTENTION = ("soft", "hard")
WITHOUT_ATTENTION = ("uniform", "lrcn", "nic")  # what attention is compared with: the headline first

HEAD = """\
# Table 1, reproduced

The Flickr8k systems of the paper's Table 1, and more to compare with, trained and scored here. What
follows from it is in [the evidence](evidence.md#attention-against-no-attention); how each system
was trained and what differs from its original, in [the runs](table1-runs.md).

{table}
- Flickr8k test: 1,000 photos with five references each, words as in Karpathy's split file (lower
  case, no punctuation). ×100. B-1 to B-4 are BLEU without brevity penalty, as in the paper.
- With several seeds, ours are the mean, ± the standard deviation of the seeds. The interval is that
  of CIDEr over photos.
- † another split · ° figures by personal communication · Σ an ensemble · "–" not in the paper's
  Flickr8k rows.
- Soft and hard attention of seed 1 ship, in 4 bits a weight, with [other last
  digits](../../docs/reference/results.md); here they have 16.

{b_1}
The first command makes all trainings that are missing, in many hours; the second makes one system.
Both can be stopped and started, and replace this page and its kept captions and scores.

    make table1 FLICKR8K=flickr8k/
    PYTHONPATH=experiments .venv/bin/python -m table1.make flickr8k/ runs/ lrcn --seeds 1
"""

B_1 = """\
"""

DIFFERENCES = """\
# The runs of Table 1

How the systems of [Table 1](table1.md) were trained, what differs from their originals, and how
they compare. Each system without attention is one file of `experiments/table1/` that opens with its
citation and what it leaves out. `sat train --plugin experiments/table1 --decoder lrcn` trains one.
`flickr8k/` holds Karpathy's `dataset_flickr8k.json` and the photos in `images/`. METEOR needs Java.
The [first runs](lab-notes.md#table-1-the-first-runs), whose captions were not kept, are in the lab
notes.

## What differs from the paper

- The originals read the photo through the last fully connected layer of a network. Our VGG-19 has
  convolutions only. So most systems without attention read the mean of the conv5_4 map that the
  attention models attend to.
- The table does not say how good the originals were. It says what attention gives over the mean of
  the same map.
- All systems share the VGG-19, the vocabulary (words seen five times or more), the captions and the
  mirrored photos. They also share the optimizer, its schedule, the label smoothing and the averaged
  weights of the preset `flickr8k`. The systems of other papers have their own dropout, and their
  gradient's norm is clipped at 5.
- Each system without attention had at most three trials on val. Soft and hard attention had many
  more ([lab notes](lab-notes.md)).
- Photos are squashed to 224×224. The paper resized and cropped its photos.
- The beam size (1, 3, 5, 10 or 20) and the length penalty γ (0, 0.25, 0.5 or 0.75) were chosen by
  BLEU-4 with brevity penalty on val, the hard model's with attention mode "argmax". An ensemble
  decodes as its first member does. Rows "selected without penalty" are chosen by BLEU-4 without it:
  of soft attention the epoch, the beam size and γ, of hard attention (the model that ships) the
  beam size and γ alone.
- Only MS Research uses a reranker, its own.
- LRCN is the one-layer form, as in tutorials, with 512 units instead of 1,000.
- NIC's LSTM starts with a bias of 1 at its forget gate. Its paper does not say. NIC without the
  photo gets zeros instead of it, and learns the language of the captions alone.
- Uniform attention is the soft model's decoder with α = 1 / L at every location and word. It is
  the control for what attention adds.
- Log Bilinear is the additive one (MLBL-B) with a context of five words.
- m-RNN and BRNN's generator keep their simple recurrences and rectifiers.
- CMU/MS Research keeps its two recurrent layers and learns to reconstruct the mean of the map. It
  has 512 units a layer instead of 100, and no n-gram features.
- MS Research has its three parts, each trained by itself: word detectors (noisy-OR over windows of
  the map), a maximum-entropy language model, which knows which detected words are still to be
  mentioned, and a ranking by log p, length and the detected words that a caption mentions. The
  language model learns by likelihood. The similarity of photo and text (DMSM) is left out.
- Templates have the same detectors. Nouns, verbs and colors of frequent training captions are their
  slots.
- Soft attention and the systems without attention have a second stage of three epochs with
  scheduled sampling. The systems of other papers have it in their first stage too, up to 50 % of
  the words.
- Hard attention starts from the soft model, without its gate, and also sees photos cropped at
  random. Its annotations are means over windows of 5×5 locations. 30 % of the previous words are
  its own.
- Hard attention's objective: the paper tosses a coin for each caption between a sampled path and
  the expected one; here every caption has both. The reward of a sampled path is a *reward to go*
  (it counts the location's own word and the later ones), its baseline is the expected path's log p
  instead of a moving mean, and its weight λ_r is 0.5. λ_e, the weight of the entropy of α, goes
  from −0.02 to −0.05. This sign makes α sharper; the paper's makes it wider.
- Retrieval takes the caption on which the captions of the most similar training photos agree best.
  The number of these photos, and how their features are made comparable, were chosen on val
  ({neighbors}).
"""

QUOTED = """\
## Quoted only

The rest of the paper's Table 1, which was not run here. † another split · ° figures by personal
communication · Σ an ensemble · a AlexNet features.

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
        return [stages.evaluation(data, [output / each for each in runs("nic")], files[0], "test", lambda: plugin)]
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
        elif name == "hard-as-paper":
            make = partial(choose_as_paper, SHIPPED / "flickr8k-hard", data, output / each)
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
    chosen = choose_generation(
        build_decoder(checkpoint), on_val, checkpoint.generation.max_length, metric="bleu_4_no_brevity"
    )
    print(f"on val: {chosen.scores}", flush=True)
    replace(checkpoint, generation=chosen.generation, ngrams=None).save(output, bits=16)


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


def write(dataset: Dataset, document: Path, folder: Path = results.RESULTS) -> None:
    """Write the document from the evaluations that are kept; ``dataset`` has their references."""
    neighbors = "–"
    if kept("retrieval", folder):
        chosen = results.read(kept("retrieval", folder)[0], folder)["retrieval"]
        neighbors = f"{chosen['neighbors']}, {'whitened' if chosen['whitened'] else 'their mean subtracted'}"
    parts = [DIFFERENCES.format(neighbors=neighbors), msr_parts(folder), runs_table(folder)]
    with_attention = [name for name in ATTENTION if kept(name, folder)]
    for without in WITHOUT_ATTENTION:
        if kept(without, folder) and with_attention:
            parts.append(attention_over(dataset, without, with_attention, folder))
    parts.append(QUOTED)
    document.parent.mkdir(parents=True, exist_ok=True)
    write_text(document, HEAD.format(table=main_table(folder), b_1=B_1))
    write_text(document.with_name("table1-runs.md"), "\n".join(parts))
    print(f"wrote {document} and table1-runs.md beside it")


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
    precision = found["mean_average_precision"].items()
    lines = [
        "## The parts of MS Research",
        "",
        "On val, by `python -m table1.msr_training flickr8k/ --examine runs/msr-1`. The true words are those of",
        "the photo's own captions, as if the detectors were perfect.",
        "",
        "| part | figures |",
        "| --- | --- |",
        f"| detectors: mean average precision | {' · '.join(f'{name} {value:.1f}' for name, value in precision)} |",
        "| language model: −log p, nats a word | "
        + " · ".join(f"{name} {value:.2f}" for name, value in found["nats"].items())
        + " |",
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
    lines = [
        "## The runs",
        "",
        "Runs start from models of a first stage. This makes that of nic-1:",
        "",
        f"    sat train {stages.DATA} --resize squash --seed 1 --output runs/nic-plain-1 \\",
        f"        {' '.join(TRAININGS['nic-plain'].arguments)}",
        "",
        "For `plain-S` and `uniform-plain-S`, the plugin, the decoder and its settings are replaced by",
        "`--attention soft` or `uniform` with `--set visual_ngrams=false`.",
        "",
        f"| run | {command} | beam | γ | file |",
        "| --- | --- | ---: | ---: | --- |",
    ]
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
    return "\n".join([*lines, "", "Files are in `experiments/results/`."]) + "\n"


def attention_over(dataset: Dataset, without: str, systems: Sequence[str], folder: Path = results.RESULTS) -> str:
    """Systems with attention against one without, on all photos and by the length of their references."""
    compared = {
        SYSTEMS[name].title: [results.evaluation(each, dataset, folder) for each in kept(name, folder)]
        for name in (without, *systems)
    }
    lines = [
        f"## Attention against {SYSTEMS[without].title}",
        "",
        "A difference whose interval holds 0 is not significant.",
        "",
        compare(compared, show=False).to_markdown(),
        "Does attention help more where people say more? The table says by how many points the difference",
        "of a photo's scores grows for each word more in its references (their mean length), with the 95 %",
        "interval over photos:",
        "",
        "| | CIDEr | METEOR |",
        "| --- | ---: | ---: |",
    ]
    for name in systems:
        cells = [slope_over_length(dataset, without, name, metric, folder) for metric in ("cider", "meteor")]
        lines.append(f"| {SYSTEMS[name].title} | {' | '.join(cells)} |")
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


def finish(data: Path, output: Path) -> None:
    """Keep the evaluations and write the document."""
    keep(output)
    write(read_dataset(data), DOCUMENT)


def main(given: Sequence[str] | None = None) -> None:
    """Make what is missing, keep the evaluations, and write the document."""
    known = {name: SYSTEMS[name].seeds for name in RUN_ORDER}
    stages.script("system", known, stages_of, finish, description=__doc__, given=given)


if __name__ == "__main__":
    main()
