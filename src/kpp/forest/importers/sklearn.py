"""scikit-learn's ensembles of ``tree_`` objects, through their public attributes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)
from sklearn.utils import get_tags

from kpp._typing import AnyArray, FloatArray
from kpp.forest.arrays import Forest
from kpp.forest.bare import BareScores, booster_scores, means_below
from kpp.forest.importers.registry import Importer, Traits
from kpp.forest.layout import Tree, lay_out
from kpp.forest.statistics import NodeStatistics

# ExtraTree* are subclasses of DecisionTree*; they are named for the reader.
SINGLE_TREES = (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

# The criteria whose impurity is the variance or the Gini impurity of the target itself.
GAIN_CRITERIA = ("squared_error", "friedman_mse", "gini")

# Numbers of the nodes of one tree, by their names in `NodeStatistics`, and its other fields.
Recorded = tuple[Callable[[Any], dict[str, AnyArray]], dict[str, Any]]


def read_single_tree(model: Any) -> Forest:
    """A decision tree is a forest of one tree."""
    return _assemble(model, [model], supervised=True)


def read_averaging_forest(model: Any) -> Forest:
    """Random forest or extra trees."""
    return _assemble(model, model.estimators_, supervised=True)


def read_averaging_forest_once(model: Any) -> Forest:
    """The same; the ensemble loses its trees."""
    return _assemble(model, model.estimators_, supervised=True, release=True)


def read_unsupervised_forest(model: RandomTreesEmbedding) -> Forest:
    """Totally random trees: their target was noise, so they carry no statistics."""
    return _assemble(model, model.estimators_)


def read_gradient_boosting(model: Any) -> Forest:
    """Trees by round, then by class. They were grown on gradients: no statistics of y."""
    return _assemble(model, model.estimators_.ravel(), bare=_booster_scores(model))


def read_isolation_forest(model: IsolationForest) -> Forest:
    """Trees on (possibly) some of the columns."""
    return _assemble(model, model.estimators_, columns=model.estimators_features_)


def read_bagging(model: Any) -> Forest:
    """A bagging of single trees, each on (possibly) some of the columns."""
    _check_members(model, "a bagging")
    return _assemble(model, model.estimators_, columns=model.estimators_features_, supervised=True)


def read_adaboost(model: Any) -> Forest:
    """Trees on rows that count by what the trees before them got wrong: no statistics of y."""
    _check_members(model, "an AdaBoost")
    return _assemble(model, model.estimators_, bare=_vote_scores(model))


AVERAGES = Traits(splits_into_groups=True, independent_trees=True)

IMPORTERS = (
    Importer(
        (RandomForestClassifier, RandomForestRegressor),
        read_averaging_forest,
        AVERAGES,
        "RandomForestClassifier/Regressor",
        read_averaging_forest_once,
    ),
    Importer(
        (ExtraTreesClassifier, ExtraTreesRegressor),
        read_averaging_forest,
        AVERAGES,
        "ExtraTreesClassifier/Regressor",
        read_averaging_forest_once,
    ),
    Importer(
        SINGLE_TREES,
        read_single_tree,
        Traits(),
        "DecisionTreeClassifier/Regressor, ExtraTreeClassifier/Regressor",
    ),
    Importer(
        (GradientBoostingClassifier, GradientBoostingRegressor),
        read_gradient_boosting,
        Traits(combines="sum", one_target=True),
        "GradientBoostingClassifier/Regressor",
    ),
    Importer(
        (RandomTreesEmbedding,),
        read_unsupervised_forest,
        replace(AVERAGES, supervised=False),
        "RandomTreesEmbedding",
    ),
    Importer(
        (IsolationForest,),
        read_isolation_forest,
        replace(AVERAGES, supervised=False),
        "IsolationForest",
    ),
    Importer(
        (BaggingClassifier, BaggingRegressor),
        read_bagging,
        AVERAGES,
        "BaggingClassifier/Regressor of single trees",
    ),
    Importer(
        (AdaBoostClassifier, AdaBoostRegressor),
        read_adaboost,
        Traits(combines="sum", one_target=True),
        "AdaBoostClassifier/Regressor of single trees",
    ),
)


def _check_members(model: Any, what: str) -> None:
    """Refuse an ensemble of anything but single trees."""
    from kpp.forest.importers import importer_of

    for member in model.estimators_:
        if isinstance(member, SINGLE_TREES):
            continue
        importer = importer_of(type(member))
        remedy = f"Give {type(model).__name__} DecisionTree* or ExtraTree*"
        if importer is not None:
            kind = "boosters" if importer.traits.combines == "sum" else "ensembles"
            remedy += (
                f"; or read its members, which are {kind} themselves, one by one: "
                "[Forest.from_model(member) for member in model.estimators_]"
            )
        raise TypeError(
            f"Cannot read a forest from {type(model).__name__} of {type(member).__name__}: only "
            f"{what} of single decision trees is a forest. {remedy}."
        )


def _assemble(
    model: Any,
    members: Iterable[Any],
    *,
    columns: list[AnyArray] | None = None,
    supervised: bool = False,
    bare: BareScores | None = None,
    release: bool = False,
) -> Forest:
    members = list(members)
    for member in members:
        _check_tree(member.tree_)
    # Trees of a booster, or of noise, recorded statistics of a gradient or of noise. As the
    # target's they would give weights that look right and mean nothing.
    recorded = recorded_statistics(model, members) if supervised else None
    known: dict[str, Any] = {} if recorded is None else recorded[1]
    if supervised:
        bare = averaged_scores(model, members, recorded)
    owned = model.estimators_ if release else None

    def trees() -> Iterator[Tree]:
        # One at a time: numbers of nodes are copied in their final order, and from nowhere else.
        for k in range(len(members)):
            own = None if columns is None else columns[k]
            numbers = {} if recorded is None else recorded[0](members[k])
            yield _read_tree(members[k].tree_, own, numbers)
            members[k] = None
            if owned is not None:
                owned[k] = None

    # The values of bare scores stand in the order of the trees as they were given.
    wants_order = bare is not None and bare.values is not None
    sizes = [int(member.tree_.node_count) for member in members]
    flat, order, laid_out = lay_out(trees(), sizes, wants_order=wants_order)
    names = getattr(model, "feature_names_in_", None)
    return Forest(
        n_features=model.n_features_in_,
        # scikit-learn casts X to float32 and compares it with thresholds in float64.
        dtype=np.float32,
        statistics=None if recorded is None else NodeStatistics(**(known | laid_out)),
        bare=bare.take_nodes(order) if bare is not None and wants_order else bare,
        feature_names=None if names is None else tuple(str(name) for name in names),
        allows_nan=get_tags(model).input_tags.allow_nan,
        source=type(model).__name__,
        **flat,
    )


def _check_tree(tree: Any) -> None:
    if type(tree).__module__.partition(".")[0] != "sklearn":
        # A subclass with trees of its own may split in ways that these arrays do not tell.
        raise TypeError(
            f"Cannot read trees of type {type(tree).__module__}.{type(tree).__name__}: only "
            "scikit-learn's own axis-aligned trees are known."
        )


def _read_tree(tree: Any, columns: AnyArray | None, numbers: dict[str, AnyArray]) -> Tree:
    feature = tree.feature
    if columns is not None:
        # At leaves the feature is negative and not read; any column will do there.
        feature = np.asarray(columns)[np.maximum(feature, 0)]
    return Tree(
        left=tree.children_left,
        right=tree.children_right,
        feature=feature,
        threshold=tree.threshold,
        missing_left=tree.missing_go_to_left,
        per_node=numbers,
    )


def recorded_statistics(model: Any, members: list[Any]) -> Recorded | None:
    """In-bag statistics of supervised trees: of each tree, and what they have in common.

    None where the trees do not record them.
    """
    if is_classifier(members[0]) != is_classifier(model):
        return None  # a bagging whose trees have another task: not statistics of its target
    if any(getattr(member, "monotonic_cst", None) is not None for member in members):
        return None  # node values are clipped to the constraints
    criterion = members[0].criterion
    if not is_classifier(members[0]):
        if criterion not in GAIN_CRITERIA:
            return None  # e.g. absolute_error: the node value is a median
        # For these criteria a node's value is the mean of its rows, its impurity their variance,
        # which scikit-learn also averages over the outputs.
        return (
            lambda member: {
                "count": member.tree_.weighted_n_node_samples,
                "mean": member.tree_.value[:, :, 0],
                "variance": member.tree_.impurity,
            },
            {"grown_on_impurity": True},
        )
    # One class share per node and class is all that `NodeStatistics` holds: one label a row.
    if members[0].n_outputs_ > 1:
        return None
    n_classes = len(model.classes_)
    return (
        lambda member: {
            "count": member.tree_.weighted_n_node_samples,
            "class_share": _class_share(member, n_classes),
        },
        {
            "classes": np.asarray(model.classes_),
            "grown_on_impurity": criterion in GAIN_CRITERIA,
        },
    )


def averaged_scores(model: Any, members: list[Any], recorded: Recorded | None) -> BareScores | None:
    """What a mean of trees predicts: in most forests their statistics, which are not copied."""
    classes = getattr(model, "classes_", None)
    if recorded is not None:
        n_scores = len(model.classes_) if is_classifier(model) else members[0].n_outputs_
        return BareScores(np.zeros(n_scores), "mean", classes=classes)
    if is_classifier(members[0]) != is_classifier(model):
        return None  # a bagging that votes
    if is_classifier(model):
        if members[0].n_outputs_ > 1:
            return None
        n_classes = len(model.classes_)
        values = [_class_share(member, n_classes) for member in members]
    else:
        values = [member.tree_.value[:, :, 0] for member in members]
    together = np.concatenate(values).T
    return BareScores(np.zeros(len(together)), "mean", together, classes=classes)


def _booster_scores(model: Any) -> BareScores | None:
    """Raw scores: an initial value, and the learning rate times the leaves."""
    if not (model.init is None or isinstance(model.init, str)):
        return None  # an initial estimator of the user's: not a constant
    members = model.estimators_.ravel()
    values = [
        means_below(
            member.tree_.children_left,
            member.tree_.children_right,
            model.learning_rate * member.tree_.value[:, 0, 0],
            member.tree_.n_node_samples,
        )
        for member in members
    ]
    # The initial value has no public form. It is the same for every row: what one row scores
    # after the first round, less the leaves of that round.
    row = np.zeros((1, model.n_features_in_), dtype=np.float32)
    first = model.estimators_[0]
    stages = model.staged_decision_function if is_classifier(model) else model.staged_predict
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        after_one = np.ravel(next(iter(stages(row))))
    leaves = np.array([tree.tree_.predict(row).item() for tree in first])
    base = after_one - model.learning_rate * leaves
    # Exactly 0 then; the subtraction above would leave rounding.
    if model.init == "zero":
        base = np.zeros_like(base)
    classes = getattr(model, "classes_", None)
    return booster_scores(base, np.concatenate(values), len(members), classes)


def _vote_scores(model: Any) -> BareScores | None:
    r"""Votes of an AdaBoostClassifier: a leaf that says c adds its tree's weight to the score of c.

    .. math:: F_k(x) = \sum_t \frac{w_t}{\sum_s w_s}
        \begin{cases} 1 & c_t(x) = k \\ -1/(C - 1) & \text{otherwise} \end{cases}

    For two classes the one score is :math:`F_1 - F_0`. A regressor predicts a weighted median,
    which is no sum of leaves.
    """
    if not is_classifier(model) or model.n_classes_ < 2:
        return None
    n_classes = int(model.n_classes_)
    # A leaf that says class k, one row each: what it adds to every score.
    votes = np.where(np.eye(n_classes, dtype=bool), 1.0, -1.0 / (n_classes - 1))
    if n_classes == 2:
        votes = votes[:, 1:] - votes[:, :1]
    share = model.estimator_weights_ / model.estimator_weights_.sum()
    values = []
    for member, weight in zip(model.estimators_, share, strict=False):
        tree = member.tree_
        said = np.searchsorted(model.classes_, member.classes_[tree.value[:, 0].argmax(axis=1)])
        values.append(
            means_below(
                tree.children_left, tree.children_right, weight * votes[said], tree.n_node_samples
            )
        )
    together = np.concatenate(values).T
    return BareScores(np.zeros(len(together)), "sum", together, classes=model.classes_)


def _class_share(member: Any, n_classes: int) -> FloatArray:
    """Class shares of one tree, in the columns of the whole ensemble.

    A bagged tree may not have seen every class; ensembles hand their trees class numbers, so
    its own ``classes_`` are those columns.
    """
    value: FloatArray = member.tree_.value[:, 0, :]
    if value.shape[1] == n_classes:
        return value
    share = np.zeros((len(value), n_classes))
    share[:, np.asarray(member.classes_, dtype=np.int64)] = value
    return share
