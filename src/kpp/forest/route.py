"""Rows to leaf ids: validation at the door, then compiled routing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array

from kpp._parallel import blocks_of, run_blocks
from kpp._rows import columns_of
from kpp._typing import AnyArray, FloatArray, IntArray
from kpp.forest._loops import route_any, route_few, route_numerical, route_oblique
from kpp.forest.coded import CodedRows, codes_of_column, declares_categories, numbers_of
from kpp.forest.others import AnyOther, other_of

if TYPE_CHECKING:
    from kpp.forest.arrays import Forest

# Rows are routed in runs that, with their columns, stay in the second-level cache while all
# trees pass over them; trees in a few runs, so that few rows still occupy every thread, but in
# none so short that a call costs more than its walks.
BYTES_PER_ROW_BLOCK = 1 << 19
N_TREE_BLOCKS = 4
WALKS_PER_BLOCK = 4096
# So few rows walk down all trees together, instead of down one tree after the other.
FEW_ROWS = 32
# Sources that read the declared categories of a data frame by their codes, in every column.
BY_CODES_ALWAYS = ("LGBM", "Booster")


def route(forest: Forest, X: Any, *, n_jobs: int | None = None) -> IntArray:
    """Find the leaf of each row in each tree.

    Parameters
    ----------
    forest : Forest
        The trees.
    X : array-like or data frame of shape (n_rows, n_features)
        Rows, checked by `prepare_rows`.
    n_jobs : int, optional
        Number of threads; the result does not depend on it.

    Returns
    -------
    leaf_ids : int32 array of shape (n_trees, n_rows), read-only
        Node ids, tree by tree: the layout that products with the map run along.
    """
    rows = prepare_rows(forest, X)
    n_rows = len(rows)
    leaf_ids = np.empty((forest.n_trees, n_rows), dtype=np.int32)
    walk: Callable[..., None] = route_numerical
    # The minimum is NaN as soon as one entry is, and needs no array of its own.
    if len(forest.category_offsets) or (forest.allows_nan and rows.size and np.isnan(rows.min())):
        walk = route_any
    splits: Any = forest.splits
    terms: tuple[AnyArray, ...] = ()
    if len(forest.term_offsets):
        walk = route_oblique
        terms = forest.term_offsets, forest.term_columns, forest.term_weights
    if walk is route_numerical and n_rows <= FEW_ROWS:
        route_few(rows, splits, leaf_ids)
    else:
        # At least 256 rows: as many as walk down a tree together in the compiled loop.
        rows_per_block = max(256, BYTES_PER_ROW_BLOCK // max(1, rows[:1].nbytes))
        row_blocks = blocks_of(n_rows, -(-n_rows // rows_per_block))
        n_tree_blocks = min(N_TREE_BLOCKS, leaf_ids.size // WALKS_PER_BLOCK)
        tree_blocks = blocks_of(forest.n_trees, n_tree_blocks)
        tasks = [(*r, *t) for r in row_blocks for t in tree_blocks]
        run_blocks(lambda b: walk(rows, splits, *terms, *tasks[b], leaf_ids), len(tasks), n_jobs)
    leaf_ids.flags.writeable = False
    return leaf_ids


def prepare_rows(forest: Forest, X: Any) -> AnyArray:
    """Check X and bring it into the forest's columns, category codes and comparison dtype.

    Parameters
    ----------
    forest : Forest
        Tells the number and names of columns, the categories, and what values are allowed.
    X : array-like or data frame of shape (n_rows, n_features)
        Anything numerical; strings only in the columns that the forest knows as categorical.

    Returns
    -------
    rows : array of shape (n_rows, n_features), C-contiguous, of ``forest.dtype``
        NaN where a value is missing, or counts as missing.
    """
    rows = _checked_rows(forest, X)
    if not forest.missing_values:
        return rows
    rows = np.array(rows)  # may be the caller's own
    for j, (low, high) in forest.missing_values.items():
        if other_of(forest.categories.get(j)) is AnyOther.CODE:
            continue  # these were codes of the library, and are places among the categories now
        counts = (rows[:, j] >= low) & (rows[:, j] <= high)
        rows[counts, j] = np.nan
    return rows


def _checked_rows(forest: Forest, X: Any) -> AnyArray:
    """Check X, encode its categories, and cast it."""
    if sparse.issparse(X):
        raise TypeError(
            "Sparse X is not supported: rows are routed through dense columns. Pass X.toarray(), "
            "in blocks of rows if it is large."
        )
    _check_names(forest, X)
    if isinstance(X, CodedRows):
        X = _allowed(forest, X.of_forest(forest))
    elif forest.categories:
        X = _allowed(forest, _encode(forest, X))
    allowed = "allow-nan" if forest.allows_nan or forest.categories else True
    # A value too large for single precision becomes infinite, and is reported as such.
    with np.errstate(over="ignore"):
        if type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind == "f":
            # What most calls bring is soon checked; anything else, and errors, by scikit-learn.
            rows = np.ascontiguousarray(X, dtype=forest.dtype)
            if np.isfinite(rows).all() and rows.shape[1] == forest.n_features:
                return rows
        rows = check_array(
            X,
            dtype=forest.dtype,
            order="C",
            ensure_all_finite=False if forest.allows_infinity else allowed,
            ensure_min_samples=0,
            ensure_min_features=0,
            input_name="X",
        )
    if rows.shape[1] != forest.n_features:
        raise ValueError(
            f"X has {rows.shape[1]} features, but the forest is expecting {forest.n_features} "
            "features as input."
        )
    return rows


def _check_names(forest: Forest, X: Any) -> None:
    """Columns of a data frame must be the forest's, in its order."""
    columns = X.names if isinstance(X, CodedRows) else getattr(X, "columns", None)
    if forest.feature_names is None or columns is None:
        return
    names = tuple(str(column) for column in columns)
    # LightGBM keeps an underscore for every space in a name.
    spaced = tuple(name.replace(" ", "_") for name in names)
    if forest.feature_names not in (names, spaced):
        missing = [name for name in forest.feature_names if name not in names]
        unknown = [name for name in names if name not in forest.feature_names]
        raise ValueError(
            "The columns of X must be those that the forest was grown on, in the same order; "
            f"missing: {missing[:5]}, unknown: {unknown[:5]}"
            + ("." if missing or unknown else ", but the order differs.")
        )


def _encode(forest: Forest, X: Any) -> FloatArray:
    """Replace categories by their codes; missing ones, and mostly unknown ones, by NaN."""
    if not hasattr(X, "shape"):
        X = np.asarray(X, dtype=object)
    if len(X.shape) != 2 or X.shape[1] != forest.n_features:
        raise ValueError(
            f"X must have {forest.n_features} columns, the forest's; got shape {tuple(X.shape)}."
        )
    columns = columns_of(X)
    # In float64, which holds every code; the caller casts to what the forest compares in.
    encoded = np.empty((X.shape[0], forest.n_features))
    for j, column in enumerate(columns):
        name = f"column {j if not hasattr(X, 'columns') else repr(str(X.columns[j]))}"
        if j in forest.categories:
            if forest.source.startswith(BY_CODES_ALWAYS):
                _refuse_codes(forest.categories[j], column, name)
            encoded[:, j] = codes_of_column(forest, j, column, name)
        elif declares_categories(column) and forest.source.startswith(BY_CODES_ALWAYS):
            # LightGBM does not keep which columns its lists of categories belong to: where it was
            # told to take others for categorical, they were given to those.
            raise ValueError(
                f"The forest ({forest.source}) reads {name} as numbers, and it holds categories: "
                "give the column as the model was fitted on it. If that was categories, fit the "
                "model with categorical_feature='auto', or on numbers."
            )
        else:
            encoded[:, j] = numbers_of(column, name)
    return encoded


def _refuse_codes(known: AnyArray, column: Any, name: str) -> None:
    """Refuse numbers where texts are known: the library would take them for codes of these."""
    if declares_categories(column) or not any(isinstance(value, str) for value in known.tolist()):
        return
    values = np.asarray(column)
    if values.dtype.kind in "biuf" and not np.isnan(values).all():
        raise ValueError(
            f"The {name} holds numbers, and the forest knows its categories as {known[0]!r}: give "
            "the column as the forest was grown on it."
        )


def _allowed(forest: Forest, rows: FloatArray) -> FloatArray:
    """Refuse missing numbers where the forest takes none; a category may always be missing."""
    if not forest.allows_nan and rows.shape[1] == forest.n_features:
        numerical = [j for j in range(forest.n_features) if j not in forest.categories]
        if np.isnan(rows[:, numerical]).any():
            check_array(rows[:, numerical], ensure_min_features=0, input_name="X")
    return rows
