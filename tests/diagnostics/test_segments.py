"""`segments`: cuts that people can read, figures by hand, and everything that may be asked for."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss, mean_absolute_error, mean_squared_error

from kpp import KPPClassifier, KPPRegressor, segments
from kpp.diagnostics import SegmentsDisplay
from kpp.diagnostics.slices import readable_limits, slice_column

SMALL = {"n_estimators": 8, "random_state": 0}


def table(n=400, seed=0):
    """The target is noisy for women over 50, and nowhere else."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n).astype(float),
            "income": np.exp(rng.normal(10, 1, n)),
            "sex": rng.choice(["f", "m"], n),
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        }
    )
    noisy = (X["sex"] == "f") & (X["age"] > 50)
    y = X["age"] / 10 + np.where(noisy, 4.0, 0.3) * rng.normal(size=n)
    X.loc[::11, "income"] = np.nan
    return X, y.to_numpy()


@pytest.fixture(scope="module")
def fitted():
    X, y = table()
    kept = ["age", "income"]
    model = KPPRegressor("extra-trees", cv=3, **SMALL).fit(X[kept], y)
    rows, target = table(seed=1)
    return model, rows[kept], target, rows


def test_figures_are_those_of_scikit_learn_on_the_rows_of_the_segment(fitted):
    model, X, y, rows = fitted
    found = segments(model, X, y, by={"sex": rows["sex"], "over 50": rows["age"] > 50})
    masks = {"sex = f": rows["sex"] == "f", "sex = m": rows["sex"] == "m"}
    masks["over 50"] = rows["age"] > 50
    assert {one.name for one in found.segments} == set(masks)
    prediction = model.predict(X)
    for one in found.segments:
        here = masks[one.name].to_numpy()
        assert one.n_rows == here.sum()
        oracle = mean_squared_error(y[here], prediction[here])
        assert one.loss == pytest.approx(oracle, rel=1e-9)
        assert one.rest == pytest.approx(mean_squared_error(y[~here], prediction[~here]), rel=1e-9)
        assert (one.actual, one.predicted) == pytest.approx(
            (y[here].mean(), prediction[here].mean()), rel=1e-9
        )
        assert one.low < one.loss < one.high
    assert found.overall == pytest.approx(mean_squared_error(y, prediction), rel=1e-9)
    assert found.n_tested == 3
    absolute = segments(model, X, y, by={"f": rows["sex"] == "f"}, loss="error").segments[0]
    here = (rows["sex"] == "f").to_numpy()
    assert absolute.loss == pytest.approx(mean_absolute_error(y[here], prediction[here]), rel=1e-9)


def test_what_is_worse_is_found_and_comes_first(fitted):
    model, X, y, rows = fitted
    found = segments(model, X, y, by={"women over 50": (rows["sex"] == "f") & (rows["age"] > 50)})
    assert [one.name for one in found.worse] == ["women over 50"]
    by_columns = segments(model, X, y)
    assert by_columns.segments[0].name.startswith("age over")
    low = [one.difference_low for one in by_columns.segments]
    assert low == sorted(low, reverse=True)
    missing = next(one for one in by_columns.segments if one.name == "income missing")
    assert missing.n_rows == X["income"].isna().sum()


def test_every_row_is_in_one_part_of_a_column_and_of_a_pair(fitted):
    model, X, y, _ = fitted
    for by in (["age"], [0], [("age", "income")]):
        found = segments(model, X, y, by=by)
        assert sum(one.n_rows for one in found.segments) == len(X)
        assert sum(one.share for one in found.segments) == pytest.approx(1)
    pairs = segments(model, X, y, by="pairs")
    assert {one.columns for one in pairs.segments} == {("age",), ("income",), ("age", "income")}


def test_weights_and_groups(fitted):
    model, X, y, _ = fitted
    weight = np.arange(len(y)) % 2
    whole, half = (
        segments(model, X, y, by=["age"], sample_weight=weight),
        segments(model, X[weight > 0], y[weight > 0], by={"age": X["age"][weight > 0]}),
    )
    assert whole.overall == pytest.approx(half.overall, rel=1e-9)
    twice = segments(model, X, y, by=["age"], sample_weight=np.full(len(y), 2.0))
    once = segments(model, X, y, by=["age"])
    for one, two in zip(once.segments, twice.segments, strict=True):
        assert (one.loss, one.adjusted) == pytest.approx((two.loss, two.adjusted), rel=1e-9)
    grouped = segments(model, X, y, by=["age"], groups=np.arange(len(y)) // 3)
    assert grouped.grouped
    assert grouped.overall == once.overall


def test_coverage_by_segment(fitted):
    model, X, y, _ = fitted
    found = segments(model, X, y, by=["age"], coverage=0.8)
    interval = model.predict_interval(X, 0.8)
    inside = (interval.lower <= y) & (y <= interval.upper)
    total = sum(one.covered * one.n_rows for one in found.segments)
    assert total == pytest.approx(inside.sum())
    assert all(one.covered_low <= one.covered <= one.covered_high for one in found.segments)
    assert "covered" in found.to_frame()
    assert "covered" not in segments(model, X, y, by=["age"]).to_frame()


def test_classes_two_and_more():
    X, y = load_iris(return_X_y=True, as_frame=True)
    three = KPPClassifier("extra-trees", alpha=1e-2, **SMALL).fit(X[::2], y[::2])
    found = segments(three, X[1::2], y[1::2])
    assert np.isnan(found.segments[0].actual)
    assert found.overall == pytest.approx(log_loss(y[1::2], three.predict_proba(X[1::2])))
    names = np.where(y == 2, "virginica", "other")
    two = KPPClassifier("extra-trees", alpha=1e-2, **SMALL).fit(X[::2], names[::2])
    found = segments(two, X[1::2], names[1::2], by=[3], loss="error")
    assert found.loss == "0/1 error"
    total = sum(one.actual * one.n_rows for one in found.segments)
    assert total == pytest.approx((names[1::2] == "virginica").sum())
    both = KPPRegressor("extra-trees", alpha=1.0, **SMALL).fit(X, np.column_stack([y, y]))
    assert len(segments(both, X, np.column_stack([y, y])).segments) > 4


def test_few_rows_have_no_verdict(fitted):
    model, X, y, _ = fitted
    mask = np.arange(len(y)) < 7
    found = segments(model, X, y, by={"seven": mask, "all but seven": ~mask, "all": mask | ~mask})
    assert [one.verdict for one in found.segments] == ["too few rows"] * 2
    assert np.isnan(found.segments[0].adjusted)
    assert found.n_tested == 0
    assert "No segment has enough rows" in str(found)
    assert segments(model, X, y, by={"seven": mask}, min_rows=5).n_tested == 1


def test_what_is_printed_and_shown(fitted):
    model, X, y, rows = fitted
    found = segments(model, X, y, by="pairs")
    text = str(found)
    lines = text.splitlines()
    assert found.segments[0].name[:30] in lines[2]
    assert f"and {len(found.segments) - 15} more" in text
    assert f"{found.n_tested} segments were tested" in text
    assert max(map(len, lines[1:17])) < 140
    frame = found.to_frame()
    assert frame["name"].tolist() == [one.name for one in found.segments]
    assert "Holm" in found._repr_html_()
    assert "verdict" in found.segments[0]._repr_html_()
    display = SegmentsDisplay.from_estimator(model, X, y, by="pairs")
    assert len(display.ax_.get_yticklabels()) == 15
    hostile = segments(model, X, y, by={"a\x1b[31m\nb": rows["sex"].replace("f", "\x1b[0m")})
    assert "\x1b" not in str(hostile)


@pytest.mark.parametrize(
    ("by", "message"),
    [
        (["sax"], "a column 'sax', which the rows have not; they have age, income"),
        ([7], "a column 7"),
        ("some", "by"),
        ({"m": [True]}, "one value for each of the 400 rows"),
    ],
)
def test_bad_input(fitted, by, message):
    model, X, y, _ = fitted
    with pytest.raises(ValueError, match=message):
        segments(model, X, y, by=by)
    with pytest.raises(ValueError, match="loss"):
        segments(model, X, y, loss="squared")


# Cuts.


def test_numbers_are_cut_at_short_limits_into_fair_parts():
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=500), np.exp(rng.normal(8, 2, 500)), rng.integers(0, 90, 500)):
        found = slice_column("x", np.asarray(values))
        shares = np.bincount(found.codes) / 500
        assert len(shares) == 4
        assert shares.min() > 0.14
        limits = readable_limits(np.sort(np.asarray(values, dtype=float)), 4)
        digits = [f"{limit:.12g}".replace(".", "").strip("-0") for limit in limits]
        assert max(map(len, digits)) <= 2
        for k in range(4):  # the words are what was done
            low = -np.inf if k == 0 else limits[k - 1]
            high = np.inf if k == 3 else limits[k]
            assert ((found.codes == k) == ((values > low) & (values <= high))).all()


def test_odd_columns():
    few = slice_column("x", np.array([0.0, 1.0, np.nan, 1.0]))
    assert (few.labels, few.codes.tolist()) == (["x = 0", "x = 1", "x missing"], [0, 1, 2, 1])
    infinite = slice_column("x", np.array([-np.inf, np.inf, *range(20)]))
    assert infinite.codes[0] == 0
    assert infinite.codes[1] == infinite.codes.max()
    assert "inf" not in " ".join(infinite.labels)
    heap = slice_column("x", np.array([*np.zeros(90), *range(1, 11)]))
    assert heap.labels == ["x up to 0", "x over 0"]
    ties = slice_column("x", np.repeat([-0.00259226, *np.arange(1.0, 12.0)], [60, *[8] * 11]))
    assert ties.labels[0] == "x up to 0"
    two = slice_column("s", np.array([0.0506801187398, -0.044641636506989]))
    assert two.labels == ["s = -0.0446", "s = 0.0507"]
    assert slice_column("x", np.full(5, np.nan)).labels == ["x missing"]
    truth = slice_column("b", np.array([True, False, True]))
    assert truth.labels == ["b = True", "b = False"]
    dates = slice_column("d", pd.Series(pd.date_range("2020-01-01", periods=400)))
    assert all("2020" in label or "2021" in label for label in dates.labels)
    many = slice_column("c", pd.Series([f"v{k % 30}" for k in range(300)]))
    assert len(many.labels) == 11
    assert many.labels[-1] == "c = (others)"
    objects = slice_column("o", np.array([1, None, 2.5], dtype=object))
    assert objects.labels == ["o = 1", "o = 2.5", "o missing"]
    kinds = pd.Series(pd.Categorical(["a", "b", "a"], categories=["a", "b", "never"]))
    assert slice_column("k", kinds).labels == ["k = a", "k = b"]
