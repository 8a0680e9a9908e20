"""Answers of a fitted model for Dask collections: lazy, partition by partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kpp._checks import RefusedError
from kpp._optional import optional
from kpp.certificates import certify
from kpp.dask.data import blocks_of
from kpp.diagnostics import diagnose
from kpp.explanations import explain
from kpp.models import KPPClassifier
from kpp.models.linear import KPPLinearModel
from kpp.solvers import PinballLoss

# What `diagnose` says of a partition.
FIGURES = ("n_rows", "trace_per_row", "effective_dimension_per_row", "norm")


class LazyAnswers:
    """What can be asked of a model on Dask; what is no Dask collection goes to the model itself."""

    model_: KPPLinearModel

    def _fitted(self) -> Any:
        check_is_fitted(self, "model_")
        return self.model_

    def predict(self, X: Any) -> Any:
        """Predict numbers or classes, lazily.

        Parameters
        ----------
        X : dask array or data frame
            Rows.

        Returns
        -------
        y : dask array, or dask series with the index of X
        """
        return answer(self._fitted(), X, _predict, ["prediction"])

    def predict_proba(self, X: Any) -> Any:
        """Predict the probabilities of the classes, lazily.

        Parameters
        ----------
        X : dask array or data frame
            Rows.

        Returns
        -------
        probabilities : dask array of shape (n_rows, n_classes), or data frame by class
        """
        model = self._fitted()
        if not isinstance(model, KPPClassifier):
            raise AttributeError("predict_proba is for classes; this model predicts numbers.")
        return answer(model, X, _predict_proba, [str(c) for c in model.classes_.tolist()])

    def predict_interval(self, X: Any, coverage: float = 0.9, *, width: str = "adaptive") -> Any:
        """Predict an interval for each row, lazily; see `KPPRegressor.predict_interval`.

        Parameters
        ----------
        X : dask array or data frame
            Rows.
        coverage : float
            Share of new rows whose target should lie in its interval.
        width : {"adaptive", "constant"}
            Wider where the target varies more, or all much of one width.

        Returns
        -------
        ends : dask array of shape (n_rows, 2), or data frame of "lower" and "upper"
        """
        model = self._fitted()
        if isinstance(model, KPPClassifier):
            raise AttributeError("predict_interval is for numbers; this model predicts classes.")
        if np.ndim(model.intercept_) and not isinstance(model.loss_, PinballLoss):
            raise RefusedError("Lazy intervals are of one target; ask model_ for several.")
        options = {"coverage": coverage, "width": width}
        return answer(model, X, _predict_interval, ["lower", "upper"], **options)

    def predict_set(self, X: Any, coverage: float = 0.9, **options: Any) -> Any:
        """Predict a set of classes for each row, lazily; see `KPPClassifier.predict_set`.

        Parameters
        ----------
        X : dask array or data frame
            Rows.
        coverage : float
            Share of new rows whose class should be in its set.
        **options
            Of `KPPClassifier.predict_set`.

        Returns
        -------
        sets : dask array of bool of shape (n_rows, n_classes), or data frame by class
        """
        model = self._fitted()
        if not isinstance(model, KPPClassifier):
            raise AttributeError("predict_set is for classes; this model predicts numbers.")
        names = [str(c) for c in model.classes_.tolist()]
        return answer(model, X, _predict_set, names, coverage=coverage, **options)

    def explain(self, X: Any, *, score: int = 0) -> Any:
        """Attribute the score of each row to its columns, lazily; see `kpp.explain`.

        Parameters
        ----------
        X : dask array or data frame
            Rows.
        score : int
            Which score, where there are several.

        Returns
        -------
        contributions : dask array of shape (n_rows, n_features), or data frame by column
        """
        model = self._fitted()
        names = getattr(model, "feature_names_in_", None)
        if names is None:
            names = [str(j) for j in range(model.n_features_in_)]
        return answer(model, X, _explain, [str(name) for name in names], score=score)

    def certify(self, X: Any, **options: Any) -> Any:
        """Certify each row, lazily: the leafwise radius of `kpp.certify`.

        Parameters
        ----------
        X : dask array or data frame
            Rows.
        **options
            Of `kpp.certify`.

        Returns
        -------
        radius : dask array of shape (n_rows,), or series
        """
        return answer(self._fitted(), X, _certify, ["radius"], **options)

    def diagnose(self, X: Any, y: Any) -> Any:
        """Diagnose every partition as rows that the fit has not seen, lazily.

        Parameters
        ----------
        X : dask array or data frame
            Rows.
        y : dask array or series
            Target, cut as X is.

        Returns
        -------
        figures : dask data frame
            One row for each partition that has rows, with the figures of `kpp.diagnose`.
        """
        from dask import delayed

        dd = optional("dask.dataframe", "kpp.dask", "dask")
        pd = optional("pandas", "kpp.dask", "dask")
        model = delayed(self._fitted())
        pairs = zip(blocks_of(X, "X"), blocks_of(y, "y", X), strict=True)
        parts = [delayed(_diagnose)(model, *own) for own in pairs]
        meta = pd.DataFrame(columns=[*FIGURES], dtype=np.float64)
        return dd.from_delayed(parts, meta=meta)


class LazyModel(LazyAnswers):
    """An ordinary fitted model, asked of Dask collections.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted, here or elsewhere.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.dask import LazyModel
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=5, alpha=0.1, random_state=0).fit(X, y)
    >>> LazyModel(model).predict(da.from_array(X, chunks=(100, 10))).shape
    (442,)
    """

    def __init__(self, model: KPPLinearModel) -> None:
        self.model_ = model

    def _fitted(self) -> Any:
        return self.model_


def answer(
    model: KPPLinearModel,
    X: Any,
    question: Callable[..., Any],
    names: list[str],
    **options: Any,
) -> Any:
    """Ask a question of every partition; one column is an array of one axis, or a series."""
    if hasattr(X, "map_partitions") and hasattr(X, "columns"):
        pd = optional("pandas", "kpp.dask", "dask")
        meta = _frame(pd, question(model, _example(X._meta), **options), names, X._meta.index)
        return X.map_partitions(_of_frame, model, question, names, options, meta=meta)
    if hasattr(X, "map_blocks"):
        example = np.zeros((1, X.shape[1]), dtype=X.dtype)
        meta = question(model, example, **options)
        X = X.rechunk({1: -1})
        if meta.ndim == 1:
            return X.map_blocks(
                _of_array,
                model,
                question,
                options,
                drop_axis=1,
                dtype=meta.dtype,
                meta=meta[:0],
            )
        return X.map_blocks(
            _of_array,
            model,
            question,
            options,
            chunks=(X.chunks[0], (meta.shape[1],)),
            dtype=meta.dtype,
            meta=meta[:0],
        )
    return question(model, X, **options)


def _example(meta: Any) -> Any:
    """One row of zeros and missing texts, with the columns of a frame without rows."""
    series = optional("pandas", "kpp.dask", "dask").Series
    row = {
        name: series([0 if kind.kind in "fiub" else None], dtype=kind)
        for name, kind in meta.dtypes.items()
    }
    return type(meta)(row)


def _of_array(rows: Any, model: Any, question: Any, options: dict[str, Any]) -> Any:
    return question(model, rows, **options) if len(rows) else _empty(rows, model, question, options)


def _empty(rows: Any, model: Any, question: Any, options: dict[str, Any]) -> Any:
    return question(model, np.zeros((1, rows.shape[1]), dtype=rows.dtype), **options)[:0]


def _of_frame(rows: Any, model: Any, question: Any, names: list[str], options: Any) -> Any:
    import pandas as pd

    if not len(rows):
        return _frame(pd, question(model, _example(rows), **options), names, rows.index)
    return _frame(pd, question(model, rows, **options), names, rows.index)


def _frame(pd: Any, values: Any, names: list[str], index: Any) -> Any:
    values = np.asarray(values)[: len(index)]
    if values.ndim == 1:
        return pd.Series(values, index=index, name=names[0])
    return pd.DataFrame(values, index=index, columns=names)


# Questions of rows that are here.


def _predict(model: Any, X: Any) -> Any:
    return model.predict(X)


def _predict_proba(model: Any, X: Any) -> Any:
    return model.predict_proba(X)


def _explain(model: Any, X: Any, score: int) -> Any:
    values = explain(model, X).values
    return values if values.ndim == 2 else values[:, :, score]


def _certify(model: Any, X: Any, **options: Any) -> Any:
    return np.asarray(certify(model, X, **options).radius)


def _diagnose(model: Any, X: Any, y: Any) -> Any:
    import pandas as pd

    if not len(X):
        return pd.DataFrame(columns=[*FIGURES], dtype=np.float64)
    found = diagnose(model, X, np.asarray(y))
    known = {own.name: own.value for own in found.observables} | {"n_rows": len(X)}
    # Not every figure is there for every task.
    return pd.DataFrame({name: [float(known.get(name, np.nan))] for name in FIGURES})


def _predict_set(model: Any, X: Any, coverage: float, **options: Any) -> Any:
    return model.predict_set(X, coverage, **options).sets


def _predict_interval(model: Any, X: Any, coverage: float, width: str) -> Any:
    found = model.predict_interval(X, coverage, width=width)
    return np.column_stack([found.lower, found.upper])
