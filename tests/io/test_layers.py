"""The linear layers of a model in a file, and what the bare ensembles of its forests predict."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

from kpp import Forest, KPPClassifier, KPPRegressor
from kpp.geometry import forest_blocks
from kpp.io import FileFormatError, load, save

R, C = KPPRegressor, KPPClassifier
SMALL = {"n_estimators": 6, "random_state": 0, "cv": 3}
BLOCKS = [("a", "extra-trees"), ("b", "boosted")]


def numbers():
    return make_friedman1(90, 5, noise=1.0, random_state=0)


def classes():
    X, y = numbers()
    return X, np.digitize(y, [12, 16])


def two_targets():
    X, y = numbers()
    return X, np.column_stack([y, X[:, 2] - y])


def fixed_forest():
    X, y = numbers()
    return Forest.from_model(RandomForestRegressor(5, random_state=3).fit(X[::2], y[::2]))


def shared():
    return R("extra-trees", **SMALL).fit(*numbers())


def boosted():
    """Fold-grown, with weights that are estimated on the rows of each fold."""
    return R("boosted", **SMALL).fit(*numbers())


def centred():
    return R("extra-trees", regime="honest", center="partition", **SMALL).fit(*numbers())


def cross_fit():
    return R(BLOCKS, combine="joint", regime="cross-fit", **SMALL).fit(*numbers())


def blended():
    return R("blend", alpha=0.3, **SMALL).fit(*numbers())


MODELS = {
    "blend": blended,
    "blend of classes": lambda: C("blend", alpha=1e-3, **SMALL).fit(*classes()),
    "ladders": lambda: R("extra-trees", main_effects="ladders", **SMALL).fit(*numbers()),
    "linear blend": lambda: C("blend", main_effects="linear", alpha=1e-3, **SMALL).fit(*classes()),
    "linear": lambda: R("boosted", main_effects="linear", **SMALL).fit(*numbers()),
    "linear, by fold": lambda: R(
        "extra-trees", main_effects="linear", regime="cross-fit", **SMALL
    ).fit(*numbers()),
    "linear, centred": lambda: R(
        "extra-trees", main_effects="linear", regime="honest", center="partition", **SMALL
    ).fit(*numbers()),
    "shared": shared,
    "boosted": boosted,
    "centred": centred,
    "cross-fit": cross_fit,
    "blocks": lambda: R(BLOCKS, combine="joint", **SMALL).fit(*numbers()),
    "by tree": lambda: R("boosted", normalize="tree", **SMALL).fit(*numbers()),
    "targets": lambda: R("extra-trees", **SMALL).fit(*two_targets()),
    "classes": lambda: C("boosted", **SMALL).fit(*classes()),
    "given": lambda: R("extra-trees", alpha=1.0, **SMALL).fit(*numbers()),
    "frozen": lambda: R("extra-trees", alpha_selection="frozen", alphas=[0.1, 1.0], **SMALL).fit(
        *numbers()
    ),
    "honest": lambda: C("extra-trees", regime="honest", **SMALL).fit(*classes()),
    "centred classes": lambda: C("extra-trees", regime="honest", center="partition", **SMALL).fit(
        *classes()
    ),
    "one forest a fold": lambda: C("extra-trees", regime="cross-fit", **SMALL).fit(*classes()),
    "fixed": lambda: R(fixed_forest(), regime="fixed", cv=3).fit(*numbers()),
    "weights": lambda: R("boosted", **SMALL).fit(*numbers(), sample_weight=np.arange(90) % 4),
}


def layers(model):
    return [*model.fits_, *(model.fold_fits_ or [])]


@pytest.mark.parametrize("name", MODELS)
def test_every_layer_comes_back(name, again, differ):
    model = MODELS[name]()
    loaded = again(model)
    assert len(model.fits_) == len(loaded.fits_)
    has_none = name in ("given", "blend", "blend of classes", "linear blend")
    assert (model.fold_fits_ is None) == (loaded.fold_fits_ is None) == has_none
    for fit, read in zip(model.bare_fits_ or [], loaded.bare_fits_ or [], strict=True):
        assert differ(fit, read) == []
    X = numbers()[0]
    for fit, read in zip(layers(model), layers(loaded), strict=True):
        assert differ(fit, read) == []
        assert differ(fit.map, read.map) == []
        assert differ(fit.node_coef, read.node_coef) == []
        mine, theirs = (layer.map.on(X) for layer in (fit, read))
        assert fit.scores(mine).tobytes() == read.scores(theirs).tobytes()


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_makes_the_same_file(name, tmp_path):
    first = save(MODELS[name](), tmp_path / "first.kpp")
    second = save(load(first), tmp_path / "second.kpp")
    assert first.read_bytes() == second.read_bytes()


def test_layers_on_forests_of_their_own_are_not_kept(again, differ):
    model = R(alpha_selection="regrown", **SMALL).fit(*numbers())
    loaded = again(model)
    assert model.fold_fits_ is not None
    assert loaded.fold_fits_ is None
    assert loaded.alpha_selection_ == "regrown"
    model.fold_fits_ = model.fold_predictors_ = None
    assert differ(model, loaded) == []


def test_nothing_of_the_size_of_the_nodes_is_kept_twice(again, tmp_path, files):
    model = shared()
    loaded = again(model)
    assert np.shares_memory(loaded.fits_[0].node_coef, loaded.node_coef_)
    assert np.shares_memory(loaded.fits_[0].dual, loaded.dual_coef_)
    blocks = dict(forest_blocks(loaded.map_))
    assert all(fit.part.whole is loaded.map_ for fit in layers(loaded))
    crossed = again(cross_fit())
    blocks = [block for _, block in forest_blocks(crossed.map_)]
    for fit in layers(crossed):
        assert all(
            any(own is block for block in blocks) for _, own in forest_blocks(fit.part.whole)
        )
    # Beside duals, a file of folds that share the weights of the model has no large array more.
    document, arrays = files.unpack(save(model, tmp_path / "m.kpp"))
    fields = document["objects"][-1]["fields"]
    parts = [v["part"] for f in ("fits", "fold_fits") for _, v in fields[f]["items"] if part(v)]
    assert sum(arrays[k - 1].size for k in parts) < 3 * 90


def part(value):
    return isinstance(value, dict) and value["$"] == "array"


# What bare ensembles predict.


@pytest.mark.parametrize(
    "grow",
    [
        lambda: ExtraTreesClassifier(4, random_state=0).fit(*classes()),
        lambda: RandomForestRegressor(4, random_state=0).fit(*two_targets()),
        lambda: GradientBoostingClassifier(n_estimators=3).fit(*classes()),
        lambda: GradientBoostingClassifier(n_estimators=3).fit(numbers()[0], numbers()[1] > 14),
        lambda: HistGradientBoostingRegressor(max_iter=4).fit(*numbers()),
    ],
    ids=["shares", "means", "a score for each class", "two classes", "boosted"],
)
def test_the_bare_ensemble_comes_back(grow, again, differ):
    forest = Forest.from_model(grow())
    loaded = again(forest)
    X = numbers()[0]
    assert forest.bare is not None
    assert differ(forest, loaded) == []
    assert loaded.bare_scores(X).tobytes() == forest.bare_scores(X).tobytes()


def test_collapsed_forests_come_back_whole(again, differ):
    collapsed = C(**SMALL).fit(*classes()).collapse()
    loaded = again(collapsed)
    assert differ(collapsed, loaded) == []
    assert loaded.outputs == (0, 1, 2)
    assert loaded.blocks[0].contribution.tobytes() == collapsed.blocks[0].contribution.tobytes()


def test_scores_of_several_forests_are_saved_as_one(again):
    model = R(BLOCKS, **SMALL).fit(*numbers())
    X = numbers()[0]
    assert (again(model.additive_).scores(X) == model.collapse().scores(X)).all()


# Wrong content.


def booster():
    return Forest.from_model(GradientBoostingClassifier(n_estimators=3).fit(*classes()))


def averaged():
    return Forest.from_model(ExtraTreesClassifier(4, random_state=0).fit(*classes()))


def collapsed():
    return C(**SMALL).fit(*classes()).collapse()


class Content:
    """A file's document and arrays; the fields are those of the model, the last object."""

    def __init__(self, document, arrays):
        self.document, self.arrays = document, arrays
        self.fields = document["objects"][-1]["fields"]

    def of(self, path):
        """The holder of a value, and its key there: names of fields, or numbers in lists."""
        holder, key = self.fields, path[0]
        for name in path[1:]:
            value = holder[key]
            if isinstance(value, list) or name == "items":
                holder, key = value, name
            else:
                holder, key = next(pair for pair in value["items"] if pair[0] == name), 1
        return holder, key

    def get(self, path):
        holder, key = self.of(path)
        return holder[key]


def entry(k, value):
    def change(array):
        array.ravel()[k] = value
        return array

    return change


def array(make, path, change, message):
    """Change an array."""

    def apply(content):
        k = content.get(path)["part"] - 1
        content.arrays[k] = change(content.arrays[k].copy())

    return make, apply, message


def value(make, path, new, message):
    """Change another value."""

    def apply(content):
        holder, key = content.of(path)
        holder[key] = new(holder[key]) if callable(new) else new

    return make, apply, message


FITS, FOLDS, OF_FOLDS = ("fits",), ("fold_fits",), ("fold_predictors",)
WEIGHTS = ("fold_fits", "weights", 0)
HOSTILE = {
    "another intercept": array(shared, ("fits", "intercept"), entry(0, 9.0), "not those of"),
    "no intercept": array(shared, ("fits", "intercept"), entry(0, np.nan), "must be finite"),
    "intercepts": array(shared, ("fits", "intercept"), lambda a: a.ravel(), "of shape"),
    "an alpha of 0": array(shared, ("fits", "alpha"), entry(0, 0.0), "must be positive"),
    "no alpha": array(shared, ("fits", "alpha"), lambda a: a[:0], "have alphas"),
    "more alphas": array(shared, ("fits", "alpha"), lambda a: np.append(a, a), "of shape"),
    "alphas of two dimensions": array(shared, ("fits", "alpha"), lambda a: a[None], "alphas"),
    "another share": array(shared, ("fits", "share"), entry(0, 0.5), "not those of the model"),
    "a negative share": array(shared, ("fits", "share"), entry(0, -1.0), "at least 0"),
    "other duals": array(shared, ("dual_coef_",), lambda a: 1.001 * a, "not those of the model"),
    "another order": value(shared, ("fits", "dual"), "K", "duals of the only layer"),
    "duals that are no array": value(shared, ("fits", "dual"), 3, "must be float64"),
    "other rows": value(shared, ("fits", "rows"), "folds", "a layer for each fold"),
    "strange rows": value(shared, ("fits", "rows"), [0], "on all rows, or"),
    "no products": value(shared, ("fits", "n_iter"), [], "products of layers"),
    "negative products": value(shared, ("fits", "n_iter"), [-1], "products of layers"),
    "no blocks": value(shared, ("fits", "blocks"), [], "needs its blocks"),
    "blocks of a wrong type": value(shared, ("fits", "blocks"), 1, "needs its blocks"),
    "a block of a wrong type": value(shared, ("fits", "blocks"), [7], "names and numbers"),
    "a layer of groups": value(shared, ("fits", "tree_counts"), [[6]], "groups of trees"),
    "fits of a wrong type": value(shared, FITS, 1, "by name"),
    "fits as a list": value(shared, FITS, lambda old: [old], "by name"),
    "a field too few": value(shared, ("fits", "items"), lambda old: old[1:], "missing fields"),
    "a center of nothing": value(
        shared, ("center",), {"$": "dict", "items": [["node_coef", 1], ["intercept", 1]]}, "center"
    ),
    "only folds": value(shared, FITS, None, "linear layers are missing"),
    "another selection": value(shared, ("alpha_selection_",), "best", "must be known"),
    # Folds.
    "a group without trees": value(shared, ("fold_fits", "tree_counts"), [[0, 3, 3]], "trees of"),
    "a negative group": value(shared, ("fold_fits", "tree_counts"), [[-1, 4, 3]], "trees of"),
    "too many trees": value(shared, ("fold_fits", "tree_counts"), [[6, 6, 6]], "all trees"),
    "trees left": value(shared, ("fold_fits", "tree_counts"), [[2, 2, 1]], "all trees"),
    "groups": value(shared, ("fold_fits", "tree_counts"), [[3, 3]], "a group for each"),
    "groups of other blocks": value(
        shared, ("fold_fits", "tree_counts"), [[2, 2, 2]] * 2, "every block"
    ),
    "all trees": value(shared, ("fold_fits", "tree_counts"), None, "without groups"),
    "duals of folds": array(shared, ("fold_fits", "dual"), lambda a: a[1:], "of shape"),
    "infinite duals": array(shared, ("fold_fits", "dual"), entry(3, np.inf), "must be finite"),
    "duals of single precision": array(
        shared, ("fold_fits", "dual"), lambda a: a.astype(np.float32), "must be float64"
    ),
    "all rows in each fold": value(shared, ("fold_fits", "rows"), "all", "of shape"),
    "no folds": value(shared, ("folds",), None, "a layer for each fold"),
    # Own weights.
    "a negative weight": array(boosted, (*WEIGHTS, "node"), entry(0, -1.0), "at least 0"),
    "an infinite weight": array(boosted, (*WEIGHTS, "node"), entry(0, np.inf), "finite"),
    "weights of other trees": array(boosted, (*WEIGHTS, "node"), lambda a: a[1:], "of shape"),
    "masses of other trees": array(boosted, (*WEIGHTS, "tree_mass"), lambda a: a[1:], "of shape"),
    "a mass of 0": array(boosted, (*WEIGHTS, "forest_mass"), entry(0, 0.0), "must be positive"),
    "a tiny mass": array(boosted, (*WEIGHTS, "forest_mass"), entry(0, 5e-324), "must be finite"),
    "a mass too few": array(boosted, (*WEIGHTS, "forest_mass"), lambda a: a[1:], "of shape"),
    "edges": value(boosted, (*WEIGHTS, "edge"), [1.0], "must be float64"),
    "weights of a wrong type": value(boosted, WEIGHTS, 1, "by name"),
    "weights of no block": value(boosted, ("fold_fits", "weights"), [], "every block"),
    # A center.
    "another center": array(
        centred, ("center", "node_coef"), lambda a: a + 0.1, "not those of the model"
    ),
    "a center of other nodes": array(
        centred, ("center", "node_coef"), lambda a: a[:, 1:], "of shape"
    ),
    "a center that is no number": array(
        centred, ("center", "intercept"), entry(0, np.nan), "must be finite"
    ),
    "no center": value(centred, ("center",), None, "not those of the model"),
    # Several layers.
    "duals of another layer": array(
        cross_fit, ("fits", "dual"), lambda a: a[::-1].copy(), "not those of the model"
    ),
    "blocks exchanged": value(
        cross_fit, ("fits", "blocks"), lambda old: old[::-1], "not those of the model"
    ),
    "a block out of range": value(
        cross_fit, ("fits", "blocks", 0, "items"), [["a", "b"], [0, 99]], "a block must be"
    ),
    "a negative block": value(
        cross_fit, ("fits", "blocks", 0, "items"), [["a", "b"], [0, -1]], "a block must be"
    ),
    "blocks of one name": value(
        cross_fit, ("fits", "blocks", 0, "items"), [["a", "a"], [0, 1]], "names must differ"
    ),
    "names of a wrong type": value(
        cross_fit, ("fits", "blocks", 0, "items"), [[1, 2], [0, 1]], "needs a name"
    ),
    "blocks without names": value(
        cross_fit, ("fits", "blocks", 0, "items"), [None, [0, 1]], "need names"
    ),
    "shares": array(cross_fit, ("fits", "share"), lambda a: 2 * a, "not those of the model"),
    # Blends.
    "weights of layers": array(blended, ("fits", "share"), lambda a: 2 * a, "not those of the"),
    "weights of bare ensembles": array(
        blended, ("blend", "share"), lambda a: 2 * a + 1, "not those of the model"
    ),
    "a negative weight of a blend": array(
        blended, ("blend", "share"), lambda a: -a - 1, "at least"
    ),
    "weights of other blends": array(blended, ("blend", "share"), lambda a: a[1:], "of shape"),
    "a bare block out of range": value(blended, ("blend", "bare"), [0, 4], "a block must be"),
    "a bare block twice": value(blended, ("blend", "bare"), [0, 0], "stands twice"),
    "bare linear terms": value(blended, ("blend", "bare"), [0, 3], "without a forest"),
    "a bare ladder": value(blended, ("blend", "bare"), [0, 2], "predicts something else"),
    "bare blocks of a wrong type": value(blended, ("blend", "bare"), "all", "must be a list"),
    "a score of a wrong type": value(blended, ("blend", "score"), "good", "must be a number"),
    "a blend of a wrong type": value(blended, ("blend",), 1, "by name"),
    "no blend": value(blended, ("blend",), None, "only a blend"),
    "a penalty for all blocks": value(blended, ("alpha_",), 1.0, "by block"),
    # Predictors of folds.
    "a target of folds": array(shared, (*OF_FOLDS, "target"), lambda a: a[1:], "of shape"),
    "an infinite target": array(shared, (*OF_FOLDS, "target"), entry(0, np.inf), "must be finite"),
    "constants of folds": array(shared, (*OF_FOLDS, "constant"), lambda a: a[1:], "of shape"),
    "layers of another kind": value(blended, (*OF_FOLDS, "layers"), [], "of another kind"),
    "layers of one": value(shared, (*OF_FOLDS, "bare"), [None], "must be lists"),
    "predictors of a wrong type": value(shared, OF_FOLDS, 1, "by name"),
    "bare ensembles of no fold": value(blended, (*OF_FOLDS, "bare"), lambda a: a[1:], "all bare"),
    "a block of folds": value(blended, (*OF_FOLDS, "layers", 0, "block"), 99, "a block must be"),
    "layers of another block": value(
        blended, (*OF_FOLDS, "layers", 0, "block"), lambda k: k + 1, "must hold all trees"
    ),
    "a negative weight of folds": array(
        blended, (*OF_FOLDS, "bare", 0, "share"), lambda a: a - 9, "at least"
    ),
    "an initial value": array(blended, (*OF_FOLDS, "bare", 0, "base"), lambda a: a[:0], "of shape"),
    "trees of folds": value(blended, (*OF_FOLDS, "bare", 0, "trees"), [0, 999], "trees of a group"),
    "no trees of folds": value(
        blended, (*OF_FOLDS, "bare", 0, "trees"), [2, 2], "trees of a group"
    ),
    "trees that are no group": value(
        blended, (*OF_FOLDS, "bare", 0, "trees"), [2], "from one tree"
    ),
    "bare terms of folds": value(blended, (*OF_FOLDS, "bare", 0, "block"), 3, "without a forest"),
    "a bare ladder of folds": value(blended, (*OF_FOLDS, "bare", 0, "block"), 2, "of other scores"),
    # Bare scores.
    "a base of infinity": array(booster, ("bare", "base"), entry(0, np.inf), "must be finite"),
    "no base": array(booster, ("bare", "base"), lambda a: a[:0], "need a base"),
    "a value of infinity": array(booster, ("bare", "values"), entry(0, np.inf), "must be finite"),
    "huge values": array(booster, ("bare", "values"), lambda a: a + 1e308, "scores must be finite"),
    "values of others": array(booster, ("bare", "values"), lambda a: a[:, 1:], "of shape"),
    "a score out of range": array(booster, ("bare", "tree_score"), entry(0, 3), "from 0 to 2"),
    "a negative score": array(booster, ("bare", "tree_score"), entry(0, -1), "from 0 to 2"),
    "trees without scores": array(booster, ("bare", "tree_score"), lambda a: a[1:], "shape of"),
    "a mean of boosters": value(booster, ("bare", "combines"), "mean", "only trees that are added"),
    "another combination": value(booster, ("bare", "combines"), "product", "averaged or added"),
    "classes of bare scores": array(booster, ("bare", "classes"), lambda a: a[1:], "differ"),
    "a class twice": array(booster, ("bare", "classes"), entry(0, 1), "stands twice"),
    "a sum of shares": value(averaged, ("bare", "combines"), "sum", "without values"),
    "a base of others": array(averaged, ("bare", "base"), lambda a: a[1:], "differ"),
    "shares of others": array(
        averaged, ("statistics", "class_share"), lambda a: a[:, 1:].copy(), "of shape"
    ),
    "bare scores of a wrong type": value(averaged, ("bare",), 1, "by name"),
    # Collapsed forests.
    "other coefficients": array(collapsed, ("coef",), lambda a: 1.001 * a, "not those of"),
    "coefficients of infinity": array(collapsed, ("coef",), entry(0, np.inf), "must be finite"),
    "coefficients of others": array(collapsed, ("coef",), lambda a: a[:, 1:], "of shape"),
    "another scale": array(collapsed, ("squared_scale",), lambda a: 2 * a, "not those of"),
    "a negative scale": array(collapsed, ("squared_scale",), entry(0, -1.0), "at least 0"),
    "no scale": value(collapsed, ("squared_scale",), None, "without coordinates"),
    "classes of others": array(collapsed, ("classes",), lambda a: a[1:], "scores and classes"),
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
def test_hostile_layers(name, originals, files, tmp_path):
    make, change, message = HOSTILE[name]
    content = Content(*files.unpack(originals(make)))
    change(content)
    path = files.forge(tmp_path / "m.kpp", content.document, content.arrays)
    with pytest.raises(FileFormatError, match=message):
        load(path)
