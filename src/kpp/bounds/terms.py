r"""The informed bounds as functions of arrays: margins, norms, distances from the centre, grids.

Everything here is conditional on the partition fold. A score is
:math:`g = g_0 + \langle u, \psi \rangle + \beta` with :math:`u = w - w_0`,
:math:`\psi = \Phi - c` and a sup norm R of :math:`\psi`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from kpp._typing import FloatArray
from kpp.bounds.kl import kl_inverse


@dataclass(frozen=True)
class Parts:
    """A bound as its parts, and the cell of the grid that gave it.

    Parameters
    ----------
    empirical_risk, complexity, confidence : float
        They add up to the bound.
    cell : mapping
        The values of the grid.
    """

    empirical_risk: float
    complexity: float
    confidence: float
    cell: Mapping[str, Any]

    @property
    def total(self) -> float:
        """The bound."""
        return self.empirical_risk + self.complexity + self.confidence


@dataclass(frozen=True, eq=False)
class Grid:
    r"""Cells over which a bound holds simultaneously; fixed before the sample is seen.

    Parameters
    ----------
    radii : array
        B, rising; the first is 0.
    shifts : array
        Bounds of :math:`|\beta|`, rising; the first is 0.
    margins : array
        :math:`\rho`, for the ramp.
    sigmas : array
        Standard deviations of the posterior.
    quantiles : array
        t, for the 0/1 error.
    widths : array
        t, for the squared loss; positive.
    """

    radii: FloatArray
    shifts: FloatArray
    margins: FloatArray
    sigmas: FloatArray
    quantiles: FloatArray
    widths: FloatArray

    @classmethod
    def scaled(
        cls, margin: float, spread: float, *, intercept: bool = True, sharp: bool = True
    ) -> Grid:
        """Make the grid of scores of size `margin` and rows of norm `spread`.

        Without an intercept there is one cell of shifts. `sharp` is for a centre that was fitted:
        a posterior may then be much narrower than the scores.
        """
        unit = margin / spread if spread > 0 else margin
        return cls(
            # Powers of two: few cells, since N costs log N in the bound, and between the first and
            # the last a cell is at most twice as large as the number that it holds.
            radii=np.concatenate([[0.0], unit * 2.0 ** np.arange(-8, 8)]),
            shifts=np.concatenate([[0.0], margin * 2.0 ** np.arange(-6, 4)])
            if intercept
            else np.zeros(1),
            margins=margin * 2.0 ** np.arange(-5.0, 4.0),
            sigmas=unit * 2.0 ** (np.arange(-9.0, 3.0) if sharp else np.arange(-5.0, 5.0)),
            quantiles=np.array([0.5, 1.0, 1.5, 2.0, 3.0]),
            widths=np.array([2.0, 2.5, 3.0, 3.5]),
        )

    @property
    def n_ramp(self) -> int:
        """Cells of the ramp bound."""
        return len(self.radii) * len(self.shifts) * len(self.margins)

    @property
    def n_clipped(self) -> int:
        """Cells of the clipped squared loss."""
        return len(self.radii) * len(self.shifts)

    @property
    def n_pac(self) -> int:
        """Cells of the PAC-Bayes bound of the 0/1 error."""
        return len(self.sigmas) * len(self.quantiles)

    @property
    def n_pac_squared(self) -> int:
        """Cells of the PAC-Bayes bound of the squared loss."""
        return len(self.sigmas) * len(self.widths)


def _cell(values: FloatArray, value: float) -> float:
    """The smallest value of a grid that is not below the given one; infinite if there is none."""
    # A bound over a cell holds for everything inside, so the smallest cell that holds u is the best
    # one; beyond the last one nothing was promised.
    place = int(np.searchsorted(values, value))
    return float(values[place]) if place < len(values) else np.inf


def ramp(margins: FloatArray, rho: Any) -> FloatArray:
    r"""1 below margin 0, 0 above margin :math:`\rho`, linear between."""
    return np.clip(1 - margins / rho, 0.0, 1.0)


def ramp_bound(
    margins: FloatArray,
    radius: float,
    shift: float,
    sup_norm: float,
    grid: Grid,
    delta: float,
    *,
    n_classes: int = 2,
    n_cells: int | None = None,
) -> Parts:
    r"""Bound the 0/1 error by the ramp loss.

    .. math:: P(Y g \le 0) \le \frac1n \sum_i \mathrm{ramp}_\rho(y_i g_i)
        + \frac{2 (B R + \beta)}{\rho \sqrt n} + \sqrt{\frac{\log(N/\delta)}{2 n}}

    With more than two classes the margin is :math:`g_y - \max_{k \ne y} g_k`, the norms are over
    all classes, and the middle term is :math:`2 \sqrt{K}` times as large.
    """
    n = len(margins)
    factor = 1.0 if n_classes == 2 else 2 * np.sqrt(n_classes)
    B, beta = _cell(grid.radii, radius), _cell(grid.shifts, shift)
    confidence = np.sqrt(np.log((n_cells or grid.n_ramp) / delta) / (2 * n))
    # Theorem 1 of the page on bounds, for every rho of the grid at once; the smallest may be taken
    # because log N pays for all of them.
    risks = ramp(margins[None, :], grid.margins[:, None]).mean(axis=1)
    size = B * sup_norm + beta if np.isfinite(B) and np.isfinite(beta) else np.inf
    terms = factor * 2 * size / (grid.margins * np.sqrt(n))
    best = int(np.argmin(risks + terms))
    error = float((margins <= 0).mean())
    cell = {"B": B, "beta": beta, "rho": float(grid.margins[best]), "ramp": float(risks[best])}
    # The parts show the plain error first; what the ramp adds to it counts as complexity.
    return Parts(error, float(risks[best] - error + terms[best]), float(confidence), cell)


def clipped_bound(
    y: FloatArray,
    g: FloatArray,
    limits: tuple[float, float],
    radius: float,
    shift: float,
    sup_norm: float,
    grid: Grid,
    delta: float,
) -> Parts:
    r"""Bound the squared loss of the clipped prediction, for Y in [L, U], W = U - L.

    .. math:: E (Y - \bar g)^2 \le \frac1n \sum_i (y_i - \bar g_i)^2
        + \frac{4 W (B R + \beta)}{\sqrt n} + W^2 \sqrt{\frac{\log(N/\delta)}{2 n}}
    """
    n, (low, high) = len(y), limits
    width = high - low
    B, beta = _cell(grid.radii, radius), _cell(grid.shifts, shift)
    risk = float(np.square(np.clip(y, low, high) - np.clip(g, low, high)).mean())
    size = B * sup_norm + beta if np.isfinite(B) and np.isfinite(beta) else np.inf
    confidence = width**2 * np.sqrt(np.log(grid.n_clipped / delta) / (2 * n))
    cell = {"B": B, "beta": beta}
    return Parts(risk, float(4 * width * size / np.sqrt(n)), float(confidence), cell)


def pac_bayes_bound(
    margins: FloatArray,
    norms: FloatArray,
    distance: float,
    grid: Grid,
    delta: float,
    *,
    sup_norm: float | None = None,
    n_cells: int | None = None,
) -> Parts:
    r"""Bound the 0/1 error by a Gaussian around w, relative to the same Gaussian around w0.

    .. math::
        P(Y g \le 0) \le \frac{1}{\Phi_N(t)} \mathrm{kl}^{-1}\Bigl(
        \frac1n \sum_i \Phi_N\Bigl(\frac{\rho_i - y_i g_i}{\sigma |\psi_i|}\Bigr),\;
        \frac{|w - w_0|^2 / (2 \sigma^2) + \log(2 \sqrt n\, 2 N / \delta)}{n} \Bigr)

    with :math:`\rho_i = t \sigma R` for all rows, or, without a sup norm,
    :math:`\rho_i = t \sigma |\psi_i|`. The N cells share half of delta. The other half is the
    centre's own: at :math:`w = w_0` it is :math:`\mathrm{kl}^{-1}(\hat R, \log(2/\delta)/n)`.

    Parameters
    ----------
    margins : array of shape (n, n_classes - 1)
        :math:`g_y - g_k` for every other class.
    norms : array of shape (n,)
        :math:`|\psi_i|`.
    distance : float
        :math:`|w - w_0|`.
    grid : Grid
        Its `sigmas` and `quantiles`.
    delta : float
        Probability.
    sup_norm : float, optional
        R.
    n_cells : int, optional
        N; the number of cells by default.
    """
    n, n_others = margins.shape
    N = grid.n_pac if n_cells is None else n_cells
    # The difference of two noisy scores has twice the variance of one.
    scale = norms * (np.sqrt(2.0) if n_others > 1 else 1.0)
    # y g / |psi|: the margin in units of the noise of sigma 1. Where psi is 0 there is no noise,
    # and the row is right or wrong for certain.
    ratio = np.full_like(margins, np.inf)
    np.divide(margins, scale[:, None], out=ratio, where=scale[:, None] > 0)
    ratio[(scale == 0)[:, None] & (margins <= 0)] = -np.inf
    factor = np.ones(n)
    if sup_norm is not None:
        # rho is t sigma R, which is t R / |psi| of the row's own standard deviations.
        with np.errstate(divide="ignore"):
            factor = np.where(norms > 0, sup_norm / norms, 1.0)
    # Theorem 3. N cells share half of delta, hence 2 N / delta.
    log_term = np.log(2 * np.sqrt(n) * 2 * N / delta)
    best: tuple[float, float, float, float, float] | None = None
    for sigma in grid.sigmas:
        divergence = distance**2 / (2 * sigma**2)
        if divergence > 20 * n:  # the inverse is 1
            continue
        below = ratio / sigma
        # For several classes a union: the sum over the others, cut at 1, since a loss is at most 1.
        smooth = np.array(
            [
                np.minimum(ndtr((t * factor)[:, None] - below).sum(axis=1), 1.0).mean()
                for t in grid.quantiles
            ]
        )
        # Where w is wrong, the margin of the noisy u' is at most rho with probability Phi_N(t) or
        # more.
        totals = kl_inverse(smooth, (divergence + log_term) / n) / ndtr(grid.quantiles)
        k = int(np.argmin(totals))
        if best is None or totals[k] < best[0]:
            best = (
                float(totals[k]),
                float(sigma),
                float(grid.quantiles[k]),
                float(smooth[k]),
                divergence,
            )
    error = float((margins <= 0).any(axis=1).mean())
    at_center = _center_parts(error, 1.0, distance, n, N, delta)
    if at_center is not None and (best is None or at_center.total <= best[0]):
        return at_center
    if best is None:
        return Parts(error, np.inf, 0.0, {"sigma": np.nan, "t": np.nan, "N": N})
    total, sigma, t, smoothed, divergence = best
    # How much of the bound the probability delta costs: the rest, with the divergence alone.
    without = float(kl_inverse(smoothed, divergence / n) / ndtr(t))
    cell = {"sigma": sigma, "t": t, "smoothed": smoothed, "kl": divergence, "N": N}
    return Parts(error, without - error, total - without, cell)


def pac_bayes_squared_bound(
    y: FloatArray,
    g: FloatArray,
    norms: FloatArray,
    limits: tuple[float, float],
    distance: float,
    sup_norm: float,
    grid: Grid,
    delta: float,
) -> Parts:
    r"""Bound the squared loss of the clipped prediction by a Gaussian around w.

    With :math:`\tau_i = t \sigma |\psi_i|`, :math:`V = U - L + t \sigma R` and the loss
    :math:`f_i(z) = (y_i - \mathrm{clip}(z, L - \tau_i, U + \tau_i))^2 / V^2`,

    .. math::
        E (Y - \bar g)^2 \le \frac{V^2}{2 \Phi_N(t) - 1} \mathrm{kl}^{-1}\Bigl(
        \frac1n \sum_i E f_i(g_i + \sigma |\psi_i| Z),\;
        \frac{|w - w_0|^2 / (2 \sigma^2) + \log(2 \sqrt n\, 2 N / \delta)}{n} \Bigr)

    The centre itself has half of delta, as in `pac_bayes_bound`.
    """
    n, (low, high) = len(y), limits
    y = np.clip(y, low, high)
    log_term = np.log(2 * np.sqrt(n) * 2 * grid.n_pac_squared / delta)
    risk = float(np.square(y - np.clip(g, low, high)).mean())
    best: tuple[float, dict[str, float], float] | None = None
    for sigma in grid.sigmas:
        divergence = distance**2 / (2 * sigma**2)
        if divergence > 20 * n:
            continue
        for t in grid.widths:
            # V of theorem 4: the largest |y - z| over the widened range.
            size = high - low + t * sigma * sup_norm
            noise, tau = sigma * norms, t * sigma * norms
            smooth = float(_clipped_square(y, g, noise, low - tau, high + tau).mean() / size**2)
            # Exactly in [0, 1]; the closed form is rounded.
            smooth = min(max(smooth, 0.0), 1.0)
            scale = size**2 / (2 * ndtr(t) - 1)
            total = float(kl_inverse(smooth, (divergence + log_term) / n) * scale)
            if best is None or total < best[0]:
                without = float(kl_inverse(smooth, divergence / n) * scale)
                cell = {"sigma": float(sigma), "t": float(t), "kl": divergence}
                best = (total, cell | {"smoothed": smooth * size**2}, without)
    N = grid.n_pac_squared
    at_center = _center_parts(risk, (high - low) ** 2, distance, n, N, delta)
    if at_center is not None and (best is None or at_center.total <= best[0]):
        return at_center
    if best is None:
        return Parts(risk, np.inf, 0.0, {"sigma": np.nan, "t": np.nan, "N": N})
    total, found, without = best
    return Parts(risk, without - risk, total - without, found | {"N": N})


def _center_parts(
    risk: float, scale: float, distance: float, n: int, N: int, delta: float
) -> Parts | None:
    """The bound of the centre itself, from its half of delta; None elsewhere."""
    if distance > 0:
        return None
    # Chernoff's bound: the centre is fixed beforehand, so neither the grid nor 2 sqrt(n) is paid
    # for.
    total = float(kl_inverse(min(risk / scale, 1.0), np.log(2 / delta) / n)) * scale
    return Parts(risk, 0.0, total - risk, {"sigma": 0.0, "t": np.inf, "kl": 0.0, "N": N})


def _clipped_square(
    y: FloatArray, g: FloatArray, noise: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Expectation of (y - clip(g + noise Z, low, high))^2 for a standard normal Z."""
    safe = np.where(noise > 0, noise, 1.0)
    # With d = y - g the loss is (d - noise Z)^2 for a < Z < b, and constant outside. There E[1] =
    # between, E[Z] = phi(a) - phi(b), E[Z^2] = between + a phi(a) - b phi(b).
    a, b = (low - g) / safe, (high - g) / safe
    below, above = ndtr(a), ndtr(-b)
    between = ndtr(b) - below
    density_a, density_b = _density(a), _density(b)
    d = y - g
    inside = (
        np.square(d) * between
        - 2 * d * safe * (density_a - density_b)
        + np.square(safe) * (between + a * density_a - b * density_b)
    )
    expected = np.square(y - low) * below + np.square(high - y) * above + inside
    return np.where(noise > 0, expected, np.square(y - np.clip(g, low, high)))


def _density(z: FloatArray) -> FloatArray:
    return np.exp(-np.square(z) / 2) / np.sqrt(2 * np.pi)
