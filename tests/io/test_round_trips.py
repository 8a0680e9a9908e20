"""Everything that can be saved comes back, to the last bit."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor
from zoo import random_forest

import kpp
from kpp import Forest, KPPClassifier, KPPEmbedding, KPPRegressor
from kpp.forest import ObliqueForestClassifier, ObliqueForestRegressor
from kpp.io import describe, load, save

R, C = KPPRegressor, KPPClassifier
SEED = {"random_state": 0}
SMALL = {"n_estimators": 6, "random_state": 0}
FIXED = SMALL | {"alpha": 0.3}


def frame(n_rows=90, seed=1):
    """Numbers with gaps, and two categorical columns, one of numbers."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "size": rng.normal(size=n_rows),
            "colour": pd.Categorical(rng.choice(["red", "green", "blue", "é"], n_rows)),
            "grade": pd.Categorical(rng.choice([1, 2, 3], n_rows)),
        }
    )
    X.loc[::7, "size"] = np.nan
    X.loc[::11, "colour"] = np.nan
    y = X["size"].fillna(2.0) + (X["colour"] == "red") + 0.1 * rng.normal(size=n_rows)
    return X, y.to_numpy()


def numbers(n_rows=120):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.2 * rng.normal(size=n_rows)
    return X, y


def with_gaps():
    X, y = numbers()
    X[::5, 1] = np.nan
    return X, y


def classes(labels=(0, 1, 2), n_rows=120):
    X, y = numbers(n_rows)
    edges = np.quantile(y, np.linspace(0, 1, len(labels) + 1)[1:-1])
    return X, np.array(labels)[np.digitize(y, edges)]


def two_targets():
    X, y = numbers()
    return X, np.column_stack([y, X[:, 2] - y])


def given_forest(model=None):
    X, y = numbers()
    return (model or RandomForestRegressor(5, random_state=3)).fit(X[::2], y[::2])


MODELS = {
    "shared": lambda: R("extra-trees", **SMALL).fit(*numbers()),
    "random forest": lambda: R("random-forest", **FIXED).fit(*numbers()),
    "honest": lambda: R("extra-trees", regime="honest", **SMALL).fit(*numbers()),
    "centred": lambda: R("extra-trees", regime="honest", center="partition", **SMALL).fit(
        *numbers()
    ),
    "cross-fit": lambda: R("extra-trees", regime="cross-fit", cv=3, **SMALL).fit(*numbers()),
    "cross-validated": lambda: R("extra-trees", regime="cross-validated", cv=3, **SMALL).fit(
        *numbers()
    ),
    "cross-validated blend": lambda: C(regime="cross-validated", cv=3, **SMALL).fit(*classes()),
    "fixed": lambda: R(Forest.from_model(given_forest()), regime="fixed", **SEED).fit(*numbers()),
    "blocks": lambda: R([("a", "extra-trees"), ("b", "boosted")], combine="joint", **SMALL).fit(
        *numbers()
    ),
    "cross-fit blocks": lambda: C(
        [("a", "extra-trees"), ("b", "random-forest")], regime="cross-fit", cv=3, **FIXED
    ).fit(*classes()),
    "targets": lambda: R("extra-trees", **SMALL).fit(*two_targets()),
    "one column of targets": lambda: R("extra-trees", **FIXED).fit(
        numbers()[0], numbers()[1][:, None]
    ),
    "missing": lambda: R("random-forest", **SMALL).fit(*with_gaps()),
    "categories": lambda: R("boosted", **SMALL).fit(*frame()),
    "leaf coordinates": lambda: R("extra-trees", coordinates="leaf", **FIXED).fit(*numbers()),
    "leaf weights": lambda: R("extra-trees", leaf_weight=0.5, **FIXED).fit(*numbers()),
    "normalised by tree": lambda: R("extra-trees", normalize="tree", **FIXED).fit(*numbers()),
    "weighted": lambda: R("extra-trees", **SMALL).fit(*numbers(), sample_weight=np.arange(120) % 4),
    "no intercept": lambda: R("extra-trees", fit_intercept=False, **FIXED).fit(*numbers()),
    "stumps": lambda: R(ExtraTreesRegressor(4, max_depth=1), **SEED).fit(*numbers()),
    "roots": lambda: R(ExtraTreesRegressor(4, max_leaf_nodes=2), **FIXED).fit(
        np.ones((20, 2)), np.arange(20.0)
    ),
    "roots as leaves": lambda: R(
        ExtraTreesRegressor(4), coordinates="leaf", fit_intercept=False, **FIXED
    ).fit(np.ones((20, 2)), np.arange(20.0)),
    "bagging": lambda: R(
        BaggingRegressor(DecisionTreeRegressor(max_depth=3), 5, random_state=0), **FIXED
    ).fit(*numbers()),
    "adaptive boosting": lambda: R(
        AdaBoostRegressor(DecisionTreeRegressor(max_depth=3), n_estimators=5), **FIXED
    ).fit(*numbers()),
    "boosting": lambda: R(GradientBoostingRegressor(n_estimators=5), **FIXED).fit(*numbers()),
    "interactions": lambda: R(
        HistGradientBoostingRegressor(max_iter=4, interaction_cst=[{0, 1}, {2, 3}]), **FIXED
    ).fit(*numbers()),
    "isolation": lambda: KPPEmbedding(IsolationForest(n_estimators=5), **SEED).fit(*numbers()),
    "own folds": lambda: R("extra-trees", cv=KFold(3, shuffle=True, random_state=1), **SMALL).fit(
        *numbers()
    ),
    "groups": lambda: R("extra-trees", cv=GroupKFold(3), **SMALL).fit(
        *numbers(), groups=np.arange(120) % 7
    ),
    "listed folds": lambda: R(
        "extra-trees",
        cv=[(np.arange(60), np.arange(60, 120)), (np.arange(60, 120), np.arange(60))],
        **SMALL,
    ).fit(*numbers()),
    "alphas": lambda: R("extra-trees", alphas=[0.1, np.float64(1.0)], scoring="r2", **SMALL).fit(
        *numbers()
    ),
    "two classes": lambda: C("extra-trees", **SMALL).fit(*classes((0, 1))),
    "texts": lambda: C("extra-trees", **SMALL).fit(*classes(("no", "perhaps", "yes, π"))),
    "objects": lambda: C("extra-trees", **FIXED).fit(
        classes()[0], np.array(["a", "b", "c"], dtype=object)[classes()[1]]
    ),
    "truth": lambda: C("extra-trees", **FIXED).fit(*classes((False, True))),
    "balanced": lambda: C("extra-trees", regime="honest", class_weight="balanced", **SMALL).fit(
        *classes()
    ),
    "class weights": lambda: C("extra-trees", class_weight={0: 1.0, 1: 2.0, 2: 0.5}, **FIXED).fit(
        *classes()
    ),
    "rare class": lambda: C(
        "extra-trees", regime="cross-fit", cv=KFold(4), **(SMALL | {"n_estimators": 8})
    ).fit(classes()[0], np.where(np.arange(120) < 9, 3, classes()[1])),
    "stratified": lambda: C(
        RandomForestClassifier(5, class_weight={0: 1, 1: 2, 2: 3}), cv=StratifiedKFold(3), **SEED
    ).fit(*classes()),
    "embedding": lambda: KPPEmbedding(**SMALL).fit(*numbers()),
    "embedding of frames": lambda: KPPEmbedding("boosted", **SMALL).fit(*frame()),
    "embedding without y": lambda: KPPEmbedding(**SMALL).fit(numbers()[0]),
    "embedding of blocks": lambda: KPPEmbedding(
        [("a", "extra-trees"), ("b", RandomTreesEmbedding(3, random_state=0))], **SMALL
    ).fit(*numbers()),
    "collapsed": lambda: C("extra-trees", **FIXED).fit(*classes()).collapse(),
    "collapsed categories": lambda: R("boosted", **FIXED).fit(*frame()).collapse(),
    "forest": lambda: Forest.from_model(ExtraTreesClassifier(4, random_state=0).fit(*classes())),
    "strange forest": lambda: random_forest(3),
    "oblique forest": lambda: random_forest(2),
    "oblique": lambda: R(
        ObliqueForestRegressor(6, tree=ExtraTreeRegressor(max_depth=4), rotated=0.5), **SEED
    ).fit(*numbers()),
    "oblique blocks": lambda: C(
        [("a", ObliqueForestClassifier(4, block_size=3)), ("b", "extra-trees")], **FIXED
    ).fit(*classes()),
    "collapsed oblique": lambda: R(ObliqueForestRegressor(3), **FIXED).fit(*numbers()).collapse(),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_bit_comes_back(name, again, differ):
    model = MODELS[name]()
    assert differ(model, again(model)) == []


def test_node_weights_that_were_given(again, differ):
    X, y = numbers()
    forest = Forest.from_model(given_forest())
    weight = np.where(forest.is_leaf, 0.0, np.arange(forest.n_nodes) + 1.0)
    model = R(forest, regime="fixed", node_weight=weight, alpha=1.0).fit(X, y)
    loaded = again(model)
    assert differ(model, loaded) == []
    assert loaded.forest is loaded.forest_ is loaded.map_.forest  # one object, as before


@pytest.mark.parametrize("cls", [KPPRegressor, KPPEmbedding])
def test_a_frozen_estimator_comes_back_as_its_forest(cls, again, differ):
    X, y = numbers()
    frozen = FrozenEstimator(given_forest())
    keywords = {} if cls is KPPEmbedding else {"regime": "fixed", "alpha": 0.5}
    for forest in (frozen, [("a", frozen), ("b", Forest.from_model(given_forest()))]):
        model = cls(forest, **keywords).fit(X, y)
        loaded = again(model)
        given = loaded.forest if cls is KPPEmbedding or isinstance(forest, list) else None
        assert isinstance(given[0][1] if isinstance(given, list) else loaded.forest, Forest)
        model.forest = loaded.forest = None
        assert differ(model, loaded) == []


def test_a_loaded_model_can_be_fitted_again(again):
    X, y = numbers()
    model = R(FrozenEstimator(given_forest()), regime="fixed", alpha=0.5).fit(X, y)
    loaded = clone(again(model)).fit(X, y)
    assert (loaded.predict(X) == model.predict(X)).all()


@pytest.mark.parametrize(
    ("model", "rows"),
    [
        (lambda: C("extra-trees", **SMALL).fit(*classes()), classes),
        (
            lambda: C("extra-trees", regime="honest", **SMALL).fit(*classes((0, 1))),
            lambda: classes((0, 1)),
        ),
        (lambda: R("extra-trees", regime="cross-fit", cv=3, **SMALL).fit(*numbers()), numbers),
        (lambda: R("boosted", **SMALL).fit(*frame()), frame),
        (lambda: R("random-forest", **SMALL).fit(*with_gaps()), with_gaps),
    ],
    ids=["classes", "honest", "cross-fit", "categories", "missing"],
)
@pytest.mark.filterwarnings("ignore:These rows were called test rows:UserWarning")
def test_whatever_is_asked_of_it(model, rows, again, differ):
    model, (X, y) = model(), rows()
    loaded = again(model)
    some = X[:25]
    for ask in (
        lambda m: m.predict(X),
        lambda m: m.predict_proba(X) if isinstance(m, C) else m.score(X, y),
        lambda m: m.apply(X),
        lambda m: m.feature_importances_,
        lambda m: m.collapse().scores(X),
        lambda m: kpp.kernel(m, some),
        lambda m: kpp.path_distance(m, some, X),
        lambda m: kpp.half_forest_discrepancy(kpp.geometry.named_blocks(m.map_)[0][1], some),
        lambda m: kpp.explain(m, some),
        lambda m: kpp.explain(m, some, level="node"),
        lambda m: str(kpp.explain_rules(m, some[:1])),
        lambda m: kpp.explain_distance(m, X[:1], X[1:2]),
        lambda m: kpp.explain_training_rows(m, some[:1]),
        lambda m: kpp.certify(m, some, epsilon=None if isinstance(m, C) else 0.5),
        lambda m: kpp.robustness_curve(m, some, y[:25]),
        lambda m: kpp.partition_oracles(m, X, y),
        lambda m: kpp.risk_bounds(m, X, y).to_frame().to_dict(),
        lambda m: kpp.diagnose(m, X, y).to_dict(),
        lambda m: m.map_.gram_matvec(np.linspace(-1, 1, m.map_.shape[0])),
        lambda m: clone(m).get_params(),
        repr,
    ):
        assert differ(ask(model), ask(loaded)) == []


def test_certificates_of_raw_inputs(again, differ):
    X, y = classes((0, 1))
    model = C("extra-trees", **FIXED).fit(X, y)
    ask = lambda m: kpp.certify_raw(m, X[:10])  # noqa: E731
    assert differ(ask(model), ask(again(model))) == []


def test_results_do_not_depend_on_the_compression(tmp_path, differ):
    model = MODELS["texts"]()
    files = [save(model, tmp_path / f"{c}.kpp", compression=c) for c in (0, 1, 9)]
    assert all(differ(model, load(file)) == [] for file in files)
    sizes = [file.stat().st_size for file in files]
    assert sizes == sorted(sizes, reverse=True)


def test_a_large_constant_table_is_still_read(tmp_path, differ):
    # 3 million zeros shrink a thousandfold, which a reader would take for a bomb.
    forest = Forest.from_trees(
        [kpp.forest.Tree(left=[-1], right=[-1], feature=[0], threshold=[0.0])] * 30, n_features=1
    )
    model = R(forest, regime="fixed", node_weight="uniform", alpha=1.0)
    model.fit(np.zeros((600_000, 1)), np.zeros(600_000))
    file = save(model, tmp_path / "constant.kpp")
    assert describe(file).n_bytes_read <= max(1 << 24, 100 * file.stat().st_size)
    assert differ(model, load(file)) == []


def test_the_output_that_was_asked_for(again):
    X, y = numbers()
    model = KPPEmbedding(**SMALL).fit(X, y).set_output(transform="default")
    assert again(model)._sklearn_output_config == {"transform": "default"}


def test_metadata_and_versions(tmp_path):
    metadata = {"target": "y", "scores": [0.1, None, True], "nested": {"a": {"b": []}}}
    file = save(random_forest(0), tmp_path / "f.kpp", metadata=metadata)
    summary = describe(file)
    assert summary.metadata == metadata
    assert summary.kind == "kpp.Forest"
    assert summary.libraries["kpp"] == kpp.__version__
    assert summary.n_bytes == file.stat().st_size
