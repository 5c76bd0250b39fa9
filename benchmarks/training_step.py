"""How fast a training step is: the package's two paths, the tutorial's decoder, and the floor, side by side.

    python benchmarks/training_step.py [--repeats 5]

The sizes are the paper's: 64 captions of 12 words, 196 places, n = m = D = A = 512, K = 10,000, Adam included.

The floor of a step is what cannot be done without:

- its products, at the best rate that this run measures for a bfloat16 product (float32 for the tutorial's decoder);
- one σ for each of the B·P·T·L·A attention values, at the best rate measured;
- Adam's reads and writes (28 bytes a weight), at the rate of a copy.
"""

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import torch
from rates import Rates, interleaved, measure_rates
from torch import nn
from tutorial_decoder import TutorialDecoder

from show_attend_tell.model import kernels
from show_attend_tell.model.decoder import AttentionDecoder, DecoderConfig
from show_attend_tell.model.interface import tell
from show_attend_tell.model.unroll import UnrolledTell
from show_attend_tell.training.losses import HardObjective, SoftObjective

BATCH, STEPS, PLACES, SIZE, WORDS = 64, 12, 196, 512, 10_000


def floor(rates: Rates, *, paths: int, weights: int, products: float) -> float:
    """Seconds that a step takes at least; ``products`` is the rate of its products."""
    rows = BATCH * STEPS * paths
    forward = 2 * (
        BATCH * PLACES * SIZE * SIZE  # keys
        + BATCH * STEPS * SIZE * 4 * SIZE  # gates from words
        + rows * SIZE * (4 * SIZE + SIZE)  # gates and query from h
        + rows * SIZE * 4 * SIZE  # gates from ẑ
        + rows * PLACES * SIZE  # Σ α a
        + 2 * rows * SIZE * SIZE  # L_h, L_z
        + rows * SIZE * WORDS  # L_o
    )
    values = rows * PLACES * SIZE
    return 3 * forward / products + values / rates.sigma + 28 * weights / rates.copy


def package_step(objective: SoftObjective | HardObjective, fast: bool) -> tuple[Callable[[], None], int]:
    """One step of the package's decoder in bfloat16, and how many weights it has."""
    torch.manual_seed(0)
    hard = isinstance(objective, HardObjective)
    decoder = AttentionDecoder(
        DecoderConfig(
            vocabulary_size=WORDS, attention="hard" if hard else "soft", attention_size=SIZE, annotation_norm="layer"
        )
    )
    optimiser = torch.optim.AdamW(decoder.parameters(), lr=1e-4, fused=True)
    annotations = torch.rand(BATCH, PLACES, SIZE).half()
    captions = torch.randint(2, WORDS, (BATCH, STEPS))
    generator = torch.Generator().manual_seed(0)
    used = kernels.compiled() if fast else kernels.PLAIN
    telling: Callable[..., object] = UnrolledTell(used) if fast else tell

    def step() -> None:
        draws = objective.draw(BATCH, STEPS, generator)
        with torch.autocast("cpu", torch.bfloat16):
            told = telling(decoder, annotations, captions, paths=objective.paths, look=draws.look)
            loss = objective(told, captions, draws, word_scores=used.word_scores).total  # type: ignore[arg-type]
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step, count(decoder)


def tutorial_step() -> tuple[Callable[[], None], int]:
    """One step of the tutorial's decoder in float32."""
    torch.manual_seed(0)
    decoder = TutorialDecoder(vocabulary=WORDS, size=SIZE)
    optimiser = torch.optim.Adam(decoder.parameters(), lr=1e-4)
    annotations = torch.rand(BATCH, PLACES, SIZE)
    captions = torch.randint(2, WORDS, (BATCH, STEPS))

    def step() -> None:
        loss = decoder.loss(annotations, captions)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    return step, count(decoder)


def count(module: nn.Module) -> int:
    """The number of weights."""
    return sum(parameter.numel() for parameter in module.parameters())


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description="Time a training step of the decoder.")
    parser.add_argument("--repeats", type=int, default=5, help="Repeats of each step, in turns.")
    repeats = parser.parse_args().repeats
    rates = measure_rates()
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads; {rates}\n")

    made = {"tutorial's decoder, float32": (*tutorial_step(), 1, rates.fp32)}
    hard = {"samples": 1, "coin": "both", "baseline": "expected"}
    for kind in ("soft", "hard"):
        for path in ("plain path", "fast path"):
            if path == "fast path" and not kernels.can_compile():
                continue
            objective = SoftObjective(label_smoothing=0.1) if kind == "soft" else HardObjective(**hard)  # type: ignore
            made[f"{kind}, {path}"] = (*package_step(objective, path == "fast path"), objective.paths, rates.bf16)
    began = time.perf_counter()
    for step, *_ in made.values():
        step()
    print(f"first steps, compilation included: {time.perf_counter() - began:.0f} s\n")
    times = interleaved({name: step for name, (step, *_) in made.items()}, repeats)
    base = statistics.median([times["tutorial's decoder, float32"].median])
    print("| step | ms, median | lowest to highest | times as fast as the tutorial's | floor, ms | times the floor |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, (_, weights, paths, products) in made.items():
        least, timing = floor(rates, paths=paths, weights=weights, products=products), times[name]
        spread = f"{1000 * timing.low:.0f} to {1000 * timing.high:.0f}"
        print(
            f"| {name} | {1000 * timing.median:.0f} | {spread} | {base / timing.median:.1f} | {1000 * least:.0f} | "
            f"{timing.median / least:.1f} |"
        )
    print(f"\npeak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
