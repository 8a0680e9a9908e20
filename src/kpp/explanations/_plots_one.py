"""Displays of one prediction, and of one distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._typing import FloatArray
from kpp.explanations import _drawing as draw
from kpp.explanations._rule import Rule
from kpp.explanations.attribution import column_of
from kpp.explanations.distances import DistanceExplanation, explain_distance
from kpp.explanations.explain import as_given, explain_rows
from kpp.explanations.outputs import choose_output
from kpp.explanations.rules import RuleExplanation, explain_rules
from kpp.models.asking import ask


@dataclass(eq=False)
class WaterfallDisplay(draw.Display):
    """One prediction, from the baseline to the score, one step per variable.

    Parameters
    ----------
    values : array of shape (n_features,)
        What each variable adds.
    baseline, score : float
        Where the steps start and end.
    feature_names : tuple of str
        Names of the variables.
    data : list, optional
        The row's own values, shown beside the names.
    output_name : str
        What the score is of.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on last.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier
    >>> from kpp.explanations import WaterfallDisplay
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = KPPClassifier("extra-trees", n_estimators=10, alpha=0.01, random_state=0).fit(X, y)
    >>> display = WaterfallDisplay.from_estimator(model, X.iloc[0])
    >>> display.output_name
    'score of 0'
    """

    values: FloatArray
    baseline: float
    score: float
    feature_names: tuple[str, ...]
    data: list[Any] | None = None
    output_name: str = "prediction"

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        x: Any,
        *,
        output: Any = None,
        level: str = "variable",
        centered: bool = False,
        max_display: int = 10,
        ax: Any = None,
    ) -> WaterfallDisplay:
        """Explain one row and draw it.

        Parameters
        ----------
        model : KPPRegressor, KPPClassifier or Pipeline
            Fitted.
        x : array of shape (n_columns,) or (1, n_columns), Series, dict, or data frame of one row
            The row.
        output : object, optional
            A class, by default the predicted one; or the number of a target.
        level : {"variable", "shapley"}, default="variable"
            As in `explain`.
        centered : bool, default=False
            As in `explain`.
        max_display : int, default=10
            Most steps; the smallest ones are put together.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : WaterfallDisplay
        """
        question = ask(model)
        draw.check_level(level)
        given = as_given(question, x)
        row = question.row(given)
        chosen = choose_output(question.additive, output, row.scores[0])
        attribution = explain_rows(question, row, given, level=level, centered=centered)
        data = attribution.data
        values = attribution.values.reshape(*attribution.values.shape[:2], -1)[0, :, chosen.index]
        display = cls(
            values=chosen.sign * values,
            baseline=float(chosen.sign * np.ravel(attribution.baseline)[chosen.index]),
            score=float(chosen.sign * np.ravel(attribution.scores)[chosen.index]),
            feature_names=attribution.feature_names,
            data=None if data is None else [column_of(data, j)[0] for j in range(len(values))],
            output_name=chosen.name,
        )
        return display.plot(ax, max_display=max_display)

    def plot(self, ax: Any = None, *, max_display: int = 10) -> WaterfallDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        max_display : int, default=10
            Most steps; the smallest ones are put together.

        Returns
        -------
        display : WaterfallDisplay
        """
        shown, others = draw.largest(self.values, max_display)
        steps = [float(self.values[j]) for j in shown]
        labels = [self._label(int(j)) for j in shown]
        if len(others):
            steps.append(float(self.values[others].sum()))
            labels.append(draw.others(len(others)))
        ax = self.new_axes(ax, len(steps))
        ends = self.baseline + np.cumsum(steps)
        starts = np.concatenate([[self.baseline], ends])[:-1]
        colours = [draw.HIGHER if step > 0 else draw.LOWER for step in steps]
        ax.barh(range(len(steps)), steps, left=starts, color=colours, height=0.7)
        for k in range(len(steps) - 1):
            ax.plot([ends[k]] * 2, [k - 0.35, k + 1.35], color=draw.NEUTRAL, lw=0.7)
        low, high = min([self.baseline, *ends]), max([self.baseline, *ends])
        # Room for the numbers beside the longest bars; 1 where all steps are 0.
        pad = 0.14 * (high - low) or 1.0
        for k, step in enumerate(steps):
            # Beside the bar, on the side that it points to, so that no width is too small.
            ax.annotate(
                draw.number(step, signed=True),
                (ends[k], k),
                xytext=(4 if step >= 0 else -4, 0),
                textcoords="offset points",
                ha="left" if step >= 0 else "right",
                va="center",
                fontsize="small",
            )
        ax.set_xlim(low - pad, high + pad)
        draw.label_rows(ax, labels)
        for value, name in ((self.baseline, "baseline"), (self.score, "score")):
            ax.axvline(value, color=draw.NEUTRAL, lw=0.8, ls=":", zorder=0)
            ax.annotate(
                f"{name} {draw.number(value)}",
                (value, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3 if name == "score" else 15),
                textcoords="offset points",
                ha="center",
                fontsize="small",
                color=draw.NEUTRAL,
            )
        ax.set_xlabel(self.output_name)
        draw.clean(ax)
        return self

    def _label(self, j: int) -> str:
        name = self.feature_names[j]
        if self.data is None:
            return name
        value = draw.shown_value(self.data[j])
        return f"{name} is missing" if value is None else f"{name} = {value}"


@dataclass(eq=False)
class RuleDisplay(draw.Display):
    """The rules behind one prediction: what each says, how common it is, what it adds.

    Parameters
    ----------
    explanation : RuleExplanation
        From `explain_rules`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on last.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.explanations import RuleDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=10, alpha=1.0, random_state=0).fit(X, y)
    >>> len(RuleDisplay.from_estimator(model, X.iloc[0], top=5).explanation.rules)
    5
    """

    explanation: RuleExplanation

    @classmethod
    def from_estimator(
        cls, model: Any, x: Any, *, top: int = 10, output: Any = None, ax: Any = None
    ) -> RuleDisplay:
        """Find the rules of one row and draw them.

        Parameters
        ----------
        model : KPPRegressor, KPPClassifier or Pipeline
            Fitted.
        x : array of shape (n_columns,) or (1, n_columns), Series, dict, or data frame of one row
            The row.
        top : int, default=10
            Number of rules.
        output : object, optional
            As in `explain_rules`.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : RuleDisplay
        """
        return cls(explain_rules(model, x, top=top, output=output)).plot(ax)

    def plot(self, ax: Any = None) -> RuleDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : RuleDisplay
        """
        explanation = self.explanation
        lines = [
            (f"{rule.text} [{rule.count}]" if rule.count else rule.text, *_numbers(rule))
            for rule in explanation.rules
        ]
        labels = [draw.wrap(text) for text, _, _ in lines]
        labels.append(draw.wrap(explanation.others))
        # All rows are as high as the one with most lines of text.
        most = max(label.count("\n") + 1 for label in labels)
        ax = self.new_axes(ax, len(labels) * (1 + 0.45 * (most - 1)), width=9.0)
        values = np.array([value for _, value, _ in lines])
        colours = [draw.HIGHER if value > 0 else draw.LOWER for value in values]
        ax.barh(range(len(lines)), values, color=colours, height=0.7)
        ax.axvline(0, color=draw.NEUTRAL, lw=0.8)
        # The others get no bar: many small rules together would dwarf the listed ones.
        lines.append((explanation.others, explanation.remainder, np.nan))
        draw.label_rows(ax, labels)
        reach = np.abs(values).max(initial=0.0) or 1.0
        low, high = values.min(initial=0.0), values.max(initial=0.0)
        ax.set_xlim(low - 0.25 * reach, high + 0.25 * reach)
        for k, (_, value, support) in enumerate(lines):
            ax.annotate(
                draw.number(value, signed=True),
                (value if k < len(values) else 0.0, k),
                xytext=(4 if value >= 0 else -4, 0),
                textcoords="offset points",
                ha="left" if value >= 0 else "right",
                va="center",
                fontsize="small",
            )
            # NaN, the support of the other rules together, is not itself.
            if support == support:
                self._support(ax, f"{support:.1%}", k)
        self._support(ax, "rows", -0.75)
        ax.set_xlabel(f"contribution to the {explanation.output}")
        ax.set_title(
            f"baseline {draw.number(explanation.baseline)}, "
            f"{explanation.output} {draw.number(explanation.score)}",
            fontsize="medium",
            pad=14,
        )
        draw.clean(ax)
        return self

    @staticmethod
    def _support(ax: Any, text: str, k: float) -> None:
        ax.annotate(
            text,
            (1.0, k),
            xycoords=("axes fraction", "data"),
            xytext=(38, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize="small",
            color=draw.NEUTRAL,
            annotation_clip=False,
        )


def _numbers(rule: Rule) -> tuple[float, float]:
    return rule.contribution, rule.support


@dataclass(eq=False)
class DistanceDisplay(draw.Display):
    """The parts of the variables in the distance of two rows.

    Parameters
    ----------
    explanation : DistanceExplanation
        From `explain_distance`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on last.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier
    >>> from kpp.explanations import DistanceDisplay
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = KPPClassifier("extra-trees", n_estimators=10, alpha=0.01, random_state=0).fit(X, y)
    >>> display = DistanceDisplay.from_estimator(model, X.iloc[0], X.iloc[100])
    >>> bool(display.explanation.total > 0)
    True
    """

    explanation: DistanceExplanation

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        x: Any,
        z: Any,
        *,
        normalize: str | None = None,
        max_display: int = 10,
        ax: Any = None,
    ) -> DistanceDisplay:
        """Explain the distance of two rows and draw it.

        Parameters
        ----------
        model : KPPRegressor, KPPClassifier, KPPEmbedding or Pipeline
            Fitted.
        x, z : array of shape (n_columns,) or (1, n_columns), Series, dict, or data frame of one row
            The rows.
        normalize : {"forest", "tree"}, optional
            As in `kpp.path_distance`.
        max_display : int, default=10
            Most bars; the smallest ones are put together.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : DistanceDisplay
        """
        explanation = explain_distance(model, x, z, normalize=normalize)
        return cls(explanation).plot(ax, max_display=max_display)

    def plot(self, ax: Any = None, *, max_display: int = 10) -> DistanceDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        max_display : int, default=10
            Most bars; the smallest ones are put together.

        Returns
        -------
        display : DistanceDisplay
        """
        parts = self.explanation.by_variable
        shown, others = draw.largest(parts, max_display)
        values = [float(parts[j]) for j in shown]
        labels = [self.explanation.feature_names[j] for j in shown]
        if len(others):
            values.append(float(parts[others].sum()))
            labels.append(draw.others(len(others)))
        ax = self.new_axes(ax, len(values))
        bars = ax.barh(range(len(values)), values, color=draw.LOWER, height=0.7)
        total = self.explanation.total
        shares = [f"{value / total:.0%}" if total > 0 else "" for value in values]
        ax.bar_label(bars, shares, padding=4, fontsize="small")
        draw.label_rows(ax, labels)
        ax.set_xlim(0, 1.12 * max(values) or 1.0)
        symbol = r"\bar\delta_K" if self.explanation.normalize == "tree" else r"\delta_T"
        ax.set_xlabel(f"part of the distance ${symbol}$ = {draw.number(total)}")
        draw.clean(ax)
        return self
