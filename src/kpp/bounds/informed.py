r"""Informed bounds: what the partition fold fixes, and the ball around it.

Condition on the partition fold. The map, a centre :math:`(w_0, b_0)` fitted on it, a feature
centre c, the grids and the clipping limits are then constants, and the fit fold is n independent
rows. A bound over the ball :math:`\|w - w_0\| \le B` pays for the distance from the centre, not for
the norm of w.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kpp._parallel import one_blas_thread
from kpp._typing import AnyArray, FloatArray
from kpp.bounds.assumptions import (
    Range,
    check_range,
    preparation_assumptions,
    range_assumption,
    representation_assumption,
    rows_assumption,
)
from kpp.bounds.held_out import held_out_bound
from kpp.bounds.predictors import LinearPredictor, class_margins
from kpp.bounds.results import Assumption, Bound, check_delta
from kpp.bounds.samples import Sample, ask_for_bounds, sample_of
from kpp.bounds.terms import (
    Grid,
    Parts,
    clipped_bound,
    pac_bayes_bound,
    pac_bayes_squared_bound,
    ramp_bound,
)
from kpp.geometry import MapBlock, PathMap, named_blocks
from kpp.models.averages import fold_predictors
from kpp.models.fits import Center
from kpp.solvers.logistic import ABSENT

NO_LIMITS = (-np.inf, np.inf)


@dataclass(frozen=True, eq=False)
class Frame:
    r"""What is fixed before the fit fold is looked at.

    Parameters
    ----------
    center : Center
        :math:`(w_0, b_0)`.
    shift : array of shape (m,)
        The feature centre c.
    sup_norm : float
        R, the largest :math:`\|\Phi - c\|` over all combinations of leaves.
    kappa : float
        Size of the constant coordinate that carries the intercept; 0 without one.
    limits : tuple of float
        L and U, for regression; infinite where there are none.
    limits_known : bool
        Whether the caller gave them.
    grid : Grid
        The cells.
    """

    center: Center
    shift: FloatArray
    sup_norm: float
    kappa: float
    limits: Range
    limits_known: bool
    grid: Grid

    def center_at(self, predictor: LinearPredictor) -> LinearPredictor:
        """Return the centre as a predictor at the same rows."""
        center = self.center
        return replace(predictor, node_coef=center.node_coef, intercept=center.intercept)

    def norms(self, predictor: LinearPredictor) -> FloatArray:
        r"""Norms :math:`|(\Phi_i - c, \kappa)|`, shape (n,)."""
        # The constant coordinate of theorem 3, which carries the intercept, is one more entry of
        # psi.
        squared = predictor.map.centered(self.shift).row_norms(squared=True)
        return np.sqrt(squared + self.kappa**2)

    @property
    def full_sup_norm(self) -> float:
        """R with the constant coordinate."""
        return float(np.hypot(self.sup_norm, self.kappa))

    def distances(self, predictor: LinearPredictor) -> tuple[float, float, float]:
        r"""Return :math:`|w - w_0|`, :math:`|\beta|`, and the distance of both together.

        :math:`\beta = b - b_0 + \langle w - w_0, c \rangle` counts in units of kappa.
        """
        u = predictor.node_coef - self.center.node_coef
        radius = float(np.linalg.norm(u))
        beta = float(np.linalg.norm(predictor.intercept - self.center.intercept + u @ self.shift))
        # Without that coordinate a difference of intercepts is outside the class.
        if self.kappa == 0:
            return radius, beta, radius if beta == 0 else np.inf
        return radius, beta, float(np.hypot(radius, beta / self.kappa))


def make_frame(sample: Sample, y_range: Range | None) -> Frame:
    """Read the centre and the scales off the partition fold; off the forest if it was given.

    Parameters
    ----------
    sample : Sample
        The rows of the fit, of a model that is one linear layer.
    y_range : tuple of float, optional
        Limits of the target that the caller knows.

    Returns
    -------
    frame : Frame
    """
    model, n_classes = sample.model, sample.n_classes
    fit_intercept = model.fit_record_.fit_intercept
    # No partition fold is at hand, and the labels of these rows must not set the scales.
    if sample.question.regime.takes_grown_forest:
        size, middle = 1.0, 0.0
        if y_range is not None:
            size, middle = (y_range[1] - y_range[0]) / 4, sum(y_range) / 2
        return _frame_of_forest(sample, sample.predictor, size, middle, y_range or NO_LIMITS)
    own = sample.all_rows.take(model.partition_rows_).map
    y_own = sample.all_target[model.partition_rows_]
    center = model.fits_[0].center
    is_fitted = center is not None and bool(center.node_coef.any())
    if center is None:
        n_scores, m = sample.question.node_coef.shape
        b0 = _best_constant(y_own, n_classes) if fit_intercept else np.zeros(n_scores)
        center = Center(np.zeros((n_scores, m)), b0)
    # Without an intercept a shift of the features would not stay in the class.
    shift = own.mean_row() if fit_intercept else np.zeros(own.shape[1])
    spread = float(np.sqrt(own.centered(shift).row_norms(squared=True).mean()))
    size, limits = 1.0, NO_LIMITS
    if n_classes == 0:
        size = float(np.std(y_own)) or 1.0
        limits = _limits(y_own) if y_range is None else y_range
    elif is_fitted:
        scores = np.column_stack([own.matvec(w) for w in center.node_coef]) + center.intercept
        size = float(np.median(np.abs(class_margins(scores, y_own)).min(axis=1))) or 1.0
    return Frame(
        center=center,
        shift=shift,
        sup_norm=model.map_.sup_norm(shift),
        # As large as a typical row, so that a unit of intercept costs like a unit of score
        # elsewhere.
        kappa=(spread or 1.0) if fit_intercept else 0.0,
        limits=limits,
        limits_known=y_range is not None,
        grid=Grid.scaled(size, spread, intercept=fit_intercept, sharp=is_fitted or n_classes == 0),
    )


def _fold_frame(
    sample: Sample, predictor: LinearPredictor, fit_rows: AnyArray, y_range: Range | None
) -> Frame:
    """A fold's frame: scales from labels outside the rows that it was fitted on."""
    # Labels of the rows of this fit would make the grid depend on the sample that it must not see.
    outside = np.delete(sample.all_target, fit_rows)
    size, middle, limits = 1.0, 0.0, NO_LIMITS
    if sample.n_classes == 0:
        size, middle = float(np.std(outside)) or 1.0, float(np.mean(outside))
        limits = _limits(outside) if y_range is None else y_range
    frame = _frame_of_forest(sample, predictor, size, middle, limits)
    return replace(frame, limits_known=y_range is not None)


def _frame_of_forest(
    sample: Sample, predictor: LinearPredictor, size: float, middle: float, limits: Range
) -> Frame:
    """Centre 0, and the scale of the features from the trees alone."""
    intercept, embedding = sample.model.fit_record_.fit_intercept, predictor.map
    shift = _grown_shift(embedding) if intercept else None
    shift = np.zeros(embedding.shape[1]) if shift is None else shift
    sup_norm = embedding.sup_norm(shift)
    w0, b0 = np.zeros_like(predictor.node_coef), np.zeros(len(predictor.intercept))
    return Frame(
        center=Center(w0, b0 + (middle if intercept else 0.0)),
        shift=shift,
        sup_norm=sup_norm,
        kappa=(sup_norm or 1.0) if intercept else 0.0,
        limits=limits,
        limits_known=limits != NO_LIMITS,
        grid=Grid.scaled(size, sup_norm, intercept=intercept, sharp=False),
    )


def _grown_shift(embedding: MapBlock) -> FloatArray | None:
    """Mean row over the rows that the trees were grown on, from the trees' own counts."""
    parts = []
    for _, block in named_blocks(embedding):
        if not isinstance(block, PathMap):
            # Linear terms have their mean at 0, but for what misses: any vector that no row of the
            # fit has a part in will do.
            parts.append(np.zeros(block.shape[1]))
            continue
        forest = block.forest
        if forest.statistics is None:
            return None
        count = forest.statistics.count
        root = np.repeat(count[forest.roots], np.diff(forest.tree_offsets))
        # The mean of Phi_v over rows is s_v times the share of them in v. From the trees' own
        # counts, so that no row of the fit is looked at.
        share = np.divide(count, root, out=np.zeros_like(count), where=root > 0)
        parts.append(block.scale * share)
    return np.concatenate(parts)


def _best_constant(y: AnyArray, n_classes: int) -> FloatArray:
    """The constant scores of the smallest loss: the mean, or the logarithms of the shares."""
    if n_classes == 0:
        return np.array([float(np.mean(y))])
    count = np.bincount(y, minlength=n_classes)
    present = count > 0
    # A class without rows has no logarithm; fits treat it in the same way.
    scores = np.full(n_classes, ABSENT)
    scores[present] = np.log(count[present] / len(y))
    if n_classes == 2:
        return scores[[1]] - scores[0]
    scores[present] -= scores[present].mean()
    return scores


def _limits(y: AnyArray) -> Range:
    """The range of a target; none where it is constant."""
    low, high = float(y.min()), float(y.max())
    return (low, high) if low < high else NO_LIMITS


def trivial_level(y: AnyArray, n_classes: int) -> float:
    """Error of the majority class, or variance, on a sample."""
    if n_classes == 0:
        return float(np.var(y))
    return float(1 - np.bincount(y, minlength=n_classes).max() / len(y))


def informed_parts(predictor: LinearPredictor, frame: Frame, delta: float) -> dict[str, Parts]:
    """All informed bounds of a predictor, each with probability 1 - delta on its own."""
    radius, shift, distance = frame.distances(predictor)
    norms, grid = frame.norms(predictor), frame.grid
    scores = predictor.scores
    if predictor.n_classes == 0:
        g, y = scores[:, 0], np.asarray(predictor.target, dtype=np.float64)
        # A loss without limits has no bound of this kind.
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
    margins = class_margins(scores, predictor.target)
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


def clipped_losses(predictor: LinearPredictor, limits: Range) -> FloatArray:
    """Errors, a tie counted as one; or squared losses of target and prediction, clipped."""
    if predictor.n_classes:
        errors = (class_margins(predictor.scores, predictor.target) <= 0).any(axis=1)
        return np.asarray(errors, dtype=np.float64)
    g = np.clip(predictor.scores[:, 0], *limits)
    losses: FloatArray = np.square(np.clip(predictor.target, *limits) - g)
    return losses


def clipped_risk(predictor: LinearPredictor, limits: Range) -> float:
    """Mean of `clipped_losses`."""
    return float(clipped_losses(predictor, limits).mean())


def loss_scale(predictor: LinearPredictor, limits: Range) -> float | None:
    """Largest of the clipped losses; None where there are no limits."""
    if predictor.n_classes:
        return 1.0
    if not np.isfinite(limits).all() or limits[0] == limits[1]:
        return None
    # Bounds are of losses in [0, 1]: divided by the largest squared error, and multiplied again.
    return (limits[1] - limits[0]) ** 2


def held_out_parts(predictor: LinearPredictor, limits: Range, delta: float) -> Parts | None:
    """The plain bound of a predictor that was fixed before the sample."""
    scale = loss_scale(predictor, limits)
    if scale is None:
        return None
    losses = clipped_losses(predictor, limits)
    are_errors = predictor.n_classes > 0
    bound = held_out_bound(losses / scale, delta, are_errors=are_errors) * scale
    risk = float(losses.mean())
    return Parts(risk, 0.0, bound - risk, {})


@one_blas_thread()
def informed_bounds(
    model: Any,
    X: Any,
    y: Any,
    *,
    delta: float = 0.05,
    y_range: tuple[float, float] | None = None,
    independent_duplicates: bool = False,
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
    independent_duplicates : bool
        As in `risk_bounds`.

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
    held-out bound of the centre
    >>> bounds[2].is_trivial, bounds[2].is_guarantee
    (False, True)
    """
    question = ask_for_bounds(model)
    check_delta(delta)
    limits = check_range(question, y_range)
    if question.regime.grows_on_fit_rows:
        raise ValueError(
            "Informed bounds need labels that the forest has not seen; "
            f"regime={question.regime.name!r} has used all of them. Fit with regime='honest' and "
            "center='partition'."
        )
    sample = sample_of(question, X, y, "fit", independent_duplicates=independent_duplicates)
    return informed_on(sample, delta, limits)


def informed_on(sample: Sample, delta: float, y_range: Range | None) -> list[Bound]:
    """Return the informed bounds on the rows of a fit that were checked before."""
    if sample.by_folds:
        return _fold_by_fold(sample, delta, y_range)
    frame, predictor = make_frame(sample, y_range), sample.predictor
    found = informed_parts(predictor, frame, delta)
    plain = held_out_parts(frame.center_at(predictor), frame.limits, delta)
    if plain is not None:
        found["held-out bound of the centre"] = plain
    assumptions = informed_assumptions(sample, frame, sample.all_target)
    return [
        _bound(sample, name, parts, predictor, frame, delta, assumptions)
        for name, parts in found.items()
    ]


def _fold_by_fold(sample: Sample, delta: float, y_range: Range | None) -> list[Bound]:
    """Each fold with delta / Q; the average speaks of a predictor drawn from the folds."""
    predictors, fits = sample.folds(), fold_predictors(sample.model)
    # A union over the folds: all of their bounds hold together with probability 1 - delta.
    own_delta = delta / len(fits)
    by_name: dict[str, list[Bound]] = {}
    for q, (predictor, fit) in enumerate(zip(predictors, fits, strict=True)):
        frame = _fold_frame(sample, predictor, fit.rows, y_range)
        assumptions = informed_assumptions(sample, frame, sample.all_target)
        for name, parts in informed_parts(predictor, frame, own_delta).items():
            full_name = f"{name}, fold {q}"
            bound = _bound(sample, full_name, parts, predictor, frame, own_delta, assumptions)
            by_name.setdefault(name, []).append(bound)
    found = []
    for name, bounds in by_name.items():
        found.extend(bounds)
        found.append(_average(name, bounds, delta, convex=sample.n_classes == 0))
    return found


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


def informed_assumptions(sample: Sample, frame: Frame, y: AnyArray) -> tuple[Assumption, ...]:
    """What the informed bounds rest on; y are the targets of all rows of the call."""
    found = [
        representation_assumption(sample),
        rows_assumption(sample),
        Assumption(
            "centre and grid fixed beforehand",
            True,
            "w0, c and the grid come from the partition fold; w and alpha may come from the fit "
            "fold, since all of the ball is covered",
        ),
    ]
    if sample.n_classes == 0:
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
    return (*found, *preparation_assumptions(sample))


def _bound(
    sample: Sample,
    name: str,
    parts: Parts,
    predictor: LinearPredictor,
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
        trivial_level=trivial_level(predictor.target, predictor.n_classes),
        regime=sample.question.regime.name,
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
