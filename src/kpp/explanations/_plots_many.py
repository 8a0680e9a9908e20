"""Displays of many rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._typing import FloatArray
from kpp.explanations import _drawing as draw
from kpp.explanations.attribution import (
    Attribution,
    AttributionSummary,
    as_numbers,
    column_of,
    numbers_and_names,
)
from kpp.explanations.explain import explain
from kpp.explanations.outputs import choose_output
from kpp.models.asking import ask


@dataclass(eq=False)
class AttributionBarDisplay(draw.Display):
    """Mean absolute value of each variable over many rows, with its standard error over trees.

    Parameters
    ----------
    summary : AttributionSummary
        Of one output.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on last.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier
    >>> from kpp.explanations import AttributionBarDisplay
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = KPPClassifier("extra-trees", n_estimators=10, alpha=0.01, random_state=0).fit(X, y)
    >>> display = AttributionBarDisplay.from_estimator(model, X, output=0)
    >>> display.summary.mean_abs.shape
    (4,)
    """

    summary: AttributionSummary

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        *,
        output: Any = None,
        level: str = "variable",
        centered: bool = False,
        max_display: int = 15,
        ax: Any = None,
    ) -> AttributionBarDisplay:
        """Explain many rows and draw the summary.

        Parameters
        ----------
        model : KPPRegressor, KPPClassifier or Pipeline
            Fitted.
        X : array-like, data frame or RoutedRows of shape (n_rows, n_columns)
            Rows.
        output : object, optional
            A class or the number of a target, where there are several. For the first of two
            classes all signs turn.
        level : {"variable", "shapley"}, default="variable"
            As in `explain`.
        centered : bool, default=False
            As in `explain`.
        max_display : int, default=15
            Most variables.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : AttributionBarDisplay
        """
        attribution = _one_output(model, X, output, {"level": level, "centered": centered})
        return cls(attribution.summary()).plot(ax, max_display=max_display)

    def plot(self, ax: Any = None, *, max_display: int = 15) -> AttributionBarDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        max_display : int, default=15
            Most variables; those with the smallest values are left out.

        Returns
        -------
        display : AttributionBarDisplay
        """
        shown = self.summary.order[:max_display]
        ax = self.new_axes(ax, len(shown))
        ax.barh(
            range(len(shown)),
            self.summary.mean_abs[shown],
            # One tree, or Shapley values: there is no spread over trees.
            xerr=None if np.isnan(self.summary.spread).all() else self.summary.spread[shown],
            color=draw.LOWER,
            error_kw={"ecolor": "black", "capsize": 3, "lw": 1},
            height=0.7,
        )
        draw.label_rows(ax, [self.summary.feature_names[j] for j in shown])
        ax.set_xlim(left=0)
        ax.set_xlabel("mean |contribution|")
        ax.grid(axis="x", color="#dddddd", lw=0.6)
        draw.clean(ax)
        return self


@dataclass(eq=False)
class BeeswarmDisplay(draw.Display):
    """Contributions of each variable over many rows, coloured by the variable's own value.

    Parameters
    ----------
    attribution : Attribution
        Of one output, by variable.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on last.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.explanations import BeeswarmDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=10, alpha=1.0, random_state=0).fit(X, y)
    >>> display = BeeswarmDisplay.from_estimator(model, X, centered=True)
    >>> display.attribution.values.shape
    (442, 10)
    """

    attribution: Attribution

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        *,
        output: Any = None,
        level: str = "variable",
        centered: bool = False,
        max_display: int = 12,
        ax: Any = None,
    ) -> BeeswarmDisplay:
        """Explain many rows and draw them.

        Parameters
        ----------
        model : KPPRegressor, KPPClassifier or Pipeline
            Fitted.
        X : array-like, data frame or RoutedRows of shape (n_rows, n_columns)
            Rows.
        output : object, optional
            A class or the number of a target, where there are several. For the first of two
            classes all signs turn.
        level : {"variable", "shapley"}, default="variable"
            As in `explain`.
        centered : bool, default=False
            As in `explain`.
        max_display : int, default=12
            Most variables.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : BeeswarmDisplay
        """
        attribution = _one_output(model, X, output, {"level": level, "centered": centered})
        return cls(attribution).plot(ax, max_display=max_display)

    def plot(self, ax: Any = None, *, max_display: int = 12) -> BeeswarmDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        max_display : int, default=12
            Most variables; those with the smallest mean absolute value are left out.

        Returns
        -------
        display : BeeswarmDisplay
        """
        values, names = self.attribution.values, self.attribution.feature_names
        data = _data_of(self.attribution)
        shown = np.argsort(-np.abs(values).mean(axis=0), kind="stable")[:max_display]
        ax = self.new_axes(ax, len(shown) + 1)
        ax.axvline(0, color=draw.NEUTRAL, lw=0.8, zorder=0)
        points, any_missing = None, False
        for k, j in enumerate(shown):
            # Ranks, not values: colours then use the whole scale whatever the distribution.
            rank = _ranks(as_numbers(column_of(data, int(j))))
            height = k + 0.4 * draw.spread_out(values[:, j])
            missing = np.isnan(rank)
            any_missing = any_missing or bool(missing.any())
            ax.scatter(values[missing, j], height[missing], s=7, c="#bbbbbb", lw=0)
            known = ~missing
            points = ax.scatter(
                values[known, j],
                height[known],
                s=7,
                c=rank[known],
                cmap=draw.COLOUR_MAP,
                vmin=0,
                vmax=1,
                lw=0,
                # Thousands of points as shapes make vector files large and slow to open.
                rasterized=len(values) > 2000,
            )
        draw.label_rows(ax, [names[j] for j in shown])
        note = " (grey: the variable is missing)" if any_missing else ""
        ax.set_xlabel(_contribution_label(self.attribution) + note)
        draw.clean(ax)
        if points is not None:
            bar = ax.figure.colorbar(points, ax=ax, aspect=40, pad=0.02)
            bar.set_ticks([0, 1], labels=["low", "high"])
            bar.set_label("value", labelpad=-14)
            bar.outline.set_visible(False)
        return self


@dataclass(eq=False)
class DependenceDisplay(draw.Display):
    """The contribution of one variable against its value, one point per row.

    Parameters
    ----------
    attribution : Attribution
        Of one output, by variable.
    feature : int
        The variable.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on last.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.explanations import DependenceDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=10, alpha=1.0, random_state=0).fit(X, y)
    >>> DependenceDisplay.from_estimator(model, X, "bmi").feature
    2
    """

    attribution: Attribution
    feature: int

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        feature: Any,
        *,
        output: Any = None,
        level: str = "variable",
        centered: bool = False,
        ax: Any = None,
    ) -> DependenceDisplay:
        """Explain many rows and draw one variable.

        Parameters
        ----------
        model : KPPRegressor, KPPClassifier or Pipeline
            Fitted.
        X : array-like, data frame or RoutedRows of shape (n_rows, n_columns)
            Rows.
        feature : str or int
            Name or number of the variable.
        output : object, optional
            A class or the number of a target, where there are several. For the first of two
            classes all signs turn.
        level : {"variable", "shapley"}, default="variable"
            As in `explain`.
        centered : bool, default=False
            As in `explain`.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : DependenceDisplay
        """
        attribution = _one_output(model, X, output, {"level": level, "centered": centered})
        return cls(attribution, _number_of(feature, attribution.feature_names)).plot(ax)

    def plot(self, ax: Any = None) -> DependenceDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : DependenceDisplay
        """
        ax = self.new_axes(ax, 8, width=6.0)
        column = column_of(_data_of(self.attribution), self.feature)
        (numbers, names), values = (
            numbers_and_names(column),
            self.attribution.values[:, self.feature],
        )
        missing, place = np.isnan(numbers), numbers.copy()
        if names is not None:
            ax.set_xticks(range(len(names)), [draw.shorten(name, 20) for name in names])
            for code in range(len(names)):
                inside = numbers == code
                place[inside] += 0.3 * draw.spread_out(values[inside])
        if missing.any():
            # Beside all others, in a column of their own.
            span = np.ptp(place[~missing]) if (~missing).any() else 1.0
            edge = (place[~missing].max() if (~missing).any() else 0.0) + 0.1 * (span or 1.0)
            place = np.where(missing, edge, place)
            ax.axvline(edge, color="#eeeeee", lw=10, zorder=0)
            ax.annotate(
                "missing",
                (edge, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize="small",
                color=draw.NEUTRAL,
            )
        ax.axhline(0, color=draw.NEUTRAL, lw=0.8, zorder=0)
        ax.scatter(place, values, s=10, color=draw.LOWER, alpha=0.6, lw=0)
        ax.set_xlabel(draw.shorten(self.attribution.feature_names[self.feature]))
        ax.set_ylabel(_contribution_label(self.attribution))
        draw.clean(ax, left=True)
        return self


def _one_output(model: Any, X: Any, output: Any, parameters: dict[str, Any]) -> Attribution:
    """The attribution of one output; where there are several, one must be chosen."""
    draw.check_level(parameters["level"])
    attribution = explain(model, X, **parameters)
    if len(attribution.outputs) > 1 and output is None:
        raise ValueError(
            f"The model has several outputs: choose one of {list(attribution.outputs)} by output=."
        )
    additive = ask(model).additive
    chosen = choose_output(additive, output, attribution.scores)
    if chosen.sign < 0 and additive.classes is not None:
        return attribution.negated(additive.classes.tolist()[0])
    return attribution.for_output(attribution.outputs[chosen.index])


def _data_of(attribution: Attribution) -> Any:
    """The rows' own values, which the plot needs."""
    if attribution.data is None:
        raise ValueError(
            "This plot shows the values of the raw columns beside the contributions, and routed "
            "rows of a Pipeline hold prepared ones: give X itself."
        )
    return attribution.data


def _contribution_label(attribution: Attribution) -> str:
    return "contribution, centred" if attribution.centered else "contribution"


def _number_of(feature: Any, names: tuple[str, ...]) -> int:
    if isinstance(feature, str):
        if feature not in names:
            raise ValueError(f"feature must be one of the columns, {list(names)}; got {feature!r}.")
        return names.index(feature)
    if not isinstance(feature, int | np.integer) or not 0 <= feature < len(names):
        raise ValueError(
            f"feature must be the name of a column or a number from 0 to {len(names) - 1}; got "
            f"{feature!r}."
        )
    return int(feature)


def _ranks(numbers: FloatArray) -> FloatArray:
    """Ranks in [0, 1], NaN where missing; ties share theirs. One outlier takes no colours away."""
    ranks = np.full(len(numbers), np.nan)
    known = ~np.isnan(numbers)
    distinct, place = np.unique(numbers[known], return_inverse=True)
    ranks[known] = place / max(1, len(distinct) - 1)
    return ranks
