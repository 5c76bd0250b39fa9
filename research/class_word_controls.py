"""What class words bring on val, beside what other words in their place bring.

    python research/class_word_controls.py everyday-soft flickr8k/ coco/ --photos 400
    python research/class_word_controls.py everyday-soft coco/ --constants
    python research/class_word_controls.py everyday-soft flickr8k/ coco/ --names

The rows of each data set: no class words; those of another photo; the expected words of the reranker in their place;
the most probable class put in place of the caption's first noun, where p is `SURE` or more; class words. All have the
settings that val chose with class words; the best without them is in notes/class-words.md. A row, without interval, has
CIDEr, the share of right nouns, and how many captions of photos with such a class have its own name.

With ``--constants``, the rows have other values of the constants of `rerank.class_constants`, one at a time.

With ``--names``, the confidence of names is fitted: to photos of val and every third of training whose most probable
class has a name and p of `SURE` or more. A name counts as right if people's captions have the class or a word at most
`LEVELS` above it. So a wrong breed of dog counts as right, and a small thing that nobody mentions as wrong.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from class_words import photos_of, right_nouns
from stages import new_parser, reporting

from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.data.parts_of_speech import part_of_speech, singular
from show_attend_tell.evaluation import searched
from show_attend_tell.metrics.bootstrap import RESAMPLES, draw, interval
from show_attend_tell.metrics.cider import CiderD, cider
from show_attend_tell.rerank import class_filter, class_words
from show_attend_tell.rerank.class_constants import COMMON, PHOTOS_OF_RARE, PROBABLE, RARE, SURE, UNSEEN
from show_attend_tell.rerank.class_filter import ClassFilter, PhotoWords
from show_attend_tell.rerank.class_words import VAGUE, ClassWords
from show_attend_tell.rerank.ngrams import VisualNgrams
from show_attend_tell.search.hypotheses import rank
from show_attend_tell.vision.feature_cache import default_cache
from show_attend_tell.vision.sources import cached

Filter = Callable[[Any, float], ClassFilter]
LEVELS = 4  # above a class in WordNet, of words that support its name
BATCH = 8  # photos that are searched together
IN_FILTER: Any = class_filter  # constants as the modules have them, also while a run varies them
IN_WORDS: Any = class_words
TRIED = {  # other values of the constants
    "LEVELS": (1, 3),
    "PROBABLE": (1e-3, 1e-2),
    "COMMON": (0.15, 0.6),
    "RARE": (1.2, 2.5),
    "POSSIBLE": (0.1, 0.5),
    "CERTAIN": (0.6, 0.95),
    "PHOTOS_OF_RARE": (7, 60),
    "SURE": (0.4, 0.7),
    "AT_THE_WORD": (0.5, 1.0),
    "NAME": (1.0, 2.5),
    "UNUSUAL": (0.001, 0.006),
}


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
            having = np.eye(len(kept)) > 0
            photos.append(PhotoWords(words.ids[kept], having, p[kept], usual[kept], words.rates[kept], None))
        return ClassFilter(photos, weight, words.places)

    return filtered


def of_other_photos(captioner: Captioner, probabilities: np.ndarray[Any, Any]) -> Filter:
    """Class words of the photo that is half of the split away, when photos come in the split's order."""
    others = iter(np.roll(probabilities, len(probabilities) // 2, axis=0))
    words = captioner.decoding.class_words
    assert words is not None
    return lambda features, weight: ClassFilter([words.photo(next(others)) for _ in features], weight, words.places)


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


def with_constants(captioner: Captioner) -> ClassWords:
    """The class words of a model with the constants that the modules have now, without its training photos.

    n of each rare word follows from its stored λ. A word that the model lacks counts as common, as in `moved`.
    """
    stored = captioner.checkpoint.class_words
    usual_words, classes = captioner.decoding.class_words, class_words.classes_of(captioner.checkpoint.encoder.name)
    assert stored is not None and usual_words is not None and classes is not None
    ids, having = class_words.known_words(classes, class_words.specific(captioner.checkpoint.vocabulary))
    row_of = {word: row for row, word in enumerate(usual_words.ids.tolist())}
    rows = np.array([row_of.get(word, -1) for word in ids.tolist()], dtype=np.int64)
    rarity = np.where(rows < 0, 0.0, (stored["rates"][rows] - COMMON) / (RARE - COMMON))  # s / (s + n)
    photos = PHOTOS_OF_RARE * (1 / np.maximum(rarity, 1e-9) - 1)
    new_rarity = IN_WORDS.PHOTOS_OF_RARE / (IN_WORDS.PHOTOS_OF_RARE + photos)
    new_rates = IN_WORDS.COMMON + (IN_WORDS.RARE - IN_WORDS.COMMON) * new_rarity
    expected = np.minimum(stored["usual_classes"] @ having, 1)
    arrays = {
        **stored,
        "rates": np.where(rarity < 1e-6, IN_WORDS.COMMON, new_rates).astype(np.float32),
        "usual": np.where(rows < 0, expected, stored["usual"][rows]).astype(np.float32),
    }
    return ClassWords(arrays, classes, captioner.checkpoint.vocabulary)


class Searches:
    """Best captions of val by class words with other constants; a photo is searched once for equal class words."""

    def __init__(self, captioner: Captioner, dataset: Dataset, cache: Path) -> None:
        self.captioner, self.known = captioner, dict[tuple[Any, ...], str]()
        self.references: list[Sequence[Sequence[str]]] = []
        self.features: list[Any] = []
        backend, decoding = captioner.backend, captioner.decoding
        assert isinstance(decoding.reranker, VisualNgrams)
        self.ngrams = decoding.reranker
        annotations = cached(dataset, backend.encoder, cache, splits=("val",), encode=backend.encode, show=False)
        for example in dataset.split("val"):
            self.references.append(example.captions)
            self.features.append(backend.features(annotations[[example.name]])[0])
        self.expected = [self.ngrams.expected(backend, features[None])[0] for features in self.features]
        self.means = np.stack([np.asarray(features, np.float32).mean(0) for features in self.features])

    def captions(self, words: ClassWords) -> list[list[str]]:
        """The caption of each photo."""
        keys = [key_of(words.photo(p)) for p in words.classes.probabilities(self.means[:, None])]
        missing = [photo for photo, key in enumerate(keys) if (photo, key) not in self.known]
        decoding = dataclasses.replace(self.captioner.decoding, class_words=words)
        config, vocabulary = decoding.config, decoding.vocabulary
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            features = np.stack([self.features[photo] for photo in batch])
            found = decoding.searched(self.captioner.backend, features, [0] * len(batch))
            for photo, hypotheses in zip(batch, found, strict=True):
                ids = [hypothesis.words for hypothesis in hypotheses]
                scores = self.ngrams.agreements(self.expected[photo], ids, config.rare_word_exponent)
                scored = [
                    dataclasses.replace(one, rerank_score=score) for one, score in zip(hypotheses, scores, strict=True)
                ]
                best = rank(scored, config.length_penalty, config.rerank_weight)[0]
                self.known[photo, keys[photo]] = " ".join(best.said(vocabulary))
        return [self.known[photo, key].split() for photo, key in enumerate(keys)]


def key_of(photo: PhotoWords) -> tuple[Any, ...]:
    """All that the raises of a photo's class words depend on."""
    p = np.minimum(photo.having @ photo.p, 1)
    certain = (p > IN_FILTER.POSSIBLE) & (photo.rare != IN_FILTER.COMMON)
    slope = (IN_FILTER.POSSIBLE, IN_FILTER.CERTAIN) if certain.any() else ()
    arrays = (photo.ids, photo.having, photo.p, photo.usual, photo.rare[certain])
    return (*(array.tobytes() for array in arrays), photo.name, slope, IN_FILTER.COMMON, IN_FILTER.AT_THE_WORD)


def varied(captioner: Captioner, dataset: Dataset, cache: Path) -> None:
    """Print a row for each other value of a constant, and its difference to all constants as they are."""
    searches = Searches(captioner, dataset, cache)
    scorer = CiderD(searches.references)
    draws = draw(np.random.default_rng(0), len(searches.means), len(searches.means), RESAMPLES)
    as_it_is = None
    for name, values in {"as it is": (0.0,), **TRIED}.items():
        modules = [module for module in (class_filter, class_words) if hasattr(module, name)]
        usual = [getattr(module, name) for module in modules]
        for value in values:
            for module in modules:
                setattr(module, name, value)
            before = len(searches.known)
            captions = searches.captions(with_constants(captioner))
            pairs = zip(captions, searches.references, strict=True)
            scores = 100 * np.array([scorer(words, references) for words, references in pairs])
            as_it_is = scores if as_it_is is None else as_it_is
            difference = scores - as_it_is
            low, high = interval(draws @ difference / len(difference))
            print(
                f"{name:15} {value:6g} {scores.mean():6.2f}  {difference.mean():+5.2f} [{low:.2f}, {high:.2f}]"
                f"  {right_nouns(captions, searches.references):.3f}  {len(searches.known) - before} searched",
                flush=True,
            )
        for module, value in zip(modules, usual, strict=True):
            setattr(module, name, value)


def fit_names(captioner: Captioner, datasets: Sequence[Dataset]) -> None:
    """Print the slope and the offset of the confidence of names, with their standard errors."""
    words = captioner.decoding.class_words
    assert words is not None
    p: list[float] = []
    right: list[bool] = []
    for dataset in datasets:
        few = dataclasses.replace(dataset, examples=(*dataset.split("val"), *dataset.split("train")[::3]))
        for split in ("val", "train"):
            for probabilities, captions in photos_of(captioner, few, words.classes, split):
                best = int(probabilities.argmax())
                if probabilities[best] >= SURE and words.stand_ins.get(best):
                    p.append(min(float(probabilities[best]), 1 - UNSEEN))
                    right.append(supported(words, best, captions))
    odds = np.log(np.array(p) / (1 - np.array(p)))
    inputs, solution = np.stack([odds, np.ones_like(odds)], axis=1), np.zeros(2)
    for _ in range(50):
        fitted = 1 / (1 + np.exp(-inputs @ solution))
        curvature = (inputs * (fitted * (1 - fitted))[:, None]).T @ inputs
        solution -= np.linalg.solve(curvature, inputs.T @ (fitted - right))
    errors = np.sqrt(np.diag(np.linalg.inv(curvature)))
    print(f"{len(right)} photos, {np.mean(right):.3f} right")
    for name, value, error in zip(("slope", "offset"), solution, errors, strict=True):
        print(f"{name} {value:.2f} ± {error:.2f}")


def supported(words: ClassWords, row: int, captions: Sequence[Sequence[str]]) -> bool:
    """Whether people's captions have a class, or a word near above it."""
    above = [word for word, level in words.classes.words[row] if level <= LEVELS and word not in VAGUE]
    text = " . ".join(" ".join(["", *caption, ""]) for caption in captions)
    singulars = {singular(word) for caption in captions for word in caption}
    return any(f" {word} " in text or word in singulars for word in [words.classes.names[row], *above])


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Print the rows of each data set."""
    parser = new_parser(__doc__)
    parser.add_argument("model", help="a model with class words")
    parser.add_argument("data", nargs="+", type=Path, help="folders of data with val")
    parser.add_argument("--constants", action="store_true", help="vary the constants")
    parser.add_argument("--names", action="store_true", help="fit the confidence of names")
    parser.add_argument("--photos", type=int, default=10**6, help="photos of each val, at most")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of the feature cache")
    options = parser.parse_args(given)
    captioner = Captioner.from_pretrained(options.model)
    if options.names:
        fit_names(captioner, [read_dataset(folder) for folder in options.data])
        return
    for folder in options.data:
        dataset = read_dataset(folder)
        examples = dataset.split("val")[: options.photos]
        print(f"{folder.name}, val, {len(examples)} photos: CIDEr, right nouns, named")
        measured = varied if options.constants else rows
        measured(captioner, dataclasses.replace(dataset, examples=tuple(examples)), options.cache)


if __name__ == "__main__":
    main()
