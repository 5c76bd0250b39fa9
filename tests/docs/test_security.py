"""Each promise of SECURITY.md names a test, and that test is there."""

import re

from documents import ROOT


def test_every_promise_has_its_test():
    text = (ROOT / "SECURITY.md").read_text()
    promised = text.partition("## What is promised")[2].partition("## What is not promised")[0]
    rows = [line for line in promised.splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert len(rows) >= 10
    for row in rows:
        found = re.search(r"`(tests/[\w/]+\.py)::(test_\w+)`", row)
        assert found, row
        assert f"def {found[2]}(" in (ROOT / found[1]).read_text(), row
