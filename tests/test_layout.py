"""The rooms of the package: how large they are, and which may know which."""

import ast
import re
from pathlib import Path

import pytest

import show_attend_tell

PACKAGE = Path(show_attend_tell.__file__).parent
NAME = "show_attend_tell"

# The rooms from the lowest to the highest: a module imports from its own row and the rows above it, never from below.
FLOORS = (
    ("errors",),
    ("threads", "files", "device", "packing"),
    ("data",),
    ("vision", "model", "show"),
    ("rerank",),
    ("checkpoint",),
    ("captioner",),
    ("scoring",),
    ("training",),
    ("analysis", "server"),
    ("cli",),
)
# What a room imports besides the floors below it, stricter than the floors alone.
ONLY = {
    # tensors, and ONNX Runtime's arrays; the ids of two words; checked settings
    "model": {"errors", "model", "data.vocabulary", "data.settings", "device.onnx"},
    "show": {"errors", "files", "show"},
    "server": {"captioner", "checkpoint", "data", "device", "errors", "files", "model", "server", "show", "threads"},
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
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found += [(importer, alias.name) for alias in node.names if alias.name.startswith(NAME)]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(NAME):
                assert node.module is not None and node.level == 0
                for alias in node.names:
                    deeper = PACKAGE.parent / f"{node.module}.{alias.name}".replace(".", "/")
                    is_module = deeper.is_dir() or deeper.with_suffix(".py").exists()
                    found.append((importer, f"{node.module}.{alias.name}" if is_module else node.module))
    return found


def test_dependencies_point_one_way() -> None:
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    wrong = []
    for importer, imported in imports():
        if importer == "" or imported == NAME:  # the public names, which are imported when first asked for
            continue
        above, below = room(importer), room(imported)
        if floor[below] > floor[above] or (floor[below] == floor[above] and below != above):
            wrong.append(f"{importer} imports {imported}")
        allowed = ONLY.get(above)
        if allowed and not any(imported.removeprefix(f"{NAME}.").startswith(name) for name in allowed):
            wrong.append(f"{importer} imports {imported}")
    assert wrong == []


def test_rerankers_are_handed_to_those_who_use_them() -> None:
    knowing = {
        importer for importer, imported in imports() if room(imported) == "rerank" and room(importer) != "rerank"
    }
    assert not {importer for importer in knowing if importer.startswith("model")}
    assert "training.trainer" not in knowing and "training.losses" not in knowing


def test_nothing_of_the_package_is_imported_by_a_name_made_at_run_time() -> None:
    """Such an import would be hidden from the tests above."""
    hidden = re.compile(r"import_module\(f?[\"'](show_attend_tell|\{__name__\}|\.)")
    assert [file for file in PACKAGE.rglob("*.py") if hidden.search(file.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "folder", [PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir())], ids=lambda f: f.name
)
def test_a_room_can_be_taken_in_at_a_glance(folder: Path) -> None:
    inside = [path for path in folder.iterdir() if path.name not in ("__pycache__", "py.typed")]
    if folder == PACKAGE:
        assert len(inside) <= 18, sorted(path.name for path in inside)
    else:
        modules = [path for path in inside if path.suffix == ".py" and path.name != "__init__.py"]
        assert len(modules) <= 9, sorted(path.name for path in modules)


def test_the_public_names() -> None:
    assert set(show_attend_tell.__all__) <= set(dir(show_attend_tell))
    assert show_attend_tell.__all__ == ["Caption", "Captioner", "Sampling", "SatError", "register_decoder"]
    for name in show_attend_tell.__all__:
        assert getattr(show_attend_tell, name).__name__ == name


def test_tests_patch_objects_and_leave_tensors_alone() -> None:
    """A module's path in a string is found wrong only when the test runs, and no tool renames it."""
    strings = re.compile(r"setattr\(\s*f?[\"']|setattr\(\s*(torch\.)?Tensor,")
    tests = Path(__file__).parent.rglob("*.py")
    assert [file for file in tests if strings.search(file.read_text(encoding="utf-8"))] == []
