"""KPPEmbedding as a scikit-learn transformer."""

import pickle

import numpy as np
import pytest
from sklearn import set_config
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from kpp import Forest, KPPEmbedding, path_distance
from kpp.geometry import BlockMap, path_weights


def expected_failures(estimator):
    if estimator.forest == "random-forest":
        # A bootstrap draws other rows when rows are repeated instead of weighted; scikit-learn's
        # own forests fail this check too.
        return {"check_sample_weight_equivalence_on_dense_data": "the bootstrap draws rows"}
    if estimator.forest == "boosted":
        return {"check_sample_weight_equivalence_on_dense_data": "min_samples_leaf counts rows"}
    return {}


@parametrize_with_checks(
    [
        KPPEmbedding(n_estimators=5),
        KPPEmbedding("random-forest", n_estimators=5, normalize="tree"),
        KPPEmbedding("boosted", n_estimators=3),
        KPPEmbedding(n_estimators=5, leaf_weight=1.0, node_weight="uniform"),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_isometry_on_real_pairs(iris):
    X, y = iris
    model = KPPEmbedding(n_estimators=30, random_state=0).fit(X, y)
    phi = model.transform(X).toarray()
    squared = ((phi[:, None] - phi[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(squared, path_distance(model, X), atol=1e-14)


def test_the_default_is_the_papers_map(iris):
    X, y = iris
    model = KPPEmbedding(random_state=3).fit(X, y)
    forest = Forest.from_model(ExtraTreesClassifier(100, random_state=3).fit(X, y))
    assert np.array_equal(model.forest_.threshold, forest.threshold, equal_nan=True)
    weights = path_weights(forest, "gain")
    assert np.array_equal(model.map_.weights.edge, weights.edge)
    assert model.map_.shape == (0, forest.n_nodes)


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (np.repeat(["a", "b", "c"], 50), "classification"),
        (np.repeat([True, False], 75), "classification"),
        (np.repeat([0, 1, 2], 50), "classification"),
        (np.repeat([0.0, 1.0], 75), "classification"),
        (np.repeat([0.0, 1.0, 2.0], 50), "regression"),
        (np.arange(150), "regression"),
        (np.linspace(0, 1, 150), "regression"),
        (np.arange(300.0).reshape(150, 2), "regression"),
        (np.arange(150.0)[:, None], "regression"),
        (None, "unsupervised"),
    ],
)
def test_the_task_follows_from_y(iris, y, task):
    model = KPPEmbedding(n_estimators=3, random_state=0).fit(iris[0], y)
    assert model.task_ == task
    source = {
        "classification": "ExtraTreesClassifier",
        "regression": "ExtraTreesRegressor",
        "unsupervised": "RandomTreesEmbedding",
    }
    assert model.forest_.source == source[task]


def test_without_y_trees_are_totally_random_and_weights_uniform(iris):
    X, _ = iris
    model = KPPEmbedding(n_estimators=5, random_state=0).fit(X)
    same = Forest.from_model(RandomTreesEmbedding(5, random_state=0).fit(X))
    assert np.array_equal(model.forest_.threshold, same.threshold, equal_nan=True)
    assert np.array_equal(model.map_.weights.node, ~same.is_leaf)
    with pytest.raises(ValueError, match="node_weight='entropy' needs statistics"):
        KPPEmbedding(node_weight="entropy").fit(X)


def test_names_of_forests(iris):
    X, y = load_diabetes(return_X_y=True)
    model = KPPEmbedding("random-forest", n_estimators=4, random_state=0).fit(X, y)
    same = RandomForestRegressor(4, max_features=1 / 3, random_state=0).fit(X, y)
    assert np.array_equal(model.forest_.source_leaf[model.apply(X)], same.apply(X))
    boosted = KPPEmbedding("boosted", n_estimators=4).fit(X, y)
    assert boosted.forest_.n_trees == 4
    assert boosted.forest_.source == "HistGradientBoostingRegressor"
    for name in ("auto", "forest"):
        with pytest.raises(ValueError, match=r"forest must be one of 'extra-trees'.*boosted"):
            KPPEmbedding(name).fit(*iris)


def test_an_estimator_is_cloned_and_its_seed_wins(iris):
    X, y = iris
    given = RandomForestClassifier(4, random_state=7)
    model = KPPEmbedding(given, random_state=0).fit(X, y)
    assert not hasattr(given, "estimators_")
    expected = clone(given).fit(X, y)
    assert np.array_equal(model.forest_.source_leaf[model.apply(X)], expected.apply(X))
    unseeded = RandomForestClassifier(4)
    model = KPPEmbedding(unseeded, random_state=5).fit(X, y)
    expected = RandomForestClassifier(4, random_state=5).fit(X, y)
    assert np.array_equal(model.forest_.source_leaf[model.apply(X)], expected.apply(X))
    assert unseeded.random_state is None


def test_frozen_and_flat_forests_are_used_as_they_are(iris):
    X, y = iris
    fitted = RandomForestClassifier(4, random_state=0).fit(X[::2], y[::2])
    forest = Forest.from_model(fitted)
    by_forest = KPPEmbedding(forest).fit(X)
    assert by_forest.task_ == "classification"
    by_frozen = KPPEmbedding(FrozenEstimator(fitted)).fit(X)
    assert by_forest.forest_ is forest
    assert (by_forest.transform(X) != by_frozen.transform(X)).nnz == 0
    # With its own statistics a forest needs no y: the weight is the gain, not uniform.
    assert np.array_equal(by_forest.map_.weights.node, path_weights(forest, "gain").node)
    with pytest.raises(ValueError, match="X has 3 features, but the given forest is expecting 4"):
        KPPEmbedding(forest).fit(X[:, :3])


def test_unsupervised_estimators(iris):
    X, y = iris
    for forest in (IsolationForest(n_estimators=5, random_state=0), RandomTreesEmbedding(5)):
        assert KPPEmbedding(forest).fit(X).task_ == "unsupervised"
        supervised = KPPEmbedding(forest).fit(X, y)
        assert supervised.map_.weights.node.max() < 1  # gains of y, no longer uniform
    with pytest.raises(ValueError, match="RandomForestClassifier is grown on a target, and y is"):
        KPPEmbedding(RandomForestClassifier()).fit(X)


def test_several_forests(iris):
    X, y = iris
    blocks = [("trees", "extra-trees"), ("more", "extra-trees"), ("hist", "boosted")]
    model = KPPEmbedding(blocks, n_estimators=3, random_state=0).fit(X, y)
    assert [name for name, _ in model.forest_] == ["trees", "more", "hist"]
    assert isinstance(model.map_, BlockMap)
    phi = model.transform(X)
    assert phi.shape[1] == sum(forest.n_nodes for _, forest in model.forest_)
    assert model.get_feature_names_out()[0] == "trees__kpp_t0_n0"
    assert model.apply(X).shape == (150, 3 + 3 + 9)
    first, second = model.forest_[0][1], model.forest_[1][1]
    assert not np.array_equal(first.threshold, second.threshold, equal_nan=True)
    again = clone(model).fit(X, y)
    assert (again.transform(X) != phi).nnz == 0
    for wrong in ([], ["extra-trees"], [("a", "extra-trees", 3)]):
        with pytest.raises(ValueError, match=r"must hold \(name, forest\) pairs"):
            KPPEmbedding(wrong).fit(X, y)


def test_sample_weights_reach_the_forest_and_the_node_weights(iris):
    X, y = iris
    weight = np.where(y == 2, 0.0, 1.0)
    model = KPPEmbedding(n_estimators=5, random_state=0).fit(X, y, weight)
    assert model.forest_.statistics.class_share[:, 2].max() == 0
    # A given forest without statistics of its own: the weights reach their estimate.
    given = Forest.from_model(HistGradientBoostingClassifier(max_iter=3).fit(X, y))
    weighted = KPPEmbedding(given).fit(X, y, weight)
    removed = KPPEmbedding(given).fit(X[y < 2], y[y < 2])
    np.testing.assert_allclose(weighted.map_.weights.node, removed.map_.weights.node, atol=1e-15)
    assert not np.allclose(
        weighted.map_.weights.node, KPPEmbedding(given).fit(X, y).map_.weights.node
    )
    with pytest.raises(ValueError, match="must not be negative"):
        KPPEmbedding().fit(X, y, -weight)


def test_in_pipelines_with_its_csr(iris):
    X, y = iris
    model = KPPEmbedding(n_estimators=20, random_state=0)
    assert make_pipeline(model, KMeans(3, n_init=1, random_state=0)).fit(X, y).predict(X).shape
    scores = cross_val_score(
        make_pipeline(model, TruncatedSVD(10, random_state=0), LogisticRegression(C=1e3)), X, y
    )
    assert scores.mean() > 0.9
    phi = model.fit_transform(X, y)
    distances, neighbours = NearestNeighbors(n_neighbors=4).fit(phi).kneighbors(phi)
    exact = path_distance(model, X)
    np.testing.assert_allclose(distances**2, np.sort(exact, axis=1)[:, :4], atol=1e-12)
    np.testing.assert_allclose(
        np.take_along_axis(exact, neighbours, axis=1), distances**2, atol=1e-12
    )


def test_grid_search_reaches_the_forest(iris):
    X, y = iris
    search = GridSearchCV(
        make_pipeline(KPPEmbedding(ExtraTreesClassifier(5)), LogisticRegression(C=1e3)),
        {
            "kppembedding__node_weight": ["gain", "uniform"],
            "kppembedding__forest__max_depth": [2, None],
            "kppembedding__random_state": [0],
        },
        cv=3,
    ).fit(X, y)
    assert search.best_score_ > 0.9


@pytest.mark.parametrize("frames", ["pandas", "polars"])
def test_data_frames(iris, frames):
    library = pytest.importorskip(frames)
    X, y = iris
    frame = library.DataFrame({name: X[:, j] for j, name in enumerate("abcd")})
    model = KPPEmbedding(n_estimators=4, random_state=0).fit(frame, y)
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.forest_.feature_names == tuple("abcd")
    plain = KPPEmbedding(n_estimators=4, random_state=0).fit(X, y)
    assert (model.transform(frame) != plain.transform(X)).nnz == 0
    with pytest.raises(ValueError):
        model.transform(frame[["b", "a", "c", "d"]])


def test_categorical_columns(iris):
    pd = pytest.importorskip("pandas")
    X, y = iris
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["e"] = pd.Categorical(np.where(np.arange(150) % 3 == 0, "x", "y"))
    for forest in ("boosted", "extra-trees"):
        model = KPPEmbedding(forest, n_estimators=3).fit(frame, y)
        assert model.transform(frame).shape[0] == 150
        assert list(model.forest_.categories) == [4]


def test_what_only_a_histogram_forest_takes(iris):
    X, y = iris
    X = X.copy()
    X[0, 0] = np.inf
    assert KPPEmbedding("boosted", n_estimators=3).fit(X, y).transform(X).shape[0] == 150
    mixed = np.column_stack([X.astype(object), np.where(y == 0, "low", "high")])
    forest = HistGradientBoostingRegressor(max_iter=3, categorical_features=[4])
    model = KPPEmbedding(forest).fit(mixed, 10.0 * (y == 0) + X[:, 1])
    assert (model.forest_.split_kind == 2).any()
    assert model.transform(mixed).shape[0] == 150


def test_weights_without_a_target_do_not_ask_for_one(iris):
    X, _ = iris
    forest = Forest.from_model(RandomTreesEmbedding(3, random_state=0).fit(X))
    labels = np.array([["a", "b"]] * 150)  # no target that statistics could be computed from
    for weight in ("uniform", np.where(forest.is_leaf, 0.0, 2.0)):
        model = KPPEmbedding(forest, node_weight=weight).fit(X, labels)
        assert model.map_.weights.node.max() in (1.0, 2.0)


def test_missing_values(iris):
    X, y = iris
    X = X.copy()
    X[::5, 2] = np.nan
    for name in ("extra-trees", "random-forest", "boosted"):
        model = KPPEmbedding(name, n_estimators=4, random_state=0).fit(X, y)
        assert model.transform(X).shape[0] == 150


def test_output_containers(iris):
    X, y = iris
    model = KPPEmbedding(n_estimators=2, random_state=0).set_output(transform="pandas")
    with pytest.raises(ValueError):
        model.fit_transform(X, y)
    table = ColumnTransformer([("kpp", KPPEmbedding(n_estimators=2), [0, 1])]).fit(X, y)
    assert table.get_feature_names_out()[0] == "kpp__kpp_t0_n0"


def test_bit_identical_for_any_number_of_threads():
    X, y = load_breast_cancer(return_X_y=True)
    one = KPPEmbedding(n_estimators=20, n_jobs=1, random_state=0).fit(X, y)
    two = KPPEmbedding(n_estimators=20, n_jobs=2, random_state=0).fit(X, y)
    assert np.array_equal(one.transform(X).data, two.transform(X).data)
    r = np.linspace(0, 1, len(X))
    assert np.array_equal(one.map_.on(X).gram_matvec(r), two.map_.on(X).gram_matvec(r))


def test_pickle(iris):
    X, y = iris
    model = KPPEmbedding(n_estimators=3, random_state=0).fit(X, y)
    other = pickle.loads(pickle.dumps(model))
    assert (other.transform(X) != model.transform(X)).nnz == 0


def test_parameters_reach_the_map(iris):
    X, y = iris
    model = KPPEmbedding(n_estimators=4, normalize="tree", n_jobs=2, random_state=0).fit(X, y)
    forest, n_trees = model.forest_, 4
    assert model.map_.n_jobs == 2
    phi = model.transform(X).toarray()
    for t in range(n_trees):
        nodes = slice(forest.tree_offsets[t], forest.tree_offsets[t + 1])
        weights = path_weights(forest)
        squared = (phi[:, nodes] ** 2).max(axis=0) * n_trees * weights.tree_mass[t]
        np.testing.assert_allclose(squared, weights.edge[nodes], atol=1e-14)
    heavy = KPPEmbedding(n_estimators=4, leaf_weight=2.5, random_state=0).fit(X, y)
    assert np.array_equal(
        heavy.map_.weights.node[heavy.forest_.is_leaf] == 2.5,
        np.ones(heavy.forest_.is_leaf.sum(), dtype=bool),
    )


@pytest.mark.parametrize(
    ("dtype", "task"),
    [
        ("Int64", "classification"),
        ("boolean", "classification"),
        ("Float64", "regression"),
        ("object", "classification"),
        ("category", "classification"),
        ("string", "classification"),
    ],
)
def test_targets_in_pandas_types(iris, dtype, task):
    pd = pytest.importorskip("pandas")
    X, y = iris
    series = pd.Series(y == 1 if dtype == "boolean" else y).astype(dtype)
    model = KPPEmbedding(n_estimators=2, random_state=0).fit(X, series)
    assert model.task_ == task
    if dtype == "Int64":
        assert model.forest_.statistics.classes.tolist() == [0, 1, 2]


def test_a_supervised_forest_without_statistics_asks_for_y(iris):
    X, y = iris
    given = Forest.from_model(HistGradientBoostingClassifier(max_iter=3).fit(X, y))
    with pytest.raises(ValueError, match=r"give y.*or use node_weight='uniform'"):
        KPPEmbedding(given).fit(X)


def test_a_failed_fit_leaves_the_old_one(iris):
    X, y = iris
    model = KPPEmbedding(n_estimators=3, random_state=0).fit(X, y)
    before = model.forest_
    with pytest.raises(ValueError, match="S_T = 0"):
        model.fit(X[:, :3], np.ones(150))
    assert model.transform(X).shape[0] == 150
    with pytest.raises(ValueError, match="S_T = 0"):
        model.set_params(node_weight=lambda f, s: np.zeros(f.n_nodes)).fit(X, y)
    assert model.forest_ is before


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((10, 2)), np.arange(10), "S_T = 0: none of the 3 trees has a split"),
        (np.arange(20.0).reshape(10, 2), np.ones(10), "S_T = 0"),
        (np.arange(20.0).reshape(10, 2), np.arange(9), "X has 10 rows, but y has 9"),
        (np.arange(20.0).reshape(10, 2), np.full(10, np.nan), None),
        (np.empty((0, 2)), np.empty(0), None),
        (np.full((10, 2), np.inf), np.arange(10), None),
        ([["a", "b"]] * 10, np.arange(10), "give a data frame"),
        (np.zeros((4, 2)), np.array([["a", "b"]] * 4), "one column"),
    ],
)
def test_bad_input(X, y, message):
    with pytest.raises(ValueError, match=message):
        KPPEmbedding(n_estimators=3, random_state=0).fit(X, y)


def test_one_row():
    with pytest.raises(ValueError, match=r"1 sample.*at least 2"):
        KPPEmbedding(n_estimators=3).fit([[1.0, 2.0]], [1.0])
    X, y = load_iris(return_X_y=True)
    forest = Forest.from_model(ExtraTreesClassifier(3, random_state=0).fit(X, y))
    assert KPPEmbedding(forest).fit(X[:1]).transform(X[:1]).shape == (1, forest.n_nodes)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"coordinates": "nodes"}, "coordinates must be one of 'path', 'leaf'; got 'nodes'"),
        ({"normalize": None}, "normalize must be one of 'forest', 'tree'; got None"),
        ({"coordinates": "leaf", "leaf_weight": 1.0}, "leaf_weight belongs to"),
        ({"node_weight": "gini"}, "node_weight must be one of"),
        ({"n_estimators": 0}, None),
    ],
)
def test_bad_parameters(iris, parameters, message):
    with pytest.raises(ValueError, match=message):
        KPPEmbedding(**({"n_estimators": 2} | parameters)).fit(*iris)


@pytest.mark.parametrize("forest", [3, None, ExtraTreesRegressor, object()])
def test_what_is_no_forest(iris, forest):
    with pytest.raises(TypeError, match="forest must be a name, an ensemble"):
        KPPEmbedding(forest).fit(*iris)


def test_an_estimator_that_is_no_forest(iris):
    with pytest.raises(TypeError, match="Cannot read a forest from Ridge"):
        KPPEmbedding(Ridge()).fit(*iris)


def test_a_frozen_model_of_another_kind_of_frame(iris):
    X, y = iris
    frozen = FrozenEstimator(HistGradientBoostingRegressor(max_iter=2).fit(X, y))
    assert KPPEmbedding(frozen, node_weight="uniform").fit(X).forest_.n_trees == 2


def test_unfitted(iris):
    with pytest.raises(NotFittedError):
        KPPEmbedding().transform(iris[0])
    with pytest.raises(NotFittedError):
        KPPEmbedding().get_feature_names_out()


def test_metadata_routing(iris):
    X, y = iris
    weight = np.where(y == 2, 0.0, 1.0)
    set_config(enable_metadata_routing=True)
    try:
        step = KPPEmbedding(n_estimators=3, random_state=0).set_fit_request(sample_weight=True)
        pipe = make_pipeline(step, LogisticRegression().set_fit_request(sample_weight=False))
        pipe.fit(X, y, sample_weight=weight)
    finally:
        set_config(enable_metadata_routing=False)
    assert pipe[0].forest_.statistics.class_share[:, 2].max() == 0
