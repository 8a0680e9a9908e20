"""The columns of a table: which go into a model, and the columns of a model in another table."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kpp._checks import is_missing
from kpp._optional import optional
from kpp._typing import AnyArray
from kpp.diagnostics.table_columns import is_id_like
from kpp.models.asking import Question
from kpp.models.linear import KPPLinearModel
from kpp.models.pipelines import prepared, raw_columns, split_pipeline
from kpp.tables.errors import UserError, check_columns, listed, near
from kpp.tables.kinds import as_categories
from kpp.tables.target import kind_of
from kpp.tables.unlike import remarks_on_numbers

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Columns:
    """Columns for a fit.

    Parameters
    ----------
    used : list of str
        Those that the model sees.
    constant, empty : list of str
        Those with one value, and with none: left out.
    id_like : list of str
        Those with another value in every row, which the model does see.
    """

    used: list[str]
    constant: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    id_like: list[str] = field(default_factory=list)

    def remarks(self) -> Iterator[str]:
        """What the user should know about them."""
        if self.empty:
            yield f"Without any value, and left out: {listed(self.empty)}."
        if self.constant:
            yield f"With one value only, and left out: {listed(self.constant)}."
        if self.id_like:
            drop = " ".join(f"--drop {_quoted(name)}" for name in self.id_like[:3])
            yield (
                f"With another value in every row, like a number of the row: "
                f"{listed(self.id_like)}. If it means nothing: {drop}."
            )


def choose_columns(
    frame: Any, target: str, drop: Sequence[str], reserved: Sequence[str], where: str
) -> Columns:
    """Choose the columns of a fit: all but the target, the dropped, the constant and the empty."""
    check_columns(list(drop), list(frame.columns), "--drop", where)
    out = {target, *drop, *reserved}
    used, constant, empty, id_like = [], [], [], []
    for name in frame.columns:
        if name in out:
            continue
        column = frame[name]
        n_distinct = int(column.nunique(dropna=True)) if _is_flat(column) else -1
        if n_distinct < 0:
            raise UserError(
                f"The column '{name}' of {where} holds lists or records, not values. Use "
                f"--drop {_quoted(name)}, or spread it over columns."
            )
        if n_distinct == 0:
            empty.append(name)
        elif n_distinct == 1 and not column.isna().any():
            constant.append(name)
        else:
            used.append(name)
            if is_id_like(name, column, n_distinct):
                id_like.append(name)
    if not used:
        raise UserError(f"{where} has no column with more than one value beside '{target}'.")
    refuse_infinite(frame, used, where, ", or use --drop {}")
    return Columns(used, constant, empty, id_like)


def refuse_infinite(frame: Any, names: Sequence[str], where: str, otherwise: str = "") -> None:
    """Refuse columns with values that single precision, which preparations use, does not hold."""
    for name in names:
        column = frame[name]
        if kind_of(column) != "f":
            continue
        values = np.abs(column.to_numpy(dtype=np.float64, na_value=np.nan))
        large = np.flatnonzero(values > LARGEST)
        if len(large):
            raise UserError(
                f"The column '{name}' of {where} holds {len(large)} infinite or too large values, "
                f"the first in row {large[0]}, counted from 0: clean them"
                f"{otherwise.format(_quoted(name))}."
            )


def model_columns(model: Any) -> list[str]:
    """The user's columns that a model needs, in its order."""
    names = raw_columns(*split_pipeline(model))
    if names is None:
        raise UserError(
            "This model was fitted on rows without names of columns, and cannot find them in a "
            "file. Fit it on a data frame, or with kpp fit."
        )
    return names


def text_columns(model: Any) -> set[str]:
    """Columns that a model reads as text."""
    preparation, _ = split_pipeline(model)
    kinds = getattr(preparation, "kind_to_columns_", None) or {}
    return {str(c) for k in ("low_cardinality", "high_cardinality") for c in kinds.get(k, ())}


def columns_of(model: Any, frame: Any, where: str) -> tuple[Any, list[str]]:
    """The columns of a model, from a table in any order; and the names of those left over."""
    names = model_columns(model)
    known = set(frame.columns)
    missing = [name for name in names if name not in known]
    if missing:
        other = [name for name in frame.columns if name not in set(names)]
        hint = near(missing[0], other) if other else ""
        hint = f" For '{missing[0]}': {hint}" if hint.startswith("Did") else ""
        raise UserError(
            f"{where} lacks {len(missing)} of the {len(names)} columns that the model needs: "
            f"{listed(missing)}.{hint}"
        )
    if split_pipeline(model)[0] is not None:  # forests by themselves may take them
        refuse_infinite(frame, names, where, ", or leave out these rows")
    needed = set(names)
    extra = [str(name) for name in frame.columns if name not in needed]
    # A column of categories may be one of numbers in another file, which has kinds of its own.
    own = [c for c in names if c in text_columns(model) and kind_of(frame[c]) in "biuf"]
    return frame[names].assign(**{name: as_categories(frame[name]) for name in own}), extra


def prepare(model: Any, X: Any) -> tuple[Any, list[str]]:
    """Rows as the inner model takes them; and what the fit did not have, in words.

    The preparation is lenient: a text in a column of numbers, a date in another format and a
    category that it has not seen count as missing or as none of the categories. That must not
    happen without a word. Nor should gaps where the fit had none, or values outside the range of
    the fit beyond what chance explains.
    """
    preparation, inner = split_pipeline(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said below, with the names of the columns
        rows = prepared(preparation, X)
    remarks = list(_unread(preparation, X, rows))
    if isinstance(inner, KPPLinearModel):
        remarks += remarks_on_numbers(Question(inner, preparation), rows)
    return rows, remarks


def _unread(preparation: Any, X: Any, rows: Any) -> Iterator[str]:
    kinds = getattr(preparation, "kind_to_columns_", None) or {}
    made = getattr(preparation, "input_to_outputs_", {})
    for kind, what in (("numeric", "numbers"), ("datetime", "dates")):
        for name in kinds.get(kind, ()):
            outputs = [output for output in made.get(name, ()) if output in rows.columns]
            if not outputs:
                continue
            given = _with_gaps(preparation, name, X[name]).notna().to_numpy()
            lost = given & rows[outputs].isna().all(axis=1).to_numpy()
            if lost.any():
                example = X[name].to_numpy()[np.flatnonzero(lost)[0]]
                yield (
                    f"Column '{name}': {int(lost.sum())} of {len(X)} values are not the {what} "
                    f"that the model expects, and count as missing; the first is '{example}'."
                )
    steps = getattr(preparation, "transformers_", {})
    for name in kinds.get("low_cardinality", ()):
        categories = getattr(steps.get(name), "categories_", None)
        if categories is None:
            continue
        column = _with_gaps(preparation, name, X[name])
        known = {str(category) for category in categories[0]}
        given = column[column.notna()].astype(str)
        new = given[~given.isin(known)]
        if len(new):
            yield (
                f"Column '{name}': {len(new)} of {len(X)} values are categories that the model "
                "has not seen, and count as none of those it knows: "
                f"{listed(new.unique().tolist(), 3)}."
            )
        n_gaps = int(column.isna().sum())
        if n_gaps and not any(map(is_missing, categories[0])):
            yield f"Column '{name}': {n_gaps} of {len(X)} values are missing; in the fit none was."


def _with_gaps(preparation: Any, name: str, column: Any) -> Any:
    """A column whose texts that the fit read as gaps ('?', 'N/A' and the like) are gaps."""
    for step in getattr(preparation, "all_processing_steps_", {}).get(name, ()):
        if type(step).__name__ == "CleanNullStrings":
            return step.transform(column)
    return column


def take_id(frame: Any, name: str | None, where: str) -> Any:
    """The column that names the rows, or their numbers."""
    pd = optional("pandas", "kpp", "cli")
    if name is None:
        return pd.Series(np.arange(len(frame)), name="row")
    check_columns([name], list(frame.columns), "--id", where)
    return frame[name].reset_index(drop=True)


def row_names(frame: Any, name: str | None, numbers: Sequence[int] | AnyArray) -> list[str]:
    """What the rows of a table are called in a report, each by another name.

    Parameters
    ----------
    frame : pandas.DataFrame
        The rows.
    name : str or None
        Column that names them.
    numbers : array of shape (n_rows,)
        Their places in the table, counted from 0.

    Examples
    --------
    >>> import pandas as pd
    >>> from kpp.tables.columns import row_names
    >>> row_names(pd.DataFrame({"id": ["a", "b", "a"]}), "id", [4, 5, 7])
    ['a (table row 4)', 'b', 'a (table row 7)']
    >>> row_names(pd.DataFrame({"x": [1]}), None, [4])
    ['table row 4']
    """
    places = [f"table row {n}" for n in numbers]
    if name is None:
        return places
    known = frame[name].notna().to_numpy()
    alone = ~frame[name].duplicated(keep=False).to_numpy() & known
    return [
        str(text) if one else f"{text} ({place})" if there else place
        for text, one, there, place in zip(frame[name], alone, known, places, strict=True)
    ]


def take_row(n_rows: int, row: int, where: str) -> int:
    """Check the number of a row; they count from 0, and from the end if negative."""
    if not -n_rows <= row < n_rows:
        raise UserError(
            f"--row must be 0 to {n_rows - 1}, or -1 to -{n_rows} from the end: {where} has "
            f"{n_rows} rows; got {row}."
        )
    return row % n_rows


def free_name(name: str, taken: Collection[str]) -> str:
    """A name for a column of a result that no other column has.

    Examples
    --------
    >>> from kpp.tables.columns import free_name
    >>> free_name("score", ["score", "score_"])
    'score__'
    """
    while name in taken:
        name += "_"
    return name


def _is_flat(column: Any) -> bool:
    known = column.dropna()
    return not len(known) or not isinstance(known.iloc[0], list | dict | np.ndarray | set | tuple)


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[\w.-]+", name) else f"'{name}'"
