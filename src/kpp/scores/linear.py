"""`LinearScores`: the clipped linear terms of a fitted model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kpp._typing import FloatArray
from kpp.geometry.linear import FEW_ROWS, LinearMap, LinearTerms


@dataclass(frozen=True, eq=False)
class LinearScores:
    r"""What the linear terms of a model add to its scores: :math:`\langle w_k, \Psi(x) \rangle`.

    Parameters
    ----------
    name : str
        Name of the block.
    terms : LinearTerms
        Ranges and scales.
    coef : array of shape (n_scores, p)
        w.
    map : LinearMap, optional
        The embedding at the rows of the fit.
    """

    name: str
    terms: LinearTerms
    coef: FloatArray
    map: LinearMap | None = None

    def scaled(self, share: float, name: str) -> LinearScores:
        """Return a share of these terms, under another name, without rows."""
        return replace(self, name=name, coef=self.coef * share, map=None)

    def add_to(self, scores: FloatArray, values: FloatArray) -> None:
        """Add the terms of rows to their scores.

        Parameters
        ----------
        scores : array of shape (n_scores, n_rows)
            Changed in place.
        values : array of shape (n_rows, p)
            Coordinates of the rows.
        """
        if len(values) <= FEW_ROWS:
            # The same sums in the same order, all rows at once.
            terms = self.coef[:, None, :] * values
            scores[:] = np.cumsum(np.concatenate([scores[:, :, None], terms], axis=2), axis=2)[
                :, :, -1
            ]
            return
        # Term by term: a row's sum does not depend on the rows beside it.
        for out, w in zip(scores, self.coef, strict=True):
            for k, coefficient in enumerate(w.tolist()):
                out += coefficient * values[:, k]

    def by_column(self, values: FloatArray) -> FloatArray:
        """What each column adds to each score, shape (n_scores, n_rows, n_features)."""
        out = np.zeros((len(self.coef), len(values), self.terms.n_features))
        for k, column in enumerate(self.terms.column.tolist()):
            out[:, :, column] += np.multiply.outer(self.coef[:, k], values[:, k])
        return out


def coordinates_of_rows(linear: Sequence[LinearScores], X: Any) -> list[FloatArray]:
    """Coordinates of rows in every block of linear terms.

    Parameters
    ----------
    linear : sequence of LinearScores
        Blocks.
    X : array-like or data frame of shape (n_rows, n_features)
        Rows.

    Returns
    -------
    values : list of arrays of shape (n_rows, p of the block)
    """
    return [block.terms.coordinates(X) for block in linear]
