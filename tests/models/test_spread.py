"""The spread that adaptive intervals are scaled by: against a few lines, and what it may see."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold

import kpp
from kpp import KPPRegressor
from kpp.geometry.composed import forest_blocks
from kpp.models.spread import FLOOR, LEAST_ROWS

GIVEN = {"n_estimators": 6, "cv": 3, "random_state": 0}


def numbers(n_targets=1):
    X, y = load_diabetes(return_X_y=True)
    return X, y if n_targets == 1 else np.column_stack([y, 300 * X[:, 2] - y])


def by_hand(forest, trees, X, y, new):
    """Root of the mean variance over trees, in the smallest node of enough rows; and of X."""
    y = y.reshape(len(X), -1)
    variance = [np.zeros((len(own), y.shape[1])) for own in (X, new)]
    for t in range(*trees.indices(forest.n_trees)):
        paths = []
        for own in (X, new):
            node = forest.apply(own)[:, t]
            path = [node]
            while (node >= 0).any():
                node = np.where(node >= 0, forest.parent[node], -1)
                path.append(node)
            paths.append(np.array(path).T)
        for total, rows in zip(variance, paths, strict=True):
            for i, path in enumerate(rows):
                for v in path[path >= 0]:
                    inside = (paths[0] == v).any(axis=1)
                    if inside.sum() >= LEAST_ROWS or forest.parent[v] < 0:
                        total[i] += y[inside].var(axis=0)
                        break
    n_trees = len(range(*trees.indices(forest.n_trees)))
    own, there = (np.sqrt(total / n_trees) for total in variance)
    return there + FLOOR * own.mean(axis=0)


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize(
    "given",
    [
        {"forest": "extra-trees"},
        {"forest": "random-forest", "regime": "honest", "main_effects": None},
        {"forest": "extra-trees", "regime": "cross-fit"},
        {"forest": "random-forest", "alpha_selection": "regrown", "cv": KFold(3, shuffle=True)},
    ],
    ids=lambda own: " ".join(map(str, own.values()))[:30],
)
def test_a_spread_is_that_of_a_few_lines(given, n_targets):
    X, y = numbers(n_targets)
    model = KPPRegressor(**(GIVEN | given)).fit(X[:90], y[:90])
    own = model.fold_predictors_
    found = own.spread(model.at(X[90:110]))
    for q, fit in enumerate(own.fits):
        ((_, block),) = forest_blocks(fit.part.whole)
        trees = slice(0, block.forest.n_trees) if fit.part.trees is None else fit.part.trees[0]
        if isinstance(fit.part.trees, tuple) and len(fit.part.trees) > 1:
            (trees,) = [part for part in fit.part.trees if part is not None]
        expected = by_hand(block.forest, trees, X[fit.rows], y[fit.rows], X[90:110])
        np.testing.assert_allclose(found[q], expected.T, rtol=1e-11)


@pytest.mark.parametrize("forest", ["blend", "extra-trees"])
def test_a_fold_has_no_part_in_its_spread(forest):
    # Given the trees and the layers, the labels of a fold may be anything.
    X, y = numbers()
    model = KPPRegressor(forest, **GIVEN).fit(X[:200], y[:200])
    own, rows = model.fold_predictors_, model.at(X[200:])
    before, within = own.spread(rows), own.own_spread
    for q in range(3):
        model = KPPRegressor(forest, **GIVEN).fit(X[:200], y[:200])
        own = model.fold_predictors_
        own.target[own.fold_of_row == q] = 1e6 * np.arange(np.sum(own.fold_of_row == q))[:, None]
        after = own.spread(model.at(X[200:]))
        assert np.array_equal(after[q], before[q])
        # Neither at other rows nor at its own.
        left_out = own.fold_of_row == q
        assert np.array_equal(own.own_spread[:, left_out], within[:, left_out])
        assert (own.own_spread[:, ~left_out] > within[:, ~left_out]).all()
        assert (np.delete(after, q, axis=0) > 10 * np.delete(before, q, axis=0)).all()


def test_of_several_forests_the_one_that_explains_most():
    # Extra trees have leaves of few rows, boosted ones sixteen leaves, ladders one column each.
    X, y = numbers()
    model = KPPRegressor(**GIVEN).fit(X[:200], y[:200])
    blocks = [block.forest for _, block in forest_blocks(model.map_)]
    assert len(blocks) > 1
    finest = max(blocks, key=lambda forest: forest.n_nodes / forest.n_trees)
    assert all(spread.forest is finest for spread, _ in model.fold_predictors_._spreads)


def test_intervals_follow_the_noise():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(1500, 3))
    noise = np.where(X[:, 1] > 0, 2.0, 0.2)
    y = np.sin(3 * X[:, 0]) + noise * random.standard_normal(len(X))
    model = KPPRegressor(n_estimators=20, random_state=0).fit(X[:750], y[:750])
    new, target, loud = X[750:], y[750:], noise[750:] == 2.0
    inside = {}
    for width in ("constant", "adaptive"):
        found = model.predict_interval(new, 0.8, width=width)
        hit = (found.lower <= target) & (target <= found.upper)
        inside[width] = hit[loud].mean(), hit[~loud].mean()
        ratio = np.median(found.width[loud]) / np.median(found.width[~loud])
        assert ratio < 1.2 if width == "constant" else ratio > 1.4
    # Where the noise is, more rows are covered, and fewer where it is not, as they should be.
    assert inside["constant"][0] < inside["adaptive"][0] - 0.02
    assert inside["constant"][1] >= inside["adaptive"][1] > 0.8


def test_a_target_that_does_not_vary_has_widths_all_the_same():
    X, y = numbers()
    y = np.where(np.arange(len(y)) == 0, 1.0, 0.0)
    model = KPPRegressor("extra-trees", alphas=[1.0], **GIVEN).fit(X[:60], y[:60])
    q = int(model.fold_predictors_.fold_of_row[0])
    spread = model.fold_predictors_.spread(model.at(X))
    assert (spread[q] == 1.0).all()
    assert (spread > 0).all()
    found = model.predict_interval(X)
    assert np.isfinite(found.width).all()


def test_a_file_gives_the_same_intervals(tmp_path):
    X, y = numbers(2)
    for forest in ("blend", "extra-trees"):
        model = KPPRegressor(forest, **GIVEN).fit(X[:120], y[:120])
        kpp.save(model, tmp_path / "model.kpp")
        found = kpp.load(tmp_path / "model.kpp").predict_interval(X[120:])
        assert found.widths == "adaptive"
        assert np.array_equal(found.upper, model.predict_interval(X[120:]).upper)
