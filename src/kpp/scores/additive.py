"""`AdditiveForest`: a fitted model as forests with one number per node and score."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kpp._parallel import blocks_of, run_blocks
from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray, IntArray, OffsetArray
from kpp.forest.arrays import Forest
from kpp.forest.join import check_one_reading, join_forests
from kpp.forest.route import route
from kpp.forest.sums import gather_scores, path_sums
from kpp.geometry.composed import block_slices
from kpp.geometry.linear import LinearMap
from kpp.geometry.maps import MapBlock, PathMap
from kpp.scores.direct import DirectScores
from kpp.scores.linear import LinearScores, coordinates_of_rows

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestRegressor

Table = TypeVar("Table")

# Runs of rows for threads; each row adds its trees in order, so the cut changes no bit.
ROWS_PER_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class ScoreBlock:
    r"""One forest of an additive model.

    Parameters
    ----------
    name : str
        Name of the block; empty for the only forest of a model.
    forest : Forest
        Its trees.
    node_values : array of shape (n_scores, n_nodes)
        Path sums :math:`P_k(v) = \sum_{u \preceq v} s_u w_{k, u}`.
    coef : array of shape (n_scores, n_nodes), optional
        w. None where only the path sums are known.
    squared_scale : array of shape (n_nodes,), optional
        :math:`s_v^2`, the squared coordinates: the metric.
    map : PathMap, optional
        The embedding at the rows of the fit.
    node_rows : int array of shape (n_nodes,), optional
        Number of rows of the fit in each node; counted by `rows_of_nodes` where there is a map.
    """

    name: str
    forest: Forest
    node_values: FloatArray
    coef: FloatArray | None = None
    squared_scale: FloatArray | None = None
    map: PathMap | None = None
    node_rows: OffsetArray | None = None

    @property
    def contribution(self) -> FloatArray:
        r"""What each node adds to the scores, :math:`s_v w_v`; shape (n_scores, n_nodes)."""
        if self.coef is not None and self.squared_scale is not None:
            return np.ascontiguousarray(self.scale * self.coef)
        # Path sums alone: s_v w_v = P(v) - P(parent(v)), up to rounding.
        parent = self.forest.parent
        above = np.where(parent >= 0, self.node_values[:, parent], 0.0)
        return np.ascontiguousarray(self.node_values - above)

    def contribution_of(self, score: int, nodes: AnyArray) -> FloatArray:
        """What some nodes add to one score, shape (n,): entries of `contribution`, to the bit."""
        if self.coef is not None and self.squared_scale is not None:
            return np.asarray(self.scale_of(nodes) * self.coef[score, nodes])
        values, parent = self.node_values[score], self.forest.parent[nodes]
        return np.asarray(values[nodes] - np.where(parent >= 0, values[parent], 0.0))

    def scale_of(self, nodes: AnyArray) -> FloatArray:
        """The coordinates of some nodes, shape (n,): entries of `scale`, to the bit."""
        if self.squared_scale is None:
            return self.scale[nodes]
        return np.asarray(np.sqrt(self.squared_scale[nodes]))

    @property
    def scale(self) -> FloatArray:
        """The coordinates s, shape (n_nodes,)."""
        if self.map is not None:
            return self.map.scale
        if self.squared_scale is None:
            raise ValueError("These trees came without weights: there is no metric on them.")
        return np.sqrt(self.squared_scale)

    def rows_of_nodes(self) -> OffsetArray | None:
        """Number of rows of the fit in each node, shape (n_nodes,); None where it is not known."""
        return self.node_rows if self.map is None else self.map.rows_below()

    @property
    def variable(self) -> IntArray:
        """Column that the split above each node tests, shape (n_nodes,).

        -1 at roots, -2 below oblique splits, which test several.
        """
        parent = self.forest.parent
        variable = np.where(parent >= 0, self.forest.feature[parent], -1)
        return np.ascontiguousarray(variable, dtype=np.int32)

    @property
    def tree_names(self) -> tuple[str, ...]:
        """Names of the trees, as in the names of the coordinates."""
        front = f"{self.name}__" if self.name else ""
        return tuple(f"{front}t{tree}" for tree in range(self.forest.n_trees))


class LayerBlock(ScoreBlock):
    """One forest of a model of one linear layer, which has the coefficients, and the map.

    Parameters
    ----------
    block : ScoreBlock
        With a map. Its path sums are kept, the other numbers of nodes are not.
    layer : object
        Its ``node_coef``, of shape (n_scores, m), holds the coefficients of all blocks.
    first : int
        The first of this block.
    """

    def __init__(self, block: ScoreBlock, layer: Any, first: int) -> None:
        # The fields of a frozen dataclass; the others are properties here.
        kept = {name: getattr(block, name) for name in ("name", "forest", "node_values", "map")}
        vars(self).update(kept, node_rows=None, layer=layer, first=first)

    @property
    def coef(self) -> FloatArray:
        """The coefficients w, shape (n_scores, n_nodes)."""
        first = vars(self)["first"]
        own: FloatArray = vars(self)["layer"].node_coef[:, first : first + self.forest.n_nodes]
        return own

    @property
    def squared_scale(self) -> FloatArray:
        """The squared coordinates, shape (n_nodes,)."""
        assert self.map is not None
        return self.map.squared_scale


@dataclass(frozen=True, eq=False)
class AdditiveForest(Shown):
    r"""A fitted model as forests with one number per node and score.

    .. math::
        g_k(x) = b_k + \sum_t P_k(\ell_t(x)), \qquad
        P_k(v) = \sum_{u \preceq v} s_u w_{k, u}

    with the sum over the nodes u from the root down to v. A prediction reads the leaves only; the
    differences along a path are the node-level attribution. Every room that reads a fitted model
    reads this; ``model.additive_`` has one block per forest of the model, ``model.collapse()`` has
    them all in one forest.

    Parameters
    ----------
    blocks : tuple of ScoreBlock
        The forests.
    intercept : array of shape (n_scores,)
        :math:`b_k`.
    classes : array of shape (n_classes,), optional
        Class labels; None where the scores are the prediction. Two classes have one score, the
        log-odds of the second; more have one each, and the softmax makes them probabilities.
    linear : tuple of LinearScores
        Linear terms beside the forests, which add :math:`\langle w_k, \Psi(x) \rangle`; most
        models have none.
    is_log : bool
        Whether the score is the logarithm of the prediction, as with Poisson's loss.
    """

    blocks: tuple[ScoreBlock, ...]
    intercept: FloatArray
    classes: AnyArray | None = None
    linear: tuple[LinearScores, ...] = ()
    is_log: bool = False

    @classmethod
    def from_coefficients(
        cls,
        embedding: MapBlock,
        coef: FloatArray,
        intercept: FloatArray,
        classes: AnyArray | None = None,
        *,
        is_log: bool = False,
    ) -> AdditiveForest:
        """Collapse coefficients on a map.

        Parameters
        ----------
        embedding : MapBlock
            The map at the rows of the fit; one forest or several.
        coef : array of shape (n_scores, m)
            w.
        intercept : array of shape (n_scores,)
            b.
        classes : array, optional
            Class labels.
        is_log : bool
            Whether the score is the logarithm of the prediction.

        Returns
        -------
        additive : AdditiveForest
        """
        blocks, linear = [], []
        for name, block, place in block_slices(embedding):
            own = coef[:, place]
            if isinstance(block, LinearMap):
                linear.append(LinearScores(name, block.terms, own, block))
                continue
            if not isinstance(block, PathMap):
                raise TypeError(f"No scores are known for a block of kind {type(block).__name__}.")
            # P_k(v), the path sums of s_v w_v: all that a prediction needs from here on.
            # In place, parents before their children: no array of a fit is longer.
            values = block.scale * own
            forest = block.forest
            for row in values:
                path_sums(forest.tree_offsets, forest.parent, row, 0, forest.n_trees, row)
            blocks.append(ScoreBlock(name, block.forest, values, own, block.squared_scale, block))
        b = np.asarray(intercept, dtype=np.float64)
        return cls(tuple(blocks), b, classes, tuple(linear), is_log)

    def __repr__(self) -> str:
        n_terms = sum(len(block.terms) for block in self.linear)
        return (
            f"AdditiveForest(n_trees={self.n_trees}, "
            f"n_nodes={sum(block.forest.n_nodes for block in self.blocks)}, "
            + (f"n_linear_terms={n_terms}, " if self.linear else "")
            + f"n_scores={self.n_scores})"
        )

    @property
    def n_scores(self) -> int:
        """Number of scores."""
        return len(self.intercept)

    @property
    def n_trees(self) -> int:
        """Number of trees, over all blocks."""
        return sum(block.forest.n_trees for block in self.blocks)

    @property
    def link(self) -> str:
        """How scores become answers: "identity", "log", "logistic" or "softmax"."""
        if self.classes is None:
            return "log" if self.is_log else "identity"
        return "logistic" if len(self.classes) == 2 else "softmax"

    @property
    def outputs(self) -> tuple[Hashable, ...]:
        """What the scores stand for: classes, or numbers of targets; one for a single score."""
        if self.classes is None:
            return tuple(range(self.n_scores))
        listed = self.classes.tolist()
        return tuple(listed) if len(listed) > 2 else (listed[1],)

    @cached_property
    def forest(self) -> Forest:
        """All trees in one forest, block after block; in float64 where blocks differ."""
        return join_forests([block.forest for block in self.blocks])

    def once(self, make: Callable[..., Table], *arguments: Any) -> Table:
        """Return ``make(*arguments)``, made at the first call and kept with this object.

        For tables over the nodes that questions about single rows would otherwise compute anew
        for each row. They are neither pickled nor copied.

        Parameters
        ----------
        make : callable
            What makes the table. It is called once, so the arguments must follow from this object
            or from the model that holds it.
        *arguments
            What it is given. Whatever it returns should not refer to this object, so that both
            are freed together at once.

        Returns
        -------
        table : object
        """
        tables = self.__dict__.setdefault("_tables", {})
        if make not in tables:
            tables[make] = make(*arguments)
        table: Table = tables[make]
        return table

    def __getstate__(self) -> dict[str, Any]:
        # The fields alone: whatever was computed from them is computed again where it is needed.
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def node_values(self) -> FloatArray:
        """Path sums of all blocks side by side, shape (n_scores, n_nodes)."""
        if len(self.blocks) == 1:
            return self.blocks[0].node_values
        return np.hstack([block.node_values for block in self.blocks])

    @property
    def node_rows(self) -> OffsetArray | None:
        """Number of rows of the fit in each node of all blocks; None where it is not known."""
        counted = [block.rows_of_nodes() for block in self.blocks]
        # Counts of some blocks only would look like counts of all.
        known = [rows for rows in counted if rows is not None]
        return np.concatenate(known) if len(known) == len(counted) else None

    def in_one_forest(self, feature_names: Any = None) -> AdditiveForest:
        """Return the same scores from a single forest.

        Parameters
        ----------
        feature_names : array of str, optional
            Names of the columns, for a forest that has none.

        Returns
        -------
        additive : AdditiveForest
            With one block, without a name; linear terms stay beside it.
        """
        check_one_reading([block.forest for block in self.blocks])
        forest = self.forest
        if forest.feature_names is None and feature_names is not None:
            # A forest that was given without names, in a model fitted on a data frame.
            forest = replace(forest, feature_names=tuple(str(name) for name in feature_names))
        only = ScoreBlock(
            name="",
            forest=forest,
            node_values=self.node_values,
            coef=_side_by_side([block.coef for block in self.blocks]),
            squared_scale=_side_by_side([block.squared_scale for block in self.blocks]),
            node_rows=self.node_rows,
        )
        linear = tuple(replace(terms, map=None) for terms in self.linear)
        return AdditiveForest((only,), self.intercept, self.classes, linear, self.is_log)

    def to_sklearn(self, score: int = 0) -> RandomForestRegressor:
        r"""Write one score as a genuine ``RandomForestRegressor``.

        Its ``predict`` is the score, intercept included: with K trees a node holds
        :math:`K P(v) + b`, and scikit-learn averages over the trees. Internal nodes hold their
        path sums, so the Saabas decomposition of this forest (that of treeinterpreter) is the
        variable-level attribution of the model. Tools that recompute internal values from the
        leaves and the numbers of rows, as TreeSHAP does, give something else.

        Parameters
        ----------
        score : int, default=0
            Which score: a class of a multiclass model, or a target of a multi-output one.

        Returns
        -------
        forest : sklearn.ensemble.RandomForestRegressor
            Fitted. ``n_node_samples`` are the rows of the model's fit. ``impurity`` is the
            variance of the tree's leaf values over them. In ``weighted_n_node_samples`` a leaf
            without rows counts as 1/1024 of a row, so that shares of a parent are defined.

        Raises
        ------
        TypeError
            For linear terms, which no tree has, for categorical and oblique splits, and for a
            forest that compares in float64 (scikit-learn's ``HistGradientBoosting``): a
            ``RandomForestRegressor`` casts X to float32 and would send some rows elsewhere. Use
            `scores`.

        Notes
        -----
        Missing values go where the model sends them. Where the model's own forest refuses them
        (``forest.allows_nan`` is False), scikit-learn accepts them nevertheless.
        """
        from kpp.scores.sklearn_forest import write_forest

        if any(terms.coef.any() for terms in self.linear):
            raise TypeError(
                "This model has linear terms (main_effects='linear'), and a RandomForestRegressor "
                "has trees only. Use `scores`, or fit with main_effects='ladders', which are trees."
            )
        n_scores, node_rows = self.n_scores, self.node_rows
        if not isinstance(score, int | np.integer) or not 0 <= score < n_scores:
            raise ValueError(f"score must be an integer from 0 to {n_scores - 1}; got {score!r}.")
        if node_rows is None:
            node_rows = np.zeros(self.forest.n_nodes, dtype=np.int64)
        return write_forest(
            self.forest, self.node_values[score], float(self.intercept[score]), node_rows
        )

    def route(self, X: Any, *, n_jobs: int | None = None) -> list[IntArray]:
        """Find the leaves of rows in every block, each with its own node ids.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.
        n_jobs : int, optional
            Number of threads. The result does not depend on it.

        Returns
        -------
        leaf_ids : list of int32 arrays of shape (n_trees of the block, n_rows)
        """
        return [route(block.forest, X, n_jobs=n_jobs) for block in self.blocks]

    def scores_at(
        self,
        leaf_ids: Sequence[IntArray],
        values: Sequence[FloatArray] = (),
        *,
        n_jobs: int | None = None,
    ) -> FloatArray:
        """Add up the leaf values of routed rows, and their linear terms.

        Parameters
        ----------
        leaf_ids : list of arrays of shape (n_trees of the block, n_rows)
            From `route`.
        values : list of arrays of shape (n_rows, p of the block)
            Coordinates of the rows in each block of `linear`.
        n_jobs : int, optional
            Number of threads. The result does not depend on it: every row adds its trees in order.

        Returns
        -------
        scores : array of shape (n_rows, n_scores)
        """
        out = np.zeros((self.n_scores, leaf_ids[0].shape[1]))
        for block, leaves in zip(self.blocks, leaf_ids, strict=True):
            _gather(leaves, block.node_values, out, n_jobs)
        for terms, own in zip(self.linear, values, strict=True):
            terms.add_to(out, own)
        return out.T + self.intercept

    def scores(self, X: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Return the scores of rows: predictions, or what `decision_function` gives.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.
        n_jobs : int, optional
            Number of threads. The result does not depend on it.

        Returns
        -------
        scores : array of shape (n_rows, n_scores)
        """
        found = None if self.direct is None else self.direct.scores(X, n_jobs)
        if found is not None:
            return found
        leaf_ids = self.route(X, n_jobs=n_jobs)
        return self.scores_at(leaf_ids, coordinates_of_rows(self.linear, X), n_jobs=n_jobs)

    @cached_property
    def direct(self) -> DirectScores | None:
        """Tables for rows of finite numbers, made at the first prediction; None if not possible."""
        if not DirectScores.takes(self.blocks, self.linear):
            return None
        return DirectScores(self.blocks, self.linear, self.intercept)


def _side_by_side(parts: list[FloatArray | None]) -> FloatArray | None:
    """Arrays over nodes of all blocks as one; None where one is not known."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known, axis=-1) if len(known) == len(parts) else None


def _gather(leaf_ids: IntArray, values: FloatArray, out: FloatArray, n_jobs: int | None) -> None:
    """Add the values of each row's leaves, trees in order; the cut into rows changes nothing."""
    n_rows = out.shape[1]
    blocks = blocks_of(n_rows, -(-n_rows // ROWS_PER_BLOCK))
    run_blocks(lambda b: gather_scores(leaf_ids, values, *blocks[b], out), len(blocks), n_jobs)
