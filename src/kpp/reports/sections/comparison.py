"""The model beside others, on the same test rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from kpp._checks import RefusedError
from kpp._typing import FloatArray
from kpp.diagnostics.comparison import Comparison, compare
from kpp.diagnostics.intervals import CONFIDENCE
from kpp.diagnostics.metrics import LOSS_NAMES, loss_name
from kpp.diagnostics.rivals import simple_rivals
from kpp.reports.escaping import shown
from kpp.reports.subject import Subject

# Seconds for the fits of rivals: what is left is said to be left out.
TIME_BUDGET = 600.0
SCORES = {"rmse": "RMSE", "log_loss": "Log loss", "accuracy": "Accuracy", "r2": "R²"}


def wanted(subject: Subject, asked: Any) -> bool:
    """Whether there is a comparison to show.

    Parameters
    ----------
    subject : Subject
        Of the report.
    asked : None, bool or Comparison
        None is what the caller left open: then simple models, wherever that can be had.

    Returns
    -------
    wanted : bool
    """
    if asked is None:
        is_usual = loss_name(subject.model.loss_) is None
        return subject.training is not None and subject.y.ndim == 1 and is_usual
    if not isinstance(asked, bool | Comparison):
        raise TypeError(
            f"compare takes True, False or what kpp.compare returns; got {type(asked).__name__}."
        )
    if asked is True and subject.training is None:
        raise ValueError(
            "compare=True fits other models on the rows of the fit, which the report does not "
            "have: give train=(X, y), or the result of kpp.compare."
        )
    return asked is not False


def make(subject: Subject, model: Any, asked: Any, *, times: bool) -> dict[str, Any]:
    """Fit rivals and compare, or show what was compared before."""
    notes = []
    if isinstance(asked, Comparison):
        found, is_simple = asked, False
    else:
        name = loss_name(subject.model.loss_)
        if name is not None:
            raise RefusedError(
                f"This model is fitted by its {LOSS_NAMES[name]}; the others minimise squared "
                "errors. Compare by hand, with rivals of the same loss."
            )
        is_simple = asked is None
        weight, note = _fit_weight(subject)
        notes += [note] if note else []
        training = subject.training
        assert training is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a rival that has not converged is a rival
            found = compare(
                model,
                training.X,
                training.y,
                test=(subject.given, subject.y),
                rivals=simple_rivals if is_simple else None,
                sample_weight=weight,
                test_weight=subject.weight if subject.is_weighted else None,
                test_groups=subject.groups,
                time_budget=TIME_BUDGET,
                random_state=subject.random_state,
            )
    score = "rmse" if found.loss == "squared error" else "log_loss"
    second = "r2" if found.loss == "squared error" else "accuracy"
    return {
        "is_simple": is_simple,
        "loss": found.loss,
        "score": SCORES[score],
        "second": SCORES[second],
        "second_is_share": second == "accuracy",
        "n_train": found.n_train,
        "n_test": found.n_test,
        "confidence": CONFIDENCE,
        "called": subject.called,
        "models": [
            {
                "name": shown(one.name),
                "score": one.scores[score],
                "second": one.scores[second],
                "seconds": one.seconds if times else None,
                "difference": one.difference,
                "low": one.low,
                "high": one.high,
                "verdict": one.verdict if k else "",
            }
            for k, one in enumerate(found.models)
        ],
        "left_out": [
            {"name": shown(name), "why": shown(why, 200)} for name, why in found.left_out.items()
        ],
        "said": found.said,
        "notes": notes,
    }


def _fit_weight(subject: Subject) -> tuple[FloatArray | None, str]:
    """Weights of the training rows as the model had them, where they are known for all rows."""
    own, training = subject.model.sample_weight_, subject.training
    if own is None or training is None:
        return None, ""
    n_rows, rows = len(training.y), subject.model.fit_rows_
    if len(np.unique(rows)) < n_rows:
        return None, (
            "The model was fitted with weights, which are not known for all training rows: the "
            "others were fitted without."
        )
    weight = np.zeros(n_rows)
    weight[rows] = np.asarray(own)
    return weight, "All were fitted with the weights of the rows."
