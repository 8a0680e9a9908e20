"""`kpp.dask`: classes, several targets, groups of rows, and versions of Dask."""

import importlib
import sys

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask_help import cluster_of, given_forest, numbers
from numpy.testing import assert_allclose, assert_array_equal

import kpp
from kpp import KPPRegressor
from kpp._checks import RefusedError
from kpp.dask import DaskKPPClassifier, DaskKPPRegressor, LazyModel
from kpp.dask.folds import fold_of_prints, group_prints

pytestmark = pytest.mark.filterwarnings("ignore")
N_ROWS = 300


@pytest.fixture(scope="module")
def client():
    with cluster_of(1) as (_, own):
        yield own


def cut(values, n=2):
    return da.from_array(values, chunks=(len(values) // n, *values.shape[1:]))


@pytest.mark.parametrize(("n_classes", "booster"), [(2, "lightgbm"), (3, "xgboost")])
def test_a_blend_of_classes(client, n_classes, booster):
    X, y, _ = numbers(N_ROWS)
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [0.0, 1.0][: n_classes - 1])]
    forests = [("trees", "extra-trees"), ("boosted", booster)]
    model = DaskKPPClassifier(
        forests, n_estimators=3, alpha=1e-2, cv=2, random_state=0, client=client
    )
    local = model.fit(cut(X), cut(labels)).to_local()
    assert_array_equal(local.classes_, np.unique(labels))
    assert set(local.blend_weights_) == {"trees", "trees, bare", "boosted", "boosted, bare"}
    # Rows of a fold are scored by predictors that have not seen it, each by its own forests.
    own = local.fold_predictors_
    scores = own.scores(local.at(X))[own.fold_of_row, np.arange(N_ROWS)]
    shares = local._task.answers(scores.reshape(N_ROWS, -1))
    assert_allclose(shares, local.oof_prediction_, rtol=0, atol=1e-9)
    assert local.score(X, labels) > 0.7
    # Sets of classes are lazy, too.
    sets = model.predict_set(cut(X), 0.8)
    assert sets.dtype == bool
    assert_array_equal(sets.compute(), local.predict_set(X, 0.8).sets)
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=2)
    named = model.predict_set(frame, 0.8)
    assert list(named._meta.columns) == local.classes_.tolist() == list(named.compute().columns)
    new, new_y, _ = numbers(60, seed=5)
    told = np.array(["low", "middle", "high"])[np.digitize(new_y, [0.0, 1.0][: n_classes - 1])]
    figures = model.diagnose(cut(new), cut(told)).compute()
    assert figures["n_rows"].tolist() == [30.0, 30.0]
    expected = kpp.diagnose(local, new[:30], told[:30])["norm"]
    assert figures["norm"].iloc[0] == pytest.approx(expected)


def test_several_targets_are_those_of_one_machine(client):
    X, y, weight = numbers(N_ROWS)
    both = np.column_stack([y, X[:, 0] - y])
    forest = given_forest(X, y)
    options = {"alpha": 1.0, "tol": 1e-10}
    alone = KPPRegressor(forest, regime="fixed", **options).fit(X, both, weight)
    model = DaskKPPRegressor(forest, client=client, **options).fit(cut(X), cut(both), cut(weight))
    assert_allclose(model.model_.predict(X), alone.predict(X), rtol=0, atol=1e-9)
    assert model.predict(cut(X)).shape == (N_ROWS, 2)
    assert_allclose(model.predict(cut(X)).compute(), alone.predict(X), rtol=0, atol=1e-9)
    grown = DaskKPPRegressor(n_estimators=2, alpha=1.0, random_state=0, client=client)
    assert grown.fit(cut(X), cut(both)).to_local().predict(X).shape == (N_ROWS, 2)
    with pytest.raises(ValueError, match="one target"):
        DaskKPPRegressor("lightgbm", alpha=1.0, client=client).fit(cut(X), cut(both))


def test_rows_of_a_group_are_in_one_fold_wherever_they_are(client):
    X, y, _ = numbers(N_ROWS)
    names = np.array([f"patient {k % 37}" for k in range(N_ROWS)])
    options = {"n_estimators": 4, "alphas": [1.0], "cv": 3, "random_state": 0, "client": client}
    rows = pd.DataFrame(X, columns=list("abcd"))
    frames = [dd.from_pandas(own, npartitions=3) for own in (rows, pd.Series(y), pd.Series(names))]
    local = DaskKPPRegressor(**options).fit(frames[0], frames[1], groups=frames[2]).to_local()
    fold = local.fold_predictors_.fold_of_row
    for name in np.unique(names):
        assert len(set(fold[names == name])) == 1
    assert (np.bincount(fold, minlength=3) > 0).all()
    record = local.fit_record_
    assert (record.folds, record.n_groups, record.largest_group) == ("grouped", 37, 9)
    assert record.divided_groups == 0
    # A partition needs nothing but the names.
    again = fold_of_prints(group_prints(names[::-1]), 3, 5)
    assert_array_equal(again[::-1], fold_of_prints(group_prints(names), 3, 5))
    with pytest.raises(ValueError, match="as many groups"):
        DaskKPPRegressor(**options).fit(*frames[:2], groups=frames[2].str[:7])
    with pytest.raises(ValueError, match="got both"):
        DaskKPPRegressor(**options).fit(*frames[:2], groups=frames[2], folds=frames[1])


def test_an_ordinary_model_is_asked_lazily(tmp_path):
    X, y, _ = numbers(120)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(town=["x", "y"] * 60)
    model = KPPRegressor("extra-trees", n_estimators=3, cv=2, alphas=[0.5], random_state=0)
    lazy = LazyModel(model.fit(frame, y))
    rows = dd.from_pandas(frame, npartitions=2)
    ends = lazy.predict_interval(rows, 0.8)
    radius = lazy.certify(rows, epsilon=0.5)
    both = rows.assign(low=ends["lower"], radius=radius).compute(scheduler="synchronous")
    assert_allclose(both["low"], model.predict_interval(frame, 0.8).lower, rtol=1e-12)
    assert_allclose(both["radius"], kpp.certify(model, frame, epsilon=0.5).radius, rtol=1e-12)


@pytest.mark.parametrize(
    "given",
    [{}, {"loss": "quantile", "quantile": [0.1, 0.8]}, {"loss": "poisson"}],
    ids=str,
)
def test_widths_of_lazy_intervals(given):
    X, y, _ = numbers(120)
    y = np.floor(np.exp(y))
    model = KPPRegressor("extra-trees", n_estimators=3, cv=2, random_state=0, **given).fit(X, y)
    lazy, rows = LazyModel(model), da.from_array(X, chunks=(50, 4))
    found = {}
    for width in ("adaptive", "constant"):
        ends = lazy.predict_interval(rows, 0.8, width=width)
        found[width] = ends.compute(scheduler="synchronous")
        here = model.predict_interval(X, 0.8, width=width)
        assert_allclose(found[width], np.column_stack([here.lower, here.upper]), rtol=1e-12)
    default = lazy.predict_interval(rows, 0.8).compute(scheduler="synchronous")
    assert_array_equal(default, found["adaptive"])
    assert not np.allclose(default, found["constant"])
    with pytest.raises(ValueError, match="width must be one of"):
        lazy.predict_interval(rows, width="wide")


def test_lazy_intervals_are_of_one_target():
    X, y, _ = numbers(60)
    model = KPPRegressor("extra-trees", n_estimators=3, cv=2, random_state=0)
    model.fit(X, np.column_stack([y, X[:, 0]]))
    with pytest.raises(RefusedError, match="one target"):
        LazyModel(model).predict_interval(da.from_array(X, chunks=(50, 4)))


def test_a_version_of_dask_without_these_tasks_is_named(monkeypatch):
    import kpp.dask.specs as specs

    for name in ("dask.task_spec", "dask._task_spec"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"dask 2025\.4 or later"):
        importlib.reload(specs)
    monkeypatch.undo()
    importlib.reload(specs)
    # Where the quick way to hand over a graph is gone, the public one is taken.
    monkeypatch.setitem(sys.modules, "dask._expr", None)
    assert specs.graph_of({"a": 1}) == {"a": 1}
