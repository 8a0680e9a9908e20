"""JSON without its loose ends: no NaN, no repeated keys, no deep nesting, no surprises."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from kpp.io.errors import FileFormatError

# Far below where Python's own parser runs out of stack.
MAX_DEPTH = 100
# Those of int64 and uint64. Longer ones would make what handles them slow, hash tables first of
# all: multiples of 2^61 - 1 share one hash.
LEAST_INTEGER, MOST_INTEGER = -(1 << 63), (1 << 64) - 1
_CHUNK = 1 << 20
_QUOTE = ord('"')
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
    return _measure(data)[0]


def _measure(data: bytes) -> tuple[int, int]:
    """Number of values and depth, in time and memory that grow with the length alone.

    What reads the JSON finds the same strings, up to its first error.
    """
    # Without escaped backslashes, and then without escaped quotes, every quote ends or begins
    # a string.
    plain = np.frombuffer(data.replace(b"\\\\", b"").replace(b'\\"', b""), dtype=np.uint8)
    count, depth, deepest, inside = 1, 0, 0, False
    for start in range(0, len(plain), _CHUNK):
        chunk = plain[start : start + _CHUNK]
        # True from an opening quote to before its closing one; `inside` carries over from the last
        # chunk.
        in_string = np.logical_xor.accumulate(chunk == _QUOTE) ^ inside
        inside = bool(in_string[-1])
        outside = chunk[~in_string]  # with the quotes that end a string
        count += int(np.count_nonzero(_SEPARATES[outside]))
        steps = _STEP[outside]
        levels = depth + np.cumsum(steps[steps != 0], dtype=np.int64)
        if levels.size:
            depth, deepest = int(levels[-1]), max(deepest, int(levels.max()))
    return count, deepest


def load_json(data: bytes, most_values: int) -> Any:
    """Read JSON of bounded depth; refuse repeated keys, and numbers that are infinite or long.

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
    count, depth = _measure(data)
    if count > most_values:
        raise FileFormatError(f"JSON of {count} values; at most {most_values} are read here.")
    if depth > MAX_DEPTH:
        raise FileFormatError(f"JSON nested {depth} deep; at most {MAX_DEPTH} is read.")
    try:
        return json.loads(
            data.decode("ascii"),
            object_pairs_hook=_unique_keys,
            parse_float=_finite,
            parse_int=_integer,
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


def _integer(text: str) -> int:
    if len(text) > 20 or not is_integer(number := int(text)):  # 20: those of -2^63 and 2^64 - 1
        raise FileFormatError(f"The integer {text[:30]} is beyond 64 bits.")
    return number


def is_integer(number: int) -> bool:
    """Whether a file may hold this integer.

    Examples
    --------
    >>> from kpp.io.strict_json import is_integer
    >>> is_integer(-(2**63)), is_integer(2**64)
    (True, False)
    """
    return LEAST_INTEGER <= number <= MOST_INTEGER


def _no_constant(text: str) -> float:
    raise FileFormatError(f"JSON has no {text}.")
