"""Models of every kind, loaded as a service loads them, without a service."""

import numpy as np
import pandas as pd
import pytest
from serve.tables import raw_rows
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from kpp import KPPClassifier, KPPEmbedding, KPPRegressor, io
from kpp.serve.answers import Deadline
from kpp.serve.asking import QUESTIONS, parameters_of, read_parameters
from kpp.serve.bodies import JSON, read_body
from kpp.serve.errors import RequestError
from kpp.serve.formats import dump
from kpp.serve.preparing import Preparer, as_array
from kpp.serve.served import Holder, example_row, load_served
from kpp.tables.columns import prepare
from kpp.tables.errors import UserError

NAMES = ("x0", "x1", "x2")
SMALL = {"n_estimators": 6, "alpha": 0.1, "random_state": 0}


def answer(served, path, rows, *given):
    (asked,) = [own for own in QUESTIONS if own.path == path]
    values, n_rows = read_body(dump({"rows": rows}), JSON, served.columns, 1000)
    parameters = read_parameters(parameters_of(asked, served.question), given)
    return asked.answer(served.question, served.at(values, n_rows), parameters, Deadline(60))


@pytest.mark.parametrize("name", ["cls", "reg"])
def test_columns_by_themselves_are_prepared_as_the_table_is(folder, name):
    """Numbers, known and unknown categories, dates, texts, gaps, whole columns of gaps."""
    served = load_served(folder / f"{name}.kpp")
    assert served.preparer.is_quick
    model = io.load(folder / f"{name}.kpp")
    frame = raw_rows(model, folder / f"{name}.csv")
    frame = pd.concat([frame, frame.sample(frac=1, random_state=1)], ignore_index=True)
    random = np.random.default_rng(0)
    for column in ("colour", "city", "when"):
        frame.loc[random.choice(len(frame), 60), column] = None
    frame.loc[random.choice(len(frame), 40), "colour"] = "violet"
    frame.loc[random.choice(len(frame), 40), "city"] = [f"new town {i}" for i in range(40)]
    frame.loc[random.choice(len(frame), 10), "city"] = "x" * 500
    for size in (1, 2, 7, len(frame)):
        part = frame.iloc[:size]
        plain = part.astype(object).where(part.notna(), None)
        values = {c.name: as_array(plain[c.name].tolist(), c) for c in served.columns}
        found = served.at(values, size)
        expected = served.question.model.at(prepare(model, part)[0])
        assert np.array_equal(found.scores, expected.scores)


def test_a_preparation_that_does_something_else_is_used_itself(folder, monkeypatch):
    """Whatever a version of it does: the trial finds out."""
    served = load_served(folder / "cls.kpp")
    preparation = served.question.preparation
    before = preparation.transform
    monkeypatch.setattr(
        type(preparation), "transform", lambda self, X: before(X) + np.float32(1), raising=True
    )
    assert not Preparer(served.question, served.columns).is_quick


def test_an_array_has_columns_by_number(folder):
    served = load_served(folder / "plain.kpp")
    assert [column.name for column in served.columns] == ["x0", "x1", "x2"]
    model = io.load(folder / "plain.kpp")
    X = np.random.default_rng(1).normal(size=(5, 3))
    found = answer(served, "/predict", X.tolist())
    assert np.array_equal(found.columns["prediction"], model.predict(X))
    named = answer(served, "/predict", [dict(zip(NAMES, row, strict=True)) for row in X.tolist()])
    assert np.array_equal(named.columns["prediction"], model.predict(X))


def test_every_question_of_a_regressor(folder):
    served = load_served(folder / "reg.kpp")
    model = io.load(folder / "reg.kpp")
    row = example_row(served.columns)
    at = served.question.model.at(prepare(model, pd.DataFrame([row]))[0])
    found = answer(served, "/interval", [row], ("coverage", "0.8"))
    expected = served.question.model.predict_interval(at, 0.8)
    assert found.columns["lower"].tolist() == expected.lower.tolist()
    assert found.columns["upper"].tolist() == expected.upper.tolist()
    conditions = found.about["failing_conditions"]
    assert len(conditions) == len(expected.failing) + 1
    assert conditions[-1].startswith("FAILS   columns prepared without these rows")
    moved = answer(served, "/explain", [row]).columns
    total = moved["baseline"] + moved["contributions"].sum(axis=1)
    assert abs(total - served.question.model.predict(at)).max() < 1e-11
    assert answer(served, "/certify", [row], ("epsilon", "2.5")).columns["radius"][0] >= 0
    with pytest.raises(RequestError) as caught:
        answer(served, "/certify", [row])
    assert caught.value.status == 422
    assert answer(served, "/rules", [row], ("top", "1")).columns["n_other"][0] > 0


def test_a_model_that_takes_no_gaps_says_so(folder):
    """Of an array: its trees were grown without missing values; tables have them."""
    plain, table = load_served(folder / "plain.kpp"), load_served(folder / "cls.kpp")
    assert all(column.takes_missing for column in table.columns)
    model = io.load(folder / "plain.kpp")
    for j, column in enumerate(plain.columns):
        row = np.zeros((1, 3))
        row[0, j] = np.nan
        try:
            takes = bool(np.isfinite(model.predict(row)).all())
        except ValueError:
            takes = False
        assert column.takes_missing == takes


def test_a_frame_with_categories_and_no_preparation(tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.normal(size=90), "kind": random.choice(["u", "v"], 90)})
    y = frame["a"] + 2.0 * (frame["kind"] == "u")
    model = KPPRegressor("extra-trees", **SMALL).fit(frame, y)
    served = load_served(io.save(model, tmp_path / "m.kpp"))
    kinds = {column.name: (column.kind, column.categories) for column in served.columns}
    assert kinds == {"a": ("number", None), "kind": ("category", ("u", "v"))}
    rows = frame.iloc[:9].to_dict(orient="records")
    found = answer(served, "/predict", rows).columns["prediction"]
    assert np.array_equal(found, model.predict(frame.iloc[:9]))


def test_a_preparation_of_scikit_learn(tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.normal(size=90), "kind": random.choice(["u", "v"], 90)})
    y = np.where(frame["a"] > 0, "yes", "no")
    first = make_column_transformer(
        (StandardScaler(), ["a"]), (OneHotEncoder(sparse_output=False), ["kind"])
    )
    model = make_pipeline(first, KPPClassifier("extra-trees", **SMALL)).fit(frame, y)
    served = load_served(io.save(model, tmp_path / "m.kpp"))
    assert not served.preparer.is_quick
    rows = frame.iloc[:9].to_dict(orient="records")
    found = answer(served, "/predict", rows).columns["probability"]
    assert np.array_equal(found, model.predict_proba(frame.iloc[:9]))


def test_several_targets(tmp_path):
    X = np.random.default_rng(0).normal(size=(80, 2))
    model = KPPRegressor("extra-trees", **SMALL).fit(X, np.column_stack([X[:, 0], -X[:, 1]]))
    served = load_served(io.save(model, tmp_path / "m.kpp"))
    found = answer(served, "/predict", X[:4].tolist()).columns["prediction"]
    assert np.array_equal(found, model.predict(X[:4]))
    moved = answer(served, "/explain", X[:4].tolist(), ("output", "1")).columns
    total = moved["baseline"] + moved["contributions"].sum(axis=1)
    assert abs(total - model.predict(X[:4])[:, 1]).max() < 1e-12


def test_what_cannot_be_served(tmp_path, folder):
    (tmp_path / "no.kpp").write_bytes(b"nothing of the kind")
    with pytest.raises(UserError):
        load_served(tmp_path / "no.kpp")
    with pytest.raises(UserError):
        load_served(tmp_path / "gone.kpp")
    X = np.random.default_rng(0).normal(size=(30, 2))
    embedding = KPPEmbedding("extra-trees", n_estimators=3, random_state=0).fit(X, X[:, 0])
    with pytest.raises(UserError, match="predicts"):
        load_served(io.save(embedding, tmp_path / "e.kpp"))


def test_a_holder_keeps_its_model_until_there_is_a_better_one(tmp_path, folder):
    path = tmp_path / "m.kpp"
    path.write_bytes((folder / "cls.kpp").read_bytes())
    holder = Holder(path)
    first = holder.current
    path.write_bytes((folder / "cls.kpp").read_bytes()[:-10])
    with pytest.raises(UserError):
        holder.reload()
    assert holder.current is first
    path.write_bytes((folder / "other.kpp").read_bytes())
    assert holder.reload() is holder.current
    assert holder.current.card["trees"] == 6
    assert first.card["trees"] == 12
