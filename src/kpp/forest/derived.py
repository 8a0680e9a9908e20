"""Arrays of a forest that the others imply: dropped where nobody needs them, made on request."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kpp._typing import AnyArray, IntArray
from kpp.forest._loops import depth_first_numbers
from kpp.forest.layout import LEAF, NUMERICAL

if TYPE_CHECKING:
    from kpp.forest.arrays import Forest


def parents(forest: Forest) -> IntArray:
    """Return the parent of each node, -1 at roots, from the left children."""
    parent = np.full(forest.n_nodes, -1, dtype=np.int32)
    splits = np.flatnonzero(forest.left >= 0).astype(np.int32)
    children = forest.left[splits]
    parent[children] = parent[children + 1] = splits
    parent.flags.writeable = False
    return parent


def depth_first(forest: Forest) -> IntArray:
    """Return the number of each node in a walk through its tree that goes left first.

    These are the numbers that scikit-learn gives to nodes, unless ``max_leaf_nodes`` is set.
    """
    numbers = np.empty(forest.n_nodes, dtype=np.int32)
    depth_first_numbers(forest.tree_offsets, forest.left, numbers)
    numbers.flags.writeable = False
    return numbers


def all_numerical(forest: Forest) -> AnyArray:
    """Return the kinds of nodes where every split is numerical."""
    kind = np.where(forest.left < 0, np.uint8(LEAF), np.uint8(NUMERICAL))
    kind.flags.writeable = False
    return kind


def let_go(forest: Forest) -> None:
    """Drop what a forest implies; it is made again, and kept, when it is asked for.

    The parents, the source's numbers where these count the nodes depth first, and the kinds of
    nodes where no split is categorical.

    Parameters
    ----------
    forest : Forest
        Looks the same from outside, in 10 bytes less for each node.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import ExtraTreesRegressor
    >>> from kpp import Forest
    >>> from kpp.forest.derived import let_go
    >>> model = ExtraTreesRegressor(5, random_state=0).fit(*load_diabetes(return_X_y=True))
    >>> forest = Forest.from_model(model)
    >>> before = forest.parent, forest.source_leaf
    >>> let_go(forest)
    >>> "parent" in vars(forest), "source_leaf" in vars(forest)
    (False, False)
    >>> bool((forest.parent == before[0]).all() and (forest.source_leaf == before[1]).all())
    True
    """
    forget_numbers(forest)
    if np.array_equal(forest.split_kind, all_numerical(forest)):
        vars(forest).pop("split_kind", None)
    for name in ("parent", "is_leaf", "nodes"):  # the last holds the parents, too
        vars(forest).pop(name, None)


def forget_numbers(forest: Forest) -> None:
    """Drop the source's numbers where these count the nodes depth first, as scikit-learn's do."""
    if np.array_equal(forest.source_leaf, depth_first(forest)):
        vars(forest).pop("source_leaf", None)


def stands_in(owner: type, name: str, make: Callable[[Any], AnyArray]) -> None:
    """Let a field that an object does not hold be made when it is asked for, and kept.

    Set on the finished class: in its body it would be the default of the field.
    """
    missing: Any = cached_property(make)
    missing.__set_name__(owner, name)
    setattr(owner, name, missing)
