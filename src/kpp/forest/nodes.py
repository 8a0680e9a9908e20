"""The arrays that compiled loops walk along, as one argument, and what loops ask of a node."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kpp._compile import loop_helper, loop_tuple
from kpp._typing import AnyArray, BoolArray, FloatArray, IntArray, OffsetArray


@loop_tuple(
    "in i8[]; in i4[]; in i4[]; in i4[]; in f8[]; in b1[]; in i8[]; in u4[]; "
    "in i8[]; in i4[]; in f8[]"
)
class Nodes(NamedTuple):
    """The node arrays of a `Forest` by their names there; `Forest.nodes` makes it.

    A loop that needs only `tree_offsets` and `parent` takes these two: taking all arrays out
    of a tuple costs a microsecond a call, which short products with a map would feel. Inside,
    a loop takes the arrays out before it starts, and hands arrays, not the tuple, to helpers:
    numba counts references wherever it reads a field (a search ran at half the speed).
    """

    tree_offsets: OffsetArray
    parent: IntArray
    left: IntArray
    feature: IntArray
    threshold: FloatArray
    missing_left: BoolArray
    category_offsets: OffsetArray
    category_bits: AnyArray
    term_offsets: OffsetArray
    term_columns: IntArray
    term_weights: FloatArray


@loop_tuple("in i8[]; in i4[]; in i4[]; in f8[]; in b1[]; in i8[]; in u4[]")
class Splits(NamedTuple):
    """Those of the arrays that a walk down a tree reads; `Forest.splits` makes it.

    Without `parent`, so that a forest that only routes rows need not keep it.
    """

    tree_offsets: OffsetArray
    left: IntArray
    feature: IntArray
    threshold: FloatArray
    missing_left: BoolArray
    category_offsets: OffsetArray
    category_bits: AnyArray


@loop_helper
def largest_tree(tree_offsets: Any, first_tree: Any, last_tree: Any) -> Any:
    """Nodes of the largest of some trees: the size of a table that serves each of them."""
    largest = 0
    for tree in range(first_tree, last_tree):
        largest = max(largest, tree_offsets[tree + 1] - tree_offsets[tree])
    return largest


@loop_helper
def is_categorical(category_offsets: Any, v: Any) -> Any:
    """Whether node v splits categories: whether it has words of bits."""
    # Unsigned, so that numba leaves out its test for negative indices.
    u = np.uint64(v)
    return category_offsets.size > 0 and category_offsets[u + np.uint64(1)] > category_offsets[u]


@loop_helper
def bit_of(category_bits: Any, first_word: Any, x: Any) -> Any:
    """Bit x of the words from `first_word` on: 0 or 1."""
    category = np.int64(x)
    word = category_bits[first_word + (category >> 5)]
    return np.int32((word >> np.uint32(category & 31)) & np.uint32(1))


@loop_helper
def category_goes_left(category_offsets: Any, category_bits: Any, v: Any, x: Any) -> Any:
    """Whether bit x of the words of node v is set; no code beyond them is."""
    u = np.uint64(v)
    first_word = category_offsets[u]
    n_words = category_offsets[u + np.uint64(1)] - first_word
    if 0 <= x < 32.0 * n_words:
        return bit_of(category_bits, first_word, x) == 1
    return False


@loop_helper
def is_oblique(term_offsets: Any, v: Any) -> Any:
    """Whether node v splits a sum of columns: whether it has terms."""
    u = np.uint64(v)
    return term_offsets.size > 0 and term_offsets[u + np.uint64(1)] > term_offsets[u]


@loop_helper
def least_sum(
    term_offsets: Any, term_columns: Any, term_weights: Any, v: Any, low: Any, high: Any
) -> Any:
    """Least sum of the terms of node v over a box; with ``low is high`` the sum at that point.

    The greatest sum is that of ``(high, low)``. Rounding is monotone, and so is the sum as it is
    computed, term after term: no point of the box has a computed sum below this one.
    """
    u = np.uint64(v)
    total = 0.0
    for k in range(term_offsets[u], term_offsets[u + np.uint64(1)]):
        weight = term_weights[k]
        column = term_columns[k]
        total += weight * (low[column] if weight > 0 else high[column])
    return total


@loop_helper
def sum_at(
    term_offsets: Any, term_columns: Any, term_weights: Any, v: Any, values: Any, first: Any
) -> Any:
    """Sum of the terms of node v for the row whose values begin at `first`; as `least_sum`."""
    u = np.uint64(v)
    total = 0.0
    for k in range(np.uint64(term_offsets[u]), np.uint64(term_offsets[u + np.uint64(1)])):
        total += term_weights[k] * values[first + np.uint64(term_columns[k])]
    return total


@loop_helper
def misses_a_term(term_offsets: Any, term_columns: Any, v: Any, x: Any) -> Any:
    """Whether x is missing in a column of node v."""
    u = np.uint64(v)
    for k in range(term_offsets[u], term_offsets[u + np.uint64(1)]):
        if np.isnan(x[term_columns[k]]):
            return True
    return False
