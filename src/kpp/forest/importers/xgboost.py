"""XGBoost: its trees, of gbtree and of dart, from the JSON that its models are saved as.

Each model is read as it predicts by itself:

- The estimators predict, after early stopping, with the rounds up to the best one; a Booster with
  all of them. The estimators have a value for what is missing, ``missing``; a Booster is told with
  its rows.
- Rows and thresholds are float32, and ``x < threshold`` goes left. So infinities have their sides:
  ``predict`` of an estimator takes them, and only a DMatrix does not.
- A split of categories has a set that goes right; any other category goes left, be it one that
  training had not, or no category at all; a missing one goes in the split's default direction.
- Versions from 3.1 on keep the categories of data frames, and refuse others in the rows of a
  prediction. Here another one goes left, as its code would in an array. Such a column holds names:
  of an array, too.
- Older versions, and models of arrays, have codes. A column of pandas' categories then counts by
  its own codes, whatever its names are: as there, it must list the same categories as in training.
- Raw scores are those of ``output_margin=True``, without a ``base_margin`` of the rows.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import xgboost
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError
from xgboost import Booster, XGBClassifier, XGBRanker, XGBRegressor

from kpp._typing import AnyArray, FloatArray, OffsetArray
from kpp.forest.arrays import Forest
from kpp.forest.bare import BareScores, means_below
from kpp.forest.importers.registry import Importer, Traits
from kpp.forest.layout import Tree
from kpp.forest.others import AnyOther, other_of, with_other

# What is read below is that of these versions: at least the first, below the second.
KNOWN_VERSIONS = ((2, 1), (4, 0))
# What the library calls the type of a column of categories.
CATEGORICAL = "c"
# Nodes without any weight count as if they had this much: of two such, each for a half.
LEAST_WEIGHT = np.finfo(np.float32).tiny


def read_estimator(model: Any) -> Forest:
    """The trees up to the best round, and its own value for what is missing."""
    best = getattr(model, "best_iteration", None)
    return _read(
        _Saved.of(model.get_booster(), type(model).__name__),
        n_rounds=None if best is None else best + 1,
        missing=np.nan if model.missing is None else float(model.missing),
        classes=model.classes_ if isinstance(model, XGBClassifier) else None,
    )


def read_booster(booster: Booster) -> Forest:
    """All trees. What counts as missing a Booster is told with its rows: here NaN alone."""
    return _read(_Saved.of(booster, type(booster).__name__))


def _check_booster(booster: Booster) -> None:
    try:
        n_rounds = booster.num_boosted_rounds()
    except xgboost.core.XGBoostError:  # not even columns
        n_rounds = 0
    if n_rounds == 0:
        raise NotFittedError("This Booster has no trees: train it first.")


TRAITS = Traits(combines="sum")
IMPORTERS = (
    Importer(
        # The last is refused by its objective.
        (XGBRegressor, XGBClassifier, XGBRanker),
        read_estimator,
        TRAITS,
        "XGBRegressor/Classifier",
        check_fitted=lambda model: model.get_booster(),
    ),
    Importer((Booster,), read_booster, TRAITS, "Booster", check_fitted=_check_booster),
)


@dataclass(frozen=True)
class _Saved:
    """A model as the library saves it: https://xgboost.readthedocs.io, "Introduction to Model IO".

    Parameters
    ----------
    document : dict
        All of it.
    learner : dict
        Objective, columns, base scores and the booster.
    model : dict
        The trees, by round.
    weight : float32 array of shape (n_trees,)
        What each tree counts; 1 unless some were dropped while others were grown (dart).
    source : str
        Class of the model.
    """

    document: dict[str, Any]
    learner: dict[str, Any]
    model: dict[str, Any]
    weight: AnyArray
    source: str

    @classmethod
    def of(cls, booster: Booster, source: str) -> _Saved:
        """Save a model to memory, and refuse what has no trees of its own kind."""
        _check_version(source)
        document = json.loads(booster.save_raw("json"))
        learner = document["learner"]
        kind, objective = learner["gradient_booster"]["name"], learner["objective"]["name"]
        if kind not in ("gbtree", "dart"):
            raise TypeError(
                f"Cannot read a forest from {source} with booster={kind!r}: it has no trees. Use "
                "'gbtree' or 'dart'."
            )
        if objective.startswith("rank:"):
            raise TypeError(
                f"Cannot read a forest from {source} with objective {objective!r}: its scores "
                "order the rows of a query, and predict nothing by themselves. Use an objective "
                "of regression or classification."
            )
        inner = learner["gradient_booster"]
        # The trees of dart are one level further down.
        model = inner.get("gbtree", inner)["model"]
        # Its weights stand above them, and since 3.4 beside them.
        weight = (inner | model).get("weight_drop", [1.0] * len(model["trees"]))
        if any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in model["trees"]):
            raise TypeError(
                f"Cannot read a forest from {source} with multi_strategy='multi_output_tree': its "
                "leaves hold vectors. Use 'one_output_per_tree'."
            )
        return cls(document, learner, model, np.array(weight, dtype=np.float32), source)

    def size(self, name: str) -> int:
        """One of the numbers of columns, classes and targets."""
        return int(self.learner["learner_model_param"][name])

    def base_margin(self) -> FloatArray:
        """What the raw scores begin with, shape (n_scores,). It uses up the document.

        The document holds it before the objective's link. The library has no other way to tell
        than a prediction: here by the first round, without its thresholds and leaves.
        """
        n_trees = self.model["iteration_indptr"][1]
        for name in ("trees", "tree_info"):
            self.model[name] = self.model[name][:n_trees]
        self.model["iteration_indptr"] = [0, n_trees]
        self.model["gbtree_model_param"]["num_trees"] = str(n_trees)
        for place in (self.learner["gradient_booster"], self.model):
            if "weight_drop" in place:
                place["weight_drop"] = place["weight_drop"][:n_trees]
        for tree in self.model["trees"]:
            tree["split_conditions"] = [0.0] * len(tree["split_conditions"])
        quiet = {"nthread": 1, "verbosity": 0}
        empty = Booster(quiet, model_file=bytearray(json.dumps(self.document).encode()))
        row = np.zeros((1, self.size("num_feature")), dtype=np.float32)
        margin = empty.inplace_predict(row, predict_type="margin", validate_features=False)
        return np.ravel(margin).astype(np.float64)


def _read(
    saved: _Saved,
    *,
    n_rounds: int | None = None,
    missing: float = np.nan,
    classes: AnyArray | None = None,
) -> Forest:
    """Trees by round, then by score. They were grown on gradients: no statistics of y."""
    rounds, n_features = saved.model["iteration_indptr"], saved.size("num_feature")
    n_trees = rounds[-1] if n_rounds is None else rounds[n_rounds]
    trees = saved.model["trees"][:n_trees]
    if not trees:
        raise TypeError(f"Cannot read a forest from {saved.source}: it has no trees.")
    categories, codes = _categories(saved, trees)
    read = [
        _read_tree(tree, weight, codes)
        for tree, weight in zip(trees, saved.weight[:n_trees], strict=True)
    ]
    names = saved.learner["feature_names"]
    missing_values = _missing_values(missing, n_features, categories, saved.source)
    tree_score = np.array(saved.model["tree_info"][:n_trees])
    # No number is below -inf, and x <= t says of no t what x < -inf says.
    allows_infinity = not any(-np.inf in tree["split_conditions"] for tree in trees)
    base = saved.base_margin()
    # One label a row: several targets of two classes each have labels that are none of these.
    labelled = saved.size("num_target") == 1 and classes is not None
    return Forest.from_trees(
        [tree for tree, _ in read],
        n_features=n_features,
        dtype=np.float32,
        feature_names=tuple(names) if names else None,
        categories=categories,
        missing_values=missing_values,
        allows_nan=True,
        allows_infinity=allows_infinity,
        source=saved.source,
        bare=BareScores(
            base=base,
            combines="sum",
            values=np.concatenate([values for _, values in read])[None],
            tree_score=None if len(base) == 1 else tree_score,
            classes=classes if labelled else None,
        ),
    )


def _read_tree(
    tree: dict[str, Any], weight: Any, codes: dict[int, OffsetArray]
) -> tuple[Tree, FloatArray]:
    """One tree, and what each of its nodes adds to the score."""
    left, right = (np.array(tree[f"{side}_children"], dtype=np.int64) for side in ("left", "right"))
    nodes = _reached(left, right)
    place = np.full(len(left), -1)
    place[nodes] = np.arange(len(nodes))
    is_leaf = left[nodes] < 0
    left, right = (np.where(is_leaf, -1, place[side[nodes]]) for side in (left, right))
    feature = np.array(tree["split_indices"])[nodes]
    # At leaves their values.
    condition = np.array(tree["split_conditions"], dtype=np.float32)[nodes]
    left_categories: dict[int, ArrayLike] = {}
    for node, inside in _sets(tree):
        at = int(place[node])
        # A category of the set goes right; all others, also those that nobody lists, left.
        goes_left = np.append(~np.isin(codes[int(feature[at])], inside), True)
        left_categories[at] = np.flatnonzero(goes_left)
    hessian = np.array(tree["sum_hessian"], dtype=np.float64)[nodes]
    values = means_below(
        left,
        right,
        # As the library multiplies, in its precision.
        np.where(is_leaf, condition * weight, np.float32(0)).astype(np.float64),
        np.fmax(hessian, LEAST_WEIGHT),
    )
    return (
        Tree(
            left=left,
            right=right,
            feature=feature,
            # Left is x < t, in float32: the same as x <= the number before t.
            threshold=np.nextafter(condition, np.float32(-np.inf)).astype(np.float64),
            missing_left=np.array(tree["default_left"], dtype=bool)[nodes],
            left_categories=left_categories,
            source_leaf=nodes,
        ),
        values,
    )


def _reached(left: OffsetArray, right: OffsetArray) -> OffsetArray:
    """The nodes of a tree, the root first: what was pruned is still in the arrays."""
    levels = [np.zeros(1, dtype=np.int64)]
    while len(levels[-1]):
        splits = levels[-1][left[levels[-1]] >= 0]
        levels.append(np.concatenate([left[splits], right[splits]]))
    return np.concatenate(levels)


def _sets(tree: dict[str, Any]) -> Iterator[tuple[int, list[int]]]:
    """Each categorical split, and the codes of the set that goes right."""
    parts = (tree[f"categories_{name}"] for name in ("nodes", "segments", "sizes"))
    for node, first, size in zip(*parts, strict=True):
        # What was pruned to a leaf, or away, still has its set.
        if tree["left_children"][node] >= 0:
            yield node, tree["categories"][first : first + size]


def _categories(
    saved: _Saved, trees: list[dict[str, Any]]
) -> tuple[dict[int, AnyArray], dict[int, OffsetArray]]:
    """The categories of each column of categories, and the library's codes of those listed."""
    used: dict[int, set[int]] = defaultdict(set)
    for tree in trees:
        for node, inside in _sets(tree):
            used[tree["split_indices"][node]].update(inside)
    kinds = saved.learner["feature_types"]
    columns = {j for j, kind in enumerate(kinds) if kind == CATEGORICAL} | used.keys()
    names = _names(saved)
    categories, codes = {}, {}
    for j in sorted(columns):
        if j in names:
            categories[j] = with_other(names[j], AnyOther.NAME)
            codes[j] = np.arange(len(names[j]))
        else:
            # Codes that stand in no set all go the same way.
            codes[j] = np.array(sorted(used[j]), dtype=np.int64)
            categories[j] = with_other(codes[j].tolist(), AnyOther.CODE)
    return categories, codes


def _names(saved: _Saved) -> dict[int, list[Any]]:
    """The categories of data frames, which versions from 3.1 on keep: texts or whole numbers."""
    names: dict[int, list[Any]] = {}
    for j, column in enumerate(saved.model.get("cats", {}).get("enc", [])):
        if "offsets" not in column:
            names[j] = column["values"]
        elif len(column["offsets"]) > 1:
            text, ends = np.array(column["values"], dtype=np.int8).tobytes(), column["offsets"]
            if not text.isascii():
                raise TypeError(
                    f"Cannot read a forest from {saved.source}: column {j} has categories that are "
                    "not ASCII. Of pandas' the library counts letters and cuts bytes, so that the "
                    "names it keeps are others. Rename the categories, or fit it on their codes "
                    "(an array, and feature_types)."
                )
            names[j] = [text[a:b].decode() for a, b in pairwise(ends)]
    return names


def _missing_values(
    missing: float, n_features: int, categories: dict[int, AnyArray], source: str
) -> dict[int, tuple[float, float]]:
    """The value that counts as missing, in float32, of numbers and of codes."""
    if np.isnan(missing):
        return {}
    named = [j for j, known in categories.items() if other_of(known) is AnyOther.NAME]
    if named and missing >= 0 and missing == np.floor(missing):
        # It would be another category in every data frame.
        raise TypeError(
            f"Cannot read a forest from {source} with missing={missing:g} and categories of a data "
            "frame: the library drops the category whose code in the frame at hand is that number. "
            "Fit it with missing=nan."
        )
    value = float(np.float32(missing))
    return {j: (value, value) for j in range(n_features) if j not in named}


def _check_version(source: str) -> None:
    first, below = KNOWN_VERSIONS
    version = tuple(int(part) for part in xgboost.__version__.split(".")[:2])
    if not first <= version < below:
        raise TypeError(
            f"Cannot read {source} of XGBoost {xgboost.__version__}: its models are known for "
            f"versions from {first[0]}.{first[1]} to below {below[0]}.{below[1]}. Save the model, "
            "and load it with one of these."
        )
