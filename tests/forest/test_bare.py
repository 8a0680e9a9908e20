"""The bare ensemble's own prediction, against the library's."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor

from kpp import Forest
from kpp.forest import Tree
from kpp.forest.bare import BareScores, means_below
from kpp.forest.join import as_float64, join_forests

# Sums of at most a few hundred numbers, in another order than the library's.
CLOSE = {"rtol": 1e-13, "atol": 1e-13}


def made_data(task, *, n_rows=250, missing=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    X[:, 1] = rng.integers(0, 4, n_rows)
    score = 5 + X[:, 0] + (X[:, 1] > 1) + 0.3 * rng.normal(size=n_rows)
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    if task == "outputs":
        return X, np.column_stack([score, -(score**2), X[:, 1] == 2]).astype(float)
    cuts = {"numbers": None, "two": [5.5], "many": [4.5, 5.5, 6.2]}[task]
    return X, score if cuts is None else np.array(list("dabc"))[np.digitize(score, cuts)]


def library_scores(model, X):
    """What the library's own scores are: shares, decision function or numbers."""
    if hasattr(model, "decision_function"):
        out = model.decision_function(X)
    elif hasattr(model, "predict_proba"):
        out = model.predict_proba(X)
    else:
        out = model.predict(X)
    return out.reshape(len(X), -1)


AVERAGING = {
    "random forest": (RandomForestRegressor, RandomForestClassifier),
    "extra trees": (ExtraTreesRegressor, ExtraTreesClassifier),
    "bagging": (BaggingRegressor, BaggingClassifier),
}
BOOSTERS = {
    "gradient boosting": (GradientBoostingRegressor, GradientBoostingClassifier),
    "hist": (HistGradientBoostingRegressor, HistGradientBoostingClassifier),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("task", ["numbers", "outputs", "two", "many"])
@pytest.mark.parametrize("family", [*AVERAGING, "tree", *BOOSTERS])
def test_scores_are_the_librarys(family, task, missing, weighted):
    if family in BOOSTERS and task == "outputs":
        pytest.skip("one target only")
    if family == "gradient boosting" and missing:
        pytest.skip("no missing values")
    classes = task in ("two", "many")
    if family == "tree":
        tree = DecisionTreeClassifier if classes else DecisionTreeRegressor
        model = tree(max_depth=4, random_state=0)
    elif family == "hist":
        model = BOOSTERS[family][classes](max_iter=13, learning_rate=0.3, random_state=0)
    else:
        kinds = (AVERAGING | BOOSTERS)[family]
        model = kinds[classes](n_estimators=13, random_state=0)
    X, y = made_data(task, missing=missing)
    weight = np.random.default_rng(1).integers(0, 4, len(y)) if weighted else None
    model.fit(X, y, sample_weight=weight)
    forest = Forest.from_model(model)
    new = made_data(task, missing=missing, seed=1)[0]
    for rows in (X, new):
        np.testing.assert_allclose(forest.bare_scores(rows), library_scores(model, rows), **CLOSE)
    assert forest.bare.combines == ("sum" if family in BOOSTERS else "mean")
    assert np.array_equal(forest.bare.classes, model.classes_) if classes else True
    if family not in BOOSTERS:
        assert forest.bare.values is None  # no second copy of the statistics


@pytest.mark.parametrize(
    ("model", "task"),
    [
        (RandomForestRegressor(9, criterion="absolute_error", max_depth=4), "numbers"),
        (RandomForestRegressor(9, criterion="absolute_error", max_depth=4), "outputs"),
        (RandomForestRegressor(9, criterion="poisson"), "numbers"),
        (ExtraTreesRegressor(9, monotonic_cst=[1, 0, -1, 0]), "numbers"),
        (RandomForestClassifier(9, monotonic_cst=[1, 0, -1, 0]), "two"),
        (RandomForestClassifier(9, class_weight="balanced", criterion="entropy"), "many"),
        (ExtraTreesClassifier(9, ccp_alpha=0.01), "many"),
        (BaggingRegressor(DecisionTreeRegressor(criterion="absolute_error"), 5), "numbers"),
        (BaggingRegressor(ExtraTreeRegressor(), 9, max_features=2), "numbers"),
        (GradientBoostingRegressor(n_estimators=9, loss="huber", subsample=0.5), "numbers"),
        (GradientBoostingRegressor(n_estimators=9, loss="quantile", alpha=0.2), "numbers"),
        (GradientBoostingRegressor(n_estimators=9, loss="absolute_error"), "numbers"),
        (GradientBoostingRegressor(n_estimators=9, init="zero"), "numbers"),
        (GradientBoostingClassifier(n_estimators=9, loss="exponential"), "two"),
        (GradientBoostingClassifier(n_estimators=9, init="zero"), "many"),
        (GradientBoostingClassifier(n_estimators=50, n_iter_no_change=2), "many"),
        (HistGradientBoostingRegressor(max_iter=9, loss="quantile", quantile=0.3), "numbers"),
        (HistGradientBoostingClassifier(max_iter=50, early_stopping=True), "many"),
    ],
)
def test_scores_are_the_librarys_for_other_losses_and_limits(model, task):
    X, y = made_data(task)
    model.set_params(random_state=0).fit(X, y)
    forest = Forest.from_model(FrozenEstimator(model))
    np.testing.assert_allclose(forest.bare_scores(X), library_scores(model, X), **CLOSE)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_a_log_link_stays_outside(loss):
    X, y = made_data("numbers")
    model = HistGradientBoostingRegressor(max_iter=9, loss=loss).fit(X, np.abs(y) + 0.1)
    scores = Forest.from_model(model).bare_scores(X)[:, 0]
    np.testing.assert_allclose(np.exp(scores), model.predict(X), rtol=1e-12)


def test_categories():
    pd = pytest.importorskip("pandas")
    X, y = made_data("many", missing=True)
    frame = pd.DataFrame(X, columns=list("stuv"))
    colour = np.random.default_rng(0).choice(["red", "green", None], len(y)).astype(object)
    frame.insert(1, "colour", pd.Categorical(colour))
    model = HistGradientBoostingClassifier(max_iter=9, categorical_features="from_dtype")
    forest = Forest.from_model(model.fit(frame, y))
    assert len(forest.category_bits)
    expected = model.decision_function(frame)
    np.testing.assert_allclose(forest.bare_scores(frame), expected, **CLOSE)
    # More categories, in another order: the same trees and values.
    more = np.array(["blue", *forest.categories[1][::-1]], dtype=object)
    other = forest.with_categories({1: more})
    np.testing.assert_allclose(other.bare_scores(frame), expected, **CLOSE)


def test_names_of_columns_bring_no_warning(recwarn):
    pd = pytest.importorskip("pandas")
    X, y = made_data("numbers")
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = GradientBoostingRegressor(n_estimators=3).fit(frame, y)
    scores = Forest.from_model(model).bare_scores(frame)[:, 0]
    assert not recwarn.list
    np.testing.assert_allclose(scores, model.predict(frame), **CLOSE)


class WithoutWeights(DecisionTreeClassifier):
    """A bagging draws rows for a tree that takes no weights, and some classes may be left out."""

    def fit(self, X, y):
        return super().fit(X, y)


def test_a_bagged_tree_may_lack_a_class():
    X, y = made_data("many")
    y[:3] = "z"
    y[3:] = np.where(y[3:] == "d", "a", y[3:])
    model = BaggingClassifier(WithoutWeights(), 15, max_samples=0.1, random_state=0)
    model.fit(X, y)
    assert len({len(member.classes_) for member in model.estimators_}) > 1
    scores = Forest.from_model(model).bare_scores(X)
    np.testing.assert_allclose(scores, model.predict_proba(X), **CLOSE)


@pytest.mark.parametrize(
    ("model", "task"),
    [
        (IsolationForest(n_estimators=3), "numbers"),
        (RandomTreesEmbedding(3), "numbers"),
        (BaggingClassifier(DecisionTreeRegressor(), 3), "codes"),
        (BaggingRegressor(DecisionTreeClassifier(), 3), "codes"),
        (GradientBoostingRegressor(n_estimators=3, init=LinearRegression()), "numbers"),
        (GradientBoostingRegressor(n_estimators=3, init=DummyRegressor()), "numbers"),
        (RandomForestClassifier(3), "two columns of classes"),
    ],
)
def test_no_scores_rather_than_wrong_ones(model, task):
    X, y = made_data("numbers")
    if task == "codes":
        y = (y > 5).astype(int)
    if task == "two columns of classes":
        y = np.column_stack([y > 5, y > 4.5])
    forest = Forest.from_model(model.fit(X, y))
    assert forest.bare is None
    with pytest.raises(ValueError, match="does not know what its ensemble predicts"):
        forest.bare_scores(X)


@pytest.mark.parametrize(
    ("model", "task"),
    [
        (RandomForestRegressor(5, random_state=0), "outputs"),
        (RandomForestClassifier(5, random_state=0), "many"),
        (GradientBoostingClassifier(n_estimators=4, random_state=0), "many"),
        (HistGradientBoostingClassifier(max_iter=4), "many"),
    ],
)
def test_inner_nodes_are_means_over_the_rows_of_training(model, task):
    X, y = made_data(task)
    if hasattr(model, "bootstrap"):
        model.set_params(bootstrap=False)  # so that the rows of training are those of X
    forest = Forest.from_model(model.fit(X, y))
    values = forest.bare.node_values(forest.statistics)
    leaf_ids = forest.apply(X)
    for tree, root in enumerate(forest.roots):
        np.testing.assert_allclose(
            values[:, root], values[:, leaf_ids[:, tree]].mean(axis=1), rtol=1e-10, atol=1e-12
        )
    inner = np.flatnonzero(~forest.is_leaf)
    left = values[:, forest.left[inner]]
    right = values[:, forest.left[inner] + 1]
    tolerance = 1e-12 * np.abs(values).max()
    assert (values[:, inner] >= np.minimum(left, right) - tolerance).all()
    assert (values[:, inner] <= np.maximum(left, right) + tolerance).all()


def test_means_below_in_any_order_of_nodes():
    left = [4, -1, -1, -1, 3]
    right = [1, -1, -1, -1, 2]
    value = np.array([np.nan, 10.0, 1.0, 4.0, np.nan])
    assert means_below(left, right, value, [0, 3, 1, 2, 0]).tolist() == [6.5, 10, 1, 4, 3]
    assert means_below([-1], [-1], np.array([7.0]), [3]).tolist() == [7.0]


def test_means_below_of_several_trees_and_scores():
    # Two trees one after the other; nobody is in the second.
    left, right = [1, -1, -1, -1, 6, -1, 3], [2, -1, -1, -1, 5, -1, 7]
    left, right = [*left, -1], [*right, -1]
    value = np.array(
        [[0, 0], [1, 10], [4, 40], [2, 4], [0, 0], [9, 9], [0, 0], [6, 0]], dtype=float
    )
    means = means_below(left, right, value, [0, 2, 1, 0, 0, 0, 0, 0])
    assert means[[0, 6, 4]].tolist() == [[2, 20], [4, 2], [6.5, 5.5]]
    one = means_below(left, right, value[:, 1], [0, 2, 1, 0, 0, 0, 0, 0])
    assert one.tolist() == means[:, 1].tolist()


def test_some_trees_of_a_mean_predict_their_mean():
    X, y = made_data("numbers")
    for criterion in ("squared_error", "absolute_error"):
        model = RandomForestRegressor(7, criterion=criterion, max_depth=4).fit(X, y)
        forest = Forest.from_model(model)
        for trees in ([5, 1], slice(2, 5), slice(None)):
            members = np.array(model.estimators_, dtype=object)[trees]
            expected = np.mean([member.predict(X) for member in members], axis=0)
            part = forest.take_trees(trees)
            np.testing.assert_allclose(part.bare_scores(X)[:, 0], expected, **CLOSE)


def test_some_rounds_of_a_booster_predict_nothing():
    X, y = made_data("many")
    model = GradientBoostingClassifier(n_estimators=3).fit(X, y)
    forest = Forest.from_model(model)
    assert forest.take_trees(slice(0, 8)).bare is None
    assert forest.take_trees([0] * forest.n_trees).bare is None
    expected = model.decision_function(X)
    for trees in (slice(None), np.random.default_rng(0).permutation(forest.n_trees)):
        np.testing.assert_allclose(forest.take_trees(trees).bare_scores(X), expected, **CLOSE)


@pytest.mark.parametrize("release", [False, True])
def test_joined_ensembles_predict_the_mean(release):
    X, y = made_data("many")
    halves = [np.arange(len(y)) % 2 == half for half in range(2)]

    def grown(*models):
        return [m.fit(X[half], y[half]) for m, half in zip(models, halves, strict=True)]

    def joined(models):
        return Forest.concatenate([Forest.from_model(m) for m in models], release=release)

    forests = grown(ExtraTreesClassifier(3), ExtraTreesClassifier(5))
    expected = (3 * forests[0].predict_proba(X) + 5 * forests[1].predict_proba(X)) / 8
    both = joined(forests)
    assert both.bare.values is None
    np.testing.assert_allclose(both.bare_scores(X), expected, **CLOSE)
    boosters = grown(*(HistGradientBoostingClassifier(max_iter=k) for k in (3, 6)))
    expected = np.mean([booster.decision_function(X) for booster in boosters], axis=0)
    np.testing.assert_allclose(joined(boosters).bare_scores(X), expected, **CLOSE)
    by_median = [
        RandomForestRegressor(k, criterion="absolute_error", max_depth=3).fit(X, X[:, 0])
        for k in (2, 4)
    ]
    expected = (by_median[0].predict(X) + 2 * by_median[1].predict(X)) / 3
    np.testing.assert_allclose(joined(by_median).bare_scores(X)[:, 0], expected, **CLOSE)


def test_a_class_that_one_half_lacks():
    X, y = made_data("many")
    kept = y != "a"
    few, all_ = ExtraTreesClassifier(3).fit(X[kept], y[kept]), ExtraTreesClassifier(3).fit(X, y)
    both = Forest.concatenate([Forest.from_model(few), Forest.from_model(all_)])
    assert both.bare.classes.tolist() == list("abcd")
    expected = all_.predict_proba(X) / 2
    expected[:, 1:] += few.predict_proba(X) / 2
    np.testing.assert_allclose(both.bare_scores(X), expected, **CLOSE)


def test_what_has_different_scores_is_not_joined():
    X, y = made_data("many")
    other = np.where(y == "a", "e", y)
    first = Forest.from_model(GradientBoostingClassifier(n_estimators=2).fit(X, y))
    second = Forest.from_model(GradientBoostingClassifier(n_estimators=2).fit(X, other))
    assert Forest.concatenate([first, second]).bare is None
    assert Forest.concatenate([first, first]).bare is not None
    assert Forest.concatenate([first, replace(first, bare=None)]).bare is None
    mean = Forest.from_model(RandomForestClassifier(2).fit(X, y))
    assert Forest.concatenate([first, mean]).bare is None
    assert join_forests([first, first]).bare is None
    assert join_forests([first]).bare is first.bare


@pytest.mark.parametrize(
    "model", [RandomForestClassifier(3), GradientBoostingClassifier(n_estimators=3)]
)
def test_copies_keep_the_scores(model):
    X, y = made_data("many")
    forest = Forest.from_model(model.fit(X, y))
    expected = forest.bare_scores(X)
    again = pickle.loads(pickle.dumps(forest))
    assert np.array_equal(again.bare_scores(X), expected)
    assert np.array_equal(as_float64(forest).bare_scores(X), expected)
    for array in (again.bare.base, again.bare.values, again.bare.tree_score):
        assert array is None or not array.flags.writeable


def test_numbers_that_do_not_fit_are_refused():
    stump = Tree(left=[1, -1, -1], right=[2, -1, -1], feature=[0] * 3, threshold=[0.0] * 3)
    forest = Forest.from_trees([stump], n_features=1)
    fits = BareScores([1.0], "sum", [[0.0, -1.0, 2.0]])
    assert replace(forest, bare=fits).bare_scores([[0.0], [1.0]]).tolist() == [[0.0], [3.0]]
    with pytest.raises(ValueError, match="combines must be 'mean' or 'sum'"):
        BareScores([0.0], "max", [[0.0, 1.0, 2.0]])
    for wrong, message in [
        (BareScores([0.0], "sum", [[0.0, 1.0]]), r"values must have shape \(1, 3\)"),
        (BareScores([0.0, 0.0], "sum", [[0.0] * 3]), r"values must have shape \(2, 3\)"),
        (BareScores([0.0] * 2, "sum", [[0.0] * 3], [2]), "tree_score must hold the number"),
        (BareScores([0.0] * 2, "sum", [[0.0] * 3], [0, 1]), "tree_score must hold the number"),
        (BareScores([0.0], "mean"), "need values of their own, or statistics"),
    ]:
        with pytest.raises(ValueError, match=message):
            replace(forest, bare=wrong)
