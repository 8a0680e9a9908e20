r"""From mean losses on folds that were left out to a bound of the mean risk of their predictors.

The setting (theorem 5 of docs/bounds.md): for each of Q folds and each of N candidates a predictor
that has not seen the fold. A row loses between 0 and 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import FloatArray
from kpp.bounds.kl import kl_inverse
from kpp.bounds.results import check_delta


def folds_kl(
    mean_losses: Any, fold_sizes: Any, *, n_candidates: int = 1, delta: float = 0.05
) -> float:
    r"""Bound the mean risk of the predictors of folds, each of which has not seen its fold.

    .. math::
        \frac1Q \sum_q R_q \le
        \frac1Q \sum_q \mathrm{kl}^{-1}\Bigl(\hat R_q, \frac{\log(QN/\delta)}{n_q}\Bigr)
        \quad\text{where } Q \le M, \text{ otherwise}\quad
        \mathrm{kl}^{-1}\Bigl(\frac1Q \sum_q \hat R_q, \frac{\log(M N / \delta)}{H}\Bigr),

    .. math:: H = \frac{Q}{\sum_q 1/n_q}, \qquad M = \frac{H}{Q} \sum_q \frac{2}{\sqrt{n_q}}

    for the candidate that was chosen among N, with probability at least 1 - delta. In folds of one
    size n, H is n and M is :math:`2 \sqrt n`, and where :math:`Q \le M` the first is never the
    larger one. Which of the two is taken follows from the sizes of the folds, so that nothing is
    paid for the choice.

    Parameters
    ----------
    mean_losses : array of shape (n_folds,)
        :math:`\hat R_q`: mean loss of a row of each fold, in [0, 1], by the predictor that has not
        seen it.
    fold_sizes : int array of shape (n_folds,)
        :math:`n_q`.
    n_candidates : int
        N: how many were there to choose from, all known before any label of these rows.
    delta : float
        Probability with which the bound may fail.

    Returns
    -------
    bound : float

    References
    ----------
    Theorem 5 of docs/bounds.md. Maurer 2004, A note on the PAC-Bayesian theorem, for
    :math:`E \exp(n\, \mathrm{kl}(\hat R \,\|\, R)) \le 2 \sqrt n`.

    Examples
    --------
    >>> from kpp.bounds import folds_kl
    >>> round(folds_kl([0.1, 0.1], [1000, 1000]), 4), round(folds_kl([0.1, 0.1], [10, 10]), 4)
    (0.1277, 0.5005)
    """
    means, sizes = _checked(mean_losses, fold_sizes)
    if not isinstance(n_candidates, int | np.integer) or n_candidates < 1:
        raise ValueError(f"n_candidates counts what was chosen among; got {n_candidates!r}.")
    n_folds, price = len(sizes), np.log(float(n_candidates)) - np.log(check_delta(delta))
    harmonic, moment = _at_once(sizes)
    if n_folds <= moment:
        return float(kl_inverse(means, (np.log(n_folds) + price) / sizes).mean())
    return float(kl_inverse(means.mean(), (np.log(moment) + price) / harmonic))


def _at_once(sizes: FloatArray) -> tuple[float, float]:
    """H and M: the rows that the mean over folds is worth, and what the moment is at most."""
    harmonic = float(len(sizes) / np.sum(1 / sizes))
    return harmonic, float(harmonic * np.mean(2 / np.sqrt(sizes)))


def _checked(mean_losses: Any, fold_sizes: Any) -> tuple[FloatArray, FloatArray]:
    means = np.asarray(mean_losses, dtype=np.float64)
    sizes = np.asarray(fold_sizes, dtype=np.float64)
    right = means.ndim == 1 and means.shape == sizes.shape and len(means) > 0
    if not right or not (sizes >= 1).all():
        raise ValueError("folds_kl needs a mean loss and at least one row for each fold.")
    if not ((means >= 0) & (means <= 1)).all():
        raise ValueError("folds_kl needs mean losses in [0, 1].")
    return means, sizes
