"""`FoldPredictors`: for every fold the predictor that has not seen it, at any rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from kpp._typing import AnyArray, FloatArray, IntArray
from kpp.forest.arrays import Forest
from kpp.forest.bare import BareScores
from kpp.forest.steps import bare_steps
from kpp.forest.sums import gather_scores, path_sums
from kpp.geometry.composed import forest_blocks
from kpp.geometry.maps import MapBlock, PathMap
from kpp.models.fits import LinearFit
from kpp.models.spread import FoldSpread, fold_spread
from kpp.scores import AdditiveForest, LinearScores, RoutedRows
from kpp.solvers import log_loss

Part = TypeVar("Part")


@dataclass(frozen=True, eq=False)
class FoldBare:
    """The bare ensemble of a fold in a blend.

    Parameters
    ----------
    forest : Forest
        The forest of the block, with scores of its own.
    trees : slice, optional
        The trees that have not seen the fold; all by default.
    base : array of shape (n_bare_scores,), optional
        The initial value of the group, which the joined forest has not: it knows their mean only.
    n_groups : int
        Groups of trees in the forest.
    share : array of shape (n_scores,)
        Its weight, from the other folds.
    """

    forest: Forest
    trees: slice | None
    base: FloatArray | None
    n_groups: int
    share: FloatArray

    @classmethod
    def of(
        cls,
        block: MapBlock,
        trees: slice | None = None,
        base: FloatArray | None = None,
        n_groups: int = 1,
    ) -> FoldBare:
        """Return the bare ensemble of a block, or of a group of its trees, with a weight of 1."""
        assert isinstance(block, PathMap)  # linear terms have no bare ensemble
        return cls(block.forest, trees, base, n_groups, np.ones(1))

    def steps(self, classes: AnyArray | None) -> tuple[FloatArray, FloatArray]:
        """Steps of its nodes, shape (n_scores, n_nodes of the group), and the constant."""
        forest = self.forest
        if self.trees is not None:
            bare, group = forest.bare, forest.take_trees(self.trees)
            assert bare is not None
            if bare.combines == "sum":
                assert bare.values is not None
                assert self.base is not None
                # In the joined forest a booster counts as one of so many: see `BareScores`.
                values = bare.values[:, forest.nodes_of(self.trees)] * self.n_groups
                score = None if bare.tree_score is None else bare.tree_score[self.trees]
                own = BareScores(self.base, "sum", values, score, bare.classes)
                group = replace(group, bare=own)
            forest = group
        found = bare_steps(forest, classes)
        assert found is not None
        return found


@dataclass(frozen=True, eq=False)
class _Trees:
    """Some trees of a forest, with one number per node and score."""

    forest: Forest
    trees: slice
    node_values: FloatArray

    def leaf_ids(self, rows: RoutedRows) -> IntArray:
        known = rows.leaf_ids_of(self.forest)[self.trees]
        first = self.forest.tree_offsets[self.trees.start]
        return np.ascontiguousarray(known - first, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class _Predictor:
    """One fold's predictor: what predictions need, and no rows."""

    trees: list[_Trees]
    linear: list[LinearScores]
    intercept: FloatArray

    def scores(self, rows: RoutedRows) -> FloatArray:
        out = np.zeros((len(self.intercept), len(rows)))
        for part in self.trees:
            gather_scores(part.leaf_ids(rows), part.node_values, 0, len(rows), out)
        for terms in self.linear:
            terms.add_to(out, rows.coordinates_of(terms.terms))
        return out.T + self.intercept


@dataclass(frozen=True, eq=False)
class FoldPredictors:
    r"""The predictors that made the out-of-fold predictions, one for each fold.

    .. math:: g_q = c_q + \sum_b \theta_{q, K_b} K_{b, q} + \theta_{q, F_b} F_{b, q}

    with :math:`K_{b, q}` the linear layer and :math:`F_{b, q}` the bare ensemble of block b without
    fold q, and weights :math:`\theta_q` from the scores of the other folds. A model that is no
    blend has one block, :math:`\theta = 1` and :math:`c = 0`.

    Parameters
    ----------
    fits : list of LinearFit
        Fold by fold, and in a fold block by block; their `share` is :math:`\theta_{q, K_b}`.
    bare : list of FoldBare
        Fold by fold likewise; none where the model is no blend.
    constant : array of shape (n_folds, n_scores)
        c.
    fold_of_row : int array of shape (n_fit_rows,)
        The fold that each row of the fit was left out with.
    target : array of shape (n_fit_rows, n_targets), or int array of shape (n_fit_rows,)
        The target of these rows; of a classifier the number of the class.
    out_of_fold : array of shape (n_fit_rows, n_targets) or (n_fit_rows, n_classes)
        What they predict for these rows: numbers, or probabilities.
    classes : array of shape (n_classes,), optional
        Of a classifier.
    held_out : list of MapBlock, optional
        Where every fold has a forest of its own: the embedding at the rows of each fold.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor(n_estimators=10, random_state=0).fit(X, y)
    >>> scores = model.fold_predictors_.scores(model.at(X))
    >>> own = scores[model.fold_predictors_.fold_of_row, np.arange(len(X)), 0]
    >>> np.allclose(own, model.oof_prediction_)
    True
    """

    fits: list[LinearFit]
    bare: list[FoldBare]
    constant: FloatArray
    fold_of_row: IntArray
    target: AnyArray
    out_of_fold: FloatArray
    classes: AnyArray | None = None
    held_out: list[MapBlock] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Without what was made when it was first asked for: it is as long as the nodes are many.
        return {own.name: getattr(self, own.name) for own in fields(self)}

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.constant)

    @property
    def fold_sizes(self) -> AnyArray:
        """Rows of each fold, int array of shape (n_folds,)."""
        return np.bincount(self.fold_of_row, minlength=self.n_folds)

    @cached_property
    def starts(self) -> AnyArray:
        """Where each fold begins and ends among them, int array of shape (n_folds + 1,)."""
        return np.concatenate([[0], np.cumsum(self.fold_sizes)]).astype(np.int64)

    @cached_property
    def sorted_residuals(self) -> FloatArray:
        """Sizes of the out-of-fold errors, rising in each fold; shape (n_targets, n_fit_rows)."""
        return self._sorted(np.abs(self.target - self.out_of_fold).T)

    @cached_property
    def sorted_scaled_residuals(self) -> FloatArray:
        """The same over the spread at each row; shape (n_targets, n_fit_rows)."""
        return self._sorted(np.abs(self.target - self.out_of_fold).T / self.own_spread)

    @property
    def own_spread(self) -> FloatArray:
        """The spread at each row of the fit, by its fold's predictor; (n_targets, n_fit_rows)."""
        found = np.empty(self.target.T.shape)
        for own, (_, at_fold) in zip(self._rows_of_folds, self._spreads, strict=True):
            found[:, own] = at_fold
        return found

    def _sorted(self, size: FloatArray) -> FloatArray:
        order = [np.lexsort((own, self.fold_of_row)) for own in size]
        return np.array([own[rows] for own, rows in zip(size, order, strict=True)])

    @cached_property
    def made(self) -> dict[Any, Any]:
        """What was sorted once, for whoever asks again, by a name of their own."""
        return {}

    def scores(self, rows: RoutedRows) -> FloatArray:
        """Return the scores of rows by every fold's predictor.

        Parameters
        ----------
        rows : RoutedRows
            From the model's ``at``. Trees of the model are not routed again.

        Returns
        -------
        scores : array of shape (n_folds, n_rows, n_scores)
        """
        return np.array([own.scores(rows) for own in self._made])

    def spread(self, rows: RoutedRows) -> FloatArray:
        r"""Return how much the target varies around rows, by every fold's predictor.

        Parameters
        ----------
        rows : RoutedRows
            From the model's ``at``.

        Returns
        -------
        spread : array of shape (n_folds, n_targets, n_rows)
            :math:`\sigma_q` of `kpp.models.spread.FoldSpread`, from rows of other folds only.
        """
        return np.array([own.at_rows(rows.leaf_ids_of(own.forest)) for own, _ in self._spreads])

    @cached_property
    def _spreads(self) -> list[tuple[FoldSpread, FloatArray]]:
        """The spread of each fold's predictor, and its values at the rows of the fold."""
        fits = _by_fold(self.fits, self.n_folds)
        there: Sequence[MapBlock | None] = self.held_out or [None] * self.n_folds
        folds = zip(fits, there, self._rows_of_folds, strict=True)
        return [fold_spread(own, self.target, held_out, fold) for own, held_out, fold in folds]

    @property
    def predictors(self) -> list[_Predictor]:
        """Every fold's predictor: its `trees` with numbers of nodes, `linear` and `intercept`."""
        return self._made

    @property
    def spreads(self) -> list[FoldSpread]:
        """What says how much the target varies around a row, for every fold."""
        return [own for own, _ in self._spreads]

    @property
    def _rows_of_folds(self) -> list[AnyArray]:
        return [np.flatnonzero(self.fold_of_row == q) for q in range(self.n_folds)]

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities of the classes by scores of a classifier.

        Parameters
        ----------
        scores : array of shape (n_rows, n_scores)
            Of one of the predictors, or of their average.

        Returns
        -------
        probability : array of shape (n_rows, n_classes)
        """
        assert self.classes is not None
        return log_loss(len(self.classes)).link(scores)

    @cached_property
    def _made(self) -> list[_Predictor]:
        # One number per leaf and fold, made of the duals when they are first asked for.
        fits, bare = _by_fold(self.fits, self.n_folds), _by_fold(self.bare, self.n_folds)
        return [self._predictor(*own) for own in zip(self.constant, fits, bare, strict=True)]

    def _predictor(
        self, constant: FloatArray, fits: Sequence[LinearFit], bare: Sequence[FoldBare]
    ) -> _Predictor:
        intercept, trees, linear = constant.copy(), [], []
        for fit in fits:
            was_known = "node_coef" in vars(fit)
            share = np.broadcast_to(fit.share, intercept.shape)
            part = replace(fit.part, rows=None)
            additive = AdditiveForest.from_coefficients(
                part.make(), fit.node_coef * share[:, None], np.zeros_like(intercept)
            )
            if not was_known:
                vars(fit).pop("node_coef")  # as long as the nodes are many, and kept below
            intercept += share * fit.intercept
            chosen = [own for own in part.trees or () if own is not None]
            # By the forest of the whole, in which rows are routed already.
            for k, (_, whole) in enumerate(forest_blocks(part.whole)):
                own = chosen[k] if chosen else slice(0, whole.forest.n_trees)
                trees.append(_Trees(whole.forest, own, additive.blocks[k].node_values))
            linear += [terms.scaled(1.0, terms.name) for terms in additive.linear]
        for ensemble in bare:
            steps, base = ensemble.steps(self.classes)
            intercept += ensemble.share * base
            every = slice(0, ensemble.forest.n_trees)
            own = every if ensemble.trees is None else ensemble.trees
            forest = ensemble.forest.take_trees(own)
            values = np.ascontiguousarray(steps * ensemble.share[:, None])
            for row in values:
                path_sums(forest.tree_offsets, forest.parent, row, 0, forest.n_trees, row)
            # The bare ensemble of a block and its linear layer are on the same trees.
            for k, known in enumerate(trees):
                if known.forest is ensemble.forest and known.trees == own:
                    trees[k] = replace(known, node_values=known.node_values + values)
                    break
            else:
                trees.append(_Trees(ensemble.forest, own, values))
        return _Predictor(trees, linear, intercept)


def _by_fold(parts: Sequence[Part], n_folds: int) -> list[Sequence[Part]]:
    each = len(parts) // n_folds
    return [parts[q * each : (q + 1) * each] for q in range(n_folds)]


def folds_of_rows(tests: Sequence[AnyArray], n_rows: int) -> IntArray:
    """Return the fold that each row was left out with.

    Parameters
    ----------
    tests : sequence of int arrays
        Rows of each fold.
    n_rows : int
        Number of rows; each is in one fold.

    Returns
    -------
    fold_of_row : int32 array of shape (n_rows,)
    """
    found = np.empty(n_rows, dtype=np.int32)
    for q, test in enumerate(tests):
        found[test] = q
    return found
