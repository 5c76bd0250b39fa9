"""The page's modules in TypeScript, run by Node: what they compute is what Python computes."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, cast, get_args

import models
import numpy as np
import pytest
from builders import captioner_of, shape_photo, small_checkpoint, small_encoder
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from PIL import Image
from searching import onto
from static import WEB, needs_node, node

from show_attend_tell.data.photos import Preprocessing, Resize
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.hide.masks import CELLS, MOVES, moves, of_place, on_square, outline
from show_attend_tell.hide.pixels import blurred, hide
from show_attend_tell.rerank.class_filter import ClassFilter
from show_attend_tell.rerank.class_words import Classes, ClassWords, confidence_of_name
from show_attend_tell.rerank.ngrams import counted
from show_attend_tell.search.beam import beam_search
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.filters import Added, Filter, SecondUse, apply, word_filters
from show_attend_tell.search.hypotheses import Hypothesis
from show_attend_tell.search.session import Continuations, Numbers, Scores, SessionStep

pytestmark = needs_node
Run = Callable[..., Any]


def compiled(modules: Sequence[str], folder: Path) -> Path:
    """A script for Node that exports what modules of web/src export."""
    entry, script = folder / "entry.ts", folder / "entry.mjs"
    entry.write_text("\n".join(f'export * from "{WEB / "src" / module}";' for module in modules), encoding="utf-8")
    options = {"entryPoints": [str(entry)], "outfile": str(script), "bundle": True, "format": "esm"}
    program = f'import {{ buildSync }} from "esbuild"; buildSync({json.dumps(options)});'
    node("--input-type=module", "--eval", program)
    return script


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a function of JavaScript that gets the modules and an input, which are JSON; gives what it returns."""
    folder = tmp_path_factory.mktemp("modules")
    script = compiled(
        ["pixels.ts", "search/beam.ts", "search/filters.ts", "rerank/ngrams.ts", "rerank/class-words.ts", "hide.ts"],
        folder,
    )

    def ran(function: str, given: Any) -> Any:
        (folder / "given.json").write_text(json.dumps(given), encoding="utf-8")
        program = folder / "program.mjs"
        program.write_text(
            f'import * as modules from "{script}"; import {{ readFileSync }} from "node:fs";'
            f'const given = JSON.parse(readFileSync("{folder / "given.json"}", "utf8"));'
            f"console.log(JSON.stringify(await ({function})(modules, given)));",
            encoding="utf-8",
        )
        return json.loads(node(program, cwd=folder))

    return ran


SIZES = [(31, 17), (300, 211), (13, 300), (300, 13), (90, 250), (48, 64), (64, 48), (64, 90), (64, 64), (1, 1)]


@pytest.mark.parametrize("resize", get_args(Resize))
def test_photos_are_resized_as_pillow_resizes_them(run, resize):
    preprocessing = Preprocessing(resize=resize, size=64)
    chance = np.random.default_rng(3)
    given, expected = [], []
    for width, height in SIZES:
        photo = chance.integers(0, 256, (height, width, 3), dtype=np.uint8)
        box = preprocessing.seen(width, height)
        pixels = replace(preprocessing, mean=(0, 0, 0), std=(1, 1, 1)).pixels(Image.fromarray(photo))
        small = (255 * pixels.transpose(1, 2, 0)).round().astype(int)
        given.append({"size": [width, height], "rows": photo.reshape(height, -1).tolist()})
        expected.append((list(box), small.ravel().tolist()))
    found = run(
        """({ visibleBox, square }, { photos, preprocessing }) => photos.map(({ size, rows }) => {
            const box = visibleBox(preprocessing, ...size);
            const strip = (first, count) => Uint8ClampedArray.from(rows.slice(first, first + count).flatMap((row) =>
                row.flatMap((value, at) => (at % 3 === 2 ? [value, 255] : [value]))));
            return [box, [...square(strip, size, preprocessing)].filter((_, at) => at % 4 < 3)];
        })""",
        {"photos": given, "preprocessing": preprocessing.to_dict()},
    )
    for (width, height), one, other in zip(SIZES, found, expected, strict=True):
        assert one[0] == pytest.approx(other[0]), (width, height)
        assert one[1] == other[1], (width, height)


class TableSession:
    """A decoder whose next word depends on the last two words alone, by a table of log p (K + 1, K + 1, K)."""

    photos, paths, keeps_all = 1, 1, False

    def __init__(self, table: NDArray[np.float64]) -> None:
        self.table, self.vocabulary_size = table, table.shape[-1]
        self.before = np.array([[self.vocabulary_size]])
        self.last: Numbers

    def step(self, words: Numbers) -> SessionStep:
        self.last = words
        return SessionStep(np.arange(words.shape[1])[None])

    def best(self, before: Scores, count: int, ids: Numbers, weights: Scores) -> Continuations:
        scores = onto(before[..., None] + self.table[self.before, self.last], Added(ids, weights))
        order = np.argsort(-scores.reshape(1, -1), kind="stable")[:, :count]
        found = np.take_along_axis(scores.reshape(1, -1), order, axis=1)
        return Continuations(found, order // self.vocabulary_size, order % self.vocabulary_size)

    def reorder(self, photos: NDArray[np.bool_] | None, paths: Numbers) -> None:
        self.before = np.take_along_axis(self.last, paths, axis=1)


SEARCHED = """async ({ search, wordFilters }, { table, ways }) => {
    const found = [];
    for (const way of ways) {
        let before = [table[0][0].length], last;
        const size = table[0][0].length;
        const session = {
            vocabularySize: size,
            async step(words) {
                last = words;
                return { rows: [...words.keys()], attended: [] };
            },
            async best(scores, count, added) {
                const all = scores.flatMap((score, path) => {
                    const row = table[before[path]][last[path]].map((log) => score + log);
                    added[path].ids.forEach((id, at) => { row[id] += added[path].weights[at]; });
                    return row;
                });
                const order = (one, other) => (all[one] === all[other] ? 0 : all[other] - all[one]);
                const best = [...all.keys()].sort(order).slice(0, count);
                return { scores: best.map((at) => all[at]), paths: best.map((at) => Math.floor(at / size)),
                    words: best.map((at) => at % size) };
            },
            reorder(paths) { before = paths.map((path) => last[path]); },
        };
        const weights = (path) => (path.includes(5) ? [0, 0, -way.liked] : [way.liked, 1, 0]);
        const likes = (path) => ({ ids: [5, 5, 4], weights: weights(path) });
        const hypotheses = await search(session, way, [...wordFilters(way), ...(way.liked ? [likes] : [])]);
        found.push(hypotheses.map((one) =>
            [one.words, one.logProbability, one.ended, one.wordLogProbabilities, one.filterScore]));
    }
    return found;
}"""


def likes(much: float) -> Filter:
    """The first use of a word is worth something, and another word after it costs something."""

    def filtered(history: Numbers, photos: Numbers) -> tuple[Any, Any]:
        used = (history == 5).any(-1, keepdims=True)
        return [5, 5, 4], np.where(used, [0, 0, -much], [much, 1, 0])

    return filtered


def test_the_search_is_pythons(run):
    chance = np.random.default_rng(5)
    table = np.log(chance.dirichlet(np.full(7, 0.5), size=(8, 8)))
    names = ("beam_size", "max_length", "length_penalty", "allow_repetitions", "liked")
    values = product((1, 2, 5, 40), (3, 9), (0.0, 0.75), (False, True), (0, 2))
    ways = [dict(zip(names, each, strict=True)) for each in values]
    found = run(SEARCHED, {"table": table.tolist(), "ways": ways})
    for way, hypotheses in zip(ways, found, strict=True):
        much = way.pop("liked")
        config = GenerationConfig(**way)
        filters = [*word_filters(config), *([likes(much)] if much else [])]
        (expected,) = beam_search(TableSession(table), config, filters)
        for (words, log_p, ended, of_words, filtered), one in zip(hypotheses, expected, strict=True):
            assert (words, ended) == (one.words, one.ended), way
            assert [log_p, filtered, *of_words] == pytest.approx(
                [one.log_probability, one.filter_score, *one.word_log_probabilities]
            ), way


FILTERED = """({ PhotoWords, apply, secondUse, wordFilters }, { known, forms, unfinished, photos, paths, words }) =>
    photos.map((p) => {
        const seen = new PhotoWords(known, Float32Array.from(p));
        const english = wordFilters({ beam_size: 3, allow_repetitions: false, max_length: 6 }, unfinished);
        const filters = [...english, secondUse(forms, 2), seen.filter(0.8)];
        const shown = (path) => seen.shown(path, path.map((id) => words[id]));
        return paths.map((path) => [apply(filters, path), shown(path), seen.place(path), seen.confidenceOfName]);
    })"""


def test_class_words_and_second_uses_are_pythons(run):
    """Six classes: two have words of their own, and four have none, of which three get their names."""
    names = ["tabby", "terrier", "sea otter", "red school bus", "red-eyed unicorn", "newt"]
    above = [["cat", "animal"], ["dog", "animal"], ["animal"], ["vehicle"], ["animal"], ["animal"]]
    words = [[(name, 0), *((word, 1) for word in more)] for name, more in zip(names, above, strict=True)]
    vocabulary = Vocabulary(
        "a an tabby dog cat cats bus sign animal vehicle red on and is two group of black school".split()
    )
    chance = np.random.default_rng(7)
    arrays = {
        "rates": chance.uniform(0.3, 1.2, 5),
        "usual": chance.uniform(0, 0.3, 5),
        "usual_classes": chance.uniform(0, 0.01, 6),
        "named": np.array([True] * 5 + [False]),
    }
    class_words = ClassWords(arrays, Classes(np.zeros((6, 4)), np.zeros(6), names, words), vocabulary)
    second_use = SecondUse(vocabulary)(2)
    photos = np.concatenate([chance.dirichlet(np.full(6, 0.3), 20), np.full((6, 6), 0.05) + 0.7 * np.eye(6)])
    said = ["", "a", "animal", "a cat on a dog", "cats cat cats", "a sign animal on an animal", "a red bus", "an on a"]
    said += [
        "a animal on a red vehicle",
        "tabby on a vehicle",
        "an vehicle an",
        "a red and black animal",
        "two red",
        "is",
    ]
    said += ["a group of", "a cat is red", "a red and black", "a black animal sign", "two animal", "a animal of animal"]
    said += ["a red school", "a school on"]
    paths = [[vocabulary.words.index(word) for word in each.split()] for each in said]
    given = {"known": models.described(class_words), "forms": models.nouns_and_colors(vocabulary)}
    given["unfinished"] = models.unfinished(vocabulary)
    english = word_filters(GenerationConfig(beam_size=3, max_length=6), vocabulary)
    found = run(FILTERED, {**given, "photos": photos.tolist(), "paths": paths, "words": vocabulary.words})
    shown = set()
    for photo, of_photo in zip(photos, found, strict=True):
        raised = ClassFilter([class_words.photo(photo)], 0.8, class_words.places)
        for path, (added, text, place, confidence) in zip(paths, of_photo, strict=True):
            expected = apply([*english, second_use, raised], np.array([[path]], dtype=np.int64), np.array([0]))
            one, other = np.zeros((2, 1, 1, len(vocabulary)))
            weights = [-np.inf if weight is None else weight for weight in added["weights"]]  # JSON has no infinity
            np.add.at(one[0, 0], added["ids"], weights)
            assert_allclose(one, onto(other, expected), rtol=1e-5, atol=1e-6)
            ((caption,),) = raised.named([[Hypothesis(path, 0.0, True, cast(Any, None))]])
            assert text == caption.said(vocabulary)
            assert place == next(iter(caption.names or {}), -1)
            assert confidence == pytest.approx(confidence_of_name(photo.max()), rel=1e-5)
            shown.add(" ".join(text))
    assert {"a sea otter on a red vehicle", "an animal on a red school bus", "a red and black unicorn"} <= shown
    assert {"a red-eyed unicorn of animal", "two animal", "a black animal sign"} <= shown


def test_ngrams_are_counted_as_in_python(run):
    captions = [[], [4], [4, 4, 4, 4], [2, 3, 2, 3, 2], [5, 1, 6, 7], [9, 8, 7, 6, 5]]
    found = run("({ counted }, captions) => captions.map(counted)", captions)
    for caption, ngrams in zip(captions, found, strict=True):
        expected = [(" ".join(map(str, ngram)), len(ngram) - 1) for ngram in counted(caption)]
        assert [(one["ngram"], one["length"]) for one in ngrams] == expected


def test_places_are_hidden_as_in_python(run):
    chance = np.random.default_rng(5)
    values, offset, side = chance.normal(size=(3, 5, 7)), (0.3, -0.2), 35
    square = chance.normal(size=(3, side, side)).astype(np.float32)
    found = run(
        """({ outline, withControls, runs, ofRuns, blurred, hidden }, { values, offset, square, side }) => {
            const pixels = Float32Array.from(square), cover = blurred(pixels, side);
            const parts = values.map((map) => withControls(outline(map, offset)));
            return {
                parts: parts.map((each) => each.map((cells) => runs(ofRuns(runs(cells))))),
                cover: [...cover], hidden: [...hidden(pixels, cover, parts[0][0], side)],
                none: outline(values[0].map((row) => row.map(() => -1)), offset),
            };
        }""",
        {"values": values.tolist(), "offset": offset, "square": square.ravel().tolist(), "side": side},
    )
    assert found["none"] is None
    box = (0.0, 0.0, float(side), float(side))
    assert_allclose(np.reshape(found["cover"], square.shape), blurred(square), atol=1e-5)
    for of_map, parts in zip(values, found["parts"], strict=True):
        place, *controls = (of_place(each, (CELLS, CELLS), (0, 0, CELLS, CELLS)) for each in parts)
        expected = outline(of_map, offset)
        assert expected is not None and (place != expected).sum() <= 2  # another series for the normal distribution
        for by, control in zip(moves(place), controls, strict=True):
            np.testing.assert_array_equal(control, np.roll(place, [CELLS // MOVES * steps for steps in by], (0, 1)))
    first = of_place(found["parts"][0][0], (side, side), box)
    ours = hide(square, blurred(square), [on_square(first, box, side)])[1]
    assert (np.abs(np.reshape(found["hidden"], square.shape) - ours) > 1e-4).mean() < 0.03  # at the border


def test_what_came_out_is_told_as_in_python(run):
    encoder = small_encoder()
    captioner = captioner_of(small_checkpoint(encoder), encoder, name="small")
    caption = captioner(shape_photo("red", "circle", left=True), evidence=True)
    for step in range(3):
        expected = captioner.hide(caption, step)
        variants = [
            {"caption": str(of), "words": [{"shown": word, "known": word} for word in of.words], "log_p": log_p}
            for of, log_p in [
                (caption, expected.log_p),
                *((each.caption, each.log_p) for each in (expected.here, *expected.controls)),
            ]
        ]
        values = expected.to_dict()
        masks = [values["here"]["mask"], *(each["mask"] for each in values["elsewhere"])]
        given = {"variants": variants, "step": step, "word": expected.word, "masks": masks, "cover": values["cover"]}
        found = run(
            "({ answer, ofRuns }, { variants, step, word, masks, cover }) => "
            "answer(variants, step, word, masks.map(ofRuns), {}, cover)",
            given,
        )
        assert found == json.loads(json.dumps(values))


def test_types_are_right():
    node("node_modules/typescript/bin/tsc")
