"""What every explanation reads from a fitted model, and the checks that all of them share."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from kpp._checks import RefusedError
from kpp._typing import AnyArray, FloatArray, IntArray
from kpp.geometry import named_blocks
from kpp.geometry.maps import MapBlock, PathMap
from kpp.models.data import check_new_rows
from kpp.models.reading import coefficients_of, fit_weight


@dataclass(frozen=True, eq=False)
class Part:
    r"""One forest of a model at some rows, with what each of its nodes adds to the scores.

    Parameters
    ----------
    name : str
        Name of the block; empty for the only forest of a model.
    block : PathMap
        The embedding of the forest at the rows.
    contribution : array of shape (n_scores, n_nodes)
        :math:`s_v w_v`: what node v adds to the score of a row that is in it.
    """

    name: str
    block: PathMap
    contribution: FloatArray

    @property
    def variable(self) -> IntArray:
        """Column that the split above each node tests, -1 at roots; shape (n_nodes,)."""
        return np.ascontiguousarray(self.block.coordinate_variable, dtype=np.int32)

    @property
    def roots(self) -> FloatArray:
        """Sum of the roots' contributions, shape (n_scores,)."""
        return self.contribution[:, self.block.forest.roots].sum(axis=1)


def check_variables(model: Any) -> None:
    """Refuse a split by variable where coordinates belong to no split."""
    if getattr(model, "coordinates", "path") == "leaf":
        raise RefusedError(
            "coordinates='leaf' keeps the cells but not the splits that lead to them, so there is "
            "no decomposition by variable: all would go to the last split. Use "
            "coordinates='path', or level='node' or level='shapley' of explain."
        )


def one_row(model: Any, x: Any, name: str = "x") -> Any:
    """Check the one row that a function explains: shape (n_features,) or (1, n_features)."""
    if hasattr(x, "iloc") and getattr(x, "ndim", 2) == 1:  # a row of a data frame
        x = x.to_frame().T if hasattr(model, "feature_names_in_") else x.to_numpy()
    if not hasattr(x, "columns"):
        x = x if hasattr(x, "ndim") else np.asarray(x, dtype=_dtype_of(x))
        x = x[None, :] if x.ndim == 1 else x
    if len(x.shape) != 2 or x.shape[0] != 1:
        raise ValueError(
            f"{name} must be one row, of shape ({model.n_features_in_},) or "
            f"(1, {model.n_features_in_}); got shape {tuple(x.shape)}. Pass X[i], or X.iloc[[i]] "
            "of a data frame; explain takes many rows."
        )
    return check_new_rows(model, x)


def check_rows(model: Any, X: Any) -> Any:
    """Check the rows that a function explains: at least one, in an array or a data frame."""
    X = check_new_rows(model, X)
    if X.shape[0] == 0:
        raise ValueError(
            f"Found array with 0 sample(s) (shape={tuple(X.shape)}) while a minimum of 1 is "
            f"required by {type(model).__name__}."
        )
    return X


def _dtype_of(x: Any) -> Any:
    """Lists that mix strings and numbers keep both."""
    flat = np.array(x, dtype=object).ravel().tolist()
    return object if any(isinstance(value, str) for value in flat) else None


def parts_at(model: Any, at_rows: MapBlock) -> list[Part]:
    """The forests of a model, at given rows, with the contributions of their nodes."""
    coefficients, _ = coefficients_of(model)
    parts, first = [], 0
    for name, block in named_blocks(at_rows):
        if not isinstance(block, PathMap):
            raise TypeError(f"Cannot explain a block of kind {type(block).__name__}: no forest.")
        last = first + block.shape[1]
        own = np.ascontiguousarray(block.scale * coefficients[:, first:last])
        parts.append(Part(name, block, own))
        first = last
    return parts


def support_of(model: Any) -> list[FloatArray]:
    """Share of the rows of the fit in each node, for each forest; 0 where the weight is 0."""
    weight = fit_weight(model)
    return [
        np.divide(block.rmatvec(weight), block.scale, out=zeros, where=block.scale > 0)
        for _, block in named_blocks(model.map_)
        for zeros in [np.zeros(block.shape[1])]
    ]


def tree_names(parts: list[tuple[str, Any]]) -> tuple[str, ...]:
    """Names of the trees, as in the names of the coordinates."""
    return tuple(
        f"{name}__t{tree}" if name else f"t{tree}"
        for name, block in parts
        for tree in range(block.forest.n_trees)
    )


def outputs_of(model: Any) -> tuple[Hashable, ...]:
    """What the scores stand for: classes, or numbers of targets; one for a single score."""
    if is_classifier(model):
        classes = model.classes_.tolist()
        return tuple(classes) if len(classes) > 2 else (classes[1],)
    return tuple(range(len(np.atleast_1d(model.intercept_))))


@dataclass(frozen=True)
class Output:
    """One of the scores of a model.

    Parameters
    ----------
    index : int
        Which score.
    sign : float
        -1 for the first of two classes, whose score is minus the other's.
    name : str
        How it is called.
    """

    index: int
    sign: float
    name: str


def place_of(output: Any, options: Sequence[Any]) -> int | None:
    """Position of an output among those that there are; True and False are no numbers."""

    def is_bool(value: Any) -> bool:
        return isinstance(value, bool | np.bool_)

    try:
        hash(output)
    except TypeError:  # arrays and lists, which have no single truth value when compared
        return None
    same = (k for k, o in enumerate(options) if is_bool(o) == is_bool(output) and o == output)
    return next(same, None)


def choose_output(model: Any, output: Any, scores: AnyArray) -> Output:
    """Find the score that the user asked for; by default the only one, or the predicted class."""
    outputs = outputs_of(model)
    if is_classifier(model):
        classes = model.classes_.tolist()
        if output is None:
            index = 0 if len(classes) == 2 else int(np.argmax(scores))
            return Output(index, 1.0, f"score of {outputs[index]!r}")
        place = place_of(output, classes)
        if place is None:
            raise ValueError(f"output must be one of the classes, {classes}; got {output!r}.")
        name = f"score of {classes[place]!r}"
        if len(classes) == 2:
            return Output(0, 1.0 if place == 1 else -1.0, name)
        return Output(place, 1.0, name)
    if len(outputs) == 1:
        if output is not None and place_of(output, outputs) is None:
            raise ValueError(f"This model has one output, number 0; got output={output!r}.")
        return Output(0, 1.0, "prediction")
    place = place_of(output, outputs)
    if place is None:
        raise ValueError(
            f"This model has {len(outputs)} outputs: choose one by output=0 to "
            f"output={len(outputs) - 1}; got {output!r}."
        )
    return Output(place, 1.0, f"prediction of output {place}")


def check_top(top: Any) -> int:
    """Refuse what is not a number of lines to show."""
    if not isinstance(top, int | np.integer) or isinstance(top, bool) or top < 0:
        raise ValueError(f"top must be a number of lines, 0 or more; got {top!r}.")
    return int(top)
