"""Versions, settings and words."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from kpp.models.left_rows import n_fit_rows
from kpp.reports.escaping import shown
from kpp.reports.glossary import GLOSSARY
from kpp.reports.subject import Subject

PACKAGES = ("kpp", "numpy", "scipy", "scikit-learn", "numba", "pandas", "skrub", "jinja2")


def make(subject: Subject, recipe: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """List the versions, the settings of the model, the words, and how it is made again."""
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
        "recipe": None if recipe is None else _recipe(recipe),
        "call": _call(subject),
        "glossary": [{"word": word, "meaning": text} for word, text in GLOSSARY.items()],
    }


def _recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe as it may be shown; a command is not cut, or it would not work."""
    inputs = [
        {"name": shown(own["name"]), "what": shown(own["what"]), "sha256": own.get("sha256")}
        for own in recipe.get("inputs", ())
    ]
    return {"command": str(recipe["command"]), "inputs": inputs}


def _call(subject: Subject) -> str:
    """The call in Python, with what differs from its defaults."""
    settings: dict[str, Any] = {
        "y_range": subject.y_range,
        "target": subject.target_name,
        "independent_duplicates": subject.independent_duplicates or None,
        "max_rows": subject.max_rows,
        "random_state": subject.random_state,
    }
    parts = ["model", "X_test", "y_test", '"report.html"']
    if subject.training is not None:
        has_groups = subject.training.groups is not None
        parts.append("train=(X, y, groups)" if has_groups else "train=(X, y)")
    if subject.is_weighted:
        parts.append("sample_weight=weight")
    if subject.groups is not None:
        parts.append("groups=groups_test")
    parts += [f"{name}={value!r}" for name, value in settings.items() if value is not None]
    return f"report({', '.join(parts)})"
