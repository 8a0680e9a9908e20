"""The sample of a bound: its rows, its target, and whether they are what the caller says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import bdtrc, softmax

from kpp._checks import RefusedError, check_choice
from kpp._fingerprints import (
    among,
    array_digest,
    most_by_chance,
    row_fingerprints,
    with_twin,
)
from kpp._typing import AnyArray, FloatArray
from kpp.bounds.predictors import LinearPredictor, with_both_scores
from kpp.geometry import leaf_ids_of, linear_blocks
from kpp.models.asking import Question, ask
from kpp.models.averages import FoldPredictor, fold_predictors
from kpp.models.data import check_groups, check_target, group_codes
from kpp.models.fits import LinearFit
from kpp.models.left_rows import check_has_rows
from kpp.models.linear import KPPLinearModel
from kpp.models.pipelines import prepared, split_pipeline
from kpp.models.regimes import regime_of
from kpp.scores import RoutedRows, routed_rows
from kpp.solvers import PoissonLoss

# How to say that equal rows agree by chance, in Python and on the command line.
SAY_SO = "independent_duplicates=True (--independent-duplicates of kpp report)"
SAMPLES = ("fit", "train", "test")
EPS = float(np.finfo(float).eps)
# Rows of the same leaves in so many trees are taken as the same row.
MANY_TREES = 20
# How often an independent row reaches the leaves of some row of the fit in all of so many trees, at
# most. Where 95% of the rows of the fit are alone in their leaves, few rows are the same by
# chance, as categories are; trees that have seen the rows of the fit set them apart from each
# other better than from new ones, which adds a few percent for two columns and nothing for five.
# Along one column a new row has one of two neighbours in every tree, and often the same.
CHANCE, CHANCE_OF_ONE_COLUMN = 0.1, 0.6


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a call, routed once, and those among them that a figure is of.

    Parameters
    ----------
    question : Question
        The model.
    kind : {"fit", "train", "test"}
        What the caller says of the rows.
    all_rows : RoutedRows
        All rows of the call.
    all_target : array of shape (n_all_rows,)
        Their target: class numbers, or numbers.
    index : int array of shape (n_rows,)
        Which of them belong to the sample.
    independent_duplicates : bool
        Whether the caller says that equal rows are independent draws.
    groups : array of shape (n_all_rows,), optional
        Numbers of the groups of all rows, where the caller gave them.
    """

    question: Question
    kind: str
    all_rows: RoutedRows
    all_target: AnyArray
    index: AnyArray
    independent_duplicates: bool = False
    groups: AnyArray | None = None

    @property
    def model(self) -> KPPLinearModel:
        """The fitted model."""
        return self.question.model

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for regression."""
        classes = self.question.additive.classes
        return 0 if classes is None else len(classes)

    @property
    def by_folds(self) -> bool:
        """Whether each fold of an average of folds is taken at rows of its own."""
        return self.kind == "fit" and self.question.regime.averages_folds

    @cached_property
    def rows(self) -> RoutedRows:
        """The rows of the sample."""
        if np.array_equal(self.index, np.arange(len(self.all_rows))):
            return self.all_rows
        return self.all_rows.take(self.index)

    @cached_property
    def target(self) -> AnyArray:
        """Their target, shape (n_rows,)."""
        return self.all_target[self.index]

    @cached_property
    def seen(self) -> str | None:
        """Why rows that are called unseen look like those of the fit; None where they do not."""
        if self.kind != "test":
            return None
        declared = self.independent_duplicates
        return seen_rows(self.question, self.rows, independent_duplicates=declared)

    @cached_property
    def n_twins(self) -> int:
        """Rows of the sample that equal another row of the call, in every column."""
        known = self.model.row_fingerprints_ if self.kind != "test" else None
        prints = row_fingerprints(self.all_rows.X) if known is None else known
        return int(with_twin(prints)[self.index].sum())

    @property
    def n_leaked(self) -> int:
        """Rows of the fit fold that equal a row of the partition fold, in every column."""
        if self.kind != "fit" or not self.question.regime.splits_rows:
            return 0
        prints = row_fingerprints(self.all_rows.X)
        return int(np.isin(prints[self.index], prints[self.model.partition_rows_]).sum())

    @property
    def largest_group(self) -> int:
        """Rows of the largest group of the sample; 1 where the caller gave no groups."""
        return 1 if self.groups is None else int(np.bincount(self.groups[self.index]).max())

    @cached_property
    def predictor(self) -> LinearPredictor:
        """The model at the rows of the sample."""
        question = self.question
        return LinearPredictor(
            rows=self.rows,
            map=self.rows.map,
            target=self.target,
            node_coef=question.node_coef,
            intercept=question.intercept,
            n_classes=self.n_classes,
        )

    @cached_property
    def parts(self) -> list[LinearPredictor]:
        """The predictors that the model averages: its folds, or only itself.

        On "fit" each fold is at the rows that it was fitted on, otherwise all are at the rows of
        the sample.
        """
        if not self.question.regime.averages_folds:
            return [self.predictor]
        return [self._of_fold(fold) for fold in fold_predictors(self.model)]

    def _of_fold(self, fit: FoldPredictor) -> LinearPredictor:
        rows, target = self.rows, self.target
        if self.by_folds:
            rows, target = self.all_rows.take(fit.rows), self.all_target[fit.rows]
        return LinearPredictor(
            rows=rows,
            map=fit.map.on(rows),
            target=target,
            node_coef=fit.node_coef,
            intercept=fit.intercept,
            n_classes=self.n_classes,
        )

    def folds(self) -> list[LinearPredictor]:
        """Return `parts` for bounds, which speak of predictors that know every class."""
        weight = self.question.fit_weight
        for q, fit in enumerate(fold_predictors(self.model)):
            known = self.all_target[fit.rows[weight[fit.rows] > 0]]
            if len(np.unique(known)) < self.n_classes:
                raise RefusedError(
                    f"Fold {q} of this cross-fit model was fitted without one of the classes, and "
                    "its predictor cannot be taken apart from the average: use fewer folds."
                )
        return self.parts


def ask_one_target(model: Any) -> Question:
    """Take a fitted model, or a Pipeline that ends in one; refuse one with several targets."""
    question = ask(model)
    n_scores = question.additive.n_scores
    if not question.is_classifier and not question.is_ridge and n_scores > 1:
        raise RefusedError(
            f"This is of one prediction, and this model has {n_scores} quantiles: fit a model of "
            "one, with quantile a number."
        )
    if not question.is_classifier and np.ndim(question.model.node_coef_) == 2:
        raise RefusedError(
            f"Bounds speak of one target, and this model has {n_scores}: fit one "
            "model per target, each with its share of delta."
        )
    return question


def ask_for_bounds(model: Any) -> Question:
    """As `ask_one_target`; refuse a loss that has no bounds."""
    question = ask_one_target(model)
    if isinstance(question.model.loss_, PoissonLoss):
        raise RefusedError(
            "There are no bounds of Poisson's loss: it grows with the exponential of the score, so "
            "that it has no Lipschitz constant and no largest value short of e^B, and a count has "
            "no limits. Huber's, the pinball and the squared loss have bounds."
        )
    return question


def rows_of(model: Any, X: Any) -> RoutedRows:
    """Return rows as those of any fitted estimator of this package, alone or in a Pipeline."""
    preparation, fitted = split_pipeline(model)
    return routed_rows(fitted, X if isinstance(X, RoutedRows) else prepared(preparation, X))


def encode_target(question: Question, y: Any, n_rows: int) -> AnyArray:
    """Return the target as the model's class numbers, or as numbers.

    Parameters
    ----------
    question : Question
        The model, which knows the classes.
    y : array-like of shape (n_rows,)
        Labels or numbers.
    n_rows : int
        Number of rows of X.

    Returns
    -------
    target : int or float array of shape (n_rows,)
    """
    if y is None:
        raise ValueError("y is None: give the target of the rows of X.")
    if question.is_classifier:
        return question.encode(y, n_rows)
    return np.asarray(check_target(y, n_rows), dtype=np.float64)


def sample_of(
    question: Question,
    X: Any,
    y: Any,
    kind: str,
    *,
    has_target: bool = True,
    independent_duplicates: bool = False,
    groups: Any = None,
) -> Sample:
    """Check and route the rows of a call, and find those of the sample among them.

    Parameters
    ----------
    question : Question
        The model.
    X : array-like, data frame or RoutedRows of shape (n_rows, n_columns)
        Rows; for "fit" and "train" all that were given to fit.
    y : array-like of shape (n_rows,)
        Their target.
    kind : {"fit", "train", "test"}
        What they are.
    has_target : bool
        Without a target y is anything of the right length, and is not compared with the fit.
    independent_duplicates : bool
        Whether the caller says that equal rows are independent draws.
    groups : array-like of shape (n_rows,), optional
        Groups of the rows of X.

    Returns
    -------
    sample : Sample

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.bounds.samples import sample_of
    >>> from kpp.models.asking import ask
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor("extra-trees", regime="honest", alpha=1.0, random_state=0)
    >>> sample = sample_of(ask(model.fit(X, y)), X, y, "fit")
    >>> len(sample.all_rows), len(sample.rows)
    (442, 221)
    """
    check_choice("sample", kind, SAMPLES)
    model = question.model
    rows = question.rows(X, least=0)
    target = encode_target(question, y, len(rows))
    if len(rows) == 0:
        raise ValueError("X has no rows: a bound needs a sample.")
    groups = check_groups(groups, len(rows))
    codes = None if groups is None else group_codes(groups)
    said = (bool(independent_duplicates), codes)
    if kind == "test":
        return Sample(question, kind, rows, target, np.arange(len(rows)), *said)
    check_has_rows(model, f"sample={kind!r}")
    n_train = n_training_rows(model)
    if len(rows) != n_train:
        raise RefusedError(
            f"sample={kind!r} takes the X and y that were given to fit, {n_train} rows; got "
            f"{len(rows)}. For other rows use sample='test'."
        )
    same = np.array_equal(leaf_ids_of(model.map_), rows.all_leaf_ids[:, model.fit_rows_])
    for (_, block), values in zip(linear_blocks(model.map_), rows.linear_values, strict=True):
        # Up to what a value may lose between a file and another, as in single precision.
        same &= np.allclose(block.values, values[model.fit_rows_], rtol=0, atol=1e-6)
    if not same:
        raise RefusedError(
            f"sample={kind!r} takes the X and y that were given to fit, in the same order; these "
            "rows fall into other leaves. For other rows use sample='test'."
        )
    if has_target:
        check_same_target(question, target, kind)
    index = model.fit_rows_ if kind == "fit" else np.arange(n_train)
    return Sample(question, kind, rows, target, index, *said)


def n_training_rows(model: KPPLinearModel) -> int:
    """Return the number of rows that were given to fit."""
    n_fit, grown_on = len(model.fit_rows_), model.partition_rows_
    return n_fit + len(grown_on) if grown_on is not None and regime_of(model).splits_rows else n_fit


def check_same_target(question: Question, target: AnyArray, kind: str = "fit") -> None:
    r"""Refuse a target that the coefficients were not fitted to.

    A model knows its target by a digest. One from an older file does not, but at a ridge solution
    :math:`\alpha r_i = s_i (y_i - g_i)` for every row, and at a logistic one the gradient
    :math:`\Phi^\top (\gamma + \alpha r)` is 0. Both hold up to the tolerance of the solver, for the
    labels of the fit and for no others; a fit that was cut off by `max_iter` is not asked. Labels
    of rows that only grew trees count for neither.

    Parameters
    ----------
    question : Question
        The model.
    target : array of shape (n_training_rows,) or (n_training_rows, n_targets)
        From `encode_target`.
    kind : str
        What an error calls the rows.
    """
    model, record = question.model, question.model.fit_record_
    taken = f"sample={kind!r} takes the X and y that were given to fit, and this y is another"
    if record.target_digest is not None:
        if array_digest(target[model.fit_rows_]) != record.target_digest:
            raise RefusedError(f"{taken}. For other rows use sample='test'.")
        return
    if model.n_iter_ >= record.max_iter:
        return
    weight = np.zeros(n_training_rows(model))
    weight[model.fit_rows_] = 1.0 if model.sample_weight_ is None else model.sample_weight_
    gap_of = _logistic_gap if question.is_classifier else _ridge_gap
    for fit in model.fits_:
        gap, allowed = gap_of(fit, target[fit.rows], weight[fit.rows])
        if gap > 10 * record.tol + 1e-7 + allowed:
            raise RefusedError(
                f"{taken}: the fitted coefficients do not solve its problem (they miss by "
                f"{gap:.1e}, relative to its scale). For other rows use sample='test'."
            )


def _ridge_gap(fit: LinearFit, y: AnyArray, s: FloatArray) -> tuple[float, float]:
    """How far the dual is from the residuals, relative to the target; and what rounding allows."""
    at_rows = fit.map
    known = s > 0
    root = np.sqrt(s[known])[:, None]
    target = np.asarray(y, dtype=np.float64).reshape(len(s), -1)[known]
    rest = root * (target - fit.scores(at_rows)[known]) - fit.alpha * fit.dual[known] / root
    middle = s[known] @ target / s[known].sum()
    size = np.linalg.norm(root * (target - middle)) + 1e-6 * np.linalg.norm(root * target)
    trace = float(s @ at_rows.row_norms(squared=True))
    gap = float(np.linalg.norm(rest))
    return gap / float(size) if size > 0 else gap, 10 * EPS * trace / fit.alpha


def _logistic_gap(fit: LinearFit, codes: AnyArray, s: FloatArray) -> tuple[float, float]:
    """Norm of the gradient relative to its scale; and what rounding allows."""
    at_rows, alpha, n_scores = fit.map, fit.alpha, len(fit.intercept)
    if n_scores > 1 and fit.center is None and len(np.unique(codes[s > 0])) == 2:
        alpha *= 2  # one penalised score was written as two halves
    slope = softmax(with_both_scores(fit.scores(at_rows)), axis=1)
    slope[np.arange(len(codes)), codes] -= 1
    slope = (s / s.sum())[:, None] * slope[:, -n_scores:]
    norms = at_rows.row_norms()
    scale = float(np.sqrt(s @ np.square(norms) / s.sum())) or 1.0
    gap = float(np.linalg.norm(at_rows.rmatmat(slope + alpha * fit.dual))) / scale
    return gap, 10 * EPS * float(np.abs(fit.dual).sum(axis=1) @ norms) * float(norms.max())


def seen_rows(
    question: Question, rows: RoutedRows, *, independent_duplicates: bool = False
) -> str | None:
    """Say why rows that are called unseen look like those of the fit; None where they do not.

    They are compared with the fingerprints of all rows that were given to fit; then by their
    leaves, which also knows rows that were changed a little, and models of older files.

    Parameters
    ----------
    question : Question
        The model.
    rows : RoutedRows
        Rows that the caller says fit has not used.
    independent_duplicates : bool
        Whether rows that equal one of the fit are independent draws, unless they are more than
        the rows of the fit among each other let expect.

    Returns
    -------
    why : str or None
    """
    model = question.model
    if model.row_fingerprints_ is not None and len(rows):
        same = int(among(rows.X, model.row_fingerprints_).sum())
        is_chance = same <= most_by_chance(model.row_fingerprints_, len(rows))
        if same and not (independent_duplicates and is_chance):
            advice = (
                "rows of the fit are among them"
                if independent_duplicates or not is_chance
                else f"few, and by chance if the values are coarse: then say {SAY_SO}, otherwise "
                "leave them out"
            )
            return (
                f"{same} of these {len(rows)} rows equal, in every column, one that was given to "
                f"fit: {advice}"
            )
    own, found = leaf_ids_of(model.map_), rows.all_leaf_ids
    if own.shape[1] == 0:
        return None  # the rows of the fit are elsewhere: nothing to compare with
    keys = [column.tobytes() for column in np.ascontiguousarray(own.T)]
    counts = Counter(keys)
    same = found.shape == own.shape and np.array_equal(found, own)
    if not same and found.shape[1] == n_training_rows(model):
        same = np.array_equal(found[:, model.fit_rows_], own)
    if same:
        # Independent rows would do so with the product of these probabilities.
        surprise = -sum(n * np.log(n / len(keys)) for n in counts.values())
        if surprise > np.log(1e6):
            return (
                "these are the rows that were given to fit: they reach the same leaves, in the "
                "same order. Use sample='fit' or 'train'"
            )
    alone = sum(n for n in counts.values() if n == 1) / len(keys)
    if len(own) >= MANY_TREES and alone >= 0.95 and found.shape[1] >= 10:
        n_rows = found.shape[1]
        n_same = sum(c.tobytes() in counts for c in np.ascontiguousarray(found.T))
        chance = CHANCE_OF_ONE_COLUMN if model.n_features_in_ == 1 else CHANCE
        # P(Binomial(n_rows, chance) >= n_same): that so many independent rows coincide.
        if bdtrc(n_same - 1, n_rows, chance) < 1e-4:
            return (
                f"{n_same / n_rows:.0%} of these rows reach the same leaf as a row of the fit in "
                "every tree, which few rows of the fit do among each other: rows of the fit are "
                "among them"
            )
    return None
