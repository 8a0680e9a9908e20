"""One task in a process of its own."""

from __future__ import annotations

import os
import resource
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import (
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from suite.config import Config, Task
from suite.datasets import load, subsample
from suite.preparation import Split, split
from suite.rivals import find

# Libraries that would otherwise take every core.
ONE_THREAD = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM")
}
STATUS = Path("/proc/self/status")


def run(task: Task, config: Config, data_dir: str | None, channel: Any) -> None:
    """Execute the task and send its record; what the method adds to it follows as a second one."""
    threading.Thread(target=_follow, args=(channel,), daemon=True).start()
    try:
        for record in execute(task, config, data_dir):
            channel.send(record)
    except MemoryError as error:
        channel.send({"status": "overrun", "error": f"memory: {error}"})
    except Exception as error:
        text = f"{type(error).__name__}: {error}"[:500]
        channel.send({"status": "failed", "error": text, "trace": traceback.format_exc()})
    finally:
        channel.close()


def execute(task: Task, config: Config, data_dir: str | None) -> Iterator[dict[str, Any]]:
    """Fit, predict and measure; yield the record, then it again with the method's own figures."""
    kind = config.task_of(task.data)
    data = subsample(load(task.data, kind, data_dir), config.n_rows(task.data))
    parts = split(data, task.seed, config.test_size)
    about = config.methods[task.method]
    adapter = find(about.adapter)
    if adapter.warm_up:
        _warm_up(adapter, kind, about.params)
    model = adapter.build(kind, task.seed, **about.params)
    before = reset_peak()
    with collected_warnings() as caught:
        start, cpu = time.perf_counter(), time.process_time()
        model.fit(parts.X_train, parts.y_train)
        fitted, cpu = time.perf_counter(), time.process_time() - cpu
        metrics = measure(model, kind, parts)
        done = time.perf_counter()
    record = {
        "status": "ok",
        "rows": len(data.y),
        "columns": data.X.shape[1],
        "prepared_columns": parts.X_train.shape[1],
        "fit_s": fitted - start,
        "fit_cpu_s": cpu,
        "predict_s": done - fitted,
        "fit_mb": (peak_bytes() - before) / 1e6,
        "warnings": caught,
    } | metrics
    yield record
    if hasattr(model, "extras"):
        yield record | model.extras(parts.X_test, parts.y_test)


def measure(model: Any, kind: str, parts: Split) -> dict[str, float]:
    """Test metrics. A log loss of 0 probability is scikit-learn's: clipped at the last digit."""
    X, y = parts.X_test, parts.y_test
    if kind == "regression":
        prediction = np.asarray(model.predict(X), dtype=np.float64).ravel()
        return {
            "rmse": float(root_mean_squared_error(y, prediction)),
            "mae": float(mean_absolute_error(y, prediction)),
            "r2": float(r2_score(y, prediction)),
        }
    labels = np.asarray(model.predict(X)).ravel().astype(float)
    metrics = {"error": float((labels != y).mean())}
    shares = np.asarray(model.predict_proba(X), dtype=np.float64)
    shares /= shares.sum(axis=1, keepdims=True)
    metrics["log_loss"] = float(log_loss(y, shares, labels=np.arange(shares.shape[1])))
    if shares.shape[1] == 2:
        metrics["auc"] = float(roc_auc_score(y, shares[:, 1]))
    return metrics


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect distinct warnings, shortened, instead of printing them."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    texts += sorted({f"{w.category.__name__}: {w.message}"[:160] for w in caught})[:5]


def peak_bytes() -> int:
    """Largest resident size of this process since the last reset, where the system counts it."""
    if STATUS.exists():
        line = next(x for x in STATUS.read_text().splitlines() if x.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    unit = 1 if os.uname().sysname == "Darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def reset_peak() -> int:
    """Start a new peak if the system can do it, and return the present one."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_bytes()


def _warm_up(adapter: Any, kind: str, params: dict[str, Any]) -> None:
    """Fit made data, so that loading compiled code is not timed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=300)
    y = (y > 0).astype(int) if kind == "classification" else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = adapter.build(kind, 0, **params | {"n_estimators": 5})
        measure(model.fit(X, y), kind, Split(X, X, y, y))


def _follow(channel: Any) -> None:
    """End with the run, so that no task outlives it even if it was killed.

    The run never sends anything; its end of the channel closes with its process. The process that
    this one was forked from is no sign: it lives on while it has children.
    """
    with suppress(EOFError, OSError):
        channel.recv()
    os._exit(1)
