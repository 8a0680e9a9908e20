"""What a service answers is what the library says of the same rows, to the last bit."""

import csv
import io as streams
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cli_tables import HOSTILE
from serve.tables import as_json, raw_rows

from kpp import certify, explain, explain_rules, io
from kpp.models.asking import ask
from kpp.tables.columns import prepare

ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def known(folder):
    """The model as the library has it, and rows with gaps and unseen categories."""
    model = io.load(folder / "cls.kpp")
    frame = raw_rows(model, folder / "cls.csv").copy()
    frame.loc[3, "colour"] = "violet"
    frame.loc[5, "city"] = "N/A"
    frame["flag"] = frame["flag"].astype(float)
    frame.loc[7, frame.columns] = None
    question = ask(model)
    return question, frame, question.model.at(prepare(model, frame)[0])


def test_predictions_of_json(server, known):
    question, frame, at = known
    answer = server.post("/predict", as_json(frame))
    assert answer.status == 200
    found = answer.data
    assert found["n_rows"] == len(frame)
    assert found["prediction"] == question.model.predict(at).tolist()
    assert found["classes"] == ["high", "low"]
    assert found["probability"] == question.model.predict_proba(at).tolist()
    assert answer.headers["x-kpp-model"] == found["model"]
    (remark,) = found["remarks"]
    assert "'colour': 1 of 160" in remark
    assert "violet" not in remark


def test_a_row_by_itself_is_what_it_is_among_others(server, known):
    question, frame, at = known
    expected = question.model.predict_proba(at)
    for i in (0, 3, 5, 7):
        one = server.post("/predict", as_json(frame.iloc[[i]])).data
        assert one["probability"] == expected[[i]].tolist()


def test_a_row_as_a_list(server, known):
    question, frame, at = known
    row = list(as_json(frame.iloc[[0]])["rows"][0].values())
    found = server.post("/predict", {"rows": [row]}).data
    assert found["probability"] == question.model.predict_proba(at)[:1].tolist()


def test_csv_in_and_out(server, known):
    question, frame, at = known
    body = frame.to_csv(index=False).encode()
    answer = server.ask("POST", "/predict", body, content_type="text/csv; charset=utf-8")
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"].startswith("text/csv")
    header, *lines = csv.reader(answer.body.decode().splitlines())
    assert header == ["prediction", "probability_high", "probability_low"]
    assert [line[0] for line in lines] == question.model.predict(at).tolist()
    found = [[float(cell) for cell in line[1:]] for line in lines]
    assert found == question.model.predict_proba(at).tolist()


@pytest.mark.parametrize("dates", [False, True])
def test_arrow_in_and_out(server, known, dates):
    question, frame, at = known
    frame = frame.copy()
    frame["flag"] = frame["flag"].astype("boolean")
    if dates:
        frame["when"] = pd.to_datetime(frame["when"])
    frame["colour"] = frame["colour"].astype("category")
    sink = streams.BytesIO()
    table = pa.Table.from_pandas(frame)
    table = table.select([name for name in table.column_names if not name.startswith("__")])
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=50)
    answer = server.ask("POST", "/predict", sink.getvalue(), content_type=ARROW)
    assert answer.status == 200, answer.body
    found = pa.ipc.open_stream(answer.body).read_all().to_pandas()
    expected = question.model.predict_proba(at)
    assert np.array_equal(found.iloc[:, 1:].to_numpy(), expected)


def test_accept_chooses_the_form(server, known):
    _, frame, _ = known
    body = as_json(frame.iloc[:2])
    table = server.post("/interval", body, accept="text/csv")
    assert table.headers["content-type"].startswith("text/csv")
    header = table.body.decode().splitlines()[0]
    assert header == "prediction,set"


def test_explanations_add_up(server, known):
    question, frame, at = known
    found = server.post("/explain", as_json(frame)).data
    score = question.model.decision_function(at)
    sign = np.where(question.model.predict(at) == "low", 1.0, -1.0)
    assert found["output"] == question.model.predict(at).tolist()
    total = np.array(found["baseline"]) + np.sum(found["contributions"], axis=1)
    # Sums of some ten terms of a size of a few units.
    assert np.abs(total - sign * score).max() < 1e-12
    assert found["score"] == (sign * score).tolist()
    expected = explain(question, at, centered=True)
    assert found["columns"] == list(expected.feature_names)
    # Rows are explained in blocks: sums of a block may end in other digits than those of all.
    own = sign[:, None] * expected.values
    assert np.abs(np.array(found["contributions"]) - own).max() < 1e-12


def test_the_class_to_explain_can_be_named(server, known):
    _, frame, _ = known
    rows = as_json(frame.iloc[:4])
    high, low = (server.post(f"/explain?output={name}", rows).data for name in ("high", "low"))
    assert high["output"] == ["high"] * 4
    assert high["contributions"] == (-np.array(low["contributions"])).tolist()


def test_rules(server, known):
    question, frame, at = known
    found = server.post("/rules?top=3", as_json(frame.iloc[:3])).data
    for i in range(3):
        expected = explain_rules(question, at.take([i]), top=3, output=found["output"][i])
        assert [r["rule"] for r in found["rules"][i]] == [r.text for r in expected.rules]
        assert [r["contribution"] for r in found["rules"][i]] == [
            r.contribution for r in expected.rules
        ]
        assert (found["score"][i], found["n_other"][i]) == (expected.score, expected.n_other)


def test_certificates(server, known):
    question, frame, at = known
    found = server.post("/certify", as_json(frame)).data
    expected = certify(question.model, at)
    assert found["margin"] == expected.margin.tolist()
    assert np.allclose(found["radius"], expected.radius, rtol=1e-12, atol=0)
    assert found["never_changes"] == expected.never_flips.tolist()
    raw = server.post("/certify?raw=true", as_json(frame.iloc[:1])).data
    assert 0 <= raw["raw_radius"][0] < np.inf


def test_sets_of_classes(server, known):
    question, frame, at = known
    found = server.post("/interval?coverage=0.8", as_json(frame)).data
    expected = question.model.predict_set(at, 0.8)
    assert found["set"] == [own.tolist() for own in expected.labels]
    assert (found["coverage"], found["is_guarantee"]) == (0.8, expected.is_guarantee)


def test_more_than_the_rows_of_the_fit_allow_is_refused(server, known):
    _, frame, _ = known
    answer = server.post("/interval?coverage=0.999", as_json(frame.iloc[:1]))
    assert answer.status == 409
    assert "cannot answer" in answer.data["error"]


def test_the_card(server, known):
    question, _, _ = known
    card = json.loads(server.ask("GET", "/model").body)
    assert card["task"] == "classification"
    assert card["target"] == "label"
    assert card["classes"] == ["high", "low"]
    assert card["trees"] == 12
    assert card["scores"]["test"]["n_rows"] == 32
    kinds = {column["name"]: column["kind"] for column in card["columns"]}
    assert kinds == {
        "size": "number",
        "colour": "category",
        HOSTILE: "category",
        "when": "date",
        "city": "text",
        "flag": "number",
    }
    (size,) = [column for column in card["columns"] if column["name"] == "size"]
    forest = question.additive.blocks[0].forest
    j = list(question.names).index("size")
    splits = forest.threshold[(forest.feature == j) & (forest.left >= 0)]
    assert (size["low"], size["high"]) == (splits.min(), splits.max())
