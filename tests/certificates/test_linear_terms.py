"""Certificates of models with linear terms: against exact solutions, and against attacks."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from kpp import (
    KPPClassifier,
    KPPRegressor,
    certify,
    certify_raw,
    path_distance,
    robustness_curve,
)
from kpp.certificates import lipschitz_bound
from kpp.certificates.box_terms import BoxTerms
from kpp.scores import AdditiveForest

N_ROWS, N_COLUMNS = 40, 3


def made_rows(seed, n_rows=N_ROWS):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_COLUMNS)) * [1.0, 10.0, 0.1]
    X[rng.random(n_rows) < 0.2, 1] = np.nan
    return X


def made_model(seed, task="binary", n_trees=3, trees=1.0, terms=1.0, **parameters):
    """Random coefficients on small trees and on linear terms; a factor for each of the two."""
    rng = np.random.default_rng(seed)
    X = made_rows(seed)
    y = {
        "binary": lambda: np.arange(N_ROWS) % 2,
        "multiclass": lambda: np.arange(N_ROWS) % 3,
        "regression": lambda: rng.normal(size=N_ROWS),
        "targets": lambda: rng.normal(size=(N_ROWS, 2)),
    }[task]()
    kind = KPPClassifier if task in ("binary", "multiclass") else KPPRegressor
    settings = {"alpha": 1.0, "random_state": seed, "main_effects": "linear"} | parameters
    forest = ExtraTreesClassifier if kind is KPPClassifier else ExtraTreesRegressor
    model = kind(forest(n_trees, max_depth=2, random_state=seed), **settings).fit(X, y)
    w = rng.normal(size=np.atleast_2d(model.node_coef_).shape)
    for _, place, is_linear in places(model):
        w[:, place] *= terms if is_linear else trees
    b = 0.3 * rng.normal(size=len(w))
    model.additive_ = AdditiveForest.from_coefficients(model.map_, w, b, model.additive_.classes)
    model.node_coef_, model.intercept_ = (w[0], b[0]) if task == "regression" else (w, b)
    return model


def places(model):
    first = 0
    for name, block in model.map_.blocks:
        yield block, slice(first, first + block.shape[1]), name.startswith("linear")
        first += block.shape[1]


def parts_of(model, x, score=0):
    """Leaf values and squared distances of each tree, and b, psi and range of the terms."""
    trees, b, psi, low, high = [], [], [], [], []
    at = model.at(x[None])
    linear = iter(model.additive_.linear)
    for (block, _, is_linear), (_, here) in zip(places(model), at.map.blocks, strict=True):
        if is_linear:
            own = next(linear)
            b.append(own.coef[score])
            psi.append(here.values[0])
            low.append(own.terms.least)
            high.append(own.terms.most)
            continue
        values = next(s for s in model.additive_.blocks if s.forest is block.forest).node_values
        for t in range(block.forest.n_trees):
            own_leaf = int(here.leaf_ids[t, 0])
            nodes = np.arange(*block.forest.tree_offsets[t : t + 2])
            leaves = nodes[block.forest.is_leaf[nodes]]
            far = [distance(block, own_leaf, leaf) for leaf in leaves.tolist()]
            trees.append((values[score, leaves], np.array(far), values[score, own_leaf]))
    return trees, *(np.concatenate(parts) for parts in (b, psi, low, high))


def distance(block, a, c):
    """Sum of the squared coordinates on one path and not on the other."""

    def path(v):
        while v >= 0:
            yield v
            v = int(block.forest.parent[v])

    return sum(block.squared_scale[v] for v in set(path(a)) ^ set(path(c)))


def nearest_flip(model, x):
    """The exact least distance to another sign, over all leaves and all moves of the terms."""
    trees, b, psi, low, high = parts_of(model, x)
    score = model.at(x[None]).scores[0, 0]
    sign = 1 if score > 0 else -1
    best = np.inf
    for leaves in product(*(range(len(values)) for values, _, _ in trees)):
        change = sum(values[k] - own for (values, _, own), k in zip(trees, leaves, strict=True))
        far = sum(far[k] for (_, far, _), k in zip(trees, leaves, strict=True))
        best = min(best, far + least_move(sign * b, psi, low, high, sign * (score + change)))
    return best


def least_move(b, psi, low, high, margin):
    """The least |d|^2 with <b, d> <= -margin within the range, by its one multiplier."""
    if margin <= 0:
        return 0.0

    def move(mu):
        return np.clip(-mu * b / 2, low - psi, high - psi)

    if b @ np.where(b > 0, low - psi, high - psi) > -margin:
        return np.inf
    top = 1.0
    while b @ move(top) > -margin * (1 - 1e-15) and top < 1e30:
        top *= 2
    if b @ move(top) > -margin:
        return float(np.square(move(top)).sum())
    mu = brentq(lambda mu: b @ move(mu) + margin, 0.0, top, xtol=1e-15, rtol=1e-15)
    return float(np.square(move(mu)).sum())


def best_dual(model, x):
    """The maximum of D over mu, by minima over leaves and moves for every mu."""
    trees, b, psi, low, high = parts_of(model, x)
    score = model.at(x[None]).scores[0, 0]
    sign = 1 if score > 0 else -1

    def dual(mu):
        total = mu * sign * score
        for values, far, own in trees:
            total += (far + mu * sign * (values - own)).min()
        d = np.clip(-mu * sign * b / 2, low - psi, high - psi)
        return total + (d**2 + mu * sign * b * d).sum()

    grid = np.geomspace(1e-8, 1e8, 400)
    k = int(np.argmax([dual(mu) for mu in grid]))
    bounds = grid[max(0, k - 1)], grid[min(len(grid) - 1, k + 1)]
    found = minimize_scalar(lambda mu: -dual(mu), bounds=bounds, method="bounded")
    return max(-found.fun, dual(grid[k]), 0.0)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("trees", "terms"), [(1.0, 1.0), (0.2, 1.0), (1.0, 0.1), (1.0, 0.0)])
def test_the_radius_is_the_best_dual_bound_and_not_above_the_nearest_flip(seed, trees, terms):
    model, X = made_model(seed, trees=trees, terms=terms), made_rows(seed + 100, 6)
    certificate = certify(model, X)
    assert (certificate.radius >= certificate.lipschitz).all()
    for x, radius, never in zip(X, certificate.radius, certificate.never_flips, strict=True):
        exact = nearest_flip(model, x)
        assert radius <= exact
        if np.isinf(exact):
            assert never
        else:
            assert not never
            assert radius >= best_dual(model, x) * (1 - 1e-6) - 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_with_linear_terms_alone_the_radius_is_exact(seed):
    model, X = made_model(seed, trees=0.0), made_rows(seed + 100, 8)
    certificate = certify(model, X)
    w = np.linalg.norm(model.node_coef_)
    for x, radius, margin in zip(X, certificate.radius, certificate.margin, strict=True):
        exact = nearest_flip(model, x)
        np.testing.assert_allclose(radius, exact, rtol=1e-7)
        # Until a term meets the end of its range it is the paper's.
        assert radius >= (margin / w) ** 2 * (1 - 1e-9)


def attacks(model, x, rng, n=300):
    """Rows of all kinds around x: near, far, at ends of ranges, with values missing."""
    span = np.array([1.0, 10.0, 0.1])
    near = x + span * rng.normal(size=(n, 3)) * 10.0 ** rng.uniform(-4, 1, (n, 1))
    mixed = np.where(rng.random((n, 3)) < 0.5, x, near)
    mixed[rng.random((n, 3)) < 0.05] = np.nan
    far = np.where(rng.random((n, 3)) < 0.5, near, 1e6 * span)
    return np.vstack([near, mixed, far])


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression", "targets"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "parameters", [{}, {"regime": "cross-fit", "cv": 3}, {"normalize": "tree"}]
)
def test_no_attack_within_the_radius_changes_the_answer(task, seed, parameters):
    model, X = made_model(seed, task, **parameters), made_rows(seed + 50, 10)
    rng = np.random.default_rng(seed)
    epsilon = None if task in ("binary", "multiclass") else 0.5
    certificate = certify(model, X, epsilon=epsilon)
    inside_any = 0
    for x, radius in zip(X, certificate.radius, strict=True):
        others = attacks(model, x, rng)
        inside = path_distance(model, x[None], others)[0] < radius
        inside_any += inside.sum()
        old, new = model.predict(x[None]), model.predict(others)
        if epsilon is None:
            assert (new[inside] == old).all()
        else:
            assert (np.abs(new - old)[inside] < epsilon).all()
        moved = np.abs(model.at(others).scores - model.at(x[None]).scores)
        limit = np.reshape(lipschitz_bound(model, x[None], others), (moved.shape[1], -1)).T
        assert (moved <= limit * (1 + 1e-9) + 1e-12).all()
    assert inside_any > 0


@pytest.mark.parametrize("seed", range(3))
def test_the_curve_bounds_every_attack(seed):
    model, X = made_model(seed, "regression"), made_rows(seed + 50, 10)
    rng, y = np.random.default_rng(seed), np.zeros(10)
    leafwise = robustness_curve(model, X, y)
    paper = robustness_curve(model, X, y, method="lipschitz")
    assert (leafwise(paper.radii) <= paper.values * (1 + 1e-12)).all()
    for i, x in enumerate(X):
        others = attacks(model, x, rng, 100)
        far, new = path_distance(model, x[None], others)[0], model.predict(others)
        for u in (1e-3, 0.05, 0.5, np.inf):
            inside = far <= u
            if inside.any():
                worst = np.square(y[i] - new[inside]).max()
                assert worst <= leafwise.pointwise(u)[i] * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_listed_moves_change_the_answer_at_their_distance(seed):
    model, X = made_model(seed), made_rows(seed + 50, 10)
    certificate = certify(model, X)
    for i in np.flatnonzero(~certificate.never_flips):
        crossings = certificate.splits_to_cross(int(i))
        assert sum(c.change for c in crossings) >= certificate.margin[i] * (1 - 1e-6)
        assert sum(c.distance for c in crossings) >= certificate.radius[i]
        for c in crossings:
            assert (c.tree < 0) == (c.node < 0)
            if c.tree < 0 and np.isfinite(c.threshold) and np.isfinite(X[i, c.feature]):
                low, high = np.nanmin(made_rows(seed), axis=0), np.nanmax(made_rows(seed), axis=0)
                now = np.clip(X[i, c.feature], low[c.feature], high[c.feature])
                assert low[c.feature] - 1e-9 <= c.threshold <= high[c.feature] + 1e-9
                assert c.goes_left == (now < c.threshold)


# Raw inputs.


@pytest.mark.parametrize("seed", range(4))
def test_with_linear_terms_alone_the_raw_radius_is_exact(seed):
    model, X = made_model(seed, trees=0.0), made_rows(seed + 50, 8)
    scale = np.array([1.0, 10.0, 0.1])
    terms, b = model.additive_.linear[0].terms, model.additive_.linear[0].coef[0]
    for effort in (0, 1000):
        certificate = certify_raw(model, X, scale=scale, effort=effort)
        for x, radius in zip(X, certificate.radius, strict=True):
            score = model.at(x[None]).scores[0, 0]
            sign = 1 if score > 0 else -1

            def worst(r, x=x, sign=sign):
                ends = terms.coordinates(np.array([x - r * scale, x + r * scale]))
                return sign * model.intercept_[0] + np.minimum(*(sign * b * ends)).sum()

            if worst(1e9) > 1e-9:
                assert np.isinf(radius)
                continue
            exact = brentq(worst, 0, 1e9, xtol=1e-14, rtol=1e-14)
            # Of an interval between two radii at which a side meets anything a millionth is left.
            assert exact - 1e-4 <= radius <= exact * (1 + 1e-12)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("parameters", [{}, {"regime": "cross-fit", "cv": 3}])
def test_no_point_of_a_certified_box_changes_the_answer(task, seed, parameters):
    model, X = made_model(seed, task, **parameters), made_rows(seed + 50, 8)
    rng = np.random.default_rng(seed)
    epsilon = 0.5 if task == "regression" else None
    scale = np.array([1.0, 10.0, 0.1])
    certificate = certify_raw(model, X, scale=scale, epsilon=epsilon)
    assert (certificate.radius <= certificate.upper_radius).all()
    assert certificate.certified.any()
    for i, x in enumerate(X):
        radius = min(certificate.radius[i], 1e6)
        sides = x - radius * scale, x + radius * scale
        boxes = [sides, (certificate.lower[i], certificate.upper[i])]
        points = [x]
        for low, high in boxes:
            low, high = np.maximum(low, x - 1e6), np.minimum(high, x + 1e6)
            points += [np.where(corner, low, high) for corner in product([0, 1], repeat=3)]
            points += list(low + rng.random((200, 3)) * (high - low))
        points = np.where(np.isnan(x), np.nan, np.array(points))
        if certificate.radius[i] == 0:
            points = points[:1]
        old, new = model.predict(x[None]), model.predict(points)
        if epsilon is None:
            assert (new == old).all()
        else:
            assert (np.abs(new - old) < epsilon).all()
    found = certificate.found
    assert found.any()
    old, new = model.predict(X[found]), model.predict(certificate.counterexample[found])
    changed = old != new if epsilon is None else np.abs(new - old) >= epsilon
    assert changed.all()


@pytest.mark.parametrize("seed", range(3))
def test_more_effort_brings_the_ends_nearer(seed):
    model, X = made_model(seed, n_trees=6), made_rows(seed + 50, 8)
    scale = np.array([1.0, 10.0, 0.1])
    fast = certify_raw(model, X, scale=scale, effort=0)
    slow = certify_raw(model, X, scale=scale)
    assert (slow.radius >= fast.radius).all()
    finite = np.isfinite(slow.upper_radius)
    assert np.median(slow.radius[finite] / slow.upper_radius[finite]) > 0.8


def test_terms_on_boxes_are_the_coordinates_of_rows():
    model = made_model(0, regime="cross-fit", cv=3)
    blocks = [terms.terms for terms in model.additive_.linear]
    terms, X = BoxTerms(blocks, N_COLUMNS), 3 * made_rows(7, 20)
    for x, own in zip(X, model.at(X).joined_values, strict=True):
        np.testing.assert_array_equal(terms.at(x), own)
    coef = np.random.default_rng(0).normal(size=len(terms))
    low, high = X[0] - 1.0, X[0] + 1.0
    corner = terms.corner(coef, X[0], low, high)
    assert ((low <= corner) & (corner <= high) | np.isnan(X[0])).all()
    assert coef @ terms.at(corner) <= coef @ terms.at(X[0]) + 1e-12
    assert terms.least(coef, low, high) <= coef @ terms.at(corner) + 1e-12


def test_columns_beyond_their_range_are_free_where_no_split_tests_them():
    model = made_model(0, trees=0.0, n_trees=1)
    X = made_rows(0)
    high = np.nanmax(X, axis=0)
    x = high + np.array([5.0, 50.0, 0.5])
    certificate = certify_raw(model, x[None], scale=np.array([1.0, 10.0, 0.1]), effort=0)
    # No more than the distance to the range is needed for a change; until there nothing moves.
    assert certificate.radius[0] >= 5.0 * (1 - 1e-9)
