"""The schema: what it says, and whether the service does what it says."""

import json
import subprocess
import sys

import pytest
from cli_tables import HOSTILE

QUESTIONS = ["/predict", "/interval", "/explain", "/rules", "/certify"]


@pytest.fixture(scope="module")
def document(server):
    answer = server.ask("GET", "/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    return answer.data


def test_the_columns_are_those_of_the_model(document):
    row = document["components"]["schemas"]["Row"]
    assert row["required"] == ["size", "colour", HOSTILE, "when", "city", "flag"]
    assert row["additionalProperties"] is False
    colour, size = row["properties"]["colour"], row["properties"]["size"]
    assert colour["examples"] == ["blue", "green", "red"]
    assert "'blue', 'green', 'red'" in colour["description"]
    assert "between" in size["description"]
    assert {"type": "null"} in size["anyOf"]
    assert row["properties"]["when"]["anyOf"][0]["format"] == "date"
    rows = document["components"]["schemas"]["Rows"]["properties"]["rows"]
    assert (rows["minItems"], rows["maxItems"]) == (1, 2_000)


@pytest.mark.parametrize("path", QUESTIONS)
def test_the_example_is_answered(server, document, path):
    content = document["paths"][path]["post"]["requestBody"]["content"]
    answer = server.post(path, content["application/json"]["example"])
    assert answer.status == 200
    schema = document["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]
    assert set(schema["schema"]["required"]) <= set(answer.data)


def schemathesis(server, document, folder, *arguments):
    pytest.importorskip("schemathesis")
    path = folder / "openapi.json"
    path.write_text(json.dumps(document))
    # Bodies of as many rows as may be are too long for this service: 413, which no schema can say.
    settings = (
        "[checks.negative_data_rejection]\nexpected-statuses = [400, 401, 405, 413, 415, 422]\n"
        "[checks.positive_data_acceptance]\nexpected-statuses = [200, 409, 413, 503, 504]\n"
    )
    (folder / "schemathesis.toml").write_text(settings)
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(path), "--url", server.address]
    done = subprocess.run(
        [*command, "--seed", "1", "--generation-database", "none", "--no-color", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "generated" in done.stdout


def test_schemathesis_on_json(server, document, tmp_path):
    """Every check it has: what the schema allows is answered as it says, all else is refused."""
    only = json.loads(json.dumps(document))
    for path in QUESTIONS:
        content = only["paths"][path]["post"]["requestBody"]["content"]
        for kind in [kind for kind in content if kind != "application/json"]:
            del content[kind]
    schemathesis(server, only, tmp_path, "--max-examples", "6")


def test_schemathesis_on_tables(server, document, tmp_path):
    """No schema says which texts are tables: that any are accepted is not asked for here."""
    without = ["--exclude-checks", "positive_data_acceptance"]
    schemathesis(server, document, tmp_path, "--max-examples", "5", "--phases", "fuzzing", *without)
