"""Figures of KPP and scikit-learn's ensembles on one split, by the paper's and other conventions.

What is measured depends on the trees, and these on how scikit-learn was compiled (see
``paper.fused``): a measurement is kept by the label of its environment.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import sklearn
from scipy.special import expit
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold
from suite.paper_kpp import (
    GRID,
    N_TREES,
    choose_alpha,
    fit_arm,
    fit_at,
    forest_of,
    primary_loss,
    scores_at,
)
from suite.preparation import Split, split
from suite.rivals import ADAPTERS

from kpp import Forest
from kpp.certificates import robustness_curve
from kpp.geometry import PathMap, path_weights
from kpp.geometry.kernel import model_map
from paper import dashboard, radii
from paper.models import Fitted
from paper.published import FIVE

# The rivals whose trees are scikit-learn's.
RIVALS = ("random_forest", "gradient_boosting")

# Up to this many rows other lambdas and folds are tried too, which cost as much as all the rest.
MOST_ROWS = 1000


def environment() -> dict[str, str]:
    """What the trees depend on."""
    return {"scikit-learn": sklearn.__version__, "machine": platform.machine()}


def measure(data: Any, seed: int, what: str = "all") -> dict[str, Any]:
    """All figures of one split.

    Parameters
    ----------
    data : Dataset
        One of the five sets.
    seed : int
        Seed of split, forest and folds.
    what : {"all", "fixed", "rivals"}
        Everything; or without what needs a search for lambda; or the rivals alone.

    Returns
    -------
    found : dict
        By the paper's conventions: ``observed``, ``bound``, ``radius``, ``losses``, the
        ``position`` of lambda; and ``others``, by the name of a convention.
    """
    task, _, position = FIVE[data.name]
    parts, alpha = split(data, seed), float(GRID[position])
    found: dict[str, Any] = {"losses": _rivals(task, parts, seed)}
    if what == "rivals":
        return found
    train = parts.X_train, parts.y_train
    fitted = Fitted(task, alpha, fit_at(task, *train, alpha, seed, tol=1e-11, max_iter=5000), parts)
    found |= {
        "observed": dashboard.observe(fitted, "test"),
        "bound": dashboard.bound(fitted),
        "radius": radii.measure(fitted),
        "others": dict(_halves(fitted)) | dict(_radii(fitted)),
    }
    if what == "all":
        _search(found, task, parts, alpha, seed)
    return found


def _search(found: dict[str, Any], task: str, parts: Split, alpha: float, seed: int) -> None:
    """Losses at the lambda that is chosen, and at those of other conventions."""
    train = parts.X_train, parts.y_train
    alphas = {"dashboard's lambda": alpha}
    if task == "classification":
        scorings = _scorings(parts, seed)
        chosen = scorings.pop("accuracy")
        alphas |= scorings
    else:
        chosen, _ = choose_alpha(task, *train, seed)
    known: dict[tuple[str, float], float] = {}

    def loss(arm: str, own: float) -> float:
        """Test loss of the full map or of the leaf-only arm, fitted once a lambda."""
        if (arm, own) not in known:
            fit = fit_at if arm == "kpp_paper" else partial(fit_arm, "leaf")
            known[arm, own] = _loss(task, parts, fit(task, *train, own, seed))
        return known[arm, own]

    found["position"] = int(np.abs(GRID - chosen).argmin())
    found["losses"] |= {arm: loss(arm, chosen) for arm in ("kpp_paper", "leaf")}
    if len(parts.y_train) > MOST_ROWS:
        return
    for name, other in alphas.items():
        for arm in ("kpp_paper", "leaf"):
            found["others"][f"{arm}: {name}"] = loss(arm, other)
    same = fit_at(task, *train, chosen, seed, coordinates="leaf")
    found["others"]["leaf: normalised"] = _loss(task, parts, same)


def _rivals(task: str, parts: Split, seed: int) -> dict[str, float]:
    losses = {}
    for name in RIVALS:
        model = ADAPTERS[name].build(task, seed).fit(parts.X_train, parts.y_train)
        losses[name] = _loss(task, parts, model)
    return losses


def _loss(task: str, parts: Split, model: Any) -> float:
    return primary_loss(task, parts.y_test, model.predict(parts.X_test))


def _halves(fitted: Fitted) -> Iterator[tuple[str, float]]:
    """Delta_K with other halves of the forest."""
    at_rows: Any = model_map(fitted.model, "tree").on(fitted.parts.X_test)
    n = at_rows.shape[0]
    first = np.arange(N_TREES) < N_TREES // 2
    halves = {
        "first and second half": first,
        "random halves": np.random.default_rng(0).permutation(first),
    }
    for name, half in halves.items():
        factor = np.where(half, 2.0, -2.0)
        difference = at_rows.gram_matvec(np.eye(n), tree_factor=factor)
        norm = np.abs(np.linalg.eigvalsh(difference)).max()
        yield f"delta_k: {name}", float(norm / np.sqrt(2))


def _radii(fitted: Fitted) -> Iterator[tuple[str, float]]:
    """u_half and the metric at u_max / 10 without the grid."""
    parts = fitted.parts
    exact = robustness_curve(fitted.model, parts.X_test, parts.y_test, method="lipschitz")
    yield "u_half: exact", float(exact.u_half)
    u_max, values, start = radii.curve(fitted)
    crossed = values <= start / 2 if fitted.task == "classification" else values >= 2 * start
    yield "u_half: last before", float(u_max * radii.STEPS[max(int(np.argmax(crossed)) - 1, 0)])
    reach = fitted.norm * np.sqrt(u_max / 10)
    if fitted.task == "classification":
        yield "at_tenth: exact", float((fitted.margins > reach).mean())
    else:
        errors = np.abs(parts.y_test - fitted.model.predict(parts.X_test))
        yield "at_tenth: exact", float(np.square(errors + reach).mean())


def _scorings(parts: Split, seed: int) -> dict[str, float]:
    """Lambda of a classification by other scorings, folds and rules for ties."""
    X, y = parts.X_train, parts.y_train
    found = {}
    splitters: dict[str, Any] = {"": KFold}
    if len(y) <= MOST_ROWS:
        splitters["stratified folds, "] = StratifiedKFold
    for kind, folds in splitters.items():
        errors, losses, areas = [], [], []
        for train, test in folds(5, shuffle=True, random_state=seed).split(X, y):
            grown = forest_of("classification", seed).fit(X[train], y[train])
            forest = Forest.from_model(grown)
            phi = PathMap(forest, path_weights(forest), n_jobs=1).on(X[train])
            scores = scores_at("classification", phi, phi.on(X[test]), y[train], GRID)
            errors.append(((scores > 0) != y[test]).mean(axis=1))
            losses.append([log_loss(y[test], expit(row), labels=[0, 1]) for row in scores])
            areas.append([roc_auc_score(y[test], row) for row in scores])
        mean = np.mean(errors, axis=0)
        # As `choose_alpha` does.
        found[kind + "accuracy"] = float(GRID[np.argmin(mean)])
        last = len(GRID) - 1 - int(np.argmin(mean.round(12)[::-1]))
        found[kind + "log loss"] = float(GRID[np.argmin(np.mean(losses, axis=0))])
        found[kind + "area under the curve"] = float(GRID[np.argmax(np.mean(areas, axis=0))])
        found[kind + "accuracy, largest of equals"] = float(GRID[last])
    return found
