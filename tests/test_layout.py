"""The rooms of the package: how large they are, and which may know which."""

import ast
import re
from collections import Counter, defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

import show_attend_tell

PACKAGE = Path(show_attend_tell.__file__).parent
NAME = "show_attend_tell"

# The rooms from the lowest to the highest: a module imports from its own room and from the rooms before it.
ORDER = (
    "errors values messages registries files threads settings progress devices data metrics search model checkpoint "
    "vision backends rerank generation show caption hide captioner evaluation report training batch server review cli "
    "__main__"
).split()
# What a room imports of the rooms before it, where that is less than all of them.
ONLY = {
    "metrics": {"errors", "messages", "registries", "files", "progress", "data"},
    "search": {"errors", "messages", "registries", "settings", "data"},  # of data, the ids of two words
    "show": {"errors", "messages", "registries", "files", "settings", "data"},
}


def room(module: str) -> str:
    """The first name below the package: "model" of "show_attend_tell.search"."""
    return module.removeprefix(f"{NAME}.").split(".")[0]


def imports() -> list[tuple[str, str]]:
    """Every import inside the package, those inside functions too: who imports, and what."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        importer = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found += [(importer, alias.name) for alias in node.names if alias.name.startswith(NAME)]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(NAME):
                assert node.level == 0
                for alias in node.names:
                    deeper = PACKAGE.parent / f"{node.module}.{alias.name}".replace(".", "/")
                    is_module = deeper.is_dir() or deeper.with_suffix(".py").exists()
                    found.append((importer, f"{node.module}.{alias.name}" if is_module else node.module))
    return found


def test_dependencies_point_one_way():
    wrong = []
    for importer, imported in imports():
        if importer == "" or imported == NAME:  # the public names, which are imported when first asked for
            continue
        above, below = room(importer), room(imported)
        allowed = ONLY.get(above, ORDER[: ORDER.index(above)])
        if below != above and below not in allowed:
            wrong.append(f"{importer} imports {imported}")
    assert wrong == []


def test_no_modules_import_each_other():
    """In no circle, imports inside functions and for types alone included."""
    graph = defaultdict(set)
    for importer, imported in imports():
        if importer and imported != NAME:
            graph[importer].add(imported.removeprefix(f"{NAME}."))
    TopologicalSorter(graph).prepare()  # which raises CycleError, naming the circle


def test_nothing_of_the_package_is_imported_by_a_name_made_at_run_time():
    """Such an import would be hidden from the tests above; only the public names are imported so, at first use."""
    hidden = re.compile(r"import_module\(f?[\"'](show_attend_tell|\{__name__\}|\.)")
    found = [file for file in PACKAGE.rglob("*.py") if hidden.search(file.read_text())]
    assert found == [PACKAGE / "__init__.py"]


def test_a_room_can_be_taken_in_at_a_glance():
    modules = Counter(file.parent for file in PACKAGE.rglob("*.py") if not file.name.startswith("__"))
    assert {folder: number for folder, number in modules.items() if number > 14} == {}


def test_research_uses_no_private_name_of_the_package():
    """A name with an underscore may change without notice, and so may a module."""
    wrong = []
    for file in sorted((Path(__file__).parents[1] / "research").rglob("*.py")):
        modules = set()  # names by which modules of the package, and things in them, are known there
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(NAME):
                modules |= {alias.asname or alias.name for alias in node.names}
                names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                wrong += [f"{file.name}: {name}" for name in names if name.startswith("_")]
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr) and isinstance(node.value, ast.Name):
                wrong += [f"{file.name}: {node.value.id}.{node.attr}"] * (node.value.id in modules)
    assert wrong == []


def test_the_public_names():
    public = ["Caption", "Captioner", "GenerationConfig", "PhotoError", "SatError"]
    public += ["evaluate", "register_decoder", "train"]
    assert public == show_attend_tell.__all__ and set(public) <= set(dir(show_attend_tell))
    assert [getattr(show_attend_tell, name).__name__ for name in public] == public


def test_tests_patch_objects_and_leave_tensors_alone():
    """A module's path in a string is found wrong only when the test runs, and no tool renames it."""
    strings = re.compile(r"setattr\(\s*f?[\"']|setattr\(\s*(torch\.)?Tensor,")
    tests = Path(__file__).parent.rglob("*.py")
    assert [file for file in tests if strings.search(file.read_text())] == []
