r"""The paper's uniform bounds: squared loss (RG-03), logistic loss (CL-03), and the 0/1 error.

Each is the empirical risk, a Rademacher term and a confidence term, over the homogeneous class
:math:`\{x \mapsto \langle w, \Phi(x) \rangle : \|w\| \le B\}`, evaluated at a given B, or at
:math:`B = \|\hat w\|`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp.bounds.assumptions import Range, range_assumption
from kpp.bounds.informed import trivial_level
from kpp.bounds.lipschitz_losses import lipschitz_bounds
from kpp.bounds.predictors import LinearPredictor, logistic_losses
from kpp.bounds.rademacher import class_assumptions, rademacher_complexity
from kpp.bounds.results import Assumption, Bound
from kpp.bounds.samples import Sample
from kpp.solvers import ClippedLoss

CONSTANTS = ("printed", "proof")


def squared_loss_terms(
    radius: float,
    largest: float,
    trace: float,
    n_rows: int,
    delta: float = 0.05,
    *,
    constant: str = "proof",
) -> tuple[float, float]:
    r"""Complexity and confidence of the uniform squared-loss bound.

    .. math::
        4 (M + B) \frac{B}{n} \sqrt{\mathrm{Tr}(G_T)}, \qquad
        \text{printed: } 3 (M + B)^2 \sqrt{\frac{2 \log(2/\delta)}{n}}, \quad
        \text{proof: } 3 (M + B)^2 \sqrt{\frac{\log(2/\delta)}{2 n}}

    The printed confidence term is twice what the proof gives: bounded differences with range
    :math:`(M + B)^2` need :math:`\sqrt{\log(2/\delta) / (2n)}`.

    Parameters
    ----------
    radius : float
        B.
    largest : float
        M, a bound of :math:`|Y|`.
    trace : float
        Trace of the Gram.
    n_rows : int
        n.
    delta : float
        Probability with which the bound may fail.
    constant : {"proof", "printed"}
        Which constant.

    Returns
    -------
    complexity, confidence : float

    References
    ----------
    Proposition uniform-squared-loss-bound.

    Examples
    --------
    >>> from kpp.bounds import squared_loss_terms
    >>> [round(term, 3) for term in squared_loss_terms(1.0, 1.0, 25.0, 100)]
    [0.4, 1.63]
    >>> [round(term, 3) for term in squared_loss_terms(1.0, 1.0, 25.0, 100, constant="printed")]
    [0.4, 3.259]
    """
    complexity = 4 * (largest + radius) * rademacher_complexity(radius, trace, n_rows)
    confidence = 3 * (largest + radius) ** 2 * np.sqrt(np.log(2 / delta) / (2 * n_rows))
    return complexity, float(confidence) * (2 if constant == "printed" else 1)


def logistic_loss_terms(
    radius: float, trace: float, n_rows: int, delta: float = 0.05, *, n_classes: int = 2
) -> tuple[float, float]:
    r"""Complexity and confidence of the uniform logistic bound.

    .. math::
        \frac{2 B}{n} \sqrt{\mathrm{Tr}(G_T)}, \qquad
        3 C_B \sqrt{\frac{\log(2/\delta)}{2 n}}, \quad C_B = \log(1 + e^B)

    For K > 2 classes the loss is :math:`\sqrt 2`-Lipschitz in the vector of scores, and the
    vector form of the contraction inequality (Maurer 2016) gives
    :math:`\frac{4 B}{n} \sqrt{K\, \mathrm{Tr}(G_T)}` and
    :math:`C_B = \log(1 + (K - 1) e^{\sqrt 2 B})`, with B the norm of all coefficients.

    Parameters
    ----------
    radius : float
        B.
    trace : float
        Trace of the Gram.
    n_rows : int
        n.
    delta : float
        Probability with which the bound may fail.
    n_classes : int
        K.

    Returns
    -------
    complexity, confidence : float

    References
    ----------
    Theorem uniform-logistic-bound.

    Examples
    --------
    >>> from kpp.bounds import logistic_loss_terms
    >>> [round(term, 3) for term in logistic_loss_terms(1.0, 25.0, 100)]
    [0.1, 0.535]
    """
    complexity = 2 * rademacher_complexity(radius, trace, n_rows, n_classes=n_classes)
    largest = float(np.logaddexp(0.0, radius))
    if n_classes > 2:
        complexity *= 2
        largest = float(np.logaddexp(0.0, np.log(n_classes - 1) + np.sqrt(2) * radius))
    return complexity, float(3 * largest * np.sqrt(np.log(2 / delta) / (2 * n_rows)))


def uniform_bounds(
    sample: Sample,
    predictor: LinearPredictor,
    delta: float,
    y_range: Range | None,
    radius: float | None = None,
) -> list[Bound]:
    """RG-03 with both constants, or that of another loss; or CL-03, and the 0/1 error."""
    B = predictor.norm if radius is None else radius
    # Predictions lie in [-B R, B R]; R is at most 1 for one forest, not for several.
    largest = B * max(1.0, predictor.map.sup_norm())
    common: dict[str, Any] = {
        "regime": sample.question.regime.name,
        "sample": sample.kind,
        "n_rows": predictor.n_rows,
        "delta": delta,
    }
    if isinstance(sample.question.model.loss_, ClippedLoss):
        return lipschitz_bounds(sample, predictor, (B, largest), radius, y_range, common)
    if predictor.n_classes == 0:
        return _squared(sample, predictor, (B, largest), radius, y_range, common)
    assumptions = class_assumptions(sample, predictor, radius=radius)
    terms = logistic_loss_terms(
        largest, predictor.trace, predictor.n_rows, delta, n_classes=predictor.n_classes
    )
    risk = float(logistic_losses(predictor.scores, predictor.target).mean())
    constant = "printed = proof" if predictor.n_classes == 2 else "vector contraction"
    details = {"B": B, "trace": predictor.trace}
    return [
        Bound(
            name="CL-03 uniform logistic",
            quantity="logistic loss",
            empirical_risk=risk,
            complexity=terms[0],
            confidence=terms[1],
            trivial_level=float(np.log(predictor.n_classes)),
            constant=constant,
            assumptions=assumptions,
            details=details,
            **common,
        ),
        # An error costs at least log 2 of logistic loss.
        Bound(
            name="CL-03 calibrated",
            quantity="0/1 error",
            empirical_risk=risk / np.log(2),
            complexity=terms[0] / np.log(2),
            confidence=terms[1] / np.log(2),
            trivial_level=trivial_level(predictor.target, predictor.n_classes),
            constant=constant,
            assumptions=assumptions,
            details=details,
            **common,
        ),
    ]


def _squared(
    sample: Sample,
    predictor: LinearPredictor,
    radii: tuple[float, float],
    radius: float | None,
    y_range: Range | None,
    common: dict[str, Any],
) -> list[Bound]:
    y = np.asarray(predictor.target, dtype=np.float64)
    if y_range is None:
        largest = float(np.abs(y).max())
        envelope = Assumption(
            "bound M of |Y|", False, f"M = {largest:g} was plugged in from the sample; give y_range"
        )
    else:
        largest = float(np.abs(y_range).max())
        # Limits are contradicted by any target of the call, in the sample or not.
        envelope = range_assumption(sample.all_target, y_range, "bound M of |Y|")
    risk = float(np.square(y - predictor.scores[:, 0]).mean())
    found = []
    for constant in CONSTANTS:
        terms = squared_loss_terms(
            radii[1], largest, predictor.trace, predictor.n_rows, common["delta"], constant=constant
        )
        found.append(
            Bound(
                name=f"RG-03 uniform squared, {constant}",
                quantity="squared loss",
                empirical_risk=risk,
                complexity=terms[0],
                confidence=terms[1],
                trivial_level=largest**2,
                constant=constant,
                assumptions=class_assumptions(sample, predictor, envelope, radius=radius),
                details={"B": radii[0], "M": largest, "trace": predictor.trace},
                **common,
            )
        )
    return found
