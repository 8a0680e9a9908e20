"""The bare ensemble as steps along paths: what each node adds to what its parent has."""

from __future__ import annotations

import numpy as np

from kpp._typing import AnyArray, BoolArray, FloatArray
from kpp.forest.arrays import Forest
from kpp.forest.bare import BareScores


def scores_of_classes(
    scores: FloatArray, bare: BareScores, classes: AnyArray | None
) -> FloatArray | None:
    """Bring the scores of a bare ensemble into the order of a model's scores.

    Parameters
    ----------
    scores : array of shape (n, n_bare_scores)
        One column for each score of the ensemble.
    bare : BareScores
        Tells what they stand for.
    classes : array of shape (n_classes,), optional
        The model's classes, sorted; None where the scores are numbers.

    Returns
    -------
    scores : array of shape (n, n_scores) or None
        As they are for numbers. For two classes one column, the share or the score of the second
        (less that of the first, where that has one), otherwise one for each class; a share of a
        class that the ensemble has not seen is 0. None for a booster of other classes: it says
        nothing of those that it has not seen.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest.bare import BareScores
    >>> from kpp.forest.steps import scores_of_classes
    >>> shares = BareScores(np.zeros(2), "mean", np.zeros((2, 1)), classes=np.array(["a", "c"]))
    >>> scores_of_classes(np.array([[0.25, 0.75]]), shares, np.array(["a", "b", "c"]))
    array([[0.25, 0.  , 0.75]])
    """
    if classes is None:
        return scores
    if bare.classes is None:
        return None
    if bare.combines == "sum":
        if not np.array_equal(bare.classes, classes):
            return None
        # A booster may score each of two classes: what decides is how much they differ.
        two_scores = len(classes) == 2 and scores.shape[1] == 2
        return scores[:, 1:] - scores[:, :1] if two_scores else scores
    known = np.isin(bare.classes, classes)
    full = np.zeros((len(scores), len(classes)))
    full[:, np.searchsorted(classes, bare.classes[known])] = scores[:, known]
    return full[:, 1:] if len(classes) == 2 else full


def bare_steps(
    forest: Forest, classes: AnyArray | None = None, *, at_leaves: bool = False
) -> tuple[FloatArray, FloatArray] | None:
    r"""Write the bare ensemble as a constant and one step a node.

    .. math:: F(x) = b + \sum_t u(r_t) + \sum_{v \ni x} (u(v) - u(\mathrm{parent}(v)))

    with u the ensemble's values, over K for a mean of K trees, and :math:`r_t` the roots.

    Parameters
    ----------
    forest : Forest
        The trees.
    classes : array of shape (n_classes,), optional
        The model's classes; see `scores_of_classes`.
    at_leaves : bool
        Whether the leaves have it all, :math:`u(\ell) - u(r_t)`, and inner nodes nothing.

    Returns
    -------
    steps : array of shape (n_scores, n_nodes)
        0 at roots.
    base : array of shape (n_scores,)
        The constant. Both are one None where the forest has no scores of its own, or none of
        these classes.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import ExtraTreesRegressor
    >>> from kpp import Forest
    >>> from kpp.forest.steps import bare_steps
    >>> X, y = load_diabetes(return_X_y=True)
    >>> trees = ExtraTreesRegressor(5, random_state=0).fit(X, y)
    >>> forest = Forest.from_model(trees)
    >>> steps, base = bare_steps(forest)
    >>> total = base[0] + forest.path_sums(steps[0])[forest.apply(X)].sum(axis=1)
    >>> bool(abs(total - trees.predict(X)).max() < 1e-9)
    True
    """
    bare = forest.bare
    if bare is None:
        return None
    values = bare.node_values(forest.statistics)
    if bare.tree_score is not None:
        # Each tree has a value for its own score only.
        own = np.zeros((len(bare.base), forest.n_nodes))
        own[bare.tree_score[forest.tree_of_node], np.arange(forest.n_nodes)] = values[0]
        values = own
    if bare.combines == "mean":
        values = values / forest.n_trees
    shaped = scores_of_classes(np.column_stack([values, bare.base]).T, bare, classes)
    if shaped is None:
        return None
    values, base = np.ascontiguousarray(shaped[:-1].T), shaped[-1]
    roots, parent = forest.roots, forest.parent
    base = base + values[:, roots].sum(axis=1)
    if at_leaves:
        steps = values - values[:, roots[forest.tree_of_node]]
        steps[:, ~forest.is_leaf] = 0.0
    else:
        steps = values - values[:, parent]
    steps[:, roots] = 0.0
    return steps, base


def moving_splits(forest: Forest, classes: AnyArray | None = None) -> BoolArray | None:
    """Find the splits below which the bare ensemble steps.

    Parameters
    ----------
    forest : Forest
        The trees.
    classes : array of shape (n_classes,), optional
        The model's classes; see `scores_of_classes`.

    Returns
    -------
    moving : bool array of shape (n_nodes,), or None
        None where the forest has no scores of its own, or none of these classes.
    """
    found = bare_steps(forest, classes)
    if found is None:
        return None
    moving = np.zeros(forest.n_nodes, dtype=bool)
    stepped = (found[0] != 0).any(axis=0)
    stepped[forest.roots] = False
    moving[forest.parent[stepped]] = True
    return moving
