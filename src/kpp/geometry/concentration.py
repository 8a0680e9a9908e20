r"""How far a finite forest is from the infinite one: concentration of the Gram in K."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from kpp._checks import check_choice
from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray
from kpp.geometry.kernel import FittedModel, model_map
from kpp.geometry.maps import MapBlock, PathMap

CONSTANTS = ("paper", "sharp")


def entrywise_concentration(
    n_trees: int, n_rows: int, delta: float = 0.05, *, constant: str = "sharp"
) -> float:
    r"""Bound :math:`\max_{ij} |(G_K)_{ij} - (G_\infty)_{ij}|` with probability 1 - delta.

    .. math::
        \text{paper: } \sqrt{\tfrac{2}{K} \log \tfrac{2 n^2}{\delta}}, \qquad
        \text{sharp: } \sqrt{\tfrac{1}{2K} \log \tfrac{n (n + 1)}{\delta}}

    Both are Hoeffding's inequality and a union bound. The paper takes entries in [-1, 1] and all
    :math:`n^2` of them; the entries of :math:`H_t` lie in [0, 1], which halves the bound, and by
    symmetry there are only :math:`n (n + 1) / 2`.

    Parameters
    ----------
    n_trees : int
        K, number of independent trees.
    n_rows : int
        n, number of rows.
    delta : float
        Probability that the bound fails.
    constant : {"sharp", "paper"}
        Which constant.

    Returns
    -------
    bound : float
        At least 1 is trivial: entries lie in [0, 1].

    Notes
    -----
    Conditional on the rows (and, for trees grown with labels, on the training sample): trees
    must be independent and identically distributed given these. That holds for random forests
    and extra trees, not for boosted trees.

    References
    ----------
    Proposition entrywise-concentration.

    Examples
    --------
    >>> from kpp.geometry import entrywise_concentration
    >>> round(entrywise_concentration(1000, 100, constant="paper"), 4)
    0.1606
    >>> round(entrywise_concentration(1000, 100), 4)
    0.0782
    """
    _check_arguments(n_trees, n_rows, delta, constant)
    if constant == "paper":
        return float(np.sqrt(2 / n_trees * np.log(2 * n_rows**2 / delta)))
    return float(np.sqrt(np.log(n_rows * (n_rows + 1) / delta) / (2 * n_trees)))


def distance_concentration(
    n_trees: int, n_rows: int, delta: float = 0.05, *, constant: str = "sharp"
) -> float:
    r"""Bound :math:`\max_{ij} |\bar\delta_K - \bar\delta_\infty|` with probability 1 - delta.

    .. math::
        \text{paper: } 4 \sqrt{\tfrac{2}{K} \log \tfrac{2 n^2}{\delta}}, \qquad
        \text{sharp: } \sqrt{\tfrac{1}{2K} \log \tfrac{n (n - 1)}{\delta}}

    The paper goes through the Gram, whose error enters four times. The sharp one applies
    Hoeffding's inequality to the distances themselves: :math:`d_t / A_t` lies in [0, 1], because
    a path visits no node twice, and there are :math:`n (n - 1) / 2` pairs.

    Parameters
    ----------
    n_trees : int
        K, number of independent trees.
    n_rows : int
        n, number of rows.
    delta : float
        Probability that the bound fails.
    constant : {"sharp", "paper"}
        Which constant.

    Returns
    -------
    bound : float
        At least 1 is trivial: these distances lie in [0, 1].

    Notes
    -----
    Under the same conditions as `entrywise_concentration`.

    References
    ----------
    Corollary on uniform distance concentration from the Gram.

    Examples
    --------
    >>> from kpp.geometry import distance_concentration
    >>> round(distance_concentration(1000, 100, constant="paper"), 4)
    0.6425
    >>> round(distance_concentration(1000, 100), 4)
    0.0781
    """
    _check_arguments(n_trees, n_rows, delta, constant)
    if constant == "paper":
        return 4 * entrywise_concentration(n_trees, n_rows, delta, constant="paper")
    # No pair of different rows, and a row is at distance 0 from itself.
    if n_rows == 1:
        return 0.0
    return float(np.sqrt(np.log(n_rows * (n_rows - 1) / delta) / (2 * n_trees)))


@dataclass(frozen=True, eq=False)
class DiscrepancyCurve(Shown):
    r"""Half-forest discrepancy of the first K trees, for growing K.

    Parameters
    ----------
    n_trees : int array of shape (n_points,)
        K.
    values : array of shape (n_points,)
        :math:`\Delta_K`.
    """

    n_trees: AnyArray
    values: FloatArray


@overload
def half_forest_discrepancy(
    model: FittedModel | MapBlock, X: Any, *, curve: Literal[False] = ...
) -> float: ...
@overload
def half_forest_discrepancy(
    model: FittedModel | MapBlock, X: Any, *, curve: Literal[True]
) -> DiscrepancyCurve: ...
def half_forest_discrepancy(
    model: FittedModel | MapBlock, X: Any, *, curve: bool = False
) -> float | DiscrepancyCurve:
    r"""Half-forest discrepancy: would another forest of this size give another geometry?

    .. math:: \Delta_K = \|G_K^{(1)} - G_K^{(2)}\|_{\mathrm{op}} / \sqrt 2

    with :math:`G_K^{(1)}, G_K^{(2)}` the tree-normalised Grams of the even and of the odd trees,
    at the rows of X. The norm is found by Lanczos iterations on the operator; no Gram is
    formed.

    Parameters
    ----------
    model : fitted estimator or map of one forest
        The embedding; at least two trees.
    X : array-like or data frame of shape (n, n_features)
        Rows.
    curve : bool
        Whether to return the discrepancy of the first 2, 4, 8, ... and of all trees.

    Returns
    -------
    discrepancy : float or DiscrepancyCurve

    Notes
    -----
    A stability diagnostic, comparable across K at fixed rows. It is not an upper bound on
    :math:`\|G_K - G_\infty\|_{\mathrm{op}}`.

    References
    ----------
    Remark operator-norm-diagnostic.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPEmbedding, half_forest_discrepancy
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KPPEmbedding(n_estimators=64, random_state=0).fit(X, y)
    >>> curve = half_forest_discrepancy(model, X, curve=True)
    >>> curve.n_trees.tolist()
    [2, 4, 8, 16, 32, 64]
    >>> bool(curve.values[-1] < curve.values[0])
    True
    """
    embedding = model_map(model, "tree")
    if not isinstance(embedding, PathMap):
        raise TypeError(
            "The half-forest discrepancy is that of one forest; got "
            f"{type(embedding).__name__}: pass the map of each forest."
        )
    n_trees = embedding.forest.n_trees
    if n_trees < 2:
        raise ValueError(f"Two halves need at least two trees; this forest has {n_trees}.")
    at_rows = embedding.on(X)
    if at_rows.shape[0] == 0:
        raise ValueError("X has no rows: the discrepancy compares Grams of rows.")
    if not curve:
        return _discrepancy(at_rows, n_trees)
    sizes = [2**power for power in range(1, n_trees.bit_length()) if 2**power < n_trees]
    sizes.append(n_trees)
    values = [_discrepancy(at_rows, size) for size in sizes]
    return DiscrepancyCurve(n_trees=np.array(sizes), values=np.array(values))


def _discrepancy(at_rows: PathMap, n_trees: int) -> float:
    """Delta_K of the first `n_trees` trees. The map's own Gram is (1/K) sum_t H_t."""
    factor = np.zeros(at_rows.forest.n_trees)
    n_even, n_odd = (n_trees + 1) // 2, n_trees // 2
    # Weights that make the map's Gram (1/K) sum_t H_t the mean of the even trees less that of the
    # odd ones; trees beyond the first `n_trees` keep the factor 0.
    factor[0:n_trees:2] = len(factor) / n_even
    factor[1:n_trees:2] = -len(factor) / n_odd
    n_rows = at_rows.shape[0]

    def difference(r: FloatArray) -> FloatArray:
        return at_rows.gram_matvec(r.ravel(), tree_factor=factor)

    if n_rows <= 3:  # too few rows for Lanczos
        dense = np.column_stack([difference(unit) for unit in np.eye(n_rows)])
        return float(np.linalg.norm(dense, 2) / np.sqrt(2))
    operator = LinearOperator((n_rows, n_rows), matvec=difference, dtype=np.float64)
    # A fixed start: the same model gives the same figure. It is no natural direction of the
    # data, so it is not orthogonal to the leading eigenvector.
    start = np.random.default_rng(0).standard_normal(n_rows)
    if not difference(start).any():
        return 0.0  # equal halves, where Lanczos has nothing to iterate on
    largest = eigsh(operator, k=1, which="LM", v0=start, return_eigenvectors=False)
    return float(abs(largest[0]) / np.sqrt(2))


def _check_arguments(n_trees: int, n_rows: int, delta: float, constant: str) -> None:
    check_choice("constant", constant, CONSTANTS)
    if n_trees < 1 or n_rows < 1:
        raise ValueError(f"Need at least one tree and one row; got {n_trees} and {n_rows}.")
    if not 0 < delta < 1:
        raise ValueError(f"delta is a probability, strictly between 0 and 1; got {delta}.")
