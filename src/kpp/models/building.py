"""From the parameters and data of an estimator to forests and weights; shared by all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, validate_data

from kpp._checks import check_choice
from kpp._typing import AnyArray, BoolArray, FloatArray, IntArray
from kpp.forest.arrays import Forest
from kpp.forest.grow import check_forest, grow_forest, is_grown, named_forest, traits_of
from kpp.geometry.composed import BlockMap
from kpp.geometry.maps import NORMALIZATIONS, MapBlock, PathMap
from kpp.geometry.weights import (
    PathWeights,
    leaf_indicator_weights,
    needs_statistics,
    path_weights,
    weighting_statistics,
)

COORDINATES = ("path", "leaf")
MOST_INTEGER_LABELS = 50


def check_map_parameters(estimator: Any) -> None:
    """Check the parameters that every estimator's map has."""
    check_choice("coordinates", estimator.coordinates, COORDINATES)
    check_choice("normalize", estimator.normalize, NORMALIZATIONS)
    if estimator.coordinates == "leaf" and estimator.leaf_weight is not None:
        raise ValueError("leaf_weight belongs to coordinates='path'; leaves count alike here.")


def forest_specs(forest: Any) -> list[tuple[str, Any]]:
    """The parameter `forest` as a list of named forests."""
    specs = forest if isinstance(forest, list) else [("forest", forest)]
    pairs = all(isinstance(s, tuple) and len(s) == 2 and isinstance(s[0], str) for s in specs)
    if not specs or not pairs:
        raise ValueError(f"A list of forests must hold (name, forest) pairs; got {forest!r}.")
    for _, spec in specs:
        check_forest(spec)
    return specs


def check_rows(estimator: Any, specs: list[tuple[str, Any]], X: Any) -> Any:
    """Check X for a fit, and remember its columns on the estimator."""
    if all(traits_of(spec).takes_frames for _, spec in specs):
        # Such a forest prepares its columns itself: categories, infinities, strings.
        if hasattr(X, "columns"):
            validate_data(estimator, X, skip_check_array=True)
        else:
            X = validate_data(estimator, X, dtype=None, ensure_all_finite=False)
    else:
        X = _check_numbers(estimator, X)
    if len(X) < 2 and not all(is_grown(spec) for _, spec in specs):
        raise ValueError(f"Found {len(X)} sample(s), and a forest needs at least 2 to grow.")
    return X


def check_new_rows(estimator: Any, X: Any) -> Any:
    """Check shape and names; values are checked by the forests, which know what they accept."""
    if hasattr(X, "columns"):
        validate_data(estimator, X, reset=False, skip_check_array=True)
        return X
    return validate_data(estimator, X, reset=False, dtype=None, ensure_all_finite=False)


def _check_numbers(estimator: Any, X: Any) -> AnyArray:
    try:
        return validate_data(
            estimator, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan"
        )
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise ValueError(
            f"{error}. This forest takes numbers only: encode such columns, or use "
            "forest='boosted', which takes the categorical columns of a data frame."
        ) from error


def check_target(y: Any, n_rows: int, *, one_column: bool = True) -> AnyArray:
    """The target as an array, its numbers as numbers: also where a data frame holds objects."""
    values = np.asarray(y)
    if values.dtype == object:
        numbers = np.array(values.tolist())
        if numbers.dtype.kind in "biuf":
            values = numbers
    values = check_array(values, ensure_2d=False, dtype=None, input_name="y")
    if len(values) != n_rows:
        raise ValueError(f"X has {n_rows} rows, but y has {len(values)}.")
    if one_column and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    return values


def take_rows(X: Any, rows: AnyArray) -> Any:
    """Some rows of an array, a pandas or a polars data frame."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def column_spread(X: Any) -> FloatArray:
    """Standard deviation of each column over its finite values; 0 where it holds no numbers."""
    columns = [X[name] for name in X.columns] if hasattr(X, "columns") else np.asarray(X).T
    spread = np.zeros(len(columns))
    for j, column in enumerate(columns):
        values = np.asarray(column)
        if values.dtype.kind not in "fiub":
            continue
        finite = values[np.isfinite(values)].astype(np.float64)
        spread[j] = finite.std() if len(finite) else 0.0
    return spread


def columns_with_missing(X: Any) -> BoolArray:
    """Which columns have a missing value in some row."""
    columns = [X[name] for name in X.columns] if hasattr(X, "columns") else np.asarray(X).T
    return np.array([_any_missing(column) for column in columns], dtype=bool)


def _any_missing(column: Any) -> bool:
    if hasattr(column, "isna"):  # pandas
        return bool(column.isna().any())
    if hasattr(column, "null_count") and column.null_count():  # polars
        return True
    values = np.asarray(column)
    if values.dtype == object:
        return any(value is None or value != value for value in values.tolist())
    return values.dtype.kind == "f" and bool(np.isnan(values).any())


def seeds_for(random_state: Any, n_forests: int) -> list[Any]:
    """One forest gets a seed as it is; several, or a generator, get seeds drawn from it."""
    if n_forests == 1 and not isinstance(random_state, np.random.RandomState):
        return [random_state]
    random = check_random_state(random_state)
    return [int(random.randint(np.iinfo(np.int32).max)) for _ in range(n_forests)]


def grow(
    estimator: Any,
    spec: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    classification: bool | None,
    random_state: Any,
) -> Forest:
    """Grow, or take, one forest of an estimator."""
    if isinstance(spec, str):
        spec = named_forest(
            spec,
            classification=classification,
            n_rows=len(X),
            n_estimators=estimator.n_estimators,
            n_jobs=estimator.n_jobs,
            random_state=random_state,
        )
    names = getattr(estimator, "feature_names_in_", None)
    forest = grow_forest(spec, X, y, sample_weight, random_state=random_state, feature_names=names)
    if forest.n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {estimator.n_features_in_} features, but the given forest is expecting "
            f"{forest.n_features} features as input."
        )
    return forest


def weigh(
    estimator: Any,
    spec: Any,
    forest: Forest,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    classification: bool | None,
    allow_no_mass: bool = False,
    own_statistics: bool = False,
) -> PathWeights:
    """Compute the weights of one forest of an estimator; from its own statistics only, if asked."""
    if estimator.coordinates == "leaf":
        return leaf_indicator_weights(forest)
    node_weight, leaf_weight = estimator.node_weight, estimator.leaf_weight
    statistics = forest.statistics
    if own_statistics:
        pass
    elif classification is not None and needs_statistics(node_weight, leaf_weight):
        statistics = weighting_statistics(
            forest, X, y, sample_weight, classification=classification, n_jobs=estimator.n_jobs
        )
    elif classification is None and not is_grown(spec) and _is_named(node_weight, "gain"):
        node_weight = "uniform"  # trees grown without a target
    return path_weights(
        forest, node_weight, leaf_weight, statistics=statistics, allow_no_mass=allow_no_mass
    )


def weighs_by_own(estimator: Any, forest: Forest) -> bool:
    """Whether the weights of `weigh` come from the trees alone, not from rows of the fit."""
    if estimator.coordinates == "leaf":
        return True
    if not needs_statistics(estimator.node_weight, estimator.leaf_weight):
        return True
    return forest.statistics is not None and forest.statistics.grown_on_impurity


def named_blocks(embedding: MapBlock) -> list[tuple[str, MapBlock]]:
    """The blocks of a map; a map of one forest is its only block."""
    return embedding.blocks if isinstance(embedding, BlockMap) else [("", embedding)]


def leaf_ids_of(at_rows: MapBlock) -> IntArray:
    """Leaf ids of all forests of a map, shape (n_trees, n_rows), each with its own ids."""
    blocks = named_blocks(at_rows)
    return np.concatenate([b.leaf_ids for _, b in blocks if isinstance(b, PathMap)])


def is_classification(spec: Any, y: AnyArray) -> bool:
    """The task of one forest: its own where it has one, otherwise y's."""
    if isinstance(spec, Forest):
        own = spec.statistics
        return looks_like_classes(y) if own is None else own.class_share is not None
    if isinstance(spec, str) or not traits_of(spec).supervised:
        return looks_like_classes(y)
    return bool(is_classifier(_inner(spec)))


def looks_like_classes(y: AnyArray) -> bool:
    """Whether a target is labels rather than numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.models.building import looks_like_classes
    >>> looks_like_classes(np.array(["a", "b"])), looks_like_classes(np.arange(100))
    (True, False)
    """
    if np.issubdtype(y.dtype, np.number):
        most = MOST_INTEGER_LABELS if np.issubdtype(y.dtype, np.integer) else 2
        return y.ndim == 1 and len(np.unique(y)) <= most
    check_classification_targets(y)
    return True


def takes_nan(forest: Any) -> bool:
    """Whether every forest of an estimator takes missing values; for its tags."""
    specs = forest if isinstance(forest, list) else [("forest", forest)]
    return all(_takes_nan(spec) for _, spec in specs)


def _takes_nan(spec: Any) -> bool:
    if isinstance(spec, Forest):
        return spec.allows_nan
    if isinstance(spec, str):
        return True
    try:
        return bool(get_tags(_inner(spec)).input_tags.allow_nan)
    except Exception:  # not an estimator: fit says so
        return False


def one_target_forests(forest: Any) -> list[Any]:
    """The forests of an estimator that grow for one target only: boosters that are to be grown."""
    specs = forest if isinstance(forest, list) else [("forest", forest)]
    return [spec for _, spec in specs if not is_grown(spec) and traits_of(spec).one_target]


def _inner(spec: Any) -> Any:
    return spec.estimator if is_grown(spec) and not isinstance(spec, Forest) else spec


def _is_named(weight: Any, name: str) -> bool:
    return isinstance(weight, str) and weight == name
