"""Models with a preparation of the columns before them: what the report, files and command read.

A model of this package takes numbers. A table with texts, dates and gaps goes through a
preparation first, and both live in a scikit-learn ``Pipeline``. Explanations, certificates and
bounds are of the model behind the preparation; attributions of prepared columns (one per category,
or per part of a date) are summed to the user's own columns. Sums stay sums, so that is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kpp._typing import FloatArray
from kpp.models.embedding import KPPEmbedding
from kpp.models.linear import KPPLinearModel
from kpp.models.reading import names_of


def unwrap(model: Any) -> tuple[Any | None, Any]:
    """Take a model apart: the fitted preparation, or None, and the fitted model of this package.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier, KPPEmbedding or Pipeline
        Fitted. A Pipeline has preparation steps and one of these as its last step.

    Returns
    -------
    preparation : transformer, Pipeline of transformers, or None
        What comes before the model; None where nothing does.
    kpp_model : KPPRegressor, KPPClassifier or KPPEmbedding
        The model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kpp import KPPClassifier
    >>> from kpp._pipelines import unwrap
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = KPPClassifier(n_estimators=10, alpha=1e-2, random_state=0)
    >>> pipeline = make_pipeline(StandardScaler(), classifier).fit(X, y)
    >>> preparation, model = unwrap(pipeline)
    >>> preparation, model is pipeline[-1]
    (StandardScaler(), True)
    >>> unwrap(model)[0] is None
    True
    """
    if isinstance(model, Pipeline) and model.steps:
        last = model.steps[-1][1]
        if _is_ours(last):
            check_is_fitted(last, "map_")
            steps = [(name, step) for name, step in model.steps[:-1] if not _is_nothing(step)]
            if not steps:
                return None, last
            return (steps[0][1] if len(steps) == 1 else Pipeline(steps)), last
        raise TypeError(
            "Expected a Pipeline whose last step is a KPPRegressor or KPPClassifier; the last "
            f"step is {type(last).__name__}."
        )
    if _is_ours(model):
        check_is_fitted(model, "map_")
        return None, model
    raise TypeError(
        "Expected a fitted KPPRegressor or KPPClassifier, or a scikit-learn Pipeline with one of "
        f"them as its last step; got {type(model).__name__}."
    )


def has_learned(preparation: Any | None) -> bool:
    """Whether a preparation depends on the rows that it was fitted on.

    Only a ``TableVectorizer`` that passes numbers through is known not to.

    Parameters
    ----------
    preparation : transformer or None
        From `unwrap`.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kpp._pipelines import has_learned
    >>> has_learned(None), has_learned(StandardScaler().fit([[1.0], [2.0]]))
    (False, True)
    """
    if preparation is None:
        return False
    if type(preparation).__name__ != "TableVectorizer":
        return True
    steps = getattr(preparation, "transformers_", {}).values()
    return any(type(step).__name__ != "PassThrough" for step in steps)


def prepared(preparation: Any | None, X: Any) -> Any:
    """Return rows as the model behind a preparation takes them.

    Parameters
    ----------
    preparation : transformer, Pipeline of transformers, or None
        From `unwrap`.
    X : array-like or data frame of shape (n_rows, n_columns)
        Rows as the user has them.

    Returns
    -------
    rows : array or data frame of shape (n_rows, n_features)
        With the names that the model was fitted with, where it was.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kpp._pipelines import prepared
    >>> X = np.array([[1.0], [3.0]])
    >>> prepared(StandardScaler().fit(X), X).tolist(), prepared(None, X) is X
    ([[-1.0], [1.0]], True)
    """
    return X if preparation is None else preparation.transform(X)


def prepared_names(preparation: Any | None, model: Any) -> list[str]:
    """Names of the columns that a model behind a preparation sees.

    Parameters
    ----------
    preparation : transformer, Pipeline of transformers, or None
        From `unwrap`.
    model : KPPRegressor, KPPClassifier or KPPEmbedding
        Likewise.

    Returns
    -------
    names : list of str
        Those that the model was fitted with; else those that the preparation gives; else x0,
        x1, ...

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp._pipelines import prepared_names
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KPPRegressor(n_estimators=5, alpha=1.0).fit(X[["bmi", "age"]], y)
    >>> prepared_names(None, model)
    ['bmi', 'age']
    """
    if preparation is not None and not hasattr(model, "feature_names_in_"):
        try:
            names = [str(name) for name in preparation.get_feature_names_out()]
        except (AttributeError, TypeError, ValueError):
            names = []
        if len(names) == model.n_features_in_:
            return names
    return list(names_of(model))


def source_columns(
    preparation: Any | None, names_in: Sequence[Any], names_out: Sequence[Any]
) -> list[str]:
    """Find, for every prepared column, the user's column that it was made of.

    Parameters
    ----------
    preparation : transformer, Pipeline of transformers, or None
        From `unwrap`.
    names_in : sequence of str
        The user's columns.
    names_out : sequence of str
        The prepared columns, as the model names them.

    Returns
    -------
    sources : list of str
        One for each of `names_out`: the column that the preparation says (skrub's
        ``input_to_outputs_``); otherwise the one of the same name, or the longest one that the
        name begins with, as in ``colour_red`` or ``encode__colour_red``; otherwise, for a mix of
        columns, the prepared name itself.

    Examples
    --------
    >>> from kpp._pipelines import source_columns
    >>> source_columns(object(), ["size", "colour"], ["size", "colour_red", "colour_blue", "pca0"])
    ['size', 'colour', 'colour', 'pca0']
    """
    inputs, outputs = [str(n) for n in names_in], [str(n) for n in names_out]
    if preparation is None:
        return outputs
    steps = [s for _, s in preparation.steps] if isinstance(preparation, Pipeline) else None
    if steps is None:
        return _sources_of_step(preparation, inputs, outputs)
    names, sources = inputs, {name: name for name in inputs}
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        made = outputs if last else _names_out(step, names)
        direct = _sources_of_step(step, names, made)
        sources = {
            name: sources.get(before, before) for name, before in zip(made, direct, strict=True)
        }
        names = made
    return [sources[name] for name in outputs]


def sum_by_source(values: FloatArray, sources: Sequence[str]) -> tuple[list[str], FloatArray]:
    """Add up the attributions of the prepared columns that came from the same column.

    Parameters
    ----------
    values : array of shape (n_rows, n_features) or (n_rows, n_features, n_outputs)
        Attributions of the prepared columns.
    sources : sequence of str, of length n_features
        From `source_columns`.

    Returns
    -------
    names : list of str
        The columns, in the order in which they come first.
    sums : array of shape (n_rows, n_names) or (n_rows, n_names, n_outputs)
        Sums over the prepared columns of each.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp._pipelines import sum_by_source
    >>> names, sums = sum_by_source(np.array([[1.0, 2.0, 4.0]]), ["b", "a", "b"])
    >>> names, sums.tolist()
    (['b', 'a'], [[5.0, 2.0]])
    """
    names = list(dict.fromkeys(sources))
    if len(names) == len(sources):
        return names, values
    place = {name: k for k, name in enumerate(names)}
    sums = np.zeros((values.shape[0], len(names), *values.shape[2:]))
    for j, source in enumerate(sources):
        sums[:, place[source]] += values[:, j]
    return names, sums


def _is_ours(model: Any) -> bool:
    return isinstance(model, KPPLinearModel | KPPEmbedding)


def _is_nothing(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


def _names_out(step: Any, names_in: list[str]) -> list[str]:
    """Names that a step inside a preparation gives to its columns."""
    for arguments in ((), (names_in,)):
        try:
            return [str(name) for name in step.get_feature_names_out(*arguments)]
        except (AttributeError, TypeError, ValueError):
            continue
    return names_in


def _sources_of_step(step: Any, inputs: list[str], outputs: list[str]) -> list[str]:
    listed = getattr(step, "input_to_outputs_", None)
    if listed is None:
        known = set(inputs)
        by_length = sorted(inputs, key=len, reverse=True)
        return [_source_by_name(name, known, by_length) for name in outputs]
    made_of: dict[str, str] = {}
    for source, made in listed.items():
        for name in made:
            # A column that was dropped is listed as made into itself, and another column may have
            # been made into that very name (a category "x" of "c" beside an empty "c_x").
            if str(name) not in made_of or str(name) != str(source):
                made_of[str(name)] = str(source)
    return [made_of.get(name, name) for name in outputs]


def _source_by_name(name: str, known: set[str], by_length: list[str]) -> str:
    for candidate in (name, name.partition("__")[2]):  # "step__column" of a ColumnTransformer
        if candidate in known:
            return candidate
        for column in by_length:
            if column and candidate.startswith(f"{column}_"):
                return column
    return name
