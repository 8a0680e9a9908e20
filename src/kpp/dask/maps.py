r"""The embedding at rows on the workers of a cluster.

A partition keeps, for each of its rows and each tree, the place of the leaf among the leaves of the
tree: two bytes for trees of up to 65,536 leaves. A product :math:`\Phi \Phi^\top r` is

1. on every partition the sums of :math:`r_i` over the rows in each leaf,
2. their sum over the partitions, as a tree of tasks,
3. one pass up and one pass down the nodes, on one worker: sums of leaves become sums of nodes,
   which times :math:`s_v^2` are added up along the paths, back to one number for each leaf,
4. on every partition the sum of these numbers over the leaves of each row.

What travels is one number per leaf, up and down; nodes above the leaves, and rows, stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray, OffsetArray
from kpp.dask._loops import add_to_leaves, take_from_leaves
from kpp.dask.rows import Partitions, Rows, add
from kpp.dask.session import Result
from kpp.dask.specs import Task, TaskRef
from kpp.dask.vectors import DaskVectors
from kpp.geometry.composed import named_blocks
from kpp.geometry.maps import MapBlock, PathMap
from kpp.models.fits import MapPart

MOST_SHORT = np.iinfo(np.uint16).max + 1


@dataclass(frozen=True, eq=False)
class Outline:
    """What a partition must know of a map: where the leaves of each tree stand.

    Parameters
    ----------
    first : list of int array of shape (n_trees + 1,), or None
        For each block where the leaves of its trees begin; None for linear terms.
    stops : int array of shape (n_blocks + 1,)
        Where the numbers of each block begin and end.
    """

    first: list[OffsetArray | None]
    stops: AnyArray

    @classmethod
    def of(cls, embedding: MapBlock) -> Outline:
        """Read a map."""
        first: list[OffsetArray | None] = []
        sizes = [0]
        for _, block in named_blocks(embedding):
            if isinstance(block, PathMap):
                counts = np.add.reduceat(block.forest.is_leaf.astype(np.int64), block.forest.roots)
                first.append(np.concatenate([[0], np.cumsum(counts)]))
                sizes.append(int(counts.sum()))
            else:
                first.append(None)
                sizes.append(block.shape[1])
        return cls(first, np.cumsum(sizes))

    @property
    def length(self) -> int:
        """Numbers of all blocks: what travels in a product, for each column."""
        return int(self.stops[-1])

    def sums(self, routed: Sequence[AnyArray], r: FloatArray) -> FloatArray:
        """Sums over the rows in each leaf, shape (n_columns, length)."""
        columns = np.atleast_2d(r.T)
        out = np.zeros((len(columns), self.length))
        for k, column in enumerate(columns):
            values = np.ascontiguousarray(column, dtype=np.float64)
            for b, first in enumerate(self.first):
                own = out[k, self.stops[b] : self.stops[b + 1]]
                if first is None:
                    own += values @ routed[b]
                else:
                    add_to_leaves(routed[b], first, values, own)
        return out

    def at_rows(self, routed: Sequence[AnyArray], values: FloatArray, ndim: int) -> FloatArray:
        """Add up numbers of leaves for each row, shape (n_rows,) or (n_rows, n_columns)."""
        n_rows = routed[0].shape[0 if self.first[0] is None else 1]
        out = np.zeros((len(values), n_rows))
        for total, column in zip(out, values, strict=True):
            for b, first in enumerate(self.first):
                own = column[self.stops[b] : self.stops[b + 1]]
                if first is None:
                    total += routed[b] @ own
                else:
                    take_from_leaves(routed[b], first, own, total)
        return out[0] if ndim == 1 else np.ascontiguousarray(out.T)


class DaskMap:
    """An embedding at rows on workers; `kpp.solvers` takes it as it takes any map.

    Parameters
    ----------
    partitions : Partitions
        How the rows are cut.
    embedding : MapBlock
        The map; its own rows do not count.
    routed : list of Result
        Places of leaves in each partition, from `routed_rows`.
    """

    def __init__(
        self, partitions: Partitions, embedding: MapBlock, kept: Result, routed: list[Result]
    ) -> None:
        self.partitions, self.embedding = partitions, embedding
        self.shape = (partitions.n_rows, embedding.shape[1])
        self.vectors = DaskVectors(partitions)
        self.outline = Outline.of(embedding)
        self._kept, self.routed = kept, routed

    @classmethod
    def on(cls, partitions: Partitions, embedding: MapBlock, X: list[Result]) -> DaskMap:
        """Route the rows of every partition."""
        session = partitions.session
        kept = session.keep("map", embedding)
        routed = session.each("route", routed_rows, kept, X)
        return cls(partitions, embedding, kept, routed)

    def gram_matvec(self, r: Any) -> Any:
        """Return ``Phi Phi' r`` for a vector, or columns, over the rows."""
        return self._at_rows(spread_sums, r)

    def gram_operator(self) -> Callable[[Any], Any]:
        """Return ``r -> gram_matvec(r)``: the places of leaves are all that is prepared."""
        return self.gram_matvec

    def gram(self) -> FloatArray:
        """Refuse: all pairs of rows on workers are never asked for."""
        raise TypeError("The Gram of rows on workers is not written out.")

    def row_norms(self, *, squared: bool = False) -> Any:
        """Norms of the rows."""
        session = self.partitions.session
        key = session.key("norms")
        (values,) = session.run({key: session.task(key, leaf_norms, self._kept)}, [key])
        parts = session.each("norms", _row_norms, self.outline, self.routed, values)
        norms = self.partitions.rows(parts, np.zeros(0))
        return norms if squared else np.sqrt(norms)

    def coefficients(self, dual: Rows) -> FloatArray:
        """Return ``w = Phi' r``, here, shape (n_columns, m)."""
        session = self.partitions.session
        tasks, total = self._sums(dual)
        key = session.key("coefficients")
        tasks[key] = session.task(key, node_coefficients, self._kept, TaskRef(total))
        found: FloatArray = session.gather(session.run(tasks, [key])[0])
        return found

    def leaf_sums(self, r: Rows) -> FloatArray:
        """Sums of columns over the rows in each leaf, here, shape (n_columns, n_leaves)."""
        session = self.partitions.session
        tasks, total = self._sums(r)
        found: FloatArray = session.gather(session.run(tasks, [total])[0])
        return found

    def scores(self, node_coef: FloatArray) -> Rows:
        """Return ``Phi w`` for the rows of w, shape (n_rows, n_scores)."""
        session = self.partitions.session
        key = session.key("coefficients")
        task = session.task(key, leaf_scores, self._kept, np.atleast_2d(node_coef))
        (values,) = session.run({key: task}, [key])
        parts = session.each("scores", self.outline.at_rows, self.routed, values, 2)
        return self.partitions.rows(parts, np.zeros((0, len(np.atleast_2d(node_coef)))))

    def _sums(self, r: Rows) -> tuple[dict[str, Task], str]:
        """Tasks of the first half of a product, and the name of the last."""
        self.partitions.settle()
        session, tasks, names = self.partitions.session, {}, []
        start = session.key("leaf_sums")
        for p, (part, item) in enumerate(r.pieces()):
            key = f"{start}-{p}"
            tasks[key] = session.task(key, _leaf_sums, self.outline, self.routed[p], part, item)
            names.append(key)
        return tasks, session.tree(tasks, names, add)

    def _at_rows(self, spread: Callable[..., Any], r: Rows) -> Rows:
        session = self.partitions.session
        tasks, total = self._sums(r)
        key = session.key("nodes")
        tasks[key] = session.task(key, spread, self._kept, TaskRef(total))
        start, names = session.key("product"), []
        for p, routed in enumerate(self.routed):
            names.append(f"{start}-{p}")
            tasks[names[-1]] = session.task(
                names[-1], self.outline.at_rows, routed, TaskRef(key), r.ndim
            )
        parts = session.run(tasks, names)
        return self.partitions.rows(parts, np.zeros((0, *r.shape[1:])))


def part_of(block: DaskMap, part: MapPart) -> DaskMap:
    """Some trees of a map, at the same rows.

    Parameters
    ----------
    block : DaskMap
        All trees.
    part : MapPart
        Of the same map at no rows.

    Returns
    -------
    map : DaskMap
    """
    session, embedding = block.partitions.session, part.make()
    assert part.trees is not None
    routed = session.each("trees", _trees_of, block.routed, tuple(part.trees))
    return DaskMap(block.partitions, embedding, session.keep("map", embedding), routed)


# Functions of one partition, or of what is known of all.


def _trees_of(routed: list[AnyArray], trees: tuple[slice | None, ...]) -> list[AnyArray]:
    pairs = zip(routed, trees, strict=True)
    return [own if chosen is None else own[chosen] for own, chosen in pairs]


def routed_rows(embedding: MapBlock, X: Any) -> list[AnyArray]:
    """Places of the leaves of rows, or coordinates of linear terms, block by block."""
    found: list[AnyArray] = []
    for _, block in named_blocks(embedding):
        at = block.on(X)
        found.append(leaf_places(at) if isinstance(at, PathMap) else at.values)
    return found


def leaf_places(at: PathMap) -> AnyArray:
    """Numbers of leaves among those of their trees, in a small type; shape (n_trees, n_rows)."""
    forest = at.forest
    number = np.cumsum(forest.is_leaf) - 1
    # Roots stand before all leaves of their trees, so that this is the first of each.
    first = number[forest.roots] + ~forest.is_leaf[forest.roots]
    most = int(np.diff([*first, number[-1] + 1]).max())
    kind = np.uint16 if most <= MOST_SHORT else np.int32
    out = np.empty(at.leaf_ids.shape, dtype=kind)
    for tree, leaves in enumerate(at.leaf_ids):
        out[tree] = number[leaves] - first[tree]
    return out


def leaf_ids_of_places(forest: Any, places: AnyArray) -> AnyArray:
    """Node ids of leaves, from their numbers among the leaves of their trees."""
    leaves = np.flatnonzero(forest.is_leaf).astype(np.int32)
    first = np.searchsorted(leaves, forest.roots)
    out = np.empty(places.shape, dtype=np.int32)
    for tree, own in enumerate(places):
        out[tree] = leaves[first[tree] + own.astype(np.int64)]
    return out


def _leaf_sums(outline: Outline, routed: Any, r: Any, item: int | None) -> FloatArray:
    return outline.sums(routed, r if item is None else r[item])


def spread_sums(embedding: MapBlock, sums: FloatArray) -> FloatArray:
    """From sums over leaves to what each leaf adds to a product: up the nodes, and down."""
    out, outline = np.array(sums), Outline.of(embedding)
    for b, (_, block) in enumerate(named_blocks(embedding)):
        place = slice(outline.stops[b], outline.stops[b + 1])
        if isinstance(block, PathMap):
            for own in out[:, place]:
                nodes = _node_sums(block, own) * block.squared_scale
                own[:] = block.path_sums(nodes)[block.forest.is_leaf]
    return out


def node_coefficients(embedding: MapBlock, sums: FloatArray) -> FloatArray:
    """From sums over leaves to the coefficients of all nodes, shape (n_columns, m)."""
    outline, found = Outline.of(embedding), []
    for b, (_, block) in enumerate(named_blocks(embedding)):
        own = sums[:, outline.stops[b] : outline.stops[b + 1]]
        if isinstance(block, PathMap):
            own = np.array([_node_sums(block, column) * block.scale for column in own])
        found.append(own)
    return np.concatenate(found, axis=1)


def leaf_scores(embedding: MapBlock, node_coef: FloatArray) -> FloatArray:
    """From coefficients of nodes to what each leaf adds to a score, shape (n_scores, length)."""
    found, first = [], 0
    for _, block in named_blocks(embedding):
        own = node_coef[:, first : first + block.shape[1]]
        first += block.shape[1]
        if isinstance(block, PathMap):
            leaf = block.forest.is_leaf
            own = np.array([block.path_sums(block.scale * w)[leaf] for w in own])
        found.append(own)
    return np.concatenate(found, axis=1)


def leaf_norms(embedding: MapBlock) -> FloatArray:
    """Squared norms of leaves, shape (1, length); 0 for linear terms, whose rows differ."""
    found = [
        block.path_sums(block.squared_scale)[block.forest.is_leaf]
        if isinstance(block, PathMap)
        else np.zeros(block.shape[1])
        for _, block in named_blocks(embedding)
    ]
    return np.concatenate(found)[None]


def _row_norms(outline: Outline, routed: Sequence[AnyArray], values: FloatArray) -> FloatArray:
    norms = outline.at_rows(routed, values, 1)
    for first, own in zip(outline.first, routed, strict=True):
        if first is None:
            norms += np.square(own).sum(axis=1)
    return norms


def _node_sums(block: PathMap, of_leaves: FloatArray) -> FloatArray:
    values = np.zeros(block.forest.n_nodes)
    values[block.forest.is_leaf] = of_leaves
    return block.forest.leaf_sums(values)
