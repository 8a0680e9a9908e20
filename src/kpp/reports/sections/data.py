"""What the table holds: gaps, distributions, the target, and what may spoil a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._checks import RefusedError
from kpp._optional import optional
from kpp.diagnostics import ColumnProfile, DataChecks, check_data
from kpp.reports.escaping import shown
from kpp.reports.subject import Subject
from kpp.tables.numbers import count

MOST_COLUMNS = 40
MOST_CLASSES = 12


def make(subject: Subject) -> dict[str, Any]:
    """Check the training rows as the user has them; the test rows where there are no others."""
    try:
        optional("pandas", "The section on the data")
    except ImportError as error:
        raise RefusedError(str(error)) from error
    training = subject.training
    X, y = (subject.given, subject.y) if training is None else (training.X, training.y)
    several = np.ndim(y) > 1 and np.shape(y)[1] > 1
    checks = check_data(
        _named(X, subject),
        None if several else np.ravel(y),
        classification=subject.is_classifier,
        random_state=subject.random_state,
    )
    listed, others = checks.columns[:MOST_COLUMNS], checks.columns[MOST_COLUMNS:]
    gaps = sum(column.n_missing for column in checks.columns)
    return {
        "called": subject.called if training is None else "training row",
        "n_rows": checks.n_rows,
        "n_columns": checks.n_columns,
        "missing_share": gaps / max(1, checks.n_rows * checks.n_columns),
        "n_with_gaps": sum(column.n_missing > 0 for column in checks.columns),
        "n_duplicates": checks.n_duplicates,
        "n_contradictions": checks.n_contradictions,
        "n_skill_rows": checks.n_skill_rows,
        "together": checks.together,
        "findings": _findings(checks),
        "target": None if several else _target(subject, checks),
        "columns": [_column(column, checks.n_rows) for column in listed],
        "n_other": len(others),
        "others": _others(others, checks.n_rows),
    }


def _named(X: Any, subject: Subject) -> Any:
    """Rows with the names of their columns, each once."""
    if hasattr(X, "columns"):
        return X
    array = np.asarray(X)
    names = list(subject.question.raw_names)
    if len(names) != array.shape[1]:
        names = [f"x{j}" for j in range(array.shape[1])]
    return optional("pandas", "The section on the data").DataFrame(array, columns=names)


def _findings(checks: DataChecks) -> list[dict[str, Any]]:
    found = checks.to_dict()["findings"]
    return [one | {"meaning": shown(one["meaning"], 400)} for one in found]


def _target(subject: Subject, checks: DataChecks) -> dict[str, Any]:
    profile, labels = checks.target, subject.question.additive.classes
    assert profile is not None
    name = subject.target_name or "the target"
    if labels is None:
        return _column(profile, checks.n_rows) | {"name": name, "classes": []}
    training = subject.training
    codes = subject.target if training is None else training.target
    n_of = np.bincount(codes, minlength=len(labels))
    order = np.argsort(-n_of, kind="stable")
    classes = [
        {"label": shown(labels[k]), "n_rows": int(n_of[k]), "share": n_of[k] / n_of.sum()}
        for k in order[:MOST_CLASSES]
    ]
    return {"name": name, "classes": classes, "n_more": max(0, len(labels) - MOST_CLASSES)}


def _column(profile: ColumnProfile, n_rows: int) -> dict[str, Any]:
    known = max(1, n_rows - profile.n_missing)
    low, high = profile.low, profile.high
    return {
        "name": shown(profile.name),
        "kind": profile.kind,
        "missing": profile.n_missing / max(1, n_rows),
        "n_distinct": profile.n_distinct,
        "low": low if not isinstance(low, str) else low[:10],
        "high": high if not isinstance(high, str) else high[:10],
        "counts": list(profile.counts),
        "top": [{"value": shown(v, 30), "share": n / known} for v, n in profile.top[:3]],
        "skill": profile.skill,
        "codes": list(profile.codes),
    }


def _others(columns: tuple[ColumnProfile, ...], n_rows: int) -> str:
    """The columns that are not listed, in a sentence."""
    if not columns:
        return ""
    kinds = {kind: sum(c.kind == kind for c in columns) for kind in ("numbers", "categories")}
    kinds["dates"] = len(columns) - sum(kinds.values())
    told = ", ".join(f"{n} of {kind}" for kind, n in kinds.items() if n)
    gaps = sum(column.n_missing for column in columns) / max(1, n_rows * len(columns))
    best = max((column.skill for column in columns if column.skill == column.skill), default=None)
    words = f"{count(len(columns), 'more column')}: {told}; {gaps:.1%} of their values are missing"
    return words + ("." if best is None else f"; the best explains {best:.1%} alone.")
