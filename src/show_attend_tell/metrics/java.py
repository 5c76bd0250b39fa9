"""The metrics that run on Java: METEOR, SPICE and the Penn Treebank tokenizer, as pycocoevalcap 1.2 carries them.

The programs are pycocoevalcap's, with the same settings and the same input. Its Python classes for them are not used:

- they do not check that Java and the jars are there; the tokenizer then returns empty captions, and every score is 0;
- they wait without end for a program that died or does not answer.

N captions, each with its references; the words of a text are separated by single spaces.
"""

import importlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from show_attend_tell.errors import MissingPackage, SatError
from show_attend_tell.messages import install_command, shorten
from show_attend_tell.metrics.bootstrap import Array

# In some countries Java prints a half as "0,5", and it may read captions in another encoding: wrong scores without a
# warning.
_JAVA = ["java", "-Duser.language=en", "-Duser.country=US", "-Dfile.encoding=UTF-8"]

# SPICE looks into Java's own classes. Java 16 and later refuse that without these options; Java 8 does not know them
# and has to ignore them.
_OPENED = ["-XX:+IgnoreUnrecognizedVMOptions"] + [
    f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "math", "net", "text", "util")
]
_SPICE_MODELS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")


class JavaError(Exception):
    """A Java program that a metric needs is missing or failed; the message says which and what to do."""


def scorer_module(name: str) -> ModuleType:
    """A module of pycocoevalcap, such as "rouge.rouge"; raises `MissingPackage` where it is not installed."""
    try:
        return importlib.import_module(f"pycocoevalcap.{name}")
    except ImportError as error:
        raise MissingPackage(f"scoring needs pycocoevalcap ({error})", remedy=install_command("evaluation")) from error


@dataclass(frozen=True)
class Java:
    """pycocoevalcap's programs in Java, which is on the path."""

    folder: Path | None = None  # of their jars; by default they are beside pycocoevalcap's modules
    patience: float = 300.0  # seconds to wait for one answer; METEOR's first takes five on a free core

    def _program(self, module: ModuleType, jar: str) -> Path:
        """Find Java and a jar, or raise `JavaError`."""
        path = (self.folder or Path(str(module.__file__)).resolve().parent) / jar
        if not path.is_file():
            raise JavaError(f"{path} is missing; install pycocoevalcap 1.2 again")
        if shutil.which("java") is None:
            raise JavaError("Java is not installed (on Debian: apt install default-jre-headless)")
        return path

    def _run(self, name: str, arguments: Sequence[str], lines: Sequence[str], jar: Path, seconds: float) -> str:
        """What a program answers to lines of text; raises `JavaError`, with the end of what it said, when it fails."""
        try:
            return subprocess.run(
                [*_JAVA, *arguments],
                cwd=jar.parent,
                input="".join(f"{line}\n" for line in lines),
                capture_output=True,
                check=True,
                encoding="utf-8",
                errors="replace",
                timeout=seconds,
            ).stdout
        except subprocess.CalledProcessError as error:
            raise JavaError(f"{name}'s program failed: {' '.join(error.stderr.split())[-300:]}") from error
        except (OSError, subprocess.SubprocessError) as error:
            late = isinstance(error, subprocess.TimeoutExpired)
            raise JavaError(f"{name}'s program failed: {f'no answer in {seconds:.0f} s' if late else error}") from error

    def ptb_tokenize(self, texts: Sequence[str]) -> list[str]:
        """Cut raw captions by pycocoevalcap's own tokenizer, without punctuation; raises `SatError` if it cannot."""
        module = scorer_module("tokenizer.ptbtokenizer")
        options = ("-preserveLines", "-lowerCase", "-encoding", "UTF-8")
        try:
            jar = self._program(module, module.STANFORD_CORENLP_3_4_1_JAR)
            arguments = ["-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer", *options]
            answer = self._run("the tokenizer", arguments, texts, jar, self.patience + 0.01 * len(texts))
        except JavaError as error:
            raise SatError(f"the tokens 'ptb' need its tokenizer: {error}") from error
        lines = answer.split("\n")[:-1]
        if len(lines) != len(texts):
            raise SatError(
                f"the PTB tokenizer returned {len(lines)} lines for {len(texts)} captions; use the tokens split"
            )
        return [
            " ".join(word for word in line.rstrip().split(" ") if word not in module.PUNCTUATIONS) for line in lines
        ]

    def meteor(self, captions: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
        """What each caption adds to METEOR 1.5 (N, 23); a corpus' METEOR is that of the sum (`meteor_of`)."""
        module = scorer_module("meteor.meteor")
        jar = self._program(module, module.METEOR_JAR)
        arguments = ["-Xmx2G", "-jar", str(jar), "-", "-", "-stdio", "-l", "en", "-norm"]
        lines = [  # "|||" separates the fields; in a caption it would shift them
            " ||| ".join(("SCORE", *(text.replace("|||", "") for text in (*texts, caption))))
            for caption, texts in zip(captions, references, strict=True)
        ]
        answer = self._run("METEOR", arguments, lines, jar, self.patience + 0.1 * len(captions))
        try:
            statistics = np.array([[float(number) for number in line.split()] for line in answer.splitlines()])
        except ValueError:
            statistics = np.empty(0)
        if statistics.shape != (len(captions), 23):
            raise JavaError(f"METEOR's program failed: it answered {shorten(answer)}")
        return _summable(statistics)

    def spice(self, captions: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
        """SPICE of each caption, 0 to 1: the F-score of its objects, attributes, relations (Anderson et al. 2016)."""
        module = scorer_module("spice.spice")
        jar = self._program(module, module.SPICE_JAR)
        if not all((jar.parent / "lib" / name).is_file() for name in _SPICE_MODELS):
            raise JavaError(
                "its parser's models are not here; fetch them once, half a gigabyte: "
                "python -m pycocoevalcap.spice.get_stanford_models"
            )
        with tempfile.TemporaryDirectory() as folder:
            given = Path(folder) / "captions.json"
            found = Path(folder) / "scores.json"
            entries = [
                {"image_id": str(index), "test": caption, "refs": list(texts)}
                for index, (caption, texts) in enumerate(zip(captions, references, strict=True))
            ]
            given.write_text(json.dumps(entries), encoding="utf-8")
            # Without SPICE's cache: it needs a library that not every machine can load, and it changes no score.
            arguments = [*_OPENED, "-Xmx8G", "-jar", str(jar), str(given), "-out", str(found), "-subset", "-silent"]
            self._run("SPICE", arguments, [], jar, 5 * self.patience + len(captions))
            try:
                answer = json.loads(found.read_text("utf-8"))
                scores = {entry["image_id"]: float(entry["scores"]["All"]["f"]) for entry in answer}
                each = np.array([scores[entry["image_id"]] for entry in entries])
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise JavaError(f"SPICE's program failed: {error}") from error
        if not np.isfinite(each).all():
            raise JavaError("SPICE's program gave no number for some captions")
        return each


def _summable(statistics: Array) -> Array:
    """METEOR's statistics (N, 23); a caption that matches a whole reference has no chunk, as METEOR counts."""
    matched = statistics[:, 4:20].reshape(-1, 4, 2, 2).sum((1, 2))  # of the caption, and of the reference
    chunks = statistics[:, 20]
    chunks[(matched == statistics[:, :2]).all(1) & (chunks == 1)] = 0  # a view: in place
    return statistics


def meteor_of(statistics: Array) -> Array:
    """METEOR 1.5 (...) of summed statistics (..., 23), 0 to 1, with its parameters for English.

    P and R are weighted shares of matched words, content words counting δ and function words 1 − δ; the score is
    (1 − γ (chunks / matches)^β) P R / (α P + (1 − α) R) (Denkowski & Lavie 2014).
    """
    alpha, beta, gamma, delta = 0.85, 0.20, 0.60, 0.75
    modules = np.array([1.0, 0.6, 0.8, 0.6])  # matches that are exact, by stem, by synonym, by paraphrase
    matches = statistics[..., 4:20].reshape(*statistics.shape[:-1], 4, 4)  # (..., module, content ×2 and function ×2)
    chunks, matched, reference_matched = np.moveaxis(statistics[..., 20:], -1, 0)
    weighted = modules @ matches  # (..., 4): the caption's and the references' content words, then function words
    right = delta * weighted[..., :2] + (1 - delta) * weighted[..., 2:]  # (..., 2)
    lengths = statistics[..., :2]
    functions = statistics[..., 2:4]
    with np.errstate(divide="ignore", invalid="ignore"):  # where nothing matches the score is 0
        precision, recall = np.moveaxis(right / (delta * (lengths - functions) + (1 - delta) * functions), -1, 0)
        mean = precision * recall / (alpha * precision + (1 - alpha) * recall)
        penalty = gamma * (2 * chunks / (matched + reference_matched)) ** beta
        score: Array = np.nan_to_num((1 - penalty) * mean)
    return score
