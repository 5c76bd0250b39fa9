"""Words and their numbers, and the tokenizer that cuts captions into these words.

Id 0 is the end of a caption and id 1 an unknown word, as in the authors' program; every other id is one word
of the training captions, the most frequent first. There is no start id: a caption begins from a zero
embedding.
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from show_attend_tell.data.tokenizers import KARPATHY, Spaced, Tokenizer, Unigram, named
from show_attend_tell.errors import SatError
from show_attend_tell.files import read_json, write_text

END_TEXT = "<end>"
UNKNOWN_TEXT = "<unk>"


class Vocabulary:
    """The K words that a captioner knows, each with its id; K = 10,000 in the paper (sec. 5.1)."""

    END = 0
    UNKNOWN = 1

    def __init__(
        self,
        words: Iterable[str],
        tokenizer: Tokenizer = KARPATHY,
        *,
        forms: Mapping[str, str] | None = None,
        capital: bool = False,
    ) -> None:
        """Make the vocabulary of `words`, whose ids start at 2; ``forms`` are spellings, such as "Hund" for "hund"."""
        self.tokenizer = tokenizer
        self.forms = dict(forms or {})
        self.capital = capital
        self.words = (END_TEXT, UNKNOWN_TEXT, *words)  # all K, in the order of their ids
        # The two special words are left out: a caption that spells "<end>" must not end there.
        self._ids = {word: i for i, word in enumerate(self.words) if i > Vocabulary.UNKNOWN}
        if len(self._ids) != len(self.words) - 2:
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise SatError(f"the vocabulary holds the word {twice!r} twice; build it again")

    @classmethod
    def build(
        cls,
        captions: Iterable[Sequence[str]],
        *,
        minimum_count: int = 1,
        size: int = 10_000,
        tokenizer: Tokenizer = KARPATHY,
        text_corpus: Iterable[Sequence[str]] = (),
        texts: Iterable[str] = (),
        start: "Vocabulary | None" = None,
    ) -> "Vocabulary":
        """Collect the most frequent words of the training captions, ties in alphabetical order.

        Words of fewer than `minimum_count` occurrences are left out, and so is what does not fit into `size` ids.
        `text_corpus`, captions without photos, counts too for words that a training caption has. `texts` are the
        training captions as they were written. A `Unigram` has all of its pieces instead. The words of another
        vocabulary, ``start``, come first, with their ids and spellings.
        """
        if size < 3:
            raise SatError(f"a vocabulary of size {size} has no room for words; give at least 3")
        if isinstance(tokenizer, Unigram):
            often = [piece for piece in _frequent(captions, 1) if piece in tokenizer.scores]
            return start or cls(dict.fromkeys([*often, *tokenizer.scores]), tokenizer)
        known = start or cls((), tokenizer)
        frequent = [word for word in _frequent(captions, minimum_count, text_corpus) if word not in known]
        if not frequent and start is None:
            raise SatError(
                f"no word occurs {minimum_count} times or more in the training captions; "
                "lower minimum_count or give more captions"
            )
        words = (*known.words[2:], *frequent[: max(0, size - len(known))])
        return cls(words, tokenizer, forms=known.forms, capital=known.capital)._spelt(texts)

    def _spelt(self, texts: Iterable[str]) -> "Vocabulary":
        """This vocabulary, with the forms that texts mostly write behind their first word (not Karpathy's tokens)."""
        if not isinstance(self.tokenizer, Spaced) or self.tokenizer == KARPATHY:
            return self
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        begin = Counter[bool]()  # whether texts begin with a capital letter
        for text in texts:
            words = self.tokenizer.words(text)
            written = self.tokenizer.written(text)
            if not words or words != [word.lower() for word in written]:  # some letters change their number
                continue
            if written[0][0].isalpha():
                begin[written[0][0].isupper()] += 1
            for word, form in zip(words[1:], written[1:], strict=True):
                counts[word][form] += 1
        often = {word: max(forms, key=lambda form: (forms[form], form == word)) for word, forms in counts.items()}
        kept = {word: form for word, form in (self.forms | often).items() if form != word and word in self}
        capital = begin[True] > begin[False] if begin else self.capital
        return Vocabulary(self.words[2:], self.tokenizer, forms=kept, capital=capital)

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Turn T words into C = T + 1 ids: unknown words become UNKNOWN, and END is appended."""
        return [*(self._ids.get(token, Vocabulary.UNKNOWN) for token in tokens), Vocabulary.END]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Turn ids into words, up to the first END if there is one; UNKNOWN prints as `<unk>`."""
        return [self.words[i] for i in takewhile(lambda i: i != Vocabulary.END, ids)]

    def written(self, ids: Iterable[int]) -> list[str]:
        """The words of ids as the training captions mostly write them, up to the first END if there is one."""
        words = [self.forms.get(word, word) for word in self.decode(ids)]
        if self.capital and words and words[0].islower():
            words[0] = words[0][0].upper() + words[0][1:]
        return words

    def text(self, ids: Iterable[int]) -> str:
        """The text of ids in lower case, as scores compare it, up to the first END if there is one."""
        return self.tokenizer.text(self.decode(ids))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.words == other.words and self.tokenizer == other.tokenizer

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words)"

    def to_json(self) -> Any:
        """What `from_json` takes: all K words in the order of their ids, and any tokenizer but Karpathy's."""
        words = list(self.words)
        if self.tokenizer == KARPATHY:
            return words
        more: dict[str, Any] = {"forms": self.forms} if self.forms else {}
        more |= {"capital": True} if self.capital else {}
        if isinstance(self.tokenizer, Unigram):
            more = {"scores": [self.tokenizer.scores[piece] for piece in words[2:]]}
        return {"tokenizer": self.tokenizer.name, "words": words, **more}

    @classmethod
    def from_json(cls, content: object) -> "Vocabulary":
        """Make the vocabulary that `to_json` described; raises SatError when it does not describe one."""
        values = content if isinstance(content, dict) else {"words": content, "tokenizer": KARPATHY.name}
        words = values.get("words")
        scores = values.get("scores")
        if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
            raise SatError("a vocabulary is a list of words, and this is not one")
        if words[:2] != [END_TEXT, UNKNOWN_TEXT]:
            raise SatError(f"a vocabulary starts with {END_TEXT!r}, {UNKNOWN_TEXT!r}; this one with {words[:2]!r}")
        if scores is None:
            forms = values.get("forms", {})
            if not isinstance(forms, dict) or any(not isinstance(f, str) or f.lower() != w for w, f in forms.items()):
                raise SatError("'forms' must give words as they are written, in other capitals")
            return cls(words[2:], named(values.get("tokenizer")), forms=forms, capital=values.get("capital") is True)
        if not isinstance(scores, list) or len(scores) != len(words) - 2 or {*map(type, scores)} - {int, float}:
            raise SatError("'scores' must be a list of one number for each word")
        return cls(words[2:], named(values.get("tokenizer"), dict(zip(words[2:], map(float, scores), strict=True))))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the words to `path` as JSON (`to_json`), whole or not at all."""
        write_text(Path(path), json.dumps(self.to_json(), ensure_ascii=False, indent=0))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Vocabulary":
        """Read a vocabulary that `save` wrote; raises SatError when the file is missing or damaged."""
        content = read_json(Path(path))
        try:
            return cls.from_json(content)
        except (SatError, OverflowError) as error:  # the latter of a score
            raise SatError(f"the vocabulary {path} is damaged: {error}") from error


def _frequent(
    captions: Iterable[Sequence[str]], minimum_count: int, text_corpus: Iterable[Sequence[str]] = ()
) -> list[str]:
    """The words that captions have ``minimum_count`` times with the corpus, the most frequent first, then by letter."""
    counts = Counter(word for caption in captions for word in caption)
    counts.update(word for text in text_corpus for word in text if word in counts)
    del counts[END_TEXT], counts[UNKNOWN_TEXT]
    frequent = [word for word, count in counts.items() if count >= minimum_count]
    return sorted(frequent, key=lambda word: (-counts[word], word))
