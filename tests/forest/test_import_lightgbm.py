"""LightGBM: leaves are its own (`pred_leaf`) and scores its raw scores, to the last bit."""

import inspect
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from zoo import beside_thresholds

import kpp
from kpp import Forest, KPPClassifier, KPPRegressor
from kpp.forest.coded import CodedRows
from kpp.forest.grow import grow_forest

lgb = pytest.importorskip("lightgbm")

QUIET = {"n_jobs": 1, "verbose": -1, "random_state": 0}
SMALL = {**QUIET, "n_estimators": 12, "num_leaves": 7, "min_child_samples": 5}
PARAMS = {"num_threads": 1, "verbose": -1, "num_leaves": 7, "min_data_in_leaf": 5, "seed": 0}
# What LightGBM takes for zero: 1e-35 in single precision.
ZERO = float(np.float32(1e-35))
TINY = 5e-324
ODD_NUMBERS = [np.nan, np.inf, -np.inf, 0.0, -0.0, ZERO, -ZERO, TINY, -TINY, 1e300, -1e300]
ODD_NUMBERS += [np.nextafter(s * ZERO, to) for s in (1, -1) for to in (np.inf, -np.inf)]
ODD_NUMBERS += [np.nextafter(1e300, np.inf), float(np.finfo(np.float64).max)]


def raw_scores(model, X):
    scores = model.predict(X, raw_score=True)
    return np.asarray(scores).reshape(len(X), -1)


def check(model, *several):
    """Compare leaves and scores on each X; returns the forest."""
    forest = Forest.from_model(model)
    for X in several:
        leaves = model.predict(X, pred_leaf=True).reshape(len(X), -1)
        np.testing.assert_array_equal(forest.source_leaf[forest.apply(X)], leaves)
        # The same numbers are added in the same order.
        np.testing.assert_array_equal(forest.bare_scores(X), raw_scores(model, X))
    return forest


def odd_rows(forest, X):
    """Rows at and beside thresholds, and rows with every odd number in every column."""
    odd = np.repeat(X[:1].astype(float), len(ODD_NUMBERS) * X.shape[1], axis=0)
    for j in range(X.shape[1]):
        odd[j * len(ODD_NUMBERS) : (j + 1) * len(ODD_NUMBERS), j] = ODD_NUMBERS
    rng = np.random.default_rng(0)
    mixed = rng.choice(ODD_NUMBERS, (60, X.shape[1]))
    return np.concatenate([near(forest, X), odd, mixed])


def near(forest, X):
    with np.errstate(over="ignore"):
        return beside_thresholds(forest, X)


def single(X):
    with np.errstate(over="ignore"):
        return X.astype(np.float32)


def check_numbers(model, X):
    rows = odd_rows(Forest.from_model(model), X)
    return check(model, X, rows, single(rows), np.asfortranarray(rows))


def numerical_data(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    X[:, 2] = np.where(rng.random(n_rows) < 0.4, 0.0, X[:, 2])
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = rng.integers(-3, 4, n_rows)  # no missing values: LightGBM reads NaN as 0 there
    y = np.nan_to_num(X[:, 0], nan=2.0) - np.nan_to_num(X[:, 1], nan=-2.0)
    return X, y + (X[:, 2] == 0) + 0.1 * X[:, 3] ** 2


REGRESSIONS = {
    "defaults": {},
    "l1": {"objective": "l1"},
    "huber": {"objective": "huber"},
    "quantile": {"objective": "quantile", "alpha": 0.8},
    "mape": {"objective": "mape"},
    "square root": {"reg_sqrt": True},
    "no initial value": {"boost_from_average": False},
    "dart": {"boosting_type": "dart", "drop_rate": 0.5},
    "goss": {"data_sample_strategy": "goss", "top_rate": 0.3, "other_rate": 0.3},
    "old goss": {"boosting_type": "goss", "learning_rate": 0.5},
    "bagging": {"subsample": 0.5, "subsample_freq": 1, "colsample_bytree": 0.5},
    "extra trees": {"extra_trees": True},
    "zero as missing": {"zero_as_missing": True},
    "missing values not used": {"use_missing": False},
    "few bins": {"max_bin": 4},
    "monotone": {"monotone_constraints": [1, -1, 0, 0], "monotone_penalty": 1.0},
    "interactions": {"interaction_constraints": [[0, 1], [2, 3]]},
    "costs": {"cegb_penalty_split": 1e-4, "cegb_penalty_feature_coupled": [0, 1, 0, 1]},
    "path smoothing": {"path_smooth": 5.0},
    "quantized gradients": {"use_quantized_grad": True},
    "stumps": {"num_leaves": 2},
    "constant": {"min_child_samples": 1000},
}


@pytest.mark.parametrize("name", REGRESSIONS)
def test_regressors(name):
    X, y = numerical_data()
    model = lgb.LGBMRegressor(**(SMALL | REGRESSIONS[name])).fit(X, y)
    forest = check_numbers(model, X)
    assert forest.dtype == np.float64
    assert forest.feature_names is None
    if name != "constant":
        assert forest.n_trees == 12
        assert forest.n_nodes > 12
    if name == "zero as missing":
        assert set(forest.missing_values) == set(forest.feature.tolist()) - {-1}


@pytest.mark.parametrize("objective", ["poisson", "gamma", "tweedie", "cross_entropy"])
def test_scores_on_another_scale_are_the_raw_ones(objective):
    X, y = numerical_data()
    y = (y - y.min() + 0.1) / (y.max() - y.min() + 0.2)
    model = lgb.LGBMRegressor(**SMALL, objective=objective).fit(X, y)
    forest = check_numbers(model, X)
    raw = forest.bare_scores(X)[:, 0]
    expected = 1 / (1 + np.exp(-raw)) if objective == "cross_entropy" else np.exp(raw)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
def test_inner_nodes_have_the_mean_of_their_rows(weighted):
    X, y = numerical_data()
    weight = np.random.default_rng(0).random(len(y)) + 0.5 if weighted else None
    model = lgb.LGBMRegressor(**SMALL).fit(X, y, sample_weight=weight)
    forest = check_numbers(model, X)
    values = forest.bare.values[0]
    leaf_ids = forest.apply(X)
    np.testing.assert_allclose(
        values[forest.roots], values[leaf_ids].mean(axis=0), rtol=1e-12, atol=1e-14
    )


def test_numbers_of_single_precision_and_integers():
    X, y = numerical_data()
    X = np.nan_to_num(X)
    check_numbers(lgb.LGBMRegressor(**SMALL).fit(single(X), y), single(X))
    whole = np.round(100 * X).astype(np.int64)
    check(lgb.LGBMRegressor(**SMALL).fit(whole, y), whole)


def test_double_precision_is_kept():
    X = 1.0 + np.arange(40.0)[:, None] * 1e-12
    y = (np.arange(40) >= 20).astype(float)
    model = lgb.LGBMRegressor(**(SMALL | {"min_child_samples": 1})).fit(X, y)
    forest = check_numbers(model, X)
    assert len(np.unique(forest.apply(X)[:, 0])) > 1


@pytest.mark.parametrize("objective", [None, "multiclassova"])
@pytest.mark.parametrize("boosting_type", ["gbdt", "dart"])
def test_several_classes(objective, boosting_type):
    X, y = numerical_data()
    labels = np.array(["low", "middle", "high", "top"])[np.digitize(y, [-1, 0.5, 2])]
    options = SMALL | {"objective": objective, "boosting_type": boosting_type}
    model = lgb.LGBMClassifier(**options).fit(X, labels)
    forest = check_numbers(model, X)
    assert forest.n_trees == 48
    assert forest.bare.classes.tolist() == ["high", "low", "middle", "top"]
    scores = forest.bare_scores(X)
    if objective is None:
        share = np.exp(scores)
        share /= share.sum(axis=1, keepdims=True)
    else:  # the log-odds of each class against all others
        share = 1 / (1 + np.exp(-scores))
    np.testing.assert_allclose(model.predict_proba(X), share, rtol=1e-12)


def test_two_classes():
    X, y = numerical_data()
    labels = np.where(y > 0.5, "yes", "no")
    model = lgb.LGBMClassifier(**SMALL, class_weight="balanced").fit(X, labels)
    forest = check_numbers(model, X)
    assert forest.bare.classes.tolist() == ["no", "yes"]
    odds = np.exp(forest.bare_scores(X)[:, 0])
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], odds / (1 + odds), rtol=1e-12)


def test_two_scores_for_two_classes():
    X, y = numerical_data()
    model = lgb.LGBMClassifier(**SMALL, objective="multiclass", num_class=2).fit(X, y > 0)
    forest = check_numbers(model, X)
    assert forest.bare_scores(X).shape == (len(X), 2)
    assert forest.bare.classes is None  # none of the scores is that of the second class alone


def test_a_booster_numbers_its_classes():
    X, y = numerical_data()
    for objective, n_scores, n_classes in (("binary", 1, 2), ("multiclass", 3, 3)):
        labels = (y > 0).astype(int) if n_classes == 2 else np.digitize(y, [-1, 1])
        params = PARAMS | {"objective": objective, "num_class": n_scores}
        forest = check_numbers(lgb.train(params, lgb.Dataset(X, labels), 5), X)
        assert forest.bare.classes.tolist() == list(range(n_classes))
        assert forest.bare_scores(X).shape == (len(X), n_scores)
        assert forest.source == "Booster"
    assert Forest.from_model(lgb.train(PARAMS, lgb.Dataset(X, y), 5)).bare.classes is None


def test_an_objective_of_the_users_own():
    X, y = numerical_data()

    def squares(y_true, y_pred):
        return y_pred - y_true, np.ones_like(y_true)

    model = lgb.LGBMRegressor(**SMALL, objective=squares).fit(X, y)
    assert check_numbers(model, X).bare.classes is None


RANDOM_FOREST = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1}


def test_random_forests_take_the_mean():
    X, y = numerical_data()
    model = lgb.LGBMRegressor(**SMALL, **RANDOM_FOREST).fit(X, y)
    forest = Forest.from_model(model)
    rows = odd_rows(forest, X)
    leaves = model.predict(rows, pred_leaf=True)
    np.testing.assert_array_equal(forest.source_leaf[forest.apply(rows)], leaves)
    np.testing.assert_array_equal(forest.bare_scores(rows)[:, 0], model.predict(rows))
    assert forest.bare.combines == "mean"
    some = forest.take_trees([0, 3])
    expected = [model.predict(X, start_iteration=t, num_iteration=1) for t in (0, 3)]
    np.testing.assert_allclose(some.bare_scores(X)[:, 0], np.mean(expected, axis=0), rtol=1e-14)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_random_forests_of_classes(n_classes):
    X, y = numerical_data()
    labels = np.digitize(y, [0.0, 1.5][: n_classes - 1])
    model = lgb.LGBMClassifier(**SMALL, **RANDOM_FOREST).fit(X, labels)
    forest = Forest.from_model(model)
    rows = odd_rows(forest, X)
    leaves = model.predict(rows, pred_leaf=True)
    np.testing.assert_array_equal(forest.source_leaf[forest.apply(rows)], leaves)
    # LightGBM's raw scores are sums here, but its probabilities are those of the mean.
    scores = forest.bare_scores(rows)
    np.testing.assert_allclose(scores, raw_scores(model, rows) / 12, rtol=1e-12, atol=1e-15)
    share = np.exp(scores if n_classes > 2 else np.column_stack([0 * scores, scores]))
    share /= share.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(rows), share, rtol=1e-12)


def test_the_best_round_is_the_last():
    X, y = numerical_data()
    rng = np.random.default_rng(1)
    noise = y + 3 * rng.normal(size=len(y))
    model = lgb.LGBMRegressor(**(SMALL | {"n_estimators": 60, "learning_rate": 0.5}))
    stop = lgb.early_stopping(5, verbose=False)
    # Version 4.7 has other names for the rows that decide.
    known = inspect.signature(model.fit).parameters
    held_out = {"eval_set": [(X[150:], noise[150:])]}
    if "eval_X" in known:
        held_out = {"eval_X": X[150:], "eval_y": noise[150:]}
    model.fit(X[:150], noise[:150], callbacks=[stop], **held_out)
    assert check_numbers(model, X).n_trees == model.best_iteration_ < 55
    check(pickle.loads(pickle.dumps(model)), X)
    # A booster that is kept for more rounds has the later ones, too, and does not use them.
    rows, held_out = lgb.Dataset(X[:150], noise[:150]), lgb.Dataset(X[150:], noise[150:])
    params = PARAMS | {"learning_rate": 0.5}
    stop = lgb.early_stopping(5, verbose=False)
    options = {"valid_sets": [held_out], "callbacks": [stop], "keep_training_booster": True}
    booster = lgb.train(params, rows, 60, **options)
    assert booster.best_iteration < booster.num_trees()
    for same in (booster, pickle.loads(pickle.dumps(booster))):
        assert check_numbers(same, X).n_trees == booster.best_iteration
    # One that is told of no best round predicts with all of them.
    everything = lgb.Booster(model_str=booster.model_to_string(num_iteration=-1))
    assert check(everything, X).n_trees == booster.num_trees()


@pytest.mark.parametrize("objective", ["regression", "multiclass"])
def test_saved_boosters(tmp_path, objective):
    X, y = numerical_data()
    labels = y if objective == "regression" else np.digitize(y, [-1, 1])
    params = PARAMS | {"objective": objective, "num_class": 1 if objective == "regression" else 3}
    booster = lgb.train(params, lgb.Dataset(X, labels, feature_name=list("abcd")), 6)
    booster.save_model(tmp_path / "all.txt")
    booster.save_model(tmp_path / "some.txt", start_iteration=2, num_iteration=3)
    expected = check_numbers(booster, X)
    loaded = check_numbers(lgb.Booster(model_file=tmp_path / "all.txt"), X)
    np.testing.assert_array_equal(loaded.threshold, expected.threshold)
    np.testing.assert_array_equal(loaded.bare.values, expected.bare.values)
    assert loaded.feature_names == expected.feature_names == ("a", "b", "c", "d")
    part = check_numbers(lgb.Booster(model_file=tmp_path / "some.txt"), X)
    assert part.n_trees == expected.n_trees // 2
    check_numbers(lgb.Booster(model_str=booster.model_to_string()), X)


def test_boosters_that_were_changed():
    X, y = numerical_data()
    booster = lgb.train(PARAMS, lgb.Dataset(X, y), 6)
    check_numbers(booster.refit(X, -y, decay_rate=0.3), X)
    booster.shuffle_models()
    check_numbers(booster, X)
    before = Forest.from_model(booster).bare_scores(X)
    booster.set_leaf_output(0, 1, 42.0)
    assert (check(booster, X).bare_scores(X) != before).any()
    kept = lgb.train(PARAMS, lgb.Dataset(X, y), 6, keep_training_booster=True)
    kept.rollback_one_iter()
    assert check_numbers(kept, X).n_trees == 5


def test_a_continued_training_may_know_of_missing_values_later():
    X, y = numerical_data()
    first = lgb.train(PARAMS, lgb.Dataset(np.nan_to_num(X), y), 4)
    forest = check_numbers(lgb.train(PARAMS, lgb.Dataset(X, y), 4, init_model=first), X)
    # NaN is 0 in the trees of the first training, and a value of its own in the others.
    nowhere = forest.missing_left == (forest.threshold >= 0)
    split = (forest.feature == 0) & (forest.tree_of_node >= 4)
    assert not nowhere[split].all()


def test_zero_may_not_be_missing_in_some_trees_alone():
    X, y = numerical_data()
    params = PARAMS | {"zero_as_missing": True}
    first = lgb.train(params, lgb.Dataset(X, y, params={"zero_as_missing": True}), 4)
    both = lgb.train(PARAMS, lgb.Dataset(X, y), 4, init_model=first)
    with pytest.raises(TypeError, match=r"Booster of LightGBM: zero counts as missing in some"):
        Forest.from_model(both)
    check_numbers(first, X)


# Models written by hand: whatever the text can say, LightGBM's own reading decides.


def written_model(trees, n_features, *, infos=None, n_scores=1):
    head = [
        "tree",
        "version=v4",
        f"num_class={n_scores}",
        f"num_tree_per_iteration={n_scores}",
        "label_index=0",
        f"max_feature_idx={n_features - 1}",
        "objective=" + ("regression" if n_scores == 1 else f"multiclass num_class:{n_scores}"),
        "feature_names=" + " ".join(f"Column_{j}" for j in range(n_features)),
        "feature_infos=" + " ".join(infos or ["[-9:9]"] * n_features),
        "",
    ]
    for t, fields in enumerate(trees):
        head += [f"Tree={t}"]
        head += [f"{name}={' '.join(map(repr, values))}" for name, values in fields.items()]
        head += ["", ""]
    return lgb.Booster(model_str="\n".join([*head, "end of trees", ""]))


def written_tree(rng, n_splits, columns, *, counts=True):
    """Random fields of a tree; columns are (missing type) or a number of categories."""
    left, right, place = [], [], {0: None}
    for split in range(n_splits):
        leaf = int(rng.choice(list(place)))
        parent = place[leaf]
        if parent is not None:
            side = left if left[parent] == ~leaf else right
            side[parent] = split
        left.append(~leaf)
        right.append(~(split + 1))
        place[leaf] = place[split + 1] = split
    feature = rng.integers(0, len(columns), n_splits).tolist()
    threshold, decision, words, ends = [], [], [], [0]
    for column in feature:
        kind, value = columns[column]
        if kind == "categories":
            own = rng.integers(0, 2**32, 1 + int(rng.integers(0, value)), dtype=np.uint64)
            threshold.append(len(ends) - 1)
            words += own.tolist()
            ends.append(len(words))
            # The side of missing values, which LightGBM does not ask for here.
            decision.append(1 + 2 * int(rng.integers(0, 2)) + 4 * int(rng.integers(0, 3)))
        else:
            numbers = [rng.normal(), float(rng.integers(-2, 3)), rng.choice(ODD_NUMBERS[3:])]
            threshold.append(float(rng.choice(numbers)))
            decision.append(2 * int(rng.integers(0, 2)) + 4 * value)
    n_leaves = n_splits + 1
    return {
        "num_leaves": [n_leaves],
        "num_cat": [len(ends) - 1],
        "split_feature": feature,
        "split_gain": [1] * n_splits,
        "threshold": threshold,
        "decision_type": decision,
        "left_child": left,
        "right_child": right,
        "leaf_value": rng.normal(size=n_leaves).tolist(),
        "leaf_weight": [1] * n_leaves,
        "leaf_count": rng.integers(0, 4, n_leaves).tolist() if counts else [0] * n_leaves,
        "internal_value": [0] * n_splits,
        "internal_weight": [0] * n_splits,
        "internal_count": [1] * n_splits,
        **({"cat_boundaries": ends, "cat_threshold": words} if words else {}),
        "is_linear": [0],
        "shrinkage": [1],
    }


NUMBERS = [("numbers", 0), ("numbers", 1), ("numbers", 2)]


@pytest.mark.parametrize("seed", range(40))
def test_written_models(seed):
    rng = np.random.default_rng(seed)
    columns = [*NUMBERS, ("categories", 3), ("categories", 1)]
    infos = ["[-9:9]"] * 3 + ["0:5:7:2:31:32:64", "-1:3:1"]
    n_scores = 1 + 2 * (seed % 3 == 0)
    trees = [written_tree(rng, int(rng.integers(0, 15)), columns) for _ in range(4 * n_scores)]
    booster = written_model(trees, 5, infos=infos, n_scores=n_scores)
    X = rng.normal(size=(300, 5))
    X[::2, :3] = rng.integers(-2, 3, (150, 3))
    X[1::3, :3] = rng.choice(ODD_NUMBERS, (100, 3))
    X[:, 3:] = rng.choice([*range(-2, 70), *ODD_NUMBERS, 2.7, -0.5, 31.99, 2.0**32 + 3], (300, 2))
    forest = check(booster, X)
    rows = near(forest, X)
    check(booster, rows, single(rows))
    assert set(forest.missing_values) <= {1}
    assert np.isfinite(forest.bare.values).all()


def test_leaves_without_rows_weigh_nothing():
    rng = np.random.default_rng(0)
    tree = written_tree(rng, 3, NUMBERS)
    tree |= {"left_child": [1, ~0, ~1], "right_child": [2, ~2, ~3], "leaf_count": [0, 0, 0, 5]}
    tree["leaf_value"] = [1.0, 7.0, 3.0, 8.0]
    forest = Forest.from_model(written_model([tree], 3))
    # Both leaves on the left are empty: their mean; on the right and at the root the rows decide.
    values = dict(zip(forest.source_leaf.tolist(), forest.bare.values[0].tolist(), strict=True))
    assert [values[4 + split] for split in range(3)] == [8.0, 2.0, 8.0]


def test_a_deep_tree():
    n_splits = 3000
    rng = np.random.default_rng(0)
    tree = written_tree(rng, n_splits, NUMBERS)
    tree["left_child"] = [*range(1, n_splits), ~0]
    tree["right_child"] = [~(split + 1) for split in range(n_splits)]
    tree["split_feature"], tree["decision_type"] = [0] * n_splits, [0] * n_splits
    tree["threshold"] = np.linspace(3, -3, n_splits).tolist()
    X = rng.normal(size=(200, 3))
    forest = check(written_model([tree], 3), X)
    assert len(np.unique(forest.apply(X))) > 100


# Categories.


def mixed_frame(n_rows=500):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "green", "blue", "black", None], n_rows)
    code = rng.choice([5, 10, 20, 31, 7], n_rows)
    x = rng.normal(size=n_rows)
    frame = pd.DataFrame(
        {
            "the x": x,
            "colour": pd.Categorical(colour),
            "z": rng.normal(size=n_rows),
            "code": pd.Categorical(code),
            "yes": pd.Categorical(rng.random(n_rows) < 0.5),
            "rate": pd.Categorical(rng.choice([0.1, 0.25, 1 / 3], n_rows)),
            "group": rng.integers(0, 3, n_rows),
        }
    )
    y = x + 2.0 * (colour == "red") - (code % 3 == 1) + pd.isna(colour)
    y = y + frame["yes"].to_numpy() * (frame["rate"] == 0.25)
    return frame, np.asarray(y, dtype=float)


CATEGORICAL = {"min_data_per_group": 5, "cat_smooth": 1.0, "max_cat_to_onehot": 1}


@pytest.mark.parametrize("onehot", [1, 10])
def test_categories_of_a_data_frame(onehot):
    pd = pytest.importorskip("pandas")
    frame, y = mixed_frame()
    options = SMALL | CATEGORICAL | {"max_cat_to_onehot": onehot, "n_estimators": 30}
    model = lgb.LGBMRegressor(**options).fit(frame, y)
    forest = check(model, frame)
    assert set(forest.feature[forest.split_kind == 2]) == {1, 3, 4, 5}
    assert forest.categories[1].tolist() == ["black", "blue", "green", "red"]
    assert forest.categories[3].tolist() == [5, 7, 10, 20, 31]
    assert forest.feature_names == ("the_x", "colour", "z", "code", "yes", "rate", "group")
    assert not forest.whole_categories
    unseen = frame.head(20).copy()
    unseen["colour"] = pd.Categorical(["violet"] * 10 + ["red"] * 10)
    unseen["code"] = pd.Categorical([999] * 5 + [None] * 5 + [5.5] * 5 + [20] * 5)
    unseen["yes"] = pd.Categorical([None, True] * 10)
    unseen["rate"] = pd.Categorical([0.1, 0.2] * 10)
    unseen["the x"] = [np.nan, np.inf, -np.inf, 0.0] * 5
    check(model, unseen)
    assert (forest.apply(unseen) != forest.apply(frame.head(20))).any()
    # The same categories without a declared type, and in a saved booster.
    plain = frame.astype({"colour": object, "code": float, "yes": object, "rate": float})
    np.testing.assert_array_equal(forest.apply(plain), forest.apply(frame))
    check(lgb.Booster(model_str=model.booster_.model_to_string()), frame, unseen)


def test_other_columns_are_refused():
    frame, y = mixed_frame()
    forest = Forest.from_model(lgb.LGBMRegressor(**SMALL).fit(frame, y))
    with pytest.raises(ValueError, match=r"missing: \['the_x'\], unknown: \['thex'\]"):
        forest.apply(frame.rename(columns={"the x": "thex"}))
    with pytest.raises(ValueError, match="order"):
        forest.apply(frame[frame.columns[::-1]])


@pytest.mark.parametrize("zero_as_missing", [False, True])
def test_ordered_categories_are_numbers_to_lightgbm(zero_as_missing):
    pd = pytest.importorskip("pandas")
    frame, y = mixed_frame()
    rng = np.random.default_rng(1)
    sizes = pd.CategoricalDtype(["S", "M", "L", "XL", "XXL", "none"], ordered=True)
    size = rng.choice(["M", "S", "XXL", "L", None], len(frame))
    frame = frame.drop(columns="group").assign(size=pd.Categorical(size, dtype=sizes))
    y = y + 3 * (size == "M") - 2 * (size == "XXL") + pd.isna(size)
    options = SMALL | CATEGORICAL | {"zero_as_missing": zero_as_missing}
    forest = check(lgb.LGBMRegressor(**options).fit(frame, y), frame)
    assert forest.categories[6].tolist() == sizes.categories.tolist()
    assert (forest.split_kind[forest.feature == 6] == 2).all()
    assert set(forest.missing_values) == ({0} if zero_as_missing else set())


def test_columns_of_categories_that_cannot_be_told():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    size = pd.Categorical(rng.choice(["S", "M"], 200), ordered=True)
    flag = rng.integers(0, 2, 200)
    y = flag + 2.0 * (size == "M")
    frame = pd.DataFrame({"size": size, "flag": flag})
    model = lgb.LGBMRegressor(**SMALL).fit(frame, y)
    with pytest.raises(TypeError, match="does not tell which columns they were"):
        Forest.from_model(model)
    # Values that are no codes of two categories leave one column.
    frame["flag"] += 1
    check(lgb.LGBMRegressor(**SMALL).fit(frame, y), frame)


def test_categorical_features_are_categories_of_the_frame_where_they_can_be():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    colour = pd.Categorical(rng.choice(list("abcde"), 300))
    size = pd.Categorical(rng.choice(["M", "S", "L"], 300), ordered=True)
    flag, code = rng.integers(0, 2, 300), rng.choice([0, 70, 90], 300)
    y = flag + 2.0 * (size == "M") + 3.0 * (colour == "c") + (code == 70)
    # The flag could be a code of a size or colour, but then one feature would be without names.
    frame = pd.DataFrame({"flag": flag, "colour": colour, "size": size})
    forest = check(lgb.LGBMRegressor(**SMALL, **CATEGORICAL).fit(frame, y), frame)
    assert set(forest.categories) == {1, 2}
    # There is one list of names and two features, one of them with other numbers than codes.
    frame = pd.DataFrame({"flag": flag, "code": code, "colour": colour})
    model = lgb.LGBMRegressor(**SMALL, **CATEGORICAL)
    forest = check(model.fit(frame, y, categorical_feature=["code", "colour"]), frame)
    assert forest.whole_categories == {1}
    assert forest.categories[2].tolist() == list("abcde")


def test_categories_of_another_column_are_never_read_as_numbers():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    size, number = rng.choice([10, 20, 30], 400), rng.integers(0, 3, 400)
    # One list of categories, and one categorical feature: of different columns.
    frame = pd.DataFrame({"size": pd.Categorical(size, [30, 10, 20], ordered=True), "k": number})
    model = lgb.LGBMRegressor(**SMALL)
    model.fit(frame, size + 5.0 * (number == 1), categorical_feature=["k"])
    for read in (model, model.booster_):
        with pytest.raises(ValueError, match="reads column 'size' as numbers"):
            Forest.from_model(read).bare_scores(frame)


def test_codes_in_an_array_are_no_names_of_categories():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"colour": pd.Categorical(rng.choice(list("abc"), 300))})
    model = lgb.LGBMRegressor(**SMALL).fit(frame, 1.0 * (frame["colour"] == "b"))
    forest = Forest.from_model(model)
    codes = frame["colour"].cat.codes.to_numpy(dtype=float)[:, None]
    with pytest.raises(ValueError, match="The column 0 holds numbers"):
        forest.bare_scores(codes)
    missing = forest.bare_scores(np.full((1, 1), np.nan))
    np.testing.assert_array_equal(missing.ravel(), model.booster_.predict([[np.nan]]))


def test_categories_and_whole_numbers_in_one_frame():
    frame, y = mixed_frame()
    frame["group"] = frame["group"] * 100
    y = y + (frame["group"] == 100)
    listed = ["colour", "code", "yes", "rate", "group"]
    model = lgb.LGBMRegressor(**SMALL, **CATEGORICAL).fit(frame, y, categorical_feature=listed)
    forest = check(model, frame, frame.assign(group=frame["group"] + 0.9))
    assert forest.whole_categories == {6}
    assert forest.categories[6].tolist() == [0, 100, 200]


def whole_categories(n_rows=600):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    X[:, 2] = rng.choice([0.0, 3.0, 7.0, 40.0, np.nan, 2.7, -4.0, 2.2], n_rows)
    y = X[:, 0] + 2 * (X[:, 2] == 7) - (X[:, 2] == 0) + 3 * (np.floor(X[:, 2]) == 2)
    return X, y


def test_categories_in_an_array():
    X, y = whole_categories()
    model = lgb.LGBMRegressor(**SMALL, **CATEGORICAL).fit(X, y, categorical_feature=[2])
    rows = np.repeat(X[:1], 200, axis=0)
    rows[:, 0] = np.random.default_rng(1).normal(size=200)
    odd = [0, 0.5, -0.5, -1, 2, 2.7, np.nextafter(3, 0), 3, 5, 7.99, 40, 41, 1e6, *ODD_NUMBERS]
    odd += [2.0**31, 2.0**32 + 7, -(2.0**31) - 1]
    rows[:, 2] = np.resize(odd, 200)
    forest = check(model, X, rows, single(rows))
    assert forest.whole_categories == {2}
    assert forest.categories[2].tolist() == [0, 2, 3, 7, 40]
    leaves = forest.apply(rows)
    listed = rows.tolist()
    np.testing.assert_array_equal(forest.apply(listed), leaves)
    with pytest.raises(ValueError, match="column 2"):
        forest.apply([[0.0, 0.0, "7"], [0.0, 0.0, "red"]])


def test_many_categories_use_several_words():
    rng = np.random.default_rng(0)
    code = rng.integers(0, 300, 3000)[:, None].astype(float)
    y = rng.normal(size=300)[code[:, 0].astype(int)]
    model = lgb.LGBMRegressor(**SMALL, **CATEGORICAL).fit(code, y, categorical_feature=[0])
    forest = check(model, code, np.arange(-2, 400)[:, None].astype(float))
    assert np.diff(forest.category_offsets).max() > 1


def test_a_column_cannot_be_numbers_and_categories():
    X, y = whole_categories()
    first = lgb.train(PARAMS, lgb.Dataset(X, y), 4)
    both = lgb.train(
        PARAMS | CATEGORICAL, lgb.Dataset(X, y, categorical_feature=[2]), 4, init_model=first
    )
    with pytest.raises(TypeError, match="column 2 as numbers in some trees and as categories in"):
        Forest.from_model(both)


def test_whole_categories_are_kept(tmp_path):
    X, y = whole_categories()
    model = lgb.LGBMRegressor(**SMALL, **CATEGORICAL).fit(X, y, categorical_feature=[2])
    forest = Forest.from_model(model)
    leaves = forest.source_leaf[forest.apply(X)]
    kpp.save(forest, tmp_path / "forest.kpp")
    for same in (kpp.load(tmp_path / "forest.kpp"), pickle.loads(pickle.dumps(forest))):
        assert same.whole_categories == {2}
        np.testing.assert_array_equal(same.source_leaf[same.apply(X)], leaves)
    twice = Forest.concatenate([forest, forest])
    np.testing.assert_array_equal(twice.source_leaf[twice.apply(X)], np.tile(leaves, 2))


# What has no representation.


def test_refused_models():
    X, y = numerical_data()
    linear = lgb.LGBMRegressor(**SMALL, linear_tree=True).fit(X, y)
    with pytest.raises(TypeError, match="LGBMRegressor of LightGBM: its leaves are linear models"):
        Forest.from_model(linear)
    stopped = lgb.LGBMClassifier(**SMALL, pred_early_stop=True).fit(X, y > 0)
    with pytest.raises(TypeError, match="LGBMClassifier of LightGBM: with pred_early_stop"):
        Forest.from_model(stopped)
    check(stopped.set_params(pred_early_stop=False), X)


@pytest.mark.parametrize("objective", ["lambdarank", "rank_xendcg"])
def test_rankings_are_refused(objective):
    X, y = numerical_data()
    grade = np.digitize(y, [0, 1])
    ranker = lgb.LGBMRanker(**SMALL, objective=objective).fit(X, grade, group=[30] * 10)
    with pytest.raises(TypeError, match="LGBMRanker of LightGBM: it ranks"):
        Forest.from_model(ranker)
    with pytest.raises(TypeError, match=f"Booster of LightGBM: its objective {objective} ranks"):
        Forest.from_model(ranker.booster_)


def test_models_without_trees_are_refused():
    with pytest.raises(NotFittedError):
        Forest.from_model(lgb.LGBMRegressor())
    X, y = numerical_data()
    with pytest.raises(NotFittedError):
        Forest.from_model(lgb.Booster(PARAMS, lgb.Dataset(X, y)))


def test_a_format_that_is_not_known_is_refused(monkeypatch):
    X, y = numerical_data()
    booster = lgb.train(PARAMS, lgb.Dataset(X, y), 2)
    newer = booster.model_to_string().replace("version=v4", "version=v7")
    monkeypatch.setattr(lgb.Booster, "model_to_string", lambda self: newer)
    monkeypatch.setattr(lgb, "__version__", "9.1.0")
    with pytest.raises(TypeError, match=r"Booster of LightGBM 9\.1\.0: .* format v7"):
        Forest.from_model(booster)


def test_a_polars_frame():
    pl = pytest.importorskip("polars")
    X, y = numerical_data()
    named = lgb.Dataset(X, y, feature_name=["a b", "c", "d", "e"])
    booster = lgb.train(PARAMS, named, 5)
    forest = Forest.from_model(booster)
    frame = pl.DataFrame(dict(zip(["a b", "c", "d", "e"], X.T, strict=True)), nan_to_null=True)
    assert frame.null_count().row(0)[0] > 0
    leaves = booster.predict(X, pred_leaf=True)
    np.testing.assert_array_equal(forest.source_leaf[forest.apply(frame)], leaves)


def test_an_estimator_without_a_task():
    X, y = numerical_data()
    model = lgb.LGBMModel(**SMALL, objective="binary").fit(X, (y > 0).astype(int))
    assert check_numbers(model, X).bare.classes.tolist() == [0, 1]
    assert check_numbers(FrozenEstimator(model.booster_).estimator, X).n_trees == 12


# A second reader of the same models.


def test_treelite_finds_the_same_leaves():
    treelite = pytest.importorskip("treelite")
    X, y = whole_categories()
    model = lgb.LGBMRegressor(**SMALL, **CATEGORICAL).fit(X, y, categorical_feature=[2])
    forest = Forest.from_model(model)
    rows = near(forest, X)
    other = treelite.frontend.from_lightgbm(model.booster_)
    theirs, ours = treelite.gtil.predict_leaf(other, rows), forest.apply(rows)
    # Their numbers are others: two rows share a leaf here where they share one there.
    for tree in range(forest.n_trees):
        pairs = np.unique(np.column_stack([theirs[:, tree], ours[:, tree]]), axis=0)
        assert len(pairs) == len(np.unique(pairs[:, 0])) == len(np.unique(pairs[:, 1]))
    np.testing.assert_allclose(
        treelite.gtil.predict(other, rows).ravel(), forest.bare_scores(rows)[:, 0], rtol=1e-12
    )


# Files of other versions, with what those versions made of some rows: `lightgbm_models.py` there.

SAVED = sorted(Path(__file__).parent.joinpath("models_of_other_versions").glob("lightgbm_*.json"))


def test_there_are_files_of_other_versions():
    assert {path.stem for path in SAVED} >= {"lightgbm_4.5.0", "lightgbm_4.6.0"}


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
@pytest.mark.parametrize("kind", ["frame", "numbers"])
def test_files_of_other_versions(path, kind):
    saved = json.loads(path.read_text())[kind]
    booster = lgb.Booster(model_str=saved["model"])
    if kind == "frame":
        pd = pytest.importorskip("pandas")
        rows = pd.DataFrame(saved["rows"])
    else:
        rows = np.array(saved["rows"])
    forest = Forest.from_model(booster)
    assert set(forest.categories) == ({1, 2} if kind == "frame" else {2})
    assert set(forest.missing_values) == (set() if kind == "frame" else {0, 1})
    leaves = forest.source_leaf[forest.apply(rows)]
    np.testing.assert_array_equal(leaves, saved["leaves"])
    assert len(np.unique(leaves)) > 3
    scores = np.array(saved["scores"]).reshape(len(rows), -1)
    np.testing.assert_array_equal(forest.bare_scores(rows), scores)


# In a model.


def test_a_fitted_booster_as_the_forest_of_a_model(tmp_path):
    X, y = whole_categories()
    booster = lgb.LGBMRegressor(**SMALL, **CATEGORICAL).fit(X, y, categorical_feature=[2])
    frozen = FrozenEstimator(booster)
    model = KPPRegressor(frozen, regime="fixed", node_weight="uniform", alpha=1.0).fit(X, y)
    assert model.score(X, y) > 0.5
    kpp.save(model, tmp_path / "model.kpp")
    loaded = kpp.load(tmp_path / "model.kpp")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_frame_in_a_model(tmp_path):
    frame, y = mixed_frame()
    booster = lgb.LGBMClassifier(**SMALL, **CATEGORICAL).fit(frame, y > 1)
    forest = Forest.from_model(booster)
    model = KPPClassifier(forest, regime="fixed", node_weight="uniform", alpha=0.01)
    model.fit(frame, y > 1)
    assert model.score(frame, y > 1) > 0.8
    np.testing.assert_array_equal(model.forest_.apply(frame), forest.apply(frame))
    kpp.save(model, tmp_path / "model.kpp")
    loaded = kpp.load(tmp_path / "model.kpp")
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))


@pytest.mark.parametrize("zero_as_missing", [False, True])
def test_grown_on_encoded_categories(zero_as_missing):
    frame, y = mixed_frame()
    fitted = []

    class Watched(lgb.LGBMRegressor):
        def fit(self, X, y):
            fitted.append((self, X))
            return super().fit(X, y)

    rows = CodedRows.read(frame)
    forest = grow_forest(Watched(**SMALL, zero_as_missing=zero_as_missing), rows, y)
    [(model, X)] = fitted
    assert (forest.split_kind == 2).any()
    leaves = model.predict(X, pred_leaf=True)
    for same in (rows, frame):
        np.testing.assert_array_equal(forest.source_leaf[forest.apply(same)], leaves)


@pytest.mark.parametrize("regime", ["shared", "cross-fit"])
def test_grown_for_a_model(regime):
    frame, y = mixed_frame()
    model = KPPRegressor(lgb.LGBMRegressor(**SMALL), regime=regime, alpha=1.0, random_state=0)
    assert model.fit(frame, y).score(frame, y) > 0.5
