"""The charts of the sections, from their data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kpp.diagnostics.segments import WORSE
from kpp.reports.dotplot import Dot, dot_plot
from kpp.reports.svg import Chart, markup, padded
from kpp.tables.numbers import number, percent

# Cells of a heat map have few shades: more cannot be told apart.
N_SHADES = 6
MOST_DOTS = 12


def draw_all(sections: dict[str, Any]) -> dict[str, Any]:
    """Every chart of the sections that could be made, by name."""
    found: dict[str, Any] = {}
    quality = sections["quality"]
    if quality["made"]:
        for k, chart in enumerate(quality.get("charts", [])):
            found[f"density{k}"] = density(chart)
            found[f"residuals{k}"] = residuals(chart)
        if "calibration" in quality:
            found["calibration"] = calibration(quality["calibration"])
        if "roc" in quality:
            found["roc"] = roc(quality["roc"])
        if "finding" in quality:
            found["precision_recall"] = precision_recall(quality["finding"])
            found["gains"] = gains(quality["finding"])
    if sections.get("comparison", {}).get("made") and len(sections["comparison"]["models"]) > 1:
        found["comparison"] = comparison(sections["comparison"])
    if sections.get("segments", {}).get("made") and sections["segments"]["segments"]:
        found["segments"] = segments(sections["segments"])
    if sections["alpha"]["made"] and len(sections["alpha"]["points"]) > 1:
        found["alpha"] = alpha(sections["alpha"])
    intervals = sections["intervals"]
    for k, own in enumerate(intervals["outputs"] if intervals["made"] else []):
        found[f"coverage{k}"] = coverage(own["by_level"])
        found[f"covered{k}"] = covered(
            own["by_prediction"], intervals["level"], is_sets=intervals["is_sets"]
        )
    if sections["picture"]["made"]:
        found["picture"] = picture(sections["picture"])
    if sections["robustness"]["made"]:
        found["robustness"] = robustness(sections["robustness"])
    return found


def density(data: dict[str, Any]) -> Any:
    """Predicted against actual, as shaded cells."""
    edges, cells = data["density"]["edges"], data["density"]["cells"]
    ends = (edges[0], edges[-1])
    most = max(count for _, _, count in cells)
    chart = Chart(
        ends,
        ends,
        "predicted",
        "actual",
        "Actual against predicted values, counted in a grid; the closer to the diagonal, the "
        "better.",
        height=330,
    )
    for i, j, count in cells:
        # By the root of the count: a few crowded cells would leave the others blank.
        shade = max(1, math.ceil(N_SHADES * math.sqrt(count / most)))
        chart.cell((edges[i], edges[i + 1]), (edges[j], edges[j + 1]), f"shade{shade}")
    return chart.line(ends, ends, "reference").draw()


def residuals(data: dict[str, Any]) -> Any:
    """Histogram of what was left over."""
    edges, counts = data["residuals"]["edges"], data["residuals"]["counts"]
    chart = Chart(
        (edges[0], edges[-1]),
        (0, max(counts) * 1.05 or 1),
        "actual minus predicted",
        "rows",
        "Histogram of actual minus predicted values.",
        height=330,
    )
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        if count:
            chart.cell((low, high), (0, count), "column")
    return chart.rule(x=0, kind="reference").draw()


def calibration(data: dict[str, Any]) -> Any:
    """Observed share against predicted probability, with intervals."""
    chart = Chart(
        (0, 1),
        (0, 1),
        "predicted probability",
        "observed share",
        f"Calibration: observed share against predicted probability {data['what']}; on the "
        "diagonal both agree.",
        height=330,
    )
    chart.line((0, 1), (0, 1), "reference")
    for one in data["bins"]:
        chart.whisker(one["predicted"], one["low"], one["high"], "first")
    chart.line(
        [one["predicted"] for one in data["bins"]],
        [one["observed"] for one in data["bins"]],
        "thin",
    )
    for one in data["bins"]:
        title = (
            f"predicted {percent(one['predicted'])}, observed {percent(one['observed'])}, "
            f"{one['n_rows']} rows"
        )
        chart.point(one["predicted"], one["observed"], "dot first", title=title)
    return chart.draw()


def roc(data: dict[str, Any]) -> Any:
    """The ROC curve."""
    chart = Chart(
        (0, 1),
        (0, 1.02),
        "false positive rate",
        "true positive rate",
        f"ROC curve of class {data['class']}: true against false positives for every threshold.",
        height=330,
    )
    chart.line((0, 1), (0, 1), "reference")
    return chart.line(data["false_positive"], data["true_positive"], "first").draw()


def precision_recall(data: dict[str, Any]) -> Any:
    """Precision against recall, and the share of the class."""
    chart = Chart(
        (0, 1),
        (0, 1.02),
        "recall",
        "precision",
        f"Precision against recall of class {data['class']} for every threshold.",
        height=330,
    )
    chart.rule(y=data["share"], kind="reference")
    recall, precision = data["curve"]["recall"], data["curve"]["precision"]
    return chart.line([0, *recall], [precision[0], *precision], "first").draw()


def gains(data: dict[str, Any]) -> Any:
    """Share of a class found against share of rows taken, between chance and the best order."""
    chart = Chart(
        (0, 1),
        (0, 1.02),
        "rows looked at",
        "class found",
        f"Share of class {data['class']} that is found in a share of the rows, those of the "
        "highest probability first.",
        height=330,
    )
    chart.line((0, 1), (0, 1), "reference").line((0, data["share"], 1), (0, 1, 1), "reference")
    return chart.line(data["gains"]["taken"], data["gains"]["found"], "first").draw()


def comparison(data: dict[str, Any]) -> Any:
    """Differences to the model, one line a rival."""
    kinds = {"worse": "good", "better": "bad"}
    dots = [
        Dot(
            one["name"],
            one["difference"],
            one["low"],
            one["high"],
            kinds.get(one["verdict"], "none"),
        )
        for one in data["models"][1:]
    ]
    label = f"Differences of the {data['loss']} to the model; the figures are in the table above."
    return dot_plot(dots, f"{data['loss']} less that of the model", label)


def segments(data: dict[str, Any]) -> Any:
    """Differences to the other rows, one line a segment."""
    dots = [
        Dot(
            f"{one['name']} ({one['n_rows']:,})",
            one["difference"],
            one["difference_low"],
            one["difference_high"],
            "bad" if one["verdict"] == WORSE else "none",
        )
        for one in data["segments"][:MOST_DOTS]
        if one["difference"] is not None
    ]
    label = f"Differences of the {data['loss']} of segments to that of all other rows."
    return dot_plot(dots, f"{data['loss']} less that of the other rows", label)


def coverage(shares: list[dict[str, Any]]) -> Any:
    """Share covered against share asked for, with intervals."""
    low = min(min(one["low"], one["at"]) for one in shares)
    ends = (max(0.0, 0.1 * math.floor(10 * low)), 1.0)
    chart = Chart(
        ends,
        ends,
        "asked for",
        "covered",
        "Share of rows that are covered against the share asked for; on the diagonal both agree.",
        height=330,
    )
    chart.line(ends, ends, "reference")
    return _shares(chart, shares, "asked for", percent).draw()


def covered(shares: list[dict[str, Any]], level: float, *, is_sets: bool) -> Any:
    """Share covered in bins by the prediction, with intervals."""
    low = min(min(one["low"] for one in shares), level)
    ats = [one["at"] for one in shares]
    # Most rows of a good classifier have nearly the same probability: such bins would lie on each
    # other, and stand side by side instead, each with its mean.
    places = [float(k) for k in range(len(shares))] if is_sets else ats
    chart = Chart(
        (-0.5, len(shares) - 0.5) if is_sets else padded(ats),
        (max(0.0, 0.1 * math.floor(10 * low)), 1.0),
        "mean probability of the predicted class, by bin" if is_sets else "prediction",
        "covered",
        f"Share of rows that are covered, by {'probability' if is_sets else 'prediction'}; "
        f"{percent(level, 0)} are asked for.",
        height=330,
        x_texts=[percent(at) for at in ats] if is_sets else (),
    )
    chart.rule(y=level, kind="reference")
    return _shares(chart, shares, "at", percent if is_sets else number, places).draw()


def _shares(
    chart: Chart,
    shares: list[dict[str, Any]],
    name: str,
    write: Any,
    places: Sequence[float] | None = None,
) -> Chart:
    """Add a dot with its interval for each share, at its own value or at a given place."""
    at = [one["at"] for one in shares] if places is None else places
    for x, one in zip(at, shares, strict=True):
        chart.whisker(x, one["low"], one["high"], "first")
    for x, one in zip(at, shares, strict=True):
        title = f"{name} {write(one['at'])}: {percent(one['share'])} of {one['n_rows']} rows"
        chart.point(x, one["share"], "dot first", title=title)
    return chart


def alpha(data: dict[str, Any]) -> Any:
    """Score against alpha, the choice marked."""
    xs = [point["alpha"] for point in data["points"]]
    ys = [point["value"] for point in data["points"]]
    chosen = next(point for point in data["points"] if point["chosen"])
    chart = Chart(
        (min(xs) / 1.3, max(xs) * 1.3),
        padded(ys),
        "alpha (each step a factor)",
        f"out-of-fold {_short(data['metric'])}",
        f"Out-of-fold {data['metric']} for {len(xs)} values of alpha; the chosen one is "
        f"{number(chosen['alpha'])}.",
        log_x=True,
    )
    chart.rule(x=chosen["alpha"], kind="reference").line(xs, ys, "first")
    for x, y in zip(xs, ys, strict=True):
        chart.point(x, y, "dot first", 2.5, f"alpha {number(x)}: {number(y, 4)}")
    chart.point(chosen["alpha"], chosen["value"], "dot chosen", 6)
    return chart.draw()


def robustness(data: dict[str, Any]) -> Any:
    """Both curves against the radius."""
    radii = data["radii"]
    accuracy = data["is_accuracy"]
    # The paper's bound on an error may be far above: its end is cut off, not the leafwise curve.
    ends = (0.0, 1.02 if accuracy else max(data["leafwise"]) * 1.25 or 1.0)
    chart = Chart(
        (0.0, radii[-1]),
        ends,
        "radius in δ_K (mean over trees)"
        if data["normalize"] == "tree"
        else "radius in δ_T (the forest's metric)",
        _short(data["metric"]),
        f"{data['metric'].capitalize()} against the radius, by the leafwise certificate and by "
        "the paper's Lipschitz bound.",
    )
    inside = [i for i, v in enumerate(data["lipschitz"]) if v <= ends[1]]
    chart.line(
        [radii[i] for i in inside],
        [data["lipschitz"][i] for i in inside],
        "second dashed",
        steps=accuracy,
    )
    return chart.line(radii, data["leafwise"], "first", steps=accuracy).draw()


def _short(metric: str) -> str:
    """A metric as it fits beside an axis."""
    return metric.replace("root mean squared error", "RMSE")


def picture(data: dict[str, Any]) -> Any:
    """The rows by their two leading components."""
    first, second = (percent(share) for share in data["share"])
    chart = Chart(
        padded(data["x"]),
        padded(data["y"]),
        f"first component ({first})",
        f"second component ({second})",
        f"{data['n_rows']} rows by the two leading components of their embedding.",
        height=400,
    )
    cuts = [] if data["colour"] == "class" else [low for low, _ in fifths(data["value"])[1:]]
    for i, (x, y) in enumerate(zip(data["x"], data["y"], strict=True)):
        if data["colour"] == "class":
            chart.mark(x, y, data["group"][i], ringed=data["wrong"][i])
        else:
            chart.point(x, y, f"row value{sum(data['value'][i] > cut for cut in cuts)}", 3.2)
    return chart.draw()


def fifths(values: list[float]) -> list[tuple[float, float]]:
    """Lowest and highest value of each fifth of the rows, in order."""
    ordered = sorted(values)
    cuts = [ordered[min(len(ordered) * k // 5, len(ordered) - 1)] for k in range(5)]
    return [(cuts[k], cuts[k + 1] if k < 4 else ordered[-1]) for k in range(5)]


def bar(share: float, kind: str = "first") -> Any:
    """A bar in a table, as long as its share of the cell."""
    width = f"{100 * min(max(share, 0.0), 1.0):.2f}"
    return markup(
        '<svg class="bar" aria-hidden="true" focusable="false">'
        f'<rect class="{kind}" width="{width}%" height="100%" rx="2"/></svg>'
    )


def spark(counts: list[int]) -> Any:
    """A histogram as small as a word, for a table: one path, so that many cost little."""
    most = max(counts)
    bars = "".join(
        f"M{10 * k} 40V{40 - 40 * n / most:.0f}h9V40z" for k, n in enumerate(counts) if n
    )
    return markup(
        f'<svg class="bar spark" viewBox="0 0 {10 * len(counts)} 40" '
        f'preserveAspectRatio="none" aria-hidden="true"><path class="first" d="{bars}"/></svg>'
    )
