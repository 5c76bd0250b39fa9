"""How fast the package is on this machine, side by side with a baseline and the roofline: `make bench`.

    python benchmarks/bench.py [--threads 1] [--minutes 10] [--only search] [--quick] [--to FOLDER]

It times, in turns and in one process:

- the search of `everyday-soft` with a beam size of 1, 10 and 100, with and without the reranker: the tutorial's decoder
  with the same weights, the reference session and the optimized one, all in float32;
- VGG-19 and EfficientNet-Lite2: the network alone, and with reading and resizing the photos;
- a training step of the paper's sizes, soft and hard: the tutorial's decoder in float32, and the package's reference
  and optimized step in what `sat train` computes in here: bfloat16 where the processor has it, float32 elsewhere;
- threads: a caption in a process of its own, by how its threads wait.

It prints one table and writes bench.json. The roofline is the time of what cannot be left out, at the best rates that
this run measures: products in the precision that they run in, one σ for each attention value, Adam's 28 bytes a weight
at the rate of a copy. With ``--threads 1`` times are the processor's, which other programs disturb less.
``--quick`` runs every part once on small sizes, without compiling, only to see that all of it still runs.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

import threads
import torch
from rates import Rates, Timing, interleaved, measure_rates
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from tutorial_decoder import TutorialDecoder

from show_attend_tell.backends.torch import TorchBackend, TorchSession
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.photos import open_photo
from show_attend_tell.devices import native_bf16
from show_attend_tell.generation import rescored
from show_attend_tell.model import kernels
from show_attend_tell.model.attention import MeanAttention
from show_attend_tell.model.config import DecoderConfig
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.search.beam import beam_search
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.filters import word_filters
from show_attend_tell.search.hypotheses import Hypothesis
from show_attend_tell.search.session import DecoderSession
from show_attend_tell.threads import use_threads
from show_attend_tell.training.objectives.hard import HardObjective
from show_attend_tell.training.objectives.soft import SoftObjective

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.jpg"))
LOCATIONS, SIZE = 196, 512  # of a training step
REFERENCE_PATHS = 100  # that the reference searches fastest at once on a CPU
NARROW = native_bf16("cpu")  # whether `sat train` computes in bfloat16 here
Action = Callable[[], object]
Session = Callable[[Tensor, GenerationConfig], DecoderSession]


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    repeats: int
    seconds: float  # for everything, about
    beams: dict[int, float]  # with their shares of the time
    photos: int  # that are searched and encoded
    batch: int  # of a training step
    words: int
    steps: int
    ways: tuple[str, ...]  # of `threads`


@dataclass(frozen=True)
class Row:
    """One line of the table; times in seconds."""

    name: str
    timing: Timing
    baseline: float | None = None  # the baseline's median time
    roofline: float | None = None

    def line(self) -> str:
        """The line in Markdown."""
        t = self.timing
        spread = f"{1000 * t.low:.4g} to {1000 * t.high:.4g} ({t.repeats})"
        ratio = "" if self.baseline is None else f"{self.baseline / t.median:.1f}"
        roofline = "" if self.roofline is None else f"{1000 * self.roofline:.3g} | {self.roofline / t.median:.0%}"
        return f"| {self.name} | {1000 * t.median:.4g} | {spread} | {ratio} | {roofline or ' | '} |"


def read(backend: TorchBackend, photos: int) -> Tensor:
    """The pixels of the first example photos, read and resized."""
    return torch.stack([backend.encoder.preprocessing(open_photo(file)) for file in EXAMPLES[:photos]])


def operations(action: Action) -> int:
    """How many operations the products of an action take; a multiplication and an addition are two."""
    with FlopCounterMode(display=False) as counter:
        action()
    return counter.get_total_flops()


# ---------------------------------------------------------------- a training step


def steps_of(decoder: torch.nn.Module, loss: Callable[[], Tensor]) -> Action:
    """Training steps as `sat train` takes them."""
    optimizer = torch.optim.Adam(decoder.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def package_loss(
    decoder: AttentionDecoder,
    objective: SoftObjective | HardObjective,
    annotations: Tensor,
    captions: Tensor,
    loops: kernels.Kernels | None,
) -> Tensor:
    """The loss of a mini-batch as `sat train` computes it; without ``loops``, step by step."""
    decoder.kernels = loops
    objective.word_scores = (loops or kernels.REFERENCE).word_scores
    mode = objective.draw(*captions.shape, torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16, enabled=NARROW):
        output = decoder.teacher_forcing(annotations, captions, paths=objective.paths, mode=mode)
        return objective(output, captions, mode).total


def training_steps(rates: Rates, effort: Effort) -> list[Row]:
    """Every kind of training step, on captions whose words are as unevenly frequent as people's (Zipf's law)."""
    torch.manual_seed(0)
    B, K, C = effort.batch, effort.words, effort.steps
    annotations = torch.rand(B, LOCATIONS, SIZE)
    captions = 2 + torch.multinomial(1 / torch.arange(1.0, K - 1), B * C, replacement=True).view(B, C)
    tutorial = TutorialDecoder(vocabulary=K, size=SIZE)
    baseline = "training step, baseline, float32"
    actions = {baseline: steps_of(tutorial, partial(tutorial.loss, annotations, captions))}
    rooflines: dict[str, float] = {}
    objectives: dict[str, SoftObjective | HardObjective] = {
        "soft": SoftObjective(label_smoothing=0.1),
        "hard, one path a caption": HardObjective(samples=1),  # the paper's: a coin chooses the path
        "hard, two paths": HardObjective(samples=1, coin="both", baseline="expected"),  # the preset's
    }
    ways = {"reference": None, "optimized": kernels.compiled()}
    for kind, objective in objectives.items():
        attention = "soft" if kind == "soft" else "hard"
        decoder = AttentionDecoder(DecoderConfig(vocabulary_size=K, attention=attention, annotation_norm="layer"))
        loss = partial(package_loss, decoder, objective, annotations.half(), captions)
        products = operations(steps_of(decoder, partial(loss, kernels.REFERENCE)))
        sigmas = B * C * objective.paths * LOCATIONS * decoder.config.attention_size
        weights = sum(parameter.numel() for parameter in decoder.parameters())
        for how, loops in ways.items():
            if how == "reference" or kernels.can_compile():
                name = f"training step, {kind}, {how}, {rates.precision}"
                actions[name] = steps_of(decoder, partial(loss, loops))
                rooflines[name] = products / rates.products + sigmas / rates.sigma + 28 * weights / rates.copy
    times = interleaved(actions, effort.repeats, 0.3 * effort.seconds)
    return [Row(name, timing, times[baseline].median, rooflines.get(name)) for name, timing in times.items()]


# ---------------------------------------------------------------- the search


def search_roofline(rates: Rates, decoder: AttentionDecoder, found: list[Hypothesis]) -> float:
    """Seconds that the search that found these takes at least: its histories attend, and its paths say a word."""
    config = decoder.config
    n, m, D, A, K = (
        config.hidden_size,
        config.embedding_size,
        config.annotation_size,
        config.attention_size,
        config.vocabulary_size,
    )
    products, sigmas = 2.0 * LOCATIONS * D * A, 0.0
    for _, step in found[0].trace.steps:
        histories, paths = step.alpha.shape[1], step.rows.size
        products += 2 * histories * (n * (4 * n + A) + LOCATIONS * D + D * (4 * n + m))
        products += 2 * paths * (n * m + m * K)
        sigmas += histories * LOCATIONS * A
    return products / rates.float32 + sigmas / rates.sigma


def searches(rates: Rates, effort: Effort) -> list[Row]:
    """The search of several photos, time per photo; each session searches as many at once as suits it."""
    captioner = Captioner.from_pretrained("everyday-soft", device="cpu", backend="torch")
    backend, reranker, photos = captioner.torch_backend(), captioner.decoding.reranker, effort.photos
    decoder = backend.decoder
    assert isinstance(decoder, AttentionDecoder) and reranker is not None
    annotations = backend.encode(read(backend, photos))
    tutorial = TutorialDecoder.of(decoder)
    with torch.no_grad():
        normalized, _ = decoder.normalized(annotations)

    def by_tutorial(beam_size: int) -> None:
        for photo in normalized:
            tutorial.search(photo, beam_size=beam_size, max_length=40)

    def optimized(part: Tensor, config: GenerationConfig) -> DecoderSession:
        return backend.session(part, config, seeds=[0] * len(part))

    def reference(part: Tensor, config: GenerationConfig) -> DecoderSession:
        return TorchSession(decoder, part, paths=config.beam_size, mode=MeanAttention())

    def by_package(session: Session, at_once: int, config: GenerationConfig, ranked: bool) -> None:
        for part in annotations.split(at_once):
            found = beam_search(session(part, config), config, word_filters(config))
            if ranked:
                rescored(backend, part, found, config, reranker)

    rows = []
    for beam_size, share in effort.beams.items():
        config = GenerationConfig(beam_size=beam_size, max_length=40)
        baseline = f"search, beam size {beam_size}, baseline"
        actions: dict[str, Action] = {baseline: partial(by_tutorial, beam_size)}
        sessions = {
            "reference": (reference, max(1, REFERENCE_PATHS // beam_size)),
            "optimized": (optimized, backend.batch_size(config)),
        }
        for ranked in (False, True):
            named = f"search, beam size {beam_size}, {'with' if ranked else 'without'} reranker"
            for how, (session, at_once) in sessions.items():
                actions[f"{named}, {how}"] = partial(by_package, session, at_once, config, ranked)
        times = interleaved(actions, effort.repeats, 0.4 * share * effort.seconds)
        filters = word_filters(config)
        found = [beam_search(optimized(photo, config), config, filters)[0] for photo in annotations.split(1)]
        roofline = sum(search_roofline(rates, decoder, each) for each in found) / photos
        rows += [
            Row(name, timing.each(photos), times[baseline].median / photos, roofline) for name, timing in times.items()
        ]
    return rows


# ---------------------------------------------------------------- the encoders and threads


def encoding(rates: Rates, effort: Effort) -> list[Row]:
    """Several photos: the network alone, and with decoding and resizing them; time per photo."""
    rows = []
    for name, model in (("VGG-19", "flickr8k-soft"), ("EfficientNet-Lite2", "everyday-soft")):
        backend = Captioner.from_pretrained(model, device="cpu", backend="torch").torch_backend()
        pixels, precision = read(backend, effort.photos), backend.encoder.precision
        network, whole = f"{name}, network alone, {precision}", f"{name}, photo files to annotations, {precision}"
        times = interleaved(
            {
                network: partial(backend.encode, pixels),
                whole: lambda backend=backend: backend.encode(read(backend, effort.photos)),  # type: ignore[misc]
            },
            effort.repeats,
            0.1 * effort.seconds,
        )
        rate = rates.products if precision == rates.precision else rates.float32
        roofline = operations(partial(backend.encoder.annotate, pixels[:1])) / rate
        rows += [Row(line, timing.each(effort.photos), None, roofline) for line, timing in times.items()]
    return rows


def waiting(rates: Rates, effort: Effort) -> list[Row]:
    """A caption in a process of its own, by how its threads wait."""
    times = {way: threads.seconds(threads.WAYS[way], effort.repeats) for way in effort.ways}
    baseline = median(times[effort.ways[0]])
    return [
        Row(f"caption, threads: {way}, wall time", Timing(median(each), min(each), max(each), len(each)), baseline)
        for way, each in times.items()
    ]


SECTIONS: dict[str, Callable[[Rates, Effort], list[Row]]] = {
    "search": searches,
    "encoder": encoding,
    "training": training_steps,
    "threads": waiting,
}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="Measure how fast the package is on this machine.")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="Number of threads.")
    parser.add_argument("--minutes", type=float, default=10.0, help="Time for everything, about.")
    parser.add_argument("--only", choices=list(SECTIONS), help="One part.")
    parser.add_argument("--quick", action="store_true", help="Run each part once on small sizes, to see that it runs.")
    parser.add_argument("--to", type=Path, default=Path("bench"), help="Folder for bench.json.")
    options = parser.parse_args()
    use_threads(options.threads)
    began = time.perf_counter()
    full = Effort(7, 60 * options.minutes, {1: 0.1, 10: 0.2, 100: 0.7}, 4, 64, 10_000, 12, tuple(threads.WAYS))
    effort = Effort(1, 0, {2: 0}, 1, 2, 30, 3, ("one thread",)) if options.quick else full
    if options.quick:
        torch.compiler.set_stance("force_eager")
    rates = measure_rates("bfloat16" if NARROW else "float32", 0.01 if options.quick else 1)
    conditions = f"PyTorch {torch.__version__}, {options.threads} threads; {rates}"
    print(conditions, "\n", flush=True)
    heads = ("figure", "ms, median", "lowest to highest (repeats)", "times as fast as the baseline")
    print(f"| {' | '.join((*heads, 'roofline, ms', 'fraction of it'))} |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    rows: list[Row] = []
    for name, section in SECTIONS.items():
        if options.only in (None, name):
            rows += (new := section(rates, effort))
            print("\n".join(row.line() for row in new), flush=True)
    print(f"\n{time.perf_counter() - began:.0f} s in all")
    options.to.mkdir(parents=True, exist_ok=True)
    figures = {"conditions": conditions, "rates": asdict(rates), "rows": [asdict(row) for row in rows]}
    (options.to / "bench.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
