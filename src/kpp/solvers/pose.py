"""From a loss and rows to the problem that solves its linear layer."""

from __future__ import annotations

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.geometry.maps import MapBlock
from kpp.solvers.clipped import ClippedProblem
from kpp.solvers.logistic import SomeClassesProblem
from kpp.solvers.losses import LogLoss, Loss, SquaredLoss
from kpp.solvers.newton import NewtonProblem
from kpp.solvers.problem import LinearProblem
from kpp.solvers.regression_losses import ClippedLoss
from kpp.solvers.ridge import RidgeProblem


def pose(
    loss: Loss,
    block: MapBlock,
    target: AnyArray,
    weight: FloatArray,
    offset: FloatArray | None = None,
    *,
    fit_intercept: bool = True,
) -> LinearProblem:
    """Hand the rows of a linear layer to the solver of its loss.

    Parameters
    ----------
    loss : Loss
        What is minimised.
    block : MapBlock
        The embedding at the rows.
    target : array of shape (n_rows,) or (n_rows, n_targets)
        Class numbers, or numbers.
    weight : array of shape (n_rows,)
        Nonnegative weights.
    offset : array of shape (n_rows, n_scores), optional
        Scores that the fitted ones are added to.
    fit_intercept : bool
        Whether b is fitted, unpenalised.

    Returns
    -------
    problem : LinearProblem

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPEmbedding
    >>> from kpp.solvers import SquaredLoss, pose
    >>> X, y = load_diabetes(return_X_y=True)
    >>> phi = KPPEmbedding(n_estimators=5, random_state=0).fit(X, y).map_.on(X)
    >>> problem = pose(SquaredLoss(), phi, y[:, None], np.ones(len(y)))
    >>> problem.solve([0.1, 1.0], tol=1e-6, max_iter=100).dual.shape
    (2, 442, 1)
    """
    if isinstance(loss, SquaredLoss):
        # (y - (o + g))^2 = ((y - o) - g)^2: for this loss an offset is another target.
        rest = target if offset is None else target - offset
        return RidgeProblem(block, rest, weight, fit_intercept=fit_intercept)
    if isinstance(loss, ClippedLoss):
        return ClippedProblem(
            block, target, weight, clips=loss.clips, offset=offset, fit_intercept=fit_intercept
        )
    # A class without rows has no finite best log-odds: its intercept would run off without end.
    present = np.unique(target[weight > 0]) if isinstance(loss, LogLoss) else ()
    if isinstance(loss, LogLoss) and offset is None and len(present) < loss.n_classes:
        return SomeClassesProblem(block, target, weight, loss=loss, fit_intercept=fit_intercept)
    return NewtonProblem(
        block, target, weight, loss=loss, offset=offset, fit_intercept=fit_intercept
    )
