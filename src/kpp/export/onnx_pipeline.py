"""What comes before a model, in ONNX: scikit-learn's steps by skl2onnx, skrub's tables by us."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from kpp._checks import is_missing
from kpp._optional import optional
from kpp._rows import columns_of
from kpp._typing import AnyArray
from kpp.export.graph import ML_DOMAIN, OPSET, Graph
from kpp.export.onnx_converter import ML_OPSET, hand_over, register_converters
from kpp.export.onnx_tables import add_table, is_table, table_kinds
from kpp.forest.coded import numbers_of
from kpp.models.asking import Question

# Steps that stand for others, which are looked at one by one.
NOTHING = ("passthrough", "drop", None)


def prepared_inputs(
    question: Question, rows: Any, dtype: Any, graph: Graph
) -> tuple[list[Any], list[Any], list[Any], list[str]]:
    """Write the preparation.

    Parameters
    ----------
    question : Question
        A model with a preparation.
    rows : data frame or array, optional
        Raw rows, for the types of the columns.
    dtype : numpy dtype
        float64 or float32: the type of numbers.
    graph : Graph
        Of the model. What casts the prepared rows goes there.

    Returns
    -------
    inputs : list of onnx.ValueInfoProto
        Inputs of the whole graph.
    nodes, constants : lists of onnx.NodeProto and onnx.TensorProto
        The preparation.
    prepared : list of str
        The tensor of prepared rows.
    """
    preparation = question.preparation
    texts = _texts_behind(question)
    if texts:
        raise TypeError(
            f"Column(s) {texts[:5]} hold texts behind the preparation, and its rows are one "
            "tensor of numbers in ONNX. Encode them in the preparation, or give the model the "
            "table itself."
        )
    if is_table(preparation):
        kinds = table_kinds(preparation, question.raw_names)
        inputs = declared(graph, kinds, dtype)
        names = [value.name for value in inputs]
        made = add_table(graph, preparation, kinds, names, question.names)
        return inputs, [], [], [made if dtype == np.float64 else graph.cast(made, dtype)]
    skl2onnx = optional("skl2onnx", "to_onnx of a Pipeline", "export")
    refuse_unknown_steps(preparation, skl2onnx)
    types = optional("skl2onnx.common.data_types", "to_onnx of a Pipeline", "export")
    found = kinds_of(question, rows)
    numbers = types.DoubleTensorType if dtype == np.float64 else types.FloatTensorType
    if found is None:
        given = [("X", numbers([None, len(question.raw_names)]))]
    else:
        given = [
            (name, (types.StringTensorType if text else numbers)([None, 1]))
            for name, text in found.items()
        ]
    converted = skl2onnx.convert_sklearn(
        preparation,
        initial_types=given,
        target_opset={"": OPSET, ML_DOMAIN: ML_OPSET},
        custom_conversion_functions={SimpleImputer: _write_imputer},
        custom_shape_calculators={SimpleImputer: _imputer_shape},
    )
    part = converted.graph
    rows_name = graph.cast(part.output[0].name, dtype)
    return list(part.input), list(part.node), list(part.initializer), [rows_name]


def declared(graph: Graph, kinds: dict[str, bool], dtype: Any) -> list[Any]:
    """Declare raw columns: one matrix of numbers, or every column where some hold texts."""
    make = graph.onnx.helper.make_tensor_value_info
    if not any(kinds.values()):
        return [make("X", graph.type_of(dtype), [None, len(kinds)])]
    return [
        make(name, graph.type_of(str if text else dtype), [None, 1]) for name, text in kinds.items()
    ]


def kinds_of(question: Question, rows: Any) -> dict[str, bool] | None:
    """Raw column -> whether it holds texts; None where rows are one matrix of numbers."""
    if rows is None or not hasattr(rows, "columns"):
        if rows is not None and np.asarray(rows).dtype.kind not in "biuf":
            raise TypeError(
                "rows of a Pipeline are numbers, or a data frame, whose columns have types; got "
                f"an array of type {np.asarray(rows).dtype}."
            )
        if rows is None and hasattr(question.preparation, "feature_names_in_"):
            # It takes columns by their names; that all are numbers is taken on trust.
            return dict.fromkeys(question.raw_names, False)
        return None
    found = zip(question.raw_names, columns_of(rows), strict=True)
    return {name: np.asarray(column).dtype.kind not in "biuf" for name, column in found}


def pipeline_feed(question: Question, X: Any, dtype: Any) -> dict[str, AnyArray]:
    """Rows as the graph of a Pipeline takes them; see `kpp.export.onnx_inputs`."""
    preparation = question.preparation
    if is_table(preparation):
        kinds: dict[str, bool] | None = table_kinds(preparation, question.raw_names)
        if kinds is not None and not any(kinds.values()):
            kinds = None
    else:
        kinds = kinds_of(question, X)
    if kinds is None:
        columns = columns_of(X if hasattr(X, "columns") else np.asarray(X))
        stacked = np.column_stack([numbers_of(own, "column") for own in columns])
        return {"X": stacked.astype(dtype)}
    found: dict[str, AnyArray] = {}
    for (name, text), column in zip(kinds.items(), columns_of(X), strict=True):
        if text:
            listed = np.asarray(column, dtype=object).tolist()
            cells = ["" if is_missing(v) or not str(v).strip() else str(v) for v in listed]
            found[name] = np.array(cells, dtype=object)[:, None]
        else:
            found[name] = numbers_of(column, f"column {name!r}").astype(dtype)[:, None]
    return found


def refuse_unknown_steps(preparation: Any, skl2onnx: Any) -> None:
    """Name all steps that skl2onnx has no converter for."""
    register_converters()
    known = optional("skl2onnx._supported_operators", "to_onnx of a Pipeline", "export")
    converters = known.sklearn_operator_name_map
    unknown = [
        f"{name} ({type(step).__name__})"
        for name, step in steps_of(preparation)
        if type(step) not in converters
    ]
    if unknown:
        raise TypeError(
            f"skl2onnx {skl2onnx.__version__} has no converter for the step(s) "
            f"{', '.join(unknown)}. Register one with skl2onnx.update_registered_converter, or "
            "export the last step and prepare the rows before."
        )


def steps_of(step: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The single transformers of a preparation, with their names."""
    own = name or type(step).__name__.lower()
    if isinstance(step, str) or step is None:
        return
    if isinstance(step, Pipeline):
        parts = [(part, inner) for part, inner in step.steps]
    elif hasattr(step, "transformers_"):  # a ColumnTransformer
        parts = [(part, inner) for part, inner, _ in step.transformers_]
    elif hasattr(step, "transformer_list"):  # a FeatureUnion
        parts = [(part, inner) for part, inner in step.transformer_list]
    else:
        yield own, step
        return
    for part, inner in parts:
        if not (isinstance(inner, str) and inner in NOTHING):
            yield from steps_of(inner, f"{name}.{part}" if name else part)


def _texts_behind(question: Question) -> list[str]:
    categories = question.model.collapse().forest.categories
    return [
        question.names[j]
        for j, known in categories.items()
        if any(isinstance(value, str) for value in known.tolist())
    ]


def _imputer_shape(operator: Any) -> None:
    """Shape and type: as many columns as it keeps, of the type that it takes."""
    kind = type(operator.inputs[0].type)
    n_columns = len(operator.raw_operator.statistics_)
    operator.outputs[0].type = kind([operator.inputs[0].get_first_dimension(), n_columns])


def _write_imputer(scope: Any, operator: Any, container: Any) -> None:
    """Numbers for what is missing, also in float64, for which ONNX's own operator is not there."""
    step = operator.raw_operator
    numbers = np.asarray(step.statistics_)
    marks_nan = isinstance(step.missing_values, float) and np.isnan(step.missing_values)
    refused = (
        numbers.dtype.kind not in "fiu"
        or np.isnan(numbers.astype(np.float64)).any()
        or step.add_indicator
        or not marks_nan
    )
    if refused:
        raise TypeError(
            "A SimpleImputer is written where it puts numbers for NaN in every column, without "
            f"add_indicator; got {step!r}."
        )
    single = type(operator.inputs[0].type).__name__ == "FloatTensorType"
    graph = Graph(ML_OPSET, prefix=scope.get_unique_variable_name("imputed") + "_")
    names = [value.full_name for value in operator.inputs]
    rows = names[0] if len(names) == 1 else graph.add("Concat", *names, axis=1)
    values = graph.constant([numbers], np.float32 if single else np.float64)
    missing = graph.add("IsNaN", rows)
    graph.node("Where", [missing, values, rows], {}, output=operator.outputs[0].full_name)
    hand_over(graph, container)
