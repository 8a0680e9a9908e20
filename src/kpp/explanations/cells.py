"""The cells of nodes in words, whatever rows are in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kpp.explanations._conditions import cells_of_path
from kpp.explanations.rules import wording_of
from kpp.models.asking import ask


def words_of_nodes(model: Any, block: int, nodes: Sequence[int]) -> list[str]:
    """Write the conditions that lead to nodes of one forest of a model.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier, Pipeline or Question
        Fitted.
    block : int
        Which forest: its place among ``model.additive_.blocks``.
    nodes : sequence of int
        Nodes of it.

    Returns
    -------
    words : list of str
        As in the rules of `explain_rules`: ``3.2 < MedInc <= 5 and AveOccup <= 2.4``; "any row"
        for a root.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier
    >>> from kpp.explanations import words_of_nodes
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KPPClassifier("extra-trees", n_estimators=2, alpha=1.0, random_state=0).fit(X, y)
    >>> words_of_nodes(model, 0, [0])
    ['any row']
    """
    wording = wording_of(ask(model))
    forest, found = wording.forests[block], []
    for node in nodes:
        path = cells_of_path(forest, int(node), wording.categories)
        cell = path[-1][1] if path else ()
        found.append(wording.cell(tuple(sorted(cell, key=lambda condition: condition.place))))
    return found
