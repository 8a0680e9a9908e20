"""The fitted models behind the dashboard, bounds and radii: five sets, five seeds, one lambda."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from suite.datasets import MissingDataError, load, subsample
from suite.paper_kpp import GRID, fit_at
from suite.preparation import Split, split

from paper.published import FIVE

REASON = (
    "Where a figure differs, why, and what it is with trees that were compiled as the paper's "
    "were: [causes](paper_causes.md), figure by figure."
)


@dataclass(frozen=True)
class Context:
    """What a command is run with.

    Parameters
    ----------
    data_dir : str, optional
        Folder with ``<name>.csv.gz``.
    sets : tuple of str
        Data sets, of the five.
    seeds : int
        Number of seeds.
    out : str, optional
        Folder of results, where a command keeps its run.
    run : str, optional
        Folder of a finished run of the suite.
    missing : dict of str to str
        Filled with data sets that are not there.
    """

    data_dir: str | None = None
    sets: tuple[str, ...] = tuple(FIVE)
    seeds: int = 5
    out: str | None = None
    run: str | None = None
    missing: dict[str, str] = field(default_factory=dict)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Data sets that are there; the others are named."""
        for name in self.sets:
            task, n_rows, _ = FIVE[name]
            try:
                yield name, subsample(load(name, task, self.data_dir), n_rows)
            except MissingDataError as error:
                self.missing[name] = str(error)

    def models(self) -> Iterator[tuple[str, list[Fitted]]]:
        """Fit every seed of a set, at the dashboard's lambda."""
        for name, data in self.tables():
            task, _, position = FIVE[name]
            found = []
            for seed in range(self.seeds):
                parts = split(data, seed)
                alpha = float(GRID[position])
                model = fit_at(
                    task, parts.X_train, parts.y_train, alpha, seed, tol=1e-11, max_iter=5000
                )
                found.append(Fitted(task, alpha, model, parts))
            yield name, found

    def note(self) -> list[str]:
        """Lines that name what is missing, and where differences may come from."""
        lines = [REASON]
        lines += [f"Missing: **{name}** ({why})." for name, why in self.missing.items()]
        return [line for text in lines for line in (text, "")]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model of one seed and its rows."""

    task: str
    alpha: float
    model: Any
    parts: Split

    @property
    def norm(self) -> float:
        """|w|."""
        return float(np.linalg.norm(self.model.node_coef_))

    @property
    def margins(self) -> Any:
        """Signed margins of the test rows."""
        sign = np.where(self.parts.y_test == 1, 1.0, -1.0)
        return sign * np.ravel(self.model.decision_function(self.parts.X_test))

    @property
    def largest(self) -> float:
        """M, the largest |y| in training."""
        return float(np.abs(self.parts.y_train).max())
