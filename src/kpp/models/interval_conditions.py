"""What intervals and sets (CV+) rest on: which conditions of the theorem hold, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kpp._assumptions import Assumption
from kpp._typing import AnyArray
from kpp.forest.columns import categorical_columns
from kpp.models.fold_predictors import FoldPredictors
from kpp.models.nested import NESTED
from kpp.models.regimes import regime_of
from kpp.solvers import HuberLoss

if TYPE_CHECKING:
    from kpp.models.linear import KPPLinearModel

# Names of the conditions; the command says what to do about them in words of its own.
ROWS = "exchangeable rows"
FOLDS = "random folds"
ALPHA = "alpha fixed without these labels"
OTHERS = "one way from the other folds' rows"
PREPARED = "columns prepared without these rows"
# What has a guarantee for every forest, blends too, and every alpha.
NESTED_WAY = f"regime='cross-validated' with alpha_selection={NESTED!r}"


def conditions_of(
    model: KPPLinearModel, predictors: FoldPredictors, *, independent_duplicates: bool = False
) -> tuple[Assumption, ...]:
    """Return what the theorem asks for, and whether it holds.

    The first half of a reason says what is so, the second, after a semicolon, what to do about it.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted.
    predictors : FoldPredictors
        Those of its folds.
    independent_duplicates : bool
        Whether the caller says that equal rows are independent draws.

    Returns
    -------
    conditions : tuple of Assumption
    """
    return (
        _exchangeable(model, predictors, independent_duplicates),
        _folds(model, predictors.fold_sizes),
        _alpha(model),
        _from_other_rows(model),
    )


def _exchangeable(
    model: KPPLinearModel, predictors: FoldPredictors, independent_duplicates: bool
) -> Assumption:
    record = model.fit_record_
    if record.is_grouped:
        why = f"rows come in groups of up to {record.largest_group}: they belong together"
        return Assumption(ROWS, False, why)
    if "sample_weight" in record.caller_weights:
        why = "the fit was given weights of rows, and ranks count every row once"
        return Assumption(ROWS, False, why)
    if "duplicates" not in predictors.made:  # sorting them costs as much as some predictions
        predictors.made["duplicates"] = model.duplicate_rows_
    copies = predictors.made["duplicates"]
    if not copies:  # None where a model of an older file does not know its rows
        return Assumption(ROWS, None, "rows of the fit and new rows are taken as such draws")
    equal = f"{copies} of the {len(model.fit_rows_)} rows of the fit equal another row given to it"
    if independent_duplicates:
        why = f"{equal}, in every column, and the caller says that they are independent draws"
        return Assumption(ROWS, None, why)
    why = (
        f"{equal}, in every column, and a copy in another fold is no row that was left out; where "
        "rows agree by chance, as in a table of few whole numbers, say "
        "independent_duplicates=True, otherwise drop the copies or give groups to fit"
    )
    return Assumption(ROWS, False, why)


def _folds(model: KPPLinearModel, sizes: AnyArray) -> Assumption:
    record = model.fit_record_
    # Groups of one row each are rows, and groups come into folds at random.
    if record.folds != "random" and (record.folds != "grouped" or record.is_grouped):
        why = f"folds are {record.folds}; use cv=KFold({len(sizes)}, shuffle=True)"
        return Assumption(FOLDS, False, why)
    each = f"{sizes.max()}" if sizes.min() == sizes.max() else f"{sizes.min()} to {sizes.max()}"
    return Assumption(FOLDS, True, f"{len(sizes)} folds of {each} rows, whatever the labels")


def _alpha(model: KPPLinearModel) -> Assumption:
    if model.alpha_selection_ == NESTED and not model.fit_record_.alphas_given:
        return Assumption(ALPHA, True, "every part has chosen for itself, without its fold")
    if model.blend_weights_ is not None and model.alpha_selection_ != NESTED:
        why = f"the weights of a blend come from predictors that have seen this fold; {_instead()}"
        return Assumption(ALPHA, False, why)
    is_chosen = model.alpha_selection_ not in ("given", NESTED)
    if is_chosen and (len(model.alphas_) > 1 or not model.fit_record_.alphas_given):
        why = (
            "alpha was chosen by the out-of-fold errors themselves; give alphas=[alpha], or "
            f"{_instead()}"
        )
        return Assumption(ALPHA, False, why)
    return Assumption(ALPHA, None, "the caller gave one, and says that it is not from these labels")


def _from_other_rows(model: KPPLinearModel) -> Assumption:
    name, record, regime = OTHERS, model.fit_record_, regime_of(model)
    # A blend has weights as well, which no other way of its own leaves to the other folds.
    is_blend = model.blend_weights_ is not None
    if regime.averages_folds and not regime.leaves_folds_out:
        instead = _instead() if is_blend else f"use regime='honest', or {_instead()}"
        why = f"trees and linear layer have different folds, in an order; {instead}"
        return Assumption(name, False, why)
    of_all_trees = regime.grows_on_fit_rows and not regime.leaves_folds_out
    if of_all_trees and model.alpha_selection_ == "fold-grown":
        others = "alpha_selection='regrown' or regime='honest' with alphas=[alpha], or "
        instead = _instead() if is_blend else f"use {others}{_instead()}"
        why = (
            "the penalty's scale comes from trees that have seen the fold, and columns are read "
            f"from all rows; {instead}"
        )
        return Assumption(name, False, why)
    if record.class_weight == "balanced" and not regime.splits_rows:
        return Assumption(name, False, "class_weight='balanced' counts the labels of all folds")
    is_read = isinstance(model.loss_, HuberLoss) and model.loss_.is_read
    if is_read and not regime.splits_rows and model.alpha_selection_ != NESTED:
        why = "Huber's threshold was read from the labels of all folds; give huber_delta"
        return Assumption(name, False, why)
    made = [own for own in record.caller_weights if own != "sample_weight"]
    if made:
        given = " and ".join(made)
        return Assumption(name, None, f"the caller says that {given} was made without these labels")
    if any(categorical_columns(block.forest).any() for block in model.additive_.blocks):
        why = "the caller says that the lists of categories, read from all rows, were known before"
        return Assumption(name, None, why)
    if regime.takes_grown_forest:
        return Assumption(name, None, regime.independence[1])
    return Assumption(name, True, "each fold is predicted by the same fit of the others")


def _instead() -> str:
    return f"use {NESTED_WAY}"
