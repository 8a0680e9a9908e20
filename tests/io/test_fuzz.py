"""Mutations of files: none that breaks a checksum is accepted, and none crashes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from kpp import KPPClassifier, KPPRegressor
from kpp.io import FileFormatError, load, save

# The slow check below makes many more.
N_RAW, N_SEALED = 3_000, 700


def rows(n_rows=24):
    X, y = make_friedman1(n_rows, 5, random_state=0)
    return X, y


def multiclass():
    X, y = rows()
    trees = ExtraTreesClassifier(2, max_depth=2, random_state=0)
    return KPPClassifier(trees, cv=2, alphas=[0.1, 1.0]).fit(X, np.digitize(y, [10, 16]))


def pipeline():
    X, y = rows()
    X = np.column_stack([X[:, :2].round(1) * 3 // 1, X[:, 2:]])
    encoder = OneHotEncoder(drop="first", sparse_output=False, handle_unknown="ignore")
    boosted = KPPRegressor("boosted", n_estimators=2, alpha=0.1)
    return make_pipeline(encoder, StandardScaler(), boosted).fit(X, y)


def averaged():
    """Layers of folds on blocks of their own, and forests with bare scores."""
    X, y = rows()
    boosted = KPPRegressor("boosted", n_estimators=2, regime="cross-fit", cv=3, alphas=[0.1, 1.0])
    return boosted.fit(X, y)


def fold_grown():
    """Layers of folds on groups of trees, with weights of their own."""
    X, y = rows()
    return KPPRegressor("boosted", n_estimators=2, cv=2, alphas=[0.1, 1.0]).fit(X, y)


def flip(data, rng):
    data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    return data


def cut(data, rng):
    return data[: rng.integers(len(data))]


def insert(data, rng):
    at = rng.integers(len(data) + 1)
    return data[:at] + rng.bytes(int(rng.integers(1, 20))) + data[at:]


def remove(data, rng):
    at = rng.integers(len(data))
    return data[:at] + data[at + rng.integers(1, 20) :]


def swap(data, rng):
    size = int(rng.integers(1, 64))
    a, b = sorted(rng.integers(0, len(data) - size, 2).tolist())
    if b < a + size:
        return flip(data, rng)
    return (
        data[:a] + data[b : b + size] + data[a + size : b] + data[a : a + size] + data[b + size :]
    )


def overwrite(data, rng):
    at, size = rng.integers(len(data)), rng.integers(1, 40)
    data[at : at + size] = bytes([rng.integers(256)]) * len(data[at : at + size])
    return data


def edit_header(data, rng):
    """A byte of the prefix or of the header, where all sizes are."""
    length = 52 + int.from_bytes(data[12:20], "little")
    data[rng.integers(length)] = rng.integers(256)
    return data


MUTATIONS = [flip, cut, insert, remove, swap, overwrite, edit_header]


def test_no_altered_file_is_accepted(tmp_path):
    original = save(multiclass(), tmp_path / "m.kpp").read_bytes()
    path, rng, n_altered = tmp_path / "mutant.kpp", np.random.default_rng(0), 0
    for k in range(N_RAW):
        mutant = bytes(MUTATIONS[k % len(MUTATIONS)](bytearray(original), rng))
        if mutant == original:
            continue
        n_altered += 1
        path.write_bytes(mutant)
        with pytest.raises(FileFormatError):
            load(path)
    assert n_altered > 0.98 * N_RAW


def test_every_single_bit_of_the_first_bytes(tmp_path):
    path = save(multiclass(), tmp_path / "m.kpp")
    original = path.read_bytes()
    for bit in range(8 * 60):
        mutant = bytearray(original)
        mutant[bit // 8] ^= 1 << bit % 8
        path.write_bytes(mutant)
        with pytest.raises(FileFormatError):
            load(path)


STRANGE = [
    *(None, True, False, 0, 1, -1, 2, 3, 255, 2**31, -(2**31), 2**63, 10**30, 0.0, -0.5, 1e308),
    *("", "a", "kpp.Forest", "__class__", [], [[]], {}, {"$": "ref", "to": 0}),
    *({"$": "float", "is": "nan"}, {"$": "array", "part": 1}, {"$": "type", "name": "object"}),
    *({"$": "tuple", "items": []}, {"$": "dict", "items": []}, {"$": "slice", "items": [1, 2, 3]}),
]


def edit_document(document, rng):
    """Replace, remove, double or exchange a value somewhere in the JSON."""
    places = []

    def visit(value):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in pairs:
            places.append((value, key))
            if isinstance(item, dict | list):
                visit(item)

    visit(document["objects"])
    holder, key = places[rng.integers(len(places))]
    way = rng.integers(5)
    if way == 0:
        other, place = places[rng.integers(len(places))]
        holder[key] = json.loads(json.dumps(other[place]))
    elif way == 1 and isinstance(holder, list):
        del holder[key]
    elif way == 2 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif way == 3 and type(holder[key]) in (int, float):
        holder[key] = holder[key] + type(holder[key])(rng.integers(-2, 3))
    else:
        holder[key] = json.loads(json.dumps(STRANGE[rng.integers(len(STRANGE))]))


def edit_array(arrays, rng):
    """Change entries, the type, the shape or the place of an array."""
    k = int(rng.integers(len(arrays)))
    array = arrays[k].copy()
    way = rng.integers(6)
    if way == 0 and array.size:
        low, high = (0, 2) if array.dtype == bool else (-300, 300)
        array.ravel()[rng.integers(array.size)] = np.array(rng.integers(low, high)).astype(
            array.dtype
        )
    elif way == 1 and array.size:
        raw = array.reshape(-1).view(np.uint8)
        raw[rng.integers(raw.size)] ^= 1 if array.dtype == bool else 1 << rng.integers(8)
    elif way == 2:
        array = array.astype(rng.choice(["u1", "i1", "i8", "u4", "f8", "f4", "?"]))
    elif way == 3:
        array = array[: rng.integers(len(array) + 1)]
    elif way == 4:
        array = array.reshape(-1) if array.ndim > 1 else array[None]
    else:
        other = int(rng.integers(len(arrays)))
        arrays[k], arrays[other] = arrays[other], arrays[k]
        return
    arrays[k] = np.ascontiguousarray(array)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [multiclass, pipeline, averaged, fold_grown])
def test_altered_content_under_right_checksums(make, tmp_path, files):
    """Refused, or a model that predicts finite numbers: nothing else, and no crash."""
    document, originals = files.unpack(save(make(), tmp_path / "m.kpp"))
    text = json.dumps(document)
    path, rng = tmp_path / "mutant.kpp", np.random.default_rng(1)
    X, _ = rows(6)
    n_accepted = 0
    for _ in range(N_SEALED):
        document, arrays = json.loads(text), list(originals)
        for _ in range(int(rng.integers(1, 4))):
            if rng.random() < 0.5:
                edit_document(document, rng)
            else:
                edit_array(arrays, rng)
        files.forge(path, document, arrays)
        try:
            model = load(path)
        except FileFormatError:
            continue
        n_accepted += 1
        kpp_model = model[-1] if hasattr(model, "steps") else model
        assert np.isfinite(kpp_model.collapse().node_values).all()
        new = X[:, : kpp_model.n_features_in_]
        if new.shape[1] == kpp_model.n_features_in_ and not hasattr(kpp_model, "feature_names_in_"):
            assert np.isfinite(kpp_model.additive_.scores(new)).all()
        for fit in [*kpp_model.fits_, *(kpp_model.fold_fits_ or [])]:
            assert np.isfinite(fit.node_coef).all()
            assert np.isfinite(fit.scores(fit.map)).all()
        try:  # the preparation may no longer fit the model, and says so
            assert np.isfinite(np.asarray(model.predict(X), dtype=float)).all()
        except (ValueError, TypeError, AttributeError, IndexError, KeyError):
            assert hasattr(model, "steps")
    assert 0 < n_accepted < N_SEALED / 2


@pytest.mark.slow
def test_compiled_loops_stay_in_their_arrays(tmp_path):
    """The same, with numba's test of every index switched on."""
    code = f"""
import sys, pathlib, importlib.util, warnings
warnings.simplefilter("ignore")
sys.path[:0] = [{str(Path(__file__).parent.parent)!r}]
def module(name):
    file = pathlib.Path({str(Path(__file__).parent)!r}) / f"{{name}}.py"
    spec = importlib.util.spec_from_file_location(name, file)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
fuzz, conftest = module("test_fuzz"), module("conftest")
fuzz.N_SEALED = 2_500
class files:
    unpack, forge = staticmethod(conftest.unpack), staticmethod(conftest.forge)
for make in (fuzz.multiclass, fuzz.pipeline, fuzz.averaged, fuzz.fold_grown):
    fuzz.test_altered_content_under_right_checksums(make, pathlib.Path({str(tmp_path)!r}), files)
print("done")
"""
    environment = os.environ | {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout.strip() == "done", done.stderr
