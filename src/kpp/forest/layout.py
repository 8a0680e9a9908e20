"""The canonical order of a forest's arrays: how trees are put into it, and how it is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from kpp._shown import Shown
from kpp._typing import AnyArray
from kpp.forest._loops import check_levels, lay_out_tree
from kpp.forest.others import AnyOther
from kpp.forest.pools import owned_parts

if TYPE_CHECKING:
    from kpp.forest.arrays import Forest

LEAF, NUMERICAL, CATEGORICAL, OBLIQUE = 0, 1, 2, 3
# In place of a column: none at a leaf, several at an oblique split.
NO_COLUMN, SEVERAL_COLUMNS = -1, -2
# Leaf ids are kept for every row and tree: in 32 bits they take half the memory.
MAX_NODES = np.iinfo(np.int32).max

NODE_ARRAYS: dict[str, Any] = {
    "parent": np.int32,
    "left": np.int32,
    "feature": np.int32,
    "threshold": np.float64,
    "missing_left": np.bool_,
    "split_kind": np.uint8,
    "source_leaf": np.int32,
}
ARRAY_TYPES: dict[str, Any] = NODE_ARRAYS | {
    "tree_offsets": np.int64,
    "category_offsets": np.int64,
    "category_bits": np.uint32,
    "term_offsets": np.int64,
    "term_columns": np.int32,
    "term_weights": np.float64,
    "term_shares": np.float64,
}
# What the shares of a split's terms may miss 1 by: a few roundings.
SHARE_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Tree(Shown):
    """One tree as an importer finds it: node 0 is the root, otherwise any order.

    Parameters
    ----------
    left, right : int array of shape (n_nodes,)
        Children by position in these arrays; -1 for both at a leaf.
    feature : int array of shape (n_nodes,)
        Column of the split; not read at leaves and oblique splits.
    threshold : float array of shape (n_nodes,)
        ``x <= threshold`` goes left; not read at leaves and categorical splits.
    missing_left : bool array of shape (n_nodes,), optional
        Where a missing value goes; to the right by default.
    left_categories : dict of int to int array, optional
        The categorical splits: node -> the category codes that go left. Every other category
        goes right.
    source_leaf : int array of shape (n_nodes,), optional
        The library's own number of each node; its position by default.
    per_node : dict of str to array of shape (n_nodes, ...), optional
        Further numbers of the nodes, which move with them.
    oblique : mapping of int to tuple, optional
        The oblique splits: node -> ``(columns, weights)`` of the sum that is compared with the
        threshold, at least two different columns, in the order in which they are added; or
        ``(columns, weights, shares)`` with each column's share of what the split adds to an
        attribution, by default in proportion to the size of its weight.
    """

    left: ArrayLike
    right: ArrayLike
    feature: ArrayLike
    threshold: ArrayLike
    missing_left: ArrayLike | None = None
    left_categories: dict[int, ArrayLike] = field(default_factory=dict)
    source_leaf: ArrayLike | None = None
    per_node: dict[str, AnyArray] = field(default_factory=dict)
    oblique: Mapping[int, tuple[ArrayLike, ...]] = field(default_factory=dict)


def lay_out(
    trees: Iterable[Tree], sizes: Sequence[int] | None = None, *, wants_order: bool = True
) -> tuple[dict[str, Any], AnyArray, dict[str, AnyArray]]:
    """Put trees into the flat arrays of a `Forest`, each level by level.

    Parameters
    ----------
    trees : iterable of Tree
        Taken one at a time where their sizes are given: no other needs to exist meanwhile.
    sizes : sequence of int, optional
        Their numbers of nodes.
    wants_order : bool
        Whether `order` is asked for; it takes 8 bytes for each node.

    Returns
    -------
    arrays : dict
        The arrays of `Forest`, by name.
    order : int array of shape (n_nodes,)
        Where each node stood among the given trees, one after the other; of no use unless it
        is asked for.
    per_node : dict of str to array
        The further numbers of the nodes, where trees have them.
    """
    if sizes is None:
        trees = list(trees)
        sizes = [len(np.asarray(tree.left)) for tree in trees]
    if not sizes:
        raise ValueError("A forest needs at least one tree; got none.")
    n_nodes = sum(sizes)
    if n_nodes > MAX_NODES:
        raise ValueError(
            f"The forest has {n_nodes} nodes, and node ids are 32-bit: at most {MAX_NODES}. "
            "Grow fewer or shallower trees (n_estimators, max_depth, min_samples_leaf)."
        )
    tree_offsets = np.concatenate([[0], np.cumsum(sizes)])
    arrays: dict[str, Any] = {
        name: np.empty(n_nodes, dtype=dtype) for name, dtype in NODE_ARRAYS.items()
    }
    order = np.empty(n_nodes if wants_order else max(sizes), dtype=np.int64)
    left_of: dict[int, AnyArray] = {}
    terms_of: dict[int, tuple[ArrayLike, ...]] = {}
    per_node: dict[str, AnyArray] = {}
    for tree, base, size in zip(trees, tree_offsets.tolist(), sizes, strict=False):
        nodes = slice(base, base + size)
        own = order[nodes] if wants_order else order[:size]
        _lay_out_one(tree, base, {name: a[nodes] for name, a in arrays.items()}, own)
        for name, values in tree.per_node.items():
            if name not in per_node:
                per_node[name] = np.empty((n_nodes, *values.shape[1:]))
            per_node[name][nodes] = values[own]
        if tree.left_categories or tree.oblique:
            # `own` takes new places to old ones; importers name such splits by the old ones.
            new_id = np.empty(size, dtype=np.int64)
            new_id[own] = np.arange(base, base + size)
            for node, codes in tree.left_categories.items():
                left_of[int(new_id[node])] = np.asarray(codes)
            for node, terms in tree.oblique.items():
                terms_of[int(new_id[node])] = terms
        own += base
    arrays["tree_offsets"] = tree_offsets
    arrays["category_offsets"], arrays["category_bits"] = pack_categories(left_of, n_nodes)
    arrays |= pack_terms(terms_of, n_nodes)
    # Read-only, so that `own_read_only` takes them into a `Forest` without another copy.
    for array in arrays.values():
        array.flags.writeable = False
    return arrays, order, per_node


def own_read_only(values: Any, dtype: Any) -> AnyArray:
    """Return the values as a read-only array that nobody else can write to."""
    # A view of a writable array could still be changed through that array, after all checks were
    # passed and while compiled loops trust them. Only what nobody can write to is shared.
    if (
        isinstance(values, np.ndarray)
        and values.dtype == dtype
        and values.flags.c_contiguous
        and not values.flags.writeable
        and (values.base is None or _is_owned(values.base))
    ):
        return values
    array = np.array(values, dtype=dtype, order="C")
    array.flags.writeable = False
    return array


def _is_owned(base: Any) -> bool:
    """Whether a view's memory belongs to a read-only array: nobody can write to it."""
    return isinstance(base, np.ndarray) and base.base is None and not base.flags.writeable


def _lay_out_one(tree: Tree, base: int, into: dict[str, AnyArray], order: AnyArray) -> None:
    left = np.ascontiguousarray(tree.left, dtype=np.int32)
    right = np.ascontiguousarray(tree.right, dtype=np.int32)
    is_tree = np.zeros(1, dtype=bool)
    if len(left) and left.shape == right.shape:
        lay_out_tree(left, right, base, order, into["parent"], into["left"], is_tree)
    if not is_tree[0]:
        raise ValueError(
            "Not a binary tree: every node must be reached from node 0 in exactly one way, and "
            "have two children or none."
        )
    # What an importer leaves in these fields at leaves means nothing. Fixed values there make equal
    # trees equal arrays, and a comparison with NaN is never true by chance.
    is_leaf = into["left"] < 0
    into["feature"][:] = np.asarray(tree.feature)[order]
    into["feature"][is_leaf] = NO_COLUMN
    into["threshold"][:] = np.asarray(tree.threshold)[order]
    into["threshold"][is_leaf] = np.nan
    into["missing_left"][:] = (
        False if tree.missing_left is None else np.asarray(tree.missing_left)[order]
    )
    into["missing_left"][is_leaf] = False
    into["source_leaf"][:] = (
        order if tree.source_leaf is None else np.asarray(tree.source_leaf)[order]
    )
    into["split_kind"][:] = np.where(is_leaf, LEAF, NUMERICAL)
    if tree.left_categories:
        categorical = np.isin(order, list(tree.left_categories))
        into["split_kind"][categorical] = CATEGORICAL
        into["threshold"][categorical] = np.nan
    if tree.oblique:
        oblique = np.isin(order, list(tree.oblique))
        into["split_kind"][oblique] = OBLIQUE
        into["feature"][oblique] = SEVERAL_COLUMNS


def pack_categories(left_of: dict[int, AnyArray], n_nodes: int) -> tuple[AnyArray, AnyArray]:
    """Pack the sets of categories that go left into words of 32 bits, in node order."""
    if not left_of:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint32)
    n_words, pool = np.zeros(n_nodes + 1, dtype=np.int64), []
    for node in sorted(left_of):
        codes = np.asarray(left_of[node], dtype=np.int64)
        if (codes < 0).any():
            raise ValueError(f"Category codes must not be negative; got {codes.min()}.")
        # At least one word, also for an empty set: compiled loops know a categorical split by its
        # having words.
        words = np.zeros(1 + (codes.max() >> 5 if len(codes) else 0), dtype=np.uint32)
        np.bitwise_or.at(words, codes >> 5, np.uint32(1) << (codes & 31).astype(np.uint32))
        n_words[node + 1] = len(words)
        pool.append(words)
    return np.cumsum(n_words), np.concatenate(pool)


def pack_terms(terms_of: Mapping[int, tuple[ArrayLike, ...]], n_nodes: int) -> dict[str, AnyArray]:
    """Put the terms of oblique splits into pools, in node order."""
    names = ("term_columns", "term_weights", "term_shares")
    n_terms = np.zeros(n_nodes + 1, dtype=np.int64)
    pools: dict[str, list[AnyArray]] = {name: [np.empty(0)] for name in names}
    for node in sorted(terms_of):
        columns, weights, *shares = (np.asarray(part) for part in terms_of[node])
        if not shares:
            size = np.abs(weights)
            shares = [size / size.sum()]
        if not (columns.ndim == 1 and columns.shape == weights.shape == shares[0].shape):
            raise ValueError("An oblique split needs one weight, and one share, for each column.")
        n_terms[node + 1] = len(columns)
        for name, part in zip(names, (columns, weights, shares[0]), strict=True):
            pools[name].append(part)
    packed = {name: np.concatenate(pool).astype(ARRAY_TYPES[name]) for name, pool in pools.items()}
    offsets = np.cumsum(n_terms) if terms_of else np.empty(0, dtype=np.int64)
    return {"term_offsets": offsets, **packed}


def check_layout(forest: Forest) -> None:
    """Refuse arrays that are not a forest in canonical order.

    The compiled loops trust what passes here: no id leads outside the arrays, and every walk
    down ends.
    """
    offsets, n_nodes = forest.tree_offsets, len(forest.parent)

    def require(condition: Any, what: str) -> None:
        if not condition:
            raise ValueError(f"These arrays are not a forest: {what}.")

    require(
        offsets.ndim == 1
        and len(offsets) >= 2
        and offsets[0] == 0
        and offsets[-1] == n_nodes
        and (np.diff(offsets) > 0).all(),
        "tree_offsets must rise from 0 to the number of nodes",
    )
    require(
        all(getattr(forest, name).shape == (n_nodes,) for name in NODE_ARRAYS),
        "all node arrays must have one entry per node",
    )
    in_order = np.zeros(1, dtype=bool)
    check_levels(offsets, forest.parent, forest.left, in_order)
    require(
        in_order[0],
        "nodes must stand level by level, siblings side by side, parent and left in agreement",
    )
    kind, is_leaf = forest.split_kind, forest.left < 0
    require(
        np.array_equal(kind == LEAF, is_leaf) and kind.max() <= OBLIQUE,
        "split_kind must be 0 at leaves and 1, 2 or 3 at splits",
    )
    within = (forest.feature >= 0) & (forest.feature < forest.n_features)
    has_column = ~is_leaf & (kind != OBLIQUE)
    require(
        (within | ~has_column).all(),
        f"a split names a column outside the {forest.n_features} columns",
    )
    require(
        not (np.isnan(forest.threshold) & (kind == NUMERICAL)).any(),
        "the threshold of a numerical split is NaN",
    )
    owned = owned_parts(forest.category_offsets, n_nodes)
    require(owned, "category_offsets must rise from 0, with one entry per node and one more")
    assert owned is not None
    require(
        np.array_equal(owned[0], kind == CATEGORICAL) and owned[1] == len(forest.category_bits),
        "category_offsets and category_bits do not fit the categorical splits",
    )
    _check_terms(forest, require)
    require(forest.n_features >= 1, "there must be at least one column")
    require(forest.dtype in (np.float32, np.float64), "dtype must be float32 or float64")
    require(
        forest.feature_names is None or len(forest.feature_names) == forest.n_features,
        "feature_names must name every column",
    )
    for known in forest.categories.values():
        before = known[:-1].tolist() if known.dtype == object else []
        require(
            not any(isinstance(value, AnyOther) for value in before),
            "what stands for any other category must be the last one",
        )
    for column, (low, high) in forest.missing_values.items():
        require(
            0 <= column < forest.n_features and low <= high and forest.allows_nan,
            "missing_values must be ranges of columns, in a forest that allows NaN",
        )
    require(
        forest.whole_categories <= forest.categories.keys(),
        "whole_categories must be columns with categories",
    )


def _check_terms(forest: Forest, require: Callable[[Any, str], None]) -> None:
    """Refuse terms that are not those of the oblique splits."""
    oblique, n_features = forest.split_kind == OBLIQUE, forest.n_features
    owned = owned_parts(forest.term_offsets, len(oblique))
    require(owned, "term_offsets must rise from 0, with one entry per node and one more")
    assert owned is not None
    columns, weights, shares = forest.term_columns, forest.term_weights, forest.term_shares
    require(
        np.array_equal(owned[0], oblique)
        and all(part.shape == (owned[1],) for part in (columns, weights, shares)),
        "term_offsets, term_columns, term_weights and term_shares do not fit the oblique splits",
    )
    if owned[1] == 0:
        return
    first = forest.term_offsets[:-1][oblique]
    split = np.repeat(np.arange(len(first)), np.diff(forest.term_offsets)[oblique])
    require(
        (columns >= 0).all() and (columns < n_features).all(),
        f"an oblique split names a column outside the {n_features} columns",
    )
    pairs = np.unique(split.astype(np.int64) * n_features + columns)
    several = np.diff(forest.term_offsets)[oblique].min() > 1
    require(
        several and len(pairs) == len(columns),
        "an oblique split needs at least two columns, each once",
    )
    require(
        np.isfinite(weights).all() and (weights != 0).all(),
        "the weights of an oblique split must be finite and not 0",
    )
    require(not np.isnan(forest.threshold[oblique]).any(), "the threshold of a split is NaN")
    total = np.add.reduceat(shares, first)
    require(
        (shares >= 0).all() and (np.abs(total - 1) <= SHARE_ROUNDING).all(),
        "the shares of an oblique split must be at least 0 and add up to 1",
    )
    require((forest.feature[oblique] == SEVERAL_COLUMNS).all(), "feature must be -2 there")
    # Rounding the columns first would make sums that no threshold in float64 stands for.
    require(forest.dtype == np.float64, "oblique splits are compared in float64")
