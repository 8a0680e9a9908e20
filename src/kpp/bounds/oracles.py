r"""Partition oracles: how much of the variance, or entropy, the leaves of each tree explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from kpp._checks import check_choice, check_sample_weight
from kpp._optional import optional
from kpp._rows import take_rows
from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray
from kpp.bounds._given import SAMPLES, sample_rows
from kpp.bounds._sample import fold_parts
from kpp.forest.arrays import Forest
from kpp.forest.statistics import NodeStatistics, node_statistics
from kpp.geometry import named_blocks
from kpp.geometry.maps import PathMap
from kpp.models.data import check_new_rows, check_target
from kpp.models.linear import KPPLinearModel

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
        Whether the trees have not seen these labels; None where only the caller knows.
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
    model: Any, X: Any, y: Any, *, sample_weight: Any = None, sample: str = "test"
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
    model : KPPRegressor, KPPClassifier or Forest
        The trees. A bare forest is read as a regression if y holds floats.
    X, y : arrays of shape (n_rows, n_features) and (n_rows,)
        Rows and target. For "fit" and "train" what was given to fit, all rows.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows.
    sample : {"test", "train", "fit"}
        Which rows these are: "test", other rows; "train", all that were given to fit; "fit", the
        rows of the linear layer among these. A cross-fit model is then taken fold by fold, the
        trees of each fold at the rows that its linear layer was fitted on.

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
        rows = np.arange(len(X))
    else:
        _check_linear(model)
        if sample == "test":
            X = check_new_rows(model, X)
            rows = np.arange(len(X))
        else:
            X, _, rows, _ = sample_rows(model, X, y, sample)
            y = check_target(y, len(X))
    return oracles_at(model, X, y, rows, sample, sample_weight)


def oracles_at(
    model: Any, X: Any, y: Any, rows: AnyArray, sample: str, sample_weight: Any = None
) -> PartitionOracles:
    """The oracles at some rows of X, which are those of a sample."""
    classification = _is_classification(model, y)
    kind = "entropy" if classification else "variance"
    weight = None if sample_weight is None else check_sample_weight(sample_weight, len(X))
    regime = getattr(model, "regime_", "none")
    by_folds = regime == "cross-fit" and sample == "fit"
    groups = [(_forests(model), rows)]
    if by_folds:
        groups = [
            ([part.forest for _, part in named_blocks(block) if isinstance(part, PathMap)], own)
            for own, block, _ in fold_parts(model)
        ]
    parts: list[TreeOracles] = []
    for forests, own in groups:
        whole = len(own) == len(X)
        X_own, y_own = (X, y) if whole else (take_rows(X, own), np.asarray(y)[own])
        weight_own = None if weight is None else weight[own]
        for forest in forests:
            statistics = node_statistics(
                forest,
                X_own,
                y_own,
                weight_own,
                classification=classification,
                n_jobs=getattr(model, "n_jobs", None),
            )
            n_rows = len(own) if weight_own is None else int(np.count_nonzero(weight_own))
            parts.append(_tree_parts(forest, statistics, kind, n_rows))
    honest: bool | None = None
    if sample != "test" and regime in ("shared", "honest", "cross-fit"):
        honest = sample == "fit" and regime != "shared"
    root = np.concatenate([part.root for part in parts])
    return PartitionOracles(
        kind=kind,
        root=float(root.mean()) if by_folds else float(root[0]),
        per_tree=TreeOracles(
            root=root,
            leaf_risk=np.concatenate([part.leaf_risk for part in parts]),
            gain=np.concatenate([part.gain for part in parts]),
            n_leaves=np.concatenate([part.n_leaves for part in parts]),
            n_rows=np.concatenate([part.n_rows for part in parts]),
        ),
        n_rows=len(rows) if weight is None else int(np.count_nonzero(weight[rows])),
        regime=regime,
        is_honest=honest,
    )


def _check_linear(model: Any) -> None:
    if not isinstance(model, KPPLinearModel) or not hasattr(model, "map_"):
        raise TypeError(
            f"Expected a fitted KPPRegressor or KPPClassifier, or a kpp Forest; got {model!r}."
        )


def _is_classification(model: Any, y: Any) -> bool:
    if isinstance(model, Forest):
        return np.asarray(y).dtype.kind != "f"
    return bool(is_classifier(model))


def _forests(model: Any) -> list[Forest]:
    if isinstance(model, Forest):
        return [model]
    return [part.forest for _, part in named_blocks(model.map_) if isinstance(part, PathMap)]


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
