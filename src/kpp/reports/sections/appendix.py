"""Versions, settings and words."""

from __future__ import annotations

import platform
import re
import sys
from importlib import metadata
from typing import Any

from kpp.models.left_rows import n_fit_rows
from kpp.reports.escaping import shown
from kpp.reports.subject import Subject

PACKAGES = ("kpp", "numpy", "scipy", "scikit-learn", "numba", "pandas", "skrub", "jinja2")

GLOSSARY = {
    "alpha": "The penalty on the squared length of the coefficients. Larger is smoother.",
    "attribution": "The prediction, taken apart into what each variable adds. The parts sum to the "
    "prediction exactly; they describe the model, not what would happen if a value were changed.",
    "audit": "A check on these very rows that the identities of the theory hold up to rounding.",
    "baseline": "In tables of scores, the mean of the target, or the shares of classes, of the "
    "rows of the fit. In a waterfall, the mean score over the rows of the fit.",
    "certificate": "A radius within which the model's answer provably does not change. It speaks "
    "of the model's answer, not of the truth.",
    "δ_T": "The forest's own squared distance between two rows: the weight of the paths between "
    "their leaves, over all trees, divided by the total weight. 0 for rows that share every leaf. "
    "δ_K divides each tree by its own weight and takes the mean over trees: another metric, of "
    "models that are fitted so.",
    "embedding": "One coordinate for every node of every tree. Squared distances in it are δ_T.",
    "leafwise": "The certificate that compares leaves, tree by tree. Never below the paper's.",
    "Lipschitz": "The paper's certificate, from the length of the coefficients alone.",
    "margin": "How far the score is from another answer.",
    "out of fold": "Predicted by a model that did not see the row.",
    "raw radius": "A certificate in the units of the columns: every column may move by this many "
    "of its standard deviations at once.",
    "regime": "Which labels the trees had seen when the linear layer was fitted. It decides which "
    "bounds are guarantees.",
    "rule": "A cell of a tree as conditions, with what being in it adds to the prediction.",
    "score": "What the linear layer adds up: the prediction of a regression, the log-odds of a "
    "class.",
    "trivial": "A bound that is no better than what takes no model: the error of one class for all "
    "rows, the variance, the logistic loss of equal probabilities, or the largest squared error of "
    "predicting 0. Each bound says which.",
}


def make(subject: Subject) -> dict[str, Any]:
    """List the versions, the settings of the model, and the words of the report."""
    versions = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    settings = {
        # Addresses of objects change from run to run, and tell nothing.
        name: shown(re.sub(r" at 0x[0-9a-f]+", "", repr(value)), 120)
        for name, value in sorted(subject.model.get_params(deep=False).items())
    }
    return {
        "versions": versions,
        "platform": f"{platform.system()} {platform.machine()}, {sys.byteorder}-endian",
        "class": type(subject.model).__name__,
        "settings": settings,
        "preparation": None if subject.preparation is None else type(subject.preparation).__name__,
        "random_state": subject.random_state,
        "max_rows": subject.max_rows,
        "has_training_rows": subject.training is not None,
        "data": {
            f"{subject.called}s": subject.n_rows,
            "columns of the table": int(subject.given.shape[1]),
            "columns of the model": int(subject.model.n_features_in_),
            "rows of the fit": n_fit_rows(subject.model),
            f"{subject.called}s have weights": subject.is_weighted,
        },
        "glossary": [{"word": word, "meaning": text} for word, text in GLOSSARY.items()],
    }
