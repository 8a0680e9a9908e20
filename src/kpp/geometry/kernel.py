"""The kernel and the path distance between rows, as arrays, on request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from sklearn import get_config
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from kpp._checks import check_choice
from kpp._typing import FloatArray
from kpp.geometry.maps import NORMALIZATIONS, MapBlock

# What a distance is called where it is shown, by normalisation.
METRICS = {
    "forest": "delta_T, the path distance over the mass of the forest",
    "tree": "delta_K, the mean over trees of the path distance over the mass of the tree",
    "mixed": "the path distance of the model's own map, whose blocks are normalised differently",
}


class FittedModel(Protocol):
    """Whatever carries a map: a fitted estimator of this package."""

    map_: MapBlock


def kernel(
    model: FittedModel | MapBlock, X: Any, Y: Any = None, *, normalize: str | None = None
) -> FloatArray:
    r"""Kernel of partition paths between rows.

    .. math::
        G_T(x, z) = \langle \Phi(x), \Phi(z) \rangle
        = \frac{1}{S_T} \sum_t \sum_{v \ni x, z} \omega_t(v)

    the weight of the nodes that x and z share. Positive semidefinite, in [0, 1].

    Parameters
    ----------
    model : fitted estimator or MapBlock
        The embedding.
    X : array-like or data frame of shape (n, n_features)
        Rows.
    Y : array-like or data frame of shape (n', n_features), optional
        Other rows; X itself by default.
    normalize : {"forest", "tree"}, optional
        "forest" gives :math:`G_T`; "tree" gives the average :math:`G_K` of the Grams
        :math:`H_t`, each normalised by its own tree mass. None: as the model was fitted,
        "forest" unless told otherwise.

    Returns
    -------
    gram : array of shape (n, n')
        8 n n' bytes. For more rows than that allows, see `kernel_chunks`.

    See Also
    --------
    path_distance : ``G_ii + G_jj - 2 G_ij``.

    References
    ----------
    Equations knode-def and gk-ginf-def, corollary gram-psd-nondiagonal.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPEmbedding, kernel
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KPPEmbedding(n_estimators=20, random_state=0).fit(X, y)
    >>> gram = kernel(model, X[:3])
    >>> gram.shape
    (3, 3)
    >>> bool((gram >= 0).all() and (gram <= 1).all())
    True
    """
    mine, other = _maps(model, X, Y, normalize)
    return mine.gram(other)


def path_distance(
    model: FittedModel | MapBlock, X: Any, Y: Any = None, *, normalize: str | None = None
) -> FloatArray:
    r"""Normalised path distance between rows, a squared Euclidean distance.

    .. math::
        \delta_T(x, z) = \frac{1}{S_T} \sum_t \sum_{v \in \sigma_t(x, z)} a_t(v)
        = \|\Phi(x) - \Phi(z)\|^2

    with :math:`\sigma_t(x, z)` the nodes on the path between the leaves of x and z. It is a
    pseudo-distance: 0 for rows that the forest does not separate.

    Parameters
    ----------
    model : fitted estimator or MapBlock
        The embedding.
    X : array-like or data frame of shape (n, n_features)
        Rows.
    Y : array-like or data frame of shape (n', n_features), optional
        Other rows; X itself by default.
    normalize : {"forest", "tree"}, optional
        "forest" divides by :math:`S_T`; "tree" averages :math:`d_t / A_t` over trees. None: as
        the model was fitted, so that distances and its certified radii are of one metric.

    Returns
    -------
    distances : array of shape (n, n')
        Computed without cancellation: exactly 0 for rows that share every leaf.

    References
    ----------
    Theorem kpp-isometry-tree, equations normalized-isometry and averaged-distance.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPEmbedding, path_distance
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KPPEmbedding(n_estimators=20, random_state=0).fit(X, y)
    >>> path_distance(model, X[:2]).diagonal()
    array([0., 0.])
    """
    mine, other = _maps(model, X, Y, normalize)
    return mine.distances(other)


def kernel_chunks(
    model: FittedModel | MapBlock,
    X: Any,
    Y: Any = None,
    *,
    distance: bool = False,
    normalize: str | None = None,
    working_memory: float | None = None,
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the kernel, or the path distance, in blocks of rows that fit a memory cap.

    Parameters
    ----------
    model, X, Y : as in `kernel`
        The embedding and the rows.
    distance : bool
        Whether to give `path_distance` instead of `kernel`.
    normalize : {"forest", "tree"}, optional
        As in `kernel`.
    working_memory : float, optional
        Size of a block in MiB; scikit-learn's ``working_memory`` setting by default.

    Yields
    ------
    rows : slice
        Which rows of X.
    block : array of shape (n_block, n')
        Their kernel or distances.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPEmbedding
    >>> from kpp.geometry import kernel_chunks
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KPPEmbedding(n_estimators=20, random_state=0).fit(X, y)
    >>> [block.shape for _, block in kernel_chunks(model, X, working_memory=0.1)]
    [(87, 150), (63, 150)]
    """
    mine, other = _maps(model, X, Y, normalize)
    other = mine if other is None else other
    if working_memory is None:
        working_memory = get_config()["working_memory"]
    n_per_block = int(working_memory * 2**20 // (8 * max(1, other.shape[0])))
    for rows in gen_batches(mine.shape[0], max(1, n_per_block)):
        part = mine.rows(rows)
        yield rows, part.distances(other) if distance else part.gram(other)


def model_map(model: Any, normalize: str | None = None) -> MapBlock:
    """Return the map of a fitted model, under its own normalisation or under the given one."""
    if normalize is not None:
        check_choice("normalize", normalize, NORMALIZATIONS)
    if not isinstance(model, MapBlock):
        if isinstance(model, type) or not hasattr(model, "fit"):
            raise TypeError(
                "Expected a fitted KPPEmbedding or another estimator of this package, or a map; "
                f"got {model!r}."
            )
        check_is_fitted(model, "map_")
        model = model.map_
    return model if normalize is None else model.normalized(normalize)


def _maps(model: Any, X: Any, Y: Any, normalize: str | None) -> tuple[MapBlock, MapBlock | None]:
    rowless = model_map(model, normalize)
    return rowless.on(X), None if Y is None else rowless.on(Y)
