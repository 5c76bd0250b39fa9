"""MS Research, part by part: train its detectors, then its language model, choose the ranking, and examine each part.

    export PYTHONPATH=research
    python -m table1.msr_training flickr8k/ runs/msr-1 --seed 1   # some ten minutes
    python -m table1.msr_training flickr8k/ --examine runs/msr-1  # figures of its parts on val, kept in results/

The detectors are compared with a linear probe of the mean annotation, and with the words of this project's reranker
(`rerank.ngrams`), by their mean average precision. The language model learns from words as they are detected in photos
that the detectors have not seen: `FOLDS` further sets of detectors give them. And it learns as if a caption's own
n-grams had been counted without this caption, since it would trust n-grams too much otherwise.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import results
import torch
from stages import new_parser, reporting
from torch import Tensor, nn

from show_attend_tell.backends.torch import TorchBackend, build_decoder, decoder_weights
from show_attend_tell.checkpoint.checkpoint import Checkpoint, StoredReranker
from show_attend_tell.checkpoint.hub import SHIPPED
from show_attend_tell.checkpoint.records import EncoderRecord
from show_attend_tell.data.datasets import Dataset, Example, read_dataset
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.evaluation import score_split
from show_attend_tell.files import write_text
from show_attend_tell.generation import Decoding
from show_attend_tell.model.interface import Decoder, word_log_probabilities
from show_attend_tell.progress import Progress, progress_shown
from show_attend_tell.rerank.fit import fit_ngrams
from show_attend_tell.rerank.ngrams import VisualNgrams
from show_attend_tell.training.data import TrainingData, batches
from show_attend_tell.training.presets import flickr8k
from show_attend_tell.training.selection import Grid, choose_generation, usual_generation
from show_attend_tell.vision.encoder import load_encoder
from show_attend_tell.vision.feature_cache import default_cache
from table1 import detectors
from table1.detectors import BATCH_SIZE, FIRST, Detectors, annotations_of, detected, mean_average_precision, present
from table1.msr import Coverage, Msr, MsrConfig, once_seen

DETECTOR_EPOCHS, EPOCHS = 10, 2
FOLDS = 3
LEARNING_RATE = 3e-3  # of the language model
GRID = Grid(large_beam_sizes=(40,), rerank_weights=(0.0, 4.0, 8.0, 16.0, 32.0, 64.0))
SHOWN = ("bleu_4", "meteor", "cider")
CERTAIN = 6.0  # |log(p / (1 − p))| of words that are known

Captions = Mapping[str, Sequence[list[int]]]  # of each photo, by its name, as word ids


class Told(Msr):
    """MS Research with words that are given instead of detected: its annotations are their logits (B, 1, W)."""

    def detect(self, annotations: Tensor) -> Tensor:
        return annotations[:, 0]


class LeavingOut(Told):
    """The same while it learns captions: n-grams of theirs that no other caption has are not counted."""

    once: Tensor  # (G,), n-grams that training has once
    target: Tensor  # the words of all captions of the batch, one after the other

    def known_ngrams(self, before: Tensor) -> tuple[Tensor, Tensor]:
        rows, entries = super().known_ngrams(before)
        counted = ~(self.once[entries] & (self.following[entries] == self.target[rows]))
        return rows[counted], entries[counted]


class OfPhotos:
    """Features of photos by their names."""

    def __init__(self, names: Sequence[str], features: Tensor) -> None:
        self.rows = {name: row for row, name in enumerate(names)}
        self.features = features

    def __getitem__(self, names: Sequence[str]) -> Tensor:
        return self.features[[self.rows[name] for name in names]]


def make(dataset: Dataset, output: Path, *, seed: int, epochs: int, cache: Path, show: bool = True) -> None:
    """Train the parts one after the other, ``epochs`` of the detectors, and save the model.

    It notes the mean average precision on val, ×100, of the detectors, of the probe and of the reranker's words.
    """
    torch.manual_seed(seed)
    random.seed(seed)
    encoder, settings = load_encoder("vgg19", resize="squash"), flickr8k.SOFT
    words = [caption for example in dataset.split("train") for caption in example.captions]
    vocabulary = Vocabulary.build(words, minimum_count=settings.minimum_count, size=settings.vocabulary_size)
    decoder = Msr(MsrConfig(vocabulary_size=len(vocabulary), annotation_size=encoder.annotation_size))
    W = len(decoder.detectors.threshold)
    train, val = (encoded(dataset.split(split), vocabulary) for split in ("train", "val"))
    truth = present([*train.values()], W), present([*val.values()], W)
    seen = [annotations_of(dataset, split, encoder, cache, show=show) for split in ("train", "val")]
    means = [annotations.float().mean(1, keepdim=True) for annotations in seen]
    probe = Detectors(encoder.annotation_size, 0, W, dropout=decoder.config.annotation_dropout)
    found = {
        "noisy-OR": detectors.fit(decoder.detectors, seen, truth, epochs=epochs, show=show),
        "linear probe of the mean": detectors.fit(probe, means, truth, epochs=epochs, show=show),
        "the reranker's words": mean_average_precision(by_reranker(train, seen, W, show=show), truth[1]),
    }
    found = {name: round(100 * value, 2) for name, value in found.items()}
    print(f"mean average precision on val: {found}", flush=True)
    unseen = torch.zeros_like(truth[0])
    fold = torch.arange(len(unseen)) % FOLDS
    for number in range(FOLDS):
        others = decoder.new_detectors()
        inside = seen[0][fold != number], truth[0][fold != number]
        detectors.fit(others, (inside[0], seen[1]), (inside[1], truth[1]), epochs=epochs, show=show)
        unseen[fold == number] = detected(others, seen[0][fold == number])
    decoder.count([caption for captions in train.values() for caption in captions], truth[0].mean(0))
    told = Told(decoder.config)
    told.load_state_dict(learnt(decoder, train, unseen, show=show))
    on_val = OfPhotos([*val], detected(decoder.detectors, seen[1])[:, None])
    data = validation_data(dataset, vocabulary, on_val)
    decoding = Decoding(vocabulary=vocabulary, config=usual_generation(settings), reranker=Coverage({}))
    chosen = choose_generation(told.eval(), data, decoding, grid=GRID)
    print(f"on val: {chosen.scores}", flush=True)
    notes = {"data": dataset.name, "seed": seed, "mean_average_precision": found, "validation_bleu_4": chosen.scores}
    Checkpoint(
        config=decoder.config,
        weights=decoder_weights(told),
        vocabulary=vocabulary,
        encoder=EncoderRecord.of(encoder),
        generation=chosen.generation,
        reranker=StoredReranker("coverage", {}),
        training=notes,
    ).save(output)


def validation_data(dataset: Dataset, vocabulary: Vocabulary, features: Any) -> TrainingData:
    """The photos of val and their captions, on which a generation config is chosen."""
    references = [(example.name, example.captions) for example in dataset.split("val")]
    return TrainingData(vocabulary=vocabulary, captions=[], validation=references, views=[features])


def learnt(decoder: Msr, captions: Captions, scores: Tensor, *, show: bool) -> dict[str, Tensor]:
    """The weights of a decoder whose language model has learnt the captions of photos with detected words (N, W)."""
    model = LeavingOut(decoder.config)
    model.load_state_dict(decoder.state_dict())
    flat = [(name, caption) for name, of_photo in captions.items() for caption in of_photo]
    model.once = once_seen(decoder, [caption for _, caption in flat])
    features = OfPhotos([*captions], scores[:, None])
    optimizer = torch.optim.Adam([each for each in model.parameters() if each.requires_grad], lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, EPOCHS * len(batches(flat, BATCH_SIZE, seed=0)))
    model.train()
    for epoch in range(EPOCHS):
        for indices in Progress(batches(flat, BATCH_SIZE, seed=epoch), desc="language model", disable=not show):
            forced = torch.tensor([flat[index][1] for index in indices])
            model.target = forced.flatten()
            logits = model.teacher_forcing(features[[flat[index][0] for index in indices]], forced).logits
            known = forced != Vocabulary.UNKNOWN
            loss = -word_log_probabilities(logits, forced)[:, 0][known].mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
    return model.state_dict()


def encoded(examples: Sequence[Example], vocabulary: Vocabulary) -> Captions:
    """The captions of each photo, by its name, as word ids."""
    return {example.name: [vocabulary.encode(words) for words in example.captions] for example in examples}


def by_reranker(train: Captions, seen: Sequence[Tensor], words: int, *, show: bool) -> Tensor:
    """The shares of the words (N, W) that the reranker, fitted to train, expects of the photos of val."""
    stored, cpu = OfPhotos([*train], seen[0]), torch.device("cpu")
    with progress_shown(show):
        packed = fit_ngrams(stored, train, device=cpu)
    assert packed is not None
    ngrams = VisualNgrams(packed)
    result = torch.zeros(len(seen[1]), words)
    numbers = {word: ngrams.numbers[0, FIRST + word] for word in range(words) if (0, FIRST + word) in ngrams.numbers}
    backend = TorchBackend(nn.Identity(), device=cpu)  # type: ignore[arg-type]  # which only computes second moments
    for rows_of_val in torch.split(torch.arange(len(result)), BATCH_SIZE):
        expected = torch.from_numpy(ngrams.expected(backend, seen[1][rows_of_val].float()))
        result[rows_of_val[:, None], torch.tensor([*numbers])] = expected[:, [*numbers.values()]].float()
    return result


def examine(dataset: Dataset, model: Path, *, cache: Path, show: bool = True) -> dict[str, Any]:
    """What each part of a trained model is worth on val.

    - ``nats``: −log p a word of the language model, with no words to say, with the detected and with the true ones; and
      that of `flickr8k-soft`, with the photo, and with the mean annotations of all training photos instead;
    - ``scores``: those of its captions, with the detected words and with the true ones.
    """
    checkpoint = Checkpoint.load(model)
    vocabulary, trained = checkpoint.vocabulary, build_decoder(checkpoint)
    assert isinstance(trained, Msr)
    decoder = Told(trained.config).eval()
    decoder.load_state_dict(trained.state_dict())
    encoder, val = checkpoint.encoder.load(load_encoder, str(model)), dataset.split("val")
    captions = encoded(val, vocabulary)
    seen = annotations_of(dataset, "val", encoder, cache, show=show)
    found = detected(trained.detectors, seen)
    true = CERTAIN * (2 * present([*captions.values()], found.shape[1]) - 1)
    known = {"no words": torch.full_like(true, -CERTAIN), "detected words": found, "true words": true}
    nats = {name: nats_a_word(decoder, captions, logits[:, None]) for name, logits in known.items()}
    soft = build_decoder(Checkpoint.load(SHIPPED / "flickr8k-soft")).eval()
    usual = annotations_of(dataset, "train", encoder, cache, show=show).float().mean(0)
    nats["flickr8k-soft"] = nats_a_word(soft, captions, seen)
    nats["flickr8k-soft on the mean photo"] = nats_a_word(soft, captions, usual.expand(len(seen), -1, -1))
    scores = {}
    decoding = replace(Decoding.of(checkpoint), reranker=Coverage({}))
    for name in ("detected words", "true words"):
        logits, entries = known[name], []
        for rows in torch.split(torch.arange(len(val)), BATCH_SIZE):
            candidates = decoding.candidates(TorchBackend(decoder), logits[rows][:, None], seeds=[0] * len(rows))
            for row, of_photo in zip(rows.tolist(), candidates, strict=True):
                best = decoding.ranked(of_photo)[0]
                entries.append({"photo": val[row].name, "caption": vocabulary.text(best.words)})
        corpus = score_split(dataset, "val", entries).scores.corpus
        scores[name] = {each: round(corpus[each] or 0.0, 1) for each in SHOWN}
    return {
        "mean_average_precision": checkpoint.training.get("mean_average_precision"),
        "nats": {name: round(value, 3) for name, value in nats.items()},
        "scores": scores,
    }


@torch.inference_mode()
def nats_a_word(decoder: Decoder, captions: Captions, features: Tensor) -> float:
    """−log p a word, of the end token too and not of unknown words, of captions of photos with features (N, L, D)."""
    total = words = 0.0
    for of_photo, row in zip(captions.values(), features, strict=True):
        for caption in of_photo:
            forced = torch.tensor([caption])
            log_p = word_log_probabilities(decoder.teacher_forcing(row[None], forced).logits, forced)[0, 0]
            known = forced[0] != Vocabulary.UNKNOWN
            total, words = total - float(log_p[known].sum()), words + float(known.sum())
    return total / words


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Train a model, or print the figures of a model's parts and keep them."""
    parser = new_parser(__doc__)
    parser.add_argument("data", type=Path, help="folder of data, as for sat train")
    parser.add_argument("output", type=Path, nargs="?", help="folder for the model")
    parser.add_argument("--seed", type=int, default=1, help="seed of the training")
    parser.add_argument("--epochs", type=int, default=DETECTOR_EPOCHS, help="epochs of the detectors")
    parser.add_argument("--examine", type=Path, metavar="MODEL", help="trained model whose parts are examined")
    options = parser.parse_args(given)
    if options.output is None and options.examine is None:
        parser.error("give a folder for the model")
    dataset = read_dataset(options.data)
    if options.examine is None:
        make(dataset, options.output, seed=options.seed, epochs=options.epochs, cache=default_cache())
    else:
        found = examine(dataset, options.examine, cache=default_cache())
        write_text(results.RESULTS / "msr-parts.json", json.dumps(found, indent=1) + "\n")
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
