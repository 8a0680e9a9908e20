"""The radii against the theorem: every leaf, every combination, every point."""

import html
import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpydoc_lite import sections
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from zoo import beside_thresholds, obvious_value, random_rows

import kpp.certificates
from kpp import KPPClassifier, KPPEmbedding, KPPRegressor, path_distance
from kpp.certificates import (
    certify,
    certify_raw,
    lipschitz_bound,
    lipschitz_constant,
    robustness_curve,
    stable_change,
    stable_radius,
)
from kpp.certificates.flips import check_epsilon, flips_of
from kpp.certificates.leafwise import dual_bound, solve
from kpp.certificates.node_tables import NodeTables
from kpp.explanations import explain_distance

SEEDS = range(12)
TASKS = ["binary", "multiclass", "regression", "targets"]
CANCER = load_breast_cancer(return_X_y=True)


def epsilon_of(task):
    return {"regression": 0.7, "targets": [0.7, 1.5]}.get(task)


def scores_of(model, X):
    scores = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    return scores.reshape(len(X), -1)


def exact_radius(model, tables, total, combination_scores, score, epsilon):
    """Least distance of a combination of leaves whose answer differs from this row's."""
    b = np.atleast_1d(model.intercept_)
    new = combination_scores.T + b
    if epsilon is not None:
        changed = (np.abs(new - score) >= np.atleast_1d(epsilon)).any(axis=1)
    elif len(score) == 1:
        changed = new[:, 0] <= 0 if score[0] > 0 else new[:, 0] > 0
    else:
        c = score.argmax()
        changed = (np.delete(new, c, axis=1) >= new[:, [c]]).any(axis=1)
    return total[changed].min() if changed.any() else np.inf


@pytest.mark.parametrize("normalize", ["forest", "tree"])
@pytest.mark.parametrize("task", TASKS)
def test_between_the_paper_and_the_exact_radius(
    make_model, leaves_of, combinations_of, task, normalize
):
    epsilon = epsilon_of(task)
    ratios = []
    for seed in SEEDS:
        model = make_model(seed, task=task, normalize=normalize)
        X = random_rows(seed, 15)
        certificate = certify(model, X, epsilon=epsilon)
        paper = certify(model, X, epsilon=epsilon, method="lipschitz")
        assert (certificate.radius >= certificate.lipschitz).all()
        assert np.array_equal(paper.radius, certificate.lipschitz)
        tables = leaves_of(model)
        scores = scores_of(model, X)
        for i, leaves in enumerate(model.apply(X)):
            total, combined = combinations_of(tables, leaves)
            exact = exact_radius(model, tables, total, combined, scores[i], epsilon)
            assert certificate.radius[i] <= exact
            assert certificate.lipschitz[i] <= exact
            assert certificate.never_flips[i] == np.isinf(exact)
            assert np.isinf(certificate.radius[i]) == np.isinf(exact)
            ratios.append(certificate.radius[i] / exact if np.isfinite(exact) else 1.0)
    assert np.median(ratios) > 0.3  # and it is worth having


@pytest.mark.parametrize("normalize", ["forest", "tree"])
@pytest.mark.parametrize("task", TASKS)
def test_radii_are_in_the_metric_that_distances_are_given_in(make_model, task, normalize):
    """With all defaults: no row inside a radius has another answer, by either distance."""
    epsilon, n_inside, n_elsewhere = epsilon_of(task), 0, 0
    other = {"forest": "tree", "tree": "forest"}[normalize]
    for seed in range(30):
        model = make_model(seed, task=task, normalize=normalize, n_trees=4)
        X = random_rows(seed, 40)
        certificate = certify(model, X, epsilon=epsilon)
        assert certificate.normalize == normalize
        answer = np.asarray(model.predict(X)).reshape(len(X), -1)
        change = np.abs(answer[:, None].astype(float) - answer[None])
        same = (change < np.atleast_1d(1e-9 if epsilon is None else epsilon)).all(axis=2)
        inside = path_distance(model, X) < certificate.radius[:, None]
        assert same[inside].all()
        assert (lipschitz_bound(model, X) < np.inf).all()
        n_inside += int(inside.sum()) - len(X)
        elsewhere = path_distance(model, X, normalize=other) < certificate.radius[:, None]
        n_elsewhere += int((~same)[elsewhere].sum())
        i = seed % len(X)
        for j in range(0, len(X), 9):
            assert same[i, j] or explain_distance(model, X[i], X[j]).total >= certificate.radius[i]
    assert n_inside > 1000
    assert n_elsewhere > 0  # the other normalisation is no metric for these radii


@pytest.mark.parametrize(("normalize", "words"), [("forest", "delta_T"), ("tree", "delta_K")])
def test_a_certificate_says_its_metric(make_model, normalize, words):
    model = make_model(3, normalize=normalize)
    X = random_rows(3, 20)
    certificate = certify(model, X)
    assert f"normalize='{normalize}'" in repr(certificate)
    assert certificate.metric.startswith(words)
    assert certificate.metric in html.unescape(certificate._repr_html_())
    curve = robustness_curve(model, X, model.predict(X))
    assert curve.normalize == normalize
    assert f"normalize='{normalize}'" in repr(curve)
    assert certificate.metric in html.unescape(curve._repr_html_())
    loaded = make_model(3, normalize=normalize, blocks=2)
    assert certify(loaded, X).normalize == normalize


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_dual_bound_is_the_minimum_over_leaves(make_model, leaves_of, seed, blocks):
    model = make_model(seed, n_trees=4, most_splits=9, blocks=blocks)
    X = random_rows(seed, 20)
    tables, at = NodeTables.of(model.additive_), model.at(X)
    leaf_ids = at.joined_leaf_ids
    obvious = leaves_of(model)
    for flip in flips_of(tables, at.scores, None):
        sign = 1.0 if flip.to == 0 else -1.0
        found = solve(tables, flip, leaf_ids)
        for mu in [0.0, 1e-3, 0.1, 1.0, 30.0, *found.best_mu[:3]]:
            bound, slope = dual_bound(
                tables, flip.value, flip.offset, leaf_ids, flip.rows, float(mu)
            )
            for i, row in enumerate(flip.rows):
                expected = mu * flip.offset[i]
                for tree, (leaves, distance, value) in enumerate(obvious):
                    here = int(np.flatnonzero(leaves == leaf_ids[tree, row])[0])
                    expected += (distance[here] + mu * sign * value[0]).min()
                assert bound[i] == pytest.approx(expected, rel=1e-12, abs=1e-12)
                # The top is at most any tangent, and at least any value.
                if np.isfinite(found.radius[i]) and found.best_mu[i] > 0:
                    top = found.radius[i]
                    assert top >= bound[i] - 1e-9
                    assert top <= bound[i] + slope[i] * (found.best_mu[i] - mu) + 1e-9


def test_the_top_dominates_the_papers_radius_without_being_told(make_model):
    for seed in SEEDS:
        model = make_model(seed, n_trees=6, most_splits=10)
        X = random_rows(seed, 40)
        tables, at = NodeTables.of(model.additive_), model.at(X)
        for flip in flips_of(tables, at.scores, None):
            found = solve(tables, flip, at.joined_leaf_ids)
            paper = (flip.margin / flip.norm) ** 2
            assert (found.radius >= paper * (1 - 1e-9) - 1e-12).all()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    task=st.sampled_from(TASKS),
    blocks=st.integers(1, 2),
    n_trees=st.integers(1, 8),
)
def test_no_point_inside_changes_the_answer(make_model, seed, task, blocks, n_trees):
    model = make_model(seed, task=task, n_trees=n_trees, most_splits=12, blocks=blocks)
    rng = np.random.default_rng(seed)
    X = random_rows(seed, 10)
    forests = [f for _, f in model.forest_] if blocks > 1 else [model.forest_]
    others = np.vstack([beside_thresholds(forest, X, 60, seed) for forest in forests])
    others = np.vstack([others, random_rows(seed + 1, 60), rng.normal(size=(60, 3))])
    assert_nothing_changes_inside(model, X, others, epsilon_of(task))


def assert_nothing_changes_inside(model, X, others, epsilon):
    for method in ("leafwise", "lipschitz"):
        certificate = certify(model, X, epsilon=epsilon, method=method)
        distance = model.map_.on(X).distances(model.map_.on(others))
        inside = distance < certificate.radius[:, None]
        if epsilon is None:
            same = model.predict(X)[:, None] == model.predict(others)
        else:
            change = np.abs(scores_of(model, X)[:, None] - scores_of(model, others))
            same = (change < epsilon).all(axis=2)
        assert same[inside].all()
        assert same[certificate.never_flips].all()
    return inside


@pytest.mark.parametrize("seed", SEEDS)
def test_margins_near_rounding_error(make_model, make_linear, seed):
    model = make_model(seed, n_trees=7, most_splits=12)
    X = random_rows(seed, 30)
    others = np.vstack([X, beside_thresholds(model.forest_, X, 100, seed)])
    w, g = model.node_coef_, model.decision_function(X) - model.intercept_[0]
    for i in range(10):
        for ulps in (0, 1, -1, 3, -3, 40, -40):
            b = -g[i] + ulps * np.spacing(abs(g[i]))
            make_linear(model, w, [b])
            assert_nothing_changes_inside(model, X, others, None)
            # Within its own rounding a margin certifies nothing.
            certificate = certify(model, X[i : i + 1])
            if abs(ulps) <= 3 and not certificate.never_flips[0]:
                assert certificate.radius[0] < 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_classes_that_differ_by_rounding_only(make_model, make_linear, seed):
    # The same w in two classes: their scores tie at some rows, where the first class wins.
    model = make_model(seed, task="multiclass", n_trees=4, most_splits=8)
    X = random_rows(seed, 12)
    others = np.vstack([X, beside_thresholds(model.forest_, X, 60, seed)])
    w, b = model.node_coef_.copy(), model.intercept_.copy()
    w[2] = w[0]
    for first, last in ((b[0], np.nextafter(b[0], 9)), (0.0, 1e-17), (b[0], b[0])):
        make_linear(model, w, [first, b[1], last])
        assert_nothing_changes_inside(model, X, others, None)
        rounding = np.isin(model.predict(X), [0, 2])
        assert (certify(model, X).radius[rounding] == 0).all()
    # By more than rounding, it does not matter by how much: the other class decides.
    radii = []
    for behind in (0.1, 50.0):
        make_linear(model, w, [b[0] - behind, b[1], b[0]])
        assert_nothing_changes_inside(model, X, others, None)
        radii.append(certify(model, X).radius)
    assert radii[0] == pytest.approx(radii[1], rel=1e-9, abs=1e-11)


def test_scores_that_are_exactly_the_intercepts(make_model, make_linear):
    # Weight on nodes without mass, and a tie: nothing is added, so nothing is rounded.
    for task, b in (("binary", [0.0]), ("multiclass", [0.3, 0.3, 0.1])):
        model = make_model(0, task=task)
        w = np.where(model.map_.scale == 0, 1.0, 0.0) * np.ones((len(b), 1))
        assert w.any()
        make_linear(model, w, b)
        certificate = certify(model, random_rows(0, 5))
        assert certificate.never_flips.all()
        assert np.isinf(certificate.lipschitz).all()


@pytest.mark.parametrize("scale", [1e-250, 1e-150, 1e-8, 1e8, 1e150])
def test_any_scale_of_scores(make_model, make_linear, scale):
    for seed in SEEDS:
        model = make_model(seed)
        X = random_rows(seed, 20)
        before = certify(model, X)
        make_linear(model, model.node_coef_ * scale, model.intercept_ * scale)
        after = certify(model, X)
        assert after.radius == pytest.approx(before.radius, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_threads_change_nothing(n_jobs):
    X, y = CANCER
    model = KPPClassifier("extra-trees", n_estimators=10, alpha=1e-3, random_state=0).fit(X, y)
    expected = certify(model, X)
    model.n_jobs = n_jobs
    got = certify(model, X)
    assert np.array_equal(got.radius, expected.radius)
    # Nor does the company that a row is certified in, but for the last bits.
    alone = certify(model, X[5:6]).radius[0]
    assert alone == pytest.approx(expected.radius[5], rel=1e-9)


@pytest.mark.parametrize("alpha", [1e-5, 1e-3])
def test_real_forests(alpha):
    X, y = CANCER
    model = KPPClassifier("extra-trees", n_estimators=15, alpha=alpha, random_state=0).fit(
        X[::2], y[::2]
    )
    certificate = certify(model, X)
    inside = assert_nothing_changes_inside(model, X, X, None)
    assert (certificate.radius >= certificate.lipschitz).all()
    assert (inside.sum(axis=1) >= 1).mean() > 0.9  # x itself
    assert np.median(certificate.radius / certificate.lipschitz) > 1.5
    assert np.array_equal(certificate.margin, np.abs(model.decision_function(X)))


def test_real_forests_of_other_tasks():
    X, y = load_iris(return_X_y=True)
    model = KPPClassifier(
        "extra-trees", n_estimators=10, alpha=1e-3, regime="cross-fit", random_state=0
    )
    assert_nothing_changes_inside(model.fit(X, y), X, X, None)
    X, y = load_diabetes(return_X_y=True)
    for choice in ({"leaf_weight": "uniform"}, {"coordinates": "leaf"}, {"normalize": "tree"}):
        model = KPPRegressor(
            "extra-trees", n_estimators=8, alpha=0.1, random_state=0, **choice
        ).fit(X, y)
        assert_nothing_changes_inside(model, X, X, 40.0)
        certificate = certify(model, X, epsilon=40.0)
        assert (certificate.radius >= certificate.lipschitz).all()
    model = KPPRegressor("boosted", n_estimators=20, alpha=0.1, random_state=0).fit(X, y)
    assert_nothing_changes_inside(model, X, X, 40.0)
    model = KPPRegressor(
        [("a", "random-forest"), ("b", "boosted")], combine="joint", n_estimators=9, alpha=0.1
    )
    assert_nothing_changes_inside(model.fit(X, y), X, X, 40.0)


def test_multiclass_takes_the_minimum_over_every_other_class():
    X, y = load_iris(return_X_y=True)
    model = KPPClassifier("extra-trees", n_estimators=10, alpha=1e-3, random_state=0).fit(X, y)
    g, w = model.decision_function(X), model.node_coef_
    expected = np.full(len(X), np.inf)
    for i, c in enumerate(g.argmax(axis=1)):
        for k in set(range(3)) - {c}:
            radius = ((g[i, c] - g[i, k]) / np.linalg.norm(w[c] - w[k])) ** 2
            expected[i] = min(expected[i], radius)
    assert certify(model, X).lipschitz == pytest.approx(expected, rel=1e-10)


def test_nothing_to_cross_within_rounding(make_model, make_linear):
    model = make_model(0)
    X = random_rows(0, 5)
    make_linear(model, model.node_coef_, model.intercept_ - model.decision_function(X)[0])
    certificate = certify(model, X)
    assert certificate.radius[0] == 0
    assert certificate.splits_to_cross(0) == []


def test_splits_to_cross(make_model):
    found = 0
    for seed in SEEDS:
        model = make_model(seed, n_trees=5, most_splits=10)
        X = random_rows(seed, 20)
        certificate = certify(model, X)
        for i in range(len(X)):
            crossings = certificate.splits_to_cross(i)
            if certificate.never_flips[i]:
                assert crossings == []
                continue
            # What is crossed reaches another answer, at a distance of at least the radius.
            assert sum(c.distance for c in crossings) >= certificate.radius[i] * (1 - 1e-9)
            assert sum(c.change for c in crossings) >= certificate.margin[i] * (1 - 1e-9)
            assert certificate.nearest[i] == 1 - model.predict(X[i : i + 1])[0]
            for crossing in crossings:
                value = obvious_value(model.forest_, X[i], crossing.node)
                assert (value <= crossing.threshold) == crossing.goes_left
                assert bool(crossing.terms) == (crossing.feature == -2)
            found += len(crossings)
    assert found > 100
    with pytest.raises(ValueError, match="method='leafwise'"):
        certify(model, X, method="lipschitz").splits_to_cross(0)
    with pytest.raises(IndexError, match="below 20"):
        certificate.splits_to_cross(20)


@pytest.mark.parametrize("task", TASKS)
def test_without_coefficients_everything_is_certified(make_model, make_linear, task):
    model = make_model(0, task=task)
    b = np.array([-1.0, 1.0, 0.5])[: len(np.atleast_1d(model.intercept_))]
    make_linear(model, np.zeros_like(np.atleast_2d(model.node_coef_)), b)
    X = random_rows(0, 10)
    for method in ("leafwise", "lipschitz"):
        certificate = certify(model, X, epsilon=epsilon_of(task), method=method)
        assert np.isinf(certificate.radius).all()
        assert np.isinf(certificate.lipschitz).all()
        assert certificate.never_flips.all()
    if task == "regression":
        assert stable_radius(model, 1.0) == np.inf
        assert stable_change(model, [0.0, 1.0, np.inf]).tolist() == [0, 0, 0]


def test_lipschitz_bound_holds_for_every_pair(make_model):
    for seed in SEEDS:
        for task, shape in (("regression", (30, 30)), ("targets", (2, 30, 30))):
            model = make_model(seed, task=task, n_trees=6)
            X = random_rows(seed, 30)
            scores = scores_of(model, X).T
            bound = lipschitz_bound(model, X)
            assert bound.shape == shape
            difference = np.abs(scores[:, :, None] - scores[:, None, :])
            assert (difference <= bound.reshape(-1, 30, 30) + 1e-12).all()
            assert lipschitz_bound(model, X, X[:4]).shape[-2:] == (30, 4)


def test_output_stability_there_and_back():
    X, y = load_diabetes(return_X_y=True)
    model = KPPRegressor("extra-trees", n_estimators=20, alpha=1.0, random_state=0).fit(X, y)
    norm = np.linalg.norm(model.node_coef_)
    assert lipschitz_constant(model) == pytest.approx([norm])
    assert stable_radius(model, 10.0) == pytest.approx((10 / norm) ** 2)
    assert stable_change(model, 0.04) == pytest.approx(0.2 * norm)
    assert certify(model, X, epsilon=10.0).lipschitz == pytest.approx((10 / norm) ** 2)
    inside = path_distance(model, X) < stable_radius(model, 10.0)
    f = model.predict(X)
    assert (np.abs(f[:, None] - f)[inside] < 10.0).all()


def test_bad_input():
    X, y = load_diabetes(return_X_y=True)
    model = KPPRegressor("extra-trees", n_estimators=3, alpha=1.0, random_state=0).fit(X, y)
    classes = KPPClassifier("extra-trees", n_estimators=3, alpha=1.0, random_state=0).fit(
        X, y > 100
    )
    with pytest.raises(NotFittedError):
        certify(KPPRegressor("extra-trees"), X, epsilon=1.0)
    with pytest.raises(TypeError, match="got KPPEmbedding"):
        certify(KPPEmbedding(n_estimators=2).fit(X, y), X)
    with pytest.raises(ValueError):
        certify(model, X[:, 1:], epsilon=1.0)
    with pytest.raises(ValueError, match="method must be one of 'leafwise', 'lipschitz'"):
        certify(model, X, method="exact", epsilon=1.0)
    with pytest.raises(ValueError, match="A regressor needs epsilon"):
        certify(model, X)
    with pytest.raises(ValueError, match="Leave it out"):
        certify(classes, X, epsilon=1.0)
    for epsilon in (-1.0, 0.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="epsilon must be positive and finite"):
            certify(model, X, epsilon=epsilon)
    for epsilon in ("a", [1.0, 2.0]):
        with pytest.raises(ValueError, match="epsilon must be a number, or one per target"):
            certify(model, X, epsilon=epsilon)
    with pytest.raises(ValueError, match="must not be negative"):
        stable_change(model, -0.1)
    with pytest.raises(ValueError, match="must be numbers"):
        stable_change(model, "far")
    with pytest.raises(TypeError, match="belongs to a regressor"):
        stable_radius(classes, 1.0)
    with pytest.raises(ValueError):
        certify(model, np.full((1, 10), np.inf), epsilon=1.0)
    with pytest.raises(ValueError):
        certify(model, X[:0], epsilon=1.0)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(10)])
    for fitted, choice in (
        (KPPRegressor("extra-trees", n_estimators=3, alpha=1.0).fit(frame, y), {"epsilon": 1.0}),
        (KPPClassifier("extra-trees", n_estimators=3, alpha=1.0).fit(frame, y > 100), {}),
    ):
        for function in (certify, certify_raw):
            with pytest.raises(ValueError):
                function(fitted, frame[:0], **choice)
        for method in ("leafwise", "lipschitz"):
            with pytest.raises(ValueError):
                robustness_curve(fitted, frame[:0], y[:0], method=method)
    assert repr(certify(model, X, epsilon=1.0)).startswith("Certificate(method='leafwise', n_rows")


def test_docstrings_name_the_parameters():
    for name in kpp.certificates.__all__:
        thing = getattr(kpp.certificates, name)
        names = inspect.signature(thing).parameters
        expected = [p for p in names if p != "self" and not p.startswith("_")]
        assert sections(thing) == expected, name


@pytest.mark.parametrize("task", ["multiclass", "regression", "targets"])
def test_nearest_is_where_the_least_radius_leads(make_model, task):
    epsilon = epsilon_of(task)
    found = []
    for seed in range(5):
        model = make_model(seed, task=task, n_trees=4)
        X = random_rows(seed, 12)
        tables = NodeTables.of(model.additive_)
        scores, w = scores_of(model, X), np.atleast_2d(model.node_coef_)
        flips = list(flips_of(tables, scores, check_epsilon(model.additive_, epsilon)))
        by_method = {"leafwise": certify(model, X, epsilon=epsilon)}
        by_method["lipschitz"] = certify(model, X, epsilon=epsilon, method="lipschitz")
        leaf_ids = model.map_.on(X).leaf_ids
        solved = [solve(tables, flip, leaf_ids).radius for flip in flips]
        for i in range(len(X)):
            paper, leafwise_radius = {}, {}
            for number, flip in enumerate(flips):
                if i not in flip.rows:
                    continue
                place = int(np.flatnonzero(flip.rows == i)[0])
                if task == "multiclass":
                    c = int(scores[i].argmax())
                    gap = (scores[i, c] - scores[i, flip.to]) / np.linalg.norm(w[c] - w[flip.to])
                else:
                    k = number // 2  # falling and rising, target by target
                    gap = np.broadcast_to(epsilon, len(w))[k] / np.linalg.norm(w[k])
                paper[number] = gap**2
                leafwise_radius[number] = max(solved[number][place], gap**2)
            for method, radii in (("lipschitz", paper), ("leafwise", leafwise_radius)):
                certificate = by_method[method]
                least = min(radii.values())
                assert certificate.radius[i] == pytest.approx(least, rel=1e-9)
                near = {flips[k].to for k, r in radii.items() if r <= least * (1 + 1e-9)}
                if np.isfinite(least):
                    assert certificate.nearest[i] in near
                    found.append(len(near) < len(radii))
    assert np.mean(found) > 0.3  # more than one flip, and not all alike


def test_a_crossing_is_a_leaf_with_its_distance_and_its_change(make_model, leaves_of):
    found = 0
    for seed in range(6):
        model = make_model(seed, n_trees=4, most_splits=8)
        X = random_rows(seed, 10)
        certificate, tables = certify(model, X), leaves_of(model)
        sign = np.where(model.decision_function(X) > 0, 1.0, -1.0)
        for i, leaves in enumerate(model.apply(X)):
            for crossing in certificate.splits_to_cross(i):
                own, distance, value = tables[crossing.tree]
                at = int(np.flatnonzero(own == leaves[crossing.tree])[0])
                change = sign[i] * (value[0, at] - value[0])
                off = np.abs(distance[at] - crossing.distance) + np.abs(change - crossing.change)
                assert np.delete(off, at).min() < 1e-12
                found += 1
    assert found > 30
