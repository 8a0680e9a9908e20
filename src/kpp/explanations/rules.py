"""`explain_rules`: the cells that moved one prediction most, as conditions one can read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kpp._checks import is_missing
from kpp._optional import optional
from kpp._shown import Shown
from kpp._typing import FloatArray
from kpp.explanations._conditions import Cell, Vocabulary, Wording
from kpp.explanations._paths import RowPaths, merged
from kpp.explanations.attribution import column_of
from kpp.explanations.checks import check_top
from kpp.explanations.explain import baseline_of
from kpp.explanations.outputs import Output, choose_output
from kpp.geometry.composed import block_slices
from kpp.geometry.maps import PathMap
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
    equal cells of several trees into one rule. The linear terms of a column
    (``main_effects="linear"``) are a rule too, ``bmi = 0.06 (linear term)``, without conditions.

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
    regimes). Where a forest tells such a category from a missing value
    (`kpp.forest.others.AnyOther`), it is one of those listed, "any other".

    References
    ----------
    Proposition attribution-node.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.explanations import explain_rules
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=20, alpha=1.0, random_state=0).fit(X, y)
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
    tables = question.additive.once(_Tables.of, question)
    wording = _wording(question, tables, row)
    terms = linear_rules(question, row, chosen)
    listed, others, n_other = _collect(question, row, tables, wording, chosen, top)
    rules = [
        Rule(
            text=wording.cell(one.cell),
            contribution=math.fsum(one.contributions),
            support=one.support,
            nodes=tuple(one.nodes),
            conditions=one.cell,
        )
        for one in listed
    ]
    if terms:
        rules = sorted([*rules, *terms], key=lambda rule: -abs(rule.contribution))
        rules, left_out = rules[:top], rules[top:]
        others += [rule.contribution for rule in left_out]
        n_other += len(left_out)
    baseline = float(chosen.sign * baseline_of(question.additive)[chosen.index])
    # Sums by `fsum`: rules and remainder must add up to the score whatever `top` is.
    remainder = math.fsum(others)
    score = float(chosen.sign * scores[chosen.index])
    total = math.fsum([baseline, remainder, *(rule.contribution for rule in rules)])
    return RuleExplanation(
        rules=rules,
        baseline=baseline,
        remainder=remainder,
        n_other=n_other,
        score=score,
        output=chosen.name,
        residual=abs(total - score),
        probability=_probability(question, scores, chosen),
    )


@dataclass(frozen=True, eq=False)
class _Tables:
    """What the rules of all rows of a model share."""

    vocabulary: Vocabulary
    support: list[FloatArray]

    @classmethod
    def of(cls, question: Question) -> _Tables:
        forests = [block.forest for block in question.additive.blocks]
        spread = getattr(question.model, "feature_spread_", None)
        return cls(Vocabulary(forests, spread), _support(question))


@dataclass
class _Found:
    cell: Cell
    support: float
    contributions: list[float]
    nodes: list[str]


def _collect(
    question: Question,
    row: RoutedRows,
    tables: _Tables,
    wording: Wording,
    output: Output,
    top: int,
) -> tuple[list[_Found], list[float], int]:
    """The cells of a row that add most, equal ones together; what the others add; their number.

    Cells that read the same, and hold the same share of the rows of the fit, are equal. They may
    differ in where values would go that no rule speaks of.
    """
    paths = RowPaths.of(question.additive.blocks, row, wording)
    contribution = output.sign * paths.contribution(output.index)
    groups = paths.groups(wording, tables.support)
    # The first of each group stands for it: ties keep the order of the trees, and of the nodes on
    # a path.
    is_first = np.ones(len(contribution), dtype=bool)
    total = contribution.copy()
    for first, *others in groups:
        is_first[others] = False
        total[first] = math.fsum(contribution[[first, *others]])
    firsts = np.flatnonzero(is_first)
    listed = firsts[np.argsort(-np.abs(total[firsts]), kind="stable")][:top]
    members = {group[0]: group for group in groups}
    found, is_listed = [], np.zeros(len(contribution), dtype=bool)
    for first in listed.tolist():
        own = members.get(first, [first])
        is_listed[own] = True
        found.append(
            _Found(
                # A missing value fulfils the merged rule only where it is in every one of the
                # cells.
                merged([paths.cell(i) for i in own]),
                float(tables.support[paths.block[first]][paths.node[first]]),
                contribution[own].tolist(),
                [paths.name(i) for i in own],
            )
        )
    return found, contribution[~is_listed].tolist(), len(firsts) - len(listed)


def linear_rules(question: Question, row: RoutedRows, output: Output) -> list[Rule]:
    """The linear terms of a row, one rule for each column that adds something.

    Parameters
    ----------
    question : Question
        The model.
    row : RoutedRows
        Of length 1.
    output : Output
        Which score.

    Returns
    -------
    rules : list of Rule
        Of support 1, without conditions: every row has them, and what they add changes with the
        value.
    """
    additive = question.additive
    values = _values(row.X) if additive.linear else []
    parts: dict[int, list[float]] = {}
    names: dict[int, list[str]] = {}
    for block, own in zip(additive.linear, row.linear_values, strict=True):
        added = output.sign * block.coef[output.index] * own[0]
        for k, column in enumerate(block.terms.column.tolist()):
            parts.setdefault(column, []).append(float(added[k]))
            names.setdefault(column, []).append(f"{block.name}__{block.terms.names[k]}")
    found = []
    for column in sorted(parts):
        total, value = math.fsum(parts[column]), values[column]
        if total != 0:
            shown = "missing" if is_missing(value) else f"{float(value):.6g}"
            text = f"{question.names[column]} = {shown} (linear term)"
            found.append(Rule(text, total, 1.0, tuple(names[column])))
    return found


def _support(question: Question) -> list[FloatArray]:
    r"""Share :math:`(\Phi^\top p)_v / s_v` of the rows of the fit in each node, for each forest.

    0 where the coordinate is 0: such a node adds nothing, and is no rule.
    """
    mean = question.mean_row
    return [
        np.divide(
            mean[place],
            block.scale,
            out=np.zeros_like(block.scale),
            where=block.scale > 0,
        )
        for _, block, place in block_slices(question.model.map_)
        if isinstance(block, PathMap)
    ]


def _wording(question: Question, tables: _Tables, row: RoutedRows) -> Wording:
    model, regime = question.model, question.regime
    return Wording(
        tables.vocabulary,
        question.names,
        _values(row.X),
        missing=getattr(model, "missing_columns_", None),
        # In the other regimes every row of the fit has grown some tree.
        other=regime.splits_rows or regime.takes_grown_forest,
    )


def _values(X: Any) -> list[Any]:
    """The values of one row, each of the kind that its column has."""
    if hasattr(X, "iloc"):
        # At once: a data frame takes long to give its columns one by one.
        return list(X.to_numpy(dtype=object)[0])
    return [column_of(X, j)[0] for j in range(X.shape[1])]


def _probability(question: Question, scores: FloatArray, output: Output) -> float | None:
    classes = question.additive.classes
    if classes is None:
        return None
    probabilities = log_loss(len(classes)).link(scores[None])[0]
    if len(classes) == 2:
        return float(probabilities[1 if output.sign > 0 else 0])
    return float(probabilities[output.index])
