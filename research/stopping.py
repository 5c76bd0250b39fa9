"""How far off it is what `sat review` says of the captions that nobody reviewed: "about 45 of the rest are wrong".

    python research/stopping.py flickr8k/ coco/ --photos 200

A caption counts as wrong if a judged noun of it is in none of the photo's captions by people, in the singular or the
plural. Each of `DRAWS` times, 150 photos of val are drawn, a share of them is reviewed, the least trusted first, and
then 20 of the rest, drawn at random. The error is that of the number of wrong captions among the others.
"""

import random
from pathlib import Path

import click

from show_attend_tell.caption import Caption
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.hub import DEFAULT_MODEL
from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.data.datasets.dataset import Example
from show_attend_tell.data.parts_of_speech import singular
from show_attend_tell.errors import PhotoError
from show_attend_tell.review.order import doubt
from show_attend_tell.review.stopping import DRAW, forecast
from show_attend_tell.review.table import Decided, Row

DRAWS = 200
PHOTOS = 150  # of a draw
SHARES = (0.0, 0.25, 0.5)  # that are reviewed, the least trusted first


def is_wrong(caption: Caption, example: Example) -> bool:
    """Whether a judged noun of a caption is in none of the captions by people."""
    by_people = {word for words in example.captions for word in words}
    by_people |= {singular(word) or word for word in by_people}
    confidence = [] if caption.word_confidence is None else caption.word_confidence.tolist()
    nouns = [word.split()[-1] for word, value in zip(caption.words, confidence, strict=False) if value == value]
    return any(noun not in by_people and (singular(noun) or noun) not in by_people for noun in nouns)


def row_of(number: int, caption: Caption) -> Row:
    """A caption as a review has it before anybody looks at it."""
    text = caption.text
    return Row(Path(str(number)), str(number), str(number), Decided(text), text, caption.confidence)


def errors(captions: list[Caption], wrong: list[bool], share: float) -> list[float]:
    """The forecast less the truth of each draw, in captions, by the rest's number."""
    found = []
    for seed in range(DRAWS):
        chance = random.Random(seed)
        numbers = chance.sample(range(len(captions)), min(PHOTOS, len(captions)))
        rows = sorted((row_of(number, captions[number]) for number in numbers), key=doubt)
        first = rows[: int(share * len(rows))]
        drawn = chance.sample(rows[len(first) :], DRAW)
        for row in drawn:
            row.decided = row.decided._replace(drawn="yes")
        for row in first + drawn:
            mended = {"caption": "something else", "reviewed": "edited"}
            row.decided = row.decided._replace(**mended if wrong[int(row.key)] else {"reviewed": "accepted"})
        rest = [row for row in rows if not row.reviewed]
        truth = sum(wrong[int(row.key)] for row in rest)
        found.append((forecast(rows).wrong - truth) / len(rest))
    return found


@click.command()
@click.argument("data", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--model", default=DEFAULT_MODEL)
@click.option("--photos", default=200, help="Photos of each val.")
def main(data: tuple[Path, ...], model: str, photos: int) -> None:
    """Print the mean error and the mean absolute error of the forecast, as shares of the rest."""
    captioner = Captioner.from_pretrained(model)
    for folder in data:
        examples = read_dataset(folder).split("val")[:photos]
        captions: list[Caption] = []
        wrong = []
        for example, caption in zip(examples, captioner.stream([each.photo for each in examples]), strict=True):
            if not isinstance(caption, PhotoError):
                captions.append(caption)
                wrong.append(is_wrong(caption, example))
        print(f"{folder.name}: {sum(wrong)} of {len(captions)} captions are wrong")
        for share in SHARES:
            off = errors(captions, wrong, share)
            mean = sum(off) / len(off)
            absolute = sum(map(abs, off)) / len(off)
            print(f"  {share:.0%} reviewed before: {mean:+.1%} on average, {absolute:.1%} off")


if __name__ == "__main__":
    main()
