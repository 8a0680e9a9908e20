"""`to_onnx`: a fitted model as an ONNX graph."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from kpp._checks import check_choice
from kpp._typing import AnyArray
from kpp.export.card import model_card
from kpp.export.graph import ML_DOMAIN, OPSET, Graph
from kpp.export.onnx_answers import add_answers
from kpp.export.onnx_scores import ScoreGraph
from kpp.models.asking import Question, ask

PRECISIONS = {"double": np.float64, "single": np.float32}
# The version of the file format that each version of the operators came with.
IR_VERSION = {3: 8, 5: 10}


def to_onnx(model: Any, *, rows: Any = None, precision: str = "double", ml_opset: int = 5) -> Any:
    r"""Write a fitted model as an ONNX graph: trees, linear terms, labels and probabilities.

    The graph is that of `collapse`: one ``TreeEnsemble`` of all trees, whose leaves hold
    :math:`P_k(v)`, and beside it the clipped linear terms, where the model has some.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline
        Fitted. The steps of a Pipeline before the model are written by skl2onnx.
    rows : data frame or array of shape (n_rows, n_columns), optional
        Rows as the model takes them. Of a Pipeline they tell the types of the columns; without
        them all are numbers. With ``precision="single"`` they are routed, and the share of
        them that float32 sends to another leaf is in the metadata, and in a warning.
    precision : {"double", "single"}, default="double"
        "double" takes float64 rows and decides as the model does, for every number. "single" takes
        float32 rows, and decides for each of these as the model does.
    ml_opset : {5, 3}, default=5
        Version of ONNX's operators of machine learning. Version 3, for older runtimes, gives scores
        rounded to float32, and has no categories; of several classes its graph is smaller.

    Returns
    -------
    onnx_model : onnx.ModelProto
        It takes ``X``, of shape (n_rows, n_features), or a tensor of shape (n_rows, 1) for each
        column, by its name, where some hold texts; see `onnx_inputs`. It gives ``prediction`` of a
        regressor, and ``label``, ``probabilities`` and ``scores`` of a classifier. The metadata is
        the model card: regime, columns, versions, and how far a score may be from the model's.

    Raises
    ------
    TypeError
        For what ONNX cannot say, by name.

    Notes
    -----
    A row that the model refuses (an infinite value, or a missing one, where its forests take none)
    has NaN for scores and probabilities. A missing text is an empty one.

    References
    ----------
    Proposition attribution-node.

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier, to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KPPClassifier("extra-trees", n_estimators=10, alpha=0.01, random_state=0).fit(X, y)
    >>> graph = to_onnx(model).SerializeToString()
    >>> session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    >>> label, probability = session.run(["label", "probabilities"], {"X": X})
    >>> bool((label == model.predict(X)).all())
    True
    >>> bool(abs(probability - model.predict_proba(X)).max() < 1e-14)
    True
    """
    check_choice("precision", precision, tuple(PRECISIONS))
    if ml_opset not in IR_VERSION:
        raise ValueError(f"ml_opset must be 5 or 3; got {ml_opset!r}.")
    question = ask(model)
    dtype = np.dtype(PRECISIONS[precision])
    scores = ScoreGraph.of(question.model, question.names, dtype)
    graph = Graph(ml_opset)
    nodes: list[Any] = []
    constants: list[Any] = []
    if question.preparation is None:
        inputs = own_inputs(graph, scores)
        made = [value.name for value in inputs]
    else:
        from kpp.export.onnx_pipeline import prepared_inputs

        inputs, nodes, constants, made = prepared_inputs(question, rows, dtype, graph)
    outputs = add_answers(graph, scores, scores.add_to(graph, made))
    further: dict[str, Any] = {"score_tolerance": scores.tolerance(ml_opset)}
    if rows is not None and dtype == np.float32:
        further["rows_in_other_leaves"] = share_moved(question, scores, rows)
    return _model(graph, question, scores, (inputs, nodes, constants), outputs, further)


def _model(
    graph: Graph,
    question: Question,
    scores: ScoreGraph,
    before: tuple[list[Any], list[Any], list[Any]],
    outputs: list[Any],
    further: dict[str, Any],
) -> Any:
    onnx = graph.onnx
    inputs, nodes, constants = before
    whole = onnx.helper.make_graph(
        [*nodes, *graph.nodes],
        f"kpp_{type(question.model).__name__}",
        inputs,
        outputs,
        [*constants, *graph.constants],
    )
    versions = [("", OPSET), (ML_DOMAIN, graph.ml_opset)]
    made = onnx.helper.make_model(
        whole,
        opset_imports=[onnx.helper.make_opsetid(*pair) for pair in versions],
        ir_version=IR_VERSION[graph.ml_opset],
        producer_name="kpp",
    )
    onnx.helper.set_model_props(made, model_card(question, scores, **further))
    onnx.checker.check_model(made)
    return made


def own_inputs(graph: Graph, scores: ScoreGraph) -> list[Any]:
    """Declare the inputs: one matrix of numbers, or every column where some hold texts."""
    make = graph.onnx.helper.make_tensor_value_info
    if not any(column.is_text for column in scores.columns):
        shape = [None, len(scores.columns)]
        return [make("X", graph.type_of(scores.dtype), shape)]
    return [
        make(c.name, graph.type_of(str if c.is_text else scores.dtype), [None, 1])
        for c in scores.columns
    ]


def share_moved(question: Question, scores: ScoreGraph, rows: Any) -> float:
    """Share of rows that have another leaf in some tree once their numbers are float32.

    Parameters
    ----------
    question : Question
        The model.
    scores : ScoreGraph
        Its graph.
    rows : data frame or array
        Raw rows.

    Returns
    -------
    share : float
    """
    given = question.rows(rows)
    values = given.X
    numbers = [j for j, column in enumerate(scores.columns) if column.categories is None]
    if hasattr(values, "columns"):
        rounded = values.astype({values.columns[j]: np.float32 for j in numbers})
    else:
        rounded = np.array(values)
        rounded[:, numbers] = rounded[:, numbers].astype(np.float32)
    again = question.model.at(rounded)
    pairs = zip(given.leaf_ids, again.leaf_ids, strict=True)
    moved = np.any([(own != other).any(axis=0) for own, other in pairs], axis=0)
    share = float(moved.mean()) if len(moved) else 0.0
    if share:
        warnings.warn(
            f"{share:.2%} of the given rows are in another leaf of some tree once their numbers "
            "are float32. precision='double' keeps every row in its leaf.",
            UserWarning,
            stacklevel=3,
        )
    return share


def onnx_inputs(model: Any, X: Any, *, precision: str = "double") -> dict[str, AnyArray]:
    """Bring rows into the form that the graph of `to_onnx` takes.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline
        The model that was written.
    X : array-like or data frame of shape (n_rows, n_columns)
        Rows as the model takes them.
    precision : {"double", "single"}, default="double"
        As it was written.

    Returns
    -------
    inputs : dict of str to array
        For ``InferenceSession.run``; a missing text is an empty one.

    Examples
    --------
    >>> import pandas as pd
    >>> from kpp import KPPRegressor
    >>> from kpp.export import onnx_inputs
    >>> X = pd.DataFrame({"size": [1.0, 2.0, 3.0] * 5, "kind": ["a", "b", None] * 5})
    >>> model = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=0)
    >>> inputs = onnx_inputs(model.fit(X, X["size"]), X[:3])
    >>> inputs["kind"].ravel().tolist(), inputs["size"].ravel().tolist()
    (['a', 'b', ''], [1.0, 2.0, 3.0])
    """
    check_choice("precision", precision, tuple(PRECISIONS))
    question, dtype = ask(model), np.dtype(PRECISIONS[precision])
    if question.preparation is not None:
        from kpp.export.onnx_pipeline import pipeline_feed

        return pipeline_feed(question, X, dtype)
    scores = ScoreGraph.of(question.model, question.names, dtype)
    return feed(scores, X)


def feed(scores: ScoreGraph, X: Any) -> dict[str, AnyArray]:
    """Rows as the graph of a model without preparation takes them."""
    from kpp._checks import is_missing
    from kpp._rows import columns_of
    from kpp.forest.coded import numbers_of

    table = X if hasattr(X, "columns") else np.asarray(X)
    named = zip(columns_of(table), scores.columns, strict=True)
    if not any(column.is_text for column in scores.columns):
        numbers = [numbers_of(own, f"column {column.name!r}") for own, column in named]
        return {"X": np.column_stack(numbers).astype(scores.dtype)}
    found: dict[str, AnyArray] = {}
    for own, column in named:
        if column.is_text:
            texts = ["" if is_missing(v) else str(v) for v in np.asarray(own).tolist()]
            found[column.name] = np.array(texts, dtype=object)[:, None]
        else:
            numbers_here = numbers_of(own, f"column {column.name!r}")
            found[column.name] = numbers_here.astype(scores.dtype)[:, None]
    return found
