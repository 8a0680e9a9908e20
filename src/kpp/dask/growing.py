"""Trees grown on the workers, each on rows of some partitions; boosters on rows of all of them."""

from __future__ import annotations

import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from kpp._optional import optional
from kpp._typing import AnyArray, FloatArray
from kpp.dask.data import DaskData
from kpp.dask.encodings import encodings_without_folds
from kpp.dask.rows import Rows
from kpp.dask.session import Result
from kpp.dask.tables import join_rows
from kpp.forest.arrays import Forest
from kpp.forest.boosters import library_of, seed_name, unfitted
from kpp.forest.encoding import Encoding
from kpp.forest.grow import grow_forest, named_forest, traits_of
from kpp.forest.importers import import_forest
from kpp.models.grower import BLEND_TREES

LARGEST_SEED = np.iinfo(np.int32).max
# Libraries whose own Dask learners see all partitions: the module, and the two learners.
LEARNERS = {
    "lightgbm": ("lightgbm", "DaskLGBMClassifier", "DaskLGBMRegressor"),
    "xgboost": ("xgboost.dask", "DaskXGBClassifier", "DaskXGBRegressor"),
}


@dataclass(frozen=True, eq=False)
class TreeGrower:
    """How trees are grown on a cluster.

    Parameters
    ----------
    data : DaskData
        Rows.
    classification : bool
        The task.
    n_estimators : int
        Trees of a forest that is given by its name, over all folds.
    partitions_per_tree : int
        From how many partitions the rows of one tree come.
    shuffle : bool
        Whether they are drawn from all partitions instead: as many rows, at random.
    fold : Rows, optional
        The fold of each row; the trees of a group never see theirs.
    n_folds : int
        Number of groups, 1 without folds.
    blends : bool
        Whether the forests are blended: averaged ones have more trees then.
    """

    data: DaskData
    classification: bool
    n_estimators: int
    partitions_per_tree: int
    shuffle: bool
    fold: Rows | None = None
    n_folds: int = 1
    blends: bool = False

    def grow(self, spec: Any, seed: int) -> list[Forest]:
        """Grow one forest, in groups that each miss a fold.

        Parameters
        ----------
        spec : str or unfitted estimator
            What to grow.
        seed : int
            Of its trees.

        Returns
        -------
        forests : list of Forest
            One for each fold; one in all without folds.
        """
        if self.data.n_targets > 1 and traits_of(spec).one_target:
            raise ValueError(
                f"{spec!r} grows trees for one target, and y has {self.data.n_targets}: fit one "
                "model for each on Dask, or use averaged trees."
            )
        library = spec if isinstance(spec, str) else getattr(library_of(spec), "package", None)
        if library in LEARNERS:
            return self._boosted(spec, str(library), seed)
        sites, rows_of_site = self._sites(seed)
        random = np.random.default_rng([abs(int(seed)), 1])
        jobs: list[tuple[int, int, int, int]] = []  # group, site, trees, seed
        n_trees = self._trees(spec)
        for q in range(self.n_folds):
            if not traits_of(spec).splits_into_groups:
                jobs.append((q, q % len(sites), 0, int(random.integers(LARGEST_SEED))))
                continue
            own = max(1, n_trees // self.n_folds + (q < n_trees % self.n_folds))
            # One tree after the other goes to the next site, so that all sites have as many.
            place = np.bincount((np.arange(own) + q * own) % len(sites), minlength=len(sites))
            jobs += [
                (q, s, int(place[s]), int(random.integers(LARGEST_SEED)))
                for s in np.flatnonzero(place).tolist()
            ]
        session = self.data.session
        spec = _Sent(spec)
        found = session.gather(
            session.each(
                "grow",
                grow_on_site,
                [sites[s] for _, s, _, _ in jobs],
                spec,
                [n for _, _, n, _ in jobs],
                [own for _, _, _, own in jobs],
                [q if self.fold is not None else -1 for q, _, _, _ in jobs],
                self.classification,
                [rows_of_site] * len(jobs),
                _Sent(self.data.names),
                1 if self.data.classes is None else len(self.data.classes),
                self.data.is_weighted,
                self.n_estimators,
            )
        )
        return [
            Forest.concatenate([f for f, job in zip(found, jobs, strict=True) if job[0] == q])
            for q in range(self.n_folds)
        ]

    def _trees(self, spec: Any) -> int:
        if not isinstance(spec, str):
            return int(getattr(spec, "n_estimators", 1))
        return self.n_estimators * (BLEND_TREES[self.classification] if self.blends else 1)

    def _sites(self, seed: int) -> tuple[list[Result], int]:
        """Rows to grow on, as many sets as partitions allow, and how many a set has about."""
        data, session = self.data, self.data.session
        folds = None if self.fold is None else pieces_of(self.fold)
        every = session.each("part", _together, data.X, data.labels, pieces_of(data.weight), folds)
        parts = [part for part, n in zip(every, data.partitions.lengths, strict=True) if n]
        n_sites = max(1, len(parts) // min(self.partitions_per_tree, len(parts)))
        if self.shuffle:
            of_sites = [
                session.each("draw", _drawn, parts, s, n_sites, seed, list(range(len(parts))))
                for s in range(n_sites)
            ]
        else:
            stops = np.linspace(0, len(parts), n_sites + 1).astype(int)
            of_sites = [parts[first:last] for first, last in pairwise(stops)]
        sites: list[Result] = []
        for own in of_sites:
            key = session.key("site")
            sites += session.run({key: session.task(key, _concatenated, *own)}, [key])
        return sites, data.n_rows // n_sites

    def _boosted(self, spec: Any, library: str, seed: int) -> list[Forest]:
        """Boosters of another library, by its own Dask learner, on all rows but those of a fold.

        A worker that dies takes its learner with it: the libraries do not go on without.
        """
        data = self.data
        if isinstance(spec, str):
            spec = named_forest(
                spec,
                classification=self.classification,
                n_rows=data.n_rows,
                n_estimators=self.n_estimators,
                n_classes=1 if data.classes is None else len(data.classes),
            )
        encodings = encodings_without_folds(data, self.fold, self.n_folds, spec, library)
        forests = []
        for q in range(self.n_folds):
            own = unfitted(spec)
            name = seed_name(own)
            if name is not None and own.get_params(deep=False).get(name) is None:
                own.set_params(**{name: (seed + q) % LARGEST_SEED})
            encoding = None if encodings is None else encodings[q]
            forests.append(self._one_booster(own, library, q, encoding))
        return forests

    def _one_booster(self, spec: Any, library: str, q: int, encoding: Encoding | None) -> Forest:
        import dask.array as da
        from dask import delayed

        data, session = self.data, self.data.session
        target, weight = pieces_of(data.target), pieces_of(data.weight)
        folds = None if self.fold is None else pieces_of(self.fold)
        parts = session.each(
            "booster_rows", _without_fold, data.X, target, weight, folds, q, _Sent(encoding)
        )
        lengths = session.gather(session.each("booster_rows", _length, parts))
        keep = [p for p, n in enumerate(lengths) if n]
        futures = session.futures(parts)
        arrays = []
        for item, shape in ((0, (data.n_features,)), (1, ()), (2, ())):
            blocks = [
                da.from_delayed(
                    delayed(_item)(futures[p], item), (lengths[p], *shape), dtype=np.float64
                )
                for p in keep
            ]
            arrays.append(da.concatenate(blocks))
        module, classifier, regressor = LEARNERS[library]
        learner = getattr(
            optional(module, f"forest={library!r}", library),
            classifier if self.classification else regressor,
        )
        given = {k: v for k, v in spec.get_params(deep=False).items() if v is not None}
        given.pop("n_jobs", None)
        X, y, w = session.client.persist(arrays)
        # What LightGBM's learner prints is no output of the command.
        with session.watched(), redirect_stdout(StringIO()), warnings.catch_warnings():
            # Of partitions that move, and of threads: neither is the caller's to mend.
            warnings.simplefilter("ignore")
            model = learner(**given)
            model.client = session.client  # both take it as an attribute
            y = y.astype(np.int64) if self.classification else y
            model.fit(X, y, **({"sample_weight": w} if data.is_weighted else {}))
            local = model.to_local() if library == "lightgbm" else model.get_booster()
        forest = import_forest(local)
        if encoding is not None:
            forest = encoding.translated(forest)
        if data.classes is not None and forest.bare is not None:
            forest = replace(forest, bare=replace(forest.bare, classes=data.classes))
        if forest.feature_names is None and data.names is not None:
            forest = replace(forest, feature_names=tuple(data.names.tolist()))
        return forest


def seeds_of(random_state: Any, n: int) -> list[int]:
    """Seeds of several forests, from one."""
    random = check_random_state(random_state)
    return [int(random.randint(LARGEST_SEED)) for _ in range(n)]


def pieces_of(rows: Rows) -> list[Result]:
    """The pieces of an array, as results of their own."""
    pieces = rows.pieces()
    if all(item is None for _, item in pieces):
        return [part for part, _ in pieces]
    session = rows.partitions.session
    return session.each("take", _item, [part for part, _ in pieces], pieces[0][1])


# On a worker.


class _Sent:
    """A value that is the same for all tasks, whatever it is."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _item(value: Any, item: Any) -> Any:
    return value[item]


def _length(part: Any) -> int:
    return len(part[1])


def _together(*columns: Any) -> tuple[Any, ...]:
    return columns


def _drawn(part: Any, site: int, n_sites: int, seed: int, p: int) -> tuple[Any, ...]:
    """The rows of a partition that go to one site: every row goes to one of them."""
    n_rows = len(part[1])
    order = np.random.default_rng([abs(seed), 0, p]).permutation(n_rows)
    # From another site on in every partition, so that all sites have as many rows.
    rows = np.sort(order[(site + p) % n_sites :: n_sites])
    return tuple(None if column is None else column[rows] for column in part)


def _concatenated(*parts: Any) -> tuple[Any, ...]:
    if len(parts) == 1:
        return tuple(parts[0])
    return tuple(
        None if columns[0] is None else join_rows(list(columns))
        for columns in zip(*parts, strict=True)
    )


def _without_fold(
    X: Any, target: AnyArray, weight: FloatArray, fold: AnyArray | None, q: int, encoding: _Sent
) -> tuple[AnyArray, AnyArray, FloatArray]:
    rows = slice(None) if fold is None else np.flatnonzero(fold != q)
    y = target[rows] if target.ndim == 1 else target[rows][:, 0]
    own = X[rows] if encoding.value is None else encoding.value.apply(X[rows])
    return own, y.astype(np.float64), weight[rows]


def grow_on_site(
    site: Any,
    spec: _Sent,
    n_trees: int,
    seed: int,
    q: int,
    classification: bool,
    n_rows: int,
    names: _Sent,
    n_classes: int,
    is_weighted: bool,
    n_estimators: int,
) -> Forest:
    """Grow trees on the rows of a site that are not of fold q."""
    X, labels, weight, fold = site
    if q >= 0 and fold is not None:
        rows = np.flatnonzero(fold != q)
        X, labels, weight = X[rows], labels[rows], weight[rows]
    own = spec.value
    if isinstance(own, str):
        own = named_forest(
            own,
            classification=classification,
            n_rows=n_rows,
            n_estimators=n_estimators,
            n_jobs=1,
            n_classes=n_classes,
        )
    own = unfitted(own)
    name = seed_name(own)
    if name is not None:
        own.set_params(**{name: seed})
    if n_trees:
        own.set_params(n_estimators=n_trees)
    return grow_forest(
        own,
        X,
        labels,
        weight if is_weighted else None,
        random_state=seed,
        feature_names=names.value,
        n_jobs=1,
    )
