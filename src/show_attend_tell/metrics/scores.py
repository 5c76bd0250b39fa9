"""How good captions are: BLEU for use during training, and all metrics of a model's card, x100.

To score is to compute metrics of captions against references. There are six conventions for what is compared:

- `"split"`, the headline: captions and references are the split file's own tokens (lower-case, no punctuation)
  joined by spaces, and are given to the scorers as they are;
- `"english"`: the same, but numbers keep their points (`tokenizers.tokenize_english`), for English custom data;
- `"raw"`: the references are raw text, with capitals and punctuation, and both are cut at spaces alone. The paper's own
  figures may be of this kind;
- `"ptb"`: both are raw text, which the Penn Treebank tokenizer cuts, as in coco-caption;
- `"unicode"`: words by the rules of Unicode, for languages other than English (`tokenizers.unicode_words`);
- `"characters"`: the characters, for scripts without spaces between words (`tokenizers.characters`).

METEOR and SPICE know English only, so the last two do without them.

Scores of different conventions must not be compared: they differ by several points.

BLEU without its brevity penalty, which the paper quotes, flatters short captions: quote it beside the other.

N captions, one of each photo · R weightings of the photos.
"""

import contextlib
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.data.tokenizers import Tokens, compared, in_form, tokenize
from show_attend_tell.errors import SatError
from show_attend_tell.metrics.cider import ngrams
from show_attend_tell.metrics.java import Java, JavaError, meteor_of, scorer_module

Array = NDArray[np.float64]

# pycocoevalcap's guards against a division by zero, kept so that the figures agree to the last digit.
_TINY = 1e-15
_SMALL = 1e-9


def bleu(
    captions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]], *, brevity: bool = True
) -> list[float]:
    """BLEU-1 to BLEU-4 of captions over the whole corpus, x100, with brevity penalty or, not ``brevity``, without it.

    `captions` are N lists of words and `references` N lists of captions, in the same order.
    BLEU-n is the geometric mean of the precisions of 1- to n-grams, each counted over all captions (never
    averaged over captions or batches) and clipped by the reference that has the n-gram most often. The
    brevity penalty compares the summed length with that of the closest references, the shorter one where two
    are as close (Papineni et al. 2002). Equals pycocoevalcap's `Bleu` on the same words.

    Raises SatError without captions, for lists of different lengths, and for a caption without references.
    """
    plain, penalty = _bleu_of(_bleu_counts(captions, references).sum(0))
    values: list[float] = (penalty * plain if brevity else plain).tolist()
    return values


def _bleu_counts(captions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> Array:
    """What each caption adds to BLEU (N, 10).

    The columns are: its right 1- to 4-grams, all its 1- to 4-grams, its length, and the closest reference's length.
    """
    if not captions:
        raise SatError("there are no captions to score")
    if len(captions) != len(references):
        raise SatError(f"{len(captions)} captions cannot be scored against {len(references)} lists of references")
    rows = []
    for index, (words, choices) in enumerate(zip(captions, references, strict=True)):
        if not choices:
            raise SatError(f"caption {index} ({' '.join(words)!r}) has no references")
        guessed, allowed = Counter(ngrams(words)), Counter[tuple[str, ...]]()
        for choice in choices:
            allowed |= Counter(ngrams(choice))
        by_length = [
            sum(times for ngram, times in counts.items() if len(ngram) == n)
            for counts in (guessed & allowed, guessed)
            for n in range(1, 5)
        ]
        closest = min((len(choice) for choice in choices), key=lambda n: (abs(n - len(words)), n))
        rows.append([*by_length, len(words), closest])
    return np.array(rows, dtype=float)


def _bleu_of(counts: Array) -> tuple[Array, Array]:
    """BLEU-1 to BLEU-4 without penalty (..., 4), x100, and the penalty (..., 1), of summed counts (..., 10)."""
    correct, guessed = counts[..., :4], counts[..., 4:8]
    plain = np.cumprod((correct + _TINY) / (guessed + _SMALL), axis=-1) ** (1 / np.arange(1, 5))
    return 100 * plain, _brevity_penalty(counts)


def _brevity_penalty(counts: Array) -> Array:
    ratio = (counts[..., 8:9] + _TINY) / (counts[..., 9:] + _SMALL)
    return np.exp(np.minimum(0, 1 - 1 / ratio))


def _smoothed_bleu(counts: Array) -> Array:
    """BLEU-4 of each caption by itself (N,), x100, with penalty; of the counts (N, 10).

    One is added to the counts of 2-, 3- and 4-grams (Lin & Och 2004): without that, most captions have 0.
    """
    added = np.array([0, 1, 1, 1])
    precisions = (counts[:, :4] + added + _TINY) / (counts[:, 4:8] + added + _SMALL)
    smoothed: Array = 100 * precisions.prod(1) ** (1 / 4) * _brevity_penalty(counts)[:, 0]
    return smoothed


@dataclass(frozen=True)
class Statistics:
    """What each photo adds to each metric: enough to score any choice of the photos exactly as a corpus.

    CIDEr's weights of words are those of all photos, whichever are chosen.
    """

    bleu: Array  # (N, 10), see `_bleu_counts`
    rouge_l: Array  # (N,), 0 to 1
    cider: Array  # (N,), 0 to 10
    meteor: Array | None = None  # (N, 23), see `Java.meteor`; None where it could not be had
    spice: Array | None = None  # (N,), 0 to 1; None where it could not be had

    def scores(self, weights: Array) -> dict[str, Array]:
        """Every metric (R,), x100, of R corpora in which photo i is there weights[r, i] times (R, N)."""
        plain, penalty = _bleu_of(weights @ self.bleu)
        scores = {f"bleu_{n + 1}": (penalty * plain)[:, n] for n in range(4)}
        scores |= {f"bleu_{n + 1}_no_brevity": plain[:, n] for n in range(4)}
        if self.meteor is not None:
            scores["meteor"] = 100 * meteor_of(weights @ self.meteor)
        photos = weights.sum(1)
        scores |= {"rouge_l": 100 * (weights @ self.rouge_l) / photos, "cider": 100 * (weights @ self.cider) / photos}
        if self.spice is not None:
            scores["spice"] = 100 * (weights @ self.spice) / photos
        return scores


@dataclass(frozen=True)
class Scores:
    """The scores of captions, together and one by one.

    ``corpus`` has `bleu_1` to `bleu_4`, `bleu_1_no_brevity` to `bleu_4_no_brevity`, `brevity_penalty` (a factor, not
    x100), `meteor` (METEOR 1.5), `rouge_l`, `cider` (CIDEr-D) and `spice`. METEOR needs Java, SPICE also a parser's
    models: without them they are None, and ``missing`` says why.

    A caption by itself has `bleu_4_smoothed` (its BLEU-4 with one added to the counts of 2- to 4-grams, with brevity
    penalty), `rouge_l`, `cider`, and `meteor` and `spice` where the corpus has them. The corpus' ROUGE-L, CIDEr and
    SPICE are the means of these; its BLEU and METEOR are not.
    """

    corpus: dict[str, float | None]  # of all captions together, x100
    missing: dict[str, str]  # why a metric of the corpus is None
    photos: dict[str, dict[str, float]]  # of each caption by itself, x100
    statistics: Statistics  # in the order of `photos`
    tokens: Tokens


def score(
    captions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    *,
    tokens: Tokens = "split",
    java: Java | None = None,
) -> Scores:
    """Score captions by every metric of a captioner's card, together and one by one, through pycocoevalcap 1.2.

    `captions` gives one caption a photo and `references` its references, by the same names. With the tokens "split"
    the texts are compared word by word as they are; with "ptb" they are raw captions and are tokenized first, which
    needs Java. With "characters" each character counts as a word. `java` says where the Java programs are.

    Raises SatError when pycocoevalcap is not installed, without captions, when the two do not name the same
    photos, for a photo without (non-empty) references, and for "ptb" without Java.
    """
    _check_names(captions, references)
    if tokens not in get_args(Tokens):
        raise SatError(f"unknown tokens {tokens!r} to score by; there are {', '.join(get_args(Tokens))}")
    rouge, cider = (scorer_module(name) for name in ("rouge.rouge", "cider.cider"))
    programs = java or Java()

    # One space between words: a line break would end a sentence early in the Java programs, and ROUGE counts
    # the nothing between two spaces as a word.
    photos = list(captions)
    candidates = [" ".join(compared(captions[photo], tokens)) for photo in photos]
    choices = [[" ".join(compared(text, tokens)) for text in references[photo]] for photo in photos]
    if tokens == "ptb":  # in two runs, as pycocoevalcap: the tokenizer lets a line end by what the next one begins with
        candidates = programs.ptb_tokenize(candidates)
        words = iter(programs.ptb_tokenize([text for texts in choices for text in texts]))
        choices = [[next(words) for _ in texts] for texts in choices]
    for photo, texts in zip(photos, choices, strict=True):
        if not any(texts):
            raise SatError(f"the photo {photo!r} has no reference with a word in it; leave it out or describe it")

    given = {photo: [text] for photo, text in zip(photos, candidates, strict=True)}
    wanted = dict(zip(photos, choices, strict=True))
    with contextlib.redirect_stdout(io.StringIO()):  # the scorers chatter, and stdout may be our caller's JSON
        _, each_rouge_l = rouge.Rouge().compute_score(wanted, given)
        _, each_cider = cider.Cider().compute_score(wanted, given)
    counts = _bleu_counts(
        [text.split() for text in candidates], [[text.split() for text in texts] for texts in choices]
    )
    found: dict[str, Array] = {}
    missing: dict[str, str] = {}
    for metric, program in (("meteor", programs.meteor), ("spice", programs.spice)):
        try:
            if tokens in ("unicode", "characters"):
                raise JavaError("it knows English only")
            found[metric] = program(candidates, choices)
        except JavaError as problem:
            missing[metric] = str(problem)
    statistics = Statistics(counts, np.array(each_rouge_l), np.array(each_cider), **found)
    together = {name: float(values[0]) for name, values in statistics.scores(np.ones((1, len(photos)))).items()}
    each = {
        "bleu_4_smoothed": _smoothed_bleu(counts),
        "rouge_l": 100 * statistics.rouge_l,
        "cider": 100 * statistics.cider,
        **({} if statistics.meteor is None else {"meteor": 100 * meteor_of(statistics.meteor)}),
        **({} if statistics.spice is None else {"spice": 100 * statistics.spice}),
    }
    return Scores(
        {**together, "brevity_penalty": float(_bleu_of(counts.sum(0))[1][0]), **dict.fromkeys(missing)},
        missing,
        photos={
            photo: {name: float(values[index]) for name, values in each.items()} for index, photo in enumerate(photos)
        },
        statistics=statistics,
        tokens=tokens,
    )


@dataclass(frozen=True)
class Variety:
    """How varied captions are, and how many are truncated: no score of a single caption shows it. Shares are x100."""

    words_used: int  # different words
    mean_length: float  # words per caption
    distinct: float  # the share of captions that differ from all before them
    repetitive: float  # the share with a word twice in a row, or with the same three words in a row twice (`repeats`)
    not_in_training: float | None  # the share that is not the copy of a training caption; None where these are unknown
    truncated: float | None  # the share of incomplete captions, see `variety`; None where nothing tells


@dataclass(frozen=True)
class Evaluation:
    """Captions with their scores and how they were made, as `sat evaluate` and `sat score` write them."""

    scores: Scores
    variety: Variety
    results: list[dict[str, Any]]  # of each caption: what is known of it, its references and its own scores
    settings: dict[str, Any] = field(default_factory=dict)  # the model, the data, the split and the generation

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, from which anyone can score the captions again."""
        return {
            **self.scores.corpus,
            **{f"{metric}_missing": reason for metric, reason in self.scores.missing.items()},
            "captions": len(self.results),
            "tokens": self.scores.tokens,
            "variety": asdict(self.variety),
            **self.settings,
            "results": self.results,
        }


def score_entries(
    entries: Sequence[Mapping[str, Any]],
    references: Mapping[str, Sequence[str]],
    *,
    tokens: Tokens = "split",
    training: Iterable[Sequence[str]] | None = None,
    cut: Callable[[str], Sequence[str]] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Score captions and keep with the scores all that made them.

    `entries` have a `photo` and its `caption`, and whatever else is known of it, such as whether it is `complete`;
    `references` and `tokens` are `score`'s, `training` and `cut` are `variety`'s (`cut` gives the words of these tokens
    by default). Raises as `score`, and for a photo that has two captions.
    """
    captions: dict[str, str] = {}
    for entry in entries:
        if entry["photo"] in captions:
            raise SatError(f"the photo {entry['photo']!r} has two captions; keep one")
        captions[entry["photo"]] = entry["caption"]
    scores = score(captions, references, tokens=tokens)
    complete = {entry["photo"]: entry["complete"] for entry in entries if isinstance(entry.get("complete"), bool)}
    return Evaluation(
        scores,
        variety(captions, training, cut=cut or (lambda text: words_of(text, tokens)), complete=complete),
        [
            {**entry, "references": list(references[entry["photo"]]), **scores.photos[entry["photo"]]}
            for entry in entries
        ],
        dict(settings or {}),
    )


def words_of(text: str, tokens: Tokens) -> list[str]:
    """What `variety` counts as the words of a text that is scored by such tokens."""
    return tokenize(text) if tokens in ("raw", "ptb") else compared(in_form(text, tokens), tokens)


def check_scorers() -> None:
    """Raise `SatError` now if `score` would for want of pycocoevalcap, before captions are made in vain."""
    scorer_module("rouge.rouge")


def variety(
    captions: Mapping[str, str],
    training: Iterable[Sequence[str]] | None,
    *,
    cut: Callable[[str], Sequence[str]] = tokenize,
    complete: Mapping[str, bool] | None = None,
) -> Variety:
    """How varied captions are, compared with the `training` captions (lists of words) where these are known.

    `cut` gives the words of a caption. A caption is truncated if `complete` says by its photo that the longest length
    came before its end, or if it ends like "a man on a", with a word that hardly ends a training caption
    (`hardly_ending`; BLEU rewards leaving the riskiest word out, METEOR and CIDEr hardly mind). Raises SatError without
    captions.
    """
    if not captions:
        raise SatError("there are no captions to describe")
    said = [tuple(cut(text)) for text in captions.values()]
    known = None if training is None else [tuple(caption) for caption in training]
    last = None if known is None else hardly_ending(known)
    seen, ended, share = set(known or ()), complete or {}, 100 / len(said)
    truncated = [
        not ended.get(photo, True) or bool(last and words and words[-1] in last)
        for photo, words in zip(captions, said, strict=True)
    ]
    return Variety(
        words_used=len({word for words in said for word in words}),
        mean_length=sum(map(len, said)) / len(said),
        distinct=share * len(set(said)),
        repetitive=share * sum(map(repeats, said)),
        not_in_training=None if known is None else share * sum(words not in seen for words in said),
        truncated=share * sum(truncated) if ended or last is not None else None,
    )


def hardly_ending(captions: Sequence[Sequence[str]]) -> set[str] | None:
    """The words that captions have a hundred times or more and that end less than one in a hundred of these.

    None where no word is there a hundred times, so that nothing can be said.
    """
    said = Counter(word for caption in captions for word in caption)
    ends = Counter(caption[-1] for caption in captions if caption)
    common = {word for word, times in said.items() if times >= 100}
    return {word for word in common if 100 * ends[word] < said[word]} if common else None


def repeats(words: Sequence[str]) -> bool:
    """Whether a caption has a word twice in a row, or the same three words in a row twice."""
    triples = list(zip(words, words[1:], words[2:], strict=False))
    return any(one == other for one, other in pairwise(words)) or len(set(triples)) < len(triples)


def _check_names(captions: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> None:
    if not captions:
        raise SatError("there are no captions to score")
    for photo in captions:
        if photo not in references:
            raise SatError(f"the photo {photo!r} has a caption but no references; score the photos of one split")
        if isinstance(references[photo], str):
            raise SatError(f"the references of the photo {photo!r} are one text; give a list of texts")
    for photo in references:
        if photo not in captions:
            raise SatError(f"the photo {photo!r} has references but no caption; score the photos of one split")
