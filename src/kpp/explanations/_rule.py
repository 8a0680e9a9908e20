"""`Rule`: one cell, in words."""

from __future__ import annotations

from dataclasses import dataclass, field

from kpp._shown import Shown
from kpp.explanations._conditions import Cell


@dataclass(frozen=True)
class Rule(Shown):
    """One cell, what it adds to the prediction, and how common it is.

    Parameters
    ----------
    text : str
        The conditions, ``3.2 < MedInc <= 5 and AveOccup <= 2.4``; behind a preparation in the
        words of the table, ``school = MS and signed year > 2012``.
    contribution : float
        What being in the cell adds, in units of the target (or of the score).
    support : float
        Share of the rows of the fit that are in the cell.
    nodes : tuple of str
        Names of the coordinates; more than one where several trees have the same cell.
    conditions : tuple of Condition
        The same conditions on the columns that the model sees, not rounded: intervals in float64,
        sets of categories, and whether a missing value fulfils them. Of a cell of several trees
        what all of them ask.
    n_trees : int
        How many trees have the cell; 0 for a linear term.
    """

    text: str
    contribution: float
    support: float
    nodes: tuple[str, ...]
    conditions: Cell = field(repr=False, default=())
    n_trees: int = 0

    @property
    def count(self) -> str:
        """In how many trees the cell is, in words; empty for one."""
        return f"in {self.n_trees} trees" if self.n_trees > 1 else ""


def shorten_rule(text: str, most: int) -> str:
    """Leave out conditions of a long rule, from its middle, never a part of one.

    >>> shorten_rule("a <= 1 and b <= 2.5 and c = red and d > 4", 30)
    'a <= 1 and (2 more) and d > 4'
    """
    parts = text.split(" and ")
    for left in range(1, len(parts) - 1):
        if len(text) <= most:
            break
        front = (len(parts) - left + 1) // 2
        back = parts[front + left :]
        text = " and ".join([*parts[:front], f"({left} more)", *back])
    return text
