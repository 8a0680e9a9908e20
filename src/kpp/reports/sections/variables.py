"""What matters: mean absolute contributions, and how each variable's contribution varies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kpp._checks import RefusedError, is_missing
from kpp._typing import AnyArray, FloatArray
from kpp.explanations import explain_interactions
from kpp.reports.escaping import shown
from kpp.reports.subject import Subject

MOST_VARIABLES = 40
MOST_OUTPUTS = 10
# Pairs of columns that are listed, and the rows that they are found on.
MOST_PAIRS, PAIR_ROWS = 10, 2000
NUMBER_BINS = 16
MOST_CATEGORIES = 10
OTHERS = "(others)"


def make(subject: Subject) -> dict[str, Any]:
    """Rank the variables, and bin the contribution of each by its value."""
    index, values = subject.overview
    importance = subject.importance
    outputs = list(range(values.shape[2]))
    if len(outputs) > MOST_OUTPUTS:
        outputs = np.sort(
            np.argsort(-importance.sum(axis=0), kind="stable")[:MOST_OUTPUTS]
        ).tolist()
    # By what is shown: of many classes these are only some.
    order = np.argsort(-importance[:, outputs].sum(axis=1), kind="stable")
    listed, others = order[:MOST_VARIABLES], order[MOST_VARIABLES:]
    residuals = residuals_of(subject, index)[:, outputs]
    found = []
    for j in listed.tolist():
        column = subject.values_of(j)[index]
        found.append(
            {
                "name": subject.variables[j],
                "mean_abs": importance[j, outputs],
                "effect": effect(column, values[:, j][:, outputs]),
                "residual": effect(column, residuals, summary=mean_with_interval),
            }
        )
    return {
        "n_rows": len(index),
        "called": subject.called,
        "outputs": [subject.output_names[k] for k in outputs],
        "n_outputs": values.shape[2],
        "unit": "log-odds" if subject.is_classifier else "units of the target",
        "variables": found,
        "pairs": pairs(subject, index[:PAIR_ROWS]),
        "n_others": len(others),
        "others_mean_abs": importance[others][:, outputs].sum(axis=0),
        "n_prepared": subject.model.n_features_in_,
        "is_classifier": subject.is_classifier,
        "is_prepared": subject.preparation is not None,
    }


def residuals_of(subject: Subject, index: AnyArray) -> FloatArray:
    """What the predictions of some rows leave, shape (n_index, n_scores).

    Target less prediction; for classes 1 or 0, whether a row is of the class, less its
    probability. Of two classes those of the second.
    """
    if not subject.is_classifier:
        return np.asarray(subject.target[index] - subject.prediction[index], dtype=np.float64)
    probability = subject.probability[index]
    left = (subject.target[index][:, None] == np.arange(probability.shape[1])) - probability
    return left if probability.shape[1] > 2 else left[:, 1:]


def pairs(subject: Subject, index: AnyArray) -> dict[str, Any] | None:
    """The pairs of columns that add most together, over some rows."""
    try:
        found = explain_interactions(subject.question, subject.rows(index), top=MOST_PAIRS)
    except RefusedError:
        return None
    names = dict(zip(found.feature_names, subject.variables, strict=True))
    size = found.mean_abs if found.mean_abs.ndim == 1 else found.mean_abs.sum(axis=1)
    return {
        "n_rows": len(index),
        "listed": [
            {"first": names[a], "second": names[b], "mean_abs": float(own)}
            for (a, b), own in zip(found.pairs, size, strict=True)
            if own > 0
        ],
        "n_others": found.n_others,
        "sizes": [{"name": name, "size": own} for name, own in found.sizes().items()],
    }


def effect(
    column: AnyArray,
    values: FloatArray,
    summary: Callable[[FloatArray], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Contribution, or whatever else, against value, in bins.

    Parameters
    ----------
    column : array of shape (n_rows,)
        Values of a variable: numbers, names, or times.
    values : array of shape (n_rows, n_outputs)
        Its contributions.
    summary : callable, optional
        What is told of the values of a bin; the mean and the middle 80% by default.

    Returns
    -------
    effect : dict
        "kind", and per bin the label or place, the number of rows, and for every output the mean
        and the 10% and 90% quantiles.
    """
    kind, numbers, names = read_column(column)
    told = _summary if summary is None else summary
    missing = np.isnan(numbers)
    bins = []
    if kind == "category":
        counts = np.bincount(numbers[~missing].astype(int), minlength=len(names))
        order = np.argsort(-counts, kind="stable")
        order, rest = order[:MOST_CATEGORIES], order[MOST_CATEGORIES:]
        for code in order.tolist():
            bins.append({"label": names[code], **told(values[numbers == code])})
        if len(rest):
            bins.append({"label": OTHERS, **told(values[np.isin(numbers, rest)])})
    else:
        for low, high, rows in _number_bins(numbers):
            place: dict[str, Any] = {"at": float(np.median(numbers[rows]))}
            if kind == "time":
                first, last = (str(np.datetime64(int(t), "s"))[:10] for t in (low, high))
                place = {"label": first if first == last else f"{first} to {last}"}
            else:
                place |= {"low": low, "high": high}
            bins.append({**place, **told(values[rows])})
    if missing.any():
        bins.append({"label": "missing", **told(values[missing])})
    return {"kind": "number" if kind == "number" else "category", "bins": bins}


def read_column(column: AnyArray) -> tuple[str, FloatArray, list[str]]:
    """A column as numbers, seconds, or codes of names; NaN where missing.

    Returns
    -------
    kind : {"number", "time", "category"}
    numbers : array of shape (n_rows,)
    names : list of str
        Of the codes, to be shown; empty for the other kinds.
    """
    if column.dtype.kind in "fiub":
        return "number", column.astype(np.float64), []
    if column.dtype.kind == "M":
        seconds = column.astype("datetime64[s]").astype(np.float64)
        return "time", np.where(np.isnat(column), np.nan, seconds), []
    listed = [None if is_missing(value) else value for value in column.tolist()]
    if all(v is None or isinstance(v, int | float) for v in listed):
        return "number", np.array([np.nan if v is None else float(v) for v in listed]), []
    texts = [None if v is None else shown(v, 40) for v in listed]
    names = sorted({text for text in texts if text is not None})
    place = {name: k for k, name in enumerate(names)}
    codes = [np.nan if text is None else float(place[text]) for text in texts]
    return "category", np.array(codes), names


def _number_bins(numbers: FloatArray) -> list[tuple[float, float, AnyArray]]:
    """Bins of about equally many rows, or one per value where these are few."""
    known = numbers[~np.isnan(numbers)]
    distinct = np.unique(known)
    if len(distinct) <= NUMBER_BINS:
        return [(float(v), float(v), numbers == v) for v in distinct]
    # Actual values as edges: no interpolation between infinities, and ties stay together.
    edges = np.unique(np.quantile(known, np.linspace(0, 1, NUMBER_BINS + 1), method="lower"))
    found = []
    place = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
    for b in range(len(edges) - 1):
        rows = (place == b) & ~np.isnan(numbers)
        if rows.any():
            found.append((float(numbers[rows].min()), float(numbers[rows].max()), rows))
    return found


def mean_with_interval(values: FloatArray) -> dict[str, Any]:
    """The mean of each output, and its interval of 95% by the normal law."""
    mean, n_rows = values.mean(axis=0), len(values)
    half = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(n_rows) if n_rows > 1 else 0.0 * mean
    return {"n": n_rows, "mean": mean, "q10": mean - half, "q90": mean + half}


def _summary(values: FloatArray) -> dict[str, Any]:
    low, high = np.quantile(values, [0.1, 0.9], axis=0)
    return {"n": len(values), "mean": values.mean(axis=0), "q10": low, "q90": high}
