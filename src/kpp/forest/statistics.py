"""What the target looks like at each node: counts, means, variances, class shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length

from kpp._checks import check_sample_weight
from kpp._parallel import blocks_of, one_blas_thread, run_blocks
from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray, IntArray
from kpp.forest.route import route
from kpp.forest.sums import node_sums

if TYPE_CHECKING:
    from kpp.forest.arrays import Forest

# Every tree writes its own nodes: the number of blocks changes the speed and no bit.
N_TREE_BLOCKS = 8


@dataclass(frozen=True, eq=False)
class NodeStatistics(Shown):
    r"""Statistics of a target over the rows that pass through each node.

    For regression `mean` and `variance` are set, for classification `class_share`.

    Parameters
    ----------
    count : array of shape (n_nodes,)
        Weighted number of rows.
    mean : array of shape (n_nodes, n_outputs), optional
        Weighted mean :math:`\mu(v)` of the target.
    variance : array of shape (n_nodes,), optional
        Weighted variance :math:`Q(v)`, averaged over the outputs.
    class_share : array of shape (n_nodes, n_classes), optional
        Weighted share :math:`\eta_c(v)` of each class.
    classes : array of shape (n_classes,), optional
        The labels that the columns of `class_share` belong to.
    grown_on_impurity : bool
        Whether the trees were grown to lower exactly `impurity` (variance or Gini) of this
        target. Then these are the statistics that the paper's node weights use.

    Notes
    -----
    A node that no row reaches has count 0, and mean, variance and shares 0.
    """

    count: FloatArray
    mean: FloatArray | None = None
    variance: FloatArray | None = None
    class_share: FloatArray | None = None
    classes: AnyArray | None = None
    grown_on_impurity: bool = False

    @property
    def impurity(self) -> FloatArray:
        r"""Variance :math:`Q(v)`, or Gini impurity :math:`1 - \sum_c \eta_c(v)^2`."""
        if self.variance is not None:
            return self.variance
        assert self.class_share is not None
        # A node without rows has all shares 0, of which the formula would make 1.
        gini = 1.0 - np.einsum("vc,vc->v", self.class_share, self.class_share)
        return np.where(self.count > 0, np.maximum(gini, 0.0), 0.0)

    @property
    def entropy(self) -> FloatArray:
        r"""Entropy :math:`-\sum_c \eta_c(v) \log \eta_c(v)` in nats; classification only."""
        if self.class_share is None:
            raise ValueError(
                "Entropy needs class shares, and the target of these trees is numerical: use "
                "node_weight='gain', 'variance' or 'uniform'."
            )
        share = self.class_share
        logarithm = np.log(share, out=np.zeros_like(share), where=share > 0)
        # Adding 0.0 turns the -0.0 of a pure node into 0.0.
        return -(share * logarithm).sum(axis=1) + 0.0

    def decrease(self, forest: Forest, impurity: FloatArray) -> FloatArray:
        r"""Decrease of an impurity at each split, 0 at leaves.

        .. math:: \Delta Q(v) = Q(v) - \pi_L(v)\, Q(v_L) - \pi_R(v)\, Q(v_R)

        with :math:`\pi_L, \pi_R` the shares of v's rows that go left and right. Nonnegative
        for a concave impurity; rounding below 0 is cut off, and a node without rows has 0.
        """
        split = np.flatnonzero(~forest.is_leaf & (self.count > 0))
        left = forest.left[split]
        # pi_L Q(v_L) + pi_R Q(v_R), times the count of v; the right child stands beside the left
        # one.
        children = self.count[left] * impurity[left] + self.count[left + 1] * impurity[left + 1]
        decrease = np.zeros(forest.n_nodes)
        decrease[split] = np.maximum(impurity[split] - children / self.count[split], 0.0)
        return decrease

    def take(self, order: AnyArray | slice) -> NodeStatistics:
        """Return the statistics of some nodes, in the given order."""
        per_node = ("count", "mean", "variance", "class_share")
        return replace(
            self, **{k: v[order] for k in per_node if (v := getattr(self, k)) is not None}
        )

    @classmethod
    def concatenate(cls, parts: Sequence[NodeStatistics]) -> NodeStatistics:
        """Put the statistics of several forests one after the other.

        A part that did not see a class has share 0 of it.
        """
        count = np.concatenate([part.count for part in parts])
        grown_on_impurity = all(part.grown_on_impurity for part in parts)
        if parts[0].class_share is None:
            return cls(
                count=count,
                mean=np.concatenate([part.mean for part in parts]),
                variance=np.concatenate([part.variance for part in parts]),
                grown_on_impurity=grown_on_impurity,
            )
        classes = np.unique(np.concatenate([part.classes for part in parts]))
        if all(np.array_equal(np.asarray(part.classes), classes) for part in parts):
            # What is most often so takes a small part of the time of the general way.
            share = np.concatenate([part.class_share for part in parts])
        else:
            share = np.zeros((len(count), len(classes)))
            first = 0
            for part in parts:
                assert part.class_share is not None
                assert part.classes is not None
                last = first + len(part.count)
                # Its columns go to where its classes stand among all of them.
                share[first:last, np.searchsorted(classes, part.classes)] = part.class_share
                first = last
        return cls(
            count=count, class_share=share, classes=classes, grown_on_impurity=grown_on_impurity
        )

    def __post_init__(self) -> None:
        for f in fields(self):
            array = getattr(self, f.name)
            if isinstance(array, np.ndarray):
                array = array.view()
                array.flags.writeable = False
                object.__setattr__(self, f.name, array)


@one_blas_thread()
def node_statistics(
    forest: Forest,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    classification: bool,
    leaf_ids: IntArray | None = None,
    n_jobs: int | None = None,
) -> NodeStatistics:
    r"""Estimate node statistics on any sample.

    .. math::
        p(v) = \sum_{i: x_i \in S_v} s_i, \qquad
        \mu(v) = \frac{1}{p(v)} \sum_{i: x_i \in S_v} s_i y_i

    and likewise the variance and the class shares, with :math:`s_i` the sample weights.

    Parameters
    ----------
    forest : Forest
        Any forest; it need not have seen these rows.
    X : array-like or data frame of shape (n_rows, n_features)
        Rows.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Target. Several outputs for regression only.
    sample_weight : array-like of shape (n_rows,), optional
        Nonnegative weights. A row of weight 0 counts as if it were not there.
    classification : bool
        Whether `y` holds labels.
    leaf_ids : int32 array of shape (n_trees, n_rows), optional
        The leaves of the rows, where they are known; X is not looked at then.
    n_jobs : int, optional
        Number of threads.

    Returns
    -------
    statistics : NodeStatistics

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import ExtraTreesRegressor
    >>> from kpp import Forest
    >>> from kpp.forest.statistics import node_statistics
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = Forest.from_model(ExtraTreesRegressor(5, random_state=0).fit(X, y))
    >>> statistics = node_statistics(forest, X, y, classification=False)
    >>> bool(abs(statistics.mean[forest.roots] - y.mean()).max() < 1e-9)
    True
    """
    if leaf_ids is None:
        leaf_ids = route(forest, X, n_jobs=n_jobs)
    n_rows = leaf_ids.shape[1]
    if n_rows == 0:
        raise ValueError("X has no rows: there is nothing to estimate from.")
    weight = check_sample_weight(sample_weight, n_rows)
    ones = np.ones(forest.n_nodes)

    # Scale 1: the transpose of the map without its weights adds up the rows in each node.
    def sums(values: FloatArray) -> FloatArray:
        out = np.empty(forest.n_nodes)
        blocks = blocks_of(forest.n_trees, N_TREE_BLOCKS)
        run_blocks(
            lambda b: node_sums(
                leaf_ids, forest.tree_offsets, forest.parent, ones, values, *blocks[b], out
            ),
            len(blocks),
            n_jobs,
        )
        return out

    count = sums(weight)
    # Division by the count; 0 where no weight arrives.
    inverse = np.divide(1.0, count, out=np.zeros_like(count), where=count > 0)
    if classification:
        y = np.asarray(y)
        check_classification_targets(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.ndim != 1:
            raise ValueError(
                f"Class labels must be one column; got y of shape {y.shape}. Multi-output "
                "classification is not supported: fit one model per output."
            )
        check_consistent_length(y, leaf_ids.T)
        classes, code = np.unique(y, return_inverse=True)
        counts = [sums(weight * (code == c)) for c in range(len(classes))]
        share = np.stack(counts, axis=1) * inverse[:, None]
        return NodeStatistics(count=count, class_share=share, classes=classes)
    y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    check_consistent_length(y, leaf_ids.T)
    y = y.reshape(n_rows, -1)
    # Centred first: the variance is a difference of two sums, and the mean would cancel in it.
    center = weight @ y / weight.sum()
    first = np.stack([sums(weight * column) for column in (y - center).T], axis=1)
    second = np.stack([sums(weight * column) for column in np.square(y - center).T], axis=1)
    mean = first * inverse[:, None]
    # Q(v) = E[(y - c)^2] - (E[y - c])^2 for any centre c; rounding may take it below 0.
    variance = np.maximum(second * inverse[:, None] - np.square(mean), 0.0).mean(axis=1)
    return NodeStatistics(
        count=count, mean=np.where(count[:, None] > 0, mean + center, 0.0), variance=variance
    )
