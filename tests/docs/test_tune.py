"""The example of a search for settings: one trial, and another when it goes on."""

import pytest
from builders import shape_folder
from commands import settings
from documents import ROOT, module_of

from show_attend_tell.checkpoint.checkpoint import Checkpoint

pytest.importorskip("optuna", reason="it is installed with [dev] only")


@pytest.mark.acceptance
@pytest.mark.usefixtures("small")
def test_a_study_of_two_trials_goes_on_and_ends_in_a_command(tmp_path, capsys):
    tune = module_of(ROOT / "examples" / "tune.py")
    command = [str(shape_folder(tmp_path / "shapes")), "--output", str(tmp_path / "tuned")]
    command += settings(minimum_count=1, epochs=1, max_length=5)
    for trials in ("1", "2"):
        tune.main([*command, "--trials", trials])
    assert {file.name for file in (tmp_path / "tuned").iterdir()} == {"trials.db", "trial-0", "trial-1"}
    rates = {Checkpoint.load(tmp_path / "tuned" / f"trial-{n}").training["settings"]["learning_rate"] for n in (0, 1)}
    assert len(rates) == 2
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("sat train ") and "--set learning_rate=" in last
