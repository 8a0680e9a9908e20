"""`KPPClassifier`: logistic regression on the embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from kpp._typing import AnyArray, FloatArray
from kpp.geometry.maps import MapBlock
from kpp.models.building import check_target
from kpp.models.linear import KPPLinearModel
from kpp.models.selection import Solve, Solved, mean_squared_spread
from kpp.solvers import LogisticProblem

# Log-odds of a class that no row of a fold belongs to.
ABSENT = -30.0


class KPPClassifier(ClassifierMixin, KPPLinearModel):
    r"""Logistic regression on the node-indexed embedding of a forest, jointly over all trees.

    .. math::
        \min_{w, b}\; \frac{1}{\sum_i s_i} \sum_i s_i\,
        \ell\bigl(y_i, \langle w, \Phi(x_i) \rangle + b\bigr) + \tfrac{\alpha}{2} \|w\|^2

    with the log-loss of one score for two classes, and of the softmax of one score per class
    for more.

    Parameters
    ----------
    forest : str, estimator, Forest, FrozenEstimator or list, default="extra-trees"
        What to embed with. A name ("extra-trees", "random-forest" or "boosted") or an estimator
        is grown on the data (an estimator is cloned; its own ``random_state`` wins when set). A
        `Forest` or ``FrozenEstimator`` goes with ``regime="fixed"``. A list of (name, forest)
        gives several side by side.
    n_estimators : int, default=100
        Number of trees of a forest given by name; with folds that grow trees, at least one a fold.
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
        Penalty. The loss is averaged: scikit-learn's ``C = 1 / (sum of weights * alpha)``.
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
        Figure of merit of the out-of-fold predictions; None is the mean log-likelihood.
    cv : int or splitter, default=5
        Folds of the rows of the linear layer. A splitter must put every row into one test fold.
    honest_fraction : float, default=0.5
        Share of the rows that the linear layer is fitted on in the honest regime.
    center : {"zero", "partition"}, default="zero"
        What the penalty shrinks to. "partition", in the honest regime: the coefficients of a
        shared model of the partition fold, whose trees are used.
    linear_terms : bool, default=False
        Reserved.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights. In the honest regime
        "balanced" counts the partition fold.
    fit_intercept : bool, default=True
        Whether an unpenalised intercept is fitted. False is the class that the bounds speak of.
    tol : float, default=1e-8
        Norm of the gradient, relative to the root mean square of the rows' norms.
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
    coef_ : array of shape (1, n_nodes) or (n_classes, n_nodes)
        w.
    intercept_ : array of shape (1,) or (n_classes,)
        b.
    dual_coef_ : array of shape (n_fit_rows, 1) or (n_fit_rows, n_classes)
        v, with :math:`w = \Phi^\top v`; in the cross-fit regime fold by fold, and beyond what the
        penalty shrinks to.
    alpha_ : float
        The penalty that was used.
    alphas_, cv_scores_ : arrays of shape (n_alphas,)
        The grid, and the score of its out-of-fold predictions, higher is better. With the default
        scoring, alphas far below the best are scored by iterates that were cut off early.
    oof_prediction_ : array of shape (n_fit_rows, n_classes), or None
        Probabilities of each row by trees and coefficients that have not seen it (with "frozen" in
        the shared regime: by coefficients only), at `alpha_`.
    folds_ : list of (train rows, test rows), or None
        The folds.
    regime_ : str
        The regime.
    partition_rows_, fit_rows_ : int arrays
        Rows that the forest, and that the linear layer, were fitted on.
    sample_weight_ : array of shape (n_fit_rows,), or None
        Weights of the rows of the linear layer, class weights included; None where all are 1.
    feature_spread_ : array of shape (n_features,)
        Standard deviation of each column of the training rows; 0 where it holds no numbers.
    missing_columns_ : bool array of shape (n_features,)
        Columns with a missing value in some training row.
    n_iter_ : int
        Products with the Gram in the final fit.
    feature_importances_ : array of shape (n_features,)
        Share of each column in the squared contributions of nodes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KPPClassifier(n_estimators=50, random_state=0).fit(X, y)
    >>> model.predict_proba(X[:2]).shape
    (2, 3)
    >>> model.regime_
    'shared'
    """

    _classification = True
    _search_tols = (1e-5, 1e-6)

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
        class_weight: Any = None,
        fit_intercept: bool = True,
        tol: float = 1e-8,
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
            linear_terms=linear_terms,
            fit_intercept=fit_intercept,
            tol=tol,
            max_iter=max_iter,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def _encode(self, y: Any, n_rows: int) -> tuple[AnyArray, AnyArray]:
        labels = column_or_1d(check_target(y, n_rows, one_column=False), warn=True)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"A classifier needs at least 2 classes; y holds one class, {self.classes_[0]!r}."
            )
        return labels, codes

    def _weights(
        self, sample_weight: FloatArray, labels: AnyArray, partition: AnyArray | None
    ) -> FloatArray:
        if self.class_weight == "balanced" and self.regime == "honest":
            # Nothing that the forest sees may come from labels of the fit fold. A class that the
            # partition fold lacks counts as one that it holds once.
            known = labels[partition]
            count = dict(zip(*np.unique(known, return_counts=True), strict=True))
            scale = len(known) / len(count)
            balanced = {c: scale / count.get(c, 1) for c in np.unique(labels).tolist()}
            sample_weight = sample_weight * compute_sample_weight(balanced, labels)
        elif self.class_weight is not None:
            sample_weight = sample_weight * compute_sample_weight(self.class_weight, labels)
        weighted = np.unique(labels[sample_weight > 0])
        if len(weighted) < 2:
            raise ValueError(
                "A classifier needs at least 2 classes with positive weight; got only "
                f"{weighted.tolist()}."
            )
        return sample_weight

    def _pose(
        self, block: MapBlock, target: AnyArray, weight: FloatArray, offset: FloatArray | None
    ) -> Solve:
        n_classes = len(self.classes_)
        present = np.unique(target[weight > 0])
        if len(present) < n_classes and offset is None:
            return self._pose_some(block, target, weight, present)
        problem = LogisticProblem(
            block,
            target,
            weight,
            n_classes=n_classes,
            offset=offset,
            fit_intercept=self.fit_intercept,
        )
        return self._solver_of(problem)

    def _solver_of(self, problem: LogisticProblem) -> Solve:
        def solve(
            alphas: FloatArray, *, tol: float | None = None, max_iter: int | None = None
        ) -> Solved:
            path = problem.solve(
                alphas,
                tol=self.tol if tol is None else tol,
                max_iter=self.max_iter if max_iter is None else max_iter,
            )
            return Solved(path.dual, path.intercept, int(path.n_iter.sum()), path.residual)

        return solve

    def _pose_some(
        self, block: MapBlock, target: AnyArray, weight: FloatArray, present: AnyArray
    ) -> Solve:
        """Rows that lack a class: it is almost impossible, whatever x."""
        n_classes = len(self.classes_)
        n_scores = 1 if n_classes == 2 else n_classes
        seen = np.zeros(n_scores, dtype=bool)
        empty = np.full(n_scores, ABSENT)
        if n_classes == 2:
            empty[:] = ABSENT if present[0] == 0 else -ABSENT
        else:
            empty[present], seen[present] = 0.0, True
        known = weight > 0
        inner = None
        if n_classes > 2 and len(present) > 1:
            inner = self._solver_of(
                LogisticProblem(
                    block.rows(known),
                    np.searchsorted(present, target[known]),
                    weight[known],
                    n_classes=len(present),
                    fit_intercept=self.fit_intercept,
                )
            )

        def solve(
            alphas: FloatArray, *, tol: float | None = None, max_iter: int | None = None
        ) -> Solved:
            dual = np.zeros((len(alphas), len(target), n_scores))
            intercept = np.tile(empty, (len(alphas), 1))
            if inner is None:
                return Solved(dual, intercept, 0, np.zeros(len(alphas)), seen)
            solved = inner(alphas, tol=tol, max_iter=max_iter)
            v, b = solved.dual, solved.intercept
            if len(present) == 2:  # one score is the difference of two
                v, b = np.concatenate([-v / 2, v / 2], axis=2), np.hstack([-b / 2, b / 2])
            dual[np.ix_(np.arange(len(alphas)), np.flatnonzero(known), present)] = v
            intercept[:, present] = b
            return Solved(dual, intercept, solved.n_iter, solved.residual, seen)

        return solve

    def _unit(self, block: MapBlock, weight: FloatArray) -> float:
        return mean_squared_spread(block, weight) / float(weight.sum())

    def _merit(self, target: AnyArray, scores: FloatArray, weight: FloatArray) -> float:
        log_probability = _log_probabilities(scores)
        own = np.take_along_axis(log_probability, target[:, None], axis=1)[:, 0]
        return float(np.average(own, weights=weight))

    def _out_of_fold(self, scores: FloatArray) -> FloatArray:
        return _probabilities(scores)

    def _labels(self, target: AnyArray) -> AnyArray:
        return self.classes_[target]

    def _fixed_predictor(self, scores: FloatArray) -> Any:
        return _FixedClassifier(scores, self.classes_)

    def _set_linear(self, coefficients: FloatArray, intercept: FloatArray) -> None:
        self.coef_, self.intercept_ = coefficients, intercept

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
        codes = _classes(self._scores(X))
        return self.classes_[codes]

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
        return _probabilities(self._scores(X))

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
        return _log_probabilities(self._scores(X))


def _classes(scores: FloatArray) -> AnyArray:
    return (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)


def _probabilities(scores: FloatArray) -> FloatArray:
    if scores.shape[1] == 1:
        return expit(np.hstack([-scores, scores]))
    return softmax(scores, axis=1)


def _log_probabilities(scores: FloatArray) -> FloatArray:
    if scores.shape[1] == 1:
        return log_expit(np.hstack([-scores, scores]))
    return log_softmax(scores, axis=1)


class _FixedClassifier(ClassifierMixin, BaseEstimator):
    """Predictions that are already there; X are row numbers."""

    def __init__(self, scores: Any = None, classes: Any = None) -> None:
        self.scores = scores
        self.classes = classes

    @property
    def classes_(self) -> Any:
        return self.classes

    def predict(self, X: Any) -> Any:
        return self.classes[_classes(self.scores[X])]

    def predict_proba(self, X: Any) -> Any:
        return _probabilities(self.scores[X])

    def decision_function(self, X: Any) -> Any:
        return self.scores[X, 0] if self.scores.shape[1] == 1 else self.scores[X]

    def __sklearn_is_fitted__(self) -> bool:
        return True
