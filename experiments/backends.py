"""Whether two ways to compute give the same captions, photo by photo, and how long each takes.

    python experiments/backends.py flickr8k/ --model flickr8k-soft --model flickr8k-hard --lines backends.jsonl

The two ways are, by --compare:

- backends: PyTorch and ONNX Runtime, both in float32;
- int8: ONNX Runtime in float32, and with an encoder in int8;
- paths: PyTorch's plain path of the search, and the path that a `Captioner` uses on this machine.

Both ways start from the photo's file and have each model's usual settings, except for --beam-size. Each way encodes a photo
once for all models, so the models must have the same encoder.

A line of the file is what one model says of one photo in two ways by one beam: both captions; their log p; each
caption's score by which it was chosen, by either way; the largest difference of α; and the seconds of the processor. An
interrupted call goes on where it stopped, when it is called again. At the end it prints how many captions are equal,
the scores of either way, and the captions that differ.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.packing import as_array
from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.data.photos import open_photo
from show_attend_tell.errors import SatError
from show_attend_tell.metrics.scores import score
from show_attend_tell.search import Hypothesis, OptimizedBeamSearch, beam_search
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.hypotheses import score as score_of

Line = dict[str, Any]
KEY = "model", "ways", "beam_size", "file"
SECONDS = "encoding", "search"  # medians, of the processor
FIGURES = "bleu_1", "bleu_4", "meteor", "rouge_l", "cider"


@dataclass(frozen=True)
class Pair:
    """A model in two ways, and how each of them encodes pixels; a ``beam_size`` replaces the model's own."""

    name: str
    captioners: tuple[Captioner, Captioner]
    encode: tuple[Callable[[Any], Any], Callable[[Any], Any]]
    ways: str  # of `WAYS`
    beam_size: int | None = None

    @classmethod
    def of_backends(cls, name: str) -> "Pair":
        """The model of that name or folder on PyTorch, in float32, and on ONNX Runtime."""
        usual, light = (Captioner.from_pretrained(name, device="cpu", backend=backend) for backend in ("torch", "onnx"))
        usual.beam_search = OptimizedBeamSearch()
        encode = partial(usual.encoder.annotate, precision="float32"), light.encoder.annotate
        return cls(name, (usual, light), encode, "backends")

    @classmethod
    def of_precisions(cls, name: str) -> "Pair":
        """The model on ONNX Runtime, with an encoder in float32 and with one in int8."""
        whole, short = (
            Captioner.from_pretrained(name, backend="onnx", precision=precision) for precision in ("auto", "int8")
        )
        return cls(name, (whole, short), (whole.encoder.annotate, short.encoder.annotate), "int8")

    @classmethod
    def of_paths(cls, name: str) -> "Pair":
        """The model on PyTorch, searched by the plain path and by the usual one."""
        plain, usual = (Captioner.from_pretrained(name, device="cpu", backend="torch") for _ in range(2))
        plain.beam_search = beam_search
        return cls(name, (plain, usual), (usual.encoder.annotate, usual.encoder.annotate), "paths")

    @property
    def generation(self) -> GenerationConfig:
        """How both ways search."""
        usual = self.captioners[0].checkpoint.generation
        return usual if self.beam_size is None else replace(usual, beam_size=self.beam_size)

    def key(self, photo: Path) -> tuple[Any, ...]:
        """What a line is of, in the order of `KEY`."""
        return self.name, self.ways, self.generation.beam_size, str(photo.resolve())

    def encoded(self, photo: Path) -> list[tuple[Any, float]]:
        """The annotations of a photo in both ways, and the seconds that they took."""
        pixels = self.captioners[1].encoder.preprocessing.pixels(open_photo(photo))[None]
        return [timed(partial(encode, pixels)) for encode in self.encode]

    def compared(self, photo: Path, encoded: list[tuple[Any, float]]) -> Line:
        """The line of this model and one photo."""
        found, seconds = [], []
        for captioner, (annotations, _) in zip(self.captioners, encoded, strict=True):
            search = partial(captioner.search, annotations, self.generation, seeds=[0])
            (hypotheses,), took = timed(search)
            found.append(hypotheses)
            seconds.append(took)
        usual, light = (hypotheses[0] for hypotheses in found)
        captions = [self.captioners[0].checkpoint.vocabulary.text(best.words) for best in (usual, light)]
        line: Line = {**dict(zip(KEY, self.key(photo), strict=True)), "photo": photo.name, "captions": captions}
        line["log_p"] = [usual.log_probability, light.log_probability]
        if usual.words == light.words:
            line["scores"] = [self._score(usual), self._score(light)]
            if usual.alpha is not None:
                line["alpha"] = float(np.abs(as_array(usual.alpha) - as_array(light.alpha)).max(initial=0.0))
        else:
            line["scores"] = [[self._found(hypotheses, best) for hypotheses in found] for best in (usual, light)]
        line["seconds"] = {"encoding": [took for _, took in encoded], "search": seconds}
        return line

    def _score(self, hypothesis: Hypothesis) -> float:
        return score_of(hypothesis, self.generation.length_penalty, self.generation.rerank_weight)

    def _found(self, hypotheses: Iterable[Hypothesis], wanted: Hypothesis) -> float | None:
        """The score that one way gives those words, or None where its beam does not have them."""
        return next((self._score(each) for each in hypotheses if each.words == wanted.words), None)


WAYS = {  # by --compare: how a pair is loaded, and what its two ways are called
    "backends": (Pair.of_backends, ("PyTorch", "ONNX Runtime")),
    "int8": (Pair.of_precisions, ("float32", "int8")),
    "paths": (Pair.of_paths, ("the plain path", "the usual path")),
}


def timed(compute: Callable[[], Any]) -> tuple[Any, float]:
    """What a function gives, and the seconds of the processor that it took."""
    begun = time.process_time()
    found = compute()
    return found, time.process_time() - begun


def compare(pairs: list[Pair], photos: Iterable[Path], file: Path) -> list[Line]:
    """The lines of those models and photos. Those that the file does not have are computed and added to it.

    Raises `SatError` for models with different encoders.
    """
    if any(pair.captioners[0].checkpoint.encoder != pairs[0].captioners[0].checkpoint.encoder for pair in pairs):
        raise SatError(f"{', '.join(pair.name for pair in pairs)} have different encoders: compare them one by one")
    known = {tuple(line.get(part) for part in KEY): line for line in read(file)}
    wanted = []
    with file.open("a") as opened:
        for photo in photos:
            wanted += [pair.key(photo) for pair in pairs]
            missing = [pair for pair in pairs if pair.key(photo) not in known]
            encoded = pairs[0].encoded(photo) if missing else []
            for pair in missing:
                line = known[pair.key(photo)] = pair.compared(photo, encoded)
                print(json.dumps(line, ensure_ascii=False), file=opened, flush=True)
    return [known[each] for each in wanted]


def read(file: Path) -> list[Line]:
    """The whole lines of a file; an interrupted call may have left half a line at its end, which is cut off."""
    if not file.exists():
        return []
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        file.write_bytes(whole)
    return [json.loads(line) for line in whole.splitlines()]


def summary(lines: list[Line], names: tuple[str, str], references: Mapping[str, Any]) -> str:
    """What the lines of one model say, with the scores of both ways and the captions that differ."""
    equal = [line for line in lines if line["captions"][0] == line["captions"][1]]

    def farthest(values: Callable[[Line], float]) -> float:
        return max(map(values, equal), default=0.0)

    told = [
        f"{lines[0]['model']}: {len(equal)} of {len(lines)} captions are equal",
        f"  log p differs by at most {farthest(lambda line: abs(line['log_p'][0] - line['log_p'][1])):.2g}, "
        f"the score by {farthest(lambda line: abs(line['scores'][0] - line['scores'][1])):.2g}, "
        f"α by {farthest(lambda line: line.get('alpha', 0.0)):.2g}",
    ]
    for number, name in enumerate(names):
        captions = {line["photo"]: line["captions"][number] for line in lines}
        corpus = score(captions, {photo: references[photo] for photo in captions}).corpus
        seconds = [f"{part} {median(line['seconds'][part][number] for line in lines):.3f} s" for part in SECONDS]
        figures = [f"{figure} {corpus[figure]:.2f}" for figure in FIGURES]
        told.append(f"  {name}: {', '.join(seconds)}; {', '.join(figures)}")
    for line in lines:
        if line not in equal:
            told.append(f"  {line['photo']}")
            told += [f"    {caption}: {by}" for caption, by in zip(line["captions"], line["scores"], strict=True)]
    return "\n".join(told)


def main() -> None:
    """Compare, write and print."""
    parser = argparse.ArgumentParser(description="Compare the captions of two ways to compute.")
    parser.add_argument("data", type=Path, help="Data folder.")
    parser.add_argument("--model", action="append", required=True, help="Model; may be given several times.")
    parser.add_argument("--split", default="test", help="Part of the data.")
    parser.add_argument("--photos", type=int, help="Number of photos, the first ones.")
    parser.add_argument("--lines", type=Path, default=Path("backends.jsonl"), help="File of the comparisons.")
    parser.add_argument("--compare", choices=WAYS, default="backends", help="The two ways.")
    parser.add_argument("--beam-size", type=int, help="Beam instead of the model's own.")
    chosen = parser.parse_args()
    torch.set_grad_enabled(False)
    dataset = read_dataset(chosen.data)
    photos = [Path(example.photo) for example in dataset.split(chosen.split)][: chosen.photos]
    load, names = WAYS[chosen.compare]
    lines = compare([replace(load(name), beam_size=chosen.beam_size) for name in chosen.model], photos, chosen.lines)
    references = {
        example.name: [dataset.tokenizer.text(words) for words in example.captions]
        for example in dataset.split(chosen.split)
    }
    for name in chosen.model:
        print(summary([line for line in lines if line["model"] == name], names, references))


if __name__ == "__main__":
    main()
