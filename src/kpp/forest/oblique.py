"""Forests of oblique trees: each tree is grown on columns that are rotated a few at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from kpp._checks import check_sample_weight
from kpp._parallel import run_blocks
from kpp._rows import column_spread
from kpp._typing import AnyArray, FloatArray, IntArray
from kpp.forest.arrays import Forest

MAX_SEED = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class Rotation:
    """New columns, each a sum of a few old ones: ``sum(weights[k] * x[columns[k]])``.

    Parameters
    ----------
    columns : tuple of int arrays
        For each new column the old ones that it is made of, in the order in which they are added.
    weights : tuple of float64 arrays
        Their weights.
    shares : tuple of float64 arrays
        Share of each old column in the new one, for attributions; they add up to 1.
    """

    columns: tuple[AnyArray, ...]
    weights: tuple[FloatArray, ...]
    shares: tuple[FloatArray, ...]

    @classmethod
    def draw(
        cls, scale: FloatArray, block_size: int, n_rotated: int, rng: np.random.RandomState
    ) -> Rotation:
        """Rotate random blocks of columns, in units of their scale, and keep the others."""
        order = rng.permutation(len(scale))
        columns, weights, shares = [], [], []
        # A last block of a single column would be that column in other units: it stays.
        n_rotated -= n_rotated % block_size == 1
        for first in range(0, n_rotated, block_size):
            block = order[first : min(first + block_size, n_rotated)]
            # The Q of a Gaussian matrix with positive diagonal of R is uniform.
            q, r = np.linalg.qr(rng.normal(size=(len(block), len(block))))
            for direction in (q * np.sign(np.diag(r))).T:
                used = direction != 0
                columns.append(block[used])
                weights.append(direction[used] / scale[block[used]])
                shares.append(np.abs(direction[used]) / np.abs(direction).sum())
        for j in order[n_rotated:]:
            columns.append(np.array([j]))
            weights.append(np.ones(1))
            shares.append(np.ones(1))
        return cls(tuple(columns), tuple(weights), tuple(shares))

    def apply(self, X: FloatArray) -> FloatArray:
        """Compute the new columns by the sums that an oblique split takes, to the last bit."""
        rotated = np.empty((len(X), len(self.columns)), order="F")
        # Sums of finite numbers may overflow; the tree refuses what is infinite, by name.
        with np.errstate(over="ignore", invalid="ignore"):
            for k, (columns, weights) in enumerate(zip(self.columns, self.weights, strict=True)):
                total = weights[0] * X[:, columns[0]]
                for j, a in zip(columns[1:], weights[1:], strict=True):
                    total += a * X[:, j]
                rotated[:, k] = total
        return rotated


def _spread(X: FloatArray) -> FloatArray:
    """Spread of each column; 1 where it can be no unit: of a constant, or beyond all floats."""
    spread = column_spread(X)
    with np.errstate(over="ignore", divide="ignore"):
        usable = np.isfinite(spread) & np.isfinite(1 / spread)
    return np.where(usable, spread, 1.0)


class _ObliqueForest(BaseEstimator):
    """What the regressor and the classifier share."""

    _default_tree: type

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        tree: Any = None,
        block_size: int = 2,
        rotated: float = 1.0,
        bootstrap: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.tree = tree
        self.block_size = block_size
        self.rotated = rotated
        self.bootstrap = bootstrap
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _grow(self, X: FloatArray, y: AnyArray, sample_weight: Any) -> None:
        n_rows, n_features = X.shape
        tree = self._checked_tree()
        weight = check_sample_weight(sample_weight, n_rows)
        scale = _spread(X[weight > 0])
        n_rotated = round(self.rotated * n_features)
        seeds = check_random_state(self.random_state).randint(MAX_SEED, size=self.n_estimators)
        grown: list[Any] = [None] * self.n_estimators

        def grow(k: int) -> None:
            rng = np.random.RandomState(seeds[k])
            rotation = Rotation.draw(scale, self.block_size, n_rotated, rng)
            own = weight
            if self.bootstrap:
                drawn = np.bincount(rng.randint(n_rows, size=n_rows), minlength=n_rows)
                own = weight * drawn
            member = clone(tree).set_params(random_state=rng.randint(MAX_SEED))
            grown[k] = member.fit(rotation.apply(X), y, sample_weight=own), rotation

        run_blocks(grow, self.n_estimators, self.n_jobs)
        self.estimators_ = [member for member, _ in grown]
        self.rotations_ = [rotation for _, rotation in grown]
        from kpp.forest.importers.oblique import assemble

        self.forest_: Forest = assemble(self)

    def _checked_tree(self) -> Any:
        """The tree to clone, with all parameters of the forest checked."""
        for name, low in (("n_estimators", 1), ("block_size", 2)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value is True or value < low:
                raise ValueError(f"{name} must be a number of at least {low}; got {value!r}.")
        share: Any = self.rotated
        if not isinstance(share, int | float | np.number) or not 0 <= share <= 1:
            raise ValueError(
                f"rotated must be a share of the columns, 0 to 1; got {self.rotated!r}."
            )
        tree = self._tree()
        known = (
            DecisionTreeClassifier,
            DecisionTreeRegressor,
            ExtraTreeClassifier,
            ExtraTreeRegressor,
        )
        if type(tree) not in known or is_classifier(tree) != is_classifier(self):
            raise TypeError(
                "tree must be one of scikit-learn's own single trees for the same task, such as "
                f"{self._default_tree.__name__}(); got {tree!r}."
            )
        return tree

    def _tree(self) -> Any:
        return self._default_tree() if self.tree is None else self.tree

    def _rows(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        rows: FloatArray = validate_data(
            self, X, reset=False, dtype=np.float64, ensure_all_finite=self._finite()
        )
        return rows

    def _finite(self) -> bool | str:
        return "allow-nan" if get_tags(self).input_tags.allow_nan else True

    def apply(self, X: Any) -> IntArray:
        """Return the leaf of each row in each tree, as the trees number them.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        leaves : int array of shape (n_rows, n_estimators)
        """
        rows = self._rows(X)
        return self.forest_.source_leaf[self.forest_.apply(rows, n_jobs=self.n_jobs)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            tags.input_tags.allow_nan = get_tags(self._tree()).input_tags.allow_nan
        except Exception:  # not a tree: fit says so
            tags.input_tags.allow_nan = False
        return tags


class ObliqueForestRegressor(RegressorMixin, _ObliqueForest):
    r"""Random forest whose splits compare sums of a few columns.

    Every tree rotates the columns, in units of their standard deviation, in random blocks of
    `block_size` by a uniformly random rotation, and grows one of scikit-learn's own trees on the
    result. A split of that tree on a rotated column is an oblique split of the original ones,

    .. math:: \sum_{j \in \mathrm{block}} a_j x_j \le t

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    tree : DecisionTreeRegressor or ExtraTreeRegressor, optional
        What is grown on the rotated columns; ``ExtraTreeRegressor()`` by default.
    block_size : int, default=2
        Columns that are rotated together: the most that a split compares.
    rotated : float, default=1.0
        Share of the columns that are rotated, drawn anew for every tree. The others stay.
    bootstrap : bool, default=False
        Whether each tree is grown on rows drawn with replacement.
    n_jobs : int, optional
        Number of threads. The result does not depend on it.
    random_state : int, RandomState or None
        Seed.

    Attributes
    ----------
    estimators_ : list of trees
        Grown on rotated columns.
    rotations_ : list of Rotation
        ``estimators_[k].apply(rotations_[k].apply(X))`` are the leaves of tree k.
    forest_ : Forest
        The same trees on the original columns.

    Notes
    -----
    Columns are not rounded, and sums are taken in float64. scikit-learn's trees round them to
    float32 before they compare; the thresholds of `forest_` are the float64 numbers at which
    that comparison turns, so that every row reaches the very leaf.

    References
    ----------
    Theorem kpp-isometry-tree, which asks nothing of the splits; the paper's outlook names oblique
    cuts.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.forest import ObliqueForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = ObliqueForestRegressor(20, random_state=0).fit(X, y)
    >>> tree, rotation = forest.estimators_[3], forest.rotations_[3]
    >>> bool((forest.apply(X)[:, 3] == tree.apply(rotation.apply(X))).all())
    True
    >>> model = KPPRegressor(ObliqueForestRegressor(20), alpha=1.0, random_state=0).fit(X, y)
    >>> model.forest_
    Forest(n_trees=20, n_nodes=..., n_features=10, source='ObliqueForestRegressor')
    """

    _default_tree = ExtraTreeRegressor

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ObliqueForestRegressor:
        """Grow the trees.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Numbers; missing ones where the tree takes them.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Target.
        sample_weight : array-like of shape (n_rows,), optional
            Nonnegative weights.

        Returns
        -------
        self : ObliqueForestRegressor
        """
        X, y = validate_data(
            self,
            X,
            y,
            dtype=np.float64,
            ensure_all_finite=self._finite(),
            multi_output=True,
            y_numeric=True,
        )
        self._grow(X, np.asarray(y, dtype=np.float64), sample_weight)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the mean of the trees.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        y : array of shape (n_rows,) or (n_rows, n_outputs)
        """
        rows = self._rows(X)
        scores = self.forest_.bare_scores(rows, n_jobs=self.n_jobs)
        return scores if self.estimators_[0].tree_.n_outputs > 1 else scores[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class ObliqueForestClassifier(ClassifierMixin, _ObliqueForest):
    """Random forest for classes whose splits compare sums of a few columns.

    As `ObliqueForestRegressor`, for labels.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    tree : DecisionTreeClassifier or ExtraTreeClassifier, optional
        What is grown on the rotated columns; ``ExtraTreeClassifier()`` by default.
    block_size : int, default=2
        Columns that are rotated together: the most that a split compares.
    rotated : float, default=1.0
        Share of the columns that are rotated, drawn anew for every tree. The others stay.
    bootstrap : bool, default=False
        Whether each tree is grown on rows drawn with replacement.
    n_jobs : int, optional
        Number of threads. The result does not depend on it.
    random_state : int, RandomState or None
        Seed.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels.
    estimators_, rotations_, forest_
        As in `ObliqueForestRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier
    >>> from kpp.forest import ObliqueForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KPPClassifier(ObliqueForestClassifier(20), alpha=1e-3, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _default_tree = ExtraTreeClassifier

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ObliqueForestClassifier:
        """Grow the trees.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Numbers; missing ones where the tree takes them.
        y : array-like of shape (n_rows,)
            Labels.
        sample_weight : array-like of shape (n_rows,), optional
            Nonnegative weights.

        Returns
        -------
        self : ObliqueForestClassifier
        """
        X, y = validate_data(
            self, X, y, dtype=np.float64, ensure_all_finite=self._finite(), multi_output=True
        )
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        # Trees are given the numbers of the classes: those of weight 0 keep their place.
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._grow(X, codes, sample_weight)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the mean of the class shares in the leaves.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        shares : array of shape (n_rows, n_classes)
        """
        rows = self._rows(X)
        return self.forest_.bare_scores(rows, n_jobs=self.n_jobs)

    def predict(self, X: Any) -> AnyArray:
        """Return the class with the largest share.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : array of shape (n_rows,)
        """
        shares = self.predict_proba(X)
        labels: AnyArray = self.classes_[shares.argmax(axis=1)]
        return labels
