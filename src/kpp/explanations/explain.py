"""`explain`: scores taken apart by variable, by node, or into Shapley values."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import get_config

from kpp._checks import check_choice
from kpp._parallel import blocks_of, run_blocks
from kpp._typing import FloatArray, IntArray
from kpp.explanations._loops import add_by_variable
from kpp.explanations.attribution import Attribution, column_of
from kpp.explanations.by_tree import TreeParts
from kpp.explanations.checks import check_variables
from kpp.forest.columns import column_shares
from kpp.geometry.composed import block_slices
from kpp.geometry.linear import LinearMap
from kpp.models.asking import Question, ask
from kpp.models.pipelines import as_rows, raw_columns, sum_by_source
from kpp.scores import AdditiveForest, RoutedRows
from kpp.scores.additive import ScoreBlock

LEVELS = ("variable", "node", "shapley", "block")
# Rows that pass over all trees together; fixed, so that threads change nothing.
ROWS_PER_BLOCK = 512


def explain(model: Any, X: Any, *, level: str = "variable", centered: bool = False) -> Attribution:
    r"""Take the scores of rows apart, exactly.

    With :math:`g(x) = b + \langle w, \Phi(x) \rangle`, every node v adds :math:`w_v \Phi_v(x)`. By
    variable, that goes to the variable that the split above v tests,

    .. math::
        g(x) = c_0 + \sum_j \Psi_j(x), \qquad
        \Psi_j(x) = \sum_{v:\ \mathrm{split}(\mathrm{par}(v)) = j} w_v \Phi_v(x)

    and the roots, which have no split above them, join the intercept in :math:`c_0`. Below an
    oblique split, which tests several variables, each gets its share of :math:`w_v \Phi_v(x)`:
    ``forest.term_shares``, which add up to 1. A linear term (``main_effects="linear"``) goes to its
    own column, and is 0 where that is at its mean.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline
        Fitted. A classifier is explained on its score (log-odds; one per class for more than two
        classes): probabilities are no sums. Behind the preparation of a Pipeline, the values of
        the prepared columns add up to those of the raw columns that they were made of.
    X : array-like, data frame or RoutedRows of shape (n_rows, n_columns), or one row
        Rows. A single one may be a 1-d array, a Series or a dict.
    level : {"variable", "node", "shapley", "block"}, default="variable"
        "variable": one value per column. "node": one per coordinate, as a CSR matrix; the roots
        are among them, and the baseline is the intercept. "shapley": TreeSHAP values of the very
        same score, through the collapsed forest; needs the extra ``shap``. Behind a preparation
        these are sums of the Shapley values of prepared columns, each of them a player of its own.
        "block": one per forest of the model, and one for its linear terms: the parts of a blend.
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
    >>> model = KPPRegressor("extra-trees", n_estimators=20, alpha=1.0, random_state=0).fit(X, y)
    >>> attribution = explain(model, X)
    >>> attribution.values.shape
    (442, 10)
    >>> total = attribution.baseline + attribution.values.sum(axis=1)
    >>> bool(np.allclose(total, model.predict(X), rtol=1e-10))
    True
    >>> attribution.summary().to_frame().index[:2].tolist()
    ['bmi', 's5']
    """
    question = ask(model)
    given = as_given(question, X)
    return explain_rows(question, question.rows(given), given, level=level, centered=centered)


def as_given(question: Question, X: Any) -> Any:
    """Return rows as the user has them, one row as a table of one; routed rows as they are."""
    if isinstance(X, RoutedRows):
        return X
    return as_rows(X, raw_columns(question.preparation, question.model))


def explain_rows(
    question: Question, rows: RoutedRows, given: Any, *, level: str, centered: bool
) -> Attribution:
    """Take the scores of routed rows apart; see `explain`.

    Parameters
    ----------
    question : Question
        The model, and its preparation.
    rows : RoutedRows
        The rows.
    given : array, data frame or RoutedRows of shape (n_rows, n_columns)
        The same rows as the user has them, for their values and labels.
    level, centered : as in `explain`
        What to compute.

    Returns
    -------
    attribution : Attribution
    """
    check_choice("level", level, LEVELS)
    if level == "variable":
        check_variables(question.model)
    if level == "shapley" and centered:
        raise ValueError(
            "level='shapley' has its own baseline, the mean of each tree over the rows of the "
            "fit: use centered=False."
        )
    values: Any
    trees, names, data = None, question.names, rows.X
    if level == "node":
        values, baseline = _by_node(question, rows, centered)
        names = tuple(question.model.map_.coordinate_names)
    elif level == "block":
        values, baseline = _by_block(question, rows, centered)
        # A model of one forest has one block, without a name.
        names = tuple(block.name or "forest" for block in question.additive.blocks)
        names, data = (*names, *(terms.name for terms in question.additive.linear)), None
    elif level == "shapley":
        from kpp.explanations.shapley import shapley_values

        values, baseline = shapley_values(question.model, rows)
    else:
        values, baseline, shift = _by_variable(question, rows, centered)
        trees = TreeParts(rows, shift=shift)
    if question.preparation is not None and level not in ("node", "block"):
        sources, values = sum_by_source(values, question.sources)
        names, data = tuple(sources), _values_of_sources(question, rows, given, sources)
        trees = None if trees is None else _by_source(trees, question.sources)
    single = rows.scores.shape[1] == 1
    table = rows.X if isinstance(given, RoutedRows) else given
    return Attribution(
        values=(values[0] if isinstance(values, list) else values[..., 0]) if single else values,
        baseline=float(baseline[0]) if single else baseline,
        scores=rows.scores[:, 0] if single else rows.scores,
        feature_names=names,
        level=level,
        centered=centered,
        outputs=question.additive.outputs,
        regime=question.regime.name,
        data=data,
        index=table.index if hasattr(table, "iloc") else None,
        trees=trees,
    )


def baseline_of(additive: AdditiveForest) -> FloatArray:
    """Intercept and roots, which every row is in; shape (n_scores,)."""
    # The path sum of a root is what it adds itself.
    roots = [block.node_values[:, block.forest.roots].sum(axis=1) for block in additive.blocks]
    return additive.intercept + sum(roots)


def _by_variable(
    question: Question, rows: RoutedRows, centered: bool
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Values of shape (n_rows, n_columns, n_scores), baselines, and what centring took off."""
    additive, n_columns = question.additive, question.model.n_features_in_
    values = np.zeros((additive.n_scores, len(rows), n_columns))
    baseline = baseline_of(additive)
    # Psi_j(x): what the nodes on the row's paths add, by the variable of the split above each.
    for block, leaf_ids in zip(additive.blocks, rows.leaf_ids, strict=True):
        for out, contribution in zip(values, block.contribution, strict=True):
            _add(leaf_ids, block, contribution, out, rows.n_jobs)
    # A linear term belongs to its column.
    for terms, coordinates in zip(additive.linear, rows.linear_values, strict=True):
        values += terms.by_column(coordinates)
    shift = None
    if centered:
        shift = _mean_by_tree(question)
        total = shift.sum(axis=1) + _mean_of_terms(question)
        # Equation attribution-centered: Psi_j less its mean over the rows of the fit, which joins
        # the baseline. The sum stays the score.
        values -= total[:, None, :]
        baseline = baseline + total.sum(axis=1)
    # Outputs last, as scikit-learn and shap have them, but each output's values together.
    return values.transpose(1, 2, 0), baseline, shift


def _by_block(
    question: Question, rows: RoutedRows, centered: bool
) -> tuple[FloatArray, FloatArray]:
    """What each forest adds: values of shape (n_rows, n_blocks, n_scores), and baselines."""
    additive, baseline = question.additive, baseline_of(question.additive)
    values = []
    of_trees, of_terms = _means_by_block(question)  # used where centred
    for block, leaf_ids, means in zip(additive.blocks, rows.leaf_ids, of_trees, strict=True):
        roots = block.node_values[:, block.forest.roots].sum(axis=1)
        own = AdditiveForest((block,), -roots).scores_at([leaf_ids], n_jobs=rows.n_jobs)
        if centered:
            mean = means.sum(axis=1) - roots
            own, baseline = own - mean, baseline + mean
        values.append(own)
    for terms, coordinates, means in zip(
        additive.linear, rows.linear_values, of_terms, strict=True
    ):
        own = np.zeros((additive.n_scores, len(rows)))
        terms.add_to(own, coordinates)
        own = own.T
        if centered:
            own, baseline = own - means.sum(axis=1), baseline + means.sum(axis=1)
        values.append(own)
    return np.stack(values, axis=1), baseline


def _add(
    leaf_ids: IntArray,
    block: ScoreBlock,
    contribution: FloatArray,
    out: FloatArray,
    n_jobs: int | None,
) -> None:
    blocks = blocks_of(len(out), -(-len(out) // ROWS_PER_BLOCK))
    forest, variable = block.forest, block.variable
    terms = forest.term_offsets, forest.term_columns, forest.term_shares
    run_blocks(
        lambda b: add_by_variable(
            leaf_ids, forest.parent, variable, *terms, contribution, *blocks[b], out
        ),
        len(blocks),
        n_jobs,
    )


def _mean_by_tree(question: Question) -> FloatArray:
    """Mean over the rows of the fit of each tree's values, shape (n_scores, n_trees, n_columns)."""
    n_columns, blocks = question.model.n_features_in_, question.additive.blocks
    means = []
    for block, mean in zip(blocks, _means_by_block(question)[0], strict=True):
        forest = block.forest
        # Roots have no variable, and stay out.
        node, column, share = column_shares(forest)
        place = forest.tree_of_node[node] * n_columns + column
        size = forest.n_trees * n_columns
        sums = [np.bincount(place, row[node] * share, minlength=size) for row in mean]
        means.append(np.reshape(sums, (len(sums), forest.n_trees, n_columns)))
    return np.concatenate(means, axis=1)


def _mean_of_terms(question: Question) -> FloatArray:
    """Mean over the rows of the fit of the linear terms, by column; shape (n_scores, n_columns)."""
    total = np.zeros((question.additive.n_scores, question.model.n_features_in_))
    for terms, mean in zip(question.additive.linear, _means_by_block(question)[1], strict=True):
        for k, column in enumerate(terms.terms.column.tolist()):
            total[:, column] += mean[:, k]
    return total


def _means_by_block(question: Question) -> tuple[list[FloatArray], list[FloatArray]]:
    """`_mean_of_nodes` of each forest, and of each block of linear terms."""
    mean, blocks = _mean_of_nodes(question), block_slices(question.model.map_)
    of_trees = [mean[:, place] for _, block, place in blocks if not isinstance(block, LinearMap)]
    of_terms = [mean[:, place] for _, block, place in blocks if isinstance(block, LinearMap)]
    return of_trees, of_terms


def _mean_of_nodes(question: Question) -> FloatArray:
    r""":math:`w_v \bar\phi_v`, shape (n_scores, m)."""
    return question.node_coef * question.mean_row


def _by_node(question: Question, rows: RoutedRows, centered: bool) -> tuple[Any, FloatArray]:
    """A CSR matrix per score, or dense arrays where centred; and the baselines."""
    coefficients, intercept = question.node_coef, question.intercept
    if centered:
        _check_size(len(rows), coefficients.shape[1], len(intercept))
    phi = rows.map.to_csr()
    values = []
    for w in coefficients:
        own = phi.copy()
        # w_v Phi_v(x): the matrix keeps its pattern, and only its entries are scaled.
        own.data *= w[phi.indices]
        values.append(own)
    if not centered:
        return values, intercept
    mean = _mean_of_nodes(question)
    dense = np.stack([v.toarray() - m for v, m in zip(values, mean, strict=True)], axis=2)
    return dense, intercept + mean.sum(axis=1)


def _by_source(trees: TreeParts, sources: tuple[str, ...]) -> TreeParts:
    """Sums by tree of raw columns instead of prepared ones."""
    numbers = {name: k for k, name in enumerate(dict.fromkeys(sources))}
    place = np.array([numbers[name] for name in sources], dtype=np.int32)
    shift = trees.shift
    if shift is not None:
        shift = np.stack([sum_by_source(of_score, sources)[1] for of_score in shift])
    return TreeParts(trees.rows, place, shift)


def _values_of_sources(question: Question, rows: RoutedRows, given: Any, sources: list[str]) -> Any:
    """The columns that values are of, as the user has them; None where only prepared ones are.

    A mix of columns (a principal component) is a source of its own, with its prepared values.
    """
    if isinstance(given, RoutedRows):
        return None
    table = given if hasattr(given, "shape") else np.array(given, dtype=object)
    raw = raw_columns(question.preparation, question.model)
    if hasattr(table, "columns"):
        raw = [str(name) for name in table.columns]
    elif raw is None:
        raw = [f"x{j}" for j in range(table.shape[1])]
    if hasattr(table, "iloc") and set(sources) <= set(raw):
        return table.iloc[:, [raw.index(name) for name in sources]]
    # A mix of columns is no column of the user's: its values are the prepared ones.
    columns = [
        column_of(table, raw.index(name))
        if name in raw
        else column_of(rows.X, question.names.index(name))
        for name in sources
    ]
    are_numbers = all(column.dtype.kind in "fiub" for column in columns)
    values = np.empty((len(rows), len(columns)), dtype=np.float64 if are_numbers else object)
    for j, column in enumerate(columns):
        values[:, j] = column
    return values


def _check_size(n_rows: int, n_nodes: int, n_scores: int) -> None:
    need, limit = 8 * n_rows * n_nodes * n_scores / 2**20, get_config()["working_memory"]
    if need > limit:
        raise ValueError(
            f"Centred contributions have no zeros: {n_rows} rows, {n_nodes} nodes and {n_scores} "
            f"score(s) need {need:.0f} MiB, and scikit-learn's working_memory is {limit} MiB. "
            "Explain fewer rows, use level='variable', or take centered=False, which is sparse, "
            "and subtract model.node_coef_ * model.map_.mean_row()."
        )
