"""Columns of a table as ONNX takes them: numbers, codes of categories, what counts as missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._typing import AnyArray
from kpp.export.graph import Graph
from kpp.forest import Forest
from kpp.forest.layout import OBLIQUE
from kpp.forest.others import AnyOther, other_of

# Whole numbers above are not all float64.
EXACT = 2**53
# A missing text: tensors of texts have no other.
NO_TEXT = ""


@dataclass(frozen=True)
class Column:
    """One column as the graph reads it.

    Parameters
    ----------
    name : str
        Name of the column.
    categories : array, optional
        What the forest knows, without what stands for any other; None for numbers.
    other : AnyOther, optional
        What stands for any other category.
    """

    name: str
    categories: AnyArray | None = None
    other: AnyOther | None = None

    @property
    def is_text(self) -> bool:
        """Whether the graph takes texts there."""
        return self.categories is not None and self.categories.dtype.kind == "U"


def read_columns(forest: Forest, names: Sequence[str]) -> list[Column]:
    """Tell what every column holds; refuse categories that a tensor cannot hold.

    Parameters
    ----------
    forest : Forest
        Knows the categories.
    names : sequence of str
        Names of its columns.

    Returns
    -------
    columns : list of Column
    """
    found = []
    for j, name in enumerate(names):
        known = forest.categories.get(j)
        if known is None:
            found.append(Column(name))
            continue
        other = other_of(known)
        listed = known.tolist() if other is None else known.tolist()[:-1]
        found.append(Column(name, _as_array(listed, name), other))
    return found


def _as_array(listed: list[Any], name: str) -> AnyArray:
    if listed and all(isinstance(value, str) for value in listed):
        return np.array(listed, dtype=str)
    numbers = all(isinstance(v, bool | int | float | np.number | np.bool_) for v in listed)
    if not numbers:
        kinds = " and ".join(sorted({type(value).__name__ for value in listed}))
        raise TypeError(
            f"ONNX takes categories that are all texts or all numbers, and column {name!r} has "
            f"values of type {kinds}. Make texts of them before the fit."
        )
    if any(abs(value) > EXACT for value in listed):
        raise TypeError(
            f"Column {name!r} has categories that are numbers above 2^53, which ONNX's float64 "
            "does not tell apart. Make texts of them before the fit."
        )
    return np.array(listed, dtype=np.float64)


def add_codes(graph: Graph, column: Column, forest: Forest, j: int, values: str) -> str:
    """Add what turns the values of a column into codes of categories; NaN for a missing one.

    Parameters
    ----------
    graph : Graph
        Where it goes.
    column : Column
        With categories.
    forest : Forest
        In float64; knows which values count as missing, and whether parts of numbers count.
    j : int
        Number of the column.
    values : str
        Tensor of shape (n_rows, 1): texts, or float64.

    Returns
    -------
    codes : str
        Tensor of float64 of the same shape.
    """
    assert column.categories is not None
    nan = graph.constant(np.nan, np.float64)
    n_codes = len(column.categories)
    codes = np.arange(n_codes, dtype=np.float64)
    unknown = np.nan if column.other is None else float(n_codes)
    if column.is_text:
        keys, place = column.categories.tolist(), codes
        if column.other is not None and NO_TEXT not in keys:
            keys, place = [*keys, NO_TEXT], np.append(place, np.nan)
        coded = graph.add(
            "LabelEncoder",
            values,
            ml=True,
            keys_strings=keys,
            values_floats=place.tolist(),
            default_float=unknown,
        )
        return graph.cast(coded, np.float64)
    if j in forest.whole_categories:
        down, up = graph.add("Floor", values), graph.add("Ceil", values)
        is_negative = graph.add("Less", values, graph.constant(0.0, np.float64))
        values = graph.add("Where", is_negative, up, down)
    if column.other is AnyOther.CODE and j in forest.missing_values:
        values = add_missing(graph, forest.missing_values, values, [j])
    if n_codes == 0:
        # No key to look up: whatever is not missing is unknown.
        coded = graph.add("Where", graph.add("IsNaN", values), nan, graph.constant(unknown))
        return coded
    coded = graph.add(
        "LabelEncoder",
        values,
        ml=True,
        keys_tensor=column.categories,
        values_tensor=codes,
        default_tensor=np.array([unknown]),
    )
    if column.other is None:
        return coded
    return graph.add("Where", graph.add("IsNaN", values), nan, coded)


def add_missing(
    graph: Graph, missing: dict[int, tuple[float, float]], rows: str, columns: Sequence[int]
) -> str:
    """Add what turns the values that count as missing into NaN.

    Parameters
    ----------
    graph : Graph
        Where it goes.
    missing : dict of int to (float, float)
        Column -> the numbers that count as missing there, from the first to the second.
    rows : str
        Tensor of float64 of shape (n_rows, len(columns)).
    columns : sequence of int
        Which columns these are.

    Returns
    -------
    rows : str
    """
    # An empty range where nothing counts as missing.
    ranges = [missing.get(j, (np.inf, -np.inf)) for j in columns]
    low, high = (graph.constant([ends], np.float64) for ends in zip(*ranges, strict=True))
    within = graph.add(
        "And", graph.add("GreaterOrEqual", rows, low), graph.add("LessOrEqual", rows, high)
    )
    return graph.add("Where", within, graph.constant(np.nan, np.float64), rows)


def add_oblique(graph: Graph, forest: Forest, rows: str) -> tuple[str, AnyArray]:
    """Add the sums that oblique splits compare, as further columns.

    Parameters
    ----------
    graph : Graph
        Where it goes.
    forest : Forest
        The trees.
    rows : str
        Tensor of float64 of shape (n_rows, n_features).

    Returns
    -------
    rows : str
        With a column for every different sum.
    place : int array of shape (n_nodes,)
        The column of each oblique split.
    """
    place = np.full(forest.n_nodes, -1, dtype=np.int64)
    numbers: dict[tuple[tuple[int, float], ...], int] = {}
    for v in np.flatnonzero(forest.split_kind == OBLIQUE).tolist():
        own = slice(*forest.term_offsets[v : v + 2].tolist())
        terms = zip(
            forest.term_columns[own].tolist(), forest.term_weights[own].tolist(), strict=True
        )
        place[v] = forest.n_features + numbers.setdefault(tuple(terms), len(numbers))
    # Term after term, as the forest adds them; a sum of fewer terms repeats its first column by 0.
    total = graph.constant(np.zeros((1, len(numbers))))
    for k in range(max(map(len, numbers))):
        taken = [terms[k] if k < len(terms) else (terms[0][0], 0.0) for terms in numbers]
        chosen = graph.constant([column for column, _ in taken], np.int64)
        values = graph.add("Gather", rows, chosen, axis=1)
        weights = graph.constant([[weight for _, weight in taken]], np.float64)
        total = graph.add("Add", total, graph.add("Mul", values, weights))
    return graph.add("Concat", rows, total, axis=1), place
