"""The isometry, checked on real pairs of rows from the definition of the path distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray
from kpp.geometry.kernel import FittedModel, model_map
from kpp.geometry.maps import MapBlock, PathMap


@dataclass(frozen=True, eq=False)
class IsometryCheck(Shown):
    r"""Both sides of the isometry on pairs of rows.

    Parameters
    ----------
    pairs : int array of shape (n_pairs, 2)
        Row numbers.
    path : array of shape (n_pairs,)
        :math:`\delta_T(x, x')`, node weights summed along the paths between leaves; for a map
        with ``normalize="tree"`` the mean over trees of :math:`d_t / A_t`.
    embedded : array of shape (n_pairs,)
        :math:`\|\Phi(x) - \Phi(x')\|^2`, from the rows of the embedding.
    tolerance : float
        What rounding allows: the unit roundoff times the number of terms times their sum.
    """

    pairs: AnyArray
    path: FloatArray
    embedded: FloatArray
    tolerance: float

    @property
    def largest_gap(self) -> float:
        """Largest difference between the two sides."""
        return float(np.abs(self.path - self.embedded).max(initial=0.0))

    @property
    def holds(self) -> bool:
        """Whether the two sides differ by rounding only."""
        return self.largest_gap <= self.tolerance


def check_isometry(
    model: FittedModel | MapBlock, X: Any, *, n_pairs: int = 1000, random_state: Any = 0
) -> IsometryCheck:
    r"""Compare path distances and embedded distances on random pairs of rows.

    The path side climbs from both leaves to their lowest common ancestor and adds the node
    weights on the way; it uses neither edge weights nor the embedding.

    Parameters
    ----------
    model : fitted estimator or map of one forest
        With path coordinates and zero leaf weights.
    X : array-like or data frame of shape (n_rows, n_features)
        Rows.
    n_pairs : int
        Number of pairs.
    random_state : int or numpy Generator
        Seed of the draw.

    Returns
    -------
    check : IsometryCheck

    References
    ----------
    Theorem kpp-isometry-tree and corollary kpp-isometry-forest.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPEmbedding
    >>> from kpp.geometry import check_isometry
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KPPEmbedding(n_estimators=20, random_state=0).fit(X, y)
    >>> check = check_isometry(model, X)
    >>> check.holds
    True
    """
    embedding = model_map(model)
    if not isinstance(embedding, PathMap):
        raise TypeError(f"Expected the map of one forest; got {type(embedding).__name__}.")
    forest, weights = embedding.forest, embedding.weights
    if weights.node[forest.is_leaf].any():
        raise ValueError(
            "The path distance is that of zero leaf weights: use coordinates='path' and "
            "leaf_weight=None."
        )
    phi = embedding.on(X)
    if phi.shape[0] == 0:
        raise ValueError("X has no rows: there are no pairs to compare.")
    pairs = np.random.default_rng(random_state).integers(0, phi.shape[0], (n_pairs, 2))
    csr = phi.to_csr()
    difference = csr[pairs[:, 0]] - csr[pairs[:, 1]]
    embedded = np.asarray(difference.multiply(difference).sum(axis=1)).ravel()
    a, b = phi.leaf_ids[:, pairs[:, 0]], phi.leaf_ids[:, pairs[:, 1]]
    different_leaves = a != b
    path = np.zeros(a.shape)
    # Node ids grow downwards, so the larger of two different ids is below their ancestor: count
    # it and climb. Where the two meet stands the lowest common ancestor, which counts once.
    while (a != b).any():
        below = np.maximum(a, b)
        path += np.where(a != b, weights.node[below], 0.0)
        a, b = (np.where((v == below) & (a != b), forest.parent[v], v) for v in (a, b))
    path += np.where(different_leaves, weights.node[a], 0.0)
    n_terms = 2 * int(np.diff(csr.indptr).max(initial=0))
    if embedding.normalize == "forest":
        path = path.sum(axis=0) / weights.forest_mass
    else:  # trees without mass add nothing
        mass = np.where(weights.tree_mass > 0, weights.tree_mass, np.inf)
        path = (path / mass[:, None]).sum(axis=0) / forest.n_trees
    return IsometryCheck(
        pairs=pairs,
        path=path,
        embedded=embedded,
        tolerance=float(np.finfo(float).eps * n_terms * 2 * phi.sup_norm() ** 2),
    )
