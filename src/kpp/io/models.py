"""The estimators of this package, and collapsed forests, in a file.

The scores of a model are sums of one number per leaf; those numbers are stored and not computed
anew. What is recomputed (path sums at splits) is made of single IEEE operations in a fixed
order, and is the same on every machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from kpp._typing import AnyArray, FloatArray
from kpp.forest.arrays import Forest
from kpp.geometry import named_blocks
from kpp.geometry.composed import BlockMap
from kpp.geometry.maps import MapBlock, PathMap
from kpp.io.errors import CannotSaveError
from kpp.io.fields import check_names, floats, integers, is_number, labels, require, threads, whole
from kpp.io.forests import MOST_COLUMNS
from kpp.io.values import MOST_KEY_STEPS, Fields, Kind, key_steps
from kpp.io.writer import Writer
from kpp.models.classifier import KPPClassifier
from kpp.models.embedding import KPPEmbedding
from kpp.models.regimes import REGIMES
from kpp.models.regressor import KPPRegressor
from kpp.scores import AdditiveForest, ScoreBlock

TASKS = ("classification", "regression", "unsupervised")
OUTPUT = "_sklearn_output_config"
# A leaf's value is a sum of as many terms as the path is long, at most this far from it,
# relative to the sum of their magnitudes.
ROUNDING = 1e-9
SHARED_FIELDS = ("parameters", "n_features_in_", "feature_names_in_", "blocks", "output")
LINEAR_FIELDS = (
    *SHARED_FIELDS,
    *("coefficients", "intercept", "leaf_values", "dual_coef_", "single", "classes_"),
    *("alpha_", "alphas_", "cv_scores_", "oof_prediction_", "folds", "regime_", "n_iter_"),
    *("partition_rows", "fit_rows", "sample_weight_", "feature_spread_", "missing_columns_"),
)
EMBEDDING_FIELDS = (*SHARED_FIELDS, "task_")
COLLAPSED_FIELDS = ("forest", "node_values", "intercept", "node_rows")
# What a fit sets; anything else on an estimator is the user's, and the file has no place for it.
LINEAR_ATTRIBUTES = {
    *("n_features_in_", "feature_names_in_", "map_", "forest_", "node_coef_", "intercept_"),
    *("dual_coef_", "_single", "classes_", "alpha_", "alphas_", "cv_scores_", "n_iter_"),
    *("oof_prediction_", "folds_", "regime_", "partition_rows_", "fit_rows_", "sample_weight_"),
    *("feature_spread_", "missing_columns_", "_leaf_values", OUTPUT),
}
EMBEDDING_ATTRIBUTES = {
    *("n_features_in_", "feature_names_in_", "map_", "forest_", "task_", OUTPUT),
}


def _encode_shared(model: Any, writer: Writer, where: str, known: set[str]) -> Fields:
    check_is_fitted(model, "map_")
    blocks = named_blocks(model.map_)
    other = [block for _, block in blocks if not isinstance(block, PathMap)]
    if other:
        raise CannotSaveError(f"Cannot save {where}: a block of {type(other[0]).__name__}.")
    parameters = model.get_params(deep=False)
    parameters["forest"] = _forest_parameter(parameters["forest"], blocks)
    strange = sorted(vars(model).keys() - parameters.keys() - known)
    if strange:
        raise CannotSaveError(
            f"Cannot save {where}: the attribute {strange[0]!r} is not one that a fit sets, and "
            "files have no place for it. Delete it, or pass it to save as metadata."
        )
    names = [name for name, _ in blocks] if isinstance(model.map_, BlockMap) else None
    maps = [writer.value(block, f"{where}.map_") for _, block in blocks]
    return {
        "parameters": writer.value(parameters, where),
        "n_features_in_": int(model.n_features_in_),
        "feature_names_in_": writer.value(getattr(model, "feature_names_in_", None), where),
        "blocks": {"$": "tuple", "items": [writer.value(names, where), maps]},
        "output": writer.value(getattr(model, OUTPUT, None), f"{where}.{OUTPUT}"),
    }


def _forest_parameter(forest: Any, blocks: list[tuple[str, MapBlock]]) -> Any:
    """The parameter `forest`; a frozen estimator becomes the forest that was read from it."""
    own = [block.forest for _, block in blocks if isinstance(block, PathMap)]
    if isinstance(forest, FrozenEstimator):
        return own[0]
    if not isinstance(forest, list):
        return forest
    pairs = [(pair, own[k] if k < len(own) else None) for k, pair in enumerate(forest)]
    return [
        (pair[0], read) if isinstance(pair[1], FrozenEstimator) else pair for pair, read in pairs
    ]


def _decode_shared(cls: Any, fields: Fields) -> Any:
    """An estimator with its parameters, columns, forests and map."""
    parameters = fields["parameters"]
    require(isinstance(parameters, dict), "parameters must be by name")
    require(all(isinstance(name, str) for name in parameters), "parameters must be by name")
    threads(parameters.get("n_jobs"))
    model = cls(**parameters)  # unknown ones are an error; the constructor only keeps them
    model.n_features_in_ = whole(fields["n_features_in_"], "columns", 1, MOST_COLUMNS)
    names = fields["feature_names_in_"]
    if names is not None:
        right = isinstance(names, np.ndarray) and names.shape == (model.n_features_in_,)
        require(right and names.dtype == object, "every column needs a name")
        require(all(isinstance(name, str) for name in names.tolist()), "names must be text")
        model.feature_names_in_ = names
    model.map_, model.forest_ = _blocks(fields["blocks"], model.n_features_in_)
    if fields["output"] is not None:
        config = fields["output"]
        plain = isinstance(config, dict) and config.keys() <= {"transform", "predict"}
        known = (None, "default", "pandas", "polars")
        require(plain and all(v in known for v in config.values()), "an output that is not known")
        setattr(model, OUTPUT, config)
    return model


def _blocks(blocks: Any, n_columns: int) -> tuple[MapBlock, Any]:
    require(isinstance(blocks, tuple) and len(blocks) == 2, "blocks must be names and maps")
    names, maps = blocks
    require(isinstance(maps, list) and maps, "a model needs a map")
    require(all(isinstance(block, PathMap) for block in maps), "a block must be a map")
    require(all(b.forest.n_features == n_columns for b in maps), "forests of other columns")
    if names is None:
        require(len(maps) == 1, "several maps need names")
        return maps[0], maps[0].forest
    right = isinstance(names, list) and len(names) == len(maps)
    require(right and all(isinstance(name, str) for name in names), "every block needs a name")
    require(len({block.shape[0] for block in maps}) == 1, "blocks must be at the same rows")
    forests = [(name, block.forest) for name, block in zip(names, maps, strict=True)]
    return BlockMap(list(zip(names, maps, strict=True))), forests


def encode_embedding(model: KPPEmbedding, writer: Writer, where: str) -> Fields:
    """Take an embedding apart."""
    fields = _encode_shared(model, writer, where, EMBEDDING_ATTRIBUTES)
    return fields | {"task_": model.task_}


def decode_embedding(fields: Fields) -> KPPEmbedding:
    """Put an embedding together."""
    check_names(fields, EMBEDDING_FIELDS, "KPPEmbedding")
    model: KPPEmbedding = _decode_shared(KPPEmbedding, fields)
    require(fields["task_"] in TASKS, "the task must be known")
    model.task_ = fields["task_"]
    return model


def encode_linear(model: Any, writer: Writer, where: str) -> Fields:
    """Take a regressor or classifier apart."""
    fields = _encode_shared(model, writer, where, LINEAR_ATTRIBUTES)
    kept = (
        *("dual_coef_", "classes_", "alpha_", "alphas_", "cv_scores_", "oof_prediction_"),
        *("regime_", "n_iter_", "sample_weight_", "feature_spread_", "missing_columns_"),
    )
    folds = model.folds_
    if folds is not None:
        folds = [[_steps(train, writer), _steps(test, writer)] for train, test in folds]
    partition = model.partition_rows_
    return fields | {
        **{name: writer.value(getattr(model, name, None), f"{where}.{name}") for name in kept},
        "coefficients": writer.value(np.atleast_2d(model.node_coef_), where),
        "intercept": writer.value(np.atleast_1d(model.intercept_).astype(np.float64), where),
        "leaf_values": [
            writer.value(block.node_values[:, block.forest.is_leaf], where)
            for block in model.additive_.blocks
        ],
        "single": np.ndim(model.intercept_) == 0,
        "folds": folds,
        "partition_rows": None if partition is None else _steps(partition, writer),
        "fit_rows": _steps(model.fit_rows_, writer),
    }


def _steps(rows: AnyArray, writer: Writer) -> dict[str, Any]:
    """Row numbers by their differences, which are small where they are in order."""
    return writer.packed(np.diff(np.asarray(rows, dtype=np.int64), prepend=0))


def _rows(steps: Any, what: str) -> AnyArray:
    most = np.iinfo(np.int32).max
    differences = integers(steps, what, None, -most, most)
    require(len(differences) <= most, f"too many {what}")
    rows = np.cumsum(differences)
    require(not len(rows) or (rows.min() >= 0 and rows.max() <= most), f"{what} out of range")
    return rows


def _decode_linear(cls: Any, fields: Fields) -> Any:
    check_names(fields, LINEAR_FIELDS, cls.__name__)
    model = _decode_shared(cls, fields)
    n_rows, n_nodes = model.map_.shape
    require(n_rows > 0, "a fitted model has rows")
    intercept = fields["intercept"]
    n_scores = len(intercept) if isinstance(intercept, np.ndarray) and intercept.ndim == 1 else 0
    require(n_scores > 0, "a fitted model has scores")
    floats(intercept, "intercepts", (n_scores,))
    coefficients = floats(fields["coefficients"], "coefficients", (n_scores, n_nodes))
    single = fields["single"]
    if cls is KPPClassifier:
        model.classes_ = labels(fields["classes_"], "classes_")
        n_classes = len(model.classes_)
        require(n_classes >= 2 and single is False, "a classifier has classes")
        require(n_scores == (1 if n_classes == 2 else n_classes), "scores and classes differ")
        require(_all_differ(model.classes_), "a class stands twice")
        model.node_coef_, model.intercept_ = coefficients, intercept
        oof_shape: tuple[int, ...] = (n_rows, n_classes)
    else:
        require(isinstance(single, bool) and (n_scores == 1 or not single), "targets and scores")
        require(fields["classes_"] is None, "a regressor has no classes")
        model.node_coef_ = coefficients[0] if single else coefficients
        model.intercept_ = float(intercept[0]) if single else intercept
        oof_shape = (n_rows,) if single else (n_rows, n_scores)
    classes = model.classes_ if cls is KPPClassifier else None
    model.additive_ = _additive(model.map_, coefficients, intercept, classes, fields["leaf_values"])
    model.dual_coef_ = floats(fields["dual_coef_"], "dual_coef_", (n_rows, n_scores))
    require(is_number(fields["alpha_"]) and fields["alpha_"] > 0, "alpha_ must be positive")
    model.alpha_ = fields["alpha_"]
    _selection(model, fields, oof_shape)
    _sample(model, fields, n_rows)
    model.n_iter_ = whole(fields["n_iter_"], "n_iter_", 1, 2**62)
    return model


def _additive(
    embedding: MapBlock,
    coefficients: FloatArray,
    intercept: FloatArray,
    classes: AnyArray | None,
    stored: Any,
) -> AdditiveForest:
    """The stored values of the leaves, which must be those of the coefficients."""
    with np.errstate(over="ignore", invalid="ignore"):
        additive = AdditiveForest.from_coefficients(embedding, coefficients, intercept, classes)
        sizes = AdditiveForest.from_coefficients(embedding, np.abs(coefficients), intercept)
    right = isinstance(stored, list) and len(stored) == len(additive.blocks)
    require(right, "every block needs the values of its leaves")
    for block, size, given in zip(additive.blocks, sizes.blocks, stored, strict=True):
        leaf = block.forest.is_leaf
        shape = (len(intercept), int(leaf.sum()))
        floats(given, "leaf values", shape)
        require(np.isfinite(size.node_values).all(), "the path sums must be finite")
        own = block.node_values
        near = np.abs(given - own[:, leaf]) <= ROUNDING * size.node_values[:, leaf]
        require(near.all(), "the values of the leaves are not those of the coefficients")
        own[:, leaf] = given
    _check_scores([(block.forest, block.node_values) for block in additive.blocks], intercept)
    return additive


def _check_scores(parts: list[tuple[Forest, FloatArray]], intercept: FloatArray) -> None:
    """Every score, whatever the row, must be a finite number."""
    total = np.abs(intercept)
    with np.errstate(over="ignore"):
        for forest, values in parts:
            largest = np.maximum.reduceat(np.abs(values), forest.roots, axis=1)
            total = total + largest.sum(axis=1)
    require(np.isfinite(total).all(), "scores must be finite")


def _selection(model: Any, fields: Fields, oof_shape: tuple[int, ...]) -> None:
    alphas = fields["alphas_"]
    right = isinstance(alphas, np.ndarray) and alphas.ndim == 1 and len(alphas) > 0
    require(right, "alphas_ must be a grid")
    model.alphas_ = floats(alphas, "alphas_", alphas.shape, low=0.0)
    model.cv_scores_, model.oof_prediction_ = fields["cv_scores_"], fields["oof_prediction_"]
    if model.cv_scores_ is not None:
        floats(model.cv_scores_, "cv_scores_", alphas.shape, finite=False)
    if model.oof_prediction_ is not None:
        floats(model.oof_prediction_, "oof_prediction_", oof_shape, finite=False)


def _sample(model: Any, fields: Fields, n_rows: int) -> None:
    """Rows, folds and weights of the fit."""
    require(fields["regime_"] in REGIMES, "the regime must be known")
    model.regime_ = fields["regime_"]
    model.fit_rows_ = _rows(fields["fit_rows"], "fit_rows_")
    require(len(model.fit_rows_) == n_rows, "the map must be at the rows of the fit")
    require(_all_differ(model.fit_rows_), "a row of the fit stands twice")
    model.partition_rows_ = None
    if model.regime_ == "fixed":
        require(fields["partition_rows"] is None, "a fixed forest was grown on other rows")
    else:
        model.partition_rows_ = _rows(fields["partition_rows"], "partition_rows_")
    model.folds_ = None
    if fields["folds"] is not None:
        require(isinstance(fields["folds"], list) and fields["folds"], "folds must be a list")
        model.folds_ = []
        known = np.sort(model.fit_rows_)
        for pair in fields["folds"]:
            require(isinstance(pair, list) and len(pair) == 2, "a fold has two sets of rows")
            train, test = (_rows(part, "rows of a fold") for part in pair)
            for part in (train, test):
                require(_all_among(part, known), "a fold of other rows")
            model.folds_.append((train, test))
    model.sample_weight_ = fields["sample_weight_"]
    if model.sample_weight_ is not None:
        floats(model.sample_weight_, "sample_weight_", (n_rows,), low=0.0)
        require(model.sample_weight_.any(), "every weight is 0")
    columns = (model.n_features_in_,)
    spread, missing = fields["feature_spread_"], fields["missing_columns_"]
    model.feature_spread_ = floats(spread, "feature_spread_", columns, low=0.0)
    right = isinstance(missing, np.ndarray) and missing.dtype == bool and missing.shape == columns
    require(right, "missing_columns_ must be a boolean for each column")
    model.missing_columns_ = missing


def _all_differ(values: AnyArray) -> bool:
    """Whether no value stands twice; by sorting, which no choice of values slows down."""
    if values.dtype != object:
        return len(np.unique(values)) == len(values)
    own = values.tolist()
    require(key_steps(own) <= MOST_KEY_STEPS, "too many values that are no texts")
    return len(set(own)) == len(own)


def _all_among(rows: AnyArray, known: AnyArray) -> bool:
    """Whether all rows are among those of a sorted array, of at least one."""
    at = np.minimum(np.searchsorted(known, rows), len(known) - 1)
    return bool((known[at] == rows).all())


def encode_collapsed(collapsed: AdditiveForest, writer: Writer, where: str) -> Fields:
    """Take a collapsed forest apart."""
    return {
        "forest": writer.value(collapsed.forest, f"{where}.forest"),
        "node_values": writer.value(np.asarray(collapsed.node_values, np.float64), where),
        "intercept": writer.value(np.asarray(collapsed.intercept, np.float64), where),
        "node_rows": writer.packed(collapsed.node_rows),
    }


def decode_collapsed(fields: Fields) -> AdditiveForest:
    """Put a collapsed forest together."""
    check_names(fields, COLLAPSED_FIELDS, "AdditiveForest")
    forest, intercept = fields["forest"], fields["intercept"]
    require(isinstance(forest, Forest), "a collapsed forest needs a forest")
    n_scores = len(intercept) if isinstance(intercept, np.ndarray) and intercept.ndim == 1 else 0
    require(n_scores > 0, "a collapsed forest has scores")
    values = floats(fields["node_values"], "node values", (n_scores, forest.n_nodes))
    _check_scores([(forest, values)], floats(intercept, "intercepts", (n_scores,)))
    rows = integers(fields["node_rows"], "node_rows", (forest.n_nodes,), 0, 2**62)
    block = ScoreBlock("", forest, np.ascontiguousarray(values), node_rows=rows)
    return AdditiveForest((block,), intercept)


KINDS: dict[type, Kind] = {
    KPPRegressor: Kind(
        "kpp.KPPRegressor", encode_linear, lambda fields: _decode_linear(KPPRegressor, fields)
    ),
    KPPClassifier: Kind(
        "kpp.KPPClassifier", encode_linear, lambda fields: _decode_linear(KPPClassifier, fields)
    ),
    KPPEmbedding: Kind("kpp.KPPEmbedding", encode_embedding, decode_embedding),
    AdditiveForest: Kind("kpp.CollapsedForest", encode_collapsed, decode_collapsed),
}
