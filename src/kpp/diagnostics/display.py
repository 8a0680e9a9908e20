"""Displays of the dashboard, in scikit-learn's manner; they need the extra ``plot``.

A display keeps what it shows as attributes. ``from_estimator`` computes and draws, ``plot`` draws
again, elsewhere; afterwards ``ax_`` and ``figure_`` are what was drawn on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kpp._axes import axes_or_new
from kpp._typing import FloatArray
from kpp.bounds.predictors import class_margins
from kpp.bounds.results import Bound
from kpp.bounds.samples import ask_one_target, encode_target, rows_of
from kpp.bounds.spectrum import Spectrum, gram_spectrum
from kpp.geometry.concentration import DiscrepancyCurve, half_forest_discrepancy
from kpp.models.pipelines import split_pipeline

PARTS = ("empirical_risk", "complexity", "confidence")


class SpectrumDisplay:
    r"""Effective dimension against alpha, and the eigenvalues below it.

    Parameters
    ----------
    spectrum : Spectrum
        From `kpp.bounds.gram_spectrum`, or ``diagnose(...).spectrum``.
    alpha : float, optional
        The penalty of the model, marked in the plot.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.diagnostics import SpectrumDisplay, diagnose
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=10, alpha=1.0, random_state=0).fit(X, y)
    >>> display = SpectrumDisplay(diagnose(model, X, y, sample="train").spectrum, model.alpha_)
    >>> display.alphas.shape == display.dimension.shape
    True
    """

    def __init__(self, spectrum: Spectrum, alpha: float | None = None) -> None:
        self.spectrum = spectrum
        self.alpha = alpha
        top = spectrum.largest.value or 1.0
        self.alphas: FloatArray = top * np.logspace(-8, 1, 60)
        self.dimension: FloatArray = np.array(
            [spectrum.effective_dimension(float(a)).value for a in self.alphas]
        )

    @classmethod
    def from_estimator(cls, model: Any, X: Any, *, ax: Any = None) -> SpectrumDisplay:
        """Compute the spectrum of a model's Gram at rows, and plot it.

        Parameters
        ----------
        model : fitted estimator
            With a map.
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.
        ax : matplotlib axes, optional
            Where to draw.

        Returns
        -------
        display : SpectrumDisplay
        """
        alpha = getattr(split_pipeline(model)[1], "alpha_", None)
        alpha = None if isinstance(alpha, dict) else alpha  # a blend has no single one
        return cls(gram_spectrum(rows_of(model, X).map), alpha).plot(ax=ax)

    def plot(self, ax: Any = None) -> SpectrumDisplay:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        self : SpectrumDisplay
        """
        ax = axes_or_new(ax, "SpectrumDisplay.plot")
        ax.plot(self.alphas, self.dimension, color="C0", label=r"$d_{\mathrm{eff}}(\alpha)$")
        values = self.spectrum.eigenvalues
        if values is not None:
            # So many eigenvalues are above alpha: what the smooth curve counts.
            shown = values[values > self.alphas[0]]
            ax.step(shown, np.arange(1, len(shown) + 1), color="C1", label="eigenvalues above")
        if self.alpha is not None:
            ax.axvline(self.alpha, color="0.5", linestyle="--", label=r"$\alpha$ of the model")
        ax.set_xscale("log")
        ax.set_xlabel(r"$\alpha$, and eigenvalues of the Gram")
        ax.set_ylabel("effective dimension")
        ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class HalfForestDisplay:
    r"""Half-forest discrepancy :math:`\Delta_K` of the first K trees, for growing K.

    Parameters
    ----------
    curve : DiscrepancyCurve
        From ``half_forest_discrepancy(model, X, curve=True)``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor, half_forest_discrepancy
    >>> from kpp.diagnostics import HalfForestDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=16, alpha=1.0, random_state=0).fit(X, y)
    >>> HalfForestDisplay(half_forest_discrepancy(model, X, curve=True)).curve.n_trees.tolist()
    [2, 4, 8, 16]
    """

    def __init__(self, curve: DiscrepancyCurve) -> None:
        self.curve = curve

    @classmethod
    def from_estimator(cls, model: Any, X: Any, *, ax: Any = None) -> HalfForestDisplay:
        """Compute the curve of a model at rows, and plot it.

        Parameters
        ----------
        model : fitted estimator
            With the map of one forest.
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.
        ax : matplotlib axes, optional
            Where to draw.

        Returns
        -------
        display : HalfForestDisplay
        """
        rows = rows_of(model, X)
        return cls(half_forest_discrepancy(rows.embedding, rows, curve=True)).plot(ax=ax)

    def plot(self, ax: Any = None) -> HalfForestDisplay:
        """Draw the curve, and one over the root of K through its end.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        self : HalfForestDisplay
        """
        ax = axes_or_new(ax, "HalfForestDisplay.plot")
        K, values = self.curve.n_trees, self.curve.values
        ax.plot(K, values, "o-", color="C0", label=r"$\Delta_K$")
        ax.plot(K, values[-1] * np.sqrt(K[-1] / K), color="0.6", label=r"$\propto 1/\sqrt{K}$")
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xlabel("number of trees K")
        ax.set_ylabel("half-forest discrepancy")
        ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class MarginDisplay:
    """Distribution function of the signed margins.

    Parameters
    ----------
    margins : array of shape (n_rows,)
        From ``diagnose(...).margins``.

    Examples
    --------
    >>> from kpp.diagnostics import MarginDisplay
    >>> MarginDisplay([0.3, -0.1, 0.2]).margins.tolist()
    [-0.1, 0.2, 0.3]
    """

    def __init__(self, margins: Any) -> None:
        self.margins: FloatArray = np.sort(np.asarray(margins, dtype=np.float64))
        if self.margins.size == 0:
            raise ValueError("There are no margins: they belong to a classifier.")

    @classmethod
    def from_estimator(cls, model: Any, X: Any, y: Any, *, ax: Any = None) -> MarginDisplay:
        """Compute the margins of a classifier, and plot them.

        Parameters
        ----------
        model : KPPClassifier
            Fitted.
        X, y : arrays of shape (n_rows, n_features) and (n_rows,)
            Rows and labels.
        ax : matplotlib axes, optional
            Where to draw.

        Returns
        -------
        display : MarginDisplay
        """
        question = ask_one_target(model)
        if not question.is_classifier:
            raise TypeError("Margins belong to a classifier; this model is a regressor.")
        rows = question.rows(X)
        codes = encode_target(question, y, len(rows))
        return cls(class_margins(rows.scores, codes).min(axis=1)).plot(ax=ax)

    def plot(self, ax: Any = None) -> MarginDisplay:
        """Draw the distribution function.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        self : MarginDisplay
        """
        ax = axes_or_new(ax, "MarginDisplay.plot")
        share = np.arange(1, len(self.margins) + 1) / len(self.margins)
        ax.step(self.margins, share, where="post", color="C0")
        ax.axvline(0, color="0.5", linewidth=0.8)
        ax.set_xlabel("signed margin m")
        ax.set_ylabel("share of rows with margin at most m")
        ax.set_ylim(0, 1)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class BoundDisplay:
    """The parts of several bounds of one quantity, beside the trivial level.

    Parameters
    ----------
    bounds : sequence of Bound
        All of one quantity, such as the 0/1 error.

    Examples
    --------
    >>> from kpp.bounds import Bound
    >>> from kpp.diagnostics import BoundDisplay
    >>> bound = Bound("mine", "0/1 error", 0.1, 0.05, 0.02, 0.4, "fixed", "fit", 500)
    >>> BoundDisplay([bound]).quantity
    '0/1 error'
    """

    def __init__(self, bounds: Sequence[Bound]) -> None:
        self.bounds = list(bounds)
        quantities = {bound.quantity for bound in self.bounds}
        if len(quantities) != 1:
            raise ValueError(
                f"One plot shows bounds of one quantity; got {sorted(quantities) or 'none'}."
            )
        self.quantity = quantities.pop()

    def plot(self, ax: Any = None) -> BoundDisplay:
        """Draw one bar per bound.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        self : BoundDisplay
        """
        ax = axes_or_new(ax, "BoundDisplay.plot")
        names = [bound.name for bound in self.bounds]
        left = np.zeros(len(names))
        for number, part in enumerate(PARTS):
            width = np.array([getattr(bound, part) for bound in self.bounds])
            ax.barh(names, width, left=left, color=f"C{number}", label=part.replace("_", " "))
            left = left + width
        level = self.bounds[0].trivial_level
        if np.isfinite(level):
            ax.axvline(level, color="0.3", linestyle="--", label="trivial level")
        ax.invert_yaxis()
        ax.set_xlabel(self.quantity)
        ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
