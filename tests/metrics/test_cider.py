"""CIDEr-D: equal to pycocoevalcap's, with document frequencies from anywhere, and a case worked by hand."""

import math
import random

import pytest
from pycocoevalcap.cider.cider import Cider

from show_attend_tell.metrics.cider import CiderD, cider


def drawn(source: random.Random, longest: int, words: int = 7) -> list[int]:
    return [source.randrange(words) for _ in range(source.randrange(1, longest + 1))]


def text(words: list[int]) -> str:
    return " ".join(f"w{word}" for word in words)


@pytest.mark.parametrize("photos", [1, 11])
def test_it_is_pycocoevalcap_s(photos: int) -> None:
    """Words repeat, lengths differ, some captions are short of an n-gram, and photos have 1 to 5 references."""
    source = random.Random(3)
    references = [[drawn(source, 13) for _ in range(source.randrange(1, 6))] for _ in range(photos)]
    captions = [drawn(source, 13) for _ in range(photos)]
    captions[0] = references[0][0]
    captions[-1] = [*captions[-1], 99]  # which is in no reference
    expected, each = Cider().compute_score(
        {n: [text(words) for words in references[n]] for n in range(photos)},
        {n: [text(words)] for n, words in enumerate(captions)},
    )
    score = CiderD(references)
    found = list(map(score, captions, references))
    assert found == pytest.approx(each, abs=1e-9)
    assert cider(captions, references) == pytest.approx(100 * expected, abs=1e-9)
    assert (max(found) > 1) == (photos > 1)  # of one photo every n-gram has the weight log 1 = 0


def test_a_case_by_hand() -> None:
    """Of two photos, the caption "1 2" against the reference "1 3", where 1 is in both photos and 2 and 3 in one.

    The words weigh 0, log 2 and log 2. Single words: nothing in common but 1, whose weight is 0. Pairs: none. So 0.
    Against the reference "2": the cosine of single words is 1, pairs have none; the lengths differ by one pair.
    """
    score = CiderD([[[1, 3], [2]], [[1]]])
    assert score([1, 2], [[1, 3]]) == 0
    assert score([1, 2], [[2]]) == pytest.approx(10 / 4 * math.exp(-1 / 72))
    assert score([1, 2], [[1, 3], [2], []]) == pytest.approx(10 / 8 * math.exp(-1 / 72)) and score([], [[2]]) == 0
