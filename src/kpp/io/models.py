"""The estimators of this package, in a file."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from kpp._typing import AnyArray
from kpp.geometry.composed import BlockMap, forest_blocks, named_blocks
from kpp.geometry.linear import LinearMap
from kpp.geometry.maps import MapBlock, PathMap
from kpp.io.additive import additive_with_leaves, check_classes
from kpp.io.blends import BLEND, blend_fields, by_block, decode_blend
from kpp.io.errors import CannotSaveError
from kpp.io.fields import (
    all_differ,
    floats,
    integers,
    is_number,
    require,
    row_numbers,
    threads,
    whole,
)
from kpp.io.fits import (
    CENTER,
    FITS,
    LostFits,
    add_up,
    center_fields,
    decode_center,
    decode_fits,
    fits_fields,
    rebuilt_fits,
)
from kpp.io.fold_predictors import (
    FOLD_PREDICTORS,
    decode_fold_predictors,
    fold_predictor_fields,
)
from kpp.io.forests import MOST_COLUMNS
from kpp.io.lean import lean_model
from kpp.io.left_rows import (
    LEFT_ROWS,
    decode_left_rows,
    layer_without_rows,
    left_rows_fields,
)
from kpp.io.losses import LOSS, decode_loss, loss_fields
from kpp.io.records import RECORD, decode_fingerprints, decode_record
from kpp.io.schema import Field, FieldTable, required
from kpp.io.values import Fields, Kind
from kpp.io.writer import Writer
from kpp.models.classifier import KPPClassifier
from kpp.models.embedding import KPPEmbedding
from kpp.models.linear import KPPLinearModel
from kpp.models.regimes import ALPHA_SELECTIONS, REGIMES
from kpp.models.regressor import KPPRegressor
from kpp.models.tasks import Classification, Regression, Task

TASKS = ("classification", "regression", "unsupervised")
OUTPUT = "_sklearn_output_config"
SHARED = required("parameters", "n_features_in_", "feature_names_in_", "blocks", "output")
LINEAR: FieldTable = {
    **SHARED,
    **required("coefficients", "intercept", "leaf_values", "dual_coef_", "single", "classes_"),
    **required("alpha_", "alphas_", "cv_scores_", "oof_prediction_", "folds", "regime_", "n_iter_"),
    **required("partition_rows", "fit_rows", "sample_weight_", "feature_spread_"),
    **required("missing_columns_"),
    # Rebuilt from the others where they are missing, as far as that can be done exactly.
    "fits": Field(since=2, default=None, inside=FITS),
    "fold_fits": Field(since=2, default=None, inside=FITS),
    "center": Field(since=2, default=None, inside=CENTER),
    "alpha_selection_": Field(since=2, default=None),
    "fit_record": Field(since=2, default=None, inside=RECORD),
    "row_fingerprints_": Field(since=2, default=None),
    "constant_": Field(since=2, default=None),
    # All values one after the other, and how many each column has.
    "feature_values_": Field(since=2, default=None),
    "feature_value_counts": Field(since=2, default=None),
    "feature_decimals_": Field(since=2, default=None),
    "blend": Field(since=2, default=None, inside=BLEND),
    "fold_predictors": Field(since=2, default=None, inside=FOLD_PREDICTORS),
    "loss": Field(since=2, default=None, inside=LOSS),
    "feature_range_": Field(since=2, default=None),
    "left_rows": Field(since=2, default=None, inside=LEFT_ROWS),
    "n_rows_left": Field(since=2, default=None),
}
EMBEDDING: FieldTable = {**SHARED, **required("task_")}
# Parameters that there were once, and the only value that they could have.
FORMER_PARAMETERS = {"linear_terms": False}
# What a fit sets; anything else on an estimator is the user's, and the file has no place for it.
LINEAR_ATTRIBUTES = {
    *("n_features_in_", "feature_names_in_", "map_", "forest_", "node_coef_", "intercept_"),
    *("dual_coef_", "classes_", "alpha_", "alphas_", "cv_scores_", "n_iter_"),
    *("oof_prediction_", "folds_", "regime_", "partition_rows_", "fit_rows_", "sample_weight_"),
    *("feature_spread_", "missing_columns_", "additive_", "fits_", "fold_fits_"),
    *("alpha_selection_", "fit_record_", "row_fingerprints_", "constant_", OUTPUT),
    *("blend_weights_", "blend_score_", "bare_fits_", "fold_predictors_", "loss_", "left_rows_"),
    *("feature_range_", "feature_values_", "feature_decimals_"),
}
EMBEDDING_ATTRIBUTES = {
    *("n_features_in_", "feature_names_in_", "map_", "forest_", "task_", OUTPUT),
}


def _encode_shared(model: Any, writer: Writer, where: str, known: set[str]) -> Fields:
    check_is_fitted(model, "map_")
    try:
        forests = forest_blocks(model.map_)
    except TypeError as error:
        raise CannotSaveError(f"Cannot save {where}: {error}") from None
    parameters = model.get_params(deep=False)
    parameters["forest"] = _forest_parameter(parameters["forest"], forests)
    blocks = named_blocks(model.map_)
    # Leaving an attribute out silently would give back another model than the one that was saved.
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


def _forest_parameter(forest: Any, blocks: list[tuple[str, PathMap]]) -> Any:
    """The parameter `forest`; a frozen estimator becomes the forest that was read from it."""
    own = [block.forest for _, block in blocks]
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
    for name, value in FORMER_PARAMETERS.items():
        require(parameters.pop(name, value) is value, f"{name} must be {value}")
    model = cls(**parameters)  # unknown ones are an error; the constructor only keeps them
    model.n_features_in_ = whole(fields["n_features_in_"], "columns", 1, MOST_COLUMNS)
    names = fields["feature_names_in_"]
    if names is not None:
        right = isinstance(names, np.ndarray) and names.shape == (model.n_features_in_,)
        require(right and names.dtype == object, "every column needs a name")
        require(all(isinstance(name, str) for name in names.tolist()), "names must be text")
        model.feature_names_in_ = names
    # Forests must be of as many columns as X is checked for: compiled loops read these columns.
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
    require(all(isinstance(block, PathMap | LinearMap) for block in maps), "a block must be a map")
    trees = [block for block in maps if isinstance(block, PathMap)]
    terms = [block.terms for block in maps if isinstance(block, LinearMap)]
    require(trees, "a model needs a forest")
    require(all(b.forest.n_features == n_columns for b in trees), "forests of other columns")
    require(all(own.n_features == n_columns for own in terms), "linear terms of other columns")
    if names is None:
        require(len(maps) == 1, "several maps need names")
        return maps[0], maps[0].forest
    right = isinstance(names, list) and len(names) == len(maps)
    require(right and all(isinstance(name, str) for name in names), "every block needs a name")
    require(len({block.shape[0] for block in maps}) == 1, "blocks must be at the same rows")
    embedding = BlockMap(list(zip(names, maps, strict=True)))
    return embedding, [(name, block.forest) for name, block in forest_blocks(embedding)]


def encode_embedding(model: KPPEmbedding, writer: Writer, where: str) -> Fields:
    """Take an embedding apart."""
    fields = _encode_shared(model, writer, where, EMBEDDING_ATTRIBUTES)
    return fields | {"task_": model.task_}


def decode_embedding(fields: Fields) -> KPPEmbedding:
    """Put an embedding together."""
    model: KPPEmbedding = _decode_shared(KPPEmbedding, fields)
    require(fields["task_"] in TASKS, "the task must be known")
    model.task_ = fields["task_"]
    lean_model(model)
    return model


def encode_linear(model: KPPLinearModel, writer: Writer, where: str) -> Fields:
    """Take a regressor or classifier apart."""
    fields = _encode_shared(model, writer, where, LINEAR_ATTRIBUTES)
    kept = (
        *("dual_coef_", "classes_", "alpha_", "alphas_", "cv_scores_", "oof_prediction_"),
        *("regime_", "n_iter_", "sample_weight_", "feature_spread_", "missing_columns_"),
        *("alpha_selection_", "row_fingerprints_", "constant_", "feature_range_"),
    )
    folds = None
    if model.folds_ is not None:
        folds = [[_steps(train, writer), _steps(test, writer)] for train, test in model.folds_]
    partition = model.partition_rows_
    left = left_rows_fields(model)
    fits = None if left else fits_fields(model.fits_, model, where)
    if fits is None and not left and not isinstance(model.fits_, LostFits):
        raise CannotSaveError(f"Cannot save {where}: its linear layers are on trees of others.")
    fold_fits = model.fold_fits_
    layers: dict[str, Any] = {
        "fits": fits,
        "fold_fits": None if fold_fits is None else fits_fields(fold_fits, model, where),
        "center": center_fields(model, where),
        "fit_record": asdict(model.fit_record_),
        **left,
    }
    if model.blend_weights_ is not None:
        # Only where there is one: all other models stay readable where blends are not known.
        layers["blend"] = blend_fields(model)
    if (of_loss := loss_fields(model)) is not None:
        layers["loss"] = of_loss
    if (of_folds := fold_predictor_fields(model, where)) is not None:
        layers["fold_predictors"] = of_folds
    known = getattr(model, "feature_values_", None)
    if known is not None:
        layers["feature_values_"] = np.concatenate([*known, []])
        layers["feature_value_counts"] = np.array([len(own) for own in known])
        layers["feature_decimals_"] = model.feature_decimals_
    return fields | {
        **{name: writer.value(value, f"{where}.{name}") for name, value in layers.items()},
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


def _decode_linear(cls: Any, fields: Fields) -> Any:
    model = _decode_shared(cls, fields)
    n_rows, n_nodes = model.map_.shape
    has_left = fields["left_rows"] is not None
    require((n_rows > 0) != has_left, "a fitted model has rows, or has left them")
    model.left_rows_ = decode_left_rows(fields, model)
    intercept = fields["intercept"]
    # The intercepts say how many scores there are; everything else must agree with them.
    n_scores = len(intercept) if isinstance(intercept, np.ndarray) and intercept.ndim == 1 else 0
    require(n_scores > 0, "a fitted model has scores")
    floats(intercept, "intercepts", (n_scores,))
    coefficients = floats(fields["coefficients"], "coefficients", (n_scores, n_nodes))
    single = fields["single"]
    if cls is KPPClassifier:
        require(single is False, "a classifier has classes")
        require(fields["loss"] is None, "a classifier has no loss of numbers")
        model.classes_ = check_classes(fields["classes_"], n_scores)
        task: Task = Classification(model.classes_)
        oof_shape: tuple[int, ...] = (n_rows, len(model.classes_))
    else:
        require(isinstance(single, bool) and (n_scores == 1 or not single), "targets and scores")
        require(fields["classes_"] is None, "a regressor has no classes")
        model.loss_ = decode_loss(fields["loss"], n_scores)
        task = Regression(n_scores, single, model.loss_)
        oof_shape = (n_rows,) if single else (n_rows, n_scores)
    model.node_coef_, model.intercept_ = task.shaped(coefficients), task.shaped(intercept)
    model.additive_ = additive_with_leaves(
        model.map_, coefficients, intercept, task, fields["leaf_values"]
    )
    _sample(model, fields, n_rows)
    is_blend = fields["blend"] is not None
    model.dual_coef_ = fields["dual_coef_"]
    # Nor has a model whose folds overlap: a row is in several of its layers.
    has_none = is_blend or REGIMES[model.regime_].leaves_folds_out
    require(has_none == (model.dual_coef_ is None), "only a blend has no dual coefficients")
    if is_blend:
        alphas = list(by_block(fields["alpha_"], model, "alpha_").values())
    else:
        alphas = [fields["alpha_"]]
    if not has_none:
        floats(model.dual_coef_, "dual_coef_", (n_rows, n_scores))
    require(all(is_number(a) and a > 0 for a in alphas), "alpha_ must be positive")
    model.alpha_ = fields["alpha_"]
    _selection(model, fields, oof_shape)
    model.n_iter_ = whole(fields["n_iter_"], "n_iter_", 1, 2**62)
    model.constant_ = fields["constant_"]
    if model.constant_ is not None:
        size = n_scores if task.classes is None else len(task.classes)
        floats(model.constant_, "constant_", (size,))
    _layers(model, fields, task)
    model.fit_record_ = decode_record(fields["fit_record"], model)
    n_given = n_rows
    if REGIMES[model.regime_].splits_rows:
        n_given += len(model.partition_rows_)
    model.row_fingerprints_ = decode_fingerprints(fields["row_fingerprints_"], n_given)
    lean_model(model)
    return model


def _layers(model: KPPLinearModel, fields: Fields, task: Task) -> None:
    """The linear layers, which must add up to the model; those of old files are rebuilt."""
    coefficients = np.atleast_2d(model.node_coef_)
    center = decode_center(fields["center"], coefficients.shape)
    averages = REGIMES[model.regime_].averages_folds
    is_blend = fields["blend"] is not None
    model.blend_weights_ = model.blend_score_ = model.bare_fits_ = None
    if model.left_rows_ is not None:
        model.fits_, model.fold_fits_ = [layer_without_rows(model)], None
    elif fields["fits"] is None:
        require(not is_blend, "linear layers of a blend are missing")
        require(center is None and fields["fold_fits"] is None, "linear layers are missing")
        model.fits_, model.fold_fits_ = rebuilt_fits(model), None
    else:
        model.fits_ = decode_fits(fields["fits"], model, center)
        require(averages or is_blend or len(model.fits_) == 1, "several layers without an average")
        if is_blend:
            decode_blend(fields["blend"], model, task)
        # Explanations and bounds read the layers, predictions the leaves: both must be one model.
        require(add_up(model.fits_, model), "the linear layers are not those of the model")
        stored = fields["fold_fits"]
        model.fold_fits_ = None if stored is None else decode_fits(stored, model, center)
    if not averages and not is_blend and isinstance(model.fits_, list):
        vars(model.fits_[0])["node_coef"] = coefficients  # kept once
    model.fold_predictors_ = decode_fold_predictors(fields["fold_predictors"], model, task)


def _selection(model: Any, fields: Fields, oof_shape: tuple[int, ...]) -> None:
    model.alphas_, model.cv_scores_ = fields["alphas_"], fields["cv_scores_"]
    model.oof_prediction_ = fields["oof_prediction_"]
    grids = [(model.alphas_, model.cv_scores_)]
    if fields["blend"] is not None:
        of_blocks = by_block(model.alphas_, model, "alphas_")
        scores = by_block(model.cv_scores_, model, "cv_scores_")
        grids = [(of_blocks[name], scores[name]) for name in of_blocks]
    for alphas, cv_scores in grids:
        right = isinstance(alphas, np.ndarray) and alphas.ndim == 1 and len(alphas) > 0
        require(right, "alphas_ must be a grid")
        floats(alphas, "alphas_", alphas.shape, low=0.0)
        if cv_scores is not None:
            floats(cv_scores, "cv_scores_", alphas.shape, finite=False)
    if model.oof_prediction_ is not None:
        floats(model.oof_prediction_, "oof_prediction_", oof_shape, finite=False)
    selection = fields["alpha_selection_"]
    if selection is None:  # only a forest that has seen all labels leaves a choice
        sees_all = REGIMES[model.regime_].grows_on_fit_rows
        chosen = model.alpha_selection if sees_all else "frozen"
        selection = "given" if model.cv_scores_ is None else chosen
    require(selection in ("given", *ALPHA_SELECTIONS), "alpha_selection_ must be known")
    model.alpha_selection_ = selection


def _sample(model: Any, fields: Fields, n_rows: int) -> None:
    """Rows, folds and weights of the fit."""
    require(fields["regime_"] in REGIMES, "the regime must be known")
    model.regime_ = fields["regime_"]
    model.fit_rows_ = row_numbers(fields["fit_rows"], "fit_rows_")
    require(len(model.fit_rows_) == n_rows, "the map must be at the rows of the fit")
    require(all_differ(model.fit_rows_), "a row of the fit stands twice")
    model.partition_rows_ = None
    if REGIMES[model.regime_].takes_grown_forest:
        require(fields["partition_rows"] is None, "a fixed forest was grown on other rows")
    else:
        model.partition_rows_ = row_numbers(fields["partition_rows"], "partition_rows_")
    model.folds_ = None
    if fields["folds"] is not None:
        require(isinstance(fields["folds"], list) and fields["folds"], "folds must be a list")
        model.folds_ = []
        known = np.sort(model.fit_rows_)
        for pair in fields["folds"]:
            require(isinstance(pair, list) and len(pair) == 2, "a fold has two sets of rows")
            train, test = (row_numbers(part, "rows of a fold") for part in pair)
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
    model.feature_range_ = fields["feature_range_"]
    if model.feature_range_ is not None:
        _check_range(model.feature_range_, model.n_features_in_)
    if fields["feature_values_"] is not None:
        _set_known_values(model, fields)


def _check_range(ends: Any, n_columns: int) -> None:
    right = isinstance(ends, np.ndarray) and ends.dtype == np.float64
    require(right and ends.shape == (2, n_columns), "feature_range_ must have two ends a column")
    low, high = ends
    known = np.isfinite(low) & np.isfinite(high) & (low <= high)
    require(bool((known | np.isnan(ends).all(axis=0)).all()), "feature_range_ must be in order")


def _set_known_values(model: KPPLinearModel, fields: dict[str, Any]) -> None:
    """Values of the columns, of files that have them."""
    values, decimals = fields["feature_values_"], fields["feature_decimals_"]
    columns = (model.n_features_in_,)
    counts = integers(fields["feature_value_counts"], "feature_value_counts", columns, 0, 2**31)
    floats(values, "feature_values_", (int(counts.sum()),))
    parts = np.split(values, np.cumsum(counts)[:-1])
    rising = all((np.diff(own) > 0).all() for own in parts)
    require(rising, "feature_values_ must be in rising order")
    integers(decimals, "feature_decimals_", columns, -1, 127)
    model.feature_values_, model.feature_decimals_ = parts, decimals


def _all_among(rows: AnyArray, known: AnyArray) -> bool:
    """Whether all rows are among those of a sorted array, of at least one."""
    at = np.minimum(np.searchsorted(known, rows), len(known) - 1)
    return bool((known[at] == rows).all())


KINDS: dict[type, Kind] = {
    KPPRegressor: Kind(
        "kpp.KPPRegressor",
        LINEAR,
        encode_linear,
        lambda fields: _decode_linear(KPPRegressor, fields),
    ),
    KPPClassifier: Kind(
        "kpp.KPPClassifier",
        LINEAR,
        encode_linear,
        lambda fields: _decode_linear(KPPClassifier, fields),
    ),
    KPPEmbedding: Kind("kpp.KPPEmbedding", EMBEDDING, encode_embedding, decode_embedding),
}
