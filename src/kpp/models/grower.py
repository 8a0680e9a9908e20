"""`Grower`: forests for a fit, and their maps; plain, or in groups that each miss some rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets

from kpp._checks import check_choice
from kpp._progress import Progress
from kpp._typing import AnyArray
from kpp.forest.arrays import Forest
from kpp.forest.grow import check_forest, grow_forest, is_grown, named_forest, traits_of
from kpp.geometry.composed import BlockMap
from kpp.geometry.maps import NORMALIZATIONS, MapBlock, PathMap
from kpp.geometry.weights import (
    DerivedWeights,
    leaf_indicator_weights,
    needs_statistics,
    path_weights,
    weighting_statistics,
)
from kpp.models.data import FitData

GROWING = "growing trees"
COORDINATES = ("path", "leaf")
MOST_INTEGER_LABELS = 50
LARGEST_SEED = np.iinfo(np.int32).max

Spec = tuple[str, Any]


@dataclass(frozen=True, eq=False)
class Grower:
    """Forests to be grown, and how their nodes are weighed.

    Parameters
    ----------
    specs : list of (str, forest)
        Names, ensembles, `Forest` objects or frozen estimators, by name.
    is_list : bool
        Whether the user gave a list, and gets a map of blocks.
    n_estimators : int
        Trees of a forest that is given by its name.
    node_weight, leaf_weight, coordinates, normalize
        Parameters of the map.
    n_features : int
        Columns of X.
    feature_names : array of str, optional
        Their names.
    classification : bool, optional
        The task; None where every forest has its own.
    sees_labels : bool
        Whether the rows of a fit may weigh the nodes. Not in the fixed regime: a representation
        that must not see the labels must not see them in its weights either.
    n_jobs, random_state
        As everywhere.
    progress : Progress
        Told of every forest.
    """

    specs: list[Spec]
    is_list: bool
    n_estimators: int
    node_weight: Any
    leaf_weight: Any
    coordinates: str
    normalize: str
    n_features: int
    feature_names: AnyArray | None
    classification: bool | None
    sees_labels: bool
    n_jobs: int | None
    random_state: Any
    progress: Progress

    @classmethod
    def of(
        cls,
        estimator: Any,
        *,
        classification: bool | None,
        sees_labels: bool = True,
        progress: Progress | None = None,
    ) -> Grower:
        """Read the parameters of an estimator, which has seen its X."""
        names = ("n_estimators", "node_weight", "leaf_weight", "coordinates", "normalize")
        return cls(
            specs=forest_specs(estimator.forest),
            is_list=isinstance(estimator.forest, list),
            n_features=estimator.n_features_in_,
            feature_names=getattr(estimator, "feature_names_in_", None),
            classification=classification,
            sees_labels=sees_labels,
            n_jobs=estimator.n_jobs,
            random_state=estimator.random_state,
            progress=Progress(0) if progress is None else progress,
            **{name: getattr(estimator, name) for name in names},
        )

    def plain(self, data: FitData, seed: Any = None) -> MapBlock:
        """Grow each forest on the given rows (all of them, where it is fixed) and weigh it.

        Parameters
        ----------
        data : FitData
            Rows to grow on and to weigh by.
        seed : int, RandomState or None
            `random_state` by default.

        Returns
        -------
        map : MapBlock
            At no rows.
        """
        seeds = seeds_for(self.random_state if seed is None else seed, len(self.specs))
        blocks: list[tuple[str, MapBlock]] = []
        for k, ((name, spec), own_seed) in enumerate(zip(self.specs, seeds, strict=True)):
            self.progress(GROWING, k, len(self.specs))
            forest = self.grow(spec, data, own_seed)
            blocks.append((name, self.weigh(spec, forest, data)))
        self.progress(GROWING, len(self.specs), len(self.specs))
        return self.together(blocks)

    def grow(
        self, spec: Any, data: FitData, seed: Any, *, classification: bool | None = None
    ) -> Forest:
        """Grow, or take, one forest."""
        if classification is None:
            classification = self.classification
        if isinstance(spec, str):
            spec = named_forest(
                spec,
                classification=classification,
                n_rows=len(data.X),
                n_estimators=self.n_estimators,
                n_jobs=self.n_jobs,
                random_state=seed,
            )
        forest = grow_forest(
            spec,
            data.X,
            data.labels,
            data.given_weight,
            random_state=seed,
            feature_names=self.feature_names,
        )
        if forest.n_features != self.n_features:
            raise ValueError(
                f"X has {self.n_features} features, but the given forest is expecting "
                f"{forest.n_features} features as input."
            )
        return forest

    def weigh(self, spec: Any, forest: Forest, data: FitData) -> PathMap:
        """Return the map of one forest with the weights that the parameters ask for."""
        # Trees without a split embed every row as 0, and a linear model predicts a constant.
        return self.weighed(spec, forest, data, self.classification, allow_no_mass=True)

    def weighed(
        self,
        spec: Any,
        forest: Forest,
        data: FitData,
        classification: bool | None,
        *,
        allow_no_mass: bool = False,
    ) -> PathMap:
        """As `weigh`, for a forest that has a task of its own, or none."""
        node_weight, statistics = self.node_weight, forest.statistics
        if self.coordinates == "leaf":
            weights = leaf_indicator_weights(forest)
        else:
            if not self.sees_labels:
                pass  # what the forest recorded of its own target
            elif classification is not None and needs_statistics(node_weight, self.leaf_weight):
                statistics = weighting_statistics(
                    forest,
                    data.X,
                    data.labels,
                    data.given_weight,
                    classification=classification,
                    n_jobs=self.n_jobs,
                )
            elif classification is None and not is_grown(spec) and _is_gain(node_weight):
                node_weight = "uniform"  # trees grown without a target
            weights = path_weights(
                forest,
                node_weight,
                self.leaf_weight,
                statistics=statistics,
                allow_no_mass=allow_no_mass,
            )
        block = PathMap(forest, weights, normalize=self.normalize, n_jobs=self.n_jobs)
        named = self.coordinates == "path" and isinstance(node_weight, str)
        if named and self.leaf_weight is None and statistics is forest.statistics:
            # The map has the coordinates; two more numbers for each node need not be kept.
            masses = weights.tree_mass, weights.forest_mass
            block.weights = DerivedWeights(forest, node_weight, *masses)
        return block

    def weighs_by_trees_alone(self, forest: Forest) -> bool:
        """Whether the weights of `weigh` come from the trees, not from rows of the fit."""
        if self.coordinates == "leaf":
            return True
        if not needs_statistics(self.node_weight, self.leaf_weight):
            return True
        return forest.statistics is not None and forest.statistics.grown_on_impurity

    def in_groups(self, data: FitData, rows_of_groups: Sequence[AnyArray]) -> list[list[Forest]]:
        """Grow a share of the trees on each set of rows.

        Parameters
        ----------
        data : FitData
            All rows.
        rows_of_groups : list of int arrays
            The rows that each group of trees may see.

        Returns
        -------
        forests : list of lists of Forest
            By group, then by spec.
        """
        random = check_random_state(self.random_state)
        n_groups, forests = len(rows_of_groups), []
        for q, rows in enumerate(rows_of_groups):
            self.progress(GROWING, q, n_groups)
            own = data.take(rows)
            forests.append(
                [
                    self.grow(
                        self._one_group(spec, q, n_groups, len(rows)),
                        own,
                        int(random.randint(LARGEST_SEED)),
                    )
                    for _, spec in self.specs
                ]
            )
        self.progress(GROWING, n_groups, n_groups)
        return forests

    def _one_group(self, spec: Any, q: int, n_groups: int, n_rows: int) -> Any:
        """The ensemble of group q: its share of the trees; boosters keep all their rounds."""
        if isinstance(spec, str):
            spec = named_forest(
                spec,
                classification=self.classification,
                n_rows=n_rows,
                n_estimators=self.n_estimators,
                n_jobs=self.n_jobs,
            )
        spec = clone(spec)
        seed = spec.get_params(deep=False).get("random_state")
        if seed is not None:
            # The user's seed rules, but the same one for all groups would grow the same trees.
            seeds = check_random_state(seed).randint(LARGEST_SEED, size=n_groups)
            spec.set_params(random_state=int(seeds[q]))
        if traits_of(spec).splits_into_groups:
            n_trees = spec.n_estimators // n_groups + (q < spec.n_estimators % n_groups)
            spec.set_params(n_estimators=max(1, n_trees))
        return spec

    def together(self, blocks: list[tuple[str, MapBlock]]) -> MapBlock:
        """The map of all forests: blocks where the user gave a list, otherwise the only one."""
        return BlockMap(blocks) if self.is_list else blocks[0][1]


def check_map_parameters(estimator: Any) -> None:
    """Check the parameters that every estimator's map has."""
    check_choice("coordinates", estimator.coordinates, COORDINATES)
    check_choice("normalize", estimator.normalize, NORMALIZATIONS)
    if estimator.coordinates == "leaf" and estimator.leaf_weight is not None:
        raise ValueError("leaf_weight belongs to coordinates='path'; leaves count alike here.")


def forest_specs(forest: Any) -> list[Spec]:
    """The parameter `forest` as a list of named forests."""
    specs = forest if isinstance(forest, list) else [("forest", forest)]
    pairs = all(isinstance(s, tuple) and len(s) == 2 and isinstance(s[0], str) for s in specs)
    if not specs or not pairs:
        raise ValueError(f"A list of forests must hold (name, forest) pairs; got {forest!r}.")
    for _, spec in specs:
        check_forest(spec)
    return specs


def seeds_for(random_state: Any, n_forests: int) -> list[Any]:
    """One forest gets a seed as it is; several, or a generator, get seeds drawn from it."""
    if n_forests == 1 and not isinstance(random_state, np.random.RandomState):
        return [random_state]
    random = check_random_state(random_state)
    return [int(random.randint(LARGEST_SEED)) for _ in range(n_forests)]


def is_classification(spec: Any, y: AnyArray) -> bool:
    """The task of one forest: its own where it has one, otherwise y's."""
    if isinstance(spec, Forest):
        own = spec.statistics
        return looks_like_classes(y) if own is None else own.class_share is not None
    if isinstance(spec, str) or not traits_of(spec).supervised:
        return looks_like_classes(y)
    return bool(is_classifier(_inner(spec)))


def looks_like_classes(y: AnyArray) -> bool:
    """Whether a target is labels rather than numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.models.grower import looks_like_classes
    >>> looks_like_classes(np.array(["a", "b"])), looks_like_classes(np.arange(100))
    (True, False)
    """
    if np.issubdtype(y.dtype, np.number):
        most = MOST_INTEGER_LABELS if np.issubdtype(y.dtype, np.integer) else 2
        return y.ndim == 1 and len(np.unique(y)) <= most
    check_classification_targets(y)
    return True


def takes_nan(forest: Any) -> bool:
    """Whether every forest of an estimator takes missing values; for its tags."""
    specs = forest if isinstance(forest, list) else [("forest", forest)]
    return all(_takes_nan(spec) for _, spec in specs)


def one_target_forests(forest: Any) -> list[Any]:
    """The forests of an estimator that are to be grown, and grow for one target only."""
    specs = forest if isinstance(forest, list) else [("forest", forest)]
    return [spec for _, spec in specs if not is_grown(spec) and traits_of(spec).one_target]


def _takes_nan(spec: Any) -> bool:
    if isinstance(spec, Forest):
        return spec.allows_nan
    if isinstance(spec, str):
        return True
    try:
        return bool(get_tags(_inner(spec)).input_tags.allow_nan)
    except Exception:  # not an estimator: fit says so
        return False


def _inner(spec: Any) -> Any:
    return spec.estimator if is_grown(spec) and not isinstance(spec, Forest) else spec


def _is_gain(weight: Any) -> bool:
    return isinstance(weight, str) and weight == "gain"
