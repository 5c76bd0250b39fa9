"""Is a noun gone from the caption when the place of its evidence is hidden? More often than for other places?

    python research/hide.py measure coco/ everyday-soft --split test --photos 100 --output rows.jsonl
    python research/hide.py report rows.jsonl ... --json hide.json

Each photo of a split is captioned. For each judged noun of the caption (those with a confidence), an outline of a fifth
of the photo is hidden, and the photo is captioned again. The outlines are of the maps in `PLACES`; all hide as much.
`measure` appends a line for each photo, and goes on where it was interrupted. `report` has shares with 95 % intervals
over photos. A noun is right if one of the photo's captions by people has it, in the singular or the plural.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from attention.forcing import SeededMode, force
from attention.maps import attentive, maps_of
from measure import Bootstrap, Interval, Mean, auroc
from numpy.typing import NDArray
from stages import new_parser, reporting

from show_attend_tell import generation
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.packing import as_array
from show_attend_tell.data.datasets import Example, read_dataset
from show_attend_tell.data.parts_of_speech import singular
from show_attend_tell.data.photos import open_photo
from show_attend_tell.files import write_text
from show_attend_tell.generation import photo_seed
from show_attend_tell.hide.masks import Mask, moves, on_photo, on_square, outline
from show_attend_tell.hide.masks import move as moved
from show_attend_tell.hide.pixels import blurred, hide
from show_attend_tell.hide.verdict import judge, words_of
from show_attend_tell.rerank.confidence import regression
from show_attend_tell.search.hypotheses import Hypothesis

PLACES = {  # what is hidden
    "evidence": "evidence of the noun",
    "alpha": "its alpha",
    "gradient": "its gradient without alpha",
    "uniform": "its gradient at uniform alpha",
    "occlusion": "occlusion: the places that cost it most",
    "other": "evidence of another noun",
    "moved": "the outline of its evidence, moved",
}
OCCLUSIONS = 7  # windows along a side, each hidden in turn
WAYS: dict[
    str, Callable[[Any], Any]
] = {  # how a place is hidden: what lies there, of the normalized square of pixels (3, S, S)
    "blur": blurred,
    "mean": lambda square: np.broadcast_to(square.mean((1, 2), keepdims=True), square.shape),
    "gray": np.zeros_like,
}
WINDOW = 2  # a window is so many times as wide as the distance of two windows
SURE = 0.7  # the confidence of nouns that have a column of their own
BATCH_SIZE = 8  # variants that are encoded and searched together

Array = NDArray[Any]


class Reading(NamedTuple):
    """A photo, captioned."""

    example: Example
    pixels: NDArray[np.float32]  # (3, S, S)
    size: tuple[int, int]
    seed: int
    features: Any  # (1, L, D)
    best: Hypothesis


class Study:
    """A model whose photos are hidden in parts and captioned again."""

    def __init__(self, name: str, *, way: str, places: Sequence[str], controls: int) -> None:
        """Load the model; of the moved outlines, the first ``controls`` are hidden."""
        self.captioner = Captioner.from_pretrained(name, backend="onnx")
        self.config = self.captioner.resolve_config()
        torch_too = {"gradient", "uniform"} & set(places)
        self.decoder = attentive(Captioner.from_pretrained(name, backend="torch", device="cpu")) if torch_too else None
        self.way, self.places, self.controls = way, places, controls
        self.vocabulary = self.captioner.checkpoint.vocabulary
        self.grid = self.captioner.checkpoint.encoder.grid

    def read(self, example: Example) -> Reading:
        """Caption a photo."""
        image = open_photo(example.photo)
        pixels = self.captioner.backend.encoder.preprocessing.pixels(image)
        seed = photo_seed(self.config.seed, pixels.tobytes())
        features = self.captioner.backend.encode(pixels[None])
        ((best, *_),) = self.captioner.generate(features, self.config, seeds=[seed], evidence=True)
        return Reading(example, pixels, image.size, seed, features, best)

    def measure(self, example: Example) -> dict[str, Any]:
        """What became of each judged noun of a photo's caption, by what was hidden."""
        reading = self.read(example)
        best = reading.best
        words = words_of(best, self.vocabulary)
        judged = [step for step, each in enumerate(best.word_confidence) if each == each]
        by_people = {form for caption in example.captions for word in caption for form in (word, singular(word))}
        maps = self.maps(reading) if judged else {}
        masks: dict[tuple[int, str, int], Mask] = {}  # by step, place and number
        for step in judged:
            for name, values in maps.items():
                cells = outline(values[step], self.captioner.offset)
                if cells is None:
                    continue
                masks[step, name, 0] = on_photo(cells, reading.size, self.box(reading))
                if name == "evidence":
                    of_controls = moves(cells)[: self.controls] if "moved" in self.places else []
                    for number, by in enumerate(of_controls):
                        masks[step, "moved", number] = moved(masks[step, name, 0], by, self.box(reading))
        found = dict(zip(masks, self.caption_again(reading, list(masks.values())), strict=True))
        nouns = []
        for step in judged:
            hidden: dict[str, list[Any]] = {name: [] for name in self.places}
            for (of, name, _), (after, log_p) in found.items():
                place = name
                if of != step:
                    apart = abs(of - step) > 1 and words[of].shown != words[step].shown  # no "teddy bear"
                    place = "other" if name == "evidence" and apart else ""
                if place in hidden:
                    verdict = judge(words[step], words, words_of(after, self.vocabulary))
                    hidden[place].append([verdict.kind, after.words != best.words, round(log_p[step], 4)])
            nouns.append(
                {
                    "word": words[step].shown,
                    "step": step,
                    "confidence": round(float(best.word_confidence[step]), 4),
                    "right": words[step].shown.split()[-1] in by_people,
                    "log_p": round(best.word_log_probabilities[step], 4),
                    "hidden": hidden,
                }
            )
        return {"photo": example.name, "caption": " ".join(each.shown for each in words), "nouns": nouns}

    def box(self, reading: Reading) -> tuple[float, float, float, float]:
        """What the encoder sees of the photo."""
        seen: tuple[float, float, float, float] = self.captioner.backend.encoder.preprocessing.seen(*reading.size)
        return seen

    def maps(self, reading: Reading) -> dict[str, Array]:
        """The maps (T, rows, columns) whose outlines are hidden."""
        best = reading.best
        found: dict[str, Array] = {"evidence": np.asarray(best.evidence)}
        if "alpha" in self.places:
            found["alpha"] = np.asarray(best.alpha)
        if self.decoder is not None:
            features = torch.from_numpy(np.array(reading.features, np.float32))
            ids = torch.tensor([best.words])
            mode = SeededMode(self.config.attention_mode, reading.seed)
            with torch.no_grad():
                forced = force(self.decoder, reading.example, features, [""] * len(best.words), ids, mode)
                of_words = maps_of(self.decoder, features, forced)
            found |= {name: of_words[name].cpu().numpy() for name in ("gradient", "uniform") if name in self.places}
        found = {name: values.reshape(-1, *self.grid) for name, values in found.items()}
        if "occlusion" in self.places:
            found["occlusion"] = self.occlusion(reading)
        return found

    def occlusion(self, reading: Reading) -> Array:
        """By how much log p of each word falls when each window is hidden (T, `OCCLUSIONS`, `OCCLUSIONS`)."""
        side = reading.pixels.shape[-1]
        at = (np.arange(side) + 0.5) / side * OCCLUSIONS - 0.5  # in windows
        inside = np.abs(at[None] - np.arange(OCCLUSIONS)[:, None]) <= WINDOW / 2
        windows = [np.outer(row, column).astype(np.float32) for row in inside for column in inside]
        ids = [*reading.best.words, self.vocabulary.END]
        whole = np.array(reading.best.word_log_probabilities)
        falls = [whole - self.log_p(features, ids, reading.seed) for features in self.encoded(reading, windows)]
        return np.array(falls).T.reshape(-1, OCCLUSIONS, OCCLUSIONS)

    def encoded(self, reading: Reading, parts: Sequence[NDArray[np.float32]]) -> Iterator[Any]:
        """The features (1, L, D) of the photo with each part (S, S) hidden."""
        cover = WAYS[self.way](reading.pixels)
        for start in range(0, len(parts), BATCH_SIZE):
            pixels = hide(reading.pixels, cover, parts[start : start + BATCH_SIZE])[1:]
            features = self.captioner.backend.encode(pixels)
            yield from (features[[number]] for number in range(len(pixels)))

    def log_p(self, features: Any, ids: list[int], seed: int) -> Array:
        """log p of each word of the caption, end token included in ``ids``, by teacher forcing."""
        forced = generation.explain(self.captioner.backend, features, ids, self.config, seed)
        return np.array(forced.word_log_probabilities)

    def caption_again(self, reading: Reading, masks: Sequence[Mask]) -> Iterator[tuple[Hypothesis, list[float]]]:
        """The caption of the photo with each mask hidden, and log p of each word of the caption of the whole photo."""
        side, ids = reading.pixels.shape[-1], [*reading.best.words, self.vocabulary.END]
        parts = [on_square(mask, self.box(reading), side) for mask in masks]
        several = list(self.encoded(reading, parts))
        for start in range(0, len(several), BATCH_SIZE):
            batch = several[start : start + BATCH_SIZE]
            together = self.captioner.backend.features(np.concatenate([as_array(each) for each in batch]))
            found = self.captioner.generate(together, self.config, seeds=[reading.seed] * len(batch))
            for features, (after, *_) in zip(batch, found, strict=True):
                yield after, self.log_p(features, ids, reading.seed).tolist()


def measure(study: Study, examples: Iterable[Example], output: Path) -> None:
    """Append a line for each photo that the file does not have."""
    known = {row["photo"] for row in rows_of(output)} if output.exists() else set()
    with output.open("a", encoding="utf-8") as file:
        for example in examples:
            if example.name not in known:
                file.write(json.dumps(study.measure(example)) + "\n")
                file.flush()


def rows_of(file: Path) -> list[dict[str, Any]]:
    """The lines of a file of `measure`."""
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of one model on one split, each with a 95 % interval over photos.

    ``gone``, ``renamed`` and ``changed`` are shares of the nouns, by what was hidden: the noun is gone, or another name
    of it is there, or the caption is another one. ``fall`` is by how many nats log p of the noun falls. Where a place
    is hidden several times for a noun, they are means over these.
    """
    nouns = [(number, noun) for number, row in enumerate(rows) for noun in row["nouns"]]
    photos = np.array([number for number, _ in nouns])
    bootstrap = Bootstrap(len(rows), 0)
    means = {place: of_place([noun for _, noun in nouns], place, photos, bootstrap) for place in PLACES}
    means = {place: of for place, of in means.items() if of}
    own = means["evidence"]["gone"]
    sure = [(number, noun) for number, noun in nouns if noun["confidence"] > SURE]
    sure_photos = np.array([number for number, _ in sure])
    of_sure = {place: of_place([noun for _, noun in sure], place, sure_photos, bootstrap) for place in means}
    found: dict[str, Any] = {
        "photos": len(rows),
        "nouns": len(nouns),
        "places": {
            place: {name: mean.interval().to_dict() for name, mean in of.items()} for place, of in means.items()
        },
        "gone_minus": {place: own.minus(of["gone"]).interval().to_dict() for place, of in means.items()},
        "gone_ratio": {place: _plain(own.over(of["gone"])) for place, of in means.items()},
        "sure_nouns": len(sure),
        "sure_gone": {place: of["gone"].interval().to_dict() for place, of in of_sure.items() if of},
        **trust([noun for _, noun in nouns], photos),
    }
    return found


def of_place(
    nouns: Sequence[Mapping[str, Any]], place: str, photos: NDArray[np.int64], bootstrap: Bootstrap
) -> dict[str, Mean]:
    """The means over nouns of what came out when a place was hidden, where it was."""
    columns: dict[str, list[float]] = {"gone": [], "renamed": [], "changed": [], "fall": []}
    for noun in nouns:
        several = noun["hidden"].get(place) or []
        values = {
            "gone": [kind == "gone" for kind, _, _ in several],
            "renamed": [kind == "renamed" for kind, _, _ in several],
            "changed": [changed for _, changed, _ in several],
            "fall": [noun["log_p"] - log_p for _, _, log_p in several],
        }
        for name, column in columns.items():
            column.append(float(np.mean(values[name])) if several else float("nan"))
    if np.isnan(columns["gone"]).all():
        return {}
    return {name: bootstrap(np.array(column), photos) for name, column in columns.items()}


def trust(nouns: Sequence[Mapping[str, Any]], photos: NDArray[np.int64]) -> dict[str, Any]:
    """How well the confidence, what is left of log p when the evidence is hidden, and both, tell right nouns (AUROC).

    Both are weighed by a logistic regression on the other half of the photos.
    """
    there = np.array([bool(noun["hidden"]["evidence"]) for noun in nouns])
    of = [noun for noun, here in zip(nouns, there, strict=True) if here]
    right = np.array([noun["right"] for noun in of])
    confidence = np.clip([noun["confidence"] for noun in of], 0.001, 0.999)
    stays = np.array([noun["hidden"]["evidence"][0][0] != "gone" for noun in of], dtype=float)
    left = np.array([noun["hidden"]["evidence"][0][2] for noun in of])
    inputs = np.stack([np.log(confidence / (1 - confidence)), stays, np.clip(left, -8, 0)], axis=1)
    half = photos[there] % 2 == 0
    if any(len(set(right[part])) < 2 for part in (half, ~half)):
        return {}  # too few photos
    both = np.zeros(len(of))
    for part in (half, ~half):
        weights = regression(inputs[part], np.zeros(part.sum(), int), right[part], np.ones(part.sum()))[0]
        both[~part] = inputs[~part] @ weights
    scores = {"confidence": confidence, "stays": stays, "log_p": left, "both": both}
    return {
        "right": float(right.mean()),
        "auroc": {name: auroc(values, right) for name, values in scores.items()},
        "auroc_of_halves": {  # each by the weights of the other half
            name: float(np.mean([auroc(values[part], right[part]) for part in (half, ~half)]))
            for name, values in scores.items()
        },
    }


def _plain(value: Interval | None) -> dict[str, float] | None:
    return None if value is None else value.to_dict()


def table(found: Mapping[str, Any]) -> Iterator[str]:
    """The figures of one model on one split, as lines of Markdown."""
    yield "| hidden | the noun is gone | renamed | confidence above 0.7: gone | caption changed | log p falls by |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for place, of in found["places"].items():
        gone = of["gone"]
        cells = [
            f"{100 * gone['mean']:.1f} % ({100 * gone['low']:.1f} to {100 * gone['high']:.1f})",
            f"{100 * of['renamed']['mean']:.1f} %",
            f"{100 * found['sure_gone'][place]['mean']:.1f} %" if place in found["sure_gone"] else "–",
            f"{100 * of['changed']['mean']:.0f} %",
            f"{of['fall']['mean']:.2f}",
        ]
        yield f"| {PLACES[place]} | {' | '.join(cells)} |"


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Measure a model, or report what was measured."""
    parser = new_parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure", help="hide and caption again")
    one.add_argument("data", type=Path, help="folder of captioned photos")
    one.add_argument("model", help="a model with attention")
    one.add_argument("--split", default="test", help="part of the data; default: test")
    one.add_argument("--photos", type=int, help="so many photos, drawn at random by seed 0; default: all")
    one.add_argument(
        "--places", nargs="+", choices=PLACES, default=["evidence", "other", "moved"], help="what is hidden"
    )
    one.add_argument("--controls", type=int, default=5, help="moves of an outline; default: 5")
    one.add_argument("--way", choices=WAYS, default="blur", help="how a place is hidden; default: blur")
    one.add_argument("--output", type=Path, required=True, help="file of a line for each photo")
    other = commands.add_parser("report", help="shares with intervals")
    other.add_argument("rows", type=Path, nargs="+", help="files of measure")
    other.add_argument("--json", type=Path, help="file for all figures")
    options = parser.parse_args(given)
    if options.command == "measure":
        examples = read_dataset(options.data).split(options.split)
        order = np.random.default_rng(0).permutation(len(examples))[: options.photos].tolist()
        study = Study(options.model, way=options.way, places=options.places, controls=options.controls)
        measure(study, [examples[number] for number in order], options.output)
        return
    everything = {}
    for file in options.rows:
        name = file.name.split(".")[0]
        everything[name] = found = figures(rows_of(file))
        print(f"\n{name}: {found['photos']} photos, {found['nouns']} nouns\n", *table(found), sep="\n")
        print(f"\ngone by own evidence, times: {found['gone_ratio']}\nminus: {found['gone_minus']}")
        print(f"AUROC: {found.get('auroc')}; of halves {found.get('auroc_of_halves')}")
    if options.json is not None:
        write_text(options.json, json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
