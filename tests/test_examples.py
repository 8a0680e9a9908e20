"""The examples run, and print what their readers should see."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_monitor_drift(capsys):
    found = runpy.run_path(str(EXAMPLES / "monitor_drift.py"))["main"]()
    out = capsys.readouterr().out
    assert "The table of the fit: no findings" in out
    assert "April: No drift seen" in out
    assert "May: Drift" in out
    assert found.columns[0].column == "bmi"
    assert {one.column for one in found.changed_columns} == {"bmi", "bp"}
    assert dict(found.gaps) == {"bp": 18}
