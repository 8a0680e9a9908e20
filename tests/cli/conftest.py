"""Models that the command has fitted, and the command itself."""

import json
from types import SimpleNamespace

import pytest
from cli_tables import mixed_table

from kpp.cli import main


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Files of the table, and models: reg.kpp of price, cls.kpp of label, iris.kpp."""
    place = tmp_path_factory.mktemp("tables")
    frame = mixed_table()
    frame.drop(columns="label").to_csv(place / "reg.csv", index=False)
    frame.drop(columns="price").to_csv(place / "cls.csv", index=False)
    plain = ["--forest", "extra-trees", "--trees", "12", "--jobs", "1", "--quiet"]
    common = [*plain, "--id", "id", "--out"]
    assert main(["fit", f"{place}/reg.csv", "--target", "price", *common, f"{place}/reg.kpp"]) == 0
    assert main(["fit", f"{place}/cls.csv", "--target", "label", *common, f"{place}/cls.kpp"]) == 0
    iris = ["fit", "iris", *plain, "--out", f"{place}/iris.kpp"]
    assert main(iris) == 0
    return place


@pytest.fixture
def run(capsys):
    """Run a command: its exit code, what it wrote, and its JSON if there is any."""

    def command(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        data = json.loads(out) if out.startswith("{") else None
        return SimpleNamespace(code=code, out=out, err=err, data=data)

    return command
