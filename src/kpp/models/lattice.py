"""Weights of a blend from a finite set that is known before any label: they can be counted."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.models.selection import LayerSettings

# Weights are multiples of one over this many.
STEPS = 4


def simplex_lattice(n_candidates: int, steps: int = STEPS) -> FloatArray:
    r"""Return all weights that are multiples of one over `steps` and add up to 1.

    .. math:: \binom{J + s - 1}{s}

    points for J candidates and s steps.

    Parameters
    ----------
    n_candidates : int
        J.
    steps : int
        s.

    Returns
    -------
    points : array of shape (n_points, n_candidates)

    Examples
    --------
    >>> from kpp.models.lattice import simplex_lattice
    >>> simplex_lattice(2, 2).tolist()
    [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]
    """
    # Bars between stars: J - 1 of s + J - 1 places are bars, and what lies between them counts.
    places = steps + n_candidates - 1
    bars = np.array(list(combinations(range(places), n_candidates - 1)), dtype=np.int64)
    bars = bars.reshape(comb(places, n_candidates - 1), n_candidates - 1)
    ends = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), places)])
    return (np.diff(ends, axis=1) - 1) / steps


def lattice_weights(
    candidates: FloatArray, target: AnyArray, weight: FloatArray, settings: LayerSettings
) -> tuple[FloatArray, FloatArray, int]:
    """Choose the weights of a blend among the points of a lattice, by out-of-fold merit.

    Parameters
    ----------
    candidates : array of shape (n_candidates, n_rows, n_scores)
        Out-of-fold scores.
    target, weight : arrays over the rows
        What is predicted.
    settings : LayerSettings
        Loss and figure of merit.

    Returns
    -------
    theta : array of shape (n_candidates, n_scores)
        The same for all scores.
    constant : array of shape (n_scores,)
        0: a constant that is learned could not be counted.
    n_points : int
        Points of the lattice, whichever was chosen.
    """
    points = simplex_lattice(len(candidates))
    best, best_merit = points[0], -np.inf
    for point in points:
        scores = np.einsum("j,jik->ik", point, candidates)
        merit = settings.task.merit(target, scores, weight, settings.scoring)
        if merit > best_merit:
            best, best_merit = point, merit
    n_scores = candidates.shape[2]
    return np.tile(best[:, None], n_scores), np.zeros(n_scores), len(points)
