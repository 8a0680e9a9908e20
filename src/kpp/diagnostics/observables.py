r"""The dashboard's observables: capacity, conditioning, stability, partition, margins, norm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray
from kpp.bounds.oracles import PartitionOracles
from kpp.bounds.predictors import LinearPredictor, class_margins
from kpp.bounds.spectrum import Estimate, Spectrum, gram_spectrum
from kpp.geometry import MapBlock, entrywise_concentration, forest_blocks, half_forest_discrepancy
from kpp.models.asking import Question

# Scores below this share of their root mean square count as near zero.
NEAR_ZERO = 0.1


@dataclass(frozen=True)
class Observable(Shown):
    """One figure of the dashboard.

    Parameters
    ----------
    name : str
        Its name.
    family : str
        One of the five families, or "norm".
    symbol : str
        As in the paper, where it has one.
    value : float
        The figure; for a cross-fit model the mean over its folds.
    error : float
        0 where the figure is exact; otherwise one standard error, see `kpp.bounds.Estimate`.
    spread : float
        Standard deviation over the folds of a cross-fit model; NaN for others.
    method : str
        How it was found.
    """

    name: str
    family: str
    symbol: str
    value: float
    error: float = 0.0
    spread: float = np.nan
    method: str = "exact"


def capacity(question: Question, spectra: list[Spectrum]) -> list[Observable]:
    """Normalised trace and, for ridge, normalised effective dimension."""
    trace = [Estimate(s.trace / s.n_rows, 0.0, "row norms") for s in spectra]
    found = [_observable("trace_per_row", "capacity", "Tr(G)/n", trace)]
    alpha = question.model.alpha_
    # The layers of a blend have a penalty each: there is no d_eff of the whole.
    if question.is_ridge and not isinstance(alpha, dict):
        per_row = []
        for s in spectra:
            d = s.effective_dimension(alpha)
            per_row.append(Estimate(d.value / s.n_rows, d.error / s.n_rows, d.method))
        found.append(
            _observable("effective_dimension_per_row", "capacity", "d_eff(alpha)/n", per_row)
        )
    return found


def conditioning(
    alpha: float | dict[str, float], spectra: list[Spectrum], delta_k: float
) -> list[Observable]:
    """Smallest eigenvalue, shifted by alpha, and with the half-forest guardrail.

    Of a blend, which has an alpha for each block, the smallest eigenvalue alone.
    """
    smallest = [s.smallest for s in spectra]
    if isinstance(alpha, dict):
        return [_observable("smallest_eigenvalue", "conditioning", "mu_min(G)", smallest)]
    shifted = [Estimate(e.value + alpha, e.error, e.method) for e in smallest]
    found = [
        _observable("smallest_eigenvalue", "conditioning", "mu_min(G)", smallest),
        _observable("shifted_smallest_eigenvalue", "conditioning", "mu_min(G) + alpha", shifted),
    ]
    if np.isfinite(delta_k):
        guarded = [
            Estimate(max(e.value - delta_k, 0.0) + alpha, e.error, e.method) for e in smallest
        ]
        found.append(
            _observable(
                "guarded_smallest_eigenvalue",
                "conditioning",
                "(mu_min(G) - Delta_K)_+ + alpha",
                guarded,
            )
        )
    ratio = []
    for s in spectra:
        largest = s.largest.value
        value = (largest + alpha) / (s.smallest.value + alpha)
        # Where the smallest eigenvalue is only bounded from above, it may be as small as 0.
        most = value if s.is_exact else (largest + alpha) / alpha
        ratio.append(Estimate(value, most - value, s.smallest.method))
    found.append(
        _observable("condition_number", "conditioning", "(mu_max + alpha)/(mu_min + alpha)", ratio)
    )
    return found


def stability(
    parts: list[LinearPredictor], independent_trees: tuple[bool, ...]
) -> list[Observable]:
    """Half-forest discrepancy, alone and relative to the size of the Gram.

    The entrywise bound only where every forest has trees that are independent given the rows
    that they were grown on: not for boosted trees, nor for a forest of unknown making.
    """
    absolute, relative, n_trees, n_rows = [], [], [], 0
    for part in parts:
        for _, block in forest_blocks(part.map):
            if block.forest.n_trees < 2:
                continue
            value = half_forest_discrepancy(block, part.rows)
            size = _largest(block.normalized("tree"))
            absolute.append(Estimate(value, 0.0, "Lanczos"))
            relative.append(Estimate(value / size if size > 0 else 0.0, 0.0, "Lanczos"))
            n_trees.append(block.forest.n_trees)
            n_rows = block.shape[0]
    if not absolute:
        return []
    found = [
        _observable("half_forest_discrepancy", "stability", "Delta_K", absolute),
        _observable("relative_discrepancy", "stability", "Delta_K / |G_K|", relative),
    ]
    if all(independent_trees):
        found.append(
            Observable(
                "entrywise_concentration",
                "stability",
                "eps_K",
                entrywise_concentration(min(n_trees), n_rows),
                method="Hoeffding, delta = 0.05, trees independent given the data",
            )
        )
    return found


def partition(oracles: PartitionOracles) -> list[Observable]:
    """Gain of the average tree, its share of the root, and the share corrected for leaves."""
    symbol = "IG_h" if oracles.kind == "entropy" else "IG_var"
    return [
        Observable("root", "partition", "h(r)" if symbol == "IG_h" else "Var(Y)", oracles.root),
        Observable("gain", "partition", symbol, oracles.gain),
        Observable("leaf_risk", "partition", "R_leaf", oracles.leaf_risk),
        Observable("gain_share", "partition", f"{symbol} / root", oracles.share),
        Observable(
            "adjusted_gain_share",
            "partition",
            "",
            adjusted_share(oracles),
            method="corrected for the number of reached leaves",
        ),
    ]


def adjusted_share(oracles: PartitionOracles) -> float:
    r"""Share that the partitions explain, corrected for leaves of few rows; NaN if it cannot be.

    With L leaves a target that nothing explains has a leaf risk of about
    :math:`(1 - L/n)` times its variance. The correction is that of the adjusted R squared; for
    the entropy it is that of Miller and Madow, one half of a degree of freedom per leaf and row.
    """
    trees = oracles.per_tree
    usable = (trees.n_leaves < 0.9 * trees.n_rows) & (trees.root > 0)
    if not usable.any():
        return np.nan
    n, root, risk = trees.n_rows[usable], trees.root[usable], trees.leaf_risk[usable]
    share = trees.n_leaves[usable] / n
    if oracles.kind == "variance":
        corrected = risk / (1 - share) / (root * n / (n - 1))
    else:
        corrected = (risk + share / 2) / (root + 0.5 / n)
    return float(1 - corrected.mean())


def margins(scores: FloatArray, codes: AnyArray) -> tuple[list[Observable], FloatArray]:
    """Signed margins near zero, from scores of shape (n_rows, n_scores) and class numbers."""
    margin = class_margins(scores, codes).min(axis=1)
    size = float(np.sqrt(np.square(margin).mean()))
    near = float((np.abs(margin) <= NEAR_ZERO * size).mean())
    return [
        Observable("median_margin", "margins", "median m", float(np.median(margin))),
        Observable("lower_margin", "margins", "10% quantile of m", float(np.quantile(margin, 0.1))),
        Observable(
            "margins_near_zero",
            "margins",
            f"share of |m| <= {NEAR_ZERO} rms(m)",
            near,
        ),
        Observable("wrong_side", "margins", "share of m <= 0", float((margin <= 0).mean())),
    ], margin


def norms(parts: list[LinearPredictor], scale: float) -> list[Observable]:
    r"""Norm of w, and the certified radius that it leaves, relative to a typical distance.

    The radius is :math:`(\text{scale} / \|w\|)^2` with the median absolute margin, or the
    standard deviation of the target, as scale; a typical distance is the mean
    :math:`\delta_T` between two rows.
    """
    each = [Estimate(part.norm, 0.0, "exact") for part in parts]
    found = [_observable("norm", "norm", "|w|", each)]
    radii = []
    for part, norm in zip(parts, each, strict=True):
        n = part.n_rows
        share = np.full(n, 1.0 / n)
        spread = part.map.row_norms(squared=True).mean() - share @ part.map.gram_matvec(share)
        distance = 2 * max(float(spread), 0.0)
        ratio = np.inf
        if norm.value > 0 and distance > 0:
            ratio = (scale / norm.value) ** 2 / distance
        radii.append(Estimate(float(ratio), 0.0, "exact"))
    found.append(_observable("relative_radius", "norm", "(scale/|w|)^2 / mean delta_T", radii))
    return found


def spectra_of(parts: list[LinearPredictor]) -> list[Spectrum]:
    """The spectrum of every part, uncentred as in the paper."""
    return [gram_spectrum(part.map) for part in parts]


def _largest(block: MapBlock) -> float:
    """Largest eigenvalue of a Gram, by a few steps of Lanczos."""
    n = block.shape[0]
    if n <= 3:
        return float(np.linalg.norm(block.gram(), 2))
    return gram_spectrum(block, exact_rows=0, n_probes=1, n_steps=min(12, n)).largest.value


def _observable(name: str, family: str, symbol: str, each: list[Estimate]) -> Observable:
    values = np.array([estimate.value for estimate in each])
    return Observable(
        name=name,
        family=family,
        symbol=symbol,
        value=float(values.mean()),
        error=float(np.mean([estimate.error for estimate in each])),
        spread=float(values.std()) if len(each) > 1 and np.isfinite(values).all() else np.nan,
        method=each[0].method if each[0].method != "exact" else "exact",
    )
