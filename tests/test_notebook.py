"""What notebooks show: every result has a picture, names are escaped, numbers are the object's."""

import inspect
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kpp
from kpp import bounds, certificates, diagnostics, explanations, export, forest, geometry, models
from kpp._numbers import number
from kpp._shown import Shown
from kpp.views.html import LONGEST_TEXT, chart, escape

ROOMS = [bounds, certificates, diagnostics, explanations, export, forest, geometry, models]
# A rule that makes findings; the base of all maps; what shows itself as a figure.
# Checks and maps have parts of their own; ensembles to be grown are shown by scikit-learn.
NO_RESULTS = {"Check", "Ladders", "MapBlock", "ObliqueForestClassifier", "ObliqueForestRegressor"}
HOSTILE = "<script>alert('1')</script><b title=\"x\" \u202eonload=&quot;"
VOID = {"br", "hr", "img", "input", "meta", "link", "path", "circle", "polyline", "col"}


class Reader(HTMLParser):
    """Tags in balance, the rows of tables, and the text that a reader sees."""

    def __init__(self, source):
        super().__init__()
        self.open, self.tags, self.rows, self.notes, self.attributes = [], [], [], [], []
        self.feed(source)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
        elif tag == "p":
            self.notes.append("")

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        elif self.open and self.open[-1] == "p":
            self.notes[-1] += data

    @property
    def facts(self):
        return {row[0]: row[1] for row in self.rows if len(row) == 2}


def read(result):
    return Reader(result._repr_html_())


def value_of(text):
    """The number that a cell shows."""
    text = text.replace(",", "").replace("−", "-").replace("∞", "inf").replace("–", "nan")
    return float(text)


def agree(text, expected):
    return np.isclose(value_of(text), expected, rtol=5.001e-4, atol=0.0, equal_nan=True)


@pytest.fixture(scope="module")
def shown():
    X, y = load_iris(return_X_y=True, as_frame=True)
    two = (y > 0).astype(int)
    Xd, yd = load_diabetes(return_X_y=True, as_frame=True)
    classifier = kpp.KPPClassifier("extra-trees", n_estimators=10, random_state=0).fit(X, two)
    several = kpp.KPPClassifier("extra-trees", n_estimators=10, alpha=1e-3, random_state=0).fit(
        X, y
    )
    honest = kpp.KPPClassifier(
        "extra-trees", n_estimators=10, regime="honest", center="partition", random_state=0
    ).fit(X, two)
    regressor = kpp.KPPRegressor("extra-trees", n_estimators=10, alpha=1.0, random_state=0).fit(
        Xd, yd
    )
    embedding = kpp.KPPEmbedding(n_estimators=10, random_state=0).fit(X, y)
    attribution = kpp.explain(classifier, X)
    certificate = kpp.certify(classifier, X)
    curve = kpp.robustness_curve(classifier, X, two)
    report = kpp.risk_bounds(honest, X, two)
    oracles = kpp.partition_oracles(honest, X, two)
    dashboard = kpp.diagnose(classifier, X, two, sample="train")
    checks = kpp.audit(classifier, X, two)
    comparison = kpp.compare(classifier, X, two, test=(X, two), rivals={"same": classifier})
    moved = kpp.drift(classifier, X[40:] + 1.0, X[:40], n_permutations=9)
    table = kpp.check_data(X, two)
    parts = kpp.segments(classifier, X, two)
    flipping = kpp.certify_raw(classifier, X, scale="std", effort=1000)
    flipped = int(np.flatnonzero(flipping.found)[0])
    rules = kpp.explain_rules(classifier, X.iloc[0], top=3)
    tree = forest.Tree(
        left=[1, -1, -1], right=[2, -1, -1], feature=[0, 0, 0], threshold=[0.0, 0.0, 0.0]
    )
    row = int(np.flatnonzero(~certificate.never_flips)[0])
    return {
        "KPPClassifier": classifier,
        "KPPRegressor": regressor,
        "KPPEmbedding": embedding,
        "Attribution": attribution,
        "Attribution, several": kpp.explain(several, X),
        "Attribution, one row": kpp.explain(classifier, X[:1]),
        "Attribution, nodes": kpp.explain(several, X[:2], level="node"),
        "Attribution, one row by node": kpp.explain(classifier, X[:1], level="node"),
        "AttributionSummary": attribution.summary(),
        "AttributionSummary, several": kpp.explain(several, X).summary(),
        "DistanceExplanation": kpp.explain_distance(classifier, X.iloc[0], X.iloc[60]),
        "Interactions": kpp.explain_interactions(classifier, X),
        "LeaveOneOut": kpp.leave_one_out(regressor, yd),
        "Rule": rules.rules[0],
        "RuleExplanation": rules,
        "TrainingRowExplanation": kpp.explain_training_rows(classifier, X.iloc[0], top=3),
        "Certificate": certificate,
        "Certificate, regression": kpp.certify(regressor, Xd[:9], epsilon=10.0),
        "Change": certificates.changes_to(classifier, X, flipping, flipped)[0],
        "Crossing": certificate.splits_to_cross(row)[0],
        "CurveBand": certificates.combine_curves([curve, curve]),
        "RawCertificate": kpp.certify_raw(classifier, X[:3], scale="std"),
        "RobustnessCurve": curve,
        "RobustnessCurve, regression": kpp.robustness_curve(regressor, Xd, yd, method="lipschitz"),
        "Assumption": report[0].assumptions[0],
        "BiasVariance": bounds.bias_variance(regressor, Xd, yd),
        "Bound": report["PAC-Bayes-kl"],
        "BoundPath": kpp.bound_path(honest, X, two),
        "BoundReport": report,
        "Estimate": bounds.effective_dimension(regressor, Xd, 1.0),
        "GainInterval": oracles.interval(),
        "PartitionOracles": oracles,
        "RefinementOracle": bounds.common_refinement(honest, X, two),
        "Spectrum": dashboard.spectrum,
        "TreeOracles": oracles.per_tree,
        "Audit": checks,
        "AuditCheck": checks.checks[0],
        "Compared": comparison.models[1],
        "Comparison": comparison,
        "Box": moved.boxes[0],
        "ColumnPart": moved.columns[0],
        "ColumnProfile": table.columns[0],
        "ColumnShift": moved.checks[0],
        "DataChecks": table,
        "Drift": moved,
        "Segment": parts.segments[0],
        "Segments": parts,
        "Outside": moved.outside[0],
        "PredictionShift": moved.predictions[0],
        "Diagnostics": dashboard,
        "Finding": dashboard.findings[0],
        "MarginTail": diagnostics.margin_tail(classifier, X),
        "MeasuredCoverage": diagnostics.measure_coverage(classifier, X, two),
        "Observable": dashboard.observables[0],
        "AdditiveForest": kpp.collapse(several),
        "RoutedRows": several.at(X[:20]),
        "BareScores": classifier.forest_.bare,
        "Forest": classifier.forest_,
        "NodeStatistics": classifier.forest_.statistics,
        "Tree": tree,
        "BlockMap": geometry.BlockMap([("a", embedding.map_), ("b", embedding.map_)]),
        "CenteredMap": classifier.map_.centered(),
        "LinearMap": geometry.LinearMap(geometry.LinearTerms.fit(X)),
        "LinearTerms": geometry.LinearTerms.fit(X),
        "PathMap": embedding.map_,
        "LeaveOneFoldOut": regressor.leave_one_fold_out(Xd, yd),
        "PredictionIntervals": kpp.KPPRegressor("extra-trees", n_estimators=10, random_state=0)
        .fit(Xd, yd)
        .predict_interval(Xd),
        "PredictionSets": classifier.predict_set(X),
        "OperatorConcentration": geometry.operator_concentration(embedding, X[:5]),
        "DiscrepancyCurve": kpp.half_forest_discrepancy(embedding, X, curve=True),
        "IsometryCheck": geometry.check_isometry(embedding, X),
        "PathWeights": embedding.map_.weights,
    }


def public_results():
    for room in [kpp, *ROOMS]:
        for name in room.__all__:
            thing = getattr(room, name)
            if inspect.isclass(thing) and not name.endswith("Display") and name not in NO_RESULTS:
                yield name, thing


def test_every_public_result_has_one(shown):
    for name, thing in public_results():
        assert hasattr(thing, "_repr_html_"), name
        assert isinstance(shown[name], thing), name


def test_pages_are_well_formed_and_load_nothing(shown):
    for name, result in shown.items():
        source = result._repr_html_()
        if name.startswith("KPP"):  # scikit-learn's own diagram has scripts
            source = result._html_summary()
        page = Reader(source)
        assert {"script", "img", "link", "iframe", "a"}.isdisjoint(page.tags), name
        assert not any(key.startswith("on") or key in ("src", "href") for key, _ in page.attributes)
        assert "url(" not in source, name
        assert "://" not in source, name
        assert len(page.rows) > 0, name


def test_coverage_shows_what_it_is_worth(shown):
    intervals, sets = shown["PredictionIntervals"], shown["PredictionSets"]
    assert agree(read(intervals).facts["median width"], np.median(intervals.width))
    assert agree(read(sets).facts["mean size"], sets.mean_size)
    for result in (intervals, sets):
        page = read(result)
        assert page.facts["worth"] == "not a guarantee"
        shown_conditions = {row[1] for row in page.rows if len(row) == 3}
        assert {own.name for own in result.conditions} <= shown_conditions


def test_bound_shows_its_own_numbers(shown):
    bound = shown["Bound"]
    facts = read(bound).facts
    for label, expected in [
        ("bound", bound.total),
        ("= empirical risk", bound.empirical_risk),
        ("+ complexity", bound.complexity),
        ("+ confidence", bound.confidence),
        ("trivial from", bound.trivial_level),
        ("may fail with probability", bound.delta),
    ]:
        assert agree(facts[label], expected), label
    assert facts["regime"] == bound.regime
    assert facts["status"].startswith("guarantee") == bound.is_guarantee
    assert ("trivial" in facts["status"]) == bound.is_trivial
    conditions = {row[1]: row[0] for row in read(bound).rows if len(row) == 3}
    for assumption in bound.assumptions:
        word = {True: "holds", False: "FAILS", None: "trusted"}[assumption.holds]
        assert conditions[assumption.name] == word


def test_bound_report_shows_every_bound(shown):
    rows = {row[0]: row for row in read(shown["BoundReport"]).rows if len(row) == 8}
    for bound in shown["BoundReport"]:
        assert agree(rows[bound.name][2], bound.total)
        assert rows[bound.name][4].startswith("guarantee") == bound.is_guarantee
        assert value_of(rows[bound.name][7]) == bound.n_rows


def test_bound_path_shows_the_fit_and_the_best(shown):
    path = shown["BoundPath"]
    rows = {row[0]: row for row in read(path).rows if len(row) == 4}
    assert agree(rows["alpha of the fit"][3], path.bound[path.chosen])
    assert agree(rows["alpha of the smallest bound"][3], path.bound.min())
    assert agree(rows["the centre, held-out bound"][3], path.center_bound)


@pytest.mark.parametrize("name", ["Certificate", "Certificate, regression"])
def test_certificate_shows_its_own_numbers(shown, name):
    certificate = shown[name]
    page = read(certificate)
    rows = {row[0]: row[1:] for row in page.rows if len(row) == 4}
    for label, values in [("radius", certificate.radius), ("margin", certificate.margin)]:
        for text, of in zip(rows[label], (np.min, np.median, np.max), strict=True):
            assert agree(text, of(values)), label
    assert int(page.facts["never change"]) == certificate.never_flips.sum()
    assert ("tolerance epsilon" in page.facts) == (certificate.epsilon is not None)
    assert any("nothing of raw values" in text for text in page.notes)


def test_raw_certificate_shows_its_own_numbers(shown):
    raw = shown["RawCertificate"]
    page = read(raw)
    rows = {row[0]: row[1:] for row in page.rows if len(row) == 4}
    assert agree(rows["certified radius"][1], np.median(raw.radius))
    assert agree(rows["nearest other answer found"][0], raw.upper_radius.min())
    assert int(page.facts["counterexample found"]) == raw.found.sum()


def test_attribution_shows_the_largest_variables(shown):
    attribution = shown["Attribution"]
    rows = [row for row in read(attribution).rows if len(row) == 3][1:]
    size = np.abs(attribution.values).mean(axis=0)
    assert [row[0] for row in rows] == [attribution.feature_names[j] for j in np.argsort(-size)]
    assert all(agree(row[1], v) for row, v in zip(rows, sorted(size, reverse=True), strict=True))
    one = shown["Attribution, one row"]
    rows = {row[0]: row for row in read(one).rows if len(row) == 4}
    for j, name in enumerate(one.feature_names):
        assert agree(rows[name][2], one.values[0, j])
        assert float(rows[name][1]) == one.data.iloc[0, j]
    assert agree(read(one).facts["score"], one.scores[0])


def test_attribution_of_several_outputs_has_a_column_each(shown):
    attribution = shown["Attribution, several"]
    rows = {row[0]: row for row in read(attribution).rows if len(row) == 5}
    assert rows["variable"][1:4] == [str(output) for output in attribution.outputs]
    size = np.abs(attribution.values).mean(axis=0)
    for j, name in enumerate(attribution.feature_names):
        assert all(agree(t, v) for t, v in zip(rows[name][1:4], size[j], strict=True))


def test_node_attribution_says_how_many_it_left_out(shown):
    attribution = shown["Attribution, one row by node"]
    assert any(
        f"10 of {len(attribution.feature_names):,} nodes" in n for n in read(attribution).notes
    )


def test_rules_add_up_to_the_score(shown):
    explanation = shown["RuleExplanation"]
    rows = read(explanation).rows[1:]
    parts = [value_of(row[1]) for row in rows]
    assert np.isclose(sum(parts[:-1]), parts[-1], atol=2e-3 * np.abs(parts).max())
    assert [row[0] for row in rows[1:4]] == [rule.text for rule in explanation.rules]
    assert all(
        agree(row[1], r.contribution) for row, r in zip(rows[1:4], explanation.rules, strict=True)
    )


def test_training_rows_and_distances_show_their_own_numbers(shown):
    carried = shown["TrainingRowExplanation"]
    rows = [row for row in read(carried).rows if len(row) == 5][1:]
    assert [value_of(row[0]) for row in rows] == carried.rows.tolist()
    assert all(agree(row[1], v) for row, v in zip(rows, carried.contribution, strict=True))
    assert agree(read(carried).facts["score"], carried.score)
    distance = shown["DistanceExplanation"]
    rows = {row[0]: row for row in read(distance).rows if len(row) == 4}
    for j, name in enumerate(distance.feature_names):
        assert agree(rows[name][1], distance.by_variable[j])
    assert agree(read(distance).facts["distance"], distance.total)


def test_leave_one_out_shows_the_largest_residuals(shown):
    result = shown["LeaveOneOut"]
    rows = [row for row in read(result).rows if len(row) == 3][1:]
    expected = np.sort(np.abs(result.loo_residuals))[::-1][:10]
    assert all(agree(row[2], v) for row, v in zip(rows, expected, strict=True))


def test_diagnostics_show_every_figure_and_finding(shown):
    dashboard = shown["Diagnostics"]
    page = read(dashboard)
    rows = {row[1]: row for row in page.rows if len(row) == 6}
    for observable in dashboard.observables:
        assert agree(rows[observable.name][3], observable.value), observable.name
    for name, value in dashboard.metrics.items():
        assert agree(rows[name][3], value)
    listed = {row[0] for row in page.rows if len(row) == 6}
    assert set(dashboard.codes) <= listed
    assert any("none is a guarantee" in text for text in page.notes)


def test_curves_show_their_own_numbers(shown):
    for name in ("RobustnessCurve", "RobustnessCurve, regression"):
        curve = shown[name]
        facts = read(curve).facts
        assert agree(facts["at radius 0"], curve(0.0))
        assert agree(facts["u_half"], curve.u_half)
        assert ("right and never changes" in facts) == (curve.metric == "accuracy")
    discrepancy = shown["DiscrepancyCurve"]
    facts = read(discrepancy).facts
    for k, v in zip(discrepancy.n_trees, discrepancy.values, strict=True):
        assert agree(facts[str(k)], v)


def test_oracles_audit_and_decomposition(shown):
    oracles = shown["PartitionOracles"]
    facts = read(oracles).facts
    assert agree(facts["entropy at the root"], oracles.root)
    assert agree(facts["share explained"], oracles.share)
    interval = shown["GainInterval"]
    assert agree(read(interval).facts["upper limit"], interval.upper)
    rows = {row[1]: row for row in read(shown["Audit"]).rows}
    for check in shown["Audit"].checks:
        assert rows[check.name][0] == ("holds" if check.holds else "FAILS")
        assert agree(rows[check.name][3], check.tolerance)
    decomposition = shown["BiasVariance"]
    facts = read(decomposition).facts
    assert agree(facts["= bias"], decomposition.bias)
    assert facts["status"] == "diagnostic only"  # the noise was estimated


def test_a_failing_audit_says_so():
    failed = diagnostics.AuditCheck("isometry", 1.0, 1e-12, 3, "nowhere")
    assert "FAILS" in diagnostics.Audit((failed,))._repr_html_()
    assert read(failed).facts["holds"] == "no"


def test_field_by_field(shown):
    assert isinstance(shown["Estimate"], Shown)
    assert agree(read(shown["Estimate"]).facts["value"], shown["Estimate"].value)
    check = shown["IsometryCheck"]
    facts = read(check).facts
    assert facts["holds"] == "yes"
    assert facts["pairs"].startswith("array of 1,000 × 2")
    assert agree(facts["largest_gap"], check.largest_gap)
    assert "conditions" not in read(shown["Rule"]).facts  # said by the text already


def test_forest_and_collapse_show_their_sizes(shown):
    grown = shown["Forest"]
    facts = read(grown).facts
    assert value_of(facts["leaves"]) == (grown.left < 0).sum()
    assert value_of(facts["trees"]) == grown.n_trees
    collapsed = shown["AdditiveForest"]
    assert value_of(read(collapsed).facts["nodes"]) == collapsed.node_values.shape[1]


def test_a_fitted_estimator_keeps_its_diagram_and_shows_its_fit(shown):
    model = shown["KPPClassifier"]
    with config_context(display="diagram"):
        bundle = model._repr_mimebundle_()
        assert bundle["text/html"].startswith(clone(model)._repr_html_()[:30])
        assert "sk-container" in bundle["text/html"]
        assert bundle["text/html"].count("kpp-card") == model._repr_html_().count("kpp-card") > 0
    facts = Reader(model._html_summary()).facts
    assert facts["regime"] == "shared"
    assert agree(facts["alpha"], model.alpha_)
    own = model.oof_prediction_[np.arange(150), (load_iris().target > 0).astype(int)]
    assert agree(facts["out-of-fold log loss"], -np.log(own).mean())
    assert agree(facts["norm of w"], np.linalg.norm(model.node_coef_))
    assert value_of(facts["trees"]) == model.forest_.n_trees
    assert value_of(facts["nodes (coordinates)"]) == model.node_coef_.size
    assert facts["rows"] == "150 in the linear layer"


def test_out_of_fold_score_is_that_of_the_out_of_fold_predictions():
    X, y = load_diabetes(return_X_y=True)
    model = kpp.KPPRegressor("extra-trees", n_estimators=10, random_state=0).fit(X, y)
    facts = Reader(model._html_summary()).facts
    expected = np.mean(np.square(y - model.oof_prediction_))
    assert agree(facts["out-of-fold mean squared error"], expected)
    named = clone(model).set_params(scoring="r2").fit(X, y)
    expected = 1 - np.mean(np.square(y - named.oof_prediction_)) / np.var(y)
    assert agree(Reader(named._html_summary()).facts["out-of-fold r2"], expected)


@pytest.mark.parametrize(
    ("regime", "said"),
    [
        ("shared", "diagnostics, not guarantees"),
        ("honest", "which of its conditions hold"),
        ("cross-fit", "fold by fold"),
        ("cross-validated", "left out a fold"),
        ("fixed", "the caller's word"),
    ],
)
def test_the_regime_says_what_may_be_claimed(regime, said):
    X, y = load_diabetes(return_X_y=True)
    given = "extra-trees"
    if regime == "fixed":
        given = kpp.Forest.from_model(RandomForestRegressor(5, random_state=0).fit(X, y))
    model = kpp.KPPRegressor(given, n_estimators=10, regime=regime, alpha=1.0, random_state=0).fit(
        X, y
    )
    page = Reader(model._html_summary())
    assert any(said in text for text in page.notes)
    none = "have not chosen it" if regime == "cross-validated" else "no out-of-fold predictions"
    assert any(none in text for text in page.notes)
    assert page.facts["regime"] == regime
    assert ("others for the trees" in page.facts["rows"]) == (regime == "honest")


def test_a_frozen_search_says_that_its_score_flatters():
    X, y = load_diabetes(return_X_y=True)
    model = kpp.KPPRegressor(
        "extra-trees",
        n_estimators=5,
        alphas=[1e-2, 1.0, 1e2],
        alpha_selection="frozen",
        random_state=0,
    ).fit(X, y)
    assert any("flatters" in text for text in Reader(model._html_summary()).notes)


def test_estimators_that_are_not_fitted_or_not_drawn(shown):
    unfitted = kpp.KPPRegressor("extra-trees")
    with config_context(display="diagram"):
        assert "kpp-card" not in unfitted._repr_html_()
        assert "kpp-card" not in unfitted._repr_mimebundle_()["text/html"]
    with config_context(display="text"):
        assert not hasattr(shown["KPPRegressor"], "_repr_html_")
        assert set(shown["KPPRegressor"]._repr_mimebundle_()) == {"text/plain"}
    pipeline = make_pipeline(StandardScaler(), unfitted)
    assert "KPPRegressor" in pipeline._repr_html_()


def hostile_results():
    X, y = load_wine(return_X_y=True, as_frame=True)
    X = X.iloc[:, :3].copy()
    X.columns = [HOSTILE, "ordinary", HOSTILE[::-1]]
    X["kind"] = pd.Categorical(np.where(np.arange(len(X)) % 2, HOSTILE, "b"))
    labels = np.array(["one", HOSTILE, "three"], dtype=object)[y]
    boosted = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    blocks = [("trees", boosted), (HOSTILE, boosted)]
    model = kpp.KPPClassifier(blocks, combine="joint", alpha=1e-2, random_state=0)
    model.fit(X, labels)
    row = X.iloc[[1]]
    return [
        model,
        kpp.explain(model, row),
        kpp.explain(model, X),
        kpp.explain(model, X).summary(),
        kpp.explain(model, row).for_output(HOSTILE),
        kpp.explain_rules(model, row, output=HOSTILE),
        kpp.explain_rules(model, row, output=HOSTILE).rules[0],
        kpp.explain_distance(model, row, X.iloc[[60]]),
        kpp.explain_training_rows(model, row, output=HOSTILE),
        bounds.Bound(HOSTILE, HOSTILE, 0.1, 0.1, 0.1, 0.5, HOSTILE, HOSTILE, 3),
        bounds.Assumption(HOSTILE, None, HOSTILE),
        bounds.BoundReport([], [HOSTILE]),
        diagnostics.Audit((), (HOSTILE,)),
    ]


def test_hostile_names_are_escaped():
    results = hostile_results()
    n_shown = 0
    for result in results:
        source = result._repr_html_()
        assert HOSTILE not in source, type(result)
        assert "<script>alert" not in source, type(result)
        assert '<b title="x"' not in source, type(result)
        if not isinstance(result, kpp.KPPClassifier):
            page = Reader(source)
            assert {"script", "b"}.isdisjoint(page.tags)
            assert "\u202e" not in source
            text = " ".join([*page.notes, *(cell for row in page.rows for cell in row)])
            n_shown += "<script>alert('1')</script>" in text
    # The reader sees the name as it is.
    assert n_shown >= len(results) - 2


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.123456, "0.1235"),
        (-0.5, "−0.5"),
        (12345, "12,345"),
        (np.int64(3), "3"),
        (np.float32(0.5), "0.5"),
        (np.inf, "∞"),
        (-np.inf, "−∞"),
        (np.nan, "–"),
        (None, "–"),
        (True, "yes"),
        (np.False_, "no"),
        ("text", "text"),
    ],
)
def test_numbers(value, expected):
    assert number(value) == expected


def test_escape_keeps_what_is_harmless_and_cuts_what_is_long():
    assert escape("naïve 温度 x²") == "naïve 温度 x²"
    assert escape("a\x00b\ud800c\u202ed") == "a\ufffdb\ufffdc\ufffdd"
    assert escape("\"&<>'") == "&quot;&amp;&lt;&gt;&#x27;"
    assert escape("x" * 1000) == "x" * (LONGEST_TEXT - 1) + "…"
    escape("a\ud800").encode()


def test_chart_draws_rising_values_upwards():
    page = Reader(chart(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, np.inf]), "label"))
    points = dict(page.attributes)["points"].split()
    (x0, y0), (x1, y1) = (map(float, point.split(",")) for point in points)
    assert len(points) == 2  # what is not finite is left out
    assert x0 < x1
    assert y0 > y1  # SVG counts downwards
    assert chart(np.array([1.0]), np.array([1.0]), "label") == ""
