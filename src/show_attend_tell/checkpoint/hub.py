"""Models by name: those shipped, folders, and models on the Hugging Face hub."""

import os
import re
from pathlib import Path

from show_attend_tell.errors import MissingFile, MissingPackage
from show_attend_tell.files import as_path, hub_id, read_text
from show_attend_tell.messages import install_command

SHIPPED = Path(__file__).parent / "models"
DEFAULT_MODEL = "everyday-soft"  # of every command that is given none


def shipped_size(name: str) -> int:
    """The bytes of a shipped model, with those that it shares with others (`arrays.shared_arrays`)."""
    family = name.rpartition("-")[0]
    folders = SHIPPED / name, SHIPPED / f"{family}-encoder", SHIPPED / f"{family}-ngrams"
    return sum(file.stat().st_size for folder in folders for file in folder.glob("*[!g]"))  # not the picture


def absolute(folder: str | os.PathLike[str]) -> Path:
    """The folder's absolute path, which ends in the folder's name. The path "." does not."""
    return Path(os.path.abspath(folder))


def model_name(folder: Path) -> str:
    """What a model is called: its hub id if it was fetched from the hub, otherwise the name of its folder."""
    return hub_id(folder) or absolute(folder).name


def find_model(name: str | os.PathLike[str]) -> Path:
    """The folder of a model: a shipped model's name, a path, or a hub id "owner/name" (with ``huggingface_hub``).

    A folder that has the name of a shipped model is found as "./NAME". Raises `MissingFile` for one that is not there.
    """
    name = name if isinstance(name, str) else os.fspath(as_path(name))
    if name in shipped_models():
        return SHIPPED / name
    if name and Path(name).is_dir():
        return absolute(name)
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        try:
            from huggingface_hub import snapshot_download
            from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
        except ImportError as error:
            raise MissingPackage(
                f"there is no folder {name!r} here; to fetch it from the hub", remedy=install_command("hub")
            ) from error
        try:
            return Path(snapshot_download(name, allow_patterns=["*.json", "*.safetensors", "README.md"]))
        except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
            raise MissingFile(
                f"there is no folder {name!r} here, and it could not be fetched from the Hugging Face hub: {error}"
            ) from error
    raise MissingFile(f"there is no model {name!r}", remedy=f"give a folder, or one of {', '.join(shipped_models())}")


def card_of(name: str | os.PathLike[str]) -> str:
    """The card of a model as people read it, without what stands above it for the hub (`card.head`)."""
    return re.sub(r"\A---\n.*?^(?=# )", "", read_text(find_model(name) / "README.md"), flags=re.DOTALL | re.MULTILINE)


def shipped_models() -> list[str]:
    """The names of the models that come with this package."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/config.json"))
