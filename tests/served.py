"""Exports run by the tools that they are for, and rows that tell a wrong one."""

from __future__ import annotations

import json

import numpy as np
from zoo import beside_thresholds

ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1e-35, 1e300, -1e300, 3.4028235e38]
ODD += [2.0**128, -(2.0**128), 1e-46]


def session(graph):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run(graph, inputs):
    """What onnxruntime answers, by name."""
    running = session(graph)
    names = [output.name for output in running.get_outputs()]
    return dict(zip(names, running.run(names, inputs), strict=True))


def card(graph):
    """The metadata, read back."""
    found = {}
    for entry in graph.metadata_props:
        try:
            found[entry.key] = json.loads(entry.value)
        except json.JSONDecodeError:
            found[entry.key] = entry.value
    return found


def odd_rows(forest, X, seed=0):
    """Rows at thresholds and one step beside them, and rows of odd numbers."""
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        beside = beside_thresholds(forest, X)
    odd = np.repeat(X[:1].astype(np.float64), len(ODD) * X.shape[1], axis=0)
    for j in range(X.shape[1]):
        odd[j * len(ODD) : (j + 1) * len(ODD), j] = ODD
    return np.concatenate([X, beside, odd, rng.choice(ODD, (30, X.shape[1]))])


def accepted(model, X):
    """Whether the model takes each row: all at once, or else those of each half."""
    try:
        # scikit-learn adds up the numbers to see whether all are finite.
        with np.errstate(invalid="ignore", over="ignore"):
            model.predict(X)
    except ValueError:
        if len(X) == 1:
            return np.zeros(1, dtype=bool)
        middle = len(X) // 2
        return np.concatenate([accepted(model, X[:middle]), accepted(model, X[middle:])])
    return np.ones(len(X), dtype=bool)


def scores_of(model, X):
    scores = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    return np.asarray(scores).reshape(len(X), -1)
