"""`outline`: what a saved model is, from a small part of its file."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpp import KPPClassifier, KPPEmbedding, KPPRegressor, collapse
from kpp.geometry import forest_blocks
from kpp.io import FileFormatError, FileVersionWarning, container, load, outline, save
from kpp.io.container import pack
from kpp.models.pipelines import names_of, split_pipeline

DATA = {path.stem: path for path in sorted((Path(__file__).parent / "data").glob("*.kpp"))}
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(60, 3)), columns=["a", "b", "c"])
y = X["a"].to_numpy() + 0.1 * RNG.normal(size=60)
SMALL = {"n_estimators": 6, "alpha": 0.1, "random_state": 0}
MODELS = {
    "regressor": lambda: KPPRegressor("extra-trees", **SMALL).fit(X, y),
    "no names": lambda: KPPRegressor("extra-trees", **SMALL).fit(X.to_numpy(), y),
    "classifier": lambda: KPPClassifier("extra-trees", **SMALL).fit(
        X, np.array(["p", "q", "r"])[np.arange(60) % 3]
    ),
    "dates as classes": lambda: KPPClassifier("extra-trees", **SMALL).fit(
        X, np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[s]")[np.arange(60) % 2]
    ),
    "honest": lambda: KPPRegressor("extra-trees", regime="honest", **SMALL).fit(X, y),
    "cross-fit": lambda: KPPRegressor("extra-trees", regime="cross-fit", cv=KFold(3), **SMALL).fit(
        X, y
    ),
    "two forests": lambda: KPPRegressor(
        [("one", ExtraTreesRegressor(3, random_state=0)), ("two", ExtraTreesRegressor(4))],
        combine="joint",
        alpha=0.1,
    ).fit(X, y),
    "embedding": lambda: KPPEmbedding(n_estimators=4, random_state=0).fit(X, y),
    "one step": lambda: make_pipeline(StandardScaler(), KPPRegressor("extra-trees", **SMALL)).fit(
        X, y
    ),
    "no step": lambda: make_pipeline("passthrough", KPPRegressor("extra-trees", **SMALL)).fit(X, y),
    "two steps": lambda: make_pipeline(
        SimpleImputer(), StandardScaler(), KPPClassifier("extra-trees", **SMALL)
    ).fit(X, y > 0),
}


def check(path):
    """Compare what is said of a file with the model that it holds."""
    found, model = outline(path), load(path)
    preparation, inner = split_pipeline(model)
    forests = [block.forest for _, block in forest_blocks(inner.map_)]
    assert found.kind == type(inner).__name__
    assert found.n_trees == sum(forest.n_trees for forest in forests)
    assert found.n_nodes == sum(forest.n_nodes for forest in forests)
    assert found.n_rows == inner.map_.shape[0]
    assert found.regime == getattr(inner, "regime_", None)
    assert found.alpha == getattr(inner, "alpha_", None)
    classes = getattr(inner, "classes_", None)
    assert (found.classes is None) == (classes is None)
    assert classes is None or (
        found.classes.dtype == classes.dtype and (found.classes == classes).all()
    )
    assert type(found.preparation) is type(preparation)
    if preparation is not None:
        assert (found.preparation.transform(X) == preparation.transform(X)).all()
    assert names_of(found.columns) == names_of(inner)
    assert found.summary.n_bytes == path.stat().st_size


@pytest.mark.parametrize("kind", MODELS)
def test_it_is_the_model_of_the_file(tmp_path, kind):
    check(save(MODELS[kind](), tmp_path / "m.kpp"))


FORMATS = {name for name in DATA if name.startswith("format")}


@pytest.mark.parametrize("name", sorted(FORMATS - {"format1_collapsed"}))
def test_of_files_of_all_formats(name):
    check(DATA[name])


def test_of_forests(tmp_path):
    model = MODELS["regressor"]()
    for thing, name in ((model.forest_, "Forest"), (collapse(model), "AdditiveForest")):
        found = outline(save(thing, tmp_path / "f.kpp"))
        assert (found.kind, found.n_nodes) == (name, model.forest_.n_nodes)
        assert (found.task, found.columns, found.n_rows) == (None, None, None)
    old = outline(DATA["format1_collapsed"])
    assert (old.kind, old.summary.kind) == ("AdditiveForest", "kpp.CollapsedForest")


class Counting(io.FileIO):
    """A file without a buffer that knows what was read of it."""

    taken = 0

    def read(self, size=-1):
        data = super().read(size)
        self.taken += len(data)
        return data


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    rows = RNG.normal(size=(800, 3))
    model = make_pipeline(
        StandardScaler(), KPPRegressor("extra-trees", n_estimators=200, alpha=0.1)
    )
    model.fit(pd.DataFrame(rows, columns=["a", "b", "c"]), rows[:, 0] ** 2)
    return save(model, tmp_path_factory.mktemp("large") / "m.kpp")


def test_a_small_part_is_read(large, monkeypatch):
    opened, sizes = [], []

    def counting(path, mode):
        opened.append(Counting(path, mode))
        return opened[-1]

    def noted(self, number):
        sizes.append(self.entries[number].n_bytes)
        return array(self, number)

    array = container.Container.array
    monkeypatch.setattr("kpp.io.outlines.open", counting, raising=False)
    monkeypatch.setattr(container.Container, "array", noted)
    found = outline(large)
    (file,) = opened
    assert found.n_bytes_taken == file.taken
    # The header and the document are a few kB; this file has a few MB.
    assert file.taken < large.stat().st_size / 50
    # The sizes of the trees, and what the scaler has learnt.
    assert max(sizes) <= 8 * 200


def altered(path, place, tmp_path):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    (tmp_path / "altered.kpp").write_bytes(content)
    return tmp_path / "altered.kpp"


def test_what_is_read_is_checked(large, tmp_path):
    content = large.read_bytes()
    length = int.from_bytes(content[12:20], "little")
    stored = json.loads(content[52 : 52 + length])["parts"][0]["stored"]
    # The prefix, the checksum, the header and the document.
    for place in (0, 8, 12, 20, 51, 52, 52 + length - 1, 52 + length, 52 + length + stored - 1):
        with pytest.raises(FileFormatError, match="altered"):
            outline(altered(large, place, tmp_path))
    for shorter in (0, 30, 52 + length, len(content) // 2, len(content) - 1):
        (tmp_path / "cut.kpp").write_bytes(content[:shorter])
        with pytest.raises(FileFormatError, match="cut"):
            outline(tmp_path / "cut.kpp")
    # What is not read cannot be checked, and is not said to be.
    damaged = altered(large, len(content) - 1, tmp_path)
    assert outline(damaged).n_bytes_taken < len(content)
    with pytest.raises(FileFormatError):
        load(damaged)


def changed(path, change):
    """The same file with another document, and right checksums."""
    with open(path, "rb") as file:
        parts = container.Container(file)
        document = parts.document()
        arrays = [parts.array(k) for k in range(1, len(parts.entries))]
    change(document)
    path.write_bytes(b"".join(pack(2, json.dumps(document).encode(), arrays, 6)))
    return path


def fields_of(document, kind):
    return next(o["fields"] for o in document["objects"] if o["kind"] == kind)


def up_to(document, kind):
    kinds = [o["kind"] for o in document["objects"]]
    return document["objects"][: kinds.index(kind) + 1]


LIES = {
    "a map": lambda d: d.update(objects=up_to(d, "kpp.PathMap")),
    "a step": lambda d: d.update(objects=up_to(d, "sklearn.StandardScaler")),
    "not a table": lambda d: d.update(objects=[]),
    "an unknown field": lambda d: fields_of(d, "kpp.Forest").update(more=1),
    "a missing field": lambda d: fields_of(d, "kpp.PathMap").pop("node"),
    "no forest": lambda d: fields_of(d, "kpp.PathMap").update(forest=1),
    "no leaves": lambda d: fields_of(d, "kpp.PathMap").update(leaves=None),
    "leaves elsewhere": lambda d: fields_of(d, "kpp.PathMap")["leaves"].update(part=10**6),
    "sizes that are none": lambda d: fields_of(d, "kpp.Forest").update(tree_sizes="many"),
    "blocks that are none": lambda d: fields_of(d, "kpp.KPPRegressor").update(blocks=[]),
    "a regime that is none": lambda d: fields_of(d, "kpp.KPPRegressor").update(regime_="x"),
    "an alpha that is none": lambda d: fields_of(d, "kpp.KPPRegressor").update(alpha_=-1.0),
    "names that are none": lambda d: fields_of(d, "kpp.KPPRegressor").update(feature_names_in_=1),
}


@pytest.mark.parametrize("lie", LIES)
def test_files_that_are_no_models(tmp_path, lie):
    path = changed(save(MODELS["one step"](), tmp_path / "m.kpp"), LIES[lie])
    with pytest.raises(FileFormatError, match=r"m\.kpp"):
        outline(path)


def test_other_versions_are_said(tmp_path):
    path = save(MODELS["one step"](), tmp_path / "m.kpp")
    changed(path, lambda document: document["libraries"].update({"scikit-learn": "0.1"}))
    with pytest.warns(FileVersionWarning, match=r"scikit-learn 0\.1") as caught:
        outline(path)
    assert caught[0].filename == __file__
    with pytest.warns(FileVersionWarning) as caught:
        load(path)
    assert caught[0].filename == __file__
