"""Show, Attend and Tell: image captions, with where in the photo each word comes from (Xu et al., ICML 2015).

>>> from show_attend_tell import Captioner
>>> captioner = Captioner.from_pretrained("everyday-soft")  # doctest: +SKIP
>>> caption = captioner("dog.jpg")  # doctest: +SKIP
>>> print(caption, caption.attention.shape)  # doctest: +SKIP

Importing this package changes nothing in the process. The command `sat` calls `threads.prepare_process`, which sets how
PyTorch's threads wait and which warnings are shown; a program that uses the package may call it too.
"""

from importlib import import_module

from show_attend_tell.errors import PhotoError, SatError

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Any

    from show_attend_tell.caption import Caption
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.evaluation import evaluate
    from show_attend_tell.model.registry import register_decoder
    from show_attend_tell.search.config import GenerationConfig
    from show_attend_tell.training.run import train

__version__ = "0.1.0"
__all__ = [
    "Caption",
    "Captioner",
    "GenerationConfig",
    "PhotoError",
    "SatError",
    "evaluate",
    "register_decoder",
    "train",
]

MODULES = {  # where the names are that are imported at first use: `sat --help` need not wait for PyTorch
    "Caption": "caption",
    "Captioner": "captioner",
    "GenerationConfig": "search.config",
    "evaluate": "evaluation",
    "register_decoder": "model.registry",
    "train": "training.run",
}


def __getattr__(name: str) -> "Any":
    """The names of `MODULES`, imported at first use."""
    if name in MODULES:
        return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, for `dir` and for editors."""
    return sorted([*__all__, "__version__"])
