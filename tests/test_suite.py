"""The benchmark suite on tiny made data: kill and resume, limits, statistics, pages."""

import json
import os
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from paper import diabetes, published, suite_tables
from paper.comparing import Row, agrees, agrees_rounded_twice, comparison, like
from paper.models import Context
from scipy import stats
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from suite import config as configs
from suite import datasets, figures, paper_kpp, preparation, rivals, tables
from suite import statistics as compare
from suite.records import RESULTS, Records, read_records
from suite.runner import resident_bytes, start

from kpp import KPPEmbedding

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
METHODS = '''
import time
import numpy as np

class Constant:
    """Predicts one number; first it does what it is told."""

    def __init__(self, first):
        self.first = first

    def fit(self, X, y):
        self.kept = self.first()
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)

def slow(task, seed):
    return Constant(lambda: time.sleep(0.15))

def endless(task, seed):
    def turn():
        while True:
            pass
    return Constant(turn)

def asleep(task, seed):
    return Constant(lambda: time.sleep(1000))

def greedy(task, seed):
    def take():
        kept = np.ones(80_000_000)
        time.sleep(1000)
    return Constant(take)

def faulty(task, seed):
    def fail():
        raise ValueError("no such luck")
    return Constant(fail)

def vanishing(task, seed):
    import os
    return Constant(lambda: os._exit(3))
'''


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A folder with two small sets and a module of methods."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    X.assign(target=X["a"]).to_csv(tmp_path / "numbers.csv.gz", index=False)
    kinds = np.where(X["a"] > 0, "yes", "no")
    X.assign(target=kinds).to_csv(tmp_path / "kinds.csv.gz", index=False)
    (tmp_path / "made_methods.py").write_text(METHODS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(BENCHMARKS), str(tmp_path)]))
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def write_config(folder, methods, *, seeds=(0,), data=None, **more):
    data = data or {"regression": ["numbers"], "classification": ["kinds"]}
    lines = ['name = "Made"', f"seeds = {list(seeds)}"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in more.items()]
    lines += ["[data]", *(f"{task} = {json.dumps(names)}" for task, names in data.items())]
    lines += ["[methods]", *(f'{m} = {{ adapter = "made_methods:{m}" }}' for m in methods)]
    path = folder / "made.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def command(config, out, data_dir):
    arguments = ["--config", config, "--out", out, "--data-dir", data_dir]
    return [sys.executable, "-m", "suite", "run", *map(str, arguments)]


def test_kill_and_resume(made):
    config, out = write_config(made, ["slow"], seeds=range(6)), made / "out"
    process = subprocess.Popen(command(config, out, made), stderr=subprocess.PIPE, text=True)
    lines = iter(process.stderr.readline, "")
    while "[3/12]" not in next(lines):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    before = (out / RESULTS).read_bytes()
    n_before = before.count(b"\n")
    assert 3 <= n_before < 12
    # A kill may also cut a line short.
    (out / RESULTS).write_bytes(before + b'{"task": "regression", "data": "numb')
    done = subprocess.run(command(config, out, made), capture_output=True, text=True, check=True)
    assert f"[{12 - n_before}/{12 - n_before}]" in done.stderr
    after = (out / RESULTS).read_bytes()
    assert after.startswith(before)
    tasks = [(r["data"], r["method"], r["seed"]) for r in read_records(out / RESULTS)]
    assert len(tasks) == len(set(tasks)) == 12
    assert all(r["status"] == "ok" for r in read_records(out / RESULTS))
    assert start(config, out, data_dir=str(made)) == 0
    assert (out / RESULTS).read_bytes() == after
    assert len(json.loads((out / "environment.json").read_text())) == 3
    # Another config must not write into the same table.
    other = write_config(made, ["slow"], seeds=range(7))
    with pytest.raises(ValueError, match=r"differs .* in seeds"):
        start(other, out, data_dir=str(made))


def test_limits_failures_and_missing(made):
    config = write_config(
        made,
        ["slow", "endless", "asleep", "greedy", "faulty", "vanishing", "absent"],
        data={"regression": ["numbers", "nowhere"]},
        seconds=4,
        memory_gb=0.5,
        workers=5,
    )
    text = config.read_text().replace("made_methods:absent", "no_such_library:absent")
    config.write_text(text)
    done = subprocess.run(
        command(config, made / "out", made), capture_output=True, text=True, check=True
    )
    assert "missing data set nowhere" in done.stderr
    assert "missing method absent: No module named 'no_such_library'" in done.stderr
    found = Records(made / "out").done
    status = {task.method: record["status"] for task, record in found.items()}
    expected = {"slow": "ok", "endless": "overrun", "asleep": "overrun", "greedy": "overrun"}
    assert status == expected | {"faulty": "failed", "vanishing": "failed"}
    error = {task.method: record.get("error") for task, record in found.items()}
    assert error["endless"].startswith("time")
    assert error["asleep"].startswith("time")
    assert error["greedy"].startswith("memory")
    assert error["faulty"] == "ValueError: no such luck"
    assert "code 3" in error["vanishing"]
    greedy = next(record for task, record in found.items() if task.method == "greedy")
    assert 500 < greedy["peak_mb"] < 1500
    missing = json.loads((made / "out" / "environment.json").read_text())[0]
    assert set(missing["missing_data"]) == {"nowhere"}
    assert set(missing["missing_methods"]) == {"absent"}


def test_gives_up_where_it_overran(made):
    """Nothing runs here: every task left has an overrun behind it."""
    table = pd.read_csv(made / "numbers.csv.gz")
    pd.concat([table, table]).to_csv(made / "larger.csv.gz", index=False)
    data = {"regression": ["numbers", "larger"], "classification": ["kinds"]}
    config = write_config(made, ["endless"], seeds=(0, 1), data=data, seconds=1)
    records = Records(made / "out")
    for task, name in (("regression", "numbers"), ("classification", "kinds")):
        one = {"task": task, "data": name, "method": "endless", "seed": 0}
        records.append(one | {"status": "overrun", "error": "time"})
    assert start(config, made / "out", data_dir=str(made), out=StringIO()) == 4
    found = Records(made / "out").done
    assert found["larger", "endless", 0]["status"] == "skipped"
    assert found["larger", "endless", 0]["error"] == "overran on numbers, seed 0"
    assert found["kinds", "endless", 1]["error"] == "overran on kinds, seed 0"


def test_statistics_against_other_software():
    posthocs = pytest.importorskip("scikit_posthocs")
    rng = np.random.default_rng(3)
    losses = np.round(rng.normal(size=(20, 6)) + 0.3 * np.arange(6), 1)  # rounded: with ties
    assert any(len(set(row)) < 6 for row in losses)
    ours, theirs = compare.friedman(losses), stats.friedmanchisquare(*losses.T)
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-12)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-10)
    expected = posthocs.posthoc_nemenyi_friedman(losses).to_numpy()
    np.testing.assert_allclose(compare.nemenyi(losses), expected, atol=1e-6)
    p_values = rng.uniform(size=7) ** 3
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    expected = multitest.multipletests(p_values, method="holm")[1]
    np.testing.assert_allclose(compare.holm(p_values), expected, rtol=1e-12)


def test_statistics_of_the_paper():
    regression = compare.friedman_of_mean_ranks([2.30, 2.75, 3.80, 3.90, 4.55, 4.90, 5.80], 20)
    assert round(regression.statistic, 2) == 37.95
    assert f"{regression.p_value:.2e}" == "1.15e-06"
    assert round(compare.nemenyi_quantile(7), 3) == 2.948
    assert round(compare.critical_difference(7, 20), 3) == 2.014
    ranks = np.argsort(np.random.default_rng(0).normal(size=(20, 7)), axis=1) + 1
    direct = compare.friedman(ranks)
    of_means = compare.friedman_of_mean_ranks(ranks.mean(axis=0), 20)
    assert direct.statistic == pytest.approx(of_means.statistic)


def test_pairwise_comparison():
    rng = np.random.default_rng(1)
    ours = rng.uniform(1, 2, size=12) * 10.0 ** rng.integers(-2, 3, size=12)
    losses = np.column_stack([ours, 1.1 * ours, ours, np.where(np.arange(12) < 3, np.inf, ours)])
    worse, same, partial = compare.compare_with(list("abcd"), losses, "a", relative=True)
    assert (worse.wins, worse.ties, worse.losses) == (12, 0, 0)
    assert worse.median == pytest.approx(np.log(1.1))
    assert worse.p_value == pytest.approx(stats.wilcoxon(np.full(12, 0.1)).pvalue)
    assert worse.p_holm == pytest.approx(3 * worse.p_value)
    assert (same.ties, same.p_holm) == (12, 1.0)
    assert partial.n_sets == 9
    assert compare.rank([[1.0, np.inf, np.inf]]).tolist() == [[1.0, 2.5, 2.5]]
    with pytest.raises(ValueError, match="at least two methods"):
        compare.friedman(np.ones((3, 1)))


def test_cliques():
    paper = [2.30, 2.75, 3.80, 3.90, 4.55, 4.90, 5.80]
    assert figures.cliques(paper, 2.014) == [(0, 3), (1, 4), (2, 6)]
    assert figures.cliques([1, 5, 9], 2) == []


def test_data_sets_are_checked(tmp_path):
    data = datasets.load("diabetes", "regression")
    assert data.X.shape == (442, 10)
    with pytest.raises(datasets.MissingDataError, match="is a set for regression"):
        datasets.load("diabetes", "classification")
    table = data.X.assign(target=data.y + 1)
    table.to_csv(tmp_path / "diabetes.csv.gz", index=False)
    with pytest.raises(datasets.MissingDataError, match="mean target"):
        datasets.load("diabetes", "regression", str(tmp_path))
    table.iloc[:-1].to_csv(tmp_path / "diabetes.csv.gz", index=False)
    with pytest.raises(datasets.MissingDataError, match="441 rows instead of 442"):
        datasets.load("diabetes", "regression", str(tmp_path))
    some = datasets.subsample(data, 50)
    rows = np.random.default_rng(0).choice(442, 50, replace=False)
    np.testing.assert_array_equal(some.y, data.y[rows])
    names = {name for task in configs.read(SUITE).data.values() for name in task}
    assert names < set(datasets.registry())


SUITE = BENCHMARKS / "suite" / "configs" / "suite.toml"


@pytest.mark.parametrize("path", sorted(SUITE.parent.glob("*.toml")), ids=lambda p: p.stem)
def test_configs_name_known_adapters(path):
    config = configs.read(path)
    for method in config.methods.values():
        assert rivals.find(method.adapter).build
    assert set(config.report["kpp"]) <= set(config.methods)


def test_suite_is_the_agreed_one():
    config = configs.read(SUITE)
    assert [len(names) for names in config.data.values()] == [20, 20]
    assert len(config.report["seen"]) == 6
    assert len(config.work()) == 40 * 12 * 5
    assert (config.seconds, config.memory_gb) == (600, 6)


def test_preparation_learns_on_training_rows_only():
    n = 40
    train = pd.DataFrame(
        {
            "number": [np.nan, *range(1, n)],
            "kind": ["a", "b"] * (n // 2),
            "many": [None] * 10 + ["u"] * 14 + ["v"] * 14 + ["rare"] * 2,
        }
    )
    test = pd.DataFrame({"number": [np.nan, 1e9], "kind": ["a", "new"], "many": ["new", None]})
    X_train, X_test = preparation.prepare(train, test, ["kind", "many"])
    # A number, where it is missing, one indicator of two kinds, four of u, v, missing, rare.
    assert X_train.shape[1] == 7
    assert X_train[0, 0] == X_test[0, 0] == np.median(np.arange(1, n))
    assert X_train[0, 1] == 1
    assert X_train[:, 3:].sum(axis=1).tolist() == [1] * n
    # What training has not seen shares the indicator of rare categories.
    np.testing.assert_array_equal(X_test[0, 3:], X_train[-1, 3:])
    np.testing.assert_array_equal(X_test[1, 3:], X_train[0, 3:])


def test_report(tmp_path):
    methods = "kpp = {}\nlinear = {}\nbaseline = {}\nrf_plus = {}\n"
    text = f"""
name = "Made"
seeds = [0, 1]
[report]
kpp = ["kpp"]
seen = ["s0"]
[data]
regression = {json.dumps([f"s{k}" for k in range(6)])}
[methods]
{methods}"""
    (tmp_path / "config.toml").write_text(text)
    environment = {"versions": {"kpp": "kpp 1"}, "missing_data": {}, "missing_methods": {}}
    environment |= {"python": "3", "cores": 2}
    (tmp_path / "environment.json").write_text(json.dumps([environment]))
    records = Records(tmp_path)
    for task in configs.read(tmp_path / "config.toml").work():
        one = {"task": "regression", **task._asdict()}
        if task.method == "rf_plus" and task.data != "s1":
            records.append(one | {"status": "overrun", "error": "time"})
            continue
        loss = {"kpp": 1.0, "linear": 2.0, "baseline": 3.0, "rf_plus": 0.5}[task.method]
        costs = {"fit_s": 1.0, "fit_cpu_s": 1.0, "predict_s": 0.1, "fit_mb": 5.0}
        records.append(one | {"status": "ok", "rmse": loss + 0.1 * task.seed} | costs)
    page = tables.write_report(tmp_path).read_text()
    assert "| rf plus | not ranked |" in page
    assert "| **kpp** | 1.000 |" in page
    assert "chi-square 12.00" in page  # 6 sets, 3 methods, always in the same order
    assert "chi-square 10.00" in page  # the five that were not seen
    assert "| rf plus | 10 |" in page  # overruns
    assert (tmp_path / "cd_regression_rmse_kpp_all.png").stat().st_size > 5000
    table = pd.read_csv(tmp_path / "results.csv")
    assert len(table) == 48
    (ranking, _) = json.loads((tmp_path / "rankings.json").read_text())
    assert ranking["mean_ranks"]["linear"] == 2.0


def test_paper_kpp_chooses_the_lambda_of_the_paper():
    """Few trees here; the choice itself is that of ridge regression on the explicit features."""
    data = datasets.subsample(datasets.load("diabetes", "regression"), 120)
    X, y = data.X.to_numpy(), data.y
    alpha, losses = paper_kpp.choose_alpha("regression", X, y, 1, n_estimators=5)
    expected = np.zeros(20)
    for train, test in KFold(5, shuffle=True, random_state=1).split(X):
        forest = paper_kpp.forest_of("regression", 1, 5)
        embedding = KPPEmbedding(forest).fit(X[train], y[train])
        phi, phi_test = (embedding.transform(X[rows]).toarray() for rows in (train, test))
        for k, value in enumerate(paper_kpp.GRID):
            model = Ridge(alpha=value, solver="svd").fit(phi, y[train])
            expected[k] += np.square(model.predict(phi_test) - y[test]).mean() / 5
    np.testing.assert_allclose(losses[8:], expected[8:], rtol=1e-6)
    assert alpha == paper_kpp.GRID[np.argmin(expected)]


def test_memory_of_a_process():
    assert resident_bytes(os.getpid()) > 1e6
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    time.sleep(0.01)
    assert resident_bytes(process.pid) == 0


def test_diabetes_is_that_of_the_paper():
    found = diabetes.reproduce()
    rows = [
        Row(regime, key, text, found[regime][key])
        for regime, printed in published.DIABETES.items()
        for key, text in printed.items()
    ]
    assert len(rows) == 18
    twice = [row for row in rows if not agrees(row)]
    assert [(row.data, row.quantity) for row in twice] == [("PB-02", "d_eff")]
    assert all(map(agrees_rounded_twice, twice))


def test_printed_digits():
    assert like("8.02e-4", 8.0243e-4) == "8.02e-4"
    assert like("1434731", 1434730.8) == "1434731"
    assert agrees(Row("", "", "0.0057", 0.00573))
    assert not agrees(Row("", "", "0.425", 0.42446))
    assert agrees_rounded_twice(Row("", "", "0.425", 0.42446))
    assert not agrees_rounded_twice(Row("", "", "0.425", 0.42444))
    assert agrees_rounded_twice(Row("", "", "2.0e-4", 1.95e-4))
    lines = comparison([Row("a_b", "x", "1.00", 1.004), Row("a_b", "y", "1.00", 1.1)])
    assert lines[2:4] == ["| a b | x | 1.00 | 1.004 | 0 |", "| a b | y | 1.00 | 1.100 | +0.1 |"]


def test_printed_ranks_and_their_tests(tmp_path):
    figures, page = suite_tables.run(Context(out=str(tmp_path)))
    differing = [row["quantity"] for row in figures["rows"] if not row["agrees"]]
    # Classification has ties, which mean ranks do not show.
    assert differing == ["Friedman chi-square", "Friedman p"]
    assert "paper_cd_regression.png" in page
    assert (tmp_path / "paper_cd_classification.png").stat().st_size > 5000
    assert suite_tables.count([0.1, -0.2, 1e-13, 0.3]) == (2, 1, 1)
