"""The lesson runs anywhere: it needs the package alone; its pictures are research's; checks and answers are folded."""

import json
import re
from typing import Any

import numpy as np
import pytest
import scenes
from documents import ROOT

NOTEBOOK = json.loads((ROOT / "examples" / "attention.ipynb").read_text())
CELLS = [("".join(cell["source"]), cell) for cell in NOTEBOOK["cells"]]
CODE = [(source, cell) for source, cell in CELLS if cell["cell_type"] == "code"]


def tags(cell: dict[str, Any]) -> set[str]:
    return set(cell["metadata"].get("tags", ()))


def test_it_imports_nothing_that_is_not_installed():
    assert not [source for source, _ in CODE if "sys.path" in source or "research" in source]
    installs = [source for source, _ in CODE if "%pip install" in source]
    assert len(installs) == 1 and "ModuleNotFoundError" in installs[0]


@pytest.mark.parametrize("number", [0, 7, 1601])
def test_its_pictures_are_those_of_the_generated_scenes(number):
    (source,) = (source for source, _ in CODE if "def make_scene" in source)
    names = {}
    exec(source, names)
    things, sentences, picture = names["make_scene"](number)
    scene, expected = scenes.make_scene(1, number)
    assert [tuple(thing) for thing in things] == [(one.color, one.shape, one.box) for one in scene.objects]
    assert [tuple(sentence) for sentence in sentences] == [(one.words, one.objects) for one in scene.sentences]
    assert np.array_equal(picture, expected)


def test_checks_are_hidden_and_answers_stand_folded_below_their_questions():
    checked = [tags(cell) for source, cell in CODE if re.search(r"^\s*assert ", source, re.MULTILINE)]
    assert checked and all({"remove-cell", "hide-cell"} & of_cell for of_cell in checked)
    texts = [source for source, cell in CELLS if cell["cell_type"] == "markdown"]
    exercises = [source for source in texts if "<summary>Answer" in source]
    assert [source[:4] for source in exercises] == [f"**{number}." for number in range(1, 6)]
    assert all(source.rstrip().endswith("</details>") for source in exercises)


def test_its_output_is_kept_and_its_pictures_are_sharp_and_light():
    numbers = [cell["execution_count"] for _, cell in CODE]
    assert numbers == list(range(1, len(numbers) + 1)), "run make lesson WRITE=yes"
    pictures = [output["data"] for _, cell in CODE for output in cell["outputs"] if "data" in output]
    sizes = [len("".join(data["image/jpeg"])) for data in pictures if "image/jpeg" in data]
    assert len(sizes) >= 9 and max(sizes) < 500_000 and sum(sizes) < 2_500_000
    assert not [output for _, cell in CODE for output in cell["outputs"] if output["output_type"] == "error"]
