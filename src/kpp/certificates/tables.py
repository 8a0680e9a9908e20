"""What every certificate reads of a fitted model: leaf values, distances, norms, rounding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from kpp._typing import FloatArray, IntArray, OffsetArray
from kpp.forest.arrays import Forest
from kpp.forest.join import join_forests
from kpp.forest.route import route
from kpp.models.data import check_new_rows
from kpp.models.reading import coefficients_of, node_values_of, path_blocks

UNIT = 2.0**-53


def gamma(n: int) -> float:
    r"""Return :math:`\gamma_n = n u / (1 - n u)`, the relative error of n roundings."""
    return n * UNIT / (1 - n * UNIT)


@dataclass(frozen=True, eq=False)
class Tables:
    r"""A fitted model as arrays over the nodes of all its trees.

    Parameters
    ----------
    model : fitted estimator
        The model.
    forest : Forest
        All trees, those of several blocks one after the other.
    values : array of shape (n_scores, n_nodes)
        Path sums :math:`P_k(v)` of :math:`s_v w_v`.
    intercept : array of shape (n_scores,)
        b.
    coef : array of shape (n_scores, n_nodes)
        w.
    C : array of shape (n_nodes,)
        Path sums of :math:`\omega_v / S_T` without the root, whose coordinate never changes.
    depth : int
        Most nodes on a path.
    weight_error : array of shape (n_scores,)
        How far the sum of leaf values may lie from :math:`\langle w, \Phi \rangle`.
    """

    model: Any
    forest: Forest
    values: FloatArray
    intercept: FloatArray
    coef: FloatArray
    C: FloatArray
    depth: int
    weight_error: FloatArray

    @classmethod
    def from_model(cls, model: Any) -> Tables:
        """Read a fitted KPPRegressor or KPPClassifier."""
        blocks = path_blocks(model)
        forest = join_forests([block.forest for block in blocks])
        squared = np.concatenate([block.squared_scale for block in blocks])
        scale = np.concatenate([block.scale for block in blocks])
        squared[forest.roots] = 0.0
        coef, intercept = coefficients_of(model)
        depth = int(forest.path_sums(np.ones(forest.n_nodes)).max())
        size = [largest_values(forest, forest.path_sums(np.abs(scale * w))).sum() for w in coef]
        return cls(
            model=model,
            forest=forest,
            values=node_values_of(model),
            intercept=intercept,
            coef=coef,
            C=forest.path_sums(squared),
            depth=depth,
            weight_error=2 * gamma(depth + 2) * np.array(size),
        )

    @property
    def is_classifier(self) -> bool:
        """Whether the answer is a class."""
        return bool(is_classifier(self.model))

    @property
    def n_jobs(self) -> int | None:
        """The model's number of threads."""
        return self.model.n_jobs

    @property
    def diameter(self) -> float:
        """The sum over the trees of the largest C: half of the largest distance."""
        return float(largest_values(self.forest, self.C).sum())

    def leaf_ids(self, X: Any) -> IntArray:
        """Route rows through each block's own forest, shape (n_trees, n_rows)."""
        X = check_some_rows(self.model, X)
        parts, first = [], 0
        for block in path_blocks(self.model):
            ids = route(block.forest, X, n_jobs=self.n_jobs)
            parts.append(ids + np.int32(first))
            first += block.forest.n_nodes
        return np.ascontiguousarray(np.concatenate(parts), dtype=np.int32)

    def scores(self, leaf_ids: IntArray) -> FloatArray:
        """Scores of routed rows, added as the model adds them; shape (n_rows, n_scores)."""
        total = np.zeros((len(self.values), leaf_ids.shape[1]))
        for leaves in leaf_ids:
            total += self.values[:, leaves]
        return total.T + self.intercept

    def score_error(self, score: int) -> float:
        r"""Return :math:`\tau = \gamma_{K+2} (|b| + \sum_t \max_\ell |v_t(\ell)|)`."""
        largest = largest_values(self.forest, self.values[score]).sum()
        return gamma(self.forest.n_trees + 2) * (abs(self.intercept[score]) + largest)

    def value(self, way: Way) -> FloatArray:
        """What each node's leaf value adds to a margin, shape (n_nodes,)."""
        own = self.values[way.score]
        return way.sign * (own if way.against is None else own - self.values[way.against])

    def is_constant(self, way: Way) -> bool:
        """Whether every leaf adds 0 to the scores of a margin: then they are the intercepts."""
        scores = {way.score} if way.against is None else {way.score, way.against}
        return not any(self.values[k][self.forest.is_leaf].any() for k in scores)

    def norm(self, w: FloatArray) -> float:
        """Return the norm of a coefficient vector, rounded up."""
        largest = float(np.abs(w).max())
        if largest == 0:
            return 0.0
        # Divided by the largest entry no square is lost below the smallest float. Sums are
        # pairwise: fewer than 64 roundings for any length that fits memory.
        return largest * float(np.sqrt(np.square(w / largest).sum())) * (1 + 80 * UNIT)


class Way(NamedTuple):
    """A margin as a combination of scores: ``sign * score``, or ``score - against``."""

    score: int
    against: int | None
    sign: int


@dataclass(frozen=True, eq=False)
class Problem:
    r"""One way for the answer to change: the margin :math:`o + \sum_t v_t(\ell_t)` reaching 0.

    A class against another, or an output against a tolerance. The offset holds what is not in
    the leaves, and already gives away the rounding :math:`\tau` of the model's own sums.

    Parameters
    ----------
    rows : int array of shape (n,)
        The rows that it is about.
    way : Way
        Which scores.
    value : array of shape (n_nodes,)
        What each node's leaf value adds to the margin.
    offset : array of shape (n,)
        o, one number per row.
    margin : array of shape (n,)
        The margin as it is reported, without rounding.
    norm : float
        :math:`\|w\|` of the margin as a function on the embedding, rounded up.
    weight_error : float
        How far leaf values may lie from w, for the Lipschitz radius.
    tau : float
        The rounding that the offset gives away.
    other : int
        The class that the answer would change to; for a regressor -1 for falling, 1 for rising.
    """

    rows: OffsetArray
    way: Way
    value: FloatArray
    offset: FloatArray
    margin: FloatArray
    norm: float
    weight_error: float
    tau: float
    other: int


def problems_of(
    tables: Tables, scores: FloatArray, epsilon: FloatArray | None
) -> Iterator[Problem]:
    """Yield every way in which the answers of rows with these scores can change."""
    if epsilon is not None:
        return _leaving_a_band(tables, scores, epsilon)
    if scores.shape[1] == 1:
        return _changing_sign(tables, scores[:, 0])
    return _losing_to_a_class(tables, scores)


def _changing_sign(tables: Tables, score: FloatArray) -> Iterator[Problem]:
    tau = tables.score_error(0)
    for sign in (1, -1):
        # The positive class is predicted where the score exceeds 0, strictly.
        rows = np.flatnonzero(score > 0 if sign > 0 else score <= 0)
        if len(rows):
            yield Problem(
                rows=rows,
                way=Way(0, None, sign),
                value=tables.value(Way(0, None, sign)),
                offset=np.full(len(rows), sign * tables.intercept[0] - tau),
                margin=sign * score[rows],
                norm=tables.norm(tables.coef[0]),
                weight_error=float(tables.weight_error[0]),
                tau=tau,
                other=int(sign < 0),
            )


def _losing_to_a_class(tables: Tables, scores: FloatArray) -> Iterator[Problem]:
    predicted = scores.argmax(axis=1)
    n_scores = scores.shape[1]
    errors = [tables.score_error(k) for k in range(n_scores)]
    for c in np.unique(predicted).tolist():
        rows = np.flatnonzero(predicted == c)
        for k in range(n_scores):
            if k == c:
                continue
            # The difference of two floats is rounded once more, relative to both.
            tau = 2 * (errors[c] + errors[k])
            difference = tables.intercept[c] - tables.intercept[k]
            yield Problem(
                rows=rows,
                way=Way(c, k, 1),
                value=tables.value(Way(c, k, 1)),
                offset=np.full(len(rows), difference - tau),
                margin=scores[rows, c] - scores[rows, k],
                norm=tables.norm(tables.coef[c] - tables.coef[k]),
                weight_error=float(tables.weight_error[c] + tables.weight_error[k]),
                tau=tau,
                other=k,
            )


def _leaving_a_band(tables: Tables, scores: FloatArray, epsilon: FloatArray) -> Iterator[Problem]:
    rows = np.arange(len(scores))
    for k, score in enumerate(scores.T):
        # Both predictions are rounded: the one that is compared with, and the new one.
        tau = 2 * tables.score_error(k) + 4 * UNIT * epsilon[k]
        for sign in (1, -1):
            # sign = 1: the output falls by epsilon; -1: it rises by epsilon.
            start = sign * (tables.intercept[k] - score)
            yield Problem(
                rows=rows,
                way=Way(k, None, sign),
                value=tables.value(Way(k, None, sign)),
                offset=start + epsilon[k] - tau,
                margin=np.full(len(rows), epsilon[k]),
                norm=tables.norm(tables.coef[k]),
                weight_error=float(tables.weight_error[k]),
                tau=tau,
                other=-sign,
            )


def check_some_rows(model: Any, X: Any) -> Any:
    """Check rows like the model does, and that there are some: also where X is a data frame."""
    X = check_new_rows(model, X)
    if len(X) == 0:
        raise ValueError(
            f"Found X with 0 sample(s) (shape={tuple(X.shape)}) while a minimum of 1 is required."
        )
    return X


def check_epsilon(tables: Tables, epsilon: Any) -> FloatArray | None:
    """Return the tolerance per score for a regressor, None for a classifier."""
    if tables.is_classifier:
        if epsilon is not None:
            raise ValueError(
                "epsilon is the tolerance of a regressor's output; a classifier's answer either "
                f"changes or does not. Leave it out; got epsilon={epsilon!r}."
            )
        return None
    if epsilon is None:
        raise ValueError(
            "A regressor needs epsilon: the change of the output, in units of y, that still "
            "counts as the same answer. For example the root mean squared error of "
            "oof_prediction_."
        )
    n_scores = len(tables.intercept)
    try:
        given = np.asarray(epsilon, dtype=np.float64)
        tolerance = np.broadcast_to(given, n_scores)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"epsilon must be a number, or one per target ({n_scores}); got {epsilon!r}."
        ) from error
    if not (tolerance > 0).all() or not np.isfinite(tolerance).all():
        raise ValueError(f"epsilon must be positive and finite; got {epsilon!r}.")
    return tolerance


def largest_values(forest: Forest, values: FloatArray) -> FloatArray:
    """Largest absolute value at a leaf of each tree, shape (n_trees,)."""
    return np.maximum.reduceat(np.where(forest.is_leaf, np.abs(values), 0.0), forest.roots)


def lowest_values(forest: Forest, values: FloatArray) -> FloatArray:
    """Lowest value at a leaf of each tree, shape (n_trees,)."""
    return np.minimum.reduceat(np.where(forest.is_leaf, values, np.inf), forest.roots)
