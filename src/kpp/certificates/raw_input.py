"""`certify_raw`: how far the raw values of a row may move before the answer changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._rows import columns_of, take_rows
from kpp._shown import Shown
from kpp._typing import AnyArray, BoolArray, FloatArray, OffsetArray
from kpp.certificates.box_terms import BoxTerms
from kpp.certificates.boxes import BoxFlip, Splits, least_values
from kpp.certificates.flips import check_epsilon, flips_of
from kpp.certificates.node_tables import NodeTables
from kpp.certificates.raw_search import Search
from kpp.forest.columns import categorical_columns
from kpp.forest.join import as_float64, check_one_reading
from kpp.forest.others import AnyOther
from kpp.forest.route import prepare_rows
from kpp.models.asking import Question, ask
from kpp.models.linear import KPPLinearModel
from kpp.scores import RoutedRows


@dataclass(frozen=True, eq=False)
class RawCertificate(Shown):
    r"""Certified radii of rows in raw units. Made by `certify_raw`.

    Where the radius is above 0, every x' with :math:`|x'_j - x_j| \le` ``radius * scale[j]`` for
    all columns j gets the same answer as x. A radius of 0 certifies nothing beyond x itself, also
    in columns with an infinite scale: see `certified`. Not to be confused with the radii of
    `certify`, which are distances in the forest's own metric. Columns are those that the model
    sees, `feature_names`: behind a preparation the prepared ones, in whose units radii, boxes and
    counterexamples then are.

    An infinite value is infinitely far from every other: a finite radius leaves it as it is. In a
    column with an infinite scale every value, the infinite ones included, is at distance 0, so
    that any radius above 0 frees it; a counterexample there is at the smallest distance above 0.

    Parameters
    ----------
    radius : array of shape (n_rows,)
        Certified. 0 where nothing beyond x could be, infinite where no change of the columns that
        may move changes the answer; the largest float where only giving up an infinite value
        might.
    upper_radius : array of shape (n_rows,)
        Distance of the counterexample; infinite where none was found.
    counterexample : array of shape (n_rows, n_features)
        A row with another answer at a finite distance, checked by predicting it; NaN where none
        was found. It keeps its categories, also those that are free.
    found : bool array of shape (n_rows,)
        Where there is a counterexample.
    lower, upper : arrays of shape (n_rows, n_features)
        A box around x, at least as large as the radius says, that is certified as a whole.
        Infinite sides: the column does not matter that way. NaN where a value is missing. A
        categorical column has the code of its category on both sides; where it is free and the
        radius is not 0, it may be anything: -inf and inf.
    scale : array of shape (n_features,)
        Unit of each column; 0 for columns that stay.
    finished : bool array of shape (n_rows,)
        Whether the row was worked on to the end; otherwise time was up, and the radius is sound
        but may be smaller than it would have been.
    epsilon : array of shape (n_targets,), or None
        The tolerance of a regressor.
    feature_names : tuple of str
        Names of the n_features columns.

    Attributes
    ----------
    certified : bool array of shape (n_rows,)
        Where anything beyond x itself is certified: a radius above 0.
    """

    radius: FloatArray
    upper_radius: FloatArray
    counterexample: AnyArray
    found: BoolArray
    lower: FloatArray
    upper: FloatArray
    scale: FloatArray
    finished: BoolArray
    epsilon: FloatArray | None
    feature_names: tuple[str, ...]

    @property
    def certified(self) -> BoolArray:
        """Whether anything beyond the row itself is certified, shape (n_rows,)."""
        return self.radius > 0

    def __repr__(self) -> str:
        return (
            f"RawCertificate(n_rows={len(self.radius)}, certified={int(self.certified.sum())}, "
            f"median_radius={np.median(self.radius):.4g}, "
            f"median_upper_radius={np.median(self.upper_radius):.4g}, "
            f"finished={int(self.finished.sum())})"
        )


def certify_raw(
    model: Any,
    X: Any,
    *,
    scale: Any = None,
    time_budget: float | None = None,
    epsilon: Any = None,
    free_categories: Sequence[int] = (),
    effort: int = 100_000,
    progress: Callable[[int, int], None] | None = None,
) -> RawCertificate:
    r"""Certify how far the raw values of each row may move before the answer changes.

    A box around x reaches some leaves of each tree. If the margin stays positive with the worst
    of them in every tree, and every linear term where it is least, no point of the box changes the
    answer; without linear terms the largest such box ends just before a threshold. Then trees are
    treated jointly, all of them or in small groups, as far as `effort` goes: that enlarges the
    radius, or finds a row with another answer.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline
        Fitted. The columns of a Pipeline are those that its last step sees, the prepared ones:
        of these are `scale`, `free_categories`, radii and counterexamples.
    X : array-like, data frame or RoutedRows of shape (n_rows, n_features), or one row
        Rows as the Pipeline takes them; one row may come as a 1-d array, a Series or a mapping.
    scale : array-like of shape (n_features,), "std" or None, default=None
        Unit of each column: the radius is :math:`\max_j |x'_j - x_j| / \mathrm{scale}_j`. 0 for
        a column that stays, infinity for one that may be anything at any radius above 0: where it
        alone can change the answer, the radius is 0 and nothing is certified. None
        counts raw units. "std" is the spread of the training rows, ``model.feature_spread_``.
        Where a value is infinite itself, see `RawCertificate`.
    time_budget : float, optional
        Seconds for all rows. First every row gets its tree-by-tree radius, then they are
        tightened in turn; what is not finished by then is sound all the same.
    epsilon : float, or array-like of shape (n_targets,), optional
        For a regressor, and required there: a change by less than this counts as no change.
    free_categories : sequence of int, default=()
        Categorical columns that may take any category, or be missing. The others stay; missing
        values of other columns stay missing.
    effort : int, default=100_000
        About how many nodes a single search for a row may visit; 0 for the tree-by-tree radius
        alone.
    progress : callable, optional
        Called with the number of rows done and the number of rows.

    Returns
    -------
    certificate : RawCertificate

    Notes
    -----
    Sound in floating point: thresholds are those at which the model's own comparison turns
    (also where it rounds to float32), the sides of a box are rounded outward, and the rounding
    of the model's sums is taken off the margin.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kpp import KPPClassifier
    >>> from kpp.certificates import certify_raw
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = KPPClassifier("extra-trees", n_estimators=20, alpha=1e-3, random_state=0).fit(X, y)
    >>> certificate = certify_raw(model, X[:10], scale=X.std(axis=0))
    >>> bool((certificate.radius <= certificate.upper_radius).all())
    True
    >>> bool((model.predict(certificate.counterexample) != model.predict(X[:10])).all())
    True
    """
    question = ask(model)
    additive = question.additive
    tolerance = check_epsilon(additive, epsilon)
    is_number = isinstance(time_budget, int | float | np.number)
    if time_budget is not None and not (is_number and time_budget >= 0):
        raise ValueError(f"time_budget is a number of seconds, not negative; got {time_budget!r}.")
    if not isinstance(effort, int | np.integer) or isinstance(effort, bool) or effort < 0:
        raise ValueError(f"effort must be a number of nodes, not negative; got {effort!r}.")
    deadline = np.inf if time_budget is None else time.monotonic() + time_budget
    rows = question.rows(X)
    check_one_reading([block.forest for block in additive.blocks])
    tables = NodeTables.of(additive, n_jobs=rows.n_jobs)
    forest = as_float64(additive.forest)
    unit = _check_scale(question.model, scale, forest.n_features)
    categorical = np.flatnonzero(categorical_columns(forest)).tolist()
    is_free = np.zeros(forest.n_features, dtype=bool)
    for column in free_categories:
        if column not in categorical:
            raise ValueError(
                f"free_categories names categorical columns, {categorical}; got {column!r}."
            )
        is_free[int(column)] = True
    unit[categorical] = 0.0
    terms = BoxTerms([block.terms for block in additive.linear], forest.n_features)
    splits = Splits(forest, is_free, terms)
    search = Search(splits, prepare_rows(forest, rows.X), unit, deadline, int(effort))
    for flip in flips_of(tables, rows.scores, tolerance):
        if not tables.is_constant(flip.contrast):
            below = least_values(forest, flip.value)
            largest = tables.largest_terms(flip.terms)
            search.add(flip.rows, BoxFlip(splits, flip, below, largest))
    search.run(tables.n_jobs, progress)
    return _certificate(search, question, rows, tolerance)


def _certificate(
    search: Search, question: Question, rows: RoutedRows, tolerance: FloatArray | None
) -> RawCertificate:
    """Check what was found by predicting it, and write everything down."""
    found = np.isfinite(search.upper)
    lower, upper = search.rows.copy(), search.rows.copy()
    for row, x in enumerate(search.rows):
        lower[row], upper[row] = search.splits.widened(x, search.scale, search.radius[row])
    counterexample = search.point
    if found.any():
        which = np.flatnonzero(found)
        numerical = np.flatnonzero(~search.splits.is_categorical)
        points = rows_like(rows.X, search.point, which, numerical)
        changed = answers_differ(question.model, rows.take(which), points, tolerance)
        lost = which[~changed]
        found[lost], search.upper[lost], search.point[lost] = False, np.inf, np.nan
    if search.splits.forest.categories:
        counterexample = _decoded(search.splits.forest.categories, search.point, found, rows.X)
    return RawCertificate(
        radius=search.radius,
        upper_radius=search.upper,
        counterexample=counterexample,
        found=found,
        lower=lower,
        upper=upper,
        scale=search.scale,
        finished=search.finished,
        epsilon=tolerance,
        feature_names=question.names,
    )


def _check_scale(model: KPPLinearModel, scale: Any, n_features: int) -> FloatArray:
    if scale is None:
        return np.ones(n_features)
    if isinstance(scale, str):
        if scale != "std":
            raise ValueError(f"scale must be None, 'std' or one number per column; got {scale!r}.")
        scale = model.feature_spread_
    try:
        unit = np.array(scale, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"scale must be None, 'std' or one number per column; got {scale!r}."
        ) from error
    if unit.shape != (n_features,):
        raise ValueError(
            f"scale must have one entry per column, shape ({n_features},); got {unit.shape}."
        )
    if not (unit >= 0).all():
        raise ValueError("scale must not be negative or missing.")
    return unit


def answers_differ(
    model: KPPLinearModel, rows: RoutedRows, points: Any, tolerance: FloatArray | None
) -> BoolArray:
    """Whether the model itself answers differently at the points found."""
    old, new = model.predict(rows), model.predict(points)
    if tolerance is None:
        return np.asarray(old != new)
    change = np.abs(np.asarray(new) - np.asarray(old)).reshape(len(rows), -1)
    return (change >= tolerance).any(axis=1)


def rows_like(X: Any, point: FloatArray, rows: OffsetArray, numerical: OffsetArray) -> Any:
    """The points as rows of the kind that X holds.

    Categories stay as they were given: a point has their codes, which are not their values, also
    where these are numbers.
    """
    given = take_rows(X, rows)
    if not hasattr(given, "columns"):
        given = np.array(given, dtype=np.float64 if given.dtype.kind in "fiub" else object)
        given[:, numerical] = point[np.ix_(rows, numerical)]
        return given
    names = list(given.columns)
    columns = {names[j]: point[rows, j] for j in numerical}
    if hasattr(given, "with_columns"):
        return given.with_columns(**columns)
    frame = given.copy()
    for name, values in columns.items():
        frame[name] = values
    return frame


def _decoded(
    categories: dict[int, AnyArray], point: FloatArray, found: BoolArray, X: Any
) -> AnyArray:
    """Counterexamples with categories instead of their codes, as objects."""
    decoded = point.astype(object)
    for j, known in categories.items():
        given = np.asarray(columns_of(X)[j])
        for i in np.flatnonzero(found & ~np.isnan(point[:, j])):
            value = known[int(point[i, j])]
            # Of all the categories that are not listed a row keeps the one that it has.
            decoded[i, j] = given[i] if isinstance(value, AnyOther) else value
    return decoded
