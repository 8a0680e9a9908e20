"""Do the dashboard's observables predict trouble? Measured on the development sets only.

Run ``python benchmarks/findings_calibration.py --data-dir FOLDER --out benchmarks/results``. For
every set, models of several seeds are fitted on the same training rows, with the chosen alpha and
with a hundredth and a hundred times of it. Trouble is (a) instability: the mean squared difference
of two seeds' predictions on test rows, relative to the spread of the predictions; (b) the gap:
one minus the training loss over the test loss. The table gives Spearman's correlation of every
observable with both, over all fits, and quantiles of the observable at the chosen alpha, which the
thresholds of the findings are read from.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_defaults import prepared
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from timing import describe, versions, write

from kpp import KPPClassifier, KPPRegressor
from kpp.diagnostics import diagnose
from kpp.diagnostics.findings import CHECKS

FACTORS = (0.01, 1.0, 100.0)
FIGURES = (
    "trace_per_row",
    "effective_dimension_per_row",
    "condition_number",
    "relative_discrepancy",
    "adjusted_gain_share",
    "margins_near_zero",
    "relative_radius",
)


def scores(model: Any, X: Any) -> Any:
    return model.predict_proba(X)[:, 1] if hasattr(model, "classes_") else model.predict(X)


def loss(model: Any, X: Any, y: Any) -> float:
    if hasattr(model, "classes_"):
        return float(log_loss(y, model.predict_proba(X), labels=model.classes_))
    return float(np.mean((model.predict(X) - y) ** 2))


def evaluate(task: str, name: str, seeds: int, data_dir: str) -> list[dict[str, Any]]:
    X, y = prepared(name, data_dir, task == "classification")
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    estimator: Any = KPPClassifier if task == "classification" else KPPRegressor
    first = estimator("extra-trees", random_state=0).fit(X_train, y_train)
    rows = []
    for factor in FACTORS:
        model = estimator("extra-trees", alpha=first.alpha_ * factor)
        fits = [
            clone(model).set_params(random_state=seed).fit(X_train, y_train)
            for seed in range(seeds)
        ]
        predictions = np.array([scores(fit, X_test) for fit in fits])
        spread = float(np.var(predictions.mean(axis=0))) or 1.0
        unstable = float(2 * predictions.var(axis=0, ddof=1).mean() / spread)
        found = diagnose(fits[0], X_test, y_test)
        figures = {o.name: o.value for o in found.observables}
        test_loss = loss(fits[0], X_test, y_test)
        rows.append(
            {
                "data": name,
                "task": task,
                "factor": factor,
                "instability": unstable,
                "gap": 1 - loss(fits[0], X_train, y_train) / test_loss,
                "codes": found.codes,
                **{figure: figures.get(figure, float("nan")) for figure in FIGURES},
            }
        )
    return rows


def correlation(rows: list[dict[str, Any]], figure: str, trouble: str) -> tuple[float, float]:
    pairs = np.array([(row[figure], row[trouble]) for row in rows], dtype=float)
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    if len(pairs) < 4:
        return float("nan"), float("nan")
    found = spearmanr(pairs[:, 0], pairs[:, 1])
    return float(found.statistic), float(found.pvalue)


def to_markdown(result: dict[str, Any]) -> str:
    rows = result["fits"]
    lines = [
        "# Do the findings predict trouble?",
        "",
        f"Written by `benchmarks/findings_calibration.py`. {describe(result)}",
        "",
        f"{len(rows)} fits: every development set, at the chosen alpha, a hundredth and a hundred "
        "times of it. Spearman's correlation with the instability between seeds and with the gap "
        "between training and test loss; p-values in brackets, not corrected for the number of "
        "rows. Fits of one set are not independent, so p-values are too small. Quantiles are over "
        "the sets, at the chosen alpha.",
        "",
        "| task | observable | instability | gap | 20% | 50% | 80% |",
        "|---|---|---|---|---|---|---|",
    ]
    for task in ("classification", "regression"):
        own = [row for row in rows if row["task"] == task]
        for figure in FIGURES:
            chosen = [r[figure] for r in own if r["factor"] == 1 and np.isfinite(r[figure])]
            if not chosen:
                continue
            cells = []
            for trouble in ("instability", "gap"):
                rho, p = correlation(own, figure, trouble)
                cells.append(f"{rho:+.2f} ({p:.1g})")
            quantiles = " | ".join(f"{q:.3g}" for q in np.quantile(chosen, [0.2, 0.5, 0.8]))
            lines.append(f"| {task} | {figure} | {' | '.join(cells)} | {quantiles} |")
    lines += [
        "",
        "Median trouble of the fits with and without each finding, both tasks:",
        "",
        "| code | threshold | fits with | instability with, without | gap with, without |",
        "|---|---|---|---|---|",
    ]
    for check in CHECKS:
        if check.observable not in FIGURES:
            continue
        asked = [row for row in rows if np.isfinite(row[check.observable])]
        cells = []
        for trouble in ("instability", "gap"):
            parts = [
                [row[trouble] for row in asked if (check.code in row["codes"]) == inside]
                for inside in (True, False)
            ]
            cells.append(", ".join(f"{np.median(p):.2g}" if p else "none" for p in parts))
        count = sum(check.code in row["codes"] for row in asked)
        lines.append(
            f"| {check.code} | {'above' if check.above else 'below'} {check.threshold:g} "
            f"| {count} of {len(asked)} | {' | '.join(cells)} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sets", nargs="*", help="only these data sets")
    parser.add_argument("--seeds", type=int, default=4)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    suite = json.loads((Path(arguments.data_dir) / "suite.json").read_text())
    result: dict[str, Any] = {**versions(), "fits": []}
    for task, names in suite["development"].items():
        for name in names:
            if not arguments.sets or name in arguments.sets:
                result["fits"] += evaluate(task, name, arguments.seeds, arguments.data_dir)
                print(name, flush=True)
    write("findings_calibration", result, to_markdown(result), arguments.out)


if __name__ == "__main__":
    main()
