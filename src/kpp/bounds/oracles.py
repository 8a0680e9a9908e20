r"""Partition oracles: how much of the variance, or entropy, the leaves of each tree explain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kpp._checks import check_choice, check_sample_weight
from kpp._optional import optional
from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray, IntArray
from kpp.bounds.assumptions import is_honest
from kpp.bounds.samples import SAMPLES, Sample, sample_of
from kpp.forest.arrays import Forest
from kpp.forest.route import route
from kpp.forest.statistics import NodeStatistics, node_statistics
from kpp.geometry import forest_blocks
from kpp.models.asking import ask
from kpp.models.data import check_target

KINDS = ("variance", "entropy")


@dataclass(frozen=True, eq=False)
class TreeOracles(Shown):
    """The oracle of every tree.

    Parameters
    ----------
    root : array of shape (n_trees,)
        Risk of a constant on the rows that the tree was taken at.
    leaf_risk : array of shape (n_trees,)
        Risk of the best prediction that is constant on leaves.
    gain : array of shape (n_trees,)
        Sum of the gains of the splits, each with the share of rows that reach it.
    n_leaves : int array of shape (n_trees,)
        Leaves that rows of the sample reach.
    n_rows : int array of shape (n_trees,)
        Rows that the tree was taken at; the fit rows of its fold for a cross-fit model on "fit".
    """

    root: FloatArray
    leaf_risk: FloatArray
    gain: FloatArray
    n_leaves: AnyArray
    n_rows: AnyArray


@dataclass(frozen=True, eq=False)
class PartitionOracles(Shown):
    r"""Variance or entropy of a target, split over the partitions of the trees.

    .. math:: F(\mathrm{root}) = R_{\mathrm{leaf}}(T) + IG(T)

    for every tree, and for their averages. The sum over all trees is not offered: it grows with
    the number of trees, and is the gain of no partition.

    Parameters
    ----------
    kind : {"variance", "entropy"}
        Variance for regression, entropy in nats for classification.
    root : float
        Variance, or entropy, of the sample; for a cross-fit model on "fit" the mean over trees.
    per_tree : TreeOracles
        The parts of every tree.
    n_rows : int
        Rows of the sample.
    regime : str
        Regime of the model; "none" for a bare forest.
    is_honest : bool or None
        Whether the trees know nothing of these labels; None where only the caller knows. False
        wherever `risk_bounds` says that trees and rows are not independent.
    """

    kind: str
    root: float
    per_tree: TreeOracles
    n_rows: int
    regime: str
    is_honest: bool | None

    @property
    def leaf_risk(self) -> float:
        """Mean over trees of the leaf risk."""
        return float(self.per_tree.leaf_risk.mean())

    @property
    def gain(self) -> float:
        """Mean over trees of the gain."""
        return float(self.per_tree.gain.mean())

    @property
    def share(self) -> float:
        """Share of the root's variance, or entropy, that an average tree explains."""
        return self.gain / self.root if self.root > 0 else 0.0

    @property
    def residual(self) -> float:
        """Largest violation of the identity over the trees; rounding only."""
        total = self.per_tree.leaf_risk + self.per_tree.gain
        return float(np.abs(total - self.per_tree.root).max())

    def to_frame(self) -> Any:
        """Return one line per tree.

        Returns
        -------
        frame : pandas DataFrame
        """
        return optional("pandas", "PartitionOracles.to_frame").DataFrame(
            {
                "root": self.per_tree.root,
                "leaf_risk": self.per_tree.leaf_risk,
                "gain": self.per_tree.gain,
                "n_leaves": self.per_tree.n_leaves,
            }
        )


def partition_oracles(
    model: Any,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    sample: str = "test",
    independent_duplicates: bool = False,
) -> PartitionOracles:
    r"""Split the variance, or entropy, of y over the leaves and splits of every tree.

    .. math::
        \mathrm{Var}(Y) = \sum_\ell p(\ell) Q(\ell) + \sum_v p(v) \Delta Q(v), \qquad
        h(\eta(r)) = \sum_\ell p(\ell) h(\eta(\ell)) + \sum_v p(v) \Delta h(v)

    Both sides are estimated on the rows given; the identity is exact on any sample. On rows whose
    labels grew the trees the gain is optimistic; on other rows it is optimistic still where leaves
    hold few of them, since a leaf with one row explains it entirely.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier, Pipeline that ends in one, or Forest
        The trees. A bare forest is read as a regression if y holds floats.
    X, y : arrays of shape (n_rows, n_features) and (n_rows,)
        Rows and target. For "fit" and "train" what was given to fit, all rows.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows.
    sample : {"test", "train", "fit"}
        Which rows these are: "test", other rows; "train", all that were given to fit; "fit", the
        rows of the linear layer among these. A cross-fit model is then taken fold by fold, the
        trees of each fold at the rows that its linear layer was fitted on.
    independent_duplicates : bool
        As in `risk_bounds`: whether rows that are equal in every column are independent draws.

    Returns
    -------
    oracles : PartitionOracles

    References
    ----------
    Lemma partition-telescoping, corollaries variance-oracle and entropy-oracle, remark
    raw-forest-sum-pitfall.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from kpp import KPPRegressor
    >>> from kpp.bounds import partition_oracles
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(30, max_depth=6, random_state=0)
    >>> oracles = partition_oracles(KPPRegressor(forest, alpha=0.4329).fit(X, y), X, y)
    >>> round(oracles.gain)
    3609
    >>> bool(abs(oracles.root - oracles.leaf_risk - oracles.gain) < 1e-9 * oracles.root)
    True
    """
    check_choice("sample", sample, SAMPLES)
    if isinstance(model, Forest):
        if sample != "test":
            raise ValueError(
                f"sample={sample!r} is for a fitted model: a bare forest knows no rows of a fit."
            )
        is_classification = np.asarray(y).dtype.kind != "f"
        groups = [([(model, route(model, X))], np.arange(len(X)))]
        return _oracles(groups, len(X), y, sample_weight, is_classification=is_classification)
    try:
        question = ask(model)
    except TypeError as error:
        raise TypeError(f"{error} Or give a kpp Forest.") from error
    if sample == "test":
        rows = question.rows(X, least=0)
        data = Sample(
            question, sample, rows, np.asarray(y), np.arange(len(rows)), independent_duplicates
        )
    else:
        data = sample_of(question, X, y, sample, independent_duplicates=independent_duplicates)
        y = check_target(y, len(data.all_rows))
    return oracles_at(data, y, sample_weight)


def oracles_at(data: Sample, y: Any, sample_weight: Any = None) -> PartitionOracles:
    """Return the oracles of a model at the rows of a sample.

    Parameters
    ----------
    data : Sample
        The rows, routed.
    y : array-like of shape (n_all_rows,)
        Labels or numbers of all rows of the call.
    sample_weight : array-like of shape (n_all_rows,), optional
        Weights.

    Returns
    -------
    oracles : PartitionOracles
    """
    question, model, rows = data.question, data.model, data.all_rows
    parts = [([block.forest for block in question.additive.blocks], data.index)]
    if data.by_folds:
        parts = [
            ([block.forest for _, block in forest_blocks(fit.map)], fit.rows) for fit in model.fits_
        ]
    groups = []
    for forests, own in parts:
        at = rows if len(own) == len(rows) else rows.take(own)
        groups.append(([(forest, at.leaf_ids_of(forest)) for forest in forests], own))
    oracles = _oracles(
        groups,
        len(rows),
        y,
        sample_weight,
        is_classification=question.is_classifier,
        n_jobs=model.n_jobs,
    )
    return replace(oracles, regime=question.regime.name, is_honest=is_honest(data))


def _oracles(
    groups: list[tuple[list[tuple[Forest, IntArray]], AnyArray]],
    n_all_rows: int,
    y: Any,
    sample_weight: Any,
    *,
    is_classification: bool,
    n_jobs: int | None = None,
) -> PartitionOracles:
    """The oracles of forests and the leaves of rows in them, each group at rows of its own."""
    kind = "entropy" if is_classification else "variance"
    weight = None if sample_weight is None else check_sample_weight(sample_weight, n_all_rows)
    parts: list[TreeOracles] = []
    n_rows = 0
    for forests, index in groups:
        y_own = y if len(index) == n_all_rows else np.asarray(y)[index]
        weight_own = None if weight is None else weight[index]
        n_own = len(index) if weight_own is None else int(np.count_nonzero(weight_own))
        n_rows += n_own
        for forest, leaf_ids in forests:
            statistics = node_statistics(
                forest,
                None,
                y_own,
                weight_own,
                classification=is_classification,
                leaf_ids=leaf_ids,
                n_jobs=n_jobs,
            )
            parts.append(_tree_parts(forest, statistics, kind, n_own))
    root = np.concatenate([part.root for part in parts])
    return PartitionOracles(
        kind=kind,
        root=float(root.mean()) if len(groups) > 1 else float(root[0]),
        per_tree=TreeOracles(
            root=root,
            leaf_risk=np.concatenate([part.leaf_risk for part in parts]),
            gain=np.concatenate([part.gain for part in parts]),
            n_leaves=np.concatenate([part.n_leaves for part in parts]),
            n_rows=np.concatenate([part.n_rows for part in parts]),
        ),
        n_rows=n_rows,
        regime="none",
        is_honest=None,
    )


def _functional(statistics: NodeStatistics, kind: str) -> FloatArray:
    return statistics.entropy if kind == "entropy" else statistics.impurity


def _tree_parts(forest: Forest, statistics: NodeStatistics, kind: str, n_rows: int) -> TreeOracles:
    """Root, leaf risk, gain and reached leaves of every tree."""
    value = _functional(statistics, kind)
    count = statistics.count
    share = count / count[forest.roots[0]]
    # The gain is summed split by split, not taken as the difference: the identity is a check.
    gain = share * statistics.decrease(forest, value)
    leaf = np.where(forest.is_leaf, share * value, 0.0)
    reached = (forest.is_leaf & (count > 0)).astype(np.int64)
    return TreeOracles(
        root=value[forest.roots],
        leaf_risk=np.add.reduceat(leaf, forest.roots),
        gain=np.add.reduceat(gain, forest.roots),
        n_leaves=np.add.reduceat(reached, forest.roots),
        n_rows=np.full(forest.n_trees, n_rows),
    )
