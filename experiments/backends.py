"""Whether ONNX Runtime's captions are PyTorch's, photo by photo, and how long each takes.

    python experiments/backends.py flickr8k/ --model flickr8k-soft --split test --lines backends.jsonl

Both compute in float32, from the photo's file. A line of the file is one photo: both captions, their log p, the largest
difference of α, and the seconds of each. A second call goes on where the first one stopped. At the end it prints how
many captions are equal, and those that are not.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from show_attend_tell.captioner import Caption, Captioner
from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.model.search import FastBeamSearch


def both(name: str) -> tuple[Captioner, Captioner]:
    """A model on PyTorch, in float32, and on ONNX Runtime."""
    usual, light = (Captioner.from_pretrained(name, device="cpu", backend=backend) for backend in ("torch", "onnx"))
    annotate = usual.encoder.annotate
    usual.encoder.annotate = lambda pixels: annotate(pixels, precision="float32")  # type: ignore[assignment,misc,method-assign]
    usual.beam_search = FastBeamSearch()
    return usual, light


def compared(photo: Path, captioners: tuple[Captioner, Captioner], **options: Any) -> dict[str, Any]:
    """The line of one photo."""
    made: list[Caption] = []
    seconds = []
    for captioner in captioners:
        begun = time.perf_counter()
        made.append(captioner(photo, **options))
        seconds.append(time.perf_counter() - begun)
    usual, light = made
    line: dict[str, Any] = {"photo": photo.name, "seconds": seconds}
    line |= {"captions": [str(usual), str(light)], "log_p": [usual.log_probability, light.log_probability]}
    line["agreement"] = [usual.agreement, light.agreement]
    if str(usual) == str(light) and usual.attention is not None and light.attention is not None:
        line["alpha"] = float(np.abs(usual.attention - light.attention).max())
    return line


def main() -> None:
    """Compare, write and print."""
    parser = argparse.ArgumentParser(description="Compare the captions of both back ends.")
    parser.add_argument("data", type=Path, help="Data folder.")
    parser.add_argument("--model", default="flickr8k-soft", help="Model.")
    parser.add_argument("--split", default="test", help="Part of the data.")
    parser.add_argument("--photos", type=int, help="Number of photos, the first ones.")
    parser.add_argument("--beam", type=int, help="Beam width. [default: the model's]")
    parser.add_argument("--lines", type=Path, default=Path("backends.jsonl"), help="File of the comparisons.")
    chosen = parser.parse_args()
    torch.set_grad_enabled(False)
    photos = [Path(example.photo) for example in read_dataset(chosen.data).split(chosen.split)][: chosen.photos]
    known = [json.loads(line) for line in chosen.lines.read_text().splitlines()] if chosen.lines.exists() else []
    captioners = both(chosen.model)
    with chosen.lines.open("a") as file:
        for photo in photos[len(known) :]:
            known.append(compared(photo, captioners, beam=chosen.beam))
            print(json.dumps(known[-1], ensure_ascii=False), file=file, flush=True)
    others = [line for line in known if line["captions"][0] != line["captions"][1]]
    print(f"{len(known) - len(others)} of {len(known)} captions are equal")
    equal = [line for line in known if line not in others]
    apart = max((abs(line["log_p"][0] - line["log_p"][1]) for line in equal), default=0.0)
    alpha = max((line.get("alpha", 0.0) for line in equal), default=0.0)
    print(f"their log p differ by at most {apart:.2g}, α by at most {alpha:.2g}")
    usual, light = (median(line["seconds"][number] for line in known) for number in (0, 1))
    print(f"median seconds a photo: PyTorch {usual:.3f}, ONNX Runtime {light:.3f}")
    for line in others:
        print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    main()
