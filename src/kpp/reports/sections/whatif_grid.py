"""Predictions on a grid around rows: one column at a time takes the values of other rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from kpp._checks import RefusedError, is_missing
from kpp._rows import take_rows
from kpp._typing import AnyArray, OffsetArray
from kpp.explanations.explain import explain
from kpp.models import KPPClassifier, KPPRegressor
from kpp.reports.embedded import packed
from kpp.reports.escaping import shown
from kpp.reports.sections.intervals import LEVEL
from kpp.reports.sections.variables import read_column
from kpp.reports.subject import Subject
from kpp.scores import RoutedRows

MOST_VARIABLES = 10
MOST_POINTS = 9
# Rows in which values of a column are looked for.
MOST_READ = 5000
MOST_SCORES = 12


def make(subject: Subject, index: OffsetArray, order: OffsetArray) -> dict[str, Any]:
    """Predict each row with one value exchanged for that of another row.

    Parameters
    ----------
    subject : Subject
        Of the report.
    index : int array of shape (n,)
        Rows of the page.
    order : int array of shape (n_variables,)
        Variables, those that matter most first.

    Returns
    -------
    grid : dict
        "variables" with names of the values; and per row, variable and value the scores, ranges
        and contributions.
    """
    if subject.question.additive.n_scores > MOST_SCORES:
        raise RefusedError(f"What-if is for at most {MOST_SCORES} scores.")
    usable = [j for j in order.tolist() if subject.places[j][0]]
    listed = usable[:MOST_VARIABLES]
    read = np.concatenate([index, np.setdiff1d(subject.draw(MOST_READ), index)])
    base = subject.rows(index)
    variables = []
    for j in listed:
        column = subject.values_of(j)[read]
        points = options(column, MOST_POINTS, 0)
        sources = read[points]
        moved = with_columns_of(
            subject.given,
            np.repeat(index, len(points)),
            {subject.places[j][1]: np.tile(sources, len(index))},
        )
        if moved is None:
            raise RefusedError(
                "What-if needs rows as a NumPy array or a pandas data frame, or a model that fits "
                "into the page."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a date among others of one format
            rows = subject.question.rows(moved)
        shape = (len(index), len(points))
        kind, numbers, _ = read_column(column)
        variables.append(
            {
                "variable": listed.index(j),
                "name": subject.variables[j],
                "names": [name_of(column[p]) for p in points],
                "at": numbers[points] if kind == "number" else None,
                "of_rows": [name_of(value) for value in column[: len(index)]],
                "scores": packed(rows.scores.reshape(*shape, -1), "<f8"),
                "ranges": _packed_ranges(subject, rows),
                "adds": packed(_adds(subject, rows, listed).reshape(*shape, -1), "<f4"),
            }
        )
    return {
        "variables": variables,
        "n_other_variables": len(subject.variables) - len(listed),
        "scores": base.scores,
        "ranges": ranges_of(subject, base),
        "adds": _adds(subject, base, listed),
    }


def _adds(subject: Subject, rows: RoutedRows, listed: list[int]) -> AnyArray:
    """Contributions of the listed variables, shape (n_rows, n_listed, n_scores)."""
    values = explain(subject.question, rows, centered=True).values
    values = values[..., None] if values.ndim == 2 else values
    return values[:, listed]


def _packed_ranges(subject: Subject, rows: RoutedRows) -> str | None:
    found = ranges_of(subject, rows)
    return None if found is None else packed(found, "<f8")


def ranges_of(subject: Subject, rows: RoutedRows) -> AnyArray | None:
    """Intervals as two numbers for each target, or sets as 0 and 1 for each class; or None.

    Returns
    -------
    ranges : array of shape (n_rows, 2, n_targets) or (n_rows, 1, n_classes)
    """
    model = subject.model
    try:
        if isinstance(model, KPPClassifier):
            return model.predict_set(rows, LEVEL).sets[:, None, :].astype(np.float64)
        assert isinstance(model, KPPRegressor)
        found = model.predict_interval(rows, LEVEL)
    except RefusedError:  # the section of intervals says why
        return None
    return np.stack([end.reshape(len(rows), -1) for end in (found.lower, found.upper)], axis=1)


def with_columns_of(X: Any, rows: OffsetArray, sources: dict[int, OffsetArray]) -> Any:
    """Rows of a table, some of whose columns are those of other rows.

    Parameters
    ----------
    X : array or pandas.DataFrame of shape (n, n_columns)
        The table.
    rows : int array of shape (m,)
        Rows to take.
    sources : dict of int to int array of shape (m,)
        For a column, the rows whose values it takes instead.

    Returns
    -------
    table : of the same kind, or None for other kinds
        Columns keep their types.
    """
    if isinstance(X, np.ndarray):
        found = X[rows].copy()
        for column, source in sources.items():
            found[:, column] = X[source, column]
        return found
    if not hasattr(X, "iloc"):
        return None
    found = take_rows(X, rows).reset_index(drop=True)
    for column, source in sources.items():
        found.isetitem(column, X.iloc[:, column].take(source).array)
    return found


def options(column: AnyArray, most: int, n_first: int) -> list[int]:
    """Places of distinct values of a column: quantiles of numbers and times, frequent names.

    Parameters
    ----------
    column : array of shape (n,)
        Values.
    most : int
        How many, at most, beside those of the first rows.
    n_first : int
        Rows at the front whose values are among them in any case.

    Returns
    -------
    places : list of int
        In the order of the values; missing last.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.reports.sections.whatif_grid import options
    >>> options(np.array([3.0, 1.0, 3.0, np.nan]), 5, 0)
    [1, 0, 3]
    """
    kind, numbers, _ = read_column(column)
    known = np.flatnonzero(~np.isnan(numbers))
    values, first, counts = np.unique(numbers[known], return_index=True, return_counts=True)
    chosen = np.arange(len(values))
    if len(values) > most and kind == "category":
        chosen = np.sort(np.argsort(-counts, kind="stable")[:most])
    elif len(values) > most:
        wanted = np.quantile(numbers[known], np.linspace(0, 1, most), method="nearest")
        chosen = np.flatnonzero(np.isin(values, wanted))
    own = np.isin(values, numbers[:n_first])
    chosen = np.union1d(chosen, np.flatnonzero(own))
    places = [int(known[first[c]]) for c in chosen]
    missing = np.flatnonzero(np.isnan(numbers))
    return [*places, int(missing[0])] if len(missing) else places


def name_of(value: Any) -> str:
    """A value of a column as the page shows it."""
    if is_missing(value):
        return "missing"
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[s]")).removesuffix("T00:00:00").replace("T", " ")
    if isinstance(value, float | np.floating):
        return str(float(value)).removesuffix(".0")  # all digits: no two values look the same
    return shown(value, 40)
