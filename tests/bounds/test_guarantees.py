"""What must not be called a guarantee: groups, copies, rows of the fit, weights from labels."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import GroupKFold, KFold

from bounds.betting_by_hand import REL, betting_limit
from kpp import KPPClassifier, KPPRegressor
from kpp._fingerprints import among, row_fingerprints, with_twin
from kpp.bounds import bound_path, informed_bounds, partition_oracles, risk_bounds
from kpp.diagnostics import diagnose

X, Y = load_breast_cancer(return_X_y=True)
DX, DY = load_diabetes(return_X_y=True)
CENTRE = "held-out bound of the centre"
BY_GROUPS = "held-out bound of the centre by groups"


def failing(bound):
    return {assumption.name for assumption in bound.failing}


def copies(n_groups=150, size=10, seed=0):
    """Groups of equal rows, each with one label that nothing explains."""
    rng = np.random.default_rng(seed)
    rows, labels = rng.normal(size=(n_groups, 3)), rng.integers(0, 2, n_groups)
    groups = np.repeat(np.arange(n_groups), size)
    return rows[groups], labels[groups], groups


def honest(estimator=KPPClassifier, **settings):
    common = {"forest": "extra-trees", "n_estimators": 10, "random_state": 0}
    common |= {"regime": "honest", "center": "partition"}
    return estimator(**common | {"alpha": 1e-3} | settings)


# Groups.


def test_copies_in_both_folds_are_no_guarantee():
    rows, y, _ = copies()
    model = honest(alpha=1e-7).fit(rows, y)
    report = risk_bounds(model, rows, y)
    # The audit's example: the true error is 0.5.
    assert report[CENTRE].total < 0.02
    assert not any(bound.is_guarantee for bound in report)
    assert failing(report[CENTRE]) == {"independent rows"}
    n_fit = len(model.fit_rows_)
    assert f"{n_fit} of these {n_fit} rows equal another row" in report[CENTRE].failing[0].why
    assert "independent_duplicates=True" in report[CENTRE].failing[0].why
    assert model.duplicate_rows_ == n_fit
    assert not bound_path(model, rows, y).is_guarantee
    assert not any(bound.is_guarantee for bound in informed_bounds(model, rows, y))
    assert partition_oracles(model, rows, y, sample="fit").is_honest is False


def test_groups_stay_whole_and_do_not_count_as_rows():
    rows, y, groups = copies()
    model = honest().fit(rows, y, groups=groups)
    fit, partition = model.fit_rows_, model.partition_rows_
    assert not set(groups[fit]) & set(groups[partition])
    assert np.array_equal(np.sort(np.concatenate([fit, partition])), np.arange(len(y)))
    record = model.fit_record_
    assert (record.n_groups, record.largest_group, record.divided_groups) == (150, 10, 0)
    report = risk_bounds(model, rows, y)
    assert not any(bound.is_guarantee for bound in report)
    assert "150 groups of up to 10 rows" in report[CENTRE].failing[0].why
    # The trees know nothing of these labels all the same.
    assert partition_oracles(model, rows, y, sample="fit").is_honest is True
    twisted = groups.copy()
    twisted[::10] = np.roll(groups, 10)[::10]  # a copy of each group in the next
    leaking = honest().fit(rows, y, groups=twisted)
    assert partition_oracles(leaking, rows, y, sample="fit").is_honest is False
    # Neither does the caller's word on duplicates make rows of a group independent.
    declared = risk_bounds(model, rows, y, independent_duplicates=True)
    assert not any(bound.is_guarantee for bound in declared)


def test_a_bound_that_counts_groups():
    rows, y, groups = copies()
    model = honest().fit(rows, y, groups=groups)
    report = risk_bounds(model, rows, y, groups=groups)
    bound = report[BY_GROUPS]
    assert bound.is_guarantee
    assert [b.name for b in report if b.is_guarantee] == [BY_GROUPS]
    assert bound.details["groups"] == 75
    assert bound.total > 0.5  # the truth
    # Without groups at the fit the split divides them, and that is seen.
    divided = honest().fit(rows, y)
    found = risk_bounds(divided, rows, y, groups=groups)
    assert not any(b.is_guarantee for b in found)
    assert "give groups to fit" in found[BY_GROUPS].failing[0].why


def test_the_bound_by_groups_by_hand():
    rng = np.random.default_rng(1)
    groups = np.array([0, 0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9])
    model = KPPClassifier("extra-trees", n_estimators=5, alpha=1e-2, random_state=0).fit(
        X[:300], Y[:300]
    )
    rows = X[rng.choice(np.arange(300, len(X)), len(groups), replace=False)]
    wrong = np.array([1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0])
    y = np.where(wrong == 1, 1 - model.predict(rows), model.predict(rows))
    bound = risk_bounds(model, rows, y, sample="test", groups=groups)["held-out bound by groups"]
    assert bound.empirical_risk == pytest.approx((1 / 3 + 0 + 1 + 7 * 0) / 10)
    assert bound.total == pytest.approx(betting_limit([1 / 3, 0, 1, *[0] * 7]), rel=REL)
    assert bound.total < 1
    assert bound.is_guarantee
    ones = y == 1
    share = np.mean([ones[groups == g].mean() for g in range(10)])
    assert bound.trivial_level == pytest.approx(min(share, 1 - share))


def test_the_regression_bound_by_groups():
    groups = np.arange(len(DY)) // 2
    model = honest(KPPRegressor, alpha=1.0).fit(DX, DY, groups=groups)
    bound = risk_bounds(model, DX, DY, groups=groups, y_range=(0, 400))[BY_GROUPS]
    assert bound.is_guarantee
    centre = model.fits_[0].center
    fit = model.fit_rows_
    g = model.at(DX[fit]).map.matvec(centre.node_coef[0]) + centre.intercept
    loss = np.square(DY[fit] - np.clip(g, 0, 400))
    by_group = [loss[groups[fit] == k].mean() for k in np.unique(groups[fit])]
    assert bound.empirical_risk == pytest.approx(np.mean(by_group))
    assert not risk_bounds(model, DX, DY, groups=groups)[BY_GROUPS].is_guarantee
    assert (
        "held-out bound by groups"
        not in risk_bounds(model, DX[:0:-1], DY[:0:-1], sample="test", groups=groups[1:]).names
    )


def test_the_bound_by_groups_holds_where_that_by_rows_does_not():
    # All rows of a group share a label that nothing explains: every predictor is wrong on half.
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    model = KPPClassifier("extra-trees", n_estimators=3, alpha=1e-2, random_state=0).fit(rows, y)
    groups, failed = np.repeat(np.arange(20), [*range(1, 20), 60]), {}
    for _ in range(150):
        fresh = rng.normal(size=(len(groups), 2))
        label = rng.integers(0, 2, 20)[groups]
        # The predictor is constant on a group, as it is on rows that hardly differ.
        fresh = fresh[np.unique(groups, return_index=True)[1]][groups] + 1e-6 * fresh
        report = risk_bounds(model, fresh, label, sample="test", groups=groups, delta=0.1)
        for name in ("held-out bound", "held-out bound by groups"):
            failed[name] = failed.get(name, 0) + (report[name].total < 0.5)
        assert report["held-out bound by groups"].is_guarantee
        assert not report["held-out bound"].is_guarantee
    assert failed["held-out bound by groups"] <= 25  # 15 expected at most; 3 sigma is 11
    assert failed["held-out bound"] > 40


def test_groups_of_one_row_change_nothing_about_independence():
    model = honest().fit(X, Y, groups=np.arange(len(Y)))
    assert risk_bounds(model, X, Y)[CENTRE].is_guarantee
    assert not model.fit_record_.is_grouped


def test_test_rows_of_a_grouped_fit_need_their_groups():
    groups = np.arange(300) // 3
    model = honest().fit(X[:300], Y[:300], groups=groups)
    plain = risk_bounds(model, X[300:], Y[300:], sample="test")["held-out bound"]
    assert failing(plain) == {"independent rows"}
    alone = risk_bounds(model, X[300:], Y[300:], sample="test", groups=np.arange(269))
    assert alone["held-out bound"].is_guarantee
    several = risk_bounds(model, X[300:], Y[300:], sample="test", groups=np.arange(269) // 3)
    assert not several["held-out bound"].is_guarantee
    assert several["held-out bound by groups"].is_guarantee


def test_folds_of_the_fit_do_not_make_other_rows_dependent():
    # Stratified folds tie the labels of the fit to each other, not those of rows drawn later.
    model = KPPClassifier(
        "extra-trees", n_estimators=3, regime="cross-fit", cv=3, alpha=1e-2, random_state=0
    )
    model.fit(X[:200], Y[:200])
    on_fit = risk_bounds(model, X[:200], Y[:200])
    assert not any(bound.is_guarantee for bound in on_fit)
    later = risk_bounds(model, X[200:300], Y[200:300], sample="test")["held-out bound"]
    assert later.is_guarantee
    copied = risk_bounds(model, X[[200, 200]], Y[[200, 200]], sample="test")["held-out bound"]
    assert failing(copied) == {"independent rows"}


def test_the_split_without_groups_is_that_of_the_seed():
    from sklearn.model_selection import train_test_split

    model = honest().fit(X, Y)
    partition, fit = train_test_split(np.arange(len(Y)), test_size=0.5, random_state=0)
    assert np.array_equal(model.fit_rows_, fit)
    assert np.array_equal(model.partition_rows_, partition)


@pytest.mark.parametrize("regime", ["shared", "honest", "cross-fit", "cross-validated"])
@pytest.mark.parametrize("estimator", [KPPRegressor, KPPClassifier])
def test_a_number_of_folds_keeps_groups_whole(regime, estimator):
    rows, y = (DX, DY) if estimator is KPPRegressor else (X, Y)
    groups = np.arange(len(y)) % 40
    model = estimator(n_estimators=6, regime=regime, cv=4, random_state=0)
    model.fit(rows, y, groups=groups)
    for train, test in model.folds_:
        assert not set(groups[train]) & set(groups[test])
    assert model.fit_record_.folds == "grouped"
    assert model.fit_record_.divided_groups == 0
    again = estimator(n_estimators=6, regime=regime, cv=4, random_state=0)
    assert np.array_equal(again.fit(rows, y, groups=groups).predict(rows), model.predict(rows))


def test_folds_that_divide_groups_are_noticed():
    groups = np.arange(len(DY)) // 20
    model = KPPRegressor(
        "extra-trees", n_estimators=6, cv=KFold(3, shuffle=True, random_state=0), random_state=0
    )
    with pytest.warns(UserWarning, match=r"divides \d+ of 23 groups between folds"):
        model.fit(DX, DY, groups=groups)
    assert model.fit_record_.divided_groups > 15
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(cv=GroupKFold(3)).fit(DX, DY, groups=groups)


@pytest.mark.parametrize(
    ("settings", "groups", "message"),
    [
        ({}, np.zeros(442), "all rows are of one group"),
        ({"regime": "shared"}, np.zeros(442), "at least 2 groups"),
        ({}, np.arange(5), "the group of each of the 442 rows"),
    ],
)
def test_groups_that_cannot_be_split(settings, groups, message):
    with pytest.raises(ValueError, match=message):
        honest(KPPRegressor, center="zero", **{"alpha": "auto"} | settings).fit(
            DX, DY, groups=groups
        )


def test_groups_of_several_types():
    groups = np.array(["a", 1, None] * 147 + ["a"], dtype=object)
    model = honest(KPPRegressor, alpha=1.0).fit(DX, DY, groups=groups)
    assert model.fit_record_.n_groups == 3


# Copies without groups.


def test_declared_duplicates_are_trusted():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, size=(400, 3)).astype(float)
    y = (rng.random(400) < 0.2 + 0.3 * rows[:, 0]).astype(int)
    model = honest().fit(rows, y)
    assert not any(bound.is_guarantee for bound in risk_bounds(model, rows, y))
    declared = risk_bounds(model, rows, y, independent_duplicates=True)[CENTRE]
    assert declared.is_guarantee
    (why,) = [a.why for a in declared.assumptions if a.name == "independent rows"]
    assert "the caller says that they are independent draws" in why
    assert bound_path(model, rows, y, independent_duplicates=True).is_guarantee
    assert informed_bounds(model, rows, y, independent_duplicates=True)[-1].is_guarantee
    found = [
        partition_oracles(model, rows, y, sample="fit", independent_duplicates=said).is_honest
        for said in (False, True)
    ]
    assert found == [False, True]
    fresh = rng.integers(0, 3, size=(100, 3)).astype(float), rng.integers(0, 2, 100)
    test = risk_bounds(model, *fresh, sample="test", independent_duplicates=True)
    assert test["held-out bound"].is_guarantee
    assert not risk_bounds(model, *fresh, sample="test")["held-out bound"].is_guarantee


def test_a_single_copy_is_counted():
    rows = X.copy()
    model = honest().fit(rows, Y)
    assert model.duplicate_rows_ == 0
    rows[model.fit_rows_[0]] = rows[model.partition_rows_[0]]
    model.fit(rows, Y)
    assert model.duplicate_rows_ == 1
    assert "1 of these 285 rows" in risk_bounds(model, rows, Y)[CENTRE].failing[0].why


def test_copies_among_test_rows():
    model = honest().fit(X[:300], Y[:300])
    rows, y = np.repeat(X[300:], 2, axis=0), np.repeat(Y[300:], 2)
    bound = risk_bounds(model, rows, y, sample="test")["held-out bound"]
    assert failing(bound) == {"independent rows"}


# Rows of the fit that are called test.


def test_partition_rows_are_no_test_rows():
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(1000, 4)), rng.integers(0, 2, 1000)
    model = honest(n_estimators=30, alpha=1e-6).fit(rows, y)
    own = model.partition_rows_
    bound = risk_bounds(model, rows[own], y[own], sample="test")["held-out bound"]
    assert bound.total < 0.4  # the audit's example: the true error is 0.5
    assert not bound.is_guarantee
    assert "500 of these 500 rows equal, in every column," in bound.failing[0].why
    assert partition_oracles(model, rows[own], y[own]).is_honest is False


@pytest.mark.parametrize("n_trees", [1, 5, 19])
@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.filterwarnings("ignore:These rows were called test rows:UserWarning")
def test_shuffled_rows_of_the_fit_are_known_whatever_the_forest(n_trees, declared):
    model = KPPClassifier("extra-trees", n_estimators=n_trees, alpha=1e-3, random_state=0).fit(X, Y)
    order = np.random.default_rng(0).permutation(len(Y))
    kwargs = {"sample": "test", "independent_duplicates": declared}
    assert not any(b.is_guarantee for b in risk_bounds(model, X[order], Y[order], **kwargs))
    assert "KPP009" in diagnose(model, X[order], Y[order]).codes


@pytest.mark.parametrize("cast", [np.float32, np.float64, "frame"])
def test_a_few_rows_of_the_fit_are_counted_in_any_form(cast):
    model = honest().fit(X[:300], Y[:300])
    rows, y = np.vstack([X[300:500], X[:12]]), np.concatenate([Y[300:500], Y[:12]])
    if cast == "frame":
        rows = pytest.importorskip("pandas").DataFrame(rows).to_numpy(dtype=object)
    else:
        rows = rows.astype(cast)
    bound = risk_bounds(model, rows, y, sample="test")["held-out bound"]
    assert "12 of these 212 rows" in bound.failing[0].why


def test_rows_of_a_single_precision_fit_are_known_in_double():
    model = honest().fit(X[:300].astype(np.float32), Y[:300])
    bound = risk_bounds(model, X[:300], Y[:300], sample="test")["held-out bound"]
    assert "300 of these 300 rows" in bound.failing[0].why


def test_rows_with_other_last_bits_are_known():
    model = honest().fit(X[:300], Y[:300])
    rows = X[:300] * (1 + 1e-15)
    assert (rows != X[:300]).any()
    bound = risk_bounds(model, rows, Y[:300], sample="test")["held-out bound"]
    assert "given to fit" in bound.failing[0].why
    # One column in double precision: some agree in single precision by chance, and are no copies.
    rng = np.random.default_rng(0)
    many = rng.uniform(0.5, 1, size=(60_000, 1))
    assert not among(rng.uniform(0.5, 1, size=(60_000, 1)), row_fingerprints(many)).any()
    assert with_twin(row_fingerprints(many.astype(np.float32))).sum() > 100


def test_frames_with_categories_and_missing_values():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=200),
            "other": rng.normal(size=200).astype(np.float32),
            "kind": pd.Categorical(rng.choice(["a", "b", "c"], 200)),
            "count": pd.array(rng.integers(0, 9, 200), dtype="Int64"),
        }
    )
    frame.loc[::7, "number"] = np.nan
    y = rng.normal(size=200)
    model = KPPRegressor("boosted", n_estimators=3, alpha=1.0, random_state=0)
    model.fit(frame[:150], y[:150])
    other = frame.assign(kind=frame["kind"].cat.set_categories(["c", "b", "a"]))
    for rows in (frame, other):
        known = among(rows, model.row_fingerprints_)
        assert known[:150].all()
        assert known.sum() == 150


def test_canonical_values():
    pd = pytest.importorskip("pandas")
    a = pd.DataFrame({"x": [0.0, np.nan, 2.0], "k": ["u", None, "3"]})
    b = pd.DataFrame({"x": [-0.0, None, 2], "k": pd.Categorical(["u", None, 3])}, dtype=object)
    assert (row_fingerprints(a) == row_fingerprints(b)).all()
    assert len(set(row_fingerprints(a).tolist())) == 3
    assert not with_twin(row_fingerprints(np.array([[1, 2], [2, 1], [1, 1], [2, 2]]))).any()


def test_fingerprints_of_a_table_of_whole_numbers():
    rows = np.random.default_rng(0).integers(0, 4, size=(3000, 5))
    _, place, count = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    assert (with_twin(row_fingerprints(rows)) == (count[place.ravel()] > 1)).all()


def test_whole_numbers_beyond_single_precision_differ():
    rows = np.arange(10**9, 10**9 + 50)[:, None]
    assert not with_twin(row_fingerprints(rows)).any()


# What was fitted, not what parameters say later.


def test_parameters_set_after_the_fit_change_nothing():
    model = KPPClassifier(
        "extra-trees",
        n_estimators=6,
        regime="cross-fit",
        alpha=1e-2,
        class_weight="balanced",
        random_state=0,
    ).fit(X, Y)
    before = [(str(b), b.is_guarantee) for b in risk_bounds(model, X, Y)]
    assert not any(is_guarantee for _, is_guarantee in before)
    model.set_params(
        cv=KFold(5, shuffle=True), class_weight=None, regime="honest", alpha="auto", tol=1.0
    )
    assert [(str(b), b.is_guarantee) for b in risk_bounds(model, X, Y)] == before
    assert model.fit_record_.class_weight == "balanced"


def test_the_intercept_is_that_of_the_fit():
    model = honest().fit(X, Y)
    before = [str(b) for b in risk_bounds(model, X, Y)]
    path = bound_path(model, X, Y).bound
    model.set_params(fit_intercept=False)
    assert [str(b) for b in risk_bounds(model, X, Y)] == before
    assert (bound_path(model, X, Y).bound == path).all()


def test_one_place_decides_for_oracles_and_bounds():
    folds = {"stratified": 5, "random": KFold(5, shuffle=True, random_state=0)}
    for kind, cv in folds.items():
        model = KPPClassifier(
            "extra-trees", n_estimators=5, regime="cross-fit", alpha=1e-2, cv=cv, random_state=0
        )
        model.fit(X, Y)
        assert model.fit_record_.folds == kind
        bound = risk_bounds(model, X, Y)["PAC-Bayes-kl, fold 0"]
        assert bound.is_guarantee == (kind == "random")
        assert partition_oracles(model, X, Y, sample="fit").is_honest == bound.is_guarantee
    model.set_params(class_weight="balanced").fit(X, Y)
    assert partition_oracles(model, X, Y, sample="fit").is_honest is False


class PeekingKFold(KFold):
    """Derived from a splitter that does not look at labels, and might."""


def test_a_derived_splitter_is_not_trusted():
    cv = PeekingKFold(5, shuffle=True, random_state=0)
    model = KPPRegressor("extra-trees", n_estimators=5, regime="cross-fit", alpha=1.0, cv=cv).fit(
        DX, DY
    )
    assert model.fit_record_.folds == "given"
    bound = risk_bounds(model, DX, DY, y_range=(0, 400))["PAC-Bayes-kl, squared loss, fold 0"]
    assert failing(bound) == {"independent rows"}


# Weights that the caller made.


def test_weights_of_the_callers_making_are_trusted_at_best():
    def from_labels(forest, statistics):
        return np.random.default_rng(int(Y.sum())).random(forest.n_nodes) * ~forest.is_leaf

    def of_leaves(forest, statistics):
        return np.random.default_rng(int(Y.sum())).random(forest.n_nodes) * forest.is_leaf

    given = {
        "node_weight": honest(node_weight=from_labels).fit(X, Y),
        "leaf_weight": honest(leaf_weight=of_leaves).fit(X, Y),
        "class_weight": honest(class_weight={0: 1.0, 1: 2.0}).fit(X, Y),
        "sample_weight": honest().fit(X, Y, sample_weight=1.0 + Y),
    }
    for name, model in given.items():
        bound = risk_bounds(model, X, Y)[CENTRE]
        (found,) = [a for a in bound.assumptions if a.name.startswith("representation")]
        assert found.holds is None
        assert f"the caller says that {name} was made without these labels" in found.why
        assert partition_oracles(model, X, Y, sample="fit").is_honest is None
    named = honest(node_weight="uniform", leaf_weight=0.5).fit(X, Y)
    (found,) = [
        a for a in risk_bounds(named, X, Y)[CENTRE].assumptions if a.name.startswith("repr")
    ]
    assert found.holds is True


# Trees that are not independent.


@pytest.mark.parametrize(
    ("forest", "given"),
    [
        ("extra-trees", True),
        (RandomForestRegressor(5, random_state=0), True),
        ("boosted", False),
        (GradientBoostingRegressor(n_estimators=5, random_state=0), False),
        ([("a", RandomForestRegressor(5, random_state=0)), ("b", "boosted")], False),
    ],
)
def test_entrywise_concentration_is_for_independent_trees(forest, given):
    model = KPPRegressor(forest, n_estimators=5, alpha=1.0, random_state=0).fit(DX, DY)
    names = [o.name for o in diagnose(model, DX, DY, sample="train").observables]
    assert ("entrywise_concentration" in names) == given
    assert "half_forest_discrepancy" in names
