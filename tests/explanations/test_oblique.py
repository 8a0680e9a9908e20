"""Explanations where splits are oblique: shares add up, and rules say what the splits do."""

import re
from fractions import Fraction
from operator import ge, gt, le, lt

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpp import KPPRegressor, collapse, explain, explain_distance, explain_rules, path_distance
from kpp.explanations._conditions import Condition
from kpp.explanations._sums import write_sum
from kpp.explanations._wording import Wording
from kpp.forest import Forest, ObliqueForestRegressor, Tree
from kpp.forest.columns import terms_of

X, Y = load_diabetes(return_X_y=True, as_frame=True)
INF = np.inf


@pytest.fixture(scope="module")
def model():
    forest = ObliqueForestRegressor(8, block_size=3, rotated=0.7)
    return KPPRegressor(forest, alpha=1.0, random_state=0).fit(X, Y)


def by_hand(model, values):
    """Values of nodes by column: those below an oblique split by its shares."""
    forest = model.forest_
    total = np.zeros((len(values), 10))
    for v in np.flatnonzero(forest.parent >= 0):
        above = forest.parent[v]
        if forest.split_kind[above] != 3:
            total[:, forest.feature[above]] += values[:, v]
            continue
        own = slice(forest.term_offsets[above], forest.term_offsets[above + 1])
        for j, share in zip(forest.term_columns[own], forest.term_shares[own], strict=True):
            total[:, j] += share * values[:, v]
    return total


def test_both_kinds_of_splits_are_there(model):
    assert {1, 3} <= set(np.unique(model.forest_.split_kind))
    variable = model.map_.coordinate_variable
    above = model.forest_.parent
    assert ((variable == -2) == ((above >= 0) & (model.forest_.split_kind[above] == 3))).all()
    assert (variable[model.forest_.roots] == -1).all()


@pytest.mark.parametrize("centered", [False, True])
def test_the_columns_of_a_split_share_what_it_adds(model, centered):
    rows = X.iloc[:30]
    attribution = explain(model, rows, centered=centered)
    nodes = model.map_.on(rows).to_csr().toarray() * model.node_coef_
    if centered:
        nodes = nodes - model.node_coef_ * model.map_.mean_row()
    np.testing.assert_allclose(attribution.values, by_hand(model, nodes), rtol=0, atol=1e-11)
    total = attribution.baseline + attribution.values.sum(axis=1)
    np.testing.assert_allclose(total, model.predict(rows), rtol=1e-12)
    assert attribution.residual < 1e-10


def test_sums_by_tree(model):
    summary = explain(model, X.iloc[:30]).summary()
    np.testing.assert_allclose(summary.by_tree.sum(axis=0), summary.mean_abs, rtol=1e-10)


def test_importances(model):
    squares = np.square(model.map_.to_csr().toarray() * model.node_coef_).mean(axis=0)
    expected = by_hand(model, squares[None])[0]
    np.testing.assert_allclose(model.feature_importances_, expected / expected.sum(), rtol=1e-10)


def test_distances(model):
    explanation = explain_distance(model, X.iloc[3], X.iloc[50])
    a, b = model.map_.on(X.iloc[[3]]).to_csr(), model.map_.on(X.iloc[[50]]).to_csr()
    squares = np.square((a - b).toarray())
    np.testing.assert_allclose(explanation.by_variable, by_hand(model, squares)[0], atol=1e-15)
    apart = path_distance(model, X.iloc[[3]], X.iloc[[50]])[0, 0]
    assert explanation.by_variable.sum() == pytest.approx(apart, rel=1e-12)
    assert (explanation.values >= 0).all()
    assert (explanation.parted_by >= 0).all()


def test_a_pipeline_of_scaled_columns():
    forest = ObliqueForestRegressor(5)
    pipeline = make_pipeline(StandardScaler(), KPPRegressor(forest, alpha=1.0, random_state=0))
    attribution = explain(pipeline.fit(X, Y), X.iloc[:10])
    assert attribution.feature_names == tuple(X.columns)
    np.testing.assert_allclose(
        attribution.baseline + attribution.values.sum(axis=1), pipeline.predict(X.iloc[:10])
    )
    by_tree = attribution.summary().by_tree
    np.testing.assert_allclose(by_tree.sum(axis=0), np.abs(attribution.values).mean(axis=0))


def fulfils(condition, rows):
    if not condition.terms:
        value = rows[:, condition.feature]
    else:
        value = np.zeros(len(rows))
        for j, a in condition.terms:
            value = value + a * rows[:, j]
    inside = (value > condition.low) & (value <= condition.high)
    return np.where(np.isnan(value), condition.missing, inside)


def test_rules_describe_the_rows_in_their_cells(model):
    explanation = explain_rules(model, X.iloc[[11]], top=10**6)
    rows = X.to_numpy()
    n_sums = 0
    for rule in explanation.rules:
        inside = np.all([fulfils(c, rows) for c in rule.conditions], axis=0)
        assert rule.support == pytest.approx(inside.mean(), abs=1e-12)
        assert inside[11]
        n_sums += sum(bool(c.terms) for c in rule.conditions)
        # Splits on the same sum are one condition.
        places = [c.terms or c.feature for c in rule.conditions]
        assert len(set(places)) == len(places)
    assert n_sums > 100
    total = explanation.baseline + sum(rule.contribution for rule in explanation.rules)
    assert total == pytest.approx(model.predict(X.iloc[[11]])[0], rel=1e-12)


def holds(text, row, names):
    """Whether a printed condition holds for a row, read as exact decimals; and its columns."""
    parts = re.split(" (<=|<|>=|>) ", text)
    at = next(k for k in range(0, len(parts), 2) if " " in parts[k])
    words, total, columns, sign = parts[at].split(" "), Fraction(0), [], 1
    while words:
        if words[0] in "+-":
            sign, words = (-1 if words[0] == "-" else 1), words[1:]
        columns.append(names.index(words[1]))
        total += sign * Fraction(words[0]) * Fraction(float(row[columns[-1]]))
        sign, words = 1, words[2:]
    numbers = [total if k == at else Fraction(parts[k]) for k in range(0, len(parts), 2)]
    compare = {"<": lt, "<=": le, ">": gt, ">=": ge}
    pairs = zip(numbers, parts[1::2], numbers[1:], strict=False)
    return all(compare[op](left, right) for left, op, right in pairs), columns


def test_printed_sums_hold_for_the_row(model):
    names = list(X.columns)
    for i in (0, 11, 200):
        row = X.to_numpy()[i]
        for rule in explain_rules(model, X.iloc[[i]], top=60).rules:
            for part, condition in zip(rule.text.split(" and "), rule.conditions, strict=True):
                if not condition.terms:
                    continue
                assert holds(part, row, names) == (True, [j for j, _ in condition.terms])
                assert not part.startswith("-") or "<" in part.split(" ")[1]


NAMES = ("a", "b", "c")


@pytest.mark.parametrize(
    ("terms", "low", "high", "expected"),
    [
        (((0, 0.61803), (1, 0.78615)), -INF, 1.2, "0.618 a + 0.786 b <= 1.2"),
        (((1, -0.5), (0, 2.0)), 0.25, INF, "0.5 b - 2 a < -0.25"),
        (((1, -0.5), (0, -2.0)), -INF, -0.25, "0.5 b + 2 a >= 0.25"),
        (((0, -1.0), (2, 3.0)), -2.0, 0.0, "0 <= 1 a - 3 c < 2"),
        (((0, 1.0), (2, -1e-9)), -1.0, 1.5, "-1 < 1 a - 1e-09 c <= 1.5"),
        # Three digits would put the row on the other side of the bound.
        (((0, 1.0004), (1, 1.0)), 2.0002, INF, "1.0004 a + 1 b > 2.0002"),
    ],
)
def test_sums_in_words(terms, low, high, expected):
    row = np.array([1.0, 1.0, 0.0])
    assert write_sum(terms, low, high, NAMES, row, np.zeros(3)) == expected


def test_digits_follow_the_spread():
    # Far from 0 three digits of a weight move the sum by more than the columns do.
    terms, row = ((0, 0.70711), (1, -0.70711)), np.array([1000.0, 1001.0, 0.0])
    near = write_sum(terms, -INF, 5.0, NAMES, row, np.array([1000.0, 1000.0, 0]))
    assert near == "0.707 a - 0.707 b <= 5"
    mixed = ((0, 0.70711), (1, 0.3))
    text = write_sum(mixed, -INF, 1100.0, NAMES, row, np.array([1.0, 1.0, 0]))
    assert text == "0.70711 a + 0.3 b <= 1100"
    # Of a row that misses a column nothing can be checked.
    row[0] = np.nan
    assert write_sum(mixed, -INF, 5.0, NAMES, row, np.ones(3)) == "0.70711 a + 0.3 b <= 5"


def test_missing_values_in_words():
    tree = Tree([1, -1, -1], [2, -1, -1], [-1] * 3, [1.0] * 3, oblique={0: ([0, 1], [1.0, 2.0])})
    forest = Forest.from_trees([tree], n_features=3)
    terms = terms_of(forest, 0)
    condition = Condition(-2, -INF, 1.0, None, True, terms)
    assert Wording([forest], NAMES, [0.0, 0.0, np.nan]).cell((condition,)) == "1 a + 2 b <= 1"
    wording = Wording([forest], NAMES, [0.0, np.nan, 0.0])
    assert wording.cell((condition,)) == "1 a + 2 b <= 1 or one of them is missing"
    both = (Condition(2, high=3.0, missing=False), condition)
    expected = "c <= 3 and (1 a + 2 b <= 1 or one of them is missing)"
    assert wording.cell(both) == expected
    assert wording.cell((Condition(-2, 1.0, 0.0, None, True, terms),)) == "a or b is missing"


def test_a_split_of_missing_values_alone():
    terms = ((0, 1.0), (1, 2.0))
    tree = Tree([1, -1, -1], [2, -1, -1], [-1] * 3, [INF] * 3, oblique={0: ([0, 1], [1.0, 2.0])})
    wording = Wording([Forest.from_trees([tree], n_features=3)], NAMES, [0.0, 0.0, 0.0])
    assert wording.cell((Condition(-2, -INF, INF, None, True, terms),)) == "any row"
    never = Condition(-2, -INF, INF, None, False, terms)
    assert wording.cell((never,)) == "neither a nor b is missing"


def test_what_other_tools_cannot_hold(model):
    pytest.importorskip("shap")
    with pytest.raises(TypeError, match=r"oblique.*level='variable'"):
        explain(model, X, level="shapley")


def test_no_plain_forest(model):
    collapsed = collapse(model)
    assert np.array_equal(collapsed.scores(X)[:, 0], model.predict(X))
    with pytest.raises(TypeError, match=r"oblique splits.*collapse\(model\).scores"):
        collapsed.to_sklearn()
