"""Files of captions in other forms than tables, pictures and pages, by the endings of their names."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from show_attend_tell.registries import Registry

# Gets the captions as `Caption.to_dict` gives them, and {"source", "error"} for a photo without one; gives the text.
Write = Callable[[Sequence[Mapping[str, Any]]], str]


def as_json(entries: Sequence[Mapping[str, Any]]) -> str:
    """A list, with an entry on each line."""
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    return f"[\n{lines}\n]\n"


# Tables, pages and sidecars are written elsewhere, since they hold photos or are written bit by bit.
ELSEWHERE = ("csv", "tsv", "jsonl", "parquet", "html", "xmp")
OUTPUTS: Registry[Any] = Registry("an output format", "outputs", {**dict.fromkeys(ELSEWHERE), "json": as_json})
register_output = OUTPUTS.register
