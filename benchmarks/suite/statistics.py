"""Comparing methods over data sets: Friedman, Nemenyi, and Wilcoxon with Holm's correction.

Every function takes losses of shape (n_sets, n_methods), lower is better; infinity is a method
that did not finish and ranks last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import stats


class Friedman(NamedTuple):
    """The omnibus test of equal mean ranks."""

    statistic: float
    p_value: float
    n_sets: int
    n_methods: int


class Pair(NamedTuple):
    """One method against another, over the sets that both finished."""

    rival: str
    n_sets: int
    wins: int
    ties: int
    losses: int
    median: float
    p_value: float
    p_holm: float


def rank(losses: Any) -> Any:
    """Ranks within each set, 1 is best; ties share the mean of their ranks.

    Losses that agree to twelve digits are ties: means over seeds of the same numbers may differ in
    the last bit.
    """
    rounded = np.vectorize(lambda value: float(f"{value:.12g}"), otypes=[float])(losses)
    return np.apply_along_axis(stats.rankdata, 1, rounded)


def friedman(losses: Any) -> Friedman:
    r"""Tie-corrected Friedman test.

    .. math::
        \chi^2 = \frac{(k - 1) \sum_j (R_j - n (k + 1) / 2)^2}
        {\sum_{ij} r_{ij}^2 - n k (k + 1)^2 / 4}

    with :math:`R_j` the sum of the ranks of method j; without ties the denominator is
    :math:`n k (k^2 - 1) / 12`.
    """
    ranks = rank(losses)
    n, k = ranks.shape
    _check_size(n, k)
    spread = np.square(ranks).sum() - n * k * (k + 1) ** 2 / 4
    between = np.square(ranks.sum(axis=0) - n * (k + 1) / 2).sum()
    statistic = (k - 1) * between / spread if spread > 0 else 0.0
    return Friedman(float(statistic), float(stats.chi2.sf(statistic, k - 1)), n, k)


def friedman_of_mean_ranks(mean_ranks: Any, n_sets: int) -> Friedman:
    r"""Friedman test without ties, from mean ranks alone.

    .. math:: \chi^2 = \frac{12 n}{k (k + 1)} \sum_j \bigl(\bar R_j - (k + 1)/2\bigr)^2
    """
    ranks = np.asarray(mean_ranks, dtype=np.float64)
    k = len(ranks)
    _check_size(n_sets, k)
    statistic = 12 * n_sets / (k * (k + 1)) * np.square(ranks - (k + 1) / 2).sum()
    return Friedman(float(statistic), float(stats.chi2.sf(statistic, k - 1)), n_sets, k)


def nemenyi_quantile(n_methods: int, level: float = 0.05) -> float:
    r""":math:`q_\alpha`: upper quantile of the studentized range over :math:`\sqrt 2`."""
    return float(stats.studentized_range.isf(level, n_methods, np.inf) / np.sqrt(2))


def critical_difference(n_methods: int, n_sets: int, level: float = 0.05) -> float:
    r"""Nemenyi's critical difference of mean ranks, :math:`q_\alpha \sqrt{k (k + 1) / (6 n)}`."""
    _check_size(n_sets, n_methods)
    width = np.sqrt(n_methods * (n_methods + 1) / (6 * n_sets))
    return nemenyi_quantile(n_methods, level) * float(width)


def nemenyi(losses: Any) -> Any:
    """Nemenyi's p-values of every pair of methods, shape (n_methods, n_methods)."""
    ranks = rank(losses)
    n, k = ranks.shape
    _check_size(n, k)
    mean = ranks.mean(axis=0)
    gap = np.abs(mean[:, None] - mean) / np.sqrt(k * (k + 1) / (6 * n))
    p_values = stats.studentized_range.sf(gap * np.sqrt(2), k, np.inf)
    np.fill_diagonal(p_values, 1.0)
    return p_values


def holm(p_values: Any) -> Any:
    """Holm's step-down correction."""
    p_values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return corrected


def compare_with(names: list[str], losses: Any, ours: str, *, relative: bool) -> list[Pair]:
    """Compare one method with every other, by `compare_pairs`.

    Parameters
    ----------
    names : list of str
        The methods, in the order of the columns.
    losses : array of shape (n_sets, n_methods)
        Losses.
    ours : str
        The method that is compared.
    relative : bool
        As in `compare_pairs`.
    """
    losses = np.asarray(losses, dtype=np.float64)
    own = losses[:, names.index(ours)]
    rivals = {
        name: (own, theirs) for name, theirs in zip(names, losses.T, strict=True) if name != ours
    }
    return compare_pairs(rivals, relative=relative)


def compare_pairs(
    rivals: dict[str, tuple[Any, Any]], *, relative: bool, tie: float = 1e-12
) -> list[Pair]:
    """Wilcoxon's signed-rank test of one method against each rival, Holm-corrected over them.

    Parameters
    ----------
    rivals : dict of str to (array, array)
        Our losses and the rival's, both of shape (n_sets,); only sets where both are finite count.
    relative : bool
        Whether differences are log ratios: an RMSE is in the units of its set, and plain
        differences would let the set with the largest numbers rule. Shares of errors and log
        losses are compared as they are.
    tie : float
        Differences up to this are ties, and are left out of the test.
    """
    found = []
    for name, (own, theirs) in rivals.items():
        own, theirs = np.asarray(own, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
        both = np.isfinite(own) & np.isfinite(theirs)
        if relative:
            difference = np.log(theirs[both]) - np.log(own[both])
        else:
            difference = theirs[both] - own[both]
        difference = np.where(np.abs(difference) <= tie, 0.0, difference)
        p_value = 1.0
        if np.count_nonzero(difference):
            p_value = float(stats.wilcoxon(difference, zero_method="wilcox").pvalue)
        found.append(
            Pair(
                rival=name,
                n_sets=int(both.sum()),
                wins=int((difference > 0).sum()),
                ties=int((difference == 0).sum()),
                losses=int((difference < 0).sum()),
                median=float(np.median(difference)) if both.any() else np.nan,
                p_value=p_value,
                p_holm=np.nan,
            )
        )
    corrected = holm([pair.p_value for pair in found])
    return [pair._replace(p_holm=float(p)) for pair, p in zip(found, corrected, strict=True)]


def _check_size(n_sets: int, n_methods: int) -> None:
    if n_methods < 2 or n_sets < 1:
        raise ValueError(
            f"A ranking needs at least two methods and one set; got {n_methods} and {n_sets}."
        )
