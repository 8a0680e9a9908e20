"""Every line that the page shows runs, in the order of the page."""

import re
import shlex
from pathlib import Path

import pytest
from cli_tables import mixed_table, visits

from kpp.cli.running import run as run_command

PAGE = Path(__file__).parents[2] / "docs" / "command.md"
LINES = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for line in block.splitlines()
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    mixed_table(120).drop(columns="label").to_csv(folder / "houses.csv", index=False)
    table = visits()
    table["ward"], table["weight"] = table.index % 4, 1 + table.index % 3
    table.to_csv(folder / "visits.csv", index=False)
    return folder


def test_the_lines_of_the_page(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    assert len(LINES) > 12
    for line in LINES:
        command, *arguments = shlex.split(line)
        assert command == "kpp"
        if arguments[0] == "report":
            arguments += ["--max-rows", "2"]
        fits = arguments[0] == "fit" or (arguments[0] == "report" and "--model" not in arguments)
        if fits and "--trees" not in arguments:
            arguments += ["--trees", "10"]
        assert run_command(arguments) == 0, (line, capsys.readouterr().err)
    written = {path.name for path in place.iterdir()}
    assert {"breast_cancer-report.html", "houses.html", "predictions.csv"} <= written
    assert {"probabilities.parquet", "attributions.csv", "radii.csv"} <= written


def test_exit_codes_and_commands_are_on_the_page():
    from kpp.cli.app import app

    text = PAGE.read_text()
    for command in app.registered_commands:
        assert f"kpp {command.callback.__name__}" in text or command.callback.__name__ == "geometry"
    for code in (0, 1, 2, 130):
        assert f"| {code} |" in text
