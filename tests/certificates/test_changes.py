"""Counterexamples in words: what is told is a row of the table with another answer."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from kpp import KPPClassifier, KPPRegressor, certify_raw
from kpp.certificates import changes_to

SMALL = {"n_estimators": 8, "random_state": 0}


def table(n=150):
    random = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "school": random.choice(["GP", "MS", "XY"], n),
            "sex": random.choice(["F", "M"], n),
            "size": random.gamma(3, 20, n).round(1),
        }
    )
    return X, 2.0 * (X["school"] == "MS") + (X["sex"] == "F") + X["size"] / 60


def changed(row, changes):
    """The row of the table that is told."""
    other = row.copy()
    for change in changes:
        is_number = other[change.column].dtype.kind in "fi"
        assert str(change.before) == (
            f"{other[change.column].iloc[0]:.8g}" if is_number else other[change.column].iloc[0]
        )
        other[change.column] = float(change.after) if is_number else change.after
    return other


def test_told_values_give_another_class():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = KPPClassifier("extra-trees", alpha=1e-3, **SMALL).fit(X[:300], y[:300])
    rows = X[300:308]
    certificate = certify_raw(model, rows, scale="std", effort=500)
    n_moved = 0
    for i in range(len(rows)):
        changes = changes_to(model, rows, certificate, i)
        other = changed(rows.iloc[[i]], changes)
        assert model.predict(other)[0] != model.predict(rows.iloc[[i]])[0]
        distances = [change.distance for change in changes]
        assert distances == sorted(distances)
        assert max(distances) <= 1.25 * certificate.upper_radius[i]
        n_moved += len(changes)
        # Each of them is needed: without it the answer is the old one.
        for left_out in changes:
            fewer = changed(rows.iloc[[i]], [c for c in changes if c is not left_out])
            if len(changes) <= 3:
                assert model.predict(fewer)[0] == model.predict(rows.iloc[[i]])[0]
    assert n_moved < certificate.counterexample.size
    assert " instead of " in str(changes[0])


@pytest.mark.parametrize("encoder", ["one-hot", "dropped", "ordinal"])
def test_categories_are_told_by_their_names(encoder):
    X, y = table()
    own = {
        "one-hot": OneHotEncoder(sparse_output=False),
        "dropped": OneHotEncoder(sparse_output=False, drop="if_binary"),
        "ordinal": OrdinalEncoder(),
    }[encoder]
    prepare = make_column_transformer((own, ["school", "sex"]), (StandardScaler(), ["size"]))
    model = make_pipeline(prepare, KPPRegressor("extra-trees", alpha=0.01, **SMALL)).fit(X, y)
    rows = X[:10]
    certificate = certify_raw(model, rows, scale="std", epsilon=0.6, effort=500)
    told = [changes_to(model, rows, certificate, i) for i in range(len(rows))]
    names = set()
    for i, changes in enumerate(told):
        for change in changes or ():
            names.add(change.column)
        if changes is not None:
            other = changed(rows.iloc[[i]], changes)
            step = model.predict(other)[0] - model.predict(rows.iloc[[i]])[0]
            assert abs(step) >= 0.6
    assert names <= set(X.columns)
    assert names & {"school", "sex"}


def test_nothing_is_told_where_nothing_was_found():
    X, y = table()
    model = KPPRegressor("extra-trees", alpha=0.01, **SMALL).fit(X[["size"]], y)
    certificate = certify_raw(model, X[["size"]][:2], epsilon=1e6)
    assert changes_to(model, X[["size"]][:2], certificate, 1) is None


def test_a_part_of_a_date_cannot_move_alone():
    skrub = pytest.importorskip("skrub")
    random = np.random.default_rng(0)
    days = pd.Timestamp("2005-01-01") + pd.to_timedelta(random.integers(0, 5000, 120), "D")
    X = pd.DataFrame({"signed": days})
    model = KPPRegressor("extra-trees", alpha=0.01, **SMALL)
    pipeline = make_pipeline(skrub.TableVectorizer(), model).fit(X, days.month.to_numpy(float))
    certificate = certify_raw(pipeline, X[:3], scale="std", epsilon=1.0, effort=300)
    assert certificate.found.any()
    assert all(changes_to(pipeline, X[:3], certificate, i) is None for i in range(3))
