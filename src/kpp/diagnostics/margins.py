r"""The tail of score margins near zero: how fast P(|margin| <= t) falls, with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2, norm

from kpp._checks import RefusedError
from kpp._shown import Shown
from kpp._typing import FloatArray
from kpp.bounds.predictors import class_margins, with_both_scores
from kpp.bounds.samples import encode_target
from kpp.models.asking import ask

# Fewer margins than this have no tail to speak of.
FEWEST = 10
Interval = tuple[float, float]
NONE: Interval = (np.nan, np.nan)


@dataclass(frozen=True, eq=False)
class MarginTail(Shown):
    r"""A power law :math:`P(|m| \le t) \approx C t^\kappa` of small margins.

    Parameters
    ----------
    exponent : float
        :math:`\hat\kappa`, Hill's estimate; NaN where there is none.
    exponent_interval : tuple of float
        Its limits at 1 - delta.
    constant : float
        :math:`\hat C`, in units of the score.
    constant_interval : tuple of float
        Its limits at 1 - delta.
    threshold : float
        The margin below which the law was fitted.
    n_tail : int
        Margins below it.
    n_rows : int
        All margins.
    delta : float
        Probability with which each interval may fail, if the law holds below the threshold.
    reason : str
        Why there is no estimate; empty otherwise.
    """

    exponent: float
    exponent_interval: Interval
    constant: float
    constant_interval: Interval
    threshold: float
    n_tail: int
    n_rows: int
    delta: float
    reason: str = ""

    def probability(self, t: Any) -> FloatArray:
        r"""Return :math:`\hat C t^{\hat\kappa}`, the fitted share of margins up to t.

        Parameters
        ----------
        t : array-like
            Margins, at most the threshold.

        Returns
        -------
        share : array of the shape of t
        """
        return self.constant * np.power(np.asarray(t, dtype=np.float64), self.exponent)


def margin_tail(
    model: Any, X: Any, y: Any = None, *, share: float = 0.1, delta: float = 0.05
) -> MarginTail:
    r"""Estimate the tail of the score margins near zero.

    .. math::
        P(|m| \le t) \approx C t^\kappa, \qquad
        \hat\kappa = \Bigl( \frac1{k-1} \sum_{i \le k} \log \frac{m_{(k+1)}}{m_{(i)}} \Bigr)^{-1},
        \qquad \hat C = \frac{k}{n} m_{(k+1)}^{-\hat\kappa}

    with :math:`m_{(1)} \le m_{(2)} \le \dots` the absolute margins. It is what the paper's direct
    score-margin assumption speaks of, whose constants it does not give.

    Parameters
    ----------
    model : KPPClassifier or Pipeline that ends in one
        Fitted.
    X : array-like or data frame of shape (n_rows, n_features)
        Rows that fit has not used: those of the fit are pushed away from zero.
    y : array-like of shape (n_rows,), optional
        Labels. Without them a margin is that of the predicted class over the next; with them, of
        the row's own class over the best other. For two classes the sizes are the same.
    share : float
        Share of the margins, the smallest, that the law is fitted to. Less of them have less bias
        where the law holds only in the limit, and wider intervals.
    delta : float
        Probability with which each interval may fail.

    Returns
    -------
    tail : MarginTail

    Notes
    -----
    Where the law holds below the threshold, the logarithms are exponential, and the interval of
    the exponent, from the chi-squared distribution, is exact; that of C is its normal
    approximation. They do not cover a law that bends. An exponent near 1 says that the score has
    a density at zero; above 1, that margins avoid zero; near 0, that they pile up there. It is an
    estimate of a condition under which fast rates are conjectured, and gives none itself.

    References
    ----------
    Assumption direct-score-margin. B. M. Hill (1975), A simple general approach to inference about
    the tail of a distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_classification
    >>> from kpp import KPPClassifier
    >>> from kpp.diagnostics import margin_tail
    >>> X, y = make_classification(3000, n_features=6, flip_y=0.2, random_state=0)
    >>> model = KPPClassifier("extra-trees", n_estimators=20, alpha=1e-2, random_state=0)
    >>> model = model.fit(X[:1000], y[:1000])
    >>> tail = margin_tail(model, X[1000:])
    >>> tail.n_tail, bool(0.8 < tail.exponent < 1.25)
    (200, True)
    """
    question = ask(model)
    if not question.is_classifier:
        raise RefusedError("margin_tail is about the scores of classes; this is a regressor.")
    rows = question.rows(X)
    scores = rows.scores
    if y is None:
        full = np.sort(with_both_scores(scores), axis=1)
        margins = full[:, -1] - full[:, -2]
    else:
        codes = encode_target(question, y, len(rows))
        margins = np.abs(class_margins(scores, codes).min(axis=1))
    return tail_of(margins, share=share, delta=delta)


def tail_of(margins: Any, *, share: float = 0.1, delta: float = 0.05) -> MarginTail:
    """Fit the power law to margins: see `margin_tail`.

    Parameters
    ----------
    margins : array-like of shape (n_rows,)
        Their sizes count.
    share : float
        Share of them, the smallest, that is used.
    delta : float
        Probability with which each interval may fail.

    Returns
    -------
    tail : MarginTail

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.margins import tail_of
    >>> tail = tail_of(np.random.default_rng(0).random(10_000) ** 0.5)
    >>> bool(1.8 < tail.exponent < 2.2), bool(0.8 < tail.constant < 1.25)
    (True, True)
    """
    if not 0 < share < 1:
        raise ValueError(f"share is strictly between 0 and 1; got {share!r}.")
    if not 0 < delta < 1:
        raise ValueError(f"delta is a probability, strictly between 0 and 1; got {delta!r}.")
    size = np.sort(np.abs(np.asarray(margins, dtype=np.float64).ravel()))
    n = len(size)
    k = min(int(share * n), n - 1)
    n_zero = int(np.count_nonzero(size == 0))
    reason = ""
    if k < FEWEST:
        reason = f"{n} margins have fewer than {FEWEST} in a share of {share:g}: take more rows."
    elif n_zero:
        reason = (
            f"{n_zero} of {n} margins are exactly 0: the distribution has an atom there, and no "
            "power law."
        )
    elif size[0] == size[k]:
        reason = f"The {k + 1} smallest margins are equal: there is no law to fit."
    if reason:
        threshold = float(size[k]) if k >= 0 and n else np.nan
        return MarginTail(np.nan, NONE, np.nan, NONE, threshold, max(k, 0), n, delta, reason)
    threshold = float(size[k])
    # Given the threshold these are k exponential variables of rate kappa, if the law holds.
    total = float(np.log(threshold / size[:k]).sum())
    kappa = (k - 1) / total
    low, high = chi2.ppf([delta / 2, 1 - delta / 2], 2 * k) / (2 * total)
    # log C = log P(|m| <= u) - kappa log u: a binomial share, and kappa, nearly independent.
    constant = k / n * threshold**-kappa
    error = np.sqrt((1 - k / n) / k + (kappa * np.log(threshold)) ** 2 / k)
    factor = float(np.exp(norm.ppf(1 - delta / 2) * error))
    return MarginTail(
        exponent=float(kappa),
        exponent_interval=(float(low), float(high)),
        constant=float(constant),
        constant_interval=(float(constant / factor), float(constant * factor)),
        threshold=threshold,
        n_tail=k,
        n_rows=n,
        delta=delta,
    )
