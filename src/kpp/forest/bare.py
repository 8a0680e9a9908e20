"""What the bare ensemble predicts: the numbers that the source library's prediction adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray, IntArray, OffsetArray
from kpp.forest.layout import own_read_only
from kpp.forest.statistics import NodeStatistics


@dataclass(frozen=True, eq=False)
class BareScores(Shown):
    r"""The ensemble's own prediction as one number per node and score.

    .. math:: F_k(x) = b_k + c \sum_{t} u_k(\ell_t(x)), \qquad
        c = 1/K \text{ for a mean of K trees}, \quad 1 \text{ for a sum}

    where a tree that belongs to one score adds 0 to the others. The value of an inner node is
    the mean of the leaves below it over the rows of training, so that the steps
    :math:`u(v) - u(\mathrm{parent}(v))` along a path add up to the value of its leaf: the bare
    ensemble is linear in the embedding.

    Parameters
    ----------
    base : array of shape (n_scores,)
        :math:`b`, the initial value of a booster; 0 for a mean.
    combines : {"mean", "sum"}
        Whether the trees are averaged or added.
    values : array of shape (n_scores, n_nodes) or (1, n_nodes), optional
        :math:`u`, with the learning rate. None: the means or class shares of the forest's
        statistics, which most averaging forests predict with; no second copy is kept.
    tree_score : int array of shape (n_trees,), optional
        The score that each tree adds to, for boosters of several classes; `values` then has
        one row. None: every tree has a value for every score.
    classes : array of shape (n_classes,), optional
        The labels, for classification: one score each, or one score for the second of two.
    """

    base: FloatArray
    combines: Literal["mean", "sum"]
    values: FloatArray | None = None
    tree_score: IntArray | None = None
    classes: AnyArray | None = None

    def __post_init__(self) -> None:
        if self.combines not in ("mean", "sum"):
            raise ValueError(f"combines must be 'mean' or 'sum'; got {self.combines!r}.")
        for name, dtype in (("base", np.float64), ("values", np.float64), ("tree_score", np.int32)):
            if (array := getattr(self, name)) is not None:
                object.__setattr__(self, name, own_read_only(array, dtype))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__post_init__()  # pickling forgets that arrays are read-only

    def check(self, n_trees: int, n_nodes: int, statistics: NodeStatistics | None) -> None:
        """Refuse numbers that do not fit the trees they are for."""
        # Statistics already hold one mean or share per node, which is what such a forest predicts
        # with.
        if self.values is None:
            if statistics is None or len(_of_statistics(statistics)) != len(self.base):
                raise ValueError(
                    "The bare scores of a forest need values of their own, or statistics with "
                    f"one mean or class share for each of the {len(self.base)} scores."
                )
            return
        one_each = self.tree_score is not None
        expected = (1 if one_each else len(self.base), n_nodes)
        if self.values.shape != expected:
            raise ValueError(f"values must have shape {expected}; got {self.values.shape}.")
        if self.tree_score is not None and not (
            self.tree_score.shape == (n_trees,)
            and self.tree_score.min() >= 0
            and self.tree_score.max() < len(self.base)
        ):
            raise ValueError("tree_score must hold the number of a score for each tree.")

    def node_values(self, statistics: NodeStatistics | None) -> FloatArray:
        """The values u, shape (n_scores, n_nodes), or (1, n_nodes) with `tree_score`."""
        if self.values is not None:
            return self.values
        assert statistics is not None
        return _of_statistics(statistics)

    def scores(self, leaf_ids: IntArray, statistics: NodeStatistics | None) -> FloatArray:
        """The scores of routed rows, from leaf ids of shape (n_trees, n_rows).

        Returns
        -------
        scores : array of shape (n_rows, n_scores)
        """
        values = self.node_values(statistics)
        total = np.zeros((len(self.base), leaf_ids.shape[1]))
        # One tree after the other, as the library adds them.
        for tree, leaves in enumerate(leaf_ids):
            if self.tree_score is None:
                total += values[:, leaves]
            else:
                total[self.tree_score[tree]] += values[0, leaves]
        if self.combines == "mean":
            total /= len(leaf_ids)
        return total.T + self.base

    def take_nodes(self, order: OffsetArray | slice) -> BareScores:
        """The same trees, with the nodes of each in another order."""
        if self.values is None:
            return self
        return replace(self, values=np.ascontiguousarray(self.values[:, order]))

    def take_trees(self, trees: OffsetArray, nodes: OffsetArray | slice) -> BareScores | None:
        """Scores of the ensemble of some trees.

        Some trees of a mean are an averaging forest again, and it predicts their mean. Some
        rounds of a booster are not a booster: None, unless all trees are there.
        """
        if self.combines == "mean":
            return self.take_nodes(nodes)
        kept = self.take_nodes(nodes)
        assert self.values is not None
        assert kept.values is not None
        # Every tree has a node: different trees with all nodes are all trees.
        if len(np.unique(trees)) < len(trees) or kept.values.shape != self.values.shape:
            return None
        score = None if self.tree_score is None else self.tree_score[trees]
        return replace(kept, tree_score=score)

    @classmethod
    def concatenate(
        cls, parts: Sequence[BareScores | None], statistics: NodeStatistics | None
    ) -> BareScores | None:
        """Scores of several ensembles as one: their mean.

        Averaging forests become one forest, in which all trees count alike. Of Q boosters it is
        the mean of their scores: values over Q, and the mean of their initial values.

        Parameters
        ----------
        parts : sequence of BareScores or None
            One per forest.
        statistics : NodeStatistics, optional
            Of the joined forest.

        Returns
        -------
        scores : BareScores or None
            None where a part has none, or where the parts have different scores.
        """
        known = [part for part in parts if part is not None]
        first = known[0] if len(known) == len(parts) else None
        if first is None or any(part.combines != first.combines for part in known):
            return None
        if all(part.values is None for part in known):
            if statistics is None:
                return None
            n_scores = len(_of_statistics(statistics))
            return cls(np.zeros(n_scores), "mean", classes=statistics.classes)
        values = [part.values for part in known if part.values is not None]
        alike = len(values) == len(known) and all(_same_scores(first, part) for part in known)
        if not alike:
            return None
        # `scores` divides a mean by the trees of all parts, and adds up a sum: the mean of Q
        # boosters therefore has to be in the values.
        factor = 1.0 if first.combines == "mean" else 1.0 / len(known)
        score = [part.tree_score for part in known if part.tree_score is not None]
        return cls(
            base=np.mean([part.base for part in known], axis=0),
            combines=first.combines,
            values=np.concatenate(values, axis=1) * factor,
            tree_score=np.concatenate(score) if score else None,
            classes=first.classes,
        )


def _of_statistics(statistics: NodeStatistics) -> FloatArray:
    """The means or class shares, a view of shape (n_scores, n_nodes)."""
    per_node = statistics.mean if statistics.class_share is None else statistics.class_share
    assert per_node is not None
    return per_node.T


def _same_scores(a: BareScores, b: BareScores) -> bool:
    """Whether two ensembles have the same scores, in the same order."""
    return (
        a.base.shape == b.base.shape
        and (a.tree_score is None) == (b.tree_score is None)
        and _listed(a.classes) == _listed(b.classes)
    )


def _listed(classes: AnyArray | None) -> list[Any]:
    return [] if classes is None else classes.tolist()


def booster_scores(
    base: FloatArray, values: FloatArray, n_trees: int, classes: AnyArray | None
) -> BareScores:
    """Scores of a booster whose trees stand by round, then by score.

    Parameters
    ----------
    base : array of shape (n_scores,)
        Initial values.
    values : array of shape (n_nodes,)
        What each node adds to its tree's score.
    n_trees : int
        Number of trees, a multiple of the number of scores.
    classes : array, optional
        The labels of a classifier.
    """
    n_scores = len(base)
    # Round 0 has a tree for each score, then comes round 1: the score of a tree is its place in its
    # round.
    tree_score = None if n_scores == 1 else np.arange(n_trees, dtype=np.int32) % n_scores
    return BareScores(base, "sum", values[None], tree_score, classes)


def means_below(left: Any, right: Any, leaf_value: FloatArray, count: Any) -> FloatArray:
    """Give every inner node the mean of the leaves below it, weighted by their rows.

    Parameters
    ----------
    left, right : int array of shape (n_nodes,)
        Children by position; negative for both at a leaf. Several trees may stand there.
    leaf_value : array of shape (n_nodes,) or (n_nodes, n_scores)
        Read at the leaves only.
    count : array of shape (n_nodes,)
        Rows of training in each node, read at the leaves only. Where none of the leaves below a
        node has any, both of its children count alike.

    Returns
    -------
    values : array of the shape of `leaf_value`

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest.bare import means_below
    >>> means_below([1, -1, -1], [2, -1, -1], np.array([0.0, 1.0, 4.0]), [3, 2, 1])
    array([2., 1., 4.])
    """
    left, right = np.asarray(left), np.asarray(right)
    is_leaf = left < 0
    is_root = np.ones(len(left), dtype=bool)
    is_root[left[~is_leaf]] = is_root[right[~is_leaf]] = False
    # From the roots down, level by level; then back up, where all children are done.
    levels, level = [], np.flatnonzero(is_root & ~is_leaf)
    while len(level):
        levels.append(level)
        below = np.concatenate([left[level], right[level]])
        level = below[left[below] >= 0]
    weight = np.where(is_leaf, np.asarray(count, dtype=np.float64), 0.0)
    # Scores first, so that the shares of the nodes fit one score and several.
    values = np.where(is_leaf, np.asarray(leaf_value).T, 0.0)
    for level in reversed(levels):
        a, b = left[level], right[level]
        weight[level] = weight[a] + weight[b]
        share = np.full(len(level), 0.5)
        np.divide(weight[b], weight[level], out=share, where=weight[level] > 0)
        # As a step from one child, so that a common value comes out without rounding.
        values[..., level] = values[..., a] + (values[..., b] - values[..., a]) * share
    return values.T
