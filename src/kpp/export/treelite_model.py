"""`to_treelite`: a fitted model as trees that treelite reads, and tl2cgen compiles."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp._typing import FloatArray
from kpp.export.collapse import rank_of_quantiles
from kpp.forest import Forest
from kpp.forest.join import as_float64
from kpp.forest.layout import CATEGORICAL, OBLIQUE
from kpp.forest.route import prepare_rows
from kpp.forest.sets import sets_of
from kpp.models.asking import ask
from kpp.scores import AdditiveForest


def to_treelite(model: Any) -> Any:
    """Write a fitted model as a treelite model: trees in float64, leaves with all scores.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline
        Fitted. Of a Pipeline that ends in one of them, the last step is written.

    Returns
    -------
    treelite_model : treelite.Model
        It takes what `encoded_rows` gives: float64 rows, categories as codes.
        ``treelite.gtil.predict`` gives predictions, the probability of the second of two
        classes, or those of all classes; with ``pred_margin=True`` the scores. tl2cgen makes a
        library of it.

    Notes
    -----
    Scores are float64 throughout; the probabilities of more than two classes treelite computes in
    float32. A library of tl2cgen 1.0 takes a float64 number for missing if the lower 32 of its bits
    are all 1, such as the largest one below 5; float32 numbers are never such.

    Raises
    ------
    TypeError
        For linear terms and oblique splits, which treelite does not have, and for several
        quantiles of one model, which it does not put in order.

    References
    ----------
    Proposition attribution-node.

    Examples
    --------
    >>> import numpy as np
    >>> import treelite
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor, to_treelite
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=10, alpha=1.0, random_state=0).fit(X, y)
    >>> served = treelite.gtil.predict(to_treelite(model), X).ravel()
    >>> bool(np.allclose(served, model.predict(X), rtol=1e-13))
    True
    """
    builder_of = optional("treelite.model_builder", "to_treelite", "export")
    last = ask(model).model
    additive = last.collapse()
    check_writable(additive)
    if rank_of_quantiles(last) is not None:
        raise TypeError(
            "Several quantiles are put in order, so that none cross, and treelite gives every "
            "score by itself. Use to_onnx, or fit a model for each quantile."
        )
    forest = as_float64(additive.forest)
    n_trees, n_scores = forest.n_trees, additive.n_scores
    n_features, classes = forest.n_features, additive.classes
    # Leaves of several scores hold them all: of one target with classes, or of several targets.
    target, label = [0] * n_trees, [0] * n_trees
    if classes is None:
        post = "exponential" if additive.is_log else "identity"
        task, n_targets, n_classes = "kRegressor", n_scores, [1] * n_scores
        shape = (n_scores, 1)
        target = [-1] * n_trees if n_scores > 1 else target
    elif n_scores == 1:
        task, post, n_targets, n_classes, shape = "kBinaryClf", "sigmoid", 1, [1], (1, 1)
    else:
        task, post, n_targets, n_classes = "kMultiClf", "softmax", 1, [n_scores]
        shape, label = (1, n_scores), [-1] * n_trees
    builder = builder_of.ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=builder_of.Metadata(
            num_feature=n_features,
            task_type=task,
            average_tree_output=False,
            num_target=n_targets,
            num_class=n_classes,
            leaf_vector_shape=shape,
        ),
        tree_annotation=builder_of.TreeAnnotation(
            num_tree=n_trees, target_id=target, class_id=label
        ),
        postprocessor=builder_of.PostProcessorFunc(name=post),
        base_scores=additive.intercept.tolist() if n_scores == 1 else [0.0] * n_scores,
    )
    values = additive.node_values
    if n_scores > 1:
        # In the leaves of the first tree: tl2cgen 1.0 adds the first base score to all targets.
        values = values.copy()
        values[:, : forest.tree_offsets[1]] += additive.intercept[:, None]
    leaf_values = values[0].tolist() if n_scores == 1 else values.T.tolist()
    _add_trees(builder, forest, leaf_values)
    return builder.commit()


def _add_trees(builder: Any, forest: Forest, leaf_values: Any) -> None:
    """Node after node, as the builder takes them; ids count from the root of each tree."""
    left_sets = _left_sets(forest)
    columns = (
        forest.left.tolist(),
        forest.feature.tolist(),
        forest.threshold.tolist(),
        forest.missing_left.tolist(),
    )
    offsets = forest.tree_offsets.tolist()
    for first, last in pairwise(offsets):
        builder.start_tree()
        for v in range(first, last):
            left, feature, threshold, missing_left = (column[v] for column in columns)
            builder.start_node(v - first)
            if left < 0:
                builder.leaf(leaf_values[v])
            elif v in left_sets:
                builder.categorical_test(
                    feature_id=feature,
                    category_list=left_sets[v],
                    category_list_right_child=False,
                    default_left=missing_left,
                    left_child_key=left - first,
                    right_child_key=left - first + 1,
                )
            else:
                builder.numerical_test(
                    feature_id=feature,
                    threshold=threshold,
                    default_left=missing_left,
                    opname="<=",
                    left_child_key=left - first,
                    right_child_key=left - first + 1,
                )
            builder.end_node()
        builder.end_tree()


def _left_sets(forest: Forest) -> dict[int, list[int]]:
    """The codes of categories that go left, by node."""
    found: dict[int, list[int]] = {}
    categorical = np.flatnonzero(forest.split_kind == CATEGORICAL)
    for column in np.unique(forest.feature[categorical]).tolist():
        nodes = categorical[forest.feature[categorical] == column]
        inside = sets_of(forest, nodes, len(forest.categories[column]))
        pairs = zip(nodes.tolist(), inside, strict=True)
        found |= {v: np.flatnonzero(row).tolist() for v, row in pairs}
    return found


def check_writable(additive: AdditiveForest) -> None:
    """Refuse what no tree of treelite can say, by name."""
    if any(linear.coef.any() for linear in additive.linear):
        n_terms = sum(int(linear.coef.any(axis=0).sum()) for linear in additive.linear)
        raise TypeError(
            f"This model has {n_terms} linear terms (main_effects='linear', which the default "
            "blend has), and treelite has trees only. Use to_onnx, or fit with "
            "main_effects='ladders', which are trees."
        )
    if (n_oblique := int((additive.forest.split_kind == OBLIQUE).sum())) > 0:
        raise TypeError(
            f"treelite splits one column at a time, and this forest has {n_oblique} oblique "
            "splits, which compare sums of columns. Use to_onnx."
        )


def encoded_rows(model: Any, X: Any) -> FloatArray:
    """Bring rows into the numbers that the trees of `to_treelite` compare.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline
        The model that was written.
    X : array-like or data frame of shape (n_rows, n_columns)
        Rows as the model takes them; it refuses what the model refuses.

    Returns
    -------
    rows : float64 array of shape (n_rows, n_features)
        Categories as codes, NaN where a value is missing or counts as missing.

    Examples
    --------
    >>> import pandas as pd
    >>> from kpp import KPPRegressor
    >>> from kpp.export import encoded_rows
    >>> X = pd.DataFrame({"size": [1.0, 2.0, 3.0] * 5, "kind": ["a", "b", None] * 5})
    >>> model = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=0)
    >>> encoded_rows(model.fit(X, X["size"]), X[:3]).tolist()
    [[1.0, 0.0], [2.0, 1.0], [3.0, nan]]
    """
    question = ask(model)
    rows = question.rows(X)
    forest = as_float64(question.model.collapse().forest)
    encoded: FloatArray = prepare_rows(forest, rows.X)
    return encoded
