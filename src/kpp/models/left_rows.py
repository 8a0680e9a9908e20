"""`LeftRows`: what a model remembers of the rows of its fit where it has left them on a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kpp._checks import RefusedError
from kpp._typing import AnyArray, FloatArray
from kpp.geometry.composed import named_blocks
from kpp.geometry.maps import MapBlock, PathMap

if TYPE_CHECKING:
    from kpp.models.linear import KPPLinearModel


@dataclass(frozen=True, eq=False)
class LeftRows:
    r"""The rows of a fit, as their number in each leaf.

    That is enough for the mean :math:`\bar\phi` of the embedding, and with it for importances, for
    attributions around the mean, and for the support of rules.

    Parameters
    ----------
    n_rows : int
        Rows of the fit.
    leaf_count : int array of shape (n_leaves,)
        Rows in each leaf, tree by tree; those of a tree sum to `n_rows`.
    leaf_weight : array of shape (n_leaves,), optional
        Shares of their weights; those of a tree sum to 1. None where all rows count alike.
    """

    n_rows: int
    leaf_count: AnyArray
    leaf_weight: FloatArray | None = None

    def mean_row(self, embedding: MapBlock, *, is_weighted: bool) -> FloatArray:
        r"""The mean :math:`\bar\phi_v = s_v\, p(v)` of the rows, shape (m,).

        Parameters
        ----------
        embedding : MapBlock
            The map of the model, of forests alone.
        is_weighted : bool
            Whether weights count.

        Returns
        -------
        mean : array of shape (m,)
        """
        share: FloatArray = self.leaf_count / self.n_rows
        if is_weighted and self.leaf_weight is not None:
            share = self.leaf_weight
        found, first = [], 0
        for _, block in named_blocks(embedding):
            assert isinstance(block, PathMap)
            leaves = block.forest.is_leaf
            values = np.zeros(len(leaves))
            n_leaves = int(leaves.sum())
            values[leaves] = share[first : first + n_leaves]
            first += n_leaves
            found.append(block.forest.leaf_sums(values) * block.scale)
        return np.concatenate(found)


def mean_row_of(model: KPPLinearModel) -> FloatArray:
    r"""The mean :math:`\bar\phi` of the rows of the fit, which all count alike, shape (m,)."""
    left = left_rows(model)
    if left is not None:
        return left.mean_row(model.map_, is_weighted=False)
    n_rows = model.map_.shape[0]
    return model.map_.rmatvec(np.full(n_rows, 1.0 / n_rows))


def left_rows(model: Any) -> LeftRows | None:
    """What a model has instead of its rows; None where it has them."""
    found: LeftRows | None = getattr(model, "left_rows_", None)
    return found


def n_fit_rows(model: KPPLinearModel) -> int:
    """The number of rows that the linear layer was fitted on, wherever they are."""
    left = left_rows(model)
    return len(model.fit_rows_) if left is None else left.n_rows


def check_has_rows(model: Any, what: str) -> None:
    """Refuse a question about the rows of the fit where the model has left them on a cluster."""
    left = left_rows(model)
    if left is not None:
        raise RefusedError(
            f"{what} needs the rows of the fit, and this model has left its {left.n_rows:,} on a "
            "cluster: fit it there with keep_rows=True."
        )
