"""What the default tolerance of a fit costs: predictions, certificates and bounds.

Run ``python benchmarks/tolerance.py --data-dir FOLDER --out benchmarks/results``. On every
development set the same model is fitted with the default ``tol`` and with one that leaves rounding
only, and compared on a quarter of the rows that was held out: the largest difference of a
prediction, the change of the score, of certified radii, and of an honest model's guaranteed error.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from leaf_size import rows_of
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from timing import describe, versions, write

from kpp import KPPClassifier, KPPRegressor, certify, risk_bounds

REGRESSION = (  # noqa: SIM905
    "abalone airfoil_self_noise auto_mpg bodyfat boston_housing diabetes energy_cooling "
    "machine_cpu servo stock yacht ailerons brazilian_rent car_msrp gas_turbine_nox kc_house "
    "seoul_bike wind"
).split()
CLASSES = (  # noqa: SIM905
    "banknote blood_transfusion churn credit_g heart_statlog ilpd ionosphere pima_diabetes "
    "qsar_biodeg sonar tic_tac_toe bank_churners employee_promotion higgs_7k htru2 telco_churn "
    "dry_bean nursery student_dropout"
).split()
TIGHT = 1e-16
MOST_ROWS, MOST_CERTIFIED = 4000, 200


def compare(X: Any, y: Any, classification: bool, n_estimators: int) -> dict[str, Any]:
    """One row of the table."""
    split = train_test_split(
        X, y, test_size=0.25, random_state=0, stratify=y if classification else None
    )
    X_train, X_test, y_train, y_test = split
    kind: Any = KPPClassifier if classification else KPPRegressor
    options: dict[str, Any] = {"n_estimators": n_estimators, "random_state": 0}
    pairs = [
        kind("extra-trees", tol=tol, max_iter=20_000, **options).fit(X_train, y_train)
        for tol in (kind().tol, TIGHT)
    ]
    if classification:
        answers = [model.predict_proba(X_test) for model in pairs]
        scores = [float(log_loss(y_test, p, labels=pairs[0].classes_)) for p in answers]
        unit = 1.0
    else:
        answers = [model.predict(X_test) for model in pairs]
        scores = [float(np.sqrt(np.mean((p - y_test) ** 2))) for p in answers]
        unit = float(np.std(y_train))
    few = X_test[:MOST_CERTIFIED]
    epsilon = None if classification else unit / 10
    radii = [np.minimum(certify(model, few, epsilon=epsilon).radius, 1.0) for model in pairs]
    row: dict[str, Any] = {
        "products": [int(model.n_iter_) for model in pairs],
        "same_alpha": bool(pairs[0].alpha_ == pairs[1].alpha_),
        "prediction": float(np.abs(answers[0] - answers[1]).max()) / unit,
        "score": scores[0] / scores[1] - 1,
        "radius": float(np.abs(radii[0] - radii[1]).max() / max(np.median(radii[1]), 1e-300)),
    }
    if classification and len(np.unique(y)) == 2:
        bounds = []
        for tol in (kind().tol, TIGHT):
            honest = kind(
                "extra-trees",
                regime="honest",
                center="partition",
                tol=tol,
                max_iter=20_000,
                **options,
            ).fit(X_train, y_train)
            report = risk_bounds(honest, X_train, y_train, independent_duplicates=True)
            bounds.append(float(report["PAC-Bayes-kl"].total))
        row["bound"] = abs(bounds[0] - bounds[1])
    return row


def to_markdown(result: dict[str, Any]) -> str:
    """The page."""
    rows = result["sets"]
    largest = {
        key: max(abs(row[key]) for row in rows if key in row)
        for key in ("prediction", "score", "radius", "bound")
        if any(key in row for row in rows)
    }
    lines = [
        "# What the default tolerance costs",
        "",
        f"Written by `benchmarks/tolerance.py`: the default `tol` against {TIGHT:g}, on a quarter "
        f"of the rows (at most {MOST_ROWS} in all) of every development set. Predictions in "
        "standard deviations of the target, or as probabilities; radii relative to their median, "
        "the largest difference of any row; bounds of two classes, honest models.",
        "",
        describe(result),
        "",
        "| set | products, default and tight | largest difference of a prediction | change of RMSE "
        "or log loss | of a radius | of the guaranteed error |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['name']} | {row['products'][0]}, {row['products'][1]} | {row['prediction']:.1e} "
        f"| {row['score']:+.1e} | {row['radius']:.1e} "
        f"| {format(row['bound'], '.1e') if 'bound' in row else ''} |"
        for row in rows
    ]
    lines.append(
        "| largest | | "
        + " | ".join(format(value, ".1e") for value in largest.values())
        + " |" * (5 - len(largest))
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compare on all sets, or on one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="diabetes alone, few trees")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    names = [(name, False) for name in REGRESSION] + [(name, True) for name in CLASSES]
    sets = []
    for name, classification in [("diabetes", False)] if arguments.quick else names:
        if name == "diabetes":
            X, y = load_diabetes(return_X_y=True)
        else:
            X, y = rows_of(name, classification, MOST_ROWS, arguments.data_dir)
        found = compare(X, y, classification, 5 if arguments.quick else 100)
        sets.append({"name": name} | found)
        print(sets[-1], flush=True)
    result = {**versions(), "sets": sets}
    write("tolerance", result, to_markdown(result), arguments.out)


if __name__ == "__main__":
    main()
