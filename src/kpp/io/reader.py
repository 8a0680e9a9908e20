"""JSON and arrays back into values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp._typing import AnyArray
from kpp.io.errors import FileFormatError
from kpp.io.values import NOT_FINITE, SCALARS, TAG, TIME_ZONE, TYPES, Fields, Kinds, is_dtype_name

MAX_TEXT_BYTES = 1 << 28
MOST_NESTED = 60


class Reader:
    """Rebuilds values from a document and the arrays of a file.

    Parameters
    ----------
    array : callable
        Number of a part -> array.
    n_parts : int
        Number of parts, the document among them.
    kinds : Kinds
        The known classes.
    """

    def __init__(self, array: Callable[[int], AnyArray], n_parts: int, kinds: Kinds) -> None:
        self._array_of = array
        self._unread = set(range(1, n_parts))
        self._kinds = kinds
        self._objects: list[Any] = []
        self._unused: set[int] = set()

    def objects(self, table: Any) -> Any:
        """Rebuild the table of objects and return its last, the model."""
        if not isinstance(table, list) or not table:
            raise FileFormatError("The document must hold a table of objects.")
        for number, entry in enumerate(table):
            if not isinstance(entry, dict) or entry.keys() != {"kind", "fields"}:
                raise FileFormatError(f"Object {number} must have a kind and fields.")
            if not isinstance(entry["fields"], dict):
                raise FileFormatError(f"The fields of object {number} must have names.")
            kind = self._kinds.named(entry["kind"])
            fields = {name: self.value(value) for name, value in entry["fields"].items()}
            self._objects.append(kind.decode(fields))
            self._unused.add(number)
        self._unused.discard(len(table) - 1)
        if self._unused or self._unread:
            raise FileFormatError("The file holds objects or arrays that nothing refers to.")
        return self._objects[-1]

    def value(self, value: Any, depth: int = 0) -> Any:
        """Return the value that a JSON value stands for."""
        if depth > MOST_NESTED:
            raise FileFormatError(f"Values are nested more than {MOST_NESTED} deep.")
        if isinstance(value, list):
            return [self.value(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        tag = value.get(TAG)
        read = _TAGS.get(tag) if isinstance(tag, str) else None
        if read is None or value.keys() - {TAG} != read[0]:
            raise FileFormatError(f"A value with the tag {str(tag)[:50]!r} is not known.")
        try:
            return read[1](self, value, depth + 1)
        except FileFormatError:
            raise
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            raise FileFormatError(f"Not a value of the kind {tag!r}: {error}") from error

    def _items(self, value: Fields, depth: int) -> list[Any]:
        if not isinstance(value["items"], list):
            raise FileFormatError("Items must be a list.")
        return [self.value(item, depth) for item in value["items"]]

    def _dict(self, value: Fields, depth: int) -> dict[Any, Any]:
        pairs = self._items(value, depth)
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise FileFormatError("A dict must be a list of pairs.")
        result = {_hashable(key): item for key, item in pairs}
        if len(result) < len(pairs):
            raise FileFormatError("A key stands twice in one dict.")
        return result

    def _set(self, value: Fields, depth: int) -> set[Any]:
        return {_hashable(item) for item in self._items(value, depth)}

    def _slice(self, value: Fields, depth: int) -> slice:
        start, stop, step = (_of(item, int, type(None), str) for item in self._items(value, depth))
        return slice(start, stop, step)

    def _part(self, value: Fields, depth: int) -> AnyArray:
        number = _of(value["part"], int)
        if number not in self._unread:
            raise FileFormatError("Every array belongs to one place, and this one is not free.")
        self._unread.discard(number)
        return self._array_of(number)

    def _objects_array(self, value: Fields, depth: int) -> AnyArray:
        items = self._items(value, depth)
        array = np.empty(len(items), dtype=object)
        for k, item in enumerate(items):
            array[k] = item
        return array.reshape(_shape(value["shape"]))

    def _texts(self, value: Fields, depth: int) -> AnyArray:
        items = [_of(item, str) for item in self._items(value, depth)]
        # All entries take the room of the longest.
        if 4 * len(items) * max(map(len, items), default=0) > MAX_TEXT_BYTES:
            raise FileFormatError(f"An array of texts takes more than {MAX_TEXT_BYTES} bytes.")
        return np.array(items, dtype=np.str_).reshape(_shape(value["shape"]))

    def _scalar(self, value: Fields, depth: int) -> Any:
        own = _of(self.value(value["value"], depth), bool, int, float, str)
        scalar = SCALARS[_of(value["type"], str)](own)
        if scalar != own and scalar == scalar:
            raise FileFormatError(f"The number {own!r} does not fit {value['type']}.")
        return scalar

    def _ref(self, value: Fields, depth: int) -> Any:
        number = _of(value["to"], int)
        if not 0 <= number < len(self._objects):
            raise FileFormatError("A reference must point to an object that stands before.")
        self._unused.discard(number)
        return self._objects[number]

    def _pandas_date(self, value: Fields, depth: int) -> Any:
        pandas = optional("pandas", "A model with dates of a time zone")
        return pandas.DatetimeTZDtype(_unit(value["unit"]), _zone(value["zone"]))

    def _polars_date(self, value: Fields, depth: int) -> Any:
        polars = optional("polars", "A model with dates of polars")
        zone = value["zone"]
        return polars.Datetime(_unit(value["unit"]), None if zone is None else _zone(zone))


def _of(value: Any, *types: type) -> Any:
    if type(value) not in types:
        expected = " or ".join(kind.__name__ for kind in types)
        raise FileFormatError(f"Expected {expected}; got {type(value).__name__}.")
    return value


def _hashable(value: Any) -> Any:
    """Refuse keys other than plain ones; tuples of them are keys, too."""
    if isinstance(value, tuple):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, np.generic):
        return value
    return _of(value, str, int, float, bool, type(None))


def _unit(name: Any) -> str:
    if _of(name, str) not in ("s", "ms", "us", "ns"):
        raise FileFormatError("A date must have a known unit.")
    return str(name)


def _zone(name: Any) -> str:
    if not TIME_ZONE.fullmatch(_of(name, str)):
        raise FileFormatError("A time zone must be a plain name.")
    return str(name)


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(_of(side, int) for side in _of(shape, list))


def _dtype(name: Any) -> np.dtype[Any]:
    name = _of(name, str)
    if is_dtype_name(name):
        return np.dtype(name)
    raise FileFormatError(f"{name[:50]!r} is not a dtype of a saved model.")


# Tag -> the other keys, and how it is read.
_TAGS: dict[str, tuple[set[str], Callable[[Reader, Fields, int], Any]]] = {
    "float": ({"is"}, lambda self, v, depth: NOT_FINITE[v["is"]]),
    "tuple": ({"items"}, lambda self, v, depth: tuple(self._items(v, depth))),
    "set": ({"items"}, Reader._set),
    "dict": ({"items"}, Reader._dict),
    "slice": ({"items"}, Reader._slice),
    "array": ({"part"}, Reader._part),
    "objects": ({"shape", "items"}, Reader._objects_array),
    "texts": ({"shape", "items"}, Reader._texts),
    "scalar": ({"type", "value"}, Reader._scalar),
    "dtype": ({"name"}, lambda self, v, depth: _dtype(v["name"])),
    "type": ({"name"}, lambda self, v, depth: TYPES[v["name"]]),
    "pandas date": ({"unit", "zone"}, Reader._pandas_date),
    "polars date": ({"unit", "zone"}, Reader._polars_date),
    "ref": ({"to"}, Reader._ref),
}
