"""Forests read from scikit-learn route every row to scikit-learn's own leaf."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from zoo import (
    bagging_models,
    beside_thresholds,
    source_leaves,
    supervised_models,
    unsupervised_models,
)

from kpp import Forest
from kpp.forest.grow import traits_of

MODELS = supervised_models() | unsupervised_models() | bagging_models()
# GradientBoosting refuses NaN; the others learn where to send it.
TAKE_NAN = [name for name in MODELS if "gradient boosting" not in name]


def made_data(name, n_rows=300, with_nan=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    X[:, 1] = rng.integers(0, 4, n_rows)
    score = X[:, 0] + (X[:, 1] > 1) + 0.3 * rng.normal(size=n_rows)
    y = score if "numbers" in name else np.digitize(score, [-0.5, 0.5, 1.2])
    if with_nan:
        X[rng.random(X.shape) < 0.15] = np.nan
    return X, y


@pytest.mark.parametrize("name", MODELS)
def test_apply_is_the_librarys_own_leaf(name):
    X, y = made_data(name)
    model = MODELS[name].fit(X, y)
    forest = Forest.from_model(model)
    rows = np.concatenate([X, beside_thresholds(forest, X)])
    assert np.array_equal(
        forest.source_leaf[forest.apply(rows)], source_leaves(model, rows.astype(np.float32))
    )


@pytest.mark.parametrize("name", TAKE_NAN)
def test_apply_is_the_librarys_own_leaf_for_missing_values(name):
    X, y = made_data(name, with_nan=True)
    model = MODELS[name].fit(X, y)
    forest = Forest.from_model(model)
    assert np.array_equal(
        forest.source_leaf[forest.apply(X)], source_leaves(model, X.astype(np.float32))
    )


def test_missing_values_go_both_ways():
    X, y = made_data("numbers", with_nan=True)
    forest = Forest.from_model(RandomForestRegressor(20, random_state=0).fit(X, y))
    directions = forest.missing_left[~forest.is_leaf]
    assert directions.any()
    assert not directions.all()


def test_missing_values_that_training_never_saw():
    X, y = made_data("numbers")
    model = RandomForestRegressor(10, random_state=0).fit(X, y)
    X[::3, 0] = np.nan
    forest = Forest.from_model(model)
    assert np.array_equal(forest.source_leaf[forest.apply(X)], model.apply(X))


def test_rows_are_compared_in_single_precision():
    X, y = made_data("numbers")
    model = RandomForestRegressor(10, random_state=0).fit(X, y)
    forest = Forest.from_model(model)
    assert forest.dtype == np.float32
    # One double-precision step beside a threshold, on the side from which rounding to single
    # precision crosses it: the two precisions send such a row different ways.
    n_different = 0
    for root in forest.roots:
        threshold = forest.threshold[root]
        towards = np.inf if np.float32(threshold) < threshold else -np.inf
        value = np.nextafter(threshold, towards)
        n_different += (value <= threshold) != (np.float32(value) <= threshold)
        row = X[:1].copy()
        row[0, forest.feature[root]] = value
        assert np.array_equal(forest.source_leaf[forest.apply(row)], model.apply(row))
    assert n_different > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_apply_on_very_many_rows_beside_thresholds(name):
    X, y = made_data(name, n_rows=3000)
    model = MODELS[name].fit(X, y)
    forest = Forest.from_model(model)
    rows = beside_thresholds(forest, X, n_rows=200_000, seed=1)
    assert np.array_equal(
        forest.source_leaf[forest.apply(rows, n_jobs=2)],
        source_leaves(model, rows.astype(np.float32)),
    )


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39])
def test_what_the_library_refuses_is_refused(value):
    X, y = made_data("numbers")
    forest = Forest.from_model(RandomForestRegressor(3, random_state=0).fit(X, y))
    X[0, 0] = value
    with pytest.raises(ValueError):
        forest.apply(X)


def test_missing_values_are_refused_where_the_library_refuses_them():
    X, y = made_data("numbers")
    model = GradientBoostingRegressor(n_estimators=3).fit(X, y)
    X[0, 0] = np.nan
    with pytest.raises(ValueError):
        model.predict(X)
    with pytest.raises(ValueError):
        Forest.from_model(model).apply(X)


def test_sources_that_hold_a_forest():
    X, y = made_data("numbers")
    model = RandomForestRegressor(3, random_state=0).fit(X, y)
    forest = Forest.from_model(model)
    assert Forest.from_model(forest) is forest
    assert np.array_equal(
        Forest.from_model(FrozenEstimator(model)).threshold, forest.threshold, equal_nan=True
    )
    assert forest.source == "RandomForestRegressor"


@pytest.mark.parametrize(
    "model",
    [
        Ridge(),
        make_pipeline(RandomForestRegressor(2)),
        VotingRegressor([("forest", RandomForestRegressor(2))]),
        KMeans(2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_other_models_are_refused_with_a_list(model):
    X, y = made_data("classes")
    model.fit(X, y)
    with pytest.raises(
        TypeError, match=r"Supported: .*RandomForest.*AdaBoost.*HistGradientBoosting.*CatBoost"
    ):
        Forest.from_model(model)


@pytest.mark.parametrize("not_a_model", [None, 3, "forest", RandomForestClassifier])
def test_what_is_no_model_is_refused(not_a_model):
    with pytest.raises(TypeError, match="Supported"):
        Forest.from_model(not_a_model)


@pytest.mark.parametrize(
    ("member", "told"),
    [
        (RandomForestRegressor(2), "which are ensembles themselves"),
        (GradientBoostingRegressor(n_estimators=2), "which are boosters themselves"),
        (AdaBoostRegressor(n_estimators=2), "which are boosters themselves"),
        (Ridge(), "DecisionTree"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("ensemble", [BaggingRegressor, AdaBoostRegressor])
def test_ensembles_of_anything_but_single_trees_are_refused(ensemble, member, told):
    X, y = made_data("numbers")
    model = ensemble(member, n_estimators=2).fit(X, y)
    named = f"{ensemble.__name__} of {type(member).__name__}: only .*of single decision trees"
    with pytest.raises(TypeError, match=f"{named}.*{told}"):
        Forest.from_model(model)


@pytest.mark.parametrize("labels", ["ab", "bca"])
@pytest.mark.parametrize("member", [DecisionTreeClassifier(max_depth=3), ExtraTreeClassifier()])
def test_adaboost_of_classes(labels, member):
    X, y = made_data("numbers")
    y = np.array(list(labels))[np.digitize(y, [0.0, 1.0][: len(labels) - 1])]
    if isinstance(member, ExtraTreeClassifier):
        member.set_params(max_leaf_nodes=4)
    model = AdaBoostClassifier(member, n_estimators=12, learning_rate=0.7, random_state=0)
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    model.fit(X, y, sample_weight=weight)
    forest = Forest.from_model(model)
    rows = np.concatenate([X, beside_thresholds(forest, X)])
    leaves = np.column_stack([tree.apply(rows) for tree in model.estimators_])
    np.testing.assert_array_equal(forest.source_leaf[forest.apply(rows)], leaves)
    np.testing.assert_allclose(
        forest.bare_scores(rows),
        model.decision_function(rows).reshape(len(rows), -1),
        rtol=1e-13,
        atol=1e-13,
    )
    assert forest.bare.classes.tolist() == sorted(labels)
    assert forest.statistics is None  # each tree has seen rows of other weights
    with pytest.raises(ValueError):
        forest.apply(np.full((1, 4), np.nan))


def test_adaboost_that_stops_at_a_perfect_tree():
    X, y = made_data("classes")
    model = AdaBoostClassifier(DecisionTreeClassifier(), n_estimators=5).fit(X, y)
    assert len(model.estimators_) == 1
    scores = Forest.from_model(model).bare_scores(X)
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-13, atol=1e-13)


def test_adaboost_of_one_class_and_of_numbers_have_no_scores():
    X, y = made_data("numbers")
    model = AdaBoostRegressor(n_estimators=5, random_state=0).fit(X, y)
    forest = Forest.from_model(model)
    leaves = np.column_stack([tree.apply(X) for tree in model.estimators_])
    np.testing.assert_array_equal(forest.source_leaf[forest.apply(X)], leaves)
    assert forest.bare is None  # a weighted median
    assert Forest.from_model(AdaBoostClassifier().fit(X, np.zeros(len(y)))).bare is None


def test_traits_of_adaboost():
    traits = traits_of(AdaBoostClassifier())
    assert not traits.independent_trees
    assert not traits.splits_into_groups
    assert traits.combines == "sum"
    assert traits.one_target


@pytest.mark.parametrize("model", [RandomForestClassifier(), BaggingClassifier()])
def test_unfitted_model(model):
    with pytest.raises(NotFittedError):
        Forest.from_model(model)


def test_trees_of_another_library_are_refused():
    X, y = made_data("numbers")
    model = RandomForestRegressor(2).fit(X, y)

    class ObliqueTree:
        feature = threshold = None

    model.estimators_[1].tree_ = ObliqueTree()
    with pytest.raises(TypeError, match="ObliqueTree"):
        Forest.from_model(model)


def test_feature_names_are_kept():
    pd = pytest.importorskip("pandas")
    X, y = made_data("numbers")
    frame = pd.DataFrame(X, columns=list("abcd"))
    forest = Forest.from_model(RandomForestRegressor(3, random_state=0).fit(frame, y))
    assert forest.feature_names == ("a", "b", "c", "d")
    assert np.array_equal(forest.apply(frame), forest.apply(X))
