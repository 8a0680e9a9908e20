"""How to make a report again: the command of the page, pasted, makes the same page."""

import hashlib
import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from cli_tables import mixed_table

import kpp
from kpp.cli import main
from kpp.cli.recipe import recipe_of

FAST = ["--forest", "extra-trees", "--trees", "5", "--alpha", "0.01", "--jobs", "1"]
FAST += ["--max-rows", "2", "--quiet"]


def shown(page):
    """The command and the hashes of a page, as a reader sees them."""
    from html import unescape

    html = page.read_text(encoding="utf-8")
    command = re.search(r'<code id="recipe-command">(.*?)</code>', html, re.DOTALL)[1]
    return unescape(command), re.findall(r"<code>([0-9a-f]{64})</code>", html)


def without_times(page):
    html = page.read_text(encoding="utf-8")
    html = re.sub(r"made \d{4}-\d\d-\d\d \d\d:\d\d UTC", "", html)
    html = re.sub(r'"seconds":[\d.e-]+', "", html)
    # Fits of other models take their time too.
    html = re.sub(r'<section id="comparison".*?</section>', "", html, flags=re.DOTALL)
    times, rest = re.subn(r"<details><summary>Time taken.*?</details>", "", html, flags=re.DOTALL)
    assert rest == 1
    return times


def test_pasted_into_a_shell_it_makes_the_same_report(tmp_path, capsys):
    table = tmp_path / "it's a table; $(no).csv"
    mixed_table().drop(columns="price").to_csv(table, index=False)
    options = ["--target", "label", "--id", "id", "--title", 'a "title" & more']
    assert main(["report", str(table), *options, f"--out={tmp_path}/first.html", *FAST]) == 0
    first = tmp_path / "first.html"
    command, hashes = shown(first)
    assert str(tmp_path) not in first.read_text(encoding="utf-8")
    assert hashes == [hashlib.sha256(table.read_bytes()).hexdigest()]
    # The command is the reader's own: in a folder with the file, by the name kpp.
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / "kpp"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kpp.cli "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    before = without_times(first)
    first.unlink()
    source = str(Path(kpp.__file__).parent.parent)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": source}
    subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environment, check=True)
    assert without_times(first) == before


def test_a_built_in_data_set_is_made_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["report", "iris", "--out", "iris.html", *FAST]) == 0
    command, hashes = shown(tmp_path / "iris.html")
    before = without_times(tmp_path / "iris.html")
    name, *arguments = shlex.split(command)
    assert name == "kpp"
    assert main(arguments) == 0
    assert without_times(tmp_path / "iris.html") == before
    assert len(hashes) == 1


def test_a_model_has_its_hash_too(folder, tmp_path):
    out = tmp_path / "reg.html"
    arguments = ["report", f"{folder}/reg.csv", "--model", f"{folder}/reg.kpp", "--out", str(out)]
    assert main([*arguments, "--max-rows", "2", "--quiet"]) == 0
    command, hashes = shown(out)
    assert command == "kpp report reg.csv --model reg.kpp --out reg.html --max-rows 2 --quiet"
    own = [folder / "reg.csv", folder / "reg.kpp"]
    assert hashes == [hashlib.sha256(path.read_bytes()).hexdigest() for path in own]


@pytest.mark.parametrize(
    ("arguments", "paths", "wanted"),
    [
        (["report", "/a/b c.csv"], ["/a/b c.csv"], "kpp report 'b c.csv'"),
        (["report", "x/-a.csv"], ["x/-a.csv"], "kpp report ./-a.csv"),
        (["report", "-", "--title", "/a/b"], ["-"], "kpp report - --title /a/b"),
        (
            ["report", "a", "--json=/t/j.json"],
            ["a", None, "/t/j.json"],
            "kpp report a --json=j.json",
        ),
    ],
)
def test_files_stand_without_their_folders(arguments, paths, wanted):
    assert recipe_of(arguments, *paths)["command"] == wanted


def test_the_rows_of_a_built_in_set_have_a_hash():
    from kpp.cli.recipe import input_of
    from kpp.tables.builtin import built_in_table
    from kpp.tables.reading import TableFile

    text = built_in_table("iris").to_csv(index=False)
    assert isinstance(built_in_table("iris"), pd.DataFrame)
    wanted = hashlib.sha256(text.encode()).hexdigest()
    assert input_of(TableFile("iris"), "table")["sha256"] == wanted
