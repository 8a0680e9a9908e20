"""A limit of the norm of a linear layer, reached by raising its alpha."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kpp.geometry.maps import MapBlock
from kpp.solvers import LinearProblem, Solutions

if TYPE_CHECKING:
    from kpp.models.selection import LayerSettings


def within_norm(
    problem: LinearProblem,
    found: Solutions,
    block: MapBlock,
    settings: LayerSettings,
    *,
    tol: float,
    warn: bool = True,
) -> Solutions:
    r"""Raise alpha until the norm of w is at most `max_norm`.

    At the solution of a larger alpha the norm is not larger, so that the smallest such alpha is
    the multiplier of the constrained problem. It is bracketed by factors, and then found by
    interpolating log norm in log alpha.

    Parameters
    ----------
    problem : LinearProblem
        The layer.
    found : Solutions
        At the chosen alpha.
    block : MapBlock
        The map at the rows of the layer.
    settings : LayerSettings
        Norm, and most products.
    tol : float
        Tolerance of the solutions.
    warn : bool
        Whether an alpha that does not converge is a warning.

    Returns
    -------
    solutions : Solutions
        Of one alpha; `found` itself where it is within the norm.
    """
    most = settings.max_norm
    assert most is not None

    def log_norm(at: Solutions) -> float:
        norm = np.linalg.norm([block.rmatvec(r) for r in at.dual[0].T])
        return float(np.log(norm / most)) if norm > 0 else -np.inf

    def solve(log_alpha: float) -> Solutions:
        return problem.solve(
            np.array([np.exp(log_alpha)]), tol=tol, max_iter=settings.max_iter, warn=warn
        )

    low, low_norm = float(np.log(found.alphas[0])), log_norm(found)
    if low_norm <= 0:
        return found
    high, high_norm, best = low, low_norm, found
    while high_norm > 0:
        low, low_norm = high, high_norm
        high += np.log(8.0)
        best = solve(high)
        high_norm = log_norm(best)
    # Just inside: the norm may fall short of the limit by this share.
    while high_norm < -1e-6 and high - low > 1e-9:
        share = low_norm / (low_norm - high_norm) if np.isfinite(high_norm) else 0.5
        middle = low + (high - low) * min(max(share, 0.1), 0.9)
        at = solve(middle)
        norm = log_norm(at)
        if norm > 0:
            low, low_norm = middle, norm
        else:
            high, high_norm, best = middle, norm, at
    return best
