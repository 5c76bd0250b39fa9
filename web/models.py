"""Write models as static files for the web page: `make web` runs it after Vite has built the page.

    python web/models.py web/dist/models everyday-soft everyday-hard

The folder gets `models.json`, which holds words and settings, and files named after their content. A file is a
safetensors file, compressed by gzip: the encoder with its classifier, a decoder, or a reranker, as ONNX graphs with
weights in 8 or 16 bits.
"""

import argparse
import gzip
import hashlib
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from packed import PackedWeights
from safetensors.numpy import save

from show_attend_tell.backends import pick_backend
from show_attend_tell.backends.onnx.backend import OnnxBackend
from show_attend_tell.backends.onnx.encoder import OnnxEncoder
from show_attend_tell.backends.onnx.graph import Graph
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.hub import DEFAULT_MODEL, find_model, model_name
from show_attend_tell.data.parts_of_speech import renames, singular
from show_attend_tell.data.tokenizers import ENGLISH, KARPATHY, detokenize
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.rerank import class_constants, class_words
from show_attend_tell.rerank.ngrams import VisualNgrams
from show_attend_tell.rerank.noun_places import NounPlaces
from show_attend_tell.search.filters import CompleteEnd, SecondUse
from show_attend_tell.search.hypotheses import LIKE_CONSONANTS
from show_attend_tell.vision import registry

MODELS = (DEFAULT_MODEL, "everyday-hard")  # the soft and the hard model of `make demo`
FORMAT = 4  # of models.json; the page of another format does not read it


class Files:
    """The folder of files named after their content, and what `models.json` says of each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[str, dict[str, Any]] = {}

    def add(self, kind: str, arrays: Mapping[str, NDArray[Any]]) -> str:
        """Write arrays to a file of their own, unless it is there already; gives the file's name."""
        content = gzip.compress(
            save({name: np.ascontiguousarray(array) for name, array in arrays.items()}), compresslevel=6, mtime=0
        )
        digest = hashlib.sha256(content).hexdigest()
        name = f"{kind}-{digest[:12]}.bin"  # not .gz, which some servers unpack on their own
        self.known[name] = {"bytes": len(content), "sha256": digest}
        (self.folder / name).write_bytes(content)
        return name


def stored(graphs: Mapping[str, Graph]) -> dict[str, NDArray[np.uint8]]:
    """Graphs and their weights as arrays of bytes."""
    weights = PackedWeights()
    arrays = {f"{name}.onnx": np.frombuffer(weights.written(graph), np.uint8) for name, graph in graphs.items()}
    return {**arrays, PackedWeights.LOCATION: np.frombuffer(bytes(weights.content), np.uint8)}


def encoder_arrays(encoder: OnnxEncoder, words: class_words.ClassWords | None) -> dict[str, NDArray[Any]]:
    """The encoder, and its mean annotation (D,) of `probe`, by which the page checks what WebGPU computes.

    With class words, the encoder's classifier too.
    """
    annotations = encoder.annotate(probe(encoder.preprocessing.size)[None])
    graphs = {"encoder": encoder.graph()} | ({} if words is None else {"classes": classifier(words.classes)})
    return {**stored(graphs), "probe": annotations[0].mean(axis=0)}


def classifier(classes: class_words.Classes) -> Graph:
    """The probabilities of classes (B, V), of annotations (B, L, D), as `Classes.probabilities` gives them."""
    graph = Graph()
    annotations = graph.input("annotations", "B", "L", classes.weight.shape[1])
    means = graph("ReduceMean", annotations, axes=[1], keepdims=0)
    scores = graph.linear(means, classes.weight, classes.bias)
    graph.output(graph("Softmax", graph("Mul", scores, class_constants.SHARPNESS), axis=1), "p", 2)
    return graph


def ngrams_arrays(packed: Mapping[str, NDArray[Any]], size: int) -> dict[str, NDArray[Any]]:
    """The visual n-grams, of annotations of a size D: their graph, and what the page needs besides."""
    ngrams = VisualNgrams(packed)
    arrays = {"prior": ngrams.prior, "length": ngrams.length.reshape(1), "ngrams": packed["ngrams"].astype(np.int32)}
    return {**stored({"expected": expected(ngrams, size)}), **arrays}


def expected(ngrams: VisualNgrams, size: int) -> Graph:
    """What `VisualNgrams.expected` gives (B, G), of annotations (B, L, D)."""
    graph, C = Graph(), len(ngrams.channels)
    annotations = graph.input("annotations", "B", "L", size)
    normal = graph("LayerNormalization", annotations, np.ones(size), epsilon=1e-5)
    chosen = graph("Gather", normal, ngrams.channels, axis=2)
    products = graph("MatMul", graph("Transpose", chosen, perm=[0, 2, 1]), chosen)
    upper = np.ravel_multi_index(np.triu_indices(C), (C, C))
    moments = graph("Gather", graph("Reshape", products, [-1, C * C]), upper, axis=1)
    roots = graph("Mul", graph("Sign", moments), graph("Sqrt", graph("Abs", moments)))
    length = graph("Max", graph("ReduceL2", roots, axes=[1]), 1e-12)
    along = graph.linear(graph("Div", roots, length), ngrams.directions, -ngrams.offset)
    graph.output(graph("Relu", graph.linear(along, ngrams.shares, ngrams.prior)), "expected", 2)
    return graph


def probe(size: int) -> NDArray[np.float32]:
    """Pixels (3, size, size) of a coarse pattern that the page makes too."""
    channel, row, column = np.indices((3, size, size))
    pattern = (row // 16 * 5 + column // 16 * 3 + channel * 7) % 11
    return np.asarray(pattern / 4 - 1, dtype=np.float32)


def described(words: class_words.ClassWords) -> dict[str, Any]:
    """What `models.json` says of a model's class words: of each class, of each word by its id, and the constants."""
    usual, usual_classes, rates = (
        np.round(each.astype(float), 9).tolist() for each in (words.usual, words.usual_classes, words.rates)
    )
    constants = "EPSILON COMMON POSSIBLE CERTAIN SURE AT_THE_WORD PROBABLE NAME UNUSUAL UNSEEN".split()
    constants += ["NAME_SLOPE", "NAME_OFFSET"]
    having = [words.ids[row].tolist() for row in words.having]
    standing = [words.stand_ins.get(number, []) for number in range(len(having))]
    columns = {"name": words.classes.names, "usual": usual_classes, "words": having, "stand_ins": standing}
    return {
        "classes": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        "words": {
            word: {"usual": p, "rare": rate} for word, p, rate in zip(words.ids.tolist(), usual, rates, strict=True)
        },
        "of_word": words.of_word,
        "places": places(words.places),
        "in_names": in_names(words.places),
        "an": f"^(?!{'|'.join(LIKE_CONSONANTS)})[aeiou]",  # what words begin with that "an" stands before
        **{name.lower(): getattr(class_constants, name) for name in constants},
    }


def places(of_nouns: NounPlaces) -> dict[str, Any]:
    """The ids of words that say where a noun may stand."""
    masks = {
        "opens": of_nouns.opens,
        "closes": of_nouns.decides & ~of_nouns.opens,
        "collectives": of_nouns.collective,
        "nouns": of_nouns.noun,
    }
    ids = {name: np.flatnonzero(mask).tolist() for name, mask in masks.items()}
    return {**ids, **{word: of_nouns.words.index(word) if word in of_nouns.words else -1 for word in ("of", "and")}}


def in_names(of_nouns: NounPlaces) -> dict[int, list[int]]:
    """The words that follow each word in the names of classes."""
    following: dict[int, list[int]] = {}
    for pair in of_nouns.pairs:
        before, word = divmod(pair, len(of_nouns.words))
        following.setdefault(before, []).append(word)
    return following


def unfinished(vocabulary: Vocabulary) -> dict[str, list[int]] | None:
    """The ids of words that say where an English caption cannot end, for `CompleteEnd`; None for other languages."""
    if vocabulary.tokenizer not in (KARPATHY, ENGLISH):
        return None
    complete = CompleteEnd(vocabulary.words, 0)
    masks = {
        "words": complete.before_others,
        "determiners": complete.determiner,
        "colors": complete.color,
        "among_colors": complete.among_colors,
    }
    return {name: np.flatnonzero(mask).tolist() for name, mask in masks.items()}


def nouns_and_colors(vocabulary: Vocabulary) -> dict[int, list[int]]:
    """The forms of each noun and color, for `SecondUse`."""
    forms = SecondUse(vocabulary).forms.tolist()
    return {word: [form for form in each if form >= 0] for word, each in enumerate(forms) if each[0] >= 0}


def names_of_nouns(vocabulary: Vocabulary) -> dict[str, Any]:
    """The singular of each noun in the plural, and the nouns that WordNet relates to each in the singular."""
    singulars = {word: form for word in vocabulary.words if (form := singular(word)) is not None}
    nouns = sorted(set(singulars.values()))
    return {
        "singular": {word: form for word, form in singulars.items() if form != word},
        "related": {one: found for one in nouns if (found := [other for other in nouns if renames(one, other)])},
    }


def exported(name: str, files: Files) -> dict[str, Any]:
    """Write a model's files; gives what `models.json` says of the model. Raises `SatError` for a model without them."""
    folder = find_model(name)
    name = model_name(folder)
    checkpoint = Checkpoint.load(folder)
    pick_backend("onnx", checkpoint)
    backend = OnnxBackend.load(checkpoint, name)
    checkpoint.encoder.check(backend.encoder, name)
    encoder, generation, vocabulary = backend.encoder, checkpoint.generation, checkpoint.vocabulary
    if generation.attention_mode not in ("mean", "argmax"):
        raise SatError(
            f"{name} has attention mode {generation.attention_mode!r}, which the web page lacks: give another model"
        )
    if checkpoint.reranker is not None and checkpoint.reranker.kind != "ngrams":
        raise SatError(f"{name} has a reranker of the kind {checkpoint.reranker.kind!r}, which the web page lacks")
    decoder = backend.decoder  # with the graphs of a wide beam search
    graphs = {"start": decoder.start(wide=True), "attend": decoder.attend(generation.attention_mode, wide=True)}
    graphs |= {make.__name__: make() for make in (decoder.words, decoder.advance, decoder.best, decoder.evidence)}
    arrays = stored(graphs)
    if checkpoint.confidence is not None:
        arrays |= {f"confidence.{part}": array for part, array in checkpoint.confidence.items()}
    words, reranker = class_words.class_words_of(checkpoint), None
    if checkpoint.reranker is not None:
        kind, packed = checkpoint.reranker
        reranker = files.add(kind, ngrams_arrays(packed, checkpoint.config.annotation_size))
    return {
        "name": name,
        "attention": checkpoint.config.attention,
        "grid": checkpoint.encoder.grid,
        "offset": registry.offset(encoder.name),
        "preprocessing": encoder.preprocessing.to_dict(),
        "generation": generation.to_dict(),
        "words": [vocabulary.forms.get(word, word) for word in vocabulary.words],
        "capital": vocabulary.capital,
        "tokenizer": None if vocabulary.tokenizer == KARPATHY else vocabulary.tokenizer.name,
        "between": detokenize(["", ""], vocabulary.tokenizer.name),
        "forms": nouns_and_colors(vocabulary),
        "unfinished": unfinished(vocabulary),
        **names_of_nouns(vocabulary),
        "class_words": None if words is None else described(words),
        "card": checkpoint.card(name),
        "files": {
            "encoder": files.add(encoder.name, encoder_arrays(encoder, words)),
            "decoder": files.add(name, arrays),
            "reranker": reranker,
        },
    }


def main() -> int:
    """Write the models that are named."""
    parser = argparse.ArgumentParser(description="Write models as static files for the web page.")
    parser.add_argument("folder", type=Path, help="Folder of the files.")
    parser.add_argument("models", nargs="*", default=MODELS, help=f"Models. [default: {' '.join(MODELS)}]")
    chosen = parser.parse_args()
    if chosen.folder.exists() and any(chosen.folder.iterdir()) and not (chosen.folder / "models.json").exists():
        parser.error(f"{chosen.folder} holds other files, which would be deleted: give a new folder")
    scratch = chosen.folder.with_name(f"{chosen.folder.name}.new")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    files = Files(scratch)
    try:
        models = [exported(name, files) for name in chosen.models]
    except SatError as error:
        shutil.rmtree(scratch)
        print(f"web/models.py: {error}", file=sys.stderr)
        return 1
    (scratch / "models.json").write_text(
        json.dumps({"format": FORMAT, "models": models, "files": files.known}), encoding="utf-8"
    )
    shutil.rmtree(chosen.folder, ignore_errors=True)
    scratch.rename(chosen.folder)
    size = sum(entry["bytes"] for entry in files.known.values())
    print(f"{chosen.folder}: {', '.join(model['name'] for model in models)}, {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
