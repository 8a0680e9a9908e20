"""Bounds in the honest regime, beside the errors that they bound.

Run ``python benchmarks/bounds_honest.py --data-dir FOLDER --out benchmarks/results``. The folder
holds ``<name>.csv.gz`` and ``suite.json``, which names the sets. For every set and seed: 20% test
rows, half of the others grow the forest and fit the centre, the other half is the fit fold. The
splits are not stratified: a stratified one would break the independence that the bounds rest on.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_defaults import prepared
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from timing import describe, versions

from kpp import KPPClassifier, KPPRegressor
from kpp.bounds import bound_path

DELTA = 0.05
MAX_ROWS = 10_000
STEPS = 10.0 ** np.arange(0, 5.5, 0.5)


def read(name: str, task: str, data_dir: str, max_rows: int) -> tuple[Any, Any]:
    X, y = prepared(name, data_dir, task == "classification")
    if len(X) > max_rows:
        rows = np.random.default_rng(0).choice(len(X), max_rows, replace=False)
        X, y = X[rows], y[rows]
    return X, y


def measure(task: str, name: str, seed: int, X: Any, y: Any, n_estimators: int) -> dict[str, Any]:
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
    estimator: Any = KPPClassifier if task == "classification" else KPPRegressor
    model = estimator(
        "extra-trees",
        regime="honest",
        center="partition",
        n_estimators=n_estimators,
        random_state=seed,
    ).fit(X_train, y_train)
    common = {
        "X_test": X_test,
        "y_test": y_test,
        "alphas": model.alpha_ * STEPS,
        "delta": DELTA,
    }
    path = bound_path(model, X_train, y_train, **common)
    other = "ramp" if task == "classification" else "clipped squared loss"
    rademacher = bound_path(model, X_train, y_train, bound=other, **common)
    assert path.test_risk is not None
    level, n = path.trivial_level, path.n_rows
    near = int(np.argmin(path.bound[:-1]))
    feasible = bool(
        np.log(path.n_cells / DELTA) / n < level / path.scale / 4
        and path.test_risk[path.chosen] < level / 2
    )
    return {
        "data": name,
        "seed": seed,
        "n_fit": n,
        "n_cells": path.n_cells,
        "level": level,
        "scale": path.scale,
        "alpha": float(path.alphas[path.chosen]),
        "B": float(path.radius[path.chosen]),
        "bound": float(path.bound[path.chosen]),
        "rademacher": float(rademacher.bound[rademacher.chosen]),
        "test": float(path.test_risk[path.chosen]),
        "best_alpha": float(path.alphas[path.best]),
        "best_B": float(path.radius[path.best]),
        "best_bound": float(path.bound[path.best]),
        "best_test": float(path.test_risk[path.best]),
        "best_rademacher": float(rademacher.bound.min()),
        "finite_bound": float(path.bound[near]),
        "finite_B": float(path.radius[near]),
        "finite_test": float(path.test_risk[near]),
        "center_test": float(path.test_risk[-1]),
        "center_bound": path.center_bound,
        "rows_needed": path.rows_needed,
        "infeasible": path.infeasible,
        "feasible": feasible,
    }


def means(rows: list[dict[str, Any]]) -> dict[str, Any]:
    keys = [k for k in rows[0] if all(isinstance(row[k], int | float) for row in rows)]
    return {k: float(np.mean([row[k] for row in rows])) for k in keys}


def by_data(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["data"], []).append(row)
    return found


def honest_table(task: str, rows: list[dict[str, Any]]) -> list[str]:
    classes = task == "classification"
    unit = "error" if classes else "squared error over the variance"
    lines = [
        f"## {task}: {unit}, means over seeds",
        "",
        "| data | n fit | trivial | chosen: test w | PAC-Bayes | Rademacher | B "
        "| best finite: test w | PAC-Bayes | B "
        "| bound-optimal: test w | PAC-Bayes | Rademacher | B | centre: test w0 | held-out bound "
        "| feasible | below trivial | rows needed |",
        "|---" * 19 + "|",
    ]
    for name, group in by_data(rows).items():
        mean = means(group)
        size = 1.0 if classes else mean["level"]
        feasible = sum(row["feasible"] for row in group)
        below = sum(row["best_bound"] < row["level"] for row in group)
        needed = [row["rows_needed"] for row in group]
        known = [count for count in needed if count is not None]
        shown = f"{int(np.median(known)):,}" if len(known) == len(needed) else "never"
        lines.append(
            f"| {name} | {mean['n_fit']:.0f} | {mean['level']:.4g} "
            f"| {mean['test'] / size:.3f} | {mean['bound'] / size:.3f} "
            f"| {mean['rademacher'] / size:.3f} | {mean['B']:.3g} "
            f"| {mean['finite_test'] / size:.3f} | {mean['finite_bound'] / size:.3f} "
            f"| {mean['finite_B']:.3g} "
            f"| {mean['best_test'] / size:.3f} | {mean['best_bound'] / size:.3f} "
            f"| {mean['best_rademacher'] / size:.3f} "
            f"| {mean['best_B']:.3g} | {mean['center_test'] / size:.3f} "
            f"| {mean['center_bound'] / size:.3f} | {feasible} of {len(group)} "
            f"| {below} of {len(group)} | {shown} |"
        )
    return [*lines, "", *verdict(task, rows)]


def verdict(task: str, rows: list[dict[str, Any]]) -> list[str]:
    classes = task == "classification"
    feasible = [row for row in rows if row["feasible"]]
    below = [row for row in feasible if row["best_bound"] < row["level"]]
    text = [
        f"Feasible (log(N/delta)/n below a quarter of the trivial level, test risk below half of "
        f"it): {len(feasible)} of {len(rows)} runs. Bound-optimal PAC-Bayes bound below the "
        f"trivial level: {len(below)} of these {len(feasible)}, and "
        f"{sum(row['best_bound'] < row['level'] for row in rows)} of all {len(rows)}."
    ]
    if feasible:
        size = [1.0 if classes else row["level"] for row in feasible]
        excess = np.mean(
            [(r["best_bound"] - r["best_test"]) / s for r, s in zip(feasible, size, strict=True)]
        )
        unit = "" if classes else " of the variance"
        target = " (target 0.08)" if classes else ""
        text[0] += f" Mean excess over the test risk there: {excess:.3f}{unit}{target}."
    broken = [r for r in rows if r["best_bound"] < r["best_test"] or r["bound"] < r["test"]]
    text[0] += (
        f" Bounds below the test risk: {len(broken)} of {len(rows)}; the test risk is an estimate "
        "itself."
    )
    missed = [row for row in feasible if row["best_bound"] >= row["level"]]
    text += [""] * bool(missed)
    text += [
        f"Missed although feasible: {row['data']}, seed {row['seed']}: bound "
        f"{row['best_bound']:.3f}, trivial level {row['level']:.3f}, n = {row['n_fit']}."
        for row in missed
    ]
    centre = sum(not np.isfinite(row["best_alpha"]) for row in rows)
    text.append("")
    text.append(
        f"The bound-optimal alpha is infinite, the centre itself, in {centre} of {len(rows)} runs: "
        "there the bound is a held-out bound of w0, and the plain one beside it is smaller."
    )
    lines = [
        f"- {name}: {reason(group)}"
        for name, group in by_data(rows).items()
        if not all(row["feasible"] for row in group)
    ]
    if lines:
        text += ["", "Not feasible in some seed:", "", *lines]
    return [*text, ""]


def reason(group: list[dict[str, Any]]) -> str:
    """Which of the two conditions fails, in how many seeds."""
    found = []
    price = [np.log(row["n_cells"] / DELTA) / row["n_fit"] for row in group]
    dear = [p >= r["level"] / r["scale"] / 4 for p, r in zip(price, group, strict=True)]
    if any(dear):
        share = np.mean([row["level"] / row["scale"] for row in group])
        found.append(
            f"log(N/delta)/n is {np.mean(price):.3g} and a quarter of the trivial level "
            f"{share / 4:.3g}, in {sum(dear)} of {len(group)} seeds"
        )
    weak = [row["test"] >= row["level"] / 2 for row in group]
    if any(weak):
        ratio = np.mean([row["test"] / row["level"] for row in group])
        found.append(
            f"the test risk is {ratio:.2f} of the trivial level, not below half in {sum(weak)} of "
            f"{len(group)} seeds"
        )
    never = [row["infeasible"] for row in group if row["infeasible"]]
    return "; ".join([*found, *never[:1]])


def page(result: dict[str, Any]) -> str:
    lines = [
        "# Bounds in the honest regime",
        "",
        f"Written by `benchmarks/bounds_honest.py`. {describe(result)} delta = {DELTA}.",
        "",
        '`KPPClassifier` and `KPPRegressor` with `regime="honest", center="partition"`, otherwise '
        "defaults. `chosen`: the alpha chosen for accuracy. `bound-optimal`: the alpha with the "
        "smallest bound, among that alpha times 1 to 1e5 (`best finite`) and infinity; one "
        "delta covers all. PAC-Bayes: row margins, or squared loss. For regression the limits are "
        "the range of the partition fold, so the bound speaks of the target clipped to it.",
        "",
    ]
    for task in ("classification", "regression"):
        if result["honest"].get(task):
            lines += honest_table(task, result["honest"][task])
    return "\n".join(lines).rstrip() + "\n"


def save(result: dict[str, Any], out: Path | None) -> None:
    if out:
        out.mkdir(parents=True, exist_ok=True)
        (out / "bounds_honest.json").write_text(json.dumps(result, indent=1) + "\n")
        (out / "bounds_honest.md").write_text(page(result))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sets", nargs="*", help="only these data sets")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--max-rows", type=int, default=MAX_ROWS)
    parser.add_argument("--resume", action="store_true", help="keep what the folder holds")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    suite = json.loads((Path(arguments.data_dir) / "suite.json").read_text())
    result: dict[str, Any] = {**versions(), "honest": {}}
    if arguments.resume and arguments.out and (arguments.out / "bounds_honest.json").exists():
        result |= json.loads((arguments.out / "bounds_honest.json").read_text())
    for group in ("development", "suite"):
        for task, names in suite.get(group, {}).items():
            for name in names:
                if arguments.sets and name not in arguments.sets:
                    continue
                rows = result["honest"].setdefault(task, [])
                if sum(row["data"] == name for row in rows) == arguments.seeds:
                    continue
                X, y = read(name, task, arguments.data_dir, arguments.max_rows)
                for seed in range(arguments.seeds):
                    rows.append(measure(task, name, seed, X, y, arguments.trees))
                print(name, flush=True)
                save(result, arguments.out)
    print(page(result))
    save(result, arguments.out)


if __name__ == "__main__":
    main()
