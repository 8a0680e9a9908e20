"""Theorem 6 of docs/bounds.md in a few lines, for comparison."""

import numpy as np
from scipy.optimize import brentq

# Halves, quarters and so on of a capital; the last two alike, so that they are all of it.
PARTS = [2.0**-j for j in range(1, 8)] + [2.0**-7]
BETS = [2.0**-j for j in range(8)]
# The package lowers its logarithms by 1e-9.
REL = 1e-8


def capital(losses, p):
    """What is left where every part bets its share on losses below p."""
    return sum(
        part * np.prod([1 + bet * (p - loss) for loss in losses])
        for part, bet in zip(PARTS, BETS, strict=True)
    )


def betting_limit(losses, delta=0.05):
    """Where the capital is 1 / delta."""
    if capital(losses, 1.0) <= 1 / delta:
        return 1.0
    return brentq(lambda p: capital(losses, p) - 1 / delta, np.mean(losses), 1.0, xtol=1e-15)
