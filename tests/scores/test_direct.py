"""Rows of numbers straight to scores: the bits of routed rows, and refusals where these differ."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris

import kpp.scores.direct
from kpp import KPPClassifier, KPPRegressor
from kpp.scores.linear import coordinates_of_rows

X, Y = load_diabetes(return_X_y=True)
X = X * 100.0
SETTINGS = {"n_estimators": 11, "alpha": 0.5, "random_state": 0}
MODELS = {
    "single precision": lambda: KPPRegressor("extra-trees", **SETTINGS).fit(X, Y),
    "double precision": lambda: KPPRegressor("boosted", **SETTINGS).fit(X, Y),
    "linear terms": lambda: KPPRegressor("extra-trees", main_effects="linear", **SETTINGS).fit(
        X, np.c_[Y, Y**2]
    ),
    "both, and linear terms": lambda: KPPRegressor(n_estimators=4, cv=2, random_state=0).fit(
        X[::3], Y[::3]
    ),
    "three classes": lambda: KPPClassifier("random-forest", **SETTINGS).fit(
        *load_iris(return_X_y=True)
    ),
    "no splits": lambda: KPPRegressor("extra-trees", **SETTINGS).fit(X, np.ones(len(X))),
}


@pytest.fixture(scope="module", params=list(MODELS))
def model(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the best alpha of a small blend may lie on an edge
        return MODELS[request.param]()


def hard_rows(model, n_rows):
    """Values at thresholds, and one step beside in either precision."""
    rng = np.random.default_rng(0)
    width = model.n_features_in_
    rows = rng.normal(scale=5.0, size=(n_rows, width))
    for block in model.additive_.blocks:
        for j, thresholds in enumerate(block.forest.column_thresholds):
            if len(thresholds):
                near = np.concatenate(
                    [
                        thresholds,
                        np.nextafter(thresholds, np.inf),
                        np.nextafter(thresholds, -np.inf),
                        np.nextafter(thresholds.astype(np.float32), np.float32(np.inf)),
                    ]
                )
                chosen = rng.random(n_rows) < 0.5
                rows[chosen, j] = rng.choice(near, n_rows)[chosen]
    return rows


def by_leaves(model, rows):
    additive = model.additive_
    return additive.scores_at(additive.route(rows), coordinates_of_rows(additive.linear, rows))


@pytest.mark.parametrize("n_rows", [1, 7, 8, 16, 17, 25, 2500])
def test_the_bits_of_routed_rows(model, n_rows):
    rows = hard_rows(model, n_rows)
    forms = [rows, rows.astype(np.float32), np.asfortranarray(rows), np.repeat(rows, 2, 0)[::2]]
    for form in forms:
        expected = by_leaves(model, form)
        for n_jobs in (None, 2, 3):
            found = model.additive_.direct.scores(form, n_jobs)
            assert found.shape == (n_rows, model.additive_.n_scores)
            np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(model.additive_.scores(rows), by_leaves(model, rows))


def test_one_row_walks_as_the_arrays_say(model):
    """A few obvious lines: compare, go down, add the value of the leaf."""
    (row,) = hard_rows(model, 1)
    additive = model.additive_
    total = np.zeros(additive.n_scores)
    for block in additive.blocks:
        forest = block.forest
        x = row.astype(forest.dtype)
        for v in forest.roots:
            while forest.left[v] >= 0:
                v = forest.left[v] + (not x[forest.feature[v]] <= forest.threshold[v])
            total += block.node_values[:, v]
    for linear in additive.linear:
        total += linear.coef @ linear.terms.coordinates(row[None])[0]
    found = additive.direct.scores(row[None], None)[0] - additive.intercept
    np.testing.assert_allclose(found, total, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_what_must_be_looked_at_is_left_to_the_forests(model, value):
    rows = hard_rows(model, 3)
    rows[1, 0] = value
    single = any(block.forest.dtype == np.float32 for block in model.additive_.blocks)
    if value == 1e300 and not single:
        assert model.additive_.direct.scores(rows, None) is not None
        return
    assert model.additive_.direct.scores(rows, None) is None
    if all(block.forest.allows_infinity for block in model.additive_.blocks):
        np.testing.assert_array_equal(model.additive_.scores(rows), by_leaves(model, rows))
    elif not np.isnan(value):
        with pytest.raises(ValueError, match="infinity"):
            model.predict(rows)


def test_other_types_and_shapes_are_left_to_the_forests(model):
    rows = hard_rows(model, 3)
    direct = model.additive_.direct
    others = [rows.astype(np.longdouble), rows.astype(np.float16), rows.astype(int), rows.tolist()]
    others += [pd.DataFrame(rows), rows[:, 1:], rows[0], rows.astype(">f8")]
    assert [direct.scores(other, None) for other in others] == [None] * len(others)
    # Rounded once to single precision, not twice.
    np.testing.assert_array_equal(
        model.additive_.scores(rows.astype(np.longdouble)),
        by_leaves(model, rows.astype(np.longdouble)),
    )


def test_tables_are_not_kept_in_copies(model):
    before = len(pickle.dumps(model.additive_))
    model.additive_.scores(hard_rows(model, 2))
    assert "direct" in vars(model.additive_)
    assert len(pickle.dumps(model.additive_)) == before


def test_categories_and_large_forests_have_none(monkeypatch):
    table = pd.DataFrame({"size": X[:40, 0], "kind": ["a", "b"] * 20})
    model = KPPRegressor("extra-trees", **SETTINGS).fit(table, Y[:40])
    assert model.additive_.direct is None
    small = KPPRegressor("extra-trees", **SETTINGS).fit(X[:40], Y[:40])
    monkeypatch.setattr(kpp.scores.direct, "MAX_NODES", small.forest_.n_nodes - 1)
    assert small.additive_.direct is None
    np.testing.assert_array_equal(small.predict(X[:5]), by_leaves(small, X[:5])[:, 0])
