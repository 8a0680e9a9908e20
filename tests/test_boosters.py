"""LightGBM, XGBoost and CatBoost by name and as estimators: everything a model is asked for."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

import kpp
from kpp import Forest, KPPClassifier, KPPRegressor
from kpp.forest.boosters import LIBRARIES, library_of, seed_name
from kpp.forest.grow import grow_forest, named_forest, traits_of
from kpp.forest.importers import importer_of
from kpp.forest.layout import CATEGORICAL

pytestmark = pytest.mark.filterwarnings(
    "ignore:The best alpha lies on:sklearn.exceptions.ConvergenceWarning"
)
NAMES = list(LIBRARIES)


def estimator(name, classification=False, **parameters):
    """An estimator of a library as its users make one."""
    kind = LIBRARIES[name].load(classification=classification)
    return kind(**{LIBRARIES[name].rounds: 8, "learning_rate": 0.3} | parameters)


def table(n_rows=240, seed=0):
    """Numbers and strings, both with gaps; a target of them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n_rows),
            "ward": rng.choice(["north", "south", "east", "west"], n_rows),
            "size": rng.integers(1, 6, n_rows).astype(float),
        }
    )
    y = frame["age"] / 10 + 3.0 * frame["ward"].isin(["south", "west"]) + frame["size"]
    y += 0.5 * rng.normal(size=n_rows)
    for name in ("age", "ward"):
        frame.loc[rng.random(n_rows) < 0.1, name] = None
    return frame, y.to_numpy()


def numbers(n_rows=240, n_classes=0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    score = X[:, 0] + np.abs(X[:, 1]) + 0.3 * rng.normal(size=n_rows)
    if not n_classes:
        return X, score
    return X, np.array(["a", "b", "c"])[np.digitize(score, np.linspace(0, 2, n_classes + 1)[1:-1])]


@pytest.mark.parametrize("name", NAMES)
def test_everything_works_on_a_table_with_categories_and_gaps(name, tmp_path):
    frame, y = table()
    new, y_new = table(60, seed=1)
    model = KPPRegressor(name, n_estimators=10, random_state=0, cv=3).fit(frame, y)
    assert model.score(new, y_new) > 0.7
    splits = model.forest_.feature == 1
    assert splits.any()
    assert (model.forest_.split_kind[splits] == CATEGORICAL).all()
    # Each number of an explanation adds up to the prediction.
    answer = model.predict(new)
    attribution = kpp.explain(model, new)
    np.testing.assert_allclose(
        attribution.baseline + attribution.values.sum(axis=1), answer, rtol=1e-9
    )
    rules = kpp.explain_rules(model, new.iloc[:1])
    assert "ward" in str(rules)
    assert any(ward in str(rules) for ward in ("north", "south", "east", "west"))
    phi = model.map_.on(new).to_csr().toarray()
    squared = np.square(phi[0] - phi[1:]).sum(axis=1)
    np.testing.assert_allclose(kpp.path_distance(model, new)[0, 1:], squared, rtol=1e-9, atol=1e-12)
    parts = kpp.explain_distance(model, new.iloc[[0]], new.iloc[[1]])
    np.testing.assert_allclose(parts.by_variable.sum(), squared[0], rtol=1e-9)
    rows = kpp.explain_training_rows(model, new.iloc[[0]])
    total = rows.intercept + rows.all_contributions.sum()
    np.testing.assert_allclose(total, answer[0], rtol=1e-9)
    certificate = kpp.certify(model, new, epsilon=1.0)
    assert (certificate.radius >= 0).all()
    collapsed = kpp.collapse(model)
    np.testing.assert_array_equal(collapsed.scores(new).ravel(), answer)
    findings = kpp.diagnose(model, new, y_new)
    assert str(findings)
    page = tmp_path / "report.html"
    kpp.report(model, new, y_new, page)
    assert "ward" in page.read_text()
    kpp.save(model, tmp_path / "model.kpp")
    np.testing.assert_array_equal(kpp.load(tmp_path / "model.kpp").predict(new), answer)


@pytest.mark.parametrize("name", NAMES)
def test_raw_certificates_hold_also_where_categories_are_free(name):
    frame, y = table()
    new, _ = table(12, seed=1)
    model = KPPRegressor(name, n_estimators=6, random_state=0, alpha=1.0).fit(frame, y)
    rng = np.random.default_rng(0)
    for free in ((), (1,)):
        certificate = kpp.certify_raw(model, new, epsilon=1.5, scale="std", free_categories=free)
        answer = model.predict(new)
        # No point within a certified radius may change the answer by as much.
        for _ in range(40):
            moved = new.copy()
            step = certificate.radius * rng.choice([-1, 1], len(new)) * 0.999
            step = np.where(np.isfinite(step), step, 100.0)
            for j, column in ((0, "age"), (2, "size")):
                moved[column] = new[column] + step * certificate.scale[j] * rng.random(len(new))
            if free:
                moved["ward"] = rng.choice(
                    ["north", "south", "east", "west", "elsewhere"], len(new)
                )
                unmoved = certificate.radius <= 0
                moved[unmoved] = new[unmoved]
            change = np.abs(model.predict(moved) - answer)
            assert (change < 1.5).all()
        assert certificate.found.any()


@pytest.mark.parametrize("name", NAMES)
def test_bounds_of_an_honest_fit(name):
    frame, y = table(400)
    labels = np.where(y > np.median(y), "high", "low")
    model = KPPClassifier(name, n_estimators=5, regime="honest", random_state=0).fit(frame, labels)
    bounds = kpp.risk_bounds(model, frame, labels, independent_duplicates=True)
    assert any(bound.is_guarantee for bound in bounds.bounds)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_classes_that_are_words(name, n_classes):
    X, y = numbers(300, n_classes)
    new, y_new = numbers(200, n_classes, seed=1)
    model = KPPClassifier(name, n_estimators=8, random_state=0, cv=3).fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c"][:n_classes]
    assert log_loss(y_new, model.predict_proba(new)) < 0.6 * np.log(n_classes)


@pytest.mark.parametrize("name", NAMES)
def test_a_blend_of_several_and_its_bare_scores(name):
    X, y = numbers(200, 3)
    blocks = [("theirs", name), ("trees", "extra-trees")]
    model = KPPClassifier(blocks, n_estimators=6, random_state=0, cv=3).fit(X, y)
    assert len(model.bare_fits_) == 2  # the bare booster has a part in the blend
    new, y_new = numbers(200, 3, seed=1)
    assert model.score(new, y_new) > 0.6


@pytest.mark.parametrize("name", NAMES)
def test_a_frozen_estimator_in_the_fixed_regime(name):
    X, y = numbers()
    old, old_y = numbers(seed=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = estimator(name, **LIBRARIES[name].quiet).fit(old, old_y)
    model = KPPRegressor(FrozenEstimator(theirs), regime="fixed", random_state=0).fit(X, y)
    forest = Forest.from_model(theirs)
    np.testing.assert_array_equal(model.forest_.threshold, forest.threshold)
    np.testing.assert_allclose(
        forest.bare_scores(X).ravel(), theirs.predict(X), rtol=1e-5, atol=1e-5
    )
    assert kpp.risk_bounds(model, X, y, y_range=(-5.0, 8.0)).bounds


@pytest.mark.parametrize("name", NAMES)
def test_an_estimator_is_cloned_seeded_and_quiet(name, capfd):
    X, y = numbers(120)
    theirs = estimator(name)
    given = theirs.get_params()
    fits = [
        KPPRegressor(theirs, random_state=seed, alpha=1.0).fit(X, y).predict(X)
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert str(theirs.get_params()) == str(given)
    out, err = capfd.readouterr()
    assert out == err == ""


@pytest.mark.parametrize("name", NAMES)
def test_the_users_seed_rules_and_groups_differ(name):
    X, y = numbers(150)
    parameters = {"subsample": 0.5, "random_state": 3}
    if name == "lightgbm":
        parameters["subsample_freq"] = 1
    if name == "catboost":
        parameters = {"random_seed": 3, "bootstrap_type": "Bernoulli", "subsample": 0.5}
    theirs = estimator(name, **parameters)
    one, other = (
        KPPRegressor(theirs, random_state=seed, cv=3).fit(X, y).predict(X) for seed in (0, 0)
    )
    np.testing.assert_array_equal(one, other)
    assert seed_name(theirs) in parameters
    forests = [
        grow_forest(clone(theirs).set_params(**{seed_name(theirs): s}), X, y) for s in (1, 2)
    ]
    a, b = (forest.apply(X) for forest in forests)
    assert a.shape != b.shape or (a != b).any()


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_threads_changes_nothing(name):
    X, y = numbers(400)
    one, two = (
        KPPRegressor(name, n_estimators=5, random_state=0, n_jobs=n).fit(X, y).predict(X)
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("classification", [False, True])
def test_early_stopping_uses_the_fold_that_the_group_misses(name, classification):
    X, y = numbers(300, 3 * classification)
    stopping = "early_stopping_round" if name == "lightgbm" else "early_stopping_rounds"
    # A large rate soon overfits, so that the best round is an early one.
    theirs = estimator(
        name, classification, **{LIBRARIES[name].rounds: 60, stopping: 3, "learning_rate": 0.8}
    )
    kind = KPPClassifier if classification else KPPRegressor
    model = kind(theirs, random_state=0, cv=3).fit(X, y)
    most = 3 * 60 * (3 if classification and name != "catboost" else 1)
    assert model.forest_.n_trees < most / 2
    weighted = kind(theirs, random_state=0, cv=3).fit(X, y, sample_weight=np.linspace(0.1, 1, 300))
    assert weighted.forest_.n_trees < most / 2
    for parameters in ({"regime": "honest"}, {"alpha": 1.0}, {"regime": "cross-fit"}):
        with pytest.raises(ValueError, match="early stopping, and there are no rows"):
            kind(theirs, random_state=0, **parameters).fit(X, y)


@pytest.mark.parametrize("name", NAMES)
def test_traits_by_name_are_those_of_the_importer(name):
    for classification in (False, True):
        kind = LIBRARIES[name].load(classification=classification)
        own, by_name = importer_of(kind).traits, traits_of(name)
        assert own.combines == by_name.combines == "sum"
        assert own.supervised == by_name.supervised
        assert own.splits_into_groups == by_name.splits_into_groups
        assert library_of(kind()) is LIBRARIES[name]


@pytest.mark.parametrize("name", NAMES)
def test_several_targets(name):
    X, y = numbers(150)
    Y = np.column_stack([y, -2 * y + X[:, 2]])
    model = KPPRegressor(name, n_estimators=8, random_state=0, cv=3).fit(X, Y)
    new, _ = numbers(100, seed=1)
    assert model.predict(new).shape == (100, 2)
    assert model.score(X, Y) > 0.8


@pytest.mark.parametrize("name", NAMES)
def test_without_the_library_an_error_names_the_extra_and_saved_models_open(name, tmp_path):
    X, y = numbers(80)
    model = KPPRegressor(estimator(name), random_state=0, alpha=1.0).fit(X, y)
    kpp.save(model, tmp_path / "model.kpp")
    np.savez(tmp_path / "rows.npz", X=X, answer=model.predict(X), y=y)
    code = f"""
import sys
sys.modules[{name!r}] = None  # an import of it fails
import numpy as np, kpp
rows = np.load("rows.npz")
model = kpp.load("model.kpp")
assert (model.predict(rows["X"]) == rows["answer"]).all()
kpp.explain(model, rows["X"][:2])
kpp.save(model, "again.kpp")
assert "learning_rate=0.3" in repr(kpp.load("again.kpp").forest)
for failing in (model, kpp.KPPRegressor({name!r})):
    try:
        failing.fit(rows["X"], rows["y"])
    except ImportError as error:
        assert "kpp[{name}]" in str(error), error
    else:
        raise AssertionError("no error")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    again = kpp.load(tmp_path / "model.kpp")
    assert type(again.forest) is type(model.forest)


def test_a_file_that_names_places_on_a_disk_is_not_written(tmp_path):
    X, y = numbers(80)
    theirs = estimator("catboost", train_dir="/somewhere/else")
    model = KPPRegressor("extra-trees", n_estimators=3, alpha=1.0).fit(X, y)
    model.set_params(forest=theirs)
    with pytest.raises(kpp.io.CannotSaveError, match="train_dir"):
        kpp.save(model, tmp_path / "model.kpp")


def test_rounds_of_a_named_booster_are_those_of_the_parameter():
    for name in NAMES:
        library = LIBRARIES[name]
        forest = named_forest(name, classification=False, n_rows=500, n_estimators=7)
        assert forest.get_params()[library.rounds] == 7


def test_a_frozen_catboost_of_categories_learns_their_names_from_the_fit(tmp_path):
    frame, y = table()
    frame = frame.assign(ward=frame["ward"].fillna("none"))
    theirs = estimator(
        "catboost", one_hot_max_size=10, cat_features=["ward"], **LIBRARIES["catboost"].quiet
    ).fit(frame, y)
    model = KPPRegressor(FrozenEstimator(theirs), regime="fixed", random_state=0).fit(frame, y)
    assert set(model.forest_.categories[1]) == set(frame["ward"])
    kpp.save(model, tmp_path / "model.kpp")
    loaded = kpp.load(tmp_path / "model.kpp")
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))


def test_a_booster_of_two_numbers_for_one_target_has_no_bare_part_in_a_blend():
    X, y = numbers()
    quiet = LIBRARIES["catboost"].quiet
    theirs = estimator("catboost", loss_function="RMSEWithUncertainty", **quiet).fit(X, y)
    blocks = [("theirs", FrozenEstimator(theirs)), ("same", FrozenEstimator(theirs))]
    model = KPPRegressor(blocks, regime="fixed", random_state=0).fit(X, y)
    assert model.bare_fits_ == []
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize("stopping", [{}, {"early_stopping_round": 5}])
def test_weights_of_classes_belong_to_the_users_labels(stopping):
    X, y = numbers(300, 2)
    new, _ = numbers(300, 2, seed=1)
    labels = np.where(y == "a", 1, 2)  # where 1 is also the number of the second class

    def share_of(label, weights):
        theirs = estimator("lightgbm", True, class_weight=weights, **stopping)
        held = grow_forest(theirs, X[:200], labels[:200], stop_on=(X[200:], labels[200:], None))
        score = held.bare_scores(new).ravel()
        return np.mean((score > 0) == (label == 2))

    assert share_of(1, {1: 20.0}) > share_of(1, {}) > share_of(1, {2: 20.0})
    theirs = estimator("lightgbm", True, class_weight={"a": 2.0, "b": 1.0}, **stopping)
    assert KPPClassifier(theirs, random_state=0, cv=3).fit(X, y).score(X, y) > 0.8
    theirs.set_params(class_weight={"a": 2.0, "z": 1.0})
    with pytest.raises(ValueError, match="class_weight has 'z'"):
        KPPClassifier(theirs, random_state=0, cv=3).fit(X, y)


@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_a_class_of_the_held_out_fold_alone_stops_nothing(name):
    X, y = numbers(200, 2)
    y[7] = "c"
    stopping = "early_stopping_round" if name == "lightgbm" else "early_stopping_rounds"
    theirs = estimator(name, True, **{stopping: 3})
    model = KPPClassifier(theirs, random_state=0, cv=3).fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(X, y) > 0.8


def test_a_catboost_with_lists_among_its_parameters_is_grown():
    X, y = numbers(200, 2)
    shares = [
        np.mean(
            KPPClassifier(
                estimator("catboost", True, class_weights=weights), random_state=0, alpha=1.0
            )
            .fit(X, y)
            .forest_.bare_scores(X)
            > 0
        )
        for weights in ([20.0, 1.0], [1.0, 20.0])
    ]
    assert shares[0] < shares[1]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("catboost", {"cat_features": ["ward"]}), ("lightgbm", {"categorical_feature": [1]})],
)
def test_a_librarys_own_categories_are_refused_by_name(name, parameters):
    frame, y = table()
    with pytest.raises(ValueError, match=f"Leave {next(iter(parameters))} out"):
        KPPRegressor(estimator(name, **parameters), random_state=0).fit(frame, y)


@pytest.mark.parametrize("name", NAMES)
def test_a_fold_whose_target_is_constant(name):
    X, _ = numbers(60)
    y = np.where(np.arange(60) == 5, 3.0, 0.0)
    model = KPPRegressor(name, n_estimators=3, random_state=0, cv=3).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
