"""How many new rows the intervals or sets of a model cover: overall, by level, by prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._axes import axes_or_new
from kpp._checks import RefusedError, check_choice
from kpp._shown import Shown
from kpp._typing import AnyArray, BoolArray, FloatArray
from kpp.diagnostics.intervals import wilson
from kpp.models import KPPClassifier, KPPRegressor, PredictionIntervals, PredictionSets
from kpp.models.asking import Question, ask
from kpp.models.data import check_target
from kpp.models.intervals import predictors_of
from kpp.models.pipelines import behind_preparation
from kpp.scores import RoutedRows
from kpp.solvers import PinballLoss

LEVELS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
N_BINS = 5
KINDS = ("level", "prediction")


@dataclass(frozen=True)
class CoveredShare:
    """A share of rows that are covered, with its 95% interval.

    Parameters
    ----------
    at : float
        The level that was asked for, or the mean prediction of a bin.
    share : float
        Of the rows, those whose target is in the interval or set.
    low, high : float
        Wilson's interval of the share, for independent rows.
    size : float
        Mean width of the intervals, or mean number of classes in the sets.
    n_rows : int
        Number of rows.
    """

    at: float
    share: float
    low: float
    high: float
    size: float
    n_rows: int


@dataclass(frozen=True, eq=False)
class MeasuredCoverage(Shown):
    """What intervals or sets cover on rows that fit has not used.

    Parameters
    ----------
    found : PredictionIntervals or PredictionSets
        At the level that was asked for, of the rows; what a Pipeline has learned from the rows of
        the fit is among its conditions.
    overall : CoveredShare
        At this level, of all rows.
    by_level : tuple of CoveredShare
        At other levels, rising; those that the fit had too few rows for are left out.
    by_prediction : tuple of CoveredShare
        At this level, of bins of equally many rows: by the prediction (the mean of several
        quantiles), or by the probability of the predicted class.
    """

    found: PredictionIntervals | PredictionSets
    overall: CoveredShare
    by_level: tuple[CoveredShare, ...]
    by_prediction: tuple[CoveredShare, ...]

    @property
    def is_sets(self) -> bool:
        """Whether it is of sets of classes."""
        return isinstance(self.found, PredictionSets)

    def __repr__(self) -> str:
        return (
            f"MeasuredCoverage(n_rows={self.overall.n_rows}, asked={self.overall.at:.4g}, "
            f"share={self.overall.share:.4g})"
        )


def measure_coverage(
    model: Any,
    X: Any,
    y: Any,
    coverage: float = 0.9,
    *,
    levels: Any = LEVELS,
    n_bins: int = N_BINS,
    target: int = 0,
    **options: Any,
) -> MeasuredCoverage:
    """Compare what intervals or sets should cover with what they do cover.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline
        Fitted, with predictors of its folds.
    X, y : arrays of shape (n_rows, n_features) and (n_rows,) or (n_rows, n_targets)
        Rows that fit has not used, and their targets.
    coverage : float, default=0.9
        The level that is looked at closely.
    levels : sequence of float
        Levels of the curve.
    n_bins : int, default=5
        Bins of equally many rows, by prediction.
    target : int, default=0
        Which target of several.
    **options
        For ``predict_interval`` (`width`, `offset`) or ``predict_set`` (`method`, `per_class`), and
        for both `independent_duplicates`.

    Returns
    -------
    measured : MeasuredCoverage

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.diagnostics import measure_coverage
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor(n_estimators=10, random_state=0).fit(X[:300], y[:300])
    >>> measured = measure_coverage(model, X[300:], y[300:], coverage=0.8)
    >>> bool(measured.overall.low < 0.8 < measured.overall.high)
    True
    >>> [one.n_rows for one in measured.by_prediction]
    [29, 29, 28, 28, 28]
    """
    question = ask(model)
    rows = question.rows(X)
    truth = _truth(question, y, len(rows))
    if not isinstance(target, int | np.integer) or not 0 <= target < _n_targets(question):
        last = _n_targets(question) - 1
        raise ValueError(f"target is the number of a target, from 0 to {last}; got {target!r}.")
    if not isinstance(n_bins, int | np.integer) or isinstance(n_bins, bool) or n_bins < 1:
        raise ValueError(f"n_bins is a whole number of at least 1; got {n_bins!r}.")
    found = _ask(question, rows, coverage, options)
    inside, size = _inside(found, truth, target)
    by = _prediction(question, rows, found, target)
    order = np.argsort(by, kind="stable")
    bins = np.array_split(order, min(int(n_bins), len(order)))
    return MeasuredCoverage(
        found=found,
        overall=_share(found.coverage, inside, size),
        by_level=_curve(question, rows, truth, target, levels, options),
        by_prediction=tuple(
            _share(float(by[own].mean()), inside[own], size[own]) for own in bins if len(own)
        ),
    )


def _has_quantiles(question: Question) -> bool:
    """Whether the scores are quantiles of one target."""
    return isinstance(question.model.loss_, PinballLoss)


def _n_targets(question: Question) -> int:
    is_one = question.is_classifier or _has_quantiles(question)
    return 1 if is_one else question.additive.n_scores


def _truth(question: Question, y: Any, n_rows: int) -> AnyArray:
    """The targets of rows, as the ends of intervals have them."""
    if not _has_quantiles(question):
        return question.encode(y, n_rows)
    target = np.asarray(check_target(y, n_rows), dtype=np.float64)
    if target.size != n_rows:
        raise ValueError(f"Quantiles are of one target per row; got y of shape {target.shape}.")
    return target.reshape(n_rows, 1)


def _ask(
    question: Question, rows: RoutedRows, level: float, options: dict[str, Any]
) -> PredictionIntervals | PredictionSets:
    model = question.model
    if isinstance(model, KPPClassifier):
        sets = model.predict_set(rows, level, **options)
        return behind_preparation(sets, question.preparation)
    assert isinstance(model, KPPRegressor)
    intervals = model.predict_interval(rows, level, **options)
    return behind_preparation(intervals, question.preparation)


def _inside(
    found: PredictionIntervals | PredictionSets, truth: AnyArray, target: int
) -> tuple[BoolArray, FloatArray]:
    """Whether each row is covered, and how large its interval or set is."""
    if isinstance(found, PredictionSets):
        return found.sets[np.arange(len(truth)), truth], found.sizes.astype(np.float64)
    n_rows = len(truth)
    lower, upper = (end.reshape(n_rows, -1)[:, target] for end in (found.lower, found.upper))
    own = truth[:, target]
    return (lower <= own) & (own <= upper), upper - lower


def _prediction(
    question: Question,
    rows: RoutedRows,
    found: PredictionIntervals | PredictionSets,
    target: int,
) -> FloatArray:
    model = question.model
    if isinstance(model, KPPClassifier):
        likeliest: FloatArray = model.predict_proba(rows).max(axis=1)
        return likeliest
    columns: FloatArray = found.prediction.reshape(len(rows), -1)
    return columns.mean(axis=1) if _has_quantiles(question) else columns[:, target]


def _share(at: float, inside: BoolArray, size: FloatArray) -> CoveredShare:
    share = float(inside.mean())
    low, high = wilson(share, len(inside))
    return CoveredShare(at, share, low, high, float(size.mean()), len(inside))


def _curve(
    question: Question,
    rows: RoutedRows,
    truth: AnyArray,
    target: int,
    levels: Any,
    options: dict[str, Any],
) -> tuple[CoveredShare, ...]:
    predictors_of(question.model, "coverage")  # refused here where there are none
    curve = []
    for level in sorted(levels):
        try:
            found = _ask(question, rows, float(level), options)
        except RefusedError:  # the fit had too few rows for so high a level
            break
        curve.append(_share(found.coverage, *_inside(found, truth, target)))
    return tuple(curve)


class CoverageDisplay:
    """What intervals or sets cover, against the level or by the prediction.

    Parameters
    ----------
    measured : MeasuredCoverage
        From `measure_coverage`.

    Attributes
    ----------
    ax_, figure_ : matplotlib's axes and figure
        After `plot`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.diagnostics import CoverageDisplay, measure_coverage
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor(n_estimators=10, random_state=0).fit(X[:300], y[:300])
    >>> display = CoverageDisplay(measure_coverage(model, X[300:], y[300:]))
    >>> display.measured.overall.n_rows
    142
    """

    def __init__(self, measured: MeasuredCoverage) -> None:
        self.measured = measured

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any,
        coverage: float = 0.9,
        *,
        kind: str = "level",
        ax: Any = None,
        **options: Any,
    ) -> CoverageDisplay:
        """Measure the coverage of a model on rows, and plot it.

        Parameters
        ----------
        model, X, y, coverage, **options
            As in `measure_coverage`.
        kind : {"level", "prediction"}, default="level"
            "level": what is covered against what was asked for. "prediction": what is covered at
            `coverage`, in bins of equally many rows by their prediction.
        ax : matplotlib axes, optional
            Where to draw.

        Returns
        -------
        display : CoverageDisplay
        """
        check_choice("kind", kind, KINDS)
        return cls(measure_coverage(model, X, y, coverage, **options)).plot(kind=kind, ax=ax)

    def plot(self, *, kind: str = "level", ax: Any = None) -> CoverageDisplay:
        """Draw shares with their 95% intervals, and where they should be.

        Parameters
        ----------
        kind : {"level", "prediction"}, default="level"
            As in `from_estimator`.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        self : CoverageDisplay
        """
        check_choice("kind", kind, KINDS)
        ax = axes_or_new(ax, "CoverageDisplay.plot")
        measured = self.measured
        shown = measured.by_level if kind == "level" else measured.by_prediction
        at, share, low, high = (
            np.array([getattr(one, name) for one in shown])
            for name in ("at", "share", "low", "high")
        )
        if kind == "level":
            ax.plot([0, 1], [0, 1], color="0.6", linestyle="--", label="as asked for")
            ax.fill_between(at, low, high, color="C0", alpha=0.2, linewidth=0)
            ax.plot(at, share, "o-", color="C0", markersize=4, label="covered, and 95% interval")
            ax.set_xlim(at.min() - 0.02, 1.0)
            ax.set_ylim(min(low.min(), at.min()) - 0.02, 1.01)
            ax.set_xlabel("coverage asked for")
        else:
            level = measured.overall.at
            ax.axhline(level, color="0.6", linestyle="--", label=f"asked for: {level:.4g}")
            ends = np.abs(np.array([share - low, high - share]))
            ax.errorbar(
                at,
                share,
                yerr=ends,
                fmt="o",
                color="C0",
                capsize=3,
                label="covered, and 95% interval",
            )
            ax.set_ylim(min(low.min(), level) - 0.12, 1.02)  # room for the legend
            name = "probability of the predicted class" if measured.is_sets else "prediction"
            ax.set_xlabel(f"{name}, mean of a bin")
        ax.set_ylabel("share of rows covered")
        ax.legend(frameon=False, loc="lower right")
        self.ax_, self.figure_ = ax, ax.figure
        return self
