"""How far the logistic fit was taken: the same figures at several tolerances of L-BFGS.

At lambda = 1e-10 the loss of breast cancer is flat along the length of w, and a solver that stops
early stops at a place that depends on the order of its sums. The paper does not say where it
stopped.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from suite.paper_kpp import GRID, forest_of
from suite.preparation import split

from kpp import KPPEmbedding
from kpp.bounds import logistic_loss_terms
from paper.published import FIVE
from paper.radii import STEPS


class Stop(NamedTuple):
    """Where L-BFGS stops, and whether its features are a dense array."""

    tol: float
    dense: bool


STOPS = (
    Stop(1e-4, False),
    Stop(1e-8, False),
    Stop(1e-9, False),
    Stop(1e-10, False),
    Stop(1e-10, True),
    Stop(1e-11, False),
    Stop(1e-12, False),
)


def stopped(data: Any, seed: int, stops: tuple[Stop, ...] = STOPS) -> list[dict[str, float]]:
    """Norm, bounds and radii of one split at each tolerance.

    Parameters
    ----------
    data : Dataset
        A classification set of the five.
    seed : int
        Seed of split and forest.
    stops : tuple of Stop
        Tolerances.

    Returns
    -------
    found : list of dict
        Columns of the tables, one dictionary a tolerance.
    """
    task, _, position = FIVE[data.name]
    parts = split(data, seed)
    embedding = KPPEmbedding(forest_of(task, seed)).fit(parts.X_train, parts.y_train)
    both = [embedding.transform(X) for X in (parts.X_train, parts.X_test)]
    n = len(parts.y_test)
    trace = float(both[1].multiply(both[1]).sum())
    sign = np.where(parts.y_test == 1, 1.0, -1.0)
    found = []
    for stop in stops:
        phi, phi_test = (part.toarray() if stop.dense else part.tocsr() for part in both)
        C = 1 / (len(parts.y_train) * GRID[position])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=C, tol=stop.tol, max_iter=10_000).fit(phi, parts.y_train)
        size = float(np.linalg.norm(model.coef_))
        margins = sign * model.decision_function(phi_test)
        u_max = float((np.abs(margins).max() / size) ** 2)
        values = (margins[:, None] > size * np.sqrt(u_max * STEPS)).mean(axis=0)
        crossed = values <= (margins > 0).mean() / 2
        found.append(
            {
                "norm": size,
                "trace": size * np.sqrt(trace) / n,
                "uniform": sum(logistic_loss_terms(size, trace, n)),
                "u_max": u_max,
                "u_half": float(u_max * STEPS[np.argmax(crossed)]),
                "steps": float(model.n_iter_[0]),
            }
        )
    return found
