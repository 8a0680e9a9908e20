"""The model card: what a file in another format says of the model that it came from."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from kpp.export.onnx_scores import ScoreGraph
from kpp.models.asking import Question
from kpp.models.left_rows import n_fit_rows

LIBRARIES = ("kpp", "numpy", "scikit-learn")
REFUSED = "Rows that the model refuses (infinite or missing values, where it takes none) have NaN."


def model_card(question: Question, scores: ScoreGraph, **further: Any) -> dict[str, str]:
    """Say in short what a model is; all values are texts, as metadata has them.

    Parameters
    ----------
    question : Question
        The model.
    scores : ScoreGraph
        Its columns, and what its trees compare in.
    **further
        What else to say, by name.

    Returns
    -------
    card : dict of str to str
    """
    model, additive = question.model, scores.additive
    fit_record = getattr(model, "fit_record_", None)
    said: dict[str, Any] = {
        "model": type(model).__name__,
        "task": "regression" if additive.classes is None else "classification",
        "regime": f"{question.regime.name} ({question.regime.number})",
        "classes": None if additive.classes is None else additive.classes.tolist(),
        "link": additive.link,
        "forests": [forest.source for forest in scores.blocks],
        "n_trees": additive.n_trees,
        "n_nodes": additive.forest.n_nodes,
        "n_linear_terms": sum(len(linear.terms) for linear in additive.linear),
        "n_rows_fitted": n_fit_rows(model) if fit_record is not None else None,
        "columns": [_column(column) for column in scores.columns],
        "precision": "double" if scores.dtype == np.float64 else "single",
        "refused_rows": REFUSED,
        "versions": versions(),
    }
    said |= further
    return {
        f"kpp.{name}": value if isinstance(value, str) else json.dumps(value, default=str)
        for name, value in said.items()
        if value is not None
    }


def versions() -> dict[str, str]:
    """Versions of the libraries that made the model."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a source tree that was never installed
            continue
    return found


def _column(column: Any) -> dict[str, Any]:
    kind = "number" if column.categories is None else "text" if column.is_text else "code"
    known = None if column.categories is None else column.categories.tolist()
    listed = {} if known is None else {"categories": known}
    return {"name": column.name, "holds": kind, **listed}
