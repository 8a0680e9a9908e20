"""The examples run, and print what a reader should see."""

import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
# Pictures for the pages, made by hand, take their time.
SCRIPTS = sorted(p for p in FOLDER.glob("*.py") if not p.name.startswith("picture_"))
NEEDS = {"fit_and_report": "jinja2", "strings_and_dates": "skrub"}
SAID = {
    "fit_and_report": ["rows that fit has not seen", "in sum", "to look at: report.html"],
    "bring_your_own": ["trees", "fitted jointly", "nearest row"],
    "validate_and_sign": ["1. I sign:", "if these conditions hold", "0 of"],
    "strings_and_dates": ["when prepared", "sold =", "from its file: True"],
}


@pytest.mark.parametrize("script", [FOLDER / f"{name}.py" for name in SAID], ids=list(SAID))
def test_an_example_runs(script, tmp_path, monkeypatch, capsys):
    if (needed := NEEDS.get(script.stem)) and find_spec(needed) is None:
        pytest.skip(f"the example needs {needed}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    out = capsys.readouterr().out
    for words in SAID[script.stem]:
        assert words in out, out


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_is_short_and_run_here(script):
    assert script.stem in {*SAID, "monitor_drift"}
    text = script.read_text()
    assert len(text.splitlines()) <= 60
    assert text.startswith('"""')
    assert f"python examples/{script.name}" in text


def test_monitor_drift(capsys):
    found = runpy.run_path(str(FOLDER / "monitor_drift.py"))["main"]()
    out = capsys.readouterr().out
    assert "The table of the fit: no findings" in out
    assert "April: No drift seen" in out
    assert "May: Drift" in out
    assert found.columns[0].column == "bmi"
    assert {one.column for one in found.changed_columns} == {"bmi", "bp"}
    assert dict(found.gaps) == {"bp": 18}
