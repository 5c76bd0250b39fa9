"""When to stop: how many captions of those that nobody reviewed are probably wrong.

A caption is wrong if a person would change it. Its confidence c is the share of its judged words that are expected to
be right, so 1 − cⁿ of such captions are expected to be wrong, where n is the number of judged words of a caption.
What people found in photos drawn at random corrects this: the number of wrong ones among them is taken as Poisson
distributed around a factor times what was expected, and the factor has a gamma prior with mean 1. The photos that are
looked at first tell nothing of the others, since they are the least trusted.

With 20 of 150 val photos of COCO and of Flickr8k drawn at random, the number is off by 6 to 8 % of the rest, where a
caption is wrong that has a judged noun which no person used (research/stopping.py).
"""

from collections.abc import Iterable
from typing import NamedTuple

from show_attend_tell.review.order import trust
from show_attend_tell.review.table import Row

# Judged words of a caption: 2.9 on Flickr8k's val, 3.0 on COCO's (research/results/confidence.json). So 85 of the 97
# captions in research/results/hundred.json are expected to need a change, and 89 do.
JUDGED = 3.0
TRUST = 5.0  # wrong captions: how much the confidence by itself counts, the shape of the gamma prior
DRAW = 20  # photos to draw at random


class Forecast(NamedTuple):
    """How far a review is."""

    reviewed: int
    rows: int  # with a caption, or reviewed
    wrong: float  # of those that nobody reviewed, about
    checked: int  # photos that were drawn at random and are reviewed

    def sentence(self) -> str:
        """What to tell a person."""
        done = f"{self.reviewed:,} of {self.rows:,} reviewed."
        if self.reviewed == self.rows:
            return done
        about = f"{done} About {round(self.wrong):,} of the rest are probably wrong"
        if self.checked >= DRAW:
            return f"{about}, by the confidence and by {self.checked} drawn at random."
        to_check = min(DRAW - self.checked, self.rows - self.reviewed)
        return f"{about}; check {to_check} drawn at random."


def expected_wrong(row: Row) -> float:
    """The probability that a caption is wrong, from the model alone."""
    return float(1 - min(1.0, max(0.0, trust(row))) ** JUDGED)


def forecast(rows: Iterable[Row]) -> Forecast:
    """How far a review is, and how many captions of the rest are probably wrong."""
    reviewed = 0
    total = 0
    rest = 0.0  # wrong ones that are expected of those that nobody reviewed
    checked = 0
    expected = 0.0  # wrong ones of those checked, by the confidence
    wrong = 0  # and found
    for row in rows:
        how = row.reviewed
        if not how and not row.caption:
            continue
        total += 1
        if not how:
            rest += expected_wrong(row)
            continue
        reviewed += 1
        if row.decided.drawn and how in ("accepted", "edited") and row.model_caption:
            checked += 1
            expected += expected_wrong(row)
            wrong += row.caption != row.model_caption
    factor = (TRUST + wrong) / (TRUST + expected)
    return Forecast(reviewed, total, min(rest * factor, total - reviewed), checked)
