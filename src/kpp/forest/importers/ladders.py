"""The ladders of this package."""

from __future__ import annotations

from kpp.forest.arrays import Forest
from kpp.forest.importers.registry import Importer, Traits
from kpp.forest.ladders import Ladders


def read_ladders(model: Ladders) -> Forest:
    """The forest that a fit has made."""
    return model.forest_


IMPORTERS = (
    Importer(
        (Ladders,),
        read_ladders,
        Traits(supervised=False, by_columns_alone=True),
        "Ladders of kpp",
    ),
)
