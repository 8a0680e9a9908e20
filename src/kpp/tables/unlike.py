"""Numbers of new rows that the rows of a fit did not have, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kpp.diagnostics.ranges import new_gaps, outside_range
from kpp.models.asking import Question
from kpp.tables.numbers import short

MOST_COLUMNS = 3


def remarks_on_numbers(question: Question, rows: Any) -> Iterator[str]:
    """Say which columns have values outside the range of the fit, or gaps where it had none.

    Parameters
    ----------
    question : Question
        The model.
    rows : array or data frame of shape (n_rows, n_features)
        Rows as the model behind the preparation takes them.
    """
    beyond = [one for one in outside_range(question, rows) if one.stands_out]
    if beyond:
        told = ", ".join(
            f"'{one.column}' ({one.n_outside} of {one.n_rows} rows outside {short(one.low)} to "
            f"{short(one.high)})"
            for one in beyond[:MOST_COLUMNS]
        )
        more = len(beyond) - MOST_COLUMNS
        told += f" and {more} more columns" if more > 0 else ""
        yield (
            f"Outside the range of the fit, more than chance explains: {told}. Trees take such a "
            "value for the nearest end of the range."
        )
    for column, n_gaps in new_gaps(question, rows):
        yield f"Column '{column}': {n_gaps} of {len(rows)} values are missing; in the fit none was."
