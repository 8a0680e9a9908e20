r"""The oracle of a forest's common refinement: one partition, made of all its trees.

Two rows are in the same cell if they reach the same leaf in every tree. That is one partition, so
that the identity of one tree holds for it, and its gain is at most the variance, or entropy, at the
root; the raw sum of the trees' gains is the gain of no partition, and exceeds the root as soon as
there are enough trees (remark raw-forest-sum-pitfall, O-C-02).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kpp._checks import RefusedError
from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray
from kpp.bounds.gains import Cells, GainInterval, GainSample
from kpp.bounds.oracles import PartitionOracles, TreeOracles, partition_oracles, target_facts
from kpp.bounds.samples import sample_of
from kpp.forest.arrays import Forest
from kpp.models.asking import ask
from kpp.models.data import check_target

# By Good and Turing, the share of rows that are alone in their cell estimates how often a new row
# finds a cell without rows. Above this, an estimate of the gain would be one of other cells.
MOST_ALONE = 0.1


@dataclass(frozen=True, eq=False)
class RefinementOracle(Shown):
    r"""Variance or entropy of a target, split over the common refinement of trees.

    Parameters
    ----------
    oracles : PartitionOracles
        Of the refinement, as if it were one tree.
    n_trees : int
        Trees that were refined.
    n_cells : int
        Combinations of leaves that rows reach.
    n_alone : int
        Rows that are alone in their cell.
    raw_sum : float
        Sum of the trees' own gains: the gain of no partition, to compare with.
    estimate : float
        The gain without the bias of small cells; NaN where too many rows are alone.
    reason : str
        Why it is NaN; empty otherwise.
    """

    oracles: PartitionOracles
    n_trees: int
    n_cells: int
    n_alone: int
    raw_sum: float
    estimate: float
    reason: str = ""

    @property
    def root(self) -> float:
        """Variance, or entropy, of the sample."""
        return self.oracles.root

    @property
    def leaf_risk(self) -> float:
        """Risk, on the sample, of the best prediction that is constant on cells."""
        return self.oracles.leaf_risk

    @property
    def gain(self) -> float:
        """Gain on the sample; optimistic where cells hold few rows."""
        return self.oracles.gain

    def interval(
        self, delta: float = 0.05, *, y_range: tuple[float, float] | None = None
    ) -> GainInterval:
        """Return limits of the gain on the population: see `PartitionOracles.interval`.

        Parameters
        ----------
        delta : float
            Probability with which they may fail.
        y_range : tuple of float, optional
            Limits of Y, known beforehand; for the variance only.

        Returns
        -------
        interval : GainInterval
            Its estimate is NaN where that of the refinement is.
        """
        found = self.oracles.interval(delta, y_range=y_range)
        return replace(found, note=" ".join(text for text in (self.reason, found.note) if text))


def common_refinement(
    model: Any, X: Any, y: Any, *, n_trees: int | None = None, sample: str = "test"
) -> RefinementOracle:
    r"""Split the variance, or entropy, of y over the common refinement of the trees.

    .. math:: F(\mathrm{root}) = \sum_{c} p(c) F(c) + IG, \qquad
        c = (\ell_1, \dots, \ell_k) \text{ the leaves of a row in } k \text{ trees}

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier, Pipeline that ends in one, or Forest
        The trees.
    X, y : arrays of shape (n_rows, n_features) and (n_rows,)
        Rows and target, as in `partition_oracles`.
    n_trees : int, optional
        Refine the first k trees only; all by default. The number must not be chosen by the labels
        of the sample.
    sample : {"test", "train", "fit"}
        Which rows these are.

    Returns
    -------
    oracle : RefinementOracle

    Notes
    -----
    Cells multiply with every tree, and soon hold one row each: then the gain on the sample is the
    whole variance, and says nothing. `estimate` is NaN with a reason where more than a tenth of
    the rows are alone in their cell, and the lower limit of `interval` is 0.

    References
    ----------
    Remark raw-forest-sum-pitfall; O-C-02, which the paper leaves open.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from kpp import KPPClassifier
    >>> from kpp.bounds import common_refinement
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(20, max_leaf_nodes=3, random_state=0)
    >>> model = KPPClassifier(forest, regime="honest", alpha=0.01, random_state=0).fit(X, y)
    >>> three = common_refinement(model, X, y, n_trees=3, sample="fit")
    >>> three.n_cells, bool(three.estimate < three.gain < three.root < three.raw_sum)
    (19, True)
    >>> common_refinement(model, X, y, sample="fit").reason[:45]
    '69 of 285 rows are alone in their combination'
    """
    each = partition_oracles(model, X, y, sample=sample)
    if isinstance(model, Forest):
        leaf_ids = model.apply(X).T
        target, classes = np.asarray(y), None
    else:
        question = ask(model)
        if question.regime.averages_folds and sample == "fit":
            raise RefusedError(
                "The trees of a cross-fit model are at rows of their own on sample='fit', one set "
                "a fold, and have no common refinement there. Use sample='test' with other rows, "
                "or the forest of one fold at the rows of that fold."
            )
        if sample == "test":
            rows = question.rows(X, least=0)
            index = np.arange(len(rows))
        else:
            data = sample_of(question, X, y, sample)
            rows, index = data.all_rows, data.index
        target = check_target(y, len(rows))[index]
        leaf_ids, classes = rows.all_leaf_ids[:, index], question.additive.classes
    most = len(leaf_ids)
    k = most if n_trees is None else n_trees
    if not (isinstance(k, int | np.integer) and 1 <= k <= most):
        raise ValueError(f"n_trees is between 1 and the {most} trees; got {n_trees!r}.")
    if np.ndim(target) != 1:
        raise RefusedError("The common refinement takes one column of y.")
    cells, n_classes = refine(leaf_ids[:k]), 0
    if each.kind == "entropy":
        n_classes = len(np.unique(target) if classes is None else classes)
    return _oracle(each, cells, target, n_classes, int(k))


def refine(leaf_ids: AnyArray) -> AnyArray:
    """Number the combinations of leaves.

    Parameters
    ----------
    leaf_ids : int array of shape (n_trees, n_rows)
        Leaf of each row in each tree.

    Returns
    -------
    cells : int array of shape (n_rows,)
        Equal for rows that share all leaves; 0, 1, 2, ...
    """
    cells = np.zeros(leaf_ids.shape[1], dtype=np.int64)
    for leaf in leaf_ids:
        # One number for a pair: the cell so far, and the leaf.
        pair = cells * (int(leaf.max()) + 1) + leaf
        cells = np.unique(pair, return_inverse=True)[1].reshape(-1)
    return cells


def _oracle(
    each: PartitionOracles, cells: AnyArray, y: AnyArray, n_classes: int, n_trees: int
) -> RefinementOracle:
    """The oracle of one partition, from the cell of each row."""
    root, own = _cells_of(np.zeros_like(cells), y, n_classes), _cells_of(cells, y, n_classes)
    n_rows, n_cells, n_alone = len(cells), len(own.count), own.n_alone
    value, risk = _risk(root), _risk(own)
    estimate, reason = root.corrected_risk() - own.corrected_risk(), ""
    if n_alone > MOST_ALONE * n_rows:
        estimate = np.nan
        reason = (
            f"{n_alone} of {n_rows} rows are alone in their combination of leaves: their cells "
            "say nothing of the gain. Refine fewer trees, grow smaller ones, or take more rows."
        )
    facts = target_facts(y, n_classes)
    one = GainSample(value - risk, estimate, 1, n_rows, n_cells, n_cells, **facts)
    single = TreeOracles(
        root=np.array([value]),
        leaf_risk=np.array([risk]),
        gain=np.array([value - risk]),
        n_leaves=np.array([n_cells]),
        n_rows=np.array([n_rows]),
    )
    return RefinementOracle(
        oracles=replace(each, root=value, per_tree=single, n_rows=n_rows, samples=(one,)),
        n_trees=n_trees,
        n_cells=n_cells,
        n_alone=n_alone,
        raw_sum=float(each.per_tree.gain[:n_trees].sum()),
        estimate=float(estimate),
        reason=reason,
    )


def _cells_of(cells: AnyArray, y: AnyArray, n_classes: int) -> Cells:
    count = np.bincount(cells).astype(np.float64)
    if n_classes:
        code = np.unique(y, return_inverse=True)[1].reshape(-1)
        table = np.zeros((len(count), code.max() + 1))
        np.add.at(table, (cells, code), 1.0)
        return Cells(count, class_share=table / count[:, None])
    # Centred first, as the variance is a difference of two sums.
    z = y - y.mean()
    mean = np.bincount(cells, z) / count
    return Cells(count, variance=np.bincount(cells, np.square(z - mean[cells])) / count)


def _risk(cells: Cells) -> float:
    """Variance, or entropy, within the cells: the plug-in."""
    value: FloatArray
    if cells.variance is not None:
        value = cells.variance
    else:
        assert cells.class_share is not None
        share = cells.class_share
        value = -(share * np.log(share, out=np.zeros_like(share), where=share > 0)).sum(axis=1)
    return float(cells.count @ value / cells.count.sum())
