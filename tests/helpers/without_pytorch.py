"""A program for the environment without PyTorch: captions of a photo in many ways, as JSON on standard output.

`test_without_pytorch.py` makes the same captions with PyTorch, by `captions_of` below.
"""

import json
import sys
from typing import Any

from show_attend_tell import Captioner

WAYS = {  # of each encoder and each attention, with a reranker and without
    "everyday-soft": [{}],
    "flickr8k-hard": [{"beam_size": 9, "num_captions": 3}, {"beam_size": 2, "attention_mode": "sample", "seed": 3}],
}
SENTENCE = "two dogs run through the grass"


def captions_of(captioner: Captioner, photo: str) -> list[dict[str, Any]]:
    """A model's captions of a photo in every way, and a sentence explained."""
    captions = [captioner(photo, **way) for way in WAYS[captioner.name]]
    captions.append(captioner.explain(photo, SENTENCE))
    return [caption.to_dict() for caption in captions]


if __name__ == "__main__":
    found = {name: captions_of(Captioner.from_pretrained(name), sys.argv[1]) for name in WAYS}
    print(json.dumps({"captions": found, "modules": sorted(name for name in sys.modules if "." not in name)}))
