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

    _packed: dict[str, tuple[PackedArray, PackedArray]]
    _is_leaf: AnyArray

    def __init__(self, statistics: NodeStatistics, forest: Forest) -> None:
        leaf = forest.left < 0
        packed: dict[str, tuple[PackedArray, PackedArray]] = {}
        for name in PER_NODE:
            values = getattr(statistics, name)
            if values is not None:
                packed[name] = PackedArray(values[~leaf]), PackedArray(values[leaf])
        # The fields of a frozen dataclass; those of nodes are properties here.
        vars(self).update(
            classes=statistics.classes,
            grown_on_impurity=statistics.grown_on_impurity,
            _packed=packed,
            _is_leaf=np.packbits(leaf),
        )

    @property
    def n_bytes(self) -> int:
        """Bytes in memory while nothing is written out."""
        parts = (part.n_bytes for pair in self._packed.values() for part in pair)
        return sum(parts) + int(self._is_leaf.nbytes)

    def _written_out(self, name: str) -> Any:
        if name not in self._packed:
            return None
        at_splits, at_leaves = (part.array() for part in self._packed[name])
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
