"""How a text is cut into the words that a model reads and says, and how they are joined to a text again.

| tokenizer | of which captions | words | scores compare |
| --- | --- | --- | --- |
| `KARPATHY` | the paper's data sets | as in Karpathy's split files | words |
| `ENGLISH` | English custom data | the same, and numbers keep their points | words |
| `UNICODE` | others in scripts with spaces | by the categories of Unicode | words |
| `Unigram` | Chinese, Japanese, Thai and the like | pieces that are learnt from the training captions | characters |

A model stores its tokenizer in its vocabulary's file. All other modules ask this tokenizer.
"""

import functools
import io
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from show_attend_tell.errors import MissingPackage, SatError
from show_attend_tell.messages import install_command

Tokens = Literal["split", "english", "raw", "ptb", "unicode", "characters"]  # what scores compare, see `metrics.scores`


# Scripts with spaces


@dataclass(frozen=True)
class Spaced:
    """Cuts texts into words that have spaces between them, and joins words to texts."""

    name: str  # in the files of models and evaluations
    tokens: Tokens  # what scores compare
    written: Callable[[str], list[str]] = field(repr=False)  # the words of a text as they are written in it
    between = " "  # what stands between two words of a text

    def words(self, text: str) -> list[str]:
        """The words of a text, in lower case and without punctuation."""
        return self.written(text.lower())

    def text(self, words: Iterable[str]) -> str:
        """The text of words."""
        return " ".join(words)

    def units(self, words: Sequence[str]) -> Sequence[str]:
        """What BLEU and CIDEr count in a caption of these words."""
        return words


# English

# What the split files' own tokens show: a hyphen separates two words, these marks vanish, all other characters stay.
# Typographic dashes and quotes do not occur there; they are treated as their plain forms.
_DASHES = "-–—"
_MARKS = ".,;!?'\"‘’“”…"
_PUNCTUATION = str.maketrans(_DASHES, " " * len(_DASHES), _MARKS)


def tokenize(text: str) -> list[str]:
    """Cut a raw caption into lower-case words without punctuation: the `tokens` of Karpathy's Flickr8k file.

    >>> tokenize("A dark-haired man's dog jumps .")
    ['a', 'dark', 'haired', 'mans', 'dog', 'jumps']
    """
    return KARPATHY.words(text)


def _without_marks(text: str) -> list[str]:
    return text.translate(_PUNCTUATION).split()


KARPATHY = Spaced("karpathy", "split", _without_marks)

# What vanishes as above. But a point or comma between digits stays, and so does one that begins a number, or a minus.
_MARK = re.compile(r"""[;!?'"‘’“”…]|[.,](?!\d)|(?<!\d),|(?<=[^\W\d_])\.|(?<=\.)\.""")
_DASH = re.compile(r"[–—]|(?<=[^\s(])-|-(?!\.?\d)")


def _with_numbers(text: str) -> list[str]:
    """The words of an English text, without punctuation; numbers keep theirs, as "3.5" and "$1.09"."""
    return _MARK.sub("", _DASH.sub(" ", text)).split()


ENGLISH = Spaced("english", "english", _with_numbers)


# Other scripts with spaces

_JOINERS = "\u200c\u200d"  # without width: they say how the letters beside them are joined
# A word: letters with their marks, and digits. An apostrophe between letters stays ("l'herbe"), and so does a point or
# comma between digits ("2,5"). Signs that are not punctuation ("€", "+") are words of their own.
_WORD = re.compile(r"[ld](?:[ldj]|'(?=l)|(?<=d)\.(?=d))*|s+")


def _by_unicode(text: str) -> list[str]:
    """The words of a text by the categories of its characters in Unicode, as "l'herbe" and "2,5"."""
    plain = _plain(text)
    return [plain[start:end] for start, end in _spans(plain)]


def _plain(text: str) -> str:
    """A text with composed letters and one kind of apostrophe, without invisible characters."""
    plain = unicodedata.normalize("NFC", text).replace("’", "'").replace("ʼ", "'")
    return "".join(character for character in plain if unicodedata.category(character) != "Cf" or character in _JOINERS)


def _spans(text: str) -> list[tuple[int, int]]:
    """Where the words of a plain text begin and end."""
    return [match.span() for match in _WORD.finditer("".join(map(_kind, text)))]


@functools.cache
def _kind(character: str) -> str:
    """What a character is in a word: l letter or mark, d digit, j joiner, s symbol, ' and . ; a space for others."""
    if character in "'.":
        return character
    if character == ",":
        return "."
    if character in "▁▅":  # which the training of pieces keeps for itself
        return " "
    if character in _JOINERS:
        return "j"
    category = unicodedata.category(character)
    return {"L": "l", "M": "l", "N": "d", "S": "s"}.get(category[0], " ")


UNICODE = Spaced("unicode", "unicode", _by_unicode)
SPACED = (KARPATHY, ENGLISH, UNICODE)


# Scripts without spaces

LONGEST_PIECE = {"wide": 4, "narrow": 12}  # characters of a learnt piece: of Chinese and Japanese, and of others
CHARACTERS_A_PIECE = 10  # characters of the training captions for each piece of several characters that is learnt
UNKNOWN_CHARACTER = 10.0  # how much less likely, in nats, a character is that no piece has than the least likely piece


@dataclass(frozen=True)
class Unigram:
    """Pieces of words with log-probabilities; a text is cut into those whose product is most probable.

    A piece after white space begins with a space, so the pieces in a row are the text; no vocabulary knows others.
    """

    scores: dict[str, float] = field(repr=False)  # log p of each piece
    name = "unigram"
    between = ""
    tokens: ClassVar[Tokens] = "characters"

    @classmethod
    def fit(cls, texts: Iterable[str], *, minimum_count: int = 1, size: int = 10_000) -> "Unigram":
        """Learn at most ``size`` pieces of training captions with sentencepiece, of signs seen often enough."""
        pieces = [piece for text in texts for piece in chunks(text)]
        counts = Counter(character for piece in pieces for character in piece)
        often = [character for character, times in counts.most_common(size // 2) if times >= minimum_count]
        if not often:
            raise SatError(
                f"no character occurs {minimum_count} times or more in the training captions; lower minimum_count or "
                "give more captions"
            )
        rare = re.compile("|".join(map(re.escape, counts.keys() - set(often))) or "(?!)")
        known = [known for piece in pieces for known in rare.split(piece) if known]
        wanted = len(often) + sum(map(len, known)) // CHARACTERS_A_PIECE
        wide = sum(times for character, times in counts.items() if unicodedata.east_asian_width(character) in "WF")
        longest = LONGEST_PIECE["wide" if 2 * wide > counts.total() else "narrow"]
        return cls(_sentencepiece(known, min(size, wanted), len(often), longest))

    def words(self, text: str) -> list[str]:
        """The pieces of a text."""
        return [piece for part in chunks(text) for piece in self._cut(part)]

    def _cut(self, part: str) -> list[str]:
        """The most probable pieces of a part of a text, by dynamic programming over where the last piece begins."""
        best = [0.0]
        begins = [0]
        longest, unknown = self._bounds
        for end in range(1, len(part) + 1):
            highest = best[end - 1] + unknown
            begin = end - 1
            for start in range(max(0, end - longest), end):
                score = self.scores.get(part[start:end])
                if score is not None and best[start] + score > highest:
                    highest = best[start] + score
                    begin = start
            best.append(highest)
            begins.append(begin)
        pieces: list[str] = []
        end = len(part)
        while end:
            pieces.insert(0, part[begins[end] : end])
            end = begins[end]
        return pieces

    @functools.cached_property
    def _bounds(self) -> tuple[int, float]:
        """The length of the longest piece, and log p of a character that no piece has."""
        return max(map(len, self.scores)), min(self.scores.values()) - UNKNOWN_CHARACTER

    def text(self, words: Iterable[str]) -> str:
        """The pieces in a row."""
        return detokenize(words, self.name)

    def units(self, words: Sequence[str]) -> Sequence[str]:
        """The characters of the text, without spaces."""
        return characters(self.text(words))


Tokenizer: TypeAlias = Spaced | Unigram


def chunks(text: str) -> list[str]:
    """The parts of a text between its punctuation; one after white space begins with a space."""
    plain = _plain(unicodedata.normalize("NFKC", text).lower())
    pieces: list[str] = []
    before = 0
    for start, end in _spans(plain):
        spaced = pieces and any(map(str.isspace, plain[before:start]))
        pieces.append((" " if spaced else "") + plain[start:end])
        before = end
    return pieces


def characters(text: str) -> list[str]:
    """The characters of a text, without white space; marks stay with the letter before them."""
    signs: list[str] = []
    for character in text:
        if signs and (unicodedata.category(character)[0] == "M" or character in _JOINERS):
            signs[-1] += character
        elif not character.isspace():
            signs.append(character)
    return signs


def _sentencepiece(texts: Sequence[str], size: int, singles: int, longest: int) -> dict[str, float]:
    """The pieces that sentencepiece learns, with log p: at most ``size``, ``singles`` of them single characters."""
    try:
        from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
    except ImportError:
        raise MissingPackage(
            "these captions are in a script without spaces, and their words are learnt by sentencepiece, which is not "
            "installed",
            remedy=install_command("languages"),
        ) from None
    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type="unigram",
            vocab_size=max(size, singles) + 1,  # and the unknown piece
            hard_vocab_limit=False,
            character_coverage=1.0,
            max_sentencepiece_length=longest,
            normalization_rule_name="identity",
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            split_by_unicode_script=False,
            split_by_number=False,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            num_threads=1,  # so that the same captions give the same pieces
            minloglevel=2,
        )
    except RuntimeError as error:
        raise SatError(f"sentencepiece cannot learn words of these captions ({error}): give more captions") from error
    learnt = SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [(learnt.id_to_piece(number), learnt.get_score(number)) for number in range(1, learnt.get_piece_size())]
    return {piece.replace("▁", " "): score for piece, score in pieces}


def named(name: object, scores: dict[str, float] | None = None) -> Tokenizer:
    """The tokenizer of that name in a file; ``scores`` are those of a `Unigram`. Raises `SatError` if damaged."""
    if name == Unigram.name:
        if not scores or not all(math.isfinite(score) for score in scores.values()):
            raise SatError("its pieces must each have a score, a finite number")
        return Unigram(scores)
    tokenizer = next((tokenizer for tokenizer in SPACED if tokenizer.name == name), None)
    if tokenizer is None:
        raise SatError(f"it has the tokenizer {str(name)[:40]!r}, which this version does not know")
    return tokenizer


def detokenize(words: Iterable[str], name: str) -> str:
    """The text of words that the tokenizer of that name has cut."""
    return "".join(words).strip() if name == Unigram.name else " ".join(words)


# Scores


def in_form(text: str, tokens: Tokens) -> str:
    """A text as scores of such tokens take it."""
    if tokens in ("raw", "ptb"):
        return text.strip()
    if tokens == "characters":
        return "".join(chunks(text)).strip()
    spaced = next(tokenizer for tokenizer in SPACED if tokenizer.tokens == tokens)
    return " ".join(spaced.words(text))


def compared(text: str, tokens: Tokens) -> list[str]:
    """What scores of such tokens compare in a text that is in their form."""
    return characters(text) if tokens == "characters" else text.split()
