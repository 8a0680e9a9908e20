"""What notebooks show of diagnostics and audits."""

from __future__ import annotations

from kpp._shown import picture
from kpp.diagnostics import (
    Audit,
    AuditCheck,
    Compared,
    Comparison,
    DataChecks,
    Diagnostics,
    Drift,
    MeasuredCoverage,
    Segment,
    Segments,
)
from kpp.views.bounds import conditions
from kpp.views.html import by_field, card, note, table

MOST_SEGMENTS = 15


@picture.register
def diagnostics(result: Diagnostics) -> str:
    """The findings, then every figure."""
    figures = [
        (o.family, o.name, o.symbol, o.value, o.error or None, o.spread) for o in result.observables
    ]
    metrics = [
        ("predictive", name, "", value, None, None) for name, value in result.metrics.items()
    ]
    header = ["family", "figure", "symbol", "value", "error", "spread over folds"]
    findings = [
        (f.code, f.severity, f.title, f.value, f.threshold, f"{f.meaning} {f.action}")
        for f in result.findings
    ]
    return card(
        f"Diagnostics on {result.n_rows:,} {result.sample} rows, regime {result.regime}",
        table(["code", "", "finding", "value", "threshold", "what to do"], findings)
        if findings
        else note("No findings."),
        table(header, [*figures, *metrics]),
        note("All of this is conditional on the fitted representation; none is a guarantee."),
    )


@picture.register
def audit(result: Audit) -> str:
    """One line an identity, and what was skipped."""
    rows = [
        ("holds" if c.holds else "FAILS", c.name, c.violation, c.tolerance, c.n_checked)
        for c in result.checks
    ]
    header = ["", "identity", "largest violation", "rounding allows", "checked"]
    verdict = "every identity holds" if result.holds else "an identity FAILS"
    return card(
        f"Audit: {verdict}",
        table(header, rows),
        *(note(f"Skipped: {reason}") for reason in result.skipped),
    )


@picture.register
def audit_check(check: AuditCheck) -> str:
    """One identity, and whether it holds."""
    return by_field(check, "holds")


@picture.register
def comparison(result: Comparison) -> str:
    """One line a model; differences are of the mean loss."""
    first = "rmse" if result.loss == "squared error" else "log_loss"
    rows = [
        (
            one.name,
            one.scores[first],
            one.seconds,
            *((one.difference, one.low, one.high, one.verdict) if k else (None,) * 4),
        )
        for k, one in enumerate(result.models)
    ]
    header = ["model", first.replace("_", " "), "fit, s", "difference", "low", "high", ""]
    return card(
        f"{result.n_test:,} test rows, fitted on {result.n_train:,}",
        table(header, rows),
        note(f"Differences of the {result.loss} to the first model, with 95% intervals."),
        note(result.said),
        *(note(f"{name} was left out: {reason}") for name, reason in result.left_out.items()),
    )


@picture.register
def compared(one: Compared) -> str:
    """One model of a comparison."""
    return by_field(one, "verdict")


@picture.register
def segments(result: Segments) -> str:
    """The worst segments, and what the verdicts are worth."""
    header = ["segment", "rows", result.loss, "from", "to", "rest", "adjusted p", ""]
    rows = [
        (one.name, one.n_rows, one.loss, one.low, one.high, one.rest, one.adjusted, one.verdict)
        for one in result.segments[:MOST_SEGMENTS]
    ]
    more = len(result.segments) - MOST_SEGMENTS
    return card(
        f"{result.n_rows:,} rows, mean {result.loss} {result.overall:.4g}",
        table(header, rows),
        *([note(f"and {more:,} more; to_frame() has all")] if more > 0 else []),
        note(result.said),
        *map(note, result.notes),
    )


@picture.register
def segment(one: Segment) -> str:
    """One segment beside the rest."""
    return by_field(one)


@picture.register
def measured_coverage(result: MeasuredCoverage) -> str:
    """Shares covered by level and by prediction, and what the coverage is worth."""
    size = "mean size" if result.is_sets else "mean width"
    by = "probability" if result.is_sets else "prediction"
    parts = (("asked for", result.by_level), (by, result.by_prediction))
    tables = [
        table(
            [name, "covered", "from", "to", size, "rows"],
            [(one.at, one.share, one.low, one.high, one.size, one.n_rows) for one in shares],
        )
        for name, shares in parts
    ]
    own = result.overall
    return card(
        f"Coverage of {own.at:.4g} asked for, {own.share:.4g} of {own.n_rows:,} rows covered",
        *tables,
        note(f"{result.found.status.capitalize()}; from and to are 95% intervals of the share."),
        conditions(result.found.conditions),
    )


@picture.register
def drift(result: Drift) -> str:
    """The verdict, the predictions, the columns and the boxes."""
    predictions = [(one.name, one.reference, one.new, one.z) for one in result.predictions]
    columns = [(one.column, one.distance, one.times) for one in result.columns[:10]]
    boxes = [(one.reference, one.new, one.z, one.text) for one in result.boxes]
    return card(
        result.verdict,
        table(["predictions", "reference", "new", "z"], predictions),
        table(["column", "part of the distance", "times chance"], columns),
        table(["reference", "new", "z", "box"], boxes),
        *(note(remark) for remark in result.remarks()),
        note(f"{result.n_new:,} new rows beside {result.n_reference:,} {result.reference}."),
    )


@picture.register
def data_checks(result: DataChecks) -> str:
    """The findings, then the columns."""
    findings = [(f.code, f.severity, f.title, f"{f.meaning} {f.action}") for f in result.findings]
    columns = [
        (one.name, one.kind, one.n_missing, one.n_distinct, one.skill)
        for one in result.columns[:40]
    ]
    return card(
        f"{result.n_rows:,} rows, {result.n_columns} columns",
        table(["code", "", "finding", "what to do"], findings)
        if findings
        else note("No findings."),
        table(["column", "kind", "missing", "distinct", "skill alone"], columns),
    )
