"""One file a library: a fitted ensemble in, a `Forest` out."""

from __future__ import annotations

from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from kpp.forest.arrays import Forest
from kpp.forest.importers import sklearn, sklearn_hist

SUPPORTED = (*sklearn.SUPPORTED, *sklearn_hist.SUPPORTED)


def import_forest(model: Any) -> Forest:
    """Read a fitted ensemble; see `Forest.from_model`."""
    if isinstance(model, Forest):
        return model
    if isinstance(model, FrozenEstimator):
        return import_forest(model.estimator)
    for library in (sklearn, sklearn_hist):
        for classes, read in library.READERS.items():
            if isinstance(model, classes):
                check_is_fitted(model)
                return read(model)
    kind = model.__name__ if isinstance(model, type) else type(model).__name__
    raise TypeError(
        f"Cannot read a forest from {kind}. Supported: a kpp Forest; "
        f"fitted {', '.join(SUPPORTED)}; a FrozenEstimator around one of them."
    )
