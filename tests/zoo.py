"""Forests and rows for the tests."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from kpp.forest import Forest, Tree


def random_tree(rng, n_splits, n_features, oblique=0.0):
    """A tree of random shape: leaves are split one after the other, in random order.

    A share `oblique` of its splits compares a sum of two or three columns.
    """
    left, right = [-1], [-1]
    for _ in range(n_splits):
        leaves = [v for v, child in enumerate(left) if child < 0]
        v = int(rng.choice(leaves))
        left[v], right[v] = len(left), len(left) + 1
        left += [-1, -1]
        right += [-1, -1]
    n_nodes = len(left)
    # Half of the thresholds lie on a grid, so that rows of integers can hit them exactly.
    threshold = np.where(
        rng.random(n_nodes) < 0.5, rng.integers(-2, 3, n_nodes), rng.normal(size=n_nodes)
    )
    feature, missing_left = rng.integers(0, n_features, n_nodes), rng.random(n_nodes) < 0.5
    terms = {}
    for v in [v for v, child in enumerate(left) if child >= 0 and oblique]:
        if rng.random() < oblique:
            columns = rng.choice(n_features, min(n_features, rng.integers(2, 4)), replace=False)
            # Half of the weights are small integers, for the same reason.
            whole = rng.choice([-2.0, -1.0, 1.0, 2.0], len(columns))
            terms[v] = (columns, whole if rng.random() < 0.5 else rng.normal(size=len(columns)))
    return Tree(
        left=left,
        right=right,
        feature=feature,
        threshold=threshold,
        missing_left=missing_left,
        oblique=terms,
    )


def random_forest(seed, n_trees=5, n_features=3, most_splits=12, oblique=None):
    """A forest of random shapes, some trees a single root.

    For every third seed half of the splits are oblique, unless `oblique` gives their share.
    """
    if oblique is None:
        oblique = 0.5 if seed % 3 == 2 and n_features > 1 else 0.0
    rng = np.random.default_rng(seed)
    splits = rng.integers(0, most_splits + 1, n_trees)
    splits[0] = most_splits
    return Forest.from_trees(
        [random_tree(rng, n, n_features, oblique) for n in splits], n_features=n_features
    )


def random_rows(seed, n_rows=40, n_features=3):
    rng = np.random.default_rng(seed + 1000)
    X = rng.normal(size=(n_rows, n_features))
    X[::2] = rng.integers(-2, 3, X[::2].shape)
    return X


def random_node_weight(seed, forest):
    """Nonnegative weights over many scales, a third of them 0, and 0 at leaves."""
    rng = np.random.default_rng(seed + 2000)
    weight = np.exp(3 * rng.normal(size=forest.n_nodes)) * (rng.random(forest.n_nodes) < 0.67)
    weight[0] = 1.0
    return np.where(forest.is_leaf, 0.0, weight)


def obvious_value(forest, x, v):
    """What split v compares with its threshold: one column, or a sum added from left to right."""
    if forest.split_kind[v] != 3:
        return x[forest.feature[v]]
    value = 0.0
    for k in range(forest.term_offsets[v], forest.term_offsets[v + 1]):
        value = value + float(forest.term_weights[k]) * float(x[forest.term_columns[k]])
    return value


def obvious_path(forest, x, tree):
    """The nodes from the root to the leaf of one row, one comparison at a time."""
    v = int(forest.tree_offsets[tree])
    path = [v]
    while forest.left[v] >= 0:
        value = obvious_value(forest, x, v)
        goes_left = (
            bool(forest.missing_left[v]) if np.isnan(value) else value <= forest.threshold[v]
        )
        v = int(forest.left[v] if goes_left else forest.right[v])
        path.append(v)
    return path


def obvious_embedding(forest, X, squared_coordinate):
    """The embedding as a dense matrix, node by node."""
    phi = np.zeros((len(X), forest.n_nodes))
    for i, x in enumerate(X):
        for tree in range(forest.n_trees):
            path = obvious_path(forest, x, tree)
            phi[i, path] = np.sqrt(squared_coordinate[path])
    return phi


def supervised_models():
    """Every supervised family whose own `apply` is public, unfitted."""
    return {
        "random forest, classes": RandomForestClassifier(7, random_state=0),
        "random forest, numbers": RandomForestRegressor(7, random_state=0),
        "extra trees, classes": ExtraTreesClassifier(7, random_state=0),
        "extra trees, numbers": ExtraTreesRegressor(7, random_state=0),
        "best-first forest": RandomForestClassifier(7, max_leaf_nodes=9, random_state=0),
        "entropy forest": RandomForestClassifier(7, criterion="entropy", random_state=0),
        "decision tree, classes": DecisionTreeClassifier(random_state=0),
        "decision tree, numbers": DecisionTreeRegressor(random_state=0),
        "best-first tree": DecisionTreeRegressor(max_leaf_nodes=12, random_state=0),
        "extra tree, classes": ExtraTreeClassifier(random_state=0),
        "extra tree, numbers": ExtraTreeRegressor(random_state=0),
        "stumps": ExtraTreesRegressor(7, max_depth=1, random_state=0),
        "roots": RandomForestRegressor(3, min_samples_leaf=10_000, random_state=0),
        "gradient boosting, classes": GradientBoostingClassifier(n_estimators=5, random_state=0),
        "gradient boosting, numbers": GradientBoostingRegressor(n_estimators=5, random_state=0),
    }


def unsupervised_models():
    return {
        "totally random trees": RandomTreesEmbedding(7, random_state=0),
        "isolation forest": IsolationForest(n_estimators=7, random_state=0),
        "isolation forest, some columns": IsolationForest(
            n_estimators=7, max_features=2, random_state=0
        ),
    }


def bagging_models():
    return {
        "bagging, classes": BaggingClassifier(DecisionTreeClassifier(), 5, random_state=0),
        "bagging, numbers": BaggingRegressor(ExtraTreeRegressor(), 5, random_state=0),
        "bagging, some columns": BaggingRegressor(
            DecisionTreeRegressor(), 5, max_features=2, bootstrap_features=True, random_state=0
        ),
    }


def source_leaves(model, X):
    """The leaf numbers that the source library gives, shape (n_rows, n_trees)."""
    if hasattr(model, "estimators_features_"):
        members = zip(model.estimators_, model.estimators_features_, strict=True)
        return np.column_stack([tree.apply(X[:, columns]) for tree, columns in members])
    return model.apply(X).reshape(len(X), -1)


def beside_thresholds(forest, X, n_rows=400, seed=0):
    """Rows whose values lie on thresholds and one float32 and float64 step beside them."""
    rng = np.random.default_rng(seed)
    splits = np.flatnonzero(forest.split_kind == 1)
    rows = X[rng.integers(0, len(X), n_rows)].astype(np.float64)
    for i, v in enumerate(rng.choice(splits, n_rows) if len(splits) else []):
        t = forest.threshold[v]
        single = np.float32(t)
        rows[i, forest.feature[v]] = [
            t,
            np.nextafter(t, -np.inf),
            np.nextafter(t, np.inf),
            single,
            np.nextafter(single, np.float32(-np.inf)),
            np.nextafter(single, np.float32(np.inf)),
        ][i % 6]
    return rows
