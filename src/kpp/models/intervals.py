"""Cross-conformal intervals and sets (CV+): ranks of out-of-fold errors, by the folds' predictors.

References
----------
Barber, Candes, Ramdas, Tibshirani (2021), Predictive inference with the jackknife+.
Romano, Sesia, Candes (2020), Classification with valid and adaptive coverage.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from kpp._assumptions import Assumption
from kpp._checks import RefusedError, check_choice
from kpp._parallel import blocks_of, run_blocks
from kpp._typing import AnyArray, FloatArray
from kpp.forest.columns import categorical_columns
from kpp.models._rank_loops import rank_of_scaled_sums
from kpp.models.fold_predictors import FoldPredictors
from kpp.models.interval_results import PredictionIntervals, PredictionSets
from kpp.models.left_rows import check_has_rows
from kpp.models.nested import NESTED
from kpp.models.regimes import regime_of
from kpp.scores import routed_rows
from kpp.solvers import HuberLoss

if TYPE_CHECKING:
    from kpp.models.linear import KPPLinearModel

WIDTHS = ("adaptive", "constant")
METHODS = ("lac", "aps")
# How many multiples of the folds are tried when an error says how many rows a level needs.
MOST_TRIED = 100_000
# Some milliseconds of work: what a thread takes at a time.
ROWS_OF_BLOCK = 2048


def predict_interval(
    model: KPPLinearModel, X: Any, coverage: Any, guaranteed: Any, width: Any
) -> PredictionIntervals:
    """The function behind the method of that name."""
    check_choice("width", width, WIDTHS)
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
        conditions=_conditions(model, predictors),
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
    per_class: bool,
    guaranteed: Any,
    random_state: Any = None,
) -> PredictionSets:
    """The function behind the method of that name."""
    check_choice("method", method, METHODS)
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
    conditions = _conditions(model, predictors)
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
    of_any = 2 * (1 - 1 / q) / (n / q + 1)
    return of_any if n_rows % n_folds else min(of_any, (1 - q / n) / (q + 1))


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
    multiples = range(n_rows // n_folds + 1, n_rows // n_folds + MOST_TRIED)
    found = (q * n_folds for q in multiples)
    enough = (n for n in found if _is_reached(_level_for(asked, n, n_folds), n))
    needs = next(enough, None)
    said = "" if needs is None else f"; {n_folds} folds need {needs} rows"
    raise RefusedError(
        f"guaranteed={guaranteed!r} is more than {n_rows} rows in {n_folds} folds can "
        f"promise{said}. Ask for less, or give coverage."
    )


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
    RefusedError
        Where there are none; it says what has them.
    """
    model._check_fitted()
    if regime_of(model).grows_on_fit_rows and model.alpha_selection_ == "frozen":
        raise RefusedError(
            f"{name} needs predictors that have not seen a fold, and with "
            "alpha_selection='frozen' the trees have seen all rows: use 'fold-grown' or 'regrown', "
            "or regime='honest'."
        )
    if model.fold_predictors_ is not None:
        return model.fold_predictors_
    check_has_rows(model, name)
    if model.oof_prediction_ is None:
        raise RefusedError(
            f"{name} needs predictors that have not seen a fold, and a fit at a given alpha leaves "
            "none out: use alpha='auto', with alphas=[alpha] for that number; every regime "
            "has them."
        )
    raise RefusedError(
        f"{name} needs the predictors of the folds, which the file of this model does not hold: it "
        "is of an older version, or of alpha_selection='regrown', whose folds have forests of "
        "their own. Fit the model again: refit and use it without saving, or save it anew."
    )


def _conditions(model: KPPLinearModel, predictors: FoldPredictors) -> tuple[Assumption, ...]:
    """What the theorem asks for, and whether it holds."""
    return (
        _exchangeable(model),
        _folds(model, predictors.fold_sizes),
        _alpha(model),
        _from_other_rows(model),
    )


def _exchangeable(model: KPPLinearModel) -> Assumption:
    name, record = "exchangeable rows", model.fit_record_
    if record.is_grouped:
        why = f"rows come in groups of up to {record.largest_group}: they belong together"
        return Assumption(name, False, why)
    if "sample_weight" in record.caller_weights:
        why = "the fit was given weights of rows, and ranks count every row once"
        return Assumption(name, False, why)
    return Assumption(name, None, "rows of the fit and new rows are taken as such draws")


def _folds(model: KPPLinearModel, sizes: AnyArray) -> Assumption:
    name, kind = "random folds", model.fit_record_.folds
    if kind != "random":
        why = f"folds are {kind}; use cv=KFold({len(sizes)}, shuffle=True)"
        return Assumption(name, False, why)
    each = f"{sizes.max()}" if sizes.min() == sizes.max() else f"{sizes.min()} to {sizes.max()}"
    return Assumption(name, True, f"{len(sizes)} folds of {each} rows, whatever the labels")


def _alpha(model: KPPLinearModel) -> Assumption:
    name = "alpha fixed without these labels"
    if model.alpha_selection_ == NESTED and not model.fit_record_.alphas_given:
        return Assumption(name, True, "every part has chosen for itself, without its fold")
    if model.blend_weights_ is not None and model.alpha_selection_ != NESTED:
        why = "the weights of a blend come from predictors that have seen this fold"
        return Assumption(name, False, why)
    is_chosen = model.alpha_selection_ not in ("given", NESTED)
    if is_chosen and (len(model.alphas_) > 1 or not model.fit_record_.alphas_given):
        why = "alpha was chosen by the out-of-fold errors themselves; give alphas=[alpha]"
        return Assumption(name, False, why)
    return Assumption(name, None, "the caller gave one, and says that it is not from these labels")


def _from_other_rows(model: KPPLinearModel) -> Assumption:
    name, record, regime = "one way from the other folds' rows", model.fit_record_, regime_of(model)
    if regime.averages_folds and not regime.leaves_folds_out:
        why = "trees and linear layer have different folds, in an order: regime='honest' has not"
        return Assumption(name, False, why)
    of_all_trees = regime.grows_on_fit_rows and not regime.leaves_folds_out
    if of_all_trees and model.alpha_selection_ == "fold-grown":
        why = (
            "alpha is carried by the scale of all trees, and columns are read from all rows; use "
            "alpha_selection='regrown', or regime='honest'"
        )
        return Assumption(name, False, why)
    if record.class_weight == "balanced" and not regime.splits_rows:
        return Assumption(name, False, "class_weight='balanced' counts the labels of all folds")
    is_read = isinstance(model.loss_, HuberLoss) and model.loss_.is_read
    if is_read and not regime.splits_rows and model.alpha_selection_ != NESTED:
        why = "Huber's threshold was read from the labels of all folds; give huber_delta"
        return Assumption(name, False, why)
    made = [own for own in record.caller_weights if own != "sample_weight"]
    if made:
        given = " and ".join(made)
        return Assumption(name, None, f"the caller says that {given} was made without these labels")
    if any(categorical_columns(block.forest).any() for block in model.additive_.blocks):
        why = "the caller says that the lists of categories, read from all rows, were known before"
        return Assumption(name, None, why)
    if regime.takes_grown_forest:
        return Assumption(name, None, regime.independence[1])
    return Assumption(name, True, "each fold is predicted by the same fit of the others")
