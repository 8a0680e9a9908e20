"""One file a library: a fitted ensemble in, a `Forest` out.

A new library is one more file here: its readers, and a tuple ``IMPORTERS`` that declares the
classes, the reader and the traits of each family. It joins the tuple below, or `EXTRAS` where the
library is an extra: its file is imported with the first model of that library.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sklearn.frozen import FrozenEstimator

from kpp.forest.arrays import Forest
from kpp.forest.importers import ladders, oblique, sklearn, sklearn_hist
from kpp.forest.importers.registry import Importer, Traits

__all__ = ["IMPORTERS", "Importer", "Traits", "import_forest", "importer_of"]

IMPORTERS: tuple[Importer, ...] = (
    *sklearn.IMPORTERS,
    *sklearn_hist.IMPORTERS,
    *oblique.IMPORTERS,
    *ladders.IMPORTERS,
)


# Package -> what its importers, in the file of that name, are said to read.
EXTRAS: dict[str, str] = {
    "lightgbm": "LGBMRegressor, LGBMClassifier and Booster of LightGBM",
    "catboost": "CatBoost, CatBoostClassifier/Regressor",
    "xgboost": "XGBoost's XGBRegressor/Classifier and Booster",
}


def importer_of(kind: type) -> Importer | None:
    """The importer of a class of ensembles; None where there is none."""
    known = IMPORTERS
    for package in {base.__module__.partition(".")[0] for base in kind.__mro__} & EXTRAS.keys():
        known += import_module(f"{__name__}.{package}").IMPORTERS
    return next((importer for importer in known if issubclass(kind, importer.classes)), None)


def import_forest(model: Any, *, release: bool = False, rows: Any = None) -> Forest:
    """Read a fitted ensemble; see `Forest.from_model`.

    Parameters
    ----------
    model : fitted estimator
        What to read.
    release : bool
        Whether its trees may be taken away from it as they are read, so that no more than one is
        there twice. It leaves the ensemble unusable.
    rows : data frame, array or CodedRows of shape (n_rows, n_features), optional
        Rows that hold the categories of the model, for a library that does not keep their names.

    Returns
    -------
    forest : Forest
    """
    if isinstance(model, Forest):
        return model
    if isinstance(model, FrozenEstimator):
        return import_forest(model.estimator, rows=rows)
    importer = importer_of(type(model))
    if importer is not None:
        importer.check_fitted(model)
        if importer.takes_rows:
            return importer.read(model, rows)
        once = importer.read_once if release else None
        return (once or importer.read)(model)
    kind = model.__name__ if isinstance(model, type) else type(model).__name__
    supported = ", ".join([known.supported for known in IMPORTERS] + [*EXTRAS.values()])
    raise TypeError(
        f"Cannot read a forest from {kind}. Supported: a kpp Forest; fitted {supported}; a "
        "FrozenEstimator around one of them. Trees of another library can be given by "
        "Forest.from_trees, if a split compares one column, a set of categories or a sum of "
        "columns, and a leaf holds numbers, no linear model; an importer for it would be a file in "
        "kpp/forest/importers."
    )
