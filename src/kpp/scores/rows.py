"""`RoutedRows`: rows that were checked once and routed once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kpp._rows import take_rows
from kpp._shown import Shown
from kpp._typing import FloatArray, IntArray
from kpp.forest.arrays import Forest
from kpp.forest.route import route
from kpp.geometry.composed import forest_blocks, linear_blocks, named_blocks
from kpp.geometry.linear import LinearTerms
from kpp.geometry.maps import MapBlock, PathMap
from kpp.scores.additive import AdditiveForest


class RoutedRows(Shown):
    """Rows of X in the leaves of a fitted model; made by ``model.at(X)``.

    Everything that takes the model and X takes these instead of X, and then neither checks nor
    routes them again. Scores are computed once.

    Parameters
    ----------
    X : array or data frame of shape (n_rows, n_features)
        The rows, checked.
    leaf_ids : list of int32 arrays of shape (n_trees of the block, n_rows)
        The leaf of each row in each tree, block by block.
    embedding : MapBlock
        The model's map.
    additive : AdditiveForest, optional
        The model's scores; None for an embedding, which has none.
    n_jobs : int, optional
        Number of threads.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor, explain
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=10, alpha=1.0, random_state=0).fit(X, y)
    >>> rows = model.at(X)
    >>> bool((model.predict(rows) == model.predict(X)).all())
    True
    >>> len(rows), len(rows.take([0, 1]))
    (442, 2)
    """

    def __init__(
        self,
        X: Any,
        leaf_ids: Sequence[IntArray],
        embedding: MapBlock,
        additive: AdditiveForest | None = None,
        *,
        n_jobs: int | None = None,
    ) -> None:
        self.X = X
        self.leaf_ids = list(leaf_ids)
        self.embedding = embedding
        self.additive = additive
        self.n_jobs = n_jobs

    def __len__(self) -> int:
        return int(self.leaf_ids[0].shape[1])

    def __repr__(self) -> str:
        return f"RoutedRows(n_rows={len(self)}, n_trees={sum(map(len, self.leaf_ids))})"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of X."""
        return (len(self), int(self.X.shape[1]))

    @cached_property
    def scores(self) -> FloatArray:
        """The model's own scores, shape (n_rows, n_scores)."""
        if self.additive is None:
            raise TypeError(
                "An embedding alone has no scores: fit a KPPRegressor or KPPClassifier."
            )
        return self.additive.scores_at(self.leaf_ids, self.linear_values, n_jobs=self.n_jobs)

    @cached_property
    def linear_values(self) -> list[FloatArray]:
        """Coordinates in each block of linear terms, shapes (n_rows, p); most models have none."""
        return [block.terms.coordinates(self.X) for _, block in linear_blocks(self.embedding)]

    @cached_property
    def map(self) -> MapBlock:
        """The embedding at these rows."""
        ids, values = iter(self.leaf_ids), iter(self.linear_values)
        blocks = named_blocks(self.embedding)
        return self.embedding.at_routed(
            [next(ids) if isinstance(block, PathMap) else next(values) for _, block in blocks]
        )

    def coordinates_of(self, terms: LinearTerms) -> FloatArray:
        """Return the coordinates of these rows in linear terms, the model's or any other.

        Parameters
        ----------
        terms : LinearTerms
            Those of the model: nothing is computed again.

        Returns
        -------
        values : array of shape (n_rows, p)
        """
        for (_, block), values in zip(
            linear_blocks(self.embedding), self.linear_values, strict=True
        ):
            if block.terms is terms:
                return values
        return terms.coordinates(self.X)

    def leaf_ids_of(self, forest: Forest) -> IntArray:
        """Return the leaves of these rows in one of the model's forests, or in any other.

        Parameters
        ----------
        forest : Forest
            One of the model's: nothing is routed again.

        Returns
        -------
        leaf_ids : int32 array of shape (n_trees, n_rows)
        """
        for (_, block), leaf_ids in zip(forest_blocks(self.embedding), self.leaf_ids, strict=True):
            # By identity: forests are immutable, and the same trees are the same object.
            if block.forest is forest:
                return leaf_ids
        return route(forest, self.X, n_jobs=self.n_jobs)

    @property
    def all_leaf_ids(self) -> IntArray:
        """Leaf ids of all blocks, each with its own ids; shape (n_trees, n_rows)."""
        return self.leaf_ids[0] if len(self.leaf_ids) == 1 else np.concatenate(self.leaf_ids)

    @property
    def joined_leaf_ids(self) -> IntArray:
        """Leaf ids in the one forest of all blocks, shape (n_trees, n_rows)."""
        if len(self.leaf_ids) == 1:
            return self.leaf_ids[0]
        assert self.additive is not None
        sizes = [block.forest.n_nodes for block in self.additive.blocks]
        # The joined forest has the blocks one after the other, so ids move by the nodes before.
        first = np.cumsum([0, *sizes[:-1]]).astype(np.int32)
        return np.concatenate([ids + f for ids, f in zip(self.leaf_ids, first, strict=True)])

    @property
    def joined_values(self) -> FloatArray:
        """Coordinates in all linear terms side by side, shape (n_rows, p); p is mostly 0."""
        return np.hstack([np.empty((len(self), 0)), *self.linear_values])

    def take(self, rows: Any) -> RoutedRows:
        """Return some of the rows (row numbers, a mask or a slice); nothing is routed again.

        Parameters
        ----------
        rows : int array, bool array or slice
            Which.

        Returns
        -------
        rows : RoutedRows
        """
        index = np.arange(len(self))[rows]
        part = RoutedRows(
            take_rows(self.X, index),
            [np.ascontiguousarray(ids[:, index]) for ids in self.leaf_ids],
            self.embedding,
            self.additive,
            n_jobs=self.n_jobs,
        )
        # Scores that were computed once are not computed again for a part of the rows.
        if "scores" in self.__dict__:
            part.__dict__["scores"] = self.scores[index]
        if "linear_values" in self.__dict__:
            part.__dict__["linear_values"] = [
                np.asfortranarray(own[index]) for own in self.linear_values
            ]
        return part


def routed_rows(model: Any, X: Any) -> RoutedRows:
    """Return rows as a model's own: routed ones as they are, others through ``model.at``.

    Parameters
    ----------
    model : fitted estimator of this package
        Whose rows.
    X : array-like, data frame or RoutedRows
        Rows.

    Returns
    -------
    rows : RoutedRows
    """
    if not isinstance(X, RoutedRows):
        rows: RoutedRows = model.at(X)
        return rows
    # Leaf ids of another map would be taken for this one's, and give plausible wrong answers.
    if X.embedding is not model.map_:
        raise ValueError(
            "These rows were routed by another model, or before this one was fitted anew: pass X "
            "itself, or model.at(X)."
        )
    return X
