"""`certify`: how far a row may move in the forest's metric before its answer changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kpp._checks import check_choice
from kpp._shown import Shown
from kpp._typing import BoolArray, FloatArray, IntArray, OffsetArray
from kpp.certificates._loops import minimising_leaves
from kpp.certificates.flips import check_epsilon, flips_of
from kpp.certificates.leafwise import solve
from kpp.certificates.lipschitz import safe_lipschitz_radius
from kpp.certificates.node_tables import Contrast, NodeTables
from kpp.forest.columns import terms_of
from kpp.geometry.kernel import METRICS
from kpp.models.asking import ask

METHODS = ("leafwise", "lipschitz")


@dataclass(frozen=True)
class Crossing(Shown):
    r"""One split to cross, in one tree.

    Parameters
    ----------
    tree, node : int
        Tree, and the node (of the collapsed forest) whose other side is taken; both -1 for a
        linear term, whose column moves to `threshold`.
    feature : int
        Column that it tests, of those that the model sees: a place in the certificate's
        `feature_names`. -2 for an oblique split, which tests the sum `terms`.
    threshold : float
        The row lies on one side of it; NaN for a categorical split, and for a linear term that
        says that a value misses.
    goes_left : bool
        Which side the row lies on now.
    distance : float
        What crossing to the new leaf of this tree adds to :math:`\delta_T`.
    change : float
        What it takes off the margin.
    terms : tuple of (column, weight)
        Of an oblique split, what it adds up and compares with the threshold.
    """

    tree: int
    node: int
    feature: int
    threshold: float
    goes_left: bool
    distance: float
    change: float
    terms: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, eq=False)
class Certificate(Shown):
    r"""Certified radii of rows, in :math:`\delta_T`. Made by `certify`.

    Every x' with :math:`\delta_T(x, x') <` ``radius`` gets the same answer as x: the same class,
    or an output that differs by less than `epsilon`. That is a statement about the model's
    answer in the forest's own metric, not about raw inputs, nor about true labels.

    The metric is that of the model's own map: `kpp.path_distance` with its defaults, or with
    ``normalize=certificate.normalize``. In another normalisation the radii say nothing.

    Parameters
    ----------
    radius : array of shape (n_rows,)
        Certified; infinite where the answer cannot change.
    margin : array of shape (n_rows,)
        The score's distance from a change: :math:`|g|` for two classes, the smallest difference
        to another class for more, epsilon for a regressor (the smallest over targets).
    lipschitz : array of shape (n_rows,)
        The paper's radius :math:`(m / \|w\|)^2`, the smallest over the other classes.
    never_flips : bool array of shape (n_rows,)
        Where no combination of leaves changes the answer.
    nearest : int array of shape (n_rows,)
        What the answer would change to first: the position of a class in ``classes_``; for a
        regressor -1 (falling) or 1 (rising). -2 where `never_flips`.
    method : str
        "leafwise" or "lipschitz".
    epsilon : array of shape (n_targets,), or None
        The tolerance of a regressor.
    feature_names : tuple of str
        The columns that the model sees: behind a preparation, the prepared ones.
    normalize : {"forest", "tree"}
        Which path distance the radii are in: divided by the mass of the forest, or each tree by
        its own and then averaged. "mixed" for a map of both kinds.

    Attributes
    ----------
    metric : str
        The same, in words.
    """

    radius: FloatArray
    margin: FloatArray
    lipschitz: FloatArray
    never_flips: BoolArray
    nearest: OffsetArray
    method: str
    epsilon: FloatArray | None
    feature_names: tuple[str, ...]
    normalize: str
    _tables: NodeTables = field(repr=False)
    _leaf_ids: IntArray = field(repr=False)
    _values: FloatArray = field(repr=False)
    _flip_mu: FloatArray = field(repr=False)
    _flip_margin: FloatArray = field(repr=False)
    _contrasts: list[Contrast] = field(repr=False)
    _contrast_of_row: OffsetArray = field(repr=False)

    def __repr__(self) -> str:
        return (
            f"Certificate(method={self.method!r}, n_rows={len(self.radius)}, "
            f"median_radius={np.median(self.radius) if len(self.radius) else np.nan:.3g}, "
            f"never_flips={int(self.never_flips.sum())}, normalize={self.normalize!r})"
        )

    @property
    def metric(self) -> str:
        """What the radii are distances in."""
        return METRICS[self.normalize]

    def splits_to_cross(self, row: int) -> list[Crossing]:
        r"""List the splits that a combination of leaves with another answer crosses.

        It is the cheapest combination at its :math:`\mu`; its distance, the sum of the
        crossings' distances, is at least `radius`. Inputs that reach it need not exist.

        Parameters
        ----------
        row : int
            Row of X.

        Returns
        -------
        crossings : list of Crossing
            One per tree that takes another leaf, and per linear term that moves, the largest
            change first. Empty where the
            answer never changes, and where nothing needs to be crossed: a margin within its
            rounding, whose radius is 0.
        """
        n_rows = len(self.radius)
        if not isinstance(row, int | np.integer) or not -n_rows <= row < n_rows:
            raise IndexError(f"row must be a row number below {n_rows}; got {row!r}.")
        row = int(row) % n_rows
        if self.method != "leafwise":
            raise ValueError("The splits to cross belong to method='leafwise'.")
        if not np.isfinite(self._flip_mu[row]):
            return []
        value = self._tables.value(self._contrasts[self._contrast_of_row[row]])
        # At its own mu the combination ties with others; a little above it stands alone.
        for above in (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0):
            mu = self._flip_mu[row] * (1 + above)
            crossings = _crossings(self._tables, value, self._leaf_ids[:, row], mu)
            terms = self._tables.terms(self._contrasts[self._contrast_of_row[row]])
            crossings += _moves(self._tables, terms, self._values[row], mu)
            crossings.sort(key=lambda crossing: -crossing.change)
            if sum(crossing.change for crossing in crossings) >= self._flip_margin[row]:
                break
        return crossings


def certify(model: Any, X: Any, *, method: str = "leafwise", epsilon: Any = None) -> Certificate:
    r"""Certify how far each row may move before the answer changes.

    The leafwise radius is the maximum over :math:`\mu \ge 0` of

    .. math::
        D(\mu) = \mu\, y b + \sum_t \min_\ell
            \bigl[\delta_t(\ell_t(x), \ell) + \mu\, y v_t(\ell)\bigr]

    with :math:`v_t(\ell)` what leaf :math:`\ell` adds to the score; each linear term of coefficient
    :math:`\beta` adds :math:`\min_d [d^2 + \mu y \beta (\psi + d)]` over its range. It is never
    below the paper's radius :math:`(m / \|w\|)^2`, and sound in floating point: the rounding of
    the model's own sums and of this computation is taken off.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline
        Fitted. In a Pipeline the metric is that of the prepared rows.
    X : array-like, data frame or RoutedRows of shape (n_rows, n_features), or one row
        Rows; one row may come as a 1-d array, a Series or a mapping.
    method : {"leafwise", "lipschitz"}, default="leafwise"
        Which certificate is the `radius`. The paper's is always there as `lipschitz`.
    epsilon : float, or array-like of shape (n_targets,), optional
        For a regressor, and required there: a change of the output by less than this, in units
        of y, counts as no change.

    Returns
    -------
    certificate : Certificate

    Notes
    -----
    For several classes the radius is the smallest over every other class; equal scores count as
    a change. All rows cost O(n_nodes + n_rows n_trees) for each of some ten values of
    :math:`\mu`.

    References
    ----------
    Propositions lipschitz-kpp and classification-robust-radius, equation reg-lipschitz.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kpp import KPPClassifier
    >>> from kpp.certificates import certify
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = KPPClassifier("extra-trees", n_estimators=20, alpha=1e-3, random_state=0).fit(X, y)
    >>> certificate = certify(model, X)
    >>> bool((certificate.radius >= certificate.lipschitz).all())
    True
    >>> from kpp import path_distance
    >>> inside = path_distance(model, X) < certificate.radius[:, None]
    >>> same = model.predict(X)[:, None] == model.predict(X)
    >>> bool(same[inside].all())
    True
    """
    check_choice("method", method, METHODS)
    question = ask(model)
    tolerance = check_epsilon(question.additive, epsilon)
    tables = NodeTables.of(question.additive, n_jobs=question.model.n_jobs)
    routed = question.rows(X)
    leaf_ids, values, n_rows = routed.joined_leaf_ids, routed.joined_values, len(routed)
    radius, lipschitz, margin = (np.full(n_rows, np.inf) for _ in range(3))
    flip_mu = np.full(n_rows, np.inf)
    nearest = np.full(n_rows, -2, dtype=np.int64)
    never = np.ones(n_rows, dtype=bool)
    flip_margin, contrast_of_row = np.zeros(n_rows), np.zeros(n_rows, dtype=np.int64)
    contrasts: list[Contrast] = []
    for flip in flips_of(tables, routed.scores, tolerance):
        rows = flip.rows
        paper = safe_lipschitz_radius(tables, flip)
        lipschitz[rows] = np.minimum(lipschitz[rows], paper)
        margin[rows] = np.minimum(margin[rows], flip.margin)
        leafwise = solve(tables, flip, leaf_ids, values) if method == "leafwise" else None
        # Both are sound, so the larger one is certified against this flip.
        certified = paper if leafwise is None else np.maximum(leafwise.radius, paper)
        never[rows] &= np.isinf(certified) if leafwise is None else leafwise.never
        closer = (certified < radius[rows]) | ((nearest[rows] == -2) & np.isfinite(certified))
        radius[rows] = np.minimum(radius[rows], certified)
        nearest[rows[closer]] = flip.to
        if leafwise is not None:
            flip_mu[rows[closer]] = leafwise.flip_mu[closer]
            flip_margin[rows[closer]] = flip.margin[closer]
            contrast_of_row[rows[closer]] = len(contrasts)
        contrasts.append(flip.contrast)
    return Certificate(
        radius=radius,
        margin=margin,
        lipschitz=lipschitz,
        never_flips=never,
        nearest=nearest,
        method=method,
        epsilon=tolerance,
        feature_names=question.names,
        normalize=question.model.map_.normalize,
        _tables=tables,
        _leaf_ids=leaf_ids,
        _values=values,
        _flip_mu=flip_mu,
        _flip_margin=flip_margin,
        _contrasts=contrasts,
        _contrast_of_row=contrast_of_row,
    )


def _crossings(
    tables: NodeTables, value: FloatArray, leaves: IntArray, mu: float
) -> list[Crossing]:
    forest = tables.forest
    leaves = np.ascontiguousarray(leaves)
    arg = np.empty_like(leaves)
    minimising_leaves(leaves, forest.nodes, tables.C, value, float(mu), arg)
    crossings = []
    for tree in np.flatnonzero(arg != leaves):
        mine, theirs = _path(forest.parent, leaves[tree]), _path(forest.parent, arg[tree])
        shared = sum(a == b for a, b in zip(mine, theirs, strict=False))
        node, old, new = mine[shared - 1], int(leaves[tree]), int(arg[tree])
        crossings.append(
            Crossing(
                tree=int(tree),
                node=node,
                feature=int(forest.feature[node]),
                threshold=float(forest.threshold[node]),
                goes_left=bool(mine[shared] == forest.left[node]),
                distance=float(tables.C[old] + tables.C[new] - 2 * tables.C[node]),
                change=float(value[old] - value[new]),
                terms=terms_of(forest, node),
            )
        )
    return crossings


def _moves(tables: NodeTables, coef: FloatArray, values: FloatArray, mu: float) -> list[Crossing]:
    """How far each linear term moves where ``d^2 + mu coef d`` is least within its range."""
    steps = np.clip(-0.5 * mu * coef, tables.least - values, tables.most - values)
    own = [block.terms for block in tables.additive.linear]
    column, is_missing, slope, mean = (
        np.concatenate([np.zeros(0), *(getattr(terms, name) for terms in own)])
        for name in ("column", "is_missing", "slope", "mean")
    )
    to = np.where(is_missing > 0, np.nan, mean + (values + steps) / slope)
    return [
        Crossing(
            tree=-1,
            node=-1,
            feature=int(column[k]),
            threshold=float(to[k]),
            goes_left=bool(steps[k] > 0),
            distance=float(steps[k] ** 2),
            change=float(-coef[k] * steps[k]),
        )
        for k in np.flatnonzero(coef * steps).tolist()
    ]


def _path(parent: IntArray, leaf: int) -> list[int]:
    """Nodes from the root to a leaf."""
    path = [int(leaf)]
    while parent[path[-1]] >= 0:
        path.append(int(parent[path[-1]]))
    return path[::-1]
