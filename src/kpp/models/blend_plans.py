"""How a blend is laid out: what each of its forests brings, in every regime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kpp._rows import take_rows
from kpp._typing import AnyArray, FloatArray
from kpp.forest.steps import moving_splits
from kpp.geometry.composed import BlockMap
from kpp.geometry.maps import MapBlock
from kpp.models.bare_scores import bare_at, bare_of_folds
from kpp.models.blocks import LINEAR
from kpp.models.data import FitData
from kpp.models.fits import MapPart
from kpp.models.fold_predictors import FoldBare
from kpp.models.grower import Grower
from kpp.models.plans import FitPlan, Fold, Layer, Splits, plan_on_one_map


class BlendBlock(Protocol):
    """One forest of a blend, as a fit needs it."""

    @property
    def name(self) -> str:
        """Of the block."""

    @property
    def maps(self) -> list[MapBlock]:
        """The only map, at the rows of the fit; in the regime "cross-fit" one for each fold."""

    @property
    def bare(self) -> FloatArray | None:
        """Scores of the rows by bare ensembles that have not seen them, where there are any."""

    def plan(self, splits: Splits) -> FitPlan:
        """How the linear layer of this block alone is fitted."""

    def bare_of_fold(self, q: int) -> FoldBare:
        """The bare ensemble that has not seen fold q, with a weight of 1."""


@dataclass(frozen=True, eq=False)
class BlendPlan:
    """How a blend is fitted: every forest alone, all on the same folds.

    Parameters
    ----------
    blocks : list of BlendBlock
        The forests.
    splits : list of (int array, int array)
        Train and test rows of every fold, as numbers among the rows of the fit.
    fit_rows : int array
        Rows that linear layers are fitted on, and weights learned on.
    folds : list of (int array, int array), optional
        Rows that the layer of each fold is fitted on, and those that it predicts, where the
        former are not `splits`.
    weights_are_counted : bool
        Whether the weights come from a finite set that is known beforehand, the same in every
        fold: see `kpp.models.lattice`.
    """

    blocks: Sequence[BlendBlock]
    splits: Splits
    fit_rows: AnyArray
    folds: Splits | None = None
    weights_are_counted: bool = False

    @property
    def map(self) -> BlockMap:
        """All blocks side by side; those of a fold together, where each fold has its own."""
        n_folds = len(self.blocks[0].maps)
        return BlockMap(
            [
                (block.name if n_folds == 1 else of_fold(block.name, q), block.maps[q])
                for q in range(n_folds)
                for block in self.blocks
            ]
        )


def of_fold(name: str, q: int) -> str:
    """The name of a block of fold q."""
    return f"{name}fold{q}"


@dataclass(frozen=True, eq=False)
class GivenBlock:
    """A forest, or linear terms, that no row of the fit has had a part in.

    Parameters
    ----------
    name : str
        Of the block.
    map : MapBlock
        At the rows of the fit.
    bare : array of shape (n_fit_rows, n_scores), optional
        Scores of the bare ensemble.
    fit_rows : int array
        The rows of the fit.
    """

    name: str
    map: MapBlock
    bare: FloatArray | None
    fit_rows: AnyArray

    @property
    def maps(self) -> list[MapBlock]:
        """The only map."""
        return [self.map]

    def plan(self, splits: Splits) -> FitPlan:
        """Ordinary cross-validation of a linear layer on a map that its folds share."""
        return plan_on_one_map(self.map, self.fit_rows, None, splits)

    def bare_of_fold(self, q: int) -> FoldBare:
        """The whole forest: it has seen no fold."""
        return FoldBare.of(self.map)


def given_blocks(data: FitData, grower: Grower, grow: AnyArray, fit: AnyArray) -> list[GivenBlock]:
    """Grow, or take, every forest; none sees the rows of the fit.

    Parameters
    ----------
    data : FitData
        All rows.
    grower : Grower
        The forests.
    grow : int array
        Rows to grow on.
    fit : int array
        Rows of the fit.

    Returns
    -------
    blocks : list of GivenBlock
    """
    own, X = data.take(grow), take_rows(data.X, fit)
    classes = _classes(data, grower)
    blocks, grown = [], grower.all_grown(own)
    for (name, spec), forest in zip(grower.specs, grown, strict=True):
        bare = bare_at(forest, X, classes, data.n_targets, grower.n_jobs)
        moving = None if bare is None else moving_splits(forest, classes)
        embedding = grower.weigh(spec, forest, own, moving).on(X)
        blocks.append(GivenBlock(name, embedding, bare, fit))
    if grower.is_linear:
        blocks.append(GivenBlock(LINEAR, grower.linear_map(own, grown).on(X), None, fit))
    return blocks


@dataclass(frozen=True, eq=False)
class CrossFitBlock:
    """A forest for every fold, which has seen neither it nor the rows of its linear layer.

    Parameters
    ----------
    name : str
        Of the block.
    maps : list of MapBlock
        One for each fold, at all rows.
    fits, tests : lists of int arrays
        The rows that the layer of each fold is fitted on, and those that it predicts.
    bare : array of shape (n_rows, n_scores), optional
        Scores of each fold by its own bare ensemble.
    layers_are_folds : bool
        As in `FitPlan`.
    """

    name: str
    maps: list[MapBlock]
    fits: list[AnyArray]
    tests: list[AnyArray]
    bare: FloatArray | None
    layers_are_folds: bool = False

    def plan(self, splits: Splits) -> FitPlan:
        """A linear layer for every fold; their average is the candidate."""
        rows = np.arange(self.maps[0].shape[0])
        folds = [
            Fold.of(MapPart(block), fit, test)
            for block, fit, test in zip(self.maps, self.fits, self.tests, strict=True)
        ]
        layers = [Layer(fold.train, fold.train_rows, fold.part) for fold in folds]
        whole = BlockMap([(of_fold(self.name, q), block) for q, block in enumerate(self.maps)])
        return FitPlan(
            whole,
            rows,
            rows,
            layers,
            folds,
            is_relative=True,
            layers_are_folds=self.layers_are_folds,
        )

    def bare_of_fold(self, q: int) -> FoldBare:
        """The forest of the fold."""
        return FoldBare.of(self.maps[q])


def cross_fit_blocks(
    data: FitData,
    grower: Grower,
    rows_of_groups: list[AnyArray],
    fits: list[AnyArray],
    tests: list[AnyArray],
    *,
    layers_are_folds: bool = False,
) -> list[CrossFitBlock]:
    """Grow every forest once for each fold.

    Parameters
    ----------
    data : FitData
        All rows.
    grower : Grower
        The forests.
    rows_of_groups, fits, tests : lists of int arrays
        For each fold the rows to grow on, to fit on and to predict.
    layers_are_folds : bool
        As in `FitPlan`.

    Returns
    -------
    blocks : list of CrossFitBlock
    """
    classes = _classes(data, grower)
    forests = grower.in_groups(data, rows_of_groups, are_alike=layers_are_folds)
    blocks = []
    for k, (name, spec) in enumerate(grower.specs):
        own = [of_group[k] for of_group in forests]
        bare = bare_of_folds(own, tests, data, classes, grower.n_jobs)
        maps: list[MapBlock] = []
        for forest, rows in zip(own, rows_of_groups, strict=True):
            moving = None if bare is None else moving_splits(forest, classes)
            maps.append(grower.weigh(spec, forest, data.take(rows), moving).on(data.X))
        blocks.append(CrossFitBlock(name, maps, fits, tests, bare, layers_are_folds))
    if grower.is_linear:
        groups = zip(rows_of_groups, forests, strict=True)
        terms: list[MapBlock] = [
            grower.linear_map(data.take(rows), own).on(data.X) for rows, own in groups
        ]
        blocks.append(CrossFitBlock(LINEAR, terms, fits, tests, None, layers_are_folds))
    return blocks


def _classes(data: FitData, grower: Grower) -> Any:
    return np.unique(data.labels) if grower.classification else None
