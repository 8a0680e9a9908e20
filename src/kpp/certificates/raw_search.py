"""The search behind `certify_raw`: brackets of all rows, row by row, within time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np

from kpp._parallel import blocks_of, run_blocks
from kpp._typing import FloatArray, OffsetArray
from kpp.certificates.boxes import FOUND, PROVED, BoxFlip, Nested, Splits
from kpp.certificates.radii import LARGEST, Radii, RisingRadii

ROWS_PER_BLOCK = 4
# Of an interval between two radii, where linear terms move: a millionth of it is left.
HALVINGS = 20
# With linear terms, how often the rest between a proof and a counterexample is halved at most, and
# how near they need not come.
CLOSER, NEAR = 8, 1.1


class Search:
    """Brackets of all rows: what is certified from below, what was found from above.

    Parameters
    ----------
    splits : Splits
        The forest.
    rows : array of shape (n_rows, n_features)
        Rows, with category codes.
    scale : array of shape (n_features,)
        Unit of each column.
    deadline : float
        When to stop, on the monotonic clock.
    effort : int
        About how many nodes one search may visit.
    """

    def __init__(
        self,
        splits: Splits,
        rows: FloatArray,
        scale: FloatArray,
        deadline: float,
        effort: int,
    ) -> None:
        self.splits, self.rows, self.scale = splits, rows, scale
        self.deadline, self.effort = deadline, effort
        n = len(rows)
        self.flips: list[list[tuple[BoxFlip, int]]] = [[] for _ in range(n)]
        self.radius, self.upper = np.zeros(n), np.full(n, np.inf)
        self.point = np.full(rows.shape, np.nan)
        self.finished = np.zeros(n, dtype=bool)

    def add(self, rows: OffsetArray, flip: BoxFlip) -> None:
        """Add a way in which the answers of some rows can change."""
        for i, row in enumerate(rows):
            self.flips[row].append((flip, i))

    def late(self) -> bool:
        """Whether time is up."""
        return time.monotonic() > self.deadline

    def run(self, n_jobs: int | None, progress: Callable[[int, int], None] | None) -> None:
        """Every row tree by tree, then every row as far as the effort goes."""
        n, done, lock = len(self.rows), [0], threading.Lock()
        blocks = blocks_of(n, -(-n // ROWS_PER_BLOCK))

        def count() -> None:
            with lock:
                done[0] += 1
                if progress is not None:
                    progress(done[0], n)

        def each(work: Callable[[int], None]) -> Callable[[int], None]:
            def block(b: int) -> None:
                for row in range(*blocks[b]):
                    if not self.late():
                        work(row)

            return block

        def tighten(row: int) -> None:
            self.tighten(row)
            count()

        run_blocks(each(self.tree_by_tree), len(blocks), n_jobs)
        run_blocks(each(tighten), len(blocks), n_jobs)

    def tree_by_tree(self, row: int) -> None:
        """The largest radius whose box no flip reaches, tree by tree."""
        x = self.rows[row]
        tests = [(flip, i, Nested()) for flip, i in self.flips[row]]

        def holds(radius: float) -> bool:
            box = self.splits.box(x, self.scale, radius)
            for k, (flip, i, nested) in enumerate(tests):
                if not flip.certifies(i, x, *box, nested):
                    # From here on boxes are smaller, and what passed this one passes them too.
                    nested.floor = nested.latest
                    del tests[:k]
                    return False
            # From here on boxes are larger.
            for _, _, nested in tests:
                nested.ceiling = nested.latest
            return True

        # A larger box reaches no fewer leaves, so the test turns false once, and halving finds
        # where.
        radii = self.splits.radii(x, self.scale)
        self.radius[row] = radii.last(holds)
        if len(self.splits.terms) and np.isfinite(self.radius[row]):
            self.radius[row] = self._between(radii, self.radius[row], holds)

    def _between(self, radii: Radii, low: float, holds: Callable[[float], bool]) -> float:
        """The largest radius that was seen to hold, up to the next at which a side meets anything.

        Between two such radii linear terms move, and nothing else does.
        """
        high = float(RisingRadii(radii, low).first(1)[0])
        if not high < LARGEST:
            return low  # beyond the last one terms do not move either
        for _ in range(HALVINGS):
            middle = low + (high - low) / 2
            if not low < middle < high:
                break
            if holds(middle):
                low = middle
            else:
                high = middle
        return low

    def tighten(self, row: int) -> None:
        """Prove larger boxes and find nearer counterexamples."""
        if self.effort == 0 or np.isinf(self.radius[row]):
            self.finished[row] = True
            return
        x = self.rows[row]
        radii = RisingRadii(self.splits.radii(x, self.scale), self.radius[row])
        verdicts: dict[int, int] = {}

        def attempt(k: int) -> int:
            if k not in verdicts:
                verdicts[k] = self._try(row, x, radii.first(k + 1)[k])
            return verdicts[k]

        def beyond() -> int:  # the first radius that a counterexample rules out
            upper = self.upper[row]
            return int(np.searchsorted(radii.up_to(upper), upper, side="left"))

        # From the near end outwards in growing steps, until a counterexample bounds the rest.
        k, step = 0, 1
        while not self.late() and attempt(k) != FOUND and k < len(radii.first(k + 2)) - 1:
            k, step = min(k + step, len(radii.first(k + step + 1)) - 1), 2 * step
        # What is proved holds for all smaller boxes. Halve between it and the first failure,
        # then between the last failure to find a counterexample and the nearest one.
        for wanted in (PROVED, FOUND):
            low = max([k for k, v in verdicts.items() if v == PROVED], default=-1)
            high = min([k for k, v in verdicts.items() if v != PROVED], default=len(radii.known))
            if wanted == FOUND:
                low, high = (
                    max([k for k, v in verdicts.items() if v != FOUND], default=-1),
                    beyond(),
                )
            while high - low > 1 and not self.late():
                middle = (low + high) // 2
                verdict = attempt(middle)
                if (verdict == PROVED) if wanted == PROVED else (verdict != FOUND):
                    low = middle
                else:
                    high = min(middle, beyond())
        if len(self.splits.terms):
            self._close(row, x)
        self.finished[row] = not self.late()

    def _close(self, row: int, x: FloatArray) -> None:
        """Halve what is left between both ends: linear terms also change between thresholds."""
        low, high = self.radius[row], self.upper[row]
        for _ in range(CLOSER if np.isfinite(high) else 0):
            middle = low + (high - low) / 2
            if self.late() or high <= NEAR * low or not low < middle < high:
                break
            if self._try(row, x, middle) == PROVED:
                low = middle
            else:
                high = min(middle, self.upper[row])

    def _try(self, row: int, x: FloatArray, radius: float) -> int:
        """Search one box for every flip; remember what was proved or found."""
        box = self.splits.box(x, self.scale, radius)
        verdict = PROVED
        for flip, i in self.flips[row]:
            outcome = flip.search(i, x, *box, self.effort)
            if outcome.point is not None:
                distance = self._distance(x, outcome.point)
                if distance < self.upper[row]:
                    self.upper[row], self.point[row] = distance, outcome.point
                return FOUND
            # OPEN is below PROVED: a box is proved when every flip is.
            verdict = min(verdict, outcome.verdict)
        if verdict == PROVED:
            self.radius[row] = max(self.radius[row], radius)
        return verdict

    def _distance(self, x: FloatArray, point: FloatArray) -> float:
        """How far a point lies; where a column may be anything, anything is at distance 0."""
        moved = np.flatnonzero((point != x) & ~np.isnan(x) & np.isfinite(self.scale))
        with np.errstate(divide="ignore", over="ignore"):
            steps = np.abs(point[moved] - x[moved]) / self.scale[moved]
        # Rounded up: an upper end of the bracket must not lie below the counterexample's true
        # distance.
        return float(np.nextafter(steps.max(initial=0.0), np.inf))
