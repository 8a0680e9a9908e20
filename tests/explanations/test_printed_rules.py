"""Every printed rule, read as a person would read it, against the rows that are in its nodes."""

import re

import numpy as np
import pandas as pd
import pytest
from explanations.fitted_models import MODELS, fitted, mixed_frame
from sklearn.datasets import load_diabetes
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator

from kpp import KPPRegressor, explain_rules

ALL = 10**6
ORDER = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def holds(text, frame, known=None):
    """Rows that a printed rule holds for; `known` has the categories that are not "other"."""
    inside = np.ones(len(frame), dtype=bool)
    for part in [] if text == "any row" else text.split(" and "):
        inside &= _part_holds(part, frame, known or {})
    return inside


def _part_holds(part, frame, known):
    part = part.removeprefix("(").removesuffix(")")
    words = part.split(" or ")
    name = next(w for w in re.split(r"[ ,{}]", words[0]) if w in frame.columns)
    column = frame[name]
    missing = column.isna().to_numpy()
    other = ~missing & ~column.isin(known[name]).to_numpy() if name in known else missing & False
    if (
        negated := re.fullmatch(rf"{name} is (not|missing or not in|missing or not) (.*)", part)
    ) and (negated[2] != "missing"):
        values = negated[2].removeprefix("{").removesuffix("}").split(", ")
        differs = ~column.astype(object).map(str).isin(values).to_numpy() & ~missing
        return differs | missing if "missing" in negated[1] else differs
    if f"{name} is " in words[0]:
        what = words[0].removeprefix(f"{name} is ")
        if what == "not missing":
            return ~missing
        if what == "neither missing nor other":
            return ~missing & ~other
        words = ["", what, *words[1:]]
        inside = missing & False
    else:
        inside = _condition_holds(words[0], name, column) & ~missing
    for word in words[1:]:
        inside = inside | {"missing": missing, "other": other}[word]
    return inside


def _condition_holds(text, name, column):
    if match := re.fullmatch(rf"{name} (=|in|not in) (.*)", text):
        values = match[2].removeprefix("{").removesuffix("}").split(", ")
        found = column.astype(object).map(str).isin(values).to_numpy()
        return found if match[1] in ("=", "in") else ~found
    terms = re.split(" (<=|>=|<|>) ", text)
    inside = np.ones(len(column), dtype=bool)
    for a, order, b in zip(terms[::2], terms[1::2], terms[2::2], strict=False):
        left, right = (column.to_numpy(float) if v == name else float(v) for v in (a, b))
        inside &= ORDER[order](left, right)
    return inside


def check_rules(model, X, rows, known=None, top=ALL):
    """Each rule of each row holds for the row, and for the rows of the fit in its nodes."""
    frame = (
        X if hasattr(X, "iloc") else pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    )
    fit = frame.iloc[model.fit_rows_]
    members = model.map_.to_csr().toarray() > 0
    place = {name: k for k, name in enumerate(model.map_.coordinate_names)}
    n_rules = 0
    for i in rows:
        explanation = explain_rules(model, X.iloc[[i]] if hasattr(X, "iloc") else X[i], top=top)
        for rule in explanation.rules:
            n_rules += 1
            assert holds(rule.text, frame.iloc[[i]], known)[0], (i, rule.text)
            said = holds(rule.text, fit, known)
            for node in rule.nodes:
                np.testing.assert_array_equal(said, members[:, place[node]], rule.text)
            assert rule.support == pytest.approx(said.mean(), abs=1e-12)
        texts = [(rule.text, rule.support) for rule in explanation.rules]
        assert len(set(texts)) == len(texts)
    assert n_rules


ROWS = [0, 3, 11, 37, 90]


@pytest.mark.parametrize(
    "kind", [kind for kind in MODELS if kind not in ("several targets", "multiclass")]
)
def test_every_kind_of_model(kind):
    model, X = fitted(kind)
    check_rules(model, X, ROWS)


@pytest.mark.parametrize("forest", ["random-forest", "boosted", "extra-trees"])
@pytest.mark.parametrize("scaled", [True, False])
def test_thresholds_move_no_row_of_the_fit(forest, scaled):
    # Scaled, its columns are lattices: what is half way between two values is a third one.
    X, y = load_diabetes(return_X_y=True, scaled=scaled)
    model = KPPRegressor(forest, n_estimators=10, alpha=0.5, random_state=0).fit(X, y)
    check_rules(model, X, range(0, 442, 36), top=10)


@pytest.mark.parametrize("forest", ["random-forest", "boosted"])
def test_missing_values(forest):
    X, y = load_diabetes(return_X_y=True, scaled=False)
    X[np.random.default_rng(0).random(X.shape) < 0.15] = np.nan
    X[:, 1] = np.nan_to_num(X[:, 1], nan=1.0)
    model = KPPRegressor(forest, n_estimators=10, alpha=0.5, random_state=0).fit(X, y)
    check_rules(model, X, ROWS)
    texts = [rule.text for i in ROWS for rule in explain_rules(model, X[i], top=ALL).rules]
    assert any("or missing" in text for text in texts)
    # The second column is never missing: no rule says what would become of it.
    assert not any(re.search(r"x1 [<>=]+ [\d.]+ or missing", text) for text in texts)


def test_missing_values_of_a_model_that_does_not_know_of_them():
    X, y = mixed_frame()
    model = KPPRegressor("boosted", n_estimators=5, alpha=0.1, random_state=0).fit(X, y)
    vars(model).pop("missing_columns_", None)
    known = X.notna().all(axis=1).to_numpy()
    for i in (np.flatnonzero(known)[0], np.flatnonzero(~known)[0]):
        for rule in explain_rules(model, X.iloc[[i]], top=ALL).rules:
            assert holds(rule.text, X.iloc[[i]])[0]
            assert not known[i] or "missing" not in rule.text


def with_a_rare_category(missing):
    rng = np.random.default_rng(0)
    kind = rng.choice(list("bcde"), 300).astype(object)
    kind[0] = "a"
    y = np.select([kind == "b", kind == "c", kind == "d", kind == "e"], [5.0, -5.0, 2.0, 0.0], 9.0)
    if missing:
        kind[1:][rng.random(299) < 0.1] = np.nan
    X = pd.DataFrame({"kind": pd.Categorical(kind), "x": rng.normal(size=300).round(3)})
    return X, y + 0.1 * X["x"]


@pytest.mark.parametrize("missing", [False, True])
def test_folds_that_know_different_categories(missing):
    X, y = with_a_rare_category(missing)
    model = KPPRegressor(
        "boosted", n_estimators=6, alpha=0.1, regime="cross-fit", cv=4, random_state=0
    ).fit(X, y)
    assert len({len(forest.categories[0]) for _, forest in model.forest_}) == 2
    check_rules(model, X, [0, 5, 6, 7, 8, 9, 10])
    # The same set of categories is one rule, whatever numbers the folds give to them.
    folds = [
        {node.split("__")[0] for node in rule.nodes}
        for rule in explain_rules(model, X.iloc[[5]], top=ALL).rules
    ]
    assert max(map(len, folds)) > 2


@pytest.mark.parametrize("regime", ["honest", "fixed"])
def test_categories_that_the_forest_has_not_seen(regime):
    X, y = with_a_rare_category(missing=True)
    rare = X["kind"].isin(["a", "b"]).to_numpy()
    boosted = HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=5, random_state=0)
    if regime == "fixed":
        boosted = FrozenEstimator(boosted.fit(X[~rare], y[~rare]))
        model = KPPRegressor(boosted, regime="fixed", node_weight="uniform", alpha=0.1).fit(X, y)
    else:
        for seed in range(100):  # a split that leaves the rare category to the fit
            model = KPPRegressor(boosted, regime="honest", alpha=0.1, random_state=seed).fit(X, y)
            if 0 in model.fit_rows_:
                break
    known = {"kind": model.forest_.categories[0].tolist()}
    assert "a" not in known["kind"]
    check_rules(model, X, [0, 5, 6, 7, 8, 9, 10, 11], known)
    assert any("other" in rule.text for rule in explain_rules(model, X.iloc[[0]], top=ALL).rules)


def test_a_new_category_is_other_and_not_missing():
    X, y = with_a_rare_category(missing=False)
    model = KPPRegressor("boosted", n_estimators=6, alpha=0.1, random_state=0).fit(X, y)
    new = pd.DataFrame({"kind": ["unheard of"], "x": [0.3]})
    texts = [rule.text for rule in explain_rules(model, new, top=ALL).rules]
    assert any("or other" in text for text in texts)
    assert not any("missing" in text for text in texts)
    for text in texts:
        assert holds(text, new, {"kind": list("abcde")})[0]


def test_forests_that_compare_in_different_precisions():
    """Values on thresholds, and just beside them, in one precision or the other."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    X[:, 1] = X[:, 1].round(1)
    y = X[:, 0] + X[:, 1] ** 2 + 0.1 * rng.normal(size=300)
    blocks = [
        ("rf", RandomForestRegressor(5, min_samples_leaf=3)),
        ("hgb", HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=5)),
        ("et", ExtraTreesRegressor(3, min_samples_leaf=3)),
    ]
    model = KPPRegressor(blocks, combine="joint", alpha=0.1, random_state=0).fit(X, y)
    check_rules(model, X, ROWS)
    rows = X[:40].copy()
    for i, row in enumerate(rows):
        for j in range(3):
            forest = rng.choice([f for _, f in model.forest_])
            t = rng.choice(forest.threshold[(forest.feature == j)])
            single = float(np.float32(t))
            row[j] = [t, np.nextafter(t, 9), single, np.nextafter(single, 9), t + 3e-8][(i + j) % 5]
    for row in rows:
        frame = pd.DataFrame(row[None], columns=["x0", "x1", "x2"])
        for rule in explain_rules(model, row, top=ALL).rules:
            assert holds(rule.text, frame)[0], rule.text
            assert all(c.low < row[c.feature] <= c.high for c in rule.conditions)


def test_equal_numbers_of_rows_do_not_make_equal_cells():
    """Where missing values go to different sides, rules are apart though their support agrees."""
    nan = np.nan
    X = np.array([[0.0, 0.0]] * 6 + [[nan, 0.0], [0.0, nan]] + [[1.0, 1.0]] * 6)
    y = np.array([0.0] * 6 + [0.5, 0.5] + [1.0] * 6)
    model = KPPRegressor(
        HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=1, max_leaf_nodes=4),
        alpha=0.1,
        random_state=0,
    ).fit(X, y)
    check_rules(model, X, range(len(X)))
