"""The converter of our models for skl2onnx: ``skl2onnx.to_onnx(pipeline)`` knows them then."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._optional import optional
from kpp.export.graph import ML_DOMAIN, OPSET, Graph
from kpp.export.onnx_answers import add_answers, add_predictions, label_array
from kpp.export.onnx_scores import ScoreGraph
from kpp.models import KPPClassifier, KPPRegressor
from kpp.models.asking import ask

# The latest version of the operators of machine learning that skl2onnx writes.
ML_OPSET = 3


def register_converters() -> None:
    """Tell skl2onnx how our models are written, so that it writes Pipelines that end in one.

    skl2onnx then gives ``variable`` of a regressor, and ``label`` and ``probabilities`` of a
    classifier, in the type of its inputs, as with any estimator. It writes version 3 of ONNX's
    operators of machine learning, so scores are rounded to float32 and sets of categories are
    refused; `kpp.to_onnx` writes version 5.

    Examples
    --------
    >>> import numpy as np
    >>> import skl2onnx
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kpp import KPPRegressor
    >>> from kpp.export import register_converters
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=0)
    >>> pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    >>> register_converters()
    >>> graph = skl2onnx.to_onnx(pipeline, X[:1])
    >>> [output.name for output in graph.graph.output]
    ['variable']
    """
    skl2onnx = optional("skl2onnx", "register_converters", "export")
    for kind, shapes in ((KPPRegressor, _regressor_shape), (KPPClassifier, _classifier_shape)):
        skl2onnx.update_registered_converter(
            kind,
            f"Kpp{kind.__name__}",
            shapes,
            _convert,
            overwrite=True,
            options={"zipmap": [True, False, "columns"]} if kind is KPPClassifier else None,
        )


def _is_single(operator: Any) -> bool:
    return all(type(value.type).__name__ == "FloatTensorType" for value in operator.inputs)


def _regressor_shape(operator: Any) -> None:
    types = optional("skl2onnx.common.data_types", "register_converters", "export")
    numbers = types.FloatTensorType if _is_single(operator) else types.DoubleTensorType
    n_scores = operator.raw_operator.additive_.n_scores
    operator.outputs[0].type = numbers([operator.inputs[0].get_first_dimension(), n_scores])


def _classifier_shape(operator: Any) -> None:
    types = optional("skl2onnx.common.data_types", "register_converters", "export")
    numbers = types.FloatTensorType if _is_single(operator) else types.DoubleTensorType
    classes = label_array(operator.raw_operator.classes_)
    kinds = {"U": types.StringTensorType, "i": types.Int64TensorType, "b": types.BooleanTensorType}
    label = kinds.get(classes.dtype.kind, types.DoubleTensorType)
    n_rows = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type = label([n_rows])
    operator.outputs[1].type = numbers([n_rows, len(classes)])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    question = ask(operator.raw_operator)
    single = _is_single(operator)
    scores = ScoreGraph.of(question.model, question.names, np.float32 if single else np.float64)
    graph = Graph(ML_OPSET, prefix=scope.get_unique_variable_name("kpp") + "_")
    names = [value.full_name for value in operator.inputs]
    dtype = scores.dtype
    if len(names) not in (1, len(scores.columns)):
        names = [graph.add("Concat", *names, axis=1)]
    if any(column.is_text for column in scores.columns) and len(names) == 1:
        raise TypeError("A model with columns of texts takes its columns one by one.")
    kinds = [c.is_text for c in scores.columns] if len(names) > 1 else [False]
    given = zip(names, kinds, strict=True)
    names = [name if text else graph.cast(name, dtype) for name, text in given]
    found = scores.add_to(graph, names)
    outputs = [value.full_name for value in operator.outputs]
    if scores.additive.classes is None:
        found = add_predictions(graph, scores, found)
        graph.node("Cast", [found], {"to": graph.type_of(dtype)}, output=outputs[0])
    else:
        further = [f"{graph.prefix}scores", f"{graph.prefix}prediction"]
        add_answers(graph, scores, found, [*outputs, *further])
    hand_over(graph, container)


def hand_over(graph: Graph, container: Any) -> None:
    """Give the nodes of a graph to skl2onnx's container."""
    container.nodes.extend(graph.nodes)
    container.initializers.extend(graph.constants)
    domains = {node.domain for node in graph.nodes}
    versions = {"": OPSET, ML_DOMAIN: graph.ml_opset}
    container.node_domain_version_pair_sets |= {(name, versions[name]) for name in domains}
