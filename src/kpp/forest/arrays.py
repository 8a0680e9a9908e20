"""`Forest`: a tree ensemble as flat, immutable arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from kpp._shown import Shown
from kpp._typing import AnyArray, BoolArray, FloatArray, IntArray, OffsetArray
from kpp.forest.bare import BareScores
from kpp.forest.derived import all_numerical, depth_first, parents, stands_in
from kpp.forest.layout import (
    ARRAY_TYPES,
    CATEGORICAL,
    MAX_NODES,
    NODE_ARRAYS,
    NUMERICAL,
    Tree,
    check_layout,
    lay_out,
    own_read_only,
)
from kpp.forest.nodes import Nodes, Splits
from kpp.forest.others import all_categories
from kpp.forest.pools import join_offsets, take_from_pools
from kpp.forest.sets import for_categories, pool_of, whole_categories
from kpp.forest.statistics import NodeStatistics
from kpp.forest.sums import add_to_parents, as_vector, path_sums

# What forests must have in common to be joined.
READINGS = ("n_features", "dtype", "missing_values")
# Offsets per node, and the pools that they cut.
POOLS = {
    "category_offsets": ("category_bits",),
    "term_offsets": ("term_columns", "term_weights", "term_shares"),
}


@dataclass(frozen=True, eq=False, repr=False)
class Forest(Shown):
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
        Column of the user's X that the node splits on, -1 at leaves, -2 at oblique splits.
    threshold : float64 array of shape (n_nodes,)
        ``x <= threshold`` goes left, with x in the comparison dtype `dtype`, or the sum of an
        oblique split. NaN at leaves and categorical splits.
    missing_left : bool array of shape (n_nodes,)
        Whether a missing value goes left.
    split_kind : uint8 array of shape (n_nodes,)
        0 leaf, 1 numerical, 2 categorical, 3 oblique.
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
        (an unknown category) is treated as missing, unless the last of them is
        `kpp.forest.others.AnyOther`, which stands for all such values.
    allows_nan, allows_infinity : bool
        What the source library accepts in X.
    statistics : NodeStatistics, optional
        What the source library recorded of its training target at each node.
    source : str
        Class name of the source model.
    bare : BareScores, optional
        What the source library predicts, as one number per node; see `bare_scores`.
    term_offsets : int64 array of shape (n_nodes + 1,) or (0,)
        Node v owns the terms ``term_offsets[v]:term_offsets[v + 1]``. Empty when no split is
        oblique.
    term_columns, term_weights : int32 and float64 arrays of shape (n_terms,)
        An oblique split compares :math:`\sum_k a_k x_{j_k}` with its threshold: products and sums
        in float64, added in this order. A row that misses one of the columns is missing there.
    term_shares : float64 array of shape (n_terms,)
        Each column's share of what the split adds to an attribution by variable; they add up to
        1 in every split. See `kpp.forest.columns.column_shares`.
    missing_values : dict of int to (float, float), optional
        Column -> the values that count as missing there, from the first number to the second, as
        well as NaN: a library may be told that 0 or -999 stands for nothing.
    whole_categories : set of int, optional
        Columns whose categories are whole numbers, and in which any other number counts as its
        whole part: 2.7 as 2, -0.5 as 0.

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
    bare: BareScores | None = None
    term_offsets: OffsetArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    term_columns: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    term_weights: FloatArray = field(default_factory=lambda: np.empty(0))
    term_shares: FloatArray = field(default_factory=lambda: np.empty(0))
    missing_values: dict[int, tuple[float, float]] = field(default_factory=dict)
    whole_categories: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        # Frozen for everybody else; these are the arrays in the dtypes that compiled loops are
        # compiled for.
        for name, dtype in ARRAY_TYPES.items():
            object.__setattr__(self, name, own_read_only(getattr(self, name), dtype))
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        for name in ("categories", "missing_values"):
            object.__setattr__(self, name, dict(getattr(self, name)))
        object.__setattr__(self, "whole_categories", frozenset(self.whole_categories))
        check_layout(self)
        if self.bare is not None:
            self.bare.check(self.n_trees, self.n_nodes, self.statistics)

    @classmethod
    def from_model(cls, model: Any, *, rows: Any = None) -> Forest:
        """Read a fitted ensemble.

        Parameters
        ----------
        model : fitted estimator
            scikit-learn's RandomForest, ExtraTrees, DecisionTree, ExtraTree, GradientBoosting,
            HistGradientBoosting, RandomTreesEmbedding, IsolationForest, or a bagging or AdaBoost of
            single trees; `ObliqueForestRegressor` and `ObliqueForestClassifier`; estimators and
            ``Booster`` of LightGBM and XGBoost, CatBoost's models. A ``FrozenEstimator`` around one
            of them counts as what it holds; a `Forest` is returned as it is.
        rows : data frame or array of shape (n_rows, n_features), optional
            Rows that hold every category of the model, as those of training do. Read for CatBoost
            alone, which does not keep the names of categories.

        Returns
        -------
        forest : Forest

        Raises
        ------
        TypeError
            For any other model; the message lists what is supported. Nothing is approximated.
        """
        from kpp.forest.importers import import_forest

        return import_forest(model, rows=rows)

    @classmethod
    def from_trees(
        cls,
        trees: Sequence[Tree],
        *,
        n_features: int,
        dtype: Any = np.float64,
        statistics: NodeStatistics | None = None,
        bare: BareScores | None = None,
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
        bare : BareScores, optional
            Likewise.
        **attributes
            Further attributes of `Forest`, such as `feature_names`.

        Returns
        -------
        forest : Forest

        Examples
        --------
        >>> from kpp.forest import Forest, Tree
        >>> stump = Tree(left=[2, -1, -1], right=[1, -1, -1], feature=[0, -1, -1],
        ...              threshold=[0.5, 0, 0])
        >>> forest = Forest.from_trees([stump], n_features=1)
        >>> forest.apply([[0.5], [0.6]]).ravel().tolist()
        [1, 2]
        >>> forest.source_leaf.tolist()
        [0, 2, 1]
        """
        # Nodes move when trees are laid out, and what is known of each node moves with them.
        flat, order, _ = lay_out(trees)
        return cls(
            n_features=n_features,
            dtype=dtype,
            statistics=None if statistics is None else statistics.take(order),
            bare=None if bare is None else bare.take_nodes(order),
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

    def bare_scores(self, X: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Predict as the source model does: the raw scores of the bare ensemble.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows, in the user's columns.
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        scores : array of shape (n_rows, n_scores)
            Averaging forests: ``predict`` of a regressor, one column per output, or
            ``predict_proba`` of a classifier. Boosters: the score that trees are added to, which
            is ``decision_function`` of a classifier (one column for two classes) and ``predict``
            of a regressor, or its logarithm where the loss has a log link (Poisson, gamma).

        Raises
        ------
        ValueError
            For a forest without such scores: it was grown without a target, or its source
            predicts otherwise than by one number per leaf.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> from kpp import Forest
        >>> X, y = load_iris(return_X_y=True)
        >>> model = RandomForestClassifier(n_estimators=10, random_state=0).fit(X, y)
        >>> scores = Forest.from_model(model).bare_scores(X)
        >>> bool(abs(scores - model.predict_proba(X)).max() < 1e-15)
        True
        """
        from kpp.forest.route import route

        if self.bare is None:
            raise ValueError(
                f"This forest (from {self.source}) does not know what its ensemble predicts: it "
                "has no target, some of its trees, or a prediction that is not a mean or a sum "
                "of leaf values."
            )
        return self.bare.scores(route(self, X, n_jobs=n_jobs), self.statistics)

    def path_sums(self, values: Any) -> FloatArray:
        """Sum values of nodes from the root down to each node.

        Parameters
        ----------
        values : array-like of shape (n_nodes,)
            One number per node.

        Returns
        -------
        sums : array of shape (n_nodes,)
        """
        out = np.empty(self.n_nodes)
        values = as_vector(values, self.n_nodes)
        path_sums(self.tree_offsets, self.parent, values, 0, self.n_trees, out)
        return out

    def leaf_sums(self, values: Any) -> FloatArray:
        """Sum values of leaves over the leaves below each node.

        Parameters
        ----------
        values : array-like of shape (n_nodes,)
            One number per node, read at the leaves.

        Returns
        -------
        sums : array of shape (n_nodes,)
            At a leaf its own value.
        """
        out = np.where(self.is_leaf, as_vector(values, self.n_nodes), 0.0)
        add_to_parents(self.tree_offsets, self.parent, out)
        return out

    def nodes_of(self, trees: Any) -> OffsetArray | slice:
        """Node ids of some trees, one tree after the other; a slice for a slice of neighbours."""
        starts, stops = self.tree_offsets[:-1], self.tree_offsets[1:]
        if isinstance(trees, slice):
            first, last, step = trees.indices(self.n_trees)
            # Neighbouring trees are neighbours in the arrays: a slice is a view, and copies
            # nothing.
            if step == 1 and first < last:
                return slice(int(starts[first]), int(stops[last - 1]))
            trees = np.arange(self.n_trees)[trees]
        return np.concatenate([np.arange(starts[t], stops[t]) for t in np.atleast_1d(trees)])

    def take_trees(self, trees: Any) -> Forest:
        """Return the forest of some of the trees, in the given order.

        Parameters
        ----------
        trees : array-like of int, or slice
            Numbers of trees; at least one. A slice of neighbours shares what it can.

        Returns
        -------
        forest : Forest
            Its bare scores are the mean of these trees, where the forest averages. Some rounds
            of a booster are no ensemble of their own, and have none.
        """
        chosen = np.atleast_1d(np.arange(self.n_trees)[trees])
        if len(chosen) == 0:
            raise ValueError("A forest needs at least one tree; got none.")
        nodes = self.nodes_of(trees if isinstance(trees, slice) else chosen)
        trees = chosen
        sizes = np.diff(self.tree_offsets)[trees]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        # Ids count from the start of the forest, so each tree's move by as much as the tree does;
        # the -1 of roots and leaves is no id, and stays.
        shift = np.repeat(offsets[:-1] - self.tree_offsets[trees], sizes)
        changed: dict[str, Any] = {name: getattr(self, name)[nodes] for name in NODE_ARRAYS}
        for name in ("parent", "left"):
            changed[name] = np.where(changed[name] < 0, -1, changed[name] + shift).astype(np.int32)
        for name, pools in POOLS.items():
            own = [getattr(self, pool) for pool in pools]
            changed[name], taken = take_from_pools(getattr(self, name), own, nodes)
            changed |= dict(zip(pools, taken, strict=True))
        statistics = None if self.statistics is None else self.statistics.take(nodes)
        bare = None if self.bare is None else self.bare.take_trees(chosen, nodes)
        return replace(self, tree_offsets=offsets, statistics=statistics, bare=bare, **changed)

    def with_categories(self, categories: dict[int, AnyArray]) -> Forest:
        """Return the same forest for other numbers of its categories, and for more of them.

        A category that the forest does not know goes as before: where any other one goes, or else
        where a missing value goes.

        Parameters
        ----------
        categories : dict of int to array
            Column -> categories in the order of their codes; all that the forest knows.

        Returns
        -------
        forest : Forest
        """
        same = categories.keys() == self.categories.keys() and all(
            categories[j].tolist() == self.categories[j].tolist() for j in categories
        )
        if same:
            return self
        categorical = self.split_kind == CATEGORICAL
        parts = []
        for column in np.unique(self.feature[categorical]).tolist():
            nodes = np.flatnonzero(categorical & (self.feature == column))
            known = self.categories[column]
            parts.append((nodes, for_categories(self, nodes, known, categories[column])))
        offsets, bits = pool_of(parts, self.n_nodes)
        return replace(self, categories=categories, category_offsets=offsets, category_bits=bits)

    @classmethod
    def concatenate(cls, forests: Sequence[Forest], *, release: bool = False) -> Forest:
        """Put the trees of several forests of the same columns into one.

        Parameters
        ----------
        forests : sequence of Forest
            At least one; equal in columns and comparison dtype. Where they know different
            categories, each keeps its treatment of those that it does not know.
        release : bool
            Whether each array is taken away from the forests once it is copied. It saves memory,
            and leaves them unusable.

        Returns
        -------
        forest : Forest
            Its statistics are those of the parts, where every part has some. Its bare scores
            are the mean of the parts': over all trees, or over boosters.
        """
        first = forests[0]
        for other in forests[1:]:
            if any(getattr(other, name) != getattr(first, name) for name in READINGS):
                raise ValueError("Forests can be joined when they read the same columns alike.")
        categories = all_categories([forest.categories for forest in forests])
        by_whole_part = whole_categories(forests)
        forests = [forest.with_categories(categories) for forest in forests]
        sizes = [forest.n_nodes for forest in forests]
        if sum(sizes) > MAX_NODES:
            raise ValueError(f"{sum(sizes)} nodes are more than 32-bit ids can number.")
        # A row goes through all trees, so it may have NaN only where every part takes it.
        shared: dict[str, Any] = {"allows_nan": all(forest.allows_nan for forest in forests)}
        shared["whole_categories"] = by_whole_part
        shared |= {
            name: getattr(first, name)
            for name in (*READINGS, "feature_names", "allows_infinity", "source")
        }

        has_numbers = any("source_leaf" in vars(forest) for forest in forests)
        if release:
            for forest in forests:
                for name in ("nodes", "splits"):  # they hold the arrays, too
                    vars(forest).pop(name, None)

        # One field at a time: with `release` no more than one array exists twice at any moment.
        def take(name: str) -> list[Any]:
            arrays = [getattr(forest, name) for forest in forests]
            if release:
                for forest in forests:
                    vars(forest).pop(name, None)
            return arrays

        bare, statistics = take("bare"), take("statistics")
        joined = None
        if all(part is not None for part in statistics):
            joined = NodeStatistics.concatenate(statistics)
        shared["bare"] = BareScores.concatenate(bare, joined)
        del statistics, bare
        # The left children last: what a part does not hold is made from them.
        names = sorted(NODE_ARRAYS, key=lambda name: name == "left")
        changed: dict[str, Any] = {name: np.concatenate(take(name)) for name in names}
        shift = np.repeat(np.cumsum(sizes) - sizes, sizes).astype(np.int32)
        # In place, because these arrays are the largest; -1 is no id, and stays.
        for name in ("parent", "left"):
            np.add(changed[name], shift, out=changed[name], where=changed[name] >= 0)
        tree_sizes = np.concatenate([np.diff(offsets) for offsets in take("tree_offsets")])
        changed["tree_offsets"] = np.concatenate([[0], np.cumsum(tree_sizes)])
        for name, pools in POOLS.items():
            changed[name] = join_offsets(take(name), sizes)
            changed |= {pool: np.concatenate(take(pool)) for pool in pools}
        for array in changed.values():
            array.flags.writeable = False
        whole = cls(categories=categories, statistics=joined, **shared, **changed)
        if not has_numbers:
            vars(whole).pop("source_leaf")  # no part has them: they count depth first
        return whole

    @property
    def n_trees(self) -> int:
        """Number K of trees."""
        return len(self.tree_offsets) - 1

    @property
    def n_nodes(self) -> int:
        """Number m of nodes over all trees."""
        return len(self.left)

    @property
    def right(self) -> IntArray:
        """Right child of each node, -1 at leaves: siblings stand side by side."""
        return np.where(self.left < 0, np.int32(-1), self.left + np.int32(1))

    @cached_property
    def is_leaf(self) -> BoolArray:
        """Which nodes are leaves, bool array of shape (n_nodes,)."""
        is_leaf = self.left < 0
        is_leaf.flags.writeable = False
        return is_leaf

    @cached_property
    def nodes(self) -> Nodes:
        """The node arrays as the one argument that compiled loops take."""
        return Nodes(*(getattr(self, name) for name in Nodes._fields))

    @cached_property
    def splits(self) -> Splits:
        """Those of them that a walk down a tree reads."""
        return Splits(*(getattr(self, name) for name in Splits._fields))

    @cached_property
    def in_float64(self) -> Forest:
        """A forest that compares in float64 and decides like this one; see `join.as_float64`."""
        from kpp.forest.join import compare_in_float64

        return compare_in_float64(self)

    @cached_property
    def column_thresholds(self) -> tuple[FloatArray, ...]:
        """Distinct thresholds of the numerical splits on each column, rising; one array each."""
        splits = np.flatnonzero(self.split_kind == NUMERICAL)
        # Numbers of 16 bits are put in order in linear time.
        small = np.uint16 if self.n_features <= 2**16 else np.int32
        order = splits[np.argsort(self.feature[splits].astype(small), kind="stable")]
        ends = np.cumsum(np.bincount(self.feature[order], minlength=self.n_features))
        return tuple(map(np.unique, np.split(self.threshold[order], ends[:-1])))

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


# What a forest that `let_go` made smaller does not hold.
stands_in(Forest, "parent", parents)
stands_in(Forest, "source_leaf", depth_first)
stands_in(Forest, "split_kind", all_numerical)
