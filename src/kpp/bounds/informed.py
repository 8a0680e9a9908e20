r"""Informed bounds: what the partition fold fixes, and the ball around it.

Condition on the partition fold. The map, a centre :math:`(w_0, b_0)` fitted on it, a feature
centre c, the grids and the clipping limits are then constants, and the fit fold is n independent
rows. A bound over the ball :math:`\|w - w_0\| \le B` pays for the distance from the centre, not for
the norm of w.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._rows import take_rows
from kpp._typing import AnyArray, FloatArray
from kpp.bounds._given import check_range, range_assumption, sample_rows
from kpp.bounds._sample import (
    Linear,
    best_intercept,
    check_model,
    class_margins,
    fold_predictors,
    grown_shift,
    linear_at,
    representation_assumption,
    rows_assumption,
)
from kpp.bounds._terms import (
    Grid,
    Parts,
    clipped_bound,
    pac_bayes_bound,
    pac_bayes_squared_bound,
    ramp_bound,
)
from kpp.bounds.kl import held_out_kl
from kpp.bounds.results import Assumption, Bound, check_delta

INFORMED = ("honest", "fixed", "cross-fit")


@dataclass(frozen=True, eq=False)
class Frame:
    r"""What is fixed before the fit fold is looked at.

    Parameters
    ----------
    w0 : array of shape (n_scores, m)
        Coefficients of the centre.
    b0 : array of shape (n_scores,)
        Its intercepts.
    shift : array of shape (m,)
        The feature centre c.
    sup_norm : float
        R, the largest :math:`\|\Phi - c\|` over all combinations of leaves.
    kappa : float
        Size of the constant coordinate that carries the intercept; 0 without one.
    limits : tuple of float
        L and U, for regression.
    limits_known : bool
        Whether the caller gave them.
    grid : Grid
        The cells.
    """

    w0: FloatArray
    b0: FloatArray
    shift: FloatArray
    sup_norm: float
    kappa: float
    limits: tuple[float, float]
    limits_known: bool
    grid: Grid

    def center_at(self, predictor: Linear) -> Linear:
        """Return the centre as a predictor at the same rows."""
        return Linear(predictor.block, predictor.y, self.w0, self.b0, predictor.n_classes)

    def norms(self, predictor: Linear) -> FloatArray:
        r"""Norms :math:`|(\Phi_i - c, \kappa)|`, shape (n,)."""
        squared = predictor.block.centered(self.shift).row_norms(squared=True)
        return np.sqrt(squared + self.kappa**2)

    @property
    def full_sup_norm(self) -> float:
        """R with the constant coordinate."""
        return float(np.hypot(self.sup_norm, self.kappa))

    def distances(self, predictor: Linear) -> tuple[float, float, float]:
        r"""Return :math:`|w - w_0|`, :math:`|\beta|`, and the distance of both together.

        :math:`\beta = b - b_0 + \langle w - w_0, c \rangle` counts in units of kappa.
        """
        u = predictor.w - self.w0
        radius = float(np.linalg.norm(u))
        beta = float(np.linalg.norm(predictor.b - self.b0 + u @ self.shift))
        if self.kappa == 0:
            return radius, beta, radius if beta == 0 else np.inf
        return radius, beta, float(np.hypot(radius, beta / self.kappa))


def make_frame(
    model: Any, X: Any, y: AnyArray, n_classes: int, y_range: tuple[float, float] | None
) -> Frame:
    """Read the centre and the scales off the partition fold; off the forest if it was given."""
    n_scores = len(np.atleast_2d(model.node_coef_))
    m = model.map_.shape[1]
    w0 = np.zeros((n_scores, m))
    if model.regime_ == "fixed":
        shift = grown_shift(model.map_) if model.fit_intercept else None
        shift = np.zeros(m) if shift is None else shift
        sup_norm = model.map_.sup_norm(shift)
        size = 1.0 if n_classes or y_range is None else (y_range[1] - y_range[0]) / 4
        middle = 0.0 if n_classes or y_range is None else sum(y_range) / 2
        return Frame(
            w0=w0,
            b0=np.full(n_scores, middle if model.fit_intercept else 0.0),
            shift=shift,
            sup_norm=sup_norm,
            kappa=(sup_norm or 1.0) if model.fit_intercept else 0.0,
            limits=y_range or (-np.inf, np.inf),
            limits_known=y_range is not None,
            grid=Grid.scaled(size, sup_norm, intercept=model.fit_intercept, sharp=False),
        )
    rows = model.partition_rows_
    own = model.map_.on(take_rows(X, rows))
    y_own = y[rows]
    if model.center == "partition":
        # What the fit adds to the centre is Phi' v.
        w0 = np.atleast_2d(model.node_coef_) - model.map_.rmatmat(model.dual_coef_).T
    scores = np.column_stack([own.matvec(row) for row in w0])
    b0 = np.zeros(n_scores)
    if model.fit_intercept:
        b0 = best_intercept(scores, y_own, n_classes)
    # Without an intercept a shift of the features would not stay in the class.
    shift = own.mean_row() if model.fit_intercept else np.zeros(m)
    spread = float(np.sqrt(own.centered(shift).row_norms(squared=True).mean()))
    size = 1.0
    limits = (-np.inf, np.inf)
    if n_classes == 0:
        size = float(np.std(y_own)) or 1.0
        limits = _limits(y_own) if y_range is None else y_range
    elif w0.any():
        size = float(np.median(np.abs(class_margins(scores + b0, y_own)).min(axis=1))) or 1.0
    return Frame(
        w0=w0,
        b0=b0,
        shift=shift,
        sup_norm=model.map_.sup_norm(shift),
        kappa=(spread or 1.0) if model.fit_intercept else 0.0,
        limits=limits,
        limits_known=y_range is not None,
        grid=Grid.scaled(
            size, spread, intercept=model.fit_intercept, sharp=bool(w0.any()) or n_classes == 0
        ),
    )


def _limits(y: AnyArray) -> tuple[float, float]:
    """The range of a target; none where it is constant."""
    low, high = float(y.min()), float(y.max())
    return (low, high) if low < high else (-np.inf, np.inf)


def trivial_level(y: AnyArray, n_classes: int) -> float:
    """Error of the majority class, or variance, on a sample."""
    if n_classes == 0:
        return float(np.var(y))
    return float(1 - np.bincount(y, minlength=n_classes).max() / len(y))


def informed_parts(predictor: Linear, frame: Frame, delta: float) -> dict[str, Parts]:
    """All informed bounds of a predictor, each with probability 1 - delta on its own."""
    radius, shift, distance = frame.distances(predictor)
    norms, grid = frame.norms(predictor), frame.grid
    scores = predictor.scores
    if predictor.n_classes == 0:
        g, y = scores[:, 0], np.asarray(predictor.y, dtype=np.float64)
        if not np.isfinite(frame.limits).all():
            return {}
        return {
            "clipped squared loss": clipped_bound(
                y, g, frame.limits, radius, shift, frame.sup_norm, grid, delta
            ),
            "PAC-Bayes-kl, squared loss": pac_bayes_squared_bound(
                y, g, norms, frame.limits, distance, frame.full_sup_norm, grid, delta
            ),
        }
    margins = class_margins(scores, predictor.y)
    return {
        "ramp": ramp_bound(
            margins.min(axis=1),
            radius,
            shift,
            frame.sup_norm,
            grid,
            delta,
            n_classes=predictor.n_classes,
        ),
        "PAC-Bayes-kl": pac_bayes_bound(
            margins, norms, distance, grid, delta, sup_norm=frame.full_sup_norm
        ),
        "PAC-Bayes-kl, row margins": pac_bayes_bound(margins, norms, distance, grid, delta),
    }


def held_out_parts(predictor: Linear, limits: tuple[float, float], delta: float) -> Parts | None:
    """The plain bound of a predictor that was fixed before the sample."""
    if predictor.n_classes:
        risk, scale = float((class_margins(predictor.scores, predictor.y) <= 0).any(1).mean()), 1.0
    else:
        if not np.isfinite(limits).all() or limits[0] == limits[1]:
            return None
        clipped = np.clip(predictor.scores[:, 0], *limits)
        risk = float(np.square(np.clip(predictor.y, *limits) - clipped).mean())
        scale = (limits[1] - limits[0]) ** 2
    bound = float(held_out_kl(min(risk / scale, 1.0), predictor.n_rows, delta)) * scale
    return Parts(risk, 0.0, bound - risk, {})


def informed_bounds(
    model: Any,
    X: Any,
    y: Any,
    *,
    delta: float = 0.05,
    y_range: tuple[float, float] | None = None,
) -> list[Bound]:
    r"""Bounds over a ball around a centre that the partition fold has fixed.

    For classification: the ramp bound, and two PAC-Bayes-kl bounds (with the margin
    :math:`t \sigma R` for all rows, and with :math:`t \sigma |\psi_i|` for each). For regression:
    the Rademacher and the PAC-Bayes-kl bound of the clipped prediction. Last, the plain held-out
    bound of the centre itself. Theorems and proofs are on the page on bounds.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted, in the regime "honest" (best with ``center="partition"``), "fixed" or "cross-fit".
    X, y : arrays of shape (n_rows, n_features) and (n_rows,)
        What was given to fit, all rows.
    delta : float
        Probability with which each bound may fail. Cross-fit divides it by the number of folds.
    y_range : tuple of float, optional
        L and U with :math:`L \le Y \le U`, known beforehand; regression only. By default the range
        of the partition fold, and then the bounds speak of Y clipped to it.

    Returns
    -------
    bounds : list of Bound

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kpp import KPPClassifier
    >>> from kpp.bounds import informed_bounds
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = KPPClassifier(
    ...     n_estimators=50, regime="honest", center="partition", random_state=0
    ... ).fit(X, y)
    >>> bounds = informed_bounds(model, X, y)
    >>> for bound in bounds:
    ...     print(bound.name)
    ramp
    PAC-Bayes-kl
    PAC-Bayes-kl, row margins
    held-out kl of the centre
    >>> bounds[2].is_trivial, bounds[2].is_guarantee
    (False, True)
    """
    check_model(model)
    check_delta(delta)
    y_range = check_range(model, y_range)
    if model.regime_ not in INFORMED:
        raise ValueError(
            f"Informed bounds need labels that the forest has not seen; regime={model.regime_!r} "
            "has used all of them. Fit with regime='honest' and center='partition'."
        )
    X, codes, rows, n_classes = sample_rows(model, X, y, "fit")
    if model.regime_ == "cross-fit":
        return _cross_fit(model, codes, n_classes, delta, y_range)
    frame = make_frame(model, X, codes, n_classes, y_range)
    predictor = linear_at(model, take_rows(X, rows), codes[rows], n_classes)
    assumptions = informed_assumptions(model, frame, codes, n_classes)
    found = [
        _bound(model, name, parts, predictor, frame, delta, assumptions)
        for name, parts in informed_parts(predictor, frame, delta).items()
    ]
    plain = held_out_parts(frame.center_at(predictor), frame.limits, delta)
    if plain is not None:
        name = "held-out kl of the centre"
        found.append(_bound(model, name, plain, predictor, frame, delta, assumptions))
    return found


def _cross_fit(
    model: Any,
    codes: AnyArray,
    n_classes: int,
    delta: float,
    y_range: tuple[float, float] | None,
) -> list[Bound]:
    """Fold by fold with delta / Q; the average speaks of a predictor drawn from the folds."""
    predictors = fold_predictors(model, codes, n_classes)
    n_folds = len(predictors)
    by_name: dict[str, list[Bound]] = {}
    for q, predictor in enumerate(predictors):
        outside = np.setdiff1d(np.arange(len(codes)), model.folds_[q][0])
        frame = _fold_frame(model, predictor, codes[outside], n_classes, y_range)
        assumptions = informed_assumptions(model, frame, codes, n_classes)
        for name, parts in informed_parts(predictor, frame, delta / n_folds).items():
            bound = _bound(
                model,
                f"{name}, fold {q}",
                parts,
                predictor,
                frame,
                delta / n_folds,
                assumptions,
            )
            by_name.setdefault(name, []).append(bound)
    found = []
    for name, bounds in by_name.items():
        found.extend(bounds)
        found.append(_average(name, bounds, delta, convex=n_classes == 0))
    return found


def _fold_frame(
    model: Any,
    predictor: Linear,
    y_outside: AnyArray,
    n_classes: int,
    y_range: tuple[float, float] | None,
) -> Frame:
    """A fold's frame: centre 0, and scales from labels outside the rows it was fitted on."""
    m = predictor.block.shape[1]
    shift = grown_shift(predictor.block) if model.fit_intercept else None
    shift = np.zeros(m) if shift is None else shift
    sup_norm = predictor.block.sup_norm(shift)
    size, middle, limits = 1.0, np.zeros(len(predictor.w)), (-np.inf, np.inf)
    if n_classes == 0:
        size = float(np.std(y_outside)) or 1.0
        limits = _limits(y_outside) if y_range is None else y_range
        middle = np.array([float(np.mean(y_outside)) if model.fit_intercept else 0.0])
    return Frame(
        w0=np.zeros_like(predictor.w),
        b0=middle,
        shift=shift,
        sup_norm=sup_norm,
        kappa=(sup_norm or 1.0) if model.fit_intercept else 0.0,
        limits=limits,
        limits_known=y_range is not None,
        grid=Grid.scaled(size, sup_norm, intercept=model.fit_intercept, sharp=False),
    )


def _average(name: str, bounds: list[Bound], delta: float, *, convex: bool) -> Bound:
    first = bounds[0]
    if convex:
        covered = Assumption(
            "average of the folds",
            True,
            "the squared loss is convex: the bound covers the average of the folds' clipped "
            "predictions, which is what the model predicts where no fold leaves the limits",
        )
    else:
        covered = Assumption(
            "average of the folds",
            False,
            "the 0/1 loss is not convex: the mean of the bounds covers a fold drawn at random, not "
            "the averaged score that the model predicts with",
        )
    return Bound(
        name=f"{name}, mean over folds",
        quantity=f"{first.quantity}: mean of the clipped folds" if convex else first.quantity,
        empirical_risk=float(np.mean([bound.empirical_risk for bound in bounds])),
        complexity=float(np.mean([bound.complexity for bound in bounds])),
        confidence=float(np.mean([bound.confidence for bound in bounds])),
        trivial_level=float(np.mean([bound.trivial_level for bound in bounds])),
        regime=first.regime,
        sample=first.sample,
        n_rows=sum(bound.n_rows for bound in bounds),
        delta=delta,
        assumptions=(*first.assumptions, covered),
        details={"folds": len(bounds)},
    )


def informed_assumptions(
    model: Any, frame: Frame, y: AnyArray, n_classes: int
) -> tuple[Assumption, ...]:
    """What the informed bounds rest on; y are the targets of all rows of the call."""
    found = [
        representation_assumption(model, "fit"),
        rows_assumption(model, "fit"),
        Assumption(
            "centre and grid fixed beforehand",
            True,
            "w0, c and the grid come from the partition fold; w and alpha may come from the fit "
            "fold, since all of the ball is covered",
        ),
    ]
    if n_classes == 0:
        if frame.limits_known:
            found.append(range_assumption(y, frame.limits))
        else:
            found.append(
                Assumption(
                    "range of Y",
                    False,
                    "taken from the partition fold: the bound holds for Y clipped to "
                    f"[{frame.limits[0]:g}, {frame.limits[1]:g}]; give y_range",
                )
            )
    return tuple(found)


def _bound(
    model: Any,
    name: str,
    parts: Parts,
    predictor: Linear,
    frame: Frame,
    delta: float,
    assumptions: tuple[Assumption, ...],
) -> Bound:
    radius, shift, _ = frame.distances(predictor)
    return Bound(
        name=name,
        quantity="0/1 error" if predictor.n_classes else "squared loss, clipped",
        empirical_risk=parts.empirical_risk,
        complexity=parts.complexity,
        confidence=parts.confidence,
        trivial_level=trivial_level(predictor.y, predictor.n_classes),
        regime=model.regime_,
        sample="fit",
        n_rows=predictor.n_rows,
        delta=delta,
        assumptions=assumptions,
        details={
            "B": radius,
            "beta": shift,
            "R": frame.sup_norm,
            "norm": predictor.norm,
            "cell": dict(parts.cell),
        },
    )
