"""The empirical Rademacher complexity of a ball of linear predictors (RG-02, CL-02)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._checks import RefusedError
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


def trace_bounds(
    sample: Sample, predictor: LinearPredictor, delta: float, radius: float | None = None
) -> list[Bound]:
    """RG-02 or CL-02: the complexity of the proposition, and twice it, as it enters a bound."""
    label = "CL-02" if predictor.n_classes else "RG-02"
    B = predictor.norm if radius is None else radius
    value = rademacher_complexity(
        B, predictor.trace, predictor.n_rows, n_classes=predictor.n_classes
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
                assumptions=class_assumptions(sample, predictor, radius=radius),
                details={"B": B, "trace": predictor.trace},
            )
        )
    return found


def check_radius(radius: Any) -> float | None:
    """Refuse a radius that is not a positive finite number; None stays None."""
    if radius is None:
        return None
    if not isinstance(radius, int | float | np.number) or not 0 < radius < np.inf:
        raise RefusedError(f"radius is a positive finite number B >= |w|; got {radius!r}.")
    return float(radius)


def check_covers(radius: float | None, predictor: LinearPredictor, which: str = "") -> None:
    """Refuse a ball that does not hold the coefficients."""
    if radius is not None and predictor.norm > radius:
        raise RefusedError(
            f"radius={radius:g} does not cover this model: its |w|{which} is "
            f"{predictor.norm:.6g}, and the bound speaks of |w| <= B only. Fit with "
            f"max_norm={radius:g}, or give a larger radius that was fixed before the sample."
        )


def class_assumptions(
    sample: Sample,
    predictor: LinearPredictor,
    *others: Assumption,
    radius: float | None = None,
) -> tuple[Assumption, ...]:
    """What the paper's bounds ask of the class and of the sample; `others` are those of one bound.

    What fails by the preparation comes last, whatever the bound.
    """
    name = "radius B fixed before the sample"
    if radius is not None:
        ball = Assumption(
            name, None, f"the caller says that B = {radius:g} was fixed before the sample"
        )
    elif sample.kind != "test" or sample.seen is not None:
        ball = Assumption(name, False, "B = |w| was taken after the fit; give radius")
    else:
        ball = Assumption(
            name, True, "these rows were not used by fit, and B = |w| was known before them"
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
        ball,
        intercept,
        norm,
        *others,
        *preparation_assumptions(sample),
    )
