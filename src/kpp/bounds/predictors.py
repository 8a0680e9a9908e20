"""A linear predictor at the rows of a sample, and what scores say of classes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from kpp._typing import AnyArray, FloatArray
from kpp.geometry import MapBlock
from kpp.scores import RoutedRows


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    r"""A linear predictor at the rows of a sample, with their target.

    .. math:: g(x) = b + \langle w, \Phi(x) \rangle

    A model, one fold of a cross-fit model, or the centre that a fit was shrunk to.

    Parameters
    ----------
    rows : RoutedRows
        The rows.
    map : MapBlock
        The embedding of the predictor at these rows.
    target : array of shape (n_rows,)
        Class numbers, or numbers.
    node_coef : array of shape (n_scores, m)
        w.
    intercept : array of shape (n_scores,)
        b.
    n_classes : int
        0 for regression.
    """

    rows: RoutedRows
    map: MapBlock
    target: AnyArray
    node_coef: FloatArray
    intercept: FloatArray
    n_classes: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def norm(self) -> float:
        """Norm of all coefficients."""
        return float(np.linalg.norm(self.node_coef))

    @cached_property
    def scores(self) -> FloatArray:
        """Scores, shape (n_rows, n_scores)."""
        return np.column_stack([self.map.matvec(w) for w in self.node_coef]) + self.intercept

    @cached_property
    def trace(self) -> float:
        """Trace of the Gram."""
        return float(self.map.row_norms(squared=True).sum())


def with_both_scores(scores: FloatArray) -> FloatArray:
    """Return one score per class, shape (n_rows, n_classes): for two classes 0 and the score."""
    if scores.shape[1] > 1:
        return scores
    return np.hstack([np.zeros_like(scores), scores])


def class_margins(scores: FloatArray, codes: AnyArray) -> FloatArray:
    r"""Margins :math:`g_y - g_k` of a row's own class against every other.

    Parameters
    ----------
    scores : array of shape (n_rows, n_scores)
        One score for two classes, otherwise one per class.
    codes : int array of shape (n_rows,)
        Class numbers.

    Returns
    -------
    margins : array of shape (n_rows, n_classes - 1)

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.bounds.predictors import class_margins
    >>> class_margins(np.array([[2.0], [2.0]]), np.array([1, 0])).tolist()
    [[2.0], [-2.0]]
    """
    full = with_both_scores(scores)
    n_rows, n_classes = full.shape
    others = np.arange(n_classes)[None, :] != codes[:, None]
    own = full[np.arange(n_rows), codes][:, None]
    return (own - full)[others].reshape(n_rows, n_classes - 1)


def logistic_losses(scores: FloatArray, codes: AnyArray) -> FloatArray:
    """Log loss of each row, shape (n_rows,); scores and codes as in `class_margins`."""
    full = with_both_scores(scores)
    return logsumexp(full, axis=1) - full[np.arange(len(codes)), codes]
