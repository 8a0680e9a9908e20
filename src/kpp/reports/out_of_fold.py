"""What an out-of-fold prediction of a fitted model comes from, in words."""

from __future__ import annotations

from typing import Any

from kpp.geometry import named_blocks
from kpp.tables.numbers import span


def out_of_fold_note(model: Any) -> str:
    """Say by what the rows of a fit were predicted out of fold, and which way that errs.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted with ``alpha="auto"``.

    Returns
    -------
    note : str
        With the number of trees and of rows behind every prediction.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier
    >>> from kpp.reports.out_of_fold import out_of_fold_note
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KPPClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> "by 4 of the 20 trees, fitted on 120 rows" in out_of_fold_note(model)
    True
    """
    n_trees = sum(block.forest.n_trees for _, block in named_blocks(model.map_))
    n_folds = len(model.folds_)
    sizes = [len(rows) for rows, _ in model.folds_]
    rows = span(min(sizes), max(sizes)) + " rows"
    part = f"{span(n_trees // n_folds, -(-n_trees // n_folds))} of the {n_trees} trees"
    start = f"Out of fold: each of the {len(model.fit_rows_):,} rows of the fit, predicted by"
    chosen = "The choice of alpha makes these figures optimistic"
    if model.regime_ == "cross-fit":
        return (
            f"{start} the predictor of a fold that has not seen it: {part}, with coefficients "
            f"fitted on {rows}. That is one of the {n_folds} predictors, not their average, which "
            f"the model is. {chosen}; that one predictor is scored for all makes them pessimistic, "
            "the more so the fewer trees and rows there are."
        )
    if model.regime_ == "shared" and model.alpha_selection == "frozen":
        return (
            f"{start} coefficients that have not seen it, fitted on {rows}, on trees that have: "
            "these figures are too good. The choice of alpha adds to that."
        )
    if model.regime_ == "shared":
        by = part if model.alpha_selection == "fold-grown" else f"{n_trees} trees of its fold"
        fewer = "trees and rows" if model.alpha_selection == "fold-grown" else "rows"
        return (
            f"{start} trees and coefficients that have not seen it: by {by}, fitted on {rows}. "
            f"{chosen}; that the model itself has more {fewer} makes them pessimistic, the more so "
            "the fewer there are."
        )
    trees = (
        "that were grown on other rows"
        if model.regime_ == "honest"
        else "that have not seen it either, as the caller says"
    )
    return (
        f"{start} coefficients that have not seen it, fitted on {rows}, on {n_trees} trees "
        f"{trees}. {chosen}; that the model itself is fitted on more rows makes them pessimistic, "
        "the more so the fewer there are."
    )
