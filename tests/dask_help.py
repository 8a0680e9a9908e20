"""A cluster of processes, and small data, for the tests of `kpp.dask`."""

import logging
import multiprocessing
import os
import signal
import warnings
from contextlib import contextmanager

import dask
import numpy as np
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from kpp import Forest

N_ROWS = 700
IMPORTED = ["distributed", "kpp.dask", "pandas", "sklearn.ensemble"]


def start_of_workers():
    """Settings by which workers are copies of a process that has imported what they need.

    They are processes as before, which share nothing; only importing takes as long as a fit.
    """
    settings = {"distributed.worker.profile.enabled": False}
    if "forkserver" in multiprocessing.get_all_start_methods():
        settings["distributed.worker.multiprocessing-method"] = "forkserver"
        with dask.config.set(settings):
            get_mp_context().set_forkserver_preload(IMPORTED)
    return dask.config.set(settings)


@contextmanager
def cluster_of(n_workers, **options):
    """A local cluster of worker processes with one thread each, and a client of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of distributed's own start and end
        with (
            start_of_workers(),
            LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
                **options,
            ) as cluster,
            Client(cluster) as client,
        ):
            yield cluster, client


def numbers(n_rows=N_ROWS, seed=0):
    """Rows, a target of numbers, and weights."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 4))
    y = X[:, 0] * X[:, 1] + X[:, 2] + random.normal(size=n_rows) / 2
    return X, y, random.uniform(0.5, 2.0, size=n_rows)


def given_forest(X, y):
    """A small forest of other rows."""
    kind = RandomForestRegressor if y.dtype.kind == "f" else RandomForestClassifier
    return Forest.from_model(kind(6, max_depth=4, random_state=0).fit(X[::2], y[::2]))


def kill_one_worker(client):
    """Kill a worker process, as a machine that goes out does."""
    pid = next(iter(client.run(os.getpid).values()))
    os.kill(pid, signal.SIGKILL)


def after(n_calls, action, method):
    """The same method, which does something else once, before a call."""
    count = {"calls": 0}

    def called(*args, **kwargs):
        count["calls"] += 1
        if count["calls"] == n_calls:
            action()
        return method(*args, **kwargs)

    called.count = count
    return called
