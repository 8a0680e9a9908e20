"""The kind of a column where the user says it: `--categorical` and `--numerical`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp.tables.errors import UserError, check_columns, listed
from kpp.tables.target import kind_of

# A column of texts with so large a share of numbers was meant as one of numbers.
MOSTLY = 0.8
FEWEST = 10


def check_kinds(
    categorical: Sequence[str],
    numerical: Sequence[str],
    names: Sequence[object],
    where: str,
    taken: dict[str, str],
) -> None:
    """Refuse columns that are not there, are both, or have another use.

    Parameters
    ----------
    categorical, numerical : sequence of str
        As given.
    names : sequence
        Columns of the table.
    where : str
        What the table is called.
    taken : dict of str
        Columns that are not for the model, and the option that says so.
    """
    for option, given in (("--categorical", categorical), ("--numerical", numerical)):
        check_columns(list(given), names, option, where)
        for name in given:
            if name in taken:
                raise UserError(
                    f"'{name}' is {taken[name]}, which the model does not see: {option} has no use."
                )
    both = [name for name in categorical if name in set(numerical)]
    if both:
        raise UserError(f"--categorical and --numerical both name {listed(both)}: give one.")


def as_categories(column: Any) -> Any:
    """A column as texts that no preparation takes for numbers or dates; gaps stay.

    Examples
    --------
    >>> import pandas as pd
    >>> from kpp.tables.kinds import as_categories
    >>> as_categories(pd.Series([7.0, None, 12.0])).tolist()
    ['7', nan, '12']
    """
    return as_texts(column).astype("category")


def as_texts(column: Any) -> Any:
    """A column as texts, the same whether a file holds 7, 7.0 or "7"; gaps stay."""
    pd = optional("pandas", "kpp", "cli")
    kept = column.notna().to_numpy()
    texts = np.full(len(column), None, dtype=object)
    texts[kept] = [written(value) for value in column[kept].tolist()]
    return pd.Series(texts, index=column.index, name=column.name, dtype=object)


def written(value: Any) -> str:
    """A name as text: a whole number is the same whether a file holds 7, 7.0 or the text."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def as_numbers(column: Any, where: str) -> tuple[Any, str | None]:
    """A column as numbers; what is none counts as missing, and is said.

    Parameters
    ----------
    column : pandas.Series of shape (n_rows,)
        Numbers, or texts of which some are numbers.
    where : str
        What the table is called.

    Returns
    -------
    numbers : pandas.Series
        Floats; gaps stay gaps.
    remark : str or None
        How many values are no numbers, where some are not.

    Examples
    --------
    >>> import pandas as pd
    >>> from kpp.tables.kinds import as_numbers
    >>> numbers, remark = as_numbers(pd.Series(["1.5", "n.k.", None], name="age"), "x.csv")
    >>> numbers.tolist(), remark
    ([1.5, nan, nan], "Column 'age': 1 of 3 values are no numbers, and count as missing: 'n.k.'.")
    """
    pd = optional("pandas", "--numerical", "cli")
    if kind_of(column) == "M":
        raise UserError(f"'{column.name}' (--numerical) of {where} holds dates, not numbers.")
    if kind_of(column) in "biuf":
        return column, None
    texts = column.astype(str).str.strip().where(column.notna())
    numbers = pd.to_numeric(texts, errors="coerce").astype(np.float64)
    lost = texts[numbers.isna() & texts.notna()]
    if not numbers.notna().any():
        raise UserError(
            f"'{column.name}' (--numerical) of {where} holds no number at all, but "
            f"{listed(lost.unique().tolist(), 3)}."
        )
    if not len(lost):
        return numbers, None
    return numbers, (
        f"Column '{column.name}': {len(lost)} of {len(column)} values are no numbers, and count as "
        f"missing: {listed(lost.unique().tolist(), 3)}."
    )


def force_kinds(
    frame: Any, categorical: Sequence[str], numerical: Sequence[str], where: str
) -> tuple[Any, list[str]]:
    """A table with columns of the kinds that were asked for, and what is to be said of that."""
    changed, remarks = {}, []
    for name in numerical:
        changed[name], remark = as_numbers(frame[name], where)
        if remark is not None:
            remarks.append(remark)
    for name in categorical:
        changed[name] = as_categories(frame[name])
    return (frame.assign(**changed) if changed else frame), remarks


def almost_numbers(frame: Any, names: Sequence[str]) -> Iterator[str]:
    """Say which columns of texts are mostly numbers, and what keeps them from being so."""
    pd = optional("pandas", "kpp", "cli")
    for name in names:
        column = frame[name]
        if kind_of(column) != "O" or getattr(column.dtype, "categories", None) is not None:
            continue
        different = pd.Series(column.dropna().unique()).astype(str).str.strip()
        different = different[~different.str.lower().isin(NO_VALUE)]
        is_number = pd.to_numeric(different, errors="coerce").notna()
        if len(different) >= FEWEST and MOSTLY <= is_number.mean() < 1:
            others = different[~is_number].tolist()
            yield (
                f"Column '{name}' is read as text because of {listed(others, 3)}; all else in it "
                f"are numbers. --numerical '{name}' reads it as numbers with gaps."
            )


def blanks_alone(frame: Any, names: Sequence[str]) -> Iterator[str]:
    """Say which columns hold texts that differ by nothing but blanks at their ends.

    Examples
    --------
    >>> import pandas as pd
    >>> from kpp.tables.kinds import blanks_alone
    >>> list(blanks_alone(pd.DataFrame({"town": ["Ulm", "Ulm ", "Bonn"]}), ["town"]))
    ["Column 'town': 'Ulm ' differ from other texts by blanks at their ends alone, and count as \
others."]
    """
    pd = optional("pandas", "kpp", "cli")
    for name in names:
        if kind_of(frame[name]) != "O":
            continue
        different = pd.Series(frame[name].dropna().unique()).astype(str)
        bare = different.str.strip()
        twins = different[(different != bare) & bare.duplicated(keep=False)]
        if len(twins):
            yield (
                f"Column '{name}': {listed(twins.tolist(), 3)} differ from other texts by blanks "
                "at their ends alone, and count as others."
            )


# What preparations take for a gap anyway.
NO_VALUE = {"", "?", "...", "#n/a", "n/a", "na", "<na>", "nan", "null", "none", "-", "missing"}
