"""Files with right checksums and wrong content: whatever they say, they are refused."""

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import ExtraTreeRegressor

from kpp import AdditiveForest, Forest, KPPClassifier, KPPRegressor
from kpp.forest import ObliqueForestRegressor
from kpp.io import FileFormatError, load, save
from kpp.scores import ScoreBlock

NAN = {"$": "float", "is": "nan"}
pd = pytest.importorskip("pandas")


def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "word": rng.choice(["oak", "elm", "ash tree"], 40),
            "grade": rng.choice([1, 2, 3], 40),
            "when": pd.date_range("2020-01-01", periods=40, freq="9h", tz="Europe/Paris"),
        }
    )
    return frame, rng.normal(size=40)


def numbers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    return X, X[:, 0] + 0.1 * rng.normal(size=30)


def regressor():
    trees = ExtraTreesRegressor(3, max_depth=3, random_state=0)
    model = KPPRegressor(trees, cv=3, alphas=[0.1, 1.0, 10.0], random_state=0)
    return model.fit(*numbers())


def classifier():
    X, y = numbers()
    return KPPClassifier("extra-trees", n_estimators=2, alpha=0.1, random_state=0).fit(
        X, np.digitize(y, [-1, 1])
    )


def categorical():
    frame, y = table()
    X = frame[["word"]].astype("category")
    return KPPRegressor("boosted", n_estimators=2, alpha=0.1, random_state=0).fit(X, y)


def oblique():
    trees = ObliqueForestRegressor(3, tree=ExtraTreeRegressor(max_depth=3), random_state=0)
    return KPPRegressor(trees, alpha=0.1).fit(*numbers())


def prepared():
    frame, y = table()
    columns = make_column_transformer(
        (OneHotEncoder(drop="first", sparse_output=False), ["grade"]),
        (CountVectorizer(), "word"),
        (FunctionTransformer(), ["grade"]),
        (StandardScaler(), ["grade"]),
        sparse_threshold=0,
    )
    return make_pipeline(
        columns, KPPRegressor("extra-trees", n_estimators=2, alpha=0.1, random_state=0)
    ).fit(frame, y)


def dated():
    skrub = pytest.importorskip("skrub")
    frame, y = table()
    model = KPPRegressor("boosted", n_estimators=2, alpha=0.1, random_state=0)
    return make_pipeline(skrub.TableVectorizer(), model).fit(frame, y)


class Content:
    """A file's document and arrays, with a few ways to change them."""

    def __init__(self, document, arrays):
        self.document, self.arrays = document, arrays

    def fields(self, kind):
        # The last: the first of a kind may be a parameter, before the fit.
        objects = reversed(self.document["objects"])
        return next(o["fields"] for o in objects if o["kind"] == kind)

    def array(self, kind, field):
        """The number of the array behind a field."""
        return self.fields(kind)[field]["part"] - 1

    def set(self, kind, field, array):
        self.arrays[self.array(kind, field)] = array

    def edit(self, kind, field, change):
        k = self.array(kind, field)
        self.arrays[k] = change(self.arrays[k].copy())

    def pairs(self, kind, field):
        """The items of a dict: parameters or state of a foreign object."""
        return self.fields(kind)[field]["items"]

    def put(self, kind, field, name, value):
        items = self.pairs(kind, field)
        items[:] = [pair for pair in items if pair[0] != name] + [[name, value]]

    def get(self, kind, field, name):
        return next(value for key, value in self.pairs(kind, field) if key == name)


def at(k, value):
    def change(array):
        array.ravel()[k] = value
        return array

    return change


def forest(name, change):
    return regressor, lambda c: c.edit("kpp.Forest", name, change)


def sums(name, change):
    def edit(content):
        k = content.get("kpp.Forest", "sums", name)["part"] - 1
        content.arrays[k] = change(content.arrays[k].copy())

    return oblique, edit


def embedding(name, change):
    return regressor, lambda c: c.edit("kpp.PathMap", name, change)


def linear(name, change, kind="kpp.KPPRegressor", make=regressor):
    return make, lambda c: c.edit(kind, name, change)


def field(kind, name, value, make=regressor):
    return make, lambda c: c.fields(kind).__setitem__(name, value)


def foreign(kind, part, name, value, make=prepared):
    return make, lambda c: c.put(kind, part, name, value)


def wrapper_of(content):
    """What skrub calls the wrapper of a transformer, which depends on its version."""
    kinds = {thing["kind"] for thing in content.document["objects"]}
    return (kinds & {"skrub.ApplyToEachCol", "skrub.ApplyToCols"}).pop()


def rename(kind):
    return regressor, lambda c: c.document["objects"][-1].__setitem__("kind", kind)


F, M, L = "kpp.Forest", "kpp.PathMap", "kpp.KPPRegressor"
HOSTILE = {
    # Which classes there are.
    "os.system": rename("os.system"),
    "eval": rename("builtins.eval"),
    "a class by its module": rename("kpp.models.regressor.KPPRegressor"),
    "a class of scikit-learn": rename("sklearn.SVC"),
    "a kind of a wrong type": rename(["kpp.Forest"]),
    "no model": (regressor, lambda c: c.document["objects"].pop()),
    "an empty table": (regressor, lambda c: c.document["objects"].clear()),
    "objects that nothing refers to": (
        regressor,
        lambda c: c.document["objects"].insert(0, c.document["objects"][0]),
    ),
    "another key": (regressor, lambda c: c.document.update(run="me")),
    "versions of a wrong type": (regressor, lambda c: c.document.update(libraries={"kpp": 1})),
    "versions that are shown": (
        regressor,
        lambda c: c.document.update(libraries={"kpp": "\x1b[2J"}),
    ),
    "metadata of a wrong type": (regressor, lambda c: c.document.update(metadata=[])),
    # References.
    "a reference forward": field(M, "forest", {"$": "ref", "to": 3}),
    "a reference to itself": field(M, "forest", {"$": "ref", "to": 1}),
    "a reference to nowhere": field(M, "forest", {"$": "ref", "to": 99}),
    "a negative reference": field(M, "forest", {"$": "ref", "to": -1}),
    "a true reference": field(M, "forest", {"$": "ref", "to": False}),
    "an unknown tag": field(M, "forest", {"$": "python", "run": "1"}),
    "a tag of a wrong type": field(M, "forest", {"$": ["ref"], "to": 0}),
    "a tag with more": field(M, "forest", {"$": "ref", "to": 0, "more": 1}),
    "an array that is not there": field(F, "threshold", {"$": "array", "part": 99}),
    "the document as an array": field(F, "threshold", {"$": "array", "part": 0}),
    "an array twice": (
        regressor,
        lambda c: c.fields(F).__setitem__("threshold", c.fields(F)["feature"]),
    ),
    "an array in another place, too": (
        regressor,
        lambda c: c.put(L, "parameters", "node_weight", dict(c.fields(L)["alphas_"])),
    ),
    "a field too few": (regressor, lambda c: c.fields(F).pop("source")),
    "a field too many": field(F, "parent", [0, 0, 0]),
    "fields of a wrong type": (
        regressor,
        lambda c: c.document["objects"][0].__setitem__("fields", []),
    ),
    # Forests.
    "no splits": forest("split_kind", lambda a: 0 * a),
    "splits only": forest("split_kind", lambda a: 0 * a + 1),
    "a strange split": forest("split_kind", at(0, 4)),
    "oblique without sums": forest("split_kind", lambda a: 3 * a),
    "sums without oblique splits": (
        oblique,
        lambda c: c.edit("kpp.Forest", "split_kind", lambda a: np.minimum(a, 1)),
    ),
    "sums that are gone": (oblique, lambda c: c.fields(F).__setitem__("sums", None)),
    "no terms": sums("terms", at(0, 0)),
    "one term": sums("terms", at(0, 1)),
    "terms of another split": sums("terms", at(0, 3)),
    "many terms": sums("terms", at(0, 2**62)),
    "a term of no column": sums("columns", at(0, 3)),
    "a term of a negative column": sums("columns", at(0, -2)),
    "columns that are numbers": sums("columns", lambda a: a.astype(np.float64)),
    "terms of one column": sums("columns", lambda a: 0 * a),
    "an infinite weight of a sum": sums("weights", at(0, np.inf)),
    "a weight that is none": sums("weights", at(0, np.nan)),
    "a weight of 0": sums("weights", at(0, 0.0)),
    "weights of another type": sums("weights", lambda a: a.astype(np.float32)),
    "a share too large": sums("shares", at(0, 2.0)),
    "a negative share": sums("shares", lambda a: -a),
    "an oblique threshold that is none": (
        oblique,
        lambda c: c.edit(F, "threshold", at(0, np.nan)),
    ),
    "splits after their children": forest("split_kind", lambda a: a[::-1].copy()),
    "a split moved": forest("split_kind", lambda a: np.roll(a, 1)),
    "kinds of another type": forest("split_kind", lambda a: a.astype(np.int64)),
    "categorical without categories": forest("split_kind", lambda a: 2 * a),
    "no nodes": forest("split_kind", lambda a: a[:0]),
    "too few nodes": forest("split_kind", lambda a: a[:-1]),
    "trees of size 0": forest("tree_sizes", at(0, 0)),
    "trees of other sizes": forest("tree_sizes", lambda a: a + np.array([0, 2, -2])),
    "trees that overlap": forest("tree_sizes", lambda a: np.append(a, 2**62).astype(np.int64)),
    "no trees": forest("tree_sizes", lambda a: a[:0]),
    "trees of floats": forest("tree_sizes", lambda a: a.astype(float)),
    "a column out of range": forest("feature", at(0, 3)),
    "a negative column": forest("feature", lambda a: at(0, -1)(a.astype(np.int64))),
    "too few columns": forest("feature", lambda a: a[:-1]),
    "a threshold that is no number": forest("threshold", at(0, np.nan)),
    "thresholds of single precision": forest("threshold", lambda a: a.astype(np.float32)),
    "too few bits": forest("missing_left", lambda a: a[:-1]),
    "source leaves": forest("source_leaf", lambda a: a.astype(np.int64) + 2**40),
    "no columns": field(F, "n_features", 0),
    "very many columns": field(F, "n_features", 10**15),
    "columns of a wrong type": field(F, "n_features", True),
    "another precision": field(F, "dtype", {"$": "dtype", "name": "float16"}),
    "names of columns": field(F, "feature_names", {"$": "tuple", "items": ["a"]}),
    "categories of a column that is not there": field(
        F, "categories", {"$": "dict", "items": [[7, {"$": "objects", "shape": [0], "items": []}]]}
    ),
    "objects as categories": field(
        F,
        "categories",
        {"$": "dict", "items": [[0, {"$": "objects", "shape": [1], "items": [[1]]}]]},
    ),
    "negative words": (
        categorical,
        lambda c: c.edit(F, "category_words", lambda a: a.astype(np.int64) * -1),
    ),
    "more words than there are": (
        categorical,
        lambda c: c.edit(F, "category_words", lambda a: a * 0 + 200),
    ),
    "no bits": (categorical, lambda c: c.edit(F, "category_bits", lambda a: a[:0])),
    "categories gone": field(F, "categories", {"$": "dict", "items": []}, make=categorical),
    # Embeddings.
    "a leaf out of range": embedding("leaves", at(0, 200)),
    "leaves of other trees": embedding("leaves", lambda a: a[:-1]),
    "leaves in one line": embedding("leaves", lambda a: a.ravel()),
    "signed leaves": embedding("leaves", lambda a: a.astype(np.int8)),
    "a negative weight": embedding("node", at(0, -1.0)),
    "an infinite weight": embedding("node", at(0, np.inf)),
    "a weight that is no number": embedding("node", at(0, np.nan)),
    "too many weights": embedding("node", lambda a: np.append(a, 0.0)),
    "no mass": field(M, "forest_mass", 0.0),
    "a negative mass": field(M, "forest_mass", -1.0),
    "a mass that is no number": field(M, "forest_mass", NAN),
    "a tiny mass": field(M, "forest_mass", 5e-324),
    "another normalisation": field(M, "normalize", "rows"),
    "a million threads": field(M, "n_jobs", 10**6),
    # Models.
    "coefficients that are no numbers": linear("coefficients", at(0, np.nan)),
    "too few coefficients": linear("coefficients", lambda a: a[:, :-1]),
    "coefficients of two models": linear("coefficients", lambda a: np.vstack([a, a])),
    "other coefficients": linear("coefficients", lambda a: 1.001 * a),
    "huge coefficients": linear("coefficients", lambda a: a + 1e308),
    "an infinite intercept": linear("intercept", at(0, np.inf)),
    "no intercept": linear("intercept", lambda a: a[:0]),
    "dual coefficients": linear("dual_coef_", lambda a: a[:-1]),
    "another regime": field(L, "regime_", "safe"),
    "a negative alpha": field(L, "alpha_", -1.0),
    "alpha that is no number": field(L, "alpha_", "1"),
    "an empty grid": linear("alphas_", lambda a: a[:0]),
    "out-of-fold predictions": linear("oof_prediction_", lambda a: a[:-1]),
    "rows twice": linear("fit_rows", at(1, 0)),
    "negative rows": linear("fit_rows", lambda a: at(0, -1)(a.astype(np.int8))),
    "rows beyond": linear("partition_rows", lambda a: at(0, 2**40)(a.astype(np.int64))),
    "rows of floats": linear("fit_rows", lambda a: a.astype(float)),
    "no rows": (regressor, lambda c: c.edit(M, "leaves", lambda a: a[:, :0])),
    "folds of other rows": (
        regressor,
        lambda c: c.arrays.__setitem__(
            c.fields(L)["folds"][0][0]["part"] - 1, np.array([500], dtype=np.uint16)
        ),
    ),
    "folds of a wrong type": field(L, "folds", 3),
    "spread": linear("feature_spread_", at(0, -1.0)),
    "a range": linear("feature_range_", at(0, np.inf)),
    "a range upside down": linear("feature_range_", lambda a: a[::-1].copy()),
    "missing columns": linear("missing_columns_", lambda a: a.astype(np.uint8)),
    "no iterations": field(L, "n_iter_", 0),
    "single": field(L, "single", 1),
    "a parameter that is not one": (
        regressor,
        lambda c: c.put(L, "parameters", "hook", "x"),
    ),
    "a parameter without a name": (
        regressor,
        lambda c: c.fields(L)["parameters"]["items"].append([3, "x"]),
    ),
    "a parameter twice": (
        regressor,
        lambda c: c.fields(L)["parameters"]["items"].append(["alpha", 1.0]),
    ),
    "a strange output": field(L, "output", {"$": "dict", "items": [["transform", "os"]]}),
    "classes twice": linear("classes_", at(0, 1), "kpp.KPPClassifier", classifier),
    "classes and scores": linear("classes_", lambda a: a[:2], "kpp.KPPClassifier", classifier),
    "classes of a regressor": field(L, "classes_", {"$": "texts", "shape": [1], "items": ["a"]}),
    # Other libraries' objects: hooks, names of files, and positions.
    "a method hidden": foreign("sklearn.StandardScaler", "state", "transform", "data"),
    "a property hidden": foreign("sklearn.StandardScaler", "state", "_repr_html_", "data"),
    "a class replaced": foreign("sklearn.StandardScaler", "state", "__class__", "data"),
    "a reduction": foreign("sklearn.StandardScaler", "state", "__reduce_ex__", "data"),
    "a strange name": foreign("sklearn.StandardScaler", "state", "a b", "data"),
    "an unknown parameter": foreign("sklearn.StandardScaler", "parameters", "hook", 1),
    "a parameter as state": foreign("sklearn.StandardScaler", "state", "with_mean", True),
    "a cache on disk": foreign("sklearn.Pipeline", "parameters", "memory", "/tmp"),
    "a function": foreign(
        "sklearn.FunctionTransformer", "parameters", "func", {"$": "type", "name": "str"}
    ),
    "files as input": foreign("sklearn.CountVectorizer", "parameters", "input", "filename"),
    "a slow pattern": foreign("sklearn.CountVectorizer", "parameters", "token_pattern", "(a+)+$"),
    "a type as analyser": foreign(
        "sklearn.CountVectorizer", "parameters", "analyzer", {"$": "type", "name": "str"}
    ),
    "a tokenizer": foreign(
        "sklearn.CountVectorizer", "parameters", "tokenizer", {"$": "type", "name": "str"}
    ),
    "words beyond the columns": foreign(
        "sklearn.CountVectorizer",
        "state",
        "vocabulary_",
        {"$": "dict", "items": [["oak", 0], ["elm", 10**6]]},
    ),
    "words at negative columns": foreign(
        "sklearn.CountVectorizer",
        "state",
        "vocabulary_",
        {"$": "dict", "items": [["oak", 0], ["elm", -1]]},
    ),
    "a dropped category out of range": foreign(
        "sklearn.OneHotEncoder",
        "state",
        "_drop_idx_after_grouping",
        {"$": "objects", "shape": [1], "items": [17]},
    ),
    "fewer columns than categories": foreign(
        "sklearn.OneHotEncoder", "state", "_n_features_outs", [0]
    ),
    "categories that fall": (
        prepared,
        lambda c: c.arrays.__setitem__(
            c.get("sklearn.OneHotEncoder", "state", "categories_")[0]["part"] - 1,
            np.array([3, 1, 2]),
        ),
    ),
    "rare categories": foreign("sklearn.OneHotEncoder", "state", "_infrequent_enabled", True),
    "names made by code": foreign(
        "sklearn.OneHotEncoder",
        "parameters",
        "feature_name_combiner",
        {"$": "type", "name": "str"},
    ),
    "many processes": foreign("sklearn.ColumnTransformer", "parameters", "n_jobs", 10**6),
    "a model as a step": foreign(
        "sklearn.Pipeline", "parameters", "steps", [{"$": "tuple", "items": ["a", "b"]}]
    ),
    "no steps": foreign("sklearn.Pipeline", "parameters", "steps", []),
    "a fitted ensemble": foreign(
        "sklearn.ExtraTreesRegressor", "state", "estimators_", [], make=regressor
    ),
    "a format of names": (
        dated,
        lambda c: c.put(wrapper_of(c), "parameters", "rename_columns", "{:>999999999}"),
    ),
    "a path as time zone": foreign(
        "skrub.ToDatetime", "state", "output_time_zone_", "dateutil//etc/passwd", make=dated
    ),
    "a path in a dtype": foreign(
        "skrub.ToDatetime",
        "state",
        "output_dtype_",
        "datetime64[ns, dateutil//etc/passwd]",
        make=dated,
    ),
    "the name of a dtype": foreign(
        "skrub.ToDatetime", "state", "output_dtype_", "float32", make=dated
    ),
    "a type as a format": foreign(
        "skrub.ToDatetime", "state", "format_", {"$": "type", "name": "str"}, make=dated
    ),
    "a long format": foreign("skrub.ToDatetime", "parameters", "format", "%Y" * 99, make=dated),
    "a path behind UTC": foreign(
        "skrub.ToDatetime", "state", "output_time_zone_", "UTC+02:00/../x", make=dated
    ),
    "times of floats": field(
        L, "classes_", {"$": "times", "dtype": "datetime64[us]", "as": [1, 2]}
    ),
    "times of another type": field(
        L, "classes_", {"$": "times", "dtype": "float64", "as": {"$": "array", "part": 1}}
    ),
    "a part of a date": foreign(
        "skrub.DatetimeEncoder", "state", "extracted_features_", ["__class__"], make=dated
    ),
}


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Each model's file, written once."""
    folder, known = tmp_path_factory.mktemp("originals"), {}

    def of(make):
        if make not in known:
            known[make] = save(make(), folder / f"{make.__name__}.kpp")
        return known[make]

    return of


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_content(name, originals, files, tmp_path):
    make, change = HOSTILE[name]
    content = Content(*files.unpack(originals(make)))
    forged = files.forge(tmp_path / "same.kpp", content.document, content.arrays)
    load(forged)  # unchanged, it is a model
    change(content)
    files.forge(forged, content.document, content.arrays)
    with pytest.raises(FileFormatError, match=r"same\.kpp"):
        load(forged)


def test_leaves_that_do_not_belong_to_the_coefficients(originals, files, tmp_path):
    content = Content(*files.unpack(originals(regressor)))
    k = content.fields(L)["leaf_values"][0]["part"] - 1
    content.arrays[k][0, 0] += 0.01
    files.forge(tmp_path / "m.kpp", content.document, content.arrays)
    with pytest.raises(FileFormatError, match="values of the leaves are not those"):
        load(tmp_path / "m.kpp")


def test_scores_are_those_of_the_file(originals, files, tmp_path):
    """One bit off, as on a machine that rounds otherwise: the file counts, not this machine."""
    content = Content(*files.unpack(originals(regressor)))
    k = content.fields(L)["leaf_values"][0]["part"] - 1
    content.arrays[k] = np.nextafter(content.arrays[k], np.inf)
    loaded = load(files.forge(tmp_path / "m.kpp", content.document, content.arrays))
    (block,) = loaded.additive_.blocks
    values = block.node_values
    assert (values[:, block.forest.is_leaf] == content.arrays[k]).all()
    X, _ = numbers()
    leaves = block.forest.apply(X)
    expected = np.zeros(len(X))
    for tree in range(block.forest.n_trees):
        expected += values[0, leaves[:, tree]]
    assert (loaded.predict(X) == expected + loaded.intercept_).all()


def test_scores_that_are_not_finite(originals, files, tmp_path):
    forest = Forest.from_model(ExtraTreesRegressor(3, random_state=0).fit(*numbers()))
    values = np.full((1, forest.n_nodes), 1e308)
    block = ScoreBlock("", forest, values, node_rows=np.ones(forest.n_nodes, int))
    huge = AdditiveForest((block,), np.zeros(1))
    with pytest.raises(FileFormatError, match="scores must be finite"):
        load(save(huge, tmp_path / "m.kpp"))


def test_values_nested_too_deep(originals, files, tmp_path):
    content = Content(*files.unpack(originals(regressor)))
    value = 1
    for _ in range(80):
        value = [value]
    content.fields(L)["parameters"]["items"].append(["scoring", value])
    files.forge(tmp_path / "m.kpp", content.document, content.arrays)
    with pytest.raises(FileFormatError, match="nested"):
        load(tmp_path / "m.kpp")


def test_texts_that_would_take_much_room(originals, files, tmp_path):
    content = Content(*files.unpack(originals(regressor)))
    texts = {"$": "texts", "shape": [20_001], "items": ["a" * 20_000, *[""] * 20_000]}
    content.put(L, "parameters", "scoring", texts)
    files.forge(tmp_path / "m.kpp", content.document, content.arrays)
    with pytest.raises(FileFormatError, match="texts take far more room"):
        load(tmp_path / "m.kpp")


def test_a_forest_cannot_have_a_cycle():
    # Files do not hold parents and children at all; whoever makes a Forest by hand is refused.
    forest = Forest.from_model(ExtraTreesRegressor(1, random_state=0).fit(*numbers()))
    arrays = {name: getattr(forest, name) for name in forest.__dataclass_fields__}
    left = forest.left.copy()
    left[left > 0] = 0
    with pytest.raises(ValueError, match="level by level"):
        Forest(**(arrays | {"left": left}))
