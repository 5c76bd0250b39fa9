"""CIDEr-D: equal to pycocoevalcap's, with document frequencies from anywhere, and a case worked by hand."""

import math
import random

import pytest
import torch
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.cider.cider_scorer import CiderScorer

from show_attend_tell.errors import SatError
from show_attend_tell.metrics.cider import PADDING, CiderD, cider, padded


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
    expected, each = Cider().compute_score(
        {n: [text(words) for words in references[n]] for n in range(photos)},
        {n: [text(words)] for n, words in enumerate(captions)},
    )
    rows = torch.stack([padded([*(r := references[n]), *[[]] * (5 - len(r)), [0] * 13])[:5] for n in range(photos)])
    found = CiderD(references)(padded(captions)[:, None], rows)
    torch.testing.assert_close(found[:, 0].double(), torch.tensor(each, dtype=torch.double), atol=1e-6, rtol=1e-6)
    assert float(found.mean()) == pytest.approx(expected, abs=1e-6)
    assert (float(found.max()) > 1) == (photos > 1)  # of one photo every n-gram has the weight log 1 = 0


def test_frequencies_of_other_references_and_several_captions_of_a_photo() -> None:
    source = random.Random(5)
    documents = [[drawn(source, 11) for _ in range(3)] for _ in range(17)]
    references = [[drawn(source, 11, words=9) for _ in range(2)] for _ in range(3)]  # w7 and w8 are in no document
    captions = [[drawn(source, 11, words=9) for _ in range(4)] for _ in range(3)]
    theirs = CiderScorer()
    for refs in documents:
        theirs += ("", [text(words) for words in refs])
    theirs.compute_doc_freq()
    scorer = CiderScorer()
    for photo in range(3):
        for words in captions[photo]:
            scorer += (text(words), [text(reference) for reference in references[photo]])
    scorer.document_frequency = theirs.document_frequency
    scorer.crefs += [[]] * (17 - 12)  # it takes the number of documents from here
    expected = scorer.compute_cider()
    every = padded([*(words for said in captions for words in said), *(words for said in references for words in said)])
    found = CiderD(documents)(every[:12].view(3, 4, -1), every[12:].view(3, 2, -1))
    torch.testing.assert_close(found.flatten().double(), torch.tensor(expected).double(), atol=1e-6, rtol=1e-6)
    assert len(set(found.flatten().tolist())) > 6


def test_a_case_by_hand() -> None:
    """Of two photos, the caption "1 2" against the reference "1 3", where 1 is in both photos and 2 and 3 in one.

    The words weigh 0, log 2 and log 2. Single words: nothing in common but 1, whose weight is 0. Pairs: none. So 0.
    Against the reference "2": the cosine of single words is 1, pairs have none; the lengths differ by one pair.
    """
    score = CiderD([[[1, 3], [2]], [[1]]])
    assert float(score(padded([[1, 2]])[None], padded([[1, 3]])[None])) == 0
    assert float(score(padded([[1, 2]])[None], padded([[2]])[None])) == pytest.approx(10 / 4 * math.exp(-1 / 72))
    assert float(score(padded([[1, 2]])[None], padded([[1, 3], [2]])[None])) == pytest.approx(
        10 / 8 * math.exp(-1 / 72)
    )


def test_a_caption_without_its_end_loses_where_the_end_counts_as_a_word() -> None:
    end, source = 0, random.Random(7)
    documents = [[[*(1 + word for word in drawn(source, 9)), end]] for _ in range(23)]
    reference = documents[4][0] = [5, 3, 6, 2, 7, 1, end]
    score = CiderD(documents)
    whole, broken = score(padded([reference, reference[:-1]])[None], padded([reference])[None])[0].tolist()
    assert whole == pytest.approx(10) and broken < 9.5


def test_padding_says_nothing() -> None:
    documents = [[[1, 2, 3]], [[3, 4]]]
    said, wanted = padded([[1, 2, 3, 4], [1, 2, 3]]), padded([[1, 2, 3]])
    wide = torch.nn.functional.pad(said, (0, 5), value=PADDING), torch.nn.functional.pad(wanted, (0, 7), value=PADDING)
    score = CiderD(documents)
    assert torch.equal(score(said[None], wanted[None]), score(wide[0][None], wide[1][None]))
    assert float(score(padded([[]])[None], wanted[None])) == 0


def test_refusals() -> None:
    for documents in ([], [[]]):
        with pytest.raises(SatError, match="no references"):
            CiderD(documents)


def test_any_number_of_words() -> None:
    """Ids of 31 bits score as small ones, and n-grams that differ only in large ids are different ones."""
    source = random.Random(13)
    references = [[drawn(source, 9) for _ in range(3)] for _ in range(7)]
    captions = [drawn(source, 9, words=9) for _ in range(7)]  # 7 and 8 are in no reference
    high = [(1 << 31) - 1 - 3**word for word in range(9)]

    def moved(num_captions: list[list[int]]) -> list[list[int]]:
        return [[high[word] for word in words] for words in num_captions]

    small = CiderD(references)(padded(captions)[:, None], [padded(choices) for choices in references])
    large = CiderD([moved(choices) for choices in references])(
        padded(moved(captions))[:, None], [padded(moved(choices)) for choices in references]
    )
    assert torch.equal(small, large) and float(small.max()) > 0


def test_the_score_of_captions_is_pycocoevalcap_s() -> None:
    """Words that are in no reference count too."""
    source = random.Random(11)
    references = [[text(drawn(source, 9)).split() for _ in range(1 + n % 3)] for n in range(13)]
    captions = [[*text(drawn(source, 9)).split(), "unheard"] for _ in range(13)]
    expected, _ = Cider().compute_score(
        {n: [" ".join(words) for words in choices] for n, choices in enumerate(references)},
        {n: [" ".join(words)] for n, words in enumerate(captions)},
    )
    assert cider(captions, references) == pytest.approx(100 * expected, abs=1e-4)
    with pytest.raises(SatError, match="13 captions cannot be scored against 12"):
        cider(captions, references[1:])
