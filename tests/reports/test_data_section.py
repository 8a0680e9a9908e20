"""The section on the data: of which rows, what it lists, what it leaves to a sentence."""

import numpy as np
import pandas as pd
import pytest

from kpp import KPPRegressor
from kpp.reports.charts import spark
from kpp.reports.sections import data, summary
from kpp.reports.subject import Subject


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(120, 45)), columns=[f"c{j}" for j in range(45)])
    y = X["c0"].to_numpy() + random.normal(size=120)
    X["c1"] = y + 0.001 * random.normal(size=120)
    X.loc[:11, "c2"] = np.nan
    return X, y


@pytest.fixture(scope="module")
def model(rows):
    X, y = rows
    estimator = KPPRegressor("extra-trees", n_estimators=3, alpha=1.0, random_state=0)
    return estimator.fit(X[:80], y[:80])


def subject(model, X, y, train=None):
    settings = {"sample_weight": None, "max_rows": 1, "random_state": 0, "y_range": None}
    return Subject.read(model, X, y, train=train, **settings)


def test_the_training_rows_where_they_are_given(model, rows):
    X, y = rows
    found = data.make(subject(model, X[80:], y[80:], train=(X[:80], y[:80])))
    assert (found["called"], found["n_rows"], found["n_columns"]) == ("training row", 80, 45)
    assert found["missing_share"] == pytest.approx(12 / (80 * 45))
    assert found["n_with_gaps"] == 1
    assert len(found["columns"]) == 40
    assert found["n_other"] == 5
    assert found["others"].startswith("5 more columns: 5 of numbers; ")
    first = found["columns"][0]
    assert (first["name"], first["codes"]) == ("c1", ["KPP106"])
    assert sum(first["counts"]) == 80
    assert [one["code"] for one in found["findings"]] == ["KPP106"]
    assert found["target"]["classes"] == []
    told = summary.worries({"data": found | {"made": True}}, [])
    assert told == ["1 warning: columns that alone predict too well."]


def test_otherwise_the_rows_of_the_report(model, rows):
    X, y = rows
    given = subject(model, X[80:], y[80:])
    found = data.make(given)
    assert found["n_rows"] == 40
    assert found["called"] == given.called
    assert {column["name"] for column in found["columns"]} <= {f"c{j}" for j in range(45)}


def test_a_small_histogram():
    drawn = str(spark([0, 2, 4]))
    # Ten wide and 40 high: nothing, half and whole.
    assert 'd="M10 40V20h9V40zM20 40V0h9V40z"' in drawn
