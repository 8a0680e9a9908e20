"""Commands route the rows of a file once, or the one row that they are asked about."""

import pandas as pd
import pytest
from routed import Routed


@pytest.fixture
def few(folder, tmp_path):
    pd.read_csv(folder / "cls.csv").head(9).to_csv(tmp_path / "few.csv", index=False)
    return tmp_path / "few.csv"


@pytest.mark.parametrize(
    ("command", "n_rows"),
    [
        ("predict", 9),
        ("predict --proba", 9),
        ("explain", 9),
        ("explain --level rules", 9),
        ("explain --level node", 9),
        ("explain --row 3", 1),
        ("explain --row 3 --level node", 1),
        ("certify", 9),
        ("certify --row 3", 1),
        ("diagnose", 9),
    ],
)
def test_one_route(run, folder, few, monkeypatch, command, n_rows):
    routed = Routed(monkeypatch)
    name, *options = command.split()
    assert run(name, folder / "cls.kpp", few, *options).code == 0
    assert routed == [n_rows]


def test_classes_are_explained_by_one_route(run, folder, monkeypatch):
    routed = Routed(monkeypatch)
    assert run("explain", folder / "iris.kpp", "iris").code == 0
    assert routed == [150]
