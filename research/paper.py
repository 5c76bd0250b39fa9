"""The paper's own recipe, whole: its trainings, their evaluations by both readings, and the tables that they make.

    python research/paper.py flickr8k/ runs/           # `make paper FLICKR8K=flickr8k/`
    python research/paper.py flickr8k/ runs/ --grid    # also what λ_r and λ_e do, on val (15 epochs each)

Soft, hard and uniform attention have the seeds 1 to 3. A hard model is read by the mean of all locations, as the
authors' program reads, and by argmax; the beam size and γ of each reading are chosen on val. About 20 hours of a core,
and 10 for the grid. If it is interrupted, the same command goes on. Evaluations go to results/, tables to README and
docs.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import paper_recipe
import reproduction
import results
import tables
from stages import Stage, alone, evaluation, is_trained, new_parser, reporting, run
from table1 import msr_training

from show_attend_tell.backends.torch import build_decoder, fastest_encode
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.files import read_object, write_text
from show_attend_tell.generation import Decoding
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.training.selection import choose_generation
from show_attend_tell.vision.encoder import load_encoder
from show_attend_tell.vision.feature_cache import default_cache
from show_attend_tell.vision.sources import cached

FIFTEEN = ("epochs=15",)
GRID = {  # one change of hard attention each: its settings
    "lr0-le0128": ("hard.reward_weight=0", *FIFTEEN),
    "lr0-le0032": ("hard.reward_weight=0", "hard.entropy_weight=0.032", *FIFTEEN),
    "lr005-le0032": ("hard.reward_weight=0.05", "hard.entropy_weight=0.032", *FIFTEEN),
    "lr0125-le0032": ("hard.reward_weight=0.125", "hard.entropy_weight=0.032", *FIFTEEN),  # batches of 16 amount to it
    "both-lr0": ("hard.reward_weight=0", "hard.coin=both", *FIFTEEN),
    "both-expected": ("hard.coin=both", "hard.baseline=expected", *FIFTEEN),
}


@dataclass(frozen=True)
class PaperTraining:
    """One training of the recipe."""

    attention: str
    seed: int
    name: str = "paper"
    settings: Sequence[str] = ()

    @property
    def model(self) -> str:
        """The name of its folder."""
        return f"{self.name}-{self.attention}-{self.seed}"

    def stages(self, data: Path, runs: Path, split: str) -> list[Stage]:
        """To train it, and to evaluate it on a split by each of its readings."""
        folder = runs / self.model
        options = ["--name", self.name, *(part for setting in self.settings for part in ("--set", setting))]
        arguments = [str(data), str(runs), self.attention, str(self.seed), *options]
        stages = [Stage(f"train {self.model}", partial(is_trained, folder), partial(paper_recipe.main, arguments))]
        file = runs / f"{self.model}-{split}.json"
        stages.append(evaluation(data, [folder], file, split, partial(alone, folder)))
        if self.attention == "hard":
            chosen = runs / f"{self.model}-argmax.json"
            make = partial(choose_by_argmax, folder, data, chosen)
            stages.append(Stage(f"choose the decoding of {self.model} by argmax", chosen.exists, make))
            by_argmax = runs / f"{self.name}-hard-argmax-{self.seed}-{split}.json"
            stages.append(evaluation(data, [folder], by_argmax, split, partial(options_by_argmax, chosen)))
        return stages


RECIPE = [PaperTraining(kind, seed) for kind in ("soft", "hard", "uniform") for seed in reproduction.SEEDS]


def choose_by_argmax(model: Path, data: Path, file: Path) -> None:
    """Write the beam size and γ with the best BLEU-4 on val when a hard model reads the location of the largest α."""
    checkpoint, dataset = Checkpoint.load(model), read_dataset(data)
    encoder = checkpoint.encoder.load(load_encoder, str(model))
    source = cached(dataset, encoder, default_cache(), splits=("val",), encode=fastest_encode(encoder))
    on_val = msr_training.validation_data(dataset, checkpoint.vocabulary, source)
    config = GenerationConfig(beam_size=1, attention_mode="argmax", max_length=checkpoint.generation.max_length)
    usual = Decoding(vocabulary=checkpoint.vocabulary, config=config)
    chosen = choose_generation(build_decoder(checkpoint), on_val, usual)
    values = {"beam_size": chosen.generation.beam_size, "length_penalty": chosen.generation.length_penalty}
    write_text(file, json.dumps({**values, "val": chosen.scores}) + "\n")


def options_by_argmax(file: Path) -> list[object]:
    """The options of `sat evaluate` for what `choose_by_argmax` wrote."""
    chosen = read_object(file, "beam_size")
    settings = ["--beam-size", chosen["beam_size"], "--length-penalty", chosen["length_penalty"]]
    return [*settings, "--attention-mode", "argmax", "--rerank-weight", 0]


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Make what is missing, keep the evaluations, and write the tables."""
    parser = new_parser(__doc__)
    parser.add_argument("data", type=Path, help="folder of Flickr8k, as for sat train")
    parser.add_argument("runs", type=Path, help="folder for models and evaluations")
    parser.add_argument("--grid", action="store_true", help="train and evaluate the grid of λ_r and λ_e too")
    options = parser.parse_args(given)
    options.runs.mkdir(parents=True, exist_ok=True)
    todo = [stage for training in RECIPE for stage in training.stages(options.data, options.runs, "test")]
    if options.grid:
        grid = [PaperTraining("hard", 1, name, settings) for name, settings in GRID.items()]
        todo += [stage for training in grid for stage in training.stages(options.data, options.runs, "val")]
    run(todo)
    for file in sorted(options.runs.glob("*-test.json")) + sorted(options.runs.glob("*-val.json")):
        results.keep(read_object(file, "results"), file.stem)
    reproduction.main([str(options.data), str(options.runs)])
    tables.write()


if __name__ == "__main__":
    main()
