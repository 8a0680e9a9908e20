"""One forest in as many groups of trees as folds: a group never sees its fold (design of alpha)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kpp._typing import FloatArray
from kpp.forest.arrays import Forest
from kpp.forest.grow import traits_of
from kpp.forest.route import route
from kpp.forest.steps import moving_splits
from kpp.geometry.composed import BlockMap
from kpp.geometry.linear import LinearMap
from kpp.geometry.maps import MapBlock, PathMap
from kpp.geometry.weights import PathWeights
from kpp.models.bare_scores import bare_of_folds
from kpp.models.blocks import LINEAR
from kpp.models.data import FitData
from kpp.models.fits import MapPart
from kpp.models.fold_predictors import FoldBare
from kpp.models.grower import Grower
from kpp.models.plans import FitPlan, Fold, Layer, Splits


@dataclass(frozen=True, eq=False)
class GrownBlock:
    """One forest, and the trees of each fold.

    Parameters
    ----------
    name : str
        Of the block.
    map : PathMap or LinearMap
        All trees, or the linear terms, at all rows.
    trees : list of slice, or of None
        The trees that have not seen each fold; None for linear terms, which see no labels.
    weights : list of PathWeights or None
        Their weights, where these are estimated on rows.
    bare : array of shape (n_rows, n_scores), optional
        Scores of the rows by the bare ensembles of the groups that have not seen them; None
        where the forest has none, or nobody asked.
    bases : list of arrays of shape (n_bare_scores,), optional
        The initial value of each group's bare ensemble.
    """

    name: str
    map: PathMap | LinearMap
    trees: list[slice] | list[None]
    weights: list[PathWeights | None]
    bare: FloatArray | None = None
    bases: list[FloatArray] | None = None

    @property
    def maps(self) -> list[MapBlock]:
        """The only map."""
        return [self.map]

    def plan(self, splits: Splits) -> FitPlan:
        """How the linear layer of this block alone is fitted; its folds are made here."""
        alone = isinstance(self.map, LinearMap) or all(
            trees == slice(0, self.map.forest.n_trees) for trees in self.trees
        )
        parts = [
            MapPart(self.map) if alone else MapPart(self.map, None, (trees,), (weights,))
            for trees, weights in zip(self.trees, self.weights, strict=True)
        ]
        return plan_of(self.map, parts, splits)

    def bare_of_fold(self, q: int) -> FoldBare:
        """The group of trees that has not seen the fold."""
        assert self.bases is not None
        return FoldBare.of(self.map, self.trees[q], self.bases[q], len(self.trees))


def grow_in_folds(data: FitData, grower: Grower, splits: Splits) -> list[GrownBlock]:
    """Grow every forest of a fit in groups, and weigh them.

    Parameters
    ----------
    data : FitData
        All rows.
    grower : Grower
        The forests.
    splits : list of (int array, int array)
        Train and test rows of every fold.

    Returns
    -------
    blocks : list of GrownBlock
    """
    rows_of_groups = [train for train, _ in splits]
    held_out = [test for _, test in splits]
    forests = grower.in_groups(data, rows_of_groups, share_columns=True, held_out=held_out)
    classes = np.unique(data.labels) if grower.classification else None
    blocks, joined_forests = [], []
    for name, spec in grower.specs:
        own = [by_group.pop(0) for by_group in forests]
        bare = bare_of_folds(own, held_out, data, classes, grower.n_jobs) if grower.blends else None
        bases = None if bare is None else [f.bare.base for f in own if f.bare is not None]
        if traits_of(spec).by_columns_alone:
            joined, stops = own[0], None
        else:
            stops = np.cumsum([0, *(forest.n_trees for forest in own)]).tolist()
            joined = Forest.concatenate(own, release=True)
        del own
        joined_forests.append(joined)
        # Boosters of different classes have no mean.
        moving = None if bare is None else moving_splits(joined, classes)
        bare = None if moving is None else bare
        embedding = grower.weigh(spec, joined, data, moving)
        embedding = embedding.at_leaves(route(joined, data.X, n_jobs=grower.n_jobs))
        trees: list[slice] = []
        weights: list[PathWeights | None] = []
        for q, rows in enumerate(rows_of_groups):
            trees.append(slice(0, joined.n_trees) if stops is None else slice(*stops[q : q + 2]))
            own_weights = None
            if not grower.weighs_by_trees_alone(spec, joined):
                # Weights that are estimated on rows must not see the rows of the fold.
                group = joined.take_trees(trees[-1])
                at = None if moving is None else moving[joined.nodes_of(trees[-1])]
                own_weights = grower.weigh(spec, group, data.take(rows), at).weights
            weights.append(own_weights)
        blocks.append(GrownBlock(name, embedding, trees, weights, bare, bases))
    if grower.is_linear:
        # From the columns of all rows, as ladders: no label has a part in it.
        terms, n_folds = grower.linear_map(data, joined_forests).on(data.X), len(splits)
        blocks.append(GrownBlock(LINEAR, terms, [None] * n_folds, [None] * n_folds))
    return blocks


def plan_of(whole: MapBlock, parts: list[MapPart], splits: Splits) -> FitPlan:
    """One linear layer on all rows, and the folds that choose its alpha."""
    rows = np.arange(whole.shape[0])
    folds = [Fold.of(part, *own) for part, own in zip(parts, splits, strict=True)]
    return FitPlan(whole, rows, rows, [Layer(whole, rows, MapPart(whole))], folds, is_relative=True)


def joint_plan(blocks: list[GrownBlock], splits: Splits, *, is_list: bool) -> FitPlan:
    """One linear layer on all blocks side by side."""
    whole: MapBlock = blocks[0].map
    if is_list:
        whole = BlockMap([(block.name, block.map) for block in blocks])
    parts = [
        MapPart(
            whole,
            None,
            tuple(block.trees[q] for block in blocks),
            tuple(block.weights[q] for block in blocks),
        )
        for q in range(len(splits))
    ]
    return plan_of(whole, parts, splits)
