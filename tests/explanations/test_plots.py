"""Displays: what they keep, what they draw, and where."""

import sys

import numpy as np
import pandas as pd
import pytest
from explanations.fitted_models import fitted

from kpp import KPPRegressor
from kpp.explanations import (
    Attribution,
    AttributionBarDisplay,
    BeeswarmDisplay,
    DependenceDisplay,
    DistanceDisplay,
    RuleDisplay,
    WaterfallDisplay,
    explain,
    explain_distance,
    explain_rules,
)
from kpp.explanations._drawing import largest, number, shorten, shown_value, spread_out, wrap
from kpp.explanations.attribution import numbers_and_names

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def row_labels(display):
    display.figure_.canvas.draw()
    return [label.get_text() for label in display.ax_.get_yticklabels()]


def bars(display):
    return np.array([bar.get_width() for bar in display.ax_.patches])


def texts(display):
    return [text.get_text() for text in display.ax_.texts]


@pytest.mark.parametrize("centered", [False, True])
def test_waterfall(centered):
    model, X = fitted("regression")
    display = WaterfallDisplay.from_estimator(model, X[3], centered=centered, max_display=6)
    attribution = explain(model, X[3:4], centered=centered)
    np.testing.assert_array_equal(display.values, attribution.values[0])
    assert display.baseline == attribution.baseline
    steps = bars(display)
    assert len(steps) == 6
    # From the baseline to the score, each bar where the last one ended.
    starts = np.array([bar.get_x() for bar in display.ax_.patches])
    assert starts[0] == pytest.approx(display.baseline)
    np.testing.assert_allclose(starts[1:], (starts + steps)[:-1])
    assert starts[-1] + steps[-1] == pytest.approx(model.predict(X[3:4])[0])
    labels = row_labels(display)
    assert labels[-1] == "5 others"
    j = int(np.argmax(np.abs(display.values)))
    assert labels[0] == f"x{j} = {number(X[3, j])}"


def test_waterfall_of_classes_and_of_missing_values():
    model, X = fitted("multiclass")
    assert WaterfallDisplay.from_estimator(model, X[0]).output_name == "score of 0"
    other = WaterfallDisplay.from_estimator(model, X[0], output=2)
    assert other.score == model.decision_function(X[:1])[0, 2]
    mixed, frame = fitted("categories")
    labels = row_labels(WaterfallDisplay.from_estimator(mixed, frame.iloc[0]))
    assert {"colour is missing", "size is missing"} < set(labels)


def test_bar():
    model, X = fitted("regression")
    display = AttributionBarDisplay.from_estimator(model, X, max_display=4)
    summary = explain(model, X).summary()
    np.testing.assert_array_equal(bars(display), summary.mean_abs[summary.order[:4]])
    assert row_labels(display) == [f"x{j}" for j in summary.order[:4]]
    ends = [line.get_paths()[0].vertices[:, 0] for line in display.ax_.collections]
    low, high = ends[0]
    assert high - low == pytest.approx(2 * summary.spread[summary.order[0]])


@pytest.mark.parametrize("kind", ["regression", "categories"])
def test_beeswarm(kind):
    model, X = fitted(kind)
    display = BeeswarmDisplay.from_estimator(model, X, max_display=3)
    values = display.attribution.values
    shown = np.argsort(-np.abs(values).mean(axis=0))[:3]
    drawn = np.concatenate([c.get_offsets() for c in display.ax_.collections])
    assert sorted(drawn[:, 0].tolist()) == sorted(values[:, shown].ravel().tolist())
    # No point strays into the row of another variable.
    assert np.abs(drawn[:, 1] - np.round(drawn[:, 1])).max() <= 0.4 + 1e-9
    assert ("missing" in display.ax_.get_xlabel()) == (kind == "categories")


@pytest.mark.parametrize("feature", ["size", "colour", 2])
def test_dependence(feature):
    model, X = fitted("categories")
    display = DependenceDisplay.from_estimator(model, X, feature)
    j = display.feature
    assert X.columns[j] == feature or j == feature
    points = display.ax_.collections[0].get_offsets()
    np.testing.assert_array_equal(points[:, 1], display.attribution.values[:, j])
    if feature == "size":
        known = X["size"].notna().to_numpy()
        np.testing.assert_array_equal(points[known, 0], X["size"][known])
        assert (points[~known, 0] > X["size"].max()).all()
        assert "missing" in texts(display)
    if feature == "colour":
        display.figure_.canvas.draw()
        ticks = [label.get_text() for label in display.ax_.get_xticklabels()]
        assert ticks == ["blue", "green", "grey", "red"]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["1", "2", "10", None], ["1", "10", "2"]),
        (["b", 3, "a", np.nan], ["3", "a", "b"]),
    ],
)
def test_dependence_draws_each_category_at_its_name(values, names):
    column = np.array(values * 5, dtype=object)
    attribution = Attribution(
        values=np.arange(20.0)[:, None],
        baseline=0.0,
        scores=np.arange(20.0),
        feature_names=("k",),
        data=column[:, None],
    )
    display = DependenceDisplay(attribution, 0).plot()
    display.figure_.canvas.draw()
    ticks = [label.get_text() for label in display.ax_.get_xticklabels()]
    assert ticks == names
    place = display.ax_.collections[-1].get_offsets()[:, 0]
    for value in values[:3]:
        assert (np.round(place[column == value]) == names.index(str(value))).all()
    assert (place[3::4] > place[np.arange(20) % 4 < 3].max()).all()


def test_dependence_of_nullable_numbers():
    pd = pytest.importorskip("pandas")
    column = np.asarray(pd.array([1.5, None, 3.0], dtype="Float64"))
    numbers, names = numbers_and_names(column)
    np.testing.assert_array_equal(numbers, [1.5, np.nan, 3.0])
    assert names is None
    assert shown_value(column[1]) is None


def test_rules():
    model, X = fitted("regression")
    display = RuleDisplay.from_estimator(model, X[2], top=4)
    explanation = explain_rules(model, X[2], top=4)
    assert bars(display).tolist() == [rule.contribution for rule in explanation.rules]
    labels = row_labels(display)
    told = [f"{r.text} [{r.count}]" if r.count else r.text for r in explanation.rules]
    assert labels[:4] == [wrap(text) for text in told]
    assert all(label.count("\n") <= 2 for label in labels)
    assert labels[4] == f"{explanation.n_other} other rules"
    assert number(explanation.remainder, signed=True) in texts(display)
    assert f"{explanation.rules[0].support:.1%}" in texts(display)


def test_no_rules():
    model, X = fitted("regression")
    assert len(bars(RuleDisplay.from_estimator(model, X[2], top=0))) == 0


def test_distance():
    model, X = fitted("regression")
    display = DistanceDisplay.from_estimator(model, X[0], X[1], max_display=5)
    parts = explain_distance(model, X[0], X[1]).by_variable
    assert bars(display).sum() == pytest.approx(parts.sum())
    assert bars(display)[0] == parts.max()
    assert row_labels(display)[-1] == "6 others"
    # Two rows in the same place can be drawn as well.
    assert not bars(DistanceDisplay.from_estimator(model, X[0], X[0])).any()


def test_draws_where_it_is_told():
    import matplotlib.pyplot as plt

    model, X = fitted("regression")
    _, given = plt.subplots()
    display = AttributionBarDisplay.from_estimator(model, X, ax=given)
    assert display.ax_ is given
    assert display.figure_ is given.figure
    assert display.plot() is display
    assert display.ax_ is not given


@pytest.mark.parametrize("centered", [False, True])
def test_the_first_of_two_classes(centered):
    model, X = fitted("binary")
    first, second = (
        BeeswarmDisplay.from_estimator(model, X, output=c, centered=centered).attribution
        for c in (0, 1)
    )
    np.testing.assert_array_equal(first.values, -second.values)
    assert first.baseline == -second.baseline
    assert first.outputs == (0,)
    waterfall = WaterfallDisplay.from_estimator(model, X[4], output=0, centered=centered)
    np.testing.assert_array_equal(waterfall.values, first.values[4])
    bars_of = [
        AttributionBarDisplay.from_estimator(model, X, output=c, centered=centered).summary
        for c in (0, 1, None)
    ]
    for summary in bars_of:
        np.testing.assert_array_equal(summary.mean_abs, bars_of[1].mean_abs)
        np.testing.assert_allclose(summary.by_tree.sum(axis=0), summary.mean_abs, rtol=1e-9)
    np.testing.assert_array_equal(bars_of[0].mean, -bars_of[1].mean)


def test_nodes_are_not_drawn():
    model, X = fitted("regression")
    for display, rows in (
        (AttributionBarDisplay, (X,)),
        (BeeswarmDisplay, (X,)),
        (DependenceDisplay, (X, 0)),
        (WaterfallDisplay, (X[0],)),
    ):
        with pytest.raises(ValueError, match="Displays are of variables"):
            display.from_estimator(model, *rows, level="node")
        with pytest.raises(ValueError, match="level must be one of"):
            display.from_estimator(model, *rows, level="leaf")


def test_bad_input():
    model, X = fitted("multiclass")
    for display in (AttributionBarDisplay, BeeswarmDisplay):
        with pytest.raises(ValueError, match=r"choose one of \[0, 1, 2\] by output="):
            display.from_estimator(model, X)
    for output in ("x", True, [1], np.array([0, 1])):
        with pytest.raises(ValueError, match="one of the classes"):
            AttributionBarDisplay.from_estimator(model, X, output=output)
    with pytest.raises(ValueError, match="one of the classes"):
        WaterfallDisplay.from_estimator(model, X[0], output="x")
    with pytest.raises(ValueError, match=r"one of the columns, \['x0', .*; got 'petal'"):
        DependenceDisplay.from_estimator(model, X, "petal", output=0)
    with pytest.raises(ValueError, match="number from 0 to 3; got 4"):
        DependenceDisplay.from_estimator(model, X, 4, output=0)


def test_without_matplotlib(monkeypatch):
    model, X = fitted("regression")
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"WaterfallDisplay needs matplotlib.*kpp\[plot\]"):
        WaterfallDisplay.from_estimator(model, X[0])


def test_helpers():
    assert number(-0.000123456) == "\N{MINUS SIGN}0.000123"
    assert number(1234567.0, signed=True) == "+1234567"
    assert shorten("x" * 100, 60).count("x") < 60
    assert shorten("$5") == r"\$5"
    assert wrap("x > 1 and y <= 2") == "x > 1 and y <= 2"
    long = wrap(" and ".join(f"x{k} > 0.{k}" for k in range(40)))
    assert long.count("\n") == 2
    # No number is cut: conditions are there or not.
    parts = long.replace("\n", " ").split(" and ")
    listed = {f"x{k} > 0.{k}" for k in range(40)}
    assert [part for part in parts if part not in listed] == [f"({41 - len(parts)} more)"]


def overlaps(texts):
    """Pairs of texts whose boxes have a common part."""
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    return [(a, b) for k, a in enumerate(boxes) for b in boxes[:k] if a.overlaps(b)]


def test_rules_with_long_names_do_not_overlap():
    model, X = fitted("regression")
    names = [f"a rather long name of the column number {j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    long = KPPRegressor("extra-trees", n_estimators=5, alpha=0.1, random_state=0)
    long.fit(frame, model.predict(X))
    display = RuleDisplay.from_estimator(long, frame.iloc[[2]], top=8)
    display.figure_.canvas.draw()
    assert not overlaps([*display.ax_.get_yticklabels(), *display.ax_.texts])
    shown, others = largest(np.array([1.0, -5.0, 2.0, 0.5]), 3)
    assert (shown.tolist(), others.tolist()) == ([1, 2], [0, 3])
    offset = spread_out(np.array([1.0, 1.0, 1.0, 9.0]))
    assert len(set(offset[:3].tolist())) == 3
    assert np.abs(offset).max() <= 1
    assert not spread_out(np.ones(4)).any()
