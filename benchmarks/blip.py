"""Processor time of a caption beside that of BLIP-base, a vision-language model of 2022: side by side, one thread.

    python benchmarks/blip.py

BLIP has random weights here, which do the same work as trained ones, and makes as many words as captions usually have.
Each photo is captioned by both in turns; figures are the median of processor seconds, without loading. Needs the extra
`transformers`.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

from show_attend_tell import Captioner
from show_attend_tell.data.photos import open_photo
from show_attend_tell.threads import prepare_process, use_threads

PHOTOS = sorted((Path(__file__).parent.parent / "examples").glob("*.jpg"))
WORDS = 12  # with the end token


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds that a piece of work takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    """Measure both, and print their times and the ratio."""
    prepare_process()
    use_threads(1)
    import torch
    from transformers import BlipConfig, BlipForConditionalGeneration

    torch.set_num_threads(1)
    captioner = Captioner.from_pretrained("everyday-soft", backend="onnx")
    blip = BlipForConditionalGeneration(BlipConfig()).eval()
    size = blip.config.vision_config.image_size
    times: dict[str, list[float]] = {"everyday-soft": [], "BLIP-base": []}
    for path in PHOTOS:
        photo = open_photo(path)
        pixels = torch.zeros(1, 3, size, size)
        times["everyday-soft"].append(seconds(lambda photo=photo: captioner(photo)))  # type: ignore[misc]
        with torch.inference_mode():
            making = {"pixel_values": pixels, "min_new_tokens": WORDS, "max_new_tokens": WORDS, "num_beams": 1}
            times["BLIP-base"].append(seconds(lambda making=making: blip.generate(**making)))  # type: ignore[misc]
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, found in times.items():
        print(f"{name}: {medians[name]:.2f} s of the processor a photo ({min(found):.2f} to {max(found):.2f})")
    print(f"{medians['BLIP-base'] / medians['everyday-soft']:.0f} times")


if __name__ == "__main__":
    main()
