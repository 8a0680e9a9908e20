"""Node statistics in less memory, written out when they are asked for.

Most leaves of unpruned trees hold one row: their counts and variances are alike, and their means
are values of the target, each once in every tree. Such numbers are a table of those that differ
and their places in it; counts of rows and shares of classes are such numbers at splits, too.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.forest.statistics import NodeStatistics

if TYPE_CHECKING:
    from kpp.forest.arrays import Forest

PER_NODE = ("count", "mean", "variance", "class_share")
# Numbers that are looked at first: where most of these differ there is no use in a table.
N_TRIED = 4096


class PackedArray:
    """An array of float64 as a table and places in it, or as it is where that is no longer.

    Bits are kept: zeros of both signs, and NaN, are different entries.

    Parameters
    ----------
    values : array of float64
        Any shape.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest.packed import PackedArray
    >>> packed = PackedArray(np.repeat([0.5, -0.0], 1000))
    >>> packed.n_bytes, packed.array()[[0, -1]]
    (2016, array([ 0.5, -0. ]))
    """

    def __init__(self, values: FloatArray) -> None:
        self.shape = values.shape
        bits = np.ascontiguousarray(values, dtype=np.float64).reshape(-1).view(np.int64)
        self.places: AnyArray | None = None
        table = bits
        tried = bits[:: max(1, len(bits) // N_TRIED)]
        if len(np.unique(tried)) <= len(tried) // 2 or len(bits) <= N_TRIED:
            known = np.unique(bits)
            kinds = (np.uint8, np.uint16, np.uint32)
            kind = next(k for k in kinds if len(known) - 1 <= np.iinfo(k).max)
            if known.nbytes + len(bits) * np.dtype(kind).itemsize < bits.nbytes:
                self.places = np.searchsorted(known, bits).astype(kind)
                table = known
        self.table = table.copy() if table is bits else table

    @property
    def n_bytes(self) -> int:
        """Bytes in memory."""
        return self.table.nbytes + (0 if self.places is None else self.places.nbytes)

    def array(self) -> FloatArray:
        """Return the values, as a new array."""
        bits = self.table.copy() if self.places is None else self.table[self.places]
        return bits.view(np.float64).reshape(self.shape)


class PackedTogether:
    """Several arrays of float64 over the same nodes as one table and one place for each node.

    A leaf of one row has the mean, the rounding of the variance and the count of that row: one
    place instead of three.

    Parameters
    ----------
    arrays : list of arrays of float64
        Of the same length, at least one.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest.packed import PackedTogether
    >>> packed = PackedTogether([np.tile([1.0, 2.0], 500), np.ones((1000, 2))])
    >>> packed.n_bytes, [a.shape for a in packed.arrays()]
    (1048, [(1000,), (1000, 2)])
    """

    def __init__(self, arrays: list[FloatArray]) -> None:
        bits = [np.ascontiguousarray(a, dtype=np.float64).view(np.int64) for a in arrays]
        n_nodes = len(bits[0])
        together = np.zeros(n_nodes, dtype=np.int64)
        for column in (c for array in bits for c in array.reshape(n_nodes, -1).T):
            known, codes = np.unique(column, return_inverse=True)
            # Numbers below n^2, and again below n: pairs of a number and a code.
            pairs = together * len(known) + codes.ravel()
            together = np.unique(pairs, return_inverse=True)[1].ravel()
        _, first = np.unique(together, return_index=True)
        kinds = (np.uint8, np.uint16, np.uint32)
        kind = next(k for k in kinds if len(first) <= np.iinfo(k).max + 1)
        self.places = together.astype(kind)
        self.tables = [array[first] for array in bits]

    @property
    def n_bytes(self) -> int:
        """Bytes in memory."""
        return self.places.nbytes + sum(table.nbytes for table in self.tables)

    def arrays(self) -> list[FloatArray]:
        """Return the values, as new arrays."""
        return [table[self.places].view(np.float64) for table in self.tables]


class PackedStatistics(NodeStatistics):
    """`NodeStatistics` in less memory; each array is written out, and kept, when it is asked for.

    Parameters
    ----------
    statistics : NodeStatistics
        All of it.
    forest : Forest
        Its trees: splits and leaves are packed apart, for they have little in common.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import ExtraTreesRegressor
    >>> from kpp import Forest
    >>> from kpp.forest.packed import PackedStatistics
    >>> model = ExtraTreesRegressor(5, random_state=0).fit(*load_diabetes(return_X_y=True))
    >>> forest = Forest.from_model(model)
    >>> packed = PackedStatistics(forest.statistics, forest)
    >>> bool((packed.mean == forest.statistics.mean).all())
    True
    """

    _at_splits: dict[str, PackedArray]
    _at_leaves: dict[str, PackedArray]  # empty where they are packed together
    _together: PackedTogether | None
    _is_leaf: AnyArray

    def __init__(self, statistics: NodeStatistics, forest: Forest) -> None:
        leaf = forest.left < 0
        known = {n: v for n in PER_NODE if (v := getattr(statistics, n)) is not None}
        at_leaves = {name: PackedArray(values[leaf]) for name, values in known.items()}
        together = PackedTogether([values[leaf] for values in known.values()])
        if together.n_bytes < sum(part.n_bytes for part in at_leaves.values()):
            at_leaves = {}
        # The fields of a frozen dataclass; those of nodes are properties here.
        vars(self).update(
            classes=statistics.classes,
            grown_on_impurity=statistics.grown_on_impurity,
            _at_splits={name: PackedArray(values[~leaf]) for name, values in known.items()},
            _at_leaves=at_leaves,
            _together=None if at_leaves else together,
            _is_leaf=np.packbits(leaf),
        )

    @property
    def n_bytes(self) -> int:
        """Bytes in memory while nothing is written out."""
        parts = [*self._at_splits.values(), *self._at_leaves.values()]
        together = 0 if self._together is None else self._together.n_bytes
        return sum(part.n_bytes for part in parts) + together + int(self._is_leaf.nbytes)

    def _written_out(self, name: str) -> Any:
        if name not in self._at_splits:
            return None
        at_splits = self._at_splits[name].array()
        if self._together is None:
            at_leaves = self._at_leaves[name].array()
        else:
            at_leaves = self._together.arrays()[list(self._at_splits).index(name)]
        n_nodes = len(at_splits) + len(at_leaves)
        leaf = np.unpackbits(self._is_leaf, count=n_nodes).astype(bool)
        values = np.empty((n_nodes, *at_splits.shape[1:]))
        values[~leaf], values[leaf] = at_splits, at_leaves
        values.flags.writeable = False
        return values

    count = cached_property(lambda self: self._written_out("count"))
    mean = cached_property(lambda self: self._written_out("mean"))
    variance = cached_property(lambda self: self._written_out("variance"))
    class_share = cached_property(lambda self: self._written_out("class_share"))

    def plain(self) -> NodeStatistics:
        """Return the same as plain arrays."""
        arrays = {name: self._written_out(name) for name in PER_NODE}
        return NodeStatistics(
            **arrays, classes=self.classes, grown_on_impurity=self.grown_on_impurity
        )

    def take(self, order: AnyArray | slice) -> NodeStatistics:
        """Return the statistics of some nodes, in the given order."""
        return self.plain().take(order)
