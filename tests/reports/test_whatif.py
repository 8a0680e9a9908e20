"""What if: the page's own numbers at changed values are those of the model."""

import json

import numpy as np
import pytest
from reports.browser import opened, screen
from reports.subjects import data_of, made
from reports.test_browser import find, find_all
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

from kpp import explain
from kpp.models.asking import ask
from kpp.reports.page import render, write
from kpp.reports.sections.intervals import LEVEL


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("profile")) as found:
        screen(found, 1280)
        yield found


@pytest.fixture(scope="module")
def visit(driver, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")

    def show(name, data):
        driver.get(write(render(data), folder / f"{name}.html").as_uri())
        assert driver.execute_script("return document.documentElement.dataset.ready") == "yes"
        driver.get_log("browser")
        return driver

    return show


SET = """
const line = document.querySelectorAll('#whatif-table tbody tr')[arguments[0]];
const control = line.querySelector('input, select');
control.value = arguments[1];
control.dispatchEvent(new Event(control.tagName === 'INPUT' ? 'input' : 'change'));
"""


def answered(driver):
    facts = find(driver, "#whatif-answer .facts")
    adds = [
        float(cell.get_attribute("data-value"))
        for cell in find_all(driver, "#whatif-table tbody tr td:nth-child(3)")
    ]
    return (
        np.array(json.loads(facts.get_attribute("data-scores"))),
        json.loads(facts.get_attribute("data-range")),
        np.array(adds),
    )


def expected(model, row, section, score=0):
    """Scores, range and contributions by Python, for a table of one row."""
    question = ask(model)
    rows = question.rows(row)
    values = explain(model, row, centered=True).values
    values = values if values.ndim == 3 else values[..., None]
    order = [variable["variable"] for variable in section["variables"]]
    if section["ranges"] is None:
        ends = None
    elif question.is_classifier:
        ends = question.model.predict_set(rows, LEVEL).sets.astype(int).tolist()
    else:
        found = question.model.predict_interval(rows, LEVEL)
        ends = [np.ravel(found.lower).tolist(), np.ravel(found.upper).tolist()]
    return rows.scores[0], ends, values[0, order, score]


def close(found, wanted):
    assert np.abs(np.subtract(found, wanted)).max() <= 1e-6 * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize(
    "kind", ["binary", "multiclass", "regression", "several targets", "boosted", "table", "hostile"]
)
def test_changed_rows_have_the_models_own_answers(visit, kind):
    model, X, _, _ = made(kind)
    section = data_of(kind)["sections"]["whatif"]
    assert section["exact"]
    driver = visit(kind.replace(" ", "_"), data_of(kind))
    named = hasattr(X, "iloc")
    rng = np.random.default_rng(0)
    for place in range(3):
        i = section["rows"][place]
        driver.execute_script(
            "const s = document.getElementById('whatif-row'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('change'));",
            str(place),
        )
        row = X.iloc[[i]].copy() if named else X[[i]].copy()
        for changes, v in enumerate(rng.permutation(len(section["variables"]))[:4]):
            variable = section["variables"][v]
            j = variable["variable"]
            if variable["kind"] == "number":
                value = float(rng.choice(variable["points"])) * 1.01 + 1e-3
                typed = repr(value)
            else:
                option = int(rng.integers(len(variable["names"])))
                typed = str(option)
                column = np.asarray(X.iloc[:, j])
                like = {_name(own): k for k, own in enumerate(column)}
                value = X.iloc[:, [j]].iloc[[like[variable["names"][option]]]]
            driver.execute_script(SET, int(v), typed)
            if variable["kind"] == "choice":
                row.isetitem(j, value.iloc[:, 0].array)
            elif named:
                row.isetitem(j, np.array([value]))
            else:
                row[0, j] = value
            scores, ends, adds = answered(driver)
            true_scores, true_ends, true_adds = expected(model, row, section)
            close(scores, true_scores)
            close(adds, true_adds)
            assert (ends is None) == (true_ends is None)
            if ends is not None:
                close(ends, true_ends)
            assert changes < 4
    # Back to the row: its own prediction again.
    find(driver, "#whatif-reset").click()
    close(answered(driver)[0], section["scores"][2])
    assert driver.get_log("browser") == []


@pytest.mark.filterwarnings("ignore:The best alpha lies on:sklearn.exceptions.ConvergenceWarning")
def test_a_blend_with_gaps_and_linear_terms_has_its_own_answers(visit):
    """Forests of both precisions, missing values, linear terms, and folds of several forests."""
    from sklearn.datasets import load_diabetes

    from kpp import KPPRegressor
    from kpp.reports import report_data

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X, y = X[["bmi", "s5", "bp"]][:150].copy(), y[:150].to_numpy()
    X.iloc[::7, 0] = np.nan
    forests = [("a", ExtraTreesRegressor(6)), ("b", HistGradientBoostingRegressor(max_iter=5))]
    model = KPPRegressor(forests, main_effects="linear", cv=3, random_state=0)
    model.fit(X[:100], y[:100])
    data = report_data(model, X[100:], y[100:], max_rows=2, times=False)
    section = data["sections"]["whatif"]
    assert section["exact"]
    assert section["model"]["folds"] is not None
    assert len(section["model"]["linear"]) == 1
    driver = visit("blend", data)
    row = X.iloc[[100 + section["rows"][0]]].copy()
    places = [own["variable"] for own in section["variables"]]
    for name, value in (("bmi", 0.0123), ("s5", -0.05), ("bmi", np.nan), ("bp", 0.9)):
        v = places.index(X.columns.get_loc(name))
        driver.execute_script(SET, v, "" if np.isnan(value) else repr(value))
        row[name] = value
        scores, ends, adds = answered(driver)
        true_scores, true_ends, true_adds = expected(model, row, section)
        close(scores, true_scores)
        close(adds, true_adds)
        close(ends, true_ends)


def _name(value):
    from kpp.reports.sections.whatif_grid import name_of

    return name_of(value)


def _grid_data():
    """A report whose model is kept out of the page."""
    from kpp.reports import report_data
    from kpp.reports.sections import whatif

    model, X, y, train = made("regression")
    most, whatif.MOST_BYTES = whatif.MOST_BYTES, 1000
    try:
        return report_data(model, X, y, train=train, max_rows=3, times=False)
    finally:
        whatif.MOST_BYTES = most


def test_a_model_that_does_not_fit_is_on_a_grid(visit):
    model, X, _, _ = made("regression")
    data = _grid_data()
    section = data["sections"]["whatif"]
    assert not section["exact"]
    assert "nodes" in section["reason"]
    driver = visit("grid", data)
    assert "The model is not in this page" in find(driver, "#whatif").text
    order = [X.columns.get_loc(own["name"]) for own in section["variables"]]
    row = X.iloc[[section["rows"][0]]]
    for v in (0, 1):
        variable = section["variables"][v]
        driver.execute_script(SET, v, "2")
        other = row.copy()
        other.isetitem(order[v], np.array([float(variable["names"][2])]))
        scores, ends, adds = answered(driver)
        close(scores, model.predict(other))
        found = model.predict_interval(other, LEVEL)
        close(ends, [found.lower.tolist(), found.upper.tolist()])
        close(adds, explain(model, other, centered=True).values[0, order])
    # The second change has taken the first back.
    assert driver.execute_script(
        "return [...document.querySelectorAll('#whatif-table select')].map(s => s.value)"
    )[:2] == ["-1", "2"]


def test_an_interval_that_does_not_fit_moves_along(visit):
    data = json.loads(json.dumps(data_of("regression")))
    section = data["sections"]["whatif"]
    section["model"]["folds"] = None
    driver = visit("moved", data)
    assert "as wide as before" in find(driver, "#whatif").text
    variable = section["variables"][0]
    driver.execute_script(SET, 0, repr(variable["points"][-1]))
    scores, ends, _ = answered(driver)
    was = np.ravel(section["ranges"][0])
    close(np.ravel(ends) - was, np.repeat(scores - section["scores"][0], 2))


def test_what_cannot_be_typed_is_refused(visit):
    driver = visit("refused", data_of("regression"))
    before = answered(driver)[0]
    driver.execute_script(SET, 0, "1e300")  # beyond single precision, in which the trees compare
    field = find(driver, "#whatif-table input")
    assert field.get_attribute("aria-invalid") == "true"
    assert answered(driver)[0] == before


def test_thresholds_in_single_precision_part_the_same_numbers():
    from kpp.reports.embedded import rounded_down

    rng = np.random.default_rng(0)
    t = np.concatenate([rng.normal(size=500), 1e-45 * rng.normal(size=20), [1e300, -1e300, 0.0]])
    short = rounded_down(t)
    for step in (-2, -1, 0, 1, 2):
        with np.errstate(over="ignore"):
            x = t.astype(np.float32)
        for _ in range(abs(step)):
            x = np.nextafter(x, np.float32(np.inf * np.sign(step)))
        finite = np.isfinite(x)
        assert ((x.astype(np.float64) <= t) == (x <= short))[finite].all()


def test_a_preparation_that_mixes_columns_is_on_a_grid():
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline

    from kpp import KPPRegressor
    from kpp.reports.sections import whatif
    from kpp.reports.subject import Subject

    _, X, y, train = made("regression")
    forest = KPPRegressor("extra-trees", n_estimators=5, alpha=0.1, random_state=0)
    subject = Subject.read(
        make_pipeline(PCA(3), forest).fit(*train),
        X,
        y,
        sample_weight=None,
        train=None,
        max_rows=3,
        random_state=0,
        y_range=None,
    )
    found = whatif.make(subject, {"made": True, "rows": [{"row": 0, "label": "0"}]})
    assert not found["exact"]
    assert "mixes columns" in found["reason"]
