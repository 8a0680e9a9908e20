"""skrub's ``TableVectorizer``, with which `kpp fit` prepares tables, in ONNX."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from kpp._checks import is_missing
from kpp.export.graph import Graph


def is_table(preparation: Any) -> bool:
    """Whether a preparation is a ``TableVectorizer``."""
    return type(preparation).__name__ == "TableVectorizer"


def table_kinds(preparation: Any, names: Sequence[str]) -> dict[str, bool]:
    """Tell which columns of a table hold texts; refuse encoders that are not known, by name.

    Parameters
    ----------
    preparation : skrub.TableVectorizer
        Fitted. Numbers pass through it, and texts of few categories become indicators.
    names : sequence of str
        Its columns.

    Returns
    -------
    kinds : dict of str to bool
        Column -> whether it holds texts.
    """
    encoders = {str(name): step for name, step in preparation.transformers_.items()}
    unknown = [
        f"{name} ({type(step).__name__})"
        for name, step in encoders.items()
        if type(step).__name__ not in ("PassThrough", "OneHotEncoder")
    ]
    if unknown:
        raise TypeError(
            "Numbers and texts of few categories are written in ONNX; there is no converter for "
            f"the column(s) {', '.join(unknown)}. Leave them out of the fit (kpp fit --drop), or "
            "make numbers of them before."
        )
    return {name: type(encoders.get(name)).__name__ == "OneHotEncoder" for name in names}


def add_table(
    graph: Graph,
    preparation: Any,
    kinds: dict[str, bool],
    inputs: Sequence[str],
    prepared: Sequence[str],
) -> str:
    """Add what a ``TableVectorizer`` does: numbers to float32, texts to indicators.

    Parameters
    ----------
    graph : Graph
        Where it goes.
    preparation : skrub.TableVectorizer
        Fitted.
    kinds : dict of str to bool
        From `table_kinds`.
    inputs : sequence of str
        One tensor of all columns, or one for each.
    prepared : sequence of str
        Names of the prepared columns, in order.

    Returns
    -------
    rows : str
        float64 tensor of prepared rows.
    """
    made, order = [], []
    # A column that tells nothing is dropped, and has no encoder.
    encoded = {str(name) for name in preparation.transformers_}
    columns = {str(name): names for name, names in preparation.input_to_outputs_.items()}
    for j, (name, text) in enumerate(kinds.items()):
        if name not in encoded:
            continue
        values = inputs[0]
        if len(inputs) == len(kinds):
            values = inputs[j]
        else:
            values = graph.add("Gather", values, graph.constant([j], np.int64), axis=1)
        if text:
            made.append(_indicators(graph, preparation, name, values))
        else:
            made.append(graph.cast(values, np.float32))
        order += [str(column) for column in columns[name]]
    if order != list(prepared):
        raise TypeError(
            "This TableVectorizer orders its columns in a way that is not known: "
            f"{order[:3]}... instead of {list(prepared)[:3]}..."
        )
    return graph.cast(graph.add("Concat", *made, axis=1), np.float64)


def _indicators(graph: Graph, preparation: Any, name: str, values: str) -> str:
    """One column for each category that is kept; a missing text may be a category."""
    encoder = next(s for column, s in preparation.transformers_.items() if str(column) == name)
    if encoder.max_categories is not None or encoder.min_frequency is not None:
        raise TypeError(
            f"The OneHotEncoder of column {name!r} puts rare categories together, and there is no "
            "converter for that."
        )
    known = encoder.categories_[0].tolist()
    codes = {value: k for k, value in enumerate(known) if isinstance(value, str)}
    missing = next((k for k, value in enumerate(known) if is_missing(value)), None)
    if missing is not None:
        codes |= dict.fromkeys(_words_for_missing(preparation, name), missing)
    kept = [k for k in range(len(known)) if encoder.drop_idx_ is None or k != encoder.drop_idx_[0]]
    code = graph.add(
        "LabelEncoder",
        values,
        ml=True,
        keys_strings=list(codes),
        values_int64s=list(codes.values()),
        default_int64=-1,
    )
    return graph.cast(graph.add("Equal", code, graph.constant([kept], np.int64)), np.float32)


def _words_for_missing(preparation: Any, name: str) -> list[str]:
    """Texts that count as missing there, as skrub has them."""
    found = [""]
    steps = next(s for c, s in preparation.all_processing_steps_.items() if str(c) == name)
    for step in steps:
        if type(step).__name__ == "CleanNullStrings":
            words = getattr(sys.modules[type(step).__module__], "STR_NA_VALUES", [])
            further = getattr(step, "null_strings", None) or []
            found += [*words, *([further] if isinstance(further, str) else further)]
    return list(dict.fromkeys(found))
