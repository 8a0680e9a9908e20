"""Raw-input radii where splits are oblique: sums over a box are bounded by its corners."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from zoo import obvious_path, random_forest, random_rows

from kpp import KPPClassifier, KPPRegressor, certify
from kpp.certificates import certify_raw
from kpp.certificates._box_loops import descend
from kpp.certificates.boxes import BoxFlip, Splits
from kpp.forest import Forest, ObliqueForestClassifier, Tree
from kpp.forest.nodes import least_sum

X, Y = load_iris(return_X_y=True)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6))
def test_no_computed_sum_leaves_the_range_of_the_corners(seed):
    """Rounding is monotone: no outward rounding is needed, and the ends are attained."""
    rng = np.random.default_rng(seed)
    n_terms = int(rng.integers(2, 6))
    columns = rng.permutation(6)[:n_terms].astype(np.int32)
    weights = rng.normal(size=n_terms) * 10.0 ** rng.integers(-12, 13, n_terms)
    center = rng.normal(size=6) * 10.0 ** rng.integers(-12, 13, 6)
    # Boxes of a few ulps, where rounding is all there is, and wide ones.
    width = np.abs(center) * rng.choice([2.0**-52, 2.0**-50, 1e-3, 1.0], 6)
    low, high = center - width, center + width
    offsets = np.array([0, n_terms])
    least = least_sum(offsets, columns, weights, 0, low, high)
    most = least_sum(offsets, columns, weights, 0, high, low)
    inside = np.clip(low + rng.random((500, 6)) * (high - low), low, high)
    total = np.zeros(len(inside))
    for a, j in zip(weights, columns, strict=True):
        total = total + a * inside[:, j]
    assert least <= total.min()
    assert total.max() <= most
    at_corners = []
    for corner in product([0, 1], repeat=n_terms):
        value = 0.0
        for a, j, side in zip(weights, columns, corner, strict=True):
            value = value + a * (high if side else low)[j]
        at_corners.append(value)
    assert (least, most) == (min(at_corners), max(at_corners))


def oblique_model(seed, n_trees=4, most_splits=6, share=1.0, regression=False):
    forest = random_forest(seed, n_trees, 3, most_splits, oblique=share)
    rng = np.random.default_rng(seed)
    rows, kind = random_rows(seed, 60), KPPRegressor if regression else KPPClassifier
    y = rng.normal(size=60) if regression else np.arange(60) % 2
    model = kind(forest, regime="fixed", alpha=1e-3, node_weight="uniform")
    return model.fit(rows, y), rows


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    regression=st.booleans(),
    share=st.sampled_from([0.5, 1.0]),
    effort=st.sampled_from([0, 5_000]),
)
def test_no_point_of_a_box_changes_the_answer(seed, regression, share, effort):
    model, rows = oblique_model(seed, share=share, regression=regression)
    rng = np.random.default_rng(seed)
    rows = rows[:4].copy()
    rows[0, 1] = np.nan
    scale, epsilon = rng.choice([0.0, 0.3, 1.0, 5.0], 3), 0.3 if regression else None
    found = certify_raw(model, rows, scale=scale, epsilon=epsilon, effort=effort)
    for i, x in enumerate(rows):
        step = min(found.radius[i], 1e20) * scale
        boxes = [(x - step, x + step), (found.lower[i], found.upper[i])]
        for low, high in boxes:
            low, high = np.clip(low, -1e20, 1e20), np.clip(high, -1e20, 1e20)
            points = low + rng.choice([0.0, 1.0, 0.5, np.nan], (400, 3)) * (high - low)
            points = np.where(np.isnan(points), low + rng.random((400, 3)) * (high - low), points)
            points = np.clip(points, low, high)
            assert not changes(model, x, points, epsilon).any()
        known = ~np.isnan(x)
        assert (found.lower[i] <= x - step)[known].all()
        assert (found.upper[i] >= x + step)[known].all()
        if found.found[i]:
            assert changes(model, x, found.counterexample[i][None], epsilon).all()
            assert found.upper_radius[i] > found.radius[i]


def changes(model, x, points, epsilon):
    old, new = model.predict(x[None]), model.predict(points)
    return new != old if epsilon is None else np.abs(new - old) >= epsilon


def test_the_radius_of_one_oblique_split_is_the_distance_to_it():
    # The answer changes at a + 2 b > 1; from (0, 0) that is at a = b = 1/3 in raw units.
    tree = Tree([1, -1, -1], [2, -1, -1], [-1] * 3, [1.0] * 3, oblique={0: ([0, 1], [1.0, 2.0])})
    forest = Forest.from_trees([tree], n_features=2)
    rows = np.array([[0.0, 0.0], [-1.0, 0.0], [3.0, 3.0], [0.0, 1.0]])
    model = KPPClassifier(forest, regime="fixed", alpha=1e-3, node_weight="uniform")
    model.fit(rows, [0, 0, 1, 1])
    found = certify_raw(model, rows)
    expected = np.array([1, 2, 8, 1]) / 3
    np.testing.assert_allclose(found.radius, expected, rtol=1e-13)
    assert (found.radius <= expected).all()
    # By one column alone: the search for counterexamples moves them in turn, within the box.
    assert found.found.all()
    scaled = certify_raw(model, rows, scale=[1.0, 0.0])
    np.testing.assert_allclose(scaled.radius, [1, 2, 8, 1], rtol=1e-13)
    np.testing.assert_allclose(scaled.upper_radius, scaled.radius, rtol=1e-12)
    other = certify_raw(model, rows, scale=[0.0, 0.5])
    np.testing.assert_allclose(other.radius, [1, 2, 8, 1], rtol=1e-13)
    np.testing.assert_allclose(other.upper_radius, other.radius, rtol=1e-12)


def test_descent_moves_each_column_of_a_sum():
    """Columns that no split on the path cuts are left out: of a sum in reach none is one of them.

    Whatever the path, the descent ends where no single column helps; so it must have looked at all
    of them, after every move that changes the path.
    """
    n_moved = 0
    for seed in range(12):
        forest = random_forest(seed, 8, 3, 15, oblique=0.6)
        rng = np.random.default_rng(seed)
        value = rng.normal(size=forest.n_nodes)
        for x in random_rows(seed, 4):
            if np.isnan(x).any():
                continue
            low, high = x - 0.7, x + 0.7
            point, total = x.copy(), np.empty(1)
            descend(forest.nodes, value, x, low, high, np.arange(3), -np.inf, 50, point, total)
            assert (low <= point).all()
            assert (point <= high).all()
            n_moved += int((point != x).sum() > 1)
            assert total[0] == pytest.approx(value[forest.apply(point[None])].sum(), abs=1e-12)
            for j in range(3):
                others = np.tile(point, (3000, 1))
                others[:, j] = np.linspace(low[j], high[j], 3000)
                assert value[forest.apply(others)].sum(axis=1).min() >= total[0] - 1e-12
    assert n_moved > 5


def test_columns_of_sums_are_not_widened():
    # Columns 0 and 1 are in a sum, column 2 in a split of its own, column 3 in none.
    tree = Tree(
        left=[1, -1, 3, -1, -1],
        right=[2, -1, 4, -1, -1],
        feature=[-1, -1, 2, -1, -1],
        threshold=[1.0, 0.0, 5.0, 0.0, 0.0],
        oblique={0: ([0, 1], [1.0, -1.0])},
    )
    forest = Forest.from_trees([tree], n_features=4)
    splits = Splits(forest, np.zeros(4, dtype=bool))
    low, high = splits.widened(np.array([0.0, 0.0, 1.0, 0.0]), np.ones(4), 0.25)
    np.testing.assert_allclose(low, [-0.25, -0.25, -np.inf, -np.inf])
    np.testing.assert_allclose(high, [0.25, 0.25, 5.0, np.inf])


@pytest.mark.parametrize("seed", range(6))
def test_leaves_reached_tree_by_tree(seed):
    """The least value reached in each tree is above that of no point; of one split it is that."""
    forest = random_forest(seed, 6, 3, 8, oblique=1.0)
    rng = np.random.default_rng(seed)
    value = rng.normal(size=forest.n_nodes)
    flip = SimpleNamespace(terms=np.zeros(0), value=value, offset=np.zeros(1), tau=0.0)
    below = np.array(
        [
            min(
                value[u] for u in range(forest.n_nodes) if forest.is_leaf[u] and under(forest, u, v)
            )
            for v in range(forest.n_nodes)
        ]
    )
    box_flip = BoxFlip(Splits(forest, np.zeros(3, dtype=bool)), flip, below, 0.0)
    x = random_rows(seed, 1)[0]
    for width in (0.0, 0.1, 1.0, 10.0):
        low, high = x - width, x + width
        minima = box_flip.minima(x, low, high)
        points = low + rng.random((300, 3)) * (high - low)
        points = np.vstack([points, list(product(*zip(low, high, strict=True)))])
        for tree in range(forest.n_trees):
            reached = [value[obvious_path(forest, p, tree)[-1]] for p in points]
            assert minima[tree] <= min(reached)
            if width == 0.0 or forest.tree_offsets[tree + 1] - forest.tree_offsets[tree] == 3:
                assert minima[tree] == min(reached)


def under(forest, u, v):
    while u >= 0 and u != v:
        u = int(forest.parent[u])
    return u == v


@pytest.mark.parametrize(("threshold", "missing_left"), [(-1.0, True), (np.inf, False)])
def test_overflowing_sums_are_not_told_apart(threshold, missing_left):
    # 4e308 - 4e308 is NaN in floats, and goes the other way than every sum of both signs.
    tree = Tree(
        left=[1, -1, -1],
        right=[2, -1, -1],
        feature=[-1] * 3,
        threshold=[threshold] * 3,
        missing_left=[missing_left] * 3,
        oblique={0: ([0, 1], [4.0, -4.0])},
    )
    forest = Forest.from_trees([tree], n_features=2)
    rows = np.array([[0.0, 0.0], [np.nan, 1.0]])
    model = KPPClassifier(forest, regime="fixed", alpha=1e-3, node_weight="uniform")
    model.fit(rows, [0, 1])
    far = np.array([[1e308, 1e308]])
    assert model.predict(far) == model.predict(rows[1:])
    # The box that holds that point must not be certified, whatever the threshold.
    found = certify_raw(model, rows[:1], scale=[1e300, 1e300])
    assert found.radius[0] < 1e8


def test_a_fitted_forest():
    forest = ObliqueForestClassifier(10, rotated=0.5)
    model = KPPClassifier(forest, alpha=1e-3, random_state=0).fit(X, Y)
    spread = X.std(axis=0)
    found = certify_raw(model, X[::15], scale=spread, effort=3000)
    assert (found.radius > 0).all()
    assert found.found.mean() > 0.5
    rng = np.random.default_rng(0)
    for i, x in enumerate(X[::15]):
        step = rng.uniform(-1, 1, (2000, 4)) * found.radius[i] * spread
        assert (model.predict(x + step) == model.predict(x[None])).all()
        new = model.predict(found.counterexample[i][None]) if found.found[i] else None
        assert new != model.predict(x[None])
    certificate = certify(model, X[::15])
    assert (certificate.radius >= certificate.lipschitz).all()
    crossings = certificate.splits_to_cross(0)
    assert any(crossing.terms and crossing.feature == -2 for crossing in crossings)
    for crossing in crossings:
        if crossing.terms:
            total = sum(a * X[0, j] for j, a in crossing.terms)
            assert (total <= crossing.threshold) == crossing.goes_left
