"""scikit-learn's HistGradientBoosting, which has no public view of its trees.

All private access of the package is in this file, and it is gated: by the version of
scikit-learn, and by the fields that the node records must have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from kpp._typing import AnyArray
from kpp.forest.arrays import Forest
from kpp.forest.bare import BareScores, booster_scores, means_below
from kpp.forest.importers.registry import Importer, Traits
from kpp.forest.layout import Tree

# The layout below is that of these versions: at least the first, below the second.
KNOWN_VERSIONS = ((1, 6), (2, 0))
NODE_FIELDS = {
    "left",
    "right",
    "feature_idx",
    "num_threshold",
    "missing_go_to_left",
    "is_leaf",
    "is_categorical",
    "bitset_idx",
    "value",
    "count",
}


def read_hist_gradient_boosting(model: Any) -> Forest:
    """Trees by round, then by class. They were grown on gradients: no statistics of y."""
    _check_version(model)
    n_features = model.n_features_in_
    column_of = np.arange(n_features)
    categories: dict[int, AnyArray] = {}
    if model.is_categorical_ is not None and model.is_categorical_.any():
        # The model's preprocessor moves categorical columns to the front and numbers their
        # categories; a category it does not know, or a missing one, becomes NaN.
        categorical = np.flatnonzero(model.is_categorical_)
        column_of = np.concatenate([categorical, np.flatnonzero(~model.is_categorical_)])
        encoder = model._preprocessor.named_transformers_["encoder"]
        for column, known in zip(categorical, encoder.categories_, strict=True):
            # NaN stands for a missing value. None does not: it is a category like others.
            categories[int(column)] = known[[not _is_nan(value) for value in known.tolist()]]
    names = getattr(model, "feature_names_in_", None)
    predictors = [p for stage in model._predictors for p in stage]
    trees = [_read_tree(p, column_of) for p in predictors]
    return Forest.from_trees(
        trees,
        n_features=n_features,
        dtype=np.float64,
        feature_names=None if names is None else tuple(str(name) for name in names),
        categories=categories,
        allows_nan=True,
        allows_infinity=True,
        source=type(model).__name__,
        bare=_bare_scores(model, trees, predictors),
    )


IMPORTERS = (
    Importer(
        (HistGradientBoostingClassifier, HistGradientBoostingRegressor),
        read_hist_gradient_boosting,
        Traits(combines="sum", takes_frames=True, one_target=True),
        "HistGradientBoostingClassifier/Regressor",
    ),
)


def _check_version(model: Any) -> None:
    first, below = KNOWN_VERSIONS
    version = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
    predictors = getattr(model, "_predictors", None)
    known = (
        first <= version < below
        and predictors
        and set(predictors[0][0].nodes.dtype.names) >= NODE_FIELDS
    )
    if not known:
        raise TypeError(
            f"Cannot read {type(model).__name__} of scikit-learn {sklearn.__version__}: its trees "
            f"have no public form, and the private one is known for versions from "
            f"{first[0]}.{first[1]} to below {below[0]}.{below[1]}. Use another "
            "ensemble or another version of scikit-learn."
        )


def _bare_scores(model: Any, trees: list[Tree], predictors: list[Any]) -> BareScores:
    """Raw scores: the initial value, and leaves that already hold the learning rate."""
    values = [
        means_below(tree.left, tree.right, p.nodes["value"], p.nodes["count"])
        for tree, p in zip(trees, predictors, strict=True)
    ]
    return booster_scores(
        base=np.ravel(model._baseline_prediction),
        values=np.concatenate(values),
        n_trees=len(trees),
        classes=getattr(model, "classes_", None),
    )


def _read_tree(predictor: Any, column_of: AnyArray) -> Tree:
    nodes = predictor.nodes
    # Children are unsigned numbers in these records; -1 needs a signed type.
    is_leaf = nodes["is_leaf"].astype(bool)
    categorical = np.flatnonzero(nodes["is_categorical"].astype(bool) & ~is_leaf)
    return Tree(
        left=np.where(is_leaf, -1, nodes["left"].astype(np.int64)),
        right=np.where(is_leaf, -1, nodes["right"].astype(np.int64)),
        feature=np.where(is_leaf, -1, column_of[np.where(is_leaf, 0, nodes["feature_idx"])]),
        threshold=nodes["num_threshold"],
        missing_left=nodes["missing_go_to_left"].astype(bool),
        left_categories={
            int(node): _set_bits(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]])
            for node in categorical
        },
    )


def _set_bits(words: AnyArray) -> AnyArray:
    """Positions of the bits that are set in words of 32 bits."""
    bits = (words[:, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
    return np.flatnonzero(bits.ravel())


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value
