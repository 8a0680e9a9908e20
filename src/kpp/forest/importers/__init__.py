"""One file a library: a fitted ensemble in, a `Forest` out.

A new library is one more file here: its readers, and a tuple ``IMPORTERS`` that declares the
classes, the reader and the traits of each family. It joins the tuple below.
"""

from __future__ import annotations

from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

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


def importer_of(kind: type) -> Importer | None:
    """The importer of a class of ensembles; None where there is none."""
    return next((known for known in IMPORTERS if issubclass(kind, known.classes)), None)


def import_forest(model: Any, *, release: bool = False) -> Forest:
    """Read a fitted ensemble; see `Forest.from_model`.

    Parameters
    ----------
    model : fitted estimator
        What to read.
    release : bool
        Whether its trees may be taken away from it as they are read, so that no more than one is
        there twice. It leaves the ensemble unusable.

    Returns
    -------
    forest : Forest
    """
    if isinstance(model, Forest):
        return model
    if isinstance(model, FrozenEstimator):
        return import_forest(model.estimator)
    importer = importer_of(type(model))
    if importer is not None:
        check_is_fitted(model)
        once = importer.read_once if release else None
        return (once or importer.read)(model)
    kind = model.__name__ if isinstance(model, type) else type(model).__name__
    supported = ", ".join(known.supported for known in IMPORTERS)
    raise TypeError(
        f"Cannot read a forest from {kind}. Supported: a kpp Forest; fitted {supported}; a "
        "FrozenEstimator around one of them. Trees of another library can be given by "
        "Forest.from_trees, if a split compares one column, a set of categories or a sum of "
        "columns, and a leaf holds numbers, no linear model; an importer for it would be a file in "
        "kpp/forest/importers."
    )
