"""Sets of categories, packed into words of 32 bits, for many nodes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kpp._typing import AnyArray, BoolArray, OffsetArray
from kpp.forest.others import other_of

if TYPE_CHECKING:
    from kpp.forest.arrays import Forest

# Sets are written out, a byte a category, for so many categories at a time.
BYTES_AT_ONCE = 1 << 24


def packed_sets(inside: BoolArray) -> AnyArray:
    """Pack sets into words.

    Parameters
    ----------
    inside : bool array of shape (n_sets, n_codes)
        Whether each category code is in each set.

    Returns
    -------
    words : uint32 array of shape (n_sets, n_words)
        At least one word: compiled loops know a categorical split by its having words.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest.sets import packed_sets
    >>> packed_sets(np.array([[True, False, True], [False, True, False]])).tolist()
    [[5], [2]]
    """
    n_sets, n_codes = inside.shape
    bits = np.zeros((n_sets, 32 * max(1, -(-n_codes // 32))), dtype=bool)
    bits[:, :n_codes] = inside
    # The bytes of a little-endian word, lowest bit first, list the codes in rising order.
    return np.packbits(bits, axis=1, bitorder="little").view(np.dtype("<u4")).astype(np.uint32)


def sets_of(forest: Forest, nodes: OffsetArray, n_codes: int) -> BoolArray:
    """The sets that go left at some categorical splits, bool array of shape (len(nodes), n_codes).

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest import Forest, Tree
    >>> from kpp.forest.sets import sets_of
    >>> stump = Tree([1, -1, -1], [2, -1, -1], [0] * 3, [0] * 3, left_categories={0: [0, 2]})
    >>> sets_of(Forest.from_trees([stump], n_features=1), np.array([0]), 4).tolist()
    [[True, False, True, False]]
    """
    first = forest.category_offsets[nodes]
    n_words = forest.category_offsets[nodes + 1] - first
    places = np.arange(max(1, -(-n_codes // 32), n_words.max(initial=1)))
    owned = places < n_words[:, None]
    words = np.zeros(owned.shape, dtype=np.dtype("<u4"))
    words[owned] = forest.category_bits[(first[:, None] + places)[owned]]
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    return bits[:, :n_codes].astype(bool)


def pool_of(
    parts: Sequence[tuple[OffsetArray, AnyArray]], n_nodes: int
) -> tuple[OffsetArray, AnyArray]:
    """Put the words of nodes into one pool, in node order.

    Parameters
    ----------
    parts : sequence of (int array of shape (n,), uint32 array of shape (n, n_words))
        Nodes and their words; every node in one part.
    n_nodes : int
        Nodes of the forest.

    Returns
    -------
    category_offsets, category_bits : arrays
        As `Forest` has them; both empty where no node has a word.
    """
    if not any(len(nodes) for nodes, _ in parts):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint32)
    n_words = np.zeros(n_nodes + 1, dtype=np.int64)
    for nodes, words in parts:
        n_words[nodes + 1] = words.shape[1]
    offsets = np.cumsum(n_words)
    pool = np.zeros(offsets[-1], dtype=np.uint32)
    for nodes, words in parts:
        pool[offsets[nodes][:, None] + np.arange(words.shape[1])] = words
    return offsets, pool


def for_categories(
    forest: Forest, nodes: OffsetArray, known: AnyArray, wanted: AnyArray
) -> AnyArray:
    """Words of some splits for other numbers of the categories, and for more of them.

    Parameters
    ----------
    forest : Forest
        The trees.
    nodes : int array of shape (n,)
        Categorical splits on one column.
    known, wanted : arrays
        The categories of that column in the order of their codes: the forest's, and the new ones.

    Returns
    -------
    words : uint32 array of shape (n, n_words)
        A category that is not known goes where any other goes, or else where a missing value
        goes.
    """
    place = {value: code for code, value in enumerate(known.tolist())}
    unknown = len(known) if other_of(known) is None else len(known) - 1
    code = np.array([place.get(value, unknown) for value in wanted.tolist()], dtype=np.int64)
    words = []
    n_at_once = max(1, BYTES_AT_ONCE // (len(known) + len(code) + 1))
    for first in range(0, len(nodes), n_at_once):
        own = nodes[first : first + n_at_once]
        left = np.column_stack([sets_of(forest, own, len(known)), forest.missing_left[own]])
        words.append(packed_sets(left[:, code]))
    return np.concatenate(words) if words else np.empty((0, 1), dtype=np.uint32)


def whole_categories(forests: Sequence[Forest]) -> frozenset[int]:
    """Columns in which a number counts as its whole part, of several forests.

    Parameters
    ----------
    forests : sequence of Forest
        Forests of the same columns.

    Returns
    -------
    whole : set of int

    Raises
    ------
    ValueError
        Where it does so in one forest, and not in another that knows the column's categories.
    """
    whole = frozenset[int]().union(*(forest.whole_categories for forest in forests))
    if any(whole & forest.categories.keys() != forest.whole_categories for forest in forests):
        raise ValueError("Forests can be joined when they read the same columns alike.")
    return whole
