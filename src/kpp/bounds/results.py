"""What a bound is: its parts, the level above which it says nothing, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from kpp._assumptions import Assumption as Assumption
from kpp._optional import optional
from kpp._shown import Shown


@dataclass(frozen=True, eq=False)
class Bound(Shown):
    r"""An upper bound, with probability at least 1 - delta, and its parts.

    .. math:: \text{total} = \text{empirical risk} + \text{complexity} + \text{confidence}

    Parameters
    ----------
    name : str
        Which bound; the paper's carry the paper's label.
    quantity : str
        What is bounded, such as "0/1 error" or "squared loss".
    empirical_risk : float
        On the sample. 0 for a bound of a complexity.
    complexity : float
        The price of having chosen the predictor on the sample.
    confidence : float
        The price of delta.
    trivial_level : float
        A bound at or above it says nothing. For a 0/1 error and a clipped squared loss it is what
        the best constant has on the sample; for a logistic loss log K, that of equal
        probabilities of K classes; for a squared loss without clipping :math:`M^2`, which
        predicting 0 does not exceed where :math:`|Y| \le M`. NaN where there is no such level.
    regime : str
        Regime of the model.
    sample : str
        Which rows the bound was computed on.
    n_rows : int
        How many.
    delta : float
        Probability with which the bound may fail.
    constant : str
        Whose constant: "printed", "proof", or both.
    assumptions : tuple of Assumption
        Which conditions hold, which fail, and why.
    details : mapping
        Further figures: the radius B, the sup norm R, the cell of the grid, ...

    Examples
    --------
    >>> from kpp.bounds import Assumption, Bound
    >>> bound = Bound("mine", "0/1 error", 0.1, 0.05, 0.02, 0.4, "fixed", "fit", 500)
    >>> round(bound.total, 2), bound.is_trivial, bound.is_guarantee
    (0.17, False, True)
    """

    name: str
    quantity: str
    empirical_risk: float
    complexity: float
    confidence: float
    trivial_level: float
    regime: str
    sample: str
    n_rows: int
    delta: float = 0.05
    constant: str = "proof"
    assumptions: tuple[Assumption, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """The bound: the sum of its parts."""
        return self.empirical_risk + self.complexity + self.confidence

    @property
    def is_trivial(self) -> bool:
        """Whether the bound is at or above the trivial level, and says nothing."""
        return bool(self.total >= self.trivial_level)

    @property
    def is_guarantee(self) -> bool:
        """Whether no condition of the bound is known to fail."""
        return all(assumption.holds is not False for assumption in self.assumptions)

    @property
    def failing(self) -> tuple[Assumption, ...]:
        """The conditions that fail."""
        return tuple(a for a in self.assumptions if a.holds is False)

    @property
    def status(self) -> str:
        """What the bound is worth, in words."""
        status = "guarantee" if self.is_guarantee else "diagnostic only"
        return f"{status}, trivial" if self.is_trivial else status

    def __str__(self) -> str:
        lines = [
            f"{self.name} ({self.quantity}, {self.regime}, {self.sample}, n = {self.n_rows}): "
            f"{self.total:.4g} = {self.empirical_risk:.4g} + {self.complexity:.4g} + "
            f"{self.confidence:.4g}; {self.status}",
            *(f"  {assumption}" for assumption in self.assumptions),
        ]
        return "\n".join(lines)


class BoundReport(Shown, Sequence[Bound]):
    """Several bounds of one model. Each holds with probability 1 - delta on its own.

    The smallest of several is not covered at the same delta: choose by name before looking, or
    divide delta by the number of bounds that are compared.

    Parameters
    ----------
    bounds : sequence of Bound
        In the order of the report.
    notes : sequence of str
        What was left out, and why.

    Examples
    --------
    >>> from kpp.bounds import Bound, BoundReport
    >>> report = BoundReport([Bound("mine", "0/1 error", 0.1, 0.05, 0.02, 0.4, "fixed", "fit", 9)])
    >>> report["mine"].n_rows, report.names
    (9, ['mine'])
    """

    def __init__(self, bounds: Sequence[Bound], notes: Sequence[str] = ()) -> None:
        self.bounds = list(bounds)
        self.notes = tuple(notes)

    @overload
    def __getitem__(self, key: int | str) -> Bound: ...
    @overload
    def __getitem__(self, key: slice) -> BoundReport: ...
    def __getitem__(self, key: int | str | slice) -> Bound | BoundReport:
        """Return a bound by its place or by its name, or some of them by a slice."""
        if isinstance(key, str):
            for bound in self.bounds:
                if bound.name == key:
                    return bound
            raise KeyError(f"No bound {key!r}; this report has {', '.join(self.names)}.")
        if isinstance(key, slice):
            return BoundReport(self.bounds[key], self.notes)
        return self.bounds[key]

    def __len__(self) -> int:
        return len(self.bounds)

    def __iter__(self) -> Iterator[Bound]:
        return iter(self.bounds)

    @property
    def names(self) -> list[str]:
        """The names of the bounds."""
        return [bound.name for bound in self.bounds]

    def to_frame(self) -> Any:
        """Return one line per bound.

        Returns
        -------
        frame : pandas DataFrame
            Indexed by name; `fails` names the conditions that do not hold.
        """
        rows = [
            {
                "name": bound.name,
                "quantity": bound.quantity,
                "constant": bound.constant,
                "total": bound.total,
                "empirical_risk": bound.empirical_risk,
                "complexity": bound.complexity,
                "confidence": bound.confidence,
                "trivial_level": bound.trivial_level,
                "is_trivial": bound.is_trivial,
                "is_guarantee": bound.is_guarantee,
                "regime": bound.regime,
                "sample": bound.sample,
                "n_rows": bound.n_rows,
                "delta": bound.delta,
                "fails": "; ".join(a.name for a in bound.failing),
            }
            for bound in self.bounds
        ]
        return optional("pandas", "BoundReport.to_frame").DataFrame(rows).set_index("name")

    def __repr__(self) -> str:
        return f"BoundReport({self.names})"

    def __str__(self) -> str:
        return "\n".join([*(str(bound) for bound in self.bounds), *self.notes])


def check_delta(delta: Any) -> float:
    """Refuse what is not a probability strictly between 0 and 1."""
    if not isinstance(delta, int | float | np.number) or not 0 < delta < 1:
        raise ValueError(f"delta is a probability, strictly between 0 and 1; got {delta!r}.")
    return float(delta)
