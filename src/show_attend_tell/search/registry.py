"""The filters that have a setting, by its name: see `search.filters` for what a filter is."""

from collections.abc import Callable
from typing import Any, Protocol

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.registries import Registry
from show_attend_tell.search.session import Numbers


class Filter(Protocol):
    """Anything that is called so, a function for example."""

    def __call__(self, history: Numbers, photos: Numbers) -> tuple[Any, Any] | None:
        """The ids of words, and what is added to their log p as the next word of a path, in nats; None for nothing.

        Gets the words of each path (B′, P′, t), and which of the search's photos these are (B′,). Both results may be
        (B′, P′, N), (B′, 1, N), (N,) …; a number stands for N equal weights. −∞ forbids a word, and 0 says nothing. A
        word may be named twice: its weights add up.
        """
        ...


MakeFilter = Callable[[float], Filter]  # the filter with that value of its setting

# What makes the filters of a model's vocabulary, by the names of their settings. To register one is all that a setting
# needs: `GenerationConfig`, the command line and a model's file take it by this name. 0 leaves the filter out. Only a
# beam search uses it.
FILTERS: Registry[Callable[[Vocabulary], MakeFilter]] = Registry("a filter", "filters")
