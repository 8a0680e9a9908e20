"""Intervals and sets of a ``Pipeline`` that ends in a model, from raw rows."""

from __future__ import annotations

from typing import Any

from kpp.models.asking import ask
from kpp.models.interval_results import PredictionIntervals, PredictionSets
from kpp.models.pipelines import behind_preparation


def predict_interval(
    model: Any, X: Any, coverage: float = 0.9, **options: Any
) -> PredictionIntervals:
    """Predict an interval for each row; `KPPRegressor.predict_interval`, also behind a preparation.

    A ``Pipeline`` has no method of that name. Where steps before the model have learned from the
    rows of its fit, the coverage is not guaranteed, and the result says so.

    Parameters
    ----------
    model : KPPRegressor or Pipeline that ends in one
        Fitted.
    X : array-like or data frame of shape (n_rows, n_features)
        Rows, as the Pipeline takes them; or ``model.at(X)`` of the model at its end.
    coverage : float, default=0.9
        Share of new rows whose target should lie in its interval.
    **options
        The others of the method: `guaranteed`, `width`, `offset`, `independent_duplicates`.

    Returns
    -------
    intervals : PredictionIntervals

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kpp import KPPRegressor
    >>> from kpp.models import predict_interval
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=20, random_state=0)
    >>> model = make_pipeline(StandardScaler(), model).fit(X[:300], y[:300])
    >>> intervals = predict_interval(model, X[300:], coverage=0.8)
    >>> intervals.lower.shape, intervals.is_guarantee
    ((142,), False)
    """
    question = ask(model)
    own: Any = question.model
    found: PredictionIntervals = own.predict_interval(question.rows(X), coverage, **options)
    return behind_preparation(found, question.preparation)


def predict_set(model: Any, X: Any, coverage: float = 0.9, **options: Any) -> PredictionSets:
    """Predict a set of classes for each row; `KPPClassifier.predict_set`, behind a preparation too.

    Parameters
    ----------
    model : KPPClassifier or Pipeline that ends in one
        Fitted.
    X, coverage
        As in `predict_interval`.
    **options
        The others of the method: `method`, `per_class`, `guaranteed`, `random_state`,
        `independent_duplicates`.

    Returns
    -------
    sets : PredictionSets

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kpp import KPPClassifier
    >>> from kpp.models import predict_set
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KPPClassifier("extra-trees", n_estimators=20, random_state=0)
    >>> model = make_pipeline(StandardScaler(), model).fit(X[::2], y[::2])
    >>> predict_set(model, X[1::2]).sets.shape
    (75, 3)
    """
    question = ask(model)
    own: Any = question.model
    found: PredictionSets = own.predict_set(question.rows(X), coverage, **options)
    return behind_preparation(found, question.preparation)
