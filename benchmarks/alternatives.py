"""Processor time of a caption beside that of other captioners: side by side, in turns, one thread.

    python benchmarks/alternatives.py

The others have random weights, which do the same work as trained ones, and make as many words as captions usually have:

- BLIP-base, greedy, 384 × 384 pixels;
- a vision-language model of the sizes of SmolVLM-256M, greedy, in float32, on one tile of 512 × 512 pixels. (By default
  it cuts a photo into up to 17 tiles, and takes as much longer);
- ResNet-101 on 256 × 256 pixels and an LSTM with soft attention, by beam search (5), as a popular tutorial has it.

Figures are the median of processor seconds a photo, without loading and without reading the photo for the others. Needs
the extra `transformers`.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

from show_attend_tell import Captioner
from show_attend_tell.threads import prepare_process, use_threads

PHOTOS = sorted((Path(__file__).parent.parent / "examples").glob("*.jpg"))
OURS = "everyday-soft"
WORDS = 12  # with the end token
TILE = 64  # tokens that stand for a tile of a photo


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds that a piece of work takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def others() -> dict[str, tuple[float, Callable[[], object]]]:
    """The other captioners by name: millions of parameters, and what captions one photo."""
    import torch
    from transformers import (
        BlipConfig,
        BlipForConditionalGeneration,
        ResNetConfig,
        ResNetModel,
        SmolVLMConfig,
        SmolVLMForConditionalGeneration,
    )
    from tutorial_decoder import TutorialDecoder

    making = {"min_new_tokens": WORDS, "max_new_tokens": WORDS, "num_beams": 1, "do_sample": False}
    blip = BlipForConditionalGeneration(BlipConfig()).eval()
    text = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "head_dim": 64}
    text |= {"num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49280}
    seen = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
    seen |= {"image_size": 512, "patch_size": 16}
    config = SmolVLMConfig(
        text_config={"model_type": "llama", **text}, vision_config=seen, scale_factor=4, image_token_id=49190
    )
    small = SmolVLMForConditionalGeneration(config).eval()
    prompt = torch.tensor([[1, *[config.image_token_id] * TILE, *range(2, 12)]])
    network = ResNetModel(ResNetConfig(depths=[3, 4, 23, 3])).eval()
    decoder = TutorialDecoder(vocabulary=9490, size=512, annotations=2048).eval()
    decoder.output_words.bias.data[0] = -100  # it never ends, but at WORDS

    def blips() -> object:
        return blip.generate(pixel_values=torch.zeros(1, 3, 384, 384), **making)

    def smalls() -> object:
        return small.generate(input_ids=prompt, pixel_values=torch.zeros(1, 1, 3, 512, 512), **making)

    def tutorial() -> object:
        found = network(torch.zeros(1, 3, 256, 256)).last_hidden_state
        annotations = torch.nn.functional.adaptive_avg_pool2d(found, 14)[0].flatten(1).T
        return decoder.search(annotations, beam_size=5, max_length=WORDS)

    def millions(*modules: torch.nn.Module) -> float:
        return sum(each.numel() for module in modules for each in module.parameters()) / 1e6

    return {
        "BLIP-base": (millions(blip), blips),
        "as SmolVLM-256M": (millions(small), smalls),
        "ResNet-101 + LSTM": (millions(network, decoder), tutorial),
    }


def main() -> None:
    """Measure all in turns, and print their times and how many times ours each takes."""
    prepare_process()
    use_threads(1)
    import torch

    torch.set_num_threads(1)
    captioner, made = Captioner.from_pretrained(OURS, backend="onnx"), others()
    times: dict[str, list[float]] = {name: [] for name in (OURS, *made)}
    for path in (PHOTOS[0], *PHOTOS):  # the first photo twice, since the first caption is slower
        times[OURS].append(seconds(lambda path=path: captioner(path)))  # type: ignore[misc]
        with torch.inference_mode():
            for name, (_, work) in made.items():
                times[name].append(seconds(work))
    medians = {name: statistics.median(found[1:]) for name, found in times.items()}
    for name, found in times.items():
        size = f"{made[name][0]:.0f} million parameters, " if name in made else ""
        print(
            f"{name}: {size}{medians[name]:.2f} s of the processor a photo ({min(found[1:]):.2f} to "
            f"{max(found[1:]):.2f}), {medians[name] / medians[OURS]:.1f} times {OURS}"
        )


if __name__ == "__main__":
    main()
