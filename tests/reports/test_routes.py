"""A report routes its test rows once, and its training rows once."""

import pytest
from reports.subjects import SMALL, _diabetes, made
from routed import Routed

from kpp import KPPRegressor
from kpp.geometry import forest_blocks
from kpp.models.asking import ask
from kpp.reports import report, report_data
from kpp.reports.sections import row_details


@pytest.fixture
def routed(monkeypatch):
    calls = Routed(monkeypatch)
    certify_raw, changes_to = row_details.certify_raw, row_details.changes_to

    def with_search(*given, **settings):
        with calls.apart():
            return certify_raw(*given, **settings)

    def with_points(*given, **settings):
        with calls.apart(calls.tried):
            return changes_to(*given, **settings)

    monkeypatch.setattr(row_details, "certify_raw", with_search)
    monkeypatch.setattr(row_details, "changes_to", with_points)
    return calls


def n_forests(model):
    return len(list(forest_blocks(ask(model).model.map_)))


def several_forests():
    X, y = _diabetes()
    X_train, y_train = X[::2], y[::2]
    model = KPPRegressor([("a", "extra-trees"), ("b", "boosted")], combine="joint", cv=3, **SMALL)
    return model.fit(X_train, y_train), X[1::2], y[1::2], (X_train, y_train)


KINDS = ["binary", "multiclass", "regression", "several targets", "honest", "fixed"]
KINDS += ["cross-fit", "cross-validated"]
KINDS += ["leaves", "arrays", "boosted", "scaled", "table", "several forests"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_routes_every_set_of_rows_once(routed, kind):
    model, X, y, train = several_forests() if kind == "several forests" else made(kind)
    del routed[:]  # those of the fit
    report_data(model, X, y, max_rows=5)
    assert routed == n_forests(model) * [len(X)]
    # One look at the rows that a search has found, if it has found any; none at the rows of X.
    assert all(n_rows <= row_details.SEARCHED_ROWS for n_rows in routed.others)
    assert len(routed.others) <= n_forests(model)
    # Points that are tried on the way from a counterexample to its words: a few for each column.
    assert all(n_points < len(X) for n_points in routed.tried)
    del routed[:]
    # Without the comparison, which has the model predict beside its rivals.
    report_data(model, X, y, train=train, max_rows=5, compare=False)
    assert sorted(routed) == sorted(n_forests(model) * [len(X), len(train[1])])


def test_more_rows_to_explore_are_not_routed_more_often(routed, tmp_path):
    model, X, y, _ = made("binary")
    del routed[:]  # those of the fit, where this test is the first to ask for it
    report(model, X, y, tmp_path / "report.html", max_rows=30)
    assert routed == [len(X)]


def test_rows_that_were_routed_before(routed):
    model, X, y, _ = made("regression")
    rows = model.at(X)
    del routed[:]
    data = report_data(model, rows, y, max_rows=3, times=False)
    assert routed == []
    assert data == report_data(model, X, y, max_rows=3, times=False)
    pipeline, X, y, _ = made("scaled")
    with pytest.raises(TypeError, match="give it X itself"):
        report_data(pipeline, ask(pipeline).rows(X), y)
