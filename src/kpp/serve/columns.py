"""The columns that a saved model takes: their kinds, categories and ranges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np

from kpp.forest.columns import categorical_columns
from kpp.models.asking import Question
from kpp.tables.errors import listed
from kpp.tables.numbers import short

NUMBER, CATEGORY, TEXT, DATE, ANY = "number", "category", "text", "date", "any"
KINDS = {
    "numeric": NUMBER,
    "datetime": DATE,
    "low_cardinality": CATEGORY,
    "high_cardinality": TEXT,
}
# Single precision, in which a preparation hands numbers on.
LARGEST = float(np.finfo(np.float32).max)
LONGEST_TEXT = 10_000
MOST_SHOWN = 50


@dataclass(frozen=True)
class Column:
    """One column of the rows that a model takes.

    Parameters
    ----------
    name : str
        Its name; x0, x1, ... where the fit has seen none.
    kind : {"number", "category", "text", "date", "any"}
        What its values are; "any" where the model's own preparation alone knows.
    categories : tuple of str, optional
        Those that the fit has seen.
    low, high : float, optional
        The least and the largest number at which the model tells values apart.
    takes_missing : bool
        Whether a value may be missing.
    date_format : str, optional
        How dates are written, in the letters of `strftime`.
    """

    name: str
    kind: str = NUMBER
    categories: tuple[str, ...] | None = None
    low: float | None = None
    high: float | None = None
    takes_missing: bool = True
    date_format: str | None = None

    def words(self) -> str:
        """What the column takes, in a sentence.

        Examples
        --------
        >>> from kpp.serve.columns import Column
        >>> Column("size", low=1.0, high=2.5).words()
        'A number; the model tells values apart between 1 and 2.5. null where it is missing.'
        """
        if self.kind == NUMBER:
            said = "A number"
            if self.low is not None and self.high is not None:
                ends = f"{short(self.low, 6)} and {short(self.high, 6)}"
                said += f"; the model tells values apart between {ends}"
        elif self.kind == CATEGORY:
            said = f"A category; the fit has seen {listed(self.categories or (), MOST_SHOWN)}"
        elif self.kind == DATE:
            said = f"A date, written as {self.date_format or '%Y-%m-%d'}"
        else:
            said = "A text" if self.kind == TEXT else "A number, a text, or true or false"
        return said + (". null where it is missing." if self.takes_missing else ".")

    def json_schema(self) -> dict[str, Any]:
        """What JSON may hold in this column, as JSON Schema."""
        number: dict[str, Any] = {"type": "number", "minimum": -LARGEST, "maximum": LARGEST}
        text: dict[str, Any] = {"type": "string", "maxLength": LONGEST_TEXT}
        truth: dict[str, Any] = {"type": "boolean"}
        kinds: dict[str, list[dict[str, Any]]] = {
            NUMBER: [number, truth],
            CATEGORY: [text],
            TEXT: [text],
            DATE: [text | ({"format": "date"} if self.date_format == "%Y-%m-%d" else {})],
            ANY: [number, text, truth],
        }
        choices = kinds[self.kind] + ([{"type": "null"}] if self.takes_missing else [])
        found: dict[str, Any] = choices[0] if len(choices) == 1 else {"anyOf": choices}
        if self.categories:
            found = found | {"examples": list(self.categories[:MOST_SHOWN])}
        return found | {"title": self.name, "description": self.words()}

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for the card and the page."""
        return {
            "name": self.name,
            "kind": self.kind,
            "categories": None if self.categories is None else list(self.categories),
            "low": self.low,
            "high": self.high,
            "takes_missing": self.takes_missing,
            "date_format": self.date_format,
            "words": self.words(),
        }

    def example(self) -> Any:
        """A value that the model takes."""
        if self.kind == NUMBER:
            middle = 0.0 if self.low is None or self.high is None else (self.low + self.high) / 2
            return float(np.float32(middle))
        if self.kind == CATEGORY and self.categories:
            return self.categories[0]
        if self.kind == DATE:
            return date(2020, 1, 31).strftime(self.date_format or "%Y-%m-%d")
        return 0.0 if self.kind == ANY else "text"


def columns_of(question: Question) -> list[Column]:
    """Read the columns of a model: from its preparation, or from its forests where it has none.

    Parameters
    ----------
    question : Question
        The model.

    Returns
    -------
    columns : list of Column
        In the model's order.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier
    >>> from kpp.models.asking import ask
    >>> from kpp.serve.columns import columns_of
    >>> model = KPPClassifier("extra-trees", n_estimators=5, alpha=1.0, random_state=0)
    >>> columns = columns_of(ask(model.fit(*load_iris(return_X_y=True))))
    >>> [column.name for column in columns], columns[0].kind
    (['x0', 'x1', 'x2', 'x3'], 'number')
    """
    preparation = question.preparation
    kinds = getattr(preparation, "kind_to_columns_", None)
    if preparation is None:
        found = _of_forests(question)
    elif kinds is None:
        found = [Column(name, ANY) for name in question.raw_names]
    else:
        by_name = {str(n): KINDS.get(kind, ANY) for kind, names in kinds.items() for n in names}
        found = [
            _of_steps(Column(name, by_name.get(name, ANY)), preparation)
            for name in question.raw_names
        ]
    ends = _ends(question)
    return [
        replace(column, low=ends[column.name][0], high=ends[column.name][1])
        if column.kind == NUMBER and column.name in ends
        else column
        for column in found
    ]


def _of_steps(column: Column, preparation: Any) -> Column:
    if column.kind == CATEGORY:
        step = getattr(preparation, "transformers_", {}).get(column.name)
        known = getattr(step, "categories_", None)
        if known is None:
            return replace(column, kind=TEXT)
        return replace(column, categories=tuple(str(c) for c in known[0] if c == c))
    if column.kind == DATE:
        steps = getattr(preparation, "all_processing_steps_", {}).get(column.name, [])
        formats = [step.format_ for step in steps if isinstance(getattr(step, "format_", 0), str)]
        return replace(column, date_format=formats[0] if formats else None)
    return column


def _of_forests(question: Question) -> list[Column]:
    found = [Column(name) for name in question.raw_names]
    for block in question.additive.blocks:
        of_categories = categorical_columns(block.forest)
        for j in np.flatnonzero(of_categories):
            known = block.forest.categories.get(int(j))
            texts = None if known is None else [c for c in known.tolist() if isinstance(c, str)]
            if known is not None and texts is not None and len(texts) == len(known):
                found[j] = replace(found[j], kind=CATEGORY, categories=tuple(texts))
            elif found[j].kind == NUMBER and known is not None and known.dtype.kind not in "iuf":
                found[j] = replace(found[j], kind=ANY)
    return found


def _ends(question: Question) -> dict[str, tuple[float, float]]:
    """The least and the largest threshold of each column that the model splits."""
    n_columns = len(question.names)
    low, high = np.full(n_columns, np.inf), np.full(n_columns, -np.inf)
    for block in question.additive.blocks:
        forest = block.forest
        splits = np.flatnonzero((forest.left >= 0) & (forest.feature >= 0))
        at = forest.threshold[splits]
        usable = np.isfinite(at) & (np.abs(at) <= LARGEST)
        np.minimum.at(low, forest.feature[splits[usable]], at[usable])
        np.maximum.at(high, forest.feature[splits[usable]], at[usable])
    found = zip(question.names, low.tolist(), high.tolist(), strict=True)
    return {name: (least, most) for name, least, most in found if least <= most}
