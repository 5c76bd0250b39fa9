"""How good captions are: BLEU for use during training, and all metrics of a model's card, x100.

Two named conventions for the words that are compared. `"split"`, the headline: captions and references are
the split file's own tokens (lower-case, no punctuation) joined by spaces, given to the scorers as they are.
`"ptb"`: both are raw text, cut by the Penn Treebank tokeniser as coco-caption does. Scores of one convention
must not be compared with scores of the other: the difference is worth several points.

BLEU without its brevity penalty, which the paper quotes, flatters short captions: quote it beside the other.
"""

import contextlib
import importlib
import io
import math
import subprocess
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from show_attend_tell.errors import SatError

# pycocoevalcap's guards against a division by zero, kept so that the figures agree to the last digit.
_TINY = 1e-15
_SMALL = 1e-9

# Java that prints "0,5" for a half in some countries, or reads the captions in another encoding, would give
# wrong scores without a word.
_JAVA = ["java", "-Duser.language=en", "-Duser.country=US", "-Dfile.encoding=UTF-8"]
_JAVA_SECONDS = 30.0


@dataclass(frozen=True)
class Bleu:
    """Corpus BLEU-1 to BLEU-4 (x100), with and without the penalty for captions that are too short."""

    with_penalty: tuple[float, float, float, float]
    no_brevity: tuple[float, float, float, float]
    brevity_penalty: float  # the factor between the two, 0 to 1
    hypothesis_length: int  # words in all captions
    reference_length: int  # words in the references closest to them in length


def bleu(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> Bleu:
    """Score captions against their references by BLEU-1 to BLEU-4 over the whole corpus, x100.

    `hypotheses` are N captions as lists of words and `references` N lists of captions, in the same order.
    BLEU-n is the geometric mean of the precisions of 1- to n-grams, each counted over all captions (never
    averaged over captions or batches) and clipped by the reference that has the n-gram most often. The
    brevity penalty compares the summed length with that of the closest references, the shorter one where two
    are as close (Papineni et al. 2002). Equals pycocoevalcap's `Bleu` on the same words.

    Raises SatError without captions, for lists of different lengths, and for a caption without references.
    """
    if not hypotheses:
        raise SatError("there are no captions to score")
    if len(hypotheses) != len(references):
        raise SatError(f"{len(hypotheses)} captions cannot be scored against {len(references)} lists of references")
    correct, guessed = [0] * 4, [0] * 4
    hypothesis_length = reference_length = 0
    for index, (words, choices) in enumerate(zip(hypotheses, references, strict=True)):
        if not choices:
            raise SatError(f"caption {index} ({' '.join(words)!r}) has no references")
        hypothesis_length += len(words)
        reference_length += min((len(choice) for choice in choices), key=lambda n: (abs(n - len(words)), n))
        for n in range(1, 5):
            counts = _ngrams(words, n)
            allowed: Counter[tuple[str, ...]] = Counter()
            for choice in choices:
                allowed |= _ngrams(choice, n)
            correct[n - 1] += (counts & allowed).total()
            guessed[n - 1] += counts.total()

    ratio = (hypothesis_length + _TINY) / (reference_length + _SMALL)
    penalty = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    product, plain = 1.0, []
    for n in range(4):
        product *= (correct[n] + _TINY) / (guessed[n] + _SMALL)
        plain.append(100 * product ** (1 / (n + 1)))
    no_brevity = (plain[0], plain[1], plain[2], plain[3])
    with_penalty = (penalty * plain[0], penalty * plain[1], penalty * plain[2], penalty * plain[3])
    return Bleu(with_penalty, no_brevity, penalty, hypothesis_length, reference_length)


def _ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(n)), strict=False))


def score(
    hypotheses: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    *,
    tokens: Literal["split", "ptb"] = "split",
) -> dict[str, Any]:
    """Score captions by every metric of a captioner's card, x100, through pycocoevalcap 1.2.

    `hypotheses` gives one caption per photo and `references` its references, by the same names. With the
    tokens "split" the texts are compared word by word as they are; with "ptb" they are raw captions and
    are tokenised first, which needs Java.

    The result has `bleu_1` to `bleu_4`, `bleu_1_no_brevity` to `bleu_4_no_brevity`, `brevity_penalty` (a
    factor, not x100), `meteor` (METEOR 1.5, which needs Java: without it None, and `meteor_missing` says
    why), `rouge_l`, `cider` (CIDEr-D), `captions` (how many) and `tokens`.

    Raises SatError when pycocoevalcap is not installed, without captions, when the two do not name the same
    photos, for a photo without (non-empty) references, and for "ptb" without Java.
    """
    _check_names(hypotheses, references)
    if tokens not in ("split", "ptb"):
        raise SatError(f"unknown tokens {tokens!r} to score by; there are 'split' and 'ptb'")
    scorers = {name: _scorer(name) for name in ("bleu.bleu", "meteor.meteor", "rouge.rouge", "cider.cider")}

    # One space between words: a line break would end a sentence early in the Java programs, and ROUGE counts
    # the nothing between two spaces as a word.
    photos = list(hypotheses)
    candidates = [" ".join(hypotheses[photo].split()) for photo in photos]
    choices = [[" ".join(text.split()) for text in references[photo]] for photo in photos]
    if tokens == "ptb":
        texts = [*candidates, *(text for texts in choices for text in texts)]
        words = iter(_ptb_tokenise(texts, _scorer("tokenizer.ptbtokenizer")))
        candidates = [next(words) for _ in candidates]
        choices = [[next(words) for _ in texts] for texts in choices]
    for photo, texts in zip(photos, choices, strict=True):
        if not any(texts):
            raise SatError(f"the photo {photo!r} has no reference with a word in it; leave it out or describe it")

    given = {photo: [text] for photo, text in zip(photos, candidates, strict=True)}
    wanted = dict(zip(photos, choices, strict=True))
    with contextlib.redirect_stdout(io.StringIO()):  # the scorers chatter, and stdout may be our caller's JSON
        bleus, _ = scorers["bleu.bleu"].Bleu(4).compute_score(wanted, given, verbose=0)
        rouge, _ = scorers["rouge.rouge"].Rouge().compute_score(wanted, given)
        cider, _ = scorers["cider.cider"].Cider().compute_score(wanted, given)
    plain = bleu([text.split() for text in candidates], [[text.split() for text in texts] for texts in choices])

    result: dict[str, Any] = {f"bleu_{n}": 100 * float(value) for n, value in enumerate(bleus, start=1)}
    result |= {f"bleu_{n}_no_brevity": value for n, value in enumerate(plain.no_brevity, start=1)}
    result["brevity_penalty"] = plain.brevity_penalty
    try:
        result["meteor"] = 100 * _meteor(candidates, choices, scorers["meteor.meteor"])
    except _JavaError as problem:
        result |= {"meteor": None, "meteor_missing": str(problem)}
    result |= {"rouge_l": 100 * float(rouge), "cider": 100 * float(cider)}
    return result | {"captions": len(photos), "tokens": tokens}


def check_scorers() -> None:
    """Raise `SatError` now if `score` would for want of pycocoevalcap, before captions are made in vain."""
    _scorer("bleu.bleu")


def describe(hypotheses: Mapping[str, str], training: Iterable[Sequence[str]] | None) -> dict[str, float]:
    """Say how varied captions are, which no score of a single caption shows.

    Gives `words_used` (different words), `mean_length` (words per caption), `distinct` (the share of captions
    that differ from all before them) and, when the `training` captions are given as lists of words,
    `not_in_training` (the share that is not the copy of one). Shares are x100. Raises SatError without
    captions.
    """
    if not hypotheses:
        raise SatError("there are no captions to describe")
    captions = [tuple(text.split()) for text in hypotheses.values()]
    share = 100 / len(captions)
    result: dict[str, float] = {
        "words_used": len({word for caption in captions for word in caption}),
        "mean_length": sum(map(len, captions)) / len(captions),
        "distinct": share * len(set(captions)),
    }
    if training is not None:
        seen = {tuple(caption) for caption in training}
        result["not_in_training"] = share * sum(caption not in seen for caption in captions)
    return result


def _scorer(name: str) -> ModuleType:
    try:
        return importlib.import_module(f"pycocoevalcap.{name}")
    except ImportError as error:
        raise SatError(f"scoring needs pycocoevalcap ({error}): pip install show-attend-tell[evaluation]") from error


def _check_names(hypotheses: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> None:
    if not hypotheses:
        raise SatError("there are no captions to score")
    for photo in hypotheses:
        if photo not in references:
            raise SatError(f"the photo {photo!r} has a caption but no references; score the photos of one split")
        if isinstance(references[photo], str):
            raise SatError(f"the references of the photo {photo!r} are one text; give a list of texts")
    for photo in references:
        if photo not in hypotheses:
            raise SatError(f"the photo {photo!r} has references but no caption; score the photos of one split")


class _JavaError(Exception):
    """A Java program that the metrics need is missing or failed; the message says which and what to do."""


def _java_program(module: ModuleType, jar: str) -> Path:
    """Find a jar beside its Python module and make sure that Java runs, or raise _JavaError.

    pycocoevalcap does not look: its tokeniser then returns empty captions, and its METEOR hangs.
    """
    path = Path(str(module.__file__)).resolve().parent / jar
    if not path.is_file():
        raise _JavaError(f"{path} is missing; install pycocoevalcap 1.2 again")
    try:
        subprocess.run(
            ["java", "-version"],
            check=True,
            capture_output=True,
            timeout=_JAVA_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise _JavaError("Java is not installed (on Debian: apt install default-jre-headless)") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise _JavaError(f"`java -version` failed ({error}); install Java again") from error
    return path


def _ptb_tokenise(texts: Sequence[str], module: ModuleType) -> list[str]:
    """Cut raw captions with pycocoevalcap's own tokeniser program and drop what it counts as punctuation."""
    try:
        jar = _java_program(module, module.STANFORD_CORENLP_3_4_1_JAR)
        program = "edu.stanford.nlp.process.PTBTokenizer"
        done = subprocess.run(
            [*_JAVA, "-cp", str(jar), program, "-preserveLines", "-lowerCase", "-encoding", "UTF-8"],
            input="\n".join(texts) + "\n",
            capture_output=True,
            check=True,
            encoding="utf-8",
            timeout=_JAVA_SECONDS + 0.01 * len(texts),
        )
    except (_JavaError, OSError, subprocess.SubprocessError) as error:
        raise SatError(f"the tokens 'ptb' need its tokeniser: {error}") from error
    lines = done.stdout.split("\n")[:-1]
    if len(lines) != len(texts):
        raise SatError(f"the PTB tokeniser returned {len(lines)} lines for {len(texts)} captions; use 'tokens'")
    return [" ".join(word for word in line.rstrip().split(" ") if word not in module.PUNCTUATIONS) for line in lines]


def _meteor(candidates: Sequence[str], choices: Sequence[Sequence[str]], module: ModuleType) -> float:
    """Run METEOR 1.5 (0 to 1) with the program and settings of pycocoevalcap, or raise _JavaError.

    The conversation is that of its `Meteor` class, which is not used because it waits for ever, even while
    Python ends, for a process that died or went silent. Here a timer ends the process, which ends every read
    from it.
    """
    jar = _java_program(module, module.METEOR_JAR)
    seconds = 2 * _JAVA_SECONDS + 0.1 * len(candidates)
    command = [*_JAVA, "-Xmx2G", "-jar", str(jar), "-", "-", "-stdio", "-l", "en", "-norm"]
    process = subprocess.Popen(
        command,
        cwd=jar.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None  # what PIPE means, said to the type checker
    assert stdout is not None

    def ask(line: str) -> str:
        stdin.write(line + "\n")
        stdin.flush()
        return stdout.readline().strip()

    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        statistics = []
        for candidate, references in zip(candidates, choices, strict=True):
            # "|||" parts the fields; a caption that holds it would shift them.
            fields = [text.replace("|||", "") for text in (*references, candidate)]
            statistics.append(ask(" ||| ".join(("SCORE", *fields))))
        ask(" ||| ".join(("EVAL", *statistics)))  # answered by a score per caption, then that of the corpus
        answers = [stdout.readline() for _ in candidates]
        return float(answers[-1])
    except (OSError, ValueError) as error:
        reason = f"gave no answer within {seconds:.0f} s" if not timer.is_alive() else f"stopped ({error})"
        raise _JavaError(f"METEOR's program {reason}; run it by hand: {' '.join(command)}") from error
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        stdout.close()
        with contextlib.suppress(OSError):  # words that the dead process did not take
            stdin.close()
