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
import scikit_posthocs as posthocs
from paper import diabetes, published, suite_tables
from paper.comparing import Row, agrees, agrees_rounded_twice, comparison, like
from paper.models import Context
from scipy import stats
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from statsmodels.stats import multitest
from suite import config as configs
from suite import datasets, figures, paper_kpp, preparation, rivals, tables
from suite import statistics as compare
from suite.records import RESULTS, Records, read_records
from suite.runner import cpu_seconds, resident_bytes, start

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

def quick(task, seed):
    return Constant(lambda: None)

def gated(task, seed):
    """The first two seeds are done at once, the others wait for a file."""
    import os
    def wait():
        while seed >= 2 and not os.path.exists(os.environ["GATE"]):
            time.sleep(0.02)
    return Constant(wait)

def endless(task, seed):
    def turn():
        while True:
            pass
    return Constant(turn)

def asleep(task, seed):
    return Constant(lambda: time.sleep(1000))

def tracked(task, seed):
    import os
    def stay():
        open(os.environ["TRACK"] + f".{task}", "w").write(str(os.getpid()))
        time.sleep(1000)
    return Constant(stay)

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


@pytest.mark.slow
def test_kill_and_resume(made, monkeypatch):
    monkeypatch.setenv("GATE", str(made / "gate"))
    config, out = write_config(made, ["gated"], seeds=range(6)), made / "out"
    process = subprocess.Popen(command(config, out, made), stderr=subprocess.PIPE, text=True)
    lines = iter(process.stderr.readline, "")
    while "[4/12]" not in next(lines):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    before = (out / RESULTS).read_bytes()
    assert before.count(b"\n") == 4
    # A kill may also cut a line short.
    (out / RESULTS).write_bytes(before + b'{"task": "regression", "data": "numb')
    (made / "gate").touch()
    done = subprocess.run(command(config, out, made), capture_output=True, text=True, check=True)
    assert "[8/8]" in done.stderr
    after = (out / RESULTS).read_bytes()
    assert after.startswith(before)
    tasks = [(r["data"], r["method"], r["seed"]) for r in read_records(out / RESULTS)]
    assert len(tasks) == len(set(tasks)) == 12
    assert all(r["status"] == "ok" for r in read_records(out / RESULTS))
    assert start(config, out, data_dir=str(made)) == 0
    assert (out / RESULTS).read_bytes() == after
    assert len(json.loads((out / "environment.json").read_text())) == 2
    # Another config must not write into the same table.
    other = write_config(made, ["gated"], seeds=range(7))
    with pytest.raises(ValueError, match=r"differs .* in seeds"):
        start(other, out, data_dir=str(made))


@pytest.mark.slow
def test_no_task_outlives_a_killed_run(made, monkeypatch):
    monkeypatch.setenv("TRACK", str(made / "pid"))
    process = subprocess.Popen(
        command(write_config(made, ["tracked"]), made / "out", made), stderr=subprocess.DEVNULL
    )
    tracks = [made / f"pid.{task}" for task in ("regression", "classification")]
    pids = [int(wait_for(lambda path=path: path.exists() and path.read_text())) for path in tracks]
    assert all(map(running, pids))
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: not any(map(running, pids)))


def wait_for(what, seconds=300):
    """Wait until it is true, and return it."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.05)
    return found


def running(pid):
    """Whether the process exists and, where that can be seen, is not a zombie."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_limits_of_time(made):
    """Of the processor's time; a task that waits is stopped after three times as long."""
    data = {"regression": ["numbers"]}
    config = write_config(made, ["endless", "asleep"], data=data, seconds=2, workers=2)
    assert start(config, made / "out", data_dir=str(made), out=StringIO()) == 2
    found = Records(made / "out").done
    assert {record["status"] for record in found.values()} == {"overrun"}
    assert {record["error"] for record in found.values()} == {"time: more than 2 s"}
    assert found["numbers", "asleep", 0]["total_s"] >= 6


@pytest.mark.slow
def test_limit_of_memory_failures_and_missing(made):
    config = write_config(
        made,
        ["quick", "greedy", "faulty", "vanishing", "absent"],
        data={"regression": ["numbers", "nowhere"]},
        memory_gb=0.5,
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
    expected = {"quick": "ok", "greedy": "overrun", "faulty": "failed", "vanishing": "failed"}
    assert status == expected
    error = {task.method: record.get("error") for task, record in found.items()}
    assert error["greedy"].startswith("memory")
    assert error["faulty"] == "ValueError: no such luck"
    assert "code 3" in error["vanishing"]
    assert 500 < found["numbers", "greedy", 0]["peak_mb"] < 1500
    missing = json.loads((made / "out" / "environment.json").read_text())[0]
    assert set(missing["missing_data"]) == {"nowhere"}
    assert set(missing["missing_methods"]) == {"absent"}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not tell")
def test_processor_time_counts_work_and_not_waiting():
    def both(work):
        """What the system counts, and what Python's own clock of the process does."""
        before = cpu_seconds(os.getpid()), time.process_time()
        work()
        return cpu_seconds(os.getpid()) - before[0], time.process_time() - before[1]

    def turn():
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass

    tick = 1 / os.sysconf("SC_CLK_TCK")
    for work in (turn, lambda: time.sleep(0.3)):
        counted, expected = both(work)
        assert counted == pytest.approx(expected, abs=3 * tick)
    assert cpu_seconds(2**22 + 1) == 0.0  # no such process


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
    rng = np.random.default_rng(3)
    losses = np.round(rng.normal(size=(20, 6)) + 0.3 * np.arange(6), 1)  # rounded: with ties
    assert any(len(set(row)) < 6 for row in losses)
    ours, theirs = compare.friedman(losses), stats.friedmanchisquare(*losses.T)
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-12)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-10)
    expected = posthocs.posthoc_nemenyi_friedman(losses).to_numpy()
    np.testing.assert_allclose(compare.nemenyi(losses), expected, rtol=1e-12)
    p_values = rng.uniform(size=7) ** 3
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
    # The same errors, averaged in another order.
    one, other = 0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1
    assert one != other
    assert compare.rank([[one, other, 1e-4, 1.001e-4]]).tolist() == [[3.5, 3.5, 1.0, 2.0]]
    with pytest.raises(ValueError, match="at least two methods"):
        compare.friedman(np.ones((3, 1)))


def test_cliques():
    paper = [2.30, 2.75, 3.80, 3.90, 4.55, 4.90, 5.80]
    assert figures.cliques(paper, 2.014) == [(0, 3), (1, 4), (2, 6)]
    assert figures.cliques([1, 5, 9], 2) == []
    assert figures.cliques([1, 3, 5.5], 2) == [(0, 1)]  # a gap of exactly the difference is none


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
    shown = [*config.report.get("kpp", []), config.report.get("default", "kpp")]
    shown += [arm for arms in config.report.get("groups", {}).values() for arm in arms]
    assert set(shown) <= set(config.methods)
    if "groups" in config.report:
        assert set(shown) == set(config.methods)


def test_suite_is_the_agreed_one():
    config = configs.read(SUITE)
    assert [len(names) for names in config.data.values()] == [20, 20]
    assert len(config.report["seen"]) == 6
    assert len(config.work()) == 40 * 15 * 5
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


def write_run(folder, text, loss_of, *, skip=lambda task: False):
    """A finished run: loss_of(task) is its RMSE, or None where it overran."""
    (folder / "config.toml").write_text(text)
    environment = {"versions": {"kpp": "kpp 1"}, "missing_data": {}, "missing_methods": {}}
    environment |= {"python": "3", "cores": 2}
    (folder / "environment.json").write_text(json.dumps([environment]))
    records = Records(folder)
    for task in configs.read(folder / "config.toml").work():
        if skip(task):
            continue
        one = {"task": "regression", **task._asdict()}
        if (loss := loss_of(task)) is None:
            records.append(one | {"status": "overrun", "error": "time"})
            continue
        costs = {"fit_s": 1.0, "fit_cpu_s": 1.0, "predict_s": 0.1, "fit_mb": 5.0}
        records.append(one | {"status": "ok", "rmse": loss} | costs)


MADE_RUN = f"""
name = "Made"
seeds = [0, 1]
[report]
kpp = ["kpp"]
seen = ["s0"]
[data]
regression = {json.dumps([f"s{k}" for k in range(6)])}
[methods]
kpp = {{}}
linear = {{}}
baseline = {{}}
rf_plus = {{}}
late = {{ adapter = "baseline" }}
"""


def made_loss(task):
    if task.method == "rf_plus" and task.data != "s1":
        return None
    own = {"kpp": 1.0, "linear": 2.0, "baseline": 3.0, "rf_plus": 0.5, "late": 0.9}
    return own[task.method] + 0.1 * task.seed


def test_report(tmp_path):
    """One method overran nearly everywhere, another has run in one of two seeds so far."""
    write_run(
        tmp_path, MADE_RUN, made_loss, skip=lambda task: task.method == "late" and task.seed == 1
    )
    page = tables.write_report(tmp_path).read_text()
    assert "| RF+ | not ranked |" in page
    assert "| **KPP (defaults)** | 1.000 |" in page
    assert "chi-square 12.00" in page  # 6 sets, 3 methods, always in the same order
    assert "chi-square 10.00" in page  # the five that were not seen
    assert "| RF+ | 10 |" in page  # overruns
    assert "Not complete: 54 of 60 tasks" in page
    assert (tmp_path / "cd_regression_rmse_kpp_all.png").stat().st_size > 5000
    table = pd.read_csv(tmp_path / "results.csv")
    assert len(table) == 54
    (ranking, _) = json.loads((tmp_path / "rankings.json").read_text())
    assert ranking["mean_ranks"] == {"kpp": 1.0, "linear": 2.0, "baseline": 3.0}
    assert ranking["unranked"] == ["rf_plus", "late"]
    pairs = {pair["rival"]: pair for pair in ranking["pairs"]}
    assert (pairs["rf_plus"]["n_sets"], pairs["rf_plus"]["losses"]) == (1, 1)
    # Over the one seed that both finished: 0.9 against 1.0.
    assert (pairs["late"]["n_sets"], pairs["late"]["losses"]) == (6, 6)
    assert pairs["late"]["median"] == pytest.approx(np.log(0.9))
    # Over both: 2.05 against 1.05.
    assert pairs["linear"]["median"] == pytest.approx(np.log(2.05 / 1.05))


def test_report_of_some_seeds(tmp_path):
    text = MADE_RUN.replace("[report]", "[report]\nseeds = [0]")
    write_run(tmp_path, text, made_loss, skip=lambda task: task.seed == 1)
    page = tables.write_report(tmp_path).read_text()
    assert "Seeds 0 of 2;" in page
    assert "| s3 | 1 | 2 | 3 | – | **0.9** |" in page


def test_effects_of_arms(tmp_path):
    text = MADE_RUN.replace('kpp = ["kpp"]\n', 'default = "kpp"\n')
    groups = '[report.groups]\n"all of them" = ["linear", "baseline", "rf_plus", "late"]\n[data]'
    size = {f"s{k}": 10.0**k for k in range(6)}  # units do not matter
    factor = {"kpp": 1.0, "linear": 1.1, "baseline": 1.0}

    def loss(task):
        if task.method == "late":  # better on two sets of six
            return size[task.data] * (0.8 if task.data in ("s0", "s1") else 1.2)
        if task.method == "rf_plus":
            return None
        return size[task.data] * factor[task.method]

    write_run(tmp_path, text.replace("[data]", groups), loss)
    page = tables.write_report(tmp_path).read_text()
    p_value = stats.wilcoxon(np.full(6, 0.1)).pvalue
    found = {e["arm"]: e for e in json.loads((tmp_path / "effects.json").read_text())["rmse"]}
    assert found["linear"]["median"] == pytest.approx(0.1)
    assert found["linear"]["p_value"] == pytest.approx(p_value)
    assert found["linear"]["p_holm"] == pytest.approx(3 * p_value)
    assert (found["baseline"]["tied"], found["baseline"]["p_holm"]) == (6, 1.0)
    late = [found["late"][key] for key in ("better", "tied", "worse", "lower", "upper")]
    assert late == pytest.approx([2, 0, 4, -0.1, 0.2])
    assert "rf_plus" not in found
    assert "| all of them | linear | 6 | +10.0% | +10.0% to +10.0% | 0/0/6 |" in page
    assert (tmp_path / "effects.png").stat().st_size > 5000


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
