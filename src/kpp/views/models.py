"""What a notebook shows of a fitted estimator: scikit-learn's diagram, and the fit below it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from kpp._parallel import one_blas_thread
from kpp._shown import picture
from kpp.geometry import forest_blocks, linear_blocks, named_blocks
from kpp.models.embedding import KPPEmbedding
from kpp.models.fold_out import LeaveOneFoldOut
from kpp.models.interval_results import PredictionIntervals, PredictionSets
from kpp.models.left_rows import n_fit_rows
from kpp.models.linear import KPPLinearModel
from kpp.models.nested import NESTED
from kpp.models.penalties import alpha_was_given, kept_score
from kpp.models.regimes import regime_of
from kpp.views.bounds import conditions
from kpp.views.html import card, facts, note, table

EXACT = "Attributions are exact sums, and certificates hold, in every regime."


@picture.register
def linear_model(model: KPPLinearModel) -> str:
    """Regime, rows, alpha, score and forest, and what may be claimed; nothing before the fit."""
    if not hasattr(model, "map_"):
        return ""
    return card("The fit", facts(linear_figures(model) | forest_figures(model)), *_notes(model))


@picture.register
def embedding(model: KPPEmbedding) -> str:
    """Task, columns and forest; nothing before the fit."""
    if not hasattr(model, "map_"):
        return ""
    figures = {"task": model.task_, "columns": model.n_features_in_}
    return card("The fit", facts(figures | forest_figures(model)))


@picture.register
def left_out_folds(result: LeaveOneFoldOut) -> str:
    """Error, norm and trace by fold, and the error over all rows."""
    kind = "error rate" if is_classifier(result.models[0]) else "RMSE"
    columns = zip(result.folds, result.errors, result.norms, result.traces, strict=True)
    rows = [
        (q, len(test), float(error), float(norm), float(trace))
        for q, ((_, test), error, norm, trace) in enumerate(columns)
    ]
    return card(
        "LeaveOneFoldOut",
        facts({"alpha": result.alpha, f"{kind} over all rows": result.error}),
        table(["fold", "rows", kind, "norm", "trace / rows"], rows),
        note("Each fold was predicted by a forest and a linear layer that have not seen it."),
    )


@picture.register
def intervals(result: PredictionIntervals) -> str:
    """Rows and widths, the coverage and what it is worth, and its conditions."""
    width = float(np.median(result.width)) if len(result) else np.nan
    return _coverage("PredictionIntervals", result, {"median width": width})


@picture.register
def sets(result: PredictionSets) -> str:
    """Rows and sizes, the coverage and what it is worth, and its conditions."""
    return _coverage(
        "PredictionSets",
        result,
        {
            "classes": len(result.classes),
            "mean size": result.mean_size,
            "empty sets": result.n_empty,
            "score": result.method,
        },
    )


def _coverage(
    name: str, result: PredictionIntervals | PredictionSets, figures: dict[str, Any]
) -> str:
    aimed = {"coverage aimed at": result.coverage, "worth": result.status}
    known = {"rows ranked": result.n_calibration, "folds": result.n_folds}
    return card(
        name, facts({"rows": len(result)} | figures | aimed | known), conditions(result.conditions)
    )


def forest_figures(model: KPPLinearModel | KPPEmbedding) -> dict[str, Any]:
    """Trees and nodes, all and by block."""
    blocks = [(name, block.forest) for name, block in forest_blocks(model.map_)]
    figures: dict[str, Any] = {
        "trees": sum(forest.n_trees for _, forest in blocks),
        "nodes (coordinates)": sum(forest.n_nodes for _, forest in blocks),
    }
    linear = linear_blocks(model.map_)
    if linear:
        figures["linear terms"] = sum(block.shape[1] for _, block in linear)
    if len(blocks) + len(linear) > 1:
        figures["blocks"] = ", ".join(name for name, _ in named_blocks(model.map_))
    return figures


@one_blas_thread()
def linear_figures(model: KPPLinearModel) -> dict[str, Any]:
    """Regime, rows, penalty and score of a linear model."""
    task = (
        f"classification, {len(model.classes_)} classes" if is_classifier(model) else "regression"
    )
    rows = f"{n_fit_rows(model):,} in the linear layer"
    if regime_of(model).splits_rows and model.partition_rows_ is not None:
        rows += f", {len(model.partition_rows_):,} others for the trees"
    figures: dict[str, Any] = {"task": task, "regime": model.regime_, "rows": rows}
    figures["columns"] = model.n_features_in_
    if isinstance(model.alpha_, dict):
        figures["alpha"] = ", ".join(f"{name} {a:.3g}" for name, a in model.alpha_.items())
    else:
        figures["alpha"] = model.alpha_
    if model.blend_weights_ is not None:
        shown = {name: np.atleast_1d(theta) for name, theta in model.blend_weights_.items()}
        figures["weights of the blend"] = "; ".join(
            f"{name} {', '.join(f'{t:.2g}' for t in theta)}" for name, theta in shown.items()
        )
    name, score = out_of_fold_score(model)
    if score is not None:
        figures[name] = score
    return figures | {"norm of w": float(np.linalg.norm(model.node_coef_))}


def out_of_fold_score(model: KPPLinearModel) -> tuple[str, float | None]:
    """Name and value of the score that alpha was chosen by; None for an alpha that was given."""
    best = kept_score(model)
    if best is None:
        return "", None
    if model.scoring is None:
        loss = "log loss" if is_classifier(model) else "mean squared error"
        return f"out-of-fold {loss}", -best
    return f"out-of-fold {model.scoring if isinstance(model.scoring, str) else 'score'}", best


def _notes(model: KPPLinearModel) -> list[str]:
    notes = [note(regime_of(model).on_bounds)]
    if alpha_was_given(model):
        none = "alpha was given: there are no out-of-fold predictions."
        some = "alpha was given: the out-of-fold predictions have not chosen it."
        notes.append(note(none if model.oof_prediction_ is None else some))
    elif regime_of(model).grows_on_fit_rows and model.alpha_selection_ == "frozen":
        notes.append(
            note("alpha_selection='frozen': the trees have seen the folds, and the score flatters.")
        )
    elif model.alpha_selection_ == NESTED:
        notes.append(note("Every part chose alpha on folds of its own rows, without its fold."))
    else:
        notes.append(note("The out-of-fold score chose alpha, and is slightly optimistic."))
    return [*notes, note(EXACT)]
