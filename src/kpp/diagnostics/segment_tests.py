"""Whether the mean loss of a segment is larger than that of the other rows: tests and intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from kpp._typing import AnyArray, FloatArray
from kpp.diagnostics.intervals import CONFIDENCE


@dataclass(frozen=True, eq=False)
class SegmentStatistics:
    """Figures of the parts of a cut; one entry a part, NaN where it is empty.

    Parameters
    ----------
    n_rows : int array of shape (n_parts,)
        Rows of any weight.
    mean, low, high : arrays of shape (n_parts,)
        Weighted mean loss, and its 95% interval.
    rest : array of shape (n_parts,)
        Weighted mean loss of all other rows.
    difference, difference_low, difference_high : arrays of shape (n_parts,)
        ``mean - rest`` and its 95% interval.
    p_value : array of shape (n_parts,)
        Of the hypothesis that the loss is no larger there; one-sided.
    """

    n_rows: AnyArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    rest: FloatArray
    difference: FloatArray
    difference_low: FloatArray
    difference_high: FloatArray
    p_value: FloatArray


def segment_statistics(
    codes: AnyArray,
    n_parts: int,
    loss: FloatArray,
    weight: FloatArray,
    groups: AnyArray | None = None,
) -> SegmentStatistics:
    r"""Compare the loss of each part of a cut with that of all other rows.

    With :math:`a_i = w_i / W_s` inside a segment and :math:`-w_i / W_r` in the rest, the
    difference of the mean losses is :math:`D = \sum_i a_i L_i`. Two p-values are computed, and
    the larger counts. One is that of the permutation test: under exchangeable losses

    .. math::
        \mathrm{Var}\, D = \frac{\sum a_i^2 \sum \tilde L_i^2}{n - 1}, \qquad
        E D^3 = \frac{n \sum a_i^3 \sum \tilde L_i^3}{(n - 1)(n - 2)},

    exactly, with centred losses; its tail is that of Pearson's type III with these moments, since
    losses are skewed and the normal law would call too many small segments worse. The other is
    Welch's, which allows the spread of the loss to differ. Rows of a group are not exchangeable:
    there the variance is that of sums over groups, with as many degrees of freedom as the side with
    fewer groups has, less one.

    Parameters
    ----------
    codes : int array of shape (n_rows,)
        Part of each row; -1 for none of them.
    n_parts : int
        Number of parts.
    loss, weight : arrays of shape (n_rows,)
        Loss of each row, and what it counts.
    groups : int array of shape (n_rows,), optional
        Numbers of the groups of the rows.

    Returns
    -------
    statistics : SegmentStatistics

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.segment_tests import segment_statistics
    >>> loss = np.array([1.0, 3.0, 2.0, 0.0, 1.0, 2.0])
    >>> found = segment_statistics(np.array([0, 0, 0, 1, 1, 1]), 2, loss, np.ones(6))
    >>> found.mean.tolist(), found.difference.tolist()
    ([2.0, 1.0], [1.0, -1.0])
    """
    kept = weight > 0
    codes, loss, weight = codes[kept], loss[kept], weight[kept]
    # Around the mean nothing cancels, and an infinite loss stays one.
    centre = float(np.average(loss, weights=weight))
    rest_of = loss - centre
    inside = np.where(codes < 0, n_parts, codes)

    def sums(values: FloatArray) -> FloatArray:
        found: AnyArray = np.bincount(inside, values, minlength=n_parts + 1)
        return found

    n_rows = np.bincount(inside, minlength=n_parts + 1)[:n_parts]
    parts = [sums(weight**k * rest_of**j) for k, j in _POWERS]
    own = {power: part[:n_parts] for power, part in zip(_POWERS, parts, strict=True)}
    other = {power: part.sum() - part[:n_parts] for power, part in zip(_POWERS, parts, strict=True)}
    with np.errstate(all="ignore"):  # empty parts, and parts that are everything
        mean, rest = own[1, 1] / own[1, 0], other[1, 1] / other[1, 0]
        difference = mean - rest
        own_square, own_size = _variance(own, mean)
        rest_square, rest_size = _variance(other, rest)
        if groups is None:
            freedom = (own_square + rest_square) ** 2 / (
                own_square**2 / (own_size - 1) + rest_square**2 / (rest_size - 1)
            )
            error, own_error = np.sqrt(own_square + rest_square), np.sqrt(own_square)
            own_freedom = own_size - 1
            p_value = np.fmax(
                special.stdtr(freedom, -difference / error),
                _permutation(own, other, difference, rest_of),
            )
        else:
            numbers = np.unique(groups[kept], return_inverse=True)[1].ravel()
            error, own_error, freedom, own_freedom = _by_group(
                inside, n_parts, numbers, rest_of, weight, mean, rest
            )
            p_value = special.stdtr(freedom, -difference / error)
        # Losses that are all alike on both sides leave nothing to doubt.
        p_value = np.where((error == 0) & (difference <= 0), 1.0, p_value)
        tail = (1 + CONFIDENCE) / 2
        reach = special.stdtrit(freedom, tail) * error
        own_reach = special.stdtrit(own_freedom, tail) * own_error
    return SegmentStatistics(
        n_rows,
        centre + mean,
        centre + mean - own_reach,
        centre + mean + own_reach,
        centre + rest,
        difference,
        difference - reach,
        difference + reach,
        p_value,
    )


# Powers of the weight and of the loss that are summed over the rows of each part.
_POWERS = ((0, 0), (1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (2, 2))


def _variance(
    sums: dict[tuple[int, int], FloatArray], mean: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Variance of a weighted mean, and the number of rows that count."""
    size = sums[1, 0] ** 2 / sums[2, 0]
    squares = sums[2, 2] - 2 * mean * sums[2, 1] + mean**2 * sums[2, 0]
    return np.maximum(squares, 0.0) / sums[1, 0] ** 2 * size / (size - 1), size


def _permutation(
    own: dict[tuple[int, int], FloatArray],
    other: dict[tuple[int, int], FloatArray],
    difference: FloatArray,
    losses: FloatArray,
) -> FloatArray:
    """One-sided p-values under losses that were dealt out to the rows at random."""
    n = len(losses)
    if n < 4:
        return np.ones(len(difference))
    centred = losses - losses.mean()
    square = own[2, 0] / own[1, 0] ** 2 + other[2, 0] / other[1, 0] ** 2
    cube = own[3, 0] / own[1, 0] ** 3 - other[3, 0] / other[1, 0] ** 3
    variance = square * float(np.square(centred).sum()) / (n - 1)
    third = n * cube * float((centred**3).sum()) / ((n - 1) * (n - 2))
    return pearson_tail(difference / np.sqrt(variance), third / variance**1.5)


def pearson_tail(z: FloatArray, skewness: FloatArray) -> FloatArray:
    r"""Return the upper tail of Pearson's type III law of mean 0, variance 1 and given skewness.

    With skewness g it is that of :math:`(G - k) g / 2`, G of the gamma law of shape
    :math:`k = 4 / g^2`.

    Parameters
    ----------
    z, skewness : arrays of one shape
        Places, and skewnesses.

    Returns
    -------
    tail : array of the same shape

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.segment_tests import pearson_tail
    >>> pearson_tail(np.array([2.0, 2.0]), np.array([0.0, 1.0])).round(4).tolist()
    [0.0228, 0.0424]
    """
    is_normal = np.abs(skewness) < 1e-4
    g = np.where(is_normal, 1.0, skewness)
    shape = 4 / g**2
    place = np.maximum(shape + 2 * z / g, 0.0)
    tail = np.where(g > 0, special.gammaincc(shape, place), special.gammainc(shape, place))
    return np.where(is_normal, special.ndtr(-z), tail)


def _by_group(
    inside: AnyArray,
    n_parts: int,
    groups: AnyArray,
    losses: FloatArray,
    weight: FloatArray,
    mean: FloatArray,
    rest: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Standard errors of differences and means by sums over groups, and degrees of freedom."""
    n_groups = int(groups.max()) + 1
    error, own_error = np.full(n_parts, np.nan), np.full(n_parts, np.nan)
    freedom, own_freedom = np.full(n_parts, np.nan), np.full(n_parts, np.nan)
    for part in range(n_parts):
        here = inside == part
        if not 0 < here.sum() < len(here):
            continue
        share = np.where(here, weight / weight[here].sum(), -weight / weight[~here].sum())
        lost = np.bincount(groups, share * (losses - np.where(here, mean[part], rest[part])))
        own = np.bincount(groups[here], (share * (losses - mean[part]))[here], minlength=n_groups)
        n_own, n_rest = len(np.unique(groups[here])), len(np.unique(groups[~here]))
        fewer = min(n_own, n_rest)
        own_error[part] = np.sqrt(np.square(own).sum() * n_own / (n_own - 1))
        error[part] = np.sqrt(np.square(lost).sum() * fewer / (fewer - 1))
        freedom[part], own_freedom[part] = fewer - 1, n_own - 1
    return error, own_error, freedom, own_freedom


def holm(p_values: FloatArray) -> FloatArray:
    r"""Adjust p-values for their number, by Holm's method.

    .. math:: \tilde p_{(k)} = \max_{j \le k} \min\bigl(1, (m - j + 1)\, p_{(j)}\bigr)

    With all those at most 0.05 called, the probability of one false call or more is at most 0.05,
    however the tests depend on each other.

    Parameters
    ----------
    p_values : array of shape (m,)
        NaN for what was not tested, which does not count.

    Returns
    -------
    adjusted : array of shape (m,)

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.segment_tests import holm
    >>> holm(np.array([0.04, 0.01, np.nan, 0.03])).tolist()
    [0.06, 0.03, nan, 0.06]
    """
    adjusted = np.full(len(p_values), np.nan)
    tested = np.flatnonzero(np.isfinite(p_values))
    order = tested[np.argsort(p_values[tested], kind="stable")]
    left = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(left * p_values[order]))
    return adjusted
