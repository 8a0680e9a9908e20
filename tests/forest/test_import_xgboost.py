"""XGBoost is its own oracle: leaves by `pred_leaf`, raw scores by `output_margin`, bit for bit.

`models_of_other_versions/make_xgboost.py` made the saved models, one file for each version.
"""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from zoo import beside_thresholds

import kpp
from kpp import Forest, KPPClassifier, KPPRegressor
from kpp.certificates import certify_raw
from kpp.explanations import explain_rules
from kpp.forest.others import AnyOther, other_of

xgb = pytest.importorskip("xgboost")
importer = pytest.importorskip("kpp.forest.importers.xgboost")
# XGBoost 3.4 warns of boosters and estimators that it will not always have.
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

VERSION = tuple(int(part) for part in xgb.__version__.split(".")[:2])
SAVED = sorted((Path(__file__).parent / "models_of_other_versions").glob("xgboost-*.json.gz"))
# Of which data frames a model keeps the names of categories, and which it takes.
KEEPS_NAMES, TAKES_POLARS = VERSION >= (3, 1), VERSION >= (3, 1)
SMALL = {"n_estimators": 8, "max_depth": 4, "n_jobs": 1}
MIXED = {"enable_categorical": True, "feature_types": ["q", "q", "c"]}


def numbers_and_codes(seed=0, n_rows=300, n_codes=6):
    """Two numbers and codes of categories, some missing, and a target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    X[:, 2] = rng.integers(0, n_codes, n_rows)
    X[rng.random(X.shape) < 0.1] = np.nan
    known = np.nan_to_num(X, nan=2.0)
    effect = rng.normal(size=n_codes + 3)
    return X, known[:, 0] - known[:, 0] * known[:, 1] + effect[known[:, 2].astype(int)]


def of_booster(model, X, **options):
    """What the library itself says, with an estimator's own rounds and missing value."""
    booster, rounds, missing = model, (0, 0), np.nan
    if not isinstance(model, xgb.Booster):
        booster, missing = model.get_booster(), model.missing
        rounds = (0, getattr(model, "best_iteration", -1) + 1)
    kinds = None if hasattr(X, "columns") else booster.feature_types
    data = xgb.DMatrix(X, missing=missing, feature_types=kinds, enable_categorical=True)
    names = booster.feature_names is None or hasattr(X, "columns")
    found = booster.predict(data, iteration_range=rounds, validate_features=names, **options)
    return found.reshape(len(X), -1)


def score_through_leaves(forest, leaves):
    """The library's sum: in float32, one tree after the other, onto the base."""
    bare = forest.bare
    total = np.tile(bare.base.astype(np.float32), (len(leaves), 1))
    for tree, leaf in enumerate(leaves.T):
        score = 0 if bare.tree_score is None else bare.tree_score[tree]
        total[:, score] += bare.values[0, leaf].astype(np.float32)
    return total


def assert_same(forest, X, leaves, margins):
    """Leaves, raw scores bit for bit, and the forest's own sum but for the rounding of float32."""
    found = forest.apply(X)
    assert forest.is_leaf[found].all()
    np.testing.assert_array_equal(forest.source_leaf[found], leaves)
    np.testing.assert_array_equal(score_through_leaves(forest, found), margins)
    assert_sums(forest, X, margins)


def assert_sums(forest, X, margins):
    """Each of the library's additions rounds by at most half a unit of the largest sum."""
    leaves = forest.apply(X)
    most = np.abs(forest.bare.values[0, leaves]).sum(axis=1) + np.abs(forest.bare.base).max()
    error = np.abs(forest.bare_scores(X) - margins).max(axis=1)
    assert (error <= (forest.n_trees + 1) * np.finfo(np.float32).eps * most).all()


def assert_exact(model, X):
    """The forest of a model is the model, at these rows and beside its thresholds."""
    forest = Forest.from_model(model)
    assert forest.dtype == np.float32
    kinds = [X]
    if not hasattr(X, "columns"):
        near = beside_thresholds(forest, X)
        # Half way between two numbers of float32, where the cast decides.
        splits = np.flatnonzero(forest.split_kind == 1)
        for i, v in enumerate(splits[:200]):
            t = np.float32(forest.threshold[v])
            up = np.float64(np.nextafter(t, np.float32(np.inf)))
            near[i, forest.feature[v]] = (np.float64(t) + up) / 2
        kinds = [X, near, near.astype(np.float32)]
    for rows in kinds:
        leaves = of_booster(model, rows, pred_leaf=True)
        assert_same(forest, rows, leaves, of_booster(model, rows, output_margin=True))
        if not isinstance(model, xgb.Booster):
            # Without a DMatrix; dart is then added up in another order.
            margins = model.predict(rows, output_margin=True).reshape(len(rows), -1)
            assert_sums(forest, rows, margins)
    return forest


def drawn(seed):
    """A model of a random kind, and rows."""
    rng = np.random.default_rng(seed)
    X, y = numbers_and_codes(seed)
    params = {
        "n_estimators": int(rng.integers(1, 8)),
        "n_jobs": 1,
        "max_depth": int(rng.integers(0, 7)),
        "max_leaves": int(rng.choice([0, 9])),
        "grow_policy": str(rng.choice(["depthwise", "lossguide"])),
        "booster": str(rng.choice(["gbtree", "dart"])),
        "num_parallel_tree": int(rng.choice([1, 1, 3])),
        "learning_rate": float(rng.choice([0.1, 1.0])),
        "subsample": float(rng.choice([0.6, 1.0])),
        "colsample_bynode": float(rng.choice([0.5, 1.0])),
        "gamma": float(rng.choice([0.0, 0.5])),
        "min_child_weight": float(rng.choice([0.0, 1.0])),
        "max_cat_to_onehot": int(rng.choice([1, 100])),
        "missing": float(rng.choice([np.nan, np.nan, 0.0, 2.0, X[0, 0], -1.0])),
        "random_state": seed,
    }
    if params["booster"] == "dart":
        params |= {"rate_drop": 0.4, "skip_drop": 0.2}
    method = rng.choice(["hist", "approx", "exact"])
    params["tree_method"] = str(method)
    if method == "exact":
        params |= {"grow_policy": "depthwise", "max_leaves": 0, "max_depth": 4}
        params["colsample_bynode"] = 1.0
    elif params["max_depth"] + params["max_leaves"] == 0:
        params["max_depth"] = 3
    if method != "exact":
        params |= MIXED
    task = rng.choice(["numbers", "two", "three"])
    kind = xgb.XGBRegressor if task == "numbers" else xgb.XGBClassifier
    target = {"numbers": y, "two": (y > 0) * 1, "three": np.digitize(y, [-1, 1])}[str(task)]
    weight = rng.random(len(y)) if rng.random() < 0.5 else None
    return kind(**params).fit(X, target, sample_weight=weight), X


@pytest.mark.parametrize("seed", range(40))
def test_drawn_models(seed):
    model, X = drawn(seed)
    forest = assert_exact(model, X)
    assert forest.source == type(model).__name__
    rows = numbers_and_codes(seed + 100)[0]
    rows[:8, 2] = [0, -1, 6, 99, 2.0**24, 2.0, np.nan, 5]
    booster = model.get_booster()
    assert_exact(model, rows)
    # Its Booster is the same but for what counts as missing.
    whole = Forest.from_model(booster)
    assert whole.missing_values == {}
    assert_exact(booster, rows)


OBJECTIVES = [
    ("reg:squarederror", {}),
    ("reg:squarederror", {"base_score": 3.7}),
    ("reg:squaredlogerror", {}),
    ("reg:logistic", {}),
    ("reg:pseudohubererror", {}),
    ("reg:absoluteerror", {}),
    ("reg:quantileerror", {"quantile_alpha": 0.3}),
    ("reg:quantileerror", {"quantile_alpha": [0.3, 0.5, 0.8]}),
    ("binary:logistic", {}),
    ("binary:logistic", {"base_score": 0.2}),
    ("binary:logitraw", {"base_score": 0.2}),
    ("binary:hinge", {}),
    ("count:poisson", {}),
    ("reg:gamma", {}),
    ("reg:tweedie", {"tweedie_variance_power": 1.3}),
    ("survival:cox", {}),
    ("survival:cox", {"base_score": 0.2}),
    ("survival:aft", {}),
    ("multi:softprob", {"num_class": 3}),
    ("multi:softmax", {"num_class": 3, "base_score": 0.7, "num_parallel_tree": 2}),
]


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
@pytest.mark.parametrize(("objective", "params"), OBJECTIVES)
def test_objectives(objective, params, booster):
    X, y = numbers_and_codes()
    kind, name = objective.split(":")
    positive = np.abs(y) + 0.5
    label = y
    if kind == "binary":
        label = y > 0
    elif kind == "multi":
        label = np.digitize(y, [-1, 1])
    elif name in ("squaredlogerror", "gamma", "tweedie", "cox"):
        label = positive
    elif name == "poisson":
        label = np.floor(positive)
    elif name == "logistic":
        label = 1 / (1 + np.exp(-y))
    data = xgb.DMatrix(X, label)
    if name == "aft":
        data = xgb.DMatrix(X)
        data.set_float_info("label_lower_bound", positive)
        data.set_float_info("label_upper_bound", 2 * positive)
    params = params | {"objective": objective, "booster": booster, "nthread": 1, "max_depth": 3}
    if booster == "dart":
        params["rate_drop"] = 0.5
    model = xgb.train(params, data, 6)
    forest = assert_exact(model, X)
    n_scores = max(params.get("num_class", 1), np.size(params.get("quantile_alpha", 0)))
    assert len(forest.bare.base) == n_scores
    assert forest.bare.classes is None


def test_the_base_is_behind_the_link():
    X, y = numbers_and_codes()
    model = xgb.XGBClassifier(base_score=0.2, **SMALL).fit(X, y > 0)
    base = Forest.from_model(model).bare.base
    np.testing.assert_allclose(base, [np.log(0.2 / 0.8)], rtol=1e-6)
    model = xgb.XGBRegressor(objective="count:poisson", base_score=3.0, **SMALL)
    base = Forest.from_model(model.fit(X, np.floor(np.abs(y)))).bare.base
    np.testing.assert_allclose(base, [np.log(3.0)], rtol=1e-6)


def test_an_objective_of_ones_own():
    X, y = numbers_and_codes()

    def half_square(predicted, data):
        return predicted - data.get_label(), np.ones(len(predicted))

    params = {"nthread": 1, "max_depth": 3, "base_score": 0.25}
    model = xgb.train(params, xgb.DMatrix(X, y), 5, obj=half_square)
    assert assert_exact(model, X).bare.base.tolist() == [0.25]


def test_thresholds_among_the_smallest_numbers():
    tiny = np.float32(1e-45)
    grid = np.array([-3, -2, -1, -0.0, 0.0, 1, 2, 3], dtype=np.float32) * tiny
    X = np.tile(np.concatenate([grid, [-1, 1, 3e38, -3e38]]), 8).astype(np.float32)[:, None]
    y = np.sin(np.arange(len(X)) % 12 * 2.0)
    model = xgb.XGBRegressor(tree_method="exact", min_child_weight=0, **SMALL).fit(X, y)
    forest = assert_exact(model, X)
    thresholds = forest.threshold[forest.split_kind == 1]
    assert (np.abs(thresholds) < 1e-43).any()
    rows = np.concatenate([grid, -grid, [np.finfo(np.float32).max]])[:, None]
    assert_exact(model, rows)
    # What rounds to nothing, or to a smallest number, in float32.
    rows = np.array([1e-46, -1e-46, 7.1e-46, -7.1e-46, 0.0, -0.0, 2e-45])[:, None]
    assert_exact(model, rows)


def test_whole_numbers_beyond_single_precision():
    X = (2**24 + np.arange(40))[:, None]
    y = (np.arange(40) % 4 > 1).astype(float)
    model = xgb.XGBRegressor(min_child_weight=0, tree_method="exact", **SMALL).fit(X, y)
    forest = assert_exact(model, X.astype(np.float64))
    np.testing.assert_array_equal(
        forest.source_leaf[forest.apply(X)], of_booster(model, X, pred_leaf=True)
    )


@pytest.mark.parametrize("missing", [np.nan, np.inf, -np.inf])
def test_infinities(missing):
    X, y = numbers_and_codes()
    model = xgb.XGBRegressor(missing=missing, **SMALL).fit(X[:, :2], y)
    rows = X[:, :2].copy()
    rows[::3, 0], rows[1::3, 0], rows[2::3, 1] = np.inf, -np.inf, 1e300
    rows[::7, 1] = -1e39
    forest = Forest.from_model(model)
    margins = model.predict(rows, output_margin=True)[:, None]
    leaves = forest.apply(rows)
    np.testing.assert_array_equal(score_through_leaves(forest, leaves), margins)
    if np.isinf(missing):  # otherwise DMatrix refuses them
        assert_same(forest, rows, of_booster(model, rows, pred_leaf=True), margins)
    # In float64 the same numbers are too large.
    np.testing.assert_array_equal(forest.in_float64.apply(rows), leaves)


def test_a_threshold_that_nothing_is_below():
    X, y = numbers_and_codes()
    booster = xgb.XGBRegressor(**SMALL).fit(X, y).get_booster()
    document = json.loads(booster.save_raw("json"))
    tree = document["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["split_conditions"][0] = -np.inf
    edited = xgb.Booster(model_file=bytearray(json.dumps(document).encode()))
    forest = Forest.from_model(edited)
    margins = of_booster(edited, X, output_margin=True)
    assert_same(forest, X, of_booster(edited, X, pred_leaf=True), margins)
    assert not forest.allows_infinity
    with pytest.raises(ValueError):
        forest.apply(np.full((1, 3), -np.inf))


@pytest.mark.parametrize("missing", [0.0, -1.0, 0.1, 3.0])
def test_a_value_that_stands_for_nothing(missing):
    X, y = numbers_and_codes()
    X[::5, 0], X[1::5, 1] = missing, missing
    model = xgb.XGBRegressor(missing=missing, max_cat_to_onehot=1, **MIXED, **SMALL).fit(X, y)
    rows = X.copy()
    # Compared in float32: what rounds to it is missing as well.
    rows[2::5, 0] = missing + 1e-12
    rows[3::5, 0] = np.nextafter(np.float32(missing), np.float32(9))
    rows[:40, 2] = missing if missing != 0.1 else np.nan
    forest = assert_exact(model, rows)
    assert forest.missing_values == dict.fromkeys(range(3), (float(np.float32(missing)),) * 2)
    np.testing.assert_array_equal(forest.in_float64.apply(rows), forest.apply(rows))
    told = rows.copy()
    told[np.float32(rows) == np.float32(missing)] = np.nan
    np.testing.assert_array_equal(forest.apply(told), forest.apply(rows))


@pytest.mark.parametrize("most_single", [1, 100], ids=["sets", "one against all"])
def test_codes_of_categories(most_single):
    X, y = numbers_and_codes(n_codes=70)
    model = xgb.XGBRegressor(max_cat_to_onehot=most_single, **MIXED, **SMALL).fit(X, y)
    forest = assert_exact(model, X)
    sizes = [len(set_) for tree in trees_of(model) for _, set_ in importer._sets(tree)]
    assert max(sizes) > 1 if most_single == 1 else set(sizes) == {1}
    assert other_of(forest.categories[2]) is AnyOther.CODE
    rows = np.repeat(X[:14], 6, axis=0)
    rows[:, 2] = np.resize([0, 69, 70, 500, -1, -7, 2.0**24, 2.0**31, np.nan, -0.0], len(rows))
    assert_exact(model, rows)
    # Missing is not unknown.
    one = np.repeat(X[:40], 2, axis=0)
    one[::2, 2], one[1::2, 2] = np.nan, 1e6
    leaves = forest.apply(one)
    assert (leaves[::2] != leaves[1::2]).any()
    with pytest.raises(ValueError, match="codes"):
        forest.apply(np.array([[0.0, 0.0, 0.5]]))
    with pytest.raises(ValueError, match="codes"):
        forest.apply(pd.DataFrame({"a": [0.0], "b": [0.0], "c": ["red"]}))


def trees_of(model):
    booster = model if isinstance(model, xgb.Booster) else model.get_booster()
    saved = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]
    return saved.get("gbtree", saved)["model"]["trees"]


def test_a_column_of_categories_without_splits():
    X, y = numbers_and_codes()
    X[:, 2] = 1.0
    forest = assert_exact(xgb.XGBRegressor(**MIXED, **SMALL).fit(X, y), X)
    assert forest.categories[2].tolist() == [AnyOther.CODE]


def test_splits_of_categories_without_types_of_columns():
    X, y = numbers_and_codes()
    booster = xgb.XGBRegressor(**MIXED, **SMALL).fit(X, y).get_booster()
    expected = Forest.from_model(booster)
    booster.feature_types = None
    forest = Forest.from_model(booster)
    assert forest.categories[2].tolist() == expected.categories[2].tolist()
    np.testing.assert_array_equal(forest.apply(X), expected.apply(X))


def frame_of(seed=0, n_rows=300):
    rng = np.random.default_rng(seed)
    X, y = numbers_and_codes(seed, n_rows)
    colour = rng.choice(["red", "green", "blue", "", None], n_rows)
    size = rng.choice([10, -3, 500, 7], n_rows)
    frame = pd.DataFrame(
        {
            "x": X[:, 0],
            "colour": pd.Categorical(colour, categories=["red", "", "blue", "green", "unused"]),
            "size": pd.Categorical(size),
            "z": X[:, 1].astype(np.float32),
        }
    )
    return frame, y + 2.0 * (colour == "blue") - 1.0 * pd.isna(colour) + (size == 7) * x_of(frame)


def x_of(frame):
    return np.nan_to_num(frame["x"].to_numpy())


FRAMES = {"enable_categorical": True, "max_cat_to_onehot": 1} | SMALL


def test_categories_of_a_data_frame():
    frame, y = frame_of()
    model = xgb.XGBRegressor(**FRAMES).fit(frame, y)
    forest = assert_exact(model, frame)
    assert forest.feature_names == ("x", "colour", "size", "z")
    assert set(forest.feature[forest.split_kind == 2].tolist()) == {1, 2}
    if KEEPS_NAMES:
        colours = ["red", "", "blue", "green", "unused", AnyOther.NAME]
        assert forest.categories[1].tolist() == colours
        assert forest.categories[2].tolist() == [-3, 7, 10, 500, AnyOther.NAME]
    # As the library reads it: by name where it has names, otherwise by the frame's own codes.
    other = frame.copy()
    order = ["green", "unused", "blue", "red", ""]
    other["colour"] = frame["colour"].cat.reorder_categories(order)
    assert_exact(model, other)
    same = np.array_equal(forest.apply(other), forest.apply(frame))
    assert same == KEEPS_NAMES
    with pytest.raises(ValueError, match="columns of X"):
        forest.apply(frame[["colour", "x", "size", "z"]])


@pytest.mark.skipif(KEEPS_NAMES, reason="these versions know names")
def test_strings_are_refused_where_only_codes_are_known():
    frame, y = frame_of()
    forest = Forest.from_model(xgb.XGBRegressor(**FRAMES).fit(frame, y))
    with pytest.raises(ValueError, match=r"column 'colour' by their codes"):
        forest.apply(frame.astype({"colour": object}))


@pytest.mark.skipif(not KEEPS_NAMES, reason="older versions know codes alone")
def test_names_of_categories():
    frame, y = frame_of()
    model = xgb.XGBRegressor(**FRAMES).fit(frame, y)
    forest = Forest.from_model(model)
    plain = frame.astype({"colour": object, "size": float})
    np.testing.assert_array_equal(forest.apply(plain), forest.apply(frame))
    # The library refuses a new name in a frame. Here it goes where any code goes that is in no set.
    codes = frame.assign(
        colour=frame["colour"].cat.codes.replace(-1, np.nan), size=frame["size"].cat.codes
    ).to_numpy(dtype=float)
    np.testing.assert_array_equal(
        forest.source_leaf[forest.apply(frame)], of_booster(model, codes, pred_leaf=True)
    )
    new = frame.assign(colour=pd.Categorical(["violet"] * len(frame)))
    with pytest.raises(xgb.core.XGBoostError):
        model.predict(new)
    codes[:, 1] = 99
    assert_same(
        forest,
        new,
        of_booster(model, codes, pred_leaf=True),
        of_booster(model, codes, output_margin=True),
    )
    missing = frame.assign(colour=pd.Categorical([None] * len(frame), categories=["red"]))
    assert_exact(model, missing)
    assert (forest.apply(missing) != forest.apply(new)).any()
    # Codes are no names.
    with pytest.raises(ValueError, match="knows its categories as 'red'"):
        forest.apply(codes)


@pytest.mark.skipif(not KEEPS_NAMES, reason="older versions know codes alone")
def test_names_that_the_library_does_not_keep_are_refused():
    # pandas' names are cut by the number of their letters.
    frame, y = frame_of()
    frame["colour"] = frame["colour"].cat.rename_categories({"green": "grün"})
    model = xgb.XGBRegressor(**FRAMES).fit(frame, y)
    with pytest.raises(TypeError, match="not ASCII"):
        Forest.from_model(model)


@pytest.mark.skipif(not KEEPS_NAMES, reason="older versions know codes alone")
def test_a_code_that_counts_as_missing_among_names():
    frame, y = frame_of()
    model = xgb.XGBRegressor(missing=1.0, **FRAMES).fit(frame, y)
    with pytest.raises(TypeError, match="missing=1"):
        Forest.from_model(model)
    model = xgb.XGBRegressor(missing=-1.0, **FRAMES).fit(frame, y)
    frame.loc[::4, "x"] = -1.0
    assert Forest.from_model(model).missing_values.keys() == {0, 3}
    assert_exact(model, frame)


@pytest.mark.skipif(not TAKES_POLARS, reason="these versions take no polars")
def test_categories_and_nulls_of_a_polars_frame():
    pl = pytest.importorskip("polars")
    frame, y = frame_of()
    colour = [None if pd.isna(c) else c for c in frame["colour"]]
    kind = pl.Enum(["green", "red", "blue", ""])
    table = pl.DataFrame({"x": x_of(frame), "colour": colour}, schema_overrides={"colour": kind})
    model = xgb.XGBRegressor(**FRAMES).fit(table, y)
    forest = assert_exact(model, table)
    assert forest.categories[1].tolist() == ["green", "red", "blue", "", AnyOther.NAME]


def test_classes():
    X, y = numbers_and_codes()
    for label in ((y > 0) * 1, np.digitize(y, [-1, 0, 1])):
        model = xgb.XGBClassifier(num_parallel_tree=2, **SMALL).fit(X, label)
        forest = assert_exact(model, X)
        assert forest.bare.classes.tolist() == model.classes_.tolist()
        scores = forest.bare_scores(X)
        found = scores.argmax(axis=1) if scores.shape[1] > 1 else scores[:, 0] > 0
        np.testing.assert_array_equal(found, model.predict(X))


def test_several_targets():
    X, y = numbers_and_codes()
    targets = np.column_stack([y, 5 - y, np.abs(y)])
    model = xgb.XGBRegressor(**SMALL).fit(X, targets)
    forest = assert_exact(model, X)
    np.testing.assert_allclose(forest.bare_scores(X), model.predict(X), rtol=1e-5, atol=1e-5)
    # Two labels of two classes each are not two classes.
    labels = xgb.XGBClassifier(**SMALL).fit(X, targets[:, :2] > 1)
    assert assert_exact(labels, X).bare.classes is None


def test_leaves_of_vectors_are_refused():
    X, y = numbers_and_codes()
    model = xgb.XGBRegressor(multi_strategy="multi_output_tree", **SMALL)
    with pytest.raises(TypeError, match="multi_output_tree"):
        Forest.from_model(model.fit(X, np.column_stack([y, -y])))


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_early_stopping(booster):
    X, y = numbers_and_codes()
    drop = {"rate_drop": 0.3} if booster == "dart" else {}
    model = xgb.XGBClassifier(
        n_estimators=60,
        learning_rate=0.9,
        early_stopping_rounds=3,
        n_jobs=1,
        booster=booster,
        num_parallel_tree=2,
        **drop,
    )
    label = np.digitize(y, [-1, 1])
    model.fit(X[:200], label[:200], eval_set=[(X[200:], label[200:])], verbose=False)
    n_rounds = model.get_booster().num_boosted_rounds()
    assert 0 < model.best_iteration + 1 < n_rounds
    forest = assert_exact(model, X)
    assert forest.n_trees == 6 * (model.best_iteration + 1)
    np.testing.assert_array_equal(forest.source_leaf[forest.apply(X)], model.apply(X))
    # A Booster uses all rounds unless it is told otherwise.
    assert assert_exact(model.get_booster(), X).n_trees == 6 * n_rounds


def test_random_forests():
    X, y = numbers_and_codes()
    for model, label in (
        (xgb.XGBRFRegressor(n_estimators=20, n_jobs=1), y),
        (xgb.XGBRFClassifier(n_estimators=20, n_jobs=1), np.digitize(y, [-1, 1])),
    ):
        forest = assert_exact(model.fit(X, label), X)
        assert forest.n_trees == 20 * len(forest.bare.base)


def test_pruned_nodes_are_left_out():
    X, y = numbers_and_codes()
    model = xgb.XGBRegressor(gamma=20.0, tree_method="exact", n_estimators=6, n_jobs=1).fit(X, y)
    n_deleted = sum(int(tree["tree_param"]["num_deleted"]) for tree in trees_of(model))
    n_nodes = sum(int(tree["tree_param"]["num_nodes"]) for tree in trees_of(model))
    assert n_deleted > 0
    forest = assert_exact(model, X)
    assert forest.n_nodes == n_nodes - n_deleted
    # Nothing is worth a split: trees of one leaf.
    model.set_params(gamma=1e9).fit(X, y)
    assert assert_exact(model, X).n_nodes == 6


@pytest.mark.filterwarnings("ignore::UserWarning")  # of a manual updater
def test_pruned_splits_of_categories_are_left_out():
    X, y = numbers_and_codes()
    data = xgb.DMatrix(X, y, feature_types=["q", "q", "c"], enable_categorical=True)
    params = {"nthread": 1, "max_depth": 5, "max_cat_to_onehot": 1}
    grown = xgb.train(params, data, 6)
    prune = params | {"process_type": "update", "updater": "prune", "gamma": 20.0}
    pruned = xgb.train(prune, data, 6, xgb_model=grown)
    forest = assert_exact(pruned, X)
    is_categorical = forest.split_kind == 2
    n_kept = sum(len(tree["categories_nodes"]) for tree in trees_of(pruned))
    assert 0 < is_categorical.sum() < n_kept
    assert forest.categories.keys() == {2}


def test_parts_and_further_rounds_of_a_booster():
    X, y = numbers_and_codes()
    model = xgb.XGBRegressor(**SMALL).fit(X, y)
    assert_exact(model.get_booster()[2:5], X)
    further = xgb.XGBRegressor(**SMALL).fit(X, -y, xgb_model=model.get_booster())
    assert assert_exact(further, X).n_trees == 16
    # A base margin of the rows is not the model's.
    offset = xgb.XGBRegressor(**SMALL).fit(X, y, base_margin=np.full(len(y), 7.0))
    assert_exact(offset, X)


def test_values_of_inner_nodes_are_means():
    X, y = numbers_and_codes()
    model = xgb.XGBClassifier(**SMALL).fit(X, y > 0)
    forest = Forest.from_model(model)
    at = np.arange(forest.n_nodes)
    cover = np.empty(forest.n_nodes)
    for tree, first in zip(trees_of(model), forest.roots, strict=True):
        own = at[first : first + len(tree["sum_hessian"])]
        cover[own] = np.array(tree["sum_hessian"])[forest.source_leaf[own]]
    leaf_cover = np.where(forest.is_leaf, cover, 0.0)
    total = forest.leaf_sums(leaf_cover * forest.bare.values[0])
    expected = total / forest.leaf_sums(leaf_cover)
    np.testing.assert_allclose(forest.bare.values[0], expected, rtol=1e-9, atol=1e-12)


def test_nodes_without_weight_have_finite_values():
    X, y = numbers_and_codes()
    booster = xgb.XGBRegressor(**SMALL).fit(X, y).get_booster()
    document = json.loads(booster.save_raw("json"))
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        tree["sum_hessian"] = [0.0] * len(tree["sum_hessian"])
    forest = assert_exact(xgb.Booster(model_file=bytearray(json.dumps(document).encode())), X)
    # Two leaves without any weight count alike.
    left = np.flatnonzero(~forest.is_leaf & forest.is_leaf[forest.left])
    left = left[forest.is_leaf[forest.right[left]]]
    values = forest.bare.values[0]
    mean = (values[forest.left[left]] + values[forest.right[left]]) / 2
    np.testing.assert_allclose(values[left], mean, rtol=1e-9, atol=1e-12)
    assert np.isfinite(values).all()


def test_what_has_no_trees_is_refused():
    X, y = numbers_and_codes()
    with pytest.raises(TypeError, match=r"XGBRegressor with booster='gblinear'"):
        Forest.from_model(xgb.XGBRegressor(booster="gblinear", n_jobs=1).fit(X, y))
    with pytest.raises(TypeError, match=r"Booster with booster='gblinear'"):
        Forest.from_model(xgb.train({"booster": "gblinear", "nthread": 1}, xgb.DMatrix(X, y), 2))
    for model in (xgb.XGBRegressor(), xgb.XGBClassifier(), xgb.Booster()):
        with pytest.raises(NotFittedError):
            Forest.from_model(model)
    with pytest.raises(NotFittedError):
        Forest.from_model(xgb.train({"nthread": 1}, xgb.DMatrix(X, y), 0))


@pytest.mark.parametrize("objective", ["rank:pairwise", "rank:ndcg", "rank:map"])
def test_rankings_are_refused(objective):
    X, y = numbers_and_codes()
    model = xgb.XGBRanker(objective=objective, **SMALL).fit(X, y > 0, qid=np.arange(len(y)) // 30)
    for ranks in (model, model.get_booster()):
        with pytest.raises(TypeError, match=f"{type(ranks).__name__} with objective '{objective}'"):
            Forest.from_model(ranks)


@pytest.mark.parametrize("version", ["1.7.6", "2.0.3", "4.0.0"])
def test_another_version_is_refused(monkeypatch, version):
    X, y = numbers_and_codes()
    model = xgb.XGBRegressor(**SMALL).fit(X, y)
    monkeypatch.setattr(xgb, "__version__", version)
    with pytest.raises(TypeError, match=f"XGBRegressor of XGBoost {version}"):
        Forest.from_model(model)


def saved_cases():
    for file in SAVED:
        for case in json.loads(gzip.decompress(file.read_bytes())):
            yield pytest.param(case, id=f"{file.name.split('.json')[0]}, {case['name']}")


@pytest.mark.parametrize("case", list(saved_cases()))
def test_saved_models_of_other_versions(case, tmp_path):
    written, text = tuple(case["model"]["version"]), json.dumps(case["model"])
    if written[:2] > VERSION:
        pytest.skip("saved by a newer version")
    model, rows = xgb.Booster(model_file=bytearray(text.encode())), case["rows"]
    if case["name"] == "frame":
        colours = ["red", "green", "blue", "black"]
        X = pd.DataFrame(rows, columns=["x0", "x1", "x2", "colour"])
        X["colour"] = pd.Categorical(X["colour"], categories=colours)
    else:
        X = np.array(rows, dtype=np.float64)
    forest = assert_exact(model, X)
    assert_same(forest, X, case["leaves"], case["margins"])
    if case["name"] == "frame" and written >= (3, 1):
        assert forest.categories[3].tolist() == [*colours, AnyOther.NAME]
    if "estimator" in case:
        file = tmp_path / "model.json"
        file.write_text(text)
        estimator = xgb.XGBRegressor()
        estimator.load_model(file)
        best = case["estimator"]
        assert_same(Forest.from_model(estimator), X, best["leaves"], best["margins"])


def test_there_are_saved_models():
    assert [file.name for file in SAVED] == [
        f"xgboost-{version}.json.gz" for version in ("2.1.4", "3.0.5", "3.1.3", "3.2.0")
    ]


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_treelite_finds_the_same_leaves(booster):
    treelite = pytest.importorskip("treelite")
    X, y = numbers_and_codes()
    drop = {"rate_drop": 0.3} if booster == "dart" else {}
    model = xgb.XGBRegressor(booster=booster, max_cat_to_onehot=1, **MIXED, **drop, **SMALL)
    model.fit(X, y)
    forest = Forest.from_model(model)
    rows = np.concatenate([X, beside_thresholds(forest, X)]).astype(np.float32)
    rows[:30, 2] = np.resize([99, np.nan, -1, 3, 0], 30)
    other = treelite.frontend.from_xgboost(model.get_booster())
    leaves = treelite.gtil.predict_leaf(other, rows)
    np.testing.assert_array_equal(forest.source_leaf[forest.apply(rows)], leaves)


def test_a_model_on_its_trees(tmp_path):
    frame, y = frame_of()
    if not KEEPS_NAMES:
        frame = frame.assign(
            colour=frame["colour"].cat.codes.replace(-1, np.nan), size=frame["size"].cat.codes
        )
    kinds = {} if KEEPS_NAMES else {"feature_types": ["q", "c", "c", "q"]}
    booster = xgb.XGBRegressor(**FRAMES, **kinds).fit(frame[:150], y[:150])
    model = KPPRegressor(FrozenEstimator(booster), regime="fixed", node_weight="uniform", alpha=0.1)
    model.fit(frame[150:], y[150:])
    # What a model keeps of a forest counts its leaves otherwise: rows share them as before.
    forest, leaves = model.collapse().forest, of_booster(booster, frame, pred_leaf=True)
    for own, theirs in zip(forest.apply(frame).T, leaves.T, strict=True):
        assert len(set(zip(own, theirs, strict=True))) == len(set(own)) == len(set(theirs))
    predicted = model.predict(frame)
    kpp.save(model, tmp_path / "model.kpp")
    np.testing.assert_array_equal(kpp.load(tmp_path / "model.kpp").predict(frame), predicted)
    row = frame.iloc[[0]]
    assert len(explain_rules(model, row).rules) > 0
    certificate = certify_raw(model, frame[:5], epsilon=0.5, free_categories=[1], effort=2000)
    assert (certificate.radius <= certificate.upper_radius).all()


@pytest.mark.parametrize("kinds", [None, ["q", "c", "c", "q"]], ids=["numbers", "codes"])
def test_grown_for_a_model(kinds):
    # Grown here on columns that are encoded first, as codes where the user asks for them.
    frame, y = frame_of()
    new = frame.assign(colour=pd.Categorical(["violet"] * len(frame)))
    own = xgb.XGBRegressor(feature_types=kinds, **FRAMES)
    model = KPPRegressor(own, regime="shared", alpha=1.0, random_state=0).fit(frame, y)
    assert np.isfinite(model.predict(new)).all()
    assert np.corrcoef(model.predict(frame), y)[0, 1] > 0.8
    forest = model.collapse().forest
    assert set(forest.feature[forest.split_kind == 2].tolist()) == {1, 2}
    assert set(forest.categories[1].tolist()) == {"red", "green", "blue", ""}


@pytest.mark.skipif(
    not is_classifier(xgb.XGBClassifier()), reason="scikit-learn takes it for no classifier"
)
def test_classifiers_grown_for_a_model():
    X, y = numbers_and_codes()
    label = np.digitize(y, [-1, 1])
    for own in (label > 0, label):
        model = KPPClassifier(xgb.XGBClassifier(**SMALL), alpha=1e-3, random_state=0)
        assert (model.fit(X, own).predict(X) == own).mean() > 0.8
