"""Values into JSON and arrays."""

from __future__ import annotations

import math
from collections import UserList
from typing import Any

import numpy as np

from kpp._typing import AnyArray
from kpp.io.container import ARRAY_TYPES, MAX_DIMENSIONS
from kpp.io.errors import CannotSaveError
from kpp.io.strict_json import is_integer
from kpp.io.values import (
    MOST_KEY_STEPS,
    SCALARS,
    TAG,
    TIME_DTYPE,
    TIME_ZONE,
    TYPES,
    Kinds,
    is_dtype_name,
    key_steps,
)

SCALAR_NAMES = {kind: name for name, kind in SCALARS.items()}
TYPE_NAMES = {kind: name for name, kind in TYPES.items()}


class Writer:
    """Collects the arrays and the objects of a file.

    Parameters
    ----------
    kinds : Kinds
        The known classes.

    Attributes
    ----------
    arrays : list of arrays
        In the order of their numbers.
    objects : list of dict
        Kinds and fields; the last is the model.
    text_bytes : int
        What the arrays of texts take when they are read.
    """

    def __init__(self, kinds: Kinds) -> None:
        self.arrays: list[AnyArray] = []
        self.objects: list[dict[str, Any]] = []
        self.text_bytes = 0
        self._key_steps = 0
        self._kinds = kinds
        self._number: dict[int, int] = {}
        self._open: set[int] = set()
        self._alive: list[Any] = []  # ids are those of living objects only

    def value(self, value: Any, where: str) -> Any:
        """Return a value as JSON; `where` names it in errors."""
        simple = type(value)
        if simple is int and not is_integer(value):
            raise CannotSaveError(f"Cannot save {where}: an integer beyond 64 bits.")
        if value is None or simple in (bool, int, str):
            return value
        if simple is float:
            return value if math.isfinite(value) else {TAG: "float", "is": _name_of(value)}
        if simple is list:
            return [self.value(item, f"{where}[{k}]") for k, item in enumerate(value)]
        if simple in (set, dict):
            self._key_steps += key_steps(value)
            if self._key_steps > MOST_KEY_STEPS:
                raise CannotSaveError(f"Cannot save {where}: too many keys that are no texts.")
        if simple in (tuple, set):
            items = [self.value(item, f"{where}[{k}]") for k, item in enumerate(value)]
            return {TAG: simple.__name__, "items": items}
        if simple is dict:
            pairs = [
                [self.value(k, f"{where}, a key"), self.value(v, f"{where}[{k!r}]")]
                for k, v in value.items()
            ]
            return {TAG: "dict", "items": pairs}
        if simple is slice:
            ends = [self.value(end, where) for end in (value.start, value.stop, value.step)]
            return {TAG: "slice", "items": ends}
        if simple is np.ndarray:
            return self._array(value, where)
        if simple in SCALAR_NAMES:
            own = self.value(value.item(), where)
            return {TAG: "scalar", "type": SCALAR_NAMES[simple], "value": own}
        if isinstance(value, np.dtype):
            return {TAG: "dtype", "name": _dtype_name(value, where)}
        if simple is type and value in TYPE_NAMES:
            return {TAG: "type", "name": TYPE_NAMES[value]}
        name = f"{simple.__module__.partition('.')[0]}.{simple.__name__}"
        if name == "pandas.DatetimeTZDtype":
            return {TAG: "pandas date", "unit": value.unit, "zone": _zone(str(value.tz), where)}
        if name == "polars.Datetime":
            zone = value.time_zone if value.time_zone is None else _zone(value.time_zone, where)
            return {TAG: "polars date", "unit": value.time_unit, "zone": zone}
        # In polars a class stands for its only instance.
        if name == "polars.Date" or (name == "polars.DataTypeClass" and str(value) == "Date"):
            return {TAG: "polars day"}
        if name in ("pandas.Index", "pandas.RangeIndex"):
            return self.value(value.tolist(), where)  # what takes an index takes a list
        if isinstance(value, UserList) and name.startswith("sklearn."):
            return self.value(list(value.data), where)  # scikit-learn's list that warns of changes
        return self._object(value, where)

    def packed(self, array: Any) -> dict[str, Any]:
        """Return integers as an array of the smallest type that holds them."""
        array = np.asarray(array)
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        kinds = ("u1", "u2", "u4", "u8") if low >= 0 else ("i1", "i2", "i4", "i8")
        fits = (k for k in kinds if np.iinfo(k).min <= low and high <= np.iinfo(k).max)
        return self._part(array.astype(next(fits)))

    def _part(self, array: AnyArray) -> dict[str, Any]:
        self.arrays.append(array)
        return {TAG: "array", "part": len(self.arrays)}  # part 0 is the document

    def _array(self, array: AnyArray, where: str) -> Any:
        if array.dtype.newbyteorder("<").str in ARRAY_TYPES and array.ndim <= MAX_DIMENSIONS:
            return self._part(array)
        shape = list(array.shape)
        if TIME_DTYPE.fullmatch(array.dtype.name) and array.ndim <= MAX_DIMENSIONS:
            numbers = array.astype(array.dtype.newbyteorder("="), copy=False).view(np.int64)
            return {TAG: "times", "dtype": array.dtype.name, "as": self._part(numbers)}
        if array.dtype == object and array.ndim <= MAX_DIMENSIONS:
            items = [self.value(item, f"{where}[{k}]") for k, item in enumerate(array.ravel())]
            return {TAG: "objects", "shape": shape, "items": items}
        if array.dtype.kind == "U" and array.ndim <= MAX_DIMENSIONS:
            # Four bytes a letter, and every entry as long as the longest.
            self.text_bytes += 4 * array.size * max(map(len, array.ravel().tolist()), default=0)
            return {TAG: "texts", "shape": shape, "items": array.ravel().tolist()}
        raise CannotSaveError(
            f"Cannot save {where}: an array of {array.dtype} with {array.ndim} dimensions. "
            "Numbers, booleans, text, times and objects of plain types, with at most "
            f"{MAX_DIMENSIONS} dimensions, can be saved."
        )

    def _object(self, thing: Any, where: str) -> dict[str, Any]:
        number = self._number.get(id(thing))
        if number is None:
            kind = self._kinds.of(thing)
            if kind is None:
                raise CannotSaveError(f"Cannot save {where}: {_reason(thing)}")
            if id(thing) in self._open:
                raise CannotSaveError(f"Cannot save {where}: an object that holds itself.")
            # While an object is taken apart it must not turn up inside itself.
            self._open.add(id(thing))
            fields = kind.encode(thing, self, where)
            self._open.discard(id(thing))
            # After its fields: whatever it refers to has got a smaller number, so references point
            # back.
            number = len(self.objects)
            self.objects.append({"kind": kind.name, "fields": fields})
            self._number[id(thing)] = number
            self._alive.append(thing)
        return {TAG: "ref", "to": number}


def _name_of(value: float) -> str:
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _dtype_name(dtype: np.dtype[Any], where: str) -> str:
    little = dtype.newbyteorder("<")
    for name in (little.name, little.str):
        if is_dtype_name(name):
            return name
    raise CannotSaveError(f"Cannot save {where}: the dtype {dtype}.")


def _zone(name: str, where: str) -> str:
    if not TIME_ZONE.fullmatch(name):
        raise CannotSaveError(
            f"Cannot save {where}: the time zone {name!r} is no plain name, such as Europe/Paris."
        )
    return name


def _reason(thing: Any) -> str:
    """Why an object cannot be saved, and what to do."""
    kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
    if isinstance(thing, np.random.RandomState | np.random.Generator):
        return f"{kind}, whose state is not data. Use an integer as random_state, and fit again."
    if callable(thing) and not hasattr(thing, "fit"):
        name = getattr(thing, "__qualname__", kind)
        return (
            f"{name} is code, and files hold data only: loading must never run anything from a "
            "file. Give the same thing by name or by numbers, or keep this step outside of the "
            "saved model."
        )
    return (
        f"an object of {kind}, which files do not know. docs/files.md lists what can be saved; "
        "keep this step outside of the saved model, or replace it by one of those."
    )
