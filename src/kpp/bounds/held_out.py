"""The bound of a predictor that was fixed before its rows were drawn."""

from __future__ import annotations

import numpy as np

from kpp._typing import FloatArray
from kpp.bounds.betting import held_out_betting
from kpp.bounds.binomial import held_out_binomial


def held_out_bound(losses: FloatArray, delta: float, *, are_errors: bool) -> float:
    r"""Bound a risk by losses on rows that had no part in the predictor.

    Losses that are 0 or 1 have the exact tail of their count; others vary less than those of a
    coin, and are bounded by betting. Which of the two is taken follows from the kind of loss, so
    that nothing is paid for it.

    Parameters
    ----------
    losses : array of shape (n_draws,)
        Of independent rows, or means within independent groups; in [0, 1] but for rounding.
    delta : float
        Probability with which the bound may fail.
    are_errors : bool
        Whether every loss can only be 0 or 1.

    Returns
    -------
    bound : float

    References
    ----------
    Theorems 5 and 6 of docs/bounds.md.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.bounds.held_out import held_out_bound
    >>> errors = np.repeat([0.0, 1.0], [190, 10])
    >>> [round(held_out_bound(errors, 0.05, are_errors=kind), 4) for kind in (True, False)]
    [0.0833, 0.1098]
    """
    if are_errors:
        return float(held_out_binomial(int(losses.sum()), len(losses), delta))
    return held_out_betting(np.clip(losses, 0.0, 1.0), delta)
