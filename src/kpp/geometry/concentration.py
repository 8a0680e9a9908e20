r"""How far a finite forest is from the infinite one: concentration of the Gram in K."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from kpp._checks import check_choice
from kpp._parallel import one_blas_thread
from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray
from kpp.forest.grow import traits_of
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
    at_rows = _one_forest(model, X, "The half-forest discrepancy")
    n_trees = at_rows.forest.n_trees
    if not curve:
        return _discrepancy(at_rows, n_trees)
    sizes = [2**power for power in range(1, n_trees.bit_length()) if 2**power < n_trees]
    sizes.append(n_trees)
    values = [_discrepancy(at_rows, size) for size in sizes]
    return DiscrepancyCurve(n_trees=np.array(sizes), values=np.array(values))


@one_blas_thread()
def _discrepancy(at_rows: PathMap, n_trees: int) -> float:
    """Delta_K of the first `n_trees` trees. The map's own Gram is (1/K) sum_t H_t."""
    factor = np.zeros(at_rows.forest.n_trees)
    n_even, n_odd = (n_trees + 1) // 2, n_trees // 2
    # Weights that make the map's Gram (1/K) sum_t H_t the mean of the even trees less that of the
    # odd ones; trees beyond the first `n_trees` keep the factor 0.
    factor[0:n_trees:2] = len(factor) / n_even
    factor[1:n_trees:2] = -len(factor) / n_odd

    def difference(r: FloatArray) -> FloatArray:
        return at_rows.gram_matvec(r, tree_factor=factor)

    return float(_operator_norm(difference, at_rows.shape[0]) / np.sqrt(2))


@dataclass(frozen=True, eq=False)
class OperatorConcentration(Shown):
    r"""A bound of :math:`\|G_K - G_\infty\|_{\mathrm{op}}`, and what it is made of.

    Parameters
    ----------
    bound : float
        With probability at least 1 - delta the norm is at most this, if trees are independent.
    leading : float
        Its part that falls as :math:`K^{-1/2}`, which is all that remains for many trees. Not a
        bound by itself.
    norm : float
        :math:`\|G_K\|_{\mathrm{op}}`.
    variance : float
        :math:`\|\hat V\|_{\mathrm{op}}`, how much the Gram of one tree varies.
    n_trees, n_rows : int
        K and n.
    delta : float
        Probability with which the bound may fail.
    independent_trees : bool or None
        True where the trees are known to be independent given the rows that they were grown on.
        None where nobody knows, as of trees that were built by hand or grown without a target:
        then the bound rests on the caller's word.
    """

    bound: float
    leading: float
    norm: float
    variance: float
    n_trees: int
    n_rows: int
    delta: float
    independent_trees: bool | None

    @property
    def is_trivial(self) -> bool:
        """Whether the bound is not below the norm of the Gram itself, and says nothing."""
        return self.bound >= self.norm


def operator_concentration(
    model: FittedModel | MapBlock, X: Any, *, delta: float = 0.05
) -> OperatorConcentration:
    r"""Bound :math:`\|G_K - G_\infty\|_{\mathrm{op}}` by matrix Bernstein, from the trees at hand.

    .. math::
        \frac{L t}{3 K} + \sqrt{\frac{L^2 t^2}{9 K^2} + \frac{2 v t}{K}}, \qquad
        t = \log \frac{4 n}{\delta}, \quad L = n

    with v an upper limit of :math:`\|V\|`, :math:`V = E (H_t - G_\infty)^2`. It comes from
    :math:`m = \lfloor K/2 \rfloor` pairs of trees,
    :math:`\hat V = \frac1{2m} \sum_j (H_{2j-1} - H_{2j})^2`, by matrix Bernstein once more:
    :math:`v = c + a + \sqrt{2 a c + 10 a^2 / 9}` with :math:`c = \|\hat V\| + a/3` and
    :math:`a = L^2 \log(2n/\delta) / (2 m)`, and at most :math:`L^2 / 4`.

    Parameters
    ----------
    model : fitted estimator or map of one forest
        The embedding; at least two trees. Boosted trees are refused: each of them corrects those
        before it.
    X : array-like or data frame of shape (n, n_features)
        Rows.
    delta : float
        Probability with which the bound may fail.

    Returns
    -------
    concentration : OperatorConcentration
        Its `independent_trees` says whether the condition is known to hold.

    Notes
    -----
    Conditional on the rows and on the training sample: trees must be independent and identically
    distributed given these, which holds for random forests and extra trees, not for boosted trees.
    The Grams of trees are at most n times the identity, and no less is known beforehand: the terms
    with L make the bound trivial where there are not many more trees than rows.
    `half_forest_discrepancy` is of the size of the error itself, and no bound.

    References
    ----------
    Remark operator-norm-diagnostic. J. A. Tropp (2012), User-friendly tail bounds for sums of
    random matrices, theorem 6.1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPEmbedding
    >>> from kpp.geometry import operator_concentration
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KPPEmbedding(n_estimators=400, random_state=0).fit(X, y)
    >>> found = operator_concentration(model, X[::30])
    >>> bool(found.leading < found.bound < found.norm), found.n_rows
    (True, 5)
    """
    at_rows = _one_forest(model, X, "The operator norm")
    independent = _independence(model, at_rows)
    if independent is False:
        raise ValueError(
            "The bound needs trees that are independent given the training rows, and boosted trees "
            "are not: each corrects those before it. half_forest_discrepancy compares the even "
            "with the odd trees of any forest; it is no bound."
        )
    n_trees, n = at_rows.forest.n_trees, at_rows.shape[0]
    _check_arguments(n_trees, n, delta, "sharp")
    n_pairs = n_trees // 2
    pairs = [at_rows.trees(slice(2 * j, 2 * j + 2)) for j in range(n_pairs)]
    # A pair's own Gram is (H + H') / 2; these factors make it H - H'.
    factor = np.array([2.0, -2.0])

    def spread(r: FloatArray) -> FloatArray:
        total = np.zeros(n)
        for pair in pairs:
            once = pair.gram_matvec(r, tree_factor=factor)
            total += pair.gram_matvec(once, tree_factor=factor)
        return total / (2 * n_pairs)

    variance = _operator_norm(spread, n)
    bound, leading = bernstein_terms(variance, n_trees, n, delta)
    return OperatorConcentration(
        bound=bound,
        leading=leading,
        norm=_operator_norm(at_rows.gram_matvec, n),
        variance=variance,
        n_trees=n_trees,
        n_rows=n,
        delta=delta,
        independent_trees=independent,
    )


def bernstein_terms(
    variance: float, n_trees: int, n_rows: int, delta: float
) -> tuple[float, float]:
    """Return the bound of `operator_concentration`, and its leading term, for a measured variance.

    Parameters
    ----------
    variance : float
        Norm of the mean of half the squared differences of pairs.
    n_trees, n_rows : int
        K and n.
    delta : float
        Probability with which the bound may fail.

    Returns
    -------
    bound, leading : float
    """
    largest = float(n_rows)
    t = np.log(4 * n_rows / delta)
    a = largest**2 * np.log(2 * n_rows / delta) / (2 * (n_trees // 2))
    c = variance + a / 3
    v = min(c + a + np.sqrt(2 * a * c + 10 * a**2 / 9), largest**2 / 4)
    step = largest * t / (3 * n_trees)
    bound = step + np.sqrt(step**2 + 2 * v * t / n_trees)
    return float(bound), float(np.sqrt(2 * variance * t / n_trees))


def _one_forest(model: FittedModel | MapBlock, X: Any, what: str) -> PathMap:
    """The tree-normalised map of one forest at rows; refuse what has no two trees or no row."""
    embedding = model_map(model, "tree")
    if not isinstance(embedding, PathMap):
        raise TypeError(
            f"{what} is that of one forest; got "
            f"{type(embedding).__name__}: pass the map of each forest."
        )
    n_trees = embedding.forest.n_trees
    if n_trees < 2:
        raise ValueError(f"Two halves need at least two trees; this forest has {n_trees}.")
    at_rows = embedding.on(X)
    if at_rows.shape[0] == 0:
        raise ValueError("X has no rows: there are no Grams to compare.")
    return at_rows


def _independence(model: FittedModel | MapBlock, embedding: PathMap) -> bool | None:
    """Whether trees are independent given the rows that they were grown on; None: not known."""
    # The forest remembers whether its ensemble averages trees or adds each to those before it; of a
    # forest without a target, only the model that grew it knows.
    traits = traits_of(embedding.forest)
    if traits.combines == "sum":
        return False
    record = getattr(model, "fit_record_", None)
    if traits.independent_trees or (record is not None and all(record.independent_trees)):
        return True
    return None


def _operator_norm(product: Callable[[FloatArray], FloatArray], n_rows: int) -> float:
    """Norm of a symmetric operator on the rows, by Lanczos iterations."""
    if n_rows <= 3:  # too few rows for Lanczos
        dense = np.column_stack([product(unit) for unit in np.eye(n_rows)])
        return float(np.linalg.norm(dense, 2))
    operator = LinearOperator(
        (n_rows, n_rows), matvec=lambda r: product(r.ravel()), dtype=np.float64
    )
    # A fixed start: the same model gives the same figure. It is no natural direction of the
    # data, so it is not orthogonal to the leading eigenvector.
    start = np.random.default_rng(0).standard_normal(n_rows)
    if not product(start).any():
        return 0.0  # equal halves, where Lanczos has nothing to iterate on
    largest = eigsh(operator, k=1, which="LM", v0=start, return_eigenvectors=False)
    return float(abs(largest[0]))


def _check_arguments(n_trees: int, n_rows: int, delta: float, constant: str) -> None:
    check_choice("constant", constant, CONSTANTS)
    if n_trees < 1 or n_rows < 1:
        raise ValueError(f"Need at least one tree and one row; got {n_trees} and {n_rows}.")
    if not 0 < delta < 1:
        raise ValueError(f"delta is a probability, strictly between 0 and 1; got {delta}.")
