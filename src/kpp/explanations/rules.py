"""`explain_rules`: the cells that moved one prediction most, as conditions one can read."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from kpp._optional import optional
from kpp._shown import Shown
from kpp._typing import FloatArray
from kpp.explanations._conditions import Cell
from kpp.explanations._decimals import KnownColumns
from kpp.explanations._linear_rules import linear_rules, values_of
from kpp.explanations._paths import RowPaths, merged
from kpp.explanations._rule import Rule
from kpp.explanations._wording import Vocabulary, Wording
from kpp.explanations.checks import check_top
from kpp.explanations.explain import baseline_of
from kpp.explanations.outputs import Output, choose_output
from kpp.geometry.composed import block_slices
from kpp.geometry.maps import PathMap
from kpp.models.asking import Question, ask
from kpp.scores import RoutedRows
from kpp.solvers import log_loss


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
        counts = ["", *(rule.count for rule in self.rules), ""]
        for (text, contribution, support), count in zip(self._lines(), counts, strict=True):
            share = "" if math.isnan(support) else f"{support:.1%}"
            told = f"{text}  [{count}]" if count else text
            lines.append(f"{contribution:>+12.4g} {share:>8}  {told}")
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
        Fitted. Rules about the prepared columns of a Pipeline are told in the words of the table:
        ``school = MS`` and not ``school_MS > 0.5``.
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
    tables = _Tables.of(question)
    wording = wording_of(question, row)
    terms = linear_rules(question, row, chosen)
    listed, others, n_other = _collect(question, row, tables, wording, chosen, top)
    rules = [
        Rule(
            text=wording.cell(one.cell),
            contribution=math.fsum(one.contributions),
            support=one.support,
            nodes=tuple(one.nodes),
            conditions=one.cell,
            n_trees=one.n_trees,
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
        """Those of a model, made at the first call; the words are those of its preparation."""
        made: dict[Hashable, tuple[Any, _Tables]] = question.additive.once(dict)
        preparation = question.preparation
        steps = [s for _, s in preparation.steps] if isinstance(preparation, Pipeline) else []
        key = tuple(id(step) for step in steps or [preparation])
        if key not in made:
            # Kept with the steps, so that no other can have their places.
            made[key] = (steps or preparation, cls._make(question))
        return made[key][1]

    @classmethod
    def _make(cls, question: Question) -> _Tables:
        model = question.model
        known = KnownColumns(
            getattr(model, "feature_spread_", None),
            getattr(model, "feature_values_", None),
            getattr(model, "feature_decimals_", None),
            None if question.preparation is None else question.meanings,
        )
        forests = [block.forest for block in question.additive.blocks]
        return cls(Vocabulary(forests, known), _support(question))


@dataclass
class _Found:
    cell: Cell
    support: float
    contributions: list[float]
    nodes: list[str]
    n_trees: int


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
    group = paths.groups(wording, tables.support)
    n_groups = int(group.max(initial=-1)) + 1
    # Ranked by plain sums; only what is listed is then added up again, without rounding.
    total = np.bincount(group, contribution, minlength=n_groups)
    # The first of each group stands for it: ties keep the order of the trees, and of the nodes on
    # a path.
    first = np.full(n_groups, len(group))
    np.minimum.at(first, group, np.arange(len(group)))
    listed = np.lexsort((first, -np.abs(total)))[:top]
    found = []
    for number in listed.tolist():
        own = np.flatnonzero(group == number).tolist()
        found.append(
            _Found(
                merged([paths.cell(i) for i in own]),
                float(tables.support[paths.block[own[0]]][paths.node[own[0]]]),
                contribution[own].tolist(),
                [paths.name(i) for i in own],
                len({(int(paths.block[i]), int(paths.tree[i])) for i in own}),
            )
        )
    others = contribution[~np.isin(group, listed)].tolist()
    return found, others, n_groups - len(listed)


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


def wording_of(question: Question, row: RoutedRows | None = None) -> Wording:
    """How conditions are written for one row of a model, or for no row in particular.

    Parameters
    ----------
    question : Question
        The model.
    row : RoutedRows, optional
        Of length 1.

    Returns
    -------
    wording : Wording
    """
    model, regime = question.model, question.regime
    return Wording(
        _Tables.of(question).vocabulary,
        question.names,
        None if row is None else values_of(row.X),
        missing=getattr(model, "missing_columns_", None),
        # In the other regimes every row of the fit has grown some tree.
        other=regime.splits_rows or regime.takes_grown_forest,
    )


def _probability(question: Question, scores: FloatArray, output: Output) -> float | None:
    classes = question.additive.classes
    if classes is None:
        return None
    probabilities = log_loss(len(classes)).link(scores[None])[0]
    if len(classes) == 2:
        return float(probabilities[1 if output.sign > 0 else 0])
    return float(probabilities[output.index])
