"""Oblique forests of this package."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import get_tags

from kpp.forest.arrays import Forest
from kpp.forest.importers.registry import Importer
from kpp.forest.importers.sklearn import AVERAGES, averaged_scores, recorded_statistics
from kpp.forest.join import double_thresholds
from kpp.forest.layout import Tree
from kpp.forest.oblique import ObliqueForestClassifier, ObliqueForestRegressor, Rotation
from kpp.forest.statistics import NodeStatistics


def read_oblique_forest(model: Any) -> Forest:
    """The forest that a fit has assembled."""
    forest: Forest = model.forest_
    return forest


IMPORTERS = (
    Importer(
        (ObliqueForestClassifier, ObliqueForestRegressor),
        read_oblique_forest,
        AVERAGES,
        "ObliqueForestClassifier/Regressor of kpp",
    ),
)


def assemble(model: Any) -> Forest:
    """Turn trees on rotated columns into oblique trees on the original ones."""
    members = model.estimators_
    recorded = recorded_statistics(model, members)
    statistics = None
    if recorded is not None:
        parts = [recorded[0](member) for member in members]
        numbers = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        statistics = NodeStatistics(**(recorded[1] | numbers))
    names = getattr(model, "feature_names_in_", None)
    return Forest.from_trees(
        [
            _unrotated(member.tree_, rotation)
            for member, rotation in zip(members, model.rotations_, strict=True)
        ],
        n_features=model.n_features_in_,
        dtype=np.float64,
        statistics=statistics,
        bare=averaged_scores(model, members, recorded),
        feature_names=None if names is None else tuple(str(name) for name in names),
        allows_nan=get_tags(model).input_tags.allow_nan,
        source=type(model).__name__,
    )


def _unrotated(tree: Any, rotation: Rotation) -> Tree:
    """A split on rotated column k is one on the sum that the column is."""
    splits = np.flatnonzero(tree.children_left >= 0)
    used = tree.feature[splits].tolist()
    oblique = {
        int(v): (rotation.columns[k], rotation.weights[k], rotation.shares[k])
        for v, k in zip(splits, used, strict=True)
        if len(rotation.columns[k]) > 1
    }
    # Of a column that stayed, the only one; not read at oblique splits and leaves.
    only = np.array([columns[0] for columns in rotation.columns])
    return Tree(
        left=tree.children_left,
        right=tree.children_right,
        feature=only[np.maximum(tree.feature, 0)],
        # The tree rounds a rotated column to float32 before it compares.
        threshold=double_thresholds(tree.threshold),
        missing_left=tree.missing_go_to_left,
        oblique=oblique,
    )
