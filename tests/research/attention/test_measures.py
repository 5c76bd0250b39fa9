"""What is measured of attention: what each control stands for, which locations are hidden, and whose nouns count."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from attention.controls import CONTROLS, costs_at_words, maps_of, mode_for_search, shift_of
from attention.forcing import Forced, SeededMode, force, log_p_at_words, log_p_throughout
from attention.mosaics import Mosaic, draw_picture, share_note
from attention.occlusion import DRAWS, hidden_in_annotations, hidden_in_photo, hidden_locations
from decoders import L, small_annotations, small_decoder
from PIL import Image
from torch import Tensor

from show_attend_tell.data.datasets import Example
from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.model.attention import ArgmaxAttention, Attended, AttentionMode, GivenLocations, MeanAttention
from show_attend_tell.model.interface import word_log_probabilities
from show_attend_tell.settings import ATTENTION_MODES, AttentionModeName


def test_a_hidden_annotation_is_the_mean_of_those_left():
    annotations = torch.tensor([[[1.0, 2], [3, 4], [5, 9], [7, 7]]])
    masks = torch.tensor([[False, True, False, False], [True, False, True, False]])
    (hidden,) = hidden_in_annotations(annotations, masks)
    torch.testing.assert_close(hidden[0], torch.tensor([[1, 2], [13 / 3, 6], [5, 9], [7, 7]]))
    torch.testing.assert_close(hidden[1], torch.tensor([[5, 5.5], [3, 4], [5, 5.5], [7, 7]]))


def test_as_many_locations_are_hidden_every_time_and_a_patch_has_the_shape_of_what_was_attended():
    locations = 9 * 7
    alpha, other = (torch.rand(n, locations, generator=torch.Generator().manual_seed(n)).softmax(-1) for n in (4, 3))
    masks = hidden_locations(alpha, other, (9, 7), torch.Generator().manual_seed(2))
    assert masks.shape == (4 + 4 + 4 + 1 + DRAWS + DRAWS, locations) and (masks.sum(1) == 6).all()
    for step in range(4):
        order, of_other = alpha[step].argsort(descending=True), other[step % 3].argsort(descending=True)
        for row, expected in ((step, order[:6]), (4 + step, order[-6:]), (8 + step, of_other[:6])):
            assert set(masks[row].nonzero().flatten().tolist()) == set(expected.tolist())
    assert set(masks[12].nonzero().flatten().tolist()) == set(alpha.sum(0).argsort(descending=True)[:6].tolist())
    shifts = {
        tuple(mask.view(9, 7).roll((down, across), (0, 1)).flatten().tolist())
        for mask in masks[:4]
        for down in range(9)
        for across in range(7)
        if (down, across) != (0, 0)
    }
    assert all(tuple(patch.tolist()) in shifts for patch in masks[13 : 13 + DRAWS])
    assert not torch.equal(masks[-1], masks[-2])


def test_hidden_cells_of_a_photo_have_the_mean_color():
    pixels, masks = torch.ones(3, 4, 6), torch.tensor([[False, True, False, False, False, False]])
    (encoded,) = hidden_in_photo(pixels, masks, (2, 3), lambda pixels: pixels)
    assert encoded[0, :, :2, 2:4].abs().max() == 0 and encoded.sum() == 3 * (4 * 6 - 2 * 2)
    (moved,) = hidden_in_photo(pixels, masks, (2, 3), lambda pixels: pixels, (0.5, 0.5))
    assert moved[0, :, :3, 3:5].abs().max() == 0 and moved.sum() == 3 * (4 * 6 - 3 * 2)  # up to the photo's border


COLORS = ("red", "green", "blue", "white", "black")
NOUNS = ("dog", "boat", "tree", "horse", "car")


@pytest.fixture
def examples(tmp_path: Path) -> list[Example]:
    """Photos of one color, each with a noun of its own among nouns that all have."""
    (tmp_path / "images").mkdir()
    rows = ["photo,caption,split"]
    found = []
    for color, noun in zip(COLORS, NOUNS, strict=True):
        path = tmp_path / "images" / f"{noun}.png"
        Image.new("RGB", (40, 30), color).save(path)
        words = ("a", "man", "and", "two", f"{noun}s", "see", "a", noun)
        rows.append(f"{path.name},{' '.join(words)},val")
        found.append(Example(path.name, path, "val", (words,), (" ".join(words),)))
    (tmp_path / "captions.csv").write_text("\n".join(rows) + "\n")
    return found


def test_each_photo_is_a_quarter_of_the_picture(examples):
    square = Preprocessing(size=9, resize="squash", mean=(0, 0, 0), std=(1, 1, 1))
    red, green, blue, white = examples[:4]
    pixels = draw_picture((red, green, blue, white), square)
    assert pixels.shape == (3, 9, 9)
    for row, column, color in ((0, 0, (1, 0, 0)), (3, 4, (0, 128 / 255, 0)), (4, 3, (0, 0, 1)), (7, 7, (1, 1, 1))):
        assert pixels[:, row, column].tolist() == pytest.approx(color)
    assert not pixels[:, 8].any() and not pixels[:, :, 8].any()  # an odd side: the mean color


def test_nouns_count_that_only_the_caption_s_photo_has(examples):
    mosaic = Mosaic(tuple(examples[:4]), 1, ("a", "boat", "a", "dog", "men", "boats", "and", "car"))
    known = {"a", "boat", "dog", "men", "boats", "and"}
    # "dog" and, in the singular, "men" are in the other photos' captions; "car" the model does not know
    assert mosaic.nouns(known) == [(1, 0), (5, 3)]
    maps = np.zeros((8, 2, 3), dtype=np.float32)
    maps[1, 0] = (-1, 1, 3)  # 3/4 of what is positive in the last column
    maps[5, 1] = (1, 0, 1)
    note = share_note(mosaic, known, {"evidence": maps, "attention": None}, np.array([0.0, 0, 1, 0, 0, 1]))
    assert note.startswith("upper right, boat.png: ") and "62 % of the evidence" in note and "boat, boats" in note
    assert "no noun" in share_note(mosaic._replace(words=("a",)), known, {}, np.zeros(6))


EXAMPLE = Example("photo.png", Path("photo.png"), "val", (("a",),), ("a",))
IDS, OTHER_IDS = torch.tensor([[3, 5, 7, 4]]), torch.tensor([[8, 6, 11]])
ANNOTATIONS, OTHER = small_annotations(1), small_annotations(1, seed=9)


class ByStep:
    """Reads by one attention mode at one step, and by another at every other."""

    def __init__(self, usual: AttentionMode, step: int, special: Callable[[Tensor, Tensor], Attended]) -> None:
        self.usual, self.step, self.special, self.time = usual, step, special, 0

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        self.time += 1
        mode = self.special if self.time - 1 == self.step else self.usual
        return Attended(mode(alpha, annotations).context, None)


@pytest.mark.parametrize("name", ATTENTION_MODES)
def test_every_way_of_forcing_has_the_same_log_p(name):
    decoder, mode = small_decoder(), SeededMode(name, 13)
    with torch.no_grad():
        forced = force(decoder, EXAMPLE, ANNOTATIONS, list("abcd"), IDS, mode)
        output = decoder.teacher_forcing(ANNOTATIONS, IDS, mode=mode.along(IDS))
        throughout = log_p_throughout(decoder, ANNOTATIONS.expand(3, -1, -1), forced)
        source = decoder.start(ANNOTATIONS, paths=4).source
        at_words = log_p_at_words(decoder, source, forced, mode.at_once(IDS, 3), 3)
    expected = word_log_probabilities(output.logits, IDS)[0, 0]
    torch.testing.assert_close(forced.log_p, expected)
    assert output.alpha is not None and output.beta is not None and forced.beta is not None
    torch.testing.assert_close(forced.alpha, output.alpha[0, 0])
    torch.testing.assert_close(forced.beta, output.beta[0, 0])
    torch.testing.assert_close(throughout, expected.expand(3, -1))
    torch.testing.assert_close(at_words, expected.expand(3, -1))


def pair(mode: AttentionModeName) -> tuple[Forced, Forced]:
    decoder = small_decoder()
    with torch.no_grad():
        return (
            force(decoder, EXAMPLE, ANNOTATIONS, list("abcd"), IDS, SeededMode(mode, 13)),
            force(decoder, EXAMPLE, OTHER, list("abc"), OTHER_IDS, SeededMode(mode, 14)),
        )


@pytest.mark.parametrize("mode", ["mean", "argmax"])
def test_a_control_at_a_word_s_own_step(mode):
    """Teacher forcing for each word, with the replaced context at that word's step alone."""
    decoder, (forced, other) = small_decoder(), pair(mode)
    usual = MeanAttention() if mode == "mean" else ArgmaxAttention()

    def log_p(step: int, special: Callable[[Tensor, Tensor], Attended]) -> float:
        logits = decoder.teacher_forcing(ANNOTATIONS, IDS, mode=ByStep(usual, step, special)).logits
        return float(word_log_probabilities(logits, IDS)[0, 0, step])

    def by(alpha: Tensor) -> Callable[[Tensor, Tensor], Attended]:
        return lambda own, annotations: usual(alpha[None, None], annotations)

    def everywhere(own: Tensor, annotations: Tensor) -> Attended:
        return Attended(annotations.mean(1, keepdim=True), None)

    with torch.no_grad():
        found = costs_at_words(decoder, ANNOTATIONS, forced, OTHER, other)
        scaled = OTHER * decoder.annotation_scale
        for step in range(4):
            others = [log_p(step, by(forced.alpha[word])) for word in range(4) if word != step]
            there = other.alpha[step % 3]
            expected = {
                "uniform": log_p(step, everywhere),
                "static": log_p(step, by(forced.alpha.mean(0))),
                "other_word": float(np.mean(others)),
                "other_photo": log_p(step, by(there)),
                "other_view": log_p(step, lambda own, annotations, there=there: usual(there[None, None], scaled)),
            }
            for name, value in expected.items():
                assert found[name][step] == pytest.approx(float(forced.log_p[step]) - value, abs=1e-5), name
            locations = [log_p(step, GivenLocations(torch.full((1, 1, 1), location))) for location in range(L)]
            assert float(forced.log_p[step]) - max(locations) <= found["random"][step] + 1e-5
            assert found["random"][step] <= float(forced.log_p[step]) - min(locations) + 1e-5
    assert set(found) == set(CONTROLS)


def test_the_maps_of_a_control():
    alpha, other = torch.eye(3), torch.arange(6.0).view(2, 3)
    assert maps_of("static", alpha, other, 2, 1).tolist() == [[pytest.approx(1 / 3)] * 3] * 2
    assert maps_of("other_word", alpha, other, 4, 2).argmax(1).tolist() == [2, 0, 1, 2]
    assert maps_of("uniform", alpha, other, 2, 1).tolist() == [[pytest.approx(1 / 3)] * 3] * 2
    assert maps_of("other_photo", alpha, other, 3, 1).tolist() == [[0, 1, 2], [3, 4, 5], [0, 1, 2]]
    assert [shift_of(seed, 4) for seed in range(4)] == [1, 2, 3, 1]
    assert shift_of(5, 1) == 1


def test_a_search_reads_by_each_photo_s_own_maps():
    annotations, alpha = small_annotations(2), torch.full((2, 3, L), 1 / L)
    alphas, others = [torch.eye(L)[:3], torch.eye(L)[1:3]], [torch.eye(L)[3:], torch.eye(L)[4:]]
    modes = [SeededMode("argmax", 6), SeededMode("argmax", 7)]

    def locations(control: str) -> list[list[int]]:
        mode = mode_for_search(control, alphas, others, modes, paths=3, steps=4)
        found = []
        for _ in range(4):
            found_at = mode(alpha, annotations).locations
            assert found_at is not None and (found_at == found_at[:, :1]).all()
            found.append(found_at[:, 0].tolist())
        return found

    assert locations("other_photo") == [[3, 4], [4, 4], [3, 4], [4, 4]]
    assert locations("other_word") == [[1, 2], [2, 1], [0, 2], [1, 1]]
    assert locations("static") == [[0, 1]] * 4
    random = mode_for_search("random", alphas, others, modes, paths=3, steps=4)
    drawn = [random(alpha, annotations).locations for _ in range(4)]
    assert torch.stack([each for each in drawn if each is not None]).unique().numel() > 2
    uniform = mode_for_search("uniform", alphas, others, modes, paths=3, steps=4)
    torch.testing.assert_close(uniform(alpha, annotations).context[:, 0], annotations.mean(1))
