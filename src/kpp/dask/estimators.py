"""`DaskKPPRegressor` and `DaskKPPClassifier`: fits of rows that are on a Dask cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from kpp._checks import check_choice
from kpp._progress import Progress
from kpp.dask.assembling import fingerprints, fitted_plan, keeps_rows, rows_left
from kpp.dask.blending import GrownForest, blend_specs, fit_dask_blend
from kpp.dask.data import DaskData, read_data
from kpp.dask.fitting import fit_layer
from kpp.dask.folds import Groups, draw_folds, given_folds
from kpp.dask.growing import TreeGrower, seeds_of
from kpp.dask.lazy import LazyAnswers
from kpp.dask.losses import class_weights
from kpp.dask.maps import DaskMap, part_of
from kpp.dask.session import Session
from kpp.dask.weighing import Weighing
from kpp.forest.arrays import Forest
from kpp.forest.grow import grow_forest, is_grown
from kpp.forest.steps import moving_splits
from kpp.geometry.composed import BlockMap
from kpp.geometry.maps import MapBlock
from kpp.models import KPPClassifier, KPPRegressor
from kpp.models.blocks import COMBINATIONS, Blocks, forest_specs
from kpp.models.fits import MapPart
from kpp.models.grower import GROWING, check_map_parameters
from kpp.models.linear import KPPLinearModel, keep_fitted
from kpp.models.record import FitRecord
from kpp.models.selection import LayerSettings
from kpp.models.tasks import Classification, Regression, Task

# Parameters that the ordinary estimators have, too.
SHARED = (
    *("forest", "n_estimators", "node_weight", "leaf_weight", "coordinates", "normalize"),
    *("alpha", "alphas", "cv", "combine", "fit_intercept", "tol", "max_iter", "random_state"),
)


class DaskKPPModel(LazyAnswers, BaseEstimator):
    """What the regressor and the classifier on Dask share."""

    model_: KPPLinearModel

    def __init__(
        self,
        forest: Any = "extra-trees",
        *,
        n_estimators: int = 100,
        node_weight: Any = "gain",
        leaf_weight: Any = None,
        coordinates: str = "path",
        normalize: str = "forest",
        alpha: Any = "auto",
        alphas: Any = None,
        cv: int = 5,
        combine: str = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        partitions_per_tree: int = 1,
        shuffle: bool = False,
        keep_rows: Any = "auto",
        random_state: Any = None,
        verbose: int = 0,
        client: Any = None,
    ) -> None:
        self.forest = forest
        self.n_estimators = n_estimators
        self.node_weight = node_weight
        self.leaf_weight = leaf_weight
        self.coordinates = coordinates
        self.normalize = normalize
        self.alpha = alpha
        self.alphas = alphas
        self.cv = cv
        self.combine = combine
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.partitions_per_tree = partitions_per_tree
        self.shuffle = shuffle
        self.keep_rows = keep_rows
        self.random_state = random_state
        self.verbose = verbose
        self.client = client

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, *, folds: Any = None
    ) -> Any:
        """Grow the trees, choose alpha and fit the linear layer, all on the workers.

        Parameters
        ----------
        X : dask array of shape (n_rows, n_features), or dask data frame
            Rows. A data frame may have columns of texts and categories, with values missing.
        y : dask array, series or data frame
            Target, cut as X is.
        sample_weight : dask array or series, optional
            Weights of the rows.
        groups : dask array or series, optional
            Rows that belong together, as visits of one patient: they come into the same of the `cv`
            folds, by a hash of the name, wherever they are.
        folds : dask array or series of int, optional
            The fold of each row, from 0 on, instead of `cv`.

        Returns
        -------
        self : estimator
            `model_` is the ordinary model.
        """
        session = Session(self.client)
        try:
            model = self._fit(session, X, y, sample_weight, groups, folds)
        finally:
            # Whatever has happened, Ctrl-C among it, no task of this fit is left.
            session.close()
        self.model_ = model
        self.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
        return self

    def to_local(self) -> Any:
        """Return the ordinary model, which needs no cluster.

        Returns
        -------
        model : KPPRegressor or KPPClassifier
        """
        return self._fitted()

    def _regime(self) -> str:
        return "fixed" if all(is_grown(spec) for _, spec in self._specs()) else "shared"

    def _specs(self) -> list[tuple[str, Any]]:
        return blend_specs() if _is_named_blend(self.forest) else forest_specs(self.forest)

    # The parts of a fit.

    def _local(self) -> KPPLinearModel:
        raise NotImplementedError

    def _task_of(self, data: DaskData) -> Task:
        raise NotImplementedError

    def _fit(
        self, session: Session, X: Any, y: Any, sample_weight: Any, groups: Any, folds: Any
    ) -> KPPLinearModel:
        if groups is not None and folds is not None:
            raise ValueError("Give groups, which make folds, or folds of your own; got both.")
        specs = self._check()
        model = self._local()
        classification = isinstance(model, KPPClassifier)
        given = all(is_grown(spec) for _, spec in specs)
        progress = Progress(self.verbose)
        data = read_data(
            session,
            X,
            y,
            sample_weight,
            classification=classification,
            class_weight=getattr(self, "class_weight", None),
        )
        if not given and not self.shuffle and self.partitions_per_tree < len(data.partitions):
            data.warn_of_skew()
        task = self._task_of(data)
        is_auto, is_blend = isinstance(self.alpha, str), self._is_blend(given)
        seed, *seeds = seeds_of(self.random_state, 1 + len(specs))
        fold, n_folds, grouped = None, 1, None
        if groups is not None:
            grouped = Groups.read(data, groups, X)
        if grouped is not None and (is_auto or is_blend):
            fold, n_folds = grouped.folds(int(self.cv), seed), int(self.cv)
        elif folds is not None:
            fold, n_folds = given_folds(data, folds, X)
        elif is_auto or is_blend:
            fold, n_folds = draw_folds(data, self.cv, seed), int(self.cv)
        settings = LayerSettings(
            task=task,
            alpha=None if is_auto else float(self.alpha),
            alphas=self.alphas,
            scoring=None,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
            progress=progress,
        )
        weighing = Weighing(
            self.node_weight, self.leaf_weight, self.coordinates, self.normalize, not given
        )
        parts = group_maps = None
        own_folds: list[tuple[Any, Any]] | None
        if given:
            whole = self._given_map(specs, data, weighing)
            block = DaskMap.on(data.partitions, whole, data.X)
        else:
            in_groups = is_auto or is_blend
            grower = TreeGrower(
                data,
                classification,
                self.n_estimators,
                int(self.partitions_per_tree),
                bool(self.shuffle),
                fold if in_groups else None,
                n_folds if in_groups else 1,
                is_blend,
            )
            grown = self._grow(specs, data, grower, weighing, seeds, progress)
            if not is_blend:
                block, parts, group_maps = self._on_one_map(data, grown, grower)
        if is_blend:
            assert fold is not None
            keep, rows = True, np.arange(data.n_rows)
            plan, own_folds = fit_dask_blend(data, grown, settings, fold)
        else:
            layer = fit_layer(data, block, settings, fold, n_folds if is_auto else 0, group_maps)
            keep = keeps_rows(self.keep_rows, data.n_rows, block.embedding)
            plan, own_folds, rows = fitted_plan(
                data, block, layer, task, fold, parts, keep_rows=keep
            )
        self._describe(model, data, layer_folds=own_folds, rows=rows, given=given)
        model.constant_ = task.constant(*_constants(data))
        model.row_fingerprints_ = fingerprints(data) if keep else None
        model.sample_weight_ = data.weight.collect() if keep and data.is_weighted else None
        kind = "stratified" if classification else "random"
        kind = "grouped" if grouped is not None else "given" if folds is not None else kind
        model.fit_record_ = FitRecord.of(
            model,
            folds=kind if own_folds else "none",
            is_weighted=sample_weight is not None,
            target=data.target.collect() if keep else None,
            blocks=Blocks(specs, is_blend or isinstance(self.forest, list), is_blend),
        )
        if grouped is not None:
            model.fit_record_ = replace(
                model.fit_record_, n_groups=grouped.n_groups, largest_group=grouped.largest
            )
        keep_fitted(model, plan, task)
        if not keep:
            model.left_rows_ = rows_left(data, block)
        return model

    def _is_blend(self, given: bool) -> bool:
        """Whether every forest has a linear layer of its own."""
        check_choice("combine", self.combine, COMBINATIONS)
        several = isinstance(self.forest, list) or _is_named_blend(self.forest)
        is_blend = self.combine == "blend" or (self.combine == "auto" and several and not given)
        if is_blend and given:
            raise ValueError("combine='blend' of given forests is not supported on Dask yet.")
        if is_blend and self.keep_rows is False:
            raise ValueError("A blend keeps its rows: use keep_rows='auto', or combine='joint'.")
        return is_blend

    def _check(self) -> list[tuple[str, Any]]:
        """Check the parameters; return the forests."""
        check_map_parameters(self)
        specs = self._specs()
        grown = [is_grown(spec) for _, spec in specs]
        if any(grown) and not all(grown):
            raise ValueError("Either all forests are given, or all are grown; got some of each.")
        for _, spec in specs:
            if getattr(spec, "monotonic_cst", None) is not None:
                raise ValueError("monotonic_cst is not supported: see KPPRegressor.")
        if isinstance(self.alpha, str):
            check_choice("alpha", self.alpha, ("auto",))
        elif not 0 < float(self.alpha) < np.inf:
            raise ValueError(f"alpha must be 'auto' or positive and finite; got {self.alpha!r}.")
        if int(self.partitions_per_tree) < 1:
            raise ValueError(
                f"partitions_per_tree must be at least 1; got {self.partitions_per_tree!r}."
            )
        return specs

    def _given_map(
        self, specs: list[tuple[str, Any]], data: DaskData, weighing: Weighing
    ) -> MapBlock:
        """The map of forests that are grown already."""
        blocks: list[tuple[str, MapBlock]] = []
        no_rows = np.zeros((0, data.n_features)) if data.like is None else data.like
        for name, spec in specs:
            forest = grow_forest(spec, no_rows)
            if forest.n_features != data.n_features:
                raise ValueError(
                    f"X has {data.n_features} features, but the given forest is expecting "
                    f"{forest.n_features} features as input."
                )
            blocks.append((name, weighing.map(spec, forest)))
        return BlockMap(blocks) if isinstance(self.forest, list) else blocks[0][1]

    def _grow(
        self,
        specs: list[tuple[str, Any]],
        data: DaskData,
        grower: TreeGrower,
        weighing: Weighing,
        seeds: list[int],
        progress: Progress,
    ) -> list[GrownForest]:
        """Grow all forests, in groups that each miss a fold."""
        found = []
        for k, ((name, spec), seed) in enumerate(zip(specs, seeds, strict=True)):
            progress(GROWING, k, len(specs))
            forests = grower.grow(spec, seed)
            stops = np.cumsum([0, *(forest.n_trees for forest in forests)]).tolist()
            joined = Forest.concatenate(forests)
            own = [slice(*stops[q : q + 2]) for q in range(grower.n_folds)]
            moving = moving_splits(joined, data.classes) if grower.blends else None
            weighed, weights = weighing.of_groups(spec, joined, own, data, grower.fold, moving)
            has_bare = moving is not None
            found.append(GrownForest(name, weighed, own, weights, forests, has_bare))
        progress(GROWING, len(specs), len(specs))
        return found

    def _on_one_map(
        self, data: DaskData, grown: list[GrownForest], grower: TreeGrower
    ) -> tuple[DaskMap, list[MapPart] | None, list[DaskMap] | None]:
        """All forests side by side, and for each fold the part that has not seen it."""
        whole: MapBlock = grown[0].map
        if isinstance(self.forest, list):
            whole = BlockMap([(own.name, own.map) for own in grown])
        block = DaskMap.on(data.partitions, whole, data.X)
        if grower.fold is None:
            return block, None, None
        parts = [
            MapPart(
                whole,
                None,
                tuple(own.trees[q] for own in grown),
                tuple(own.weights[q] for own in grown),
            )
            for q in range(grower.n_folds)
        ]
        return block, parts, [part_of(block, part) for part in parts]

    def _describe(
        self,
        model: KPPLinearModel,
        data: DaskData,
        *,
        layer_folds: Any,
        rows: Any,
        given: bool,
    ) -> None:
        """Set what a fit remembers of its rows."""
        model.n_features_in_ = data.n_features
        if data.names is not None:
            model.feature_names_in_ = data.names
        total = data.total
        model.feature_spread_ = total.sd[: data.n_features]
        # A column without any value has no ends.
        ends = np.stack([total.low, total.high])[:, : data.n_features]
        model.feature_range_ = np.where(np.isfinite(ends).all(axis=0), ends, np.nan)
        if data.like is not None:
            categories = list(data.like.categories)
            model.feature_spread_[categories] = 0.0
            model.feature_range_[:, categories] = np.nan
        model.missing_columns_ = total.missing[: data.n_features]
        model.regime_ = "fixed" if given else "shared"
        auto = "frozen" if given else "fold-grown"
        model.alpha_selection_ = auto if isinstance(self.alpha, str) else "given"
        model.partition_rows_ = None if given else rows
        model.fit_rows_, model.folds_ = rows, layer_folds
        if isinstance(model, KPPClassifier):
            model.classes_ = np.asarray(data.classes)


def _is_named_blend(forest: Any) -> bool:
    return isinstance(forest, str) and forest == "blend"


def _constants(data: DaskData) -> tuple[Any, Any]:
    """Rows whose constant is that of all rows: one for each class, or the mean."""
    if data.classes is not None:
        n_classes = len(data.classes)
        return np.arange(n_classes), class_weights(data.target, data.weight, n_classes)
    share = data.weight / data.weight.sum()
    return np.atleast_2d(share @ data.target), np.ones(1)


class DaskKPPRegressor(RegressorMixin, DaskKPPModel):
    """`KPPRegressor` on Dask arrays and data frames that do not fit one machine.

    Leaf ids and vectors stay on the workers; what travels is one number for each leaf.

    Parameters
    ----------
    forest : str, estimator, Forest, FrozenEstimator or list, default="extra-trees"
        What to embed with. A name or an estimator is grown on the workers: averaged trees each on
        its own partitions, "lightgbm" and "xgboost" by their own Dask learners on all rows. A
        `Forest` or ``FrozenEstimator`` is used as it is (the regime "fixed"). "blend" is extra
        trees and the booster that is installed, without main effects; a list of (name, forest) is
        blended likewise, see `combine`.
    n_estimators : int, default=100
        Trees of a forest given by name.
    node_weight, leaf_weight, coordinates, normalize
        The map, as in `KPPRegressor`.
    alpha : "auto" or float, default="auto"
        Penalty; "auto" scores alphas out of fold, by groups of trees that have not seen the fold.
    alphas : array-like, default=None
        Grid for "auto".
    cv : int, default=5
        Number of folds; every partition draws its own rows.
    combine : {"auto", "blend", "joint"}, default="auto"
        Whether several forests have a linear layer each, and weights learned out of fold, or one
        layer together. "auto" is "blend", but for given forests "joint". The weights of a blend are
        learned here, from scores that come with its rows.
    fit_intercept : bool, default=True
        Whether an unpenalised intercept is fitted.
    tol : float, default=1e-4
        A fit is done when its objective is at most ``1 + tol`` times the minimum.
    max_iter : int, default=1000
        Most products with the Gram.
    partitions_per_tree : int, default=1
        From how many partitions the rows of a tree come.
    shuffle : bool, default=False
        Whether the rows of a tree are drawn from all partitions instead, as many of them. Otherwise
        partitions that differ in a column, the target or a class are a warning that names it.
    keep_rows : bool or "auto", default="auto"
        Whether leaf ids and duals of all rows come to the model: for intervals, and for questions
        about training rows. "auto" is up to 1 GiB of them.
    random_state : int, RandomState or None, default=None
        Seed. The same seed gives the same trees and folds for the same partitions, on any number
        of workers; other partitions give others.
    verbose : int, default=0
        1 shows how far the fit is. Dask's dashboard shows its tasks, whose names begin with kpp.
    client : distributed.Client, default=None
        The cluster; the current client by default.

    Attributes
    ----------
    model_ : KPPRegressor
        The ordinary model, which needs no cluster: it predicts, explains, saves and serves.
    n_features_in_ : int
        Columns of X.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from kpp.dask import DaskKPPRegressor
    >>> client = Client(processes=False, dashboard_address=":0")
    >>> X = da.random.default_rng(0).normal(size=(400, 3), chunks=(200, 3))
    >>> y = X[:, 0] * X[:, 1]
    >>> model = DaskKPPRegressor(n_estimators=4, alpha=1.0, random_state=0).fit(X, y)
    >>> type(model.to_local()).__name__, model.predict(X).shape
    ('KPPRegressor', (400,))
    >>> client.close()
    """

    def _local(self) -> KPPRegressor:
        shared = {name: getattr(self, name) for name in SHARED}
        return KPPRegressor(regime=self._regime(), main_effects=None, **shared)

    def _task_of(self, data: DaskData) -> Regression:
        n_targets = data.n_targets
        return Regression(n_targets, is_single=n_targets == 1)


class DaskKPPClassifier(ClassifierMixin, DaskKPPModel):
    """`KPPClassifier` on Dask arrays and data frames that do not fit one machine.

    Leaf ids and vectors stay on the workers; what travels is one number for each leaf and score.

    Parameters
    ----------
    forest : str, estimator, Forest, FrozenEstimator or list, default="extra-trees"
        What to embed with. A name or an estimator is grown on the workers: averaged trees each on
        its own partitions, "lightgbm" and "xgboost" by their own Dask learners on all rows. A
        `Forest` or ``FrozenEstimator`` is used as it is (the regime "fixed"). "blend" is extra
        trees and the booster that is installed, without main effects; a list of (name, forest) is
        blended likewise, see `combine`.
    n_estimators : int, default=100
        Trees of a forest given by name.
    node_weight, leaf_weight, coordinates, normalize
        The map, as in `KPPClassifier`.
    alpha : "auto" or float, default="auto"
        Penalty; "auto" scores alphas out of fold, by groups of trees that have not seen the fold.
    alphas : array-like, default=None
        Grid for "auto".
    cv : int, default=5
        Number of folds; every partition draws its own rows.
    combine : {"auto", "blend", "joint"}, default="auto"
        Whether several forests have a linear layer each, and weights learned out of fold, or one
        layer together. "auto" is "blend", but for given forests "joint". The weights of a blend are
        learned here, from scores that come with its rows.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    fit_intercept : bool, default=True
        Whether an unpenalised intercept is fitted.
    tol : float, default=1e-4
        A fit is done when its objective is at most ``1 + tol`` times the minimum.
    max_iter : int, default=1000
        Most products with the Gram.
    partitions_per_tree : int, default=1
        From how many partitions the rows of a tree come.
    shuffle : bool, default=False
        Whether the rows of a tree are drawn from all partitions instead, as many of them. Otherwise
        partitions that differ in a column, the target or a class are a warning that names it.
    keep_rows : bool or "auto", default="auto"
        Whether leaf ids and duals of all rows come to the model: for intervals, and for questions
        about training rows. "auto" is up to 1 GiB of them.
    random_state : int, RandomState or None, default=None
        Seed. The same seed gives the same trees and folds for the same partitions, on any number
        of workers; other partitions give others.
    verbose : int, default=0
        1 shows how far the fit is. Dask's dashboard shows its tasks, whose names begin with kpp.
    client : distributed.Client, default=None
        The cluster; the current client by default.

    Attributes
    ----------
    model_ : KPPClassifier
        The ordinary model, which needs no cluster: it predicts, explains, saves and serves.
    n_features_in_ : int
        Columns of X.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from kpp.dask import DaskKPPClassifier
    >>> client = Client(processes=False, dashboard_address=":0")
    >>> X = da.random.default_rng(0).normal(size=(400, 3), chunks=(200, 3))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> model = DaskKPPClassifier(n_estimators=4, alpha=0.01, random_state=0).fit(X, y)
    >>> type(model.to_local()).__name__, model.predict(X).shape
    ('KPPClassifier', (400,))
    >>> client.close()
    """

    def __init__(
        self,
        forest: Any = "extra-trees",
        *,
        n_estimators: int = 100,
        node_weight: Any = "gain",
        leaf_weight: Any = None,
        coordinates: str = "path",
        normalize: str = "forest",
        alpha: Any = "auto",
        alphas: Any = None,
        cv: int = 5,
        combine: str = "auto",
        class_weight: Any = None,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        partitions_per_tree: int = 1,
        shuffle: bool = False,
        keep_rows: Any = "auto",
        random_state: Any = None,
        verbose: int = 0,
        client: Any = None,
    ) -> None:
        super().__init__(
            forest,
            n_estimators=n_estimators,
            node_weight=node_weight,
            leaf_weight=leaf_weight,
            coordinates=coordinates,
            normalize=normalize,
            alpha=alpha,
            alphas=alphas,
            cv=cv,
            combine=combine,
            fit_intercept=fit_intercept,
            tol=tol,
            max_iter=max_iter,
            partitions_per_tree=partitions_per_tree,
            shuffle=shuffle,
            keep_rows=keep_rows,
            random_state=random_state,
            verbose=verbose,
            client=client,
        )
        self.class_weight = class_weight

    @property
    def classes_(self) -> Any:
        """Labels, sorted."""
        return self._fitted().classes_

    def _local(self) -> KPPClassifier:
        shared = {name: getattr(self, name) for name in SHARED}
        return KPPClassifier(
            regime=self._regime(),
            main_effects=None,
            class_weight=self.class_weight,
            **shared,
        )

    def _task_of(self, data: DaskData) -> Classification:
        return Classification(np.asarray(data.classes))
