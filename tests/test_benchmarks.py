"""Benchmarks run on small data, so that they do not rot."""

import json
import os
import subprocess
import sys
from pathlib import Path

import accuracy_blend
import drift_calibration
import fast_rates
import mutations
import numpy as np
import pandas as pd
import pytest
import size_models

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.slow
def test_speed_geometry(tmp_path):
    command = [sys.executable, BENCHMARKS / "speed_geometry.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    result = json.loads((tmp_path / "speed_geometry.json").read_text())
    assert {row["what"].split(",")[0] for row in result["speed"]} >= {"Phi w and Phi' r", "apply"}
    assert [row["n_rows"] for row in result["scaling"]] == [100, 1000]
    assert "| ratio |" in (tmp_path / "speed_geometry.md").read_text()


@pytest.mark.slow
def test_operator_norm(tmp_path):
    command = [sys.executable, BENCHMARKS / "operator_norm.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    table = json.loads((tmp_path / "operator_norm.json").read_text())["table"]
    assert [row["n_trees"] for row in table] == [4, 8, 4, 8]
    assert all(row["bound_below_error"] == 0 and row["bound"] > row["leading"] for row in table)


@pytest.mark.slow
def test_speed_fit(tmp_path):
    command = [sys.executable, BENCHMARKS / "speed_fit.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    result = json.loads((tmp_path / "speed_fit.json").read_text())
    assert [row["what"] for row in result["fit"]] == ["breast_cancer, 300 rows"] * 2
    assert [row["threads"] for row in result["fit"]] == [1, 2]
    assert result["boosted"][0]["growing_s"] > 0
    assert result["memory"][0]["kpp"]["nodes"] > 1000
    assert "times the growing" in (tmp_path / "speed_fit.md").read_text()


@pytest.mark.slow
def test_leaf_size(tmp_path):
    command = [sys.executable, BENCHMARKS / "leaf_size.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    (row,) = json.loads((tmp_path / "leaf_size.json").read_text())["sets"]
    nodes = [leaf["nodes"] for leaf in row["leaves"]]
    assert nodes == sorted(nodes, reverse=True)
    assert "| median |" in (tmp_path / "leaf_size.md").read_text()


def test_losses(tmp_path):
    pytest.importorskip("quantile_forest")
    command = [sys.executable, BENCHMARKS / "losses.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    (row,) = json.loads((tmp_path / "losses.json").read_text())["sets"]
    (split,) = row["splits"]
    assert min(split["pinball"].values()) > 0
    assert all(0 <= share <= 1 for share, _ in split["interval"].values())
    assert "| median |" in (tmp_path / "losses.md").read_text()


@pytest.mark.slow
def test_scale_rows(tmp_path):
    command = [sys.executable, BENCHMARKS / "scale_rows.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    result = json.loads((tmp_path / "scale_rows.json").read_text())
    assert [row["rows"] for row in result["fits"]] == [500, 1000]
    assert min(row["seconds"] for row in result["fits"]) > 0
    assert "slope" in (tmp_path / "scale_rows.md").read_text()


@pytest.mark.slow
def test_speed_predict(tmp_path):
    command = [sys.executable, BENCHMARKS / "speed_predict.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    result = json.loads((tmp_path / "speed_predict.json").read_text())
    assert len(result["predict"]) == 9
    assert result["slowest_row_ms"] > 0
    assert len(result["first_fit_s"]) == 2
    assert min(result["first_fit_s"]) > 0
    assert result["n_compiled"] > 0  # the cache was empty before the first fit


@pytest.mark.slow
def test_serving(tmp_path):
    command = [sys.executable, BENCHMARKS / "serving.py", "--quick", "--out", tmp_path]
    # It asks for two threads, and tests have one for OpenMP.
    environment = {name: own for name, own in os.environ.items() if name != "OMP_NUM_THREADS"}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    result = json.loads((tmp_path / "serving.json").read_text())
    tools = {"kpp", "scikit-learn", "onnxruntime, double", "onnxruntime, single", "treelite"}
    assert {row["by"] for row in result["races"]} == {*tools, "LightGBM", "CatBoost"}
    assert [row["threads"] for row in result["aims"]] == [1] * 3 + [2] * 3
    assert all(row["single_p99_ms"] >= row["single_median_ms"] > 0 for row in result["races"])


@pytest.mark.slow
def test_size_models(tmp_path):
    command = [sys.executable, BENCHMARKS / "size_models.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    result = json.loads((tmp_path / "size_models.json").read_text())
    assert [row["task"] for row in result["models"]] == ["numbers", "classes"]
    for row in result["models"]:
        # The first prediction lays the nodes out as it walks along them.
        assert row["loaded"] < row["after_predict"] < row["fitted"]
    assert "| ratio |" in (tmp_path / "size_models.md").read_text()


def test_array_bytes():
    a = np.zeros(100)
    assert size_models.array_bytes({"a": a, "view": [a[::2], a[3:]], "b": (b"12345", {1})}) == 805


@pytest.mark.slow
def test_speed_explain(tmp_path):
    command = [sys.executable, BENCHMARKS / "speed_explain.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    (row,) = json.loads((tmp_path / "speed_explain.json").read_text())["depths"]
    assert row["kpp_deviation"] < 1e-12
    assert row["shap_deviation"] < 1e-8


@pytest.mark.slow
def test_speed_start(tmp_path):
    command = [sys.executable, BENCHMARKS / "speed_start.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    rows = json.loads((tmp_path / "speed_start.json").read_text())["start"]
    assert [row["of_sklearn"] for row in rows if row["what"] == "import sklearn"] == [1]
    assert {"kpp --version", "kpp --help", "kpp fit --help"} <= {row["what"] for row in rows}
    assert all(row["busy_s"] > 0 and row["least_s"] > 0 for row in rows)
    assert "| of `import sklearn` |" in (tmp_path / "speed_start.md").read_text()


@pytest.mark.slow
def test_speed_report(tmp_path):
    command = [sys.executable, BENCHMARKS / "speed_report.py", "--quick", "--out", tmp_path]
    subprocess.run([*command, "--fits", tmp_path / "fits"], check=True, capture_output=True)
    result = json.loads((tmp_path / "speed_report.json").read_text())
    assert result["complete"]
    assert {"explain_rules, 5 rows", "certify, 100 rows"} <= set(result["questions"])
    assert {"rows", "rows, rules", "rows, raw", "in all"} <= set(result["report"])
    again = [*command, "--fits", tmp_path / "fits", "--before", tmp_path / "speed_report.json"]
    subprocess.run(again, check=True, capture_output=True)
    assert "times faster" in (tmp_path / "speed_report.md").read_text()


def write_development_sets(folder):
    """One small table of each task, and the list that names them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    for name, target in (("made_numbers", X[:, 0]), ("made_classes", X[:, 0] > 0)):
        table = pd.DataFrame(X, columns=list("abc")).assign(target=target)
        table.to_csv(folder / f"{name}.csv.gz", index=False)
    sets = {"regression": ["made_numbers"], "classification": ["made_classes"]}
    (folder / "suite.json").write_text(json.dumps({"development": sets}))


@pytest.mark.slow
def test_accuracy_defaults(tmp_path):
    write_development_sets(tmp_path)
    command = [sys.executable, BENCHMARKS / "accuracy_defaults.py", "--seeds", "1"]
    arguments = ["--data-dir", tmp_path, "--out", tmp_path / "out"]
    subprocess.run([*command, *arguments], check=True, capture_output=True)
    assert "mean rank" in (tmp_path / "out" / "accuracy_defaults.md").read_text()


@pytest.mark.slow
def test_accuracy_blend(tmp_path):
    write_development_sets(tmp_path)
    command = [sys.executable, BENCHMARKS / "accuracy_blend.py", "--seeds", "1"]
    arguments = ["--data-dir", tmp_path, "--out", tmp_path, "--methods", "extra trees", "blend"]
    for _ in range(2):  # what is done is not done again
        subprocess.run([*command, *arguments], check=True, capture_output=True)
        lines = (tmp_path / "accuracy_blend.jsonl").read_text().splitlines()
        assert [(row["data"], row["method"]) for row in map(json.loads, lines)] == [
            (name, method)
            for name in ("made_numbers", "made_classes")
            for method in ("extra trees", "blend")
        ]


@pytest.mark.slow
def test_category_orders(tmp_path):
    rng = np.random.default_rng(0)
    names = rng.choice(list("abcdef"), 90)
    table = pd.DataFrame({"x": rng.normal(size=90), "name": names, "y": np.isin(names, ["a", "d"])})
    table["y"] += table["x"]
    table.to_csv(tmp_path / "made.csv.gz", index=False)
    suite = {"development": {"regression": ["made"]}}
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    command = [sys.executable, BENCHMARKS / "category_orders.py", "--seeds", "1"]
    arguments = ["--data-dir", tmp_path, "--out", tmp_path / "out"]
    subprocess.run([*command, *arguments], check=True, capture_output=True)
    rows = json.loads((tmp_path / "out" / "category_orders.json").read_text())
    error = {row["way"]: row["error"] for row in rows}
    assert len(error) == 7
    assert error["by target"] < error["by name"]
    assert "| better, worse | 0, 0 |" in (tmp_path / "out" / "category_orders.md").read_text()


def test_wins_against_the_rival():
    sets = [("small", "a", False), ("small", "b", False), ("large", "c", True)]
    losses = {"a": (2.0, 1.0), "b": (1.0, 2.0), "c": (0.5, 0.4)}
    rows = [
        {"data": name, "method": method, "seed": 0, "loss": loss, "error": 0.1, "cpu_seconds": 1.0}
        for name, pair in losses.items()
        for method, loss in zip(("CatBoost", "blend"), pair, strict=True)
    ]
    text = accuracy_blend.to_markdown(rows, sets)
    assert "| small, RMSE | blend | 2 | 1 | 1.250 | 1.000 |  | 1.00 |" in text
    assert "| large, log loss | blend | 1 | 1 | 0.800 | 0.800 | 0 | 1.00 |" in text


@pytest.mark.slow
def test_certificates(tmp_path):
    command = [sys.executable, BENCHMARKS / "certificates.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    result = json.loads((tmp_path / "certificates.json").read_text())
    assert all(row["min"] >= 1 for row in result["ratios"])
    for row in result["curves"]:
        assert row["leafwise"]["u_half"] >= row["lipschitz"]["u_half"]
    assert all(row["n_finished"] == row["n_rows"] for row in result["raw"])
    assert all(row["n_above"] == 0 for row in result["veritas"] or [])
    assert (tmp_path / "certificates.png").stat().st_size > 10_000


@pytest.mark.slow
def test_interval_coverage(tmp_path):
    pytest.importorskip("mapie")
    command = [sys.executable, BENCHMARKS / "interval_coverage.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    result = json.loads((tmp_path / "interval_coverage.json").read_text())
    assert [row["set"] for row in result["sets"]] == ["diabetes", "breast_cancer"]
    assert all(row["mapie"]["coverage"] > 0.7 for row in result["mapie"])
    assert {row["way"] for row in result["draws"]} == {"honest", "regrown", "nested"}
    text = (tmp_path / "interval_coverage.md").read_text()
    assert all(title in text for title in ("real splits", "MAPIE", "guaranteed"))
    assert len({row["loss"] for row in result["losses"]}) == len(result["losses"]) == 6
    assert all(row["adaptive"] != row["constant"] for row in result["losses"])
    assert "| quantiles 0.05, 0.95 | 1 |" in text
    assert [row["offset"] for row in result["exposures"]] == [False, True, False, True]
    assert "| adaptive | given |" in text


@pytest.mark.slow
def test_fast_rates(tmp_path):
    command = [sys.executable, BENCHMARKS / "fast_rates.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    result = json.loads((tmp_path / "fast_rates.json").read_text())
    assert (len(result["regression"]), len(result["classification"])) == (4, 5)
    for row in result["regression"]:
        assert row["excess"]["negative"] == 0  # nothing in the ball is better than the best
        assert np.shape(row["excess"]["values"]) == (3, row["repeats"])
    for row in result["classification"]:
        assert row["logistic"]["negative"] == 0
    for row in result["classification"][:4]:
        assert row["excess"]["negative"] == 0  # nothing is better than the Bayes rule
    assert "| slope |" in (tmp_path / "fast_rates.md").read_text()
    assert (tmp_path / "fast_rates.png").stat().st_size > 10_000


def test_points_get_the_tail_that_is_asked_for():
    # The law is met half-way between values, here at 0.2 and 0.4, relative to the last of these
    # below 1; half of all lies beyond, where points are alike.
    size = np.array([0.1, 0.5, 2.0, 0.3, 0.3, 2.5, 3.0, 2.0])
    for power in (0.25, 2.0):
        share = fast_rates.with_tail(size, lambda u, power=power: u**power)
        assert share.sum() == pytest.approx(1, rel=1e-12)
        assert share[0] == pytest.approx((0.2 / 0.4) ** power / 2, rel=1e-12)
        assert share[size <= 0.3].sum() == pytest.approx(0.5, rel=1e-12)
        assert share[3] == share[4]
        assert np.ptp(share[size >= 0.5]) == 0


def test_slopes():
    sizes = [100, 400, 1600]
    assert fast_rates.slope(sizes, [3.0, 1.5, 0.75]) == pytest.approx(-0.5, rel=1e-12)


def test_mutations_are_one_change_each():
    source = b"def f(x: int = 3, *, y=True):\n    return max(x - 1, 0) < 2 * x  # 4 - 5\n"
    found = list(mutations.mutants_of("a.py", source))
    texts = {(source[: m.start] + m.new.encode() + source[m.end :]).decode() for m in found}
    assert len(texts) == len(found)
    head, body = "def f(x: int = 3, *, y=True):", "    return max(x - 1, 0) < 2 * x  # 4 - 5"
    bodies = ("min(x - 1, 0)", "max(x + 1, 0)", "max(x - 2, 0)", "max(x - 0, 0)", "max(x - 1, 1)")
    expected = {f"{head}\n{body.replace('max(x - 1, 0)', new)}\n" for new in bodies}
    for old, new in (("<", "<="), ("2 *", "2 /"), ("2 *", "4 *"), ("2 *", "0 *"), ("2 *", "3 *")):
        expected.add(f"{head}\n{body.replace(old, new)}\n")
    for old, new in (("= 3", "= 6"), ("= 3", "= 0"), ("= 3", "= 4"), ("True", "False")):
        expected.add(f"{head.replace(old, new)}\n{body}\n")
    assert texts == expected


def test_raising_and_types_are_not_mutated():
    source = b'def f(x: "1 - 1") -> "2":\n    assert x > 0\n    raise ValueError(f"{x + 1}")\n'
    assert list(mutations.mutants_of("a.py", source)) == []


def test_interval_of_a_share():
    low, high = mutations.interval(95, 100)
    assert (round(low, 4), round(high, 4)) == (0.8882, 0.9785)  # Wilson, as tabulated


def test_drift_calibration(tmp_path):
    out = tmp_path / "drift.md"
    arguments = ["--runs", "1", "--rows", "40", "--forests", "extra-trees", "--out", str(out)]
    drift_calibration.main(arguments)
    lines = out.read_text().splitlines()
    assert sum(line.startswith("| extra-trees |") for line in lines) == 4
