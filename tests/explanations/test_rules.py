"""Rules: what they say, what they add, and that they add up."""

import re

import numpy as np
import pandas as pd
import pytest
from explanations.fitted_models import MODELS, fitted
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError

from kpp import KPPRegressor
from kpp.explanations import explain, explain_rules
from kpp.explanations._conditions import Condition, Wording, cells_of_path
from kpp.forest import Forest, Tree

ALL = 10**6


def some_output(kind):
    return 1 if kind == "several targets" else None


def row_of(X, i):
    return X.iloc[[i]] if hasattr(X, "iloc") else X[i]


def explained(kind, i, **parameters):
    model, X = fitted(kind)
    return explain_rules(model, row_of(X, i), output=some_output(kind), **parameters)


def fulfils(condition, codes):
    """Which rows, given as numbers and category codes, fulfil a condition."""
    value = codes[:, condition.feature]
    if condition.categories is None:
        inside = (value > condition.low) & (value <= condition.high)
    else:
        inside = np.isin(value, list(condition.categories))
    return np.where(np.isnan(value), condition.missing, inside)


def as_codes(X):
    """The mixed frame with its categories numbered as the booster numbers them: by name."""
    if not isinstance(X, pd.DataFrame):
        return X.astype(np.float32).astype(np.float64)
    codes = X["colour"].cat.codes.to_numpy(dtype=float)
    codes[codes < 0] = np.nan
    return np.column_stack([codes, X["size"], X["count"]])


@pytest.mark.parametrize("i", [0, 7, 12])
@pytest.mark.parametrize("kind", MODELS)
def test_rules_are_the_nodes_of_the_row(kind, i):
    model, X = fitted(kind)
    explanation = explained(kind, i, top=ALL)
    phi = model.map_.on(X[i : i + 1]).to_csr().toarray()[0]
    scores = (model.decision_function if hasattr(model, "classes_") else model.predict)(
        X[i : i + 1]
    )
    k = {"several targets": 1, "multiclass": int(np.argmax(scores))}.get(kind, 0)
    contribution = dict(
        zip(model.map_.coordinate_names, np.atleast_2d(model.coef_)[k] * phi, strict=True)
    )
    listed = [name for rule in explanation.rules for name in rule.nodes]
    below_root = model.map_.coordinate_names[(phi > 0) & (model.map_.coordinate_variable >= 0)]
    assert sorted(listed) == sorted(below_root)
    for rule in explanation.rules:
        own = sum(contribution[name] for name in rule.nodes)
        assert rule.contribution == pytest.approx(own, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("kind", MODELS)
def test_support_and_conditions_describe_the_same_rows(kind):
    model, X = fitted(kind)
    codes = as_codes(X)
    fit = codes if model.regime_ != "honest" else codes[model.fit_rows_]
    for rule in explained(kind, 11, top=40).rules:
        inside = np.all([fulfils(c, fit) for c in rule.conditions], axis=0)
        assert rule.support == pytest.approx(inside.mean(), abs=1e-12)
        assert all(fulfils(c, codes[11:12])[0] for c in rule.conditions)


@pytest.mark.parametrize("top", [0, 1, 5, ALL])
@pytest.mark.parametrize("kind", MODELS)
def test_the_list_adds_up(kind, top):
    model, X = fitted(kind)
    explanation = explained(kind, 3, top=top)
    everything = explained(kind, 3, top=ALL)
    assert len(explanation.rules) == min(top, len(everything.rules))
    assert explanation.n_other == len(everything.rules) - len(explanation.rules)
    total = (
        explanation.baseline
        + sum(rule.contribution for rule in explanation.rules)
        + explanation.remainder
    )
    attribution = explain(model, X[3:4])
    k = {"several targets": 1}.get(kind, int(np.argmax(attribution.scores)))
    score = np.ravel(attribution.scores)[k]
    assert total == pytest.approx(score, rel=1e-10)
    assert explanation.score == score
    assert explanation.residual <= 1e-10 * abs(score)
    assert explanation.baseline == pytest.approx(np.ravel(attribution.baseline)[k], rel=1e-9)
    sizes = [abs(rule.contribution) for rule in explanation.rules]
    assert sizes == sorted(sizes, reverse=True)
    frame = explanation.to_frame()
    assert frame["contribution"].sum() == pytest.approx(score, rel=1e-10)


def test_equal_cells_of_several_trees_are_one_rule():
    X = np.repeat([[0.0], [1.0]], 20, axis=0)
    y = X[:, 0] + np.linspace(0, 0.1, 40)
    model = KPPRegressor(RandomForestRegressor(6, random_state=0), alpha=1e-3).fit(X, y)
    explanation = explain_rules(model, [1.0])
    assert len(explanation.rules) == 1
    assert explanation.rules[0].text == "x0 > 0.5"
    assert len(explanation.rules[0].nodes) == 6
    assert explanation.rules[0].support == pytest.approx(0.5)


# Words.


def hand_made():
    """One path that asks twice for a column, for categories, and for missing values."""
    # 0: MedInc <= 5 | 1: MedInc <= 3.2 | 4: AveOccup <= 2.4 | 5: colour in {a, c} | leaf 7
    tree = Tree(
        left=[1, 3, -1, -1, 5, 7, -1, -1, -1],
        right=[2, 4, -1, -1, 6, 8, -1, -1, -1],
        feature=[0, 0, -1, -1, 1, 2, -1, -1, -1],
        threshold=[5.0, 3.2, 0, 0, 2.4, np.nan, 0, 0, 0],
        missing_left=[True, False, False, False, False, True, False, False, False],
        left_categories={5: [0, 2]},
    )
    names = ("MedInc", "AveOccup", "colour")
    return names, Forest.from_trees(
        [tree],
        n_features=3,
        feature_names=names,
        categories={2: np.array(["a", "b", "c", "d"])},
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            [4.0, 2.0, 0.0],
            [
                "MedInc <= 5",
                "3.2 < MedInc <= 5",
                "3.2 < MedInc <= 5 and AveOccup <= 2.4",
                "3.2 < MedInc <= 5 and AveOccup <= 2.4 and colour in {a, c}",
            ],
        ),
        (
            [np.nan, 2.0, np.nan],
            [
                "MedInc <= 5 or missing",
                "3.2 < MedInc <= 5 or missing",
                "(3.2 < MedInc <= 5 or missing) and AveOccup <= 2.4",
                "(3.2 < MedInc <= 5 or missing) and AveOccup <= 2.4 and "
                "(colour in {a, c} or missing)",
            ],
        ),
        (
            [4.0, 2.0, 3.0],
            [
                "MedInc <= 5",
                "3.2 < MedInc <= 5",
                "3.2 < MedInc <= 5 and AveOccup <= 2.4",
                "3.2 < MedInc <= 5 and AveOccup <= 2.4 and colour in {b, d}",
            ],
        ),
        ([9.0, 0.0, 0.0], ["MedInc > 5"]),
    ],
)
def test_wording(row, expected):
    names, forest = hand_made()
    wording = Wording([forest], names, np.array(row))
    given = [list("abcd")[int(code)] if code == code else None for code in row[2:]]
    leaf = int(forest.apply(pd.DataFrame([[*row[:2], *given]], columns=names))[0, 0])
    assert [wording.cell(cell) for _, cell in cells_of_path(forest, leaf)] == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Condition(0, 3.0, 2.0, None, True), "MedInc is missing"),
        (Condition(0, -np.inf, np.inf, None, False), "MedInc is not missing"),
        (Condition(0, -np.inf, np.inf, None, True), "any row"),
        (Condition(2, categories=frozenset(), missing=True), "colour is missing"),
        (Condition(2, categories=frozenset({1}), missing=False), "colour = b"),
        (Condition(2, categories=frozenset({0, 1, 2}), missing=False), "colour != d"),
        (Condition(2, categories=frozenset(range(4)), missing=False), "colour is not missing"),
    ],
)
def test_words_for_one_column(condition, expected):
    names, forest = hand_made()
    assert Wording([forest], names, np.zeros(3)).cell((condition,)) == expected


def test_many_categories_are_cut_short():
    names = ("n",)
    stump = Tree([1, -1, -1], [2, -1, -1], [0] * 3, [np.nan] * 3, left_categories={0: range(20)})
    forest = Forest.from_trees([stump], n_features=1, categories={0: np.arange(60)})
    text = Wording([forest], names, np.zeros(1)).cell(cells_of_path(forest, 1)[0][1])
    assert text == "n in {0, 1, 2, 3, 4, 5, 6, 7, and 12 more}"


def stumps(*thresholds):
    trees = [Tree([1, -1, -1], [2, -1, -1], [0] * 3, [t] * 3) for t in thresholds]
    return Forest.from_trees(trees, n_features=1)


@pytest.mark.parametrize(
    ("thresholds", "value", "expected"),
    [
        ([0.5123456], 9.0, "0.512"),
        ([0.5123456], 0.51215, "0.5123"),  # 0.512 would send the value to the other side
        ([0.5123456, 0.5119999], 9.0, "0.5123"),  # 0.512 would pass for the other threshold
        ([1234567.0], 0.0, "1230000"),
        ([1e-9], 1.0, "1e-09"),
        ([0.1 + 0.2, 0.3], 0.0, "0.30000000000000004"),
        ([-2.0], 0.0, "-2"),
    ],
)
def test_thresholds_have_the_fewest_digits_that_keep_their_meaning(thresholds, value, expected):
    wording = Wording([stumps(*thresholds)], ("x",), np.array([value]))
    assert wording.number(0, thresholds[0], value) == expected


def test_printed_rules_hold_for_the_row_and_keep_all_thresholds_apart():
    model, X = fitted("regression")
    single = X.astype(np.float32).astype(float)
    forest = model.forest_
    for i in (0, 5, 30):
        for rule in explain_rules(model, X[i], top=ALL).rules:
            for part in rule.text.split(" and "):
                column = int(re.search(r"x(\d)", part)[1])
                assert eval(re.sub(r"x\d", repr(float(single[i, column])), part)), rule.text
    wording = Wording([forest], explain(model, X).feature_names, single[0])
    for column in range(10):
        exact = np.unique(forest.threshold[forest.feature == column])
        shown = [float(wording.number(column, t, np.nan)) for t in exact]
        assert (np.diff(shown) > 0).all()


def test_str():
    text = str(explained("binary", 0, top=3))
    lines = text.splitlines()
    assert len(lines) == 7
    assert "(baseline)" in lines[1]
    assert "other rules)" in lines[5]
    assert "score of 1" in lines[6]
    assert "probability" in lines[6]
    assert "probability" not in str(explained("regression", 0))


# Outputs and errors.


def test_outputs():
    model, X = fitted("multiclass")
    scores = model.decision_function(X[:1])[0]
    for k in range(3):
        explanation = explain_rules(model, X[0], output=k)
        assert explanation.score == scores[k]
        assert explanation.probability == model.predict_proba(X[:1])[0, k]
    assert explain_rules(model, X[0]).score == scores.max()
    with pytest.raises(ValueError, match=r"one of the classes, \[0, 1, 2\]; got 'setosa'"):
        explain_rules(model, X[0], output="setosa")


def test_the_first_of_two_classes_has_the_opposite_score():
    model, X = fitted("binary")
    second, first = (explain_rules(model, X[0], output=c, top=4) for c in (1, 0))
    assert first.score == -second.score
    assert first.baseline == -second.baseline
    assert [r.contribution for r in first.rules] == [-r.contribution for r in second.rules]
    assert first.probability == pytest.approx(1 - second.probability)
    assert explain_rules(model, X[0]).score == second.score


@pytest.mark.parametrize("output", [None, 2, -1, "y"])
def test_one_of_several_targets_must_be_chosen(output):
    model, X = fitted("several targets")
    with pytest.raises(ValueError, match="has 2 outputs: choose one by output=0 to output=1"):
        explain_rules(model, X[0], output=output)


def test_one_target_has_no_other():
    model, X = fitted("regression")
    with pytest.raises(ValueError, match="one output, number 0; got output=1"):
        explain_rules(model, X[0], output=1)


def test_one_row_in_any_form():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = KPPRegressor(n_estimators=3, alpha=1.0, random_state=0).fit(X, y)
    texts = {str(explain_rules(model, x)) for x in (X.iloc[4], X.iloc[[4]])}
    assert len(texts) == 1
    plain = KPPRegressor(n_estimators=3, alpha=1.0, random_state=0).fit(X.to_numpy(), y)
    row = X.to_numpy()[4]
    texts = {str(explain_rules(plain, x)) for x in (row, row[None], row.tolist(), X.iloc[4])}
    assert len(texts) == 1
    mixed, frame = fitted("categories")
    texts = {str(explain_rules(mixed, x)) for x in (frame.iloc[2], frame.iloc[[2]])}
    assert len(texts) == 1


def test_bad_input():
    model, X = fitted("regression")
    with pytest.raises(ValueError, match=r"x must be one row.*\(10,\).*got shape \(2, 10\)"):
        explain_rules(model, X[:2])
    with pytest.raises(ValueError, match="X has 9 features, but KPPRegressor is expecting 10"):
        explain_rules(model, X[0, :9])
    for top in (-1, 2.5, True, None):
        with pytest.raises(ValueError, match="top must be a number of lines"):
            explain_rules(model, X[0], top=top)
    with pytest.raises(NotFittedError):
        explain_rules(KPPRegressor(), X[0])
    mixed, frame = fitted("categories")
    with pytest.raises(ValueError, match="weight"):
        explain_rules(mixed, frame.iloc[0].rename({"size": "weight"}))
