"""The numbers of nodes that scores are sums of, in a file.

The scores of a model are sums of one number per leaf; those numbers are stored and not computed
anew. What is recomputed (path sums at splits) is made of single IEEE operations in a fixed
order, and is the same on every machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.forest.arrays import Forest
from kpp.geometry.maps import MapBlock
from kpp.io.fields import all_differ, check_scores, floats, integers, labels, require
from kpp.io.linear import SCORES, decode_scores, largest_sums, scores_fields
from kpp.io.schema import Field, FieldTable, required
from kpp.io.values import Fields, Kind
from kpp.io.writer import Writer
from kpp.models.tasks import Task
from kpp.scores import AdditiveForest, ScoreBlock
from kpp.solvers import PoissonLoss

# A node's value is a sum of as many terms as the path is long, at most this far from it,
# relative to the sum of their magnitudes.
ROUNDING = 1e-9
UNKNOWN = Field(since=2, default=None)
ADDITIVE: FieldTable = {
    **required("forest", "node_values", "intercept"),
    "node_rows": Field(default=None),
    **dict.fromkeys(("coef", "squared_scale", "classes"), UNKNOWN),
    "linear": Field(since=2, default=None, inside=SCORES),
    "is_log": Field(since=2, default=False),
}


def additive_with_leaves(
    embedding: MapBlock,
    coefficients: FloatArray,
    intercept: FloatArray,
    task: Task,
    stored: Any,
) -> AdditiveForest:
    """The stored values of the leaves, which must be those of the coefficients."""
    with np.errstate(over="ignore", invalid="ignore"):
        is_log = isinstance(task.loss, PoissonLoss)
        additive = AdditiveForest.from_coefficients(
            embedding, coefficients, intercept, task.classes, is_log=is_log
        )
        # Sums of magnitudes: rounding is relative to these, not to sums that may cancel.
        sizes = AdditiveForest.from_coefficients(embedding, np.abs(coefficients), intercept)
    right = isinstance(stored, list) and len(stored) == len(additive.blocks)
    require(right, "every block needs the values of its leaves")
    for block, size, given in zip(additive.blocks, sizes.blocks, stored, strict=True):
        leaf = block.forest.is_leaf
        floats(given, "leaf values", (len(intercept), int(leaf.sum())))
        own = block.node_values
        require_sums(given, own[:, leaf], size.node_values[:, leaf])
        # Bit for bit what was saved: a sum computed anew could differ in its last bit on another
        # machine, and a prediction with it.
        own[:, leaf] = given
    most = np.abs(intercept) + largest_sums(additive.linear, len(intercept))
    check_scores([(b.forest.roots, b.node_values) for b in additive.blocks], most)
    return additive


def require_sums(given: FloatArray, sums: FloatArray, sizes: FloatArray) -> None:
    """Refuse values that are not the sums of coefficients, up to rounding."""
    require(np.isfinite(sizes).all(), "the path sums must be finite")
    near = np.abs(given - sums) <= ROUNDING * sizes
    require(near.all(), "the values of the leaves are not those of the coefficients")


def check_classes(classes: Any, n_scores: int) -> AnyArray:
    """Return the classes of a classifier: two for one score, or as many as scores."""
    known = labels(classes, "classes")
    n_classes = len(known)
    require(n_classes >= 2, "a classifier has classes")
    require(n_scores == (1 if n_classes == 2 else n_classes), "scores and classes differ")
    require(all_differ(known), "a class stands twice")
    return known


def encode_additive(additive: AdditiveForest, writer: Writer, where: str) -> Fields:
    """Take a model that is only numbers of nodes apart, as one forest."""
    whole = additive.in_one_forest()
    (block,) = whole.blocks
    rows = block.node_rows
    # Only where there are some: all others stay readable where they are not known.
    linear = {}
    if whole.linear:
        linear["linear"] = writer.value(scores_fields(whole.linear), f"{where}.linear")
    if whole.is_log:
        linear["is_log"] = True
    return linear | {
        "forest": writer.value(block.forest, f"{where}.forest"),
        "node_values": writer.value(np.asarray(block.node_values, np.float64), where),
        "intercept": writer.value(np.asarray(whole.intercept, np.float64), where),
        "node_rows": None if rows is None else writer.packed(rows),
        "coef": writer.value(block.coef, where),
        "squared_scale": writer.value(block.squared_scale, where),
        "classes": writer.value(whole.classes, f"{where}.classes"),
    }


def decode_additive(fields: Fields) -> AdditiveForest:
    """Put it together."""
    forest, intercept = fields["forest"], fields["intercept"]
    require(isinstance(forest, Forest), "a collapsed forest needs a forest")
    # Before anything is known of a field it may be of any type that a file can hold.
    n_scores = len(intercept) if isinstance(intercept, np.ndarray) and intercept.ndim == 1 else 0
    require(n_scores > 0, "a collapsed forest has scores")
    shape = (n_scores, forest.n_nodes)
    values = floats(fields["node_values"], "node values", shape)
    stored = [] if fields["linear"] is None else fields["linear"]
    linear = decode_scores(stored, n_scores, forest.n_features)
    most = np.abs(floats(intercept, "intercepts", (n_scores,))) + largest_sums(linear, n_scores)
    check_scores([(forest.roots, values)], most)
    rows, coef, squared_scale = fields["node_rows"], fields["coef"], fields["squared_scale"]
    if rows is not None:
        rows = integers(rows, "node_rows", shape[1:], 0, 2**62)
    if squared_scale is not None:
        floats(squared_scale, "squared coordinates", shape[1:], low=0.0)
    if coef is not None:
        floats(coef, "coefficients", shape)
        require(squared_scale is not None, "coefficients without coordinates")
        steps = np.sqrt(squared_scale) * coef
        with np.errstate(over="ignore", invalid="ignore"):
            sums, sizes = (
                np.stack([forest.path_sums(row) for row in part]) for part in (steps, abs(steps))
            )
        require_sums(values, sums, sizes)
    classes = fields["classes"]
    if classes is not None:
        classes = check_classes(classes, n_scores)
    block = ScoreBlock(
        name="",
        forest=forest,
        node_values=np.ascontiguousarray(values),
        coef=coef,
        squared_scale=squared_scale,
        node_rows=rows,
    )
    is_log = fields["is_log"]
    right = isinstance(is_log, bool) and not (is_log and classes is not None)
    require(right, "only numbers have logarithms")
    return AdditiveForest((block,), intercept, classes, linear, is_log)


KINDS: dict[type, Kind] = {
    AdditiveForest: Kind(
        "kpp.AdditiveForest",
        ADDITIVE,
        encode_additive,
        decode_additive,
        old_name="kpp.CollapsedForest",
    ),
}
