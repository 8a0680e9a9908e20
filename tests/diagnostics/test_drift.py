"""Drift: the distance is the kernel's, its parts add up, alarms are rare, and shifts are found."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpp import KPPClassifier, KPPRegressor, drift, kernel, load, path_distance, save
from kpp.diagnostics.boxes import depth_of, rows_inside, standardised
from kpp.diagnostics.column_shift import compare_columns, holm
from kpp.diagnostics.shift import Shift, stack
from kpp.explanations import words_of_nodes
from kpp.geometry import forest_blocks


def table(n_rows, seed, shift=0.0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 4))
    X[:, 2] = random.integers(0, 3, n_rows)
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * random.normal(size=n_rows)
    X[:, 0] += shift
    return pd.DataFrame(X, columns=list("abcd")), y


X, Y = table(150, 0)
REFERENCE, NEW = table(70, 1)[0], table(60, 2, shift=0.8)[0]


@pytest.fixture(scope="module")
def model():
    return KPPRegressor("extra-trees", n_estimators=8, alpha=1.0, random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def blend():
    estimator = KPPRegressor(n_estimators=6, main_effects="linear", random_state=0)
    return estimator.fit(X, Y)


@pytest.mark.parametrize("name", ["model", "blend"])
def test_the_distance_is_that_of_the_kernel(name, request):
    fitted = request.getfixturevalue(name)
    found = drift(fitted, NEW, REFERENCE, n_permutations=19)
    own, other, cross = (
        kernel(fitted, *rows).mean() for rows in ((REFERENCE,), (NEW,), (REFERENCE, NEW))
    )
    assert found.distance == pytest.approx(own + other - 2 * cross, rel=1e-9)
    # Twice it is the energy distance of the path distance.
    own, other, cross = (
        path_distance(fitted, *rows).mean() for rows in ((REFERENCE,), (NEW,), (REFERENCE, NEW))
    )
    assert 2 * found.distance == pytest.approx(2 * cross - own - other, rel=1e-9)
    parts = sum(one.distance for one in found.columns)
    assert parts == pytest.approx(found.distance, rel=1e-12)
    assert sum(one.expected for one in found.columns) == pytest.approx(found.expected, rel=1e-12)


def distances_of_all_cuts(model, reference, new):
    """The distance for every way to cut all rows in two, from the kernel; the given one first."""
    gram, n, m = kernel(model, pd.concat([reference, new])), len(reference), len(new)
    values = []
    for chosen in combinations(range(n + m), n):
        sign = np.full(n + m, 1 / m)
        sign[list(chosen)] = -1 / n
        values.append(sign @ gram @ sign)
    return np.array(values)


def test_what_chance_adds_is_the_mean_over_cuts(model):
    shift = Shift(model.map_.on(REFERENCE[:4]), model.map_.on(NEW[:3]))
    values = distances_of_all_cuts(model, REFERENCE[:4], NEW[:3])
    assert shift.distance == pytest.approx(values[0], rel=1e-12)
    assert shift.expected.sum() == pytest.approx(values.mean(), rel=1e-12)


def test_the_p_value_is_that_of_all_cuts(model):
    shift = Shift(model.map_.on(REFERENCE[:4]), model.map_.on(NEW[:4]))
    values = distances_of_all_cuts(model, REFERENCE[:4], NEW[:4])
    exact = np.mean(values >= values[0] * (1 - 1e-9))
    p_value, n_rows = shift.permutation_test(4000, np.random.default_rng(0))
    assert n_rows == 8
    assert p_value == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4000) + 1e-3)


def test_the_share_is_that_of_the_variance(model):
    n = 60
    shift = Shift(model.map_.on(REFERENCE[:n]), model.map_.on(NEW[:n]))
    rows = stack([shift.reference, shift.new]).to_csr().toarray()
    total = rows.var(axis=0).sum()
    means = rows[:n].mean(axis=0), rows[n:].mean(axis=0)
    between = np.sum((means[1] - means[0]) ** 2) / 4
    assert shift.variance.sum() == pytest.approx(total, rel=1e-10)
    assert shift.share == pytest.approx((between - shift.expected.sum() / 4) / total, rel=1e-9)


def test_without_reference_the_rows_of_the_fit_are_taken(model):
    plain, given = drift(model, NEW, n_permutations=19), drift(model, NEW, X, n_permutations=19)
    assert plain.distance == given.distance
    assert plain.p_value == given.p_value
    assert (plain.n_reference, plain.n_new) == (150, 60)
    assert not plain.is_exact
    assert not given.is_exact  # they are rows of the fit, whoever gives them
    assert plain.checks == ()
    assert "which grew the trees" in str(plain)
    assert plain.predictions[0].reference == pytest.approx(model.predict(X).mean(), rel=1e-12)
    assert plain.predictions[0].new == pytest.approx(model.predict(NEW).mean(), rel=1e-12)


def test_what_has_moved(model):
    found = drift(model, NEW, REFERENCE)
    assert found.drifted
    assert found.is_exact
    assert found.p_value == 1 / 200
    assert found.columns[0].column == "a"
    assert [one.column for one in found.changed_columns] == ["a"]
    assert found.boxes[0].text.startswith(("a <", "a >"))
    assert found.predictions[0].new > found.predictions[0].reference
    text = str(found)
    assert text.startswith("Drift: ")
    assert "'a' itself changed: KS" in text
    frame = found.to_frame()
    assert frame.index[0] == "a"
    assert frame["distance"].sum() == pytest.approx(found.distance)


def test_boxes_by_hand(model):
    found = drift(model, NEW, X, n_permutations=1, top=6)
    ((_, block),) = forest_blocks(model.map_)
    # Every box again, from its words, which hold for the rows of the fit.
    for box in found.boxes:
        inside = np.ones(len(X), dtype=bool)
        for part in box.text.split(" and "):
            if part.split(" ")[0] in X.columns:
                inside &= X.eval(part.replace(" = ", " == ")).to_numpy()
            else:  # 0.1 < a <= 0.3
                low, sign, name, *rest = part.split(" ")
                inside &= X.eval(f"{low} {sign} {name}").to_numpy()
                inside &= X.eval(f"{name} {' '.join(rest)}").to_numpy()
        assert inside.mean() == pytest.approx(box.reference, abs=1e-12)
        both = (150 * box.reference + 60 * box.new) / 210
        error = np.sqrt(both * (1 - both) * (1 / 150 + 1 / 60) * 210 / 209)
        assert box.z == pytest.approx((box.new - box.reference) / error)
    sizes = [abs(box.z) for box in found.boxes]
    assert sizes == sorted(sizes, reverse=True)
    depth = depth_of(block.forest)
    assert depth[block.forest.roots].max() == 0
    node = int(np.flatnonzero(depth == 2)[0])
    inside = rows_inside(block.forest, node, [block.leaf_ids])
    assert inside.sum() == block.rows_below()[node]
    assert words_of_nodes(model, 0, [int(block.forest.roots[0])]) == ["any row"]
    assert standardised(np.array([1.0]), np.array([1.0]), 5, 5).tolist() == [0.0]


def test_false_alarms_are_rare():
    """Beside rows of the fit, and beside others; p-values of the exact test are not too small."""
    p_values = {"fit": [], "unused": []}
    for seed in range(60):
        rows, y = table(60, 100 + seed)
        reference, new = table(40, 1000 + seed)[0], table(40, 2000 + seed)[0]
        estimator = KPPRegressor("extra-trees", n_estimators=4, alpha=1.0, random_state=seed)
        estimator = estimator.fit(rows, y)
        p_values["fit"].append(drift(estimator, new, n_permutations=39).p_value)
        p_values["unused"].append(drift(estimator, new, reference, n_permutations=39).p_value)
    for values in p_values.values():
        # At most 5% are expected; more than 8 of 60 have a chance below 1 in 200.
        assert np.mean(np.array(values) <= 0.05) <= 8 / 60
    uniform = stats.kstest(p_values["unused"], "uniform", alternative="less")
    assert uniform.pvalue > 1e-3


def test_columns_on_their_own():
    random = np.random.default_rng(0)
    before = pd.DataFrame(
        {
            "number": random.normal(size=300),
            "gap": np.where(random.random(300) < 0.05, np.nan, random.normal(size=300)),
            "word": random.choice(["x", "y", "z"], 300),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 99, 300), "D"),
        }
    )
    after = before.sample(200, replace=True, random_state=1).reset_index(drop=True)
    assert min(one.p_value for one in compare_columns(before, after, before.columns)) > 0.05
    after.loc[:80, "gap"] = np.nan
    after.loc[:60, "word"] = "new"
    after["when"] += pd.Timedelta(days=50)
    found = {one.column: one for one in compare_columns(before, after, before.columns)}
    assert {name for name, one in found.items() if one.p_value <= 0.05} == {"gap", "word", "when"}
    assert found["word"].new_categories == ("new",)
    assert found["when"].n_outside > 0
    assert found["gap"].new_missing == after["gap"].isna().mean()
    same = stats.ks_2samp(before["number"], after["number"], method="asymp")
    assert found["number"].statistic == same.statistic
    assert holm(np.array([0.5])).tolist() == [0.5]


def test_pipelines_classes_and_files(tmp_path):
    classifier = KPPClassifier("extra-trees", n_estimators=6, alpha=0.01, random_state=0)
    pipeline = make_pipeline(StandardScaler(), classifier).fit(X, np.where(Y > 0, "high", "low"))
    found = drift(pipeline, NEW, n_permutations=19)
    assert [one.name for one in found.predictions] == ["share of high", "share of low"]
    assert found.predictions[0].new == np.mean(pipeline.predict(NEW) == "high")
    assert found.columns[0].column == "a"
    save(pipeline, tmp_path / "model.kpp")
    again = drift(load(tmp_path / "model.kpp"), NEW, n_permutations=19)
    assert str(again) == str(found)
    honest = KPPRegressor("extra-trees", n_estimators=4, alpha=1.0, regime="honest", random_state=0)
    assert drift(honest.fit(X, Y), NEW, n_permutations=19).is_exact


def test_refusals(model):
    with pytest.raises(ValueError, match="level must be"):
        drift(model, NEW, level=0.0)
    with pytest.raises(ValueError, match="n_permutations"):
        drift(model, NEW, n_permutations=0)
    with pytest.raises(ValueError, match="minimum of 2"):
        drift(model, NEW[:1])


def test_the_picture(model):
    pytest.importorskip("matplotlib").use("Agg")
    display = drift(model, NEW, REFERENCE, n_permutations=19, top=4).plot()
    assert len(display.ax_.get_yticklabels()) == 4
    assert display.ax_.get_title(loc="left").startswith("Drift")
