"""How fast the decoder is, as ratios measured side by side in one run: `python benchmarks/decoder.py`.

Each pair is timed in turns, five times, and the ratio of the medians is printed; single times say little on a shared
machine. The decoder is the shipped models' size, a mini-batch 64 captions of 12 words.
"""

import statistics
import time
from collections.abc import Callable

import torch

from show_attend_tell.model.decoder import AttentionDecoder, DecoderConfig
from show_attend_tell.model.interface import tell
from show_attend_tell.model.search import beam_search
from show_attend_tell.training.losses import HardObjective, SoftObjective

BATCH, STEPS, PLACES, WORDS = 64, 12, 196, 2539


def ratio(name: str, first: Callable[[], object], second: Callable[[], object], rounds: int = 5) -> None:
    """Print how many times as long ``second`` takes as ``first``."""
    times: dict[int, list[float]] = {0: [], 1: []}
    for turn in range(rounds + 1):
        for which, action in enumerate((first, second)):
            began = time.perf_counter()
            action()
            if turn:  # the first round warms up
                times[which].append(time.perf_counter() - began)
    one, other = statistics.median(times[0]), statistics.median(times[1])
    print(f"{name}: {other / one:.2f} ({1000 * one:.0f} ms against {1000 * other:.0f} ms)")


def step(decoder: AttentionDecoder, objective: SoftObjective | HardObjective, *, bf16: bool) -> Callable[[], None]:
    """One training step without the optimiser."""
    annotations = torch.rand(BATCH, PLACES, decoder.config.annotation_size)
    captions = torch.randint(2, WORDS, (BATCH, STEPS))
    generator = torch.Generator().manual_seed(0)

    def run() -> None:
        draws = objective.draw(BATCH, STEPS, generator)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            told = tell(decoder, annotations, captions, paths=objective.paths, look=draws.look)
            loss = objective(told, captions, draws).total
        decoder.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]

    return run


def main() -> None:
    decoder = AttentionDecoder(DecoderConfig(vocabulary_size=WORDS, attention_size=256, annotation_norm="layer"))
    soft, hard = SoftObjective(), HardObjective(samples=1, coin="both", baseline="expected")
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    ratio("training step, float32 / bfloat16", step(decoder, soft, bf16=True), step(decoder, soft, bf16=False))
    ratio("training step, hard / soft", step(decoder, soft, bf16=True), step(decoder, hard, bf16=True))

    decoder.eval()
    photos = torch.rand(16, PLACES, 512)
    ratio(
        "beam of 5 over 16 photos, one by one / together",
        lambda: beam_search(decoder, photos, beam=5, max_length=15),
        lambda: [beam_search(decoder, photo[None], beam=5, max_length=15) for photo in photos],
    )


if __name__ == "__main__":
    main()
