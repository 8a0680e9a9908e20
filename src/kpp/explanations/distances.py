"""`explain_distance`: why two rows are near or far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from kpp._optional import optional
from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray
from kpp.explanations.checks import check_variables
from kpp.geometry.composed import forest_blocks, linear_blocks
from kpp.geometry.kernel import model_map
from kpp.geometry.maps import PathMap
from kpp.models.asking import Question
from kpp.models.linear import KPPLinearModel
from kpp.models.pipelines import split_pipeline, sum_by_source


@dataclass(frozen=True, eq=False, repr=False)
class DistanceExplanation(Shown):
    r"""A path distance, taken apart by variable and tree; from `explain_distance`.

    Parameters
    ----------
    values : array of shape (n_trees, n_features)
        The part of each tree and variable; nonnegative, adds up to `total`. Linear terms stand
        last, as if they were a tree.
    total : float
        :math:`\delta_T(x, z)`, as `path_distance` gives it.
    feature_names : tuple of str
        Names of the columns; behind the preparation of a Pipeline, of the raw ones.
    tree_names : tuple of str
        Names of the trees, ``t0, t1, ...``, after the name of the block where there are several.
    parted_by : int array of shape (n_trees,)
        Column of the split that parts the two rows in each tree, -1 where they share the leaf.
        Of an oblique split the column with the largest share, of linear terms the one with the
        largest part.
    normalize : {"forest", "tree"}
        Which path distance it is; "mixed" for blocks of both.

    Attributes
    ----------
    by_variable : array of shape (n_features,)
        Sums over trees.
    by_tree : array of shape (n_trees,)
        Sums over variables.
    residual : float
        Deviation of the sum from `total`.
    """

    values: FloatArray
    total: float
    feature_names: tuple[str, ...]
    tree_names: tuple[str, ...]
    parted_by: AnyArray
    normalize: str = "forest"

    @property
    def by_variable(self) -> FloatArray:
        """Part of each variable, shape (n_features,)."""
        return self.values.sum(axis=0)

    @property
    def by_tree(self) -> FloatArray:
        """Part of each tree, shape (n_trees,)."""
        return self.values.sum(axis=1)

    @property
    def residual(self) -> float:
        """Deviation of the sum of the parts from the total."""
        return abs(float(self.values.sum()) - self.total)

    def __repr__(self) -> str:
        together = int((self.parted_by < 0).sum())
        return (
            f"DistanceExplanation(total={self.total:.6g}, n_trees={len(self.tree_names)}, "
            f"same_leaf_in={together}, normalize={self.normalize!r})"
        )

    def to_frame(self) -> Any:
        """Return a pandas data frame by variable, the largest part first.

        Returns
        -------
        frame : pandas.DataFrame
            One row per variable: its part of the distance, that part as a share, and in how
            many trees a split on it parts the two rows.
        """
        pd = optional("pandas", "to_frame()")
        part = self.by_variable
        share = part / self.total if self.total > 0 else np.zeros_like(part)
        parts = np.bincount(self.parted_by[self.parted_by >= 0], minlength=len(part))
        frame = pd.DataFrame(
            {"distance": part, "share": share, "trees_parted": parts}, list(self.feature_names)
        )
        return frame.iloc[np.argsort(-part, kind="stable")]


def explain_distance(
    model: Any, x: Any, z: Any, *, normalize: str | None = None
) -> DistanceExplanation:
    r"""Split the path distance of two rows by variable and by tree.

    .. math::
        \delta_T(x, z) = \sum_t \sum_j \frac{1}{S_T}
        \sum_{v \in \sigma_t(x, z),\ \mathrm{split}(\mathrm{par}(v)) = j} \omega_t(v)

    the edges between the two leaves, each counted for the variable that the split above it
    tests; below an oblique split by the shares of its columns. Every part is nonnegative; there is
    no cancellation.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier, KPPEmbedding or Pipeline
        Fitted. Behind the preparation of a Pipeline, the parts of the prepared columns add up to
        those of the raw columns that they were made of.
    x, z : array of shape (n_columns,) or (1, n_columns), Series, dict, or data frame of one row
        The rows.
    normalize : {"forest", "tree"}, optional
        As in `kpp.path_distance`: by default as the model was fitted.

    Returns
    -------
    explanation : DistanceExplanation
        ``by_variable`` and ``by_tree`` each add up to ``total``.

    References
    ----------
    Theorem kpp-isometry-tree, corollary kpp-isometry-forest.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier, path_distance
    >>> from kpp.explanations import explain_distance
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = KPPClassifier("extra-trees", n_estimators=20, alpha=0.01, random_state=0).fit(X, y)
    >>> explanation = explain_distance(model, X.iloc[0], X.iloc[100])
    >>> explanation.to_frame().index[0]
    'petal length (cm)'
    >>> apart = path_distance(model, X.iloc[[0]], X.iloc[[100]])[0, 0]
    >>> bool(abs(explanation.by_variable.sum() - apart) < 1e-14)
    True
    """
    preparation, inner = split_pipeline(model)
    check_variables(inner)
    # Rows and names are all that is asked of the model: an embedding has them too.
    question = Question(cast(KPPLinearModel, inner), preparation)
    embedding = model_map(inner, normalize)
    at_x = embedding.on(question.row(x, "x"))
    at_z = embedding.on(question.row(z, "z"))
    parts: list[FloatArray] = []
    parted: list[AnyArray] = []
    tree_names: list[str] = []
    for (name, mine), (_, theirs) in zip(forest_blocks(at_x), forest_blocks(at_z), strict=True):
        values, by = _between_leaves(mine, theirs, inner.n_features_in_)
        parts.append(values)
        parted.append(by)
        front = f"{name}__" if name else ""
        tree_names += [f"{front}t{tree}" for tree in range(mine.forest.n_trees)]
    for (name, mine), (_, theirs) in zip(linear_blocks(at_x), linear_blocks(at_z), strict=True):
        apart = np.square(mine.values - theirs.values)[0]
        of_columns = np.zeros(inner.n_features_in_)
        np.add.at(of_columns, mine.terms.column, apart)
        parts.append(of_columns[None])
        parted.append(np.array([of_columns.argmax() if of_columns.any() else -1]))
        tree_names.append(name)
    values, parted_by, names = np.concatenate(parts), np.concatenate(parted), question.names
    if preparation is not None:
        sources, values = sum_by_source(values, question.sources)
        place = np.array([sources.index(name) for name in question.sources])
        # -1, the same leaf, is no column, and stays.
        names, parted_by = tuple(sources), np.where(parted_by >= 0, place[parted_by], -1)
    return DistanceExplanation(
        values=values,
        total=float(at_x.distances(at_z)[0, 0]),
        feature_names=names,
        tree_names=tuple(tree_names),
        parted_by=parted_by,
        normalize=embedding.normalize,
    )


def _between_leaves(mine: PathMap, theirs: PathMap, n_features: int) -> tuple[FloatArray, AnyArray]:
    """Climb from both leaves of each tree until they meet, adding the edges on the way."""
    forest, squared = mine.forest, mine.squared_scale
    variable = mine.coordinate_variable
    values = np.zeros((forest.n_trees, n_features))
    parted = np.full(forest.n_trees, -1)
    pairs = zip(mine.leaf_ids[:, 0].tolist(), theirs.leaf_ids[:, 0].tolist(), strict=True)
    for tree, (a, b) in enumerate(pairs):
        while a != b:
            # Parents stand before their children: the later of two nodes is not above the other.
            low = max(a, b)
            above, column = int(forest.parent[low]), int(variable[low])
            if column >= 0:
                values[tree, column] += squared[low]
            else:
                own = slice(forest.term_offsets[above], forest.term_offsets[above + 1])
                columns, shares = forest.term_columns[own], forest.term_shares[own]
                values[tree, columns] += shares * squared[low]
                column = int(columns[np.argmax(shares)])
            # Overwritten while climbing: the last edge is below the common ancestor, whose split
            # parts them.
            parted[tree] = column
            a, b = min(a, b), above
    return values, parted
