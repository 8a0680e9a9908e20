"""`compare`: the same rows for all, losses and intervals against other people's functions."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss, mean_squared_error, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from kpp import KPPClassifier, KPPRegressor, compare
from kpp.diagnostics.rivals import BOOSTERS, rivals


@pytest.fixture(scope="module")
def regression():
    X, y = load_diabetes(return_X_y=True)
    parts = train_test_split(X, y, random_state=3)
    model = KPPRegressor("extra-trees", n_estimators=10, alpha=1.0, random_state=0)
    return model.fit(parts[0], parts[2]), *parts


def test_losses_and_interval_of_a_regression(regression):
    model, X, X_test, y, y_test = regression
    found = compare(model, X, y, test=(X_test, y_test), rivals={"plane": LinearRegression()})
    plane = LinearRegression().fit(X, y).predict(X_test)
    own, other = found.models
    assert own.loss == pytest.approx(mean_squared_error(y_test, model.predict(X_test)), rel=1e-12)
    assert other.loss == pytest.approx(mean_squared_error(y_test, plane), rel=1e-12)
    assert other.scores["rmse"] == pytest.approx(np.sqrt(other.loss), rel=1e-12)
    paired = stats.ttest_rel((y_test - plane) ** 2, (y_test - model.predict(X_test)) ** 2)
    interval = paired.confidence_interval(0.95)
    assert (other.low, other.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert other.difference == pytest.approx(other.loss - own.loss, rel=1e-9)
    assert own.seconds is None  # it came fitted, and was not fitted again
    assert other.seconds > 0
    assert (found.n_train, found.n_test) == (len(y), len(y_test))


def test_losses_of_classes():
    X, y = load_breast_cancer(return_X_y=True)
    labels = np.array(["benign", "malignant"])[1 - y]
    model = KPPClassifier("extra-trees", n_estimators=10, alpha=1e-3, random_state=0)
    model.fit(X[::2], labels[::2])
    stump = DecisionTreeClassifier(max_depth=1)
    found = compare(model, X[::2], labels[::2], test=(X[1::2], labels[1::2]), rivals={"s": stump})
    p = stump.fit(X[::2], labels[::2]).predict_proba(X[1::2])
    assert found.models[0].loss == pytest.approx(
        log_loss(labels[1::2], model.predict_proba(X[1::2])), rel=1e-9
    )
    other = found.models[1]
    assert other.loss == pytest.approx(log_loss(labels[1::2], p), rel=1e-9)
    assert other.scores["auc"] == pytest.approx(roc_auc_score(y[1::2] == 0, p[:, 1]), abs=1e-12)


def test_held_out_rows_are_in_no_fit():
    X, y = load_diabetes(return_X_y=True)

    class Remembers(RegressorMixin, BaseEstimator):
        seen: list = []  # noqa: RUF012

        def fit(self, X, y):
            type(self).seen = X[:, 0].tolist()
            self.is_fitted_ = True
            return self

        def predict(self, X):
            type(self).asked = X[:, 0].tolist()
            return np.zeros(len(X))

    X[:, 0] = np.arange(len(X))
    model = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=0)
    found = compare(model, X, y, rivals={"r": Remembers()}, test_size=0.3)
    assert not set(Remembers.seen) & set(Remembers.asked)
    assert sorted([*Remembers.seen, *Remembers.asked]) == list(range(len(X)))
    assert found.n_test == len(Remembers.asked) == 133
    assert not hasattr(model, "node_coef_")  # the caller's own is left as it was
    assert found.models[0].seconds > 0


def test_a_table_with_texts_and_gaps_and_every_usual_rival():
    rng = np.random.default_rng(0)
    n = 200
    frame = pd.DataFrame(
        {
            "a": rng.standard_normal(n),
            "c": rng.choice(["u", "v", "w", None], n),
            "d": pd.Categorical(rng.choice(list("xyz"), n)),
        }
    )
    frame.loc[::7, "a"] = np.nan
    frame.loc[n - 1, "c"] = "seen in the last row only"
    y = frame["a"].fillna(0) + 2 * (frame["c"] == "u") + 0.1 * rng.standard_normal(n)
    model = KPPRegressor("extra-trees", n_estimators=10, alpha=1.0, random_state=0)
    found = compare(model, frame[:150], y[:150], test=(frame[150:], y[150:]))
    names = [one.name for one in found.models]
    expected = rivals(classification=False, categorical=[])
    assert sorted(names[1:]) == sorted(expected)
    assert not found.left_out
    assert {"constant", "linear model"} < set(names)
    assert [one.loss for one in found.models[1:]] == sorted(one.loss for one in found.models[1:])
    of_constant = next(one for one in found.models if one.name == "constant")
    assert of_constant.loss == pytest.approx(np.mean((y[150:] - y[:150].mean()) ** 2), rel=1e-12)
    # The effect of "u" is large, and is in the codes that rivals get.
    linear = next(one for one in found.models if one.name == "linear model")
    assert linear.loss < 0.2 * of_constant.loss


def test_boosters_take_part_where_they_are_installed(monkeypatch):
    monkeypatch.setattr("kpp.diagnostics.rivals.find_spec", lambda module: None)
    assert not set(BOOSTERS) & set(rivals(classification=True, categorical=[]))


def test_rivals_get_what_the_preparation_makes(regression):
    _, X, X_test, y, y_test = regression
    model = make_pipeline(
        StandardScaler(), KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=0)
    )

    class Spread(DummyRegressor):
        def fit(self, X, y):
            type(self).spread = X.std(axis=0)
            return super().fit(X, y)

    compare(model, 7 * X, y, test=(7 * X_test, y_test), rivals={"s": Spread()})
    np.testing.assert_allclose(Spread.spread, 1.0, rtol=1e-12)


def test_a_rival_that_fails_is_named_and_the_others_stay(regression):
    model, X, X_test, y, y_test = regression

    class Refuses(DummyRegressor):
        def fit(self, X, y):
            raise ValueError("not these rows\nmore")

    both = {"refuses": Refuses(), "constant": DummyRegressor()}
    found = compare(model, X, y, test=(X_test, y_test), rivals=both)
    assert [one.name for one in found.models] == ["KPPRegressor", "constant"]
    assert found.left_out == {"refuses": "not these rows"}
    assert "refuses: left out, not these rows" in str(found)


def test_bad_input(regression):
    model, X, _, y, _ = regression
    with pytest.raises(ValueError, match="one target"):
        compare(model, X, np.column_stack([y, y]))
    classifier = KPPClassifier("extra-trees", n_estimators=5, alpha=1e-2, random_state=0)
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(ValueError, match=r"a class that the rows of the fit have not: .*2"):
        compare(classifier, X, y, test=(X[:2], [1, 2]), rivals={"c": DummyClassifier()})


def test_what_is_printed_and_shown(regression):
    model, X, X_test, y, y_test = regression
    rival = {"constant": DummyRegressor()}
    found = compare(model, X, y, test=(X_test, y_test), rivals=rival)
    text, html = str(found), found._repr_html_()
    for shown in ("constant", f"{found.models[1].scores['rmse']:.4g}", "worse", "95% interval"):
        assert shown in text
    assert "constant" in html
    assert "worse" in html
    assert "verdict" in found.models[1]._repr_html_()
    frame = found.to_frame()
    assert frame["model"].tolist() == ["KPPRegressor", "constant"]
    assert frame["verdict"].tolist()[1] == "worse"
    alone = compare(model, X, y, test=(X_test[:1], y_test[:1]), rivals=rival)
    assert alone.models[1].low == -np.inf  # one row tells nothing of its spread
