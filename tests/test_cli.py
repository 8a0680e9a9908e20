"""The command, in the process and as installed."""

import shutil
import subprocess
import sys

import pytest

import kpp
from kpp.cli import BUILT_IN, main


@pytest.mark.parametrize("dataset", sorted(BUILT_IN))
def test_geometry(dataset, capsys):
    assert main(["geometry", dataset, "--trees", "5"]) == 0
    out = capsys.readouterr().out
    assert f"{dataset}, " in out
    assert "isometry         holds on 1000 pairs" in out


def test_a_failed_check_is_an_exit_code(monkeypatch, capsys):
    monkeypatch.setattr("kpp.geometry.isometry.IsometryCheck.holds", False)
    assert main(["geometry", "iris", "--trees", "5"]) == 1
    assert "isometry         FAILS" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required"),
        (["geometry", "titanic"], "invalid choice: 'titanic'"),
        (["geometry", "--trees", "1"], "--trees must be at least 2; got 1"),
    ],
)
def test_wrong_arguments(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert message in capsys.readouterr().err


def test_installed_command():
    command = shutil.which("kpp", path=str(sys.prefix) + "/bin") or shutil.which("kpp")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"kpp {kpp.__version__}"
