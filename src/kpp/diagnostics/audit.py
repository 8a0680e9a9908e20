"""`audit`: do the identities hold, on the user's own model and rows?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp._parallel import one_blas_thread
from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray
from kpp.bounds.samples import ask_one_target
from kpp.forest.statistics import node_statistics
from kpp.geometry import (
    MapBlock,
    PathMap,
    block_slices,
    check_isometry,
    forest_blocks,
    linear_blocks,
    named_blocks,
)
from kpp.models.asking import Question
from kpp.models.data import check_target
from kpp.scores import RoutedRows

N_PAIRS = 1000
N_ROWS = 1000
EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class AuditCheck(Shown):
    """One identity, or inequality, and its largest violation.

    Parameters
    ----------
    name : str
        What was checked.
    violation : float
        Largest difference between the two sides, or amount by which an inequality is broken.
    tolerance : float
        What rounding allows.
    n_checked : int
        Pairs, rows or trees.
    reference : str
        Where the paper states it.
    """

    name: str
    violation: float
    tolerance: float
    n_checked: int
    reference: str

    @property
    def holds(self) -> bool:
        """Whether the violation is rounding only."""
        return self.violation <= self.tolerance


@dataclass(frozen=True, eq=False)
class Audit(Shown):
    """All checks of one model.

    Parameters
    ----------
    checks : tuple of AuditCheck
        Each identity.
    skipped : tuple of str
        What does not apply to this model, and why.
    """

    checks: tuple[AuditCheck, ...]
    skipped: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every identity holds."""
        return all(check.holds for check in self.checks)

    def to_frame(self) -> Any:
        """Return one line per check.

        Returns
        -------
        frame : pandas DataFrame
        """
        return (
            optional("pandas", "Audit.to_frame")
            .DataFrame(
                [
                    {
                        "check": check.name,
                        "violation": check.violation,
                        "tolerance": check.tolerance,
                        "n_checked": check.n_checked,
                        "holds": check.holds,
                        "reference": check.reference,
                    }
                    for check in self.checks
                ]
            )
            .set_index("check")
        )

    def __str__(self) -> str:
        lines = [
            f"{'holds' if c.holds else 'FAILS'} {c.name}: largest violation {c.violation:.2e}, "
            f"rounding allows {c.tolerance:.2e}, {c.n_checked} checked ({c.reference})"
            for c in self.checks
        ]
        return "\n".join([*lines, *(f"skipped {reason}" for reason in self.skipped)])


@one_blas_thread()
def audit(model: Any, X: Any, y: Any = None, *, random_state: int = 0) -> Audit:
    r"""Check on given rows that the identities of the paper hold for a fitted model.

    - Isometry: path distances equal :math:`\|\Phi(x) - \Phi(x')\|^2` on sampled pairs.
    - Norm bound: :math:`\|\Phi(x)\| \le 1`; for several forests the root of their number, linear
      terms counted as one.
    - Additivity: prediction equals the intercept plus :math:`\sum_v w_v \Phi_v(x)`.
    - Lipschitz: :math:`|g(x) - g(x')| \le \|w\| \sqrt{\delta_T(x, x')}` on sampled pairs.
    - Telescoping: root = leaf risk + gain for every tree, for y or, without y, the model's own
      predictions.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline that ends in one
        Fitted.
    X : array-like or data frame of shape (n_rows, n_features)
        Rows; at most 1,000 of them are drawn.
    y : array-like of shape (n_rows,), optional
        Their labels, for the telescoping.
    random_state : int
        Seed of the draws.

    Returns
    -------
    audit : Audit

    References
    ----------
    Corollary kpp-isometry-forest, propositions norm-bound, attribution-node and lipschitz-kpp,
    lemma partition-telescoping.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.diagnostics import audit
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=20, alpha=1.0, random_state=0).fit(X, y)
    >>> result = audit(model, X, y)
    >>> result.holds
    True
    >>> [check.name for check in result.checks]
    ['isometry', 'norm bound', 'additivity', 'Lipschitz', 'telescoping']
    """
    question = ask_one_target(model)
    rows = question.rows(X, least=0)
    if len(rows) == 0:
        raise ValueError("X has no rows: there is nothing to check.")
    target = None if y is None else check_target(y, len(rows))
    random = np.random.default_rng(random_state)
    drawn = np.sort(random.choice(len(rows), min(len(rows), N_ROWS), replace=False))
    rows = rows.take(drawn)
    target = None if target is None else target[drawn]
    embedding = rows.map
    forests = [block for _, block in forest_blocks(embedding)]
    checks, skipped = [], []
    isometry, reason = _isometry(forests, rows, random_state)
    if isometry is not None:
        checks.append(isometry)
    if reason:
        skipped.append(reason)
    n_terms = int(max(block.path_sums(np.ones(block.shape[1])).max() for block in forests))
    n_terms *= sum(block.forest.n_trees for block in forests)
    norms = embedding.row_norms()
    n_terms += sum(block.shape[1] for _, block in linear_blocks(embedding))
    allowed = float(np.sqrt(len(named_blocks(embedding))))
    checks.append(
        AuditCheck(
            "norm bound",
            float(max(norms.max() - allowed, 0.0)),
            EPS * n_terms,
            len(norms),
            "proposition norm-bound",
        )
    )
    checks.append(_additivity(question, embedding, rows.scores, n_terms))
    checks.append(_lipschitz(question, embedding, rows.scores, random, n_terms))
    checks.append(_telescoping(question, rows, target))
    return Audit(tuple(checks), tuple(skipped))


def _isometry(
    forests: list[PathMap], rows: RoutedRows, random_state: int
) -> tuple[AuditCheck | None, str | None]:
    found, reason = [], None
    for block in forests:
        if block.weights.node[block.forest.is_leaf].any():
            reason = "isometry: weights at leaves make it the separation distance of the appendix"
            continue
        found.append(check_isometry(block, rows, n_pairs=N_PAIRS, random_state=random_state))
    if not found:
        return None, reason
    check = AuditCheck(
        "isometry",
        max(f.largest_gap for f in found),
        max(f.tolerance for f in found),
        sum(len(f.pairs) for f in found),
        "corollary kpp-isometry-forest",
    )
    return check, reason


def _additivity(
    question: Question, embedding: MapBlock, scores: FloatArray, n_terms: int
) -> AuditCheck:
    """The model's own prediction against the embedding written out, node by node."""
    total = np.tile(question.intercept, (len(scores), 1))
    size = np.abs(total)
    for _, block, place in block_slices(embedding):
        phi = block.to_csr()
        columns = question.node_coef[:, place]
        total = total + phi @ columns.T
        size = size + abs(phi) @ np.abs(columns).T
    gap = float(np.abs(total - scores).max())
    return AuditCheck(
        "additivity",
        gap,
        EPS * n_terms * float(size.max()),
        len(scores),
        "proposition attribution-node",
    )


def _lipschitz(
    question: Question,
    embedding: MapBlock,
    scores: FloatArray,
    random: np.random.Generator,
    n_terms: int,
) -> AuditCheck:
    n = len(scores)
    pairs = random.integers(0, n, (min(N_PAIRS, n * n), 2))
    distance = _pair_distances(embedding, pairs)
    change = np.abs(scores[pairs[:, 0]] - scores[pairs[:, 1]])
    norm = np.linalg.norm(question.node_coef, axis=1)
    excess = change - norm * np.sqrt(distance)[:, None]
    size = float(norm.max()) + float(np.abs(scores).max())
    return AuditCheck(
        "Lipschitz",
        float(max(excess.max(), 0.0)),
        EPS * n_terms * size,
        len(pairs),
        "proposition lipschitz-kpp",
    )


def _pair_distances(embedding: MapBlock, pairs: AnyArray) -> FloatArray:
    """Squared distances of pairs, from the rows of the embedding."""
    total = np.zeros(len(pairs))
    for _, block in named_blocks(embedding):
        phi = block.to_csr()
        rest = phi[pairs[:, 0]] - phi[pairs[:, 1]]
        total += np.asarray(rest.multiply(rest).sum(axis=1)).ravel()
    return total


def _telescoping(question: Question, rows: RoutedRows, target: AnyArray | None) -> AuditCheck:
    """Root against leaves plus splits, for every tree."""
    classification = question.is_classifier
    if target is None:
        answers: Any = question.model
        target = answers.predict(rows)
    scale = 1.0 if classification else float(np.square(target).max())
    worst, n_trees, depth = 0.0, 0, 0
    for block, leaf_ids in zip(question.additive.blocks, rows.leaf_ids, strict=True):
        forest = block.forest
        statistics = node_statistics(
            forest, rows.X, target, classification=classification, leaf_ids=leaf_ids
        )
        value = statistics.entropy if classification else statistics.impurity
        share = statistics.count / statistics.count[forest.roots[0]]
        leaf = np.where(forest.is_leaf, share * value, 0.0)
        gain = share * statistics.decrease(forest, value)
        total = np.add.reduceat(leaf + gain, forest.roots)
        worst = max(worst, float(np.abs(total - value[forest.roots]).max()))
        n_trees += forest.n_trees
        depth = max(depth, int(np.diff(forest.tree_offsets).max()))
    tolerance = EPS * max(scale, 1e-300) * (depth + len(rows))
    return AuditCheck("telescoping", worst, tolerance, n_trees, "lemma partition-telescoping")
