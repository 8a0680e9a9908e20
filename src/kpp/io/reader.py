"""JSON and arrays back into values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp._typing import AnyArray
from kpp.io.container import MAX_DIMENSIONS, MAX_SIDE
from kpp.io.errors import FileFormatError
from kpp.io.schema import complete
from kpp.io.values import (
    MOST_KEY_STEPS,
    NOT_FINITE,
    SCALARS,
    TAG,
    TIME_DTYPE,
    TIME_ZONE,
    TYPES,
    Fields,
    Kind,
    Kinds,
    is_dtype_name,
    key_steps,
)

MOST_NESTED = 60
# An object that is referred to twice is used, shown and compared twice. Written out in full, a
# TableVectorizer is three times its table; without a limit, n objects make 2^n.
MOST_REPEATED, FREE_REPEATED = 30, 20_000


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
    text_bytes : int
        Most bytes that all arrays of texts may take together.
    version : int
        Format of the file.
    """

    def __init__(
        self,
        array: Callable[[int], AnyArray],
        n_parts: int,
        kinds: Kinds,
        text_bytes: int,
        version: int,
    ) -> None:
        self._array_of = array
        self._version = version
        # Each part is read once: the sizes were checked for that, and a part that is read again and
        # again could take any memory.
        self._unread = set(range(1, n_parts))
        self._kinds = kinds
        self._objects: list[Any] = []
        self._unused: set[int] = set()
        self._text_bytes = text_bytes
        self._key_steps = MOST_KEY_STEPS
        self._n_values = 0
        self._repeated = 0  # values of the objects that the one at hand refers to
        self._sizes: list[int] = []  # of the objects, written out in full

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
            before, self._repeated = self._n_values, 0
            fields = self.fields_of(kind, entry["fields"])
            self._sizes.append(1 + self._n_values - before + self._repeated)
            if self._sizes[-1] > max(FREE_REPEATED, MOST_REPEATED * self._n_values):
                raise FileFormatError("Objects refer to one another far more often than in models.")
            # Only now: while its fields are read, a reference to itself or to a later object is
            # refused.
            self._objects.append(self.built(kind, fields))
            self._unused.add(number)
        self._unused.discard(len(table) - 1)
        self.check_that_all_was_used()
        return self._objects[-1]

    def fields_of(self, kind: Kind, raw: Fields) -> Fields:
        """Values of the fields of an object, as the file has them."""
        return {name: self.value(value) for name, value in raw.items()}

    def built(self, kind: Kind, fields: Fields) -> Any:
        """Return the object of these fields."""
        return kind.decode(complete(fields, kind.fields, self._version, kind.name))

    def check_that_all_was_used(self) -> None:
        """Refuse a file with objects or arrays that belong nowhere."""
        if self._unused or self._unread:
            raise FileFormatError("The file holds objects or arrays that nothing refers to.")

    def value(self, value: Any, depth: int = 0) -> Any:
        """Return the value that a JSON value stands for."""
        self._n_values += 1
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
        self._check_keys(key for key, _ in pairs)
        result = {_hashable(key): item for key, item in pairs}
        if len(result) < len(pairs):
            raise FileFormatError("A key stands twice in one dict.")
        return result

    def _set(self, value: Fields, depth: int) -> set[Any]:
        items = self._items(value, depth)
        self._check_keys(items)
        return {_hashable(item) for item in items}

    def _check_keys(self, keys: Iterable[Any]) -> None:
        self._key_steps -= key_steps(keys)
        if self._key_steps < 0:
            raise FileFormatError("Too many keys that are no texts.")

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

    def _times(self, value: Fields, depth: int) -> AnyArray:
        if not TIME_DTYPE.fullmatch(_of(value["dtype"], str)):
            raise FileFormatError("Times must have a known unit.")
        numbers = _of(self.value(value["as"], depth), np.ndarray)
        if numbers.dtype != np.int64:
            raise FileFormatError("Times are stored as int64.")
        times: AnyArray = numbers.view(value["dtype"])
        return times

    def _texts(self, value: Fields, depth: int) -> AnyArray:
        items = [_of(item, str) for item in self._items(value, depth)]
        # All entries take the room of the longest; an array without any has room for one letter.
        self._text_bytes -= 4 * len(items) * max(map(len, items), default=0)
        if self._text_bytes < 0:
            raise FileFormatError("Arrays of texts take far more room than the file.")
        return np.array(items, dtype=np.str_).reshape(_shape(value["shape"]))

    def _scalar(self, value: Fields, depth: int) -> Any:
        own = _of(self.value(value["value"], depth), bool, int, float, str)
        scalar = SCALARS[_of(value["type"], str)](own)
        # An integer that wraps around, or a float that overflows; NaN differs from itself.
        if scalar != own and scalar == scalar:
            raise FileFormatError(f"The number {own!r} does not fit {value['type']}.")
        return scalar

    def _ref(self, value: Fields, depth: int) -> Any:
        number = _of(value["to"], int)
        if not 0 <= number < len(self._objects):
            raise FileFormatError("A reference must point to an object that stands before.")
        self._unused.discard(number)
        self._repeated += self._sizes[number]
        return self._objects[number]

    def _pandas_date(self, value: Fields, depth: int) -> Any:
        pandas = optional("pandas", "A model with dates of a time zone")
        return pandas.DatetimeTZDtype(_unit(value["unit"]), _zone(value["zone"]))

    def _polars_date(self, value: Fields, depth: int) -> Any:
        polars = optional("polars", "A model with dates of polars")
        zone = value["zone"]
        return polars.Datetime(_unit(value["unit"]), None if zone is None else _zone(zone))

    def _polars_day(self, value: Fields, depth: int) -> Any:
        return optional("polars", "A model with dates of polars").Date()


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
    sides = tuple(_of(side, int) for side in _of(shape, list))
    # An array without entries has a shape, too, and sums over it have its other sides.
    small = len(sides) <= MAX_DIMENSIONS and all(0 <= side <= MAX_SIDE for side in sides)
    if not small or math.prod(max(side, 1) for side in sides) > MAX_SIDE:
        raise FileFormatError("Not a shape.")
    return sides


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
    "times": ({"dtype", "as"}, Reader._times),
    "pandas date": ({"unit", "zone"}, Reader._pandas_date),
    "polars date": ({"unit", "zone"}, Reader._polars_date),
    "polars day": (set(), Reader._polars_day),
    "ref": ({"to"}, Reader._ref),
}
