"""Counterexamples in words: which values of the table would have to be others."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np

from kpp._checks import is_missing
from kpp._rows import as_decimals, columns_of
from kpp._shown import Shown
from kpp._typing import BoolArray, FloatArray
from kpp.certificates.raw_input import RawCertificate, answers_differ, rows_like
from kpp.models.asking import Question, ask
from kpp.models.meanings import CATEGORY, CODES, TIME
from kpp.scores import RoutedRows

# Digits of a new value that are tried.
MOST_DIGITS = 8
# How much further than needed a rounded value may be from the old one.
FURTHER = 1.25


@dataclass(frozen=True)
class Change(Shown):
    """One value of a row that would have to be another.

    Parameters
    ----------
    column : str
        Its name in the table.
    before, after : str
        What it is, and what it would be.
    distance : float
        How far apart, in the unit of the certificate; for a category in that of its columns.
    """

    column: str
    before: str
    after: str
    distance: float

    def __str__(self) -> str:
        return f"{self.column} were {self.after} instead of {self.before}"


def changes_to(
    model: Any, X: Any, certificate: RawCertificate, row: int = 0
) -> list[Change] | None:
    """Tell a counterexample by the values that have to change, as few as were found.

    Columns that need not move go back to what they were, and new values are rounded away from the
    old ones, as long as the model still gives another answer: what is told was predicted.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline
        Fitted.
    X : array-like, data frame or RoutedRows of shape (n_rows, n_columns)
        The rows that were certified.
    certificate : RawCertificate
        Of these rows.
    row : int, default=0
        Which of them.

    Returns
    -------
    changes : list of Change or None
        The smallest distance first. None where no counterexample was found, or none that a row of
        the table can be: a category can be another one, but not half of two.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kpp import KPPClassifier, certify_raw
    >>> from kpp.certificates import changes_to
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = KPPClassifier("extra-trees", n_estimators=10, alpha=1e-3, random_state=0).fit(X, y)
    >>> certificate = certify_raw(model, X[:1], scale="std", effort=1000)
    >>> changes = changes_to(model, X[:1], certificate)
    >>> other = X[:1].copy()
    >>> for change in changes:
    ...     other[change.column] = float(change.after)
    >>> model.predict(other)[0] == model.predict(X[:1])[0]
    np.False_
    """
    question = ask(model)
    if not certificate.found[row]:
        return None
    return _Told(question, question.rows(X).take([row]), certificate, row).changes()


class _Told:
    """One counterexample on its way into words."""

    def __init__(
        self, question: Question, row: RoutedRows, certificate: RawCertificate, number: int
    ) -> None:
        self.question, self.row, self.certificate = question, row, certificate
        columns = [np.asarray(column) for column in columns_of(row.X)]
        self.is_number = np.array([column.dtype.kind in "fiub" for column in columns])
        self.x = np.array(
            [
                float(as_decimals(column)[0]) if number_like else np.nan
                for column, number_like in zip(columns, self.is_number, strict=True)
            ]
        )
        point = certificate.counterexample[number]
        self.point = np.array(
            [float(v) if n else np.nan for v, n in zip(point, self.is_number, strict=True)]
        )

    def changes(self) -> list[Change] | None:
        """Snap, take back, round, and tell."""
        units = self._units()
        point = self._snapped(units)
        if not self._differs([point])[0]:
            return None
        units = self._needed(point, units)
        if not all(self._is_value(unit) for unit in units):
            return None
        point = self._rounded(point, units)
        told = [self._told(point, unit) for unit in units]
        return sorted(told, key=lambda change: change.distance)

    def _is_value(self, unit: Sequence[int]) -> bool:
        """Whether columns are one value of the table: a part of a date cannot move alone."""
        one = self.question.meanings[unit[0]]
        return one.kind == CATEGORY or self.question.sources.count(one.source) == 1

    def _units(self) -> list[list[int]]:
        """Columns that move, those of one encoded column together."""
        moved = np.flatnonzero((self.point != self.x) & ~np.isnan(self.x) & ~np.isnan(self.point))
        meanings = self.question.meanings
        found: dict[Hashable, list[int]] = {}
        for j in moved.tolist():
            one = meanings[j]
            found.setdefault((one.source, one.name) if one.kind == CATEGORY else j, []).append(j)
        return [
            [k for k, m in enumerate(meanings) if m.kind == CATEGORY and (m.source, m.name) == key]
            if isinstance(key, tuple)
            else own
            for key, own in found.items()
        ]

    def _snapped(self, units: Sequence[Sequence[int]]) -> FloatArray:
        """With categories that there are."""
        point = self.x.copy()
        for unit in units:
            one = self.question.meanings[unit[0]]
            if one.kind == CATEGORY:
                before = [self.question.meanings[j].before(self.point[j]) for j in unit]
                was = [self.question.meanings[j].before(self.x[j]) > 0.5 for j in unit]
                # The largest of those that it is not; none where its own one falls.
                order = np.argsort(
                    [-b if not w else np.inf for b, w in zip(before, was, strict=True)]
                )
                best = int(order[0])
                has_other = not was[best] and (
                    before[best] > 0.5 or len(unit) == len(one.categories)
                )
                for k, j in enumerate(unit):
                    own = self.question.meanings[j]
                    point[j] = (float(k == best and has_other) - own.shift) / own.scale
            elif one.kind == CODES:
                told, was = (one.before(end[unit[0]]) for end in (self.point, self.x))
                # The next code on the way; codes are whole numbers but for rounding.
                code = np.ceil(told - 1e-6) if told > was else np.floor(told + 1e-6)
                point[unit[0]] = (code - one.shift) / one.scale
            else:
                point[unit[0]] = self.point[unit[0]]
        return point

    def _differs(self, points: Sequence[FloatArray]) -> BoolArray:
        """Whether the model answers differently at each of some points."""
        at = np.array(points)
        rows = self.row.take(np.zeros(len(at), dtype=np.int64))
        made = rows_like(rows.X, at, np.arange(len(at)), np.flatnonzero(self.is_number))
        return answers_differ(self.question.model, rows, made, self.certificate.epsilon)

    def _needed(self, point: FloatArray, units: list[list[int]]) -> list[list[int]]:
        """Take back what the other answer does not need, the smallest steps first."""
        # First what could not be told, then the smallest steps.
        units = sorted(units, key=lambda unit: (self._is_value(unit), self._distance(point, unit)))
        units = self._taken_back(point, units)
        alone = [self._without(point, [unit]) for unit in units]
        if len(units) > 1:
            # Those that the answer does not need by themselves, as many of them as it does not
            # need together.
            spare = self._differs(alone)
            order = [unit for unit, is_spare in zip(units, spare, strict=True) if is_spare]
            order += [unit for unit, is_spare in zip(units, spare, strict=True) if not is_spare]
            units = self._taken_back(point, order)
        return units

    def _without(self, point: FloatArray, units: Sequence[list[int]]) -> FloatArray:
        other = point.copy()
        for unit in units:
            other[unit] = self.x[unit]
        return other

    def _taken_back(self, point: FloatArray, units: list[list[int]]) -> list[list[int]]:
        """Take back the first units, as many as leave another answer; and return the others."""
        points = [self._without(point, units[:k]) for k in range(len(units))]
        first = int(np.flatnonzero(self._differs(points)).max())
        point[:] = points[first]
        return units[first:]

    def _rounded(self, point: FloatArray, units: list[list[int]]) -> FloatArray:
        """With as few digits as the other answer allows."""
        tried = []
        for digits in range(1, MOST_DIGITS + 1):
            rounded = point.copy()
            for (j,) in [unit for unit in units if len(unit) == 1]:
                one = self.question.meanings[j]
                if one.kind not in (CODES, CATEGORY, TIME):
                    told, was = one.before(point[j]), one.before(self.x[j])
                    away = ROUND_CEILING if told > was else ROUND_FLOOR
                    short = Context(prec=digits, rounding=away).plus(Decimal(repr(float(told))))
                    rounded[j] = (float(short) - one.shift) / one.scale
            tried.append(rounded)
        near = [self._is_near(rounded, point) for rounded in tried]
        good = np.flatnonzero(self._differs(tried) & np.array(near))
        return tried[int(good[0])] if len(good) else point

    def _is_near(self, rounded: FloatArray, point: FloatArray) -> bool:
        """Whether rounding has moved no value much further than it had to."""
        # An infinite value that stays has no step.
        moved = (point != self.x) & ~np.isnan(self.x)
        step, least = (np.abs(end[moved] - self.x[moved]) for end in (rounded, point))
        return bool((step <= FURTHER * least).all())

    def _distance(self, point: FloatArray, unit: Sequence[int]) -> float:
        own = [j for j in unit if point[j] != self.x[j]]
        scale = np.where(self.certificate.scale[own] > 0, self.certificate.scale[own], np.inf)
        return float(np.max(np.abs(point[own] - self.x[own]) / scale, initial=0.0))

    def _told(self, point: FloatArray, unit: list[int]) -> Change:
        one = self.question.meanings[unit[0]]
        before, after = (self._value(unit, values) for values in (self.x, point))
        name = one.source if one.kind in (CATEGORY, CODES, TIME) else one.name
        return Change(name, before, after, self._distance(point, unit))

    def _value(self, unit: list[int], values: FloatArray) -> str:
        meanings = [self.question.meanings[j] for j in unit]
        one, number = meanings[0], meanings[0].before(float(values[unit[0]]))
        if one.kind == CATEGORY:
            told = [
                m.place for m, j in zip(meanings, unit, strict=True) if m.before(values[j]) > 0.5
            ]
            left_out = set(range(len(one.categories))) - {m.place for m in meanings}
            place = told[0] if told else next(iter(left_out), -1)
            return _category(one.categories[place]) if place >= 0 else "none of its values"
        if one.kind == CODES:
            place = round(number)
            inside = 0 <= place < len(one.categories)
            return _category(one.categories[place]) if inside else "none of its values"
        if one.kind == TIME:
            return str(np.datetime64(round(number), "s"))[:10]
        return f"{number:.{MOST_DIGITS}g}"


def _category(value: Any) -> str:
    return "missing" if is_missing(value) else str(value)
