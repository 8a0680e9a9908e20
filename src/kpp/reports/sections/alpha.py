"""How the penalty was chosen."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp.diagnostics.metrics import LOSS_NAMES, loss_name
from kpp.models.nested import NESTED
from kpp.models.penalties import alpha_of, alpha_was_given
from kpp.models.regimes import regime_of
from kpp.reports.escaping import shown
from kpp.reports.subject import Subject
from kpp.tables.numbers import number

WAYS = {
    "fold-grown": "One forest was grown in groups of trees, each of which never saw its fold; "
    "every fold was predicted by its own group alone.",
    "regrown": "A whole forest was grown for every fold, without it.",
    "frozen": "The forest was kept, and the linear layer refitted without each fold.",
    NESTED: "Every part of the average has chosen for itself, on folds of its own rows; what is "
    "shown are means over the parts.",
}


def make(subject: Subject) -> dict[str, Any]:
    """The score of every alpha, with the choice marked."""
    model = subject.model
    if alpha_was_given(model):
        every = " It is that of every block." if isinstance(model.alpha_, dict) else ""
        return {
            "alpha": None if every else model.alpha_,
            "points": [],
            "text": f"It was given, not chosen: there is no curve.{every}",
        }
    if isinstance(model.alpha_, dict):
        listed = ", ".join(f"{shown(name)}: {number(a)}" for name, a in model.alpha_.items())
        return {
            "alpha": None,
            "points": [],
            "text": f"The model is a blend, and every block has a penalty of its own: {listed}. "
            + WAYS[NESTED if model.alpha_selection_ == NESTED else "fold-grown"],
        }
    if model.alpha_selection_ == NESTED:
        return {"alpha": model.alpha_, "points": [], "text": WAYS[NESTED]}
    order = np.argsort(np.asarray(model.alphas_))
    alphas, scores = np.asarray(model.alphas_)[order], np.asarray(model.cv_scores_)[order]
    if model.scoring is not None:
        metric, values, higher = shown(model.scoring, 40), scores, True
    elif subject.is_classifier:
        metric, values, higher = "log loss", -scores, False
    elif (name := loss_name(model.loss_)) is not None:
        metric, values, higher = LOSS_NAMES[name], -scores, False
    else:
        metric, values, higher = "root mean squared error", np.sqrt(np.maximum(-scores, 0)), False
    # Grids are finite: the chosen alpha is the one on the grid that is nearest to it.
    chosen = int(np.argmin(np.abs(np.log(alphas) - np.log(alpha_of(model)))))
    on_edge = len(alphas) > 1 and chosen in (0, len(alphas) - 1)
    regime, text = regime_of(model), WAYS[model.alpha_selection_]
    if regime.averages_folds:
        text = "Every fold was predicted by trees and coefficients that have not seen it."
    elif regime.takes_grown_forest:
        text += " The caller says that these trees have not seen the labels of the fit."
    elif not regime.grows_on_fit_rows:
        text += " These trees have not seen the labels of the fit."
    elif model.alpha_selection_ == "frozen":
        text += " These trees have seen all labels, so the scores flatter small alphas."
    return {
        "alpha": model.alpha_,
        "metric": metric,
        "higher_is_better": higher,
        "points": [
            {"alpha": a, "value": v, "chosen": i == chosen}
            for i, (a, v) in enumerate(zip(alphas.tolist(), values.tolist(), strict=True))
        ],
        "on_edge": on_edge,
        "text": text,
    }
