"""`kpp fit --dask` and `kpp predict --dask`: Parquet in, Parquet out, on a cluster."""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp.cli.console import Terminal
from kpp.cli.files import load_model, save_model
from kpp.cli.predict import check_folds, check_width
from kpp.models.left_rows import n_fit_rows
from kpp.tables.errors import UserError, check_columns
from kpp.tables.fitting import FitOptions
from kpp.tables.numbers import short
from kpp.tables.target import read_target

# The word for a cluster of this machine's own.
LOCAL = "local"
# How long a scheduler may take to answer.
PATIENCE = "10s"
# Rows that say which task a target makes.
LOOKED_AT = 10_000
# In so many parts groups are cut, some of which are for a test.
FINE = 1 << 20


@contextmanager
def connected(address: str, terminal: Terminal) -> Iterator[Any]:
    """A client of the scheduler at an address, or of workers of this machine."""
    distributed = optional("distributed", "--dask", "dask")
    try:
        if address == LOCAL:
            client = distributed.Client(threads_per_worker=1, dashboard_address=":0")
        else:
            client = distributed.Client(address, timeout=PATIENCE)
    except (OSError, TimeoutError, ValueError) as error:
        raise UserError(f"No Dask scheduler answers at '{address}': {error}.") from error
    try:
        terminal.note(f"Dask: {client.scheduler.address}, dashboard {client.dashboard_link}.")
        yield client
    except ConnectionError as error:
        raise UserError(str(error)) from error
    finally:
        client.close()
        if address == LOCAL and client.cluster is not None:
            client.cluster.close()


def read_parquet(pattern: str) -> Any:
    """The rows of Parquet files, or of a folder of them, lazily."""
    frames = optional("dask.dataframe", "--dask", "dask")
    if "://" not in pattern and not glob(pattern):
        raise UserError(f"There is no file {pattern}.")
    try:
        return frames.read_parquet(pattern)
    except (OSError, ValueError) as error:
        raise UserError(f"{pattern} cannot be read as Parquet: {error}.") from error


def run_dask_fit(
    pattern: str, options: FitOptions, out: Path | None, address: str, terminal: Terminal
) -> int:
    """Fit Parquet files on a cluster, save the model and say how good it is."""
    from kpp.dask import DaskKPPClassifier, DaskKPPRegressor

    options.check()
    if options.regime != "shared":
        raise UserError(
            f"--regime {options.regime} does not go with --dask: only shared does, and from Python "
            "fixed, by a given forest."
        )
    if options.loss != "squared":
        raise UserError(f"--loss {options.loss} does not go with --dask: only squared errors do.")
    forest = options.forest
    path = Path("model.kpp") if out is None else out
    with connected(address, terminal) as client:
        frame = read_parquet(pattern)
        names = [str(name) for name in frame.columns]
        if options.target is None:
            raise UserError(f"Which column of {pattern} is to be predicted? Give --target.")
        check_columns([options.target], names, "--target", pattern)
        others = (options.weights, options.groups, options.id)
        kept = [name for name in others if name is not None]
        told = "--drop, --weights, --groups or --id"
        check_columns([*options.drop, *kept], names, told, pattern)
        target = _target(frame, options, pattern)
        terminal.note(f"Task: {target.task}, since {target.reason}.")
        left_out = {options.target, *options.drop, *kept}
        used = [name for name in names if name not in left_out]
        frame, test = _split(frame.dropna(subset=[options.target]), used, options)
        kind = DaskKPPClassifier if target.task == "classification" else DaskKPPRegressor
        model = kind(
            forest,
            n_estimators=options.trees,
            alpha=options.penalty(),
            cv=options.folds,
            random_state=options.seed,
            verbose=int(terminal.shows_progress),
            client=client,
        )
        start = time.perf_counter()
        weight = None if options.weights is None else frame[options.weights]
        groups = None if options.groups is None else frame[options.groups]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(frame[used], frame[options.target], weight, groups)
        for text in dict.fromkeys(str(w.message) for w in caught if w.category is UserWarning):
            terminal.warn(text)
        seconds = time.perf_counter() - start
        score = None if test is None else _score(model, test, used, options.target)
    local = model.to_local()
    summary = {
        "data": pattern,
        "target": options.target,
        "task": target.task,
        "task_reason": target.reason,
        "rows_fitted": n_fit_rows(local),
        "columns": used,
        "forest": forest,
        "trees": sum(block.forest.n_trees for block in local.additive_.blocks),
        "alpha": local.alpha_,
        "seconds": seconds,
        "test_score": score,
        "model": str(path),
    }
    said = {"target": options.target, "task": target.task, "task_reason": target.reason}
    save_model(local, path, said)
    if terminal.json:
        terminal.result(summary)
        return 0
    name = "share of right classes" if target.task == "classification" else "R2"
    terminal.facts(
        [
            ("data", f"{pattern}, target '{options.target}', {target.task}"),
            ("forest", f"{forest}, {summary['trees']} trees, grown on partitions"),
            ("alpha", _alphas(local.alpha_)),
            ("time", f"{seconds:.1f} s"),
            ("test rows", "none" if score is None else f"{name} {short(score)}"),
            ("model", str(path)),
        ]
    )
    return 0


def run_dask_predict(
    model: Path,
    pattern: str,
    out: Path | None,
    address: str,
    *,
    proba: bool,
    interval: float | None,
    width: str | None,
    terminal: Terminal,
) -> int:
    """Predict Parquet files on a cluster, into a folder of Parquet files."""
    from kpp.dask.lazy import LazyModel

    check_width(width, interval)
    if out is None:
        raise UserError("With --dask predictions are a folder of Parquet files: give --out.")
    if out.exists():
        raise UserError(f"{out} is there already; give another --out.")
    loaded = load_model(model, terminal).model
    names = getattr(loaded, "feature_names_in_", None)
    if names is None or hasattr(loaded, "steps"):
        raise UserError("--dask is for models that were fitted with --dask, or on a data frame.")
    if interval is not None:
        check_folds(loaded, "--interval")
    with connected(address, terminal):
        frame = read_parquet(pattern)
        check_columns([str(name) for name in names], list(frame.columns), "the model", pattern)
        rows = frame[[str(name) for name in names]]
        asked = LazyModel(loaded)
        found = asked.predict(rows).to_frame("prediction")
        if proba:
            more = asked.predict_proba(rows)
            found = found.assign(**{f"probability_{c}": more[c] for c in more.columns})
        if interval is not None:
            how = {} if width is None else {"width": str(width)}
            ends = asked.predict_interval(rows, interval, **how)
            found = found.assign(lower=ends["lower"], upper=ends["upper"])
        # Whole or not at all: the folder has its name when all files are in it.
        unfinished = out.with_name(f".{out.name}.{os.getpid()}")
        try:
            found.to_parquet(str(unfinished))
            unfinished.rename(out)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    terminal.note(f"Predictions: {out}, {len(list(out.glob('*.parquet')))} files.")
    return 0


def _split(frame: Any, used: list[str], options: FitOptions) -> tuple[Any, Any]:
    """Rows to fit and rows to test: of another file, or some; whole groups where there are any."""
    target = str(options.target)
    if options.test is not None:
        test = read_parquet(str(options.test))
        check_columns([*used, target], [str(n) for n in test.columns], "the fit", str(options.test))
        return frame, test.dropna(subset=[target])
    if options.test_size == 0:
        return frame, None
    if options.groups is None:
        shares = [1 - options.test_size, options.test_size]
        return tuple(frame.random_split(shares, random_state=options.seed))
    common = (options.groups, options.test_size, options.seed)
    fit, test = (
        frame.map_partitions(_of_groups, *common, tested, meta=frame._meta)
        for tested in (False, True)
    )
    return fit, test


def _of_groups(rows: Any, column: str, share: float, seed: int, tested: bool) -> Any:
    """The rows of a partition whose groups are among those for a test, or among the others."""
    from kpp.dask.folds import fold_of_prints, group_prints

    place = fold_of_prints(group_prints(rows[column]), FINE, seed + 1)
    return rows[(place < share * FINE) == tested]


def _target(frame: Any, options: FitOptions, pattern: str) -> Any:
    """The task of the target, from its first rows."""
    for part in frame.partitions:
        head = part[[options.target]].head(LOOKED_AT, compute=True)
        if len(head):
            return read_target(head, str(options.target), options.task, pattern)
    raise UserError(f"{pattern} has no rows.")


def _alphas(alpha: Any) -> str:
    """The penalty, or that of every block of a blend."""
    if not isinstance(alpha, dict):
        return short(alpha)
    return ", ".join(f"{short(own)} ({name})" for name, own in alpha.items())


def _score(model: Any, test: Any, used: list[str], target: str) -> float:
    """Share of right classes, or R2, on test rows."""
    predicted, true = model.predict(test[used]), test[target]
    if hasattr(model, "classes_"):
        return float((predicted == true).mean().compute())
    errors = ((true - predicted) ** 2).sum()
    values = [float(np.asarray(v)) for v in (errors.compute(), true.var(ddof=0).compute())]
    return 1 - values[0] / (values[1] * int(true.count().compute()))
