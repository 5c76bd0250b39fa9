"""How fast the package is on this machine, side by side with a baseline and the roofline: `make bench`.

    python benchmarks/bench.py [--threads 1] [--minutes 10] [--only search] [--to FOLDER]

It times, in turns and in one process:

- a training step of the paper's sizes, soft and hard: the tutorial's decoder, the reference and the optimized step;
- the search of `everyday-soft` with a beam size of 1, 10 and 100, with and without the reranker: the tutorial's decoder
  with the same weights, the reference session and the optimized one;
- VGG-19: the network alone, and with reading and resizing the photos;
- threads: a caption in a process of its own, by how its threads wait.

It prints one table and writes bench.json and bench.svg. The roofline is the time of what cannot be left out, at the
best rates that this run measures: products in bfloat16, one σ for each attention value, Adam's 28 bytes a weight at the
rate of a copy.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import threads
import torch
from rates import Rates, Timing, interleaved, measure_rates
from torch import Tensor, nn
from tutorial_decoder import TutorialDecoder

from show_attend_tell.backends.torch import TorchSession
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.photos import open_photo
from show_attend_tell.data.vocabulary import Vocabulary
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
from show_attend_tell.training.losses import HardObjective, SoftObjective

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.jpg"))
BATCH, STEPS, LOCATIONS, SIZE, WORDS = 64, 12, 196, 512, 10_000  # of a training step
BEAMS = {1: 0.1, 10: 0.2, 100: 0.7}  # with their shares of the time
REFERENCE_PATHS = 100  # that the reference searches fastest at once on a CPU
VGG19 = 39.0e9  # operations of a photo
Session = Callable[[Tensor, GenerationConfig], DecoderSession]


@dataclass(frozen=True)
class Row:
    """One line of the table; times in seconds."""

    name: str
    timing: Timing
    baseline: float | None  # the baseline's median time
    roofline: float | None

    def line(self) -> str:
        """The line in Markdown."""
        t = self.timing
        spread = f"{1000 * t.low:.4g} to {1000 * t.high:.4g} ({t.repeats})"
        ratio = "" if self.baseline is None else f"{self.baseline / t.median:.1f}"
        roofline, fraction = "", ""
        if self.roofline:
            roofline, fraction = f"{1000 * self.roofline:.3g}", f"{self.roofline / t.median:.0%}"
        return f"| {self.name} | {1000 * t.median:.4g} | {spread} | {ratio} | {roofline} | {fraction} |"


# ---------------------------------------------------------------- a training step


def step_roofline(rates: Rates, weights: int, paths: int) -> float:
    """Seconds that a training step takes at least."""
    rows = BATCH * STEPS * paths
    forward = 2 * (
        BATCH * LOCATIONS * SIZE * SIZE  # keys
        + BATCH * STEPS * SIZE * 4 * SIZE  # gates from words
        + rows * SIZE * (4 * SIZE + SIZE)  # gates and query from h
        + rows * SIZE * 4 * SIZE  # gates from ẑ
        + rows * LOCATIONS * SIZE  # Σ α a
        + 2 * rows * SIZE * SIZE  # L_h, L_z
        + rows * SIZE * WORDS  # L_o
    )
    return 3 * forward / rates.bf16 + rows * LOCATIONS * SIZE / rates.sigma + 28 * weights / rates.copy


def package_step(objective: SoftObjective | HardObjective, optimized: bool) -> tuple[Callable[[], None], int]:
    """One step of the package's decoder in bfloat16, and how many weights it has."""
    torch.manual_seed(0)
    kind = "hard" if isinstance(objective, HardObjective) else "soft"
    decoder = AttentionDecoder(
        DecoderConfig(vocabulary_size=WORDS, attention=kind, attention_size=SIZE, annotation_norm="layer")  # type: ignore
    )
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-4, fused=True)
    annotations = torch.rand(BATCH, LOCATIONS, SIZE).half()
    captions = torch.randint(2, WORDS, (BATCH, STEPS))
    generator = torch.Generator().manual_seed(0)
    used = kernels.compiled() if optimized else kernels.REFERENCE
    decoder.kernels = used if optimized else None

    def step() -> None:
        draws = objective.draw(BATCH, STEPS, generator)
        with torch.autocast("cpu", torch.bfloat16):
            output = decoder.teacher_forcing(annotations, captions, paths=objective.paths, mode=draws.mode)
            loss = objective(output, captions, draws, word_scores=used.word_scores).total
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step, count(decoder)


def tutorial_step() -> tuple[Callable[[], None], int]:
    """One step of the tutorial's decoder in float32."""
    torch.manual_seed(0)
    decoder = TutorialDecoder(vocabulary=WORDS, size=SIZE)
    optimizer = torch.optim.Adam(decoder.parameters(), lr=1e-4)
    annotations = torch.rand(BATCH, LOCATIONS, SIZE)
    captions = torch.randint(2, WORDS, (BATCH, STEPS))

    def step() -> None:
        loss = decoder.loss(annotations, captions)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step, count(decoder)


def count(module: nn.Module) -> int:
    """The number of weights."""
    return sum(parameter.numel() for parameter in module.parameters())


def training_steps(rates: Rates, seconds: float) -> list[Row]:
    """Every kind of training step."""
    baseline = "training step, baseline, float32"
    action, weights = tutorial_step()
    actions = {baseline: action}
    # the tutorial's products are in float32: its roofline says how far from its own best it is
    rooflines = {baseline: step_roofline(Rates(rates.fp32, rates.fp32, rates.sigma, rates.copy), weights, 1)}
    objectives: dict[str, SoftObjective | HardObjective] = {
        "soft": SoftObjective(label_smoothing=0.1),
        "hard, one path a caption": HardObjective(samples=1),  # the paper's: a coin chooses the path
        "hard, two paths": HardObjective(samples=1, coin="both", baseline="expected"),  # the preset's
    }
    for kind, objective in objectives.items():
        for how in ("reference", "optimized"):
            if how == "optimized" and not kernels.can_compile():
                continue
            name = f"training step, {kind}, {how}"
            actions[name], weights = package_step(objective, how == "optimized")
            rooflines[name] = step_roofline(rates, weights, objective.paths)
    times = interleaved(actions, 5, seconds)
    return [Row(name, timing, times[baseline].median, rooflines[name]) for name, timing in times.items()]


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
    products, sigmas, paths = 2.0 * LOCATIONS * D * A, 0.0, 1
    for step in found[0].trace.steps:
        assert step.alpha is not None
        histories = step.alpha.shape[1]
        products += 2 * histories * (n * (4 * n + A) + LOCATIONS * D + D * (4 * n + m))
        products += 2 * paths * (n * m + m * K)
        sigmas += histories * LOCATIONS * A
        paths = int((step.words != Vocabulary.END).sum())
    return products / rates.bf16 + sigmas / rates.sigma


def searches(captioner: Captioner, annotations: Tensor, rates: Rates, seconds: float) -> list[Row]:
    """The search of several photos, time per photo; each session searches as many at once as suits it."""
    backend, reranker = captioner.torch_backend(), captioner.reranker
    decoder = backend.decoder
    assert isinstance(decoder, AttentionDecoder)
    tutorial = TutorialDecoder.of(decoder)
    with torch.no_grad():
        normalized, _ = decoder.normalized(annotations)
    rows, photos = [], len(annotations)

    def by_tutorial(beam_size: int) -> None:
        for photo in normalized:
            tutorial.search(photo, beam_size=beam_size, max_length=40)

    def optimized(part: Tensor, config: GenerationConfig) -> DecoderSession:
        return backend.session(part, config, seeds=[0] * len(part))

    def reference(part: Tensor, config: GenerationConfig) -> DecoderSession:
        return TorchSession(decoder, part, paths=config.paths, mode=MeanAttention())

    def by_package(session: Session, at_once: int, config: GenerationConfig, ranked: bool) -> None:
        for part in annotations.split(at_once):
            found = beam_search(session(part, config), config, word_filters(config))
            if ranked and reranker is not None:
                rescored(backend, part, found, config, reranker)

    for beam_size, share in BEAMS.items():
        config = GenerationConfig(beam_size=beam_size, max_length=40)
        baseline = f"search, beam size {beam_size}, baseline"
        actions: dict[str, Callable[[], None]] = {baseline: partial(by_tutorial, beam_size)}
        sessions = {
            "reference": (reference, max(1, REFERENCE_PATHS // beam_size)),
            "optimized": (optimized, backend.batch_size(config)),
        }
        for ranked in (False, True):
            named = f"search, beam size {beam_size}, {'with' if ranked else 'without'} reranker"
            for how, (session, at_once) in sessions.items():
                actions[f"{named}, {how}"] = partial(by_package, session, at_once, config, ranked)
        times = interleaved(actions, 7, seconds * share)
        roofline = sum(
            search_roofline(rates, decoder, beam_search(optimized(photo, config), config, word_filters(config))[0])
            for photo in annotations.split(1)
        )
        rows += [
            Row(name, per(timing, photos), times[baseline].median / photos, roofline / photos)
            for name, timing in times.items()
        ]
    return rows


def per(timing: Timing, photos: int) -> Timing:
    """The time of one photo of many."""
    return Timing(timing.median / photos, timing.low / photos, timing.high / photos, timing.repeats)


# ---------------------------------------------------------------- the encoder and threads


def encoding(captioner: Captioner, rates: Rates, seconds: float) -> list[Row]:
    """Eight photos: the network alone, and with decoding and resizing them."""
    encoder, files = captioner.backend.encoder, [EXAMPLES[number % len(EXAMPLES)] for number in range(8)]
    pixels = torch.stack([encoder.preprocessing(open_photo(file)) for file in files])
    network, whole = "encoder, network alone", "encoder, photo files to annotations"
    times = interleaved(
        {
            network: lambda: encoder.annotate(pixels),
            whole: lambda: encoder.annotate(torch.stack([encoder.preprocessing(open_photo(file)) for file in files])),
        },
        7,
        seconds,
    )
    return [Row(name, per(timing, 8), times[network].median / 8, VGG19 / rates.bf16) for name, timing in times.items()]


def waiting() -> list[Row]:
    """A caption in a process of its own, by how its threads wait."""
    times = {way: threads.seconds(settings) for way, settings in threads.WAYS.items()}
    return [
        Row(f"caption, threads: {way}", Timing(each, each, each, 5), times["busy loop"], None)
        for way, each in times.items()
    ]


# ---------------------------------------------------------------- what is written


def chart(rows: list[Row]) -> str:
    """The times as bars on a logarithmic scale, the rooflines as marks: SVG."""
    kept = [row for row in rows if row.timing.median > 0]
    least = min(min(row.timing.median, row.roofline or row.timing.median) for row in kept)
    most = max(row.timing.median for row in kept)
    scale = torch.tensor([least / 2, most]).log10().tolist()

    def x(seconds: float) -> float:
        return 330 + 420 * (torch.tensor(seconds).log10().item() - scale[0]) / (scale[1] - scale[0])

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="860" height="{24 * len(kept) + 40}" font-size="12">']
    parts.append('<style>text{font-family:sans-serif}</style><rect width="100%" height="100%" fill="white"/>')
    for number, row in enumerate(kept):
        top, end = 12 + 24 * number, x(row.timing.median)
        parts.append(f'<text x="320" y="{top + 12}" text-anchor="end">{row.name.replace("&", "&amp;")}</text>')
        parts.append(f'<rect x="330" y="{top}" width="{end - 330:.1f}" height="16" fill="#4c78a8"/>')
        parts.append(f'<text x="{end + 6:.1f}" y="{top + 12}">{1000 * row.timing.median:.3g} ms</text>')
        if row.roofline:
            parts.append(f'<rect x="{x(row.roofline):.1f}" y="{top - 2}" width="2" height="20" fill="#e45756"/>')
    note = "bar: median time, logarithmic scale; red: roofline"
    parts.append(f'<text x="330" y="{24 * len(kept) + 28}">{note}</text></svg>')
    return "\n".join(parts)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="Measure how fast the package is on this machine.")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="Number of threads.")
    parser.add_argument("--minutes", type=float, default=10.0, help="Time for everything, about.")
    parser.add_argument("--only", choices=["search", "encoder", "training", "threads"], help="One part.")
    parser.add_argument("--to", type=Path, default=Path("bench"), help="Folder for bench.json and bench.svg.")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    began, seconds = time.perf_counter(), 60 * options.minutes
    rates = measure_rates()
    captioner, with_vgg19 = (
        Captioner.from_pretrained(name, device="cpu", backend="torch") for name in ("everyday-soft", "flickr8k-soft")
    )
    pixels = torch.stack([captioner.backend.encoder.preprocessing(open_photo(file)) for file in EXAMPLES[:4]])
    conditions = f"PyTorch {torch.__version__}, {options.threads} threads; {rates}"
    print(conditions, "\n", flush=True)
    heads = ("figure", "ms, median", "lowest to highest (repeats)", "times as fast as the baseline")
    print(f"| {' | '.join((*heads, 'roofline, ms', 'fraction of it'))} |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    rows: list[Row] = []
    annotations = captioner.backend.encode(pixels)
    sections: Mapping[str, Callable[[], list[Row]]] = {
        "search": lambda: searches(captioner, annotations, rates, 0.4 * seconds),
        "encoder": lambda: encoding(with_vgg19, rates, 0.1 * seconds),
        "training": lambda: training_steps(rates, 0.25 * seconds),
        "threads": waiting,
    }
    for name, section in sections.items():
        if options.only not in (None, name):
            continue
        new = section()
        rows += new
        print("\n".join(row.line() for row in new), flush=True)
    print(f"\n{time.perf_counter() - began:.0f} s in all")
    options.to.mkdir(parents=True, exist_ok=True)
    figures = {"conditions": conditions, "rates": asdict(rates), "rows": [asdict(row) for row in rows]}
    (options.to / "bench.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")
    (options.to / "bench.svg").write_text(chart(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
