"""`explain`: scores taken apart by variable, by node, or into Shapley values."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import get_config

from kpp._checks import check_choice
from kpp._parallel import blocks_of, run_blocks
from kpp._typing import FloatArray
from kpp.explanations._loops import add_by_variable
from kpp.explanations._model import Part, check_rows, check_variables, outputs_of, parts_at
from kpp.explanations.attribution import Attribution
from kpp.models.reading import check_model, coefficients_of, fit_weight, names_of, scores_of

LEVELS = ("variable", "node", "shapley")
# Rows that pass over all trees together; fixed, so that threads change nothing.
ROWS_PER_BLOCK = 512


def explain(model: Any, X: Any, *, level: str = "variable", centered: bool = False) -> Attribution:
    r"""Take the scores of rows apart, exactly.

    With :math:`g(x) = b + \langle w, \Phi(x) \rangle`, every node v adds :math:`w_v \Phi_v(x)`. By
    variable, that goes to the variable that the split above v tests,

    .. math::
        g(x) = c_0 + \sum_j \Psi_j(x), \qquad
        \Psi_j(x) = \sum_{v:\ \mathrm{split}(\mathrm{par}(v)) = j} w_v \Phi_v(x)

    and the roots, which have no split above them, join the intercept in :math:`c_0`.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted. A classifier is explained on its score (log-odds; one per class for more than two
        classes): probabilities are no sums.
    X : array-like or data frame of shape (n_rows, n_features)
        Rows.
    level : {"variable", "node", "shapley"}, default="variable"
        "variable": one value per column. "node": one per coordinate, as a CSR matrix; the roots
        are among them, and the baseline is the intercept. "shapley": TreeSHAP values of the very
        same score, through the collapsed forest; needs the extra ``shap``.
    centered : bool, default=False
        Whether to explain the difference from the mean score of the rows of the fit (weighted as
        they were, where the model knows it): values become
        :math:`w_v (\Phi_v(x) - \bar\phi_v)`, the baseline :math:`b + \langle w, \bar\phi \rangle`.
        At the node level that is a dense array; above scikit-learn's ``working_memory`` it is an
        error.

    Returns
    -------
    attribution : Attribution
        ``baseline`` plus the sum of ``values`` is the score, for every row; ``residual`` is the
        largest deviation.

    Notes
    -----
    What this is: an exact account of the fitted parametrisation, the one that the penalty
    selects among the many that predict the same. It depends on the paths: a value belongs to the
    last split on the way to a node, given all splits above. It is not a Shapley value, and
    promises neither symmetry nor 0 for a variable that the prediction does not depend on.

    It equals the Saabas decomposition (treeinterpreter) of the collapsed forest whose internal
    nodes hold their path sums, as ``collapse(model).to_sklearn()`` does. Tools that recompute
    internal values from leaves and numbers of rows give something else.

    Cost: one walk from leaf to root per row and tree; memory 8 bytes per value and 4 per row and
    tree, whatever the depth.

    References
    ----------
    Propositions attribution-node and attribution-variable, equation attribution-centered, remarks
    attribution-identifiability and attribution-not-axiomatic.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.explanations import explain
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KPPRegressor(n_estimators=20, alpha=1.0, random_state=0).fit(X, y)
    >>> attribution = explain(model, X)
    >>> attribution.values.shape
    (442, 10)
    >>> total = attribution.baseline + attribution.values.sum(axis=1)
    >>> bool(np.allclose(total, model.predict(X), rtol=1e-10))
    True
    >>> attribution.summary().to_frame().index[:2].tolist()
    ['bmi', 's5']
    """
    check_model(model)
    check_choice("level", level, LEVELS)
    if level == "variable":
        check_variables(model)
    if level == "shapley" and centered:
        raise ValueError(
            "level='shapley' has its own baseline, the mean of each tree over the rows of the "
            "fit: use centered=False."
        )
    values: Any
    checked = check_rows(model, X)
    scores = scores_of(model, X)
    if level == "shapley":
        from kpp.explanations.shapley import shapley_values

        values, baseline = shapley_values(model, checked)
        parts, shift = None, None
    else:
        parts = parts_at(model, model.map_.on(checked))
        compute = _by_variable if level == "variable" else _by_node
        values, baseline, shift = compute(model, parts, centered)
    single = scores.shape[1] == 1
    return Attribution(
        values=(values[0] if isinstance(values, list) else values[..., 0]) if single else values,
        baseline=float(baseline[0]) if single else baseline,
        scores=scores[:, 0] if single else scores,
        feature_names=tuple(model.map_.coordinate_names) if level == "node" else names_of(model),
        level=level,
        centered=centered,
        outputs=outputs_of(model),
        regime=model.regime_,
        data=checked,
        index=checked.index if hasattr(checked, "iloc") else None,
        parts=parts,
        shift=shift,
    )


def _by_variable(
    model: Any, parts: list[Part], centered: bool
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Values of shape (n_rows, n_features, n_scores), baselines, and what centring took off."""
    _, intercept = coefficients_of(model)
    n_rows, n_features = parts[0].block.shape[0], model.n_features_in_
    values = np.zeros((len(intercept), n_rows, n_features))
    baseline = intercept + sum(part.roots for part in parts)
    for part in parts:
        variable, parent = part.variable, part.block.forest.parent
        for out, contribution in zip(values, part.contribution, strict=True):
            _add(part.block.leaf_ids, parent, variable, contribution, out, model.n_jobs)
    shift = None
    if centered:
        shift = _mean_by_tree(model, parts)
        total = shift.sum(axis=1)
        values -= total[:, None, :]
        baseline = baseline + total.sum(axis=1)
    # Outputs last, as scikit-learn and shap have them, but each output's values together.
    return values.transpose(1, 2, 0), baseline, shift


def _add(
    leaf_ids: Any, parent: Any, variable: Any, contribution: Any, out: FloatArray, n_jobs: Any
) -> None:
    blocks = blocks_of(len(out), -(-len(out) // ROWS_PER_BLOCK))
    run_blocks(
        lambda b: add_by_variable(leaf_ids, parent, variable, contribution, *blocks[b], out),
        len(blocks),
        n_jobs,
    )


def _mean_by_tree(model: Any, parts: list[Part]) -> FloatArray:
    """Mean over the rows of the fit of each tree's values, shape (n_scores, n_trees, p)."""
    n_features = model.n_features_in_
    means = []
    for part, contribution in zip(parts, _mean_contribution(model, parts), strict=True):
        forest, variable = part.block.forest, part.variable
        below = variable >= 0
        place = (forest.tree_of_node * n_features + variable)[below]
        size = forest.n_trees * n_features
        mean = [np.bincount(place, row[below], minlength=size) for row in contribution]
        means.append(np.reshape(mean, (len(mean), forest.n_trees, n_features)))
    return np.concatenate(means, axis=1)


def _mean_contribution(model: Any, parts: list[Part]) -> list[FloatArray]:
    r""":math:`w_v \bar\phi_v` for each forest, shape (n_scores, n_nodes)."""
    mean = model.map_.mean_row(fit_weight(model))
    coefficients, _ = coefficients_of(model)
    sizes = [part.block.shape[1] for part in parts]
    return np.split(coefficients * mean, np.cumsum(sizes)[:-1], axis=1)


def _by_node(model: Any, parts: list[Part], centered: bool) -> tuple[Any, FloatArray, None]:
    """A CSR matrix per score, or dense arrays where centred; and the baselines."""
    from scipy import sparse

    coefficients, intercept = coefficients_of(model)
    n_rows, n_nodes = parts[0].block.shape[0], coefficients.shape[1]
    if centered:
        _check_size(n_rows, n_nodes, len(intercept))
    phi = sparse.hstack([part.block.to_csr() for part in parts], format="csr")
    values = []
    for w in coefficients:
        own = phi.copy()
        own.data *= w[phi.indices]
        values.append(own)
    if not centered:
        return values, intercept, None
    mean = coefficients * model.map_.mean_row(fit_weight(model))
    dense = np.stack([v.toarray() - m for v, m in zip(values, mean, strict=True)], axis=2)
    return dense, intercept + mean.sum(axis=1), None


def _check_size(n_rows: int, n_nodes: int, n_scores: int) -> None:
    need, limit = 8 * n_rows * n_nodes * n_scores / 2**20, get_config()["working_memory"]
    if need > limit:
        raise ValueError(
            f"Centred contributions have no zeros: {n_rows} rows, {n_nodes} nodes and {n_scores} "
            f"score(s) need {need:.0f} MiB, and scikit-learn's working_memory is {limit} MiB. "
            "Explain fewer rows, use level='variable', or take centered=False, which is sparse, "
            "and subtract model.node_coef_ * model.map_.mean_row()."
        )
