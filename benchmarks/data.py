"""Named data sets for the benchmarks.

A set is read from ``<name>.csv.gz`` in the folder given by ``--data-dir`` or ``KPP_DATA_DIR`` (a
table with a header, the target in the last column), otherwise from OpenML through scikit-learn.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.datasets import fetch_california_housing, fetch_openml

OPENML_ID = {
    "bank_marketing": 1461,
    "concrete": 44959,
    "diamonds": 42225,
    "spambase": 44,
    "wine_quality_red": 44972,
}


def load(name: str, data_dir: str | None = None) -> tuple[Any, Any]:
    """Return X as a data frame and y as a series."""
    folder = data_dir or os.environ.get("KPP_DATA_DIR")
    if folder:
        path = Path(folder) / f"{name}.csv.gz"
        if not path.exists():
            raise FileNotFoundError(f"No data set {name!r}: {path} does not exist.")
        table = pd.read_csv(path)
        return table.iloc[:, :-1], table.iloc[:, -1]
    if name == "california_housing":
        return fetch_california_housing(return_X_y=True, as_frame=True)
    if name not in OPENML_ID:
        known = ", ".join(sorted({*OPENML_ID, "california_housing"}))
        raise ValueError(f"No data set {name!r}: known are {known}; or give --data-dir.")
    return fetch_openml(data_id=OPENML_ID[name], return_X_y=True, as_frame=True)
