"""How a model was fitted, and which rows it has seen, in a file."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import KFold

from kpp import KPPClassifier, load, risk_bounds, save
from kpp.bounds import partition_oracles
from kpp.bounds.samples import seen_rows
from kpp.io import FileFormatError
from kpp.io.records import decode_fingerprints, decode_record
from kpp.models.asking import ask

X, Y = load_breast_cancer(return_X_y=True)
DATA = Path(__file__).parent / "data"


def honest(**settings):
    common = {"n_estimators": 5, "regime": "honest", "alpha": 1e-3, "random_state": 0}
    return KPPClassifier("extra-trees", **common | settings)


def test_a_file_keeps_groups_and_rows(tmp_path):
    model = honest().fit(X[:400], Y[:400], groups=np.arange(400) // 2)
    save(model, tmp_path / "model.kpp")
    # What was fitted stands in the file, not what the parameters say later.
    model.set_params(class_weight="balanced", regime="shared", fit_intercept=False)
    again = load(tmp_path / "model.kpp")
    save(model, tmp_path / "later.kpp")
    later = load(tmp_path / "later.kpp")
    for loaded in (again, later):
        assert loaded.fit_record_ == model.fit_record_
        assert loaded.fit_record_.n_groups == 200
        assert (loaded.row_fingerprints_ == model.row_fingerprints_).all()
        assert loaded.row_fingerprints_.dtype == np.uint64
        assert not any(b.is_guarantee for b in risk_bounds(loaded, X[:400], Y[:400]))
        own = loaded.partition_rows_
        assert "200 of these 200 rows" in seen_rows(ask(loaded), loaded.at(X[own]))
        assert loaded.duplicate_rows_ == 0


def test_fingerprints_cost_eight_bytes_a_row(tmp_path):
    model = honest().fit(X, Y)
    assert model.row_fingerprints_.nbytes == 8 * len(X)


def test_older_files_have_no_fingerprints(tmp_path):
    model = load(DATA / "format2_regressor.kpp")
    assert model.row_fingerprints_ is None
    assert model.duplicate_rows_ is None
    assert model.fit_record_.regime == model.regime_
    assert model.fit_record_.alpha_selection == model.alpha_selection_
    save(model, tmp_path / "again.kpp")
    assert load(tmp_path / "again.kpp").fit_record_ == model.fit_record_
    crossed = load(DATA / "format2_cross_fit.kpp")
    assert crossed.fit_record_.folds in ("random", "stratified")


def test_without_fingerprints_leaves_are_compared():
    model = honest(n_estimators=30, regime="shared").fit(X[:300], Y[:300])
    model.row_fingerprints_ = None
    order = np.random.default_rng(0).permutation(300)
    assert "reach the same leaf" in seen_rows(ask(model), model.at(X[order]))
    # Copies in the rows of the call are found without them too.
    rows = np.repeat(X[:150], 2, axis=0)
    copied = honest().fit(rows, np.repeat(Y[:150], 2))
    copied.row_fingerprints_ = None
    y = np.repeat(Y[:150], 2)
    assert not any(b.is_guarantee for b in risk_bounds(copied, rows, y))
    assert partition_oracles(copied, rows, y, sample="fit").is_honest is False


HOSTILE = {
    "regime": ("shared", "another regime"),
    "center": (7, "center of the fit"),
    "folds": ("by hand", "folds of the fit"),
    "alpha_selection": ("frozen", "alpha_selection"),
    "class_weight": (None, "class_weight of the fit"),
    "alphas_given": (1, "true or false"),
    "fit_intercept": (None, "true or false"),
    "caller_weights": (("luck",), "caller_weights"),
    "independent_trees": ((), "independent_trees"),
    "n_groups": (-1, "n_groups"),
    "largest_group": (0, "largest_group"),
    "divided_groups": (5, "divided_groups"),
    "tol": (np.nan, "tol of the fit"),
    "max_iter": (-1, "max_iter"),
    "target_digest": ("0" * 31, "target_digest"),
    "n_candidates": (2, "n_candidates"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_records_that_no_fit_makes_are_refused(name):
    model = honest().fit(X, Y)
    value, message = HOSTILE[name]
    with pytest.raises(FileFormatError, match=message):
        decode_record(asdict(model.fit_record_) | {name: value}, model)


def test_fewer_candidates_than_alphas_are_refused():
    model = honest(regime="cross-validated", center="zero", alpha="auto", alphas=[0.1, 1.0])
    model.fit(X, Y)
    stored = asdict(model.fit_record_)
    assert stored["n_candidates"] == 2
    decode_record(stored, model)
    with pytest.raises(FileFormatError, match="n_candidates"):
        decode_record(stored | {"n_candidates": 1}, model)


def test_every_field_is_checked():
    assert HOSTILE.keys() == asdict(honest().fit(X, Y).fit_record_).keys()


def test_a_centre_needs_a_partition_fold():
    model = honest(regime="cross-fit", cv=KFold(3, shuffle=True)).fit(X, Y)
    with pytest.raises(FileFormatError, match="no centre"):
        decode_record(asdict(model.fit_record_) | {"center": "partition"}, model)


@pytest.mark.parametrize(
    "stored", [np.zeros(568, np.uint64), np.zeros(569), [1], np.zeros((569, 1), np.uint64)]
)
def test_fingerprints_are_one_for_each_row(stored):
    with pytest.raises(FileFormatError, match="one fingerprint for each row"):
        decode_fingerprints(stored, 569)
