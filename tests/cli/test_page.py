"""Every line that the pages show runs, in the order of the page, and prints what they show."""

import math
import re
import shlex
from pathlib import Path

import pytest
from cli_tables import mixed_table, visits

from kpp.cli.running import run as run_command

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "command.md"
# A command and what is said to come of it.
SHOWN = re.compile(r"```sh\n([^\n]*)\n```\n\n```text\n(.*?)```", re.DOTALL)


def lines_of(page):
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("kpp ")]


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
    assert len(lines_of(PAGE)) > 12
    for line in lines_of(PAGE):
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


def test_the_quick_start_shows_what_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    page = DOCS / "quickstart.md"
    shown = dict(SHOWN.findall(page.read_text()))
    assert len(shown) == 3
    for line in lines_of(page)[1:]:  # the first is the first of the page above, with all its trees
        few = ["--max-rows", "2"] if line.startswith("kpp report") else []
        capsys.readouterr()
        assert run_command([*shlex.split(line)[1:], *few]) == 0, line
        if line in shown:
            assert_alike(shown.pop(line), capsys.readouterr().out)
    assert not shown


def assert_alike(shown, printed):
    """Words are the same, numbers nearly; "..." stands for whatever comes before the next words."""
    rest = words_of(printed)
    for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE):
        part = words_of(part)
        starts = range(len(rest) - len(part) + 1)
        at = next((k for k in starts if all(map(alike, part, rest[k : k + len(part)]))), None)
        assert at is not None, f"not printed: {' '.join(part)}\n\nbut: {printed}"
        rest = rest[at + len(part) :]


def words_of(text):
    return re.sub(r"[()',:;]", " ", text).split()


def alike(shown, printed):
    try:
        return math.isclose(float(shown), float(printed), rel_tol=0.5, abs_tol=0.1)
    except ValueError:
        return shown == printed


def test_exit_codes_and_commands_are_on_the_page():
    from kpp.cli.app import app

    text = PAGE.read_text()
    for command in app.registered_commands:
        assert f"kpp {command.callback.__name__}" in text or command.callback.__name__ == "geometry"
    for code in (0, 1, 2, 130):
        assert f"| {code} |" in text
