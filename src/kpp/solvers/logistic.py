"""Logistic regression on a map: Newton's method on the log loss, also where a class is absent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.geometry.maps import MapBlock
from kpp.solvers.losses import LogLoss, log_loss
from kpp.solvers.newton import NewtonProblem
from kpp.solvers.problem import Solutions

# Log-odds of a class that no row of a fold belongs to.
ABSENT = -30.0


def logistic_path(
    block: MapBlock,
    codes: Any,
    alphas: Any,
    sample_weight: Any = None,
    *,
    n_classes: int = 2,
    offset: Any = None,
    fit_intercept: bool = True,
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> Solutions:
    r"""Solve logistic regression for every alpha, each from the next larger one.

    Parameters
    ----------
    block : Embedding
        The embedding at the rows of the fit.
    codes : int array of shape (n_rows,)
        Classes as 0, ..., n_classes - 1.
    alphas : array-like of shape (n_alphas,)
        Penalties, positive. The loss is averaged: scikit-learn's ``C = 1 / (sum(s) alpha)``.
    sample_weight : array of shape (n_rows,), optional
        Nonnegative weights s.
    n_classes : int
        Two: one score, the log-odds of class 1. More: one score per class and the softmax.
    offset : array of shape (n_rows, n_scores), optional
        Scores that are added to the fitted ones, and not penalised.
    fit_intercept : bool
        Whether b is fitted, unpenalised; otherwise it is 0.
    tol : float
        An alpha is done when its objective is at most ``1 + tol`` times the minimum, as far as the
        last Newton step tells.
    max_iter : int
        Most products with the Gram for one alpha, per score.

    Returns
    -------
    path : Solutions

    Warns
    -----
    ConvergenceWarning
        If some alpha is not done after `max_iter` products.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from kpp import KPPEmbedding
    >>> from kpp.solvers import logistic_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> phi = KPPEmbedding(n_estimators=10, random_state=0).fit(X, y).map_.on(X)
    >>> path = logistic_path(phi, y, [1e-3], tol=1e-12)
    >>> score = phi @ (phi.T @ path.dual[0, :, 0]) + path.intercept[0]
    >>> other = LogisticRegression(C=1 / (len(y) * 1e-3), tol=1e-10).fit(phi.to_csr(), y)
    >>> bool(abs(score - other.decision_function(phi.to_csr())).max() < 1e-4)
    True
    """
    problem = NewtonProblem(
        block,
        codes,
        sample_weight,
        loss=log_loss(n_classes),
        offset=offset,
        fit_intercept=fit_intercept,
    )
    return problem.solve(alphas, tol=tol, max_iter=max_iter)


class SomeClassesProblem:
    """Logistic regression of rows that lack a class: it is almost impossible, whatever x.

    The classes that there are get the scores of their own logistic regression; a class without
    rows gets the constant log-odds `ABSENT`, so that the folds of one model can be averaged and
    scored together.

    Parameters
    ----------
    block : MapBlock
        The embedding at the rows of the fit.
    codes : int array of shape (n_rows,)
        Class numbers.
    weight : array of shape (n_rows,)
        Weights of the rows; those of weight 0 do not count.
    loss : LogLoss
        The log loss of all classes.
    fit_intercept : bool
        Whether b is fitted.
    """

    def __init__(
        self,
        block: MapBlock,
        codes: AnyArray,
        weight: FloatArray,
        *,
        loss: LogLoss,
        fit_intercept: bool,
    ) -> None:
        known = weight > 0
        present = np.unique(codes[known])
        self._present, self._known, self._n_scores = present, known, loss.n_scores
        self._seen = np.zeros(loss.n_scores, dtype=bool)
        self._constant = np.full(loss.n_scores, ABSENT)
        if loss.n_scores == 1:
            # All rows are of one class: a constant score says so, and nothing is left to fit.
            self._constant[:] = ABSENT if present[0] == 0 else -ABSENT
        else:
            self._constant[present], self._seen[present] = 0.0, True
        self._inner = None
        if loss.n_scores > 1 and len(present) > 1:
            self._inner = NewtonProblem(
                block.rows(known),
                np.searchsorted(present, codes[known]),
                weight[known],
                loss=log_loss(len(present)),
                fit_intercept=fit_intercept,
            )

    def start_at(self, dual: FloatArray, intercept: FloatArray) -> None:
        """Do nothing: a guess of all classes is none of those that there are."""

    def solve(
        self, alphas: FloatArray, *, tol: float, max_iter: int, warn: bool = True
    ) -> Solutions:
        """Solve for every alpha; see `Solutions`."""
        n_alphas, present = len(alphas), self._present
        dual = np.zeros((n_alphas, len(self._known), self._n_scores))
        intercept = np.tile(self._constant, (n_alphas, 1))
        if self._inner is None:
            exact = np.zeros(n_alphas)
            return Solutions(alphas, dual, intercept, 0, exact, exact == 0, seen=self._seen)
        solved = self._inner.solve(alphas, tol=tol, max_iter=max_iter, warn=warn)
        v, b = solved.dual, solved.intercept
        if len(present) == 2:  # one score is the difference of two
            # The softmax of -g/2 and g/2 is the logistic function of g.
            v, b = np.concatenate([-v / 2, v / 2], axis=2), np.hstack([-b / 2, b / 2])
        dual[np.ix_(np.arange(n_alphas), np.flatnonzero(self._known), present)] = v
        intercept[:, present] = b
        return replace(solved, dual=dual, intercept=intercept, seen=self._seen)
