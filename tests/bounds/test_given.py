"""What the caller gives against what the model was fitted on."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold

from kpp import KPPClassifier, KPPRegressor
from kpp.bounds import bias_variance, bound_path, partition_oracles, risk_bounds
from kpp.bounds.samples import check_same_target, seen_rows
from kpp.diagnostics import diagnose
from kpp.models.asking import ask

X, Y = load_breast_cancer(return_X_y=True)
DX, DY = load_diabetes(return_X_y=True)
IX, IY = load_iris(return_X_y=True)
REGIMES = {
    "shared": {"regime": "shared"},
    "honest": {"regime": "honest"},
    "partition": {"regime": "honest", "center": "partition"},
    "cross-validated": {"regime": "cross-validated", "cv": KFold(3)},
    "cross-fit": {"regime": "cross-fit", "cv": KFold(3, shuffle=True, random_state=0)},
}


def changed(y, row, task):
    other = y.copy()
    other[row] = y[row] + y.std() if task == "numbers" else (y[row] + 1) % (y.max() + 1)
    return other


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [1e-4, 1.0, "auto"])
@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("task", ["numbers", "two classes", "three classes"])
def test_one_other_label_is_noticed(task, regime, alpha, weighted):
    rows, y = {"numbers": (DX, DY), "two classes": (X, Y), "three classes": (IX, IY)}[task]
    estimator = KPPRegressor if task == "numbers" else KPPClassifier
    model = estimator("extra-trees", n_estimators=6, alpha=alpha, random_state=0, **REGIMES[regime])
    weight = np.random.default_rng(0).uniform(0, 3, len(y)) if weighted else None
    model.fit(rows, y, sample_weight=weight)
    check_same_target(ask(model), y)  # its own target passes
    weights = model.sample_weight_
    row = model.fit_rows_[0 if weights is None else np.argmax(weights)]
    with pytest.raises(ValueError, match="this y is another"):
        check_same_target(ask(model), changed(y, row, task))


@pytest.mark.filterwarnings("ignore:These rows were called test rows:UserWarning")
def test_every_function_asks():
    model = KPPRegressor(
        "extra-trees", n_estimators=6, regime="honest", alpha=1.0, random_state=0
    ).fit(DX, DY)
    other = DY[::-1].copy()
    for function in (risk_bounds, bound_path, bias_variance):
        with pytest.raises(ValueError, match="this y is another"):
            function(model, DX, other)
    for function in (diagnose, partition_oracles):
        with pytest.raises(ValueError, match="this y is another"):
            function(model, DX, other, sample="fit")
        function(model, DX, other)  # of other rows anything may be asked
    with pytest.raises(ValueError, match="this y is another"):
        risk_bounds(model, DX, model.predict(DX))
    # Rows that only grew trees leave no trace in the linear layer.
    check_same_target(ask(model), changed(DY, model.partition_rows_[0], "numbers"))


def test_a_constant_target():
    model = KPPRegressor("extra-trees", n_estimators=3, alpha=1.0).fit(DX, np.full(442, 3.0))
    check_same_target(ask(model), np.full(442, 3.0))
    with pytest.raises(ValueError, match="this y is another"):
        check_same_target(ask(model), np.full(442, 5.0))


@pytest.mark.parametrize("has_digest", [True, False])
def test_two_of_three_classes_in_the_fit_fold(has_digest):
    # One score is then written as two halves, and penalised as one.
    y = (Y + 1).copy()
    model = KPPClassifier(
        "extra-trees", n_estimators=5, regime="honest", alpha=1e-2, random_state=0
    )
    y[model.fit(X, Y).partition_rows_[:5]] = 0
    model.set_params(tol=1e-20).fit(X, y)
    if not has_digest:  # then the equations tell, as in older files
        model.fit_record_ = replace(model.fit_record_, target_digest=None, tol=1e-8)
    assert len(np.unique(y[model.fit_rows_])) == 2
    check_same_target(ask(model), y)
    other = np.where(np.arange(len(y)) == model.fit_rows_[0], 3 - y, y)
    with pytest.raises(ValueError, match="this y is another"):
        check_same_target(ask(model), other)


@pytest.mark.parametrize("task", ["numbers", "two classes"])
def test_a_model_without_a_digest_is_known_by_its_equations(task):
    # As those of older files, whose fits were solved to 1e-8.
    rows, y = (DX, DY) if task == "numbers" else (X, Y)
    estimator = KPPRegressor if task == "numbers" else KPPClassifier
    model = estimator(n_estimators=6, alpha=0.1, random_state=0, tol=1e-20).fit(rows, y)
    model.fit_record_ = replace(model.fit_record_, target_digest=None, tol=1e-8)
    check_same_target(ask(model), y)
    with pytest.raises(ValueError, match="do not solve its problem"):
        check_same_target(ask(model), changed(y, 0, task))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_target_in_single_precision_is_the_same_target(weighted):
    # A file may have rounded it: 2^-24 of each number.
    y, weight = DY / 3, np.random.default_rng(0).uniform(0.5, 2, len(DY)) if weighted else None
    model = KPPRegressor("extra-trees", n_estimators=6, alpha=0.1, random_state=0, tol=1e-20)
    model.fit(DX, y, sample_weight=weight)
    model.fit_record_ = replace(model.fit_record_, target_digest=None)
    rounded = y.astype(np.float32).astype(float)
    assert (rounded != y).mean() > 0.5
    check_same_target(ask(model), rounded)
    with pytest.raises(ValueError, match="do not solve its problem"):
        check_same_target(ask(model), y.astype(np.float16).astype(float))


def test_a_target_that_hardly_varies_is_known_up_to_its_rounding():
    # Numbers near 1e9 have steps of 1e-7, and these differ by a few: no solver gets closer.
    y = 1e9 + 1e-6 * np.random.default_rng(0).normal(size=len(DY))
    model = KPPRegressor("extra-trees", n_estimators=6, alpha=0.1, random_state=0).fit(DX, y)
    model.fit_record_ = replace(model.fit_record_, target_digest=None, tol=1e-12)
    check_same_target(ask(model), y)
    with pytest.raises(ValueError, match="do not solve its problem"):
        check_same_target(ask(model), y + 1e5)


def test_a_tolerance_is_of_the_spread_not_of_the_mean():
    y = DY + 1e4
    model = KPPRegressor("extra-trees", n_estimators=6, alpha=0.1, random_state=0, tol=1e-20).fit(
        DX, y
    )
    model.fit_record_ = replace(model.fit_record_, target_digest=None)
    check_same_target(ask(model), y)
    noise = np.random.default_rng(0).normal(size=len(y))
    with pytest.raises(ValueError, match="do not solve its problem"):
        check_same_target(ask(model), y + 1e-6 * y.std() * noise)


def test_several_targets_are_known_by_their_equations():
    y = np.column_stack([DY, DY[::-1]])
    model = KPPRegressor("extra-trees", n_estimators=6, alpha=0.1, random_state=0, tol=1e-20).fit(
        DX, y
    )
    model.fit_record_ = replace(model.fit_record_, target_digest=None)
    check_same_target(ask(model), y)
    with pytest.raises(ValueError, match="do not solve its problem"):
        check_same_target(ask(model), y[:, ::-1])


def test_a_fit_that_was_cut_off_is_not_asked():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KPPRegressor("extra-trees", n_estimators=20, alpha=1e-6, max_iter=3).fit(DX, DY)
    model.fit_record_ = replace(model.fit_record_, target_digest=None)
    check_same_target(ask(model), DY)


# Rows of the fit that are called unseen.


@pytest.mark.parametrize("regime", ["shared", "honest"])
def test_rows_of_the_fit_are_no_test_rows(regime):
    model = KPPClassifier(
        "extra-trees",
        n_estimators=20,
        regime=regime,
        alpha=1e-2,
        fit_intercept=False,
        random_state=0,
    ).fit(X[::2], Y[::2])
    fit = model.fit_rows_
    for rows in (X[::2], X[::2][fit]):
        y = Y[::2] if len(rows) > len(fit) or regime == "shared" else Y[::2][fit]
        report = risk_bounds(model, rows, y, sample="test")
        assert not any(bound.is_guarantee for bound in report)
        assert "given to fit" in report["held-out bound"].failing[0].why
    assert all(b.is_guarantee for b in risk_bounds(model, X[1::2], Y[1::2], sample="test"))


def test_some_rows_of_the_fit_among_others():
    model = KPPRegressor("extra-trees", n_estimators=30, alpha=1.0, random_state=0).fit(
        DX[:300], DY[:300]
    )
    shuffled = np.random.default_rng(0).permutation(300)
    assert "among them" in seen_rows(ask(model), model.at(DX[shuffled]))
    assert "50 of these 50 rows" in seen_rows(ask(model), model.at(DX[:50]))
    assert seen_rows(ask(model), model.at(DX[300:])) is None
    mixed = np.vstack([DX[:60], DX[300:340]])
    assert "60 of these 100 rows" in seen_rows(ask(model), model.at(mixed))


def test_coarse_forests_accuse_nobody():
    # Where leaves are few, other rows reach the same ones.
    one = KPPRegressor(RandomForestRegressor(1, max_depth=1, random_state=0), alpha=1.0)
    one.fit(DX[:10], DY[:10])
    assert seen_rows(ask(one), one.at(DX[10:20])) is None
    tree = KPPRegressor(ExtraTreesRegressor(1, random_state=0), alpha=1.0).fit(DX[:300], DY[:300])
    assert seen_rows(ask(tree), tree.at(DX[300:])) is None
    root = ExtraTreesRegressor(30, min_samples_leaf=200, random_state=0).fit(DX[:300], DY[:300])
    fixed = KPPRegressor(FrozenEstimator(root), regime="fixed", alpha=1.0, node_weight="uniform")
    fixed.fit(DX[:221], DY[:221])
    assert seen_rows(ask(fixed), fixed.at(DX[221:])) is None


@pytest.mark.parametrize("has_fingerprints", [True, False])
@pytest.mark.parametrize("n", [18, 20])
def test_leaves_in_order_are_no_chance_beyond_one_in_a_million(n, has_fingerprints):
    # Half of the rows on either side of one split: another sample agrees in order with
    # probability 2^-n, which is 4 in a million for 18 rows and less than 1 for 20.
    x = np.arange(n, dtype=float)[:, None]
    stump = RandomForestRegressor(1, max_depth=1, bootstrap=False, random_state=0)
    model = KPPRegressor(stump, alpha=1.0).fit(x, (x[:, 0] >= n / 2).astype(float))
    if not has_fingerprints:  # as in older files
        model.row_fingerprints_ = None
    found = seen_rows(ask(model), model.at(x + 0.1))
    assert (found is not None) == (2.0**-n < 1e-6)
    assert seen_rows(ask(model), model.at(x[::-1] + 0.1)) is None


@pytest.mark.parametrize("n_changed", [6, 7])
def test_rows_that_were_changed_a_little_are_known_by_20_trees(n_changed):
    forest = ExtraTreesRegressor(20, random_state=0)
    model = KPPRegressor(forest, alpha=1.0).fit(DX[:300], DY[:300])
    rows = np.vstack([DX[:n_changed] * (1 + 1e-6), DX[300 : 310 - n_changed]])
    leaves = [forest.fit(DX[:300], DY[:300]).apply(each) for each in (DX[:300], rows)]
    own = set(map(tuple, leaves[0]))
    assert len(own) == 300  # every row alone
    assert sum(tuple(row) in own for row in leaves[1]) == n_changed
    # One independent row in ten does so at most: are so many of ten a chance of 1e-4?
    is_chance = binom.sf(n_changed - 1, 10, 0.1) >= 1e-4
    assert (seen_rows(ask(model), model.at(rows)) is None) == is_chance == (n_changed == 6)


def test_copies_are_a_chance_up_to_what_the_fit_lets_expect():
    # None of 300 rows equals another: with probability 1 - 1e-4 fewer than 1 - (1e-4)^(1/300) do,
    # and of 100 such rows at most the quantile of a binomial.
    model = KPPRegressor("extra-trees", n_estimators=3, alpha=1.0, random_state=0).fit(
        DX[:300], DY[:300]
    )
    most = int(binom.ppf(1 - 1e-4, 100, 1 - 1e-4 ** (1 / 300)))
    for n_copies, is_chance in ((most, True), (most + 1, False)):
        rows = model.at(np.vstack([DX[:n_copies], DX[300 : 400 - n_copies]]))
        found = seen_rows(ask(model), rows, independent_duplicates=True)
        assert (found is None) == is_chance


@pytest.mark.parametrize("n_pairs", [1, 2])
def test_leaves_tell_rows_apart_where_95_percent_are_alone(n_pairs):
    rows = np.vstack([DX[: 40 - n_pairs], DX[:n_pairs]])  # of 40 rows, 38 or 36 are alone
    y = np.concatenate([DY[: 40 - n_pairs], DY[:n_pairs]])
    model = KPPRegressor(ExtraTreesRegressor(20, random_state=0), alpha=1.0).fit(rows, y)
    found = seen_rows(ask(model), model.at(rows[10:30] * (1 + 1e-6)))
    assert (found is not None) == (n_pairs == 1)


def test_a_sample_of_one_row():
    model = KPPClassifier("extra-trees", n_estimators=5, alpha=1e-2, random_state=0).fit(
        X[:300], Y[:300]
    )
    row = X[300:301]
    bound = risk_bounds(model, row, model.predict(row), sample="test")["held-out bound"]
    # A risk above p shows no error in one draw with probability 1 - p: delta at p = 1 - delta.
    assert bound.total == pytest.approx(0.95, rel=1e-9)
    with pytest.raises(ValueError):  # whoever refuses it first
        risk_bounds(model, X[:0], Y[:0], sample="test")


@pytest.mark.filterwarnings("ignore:These rows were called test rows:UserWarning")
def test_the_dashboard_says_that_the_labels_were_seen():
    model = KPPRegressor("extra-trees", n_estimators=20, alpha=1.0, random_state=0).fit(
        DX[:300], DY[:300]
    )
    assert "KPP009" in diagnose(model, DX[:300], DY[:300]).codes
    assert "KPP009" not in diagnose(model, DX[300:], DY[300:]).codes
