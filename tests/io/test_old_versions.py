"""Files of older formats load, and other versions of libraries are spoken of."""

import copy
import importlib.util
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpp import KPPRegressor, report
from kpp.geometry import forest_blocks
from kpp.io import FileFormatError, FileVersionWarning, describe, load, save
from kpp.io.container import READABLE_VERSIONS
from kpp.io.kinds import OWN
from kpp.io.loading import READERS
from kpp.io.saving import FORMAT_VERSION
from kpp.io.schema import REQUIRED

DATA = Path(__file__).parent / "data"


def walker():
    """The plain walk down nested lists that the expected scores were computed by."""
    spec = importlib.util.spec_from_file_location("write_format1", DATA / "write_format1.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.scores


def check_scores(name):
    """Load a file, and compare its scores with those that were written beside it."""
    plain = json.loads((DATA / f"{name}.json").read_text())
    assert describe(DATA / f"{name}.kpp").format_version == int(name[6])
    model = load(DATA / f"{name}.kpp")
    assert walker()(plain) == plain["scores"]
    X = np.array(plain["rows"], dtype=float)
    given = model.decision_function(X) if name.endswith("classifier") else model.predict(X)
    assert given.reshape(len(X), -1).T.tolist() == plain["scores"]
    return model, X, plain


@pytest.mark.parametrize("name", ["format1_regressor", "format1_classifier"])
def test_files_of_format_1(name):
    model, _, _ = check_scores(name)
    # Their only linear layer is rebuilt.
    (fit,) = model.fits_
    own = np.array([fit.map.rmatvec(r) for r in fit.dual.T])
    assert (own == np.atleast_2d(model.node_coef_)).all()
    assert (fit.intercept == model.intercept_).all()
    assert fit.alpha == model.alpha_
    assert (fit.rows == model.fit_rows_).all()
    assert model.fold_fits_ is None
    assert model.alpha_selection_ == ("fold-grown" if name.endswith("regressor") else "given")
    assert "linear_terms" not in model.get_params()


@pytest.mark.parametrize("name", ["format1_cross_fit", "format1_centred"])
def test_layers_that_format_1_does_not_hold(name, again):
    model, X, plain = check_scores(name)
    assert model.alpha_selection_ == "frozen"
    for lost in (model, again(model), copy.deepcopy(model)):
        for use in (len, bool, list, lambda fits: fits[0], lambda fits: fits[-1].map):
            with pytest.raises(ValueError, match=r"older version of kpp.*fit it again"):
                use(lost.fits_)
        assert lost.fold_fits_ is None
        assert lost.predict(X).tolist() == plain["scores"][0]
        assert repr(lost.fits_) == "LostFits()"


@pytest.mark.parametrize("name", ["format1_regressor", "format1_centred", "format2_regressor"])
def test_intervals_of_an_older_file_ask_for_a_new_fit(name):
    model, X, _ = check_scores(name)
    assert model.oof_prediction_ is not None
    with pytest.raises(ValueError, match=r"older version.*refit"):
        model.predict_interval(X)


def test_a_report_of_a_model_without_its_layers(tmp_path):
    model, X, _ = check_scores("format1_cross_fit")
    page = report(model, X, X[:, 0], tmp_path / "page.html").read_text()
    assert "saved by an older version of kpp" in page


def test_a_collapsed_forest_of_format_1():
    assert describe(DATA / "format1_collapsed.kpp").kind == "kpp.CollapsedForest"
    collapsed = load(DATA / "format1_collapsed.kpp")
    _, X, plain = check_scores("format1_cross_fit")
    assert collapsed.scores(X).T.tolist() == plain["scores"]
    assert collapsed.blocks[0].coef is None
    assert collapsed.classes is None


@pytest.mark.parametrize("name", ["regressor", "classifier", "cross_fit", "centred"])
def test_files_of_format_2(name):
    model, X, plain = check_scores(f"format2_{name}")
    for fits, known in ((model.fits_, plain["fits"]), (model.fold_fits_, plain["fold_fits"])):
        for fit, numbers in zip(fits, known, strict=True):
            assert fit.node_coef.tolist() == numbers["node_coef"]
            assert fit.intercept.tolist() == numbers["intercept"]
            assert fit.rows.tolist() == numbers["rows"]
            assert fit.alpha == numbers["alpha"]
    _, first = forest_blocks(model.map_)[0]
    assert first.forest.bare_scores(X).tolist() == plain["bare"]


def test_the_classifier_has_categories_and_labels():
    model = load(DATA / "format1_classifier.kpp")
    assert (model.forest_.split_kind == 2).any()
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]
    assert model.predict([[np.nan, 0.0]])[0] in model.classes_


def test_there_is_a_reader_for_every_version():
    assert set(READERS) == set(READABLE_VERSIONS)
    assert max(READERS) == FORMAT_VERSION


def test_fields_that_came_later_have_something_that_stands_for_them():
    for kind in OWN.values():
        for name, field in kind.fields.items():
            assert field.since in READERS
            assert field.since == 1 or field.default is not REQUIRED, f"{kind.name}.{name}"


def test_an_old_file_has_no_newer_fields(tmp_path, files):
    document, arrays = files.unpack(save(prepared()[-1], tmp_path / "m.kpp"))
    path = files.forge(tmp_path / "old.kpp", document, arrays, version=1)
    with pytest.raises(FileFormatError, match=r"unknown fields \['bare'\] in a file of format 1"):
        load(path)


def test_a_file_may_leave_out_what_is_rebuilt(tmp_path, files):
    model = KPPRegressor("extra-trees", n_estimators=2, alpha=1.0).fit(np.eye(9), np.arange(9.0))
    document, arrays = files.unpack(save(model, tmp_path / "m.kpp"))
    fields = document["objects"][-1]["fields"]
    dropped = {value["part"] for _, value in fields.pop("fits")["items"] if is_array(value)}
    del fields["alpha_selection_"]
    assert dropped == set(range(min(dropped), min(dropped) + 3))
    text = json.dumps(document)
    for part in sorted(dropped, reverse=True):
        arrays.pop(part - 1)
    for part in range(max(dropped) + 1, len(arrays) + 4):
        text = text.replace(f'"part": {part}}}', f'"part": {part - 3}}}')
    loaded = load(files.forge(tmp_path / "less.kpp", json.loads(text), arrays))
    assert (loaded.fits_[0].node_coef == model.fits_[0].node_coef).all()
    assert loaded.alpha_selection_ == "given"


def is_array(value):
    return isinstance(value, dict) and value.get("$") == "array"


def prepared():
    X = np.random.default_rng(0).normal(size=(20, 2))
    return make_pipeline(
        StandardScaler(), KPPRegressor("extra-trees", n_estimators=2, alpha=1.0)
    ).fit(X, X[:, 0])


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


@pytest.mark.filterwarnings("ignore")  # of other versions of libraries, and of a new category
@pytest.mark.parametrize(
    ("name", "answer"), [("classifier", "probability"), ("regressor", "prediction")]
)
def test_models_of_release_01(name, answer):
    """Numbers with scikit-learn's preparation; a table of the command with texts and gaps."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("skrub")
    plain = json.loads((DATA / f"release01_{name}.json").read_text())
    model = load(DATA / f"release01_{name}.kpp")
    if name == "regressor":
        given = model.predict(pd.DataFrame(plain["rows"]))
    else:
        given = model.predict_proba(np.array(plain["rows"]))
    np.testing.assert_allclose(given, plain[answer], rtol=1e-12)
