"""`Forest`: a tree ensemble as flat, immutable arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from kpp._typing import AnyArray, BoolArray, FloatArray, IntArray, OffsetArray
from kpp.forest._loops import breadth_first_order

if TYPE_CHECKING:
    from kpp.forest.statistics import NodeStatistics

LEAF, NUMERICAL, CATEGORICAL = 0, 1, 2
MAX_NODES = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree as an importer finds it: node 0 is the root, otherwise any order.

    Parameters
    ----------
    left, right : int array of shape (n_nodes,)
        Children by position in these arrays; -1 for both at a leaf.
    feature : int array of shape (n_nodes,)
        Column of the split; not read at leaves.
    threshold : float array of shape (n_nodes,)
        ``x <= threshold`` goes left; not read at leaves and categorical splits.
    missing_left : bool array of shape (n_nodes,), optional
        Where a missing value goes; to the right by default.
    left_categories : dict of int to int array, optional
        The categorical splits: node -> the category codes that go left. Every other category
        goes right.
    source_leaf : int array of shape (n_nodes,), optional
        The library's own number of each node; its position by default.
    """

    left: ArrayLike
    right: ArrayLike
    feature: ArrayLike
    threshold: ArrayLike
    missing_left: ArrayLike | None = None
    left_categories: dict[int, ArrayLike] = field(default_factory=dict)
    source_leaf: ArrayLike | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Forest:
    r"""All trees of an ensemble in one flat, immutable structure.

    The nodes of tree t stand at ``tree_offsets[t]:tree_offsets[t + 1]``, level by level: the
    root first, every parent before its children, siblings side by side (``right = left + 1``).
    A node id is a position in these arrays. That order turns every sum along paths into one
    forward scan, and every sum over subtrees into one backward scan.

    Make one with `Forest.from_model`.

    Parameters
    ----------
    tree_offsets : int64 array of shape (n_trees + 1,)
        First node of each tree, and ``n_nodes``.
    parent : int32 array of shape (n_nodes,)
        Parent of each node, -1 at roots.
    left : int32 array of shape (n_nodes,)
        Left child, -1 at leaves.
    feature : int32 array of shape (n_nodes,)
        Column of the user's X that the node splits on, -1 at leaves.
    threshold : float64 array of shape (n_nodes,)
        ``x <= threshold`` goes left, with x in the comparison dtype `dtype`. NaN at leaves and
        categorical splits.
    missing_left : bool array of shape (n_nodes,)
        Whether a missing value goes left.
    split_kind : uint8 array of shape (n_nodes,)
        0 leaf, 1 numerical, 2 categorical.
    category_offsets : int64 array of shape (n_nodes + 1,) or (0,)
        Node v owns the words ``category_offsets[v]:category_offsets[v + 1]`` of
        `category_bits`. Empty when no split is categorical.
    category_bits : uint32 array
        Bit c of a node's words tells whether category code c goes left.
    source_leaf : int32 array of shape (n_nodes,)
        The source library's own number of each node within its tree.
    n_features : int
        Number of columns of X.
    dtype : numpy dtype
        float32 or float64: what the source library compares in. Rows are cast to it.
    feature_names : tuple of str, optional
        Column names, where the source model had them.
    categories : dict of int to array, optional
        Column -> its categories in the order of their codes. A value that is not among them
        (an unknown category) is treated as missing.
    allows_nan, allows_infinity : bool
        What the source library accepts in X.
    statistics : NodeStatistics, optional
        What the source library recorded of its training target at each node.
    source : str
        Class name of the source model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from kpp import Forest
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RandomForestClassifier(n_estimators=10, max_depth=1).fit(X, y)
    >>> forest = Forest.from_model(model)
    >>> forest
    Forest(n_trees=10, n_nodes=30, n_features=4, source='RandomForestClassifier')
    >>> leaf_ids = forest.apply(X)
    >>> leaf_ids.shape
    (150, 10)
    >>> bool((forest.source_leaf[leaf_ids] == model.apply(X)).all())
    True
    """

    tree_offsets: OffsetArray
    parent: IntArray
    left: IntArray
    feature: IntArray
    threshold: FloatArray
    missing_left: BoolArray
    split_kind: AnyArray
    category_offsets: OffsetArray
    category_bits: AnyArray
    source_leaf: IntArray
    n_features: int
    dtype: Any
    feature_names: tuple[str, ...] | None = None
    categories: dict[int, AnyArray] = field(default_factory=dict)
    allows_nan: bool = True
    allows_infinity: bool = False
    statistics: NodeStatistics | None = None
    source: str = "Forest"

    def __post_init__(self) -> None:
        for name, dtype in _ARRAY_TYPES.items():
            # A copy: an immutable structure must not share memory that others may write to.
            array = np.array(getattr(self, name), dtype=dtype, order="C")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        _check_structure(self)

    @classmethod
    def from_model(cls, model: Any) -> Forest:
        """Read a fitted ensemble.

        Parameters
        ----------
        model : fitted estimator
            scikit-learn's RandomForest, ExtraTrees, DecisionTree, ExtraTree, GradientBoosting,
            HistGradientBoosting, RandomTreesEmbedding, IsolationForest, or a bagging of single
            trees. A ``FrozenEstimator`` around one of them counts as what it holds; a `Forest`
            is returned as it is.

        Returns
        -------
        forest : Forest

        Raises
        ------
        TypeError
            For any other model; the message lists what is supported. Nothing is approximated.
        """
        from kpp.forest.importers import import_forest

        return import_forest(model)

    @classmethod
    def from_trees(
        cls,
        trees: Sequence[Tree],
        *,
        n_features: int,
        dtype: Any = np.float64,
        statistics: NodeStatistics | None = None,
        **attributes: Any,
    ) -> Forest:
        """Put single trees, in any node order, into the canonical flat order.

        Parameters
        ----------
        trees : sequence of Tree
            At least one.
        n_features : int
            Number of columns of X.
        dtype : numpy dtype
            float32 or float64, the comparison dtype.
        statistics : NodeStatistics, optional
            In the order of the given trees, one after the other.
        **attributes
            Further attributes of `Forest`, such as `feature_names`.

        Returns
        -------
        forest : Forest

        Examples
        --------
        >>> from kpp.forest.arrays import Forest, Tree
        >>> stump = Tree(left=[2, -1, -1], right=[1, -1, -1], feature=[0, -1, -1],
        ...              threshold=[0.5, 0, 0])
        >>> forest = Forest.from_trees([stump], n_features=1)
        >>> forest.apply([[0.5], [0.6]]).ravel().tolist()
        [1, 2]
        >>> forest.source_leaf.tolist()
        [0, 2, 1]
        """
        if not trees:
            raise ValueError("A forest needs at least one tree; got none.")
        sizes = [len(np.asarray(tree.left)) for tree in trees]
        n_nodes = sum(sizes)
        if n_nodes > MAX_NODES:
            raise ValueError(
                f"The forest has {n_nodes} nodes, and node ids are 32-bit: at most {MAX_NODES}. "
                "Grow fewer or shallower trees (n_estimators, max_depth, min_samples_leaf)."
            )
        tree_offsets = np.concatenate([[0], np.cumsum(sizes)])
        pieces = [_reorder(tree, base) for tree, base in zip(trees, tree_offsets, strict=False)]
        flat: dict[str, Any] = {
            name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]
        }
        order = flat.pop("order")
        category_offsets, category_bits = _category_pool(
            [tree.left_categories for tree in trees], tree_offsets, order
        )
        return cls(
            tree_offsets=tree_offsets,
            category_offsets=category_offsets,
            category_bits=category_bits,
            n_features=n_features,
            dtype=dtype,
            statistics=None if statistics is None else statistics.take(order),
            **flat,
            **attributes,
        )

    def apply(self, X: Any, *, n_jobs: int | None = None) -> IntArray:
        """Find the leaf that each row reaches in each tree.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows, in the user's columns.
        n_jobs : int, optional
            Number of threads. The result does not depend on it.

        Returns
        -------
        leaf_ids : int32 array of shape (n_rows, n_trees)
            Node ids; ``forest.source_leaf[leaf_ids]`` are the source library's leaf numbers.
            The array is tree by tree in memory (Fortran order).
        """
        from kpp.forest.route import route

        return route(self, X, n_jobs=n_jobs).T

    @property
    def n_trees(self) -> int:
        """Number K of trees."""
        return len(self.tree_offsets) - 1

    @property
    def n_nodes(self) -> int:
        """Number m of nodes over all trees."""
        return len(self.parent)

    @property
    def right(self) -> IntArray:
        """Right child of each node, -1 at leaves: siblings stand side by side."""
        return np.where(self.left < 0, np.int32(-1), self.left + np.int32(1))

    @cached_property
    def is_leaf(self) -> BoolArray:
        """Which nodes are leaves, bool array of shape (n_nodes,)."""
        return self.left < 0

    @property
    def roots(self) -> OffsetArray:
        """The root of each tree, int array of shape (n_trees,)."""
        return self.tree_offsets[:-1]

    @property
    def tree_of_node(self) -> OffsetArray:
        """The tree of each node, int array of shape (n_nodes,)."""
        return np.repeat(np.arange(self.n_trees), np.diff(self.tree_offsets))

    @property
    def max_tree_nodes(self) -> int:
        """Number of nodes of the largest tree."""
        return int(np.diff(self.tree_offsets).max())

    def __repr__(self) -> str:
        return (
            f"Forest(n_trees={self.n_trees}, n_nodes={self.n_nodes}, "
            f"n_features={self.n_features}, source={self.source!r})"
        )

    # An immutable object is its own copy, and no hyperparameter search may take it apart.
    def __copy__(self) -> Forest:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Forest:
        return self

    def __sklearn_clone__(self) -> Forest:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, which checks the arrays and makes them read-only again.
        state = {f.name: getattr(self, f.name) for f in fields(self)}
        return _rebuild, (state,)


def _rebuild(state: dict[str, Any]) -> Forest:
    return Forest(**state)


_ARRAY_TYPES: dict[str, Any] = {
    "tree_offsets": np.int64,
    "parent": np.int32,
    "left": np.int32,
    "feature": np.int32,
    "threshold": np.float64,
    "missing_left": np.bool_,
    "split_kind": np.uint8,
    "category_offsets": np.int64,
    "category_bits": np.uint32,
    "source_leaf": np.int32,
}


def _reorder(tree: Tree, base: int) -> dict[str, AnyArray]:
    """The arrays of one tree in breadth-first order, with ids that start at `base`."""
    left = np.ascontiguousarray(tree.left, dtype=np.int32)
    right = np.ascontiguousarray(tree.right, dtype=np.int32)
    size = len(left)
    _check_binary_tree(left, right)
    order = np.empty(size, dtype=np.int64)
    breadth_first_order(left, right, order)
    is_leaf = left[order] < 0
    internal = np.flatnonzero(~is_leaf)
    # The k-th internal node in this order has the nodes 2k + 1 and 2k + 2 as its children.
    first_child = 2 * np.arange(len(internal)) + 1
    new_left = np.full(size, -1, dtype=np.int32)
    new_left[internal] = first_child + base
    parent = np.full(size, -1, dtype=np.int32)
    parent[first_child] = parent[first_child + 1] = internal + base
    categorical = np.zeros(size, dtype=bool)
    categorical[list(tree.left_categories)] = True
    categorical = categorical[order]
    missing_left = np.zeros(size) if tree.missing_left is None else np.asarray(tree.missing_left)
    source = np.arange(size) if tree.source_leaf is None else np.asarray(tree.source_leaf)
    threshold = np.asarray(tree.threshold, dtype=np.float64)[order]
    return {
        "parent": parent,
        "left": new_left,
        "feature": np.where(is_leaf, -1, np.asarray(tree.feature)[order]).astype(np.int32),
        "threshold": np.where(is_leaf | categorical, np.nan, threshold),
        "missing_left": missing_left.astype(bool)[order] & ~is_leaf,
        "split_kind": np.select([is_leaf, categorical], [LEAF, CATEGORICAL], NUMERICAL).astype(
            np.uint8
        ),
        "source_leaf": source[order].astype(np.int32),
        "order": order + base,
    }


def _check_binary_tree(left: IntArray, right: IntArray) -> None:
    """Every node but node 0 is the child of exactly one node, and children come in pairs."""
    internal = left >= 0
    children = np.concatenate([left[internal], right[internal]])
    if (
        len(left) == 0
        or left.shape != right.shape
        or not np.array_equal(internal, right >= 0)
        or not np.array_equal(np.sort(children), np.arange(1, len(left)))
    ):
        raise ValueError(
            "Not a binary tree: every node except node 0 must be the left or right child of "
            "exactly one node, and a node has two children or none."
        )
    # One parent each is not enough: a cycle beside the tree would pass. Climb from all nodes.
    parent = np.zeros(len(left), dtype=np.int64)
    parent[children] = np.tile(np.flatnonzero(internal), 2)
    ancestor = parent
    for _ in range(int(np.ceil(np.log2(len(left) + 1)))):
        ancestor = ancestor[ancestor]
    if ancestor.any():
        raise ValueError("Not a binary tree: some nodes cannot be reached from the root, node 0.")


def _category_pool(
    left_categories: Sequence[dict[int, ArrayLike]],
    tree_offsets: AnyArray,
    order: AnyArray,
) -> tuple[AnyArray, AnyArray]:
    """Pack the sets of categories that go left into words of 32 bits, in node order."""
    if not any(left_categories):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint32)
    new_id = np.empty(len(order), dtype=np.int64)
    new_id[order] = np.arange(len(order))
    words_of: dict[int, AnyArray] = {}
    for splits, base in zip(left_categories, tree_offsets, strict=False):
        for node, goes_left in splits.items():
            codes = np.asarray(goes_left, dtype=np.int64)
            words = np.zeros(1 + (codes.max() >> 5 if len(codes) else 0), dtype=np.uint32)
            np.bitwise_or.at(words, codes >> 5, np.uint32(1) << (codes & 31).astype(np.uint32))
            words_of[int(new_id[base + node])] = words
    n_words = np.zeros(len(order) + 1, dtype=np.int64)
    for node, words in words_of.items():
        n_words[node + 1] = len(words)
    return np.cumsum(n_words), np.concatenate([words_of[node] for node in sorted(words_of)])


def _check_structure(forest: Forest) -> None:
    """Refuse arrays that are not a forest in canonical order."""
    offsets, parent, left = forest.tree_offsets, forest.parent, forest.left
    n_nodes, sizes = len(parent), np.diff(offsets)
    internal = np.flatnonzero(left >= 0)
    child = left[internal].astype(np.int64)
    per_node = ("left", "feature", "threshold", "missing_left", "split_kind", "source_leaf")

    def require(condition: bool, what: str) -> None:
        if not condition:
            raise ValueError(f"These arrays are not a forest: {what}.")

    require(
        offsets.ndim == 1 and len(offsets) >= 2 and offsets[0] == 0 and offsets[-1] == n_nodes,
        "tree_offsets must rise from 0 to the number of nodes",
    )
    require(
        all(getattr(forest, name).shape == (n_nodes,) for name in per_node),
        "all node arrays must have one entry per node",
    )
    require(
        bool((sizes > 0).all() and (sizes % 2 == 1).all()),
        "a tree has an odd number of nodes",
    )
    # In breadth-first order the k-th internal node of a tree has the children 2k + 1, 2k + 2.
    tree = np.searchsorted(offsets, internal, side="right") - 1
    n_internal = np.bincount(tree, minlength=len(sizes))
    require(bool((2 * n_internal + 1 == sizes).all()), "a tree has one leaf more than splits")
    rank = np.arange(len(internal)) - np.repeat(np.cumsum(n_internal) - n_internal, n_internal)
    require(
        bool((child == offsets[tree] + 2 * rank + 1).all() and (child > internal).all()),
        "nodes must stand level by level, siblings side by side",
    )
    expected_parent = np.full(n_nodes, -1, dtype=np.int32)
    expected_parent[child] = expected_parent[child + 1] = internal
    require(bool((parent == expected_parent).all()), "parent and left contradict each other")
    require(
        bool(((forest.split_kind == LEAF) == (left < 0)).all() and forest.split_kind.max() <= 2),
        "split_kind must be 0 at leaves and 1 or 2 at splits",
    )
    split_feature = forest.feature[internal]
    require(
        bool(((split_feature >= 0) & (split_feature < forest.n_features)).all()),
        f"a split names a column outside the {forest.n_features} columns",
    )
    require(
        not np.isnan(forest.threshold[forest.split_kind == NUMERICAL]).any(),
        "the threshold of a numerical split is NaN",
    )
    words = np.diff(forest.category_offsets) if len(forest.category_offsets) else np.zeros(n_nodes)
    require(
        words.shape == (n_nodes,)
        and bool(((words > 0) == (forest.split_kind == CATEGORICAL)).all())
        and int(words.sum()) == len(forest.category_bits),
        "category_offsets and category_bits do not fit the categorical splits",
    )
    require(forest.dtype in (np.float32, np.float64), "dtype must be float32 or float64")
    require(
        forest.feature_names is None or len(forest.feature_names) == forest.n_features,
        "feature_names must name every column",
    )
