"""What an out-of-fold prediction of a fitted model comes from, in words."""

from __future__ import annotations

from kpp.models.linear import KPPLinearModel
from kpp.models.nested import NESTED
from kpp.models.penalties import alpha_was_given
from kpp.models.regimes import regime_of
from kpp.tables.numbers import span


def out_of_fold_note(model: KPPLinearModel) -> str:
    """Say by what the rows of a fit were predicted out of fold, and which way that errs.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted with out-of-fold predictions: with ``alpha="auto"``, or where a blend or parts that
        leave a fold out need them.

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
    >>> model = KPPClassifier("extra-trees", n_estimators=20, random_state=0).fit(X, y)
    >>> "by 4 of the 20 trees, fitted on 120 rows" in out_of_fold_note(model)
    True
    """
    regime, selection = regime_of(model), model.alpha_selection_
    n_trees = model.additive_.n_trees
    sizes = [len(rows) for rows, _ in model.folds_ or ()]
    n_folds = len(sizes)
    rows = span(min(sizes), max(sizes)) + " rows"
    part = f"{span(n_trees // n_folds, -(-n_trees // n_folds))} of the {n_trees} trees"
    start = f"Out of fold: each of the {len(model.fit_rows_):,} rows of the fit, predicted by"
    # Where each part chooses without its fold, nothing flatters it there.
    flattered = selection != NESTED and not alpha_was_given(model)
    if regime.leaves_folds_out:
        whose = "weights of its own" if selection == NESTED else "the weights of the model"
        made = "" if model.blend_weights_ is None else f", blended by {whose}"
        return (
            f"{start} the predictor of a fold that has not seen it: {part}, with coefficients "
            f"fitted on {rows}{made}. That is one of the {n_folds} predictors, not their average, "
            f"which the model is. {_errs(flattered, 'one predictor is scored for all', 'trees')}"
        )
    if model.blend_weights_ is not None:
        why = "the model itself has more trees and rows"
        return (
            f"{start} a blend of candidates that have not seen it, with weights learned on the "
            f"other folds: trees of its group and coefficients fitted on {rows}. "
            f"{_errs(flattered, why, '')}"
        )
    if regime.averages_folds:
        why = "one predictor is scored for all"
        return (
            f"{start} the predictor of a fold that has not seen it: {part}, with coefficients "
            f"fitted on {rows}. That is one of the {n_folds} predictors, not their average, which "
            f"the model is. {_errs(flattered, why, 'trees and rows')}"
        )
    if regime.grows_on_fit_rows and selection == "frozen":
        return (
            f"{start} coefficients that have not seen it, fitted on {rows}, on trees that have: "
            "these figures are too good. The choice of alpha adds to that."
        )
    if regime.grows_on_fit_rows:
        by = part if selection == "fold-grown" else f"{n_trees} trees of its fold"
        fewer = "trees and rows" if selection == "fold-grown" else "rows"
        why = f"the model itself has more {fewer}"
        return (
            f"{start} trees and coefficients that have not seen it: by {by}, fitted on {rows}. "
            f"{_errs(flattered, why, '')}"
        )
    trees = (
        "that have not seen it either, as the caller says"
        if regime.takes_grown_forest
        else "that were grown on other rows"
    )
    return (
        f"{start} coefficients that have not seen it, fitted on {rows}, on {n_trees} trees "
        f"{trees}. {_errs(flattered, 'the model itself is fitted on more rows', '')}"
    )


def _errs(is_flattered: bool, why: str, fewer: str) -> str:
    """Say which way figures err: a choice by them flatters, a smaller predictor does not."""
    much = f"pessimistic, the more so the fewer{f' {fewer}' if fewer else ''} there are."
    if is_flattered:
        return f"The choice of alpha makes these figures optimistic; that {why} makes them {much}"
    return f"That {why} makes these figures {much}"
