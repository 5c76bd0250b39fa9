"""Templates: the detected words of a photo, put into a grammar that is learnt from the training captions.

    PYTHONPATH=research python -m table1.templates flickr8k/ runs/msr-1 --json templates.json

After Kulkarni et al., *Baby Talk* (2011), who fill templates with detected objects, attributes and relations, and
Mitchell et al., *Midge* (2012), who build sentences around detected nouns by the statistics of captions. The paper
names both as related work.

- **Grammar.** A template is a training caption whose nouns, verbs and colors are slots: "a NOUN in a COLOR NOUN is
  VERB". The `TEMPLATES` most frequent ones are the grammar.
- **Words.** A slot takes the `CANDIDATES` words of its kind that are detected with the largest p_w (`detectors`, those
  of MS Research).
- **Choice.** A beam search fills each template. The caption with the largest score is taken:

      [Σ_slots λ log(p_w / p̄_w) + Σ_t log p(y_t | y_{t−2}, y_{t−1})] / C^γ

  with p̄_w the mean of p_w in training, a smoothed trigram model, and C the words with the end token. BLEU-4 on val
  chooses λ and γ. No caption names a word twice in its slots.

Left out: the originals detect objects and their places by detectors with boxes, and have attributes and prepositions
for these. Here a preposition is a word of the template, which the trigram model fits to its neighbors.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from measure import arguments
from stages import reporting
from torch import Tensor

from show_attend_tell.backends.torch import build_decoder
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.cli.evaluate import write_scores
from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.data.parts_of_speech import part_of_speech
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.evaluation import score_split
from show_attend_tell.metrics.bleu import bleu
from show_attend_tell.metrics.scores import Evaluation, check_scorers
from show_attend_tell.progress import Progress
from show_attend_tell.vision.encoder import load_encoder
from table1.detectors import FIRST, annotations_of, detected
from table1.msr import Msr
from table1.ngram_model import NgramModel

SLOTS = ("noun", "verb", "color")
TEMPLATES = 150
CANDIDATES = 6  # words of a kind that may fill a slot
BEAM_SIZE = 8
WEIGHTS = (0.5, 1.0, 1.5, 2.0)  # λ, tried on val
PENALTIES = (0.5, 1.0, 1.5, 2.0)  # γ, tried on val

Template = tuple[int | str, ...]  # word ids, and the kinds of slots; the end token is the last


class Filled(NamedTuple):
    """A caption that a template gives."""

    words: tuple[int, ...]
    lift: float  # Σ log(p_w / p̄_w) of its slots
    log_p: float  # of the trigram model


class Grammar:
    """The templates of training captions, and how they are filled."""

    def __init__(self, captions: Sequence[Sequence[int]], vocabulary: Vocabulary) -> None:
        kinds = [part_of_speech(word) for word in vocabulary.words]
        self.kinds = [kind if kind in SLOTS else None for kind in kinds]
        self.model = NgramModel(captions, len(vocabulary), orders=2)
        known = (caption for caption in captions if Vocabulary.UNKNOWN not in caption)
        counts: Counter[Template] = Counter(tuple(self.kinds[word] or word for word in caption) for caption in known)
        self.templates = [template for template, _ in counts.most_common(TEMPLATES)]

    def candidates(self, shares: Tensor, lifts: Tensor) -> dict[str, list[tuple[int, float]]]:
        """The words of each kind with the largest shares p_w (W,), and their lifts log(p_w / p̄_w)."""
        found: dict[str, list[tuple[int, float]]] = {kind: [] for kind in SLOTS}
        for index in shares.argsort(descending=True).tolist():
            of_kind = found.get(self.kinds[FIRST + index] or "", [])
            if len(of_kind) < CANDIDATES:
                of_kind.append((FIRST + index, float(lifts[index])))
        return found

    def fill(self, candidates: dict[str, list[tuple[int, float]]], weight: float) -> list[Filled]:
        """The best caption of each template, by a beam search with that weight λ."""
        best = []
        for template in self.templates:
            beam = [Filled((), 0.0, 0.0)]
            for part in template:
                choices = [(part, 0.0)] if isinstance(part, int) else candidates[part]
                longer = [
                    Filled((*words, word), lift + more, log_p + self.log_share(word, words))
                    for words, lift, log_p in beam
                    for word, more in choices
                    if isinstance(part, int) or word not in words
                ]
                beam = sorted(longer, key=lambda each: -(weight * each.lift + each.log_p))[:BEAM_SIZE]
            best += beam[:1]
        return best

    def log_share(self, word: int, before: Sequence[int]) -> float:
        """log p of a word after all words before it."""
        last = (len(self.kinds), len(self.kinds), *before)[-2:]
        return self.model.log_share(word, last[::-1])


def caption(filled: Sequence[Filled], weight: float, penalty: float) -> tuple[int, ...]:
    """The words, without the end token, of the caption with the largest score by λ and γ."""
    best = max(filled, key=lambda each: (weight * each.lift + each.log_p) / len(each.words) ** penalty)
    return best.words[:-1]


def evaluate(dataset: Dataset, model: Path, split: str, *, cache: Path, show: bool = True) -> Evaluation:
    """Caption a whole split by templates, with the λ and γ that are best on val, and score it.

    ``model`` is the folder that `msr_training` wrote. ``settings["templates"]`` holds what was chosen, and val BLEU-4
    (with brevity penalty, ×100) of everything that was tried. Raises `SatError` for a model without detectors.
    """
    check_scorers()
    checkpoint = Checkpoint.load(model)
    decoder, vocabulary = build_decoder(checkpoint), checkpoint.vocabulary
    if not isinstance(decoder, Msr):
        raise SatError(f"{model} has no word detectors: give the folder that python -m table1.msr_training wrote")
    train, tokenizer = dataset.split("train"), dataset.tokenizer
    grammar = Grammar([vocabulary.encode(words) for example in train for words in example.captions], vocabulary)

    encoder = checkpoint.encoder.load(load_encoder, str(model))

    def shares(split: str) -> Tensor:
        return detected(decoder.detectors, annotations_of(dataset, split, encoder, cache, show=show)).sigmoid()

    usual = shares("train").mean(0)

    def captions(split: str, weights: Sequence[float]) -> dict[tuple[float, float], list[list[str]]]:
        found: dict[tuple[float, float], list[list[str]]] = {}
        for each in Progress(shares(split), desc="templates", unit="photo", disable=not show):
            candidates = grammar.candidates(each, (each / usual).log())
            for weight in weights:
                filled = grammar.fill(candidates, weight)
                for penalty in PENALTIES:
                    words = vocabulary.decode(caption(filled, weight, penalty))
                    found.setdefault((weight, penalty), []).append(words)
        return found

    val = dataset.split("val")
    references = [[tokenizer.units(words) for words in example.captions] for example in val]
    tried = {choice: bleu(each, references)[3] for choice, each in captions("val", WEIGHTS).items()}
    weight, penalty = max(tried, key=lambda choice: tried[choice])
    asked = dataset.split(split)
    entries = [
        {"photo": example.name, "file": str(example.photo.resolve()), "caption": tokenizer.text(words), "words": words}
        for example, words in zip(asked, captions(split, [weight])[weight, penalty], strict=True)
    ]
    scores = {f"λ {weight:g}, γ {penalty:g}": round(score, 2) for (weight, penalty), score in tried.items()}
    chosen = {"weight": weight, "length_penalty": penalty, "validation_bleu_4": scores}
    return score_split(dataset, split, entries, settings={"model": "templates", "templates": chosen})


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Caption a split, print its scores, and write them with the captions."""
    parser = arguments("Score captions of detected words in templates.", split="test", seeded=False)
    parser.add_argument("detectors", type=Path, help="folder that python -m table1.msr_training wrote")
    options = parser.parse_args(given)
    dataset = read_dataset(options.data)
    result = evaluate(dataset, options.detectors, options.split, cache=options.cache)
    chosen = result.settings["templates"]
    how = f"λ {chosen['weight']:g}, γ {chosen['length_penalty']:g}"
    write_scores(options.json and str(options.json), result, f"templates on {dataset.name} {options.split}", how)


if __name__ == "__main__":
    main()
