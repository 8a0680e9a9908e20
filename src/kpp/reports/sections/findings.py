"""Diagnostics with their findings, and the audit that the four answers agree."""

from __future__ import annotations

from typing import Any

from kpp.diagnostics import audit, diagnose
from kpp.reports.subject import Subject

MOST_ROWS = 1000


def make(subject: Subject) -> dict[str, Any]:
    """Run the diagnostics and the audit on the test rows."""
    index = subject.draw(MOST_ROWS)
    rows, y = subject.rows(index), subject.y[index]
    diagnostics = diagnose(subject.model, rows, y).to_dict()
    audited = audit(subject.model, rows, y, random_state=subject.random_state)
    return {
        "n_rows": len(index),
        "called": subject.called,
        "findings": diagnostics["findings"],
        "observables": diagnostics["observables"],
        "metrics": diagnostics["metrics"],
        "audit_holds": audited.holds,
        "audit": [
            {
                "name": check.name,
                "meaning": MEANINGS.get(check.name, ""),
                "violation": check.violation,
                "tolerance": check.tolerance,
                "n_checked": check.n_checked,
                "holds": check.holds,
                "reference": check.reference,
            }
            for check in audited.checks
        ],
        "audit_skipped": list(audited.skipped),
    }


MEANINGS = {
    "isometry": "distances between rows in the embedding are the paths through the trees",
    "norm bound": "no row is longer than the theory allows",
    "additivity": "predictions are the sums of what their nodes contribute",
    "Lipschitz": "predictions change no faster than the certificate assumes",
    "telescoping": "what the splits gain adds up to what the leaves explain",
}
