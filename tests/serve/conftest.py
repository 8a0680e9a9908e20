"""Models of a table and of an array, and one service for most tests."""

import numpy as np
import pytest
from cli_tables import mixed_table
from serve.running import serving

from kpp import KPPRegressor, io
from kpp.cli import main


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """cls.kpp and reg.kpp of a mixed table, other.kpp of fewer trees, plain.kpp of an array."""
    place = tmp_path_factory.mktemp("served")
    frame = mixed_table()
    frame.drop(columns=["label", "id"]).to_csv(place / "reg.csv", index=False)
    frame.drop(columns=["price", "id"]).to_csv(place / "cls.csv", index=False)
    plain = ["--forest", "extra-trees", "--jobs", "1", "--quiet", "--trees"]
    for name, target, trees in (("cls", "label", 12), ("reg", "price", 12)):
        table = ["fit", f"{place}/{name}.csv", "--target", target, *plain, str(trees), "--out"]
        assert main([*table, f"{place}/{name}.kpp"]) == 0
    other = ["fit", f"{place}/cls.csv", "--target", "label", *plain, "6", "--out"]
    assert main([*other, f"{place}/other.kpp"]) == 0
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 3))
    model = KPPRegressor("extra-trees", n_estimators=8, alpha=1.0, random_state=0)
    io.save(model.fit(X, X[:, 0] + X[:, 1] ** 2), place / "plain.kpp")
    return place


@pytest.fixture(scope="session")
def server(folder, tmp_path_factory):
    """One worker with narrow limits: a thread for each lane, one slow question may wait."""
    limits = ["--max-bytes", 300_000, "--max-rows", 2_000, "--max-slow-rows", 2_000]
    limits += ["--body-seconds", 1.5, "--seconds", 4, "--slow-queue", 1]
    with serving(folder / "cls.kpp", tmp_path_factory.mktemp("log"), *limits) as running:
        yield running
