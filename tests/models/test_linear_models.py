"""KPPRegressor and KPPClassifier: what they fit, in which regime, and how alpha is chosen."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, train_test_split
from sklearn.utils.class_weight import compute_class_weight

from kpp import Forest, KPPClassifier, KPPRegressor
from kpp.geometry import BlockMap

REGIMES = ["shared", "honest", "cross-fit", "cross-validated"]


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def cancer():
    return load_breast_cancer(return_X_y=True)


def small(estimator, **parameters):
    own = {"forest": "extra-trees", "n_estimators": 10, "random_state": 0, "combine": "joint"}
    return estimator(**(own | parameters))


# The linear layer.


@pytest.mark.parametrize("alpha", [0.01, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge_is_scikit_learns_on_the_written_out_embedding(diabetes, alpha, fit_intercept):
    X, y = diabetes
    model = small(KPPRegressor, alpha=alpha, fit_intercept=fit_intercept, tol=1e-22).fit(X, y)
    phi = model.map_.to_csr().toarray()
    other = Ridge(alpha, fit_intercept=fit_intercept, solver="cholesky").fit(phi, y)
    np.testing.assert_allclose(model.node_coef_, other.coef_, atol=1e-7 * np.abs(other.coef_).max())
    np.testing.assert_allclose(model.predict(X), other.predict(phi), rtol=1e-9)


def test_logistic_is_scikit_learns_on_the_written_out_embedding(cancer):
    X, y = cancer
    model = small(KPPClassifier, alpha=1e-3, tol=1e-20).fit(X, y)
    phi = model.map_.to_csr()
    other = LogisticRegression(C=1 / (len(y) * 1e-3), solver="newton-cg", tol=1e-10).fit(phi, y)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(phi), atol=1e-6)
    assert model.node_coef_.shape == (1, model.forest_.n_nodes)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize(
    "forest", ["extra-trees", "boosted", [("a", "extra-trees"), ("b", "boosted")]]
)
def test_predictions_are_the_operator_times_the_coefficients(diabetes, regime, forest):
    X, y = diabetes
    model = small(KPPRegressor, forest=forest, regime=regime, alpha=0.1).fit(X, y)
    expected = model.map_.on(X) @ model.node_coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-12)


def test_primal_is_dual(diabetes):
    X, y = diabetes
    model = small(KPPRegressor).fit(X, y)
    np.testing.assert_allclose(model.node_coef_, model.map_.T @ model.dual_coef_[:, 0], rtol=1e-12)
    gram = model.map_.gram()
    by_dual = gram @ model.dual_coef_[:, 0] + model.intercept_
    np.testing.assert_allclose(model.predict(X), by_dual, rtol=1e-11)


# The paper's diabetes table, to its digits.


def test_the_papers_fixed_row(diabetes):
    X, y = diabetes
    forest = RandomForestRegressor(30, max_depth=6, random_state=0)
    model = KPPRegressor(forest, alpha=np.logspace(-4, 4, 12)[5], tol=1e-12).fit(X, y)
    rmse = np.sqrt(np.mean((model.predict(X) - y) ** 2))
    assert round(rmse, 2) == 45.40
    assert round(np.linalg.norm(model.node_coef_), 1) == 727.4
    assert round(model.map_.row_norms(squared=True).mean(), 3) == 0.143


def test_the_papers_honest_row(diabetes):
    X, y = diabetes
    forest = RandomForestRegressor(30, max_depth=6, random_state=0)
    alpha = np.logspace(-4, 4, 12)[5]
    model = KPPRegressor(forest, regime="honest", alpha=alpha, random_state=0, tol=1e-12)
    model.fit(X, y)
    assert round(np.sqrt(np.mean((model.predict(X) - y) ** 2)), 2) == 53.26
    assert round(np.linalg.norm(model.node_coef_), 1) == 505.7
    assert round(model.map_.on(X).row_norms(squared=True).mean(), 3) == 0.195


def test_the_papers_cross_validated_row_and_its_alpha(diabetes):
    # The paper's reading of PB-03 is plain cross-validation of forest and ridge.
    X, y = diabetes
    model = KPPRegressor(
        RandomForestRegressor(30, max_depth=6, random_state=0),
        alphas=np.logspace(-4, 4, 12),
        alpha_selection="regrown",
        cv=KFold(5, shuffle=True, random_state=0),
    ).fit(X, y)
    assert model.alpha_ == pytest.approx(np.logspace(-4, 4, 12)[5], rel=1e-12)
    assert round(np.sqrt(-model.cv_scores_.max()), 2) == 57.33


# How alpha is chosen.


@pytest.mark.parametrize("way", ["fold-grown", "regrown", "frozen"])
def test_out_of_fold_predictions_of_noise(way):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)), rng.normal(size=300)
    model = small(KPPRegressor, n_estimators=50, alpha_selection=way, alphas=np.logspace(-4, 2, 7))
    model.fit(X, y)
    r2 = r2_score(y, model.oof_prediction_)
    if way == "frozen":
        assert r2 > 0.3  # a forest that has seen the labels leaks them
    else:
        assert r2 < 0.02


def test_a_group_of_trees_never_sees_its_fold(diabetes, monkeypatch):
    X, y = diabetes
    monkeypatch.setattr("kpp.models.selection.DEFAULT_TAUS", np.array([0.1]))
    cv = KFold(4, shuffle=True, random_state=1)
    auto = small(KPPRegressor, n_estimators=10, cv=cv).fit(X, y)
    assert [len(test) for _, test in auto.folds_] == [111, 111, 110, 110]
    assert auto.forest_.n_trees == 10
    # Other labels in one fold change neither its group's trees nor its own predictions.
    other = y.copy()
    _, fold = auto.folds_[2]
    other[fold] = other[fold][::-1] + 1000
    changed = clone(auto).fit(X, other)
    np.testing.assert_array_equal(changed.oof_prediction_[fold], auto.oof_prediction_[fold])
    rest = np.setdiff1d(np.arange(len(y)), fold)
    assert not np.allclose(changed.oof_prediction_[rest], auto.oof_prediction_[rest])


def test_the_search_is_kept(diabetes):
    X, y = diabetes
    model = small(KPPRegressor).fit(X, y)
    assert len(model.alphas_) == len(model.cv_scores_) >= 20
    assert model.alpha_ == model.alphas_[model.cv_scores_.argmax()]
    assert -np.mean((model.oof_prediction_ - y) ** 2) == pytest.approx(model.cv_scores_.max())
    given = small(KPPRegressor, alpha=0.3).fit(X, y)
    assert (given.alpha_, given.cv_scores_, given.oof_prediction_) == (0.3, None, None)


def test_a_grid_whose_edge_stays_best_is_reported(diabetes, monkeypatch):
    X, y = diabetes
    monkeypatch.setattr("kpp.models.selection.DEFAULT_TAUS", np.logspace(5, 6, 4))
    with pytest.warns(ConvergenceWarning, match="lower edge of the grid, even after"):
        model = small(KPPRegressor).fit(X, y)
    assert len(model.alphas_) == len(model.cv_scores_) == 14


@pytest.mark.parametrize(("first", "last"), [(1.5, 2.5), (-3, -2)])
def test_a_grid_grows_to_where_the_best_is(diabetes, monkeypatch, first, last):
    X, y = diabetes
    wide = small(KPPRegressor).fit(X, y)
    monkeypatch.setattr("kpp.models.selection.DEFAULT_TAUS", np.logspace(first, last, 3))
    model = small(KPPRegressor).fit(X, y)
    assert len(model.alphas_) > 3
    np.testing.assert_allclose(np.diff(np.log(model.alphas_)), np.log(10) / 2, rtol=1e-6)
    assert 0 < model.cv_scores_.argmax() < len(model.alphas_) - 1
    assert model.cv_scores_.max() == pytest.approx(wide.cv_scores_.max(), rel=0.02)
    given = small(KPPRegressor, alphas=[1e-4, 1e-3]).fit(X, y)  # the user's grid stays
    np.testing.assert_allclose(given.alphas_, [1e-4, 1e-3])


def test_scoring(cancer):
    X, y = cancer
    model = small(KPPClassifier, scoring="accuracy").fit(X, y)
    oof = model.classes_[model.oof_prediction_.argmax(axis=1)]
    assert model.cv_scores_.max() == pytest.approx((oof == y).mean())
    named = small(KPPClassifier, scoring="neg_log_loss").fit(X, y)
    default = small(KPPClassifier).fit(X, y)
    # By its own loss a classifier leaves out small alphas, once they are worse; what both score is
    # solved from other starts, to the tolerance of the search.
    assert default.alpha_ == named.alpha_
    shared = len(default.alphas_)
    np.testing.assert_allclose(named.alphas_[-shared:], default.alphas_)
    np.testing.assert_allclose(named.cv_scores_[-shared:], default.cv_scores_, rtol=2e-3)


def test_weights_reach_the_scoring(diabetes):
    X, y = diabetes
    weight = np.random.default_rng(0).exponential(size=len(y)) ** 3
    named = small(KPPRegressor, scoring="neg_mean_squared_error").fit(X, y, weight)
    error = np.average((named.oof_prediction_ - y) ** 2, weights=weight)
    assert named.cv_scores_.max() == pytest.approx(-error, rel=1e-9)


def test_of_equally_good_alphas_the_largest_is_taken(cancer):
    X, y = cancer
    model = small(KPPClassifier, scoring=lambda model, X, y: 0.5).fit(X, y)
    assert len(model.alphas_) == 20  # a tie at the edge is no reason to go on
    assert model.alpha_ == model.alphas_[-1]


def test_an_alpha_below_the_first_cut_off_is_found(monkeypatch):
    # Without noise the best alpha is small, and its system needs more products than the first cut.
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 3))
    y = np.sin(12 * X[:, 0]) + X[:, 1]
    model = small(KPPRegressor, n_estimators=50, max_iter=5000).fit(X, y)
    monkeypatch.setattr("kpp.models.selection.SEARCH_PRODUCTS", 10**9)
    whole = small(KPPRegressor, n_estimators=50, max_iter=5000).fit(X, y)
    assert model.cv_scores_.max() == pytest.approx(whole.cv_scores_.max(), rel=0.03)
    monkeypatch.setattr("kpp.models.selection.SEARCH_PRODUCTS", 3)
    again = small(KPPRegressor, n_estimators=50, max_iter=5000).fit(X, y)
    assert again.cv_scores_.max() == pytest.approx(whole.cv_scores_.max(), rel=0.03)


def test_of_many_rows_and_classes_one_fold_chooses(monkeypatch):
    X, y = load_digits(return_X_y=True)
    X, y = X[:900], y[:900]
    every = small(KPPClassifier).fit(X, y)
    monkeypatch.setattr("kpp.models.selection.PILOT_ROWS", 180)
    model = small(KPPClassifier).fit(X, y)
    assert model.alphas_.tolist() == [model.alpha_]
    # All rows are scored, and by all folds.
    p = model.oof_prediction_[np.arange(len(y)), y]
    assert p.min() > 0
    assert model.cv_scores_.tolist() == [pytest.approx(np.log(p).mean(), rel=1e-12)]
    # The curve is flat about its best, which a fifth of the rows finds to a few points of the grid.
    assert abs(np.log(model.alpha_ / every.alpha_)) < 3.01 * 6 * np.log(10) / 19
    assert model.cv_scores_[0] > every.cv_scores_.max() - 0.01
    monkeypatch.setattr("kpp.models.selection.PILOT_ROWS", 181)
    assert small(KPPClassifier).fit(X, y).alphas_.tolist() == every.alphas_.tolist()


def test_at_the_edge_of_the_grid_all_folds_see_whether_it_goes_on(monkeypatch):
    X, y = load_iris(return_X_y=True)
    monkeypatch.setattr("kpp.models.selection.DEFAULT_TAUS", np.logspace(-1, 2, 12))
    every = small(KPPClassifier).fit(X, y)
    assert len(every.alphas_) > 1
    monkeypatch.setattr("kpp.models.selection.PILOT_ROWS", 1)
    model = small(KPPClassifier).fit(X, y)
    assert model.alphas_.tolist() == every.alphas_.tolist()
    assert model.alpha_ == every.alpha_


def test_the_seed_of_a_forest_grows_different_groups(diabetes):
    X, y = diabetes
    model = KPPRegressor(ExtraTreesRegressor(10, random_state=0)).fit(X, y)
    roots = model.forest_.threshold[model.forest_.roots]
    assert len(np.unique(np.round(roots, 2))) > 5
    same = KPPRegressor(ExtraTreesRegressor(10, random_state=0), random_state=0)
    again = KPPRegressor(ExtraTreesRegressor(10, random_state=0), random_state=0)
    assert np.array_equal(same.fit(X, y).node_coef_, again.fit(X, y).node_coef_)


def test_a_generator_is_consumed(diabetes):
    X, y = diabetes
    model = small(KPPRegressor, alpha=1.0, random_state=np.random.RandomState(0))
    first = model.fit(X, y).predict(X)
    assert not np.array_equal(model.fit(X, y).predict(X), first)


def test_groups_reach_the_splitter(diabetes):
    X, y = diabetes
    groups = np.arange(len(y)) // 20
    model = small(KPPRegressor, cv=GroupKFold(3)).fit(X, y, groups=groups)
    for train, test in model.folds_:
        assert not set(groups[train]) & set(groups[test])
    with pytest.raises(ValueError):
        small(KPPRegressor, cv=GroupKFold(3)).fit(X, y)


def test_boosters_keep_their_rounds(diabetes):
    X, y = diabetes
    model = small(KPPRegressor, forest="boosted", n_estimators=7, cv=3).fit(X, y)
    assert model.forest_.n_trees == 21
    single = small(KPPRegressor, forest="boosted", n_estimators=7, alpha=1.0).fit(X, y)
    assert single.forest_.n_trees == 7


# Regimes.


def test_honest_rows(diabetes):
    X, y = diabetes
    model = small(KPPRegressor, regime="honest", honest_fraction=0.25).fit(X, y)
    assert len(model.fit_rows_) == 111
    assert not set(model.fit_rows_) & set(model.partition_rows_)
    assert model.map_.shape[0] == 111
    forest = ExtraTreesRegressor(10, random_state=0).fit(
        X[model.partition_rows_], y[model.partition_rows_]
    )
    assert np.array_equal(model.forest_.source_leaf[model.apply(X)], forest.apply(X))
    # Labels of the fit fold do not move the trees.
    other = y.copy()
    other[model.fit_rows_] += 5
    assert np.array_equal(clone(model).fit(X, other).apply(X), model.apply(X))


def test_honest_ridge_shrinks_to_the_partition_model(diabetes):
    X, y = diabetes
    model = small(KPPRegressor, regime="honest", center="partition", alpha=0.1, tol=1e-22)
    model.fit(X, y)
    part, rows = model.partition_rows_, model.fit_rows_
    start = small(KPPRegressor, alpha=0.1, tol=1e-22).fit(X[part], y[part])
    phi = start.map_.on(X[rows]).to_csr().toarray()
    assert np.abs(start.node_coef_).max() > 1
    rest = Ridge(0.1, solver="cholesky").fit(phi, y[rows] - start.predict(X[rows]))
    np.testing.assert_allclose(
        model.node_coef_, start.node_coef_ + rest.coef_, rtol=1e-6, atol=1e-6
    )
    assert model.intercept_ == pytest.approx(start.intercept_ + rest.intercept_, rel=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_honest_logistic_shrinks_to_the_partition_model(seed):
    # A confident start: the intercept alone must not run away from it.
    X, y = load_iris(return_X_y=True)
    model = small(
        KPPClassifier, regime="honest", center="partition", alpha=1e-6, random_state=seed
    ).fit(X, y)
    assert np.isfinite(model.intercept_).all()
    assert model.score(X, y) > 0.9


def test_class_weights_enter_once_with_a_center(cancer):
    X, y = cancer
    settings = {"regime": "honest", "center": "partition", "alpha": 1e-3}
    by_class = small(KPPClassifier, class_weight={0: 3.0, 1: 1.0}, **settings).fit(X, y)
    by_row = small(KPPClassifier, **settings).fit(X, y, np.where(y == 0, 3.0, 1.0))
    np.testing.assert_array_equal(by_class.node_coef_, by_row.node_coef_)


@pytest.mark.parametrize("estimator", [KPPRegressor, KPPClassifier])
def test_a_center_with_a_search_and_groups(diabetes, cancer, estimator):
    X, y = diabetes if estimator is KPPRegressor else cancer
    settings = {"regime": "honest", "center": "partition", "cv": GroupKFold(3)}
    groups = np.arange(len(y)) % 30
    assert small(estimator, **settings).fit(X, y, groups=groups).score(X, y) > 0.3
    for regime in ("shared", "cross-fit", "fixed"):
        with pytest.raises(ValueError, match=f"goes with regime='honest'; got regime='{regime}'"):
            small(estimator, center="partition", regime=regime).fit(X, y)


def test_cross_fit_is_an_average_of_honest_fits(diabetes):
    X, y = diabetes
    model = small(KPPRegressor, regime="cross-fit", alpha=0.1, cv=5).fit(X, y)
    assert isinstance(model.map_, BlockMap)
    assert len(model.folds_) == 5
    tested = np.concatenate([test for _, test in model.folds_])
    fitted = np.concatenate([fit for fit, _ in model.folds_])
    assert np.array_equal(np.sort(tested), np.arange(len(y)))
    assert np.array_equal(np.sort(fitted), np.arange(len(y)))
    average = np.zeros(len(y))
    for q, ((fit, _), (_, block)) in enumerate(zip(model.folds_, model.map_.blocks, strict=True)):
        assert np.array_equal(fit, model.folds_[(q + 1) % 5][1])  # the next fold fits
        own = Ridge(0.1, solver="cholesky").fit(block.on(X[fit]).to_csr().toarray(), y[fit])
        average += own.predict(block.on(X).to_csr().toarray()) / 5
    np.testing.assert_allclose(model.predict(X), average, rtol=1e-6)
    # Fold q's trees saw neither q nor the fold that its linear layer is fitted on.
    fit, test = model.folds_[1]
    other = y.copy()
    other[np.concatenate([fit, test])] += 100
    changed = clone(model).fit(X, other)
    assert np.array_equal(
        changed.map_.blocks[1][1].forest.threshold,
        model.map_.blocks[1][1].forest.threshold,
        equal_nan=True,
    )
    with pytest.raises(ValueError, match="at least 3 folds"):
        small(KPPRegressor, regime="cross-fit", cv=2).fit(X, y)


def test_cross_fit_out_of_fold_predictions_of_noise():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)), rng.normal(size=300)
    model = small(KPPRegressor, regime="cross-fit", alphas=[0.1, 1.0, 10.0]).fit(X, y)
    assert r2_score(y, model.oof_prediction_) < 0.05


def test_a_fold_without_a_class_does_not_spoil_the_average():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), np.zeros(300, dtype=int)
    y[:4], X[:4, 0] = 1, 10.0
    for labels in (y, np.where(y == 1, 2, (X[:, 1] > 0).astype(int))):
        model = small(KPPClassifier, regime="cross-fit", alpha=1e-4, n_estimators=25)
        model.fit(X, labels)
        assert np.abs(model.intercept_).max() < 25
        rare = model.predict_proba(X)[:, -1]
        assert rare[:4].min() > 2 * np.median(rare[4:])


def test_a_fixed_forest_does_not_see_the_labels_of_the_fit(diabetes):
    X, y = diabetes
    booster = FrozenEstimator(HistGradientBoostingRegressor(max_iter=5).fit(X[:200], y[:200]))
    X, y = X[200:], y[200:]
    with pytest.raises(ValueError, match=r"not in the fixed regime.*node_weight='uniform'"):
        KPPRegressor(booster, regime="fixed", node_weight="variance", alpha=1.0).fit(X, y)
    model = KPPRegressor(booster, regime="fixed", node_weight="uniform", alpha=1.0)
    other = np.random.default_rng(0).permutation(y)
    assert np.array_equal(clone(model).fit(X, y).map_.scale, clone(model).fit(X, other).map_.scale)
    # A booster has no gains of its own target to weigh by: by default all splits count alike.
    by_default = clone(model).set_params(node_weight="gain").fit(X, other)
    assert np.array_equal(by_default.map_.scale, clone(model).fit(X, y).map_.scale)


def test_fixed_forests(diabetes):
    X, y = diabetes
    fitted = RandomForestRegressor(10, random_state=0).fit(X[:200], y[:200])
    by_forest = KPPRegressor(Forest.from_model(fitted), regime="fixed", random_state=0)
    by_frozen = KPPRegressor(FrozenEstimator(fitted), regime="fixed", random_state=0)
    X_new, y_new = X[200:], y[200:]
    a, b = by_forest.fit(X_new, y_new), clone(by_frozen).fit(X_new, y_new)
    assert np.array_equal(a.predict(X), b.predict(X))
    assert np.array_equal(a.forest_.source_leaf[a.apply(X)], fitted.apply(X))
    with pytest.raises(ValueError, match="FrozenEstimator"):
        KPPRegressor(fitted, regime="fixed").fit(X_new, y_new)
    with pytest.raises(ValueError, match="regime='fixed' if it was fitted on other data"):
        KPPRegressor(FrozenEstimator(fitted)).fit(X_new, y_new)


def test_rows_of_weight_zero_are_as_removed_at_a_given_forest(cancer):
    X, y = cancer
    fitted = FrozenEstimator(RandomForestClassifier(10, random_state=0).fit(X[:200], y[:200]))
    X, y = X[200:], y[200:]
    weight = (np.arange(len(y)) % 3).astype(float)
    kept = weight > 0
    model = KPPClassifier(fitted, regime="fixed", alpha=1e-3, tol=1e-20)
    a = clone(model).fit(X, y, weight).predict_proba(X)
    b = clone(model).fit(X[kept], y[kept], weight[kept]).predict_proba(X)
    np.testing.assert_allclose(a, b, atol=1e-8)


# The contract.


@pytest.mark.parametrize("estimator", [KPPRegressor, KPPClassifier])
@pytest.mark.parametrize("regime", REGIMES)
def test_bit_identical_for_any_number_of_threads(diabetes, cancer, estimator, regime):
    X, y = diabetes if estimator is KPPRegressor else cancer
    one = small(estimator, n_jobs=1, regime=regime).fit(X, y)
    two = small(estimator, n_jobs=2, regime=regime).fit(X, y)
    assert np.array_equal(one.node_coef_, two.node_coef_)
    assert one.alpha_ == two.alpha_
    score = "predict" if estimator is KPPRegressor else "decision_function"
    assert np.array_equal(getattr(one, score)(X), getattr(two, score)(X))


def test_several_targets(diabetes):
    X, y = diabetes
    both = np.column_stack([y, -2 * y + 3])
    model = small(KPPRegressor, alpha=0.1, tol=1e-22).fit(X, both)
    assert model.node_coef_.shape == (2, model.forest_.n_nodes)
    assert model.predict(X).shape == (len(y), 2)
    np.testing.assert_allclose(model.predict(X)[:, 1], -2 * model.predict(X)[:, 0] + 3, rtol=1e-6)
    assert small(KPPRegressor).fit(X, both).oof_prediction_.shape == (len(y), 2)


@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
def test_several_classes(load):
    X, y = load(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    model = KPPClassifier("extra-trees", n_estimators=25, random_state=0).fit(X_train, y_train)
    n_classes = len(np.unique(y))
    assert model.node_coef_.shape[0] == n_classes
    probabilities = model.predict_proba(X_test)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.log(probabilities), model.predict_log_proba(X_test), atol=1e-9)
    assert model.score(X_test, y_test) > 0.9


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [-1, 1], [2.0, 7.0]])
def test_labels_of_any_kind(cancer, labels):
    X, y = cancer
    labelled = np.array(labels)[y]
    model = small(KPPClassifier, alpha=1e-3).fit(X, labelled)
    assert model.classes_.tolist() == labels
    assert set(model.predict(X)) <= set(labels)
    plain = small(KPPClassifier, alpha=1e-3).fit(X, y)
    assert np.array_equal(plain.predict_proba(X), model.predict_proba(X))


def test_class_weights_are_sample_weights(cancer):
    X, y = cancer
    weighted = small(KPPClassifier, alpha=1e-3, class_weight={0: 3.0, 1: 1.0}).fit(X, y)
    same = small(KPPClassifier, alpha=1e-3).fit(X, y, np.where(y == 0, 3.0, 1.0))
    np.testing.assert_array_equal(weighted.node_coef_, same.node_coef_)
    balanced = small(KPPClassifier, class_weight="balanced").fit(X, y)
    assert balanced.score(X, y) > 0.9


def test_balanced_weights_of_the_honest_regime_count_the_partition_fold(cancer):
    X, y = cancer
    model = small(KPPClassifier, regime="honest", class_weight="balanced", alpha=0.1).fit(X, y)
    part, rows = model.partition_rows_, model.fit_rows_
    weight = compute_class_weight("balanced", classes=np.array([0, 1]), y=y[part])
    np.testing.assert_allclose(model.sample_weight_, weight[y[rows]], rtol=1e-12)
    # Other labels of the fit fold grow the same forest.
    other = y.copy()
    other[rows] = np.random.default_rng(0).permutation(y[rows] < 0.5)
    again = small(KPPClassifier, regime="honest", class_weight="balanced", alpha=0.1).fit(X, other)
    assert np.array_equal(again.forest_.threshold, model.forest_.threshold, equal_nan=True)


def test_a_class_absent_from_a_fold():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] > 0, "high", "low").astype(object)
    y[0] = "only one"
    model = small(KPPClassifier, alphas=[1e-3, 1e-2]).fit(X, y)
    assert model.classes_.tolist() == ["high", "low", "only one"]
    assert np.isfinite(model.cv_scores_).all()
    assert model.oof_prediction_[0, 2] < 1e-9
    two = np.where(np.arange(60) == 0, "a", "b")
    model = small(KPPClassifier, alphas=[1e-3, 1e-2]).fit(X, two)
    assert model.oof_prediction_[0, 0] < 1e-9


def test_feature_importances(diabetes):
    X, y = diabetes
    X = np.column_stack([X, np.zeros(len(y))])
    for forest in ("extra-trees", [("a", "extra-trees"), ("b", "random-forest")]):
        importance = small(KPPRegressor, forest=forest).fit(X, y).feature_importances_
        assert importance.shape == (11,)
        assert importance.sum() == pytest.approx(1)
        assert importance[10] == 0
        assert set(np.argsort(importance)[-2:]) == {2, 8}  # bmi and s5
    model = small(KPPRegressor, alpha=0.1).fit(X, y)
    squares = np.square(model.map_.to_csr().toarray() * model.node_coef_).mean(axis=0)
    variable = model.map_.coordinate_variable
    expected = np.array([squares[variable == j].sum() for j in range(11)])
    np.testing.assert_allclose(model.feature_importances_, expected / expected.sum(), rtol=1e-10)


def test_grid_search(diabetes):
    X, y = diabetes
    search = GridSearchCV(
        small(KPPRegressor, forest=ExtraTreesRegressor(5)),
        {"alpha": [0.1, 1.0], "node_weight": ["gain", "uniform"], "forest__max_depth": [3, None]},
        cv=2,
    ).fit(X, y)
    assert search.best_score_ > 0.3


def test_data_frames_with_categories(diabetes):
    pd = pytest.importorskip("pandas")
    X, y = diabetes
    frame = pd.DataFrame(X[:, :4], columns=list("abcd"))
    frame["group"] = pd.Categorical(np.where(X[:, 8] > 0, "high", "low"))
    model = small(KPPRegressor, forest="boosted").fit(frame, y)
    assert model.feature_names_in_.tolist() == [*"abcd", "group"]
    assert model.feature_importances_[4] > 0
    assert model.predict(frame).shape == (len(y),)


def test_missing_values(diabetes):
    X, y = diabetes
    X = X.copy()
    X[::4, 2] = np.nan
    for regime in REGIMES:
        assert small(KPPRegressor, regime=regime).fit(X, y).score(X, y) > 0.2


def test_an_interrupted_fit_leaves_the_old_one(diabetes, monkeypatch):
    X, y = diabetes
    model = small(KPPRegressor).fit(X, y)
    before = model.predict(X)

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("kpp.models.fitting.select", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :3], y)
    assert np.array_equal(model.predict(X), before)


def test_unsupervised_trees(diabetes):
    X, y = diabetes
    model = small(KPPRegressor, forest=RandomTreesEmbedding(20, max_depth=4)).fit(X, y)
    assert model.score(X, y) > 0.2


@pytest.mark.parametrize("regime", REGIMES)
def test_constant_targets_are_predicted(diabetes, regime):
    X, _ = diabetes
    model = small(KPPRegressor, regime=regime).fit(X, np.full(len(X), 7.0))
    np.testing.assert_allclose(model.predict(X), 7.0, rtol=1e-12)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 0.0}, "alpha must be 'auto' or a positive finite number"),
        ({"alpha": "best"}, "alpha must be 'auto' or a positive finite number"),
        ({"alpha": np.inf}, "alpha must be 'auto' or a positive finite number"),
        ({"alphas": [1.0, -1.0]}, "alphas must be positive and finite"),
        ({"alphas": []}, "alphas must be positive and finite"),
        ({"regime": "dishonest"}, "regime must be one of 'shared', 'honest'"),
        ({"alpha_selection": "loo"}, "alpha_selection must be one of"),
        ({"center": "mean"}, "center must be one of"),
        ({"honest_fraction": 1.0}, "honest_fraction is the share of rows"),
        ({"cv": 1}, "cv must be at least 2"),
        ({"forest": "auto"}, "forest must be one of 'extra-trees', 'random-forest', 'boosted'"),
    ],
)
def test_bad_parameters(diabetes, parameters, message):
    with pytest.raises(ValueError, match=message):
        small(KPPRegressor, **parameters).fit(*diabetes)


@pytest.mark.parametrize("booster", [GradientBoostingRegressor, HistGradientBoostingRegressor])
def test_boosters_grow_for_each_target_by_themselves(diabetes, booster):
    X, y = diabetes
    two = np.c_[y, X[:, 2] * y]
    given = booster(random_state=0, max_leaf_nodes=5)
    model = KPPRegressor(given, alpha=1.0).fit(X, two)
    forest = model.forest_
    alone = [clone(given).fit(X, target) for target in two.T]
    assert forest.n_trees == 200
    expected = np.column_stack([one.predict(X) for one in alone])
    np.testing.assert_allclose(forest.bare_scores(X), expected, rtol=1e-9, atol=1e-9)
    leaves = [KPPRegressor(given, alpha=1.0).fit(X, target).apply(X) for target in two.T]
    n_nodes = forest.tree_offsets[100]
    np.testing.assert_array_equal(model.apply(X), np.hstack([leaves[0], leaves[1] + n_nodes]))


def test_a_forest_of_the_other_task(diabetes, cancer):
    with pytest.raises(TypeError, match="needs a forest that is a regressor"):
        KPPRegressor(ExtraTreesClassifier()).fit(*diabetes)
    with pytest.raises(TypeError, match="needs a forest that is a classifier"):
        KPPClassifier(HistGradientBoostingRegressor()).fit(*cancer)


def test_bad_targets(diabetes):
    X, y = diabetes
    with pytest.raises(ValueError, match=r"y holds one class, 0\.$"):
        KPPClassifier("extra-trees").fit(X, np.zeros(len(y), dtype=int))
    with pytest.raises(ValueError, match="X has 442 rows, but y has 3"):
        KPPRegressor("extra-trees").fit(X, y[:3])
    with pytest.raises(ValueError, match="at least 2 classes with positive weight"):
        KPPClassifier("extra-trees").fit(X, y > 100, sample_weight=(y > 100).astype(float))
    with pytest.raises(ValueError, match="out of its training rows"):
        KPPRegressor(
            "extra-trees", cv=[(np.arange(442), fold) for fold in np.split(np.arange(442), 2)]
        ).fit(X, y)
    with pytest.raises(ValueError, match="at least 2 classes with positive weight; got only"):
        KPPClassifier("extra-trees", class_weight={False: 0, True: 0}).fit(X, y > 100)
    with pytest.raises(ValueError, match="monotonic_cst is not supported"):
        KPPRegressor(ExtraTreesRegressor(monotonic_cst=[1] * 10)).fit(X, y)
    with pytest.raises(ValueError, match="every row into exactly one test fold"):
        KPPRegressor("extra-trees", cv=[(np.arange(100), np.arange(100, 200))]).fit(X, y)


def test_unfitted(diabetes):
    for method in ("predict", "apply"):
        with pytest.raises(NotFittedError):
            getattr(KPPRegressor("extra-trees"), method)(diabetes[0])
