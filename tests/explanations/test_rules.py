"""Rules: what they say, what they add, and that they add up."""

import numpy as np
import pandas as pd
import pytest
from explanations.fitted_models import MODELS, fitted
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError

from kpp import KPPClassifier, KPPRegressor
from kpp.explanations import explain, explain_rules
from kpp.explanations._conditions import Condition, cells_of_path
from kpp.explanations._decimals import KnownColumns
from kpp.explanations._wording import Wording
from kpp.forest import Forest, Tree

ALL = 10**6


def some_output(kind):
    return 1 if kind == "several targets" else None


def row_of(X, i):
    return X.iloc[[i]] if hasattr(X, "iloc") else X[i]


def explained(kind, i, **parameters):
    model, X = fitted(kind)
    return explain_rules(model, row_of(X, i), output=some_output(kind), **parameters)


def fulfils(condition, X):
    """Which rows fulfil a condition."""
    value = pd.DataFrame(X).iloc[:, condition.feature]
    if condition.categories is None:
        inside = (value > condition.low) & (value <= condition.high)
    else:
        inside = value.isin(condition.categories)
    return np.where(value.isna(), condition.missing, inside)


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
        zip(model.map_.coordinate_names, np.atleast_2d(model.node_coef_)[k] * phi, strict=True)
    )
    listed = [name for rule in explanation.rules for name in rule.nodes]
    adds = (phi > 0) & np.atleast_2d(model.node_coef_).any(axis=0)
    below_root = model.map_.coordinate_names[adds & (model.map_.coordinate_variable >= 0)]
    assert sorted(listed) == sorted(below_root)
    for rule in explanation.rules:
        own = sum(contribution[name] for name in rule.nodes)
        assert rule.contribution == pytest.approx(own, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("kind", MODELS)
def test_support_and_conditions_describe_the_same_rows(kind):
    model, X = fitted(kind)
    fit = X if model.regime_ != "honest" else X[model.fit_rows_]
    for rule in explained(kind, 11, top=40).rules:
        inside = np.all([fulfils(c, fit) for c in rule.conditions], axis=0)
        assert rule.support == pytest.approx(inside.mean(), abs=1e-12)
        assert all(fulfils(c, X[11:12])[0] for c in rule.conditions)


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
    # The shortest number from 0, the value below the threshold, to below 1.
    assert explanation.rules[0].text == "x0 > 0"
    assert len(explanation.rules[0].nodes) == explanation.rules[0].n_trees == 6
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
            [4.0, 2.0, "a"],
            [
                "MedInc <= 5",
                "3.2 < MedInc <= 5",
                "3.2 < MedInc <= 5 and AveOccup <= 2.4",
                "3.2 < MedInc <= 5 and AveOccup <= 2.4 and colour in {a, c}",
            ],
        ),
        (
            [np.nan, 2.0, None],
            [
                "MedInc <= 5 or missing",
                "3.2 < MedInc <= 5 or missing",
                "(3.2 < MedInc <= 5 or missing) and AveOccup <= 2.4",
                "(3.2 < MedInc <= 5 or missing) and AveOccup <= 2.4 and "
                "(colour in {a, c} or missing)",
            ],
        ),
        (
            [4.0, 2.0, "d"],
            [
                "MedInc <= 5",
                "3.2 < MedInc <= 5",
                "3.2 < MedInc <= 5 and AveOccup <= 2.4",
                "3.2 < MedInc <= 5 and AveOccup <= 2.4 and colour in {b, d}",
            ],
        ),
        (
            [4.0, 2.0, "unheard of"],
            [
                "MedInc <= 5",
                "3.2 < MedInc <= 5",
                "3.2 < MedInc <= 5 and AveOccup <= 2.4",
                "3.2 < MedInc <= 5 and AveOccup <= 2.4 and (colour in {a, c} or other)",
            ],
        ),
        ([9.0, 0.0, "a"], ["MedInc > 5"]),
    ],
)
def test_wording(row, expected):
    names, forest = hand_made()
    wording = Wording([forest], names, row)
    leaf = int(forest.apply(pd.DataFrame([row], columns=names))[0, 0])
    cells = cells_of_path(forest, leaf, wording.categories)
    assert [wording.cell(cell) for _, cell in cells] == expected


def categories(values, missing):
    return Condition(2, categories=frozenset(values), missing=missing)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Condition(0, 3.0, 2.0, None, True), "MedInc is missing"),
        (Condition(0, -np.inf, np.inf, None, False), "MedInc is not missing"),
        (Condition(0, -np.inf, np.inf, None, True), "any row"),
        (categories("", True), "colour is missing"),
        (categories("b", False), "colour = b"),
        (categories("abc", False), "colour is not d"),
        (categories("abcd", False), "colour is not missing"),
    ],
)
def test_words_for_one_column(condition, expected):
    names, forest = hand_made()
    assert Wording([forest], names, [0.0, 0.0, "a"]).cell((condition,)) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Condition(0, -np.inf, 5.0, None, True), "MedInc <= 5"),
        (Condition(1, -np.inf, 2.4, None, True), "AveOccup <= 2.4 or missing"),
        (Condition(1, -np.inf, 2.4, None, False), "AveOccup <= 2.4"),
        (categories("", True), "colour is missing or other"),
        (categories("b", False), "colour = b"),
        (categories("b", True), "colour = b or missing or other"),
        # What is not d may be unknown, too: this must say so by itself.
        (categories("abc", True), "colour is missing or not d"),
        (categories("abc", False), "colour in {a, b, c}"),
        (categories("abcd", False), "colour is neither missing nor other"),
        (categories("abcd", True), "any row"),
    ],
)
def test_words_for_rows_of_the_fit_that_are_missing_or_of_unknown_categories(condition, expected):
    names, forest = hand_made()
    wording = Wording([forest], names, missing=np.array([False, True, True]), other=True)
    assert wording.cell((condition,)) == expected


def test_many_categories_are_cut_short():
    names = ("n",)
    stump = Tree([1, -1, -1], [2, -1, -1], [0] * 3, [np.nan] * 3, left_categories={0: range(20)})
    forest = Forest.from_trees([stump], n_features=1, categories={0: np.arange(60)})
    wording = Wording([forest], names, [0])
    text = wording.cell(cells_of_path(forest, 1, wording.categories)[0][1])
    assert text == "n in {0, 1, 2, 3, 4, 5, 6, 7, and 12 more}"


def stumps(*thresholds, dtype="float64"):
    trees = [Tree([1, -1, -1], [2, -1, -1], [0] * 3, [t] * 3) for t in thresholds]
    return Forest.from_trees(trees, n_features=1, dtype=dtype)


def printed(forests, t, value=np.nan, spread=1.0):
    """How x <= t is printed."""
    wording = Wording(forests, ("x",), [value], known=KnownColumns(np.array([spread])))
    return wording.cell((Condition(0, high=float(t), missing=False),))


@pytest.mark.parametrize(
    ("thresholds", "value", "expected"),
    [
        ([0.5], 9.0, "x <= 0.5"),
        ([0.5123456], 9.0, "x < 0.5124"),  # upwards, by less than 0.001 of the spread
        ([0.5123456], 0.51237, "x < 0.51235"),  # x < 0.5124 would hold for the value
        ([0.51234567, 0.5126], 9.0, "x < 0.5123457"),  # at most 0.001 of the gap
        ([0.5123456, 0.5122], 9.0, "x < 0.5124"),  # the gap below plays no part
        ([1e-9], 1.0, "x <= 1e-09"),
        ([0.1 + 0.2, 0.3], 0.0, "x < 0.300000000000001"),
        ([0.1 + 0.2], 0.0, "x <= 0.3"),
        ([-2.0], 0.0, "x <= -2"),
        ([-0.51234567], 9.0, "x < -0.5123"),
        ([0.0], 9.0, "x <= 0"),
        ([1e300], 9.0, "x <= 1e+300"),
    ],
)
def test_thresholds_have_the_fewest_digits_that_keep_their_meaning(thresholds, value, expected):
    assert printed([stumps(*thresholds)], thresholds[0], value) == expected


def test_thresholds_of_large_numbers():
    assert printed([stumps(1234567.0)], 1234567.0, spread=1e6) == "x < 1235000"
    assert printed([stumps(1234567.0)], 1234567.0, spread=1e3) == "x <= 1234567"
    # Nothing is known of the spread: then the size of the number counts.
    assert printed([stumps(1234567.0)], 1234567.0, spread=0.0) == "x < 1235000"


@pytest.mark.parametrize(
    ("below", "above", "words"),
    [(13.03, 13.05, "<="), (26.9, 27.0, "<"), (-1, 1, "<="), (0, 1, "<=")],
)
def test_decimals_in_single_precision(below, above, words):
    """Half way between two values as scikit-learn has it; a value in between is on its side."""
    t = float(np.float32(below)) / 2 + float(np.float32(above)) / 2
    forest = stumps(t, dtype="float32")
    middle = round((below + above) / 2, 4)
    limit = Wording([forest], ("x",)).forests[0].threshold[0]
    assert printed([forest], limit) == f"x {words} {middle:g}"
    goes_left = forest.apply([[middle]])[0, 0] == 1
    assert goes_left == (words == "<=")


def test_a_value_that_is_the_threshold_is_on_its_side():
    t = 0.00996122695505619
    assert printed([stumps(t)], t) == "x < 0.009962"
    assert printed([stumps(t, t + 5e-4)], t) == "x < 0.0099613"


def test_thresholds_that_single_precision_rounds_apart_are_exact_in_all_of_their_column():
    step = float(np.spacing(np.float32(0.0123)))
    t, pair = 0.51234567, [0.012345678, 0.012345678 + 2 * step]
    exact = Wording([stumps(t, *pair, dtype="float32")], ("x",)).forests[0].threshold
    shown = printed([stumps(t, *pair, dtype="float32")], exact[0])
    assert 0 < float(shown.removeprefix("x < ")) - exact[0] < 1e-10
    assert printed([stumps(t, *pair)], t) == "x < 0.5124"


def test_the_same_split_in_two_precisions_is_printed_alike():
    forests = [stumps(0.5, 0.7, dtype="float32"), stumps(0.5, 0.9)]
    limit = float(Wording(forests, ("x",)).forests[0].threshold[0])
    assert limit > 0.5
    assert printed(forests, limit) == printed(forests, 0.5) == "x <= 0.5"
    # Unless the explained value is in between.
    assert printed(forests, limit, np.nextafter(0.5, 1)) != printed(forests, 0.5)


def test_printed_thresholds_stay_in_order():
    model, X = fitted("regression")
    wording = Wording(
        [model.forest_], explain(model, X).feature_names, known=KnownColumns(X.std(axis=0))
    )
    forest = wording.forests[0]
    for column in range(10):
        exact = np.unique(forest.threshold[forest.feature == column])
        shown = [float(wording.number(column, float(t))[0]) for t in exact]
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
    for output in (True, [1], np.array([1, 2]), X):
        with pytest.raises(ValueError, match=r"one of the classes, \[0, 1, 2\]; got"):
            explain_rules(model, X[0], output=output)
    assert explain_rules(model, X[0], output=np.int64(1)).output == "score of 1"


def test_classes_that_are_true_and_false():
    X, y = fitted("binary")[1], fitted("binary")[0].predict(fitted("binary")[1]) == 1
    model = KPPClassifier("extra-trees", alpha=1e-2, n_estimators=3, random_state=0).fit(X, y)
    assert explain_rules(model, X[0], output=True).output == "score of True"
    assert explain_rules(model, X[0], output=np.bool_(False)).output == "score of False"
    with pytest.raises(ValueError, match=r"one of the classes, \[False, True\]; got 1"):
        explain_rules(model, X[0], output=1)


def test_the_first_of_two_classes_has_the_opposite_score():
    model, X = fitted("binary")
    second, first = (explain_rules(model, X[0], output=c, top=4) for c in (1, 0))
    assert first.score == -second.score
    assert first.baseline == -second.baseline
    assert [r.contribution for r in first.rules] == [-r.contribution for r in second.rules]
    assert first.probability == pytest.approx(1 - second.probability)
    assert explain_rules(model, X[0]).score == second.score


@pytest.mark.parametrize("output", [None, 2, -1, "y", True, 0.5, [0], np.array([0, 1])])
def test_one_of_several_targets_must_be_chosen(output):
    model, X = fitted("several targets")
    with pytest.raises(ValueError, match="has 2 outputs: choose one by output=0 to output=1"):
        explain_rules(model, X[0], output=output)


def test_one_target_has_no_other():
    model, X = fitted("regression")
    with pytest.raises(ValueError, match="one output, number 0; got output=1"):
        explain_rules(model, X[0], output=1)
    for output in (False, [0], np.array([0, 0])):
        with pytest.raises(ValueError, match="one output, number 0; got output="):
            explain_rules(model, X[0], output=output)
    assert explain_rules(model, X[0], output=np.int64(0)).output == "prediction"


def test_one_row_in_any_form():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = KPPRegressor("extra-trees", n_estimators=3, alpha=1.0, random_state=0).fit(X, y)
    texts = {str(explain_rules(model, x)) for x in (X.iloc[4], X.iloc[[4]])}
    assert len(texts) == 1
    plain = KPPRegressor("extra-trees", n_estimators=3, alpha=1.0, random_state=0).fit(
        X.to_numpy(), y
    )
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
    with pytest.raises(ValueError):
        explain_rules(model, X[0, :9])
    for top in (-1, 2.5, True, None):
        with pytest.raises(ValueError, match="top must be a number of lines"):
            explain_rules(model, X[0], top=top)
    with pytest.raises(NotFittedError):
        explain_rules(KPPRegressor("extra-trees"), X[0])
    mixed, frame = fitted("categories")
    with pytest.raises(ValueError, match=r"lacks \['size'\]"):
        explain_rules(mixed, frame.iloc[0].rename({"size": "weight"}))
