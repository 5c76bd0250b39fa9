"""Give a model class words, and the generation settings with them that val chooses: a new folder of the model.

    python research/class_words.py everyday-soft runs/everyday-soft flickr8k/ coco/
    python research/class_words.py everyday-soft runs/everyday-soft flickr8k/ coco/ --only-confidence

Class words (`rerank.class_words`) are fitted to the training photos of the data. The vals choose the beam size, the
length penalty, the rerank weight, the rare-word exponent and the cost of a second use, with class words and without
them: of all whose mean CIDEr is within `NEAR` of the best, those with the largest share of right nouns. The confidence
is fitted anew, since it depends on the beam. With ``--only-confidence``, all else stays.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from stages import new_parser, reporting

from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.data.parts_of_speech import part_of_speech, singular
from show_attend_tell.data.photos import open_photo
from show_attend_tell.errors import SatError
from show_attend_tell.evaluation import searched
from show_attend_tell.metrics.cider import cider
from show_attend_tell.rerank import class_words, confidence
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.hypotheses import rank
from show_attend_tell.vision.feature_cache import default_cache

BEAMS, GAMMAS, OMEGAS, COSTS = (5, 10, 20), (0.5, 0.75, 1.0), (4.0, 8.0, 16.0), (0.0, 2.0)
EXPONENTS, NEAR = (0.5, 0.75), 0.5  # of rare words; points of CIDEr
BATCH = 8  # photos that are encoded together


def photos_of(
    captioner: Captioner, dataset: Dataset, classes: class_words.Classes, split: str = "train"
) -> Iterator[tuple[Any, Any]]:
    """p of each class (V,) and the captions of each photo of a split."""
    examples, square = dataset.split(split), captioner.backend.encoder.preprocessing
    for start in range(0, len(examples), BATCH):
        batch = examples[start : start + BATCH]
        pixels = np.stack([square.pixels(open_photo(each.photo)) for each in batch])
        probabilities = classes.probabilities(captioner.backend.encode(pixels))
        yield from zip(probabilities, (each.captions for each in batch), strict=True)


def chosen(captioner: Captioner, datasets: Sequence[Dataset], cache: Path) -> tuple[GenerationConfig, dict[str, float]]:
    """The settings that the vals choose, and the best mean CIDEr of each beam size, cost and class weight."""
    scores: dict[GenerationConfig, float] = {}
    right: dict[GenerationConfig, float] = {}  # the mean share of right nouns
    for beam, cost, weight, exponent in product(BEAMS, COSTS, (0.0, 1.0), EXPONENTS):
        config = captioner.resolve_config(
            beam_size=beam, repetition_cost=cost, class_weight=weight, rare_word_exponent=exponent
        )
        rankings = [config.merge(length_penalty=g, rerank_weight=w) for g, w in product(GAMMAS, OMEGAS)]
        for dataset in datasets:
            said: dict[GenerationConfig, list[list[str]]] = {each: [] for each in rankings}
            references: list[Sequence[Sequence[str]]] = []
            for examples, _, found in searched(captioner, dataset, "val", config, cache=cache):
                references += [example.captions for example in examples]
                for each in rankings:
                    best = (rank(of, each.length_penalty, each.rerank_weight)[0] for of in found)
                    said[each] += [" ".join(one.said(captioner.checkpoint.vocabulary)).split() for one in best]
            for each, captions in said.items():
                scores[each] = scores.get(each, 0.0) + cider(captions, references) / len(datasets)
                right[each] = right.get(each, 0.0) + right_nouns(captions, references) / len(datasets)
    best_of: dict[tuple[float, ...], GenerationConfig] = {}
    for each in sorted(scores, key=scores.__getitem__):
        best_of[each.beam_size, each.repetition_cost, each.class_weight] = each
    near = [each for each, score in scores.items() if score >= max(scores.values()) - NEAR]
    return max(near, key=right.__getitem__), {each.summary(): round(scores[each], 2) for each in best_of.values()}


def right_nouns(captions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> float:
    """The share of the captions' nouns that one of the people used."""
    right = []
    for words, by_people in zip(captions, references, strict=True):
        used = {singular(word) for caption in by_people for word in caption}
        right += [singular(word) in used for word in words if part_of_speech(word) == "noun"]
    return float(np.mean(right))


def fitted_confidence(captioner: Captioner, datasets: Sequence[Dataset], cache: Path) -> Any:
    """The confidence of nouns by the vals, as training fits it, with the captioner's own settings."""
    sizes = [len(dataset.split("val")) for dataset in datasets]
    model = captioner.backend, captioner.decoding.reranker, captioner.decoding.class_words
    batches = (
        (*model, features, found, [example.captions for example in examples], [weight] * len(examples))
        for dataset, weight in zip(datasets, confidence.balanced(sizes), strict=True)
        for examples, features, found in searched(captioner, dataset, "val", captioner.resolve_config(), cache=cache)
    )
    return confidence.fit(captioner.checkpoint.vocabulary, batches)


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Fit, choose, and save."""
    parser = new_parser(__doc__)
    parser.add_argument("model", help="model to start from")
    parser.add_argument("output", type=Path, help="folder for the model")
    parser.add_argument("data", nargs="+", type=Path, help="folders of its training data, with train and val")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of the feature cache")
    parser.add_argument("--only-confidence", action="store_true", help="fit nothing but the confidence")
    options = parser.parse_args(given)
    captioner = Captioner.from_pretrained(options.model)
    checkpoint, datasets = captioner.checkpoint, [read_dataset(folder) for folder in options.data]
    classes = class_words.classes_of(checkpoint.encoder.name)
    if classes is None:
        raise SatError(f"the encoder {checkpoint.encoder.name} has no classifier: class words need one")
    photos = (photo for dataset in datasets for photo in photos_of(captioner, dataset, classes))
    if not options.only_confidence:
        checkpoint.class_words = class_words.fit(classes, checkpoint.vocabulary, photos)
        captioner = Captioner(checkpoint, captioner.backend, name=captioner.name)
        checkpoint.generation, checkpoint.training["validation_cider"] = chosen(captioner, datasets, options.cache)
    checkpoint.confidence = fitted_confidence(captioner, datasets, options.cache)
    checkpoint.save(options.output, bits=4)
    print(f"{options.output} generates captions with {checkpoint.generation.summary()}")


if __name__ == "__main__":
    main()
