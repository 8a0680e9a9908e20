"""`explain_rules`: the cells that moved one prediction most, as conditions one can read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp._shown import Shown
from kpp._typing import FloatArray
from kpp.explanations._conditions import Cell, Wording, cells_of_path
from kpp.explanations.attribution import column_of
from kpp.explanations.checks import check_top
from kpp.explanations.explain import baseline_of
from kpp.explanations.outputs import Output, choose_output
from kpp.geometry.composed import forest_blocks
from kpp.models.asking import Question, ask
from kpp.scores import RoutedRows
from kpp.solvers import log_loss


@dataclass(frozen=True)
class Rule(Shown):
    """One cell, what it adds to the prediction, and how common it is.

    Parameters
    ----------
    text : str
        The conditions, ``3.2 < MedInc <= 5 and AveOccup <= 2.4``.
    contribution : float
        What being in the cell adds, in units of the target (or of the score).
    support : float
        Share of the rows of the fit that are in the cell.
    nodes : tuple of str
        Names of the coordinates; more than one where several trees have the very same cell.
    conditions : tuple of Condition
        The same conditions, not rounded: intervals in float64, sets of categories, and whether a
        missing value fulfils them.
    """

    text: str
    contribution: float
    support: float
    nodes: tuple[str, ...]
    conditions: Cell = field(repr=False, default=())


@dataclass(frozen=True, eq=False)
class RuleExplanation(Shown):
    """The rules behind one prediction; from `explain_rules`.

    ``baseline + sum of the rules + remainder`` is the score.

    Parameters
    ----------
    rules : list of Rule
        The largest contributions first.
    baseline : float
        The intercept and the roots: the same for every row.
    remainder : float
        Sum of all other rules.
    n_other : int
        Number of other rules that the row fulfils.
    score : float
        The model's own score.
    output : str
        What the score is of.
    residual : float
        Deviation of the sum from the score.
    probability : float, optional
        Of the explained class. Shown, not decomposed.
    """

    rules: list[Rule]
    baseline: float
    remainder: float
    n_other: int
    score: float
    output: str
    residual: float
    probability: float | None = None

    def to_frame(self) -> Any:
        """Return a pandas data frame whose contributions sum to the score.

        Returns
        -------
        frame : pandas.DataFrame
            Columns rule, contribution, support; the baseline first, the remainder last.
        """
        pd = optional("pandas", "to_frame()")
        return pd.DataFrame(self._lines(), columns=["rule", "contribution", "support"])

    def _lines(self) -> list[tuple[str, float, float]]:
        return [
            ("(baseline)", self.baseline, 1.0),
            *((rule.text, rule.contribution, rule.support) for rule in self.rules),
            (f"({self.others})", self.remainder, math.nan),
        ]

    @property
    def others(self) -> str:
        """How many rules the remainder holds, in words."""
        return "1 other rule" if self.n_other == 1 else f"{self.n_other} other rules"

    def __str__(self) -> str:
        lines = [f"{'contribution':>12} {'support':>8}  rule"]
        for text, contribution, support in self._lines():
            share = "" if math.isnan(support) else f"{support:.1%}"
            lines.append(f"{contribution:>+12.4g} {share:>8}  {text}")
        probability = "" if self.probability is None else f"  (probability {self.probability:.3g})"
        lines.append(f"{self.score:>+12.4g} {'':>8}  = {self.output}{probability}")
        return "\n".join(lines)


def explain_rules(model: Any, x: Any, *, top: int = 10, output: Any = None) -> RuleExplanation:
    r"""List the cells that moved one prediction most, as readable rules.

    Every node v below a root that x is in adds :math:`w_v \Phi_v(x)`, and is a rule: the
    conjunction of the splits above it. Conditions on the same column are merged into one, and
    equal cells of several trees into one rule.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline
        Fitted. Behind the preparation of a Pipeline, rules are about the prepared columns.
    x : array of shape (n_columns,) or (1, n_columns), Series, dict, or data frame of one row
        The row.
    top : int, default=10
        Number of rules to list; the others are added up in ``remainder``.
    output : object, optional
        For a classifier a class: the predicted one by default, and for two classes the second,
        which the score is of. For several targets the number of one.

    Returns
    -------
    explanation : RuleExplanation
        ``print`` it, or take ``.rules`` or ``.to_frame()``.

    Notes
    -----
    A threshold t is printed as the shortest decimal s, of at least four significant digits, that
    is t up to the rounding of the forest's own precision, or else above t by at most a thousandth
    of the gap to the column's next threshold (of ``feature_spread_`` if that is smaller; of the
    rounding of single precision if the column has thresholds that differ by no more), and for
    which x stays on its side. ``x <= t`` is then printed as ``x <= s`` if s is not above t, and as
    ``x < s`` if it is. A row of the fit can only be on the wrong side if its value is between t and
    s: a value that is t itself, or has no more decimals than s, is not. ``conditions`` holds t.

    The condition of an oblique split is a sum, ``0.618 a - 0.786 b <= 1.2``. Its weights and its
    bound have the fewest significant digits, at least three, with which x stays on its side and the
    sum at x is off by no more than a hundredth of the largest ``|weight| * feature_spread_``.

    Missing values have a side at every split. A rule says "or missing" where they are on the side
    of the node at every split on that column, and the column is missing in x or in a row of the
    fit; a condition without these words does not hold for a missing value. A category that a
    forest does not know goes where a missing value goes: it is listed like the others if another
    forest of the model knows it, and "or other" if none does. That is printed if x has such a
    category, or if the forest was grown on other rows than those of the fit (the honest and fixed
    regimes).

    References
    ----------
    Proposition attribution-node.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.explanations import explain_rules
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KPPRegressor(n_estimators=20, alpha=1.0, random_state=0).fit(X, y)
    >>> explanation = explain_rules(model, X.iloc[[0]], top=2)
    >>> print(explanation)
    contribution  support  rule
    ...
    >>> parts = [rule.contribution for rule in explanation.rules]
    >>> total = explanation.baseline + sum(parts) + explanation.remainder
    >>> bool(abs(total - model.predict(X[:1])[0]) < 1e-10 * total)
    True
    """
    question = ask(model)
    top = check_top(top)
    row = question.row(x)
    scores = row.scores[0]
    chosen = choose_output(question.additive, output, scores)
    wording = _wording(question, row)
    found = _collect(question, row, wording, chosen)
    # Ties keep the order of the trees, and of the nodes on a path.
    ranked = sorted(found, key=lambda one: -abs(math.fsum(one.contributions)))
    rules = [
        Rule(
            text=wording.cell(one.cell),
            contribution=math.fsum(one.contributions),
            support=one.support,
            nodes=tuple(one.nodes),
            conditions=one.cell,
        )
        for one in ranked[:top]
    ]
    # Sums by `fsum`: rules and remainder must add up to the score whatever `top` is.
    others = [value for one in ranked[top:] for value in one.contributions]
    baseline = float(chosen.sign * baseline_of(question.additive)[chosen.index])
    remainder = math.fsum(others)
    score = float(chosen.sign * scores[chosen.index])
    total = math.fsum([baseline, remainder, *(rule.contribution for rule in rules)])
    return RuleExplanation(
        rules=rules,
        baseline=baseline,
        remainder=remainder,
        n_other=max(0, len(ranked) - top),
        score=score,
        output=chosen.name,
        residual=abs(total - score),
        probability=_probability(question, scores, chosen),
    )


@dataclass
class _Found:
    cell: Cell
    support: float
    contributions: list[float]
    nodes: list[str]


def _collect(question: Question, row: RoutedRows, wording: Wording, output: Output) -> list[_Found]:
    """All cells that a row is in, with what they add; equal cells together.

    Cells that read the same, and hold the same share of the rows of the fit, are equal. They may
    differ in where values would go that no rule speaks of.
    """
    found: dict[Any, _Found] = {}
    together = zip(
        question.additive.blocks, row.leaf_ids, wording.forests, _support(question), strict=True
    )
    for block, leaf_ids, forest, support in together:
        contribution, scale = block.contribution[output.index], block.scale
        prefix = f"{block.name}__" if block.name else ""
        for tree, leaf in enumerate(leaf_ids[:, 0].tolist()):
            for v, cell in cells_of_path(forest, leaf, wording.categories):
                # A node without weight adds nothing, whatever its coefficient: it is no rule.
                if scale[v] == 0:
                    continue
                share = float(support[v])
                cell = tuple(sorted(cell, key=lambda condition: condition.place))
                # Shares are sums of weights, rounded differently in different trees.
                key = (round(share, 12), wording.key(cell))
                one = found.setdefault(key, _Found(cell, share, [], []))
                # A missing value fulfils the merged rule only where it is in every one of the
                # cells.
                one.cell = tuple(
                    replace(a, missing=a.missing and b.missing)
                    for a, b in zip(one.cell, cell, strict=True)
                )
                one.contributions.append(output.sign * float(contribution[v]))
                one.nodes.append(f"{prefix}kpp_t{tree}_n{v - forest.tree_offsets[tree]}")
    return list(found.values())


def _support(question: Question) -> list[FloatArray]:
    r"""Share :math:`(\Phi^\top p)_v / s_v` of the rows of the fit in each node, for each forest.

    0 where the coordinate is 0: such a node adds nothing, and is no rule.
    """
    weight = question.fit_weight
    return [
        np.divide(
            block.rmatvec(weight),
            block.scale,
            out=np.zeros_like(block.scale),
            where=block.scale > 0,
        )
        for _, block in forest_blocks(question.model.map_)
    ]


def _wording(question: Question, row: RoutedRows) -> Wording:
    model, regime = question.model, question.regime
    return Wording(
        [block.forest for block in question.additive.blocks],
        question.names,
        [column_of(row.X, j)[0] for j in range(len(question.names))],
        missing=getattr(model, "missing_columns_", None),
        # In the other regimes every row of the fit has grown some tree.
        other=regime.splits_rows or regime.takes_grown_forest,
        spread=getattr(model, "feature_spread_", None),
    )


def _probability(question: Question, scores: FloatArray, output: Output) -> float | None:
    classes = question.additive.classes
    if classes is None:
        return None
    probabilities = log_loss(len(classes)).link(scores[None])[0]
    if len(classes) == 2:
        return float(probabilities[1 if output.sign > 0 else 0])
    return float(probabilities[output.index])
