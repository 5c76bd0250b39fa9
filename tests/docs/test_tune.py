"""The example of a search for settings: one trial, and another when it goes on."""

import importlib.util
from pathlib import Path

import pytest
from builders import shape_folder
from commands import settings

from show_attend_tell.checkpoint.checkpoint import Checkpoint

pytest.importorskip("optuna", reason="it is installed with [dev] only")
FILE = Path(__file__).parents[2] / "examples" / "tune.py"


@pytest.mark.acceptance
@pytest.mark.usefixtures("small")
def test_a_study_of_two_trials_goes_on_and_ends_in_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.spec_from_file_location("tune", FILE)
    assert found is not None and found.loader is not None
    tune = importlib.util.module_from_spec(found)
    found.loader.exec_module(tune)
    arguments = [
        str(shape_folder(tmp_path / "shapes")),
        "--output",
        str(tmp_path / "tuned"),
        *settings(minimum_count=1, epochs=1, max_length=5),
    ]
    tune.main([*arguments, "--trials", "1"])
    tune.main([*arguments, "--trials", "2"])
    assert {file.name for file in (tmp_path / "tuned").iterdir()} == {"trials.db", "trial-0", "trial-1"}
    rates = {Checkpoint.load(tmp_path / "tuned" / f"trial-{n}").training["settings"]["learning_rate"] for n in (0, 1)}
    assert len(rates) == 2
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("sat train ") and "--set learning_rate=" in last
