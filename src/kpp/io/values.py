"""Python values as JSON and arrays, and back: data only, from a fixed list of types.

A value is a JSON null, boolean, integer, finite float, string or list of values; everything else
is an object with a tag under ``"$"``. Objects of known classes (see `kpp.io.kinds`) stand in a
table, each once, those that others refer to first: a reference can only point back, so there
are no cycles, and what was one object is one object again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kpp.io.schema import FieldTable

if TYPE_CHECKING:
    from kpp.io.writer import Writer

TAG = "$"
NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
NUMBERS = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64"),
)
SCALARS: dict[str, Any] = {name: getattr(np, name) for name in ("bool_", *NUMBERS, "str_")}
# Types that are parameters, such as the dtype of an encoder.
TYPES: dict[str, Any] = SCALARS | {k.__name__: k for k in (bool, int, float, str, object)}
DTYPES = ("bool", "object", "float16", *NUMBERS)
TIME_DTYPE = re.compile(r"(datetime64|timedelta64)\[(s|ms|us|ns)\]")
TEXT_DTYPE = re.compile(r"<U([1-9]\d{0,3})")
# Not a path: pandas takes "dateutil/..." for one.
TIME_ZONE = re.compile(
    r"(?!dateutil)[A-Za-z][A-Za-z0-9_+-]{0,30}(/[A-Za-z0-9_+-]{1,30}){0,3}|UTC[+-]\d\d:\d\d"
)
# Keys that are no texts have hashes that a file can choose, so that n of them take up to n^2 steps;
# those of texts are salted. Real tables have such keys where columns are numbered.
MOST_KEY_STEPS = 10**9

Fields = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A class whose objects a file can hold.

    Parameters
    ----------
    name : str
        How the file names it.
    fields : dict of str to Field
        Its fields.
    encode : callable
        ``(object, writer, where) -> fields``, the values that make it up.
    decode : callable
        ``fields -> object``, from values that are only known to be of the types of this module.
        All fields are there.
    old_name : str, optional
        How files of older formats name it.
    """

    name: str
    fields: FieldTable
    encode: Callable[[Any, Writer, str], Fields]
    decode: Callable[[Fields], Any]
    old_name: str | None = None


class Kinds(Protocol):
    """The table of known classes."""

    def of(self, thing: Any) -> Kind | None:
        """Return the kind of an object, None if there is none."""

    def named(self, name: Any) -> Kind:
        """Return the kind of a name; `FileFormatError` if there is none."""


def is_dtype_name(name: str) -> bool:
    """Whether a file may name this dtype."""
    return bool(name in DTYPES or TIME_DTYPE.fullmatch(name) or TEXT_DTYPE.fullmatch(name))


def key_steps(keys: Iterable[Any]) -> int:
    """Steps that a hash table of these keys takes at worst, when a file has chosen them.

    Examples
    --------
    >>> from kpp.io.values import key_steps
    >>> key_steps(["a", "b", 1, 2.0, (3, "c")])
    9
    """
    return sum(not isinstance(key, str) for key in keys) ** 2
