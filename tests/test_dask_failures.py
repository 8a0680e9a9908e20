"""`kpp.dask` when things go wrong: workers that die, little memory, no scheduler, Ctrl-C."""

import os
import signal
import subprocess
import sys
import textwrap

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from dask_help import after, cluster_of, given_forest, kill_one_worker, numbers
from numpy.testing import assert_allclose, assert_array_equal

from kpp import KPPRegressor
from kpp.dask import DaskKPPRegressor
from kpp.dask.growing import grow_on_site
from kpp.dask.maps import DaskMap

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def workers():
    with cluster_of(2) as own:
        yield own


def dask_rows(X, y):
    return da.from_array(X, chunks=(175, 4)), da.from_array(y, chunks=175)


def test_a_worker_killed_in_the_middle_of_solving_changes_nothing(workers, monkeypatch):
    _, client = workers
    X, y, _ = numbers()
    forest = given_forest(X, y)
    product = after(4, lambda: kill_one_worker(client), DaskMap.gram_matvec)
    monkeypatch.setattr(DaskMap, "gram_matvec", lambda self, r: product(self, r))
    model = DaskKPPRegressor(forest, alpha=1.0, tol=1e-10, client=client)
    model.fit(*dask_rows(X, y))
    assert product.count["calls"] > 6  # it was in the middle
    alone = KPPRegressor(forest, regime="fixed", alpha=1.0, tol=1e-10).fit(X, y)
    assert_allclose(model.model_.predict(X), alone.predict(X), rtol=0, atol=1e-9)


def test_a_worker_killed_in_the_middle_of_growing_changes_nothing(workers, monkeypatch, tmp_path):
    _, client = workers
    client.wait_for_workers(2)
    X, y, _ = numbers()
    flag = str(tmp_path / "killed")

    def grow(*args):
        if not os.path.exists(flag):
            with open(flag, "w"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        return grow_on_site(*args)

    options = {"n_estimators": 8, "alpha": 0.1, "random_state": 0, "client": client}
    alone = DaskKPPRegressor(**options).fit(*dask_rows(X, y)).to_local()
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr("kpp.dask.growing.grow_on_site", grow)
    model = DaskKPPRegressor(**options).fit(*dask_rows(X, y)).to_local()
    assert os.path.exists(flag)
    assert_array_equal(model.forest_.threshold, alone.forest_.threshold)
    assert_allclose(model.predict(X), alone.predict(X), rtol=0, atol=1e-9)


def test_workers_may_come_and_go_during_a_fit(workers, monkeypatch):
    cluster, client = workers
    X, y, _ = numbers()
    forest = given_forest(X, y)
    sizes = {3: 3, 7: 1}
    calls = {"n": 0}
    product = DaskMap.gram_matvec

    def scaling(self, r):
        calls["n"] += 1
        if calls["n"] in sizes:
            cluster.scale(sizes[calls["n"]])
        return product(self, r)

    cluster.adapt(minimum=1, maximum=3, interval="200ms")
    monkeypatch.setattr(DaskMap, "gram_matvec", scaling)
    model = DaskKPPRegressor(forest, alpha=1.0, tol=1e-10, client=client)
    model.fit(*dask_rows(X, y))
    alone = KPPRegressor(forest, regime="fixed", alpha=1.0, tol=1e-10).fit(X, y)
    assert_allclose(model.model_.predict(X), alone.predict(X), rtol=0, atol=1e-9)
    assert calls["n"] > 7


def test_more_rows_than_memory_are_spilled():
    limit, n_columns = 16_000_000, 40
    n_rows = 60_000  # 19 MB of numbers, for a worker that may keep 8 MB in memory
    settings = {
        "distributed.worker.memory.target": 0.5,
        "distributed.worker.memory.spill": False,  # of the whole process, which has libraries
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": False,
    }
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, n_columns))
    y = X[:, 0] + X[:, 1] * X[:, 2]
    forest = given_forest(X, y)
    with dask.config.set(settings), cluster_of(1, memory_limit=limit) as (_, client):
        rows = da.random.default_rng(0).normal(size=(n_rows, n_columns), chunks=(5_000, n_columns))
        target = rows[:, 0] + rows[:, 1] * rows[:, 2]
        rows, target = rows.persist(), target.persist()
        spilled = {"most": 0}

        def look(self, r):
            found = client.run(lambda dask_worker: dask_worker.data.spilled_total.memory)
            spilled["most"] = max(spilled["most"], *found.values())
            return product(self, r)

        product = DaskMap.gram_matvec
        DaskMap.gram_matvec = look
        try:
            model = DaskKPPRegressor(forest, alpha=10.0, tol=1e-2, keep_rows=False, client=client)
            model.fit(rows, target)
        finally:
            DaskMap.gram_matvec = product
        assert 8 * n_rows * n_columns > limit
        assert spilled["most"] > 8 * n_rows * n_columns - limit
        new = np.random.default_rng(1).normal(size=(1000, n_columns))
        assert model.model_.score(new, new[:, 0] + new[:, 1] * new[:, 2]) > 0.3


def test_a_scheduler_that_goes_away_is_said_and_nothing_is_left(monkeypatch):
    X, y, _ = numbers()
    forest = given_forest(X, y)
    soon = {"distributed.comm.timeouts.connect": "2s"}
    with dask.config.set(soon), cluster_of(1) as (cluster, client):
        model = DaskKPPRegressor(forest, alpha=1.0, tol=1e-10, client=client)
        gone = after(3, lambda: client.sync(cluster.scheduler.close), DaskMap.gram_matvec)
        monkeypatch.setattr(DaskMap, "gram_matvec", lambda self, r: gone(self, r))
        with pytest.raises(ConnectionError, match="scheduler"):
            model.fit(*dask_rows(X, y))
        assert not hasattr(model, "model_")


SCRIPT = """
import logging, os, signal, sys, threading, time
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from kpp.dask import DaskKPPRegressor

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0",
                      silence_logs=logging.CRITICAL) as cluster, Client(cluster) as client:
        X = da.random.default_rng(0).normal(size=(20_000, 5), chunks=(2_000, 5))
        model = DaskKPPRegressor(n_estimators=400, random_state=0)
        # In the middle of a fit, wherever that is: the trees alone take many times as long.
        threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            model.fit(X, X[:, 0])
        except KeyboardInterrupt:
            print("interrupted", hasattr(model, "model_"))
        for _ in range(300):
            left = client.run_on_scheduler(lambda dask_scheduler: [*map(str, dask_scheduler.tasks)])
            if not left:
                break
            time.sleep(0.1)
        print("left", left)
"""


def test_control_c_leaves_no_task_behind(tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(textwrap.dedent(SCRIPT), "utf-8")
    found = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert "interrupted False" in found.stdout, found.stderr[-2000:]
    assert "left []" in found.stdout
