"""One policy for all that is added by name."""

import importlib
import sys
from importlib.metadata import EntryPoint

import pytest
from builders import forget

from show_attend_tell import registries
from show_attend_tell.data.datasets import READERS
from show_attend_tell.errors import SatError, UnknownName
from show_attend_tell.metrics.table import METRICS, Metric
from show_attend_tell.model.registry import DECODERS
from show_attend_tell.registries import Registry
from show_attend_tell.rerank.registry import RERANKERS
from show_attend_tell.search.filters import FILTERS
from show_attend_tell.settings import ATTENTION_MODES
from show_attend_tell.show.outputs import OUTPUTS
from show_attend_tell.show.pictures import FORMATS
from show_attend_tell.training.presets import PRESETS
from show_attend_tell.vision.registry import ENCODERS

ALL = (
    ATTENTION_MODES,
    DECODERS,
    ENCODERS,
    FILTERS,
    FORMATS,
    METRICS,
    OUTPUTS,
    PRESETS,
    READERS,
    RERANKERS,
)


def first() -> int:
    return 1


def second() -> int:
    return 2


@pytest.mark.parametrize("registry", ALL, ids=lambda registry: registry.group)
def test_each_has_a_group_of_its_own_and_keeps_what_it_has(registry):
    assert [other.group for other in ALL].count(registry.group) == 1
    name, value = next(iter(registry.items()))
    assert value is None or registry.register(name, value) is value
    with pytest.raises(SatError, match=f"{name!r} already.*choose another name"):
        registry.register(name, first)
    with pytest.raises(SatError, match=f"'unheard-of' is registered .*{name}.*--plugin MODULE"):
        registry["unheard-of"]
    assert "unheard-of" not in registry and registry.get("unheard-of") is None


def test_a_name_is_taken_once_by_a_call_or_a_decorator():
    registry = Registry("a number", "numbers")
    assert registry.register("one")(first) is first and registry.register("two", second) is second
    with pytest.raises(SatError, match="there is a number 'one' already: choose"):
        registry.register("one", second)
    registry.register("one", first)
    assert dict(registry) == {"one": first, "two": second}
    forget(registry, "one")
    registry.register("one", second)
    assert registry["one"]() == 2  # type: ignore[operator]
    with pytest.raises(UnknownName, match="no number 'three' is registered"):
        registry["three"]


def test_metrics_made_of_other_functions_differ():
    registry = Registry("a metric", "metrics")
    for number in (1, 2):
        metric = Metric("A", lambda texts, number=number: number)  # type: ignore[misc]
        if number == 1:
            registry.register("a", metric)
        else:
            with pytest.raises(SatError, match="there is a metric 'a' already: choose"):
                registry.register("a", metric)


PLUGIN = """
from shared import numbers

@numbers.register("{name}")
def {name}():
    return 1
"""


def test_an_installed_plugin_is_imported_when_it_is_asked_for(tmp_path, monkeypatch):
    """Every registry finds it so; and a module that is imported twice registers the same."""
    monkeypatch.syspath_prepend(tmp_path)
    group = "show_attend_tell.installed_numbers"
    (tmp_path / "shared.py").write_text(
        "from show_attend_tell.registries import Registry\nnumbers = Registry('a number', 'installed_numbers')\n"
    )
    information = tmp_path / "plugin-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
    modules = {"seven": "seven_of_plugin", "eight": "eight_of_plugin", "nine": "nine_of_plugin"}
    lines = [f"{name} = {module}" for name, module in modules.items()]
    (information / "entry_points.txt").write_text(f"[{group}]\n" + "\n".join(lines) + "\n")
    for name in ("seven", "eight"):
        (tmp_path / f"{modules[name]}.py").write_text(PLUGIN.format(name=name))
    (tmp_path / "nine_of_plugin.py").write_text("")

    assert isinstance(registries.installed(group)[0], EntryPoint)
    numbers = importlib.import_module("shared").numbers
    assert numbers.names() == ["eight", "nine", "seven"] and "seven_of_plugin" not in sys.modules
    assert numbers["seven"]() == 1 and "eight_of_plugin" not in sys.modules
    importlib.reload(sys.modules["seven_of_plugin"])
    assert list(numbers) == ["seven", "eight"]
    with pytest.raises(SatError, match="no number 'nine' is registered"):
        numbers["nine"]  # its module registers nothing
