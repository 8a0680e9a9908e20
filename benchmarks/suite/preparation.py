"""One preparation of a table for all methods, learned on the training rows only.

- Numerical columns stay as they are. Where a training row misses one, gaps become the median of the
  training rows, and a column of 0 and 1 says where they were.
- Nominal columns become indicators, one a category; of two categories one indicator is kept. A
  missing value is a category. Categories of fewer than 10 training rows, and those beyond the 31
  most frequent, share one indicator; a category that training has not seen falls to it, or to none.

No method gets the nominal columns as such, not even those (CatBoost, LightGBM, hist gradient
boosting) that could take them: the comparison is of models on the same numbers. Linear models scale
the columns themselves.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder

from suite.datasets import Dataset

MIN_FREQUENCY = 10
MAX_CATEGORIES = 32


@dataclass(frozen=True, eq=False)
class Split:
    """Numbers for training and test.

    Parameters
    ----------
    X_train, X_test : arrays of shape (n_rows, n_columns)
        Prepared columns, float64.
    y_train, y_test : arrays of shape (n_rows,)
        Targets.
    """

    X_train: Any
    X_test: Any
    y_train: Any
    y_test: Any


def split(data: Dataset, seed: int, test_size: float = 0.2) -> Split:
    """Split (stratified for classification only) and prepare."""
    rows = np.arange(len(data.y))
    train, test = train_test_split(
        rows,
        test_size=test_size,
        random_state=seed,
        stratify=data.y if data.task == "classification" else None,
    )
    X_train, X_test = prepare(data.X.iloc[train], data.X.iloc[test], data.categorical)
    return Split(X_train, X_test, data.y[train], data.y[test])


def prepare(train: Any, test: Any, categorical: list[str]) -> tuple[Any, Any]:
    """Both parts as arrays of numbers; see the top of this file."""
    numerical = [column for column in train.columns if column not in categorical]
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        drop="if_binary",
        min_frequency=MIN_FREQUENCY,
        max_categories=MAX_CATEGORIES,
        sparse_output=False,
    )
    both = ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy="median", add_indicator=True), numerical),
            ("categories", encoder, categorical),
        ]
    )
    train, test = _plain(train, categorical), _plain(test, categorical)
    with warnings.catch_warnings():
        # Categories that training has not seen, and columns without any value there.
        warnings.simplefilter("ignore", UserWarning)
        return (
            np.ascontiguousarray(both.fit_transform(train), dtype=np.float64),
            np.ascontiguousarray(both.transform(test), dtype=np.float64),
        )


def _plain(frame: Any, categorical: list[str]) -> Any:
    """Categories as text, with a missing value as one of them."""
    frame = frame.copy()
    for column in categorical:
        texts = [str(v) if pd.notna(v) else "missing" for v in frame[column]]
        frame[column] = np.array(texts, dtype=object)
    return frame
