"""Progress where there is no terminal: whole lines, now and then."""

from show_attend_tell import progress
from show_attend_tell.progress import Progress, draws_bars


def work(**options: object) -> None:
    with Progress(total=3, desc="epoch 1", unit="batch", **options) as bar:
        for _ in range(3):
            bar.set_postfix({"loss": "2.5"}, refresh=False)
            bar.update()


def test_a_log_file_gets_lines(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    work()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and all(line.startswith(f"epoch 1: {n} of 3, ") for n, line in enumerate(lines, start=1))
    assert lines[1].endswith("left, loss=2.5") and "\r" not in "".join(lines) and "|" not in "".join(lines)


def test_what_is_quick_leaves_no_line(capsys):
    work()
    work(disable=True)
    assert list(Progress([1, 2, 3], desc="some")) == [1, 2, 3]
    Progress(total=18, initial=16, desc="photos").close()  # what an earlier command did is no progress of this one
    assert capsys.readouterr().err == ""


def test_a_terminal_and_a_notebook_get_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(progress, "draws_bars", lambda *_: True)
    work()
    written = capsys.readouterr().err
    assert "3/3" in written and "\r" in written and "|" in written
    assert draws_bars(True, ()) and draws_bars(False, {"ipykernel"}) and not draws_bars(False, {"os"})
