"""What was fitted, in which regime, and what that lets one claim."""

from __future__ import annotations

from typing import Any

from kpp.models.left_rows import n_fit_rows
from kpp.models.linear import KPPLinearModel
from kpp.models.nested import NESTED
from kpp.models.penalties import alpha_was_given
from kpp.models.regimes import regime_of
from kpp.reports.escaping import shown
from kpp.reports.subject import Subject
from kpp.tables.numbers import count, number, span


def make(subject: Subject) -> dict[str, Any]:
    """Describe the model and its regime in sentences, with the key figures."""
    model = subject.model
    regime = regime_of(model)
    forests = [block.forest for block in model.additive_.blocks]
    n_trees = sum(forest.n_trees for forest in forests)
    n_nodes = sum(forest.n_nodes for forest in forests)
    kind = "classifier" if subject.is_classifier else "regressor"
    layer = "logistic regression" if subject.is_classifier else "ridge regression"
    n_fit = n_fit_rows(model)
    linear = model.additive_.linear
    n_terms = sum(len(block.terms) for block in linear)
    terms = f" and {count(n_terms, 'linear term')}" if linear else ""
    paths = f"the paths of {count(n_trees, 'tree')} ({count(n_nodes, 'node')}){terms}"
    if regime.averages_folds:
        sizes = [len(rows) for rows, _ in model.folds_ or ()]
        blend = "" if model.blend_weights_ is None else "blend of several forests, each by "
        made = (
            f"A {kind}: the average of {len(sizes)} predictors, one for each fold. Each is a "
            f"{blend}{layer} on the paths of its own part of {count(n_trees, 'tree')} "
            f"({count(n_nodes, 'node')}){terms}, fitted on "
            f"{'all others, ' if regime.leaves_folds_out else 'one fold of '}"
            f"{span(min(sizes), max(sizes))} of the {count(n_fit, 'row')}."
        )
    elif model.blend_weights_ is not None:
        parts = ", ".join(
            f"{shown(block.name)} ({count(block.forest.n_trees, 'tree')})"
            for block in model.additive_.blocks
        )
        made = f"A {kind}: a blend of {len(forests)} forests, {parts}: the {layer} on the paths of "
        made += f"each, {'one on linear terms, ' if linear else ''}and what the ensembles predict "
        made += "by themselves, with weights learned out of fold; one coefficient for each of "
        made += f"{count(n_nodes, 'node')}{terms}, fitted on "
        made += f"{count(n_fit, 'row')}."
    else:
        made = f"A {kind}: {layer} on {paths}, fitted jointly over all of them on "
        made += f"{count(n_fit, 'row')}."
    sentences = [
        f"{made} Rows have {count(model.n_features_in_, 'column')}"
        + (
            "."
            if subject.preparation is None
            else f", prepared from {count(subject.given.shape[1], 'column')} of the table."
        ),
        _penalty(model),
    ]
    if subject.is_classifier:
        names = ", ".join(subject.class_names[:8])
        more = "" if len(subject.class_names) <= 8 else ", and more"
        sentences.append(f"It tells {len(subject.class_names)} classes apart: {names}{more}.")
    return {
        "kind": kind,
        "regime": regime.name,
        "regime_code": regime.number,
        "sentences": sentences,
        "target": subject.target_name,
        "source": subject.source,
        "unseen": subject.unseen,
        "seen": subject.seen,
        "called": subject.called,
        "saw": regime.saw,
        "may_claim": regime.may_claim,
        "may_not_claim": regime.may_not_claim,
        "n_trees": n_trees,
        "n_nodes": n_nodes,
        "n_fit_rows": n_fit,
        "n_test_rows": subject.n_rows,
        "n_features": model.n_features_in_,
        "n_columns": subject.given.shape[1],
        "alpha": model.alpha_,
        "forest": shown(model.forest) if isinstance(model.forest, str) else "given",
    }


def _penalty(model: KPPLinearModel) -> str:
    given, nested = alpha_was_given(model), model.alpha_selection_ == NESTED
    if isinstance(model.alpha_, dict) and not given:
        listed = ", ".join(f"{number(a)} ({shown(name)})" for name, a in model.alpha_.items())
        means = "; means over the parts, each of which has chosen its own" if nested else ""
        return f"Every block has a penalty of its own: {listed}{means}."
    if isinstance(model.alpha_, dict):
        alpha = next(iter(model.alpha_.values()))
        return f"The penalty alpha of every block is {number(alpha)}, as it was given."
    if given:
        return f"The penalty alpha is {number(model.alpha_)}, as it was given."
    if nested:
        return (
            f"Every part has chosen its penalty on its own rows: {number(model.alpha_)} on average."
        )
    # The search leaves out values far from the best; bounds count every one that might be taken.
    scored = len(model.alphas_)
    counted = max(model.fit_record_.n_candidates, scored)
    ended = "" if counted == scored else f", of which {scored} were scored"
    return (
        f"The penalty alpha is {number(model.alpha_)}, chosen among {counted} values by "
        f"out-of-fold scores{ended}."
    )
