"""Tables of pages, and names as pages and figures show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

METHODS = {
    "kpp": "KPP (defaults)",
    "kpp_trees": "KPP (extra trees)",
    "kpp_paper": "KPP (paper)",
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
    "lightgbm_own": "LightGBM (100 rounds)",
    "catboost_own": "CatBoost (1,000 rounds)",
    "rf_plus": "RF+",
    "leaf_own_lambda": "KPP leaf-only, own lambda",
}


def plain(name: str) -> str:
    """Name of a method or set as words."""
    return METHODS.get(name, name.replace("_", " "))


def grid(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> list[str]:
    """Lines of a Markdown table."""
    header = list(header)
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return [*lines, ""]
