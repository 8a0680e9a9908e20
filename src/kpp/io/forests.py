r"""Forests and embeddings in a file.

The children of a tree are not stored. Its nodes stand level by level, siblings side by side, so
the k-th split of a tree, counted from 0, has its children at 1 + 2k and 2 + 2k: which nodes are
splits says it all. A file cannot express a cycle or a child outside of its tree. Leaves of rows
are stored by their number among the leaves of their tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray, IntArray
from kpp.forest.arrays import Forest
from kpp.forest.bare import BareScores
from kpp.forest.layout import (
    CATEGORICAL,
    LEAF,
    MAX_NODES,
    NO_COLUMN,
    NUMERICAL,
    OBLIQUE,
    SEVERAL_COLUMNS,
)
from kpp.forest.others import AnyOther, other_of, with_other
from kpp.forest.statistics import NodeStatistics
from kpp.geometry.maps import NORMALIZATIONS, PathMap
from kpp.geometry.weights import PathWeights
from kpp.io.errors import CannotSaveError
from kpp.io.fields import (
    all_differ,
    check_scores,
    floats,
    integers,
    is_number,
    labels,
    require,
    threads,
    whole,
)
from kpp.io.schema import Field, FieldTable, required
from kpp.io.values import MOST_KEY_STEPS, Fields, Kind, key_steps
from kpp.io.writer import Writer

# More than any table has, few enough that one number per column fits memory.
MOST_COLUMNS = 1 << 24
LEAVES_AT_ONCE = 1 << 20
TOO_MANY_CATEGORIES = "too many categories that are neither texts nor an array of numbers"
STATISTICS = required("count", "mean", "variance", "class_share", "classes", "grown_on_impurity")
BARE = required("base", "combines", "values", "tree_score", "classes")
SUMS = required("terms", "columns", "weights", "shares")
FOREST: FieldTable = {
    **required("tree_sizes", "split_kind", "feature", "threshold", "missing_left", "source_leaf"),
    **required("category_words", "category_bits", "n_features", "dtype", "feature_names"),
    **required("categories", "allows_nan", "allows_infinity", "source"),
    "statistics": Field(inside=STATISTICS),
    "bare": Field(since=2, default=None, inside=BARE),
    "sums": Field(since=2, default=None, inside=SUMS),
    "missing_values": Field(since=2, default=None),
    "whole_categories": Field(since=2, default=None),
    "other_categories": Field(since=2, default=None),
}
WEIGHTS = required("node", "edge", "tree_mass", "forest_mass")
MAP: FieldTable = {**required("forest", "leaves", "normalize", "n_jobs"), **WEIGHTS}


def encode_forest(forest: Forest, writer: Writer, where: str) -> Fields:
    """Take a forest apart."""
    kind = forest.split_kind
    splits, categorical, oblique = kind != LEAF, kind == CATEGORICAL, kind == OBLIQUE
    words = np.diff(forest.category_offsets)[categorical] if categorical.any() else np.empty(0, int)
    categories, others = {}, {}
    for column, known in forest.categories.items():
        other = other_of(known)
        categories[int(column)] = known if other is None else _listed(known)
        if other is not None:
            others[int(column)] = other.value
    for known in categories.values():
        if known.dtype == object and key_steps(known.tolist()) > MOST_KEY_STEPS:
            raise CannotSaveError(f"Cannot save {where}: {TOO_MANY_CATEGORIES}.")
    statistics, bare = (
        None if part is None else {name: getattr(part, name) for name in table}
        for part, table in ((forest.statistics, STATISTICS), (forest.bare, BARE))
    )
    # Only where there are some: all other forests stay readable where these are not known.
    rare = {}
    if oblique.any():
        own = {
            "terms": np.diff(forest.term_offsets)[oblique],
            "columns": forest.term_columns,
            "weights": forest.term_weights,
            "shares": forest.term_shares,
        }
        rare["sums"] = writer.value(own, f"{where}.sums")
    if forest.missing_values:
        ranges = {int(j): [float(a), float(b)] for j, (a, b) in forest.missing_values.items()}
        rare["missing_values"] = writer.value(ranges, f"{where}.missing_values")
    if forest.whole_categories:
        columns = np.array(sorted(forest.whole_categories))
        rare["whole_categories"] = writer.packed(columns)
    if others:
        rare["other_categories"] = writer.value(others, f"{where}.other_categories")
    return rare | {
        "tree_sizes": writer.packed(np.diff(forest.tree_offsets)),
        "split_kind": writer.value(kind, where),
        "feature": writer.packed(forest.feature[splits & ~oblique]),
        "threshold": writer.value(forest.threshold[(kind == NUMERICAL) | oblique], where),
        "missing_left": writer.value(np.packbits(forest.missing_left[splits]), where),
        "source_leaf": writer.packed(forest.source_leaf),
        "category_words": writer.packed(words),
        "category_bits": writer.value(forest.category_bits, where),
        "n_features": int(forest.n_features),
        "dtype": writer.value(forest.dtype, where),
        "feature_names": writer.value(forest.feature_names, f"{where}.feature_names"),
        "categories": writer.value(categories, f"{where}.categories"),
        "allows_nan": bool(forest.allows_nan),
        "allows_infinity": bool(forest.allows_infinity),
        "statistics": writer.value(statistics, f"{where}.statistics"),
        "bare": writer.value(bare, f"{where}.bare"),
        "source": str(forest.source),
    }


def decode_forest(fields: Fields) -> Forest:
    """Put a forest together; whatever the fields hold, its loops stay inside its arrays."""
    kind = fields["split_kind"]
    right = isinstance(kind, np.ndarray) and kind.dtype == np.uint8 and kind.ndim == 1
    require(right and 0 < len(kind) <= MAX_NODES, "split_kind must be bytes")
    require(kind.max() <= OBLIQUE, "a split must be numerical, categorical or oblique")
    n_nodes = len(kind)
    splits, categorical, oblique = kind != LEAF, kind == CATEGORICAL, kind == OBLIQUE
    n_splits, n_columns = int(splits.sum()), whole(fields["n_features"], "columns", 1, MOST_COLUMNS)
    offsets, parent, left = _children(fields["tree_sizes"], splits)
    feature = np.full(n_nodes, NO_COLUMN, dtype=np.int32)
    feature[oblique] = SEVERAL_COLUMNS
    has_column = splits & ~oblique
    of_one = (int(has_column.sum()),)
    feature[has_column] = integers(fields["feature"], "columns", of_one, 0, n_columns - 1)
    numerical = (kind == NUMERICAL) | oblique
    threshold = np.full(n_nodes, np.nan)
    given = floats(fields["threshold"], "thresholds", (int(numerical.sum()),), finite=False)
    threshold[numerical] = given
    bits = fields["missing_left"]
    packed = isinstance(bits, np.ndarray) and bits.dtype == np.uint8
    require(packed and bits.shape == ((n_splits + 7) // 8,), "missing_left must be bits")
    # Only splits have a side for missing values, one bit each.
    missing_left = np.zeros(n_nodes, dtype=bool)
    missing_left[splits] = np.unpackbits(bits, count=n_splits).astype(bool)
    words = integers(fields["category_words"], "words", (int(categorical.sum()),), 1, MOST_COLUMNS)
    pool = fields["category_bits"]
    require(
        isinstance(pool, np.ndarray) and pool.dtype == np.uint32 and pool.shape == (words.sum(),),
        "category_bits must be the words of the categorical splits",
    )
    category_offsets = np.empty(0, dtype=np.int64)
    if len(words):
        n_words = np.zeros(n_nodes + 1, dtype=np.int64)
        n_words[1:][categorical] = words
        category_offsets = np.cumsum(n_words)
    categories = _categories(fields["categories"], n_columns)
    categories = _with_others(categories, fields["other_categories"])
    require(
        set(np.unique(feature[categorical]).tolist()) <= categories.keys(),
        "a categorical split needs the categories of its column",
    )
    low, high = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    source_leaf = integers(fields["source_leaf"], "source_leaf", (n_nodes,), low, high)
    for name in ("allows_nan", "allows_infinity"):
        require(isinstance(fields[name], bool), f"{name} must be true or false")
    require(fields["dtype"] in (np.float32, np.float64), "dtype must be float32 or float64")
    require(isinstance(fields["source"], str), "source must be a name")
    statistics = _statistics(fields["statistics"], n_nodes)
    return Forest(
        tree_offsets=offsets,
        parent=parent,
        left=left,
        feature=feature,
        threshold=threshold,
        missing_left=missing_left,
        split_kind=kind,
        category_offsets=category_offsets,
        category_bits=pool,
        source_leaf=source_leaf.astype(np.int32),
        n_features=n_columns,
        dtype=fields["dtype"],
        feature_names=_names(fields["feature_names"], n_columns),
        categories=categories,
        allows_nan=fields["allows_nan"],
        allows_infinity=fields["allows_infinity"],
        statistics=statistics,
        source=fields["source"],
        bare=_bare(fields["bare"], offsets, statistics),
        **_sums(fields["sums"], oblique, n_columns),
        missing_values=_missing_values(fields["missing_values"], n_columns),
        whole_categories=_whole_categories(fields["whole_categories"], categories),
    )


def _missing_values(ranges: Any, n_columns: int) -> dict[int, tuple[float, float]]:
    """Column -> the first and the last value that counts as missing there."""
    if ranges is None:
        return {}
    require(isinstance(ranges, dict), "missing_values must be ranges by column")
    checked = {}
    for column, ends in ranges.items():
        right = isinstance(ends, list) and len(ends) == 2
        require(right and all(isinstance(end, float) for end in ends), "a range has two ends")
        checked[whole(column, "columns", 0, n_columns - 1)] = (ends[0], ends[1])
    return checked


def _whole_categories(columns: Any, categories: dict[int, AnyArray]) -> frozenset[int]:
    """Columns in which a number counts as its whole part."""
    if columns is None:
        return frozenset()
    read = integers(columns, "columns of whole categories", None, 0, MOST_COLUMNS)
    require(set(read.tolist()) <= categories.keys(), "whole_categories must have categories")
    return frozenset(read.tolist())


def _children(tree_sizes: Any, splits: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Offsets of the trees, parents and left children, from which nodes are splits."""
    sizes = integers(tree_sizes, "tree_sizes", None, 1, MAX_NODES)
    n_nodes = len(splits)
    # Before they are added up: a sum of many large sizes could wrap around.
    require(0 < len(sizes) <= n_nodes and sizes.max() <= n_nodes, "more trees than nodes")
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    require(offsets[-1] == n_nodes, "the trees must hold all nodes")
    # Sizes are at least 1, so that no segment of `reduceat` is empty.
    n_splits = np.add.reduceat(splits.astype(np.int64), offsets[:-1])
    require((2 * n_splits + 1 == sizes).all(), "a binary tree has one leaf more than splits")
    tree = np.repeat(np.arange(len(sizes)), sizes)
    first_split = np.cumsum(n_splits) - n_splits
    at = np.flatnonzero(splits)
    # The k-th split of its tree has its children at 1 + 2k and 2 + 2k.
    rank = np.arange(len(at)) - first_split[tree[at]]
    children = offsets[tree[at]] + 1 + 2 * rank
    # What every forward scan relies on: without it a parent could be read before it is written.
    require((children > at).all(), "a split must stand before its children")
    left = np.full(n_nodes, -1, dtype=np.int32)
    parent = np.full(n_nodes, -1, dtype=np.int32)
    left[at] = children
    parent[children] = parent[children + 1] = at
    return offsets, parent, left


def _sums(own: Any, oblique: AnyArray, n_columns: int) -> dict[str, AnyArray]:
    """The terms of oblique splits; that each has two columns or more, `Forest` checks."""
    require((own is not None) == oblique.any(), "oblique splits and their sums belong together")
    if own is None:
        return {}
    require(isinstance(own, dict), "sums must be by name")
    most = min(n_columns, MOST_COLUMNS)
    n_terms = integers(own["terms"], "terms", (int(oblique.sum()),), 1, most)
    counts = np.zeros(len(oblique) + 1, dtype=np.int64)
    counts[1:][oblique] = n_terms
    shape = (int(n_terms.sum()),)
    return {
        "term_offsets": np.cumsum(counts),
        "term_columns": integers(own["columns"], "columns of sums", shape, 0, n_columns - 1),
        "term_weights": floats(own["weights"], "weights of sums", shape),
        "term_shares": floats(own["shares"], "shares of sums", shape, low=0.0),
    }


def _names(names: Any, n_columns: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    require(isinstance(names, tuple) and len(names) == n_columns, "every column needs a name")
    require(all(isinstance(name, str) for name in names), "names of columns must be text")
    checked: tuple[str, ...] = names
    return checked


def _categories(categories: Any, n_columns: int) -> dict[int, AnyArray]:
    require(isinstance(categories, dict), "categories must be by column")
    for column, known in categories.items():
        whole(column, "a column", 0, n_columns - 1)
        require(isinstance(known, np.ndarray) and known.ndim == 1, "categories must be a list")
        if known.dtype == object:
            plain = all(isinstance(v, str | int | float | bool | None) for v in known.tolist())
            require(plain, "categories must be plain values")
            few = key_steps(known.tolist()) <= MOST_KEY_STEPS
            require(few, TOO_MANY_CATEGORIES)
    checked: dict[int, AnyArray] = categories
    return checked


def _listed(known: AnyArray) -> AnyArray:
    """Categories without what stands for any other; codes as an array of numbers."""
    listed = known[:-1].tolist()
    if listed and all(type(value) is int and abs(value) < 2**63 for value in listed):
        return np.array(listed, dtype=np.int64)
    return known[:-1]


def _with_others(categories: dict[int, AnyArray], others: Any) -> dict[int, AnyArray]:
    """Put back what stands for any other category: columns of names, and columns of codes."""
    if others is None:
        return categories
    require(isinstance(others, dict), "other categories must be by column")
    kinds = {other.value: other for other in AnyOther}
    for column, kind in others.items():
        require(column in categories, "other categories of a column without categories")
        require(isinstance(kind, str) and kind in kinds, "other categories are names or codes")
        categories[column] = with_other(categories[column].tolist(), kinds[kind])
    return categories


def _statistics(own: Any, n_nodes: int) -> NodeStatistics | None:
    if own is None:
        return None
    require(isinstance(own, dict), "statistics must be by name")
    floats(own["count"], "count", (n_nodes,), low=0.0)
    require(isinstance(own["grown_on_impurity"], bool), "grown_on_impurity must be a boolean")
    if own["class_share"] is None:
        require(own["classes"] is None, "classes without shares")
        mean = own["mean"]
        require(isinstance(mean, np.ndarray) and mean.ndim == 2, "mean must have two dimensions")
        floats(mean, "mean", (n_nodes, mean.shape[1]))
        floats(own["variance"], "variance", (n_nodes,))  # of rounding, also below 0
    else:
        require(own["mean"] is None and own["variance"] is None, "statistics of one target")
        classes = labels(own["classes"], "classes")
        floats(own["class_share"], "class_share", (n_nodes, len(classes)), low=0.0)
    return NodeStatistics(**own)


def _bare(own: Any, offsets: AnyArray, statistics: NodeStatistics | None) -> BareScores | None:
    """What the ensemble predicts; that the shapes are those of the trees, `Forest` checks."""
    if own is None:
        return None
    require(isinstance(own, dict), "bare scores must be by name")
    base, values, classes = own["base"], own["values"], own["classes"]
    n_scores = len(base) if isinstance(base, np.ndarray) and base.ndim == 1 else 0
    require(n_scores > 0, "bare scores need a base")
    floats(base, "base", (n_scores,))
    require(own["combines"] in ("mean", "sum"), "trees are averaged or added")
    if own["tree_score"] is not None:
        added = values is not None and own["combines"] == "sum"
        require(added, "only trees that are added belong to one score each")
        integers(own["tree_score"], "tree_score", (len(offsets) - 1,), 0, n_scores - 1)
    if values is None:
        require(own["combines"] == "mean" and statistics is not None, "bare scores without values")
    else:
        n_rows = n_scores if own["tree_score"] is None else 1
        floats(values, "bare values", (n_rows, int(offsets[-1])))
        # One score may get every tree.
        check_scores([(offsets[:-1], values)], np.full(n_rows, np.abs(base).max()))
    if classes is not None:
        known = labels(classes, "classes of bare scores")
        require(all_differ(known), "a class of bare scores stands twice")
        right = len(known) == n_scores or (n_scores, len(known)) == (1, 2)
        require(right, "bare scores and classes differ")
    return BareScores(**own)


def encode_map(embedding: PathMap, writer: Writer, where: str) -> Fields:
    """Take the embedding of one forest, at the rows of its fit, apart."""
    forest = embedding.forest
    weights = weights_fields(forest, embedding.weights)
    return {
        "forest": writer.value(forest, f"{where}.forest"),
        "leaves": writer.value(_leaf_numbers(forest, embedding.leaf_ids), where),
        **{name: writer.value(value, where) for name, value in weights.items()},
        "forest_mass": float(embedding.weights.forest_mass),
        "normalize": embedding.normalize,
        "n_jobs": writer.value(embedding.n_jobs, f"{where}.n_jobs"),
    }


def weights_fields(forest: Forest, weights: PathWeights) -> dict[str, Any]:
    """Take weights apart; edge weights that follow from those of nodes are left out."""
    # Compared bit for bit; edges that were given otherwise, as for leaf-only coordinates, are
    # stored.
    derived = np.array_equal(weights.edge, edge_weights(forest, weights.node))
    return {
        "node": _splits_first(forest, weights.node),
        "edge": None if derived else _splits_first(forest, weights.edge),
        "tree_mass": np.asarray(weights.tree_mass, dtype=np.float64),
    }


def node_and_edge(forest: Forest, fields: Fields) -> tuple[FloatArray, FloatArray]:
    """Put the weights of nodes and edges together."""
    shape = (forest.n_nodes,)
    node = _as_before(forest, floats(fields["node"], "node weights", shape, low=0.0))
    if fields["edge"] is None:
        return node, edge_weights(forest, node)
    return node, _as_before(forest, floats(fields["edge"], "edge weights", shape, low=0.0))


def decode_map(fields: Fields) -> PathMap:
    """Put an embedding together."""
    forest = fields["forest"]
    require(isinstance(forest, Forest), "a map needs a forest")
    node, edge = node_and_edge(forest, fields)
    mass = floats(fields["tree_mass"], "tree masses", (forest.n_trees,), low=0.0)
    require(is_number(fields["forest_mass"]) and fields["forest_mass"] > 0, "S_T must be positive")
    require(fields["normalize"] in NORMALIZATIONS, "normalize must be 'forest' or 'tree'")
    leaf_ids = _leaf_ids(forest, fields["leaves"])
    with np.errstate(over="ignore"):
        embedding = PathMap(
            forest,
            PathWeights(node, edge, mass, float(fields["forest_mass"])),
            leaf_ids,
            normalize=fields["normalize"],
            n_jobs=threads(fields["n_jobs"]),
        )
    require(np.isfinite(embedding.squared_scale).all(), "the coordinates must be finite")
    return embedding


def _leaf_numbers(forest: Forest, leaf_ids: IntArray) -> AnyArray:
    """Number of each row's leaf among the leaves of its tree, in the smallest type."""
    most = max(len(leaves) for leaves in _leaves_by_tree(forest))
    # Numbers below `most`, so that 256 leaves still fit one byte.
    kind = next(k for k in (np.uint8, np.uint16, np.uint32) if most <= np.iinfo(k).max + 1)
    numbers = np.empty(leaf_ids.shape, dtype=kind)
    for own, ids, leaves in zip(numbers, leaf_ids, _leaves_by_tree(forest), strict=True):
        own[:] = np.searchsorted(leaves, ids)
    return numbers


def _leaf_ids(forest: Forest, numbers: Any) -> IntArray:
    require(
        isinstance(numbers, np.ndarray)
        and numbers.dtype in (np.uint8, np.uint16, np.uint32)
        and numbers.ndim == 2
        and len(numbers) == forest.n_trees,
        "leaves must be by tree and row",
    )
    leaf_ids = np.empty(numbers.shape, dtype=np.int32)
    leaves = np.flatnonzero(forest.is_leaf)
    starts = np.searchsorted(leaves, forest.tree_offsets)
    # Not tree by tree: a file can have millions of trees that are a leaf.
    n_at_once = max(1, LEAVES_AT_ONCE // max(1, numbers.shape[1]))
    for first in range(0, forest.n_trees if numbers.size else 0, n_at_once):
        own = numbers[first : first + n_at_once]
        start, end = starts[first : first + len(own)], starts[first + 1 : first + 1 + len(own)]
        inside = (own < (end - start)[:, None]).all()
        require(inside, "a leaf that the tree does not have")
        leaf_ids[first : first + len(own)] = leaves[start[:, None] + own]
    leaf_ids.flags.writeable = False
    return leaf_ids


def _leaves_by_tree(forest: Forest) -> list[AnyArray]:
    leaves = np.flatnonzero(forest.is_leaf)
    return np.split(leaves, np.searchsorted(leaves, forest.tree_offsets[1:-1]))


def edge_weights(forest: Forest, node: FloatArray) -> FloatArray:
    """Edge weights as `kpp.geometry.path_weights` computes them: entry by entry, so exactly."""
    inner = forest.parent >= 0
    own = np.where(forest.is_leaf & inner, node, node / 2)
    edge: FloatArray = own + np.where(inner, node[forest.parent] / 2, 0.0)
    return edge


def _splits_first(forest: Forest, values: FloatArray) -> FloatArray:
    """Values of the splits, then those of the leaves, which are mostly alike."""
    values = np.asarray(values, dtype=np.float64)
    return np.concatenate([values[~forest.is_leaf], values[forest.is_leaf]])


def _as_before(forest: Forest, values: FloatArray) -> FloatArray:
    restored = np.empty_like(values)
    n_splits = forest.n_nodes - int(forest.is_leaf.sum())
    restored[~forest.is_leaf], restored[forest.is_leaf] = values[:n_splits], values[n_splits:]
    return restored


KINDS = {
    Forest: Kind("kpp.Forest", FOREST, encode_forest, decode_forest),
    PathMap: Kind("kpp.PathMap", MAP, encode_map, decode_map),
}
