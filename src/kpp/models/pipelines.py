r"""Models behind a preparation: a ``Pipeline`` taken apart, and attributions brought home.

A model of this package takes numbers. A table with texts, dates and gaps goes through a
preparation first, and both live in a scikit-learn ``Pipeline``. Explanations, certificates and
bounds are of the model behind the preparation. Its score is a sum over the prepared columns,

.. math:: g(x) = b + \sum_j c_j(x) = b + \sum_s \sum_{j \text{ made of } s} c_j(x),

so contributions of prepared columns (one per category, or per part of a date) add up to those of
the user's own columns s, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kpp._assumptions import Assumption
from kpp._checks import is_missing
from kpp._optional import optional
from kpp._typing import FloatArray
from kpp.models.embedding import KPPEmbedding
from kpp.models.interval_conditions import PREPARED
from kpp.models.interval_results import CrossConformal
from kpp.models.linear import KPPLinearModel

FittedModel: TypeAlias = KPPLinearModel | KPPEmbedding
Found = TypeVar("Found", bound=CrossConformal)


class Preparation(Protocol):
    """What comes before a model: one fitted transformer, or a Pipeline of them."""

    def transform(self, X: Any) -> Any:
        """Rows as the model takes them."""


def split_pipeline(model: Any) -> tuple[Preparation | None, FittedModel]:
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
    >>> from kpp.models.pipelines import split_pipeline
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = KPPClassifier("extra-trees", n_estimators=10, alpha=1e-2, random_state=0)
    >>> pipeline = make_pipeline(StandardScaler(), classifier).fit(X, y)
    >>> preparation, model = split_pipeline(pipeline)
    >>> preparation, model is pipeline[-1]
    (StandardScaler(), True)
    >>> split_pipeline(model)[0] is None
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


def has_learned(preparation: Preparation | None) -> bool:
    """Whether a preparation depends on the rows that it was fitted on.

    Only a ``TableVectorizer`` that passes numbers through is known not to.

    Parameters
    ----------
    preparation : transformer or None
        From `split_pipeline`.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kpp.models.pipelines import has_learned
    >>> has_learned(None), has_learned(StandardScaler().fit([[1.0], [2.0]]))
    (False, True)
    """
    if preparation is None:
        return False
    if type(preparation).__name__ != "TableVectorizer":
        return True
    steps = getattr(preparation, "transformers_", {}).values()
    return any(type(step).__name__ != "PassThrough" for step in steps)


def behind_preparation(found: Found, preparation: Preparation | None) -> Found:
    """Return intervals or sets with what a preparation of their rows takes from their guarantee.

    Parameters
    ----------
    found : PredictionIntervals or PredictionSets
        Of the model behind it.
    preparation : transformer or None
        From `split_pipeline`.

    Returns
    -------
    found : PredictionIntervals or PredictionSets
        With one more condition, which fails, where `has_learned` says so.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kpp import KPPRegressor
    >>> from kpp.models.pipelines import behind_preparation
    >>> X, y = load_diabetes(return_X_y=True)
    >>> scaler = StandardScaler().fit(X)
    >>> model = KPPRegressor("extra-trees", n_estimators=5, cv=3, random_state=0)
    >>> found = model.fit(scaler.transform(X), y).predict_interval(scaler.transform(X[:2]))
    >>> behind_preparation(found, scaler).failing[-1].name
    'columns prepared without these rows'
    """
    if not has_learned(preparation):
        return found
    why = "the preparation was fitted on all rows of the fit, those of every fold among them"
    return replace(found, conditions=(*found.conditions, Assumption(PREPARED, False, why)))


def raw_columns(preparation: Preparation | None, model: FittedModel) -> list[str] | None:
    """Names of the user's columns, in the order in which they were given to fit.

    Parameters
    ----------
    preparation : transformer, Pipeline of transformers, or None
        From `split_pipeline`.
    model : KPPRegressor, KPPClassifier or KPPEmbedding
        Likewise.

    Returns
    -------
    names : list of str or None
        None where the fit was given rows without names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.models.pipelines import raw_columns
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0)
    >>> raw_columns(None, model.fit(X[["bmi", "age"]], y))
    ['bmi', 'age']
    >>> raw_columns(None, model.fit(X.to_numpy(), y)) is None
    True
    """
    # The first step has seen the user's own columns; later ones have seen what it made of them.
    first: Any = model if preparation is None else preparation
    if isinstance(first, Pipeline):
        first = first.steps[0][1]
    names = getattr(first, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def as_rows(X: Any, names: Sequence[str] | None) -> Any:
    """Return one row, in whatever form it comes, as a table of one row; tables as they are.

    Parameters
    ----------
    X : array-like, data frame, Series or mapping
        Rows; or one row: a 1-d array or list, a Series (a row of a data frame), or a mapping from
        names to values, which may have more entries than there are columns. A row without names
        takes those of the fit.
    names : sequence of str or None
        The user's columns, from `raw_columns`.

    Returns
    -------
    rows : array-like or data frame of shape (n_rows, n_columns)
        Columns of a row with names stand in the order of `names`.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.models.pipelines import as_rows
    >>> as_rows(np.array([1.0, 2.0]), None).shape
    (1, 2)
    >>> as_rows({"colour": "red", "size": 2.0}, ["size", "colour"]).to_numpy().tolist()
    [[2.0, 'red']]
    """
    is_series = hasattr(X, "iloc") and getattr(X, "ndim", 2) == 1
    if is_series and names is None:
        X = X.to_numpy()
    elif is_series or (isinstance(X, Mapping) and not hasattr(X, "columns")):
        return _named_row(X, names)
    is_list = isinstance(X, list | tuple)
    n_dims = np.ndim(np.array(X, dtype=object)) if is_list else getattr(X, "ndim", 2)
    if n_dims != 1:
        return X
    if names is not None and len(X) == len(names):
        # A preparation may know its columns by name only.
        return _frame_of_row(list(X) if is_list else X.tolist(), names)
    if is_list:  # numbers beside strings stay numbers
        X = np.array(X, dtype=object if any(isinstance(value, str) for value in X) else None)
    return X[None, :]


def _named_row(row: Any, names: Sequence[str] | None) -> Any:
    if names is None:
        raise ValueError(
            "One row by names needs a model that was fitted on a data frame; this one knows no "
            "names of columns. Give the row as an array."
        )
    missing = [name for name in names if name not in row]
    if missing:
        raise ValueError(
            f"The row must have a value for every column of the fit; it lacks {missing[:5]}. For "
            "an unknown value give NaN or None."
        )
    return _frame_of_row([row[name] for name in names], names)


def _frame_of_row(values: list[Any], names: Sequence[str]) -> Any:
    pd = optional("pandas", "One row by names")
    # A row of a frame of several types is an object; its columns are not. That of a missing value
    # stays one: it may be a number or a text, and as a number it would fail where texts are due.
    columns = [pd.Series([value], dtype=object if is_missing(value) else None) for value in values]
    return pd.concat(columns, axis=1).set_axis(list(names), axis=1)


def prepared(preparation: Preparation | None, X: Any) -> Any:
    """Return rows as the model behind a preparation takes them.

    Parameters
    ----------
    preparation : transformer, Pipeline of transformers, or None
        From `split_pipeline`.
    X : array-like or data frame of shape (n_rows, n_columns)
        Rows as the user has them, one or many; a single one as a table, which `as_rows` makes.

    Returns
    -------
    rows : array or data frame of shape (n_rows, n_features)
        With the names that the model was fitted with, where it was.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kpp.models.pipelines import prepared
    >>> X = np.array([[1.0], [3.0]])
    >>> prepared(StandardScaler().fit(X), X).tolist(), prepared(None, X) is X
    ([[-1.0], [1.0]], True)
    """
    return X if preparation is None else preparation.transform(X)


def prepared_names(
    preparation: Preparation | None, model: FittedModel, names_in: Sequence[str] | None = None
) -> list[str]:
    """Names of the columns that a model behind a preparation sees.

    Parameters
    ----------
    preparation : transformer, Pipeline of transformers, or None
        From `split_pipeline`.
    model : KPPRegressor, KPPClassifier or KPPEmbedding
        Likewise.
    names_in : sequence of str, optional
        The user's columns, for a preparation that was fitted on rows without names.

    Returns
    -------
    names : list of str
        Those that the model was fitted with; else those that the preparation gives; else x0,
        x1, ...

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.models.pipelines import prepared_names
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0).fit(X[["bmi", "age"]], y)
    >>> prepared_names(None, model)
    ['bmi', 'age']
    """
    if preparation is not None and not hasattr(model, "feature_names_in_"):
        given = () if names_in is None else (names_in,)
        names = _names_out(preparation, given)
        if names is not None and len(names) == model.n_features_in_:
            return names
    return list(names_of(model))


def source_columns(
    preparation: Preparation | None, names_in: Sequence[Any], names_out: Sequence[Any]
) -> list[str]:
    """Find, for every prepared column, the user's column that it was made of.

    Parameters
    ----------
    preparation : transformer, Pipeline of transformers, or None
        From `split_pipeline`.
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
    >>> from kpp.models.pipelines import source_columns
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
        # Names of the last step are the model's own. In between, what a step calls its columns; a
        # step that names none is taken to keep them.
        made = outputs if last else _names_out(step) or _names_out(step, (names,)) or names
        direct = _sources_of_step(step, names, made)
        # Composed: a column of this step, made of a column of the one before, made of a raw one.
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
    >>> from kpp.models.pipelines import sum_by_source
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


def names_of(model: FittedModel) -> tuple[str, ...]:
    """Names of the columns of X; x0, x1, ... where the model has seen none."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return tuple(f"x{j}" for j in range(model.n_features_in_))
    return tuple(str(name) for name in names)


def _is_ours(model: Any) -> bool:
    return isinstance(model, KPPLinearModel | KPPEmbedding)


def _is_nothing(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


def _names_out(step: Any, arguments: tuple[Sequence[str], ...] = ()) -> list[str] | None:
    """Names that a step gives to its columns, where it knows them."""
    try:
        return [str(name) for name in step.get_feature_names_out(*arguments)]
    except (AttributeError, TypeError, ValueError):
        return None


def _sources_of_step(step: Any, inputs: list[str], outputs: list[str]) -> list[str]:
    listed = getattr(step, "input_to_outputs_", None)
    if listed is None:
        known = set(inputs)
        # The longest name first: "size_max_log" comes from "size_max", not from "size".
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
