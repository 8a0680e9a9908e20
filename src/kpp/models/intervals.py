"""Cross-conformal intervals and sets (CV+): ranks of out-of-fold errors, by the folds' predictors.

References
----------
Barber, Candes, Ramdas, Tibshirani (2021), Predictive inference with the jackknife+.
Romano, Sesia, Candes (2020), Classification with valid and adaptive coverage.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from kpp._assumptions import Assumption
from kpp._checks import RefusedError, check_choice, check_flag
from kpp._parallel import blocks_of, run_blocks
from kpp._typing import AnyArray, FloatArray
from kpp.models._rank_loops import rank_of_scaled_sums
from kpp.models.fold_predictors import FoldPredictors
from kpp.models.interval_conditions import NESTED_WAY, conditions_of
from kpp.models.interval_results import PredictionIntervals, PredictionSets
from kpp.models.left_rows import check_has_rows
from kpp.models.regimes import regime_of
from kpp.scores import routed_rows

if TYPE_CHECKING:
    from kpp.models.linear import KPPLinearModel

WIDTHS = ("adaptive", "constant")
METHODS = ("lac", "aps")
# Some milliseconds of work: what a thread takes at a time.
ROWS_OF_BLOCK = 2048


def predict_interval(
    model: KPPLinearModel,
    X: Any,
    coverage: Any,
    guaranteed: Any,
    width: Any,
    independent_duplicates: Any = False,
) -> PredictionIntervals:
    """The function behind the method of that name."""
    check_choice("width", width, WIDTHS)
    check_flag("independent_duplicates", independent_duplicates)
    predictors = predictors_of(model, "predict_interval")
    n, n_folds = len(predictors.fold_of_row), predictors.n_folds
    level = _level(coverage, guaranteed, n, n_folds)
    rank = _rank(level, n)
    rows = routed_rows(model, X)
    scores = predictors.scores(rows)
    ends = np.empty((2, len(rows), scores.shape[2]))
    if width == "adaptive":
        residuals, spread = predictors.sorted_scaled_residuals, predictors.spread(rows)
    else:
        residuals = predictors.sorted_residuals
        spread = np.ones((n_folds, len(residuals), len(rows)))
    for t, steps in enumerate(residuals):
        shift = np.ascontiguousarray(scores[:, :, t])
        scale = np.ascontiguousarray(spread[:, t])
        # The k-th smallest of g - R is minus the k-th largest of R - g, and k is n + 1 - rank;
        # and so it is with R times a spread.
        for side, sign in enumerate((-1.0, 1.0)):
            out = _ranks(sign * shift, scale, steps, predictors.starts, rank, model.n_jobs)
            ends[side, :, t] = sign * out
    # Below one half the ends may cross; what lies between them covers no less.
    lower, upper = ends.min(axis=0), ends.max(axis=0)
    shaped = model._task.answers
    return PredictionIntervals(
        lower=shaped(lower),
        upper=shaped(upper),
        prediction=shaped(rows.scores),
        coverage=float(level),
        proven_coverage=proven(level, n, n_folds),
        conditions=conditions_of(
            model, predictors, independent_duplicates=bool(independent_duplicates)
        ),
        n_calibration=n,
        n_folds=n_folds,
        widths=width,
    )


def _ranks(
    shift: FloatArray,
    scale: FloatArray,
    steps: FloatArray,
    starts: AnyArray,
    rank: int,
    n_jobs: int | None,
) -> FloatArray:
    """`rank_of_scaled_sums` in blocks of rows, on several threads; every row by itself."""
    out = np.empty(shift.shape[1])
    blocks = blocks_of(len(out), ceil(len(out) / ROWS_OF_BLOCK))

    def work(block: int) -> None:
        own = slice(*blocks[block])
        shifts, scales = (np.ascontiguousarray(part[:, own]) for part in (shift, scale))
        rank_of_scaled_sums(shifts, scales, steps, starts, rank, out[own])

    run_blocks(work, len(blocks), n_jobs)
    return out


def predict_set(
    model: KPPLinearModel,
    X: Any,
    coverage: Any,
    method: Any,
    per_class: Any,
    guaranteed: Any,
    random_state: Any = None,
    independent_duplicates: Any = False,
) -> PredictionSets:
    """The function behind the method of that name."""
    check_choice("method", method, METHODS)
    check_flag("per_class", per_class)
    check_flag("independent_duplicates", independent_duplicates)
    seed = _seed(random_state, method)
    if per_class and guaranteed is not None:
        raise ValueError(
            "guaranteed is a level of all classes together, and per_class ranks within each: the "
            "theorem is not of these. Give coverage, or per_class=False."
        )
    predictors = predictors_of(model, "predict_set")
    classes = predictors.classes
    assert classes is not None
    n, n_folds = len(predictors.fold_of_row), predictors.n_folds
    level = _level(coverage, guaranteed, n, n_folds)
    groups = _sorted_scores(predictors, method, seed, per_class=bool(per_class))
    most = np.empty(len(classes), dtype=np.int64)
    for codes, by_fold in groups:
        of = f" of class {classes.tolist()[codes.start]!r}" if per_class else ""
        most[codes] = _rank(level, sum(map(len, by_fold)), of)
    rows = routed_rows(model, X)
    part = _parts(seed, 1, len(rows))  # the same by every fold's predictor
    below = np.zeros((len(rows), len(classes)), dtype=np.int64)
    for q, scores in enumerate(predictors.scores(rows)):
        here = _scores(model._task.answers(scores), method, part)
        for codes, by_fold in groups:
            below[:, codes] += np.searchsorted(by_fold[q], here[:, codes], side="left")
    conditions = conditions_of(
        model, predictors, independent_duplicates=bool(independent_duplicates)
    )
    if per_class:
        why = "the theorem is of all classes together, and these ranks are within each"
        conditions += (Assumption("ranks among all rows", False, why),)
    return PredictionSets(
        sets=below < most,
        classes=classes,
        method=method,
        per_class=bool(per_class),
        random_state=seed,
        prediction=model.predict(rows),
        coverage=float(level),
        proven_coverage=proven(level, n, n_folds),
        conditions=conditions,
        n_calibration=n,
        n_folds=n_folds,
    )


def _seed(random_state: Any, method: str) -> int | None:
    if random_state is None:
        return None
    if method != "aps":
        raise ValueError(f"random_state is of method='aps' alone; got method={method!r}.")
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if not whole or random_state < 0:
        raise ValueError(f"random_state is a whole number, at least 0; got {random_state!r}.")
    return int(random_state)


def _parts(seed: int | None, stream: int, n_rows: int) -> FloatArray | None:
    """Uniform numbers for rows: stream 0 of the fit, 1 new ones; None without a random step."""
    return None if seed is None else np.random.default_rng([seed, stream]).uniform(size=n_rows)


def _sorted_scores(
    predictors: FoldPredictors, method: str, seed: int | None, *, per_class: bool
) -> list[tuple[slice, list[FloatArray]]]:
    """The scores of the rows of the fit, rising in each fold: of all classes, or of each."""
    key = (method, seed, per_class)
    if key in predictors.made:
        found: list[tuple[slice, list[FloatArray]]] = predictors.made[key]
        return found
    target, fold_of_row = predictors.target, predictors.fold_of_row
    part = _parts(seed, 0, len(target))
    score = _scores(predictors.out_of_fold, method, part)[np.arange(len(target)), target]
    n_classes = predictors.out_of_fold.shape[1]
    group = target if per_class else np.zeros_like(target)
    order = np.lexsort((score, fold_of_row, group))
    # Where each fold of each group begins: they stand one after the other.
    n_groups, n_folds = (n_classes if per_class else 1), predictors.n_folds
    sizes = np.bincount(group * n_folds + fold_of_row, minlength=n_groups * n_folds)
    parts = np.split(score[order], np.cumsum(sizes)[:-1])
    predictors.made[key] = [
        (slice(k, k + 1) if per_class else slice(0, n_classes), parts[k * n_folds :][:n_folds])
        for k in range(n_groups)
    ]
    return _sorted_scores(predictors, method, seed, per_class=per_class)


def _scores(probability: FloatArray, method: str, part: FloatArray | None) -> FloatArray:
    """The score of each class, less a part of its own probability where there is one."""
    score = _nonconformity(probability, method)
    return score if part is None else score - part[:, None] * probability


def _nonconformity(probability: FloatArray, method: str) -> FloatArray:
    """How unlike each class a row is, shape (n_rows, n_classes)."""
    if method == "lac":
        return 1.0 - probability
    # The probability of all classes that are at least as likely: equal ones stand together.
    order = np.argsort(-probability, axis=1, kind="stable")
    ranked = np.take_along_axis(probability, order, axis=1)
    total = np.cumsum(ranked, axis=1)
    for k in range(total.shape[1] - 2, -1, -1):
        tied = ranked[:, k] == ranked[:, k + 1]
        total[tied, k] = total[tied, k + 1]
    out = np.empty_like(total)
    np.put_along_axis(out, order, total, axis=1)
    return out


# Levels.


def shortfall(n_rows: int, n_folds: int) -> Fraction:
    r"""Return what CV+ loses beyond twice its level, because folds have more than one row.

    .. math:: \min\left(\frac{2 (1 - 1/Q)}{n/Q + 1}, \frac{1 - Q/n}{Q + 1}\right)

    The second is proven for equal folds, the first for any (docs/intervals.md).

    Parameters
    ----------
    n_rows, n_folds : int
        n and Q; where Q does not divide n, the folds are not equal.

    Returns
    -------
    shortfall : Fraction

    Examples
    --------
    >>> from kpp.models.intervals import shortfall
    >>> shortfall(100, 100), float(shortfall(1000, 5))
    (Fraction(0, 1), 0.007960199004975124)
    """
    n, q = Fraction(n_rows), Fraction(n_folds)
    of_any = _loss_of_any(n_rows, n_folds)
    return of_any if n_rows % n_folds else min(of_any, (1 - q / n) / (q + 1))


def _loss_of_any(n_rows: int, n_folds: int) -> Fraction:
    """What is lost with folds of any sizes."""
    n, q = Fraction(n_rows), Fraction(n_folds)
    return 2 * (1 - 1 / q) / (n / q + 1)


def proven(level: Fraction, n_rows: int, n_folds: int) -> float:
    """Return the coverage that the theorem promises at a level, at least 0."""
    return max(0.0, float(1 - 2 * (1 - level) - shortfall(n_rows, n_folds)))


def _level(coverage: Any, guaranteed: Any, n_rows: int, n_folds: int) -> Fraction:
    """The level 1 - a: the given one, or the least that promises the given guarantee."""
    if guaranteed is None:
        return _share("coverage", coverage)
    asked = _share("guaranteed", guaranteed)
    level = _level_for(asked, n_rows, n_folds)
    if _is_reached(level, n_rows):
        return level
    raise RefusedError(
        f"guaranteed={guaranteed!r} is more than {n_rows} rows in {n_folds} folds can "
        f"promise; {n_folds} folds need {_least_rows(asked, n_rows, n_folds)} rows. Ask for less, "
        "or give coverage."
    )


def _least_rows(asked: Fraction, n_rows: int, n_folds: int) -> int:
    """The fewest rows, more than there are, in which so many folds promise a share.

    Folds of any sizes lose less with every row. Equal folds may lose less still, by the second
    term of `shortfall`, which grows; but what it leaves times n + 1 is convex in n, and where it
    is reached with one row a fold it only rises: it is passed upward once. So both are bisected.
    """

    def of_any(n: int) -> bool:
        return _is_reached(1 - (1 - asked - _loss_of_any(n, n_folds)) / 2, n)

    def of_equal(each: int) -> bool:
        return _is_reached(_level_for(asked, each * n_folds, n_folds), each * n_folds)

    return min(_first(of_any, n_rows), n_folds * _first(of_equal, n_rows // n_folds + 1))


def _first(is_true: Callable[[int], bool], low: int) -> int:
    """The least number from `low` on for which something is true that stays true."""
    step = 1
    while not is_true(low + step - 1):
        step *= 2
    first, last = low + step // 2, low + step - 1
    while first < last:
        middle = (first + last) // 2
        first, last = (first, middle) if is_true(middle) else (middle + 1, last)
    return first


def _level_for(asked: Fraction, n_rows: int, n_folds: int) -> Fraction:
    return 1 - (1 - asked - shortfall(n_rows, n_folds)) / 2


def _is_reached(level: Fraction, n_rows: int) -> bool:
    return level < 1 and ceil(level * (n_rows + 1)) <= n_rows


def _share(name: str, value: Any) -> Fraction:
    """A share as the decimal that was written: 0.9 of 10 is 9, not a little less."""
    valid = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not valid or not 0 < value < 1:
        raise ValueError(f"{name} is a share, strictly between 0 and 1; got {value!r}.")
    return Fraction(repr(float(value)))


def _rank(level: Fraction, n_rows: int, of: str = "") -> int:
    rank = ceil(level * (n_rows + 1))
    if rank > n_rows:
        needs = ceil(level / (1 - level))
        raise RefusedError(
            f"coverage={float(level):.6g} needs out-of-fold errors of at least {needs} rows{of}; "
            f"the fit had {n_rows}. Ask for less, or fit on more."
        )
    return rank


# What has predictors of its folds, and what they are worth.


def predictors_of(model: KPPLinearModel, name: str) -> FoldPredictors:
    """Return the predictors of the folds, none of which has seen its fold.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted.
    name : str
        What asks for them, for the error.

    Returns
    -------
    predictors : FoldPredictors

    Raises
    ------
    NoFoldPredictorsError
        Where there are none; it says what has them.
    """
    model._check_fitted()
    if regime_of(model).grows_on_fit_rows and model.alpha_selection_ == "frozen":
        raise NoFoldPredictorsError(
            f"{name} needs predictors that have not seen a fold, and with "
            "alpha_selection='frozen' the trees have seen all rows: use 'fold-grown' or 'regrown', "
            f"or regime='honest'; {NESTED_WAY} has them for every model.",
            reason="frozen",
        )
    if model.fold_predictors_ is not None:
        return model.fold_predictors_
    check_has_rows(model, name)
    if model.oof_prediction_ is None:
        raise NoFoldPredictorsError(
            f"{name} needs predictors that have not seen a fold, and a fit at a given alpha leaves "
            "none out: use alpha='auto', with alphas=[alpha] for that number; every regime "
            f"has them. {NESTED_WAY} has a guarantee, too, whatever the model.",
            reason="given",
        )
    raise NoFoldPredictorsError(
        f"{name} needs the predictors of the folds, which the file of this model does not hold: it "
        "is of an older version, or of alpha_selection='regrown', whose folds have forests of "
        "their own. Fit the model again: refit and use it without saving, or save it anew.",
        reason="file",
    )


class NoFoldPredictorsError(RefusedError):
    """A model has no predictors that have left a fold out.

    Parameters
    ----------
    text : str
        Why, and what has them.
    reason : {"frozen", "given", "file"}
        The same for those who say it in words of their own, as the command does.
    """

    def __init__(self, text: str, *, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


class OfAnotherTask:
    """A method that only models of another task have: absent, with a word on what is there.

    Parameters
    ----------
    text : str
        What the AttributeError says.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        # Nothing else makes `hasattr` false, as scikit-learn has it, and says more than that.
        kind = owner.__name__ if owner is not None else type(instance).__name__
        raise AttributeError(f"{kind} has no {self.name}: {self.text}")
