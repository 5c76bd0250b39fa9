"""Does it look where it should? Decoders that are known to look, and one that only says so, tell the measure apart."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from builders import COLUMNS, ROWS, D, shape_folder, small_checkpoint, small_encoder, small_load_encoder
from commands import refused, sat
from decoders import Scripted, small_annotations, small_decoder
from PIL import Image
from torch import Tensor

import show_attend_tell.checkpoint.checkpoint as checkpoint_module
import show_attend_tell.vision.encoder as encoder_module
from show_attend_tell.analysis.occlusion import (
    DRAWS,
    STILL,
    VARIANTS,
    Looking,
    by_variant,
    gaze,
    gaze_table,
    hidden_places,
    hide_annotations,
    memories,
    movement,
    sentence_told,
    word_told,
)
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.records import Decoding
from show_attend_tell.data.datasets import Example, read_dataset
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import LOOKS, LookName
from show_attend_tell.model.interface import EXPECTATION, Decoder, State, Step, tell, word_log_probabilities

GRID = (ROWS, COLUMNS)
L = ROWS * COLUMNS
WORDS = "dog dogs man boy red blue green runs running sits jumps a the in on zyx abc".split()
LENGTH = 5


class Named(NamedTuple):
    """What `Pointer` names a word by."""

    context: Tensor  # (..., D)
    time: Tensor  # (..., 1)


class Pointer(Decoder):
    """Attends to two neighbouring places, others at each step, and names what is there; or only says that it attends.

    A decoder that is decoupled has the same α, but names the mean of all places.
    """

    def __init__(self, *, coupled: bool, gate: bool = True) -> None:
        super().__init__()
        self.coupled, self.gate = coupled, gate
        self.vocabulary_size = len(WORDS) + 2
        generator = torch.Generator().manual_seed(11)
        self.names = torch.randn(LENGTH + 9, D, self.vocabulary_size, generator=generator) * (8 if coupled else 24)

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        return State((annotations,), (torch.zeros(len(annotations), paths, 1),))

    def embed(self, words: Tensor) -> Tensor:
        return words[..., None].float()

    def step(self, embedded: Tensor, state: State, look: Any = EXPECTATION) -> Step:
        (annotations,), (time,) = state
        alpha = torch.full((*time.shape[:2], L), 0.1 / (L - 2))
        first = (7 * time.long() + 1) % L
        alpha.scatter_(-1, torch.cat([first, (first + 1) % L], dim=-1), 0.45)
        context = look(alpha, annotations).context
        if not self.coupled:
            context = annotations.mean(1, keepdim=True).expand_as(context)
        beta = (0.9 - 0.1 * time[..., 0]) if self.gate else None
        return Step(Named(context, time), State((annotations,), (time + 1,)), alpha, beta)

    def read_out(self, output: Named) -> Tensor:
        context, time = output
        logits = (context[..., None, :] @ self.names[time[..., 0].long()]).squeeze(-2)  # another question at each step
        ending = torch.where(time[..., 0] < LENGTH, -1e4, 1e4)
        return torch.cat([ending[..., None], torch.full_like(time, -1e4), logits[..., 2:]], dim=-1)


def noise_photos(folder: Path, number: int = 24) -> list[Example]:
    """Photos of noise, so that no place is like another."""
    examples = []
    for index in range(number):
        noise = np.random.default_rng(index).integers(0, 256, (10, 6, 3)).astype(np.uint8)
        path = folder / f"photo{index:02}.png"
        Image.fromarray(noise).resize((30, 30), Image.Resampling.NEAREST).save(path)
        examples.append(Example(path.name, path, "val", (("a", "dog"),), ("a dog",)))
    return examples


@pytest.fixture(autouse=True)
def float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_module, "native_bf16", lambda device: False)


@pytest.fixture
def examples(tmp_path: Path) -> list[Example]:
    return noise_photos(tmp_path)


def captioner_of(decoder: Decoder, look: LookName = "expectation") -> Captioner:
    encoder = small_encoder()
    checkpoint = replace(
        small_checkpoint(encoder), vocabulary=Vocabulary(WORDS), decoding=Decoding(beam=1, look=look, max_length=9)
    )
    captioner = Captioner(checkpoint, encoder, name="pointer")
    captioner.decoder = decoder  # type: ignore[assignment]
    return captioner


# What it finds


@pytest.mark.parametrize("look", LOOKS)
def test_hiding_what_a_model_truly_looks_at_costs_many_times_more_than_hiding_random_places(
    look: LookName, examples: list[Example]
) -> None:
    result = gaze(captioner_of(Pointer(coupled=True), look), examples, encoded=24, show=False)
    assert result["photos"] == result["captions"] == 24 and result["words"] == 24 * LENGTH
    assert result["hidden"] == 2 and result["places"] == L
    assert result["captions_by_way"] == {"annotations": 24, "annotations_at_word": 24, "grey": 24, "blur": 24}
    for way in ("annotations", "annotations_at_word", "grey"):
        falls = result["occlusion"][way]["all"]
        assert falls["ratio_random"]["low"] > 1.5 and falls["ratio_patch"]["low"] > 1.5, way
        assert falls["most_minus_random"]["low"] > 0
        assert falls["most"]["mean"] > 4 * abs(falls["least"]["mean"]), way
        assert falls["most"]["mean"] > 2 * falls["other"]["mean"], way
    # this decoder remembers nothing that it saw, so hiding at one step is hiding at all
    for name in VARIANTS:
        once, throughout = (result["occlusion"][way]["all"][name] for way in ("annotations_at_word", "annotations"))
        assert once == pytest.approx(throughout, rel=1e-3, abs=1e-4), name


def test_hiding_what_a_model_only_says_it_looks_at_costs_what_random_places_cost(examples: list[Example]) -> None:
    result = gaze(captioner_of(Pointer(coupled=False)), examples, encoded=24, show=False)
    for way in ("annotations", "annotations_at_word", "grey", "blur"):
        falls = result["occlusion"][way]["all"]
        assert falls["random"]["low"] > 0  # places do matter
        assert falls["ratio_random"]["low"] < 1 < falls["ratio_random"]["high"], way
        assert 0.5 < falls["ratio_random"]["mean"] < 2
        assert falls["most_minus_random"]["low"] < 0 < falls["most_minus_random"]["high"], way


def test_words_are_counted_by_class_and_the_gate_and_the_gaze_are_described(examples: list[Example]) -> None:
    result = gaze(captioner_of(Pointer(coupled=True)), examples, encoded=0, show=False)
    assert result["captions_by_way"]["grey"] == 0 and result["occlusion"]["grey"] == {}
    by_class = result["occlusion"]["annotations"]
    assert sum(row["words"] for kind, row in by_class.items() if kind != "all") == by_class["all"]["words"] == 120
    assert result["unclassified_share"] == pytest.approx(by_class["unclassified"]["words"] / 120)
    assert set(result["unclassified_words"]) == {"zyx", "abc"}
    every = result["attention"]["all"]
    assert every["beta"]["mean"] == pytest.approx(0.7)  # 0.9, 0.8 … 0.5
    assert every["share"] == pytest.approx({"mean": 0.9, "low": 0.9, "high": 0.9})
    expected = -(0.9 * math.log(0.45) + 0.1 * math.log(0.1 / 13))
    assert every["entropy"]["mean"] == pytest.approx(expected, rel=1e-4)
    nouns, functions = (result["attention"][kind]["beta"]["mean"] for kind in ("noun", "function"))
    assert result["beta_noun_minus_function"]["mean"] == pytest.approx(nouns - functions)
    assert result["moved"]["mean"] == pytest.approx(0.9 - 2 * 0.1 / 13, rel=1e-4) and result["still"] == []
    table = gaze_table(result)
    for part in ("120 words", "most/random", "noun", "2 of 15 places", "zyx", "0 of 24 captions"):
        assert part in table
    assert "greyed" not in table


def test_maps_that_do_not_move_are_flagged(examples: list[Example]) -> None:
    class Staring(Pointer):
        def step(self, embedded: Tensor, state: State, look: Any = EXPECTATION) -> Step:
            step = super().step(embedded, state, look)
            assert step.alpha is not None
            return step._replace(alpha=step.alpha * 0 + 1 / L)

    result = gaze(captioner_of(Staring(coupled=True)), examples[:3], photos=2, encoded=0, show=False)
    assert result["moved"]["mean"] == 0 and result["travel"]["mean"] == pytest.approx(0, abs=1e-6)
    assert len(result["still"]) == 2 and "2 of 2 captions" in gaze_table(result)


def test_the_photos_are_drawn_by_the_seed_and_not_by_their_order(examples: list[Example]) -> None:
    captioner = captioner_of(Pointer(coupled=True))

    def drawn(given: Sequence[Example], seed: int) -> dict[str, Any]:
        return gaze(captioner, given, photos=5, encoded=2, seed=seed, show=False)

    assert drawn(examples, 1) == drawn(examples[::-1], 1)
    assert drawn(examples, 1) != drawn(examples, 2)


def test_a_model_without_attention_is_told_so_and_one_without_a_gate_has_no_beta(examples: list[Example]) -> None:
    table = torch.zeros(len(WORDS) + 3, len(WORDS) + 2)
    table[:, 5] = 9
    result = gaze(captioner_of(Scripted(table)), examples, show=False)
    assert result["attention"] is None and result["occlusion"] is None
    assert gaze_table(result) == "pointer has no attention: there is no gaze to examine"
    result = gaze(captioner_of(Pointer(coupled=True, gate=False)), examples, photos=3, encoded=0, show=False)
    assert "beta" not in result["attention"]["all"] and "beta_noun_minus_function" not in result
    assert "no beta: the model has no gate" in gaze_table(result)


def test_too_few_photos_and_captions_are_refused(examples: list[Example]) -> None:
    captioner = captioner_of(Pointer(coupled=True))
    for given in ({"photos": 1}, {"encoded": 1}, {"encoded": -1}):
        with pytest.raises(SatError, match="at least 2 of each"):
            gaze(captioner, examples, show=False, **given)
    with pytest.raises(SatError, match="200 of 1 photos"):
        gaze(captioner, examples[:1], show=False)
    with pytest.raises(SatError, match="0 of 3 captions have two words"):
        gaze(captioner, examples, photos=3, decoding=Decoding(beam=1, max_length=1), show=False)


# How it hides and tells


def test_a_hidden_annotation_is_the_mean_of_those_left() -> None:
    annotations = torch.tensor([[[1.0, 2], [3, 4], [5, 9], [7, 7]]])
    masks = torch.tensor([[False, True, False, False], [True, False, True, False]])
    hidden = hide_annotations(annotations, masks)
    torch.testing.assert_close(hidden[0], torch.tensor([[1, 2], [13 / 3, 6], [5, 9], [7, 7]]))
    torch.testing.assert_close(hidden[1], torch.tensor([[5, 5.5], [3, 4], [5, 5.5], [7, 7]]))


def test_as_many_places_are_hidden_every_time_and_a_patch_has_the_shape_of_what_was_attended() -> None:
    places = 9 * 7
    alpha = torch.rand(4, places, generator=torch.Generator().manual_seed(1)).softmax(-1)
    masks = hidden_places(alpha, (9, 7), torch.Generator().manual_seed(2))
    assert masks.shape == (4 + 4 + DRAWS + DRAWS, places) and (masks.sum(1) == 6).all()
    for step in range(4):
        order = alpha[step].argsort(descending=True)
        assert set(masks[step].nonzero().flatten().tolist()) == set(order[:6].tolist())
        assert set(masks[4 + step].nonzero().flatten().tolist()) == set(order[-6:].tolist())
    shifts = {
        tuple(mask.view(9, 7).roll((down, across), (0, 1)).flatten().tolist())
        for mask in masks[:4]
        for down in range(9)
        for across in range(7)
        if (down, across) != (0, 0)
    }
    assert all(tuple(patch.tolist()) in shifts for patch in masks[8 : 8 + DRAWS])
    assert not torch.equal(masks[-1], masks[-2])


def test_falls_are_sorted_to_the_words_they_belong_to() -> None:
    falls = torch.arange((3 + 3 + 2 * DRAWS) * 3, dtype=torch.float64).view(-1, 3)  # under mask u of word t: 3 u + t
    found = by_variant(falls)
    assert found.shape == (3, len(VARIANTS))
    word = 1
    patches, scattered = range(6, 6 + DRAWS), range(6 + DRAWS, 6 + 2 * DRAWS)
    expected = [3 + word, (0 + 6) / 2 + word, *(3 * float(np.mean(rows)) + word for rows in (patches, scattered))]
    assert found[word].tolist() == [*expected, 3 * 4 + word]


@pytest.mark.parametrize("look", LOOKS)
def test_nothing_hidden_costs_nothing(look: LookName) -> None:
    decoder, annotations = small_decoder(), small_annotations(1)
    ids, looking = torch.tensor([[3, 5, 7, 4, 9, 2]]), Looking(look, 13)
    with torch.no_grad():
        told = tell(decoder, annotations, ids, look=looking.along(ids))
        expected = word_log_probabilities(told.logits, ids)[0].expand(3, -1)
        same = annotations.expand(3, -1, -1)
        torch.testing.assert_close(sentence_told(decoder, same, ids, looking), expected)
        before = memories(decoder, annotations, ids, looking)
        torch.testing.assert_close(word_told(decoder, same, ids, before, looking), expected)


def test_hiding_at_one_word_leaves_what_was_seen_before() -> None:
    decoder, annotations, other = small_decoder(), small_annotations(1), small_annotations(1, seed=9)
    ids, looking = torch.tensor([[3, 5, 7, 4]]), Looking("expectation", 0)
    with torch.no_grad():
        before = memories(decoder, annotations, ids, looking)
        found = word_told(decoder, other, ids, before, looking)[0]
        for time in range(4):  # the true photo up to the word, the other one at it
            state = decoder.start(annotations)
            for step in range(time + 1):
                if step == time:
                    state = State(decoder.start(other).source, state.memory)
                last = torch.tensor([[decoder.vocabulary_size if step == 0 else int(ids[0, step - 1])]])
                taken = decoder.step(decoder.embed(last), state)
                state = taken.state
            expected = torch.log_softmax(decoder.read_out(taken.output)[0, 0], dim=-1)[ids[0, time]]
            assert float(found[time]) == pytest.approx(float(expected), abs=1e-5)
        assert not torch.allclose(found, sentence_told(decoder, other, ids, looking)[0], atol=1e-2)


# How it counts


def test_movement_is_in_sides_of_the_photo_and_sees_maps_that_split() -> None:
    corner, opposite, middle, both = np.zeros((4, 15))
    corner[0] = opposite[14] = middle[7] = 1
    both[0] = both[14] = 0.5
    found = movement(np.stack([corner, opposite, middle, both, both]), (3, 5))
    diagonal = math.hypot(2 / 3, 4 / 5)
    np.testing.assert_allclose(found, [[diagonal, 1], [diagonal / 2, 1], [0, 1], [0, 0]], atol=1e-12)
    assert STILL < 1


# From the command line


def test_the_command_tells_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_module, "load_encoder", small_load_encoder)
    small_checkpoint(small_encoder()).save(tmp_path / "beach")
    data = shape_folder(tmp_path / "shapes")
    command = ["analyse", "occlusion", "--model", tmp_path / "beach", "--data", data, "--cache", tmp_path / "cache"]
    command += ["--device", "cpu", "--photos", 3, "--encoded", 2]
    table = sat(*command).stdout
    assert table.startswith("beach on shapes test\n")
    assert "gaze on 3 photos drawn by seed 0, look by expectation, beam 3" in table
    assert "greyed in the photo, which is encoded again: 2 photos" in table
    found = json.loads(sat(*command, "--beam", 1, "--json", "-").stdout)
    assert found["model"] == "beach" and found["split"] == "test" and found["beam"] == 1
    assert found["occlusion"]["grey"]["all"]["most"]["mean"] == pytest.approx(
        gaze(
            Captioner.from_pretrained(tmp_path / "beach", device="cpu"),
            read_dataset(data).split("test"),
            photos=3,
            encoded=2,
            decoding=Decoding(beam=1, max_length=11),
            show=False,
        )["occlusion"]["grey"]["all"]["most"]["mean"]
    )


def test_what_cannot_be_measured_is_refused_before_anything_is_captioned(tmp_path: Path) -> None:
    small_checkpoint(small_encoder()).save(tmp_path / "beach")
    data = shape_folder(tmp_path / "shapes", test=1)
    command = ("analyse", "occlusion", "--model", tmp_path / "beach", "--data", data, "--cache", tmp_path / "cache")
    assert "--encoded 1 gives no interval" in refused(*command, "--encoded", 1)
    assert "the split test has one photo, and occlusion needs 2 or more" in refused(*command)
    assert not (tmp_path / "cache").exists()
