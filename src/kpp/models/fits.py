"""`LinearFit`: one fitted linear layer, and the part of a map that it was fitted on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.geometry.composed import BlockMap, named_blocks
from kpp.geometry.maps import MapBlock, PathMap
from kpp.geometry.weights import PathWeights


@dataclass(frozen=True, eq=False)
class MapPart:
    """Some trees of a map, at some of its rows; made when it is asked for.

    The leaf ids of a part are those of the whole, so a model that keeps many parts keeps them
    once.

    Parameters
    ----------
    whole : MapBlock
        The map.
    rows : int array, optional
        Rows of `whole`; all by default.
    trees : tuple of slice or None, optional
        Trees of each block, None for a block without trees; all by default.
    weights : tuple of PathWeights or None, optional
        Weights of those trees, where they are others than those of the whole.
    """

    whole: MapBlock
    rows: AnyArray | None = None
    trees: tuple[slice | None, ...] | None = None
    weights: tuple[PathWeights | None, ...] | None = None

    def make(self) -> MapBlock:
        """Return the part as a map."""
        part = self.whole if self.trees is None else self._some_trees()
        return part if self.rows is None else part.rows(self.rows)

    def at(self, rows: AnyArray) -> MapPart:
        """Return the same trees at other rows of the whole."""
        return replace(self, rows=rows)

    def _some_trees(self) -> MapBlock:
        assert self.trees is not None
        blocks: list[tuple[str, MapBlock]] = []
        own_weights = self.weights or (None,) * len(self.trees)
        named = named_blocks(self.whole)
        for (name, block), trees, weights in zip(named, self.trees, own_weights, strict=True):
            if trees is None or not isinstance(block, PathMap):
                blocks.append((name, block))  # linear terms have no trees to choose from
                continue
            part = block.trees(trees)
            if weights is not None:
                # Weights that were estimated on rows: those of a group must not have seen the rows
                # of its fold.
                own = PathMap(part.forest, weights, normalize=part.normalize, n_jobs=part.n_jobs)
                part = own.at_leaves(part.leaf_ids)
            blocks.append((name, part))
        return BlockMap(blocks) if isinstance(self.whole, BlockMap) else blocks[0][1]


@dataclass(frozen=True, eq=False)
class Center:
    """What the penalty of a linear layer shrinks to.

    Parameters
    ----------
    node_coef : array of shape (n_scores, m)
        :math:`w_0`.
    intercept : array of shape (n_scores,)
        :math:`b_0`.
    """

    node_coef: FloatArray
    intercept: FloatArray


@dataclass(frozen=True, eq=False)
class BareFit:
    r"""A bare ensemble as a point of the class: a predictor that is linear in the map.

    .. math:: F(x) = b + \langle f, \Phi(x) \rangle, \qquad f_v = \mathrm{step}_v / s_v

    Parameters
    ----------
    part : MapPart
        The embedding of its forest.
    node_coef : array of shape (n_scores, m)
        f.
    intercept : array of shape (n_scores,)
        b.
    share : array of shape (n_scores,)
        Its weight in the scores of the model.
    """

    part: MapPart
    node_coef: FloatArray
    intercept: FloatArray
    share: FloatArray

    def scores(self, at_rows: MapBlock) -> FloatArray:
        """Return the scores of rows.

        Parameters
        ----------
        at_rows : MapBlock
            The embedding of its forest at any rows.

        Returns
        -------
        scores : array of shape (n_rows, n_scores)
        """
        return np.column_stack([at_rows.matvec(w) for w in self.node_coef]) + self.intercept


@dataclass(frozen=True, eq=False)
class LinearFit:
    r"""One linear layer, as it was fitted.

    .. math:: g(x) = b + \langle w, \Phi(x) \rangle, \qquad w = w_0 + \Phi^\top r

    Parameters
    ----------
    part : MapPart
        The embedding at the rows of this fit.
    rows : int array of shape (n,)
        Which rows of the model's X these are.
    dual : array of shape (n, n_scores)
        r.
    intercept : array of shape (n_scores,)
        b.
    alpha : float
        The penalty.
    center : Center, optional
        What the penalty shrinks to; 0 by default.
    share : array of shape (n_scores,), optional
        Factor of this fit in the scores of the model, which add up over its fits; 1 by default.
    n_iter : int
        Products with the Gram that it took.
    """

    part: MapPart
    rows: AnyArray
    dual: FloatArray
    intercept: FloatArray
    alpha: float
    center: Center | None = None
    share: FloatArray | float = 1.0
    n_iter: int = 0

    @property
    def map(self) -> MapBlock:
        """The embedding at the rows of this fit; made anew with every call."""
        return self.part.make()

    @cached_property
    def node_coef(self) -> FloatArray:
        """Coefficients w of shape (n_scores, m)."""
        # w = w_0 + Phi' r.
        at_rows = self.map
        own = np.array([at_rows.rmatvec(r) for r in self.dual.T])
        return own if self.center is None else own + self.center.node_coef

    def scores(self, at_rows: MapBlock) -> FloatArray:
        """Return the scores of rows.

        Parameters
        ----------
        at_rows : MapBlock
            The embedding of this fit at any rows.

        Returns
        -------
        scores : array of shape (n_rows, n_scores)
        """
        return np.column_stack([at_rows.matvec(w) for w in self.node_coef]) + self.intercept
