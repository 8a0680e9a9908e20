"""Checks that several explanations share."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._checks import RefusedError
from kpp.models.pipelines import FittedModel


def check_variables(model: FittedModel) -> None:
    """Refuse a split by variable where coordinates belong to no split."""
    if model.coordinates == "leaf":
        raise RefusedError(
            "coordinates='leaf' keeps the cells but not the splits that lead to them, so there is "
            "no decomposition by variable: all would go to the last split. Use "
            "coordinates='path', or level='node' or level='shapley' of explain."
        )


def check_top(top: Any) -> int:
    """Refuse what is not a number of lines to show."""
    if not isinstance(top, int | np.integer) or isinstance(top, bool) or top < 0:
        raise ValueError(f"top must be a number of lines, 0 or more; got {top!r}.")
    return int(top)
