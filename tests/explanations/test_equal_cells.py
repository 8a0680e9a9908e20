"""Which nodes are one rule: the words decide, whatever tells nodes apart in a hurry."""

import numpy as np
import pytest
from explanations.fitted_models import MODELS, fitted, mixed_frame
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

from kpp import KPPRegressor
from kpp.explanations import _paths, explain_rules
from kpp.explanations._conditions import cells_of_path
from kpp.explanations._decimals import KnownColumns, Thresholds
from kpp.explanations._wording import Wording
from kpp.explanations.attribution import column_of
from kpp.forest import Forest, Tree

ALL = 10**6


def wording_of(model, x):
    """How the rules of a row are written, from the forests alone."""
    forests = [block.forest for block in model.additive_.blocks]
    names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])
    return Wording(
        forests,
        tuple(names),
        [column_of(x, j)[0] for j in range(model.n_features_in_)],
        missing=model.missing_columns_,
        other=model.regime_ == "honest",
        known=KnownColumns(model.feature_spread_, model.feature_values_, model.feature_decimals_),
    )


def read_words(wording, cell):
    """Everything that is said of a cell: numbers as they are printed."""
    return tuple(
        (
            c.feature,
            c.categories,
            c.low < c.high,
            wording.number(c.feature, c.low, is_upper=False),
            wording.number(c.feature, c.high),
            c.missing and bool(wording.missing[c.feature] or wording.other[c.feature]),
        )
        for c in sorted(cell, key=lambda c: c.feature)
    )


def expected_rules(model, x):
    """Names of the nodes of each rule, by comparing the words of every node."""
    rows, wording, found = model.at(x), wording_of(model, x), {}
    weight = model.sample_weight_
    n_rows = model.map_.shape[0]
    weight = np.full(n_rows, 1 / n_rows) if weight is None else weight / weight.sum()
    for block, leaf_ids, forest in zip(
        model.additive_.blocks, rows.leaf_ids, wording.forests, strict=True
    ):
        front = f"{block.name}__" if block.name else ""
        support = block.map.rmatvec(weight)
        for tree, leaf in enumerate(leaf_ids[:, 0].tolist()):
            for v, cell in cells_of_path(forest, leaf, wording.categories):
                if block.scale[v] > 0 and block.coef[:, v].any():
                    key = (round(support[v] / block.scale[v], 12), read_words(wording, cell))
                    name = f"{front}kpp_t{tree}_n{v - forest.tree_offsets[tree]}"
                    found.setdefault(key, []).append(name)
    return sorted(tuple(names) for names in found.values())


def two_precisions():
    """A forest of single and one of double precision, whose splits are at the same places."""
    random = np.random.default_rng(0)
    X = random.integers(0, 4, (120, 2)) / 10
    y = X[:, 0] - X[:, 1] ** 2 + 0.01 * random.normal(size=120)
    forests = [
        ("single", RandomForestRegressor(8, max_depth=2, bootstrap=False, random_state=0)),
        ("double", HistGradientBoostingRegressor(max_iter=8, max_leaf_nodes=4)),
    ]
    return KPPRegressor(forests, combine="joint", alpha=0.1, random_state=0).fit(X, y), X


def shallow_weighted():
    """Shallow trees on values that repeat, so that cells do; and rows of different weights."""
    X, y = mixed_frame()
    X = X[["size", "count"]].round(0).fillna(0.0)
    forest = RandomForestRegressor(30, max_depth=2, random_state=0)
    weight = np.linspace(1, 2, len(X))
    return KPPRegressor(forest, alpha=0.1).fit(X, y, sample_weight=weight), X


OTHERS = {"two precisions": two_precisions, "shallow, weighted": shallow_weighted}


@pytest.mark.parametrize("kind", [*MODELS, *OTHERS])
def test_rules_are_the_nodes_that_read_the_same(kind):
    model, X = OTHERS[kind]() if kind in OTHERS else fitted(kind)
    several = {"output": 1} if kind == "several targets" else {}
    for i in (0, 7, 11):
        rules = explain_rules(model, X[i : i + 1], top=ALL, **several).rules
        assert sorted(rule.nodes for rule in rules) == expected_rules(model, X[i : i + 1])
    if kind in OTHERS:
        assert any(len(rule.nodes) > 1 for rule in rules)


def test_splits_of_two_precisions_at_one_place_are_one_rule():
    model, X = two_precisions()
    rules = explain_rules(model, X[0], top=ALL).rules
    both = [r for r in rules if len({name.split("__")[0] for name in r.nodes}) == 2]
    assert both


def test_paths_that_are_longer_than_usual(monkeypatch):
    model, X = fitted("regression")
    expected = [str(explain_rules(model, X[i], top=20)) for i in range(3)]
    monkeypatch.setattr(_paths, "USUAL_DEPTH", 2)
    assert [str(explain_rules(model, X[i], top=20)) for i in range(3)] == expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_different_thresholds_of_one_precision_are_written_differently(dtype):
    random = np.random.default_rng(0)
    base = np.array([0.0, 0.1, -0.3, 1.0, 1e-300, 1e9, 123456.7, -2.5e-7], dtype=dtype)
    t = np.concatenate([base, np.nextafter(base, np.inf, dtype=dtype), random.normal(size=50)])
    t = np.unique(t.astype(dtype).astype(np.float64))
    stumps = [
        Tree(left=[1, -1, -1], right=[2, -1, -1], feature=[0] * 3, threshold=[float(one)] * 3)
        for one in t
    ]
    forest = Forest.from_trees(stumps, n_features=1, dtype=dtype)
    for spread in (None, np.array([0.0]), np.array([1e-3])):
        thresholds = Thresholds([forest], KnownColumns(spread))
        own = np.unique(thresholds.forests[0].threshold[forest.roots])
        assert len(own) == len(t)
        assert len({thresholds.written(0, one)[::2] for one in own.tolist()}) == len(own)


def test_a_new_fit_has_new_tables():
    X, y = load_diabetes(return_X_y=True)
    model = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=0).fit(
        X[:200], y[:200]
    )
    explain_rules(model, X[0])
    model.fit(X[200:], y[200:])
    again = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=0).fit(
        X[200:], y[200:]
    )
    assert str(explain_rules(model, X[0])) == str(explain_rules(again, X[0]))
