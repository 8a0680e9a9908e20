"""`drift`: have the rows moved, where, and what does it do to the predictions?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp._parallel import one_blas_thread
from kpp._rows import columns_of
from kpp._shown import Shown
from kpp._typing import FloatArray
from kpp.bounds.samples import seen_rows
from kpp.diagnostics.boxes import Box, changed_boxes
from kpp.diagnostics.column_shift import ColumnShift, compare_columns
from kpp.diagnostics.ranges import Outside, new_gaps, outside_range
from kpp.diagnostics.shift import Shift
from kpp.models.asking import Question, ask
from kpp.models.pipelines import has_learned
from kpp.scores import RoutedRows
from kpp.solvers import log_loss

LEVEL = 0.05
MOST_LINES = 5
SEVERAL = "(several columns)"


@dataclass(frozen=True)
class ColumnPart(Shown):
    """What the splits on one column add to the distance of two samples.

    Parameters
    ----------
    column : str
        The user's column.
    distance : float
        Its part of MMD squared. The parts of all columns add up to the whole.
    expected : float
        What chance alone adds to it.
    """

    column: str
    distance: float
    expected: float

    @property
    def times(self) -> float:
        """How many times what chance adds; NaN where chance adds nothing."""
        return self.distance / self.expected if self.expected > 0 else float("nan")


@dataclass(frozen=True)
class PredictionShift(Shown):
    """What became of the predictions.

    Parameters
    ----------
    name : str
        "mean prediction", or "share of" a predicted class.
    reference, new : float
        In both samples.
    z : float
        The change over its standard error; NaN where there is none.
    """

    name: str
    reference: float
    new: float
    z: float


@dataclass(frozen=True, eq=False)
class Drift(Shown):
    """How new rows differ from those of a fit, as its model sees them; from `drift`.

    Parameters
    ----------
    distance : float
        MMD squared: the squared distance of the two samples in the model's metric.
    expected : float
        What it would be on average if nothing had changed.
    share : float
        Share of the variance between the samples, from 0 to 1, without what chance adds.
    p_value : float
        Of the permutation test.
    level : float
        `drifted` where the p-value is at most this.
    is_exact : bool
        Whether the test holds its level exactly: the reference has not grown the trees.
    n_reference, n_new : int
        Rows of both samples.
    n_tested : int
        Rows that the test is on.
    columns : tuple of ColumnPart
        What each column adds to the distance, largest excess over chance first.
    boxes : tuple of Box
        Boxes that gained or lost most rows.
    predictions : tuple of PredictionShift
        What became of the predictions.
    checks : tuple of ColumnShift
        Every column on its own, seen by the model or not; empty without reference rows.
    outside : tuple of Outside
        Columns with values outside the range of the fit.
    gaps : tuple of (str, int)
        Columns with missing values where the fit had none, and how many.
    reference : str
        Which rows the reference is.
    """

    distance: float
    expected: float
    share: float
    p_value: float
    level: float
    is_exact: bool
    n_reference: int
    n_new: int
    n_tested: int
    columns: tuple[ColumnPart, ...]
    boxes: tuple[Box, ...]
    predictions: tuple[PredictionShift, ...]
    checks: tuple[ColumnShift, ...]
    outside: tuple[Outside, ...]
    gaps: tuple[tuple[str, int], ...]
    reference: str

    @property
    def drifted(self) -> bool:
        """Whether chance does not explain the distance, at the level."""
        return self.p_value <= self.level

    @property
    def changed_columns(self) -> list[ColumnShift]:
        """Columns whose own distribution changed, at the level, for all columns together."""
        return [one for one in self.checks if one.p_value <= self.level]

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        figures = f"p = {self.p_value:.3g}"
        if not self.drifted:
            return f"No drift seen: chance explains the difference ({figures})."
        times = self.distance / self.expected if self.expected > 0 else float("inf")
        return (
            f"Drift: {times:.3g} times the distance that chance gives ({figures}), "
            f"{self.share:.2%} of the variance that the model sees."
        )

    def to_frame(self) -> Any:
        """Return one line per column.

        Returns
        -------
        frame : pandas DataFrame
            Indexed by column: its part of the distance, what chance adds, how many times that;
            with reference rows also the p-value of its own test, adjusted, and the shares missing.
        """
        pd = optional("pandas", "Drift.to_frame")
        own = {one.column: one for one in self.checks}
        lines = []
        for part in self.columns:
            line: dict[str, Any] = {
                "column": part.column,
                "distance": part.distance,
                "expected": part.expected,
                "times": part.times,
            }
            if (check := own.get(part.column)) is not None:
                line |= {
                    "p_value": check.p_value,
                    "reference_missing": check.reference_missing,
                    "new_missing": check.new_missing,
                }
            lines.append(line)
        return pd.DataFrame(lines).set_index("column")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings, lists and dicts.

        Returns
        -------
        summary : dict
        """
        return asdict(self) | {
            "drifted": self.drifted,
            "verdict": self.verdict,
            "changed_columns": [one.column for one in self.changed_columns],
            "gaps": [{"column": column, "n_rows": n} for column, n in self.gaps],
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the boxes that gained and lost rows.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default. Needs the extra ``plot``.

        Returns
        -------
        display : DriftDisplay
        """
        from kpp.diagnostics.drift_display import DriftDisplay

        return DriftDisplay(self).plot(ax=ax)

    def __str__(self) -> str:
        exact = "" if self.is_exact else ", which grew the trees"
        lines = [
            self.verdict,
            f"{self.n_new:,} new rows beside {self.n_reference:,} {self.reference}{exact}.",
            *_predictions(self.predictions),
            *_table(
                ["column", "distance", "times chance"],
                [
                    [one.column, f"{one.distance:.3g}", f"{one.times:.3g}"]
                    for one in self.columns[:MOST_LINES]
                ],
            ),
            *_table(
                ["reference", "new", "z", "box"],
                [
                    [f"{one.reference:.1%}", f"{one.new:.1%}", f"{one.z:+.1f}", one.text]
                    for one in self.boxes[:MOST_LINES]
                ],
            ),
            *self.remarks(),
        ]
        return "\n".join(lines)

    def remarks(self) -> list[str]:
        """What single columns have that the reference, or the fit, did not, in sentences."""
        found = self.column_remarks()
        for out in self.outside:
            if out.stands_out:
                found.append(
                    f"'{out.column}': {out.n_outside} of {out.n_rows} rows outside the range of "
                    f"the fit, {out.low:.4g} to {out.high:.4g}."
                )
        found += [
            f"'{column}': {n} of {self.n_new} values missing; in the fit none was."
            for column, n in self.gaps
        ]
        return found

    def column_remarks(self) -> list[str]:
        """Columns whose own distribution changed, and new categories, in sentences."""
        found = []
        for one in self.changed_columns[:MOST_LINES]:
            what = "the largest change of a share" if one.kind == "categories" else "KS"
            found.append(
                f"'{one.column}' itself changed: {what} {one.statistic:.3g}, missing "
                f"{one.reference_missing:.1%} before and {one.new_missing:.1%} now, adjusted "
                f"p = {one.p_value:.2g}."
            )
        for one in self.checks:
            if one.new_categories:
                listed = ", ".join(f"'{name}'" for name in one.new_categories[:3])
                found.append(f"'{one.column}' has categories that the reference lacks: {listed}.")
        return found


@one_blas_thread()
def drift(
    model: Any,
    X_new: Any,
    X_ref: Any = None,
    *,
    top: int = 10,
    level: float = LEVEL,
    n_permutations: int = 199,
    random_state: int = 0,
) -> Drift:
    r"""Compare new rows with those of a fit, or with given ones, as a fitted model sees them.

    The distance of the two samples is that of their mean rows in the embedding,

    .. math:: \mathrm{MMD}^2 = \sum_v s_v^2 (p_v - q_v)^2

    with :math:`p_v, q_v` their shares of rows in node v: the maximum mean discrepancy of the path
    kernel. A change counts by what the model makes of it; one in columns that it does not use
    counts nothing, and is found by the checks of single columns.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline that ends in one
        Fitted.
    X_new : array-like or data frame of shape (n_rows, n_columns)
        New rows, at least 2.
    X_ref : array-like or data frame of shape (n_reference, n_columns), optional
        Rows to compare with that the fit has not used, such as its test rows; by default those of
        the fit. Only with reference rows are the distributions of single columns tested.
    top : int
        Most boxes to list.
    level : float
        Chance of a false alarm.
    n_permutations : int
        Random cuts of the test. The smallest p-value is one over one more than this.
    random_state : int
        Seed of the cuts, and of the rows of the test: at most 5,000 of each sample.

    Returns
    -------
    drift : Drift
        ``print`` it; ``drifted``, ``columns``, ``boxes``, ``predictions``, ``checks``.

    Notes
    -----
    With rows that the fit has not used, the test is exact: if both samples are draws of one
    distribution, the p-value is at most `level` with at most that probability. Rows of the fit have
    grown the trees; then the test is an approximation, and docs/howto/drift.md has its false
    alarms in simulations. Rows must be independent:
    many rows of one customer, or a season, are told as drift.

    References
    ----------
    Gretton, Borgwardt, Rasch, Schölkopf, Smola (2012), A kernel two-sample test.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor, drift
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=20, alpha=1.0, random_state=0)
    >>> model = model.fit(X[:250], y[:250])
    >>> drift(model, X[350:], X[250:350]).drifted
    False
    >>> found = drift(model, X[350:].assign(bmi=X["bmi"] + 0.05), X[250:350])
    >>> found.drifted, found.columns[0].column, found.checks[0].column
    (True, 'bmi', 'bmi')
    """
    question = ask(model)
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1; got {level!r}.")
    if n_permutations < 1:
        raise ValueError(f"n_permutations must be at least 1; got {n_permutations!r}.")
    rows = question.rows(X_new, least=2)
    reference = None if X_ref is None else question.rows(X_ref, least=2)
    at_reference = question.model.map_ if reference is None else reference.map
    if at_reference.shape[0] == 0:
        raise ValueError(
            "This model has not kept the rows of its fit: give rows to compare with as X_ref."
        )
    shift = Shift(at_reference, rows.map)
    random = np.random.default_rng(random_state)
    p_value, n_tested = shift.permutation_test(n_permutations, random)
    regime = question.regime
    if reference is None:
        grown_elsewhere = regime.splits_rows or regime.takes_grown_forest
        is_exact = grown_elsewhere and not has_learned(question.preparation)
    else:
        is_exact = not seen_rows(question, reference, independent_duplicates=True)
    return Drift(
        distance=shift.distance,
        expected=float(shift.expected.sum()),
        share=shift.share,
        p_value=p_value,
        level=level,
        is_exact=is_exact,
        n_reference=shift.sizes[0],
        n_new=shift.sizes[1],
        n_tested=n_tested,
        columns=tuple(_column_parts(question, shift)),
        boxes=tuple(changed_boxes(question, shift, top)),
        predictions=tuple(_prediction_shifts(question, reference, rows)),
        checks=tuple([] if X_ref is None else _checks(question, X_ref, X_new)),
        outside=tuple(outside_range(question, rows.X)),
        gaps=tuple(new_gaps(question, rows.X)),
        reference="rows of the fit" if reference is None else "given rows",
    )


def _column_parts(question: Question, shift: Shift) -> list[ColumnPart]:
    """The distance, and what chance adds, by the user's column; largest excess first."""
    variable = shift.reference.coordinate_variable
    sources = list(dict.fromkeys(question.sources))
    places = {name: k for k, name in enumerate(sources)}
    of_column = np.array([*(places[name] for name in question.sources), len(sources)])
    # -1 is a root, whose share is 1 in every sample; -2 is a sum of several columns.
    kept = variable != -1
    place = of_column[np.where(variable >= 0, variable, len(of_column) - 1)][kept]
    sums = [
        np.bincount(place, values[kept], minlength=len(sources) + 1)
        for values in (shift.by_coordinate, shift.expected)
    ]
    parts = [
        ColumnPart(name, float(own), float(chance))
        for name, own, chance in zip([*sources, SEVERAL], *sums, strict=True)
    ]
    if not (variable == -2).any():
        parts.pop()
    return sorted(parts, key=lambda one: one.expected - one.distance)


def _prediction_shifts(
    question: Question, reference: RoutedRows | None, rows: RoutedRows
) -> list[PredictionShift]:
    new = _answers(question, rows.scores)
    if reference is not None:
        old = _answers(question, reference.scores)
    else:
        model = question.model
        # Out of fold where there are such predictions: the others know their rows' targets.
        known = getattr(model, "oof_prediction_", None)
        if known is not None and len(known) == model.map_.shape[0]:
            old = np.asarray(known, dtype=np.float64).reshape(len(known), -1)
        else:
            own = [model.map_.matvec(w) for w in question.node_coef]
            old = _answers(question, np.stack(own, axis=1) + question.intercept)
    classes = question.additive.classes
    if classes is None:
        several = new.shape[1] > 1
        names = [f"mean prediction{f' {k}' if several else ''}" for k in range(new.shape[1])]
    else:
        names = [f"share of {label}" for label in classes.tolist()]
        old, new = (np.eye(len(classes))[part.argmax(axis=1)] for part in (old, new))
    shifts = []
    for name, before, after in zip(names, old.T, new.T, strict=True):
        error = np.sqrt(before.var() / len(before) + after.var() / len(after))
        change = after.mean() - before.mean()
        z = change / error if error > 0 else np.nan
        shifts.append(PredictionShift(name, float(before.mean()), float(after.mean()), float(z)))
    return shifts


def _answers(question: Question, scores: FloatArray) -> FloatArray:
    """Predictions, or probabilities of the classes, shape (n_rows, k)."""
    classes, loss = question.additive.classes, getattr(question.model, "loss_", None)
    if classes is not None:
        return np.asarray(log_loss(len(classes)).link(scores))
    return np.asarray(scores if loss is None else loss.link(scores))


def _checks(question: Question, reference: Any, new: Any) -> list[ColumnShift]:
    """Every column of two tables on its own: the user's columns, where they are given."""
    if isinstance(reference, RoutedRows) or isinstance(new, RoutedRows):
        old, now = question.rows(reference).X, question.rows(new).X
        return compare_columns(old, now, question.names)
    names = list(question.raw_names)
    old, now = _in_order(reference, names), _in_order(new, names)
    if any(len(columns_of(part)) != len(names) for part in (old, now)):
        return []
    return compare_columns(old, now, names)


def _in_order(X: Any, names: list[str]) -> Any:
    """The columns of a data frame in the order of the fit, without any others."""
    known = hasattr(X, "columns") and set(names) <= set(X.columns)
    return X[names] if known else X


def _predictions(shifts: Sequence[PredictionShift]) -> list[str]:
    shown = sorted(shifts, key=lambda one: -abs(one.z) if np.isfinite(one.z) else 0.0)
    return _table(
        ["predictions", "reference", "new", "z"],
        [
            [one.name, f"{one.reference:.4g}", f"{one.new:.4g}", f"{one.z:+.1f}"]
            for one in shown[:MOST_LINES]
        ],
    )


def _table(head: list[str], lines: list[list[str]]) -> list[str]:
    """A small table in plain text; nothing where it has no lines."""
    if not lines:
        return []
    widths = [max(len(line[j]) for line in [head, *lines]) for j in range(len(head))]
    return [
        "",
        *(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in [head, *lines]
        ),
    ]
