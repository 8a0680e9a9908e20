"""Published against reproduced: rows of a page, and the digits that agree."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

import numpy as np
from suite.markdown import grid


class Row(NamedTuple):
    """One figure: as printed, and as found here."""

    data: str
    quantity: str
    published: str
    reproduced: float


def like(text: str, value: float) -> str:
    """The value in the format of a printed number."""
    if "e" in text:
        digits = len(text.split("e")[0].partition(".")[2])
        return re.sub(r"e\+?(-?)0*(\d)", r"e\1\2", f"{value:.{digits}e}")
    return f"{value:.{len(text.partition('.')[2])}f}"


def agrees(row: Row) -> bool:
    """Whether the figure is the printed one, to its digits."""
    return float(like(row.published, row.reproduced)) == float(row.published)


def agrees_rounded_twice(row: Row) -> bool:
    """Whether it is the printed one if it was first rounded to one more digit.

    Several figures of the paper are (0.42446, then 0.4245, then 0.425).
    """
    once = Decimal(like(finer(row.published), row.reproduced))
    digits, _, exponent = row.published.partition("e")
    unit = Decimal(1).scaleb(int(exponent or 0) - len(digits.partition(".")[2]))
    return once.quantize(unit, ROUND_HALF_UP) == Decimal(row.published)


def finer(text: str) -> str:
    """A printed number with one more digit."""
    digits, e, exponent = text.partition("e")
    return digits + ("0" if "." in digits else ".0") + e + exponent


def of_seeds(
    data: str, quantity: str, printed: tuple[str, str] | None, values: Any, ddof: int
) -> list[Row]:
    """Rows of a mean and of its standard deviation."""
    if printed is None:
        return []
    rows = [Row(data, quantity, printed[0], float(np.mean(values)))]
    if len(values) > 1:
        spread = float(np.std(values, ddof=ddof))
        rows.append(Row(data, f"{quantity}, std", printed[1], spread))
    return rows


def comparison(rows: Iterable[Row]) -> list[str]:
    """Lines of a table: published, reproduced, difference."""
    cells = []
    for row in rows:
        if agrees(row):
            shown = "0"
        elif agrees_rounded_twice(row):
            shown = "0, rounded twice"
        else:
            shown = f"{row.reproduced - float(row.published):+.2g}"
        found = like(finer(row.published), row.reproduced)
        cells.append([row.data.replace("_", " "), row.quantity, row.published, found, shown])
    return grid(["data", "quantity", "published", "reproduced", "difference"], cells)


def summary(rows: list[Row]) -> str:
    """How many figures agree."""
    n = sum(agrees(row) for row in rows)
    twice = sum(agrees_rounded_twice(row) and not agrees(row) for row in rows)
    more = f", {twice} more if the paper rounded twice" if twice else ""
    return f"{n} of {len(rows)} figures agree to the printed digits{more}."


def as_records(rows: list[Row]) -> list[dict[str, Any]]:
    """For the file of figures."""
    both = [(row, agrees(row), agrees_rounded_twice(row)) for row in rows]
    return [row._asdict() | {"agrees": a, "rounded_twice": b and not a} for row, a, b in both]
