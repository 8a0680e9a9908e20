"""Forests read from CatBoost have its own leaves and its raw scores."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from zoo import beside_thresholds

import kpp
from kpp import Forest, KPPClassifier, KPPRegressor, explain_rules
from kpp.forest.coded import CodedRows
from kpp.forest.steps import bare_steps

catboost = pytest.importorskip("catboost")

POLICIES = ("SymmetricTree", "Depthwise", "Lossguide")
QUIET = {"verbose": 0, "allow_writing_files": False, "thread_count": 1, "random_seed": 0}
SMALL = {"iterations": 10, "depth": 4} | QUIET
# Sums of at most a few dozen numbers, in the library's order; a scale may round once more.
CLOSE = {"rtol": 1e-13, "atol": 1e-13}
WITH_TAGS = pytest.mark.skipif(
    not hasattr(catboost.CatBoostRegressor, "__sklearn_tags__"),
    reason="scikit-learn asks for tags, which this version of CatBoost does not have",
)
OLD_MODELS = Path(__file__).parent / "models_of_other_versions"


def regressor(**parameters):
    return catboost.CatBoostRegressor(**(SMALL | parameters))


def classifier(**parameters):
    return catboost.CatBoostClassifier(**(SMALL | parameters))


def numerical_data(n_rows=300, missing=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    X[:, 1] = rng.integers(0, 4, n_rows)
    score = X[:, 0] * X[:, 2] + (X[:, 1] > 1) + 0.1 * rng.normal(size=n_rows)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
        score += 2 * np.isnan(X[:, 0]) - np.isnan(X[:, 2])
    return X, score


def target(task, score, X):
    if task == "numbers":
        return score
    if task == "outputs":
        return np.column_stack([score, -(score**2), X[:, 3] > 0])
    return np.array(list("dabc"))[
        np.digitize(score, {"two": [0.5], "many": [-0.2, 0.5, 1.2]}[task])
    ]


def model_for(task, **parameters):
    if task in ("two", "many"):
        return classifier(**parameters)
    return regressor(**({"loss_function": "MultiRMSE"} if task == "outputs" else {}), **parameters)


def odd_rows(forest, X, n_rows=600):
    """Values at borders, beside them, between two float32, missing, infinite, huge and tiny."""
    rng = np.random.default_rng(1)
    with np.errstate(over="ignore"):  # beside the largest number there is no other
        rows = beside_thresholds(forest, X, n_rows)
        splits = np.flatnonzero(forest.split_kind == 1)
        for i, v in enumerate(rng.choice(splits, n_rows // 2) if len(splits) else []):
            border = np.float32(forest.threshold[v])
            beside = np.nextafter(border, np.float32([-np.inf, np.inf][i % 2]))
            middle = (float(border) + float(beside)) / 2
            rows[i, forest.feature[v]] = np.nextafter(middle, [border, middle, beside][i % 3])
    odd = [np.nan, np.inf, -np.inf, 1e300, -1e300, 3.4028234663852886e38, 1e-45, -1e-45, -0.0, 0.0]
    chosen = rng.random(rows.shape) < 0.15
    rows[chosen] = rng.choice(odd, chosen.sum())
    return rows


def assert_same(model, forest, rows):
    """The library's leaves, and its raw scores."""
    np.testing.assert_array_equal(
        forest.source_leaf[forest.apply(rows)], model.calc_leaf_indexes(rows)
    )
    raw = model.predict(rows, prediction_type="RawFormulaVal").reshape(len(rows), -1)
    np.testing.assert_allclose(forest.bare_scores(rows), raw, **CLOSE)


@pytest.mark.parametrize("nan_mode", ["Min", "Max", "Forbidden"])
@pytest.mark.parametrize("task", ["numbers", "two", "many", "outputs"])
@pytest.mark.parametrize("policy", POLICIES)
def test_leaves_and_scores_are_the_librarys(policy, task, nan_mode):
    X, score = numerical_data(missing=nan_mode != "Forbidden")
    y = target(task, score, X)
    model = model_for(task, grow_policy=policy, nan_mode=nan_mode).fit(X, y)
    forest = Forest.from_model(model)
    assert forest.n_trees == model.tree_count_ == 10
    assert forest.dtype == np.float32
    assert_same(model, forest, odd_rows(forest, X))
    assert_same(model, forest, X.astype(np.float32))
    if task in ("two", "many"):
        assert forest.bare.classes.tolist() == model.classes_.tolist()
    else:
        assert forest.bare.classes is None


def test_missing_values_go_where_the_mode_says_and_columns_differ():
    X, score = numerical_data(missing=True)
    X[:, 3] = np.random.default_rng(2).normal(size=len(X))  # a column that never misses
    y = score + X[:, 3]
    for mode, left in [("Min", True), ("Max", False)]:
        forest = Forest.from_model(regressor(nan_mode=mode).fit(X, y))
        splits = forest.split_kind == 1
        assert (forest.missing_left[splits & (forest.feature != 3)] == left).all()
        assert (splits & (forest.feature == 3)).any()
        assert forest.missing_left[splits & (forest.feature == 3)].all()


def test_rows_are_compared_in_single_precision():
    X, y = numerical_data()
    model = regressor().fit(X, y)
    forest = Forest.from_model(model)
    # A number above a border that single precision rounds to it goes left.
    root = int(forest.roots[0])
    border, row = forest.threshold[root], X[:1].copy()
    row[0, forest.feature[root]] = np.nextafter(border, np.inf)
    assert forest.path_sums(np.arange(forest.n_nodes) == forest.left[root])[forest.apply(row)[0, 0]]
    assert_same(model, forest, row)


def test_numbers_below_the_normal_ones():
    X, y = numerical_data()
    X = (X * 1e-41).astype(np.float32)
    model = regressor().fit(X, y)
    forest = Forest.from_model(model)
    assert (np.abs(forest.threshold[forest.split_kind == 1]) < np.finfo(np.float32).tiny).all()
    assert_same(model, forest, odd_rows(forest, X))


def test_the_split_at_a_level_is_a_bit_of_the_leaf():
    X, y = numerical_data()
    model = regressor(iterations=1, depth=3).fit(X, y)
    forest = Forest.from_model(model)
    assert forest.n_nodes == 15
    passed = np.zeros((len(X), 3), dtype=bool)
    for level, v in enumerate((0, 1, 3)):
        passed[:, level] = X[:, forest.feature[v]].astype(np.float32) > forest.threshold[v]
    leaf = forest.source_leaf[forest.apply(X)][:, 0]
    np.testing.assert_array_equal(leaf, passed @ np.array([1, 2, 4]))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("saved_as", ["cbm", "json"])
def test_models_from_files(tmp_path, policy, saved_as):
    X, score = numerical_data(missing=True)
    model = classifier(grow_policy=policy).fit(X, target("many", score, X))
    path = str(tmp_path / "model")
    model.save_model(path, format=saved_as)
    for kind in (catboost.CatBoost, catboost.CatBoostClassifier):
        loaded = kind().load_model(path, format=saved_as)
        forest = Forest.from_model(loaded)
        assert_same(loaded, forest, odd_rows(forest, X))
        assert forest.bare.classes.tolist() == list("abcd")
    # Loaded from JSON, CatBoost numbers the leaves of such trees otherwise.
    same = np.array_equal(model.calc_leaf_indexes(X), loaded.calc_leaf_indexes(X))
    assert same == (saved_as == "cbm" or policy == "SymmetricTree")


def test_a_model_without_weights_of_leaves(tmp_path):
    X, y = numerical_data()
    path = tmp_path / "model.json"
    regressor(iterations=2).fit(X, y).save_model(str(path), format="json")
    dump = json.loads(path.read_text())
    for tree in dump["oblivious_trees"]:
        del tree["leaf_weights"]
    path.write_text(json.dumps(dump))
    model = catboost.CatBoost().load_model(str(path), format="json")
    forest = Forest.from_model(model)
    assert_same(model, forest, X)
    leaves = forest.is_leaf & (forest.tree_of_node == 0)
    values = forest.bare.values[0]
    np.testing.assert_allclose(values[0], values[leaves].mean(), rtol=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_inner_nodes_are_means_over_the_weights_of_training(policy):
    X, y = numerical_data()
    weight = np.random.default_rng(3).integers(0, 4, len(y)).astype(float)
    model = regressor(grow_policy=policy, loss_function="MultiRMSE")
    model.fit(X, np.column_stack([y, -y]), sample_weight=weight)
    forest = Forest.from_model(model)
    values, leaves = forest.bare.values, forest.apply(X)
    assert np.isfinite(values).all()  # also above leaves without rows
    for tree, root in enumerate(forest.roots):
        expected = np.average(values[:, leaves[:, tree]], weights=weight, axis=1)
        np.testing.assert_allclose(values[:, root], expected, rtol=1e-10, atol=1e-12)


def test_trees_that_are_a_leaf():
    X, y = numerical_data()
    for model in (regressor(depth=0), regressor(grow_policy="Depthwise", min_data_in_leaf=9999)):
        forest = Forest.from_model(model.fit(X, y))
        assert forest.n_nodes == forest.n_trees == 10
        assert_same(model, forest, X)


def test_trees_of_different_depths_and_unreachable_leaves():
    X, y = numerical_data(n_rows=40)
    X = X[:, 1:2]  # four values: a tree of depth 6 asks for some borders twice
    model = regressor(depth=6).fit(X, y)
    forest = Forest.from_model(model)
    assert len(np.unique(np.diff(forest.tree_offsets))) > 1 or forest.n_nodes > 10 * 15
    assert_same(model, forest, np.linspace(-1, 4, 50)[:, None])


@pytest.mark.parametrize(
    "loss",
    [
        *("MAE", "Quantile:alpha=0.2", "Poisson", "Tweedie:variance_power=1.5", "Huber:delta=1"),
        *("RMSEWithUncertainty", "MultiQuantile:alpha=0.1,0.9", "MAPE", "LogCosh"),
    ],
)
def test_other_losses_of_numbers(loss):
    X, y = numerical_data()
    model = regressor(loss_function=loss).fit(X, np.abs(y) + 0.1)
    forest = Forest.from_model(model)
    assert_same(model, forest, odd_rows(forest, X))
    assert forest.bare.classes is None


def test_a_log_link_stays_outside():
    X, y = numerical_data()
    model = regressor(loss_function="Poisson").fit(X, np.abs(y))
    scores = Forest.from_model(model).bare_scores(X)[:, 0]
    np.testing.assert_allclose(np.exp(scores), model.predict(X), rtol=1e-12)


class Squares:
    """A loss of the user's own."""

    def calc_ders_range(self, approxes, targets, weights):
        # By number: CatBoost compiles this, and its compiler does not know `zip(strict=...)`.
        return [(targets[i] - approxes[i], -1.0) for i in range(len(targets))]


def test_a_loss_of_ones_own():
    X, y = numerical_data()
    model = regressor(loss_function=Squares(), eval_metric="RMSE").fit(X, y)
    assert_same(model, Forest.from_model(model), X)


def test_scale_and_bias():
    X, y = numerical_data()
    model = regressor().fit(X, y + 100)
    scale, bias = model.get_scale_and_bias()
    assert scale == 1
    assert abs(bias) > 90  # boost_from_average
    assert_same(model, Forest.from_model(model), X)
    model.set_scale_and_bias(0.3, -7.5)
    forest = Forest.from_model(model)
    assert forest.bare.base.tolist() == [-7.5]
    assert_same(model, forest, X)


@pytest.mark.parametrize("policy", POLICIES)
def test_sums_of_models(policy):
    X, y = numerical_data()
    first = regressor(grow_policy=policy).fit(X, y)
    second = regressor(grow_policy=policy, random_seed=1).fit(X, -y)
    both = catboost.sum_models([first, second], weights=[0.25, 2.0])
    forest = Forest.from_model(both)
    assert forest.n_trees == 20
    assert_same(both, forest, odd_rows(forest, X))


def test_the_best_iteration():
    X, y = numerical_data()
    rng = np.random.default_rng(4)
    noise = y + 3 * rng.normal(size=len(y))
    unseen = numerical_data(seed=1)
    stopped = regressor(iterations=100, learning_rate=0.3, early_stopping_rounds=5)
    stopped.fit(X, noise, eval_set=unseen)
    assert stopped.tree_count_ < 100
    forest = Forest.from_model(stopped)
    assert forest.n_trees == stopped.best_iteration_ + 1
    assert_same(stopped, forest, X)
    # Kept on purpose: CatBoost predicts with all of them.
    whole = regressor(iterations=30, learning_rate=0.3, use_best_model=False)
    whole.fit(X, noise, eval_set=unseen)
    assert whole.best_iteration_ < 29
    assert Forest.from_model(whole).n_trees == 30
    assert_same(whole, Forest.from_model(whole), X)
    before = whole.predict(X, ntree_end=7)
    whole.shrink(ntree_end=7)
    np.testing.assert_allclose(Forest.from_model(whole).bare_scores(X)[:, 0], before, **CLOSE)


@pytest.mark.parametrize(
    ("labels", "parameters"),
    [
        ([False, True], {}),
        ([-1, 1], {}),
        (["no", "yes"], {"class_names": ["yes", "no"]}),
        (["no", "yes"], {"auto_class_weights": "Balanced"}),
        ([0.5, 2.5], {"loss_function": "MultiClass"}),
        (["no", "yes"], {"loss_function": "Focal:focal_alpha=0.5;focal_gamma=1.0"}),
        (["a", "b", "c"], {"class_names": ["c", "a", "b"]}),
        (["a", "b", "c"], {"loss_function": "MultiClassOneVsAll"}),
    ],
)
def test_classes(labels, parameters):
    X, score = numerical_data()
    y = np.array(labels)[np.digitize(score, [0.5, 1.2][: len(labels) - 1])]
    model = classifier(**parameters).fit(X, y)
    forest = Forest.from_model(model)
    assert_same(model, forest, X)
    assert forest.bare.classes.tolist() == model.classes_.tolist()
    # The classes belong to the scores: what scores most is what CatBoost says.
    scores, classes = forest.bare_scores(X), forest.bare.classes
    said = (
        classes[scores.argmax(axis=1)] if scores.shape[1] > 1 else classes[(scores > 0)[:, 0] * 1]
    )
    np.testing.assert_array_equal(said.astype(str), np.ravel(model.predict(X)).astype(str))


def test_probabilities_as_a_target():
    X, score = numerical_data()
    model = classifier(loss_function="CrossEntropy").fit(X, 1 / (1 + np.exp(-score)))
    forest = Forest.from_model(model)
    assert_same(model, forest, X)
    assert forest.bare.classes.tolist() == [0, 1]


@pytest.mark.parametrize("loss", ["MultiLogloss", "MultiCrossEntropy"])
def test_several_labels_a_row_are_no_classes(loss):
    X, score = numerical_data()
    model = classifier(loss_function=loss)
    model.fit(X, np.column_stack([score > 0.5, X[:, 3] > 0]).astype(int))
    forest = Forest.from_model(model)
    assert_same(model, forest, X)
    assert forest.bare.classes is None  # two scores, and not those of two classes


def test_a_class_that_training_lacked_has_no_score():
    X, score = numerical_data()
    y = np.array([0, 2, 3])[np.digitize(score, [0.0, 1.0])]
    model = classifier(loss_function="MultiClass", classes_count=5).fit(X, y)
    forest = Forest.from_model(model)
    assert forest.bare.classes.tolist() == [0, 2, 3]
    raw = model.predict(X, prediction_type="RawFormulaVal")
    assert raw.shape == (len(X), 5)
    np.testing.assert_allclose(forest.bare_scores(X), raw[:, [0, 2, 3]], **CLOSE)


def test_two_scores_of_two_classes_are_one_step():
    X, score = numerical_data()
    model = classifier(loss_function="MultiClass").fit(X, score > 0.5)
    forest = Forest.from_model(model)
    steps, base = bare_steps(forest, np.array([False, True]))
    total = base[0] + forest.path_sums(steps[0])[forest.apply(X)].sum(axis=1)
    shares = model.predict_proba(X)
    np.testing.assert_allclose(total, np.log(shares[:, 1] / shares[:, 0]), rtol=1e-9, atol=1e-9)


def mixed_frame(n_rows=400, seed=0):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n_rows),
            "colour": rng.choice(["red", "green", "blue", 'a "b"', "käse", "7", ""], n_rows),
            "z": rng.normal(size=n_rows),
            "code": rng.integers(-2, 5, n_rows),
            "flag": rng.random(n_rows) < 0.5,
            "unused": rng.choice(["u", "v"], n_rows),
        }
    )
    frame.loc[::9, "x"] = np.nan
    y = (
        frame["x"].fillna(2.0)
        + 2 * (frame["colour"] == "red") * (frame["z"] > 0)
        - (frame["colour"] == "7")
        + 2 * (frame["code"] == 3)
        + (frame["code"] == -2)
        + frame["flag"]
    )
    return frame, y.to_numpy()


CATEGORICAL = {"cat_features": ["colour", "code", "flag", "unused"], "one_hot_max_size": 20}
NO_UNUSED = {"ignored_features": ["unused"]}


def unseen_frame(frame):
    """Categories of other types, and ones that training did not know."""
    other = frame.copy().astype({"code": object, "flag": object})
    n_rows = len(other)
    other.loc[other.index % 5 == 1, "colour"] = "violet"
    other.loc[other.index % 7 == 2, "colour"] = "3"
    other["code"] = [
        [value, str(value), np.int8(value), 99, "03"][i % 5]
        for i, value in enumerate(frame["code"].tolist())
    ]
    other["flag"] = [
        [value, int(value), str(int(value))][i % 3]
        for i, value in enumerate(frame["flag"].tolist())
    ]
    other.loc[other.index[: n_rows // 2], "unused"] = "w"
    return other


@pytest.mark.parametrize("policy", POLICIES)
def test_categories_of_a_data_frame(policy):
    frame, y = mixed_frame()
    model = regressor(iterations=20, grow_policy=policy, **CATEGORICAL, **NO_UNUSED).fit(frame, y)
    forest = Forest.from_model(model, rows=frame)
    assert set(forest.feature[forest.split_kind == 2]) == {1, 3, 4}
    assert set(forest.feature[forest.split_kind == 1]) <= {0, 2}
    assert forest.feature_names == tuple(frame.columns)
    assert forest.missing_left[forest.split_kind == 2].all()
    assert_same(model, forest, frame)
    assert_same(model, forest, unseen_frame(frame))
    declared = frame.astype({"colour": "category", "code": "category"})
    assert_same(model, forest, declared)
    # Another type of the same values, and fewer of them, is the same forest.
    again = Forest.from_model(FrozenEstimator(model), rows=unseen_frame(frame).iloc[:200])
    assert_same(model, again, frame)


def test_categories_in_arrays_and_in_tables_of_kpp():
    frame, y = mixed_frame()
    columns = [0, 1, 3]
    array = frame.iloc[:, columns].to_numpy(dtype=object)
    model = regressor(cat_features=[1, 2], one_hot_max_size=20).fit(array, y)
    forest = Forest.from_model(model, rows=array)
    assert forest.feature_names is None
    assert_same(model, forest, array)
    table = CodedRows.read(frame.iloc[:, columns])
    assert 2 not in table.categories  # numbers to it, and categories to CatBoost
    for other in (
        Forest.from_model(model, rows=table),
        Forest.from_model(model, rows=array.tolist()),
    ):
        np.testing.assert_array_equal(other.apply(array), forest.apply(array))
        assert {j: v.tolist() for j, v in other.categories.items()} == {
            j: v.tolist() for j, v in forest.categories.items()
        }
    np.testing.assert_array_equal(forest.apply(table), forest.apply(array))
    codes = np.random.default_rng(0).integers(0, 4, (200, 2))
    model = regressor(cat_features=[0, 1], one_hot_max_size=20).fit(codes, codes @ [1, 3] % 5)
    forest = Forest.from_model(model, rows=codes)
    assert_same(model, forest, codes)
    np.testing.assert_array_equal(forest.apply(codes * 1.0), forest.apply(codes))


def test_a_category_that_is_missing_goes_where_unknown_ones_go():
    frame, y = mixed_frame()
    model = regressor(**CATEGORICAL).fit(frame, y)
    forest = Forest.from_model(model, rows=frame)
    missing, unknown = frame.head(30).copy(), frame.head(30).copy()
    missing["colour"], unknown["colour"] = None, "unheard of"
    with pytest.raises((TypeError, catboost.CatBoostError)):
        model.predict(missing)
    np.testing.assert_array_equal(forest.apply(missing), forest.apply(unknown))
    assert_same(model, forest, unknown)


def test_categories_of_columns_that_no_split_asks_for():
    frame, y = mixed_frame()
    model = regressor(iterations=20, **CATEGORICAL, **NO_UNUSED).fit(frame, y)
    forest = Forest.from_model(model, rows=frame)
    assert set(forest.categories) == {1, 3, 4, 5}
    assert len(forest.categories[5]) == 0
    assert_same(model, forest, unseen_frame(frame))
    # Where no split asks for a category, no rows are needed.
    model = regressor(depth=1, iterations=1, **CATEGORICAL).fit(frame, np.sign(frame["z"]))
    assert_same(model, Forest.from_model(model), frame)


def test_many_categories_use_several_words():
    rng = np.random.default_rng(0)
    code = rng.integers(0, 120, 2000).astype(str).astype(object)[:, None]
    y = rng.normal(size=120)[code[:, 0].astype(int)]
    model = regressor(cat_features=[0], one_hot_max_size=200, iterations=20).fit(code, y)
    forest = Forest.from_model(model, rows=code)
    assert np.diff(forest.category_offsets).max() > 1
    assert_same(model, forest, code)


def test_rules_name_a_category_once():
    frame, y = mixed_frame()
    frame = frame[["z", "code"]]
    model = regressor(cat_features=["code"], one_hot_max_size=20)
    model.fit(frame, 2.0 * (frame["code"] == 3))
    forest = Forest.from_model(model, rows=frame)
    assert forest.categories[1].tolist()[:4] == [-2, "-2", -1, "-1"]
    layer = KPPRegressor(forest, regime="fixed", node_weight="uniform", alpha=1e-3).fit(frame, y)
    for text, rows in (("code = 3", frame["code"] == 3), ("code is not 3", frame["code"] != 3)):
        rules = explain_rules(layer, frame[rows].iloc[0]).rules
        assert text in {rule.text for rule in rules}


def test_categories_whose_rows_are_not_given():
    frame, y = mixed_frame()
    model = regressor(**CATEGORICAL).fit(frame, y)
    with pytest.raises(TypeError, match=r"(?s)'colour'.*rows=X"):
        Forest.from_model(model)
    with pytest.raises(TypeError, match=r"(?s)'colour'.*rows=X"):
        Forest.from_model(model, rows=frame[frame["colour"] != "red"])
    with pytest.raises(ValueError, match="6 columns"):
        Forest.from_model(model, rows=frame[["x", "colour"]])


def test_target_statistics_are_refused_by_name():
    frame, y = mixed_frame()
    model = regressor(cat_features=CATEGORICAL["cat_features"], one_hot_max_size=3).fit(frame, y)
    with pytest.raises(
        TypeError, match=r"(?s)target statistics.*'colour', 'code'.*one_hot_max_size"
    ):
        Forest.from_model(model, rows=frame)


def test_texts_and_embeddings_are_refused_by_name():
    frame, y = mixed_frame()
    frame["text"] = np.where(y > 1, "good and well", "bad and ill")
    model = classifier(text_features=["text"]).fit(frame[["x", "z", "text"]], y > 1)
    with pytest.raises(TypeError, match="'text' holds texts"):
        Forest.from_model(model)
    frame["vector"] = list(np.random.default_rng(0).normal(size=(len(frame), 3)))
    model = classifier(embedding_features=["vector"]).fit(frame[["x", "z", "vector"]], y > 1)
    with pytest.raises(TypeError, match="'vector' holds embeddings"):
        Forest.from_model(model)


@pytest.mark.parametrize(
    "loss", ["YetiRank", "PairLogit", "QueryRMSE", "QuerySoftMax", "YetiRankPairwise", "LambdaMart"]
)
def test_ranking_is_refused_by_name(loss):
    X, y = numerical_data()
    groups = np.repeat(np.arange(30), 10)
    ranker = catboost.CatBoostRanker(**(SMALL | {"loss_function": loss, "iterations": 2}))
    ranker.fit(X, (y > 0.5).astype(int), group_id=groups)
    with pytest.raises(TypeError, match=f"CatBoostRanker of the loss {loss}:"):
        Forest.from_model(ranker)


def test_a_sum_of_different_losses_is_refused():
    X, y = numerical_data()
    parts = [regressor(loss_function=loss).fit(X, y) for loss in ("RMSE", "MAE")]
    with pytest.raises(TypeError, match="does not say for which loss"):
        Forest.from_model(catboost.sum_models(parts))


def test_unfitted_models():
    for model in (regressor(), classifier(), catboost.CatBoost()):
        with pytest.raises(NotFittedError):
            Forest.from_model(model)


def test_a_dump_of_another_form_is_refused_with_the_version(monkeypatch):
    X, y = numerical_data()
    model = regressor(grow_policy="Lossguide").fit(X, y)
    monkeypatch.setattr(catboost, "__version__", "2.7.1")
    with monkeypatch.context() as other:
        other.setattr(model, "get_leaf_values", lambda: np.zeros(3))
        with pytest.raises(TypeError, match=r"CatBoost 2\.7\.1"):
            Forest.from_model(model)

    def save(path, **options):
        Path(path).write_text('{"trees_in_another_form": []}')

    monkeypatch.setattr(model, "save_model", save)
    with pytest.raises(TypeError, match=r"CatBoost 2\.7\.1"):
        Forest.from_model(model)


def test_columns_that_are_constant_or_ignored():
    X, y = numerical_data()
    X[:, 1], X[:, 3] = 5.0, np.nan
    model = regressor(ignored_features=[2]).fit(X, y)
    forest = Forest.from_model(model)
    assert forest.n_features == 4
    assert set(forest.feature[forest.split_kind == 1]) == {0}
    assert_same(model, forest, odd_rows(forest, X))


def test_names_of_columns():
    pd = pytest.importorskip("pandas")
    X, y = numerical_data()
    forest = Forest.from_model(regressor().fit(X, y))
    assert forest.feature_names is None
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = regressor().fit(frame, y)
    forest = Forest.from_model(model)
    assert forest.feature_names == tuple("abcd")
    assert_same(model, forest, frame)
    numbered = pd.DataFrame(X)
    model = regressor().fit(numbered, y)
    assert_same(model, Forest.from_model(model), numbered)


def test_a_class_of_ones_own_is_read_as_what_it_is_derived_from():
    class Own(catboost.CatBoostRegressor):
        pass

    X, y = numerical_data(missing=True)
    model = Own(**SMALL).fit(X, y)
    forest = Forest.from_model(model)
    assert forest.source == "Own"
    assert_same(model, forest, X)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    policy=st.sampled_from(POLICIES),
    depth=st.integers(1, 7),
    task=st.sampled_from(["numbers", "two", "many", "outputs"]),
    nan_mode=st.sampled_from(["Min", "Max"]),
    n_categories=st.integers(0, 12),
    l2=st.sampled_from([0.0, 3.0]),
    borders=st.sampled_from([1, 4, 254]),
)
def test_any_model(seed, policy, depth, task, nan_mode, n_categories, l2, borders):
    X, score = numerical_data(n_rows=120, missing=True, seed=seed)
    rng = np.random.default_rng(seed)
    code = rng.integers(0, max(n_categories, 1), len(X))
    y = target(task, score + (code == 1), X)
    model = model_for(
        task,
        iterations=4,
        depth=depth,
        grow_policy=policy,
        nan_mode=nan_mode,
        l2_leaf_reg=l2,
        border_count=borders,
        **({"cat_features": [4], "one_hot_max_size": 20} if n_categories else {}),
    )
    table = np.column_stack([X.astype(object), code]) if n_categories else X
    model.fit(table, y)
    forest = Forest.from_model(model, rows=table)
    rows = odd_rows(forest, np.column_stack([X, code]) if n_categories else X, 120)
    if n_categories:
        rows = np.column_stack([rows[:, :4].astype(object), rng.integers(0, n_categories + 2, 120)])
    assert_same(model, forest, rows)


@pytest.mark.parametrize("version", ["1.2.7", "1.2.8", "1.2.9"])
@pytest.mark.parametrize("name", ["symmetric", "lossguide"])
def test_models_of_other_versions(version, name):
    """Written by models_of_other_versions/make_catboost.py, each by its own version."""
    told = json.loads((OLD_MODELS / f"catboost_{version}.json").read_text(encoding="utf-8"))[name]
    rows = np.array(told["rows"], dtype=object)
    model = catboost.CatBoost().load_model(str(OLD_MODELS / f"catboost_{version}_{name}.cbm"))
    forest = Forest.from_model(model, rows=rows)
    leaves, scores = np.array(told["leaves"]), np.array(told["scores"])
    np.testing.assert_array_equal(forest.source_leaf[forest.apply(rows)], leaves)
    np.testing.assert_allclose(forest.bare_scores(rows), scores.reshape(len(rows), -1), **CLOSE)
    assert_same(model, forest, rows)
    if name == "lossguide":
        assert forest.bare.classes.tolist() == ["few", "many", "some"]


def test_a_linear_layer_on_a_frozen_model(tmp_path):
    X, score = numerical_data(missing=True)
    settings = {"regime": "fixed", "node_weight": "uniform", "alpha": 1e-5}
    for task, layer in (("numbers", KPPRegressor), ("many", KPPClassifier)):
        y = target(task, score, X)
        frozen = FrozenEstimator(model_for(task).fit(X[::2], y[::2]))
        model = layer(frozen, **settings).fit(X[1::2], y[1::2])
        assert model.score(X, y) > 0.5
        kpp.save(model, tmp_path / "model.kpp")
        again = kpp.load(tmp_path / "model.kpp")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
    frame, y = mixed_frame()
    forest = Forest.from_model(regressor(**CATEGORICAL).fit(frame, y), rows=frame)
    model = KPPRegressor(forest, **settings).fit(frame, y)
    kpp.save(model, tmp_path / "model.kpp")
    other = unseen_frame(frame)
    np.testing.assert_array_equal(
        kpp.load(tmp_path / "model.kpp").forest_.apply(other), forest.apply(other)
    )


@WITH_TAGS
def test_a_bagging_of_boosters_says_so():
    X, y = numerical_data()
    model = BaggingRegressor(regressor(), n_estimators=2).fit(X, y)
    told = "BaggingRegressor of CatBoostRegressor.*which are boosters themselves"
    with pytest.raises(TypeError, match=told):
        Forest.from_model(model)


@WITH_TAGS
def test_a_model_that_a_fit_grows():
    X, y = numerical_data(missing=True)
    model = KPPRegressor(clone(regressor()), alpha=0.1, random_state=0).fit(X, y)
    assert model.forest_.source == "CatBoostRegressor"
    assert model.score(X, y) > 0.5
    both = KPPRegressor(regressor(), alpha=0.1, random_state=0).fit(X, np.column_stack([y, -y]))
    assert both.predict(X).shape == (len(X), 2)
