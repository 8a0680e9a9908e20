"""Scores to answers in ONNX: predictions, labels and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kpp._typing import AnyArray
from kpp.export.graph import Graph
from kpp.export.onnx_scores import ScoreGraph
from kpp.solvers.regression_losses import LARGEST_LOG


def add_answers(
    graph: Graph,
    scores: ScoreGraph,
    found: str,
    names: Sequence[str] = ("label", "probabilities", "scores", "prediction"),
) -> list[Any]:
    """Add what scores become, and declare it.

    Parameters
    ----------
    graph : Graph
        Where it goes.
    scores : ScoreGraph
        The model.
    found : str
        float64 tensor of scores, shape (n_rows, n_scores).
    names : sequence of str
        Of labels, probabilities, scores and predictions.

    Returns
    -------
    outputs : list of onnx.ValueInfoProto
    """
    make = graph.onnx.helper.make_tensor_value_info
    additive, n_scores = scores.additive, scores.additive.n_scores
    label, probability, score, prediction = names
    kind = graph.type_of(scores.dtype)

    def give(value: str, name: str, shape: list[int | None]) -> Any:
        graph.node("Cast", [value], {"to": kind}, output=name)
        return make(name, kind, shape)

    if additive.classes is None:
        single = n_scores == 1
        found = add_predictions(graph, scores, found)
        answer = graph.add("Squeeze", found, graph.constant([1], np.int64)) if single else found
        return [give(answer, prediction, [None] if single else [None, n_scores])]
    if n_scores == 1:
        both = graph.add("Concat", graph.add("Neg", found), found, axis=1)
        chances = graph.add("Sigmoid", both)
        ups = graph.cast(graph.add("Greater", found, graph.constant(0.0, np.float64)), np.int64)
        place = graph.add("Squeeze", ups, graph.constant([1], np.int64))
        found = graph.add("Squeeze", found, graph.constant([1], np.int64))
    else:
        chances = graph.add("Softmax", found, axis=1)
        place = graph.add("ArgMax", found, axis=1, keepdims=0)
    labels = label_array(additive.classes)
    graph.node("Gather", [graph.constant(labels), place], {}, output=label)
    return [
        make(label, graph.type_of(labels.dtype), [None]),
        give(chances, probability, [None, len(labels)]),
        give(found, score, [None] if n_scores == 1 else [None, n_scores]),
    ]


def add_predictions(graph: Graph, scores: ScoreGraph, found: str) -> str:
    """Add what makes predictions of the scores of a regressor.

    Parameters
    ----------
    graph : Graph
        Where it goes.
    scores : ScoreGraph
        The model.
    found : str
        float64 tensor of scores, shape (n_rows, n_scores).

    Returns
    -------
    predictions : str
        The scores; with Poisson's loss their exponentials; of several quantiles in order.
    """
    if scores.additive.is_log:
        return graph.add("Exp", graph.add("Min", found, graph.constant(LARGEST_LOG, np.float64)))
    if scores.rank is None:
        return found
    number = graph.constant([len(scores.rank)], np.int64)
    rising = graph.node("TopK", [found, number], {"axis": 1, "largest": 0}, n_unread=1)
    return graph.add("Gather", rising, graph.constant(scores.rank, np.int64), axis=1)


def label_array(classes: AnyArray) -> AnyArray:
    """Class labels as a tensor has them; refuse others by name.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.export.onnx_answers import label_array
    >>> label_array(np.array(["a", "b"], dtype=object)).tolist()
    ['a', 'b']
    """
    if classes.dtype.kind == "O" and all(isinstance(label, str) for label in classes.tolist()):
        return np.array(classes.tolist(), dtype=str)
    kinds: dict[str, Any] = {
        "i": np.int64,
        "u": np.int64,
        "f": np.float64,
        "b": np.bool_,
        "U": classes.dtype,
    }
    if classes.dtype.kind not in kinds:
        raise TypeError(
            "ONNX has labels that are numbers, booleans or texts; this model has labels of type "
            f"{type(classes.tolist()[0]).__name__}. Make texts of them before the fit."
        )
    return classes.astype(kinds[classes.dtype.kind])
