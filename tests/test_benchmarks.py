"""Benchmarks run on small data, so that they do not rot."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def test_speed_geometry(tmp_path):
    command = [sys.executable, BENCHMARKS / "speed_geometry.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    result = json.loads((tmp_path / "speed_geometry.json").read_text())
    assert {row["what"].split(",")[0] for row in result["speed"]} >= {"Phi w and Phi' r", "apply"}
    assert [row["n_rows"] for row in result["scaling"]] == [100, 1000]
    assert "| ratio |" in (tmp_path / "speed_geometry.md").read_text()


def test_speed_models(tmp_path):
    command = [sys.executable, BENCHMARKS / "speed_models.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    result = json.loads((tmp_path / "speed_models.json").read_text())
    assert len(result["fit"]) == 1
    assert len(result["predict"]) == 4


def test_accuracy_defaults(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    for name, target in (("made_numbers", X[:, 0]), ("made_classes", X[:, 0] > 0)):
        table = pd.DataFrame(X, columns=list("abc")).assign(target=target)
        table.to_csv(tmp_path / f"{name}.csv.gz", index=False)
    sets = {"regression": ["made_numbers"], "classification": ["made_classes"]}
    (tmp_path / "suite.json").write_text(json.dumps({"development": sets}))
    command = [sys.executable, BENCHMARKS / "accuracy_defaults.py", "--seeds", "1"]
    arguments = ["--data-dir", tmp_path, "--out", tmp_path / "out"]
    subprocess.run([*command, *arguments], check=True, capture_output=True)
    assert "mean rank" in (tmp_path / "out" / "accuracy_defaults.md").read_text()
