r"""How far an output may rise or fall within a radius: the regression side of the dual bound.

.. math::
    U^+(u) = \min_{\mu > 0} \frac{u - E(\mu)}{\mu}, \qquad
    E(\mu) = \sum_t \min_\ell \bigl[\delta_t(\ell_t(x), \ell)
        - \mu\, (v_t(\ell) - v_t(\ell_t(x)))\bigr]
        + \sum_j \min_d \bigl[d^2 - \mu\, \beta_j d\bigr] \le 0

bounds :math:`f(x') - f(x)` over all x' with :math:`\delta_T(x, x') \le u`: every such x' has
:math:`\delta_T - \mu (f(x') - f(x)) \ge E(\mu)`. Any set of :math:`\mu` gives a valid bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kpp._typing import FloatArray, IntArray
from kpp.certificates._loops import Terms
from kpp.certificates.leafwise import dual_bound
from kpp.certificates.node_tables import NodeTables, largest_values, lowest_values

# Neighbouring mu differ by this factor, and -E does not fall: the grid's mu at or below the best
# one gives a bound at most this factor, 19%, above the best. One stump comes to 13%.
RATIO = 2.0**0.25
MAX_GRID = 400


@dataclass(frozen=True, eq=False)
class OneSided:
    r"""The bound of one side, for all rows.

    Parameters
    ----------
    mu : array of shape (n_mu,)
        The grid.
    dual : array of shape (n_rows, n_mu)
        :math:`E(\mu)`, lowered by its rounding.
    most : array of shape (n_rows,)
        The largest change over all combinations of leaves.
    """

    mu: FloatArray
    dual: FloatArray
    most: FloatArray

    def __call__(self, u: float) -> FloatArray:
        """Bound the change within a radius, shape (n_rows,)."""
        # Any leaves may be reached: only the largest change over all of them holds.
        if not np.isfinite(u):
            return self.most
        if len(self.mu) == 0:
            return self.most
        return np.minimum(((u - self.dual) / self.mu).min(axis=1), self.most)


@dataclass(frozen=True, eq=False)
class Deviations:
    """Bounds on the rise and on the fall of one output."""

    rise: OneSided
    fall: OneSided


def deviations(
    tables: NodeTables,
    leaf_ids: IntArray,
    norm: FloatArray,
    values: FloatArray | None = None,
) -> list[Deviations]:
    """Bound rise and fall of every target for every row.

    Parameters
    ----------
    tables : NodeTables
        The model.
    leaf_ids : int32 array of shape (n_trees, n_rows)
        The leaves of the rows.
    norm : array of shape (n_targets,)
        Lipschitz constants.
    values : array of shape (n_rows, p), optional
        Coordinates of the rows in the linear terms, where the model has some.

    Returns
    -------
    deviations : list of Deviations
        One per target. They hold 16 bytes for each row, target and mu.
    """
    result = []
    for k in range(len(norm)):
        at_row = np.zeros(leaf_ids.shape[1])
        for leaves in leaf_ids:
            at_row += tables.values[k][leaves]
        # A rise of v is a fall of -v: the same bound with the sign turned.
        sides = [
            _one_sided(
                tables,
                leaf_ids,
                sign * tables.values[k],
                sign * at_row,
                tables.loop_terms(sign * tables.linear[k], values, leaf_ids.shape[1]),
                k,
                norm[k],
            )
            for sign in (-1.0, 1.0)
        ]
        result.append(Deviations(rise=sides[0], fall=sides[1]))
    return result


def _one_sided(
    tables: NodeTables,
    leaf_ids: IntArray,
    value: FloatArray,
    at_row: FloatArray,
    terms: Terms,
    score: int,
    norm: float,
) -> OneSided:
    forest, rows = tables.forest, np.arange(len(at_row))
    least = lowest_values(forest, value).sum()
    # Predictions are rounded, the old one and the new one, and so are these sums.
    tau = 4 * tables.score_error(score)
    falls = at_row - least
    if len(terms.coef):
        # As far as every term can go from where it is.
        own = terms.coef * terms.values
        falls = falls + (own - np.minimum(terms.coef * terms.least, terms.coef * terms.most)).sum(1)
    most = np.maximum(falls, 0.0) + tau
    if norm == 0:
        return OneSided(np.empty(0), np.empty((len(rows), 0)), np.zeros(len(rows)))
    size = float(largest_values(forest, value).sum()) + 2 * tables.largest_terms(terms.coef)
    constant = tables.rounding * 4 * tables.diameter
    # Predictions that are off by tau move mu (f(x') - f(x)), and with it E, by mu tau.
    per_mu = tables.rounding * 2 * size + tau
    # Below the first mu the Lipschitz bound is as good for radii above 1e-12 of the diameter.
    mu = 1e-6 * np.sqrt(max(tables.diameter, 1e-300)) / norm
    grid, columns = [], []
    for _ in range(MAX_GRID):
        dual, slope = dual_bound(tables, value, -at_row, leaf_ids, rows, mu, terms)
        grid.append(mu)
        columns.append(dual - constant - mu * per_mu)
        # Once every tree has gone to its extreme leaf, larger mu give nothing new.
        if (-slope >= (1 - 1e-12) * falls).all():
            break
        mu *= RATIO
    return OneSided(np.array(grid), np.column_stack(columns), most)
