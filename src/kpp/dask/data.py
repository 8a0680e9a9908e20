"""Rows, target and weights of a fit on a cluster: read where they are, partition by partition."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import norm

from kpp._typing import AnyArray, BoolArray, FloatArray
from kpp.dask.rows import Partitions, Rows, add
from kpp.dask.session import Result, Session
from kpp.dask.tables import common_codes, holds_table, numbers_in, read_frame
from kpp.forest.coded import CodedRows

# A partition is unlike the others where its mean of a column is farther from the mean of all than
# chance would have it once in so many fits, and by more than this share of the column's spread.
SELDOM, LEAST_SKEW = 1e-6, 0.1


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Sums over the rows of a partition, or of several, column by column.

    Parameters
    ----------
    n_rows : int
        Rows.
    count, mean, spread : arrays of shape (n_columns,)
        Values that are not missing, their mean, and the sum of squares around it.
    low, high : arrays of shape (n_columns,)
        Least and largest value.
    missing : bool array of shape (n_columns,)
        Whether a value is missing.
    """

    n_rows: int
    count: FloatArray
    mean: FloatArray
    spread: FloatArray
    low: FloatArray
    high: FloatArray
    missing: BoolArray

    @classmethod
    def of(cls, X: AnyArray) -> ColumnSums:
        """Add up the rows of an array."""
        known = np.isfinite(X)
        values = np.where(known, X, 0.0)
        count = known.sum(axis=0).astype(np.float64)
        mean = values.sum(axis=0) / np.maximum(count, 1)
        around = np.where(known, X - mean, 0.0)
        low = np.where(known, X, np.inf).min(axis=0, initial=np.inf)
        high = np.where(known, X, -np.inf).max(axis=0, initial=-np.inf)
        squares = np.square(around).sum(axis=0)
        missing = np.asarray(np.isnan(X).any(axis=0))
        return cls(len(X), count, mean, squares, low, high, missing)

    def __add__(self, other: ColumnSums) -> ColumnSums:
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        step = other.mean - self.mean
        return ColumnSums(
            self.n_rows + other.n_rows,
            count,
            self.mean + share * step,
            self.spread + other.spread + np.square(step) * self.count * share,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.missing | other.missing,
        )

    @property
    def sd(self) -> FloatArray:
        """Standard deviation of each column."""
        return np.sqrt(self.spread / np.maximum(self.count, 1))


@dataclass(frozen=True, eq=False)
class DaskData:
    """The rows of a fit, on workers.

    Parameters
    ----------
    partitions : Partitions
        How they are cut.
    X : list of Result
        Arrays of shape (n_rows, n_features), one for each partition; or `CodedRows`.
    labels : list of Result
        The target as forests see it.
    target : Rows
        The target as the loss takes it: class numbers, or numbers in columns.
    weight : Rows
        Weights of the rows.
    is_weighted : bool
        Whether weights were given, of rows or of classes.
    names : array of str, optional
        Of the columns.
    sums : list of ColumnSums
        Of each partition.
    classes : array, optional
        Labels, sorted.
    class_counts : int array of shape (n_partitions, n_classes), optional
        Rows of each class in each partition.
    like : CodedRows, optional
        Without rows, with the categories of all partitions, where there are some.
    """

    partitions: Partitions
    X: list[Result]
    labels: list[Result]
    target: Rows
    weight: Rows
    is_weighted: bool
    names: AnyArray | None
    sums: list[ColumnSums]
    classes: AnyArray | None = None
    class_counts: AnyArray | None = None
    like: CodedRows | None = None

    @property
    def session(self) -> Session:
        """The cluster."""
        return self.partitions.session

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return len(self.sums[0].mean) - self.n_targets

    @property
    def n_targets(self) -> int:
        """Numbers to predict, 0 for classes: they stand behind the columns in `sums`."""
        return 0 if self.classes is not None else self.target.shape[1]

    @property
    def total(self) -> ColumnSums:
        """Sums over all partitions."""
        found: ColumnSums = add(*self.sums)
        return found

    @property
    def n_rows(self) -> int:
        """Rows of all partitions."""
        return self.partitions.n_rows

    def skewed(self) -> list[str]:
        """Columns, the target and classes whose mean differs between partitions, by name."""
        names = [
            f"column {j}" if self.names is None else f"column {str(self.names[j])!r}"
            for j in range(self.n_features)
        ]
        names += ["the target"] * self.n_targets
        means = np.array([part.mean for part in self.sums])
        counts = np.array([part.count for part in self.sums])
        total = self.total
        middle, sd = total.mean, total.sd
        if self.classes is not None and self.class_counts is not None:
            rows = self.class_counts.sum(axis=1, keepdims=True)
            shares = self.class_counts / np.maximum(rows, 1)
            whole = self.class_counts.sum(axis=0) / max(1, self.n_rows)
            means, middle = np.hstack([means, shares]), np.concatenate([middle, whole])
            counts = np.hstack([counts, np.repeat(rows, len(self.classes), axis=1)])
            sd = np.concatenate([sd, np.sqrt(whole * (1 - whole))])
            names += [f"class {label!r}" for label in self.classes.tolist()]
        step = np.abs(means - middle) / np.where(sd > 0, sd, np.inf)
        # The mean of n of N draws without putting back has 1/n - 1/N of their variance.
        left = np.maximum(1 - counts / np.maximum(counts.sum(axis=0), 1), 1e-12)
        z = step * np.sqrt(counts / left)
        limit = norm.isf(SELDOM / (2 * z.size))
        unlike = ((z > limit) & (step > LEAST_SKEW)).any(axis=0)
        return [name for name, is_unlike in zip(names, unlike, strict=True) if is_unlike]

    def warn_of_skew(self) -> None:
        """Say which columns differ between partitions, where trees are grown on partitions."""
        found = self.skewed()
        if found:
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            warnings.warn(
                f"Partitions are unlike one another in {', '.join(found[:3])}{more}: a tree that "
                "is grown on some of them sees other rows than the model will. Use shuffle=True, "
                "which draws the rows of every tree from all partitions.",
                UserWarning,
                stacklevel=4,
            )


def read_data(
    session: Session,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    classification: bool,
    class_weight: Any = None,
) -> DaskData:
    """Check rows, target and weights on the workers, and number the classes.

    Parameters
    ----------
    session : Session
        The cluster.
    X : dask array or data frame
        Rows.
    y : dask array, series or data frame
        Target.
    sample_weight : dask array or series, optional
        Weights.
    classification : bool
        Whether y holds labels.
    class_weight : dict or "balanced", optional
        Weights of classes.

    Returns
    -------
    data : DaskData
    """
    names = check_columns(X)
    parts = [blocks_of(X, "X"), blocks_of(y, "y", X)]
    if sample_weight is not None:
        parts.append(blocks_of(sample_weight, "sample_weight", X))
    for what, other in zip(("y", "sample_weight"), parts[1:], strict=False):
        if len(other) != len(parts[0]):
            raise ValueError(
                f"X has {len(parts[0])} partitions and {what} has {len(other)}: they must be cut "
                "alike."
            )
    is_table = holds_table(X)
    read = _read(session, parts, classification, is_table)
    X_parts, like = session.each("X", _first, read), None
    if is_table:
        assert names is not None
        X_parts, like = common_codes(session, X_parts, names)
    labels = session.each("y", _second, read)
    weights = session.each("weight", _third, read)
    known = session.gather(session.each("sums", _sums_of, X_parts, labels, classification))
    known = [(sums, list(classes)) for sums, classes in known]
    lengths = [sums.n_rows for sums, _ in known]
    partitions = Partitions(session, lengths)
    if partitions.n_rows < 2:
        raise ValueError(f"Found {partitions.n_rows} sample(s), and a fit needs at least 2.")
    sums = [sums for sums, _ in known]
    is_weighted, classes, counts = sample_weight is not None, None, None
    if classification:
        found = [dict(own) for _, own in known]
        classes = np.unique(np.concatenate([np.array(list(own)) for own in found if own]))
        if len(classes) < 2:
            raise ValueError(f"A classifier needs at least 2 classes; got {classes.tolist()}.")
        counts = np.array([[own.get(c, 0) for c in classes.tolist()] for own in found])
        codes = session.each("codes", _codes, labels, _Constant(classes))
        target = partitions.rows(codes, np.zeros(0, dtype=np.int64))
        if class_weight is not None:
            factor = _class_factors(class_weight, classes, counts.sum(axis=0))
            weights = session.each("weight", _times_class, weights, codes, _Constant(factor))
            is_weighted = True
    else:
        n_targets = len(sums[0].mean) - len(names_or_columns(X))
        target = partitions.rows(
            session.each("target", _as_target, labels), np.zeros((0, n_targets))
        )
    weight = partitions.rows(weights, np.zeros(0))
    total = weight.sum()
    if not np.isfinite(total) or total <= 0 or weight.min() < 0:
        raise ValueError("sample_weight must be finite, not negative and not all 0.")
    return DaskData(
        partitions, X_parts, labels, target, weight, is_weighted, names, sums, classes, counts, like
    )


def names_or_columns(X: Any) -> Any:
    """The columns of X, by name or by number."""
    return list(X.columns) if hasattr(X, "columns") else range(X.shape[1])


def check_columns(X: Any) -> AnyArray | None:
    """Refuse what is no table on Dask; return the names of its columns."""
    if hasattr(X, "columns"):
        return np.array([str(name) for name in X.columns], dtype=object)
    if not hasattr(X, "chunks") or X.ndim != 2:
        raise TypeError(
            f"X must be a Dask data frame or a two-dimensional Dask array; got {type(X).__name__}. "
            "For data in memory use kpp.KPPRegressor or kpp.KPPClassifier."
        )
    return None


def blocks_of(values: Any, name: str, like: Any = None) -> list[Any]:
    """The partitions of a Dask collection, in order, as delayed objects."""
    if hasattr(values, "chunks"):
        if values.ndim == 2:
            values = values.rechunk({1: -1})
        known = like is not None and hasattr(like, "chunks")
        if known and not np.isnan(like.chunks[0]).any() and values.chunks[0] != like.chunks[0]:
            if sum(values.chunks[0]) != sum(like.chunks[0]):
                raise ValueError(f"X has {like.shape[0]} rows, but {name} has {values.shape[0]}.")
            values = values.rechunk({0: like.chunks[0]})
        return list(values.to_delayed().ravel())
    if hasattr(values, "npartitions"):
        return list(values.to_delayed())
    raise TypeError(f"{name} must be a Dask collection, cut as X is; got {type(values).__name__}.")


def _read(
    session: Session, parts: list[list[Any]], classification: bool, is_table: bool
) -> list[Result]:
    from dask import delayed

    read = delayed(
        partial(read_partition, classification=classification, is_table=is_table), pure=False
    )
    made = [read(*own) for own in zip(*parts, strict=True)]
    with session.watched(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        futures = session.client.compute(made)
    return session.adopt(futures)


def read_partition(
    X: Any, y: Any, weight: Any = None, *, classification: bool, is_table: bool
) -> tuple[Any, AnyArray, FloatArray]:
    """Rows of one partition as arrays, checked; those of a table in codes of its own."""
    rows: Any = read_frame(X) if is_table else _numbers(X)
    n_rows = len(X)
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if len(labels) != n_rows:
        raise ValueError(f"A partition of X has {n_rows} rows, and that of y {len(labels)}.")
    if classification:
        missing = labels.dtype.kind == "f" and np.isnan(labels).any()
        if labels.ndim != 1 or missing:
            raise ValueError("Class labels must be one column without missing values.")
    else:
        labels = labels.astype(np.float64)
        if not np.isfinite(labels).all():
            raise ValueError("y contains NaN or infinity.")
    own = np.ones(n_rows) if weight is None else np.asarray(weight, dtype=np.float64)
    if own.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {own.shape} for {n_rows} rows.")
    return rows, labels, own


def _numbers(X: Any) -> AnyArray:
    rows = np.asarray(X)
    # Single precision stays: it is half of the memory.
    rows = np.ascontiguousarray(rows, dtype=None if rows.dtype == np.float32 else np.float64)
    if np.isinf(rows).any():
        raise ValueError("X contains infinity.")
    return rows


class _Constant:
    """An array that is the same for all partitions, in the arguments of `Session.each`."""

    def __init__(self, value: AnyArray) -> None:
        self.value = value


def _first(read: Any) -> Any:
    return read[0]


def _second(read: Any) -> Any:
    return read[1]


def _third(read: Any) -> Any:
    return read[2]


def _sums_of(
    X: Any, labels: AnyArray, classification: bool
) -> tuple[ColumnSums, list[tuple[Any, int]]]:
    rows = numbers_in(X)
    if not classification:
        return ColumnSums.of(np.hstack([rows, _as_target(labels)])), []
    classes, counts = np.unique(labels, return_counts=True)
    return ColumnSums.of(rows), list(zip(classes.tolist(), counts.tolist(), strict=True))


def _codes(labels: AnyArray, classes: _Constant) -> AnyArray:
    return np.searchsorted(classes.value, labels)


def _as_target(labels: AnyArray) -> FloatArray:
    return labels if labels.ndim == 2 else labels[:, None]


def _class_factors(class_weight: Any, classes: AnyArray, counts: AnyArray) -> FloatArray:
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f"class_weight must be 'balanced' or a dict; got {class_weight!r}.")
        return counts.sum() / (len(classes) * np.maximum(counts, 1))
    return np.array([float(class_weight.get(c, 1.0)) for c in classes.tolist()])


def _times_class(weight: FloatArray, codes: AnyArray, factor: _Constant) -> FloatArray:
    return weight * factor.value[codes]
