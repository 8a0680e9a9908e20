"""The scale that alphas are carried by, and the search for the best one."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from zoo import random_forest, random_node_weight, random_rows

from kpp import KPPClassifier, KPPRegressor
from kpp._progress import Progress
from kpp.geometry import PathMap, path_weights
from kpp.models.fits import MapPart
from kpp.models.plans import Fold
from kpp.models.selection import LayerSettings, select
from kpp.models.tasks import Regression
from kpp.solvers import mean_squared_spread


def test_spread_is_the_trace_of_the_centred_gram_over_the_rows():
    forest = random_forest(0)
    phi = PathMap(forest, path_weights(forest, random_node_weight(0, forest))).on(random_rows(0))
    weight = np.arange(40) % 3.0
    dense = phi.to_csr().toarray()
    centred = dense - np.average(dense, axis=0, weights=weight)
    expected = (weight * (centred**2).sum(axis=1)).sum() / np.count_nonzero(weight)
    assert mean_squared_spread(phi, weight) == pytest.approx(expected, rel=1e-12)


def test_rows_in_one_place_have_the_spread_of_one():
    forest = random_forest(0)
    nothing = path_weights(forest, np.zeros(forest.n_nodes), allow_no_mass=True)
    phi = PathMap(forest, nothing).on(random_rows(0))
    assert mean_squared_spread(phi, np.ones(40)) == 1.0
    assert mean_squared_spread(phi, np.full(40, 3.0)) == 3.0


# The search itself, on a map that has seen no labels.


def make_folds(n_rows=120, n_folds=4):
    forest = random_forest(1, n_trees=6)
    X = random_rows(1, n_rows=n_rows)
    phi = PathMap(forest, path_weights(forest, random_node_weight(1, forest))).on(X)
    part, rows = MapPart(phi), np.arange(n_rows)
    tests = np.array_split(np.random.default_rng(0).permutation(n_rows), n_folds)
    folds = [Fold.of(part, np.setdiff1d(rows, test), test) for test in tests]
    noise = np.random.default_rng(1).normal(size=n_rows)
    y = phi @ np.random.default_rng(2).normal(size=phi.shape[1]) + 0.3 * noise
    return phi, folds, y[:, None]


def settings(**parameters):
    given = {
        "task": Regression(1, is_single=True),
        "alpha": None,
        "alphas": None,
        "scoring": None,
        "fit_intercept": True,
        "tol": 1e-10,
        "max_iter": 1000,
        "progress": Progress(0),
    }
    return LayerSettings(**(given | parameters))


def test_out_of_fold_scores_are_ridges(monkeypatch):
    monkeypatch.setattr("kpp.solvers.losses.SquaredLoss.final_tol", 1e-12)
    phi, folds, y = make_folds()
    weight = 1.0 + np.arange(len(y)) % 3
    found = select(folds, y, weight, settings(alphas=[0.01, 0.1, 1.0]), unit=2.0, is_relative=False)
    dense = phi.to_csr().toarray()
    merits = []
    for alpha in (0.01, 0.1, 1.0):
        predicted = np.empty(len(y))
        for fold in folds:
            rows = fold.train_rows
            ridge = Ridge(alpha, solver="cholesky").fit(dense[rows], y[rows, 0], weight[rows])
            predicted[fold.test_rows] = ridge.predict(dense[fold.test_rows])
        merits.append(-np.average((y[:, 0] - predicted) ** 2, weights=weight))
        if alpha == 2.0 * found.taus[found.best]:
            np.testing.assert_allclose(found.out_of_fold[:, 0], predicted, rtol=1e-8)
    np.testing.assert_allclose(found.cv_scores, merits, rtol=1e-4)
    assert found.best == int(np.argmax(merits))
    assert found.taus.tolist() == pytest.approx([0.005, 0.05, 0.5])


def test_relative_alphas_follow_the_scale_of_each_fold():
    _, folds, y = make_folds()
    weight = np.ones(len(y))
    own = settings(alphas=[0.1])
    found = select(folds, y, weight, own, unit=1.0, is_relative=True)
    for fold, solution in zip(folds, found.solutions, strict=True):
        unit = mean_squared_spread(fold.train, weight[fold.train_rows])
        assert solution.solutions.alphas[0] == pytest.approx(0.1 * unit, rel=1e-14)


def test_of_equally_good_alphas_the_largest_wins():
    _, folds, y = make_folds()
    flat = settings(alphas=[0.1, 1.0, 10.0], scoring=lambda *args, **kwargs: 1.0)
    assert select(folds, y, np.ones(len(y)), flat, unit=1.0, is_relative=False).best == 2


def test_the_grid_grows_beyond_its_edge_unless_it_was_given(monkeypatch):
    _, folds, y = make_folds()
    monkeypatch.setattr("kpp.models.selection.DEFAULT_TAUS", np.array([1e-9, 1e-8]))
    weight = np.ones(len(y))
    free = select(folds, y, weight, settings(), unit=1.0, is_relative=True)
    assert len(free.taus) > 2
    assert (np.diff(free.taus) > 0).all()
    given = settings(alphas=[1e-9, 1e-8])
    assert len(select(folds, y, weight, given, unit=1.0, is_relative=True).taus) == 2


def test_an_offset_is_added_and_not_fitted_again():
    _, folds, y = make_folds()
    offset = 5.0 + np.linspace(0, 1, len(y))[:, None]
    plain = settings(alphas=[0.1])
    weight = np.ones(len(y))
    without = select(folds, y, weight, plain, unit=1.0, is_relative=False)
    moved = select(folds, y + offset, weight, plain, unit=1.0, is_relative=False, offset=offset)
    np.testing.assert_allclose(moved.out_of_fold - offset, without.out_of_fold, atol=1e-10)


@pytest.mark.parametrize("alphas", [[], [0.0], [np.inf], [-1.0]])
def test_bad_grids_are_refused(alphas):
    with pytest.raises(ValueError, match="alphas must be positive and finite"):
        settings(alphas=alphas).grid(1.0)


@pytest.mark.parametrize("weights", [None, 3.0])
@pytest.mark.filterwarnings("ignore:The best alpha lies on the upper edge")  # not looked at
def test_the_grid_of_a_classifier_is_in_units_of_its_averaged_loss(weights):
    # Its loss is divided by the sum of the weights, and so is alpha; ridge's is not.
    X = random_rows(1, n_rows=90)
    weight = None if weights is None else np.full(90, weights)
    total = 90.0 if weights is None else 90.0 * weights
    for estimator, y, divisor in (
        (KPPClassifier, np.arange(90) % 2, total),
        (KPPRegressor, np.arange(90) % 7.0, 1.0),
    ):
        model = estimator(random_forest(1), regime="fixed", node_weight="uniform", cv=2)
        model.fit(X, y, sample_weight=weight)
        phi = model.map_.on(X).to_csr().toarray()
        spread = np.square(phi - phi.mean(axis=0)).sum() / 90 * (weights or 1.0)
        unit = spread / divisor
        if estimator is KPPRegressor:  # a classifier's need not go on to the smallest
            assert len(model.alphas_) >= 20
            assert np.isclose(model.alphas_, 1e-4 * unit, rtol=1e-9).any()
        assert np.isclose(model.alphas_, 1e2 * unit, rtol=1e-9).any()
