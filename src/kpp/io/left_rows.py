"""What a model has instead of its rows where it has left them on a cluster, in a file."""

from __future__ import annotations

import numpy as np

from kpp.geometry.composed import named_blocks
from kpp.geometry.maps import PathMap
from kpp.io.fields import floats, integers, require, whole
from kpp.io.schema import required
from kpp.io.values import Fields
from kpp.models.fits import LinearFit, MapPart
from kpp.models.left_rows import LeftRows
from kpp.models.linear import KPPLinearModel
from kpp.models.penalties import alpha_of

LEFT_ROWS = required("leaf_count", "leaf_weight")
MOST_ROWS = 2**53
# Sums of weights of as many leaves as trees have, by rows in any order.
ROUNDING = 1e-6
# What a model without rows does not have.
ABSENT = (
    *("fits", "fold_fits", "center", "blend", "fold_predictors", "folds", "oof_prediction_"),
    *("row_fingerprints_", "sample_weight_"),
)


def left_rows_fields(model: KPPLinearModel) -> Fields:
    """Take it apart; nothing for a model that has its rows."""
    left = model.left_rows_
    if left is None:
        return {}
    kind = np.min_scalar_type(int(left.leaf_count.max()))
    table = {"leaf_count": left.leaf_count.astype(kind), "leaf_weight": left.leaf_weight}
    return {"n_rows_left": int(left.n_rows), "left_rows": table}


def decode_left_rows(stored: Fields, model: KPPLinearModel) -> LeftRows | None:
    """Put it together: every tree must hold all rows."""
    fields = stored["left_rows"]
    if fields is None:
        require(stored["n_rows_left"] is None, "rows that were left, and nothing of them")
        return None
    require(isinstance(fields, dict), "rows that were left must be by name")
    for name in ABSENT:
        require(stored[name] is None, f"{name} of a model without rows")
    blocks = [block for _, block in named_blocks(model.map_)]
    forests = [block.forest for block in blocks if isinstance(block, PathMap)]
    require(len(forests) == len(blocks), "linear terms of a model without rows")
    n_rows = whole(stored["n_rows_left"], "n_rows_left", 1, MOST_ROWS)
    n_leaves = sum(int(forest.is_leaf.sum()) for forest in forests)
    count = integers(fields["leaf_count"], "leaf_count", (n_leaves,), 0, n_rows)
    weight = fields["leaf_weight"]
    if weight is not None:
        floats(weight, "leaf_weight", (n_leaves,), low=0.0)
    first = 0
    for forest in forests:
        sizes = np.add.reduceat(forest.is_leaf.astype(np.int64), forest.roots)
        starts = first + np.cumsum(sizes) - sizes
        first += int(sizes.sum())
        of_trees = np.add.reduceat(count, starts)
        require((of_trees == n_rows).all(), "every tree must hold all rows")
        if weight is not None:
            shares = np.add.reduceat(weight, starts)
            require(np.allclose(shares, 1.0, rtol=0, atol=ROUNDING), "shares must sum to 1")
    return LeftRows(n_rows, count, weight)


def layer_without_rows(model: KPPLinearModel) -> LinearFit:
    """The only linear layer of such a model: its coefficients are all that is known of it."""
    fit = LinearFit(
        part=MapPart(model.map_),
        rows=model.fit_rows_,
        dual=np.asarray(model.dual_coef_),
        intercept=np.atleast_1d(model.intercept_),
        alpha=alpha_of(model),
        n_iter=model.n_iter_,
    )
    vars(fit)["node_coef"] = np.atleast_2d(model.node_coef_)
    return fit
