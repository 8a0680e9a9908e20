"""`explain_training_rows`: the training rows that carried one prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._checks import RefusedError
from kpp._optional import optional
from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray
from kpp.explanations._model import check_top, choose_output, one_row
from kpp.geometry import named_blocks
from kpp.geometry.composed import BlockMap
from kpp.geometry.maps import MapBlock
from kpp.models.reading import check_model, coefficients_of, scores_of


@dataclass(frozen=True, eq=False, repr=False)
class TrainingRowExplanation(Shown):
    r"""A prediction as a sum over training rows; from `explain_training_rows`.

    ``intercept + partition + sum of all contributions`` is the score, and so is
    ``intercept + partition + sum of the listed rows + remainder``.

    Parameters
    ----------
    rows : int array of shape (n_listed,)
        Numbers of the listed rows in the X that the model was fitted on, the largest absolute
        contribution first.
    contribution : array of shape (n_listed,)
        :math:`r_i k(x_i, x)` of the listed rows.
    kernel : array of shape (n_listed,)
        :math:`k(x_i, x)`, how similar the row is.
    dual_coef : array of shape (n_listed,)
        :math:`r_i`, how much the row pulls on anything similar to it.
    intercept : float
        b.
    partition : float
        :math:`\langle w_0, \Phi(x) \rangle`, what came with the coefficients that the penalty
        shrinks to; 0 unless ``center="partition"``. That model's intercept is in `intercept`.
    remainder : float
        Sum over the rows that are not listed.
    score : float
        The model's own score.
    output : str
        What the score is of.
    residual : float
        Deviation of the sum from the score.
    all_rows : int array of shape (n_fit_rows,)
        Numbers of all rows of the fit.
    all_contributions : array of shape (n_fit_rows,)
        What each of them contributes.
    """

    rows: AnyArray
    contribution: FloatArray
    kernel: FloatArray
    dual_coef: FloatArray
    intercept: float
    partition: float
    remainder: float
    score: float
    output: str
    residual: float
    all_rows: AnyArray
    all_contributions: FloatArray

    def __repr__(self) -> str:
        return (
            f"TrainingRowExplanation(score={self.score:.6g}, intercept={self.intercept:.6g}, "
            f"n_listed={len(self.rows)}, remainder={self.remainder:.6g})"
        )

    def to_frame(self) -> Any:
        """Return the listed rows as a pandas data frame.

        Returns
        -------
        frame : pandas.DataFrame
            Columns contribution, kernel and dual_coef; the index holds the numbers of the rows.
        """
        pd = optional("pandas", "to_frame()")
        return pd.DataFrame(
            {
                "contribution": self.contribution,
                "kernel": self.kernel,
                "dual_coef": self.dual_coef,
            },
            pd.Index(self.rows, name="row"),
        )


def explain_training_rows(
    model: Any, x: Any, *, top: int = 10, output: Any = None
) -> TrainingRowExplanation:
    r"""Write one prediction as a sum over the training rows.

    With :math:`w = w_0 + \Phi^\top r`,

    .. math:: g(x) = b + \langle w_0, \Phi(x) \rangle + \sum_i r_i\, k(x_i, x), \qquad
        k(x_i, x) = \langle \Phi(x_i), \Phi(x) \rangle

    and :math:`w_0 = 0` except for ``center="partition"``. For ridge, :math:`\alpha r_i` is the
    weighted residual of row i: a row contributes where it is similar and where the model left
    something unexplained.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted. In the cross-fit regime a row acts through the trees of the fold that fitted on
        it, and the kernel is of these trees.
    x : array-like of shape (n_features,) or (1, n_features), or data frame of one row
        The row.
    top : int, default=10
        Number of rows to list; the others are added up in ``remainder``.
    output : object, optional
        For a classifier a class: the predicted one by default, and for two classes the second,
        which the score is of. For several targets the number of one.

    Returns
    -------
    explanation : TrainingRowExplanation

    See Also
    --------
    leave_one_out : What would become of a row's own prediction without it.

    Notes
    -----
    The rows also grew the trees. That part of their influence is in the kernel, and not counted
    here.

    References
    ----------
    Appendix on the ridge primal-dual identity.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.explanations import explain_training_rows
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor(n_estimators=20, alpha=1.0, random_state=0).fit(X, y)
    >>> explanation = explain_training_rows(model, X[0], top=5)
    >>> explanation.rows.shape
    (5,)
    >>> total = explanation.intercept + explanation.all_contributions.sum()
    >>> bool(abs(total - model.predict(X[:1])[0]) < 1e-9)
    True
    """
    check_model(model)
    top = check_top(top)
    row = one_row(model, x)
    dual = getattr(model, "dual_coef_", None)
    if dual is None:
        raise RefusedError(
            "This model keeps no dual coefficients (dual_coef_): its coefficients are not a sum "
            "over the rows of one fit."
        )
    dual = np.asarray(dual, dtype=np.float64).reshape(model.map_.shape[0], -1)
    scores = scores_of(model, row)[0]
    chosen = choose_output(model, output, scores)
    coefficients, intercept = coefficients_of(model)
    r = chosen.sign * dual[:, chosen.index]
    at_row = model.map_.on(row)
    kernel = np.zeros(len(r))
    carried = np.zeros(model.map_.shape[1])
    for blocks, rows in _fits(model):
        train, here = _take(model.map_, blocks).rows(rows), _take(at_row, blocks)
        kernel[rows] = here.gram(train)[0]
        first, last = _columns(model.map_, blocks)
        carried[first:last] = train.rmatvec(r[rows])
    rest = chosen.sign * coefficients[chosen.index] - carried
    # Where nothing else went into w, these are roundings of zero.
    size = np.abs(carried).max(initial=0.0)
    partition = (
        float(at_row.matvec(rest)[0]) if np.abs(rest).max(initial=0.0) > 1e-9 * size else 0.0
    )
    contributions = r * kernel
    order = np.argsort(-np.abs(contributions), kind="stable")
    listed, others = order[:top], order[top:]
    b = float(chosen.sign * intercept[chosen.index])
    remainder = math.fsum(contributions[others])
    score = float(chosen.sign * scores[chosen.index])
    total = math.fsum([b, partition, remainder, *contributions[listed]])
    fit_rows = np.asarray(model.fit_rows_)
    return TrainingRowExplanation(
        rows=fit_rows[listed],
        contribution=contributions[listed],
        kernel=kernel[listed],
        dual_coef=r[listed],
        intercept=b,
        partition=partition,
        remainder=remainder,
        score=score,
        output=chosen.name,
        residual=abs(total - score),
        all_rows=fit_rows,
        all_contributions=contributions,
    )


def _fits(model: Any) -> list[tuple[slice, Any]]:
    """Which blocks of the map were fitted on which of its rows."""
    n_blocks = len(named_blocks(model.map_))
    if model.regime_ != "cross-fit":
        return [(slice(0, n_blocks), slice(None))]
    per_fold = n_blocks // len(model.folds_)
    return [
        (slice(per_fold * q, per_fold * (q + 1)), fit) for q, (fit, _) in enumerate(model.folds_)
    ]


def _take(embedding: MapBlock, blocks: slice) -> MapBlock:
    if not isinstance(embedding, BlockMap):
        return embedding
    taken = embedding.blocks[blocks]
    return embedding if len(taken) == len(embedding.blocks) else BlockMap(taken)


def _columns(embedding: MapBlock, blocks: slice) -> tuple[int, int]:
    if not isinstance(embedding, BlockMap):
        return 0, embedding.shape[1]
    return int(embedding.offsets[blocks.start]), int(embedding.offsets[blocks.stop])
