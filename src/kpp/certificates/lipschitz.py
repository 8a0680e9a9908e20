"""The paper's certificate: a linear score moves by at most its norm times the distance."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import FloatArray
from kpp.certificates.flips import Flip, check_epsilon
from kpp.certificates.node_tables import NodeTables
from kpp.models.asking import Question, ask


def lipschitz_bound(model: Any, X: Any, Y: Any = None) -> FloatArray:
    r"""Bound the difference of the scores of any two rows.

    .. math:: |g(x) - g(x')| \le \|w\| \sqrt{\delta_T(x, x')}

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline
        Fitted.
    X : array-like, data frame or RoutedRows of shape (n, n_features), or one row
        Rows.
    Y : array-like, data frame or RoutedRows of shape (n', n_features), optional
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
    >>> model = KPPRegressor("extra-trees", n_estimators=20, alpha=1.0, random_state=0).fit(X, y)
    >>> f = model.predict(X[:5])
    >>> bool((abs(f[:, None] - f) <= lipschitz_bound(model, X[:5]) + 1e-9).all())
    True
    """
    question = ask(model)
    others = None if Y is None else question.rows(Y).map
    distance = np.sqrt(question.rows(X).map.distances(others))
    bounds = lipschitz_constant(model)[:, None, None] * distance
    return bounds[0] if len(bounds) == 1 else bounds


def lipschitz_constant(model: Any) -> FloatArray:
    r"""Return :math:`L = \|w\|` of every score.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline
        Fitted.

    Returns
    -------
    norm : array of shape (n_scores,)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier
    >>> from kpp.certificates import lipschitz_constant
    >>> model = KPPClassifier("extra-trees", n_estimators=5, alpha=0.1, random_state=0)
    >>> lipschitz_constant(model.fit(*load_iris(return_X_y=True))).shape
    (3,)
    """
    return np.linalg.norm(ask(model).node_coef, axis=1)


def stable_radius(model: Any, epsilon: Any) -> float:
    r"""Radius within which a regressor's output changes by less than a tolerance.

    .. math:: \delta_T(x, x') < (\epsilon / \|w\|)^2 \implies |f(x) - f(x')| < \epsilon

    Parameters
    ----------
    model : KPPRegressor or Pipeline
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
    >>> model = KPPRegressor("extra-trees", n_estimators=20, alpha=1.0, random_state=0).fit(X, y)
    >>> round(float(stable_change(model, stable_radius(model, 10.0))), 9)
    10.0
    """
    tolerance = check_epsilon(_ask_regressor(model).additive, epsilon)
    assert tolerance is not None
    norm = lipschitz_constant(model)
    ratio = np.divide(tolerance, norm, out=np.full(len(norm), np.inf), where=norm > 0)
    return float(np.square(ratio).min())


def stable_change(model: Any, radius: Any) -> FloatArray:
    r"""Largest change of a regressor's output within a radius, :math:`\|w\| \sqrt{u}`.

    Parameters
    ----------
    model : KPPRegressor or Pipeline
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
    >>> model = KPPRegressor("extra-trees", n_estimators=20, alpha=1.0, random_state=0).fit(X, y)
    >>> stable_change(model, [0.0, 0.1]).shape
    (2,)
    """
    _ask_regressor(model)
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


def safe_lipschitz_radius(tables: NodeTables, flip: Flip) -> FloatArray:
    r"""Radius :math:`(m / \|w\|)^2` of each row of a flip, lowered by the rounding in it."""
    if tables.is_constant(flip.contrast):
        return np.full(len(flip.rows), np.inf)
    margin = flip.margin - 2 * flip.tau - 2 * flip.weight_error
    if flip.norm == 0:
        # Two classes with the same w: equal but for the intercepts, and for the rounding of both.
        return np.where(margin > 0, np.inf, 0.0)
    return np.square(np.maximum(margin, 0.0) / flip.norm) * (1 - tables.rounding)


def _ask_regressor(model: Any) -> Question:
    question = ask(model)
    if question.is_classifier:
        raise TypeError(
            "A tolerance of the output belongs to a regressor; for a classifier use "
            f"certify(model, X). Got {type(question.model).__name__}."
        )
    return question
