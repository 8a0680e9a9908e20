"""Benchmarks run on small data, so that they do not rot."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def test_speed_geometry(tmp_path):
    command = [sys.executable, BENCHMARKS / "speed_geometry.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    result = json.loads((tmp_path / "speed_geometry.json").read_text())
    assert {row["what"].split(",")[0] for row in result["speed"]} >= {"Phi w and Phi' r", "apply"}
    assert [row["n_rows"] for row in result["scaling"]] == [100, 1000]
    assert "| ratio |" in (tmp_path / "speed_geometry.md").read_text()
