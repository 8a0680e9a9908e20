"""`explain_interactions`: which pairs of columns act together."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kpp._checks import check_choice
from kpp._optional import optional
from kpp._parallel import blocks_of
from kpp._shown import Shown
from kpp._typing import FloatArray, IntArray, OffsetArray
from kpp.explanations._loops import add_by_variable, columns_of_paths
from kpp.explanations.attribution import TOLERANCE
from kpp.explanations.checks import check_top, check_variables
from kpp.explanations.explain import as_given, baseline_of
from kpp.models.asking import Question, ask
from kpp.scores import RoutedRows

# What becomes of nodes whose path tests three columns or more.
HIGHER = ("apart", "last")
# Sums of one run of rows that are held at once.
MOST_SUMS = 4_000_000
NONE = np.zeros(0)


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(Shown):
    r"""Scores, taken apart by the columns that act together; from `explain_interactions`.

    .. math::
        g(x_i) = c_0 + \sum_j M_j(x_i) + \sum_{\{j, k\}} P_{jk}(x_i) + H(x_i)

    Arrays have a last axis over the outputs where there are several.

    Parameters
    ----------
    pairs : tuple of (str, str)
        The listed pairs, the largest mean absolute value first.
    values : array of shape (n_rows, n_pairs)
        :math:`P_{jk}(x_i)` of the listed pairs.
    main : array of shape (n_rows, n_features)
        :math:`M_j(x_i)`: what nodes add whose path tests column j only, and linear terms.
    higher : array of shape (n_rows,)
        :math:`H(x_i)`: what nodes add whose path tests three columns or more.
    others : array of shape (n_rows,)
        The sum over the pairs that are not listed.
    n_others : int
        Their number.
    mean_abs : array of shape (n_pairs,)
        Mean over rows of the absolute value of each listed pair.
    baseline : float, or array of shape (n_outputs,)
        :math:`c_0`, intercept and roots.
    scores : array of shape (n_rows,)
        What the model itself predicts.
    feature_names : tuple of str
        Names of the columns; behind a preparation, of the raw ones.
    outputs : tuple
        What the scores stand for.
    assigned : {"apart", "last"}
        What became of nodes with three columns or more.

    Attributes
    ----------
    residual : float
        Largest absolute deviation of the sums from `scores`.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp import KPPRegressor, explain_interactions
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> model = KPPRegressor("extra-trees", n_estimators=5, alpha=0.1, random_state=0)
    >>> found = explain_interactions(model.fit(X, X[:, 0] * X[:, 1]), X)
    >>> found.pairs, found.values.shape, sorted(found.sizes())
    ((('x0', 'x1'),), (200, 1), ['one column', 'three or more columns', 'two columns'])
    """

    pairs: tuple[tuple[str, str], ...]
    values: FloatArray
    main: FloatArray
    higher: FloatArray
    others: FloatArray
    n_others: int
    mean_abs: FloatArray
    baseline: Any
    scores: FloatArray
    feature_names: tuple[str, ...]
    outputs: tuple[Hashable, ...] = (0,)
    assigned: str = "apart"
    residual: float = field(init=False)

    def __post_init__(self) -> None:
        parts = (self.main.sum(axis=1), self.values.sum(axis=1), self.higher, self.others)
        deviation = np.abs(self.baseline + sum(parts) - self.scores)
        size = np.abs(self.baseline) + np.abs(self.main).sum(axis=1) + np.abs(self.higher)
        size = size + np.abs(self.values).sum(axis=1) + np.abs(self.others)
        object.__setattr__(self, "residual", float(deviation.max(initial=0.0)))
        if not (deviation <= TOLERANCE * np.maximum(size, 1e-300)).all():
            raise ArithmeticError(
                f"The parts miss the model's score by {self.residual:.3g}: the model was changed "
                "after its fit, or its coefficients are not finite."
            )

    def sizes(self) -> dict[str, float]:
        """Mean absolute size of the columns alone, of all pairs, and of more columns together.

        Of several outputs the sum over them.

        Returns
        -------
        sizes : dict of str to float
        """
        pairs = self.values.sum(axis=1) + self.others
        parts = {
            "one column": self.main.sum(axis=1),
            "two columns": pairs,
            "three or more columns": self.higher,
        }
        n_rows = max(1, len(self.scores))
        return {name: float(np.abs(part).sum() / n_rows) for name, part in parts.items()}

    def to_frame(self) -> Any:
        """Return the listed pairs as a pandas data frame.

        Returns
        -------
        frame : pandas.DataFrame
            Columns first, second, mean_abs and mean; of several outputs the sum over outputs of
            the one, and a column of the other for each.
        """
        pd = optional("pandas", "to_frame()")
        first, second = ([pair[k] for pair in self.pairs] for k in (0, 1))
        data: dict[Hashable, Any] = {"first": first, "second": second}
        n_rows = max(1, len(self.scores))
        mean = self.values.sum(axis=0) / n_rows
        if self.mean_abs.ndim == 1:
            data |= {"mean_abs": self.mean_abs, "mean": mean}
        else:
            data["mean_abs"] = self.mean_abs.sum(axis=1)
            data |= {f"mean of {o}": mean[:, k] for k, o in enumerate(self.outputs)}
        return pd.DataFrame(data)

    def __repr__(self) -> str:
        return (
            f"Interactions(n_rows={len(self.scores)}, n_pairs={len(self.pairs) + self.n_others}, "
            f"residual={self.residual:.1e})"
        )


def explain_interactions(
    model: Any, X: Any, *, top: int = 10, higher: str = "apart"
) -> Interactions:
    r"""Take the scores of rows apart by the columns that act together, exactly.

    Every node v below a root adds :math:`w_v \Phi_v(x)`. The splits on its path test a set of
    columns. One column: it belongs to the main effect of that column. Two: to their pair. Three or
    more: to a sum of its own,

    .. math::
        g(x) = c_0 + \sum_j M_j(x) + \sum_{\{j, k\}} P_{jk}(x) + H(x), \qquad
        P_{jk}(x) = \sum_{v:\ \mathrm{columns}(v) = \{j, k\}} w_v \Phi_v(x)

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline
        Fitted. Behind the preparation of a Pipeline the columns are the raw ones: two columns that
        were made of one are one.
    X : array-like, data frame or RoutedRows of shape (n_rows, n_columns), or one row
        Rows.
    top : int, default=10
        Number of pairs to list; the others are added up in ``others``.
    higher : {"apart", "last"}, default="apart"
        With "last" a node with three columns or more belongs to the pair of the two columns that
        are tested last on its path, and ``higher`` is 0.

    Returns
    -------
    interactions : Interactions
        ``print`` it, take ``.to_frame()``, or draw it with `InteractionDisplay`.

    See Also
    --------
    explain : The same scores by column, each node for the split right above it.

    Notes
    -----
    This is an exact account of the fitted trees, and of which columns they test together. A tree
    that asks for a second column below a first may do so for the sake of the second alone, so that
    pairs are not 0 for a function that is a sum over columns, unless every tree tests one column
    only, as the ladders of ``main_effects="ladders"`` do. What stands out among the pairs is what
    the trees need together.

    Cost: one scan over the nodes, and one walk from leaf to root per row and tree.

    References
    ----------
    Proposition attribution-node, regrouped.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp import KPPRegressor, explain_interactions
    >>> X = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    >>> model = KPPRegressor("random-forest", n_estimators=20, alpha=0.1, random_state=0)
    >>> found = explain_interactions(model.fit(X, X[:, 0] * X[:, 1]), X)
    >>> found.pairs[0]
    ('x0', 'x1')
    >>> total = found.baseline + found.main.sum(axis=1) + found.values.sum(axis=1)
    >>> bool(np.allclose(total + found.others + found.higher, model.predict(X), rtol=1e-10))
    True
    """
    question = ask(model)
    top = check_top(top)
    check_choice("higher", higher, HIGHER)
    check_variables(question.model)
    rows = question.rows(as_given(question, X))
    names, place = _columns(question)
    sums = _Sums.of(question, place, len(names), last_two=higher == "last")
    mean_abs = np.zeros((sums.n_pairs, question.additive.n_scores))
    for own in _runs(len(rows), sums):
        mean_abs += np.abs(sums.at(rows, own)[:, sums.pair_cells]).sum(axis=0)
    mean_abs /= max(1, len(rows))
    order = np.argsort(-mean_abs.sum(axis=1), kind="stable")
    listed, left = order[:top], order[top:]
    parts = [_taken(sums.at(rows, own), sums, listed, left) for own in _runs(len(rows), sums)]
    main, values, more, others = (np.concatenate(part) for part in zip(*parts, strict=True))
    main += _linear_parts(question, rows, place, len(names))
    single = question.additive.n_scores == 1

    def trimmed(array: FloatArray) -> FloatArray:
        return array[..., 0] if single else array

    baseline = baseline_of(question.additive)
    pairs = [sums.pairs[k] for k in listed.tolist()]
    return Interactions(
        pairs=tuple((names[j], names[k]) for j, k in pairs),
        values=trimmed(values),
        main=trimmed(main),
        higher=trimmed(more),
        others=trimmed(others),
        n_others=len(left),
        mean_abs=trimmed(mean_abs[listed]),
        baseline=float(baseline[0]) if single else baseline,
        scores=trimmed(rows.scores),
        feature_names=names,
        outputs=question.additive.outputs,
        assigned=higher,
    )


def _columns(question: Question) -> tuple[tuple[str, ...], IntArray]:
    """Names of the columns, and which of them each column of the model belongs to."""
    if question.preparation is None:
        return question.names, np.arange(len(question.names), dtype=np.int32)
    names = tuple(dict.fromkeys(question.sources))
    number = {name: k for k, name in enumerate(names)}
    return names, np.array([number[name] for name in question.sources], dtype=np.int32)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Where the nodes of a model belong: columns first, then pairs, then everything else.

    `cells` has, for each forest, the place of each node; `pairs` the two columns of each pair.
    """

    question: Question
    cells: list[IntArray]
    pairs: list[tuple[int, int]]
    n_columns: int

    @classmethod
    def of(cls, question: Question, place: IntArray, n_columns: int, *, last_two: bool) -> _Sums:
        """Look at every path once."""
        keys = []
        for block in question.additive.blocks:
            forest, n_nodes = block.forest, block.forest.n_nodes
            variable = np.where(block.variable >= 0, place[block.variable], block.variable)
            first, second = np.empty((2, n_nodes), dtype=np.int32)
            is_more = np.empty(n_nodes, dtype=bool)
            columns_of_paths(
                *(forest.parent, variable.astype(np.int32), forest.term_offsets),
                *(place[forest.term_columns], last_two, first, second, is_more),
            )
            # A number for the pair; below 0: one column, -1 - j, or more than two.
            pair = first.astype(np.int64) * n_columns + second
            # Roots, which no split is above, are in the baseline: their place is never read.
            alone = -1 - np.maximum(first, 0)
            keys.append(np.where(is_more, -1 - n_columns, np.where(second < 0, alone, pair)))
        found = np.unique(np.concatenate([key[key >= 0] for key in keys]))
        n_cells = n_columns + len(found)
        cells = []
        for key in keys:
            cell = np.where(key >= 0, n_columns + np.searchsorted(found, key), -1 - key)
            cells.append(np.where(key == -1 - n_columns, n_cells, cell).astype(np.int32))
        pairs = [divmod(int(key), n_columns) for key in found.tolist()]
        return cls(question, cells, pairs, n_columns)

    @property
    def n_pairs(self) -> int:
        return len(self.pairs)

    @property
    def pair_cells(self) -> slice:
        return slice(self.n_columns, self.n_columns + self.n_pairs)

    def at(self, rows: RoutedRows, run: slice) -> FloatArray:
        """Sums of some rows, shape (n, n_columns + n_pairs + 1, n_scores)."""
        additive = self.question.additive
        n_cells = self.n_columns + self.n_pairs + 1
        out = np.zeros((additive.n_scores, run.stop - run.start, n_cells))
        no_terms = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32), NONE
        for block, leaf_ids, cell in zip(additive.blocks, rows.leaf_ids, self.cells, strict=True):
            own = np.ascontiguousarray(leaf_ids[:, run])
            for score, contribution in zip(out, block.contribution, strict=True):
                parent = block.forest.parent
                add_by_variable(own, parent, cell, *no_terms, contribution, 0, own.shape[1], score)
        return out.transpose(1, 2, 0)


def _runs(n_rows: int, sums: _Sums) -> list[slice]:
    """Rows that are added up together, so that memory does not grow with their number."""
    n_cells = (sums.n_columns + sums.n_pairs + 1) * sums.question.additive.n_scores
    n_runs = max(1, -(-n_rows * n_cells // MOST_SUMS))
    return [slice(*ends) for ends in blocks_of(n_rows, min(n_runs, max(1, n_rows)))]


def _taken(
    found: FloatArray, sums: _Sums, listed: OffsetArray, left: OffsetArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Columns, listed pairs, more columns, other pairs."""
    pairs = found[:, sums.pair_cells]
    return (
        found[:, : sums.n_columns].copy(),
        pairs[:, listed],
        found[:, -1].copy(),
        pairs[:, left].sum(axis=1),
    )


def _linear_parts(
    question: Question, rows: RoutedRows, place: IntArray, n_columns: int
) -> FloatArray:
    """What linear terms add, by column; shape (n_rows, n_columns, n_scores)."""
    total = np.zeros((len(rows), n_columns, question.additive.n_scores))
    for terms, coordinates in zip(question.additive.linear, rows.linear_values, strict=True):
        own = terms.by_column(coordinates)
        for j in np.unique(terms.terms.column).tolist():
            total[:, place[j]] += own[:, :, j].T
    return total
