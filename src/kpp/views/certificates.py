"""What notebooks show of certificates and curves of robustness."""

from __future__ import annotations

from typing import Any

from kpp._shown import picture
from kpp.certificates import Certificate, CurveBand, RawCertificate, RobustnessCurve
from kpp.geometry.kernel import METRICS
from kpp.views.html import card, chart, facts, note, quantiles, table


@picture.register
def certificate(result: Certificate) -> str:
    """Radii and margins from the smallest to the largest, and what a radius says."""
    figures: dict[str, Any] = {
        "rows": len(result.radius),
        "never change": int(result.never_flips.sum()),
    }
    names = {"radius": result.radius, "paper's radius": result.lipschitz, "margin": result.margin}
    return card(
        f"Certificate, {result.method}",
        facts(figures | _tolerance(result)),
        table(
            ["", "smallest", "median", "largest"],
            [(name, *quantiles(values).values()) for name, values in names.items()],
        ),
        note(
            f"Every x' nearer than the radius, in {result.metric}, gets the same "
            "answer. That says nothing of raw values, nor of true labels."
        ),
    )


@picture.register
def raw_certificate(result: RawCertificate) -> str:
    """Certified radii and the nearest other answers, in units of the scale."""
    figures: dict[str, Any] = {
        "rows": len(result.radius),
        "nothing certified": int((~result.certified).sum()),
        "worked on to the end": int(result.finished.sum()),
        "counterexample found": int(result.found.sum()),
        "columns that stay": int((result.scale == 0).sum()),
    }
    return card(
        "RawCertificate",
        facts(figures | _tolerance(result)),
        table(
            ["in units of scale", "smallest", "median", "largest"],
            [
                ("certified radius", *quantiles(result.radius).values()),
                ("nearest other answer found", *quantiles(result.upper_radius).values()),
            ],
        ),
        note(
            "Where the radius is above 0, every x' whose columns all differ by at most radius "
            "times scale gets the same answer; a radius of 0 certifies nothing beyond the row. "
            "Columns are those that the model sees. That says nothing of true labels."
        ),
    )


@picture.register
def robustness_curve(curve: RobustnessCurve) -> str:
    """The curve, where it starts and where it falls."""
    figures = {"at radius 0": curve(0.0), "u_half": curve.u_half, "u_max": curve.u_max}
    if curve.metric == "accuracy":
        figures["right and never changes"] = curve.never_flips
        said = "At least this share of rows is right and stays so within the radius,"
    else:
        said = "The squared error is at most this within the radius,"
    label = ""
    if len(curve.radii):
        label = (
            f"certified {curve.metric}, for radii from {curve.radii.min():.3g} to "
            f"{curve.radii.max():.3g}"
        )
    return card(
        f"RobustnessCurve, {curve.metric}, {curve.method}",
        facts(figures),
        chart(curve.radii, curve.values, label),
        note(
            f"{said} in {METRICS[curve.normalize]}, if the true label stays what it is. That "
            "says nothing of raw values."
        ),
    )


@picture.register
def curve_band(band: CurveBand) -> str:
    """The mean of several curves."""
    figures = {
        "curves": len(band.values),
        "mean at the first radius": float(band.mean[0]),
        "mean u_half": float(band.u_half.mean()),
        "mean u_max": float(band.u_max.mean()),
    }
    label = f"mean certified {band.metric}, radii up to {band.radii.max():.3g}"
    return card(
        f"CurveBand, {band.metric}, {band.method}",
        facts(figures),
        chart(band.radii, band.mean, label),
    )


def _tolerance(result: Certificate | RawCertificate) -> dict[str, str]:
    """Epsilon, which regression has."""
    if result.epsilon is None:
        return {}
    return {"tolerance epsilon": ", ".join(f"{e:.4g}" for e in result.epsilon)}
