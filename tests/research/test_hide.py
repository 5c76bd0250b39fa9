"""What `research/hide.py` measures: by hand from its rows, and with a shipped model on one photo."""

import json
import shutil
from pathlib import Path
from typing import Any

import hide
import pytest
import results

import show_attend_tell
from show_attend_tell.hide.trial import USUALLY

PHOTO = Path(show_attend_tell.__file__).parent / "server" / "page" / "example.jpg"


def row(photo: int, right: bool, confidence: float, own: str, moved: list[str]) -> dict[str, Any]:
    hidden = {"evidence": [[own, True, -3.0]], "moved": [[kind, kind != "stays", -1.5] for kind in moved], "other": []}
    noun = {"word": "dog", "right": right, "confidence": confidence, "log_p": -1.0, "hidden": hidden}
    return {"photo": f"{photo}.jpg", "nouns": [noun]}


def test_the_figures_by_hand():
    rows = [
        row(0, True, 0.9, "gone", ["stays", "gone"]),
        row(1, False, 0.2, "gone", ["stays", "stays"]),
        row(2, True, 0.8, "renamed", ["stays", "renamed"]),
        row(3, True, 0.6, "stays", ["stays", "stays"]),
        row(4, False, 0.3, "gone", ["stays", "stays"]),
    ]
    found = hide.figures(rows)
    own, moved = found["places"]["evidence"], found["places"]["moved"]
    assert found["photos"] == found["nouns"] == 5 and found["sure_nouns"] == 2 and "other" not in found["places"]
    assert [own[name]["mean"] for name in ("gone", "renamed", "changed", "fall")] == pytest.approx([0.6, 0.2, 1, 2])
    assert [moved[name]["mean"] for name in ("gone", "renamed", "changed", "fall")] == pytest.approx(
        [0.1, 0.1, 0.2, 0.5]
    )
    assert found["gone_minus"]["moved"]["mean"] == pytest.approx(0.5)
    assert found["sure_gone"]["evidence"]["mean"] == 0.5
    assert found["auroc"]["confidence"] == 1 and found["auroc"]["stays"] == pytest.approx((2 + 2 + 1) / 6)
    assert "60.0 %" in "\n".join(hide.table(found))


def test_what_the_page_says_of_all_nouns_is_what_was_measured():
    figures = json.loads((results.HIDE / "figures.json").read_text(encoding="utf-8"))
    tests = [found for name, found in figures.items() if name.endswith("-test")]
    nouns = sum(found["nouns"] for found in tests)
    here, elsewhere = (
        sum(found["nouns"] * found["places"][place]["gone"]["mean"] for found in tests) / nouns
        for place in ("evidence", "moved")
    )
    assert f"{nouns:,} nouns" in USUALLY and f"{here:.0%} disappeared".replace("%", " %") in USUALLY
    assert f"{elsewhere:.0%} when hidden elsewhere".replace("%", " %") in USUALLY


@pytest.mark.acceptance
def test_a_photo_is_measured_once(tmp_path):
    shutil.copy(PHOTO, tmp_path / "photo.jpg")
    (tmp_path / "captions.csv").write_text("photo,caption,split\nphoto.jpg,a dog on the grass,test\n", encoding="utf-8")
    output = tmp_path / "rows.jsonl"
    arguments = ["measure", str(tmp_path), "everyday-soft", "--output", str(output), "--controls", "1", "--places"]
    for _ in range(2):
        hide.main([*arguments, "evidence", "alpha", "uniform", "occlusion", "other", "moved"])
    (line,) = output.read_text(encoding="utf-8").splitlines()
    for noun in json.loads(line)["nouns"]:
        assert all(len(found) == 1 for place, found in noun["hidden"].items() if place != "other")
