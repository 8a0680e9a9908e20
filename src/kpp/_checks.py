"""Checks of user input that several rooms share."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from kpp._typing import FloatArray


class RefusedError(ValueError):
    """A question that this model, or these rows, have no answer to; the message says why.

    Raised on purpose, so that who asks many questions (the report) can tell it from a mistake.
    """


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither true nor false: a word in its place would count as true.

    Examples
    --------
    >>> from kpp._checks import check_flag
    >>> check_flag("per_class", "no")
    Traceback (most recent call last):
    ValueError: per_class must be True or False; got 'no'.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False; got {value!r}.")


def check_sample_weight(sample_weight: Any, n_rows: int) -> FloatArray:
    """Return the weights as float64, ones for None; refuse what cannot weigh rows.

    Examples
    --------
    >>> from kpp._checks import check_sample_weight
    >>> check_sample_weight(None, 3)
    array([1., 1., 1.])
    """
    if sample_weight is None:
        return np.ones(n_rows)
    weight: FloatArray = check_array(
        sample_weight,
        ensure_2d=False,
        dtype=np.float64,
        ensure_min_samples=0,
        input_name="sample_weight",
    )
    if weight.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have one entry per row, shape ({n_rows},); got {weight.shape}."
        )
    if (weight < 0).any():
        raise ValueError("sample_weight must not be negative.")
    if not weight.any():
        raise ValueError("Every sample_weight is zero: there are no rows to learn from.")
    return weight


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the named choices, and say which they are."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")


def is_missing(value: Any) -> bool:
    """Whether a value of X is None, NaN, or the NA of pandas."""
    if value is None:
        return True
    differs = value != value
    return bool(differs) if isinstance(differs, bool | np.bool_) else True
