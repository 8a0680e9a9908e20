"""Rules, raw certificates and the report on large models: seconds, also before and after a change.

Run ``python benchmarks/speed_report.py --out benchmarks/results``. Rules and raw radii are of a
regressor on 10,000 rows of friedman1 with noise (100 unpruned extra trees), the report of a
classifier on 100,000 made rows of 45 columns, 25 of numbers and 20 of names, with noise, of which
20,000 are its test rows. ``--fits`` keeps the fitted models in a folder, for the next run;
``--before`` shows the figures that an earlier version wrote beside these.

Seconds are of the processor, in one thread: on a machine that others use too they are what a run of
one's own would take.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification, make_friedman1
from sklearn.pipeline import Pipeline
from timing import describe, versions, write

from kpp import KPPRegressor, certify, certify_raw, explain_rules, explain_training_rows
from kpp.reports.sections import row_details
from kpp.reports.subject import Subject
from kpp.tables.fitting import FitOptions, build

RULES_AIM, REPORT_AIM = 2.0, 60.0
SECTIONS = (
    "fitted",
    "quality",
    "alpha",
    "variables",
    "rows",
    "picture",
    "robustness",
    "bounds",
    "findings",
    "appendix",
)


def seconds_of(work: Callable[[], Any]) -> float:
    """Seconds of the processor that a piece of work takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def made_numbers(n_train: int, n_rows: int) -> tuple[Any, ...]:
    """A regressor and rows that it has not seen."""
    X, y = make_friedman1(n_train + n_rows, 10, noise=1.0, random_state=0)
    model = KPPRegressor("extra-trees", n_estimators=100, random_state=0).fit(
        X[:n_train], y[:n_train]
    )
    return model, X[n_train:]


def made_table(n_rows: int, n_trees: int) -> tuple[Any, ...]:
    """A classifier with its preparation, the rows of its fit, and test rows."""
    random = np.random.default_rng(0)
    Z, y = make_classification(
        n_rows, 45, n_informative=20, n_redundant=5, flip_y=0.2, random_state=0
    )
    X = pd.DataFrame({f"n{j}": Z[:, j] for j in range(25)})
    for j in range(25, 45):
        k = int(random.integers(3, 12))
        cuts = np.quantile(Z[:, j], np.linspace(0, 1, k + 1)[1:-1])
        codes = np.digitize(Z[:, j] + random.normal(size=n_rows), cuts)
        X[f"c{j}"] = np.array([f"v{c}" for c in range(k)], dtype=object)[codes]
    X.loc[random.random(n_rows) < 0.05, "n3"] = np.nan
    order, n_train = np.random.default_rng(1).permutation(n_rows), 4 * n_rows // 5
    train, test = np.sort(order[:n_train]), np.sort(order[n_train:])
    pipeline: Pipeline = build("classification", FitOptions(trees=n_trees, jobs=2))
    X_train = X.iloc[train].reset_index(drop=True)
    pipeline.fit(X_train, y[train])
    return pipeline, X_train, y[train], X.iloc[test].reset_index(drop=True), y[test]


def kept(name: str, make: Callable[[], Any], folder: Path | None) -> Any:
    """What was made in an earlier run, or made now and kept."""
    path = None if folder is None else folder / f"{name}.pickle"
    if path is not None and path.exists():
        return pickle.loads(path.read_bytes())
    made = make()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(made))
    return made


def measure_questions(model: Any, X: Any, n_rules: int) -> dict[str, float]:
    """Questions about single rows of the regressor, after one for compilation and tables."""
    model.set_params(n_jobs=1)
    epsilon: dict[str, Any] = {"epsilon": 1.0}
    found = {}
    first = seconds_of(lambda: explain_rules(model, X[0]))
    rows = X[1 : 1 + n_rules]
    found["explain_rules, the first row"] = first
    found[f"explain_rules, {n_rules} rows"] = seconds_of(
        lambda: [explain_rules(model, x) for x in rows]
    )
    explain_training_rows(model, X[0])
    found["explain_training_rows, 10 rows"] = seconds_of(
        lambda: [explain_training_rows(model, x) for x in X[:10]]
    )
    raw: dict[str, Any] = {"scale": "std", **epsilon}
    certify_raw(model, X[:1], effort=10, **raw)
    found["certify_raw without search, 10 rows, one call"] = seconds_of(
        lambda: certify_raw(model, X[:10], effort=0, **raw)
    )
    found["certify_raw without search, 10 rows, a call each"] = seconds_of(
        lambda: [certify_raw(model, x, effort=0, **raw) for x in X[:10]]
    )
    found["certify_raw, effort 1000, 4 rows"] = seconds_of(
        lambda: certify_raw(model, X[:4], effort=1000, **raw)
    )
    certify(model, X[:2], **epsilon)
    found["certify, 100 rows"] = seconds_of(lambda: certify(model, X[:100], **epsilon))
    return found


def measure_report(fitted: tuple[Any, ...], max_rows: int) -> tuple[dict[str, float], bool]:
    """Every section of a report, the parts of the rows to explore, and whether all were made."""
    pipeline, X_train, y_train, X, y = fitted
    pipeline[-1].set_params(n_jobs=1)
    found: dict[str, float] = {}
    sections: dict[str, Any] = {}
    parts = dict(row_details.PARTS)

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            start = time.process_time()
            try:
                return work(*arguments)
            finally:
                found[name] = time.process_time() - start

        return run

    row_details.PARTS.update({name: timed(f"rows, {name}", part) for name, part in parts.items()})
    given: dict[str, Any] = {"sample_weight": None, "train": (X_train, y_train), "y_range": None}
    try:
        start = time.process_time()
        subject = Subject.read(pipeline, X, y, max_rows=max_rows, random_state=0, **given)
        found["reading"] = time.process_time() - start
        for name in SECTIONS:
            make = timed(name, import_module(f"kpp.reports.sections.{name}").make)
            sections[name] = make(subject, lambda *_: None) if name == "rows" else make(subject)
        found["in all"] = time.process_time() - start
    finally:
        row_details.PARTS.update(parts)
    rows = sections["rows"]["rows"]
    complete = len(rows) == max_rows and all(set(row_details.PARTS) <= set(row) for row in rows)
    return found, complete


def to_markdown(result: dict[str, Any]) -> str:
    """The page."""
    before = result["before"]
    ahead = " before, s | times faster |" if before else ""
    lines = [
        "# Rules, raw certificates and the report on large models",
        "",
        f"Written by `benchmarks/speed_report.py`; {describe(result)}",
        "",
        "Seconds of the processor, in one thread."
        + (" Before: the same script with the code of an earlier version." if before else ""),
        "",
    ]
    for title, key in (
        (
            f"Single rows of a regressor on {result['train']:,} rows of friedman1 with noise, 100 "
            f"unpruned extra trees, {result['nodes']:,} nodes. The aim for the rules of 100 rows "
            f"is {RULES_AIM:g} s.",
            "questions",
        ),
        (
            f"The report on a made table of {result['table']:,} rows and 45 columns (20 of names), "
            f"a fifth of them test rows, {result['trees']} extra trees, {result['table_nodes']:,} "
            f"nodes, {result['max_rows']} rows to explore, all complete: "
            f"{'yes' if result['complete'] else 'no'}. The aim is {REPORT_AIM:g} s beyond the fit.",
            "report",
        ),
    ):
        lines += [title, "", f"| what | seconds |{ahead}", "|---|---|" + "---|" * bool(ahead) * 2]
        for what, seconds in result[key].items():
            line = f"| {what} | {seconds:.2f} |"
            if before:
                old = before[key].get(what)
                line += " | |" if old is None else f" {old:.2f} | {old / max(seconds, 1e-3):.1f} |"
            lines.append(line)
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Run both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--quick", action="store_true", help="small data, to try it out")
    parser.add_argument("--fits", type=Path, help="folder that keeps the fitted models")
    parser.add_argument("--rows", type=int, help="rows to explore in the report; 0 for no report")
    parser.add_argument("--before", type=Path, help="speed_report.json of an earlier version")
    arguments = parser.parse_args()
    quick = arguments.quick
    n_train, n_rules = (200, 5) if quick else (10_000, 100)
    n_table, n_trees, max_rows = (300, 5, 3) if quick else (100_000, 100, 60)
    if arguments.rows is not None:
        max_rows = arguments.rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, X = kept("numbers", lambda: made_numbers(n_train, 1000), arguments.fits)
        questions = measure_questions(model, X, n_rules)
        nodes = model.forest_.n_nodes
        del model
        report: dict[str, float] = {}
        complete, table_nodes = False, 0
        if max_rows > 0:
            fitted = kept("table", lambda: made_table(n_table, n_trees), arguments.fits)
            report, complete = measure_report(fitted, max_rows)
            table_nodes = sum(block.forest.n_nodes for block in fitted[0][-1].additive_.blocks)
    result = {
        **versions(),
        "train": n_train,
        "nodes": nodes,
        "table": n_table,
        "trees": n_trees,
        "table_nodes": table_nodes,
        "max_rows": max_rows,
        "complete": complete,
        "questions": questions,
        "report": report,
        "before": json.loads(arguments.before.read_text()) if arguments.before else None,
    }
    write("speed_report", result, to_markdown(result), arguments.out)


if __name__ == "__main__":
    main()
