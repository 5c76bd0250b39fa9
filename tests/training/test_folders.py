"""`train` on folders makes the plan that `sat train` makes."""

from dataclasses import replace
from pathlib import Path

import pytest
from builders import shape_folder

from show_attend_tell.errors import SatError
from show_attend_tell.training.plan import plan_for
from show_attend_tell.training.start import choose_start


def test_folders_and_options_make_the_plan_of_the_command(small, tmp_path):
    first = shape_folder(tmp_path / "first")
    second = shape_folder(tmp_path / "second")
    settings = {"epochs": 3, "decoder.hidden_size": 19, "entropy_weight_end": None}
    plan = plan_for([first, str(second)], tmp_path / "model", weights=[1, 2], settings=settings, init_from="none")
    assert [part.weight for part in plan.dataset.parts] == [1, 2] and plan.output == tmp_path / "model"
    assert plan.config.epochs == 3 and plan.config.decoder.hidden_size == 19  # type: ignore[attr-defined]
    assert plan.given == settings.keys() and plan.fit_to_data and plan.start.checkpoint is None
    assert plan.notes == {"preset": "flickr8k", "weights": [1, 2]} and plan.config.entropy_weight_end is None
    by_lines = plan_for(first, "model", settings=["epochs=3"], preset="paper", attention="hard", encoder_lr=1e-3)
    assert by_lines.config.epochs == 3 and by_lines.given == {"epochs"} and not by_lines.fit_to_data
    assert by_lines.config.decoder.attention == "hard" and by_lines.encoder_lr == 1e-3
    (line,) = plan.start.lines
    assert line.startswith("photos are encoded by efficientnet-lite2-1280")  # and not by the paper's encoder
    assert not plan_for(first, "model", init_from="none", encoder={"encoder": "vgg19"}).start.lines
    paper = replace(plan.dataset, custom=False)
    assert not choose_start(paper, plan.config, init_from="none", fit_to_data=True).lines
    assert plan_for(first, "model", preset="paper", text_corpus="texts.txt").text_corpus == Path("texts.txt")
    with pytest.raises(SatError, match="give NAME=VALUE with one of these names"):
        plan_for(first, "model", settings={"epoch": 3})
    for wrong in ({"bits": 5}, {"encoder_lr": "x"}, {"reduce": True}):
        with pytest.raises(SatError, match=next(iter(wrong))):
            plan_for(first, "model", preset="paper", **wrong)
