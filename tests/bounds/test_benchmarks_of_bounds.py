"""The benchmarks of bounds and findings run on small data, so that they do not rot."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    for name, target in (("made_numbers", X[:, 0]), ("made_classes", X[:, 0] > 0)):
        table = pd.DataFrame(X, columns=list("abc")).assign(target=target)
        table.to_csv(path / f"{name}.csv.gz", index=False)
    sets = {"regression": ["made_numbers"], "classification": ["made_classes"]}
    (path / "suite.json").write_text(json.dumps({"development": sets}))
    return path


def run(script, folder, out, *options):
    command = [sys.executable, BENCHMARKS / script, "--data-dir", folder, "--out", out, *options]
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.slow
def test_bounds_honest(folder, tmp_path):
    run("bounds_honest.py", folder, tmp_path, "--seeds", "1", "--trees", "5")
    result = json.loads((tmp_path / "bounds_honest.json").read_text())
    for task in ("classification", "regression"):
        (row,) = result["honest"][task]
        assert row["best_bound"] <= row["bound"]
        if task == "classification":
            # The exact tail at delta, and Chernoff's bound at half of it. Of few rows and small
            # losses betting may be the larger one.
            assert row["center_bound"] <= row["best_bound"]
    assert "bound-optimal" in (tmp_path / "bounds_honest.md").read_text()


@pytest.mark.slow
def test_bounds_cross_validated(folder, tmp_path):
    run("bounds_cross_validated.py", folder, tmp_path, "--trees", "6")
    result = json.loads((tmp_path / "bounds_cross_validated.json").read_text())
    (classes,), (number,) = (result["rows"][t] for t in ("classification", "regression"))
    for row in (classes, number):
        for folds in (row["cv5"], row["cv3"]):
            for name, bound in folds["bounds"].items():
                assert bound > folds["left_out"][name]
    # Half of delta costs something.
    both = classes["cv3"]["bounds"]
    assert classes["cv3"]["either"] > min(both["vote"], both["average"])
    page = (tmp_path / "bounds_cross_validated.md").read_text()
    # Classes have a table of nested models, too.
    assert (page.count("| made_classes |"), page.count("| made_numbers |")) == (2, 1)
    for row in (classes, number):
        for key in ("honest", "honest_blend"):
            assert row[key]["centre"] > row[key]["centre_test"]
    assert "honest, blend: its centre" in page
    run("bounds_cross_validated.py", folder, tmp_path, "--honest-anew")
    again = json.loads((tmp_path / "bounds_cross_validated.json").read_text())
    for task, (row,) in again["rows"].items():
        before = result["rows"][task][0]
        assert row["cv3"] == before["cv3"]
        assert row["honest"]["centre"] == before["honest"]["centre"]


def test_the_papers_table(tmp_path):
    options = ("--sets", "breast_cancer", "--seeds", "1", "--trees", "5", "5")
    run("bounds.py", tmp_path, tmp_path, *options)
    result = json.loads((tmp_path / "bounds.json").read_text())
    (paper,), (ours,) = result["paper"], result["ours"]
    assert paper["trivial"]
    assert not paper["guarantee"]
    assert ours["best_bound"] < ours["level"]
    page = (tmp_path / "bounds.md").read_text()
    assert "| breast_cancer | 8.66 ± 0.13 |" in page
    assert page.count("| breast_cancer |") == 2


@pytest.mark.slow
def test_findings_calibration(folder, tmp_path):
    run("findings_calibration.py", folder, tmp_path, "--seeds", "2")
    result = json.loads((tmp_path / "findings_calibration.json").read_text())
    assert len(result["fits"]) == 6
    assert "KPP002" in (tmp_path / "findings_calibration.md").read_text()
