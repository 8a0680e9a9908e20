"""Files of older formats load, and other versions of libraries are spoken of."""

import importlib.util
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpp import KPPRegressor
from kpp.io import FileVersionWarning, describe, load, save
from kpp.io.container import READABLE_VERSIONS
from kpp.io.loading import READERS
from kpp.io.saving import FORMAT_VERSION

DATA = Path(__file__).parent / "data"


def walker():
    """The plain walk down nested lists that the expected scores were computed by."""
    spec = importlib.util.spec_from_file_location("write_format1", DATA / "write_format1.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.scores


@pytest.mark.parametrize("name", ["format1_regressor", "format1_classifier"])
def test_files_of_format_1(name):
    plain = json.loads((DATA / f"{name}.json").read_text())
    assert describe(DATA / f"{name}.kpp").format_version == 1
    model = load(DATA / f"{name}.kpp")
    assert walker()(plain) == plain["scores"]
    X = np.array(plain["rows"], dtype=float)
    given = model.predict(X) if name.endswith("regressor") else model.decision_function(X)
    assert given.reshape(len(X), -1).T.tolist() == plain["scores"]


def test_the_classifier_has_categories_and_labels():
    model = load(DATA / "format1_classifier.kpp")
    assert (model.forest_.split_kind == 2).any()
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]
    assert model.predict([[np.nan, 0.0]])[0] in model.classes_


def test_there_is_a_reader_for_every_version():
    assert set(READERS) == set(READABLE_VERSIONS)
    assert max(READERS) == FORMAT_VERSION


def prepared():
    X = np.random.default_rng(0).normal(size=(20, 2))
    return make_pipeline(StandardScaler(), KPPRegressor(n_estimators=2, alpha=1.0)).fit(X, X[:, 0])


def test_other_versions_of_fitted_steps_are_warned_of(tmp_path, files):
    document, arrays = files.unpack(save(prepared(), tmp_path / "m.kpp"))
    document["libraries"]["scikit-learn"] = "1.0.2"
    files.forge(tmp_path / "old.kpp", document, arrays)
    with pytest.warns(FileVersionWarning, match=r"scikit-learn 1\.0\.2 \(here ") as caught:
        load(tmp_path / "old.kpp")
    assert Path(caught[0].filename) == Path(__file__)


def test_models_alone_do_not_depend_on_versions(tmp_path, files):
    document, arrays = files.unpack(save(prepared()[-1], tmp_path / "m.kpp"))
    document["libraries"] = {"kpp": "0.0.1", "scikit-learn": "1.0.2"}
    files.forge(tmp_path / "old.kpp", document, arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(tmp_path / "old.kpp")
