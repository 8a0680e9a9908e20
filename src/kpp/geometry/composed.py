"""Embeddings made of embeddings: side by side, and centred."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from kpp._parallel import one_blas_thread
from kpp._typing import AnyArray, FloatArray, IntArray
from kpp.geometry.linear import LinearMap
from kpp.geometry.maps import MapBlock, PathMap


class BlockMap(MapBlock):
    """Several embeddings of the same rows side by side.

    Parameters
    ----------
    blocks : sequence of (str, MapBlock)
        Names and embeddings, all at the same rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPEmbedding
    >>> from kpp.geometry import BlockMap
    >>> X, y = load_iris(return_X_y=True)
    >>> trees = KPPEmbedding("extra-trees", n_estimators=5, random_state=0).fit(X, y)
    >>> random = KPPEmbedding("random-forest", n_estimators=5, random_state=0).fit(X, y)
    >>> both = BlockMap([("trees", trees.map_.on(X)), ("random", random.map_.on(X))])
    >>> both.shape[1] == trees.forest_.n_nodes + random.forest_.n_nodes
    True
    """

    def __init__(self, blocks: Sequence[tuple[str, MapBlock]]) -> None:
        if not blocks:
            raise ValueError("A BlockMap needs at least one block; got none.")
        names = [name for name, _ in blocks]
        if len(set(names)) != len(names):
            raise ValueError(f"Block names must differ; got {names}.")
        rows = {block.shape[0] for _, block in blocks}
        if len(rows) > 1:
            raise ValueError(f"All blocks must be at the same rows; got {sorted(rows)} rows.")
        super().__init__(rows.pop(), sum(block.shape[1] for _, block in blocks))
        self.blocks = list(blocks)
        kinds = {block.normalize for _, block in blocks}
        self.normalize = kinds.pop() if len(kinds) == 1 else "mixed"
        self.offsets = np.cumsum([0, *(block.shape[1] for _, block in blocks)])

    def split(self, w: Any) -> list[AnyArray]:
        """Cut a vector of all coordinates into one view per block."""
        return np.split(np.asarray(w), self.offsets[1:-1])

    def on(self, X: Any) -> BlockMap:
        """Return the same embeddings at the rows of X."""
        return BlockMap([(name, block.on(X)) for name, block in self.blocks])

    def rows(self, index: Any) -> BlockMap:
        """Return the same embeddings at some of the rows."""
        return BlockMap([(name, block.rows(index)) for name, block in self.blocks])

    def at_routed(self, routed: Sequence[AnyArray]) -> BlockMap:
        """Return the same embeddings at rows that were routed, one array per block."""
        pairs = zip(self.blocks, routed, strict=True)
        return BlockMap([(name, block.at_routed([own])) for (name, block), own in pairs])

    def normalized(self, normalize: str) -> BlockMap:
        """Return the same rows, every block normalised by "forest" or by "tree"."""
        blocks = [(name, block.normalized(normalize)) for name, block in self.blocks]
        unchanged = all(new is old for (_, new), (_, old) in zip(blocks, self.blocks, strict=True))
        return self if unchanged else BlockMap(blocks)

    def _matvec(self, w: Any) -> FloatArray:
        parts = zip(self.blocks, self.split(np.ravel(w)), strict=True)
        return self._sum([block.matvec(part) for (_, block), part in parts])

    def _rmatvec(self, r: Any) -> FloatArray:
        return np.concatenate([block.rmatvec(np.ravel(r)) for _, block in self.blocks])

    def gram_matvec(self, r: Any, *, at: BlockMap | None = None) -> FloatArray:
        r"""Multiply the Gram, the sum of the blocks' Grams, by a vector or by columns."""
        return self._sum([mine.gram_matvec(r, at=theirs) for mine, theirs in self._paired(at)])

    def gram_operator(self) -> Callable[[FloatArray], FloatArray]:
        """Return ``r -> gram_matvec(r)`` from every block's own."""
        products = [block.gram_operator() for _, block in self.blocks]
        return lambda r: self._sum([product(r) for product in products])

    def row_norms(self, *, squared: bool = False) -> FloatArray:
        r"""Norms over all blocks, shape (n,)."""
        total = self._sum([block.row_norms(squared=True) for _, block in self.blocks])
        return total if squared else np.sqrt(total)

    def sup_norm(self, center: FloatArray | None = None) -> float:
        r"""Root of the sum of the blocks' squared bounds."""
        centers = [None] * len(self.blocks) if center is None else self.split(center)
        parts = zip(self.blocks, centers, strict=True)
        return float(np.sqrt(sum(block.sup_norm(part) ** 2 for (_, block), part in parts)))

    def gram(self, other: BlockMap | None = None) -> FloatArray:
        r"""Sum of the blocks' Grams, shape (n, n')."""
        return self._sum([mine.gram(theirs) for mine, theirs in self._paired(other)])

    def distances(self, other: BlockMap | None = None) -> FloatArray:
        r"""Sum of the blocks' squared distances, shape (n, n')."""
        return self._sum([mine.distances(theirs) for mine, theirs in self._paired(other)])

    def to_csr(self) -> sparse.csr_matrix:
        """Write all blocks out side by side, shape (n, m)."""
        return sparse.hstack([block.to_csr() for _, block in self.blocks], format="csr")

    @property
    def coordinate_names(self) -> AnyArray:
        """Names ``{block}__{coordinate}``, shape (m,)."""
        names = [f"{b}__{name}" for b, block in self.blocks for name in block.coordinate_names]
        return np.array(names, dtype=object)

    @property
    def coordinate_variable(self) -> AnyArray:
        """Column of X that each coordinate belongs to, shape (m,)."""
        return np.concatenate([block.coordinate_variable for _, block in self.blocks])

    def _paired(self, other: BlockMap | None) -> list[tuple[Any, Any]]:
        theirs = [None] * len(self.blocks) if other is None else [b for _, b in other.blocks]
        return list(zip([b for _, b in self.blocks], theirs, strict=True))

    @staticmethod
    def _sum(parts: list[FloatArray]) -> FloatArray:
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total


class CenteredMap(MapBlock):
    r"""An embedding with a vector subtracted from every row: :math:`\Phi - 1 c^\top`.

    Only the shift is stored. Products use :math:`g = \Phi c` and :math:`|c|^2`:

    .. math::
        (\Phi - 1 c^\top)(\Phi - 1 c^\top)^\top r
        = \Phi \Phi^\top r - g\, (1^\top r) - 1\, (g^\top r) + 1\, |c|^2 (1^\top r)

    Parameters
    ----------
    block : MapBlock
        The embedding.
    shift : array of shape (m,)
        The vector c.
    """

    @one_blas_thread()
    def __init__(self, block: MapBlock, shift: Any) -> None:
        super().__init__(*block.shape)
        self.block, self.normalize = block, block.normalize
        self.shift = np.array(shift, dtype=np.float64)
        if self.shift.shape != (self.shape[1],):
            raise ValueError(
                f"The shift must have shape ({self.shape[1]},); got {self.shift.shape}."
            )
        # g = Phi c and |c|^2: all that a centred product needs beyond the plain one.
        self.along_shift = block.matvec(self.shift)
        self.squared_shift = float(self.shift @ self.shift)

    def on(self, X: Any) -> CenteredMap:
        """Return the same embedding, with the same shift, at the rows of X."""
        return CenteredMap(self.block.on(X), self.shift)

    def rows(self, index: Any) -> CenteredMap:
        """Return the same embedding, with the same shift, at some of its rows."""
        return CenteredMap(self.block.rows(index), self.shift)

    def at_routed(self, routed: Sequence[AnyArray]) -> CenteredMap:
        """Return the same embedding, with the same shift, at rows that were routed."""
        return CenteredMap(self.block.at_routed(routed), self.shift)

    def normalized(self, normalize: str) -> CenteredMap:
        """Return itself; another normalisation is refused: the shift belongs to one."""
        # c was computed under one normalisation, and is no centre under another.
        if self.block.normalized(normalize) is not self.block:
            raise TypeError("Normalise first, then centre: map.normalized(...).centered().")
        return self

    @one_blas_thread()
    def _matvec(self, w: Any) -> FloatArray:
        w = np.ravel(w)
        return self.block.matvec(w) - self.shift @ w

    def _rmatvec(self, r: Any) -> FloatArray:
        r = np.ravel(r)
        return self.block.rmatvec(r) - self.shift * r.sum()

    @one_blas_thread()
    def gram_matvec(self, r: Any, *, at: CenteredMap | None = None) -> FloatArray:
        r"""Multiply the centred Gram by a vector or by columns."""
        r = self.row_columns(r)
        along = (self if at is None else at).along_shift
        total = r.sum(axis=0)
        # The last two terms of the class's formula are the same for every row of the result; with
        # `at`, the term before them has g at its rows.
        constant = self.squared_shift * total - self.along_shift @ r
        product = self.block.gram_matvec(r, at=self._block_of(at))
        return product - np.multiply.outer(along, total) + constant

    def row_norms(self, *, squared: bool = False) -> FloatArray:
        r"""Norms :math:`\|\Phi(x_i) - c\|`, shape (n,)."""
        norms = self.block.row_norms(squared=True) - 2 * self.along_shift + self.squared_shift
        # |phi|^2 - 2 <phi, c> + |c|^2 cancels where a row is close to c.
        norms = np.maximum(norms, 0.0)
        return norms if squared else np.sqrt(norms)

    def sup_norm(self, center: FloatArray | None = None) -> float:
        r"""Bound :math:`\sup_x \|\Phi(x) - c\|`; a further centre adds to the shift."""
        return self.block.sup_norm(self.shift if center is None else self.shift + center)

    def gram(self, other: CenteredMap | None = None) -> FloatArray:
        r"""Inner products of centred rows, shape (n, n')."""
        theirs = self if other is None else other
        gram = self.block.gram(self._block_of(other))
        gram -= self.along_shift[:, None]
        gram -= theirs.along_shift[None, :]
        gram += self.squared_shift
        return gram

    def distances(self, other: CenteredMap | None = None) -> FloatArray:
        r"""Squared distances, which no shift changes; shape (n, n')."""
        # (phi - c) - (phi' - c) = phi - phi'.
        return self.block.distances(self._block_of(other))

    def _block_of(self, other: CenteredMap | None) -> Any:
        if other is None:
            return None
        if not np.array_equal(self.shift, other.shift):
            raise ValueError(
                "Both sides must be centred by the same shift: use map.on(X), or "
                "map.centered(shift) on both."
            )
        return other.block

    def to_csr(self) -> sparse.csr_matrix:
        """Refuse: a centred embedding has no zeros."""
        raise TypeError(
            "A centred embedding is dense and is not written out: use products with it, or "
            "`.block.to_csr()` and `.shift`."
        )

    @property
    def coordinate_names(self) -> AnyArray:
        """Names of the coordinates, shape (m,)."""
        return self.block.coordinate_names

    @property
    def coordinate_variable(self) -> AnyArray:
        """Column of X that each coordinate belongs to, shape (m,)."""
        return self.block.coordinate_variable


def named_blocks(embedding: MapBlock) -> list[tuple[str, MapBlock]]:
    """Return the blocks of a map; a map of one forest is its only block, without a name.

    Parameters
    ----------
    embedding : MapBlock
        Any map.

    Returns
    -------
    blocks : list of (str, MapBlock)
    """
    return embedding.blocks if isinstance(embedding, BlockMap) else [("", embedding)]


def forest_blocks(embedding: MapBlock) -> list[tuple[str, PathMap]]:
    """Return the forests of a map, by name, without its linear terms; see `block_slices`.

    Parameters
    ----------
    embedding : MapBlock
        Any map of forests and linear terms.

    Returns
    -------
    blocks : list of (str, PathMap)
    """
    found = []
    for name, block in named_blocks(embedding):
        if isinstance(block, PathMap):
            found.append((name, block))
        elif not isinstance(block, LinearMap):
            raise TypeError(
                "Only forests have leaves; this map also has a block of kind "
                f"{type(block).__name__}. Fit it without."
            )
    return found


def linear_blocks(embedding: MapBlock) -> list[tuple[str, LinearMap]]:
    """Return the linear terms of a map, by name; most have none.

    Parameters
    ----------
    embedding : MapBlock
        Any map.

    Returns
    -------
    blocks : list of (str, LinearMap)
    """
    blocks = named_blocks(embedding)
    return [(name, block) for name, block in blocks if isinstance(block, LinearMap)]


def block_slices(embedding: MapBlock) -> list[tuple[str, MapBlock, slice]]:
    """Return the blocks of a map, each with the place of its coordinates.

    Parameters
    ----------
    embedding : MapBlock
        Any map.

    Returns
    -------
    blocks : list of (str, MapBlock, slice)
    """
    found, first = [], 0
    for name, block in named_blocks(embedding):
        found.append((name, block, slice(first, first + block.shape[1])))
        first += block.shape[1]
    return found


def leaf_ids_of(at_rows: MapBlock) -> IntArray:
    """Return the leaf ids of all forests of a map, each with its own ids.

    Parameters
    ----------
    at_rows : MapBlock
        A map of forests, at rows.

    Returns
    -------
    leaf_ids : int32 array of shape (n_trees, n_rows)
    """
    return np.concatenate([block.leaf_ids for _, block in forest_blocks(at_rows)])
