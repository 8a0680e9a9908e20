"""What an importer declares: the classes it reads, how, and what else is known of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from sklearn.utils.validation import check_is_fitted

from kpp.forest.arrays import Forest


@dataclass(frozen=True)
class Traits:
    """What a fit must know of an ensemble before it is grown.

    Parameters
    ----------
    combines : {"mean", "sum"}
        Whether a prediction averages the trees, or adds them to an initial value.
    supervised : bool
        Whether its trees are grown on a target.
    takes_frames : bool
        Whether it reads the columns of a data frame itself, categories included.
    one_target : bool
        Whether it cannot be grown for several targets at once.
    splits_into_groups : bool
        Whether its trees may be shared out over groups, by ``n_estimators``. A booster keeps
        all its rounds in every group: each of its trees corrects those before it.
    independent_trees : bool
        Whether its trees are independent given the rows that they are grown on.
    by_columns_alone : bool
        Whether its trees follow from X, without labels and without chance: the same ones serve
        all groups of a fit, and its splits, which nothing has chosen, count alike.
    """

    combines: Literal["mean", "sum"] = "mean"
    supervised: bool = True
    takes_frames: bool = False
    one_target: bool = False
    splits_into_groups: bool = False
    independent_trees: bool = False
    by_columns_alone: bool = False


@dataclass(frozen=True)
class Importer:
    """How one family of ensembles becomes a `Forest`.

    Parameters
    ----------
    classes : tuple of type
        What it reads; subclasses are read alike.
    read : callable
        Takes a fitted ensemble and returns a `Forest`.
    traits : Traits
        What is known of these classes.
    supported : str
        What an error that lists the supported ensembles calls them.
    check_fitted : callable
        Raises where a model is not fitted; scikit-learn's way, which not every library follows.
    takes_rows : bool
        Whether `read` also takes rows: the library does not keep the names of its categories.
    """

    classes: tuple[type, ...]
    read: Callable[..., Forest]
    traits: Traits
    supported: str
    # The same for an ensemble that nobody else has: its trees are let go as they are read.
    read_once: Callable[[Any], Forest] | None = None
    check_fitted: Callable[[Any], None] = check_is_fitted
    takes_rows: bool = False
