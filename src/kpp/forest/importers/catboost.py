"""CatBoost's models, through their public dump in JSON.

A dump holds every border as the float32 that values are compared with, every leaf value with 17
digits, and for every column where NaN goes; a row passes a split to the right where
``x > border``. What it does not hold are the names of categories: a model knows 32 bits of a hash
of each, and CatBoost finds these again for the rows that it is given; so does `read_catboost`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from re import fullmatch
from tempfile import TemporaryDirectory
from typing import Any

import catboost
import numpy as np
from sklearn.exceptions import NotFittedError

from kpp._rows import columns_of
from kpp._typing import AnyArray
from kpp.forest.arrays import Forest
from kpp.forest.bare import BareScores
from kpp.forest.coded import CodedRows
from kpp.forest.importers.catboost_trees import (
    Columns,
    ReadTree,
    node_values,
    other_tree,
    symmetric_tree,
)
from kpp.forest.importers.registry import Importer, Traits

# Losses whose scores compare rows of one group, and say nothing of a row by itself.
RANKING_LOSSES = (
    *("GroupQuantile", "LambdaMart", "PairLogit", "PairLogitPairwise", "QueryCrossEntropy"),
    *("QueryRMSE", "QuerySoftMax", "StochasticFilter", "StochasticRank", "YetiRank"),
    "YetiRankPairwise",
)
# One score for the second of two classes, and one score for each class.
LOSSES_OF_TWO_CLASSES = ("CrossEntropy", "Focal", "Logloss")
LOSSES_OF_CLASSES = ("MultiClass", "MultiClassOneVsAll")
# What a text must be to be what CatBoost makes of a whole number.
WHOLE_NUMBER = "0|-?[1-9][0-9]*"


def read_catboost(model: Any, rows: Any = None) -> Forest:
    """Trees of any grow policy. They were grown on gradients: no statistics of y.

    Parameters
    ----------
    model : CatBoost, CatBoostRegressor or CatBoostClassifier
        Fitted, or loaded from a file.
    rows : data frame, array or CodedRows of shape (n_rows, n_features), optional
        Rows that hold every category that a split asks for. Needed where there are such splits.

    Returns
    -------
    forest : Forest
        A category that CatBoost would refuse, as NaN, goes where unknown ones go: to the side of
        those that are not equal.
    """
    _refuse_other_columns(model)
    dump = _dump(model)
    loss = _loss(model, dump)
    columns = _read_columns(model, dump, rows)
    read = _read_trees(model, dump, columns)
    scale, bias = dump["scale_and_bias"]
    values = scale * node_values(read)
    base = np.zeros(len(values))
    base[:] = bias or 0.0
    return Forest.from_trees(
        [one.tree for one in read],
        n_features=len(model.feature_names_),
        dtype=np.float32,
        feature_names=tuple(model.feature_names_) if _has_names(dump) else None,
        categories=columns.categories,
        allows_nan=True,
        allows_infinity=True,
        source=type(model).__name__,
        # The leaves hold the learning rate.
        bare=BareScores(base, "sum", values, classes=_classes(model, dump, loss, len(base))),
    )


def check_fitted(model: Any) -> None:
    """Refuse a model without trees."""
    if not model.is_fitted():
        raise NotFittedError(f"This {type(model).__name__} is not fitted yet: call fit first.")


IMPORTERS = (
    Importer(
        (catboost.CatBoost,),
        read_catboost,
        Traits(combines="sum", one_target=True),
        "CatBoost, CatBoostClassifier/Regressor",
        check_fitted=check_fitted,
        takes_rows=True,
    ),
)


def _refuse_other_columns(model: Any) -> None:
    """Refuse texts and embeddings, of which there is no dump either."""
    for kind, columns in (
        ("texts", model.get_text_feature_indices()),
        ("embeddings", model.get_embedding_feature_indices()),
    ):
        if len(columns):
            raise TypeError(
                f"Cannot read {type(model).__name__}: {_named(model, columns)} holds {kind}, from "
                "which CatBoost makes numbers by itself. Make columns of numbers of them first, as "
                "by a TfidfVectorizer in a Pipeline, and fit the model on these."
            )


def _dump(model: Any, pool: Any = None) -> dict[str, Any]:
    """What the model says of itself."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json", pool=pool)
        dump: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if not {"features_info", "scale_and_bias", "model_info"} <= dump.keys() or not (
        dump.get("oblivious_trees") or dump.get("trees")
    ):
        raise _of_unknown_form(model)
    return dump


def _of_unknown_form(model: Any) -> TypeError:
    return TypeError(
        f"Cannot read {type(model).__name__} of CatBoost {catboost.__version__}: its dump in JSON "
        "has another form than that of CatBoost 1.2. Use another version of CatBoost."
    )


def _loss(model: Any, dump: dict[str, Any]) -> str:
    """The name of the loss that the model was fitted for."""
    info = dump["model_info"]
    loss = _parsed(info.get("params", {})).get("loss_function", info.get("loss_function"))
    if loss is None:
        raise TypeError(
            f"Cannot read this {type(model).__name__}: it does not say for which loss it was "
            "fitted, as a sum of models of different losses. Read these one by one."
        )
    name = str(_parsed(loss)["type"])
    if name in RANKING_LOSSES:
        raise TypeError(
            f"Cannot read {type(model).__name__} of the loss {name}: its scores rank the rows of a "
            "group, and a row by itself has none. Fit a CatBoostRegressor or CatBoostClassifier "
            "of another loss."
        )
    return name


def _parsed(value: Any) -> dict[str, Any]:
    """Parts of a dump that may be JSON in JSON."""
    found: dict[str, Any] = json.loads(value) if isinstance(value, str) else value
    return found


def _read_columns(model: Any, dump: dict[str, Any], rows: Any) -> Columns:
    info = dump["features_info"]
    numbers, categorical = info.get("float_features", []), info.get("categorical_features", [])
    column = {}
    for name, features in (("float_feature_index", numbers), ("cat_feature_index", categorical)):
        for feature in features:
            column[name, feature["feature_index"]] = feature["flat_feature_index"]
    if "ctrs" in info:
        used = {
            column["cat_feature_index", element["cat_feature_index"]]
            for statistic in info["ctrs"]
            for element in statistic["elements"]
            if "cat_feature_index" in element
        }
        raise TypeError(
            f"Cannot read {type(model).__name__}: its trees split on target statistics of "
            f"{_named(model, sorted(used))}, numbers that CatBoost makes of categories. Fit it "
            "with one_hot_max_size at least as large as the number of categories of these "
            "columns, or encode them first and fit it on the result."
        )
    asked = {f["flat_feature_index"]: set(f["values"]) for f in categorical if f.get("values")}
    categories = {f["flat_feature_index"]: np.empty(0, dtype=object) for f in categorical}
    hashes = {}
    if asked:
        texts = _texts_of_columns(model, sorted(asked), rows)
        hash_of = _hashes(model, texts)
        for j, own in texts.items():
            lacking = asked[j] - {hash_of[text] for text in own}
            if lacking:
                raise TypeError(
                    f"Cannot read {type(model).__name__}: {_named(model, [j])} has {len(lacking)} "
                    "categories in its splits that no given row holds, and CatBoost keeps only "
                    "hashes of them. Give all rows of training: Forest.from_model(model, rows=X)."
                )
            values = [(value, hash_of[text]) for text in own for value in _read_as(text)]
            categories[j] = np.empty(len(values), dtype=object)
            categories[j][:] = [value for value, _ in values]
            hashes[j] = np.array([hash_ for _, hash_ in values])
    return Columns(
        column=column,
        # A column without NaN in training has no side for it, and NaN > border is false.
        missing_left={
            f["flat_feature_index"]: not (f["has_nans"] and f["nan_value_treatment"] == "AsTrue")
            for f in numbers
        },
        categories=categories,
        hashes=hashes,
    )


def _texts_of_columns(model: Any, columns: list[int], rows: Any) -> dict[int, list[str]]:
    """The categories that rows hold, as CatBoost reads them; whole numbers first, in order."""
    if rows is None:
        raise TypeError(
            f"Cannot read {type(model).__name__} without rows: it splits on the categories of "
            f"{_named(model, columns)}, and CatBoost keeps only hashes of them. Give the rows of "
            "training, Forest.from_model(model, rows=X), and that forest wherever the model would "
            "be given."
        )
    n_features = len(model.feature_names_)
    shape = tuple(rows.shape) if hasattr(rows, "shape") else np.shape(rows)
    if len(shape) != 2 or shape[1] != n_features:
        raise ValueError(
            f"rows must have the {n_features} columns of the model; got shape {shape}."
        )
    given = None if isinstance(rows, CodedRows) else columns_of(rows)
    texts = {}
    for j in columns:
        if given is not None:
            values = np.asarray(given[j]).tolist()
        elif j in rows.categories:
            values = rows.categories[j].tolist()
        else:
            values = rows.values[:, j].tolist()
        found = {_as_text(value) for value in set(values)}
        texts[j] = sorted((text for text in found if text is not None), key=_whole_numbers_first)
    return texts


def _as_text(value: Any) -> str | None:
    """What CatBoost hashes; None of what it refuses, as NaN and fractions."""
    if isinstance(value, str):
        return value
    # Whole numbers as floats are what a table with gaps, or a kpp table, makes of integers.
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return str(int(value)) if is_whole else None


def _read_as(text: str) -> tuple[Any, ...]:
    """All values that CatBoost reads as this text: 3 and "3" are the same to it, True is 1."""
    return (int(text), text) if fullmatch(WHOLE_NUMBER, text) else (text,)


def _whole_numbers_first(text: str) -> tuple[bool, int, str]:
    is_whole = fullmatch(WHOLE_NUMBER, text) is not None
    return not is_whole, int(text) if is_whole else 0, text


def _hashes(model: Any, texts: dict[int, list[str]]) -> dict[str, int]:
    """CatBoost's hash of each text, as its splits hold it: it lists those of any pool."""
    table = np.zeros((max(map(len, texts.values())), len(model.feature_names_)), dtype=object)
    table[:, model.get_cat_feature_indices()] = "0"
    for j, own in texts.items():
        table[: len(own), j] = own
    pool = catboost.Pool(
        table,
        cat_features=model.get_cat_feature_indices(),
        feature_names=model.feature_names_,
    )
    listed = _dump(model, pool)["features_info"]["cat_features_hash"]
    # Unsigned in the list, signed in the splits.
    return {entry["value"]: (entry["hash"] + 2**31) % 2**32 - 2**31 for entry in listed}


def _read_trees(model: Any, dump: dict[str, Any], columns: Columns) -> list[ReadTree]:
    """The trees, with the leaf numbers of ``calc_leaf_indexes``."""
    stored = np.asarray(model.get_leaf_values(), dtype=np.float64)
    # In a model that was fitted, or loaded from CatBoost's own format, leaves are numbered by a
    # walk that takes a leaf before the subtree beside it; in one that was loaded from JSON by one
    # that goes left first. Which it was, the order of the stored values says.
    for leaf_first in (True, False):
        if "oblivious_trees" in dump:
            read = [symmetric_tree(tree, columns) for tree in dump["oblivious_trees"]]
        else:
            read = [other_tree(tree, columns, leaf_first=leaf_first) for tree in dump["trees"]]
        values = np.concatenate([one.values.ravel() for one in read])
        if np.array_equal(values, stored, equal_nan=True):
            return read
    raise _of_unknown_form(model)


def _classes(model: Any, dump: dict[str, Any], loss: str, n_scores: int) -> AnyArray | None:
    """The labels that scores belong to; a class that training lacked has no score."""
    classes = np.asarray(model.classes_)
    if loss in LOSSES_OF_TWO_CLASSES:
        return classes if len(classes) == 2 else None
    if loss not in LOSSES_OF_CLASSES:
        return None
    params = _parsed(dump["model_info"].get("class_params", {}))
    classes = classes[params.get("class_to_label", slice(None))]
    return classes if len(classes) == n_scores else None


def _has_names(dump: dict[str, Any]) -> bool:
    """Whether columns have names of their own, and not their numbers only."""
    info = dump["features_info"]
    kinds = ("float_features", "categorical_features")
    return any(feature["feature_id"] for kind in kinds for feature in info.get(kind, ()))


def _named(model: Any, columns: Iterable[int]) -> str:
    """What errors call some columns."""
    names = [repr(model.feature_names_[j]) for j in columns]
    more = len(names) - 3
    told = ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")
    return f"column{'s' if len(names) > 1 else ''} {told}"
