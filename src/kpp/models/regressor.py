"""`KPPRegressor`: ridge regression on the embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array

from kpp._typing import AnyArray, FloatArray
from kpp.models.interval_results import PredictionIntervals
from kpp.models.intervals import predict_interval
from kpp.models.linear import KPPLinearModel
from kpp.models.tasks import Regression, Task


class KPPRegressor(RegressorMixin, KPPLinearModel):
    r"""Ridge regression on the node-indexed embedding of a forest, jointly over all trees.

    .. math::
        \min_{w, b}\; \tfrac12 \sum_i s_i \bigl(y_i - \langle w, \Phi(x_i) \rangle - b\bigr)^2
        + \tfrac{\alpha}{2} \|w\|^2

    Parameters
    ----------
    forest : str, estimator, Forest, FrozenEstimator or list, default="blend"
        What to embed with. "blend" is extra trees, boosted trees and main effects, each with a
        linear layer of its own, and their weights learned out of fold. Boosted trees grow for each
        target by themselves.
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
    regime : {"shared", "honest", "cross-fit", "fixed"}, default="shared"
        Which labels the forest has seen. "shared" (PB-04): the same as the linear layer, the most
        accurate, and bounds are diagnostics only. "honest" (PB-02): the forest is grown on one
        part of the rows and the linear layer fitted on the other. "cross-fit" (PB-03): for each
        fold q, trees grown without the folds q and q + 1, and a linear layer fitted on q + 1; the
        predictor is their average. "fixed" (PB-01): the caller asserts that the given forest saw
        other data.
    alpha : "auto" or float, default="auto"
        Penalty. The loss is summed: scikit-learn's ``Ridge(alpha=...)``.
    alphas : array-like, default=None
        Grid for ``alpha="auto"``. By default 20 values relative to the scale of the embedding,
        extended where the best lies on an edge.
    alpha_selection : {"fold-grown", "regrown", "frozen"}, default="fold-grown"
        How "auto" scores an alpha in the shared regime. "fold-grown": one forest in as many groups
        of trees as folds, where a group never sees its fold; every fold is predicted by its group
        alone. "regrown": a whole forest per fold. "frozen": folds of the linear layer only, on a
        forest that has seen all labels, which picks far too small an alpha on noisy data. In the
        other regimes the forest has not seen the labels, and "frozen" is what is done.
    scoring : None, str or callable, default=None
        Figure of merit of the out-of-fold predictions; None is the negative mean squared error.
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
        "fold-grown", and with `max_norm`. With ``center="partition"`` the centre is a blend, and
        one layer is fitted around it.
    fit_intercept : bool, default=True
        Whether an unpenalised intercept is fitted. False is the class that the bounds speak of.
    max_norm : float, default=None
        Most that the norm of w may be, over all scores; of each fold in the cross-fit regime.
        Where the fit exceeds it, alpha is raised until it does not: the solution of the problem
        with :math:`\|w\| \le B` as a constraint. For `risk_bounds` with a radius that was fixed
        beforehand.
    tol : float, default=1e-4
        A fit is done when its objective is at most ``1 + tol`` times the minimum, as a duality
        gap shows.
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
    node_coef_ : array of shape (n_nodes,) or (n_targets, n_nodes)
        w.
    intercept_ : float or array of shape (n_targets,)
        b.
    dual_coef_ : None or array of shape (n_fit_rows, n_targets)
        r, with :math:`w = \Phi^\top r`; in the cross-fit regime fold by fold, and beyond what the
        penalty shrinks to. None for a blend, whose layers have their own.
    fits_ : list of LinearFit
        The linear layers as they were fitted; the model is the sum of their shares. One, or one
        for each fold of the cross-fit regime, or one for each block of a blend.
    fold_fits_ : list of LinearFit, or None
        Those that made the out-of-fold predictions; None for a blend.
    fold_predictors_ : FoldPredictors or None
        The predictors that have not seen a fold, for every fold, of a blend too; None where alpha
        was given. See `predict_interval`.
    blend_weights_ : dict or None
        Of a blend, the weight of each candidate, by its name: that of a block for its linear
        layer, and the same with ", bare" for its bare ensemble. An array for several targets.
    blend_score_ : float or None
        Of a blend, the score of `oof_prediction_`, higher is better.
    bare_fits_ : list of BareFit, or None
        The bare ensembles of a blend, as coefficients on the map.
    additive_ : AdditiveForest
        The model as forests with one number per node and score.
    alpha_ : float or dict
        The penalty that was used; above the chosen one where `max_norm` has raised it. Of a
        blend a dict, with the penalty of each block.
    constant_ : array of shape (n_targets,), or None
        The mean of each target in the rows of the linear layer, by their weights: the
        constant that scores are compared with. None in a model of an older file.
    alpha_selection_ : str
        How it was found: "fold-grown", "regrown", "frozen" or "given".
    alphas_, cv_scores_ : arrays of shape (n_alphas,)
        The grid, and the score of its out-of-fold predictions, higher is better. With the default
        scoring, alphas far below the best are scored by iterates that were cut off early. Dicts
        by block in a blend.
    oof_prediction_ : array of shape (n_fit_rows,) or (n_fit_rows, n_targets), or None
        Prediction of each row by trees and coefficients that have not seen it (with "frozen" in
        the shared regime: by coefficients only), at `alpha_`. In a blend the weights have not
        seen the scores of its fold either.
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
    missing_columns_ : bool array of shape (n_features,)
        Columns with a missing value in some training row.
    n_iter_ : int
        Products with the Gram in the final fit.
    feature_importances_ : array of shape (n_features,)
        Share of each column in the squared contributions of nodes.

    Notes
    -----
    Scores of "fold-grown" are honest at a given alpha. Their maximum over the grid is slightly
    optimistic, and fewer rows and trees make them slightly pessimistic.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import ExtraTreesRegressor
    >>> from sklearn.model_selection import cross_val_score
    >>> from kpp import KPPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor(n_estimators=30, random_state=0).fit(X, y)
    >>> model.predict(X[:2]).shape
    (2,)
    >>> kpp = cross_val_score(KPPRegressor(n_estimators=30, random_state=0), X, y, cv=3).mean()
    >>> bool(kpp > cross_val_score(ExtraTreesRegressor(random_state=0), X, y, cv=3).mean())
    True
    """

    def _read_target(self, y: Any, n_rows: int) -> tuple[Task, AnyArray, AnyArray]:
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        if len(y) != n_rows:
            raise ValueError(f"X has {n_rows} rows, but y has {len(y)}.")
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        target = y.reshape(n_rows, -1)
        return Regression(target.shape[1], is_single=y.ndim == 1), y, target

    @property
    def _task(self) -> Regression:
        return Regression(np.size(self.intercept_), is_single=np.ndim(self.intercept_) == 0)

    def predict(self, X: Any) -> FloatArray:
        """Predict.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        y : array of shape (n_rows,) or (n_rows, n_targets)
        """
        scores = self._scores(X)
        return self._task.answers(scores)

    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        guaranteed: float | None = None,
        width: str = "adaptive",
    ) -> PredictionIntervals:
        r"""Predict an interval for each row: cross-conformal (CV+).

        With :math:`R_i = |y_i - g_{q(i)}(x_i)| / \sigma_{q(i)}(x_i)` by the predictor that has not
        seen the fold of row i, and :math:`a = 1 - \text{coverage}`, it runs from the
        :math:`\lfloor a (n + 1) \rfloor`-th smallest
        :math:`g_{q(i)}(x) - \sigma_{q(i)}(x) R_i` to the
        :math:`\lceil (1 - a) (n + 1) \rceil`-th smallest
        :math:`g_{q(i)}(x) + \sigma_{q(i)}(x) R_i`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.
        coverage : float, default=0.9
            Share of new rows whose target should lie in its interval; of each target by itself.
        guaranteed : float, optional
            Instead of `coverage`, a share to be promised: the intervals are as much wider as
            the theorem asks for, and say whether its conditions hold.
        width : {"adaptive", "constant"}, default="adaptive"
            "adaptive": :math:`\sigma_q` is the spread of the target around the row, in the trees
            of the fold's predictor and by rows of other folds (`kpp.models.spread.FoldSpread`):
            intervals are wider where the target varies more. "constant": it is 1, and all
            intervals are much of one width.

        Returns
        -------
        intervals : PredictionIntervals
            With `lower`, `upper`, `prediction`, `is_guarantee` and `conditions`.

        Notes
        -----
        Weights of rows are in the predictors; ranks count every row once.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from kpp import KPPRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KPPRegressor(n_estimators=20, random_state=0).fit(X[:300], y[:300])
        >>> intervals = model.predict_interval(X[300:], coverage=0.8)
        >>> inside = (intervals.lower <= y[300:]) & (y[300:] <= intervals.upper)
        >>> bool(inside.mean() > 0.7), intervals.is_guarantee
        (True, False)
        """
        return predict_interval(self, X, coverage, guaranteed, width)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
