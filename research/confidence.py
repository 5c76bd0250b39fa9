"""How well the confidence of nouns tells which are right, and what `min_confidence` changes.

    python research/confidence.py flickr8k/ everyday-soft flickr8k-soft --coco coco/ --json confidence.json

results/confidence.json has those of the shipped models on test.

A noun is right if one of the photo's captions by people has it, in the singular or the plural; a synonym counts as
wrong. The expected calibration error is over ten bins of equally many nouns. CIDEr-D has the document frequencies of
all photos of the split.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measure import arguments, auroc
from numpy.typing import NDArray
from shipped import SHIPS
from stages import reporting

from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.data.parts_of_speech import singular
from show_attend_tell.errors import SatError
from show_attend_tell.evaluation import searched
from show_attend_tell.files import write_text
from show_attend_tell.metrics.bootstrap import draw, interval
from show_attend_tell.metrics.cider import CiderD
from show_attend_tell.rerank.confidence import least_trusted

THRESHOLDS = (0.0, 0.3, 0.5, 0.7)  # values of min_confidence
RESAMPLES = 500
Array = NDArray[Any]


def calibration_error(confidence: Array, right: Array) -> float:
    """The mean distance of the confidence from the share of right nouns, over ten bins of equally many nouns."""
    bins = np.array_split(np.argsort(confidence, kind="stable"), 10)
    return float(
        sum(len(each) * abs(confidence[each].mean() - right[each].mean()) for each in bins if len(each)) / len(right)
    )


def measured(captioner: Captioner, dataset: Dataset, split: str, *, cache: Path) -> dict[str, Any]:
    """The figures of a model on a split."""
    scale, vocabulary = captioner.decoding.confidence, captioner.checkpoint.vocabulary
    if scale is None:
        raise SatError(f"{captioner.name} has no confidence: train it with more photos in val")
    dataset = dataset.retokenize(vocabulary.tokenizer)
    cider = CiderD([example.captions for example in dataset.split(split)])
    confidence, right, photo, likelihood = [], [], [], []
    chosen: dict[float, list[tuple[float, int, int]]] = {
        least: [] for least in THRESHOLDS
    }  # CIDEr, right nouns, all nouns
    of_photos: list[tuple[float, float]] = []  # its confidence, and log p a word
    for examples, features, found in searched(captioner, dataset, split, captioner.resolve_config(), cache=cache):
        judged = scale.judge(captioner.backend, features, found, found)
        for example, hypotheses, values in zip(examples, found, judged, strict=True):
            named = {each for words in example.captions for word in words for each in (word, singular(word))}
            worst = least_trusted(hypotheses, values)
            for least, rows in chosen.items():
                reaching = (number for number, each in enumerate(worst) if each >= least)
                number = next(reaching, int(np.argmax(worst))) if least else 0
                words = hypotheses[number].said(vocabulary, compared=True)
                nouns = [
                    (singular(shown) or shown) in named
                    for shown, each in zip((word.split()[-1] for word in words), values[number], strict=True)
                    if each == each
                ]
                rows.append((100 * cider(" ".join(words).split(), example.captions), sum(nouns), len(nouns)))
                if not least:
                    own = [each for each in values[0] if each == each]
                    steps = zip(hypotheses[0].word_log_probabilities, values[0], strict=True)
                    likelihood += [log_p for log_p, each in steps if each == each]
                    confidence += own
                    right += nouns
                    photo += [len(of_photos)] * len(nouns)
                    length = len(words) + hypotheses[0].ended
                    of_photos.append((float(np.mean(own or [0])), hypotheses[0].log_probability / length))
    nouns_of = [np.array(each) for each in (confidence, right, photo, likelihood)]
    return figures(nouns_of, np.array(of_photos), chosen)


def figures(nouns: Sequence[Array], of_photos: Array, chosen: dict[float, Any]) -> dict[str, Any]:
    """The figures of nouns (confidence, whether right, photo, log p) and of photos, as plain values."""
    confidence, right, photo, likelihood = nouns
    number = len(of_photos)
    times = draw(np.random.default_rng(0), number, number, RESAMPLES).astype(int)[:, photo]
    resampled = np.array([auroc(np.repeat(confidence, each), np.repeat(right, each)) for each in times])
    scores = np.array([score for score, _, _ in chosen[0.0]])
    best = [scores[np.argsort(-of_photos[:, column], kind="stable")[: number // 2]].mean() for column in (0, 1)]
    found: dict[str, Any] = {
        "photos": number,
        "nouns": len(right),
        "right": right.mean(),
        "auroc": auroc(confidence, right),
        "auroc_interval": interval(resampled),
        "auroc_of_log_p": auroc(likelihood, right),
        "calibration_error": calibration_error(confidence, right),
        "cider": scores.mean(),
        "cider_of_half_by_confidence": best[0],
        "cider_of_half_by_log_p": best[1],
        "min_confidence": [
            {
                "least": least,
                "right": sum(each for _, each, _ in rows) / sum(each for _, _, each in rows),
                "nouns_a_caption": sum(each for _, _, each in rows) / number,
                "cider": float(np.mean([each for each, _, _ in rows])),
            }
            for least, rows in chosen.items()
        ],
    }
    return json.loads(json.dumps(found, default=float), parse_float=lambda text: round(float(text), 4))  # type: ignore[no-any-return]


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Measure, print, and write the figures."""
    parser = arguments(__doc__, split="test", seeded=False)
    parser.add_argument("models", nargs="+", choices=SHIPS, help="shipped models")
    parser.add_argument("--coco", type=Path, help="folder of COCO's photos")
    options = parser.parse_args(given)
    folders = {"flickr8k": options.data} | ({} if options.coco is None else {"coco": options.coco})
    everything: dict[str, Any] = {}
    for name in options.models:
        captioner = Captioner.from_pretrained(name, device=options.device)
        for data in (each for each in SHIPS[name].data if each in folders):
            found = measured(captioner, read_dataset(folders[data]), options.split, cache=options.cache)
            print(f"{name}, {data}, {options.split}: {json.dumps(found, indent=1)}", flush=True)
            everything[f"{name}, {data}"] = found
            if options.json is not None:
                write_text(options.json, json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
