"""Raw-input radii: no point of a box changes the answer, and counterexamples do."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from zoo import random_rows

from kpp import Forest, KPPClassifier, KPPRegressor, path_distance
from kpp.certificates import certify, certify_raw, raw_input, raw_search
from kpp.certificates._box_loops import descend
from kpp.certificates.boxes import BoxFlip
from kpp.export import collapse
from kpp.forest import Tree
from kpp.forest.join import as_float64

X, Y = load_breast_cancer(return_X_y=True)
X = X / X.std(axis=0)
DX, DY = load_diabetes(return_X_y=True)


def answers_differ(model, x, others, epsilon):
    old, new = model.predict(x[None]), model.predict(others)
    if epsilon is None:
        return new != old
    change = np.abs(new - old).reshape(len(others), -1)
    return (change >= epsilon).any(axis=1)


def points_in_box(rng, forest, x, low, high, n_points):
    """Random points, corners, and one-ulp neighbours of thresholds, all inside."""
    points = np.tile(x, (5 * n_points, 1))
    style = np.repeat(range(5), n_points)
    most = np.inf if forest.allows_infinity else 1e30
    for j in np.flatnonzero(~np.isnan(x)):
        a, b = np.clip([low[j], high[j]], -most, most)
        t = forest.threshold[(forest.feature == j) & (forest.split_kind == 1)]
        near = np.r_[t, np.nextafter(t, np.inf), np.nextafter(t, -np.inf), np.float32(t), a, b]
        near = near[(near >= a) & (near <= b)]
        inner = np.clip([a, b], -1e30, 1e30)
        corner = rng.choice([a, b], len(points))
        by_chance = rng.random(len(points)) < 0.2
        points[:, j] = np.choose(
            style,
            [
                np.clip(x[j] + rng.uniform(-0.5, 0.5, len(points)) * np.diff(inner), a, b),
                corner,
                np.where(by_chance, b, x[j]),
                np.where(by_chance, a, x[j]),
                np.where(by_chance, corner, rng.choice(near, len(points))),
            ],
        )
    return points


def assert_sound(model, rows, certificate, epsilon=None, n_points=60, seed=0):
    """No point of the boxes changes the answer; counterexamples do, at the distance given."""
    rng = np.random.default_rng(seed)
    forest = as_float64(collapse(model).forest)
    assert (certificate.radius >= 0).all()
    assert (certificate.radius < certificate.upper_radius).sum() + np.isinf(
        certificate.radius
    ).sum() == len(rows)
    for i, x in enumerate(rows):
        low, high = reach(x, certificate.scale, certificate.radius[i])
        for box in ((low, high), (certificate.lower[i], certificate.upper[i])):
            points = points_in_box(rng, forest, x, *box, n_points)
            assert not answers_differ(model, x, points, epsilon).any()
        known = ~np.isnan(x)
        assert (certificate.lower[i] <= low)[known].all()
        assert (certificate.upper[i] >= high)[known].all()
        if certificate.found[i]:
            point = certificate.counterexample[i]
            assert answers_differ(model, x, point[None], epsilon).all()
            distance = distance_to(x, point, certificate.scale)
            assert distance <= certificate.upper_radius[i] <= distance * (1 + 1e-12) + 1e-300


def reach(x, scale, radius):
    """The box that a radius stands for. An infinite value stays, unless all may be anything."""
    with np.errstate(invalid="ignore", over="ignore"):
        step = np.where((scale > 0) & (radius > 0), radius * scale, 0.0)
        low, high = x - step, x + step
    stays = np.isinf(x) & np.isfinite(scale) & np.isfinite(radius)
    anything = np.isinf(step) & ~stays & (np.isinf(scale) | np.isinf(radius))
    low, high = np.where(anything, -np.inf, low), np.where(anything, np.inf, high)
    return np.where(stays, x, low), np.where(stays, x, high)


def distance_to(x, point, scale):
    moved = (point != x) & ~np.isnan(x) & np.isfinite(scale)
    return (np.abs(point[moved] - x[moved]) / scale[moved]).max(initial=0.0)


@pytest.fixture(scope="module")
def classifier():
    forest = RandomForestClassifier(10, max_leaf_nodes=12, random_state=0)
    return KPPClassifier(forest, alpha=1e-3, random_state=0).fit(X, Y)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    task=st.sampled_from(["binary", "multiclass", "regression", "targets"]),
    effort=st.sampled_from([0, 50, 20_000]),
    blocks=st.integers(1, 2),
)
def test_no_point_of_a_box_changes_the_answer(make_model, seed, task, effort, blocks):
    model = make_model(seed, task=task, n_trees=6, most_splits=10, blocks=blocks)
    epsilon = {"regression": 0.8, "targets": [0.8, 1.5]}.get(task)
    rng = np.random.default_rng(seed)
    rows = random_rows(seed, 4)
    rows[0, 0] = np.nan
    scale = rng.choice([0.0, 0.3, 1.0, 5.0], 3)
    certificate = certify_raw(model, rows, scale=scale, epsilon=epsilon, effort=effort)
    assert_sound(model, rows, certificate, epsilon, seed=seed)


KINDS = {"numbers": [10.0, 20.0, 30.0, 40.0], "strings": list("abcd")}


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    task=st.sampled_from(["binary", "multiclass", "regression"]),
    kinds=st.sampled_from(sorted(KINDS)),
    free=st.booleans(),
    blocks=st.integers(1, 2),
)
def test_categories_and_infinite_values(make_model, seed, task, kinds, free, blocks):
    known = KINDS[kinds]
    model = make_model(seed, task=task, n_trees=5, most_splits=8, blocks=blocks, kinds=known)
    epsilon = 0.8 if task == "regression" else None
    rng = np.random.default_rng(seed)
    unknown = [77.0 if kinds == "numbers" else "z"]
    values = random_rows(seed, 6)
    values[rng.random(values.shape) < 0.2] = np.inf
    values[rng.random(values.shape) < 0.2] = -np.inf
    values[rng.random(values.shape) < 0.1] = np.nan
    rows = values.astype(object)
    rows[:, 0] = rng.choice(known + unknown, 6)
    given_rows = rows.astype(float) if kinds == "numbers" else rows
    scale = np.r_[1.0, rng.choice([0.3, 1.0, np.inf], 2)]
    certificate = certify_raw(
        model, given_rows, scale=scale, epsilon=epsilon, free_categories=[0] if free else ()
    )
    assert certificate.scale[0] == 0.0
    forest = as_float64(collapse(model).forest)
    codes = np.array([known.index(kind) if kind in known else np.nan for kind in rows[:, 0]])
    if not free:
        assert np.array_equal(certificate.lower[:, 0], codes, equal_nan=True)
        assert np.array_equal(certificate.upper[:, 0], codes, equal_nan=True)
    for i, row in enumerate(given_rows):
        x = np.r_[np.nan, row[1:].astype(float)]  # points_in_box leaves what is missing alone
        radius = certificate.radius[i]
        is_freed = free and radius > 0
        if is_freed:
            assert np.isneginf(certificate.lower[i, 0])
            assert np.isposinf(certificate.upper[i, 0])
        low, high = reach(x, certificate.scale, radius)
        assert (certificate.lower[i] <= low)[~np.isnan(x)].all()
        assert (certificate.upper[i] >= high)[~np.isnan(x)].all()
        for box in ((low, high), (certificate.lower[i], certificate.upper[i])):
            points = points_in_box(rng, forest, x, *box, 20).astype(object)
            points[:, 0] = rng.choice(known + unknown, len(points)) if is_freed else row[0]
            assert not answers_differ(model, row, points, epsilon).any()
        if certificate.found[i]:
            point = certificate.counterexample[i]
            assert point[0] == row[0] or np.isnan(codes[i])
            changed = np.r_[np.array([row[0]], dtype=object), point[1:]]
            assert answers_differ(model, row, changed[None], epsilon).all()
            distance = distance_to(x, np.r_[np.nan, point[1:].astype(float)], certificate.scale)
            assert distance <= certificate.upper_radius[i] <= distance * (1 + 1e-12) + 1e-300
        # Such a small forest is searched to the end: no counterexample is lost.
        lasts = radius >= np.finfo(float).max
        assert certificate.found[i] != lasts or free


def test_infinite_values():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 2))
    model = KPPClassifier("boosted", n_estimators=10, alpha=1e-3, random_state=0)
    model.fit(rows, rows[:, 0] > 0)
    ends = np.array([[np.inf, 0.0], [-np.inf, 0.0]])
    assert model.predict(ends).tolist() == [True, False]
    # No finite radius moves an infinite value; an infinite one would.
    certificate = certify_raw(model, ends)
    assert (certificate.radius == np.finfo(float).max).all()
    assert not certificate.found.any()
    assert 0 < certificate.lower[0, 0] < 10
    assert -10 < certificate.upper[1, 0] < 0
    assert certificate.upper[0, 0] == np.inf
    assert certificate.lower[1, 0] == -np.inf
    # Where the column may be anything, the other class is at distance 0.
    certificate = certify_raw(model, np.vstack([ends, [[1.0, 0.0]]]), scale=[np.inf, 1.0])
    assert (certificate.radius == 0).all()
    assert certificate.found.all()
    assert certificate.upper_radius.max() < 1e-300
    assert not np.isnan(certificate.lower).any()
    # Where the answer does not depend on it, it lasts for ever.
    assert np.isinf(certify_raw(model, ends, scale=[0.0, 1.0]).radius).all()
    # Differences that no float holds.
    assert_sound(model, np.array([[1.7e308, -1.7e308]]), certify_raw(model, [[1.7e308, -1.7e308]]))


@pytest.mark.parametrize("kind", ["array", "pandas", "pandas nullable", "polars"])
def test_categories_that_are_numbers(kind):
    rng = np.random.default_rng(0)
    code, x = rng.choice([10, 20, 30, 40], 400), rng.normal(size=400)
    y = np.select([code == 10, code == 20, code == 30], [2.0, -2.0, 0.3], 0.0) + x > 0
    columns = {"code": code, "x": x}
    if kind == "array":
        rows = np.column_stack(list(columns.values()))
    else:
        frames = pytest.importorskip(kind.split()[0])
        rows = frames.DataFrame(columns)
        if "nullable" in kind:
            rows = rows.convert_dtypes()
    categorical = [0] if kind == "array" else ["code"]
    forest = HistGradientBoostingClassifier(max_iter=15, categorical_features=categorical)
    model = KPPClassifier(forest, alpha=1e-3, random_state=0).fit(rows, y)
    certificate = certify_raw(model, rows[:30])
    assert np.array_equal(certificate.found, np.isfinite(certificate.radius))
    assert certificate.found.sum() > 10
    found = certificate.found
    assert (certificate.counterexample[found, 0] == code[:30][found]).all()


def test_a_column_that_blocks_read_in_two_ways():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.choice([10.0, 20.0, 30.0], 200), rng.normal(size=200)])
    y = (rows[:, 0] == 20) ^ (rows[:, 1] > 0)
    boosted = HistGradientBoostingClassifier(max_iter=5, categorical_features=[0])
    plain = RandomForestClassifier(5, random_state=0)
    model = KPPClassifier(
        [("a", plain), ("b", boosted)], combine="joint", alpha=1e-3, random_state=0
    ).fit(rows, y)
    for function in (lambda: collapse(model), lambda: certify_raw(model, rows[:3])):
        with pytest.raises(TypeError, match="Column 0 is categorical in one block"):
            function()
    # The forest's own metric does not mind.
    inside = path_distance(model, rows) < certify(model, rows).radius[:, None]
    same = model.predict(rows)[:, None] == model.predict(rows)
    assert same[inside].all()


def test_a_forest_of_codes_without_names():
    # Categorical splits, and the codes themselves in X: they do not move like numbers.
    stump = Tree(
        left=[1, -1, -1],
        right=[2, -1, -1],
        feature=[0] * 3,
        threshold=[np.nan] * 3,
        left_categories={0: [0, 2]},
    )
    forest = Forest.from_trees([stump], n_features=2)
    codes = np.column_stack([np.arange(8) % 4, np.zeros(8)])
    model = KPPClassifier(forest, regime="fixed", alpha=1e-3, node_weight="uniform")
    model.fit(codes, codes[:, 0] % 2)
    certificate = certify_raw(model, codes)
    assert certificate.scale.tolist() == [0.0, 1.0]
    assert certificate.lower[:, 0].tolist() == certificate.upper[:, 0].tolist()
    assert (certify_raw(model, codes, free_categories=[0]).radius == 0).all()


@pytest.mark.parametrize("forest", ["random-forest", "extra-trees", "boosted"])
def test_real_forests(forest):
    # 8,000 points a forest, single and double precision.
    model = KPPClassifier(forest, n_estimators=12, alpha=1e-3, random_state=0).fit(X, Y)
    certificate = certify_raw(model, X[:16])
    assert_sound(model, X[:16], certificate, n_points=100)
    assert certificate.found.all()
    assert certificate.finished.all()


def test_other_tasks():
    iris, kinds = load_iris(return_X_y=True)
    model = KPPClassifier("extra-trees", n_estimators=10, alpha=1e-3, random_state=0).fit(
        iris, kinds
    )
    assert_sound(model, iris[::10], certify_raw(model, iris[::10]))
    model = KPPRegressor(
        [("a", "random-forest"), ("b", "boosted")], combine="joint", n_estimators=6, alpha=1.0
    )
    model.fit(DX, DY)
    certificate = certify_raw(model, DX[:8], scale=DX.std(axis=0), epsilon=50.0, effort=5000)
    assert_sound(model, DX[:8], certificate, 50.0)


def test_values_on_the_threshold(make_model):
    # A row exactly on a threshold, or one step from it, has next to no room there.
    for seed in range(20):
        model = make_model(seed, n_trees=4, most_splits=8)
        forest = model.forest_
        rows = random_rows(seed, 6)
        splits = np.flatnonzero(forest.split_kind == 1)
        rng = np.random.default_rng(seed)
        for row, v in zip(rows, rng.choice(splits, 6), strict=True):
            t = forest.threshold[v]
            row[forest.feature[v]] = rng.choice([t, np.nextafter(t, 9), np.nextafter(t, -9)])
        assert_sound(model, rows, certify_raw(model, rows), seed=seed)


def brute_force_radius(model, forest, x, scale):
    """The nearest change, by trying every combination of sides of every threshold."""
    sides = []
    for j in range(len(x)):
        t = np.unique(forest.threshold[(forest.feature == j)])
        nearest = np.clip(x[j], np.r_[-np.inf, np.nextafter(t, np.inf)], np.r_[t, np.inf])
        sides.append(np.unique(nearest))
    points = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, len(x))
    differ = model.predict(points) != model.predict(x[None])
    if not differ.any():
        return np.inf
    return (np.abs(points[differ] - x) / scale).max(axis=1).min()


def test_exact_where_all_trees_are_treated_jointly(make_model):
    scale = np.array([1.0, 0.5, 2.0])
    for seed in range(15):
        model = make_model(seed, n_trees=4, most_splits=6, oblique=0.0)
        rows = random_rows(seed, 6)
        certificate = certify_raw(model, rows, scale=scale)
        alone = certify_raw(model, rows, scale=scale, effort=0)
        assert (alone.radius <= certificate.radius).all()
        assert not alone.found.any()
        for i, x in enumerate(rows):
            exact = brute_force_radius(model, model.forest_, x, scale)
            assert certificate.radius[i] <= exact
            assert certificate.upper_radius[i] >= exact
            if exact > 1e-9:
                assert certificate.radius[i] == pytest.approx(exact, rel=1e-9, abs=1e-12)


def test_descent_finds_the_least_step_of_a_line(make_model):
    # With one column the first sweep is the answer.
    for seed in range(15):
        model = make_model(seed, n_trees=6, most_splits=9, n_features=1)
        rows = random_rows(seed, 6, 1)
        forest = model.forest_
        cells = np.unique(forest.threshold[~forest.is_leaf])
        cells = np.r_[cells, np.nextafter(cells, np.inf)]
        values = collapse(model).node_values[0]
        for x in rows:
            low, high = x - 0.7, x + 0.7
            point, total = x.copy(), np.empty(1)
            columns = np.zeros(1, dtype=np.int64)
            descend(forest.nodes, values, x, low, high, columns, -np.inf, 3, point, total)
            inside = np.r_[cells[(cells >= low) & (cells <= high)], low, high, x]
            expected = values[forest.apply(inside[:, None])].sum(axis=1).min()
            assert total[0] == pytest.approx(expected, abs=1e-12)
            assert low <= point <= high
            at_point = values[forest.apply(point[:, None])].sum()
            assert at_point == pytest.approx(expected, abs=1e-12)


def test_descent_ends_where_no_column_helps(make_model):
    n_moved = 0
    for seed in range(10):
        model = make_model(seed, n_trees=8, most_splits=15, n_features=3)
        forest, values = model.forest_, collapse(model).node_values[0]
        columns = np.arange(3)
        for x in random_rows(seed, 4, 3):
            if np.isnan(x).any():
                continue
            low, high = x - 0.7, x + 0.7
            point, total = x.copy(), np.empty(1)
            descend(forest.nodes, values, x, low, high, columns, -np.inf, 50, point, total)
            n_moved += int((point != x).sum() > 1)
            at_point = values[forest.apply(point[None])].sum()
            assert total[0] == pytest.approx(at_point, abs=1e-12)
            for j in columns:
                t = forest.threshold[(forest.feature == j) & ~forest.is_leaf]
                t = np.r_[t, np.nextafter(t, np.inf)]
                t = np.r_[t[(t >= low[j]) & (t <= high[j])], low[j], high[j]]
                others = np.tile(point, (len(t), 1))
                others[:, j] = t
                assert values[forest.apply(others)].sum(axis=1).min() >= total[0] - 1e-12
    assert n_moved > 5


def test_never_above_the_exact_radius_of_veritas(classifier):
    veritas = pytest.importorskip("veritas")
    # veritas compares in float64: it gets the thresholds at which the model's rounding turns.
    collapsed = collapse(classifier)
    forest = replace(as_float64(collapsed.forest), dtype=np.float32)
    (block,) = collapsed.blocks
    collapsed = replace(collapsed, blocks=(replace(block, forest=forest),))
    trees = veritas.get_addtree(collapsed.to_sklearn(), silent=True)
    rows = X[:25]
    certificate = certify_raw(classifier, rows)
    for i, score in enumerate(classifier.decision_function(rows)):
        sides = (trees, None) if score > 0 else (None, trees)
        search = veritas.VeritasRobustnessSearch(
            rows[i].astype(veritas.FloatT), 16.0, *sides, num_steps=60, max_time=20, silent=True
        )
        _, lower, upper = search.search()
        assert certificate.radius[i] <= upper * (1 + 1e-9)
        assert certificate.upper_radius[i] >= lower * (1 - 1e-9)
        assert certificate.radius[i] >= 0.99 * lower


def test_columns_that_do_not_matter_have_infinite_sides(classifier):
    unused = sorted(set(range(30)) - set(collapse(classifier).forest.feature.tolist()))
    assert unused
    certificate = certify_raw(classifier, X[:5])
    assert np.isneginf(certificate.lower[:, unused]).all()
    assert np.isposinf(certificate.upper[:, unused]).all()
    # With nothing else to move the answer stays for ever.
    scale = np.zeros(30)
    scale[unused] = 1.0
    assert np.isinf(certify_raw(classifier, X[:5], scale=scale).radius).all()
    # A column that may be anything, beside others that move.
    scale = np.ones(30)
    scale[unused] = np.inf
    assert certify_raw(classifier, X[:5], scale=scale).radius == pytest.approx(certificate.radius)


def test_scales_are_units(classifier):
    raw = certify_raw(classifier, X[:5])
    assert raw.scale.tolist() == [1.0] * 30
    tenth = certify_raw(classifier, X[:5], scale=np.full(30, 0.1))
    assert tenth.radius == pytest.approx(10 * raw.radius)
    spread = certify_raw(classifier, X[:5], scale="std")
    assert spread.scale == pytest.approx(X.std(axis=0))


def test_missing_values_stay_missing():
    rows = X.copy()
    rows[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    model = KPPClassifier("random-forest", n_estimators=10, alpha=1e-3, random_state=0)
    model.fit(rows, Y)
    certificate = certify_raw(model, rows[:10])
    assert_sound(model, rows[:10], certificate)
    missing = np.isnan(rows[:10])
    assert np.isnan(certificate.lower[missing]).all()
    found = certificate.counterexample[certificate.found]
    assert np.array_equal(np.isnan(found), missing[certificate.found])


def test_categories_stay_unless_freed():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, 400)
    x = rng.normal(size=400)
    frame = pandas.DataFrame({"x": x, "kind": pandas.Categorical(np.array(list("abcd"))[kind])})
    y = np.array([2.0, -2.0, 0.3, 0.0])[kind] + x > 0
    model = KPPClassifier("boosted", n_estimators=20, alpha=1e-3, random_state=0).fit(frame, y)
    rows = frame.iloc[:12]
    certificate = certify_raw(model, rows)
    assert certificate.found.any()
    assert certificate.scale.tolist() == [1.0, 0.0]
    for i in range(12):
        wiggle = pandas.concat([rows.iloc[[i]]] * 50, ignore_index=True)
        reach = min(certificate.radius[i], 50.0)
        wiggle["x"] = rows["x"].iloc[i] + reach * np.linspace(-1, 1, 50)
        assert (model.predict(wiggle) == model.predict(rows.iloc[[i]])).all()
        if certificate.found[i]:
            assert certificate.counterexample[i, 1] == rows["kind"].iloc[i]
            changed = rows.iloc[[i]].assign(x=float(certificate.counterexample[i, 0]))
            assert model.predict(changed) != model.predict(rows.iloc[[i]])
    freed = certify_raw(model, rows, free_categories=[1])
    assert (freed.radius <= certificate.radius).all()
    assert (freed.radius < certificate.radius).any()
    for i in range(12):
        every = pandas.concat([rows.iloc[[i]]] * 4, ignore_index=True)
        every["kind"] = pandas.Categorical(list("abcd"))
        if freed.radius[i] > 0:
            assert (model.predict(every) == model.predict(rows.iloc[[i]])).all()
    with pytest.raises(ValueError, match=r"names categorical columns, \[1\]; got 0"):
        certify_raw(model, rows, free_categories=[0])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library):
    frames = pytest.importorskip(library)
    names = [f"x{j}" for j in range(10)]
    frame = frames.DataFrame(dict(zip(names, DX.T, strict=True)))
    model = KPPRegressor("extra-trees", n_estimators=5, alpha=0.5, random_state=0).fit(frame, DY)
    certificate = certify_raw(model, frame[:5], epsilon=30.0)
    assert certificate.found.all()
    changed = frames.DataFrame(dict(zip(names, certificate.counterexample.T, strict=True)))
    assert (np.abs(model.predict(changed) - model.predict(frame[:5])) >= 30.0).all()


class Clock:
    """A second passes with every look at it."""

    now = 0.0

    def monotonic(self):
        self.now += 1.0
        return self.now


def test_time_is_kept_and_what_is_unfinished_is_sound(monkeypatch):
    model = KPPClassifier("extra-trees", n_estimators=60, alpha=1e-4, random_state=0).fit(X, Y)
    rows = X[:60]
    clock, begun = Clock(), []
    monkeypatch.setattr(raw_input, "time", clock)
    monkeypatch.setattr(raw_search, "time", clock)

    def noting(name, work):
        return lambda *arguments: begun.append((name, clock.now)) or work(*arguments)

    for name in ("certifies", "search"):
        monkeypatch.setattr(BoxFlip, name, noting(name, getattr(BoxFlip, name)))

    # One look at the clock a row for its tree-by-tree radius; what is left goes to searches.
    certificate = certify_raw(model, rows, time_budget=200.0)
    deadline = 1 + 200
    assert 0 < certificate.finished.sum() < len(rows)
    assert {name for name, _ in begun} == {"certifies", "search"}
    assert max(at for _, at in begun) <= deadline
    assert (certificate.radius > 0).sum() > certificate.finished.sum()
    assert_sound(model, rows, certificate, n_points=10)

    clock.now, begun[:] = 0.0, []
    nothing = certify_raw(model, rows, time_budget=0.0)
    assert not nothing.finished.any()
    assert not begun
    assert_sound(model, rows, nothing, n_points=10)


def test_progress_and_threads(classifier):
    seen = []
    alone = certify_raw(classifier, X[:9], progress=lambda *done: seen.append(done))
    assert seen == [(i, 9) for i in range(1, 10)]
    classifier.n_jobs = 2
    try:
        together = certify_raw(classifier, X[:9])
    finally:
        classifier.n_jobs = None
    assert np.array_equal(alone.radius, together.radius)
    assert np.array_equal(alone.counterexample, together.counterexample, equal_nan=True)
    assert repr(alone).startswith("RawCertificate(n_rows=9, certified=9")


def test_constant_models_never_change(make_model, make_linear):
    model = make_model(0)
    for b in (0.5, 0.0):
        make_linear(model, 0 * model.node_coef_, [b])
        certificate = certify_raw(model, random_rows(0, 5))
        assert np.isinf(certificate.radius).all()
        assert not certificate.found.any()
        assert np.isneginf(certificate.lower).all()


def test_bad_input(classifier):
    with pytest.raises(NotFittedError):
        certify_raw(KPPClassifier("extra-trees"), X)
    with pytest.raises(ValueError):
        certify_raw(classifier, X[:, 1:])
    with pytest.raises(ValueError, match=r"one entry per column, shape \(30,\); got \(2,\)"):
        certify_raw(classifier, X, scale=[1.0, 2.0])
    with pytest.raises(ValueError, match="scale must not be negative"):
        certify_raw(classifier, X, scale=-np.ones(30))
    with pytest.raises(ValueError, match="scale must be None, 'std' or one number"):
        certify_raw(classifier, X, scale="range")
    for time_budget in (-1.0, np.nan, "1"):
        with pytest.raises(ValueError, match="time_budget is a number of seconds"):
            certify_raw(classifier, X, time_budget=time_budget)
    with pytest.raises(ValueError, match=r"names categorical columns, \[\]; got 'a'"):
        certify_raw(classifier, X, free_categories="age")
    for effort in (-1, 0.5, True):
        with pytest.raises(ValueError, match="effort must be"):
            certify_raw(classifier, X, effort=effort)
    with pytest.raises(ValueError, match="Leave it out"):
        certify_raw(classifier, X, epsilon=1.0)
    model = KPPRegressor("extra-trees", n_estimators=2, alpha=1.0).fit(DX, DY)
    with pytest.raises(ValueError, match="A regressor needs epsilon"):
        certify_raw(model, DX)


def test_a_change_by_the_tolerance_itself_is_a_change():
    class Answers:
        """Two targets, at the rows and at the points found."""

        def predict(self, rows):
            return np.array({"old": [[1.0, 5.0]] * 4, "new": NEW}[rows[0]])

    NEW = [[1.5, 5.0], [0.5, 5.0], [1.0, 6.0], [1.4375, 4.0625]]
    tolerance = np.array([0.5, 1.0])  # a change by less counts as none
    found = raw_input.answers_differ(Answers(), ["old"] * 4, ["new"] * 4, tolerance)
    assert found.tolist() == [True, True, True, False]


def test_radius_zero_certifies_nothing_even_where_a_column_is_free(classifier):
    """An infinite scale and a radius of 0: other values of that column are not certified."""
    column = int(np.argmax(classifier.feature_importances_))
    scale = np.ones(X.shape[1])
    scale[column] = np.inf
    rows = X[:60]
    certificate = certify_raw(classifier, rows, scale=scale)
    changes = np.zeros(len(rows), dtype=bool)
    for value in X[:, column]:
        moved = rows.copy()
        moved[:, column] = value
        changes |= classifier.predict(moved) != classifier.predict(rows)
    assert changes.any()
    # Where the free column alone can change the answer, nothing is certified, and it says so.
    assert not certificate.radius[changes].any()
    assert not certificate.certified[changes].any()
    assert certificate.certified.any()
    assert np.array_equal(certificate.certified, certificate.radius > 0)
    assert f"certified={certificate.certified.sum()}, " in repr(certificate)
    shown = certificate._repr_html_()
    assert "nothing certified" in shown
    assert "a radius of 0 certifies nothing beyond the row" in shown
    # The box of such a row does not free the column either.
    own = rows[changes, column]
    assert (certificate.lower[changes, column] <= own).all()
    assert (certificate.upper[changes, column] >= own).all()
    for side in (certificate.lower, certificate.upper):
        at_side = rows[changes].copy()
        bounded = np.isfinite(side[changes, column])
        at_side[bounded, column] = side[changes, column][bounded]
        assert np.array_equal(classifier.predict(at_side), classifier.predict(rows[changes]))


def test_huge_values_have_a_radius():
    """Squares of 1e200 overflow; their spread does not, and neither does what it certifies."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 2))
    model = KPPClassifier("boosted", n_estimators=5, alpha=1e-2, random_state=0)
    model.fit(rows * 1e200, (rows[:, 0] > 0).astype(int))
    assert np.isfinite(model.feature_spread_).all()
    certificate = certify_raw(model, rows[:20] * 1e200, scale="std")
    assert certificate.certified.all()
    assert (certificate.radius <= certificate.upper_radius).all()
    inside = rows[:20] * 1e200 + 0.99 * certificate.radius[:, None] * model.feature_spread_
    assert np.array_equal(model.predict(inside), model.predict(rows[:20] * 1e200))
