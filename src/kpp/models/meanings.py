"""What each prepared column says of a column of the table: its category, its part of a date.

A preparation turns ``school`` into ``school_GP``, ``school_MS``; ``signed`` into ``signed_year``
and others; a scaled column is in units of its own. Rules and certificates are of these columns.
To be read, a condition on one of them goes back into the words of the table: a `Meaning` has what
that takes. What is not understood keeps the name that the preparation gives to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from kpp._typing import AnyArray

NUMBER, CATEGORY, CODES, TIME = "number", "category", "codes", "time"
RARE = "(a rare value)"


@dataclass(frozen=True)
class Meaning:
    """One column that a model sees, in the words of the table.

    Parameters
    ----------
    source : str
        The column of the table that it was made of.
    name : str
        What its numbers are called: ``size``, ``signed year``.
    kind : {"number", "category", "codes", "time"}
        A number; 1 for one category and 0 for all others; the place of a category in a list;
        or seconds since 1970.
    scale, shift : float
        ``scale * x + shift`` is the number before it was scaled.
    categories : tuple
        Of the source, for "category" and "codes"; NaN and None stand for a missing value.
    place : int
        For "category", which of them the column tells.
    """

    source: str
    name: str
    kind: str = NUMBER
    scale: float = 1.0
    shift: float = 0.0
    categories: tuple[Hashable, ...] = ()
    place: int = -1

    @property
    def is_plain(self) -> bool:
        """Whether its numbers are those of the table."""
        return self.kind == NUMBER and self.scale == 1.0 and self.shift == 0.0

    @property
    def is_set(self) -> bool:
        """Whether conditions on it are sets of categories."""
        return self.kind in (CATEGORY, CODES)

    def before(self, x: Any) -> Any:
        """Return numbers as they were before they were scaled."""
        return x if self.scale == 1.0 and self.shift == 0.0 else self.scale * x + self.shift


def meanings_of(
    preparation: Any, raw_names: Sequence[str], names: Sequence[str], sources: Sequence[str]
) -> tuple[Meaning, ...]:
    """Find what each prepared column says of the columns of the table.

    Parameters
    ----------
    preparation : transformer, Pipeline of transformers, or None
        Fitted.
    raw_names, names : sequences of str
        Columns of the table, and those that the model sees.
    sources : sequence of str
        The column of the table that each of `names` was made of.

    Returns
    -------
    meanings : tuple of Meaning
        One for each of `names`; a number by its own name where nothing better is known.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> from kpp.models.meanings import meanings_of
    >>> encoder = OneHotEncoder(sparse_output=False).fit(np.array([["red"], ["blue"]]))
    >>> one, _ = meanings_of(encoder, ["colour"], ["colour_blue", "colour_red"], ["colour"] * 2)
    >>> one.name, one.kind, one.categories[one.place]
    ('colour', 'category', 'blue')
    """
    plain = tuple(Meaning(s, n) for s, n in zip(sources, names, strict=True))
    if preparation is None:
        return plain
    found = _through(preparation, [Meaning(name, name) for name in raw_names])
    if found is None or len(found) != len(names):
        return plain
    return tuple(own if own is not None else plain[j] for j, own in enumerate(found))


Columns = list[Meaning | None]


def _through(step: Any, columns: Columns) -> Columns | None:
    """What a fitted step makes of columns; None where that is not known, nor how many."""
    if isinstance(step, Pipeline):
        for _, own in step.steps:
            if own is not None and own != "passthrough":
                made = _through(own, columns)
                if made is None:
                    return None
                columns = made
        return columns
    if isinstance(step, ColumnTransformer):
        return _of_column_transformer(step, columns)
    if hasattr(step, "input_to_outputs_") and hasattr(step, "transformers_"):
        return _of_table_vectorizer(step, columns)
    for kind in type(step).__mro__:
        if kind.__name__ in STEPS:
            return STEPS[kind.__name__](step, columns)
    if hasattr(step, "get_support"):
        return [columns[j] for j in np.flatnonzero(step.get_support())]
    return _unknown(step, columns)


def _unknown(step: Any, columns: Columns) -> Columns | None:
    """Columns of which nothing but their number is known."""
    n_columns = _n_columns(step, columns)
    return None if n_columns is None else [None] * n_columns


def _n_columns(step: Any, columns: Columns) -> int | None:
    names = [f"x{j}" for j in range(len(columns))]
    for given in ((), (names,)):
        try:
            return len(step.get_feature_names_out(*given))
        except (AttributeError, TypeError, ValueError):
            continue
    return None


def _same(step: Any, columns: Columns) -> Columns | None:
    return columns if _n_columns(step, columns) in (None, len(columns)) else _unknown(step, columns)


def _of_column_transformer(step: Any, columns: Columns) -> Columns | None:
    names = [str(name) for name in getattr(step, "feature_names_in_", ())]
    places: dict[int, Meaning | None] = {}
    for name, own, chosen in step.transformers_:
        slots = step.output_indices_[name]
        if own == "drop" or slots.stop <= slots.start:
            continue
        inside = [columns[j] for j in _numbers_of(chosen, names, len(columns))]
        made = inside if own == "passthrough" else _through(own, inside)
        if made is None or len(made) != slots.stop - slots.start:
            made = [None] * (slots.stop - slots.start)
        places.update(zip(range(slots.start, slots.stop), made, strict=True))
    return [places.get(j) for j in range(max(places, default=-1) + 1)]


def _numbers_of(chosen: Any, names: list[str], n_columns: int) -> list[int]:
    """Columns of a ColumnTransformer as numbers."""
    if isinstance(chosen, slice) and not isinstance(chosen.start or chosen.stop, str):
        return list(range(n_columns))[chosen]
    if isinstance(chosen, slice):
        first = 0 if chosen.start is None else names.index(chosen.start)
        last = n_columns - 1 if chosen.stop is None else names.index(chosen.stop)
        return list(range(first, last + 1))
    listed = [chosen] if isinstance(chosen, str | int) else list(chosen)
    if listed and isinstance(listed[0], bool | np.bool_):
        return np.flatnonzero(listed).tolist()
    return [names.index(c) if isinstance(c, str) else int(c) for c in listed]


def _of_table_vectorizer(step: Any, columns: Columns) -> Columns | None:
    """skrub's: an encoder for each column of the table."""
    names = [str(name) for name in step.feature_names_in_]
    if len(names) != len(columns):
        return None
    found: dict[str, Meaning | None] = {}
    for name, column in zip(names, columns, strict=True):
        made = [str(output) for output in step.input_to_outputs_.get(name, ())]
        own = step.transformers_.get(name)
        said = None if own is None else _through(own, [column])
        if said is None or len(said) != len(made):
            said = [None] * len(made)
        # A column that was dropped is listed as made into itself, beside another of that name.
        found.update({key: one for key, one in zip(made, said, strict=True) if one or key != name})
    return [found.get(str(name)) for name in step.all_outputs_]


def _one_hot(step: Any, columns: Columns) -> Columns:
    made: Columns = []
    dropped = getattr(step, "drop_idx_", None)
    rare_of = getattr(step, "infrequent_categories_", None) or [None] * len(columns)
    for j, (column, known) in enumerate(zip(columns, step.categories_, strict=True)):
        rare = set() if rare_of[j] is None else set(rare_of[j].tolist())
        listed = [value for value in known.tolist() if value not in rare]
        if rare:
            listed.append(RARE)  # the encoder puts them together, and last
        left_out = None if dropped is None else dropped[j]
        if left_out is not None:
            left_out = known[left_out] if known[left_out] not in rare else RARE
        for place, value in enumerate(listed):
            if left_out is not None and (value is left_out or value == left_out):
                continue
            made.append(
                None
                if column is None or not column.is_plain
                else Meaning(
                    column.source,
                    column.name,
                    CATEGORY,
                    categories=tuple(listed),
                    place=place,
                )
            )
    return made


def _ordinal(step: Any, columns: Columns) -> Columns:
    return [
        None
        if column is None or not column.is_plain
        else Meaning(column.source, column.name, CODES, categories=tuple(known.tolist()))
        for column, known in zip(columns, step.categories_, strict=True)
    ]


def _affine(scale: str | None, shift: str | None) -> Callable[[Any, Columns], Columns]:
    """A scaler that divides by one of its attributes after it has taken off another."""

    def scaled(step: Any, columns: Columns) -> Columns:
        scales, shifts = (
            None if name is None else getattr(step, name, None) for name in (scale, shift)
        )
        return _rescaled(
            columns,
            np.ones(len(columns)) if scales is None else scales,
            np.zeros(len(columns)) if shifts is None else shifts,
        )

    return scaled


def _min_max(step: Any, columns: Columns) -> Columns:
    # It multiplies and then adds.
    return _rescaled(columns, 1.0 / step.scale_, -step.min_ / step.scale_)


def _rescaled(columns: Columns, scale: AnyArray, shift: AnyArray) -> Columns:
    return [
        None
        if column is None
        else replace(
            column,
            scale=column.scale * float(s),
            shift=column.scale * float(m) + column.shift,
        )
        for column, s, m in zip(columns, scale, shift, strict=True)
    ]


def _date(step: Any, columns: Columns) -> Columns | None:
    (column,) = columns
    if column is None:
        return _unknown(step, columns)
    return [
        Meaning(column.source, column.name, TIME)
        if part == "total_seconds"
        else Meaning(column.source, f"{column.name} {part.replace('_', ' ')}")
        for part in _parts_of(step, column.source)
    ]


def _parts_of(step: Any, source: str) -> list[str]:
    return [str(name).removeprefix(f"{source}_") for name in step.get_feature_names_out()]


def _text(step: Any, columns: Columns) -> Columns | None:
    n_columns = _n_columns(step, columns)
    if n_columns is None or len(columns) != 1 or columns[0] is None:
        return None if n_columns is None else [None] * n_columns
    column = columns[0]
    names = [str(name) for name in step.get_feature_names_out()]
    # title_03 is component 3. Topics that have words for names keep them.
    numbers = [re.fullmatch(rf"{re.escape(column.source)}_(\d+)", name) for name in names]
    return [
        Meaning(
            column.source,
            name if number is None else f"text of `{column.name}`: component {int(number[1])}",
        )
        for name, number in zip(names, numbers, strict=True)
    ]


# By the names of classes, which their libraries need not be imported for.
STEPS: dict[str, Callable[[Any, Columns], Columns | None]] = {
    "OneHotEncoder": _one_hot,
    "OrdinalEncoder": _ordinal,
    "StandardScaler": _affine("scale_", "mean_"),
    "RobustScaler": _affine("scale_", "center_"),
    "MaxAbsScaler": _affine("scale_", None),
    "MinMaxScaler": _min_max,
    "SimpleImputer": _same,
    "PassThrough": _same,
    "FunctionTransformer": lambda step, columns: (
        _same(step, columns) if step.func is None else _unknown(step, columns)
    ),
    "DatetimeEncoder": _date,
    "StringEncoder": _text,
    "TextEncoder": _text,
    "MinHashEncoder": _text,
    "GapEncoder": _text,
}
