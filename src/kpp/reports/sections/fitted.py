"""What was fitted, in which regime, and what that lets one claim."""

from __future__ import annotations

from typing import Any

from kpp.geometry import named_blocks
from kpp.reports.escaping import shown
from kpp.reports.subject import Subject
from kpp.tables.numbers import count, figure, number, percent, span

# For each regime: the paper's name, who saw what, what may be claimed, what may not.
REGIMES = {
    "shared": (
        "PB-04",
        "The trees were grown on the same labels as the linear layer.",
        "Scores on test rows that the fit has not used are honest. Attributions and certificates "
        "are exact statements about this fitted model.",
        "Bounds computed on the training rows are diagnostics, not guarantees: the representation "
        "has seen their labels.",
    ),
    "honest": (
        "PB-02",
        "The trees were grown on one part of the training rows, the linear layer was fitted on "
        "the other.",
        "Given the trees, the rows of the linear layer are a fresh sample: bounds computed on them "
        "can be guarantees, under the conditions that each bound lists.",
        "Rows that grew the trees do not count for the guarantee, and rows that are not "
        "independent draws of one distribution break it.",
    ),
    "cross-fit": (
        "PB-03",
        "For every fold, the trees were grown without it and without the fold that its linear "
        "layer was fitted on; the model is the average over the folds.",
        "Every fold's linear layer was fitted on rows that its trees had not seen: bounds can be "
        "guarantees fold by fold.",
        "The bounds of the folds share one probability of failing, and carry over to the average "
        "only for convex losses.",
    ),
    "fixed": (
        "PB-01",
        "The forest was given. The caller says that it was fitted on other data.",
        "If that is so, all rows of the fit are fresh for the representation, and bounds on them "
        "can be guarantees.",
        "The library cannot check what the forest has seen. If it saw these labels, nothing here "
        "is guaranteed.",
    ),
}


def make(subject: Subject) -> dict[str, Any]:
    """Describe the model and its regime in sentences, with the key figures."""
    model = subject.model
    blocks = [block for _, block in named_blocks(model.map_)]
    n_trees = sum(block.forest.n_trees for block in blocks)
    n_nodes = sum(block.forest.n_nodes for block in blocks)
    code, saw, may, may_not = REGIMES[model.regime_]
    kind = "classifier" if subject.is_classifier else "regressor"
    layer = "logistic regression" if subject.is_classifier else "ridge regression"
    n_fit = len(model.fit_rows_)
    paths = f"the paths of {count(n_trees, 'tree')} ({count(n_nodes, 'node')})"
    if model.regime_ == "cross-fit":
        sizes = [len(rows) for rows, _ in model.folds_]
        made = (
            f"A {kind}: the average of {len(sizes)} predictors, one for each fold. Each is a "
            f"{layer} on the paths of its own part of {count(n_trees, 'tree')} "
            f"({count(n_nodes, 'node')}), fitted on one fold of {span(min(sizes), max(sizes))} "
            f"of the {count(n_fit, 'row')}."
        )
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
        f"The penalty alpha is {number(model.alpha_)}, "
        + (
            "as it was given."
            if model.cv_scores_ is None
            else f"chosen among {len(model.alphas_)} values by out-of-fold scores."
        ),
    ]
    if subject.is_classifier:
        names = ", ".join(subject.class_names[:8])
        more = "" if len(subject.class_names) <= 8 else ", and more"
        sentences.append(f"It tells {len(subject.class_names)} classes apart: {names}{more}.")
    return {
        "kind": kind,
        "regime": model.regime_,
        "regime_code": code,
        "sentences": sentences,
        "target": subject.target_name,
        "source": subject.source,
        "unseen": subject.unseen,
        "saw": saw,
        "may_claim": may,
        "may_not_claim": may_not,
        "n_trees": n_trees,
        "n_nodes": n_nodes,
        "n_fit_rows": n_fit,
        "n_test_rows": subject.n_rows,
        "n_features": model.n_features_in_,
        "n_columns": subject.given.shape[1],
        "alpha": model.alpha_,
        "forest": shown(model.forest) if isinstance(model.forest, str) else "given",
    }


def tiles(sections: dict[str, Any]) -> list[dict[str, str]]:
    """The key figures at the top, from the sections that could be made."""
    found = []
    quality = sections["quality"]
    if quality["made"] and quality["tables"]:
        for line in quality["tables"][0]["lines"][:2]:
            write = percent if line["share"] else figure
            known = line["low"] is not None
            note = f"{write(line['low'])} to {write(line['high'])}" if known else "test rows"
            found.append({"label": line["short"], "value": write(line["test"]), "note": note})
            if line["baseline"] is not None:
                found[-1]["note"] += f"; a constant: {write(line['baseline'])}"
    fitted = sections["fitted"]
    if fitted["made"]:
        found.append(
            {
                "label": "Regime",
                "value": fitted["regime"],
                "note": f"{fitted['regime_code']}, {count(fitted['n_fit_rows'], 'row')} fitted",
            }
        )
        found.append(
            {
                "label": "Test rows",
                "value": f"{fitted['n_test_rows']:,}",
                "note": count(fitted["n_columns"], "column"),
            }
        )
    findings = sections["findings"]
    if findings["made"]:
        warnings = sum(f["severity"] == "warning" for f in findings["findings"])
        found.append(
            {
                "label": "Findings",
                "value": str(len(findings["findings"])),
                "note": f"{count(warnings, 'warning')}; audit "
                + ("holds" if findings["audit_holds"] else "FAILS"),
            }
        )
    return found
