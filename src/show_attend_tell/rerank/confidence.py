"""How far each noun of a caption can be trusted: the probability that a person would use it for this photo.

A logistic regression gives it, from what the model knows of the word:

- log p of the word, given the words before it;
- its gain: log p less that with zeros in place of the photo's annotations. A word that the language alone suggests has
  none;
- the share of the beam's captions that have the word;
- with visual n-grams, the share of captions E that are expected to have the word: √E, log E, and log E less log of the
  share of all training captions;
- with class words, log p of all words of the caption by their number; whether the encoder's classifier has classes that
  are such a thing; and log of their probability less that of their mean among training photos;
- which word it is: each has an offset of its own, drawn towards zero by a ridge.

The log odds are multiplied by the word's scale κ = (1 + π/8 · σ² / (1 + n / n₀))^−½, with n uses on val, σ² =
`UNCERTAIN` and n₀ = `SEEN`. The offset of a word that val seldom has is uncertain, and the mean probability over that
uncertainty is nearer to a half (MacKay 1992).

`fit` makes it of photos of val: a noun is right if one of the photo's captions by people has it, in the singular or the
plural. So a synonym counts as wrong. The nouns are those of the English list in `data.parts_of_speech`. The arrays have
their ids, so that no list is needed later. The name of a class is judged by the classifier alone
(`class_words.confidence_of_name`): people rarely use it, but that does not make it wrong.

Few photos cannot fit all that. Their confidence is drawn to that of the model to start from: the log odds by the start
move by an offset of all words and those of the words, by a share of themselves, and with log p and the share of
captions. Draws of Flickr8k and COCO chose the ridges. Such a confidence also has the mean annotation of its photos, and
how far from it a photo may lie that is like them. The captions that fit it are those of models that learnt from half of
the photos; `raise_confidence` asks the photos of val how much better the nouns of the whole training are.

B photos · N captions · T words · J judged words of the vocabulary · F features · M judged words of captions.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from show_attend_tell.backends.base import Backend
from show_attend_tell.checkpoint.packing import as_array
from show_attend_tell.data.parts_of_speech import FUNCTION_WORDS, part_of_speech, singular
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.rerank import Reranker
from show_attend_tell.rerank.class_words import ClassWords
from show_attend_tell.search.hypotheses import Hypothesis, forced_steps
from show_attend_tell.search.session import DecoderSession, padded
from show_attend_tell.values import Array

PLAIN = 3  # features without a reranker
OF_CLASSES = 3  # features that class words add
PHOTOS_TO_JUDGE = 200  # at least; of fewer, the probabilities would not be calibrated
FEW_TO_JUDGE = 60  # at least, where it is drawn to the confidence of the model to start from
ENGLISH = 0.2  # share of function words from which captions are taken to be English
OF_FEW = [0, 2]  # features whose weights few photos change: log p, and the share of captions
LIKE = 0.98  # share of a small set's photos that are no further from their mean than ``far``
UNCERTAIN = 1.5  # variance of the log odds of a word that val does not have
SEEN = 3  # uses on val that halve it

NOT_JUDGED = frozenset(  # nouns of place and amount, which are true of nearly any photo
    "back bottom bunch center corner edge end middle pair piece side top".split()
)

# What draws a regression to zero: the ridges of the weights of features, which are divided by their standard deviation,
# of the offset of all rows, and of the words' offsets; and the least standard deviation.
MANY = 1.0, 1e-6, 3.0, 1e-6
FEW = 20.0, 0.1, 30.0, 1.0  # no feature is enlarged, and photos whose nouns are all right make none certain
OFFSET = 1.0, FEW[1], 1e6, 1.0  # none but the offset of all rows


class Confidence:
    """The probability that each judged word of a caption is right."""

    def __init__(
        self, arrays: Mapping[str, Array], reranker: Reranker | None = None, class_words: ClassWords | None = None
    ) -> None:
        """Take ``words`` (J,), ``offsets`` (J,), ``scales`` (J,) and ``weights`` (F,), and the model's other parts.

        Older arrays have no scales: they are 1 then. A small set's have ``center`` (D,) and ``far`` besides. A
        confidence that was fitted without class words does not use them. Raises `SatError` for arrays that do not fit.
        """
        self.reranker = reranker
        try:
            words, offsets, self.weights = arrays["words"], arrays["offsets"], arrays["weights"]
            scales = arrays.get("scales", np.ones_like(offsets))
            self.class_words = class_words if len(self.weights) > feature_count(reranker, None) else None
            size = feature_count(reranker, self.class_words)
            if words.ndim != 1 or not words.shape == offsets.shape == scales.shape or self.weights.shape != (size,):
                raise ValueError(f"shapes {words.shape}, {offsets.shape}, {scales.shape}, {self.weights.shape}")
            self.center = arrays.get("center", np.zeros(1))
            self.far = float(arrays.get("far", np.inf))
            if not np.isfinite(np.concatenate([offsets, scales, self.weights, self.center])).all():
                raise ValueError("values that are not numbers")
        except (KeyError, ValueError) as error:
            raise SatError(f"these arrays do not tell how far words can be trusted ({error})") from error
        # the offset and the scale of each judged word
        of_words = zip(offsets.tolist(), scales.tolist(), strict=True)
        self.judged = dict(zip(words.tolist(), of_words, strict=True))

    def add(self, backend: Backend, features: Any, found: Sequence[list[Hypothesis]], least: float) -> list[Any]:
        """The captions of each photo, of features (B, L, D), the best one first with its words' confidence (T,).

        The best one is the first whose judged words all reach the ``least`` confidence. If there is none, it is the one
        whose least trusted word has the highest confidence. With 0 it is the first. A caption other than the first
        must end in a judged word and have none twice, so it is never "a dog is jumping over a wooden".
        """
        judged = self.judge(backend, features, found if least else [each[:1] for each in found], found)
        unlike = self.unlike(features)
        result = []
        for hypotheses, confident, far in zip(found, judged, unlike, strict=True):
            worst = least_trusted(hypotheses, confident)
            chosen = next((number for number, each in enumerate(worst) if each >= least), int(np.argmax(worst)))
            best = dataclasses.replace(hypotheses[chosen], word_confidence=confident[chosen], unlike=far)
            result.append([best, *hypotheses[:chosen], *hypotheses[chosen + 1 :]])
        return result

    def unlike(self, features: Any) -> list[bool]:
        """Which photos, of features (B, L, D), are far from those that the confidence was fitted to."""
        if len(self.center) not in (1, features.shape[-1]):
            raise SatError(f"the confidence reads annotations of another size than {features.shape[-1]}")
        distances = np.linalg.norm(as_array(features.mean(1)) - self.center, axis=1).tolist()
        return [distance > self.far for distance in distances]

    def judge(
        self, backend: Backend, features: Any, captions: Sequence[list[Hypothesis]], found: Sequence[list[Hypothesis]]
    ) -> list[list[list[float]]]:
        """The confidence of each word of some captions of each photo, of all that were ``found``; NaN for none."""
        rows = judged_words(backend, features, captions, found, self.judged, self.reranker, self.class_words)
        offsets, scales = np.array([self.judged[word] for word in rows.words]).reshape(-1, 2).T
        odds = scales * (rows.features @ self.weights + offsets)
        right = np.exp(-np.logaddexp(0, -odds))  # the logistic function
        confidence = [[[float("nan")] * len(caption.words) for caption in of_photo] for of_photo in captions]
        for (photo, caption, time), value in zip(rows.places, right.tolist(), strict=True):
            confidence[photo][caption][time] = value
        for of_photo, values in zip(captions, confidence, strict=True):
            for hypothesis, of_words in zip(of_photo, values, strict=True):
                for time, name in (hypothesis.names or {}).items():
                    of_words[time] = name.confidence
        return confidence


def least_trusted(captions: Sequence[Hypothesis], confidence: Sequence[Sequence[float]]) -> list[float]:
    """The least confidence of each caption's judged words, below 0 without one and for what `Confidence.add` passes."""
    least = []
    for number, (caption, values) in enumerate(zip(captions, confidence, strict=False)):
        judged = {place: value for place, value in enumerate(values) if value == value}
        words = [caption.words[place] for place in judged]
        passed_by = number > 0 and (len(values) - 1 not in judged or len(set(words)) < len(words))
        if passed_by or not caption.ended:
            least.append(-2.0)
        else:
            least.append(min(judged.values(), default=-1.0))
    return least


class Judged(NamedTuple):
    """The judged words of some captions."""

    features: Array  # (M, F)
    words: list[int]  # their ids
    places: list[tuple[int, int, int]]  # of each, the number of its photo, of its caption and of its word


def feature_count(reranker: Reranker | None, class_words: ClassWords | None) -> int:
    """F."""
    return PLAIN + (reranker.word_features if reranker else 0) + (OF_CLASSES if class_words else 0)


def judged_words(
    backend: Backend,
    features: Any,
    captions: Sequence[Sequence[Hypothesis]],
    found: Sequence[Sequence[Hypothesis]],
    judged: Iterable[int],
    reranker: Reranker | None,
    class_words: ClassWords | None,
) -> Judged:
    """What the confidence of the ``judged`` words of captions is made of; the arguments are those of `judge`."""
    by_reranker = None if reranker is None else reranker.features_of_words(backend, features)
    by_classes = None if class_words is None else class_words.features_of_words(features)
    all_words = [hypothesis.words for of_photo in captions for hypothesis in of_photo]
    blind = iter(blind_log_probabilities(backend.blind_session(features, len(all_words)), all_words))
    judged = set(judged)
    rows: list[list[float]] = []
    words: list[int] = []
    places: list[tuple[int, int, int]] = []
    for photo, (of_photo, beam) in enumerate(zip(captions, found, strict=True)):
        words_in_beam = [set(hypothesis.words) for hypothesis in beam]
        for number, caption in enumerate(of_photo):
            log_p = caption.word_log_probabilities
            without = next(blind)
            mean = caption.log_probability / (len(caption.words) + caption.ended or 1)
            for time, word in enumerate(caption.words):
                if word not in judged:
                    continue
                share = sum(word in in_caption for in_caption in words_in_beam) / len(beam)
                row = [np.clip(log_p[time], -6, 0), np.clip(log_p[time] - without[time], -5, 10), share]
                if by_reranker is not None:
                    row += by_reranker[photo](word)
                if by_classes is not None:
                    row += [mean, *by_classes[photo](word)]
                rows.append(row)
                words.append(word)
                places.append((photo, number, time))
    return Judged(np.array(rows, np.float64).reshape(-1, feature_count(reranker, class_words)), words, places)


def blind_log_probabilities(session: DecoderSession, captions: Sequence[Sequence[int]]) -> list[Array]:
    """log p of each word of captions (T,), given those before it, in a session that sees no photo."""
    words = padded([np.array(caption, np.int64) for caption in captions])
    log_probabilities = np.zeros(words.shape)
    for time, (_, log_p) in enumerate(forced_steps(session, words)):
        log_probabilities[:, time] = log_p[np.arange(len(words)), words[:, time]]
    return [row[: len(caption)] for row, caption in zip(log_probabilities, captions, strict=True)]


# A model's back end, reranker and class words; photos' features (B, L, D), the captions that it found for them, best
# first, those by people, and how often each photo counts.
Batch = tuple[Backend, Reranker | None, ClassWords | None, Any, Any, Any, Sequence[float]]


class Nouns(NamedTuple):
    """The judged nouns of photos' captions, and the photos."""

    features: Array  # (M, F)
    words: Array  # (M,), their ids
    right: Array  # (M,), whether people use them
    weights: Array  # (M,), how often each counts
    pooled: Array  # (N, D), the mean annotation of each photo


def fit(vocabulary: Vocabulary, batches: Iterable[Batch], start: Confidence | None = None) -> dict[str, Array] | None:
    """What `Confidence` takes, by photos that the models which captioned them have not seen.

    With ``start``, the confidence of the model that they started from, it is drawn to that one, and moves along few
    directions only: log odds in all, their slope, and `OF_FEW`. None for captions that are not English, and where
    nothing can be told. Names of classes are left out.
    """
    judged = {
        number: word
        for number, word in enumerate(vocabulary.words)
        if part_of_speech(word) == "noun" and word not in NOT_JUDGED
    }
    nouns = compared(batches, judged)
    if nouns is None or not len(nouns.right):
        return None
    size = nouns.features.shape[1]
    ids = np.array([*judged], dtype=np.int32)
    weights = np.zeros(size)
    offsets = scales = np.zeros(len(ids))
    directions = np.eye(size)
    ridges = MANY
    if start is not None:
        if len(start.weights) != size:
            return None
        new = np.median([offset for offset, _ in start.judged.values()]), 0.0
        offsets, scales = np.transpose([start.judged.get(word, new) for word in ids.tolist()])
        weights = start.weights
        directions = np.stack([weights, *directions[OF_FEW]], axis=1)
        ridges = FEW
    elif len({*nouns.right}) < 2:
        return None
    seen, groups, times = np.unique(np.searchsorted(ids, nouns.words), return_inverse=True, return_counts=True)
    known = nouns.features @ weights + offsets[seen][groups]
    inputs = nouns.features @ directions
    factors, common, own = regression(inputs, groups, nouns.right, nouns.weights, known=known, ridges=ridges)
    offsets = offsets + common
    offsets[seen] += own
    uses = np.bincount(seen, times, len(ids))
    scales = np.maximum(scales, (1 + np.pi / 8 * UNCERTAIN / (1 + uses / SEEN)) ** -0.5)
    arrays = {"offsets": offsets, "scales": scales, "weights": weights + directions @ factors}
    if start is not None:
        arrays["center"] = nouns.pooled.mean(0)
        distances = np.linalg.norm(nouns.pooled - arrays["center"], axis=1)
        photos = len(distances)
        arrays["far"] = np.quantile(distances, LIKE) * photos / (photos - 1)  # as from the mean of the others
    return {"words": ids} | {name: value.astype(np.float32) for name, value in arrays.items()}


def raise_confidence(arrays: Mapping[str, Array], vocabulary: Vocabulary, batches: Iterable[Batch]) -> dict[str, Array]:
    """A small set's confidence, with log odds as much higher as a better model's captions of unseen photos ask for.

    One offset moves them all, drawn to 0 as in `fit`. It is never below 0: the models of the halves saw fewer photos.
    """
    judged = {number: vocabulary.words[number] for number in arrays["words"].tolist()}
    nouns = compared(batches, judged)
    if nouns is None or not len(nouns.right):
        return dict(arrays)
    place = np.searchsorted(arrays["words"], nouns.words)
    known = arrays["scales"][place] * (nouns.features @ arrays["weights"] + arrays["offsets"][place])
    nothing = np.zeros((len(place), 0))
    _, higher, _ = regression(nothing, np.zeros_like(place), nouns.right, nouns.weights, known=known, ridges=OFFSET)
    return {**arrays, "offsets": arrays["offsets"] + np.float32(max(higher, 0)) / arrays["scales"]}


def compared(batches: Iterable[Batch], judged: Mapping[int, str]) -> Nouns | None:
    """The ``judged`` nouns of the best captions, beside the captions by people; None where these are not English."""
    features: list[Array] = []
    words: list[int] = []
    right: list[bool] = []
    weights: list[float] = []
    pooled: list[Array] = []
    people_said = 0  # words
    function_words = 0
    for backend, reranker, class_words, annotations, found, references, photo_weights in batches:
        best = [captions[:1] for captions in found]
        of_batch = judged_words(backend, annotations, best, found, judged, reranker, class_words)
        by_people = [[word for caption in of_photo for word in caption] for of_photo in references]
        people_said += sum(map(len, by_people))
        function_words += sum(word in FUNCTION_WORDS for of_photo in by_people for word in of_photo)
        nouns_of_people = [{*of_photo, *map(singular, of_photo)} for of_photo in by_people]
        plain = []
        for row, (word, (photo, _, time)) in enumerate(zip(of_batch.words, of_batch.places, strict=True)):
            if time in (best[photo][0].names or {}):
                continue
            noun = judged[word]
            plain.append(row)
            words.append(word)
            right.append((singular(noun) or noun) in nouns_of_people[photo])
            weights.append(photo_weights[photo])
        features.append(of_batch.features[plain])
        pooled.append(as_array(annotations.mean(1)))
    if function_words < ENGLISH * people_said:
        return None
    arrays = np.array(words, int), np.array(right, bool), np.array(weights)
    return Nouns(np.concatenate(features), *arrays, np.concatenate(pooled))


def balanced(photos: Sequence[int]) -> list[float]:
    """The weight of a photo of each data set, 1 on average: a data set counts as the root of its photos' number."""
    mean = sum(number**0.5 for number in photos) / sum(photos)
    return [number**-0.5 / mean for number in photos]


def regression(
    features: Array,
    groups: Array,
    right: Array,
    counts: Array,
    *,
    known: Array | float = 0.0,
    ridges: tuple[float, float, float, float] = MANY,
) -> tuple[Array, float, Array]:
    """A logistic regression with ridges, of features (M, F), the group of each row (M,), and whether it is right (M,).

    ``counts`` say how often each row counts (M,), and ``known`` are log odds to which the regression adds. Returns the
    weights (F,), the offset of all rows, and that of each group besides, by Newton's method.
    """
    center = features.mean(0)
    of_weights, of_all, of_words, least_spread = ridges
    spread = np.maximum(features.std(0), least_spread)
    size = features.shape[1]
    own = np.eye(groups.max() + 1)[groups]
    inputs = np.concatenate([(features - center) / spread, np.ones((len(features), 1)), own], axis=1)
    ridge = np.concatenate([np.full(size, of_weights), [of_all], np.full(own.shape[1], of_words)])
    solution = np.zeros(len(ridge))
    for _ in range(100):
        probable = 1 / (1 + np.exp(-known - inputs @ solution))
        curvature = (inputs * (counts * probable * (1 - probable))[:, None]).T @ inputs + np.diag(ridge)
        step = np.linalg.solve(curvature, inputs.T @ (counts * (probable - right)) + ridge * solution)
        solution -= step / max(1, np.abs(step).max() / 4)  # no longer, so that it converges
        if np.abs(step).max() < 1e-9:
            break
    weights = solution[:size] / spread
    return weights, float(solution[size] - center @ weights), solution[size + 1 :]
