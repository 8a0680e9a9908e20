"""`KPPClassifier`: logistic regression on the embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from kpp._typing import AnyArray, FloatArray
from kpp.models.data import check_target
from kpp.models.interval_results import PredictionSets
from kpp.models.intervals import OfAnotherTask, predict_set
from kpp.models.linear import KPPLinearModel
from kpp.models.regimes import Regime
from kpp.models.tasks import Classification, Task, weight_of_classes


class KPPClassifier(ClassifierMixin, KPPLinearModel):
    r"""Logistic regression on the node-indexed embedding of a forest, jointly over all trees.

    .. math::
        \min_{w, b}\; \frac{1}{\sum_i s_i} \sum_i s_i\,
        \ell\bigl(y_i, \langle w, \Phi(x_i) \rangle + b\bigr) + \tfrac{\alpha}{2} \|w\|^2

    with the log-loss of one score for two classes, and of the softmax of one score per class
    for more.

    Parameters
    ----------
    forest : str, estimator, Forest, FrozenEstimator or list, default="blend"
        What to embed with. "blend" is extra trees, boosted trees and main effects, each with a
        linear layer of its own, and their weights learned out of fold.
        One forest has another name ("extra-trees", "random-forest", "boosted", or with the extra
        of that name "lightgbm", "xgboost", "catboost"), or is an estimator, which is cloned and
        grown on the data; its own ``random_state`` wins when set. A list of (name, forest) is
        blended likewise, see `combine`. A `Forest` or ``FrozenEstimator`` goes with
        ``regime="fixed"``.
    n_estimators : int, default=100
        Number of trees of a forest given by name; with folds that grow trees, at least one a fold.
        In a blend forests given by name have three times as many trees, and the boosted trees
        twice as many rounds, in every fold.
    node_weight : {"gain", "entropy", "variance", "uniform"}, array or callable, default="gain"
        Weight of each split, see `kpp.geometry.path_weights`.
    leaf_weight : None, float, {"variance", "uniform"}, array or callable, default=None
        Weight of each leaf; None is 0.
    coordinates : {"path", "leaf"}, default="path"
        All nodes, or one indicator per leaf.
    normalize : {"forest", "tree"}, default="forest"
        Divide by the forest mass, or every tree by its own mass.
    regime : {"shared", "honest", "cross-fit", "cross-validated", "fixed"}, default="shared"
        Which labels the forest has seen. "shared" (PB-04): the same as the linear layer, the most
        accurate, and bounds are diagnostics only. "honest" (PB-02): the forest is grown on one
        part of the rows and the linear layer fitted on the other. "cross-fit" (PB-03): for each
        fold q, trees grown without the folds q and q + 1, and a linear layer fitted on q + 1; the
        predictor is their average. "cross-validated": for each fold q, trees and linear layer of
        all other rows; their average has used every row, and its risk is bounded by the folds that
        its parts have not seen. "fixed" (PB-01): the caller asserts that the given forest saw
        other data.
    alpha : "auto" or float, default="auto"
        Penalty. The loss is averaged: scikit-learn's ``C = 1 / (sum of weights * alpha)``.
    alphas : array-like, default=None
        Grid for ``alpha="auto"``. By default 20 values relative to the scale of the embedding,
        extended where the best lies on an edge. In the regime "cross-validated", but with
        "nested", 13 (5 for each block of a blend), never extended: its bounds count them.
    alpha_selection : {"fold-grown", "regrown", "frozen", "nested"}, default="fold-grown"
        How "auto" scores an alpha in the shared regime. "fold-grown": one forest in as many groups
        of trees as folds, where a group never sees its fold; every fold is predicted by its group
        alone. "regrown": a whole forest per fold. "frozen": folds of the linear layer only, on a
        forest that has seen all labels, which picks far too small an alpha on noisy data. In the
        other regimes the forest has not seen the labels, and "frozen" is what is done. "nested", of
        the regime "cross-validated": every part is a shared model of its rows, with all of
        `n_estimators` and five folds of its own, and chooses alpha and the weights of a blend
        there; bounds and intervals have then nothing to pay for the choice. A given `alpha` is that
        of every such part. It takes as long as that many shared models.
    scoring : None, str or callable, default=None
        Figure of merit of the out-of-fold predictions; None is the mean log-likelihood.
    cv : int or splitter, default=5
        Folds of the rows of the linear layer. A splitter must put every row into one test fold.
    honest_fraction : float, default=0.5
        Share of the rows that the linear layer is fitted on in the honest regime.
    center : {"zero", "partition"}, default="zero"
        What the penalty shrinks to. "partition", in the honest regime: the coefficients of a
        shared model of the partition fold, whose trees are used.
    main_effects : {"auto", "ladders", "linear"} or None, default="auto"
        One more block, which no label has a part in. "ladders": trees of one column each, split at
        quantiles. "linear": the columns of numbers themselves, standardised and clipped to their
        range in the training rows; columns of categories have no term. "auto" is both in a blend,
        otherwise None; given forests, of the regime "fixed", get none, for they are of other data.
    combine : {"auto", "blend", "joint"}, default="auto"
        How several forests come together. "joint": one linear layer on all of them. "blend":
        every forest has a linear layer with an alpha of its own, its bare ensemble is a second
        candidate, and the model is their sum with weights of at least 0 that are learned on scores
        of rows that none of them has seen. "auto" is "blend" for ``forest="blend"`` and for
        lists, but "joint" where there are no such scores: with another `alpha_selection` than
        "fold-grown" and "nested", and with `max_norm`. With ``center="partition"`` the centre is a
        blend, and one layer is fitted around it.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights. In the honest regime
        "balanced" counts the partition fold.
    fit_intercept : bool, default=True
        Whether an unpenalised intercept is fitted. False is the class that the bounds speak of.
    max_norm : float, default=None
        Most that the norm of w may be, over all scores; of each fold in the cross-fit regime.
        Where a fit exceeds it, that of the model or of a fold, its alpha is raised until it does
        not: the solution of the problem with :math:`\|w\| \le B` as a constraint. For
        `risk_bounds` with a radius that was fixed beforehand.
    tol : float, default=1e-4
        A fit is done when its objective is at most ``1 + tol`` times the minimum, as far as
        the last Newton step tells.
    max_iter : int, default=1000
        Most products with the Gram.
    n_jobs : int, default=None
        Number of threads. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of forest and folds.
    verbose : int, default=0
        1 shows how far the fit is, on standard error: a bar on a terminal, a line per phase
        elsewhere. 2 writes a line for every step.

    Attributes
    ----------
    forest_ : Forest, or list of (str, Forest)
        The trees.
    map_ : MapBlock
        The embedding, at the rows of the fit.
    classes_ : array of shape (n_classes,)
        The labels.
    node_coef_ : array of shape (1, n_nodes) or (n_classes, n_nodes)
        w.
    intercept_ : array of shape (1,) or (n_classes,)
        b.
    dual_coef_ : None or array of shape (n_fit_rows, 1) or (n_fit_rows, n_classes)
        v, with :math:`w = \Phi^\top v`; in the cross-fit regime fold by fold, and beyond what the
        penalty shrinks to. None where rows are in several layers: in a blend, and in the
        cross-validated regime.
    fits_ : list of LinearFit
        The linear layers as they were fitted; the model is the sum of their shares. One, or one
        for each fold of the cross-fit and cross-validated regimes, or one for each block of a
        blend, or all of these.
    fold_fits_ : list of LinearFit, or None
        Those that made the out-of-fold predictions; None for a blend.
    fold_predictors_ : FoldPredictors or None
        The predictors that have not seen a fold, for every fold; None where alpha was given, but
        for a blend and for ``regime="cross-validated"``. See `predict_set`.
    blend_weights_ : dict or None
        Of a blend, the weight of each candidate, by its name: that of a block for its linear
        layer, and the same with ", bare" for its bare ensemble. All classes share a weight.
    blend_score_ : float or None
        Of a blend, the score of `oof_prediction_`, higher is better.
    bare_fits_ : list of BareFit, or None
        The bare ensembles of a blend, as coefficients on the map.
    additive_ : AdditiveForest
        The model as forests with one number per node and score.
    alpha_ : float or dict
        The penalty that was used; above the chosen one where `max_norm` has raised it. Of a
        blend a dict, with the penalty of each block; of several layers the mean.
    constant_ : array of shape (n_classes,), or None
        The shares of the classes in the rows of the linear layer, by their weights: the
        constant that scores are compared with. None in a model of an older file.
    alpha_selection_ : str
        How it was found: "fold-grown", "regrown", "frozen", "nested" or "given".
    alphas_, cv_scores_ : arrays of shape (n_alphas,)
        The grid, and the score of its out-of-fold predictions, higher is better: `alpha_` is the
        one with the best of these, of equal ones the largest; where `max_norm` has raised it, the
        grid has it so. The fits of the chosen alpha are within 10 `tol` of the minimum of the
        objective, those up to two places beside it within 50 `tol`: their scores were off by 0.2%
        in the median on made rows, and by 0.7% at most, with the default `tol`, and by a tenth of
        that with 1e-6. With the default scoring, alphas further below the best are scored by
        iterates that were cut off early; of several classes and folds of at least 250 rows the
        chosen alpha alone is scored on all.
        Dicts by block in a blend. With "nested" what each part has chosen, and its score on the
        fold that it has not seen, or, by block, where it was chosen.
    oof_prediction_ : array of shape (n_fit_rows, n_classes), or None
        Probabilities of each row by trees and coefficients that have not seen it (with "frozen" in
        the shared regime: by coefficients only), at `alpha_`; with `max_norm` each fold's alpha is
        raised until its own fit is within. In a blend the weights have not seen the scores of its
        fold either.
    folds_ : list of (train rows, test rows), or None
        The folds.
    regime_ : str
        The regime.
    partition_rows_, fit_rows_ : int arrays
        Rows that the forest, and that the linear layer, were fitted on.
    sample_weight_ : array of shape (n_fit_rows,), or None
        Weights of the rows of the linear layer, class weights included; None where all are 1.
    fit_record_ : FitRecord
        How it was fitted: regime, kind of folds, groups, weights; ``set_params`` leaves it alone.
    row_fingerprints_ : uint64 array of shape (n_rows,), or None
        64 bits for each row given to fit, by which it is known again; None in older files.
    duplicate_rows_ : int or None
        Rows of the linear layer that equal, in every column, another row given to fit.
    feature_spread_ : array of shape (n_features,)
        Standard deviation of each column of the training rows; 0 where it holds no numbers.
    feature_range_ : array of shape (2, n_features) or None
        Least and largest value of each column of X; NaN for one without numbers. None in older
        files.
    missing_columns_ : bool array of shape (n_features,)
        Columns with a missing value in some training row.
    feature_values_ : list of arrays
        The different values of each column of the training rows, for numbers with at most 1,000
        of them, otherwise empty: rules are written with thresholds between them.
    feature_decimals_ : int8 array of shape (n_features,)
        The fewest decimals that all values of a column have; -1 for more than 6.
    n_iter_ : int
        Products with the Gram in the final fit.
    feature_importances_ : array of shape (n_features,)
        Share of each column in the squared contributions of nodes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KPPClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> model.predict_proba(X[:2]).shape
    (2, 3)
    >>> model.regime_
    'shared'
    """

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
        class_weight: Any = None,
        fit_intercept: bool = True,
        max_norm: float | None = None,
        tol: float = 1e-4,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            forest,
            n_estimators=n_estimators,
            node_weight=node_weight,
            leaf_weight=leaf_weight,
            coordinates=coordinates,
            normalize=normalize,
            regime=regime,
            alpha=alpha,
            alphas=alphas,
            alpha_selection=alpha_selection,
            scoring=scoring,
            cv=cv,
            honest_fraction=honest_fraction,
            center=center,
            main_effects=main_effects,
            combine=combine,
            fit_intercept=fit_intercept,
            max_norm=max_norm,
            tol=tol,
            max_iter=max_iter,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def _read_target(self, y: Any, n_rows: int) -> tuple[Task, AnyArray, AnyArray]:
        labels = column_or_1d(check_target(y, n_rows, one_column=False), warn=True)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "A classifier needs at least 2 classes; y holds one class, "
                f"{self.classes_.tolist()[0]!r}."
            )
        return Classification(self.classes_), labels, codes

    @property
    def _task(self) -> Classification:
        return Classification(self.classes_)

    def _weights(
        self, sample_weight: FloatArray, labels: AnyArray, regime: Regime, partition: Any
    ) -> FloatArray:
        # Nothing that the forest sees may come from labels of the fit fold.
        counted = partition if regime.splits_rows else None
        if self.class_weight is not None:
            sample_weight = sample_weight * weight_of_classes(self.class_weight, labels, counted)
        weighted = np.unique(labels[sample_weight > 0])
        if len(weighted) < 2:
            raise ValueError(
                "A classifier needs at least 2 classes with positive weight; got only "
                f"{weighted.tolist()}."
            )
        if regime.center == "partition" and len(np.unique(labels[partition])) < len(self.classes_):
            raise ValueError(
                "center='partition' needs every class in the partition fold; raise its share or "
                "use center='zero'."
            )
        return sample_weight

    def decision_function(self, X: Any) -> FloatArray:
        """Return the scores.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        scores : array of shape (n_rows,) for two classes, otherwise (n_rows, n_classes)
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> AnyArray:
        """Predict the class.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        y : array of shape (n_rows,)
        """
        scores = self._scores(X)
        return self.classes_[self._task.loss.classes(scores)]

    def predict_proba(self, X: Any) -> FloatArray:
        """Predict the probability of each class.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        probabilities : array of shape (n_rows, n_classes)
        """
        scores = self._scores(X)
        return self._task.loss.link(scores)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Predict the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        log_probabilities : array of shape (n_rows, n_classes)
        """
        scores = self._scores(X)
        return self._task.loss.log_link(scores)

    def predict_set(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        method: str = "lac",
        per_class: bool = False,
        guaranteed: float | None = None,
        random_state: int | None = None,
        independent_duplicates: bool = False,
    ) -> PredictionSets:
        r"""Predict a set of classes for each row: cross-conformal (CV+).

        With :math:`s_i` the score of row i and its class by the predictor that has not seen its
        fold, class k is in the set of x where fewer than
        :math:`\lceil (1 - a) (n + 1) \rceil` rows have :math:`s_i < s(x, k; g_{q(i)})`,
        :math:`a = 1 - \text{coverage}`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.
        coverage : float, default=0.9
            Share of new rows whose class should be in its set.
        method : {"lac", "aps"}, default="lac"
            The score: one less the probability of the class, for small sets; or the probability of
            all classes that are at least as likely, for sets that are larger where the row is
            harder.
        per_class : bool, default=False
            Whether to rank within each class, so that the coverage is aimed at in every class.
        guaranteed : float, optional
            Instead of `coverage`, which then does not count, a share to be promised: the sets are
            as much larger as the theorem asks for, and say whether its conditions hold.
        random_state : int, optional
            For "aps": seed of its random step, which takes a part u of the probability of the class
            itself off the score, u uniform on [0, 1] and drawn for every row. Sets are then no
            larger than the coverage needs, and the set of a row depends on its place among the
            rows. Without a seed nothing is taken off.
        independent_duplicates : bool, default=False
            Whether rows of the fit that equal each other in every column are independent draws that
            agree by chance; otherwise they void the guarantee. No set depends on it.

        Returns
        -------
        sets : PredictionSets
            With `sets`, `classes`, `mean_size`, `n_empty`, `is_guarantee` and `conditions`.

        Notes
        -----
        Weights of rows and classes are in the predictors; ranks count every row once.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from kpp import KPPClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = KPPClassifier(n_estimators=20, random_state=0).fit(X[::2], y[::2])
        >>> found = model.predict_set(X[1::2], coverage=0.95)
        >>> bool(found.sets[range(75), y[1::2]].mean() > 0.9), found.is_guarantee
        (True, False)
        """
        return predict_set(
            *(self, X, coverage, method, per_class, guaranteed, random_state),
            independent_duplicates=independent_duplicates,
        )

    predict_interval = OfAnotherTask("this model predicts classes; use predict_set.")
