r"""Finite-sample intervals for the gain of a partition that was fixed before the sample.

With cells C, :math:`f(C) = E[Y | C]` and :math:`m = E Y`, the gain is
:math:`G = E \psi`, :math:`\psi = (Y - m)^2 - (Y - f(C))^2`; for classes it is the information
:math:`I = E \psi`, :math:`\psi = \log (\eta_Y(C) / \pi_Y)`. The plug-in gain misses it by

.. math::
    \hat G - G = (\bar\psi - G) + \sum_\ell \hat p_\ell\, D(\hat f_\ell, f_\ell) - D(\bar y, m)

with D the squared difference, or the relative entropy. The mean of psi has a variance of at most a
multiple of G (Bernstein); the two other terms have the moments of Gamma variables whose shape
counts cells. The proofs stand in ``docs/proofs.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy
from scipy.stats import beta

from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray
from kpp.bounds.results import Assumption


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows of a sample in the cells of a partition.

    Parameters
    ----------
    count : array of shape (n_cells,)
        Rows; cells without rows may be among them.
    variance : array of shape (n_cells,), optional
        Variance of the target in each cell.
    class_share : array of shape (n_cells, n_classes), optional
        Share of each class, for classes.
    """

    count: FloatArray
    variance: FloatArray | None = None
    class_share: FloatArray | None = None

    @property
    def n_alone(self) -> int:
        """Rows that are alone in their cell."""
        return int(np.count_nonzero(self.count == 1))

    def corrected_risk(self) -> float:
        r"""Leaf risk without the bias of estimating a constant in each cell; NaN if it has none.

        The jackknife of every cell: for the variance :math:`n_\ell / (n_\ell - 1)` times the
        plug-in, which is unbiased; for the entropy it leaves a bias of second order. Rows that are
        alone in their cell say nothing, and count as the others do.
        """
        several = self.count > 1
        n = self.count[several]
        if not len(n):
            return np.nan
        if self.variance is not None:
            risk = n / (n - 1) * self.variance[several]
        else:
            assert self.class_share is not None
            rows = n[:, None] * self.class_share[several]
            # n log n - sum_c n_c log n_c is n times the entropy of a cell.
            own = xlogy(n, n) - xlogy(rows, rows).sum(axis=1)
            less = np.maximum(rows - 1, 0)
            rest = xlogy(rows, rows).sum(axis=1)[:, None] - xlogy(rows, rows) + xlogy(less, less)
            without = (rows * (xlogy(n - 1, n - 1)[:, None] - rest)).sum(axis=1)
            risk = own - without / n
        return float(n @ risk / n.sum())


@dataclass(frozen=True, eq=False)
class GainSample:
    """The gain of some partitions at one sample, averaged over them, and what its limits need.

    Parameters
    ----------
    gain : float
        Plug-in gain, mean over the partitions.
    corrected : float
        The same without the bias of the cells; NaN where it cannot be had.
    n_partitions : int
        How many.
    n_rows : int
        n.
    n_cells : float
        Cells with rows, mean over the partitions.
    most_cells : float
        A number that was fixed before the sample and is near `n_cells`: leaves, at most n a tree.
        Of a single partition `n_cells` itself, since the limits hold given the cells of the rows.
    class_counts : int array of shape (n_classes,), optional
        Rows of each class.
    limits : tuple of float
        Smallest and largest target of the sample.
    """

    gain: float
    corrected: float
    n_partitions: int
    n_rows: int
    n_cells: float
    most_cells: float
    class_counts: AnyArray | None = None
    limits: tuple[float, float] = (np.nan, np.nan)


@dataclass(frozen=True, eq=False)
class GainInterval(Shown):
    """Limits of the gain that partitions have on the population, not on the sample.

    Parameters
    ----------
    lower, upper : float
        With probability at least 1 - delta the gain lies between them.
    estimate : float
        The gain on the sample without the bias of small cells; NaN where it cannot be had.
    kind : {"variance", "entropy"}
        Of what; the entropy in nats.
    delta : float
        Probability with which the limits may fail.
    n_rows : int
        Rows of the sample.
    most : float
        A gain that is never exceeded: a quarter of the squared range, or the log of the number of
        classes.
    assumptions : tuple of Assumption
        What the limits rest on.
    note : str
        Why the limits say little, where they do.
    """

    lower: float
    upper: float
    estimate: float
    kind: str
    delta: float
    n_rows: int
    most: float
    assumptions: tuple[Assumption, ...] = ()
    note: str = ""

    @property
    def is_guarantee(self) -> bool:
        """Whether no condition is known to fail."""
        return all(assumption.holds is not False for assumption in self.assumptions)

    @property
    def is_trivial(self) -> bool:
        """Whether the limits say nothing that is not always so."""
        return self.lower <= 0 and self.upper >= self.most


def variance_gain_limits(
    gain: float,
    n_cells: float,
    n_rows: int,
    width: float,
    delta: float = 0.05,
    *,
    most_cells: float | None = None,
) -> tuple[float, float]:
    r"""Limits of the variance gain of a fixed partition, for a target in a range of known width.

    With :math:`t = \log(4/\delta)` and :math:`a = W \sqrt{8 t / (3 n)}`,

    .. math::
        \hat G - a \sqrt G - \tfrac{W^2 t}{3 n} - \tfrac{W^2}{2 n} \Gamma_{k/2}(t)
        \le G \le \hat G + a \sqrt G + \tfrac{W^2 t}{3 n} + \tfrac{W^2 (t + \log 2)}{2 n}

    where :math:`\Gamma_s(t)` is not exceeded by a Gamma variable of shape s but with probability
    :math:`e^{-t}`; solved for G.

    Parameters
    ----------
    gain : float
        Plug-in gain; of several partitions its mean.
    n_cells : float
        k, cells that rows reach; their mean.
    n_rows : int
        n independent rows.
    width : float
        W, the length of a range that holds Y.
    delta : float
        Probability with which the limits may fail.
    most_cells : float, optional
        For several partitions a number near k that does not depend on the sample.

    Returns
    -------
    lower, upper : float
        Between 0 and :math:`W^2 / 4`.

    Examples
    --------
    >>> from kpp.bounds import variance_gain_limits
    >>> [round(limit, 3) for limit in variance_gain_limits(0.1, 10, 2000, 1.0)]
    [0.075, 0.13]
    """
    t = np.log(4 / delta)
    slack = width**2 * t / (3 * n_rows)
    a = width * np.sqrt(8 * t / (3 * n_rows))
    below = slack + width**2 / (2 * n_rows) * gamma_tail(
        n_cells / 2, t, (n_cells if most_cells is None else most_cells) / 2
    )
    above = slack + width**2 * (t + np.log(2)) / (2 * n_rows)
    return _solve(gain - below, gain + above, a, width**2 / 4)


def entropy_gain_limits(
    gain: float,
    n_cells: float,
    class_counts: AnyArray,
    delta: float = 0.05,
    *,
    most_cells: float | None = None,
) -> tuple[float, float]:
    r"""Limits of the entropy gain, in nats, of a fixed partition for K classes.

    With :math:`t = \log(5/\delta)`, :math:`V = \log(1/\pi)` for a lower limit :math:`\pi` of the
    probability of every class, and :math:`a = \sqrt{2 (V + 2) t / n}`,

    .. math::
        \hat I - a \sqrt I - \tfrac{V t}{3 n} - \tfrac1n \Gamma_{k (K - 1)}(t)
        \le I \le \hat I + a \sqrt I + \tfrac{t}{n} + \tfrac1n \Gamma_{K - 1}(t)

    solved for I; :math:`\Gamma_s(t)` as in `variance_gain_limits`.

    Parameters
    ----------
    gain : float
        Plug-in gain in nats; of several partitions its mean.
    n_cells : float
        k, cells that rows reach; their mean.
    class_counts : int array of shape (K,)
        Rows of each class.
    delta : float
        Probability with which the limits may fail.
    most_cells : float, optional
        For several partitions a number near k that does not depend on the sample.

    Returns
    -------
    lower, upper : float
        Between 0 and log K; trivial where a class has no rows.

    Examples
    --------
    >>> from kpp.bounds import entropy_gain_limits
    >>> [round(limit, 3) for limit in entropy_gain_limits(0.3, 10, [1000, 1000])]
    [0.233, 0.375]
    """
    counts = np.asarray(class_counts, dtype=np.float64)
    n, K = counts.sum(), len(counts)
    if K < 2:
        return 0.0, 0.0
    if (counts == 0).any():
        return 0.0, float(np.log(K))
    t = np.log(5 / delta)
    # Clopper and Pearson's lower limit of each class, all at once with a fifth of delta.
    rarest = float(beta.ppf(delta / (5 * K), counts, n - counts + 1).min())
    V = -np.log(rarest)
    a = np.sqrt(2 * (V + 2) * t / n)
    shape = n_cells * (K - 1)
    fixed = shape if most_cells is None else most_cells * (K - 1)
    below = V * t / (3 * n) + gamma_tail(shape, t, fixed) / n
    above = t / n + gamma_tail(K - 1, t) / n
    return _solve(gain - below, gain + above, a, float(np.log(K)))


def gamma_tail(shape: float, t: float, fixed: float | None = None) -> float:
    r"""What a variable with the moments of a Gamma one exceeds with probability at most exp(-t).

    From :math:`E e^{\lambda Z} \le (1 - \lambda)^{-s}` it is
    :math:`(t - s \log(1 - \lambda)) / \lambda`, for one lambda that was chosen before: the one
    that is about best for the shape `fixed`.
    """
    u = np.sqrt(2 * t / (shape if fixed is None else fixed))
    return float((t + shape * np.log1p(u)) * (1 + u) / u)


def _solve(low: float, high: float, a: float, most: float) -> tuple[float, float]:
    """The G with low - a sqrt(G) <= G <= high + a sqrt(G), cut to what a gain can be."""
    root = 0.0 if low <= 0 else (np.sqrt(a**2 + 4 * low) - a) / 2
    upper = ((a + np.sqrt(a**2 + 4 * max(high, 0.0))) / 2) ** 2
    return float(min(root**2, most)), float(min(upper, most))


def gain_interval(
    samples: Sequence[GainSample],
    kind: str,
    delta: float,
    width: float,
    assumptions: tuple[Assumption, ...],
) -> GainInterval:
    """Average the limits of several samples, which share delta, by their numbers of partitions."""
    share = np.array([sample.n_partitions for sample in samples], dtype=np.float64)
    share /= share.sum()
    limits = []
    for sample in samples:
        own = delta / len(samples)
        if sample.class_counts is not None:
            limits.append(
                entropy_gain_limits(
                    sample.gain,
                    sample.n_cells,
                    sample.class_counts,
                    own,
                    most_cells=sample.most_cells,
                )
            )
        else:
            limits.append(
                variance_gain_limits(
                    sample.gain,
                    sample.n_cells,
                    sample.n_rows,
                    width,
                    own,
                    most_cells=sample.most_cells,
                )
            )
    lower, upper = share @ np.array(limits)
    counts = samples[0].class_counts
    most = width**2 / 4 if counts is None else float(np.log(len(counts)))
    n_rows = sum(sample.n_rows for sample in samples)
    n_cells = float(share @ [sample.n_cells for sample in samples])
    note = ""
    if lower <= 0:
        per_cell = n_rows / len(samples) / n_cells
        note = (
            f"The lower limit is 0: with {n_cells:.0f} cells for {n_rows / len(samples):.0f} rows, "
            f"{per_cell:.1f} a cell, chance could make this gain. Fewer leaves or more rows help."
        )
    if counts is not None and any((sample.class_counts == 0).any() for sample in samples):  # type: ignore[union-attr]
        note = "A class has no rows in the sample, and nothing can be said of it."
    return GainInterval(
        lower=float(lower),
        upper=float(upper),
        estimate=float(share @ [sample.corrected for sample in samples]),
        kind=kind,
        delta=delta,
        n_rows=n_rows,
        most=most,
        assumptions=assumptions,
        note=note,
    )
