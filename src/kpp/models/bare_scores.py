"""What bare ensembles say of rows that they have not seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kpp._rows import take_rows
from kpp._typing import AnyArray, FloatArray
from kpp.forest.arrays import Forest
from kpp.forest.steps import scores_of_classes
from kpp.models.data import FitData


def bare_at(
    forest: Forest, X: object, classes: AnyArray | None, n_targets: int, n_jobs: int | None
) -> FloatArray | None:
    """Return the scores of a bare ensemble in the order of a model's.

    Parameters
    ----------
    forest : Forest
        The ensemble.
    X : array or data frame of shape (n_rows, n_features)
        Rows.
    classes : array of shape (n_classes,), optional
        The model's.
    n_targets : int
        Targets of the model, where it has no classes.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    scores : array of shape (n_rows, n_scores), or None
        None where the forest has no scores of its own, or none of these classes or targets.
    """
    # A booster may answer with several numbers for one target: quantiles, a mean and a variance.
    if forest.bare is None or (classes is None and len(forest.bare.base) != n_targets):
        return None
    return scores_of_classes(forest.bare_scores(X, n_jobs=n_jobs), forest.bare, classes)


def bare_of_folds(
    forests: Sequence[Forest],
    tests: Sequence[AnyArray],
    data: FitData,
    classes: AnyArray | None,
    n_jobs: int | None,
) -> FloatArray | None:
    """Return the scores of each fold by the bare ensemble that has not seen it.

    Parameters
    ----------
    forests : sequence of Forest
        One for each fold.
    tests : sequence of int arrays
        The rows of the folds; every row is in one.
    data : FitData
        All rows.
    classes : array of shape (n_classes,), optional
        The model's.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    scores : array of shape (n_rows, n_scores), or None
        None where one of the ensembles has none.
    """
    found = []
    for forest, test in zip(forests, tests, strict=True):
        scores = bare_at(forest, take_rows(data.X, test), classes, data.n_targets, n_jobs)
        if scores is None:
            return None
        found.append(scores)
    out = np.empty((len(data), found[0].shape[1]))
    for test, scores in zip(tests, found, strict=True):
        out[test] = scores
    return out
