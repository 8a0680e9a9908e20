"""The reading guide of the dashboard as checks with codes.

Each check has its threshold, and says by `source` where that comes from. The page on diagnostics
tells which of them predicted trouble on the development sets, and which did not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kpp._shown import Shown
from kpp.models.linear import KPPLinearModel

CALIBRATED = "upper or lower fifth of the development sets, benchmarks/findings_calibration.py"
CONVENTION = "convention, not calibrated"
DEFINITION = "definition"


@dataclass(frozen=True)
class Finding(Shown):
    """One remark on a model.

    Parameters
    ----------
    code : str
        KPP001, KPP002, ...
    title : str
        What was found.
    severity : {"info", "warning"}
        How bad it is.
    observable : str
        The figure that was looked at.
    value : float
        Its value.
    threshold : float
        What it was compared with.
    source : str
        Where the threshold comes from.
    meaning : str
        The symptom.
    action : str
        What to do.
    """

    code: str
    title: str
    severity: str
    observable: str
    value: float
    threshold: float
    source: str
    meaning: str
    action: str

    @property
    def anchor(self) -> str:
        """Where the documentation speaks of it."""
        return f"docs/diagnostics.md#{self.code.lower()}"

    def __str__(self) -> str:
        return (
            f"{self.code} {self.severity}: {self.title} ({self.observable} = {self.value:.3g}, "
            f"threshold {self.threshold:.3g}). {self.meaning} {self.action}"
        )


@dataclass(frozen=True)
class Check:
    """A rule that may give a finding.

    Parameters
    ----------
    code, title, severity, observable : str
        As in `Finding`.
    threshold : float
        What the figure is compared with.
    above : bool
        Whether the finding is raised above the threshold, or below.
    source, meaning, action : str
        As in `Finding`.
    applies : callable
        Whether the check is made for a model.
    """

    code: str
    title: str
    severity: str
    observable: str
    threshold: float
    above: bool
    source: str
    meaning: str
    action: str
    applies: Callable[[KPPLinearModel], bool] = lambda model: True

    def run(self, model: KPPLinearModel, figures: dict[str, float]) -> Finding | None:
        """Compare the figure with the threshold, where the check is made for the model."""
        return self.compare(figures) if self.applies(model) else None

    def compare(self, figures: dict[str, float]) -> Finding | None:
        """Compare the figure with the threshold."""
        value = figures.get(self.observable, np.nan)
        if np.isnan(value):
            return None
        if (value <= self.threshold) if self.above else (value >= self.threshold):
            return None
        return Finding(
            code=self.code,
            title=self.title,
            severity=self.severity,
            observable=self.observable,
            value=float(value),
            threshold=self.threshold,
            source=self.source,
            meaning=self.meaning,
            action=self.action,
        )


CHECKS: tuple[Check, ...] = (
    Check(
        "KPP001",
        "large raw capacity",
        "info",
        "trace_per_row",
        0.2,
        True,
        CALIBRATED,
        "Rows have large norms: a few shallow nodes carry most of the weight.",
        "Reduce the depth, or clip node weights.",
    ),
    Check(
        "KPP002",
        "many active ridge degrees of freedom",
        "warning",
        "effective_dimension_per_row",
        0.9,
        True,
        CALIBRATED,
        "The fit follows nearly every row individually.",
        "Increase alpha, or simplify the forest.",
    ),
    Check(
        "KPP003",
        "poor conditioning",
        "info",
        "condition_number",
        1e8,
        True,
        CONVENTION,
        "The linear system is nearly singular; coefficients depend on rounding.",
        "Increase alpha.",
    ),
    Check(
        "KPP004",
        "geometry still unstable in the number of trees",
        "warning",
        "relative_discrepancy",
        0.08,
        True,
        CALIBRATED,
        "Two halves of the forest give different kernels.",
        "Add trees if validation improves; otherwise stop.",
    ),
    Check(
        "KPP005",
        "weak partition gain",
        "warning",
        "adjusted_gain_share",
        0.25,
        False,
        CALIBRATED,
        "An average tree explains little of the target: the partition is the bottleneck, not the "
        "linear layer.",
        "Revisit splits, depth or features.",
    ),
    Check(
        "KPP006",
        "many margins near zero",
        "warning",
        "margins_near_zero",
        0.075,
        True,
        CALIBRATED,
        "Many rows are decided by a small score: weak separation and weak local robustness.",
        "Increase alpha, tune the representation, inspect labels.",
    ),
    Check(
        "KPP007",
        "weak robustness",
        "info",
        "relative_radius",
        0.005,
        False,
        CALIBRATED,
        "The norm of w is large: a small move in the forest's metric may change the answer.",
        "Increase alpha, or simplify the representation.",
    ),
    Check(
        "KPP008",
        "alpha on the edge of its grid",
        "warning",
        "alpha_on_edge",
        0.5,
        True,
        DEFINITION,
        "The best alpha may lie beyond the grid that was searched.",
        "Give a wider grid by alphas=...",
    ),
    Check(
        "KPP009",
        "bounds on the training rows are diagnostics only",
        "info",
        "label_dependent",
        0.5,
        True,
        DEFINITION,
        "The forest has seen the labels of the fit (PB-04).",
        "Use regime='cross-validated' or 'honest' where a guarantee is needed.",
    ),
    Check(
        "KPP010",
        "probabilities are not calibrated",
        "warning",
        "excess_calibration_error",
        0.05,
        True,
        CONVENTION,
        "Predicted probabilities and observed shares differ by more than chance explains.",
        "Choose alpha by log loss, or calibrate on held-out rows.",
    ),
    Check(
        "KPP011",
        "no better than a constant",
        "warning",
        "skill",
        0.0,
        False,
        DEFINITION,
        "On these rows the constant of the training rows has the smaller loss.",
        "Increase alpha; look for a shift between the rows of the fit and these.",
    ),
    Check(
        "KPP012",
        "training loss far below the out-of-fold loss",
        "warning",
        "out_of_fold_gap",
        0.99,
        True,
        CALIBRATED,
        "The rows are interpolated: training loss is below a hundredth of the out-of-fold loss.",
        "Increase alpha, or take scores from out-of-fold predictions only.",
    ),
)


def find(
    model: KPPLinearModel, figures: dict[str, float], silence: Sequence[str] = ()
) -> list[Finding]:
    """Run all checks but the silenced ones, warnings first.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted.
    figures : dict of float
        Observables and metrics by name.
    silence : sequence of str
        Codes to leave out.

    Returns
    -------
    findings : list of Finding
    """
    known = {check.code for check in CHECKS}
    for code in silence:
        if code not in known:
            hint = "" if re.fullmatch(r"KPP\d{3}", str(code)) else " Codes look like 'KPP001'."
            raise ValueError(
                f"silence holds {code!r}, which is no code: known are {', '.join(sorted(known))}."
                f"{hint}"
            )
    found = [check.run(model, figures) for check in CHECKS if check.code not in silence]
    return sorted(
        (finding for finding in found if finding is not None),
        key=lambda finding: (finding.severity != "warning", finding.code),
    )
