"""Karpathy's split files: photos, splits, and captions as text and as tokens.

``{"dataset": NAME, "images": [{"filename", "split", "filepath" (COCO's subfolder, optional), "sentences": [{"tokens",
"raw"}]}]}``, also without splits, tokens or raw texts. The tokens are used as they are, until another tokenizer cuts
the raw text (`Dataset.retokenize`).
"""

from pathlib import Path
from typing import Any

from show_attend_tell.data.datasets.dataset import PAPERS
from show_attend_tell.data.datasets.listing import CaptionFile, PhotoEntry
from show_attend_tell.data.rows.entry import WithWords
from show_attend_tell.data.tokenizers import tokenize
from show_attend_tell.errors import SatError
from show_attend_tell.files import list_of_objects, number_of, text_of
from show_attend_tell.messages import quoted


def is_karpathy(content: Any) -> bool:
    """Whether what a JSON file holds has the form of Karpathy's files, and not that of COCO's."""
    return isinstance(content, dict) and isinstance(content.get("images"), list) and "annotations" not in content


def karpathy_listing(file: Path, content: dict[str, Any]) -> CaptionFile:
    """What the ``content`` of one of Karpathy's split files lists."""
    photos = []
    for index, image in enumerate(list_of_objects(content, "images", str(file))):
        where = f"{file}: images[{index}]"
        sentences = [
            _karpathy_caption(sentence, f"{where}.sentences[{number}]")
            for number, sentence in enumerate(list_of_objects(image, "sentences", where))
        ]
        subfolder = text_of(image, "filepath", where) if "filepath" in image else ""
        number = next((str(number_of(image, key, where)) for key in ("cocoid", "imgid") if key in image), None)
        split = text_of(image, "split", where) if "split" in image else None
        photos.append(PhotoEntry(text_of(image, "filename", where), split, subfolder, sentences, number))
    name = str(content.get("dataset") or file.stem)
    return CaptionFile(name, [file], photos, form="karpathy", custom=name not in PAPERS)


def _karpathy_caption(sentence: dict[str, Any], where: str) -> WithWords:
    raw = text_of(sentence, "raw", where) if "raw" in sentence else None
    tokens = sentence.get("tokens", raw and tokenize(raw))
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise SatError(f"{where}: 'tokens' must be a list of words, and is {quoted(tokens)}")
    words = tuple(token for token in tokens if token.strip())
    return words, " ".join(words) if raw is None else raw
