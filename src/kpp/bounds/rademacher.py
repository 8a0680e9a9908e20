"""The empirical Rademacher complexity of a ball of linear predictors (RG-02, CL-02)."""

from __future__ import annotations

import numpy as np

from kpp.bounds.assumptions import (
    preparation_assumptions,
    representation_assumption,
    rows_assumption,
)
from kpp.bounds.predictors import LinearPredictor
from kpp.bounds.results import Assumption, Bound
from kpp.bounds.samples import Sample


def rademacher_complexity(radius: float, trace: float, n_rows: int, *, n_classes: int = 2) -> float:
    r"""Bound the empirical Rademacher complexity of the ball of radius B.

    .. math:: \hat{\mathcal R}_n \le \frac{B}{n} \sqrt{\mathrm{Tr}(G_T)}

    For K > 2 classes, with B the norm of all coefficients and one sign per row and class, it is
    :math:`\frac{B}{n} \sqrt{K\, \mathrm{Tr}(G_T)}`.

    Parameters
    ----------
    radius : float
        B.
    trace : float
        Trace of the Gram at the rows: the sum of their squared norms.
    n_rows : int
        n.
    n_classes : int
        K; 2 stands for one score.

    Returns
    -------
    complexity : float

    References
    ----------
    Proposition trace-rademacher.

    Examples
    --------
    >>> from kpp.bounds import rademacher_complexity
    >>> rademacher_complexity(2.0, 25.0, 100)
    0.1
    """
    scores = n_classes if n_classes > 2 else 1
    return float(radius / n_rows * np.sqrt(scores * trace))


def trace_bounds(sample: Sample, predictor: LinearPredictor, delta: float) -> list[Bound]:
    """RG-02 or CL-02: the complexity of the proposition, and twice it, as it enters a bound."""
    label = "CL-02" if predictor.n_classes else "RG-02"
    value = rademacher_complexity(
        predictor.norm, predictor.trace, predictor.n_rows, n_classes=predictor.n_classes
    )
    found = []
    for name, factor, constant in (
        (f"{label} trace", 1, "proposition, and the paper's table"),
        (f"{label} trace, symmetrised", 2, "as it enters the uniform bounds"),
    ):
        found.append(
            Bound(
                name=name,
                quantity="Rademacher complexity",
                empirical_risk=0.0,
                complexity=factor * value,
                confidence=0.0,
                trivial_level=np.nan,
                regime=sample.question.regime.name,
                sample=sample.kind,
                n_rows=predictor.n_rows,
                delta=delta,
                constant=constant,
                assumptions=class_assumptions(sample, predictor),
                details={"B": predictor.norm, "trace": predictor.trace},
            )
        )
    return found


def class_assumptions(
    sample: Sample, predictor: LinearPredictor, *others: Assumption
) -> tuple[Assumption, ...]:
    """What the paper's bounds ask of the class and of the sample; `others` are those of one bound.

    What fails by the preparation comes last, whatever the bound.
    """
    radius = Assumption(
        "radius B fixed before the sample",
        True,
        "these rows were not used by fit, and B = |w| was known before them",
    )
    if sample.kind != "test" or sample.seen is not None:
        radius = Assumption(
            "radius B fixed before the sample", False, "B = |w| was taken after the fit"
        )
    if not predictor.intercept.any():
        intercept = Assumption("homogeneous class", True, "there is no intercept")
    else:
        intercept = Assumption(
            "homogeneous class",
            False,
            "a separate intercept was fitted, outside the ball; use fit_intercept=False",
        )
    sup_norm = predictor.map.sup_norm()
    norm = Assumption("norm bound", True, f"|Phi| is at most {sup_norm:.4g} for every input")
    return (
        representation_assumption(sample),
        rows_assumption(sample),
        radius,
        intercept,
        norm,
        *others,
        *preparation_assumptions(sample),
    )
