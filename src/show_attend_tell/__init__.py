"""Show, Attend and Tell: captions that show where they looked (Xu et al., ICML 2015).

>>> from show_attend_tell import Captioner
>>> captioner = Captioner.from_pretrained("everyday-soft")  # doctest: +SKIP
>>> caption = captioner("dog.jpg")  # doctest: +SKIP
>>> print(caption, caption.attention.shape)  # doctest: +SKIP

Importing this package changes nothing in the process. The command `sat` calls `threads.prepare_process`, which sets how
PyTorch's threads wait and which warnings are shown; a program that uses the package may call it too.
"""

from show_attend_tell.errors import SatError

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Any

    from show_attend_tell.captioner import Caption, Captioner, Sampling
    from show_attend_tell.model.registry import register_decoder

__version__ = "0.1.0"
__all__ = ["Caption", "Captioner", "Sampling", "SatError", "register_decoder"]


def __getattr__(name: str) -> "Any":
    """The public names, imported at first use: `sat --help` need not wait for PyTorch."""
    if name == "register_decoder":
        from show_attend_tell.model import registry

        return registry.register_decoder
    if name in __all__:
        from show_attend_tell import captioner

        return getattr(captioner, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, for `dir` and for editors."""
    return sorted([*__all__, "__version__"])
