"""`collapse`: a fitted model as a plain additive tree ensemble."""

from __future__ import annotations

from typing import Any

from kpp._typing import AnyArray
from kpp.models.asking import ask
from kpp.scores import AdditiveForest
from kpp.solvers import PinballLoss


def collapse(model: Any) -> AdditiveForest:
    r"""Collapse a fitted model to a plain forest with one number per node.

    Along a path :math:`\langle w, \Phi(x) \rangle` adds :math:`s_v w_v` at every node; the sum
    down to a node is the same for all rows that reach it.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline
        Fitted. Of a Pipeline that ends in one of them, the last step is collapsed.

    Returns
    -------
    collapsed : AdditiveForest
        Its `scores` are the model's, to the last bit; behind a preparation they take prepared
        rows, ``pipeline[:-1].transform(X)``.

    Notes
    -----
    Several blocks become one forest. Where they compare in different precisions, the thresholds
    of the float32 ones are moved to the float64 numbers that make the same decisions; only
    values beyond the range of float32, which such a block refuses, are then accepted. A column
    that is categorical in one block and a number in another is refused. Linear terms
    (``main_effects="linear"``) stay what they are, in ``linear`` beside the forest: `scores` adds
    them, and ``to_sklearn`` refuses them.

    References
    ----------
    Proposition attribution-node.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.export import collapse
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=10, alpha=1.0, random_state=0).fit(X, y)
    >>> collapsed = collapse(model)
    >>> bool((collapsed.scores(X)[:, 0] == model.predict(X)).all())
    True
    >>> plain = collapsed.to_sklearn()
    >>> plain
    RandomForestRegressor(bootstrap=False, n_estimators=10)
    >>> bool(np.allclose(plain.predict(X), model.predict(X), rtol=1e-12))
    True
    """
    return ask(model).model.collapse()


def rank_of_quantiles(model: Any) -> AnyArray | None:
    """Place of each of a model's quantiles among them; None for a model of one, or of none.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted. Its predictions of several quantiles are put in order, so that none cross.

    Returns
    -------
    rank : int array of shape (n_scores,), or None
    """
    loss = getattr(model, "loss_", None)
    return loss.rank if isinstance(loss, PinballLoss) and loss.n_scores > 1 else None
