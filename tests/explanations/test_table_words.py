"""Rules behind a preparation, read as a person would read them in the table."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from kpp import KPPRegressor, explain_rules
from kpp.explanations._decimals import shortest_between
from kpp.models.asking import ask

ALL = 10**6


def school_table(n=160, seed=0):
    random = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "school": random.choice(["GP", "MS", "XY"], n, p=[0.5, 0.3, 0.2]),
            "Mjob": random.choice(["teacher", "health", "other", "at_home"], n),
            "sex": random.choice(["F", "M"], n),
            "size": random.gamma(3, 20, n).round(1),
            "age": random.integers(15, 23, n),
        }
    )
    y = 2 * (X["school"] == "MS") + (X["Mjob"] == "teacher") * (X["sex"] == "F") + X["size"] / 30
    return X, (y + 0.5 * (X["age"] > 18) + random.normal(0, 0.1, n)).to_numpy()


def part_holds(part, frame):
    """Rows that a condition holds for; sets, numbers and dates."""
    name = next(w for w in re.split(r"[ ,{}]", part) if w in frame.columns)
    column = frame[name]
    if match := re.fullmatch(rf"{name} (=|in|is not|not in) (.*)", part):
        values = match[2].removeprefix("{").removesuffix("}").split(", ")
        found = column.astype(str).isin(values).to_numpy()
        return found if match[1] in ("=", "in") else ~found
    inside, terms = np.ones(len(column), dtype=bool), re.split(" (<=|>=|<|>) ", part)
    order = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
    for a, sign, b in zip(terms[::2], terms[1::2], terms[2::2], strict=False):
        left, right = (column.to_numpy(float) if v == name else float(v) for v in (a, b))
        inside &= order[sign](left, right)
    return inside


def encoded(**numbers):
    return make_column_transformer(
        (OneHotEncoder(sparse_output=False, handle_unknown="ignore"), ["school", "Mjob"]),
        (OneHotEncoder(sparse_output=False, drop="if_binary"), ["sex"]),
        *((own, list(columns)) for own, columns in numbers.values()),
        remainder="passthrough",
    )


PREPARED = {
    "one-hot": lambda: encoded(),
    "scaled": lambda: encoded(a=(StandardScaler(), ["size"]), b=(MinMaxScaler(), ["age"])),
    "one-hot, then scaled": lambda: make_pipeline(encoded(), RobustScaler(with_centering=True)),
    "ordinal": lambda: make_column_transformer(
        (OrdinalEncoder(), ["school", "Mjob", "sex"]), remainder="passthrough"
    ),
}


@pytest.mark.parametrize("forest", ["extra-trees", "random-forest", "boosted"])
@pytest.mark.parametrize("kind", PREPARED)
def test_every_rule_holds_for_just_its_rows_of_the_table(kind, forest):
    X, y = school_table()
    model = KPPRegressor(forest, n_estimators=8, alpha=0.1, random_state=0)
    pipeline = make_pipeline(PREPARED[kind](), model).fit(X, y)
    members = pipeline[-1].map_.to_csr().toarray() > 0
    place = {name: k for k, name in enumerate(pipeline[-1].map_.coordinate_names)}
    for i in (0, 7, 31):
        found = explain_rules(pipeline, X.iloc[[i]], top=ALL)
        texts = [rule.text for rule in found.rules]
        assert len(set(texts)) == len(texts), "rules that read the same are one"
        for rule in found.rules:
            parts = rule.text.split(" and ")
            names = [next(w for w in re.split(r"[ ,{}]", p) if w in X.columns) for p in parts]
            assert len(set(names)) == len(names), "one condition for each column of the table"
            said = np.all([part_holds(part, X) for part in parts], axis=0)
            assert said[i], rule.text
            for node in rule.nodes:
                np.testing.assert_array_equal(said, members[:, place[node]], rule.text)
        total = found.baseline + sum(rule.contribution for rule in found.rules)
        assert total == pytest.approx(pipeline.predict(X.iloc[[i]])[0], rel=1e-10)


def test_words_are_those_of_the_table():
    X, y = school_table()
    model = KPPRegressor("random-forest", n_estimators=20, alpha=0.1, random_state=0)
    pipeline = make_pipeline(encoded(), model).fit(X, y)
    ms = X[X["school"] == "MS"]
    texts = [rule.text for rule in explain_rules(pipeline, ms.iloc[[0]], top=ALL).rules]
    assert "school = MS" in texts
    assert not any("school_" in text for text in texts)
    gp = X[X["school"] == "GP"]
    listed = explain_rules(pipeline, gp.iloc[[0]], top=ALL).rules
    first = next(rule for rule in listed if rule.text == "school is not MS")
    assert first.n_trees > 1
    assert f"in {first.n_trees} trees" in str(explain_rules(pipeline, gp.iloc[[0]]))


def test_a_category_that_the_encoder_does_not_know():
    X, y = school_table()
    model = KPPRegressor("extra-trees", n_estimators=10, alpha=0.1, random_state=0)
    pipeline = make_pipeline(encoded(), model).fit(X, y)
    row = X.iloc[[0]].assign(school="unheard of")
    for rule in explain_rules(pipeline, row, top=ALL).rules:
        for part in rule.text.split(" and "):
            assert part_holds(part, row)[0], rule.text


def test_dates_texts_and_gaps_of_the_vectorizer():
    skrub = pytest.importorskip("skrub")
    X, y = school_table(200)
    random = np.random.default_rng(1)
    X["signed"] = pd.Timestamp("2005-01-01") + pd.to_timedelta(random.integers(0, 5000, 200), "D")
    X["title"] = [" ".join(random.choice(["red", "old", "boat", "car"], 4)) for _ in range(200)]
    X.loc[:20, "Mjob"] = None
    y = y + 2 * (X["signed"].dt.year > 2012) + X["title"].str.contains("boat")
    text = skrub.StringEncoder(n_components=3, random_state=0)
    preparation = skrub.TableVectorizer(high_cardinality=text)
    model = KPPRegressor("extra-trees", n_estimators=30, alpha=0.1, random_state=0)
    pipeline = make_pipeline(preparation, model).fit(X, y)
    texts = [
        part
        for i in range(0, 60, 7)
        for rule in explain_rules(pipeline, X.iloc[[i]], top=ALL).rules
        for part in rule.text.split(" and ")
    ]
    assert any(re.fullmatch(r"signed year (<=|>) 20\d\d", part) for part in texts)
    assert any(re.fullmatch(r"signed (<|>=) \d{4}-\d\d-\d\d", part) for part in texts)
    assert any(re.match(r"text of `title`: component \d >", part) for part in texts)
    assert "Mjob is missing" in texts
    assert any(part.startswith("sex = ") for part in texts)
    for name in ask(pipeline).names:
        if name not in X.columns:
            assert not any(name in part for part in texts)
    # A date is said of the day that the row has.
    for part in [part for part in texts if re.fullmatch(r"signed (<|>=) [\d-]+", part)][:20]:
        assert pd.Timestamp(part.split()[-1]).year in range(2004, 2020)


def test_columns_of_hostile_names():
    X, y = school_table()
    names = {"school": "<script>", "Mjob": "a_b", "sex": "a", "size": "x = 3 and y", "age": ""}
    X = X.rename(columns=names)
    encoder = OneHotEncoder(sparse_output=False)
    preparation = make_column_transformer(
        (encoder, ["<script>", "a_b", "a"]), remainder="passthrough"
    )
    model = KPPRegressor("extra-trees", n_estimators=5, alpha=0.1, random_state=0)
    found = explain_rules(make_pipeline(preparation, model).fit(X, y), X.iloc[[0]], top=ALL)
    assert any(rule.text.startswith(f"<script> = {X['<script>'].iloc[0]}") for rule in found.rules)
    assert any("a_b = " in rule.text or "a_b is not" in rule.text for rule in found.rules)


def test_what_is_not_understood_keeps_its_name():
    from sklearn.decomposition import PCA

    X, y = school_table()
    numbers = X[["size", "age"]]
    pipeline = make_pipeline(
        StandardScaler(), PCA(2), KPPRegressor("extra-trees", n_estimators=3, alpha=0.1)
    ).fit(numbers, y)
    assert {one.name for one in ask(pipeline).meanings} == {"pca0", "pca1"}
    rules = explain_rules(pipeline, numbers.iloc[[0]]).rules
    assert all("pca" in rule.text for rule in rules)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (75.61, 75.83, "75.7"),
        (18, 19, "18"),
        (0.0, 1.0, "0"),
        (-3.0, -2.0, "-3"),
        (0.123456, 0.123457, "0.123456"),
        (1e-8, 3e-8, "2e-08"),
        (999.0, 1001.0, "1000"),
        (123456789.0, 123456790.0, "123456789"),
    ],
)
def test_the_shortest_number_between(low, high, expected):
    text = shortest_between(low, high)
    assert low <= float(text) < high
    assert text == expected


def test_no_shorter_number_lies_between():
    """By brute force over all numbers of fewer digits."""
    random = np.random.default_rng(0)
    for low, width in zip(random.normal(size=60), 10 ** random.uniform(-4, 0, 60), strict=True):
        text = shortest_between(low, low + width)
        assert low <= float(text) < low + width
        digits = len(text.lstrip("-0.").replace(".", "").rstrip("0") or "0")
        for fewer in range(1, digits):
            for power in range(-8, 2):
                unit = 10.0**power
                near = np.arange(np.floor(low / unit) - 1, np.ceil((low + width) / unit) + 2)[:500]
                short = [n for n in near if len(str(abs(int(n))).rstrip("0")) <= fewer]
                between = [
                    n * unit for n in short if low <= float(f"{n * unit:.12g}") < low + width
                ]
                assert not between, (low, width, text, between)


def test_splits_at_values_of_single_precision():
    """A forest of double precision on numbers of single precision, split at the very values."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    X = (np.random.default_rng(0).permutation(600) / 10).astype(np.float32)[:, None]
    frame = pd.DataFrame({"x": X[:, 0]})
    forest = HistGradientBoostingRegressor(max_iter=4, max_bins=20, random_state=0)
    model = KPPRegressor(forest, alpha=0.1).fit(frame, np.sin(X[:, 0] / 5))
    members = model.map_.to_csr().toarray() > 0
    place = {name: k for k, name in enumerate(model.map_.coordinate_names)}
    for i in (0, 5, 9):
        for rule in explain_rules(model, frame.iloc[[i]], top=ALL).rules:
            said = part_holds(rule.text, frame.astype(str).astype(float))
            for node in rule.nodes:
                np.testing.assert_array_equal(said, members[:, place[node]], rule.text)
