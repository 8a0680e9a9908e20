"""Small files with right checksums cannot take much time or memory, or start many processes."""

import json
import re
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from kpp import KPPRegressor
from kpp.io import CannotSaveError, FileFormatError, container, foreign_checks, load, save
from kpp.io.container import pack
from kpp.io.saving import FORMAT_VERSION
from kpp.io.strict_json import count_values, load_json

LIMITED = """
import resource, sys
from kpp.io import FileFormatError, describe, load
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {memory}, used + {memory}))
for path in {paths!r}:
    for read in (load, describe):
        try:
            read(path)
        except FileFormatError as error:
            print(error)
"""
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits as Linux has them")


def read_limited(*paths, memory, seconds):
    """Load and describe files in a process of bounded memory; why they are refused.

    The seconds only end what would take hours, such as a scan of quadratic cost.
    """
    code = LIMITED.format(seconds=seconds, memory=memory, paths=[str(path) for path in paths])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-500:]}"
    return done.stdout


def forged(path, document, arrays=(), compression=9):
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    path.write_bytes(b"".join(pack(FORMAT_VERSION, text, list(arrays), compression)))
    return path


def holding(value):
    fields = {"a": value} if not isinstance(value, list) else dict(enumerate(value))
    objects = [{"kind": "kpp.Forest", "fields": {str(k): v for k, v in fields.items()}}]
    return {"objects": objects, "libraries": {}, "metadata": {}}


# JSON.

STRINGS = {
    "not ended": b'{"a":"' + b'\\"' * 8_000_000,
    "not ended, after a backslash": b'{"a":"' + b"\\" * 16_000_001,
    "long": b'{"a":"' + b"a" * 16_000_000 + b'"}',
    "long, of escapes": b'{"a":"' + b'\\"' * 8_000_000 + b'"}',
    "many": b"[" + b'"" ,' * 4_000_000 + b"1]",
}


@linux
def test_strings_take_no_more_than_their_length(tmp_path):
    paths = [forged(tmp_path / f"{name}.kpp", text) for name, text in STRINGS.items()]
    assert all(path.stat().st_size < 33_000 for path in paths)
    refused = read_limited(*paths, memory=200_000_000, seconds=120)
    assert [refused.count(f"{path}: ") for path in paths] == [2] * len(paths)


def values_by_hand(text):
    """Separators outside of strings, and the depth, one letter after the other."""
    count, depth, deepest, inside, escaped = 1, 0, 0, False, False
    for letter in text:
        if inside:
            inside = escaped or letter != '"'
            escaped = letter == "\\" and not escaped
        elif letter == '"':
            inside = True
        else:
            count += letter in ",:[{"
            depth += (letter in "[{") - (letter in "]}")
            deepest = max(deepest, depth)
    return count, deepest


@given(
    st.recursive(
        st.text('ab\\"[]{},:/\n', max_size=6) | st.integers(-9, 9) | st.none(),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.text('a\\"[:', max_size=3), inner, max_size=3)
        ),
        max_leaves=20,
    ),
    st.integers(1, 7),
)
def test_values_are_counted_outside_of_strings(value, chunk):
    from kpp.io import strict_json

    text = json.dumps(value)
    old, strict_json._CHUNK = strict_json._CHUNK, chunk
    try:
        assert strict_json._measure(text.encode()) == values_by_hand(text)
        assert load_json(text.encode(), 1000) == value
    finally:
        strict_json._CHUNK = old


@given(st.text('a\\"[]{},', max_size=30))
def test_no_value_before_an_error_is_missed(text):
    """In text that is no JSON, what stands before the first stray backslash counts."""
    outside = re.match(r'(?:[^"\\]|"(?:[^"\\]|\\.)*")*', text)[0]
    assert count_values(text.encode()) >= values_by_hand(outside)[0]


def test_integers_beyond_64_bits(tmp_path):
    multiples = [k * (2**61 - 1) for k in range(1, 30_000)]  # all of one hash
    path = forged(tmp_path / "m.kpp", holding({"$": "set", "items": multiples}))
    with pytest.raises(FileFormatError, match="beyond 64 bits"):
        load(path)
    with pytest.raises(CannotSaveError, match=r"metadata must be plain data.*beyond 64 bits"):
        save(fitted(), path, metadata={"a": 10**30})
    model = fitted()
    model[-1].random_state = 2**70
    with pytest.raises(CannotSaveError, match="beyond 64 bits"):
        save(model, path)


@pytest.mark.parametrize("kind", ["set", "dict"])
@pytest.mark.parametrize("key", [lambda k: k, float, lambda k: {"$": "tuple", "items": [k]}])
def test_keys_whose_hashes_a_file_can_choose(kind, key, tmp_path):
    def read(n):
        items = [key(k) if kind == "set" else [key(k), 0] for k in range(n)]
        load(forged(tmp_path / "m.kpp", holding({"$": kind, "items": items})))

    with pytest.raises(FileFormatError, match="keys that are no texts"):
        read(32_000)
    with pytest.raises(FileFormatError, match="missing fields"):
        read(30_000)


def test_keys_that_are_texts_may_be_many(tmp_path):
    items = [[f"word {k}", k] for k in range(40_000)]
    with pytest.raises(FileFormatError, match="missing fields"):
        load(forged(tmp_path / "m.kpp", holding({"$": "dict", "items": items})))


# Arrays.


def texts(n, length):
    return {"$": "texts", "shape": [n], "items": ["x" * length] + [""] * (n - 1)}


def test_all_texts_together_take_bounded_room(tmp_path):
    path = forged(tmp_path / "m.kpp", holding([texts(1000, 1000)] * 100))
    assert path.stat().st_size < 5_000
    tracemalloc.start()
    with pytest.raises(FileFormatError, match="texts take far more room"):
        load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60_000_000  # 16 MB of arrays, and the values; not 400 MB


def test_texts_within_the_room_of_their_file(tmp_path):
    with pytest.raises(FileFormatError, match="missing fields"):
        load(forged(tmp_path / "m.kpp", holding([texts(1000, 1000)] * 4)))
    with pytest.raises(FileFormatError, match="texts take far more room"):
        load(tmp_path / "m.kpp", max_bytes=15_000_000)


def test_texts_that_would_not_be_read_are_not_written(tmp_path):
    model = fitted()
    model[-1].alphas = np.array(["x" * 5_000] + [""] * 5_000)
    with pytest.raises(CannotSaveError, match="texts take 100020000 bytes"):
        save(model, tmp_path / "m.kpp")


@pytest.mark.parametrize("kind", ["texts", "objects"])
@pytest.mark.parametrize("shape", [[0, 2**40], [0, 2**31 - 1, 2], [-1], [0] * 4, [True]])
def test_shapes_of_arrays_without_entries(kind, shape, tmp_path):
    path = forged(tmp_path / "m.kpp", holding({"$": kind, "shape": shape, "items": []}))
    with pytest.raises(FileFormatError, match=r"Not a shape|Expected int"):
        load(path)


@linux
def test_many_parts_take_no_quadratic_time(tmp_path, monkeypatch):
    n = 3_000
    value = [{"$": "array", "part": k} for k in range(1, n + 1)]
    path = forged(tmp_path / "m.kpp", holding({"$": "tuple", "items": value}), [np.zeros(0)] * n)
    looked = []
    monkeypatch.setattr(container, "sum", lambda v: looked.append(1) or sum(v), raising=False)
    with pytest.raises(FileFormatError, match="missing fields"):
        load(path)
    assert len(looked) < 10


@linux
def test_millions_of_trees_that_are_a_leaf(files, tmp_path):
    content, arrays = files.unpack(save(fitted(), tmp_path / "m.kpp"))
    n = 2_000_000
    by_kind = {thing["kind"]: thing["fields"] for thing in content["objects"]}
    forest, embedding = by_kind["kpp.Forest"], by_kind["kpp.PathMap"]
    for name, array in {
        "tree_sizes": np.ones(n, np.uint8),
        "split_kind": np.zeros(n, np.uint8),
        "source_leaf": np.zeros(n, np.uint8),
        "feature": np.zeros(0, np.uint8),
        "threshold": np.zeros(0),
        "missing_left": np.zeros(0, np.uint8),
    }.items():
        arrays[forest[name]["part"] - 1] = array
    forest["statistics"] = forest["bare"] = None
    arrays[embedding["leaves"]["part"] - 1] = np.ones((n, 1), np.uint8)  # each has leaf 0 only
    arrays[embedding["node"]["part"] - 1] = np.zeros(n)
    arrays[embedding["tree_mass"]["part"] - 1] = np.zeros(n)
    path = forged(tmp_path / "m.kpp", content, arrays)
    assert "a leaf that the tree" in read_limited(path, memory=600_000_000, seconds=60)


# Objects.


def fitted(*steps):
    X = np.random.default_rng(0).normal(size=(30, 2))
    return make_pipeline(*steps, KPPRegressor("extra-trees", n_estimators=2, alpha=0.1)).fit(
        X, X[:, 0]
    )


def nested(path, files, depth, n_refs=2):
    """A pipeline of pipelines, in which each holds the one before twice."""
    model = fitted(Pipeline([("a", StandardScaler())]))
    content, arrays = files.unpack(save(model, path))
    objects = content["objects"]
    at = next(k for k, thing in enumerate(objects) if thing["kind"] == "sklearn.Pipeline")

    def holding(number):
        thing = json.loads(json.dumps(objects[at]))
        ref = {"$": "ref", "to": number}
        steps = [{"$": "tuple", "items": [f"s{k}", ref]} for k in range(n_refs)]
        pairs = thing["fields"]["parameters"]["items"]
        thing["fields"]["parameters"]["items"] = [
            [name, steps if name == "steps" else value] for name, value in pairs
        ]
        return thing

    def moved(value):
        if isinstance(value, dict):
            own = {key: moved(item) for key, item in value.items()}
            if own.get("$") == "ref" and own["to"] >= at:
                own["to"] += depth
            return own
        return [moved(item) for item in value] if isinstance(value, list) else value

    between = [holding(at + k) for k in range(depth)]
    content["objects"] = [*objects[: at + 1], *between, *moved(objects[at + 1 :])]
    return files.forge(path, content, arrays)


def test_objects_that_hold_one_another_again_and_again(files, tmp_path):
    with pytest.raises(FileFormatError, match="refer to one another far more often"):
        load(nested(tmp_path / "m.kpp", files, depth=14))
    model = load(nested(tmp_path / "m.kpp", files, depth=4))
    assert repr(model).count("StandardScaler") >= 1
    load(nested(tmp_path / "m.kpp", files, depth=20, n_refs=1))


def test_threads_of_steps_are_those_of_the_machine(tmp_path, monkeypatch):
    def jobs_after(n_jobs):
        columns = ColumnTransformer([("a", StandardScaler(), [0, 1])], n_jobs=None)
        model = fitted(columns)
        model[0].n_jobs = n_jobs
        return load(save(model, tmp_path / "m.kpp"))[0].n_jobs

    monkeypatch.setattr(foreign_checks.os, "cpu_count", lambda: 4)
    assert [jobs_after(n) for n in (None, 1, -1, 3, 4, 5, 1000)] == [None, 1, -1, 3, 4, 4, 4]


@pytest.mark.parametrize("encoder", [OrdinalEncoder, OneHotEncoder])
@pytest.mark.parametrize("dtype", ["U100000000", "U9", "S9", "f4,f4", "datetime64[ns, a]", "V9"])
def test_dtypes_of_much_room(encoder, dtype, files, tmp_path):
    model = fitted(encoder(**({"sparse_output": False} if encoder is OneHotEncoder else {})))
    content, arrays = files.unpack(save(model, tmp_path / "m.kpp"))
    kind = f"sklearn.{encoder.__name__}"
    fields = next(t["fields"] for t in content["objects"] if t["kind"] == kind)
    pair = next(pair for pair in fields["parameters"]["items"] if pair[0] == "dtype")
    pair[1] = dtype
    with pytest.raises(FileFormatError, match="dtype"):
        load(files.forge(tmp_path / "m.kpp", content, arrays))
    pair[1] = {"$": "dtype", "name": "<U9999"}
    with pytest.raises(FileFormatError, match="dtype"):
        load(files.forge(tmp_path / "m.kpp", content, arrays))


@pytest.mark.parametrize("dtype", ["float32", "float", "f8", "<f4", float, np.float32, "int64"])
def test_dtypes_of_numbers(dtype, tmp_path):
    model = fitted(OrdinalEncoder(dtype=dtype))
    loaded = load(save(model, tmp_path / "m.kpp"))
    assert loaded[0].dtype == dtype


# Fitted models.


def test_folds_are_looked_up_in_sorted_rows(files, tmp_path, monkeypatch):
    from kpp.io import models

    X = np.random.default_rng(0).normal(size=(40, 2))
    model = KPPRegressor(
        "extra-trees", n_estimators=2, cv=4, alphas=[0.1, 1.0], random_state=0
    ).fit(X, X[:, 0])
    path = save(model, tmp_path / "m.kpp")
    monkeypatch.setattr(models.np, "isin", None)  # its time is that of all rows, for each fold
    for (train, test), (own, other) in zip(load(path).folds_, model.folds_, strict=True):
        assert (train == own).all()
        assert (test == other).all()


def test_rows_among_others():
    from kpp.io.models import _all_among

    known = np.array([2, 5, 9])
    assert _all_among(np.array([9, 2, 2]), known)
    assert _all_among(np.array([], dtype=int), known)
    for row in (0, 3, 10):
        assert not _all_among(np.array([2, row]), known)
