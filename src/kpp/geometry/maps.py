r"""The embedding :math:`\Phi` as an operator: products without the matrix.

A row of :math:`\Phi` has one nonzero entry per node on its K root-to-leaf paths. It is implied by
its K leaf ids and the node tables that all rows share, and it is never stored. With
:math:`s_v = \sqrt{\omega_v / S_T}`:

- :math:`\Phi w` is the path sum of :math:`s_v w_v`, read at the K leaves of each row;
- :math:`\Phi^\top r` is the sum of :math:`r_i` over the rows below each node, times :math:`s_v`;
- :math:`\Phi \Phi^\top r` does both, one tree at a time, and writes nothing of size m.

Each costs O(n K + m) time and 4 n K bytes, whatever the depth of the trees. Leaf-only
coordinates, nonzero leaf weights and per-tree normalisation are other vectors s on the same
operator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from kpp._checks import check_choice, check_sample_weight
from kpp._parallel import blocks_of, run_blocks, sum_blocks
from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray, IntArray, OffsetArray
from kpp.forest.arrays import Forest
from kpp.forest.route import route
from kpp.forest.sums import as_vector, gather_leaves, node_sums, path_sums
from kpp.geometry._loops import fill_csr, fill_pairs, gram_matmat, map_matvec
from kpp.geometry.weights import PathWeights

if TYPE_CHECKING:
    from kpp.geometry.composed import CenteredMap

# Trees are reduced in this many runs, in order, whatever the number of threads: that makes
# every product bit-identical for any n_jobs.
N_TREE_BLOCKS = 8
# Leaf ids and nodes that make a run worth a thread; below, starting one costs more.
WORK_PER_BLOCK = 30_000
# Each block costs two passes over a vector of the rows, a tree about five.
TREES_PER_BLOCK = 5
NORMALIZATIONS = ("forest", "tree")
_BYTES_PER_TILE = 1 << 19


class MapBlock(Shown, LinearOperator, ABC):
    r"""An embedding of n rows into m coordinates; what solvers see.

    A ``scipy.sparse.linalg.LinearOperator`` of shape (n, m): ``block @ w``, ``block.T @ r`` and
    SciPy's iterative solvers work as they are. Subclasses add what the geometry needs.

    Parameters
    ----------
    n_rows, n_coordinates : int
        n and m.
    """

    normalize: str  # one of `NORMALIZATIONS`; "mixed" where blocks differ

    def __init__(self, n_rows: int, n_coordinates: int) -> None:
        super().__init__(dtype=np.dtype(np.float64), shape=(n_rows, n_coordinates))

    @abstractmethod
    def on(self, X: Any) -> MapBlock:
        """Return the same embedding at other rows."""

    @abstractmethod
    def rows(self, index: Any) -> MapBlock:
        """Return the same embedding at some of its rows."""

    @abstractmethod
    def at_routed(self, routed: Sequence[AnyArray]) -> MapBlock:
        """Return the same embedding at rows that were routed, one array per block.

        Leaf ids for a forest, coordinates for linear terms.
        """

    @abstractmethod
    def normalized(self, normalize: str) -> MapBlock:
        """Return the same rows, normalised by "forest" or by "tree"."""

    @abstractmethod
    def gram_matvec(self, r: Any, *, at: Any = None) -> FloatArray:
        r"""Multiply the Gram by a vector or by columns, :math:`\Phi \Phi^\top r`.

        With `at`, the same embedding at other rows :math:`\Phi'`, it is
        :math:`\Phi' \Phi^\top r`: what a dual vector r predicts there.
        """

    def gram_operator(self) -> Callable[[FloatArray], FloatArray]:
        """Return ``r -> gram_matvec(r)`` for many products: it may prepare tables once."""
        return self.gram_matvec

    @abstractmethod
    def row_norms(self, *, squared: bool = False) -> FloatArray:
        r"""Norms :math:`\|\Phi(x_i)\|`, shape (n,); their squares are the Gram's diagonal."""

    @abstractmethod
    def sup_norm(self, center: FloatArray | None = None) -> float:
        r"""Bound :math:`\sup_x \|\Phi(x) - c\|`, c = 0 by default; infinite if there is none."""

    @abstractmethod
    def gram(self, other: Any = None) -> FloatArray:
        r"""Inner products :math:`\langle \Phi(x_i), \Phi(z_j) \rangle`, shape (n, n')."""

    @abstractmethod
    def distances(self, other: Any = None) -> FloatArray:
        r"""Squared distances :math:`\|\Phi(x_i) - \Phi(z_j)\|^2`, shape (n, n')."""

    @abstractmethod
    def to_csr(self) -> sparse.csr_matrix:
        """Write the matrix out, shape (n, m)."""

    @property
    @abstractmethod
    def coordinate_names(self) -> AnyArray:
        """Name of each coordinate, object array of shape (m,)."""

    @property
    @abstractmethod
    def coordinate_variable(self) -> AnyArray:
        """Column of X that each coordinate belongs to, shape (m,); -1 for none, -2 for several."""

    def mean_row(self, sample_weight: Any = None) -> FloatArray:
        r"""Weighted mean :math:`\bar\phi` of the rows, shape (m,)."""
        weight = check_sample_weight(sample_weight, self.shape[0])
        return self.rmatvec(weight / weight.sum())

    def centered(self, shift: Any = None) -> CenteredMap:
        """Subtract a vector, the mean row by default, from every row; lazily."""
        from kpp.geometry.composed import CenteredMap

        return CenteredMap(self, self.mean_row() if shift is None else shift)

    def row_columns(self, r: Any) -> FloatArray:
        """One number per row, or several, as float64."""
        r = np.asarray(r, dtype=np.float64)
        if r.ndim not in (1, 2) or len(r) != self.shape[0]:
            n = self.shape[0]
            raise ValueError(f"Expected shape ({n},) or ({n}, n_columns); got {r.shape}.")
        return r


class PathMap(MapBlock):
    r"""The embedding of one forest, at given rows.

    .. math::
        \Phi_{t, v}(x) = \sqrt{\omega_t(v) / S_T}\; 1\{x \in S_v\}

    so that :math:`\|\Phi(x) - \Phi(x')\|^2 = \delta_T(x, x')`, the normalised path distance.

    Parameters
    ----------
    forest : Forest
        The trees.
    weights : PathWeights
        From `path_weights`, or `leaf_indicator_weights` for leaf-only coordinates.
    leaf_ids : int32 array of shape (n_trees, n_rows), optional
        From `kpp.forest.route.route`. No rows by default.
    normalize : {"forest", "tree"}
        "forest" divides by the forest mass: Gram :math:`G_T`, distance :math:`\delta_T`. "tree"
        divides each tree by its own mass and averages: Gram
        :math:`G_K = \frac1K \sum_t H_t`. A tree without mass has :math:`H_t = 0`.
    n_jobs : int, optional
        Number of threads of every product. Results do not depend on it.

    References
    ----------
    Definition tree-embedding, theorem kpp-isometry-tree, corollary kpp-isometry-forest,
    proposition norm-bound, corollary gram-psd-nondiagonal.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from kpp import Forest
    >>> from kpp.geometry import PathMap, path_weights
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = Forest.from_model(RandomForestClassifier(20, random_state=0).fit(X, y))
    >>> phi = PathMap(forest, path_weights(forest)).on(X)
    >>> phi.shape == (150, forest.n_nodes)
    True
    >>> bool(phi.row_norms().max() <= phi.sup_norm() <= 1)
    True
    """

    def __init__(
        self,
        forest: Forest,
        weights: PathWeights,
        leaf_ids: IntArray | None = None,
        *,
        normalize: str = "forest",
        n_jobs: int | None = None,
    ) -> None:
        check_choice("normalize", normalize, NORMALIZATIONS)
        if leaf_ids is None:
            leaf_ids = np.empty((forest.n_trees, 0), dtype=np.int32)
        leaf_ids = _check_leaf_ids(forest, leaf_ids)
        if weights.n_nodes != forest.n_nodes or len(weights.tree_mass) != forest.n_trees:
            raise ValueError("These weights belong to another forest.")
        super().__init__(leaf_ids.shape[1], forest.n_nodes)
        self.forest = forest
        self.weights = weights
        self.leaf_ids = leaf_ids
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.squared_scale = _squared_scale(forest, weights, normalize)

    @cached_property
    def scale(self) -> FloatArray:
        """The coordinates' values s, shape (n_nodes,)."""
        return np.sqrt(self.squared_scale)

    def on(self, X: Any) -> PathMap:
        """Return the same embedding at the rows of X; routed rows know their leaves."""
        known = getattr(X, "leaf_ids_of", None)
        if known is not None:
            return self.at_leaves(known(self.forest))
        return self.at_leaves(route(self.forest, X, n_jobs=self.n_jobs))

    def rows(self, index: Any) -> PathMap:
        """Return the same embedding at some of its rows (a slice, mask or row numbers)."""
        return self.at_leaves(np.ascontiguousarray(self.leaf_ids[:, index]))

    def normalized(self, normalize: str) -> PathMap:
        """Return the same rows under another normalisation."""
        if normalize == self.normalize:
            return self
        return PathMap(
            self.forest, self.weights, self.leaf_ids, normalize=normalize, n_jobs=self.n_jobs
        )

    def trees(self, index: Any) -> PathMap:
        r"""Return the map of some of the trees, at the same rows.

        Under ``normalize="tree"`` the Gram of a single tree t is :math:`H_t`.

        Parameters
        ----------
        index : array-like of int, or slice
            Numbers of trees. A slice of neighbours shares most of its memory with this map.

        Returns
        -------
        map : PathMap
        """
        forest = self.forest.take_trees(index)
        nodes = self.forest.nodes_of(index)
        index = np.atleast_1d(np.arange(self.forest.n_trees)[index])
        weights = self.weights.of_trees(forest, index, nodes)
        shift = (forest.roots - self.forest.roots[index]).astype(np.int32)
        part = PathMap(forest, weights, normalize=self.normalize, n_jobs=self.n_jobs)
        return part.at_leaves(self.leaf_ids[index] + shift[:, None])

    def at_leaves(self, leaf_ids: IntArray) -> PathMap:
        """Return the same embedding at leaf ids that `route` gave; they are not checked."""
        # Shallow: weights and scales are shared, so that other rows cost their leaf ids only.
        other = copy(self)
        other.leaf_ids, other.squared_scale = leaf_ids, self.squared_scale
        other.shape = (leaf_ids.shape[1], self.shape[1])
        return other

    def at_routed(self, routed: Sequence[AnyArray]) -> PathMap:
        """Return the same embedding at rows that were routed: one array of leaf ids."""
        (own,) = routed
        return self.at_leaves(own)

    def rows_below(self) -> OffsetArray:
        """Count the rows in each node, int array of shape (n_nodes,)."""
        count = np.bincount(self.leaf_ids.ravel(), minlength=self.forest.n_nodes)
        return self.forest.leaf_sums(count).astype(np.int64)

    # Products.

    def _matvec(self, w: Any) -> FloatArray:
        w = np.ascontiguousarray(w, dtype=np.float64).ravel()
        forest = self.forest
        return self.sum_over_trees(
            lambda block, out: map_matvec(
                self.leaf_ids, forest.tree_offsets, forest.parent, self.scale, w, *block, out
            )
        )

    def _rmatvec(self, r: Any) -> FloatArray:
        r = np.ascontiguousarray(r, dtype=np.float64).ravel()
        out = np.empty(self.forest.n_nodes)
        self.each_run_of_trees(
            lambda block: node_sums(
                self.leaf_ids,
                self.forest.tree_offsets,
                self.forest.parent,
                self.scale,
                r,
                *block,
                out,
            )
        )
        return out

    def gram_matvec(
        self, r: Any, *, at: PathMap | None = None, tree_factor: FloatArray | None = None
    ) -> FloatArray:
        r"""Multiply the Gram by a vector: :math:`\sum_t f_t \Phi'_t \Phi_t^\top r`.

        Parameters
        ----------
        r : array of shape (n_rows,) or (n_rows, n_columns)
            One number per row, or several.
        at : PathMap, optional
            The same embedding at the rows :math:`\Phi'` of the result; itself by default.
        tree_factor : array of shape (n_trees,), optional
            Factors :math:`f_t`, 1 by default. They may be negative.

        Returns
        -------
        product : array of shape (n_result_rows,) or (n_result_rows, n_columns)
        """
        r = self.row_columns(r)
        columns = np.ascontiguousarray(np.atleast_2d(r.T))
        forest = self.forest
        other = self._other(at)
        factor = np.ones(forest.n_trees) if tree_factor is None else tree_factor
        factor = as_vector(factor, forest.n_trees)
        product = self.sum_over_trees(
            lambda block, out: gram_matmat(
                self.leaf_ids,
                other.leaf_ids,
                forest.tree_offsets,
                forest.parent,
                self.squared_scale,
                factor,
                columns,
                *block,
                out,
            ),
            (len(columns), other.shape[0]),
        )
        return product[0] if r.ndim == 1 else product.T

    def gram_operator(self) -> Callable[[FloatArray], FloatArray]:
        """Return ``r -> gram_matvec(r)``, faster, for the price of about four products."""
        from kpp.geometry.compact import CompactGram

        return CompactGram(self)

    def path_sums(self, values: Any) -> FloatArray:
        """Sum node values from the root down to each node, shape (n_nodes,)."""
        values = as_vector(values, self.forest.n_nodes)
        out = np.empty(self.forest.n_nodes)
        self.each_run_of_trees(
            lambda block: path_sums(
                self.forest.tree_offsets, self.forest.parent, values, *block, out
            )
        )
        return out

    def _tree_blocks(self) -> list[tuple[int, int]]:
        """Runs of trees: few where the work is small, whatever the number of threads."""
        work = self.leaf_ids.size + self.forest.n_nodes
        most = min(N_TREE_BLOCKS, self.forest.n_trees // TREES_PER_BLOCK)
        n_blocks = max(1, min(most, work // WORK_PER_BLOCK))
        return blocks_of(self.forest.n_trees, n_blocks)

    def each_run_of_trees(self, work: Callable[[tuple[int, int]], None]) -> None:
        """Call `work` on each run of trees; the runs must write to memory of their own."""
        blocks = self._tree_blocks()
        run_blocks(lambda b: work(blocks[b]), len(blocks), self.n_jobs)

    def sum_over_trees(
        self, work: Callable[[tuple[int, int], FloatArray], None], shape: tuple[int, ...] = ()
    ) -> FloatArray:
        """Add up what `work` writes for each run of trees, in order; rows by default."""
        blocks = self._tree_blocks()
        return sum_blocks(
            lambda b, out: work(blocks[b], out),
            len(blocks),
            shape or self.shape[:1],
            self.n_jobs,
        )

    # Norms. C(v), the path sum of squared coordinates, is one number per leaf.

    def row_norms(self, *, squared: bool = False) -> FloatArray:
        r"""Norms :math:`\|\Phi(x_i)\|`; their squares are the Gram's diagonal.

        Parameters
        ----------
        squared : bool
            Whether to return the squares.

        Returns
        -------
        norms : array of shape (n_rows,)
        """
        norm = self.path_sums(self.squared_scale)
        total = self.sum_over_trees(
            lambda block, out: gather_leaves(self.leaf_ids, norm, *block, out)
        )
        return total if squared else np.sqrt(total)

    def sup_norm(self, center: FloatArray | None = None) -> float:
        r"""Largest norm over all combinations of leaves, one from each tree.

        .. math:: \Bigl(\sum_t \max_{\ell \in t} \|\Phi_t(\ell) - c_t\|^2\Bigr)^{1/2}

        Parameters
        ----------
        center : array of shape (n_nodes,), optional
            The vector c; 0 by default. Then the result is at most 1, up to rounding.

        Returns
        -------
        bound : float
            An upper bound on :math:`\sup_x \|\Phi(x) - c\|`, attained whenever some x reaches
            that combination.
        """
        roots = self.forest.roots
        if center is None:
            at_node = self.path_sums(self.squared_scale)
            at_tree = np.zeros(self.forest.n_trees)
        else:
            center = as_vector(center, self.forest.n_nodes)
            # |phi - c|^2 = sum over the path of (s^2 - 2 s c), plus |c|^2 of the tree.
            at_node = self.path_sums(self.squared_scale - 2 * self.scale * center)
            at_tree = np.add.reduceat(np.square(center), roots)
        at_leaf = np.where(self.forest.is_leaf, at_node, -np.inf)
        return float(np.sqrt((np.maximum.reduceat(at_leaf, roots) + at_tree).sum()))

    # The Gram, the distances and the matrix, on request.

    def gram(self, other: PathMap | None = None) -> FloatArray:
        r"""Inner products :math:`\langle \Phi(x_i), \Phi(z_j) \rangle`.

        Parameters
        ----------
        other : PathMap, optional
            The same embedding at other rows; itself by default.

        Returns
        -------
        gram : array of shape (n_rows, n_other_rows)
        """
        return self._pairs(other, distance=False)

    def distances(self, other: PathMap | None = None) -> FloatArray:
        r"""Path distances :math:`\|\Phi(x_i) - \Phi(z_j)\|^2`.

        They are summed tree by tree from nonnegative terms, not taken from the Gram: no
        cancellation, and exactly 0 for rows that share every leaf.

        Parameters
        ----------
        other : PathMap, optional
            The same embedding at other rows; itself by default.

        Returns
        -------
        distances : array of shape (n_rows, n_other_rows)
        """
        return self._pairs(other, distance=True)

    def _other(self, other: PathMap | None) -> PathMap:
        """The other side of a product of rows, itself by default."""
        if other is None:
            return self
        if (
            other.forest is not self.forest
            or other.weights is not self.weights
            or other.normalize != self.normalize
        ):
            raise ValueError("Both sides must be rows of one embedding: use map.on(X).")
        return other

    def _pairs(self, other: PathMap | None, *, distance: bool) -> FloatArray:
        forest, symmetric = self.forest, other is None
        other = self._other(other)
        if self.shape[0] > other.shape[0]:
            # Every row on the left costs a scan of the forest: take the shorter side.
            return np.ascontiguousarray(other._pairs(self, distance=distance).T)
        norm = self.path_sums(self.squared_scale)
        step = self.squared_scale if distance else np.zeros(forest.n_nodes)
        other_ids = other.leaf_ids
        n_rows, n_columns = self.shape[0], other.shape[0]
        out = np.zeros((n_rows, n_columns))
        rows_per_tile = max(1, _BYTES_PER_TILE // (8 * max(1, n_columns)))
        tiles = blocks_of(n_rows, -(-n_rows // rows_per_tile))

        def fill(tile: int) -> None:
            first, last = tiles[tile]
            fill_pairs(
                self.leaf_ids,
                other_ids,
                forest.tree_offsets,
                forest.parent,
                norm,
                step,
                distance,
                first,
                last,
                last if symmetric else n_columns,
                out,
            )

        run_blocks(fill, len(tiles), self.n_jobs)
        # Tiles were filled up to their own last column. What lies above is mirrored, which also
        # makes the result symmetric to the last bit.
        if symmetric:
            for first, last in tiles:
                out[:first, first:last] = out[first:last, :first].T
                corner = out[first:last, first:last]
                corner[...] = np.tril(corner) + np.tril(corner, -1).T
        return out

    def to_csr(self) -> sparse.csr_matrix:
        """Write the embedding out, 12 bytes for each node on each path.

        Returns
        -------
        phi : CSR matrix of shape (n_rows, n_nodes)
            Coordinates of weight 0 are left out; columns rise within a row.
        """
        n_rows = self.shape[0]
        # The entries of a row are the weighted nodes on its paths: one number per leaf.
        on_path = self.path_sums(self.scale > 0)
        n_entries = self.sum_over_trees(
            lambda block, out: gather_leaves(self.leaf_ids, on_path, *block, out)
        )
        row_start = np.zeros(n_rows + 1, dtype=np.int64)
        np.cumsum(n_entries.astype(np.int64), out=row_start[1:])
        columns = np.empty(row_start[-1], dtype=np.int32)
        values = np.empty(row_start[-1])
        blocks = blocks_of(n_rows, -(-n_rows // 1024))
        run_blocks(
            lambda b: fill_csr(
                self.leaf_ids,
                self.forest.parent,
                self.scale,
                row_start,
                *blocks[b],
                columns,
                values,
            ),
            len(blocks),
            self.n_jobs,
        )
        csr = sparse.csr_matrix((values, columns, row_start), shape=self.shape)
        csr.has_canonical_format = True
        return csr

    @property
    def coordinate_names(self) -> AnyArray:
        """``kpp_t{tree}_n{node}``, with the node's place in its tree; shape (n_nodes,)."""
        forest = self.forest
        tree = forest.tree_of_node
        node = np.arange(forest.n_nodes) - forest.tree_offsets[tree]
        names = [f"kpp_t{t}_n{v}" for t, v in zip(tree.tolist(), node.tolist(), strict=True)]
        return np.array(names, dtype=object)

    @property
    def coordinate_variable(self) -> AnyArray:
        """Column that the split above each node tests; -1 at roots, -2 below oblique splits."""
        forest = self.forest
        return np.where(forest.parent >= 0, forest.feature[forest.parent], -1)


def _check_leaf_ids(forest: Forest, leaf_ids: Any) -> IntArray:
    """The compiled loops follow these ids without looking: every one must be a leaf of its tree."""
    leaf_ids = np.ascontiguousarray(leaf_ids, dtype=np.int32)
    if leaf_ids.ndim != 2 or len(leaf_ids) != forest.n_trees:
        raise ValueError(
            f"leaf_ids must have shape (n_trees, n_rows), n_trees = {forest.n_trees}; got "
            f"{leaf_ids.shape}. Use map.on(X), which finds them."
        )
    first, last = forest.tree_offsets[:-1, None], forest.tree_offsets[1:, None]
    inside = bool(((leaf_ids >= first) & (leaf_ids < last)).all())
    if not inside or not forest.is_leaf[leaf_ids].all():
        raise ValueError("leaf_ids must hold leaves of each tree. Use map.on(X), which finds them.")
    return leaf_ids


def _squared_scale(forest: Forest, weights: PathWeights, normalize: str) -> FloatArray:
    """Squared coordinates: edge weights over S_T, or over A_t and the number of trees."""
    if normalize == "forest":
        return weights.edge / weights.forest_mass
    mass = np.repeat(weights.tree_mass, np.diff(forest.tree_offsets))
    by_tree = np.divide(weights.edge, mass, out=np.zeros_like(mass), where=mass > 0)
    return by_tree / forest.n_trees
