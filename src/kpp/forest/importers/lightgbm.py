"""LightGBM's boosters, through the text in which a booster is saved.

Of its two public dumps this is the one with an array for each property of the nodes, where the
other nests them as deep as the tree is. Numbers have 17 digits there: every double is itself again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import lightgbm
import numpy as np
from lightgbm import Booster, LGBMModel, LGBMRanker, LGBMRegressor
from sklearn.exceptions import NotFittedError

from kpp._typing import AnyArray, BoolArray, FloatArray
from kpp.forest.arrays import Forest
from kpp.forest.bare import BareScores, booster_scores, means_below
from kpp.forest.importers.registry import Importer, Traits
from kpp.forest.layout import Tree

# The text below is that of LightGBM 4; a newer version writes older files anew in its own way.
KNOWN_FORMAT = "v4"
# Bits of a split's decision type; above them stands what counts as missing.
IS_CATEGORICAL, DEFAULT_LEFT, MISSING_SHIFT = 1, 2, 2
NOTHING_MISSES, ZERO_MISSES = 0, 1
# Of arrays and of pandas, rows are read with 0 for numbers up to this size: a constant of single
# precision, compared in double.
LARGEST_ZERO = float(np.float32(1e-35))
RANKINGS = ("lambdarank", "rank_xendcg")


def read_estimator(model: LGBMModel) -> Forest:
    """A fitted estimator: its booster, up to the best round where there is one."""
    if isinstance(model, LGBMRanker):
        raise _refused(model, "it ranks rows within groups", "Fit a regressor to the labels")
    if str(model.get_params().get("pred_early_stop", False)).lower() not in ("false", "0", "-"):
        raise _refused(
            model,
            "with pred_early_stop it leaves out trees wherever a row seems decided",
            "Use model.set_params(pred_early_stop=False)",
        )
    return _read(model, model.booster_, getattr(model, "classes_", None))


def read_booster(booster: Booster) -> Forest:
    """A booster, which does not know its labels: the classes are 0, 1, ...

    Its trees go up to the best round, as in its own ``predict``.
    """
    return _read(booster, booster, None)


def _check_booster(booster: Booster) -> None:
    if booster.num_trees() == 0:
        raise NotFittedError("This Booster has no trees yet: train it first.")


# It takes frames with categories, but no texts: these are encoded before a fit.
TRAITS = Traits(combines="sum", one_target=True)
IMPORTERS = (
    Importer((LGBMModel,), read_estimator, TRAITS, "LGBMRegressor, LGBMClassifier"),
    Importer((Booster,), read_booster, TRAITS, "Booster of LightGBM", check_fitted=_check_booster),
)


@dataclass(frozen=True)
class SavedTree:
    """The arrays of one tree: splits by their number, leaves by theirs."""

    left: AnyArray  # a split's number, or ~leaf
    right: AnyArray
    feature: AnyArray
    threshold: FloatArray  # of categorical splits: the number of the set
    decision: AnyArray
    sets: list[AnyArray]
    leaf_value: FloatArray
    leaf_count: AnyArray

    @classmethod
    def read(cls, fields: dict[str, str]) -> SavedTree:
        """Read the lines of one tree; a tree without splits has empty ones."""
        words = np.array(_numbers(fields, "cat_threshold", int), dtype="<u4")
        ends = _numbers(fields, "cat_boundaries", int)
        sets = [words[a:b].view(np.uint8) for a, b in pairwise(ends)]
        leaf_value = np.array(_numbers(fields, "leaf_value", float))
        # Files of old have no counts, and neither have trees without splits.
        count = _numbers(fields, "leaf_count", int) or [0] * len(leaf_value)
        return cls(
            left=np.array(_numbers(fields, "left_child", int), dtype=np.int64),
            right=np.array(_numbers(fields, "right_child", int), dtype=np.int64),
            feature=np.array(_numbers(fields, "split_feature", int), dtype=np.int64),
            threshold=np.array(_numbers(fields, "threshold", float)),
            decision=np.array(_numbers(fields, "decision_type", int), dtype=np.int64),
            sets=[np.flatnonzero(np.unpackbits(bits, bitorder="little")) for bits in sets],
            leaf_value=leaf_value,
            leaf_count=np.array(count),
        )

    @property
    def is_categorical(self) -> BoolArray:
        """Which splits are sets of categories."""
        return (self.decision & IS_CATEGORICAL) > 0

    @property
    def missing_type(self) -> AnyArray:
        """What counts as missing in each split: nothing (NaN becomes 0), zero, or NaN."""
        return (self.decision >> MISSING_SHIFT) & 3

    @property
    def missing_left(self) -> BoolArray:
        """Where a missing value goes; a missing category always goes right."""
        as_zero = (self.missing_type == NOTHING_MISSES) & ~self.is_categorical
        left = np.where(as_zero, self.threshold >= 0, (self.decision & DEFAULT_LEFT) > 0)
        return left & ~self.is_categorical

    @property
    def cut(self) -> FloatArray:
        """Largest number that goes left: all that count as 0 go where 0 goes."""
        beside = np.where(self.threshold >= 0, LARGEST_ZERO, np.nextafter(-LARGEST_ZERO, -np.inf))
        return np.where(np.abs(self.threshold) <= LARGEST_ZERO, beside, self.threshold)

    def set_of(self, split: int) -> AnyArray:
        """The numbers of the categories that go left at a categorical split."""
        return self.sets[int(self.threshold[split])]

    def codes_left(self, split: int, n_codes: int) -> AnyArray:
        """The codes 0, 1, ... that go left at a split of any kind."""
        if self.is_categorical[split]:
            return self.set_of(split)
        left = np.arange(n_codes) <= self.threshold[split]
        if self.missing_type[split] == ZERO_MISSES:
            left[:1] = self.missing_left[split]
        return np.flatnonzero(left)


def _read(model: Any, booster: Booster, classes: AnyArray | None) -> Forest:
    head, blocks, declared = _sections(booster)
    _check_format(model, head)
    fields = [_lines(block) for block in blocks]
    if any(tree.get("is_linear", "0") != "0" for tree in fields):
        raise _refused(
            model,
            "its leaves are linear models (linear_tree), where a leaf of a forest holds a number",
            "Fit it without linear_tree",
        )
    saved = [SavedTree.read(tree) for tree in fields]
    n_scores = int(head["num_tree_per_iteration"])
    infos = head["feature_infos"].split(" ")
    declared |= {j for j, info in enumerate(infos) if info != "none" and info[0] != "["}
    named = _named_columns(model, booster.pandas_categorical or [], infos, declared)
    whole = _whole_columns(saved, infos, named)
    missing_values = _missing_values(model, saved, named, whole)
    trees = [_tree(tree, named, whole) for tree in saved]
    if classes is None and not isinstance(model, LGBMRegressor):
        classes = _numbered_classes(head, n_scores)
    return Forest.from_trees(
        trees,
        n_features=len(infos),
        dtype=np.float64,
        feature_names=_names(booster),
        categories={**named, **whole},
        missing_values=missing_values,
        whole_categories=frozenset(whole),
        allows_nan=True,
        allows_infinity=True,
        source=type(model).__name__,
        bare=_bare_scores(saved, trees, n_scores, classes, averages="average_output" in head),
    )


def _sections(booster: Booster) -> tuple[dict[str, str], list[str], set[int]]:
    """The head, the trees and the categorical columns of a saved booster.

    Without a number of rounds the text has those that ``predict`` uses.
    """
    trees, _, rest = booster.model_to_string().partition("\nend of trees")
    head, *blocks = trees.split("\nTree=")
    listed = rest.partition("[categorical_feature: ")[2].partition("]")[0].split(",")
    return _lines(head), blocks, {int(column) for column in listed if column.isdigit()}


def _lines(text: str) -> dict[str, str]:
    parts = (line.partition("=") for line in text.split("\n"))
    return {name: value for name, _, value in parts}


def _numbers(fields: dict[str, str], name: str, kind: type) -> list[Any]:
    return [kind(number) for number in fields.get(name, "").split()]


def _check_format(model: Any, head: dict[str, str]) -> None:
    if head.get("version") != KNOWN_FORMAT:
        raise TypeError(
            f"Cannot read {type(model).__name__} of LightGBM {lightgbm.__version__}: it saves "
            f"models in the format {head.get('version')}, and {KNOWN_FORMAT} is known, that of "
            "LightGBM 4. Use another version of LightGBM."
        )
    objective = head.get("objective", "").split(" ")[0]
    if objective in RANKINGS:
        raise _refused(
            model,
            f"its objective {objective} ranks rows within groups",
            "Fit a regressor to the labels",
        )


def _refused(model: Any, why: str, remedy: str) -> TypeError:
    return TypeError(
        f"Cannot read a forest from {type(model).__name__} of LightGBM: {why}. {remedy}."
    )


def _names(booster: Booster) -> tuple[str, ...] | None:
    """Names of the columns; None for those that LightGBM gives to columns without names."""
    names = tuple(booster.feature_name())
    return None if names == tuple(f"Column_{j}" for j in range(len(names))) else names


def _numbered_classes(head: dict[str, str], n_scores: int) -> AnyArray | None:
    objective = head.get("objective", "").split(" ")[0]
    is_classifier = objective in ("binary", "multiclass", "multiclassova")
    return np.arange(max(2, n_scores)) if is_classifier else None


def _named_columns(
    model: Any, lists: Sequence[list[Any]], infos: list[str], declared: set[int]
) -> dict[int, AnyArray]:
    """Columns that were categories of a data frame -> these categories in the order of their codes.

    LightGBM keeps their lists in the order of the columns, and not which columns: those declared
    categorical, unless some lists are of ordered categories, whose codes it treats as numbers, or
    some columns of numbers were declared. Then it must follow from the values of training.
    """
    n, n_declared = len(lists), len(declared)
    # For the first lists, how many: the number of ways to give them columns, and one of them.
    ways: list[tuple[int, tuple[int, ...]]] = [(int(i == 0), ()) for i in range(n + 1)]
    for j, info in enumerate(infos):
        may_skip = j not in declared or n < n_declared
        may_take = j in declared or n > n_declared
        for i in range(n, -1, -1):
            skipped = ways[i] if may_skip else (0, ())
            fits = i > 0 and may_take and _fits(info, len(lists[i - 1]))
            taken = ways[i - 1] if fits else (0, ())
            columns = skipped[1] if skipped[0] else (*taken[1], j)
            ways[i] = (min(2, skipped[0] + taken[0]), columns)
    n_ways, columns = ways[n]
    if n_ways != 1:
        raise _refused(
            model,
            f"it was fitted on a data frame with {n} columns of categories and {n_declared} "
            "categorical features, and does not tell which columns they were",
            "Make ordered categories unordered, or numbers of them, and let categorical_feature "
            "be 'auto' for the others",
        )
    named = {}
    for column, listed in zip(columns, lists, strict=True):
        named[column] = np.empty(len(listed), dtype=object)
        named[column][:] = listed
    return named


def _fits(info: str, n_codes: int) -> bool:
    """Whether the values of a column in training may be codes of so many categories."""
    if info == "none":  # a single value, or too few rows with another
        return True
    seen = [float(value) for value in info.strip("[]").split(":")]
    least = 0 if info[0] == "[" else -1  # -1 stands for missing categories
    return all(least <= value < n_codes and value == int(value) for value in seen)


def _whole_columns(
    saved: list[SavedTree], infos: list[str], named: dict[int, AnyArray]
) -> dict[int, AnyArray]:
    """Columns of numbers that were declared categorical -> the categories, which are whole."""
    known: dict[int, set[int]] = {}
    for j, info in enumerate(infos):
        if j not in named and info != "none" and info[0] != "[":
            known[j] = {int(value) for value in info.split(":") if int(value) >= 0}
    # Trees of an earlier training, which this one went on with, may know others.
    for tree in saved:
        for split in np.flatnonzero(tree.is_categorical).tolist():
            column = int(tree.feature[split])
            if column not in named:
                known.setdefault(column, set()).update(tree.set_of(split).tolist())
    return {j: np.array(sorted(values), dtype=np.int64) for j, values in known.items()}


def _missing_values(
    model: Any, saved: list[SavedTree], named: dict[int, AnyArray], whole: dict[int, AnyArray]
) -> dict[int, tuple[float, float]]:
    """Columns in which zero counts as missing; sets of categories do not look at it."""
    feature, threshold, missing_type, missing_left = (
        np.concatenate([getattr(tree, name)[~tree.is_categorical] for tree in saved])
        for name in ("feature", "threshold", "missing_type", "missing_left")
    )
    numbers = ~np.isin(feature, list(named))
    if (mixed := np.isin(feature, list(whole))).any():
        raise _refused(
            model,
            f"it reads column {feature[mixed][0]} as numbers in some trees and as categories in "
            "others",
            "Continue a training with the categorical features that it began with",
        )
    by_zero = missing_type == ZERO_MISSES
    columns = np.unique(feature[numbers & by_zero])
    # In such a column all trees are given NaN for zero: those that know zero as a number must send
    # both to the same side.
    alike = by_zero | ((threshold >= 0) == missing_left)
    unlike = numbers & np.isin(feature, columns) & ~alike
    if unlike.any():
        raise _refused(
            model,
            f"zero counts as missing in some of the trees that split column "
            f"{feature[unlike][0]}, and as a number in others",
            "Continue a training with the zero_as_missing that it began with",
        )
    return {int(column): (-LARGEST_ZERO, LARGEST_ZERO) for column in columns}


def _tree(saved: SavedTree, named: dict[int, AnyArray], whole: dict[int, AnyArray]) -> Tree:
    """Splits first, then leaves."""
    n_splits, n_leaves = len(saved.left), len(saved.leaf_value)
    at_leaves = np.full(n_leaves, -1)
    left_categories: dict[int, Any] = {}
    for split, column in enumerate(saved.feature.tolist()):
        if column in named:
            left_categories[split] = saved.codes_left(split, len(named[column]))
        elif column in whole:
            left_categories[split] = np.searchsorted(whole[column], saved.set_of(split))
    return Tree(
        left=np.append(_places(saved.left, n_splits), at_leaves),
        right=np.append(_places(saved.right, n_splits), at_leaves),
        feature=np.append(saved.feature, at_leaves),
        threshold=np.append(saved.cut, at_leaves),
        missing_left=np.append(saved.missing_left, at_leaves > 0),
        left_categories=left_categories,
        # Numbers of leaves as LightGBM gives them, and behind them those of the splits.
        source_leaf=np.append(n_leaves + np.arange(n_splits), np.arange(n_leaves)),
    )


def _places(children: AnyArray, n_splits: int) -> AnyArray:
    return np.where(children < 0, n_splits + ~children, children)


def _bare_scores(
    saved: list[SavedTree],
    trees: list[Tree],
    n_scores: int,
    classes: AnyArray | None,
    *,
    averages: bool,
) -> BareScores:
    """Raw scores: leaves hold the learning rate, those of the first round the initial value, too.

    With ``boosting="rf"`` a prediction takes the mean over the rounds, of log-odds for classes.
    """
    values = []
    for own, tree in zip(saved, trees, strict=True):
        at_splits = np.zeros(len(own.left))
        # A leaf without rows weighs nothing, but where all are, they weigh alike.
        count = np.maximum(own.leaf_count, np.finfo(np.float64).tiny)
        value = np.append(at_splits, own.leaf_value)
        values.append(means_below(tree.left, tree.right, value, np.append(at_splits, count)))
    together = np.concatenate(values)
    base = np.zeros(n_scores)
    if classes is not None and n_scores == len(classes) == 2:
        classes = None  # two scores for two classes, where others have one: no score of a class
    if averages and classes is None and n_scores == 1:
        return BareScores(base, "mean", together[None])
    if averages:
        # As a sum: means of trees are class shares, and these are not.
        together /= len(trees) // n_scores
    return booster_scores(base, together, len(trees), classes)
