"""Which places are hidden, what stands there instead, and whose fall is whose."""

import numpy as np
import pytest
import torch
from attention.forcing import SeededMode, force
from attention.occlusion import (
    DRAWS,
    VARIANTS,
    by_variant,
    falls,
    hidden_in_annotations,
    hidden_in_photo,
    hidden_locations,
)
from decoders import small_annotations, small_decoder
from pointers import noise_data

from show_attend_tell.settings import ATTENTION_MODES, AttentionModeName


def test_a_hidden_annotation_is_the_mean_of_those_left() -> None:
    annotations = torch.tensor([[[1.0, 2], [3, 4], [5, 9], [7, 7]]])
    masks = torch.tensor([[False, True, False, False], [True, False, True, False]])
    (hidden,) = hidden_in_annotations(annotations, masks)
    torch.testing.assert_close(hidden[0], torch.tensor([[1, 2], [13 / 3, 6], [5, 9], [7, 7]]))
    torch.testing.assert_close(hidden[1], torch.tensor([[5, 5.5], [3, 4], [5, 5.5], [7, 7]]))


def test_as_many_locations_are_hidden_every_time_and_a_patch_has_the_shape_of_what_was_attended() -> None:
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


def test_falls_are_sorted_to_the_words_they_belong_to() -> None:
    falls = torch.arange((3 + 3 + 3 + 1 + 2 * DRAWS) * 3, dtype=torch.float64).view(-1, 3)  # mask u, word t: 3 u + t
    found = by_variant(falls)
    assert found.shape == (3, len(VARIANTS))
    word = 1
    patches, scattered = range(10, 10 + DRAWS), range(10 + DRAWS, 10 + 2 * DRAWS)
    expected = {
        "most": 3 * 1 + word,
        "other_word": 3 * (0 + 2) / 2 + word,
        "static": 3 * 9 + word,
        "other_photo": 3 * 7 + word,
        "patch": 3 * float(np.mean(patches)) + word,
        "random": 3 * float(np.mean(scattered)) + word,
        "least": 3 * 4 + word,
    }
    assert dict(zip(VARIANTS, found[word].tolist(), strict=True)) == expected


def test_hidden_cells_of_a_photo_have_the_mean_color() -> None:
    pixels, masks = torch.ones(3, 4, 6), torch.tensor([[False, True, False, False, False, False]])
    (encoded,) = hidden_in_photo(pixels, masks, (2, 3), lambda pixels: pixels)
    assert encoded[0, :, :2, 2:4].abs().max() == 0 and encoded.sum() == 3 * (4 * 6 - 2 * 2)
    (moved,) = hidden_in_photo(pixels, masks, (2, 3), lambda pixels: pixels, (0.5, 0.5))
    assert moved[0, :, :3, 3:5].abs().max() == 0 and moved.sum() == 3 * (4 * 6 - 3 * 2)  # up to the photo's border


@pytest.mark.parametrize("mode", ATTENTION_MODES)
def test_nothing_hidden_costs_nothing(mode: AttentionModeName, tmp_path_factory: pytest.TempPathFactory) -> None:
    (example, *_) = noise_data(tmp_path_factory.mktemp("noise"), 1).examples
    decoder, annotations, ids = small_decoder(), small_annotations(1), torch.tensor([[3, 5, 7]])
    with torch.no_grad():
        forced = force(decoder, example, annotations, ["a", "b", "c"], ids, SeededMode(mode, 13))
        masks = hidden_locations(forced.alpha, forced.alpha, (5, 1), torch.Generator().manual_seed(1)) & False
        found = falls(decoder, forced, hidden_in_annotations(annotations, masks))
    np.testing.assert_allclose(found, 0, atol=1e-5)
