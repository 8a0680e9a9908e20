"""Arrays over rows that live on the workers of a cluster, partition by partition.

A `Rows` stands for one: solvers write ``a * b`` or ``c -= d`` as for NumPy's. Nothing is computed
until a number is asked for that is a sum over rows. Then all that was written down since the last
time is one task for each partition, which runs where the partition is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from kpp._typing import AnyArray
from kpp.dask.programs import Node, PerPartition, Program, program_of, run_program
from kpp.dask.session import Result, Session

# Up to so many partitions their numbers come here one by one: another round of tasks costs more.
FEW_PARTITIONS = 32


class Partitions:
    """How rows are cut, and what is still to be computed of arrays over them.

    Parameters
    ----------
    session : Session
        The cluster.
    lengths : sequence of int
        Rows of each partition.
    """

    def __init__(self, session: Session, lengths: Sequence[int]) -> None:
        self.session = session
        self.lengths = [int(n) for n in lengths]
        self.n_rows = sum(self.lengths)
        self._unknown: WeakValueDictionary[int, Rows] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self.lengths)

    def rows(self, parts: list[Result], meta: AnyArray, axis: int = 0) -> Rows:
        """Arrays that are there, as one; `meta` is such an array without rows."""
        return Rows(self, Node(parts=parts), meta, axis)

    def zeros(self, shape: Sequence[int], axis: int = 0) -> Rows:
        """Zeros over the rows."""
        empty = [*shape[:axis], 0, *shape[axis + 1 :]]
        parts = [[*shape[:axis], n, *shape[axis + 1 :]] for n in self.lengths]
        # The only argument that differs from partition to partition.
        node = Node(np.zeros, [PerPartition(parts)])
        return self.track(Rows(self, node, np.zeros(empty), axis))

    def track(self, rows: Rows) -> Rows:
        """Remember an array whose value is still to be computed."""
        self._unknown[id(rows)] = rows
        return rows

    def settle(self) -> None:
        """Compute whatever is written down and still in use, one task for each partition."""
        nodes = {id(rows.node): rows.node for rows in list(self._unknown.values())}
        self._unknown.clear()
        self.compute([node for node in nodes.values() if node.parts is None])

    def compute(self, nodes: list[Node]) -> None:
        """Compute some nodes, and keep their values; what they are made of is not kept."""
        if not nodes:
            return
        steps, inputs = program_of(nodes)
        places = [steps.place[id(node)] for node in nodes]
        columns = [node.parts for node in inputs]
        items = [node.item for node in inputs]
        parts = self.session.each(
            "rows",
            run_program,
            list(range(len(self))),
            Program(steps.calls, items, places),
            *columns,
        )
        for k, node in enumerate(nodes):
            node.known_as(parts, k if len(nodes) > 1 else None)

    def reduce(
        self,
        function: Callable[..., Any],
        combine: Callable[..., Any],
        *arrays: Any,
        what: str = "reduce",
    ) -> Any:
        """Compute a small value of every partition, and put them together as a tree.

        Parameters
        ----------
        function : callable
            Of the pieces of the arrays in a partition.
        combine : callable
            Of several values.
        *arrays : Rows, or anything that is the same for all partitions
            Its arguments.
        what : str
            For the dashboard.

        Returns
        -------
        value : object
            Here, not on a worker.
        """
        tasks = self._reduction(function, arrays, what)
        if len(self) <= FEW_PARTITIONS:
            return combine(*self.session.gather(self.session.run(tasks, list(tasks))))
        last = self.session.tree(tasks, list(tasks), combine)
        return self.session.gather(self.session.run(tasks, [last])[0])

    def small(
        self, function: Callable[..., Any], combine: Callable[..., Any], *arrays: Any
    ) -> Small:
        """As `reduce`, but the value stays on a worker until it is looked at."""
        tasks = self._reduction(function, arrays, "reduce")
        last = self.session.tree(tasks, list(tasks), combine)
        (found,) = self.session.run(tasks, [last])
        metas = [array.meta if isinstance(array, Rows | Small) else array for array in arrays]
        node = Node(parts=[found] * len(self))
        return Small(self.session, node, np.asarray(function(*metas)))

    def _reduction(
        self, function: Callable[..., Any], arrays: Sequence[Any], what: str
    ) -> dict[str, Any]:
        """The tasks of the partitions."""
        self.settle()
        for rows in arrays:
            if isinstance(rows, Rows) and rows.node.parts is None:
                self.compute([rows.node])
        known = [rows.node if isinstance(rows, Rows | Small) else None for rows in arrays]
        items = tuple(None if node is None else node.item for node in known)
        start, tasks = self.session.key(what), {}
        for p in range(len(self)):
            key = f"{start}-{p}"
            own = (_part(array, p) for array in arrays)
            tasks[key] = self.session.task(key, _call, function, items, *own)
        return tasks


class Rows(NDArrayOperatorsMixin):
    """An array with one entry, or several, for each row; its pieces are on the workers.

    Parameters
    ----------
    partitions : Partitions
        How the rows are cut.
    node : Node
        Its value.
    meta : array
        An array of the same kind without rows.
    axis : int
        The axis of the rows.
    """

    def __init__(self, partitions: Partitions, node: Node, meta: AnyArray, axis: int = 0) -> None:
        self.partitions, self.node, self.meta, self.axis = partitions, node, meta, axis

    # What NumPy's arrays say of themselves.

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths, with the rows of all partitions."""
        own = list(self.meta.shape)
        own[self.axis] = self.partitions.n_rows
        return tuple(own)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return int(self.meta.ndim)

    @property
    def dtype(self) -> Any:
        """Type of the entries."""
        return self.meta.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *args: Any, **kwargs: Any) -> AnyArray:
        raise TypeError(
            "These rows are on the workers of a cluster: Rows.collect() would bring them here."
        )

    def collect(self) -> AnyArray:
        """Bring all rows here."""
        self.settle()
        parts = self.node.parts
        assert parts is not None
        if self.node.item is not None:
            parts = self.partitions.session.each("take", operator.getitem, parts, self.node.item)
        return np.concatenate(self.partitions.session.gather(parts), axis=self.axis)

    def settle(self) -> None:
        """Compute it now, by itself, so that it keeps nothing else in memory."""
        if self.node.parts is None:
            self.partitions.compute([self.node])

    def pieces(self) -> list[tuple[Result, int | None]]:
        """Its value in each partition: a result, and the place in it."""
        self.settle()
        assert self.node.parts is not None
        return [(part, self.node.item) for part in self.node.parts]

    # Entry by entry.

    def map(
        self, function: Callable[..., Any], *others: Any, axis: int | None = None, **kwargs: Any
    ) -> Rows:
        """Apply a function of rows to each partition, later; it must not change its arguments."""
        args = [self, *others]
        metas = [array.meta if isinstance(array, Rows | Small) else array for array in args]
        nodes = [array.node if isinstance(array, Rows | Small) else array for array in args]
        node = Node(function, nodes, kwargs)
        meta = function(*metas, **kwargs)
        own = self.axis if axis is None else axis
        return self.partitions.track(Rows(self.partitions, node, meta, own))

    def become(self, other: Rows) -> Rows:
        """Take another's value: what NumPy's arrays do in place."""
        self.node, self.meta, self.axis = other.node, other.meta, other.axis
        return self.partitions.track(self) if self.node.parts is None else self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if method != "__call__" or ufunc.nout != 1 or kwargs:
            return NotImplemented
        if ufunc is np.matmul:
            return _product(*inputs)
        ndim = max(np.ndim(array) for array in inputs)
        axes = {array.axis + ndim - array.ndim for array in inputs if isinstance(array, Rows)}
        for array in inputs:
            if not isinstance(array, Rows) and np.ndim(array) >= ndim - min(axes):
                along = np.shape(array)[min(axes) - ndim]
                if along != 1:
                    raise TypeError(f"An array of {along} rows here, and rows on workers.")
        if len(axes) != 1:
            raise ValueError("Rows along different axes.")
        first = next(array for array in inputs if isinstance(array, Rows))
        found = first.map(_ufunc, ufunc, *_hidden(inputs, first), axis=axes.pop())
        if out is None:
            return found
        (own,) = out
        return own.become(found)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function not in FUNCTIONS:
            return NotImplemented
        return FUNCTIONS[function](*args, **kwargs)

    def __getitem__(self, key: Any) -> Rows:
        key = key if isinstance(key, tuple) else (key,)
        old, new, axis = 0, 0, None
        for part in key:
            if part is None:
                new += 1
                continue
            if old == self.axis:
                if part != slice(None):
                    raise TypeError("Rows on workers are not chosen by their number.")
                axis = new
            old += 1
            new += not isinstance(part, int | np.integer)
        axis = new + self.axis - old if axis is None else axis
        return self.map(operator.getitem, key, axis=axis)

    @property
    def T(self) -> Rows:
        """Transposed."""
        return self.map(np.transpose, axis=self.ndim - 1 - self.axis)

    def reshape(self, *shape: int) -> Rows:
        """Only as columns: ``reshape(n_rows, -1)``."""
        if self.axis != 0 or shape != (self.partitions.n_rows, -1):
            raise TypeError(f"Rows on workers are not reshaped to {shape}.")
        return self.map(_as_columns)

    def copy(self) -> Rows:
        """Another array of the same value."""
        found = Rows(self.partitions, self.node, self.meta, self.axis)
        return self.partitions.track(found) if self.node.parts is None else found

    def astype(self, dtype: Any) -> Rows:
        """The same in another type."""
        return self.map(_astype, np.dtype(dtype).str)

    # Numbers of all rows.

    def sum(self, axis: int | None = None) -> Any:
        """Sum over all entries, or over the rows."""
        if axis is not None and axis != self.axis:
            raise TypeError("A sum over rows on workers is over all entries, or over rows.")
        return self.partitions.reduce(row_sum, add, self, axis)

    def min(self, axis: int = 0) -> Any:
        """Least entry of each column."""
        return self.partitions.reduce(_least, _minimum, self)

    def max(self, axis: int = 0) -> Any:
        """Largest entry of each column."""
        return self.partitions.reduce(_most, maximum, self)

    def any(self) -> bool:
        """Whether some entry is not 0."""
        return bool(self.partitions.reduce(_any, add, self))


class Small(NDArrayOperatorsMixin):
    """A number, or few, that is a sum over rows: on a worker, until somebody looks at it.

    Parameters
    ----------
    session : Session
        The cluster.
    node : Node
        Its value, the same for all partitions.
    meta : array
        Of its shape.
    """

    def __init__(self, session: Session, node: Node, meta: AnyArray) -> None:
        self.session, self.node, self.meta = session, node, meta
        self.shape, self.ndim = meta.shape, meta.ndim
        self._value: AnyArray | None = None

    def __array__(self, *args: Any, **kwargs: Any) -> AnyArray:
        if self._value is None:
            assert self.node.parts is not None
            self._value = np.asarray(self.session.gather(self.node.parts[0]))
        return self._value

    def __float__(self) -> float:
        return float(np.asarray(self))

    def __bool__(self) -> bool:
        return bool(np.asarray(self))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(array, Rows) for array in inputs):
            return NotImplemented
        here = [np.asarray(array) if isinstance(array, Small) else array for array in inputs]
        return getattr(ufunc, method)(*here, **kwargs)


# Of one partition.


def _part(array: Any, p: int) -> Any:
    if not isinstance(array, Rows | Small):
        return array
    assert array.node.parts is not None
    return array.node.parts[p]


def _call(function: Callable[..., Any], items: Sequence[int | None], *args: Any) -> Any:
    pairs = zip(args, items, strict=True)
    return function(*(arg if item is None else arg[item] for arg, item in pairs))


# Functions of pieces.


def add(*parts: Any) -> Any:
    """Sum of several values, in order."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _hidden(inputs: Sequence[Any], first: Rows) -> list[Any]:
    """Arguments of a ufunc after its first array over rows, with their places."""
    place = next(k for k, array in enumerate(inputs) if array is first)
    return [place, *inputs[:place], *inputs[place + 1 :]]


def _ufunc(first: AnyArray, ufunc: Any, place: int, *others: Any) -> AnyArray:
    found: AnyArray = ufunc(*others[:place], first, *others[place:])
    return found


def _product(a: Any, b: Any) -> Any:
    """``a @ b`` where the sum is over rows: of vectors, or of a vector and columns."""
    if isinstance(a, Rows) and isinstance(b, Rows) and a.ndim == 1 and b.axis == 0:
        return a.partitions.small(_matmul, add, a, b)
    raise TypeError("A product of matrices over rows on workers is not known.")


def _matmul(a: AnyArray, b: AnyArray) -> Any:
    return a @ b


def row_sum(a: AnyArray, axis: int | None) -> Any:
    """Sum over all entries, or along an axis."""
    return a.sum(axis=axis)


def _any(a: AnyArray) -> int:
    return int(a.any())


def _least(a: AnyArray) -> AnyArray:
    return a.astype(np.float64).min(axis=0, initial=np.inf)


def _most(a: AnyArray) -> AnyArray:
    return a.astype(np.float64).max(axis=0, initial=-np.inf)


def _minimum(*parts: Any) -> Any:
    return np.minimum.reduce(parts)


def maximum(*parts: Any) -> Any:
    """Largest of several values, entry by entry."""
    return np.maximum.reduce(parts)


def _as_columns(a: AnyArray) -> AnyArray:
    return a[:, None] if a.ndim == 1 else a.reshape(len(a), int(np.prod(a.shape[1:])))


def _astype(a: AnyArray, dtype: str) -> AnyArray:
    return a.astype(dtype)


def _stacked(first: AnyArray, axis: int, *others: AnyArray) -> AnyArray:
    return np.stack([first, *others], axis=axis)


def stack(arrays: Sequence[Rows], axis: int = 0) -> Rows:
    """Arrays over rows side by side, along a new axis."""
    first, *others = arrays
    own = first.axis + (axis <= first.axis)
    return first.map(_stacked, axis, *others, axis=own)


def _zeros_like(a: Rows) -> Rows:
    return a.map(np.zeros_like)


def _einsum(rule: str, *arrays: Rows) -> Any:
    """Einstein's sum; over rows it is a number, or few, here."""
    sides, result = rule.split("->")
    named = zip(sides.split(","), arrays, strict=True)
    letters = {side[array.axis] for side, array in named if isinstance(array, Rows)}
    (letter,) = letters
    first = next(array for array in arrays if isinstance(array, Rows))
    if letter in result:
        others = [array for array in arrays if array is not first]
        assert arrays[0] is first
        return first.map(_einsum_of, rule, *others, axis=result.index(letter))
    return first.partitions.reduce(_einsum_at, add, rule, *arrays)


def _einsum_of(first: AnyArray, rule: str, *others: AnyArray) -> AnyArray:
    return _einsum_at(rule, first, *others)


def _einsum_at(rule: str, *arrays: AnyArray) -> AnyArray:
    return np.einsum(rule, *arrays)


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.ndim: operator.attrgetter("ndim"),
    np.shape: operator.attrgetter("shape"),
    np.zeros_like: _zeros_like,
    np.empty_like: _zeros_like,
    np.einsum: _einsum,
    np.stack: stack,
}
