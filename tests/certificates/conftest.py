"""Small models with arbitrary coefficients, and certificates found by looking at every leaf."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from zoo import random_forest, random_node_weight, random_rows, random_tree

from kpp import KPPClassifier, KPPRegressor
from kpp.forest import Forest
from kpp.scores import AdditiveForest


def set_linear(model, coefficients, intercept):
    """Give a fitted model other coefficients."""
    w, b = np.atleast_2d(coefficients), np.atleast_1d(np.asarray(intercept, dtype=np.float64))
    model.additive_ = AdditiveForest.from_coefficients(model.map_, w, b, model.additive_.classes)
    has_one_number = isinstance(model, KPPRegressor) and len(w) == 1
    model.node_coef_, model.intercept_ = (w[0], b[0]) if has_one_number else (w, b)
    return model


def small_model(
    seed,
    *,
    task="binary",
    n_trees=3,
    most_splits=5,
    n_features=3,
    normalize="forest",
    blocks=1,
    kinds=None,
    oblique=None,
):
    """A model on random trees with random weights and random coefficients.

    With `kinds`, column 0 holds these categories, and values may be infinite; `oblique` is the
    share of oblique splits otherwise.
    """
    rng = np.random.default_rng(seed)
    forests = [
        random_forest(seed + 17 * b, n_trees, n_features, most_splits, oblique)
        if kinds is None
        else forest_with_categories(seed + 17 * b, n_trees, n_features, most_splits, kinds)
        for b in range(blocks)
    ]
    X = random_rows(seed, 30, n_features)
    if kinds is not None:
        X = X.astype(object)
        X[:, 0] = rng.choice(kinds, 30)
    n_scores = {"binary": 1, "multiclass": 3, "regression": 1, "targets": 2}[task]
    settings = {"regime": "fixed", "alpha": 1.0, "normalize": normalize}
    if blocks == 1:
        spec = forests[0]
        settings["node_weight"] = random_node_weight(seed, spec)
    else:
        spec = [(f"f{b}", forest) for b, forest in enumerate(forests)]
        settings["node_weight"] = "uniform"
    if task in ("binary", "multiclass"):
        y = np.arange(30) % (2 if task == "binary" else 3)
        model = KPPClassifier(spec, **settings).fit(X, y)
    else:
        y = rng.normal(size=(30, n_scores))
        model = KPPRegressor(spec, **settings).fit(X, y[:, 0] if n_scores == 1 else y)
    n_nodes = np.atleast_2d(model.node_coef_).shape[1]
    w = rng.normal(size=(n_scores, n_nodes)) * np.exp(rng.normal(size=(n_scores, n_nodes)))
    return set_linear(model, w, rng.normal(size=n_scores) * 0.3)


def forest_with_categories(seed, n_trees, n_features, most_splits, kinds):
    """Random trees that send random sets of categories of column 0 to the left."""
    rng = np.random.default_rng(seed)
    trees = []
    for _ in range(n_trees):
        tree = random_tree(rng, most_splits, n_features)
        left_of = {
            v: np.flatnonzero(rng.random(len(kinds)) < 0.5)
            for v, child in enumerate(tree.left)
            if child >= 0 and tree.feature[v] == 0
        }
        trees.append(replace(tree, left_categories=left_of))
    return Forest.from_trees(
        trees, n_features=n_features, categories={0: np.array(kinds)}, allows_infinity=True
    )


def obvious_tables(model):
    """Per tree: its leaves, their distances to each other, their scores (n_scores, n_leaves)."""
    embedding = model.map_
    blocks = [b for _, b in embedding.blocks] if hasattr(embedding, "blocks") else [embedding]
    coef, first, tables = np.atleast_2d(model.node_coef_), 0, []
    for block in blocks:
        forest: Forest = block.forest
        for tree in range(forest.n_trees):
            start, stop = forest.tree_offsets[tree : tree + 2]
            leaves = [v for v in range(start, stop) if forest.left[v] < 0]
            paths = []
            for leaf in leaves:
                path, v = set(), leaf
                while v >= 0:
                    path.add(v)
                    v = int(forest.parent[v])
                paths.append(path)
            distance = np.array(
                [[block.squared_scale[sorted(a ^ b)].sum() for b in paths] for a in paths]
            )
            step = block.scale * coef[:, first : first + forest.n_nodes]
            value = np.stack([step[:, sorted(path)].sum(axis=1) for path in paths], axis=1)
            tables.append((np.array(leaves) + first, distance, value))
        first += forest.n_nodes
    return tables


def obvious_combinations(tables, leaves):
    """Every combination of leaves: distance from the given ones, and scores without intercept."""
    at = [int(np.flatnonzero(t[0] == leaf)[0]) for t, leaf in zip(tables, leaves, strict=True)]
    distance = [t[1][i] for t, i in zip(tables, at, strict=True)]
    total = np.array([sum(c) for c in product(*distance)])
    scores = np.stack(
        [[sum(c) for c in product(*(t[2][k] for t in tables))] for k in range(len(tables[0][2]))]
    )
    return total, scores


@pytest.fixture(scope="session")
def make_model():
    return small_model


@pytest.fixture(scope="session")
def make_linear():
    return set_linear


@pytest.fixture(scope="session")
def leaves_of():
    return obvious_tables


@pytest.fixture(scope="session")
def combinations_of():
    return obvious_combinations
