"""Growing forests for a fit: plain, one per fold, or one in groups that each miss a fold."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.utils import check_random_state

from kpp._progress import Progress
from kpp._typing import AnyArray, FloatArray
from kpp.forest.arrays import Forest
from kpp.forest.grow import named_forest, traits_of
from kpp.forest.route import route
from kpp.geometry.composed import BlockMap
from kpp.geometry.maps import MapBlock, PathMap
from kpp.models.building import grow, seeds_for, take_rows, weigh, weighs_by_own
from kpp.models.selection import Fold

GROWING = "growing trees"


def cv_splits(
    model: Any, X: Any, labels: AnyArray, weight: FloatArray | None, groups: Any
) -> list[tuple[AnyArray, AnyArray]]:
    """Train and test rows of every fold; every row is in one test fold."""
    splitter = _splitter(model, labels)
    with warnings.catch_warnings():
        # A rare class may be absent from a fold; that is provided for.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        splits = list(splitter.split(X, labels, groups))
    tested = np.concatenate([test for _, test in splits])
    if not np.array_equal(np.sort(tested), np.arange(len(labels))):
        raise ValueError("cv must put every row into exactly one test fold.")
    if any(len(np.intersect1d(train, test)) for train, test in splits):
        raise ValueError("cv must keep the rows of a test fold out of its training rows.")
    if weight is not None and any(weight[train].sum() == 0 for train, _ in splits):
        raise ValueError(
            "All sample weight lies in one fold, and nothing is left to fit on when it is held "
            "out: give alpha as a number, or a positive weight to rows of other folds."
        )
    return splits


def _splitter(model: Any, labels: AnyArray) -> Any:
    if not isinstance(model.cv, int | np.integer):
        return check_cv(model.cv, labels, classifier=model._classification)
    if model.cv < 2:
        raise ValueError(f"cv must be at least 2 folds, or a splitter; got {model.cv}.")
    random = check_random_state(model.random_state)
    n_rows = len(labels)
    if n_rows < 2:
        raise ValueError(f"alpha='auto' needs at least 2 rows for its folds; got {n_rows}.")
    largest = np.unique(labels, return_counts=True)[1].max() if model._classification else 0
    if largest >= 2:
        return StratifiedKFold(min(model.cv, largest), shuffle=True, random_state=random)
    return KFold(min(model.cv, n_rows), shuffle=True, random_state=random)


def plain_map(
    model: Any,
    specs: list[tuple[str, Any]],
    X: Any,
    labels: AnyArray,
    weight: FloatArray | None,
    rows: AnyArray | None,
    seed: Any,
    progress: Progress,
) -> MapBlock:
    """Grow each forest on the given rows (all, where it is fixed) and weigh it."""
    if rows is not None and len(rows) < len(labels):
        X, labels = take_rows(X, rows), labels[rows]
        weight = None if weight is None else weight[rows]
    seeds = seeds_for(seed, len(specs))
    blocks: list[tuple[str, MapBlock]] = []
    for k, ((name, spec), own_seed) in enumerate(zip(specs, seeds, strict=True)):
        progress(GROWING, k, len(specs))
        forest = grow(
            model,
            spec,
            X,
            labels,
            weight,
            classification=model._classification,
            random_state=own_seed,
        )
        blocks.append((name, weighed_map(model, spec, forest, X, labels, weight)))
    progress(GROWING, len(specs), len(specs))
    return BlockMap(blocks) if isinstance(model.forest, list) else blocks[0][1]


def later_folds(
    model: Any,
    specs: list[tuple[str, Any]],
    X: Any,
    labels: AnyArray,
    weight: FloatArray | None,
    groups: Any,
    rows: AnyArray,
    embedding: MapBlock,
    progress: Progress,
) -> list[Fold]:
    """Folds of the fit rows: the same map for all (frozen), or a forest for each (regrown)."""
    groups = None if groups is None else np.asarray(groups)[rows]
    own_weight = None if weight is None else weight[rows]
    splits = cv_splits(model, take_rows(X, rows), labels[rows], own_weight, groups)
    if model._way() == "frozen":
        return [Fold(embedding.rows(a), embedding.rows(b), a, b) for a, b in splits]
    folds = []
    for train, test in splits:
        grown = plain_map(model, specs, X, labels, weight, train, model.random_state, progress)
        folds.append(
            Fold(
                grown.on(take_rows(X, train)),
                grown.on(take_rows(X, test)),
                train,
                test,
            )
        )
    return folds


def fold_grown(
    model: Any,
    specs: list[tuple[str, Any]],
    X: Any,
    labels: AnyArray,
    weight: FloatArray | None,
    groups: Any,
    progress: Progress,
) -> tuple[MapBlock, list[Fold]]:
    """One forest in as many groups as folds; the trees of a group never see their fold."""
    splits = cv_splits(model, X, labels, weight, groups)
    rows_of_groups = [train for train, _ in splits]
    forests = _grow_groups(model, specs, X, labels, weight, rows_of_groups, progress)
    final: list[tuple[str, MapBlock]] = []
    parts: list[list[tuple[str, MapBlock]]] = [[] for _ in splits]
    for name, spec in specs:
        own = [by_group.pop(0) for by_group in forests]
        stops = np.cumsum([forest.n_trees for forest in own])
        joined = Forest.concatenate(own, release=True)
        del own
        embedding = weighed_map(model, spec, joined, X, labels, weight)
        embedding = embedding.at_leaves(route(joined, X, n_jobs=model.n_jobs))
        final.append((name, embedding))
        for q, (rows, stop) in enumerate(zip(rows_of_groups, stops.tolist(), strict=True)):
            group = embedding.trees(slice(0 if q == 0 else int(stops[q - 1]), stop))
            if not weighs_by_own(model, joined):
                # Weights that are estimated on rows must not see the rows of the fold.
                inside = None if weight is None else weight[rows]
                own_map = weighed_map(
                    model, spec, group.forest, take_rows(X, rows), labels[rows], inside
                )
                group = own_map.at_leaves(group.leaf_ids)
            parts[q].append((name, group))
    is_list = isinstance(model.forest, list)
    folds = []
    for (train, test), blocks in zip(splits, parts, strict=True):
        group_map = BlockMap(blocks) if is_list else blocks[0][1]
        folds.append(Fold(group_map.rows(train), group_map.rows(test), train, test))
        blocks.clear()
    return (BlockMap(final) if is_list else final[0][1]), folds


def grow_groups(
    model: Any,
    specs: list[tuple[str, Any]],
    X: Any,
    labels: AnyArray,
    weight: FloatArray | None,
    rows_of_groups: list[AnyArray],
    progress: Progress,
) -> list[MapBlock]:
    """Grow a share of the trees on each set of rows; a map of all rows for each group."""
    forests = _grow_groups(model, specs, X, labels, weight, rows_of_groups, progress)
    maps: list[MapBlock] = []
    for rows, of_group in zip(rows_of_groups, forests, strict=True):
        X_own, y_own = take_rows(X, rows), labels[rows]
        weight_own = None if weight is None else weight[rows]
        blocks: list[tuple[str, MapBlock]] = [
            (name, weighed_map(model, spec, forest, X_own, y_own, weight_own).on(X))
            for (name, spec), forest in zip(specs, of_group, strict=True)
        ]
        maps.append(BlockMap(blocks) if isinstance(model.forest, list) else blocks[0][1])
    return maps


def _grow_groups(
    model: Any,
    specs: list[tuple[str, Any]],
    X: Any,
    labels: AnyArray,
    weight: FloatArray | None,
    rows_of_groups: list[AnyArray],
    progress: Progress,
) -> list[list[Forest]]:
    """The forests of each group, one per spec, grown on the group's rows."""
    random = check_random_state(model.random_state)
    n_groups, forests = len(rows_of_groups), []
    for q, rows in enumerate(rows_of_groups):
        progress(GROWING, q, n_groups)
        forests.append(
            [
                grow(
                    model,
                    _one_group(model, spec, q, n_groups, len(rows)),
                    take_rows(X, rows),
                    labels[rows],
                    None if weight is None else weight[rows],
                    classification=model._classification,
                    random_state=int(random.randint(np.iinfo(np.int32).max)),
                )
                for _, spec in specs
            ]
        )
    progress(GROWING, n_groups, n_groups)
    return forests


def _one_group(model: Any, spec: Any, q: int, n_groups: int, n_rows: int) -> Any:
    """The ensemble of group q: its share of the trees; boosters keep all their rounds."""
    if isinstance(spec, str):
        spec = named_forest(
            spec,
            classification=model._classification,
            n_rows=n_rows,
            n_estimators=model.n_estimators,
            n_jobs=model.n_jobs,
        )
    spec = clone(spec)
    seed = spec.get_params(deep=False).get("random_state")
    if seed is not None:
        # The user's seed rules, but the same one for all groups would grow the same trees.
        seeds = check_random_state(seed).randint(np.iinfo(np.int32).max, size=n_groups)
        spec.set_params(random_state=int(seeds[q]))
    if traits_of(spec).splits_into_groups:
        n_trees = spec.n_estimators // n_groups + (q < spec.n_estimators % n_groups)
        spec.set_params(n_estimators=max(1, n_trees))
    return spec


def weighed_map(
    model: Any, spec: Any, forest: Forest, X: Any, labels: AnyArray, weight: FloatArray | None
) -> PathMap:
    """The map of one forest, with the weights that the model's parameters ask for."""
    # Trees without a split embed every row as 0, and the model predicts a constant.
    weights = weigh(
        model,
        spec,
        forest,
        X,
        labels,
        weight,
        classification=model._classification,
        allow_no_mass=True,
        # A fixed representation must not see the labels of the fit, not even in its weights.
        own_statistics=model.regime == "fixed",
    )
    return PathMap(forest, weights, normalize=model.normalize, n_jobs=model.n_jobs)
