"""Which of a model's scores a question is about."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._typing import AnyArray
from kpp.scores import AdditiveForest


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


def place_of(output: Any, options: Sequence[Hashable]) -> int | None:
    """Find an output among those that there are; True and False are no numbers.

    Parameters
    ----------
    output : object
        What the user asked for.
    options : sequence
        Classes, or numbers of targets.

    Returns
    -------
    place : int or None
        Its position; None where it is none of them.

    Examples
    --------
    >>> from kpp.explanations.outputs import place_of
    >>> place_of("b", ["a", "b"]), place_of(1.0, [0, 1]), place_of(True, [0, 1])
    (1, 1, None)
    """

    def is_bool(value: Any) -> bool:
        return isinstance(value, bool | np.bool_)

    try:
        hash(output)
    except TypeError:  # arrays and lists, which have no single truth value when compared
        return None
    same = (k for k, o in enumerate(options) if is_bool(o) == is_bool(output) and o == output)
    return next(same, None)


def choose_output(additive: AdditiveForest, output: Any, scores: AnyArray) -> Output:
    """Find the score that the user asked for; by default the only one, or the predicted class.

    Parameters
    ----------
    additive : AdditiveForest
        The model.
    output : object
        A class, or the number of a target; None for the default.
    scores : array of shape (n_scores,)
        Scores of the row in question.

    Returns
    -------
    output : Output
    """
    outputs = additive.outputs
    if additive.classes is not None:
        classes = additive.classes.tolist()
        if output is None:
            # Two classes have one score, that of the second; minus it is the first one's.
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
