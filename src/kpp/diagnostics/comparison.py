"""`compare`: a model and its rivals on the same rows, with paired differences."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from scipy import stats
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_consistent_length, check_is_fitted
from threadpoolctl import threadpool_limits

from kpp._checks import RefusedError, check_sample_weight
from kpp._progress import Progress
from kpp._rows import take_rows
from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray
from kpp.diagnostics.intervals import CONFIDENCE
from kpp.diagnostics.metrics import classification_metrics, regression_metrics
from kpp.diagnostics.rivals import rivals as usual_rivals
from kpp.forest.coded import CodedRows, category_codes, needs_reading
from kpp.models.data import check_groups, group_codes


@dataclass(frozen=True)
class Compared(Shown):
    """One model of a comparison.

    Parameters
    ----------
    name : str
        What it is.
    loss : float
        Mean loss on the test rows: of the squared error, or the log loss.
    scores : dict of str to float
        "rmse", "mae", "r2"; or "log_loss", "accuracy", "auc" and more, as in
        `kpp.diagnostics.predictive_metrics`.
    seconds : float, optional
        Time of its fit, with its preparation; None where it came fitted.
    difference : float
        Its mean loss less that of the first model: above 0 where the first one is better.
    low, high : float
        95% interval of the difference, over the draw of the test rows.
    """

    name: str
    loss: float
    scores: dict[str, float]
    seconds: float | None
    difference: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Whether the interval leaves a doubt: "better", "worse" or "no difference seen"."""
        if self.low <= 0 <= self.high:
            return "no difference seen"
        return "worse" if self.difference > 0 else "better"


@dataclass(frozen=True)
class Comparison(Shown):
    """A model beside others, on the same test rows.

    Parameters
    ----------
    models : list of Compared
        The model itself first, then its rivals, best first.
    loss : str
        "squared error" or "log loss".
    n_train, n_test : int
        Rows of the fits and of the scores.
    left_out : dict of str to str
        Rivals that were not fitted, and why.
    grouped : bool
        Whether test rows of a group were taken together in the intervals.
    """

    models: list[Compared]
    loss: str
    n_train: int
    n_test: int
    left_out: dict[str, str] = field(default_factory=dict)
    grouped: bool = False

    @property
    def said(self) -> str:
        """What the intervals are of, in one sentence."""
        rows = "groups of test rows" if self.grouped else "test rows"
        return (
            f"Intervals are of the draw of {rows} only, one rival at a time: not of fits on other "
            "rows, and not of all rivals together."
        )

    def to_frame(self) -> Any:
        """Return one line a model as a pandas data frame."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "model": one.name,
                    **one.scores,
                    "fit_seconds": one.seconds,
                    "difference": one.difference,
                    "low": one.low,
                    "high": one.high,
                    "verdict": one.verdict,
                }
                for one in self.models
            ]
        )

    def __str__(self) -> str:
        shown = "rmse" if self.loss == "squared error" else "log_loss"
        head = ["model", shown.replace("_", " "), "fit, s", "difference", "95% interval", ""]
        lines = [head]
        for k, one in enumerate(self.models):
            seconds = "" if one.seconds is None else f"{one.seconds:.2f}"
            line = [one.name, f"{one.scores[shown]:.4g}", seconds, "", "", ""]
            if k:
                line[3:] = [
                    f"{one.difference:+.3g}",
                    f"{one.low:+.3g} to {one.high:+.3g}",
                    one.verdict,
                ]
            lines.append(line)
        widths = [max(len(line[j]) for line in lines) for j in range(len(head))]
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        title = (
            f"On {self.n_test:,} test rows, fitted on {self.n_train:,}; difference in {self.loss}"
        )
        left_out = [f"{k}: left out, {v}" for k, v in self.left_out.items()]
        return "\n".join([title, *table, *left_out, self.said])


def compare(
    model: Any,
    X: Any,
    y: Any,
    *,
    test: tuple[Any, Any] | None = None,
    rivals: Mapping[str, Any] | Callable[..., Mapping[str, Any]] | None = None,
    test_size: float = 0.2,
    sample_weight: Any = None,
    test_weight: Any = None,
    test_groups: Any = None,
    time_budget: float | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    verbose: int = 0,
) -> Comparison:
    r"""Compare a model with a constant, a linear model, forests and boosters on the same split.

    Rivals are fitted at their libraries' own defaults on the rows of the fit; LightGBM, XGBoost
    and CatBoost take part where they are installed. With :math:`d_i` the loss of a rival on test
    row i less that of the model, the difference is :math:`\bar d`, and its interval Student's,
    :math:`\bar d \pm t\, s_d / \sqrt n`; with groups, of their sums. It speaks of these fits on
    other rows drawn like the test rows, one rival at a time; not of fits on other rows, nor of all
    rivals together.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline that ends in one
        Fitted on a part of the rows here, as a clone; with `test` one that is fitted is taken as
        it is, fitted on `X` by the caller's word.
    X : array-like or data frame of shape (n_rows, n_columns)
        Rows. Rivals get the columns as a Pipeline's preparation makes them, or else categories by
        their codes.
    y : array-like of shape (n_rows,)
        Labels or numbers.
    test : tuple of X and y, optional
        Test rows; by default a part of the rows is held out.
    rivals : mapping of str to estimator, optional
        Instead of the usual ones; they are cloned, and get the same columns as numbers. Or a
        function of `classification` and `categorical`, the columns of codes, that returns them,
        such as ``kpp.diagnostics.rivals.simple_rivals``.
    test_size : float, default=0.2
        Share of the rows that is held out, classes in equal shares.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows of `X`, in the fits and, without `test`, in the scores.
    test_weight, test_groups : array-like of shape (n_test_rows,), optional
        With `test`: weights of its rows; and which of them belong together, for the intervals.
    time_budget : float, optional
        Seconds for the fits of rivals. When they are used up no other fit is begun, and what is
        left out is said; a fit under way ends.
    n_jobs : int, optional
        Threads of the rivals.
    random_state : int, default=0
        Seed of split and rivals.
    verbose : int, default=0
        1 shows how far it is.

    Returns
    -------
    comparison : Comparison

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from kpp import KPPClassifier, compare
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(random_state=0)
    >>> model = KPPClassifier("extra-trees", random_state=0)
    >>> found = compare(model, X, y, rivals={"random forest": forest})
    >>> [one.name for one in found.models], found.n_test
    (['KPPClassifier', 'random forest'], 114)
    """
    progress = Progress(verbose)
    classification = is_classifier(model)
    target = np.asarray(y)
    if target.ndim != 1:
        raise RefusedError(f"compare takes one target a row; got y of shape {target.shape}.")
    check_consistent_length(X, target)
    if test is None and (test_weight is not None or test_groups is not None):
        raise ValueError("test_weight and test_groups are of the rows of test, which is not given.")
    weight = None if sample_weight is None else check_sample_weight(sample_weight, len(target))
    groups = None
    if test is None:
        train_rows, test_rows = _split(target, classification, test_size, random_state)
        X, X_test = take_rows(X, train_rows), take_rows(X, test_rows)
        target, target_test = target[train_rows], target[test_rows]
        if weight is not None:
            weight, test_weight = weight[train_rows], weight[test_rows]
    else:
        X_test, target_test = test[0], np.asarray(test[1])
        check_consistent_length(X_test, target_test)
        groups = check_groups(test_groups, len(target_test))
    seconds: float | None = None
    if test is None or not _is_fitted(model):
        progress("fitting the model", 0, 1)
        model, seconds = _timed(clone(model), X, target, weight)
        progress("fitting the model", 1, 1)
    preparation, last = _steps(model)
    classes = np.asarray(last.classes_) if classification else None
    codes, codes_test = _codes(target, classes), _codes(target_test, classes)
    judge = _Judge(
        classes,
        codes_test,
        check_sample_weight(test_weight, len(codes_test)),
        None if groups is None else group_codes(groups),
    )
    own = judge.scores(model, X_test)
    compared = [judge.compared(type(last).__name__, own, seconds, own[0])]
    X_numbers, X_test_numbers, categorical = _numbers(preparation, X, X_test)
    if rivals is None:
        rivals = usual_rivals(
            classification=classification,
            categorical=categorical,
            n_jobs=n_jobs,
            random_state=random_state,
        )
    elif callable(rivals):
        rivals = rivals(classification=classification, categorical=categorical)
    left_out: dict[str, str] = {}
    start = time.perf_counter()
    for k, (name, rival) in enumerate(rivals.items()):
        progress("fitting rivals", k, len(rivals))
        if time_budget is not None and time.perf_counter() - start > time_budget:
            left_out[name] = f"the time for rivals, {time_budget:g} s, was used up"
            continue
        try:
            # scikit-learn's booster takes every core, whatever it is told.
            with threadpool_limits(effective_n_jobs(n_jobs)):
                fitted, seconds = _timed(clone(rival), X_numbers, codes, weight)
            found = judge.scores(fitted, X_test_numbers)
            compared.append(judge.compared(name, found, seconds, own[0]))
        except ValueError as error:
            # A rival that does not take these rows is no reason to lose the others.
            left_out[name] = str(error).splitlines()[0]
    progress("fitting rivals", len(rivals), len(rivals))
    return Comparison(
        [compared[0], *sorted(compared[1:], key=lambda one: one.loss)],
        "log loss" if classification else "squared error",
        len(target),
        len(target_test),
        left_out,
        groups is not None,
    )


@dataclass(frozen=True, eq=False)
class _Judge:
    """Losses of single rows, and the usual figures."""

    classes: AnyArray | None
    target: AnyArray
    weight: FloatArray
    groups: AnyArray | None

    def scores(self, fitted: Any, X: Any) -> tuple[FloatArray, dict[str, float]]:
        """Loss of each row, and figures, of a fitted model."""
        if self.classes is None:
            prediction = np.asarray(fitted.predict(X), dtype=np.float64)
            figures = regression_metrics(self.target, prediction, self.weight)
            return np.square(self.target - prediction), figures
        probability = np.asarray(fitted.predict_proba(X), dtype=np.float64)
        # As scikit-learn does it: off 0 by a rounding error, and adding up to 1.
        tiny = np.finfo(np.float64).eps
        kept = np.clip(probability, tiny, 1 - tiny)
        chosen = kept[np.arange(len(self.target)), self.target] / kept.sum(axis=1)
        figures = classification_metrics(self.target, probability, weight=self.weight)
        return -np.log(chosen), figures

    def compared(
        self,
        name: str,
        found: tuple[FloatArray, dict[str, float]],
        seconds: float | None,
        own: FloatArray,
    ) -> Compared:
        """One model beside the first, whose losses are given."""
        losses, scores = found
        difference, share = losses - own, self.weight / self.weight.sum()
        mean, reach = float(share @ difference), np.inf
        parts, size = share * (difference - mean), 1 / float(np.square(share).sum())
        if self.groups is not None:
            parts = np.bincount(self.groups, parts)
            size = float(len(np.unique(self.groups[self.weight > 0])))
        if size > 1:
            error = float(np.sqrt(np.square(parts).sum() * size / (size - 1)))
            reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, size - 1)) * error
        loss = float(share @ losses)
        return Compared(name, loss, scores, seconds, mean, mean - reach, mean + reach)


def _split(
    target: AnyArray, classification: bool, test_size: float, random_state: int
) -> tuple[AnyArray, AnyArray]:
    """Row numbers of the fit and of the test; classes in equal shares where each has two rows."""
    stratify = None
    if classification and np.unique(target, return_counts=True)[1].min() > 1:
        stratify = target
    train, test = train_test_split(
        np.arange(len(target)),
        test_size=test_size,
        stratify=stratify,
        random_state=random_state,
    )
    return np.sort(train), np.sort(test)


def _is_fitted(model: Any) -> bool:
    try:
        check_is_fitted(_steps(model)[1])
    except NotFittedError:
        return False
    return True


def _steps(model: Any) -> tuple[Any, Any]:
    """What comes before the last step of a Pipeline, or None, and that step."""
    if not isinstance(model, Pipeline):
        return None, model
    return (model[:-1] if len(model) > 1 else None), model[-1]


def _timed(
    estimator: Any, X: Any, y: AnyArray, weight: FloatArray | None = None
) -> tuple[Any, float]:
    settings = {}
    if weight is not None:
        is_pipeline = isinstance(estimator, Pipeline)
        place = f"{estimator.steps[-1][0]}__sample_weight" if is_pipeline else "sample_weight"
        settings[place] = weight
    start = time.perf_counter()
    estimator.fit(X, y, **settings)
    return estimator, time.perf_counter() - start


def _codes(target: AnyArray, classes: AnyArray | None) -> AnyArray:
    """Class numbers; numbers as they are."""
    if classes is None:
        return target.astype(np.float64)
    unknown = ~np.isin(target, classes)
    if unknown.any():
        raise ValueError(
            f"y has a class that the rows of the fit have not: {target[unknown][0]!r}. The log "
            "loss of it is not defined; leave such rows out."
        )
    return np.searchsorted(classes, target)


def _numbers(preparation: Any, X: Any, X_test: Any) -> tuple[Any, Any, list[int]]:
    """Rows of fit and test as numbers, and the columns that are codes of categories.

    Categories of the test rows that the rows of the fit have not are missing.
    """
    if preparation is not None:
        X, X_test = preparation.transform(X), preparation.transform(X_test)
    if not needs_reading(X):
        return np.asarray(X, dtype=np.float64), np.asarray(X_test, dtype=np.float64), []
    rows, others = (CodedRows.read(one, allows_infinity=True) for one in (X, X_test))
    values = others.values.copy()
    for j, known in rows.categories.items():
        if j in others.categories:
            code = np.append(category_codes(others.categories[j], known), np.nan)
            place = np.where(np.isnan(values[:, j]), len(code) - 1, values[:, j]).astype(np.int64)
            values[:, j] = code[place]
    return rows.values, values, sorted(rows.categories)
