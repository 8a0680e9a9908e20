"""Data sets that come with scikit-learn, by name."""

from __future__ import annotations

from typing import Any

from sklearn import datasets

BUILT_IN = {
    "breast_cancer": datasets.load_breast_cancer,
    "diabetes": datasets.load_diabetes,
    "digits": datasets.load_digits,
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
}
TARGET = "target"


def built_in_table(name: str) -> Any:
    """Return a built-in data set as one data frame; classes have their names.

    Parameters
    ----------
    name : str
        One of `BUILT_IN`.

    Returns
    -------
    frame : pandas.DataFrame
        The columns, and last the column ``target``.

    Examples
    --------
    >>> from kpp.tables.builtin import built_in_table
    >>> sorted(built_in_table("iris")["target"].unique())
    ['setosa', 'versicolor', 'virginica']
    """
    data = BUILT_IN[name](as_frame=True)
    frame = data.frame.copy()
    names = data.get("target_names")
    if names is not None and names.dtype.kind == "U":
        frame[TARGET] = names[data.target.to_numpy()].astype(str)
    return frame
