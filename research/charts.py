"""Generated charts: bar and line charts whose captions say what they show. Photos of no kind that a model knows.

    python research/charts.py charts/ --photos 150

A chart has three to five bars, or a line of five to eight points. Its captions name its kind and color, and where it
is highest and lowest, or how it goes. `write_charts` makes a data folder that `datasets.read_dataset` reads as it is.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from stages import new_parser, reporting

from show_attend_tell.errors import SatError
from show_attend_tell.files import make_folder

SIDE = 200  # pixels
COLORS = {"red": "#c62828", "blue": "#1565c0", "green": "#2e7d32", "orange": "#ef6c00", "purple": "#6a1b9a"}
ORDER = ("first", "second", "third", "fourth", "fifth")
COUNTS = {3: "three", 4: "four", 5: "five"}
COURSES = {"rises": 1.0, "falls": -1.0, "stays level": 0.0}


def make_chart(seed: int, number: int) -> tuple[Image.Image, list[str]]:
    """The chart of that number and its two captions; the same seed and number always give the same."""
    random = np.random.default_rng([seed, number])
    color = str(random.choice(list(COLORS)))
    image = Image.new("RGB", (SIDE, SIDE), "white")
    draw = ImageDraw.Draw(image)
    draw.line([(20, 10), (20, 180), (190, 180)], fill="black", width=2)
    if random.random() < 0.5:
        count = int(random.integers(3, 6))
        heights = random.permutation(np.linspace(25, 160, count)).astype(int).tolist()
        for place, height in enumerate(heights):
            left = 30 + place * 160 // count
            draw.rectangle((left, 180 - height, left + 110 // count, 179), fill=COLORS[color])
        high, low = (ORDER[heights.index(value)] for value in (max(heights), min(heights)))
        return image, [
            f"a bar chart with {COUNTS[count]} {color} bars of which the {high} is the highest",
            f"{COUNTS[count]} {color} bars the {high} is the highest and the {low} is the lowest",
        ]
    course = str(random.choice(list(COURSES)))
    points = int(random.integers(5, 9))
    line = 95 + COURSES[course] * np.linspace(-65, 65, points) + random.normal(0, 6, points)
    places = np.linspace(25, 185, points)
    draw.line([(float(x), float(180 - y)) for x, y in zip(places, line, strict=True)], fill=COLORS[color], width=3)
    return image, [f"a line chart with a {color} line that {course}", f"the {color} line {course} from left to right"]


def write_charts(folder: Path, photos: int, *, seed: int = 1) -> None:
    """Write a data folder of charts: of ten photos eight are for training, one each for val and test.

    Raises `SatError` for fewer than ten photos and for a folder that is there and not empty.
    """
    if photos < 10:
        raise SatError(f"{photos} photos are too few for the splits train, val and test: make at least 10")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SatError(f"{folder} is there already: name a new folder")
    make_folder(folder / "images", "name another folder")
    with open(folder / "captions.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["photo", "caption"])
        for number in range(photos):
            image, captions = make_chart(seed, number)
            name = f"chart{number:05}.png"
            image.save(folder / "images" / name)
            writer.writerows([name, caption] for caption in captions)


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Write charts."""
    parser = new_parser(__doc__)
    parser.add_argument("folder", type=Path, help="folder to write")
    parser.add_argument("--photos", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(given)
    write_charts(options.folder, options.photos, seed=options.seed)


if __name__ == "__main__":
    main()
