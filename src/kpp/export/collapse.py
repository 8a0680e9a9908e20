"""`collapse`: a fitted model as a plain additive tree ensemble."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kpp._html import card, facts, note
from kpp._typing import FloatArray, OffsetArray
from kpp.forest.arrays import Forest
from kpp.forest.join import check_one_reading, join_forests
from kpp.forest.route import route
from kpp.forest.sums import gather_leaves
from kpp.geometry.maps import PathMap
from kpp.models.reading import coefficients_of, node_values_of, path_blocks

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestRegressor


@dataclass(frozen=True, eq=False)
class CollapsedForest:
    r"""A fitted model as a forest with one number per node and score.

    .. math::
        g_k(x) = b_k + \sum_t P_k(\ell_t(x)), \qquad
        P_k(v) = \sum_{u \preceq v} s_u w_{k, u}

    with the sum over the nodes u from the root down to v. A prediction reads the leaves only;
    the differences along a path are the node-level attribution. Make one with `collapse`.

    Parameters
    ----------
    forest : Forest
        The trees; those of all blocks, one block after the other.
    node_values : array of shape (n_scores, n_nodes)
        :math:`P_k(v)`.
    intercept : array of shape (n_scores,)
        :math:`b_k`.
    node_rows : int array of shape (n_nodes,)
        Number of rows of the model's fit in each node.
    """

    forest: Forest
    node_values: FloatArray
    intercept: FloatArray
    node_rows: OffsetArray

    def __repr__(self) -> str:
        return (
            f"CollapsedForest(n_trees={self.forest.n_trees}, n_nodes={self.forest.n_nodes}, "
            f"n_scores={len(self.intercept)})"
        )

    def _repr_html_(self) -> str:
        return card(
            "CollapsedForest",
            facts(
                {
                    "trees": self.forest.n_trees,
                    "nodes": self.forest.n_nodes,
                    "scores": len(self.intercept),
                    "intercept": ", ".join(f"{b:.4g}" for b in self.intercept[:10]),
                    "compares in": self.forest.dtype,
                }
            ),
            note("The model's own scores, read at the leaves: .scores(X), .to_sklearn()."),
        )

    def scores(self, X: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Return the scores of rows: predictions, or what `decision_function` gives.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.
        n_jobs : int, optional
            Number of threads that route the rows. The result does not depend on it.

        Returns
        -------
        scores : array of shape (n_rows, n_scores)
        """
        leaf_ids = route(self.forest, X, n_jobs=n_jobs)
        out = np.zeros((len(self.intercept), leaf_ids.shape[1]))
        for total, values in zip(out, self.node_values, strict=True):
            gather_leaves(leaf_ids, values, 0, len(leaf_ids), total)
        return out.T + self.intercept

    def to_sklearn(self, score: int = 0) -> RandomForestRegressor:
        r"""Write one score as a genuine ``RandomForestRegressor``.

        Its ``predict`` is the score, intercept included: with K trees a node holds
        :math:`K P(v) + b`, and scikit-learn averages over the trees. Internal nodes hold their
        path sums, so the Saabas decomposition of this forest (that of treeinterpreter) is the
        variable-level attribution of the model. Tools that recompute internal values from the
        leaves and the numbers of rows, as TreeSHAP does, give something else.

        Parameters
        ----------
        score : int, default=0
            Which score: a class of a multiclass model, or a target of a multi-output one.

        Returns
        -------
        forest : sklearn.ensemble.RandomForestRegressor
            Fitted. ``n_node_samples`` are the rows of the model's fit. ``impurity`` is the
            variance of the tree's leaf values over them. In ``weighted_n_node_samples`` a leaf
            without rows counts as 1/1024 of a row, so that shares of a parent are defined.

        Raises
        ------
        TypeError
            For categorical splits, and for a forest that compares in float64 (scikit-learn's
            ``HistGradientBoosting``): a ``RandomForestRegressor`` casts X to float32 and would
            send some rows elsewhere. Use `scores`.

        Notes
        -----
        Missing values go where the model sends them. Where the model's own forest refuses them
        (``forest.allows_nan`` is False), scikit-learn accepts them nevertheless.
        """
        from kpp.export.sklearn_forest import write_forest

        n_scores = len(self.intercept)
        if not isinstance(score, int | np.integer) or not 0 <= score < n_scores:
            raise ValueError(f"score must be an integer from 0 to {n_scores - 1}; got {score!r}.")
        return write_forest(
            self.forest, self.node_values[score], float(self.intercept[score]), self.node_rows
        )


def collapse(model: Any) -> CollapsedForest:
    r"""Collapse a fitted model to a plain forest with one number per node.

    Along a path :math:`\langle w, \Phi(x) \rangle` adds :math:`s_v w_v` at every node; the sum
    down to a node is the same for all rows that reach it.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted.

    Returns
    -------
    collapsed : CollapsedForest
        Its `scores` are the model's, to the last bit.

    Notes
    -----
    Several blocks become one forest. Where they compare in different precisions, the thresholds
    of the float32 ones are moved to the float64 numbers that make the same decisions; only
    values beyond the range of float32, which such a block refuses, are then accepted. A column
    that is categorical in one block and a number in another is refused.

    References
    ----------
    Proposition attribution-node.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.export import collapse
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor(n_estimators=10, alpha=1.0, random_state=0).fit(X, y)
    >>> collapsed = collapse(model)
    >>> bool((collapsed.scores(X)[:, 0] == model.predict(X)).all())
    True
    >>> plain = collapsed.to_sklearn()
    >>> plain
    RandomForestRegressor(bootstrap=False, n_estimators=10)
    >>> bool(np.allclose(plain.predict(X), model.predict(X), rtol=1e-12))
    True
    """
    blocks = path_blocks(model)
    check_one_reading([block.forest for block in blocks])
    forest = join_forests([block.forest for block in blocks])
    if forest.feature_names is None and hasattr(model, "feature_names_in_"):
        # A forest that was given without names, in a model fitted on a data frame.
        names = tuple(str(name) for name in model.feature_names_in_)
        forest = replace(forest, feature_names=names)
    return CollapsedForest(
        forest=forest,
        node_values=node_values_of(model),
        intercept=coefficients_of(model)[1],
        node_rows=np.concatenate([_rows_below(block) for block in blocks]),
    )


def _rows_below(block: PathMap) -> OffsetArray:
    """Number of the map's rows in each node."""
    forest = block.forest
    count = np.bincount(block.leaf_ids.ravel(), minlength=forest.n_nodes)
    return forest.leaf_sums(count).astype(np.int64)
