"""A fitted model in the page: its trees, linear terms and folds as short texts.

The script of the page routes a row exactly as `kpp.forest.route` does, and adds the same numbers.
Nodes stand as in a `Forest`, level by level, so that children are known without being written.
Numbers of nodes are whole multiples of a step, 2**-31 of the largest: sums over a few thousand
nodes are off by about 1e-8 of it.
"""

from __future__ import annotations

import base64
from math import ceil
from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.forest.arrays import Forest
from kpp.models import KPPClassifier
from kpp.models.fold_predictors import FoldPredictors
from kpp.models.linear import KPPLinearModel
from kpp.scores import LinearScores, ScoreBlock
from kpp.solvers import SquaredLoss


def packed(values: Any, dtype: str) -> str:
    """Write an array as base64 of its bytes, in C's order; the page reads little-endian types.

    Examples
    --------
    >>> from kpp.reports.embedded import packed
    >>> packed([1, 2], "<i2")
    'AQACAA=='
    """
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode()


def steps_of(values: FloatArray) -> dict[str, Any]:
    """Write numbers as whole multiples of a step of their own for each line.

    Parameters
    ----------
    values : array of shape (n_lines, n)
        Finite.

    Returns
    -------
    written : dict
        "step", one number for each line, and "counts", int32.
    """
    size = np.abs(values).max(axis=1, initial=0.0)
    step = np.where(size > 0, size, 1.0) / (2.0**31 - 1)
    return {"step": step, "counts": packed(np.rint(values / step[:, None]), "<i4")}


def rounded_down(threshold: FloatArray) -> AnyArray:
    """The largest numbers of single precision that are not above: ``x <= t`` stays what it was.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.reports.embedded import rounded_down
    >>> bool(rounded_down(np.array([0.1]))[0] < 0.1)
    True
    """
    with np.errstate(over="ignore"):
        near = threshold.astype(np.float32)
    above = near.astype(np.float64) > threshold
    near[above] = np.nextafter(near[above], np.float32(-np.inf))
    return near


def cannot_embed(model: KPPLinearModel) -> str | None:
    """Why the script of the page cannot evaluate a model; None where it can."""
    forests = [block.forest for block in model.additive_.blocks]
    if any(len(forest.term_offsets) for forest in forests):
        return "some of its splits test sums of columns"
    categorical = set().union(*(forest.categories for forest in forests))
    linear = {int(j) for terms in model.additive_.linear for j in terms.terms.column}
    if categorical & linear:
        return "a column of categories has a linear term"
    if linear & set().union(*(forest.missing_values for forest in forests)):
        return "a column whose numbers may stand for missing values has a linear term"
    return None


def write_forest(block: ScoreBlock, reading: int) -> dict[str, Any]:
    """One forest of a model: its splits, and what each node adds to the scores.

    Parameters
    ----------
    block : ScoreBlock
        The forest.
    reading : int
        Which of the readings of rows it takes.

    Returns
    -------
    written : dict
    """
    forest = block.forest
    is_split = forest.left >= 0
    kind = next(k for k in ("<i1", "<i2", "<i4") if forest.n_features <= np.iinfo(k).max)
    threshold = forest.threshold[is_split]
    single = forest.dtype == np.float32
    written: dict[str, Any] = {
        "reading": reading,
        "single": single,
        "trees": packed(forest.tree_offsets, "<i4"),
        "feature_bytes": int(kind[2]),
        "feature": packed(np.where(is_split, forest.feature, -1), kind),
        "threshold": packed(rounded_down(threshold), "<f4") if single else packed(threshold, "<f8"),
        "adds": steps_of(block.contribution),
    }
    if forest.allows_nan or forest.categories:
        written["missing_left"] = packed(
            np.packbits(forest.missing_left[is_split], bitorder="little"), "u1"
        )
    counts = {j: own for j, own in forest.missing_values.items() if j not in forest.categories}
    if counts:
        written["missing_values"] = [[j, *own] for j, own in sorted(counts.items())]
    if len(forest.category_offsets):
        written["words"] = packed(np.diff(forest.category_offsets)[is_split], "<u2")
        written["bits"] = packed(forest.category_bits, "<u4")
    return written


def write_terms(terms: LinearScores) -> dict[str, Any]:
    """Linear terms: column, training range, mean and slope of each, and their coefficients."""
    own = terms.terms
    return {
        "column": own.column,
        "is_missing": own.is_missing,
        "low": own.low,
        "high": own.high,
        "mean": own.mean,
        "slope": own.slope,
        "factor": own.factor,
        "coef": terms.coef,
    }


def write_folds(model: KPPLinearModel, coverage: float) -> dict[str, Any] | None:
    """What the script needs for intervals and sets of a level: the folds' predictors and errors.

    Returns
    -------
    written : dict or None
        None where the model gives none, gives them in another way, or has forests of the folds
        that are not its own.
    """
    predictors = model.fold_predictors_
    is_sets = isinstance(model, KPPClassifier)
    if predictors is None or not (is_sets or isinstance(model.loss_, SquaredLoss)):
        return None
    forests = [block.forest for block in model.additive_.blocks]
    spreads = [] if is_sets else predictors.spreads
    used = [part.forest for own in predictors.predictors for part in own.trees]
    used += [spread.forest for spread in spreads]
    if any(all(forest is not known for known in forests) for forest in used):
        return None
    folds = []
    for q, own in enumerate(predictors.predictors):
        written: dict[str, Any] = {
            "intercept": own.intercept,
            "trees": [
                {
                    **_slice(forests, part.forest, part.trees),
                    **steps_of(_at_leaves(part.forest, part.trees, part.node_values)),
                }
                for part in own.trees
            ],
            "linear": [write_terms(terms) for terms in own.linear],
        }
        if spreads:
            spread = spreads[q]
            at_leaves = _at_leaves(spread.forest, spread.trees, spread.node_values)
            written["spread"] = {
                **_slice(forests, spread.forest, spread.trees),
                "values": packed(at_leaves, "<f4"),
                "floor": spread.floor,
            }
        folds.append(written)
    n = len(predictors.fold_of_row)
    errors = _class_errors(predictors) if is_sets else predictors.sorted_scaled_residuals
    # As the decimal that was written: 0.9 of 10 is 9, not a little less.
    rank = ceil(round(coverage * (n + 1), 9))
    return {
        "folds": folds,
        "rank": rank,
        "starts": predictors.starts,
        "errors": packed(errors, "<f8"),
    }


def _class_errors(predictors: FoldPredictors) -> FloatArray:
    """One less the probability of the truth, rising in each fold; shape (1, n_fit_rows)."""
    rows = np.arange(len(predictors.target))
    score = 1.0 - predictors.out_of_fold[rows, predictors.target]
    return score[np.lexsort((score, predictors.fold_of_row))][None]


def _slice(forests: list[Forest], forest: Forest, trees: slice) -> dict[str, int]:
    block = next(k for k, known in enumerate(forests) if known is forest)
    return {"block": block, "first": trees.start, "last": trees.stop}


def _at_leaves(forest: Forest, trees: slice, node_values: FloatArray) -> FloatArray:
    """The numbers of the leaves of some trees, in their order."""
    leaves = forest.left[forest.nodes_of(trees)] < 0
    found: FloatArray = node_values[:, leaves]
    return found
