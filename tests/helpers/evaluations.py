"""Evaluations that are kept, for the tests of research/."""

import json
from pathlib import Path
from typing import Any

import results

from show_attend_tell.data.datasets import Dataset


def keep(dataset: Dataset, folder: Path, name: str, wrong: int, bleu: float = 50.0) -> None:
    """Keep an evaluation of test whose captions are the references' words, but for the first ``wrong`` ones.

    A photo's CIDEr is 0 where its caption is wrong, and 10 for each word of its references where it is right.
    """
    rows = [
        {
            "photo": example.name,
            "caption": "nothing at all" if number < wrong else " ".join(example.captions[0]),
            "cider": 0.0 if number < wrong else 10.0 * len(example.captions[0]),
        }
        for number, example in enumerate(dataset.split("test"))
    ]
    found: dict[str, Any] = dict.fromkeys(("bleu_4", "cider", *(f"bleu_{n}_no_brevity" for n in range(1, 5))), bleu)
    found |= {
        "model": name,
        "data": dataset.name,
        "split": "test",
        "beam_size": 5,
        "attention_mode": "mean",
        "meteor": None,
    }
    found |= {"length_penalty": 0.5, "rerank_weight": 0.0, "tokens": "split", "results": rows}
    results.keep(json.loads(json.dumps(found)), name, folder)
