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
from kpp.explanations.checks import check_top
from kpp.explanations.outputs import choose_output
from kpp.models.asking import ask
from kpp.models.left_rows import check_has_rows


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
        :math:`r_i`, how much the row pulls on anything similar to it. NaN in a blend, where a row
        has one for each block, and `kernel` is that of all blocks.
    intercept : float
        b.
    partition : float
        :math:`\langle w_0, \Phi(x) \rangle`, what came with the coefficients that the penalty
        shrinks to; 0 unless ``center="partition"``. That model's intercept is in `intercept`. In
        a blend: what its bare ensembles add, which is no sum over rows.
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

    and :math:`w_0 = 0` except for ``center="partition"`` and in a blend, where it stands for the
    bare ensembles, and the sum goes over the rows of every block. For ridge, :math:`\alpha r_i` is
    the weighted residual of row i: a row contributes where it is similar and where the model left
    something unexplained.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline
        Fitted. In the cross-fit regime a row acts through the trees of the fold that fitted on
        it, and the kernel is of these trees.
    x : array of shape (n_columns,) or (1, n_columns), Series, dict, or data frame of one row
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
    >>> model = KPPRegressor("extra-trees", n_estimators=20, alpha=1.0, random_state=0).fit(X, y)
    >>> explanation = explain_training_rows(model, X[0], top=5)
    >>> explanation.rows.shape
    (5,)
    >>> total = explanation.intercept + explanation.all_contributions.sum()
    >>> bool(abs(total - model.predict(X[:1])[0]) < 1e-9)
    True
    """
    question = ask(model)
    top = check_top(top)
    row = question.row(x)
    check_has_rows(question.model, "explain_training_rows")
    fits, fit_rows = question.model.fits_, np.asarray(question.model.fit_rows_)
    if not fits:
        raise RefusedError(
            "This model keeps no dual coefficients (fits_ is empty): its coefficients are not "
            "known as a sum over the rows of a fit."
        )
    scores = row.scores[0]
    chosen = choose_output(question.additive, output, scores)
    contributions, kernel, r = np.zeros((3, len(fit_rows)))
    partition = 0.0
    # `fit.rows` are numbers in the user's X; the arrays here are in the order of `fit_rows`.
    place = np.argsort(fit_rows)
    for fit in fits:
        share = chosen.sign * np.broadcast_to(fit.share, scores.shape)[chosen.index]
        train = fit.map
        here = train.on(row)
        own = place[np.searchsorted(fit_rows, fit.rows, sorter=place)]
        # k(x_i, x) in the map of the very layer that row i was fitted in.
        own_kernel, own_dual = here.gram(train)[0], share * fit.dual[:, chosen.index]
        # A row has several layers in a blend, and where folds overlap: k is then the kernel of
        # all of them.
        kernel[own] += own_kernel
        r[own] += own_dual
        contributions[own] += own_dual * own_kernel
        if fit.center is not None:
            partition += share * float(here.matvec(fit.center.node_coef[chosen.index])[0])
    if question.model.dual_coef_ is None:
        r[:] = np.nan
    for bare in question.model.bare_fits_ or ():
        share = chosen.sign * bare.share[chosen.index]
        at = bare.part.whole.on(row)
        partition += share * float(at.matvec(bare.node_coef[chosen.index])[0])
    # Ties stay in the order of the rows, so that the list is the same everywhere.
    order = np.argsort(-np.abs(contributions), kind="stable")
    listed, others = order[:top], order[top:]
    b = float(chosen.sign * question.intercept[chosen.index])
    remainder = math.fsum(contributions[others])
    score = float(chosen.sign * scores[chosen.index])
    total = math.fsum([b, partition, remainder, *contributions[listed]])
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
