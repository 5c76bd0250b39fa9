"""What captions drawn at random are like, by temperature and top_p: how close to people's, and how many are distinct.

    python research/sampling.py flickr8k/ coco/ --model everyday-soft

Of ``--photos`` val photos of each data set, ``--draws`` captions each are drawn. CIDEr-D, ×100, is the mean over all of
them, with the document frequencies of the whole split. Distinct is the share of different captions among the draws of
one photo, and "among all" the share among the draws of all photos. The default of `GenerationConfig` is what has the
best CIDEr at 90 % distinct captions of a photo.
"""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from stages import new_parser, reporting

from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.data.photos import open_photo
from show_attend_tell.generation import photo_seed
from show_attend_tell.metrics.cider import CiderD

TEMPERATURES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
TOP_PS = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)


@reporting
def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table of the figures of both data sets."""
    parser = new_parser(__doc__)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--model", default="everyday-soft")
    parser.add_argument("--photos", type=int, default=100)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    captioner = Captioner.from_pretrained(given.model, backend="onnx")
    sets = []
    for folder in given.data:
        split = read_dataset(folder).retokenize(captioner.checkpoint.vocabulary.tokenizer).split("val")
        examples = random.Random(given.seed).sample(split, min(given.photos, len(split)))
        pixels = [captioner.backend.encoder.preprocessing.pixels(open_photo(example.photo)) for example in examples]
        parts = [captioner.backend.encode(np.stack(pixels[at : at + 8])) for at in range(0, len(pixels), 8)]
        sets.append((examples, np.concatenate(parts), CiderD([example.captions for example in split])))
    print("temperature", "top_p", *(f"CIDEr {folder.name}" for folder in given.data), "CIDEr", "distinct", "among all")
    for temperature in TEMPERATURES:
        for top_p in TOP_PS:
            config = captioner.resolve_config(
                do_sample=True, num_captions=given.draws, temperature=temperature, top_p=top_p, seed=given.seed
            )
            scores, distinct, everything = [], [], []
            for examples, features, cider in sets:
                seeds = [photo_seed(given.seed, example.name.encode()) for example in examples]
                found = captioner.generate(features, config, seeds=seeds)
                texts = [[captioner.checkpoint.vocabulary.decode(each.words) for each in drawn] for drawn in found]
                pairs = [(words, each.captions) for each, drawn in zip(examples, texts, strict=True) for words in drawn]
                scores.append(100 * float(np.mean([cider(*pair) for pair in pairs])))
                distinct += [len({*map(tuple, drawn)}) / given.draws for drawn in texts]
                everything += [tuple(words) for drawn in texts for words in drawn]
            figures = [*scores, float(np.mean(scores)), 100 * float(np.mean(distinct))]
            figures.append(100 * len(set(everything)) / len(everything))
            print(temperature, top_p, *(f"{figure:.1f}" for figure in figures), sep="\t", flush=True)


if __name__ == "__main__":
    main()
