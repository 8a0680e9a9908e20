"""The regimes: which labels the forest has seen, how a fit is laid out, and what may be said of it.

One class a regime. A fitted model knows its own by name, ``model.regime_``; whoever must know more
asks `regime_of`.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, train_test_split
from sklearn.utils import check_random_state

from kpp._rows import take_rows
from kpp._typing import AnyArray
from kpp.forest.grow import is_grown
from kpp.geometry.composed import BlockMap, named_blocks
from kpp.geometry.maps import MapBlock
from kpp.models.blend_plans import BlendPlan, cross_fit_blocks, given_blocks, of_fold
from kpp.models.blocks import LINEAR
from kpp.models.data import FitData, group_codes
from kpp.models.fits import MapPart
from kpp.models.fold_grown import grow_in_folds, joint_plan
from kpp.models.grower import Grower, seeds_for
from kpp.models.nested import INNER_FOLDS, NESTED, NestedPlan
from kpp.models.plans import FitPlan, Fold, Layer, Splitter, plan_on_one_map

ALPHA_SELECTIONS = ("fold-grown", "regrown", "frozen", NESTED)
# For a regime: whether the representation is independent of the labels of the fit rows (None: that
# is the caller's word), and why.
Independence = tuple[bool | None, str]


@dataclass(frozen=True, eq=False)
class Regime(ABC):
    """How a model is fitted, as far as labels are concerned.

    Parameters
    ----------
    splitter : Splitter
        The folds.
    chooses_alpha : bool
        Whether alpha is to be chosen, and folds are needed.
    alpha_selection : str
        How; only a regime whose forest sees all labels has a choice.
    honest_fraction : float
        Share of the rows for the linear layer, where it has rows of its own.
    center : {"zero", "partition"}
        What the penalty shrinks to.
    random_state : int, RandomState or None
        Seed of the split.
    """

    splitter: Splitter
    chooses_alpha: bool
    alpha_selection: str = "fold-grown"
    honest_fraction: float = 0.5
    center: str = "zero"
    random_state: Any = field(default=None, repr=False)

    name: ClassVar[str]
    # The paper's number of the regime.
    number: ClassVar[str]
    # Who saw what, in half a sentence.
    in_short: ClassVar[str]
    # The same in a sentence; then what may be claimed, and what may not.
    saw: ClassVar[str]
    may_claim: ClassVar[str]
    may_not_claim: ClassVar[str]
    # What that means for a risk bound.
    on_bounds: ClassVar[str]
    independence: ClassVar[Independence]
    # Whether the forest is grown on the labels that the linear layer is fitted on.
    grows_on_fit_rows: ClassVar[bool] = False
    # Whether the model is the average of linear layers, one for each fold.
    averages_folds: ClassVar[bool] = False
    # Whether these have seen all rows but those of their fold, trees and linear layer alike.
    leaves_folds_out: ClassVar[bool] = False
    # Whether folds of a number hold the classes in equal shares.
    stratifies: ClassVar[bool] = True
    # Whether the forest comes from elsewhere.
    takes_grown_forest: ClassVar[bool] = False
    # Whether forest and linear layer have rows of their own.
    splits_rows: ClassVar[bool] = False

    @property
    def selection(self) -> str:
        """How alpha is chosen: "given", or one of the ways; only shared forests have several."""
        return "frozen" if self.chooses_alpha else "given"

    @property
    def is_nested(self) -> bool:
        """Whether each part of an average is a whole model, which chooses for itself."""
        return self.leaves_folds_out and self.alpha_selection == NESTED

    @property
    def counts_choices(self) -> bool:
        """Whether what is chosen comes from finite grids, and is counted: bounds pay for it."""
        return self.leaves_folds_out and not self.is_nested

    def rows(self, n_rows: int, groups: AnyArray | None = None) -> tuple[AnyArray | None, AnyArray]:
        """Partition rows, for the forest, and fit rows, for the linear layer."""
        return np.arange(n_rows), np.arange(n_rows)

    @abstractmethod
    def plan(self, data: FitData, grower: Grower, partition: Any, fit: AnyArray) -> FitPlan:
        """Grow the forests and lay out the fit.

        Parameters
        ----------
        data : FitData
            All rows.
        grower : Grower
            The forests.
        partition, fit : int arrays
            From `rows`.

        Returns
        -------
        plan : FitPlan
        """

    def plan_blend(self, data: FitData, grower: Grower, partition: Any, fit: AnyArray) -> BlendPlan:
        """Grow the forests of a blend, each to be fitted alone, on the same folds.

        Here none of them sees the rows of the fit, which cross-validate linear layers and weights.

        Parameters
        ----------
        data, grower, partition, fit
            As in `plan`.

        Returns
        -------
        plan : BlendPlan
        """
        grow = fit if partition is None else partition
        splits = self.splitter.split(data.take(fit))
        return BlendPlan(given_blocks(data, grower, grow, fit), splits, fit)

    def check_forest(self, spec: Any) -> None:
        """Refuse a forest that does not go with the regime."""
        if is_grown(spec):
            raise ValueError(
                f"regime={self.name!r} grows its forest; {spec!r} is already grown. Use "
                "regime='fixed' if it was fitted on other data."
            )

    def _on_one_map(
        self, data: FitData, embedding: MapBlock, partition: AnyArray | None, fit: AnyArray
    ) -> FitPlan:
        """One linear layer on a map that its folds share."""
        splits = self.splitter.split(data.take(fit)) if self.chooses_alpha else []
        return plan_on_one_map(embedding, fit, partition, splits)


class Shared(Regime):
    """Forest and linear layer see the same labels: the most accurate, and the default."""

    name, number = "shared", "PB-04"
    in_short = "the forest has seen the labels of the linear layer"
    saw = "The trees were grown on the same labels as the linear layer."
    may_claim = (
        "Scores on test rows that the fit has not used are honest. Attributions and certificates "
        "are exact statements about this fitted model."
    )
    may_not_claim = (
        "Bounds computed on the training rows are diagnostics, not guarantees: the representation "
        "has seen their labels."
    )
    on_bounds = (
        "The forest has seen the labels that the linear layer was fitted on: risk bounds on these "
        "rows are diagnostics, not guarantees."
    )
    independence = (
        False,
        "label-dependent (PB-04): these labels grew the trees and set the weights",
    )
    grows_on_fit_rows = True

    @property
    def selection(self) -> str:
        """How alpha is chosen: as the user asks for."""
        return self.alpha_selection if self.chooses_alpha else "given"

    def plan(self, data: FitData, grower: Grower, partition: Any, fit: AnyArray) -> FitPlan:
        """One forest on all rows; for the choice of alpha see `alpha_selection`."""
        if self.selection == "fold-grown":
            return self._fold_grown(data, grower)
        embedding = grower.plain(data).on(data.X)
        if self.selection != "regrown":
            return self._on_one_map(data, embedding, partition, fit)
        folds = [self._regrown(data, grower, *rows) for rows in self.splitter.split(data)]
        return FitPlan(embedding, fit, partition, [_only(embedding)], folds)

    def _regrown(self, data: FitData, grower: Grower, train: AnyArray, test: AnyArray) -> Fold:
        """A whole forest for one fold."""
        own = data.take(train)
        grown = grower.plain(own)
        at_train, at_test = grown.on(own.X), grown.on(take_rows(data.X, test))
        return Fold(at_train, at_test, train, test, MapPart(at_train))

    def _fold_grown(self, data: FitData, grower: Grower) -> FitPlan:
        """One forest in as many groups as folds; the trees of a group never see their fold."""
        splits = self.splitter.split(data)
        blocks = grow_in_folds(data, grower, splits)
        return joint_plan(blocks, splits, is_list=grower.is_list)

    def plan_blend(self, data: FitData, grower: Grower, partition: Any, fit: AnyArray) -> BlendPlan:
        """Forests in groups, each of which misses a fold."""
        splits = self.splitter.split(data)
        return BlendPlan(grow_in_folds(data, grower, splits), splits, fit)


class Honest(Regime):
    """The forest is grown on one part of the rows, the linear layer fitted on the other."""

    name, number = "honest", "PB-02"
    in_short = "the forest was grown on other rows than the linear layer was fitted on"
    saw = (
        "The trees were grown on one part of the training rows, the linear layer was fitted on "
        "the other."
    )
    may_claim = (
        "Given the trees, the rows of the linear layer are a fresh sample: bounds computed on them "
        "can be guarantees, under the conditions that each bound lists."
    )
    may_not_claim = (
        "Rows that grew the trees do not count for the guarantee, and rows that are not "
        "independent draws of one distribution break it."
    )
    on_bounds = (
        "The forest was grown on other rows than the linear layer: a risk bound on the rows of "
        "the fit may be a guarantee, and says which of its conditions hold."
    )
    independence = (True, "the forest was grown on the partition fold (PB-02)")
    splits_rows = True

    def rows(self, n_rows: int, groups: AnyArray | None = None) -> tuple[AnyArray, AnyArray]:
        """Two random parts of rows, or of groups.

        Unstratified: given one, the other must be independent draws.
        """
        split: dict[str, Any] = {
            "test_size": self.honest_fraction,
            "random_state": self.random_state,
        }
        if groups is None:
            partition, fit = train_test_split(np.arange(n_rows), **split)
            return partition, fit
        codes = group_codes(groups)
        if len(codes) and codes.max() == 0:
            raise ValueError(
                "regime='honest' keeps groups whole, and all rows are of one group: there is "
                "nothing left for the linear layer. Leave groups out, or use another regime."
            )
        partition, fit = next(GroupShuffleSplit(1, **split).split(codes, groups=codes))
        return partition, fit

    def plan(self, data: FitData, grower: Grower, partition: Any, fit: AnyArray) -> FitPlan:
        """Trees of the partition rows, at the fit rows."""
        if self.center == "zero":
            embedding = grower.plain(data.take(partition)).on(take_rows(data.X, fit))
            return self._on_one_map(data, embedding, partition, fit)
        # A shared model of the partition rows: its trees are used, and its w is shrunk to. Its
        # draws must not move those of this fit.
        seed = copy.deepcopy(self.random_state)
        splitter = replace(self.splitter, random_state=seed)
        shared = Shared(splitter, self.chooses_alpha, self.alpha_selection)
        own = data.alone(partition)
        rows, own_grower = np.arange(len(own)), replace(grower, random_state=seed)
        center: FitPlan | BlendPlan
        if grower.blends:
            center = shared.plan_blend(own, own_grower, rows, rows)
        else:
            plain = shared.plan(own, own_grower, rows, rows)
            center = replace(plain, fit_rows=partition, partition_rows=partition)
        embedding = center.map.on(take_rows(data.X, fit))
        return replace(self._on_one_map(data, embedding, partition, fit), center=center)


class CrossFit(Regime):
    """For each fold q, trees without q and q + 1, the linear layer on q + 1; their average."""

    name, number = "cross-fit", "PB-03"
    in_short = "each fold is fitted on trees that have not seen it"
    saw = (
        "For every fold, the trees were grown without it and without the fold that its linear "
        "layer was fitted on; the model is the average over the folds."
    )
    may_claim = (
        "Every fold's linear layer was fitted on rows that its trees had not seen: bounds can be "
        "guarantees fold by fold."
    )
    may_not_claim = (
        "The bounds of the folds share one probability of failing, and carry over to the average "
        "only for convex losses."
    )
    on_bounds = (
        "Every fold was fitted on trees that have not seen it: risk bounds are taken fold by fold, "
        "and each says of what it speaks and which of its conditions hold."
    )
    independence = (True, "fold by fold, the trees were grown on other folds (PB-03)")
    averages_folds = True

    def plan(self, data: FitData, grower: Grower, partition: Any, fit: AnyArray) -> FitPlan:
        """A map and a linear layer for every fold."""
        rows_of_groups, fits, tests = self._thirds(data)
        blocks, layers, folds = [], [], []
        forests = grower.in_groups(data, rows_of_groups, are_alike=self.leaves_folds_out)
        for q, (rows, of_group) in enumerate(zip(rows_of_groups, forests, strict=True)):
            own = data.take(rows)
            named: list[tuple[str, MapBlock]] = [
                (name, grower.weigh(spec, forest, own).on(data.X))
                for (name, spec), forest in zip(grower.specs, of_group, strict=True)
            ]
            if grower.is_linear:
                named.append((LINEAR, grower.linear_map(own, of_group).on(data.X)))
            embedding = grower.together(named)
            blocks += [(of_fold(name, q), block) for name, block in named_blocks(embedding)]
            fold = Fold.of(MapPart(embedding), fits[q], tests[q])
            layers.append(Layer(fold.train, fold.train_rows, fold.part))
            folds.append(fold)
        return FitPlan(
            BlockMap(blocks),
            fit,
            partition,
            layers,
            folds,
            is_relative=True,
            layers_are_folds=self.leaves_folds_out,
        )

    def plan_blend(self, data: FitData, grower: Grower, partition: Any, fit: AnyArray) -> BlendPlan:
        """Every forest once for each fold; the weights are the same for all folds."""
        rows_of_groups, fits, tests = self._thirds(data)
        everything = np.arange(len(data))
        return BlendPlan(
            cross_fit_blocks(
                data, grower, rows_of_groups, fits, tests, layers_are_folds=self.leaves_folds_out
            ),
            [(np.setdiff1d(everything, test), test) for test in tests],
            fit,
            folds=list(zip(fits, tests, strict=True)),
            weights_are_counted=self.leaves_folds_out,
        )

    def _thirds(self, data: FitData) -> tuple[list[AnyArray], list[AnyArray], list[AnyArray]]:
        """For each fold the rows to grow on, to fit on and to predict."""
        splits = self.splitter.split(data)
        if len(splits) < 3:
            raise ValueError(
                "regime='cross-fit' needs at least 3 folds: one to predict, one to fit on and one "
                f"to grow on; got {len(splits)}."
            )
        tests = [test for _, test in splits]
        fits = [*tests[1:], tests[0]]
        if any(data.weight[rows].sum() == 0 for rows in fits):
            raise ValueError(
                "regime='cross-fit' fits on every fold in turn, and the rows of one have no weight "
                "at all: use fewer folds, or another regime."
            )
        grow = [np.setdiff1d(train, fit) for (train, _), fit in zip(splits, fits, strict=True)]
        return grow, fits, tests


class CrossValidated(CrossFit):
    """For each fold, trees and linear layer of all other rows; the model is their average."""

    name, number = "cross-validated", "after PB-03"
    in_short = "every fold is left out by one part of the model, and bounds its risk"
    saw = (
        "For every fold, trees and linear layer have seen all rows but those of the fold; the "
        "model is the average over the folds, and has used every row."
    )
    may_claim = (
        "Every part of the average is bounded on the fold that it has never seen: bounds of the "
        "average can be guarantees, under the conditions that each bound lists."
    )
    may_not_claim = (
        "Each guarantee is of one predictor, which it names: a part at random, a vote or an "
        "average of the parts, or with unlabelled rows the model itself. Where the folds have "
        "chosen for all parts, it pays for all that might have been chosen; parts that choose for "
        "themselves, nested ones, have nothing to pay for."
    )
    on_bounds = (
        "Every part of the average has left out a fold, which bounds its risk: risk bounds on the "
        "rows of the fit may be guarantees, and each says of what it speaks."
    )
    independence = (
        False,
        "trees and linear layer of a fold have seen the same rows; the fold itself has seen "
        "neither, and bounds that are guarantees are taken there",
    )
    grows_on_fit_rows = True
    leaves_folds_out = True
    # Given the other folds, the rows of a fold must be independent draws.
    stratifies = False

    @property
    def selection(self) -> str:
        """How alpha is chosen: by trees that have not seen the fold, or by each part alone."""
        if not self.chooses_alpha:
            return "given"
        return NESTED if self.is_nested else "fold-grown"

    def plan_nested(self, data: FitData, grower: Grower) -> NestedPlan:
        """For each fold a shared model of all other rows, with folds among these.

        Parameters
        ----------
        data : FitData
            All rows.
        grower : Grower
            The forests, of which every part grows all.

        Returns
        -------
        plan : NestedPlan
        """
        splits = self.splitter.split(data)
        parts: list[tuple[Regime, Grower]] = []
        seeds = seeds_for(check_random_state(self.random_state), len(splits))
        for q, seed in enumerate(seeds):
            # Within a part nothing must be independent: its folds may follow its classes.
            inner = Splitter(INNER_FOLDS, seed, bool(grower.classification), without_fold=q)
            parts.append((Shared(inner, self.chooses_alpha), replace(grower, random_state=seed)))
        return NestedPlan(splits, parts)

    def _thirds(self, data: FitData) -> tuple[list[AnyArray], list[AnyArray], list[AnyArray]]:
        """All rows but those of the fold, to grow on and to fit on."""
        splits = self.splitter.split(data)
        others = [train for train, _ in splits]
        return others, others, [test for _, test in splits]


class Fixed(Regime):
    """The forest is given; that it saw other data is the caller's word."""

    name, number = "fixed", "PB-01"
    in_short = "the forest was given, and has seen other data, as the caller says"
    saw = "The forest was given. The caller says that it was fitted on other data."
    may_claim = (
        "If that is so, all rows of the fit are fresh for the representation, and bounds on them "
        "can be guarantees."
    )
    may_not_claim = (
        "The library cannot check what the forest has seen. If it saw these labels, nothing here "
        "is guaranteed."
    )
    on_bounds = (
        "That the forest was grown on other data is the caller's word: every guarantee rests on it."
    )
    independence = (None, "the caller says that the forest saw other data (PB-01)")
    takes_grown_forest = True

    def rows(self, n_rows: int, groups: AnyArray | None = None) -> tuple[None, AnyArray]:
        """No partition rows: the forest was grown elsewhere."""
        return None, np.arange(n_rows)

    def plan(self, data: FitData, grower: Grower, partition: Any, fit: AnyArray) -> FitPlan:
        """The given forest, at all rows."""
        return self._on_one_map(data, grower.plain(data).on(data.X), None, fit)

    def check_forest(self, spec: Any) -> None:
        """Refuse a forest that is still to be grown."""
        if not is_grown(spec):
            raise ValueError(
                "regime='fixed' takes a forest that was fitted on other data: a kpp "
                "Forest, or sklearn.frozen.FrozenEstimator(fitted_ensemble); got "
                f"{spec!r}."
            )


REGIMES: dict[str, type[Regime]] = {
    regime.name: regime for regime in (Shared, Honest, CrossFit, CrossValidated, Fixed)
}


def regime_of(model: Any) -> type[Regime]:
    """Return the regime of a fitted model.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted.

    Returns
    -------
    regime : type of Regime
        Its name, number, sentences, and what is true of it.

    Examples
    --------
    >>> from kpp.models.regimes import REGIMES
    >>> REGIMES["honest"].number, REGIMES["shared"].independence[0]
    ('PB-02', False)
    """
    return REGIMES[model.regime_]


def _only(embedding: MapBlock) -> Layer:
    return Layer(embedding, np.arange(embedding.shape[0]), MapPart(embedding))
