"""The paper's certificate: a linear score moves by at most its norm times the distance."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import FloatArray
from kpp.certificates.tables import Problem, Tables, check_epsilon, gamma
from kpp.models.data import check_new_rows
from kpp.models.reading import check_model


def lipschitz_bound(model: Any, X: Any, Y: Any = None) -> FloatArray:
    r"""Bound the difference of the scores of any two rows.

    .. math:: |g(x) - g(x')| \le \|w\| \sqrt{\delta_T(x, x')}

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted.
    X : array-like or data frame of shape (n, n_features)
        Rows.
    Y : array-like or data frame of shape (n', n_features), optional
        Other rows; X itself by default.

    Returns
    -------
    bound : array of shape (n, n'), or (n_scores, n, n') for several targets or classes
        In units of the score. The distances are those of the model's own map.

    References
    ----------
    Proposition lipschitz-kpp.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.certificates import lipschitz_bound
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor(n_estimators=20, alpha=1.0, random_state=0).fit(X, y)
    >>> f = model.predict(X[:5])
    >>> bool((abs(f[:, None] - f) <= lipschitz_bound(model, X[:5]) + 1e-9).all())
    True
    """
    check_model(model)
    rows = model.map_.on(check_new_rows(model, X))
    others = None if Y is None else model.map_.on(check_new_rows(model, Y))
    distance = np.sqrt(rows.distances(others))
    bounds = lipschitz_constant(model)[:, None, None] * distance
    return bounds[0] if len(bounds) == 1 else bounds


def lipschitz_constant(model: Any) -> FloatArray:
    r"""Return :math:`L = \|w\|` of every score.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted.

    Returns
    -------
    norm : array of shape (n_scores,)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier
    >>> from kpp.certificates import lipschitz_constant
    >>> model = KPPClassifier(n_estimators=5, alpha=0.1, random_state=0)
    >>> lipschitz_constant(model.fit(*load_iris(return_X_y=True))).shape
    (3,)
    """
    check_model(model)
    return np.linalg.norm(np.atleast_2d(model.node_coef_), axis=1)


def stable_radius(model: Any, epsilon: Any) -> float:
    r"""Radius within which a regressor's output changes by less than a tolerance.

    .. math:: \delta_T(x, x') < (\epsilon / \|w\|)^2 \implies |f(x) - f(x')| < \epsilon

    Parameters
    ----------
    model : KPPRegressor
        Fitted.
    epsilon : float, or array-like of shape (n_targets,)
        Positive, in units of y.

    Returns
    -------
    radius : float
        In :math:`\delta_T`; infinite for :math:`w = 0`, whose output is constant. For several
        targets the smallest of theirs.

    See Also
    --------
    certify : The same for each row, and larger.

    References
    ----------
    Equation reg-lipschitz.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.certificates import stable_change, stable_radius
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor(n_estimators=20, alpha=1.0, random_state=0).fit(X, y)
    >>> round(float(stable_change(model, stable_radius(model, 10.0))), 9)
    10.0
    """
    tables = _regressor(model)
    tolerance = check_epsilon(tables, epsilon)
    assert tolerance is not None
    norm = lipschitz_constant(model)
    ratio = np.divide(tolerance, norm, out=np.full(len(norm), np.inf), where=norm > 0)
    return float(np.square(ratio).min())


def stable_change(model: Any, radius: Any) -> FloatArray:
    r"""Largest change of a regressor's output within a radius, :math:`\|w\| \sqrt{u}`.

    Parameters
    ----------
    model : KPPRegressor
        Fitted.
    radius : float or array-like
        u, not negative, in :math:`\delta_T`.

    Returns
    -------
    change : array of the shape of `radius`, with a last axis of n_targets where there are several
        In units of y; 0 for :math:`w = 0`.

    References
    ----------
    Equation reg-lipschitz.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.certificates import stable_change
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor(n_estimators=20, alpha=1.0, random_state=0).fit(X, y)
    >>> stable_change(model, [0.0, 0.1]).shape
    (2,)
    """
    _regressor(model)
    u = check_radii(radius)
    norm = lipschitz_constant(model)
    # A constant output does not change, however large the radius: 0 times infinity is 0 here.
    change = np.zeros((*u.shape, len(norm)))
    change[..., norm > 0] = np.multiply.outer(np.sqrt(u), norm[norm > 0])
    return change[..., 0] if len(norm) == 1 else change


def check_radii(radii: Any) -> FloatArray:
    """Radii as an array; refuse negative ones."""
    try:
        u = np.asarray(radii, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Radii must be numbers; got {radii!r}.") from error
    if not (u >= 0).all():
        raise ValueError(
            "Radii are squared distances, delta_T, and must not be negative or missing; got "
            f"{radii!r}."
        )
    return u


def safe_lipschitz_radius(tables: Tables, problem: Problem) -> FloatArray:
    r"""Radius :math:`(m / \|w\|)^2` of each row of a problem, lowered by the rounding in it."""
    if tables.is_constant(problem.way):
        return np.full(len(problem.rows), np.inf)
    margin = problem.margin - 2 * problem.tau - 2 * problem.weight_error
    if problem.norm == 0:
        # Two classes with the same w: equal but for the intercepts, and for the rounding of both.
        return np.where(margin > 0, np.inf, 0.0)
    rounding = 2 * gamma(tables.forest.n_trees + 2 * tables.depth + 16)
    return np.square(np.maximum(margin, 0.0) / problem.norm) * (1 - rounding)


def _regressor(model: Any) -> Tables:
    check_model(model)
    tables = Tables.from_model(model)
    if tables.is_classifier:
        raise TypeError(
            "A tolerance of the output belongs to a regressor; for a classifier use "
            f"certify(model, X). Got {type(model).__name__}."
        )
    return tables
