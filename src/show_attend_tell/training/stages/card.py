"""Stage "card": the model is written, with its card."""

from pathlib import Path

from show_attend_tell.checkpoint.checkpoint import Bits, Checkpoint
from show_attend_tell.training import ranks


def write_card(model: Checkpoint, output: Path, bits: Bits) -> None:
    """Write the complete model; the first rank alone does."""
    if ranks.is_main():
        model.save(output, bits=bits)
