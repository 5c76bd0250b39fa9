"""What class words bring on val, beside what other words in their place bring.

    python research/class_word_controls.py everyday-soft flickr8k/ coco/ --photos 400

The rows of each data set: no class words; those of another photo; the expected words of the reranker in their place;
the most probable class put in place of the caption's first noun, where p is `SURE` or more; class words. All have the
settings that val chose with class words; the best without them is in notes/class-words.md. A row, without interval, has
CIDEr, the share of right nouns, and how many captions of photos with such a class have its own name.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from class_words import right_nouns
from stages import new_parser, reporting

from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.data.parts_of_speech import part_of_speech
from show_attend_tell.evaluation import searched
from show_attend_tell.metrics.cider import cider
from show_attend_tell.rerank.class_words import COMMON, PROBABLE, SURE, ClassFilter, PhotoWords
from show_attend_tell.rerank.ngrams import VisualNgrams
from show_attend_tell.vision.feature_cache import default_cache

Filter = Callable[[Any, float], ClassFilter]


def of_reranker(captioner: Captioner) -> Filter:
    """Class words by the shares of captions that the reranker expects to have them, each word a class of its own."""
    words, ngrams = captioner.decoding.class_words, captioner.decoding.reranker
    assert words is not None and isinstance(ngrams, VisualNgrams)
    columns = np.array([ngrams.numbers.get((0, word), -1) for word in words.ids.tolist()])
    usual = np.where(columns < 0, 0, ngrams.prior[columns])

    def filtered(features: Any, weight: float) -> ClassFilter:
        photos = []
        for shares in ngrams.expected(captioner.backend, features):
            p = np.where(columns < 0, 0, np.minimum(shares[columns], 1))
            kept = np.flatnonzero(p > PROBABLE)
            common, rare = np.full(len(kept), COMMON), words.rates[kept]
            photos.append(PhotoWords(words.ids[kept], np.eye(len(kept)) > 0, p[kept], usual[kept], common, rare, None))
        return ClassFilter(photos, weight)

    return filtered


def of_other_photos(captioner: Captioner, probabilities: np.ndarray[Any, Any]) -> Filter:
    """Class words of the photo that is half of the split away, when photos come in the split's order."""
    others = iter(np.roll(probabilities, len(probabilities) // 2, axis=0))
    words = captioner.decoding.class_words
    assert words is not None
    return lambda features, weight: ClassFilter([words.photo(next(others)) for _ in features], weight)


def with_class(words: Sequence[str], name: str) -> list[str]:
    """A caption with a class in place of its first noun."""
    place = next((place for place, word in enumerate(words) if part_of_speech(word) == "noun"), None)
    return list(words) if place is None else [*words[:place], *name.split(), *words[place + 1 :]]


def rows(captioner: Captioner, dataset: Dataset, cache: Path) -> None:
    """Print the rows of a data set."""
    words, vocabulary = captioner.decoding.class_words, captioner.checkpoint.vocabulary
    assert words is not None
    usual, config = words.filter, captioner.resolve_config()
    references: list[Sequence[Sequence[str]]] = []
    found: list[np.ndarray[Any, Any]] = []

    def captions(instead: Filter = usual, weight: float = 1.0) -> list[list[str]]:
        words.filter = instead  # type: ignore[method-assign, assignment]
        references.clear()
        found.clear()
        said = []
        for examples, features, each in searched(
            captioner, dataset, "val", config.merge(class_weight=weight), cache=cache
        ):
            references.extend(example.captions for example in examples)
            found.append(words.classes.probabilities(features))
            said += [" ".join(captions[0].said(vocabulary)).split() for captions in each]
        return said

    plain = captions(weight=0.0)
    p = np.concatenate(found)
    names = [
        words.classes.names[row] if share >= SURE else "" for row, share in zip(p.argmax(1), p.max(1), strict=True)
    ]
    forced = [with_class(said, name) if name else said for said, name in zip(plain, names, strict=True)]
    made = {
        "no class words": plain,
        "another photo's": captions(of_other_photos(captioner, p)),
        "the reranker's words": captions(of_reranker(captioner)),
        "the class for the first noun": forced,
        "class words": captions(),
    }
    for title, said in made.items():
        named = sum(f" {name} " in f" {' '.join(each)} " for name, each in zip(names, said, strict=True) if name)
        score, right = cider(said, references), right_nouns(said, references)
        print(f"{title:30} {score:6.2f}  {right:.3f}  {named} of {sum(map(bool, names))}", flush=True)


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Print the rows of each data set."""
    parser = new_parser(__doc__)
    parser.add_argument("model", help="a model with class words")
    parser.add_argument("data", nargs="+", type=Path, help="folders of data with val")
    parser.add_argument("--photos", type=int, default=10**6, help="photos of each val, at most")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of the feature cache")
    options = parser.parse_args(given)
    captioner = Captioner.from_pretrained(options.model)
    for folder in options.data:
        dataset = read_dataset(folder)
        examples = dataset.split("val")[: options.photos]
        print(f"{folder.name}, val, {len(examples)} photos: CIDEr, right nouns, named")
        rows(captioner, dataclasses.replace(dataset, examples=tuple(examples)), options.cache)


if __name__ == "__main__":
    main()
