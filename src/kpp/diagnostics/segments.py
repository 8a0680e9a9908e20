"""`segments`: where a model is worse, by the values of columns or by slices that the user names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from kpp._checks import RefusedError, check_choice, check_sample_weight
from kpp._numbers import significant
from kpp._rows import columns_of
from kpp._shown import Shown
from kpp._typing import AnyArray, BoolArray, FloatArray
from kpp.diagnostics.intervals import wilson
from kpp.diagnostics.losses import LOSSES, row_losses
from kpp.diagnostics.segment_tests import holm, segment_statistics
from kpp.diagnostics.slices import N_BINS, Slicing, cells, short_name, slice_column
from kpp.models import KPPClassifier, KPPRegressor
from kpp.models.asking import Question, ask
from kpp.models.data import check_groups, group_codes
from kpp.scores import RoutedRows

LEVEL = 0.05
MIN_ROWS = 20
# With by="pairs", pairs are of so many columns, those that move the score most.
MOST_PAIRED = 6
WORSE, UNCLEAR, TOO_FEW = "worse than the rest", "no difference seen", "too few rows"
PRINTED = 15


@dataclass(frozen=True)
class Segment(Shown):
    """One part of the rows beside all others.

    Parameters
    ----------
    name : str
        Which rows, in words: "age over 30, up to 45".
    columns : tuple of str
        The columns, or the name of the slice.
    n_rows : int
        Its rows.
    share : float
        Their share of the weight of all rows.
    loss, low, high : float
        Mean loss there, and its 95% interval.
    rest : float
        Mean loss of all other rows.
    difference, difference_low, difference_high : float
        ``loss - rest``, above 0 where the segment is worse, and its 95% interval.
    p_value, adjusted : float
        One-sided p-value of "no worse than the rest"; the same adjusted for the number of segments
        that were looked at, by Holm's method. NaN where there are too few rows.
    verdict : str
        "worse than the rest" where `adjusted` is at most 0.05, "no difference seen", or "too few
        rows".
    actual, predicted : float
        Mean target and mean prediction; of two classes, the share of the second one and its mean
        probability. NaN with several classes or targets.
    covered, covered_low, covered_high : float, optional
        Share of its rows whose target is in the prediction interval or set, and Wilson's interval;
        None unless asked for.
    """

    name: str
    columns: tuple[str, ...]
    n_rows: int
    share: float
    loss: float
    low: float
    high: float
    rest: float
    difference: float
    difference_low: float
    difference_high: float
    p_value: float
    adjusted: float
    verdict: str
    actual: float
    predicted: float
    covered: float | None = None
    covered_low: float | None = None
    covered_high: float | None = None


@dataclass(frozen=True)
class Segments(Shown):
    """The segments that were looked at, the worst first.

    Parameters
    ----------
    segments : list of Segment
        By the lower end of the interval of the difference: how much worse they are at least. Those
        of too few rows come last.
    loss : str
        "log loss", "squared error", ...
    overall : float
        Mean loss of all rows.
    n_rows : int
        All rows.
    n_tested : int
        Segments that were tested, which the adjustment counts.
    grouped : bool
        Whether rows of a group were taken together.
    coverage : float, optional
        What intervals or sets were asked to cover.
    notes : list of str
        What was left out, and why.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor, segments
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=0)
    >>> found = segments(model.fit(X[::2], y[::2]), X[1::2], y[1::2], by=["sex"])
    >>> found.loss, found.n_rows, sorted({name for one in found.segments for name in one.columns})
    ('squared error', 221, ['sex'])
    """

    segments: list[Segment]
    loss: str
    overall: float
    n_rows: int
    n_tested: int
    grouped: bool = False
    coverage: float | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def worse(self) -> list[Segment]:
        """Those that are known to be worse than the rest."""
        return [one for one in self.segments if one.verdict == WORSE]

    @property
    def said(self) -> str:
        """What the verdicts are worth, in one sentence."""
        if not self.n_tested:
            return "No segment has enough rows to be tested."
        number = "1 segment was" if self.n_tested == 1 else f"{self.n_tested:,} segments were"
        return (
            f"{number} tested; if none were worse, the chance of calling any of them worse would "
            f"be at most {LEVEL:.0%} (Holm)."
        )

    def to_frame(self) -> Any:
        """Return one line a segment as a pandas data frame."""
        import pandas as pd

        lines = [
            {name: getattr(one, name) for name in Segment.__dataclass_fields__}
            for one in self.segments
        ]
        frame = pd.DataFrame(lines, columns=list(Segment.__dataclass_fields__))
        if self.coverage is None:
            frame = frame.drop(columns=["covered", "covered_low", "covered_high"])
        return frame

    def __str__(self) -> str:
        is_squared = self.loss == "squared error"

        def write(loss: float) -> str:
            score = np.sqrt(loss) if is_squared else loss
            return f"{score:,.0f}" if abs(score) >= 1000 else significant(score, 3)

        score = "RMSE" if is_squared else self.loss
        lines = [["segment", "rows", score, "95% interval", "rest", "adjusted p", ""]]
        lines += [
            [
                short_name(one.name),
                f"{one.n_rows:,}",
                write(one.loss),
                f"{write(one.low)} to {write(one.high)}",
                write(one.rest),
                "" if np.isnan(one.adjusted) else significant(one.adjusted, 2),
                one.verdict,
            ]
            for one in self.segments[:PRINTED]
        ]
        widths = [max(len(line[j]) for line in lines) for j in range(len(lines[0]))]
        table = [
            "  ".join(
                cell.rjust(width) if 0 < j < 6 else cell.ljust(width)
                for j, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        title = f"{self.n_rows:,} rows, {score} {write(self.overall)}"
        more = len(self.segments) - PRINTED
        after = [f"and {more:,} more"] if more > 0 else []
        return "\n".join([title, *table, *after, self.said, *self.notes])


def segments(
    model: Any,
    X: Any,
    y: Any,
    *,
    by: Any = "columns",
    loss: str = "auto",
    sample_weight: Any = None,
    groups: Any = None,
    coverage: float | None = None,
    n_bins: int = N_BINS,
    min_rows: int = MIN_ROWS,
) -> Segments:
    """Score a model by segments of the rows, and say which are worse than the rest.

    A segment is worse if its mean loss is larger than that of all other rows beyond chance. Its
    rows may be harder to predict for any model: compare, on the segment alone, with another model
    before you blame this one.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline that ends in one
        Fitted.
    X : array-like or data frame of shape (n_rows, n_columns)
        Rows that the fit has not used.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        Their targets.
    by : "columns", "pairs", sequence or mapping, default="columns"
        Every column; or also the pairs of the six columns that move the score most; or columns of
        X by name or number, and tuples of them; or names with a mask of rows, or with a column of
        values that need not be in X.
    loss : {"auto", "error"}, default="auto"
        What the model minimises, or 0/1 errors and absolute errors.
    sample_weight : array-like of shape (n_rows,), optional
        What the rows count.
    groups : array-like of shape (n_rows,), optional
        Which rows belong together; they are then no independent draws.
    coverage : float, optional
        Also measure what prediction intervals or sets of this level cover in each segment.
    n_bins : int, default=4
        Numbers of many values are cut into so many ranges.
    min_rows : int, default=20
        Segments of fewer rows, or that leave fewer, are shown without a verdict.

    Returns
    -------
    segments : Segments
        `print` shows a table, ``to_frame()`` gives all of it.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp import KPPRegressor, segments
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(size=400), rng.integers(0, 2, 400)])
    >>> y = X[:, 0] + 3 * X[:, 1] * rng.normal(size=400)
    >>> model = KPPRegressor("extra-trees", n_estimators=10, alpha=1.0, random_state=0)
    >>> found = segments(model.fit(X[:200], y[:200]), X[200:], y[200:])
    >>> found.segments[0].name, found.segments[0].verdict
    ('x1 = 1', 'worse than the rest')
    """
    question = ask(model)
    rows = question.rows(X)
    given = X.X if isinstance(X, RoutedRows) else X
    return segments_of_rows(
        question,
        rows,
        given,
        question.encode(y, len(rows)),
        by=by,
        loss=loss,
        weight=check_sample_weight(sample_weight, len(rows)),
        groups=check_groups(groups, len(rows)),
        coverage=coverage,
        n_bins=n_bins,
        min_rows=min_rows,
    )


def segments_of_rows(
    question: Question,
    rows: RoutedRows,
    given: Any,
    target: AnyArray,
    *,
    by: Any,
    loss: str = "auto",
    weight: FloatArray,
    groups: AnyArray | None,
    coverage: float | None = None,
    n_bins: int = N_BINS,
    min_rows: int = MIN_ROWS,
) -> Segments:
    """Do what `segments` does, with rows that were checked and routed before.

    Parameters
    ----------
    question : Question
        The model.
    rows : RoutedRows
        Of length n_rows.
    given : array or data frame of shape (n_rows, n_columns)
        The rows as the user has them, which are cut.
    target : array of shape (n_rows,) or (n_rows, n_targets)
        As ``question.encode`` gives it.
    weight : array of shape (n_rows,)
        What the rows count.
    groups : array of shape (n_rows,) or None
        Which belong together.
    by, loss, coverage, n_bins, min_rows
        As in `segments`.

    Returns
    -------
    segments : Segments
    """
    check_choice("loss", loss, LOSSES)
    name, losses = row_losses(question, rows, target, loss)
    slicings, notes = _slicings(question, given, len(rows), by, n_bins)
    codes = None if groups is None else group_codes(groups)
    inside = None if coverage is None else _covered(question, rows, target, coverage)
    actual, predicted = _levels(question, rows, target)
    found: list[Segment] = []
    for slicing in slicings:
        found += _parts(slicing, losses, weight, codes, inside, actual, predicted, min_rows)
    adjusted = holm(np.array([one.p_value for one in found]))
    found = [_judged(one, float(p)) for one, p in zip(found, adjusted, strict=True)]
    found.sort(key=lambda one: (one.verdict == TOO_FEW, -np.nan_to_num(one.difference_low)))
    return Segments(
        found,
        name,
        float(np.average(losses, weights=weight)),
        len(rows),
        int(np.isfinite(adjusted).sum()),
        groups is not None,
        coverage,
        notes,
    )


def _slicings(
    question: Question, given: Any, n_rows: int, by: Any, n_bins: int
) -> tuple[list[Slicing], list[str]]:
    """The cuts that were asked for, and what to say about them."""
    if isinstance(by, Mapping):
        return [_named(str(name), values, n_rows, n_bins) for name, values in by.items()], []
    names = _names(question, given)
    columns = columns_of(given)
    made: dict[int, Slicing] = {}

    def of(j: int) -> Slicing:
        if j not in made:
            made[j] = slice_column(short_name(names[j]), columns[j], n_bins=n_bins)
        return made[j]

    if isinstance(by, str) and by not in names:
        check_choice("by", by, ("columns", "pairs"))
        every = [of(j) for j in range(len(names))]
        if by == "columns":
            return every, []
        chosen = _leading(question, names)
        notes = []
        if len(chosen) < len(names):
            listed = ", ".join(short_name(names[j]) for j in chosen)
            notes.append(
                f"Pairs are of the {len(chosen)} columns that move the score most: {listed}."
            )
        return [*every, *(cells([of(a), of(b)]) for a, b in combinations(chosen, 2))], notes
    asked = [by] if isinstance(by, str | int | tuple) else list(by)
    return [
        cells([of(_place(one, names)) for one in (own if isinstance(own, tuple) else (own,))])
        for own in asked
    ], []


def _names(question: Question, given: Any) -> list[str]:
    columns = getattr(given, "columns", None)
    return list(question.raw_names) if columns is None else [str(name) for name in columns]


def _place(column: Any, names: Sequence[str]) -> int:
    if isinstance(column, int | np.integer) and str(column) not in names:
        if 0 <= column < len(names):
            return int(column)
    elif str(column) in names:
        return list(names).index(str(column))
    listed = ", ".join(map(short_name, names[:8])) + (", ..." if len(names) > 8 else "")
    raise ValueError(
        f"by names a column {column!r}, which the rows have not; they have {listed}. Values that "
        "are no column of X are given by name: by={'sex': values}."
    )


def _named(name: str, values: Any, n_rows: int, n_bins: int) -> Slicing:
    """A slice that the user names: a mask is one part, other values are cut like a column."""
    column = np.asarray(values)
    if column.shape != (n_rows,):
        raise ValueError(
            f"by={{{name!r}: ...}} needs one value for each of the {n_rows} rows; got shape "
            f"{column.shape}."
        )
    if column.dtype == bool:
        return Slicing((short_name(name),), np.where(column, 0, -1), [short_name(name)])
    return slice_column(short_name(name), values, n_bins=n_bins)


def _leading(question: Question, names: Sequence[str]) -> list[int]:
    """The columns that move the score most, those of a preparation by what they were made of."""
    by_name: dict[str, float] = {}
    sizes = question.model.feature_importances_.tolist()
    for source, size in zip(question.sources, sizes, strict=True):
        by_name[source] = by_name.get(source, 0.0) + size
    order = sorted(range(len(names)), key=lambda j: -by_name.get(names[j], 0.0))
    return sorted(order[:MOST_PAIRED])


def _parts(
    slicing: Slicing,
    losses: FloatArray,
    weight: FloatArray,
    groups: AnyArray | None,
    inside: BoolArray | None,
    actual: FloatArray,
    predicted: FloatArray,
    min_rows: int,
) -> list[Segment]:
    codes, n_parts = slicing.codes, len(slicing.labels)
    own = segment_statistics(codes, n_parts, losses, weight, groups)
    n_counted = int((weight > 0).sum())
    place = np.where(codes < 0, n_parts, codes)

    def sums(values: FloatArray) -> FloatArray:
        found: AnyArray = np.bincount(place, values, minlength=n_parts + 1)[:n_parts]
        return found

    size = sums(weight)
    with np.errstate(invalid="ignore", divide="ignore"):
        levels = [sums(weight * level) / size for level in (actual, predicted)]
        effective = size**2 / sums(weight**2)
        covered = None if inside is None else sums(weight * inside) / size
    least = 0.0 if losses.min(initial=0.0) >= 0 else -np.inf
    found = []
    for k in range(n_parts):
        n_rows = int(own.n_rows[k])
        if n_rows == 0 or n_rows == n_counted:  # nothing to compare
            continue
        known = min(n_rows, n_counted - n_rows) >= min_rows
        share: tuple[Any, Any, Any] = (None, None, None)
        if covered is not None:
            share = (float(covered[k]), *wilson(float(covered[k]), float(effective[k])))
        found.append(
            Segment(
                slicing.labels[k],
                slicing.columns,
                n_rows,
                float(size[k] / weight.sum()),
                float(own.mean[k]),
                float(max(own.low[k], least)),
                float(own.high[k]),
                float(own.rest[k]),
                float(own.difference[k]),
                float(own.difference_low[k]),
                float(own.difference_high[k]),
                float(own.p_value[k]) if known else np.nan,
                np.nan,
                UNCLEAR if known else TOO_FEW,
                float(levels[0][k]),
                float(levels[1][k]),
                *share,
            )
        )
    return found


def _judged(one: Segment, adjusted: float) -> Segment:
    values = {name: getattr(one, name) for name in Segment.__dataclass_fields__}
    verdict = one.verdict
    if not np.isfinite(adjusted):
        verdict = TOO_FEW
    elif adjusted <= LEVEL:
        verdict = WORSE
    return Segment(**(values | {"adjusted": adjusted, "verdict": verdict}))


def _levels(
    question: Question, rows: RoutedRows, target: AnyArray
) -> tuple[FloatArray, FloatArray]:
    """Target and prediction of each row as one number; NaN where there are several."""
    model = question.model
    if isinstance(model, KPPClassifier):
        if len(model.classes_) == 2:
            return target.astype(np.float64), np.asarray(model.predict_proba(rows))[:, 1]
    elif target.shape[1] == 1:
        return target[:, 0], np.asarray(model.predict(rows)).reshape(-1)
    return np.full(len(rows), np.nan), np.full(len(rows), np.nan)


def _covered(question: Question, rows: RoutedRows, target: AnyArray, coverage: float) -> BoolArray:
    """Whether the target of each row is in its interval or set; all targets of several."""
    model = question.model
    if isinstance(model, KPPClassifier):
        return model.predict_set(rows, coverage).sets[np.arange(len(rows)), target]
    if not isinstance(model, KPPRegressor):  # pragma: no cover
        raise RefusedError("Coverage needs a model that gives intervals or sets.")
    found = model.predict_interval(rows, coverage)
    low, high = (np.asarray(end).reshape(len(rows), -1) for end in (found.lower, found.upper))
    return np.asarray(((low <= target) & (target <= high)).all(axis=1))
