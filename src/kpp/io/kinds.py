"""The table of all classes whose objects a file can hold."""

from __future__ import annotations

from typing import Any

from kpp.io import additive, forests, linear, models
from kpp.io.errors import FileFormatError
from kpp.io.foreign import foreign_named, foreign_of
from kpp.io.values import Kind

OWN: dict[type, Kind] = {**forests.KINDS, **linear.KINDS, **additive.KINDS, **models.KINDS}
OWN_BY_NAME = {
    name: kind for kind in OWN.values() for name in (kind.name, kind.old_name) if name is not None
}


class KnownKinds:
    """The classes of this package, and the listed ones of scikit-learn and skrub."""

    def __init__(self) -> None:
        self.libraries: set[str] = set()

    def of(self, thing: Any) -> Kind | None:
        """Return the kind of an object; a subclass of a known class is not known."""
        kind = OWN.get(type(thing)) or foreign_of(thing)
        return self._noted(kind)

    def named(self, name: Any) -> Kind:
        """Return the kind that a file names."""
        kind = None
        if isinstance(name, str):
            kind = OWN_BY_NAME.get(name) or foreign_named(name)
        if kind is None:
            raise FileFormatError(
                f"The file holds an object of {str(name)[:80]!r}, which this kpp does not load. A "
                "newer kpp may."
            )
        self._noted(kind)
        return kind

    def _noted(self, kind: Kind | None) -> Kind | None:
        if kind is not None:
            self.libraries.add(kind.name.partition(".")[0])
        return kind
