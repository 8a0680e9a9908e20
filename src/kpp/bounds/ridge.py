"""Ridge effective dimension and the fixed-design bias-variance decomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._parallel import one_blas_thread
from kpp._shown import Shown
from kpp._typing import FloatArray
from kpp.bounds.assumptions import preparation_assumptions, representation_assumption
from kpp.bounds.results import Assumption
from kpp.bounds.samples import ask_one_target, encode_target, rows_of, sample_of
from kpp.bounds.spectrum import EXACT_ROWS, Estimate, gram_spectrum
from kpp.geometry.maps import MapBlock
from kpp.models.asking import ask
from kpp.models.linear import KPPLinearModel
from kpp.models.penalties import alpha_of
from kpp.models.pipelines import split_pipeline
from kpp.solvers import ridge_path

# Random vectors of a weighted smoother of many rows.
N_PROBES = 8


@one_blas_thread()
def effective_dimension(
    model: Any, X: Any, alpha: float | None = None, *, centered: bool = False
) -> Estimate:
    r"""Ridge effective dimension of the Gram at the rows of X.

    .. math:: d_{\mathrm{eff}}(\alpha) = \mathrm{Tr}\bigl(G (G + \alpha I)^{-1}\bigr)
        = \sum_j \frac{\mu_j}{\mu_j + \alpha}

    A figure of ridge regression. It does not replace the trace in the Rademacher complexity of
    the whole ball.

    Parameters
    ----------
    model : fitted estimator, Pipeline that ends in one, or MapBlock
        The embedding.
    X : array-like or data frame of shape (n_rows, n_features)
        Rows.
    alpha : float, optional
        Penalty, summed loss; ``alpha_`` of a KPPRegressor by default.
    centered : bool
        Whether rows are centred first, as a fit with an intercept does; the paper's figure is
        not.

    Returns
    -------
    dimension : Estimate
        Exact up to 2,000 rows.

    References
    ----------
    Equation effective-dimension, remark deff-scope.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from kpp import KPPRegressor
    >>> from kpp.bounds import effective_dimension
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(30, max_depth=6, random_state=0)
    >>> model = KPPRegressor(forest, alpha=0.4329).fit(X, y)
    >>> round(effective_dimension(model, X).value / 442, 3)
    0.073
    """
    alpha = _ridge_alpha(model) if alpha is None else float(alpha)
    at_rows = model.on(X) if isinstance(model, MapBlock) else rows_of(model, X).map
    return gram_spectrum(at_rows, centered=centered).effective_dimension(alpha)


def _ridge_alpha(model: Any) -> float:
    fitted = None if isinstance(model, MapBlock) else split_pipeline(model)[1]
    if not isinstance(fitted, KPPLinearModel) or not ask(fitted).is_ridge:
        raise ValueError(
            "alpha must be given: only a fitted KPPRegressor with loss='squared' has a ridge "
            "penalty of its own."
        )
    return alpha_of(fitted)


@dataclass(frozen=True, eq=False)
class BiasVariance(Shown):
    r"""Expected in-sample squared error of the ridge smoother at fixed rows.

    Parameters
    ----------
    bias : float
        :math:`\frac1n \|(I - S) f_\star\|^2`.
    variance : float
        :math:`\frac{\sigma^2}{n} \mathrm{Tr}(S S^\top)`.
    trace : float
        :math:`\mathrm{Tr}(S)`; without weights at least :math:`\mathrm{Tr}(S S^\top)`.
    trace_of_square : float
        :math:`\mathrm{Tr}(S S^\top)`; without weights S is symmetric, and this is
        :math:`\mathrm{Tr}(S^2)`.
    noise_variance : float
        :math:`\sigma^2`, given or estimated.
    noise_is_estimated, signal_is_estimated : bool
        Whether sigma^2, and f*, were estimated from y.
    regime : str
        Regime of the model.
    assumptions : tuple of Assumption
        Whether this is a decomposition or a diagnostic.
    error : float
        Standard error of the variance, where the traces come from random vectors; 0 where they
        are exact.
    method : str
        How the traces were found.
    """

    bias: float
    variance: float
    trace: float
    trace_of_square: float
    noise_variance: float
    noise_is_estimated: bool
    signal_is_estimated: bool
    regime: str
    assumptions: tuple[Assumption, ...]
    error: float = 0.0
    method: str = "eigenvalues"

    @property
    def total(self) -> float:
        """Bias plus variance."""
        return self.bias + self.variance

    @property
    def is_guarantee(self) -> bool:
        """Whether it is the identity of the proposition: nothing estimated, noise independent."""
        estimated = self.noise_is_estimated or self.signal_is_estimated or self.error > 0
        return not estimated and all(a.holds is not False for a in self.assumptions)


@one_blas_thread()
def bias_variance(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    noise_variance: float | None = None,
    signal: Any = None,
    sample: str = "fit",
) -> BiasVariance:
    r"""Fixed-design bias and variance of a ridge fit.

    .. math::
        E\Bigl[\tfrac1n \|\hat y - f_\star\|^2 \,\Big|\, x_1^n, \Phi\Bigr]
        = \tfrac1n \|(I - S) f_\star\|^2 + \tfrac{\sigma^2}{n} \mathrm{Tr}(S S^\top), \qquad
        \hat y = S y

    S is the model's own smoother: :math:`G (G + \alpha I)^{-1}` without an intercept, as in the
    paper, and :math:`\frac1n 1 1^\top + G_c (G_c + \alpha I)^{-1}` with one, :math:`G_c` the
    centred Gram. A fit with weights has the weighted smoother, which is not symmetric; the mean
    over rows stays unweighted. Above 2,000 rows the traces come from random vectors, with an
    error that is stated, and the result is no guarantee. Nor is it one where alpha was chosen by
    the labels: then the smoother depends on y.

    Parameters
    ----------
    model : KPPRegressor, or Pipeline that ends in one
        Fitted with ``center="zero"``, not cross-fit.
    X, y : arrays of shape (n_rows, n_features) and (n_rows,)
        What was given to fit. y is needed for what is not given below.
    noise_variance : float, optional
        :math:`\sigma^2`; estimated by :math:`\|y - \hat y\|^2 / (n - 2 \mathrm{Tr} S +
        \mathrm{Tr} S S^\top)` if not given.
    signal : array of shape (n_rows,), optional
        :math:`f_\star` at all rows of X; estimated by the fitted values if not given, which
        makes the bias too small.
    sample : {"fit", "train"}
        "fit": the rows of the linear layer.

    Returns
    -------
    decomposition : BiasVariance

    References
    ----------
    Proposition ridge-bias-variance, remark bias-variance-regime.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.bounds import bias_variance
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor("extra-trees", alpha=0.5, regime="honest", random_state=0)
    >>> model = model.fit(X, y)
    >>> parts = bias_variance(model, X, y)
    >>> parts.noise_is_estimated, parts.trace_of_square <= parts.trace
    (True, True)
    """
    question = ask_one_target(model)
    fitted_model = question.model
    if not question.is_ridge:
        raise TypeError(
            "The bias-variance decomposition is that of ridge: use a KPPRegressor with "
            "loss='squared'."
        )
    alpha = alpha_of(fitted_model)
    if len(fitted_model.fits_) > 1 or fitted_model.fits_[0].center is not None:
        raise ValueError(
            "The decomposition is that of one smoother, yhat = S y: use a model that is not "
            "cross-fit, with center='zero'."
        )
    if y is None and (noise_variance is None or signal is None):
        raise ValueError("Give y, or both noise_variance and signal.")
    n_all = len(X)
    placeholder = np.zeros(n_all) if y is None else y
    if sample not in ("fit", "train"):
        raise ValueError(f"sample must be 'fit' or 'train'; got {sample!r}.")
    data = sample_of(question, X, placeholder, "fit", has_target=y is not None)
    n = len(data.rows)
    if sample == "train" and n < n_all:
        raise ValueError(
            "In the honest regime the smoother belongs to the fit fold: use sample='fit'."
        )
    weight = fitted_model.sample_weight_
    smoother = _Smoother(data.rows.map, alpha, fitted_model.fit_record_.fit_intercept, weight)
    traces = smoother.traces()
    trace, square = traces[0].value, traces[1].value
    fitted = data.rows.scores[:, 0]
    estimated = noise_variance is None
    if noise_variance is None:
        freedom = n - 2 * trace + square
        noise_variance = float(np.square(data.target - fitted).sum() / max(freedom, 1e-12))
    if noise_variance < 0:
        raise ValueError(f"noise_variance must not be negative; got {noise_variance!r}.")
    truth = fitted if signal is None else encode_target(question, signal, n_all)[data.index]
    rest = truth - smoother(truth)
    return BiasVariance(
        bias=float(np.square(rest).mean()),
        variance=float(noise_variance * square / n),
        trace=trace,
        trace_of_square=square,
        noise_variance=float(noise_variance),
        noise_is_estimated=estimated,
        signal_is_estimated=signal is None,
        regime=question.regime.name,
        assumptions=(
            representation_assumption(data),
            _alpha_assumption(fitted_model),
            Assumption("noise of equal variance", None, "given the rows and the map"),
            *preparation_assumptions(data),
        ),
        error=float(noise_variance * traces[1].error / n),
        method=traces[1].method,
    )


def _alpha_assumption(model: KPPLinearModel) -> Assumption:
    name = "alpha fixed beforehand"
    if model.fit_record_.alpha_selection != "given":
        return Assumption(
            name, False, "alpha='auto' was chosen by the labels of the fit; give it as a number"
        )
    return Assumption(name, None, "the caller gave it; not from these labels, one trusts")


@dataclass(frozen=True, eq=False)
class _Smoother:
    """The matrix S that takes the targets of the fit to its predictions."""

    block: MapBlock
    alpha: float
    intercept: bool
    weight: FloatArray | None

    def __call__(self, y: FloatArray) -> FloatArray:
        """S y, by a ridge fit."""
        path = ridge_path(
            self.block, y, [self.alpha], self.weight, fit_intercept=self.intercept, tol=1e-16
        )
        return self.block.gram_matvec(path.dual[0, :, 0]) + path.intercept[0, 0]

    def traces(self) -> tuple[Estimate, Estimate]:
        """Traces of S and of S S'."""
        n = self.block.shape[0]
        if self.weight is not None:
            return self._dense_traces() if n <= EXACT_ROWS else self._drawn_traces()
        spectrum = gram_spectrum(self.block, centered=self.intercept, exact_rows=EXACT_ROWS)
        found = spectrum.effective_dimension(self.alpha), spectrum.trace_of_square(self.alpha)
        # The intercept is the projection on the constants.
        extra = float(self.intercept)
        first, second = (Estimate(e.value + extra, e.error, e.method) for e in found)
        return first, second

    def _dense_traces(self) -> tuple[Estimate, Estimate]:
        assert self.weight is not None
        n = len(self.weight)
        share = self.weight / self.weight.sum() if self.intercept else np.zeros(n)
        root = np.sqrt(self.weight)
        gram = self.block.gram()
        gram = gram - share @ gram
        gram = gram - (gram @ share)[:, None]
        inner = root[:, None] * gram * root + self.alpha * np.eye(n)
        S = (gram * root) @ np.linalg.solve(inner, np.diag(root) - np.outer(root, share)) + share
        return (
            Estimate(float(np.trace(S)), 0.0, "dense smoother"),
            Estimate(float(np.square(S).sum()), 0.0, "dense smoother"),
        )

    def _drawn_traces(self) -> tuple[Estimate, Estimate]:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (N_PROBES, self.block.shape[0]))
        smooth = [self(z) for z in signs]
        method = f"{N_PROBES} random vectors"
        each = (
            [float(z @ s) for z, s in zip(signs, smooth, strict=True)],
            [float(s @ s) for s in smooth],
        )
        first, second = (
            Estimate(float(np.mean(v)), float(np.std(v, ddof=1) / np.sqrt(N_PROBES)), method)
            for v in each
        )
        return first, second
