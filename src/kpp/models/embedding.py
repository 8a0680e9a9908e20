"""`KPPEmbedding`: the embedding as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, is_classifier
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from kpp._checks import check_choice, check_sample_weight
from kpp._typing import AnyArray, IntArray
from kpp.forest.arrays import Forest
from kpp.forest.grow import TAKES_FRAMES, UNSUPERVISED, grow_forest, is_grown, named_forest
from kpp.geometry.composed import BlockMap
from kpp.geometry.maps import NORMALIZATIONS, MapBlock, PathMap
from kpp.geometry.weights import (
    leaf_indicator_weights,
    needs_statistics,
    path_weights,
    weighting_statistics,
)

COORDINATES = ("path", "leaf")
MOST_INTEGER_LABELS = 50


class KPPEmbedding(TransformerMixin, BaseEstimator):
    r"""Embed rows so that Euclidean distance is path distance through a forest.

    Every node v of every tree t is a coordinate,

    .. math:: \Phi_{t, v}(x) = \sqrt{\omega_t(v) / S_T}\; 1\{x \in S_v\},

    and :math:`\|\Phi(x) - \Phi(x')\|^2 = \delta_T(x, x')`: rows are as far apart as the weight of
    the splits on the paths between their leaves.

    Parameters
    ----------
    forest : {"extra-trees", "random-forest", "boosted"}, estimator, Forest, FrozenEstimator or \
            list of (str, forest), default="extra-trees"
        What to embed with. A name or an estimator is grown on the data (an estimator is cloned;
        its own ``random_state`` wins when set). A `Forest` or a
        ``sklearn.frozen.FrozenEstimator`` is used as it is. A list gives several forests side
        by side.
    n_estimators : int, default=100
        Number of trees of a forest given by name.
    node_weight : {"gain", "entropy", "variance", "uniform"}, array or callable, default="gain"
        Weight of each split, see `kpp.geometry.path_weights`.
    leaf_weight : None, float, {"variance", "uniform"}, array or callable, default=None
        Weight of each leaf; None is 0.
    coordinates : {"path", "leaf"}, default="path"
        "leaf" keeps only one indicator per leaf, all alike: the Gram is then the share of trees
        in which two rows share a leaf. Node weights play no part in it.
    normalize : {"forest", "tree"}, default="forest"
        Divide by the forest mass :math:`S_T`, or every tree by its own mass.
    n_jobs : int, default=None
        Number of threads. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the forest.

    Attributes
    ----------
    forest_ : Forest, or list of (str, Forest)
        The trees.
    map_ : PathMap or BlockMap
        The embedding as an operator, at no rows; ``map_.on(X)`` is at the rows of X.
    task_ : {"classification", "regression", "unsupervised"}
        What `y` is, or without it, what the given forest was grown for.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (n_features_in_,)
        Names of the columns, where X had names.

    See Also
    --------
    kernel : Inner products in the embedding.
    path_distance : Squared distances in the embedding.

    Notes
    -----
    With ``y=None`` the trees are totally random and the default weight is uniform.

    For a forest given by name the task follows from `y`: labels that are not numbers, integers
    with at most 50 distinct values, and two distinct values of any kind are classes; other
    numbers are a regression target. To decide yourself, pass an estimator.

    The CSR matrix that `transform` returns holds 12 bytes for each node on each path. Products
    with ``map_.on(X)`` need none of it.

    References
    ----------
    Definition tree-embedding and corollary kpp-isometry-forest.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from kpp import KPPEmbedding
    >>> X, y = load_iris(return_X_y=True)
    >>> embedding = KPPEmbedding(n_estimators=20, random_state=0).fit(X, y)
    >>> phi = embedding.transform(X)
    >>> phi.shape == (150, embedding.forest_.n_nodes)
    True
    >>> clusters = make_pipeline(KPPEmbedding(random_state=0), KMeans(3, random_state=0))
    >>> clusters.fit_predict(X).shape
    (150,)
    """

    forest_: Any
    map_: MapBlock
    task_: str

    def __init__(
        self,
        forest: Any = "extra-trees",
        *,
        n_estimators: int = 100,
        node_weight: Any = "gain",
        leaf_weight: Any = None,
        coordinates: str = "path",
        normalize: str = "forest",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.forest = forest
        self.n_estimators = n_estimators
        self.node_weight = node_weight
        self.leaf_weight = leaf_weight
        self.coordinates = coordinates
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KPPEmbedding:
        """Grow the forest and compute its weights.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows. Categorical columns of a data frame where the forest takes them ("boosted").
        y : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Target. A given forest that recorded statistics of its own target is weighted by
            those, not by `y`.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows, for growing the forest and for estimating node weights.

        Returns
        -------
        self : KPPEmbedding
        """
        before = self.__dict__.copy()
        try:
            return self._fit(X, y, sample_weight)
        except BaseException:  # a failed or interrupted fit leaves the old one, whole
            self.__dict__ = before
            raise

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> KPPEmbedding:
        check_choice("coordinates", self.coordinates, COORDINATES)
        check_choice("normalize", self.normalize, NORMALIZATIONS)
        if self.coordinates == "leaf" and self.leaf_weight is not None:
            raise ValueError("leaf_weight belongs to coordinates='path'; leaves count alike here.")
        several = isinstance(self.forest, list)
        specs = self.forest if several else [("forest", self.forest)]
        _check_blocks(specs)
        X, y, sample_weight = self._check_fit_input(specs, X, y, sample_weight)
        seeds = [self.random_state]
        if several:
            random = check_random_state(self.random_state)
            seeds = [int(random.randint(np.iinfo(np.int32).max)) for _ in specs]
        forests, blocks = [], []
        for (name, spec), seed in zip(specs, seeds, strict=True):
            forest = self._grow(spec, X, y, sample_weight, seed)
            forests.append((name, forest))
            blocks.append((name, self._embed(spec, forest, X, y, sample_weight)))
        self.task_ = _task_name(specs[0][1], forests[0][1], y)
        self.forest_ = forests if several else forests[0][1]
        self.map_ = BlockMap(blocks) if several else blocks[0][1]
        return self

    def transform(self, X: Any) -> sparse.csr_matrix:
        """Embed rows.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        phi : CSR matrix of shape (n_rows, n_nodes)
        """
        return self._map_at(X).to_csr()

    def apply(self, X: Any) -> IntArray:
        """Find the leaf that each row reaches in each tree.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        leaf_ids : int32 array of shape (n_rows, n_trees)
            Node ids of `forest_`; of several forests one after the other, each with its own
            ids.
        """
        at_rows = self._map_at(X)
        blocks = [b for _, b in at_rows.blocks] if isinstance(at_rows, BlockMap) else [at_rows]
        return np.concatenate([b.leaf_ids for b in blocks if isinstance(b, PathMap)]).T

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """Name the coordinates.

        Parameters
        ----------
        input_features : ignored
            scikit-learn's convention.

        Returns
        -------
        names : object array of shape (n_nodes,)
            ``kpp_t{tree}_n{node}``, with the block's name in front where there are several.
        """
        check_is_fitted(self, "map_")
        return self.map_.coordinate_names

    def _map_at(self, X: Any) -> MapBlock:
        check_is_fitted(self, "map_")
        # Shape and names are checked here, values by the forests: each knows what it accepts.
        if hasattr(X, "columns"):
            validate_data(self, X, reset=False, skip_check_array=True)
        else:
            X = validate_data(self, X, reset=False, dtype=None, ensure_all_finite=False)
        return self.map_.on(X)

    def _check_fit_input(self, specs: Any, X: Any, y: Any, sample_weight: Any) -> Any:
        if all(_takes_frames(spec) for _, spec in specs):
            # Such a forest prepares its columns itself: categories, infinities, strings.
            if hasattr(X, "columns"):
                validate_data(self, X, skip_check_array=True)
            else:
                X = validate_data(self, X, dtype=None, ensure_all_finite=False)
        else:
            X = self._check_numbers(X)
        n_rows = len(X)
        if n_rows < 2 and not all(is_grown(spec) for _, spec in specs):
            raise ValueError(f"Found {n_rows} sample(s), and a forest needs at least 2 to grow.")
        if y is not None:
            y = _check_target(y)
            if len(y) != n_rows:
                raise ValueError(f"X has {n_rows} rows, but y has {len(y)}.")
        if sample_weight is not None:
            sample_weight = check_sample_weight(sample_weight, n_rows)
        return X, y, sample_weight

    def _check_numbers(self, X: Any) -> AnyArray:
        try:
            return validate_data(
                self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan"
            )
        except ValueError as error:
            if "could not convert string" not in str(error):
                raise
            raise ValueError(
                f"{error}. This forest takes numbers only: encode such columns, or use "
                "forest='boosted', which takes the categorical columns of a data frame."
            ) from error

    def _grow(self, spec: Any, X: Any, y: Any, sample_weight: Any, seed: Any) -> Forest:
        if isinstance(spec, str):
            spec = named_forest(
                spec,
                classification=None if y is None else looks_like_classes(y),
                n_rows=len(X),
                n_estimators=self.n_estimators,
                n_jobs=self.n_jobs,
                random_state=seed,
            )
        names = getattr(self, "feature_names_in_", None)
        forest = grow_forest(spec, X, y, sample_weight, random_state=seed, feature_names=names)
        if forest.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {self.n_features_in_} features, but the given forest is expecting "
                f"{forest.n_features} features as input."
            )
        return forest

    def _embed(self, spec: Any, forest: Forest, X: Any, y: Any, sample_weight: Any) -> PathMap:
        if self.coordinates == "leaf":
            weights = leaf_indicator_weights(forest)
        else:
            node_weight, statistics = self.node_weight, forest.statistics
            if y is not None and needs_statistics(node_weight, self.leaf_weight):
                statistics = weighting_statistics(
                    forest,
                    X,
                    y,
                    sample_weight,
                    classification=_is_classification(spec, y),
                    n_jobs=self.n_jobs,
                )
            elif y is None and not is_grown(spec) and _is_named(node_weight, "gain"):
                node_weight = "uniform"  # trees grown without a target
            weights = path_weights(forest, node_weight, self.leaf_weight, statistics=statistics)
        return PathMap(forest, weights, normalize=self.normalize, n_jobs=self.n_jobs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        specs = self.forest if isinstance(self.forest, list) else [("forest", self.forest)]
        tags.input_tags.allow_nan = all(_allows_nan(spec) for _, spec in specs)
        return tags


def looks_like_classes(y: AnyArray) -> bool:
    """Whether a target is labels rather than numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.models.embedding import looks_like_classes
    >>> looks_like_classes(np.array(["a", "b"])), looks_like_classes(np.arange(100))
    (True, False)
    """
    if np.issubdtype(y.dtype, np.number):
        most = MOST_INTEGER_LABELS if np.issubdtype(y.dtype, np.integer) else 2
        return y.ndim == 1 and len(np.unique(y)) <= most
    check_classification_targets(y)
    return True


def _check_target(y: Any) -> AnyArray:
    """The target as an array, its numbers as numbers: also where a data frame holds objects."""
    values = np.asarray(y)
    if values.dtype == object:
        numbers = np.array(values.tolist())
        if numbers.dtype.kind in "biuf":
            values = numbers
    values = check_array(values, ensure_2d=False, dtype=None, input_name="y")
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _is_named(weight: Any, name: str) -> bool:
    return isinstance(weight, str) and weight == name


def _check_blocks(specs: Any) -> None:
    pairs = all(isinstance(s, tuple) and len(s) == 2 and isinstance(s[0], str) for s in specs)
    if not specs or not pairs:
        raise ValueError(f"A list of forests must hold (name, forest) pairs; got {specs!r}.")


def _is_classification(spec: Any, y: AnyArray) -> bool:
    """The task of one forest: its own where it has one, otherwise y's."""
    if isinstance(spec, Forest):
        own = spec.statistics
        return looks_like_classes(y) if own is None else own.class_share is not None
    if isinstance(spec, str) or isinstance(_inner(spec), UNSUPERVISED):
        return looks_like_classes(y)
    return bool(is_classifier(_inner(spec)))


def _task_name(spec: Any, forest: Forest, y: Any) -> str:
    if y is not None:
        return "classification" if _is_classification(spec, y) else "regression"
    if forest.statistics is None:
        return "unsupervised"
    return "regression" if forest.statistics.class_share is None else "classification"


def _inner(spec: Any) -> Any:
    return spec.estimator if is_grown(spec) and not isinstance(spec, Forest) else spec


def _takes_frames(spec: Any) -> bool:
    """Whether a forest reads the columns of a data frame itself, categories included."""
    if isinstance(spec, Forest):
        return bool(spec.categories)
    return spec == "boosted" if isinstance(spec, str) else isinstance(_inner(spec), TAKES_FRAMES)


def _allows_nan(spec: Any) -> bool:
    if isinstance(spec, Forest):
        return spec.allows_nan
    if isinstance(spec, str):
        return True
    try:
        return bool(get_tags(_inner(spec)).input_tags.allow_nan)
    except Exception:  # not an estimator: fit says so
        return False
