"""How good captions are: BLEU for use during training, and all metrics of a model's card, x100.

There are six conventions for what is compared, and scores of different ones must not be compared:

- `"split"`, the headline: the split file's own tokens (lower-case, no punctuation), as they are;
- `"english"`: the same, but numbers keep their points (`tokenizers.ENGLISH`), for English custom data;
- `"raw"`: raw references, with capitals and punctuation, cut at spaces; the paper's figures may be of this kind;
- `"ptb"`: both are raw text, which the Penn Treebank tokenizer cuts, as in coco-caption;
- `"unicode"`: words by the rules of Unicode (`tokenizers.UNICODE`), without METEOR and SPICE, which know English only;
- `"characters"`: the characters, for scripts without spaces between words, also without these.

BLEU without its brevity penalty, which the paper quotes, flatters short captions: quote it beside the other.

N captions, one of each photo · R weightings of the photos.
"""

import contextlib
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, get_args

import numpy as np

from show_attend_tell.data.tokenizers import Tokens, compared, in_form, tokenize
from show_attend_tell.errors import SatError
from show_attend_tell.metrics.bleu import brevity_penalty
from show_attend_tell.metrics.bootstrap import Array
from show_attend_tell.metrics.java import Java, JavaError, scorer_module
from show_attend_tell.metrics.table import METRICS, Texts, bleu


@dataclass(frozen=True)
class Scores:
    """The scores of captions, together, one by one, and of any choice of photos; CIDEr's weights are those of all.

    ``corpus`` has `bleu_1` to `bleu_4`, also with `_no_brevity`, `meteor` (1.5), `rouge_l`, `cider` (CIDEr-D), `spice`
    and `brevity_penalty` (a factor). METEOR needs Java, SPICE also a parser's models: without them they are None, and
    ``missing`` says why. A caption by itself has no BLEU. The corpus' ROUGE-L, CIDEr and SPICE are the captions' means.
    """

    counts: dict[Callable[[Texts], Array], Array]  # by the `Metric.counts` that made them; without those that failed
    names: Sequence[str]  # of the N photos
    missing: dict[str, str]  # why a metric of the corpus is None
    tokens: Tokens

    def weighted(self, weights: Array) -> dict[str, Array]:
        """Every metric (R,), x100, of R corpora in which photo i is there weights[r, i] times (R, N)."""
        photos = weights.sum(1)
        return {
            name: metric.corpus(weights @ self.counts[metric.counts], photos)
            for name, metric in METRICS.items()
            if metric.counts in self.counts
        }

    @cached_property
    def corpus(self) -> dict[str, float | None]:
        """Every metric of all captions together, x100."""
        together = {name: float(values[0]) for name, values in self.weighted(np.ones((1, len(self.names)))).items()}
        penalty = float(brevity_penalty(self.counts[bleu].sum(0))[0])
        return {**together, "brevity_penalty": penalty, **dict.fromkeys(self.missing)}

    @cached_property
    def photos(self) -> dict[str, dict[str, float]]:
        """The metrics of each caption by itself, x100."""
        values = {
            name: metric.each(self.counts[metric.counts]).tolist()
            for name, metric in METRICS.items()
            if metric.each and metric.counts in self.counts
        }
        return {photo: {name: values[name][index] for name in values} for index, photo in enumerate(self.names)}


def score(
    captions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    *,
    tokens: Tokens = "split",
    java: Java | None = None,
) -> Scores:
    """Score captions by every metric of a captioner's card, together and one by one, through pycocoevalcap 1.2."""
    if not captions:
        raise SatError("there are no captions to score")
    for photo in captions.keys() ^ references.keys():
        there, lacking = ("a caption", "no references") if photo in captions else ("references", "no caption")
        raise SatError(f"the photo {photo!r} has {there} but {lacking}; score the photos of one split")
    if tokens not in get_args(Tokens):
        raise SatError(f"unknown tokens {tokens!r} to score by; there are {', '.join(get_args(Tokens))}")
    check_scorers()
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
    for photo, of_photo in zip(photos, choices, strict=True):
        if isinstance(references[photo], str) or not any(of_photo):
            raise SatError(f"the photo {photo!r} has no list of references with a word; leave it out or describe it")

    texts = Texts(candidates, choices, programs)
    counts: dict[Callable[[Texts], Array], Array] = {}
    missing: dict[str, str] = {}
    with contextlib.redirect_stdout(io.StringIO()):  # the scorers chatter, and stdout may be our caller's JSON
        for name, metric in METRICS.items():
            try:
                if metric.needs == "English" and tokens in ("unicode", "characters"):
                    raise JavaError("it knows English only")
                if metric.counts not in counts:
                    counts[metric.counts] = metric.counts(texts)
            except JavaError as problem:
                missing[name] = str(problem)
    return Scores(counts, photos, missing, tokens)


@dataclass(frozen=True)
class Variety:
    """How varied captions are, and how many are truncated: no score of a single caption shows it. Shares are x100."""

    words_used: int  # different words
    distinct: float  # the share of captions that differ from all before them
    repetitive: float  # the share with a word twice in a row, or with the same three words in a row twice (`repeats`)
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

    `entries` have a `photo`, its `caption`, and what else is known of it; `training`, `cut`: `variety`.
    """
    captions = {entry["photo"]: entry["caption"] for entry in entries}
    if twice := Counter(entry["photo"] for entry in entries) - Counter(captions.keys()):
        raise SatError(f"{next(iter(twice))} has more than one caption: keep one")
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


def check_scorers(tokens: Tokens | None = None) -> None:
    """Raise `SatError` now if `score` would for want of a program, before captions are made in vain."""
    scorer_module("rouge.rouge")
    if tokens == "ptb":
        Java().ptb_tokenize(["a"])


def variety(
    captions: Mapping[str, str],
    training: Iterable[Sequence[str]] | None,
    *,
    cut: Callable[[str], Sequence[str]] = tokenize,
    complete: Mapping[str, bool] | None = None,
) -> Variety:
    """How varied captions are, and how many are truncated.

    `cut` gives the words of a caption. A caption is truncated if `complete` says by its photo that the longest length
    came before its end, or if it ends like "a man on a", by the `training` captions (lists of words) where these are
    known (`hardly_ending`; BLEU rewards it, METEOR and CIDEr hardly mind).
    """
    said = [tuple(cut(text)) for text in captions.values()]
    last = None if training is None else hardly_ending(list(training))
    ended = complete or {}
    share = 100 / len(said)
    truncated = [
        not ended.get(photo, True) or bool(last and words and words[-1] in last)
        for photo, words in zip(captions, said, strict=True)
    ]
    return Variety(
        words_used=len({word for words in said for word in words}),
        distinct=share * len(set(said)),
        repetitive=share * sum(map(repeats, said)),
        truncated=share * sum(truncated) if ended or last is not None else None,
    )


def hardly_ending(captions: Sequence[Sequence[str]]) -> set[str] | None:
    """Words that occur a hundred times or more and end a caption in less than 1 % of these; None if none does."""
    said = Counter(word for caption in captions for word in caption)
    ends = Counter(caption[-1] for caption in captions if caption)
    common = {word for word, times in said.items() if times >= 100}
    return {word for word in common if 100 * ends[word] < said[word]} if common else None


def repeats(words: Sequence[str]) -> bool:
    """Whether a caption has a word twice in a row, or the same three words in a row twice."""
    triples = list(zip(words, words[1:], words[2:], strict=False))
    return any(one == other for one, other in pairwise(words)) or len(set(triples)) < len(triples)
