"""Nested data as JSON has it."""

from __future__ import annotations

import math
from datetime import date, datetime
from typing import Any

import numpy as np

from kpp._checks import is_missing


def plain_data(value: Any, digits: int | None = None) -> Any:
    """Return nested data as what JSON has: numbers, texts, lists and dictionaries.

    Parameters
    ----------
    value : object
        Dicts, lists, tuples, arrays, numbers, dates, strings, None.
    digits : int, optional
        Significant digits to keep of floats.

    Returns
    -------
    plain : object
        NumPy's kinds as Python's; None for what is missing or not finite; other things as text.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.tables.plain import plain_data
    >>> plain_data({"a": np.float64(0.5), 1: [np.int64(2), float("nan")]})
    {'a': 0.5, '1': [2, None]}
    >>> plain_data(np.array([1 / 3]), digits=2)
    [0.33]
    """
    if isinstance(value, dict):
        return {str(key): plain_data(item, digits) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain_data(item, digits) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value if digits is None else float(f"{value:.{digits}g}")
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if not isinstance(value, str) and is_missing(value):
        return None
    # Lone surrogates cannot be written as UTF-8.
    return str(value).encode("utf-8", "replace").decode()
