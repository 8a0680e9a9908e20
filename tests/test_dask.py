"""`kpp.dask` on a real cluster of processes: the answers of one machine, and lazy maps."""

import dask.array as da
import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pytest
from dask_help import N_ROWS, cluster_of, given_forest, numbers
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import PredefinedSplit, cross_val_score

import kpp
from kpp import KPPClassifier, KPPRegressor
from kpp._checks import RefusedError
from kpp.dask import DaskKPPClassifier, DaskKPPRegressor
from kpp.dask.rows import Partitions
from kpp.dask.session import Session

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::UserWarning:distributed"
)


@pytest.fixture(scope="module")
def workers():
    with cluster_of(1) as (cluster, client):
        yield cluster, client


@pytest.fixture
def client(workers):
    return workers[1]


def test_a_given_forest_gives_the_fit_of_one_machine_for_any_workers_and_partitions(workers):
    cluster, client = workers
    X, y, weight = numbers()
    forest = given_forest(X, y)
    alone = KPPRegressor(forest, regime="fixed", alpha=10.0, tol=1e-10).fit(X, y, weight)
    for n_workers, chunks in ((1, (N_ROWS,)), (2, (100, 0, 350, 250)), (3, (175,) * 4)):
        cluster.scale(n_workers)
        client.wait_for_workers(n_workers)
        rows = da.from_array(X, chunks=(chunks, 4))
        model = DaskKPPRegressor(forest, alpha=10.0, tol=1e-10, client=client)
        model.fit(rows, da.from_array(y, chunks=200), da.from_array(weight, chunks=N_ROWS))
        assert_allclose(model.model_.predict(X), alone.predict(X), rtol=0, atol=1e-9)
        assert_allclose(model.model_.dual_coef_, alone.dual_coef_, rtol=0, atol=1e-7)
        assert_array_equal(model.model_.apply(X), alone.apply(X))
        assert model.model_.n_iter_ == alone.n_iter_
        assert_allclose(model.predict(rows).compute(), alone.predict(X), rtol=0, atol=1e-9)
    cluster.scale(2)


def test_alpha_is_that_of_one_machine_on_the_same_folds(client, tmp_path):
    X, y, _ = numbers()
    forest = given_forest(X, y)
    fold = np.arange(N_ROWS) % 3
    grid = [0.03, 0.3, 3.0]
    alone = KPPRegressor(forest, regime="fixed", cv=PredefinedSplit(fold), alphas=grid).fit(X, y)
    rows, target = da.from_array(X, chunks=(300, 4)), da.from_array(y, chunks=300)
    model = DaskKPPRegressor(forest, alphas=grid, client=client)
    model.fit(rows, target, folds=da.from_array(fold, chunks=300))
    local = model.to_local()
    assert local.alpha_ == pytest.approx(alone.alpha_, rel=1e-12)
    assert_allclose(local.cv_scores_, alone.cv_scores_, rtol=1e-3)
    best = int(np.argmax(alone.cv_scores_))
    assert local.cv_scores_[best] == pytest.approx(alone.cv_scores_[best], rel=1e-9)
    assert_allclose(local.oof_prediction_, alone.oof_prediction_, rtol=0, atol=1e-9)
    ours, theirs = local.predict_interval(X[:9]), alone.predict_interval(X[:9])
    assert_allclose(ours.lower, theirs.lower, rtol=0, atol=1e-8)
    lazy = model.predict_interval(rows).compute()
    assert_allclose(lazy[:9, 1], theirs.upper, rtol=0, atol=1e-8)
    # An ordinary model: it saves and comes back.
    assert type(local) is KPPRegressor
    kpp.save(local, tmp_path / "model.kpp")
    back = kpp.load(tmp_path / "model.kpp")
    assert_array_equal(back.predict(X), local.predict(X))
    assert_array_equal(back.predict_interval(X[:9]).lower, ours.lower)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_are_those_of_one_machine_and_answers_keep_their_index(client, n_classes):
    X, y, _ = numbers()
    names = np.array(["low", "middle", "high"])[:n_classes]
    labels = names[np.digitize(y, [0.0, 1.0][: n_classes - 1])]
    frame = pd.DataFrame(X, columns=list("abcd"), index=np.arange(N_ROWS) * 2)
    forest = given_forest(X, labels)
    options = {"alpha": 1e-3, "tol": 1e-7, "class_weight": "balanced"}
    alone = KPPClassifier(forest, regime="fixed", **options).fit(frame, labels)
    rows = dd.from_pandas(frame, npartitions=3)
    target = dd.from_pandas(pd.Series(labels, index=frame.index), npartitions=3)
    model = DaskKPPClassifier(forest, client=client, **options).fit(rows, target)
    assert_array_equal(model.classes_, alone.classes_)
    found = model.predict_proba(rows)
    assert list(found.columns) == alone.classes_.tolist() == list(found._meta.columns)
    found = found.compute()
    assert_array_equal(found.index, frame.index)
    # The solver stops at 1e-7 of the objective: probabilities agree to about its root.
    assert_allclose(found, alone.predict_proba(frame), rtol=0, atol=1e-4)
    predicted = model.predict(rows)
    assert predicted._meta.dtype == predicted.compute().dtype
    assert (predicted.compute() == alone.predict(frame)).mean() > 0.99
    if n_classes == 2:
        share = model.explain(rows).compute()
        whole = kpp.explain(model.model_, frame)
        assert_allclose(share, whole.values, rtol=0, atol=1e-12)
        assert list(share.columns) == list("abcd")
        radius = model.certify(rows).compute()
        assert_allclose(radius, kpp.certify(model.model_, frame).radius, rtol=1e-12)
        # Lazy answers are columns of a pipeline.
        both = rows.assign(guess=predicted).groupby("guess").size().compute()
        assert both.sum() == N_ROWS


def test_the_same_seed_grows_the_same_trees_on_the_same_partitions(client):
    X, y, _ = numbers()
    rows, target = da.from_array(X, chunks=(175, 4)), da.from_array(y, chunks=175)
    options = {"n_estimators": 6, "alpha": 1.0, "client": client}
    one = DaskKPPRegressor(random_state=3, **options).fit(rows, target).to_local()
    two = DaskKPPRegressor(random_state=3, **options).fit(rows, target).to_local()
    for name in ("feature", "threshold", "parent"):
        assert_array_equal(getattr(one.forest_, name), getattr(two.forest_, name))
    assert_array_equal(one.predict(X), two.predict(X))
    assert one.forest_.n_trees == 6
    # A tree has the rows of one partition, or of as many as were asked for.
    assert_array_equal(one.forest_.statistics.count[one.forest_.roots], 175)
    wide = DaskKPPRegressor(random_state=4, partitions_per_tree=4, **options).fit(rows, target)
    forest = wide.model_.forest_
    assert_array_equal(forest.statistics.count[forest.roots], N_ROWS)


def test_groups_of_trees_do_not_see_their_fold(client):
    X, _, _ = numbers()
    # On noise nothing is to be won by trees that have not seen it, and much by those that have.
    noise = np.random.default_rng(1).normal(size=N_ROWS)
    rows, target = da.from_array(X, chunks=(175, 4)), da.from_array(noise, chunks=175)
    model = DaskKPPRegressor(n_estimators=6, cv=2, alphas=[0.1], random_state=3, client=client)
    local = model.fit(rows, target).to_local()
    assert np.mean((local.oof_prediction_ - noise) ** 2) > 0.95 * noise.var()
    assert np.mean((local.predict(X) - noise) ** 2) < 0.9 * noise.var()
    assert local.regime_ == "shared"
    forest = local.forest_
    assert forest.statistics.count[forest.roots].max() <= 175 / 2 + 1
    fold = local.fold_predictors_.fold_of_row
    assert abs(np.bincount(fold) - N_ROWS / 2).max() <= 4


def test_partitions_that_differ_are_named_and_shuffled_rows_do_not(client):
    X, y, _ = numbers()
    order = np.argsort(X[:, 2])
    frame = pd.DataFrame(X[order], columns=["a", "b", "sorted", "d"])
    rows = dd.from_pandas(frame, npartitions=4)
    target = dd.from_pandas(pd.Series(y[order]), npartitions=4)
    options = {"n_estimators": 4, "alpha": 0.1, "random_state": 0, "client": client}
    with pytest.warns(UserWarning, match=r"'sorted'.*shuffle=True"):
        DaskKPPRegressor(**options).fit(rows, target)
    model = DaskKPPRegressor(shuffle=True, **options).fit(rows, target).to_local()
    forest = model.forest_
    # Every tree has seen rows of all partitions: splits on the sorted column are on both sides.
    at = forest.threshold[forest.feature == 2]
    assert at.min() < np.quantile(X[:, 2], 0.25)
    assert at.max() > np.quantile(X[:, 2], 0.75)
    roots = forest.statistics.count[forest.roots]
    assert_array_equal(np.sort(roots), [175] * 4)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_boosters_are_grown_by_their_own_dask_learners(client, library):
    X, y, _ = numbers()
    rows, target = da.from_array(X, chunks=(350, 4)), da.from_array(y, chunks=350)
    model = DaskKPPRegressor(library, n_estimators=8, alpha=0.1, random_state=0, client=client)
    local = model.fit(rows, target).to_local()
    assert local.forest_.n_trees == 8
    # Statistics of the nodes are of all rows, wherever they are.
    alone = KPPRegressor(local.forest_, regime="fixed", node_weight="uniform", alpha=0.1)
    assert local.score(X, y) > 0.5
    from kpp.forest.statistics import node_statistics
    from kpp.geometry.weights import path_weights

    statistics = node_statistics(local.forest_, X, y, classification=False)
    expected = path_weights(local.forest_, "gain", statistics=statistics)
    assert_allclose(local.map_.weights.node, expected.node, rtol=1e-9, atol=1e-12)
    assert alone.fit(X, y).map_.shape == local.map_.shape


def test_a_blend_learns_weights_of_layers_that_were_fitted_on_workers(client, tmp_path):
    X, y, _ = numbers()
    rows, target = da.from_array(X, chunks=(350, 4)), da.from_array(y, chunks=350)
    forests = [("trees", "extra-trees"), ("boosted", "lightgbm")]
    model = DaskKPPRegressor(
        forests, n_estimators=6, alpha=0.5, cv=2, random_state=0, client=client
    )
    local = model.fit(rows, target).to_local()
    assert set(local.blend_weights_) == {"trees", "trees, bare", "boosted", "boosted, bare"}
    assert min(local.blend_weights_.values()) >= 0
    # The blend is the sum of its parts, and scores rows that no part has seen.
    parts = sum(
        fit.share * fit.scores(fit.part.make()) for fit in [*local.fits_, *local.bare_fits_]
    )[:, 0]
    constant = local.predict(X) - parts
    assert_allclose(constant, constant[0], rtol=0, atol=1e-9)
    own = local.fold_predictors_.scores(local.at(X))
    chosen = own[local.fold_predictors_.fold_of_row, np.arange(N_ROWS), 0]
    assert_allclose(chosen, local.oof_prediction_, rtol=0, atol=1e-9)
    single = DaskKPPRegressor("extra-trees", n_estimators=6, alpha=0.5, random_state=0)
    assert local.blend_score_ > -np.mean((y - y.mean()) ** 2) * 0.7
    kpp.save(local, tmp_path / "model.kpp")
    assert_allclose(kpp.load(tmp_path / "model.kpp").predict(X), local.predict(X), rtol=1e-12)
    with pytest.raises(ValueError, match="keep_rows"):
        single.set_params(forest="blend", keep_rows=False, client=client).fit(rows, target)


def test_a_model_may_leave_its_rows_behind(client, tmp_path):
    X, y, weight = numbers()
    rows, target = da.from_array(X, chunks=(350, 4)), da.from_array(y, chunks=350)
    forest = given_forest(X, y)
    model = DaskKPPRegressor(forest, alpha=1.0, keep_rows=False, tol=1e-10, client=client)
    local = model.fit(rows, target).to_local()
    alone = KPPRegressor(forest, regime="fixed", alpha=1.0, tol=1e-10).fit(X, y)
    assert local.map_.shape[0] == 0
    assert_allclose(local.predict(X), alone.predict(X), rtol=0, atol=1e-9)
    assert_allclose(kpp.explain(local, X).values, kpp.explain(alone, X).values, rtol=0, atol=1e-9)
    # How many rows are in each leaf is what it keeps of them; that has the means over rows.
    weighed = model.set_params(tol=1e-4).fit(rows, target, da.from_array(weight, chunks=350))
    alone.set_params(tol=1e-4).fit(X, y, weight)
    back = kpp.load(kpp.save(weighed.to_local(), tmp_path / "model.kpp"))
    assert back.left_rows_.n_rows == N_ROWS
    assert_allclose(back.feature_importances_, alone.feature_importances_, rtol=1e-3)
    ours, theirs = (kpp.explain(m, X[:9], centered=True) for m in (back, alone))
    assert_allclose(ours.baseline, theirs.baseline, rtol=1e-6)
    with pytest.raises(RefusedError, match=r"explain_training_rows.*keep_rows"):
        kpp.explain_training_rows(back, X[0])


def test_diagnose_has_a_row_for_every_partition(client):
    X, y, _ = numbers()
    new_X, new_y, _ = numbers(300, seed=5)
    forest = given_forest(X, y)
    model = DaskKPPRegressor(forest, alpha=0.05, client=client)
    model.fit(da.from_array(X, chunks=(350, 4)), da.from_array(y, chunks=350))
    table = model.diagnose(da.from_array(new_X, chunks=(150, 4)), da.from_array(new_y, chunks=150))
    found = table.compute()
    assert list(table._meta.columns) == list(found.columns)
    assert found["n_rows"].tolist() == [150.0, 150.0]
    expected = kpp.diagnose(model.model_, new_X[:150], new_y[:150])
    assert found["trace_per_row"].iloc[0] == pytest.approx(expected["trace_per_row"])


def test_rows_on_workers_compute_what_numpy_does(client):
    random = np.random.default_rng(0)
    whole = random.normal(size=(50, 3))
    session = Session(client)
    parts = Partitions(session, [20, 0, 30])
    cut = [whole[:20], whole[20:20], whole[20:]]
    rows = parts.rows(session.each("test", np.asarray, cut), whole[:0])
    assert_allclose((2 * rows - rows[:, 1][:, None] / 3).collect(), 2 * whole - whole[:, [1]] / 3)
    changed = rows.copy()
    changed -= 1.0
    np.multiply(changed, changed, out=changed)
    assert_allclose(changed.collect(), (whole - 1) ** 2)
    assert_allclose(rows.collect(), whole)  # a copy is another array
    first = rows[:, 0]
    assert float(first @ first) == pytest.approx(whole[:, 0] @ whole[:, 0])
    assert_allclose(np.asarray(first @ rows), whole[:, 0] @ whole)
    assert_allclose(np.einsum("i,ij->j", first, rows), whole[:, 0] @ whole)
    assert_allclose(rows.min(axis=0), whole.min(axis=0))
    stacked = np.stack([first, rows[:, 2]])
    assert stacked.shape == (2, 50)
    assert_allclose(stacked[1].collect(), whole[:, 2])
    assert rows.any()
    assert not parts.zeros((50, 2)).any()
    with pytest.raises(TypeError, match="collect"):
        np.asarray(rows)
    with pytest.raises(TypeError):
        rows[3]
    with pytest.raises(TypeError):
        first + np.ones(50)
    session.close()


def test_joblib_on_dask_takes_the_ordinary_estimators(client):
    X, y, _ = numbers(200)
    model = KPPRegressor("extra-trees", n_estimators=5, alpha=0.1, random_state=0)
    alone = cross_val_score(model, X, y, cv=2)
    with joblib.parallel_config("dask", client=client):
        assert_allclose(cross_val_score(model, X, y, cv=2, n_jobs=2), alone, rtol=1e-12)


def test_what_is_not_supported_is_refused_by_name(client):
    X, y, _ = numbers(60)
    rows, target = da.from_array(X, chunks=(30, 4)), da.from_array(y, chunks=30)
    with pytest.raises(TypeError, match="KPPRegressor"):
        DaskKPPRegressor(client=client).fit(X, y)
    given = given_forest(X, y)
    with pytest.raises(ValueError, match="given forests"):
        DaskKPPRegressor(given, combine="blend", client=client).fit(rows, target)
    with pytest.raises(ValueError, match=r"cut alike|rows"):
        DaskKPPRegressor(client=client).fit(rows, target[:40])
    with pytest.raises(ValueError, match="NaN"):
        DaskKPPRegressor(alpha=1.0, client=client).fit(rows, target / 0 * 0)
