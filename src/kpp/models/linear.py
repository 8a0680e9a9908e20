"""What the regressor and the classifier share: forest, alpha, linear layer, prediction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted

from kpp._checks import check_choice, check_sample_weight
from kpp._progress import Progress
from kpp._shown import ShowsItsFit
from kpp._typing import AnyArray, FloatArray, IntArray
from kpp.forest.grow import UNSUPERVISED, is_grown
from kpp.geometry.composed import BlockMap
from kpp.geometry.maps import MapBlock, PathMap
from kpp.models.building import (
    check_map_parameters,
    check_new_rows,
    check_rows,
    column_spread,
    columns_with_missing,
    forest_specs,
    leaf_ids_of,
    named_blocks,
    take_rows,
    takes_nan,
)
from kpp.models.growing import cv_splits, fold_grown, grow_groups, later_folds, plain_map
from kpp.models.predictor import LeafValues
from kpp.models.selection import DEFAULT_TAUS, Fold, Selection, Solve, select

if TYPE_CHECKING:
    from kpp.export.collapse import CollapsedForest

FITTING = "fitting the linear layer"
REGIMES = ("shared", "honest", "cross-fit", "fixed")
ALPHA_SELECTIONS = ("fold-grown", "regrown", "frozen")


class KPPLinearModel(ShowsItsFit, ABC):
    """A linear layer on the embedding, fitted jointly over all trees."""

    map_: MapBlock

    def __init__(
        self,
        forest: Any = "extra-trees",
        *,
        n_estimators: int = 100,
        node_weight: Any = "gain",
        leaf_weight: Any = None,
        coordinates: str = "path",
        normalize: str = "forest",
        regime: str = "shared",
        alpha: Any = "auto",
        alphas: Any = None,
        alpha_selection: str = "fold-grown",
        scoring: Any = None,
        cv: Any = 5,
        honest_fraction: float = 0.5,
        center: str = "zero",
        linear_terms: bool = False,
        fit_intercept: bool = True,
        tol: float = 1e-8,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.forest = forest
        self.n_estimators = n_estimators
        self.node_weight = node_weight
        self.leaf_weight = leaf_weight
        self.coordinates = coordinates
        self.normalize = normalize
        self.regime = regime
        self.alpha = alpha
        self.alphas = alphas
        self.alpha_selection = alpha_selection
        self.scoring = scoring
        self.cv = cv
        self.honest_fraction = honest_fraction
        self.center = center
        self.linear_terms = linear_terms
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # What a task adds.

    @property
    @abstractmethod
    def _classification(self) -> bool: ...

    @property
    @abstractmethod
    def _search_tols(self) -> tuple[float, float]: ...

    @abstractmethod
    def _encode(self, y: Any, n_rows: int) -> tuple[AnyArray, AnyArray]:
        """Return the target as the forest sees it and as the solver does."""

    @abstractmethod
    def _pose(
        self, block: MapBlock, target: AnyArray, weight: FloatArray, offset: FloatArray | None
    ) -> Solve:
        """Hand the rows of a linear layer to its solver."""

    @abstractmethod
    def _unit(self, block: MapBlock, weight: FloatArray) -> float:
        """Return the alpha that a relative alpha of 1 stands for."""

    @abstractmethod
    def _merit(self, target: AnyArray, scores: FloatArray, weight: FloatArray) -> float:
        """Return the default figure of merit of scores, higher is better."""

    @abstractmethod
    def _out_of_fold(self, scores: FloatArray) -> Any:
        """Return what `oof_prediction_` holds."""

    # Fitting.

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Grow the forest, choose alpha and fit the linear layer.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Target.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows: in the forest, the node weights, the linear layer and the
            scores.
        groups : array-like of shape (n_rows,), optional
            For a `cv` that splits by groups.

        Returns
        -------
        self : estimator
        """
        before = self.__dict__.copy()
        try:
            return self._fit(X, y, sample_weight, groups)
        except BaseException:  # a failed or interrupted fit leaves the old one, whole
            self.__dict__ = before
            raise

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
        self._check_parameters()
        specs = forest_specs(self.forest)
        self._check_specs(specs)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        X = check_rows(self, specs, X)
        n_rows = len(X)
        self.feature_spread_ = column_spread(X)
        self.missing_columns_ = columns_with_missing(X)
        labels, target = self._encode(y, n_rows)
        partition, rows = self._split(n_rows)
        weight = self._weights(check_sample_weight(sample_weight, n_rows), labels, partition)
        # Forests are told of weights only where there are some: not all of them take any.
        given = None if (weight == 1).all() else weight
        progress = Progress(self.verbose)
        self.regime_ = self.regime
        self.partition_rows_, self.fit_rows_ = partition, rows
        self.sample_weight_ = None if given is None else given[rows]
        if self.regime == "cross-fit":
            return self._fit_cross(specs, X, labels, target, weight, given, groups, progress)
        start = None
        if self.center == "partition":
            start = self._partition_model(X, labels, given, partition, groups)
            embedding = start.map_.on(take_rows(X, rows))
        elif self._is_auto() and self._way() == "fold-grown":
            embedding, folds = fold_grown(self, specs, X, labels, given, groups, progress)
        else:
            grown = plain_map(self, specs, X, labels, given, partition, self.random_state, progress)
            embedding = grown.on(take_rows(X, rows))
        if not self._is_auto():
            folds = []
        elif self._way() != "fold-grown":
            folds = later_folds(self, specs, X, labels, given, groups, rows, embedding, progress)
        offset = None if start is None else start._scores(take_rows(X, rows))
        target, weight = target[rows], weight[rows]
        unit = self._unit(embedding, weight)
        selection = self._choose(folds, target, weight, offset, unit, None, progress)
        self.folds_ = [(rows[fold.train_rows], rows[fold.test_rows]) for fold in folds] or None
        del folds  # their leaf ids are not needed any more
        alpha = float(self.alpha) if selection is None else selection.taus[selection.best] * unit
        progress(FITTING, 0, 1)
        solved = self._pose(embedding, target, weight, offset)(np.array([alpha]))
        progress(FITTING, 1, 1)
        coefficients = np.array([embedding.rmatvec(r) for r in solved.dual[0].T])
        b = solved.intercept[0]
        if start is not None:
            coefficients = coefficients + np.atleast_2d(start.coef_)
            b = b + np.atleast_1d(start.intercept_)
        self.alpha_ = float(alpha)
        self._set_selection(selection, unit)
        self._set_fit(embedding, coefficients, b, solved.dual[0], solved.n_iter)
        return self

    def _fit_cross(
        self,
        specs: list[tuple[str, Any]],
        X: Any,
        labels: AnyArray,
        target: AnyArray,
        weight: FloatArray,
        given: FloatArray | None,
        groups: Any,
        progress: Progress,
    ) -> Any:
        """PB-03: for each fold q, trees without q and q + 1, the linear layer on q + 1."""
        splits = cv_splits(self, X, labels, given, groups)
        if len(splits) < 3:
            raise ValueError(
                "regime='cross-fit' needs at least 3 folds: one to predict, one to fit on and one "
                f"to grow on; got {len(splits)}."
            )
        tests = [test for _, test in splits]
        fits = [*tests[1:], tests[0]]
        if any(weight[rows].sum() == 0 for rows in fits):
            raise ValueError(
                "regime='cross-fit' fits on every fold in turn, and the rows of one have no weight "
                "at all: use fewer folds, or another regime."
            )
        embeddings = grow_groups(
            self,
            specs,
            X,
            labels,
            given,
            [np.setdiff1d(train, fit) for (train, _), fit in zip(splits, fits, strict=True)],
            progress,
        )
        folds = [
            Fold(embedding.rows(fit), embedding.rows(test), fit, test)
            for embedding, fit, test in zip(embeddings, fits, tests, strict=True)
        ]
        units = [self._unit(fold.train, weight[fold.train_rows]) for fold in folds]
        selection = self._choose(
            folds, target, weight, None, float(np.mean(units)), self._unit, progress
        )
        solutions = []
        for q, (fold, unit) in enumerate(zip(folds, units, strict=True)):
            progress(FITTING, q, len(folds))
            alpha = self.alpha if selection is None else selection.taus[selection.best] * unit
            rows = fold.train_rows
            alphas = np.array([float(alpha)])
            solutions.append(self._pose(fold.train, target[rows], weight[rows], None)(alphas))
        progress(FITTING, len(folds), len(folds))
        # The average of the folds; a score whose class a fold lacks is averaged over the others.
        n_scores = solutions[0].dual.shape[2]
        seen = np.array(
            [np.ones(n_scores, dtype=bool) if s.seen is None else s.seen for s in solutions]
        )
        if not seen.any(axis=0).all():
            raise ValueError(
                "regime='cross-fit' needs rows of every class in at least one fold that fits; "
                "use fewer folds or another regime."
            )
        factors = seen / seen.sum(axis=0)
        dual = np.zeros((len(weight), n_scores))
        parts, intercept = [], np.zeros(n_scores)
        for fold, solved, factor in zip(folds, solutions, factors, strict=True):
            own = solved.dual[0] * factor
            dual[fold.train_rows] = own
            parts.append(fold.train.rmatmat(own).T)
            intercept += solved.intercept[0] * factor
        total = sum(solved.n_iter for solved in solutions)
        blocks = [
            (f"{name}fold{q}", block)
            for q, embedding in enumerate(embeddings)
            for name, block in named_blocks(embedding)
        ]
        self.folds_ = [(fold.train_rows, fold.test_rows) for fold in folds]
        scale = float(np.mean(units))
        self.alpha_ = (
            float(self.alpha) if selection is None else selection.taus[selection.best] * scale
        )
        self._set_selection(selection, scale)
        self._set_fit(BlockMap(blocks), np.hstack(parts), intercept, dual, total)
        return self

    def _partition_model(
        self, X: Any, labels: AnyArray, weight: FloatArray | None, partition: Any, groups: Any
    ) -> Any:
        """A shared model of the partition fold: its trees, and what the penalty shrinks to."""
        model = clone(self).set_params(regime="shared", center="zero")
        if self._classification:
            model.set_params(class_weight=None)  # the weights hold it already
        model.fit(
            take_rows(X, partition),
            labels[partition],
            None if weight is None else weight[partition],
            None if groups is None else np.asarray(groups)[partition],
        )
        if self._classification and len(model.classes_) < len(self.classes_):
            raise ValueError(
                "center='partition' needs every class in the partition fold; raise its share or "
                "use center='zero'."
            )
        return model

    def _set_selection(self, selection: Selection | None, unit: float) -> None:
        if selection is None:
            self.alphas_, self.cv_scores_ = np.array([self.alpha_]), None
            self.oof_prediction_ = None
        else:
            self.alphas_, self.cv_scores_ = selection.taus * unit, selection.cv_scores
            self.oof_prediction_ = self._out_of_fold(selection.out_of_fold)

    def _set_fit(
        self,
        embedding: MapBlock,
        coefficients: FloatArray,
        intercept: FloatArray,
        dual: Any,
        n_iter: int,
    ) -> None:
        blocks = named_blocks(embedding)
        forests = [(name, block.forest) for name, block in blocks if isinstance(block, PathMap)]
        self.forest_ = forests if isinstance(embedding, BlockMap) else forests[0][1]
        self.map_ = embedding
        self.dual_coef_ = dual
        self.n_iter_ = max(1, n_iter)
        self._set_linear(coefficients, intercept)
        self._leaf_values = LeafValues.from_coefficients(embedding, coefficients, intercept)

    def _is_auto(self) -> bool:
        return isinstance(self.alpha, str) and self.alpha == "auto"

    def _weights(
        self, sample_weight: FloatArray, labels: AnyArray, partition: AnyArray | None
    ) -> FloatArray:
        """The given weights, times those of the classes."""
        return sample_weight

    def _check_parameters(self) -> None:
        check_map_parameters(self)
        check_choice("regime", self.regime, REGIMES)
        check_choice("alpha_selection", self.alpha_selection, ALPHA_SELECTIONS)
        check_choice("center", self.center, ("zero", "partition"))
        if self.center == "partition" and self.regime != "honest":
            raise ValueError(
                f"center='partition' goes with regime='honest'; got regime={self.regime!r}."
            )
        if self.linear_terms:
            raise ValueError("linear_terms=True is reserved and not available yet.")
        if not self._is_auto():
            valid = isinstance(self.alpha, int | float | np.number) and 0 < self.alpha < np.inf
            if not valid:
                raise ValueError(
                    f"alpha must be 'auto' or a positive finite number; got {self.alpha!r}."
                )
        if not 0 < self.honest_fraction < 1:
            raise ValueError(
                "honest_fraction is the share of rows that the linear layer is fitted on, "
                f"strictly between 0 and 1; got {self.honest_fraction!r}."
            )

    def _check_specs(self, specs: list[tuple[str, Any]]) -> None:
        for _, spec in specs:
            if getattr(spec, "monotonic_cst", None) is not None:
                raise ValueError(
                    "monotonic_cst is not supported: the linear layer changes the values of the "
                    "leaves, and with them the order that the constraint asks for."
                )
            if self.regime == "fixed":
                if not is_grown(spec):
                    raise ValueError(
                        "regime='fixed' takes a forest that was fitted on other data: a kpp "
                        "Forest, or sklearn.frozen.FrozenEstimator(fitted_ensemble); got "
                        f"{spec!r}."
                    )
            elif is_grown(spec):
                raise ValueError(
                    f"regime={self.regime!r} grows its forest; {spec!r} is already grown. Use "
                    "regime='fixed' if it was fitted on other data."
                )
            elif isinstance(spec, (str, *UNSUPERVISED)):
                continue
            elif is_classifier(spec) != self._classification:
                task = "classifier" if self._classification else "regressor"
                raise TypeError(
                    f"{type(self).__name__} needs a forest that is a {task}; got {spec!r}."
                )

    def _way(self) -> str:
        """How alpha is chosen: only shared forests have seen the labels of the fit."""
        return self.alpha_selection if self.regime == "shared" else "frozen"

    def _split(self, n_rows: int) -> tuple[AnyArray | None, AnyArray]:
        """Partition rows (for the forest) and fit rows (for the linear layer)."""
        rows = np.arange(n_rows)
        if self.regime == "fixed":
            return None, rows
        if self.regime in ("shared", "cross-fit"):
            return rows, rows
        # Unstratified: given the partition fold, the fit fold must be independent draws.
        partition, fit = train_test_split(
            rows, test_size=self.honest_fraction, random_state=self.random_state
        )
        return partition, fit

    def _choose(
        self,
        folds: list[Fold],
        target: AnyArray,
        weight: FloatArray,
        offset: FloatArray | None,
        unit: float,
        fold_unit: Callable[[MapBlock, FloatArray], float] | None,
        progress: Progress,
    ) -> Selection | None:
        """Search the grid out of fold; None for a given alpha.

        Fold-grown and cross-fit maps differ in scale from the final one, so alpha is carried
        relative to the scale; otherwise, as in the paper, it is the same number everywhere.
        """
        if not self._is_auto():
            return None
        taus = DEFAULT_TAUS
        if self.alphas is not None:
            taus = np.unique(np.asarray(self.alphas, dtype=np.float64)) / unit
            if taus.size == 0 or not (taus > 0).all() or not np.isfinite(taus).all():
                raise ValueError(f"alphas must be positive and finite; got {self.alphas!r}.")
        if fold_unit is None:
            relative = self.regime == "shared" and self._way() == "fold-grown"
            fold_unit = self._unit if relative else lambda block, weight: unit
        return select(
            folds,
            target,
            weight,
            taus,
            offset,
            pose=self._pose,
            tols=self._search_tols,
            truncate=self.scoring is None,
            unit=fold_unit,
            score=lambda scores: self._score_out_of_fold(target, scores, weight),
            extend=self.alphas is None,
            progress=progress,
        )

    def _score_out_of_fold(self, target: AnyArray, scores: FloatArray, weight: FloatArray) -> float:
        if self.scoring is None:
            return self._merit(target, scores, weight)
        shim, rows = self._fixed_predictor(scores), np.arange(len(scores))
        weights = {} if (weight == 1).all() else {"sample_weight": weight}
        return float(get_scorer(self.scoring)(shim, rows, self._labels(target), **weights))

    @abstractmethod
    def _fixed_predictor(self, scores: FloatArray) -> Any:
        """Return an estimator whose predictions are these scores', for a scorer."""

    @abstractmethod
    def _labels(self, target: AnyArray) -> AnyArray:
        """Return the solver's target as the user's."""

    @abstractmethod
    def _set_linear(self, coefficients: FloatArray, intercept: FloatArray) -> None:
        """Set `coef_` and `intercept_` in scikit-learn's shapes."""

    # Using.

    def _scores(self, X: Any) -> FloatArray:
        check_is_fitted(self, "map_")
        return self._leaf_values.scores(check_new_rows(self, X), n_jobs=self.n_jobs)

    def apply(self, X: Any) -> IntArray:
        """Find the leaf that each row reaches in each tree.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        leaf_ids : int32 array of shape (n_rows, n_trees)
            Node ids of `forest_`.
        """
        check_is_fitted(self, "map_")
        return leaf_ids_of(self.map_.on(check_new_rows(self, X))).T

    def collapse(self) -> CollapsedForest:
        """Collapse to a plain forest with one number per node: see `kpp.collapse`.

        Returns
        -------
        collapsed : CollapsedForest
        """
        from kpp.export.collapse import collapse

        return collapse(self)

    @property
    def feature_importances_(self) -> FloatArray:
        r"""Share of each column in the squared contributions of nodes; sums to 1.

        .. math:: I_j \propto \sum_{v: \mathrm{split}(\mathrm{par}(v)) = j}
            p(v)\, (w_v \Phi_v)^2

        with p(v) the share of fit rows in v: the mean square, over rows, of what the nodes
        below a split on column j add to the score. On the scale of the attribution, and like it
        a property of the regularised parametrisation.
        """
        check_is_fitted(self, "map_")
        weight = np.full(self.map_.shape[0], 1.0 / self.map_.shape[0])
        coefficients = np.atleast_2d(self.coef_)
        # rmatvec gives p(v) s_v; times s_v w_v^2 it is the mean square of w_v Phi_v.
        blocks = named_blocks(self.map_)
        scale = np.concatenate([b.scale for _, b in blocks if isinstance(b, PathMap)])
        squares = self.map_.rmatvec(weight) * scale * np.square(coefficients).sum(axis=0)
        variable = self.map_.coordinate_variable
        below = variable >= 0
        total: FloatArray = np.bincount(
            variable[below], squares[below], minlength=self.n_features_in_
        ).astype(np.float64)
        return total / total.sum() if total.sum() > 0 else total

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = takes_nan(self.forest)
        return tags
