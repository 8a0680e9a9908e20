r"""Partition oracles: how much of the variance, or entropy, the leaves of each tree explain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kpp._checks import RefusedError, check_choice, check_sample_weight
from kpp._optional import optional
from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray, IntArray
from kpp.bounds.assumptions import (
    check_limits,
    is_honest,
    range_assumption,
    representation_assumption,
    rows_assumption,
)
from kpp.bounds.gains import Cells, GainInterval, GainSample, gain_interval
from kpp.bounds.results import Assumption, check_delta
from kpp.bounds.samples import SAMPLES, Sample, sample_of
from kpp.forest.arrays import Forest
from kpp.forest.route import route
from kpp.forest.statistics import NodeStatistics, node_statistics
from kpp.geometry import forest_blocks
from kpp.models.asking import ask
from kpp.models.averages import fold_predictors
from kpp.models.data import check_target

KINDS = ("variance", "entropy")
OF_A_FOREST = (
    Assumption(
        "representation independent of the sample",
        None,
        "the caller says that these labels have not grown the forest",
    ),
    Assumption("independent rows", None, "rows are taken as independent draws of one distribution"),
)


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
    samples : tuple of GainSample
        What `interval` needs: one, or one for each fold of a cross-fit model on "fit".
    assumptions : tuple of Assumption
        Whether the trees have seen the labels, and how the rows were drawn.
    is_weighted : bool
        Whether the rows had weights.
    """

    kind: str
    root: float
    per_tree: TreeOracles
    n_rows: int
    regime: str
    is_honest: bool | None
    samples: tuple[GainSample, ...] = ()
    assumptions: tuple[Assumption, ...] = OF_A_FOREST
    is_weighted: bool = False

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

    def interval(
        self, delta: float = 0.05, *, y_range: tuple[float, float] | None = None
    ) -> GainInterval:
        r"""Return limits of the gain on the population, mean over trees.

        Parameters
        ----------
        delta : float
            Probability with which they may fail.
        y_range : tuple of float, optional
            L and U with :math:`L \le Y \le U`, known beforehand; for the variance only. Without it
            the limits of the sample are plugged in, and the interval is no guarantee.

        Returns
        -------
        interval : GainInterval
            The limits need partitions that were fixed before the sample: `is_guarantee` says
            whether that is so.

        Notes
        -----
        The number of trees costs nothing: the limits are of the mean. See the proofs, "The gain
        of a fixed partition".

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> from kpp import KPPClassifier, partition_oracles
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> forest = RandomForestClassifier(20, max_leaf_nodes=4, random_state=0)
        >>> model = KPPClassifier(forest, regime="honest", alpha=0.01, random_state=0).fit(X, y)
        >>> interval = partition_oracles(model, X, y, sample="fit").interval()
        >>> [round(limit, 2) for limit in (interval.lower, interval.estimate, interval.upper)]
        [0.19, 0.38, 0.69]
        >>> interval.is_guarantee
        True
        """
        check_delta(delta)
        if self.is_weighted:
            raise RefusedError(
                "The interval counts rows, and these have weights: leave out sample_weight."
            )
        if not self.samples:
            raise RefusedError(
                f"The interval is that of one column of y: {self.kind} of several, or oracles that "
                "partition_oracles has not made, have none."
            )
        assumptions = list(self.assumptions)
        width = np.nan
        if self.kind == "variance":
            low = min(sample.limits[0] for sample in self.samples)
            high = max(sample.limits[1] for sample in self.samples)
            known = check_limits(y_range)
            if known is None:
                said = f"[{low:g}, {high:g}] was plugged in from the sample; give y_range"
                assumptions.append(Assumption("range of Y", False, said))
                width = high - low
            else:
                assumptions.append(range_assumption(np.array([low, high]), known))
                width = known[1] - known[0]
        elif y_range is not None:
            raise RefusedError(f"y_range holds the limits of a number; got {y_range!r} for labels.")
        else:
            said = f"{len(self.samples[0].class_counts)} classes, known beforehand"  # type: ignore[arg-type]
            assumptions.append(Assumption("classes", None, said))
        return gain_interval(self.samples, self.kind, delta, width, tuple(assumptions))

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
        n_classes = 0 if np.asarray(y).dtype.kind == "f" else len(np.unique(y))
        groups = [([(model, route(model, X))], np.arange(len(X)))]
        return _oracles(groups, len(X), y, sample_weight, n_classes=n_classes)
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
            ([block.forest for _, block in forest_blocks(fold.map)], fold.rows)
            for fold in fold_predictors(model)
        ]
    groups = []
    for forests, own in parts:
        at = rows if len(own) == len(rows) else rows.take(own)
        groups.append(([(forest, at.leaf_ids_of(forest)) for forest in forests], own))
    classes = question.additive.classes
    oracles = _oracles(
        groups,
        len(rows),
        y,
        sample_weight,
        n_classes=0 if classes is None else len(classes),
        n_jobs=model.n_jobs,
    )
    return replace(
        oracles,
        regime=question.regime.name,
        is_honest=is_honest(data),
        assumptions=(representation_assumption(data), rows_assumption(data)),
    )


def _oracles(
    groups: list[tuple[list[tuple[Forest, IntArray]], AnyArray]],
    n_all_rows: int,
    y: Any,
    sample_weight: Any,
    *,
    n_classes: int,
    n_jobs: int | None = None,
) -> PartitionOracles:
    """The oracles of forests and the leaves of rows in them, each group at rows of its own.

    0 classes stand for a number.
    """
    kind = "entropy" if n_classes else "variance"
    weight = None if sample_weight is None else check_sample_weight(sample_weight, n_all_rows)
    parts: list[TreeOracles] = []
    samples: list[GainSample] = []
    n_rows = 0
    for forests, index in groups:
        y_own = y if len(index) == n_all_rows else np.asarray(y)[index]
        weight_own = None if weight is None else weight[index]
        n_own = len(index) if weight_own is None else int(np.count_nonzero(weight_own))
        n_rows += n_own
        found, corrected, leaves = [], [], []
        for forest, leaf_ids in forests:
            statistics = node_statistics(
                forest,
                None,
                y_own,
                weight_own,
                classification=n_classes > 0,
                leaf_ids=leaf_ids,
                n_jobs=n_jobs,
            )
            found.append(_tree_parts(forest, statistics, kind, n_own))
            corrected.append(_corrected_gains(forest, statistics))
            leaves.append(np.add.reduceat(forest.is_leaf.astype(np.int64), forest.roots))
        samples.append(
            GainSample(
                gain=float(np.concatenate([part.gain for part in found]).mean()),
                corrected=float(np.concatenate(corrected).mean()),
                n_partitions=len(np.concatenate(leaves)),
                n_rows=n_own,
                n_cells=float(np.concatenate([part.n_leaves for part in found]).mean()),
                most_cells=float(np.minimum(np.concatenate(leaves), n_own).mean()),
                **target_facts(y_own, n_classes),
            )
        )
        parts += found
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
        samples=tuple(samples) if np.ndim(y) == 1 else (),
        is_weighted=weight is not None,
    )


def target_facts(y: Any, n_classes: int) -> dict[str, Any]:
    """What the limits of a gain need of the target: rows of each class, or its extremes."""
    if not n_classes:
        return {"limits": (float(np.min(y)), float(np.max(y)))}
    counts = np.unique(y, return_counts=True)[1]
    # A class of the model without rows here still counts as one.
    return {"class_counts": np.pad(counts, (0, max(n_classes - len(counts), 0)))}


def _corrected_gains(forest: Forest, statistics: NodeStatistics) -> FloatArray:
    """The gain of every tree without the bias of small leaves, shape (n_trees,)."""
    starts, stops = forest.tree_offsets[:-1], forest.tree_offsets[1:]
    gains = []
    for start, stop in zip(starts, stops, strict=True):
        leaves = start + np.flatnonzero(forest.is_leaf[start:stop])
        root, cells = (_cells(statistics, nodes) for nodes in (np.array([start]), leaves))
        gains.append(root.corrected_risk() - cells.corrected_risk())
    return np.array(gains)


def _cells(statistics: NodeStatistics, nodes: AnyArray) -> Cells:
    own = statistics.take(nodes)
    return Cells(own.count, own.variance, own.class_share)


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
