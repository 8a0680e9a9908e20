"""Table diabetes-honest: three regimes on the diabetes data."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import KFold, cross_val_predict, train_test_split
from suite.markdown import grid

from kpp import KPPRegressor
from kpp.bounds import partition_oracles
from paper.comparing import Row, as_records, comparison, summary
from paper.published import DIABETES, DIABETES_LAMBDA

GRID = np.logspace(-4, 4, 12)
LAMBDA = float(GRID[5])
FOLDS = KFold(5, shuffle=True, random_state=0)


def forest() -> Any:
    """The forest of all three regimes."""
    return RandomForestRegressor(30, max_depth=6, random_state=0)


def fitted(X: Any, y: Any, alpha: float = LAMBDA) -> Any:
    """Forest and ridge on the same rows."""
    return KPPRegressor(forest(), alpha=alpha, tol=1e-11).fit(X, y)


def fitted_apart(X: Any, y: Any, part: Any, fit: Any, alpha: float = LAMBDA) -> Any:
    """Forest on one part of the rows, ridge on the other."""
    grown = FrozenEstimator(forest().fit(X[part], y[part]))
    return KPPRegressor(grown, regime="fixed", alpha=alpha, tol=1e-11).fit(X[fit], y[fit])


def observables(model: Any, X: Any) -> dict[str, float]:
    """Trace, effective dimension, least eigenvalue of the uncentred Gram at rows; and the norm."""
    values = np.linalg.eigvalsh(model.map_.on(X).gram())
    return {
        "trace": float(values.sum() / len(X)),
        "d_eff": float((values / (values + model.alpha_)).sum() / len(X)),
        "mu_min": float(values[0]),
        "norm": float(np.linalg.norm(model.node_coef_)),
    }


def measure(model: Any, X: Any, y: Any) -> dict[str, float]:
    """A row of the table, on all rows."""
    error = float(root_mean_squared_error(y, model.predict(X)))
    gain = float(partition_oracles(model, X, y).gain)
    return {"rmse": error, **observables(model, X), "gain": gain}


def reproduce() -> dict[str, dict[str, float]]:
    """The table by the paper's protocol."""
    X, y = load_diabetes(return_X_y=True)
    part, fit = train_test_split(np.arange(len(y)), test_size=0.5, random_state=0)
    folds = []
    for train, test in FOLDS.split(X):
        model = fitted(X[train], y[train])
        folds.append((model, observables(model, X[train]), test))
    left_out = np.concatenate([model.predict(X[test]) for model, _, test in folds])
    order = np.concatenate([test for _, _, test in folds])
    averaged = np.mean([model.predict(X) for model, _, _ in folds], axis=0)
    norms = [found["norm"] for _, found, _ in folds]
    third = {key: float(np.mean([f[key] for _, f, _ in folds])) for key in ("trace", "d_eff")}
    third |= {
        "rmse": float(root_mean_squared_error(y[order], left_out)),
        "norm": float(np.mean(norms)),
        "norm_std": float(np.std(norms)),
        "rmse_averaged": float(root_mean_squared_error(y, averaged)),
    }
    return {
        "PB-01": measure(fitted(X, y), X, y),
        "PB-02": measure(fitted_apart(X, y, part, fit), X, y),
        "PB-03": third,
    }


def chosen_lambda() -> float:
    """Penalty by five folds with the forest grown anew in each."""
    X, y = load_diabetes(return_X_y=True)
    losses = []
    for alpha in GRID:
        prediction = np.empty(len(y))
        for train, test in FOLDS.split(X):
            prediction[test] = fitted(X[train], y[train], float(alpha)).predict(X[test])
        losses.append(np.square(prediction - y).mean())
    return float(GRID[np.argmin(losses)])


def correct() -> dict[str, Any]:
    """What the table should have shown: diagnostics on the fit fold, errors on unseen rows."""
    X, y = load_diabetes(return_X_y=True)
    part, fit = train_test_split(np.arange(len(y)), test_size=0.5, random_state=0)
    honest = fitted_apart(X, y, part, fit)
    half = fitted_apart(X, y, part, fit, LAMBDA / 2)
    regimes = {
        "shared": KPPRegressor(forest(), alpha=LAMBDA),
        "honest": KPPRegressor(forest(), alpha=LAMBDA, regime="honest", random_state=0),
        "cross-fit": KPPRegressor(forest(), alpha=LAMBDA, regime="cross-fit", cv=FOLDS),
    }
    automatic = {name: KPPRegressor("extra-trees", regime=name, random_state=0) for name in regimes}

    def errors(models: dict[str, Any]) -> dict[str, float]:
        return {
            name: float(root_mean_squared_error(y, cross_val_predict(model, X, y, cv=FOLDS)))
            for name, model in models.items()
        }

    return {
        "on_fit_fold": observables(honest, X[fit]),
        "norm_at_half_lambda": float(np.linalg.norm(half.node_coef_)),
        "held_out_rmse": errors(regimes),
        "held_out_rmse_of_defaults": errors(automatic),
    }


def run(context: Any) -> tuple[dict[str, Any], str]:
    """Figures and page."""
    found, corrected = reproduce(), correct()
    rows = [Row("diabetes", "lambda", DIABETES_LAMBDA, chosen_lambda())]
    for regime, printed in DIABETES.items():
        rows += [
            Row("diabetes", f"{regime}: {key}", text, found[regime][key])
            for key, text in printed.items()
        ]
    fold = corrected["on_fit_fold"]
    lines = [
        "# Diabetes in three regimes",
        "",
        "`python -m paper diabetes`: a random forest of 30 trees of depth 6, one seed, one lambda. "
        + summary(rows),
        "",
        *comparison(rows),
        "## What the table does not show",
        "",
        "- PB-02's diagnostics are those of all rows, and half of them grew the forest. On the fit "
        f"fold: Tr/n {fold['trace']:.4f}, d_eff/n {fold['d_eff']:.4f}, least eigenvalue "
        f"{fold['mu_min']:.2e}.",
        "- The smaller norm under PB-02 is the same penalty of a sum over half the rows, not the "
        f"absence of leakage: at lambda/2 it is {corrected['norm_at_half_lambda']:.0f}.",
        "- The three errors are of different kinds: resubstitution, mixed, and out of fold. PB-03 "
        "as tabulated is five-fold cross-validation of the shared pipeline: in each fold forest "
        "and ridge saw the same labels. A cross-fit representation embeds rows with trees that "
        "did not see them and fits on labels that the trees did not see.",
        "",
        "The same protocol for all (five folds, RMSE on rows that neither forest nor ridge saw):",
        "",
    ]
    both = (corrected["held_out_rmse"], corrected["held_out_rmse_of_defaults"])
    names = ("this forest and lambda", "our defaults, own lambda")
    lines += grid(
        ["model", *both[0]],
        [[name, *(f"{v:.2f}" for v in r.values())] for name, r in zip(names, both, strict=True)],
    )
    return {"rows": as_records(rows), "reproduced": found, "corrected": corrected}, "\n".join(lines)
