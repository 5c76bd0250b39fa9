"""What hard attention saves: the time to read one location instead of the weighted mean of all, beside the scores.

    OMP_NUM_THREADS=1 python benchmarks/hard_saving.py

For L locations of D = 512 numbers and an attention of A = 512, times of one word, median of seven. The last column is
the time of attention when it reads one location, relative to the mean.
"""

import time
from collections.abc import Callable
from statistics import median

import torch

D = A = n = 512


def seconds(work: Callable[[], object], times: int) -> float:
    """The median time of one call."""
    work()
    found = []
    for _ in range(7):
        began = time.perf_counter()
        for _ in range(times):
            work()
        found.append((time.perf_counter() - began) / times)
    return median(found)


def main() -> None:
    """Print a row for each size of map."""
    generator = torch.Generator().manual_seed(0)
    hidden, weight, energy = (torch.randn(*shape, generator=generator) for shape in ((1, n), (n, A), (A,)))
    print("locations  scores (µs)  mean (µs)  one location (µs)  hard / soft")
    for locations in (196, 784, 3136, 12544):
        annotations = torch.randn(1, locations, D, generator=generator)
        keys = torch.randn(1, locations, A, generator=generator)
        alpha = torch.softmax(torch.randn(1, locations, generator=generator), -1)

        def scores(keys: torch.Tensor = keys) -> torch.Tensor:
            return torch.tanh(keys + (hidden @ weight)[:, None]) @ energy

        def mean(alpha: torch.Tensor = alpha, annotations: torch.Tensor = annotations) -> torch.Tensor:
            return alpha[:, None] @ annotations

        def one(alpha: torch.Tensor = alpha, annotations: torch.Tensor = annotations) -> torch.Tensor:
            return annotations[0, alpha.argmax(-1)]

        times = max(1, 20_000 // locations)
        of_scores, of_mean, of_one = (seconds(work, times) for work in (scores, mean, one))
        share = (of_scores + of_one) / (of_scores + of_mean)
        row = f"{locations:9}  {of_scores * 1e6:11.0f}  {of_mean * 1e6:9.0f}  {of_one * 1e6:17.0f}  {share:11.2f}"
        print(row)


if __name__ == "__main__":
    main()
