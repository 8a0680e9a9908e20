"""Linear terms in a file: they come back to the bit, and wrong ones are refused."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from kpp import KPPRegressor
from kpp.io import FileFormatError, load, outline, save


def numbers():
    X, y = make_friedman1(60, 5, noise=1.0, random_state=0)
    X[::4, 2] = np.nan
    return X, y


def fitted():
    model = KPPRegressor(
        "extra-trees", n_estimators=4, main_effects="linear", alpha=1.0, random_state=0
    )
    return model.fit(*numbers())


def collapsed():
    return fitted().collapse()


def test_scores_terms_and_outlines_come_back(again, differ, tmp_path):
    model, X = fitted(), 2 * numbers()[0]
    loaded = again(model)
    assert differ(model, loaded) == []
    assert loaded.predict(X).tobytes() == model.predict(X).tobytes()
    assert loaded.additive_.linear[0].coef.tobytes() == model.additive_.linear[0].coef.tobytes()
    found = outline(save(model, tmp_path / "m.kpp"))
    assert (found.n_trees, found.n_rows) == (4, 60)
    alone = model.collapse()
    assert differ(alone, again(alone)) == []
    assert again(alone).scores(X).tobytes() == alone.scores(X).tobytes()
    # A model without linear terms says nothing of them.
    plain = KPPRegressor("extra-trees", n_estimators=4, alpha=1.0, random_state=0).fit(*numbers())
    assert b"linear" not in save(plain.collapse(), tmp_path / "p.kpp").read_bytes()


def entry(k, value):
    def change(array):
        array.ravel()[k] = value
        return array

    return change


# The object, its field, what is done to the array, and what the error says.
ARRAYS = {
    "a column out of range": ("LinearTerms", "column", entry(0, 5), "from 0 to 4"),
    "a negative column": ("LinearTerms", "column", entry(0, -1), "from 0 to 4"),
    "a column twice": ("LinearTerms", "column", entry(1, 0), "each once"),
    "flags of another shape": ("LinearTerms", "is_missing", lambda a: a[1:], "boolean"),
    "flags of another type": ("LinearTerms", "is_missing", lambda a: a * 1.0, "boolean"),
    "another flag": ("LinearTerms", "is_missing", entry(0, True), "0 or 1"),
    "no range": ("LinearTerms", "low", lambda a: a + 100, "ranges"),
    "a mean outside": ("LinearTerms", "mean", lambda a: a - 100, "ranges"),
    "an infinite end": ("LinearTerms", "high", entry(0, np.inf), "must be finite"),
    "no spread": ("LinearTerms", "sd", entry(0, 0.0), "spreads"),
    "a negative spread": ("LinearTerms", "sd", lambda a: -a, "spreads"),
    "fewer spreads": ("LinearTerms", "sd", lambda a: a[1:], "of shape"),
    "coordinates outside": ("LinearMap", "values", lambda a: a + 1, "within their ranges"),
    "coordinates that are none": ("LinearMap", "values", entry(0, np.nan), "must be finite"),
    "coordinates of others": ("LinearMap", "values", lambda a: a[:, 1:], "of shape"),
    "other coordinates": ("LinearMap", "values", lambda a: 0.5 * a, "missing, or is not"),
    "other rows": ("LinearMap", "values", lambda a: a[1:], "same rows"),
    "other values": ("LinearMap", "values", entry(0, 0.0), "not those of the model"),
}
VALUES = {
    "a factor of 0": ("LinearTerms", "factor", 0.0, "factor"),
    "a huge factor": ("LinearTerms", "factor", 1e300, "factor"),
    "terms of more columns": ("LinearTerms", "n_features", 6, "other columns"),
    "no columns": ("LinearTerms", "n_features", 0, "columns must be"),
    "another normalisation": ("LinearMap", "normalize", "rows", "normalize"),
    "a map without terms": ("LinearMap", "terms", None, "needs them"),
}


def fields_of(document, kind):
    (found,) = [o["fields"] for o in document["objects"] if o["kind"] == f"kpp.{kind}"]
    return found


@pytest.mark.parametrize("name", [*ARRAYS, *VALUES])
def test_hostile_terms(name, files, tmp_path):
    document, arrays = files.unpack(save(fitted(), tmp_path / "m.kpp"))
    kind, field, change, message = (ARRAYS | VALUES)[name]
    fields = fields_of(document, kind)
    if name in ARRAYS:
        k = fields[field]["part"] - 1
        arrays[k] = change(arrays[k].copy())
    else:
        fields[field] = change
    with pytest.raises(FileFormatError, match=message):
        load(files.forge(tmp_path / "f.kpp", document, arrays))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a[:, 1:], "of shape"),
        (entry(0, np.inf), "must be finite"),
        (lambda a: 1e308 * np.sign(a), "scores must be finite"),
    ],
)
def test_hostile_coefficients_of_collapsed_terms(change, message, files, tmp_path):
    document, arrays = files.unpack(save(collapsed(), tmp_path / "m.kpp"))
    terms = fields_of(document, "AdditiveForest")["linear"]
    k = dict(terms[0]["items"])["coef"]["part"] - 1
    arrays[k] = change(arrays[k].copy())
    with pytest.raises(FileFormatError, match=message):
        load(files.forge(tmp_path / "f.kpp", document, arrays))
