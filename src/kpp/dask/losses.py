"""Losses of rows on workers: every piece by the loss itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.dask.rows import Rows, add
from kpp.solvers.losses import Curvature, LogLoss, Loss


class RowsLoss(Loss):
    """A log loss whose rows are on workers.

    Parameters
    ----------
    inner : LogLoss
        The same of rows that are here.
    """

    def __init__(self, inner: LogLoss) -> None:
        self.inner = inner
        self.name, self.n_scores, self.is_averaged = inner.name, inner.n_scores, inner.is_averaged
        self.search_tol, self.final_tol = inner.search_tol, inner.final_tol
        self.negligible = inner.negligible

    def prepare(self, target: Any) -> Any:
        """Return the class numbers: pieces are prepared where they are."""
        return target

    def values(self, target: Any, scores: Any) -> Any:
        """Return the losses, shape (n_rows, 1)."""
        return scores.map(_values, self.inner, target)

    def gradient(self, target: Any, scores: Any) -> Any:
        """Return the derivative by each score, shape (n_rows, n_scores)."""
        return scores.map(_gradient, self.inner, target)

    def curvature(self, scores: Any, share: Any) -> Curvature:
        """Return the product with the second derivative and the shares, in place."""

        # The second derivative is made anew for each product: it costs less than the product.
        def product(change: Any) -> Any:
            return change.become(change.map(_bent, self.inner, scores, share))

        return product

    def best_constant(self, target: Any, share: Any) -> FloatArray:
        """Return a constant score to start from, from the shares of the classes."""
        n_classes = self.inner.n_classes
        shares = class_weights(target, share, n_classes)
        # One row for each class, with its share, has the same constant.
        return self.inner.best_constant(self.inner.prepare(np.arange(n_classes)), shares[:, None])

    def merit(self, target: AnyArray, scores: FloatArray, weight: FloatArray) -> float:
        """Return the mean log-likelihood of rows that are here."""
        return self.inner.merit(target, scores, weight)

    def link(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities of rows that are here."""
        return self.inner.link(scores)


def _values(scores: FloatArray, loss: Loss, target: AnyArray) -> FloatArray:
    return loss.values(loss.prepare(target), scores)


def _gradient(scores: FloatArray, loss: Loss, target: AnyArray) -> FloatArray:
    return loss.gradient(loss.prepare(target), scores)


def _bent(change: FloatArray, loss: Loss, scores: FloatArray, share: FloatArray) -> FloatArray:
    return loss.curvature(scores, share)(change.copy())


def _class_shares(target: AnyArray, share: FloatArray, n_classes: int) -> FloatArray:
    return np.bincount(target, share.ravel(), minlength=n_classes).astype(np.float64)


def class_weights(target: Rows, weight: Rows, n_classes: int) -> FloatArray:
    """Sum of the weights of the rows of each class, shape (n_classes,)."""
    found: FloatArray = target.partitions.reduce(_class_shares, add, target, weight, n_classes)
    return found


def sum_of_merits(
    scores: Any, loss: Loss, target: Rows, weight: Rows, fold: Rows, q: int
) -> tuple[FloatArray, float]:
    """Sum over the rows of a fold of their merit times their weight, for several scores.

    Parameters
    ----------
    scores : Rows of shape (n_rows, n_taus * n_scores)
        Scores, tau by tau.
    loss : Loss
        The figure of merit.
    target, weight : Rows
        Of all rows.
    fold : Rows
        The fold of each row.
    q : int
        The fold.

    Returns
    -------
    sums : array of shape (n_taus,)
    weight : float
        Of the rows of the fold.
    """
    found = scores.partitions.reduce(_merits, add, scores, loss, target, weight, fold, q)
    return found[:-1], float(found[-1])


def _merits(
    scores: FloatArray, loss: Loss, target: AnyArray, weight: FloatArray, fold: AnyArray, q: int
) -> FloatArray:
    n_taus = scores.shape[1] // loss.n_scores
    rows = np.flatnonzero((fold == q) & (weight > 0))
    out = np.zeros(n_taus + 1)
    if len(rows):
        own = weight[rows]
        each = scores[rows].reshape(len(rows), n_taus, loss.n_scores)
        for k in range(n_taus):
            out[k] = loss.merit(target[rows], each[:, k], own) * own.sum()
        out[-1] = own.sum()
    return out
