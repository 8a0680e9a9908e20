"""Rows to scores in ONNX: a collapsed model as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._typing import AnyArray
from kpp.export.collapse import rank_of_quantiles
from kpp.export.columns import (
    Column,
    add_codes,
    add_missing,
    add_oblique,
    read_columns,
)
from kpp.export.graph import Graph
from kpp.export.trees import TreeTable, add_trees
from kpp.forest import Forest
from kpp.forest.join import as_float64
from kpp.forest.layout import OBLIQUE
from kpp.forest.others import AnyOther
from kpp.scores import AdditiveForest
from kpp.scores.linear import LinearScores


@dataclass(frozen=True, eq=False)
class ScoreGraph:
    """A collapsed model, and which rows it refuses.

    Parameters
    ----------
    additive : AdditiveForest
        In one forest.
    blocks : tuple of Forest
        The forests that it was collapsed from: each refuses some values.
    columns : list of Column
        What every column holds.
    dtype : numpy dtype
        What the trees compare and add in.
    rank : int array of shape (n_scores,), optional
        Of several quantiles: place of each among them. They are put in order, so that none cross.
    """

    additive: AdditiveForest
    blocks: tuple[Forest, ...]
    columns: list[Column]
    dtype: Any = np.float64
    rank: AnyArray | None = None

    @classmethod
    def of(cls, model: Any, names: Sequence[str], dtype: Any = np.float64) -> ScoreGraph:
        """Collapse a model of this package.

        Parameters
        ----------
        model : KPPRegressor or KPPClassifier
            Fitted.
        names : sequence of str
            Names of its columns.
        dtype : numpy dtype
            float64 or float32.

        Returns
        -------
        scores : ScoreGraph
        """
        additive = model.collapse()
        blocks = tuple(block.forest for block in model.additive_.blocks)
        columns = read_columns(additive.forest, names)
        return cls(additive, blocks, columns, np.dtype(dtype), rank_of_quantiles(model))

    @property
    def has_categories(self) -> bool:
        """Whether some column holds categories."""
        return any(column.categories is not None for column in self.columns)

    @property
    def forest(self) -> Forest:
        """All trees, comparing in float64."""
        return as_float64(self.additive.forest)

    def tolerance(self, ml_opset: int = 5) -> float:
        r"""How far a score may be from the model's: as many roundings as terms, of the largest sum.

        :math:`2 n u \max_k (|b_k| + \sum_t \max_v |P_k(v)| + \sum_j |w_{kj}| \max |\Psi_j|)`,
        with n the number of terms and u the unit of rounding; and a rounding of that to float32
        where the operator has such scores, version 3.
        """
        additive, forest = self.additive, self.forest
        largest = np.maximum.reduceat(np.abs(additive.node_values), forest.roots, axis=1)
        size = np.abs(additive.intercept) + largest.sum(axis=1)
        n_terms = forest.n_trees + 2
        for linear in additive.linear:
            ends = np.maximum(np.abs(linear.terms.least), np.abs(linear.terms.most))
            size = size + np.abs(linear.coef) @ ends
            n_terms += len(ends)
        unit = float(np.finfo(self.dtype).eps) / 2
        last = float(np.finfo(np.float32).eps) / 2 if ml_opset < 5 else 0.0
        return float((2 * n_terms * unit + last) * size.max())

    def add_to(self, graph: Graph, inputs: Sequence[str]) -> str:
        """Add everything from columns to scores.

        Parameters
        ----------
        graph : Graph
            Where it goes.
        inputs : sequence of str
            One tensor of shape (n_rows, n_features) and of `dtype`, or one of shape (n_rows, 1) for
            each column, texts or of `dtype`.

        Returns
        -------
        scores : str
            float64 tensor of shape (n_rows, n_scores); NaN in rows that the model refuses.
        """
        raw, rows, refused = self._rows(graph, inputs)
        forest, additive = self.forest, self.additive
        place: AnyArray = np.full(forest.n_nodes, -1, dtype=np.int64)
        if (forest.split_kind == OBLIQUE).any():
            if self.dtype == np.float32:
                raise TypeError(
                    "precision='single' compares in float32, and this forest has oblique splits, "
                    "whose sums are of float64. Use precision='double'."
                )
            rows, place = add_oblique(graph, forest, rows)
        table = TreeTable(forest, additive.node_values, place, self.dtype)
        compared = rows if self.dtype == np.float64 else graph.cast(rows, np.float32)
        found, constant = add_trees(graph, table, compared)
        base = graph.constant([additive.intercept + constant], np.float64)
        if found is None:
            # The same for all rows: as many as there are.
            n_rows = graph.node("Shape", [rows], {"end": 1})
            shape = graph.add("Concat", n_rows, graph.constant([1], np.int64), axis=0)
            scores = graph.add("Expand", base, shape)
        else:
            of_trees = found
            if graph.ml_opset < 5 or self.dtype == np.float32:
                of_trees = graph.cast(found, np.float64)
            scores = graph.add("Add", of_trees, base)
        for linear in additive.linear:
            if linear.coef.any():
                scores = graph.add("Add", scores, _linear(graph, linear, raw))
        return refused_are_nan(graph, refused, scores)

    def _rows(self, graph: Graph, inputs: Sequence[str]) -> tuple[list[str], str, list[str]]:
        """The numbers as given, rows as the trees compare them, and marks of refused rows."""
        forest, n_columns = self.forest, len(self.columns)
        texts = [column.is_text for column in self.columns]
        if self.dtype == np.float32:  # exact, and what follows is of one type
            is_text = texts if len(inputs) == n_columns else [False]
            pairs = zip(inputs, is_text, strict=True)
            inputs = [x if text else graph.cast(x, np.float64) for x, text in pairs]
        if not self.has_categories:
            rows = inputs[0] if len(inputs) == 1 else graph.add("Concat", *inputs, axis=1)
            raw, refused = [rows], self._refused(graph, rows)
        else:
            raw = list(inputs)
            if len(inputs) < n_columns:
                places = [graph.constant([j], np.int64) for j in range(n_columns)]
                raw = [graph.add("Gather", inputs[0], place, axis=1) for place in places]
            rows, refused = self._coded(graph, raw)
        counted = {
            j: ends
            for j, ends in forest.missing_values.items()
            if self.columns[j].other is not AnyOther.CODE
        }
        if counted:
            rows = add_missing(graph, counted, rows, range(n_columns))
        return raw, rows, refused

    def _coded(self, graph: Graph, raw: Sequence[str]) -> tuple[str, list[str]]:
        """Columns side by side, categories as codes, and marks of refused rows."""
        refused: list[str] = []
        numbers = [x for x, c in zip(raw, self.columns, strict=True) if c.categories is None]
        if numbers:
            refused += self._refused(graph, graph.add("Concat", *numbers, axis=1))
        coded = []
        for j, (values, column) in enumerate(zip(raw, self.columns, strict=True)):
            if column.categories is None:
                coded.append(values)
                continue
            coded.append(add_codes(graph, column, self.forest, j, values))
            if column.other is AnyOther.CODE:
                # Codes are whole numbers; the model refuses parts of them.
                whole = graph.add("Equal", graph.add("Floor", values), values)
                known = graph.add("Or", whole, graph.add("IsNaN", values))
                refused.append(graph.add("Not", known))
        return graph.add("Concat", *coded, axis=1), refused

    def _refused(self, graph: Graph, rows: str) -> list[str]:
        """Marks of numbers that some forest refuses: infinite ones, missing ones."""
        found = []
        if not all(forest.allows_infinity for forest in self.blocks):
            # A number beyond the range of float32 is infinite to a forest that compares in it.
            single = any(f.dtype == np.float32 and not f.allows_infinity for f in self.blocks)
            found.append(graph.add("IsInf", graph.cast(rows, np.float32) if single else rows))
        if not all(forest.allows_nan for forest in self.blocks):
            found.append(graph.add("IsNaN", rows))
        return found


def refused_are_nan(graph: Graph, refused: Sequence[str], scores: str) -> str:
    """Put NaN for the scores of rows with a mark: the model would raise an error."""
    for marks in refused:
        numbers = graph.cast(marks, np.float32)
        some = graph.add("ReduceMax", numbers, graph.constant([1], np.int64), keepdims=1)
        is_refused = graph.cast(some, np.bool_)
        scores = graph.add("Where", is_refused, graph.constant(np.nan, np.float64), scores)
    return scores


def _linear(graph: Graph, linear: LinearScores, raw: Sequence[str]) -> str:
    r"""Add the linear terms, :math:`c (\min(\max(x, l), h) - m) / \sigma`, times coefficients."""
    terms = linear.terms
    nan_to = graph.constant(0.0, np.float64)
    used = np.flatnonzero(linear.coef.any(axis=0))
    order = [np.flatnonzero(~terms.is_missing[used]), np.flatnonzero(terms.is_missing[used])]
    parts, coef = [], []
    for k, own in enumerate(order):
        chosen = used[own]
        if not len(chosen):
            continue
        if len(raw) == 1:
            at = graph.constant(terms.column[chosen], np.int64)
            values = graph.add("Gather", raw[0], at, axis=1)
        else:
            values = graph.add("Concat", *(raw[j] for j in terms.column[chosen].tolist()), axis=1)
        missing = graph.add("IsNaN", values)
        if k == 1:
            c = graph.constant(terms.factor, np.float64)
            parts.append(graph.add("Where", missing, c, nan_to))
        else:
            low, high, mean, slope = (
                graph.constant([part[chosen]], np.float64)
                for part in (terms.low, terms.high, terms.mean, terms.slope)
            )
            clipped = graph.add("Min", graph.add("Max", values, low), high)
            moved = graph.add("Mul", graph.add("Sub", clipped, mean), slope)
            parts.append(graph.add("Where", missing, nan_to, moved))
        coef.append(linear.coef[:, chosen])
    weights = graph.constant(np.ascontiguousarray(np.hstack(coef).T))
    side_by_side = parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=1)
    return graph.add("MatMul", side_by_side, weights)
