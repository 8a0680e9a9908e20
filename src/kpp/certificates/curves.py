"""Robustness curves: what share of answers, or what error, is certified at each radius."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from sklearn.utils.validation import check_array

from kpp._checks import RefusedError, check_choice
from kpp._shown import Shown
from kpp._typing import AnyArray, BoolArray, FloatArray
from kpp.certificates.certify import METHODS, certify
from kpp.certificates.deviations import Deviations, deviations
from kpp.certificates.lipschitz import check_radii, lipschitz_constant
from kpp.certificates.node_tables import NodeTables
from kpp.models.asking import Question, ask
from kpp.scores import RoutedRows

N_RADII = 201


class _Evaluator(Protocol):
    def __call__(self, u: float) -> float: ...
    def each(self, u: float) -> AnyArray: ...


@dataclass(frozen=True, eq=False)
class RobustnessCurve(Shown):
    r"""A certified metric as a function of the radius. Made by `robustness_curve`.

    Parameters
    ----------
    radii : array of shape (n_radii,)
        Radii u, in :math:`\delta_T`.
    values : array of shape (n_radii,)
        :math:`\mathrm{RobAcc}(u)`, or an upper bound on :math:`\mathrm{RobMSE}(u)`.
    u_max : float
        Classification: the largest finite radius of a row. Regression: :math:`(M / L)^2`, M the
        largest :math:`|y_i|`. Infinite for :math:`w = 0`.
    u_half : float
        The smallest radius at which the accuracy has fallen to half of its value at 0, or the
        squared error risen to twice; infinite where it never does.
    metric : {"accuracy", "squared error"}
        What the values are.
    method : {"leafwise", "lipschitz"}
        The certificate.
    never_flips : float
        Share of rows that are right and whose answer no leaves change: where the accuracy ends.
        NaN for regression.
    normalize : {"forest", "tree"}
        Which path distance the radii are in, as in `Certificate`.
    """

    radii: FloatArray
    values: FloatArray
    u_max: float
    u_half: float
    metric: str
    method: str
    never_flips: float
    normalize: str
    _evaluate: _Evaluator = field(repr=False)

    def __repr__(self) -> str:
        return (
            f"RobustnessCurve({self.metric}, method={self.method!r}, at_0={self(0.0):.4g}, "
            f"u_half={self.u_half:.4g}, u_max={self.u_max:.4g}, normalize={self.normalize!r})"
        )

    def __call__(self, u: Any) -> Any:
        """Evaluate the curve at any radius, not only at `radii`.

        Parameters
        ----------
        u : float or array-like
            Radii, not negative. At infinity the accuracy is `never_flips`.

        Returns
        -------
        values : float or array
        """
        radii = check_radii(u)
        values = np.array([self._evaluate(float(r)) for r in radii.ravel()])
        return float(values[0]) if radii.ndim == 0 else values.reshape(radii.shape)

    def pointwise(self, u: Any) -> AnyArray:
        r"""Give what the curve is the mean of: a bound of its own for every row.

        Regression, with :math:`e_i = y_i - f(x_i)`: an upper bound on the squared error of row
        i, wherever within u it moves,

        .. math::
            \sup_{\delta_T(x_i, x') \le u} (y_i - f(x'))^2
            \le \max(|e_i - U^+_i(u)|, |e_i + U^-_i(u)|)^2
            \le e_i^2 + 2 |e_i| L \sqrt u + L^2 u

        of which the last is that of ``method="lipschitz"``. Classification: whether the row is
        right and certified to stay so.

        Parameters
        ----------
        u : float or array-like
            Radii, not negative.

        Returns
        -------
        values : array of shape (n_rows,), or (\*u.shape, n_rows)
            Squared errors, with a last axis of n_targets where there are several; or bool.

        References
        ----------
        Equation reg-pointwise-robust.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from kpp import KPPRegressor
        >>> from kpp.certificates import robustness_curve
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KPPRegressor("extra-trees", n_estimators=10, alpha=1.0, random_state=0)
        >>> model = model.fit(X, y)
        >>> curve = robustness_curve(model, X, y)
        >>> bool(abs(curve.pointwise(0.1).mean() - curve(0.1)) < 1e-9)
        True
        """
        radii = check_radii(u)
        each = [self._evaluate.each(float(r)) for r in radii.ravel()]
        return each[0] if radii.ndim == 0 else np.reshape(each, (*radii.shape, *each[0].shape))


@dataclass(frozen=True, eq=False)
class CurveBand(Shown):
    """Several curves, such as those of several seeds, at common radii.

    Parameters
    ----------
    radii : array of shape (n_radii,)
        Common radii.
    values : array of shape (n_curves, n_radii)
        Each curve at them.
    metric, method, normalize : str
        Those of the curves.
    u_max, u_half : arrays of shape (n_curves,)
        Those of the curves.
    """

    radii: FloatArray
    values: FloatArray
    metric: str
    method: str
    normalize: str
    u_max: FloatArray
    u_half: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Mean over the curves, shape (n_radii,)."""
        return self.values.mean(axis=0)

    @property
    def std(self) -> FloatArray:
        """Standard deviation over the curves, with n - 1; 0 for a single curve."""
        if len(self.values) == 1:
            return np.zeros(len(self.radii))
        return self.values.std(axis=0, ddof=1)


def robustness_curve(
    model: Any, X: Any, y: Any, *, radii: Any = None, method: str = "leafwise"
) -> RobustnessCurve:
    r"""Compute the certified accuracy, or the certified squared error, at each radius.

    Classification, with :math:`r_i` the certified radius of row i (the paper's
    :math:`(m_i / \|w\|)^2` for ``method="lipschitz"``) and :math:`m_i` its margin:

    .. math::
        \mathrm{RobAcc}(u) = \frac1n \sum_i 1\{m_i > 0,\; r_i > u\}

    A row that never flips has an infinite radius and counts at every u, infinity included.

    Regression, with :math:`e_i = y_i - f(x_i)` and :math:`L = \|w\|`:

    .. math::
        \mathrm{RobMSE}(u) \le \mathrm{MSE} + 2\, \mathrm{MAE}\, L \sqrt u + L^2 u

    by the Lipschitz bound, or, leafwise, with bounds :math:`U^\pm_i(u)` on the rise and the
    fall of the output within u: :math:`\frac1n \sum_i \max(|e_i - U^+_i|, |e_i + U^-_i|)^2`,
    which is never above.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline
        Fitted.
    X : array-like, data frame or RoutedRows of shape (n_rows, n_features)
        Rows, usually held out.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        Their labels. Several targets are averaged.
    radii : array-like of shape (n_radii,), optional
        Radii in :math:`\delta_T`; by default 201 from 0 to `u_max`.
    method : {"leafwise", "lipschitz"}, default="leafwise"
        The certificate.

    Returns
    -------
    curve : RobustnessCurve
        It can be called at any radius. `u_half` is exact for any `radii`; `pointwise` has the
        rows behind the mean.

    Notes
    -----
    The labels are those of the rows as they are: the curve is the stability of the answer
    against a fixed label. It is robustness of the accuracy, or of the risk, only where the true
    label does not change within the radius. And the radius is one of the forest's metric, not
    of raw inputs.

    References
    ----------
    Equations robust-accuracy-curve and robust-mse.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kpp import KPPClassifier
    >>> from kpp.certificates import robustness_curve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = KPPClassifier("extra-trees", n_estimators=20, alpha=1e-3, random_state=0)
    >>> model = model.fit(X[::2], y[::2])
    >>> paper = robustness_curve(model, X[1::2], y[1::2], method="lipschitz")
    >>> bool(paper(0.0) == model.score(X[1::2], y[1::2])), paper(paper.u_max)
    (True, 0.0)
    >>> ours = robustness_curve(model, X[1::2], y[1::2])
    >>> bool((ours(paper.radii) >= paper.values).all())
    True
    """
    check_choice("method", method, METHODS)
    question = ask(model)
    curve = _accuracy_curve if question.is_classifier else _error_curve
    return curve(question, question.rows(X), y, radii, method)


def combine_curves(curves: Sequence[RobustnessCurve], *, radii: Any = None) -> CurveBand:
    """Bring several curves to common radii: a band over seeds.

    Parameters
    ----------
    curves : sequence of RobustnessCurve
        Of one metric, one method and one normalisation.
    radii : array-like of shape (n_radii,), optional
        Common radii; by default 201 from 0 to the largest finite `u_max`.

    Returns
    -------
    band : CurveBand

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.certificates import combine_curves, robustness_curve
    >>> X, y = load_diabetes(return_X_y=True)
    >>> models = [KPPRegressor("extra-trees", n_estimators=5, random_state=s) for s in range(3)]
    >>> curves = [robustness_curve(model.fit(X, y), X, y) for model in models]
    >>> combine_curves(curves).values.shape
    (3, 201)
    """
    curves = list(curves)
    kinds = {(curve.metric, curve.method, curve.normalize) for curve in curves}
    if len(kinds) != 1:
        raise ValueError(
            "Curves to combine must be of one metric and one method, in one normalisation, and at "
            "least one; got "
            f"{sorted(kinds)}."
        )
    metric, method, normalize = kinds.pop()
    u_max = np.array([curve.u_max for curve in curves])
    finite = u_max[np.isfinite(u_max)]
    common = _radii_of_curve(radii, finite.max(initial=0.0))
    return CurveBand(
        radii=common,
        values=np.stack([curve(common) for curve in curves]),
        metric=metric,
        method=method,
        normalize=normalize,
        u_max=u_max,
        u_half=np.array([curve.u_half for curve in curves]),
    )


# Classification.


@dataclass(frozen=True, eq=False)
class _Accuracy:
    """Right rows, and their radii."""

    right: BoolArray
    radius: FloatArray

    def __call__(self, u: float) -> float:
        return float(self.each(u).mean())

    def each(self, u: float) -> BoolArray:
        """Which rows count, shape (n_rows,)."""
        # The very radii are compared, not their square roots times the norm: no rounding can
        # make a row outlast its own radius. At u = 0 every right row counts, and one that never
        # flips counts at any u.
        return self.right & ((self.radius > u) | np.isinf(self.radius) | (u == 0))


def _accuracy_curve(
    question: Question, rows: RoutedRows, y: Any, radii: Any, method: str
) -> RobustnessCurve:
    certificate = certify(question.model, rows, method=method)
    assert question.additive.classes is not None
    labels = _check_labels(question.additive.classes, y, len(rows))
    right = (question.model.predict(rows) == labels) & (certificate.margin > 0)
    evaluate = _Accuracy(right, certificate.radius)
    finite = certificate.radius[np.isfinite(certificate.radius)]
    u_max = float(finite.max()) if len(finite) else np.inf
    # Rows drop out at their radius: the half is reached when floor(n / 2) are left.
    lost = np.sort(certificate.radius[right])
    n_lost = len(lost) - len(lost) // 2
    u_half = float(lost[n_lost - 1]) if n_lost else 0.0
    u = _radii_of_curve(radii, u_max)
    return RobustnessCurve(
        radii=u,
        values=np.array([evaluate(float(r)) for r in u]),
        u_max=u_max,
        u_half=u_half,
        metric="accuracy",
        method=method,
        never_flips=float((right & np.isinf(certificate.radius)).mean()),
        normalize=certificate.normalize,
        _evaluate=evaluate,
    )


def _check_labels(classes: AnyArray, y: Any, n_rows: int) -> AnyArray:
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise ValueError(f"y must have one label per row, shape ({n_rows},); got {labels.shape}.")
    unknown = sorted(set(labels.tolist()) - set(classes.tolist()), key=repr)
    if unknown:
        raise ValueError(
            f"y holds labels that the model does not know: {unknown[:5]}; it knows "
            f"{classes.tolist()[:10]}."
        )
    return labels


# Regression.


@dataclass(frozen=True, eq=False)
class _SquaredError:
    """Residuals, Lipschitz constants and, leafwise, bounds on rise and fall; per target."""

    residual: FloatArray  # (n_rows, n_targets)
    norm: FloatArray  # (n_targets,)
    moves: list[Deviations] | None

    def __call__(self, u: float) -> float:
        return float(np.mean([errors.mean() for errors in self._by_target(u)]))

    def each(self, u: float) -> FloatArray:
        """Bounds of the rows, shape (n_rows,), or (n_rows, n_targets)."""
        errors = self._by_target(u)
        return errors[0] if len(errors) == 1 else np.column_stack(errors)

    def _by_target(self, u: float) -> list[FloatArray]:
        root = np.sqrt(u)
        totals = []
        for k, e in enumerate(self.residual.T):
            reach = self.norm[k] * root if self.norm[k] > 0 else 0.0
            if self.moves is None:
                totals.append(np.square(np.abs(e) + reach))
                continue
            rise = np.minimum(self.moves[k].rise(u), reach)
            fall = np.minimum(self.moves[k].fall(u), reach)
            totals.append(np.square(np.maximum(np.abs(e - rise), np.abs(e + fall))))
        return totals


def _error_curve(
    question: Question, rows: RoutedRows, y: Any, radii: Any, method: str
) -> RobustnessCurve:
    if not question.is_ridge and (question.additive.is_log or question.additive.n_scores > 1):
        raise RefusedError(
            "The curve of certified errors is of predictions that are the scores themselves: not "
            "of Poisson means, whose scores are logarithms, nor of several quantiles."
        )
    prediction = np.asarray(question.model.predict(rows))
    target = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    if target.ndim == 2 and target.shape[1] == 1 and prediction.ndim == 1:
        target = target[:, 0]
    if target.shape != prediction.shape:
        raise ValueError(
            f"y must have the shape of the predictions, {prediction.shape}; got {target.shape}."
        )
    n_rows = len(prediction)
    target = target.reshape(n_rows, -1)
    residual = target - prediction.reshape(n_rows, -1)
    norm = lipschitz_constant(question.model)
    ratio = np.divide(
        np.abs(target).max(axis=0), norm, out=np.full(len(norm), np.inf), where=norm > 0
    )
    u_max = float(np.square(ratio).max())
    u = _radii_of_curve(radii, u_max)
    moves = None
    if method == "leafwise":
        tables = NodeTables.of(question.additive, n_jobs=question.model.n_jobs)
        moves = deviations(tables, rows.joined_leaf_ids, norm, rows.joined_values)
    evaluate = _SquaredError(residual, norm, moves)
    return RobustnessCurve(
        radii=u,
        values=np.array([evaluate(float(r)) for r in u]),
        u_max=u_max,
        u_half=_doubling(evaluate, residual, norm),
        metric="squared error",
        method=method,
        never_flips=np.nan,
        normalize=question.model.map_.normalize,
        _evaluate=evaluate,
    )


def _doubling(evaluate: _SquaredError, residual: FloatArray, norm: FloatArray) -> float:
    """Smallest u at which the curve reaches twice its value at 0."""
    mse, goal = evaluate(0.0), 2 * evaluate(0.0)
    if mse == 0:
        return 0.0
    if len(norm) == 1 and evaluate.moves is None:
        if norm[0] == 0:
            return np.inf
        # L^2 u + 2 MAE L sqrt(u) = MSE, solved for sqrt(u) without cancellation.
        mae = np.abs(residual).mean()
        return float((mse / (mae + np.sqrt(mae**2 + mse)) / norm[0]) ** 2)
    high = 1e-300
    while evaluate(high) < goal:
        high *= 1e10 if high < 1e-12 else 2.0
        if high > 1e200:
            return np.inf
    low = 0.0
    # The curve is continuous and does not fall: halve until the two ends are neighbours.
    while np.nextafter(low, np.inf) < high and high - low > 1e-15 * high:
        middle = (low + high) / 2
        if evaluate(middle) < goal:
            low = middle
        else:
            high = middle
    return float(high)


def _radii_of_curve(radii: Any, u_max: float) -> FloatArray:
    if radii is None:
        # Distances are of order 1: without an end of its own a curve is shown up to there.
        return np.linspace(0.0, u_max if 0 < u_max < np.inf else 1.0, N_RADII)
    u = np.atleast_1d(check_radii(radii))
    if u.ndim > 1 or len(u) == 0:
        raise ValueError(
            f"radii must be a list of at least one radius, shape (n_radii,); got shape {u.shape}."
        )
    return u
