"""`Grower`: forests for a fit, and their maps; plain, or in groups that each miss some rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import is_classifier
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets

from kpp._checks import check_choice
from kpp._parallel import one_openmp_thread, run_blocks
from kpp._progress import Progress
from kpp._typing import AnyArray
from kpp.forest.arrays import Forest
from kpp.forest.boosters import library_of, seed_name, unfitted
from kpp.forest.coded import CodedRows
from kpp.forest.columns import categorical_columns
from kpp.forest.grow import grow_forest, is_grown, named_forest, traits_of
from kpp.forest.join import forest_of_targets
from kpp.geometry.composed import BlockMap
from kpp.geometry.linear import LinearMap, LinearTerms
from kpp.geometry.maps import NORMALIZATIONS, MapBlock, PathMap
from kpp.geometry.weights import (
    DerivedWeights,
    PathWeights,
    leaf_indicator_weights,
    needs_statistics,
    path_weights,
    weighting_statistics,
)
from kpp.models.blocks import LINEAR, Blocks, Spec, blocks_of
from kpp.models.data import FitData
from kpp.solvers import Loss, PoissonLoss

GROWING = "growing trees"
COORDINATES = ("path", "leaf")
MOST_INTEGER_LABELS = 50
LARGEST_SEED = np.iinfo(np.int32).max

# In a blend a fold is scored by its group of trees, and boosters by all their rounds: so few trees
# would count for less than all of them deserve. Shares of classes need more of them than means.
BLEND_TREES = {True: 3, False: 2}
# In a blend, what the splits of a booster weigh at least where they move its score, as a share of
# the mean of all positive weights: what weighs nothing has no coordinate to carry a step.
LEAST_WEIGHT = 1e-3
# From this many rows on boosters are grown on all threads.
THREADED_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class Grower:
    """Forests to be grown, and how their nodes are weighed.

    Parameters
    ----------
    specs : list of (str, forest)
        Names, ensembles, `Forest` objects or frozen estimators, by name.
    is_list : bool
        Whether the map is one of blocks.
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
    blends : bool
        Whether the map must also carry what the bare ensembles predict.
    is_linear : bool
        Whether a block of linear terms stands beside the forests.
    n_classes : int
        Number of classes, for classification.
    loss : Loss, optional
        What the model minimises; boosters that are given by name may have it, too.
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
    blends: bool = False
    is_linear: bool = False
    n_classes: int = 2
    loss: Loss | None = None

    @classmethod
    def of(
        cls,
        estimator: Any,
        *,
        classification: bool | None,
        sees_labels: bool = True,
        progress: Progress | None = None,
        blocks: Blocks | None = None,
        n_classes: int = 2,
        loss: Loss | None = None,
    ) -> Grower:
        """Read the parameters of an estimator, which has seen its X."""
        blocks = blocks_of(estimator) if blocks is None else blocks
        names = ("n_estimators", "node_weight", "leaf_weight", "coordinates", "normalize")
        return cls(
            specs=blocks.specs,
            is_list=blocks.is_list,
            blends=blocks.is_blend,
            is_linear=blocks.is_linear,
            n_classes=n_classes,
            loss=loss,
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
        grown = self.all_grown(data, seed)
        blocks: list[tuple[str, MapBlock]] = [
            (name, self.weigh(spec, forest, data))
            for (name, spec), forest in zip(self.specs, grown, strict=True)
        ]
        if self.is_linear:
            blocks.append((LINEAR, self.linear_map(data, grown)))
        return self.together(blocks)

    def all_grown(self, data: FitData, seed: Any = None) -> list[Forest]:
        """Grow, or take, each forest on the given rows.

        Parameters
        ----------
        data : FitData
            Rows to grow on.
        seed : int, RandomState or None
            `random_state` by default.

        Returns
        -------
        forests : list of Forest
            By spec.
        """
        seeds = seeds_for(self.random_state if seed is None else seed, len(self.specs))
        forests = []
        for k, ((_, spec), own_seed) in enumerate(zip(self.specs, seeds, strict=True)):
            self.progress(GROWING, k, len(self.specs))
            forests.append(self.grow(spec, data, own_seed))
        self.progress(GROWING, len(self.specs), len(self.specs))
        return forests

    def linear_map(self, data: FitData, forests: Sequence[Forest]) -> LinearMap:
        """The map of linear terms, from columns alone; at no rows.

        Parameters
        ----------
        data : FitData
            Rows whose columns have the ranges, means and standard deviations.
        forests : sequence of Forest
            What stands beside it: a column that one of them takes for categories has no term.

        Returns
        -------
        map : LinearMap
        """
        coded = np.zeros(self.n_features, dtype=bool)
        for forest in forests:
            coded |= categorical_columns(forest)
        X = data.X
        if isinstance(X, CodedRows):
            coded[list(X.categories)] = True
            X = X.values
        terms = LinearTerms.fit(X, data.given_weight, without=np.flatnonzero(coded).tolist())
        return LinearMap(terms, normalize=self.normalize)

    def grow(
        self,
        spec: Any,
        data: FitData,
        seed: Any,
        *,
        classification: bool | None = None,
        held_out: FitData | None = None,
    ) -> Forest:
        """Grow, or take, one forest; it may stop early on rows held out, where it asks for that."""
        if classification is None:
            classification = self.classification
        # A booster's trees follow one another, and each is small: threads wait for each other.
        is_small = traits_of(spec).combines == "sum" and len(data.X) < THREADED_ROWS
        if isinstance(spec, str):
            spec = self._named(spec, len(data.X), classification, seed)
        targets = [data.labels]
        stops = [None if held_out is None else held_out.labels]
        if np.ndim(data.labels) == 2 and traits_of(spec).one_target and not is_grown(spec):
            targets = list(data.labels.T)
            stops = [None] * len(targets) if held_out is None else list(held_out.labels.T)
        with one_openmp_thread(is_small):
            grown = [
                grow_forest(
                    spec,
                    data.X,
                    target,
                    data.given_weight,
                    random_state=seed,
                    feature_names=self.feature_names,
                    n_jobs=1 if is_small else effective_n_jobs(self.n_jobs),
                    stop_on=None if held_out is None else (held_out.X, stop, held_out.given_weight),
                )
                for target, stop in zip(targets, stops, strict=True)
            ]
        forest = grown[0] if len(grown) == 1 else forest_of_targets(grown)
        if forest.n_features != self.n_features:
            raise ValueError(
                f"X has {self.n_features} features, but the given forest is expecting "
                f"{forest.n_features} features as input."
            )
        return forest

    def weigh(
        self, spec: Any, forest: Forest, data: FitData, moving: AnyArray | None = None
    ) -> PathMap:
        """Return the map of one forest with the weights that the parameters ask for.

        Parameters
        ----------
        spec, forest
            What was asked for, and what was grown.
        data : FitData
            Rows to weigh by.
        moving : bool array of shape (n_nodes,), optional
            Splits that must not weigh nothing; see `LEAST_WEIGHT`.

        Returns
        -------
        map : PathMap
            At no rows.
        """
        # Trees without a split embed every row as 0, and a linear model predicts a constant.
        return self.weighed(
            spec, forest, data, self.classification, allow_no_mass=True, moving=moving
        )

    def weighed(
        self,
        spec: Any,
        forest: Forest,
        data: FitData,
        classification: bool | None,
        *,
        allow_no_mass: bool = False,
        moving: AnyArray | None = None,
    ) -> PathMap:
        """As `weigh`, for a forest that has a task of its own, or none."""
        node_weight, statistics = self._node_weight(spec), forest.statistics
        if self.coordinates == "leaf":
            weights = leaf_indicator_weights(forest)
        else:
            if not self.sees_labels:
                # What the forest recorded of its own target; a booster's nodes saw gradients, and
                # without another weight to choose all of its splits count alike.
                if statistics is None and _is_gain(node_weight):
                    node_weight = "uniform"
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
            raised = (
                None
                if moving is None
                else raised_weights(weights, moving, traits_of(spec).combines, forest)
            )
            if raised is not None:
                node_weight, weights = raised.node, raised
        block = PathMap(forest, weights, normalize=self.normalize, n_jobs=self.n_jobs)
        named = self.coordinates == "path" and isinstance(node_weight, str)
        if named and self.leaf_weight is None and statistics is forest.statistics:
            # The map has the coordinates; two more numbers for each node need not be kept.
            masses = weights.tree_mass, weights.forest_mass
            block.weights = DerivedWeights(forest, node_weight, *masses)
        return block

    def weighs_by_trees_alone(self, spec: Any, forest: Forest) -> bool:
        """Whether the weights of `weigh` come from the trees, not from rows of the fit."""
        if self.coordinates == "leaf":
            return True
        if not needs_statistics(self._node_weight(spec), self.leaf_weight):
            return True
        return forest.statistics is not None and forest.statistics.grown_on_impurity

    def _node_weight(self, spec: Any) -> Any:
        """The parameter, except for splits that nothing has chosen: these count alike."""
        alike = isinstance(self.node_weight, str) and traits_of(spec).by_columns_alone
        return "uniform" if alike else self.node_weight

    def in_groups(
        self,
        data: FitData,
        rows_of_groups: Sequence[AnyArray],
        *,
        share_columns: bool = False,
        held_out: Sequence[AnyArray] | None = None,
        are_alike: bool = False,
    ) -> list[list[Forest]]:
        """Grow a share of the trees on each set of rows.

        Parameters
        ----------
        data : FitData
            All rows.
        rows_of_groups : list of int arrays
            The rows that each group of trees may see.
        share_columns : bool
            Whether trees that follow from the columns alone are grown once, on all rows, and are
            the same object in every group.
        held_out : list of int arrays, optional
            Rows on which each group may stop early.
        are_alike : bool
            Whether all groups have the same number of trees, and together a few more than were
            asked for, where these cannot be divided.

        Returns
        -------
        forests : list of lists of Forest
            By group, then by spec.
        """
        random = check_random_state(self.random_state)
        n_groups = len(rows_of_groups)
        seeds = [[int(random.randint(LARGEST_SEED)) for _ in self.specs] for _ in range(n_groups)]
        forests: list[list[Forest]] = [[] for _ in range(n_groups)]
        done = count(1)
        # Estimators of other libraries alone: scikit-learn's stop on rows of their own.
        may_stop = any(
            not isinstance(spec, str) and library_of(spec) is not None for _, spec in self.specs
        )

        def grow_group(q: int, n_jobs: int | None) -> None:
            rows = rows_of_groups[q]
            own = data.take(rows)
            stop_on = data.take(held_out[q]) if held_out is not None and may_stop else None
            for k, (_, spec) in enumerate(self.specs):
                if share_columns and traits_of(spec).by_columns_alone:
                    forests[q].append(shared[k])
                    continue
                place = 0 if are_alike else q  # the first groups have the trees that are left over
                group = self._one_group(spec, q, n_groups, len(rows), n_jobs, place)
                forests[q].append(self.grow(group, own, seeds[q][k], held_out=stop_on))
            self.progress(GROWING, next(done), n_groups)

        self.progress(GROWING, 0, n_groups)
        shared = {
            k: self.grow(
                self._one_group(spec, 0, n_groups, len(rows_of_groups[0])), data, seeds[0][k]
            )
            for k, (_, spec) in enumerate(self.specs)
            if share_columns and traits_of(spec).by_columns_alone
        }
        together = self._groups_side_by_side(n_groups, len(data.X))
        run_blocks(lambda q: grow_group(q, 1), together, self.n_jobs)
        for q in range(together, n_groups):
            grow_group(q, self.n_jobs)
        return forests

    def _groups_side_by_side(self, n_groups: int, n_rows: int) -> int:
        """How many groups have a thread each; the threads share the trees of all others.

        As many as occupy every thread to the end. The trees of few rows are too small a piece of
        work: threads that share them wait for each other. Boosters gain nothing by it, for they
        are Python between their many small pieces.
        """
        named = all(
            isinstance(spec, str) and traits_of(spec).splits_into_groups for _, spec in self.specs
        )
        if n_rows >= THREADED_ROWS or not named:
            return 0
        n_threads = effective_n_jobs(self.n_jobs)
        return 0 if n_threads == 1 else n_groups // n_threads * n_threads

    def _one_group(
        self,
        spec: Any,
        q: int,
        n_groups: int,
        n_rows: int,
        n_jobs: int | None = None,
        place: int = 0,
    ) -> Any:
        """The ensemble of group q: its share of the trees; boosters keep all their rounds."""
        if isinstance(spec, str):
            spec = self._named(spec, n_rows, self.classification)
            if traits_of(spec).splits_into_groups:  # `grow` knows how many threads a booster has
                spec.set_params(n_jobs=n_jobs)
        spec = unfitted(spec)
        name = seed_name(spec)
        seed = None if name is None else spec.get_params(deep=False).get(name)
        if name is not None and seed is not None:
            # The user's seed rules, but the same one for all groups would grow the same trees.
            seeds = check_random_state(seed).randint(LARGEST_SEED, size=n_groups)
            spec.set_params(**{name: int(seeds[q])})
        if traits_of(spec).splits_into_groups:
            n_trees = spec.n_estimators // n_groups + (place < spec.n_estimators % n_groups)
            spec.set_params(n_estimators=max(1, n_trees))
        return spec

    def _named(self, name: str, n_rows: int, classification: bool | None, seed: Any = None) -> Any:
        """The ensemble of a name; averaging forests of a blend have more trees."""
        named = named_forest(
            name,
            classification=classification,
            n_rows=n_rows,
            n_estimators=self.n_estimators,
            n_jobs=self.n_jobs,
            random_state=seed,
            n_classes=self.n_classes,
        )
        if self.blends and traits_of(named).splits_into_groups:
            named.set_params(n_estimators=BLEND_TREES[bool(classification)] * self.n_estimators)
        if isinstance(self.loss, PoissonLoss) and isinstance(named, HistGradientBoostingRegressor):
            # Its own scores are then logarithms, as those of the model are.
            named.set_params(loss="poisson")
        return named

    def together(self, blocks: list[tuple[str, MapBlock]]) -> MapBlock:
        """The map of all forests: blocks where the user gave a list, otherwise the only one."""
        return BlockMap(blocks) if self.is_list else blocks[0][1]


def check_map_parameters(estimator: Any) -> None:
    """Check the parameters that every estimator's map has."""
    check_choice("coordinates", estimator.coordinates, COORDINATES)
    check_choice("normalize", estimator.normalize, NORMALIZATIONS)
    if estimator.coordinates == "leaf" and estimator.leaf_weight is not None:
        raise ValueError("leaf_weight belongs to coordinates='path'; leaves count alike here.")


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


def raised_weights(
    weights: PathWeights, moving: AnyArray, combines: str, forest: Forest
) -> PathWeights | None:
    """Weights with a floor at moving splits; None where all of them are above it.

    The gain of an averaging forest's own target falls with its steps, and needs a floor only where
    rounding has made it 0. A booster also steps where its rows are alike: there the floor is
    `LEAST_WEIGHT` of the mean positive weight.

    Parameters
    ----------
    weights : PathWeights
        As the parameters ask for.
    moving : bool array of shape (n_nodes,)
        Splits below which the bare ensemble steps.
    combines : {"mean", "sum"}
        How it adds up its trees.
    forest : Forest
        The trees.

    Returns
    -------
    weights : PathWeights or None
    """
    node = np.where(forest.is_leaf, 0.0, weights.node)
    positive = node > 0
    least = LEAST_WEIGHT * float(node[positive].mean()) if positive.any() else 1.0
    lacking = moving & (node < least if combines == "sum" else ~positive)
    if not lacking.any():
        return None
    leaves = np.where(forest.is_leaf, weights.node, 0.0)
    raised = np.where(lacking, least, node)
    return path_weights(forest, raised, leaves if leaves.any() else None)


def _is_gain(weight: Any) -> bool:
    return isinstance(weight, str) and weight == "gain"
