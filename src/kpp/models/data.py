"""What is given to fit: checked rows, labels, targets, weights and groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from kpp._rows import take_rows
from kpp._typing import AnyArray, FloatArray
from kpp.forest.coded import CodedRows, needs_reading
from kpp.forest.grow import is_grown, traits_of


@dataclass(frozen=True, eq=False)
class FitData:
    """The rows of a fit.

    Parameters
    ----------
    X : array, data frame or CodedRows of shape (n_rows, n_features)
        Rows, as forests are grown on them.
    labels : array of shape (n_rows,) or (n_rows, n_targets)
        Target as the forests see it.
    target : array of shape (n_rows,) or (n_rows, n_targets)
        Target as the loss takes it: class numbers, or numbers.
    weight : array of shape (n_rows,)
        Weights, those of the classes included.
    groups : array of shape (n_rows,), optional
        Groups of rows that belong together, and stay so in splits and folds.
    is_weighted : bool
        Whether some weight differs from 1. Forests are told of weights only then: not all of
        them take any.
    """

    X: Any
    labels: AnyArray
    target: AnyArray
    weight: FloatArray
    groups: AnyArray | None = None
    is_weighted: bool = True

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return 1 if self.target.ndim == 1 else self.target.shape[1]

    @property
    def given_weight(self) -> FloatArray | None:
        """The weights, None where there are none to speak of."""
        return self.weight if self.is_weighted else None

    def take(self, rows: AnyArray) -> FitData:
        """Return some of the rows; all of them, in order, are these data themselves."""
        if len(rows) == len(self) and np.array_equal(rows, np.arange(len(self))):
            return self
        return replace(
            self,
            X=take_rows(self.X, rows),
            labels=self.labels[rows],
            target=self.target[rows],
            weight=self.weight[rows],
            groups=None if self.groups is None else self.groups[rows],
        )

    def alone(self, rows: AnyArray) -> FitData:
        """Return some of the rows as if there were no others, for a fit of their own."""
        own = self.take(rows)
        return replace(own, is_weighted=bool(own.is_weighted and (own.weight != 1).any()))


def check_rows(estimator: Any, specs: list[tuple[str, Any]], X: Any) -> tuple[Any, Any]:
    """Check X for a fit, and remember its columns on the estimator.

    Parameters
    ----------
    estimator : estimator
        Gets ``n_features_in_`` and ``feature_names_in_``.
    specs : list of (str, forest)
        Its forests.
    X : array-like or data frame
        As the caller gave it.

    Returns
    -------
    X : array or data frame
        The rows as they are told apart, and asked about.
    rows : array, data frame or CodedRows
        The rows as forests are grown on them: those of a table with categories are read once.
    """
    prepares = all(traits_of(spec).takes_frames for _, spec in specs)
    rows = CodedRows.read(X, allows_infinity=prepares) if needs_reading(X) else None
    if rows is not None and rows.categories:
        validate_data(estimator, X, skip_check_array=True)
    else:
        rows = X = _check_columns(estimator, X, prepares=prepares)
    if len(X) < 2 and not all(is_grown(spec) for _, spec in specs):
        raise ValueError(f"Found {len(X)} sample(s), and a forest needs at least 2 to grow.")
    return X, rows


def _check_columns(estimator: Any, X: Any, *, prepares: bool) -> Any:
    """Check rows without categories."""
    if not prepares:
        return _check_numbers(estimator, X)
    # Such forests prepare their columns themselves: infinities, categories that are numbers.
    if hasattr(X, "columns"):
        validate_data(estimator, X, skip_check_array=True)
        return X
    return validate_data(estimator, X, dtype=None, ensure_all_finite=False)


def check_new_rows(estimator: Any, X: Any) -> Any:
    """Check shape and names; values are checked by the forests, which know what they accept."""
    if type(X) is np.ndarray and X.dtype.kind == "f" and X.ndim == 2 and len(X):
        # What most calls bring needs no more: for a single row scikit-learn's general check takes
        # longer than the prediction.
        named = hasattr(estimator, "feature_names_in_")
        if not named and X.shape[1] == estimator.n_features_in_:
            return X
    if hasattr(X, "columns"):
        validate_data(estimator, X, reset=False, skip_check_array=True)
        return X
    return validate_data(estimator, X, reset=False, dtype=None, ensure_all_finite=False)


def _check_numbers(estimator: Any, X: Any) -> AnyArray:
    try:
        return validate_data(
            estimator, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan"
        )
    except ValueError as error:
        # Told by what X holds, for the words of the error are another library's.
        if not any(isinstance(cell, str | bytes) for cell in np.asarray(X, dtype=object).ravel()):
            raise
        raise ValueError(
            f"{error}. An array of texts does not tell categories from numbers: give a data frame, "
            "or an array of objects."
        ) from error


def check_groups(groups: Any, n_rows: int) -> AnyArray | None:
    """The groups as an array, one for each row; None where there are none."""
    if groups is None:
        return None
    values = np.asarray(groups)
    if values.shape != (n_rows,):
        raise ValueError(
            f"groups must name the group of each of the {n_rows} rows of X; got shape "
            f"{values.shape}."
        )
    return values


def group_codes(groups: AnyArray) -> AnyArray:
    """Numbers 0, 1, ... for the groups of rows, shape (n_rows,).

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.models.data import group_codes
    >>> group_codes(np.array(["b", "a", "b"])).tolist()
    [1, 0, 1]
    """
    try:
        return np.unique(groups, return_inverse=True)[1].ravel()
    except TypeError:  # names of several types have no order
        known: dict[Any, int] = {}
        return np.array([known.setdefault(name, len(known)) for name in groups.tolist()])


def check_target(y: Any, n_rows: int, *, one_column: bool = True) -> AnyArray:
    """The target as an array, its numbers as numbers: also where a data frame holds objects."""
    values = np.asarray(y)
    if values.dtype == object:
        numbers = np.array(values.tolist())
        if numbers.dtype.kind in "biuf":
            values = numbers
    values = check_array(values, ensure_2d=False, dtype=None, input_name="y")
    if len(values) != n_rows:
        raise ValueError(f"X has {n_rows} rows, but y has {len(values)}.")
    if one_column and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    return values
