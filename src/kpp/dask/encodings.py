"""Categories as numbers for boosters that see all partitions: from sums over the rows of each."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import get_tags

from kpp._typing import AnyArray, FloatArray
from kpp.dask.data import DaskData
from kpp.dask.rows import Rows, add
from kpp.forest.boosters import LIBRARIES
from kpp.forest.coded import CodedRows
from kpp.forest.encoding import MOST_CATEGORIES, Encoding, category_rank

# Of each column, by fold, category and what is added up; and the rows of each fold.
Sums = tuple[dict[int, FloatArray], AnyArray]


def encodings_without_folds(
    data: DaskData, fold: Rows | None, n_folds: int, spec: Any, library: str
) -> list[Encoding] | None:
    """For each fold the numbers of the categories that its booster is grown on.

    The order of the categories comes from means of the target, as in `kpp.forest.encoding`. These
    are sums over rows: every partition adds up its own, fold by fold, and the sums of a fold's
    booster are those of all other folds.

    Parameters
    ----------
    data : DaskData
        Rows.
    fold : Rows, optional
        The fold of each row.
    n_folds : int
        Number of folds, 1 without.
    spec : estimator
        The booster, unfitted.
    library : str
        Whose it is.

    Returns
    -------
    encodings : list of Encoding, or None
        None for rows without categories.
    """
    if data.like is None:
        return None
    LIBRARIES[library].check_categories(spec, is_coded=True)
    n_classes = 0 if data.classes is None else len(data.classes)
    center = np.zeros(0) if n_classes else data.total.mean[data.n_features :]
    rows = data.partitions.rows(data.X, np.zeros((0, data.n_features)))
    arrays = (rows, data.target, data.weight, 0 if fold is None else fold)
    sums, n_rows = data.partitions.reduce(
        _category_sums, _added, *arrays, n_folds, n_classes, center, what="categories"
    )
    allows_nan = bool(get_tags(spec).input_tags.allow_nan)
    found = []
    for q in range(n_folds):
        own = [p for p in range(n_folds) if p != q or fold is None]
        tables = {j: table[own].sum(axis=0) for j, table in sums.items()}
        found.append(_encoding(tables, int(n_rows[own].sum()), data.like, allows_nan=allows_nan))
    return found


def _encoding(
    tables: dict[int, FloatArray], n_rows: int, like: CodedRows, *, allows_nan: bool
) -> Encoding:
    """As `Encoding.of` has it of the rows themselves, from their sums."""
    categories, numbers = {}, {}
    for j, table in tables.items():
        weight = table[:, 0]
        # Weights of mean 1: shrunk means count rows.
        scale = n_rows / weight.sum() if weight.sum() > 0 else 1.0
        known = np.flatnonzero(weight[:-1] > 0)
        misses = bool(weight[-1] > 0)
        if len(known) > MOST_CATEGORIES:
            most = np.argsort(-weight[known], kind="stable")[:MOST_CATEGORIES]
            known, misses = known[np.sort(most)], True
        categories[j] = like.categories[j][known]
        rank = np.arange(len(known))
        if j not in like.ordered:
            # One row for each category, with its mean and the weight of its rows.
            means = table[known, 1:] / weight[known, None]
            rank = category_rank(rank, len(known), means, scale * weight[known])
        may_miss = len(known) > 0 and (allows_nan or not misses)
        numbers[j] = np.append(rank.astype(float), np.nan if may_miss else float(len(known)))
    return Encoding(categories, numbers)


# On a worker.


def _category_sums(
    X: CodedRows,
    target: AnyArray,
    weight: FloatArray,
    fold: AnyArray | int,
    n_folds: int,
    n_classes: int,
    center: FloatArray,
) -> Sums:
    """For each column, fold and category the weight of its rows, and weighted sums of the target.

    The last category is that of missing values.
    """
    columns = [weight]
    if n_classes:
        columns += [weight * (target == c) for c in range(n_classes)]
    else:
        columns += list((weight[:, None] * (target - center)).T)
    fold = np.broadcast_to(fold, len(weight))
    found: dict[int, FloatArray] = {}
    for j, names in X.categories.items():
        n_codes = len(names) + 1
        code = np.where(np.isnan(X.values[:, j]), len(names), X.values[:, j]).astype(np.int64)
        place = fold * n_codes + code
        sums = [np.bincount(place, column, minlength=n_folds * n_codes) for column in columns]
        table = np.stack(sums, axis=1).astype(np.float64)
        found[j] = table.reshape(n_folds, n_codes, len(columns))
    return found, np.bincount(fold[weight > 0], minlength=n_folds)


def _added(
    *parts: tuple[dict[int, FloatArray], AnyArray],
) -> tuple[dict[int, FloatArray], AnyArray]:
    tables = {j: add(*(part[0][j] for part in parts)) for j in parts[0][0]}
    return tables, add(*(part[1] for part in parts))
