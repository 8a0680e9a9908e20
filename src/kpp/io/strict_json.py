"""JSON without its loose ends: no NaN, no repeated keys, no deep nesting, no surprises."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np

from kpp._typing import AnyArray
from kpp.io.errors import FileFormatError

MAX_DEPTH = 100
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SEPARATES = np.zeros(256, dtype=bool)
_SEPARATES[[ord(c) for c in ",:[{"]] = True
_STEP = np.zeros(256, dtype=np.int8)
_STEP[[ord("["), ord("{")]] = 1
_STEP[[ord("]"), ord("}")]] = -1


def dump_json(value: Any) -> bytes:
    """Write JSON in ASCII, as short as it gets; NaN and infinities are errors.

    Examples
    --------
    >>> from kpp.io.strict_json import dump_json
    >>> dump_json({"a": [1, None, 0.1]})
    b'{"a":[1,null,0.1]}'
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def count_values(data: bytes) -> int:
    """Count the values in a JSON text, nested ones and keys too; at least as many as there are.

    Examples
    --------
    >>> from kpp.io.strict_json import count_values
    >>> count_values(b'{"a": [1, "x, y", []]}')
    7
    """
    return 1 + int(np.count_nonzero(_SEPARATES[_without_strings(data)]))


def _without_strings(data: bytes) -> AnyArray:
    # What reads the JSON finds the same strings, up to its first error.
    return np.frombuffer(_STRING.sub(b"", data), dtype=np.uint8)


def load_json(data: bytes, most_values: int) -> Any:
    """Read JSON of bounded depth; refuse repeated keys and numbers that are not finite.

    Parameters
    ----------
    data : bytes
        ASCII.
    most_values : int
        Most values that it may hold: each takes some 60 bytes of memory, and as few as 2 of text.

    Returns
    -------
    value : dict, list, str, int, float, bool or None

    Raises
    ------
    FileFormatError

    Examples
    --------
    >>> from kpp.io.strict_json import load_json
    >>> load_json(b'{"a": [1, 2.5]}', 100)
    {'a': [1, 2.5]}
    >>> load_json(b'{"a": 1, "a": 2}', 100)
    Traceback (most recent call last):
        ...
    kpp.io.errors.FileFormatError: The key 'a' stands twice in one object.
    """
    if (count := count_values(data)) > most_values:
        raise FileFormatError(f"JSON of {count} values; at most {most_values} are read here.")
    steps = _STEP[_without_strings(data)]
    depth = np.cumsum(steps[steps != 0], dtype=np.int64)
    if depth.size and depth.max() > MAX_DEPTH:
        raise FileFormatError(f"JSON nested {depth.max()} deep; at most {MAX_DEPTH} is read.")
    try:
        return json.loads(
            data.decode("ascii"),
            object_pairs_hook=_unique_keys,
            parse_float=_finite,
            parse_constant=_no_constant,
        )
    except FileFormatError:
        raise
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError too
        raise FileFormatError(f"Not valid JSON: {error}") from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for key, value in pairs:
        if key in known:
            raise FileFormatError(f"The key {key[:100]!r} stands twice in one object.")
        known[key] = value
    return known


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise FileFormatError(f"The number {text[:100]} is beyond double precision.")
    return number


def _no_constant(text: str) -> float:
    raise FileFormatError(f"JSON has no {text}.")
