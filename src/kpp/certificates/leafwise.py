r"""The leafwise certificate: a dual bound over leaf combinations, for all rows by two scans.

To change an answer, some x' must reach leaves :math:`\ell_t` whose margin
:math:`o + \sum_t v_t(\ell_t)` is not positive. For any :math:`\mu \ge 0`

.. math::
    D(\mu) = \mu\, o + \sum_t \min_\ell
        \bigl[\delta_t(\ell_t(x), \ell) + \mu\, v_t(\ell)\bigr]

is a certified radius. A linear term of coefficient :math:`\beta` at coordinate :math:`\psi` adds
:math:`\min_d\, [d^2 + \mu \beta (\psi + d)]` over what its range leaves to d, which is never below
:math:`\mu \beta \psi - \mu^2 \beta^2 / 4`. D is concave and piecewise linear (but for these terms,
which are parabolas until they meet an end) with :math:`D(0) = 0`, and its slope at
:math:`\mu` is the margin of the minimising leaves. The margin of x falls by at most
:math:`\mu \|w\|^2` there, so the top lies at or above :math:`m / \|w\|^2`: a shared grid of
doublings walks up from there, every row leaves it at the first slope that is not positive, and
finishes by tangent steps of its own between the last two grid points. That finds the top, which
lies above :math:`D(2m/\|w\|^2) \ge (m/\|w\|)^2`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from kpp._parallel import blocks_of, run_blocks
from kpp._typing import AnyArray, BoolArray, FloatArray, IntArray, OffsetArray
from kpp.certificates._loops import Minima, Terms, leaf_minima, sum_minima, tangent_steps
from kpp.certificates.flips import Flip
from kpp.certificates.node_tables import NodeTables, gamma, largest_values, lowest_values
from kpp.forest.arrays import Forest

ROWS_PER_BLOCK = 512
N_TREE_BLOCKS = 8
MAX_STEPS = 60
# Shared grid points between two doublings, halving by halving; see _halved.
MAX_HALVINGS = 5
ROWS_PER_SCAN = 32
# Doublings of mu before a row is left with what it has: 2^200 is beyond every ratio of margins.
MAX_DOUBLINGS = 200


@dataclass(frozen=True, eq=False)
class Leafwise:
    """The certificate against one flip.

    Parameters
    ----------
    radius : array of shape (n,)
        Certified radius, rounding taken off; infinite where no leaves change the answer.
    never : bool array of shape (n,)
        Where no combination of leaves changes the answer.
    best_mu : array of shape (n,)
        The mu that gave the radius.
    flip_mu : array of shape (n,)
        A mu whose minimising leaves change the answer; infinite where there is none.
    """

    radius: FloatArray
    never: BoolArray
    best_mu: FloatArray
    flip_mu: FloatArray


def minima_at(tables: NodeTables, value: FloatArray, mu: float) -> Minima:
    """Return the least ``distance + mu * value`` seen from every leaf."""
    forest = tables.forest
    below, best, arg_value = (np.empty(forest.n_nodes) for _ in range(3))
    minima = Minima(float(mu), below, best, arg_value)
    arg = np.empty(forest.n_nodes, dtype=np.int32)
    blocks = blocks_of(forest.n_trees, N_TREE_BLOCKS)
    trees = (forest.tree_offsets, forest.parent, forest.left)
    run_blocks(
        lambda b: leaf_minima(*trees, tables.C, value, *minima, *blocks[b], arg),
        len(blocks),
        tables.n_jobs,
    )
    return minima


def dual_bound(
    tables: NodeTables,
    value: FloatArray,
    offset: FloatArray,
    leaf_ids: IntArray,
    rows: OffsetArray,
    mu: float,
    terms: Terms | None = None,
) -> tuple[FloatArray, FloatArray]:
    """D(mu) of some rows and its slope, each of shape (n,); rounded, not lowered.

    What linear terms add at the rows themselves belongs to the offset.
    """
    if terms is None:
        terms = tables.loop_terms(np.zeros(0), None, leaf_ids.shape[1])
    return _sum(tables, leaf_ids, rows, offset, minima_at(tables, value, mu), terms)


def solve(
    tables: NodeTables, flip: Flip, leaf_ids: IntArray, values: FloatArray | None = None
) -> Leafwise:
    """Maximise D for every row of a flip.

    Parameters
    ----------
    tables : NodeTables
        The model.
    flip : Flip
        Which rows, and how their answer may change.
    leaf_ids : int32 array of shape (n_trees, n_all_rows)
        The leaves of all rows.
    values : array of shape (n_all_rows, p), optional
        The coordinates of all rows in the linear terms, where the model has some.

    Returns
    -------
    certificate : Leafwise
        For the rows of the flip, in their order.
    """
    forest, n = tables.forest, len(flip.rows)
    if tables.is_constant(flip.contrast):
        always = np.full(n, np.inf)
        return Leafwise(always, np.ones(n, dtype=bool), np.zeros(n), always)
    # The worst leaf of every tree at once: if even that keeps the answer, nothing changes it.
    worst = flip.offset + lowest_values(forest, flip.value).sum() + tables.lowest_terms(flip.terms)
    # A term moves by at most twice its largest magnitude: 0 is in its range.
    of_terms = 2 * tables.largest_terms(flip.terms)
    total = float(largest_values(forest, flip.value).sum()) + of_terms
    # These sums are rounded too; the offset has given away the model's rounding only.
    slack = gamma(tables.n_sums + 2) * (total + np.abs(flip.offset))
    never = worst > slack
    terms = tables.loop_terms(flip.terms, values, leaf_ids.shape[1])
    if len(flip.terms):
        # From here on the offset also holds the terms of the row itself.
        own = terms.values[flip.rows]
        flip = replace(flip, offset=flip.offset + (own * flip.terms).sum(axis=1))
    margin = flip.offset + _values_at(flip, leaf_ids)
    radius, best_mu = np.where(never, np.inf, 0.0), np.zeros(n)
    flip_mu = np.where(margin > 0, np.inf, 0.0)
    open_rows = np.flatnonzero(~never & (margin > slack))
    # The norm is 0 for two classes with the same w. They differ by their intercepts: by more than
    # the rounding of both, and never flip, or by less, and may at any row.
    if flip.norm == 0 or len(open_rows) == 0:
        return Leafwise(radius, never, best_mu, flip_mu)

    # Every computed D(mu) is within this of the exact one, and distances within the same.
    largest_offset = float(np.abs(flip.offset[open_rows]).max())
    constant_error = tables.rounding * 4 * tables.diameter
    error_per_mu = tables.rounding * (total + largest_offset)

    # m / |w|^2, at or below the top (see above). Divided twice: a square of the norm may underflow.
    start = margin[open_rows] / flip.norm / flip.norm
    order = np.argsort(start, kind="stable")
    open_rows, start = open_rows[order], start[order]
    waiting = 0  # rows from here on have their top above the grid so far
    active: AnyArray = np.empty(0, dtype=np.int64)
    factor = _grid_factor(forest, len(open_rows))
    mu, low = 0.0, None
    for _ in range(MAX_DOUBLINGS + n):
        if len(active) == 0:
            if waiting == len(open_rows):
                break
            low, mu = minima_at(tables, flip.value, start[waiting]), factor * start[waiting]
        assert low is not None
        high = minima_at(tables, flip.value, mu)
        # A row joins when the grid passes its start. Below its start the slope is positive, so the
        # last grid point serves it as the lower end.
        joined = int(np.searchsorted(start, mu, side="right"))
        active = np.concatenate([active, open_rows[waiting:joined]])
        waiting = joined
        _, slope = _sum(tables, leaf_ids, flip.rows[active], flip.offset[active], high, terms)
        # The first slope that is not positive: the top lies between the last two grid points.
        done = active[slope <= 0]
        between = _halved(tables, flip, leaf_ids, terms, done, low, high, MAX_HALVINGS)
        for rows, left, right in between:
            radius[rows], best_mu[rows], flip_mu[rows] = _climb(
                tables, flip, leaf_ids, terms, rows, left, right, constant_error, error_per_mu
            )
        active = active[slope > 0]
        low, mu = high, factor * mu
        # Further steps overflow; the rows that are left keep the radius 0, which is sound.
        if not np.isfinite(mu * total):
            break
    return Leafwise(np.maximum(radius, 0.0), never, best_mu, flip_mu)


def _rows_per_scan(forest: Forest) -> float:
    """How many rows' own steps cost as much as one scan of the forest."""
    return ROWS_PER_SCAN * forest.n_nodes / (512 * forest.n_trees)


def _grid_factor(forest: Forest, n_rows: int) -> float:
    """From one grid point to the next: far where a scan costs more than the steps of all rows."""
    scans = n_rows / _rows_per_scan(forest)
    return 8.0 if scans < 0.1 else 4.0 if scans < 1 else 2.0


def _values_at(flip: Flip, leaf_ids: IntArray) -> FloatArray:
    total = np.zeros(len(flip.rows))
    for leaves in leaf_ids:
        total += flip.value[leaves[flip.rows]]
    return total


def _sum(
    tables: NodeTables,
    leaf_ids: IntArray,
    rows: OffsetArray,
    offset: FloatArray,
    minima: Minima,
    terms: Terms,
) -> tuple[FloatArray, FloatArray]:
    bound, slope = np.empty(len(rows)), np.empty(len(rows))
    rows, offset = np.ascontiguousarray(rows), np.ascontiguousarray(offset)
    _each_run_of_rows(
        len(rows),
        tables.n_jobs,
        lambda block: sum_minima(leaf_ids, rows, minima, terms, offset, *block, bound, slope),
    )
    return bound, slope


def _halved(
    tables: NodeTables,
    flip: Flip,
    leaf_ids: IntArray,
    terms: Terms,
    members: OffsetArray,
    low: Minima,
    high: Minima,
    halvings: int,
) -> Iterator[tuple[OffsetArray, Minima, Minima]]:
    """Share further grid points among rows between two of them, while rows are many.

    One scan of the forest costs what ROWS_PER_SCAN steps of single rows do, and after it most
    trees have the same leaf at both ends, so that a row's own steps are few and short.
    """
    if len(members) == 0:
        return
    if halvings == 0 or len(members) < _rows_per_scan(tables.forest):
        yield members, low, high
        return
    # The geometric mean, because the grid is geometric; two roots, because the product may
    # overflow.
    middle = minima_at(tables, flip.value, np.sqrt(low.mu) * np.sqrt(high.mu))
    _, slope = _sum(tables, leaf_ids, flip.rows[members], flip.offset[members], middle, terms)
    before, after = members[slope <= 0], members[slope > 0]
    yield from _halved(tables, flip, leaf_ids, terms, before, low, middle, halvings - 1)
    yield from _halved(tables, flip, leaf_ids, terms, after, middle, high, halvings - 1)


def _climb(
    tables: NodeTables,
    flip: Flip,
    leaf_ids: IntArray,
    terms: Terms,
    members: OffsetArray,
    low: Minima,
    high: Minima,
    constant_error: float,
    error_per_mu: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    rows = np.ascontiguousarray(flip.rows[members])
    offset = np.ascontiguousarray(flip.offset[members])
    safe, best_mu, flip_mu = (np.empty(len(rows)) for _ in range(3))
    _each_run_of_rows(
        len(rows),
        tables.n_jobs,
        lambda block: tangent_steps(
            leaf_ids,
            rows,
            tables.forest.tree_offsets,
            tables.forest.parent,
            tables.forest.left,
            tables.C,
            flip.value,
            offset,
            low,
            high,
            terms,
            constant_error,
            error_per_mu,
            MAX_STEPS,
            *block,
            safe,
            best_mu,
            flip_mu,
        ),
    )
    return safe, best_mu, flip_mu


def _each_run_of_rows(
    n_rows: int, n_jobs: int | None, work: Callable[[tuple[int, int]], None]
) -> None:
    blocks = blocks_of(n_rows, -(-n_rows // ROWS_PER_BLOCK))
    run_blocks(lambda b: work(blocks[b]), len(blocks), n_jobs)
