"""`AnyOther`: a place among the categories of a column for all that are not listed."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

import numpy as np

from kpp._typing import AnyArray


class AnyOther(Enum):
    """Stands last among a column's categories: any value that is neither listed nor missing.

    Without it such a value counts as missing. Some libraries tell the two apart: what is missing
    has a direction of its own, an unknown category goes where the split's set is not.

    Attributes
    ----------
    NAME
        The column holds the categories themselves: texts, or numbers.
    CODE
        The column holds the source library's codes of categories whose names nobody has kept:
        whole numbers. Anything else there is refused.

    Examples
    --------
    >>> from kpp.forest.others import AnyOther
    >>> sorted([AnyOther.NAME, "z", "a"])  # last, whatever stands beside it
    ['a', 'z', <AnyOther.NAME: 'name'>]
    >>> print(AnyOther.CODE)
    any other
    """

    NAME = "name"
    CODE = "code"

    def __str__(self) -> str:
        return "any other"

    def __lt__(self, value: Any) -> bool:
        return False

    def __gt__(self, value: Any) -> bool:
        return value is not self


def other_of(categories: AnyArray | None) -> AnyOther | None:
    """What stands for all further categories of a column; None where they count as missing."""
    if categories is None or categories.dtype != object or not len(categories):
        return None
    last = categories[-1]
    return last if isinstance(last, AnyOther) else None


def with_other(listed: Iterable[Any], other: AnyOther | None) -> AnyArray:
    """Categories, and after them what stands for all others, if anything does.

    Examples
    --------
    >>> from kpp.forest.others import AnyOther, other_of, with_other
    >>> known = with_other(["red", "blue"], AnyOther.NAME)
    >>> other_of(known)
    <AnyOther.NAME: 'name'>
    """
    values = [*listed] if other is None else [*listed, other]
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def all_categories(parts: Iterable[dict[int, AnyArray]]) -> dict[int, AnyArray]:
    """The categories of each column that any of several forests knows, in order of appearance.

    Parameters
    ----------
    parts : iterable of dict of int to array
        The categories of each forest, by column.

    Returns
    -------
    categories : dict of int to object array
        What stands for any other category is the last one.

    Raises
    ------
    ValueError
        Where a column holds names for one forest, and codes for another.
    """
    known: dict[int, dict[Any, None]] = {}
    others: dict[int, AnyOther] = {}
    for part in parts:
        for column, values in part.items():
            listed, other = values.tolist(), other_of(values)
            if other is not None:
                listed.pop()
                if others.setdefault(column, other) is not other:
                    raise ValueError(
                        f"Column {column} holds names of categories for one forest, and their "
                        "codes for another: forests can be joined when they read the same columns "
                        "alike."
                    )
            known.setdefault(column, {}).update(dict.fromkeys(listed))
    return {column: with_other(values, others.get(column)) for column, values in known.items()}
