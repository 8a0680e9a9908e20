"""Fits of rows that do not fit one machine, on a Dask cluster; needs the extra ``dask``."""

from kpp._optional import optional

for _module in ("dask", "distributed", "pandas"):
    optional(_module, "kpp.dask", "dask")

from kpp.dask.estimators import DaskKPPClassifier, DaskKPPRegressor  # noqa: E402
from kpp.dask.lazy import LazyModel  # noqa: E402

__all__ = ["DaskKPPClassifier", "DaskKPPRegressor", "LazyModel"]
