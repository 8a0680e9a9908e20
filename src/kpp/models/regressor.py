"""`KPPRegressor`: ridge regression on the embedding, or another loss of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_pinball_score, d2_tweedie_score, r2_score
from sklearn.utils.validation import check_array, column_or_1d

from kpp._checks import check_sample_weight
from kpp._typing import AnyArray, FloatArray
from kpp.models.blocks import blocks_of
from kpp.models.cqr import interval_of_loss
from kpp.models.interval_results import PredictionIntervals
from kpp.models.intervals import OfAnotherTask, predict_interval
from kpp.models.linear import KPPLinearModel
from kpp.models.loss_choice import LossChoice, check_offset
from kpp.models.tasks import Regression, Task
from kpp.scores import routed_rows
from kpp.solvers import PinballLoss, PoissonLoss


class KPPRegressor(RegressorMixin, KPPLinearModel):
    r"""Ridge regression on the node-indexed embedding of a forest, jointly over all trees.

    .. math::
        \min_{w, b}\; \sum_i s_i\, \ell\bigl(y_i, \langle w, \Phi(x_i) \rangle + b\bigr)
        + \tfrac{\alpha}{2} \|w\|^2

    with half the squared error for :math:`\ell`, or with another loss of the score g:

    .. math::
        \text{squared: } & \tfrac12 (y - g)^2 \qquad
        \text{huber: } \tfrac12 e^2 \text{ up to } |e| = |y - g| = d,
        \text{ then } d |e| - \tfrac12 d^2 \\
        \text{quantile: } & q \max(y - g, 0) + (1 - q) \max(g - y, 0) \qquad
        \text{poisson: } e^g - y g - y + y \log y

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
        Penalty. Every loss is summed: scikit-learn's ``Ridge(alpha=...)``.
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
        Figure of merit of the out-of-fold predictions; None is the loss itself, negated: the mean
        squared error, Huber or pinball loss, or Poisson deviance.
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
    loss : {"squared", "huber", "quantile", "poisson"}, default="squared"
        What is minimised, and what alpha and the weights of a blend are chosen by. "huber" for
        targets with outliers, "quantile" for quantiles of the target, "poisson" for counts and
        rates, with the logarithm of the mean as the score. All but "squared" take one target.
    quantile : float or list of float, default=0.5
        With ``loss="quantile"``, the share of the targets that lie below the prediction. Of a list
        every quantile has its own linear layer, on the same trees and with the same alpha. Other
        losses do not look at it.
    huber_delta : float, default=None
        With ``loss="huber"`` (others do not look at it), the threshold d in units of the target.
        None is 1.35 robust standard deviations of the target around its median (1.4826 times the
        median of the absolute deviations), of all rows, or in the honest regime of those that grew
        the forest.
    fit_intercept : bool, default=True
        Whether an unpenalised intercept is fitted. False is the class that the bounds speak of.
    max_norm : float, default=None
        Most that the norm of w may be, over all scores; of each fold in the cross-fit regime.
        Where a fit exceeds it, that of the model or of a fold, its alpha is raised until it does
        not: the solution of the problem with :math:`\|w\| \le B` as a constraint. For
        `risk_bounds` with a radius that was fixed beforehand.
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
        for a blend and for ``regime="cross-validated"``. See `predict_interval`.
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
        blend a dict, with the penalty of each block; of several layers the mean.
    loss_ : Loss
        The loss, with the threshold, the quantiles or the scale that it was fitted with.
    constant_ : array of shape (n_targets,), or None
        The mean of each target in the rows of the linear layer, by their weights, or the constant
        that is best by the loss: what scores are compared with. None in a model of an older file.
    alpha_selection_ : str
        How it was found: "fold-grown", "regrown", "frozen", "nested" or "given".
    alphas_, cv_scores_ : arrays of shape (n_alphas,)
        The grid, and the score of its out-of-fold predictions, higher is better: `alpha_` is the
        one with the best of these, of equal ones the largest; where `max_norm` has raised it, the
        grid has it so. The fits of the chosen alpha are within 10 `tol` of the minimum of the
        objective, those up to two places beside it within 100 `tol` (Poisson's loss 50): their
        scores were off by 0.2% in the median on made rows, and by 1.4% at most, with the default
        `tol`, and by a tenth of that with 1e-6. With the default scoring, alphas further below the
        best are scored by iterates that were cut off early. Dicts by block in a blend. With
        "nested" what each part has chosen, and its score on the fold that it has not seen, or, by
        block, where it was chosen.
    oof_prediction_ : array of shape (n_fit_rows,) or (n_fit_rows, n_targets), or None
        Prediction of each row by trees and coefficients that have not seen it (with "frozen" in
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
        loss: str = "squared",
        quantile: Any = 0.5,
        huber_delta: float | None = None,
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
        self.loss = loss
        self.quantile = quantile
        self.huber_delta = huber_delta

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, offset: Any = None
    ) -> Any:
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
        offset : array-like of shape (n_rows,), optional
            With ``loss="poisson"``, the logarithm of the exposure of each row, added to its score.
            It is the same as to give ``y / exposure`` with ``sample_weight * exposure``, which is
            what the fit does: `oof_prediction_` and the like are rates.

        Returns
        -------
        self : estimator
        """
        if offset is not None:
            y, sample_weight = _as_rates(self, y, sample_weight, offset)
        return super().fit(X, y, sample_weight, groups)

    def _read_target(self, y: Any, n_rows: int) -> tuple[Task, AnyArray, AnyArray]:
        choice = LossChoice.of(self)
        if self._is_auto() or blocks_of(self).is_blend:
            choice.check_scoring(self.scoring)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        if len(y) != n_rows:
            raise ValueError(f"X has {n_rows} rows, but y has {len(y)}.")
        if y.ndim == 2 and y.shape[1] == 1:
            # As scikit-learn's estimators of one target do: a column is taken, and remarked on.
            y = y[:, 0] if choice.name == "squared" else column_or_1d(y, warn=True)
        choice.check_target(y)
        target = y.reshape(n_rows, -1)
        n_scores, is_single = choice.shape(target.shape[1], is_single=y.ndim == 1)
        return Regression(n_scores, is_single, choice=choice), y, target

    @property
    def _task(self) -> Regression:
        is_single = np.ndim(self.intercept_) == 0
        return Regression(np.size(self.intercept_), is_single, self.loss_)

    def predict(self, X: Any, offset: Any = None) -> FloatArray:
        """Predict.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.
        offset : array-like of shape (n_rows,), optional
            With ``loss="poisson"``, the logarithm of the exposure: the mean for it is predicted,
            otherwise that for an exposure of 1.

        Returns
        -------
        y : array of shape (n_rows,) or (n_rows, n_targets)
            Means, with ``loss="quantile"`` quantiles: of several a column each, sorted, so that
            none cross.
        """
        scores = self._scores(X)
        if offset is not None:
            scores = scores + check_offset(self._task.loss, offset, len(scores))[:, None]
        return self._task.answers(scores)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        r"""Return the share of the loss of the best constant that the model avoids.

        :math:`R^2` for the squared and Huber's loss; for a quantile and Poisson's scikit-learn's
        ``d2_pinball_score`` and ``d2_tweedie_score(power=1)``, which are 1 less the ratio of
        the model's loss to that of the constant. Of several quantiles the mean.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Their target.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows.
        offset : array-like of shape (n_rows,), optional
            As in `predict`.

        Returns
        -------
        score : float
        """
        self._check_fitted()
        loss, prediction = self._task.loss, self.predict(X, offset)
        if isinstance(loss, PinballLoss):
            columns = prediction.reshape(len(prediction), -1).T
            found = [
                d2_pinball_score(y, own, alpha=q, sample_weight=sample_weight)
                for own, q in zip(columns, loss.quantiles, strict=True)
            ]
            return float(np.mean(found))
        if isinstance(loss, PoissonLoss):
            return float(d2_tweedie_score(y, prediction, power=1, sample_weight=sample_weight))
        return float(r2_score(y, prediction, sample_weight=sample_weight))

    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        guaranteed: float | None = None,
        width: str = "adaptive",
        offset: Any = None,
        independent_duplicates: bool = False,
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
            Instead of `coverage`, which then does not count, a share to be promised: the intervals
            are as much wider as the theorem asks for, and say whether its conditions hold.
        width : {"adaptive", "constant"}, default="adaptive"
            "adaptive": :math:`\sigma_q` is the spread of the target around the row, in the trees
            of the fold's predictor and by rows of other folds (`kpp.models.spread.FoldSpread`):
            intervals are wider where the target varies more. "constant": it is 1, and all
            intervals are much of one width. Of every loss; with several quantiles it is the way
            that their ends are moved.
        offset : array-like of shape (n_rows,), optional
            With ``loss="poisson"``, the logarithm of the exposure: intervals are of counts for it.
            Otherwise they are of the target of the fit, which are rates where the fit had an
            offset, for a row whose exposure is drawn like those of the fit.
        independent_duplicates : bool, default=False
            Whether rows of the fit that equal each other in every column are independent draws that
            agree by chance; otherwise they void the guarantee. No end depends on it.

        Returns
        -------
        intervals : PredictionIntervals
            With `lower`, `upper`, `prediction`, `is_guarantee` and `conditions`.

        Notes
        -----
        Weights of rows are in the predictors; ranks count every row once.

        A model of several quantiles gives conformalised ones instead (CQR): with l and u the least
        and the largest,
        :math:`R_i = \max(l_{q(i)}(x_i) - y_i, y_i - u_{q(i)}(x_i)) / \sigma_{q(i)}(x_i)`, and the
        ends are of :math:`l_{q(i)}(x) - \sigma_{q(i)}(x) R_i` and
        :math:`u_{q(i)}(x) + \sigma_{q(i)}(x) R_i` by the same ranks: about as wide as the quantiles
        are apart, with the same guarantee.

        With Poisson's loss no end is below 0. Given an offset, with e the exposure and
        :math:`s_i` the weights of the fit, which hold the exposures of its rows,
        :math:`R_i = \sqrt{s_i}\, |y_i - g_{q(i)}(x_i)| / \sigma_{q(i)}(x_i)` for g the mean and
        :math:`y_i` the rates, and the ends are of
        :math:`e\, g_{q(i)}(x) \mp \sqrt{e}\, \sigma_{q(i)}(x) R_i`: the rate of a row that was
        watched for longer varies less. Constant widths are e times those of rates.

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
        self._check_fitted()
        if offset is not None:
            X = routed_rows(self, X)
            offset = check_offset(self._task.loss, offset, len(X))
        if isinstance(self.loss_, PoissonLoss) or np.size(self.intercept_) > self._task.n_targets:
            return interval_of_loss(
                self, X, coverage, guaranteed, width, offset, independent_duplicates
            )
        return predict_interval(self, X, coverage, guaranteed, width, independent_duplicates)

    predict_set = OfAnotherTask("this model predicts numbers; use predict_interval.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = isinstance(self.loss, str) and self.loss == "squared"
        tags.target_tags.positive_only = isinstance(self.loss, str) and self.loss == "poisson"
        return tags


def _as_rates(model: KPPRegressor, y: Any, weight: Any, offset: Any) -> tuple[Any, Any]:
    """Counts with an exposure as rates, and the exposure as a weight."""
    y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    shift = check_offset(PoissonLoss() if model.loss == "poisson" else None, offset, len(y))
    exposure = np.exp(shift)
    given = check_sample_weight(weight, len(y))
    # e^(g + o) - y (g + o) is e^o (e^g - (y e^-o) g), but for a constant.
    return y / (exposure if y.ndim == 1 else exposure[:, None]), given * exposure
