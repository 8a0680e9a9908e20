"""`KPPEmbedding`: the embedding as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kpp._checks import check_sample_weight
from kpp._shown import ShowsItsFit
from kpp._typing import AnyArray, IntArray
from kpp.forest.arrays import Forest
from kpp.forest.route import route
from kpp.geometry.composed import forest_blocks
from kpp.geometry.maps import MapBlock
from kpp.models.blocks import forest_specs
from kpp.models.data import FitData, check_new_rows, check_rows, check_target
from kpp.models.grower import (
    Grower,
    check_map_parameters,
    is_classification,
    seeds_for,
    takes_nan,
)
from kpp.scores import RoutedRows, routed_rows


class KPPEmbedding(TransformerMixin, ShowsItsFit):
    r"""Embed rows so that Euclidean distance is path distance through a forest.

    Every node v of every tree t is a coordinate,

    .. math:: \Phi_{t, v}(x) = \sqrt{\omega_t(v) / S_T}\; 1\{x \in S_v\},

    and :math:`\|\Phi(x) - \Phi(x')\|^2 = \delta_T(x, x')`: rows are as far apart as the weight of
    the splits on the paths between their leaves.

    Parameters
    ----------
    forest : str, estimator, Forest, FrozenEstimator or list, default="extra-trees"
        What to embed with. A name ("extra-trees", "random-forest", "boosted", "lightgbm",
        "xgboost", "catboost"; the last three are extras) or an estimator is grown on the data (an
        estimator is cloned; its own ``random_state`` wins when set). A
        `Forest` or a ``sklearn.frozen.FrozenEstimator`` is used as it is. A list of (name,
        forest) gives several side by side.
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
            Rows. A data frame may have columns of strings and categories.
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
        check_map_parameters(self)
        specs = forest_specs(self.forest)
        X, rows = check_rows(self, specs, X)
        y = None if y is None else check_target(y, len(X))
        weight = check_sample_weight(sample_weight, len(X))
        data = FitData(rows, y, y, weight, is_weighted=sample_weight is not None)
        grower = Grower.of(self, classification=None)
        forests, blocks = [], []
        seeds = seeds_for(self.random_state, len(specs))
        for (name, spec), seed in zip(specs, seeds, strict=True):
            # Without a target trees are totally random; a given forest has its own task.
            task = None if y is None else is_classification(spec, y)
            forest = grower.grow(spec, data, seed, classification=task)
            forests.append((name, forest))
            blocks.append((name, grower.weighed(spec, forest, data, task)))
        self.task_ = _task_name(specs[0][1], forests[0][1], y)
        self.forest_ = forests if grower.is_list else forests[0][1]
        self.map_ = grower.together(blocks)
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
        return self._rows(X).map.to_csr()

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
        return self._rows(X).all_leaf_ids.T

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

    def at(self, X: Any) -> RoutedRows:
        """Check and route rows once, for any number of questions about them.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        rows : RoutedRows
            Everything that takes this embedding and X takes them instead of X.
        """
        check_is_fitted(self, "map_")
        X = check_new_rows(self, X)
        blocks = forest_blocks(self.map_)
        leaf_ids = [route(block.forest, X, n_jobs=self.n_jobs) for _, block in blocks]
        return RoutedRows(X, leaf_ids, self.map_, n_jobs=self.n_jobs)

    def _rows(self, X: Any) -> RoutedRows:
        check_is_fitted(self, "map_")
        return routed_rows(self, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = takes_nan(self.forest)
        return tags


def _task_name(spec: Any, forest: Forest, y: Any) -> str:
    if y is not None:
        return "classification" if is_classification(spec, y) else "regression"
    if forest.statistics is None:
        return "unsupervised"
    return "regression" if forest.statistics.class_share is None else "classification"
