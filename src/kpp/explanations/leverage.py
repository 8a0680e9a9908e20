"""`leave_one_out`: leverage and leave-one-out residuals of ridge, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.utils.validation import check_array

from kpp._checks import RefusedError, check_sample_weight
from kpp._optional import optional
from kpp._parallel import one_blas_thread
from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray
from kpp.geometry.maps import MapBlock
from kpp.models.asking import Question, ask

# The hat matrix is an array of n x n numbers, and factorising it takes n^3 / 3 steps.
MOST_ROWS = 5000
# Relative to the kernel: below, alpha times the dual coefficients drowns in rounding.
SMALLEST_ALPHA = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class LeaveOneOut(Shown):
    r"""Leverage and leave-one-out residuals; from `leave_one_out`.

    Parameters
    ----------
    rows : int array of shape (n_fit_rows,)
        Numbers of the rows of the fit in the X that the model was fitted on.
    residuals : array of shape (n_fit_rows,) or (n_fit_rows, n_targets)
        :math:`e_i = y_i - g(x_i)`, of the exact solution: a fit stops within its `tol` of it.
    leverage : array of shape (n_fit_rows,)
        :math:`h_i = \partial g(x_i) / \partial y_i`, in [0, 1].
    loo_residuals : array of shape (n_fit_rows,) or (n_fit_rows, n_targets)
        :math:`e_i / (1 - h_i)`: what is left of row i when the linear layer does not see it.
    """

    rows: AnyArray
    residuals: FloatArray
    leverage: FloatArray
    loo_residuals: FloatArray

    @property
    def degrees_of_freedom(self) -> float:
        """Sum of the leverages: the effective dimension, and 1 for an intercept."""
        return float(self.leverage.sum())

    def __repr__(self) -> str:
        return (
            f"LeaveOneOut(n_rows={len(self.rows)}, "
            f"degrees_of_freedom={self.degrees_of_freedom:.4g})"
        )

    def to_frame(self) -> Any:
        """Return a pandas data frame, one row per row of the fit.

        Returns
        -------
        frame : pandas.DataFrame
            Columns leverage, residual and loo_residual, the latter two by target where there
            are several.
        """
        pd = optional("pandas", "to_frame()")
        columns = {"leverage": self.leverage}
        n_rows = len(self.rows)
        several = self.residuals.ndim == 2
        for name in ("residuals", "loo_residuals"):
            values = getattr(self, name).reshape(n_rows, -1)
            for k, column in enumerate(values.T):
                columns[name[:-1] + (f"_{k}" if several else "")] = column
        return pd.DataFrame(columns, pd.Index(self.rows, name="row"))


@one_blas_thread()
def leave_one_out(model: Any, y: Any, *, sample_weight: Any = None) -> LeaveOneOut:
    r"""Compute leverage and leave-one-out residuals of a ridge fit, without refitting.

    With :math:`A = D^{1/2} \Phi_c \Phi_c^\top D^{1/2}`, rows centred by their weighted mean and
    :math:`D = \mathrm{diag}(s)`,

    .. math::
        h_i = \bigl[A (A + \alpha I)^{-1}\bigr]_{ii} + s_i / \textstyle\sum_k s_k, \qquad
        y_i - g_{-i}(x_i) = \frac{y_i - g(x_i)}{1 - h_i}

    exactly, where :math:`g_{-i}` is the linear layer fitted without row i, at the same forest,
    node weights and penalty. (Without an intercept: not centred, and no second term.)

    Parameters
    ----------
    model : KPPRegressor, or Pipeline that ends in one
        Fitted, in any regime but cross-fit and cross-validated.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        The target of the fit, all of its rows.
    sample_weight : array-like of shape (n_rows,), optional
        The weights of the fit.

    Returns
    -------
    result : LeaveOneOut

    Raises
    ------
    ValueError
        If `y` and `sample_weight` are not those of the fit, or there are more than 5000 rows: the
        hat matrix is an array of n x n.

    Notes
    -----
    The forest has still seen row i, except in the honest and fixed regimes: in the shared regime
    these residuals are too small, as any cross-validation of the linear layer alone is. For honest
    ones see ``oof_prediction_``.

    References
    ----------
    Appendix on the ridge primal-dual identity.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.explanations import leave_one_out
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=20, alpha=1.0, random_state=0).fit(X, y)
    >>> result = leave_one_out(model, y)
    >>> bool((result.leverage > 0).all() and (result.leverage < 1).all())
    True
    >>> bool((abs(result.loo_residuals) >= abs(result.residuals)).all())
    True
    """
    question = ask(model)
    if not question.is_ridge:
        other = "a KPPClassifier" if question.is_classifier else "another loss"
        raise TypeError(
            f"The closed form is ridge regression's; {other} has none. Its honest "
            "predictions are in oof_prediction_."
        )
    if question.regime.averages_folds:
        raise ValueError(
            f"In the {question.regime.name} regime no single linear layer has seen all rows: "
            "there is no hat matrix of the average. Use oof_prediction_."
        )
    if question.model.blend_weights_ is not None:
        raise RefusedError(
            "Leverage is that of one linear fit, and this model blends several: there is no hat "
            "matrix of the whole. Use oof_prediction_."
        )
    if len(question.model.fits_) != 1:
        raise RefusedError(
            "Leverage is that of one linear fit with its dual coefficients; this model keeps "
            f"{len(question.model.fits_)} in fits_."
        )
    (fit,) = question.model.fits_
    rows = np.asarray(fit.rows)
    if len(rows) > MOST_ROWS:
        raise ValueError(
            f"Leverage needs an array of {len(rows)} x {len(rows)} numbers; the limit is "
            f"{MOST_ROWS} rows. Use oof_prediction_, which has no such limit."
        )
    target, weight = _fit_data(question, y, sample_weight, rows)
    embedding = fit.map
    record = question.model.fit_record_
    fitted = embedding.matmat(fit.node_coef.T) + fit.intercept
    if fit.center is not None:
        # What is fitted is what the centre leaves.
        start = embedding.matmat(fit.center.node_coef.T) + fit.center.intercept
        target, fitted = target - start, fitted - start
    kept, dual = _solve(embedding, fit.alpha, weight, record.fit_intercept, target)
    residuals = target - _fitted(embedding, dual, weight, record.fit_intercept, target)
    _check_fit(fit.alpha, embedding, target - fitted - residuals, target, weight, record.tol)
    loo = residuals / kept[:, None]
    single = np.ndim(question.model.node_coef_) == 1
    return LeaveOneOut(
        rows=rows,
        residuals=residuals[:, 0] if single else residuals,
        leverage=1.0 - kept,
        loo_residuals=loo[:, 0] if single else loo,
    )


def _fit_data(
    question: Question, y: Any, sample_weight: Any, rows: AnyArray
) -> tuple[FloatArray, FloatArray]:
    target = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    model, n_targets = question.model, len(question.intercept)
    partition = () if model.partition_rows_ is None else model.partition_rows_
    # In the honest regime the layer has seen some of the rows only; y is that of all rows of the
    # fit.
    n_rows = len(np.union1d(rows, partition))
    target = target.reshape(len(target), -1)
    if target.shape != (n_rows, n_targets):
        raise ValueError(
            f"y must be the target of the fit, {n_rows} rows and {n_targets} column(s); got "
            f"{target.shape[0]} rows and {target.shape[1]} column(s)."
        )
    if sample_weight is None:
        stored = model.sample_weight_
        weight = np.ones(len(rows)) if stored is None else np.asarray(stored, dtype=np.float64)
    else:
        weight = check_sample_weight(sample_weight, n_rows)[rows]
    return target[rows], weight


def _check_fit(
    alpha: float,
    embedding: MapBlock,
    apart: FloatArray,
    target: FloatArray,
    weight: FloatArray,
    tol: float,
) -> None:
    """The fit must be the solution for these targets and weights, to its own tolerance."""
    # An objective within 1 + tol of its minimum has fitted values within about sqrt(tol) of the
    # target's spread.
    share = weight / weight.sum()
    spread = np.sqrt(share @ np.square(target - share @ target))
    if (np.sqrt(share @ np.square(apart)) <= (1e-3 + 2 * np.sqrt(tol)) * spread).all():
        return
    size = float(np.square(embedding.row_norms()).max(initial=0.0))
    if alpha < SMALLEST_ALPHA * size:
        raise ValueError(
            f"alpha={alpha:.3g} is too small beside the kernel, whose diagonal reaches "
            f"{size:.3g}: the residuals of the fit are rounding errors. Fit with a larger alpha. "
            "If y or sample_weight are not those of the fit, this is the error as well."
        )
    raise ValueError(
        "y and sample_weight are not those that the model was fitted on: its fitted values are "
        "not those of ridge regression on them. Pass the y and the sample_weight of fit. If they "
        "are, the fit did not converge: raise max_iter."
    )


def _solve(
    embedding: MapBlock, alpha: float, weight: FloatArray, fit_intercept: bool, target: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Return :math:`1 - h_i` and the dual coefficients, to rounding whatever the fit's tolerance.

    :math:`1 - h_i = [\alpha (A + \alpha I)^{-1}]_{ii} - u_i^2` with :math:`u \propto s^{1/2}`.
    """
    root = np.sqrt(weight)
    if not fit_intercept:
        gram, centred = embedding.gram(), target
    else:
        gram = embedding.centered(embedding.mean_row(weight)).gram()
        centred = target - weight @ target / weight.sum()
    # A = D^(1/2) Phi_c Phi_c' D^(1/2), in place: it is the largest array here.
    gram *= root[:, None]
    gram *= root
    gram[np.diag_indices_from(gram)] += alpha
    constant = np.zeros_like(root)
    if fit_intercept:
        # A maps u to 0, so alpha times the inverse holds u u' in full, and the intercept takes it
        # off again. Made stiff in that direction, the inverse holds next to nothing of it.
        u = root / np.linalg.norm(root)
        stiff = np.trace(gram)
        gram += stiff * np.outer(u, u)
        constant = alpha / (alpha + stiff) * np.square(u)
    factor = linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
    # The right-hand side is orthogonal to u, and so is the solution.
    dual = root[:, None] * linalg.cho_solve(factor, root[:, None] * centred, check_finite=False)
    # Only the diagonal is needed; from Cholesky's factor the inverse costs no second factorisation.
    inverse, _ = linalg.lapack.dpotri(factor[0], lower=1, overwrite_c=True)
    kept: FloatArray = alpha * inverse.diagonal() - constant
    # 1 - h_i divides the residual: rounding must not make it 0 or negative.
    return np.clip(kept, np.finfo(float).eps, 1.0), dual


def _fitted(
    embedding: MapBlock,
    dual: FloatArray,
    weight: FloatArray,
    fit_intercept: bool,
    target: FloatArray,
) -> FloatArray:
    """What dual coefficients predict for the rows of the fit, shape (n_rows, n_targets)."""
    scores = embedding.gram_matvec(dual)
    if not fit_intercept:
        return scores
    share = weight / weight.sum()
    return scores + share @ (target - scores)
