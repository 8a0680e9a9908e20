r"""Intervals of other losses: conformalised quantiles (CQR with CV+), and CV+ of Poisson means.

References
----------
Romano, Patterson, Candes (2019), Conformalized quantile regression.
Barber, Candes, Ramdas, Tibshirani (2021), Predictive inference with the jackknife+.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kpp._assumptions import Assumption
from kpp._checks import check_choice, check_flag
from kpp._typing import FloatArray
from kpp.models.fold_predictors import FoldPredictors
from kpp.models.interval_conditions import conditions_of
from kpp.models.interval_results import PredictionIntervals
from kpp.models.intervals import (
    WIDTHS,
    _level,
    _rank,
    _ranks,
    predictors_of,
    proven,
)
from kpp.scores import routed_rows
from kpp.solvers import PinballLoss

if TYPE_CHECKING:
    from kpp.models.linear import KPPLinearModel


@dataclass(frozen=True, eq=False, kw_only=True)
class QuantileIntervals(PredictionIntervals):
    """Intervals between two predicted quantiles, moved out or in by the same rule at both ends.

    Parameters
    ----------
    lower, upper : arrays of shape (n_rows,)
        The ends.
    prediction : array of shape (n_rows, n_quantiles)
        The predicted quantiles, by all folds together.
    widths : {"adaptive", "constant"}
        Whether the way that the ends are moved was scaled by the spread of the target around
        each row.
    coverage, proven_coverage, conditions, n_calibration, n_folds
        As in `CrossConformal`.
    """

    def __str__(self) -> str:
        return super().__str__().replace("cross-conformal (CV+)", "conformal quantiles (CQR, CV+)")


def interval_of_loss(
    model: KPPLinearModel,
    X: Any,
    coverage: Any,
    guaranteed: Any,
    width: Any,
    offset: FloatArray | None = None,
    independent_duplicates: Any = False,
) -> PredictionIntervals:
    r"""Intervals of a model whose prediction is not its only score.

    With several quantiles, l the least and u the largest of them, row i of the fit has
    :math:`R_i = \max(l_{q(i)}(x_i) - y_i, y_i - u_{q(i)}(x_i)) / \sigma_{q(i)}(x_i)` by the
    predictor that has not seen its fold, which is negative within. The interval at x runs from the
    :math:`\lfloor a (n + 1) \rfloor`-th smallest :math:`l_{q(i)}(x) - \sigma_{q(i)}(x) R_i` to the
    :math:`\lceil (1 - a) (n + 1) \rceil`-th smallest
    :math:`u_{q(i)}(x) + \sigma_{q(i)}(x) R_i`. With Poisson's loss both quantiles are the mean, as
    in CV+. Where an exposure e is given, they are e times the mean: then the spread of counts is
    :math:`\sqrt{e} \sigma`, that of the rate of a row of the fit with weight :math:`s_i` is
    :math:`\sigma / \sqrt{s_i}`, and constant widths are those of rates.

    Parameters
    ----------
    model : KPPRegressor
        Fitted.
    X, coverage, guaranteed, width
        As in ``predict_interval``.
    offset : array of shape (n_rows,), optional
        Of Poisson's loss, checked.
    independent_duplicates : bool
        As in ``predict_interval``.

    Returns
    -------
    intervals : PredictionIntervals
    """
    check_choice("width", width, WIDTHS)
    check_flag("independent_duplicates", independent_duplicates)
    predictors = predictors_of(model, "predict_interval")
    n, n_folds = len(predictors.fold_of_row), predictors.n_folds
    level = _level(coverage, guaranteed, n, n_folds)
    rank = _rank(level, n)
    rows = routed_rows(model, X)
    loss = model._task.loss
    is_adaptive = width == "adaptive"
    answers = np.array([loss.link(scores) for scores in predictors.scores(rows)])
    if is_adaptive:
        scale = np.ascontiguousarray(predictors.spread(rows)[:, 0])
    else:
        scale = np.ones((n_folds, len(rows)))
    final, weight = rows.scores, None
    if offset is not None:
        exposure = np.exp(offset)
        final = final + offset[:, None]
        answers *= exposure[:, None]
        scale *= np.sqrt(exposure) if is_adaptive else exposure
        weight = model.sample_weight_ if is_adaptive else None
    lowest, highest = _columns(loss)
    steps = _sorted_distances(predictors, lowest, highest, is_adaptive, weight)
    ends = np.empty((2, len(rows)))
    # The k-th smallest of l - R is minus the k-th largest of R - l, and k is n + 1 - rank; and so
    # it is with R times a spread, of either sign.
    for side, sign, column in ((0, -1.0, lowest), (1, 1.0, highest)):
        shift = np.ascontiguousarray(sign * answers[:, :, column])
        found = _ranks(shift, scale, steps, predictors.starts, rank, model.n_jobs)
        ends[side] = sign * found
    is_several = isinstance(loss, PinballLoss)
    if not is_several:
        ends[0] = np.maximum(ends[0], 0.0)  # counts are not below
    kind = QuantileIntervals if is_several else PredictionIntervals
    conditions = conditions_of(
        model, predictors, independent_duplicates=bool(independent_duplicates)
    )
    if offset is not None and offset.any() and model.sample_weight_ is None:
        why = "every row of the fit had an exposure of 1, and these rows have others"
        conditions += (Assumption("exposures drawn as in the fit", False, why),)
    return kind(
        # Where distances are negative the ends may cross; what lies between covers no less.
        lower=ends.min(axis=0),
        upper=ends.max(axis=0),
        prediction=model._task.answers(final),
        coverage=float(level),
        proven_coverage=proven(level, n, n_folds),
        conditions=conditions,
        n_calibration=n,
        n_folds=n_folds,
        widths=width,
    )


def _columns(loss: Any) -> tuple[int, int]:
    """The scores of the least and of the largest quantile."""
    quantiles = loss.quantiles if isinstance(loss, PinballLoss) else (0.5,)
    return int(np.argmin(quantiles)), int(np.argmax(quantiles))


def _sorted_distances(
    predictors: FoldPredictors,
    lowest: int,
    highest: int,
    is_adaptive: bool,
    weight: FloatArray | None,
) -> FloatArray:
    """R of the rows of the fit, rising in each fold, fold after fold."""
    key = ("quantiles", lowest, highest, is_adaptive, weight is not None)
    if key not in predictors.made:
        y, found = predictors.target[:, 0], predictors.out_of_fold
        size = np.maximum(found[:, lowest] - y, y - found[:, highest])
        if is_adaptive:
            size /= predictors.own_spread[0]
        if weight is not None:
            size *= np.sqrt(weight)
        predictors.made[key] = size[np.lexsort((size, predictors.fold_of_row))]
    steps: FloatArray = predictors.made[key]
    return steps
