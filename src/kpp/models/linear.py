"""What the regressor and the classifier share: forest, alpha, linear layer, prediction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from kpp._checks import check_choice, check_sample_weight
from kpp._fingerprints import Prints, row_fingerprints, with_twin
from kpp._progress import Progress
from kpp._rows import column_range, column_spread, columns_with_missing, known_values
from kpp._shown import ShowsItsFit
from kpp._typing import AnyArray, FloatArray, IntArray
from kpp.forest.columns import column_shares
from kpp.forest.grow import traits_of
from kpp.geometry.composed import BlockMap, block_slices, forest_blocks
from kpp.geometry.linear import LinearMap
from kpp.geometry.maps import MapBlock, PathMap
from kpp.models.blend import fit_blend
from kpp.models.blend_plans import BlendPlan
from kpp.models.blocks import BLENDING, Blocks, blocks_of
from kpp.models.data import FitData, check_groups, check_new_rows, check_rows
from kpp.models.fits import BareFit, Center, LinearFit
from kpp.models.fitting import FittedPlan, fit_plan
from kpp.models.fold_out import LeaveOneFoldOut, leave_one_fold_out
from kpp.models.fold_predictors import FoldPredictors
from kpp.models.grower import Grower, check_map_parameters, takes_nan
from kpp.models.left_rows import LeftRows, mean_row_of
from kpp.models.nested import NESTED, fit_nested
from kpp.models.plans import Splitter
from kpp.models.record import FitRecord
from kpp.models.regimes import ALPHA_SELECTIONS, REGIMES, CrossValidated, Regime
from kpp.models.selection import LayerSettings, counted_taus
from kpp.models.tasks import Task
from kpp.scores import AdditiveForest, RoutedRows, routed_rows
from kpp.solvers import Loss, PoissonLoss


class KPPLinearModel(ShowsItsFit, ABC):
    """A linear layer on the embedding, fitted jointly over all trees."""

    map_: MapBlock
    additive_: AdditiveForest
    fits_: list[LinearFit]
    fold_fits_: list[LinearFit] | None
    regime_: str
    fit_record_: FitRecord
    row_fingerprints_: Prints | None
    constant_: FloatArray | None
    # Of a blend; set on the class, too, so that models of older files have them.
    blend_weights_: dict[str, Any] | None = None
    blend_score_: float | None = None
    bare_fits_: list[BareFit] | None = None
    fold_predictors_: FoldPredictors | None = None
    # Of a model that has left its rows on a cluster.
    left_rows_: LeftRows | None = None
    # Of a regressor; squared in models of older files.
    loss_: Loss | None = None

    def __init__(
        self,
        forest: Any = "blend",
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
        main_effects: str | None = "auto",
        combine: str = "auto",
        fit_intercept: bool = True,
        max_norm: float | None = None,
        tol: float = 1e-4,
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
        self.main_effects = main_effects
        self.combine = combine
        self.fit_intercept = fit_intercept
        self.max_norm = max_norm
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _read_target(self, y: Any, n_rows: int) -> tuple[Task, AnyArray, AnyArray]:
        """Return the task, the target as the forest sees it, and as the loss does."""

    @property
    @abstractmethod
    def _task(self) -> Task:
        """The task of a fitted model."""

    def _weights(
        self, sample_weight: FloatArray, labels: AnyArray, regime: Regime, partition: Any
    ) -> FloatArray:
        """The given weights, times those of the classes."""
        return sample_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Grow the forest, choose alpha and fit the linear layer.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows. A data frame may have columns of strings and categories, with values missing.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Target.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows: in the forest, the node weights, the linear layer and the
            scores.
        groups : array-like of shape (n_rows,), optional
            Rows that belong together, as visits of one patient. The honest split, the folds of
            a number `cv` and those of a splitter of groups keep them whole.

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
        regime = self._regime()
        blocks = self._check_forests(regime)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        X, rows = check_rows(self, blocks.specs, X)
        self.feature_spread_ = column_spread(X)
        self.feature_range_ = column_range(X)
        self.missing_columns_ = columns_with_missing(X)
        self.feature_values_, self.feature_decimals_ = known_values(X)
        task, labels, target = self._read_target(y, len(X))
        groups = check_groups(groups, len(X))
        partition, fit = regime.rows(len(X), groups)
        given_weight = check_sample_weight(sample_weight, len(X))
        weight = self._weights(given_weight, labels, regime, partition)
        # A size or threshold of the loss, too, must not come from labels of the fit fold.
        counted = partition if regime.splits_rows else np.arange(len(X))
        task = task.scaled(target[counted], weight[counted])
        data = FitData(
            X=rows,
            labels=labels,
            target=target,
            weight=weight,
            groups=groups,
            is_weighted=not bool((weight == 1).all()),
        )
        progress = Progress(self.verbose)
        grower = Grower.of(
            self,
            classification=is_classifier(self),
            sees_labels=not regime.takes_grown_forest,
            progress=progress,
            blocks=blocks,
            n_classes=2 if task.classes is None else len(task.classes),
            loss=task.loss,
        )
        settings = LayerSettings(
            task=task,
            alpha=None if self._is_auto() else float(self.alpha),
            alphas=self.alphas,
            scoring=self.scoring,
            fit_intercept=self.fit_intercept,
            max_norm=self.max_norm,
            tol=self.tol,
            max_iter=self.max_iter,
            progress=progress,
            n_jobs=self.n_jobs,
            taus=counted_taus(is_blend=blocks.is_blend) if regime.counts_choices else None,
        )
        # A model that shrinks to a blend is one layer on its map.
        is_blend = blocks.is_blend and regime.center == "zero"
        nested = None
        if regime.is_nested:
            assert isinstance(regime, CrossValidated)
            nested = regime.plan_nested(data, grower)
            own_folds = nested.splits
        elif is_blend:
            blend = regime.plan_blend(data, grower, partition, fit)
            own_folds = blend.splits if blend.folds is None else blend.folds
        else:
            plan = regime.plan(data, grower, partition, fit)
            own_folds = [(fold.train_rows, fold.test_rows) for fold in plan.folds]
        # Row numbers of a plan are those of its fit rows.
        folds = [(fit[train], fit[test]) for train, test in own_folds]
        self.regime_ = regime.name
        self.alpha_selection_ = regime.selection if nested is None else NESTED
        self.partition_rows_, self.fit_rows_ = partition, fit
        self.folds_ = folds or None
        self.sample_weight_ = data.weight[fit] if data.is_weighted else None
        self.row_fingerprints_ = row_fingerprints(X)
        self.fit_record_ = FitRecord.of(
            self,
            folds=regime.splitter.kind(is_grouped=groups is not None) if folds else "none",
            data=data,
            test_rows=[test for _, test in folds],
            is_weighted=not bool((given_weight == 1).all()),
            target=data.target[fit],
            blocks=blocks,
        )
        self.constant_ = task.constant(data.target[fit], data.weight[fit])
        if nested is not None:
            self._keep(fit_nested(nested, data, settings), task)
            return self
        if is_blend:
            self._keep(fit_blend(blend, data, settings), task)
            return self
        if isinstance(plan.center, BlendPlan) and partition is not None:
            centered = fit_blend(plan.center, data.take(partition), settings)
            plan = replace(plan, center=Center(centered.node_coef, centered.intercept))
        self._keep(fit_plan(plan, data, settings), task)
        return self

    def _keep(self, fitted: FittedPlan, task: Task) -> None:
        """Set the fitted attributes, in scikit-learn's shapes."""
        if task.classes is None:
            self.loss_ = task.loss
        self.map_ = fitted.map
        forests = [(name, block.forest) for name, block in forest_blocks(fitted.map)]
        self.forest_ = forests if isinstance(fitted.map, BlockMap) else forests[0][1]
        self.fits_, self.fold_fits_ = fitted.fits, fitted.fold_fits
        self.fold_predictors_, self.left_rows_ = fitted.fold_predictors, None
        self.node_coef_ = task.shaped(fitted.node_coef)
        self.intercept_ = task.shaped(fitted.intercept)
        self.dual_coef_ = fitted.dual
        self.alpha_, self.alphas_ = fitted.alpha, fitted.alphas
        self.cv_scores_ = fitted.cv_scores
        scores = fitted.out_of_fold
        self.oof_prediction_ = None if scores is None else task.answers(scores)
        self.n_iter_ = max(1, fitted.n_iter)
        if REGIMES[self.regime_].leaves_folds_out:
            self.fit_record_ = replace(self.fit_record_, n_candidates=fitted.n_candidates)
        self.blend_weights_, self.blend_score_ = fitted.weights, fitted.score
        self.bare_fits_ = None if fitted.weights is None else fitted.bare_fits
        self.additive_ = AdditiveForest.from_coefficients(
            fitted.map,
            fitted.node_coef,
            fitted.intercept,
            task.classes,
            is_log=isinstance(task.loss, PoissonLoss),
        )

    def _is_auto(self) -> bool:
        return isinstance(self.alpha, str) and self.alpha == "auto"

    def _regime(self) -> Regime:
        """Check the parameters, and return the regime that they ask for."""
        check_map_parameters(self)
        check_choice("regime", self.regime, tuple(REGIMES))
        check_choice("alpha_selection", self.alpha_selection, ALPHA_SELECTIONS)
        check_choice("center", self.center, ("zero", "partition"))
        kind = REGIMES[self.regime]
        if self.alpha_selection == NESTED and not kind.leaves_folds_out:
            raise ValueError(
                "alpha_selection='nested' lets every part of regime='cross-validated' choose for "
                f"itself; got regime={self.regime!r}."
            )
        if self.center == "partition" and not kind.splits_rows:
            raise ValueError(
                f"center='partition' goes with regime='honest'; got regime={self.regime!r}."
            )
        if not self._is_auto():
            valid = isinstance(self.alpha, int | float | np.number) and 0 < self.alpha < np.inf
            if not valid:
                raise ValueError(
                    f"alpha must be 'auto' or a positive finite number; got {self.alpha!r}."
                )
        if self.max_norm is not None:
            valid = isinstance(self.max_norm, int | float | np.number) and self.max_norm > 0
            if not valid:
                raise ValueError(f"max_norm must be None or positive; got {self.max_norm!r}.")
            if self.center == "partition":
                raise ValueError(
                    "max_norm is the radius of the paper's ball, |w| <= B around 0, and "
                    "center='partition' shrinks to coefficients of its own, however large: no "
                    "alpha would bring w into the ball. Use center='zero'; the informed bounds "
                    "are of balls around a centre, and need no radius."
                )
        if not 0 < self.honest_fraction < 1:
            raise ValueError(
                "honest_fraction is the share of rows that the linear layer is fitted on, "
                f"strictly between 0 and 1; got {self.honest_fraction!r}."
            )
        return kind(
            splitter=Splitter(self.cv, self.random_state, is_classifier(self) and kind.stratifies),
            chooses_alpha=self._is_auto(),
            alpha_selection=self.alpha_selection,
            honest_fraction=self.honest_fraction,
            center=self.center,
            random_state=self.random_state,
        )

    def _check_forests(self, regime: Regime) -> Blocks:
        """Refuse forests that do not go with the regime or the task."""
        blocks = blocks_of(self)
        if blocks.is_blend:
            self._check_blend(regime)
        if blocks.is_linear and regime.takes_grown_forest:
            raise ValueError(
                "main_effects='linear' reads ranges and means from the columns of the fit, and "
                "regime='fixed' takes a map that has seen none of them: use main_effects=None, "
                "or regime='honest'."
            )
        for _, spec in blocks.specs:
            if getattr(spec, "monotonic_cst", None) is not None:
                raise ValueError(
                    "monotonic_cst is not supported: the linear layer changes the values of the "
                    "leaves, and with them the order that the constraint asks for."
                )
            regime.check_forest(spec)
            if regime.takes_grown_forest or isinstance(spec, str):
                continue
            if traits_of(spec).supervised and is_classifier(spec) != is_classifier(self):
                task = "classifier" if is_classifier(self) else "regressor"
                raise TypeError(
                    f"{type(self).__name__} needs a forest that is a {task}; got {spec!r}."
                )
        return blocks

    def _check_blend(self, regime: Regime) -> None:
        """Refuse what a blend does not have, or not yet."""
        instead = "Use combine='joint', which puts all forests into one linear layer."
        if self.alpha_selection not in BLENDING:
            raise ValueError(
                "A blend learns its weights with alpha_selection='fold-grown', or 'nested' in the "
                "regime 'cross-validated', for now; got "
                f"alpha_selection={self.alpha_selection!r}. {instead}"
            )
        if self.max_norm is not None:
            raise ValueError(
                "max_norm is not supported in a blend: its coefficients are a sum over several "
                f"linear layers and bare ensembles. {instead}"
            )

    def leave_one_fold_out(
        self,
        X: Any,
        y: Any,
        *,
        cv: Any = None,
        alpha: float | None = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> LeaveOneFoldOut:
        """Predict every fold by a forest and a linear layer that have not seen it.

        For each fold the forest is grown and the linear layer fitted anew on the other folds, at
        one alpha, the same number everywhere: the paper's leave-one-fold-out map. The model
        itself is left as it is, and need not be fitted.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Target.
        cv : int or splitter, optional
            Folds; the model's `cv` by default. Every row must be in one test fold. A number
            stratifies the folds of a classifier by all labels, as everywhere.
        alpha : float, optional
            Penalty. By default the model's own, or, where that is "auto", the one that its fit
            has chosen; a choice that saw these rows has seen every fold.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows, in the fits and in the errors.
        groups : array-like of shape (n_rows,), optional
            Rows that belong together; the folds of a number `cv` keep them whole.

        Returns
        -------
        result : LeaveOneFoldOut
            Out-of-fold predictions, the models and linear layers of the folds, their errors,
            norms, traces and effective dimensions, and the averaged predictor.

        Notes
        -----
        In the shared regime the trees of a fold's model have seen the labels that its linear
        layer was fitted on: the error on the fold is honest, and bounds on the rows of the fit
        are diagnostics. ``regime="cross-fit"`` separates these as well.

        References
        ----------
        PB-03 in table diabetes-honest.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.ensemble import RandomForestRegressor
        >>> from sklearn.model_selection import KFold
        >>> from kpp import KPPRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> forest = RandomForestRegressor(30, max_depth=6, random_state=0)
        >>> model = KPPRegressor(forest, alpha=0.4329, tol=1e-12)
        >>> left_out = model.leave_one_fold_out(X, y, cv=KFold(5, shuffle=True, random_state=0))
        >>> print(round(left_out.error, 2), left_out.effective_dimensions.mean().round(3))
        57.33 0.08
        """
        return leave_one_fold_out(
            self, X, y, cv=cv, alpha=alpha, sample_weight=sample_weight, groups=groups
        )

    # Using.

    def _check_fitted(self) -> None:
        # scikit-learn's check asks for all tags of the estimator, which for a single row is a
        # sixth of the prediction.
        if "map_" not in vars(self):
            check_is_fitted(self, "map_")

    def at(self, X: Any) -> RoutedRows:
        """Check and route rows once, for any number of questions about them.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        rows : RoutedRows
            `predict` and everything else that takes this model and X takes them instead of X.
        """
        self._check_fitted()
        X = check_new_rows(self, X)
        leaf_ids = self.additive_.route(X, n_jobs=self.n_jobs)
        return RoutedRows(X, leaf_ids, self.map_, self.additive_, n_jobs=self.n_jobs)

    def __call__(self, X: Any) -> FloatArray:
        """Return the scores of rows: the function of rows that `explain` explains.

        For tools that take any function, such as ``shap.Explainer(model, X)``.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        scores : array of shape (n_rows,) or (n_rows, n_scores)
            Predictions of a regressor, ``decision_function`` of a classifier.
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _scores(self, X: Any) -> FloatArray:
        self._check_fitted()
        if isinstance(X, RoutedRows):
            return routed_rows(self, X).scores
        # Nobody asks for the leaves: rows of numbers need none.
        return self.additive_.scores(check_new_rows(self, X), n_jobs=self.n_jobs)

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
        return routed_rows(self, X).all_leaf_ids.T

    def collapse(self) -> AdditiveForest:
        """Collapse to one plain forest with one number per node and score: see `kpp.collapse`.

        Returns
        -------
        collapsed : AdditiveForest
        """
        check_is_fitted(self, "map_")
        return self.additive_.in_one_forest(getattr(self, "feature_names_in_", None))

    @cached_property
    def node_coef_(self) -> FloatArray:
        """Coefficients w, shape (m,) or (n_scores, m).

        A fit sets them. A loaded model makes them from its only linear layer when they are asked
        for, bit for bit.
        """
        (fit,) = self.fits_
        coefficients: FloatArray = self._task.shaped(fit.node_coef)
        return coefficients

    @property
    def duplicate_rows_(self) -> int | None:
        """Rows of the fit, or of the fit fold, that equal another row given to fit.

        In every column. None for a model of an older file, which does not know its rows.
        """
        check_is_fitted(self, "map_")
        if self.row_fingerprints_ is None:
            return None
        return int(with_twin(self.row_fingerprints_)[self.fit_rows_].sum())

    @property
    def feature_importances_(self) -> FloatArray:
        r"""Share of each column in the squared contributions of nodes; sums to 1.

        .. math:: I_j \propto \sum_{v: \mathrm{split}(\mathrm{par}(v)) = j}
            p(v)\, (w_v \Phi_v)^2

        with p(v) the share of fit rows in v: the mean square, over rows, of what the nodes
        below a split on column j add to the score; below an oblique split its columns share it. On
        the scale of the attribution, and like it
        a property of the regularised parametrisation.
        """
        check_is_fitted(self, "map_")
        mean = mean_row_of(self)
        coefficients = np.atleast_2d(self.node_coef_)
        square = np.square(coefficients).sum(axis=0)
        total = np.zeros(self.n_features_in_)
        for _, block, place in block_slices(self.map_):
            if isinstance(block, LinearMap):
                # Of a linear term what moves counts: its mean square around its mean.
                squares = np.var(block.values, axis=0) * square[place]
                total += np.bincount(block.terms.column, squares, minlength=len(total))
                continue
            assert isinstance(block, PathMap)
            # The mean is p(v) s_v; times s_v w_v^2 it is the mean square of w_v Phi_v.
            squares = mean[place] * block.scale * square[place]
            node, column, share = column_shares(block.forest)
            total += np.bincount(column, squares[node] * share, minlength=len(total))
        return total / total.sum() if total.sum() > 0 else total

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = takes_nan(self.forest)
        return tags


def keep_fitted(model: KPPLinearModel, fitted: FittedPlan, task: Task) -> None:
    """Give a model what a fit has found elsewhere, as its own fit would.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Not fitted.
    fitted : FittedPlan
        The fit.
    task : Task
        Its task.
    """
    model._keep(fitted, task)
