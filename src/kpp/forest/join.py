"""Forests that compare in different precisions, as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kpp._typing import FloatArray
from kpp.forest.arrays import Forest
from kpp.forest.bare import BareScores
from kpp.forest.layout import NUMERICAL
from kpp.forest.others import other_of


def join_forests(forests: Sequence[Forest]) -> Forest:
    """Put the trees of several forests into one, in order; in float64 where they differ."""
    if len(forests) == 1:
        return forests[0]
    if len({forest.dtype for forest in forests}) > 1:
        forests = [as_float64(forest) for forest in forests]
    # Statistics of different targets, such as classes and numbers, do not go together, nor do
    # the predictions of different ensembles.
    joined = Forest.concatenate([replace(f, statistics=None, bare=None) for f in forests])
    return replace(joined, allows_infinity=all(forest.allows_infinity for forest in forests))


def forest_of_targets(forests: Sequence[Forest]) -> Forest:
    """Put boosters of several targets, one each, into one forest of all of them.

    Parameters
    ----------
    forests : sequence of Forest
        One for each target, each with one score of its own.

    Returns
    -------
    forest : Forest
        Its bare scores are those of all targets: every tree adds to one of them.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> from kpp import Forest
    >>> from kpp.forest.join import forest_of_targets
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> boosters = [GradientBoostingRegressor(n_estimators=5).fit(X, y) for y in Y.T]
    >>> forest = forest_of_targets([Forest.from_model(booster) for booster in boosters])
    >>> forest.n_trees, forest.bare_scores(X).shape
    (15, (20, 3))
    >>> bool(abs(forest.bare_scores(X)[:, 1] - boosters[1].predict(X)).max() < 1e-9)
    True
    """
    known = [forest.bare for forest in forests if forest.bare is not None]
    values = [bare.values for bare in known if bare.values is not None]
    n_trees = [forest.n_trees for forest in forests]
    joined = Forest.concatenate([replace(f, statistics=None, bare=None) for f in forests])
    if len(values) < len(forests):
        return joined
    bare = BareScores(
        base=np.concatenate([bare.base for bare in known]),
        combines="sum",
        values=np.concatenate(values, axis=1),
        tree_score=np.repeat(np.arange(len(forests), dtype=np.int32), n_trees),
    )
    return replace(joined, bare=bare)


def check_one_reading(forests: Sequence[Forest]) -> None:
    """Refuse forests that no single one can stand for: a column of numbers here, categories there.

    Joined, every tree would be given the codes of the categories instead of the numbers. The same
    of a value that counts as missing in one of them alone.
    """
    for forest in forests[1:]:
        if forest.missing_values != forests[0].missing_values:
            raise TypeError(
                "Different values count as missing in the blocks of this model "
                f"({forests[0].source}, {forest.source}); a single forest cannot read a column in "
                "both ways. Put NaN for what is missing, before any of them is fitted."
            )
    whole = frozenset[int]().union(*(forest.whole_categories for forest in forests))
    for column in sorted({column for forest in forests for column in forest.categories}):
        others = {other_of(forest.categories.get(column)) for forest in forests} - {None}
        if len(others) > 1:
            raise TypeError(
                f"Column {column} has names of categories in one block of this model and their "
                "codes in another; a single forest cannot read it in both ways. Fit all blocks on "
                "the same columns."
            )
        for forest in forests:
            if column in whole & forest.categories.keys() - forest.whole_categories:
                raise TypeError(
                    f"In column {column} a number such as 2.7 counts as the category 2 in one "
                    f"block of this model, and as none in another ({forest.source}); a single "
                    "forest cannot read it in both ways. Round the column for all blocks."
                )
            splits = (forest.feature == column) & (forest.split_kind == NUMERICAL)
            read_as_number = splits.any() or (forest.term_columns == column).any()
            if column not in forest.categories and read_as_number:
                raise TypeError(
                    f"Column {column} is categorical in one block of this model and a number in "
                    f"another ({forest.source}); a single forest cannot read it in both ways. "
                    "Encode it alike for all blocks."
                )


def as_float64(forest: Forest) -> Forest:
    r"""Return a forest that compares in float64 and decides like the given one.

    Rounding to float32 is monotone: the x with :math:`\mathrm{round}(x) \le t` are those up to
    the largest of them. With a the largest float32 at or below t and b the next one, that is
    the midpoint of a and b where the tie goes to a, otherwise the float64 below it.

    Examples
    --------
    >>> from kpp.forest.join import as_float64
    >>> from kpp.forest import Forest, Tree
    >>> stump = Tree(left=[1, -1, -1], right=[2, -1, -1], feature=[0] * 3, threshold=[1.0] * 3)
    >>> single = Forest.from_trees([stump], n_features=1, dtype="float32")
    >>> x = [[1.0], [1.0 + 2**-24], [1.0 + 2**-23]]
    >>> bool((as_float64(single).apply(x) == single.apply(x)).all())
    True
    >>> as_float64(single) is as_float64(single)  # made once
    True
    """
    return forest if forest.dtype == np.float64 else forest.in_float64


def compare_in_float64(forest: Forest) -> Forest:
    """Turn a forest of float32 into such a one, anew; `as_float64` keeps it."""
    splits = forest.split_kind == NUMERICAL
    threshold = forest.threshold.copy()
    threshold[splits] = double_thresholds(forest.threshold[splits])
    # Rounding is symmetric: the least number that rounds to an end is found from the other side.
    missing_values = {
        j: (
            -float(double_thresholds(np.array([-low]))[0]),
            float(double_thresholds(np.array([high]))[0]),
        )
        for j, (low, high) in forest.missing_values.items()
    }
    return replace(forest, threshold=threshold, dtype=np.float64, missing_values=missing_values)


def double_thresholds(t: FloatArray) -> FloatArray:
    """Thresholds for float64 that decide as those given do for the same numbers in float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        below = t.astype(np.float32)
        below = np.where(below > t, np.nextafter(below, np.float32(-np.inf)), below)
        above = np.nextafter(below, np.float32(np.inf))
        # Numbers round to an infinity as if it were the next power of two.
        ends = (end.astype(np.float64) for end in (below, above))
        low, high = (np.clip(end, -(2.0**128), 2.0**128) for end in ends)
        limit = low + (high - low) / 2  # exact: a float32 midpoint has one bit more
        to_below = limit.astype(np.float32) == below
        limit = np.where(to_below, limit, np.nextafter(limit, -np.inf))
    return np.where(below < np.inf, limit, np.inf)
