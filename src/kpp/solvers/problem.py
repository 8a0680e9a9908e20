"""A linear layer to be solved for one alpha after another, and its solutions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kpp._parallel import one_blas_thread
from kpp._typing import AnyArray, BoolArray, FloatArray, IntArray
from kpp.solvers.vectors import NUMPY, Vectors, vectors_of

# Up to this many rows a Gram is written out: exact for every alpha, and faster than iterating.
DENSE_ROWS = 256

Product = Callable[[FloatArray], FloatArray]


class Embedding(Protocol):
    """What a solver needs of a map at n rows; a map may bring `kpp.solvers.vectors` of its own."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and coordinates."""

    def gram(self) -> FloatArray:
        """Inner products of all rows; asked for only where there are few."""

    def gram_matvec(self, r: FloatArray) -> FloatArray:
        """Return ``Phi Phi' r`` for a vector, or columns, over the rows."""

    def gram_operator(self) -> Product:
        """Return ``r -> gram_matvec(r)`` for many products."""

    def row_norms(self, *, squared: bool = False) -> FloatArray:
        """Norms of the rows."""


@dataclass(frozen=True, eq=False)
class Solutions:
    r"""Solutions of one linear layer for several alphas.

    Parameters
    ----------
    alphas : array of shape (n_alphas,)
        In the order given.
    dual : array of shape (n_alphas, n_rows, n_scores)
        r, with :math:`w = \Phi^\top r`.
    intercept : array of shape (n_alphas, n_scores)
        b.
    n_iter : int
        Products with the Gram so far, 0 where it was written out; of several targets or alphas
        that do not share them, see `n_iter_by_alpha`.
    residual : array of shape (n_alphas,)
        How far each is from the solution, in the solver's measure.
    converged : bool array of shape (n_alphas,)
        Whether it fell below the tolerance.
    n_iter_by_alpha : int array of shape (n_alphas,), optional
        Products that each alpha took, where alphas do not share them.
    seen : bool array of shape (n_scores,), optional
        Scores whose class these rows hold; None for all.
    """

    alphas: FloatArray
    dual: FloatArray
    intercept: FloatArray
    n_iter: int
    residual: FloatArray
    converged: BoolArray
    n_iter_by_alpha: IntArray | None = None
    seen: AnyArray | None = None


class LinearProblem(Protocol):
    """The linear layer of given rows."""

    def start_at(self, dual: FloatArray, intercept: FloatArray) -> None:
        """Take a guess of the solution, shapes (n_rows, n_scores) and (n_scores,), if it helps."""

    def solve(self, alphas: Any, *, tol: float, max_iter: int, warn: bool = True) -> Solutions:
        """Solve for every alpha; what was learned in earlier calls serves later ones.

        With `warn` an alpha that does not converge is a ConvergenceWarning.
        """


def check_alphas(alphas: Any) -> FloatArray:
    """Return the penalties as a vector; refuse what is not positive and finite."""
    alphas = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    if alphas.size == 0 or not (alphas > 0).all() or not np.isfinite(alphas).all():
        raise ValueError(f"alpha must be positive and finite; got {alphas}.")
    return alphas


def row_weight(sample_weight: Any, n_rows: int, vectors: Vectors = NUMPY) -> FloatArray:
    """Return the weights of the rows as float64; ones by default."""
    return (
        vectors.zeros((n_rows,)) + 1.0 if sample_weight is None else vectors.floats(sample_weight)
    )


@one_blas_thread()
def mean_squared_spread(block: Embedding, weight: FloatArray) -> float:
    r"""Trace of the weighted centred Gram over the number of rows: the scale of a map.

    .. math:: \frac1n \sum_i s_i \|\Phi_i - \bar\phi\|^2

    Alphas are carried between maps relative to it: `Loss.unit`.

    Parameters
    ----------
    block : Embedding
        The map at n rows.
    weight : array of shape (n_rows,)
        Weights s of the rows.

    Returns
    -------
    spread : float
        1, times the mean weight, where all rows are in one place.
    """
    total = vectors_of(block).total(weight)
    share = weight / total
    square = float(share @ block.row_norms(squared=True))
    spread = square - float(share @ block.gram_matvec(share))
    if spread <= 4 * np.finfo(float).eps * square:
        spread = 1.0  # all rows in one place: w is 0 for every alpha
    return float(spread * total / vectors_of(block).total(weight != 0))
