"""What a regime decides before anything is fitted: maps, rows, folds, and what to shrink to."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePGroupsOut,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils import check_random_state

from kpp._typing import AnyArray
from kpp.geometry.maps import MapBlock
from kpp.models.data import FitData, group_codes
from kpp.models.fits import Center, MapPart

if TYPE_CHECKING:
    from kpp.models.blend_plans import BlendPlan

# Train and test rows of each fold.
Splits = list[tuple[AnyArray, AnyArray]]
# The default of `cv`; very few rows make fewer folds.
USUAL_FOLDS = 5
# Splitters that do not look at labels, by the kind of their folds. A class derived from one may.
KINDS_OF_FOLDS: dict[str, tuple[type, ...]] = {
    "random": (KFold, RepeatedKFold, ShuffleSplit, LeaveOneOut),
    "grouped": (GroupKFold, GroupShuffleSplit, LeaveOneGroupOut, LeavePGroupsOut),
    "stratified": (StratifiedKFold, StratifiedGroupKFold),
}


@dataclass(frozen=True, eq=False)
class Fold:
    """One fold: an embedding that has not seen the test rows, at train and test rows.

    Parameters
    ----------
    train, test : MapBlock
        The same embedding at both sets of rows.
    train_rows, test_rows : int arrays
        Which of the fit rows these are.
    part : MapPart
        The embedding at the train rows, without leaf ids of its own.
    """

    train: MapBlock
    test: MapBlock
    train_rows: AnyArray
    test_rows: AnyArray
    part: MapPart

    @classmethod
    def of(cls, part: MapPart, train_rows: AnyArray, test_rows: AnyArray) -> Fold:
        """Make both sides of a fold from a part of a map."""
        trees = part.make()
        return cls(
            trees.rows(train_rows),
            trees.rows(test_rows),
            train_rows,
            test_rows,
            part.at(train_rows),
        )


@dataclass(frozen=True, eq=False)
class Layer:
    """A linear layer to be fitted.

    Parameters
    ----------
    map : MapBlock
        The embedding at its rows.
    rows : int array
        Which of the fit rows these are.
    part : MapPart
        The same, without leaf ids of its own.
    """

    map: MapBlock
    rows: AnyArray
    part: MapPart


@dataclass(frozen=True, eq=False)
class FitPlan:
    """How a model is fitted.

    Parameters
    ----------
    map : MapBlock
        The model's embedding, at the fit rows.
    fit_rows : int array
        Rows that linear layers are fitted on.
    partition_rows : int array, optional
        Rows that the forest is grown on; None where it was grown on others.
    layers : list of Layer
        One, or several whose average is the model.
    folds : list of Fold
        For the choice of alpha; empty where it is given.
    is_relative : bool
        Whether the maps of the folds differ in scale from the final one, so that alpha is
        carried relative to it; otherwise, as in the paper, it is the same number everywhere.
    center : FitPlan, BlendPlan or Center, optional
        A model that is fitted first, and shrunk to; or its coefficients.
    layers_are_folds : bool
        Whether the layers are those of the folds, each fitted on all rows but its fold: they are
        then the predictors of the folds, too.
    """

    map: MapBlock
    fit_rows: AnyArray
    partition_rows: AnyArray | None
    layers: list[Layer]
    folds: list[Fold]
    is_relative: bool = False
    center: FitPlan | BlendPlan | Center | None = None
    layers_are_folds: bool = False


def plan_on_one_map(
    embedding: MapBlock, fit_rows: AnyArray, partition_rows: AnyArray | None, splits: Splits
) -> FitPlan:
    """One linear layer on a map that its folds share.

    Parameters
    ----------
    embedding : MapBlock
        At the rows of the fit.
    fit_rows, partition_rows
        As in `FitPlan`.
    splits : list of (int array, int array)
        Train and test rows of every fold; none where alpha is given.

    Returns
    -------
    plan : FitPlan
    """
    part, rows = MapPart(embedding), np.arange(embedding.shape[0])
    folds = [Fold.of(part, *own) for own in splits]
    return FitPlan(embedding, fit_rows, partition_rows, [Layer(embedding, rows, part)], folds)


@dataclass(frozen=True, eq=False)
class Splitter:
    """The folds of a fit.

    Parameters
    ----------
    cv : int or splitter
        As the user gave it.
    random_state : int, RandomState or None
        Seed of the folds of a number.
    is_stratified : bool
        Whether a number means folds with the same shares of the classes; with groups it means
        folds of whole groups.
    without_fold : int, optional
        Where the rows are those of a part, the fold that they are without, for messages.
    """

    cv: Any
    random_state: Any
    is_stratified: bool
    without_fold: int | None = None

    def split(self, data: FitData) -> Splits:
        """Train and test rows of every fold; every row is in one test fold."""
        splitter, groups = self._splitter(data)
        with warnings.catch_warnings():
            # A rare class may be absent from a fold; that is provided for.
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
            # What it divides is said below.
            warnings.filterwarnings("ignore", "The groups parameter is ignored", UserWarning)
            splits = list(splitter.split(data.X, data.labels, groups))
        # Out-of-fold scores need one prediction for every row, by a fit that has not seen it.
        tested = np.concatenate([test for _, test in splits])
        if not np.array_equal(np.sort(tested), np.arange(len(data))):
            raise ValueError("cv must put every row into exactly one test fold.")
        if any(len(np.intersect1d(train, test)) for train, test in splits):
            raise ValueError("cv must keep the rows of a test fold out of its training rows.")
        if data.is_weighted and any(data.weight[train].sum() == 0 for train, _ in splits):
            raise ValueError(
                "All sample weight lies in one fold, and nothing is left to fit on when it is held "
                "out: give alpha as a number, or a positive weight to rows of other folds."
            )
        if data.groups is not None:
            _warn_of_divided(data.groups, [test for _, test in splits], self.cv)
        return splits

    def kind(self, *, is_grouped: bool) -> str:
        """How rows, with or without groups, come into folds, as `FitRecord` names it."""
        if isinstance(self.cv, int | np.integer):
            if is_grouped:
                return "grouped"
            return "stratified" if self.is_stratified else "random"
        if type(self.cv) is GroupKFold and not self.cv.shuffle:
            return "given"  # by the sizes of the groups
        kinds = KINDS_OF_FOLDS.items()
        return next((kind for kind, known in kinds if type(self.cv) in known), "given")

    @property
    def _whose(self) -> str:
        if self.without_fold is None:
            return ""
        # A part chooses for itself on the rows that it has: fewer than were given.
        return f" among the rows without fold {self.without_fold} (alpha_selection='nested')"

    def _splitter(self, data: FitData) -> tuple[Any, AnyArray | None]:
        labels = data.labels
        if not isinstance(self.cv, int | np.integer):
            return check_cv(self.cv, labels, classifier=self.is_stratified), data.groups
        if self.cv < 2:
            raise ValueError(f"cv must be at least 2 folds, or a splitter; got {self.cv}.")
        random = check_random_state(self.random_state)
        n_rows = len(labels)
        if n_rows < 2:
            raise ValueError(
                f"alpha='auto' needs at least 2 rows for its folds{self._whose}; got {n_rows}."
            )
        # Very few rows make fewer folds than the usual number; a larger one was asked for.
        if self.cv > max(n_rows, USUAL_FOLDS):
            raise ValueError(f"cv={self.cv} folds need as many rows{self._whose}; got {n_rows}.")
        if data.groups is not None:
            groups = group_codes(data.groups)
            n_groups = int(groups.max()) + 1
            if n_groups < 2:
                raise ValueError(
                    f"Folds of whole groups need at least 2 groups{self._whose}, and these rows "
                    "are of one: give alpha as a number, or more groups."
                )
            if self.cv > max(n_groups, USUAL_FOLDS):
                raise ValueError(
                    f"cv={self.cv} folds of whole groups need as many groups; got {n_groups}."
                )
            return GroupKFold(min(self.cv, n_groups), shuffle=True, random_state=random), groups
        # StratifiedKFold refuses more folds than rows of the largest class.
        largest = np.unique(labels, return_counts=True)[1].max() if self.is_stratified else 0
        if largest >= 2:
            if self.cv > max(largest, USUAL_FOLDS):
                raise ValueError(
                    f"cv={self.cv} folds, each with its share of every class, need a class of as "
                    f"many rows, and the largest has {largest}: give fewer, or KFold({self.cv}, "
                    "shuffle=True)."
                )
            stratified = StratifiedKFold(min(self.cv, largest), shuffle=True, random_state=random)
            return stratified, None
        return KFold(min(self.cv, n_rows), shuffle=True, random_state=random), None


def divided_groups(codes: AnyArray, sets_of_rows: list[AnyArray]) -> int:
    """Count the groups with rows in more than one of several disjoint sets of rows."""
    n_sets = np.zeros(int(codes.max()) + 1, dtype=np.int64)
    for rows in sets_of_rows:
        n_sets[np.unique(codes[rows])] += 1
    return int((n_sets > 1).sum())


def _warn_of_divided(groups: AnyArray, tests: list[AnyArray], cv: Any) -> None:
    codes = group_codes(groups)
    divided = divided_groups(codes, tests)
    if divided:
        warnings.warn(
            f"cv={cv!r} divides {divided} of {int(codes.max()) + 1} groups between folds: a fold "
            "is then scored by a fit that has seen rows of its groups. Give cv as a number, or a "
            "splitter that keeps groups whole, as GroupKFold.",
            UserWarning,
            stacklevel=2,
        )
