"""Rows ranked by a score: precision and recall, thresholds and their costs, cumulative gains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kpp._decimals import shortest_above
from kpp._typing import AnyArray, FloatArray, OffsetArray

MOST_STEPS = 200
# Significant digits of a threshold.
DIGITS = 6


def ranked(
    positive: AnyArray, score: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights of the rows at or above every distinct score, the highest first.

    Parameters
    ----------
    positive : bool array of shape (n_rows,)
        Rows of the class that is looked for.
    score, weight : arrays of shape (n_rows,)
        What ranks the rows, and what they count.

    Returns
    -------
    scores, true, false : arrays of shape (n_scores,)
        Distinct scores, falling; the weight of rows of the class and of the others that have at
        least this score.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.ranking import ranked
    >>> scores, true, false = ranked(np.array([True, False]), np.array([0.2, 0.9]), np.ones(2))
    >>> scores.tolist(), true.tolist(), false.tolist()
    ([0.9, 0.2], [0.0, 1.0], [1.0, 1.0])
    """
    order = np.argsort(-score, kind="stable")
    ordered = score[order]
    last = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)
    true = np.cumsum((weight * positive)[order])[last]
    false = np.cumsum((weight * ~positive)[order])[last]
    return ordered[last], true, false


def average_precision(positive: AnyArray, score: FloatArray, weight: FloatArray) -> float:
    r"""Area under the steps of the precision-recall curve, as scikit-learn defines it.

    .. math:: \sum_k (R_k - R_{k-1})\, P_k

    over the distinct scores, the highest first, with recall R and precision P of the rows that have
    at least this score. A constant has the share of the class.

    Parameters
    ----------
    positive : bool array of shape (n_rows,)
        Rows of the class that is looked for.
    score, weight : arrays of shape (n_rows,)
        What ranks the rows, and what they count.

    Returns
    -------
    area : float
        NaN where no row of any weight is of the class.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.ranking import average_precision
    >>> rows = np.array([False, False, True, True])
    >>> round(average_precision(rows, np.array([0.1, 0.4, 0.35, 0.8]), np.ones(4)), 4)
    0.8333
    """
    precision, recall = precision_recall(positive, score, weight)
    return float(np.sum(np.diff(recall, prepend=0.0) * precision)) if len(recall) else np.nan


def precision_recall(
    positive: AnyArray, score: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Precision and recall at every distinct score, the highest first; empty without the class.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.ranking import precision_recall
    >>> found = precision_recall(np.array([True, False]), np.array([0.2, 0.9]), np.ones(2))
    >>> [part.tolist() for part in found]
    [[0.0, 0.5], [0.0, 1.0]]
    """
    _, true, false = ranked(positive, score, weight)
    if true[-1] == 0:
        return np.empty(0), np.empty(0)
    counted = np.diff(true + false, prepend=0.0) > 0  # rows of no weight are no step
    return true[counted] / (true + false)[counted], true[counted] / true[-1]


@dataclass(frozen=True, eq=False)
class ThresholdTable:
    """What becomes of rows if those of at least some probability are taken for a class.

    Parameters
    ----------
    threshold : array of shape (n_steps,)
        Rising. Short decimals, so that what is shown is what was counted.
    true_positive, false_positive : arrays of shape (n_steps,)
        Weight of the rows of the class, and of the others, with a probability of at least the
        threshold; exact.
    n_positive, n_negative : float
        Weight of all rows of the class, and of all others.
    """

    threshold: FloatArray
    true_positive: FloatArray
    false_positive: FloatArray
    n_positive: float
    n_negative: float

    def cost(self, of_false_positive: float, of_false_negative: float) -> FloatArray:
        """Total cost at each threshold.

        Parameters
        ----------
        of_false_positive, of_false_negative : float
            Cost of a row of another class that is taken for the class, and of one that is missed.

        Returns
        -------
        cost : array of shape (n_steps,)
        """
        missed = self.n_positive - self.true_positive
        return of_false_positive * self.false_positive + of_false_negative * missed

    def best(self, of_false_positive: float, of_false_negative: float) -> int:
        """Number of the threshold of the least cost; of equal ones that nearest to one half."""
        cost = self.cost(of_false_positive, of_false_negative)
        least = np.flatnonzero(cost == cost.min())
        return int(least[np.abs(self.threshold[least] - 0.5).argmin()])


def threshold_table(
    positive: AnyArray, score: FloatArray, weight: FloatArray, most: int = MOST_STEPS
) -> ThresholdTable:
    """Count what thresholds do, at as many of them as tell something, and at most so many.

    Parameters
    ----------
    positive : bool array of shape (n_rows,)
        Rows of the class.
    score, weight : arrays of shape (n_rows,)
        Its probability in each row, and what the row counts.
    most : int
        Most thresholds. Where there are more distinct probabilities, half of the thresholds have
        equally many rows between them, and half equally many rows of the class.

    Returns
    -------
    table : ThresholdTable
        Among its thresholds are 0, which takes all rows, and 0.5.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.ranking import threshold_table
    >>> rows, score = np.array([False, True, True]), np.array([0.12, 0.34, 0.87])
    >>> table = threshold_table(rows, score, np.ones(3))
    >>> table.threshold.tolist(), table.true_positive.tolist()
    ([0.0, 0.3, 0.5, 0.8, 1.0], [2.0, 2.0, 1.0, 1.0, 0.0])
    """
    scores, true, false = (found[::-1] for found in ranked(positive, score, weight))
    ends = [0.0, 0.5] if scores[-1] >= 1 else [0.0, 0.5, 1.0]
    steps = np.arange(1, len(scores))
    if len(steps) > most - len(ends):
        half = (most - len(ends)) // 2
        rows = np.append(-np.diff(true + false), (true + false)[-1])
        own = np.append(-np.diff(true), true[-1])
        steps = np.unique(np.concatenate([_even(part, half) for part in (rows, own)]))
    found = [shortest_above(float(scores[k - 1]), float(scores[k])) for k in steps.tolist()]
    # Counted is what can be written, also where two probabilities agree in more digits.
    threshold = np.unique([float(f"{t:.{DIGITS}g}") for t in found + ends])
    place = np.searchsorted(scores, threshold, side="left")
    return ThresholdTable(
        threshold,
        np.append(true, 0.0)[place],
        np.append(false, 0.0)[place],
        float(true[0]),
        float(false[0]),
    )


def _even(weight: FloatArray, n_steps: int) -> OffsetArray:
    """Places, from 1 on, with about equal weight between them."""
    total = np.cumsum(weight)
    wanted = total[-1] * np.arange(1, n_steps + 1) / (n_steps + 1)
    return np.clip(np.searchsorted(total, wanted), 1, len(weight) - 1)


def gain_curve(
    positive: AnyArray, score: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Share of the class that is found in a share of the rows, those of the highest scores first.

    Parameters
    ----------
    positive : bool array of shape (n_rows,)
        Rows of the class.
    score, weight : arrays of shape (n_rows,)
        What ranks the rows, and what they count.

    Returns
    -------
    taken, found : arrays of shape (n_scores + 1,)
        Both from 0 to 1; empty where no row is of the class.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.ranking import gain_curve
    >>> taken, found = gain_curve(np.array([True, False]), np.array([0.9, 0.2]), np.ones(2))
    >>> taken.tolist(), found.tolist()
    ([0.0, 0.5, 1.0], [0.0, 1.0, 1.0])
    """
    _, true, false = ranked(positive, score, weight)
    if true[-1] == 0:
        return np.empty(0), np.empty(0)
    taken = np.append(0.0, true + false)
    return taken / taken[-1], np.append(0.0, true) / true[-1]


def class_scores(
    codes: AnyArray, prediction: AnyArray, weight: FloatArray, n_classes: int
) -> list[dict[str, float]]:
    r"""Precision, recall and F1 of every class against the others, by the predicted class.

    .. math::
        P = \frac{TP}{TP + FP}, \qquad R = \frac{TP}{TP + FN}, \qquad F_1 = \frac{2 P R}{P + R}

    Parameters
    ----------
    codes, prediction : int arrays of shape (n_rows,)
        Classes and predicted classes as 0, ..., n_classes - 1.
    weight : array of shape (n_rows,)
        What the rows count.
    n_classes : int
        How many there are, also where some are in no row.

    Returns
    -------
    scores : list of dict
        For each class: "precision", NaN where it is never predicted;
        "recall", NaN where there is none; "f1", NaN where both are missing; and "weight", that of
        its rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.ranking import class_scores
    >>> found = class_scores(np.array([0, 1, 1]), np.array([0, 0, 1]), np.ones(3), 2)
    >>> [(one["precision"], one["recall"]) for one in found]
    [(0.5, 1.0), (1.0, 0.5)]
    """
    right = np.bincount(codes, weight * (codes == prediction), minlength=n_classes)
    there = np.bincount(codes, weight, minlength=n_classes)
    said = np.bincount(prediction, weight, minlength=n_classes)
    with np.errstate(invalid="ignore"):  # 0 / 0 is what is not defined
        table = zip(right / said, right / there, 2 * right / (said + there), there, strict=True)
    names = ("precision", "recall", "f1", "weight")
    return [dict(zip(names, map(float, line), strict=True)) for line in table]
