"""The questions that a service answers, and the parameters of each for a given model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kpp.models.asking import Question
from kpp.serve import answers
from kpp.serve.errors import invalid

MOST_RULES = 1_000


@dataclass(frozen=True)
class Parameter:
    """A parameter of a question, in the address.

    Parameters
    ----------
    name : str
        Its name.
    words : str
        What it does.
    schema : dict
        JSON Schema of its value: a number, an integer, a boolean or one of some texts.
    default : object
        What holds without it.
    required : bool
        Whether it must be given.
    """

    name: str
    words: str
    schema: dict[str, Any]
    default: Any = None
    required: bool = False

    def openapi(self) -> dict[str, Any]:
        """As OpenAPI has it."""
        schema = dict(self.schema) | ({} if self.default is None else {"default": self.default})
        return {
            "name": self.name,
            "in": "query",
            "required": self.required,
            "description": self.words,
            "schema": schema,
        }

    def read(self, text: str) -> Any:
        """The value that a text stands for; ValueError says what was expected."""
        kind, schema = self.schema["type"], self.schema
        if "enum" in schema:
            if text not in schema["enum"]:
                raise ValueError("is none of the values that there are.")
            return text
        if kind == "boolean":
            if text not in ("true", "false"):
                raise ValueError("must be true or false.")
            return text == "true"
        try:
            # Python reads more than a number in an address may be: 1_000, nan, other digits.
            plain = text.isascii() and "_" not in text and text == text.strip()
            value = (int(text) if kind == "integer" else float(text)) if plain else math.nan
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(f"must be {'a whole' if kind == 'integer' else 'a'} number.")
        above = value > schema.get("exclusiveMinimum", -math.inf)
        below = value < schema.get("exclusiveMaximum", math.inf)
        least, most = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
        if not (above and below and least <= value <= most):
            raise ValueError("is out of range.")
        return value


@dataclass(frozen=True)
class Asked:
    """A question: its path, how it is answered, and whether that takes long."""

    path: str
    title: str
    words: str
    answer: Callable[..., answers.Answer]
    slow: bool


QUESTIONS = (
    Asked("/predict", "Predict rows", "Predictions; of a classifier with the probabilities of its "
          "classes.", answers.predict, False),
    Asked("/interval", "Intervals, or sets of classes", "An interval for every row, or a set of "
          "classes, that should cover the given share of new rows; and what that is worth.",
          answers.interval, False),
    Asked("/explain", "What moved a prediction", "Contributions of the columns: with the baseline "
          "they add up to the score, exactly.", answers.explanation, True),
    Asked("/rules", "Rules that moved a prediction", "The rules that moved each prediction most, "
          "and the sum of all others.", answers.rules, True),
    Asked("/certify", "How far a row may move", "How far each row may move before the answer "
          "changes.", answers.certificate, True),
)  # fmt: skip


def parameters_of(asked: Asked, question: Question) -> list[Parameter]:
    """The parameters that a question has for a model.

    Parameters
    ----------
    asked : Asked
        The question.
    question : Question
        The model.

    Returns
    -------
    parameters : list of Parameter
    """
    found = []
    if asked.path == "/interval":
        share = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
        found.append(Parameter("coverage", "The share of new rows to cover.", share, 0.9))
    if asked.path in ("/explain", "/rules"):
        if question.is_classifier:
            labels = [str(one) for one in question.model.classes_.tolist()]
            words = "The class to explain; without it the predicted one of each row."
            found.append(Parameter("output", words, {"type": "string", "enum": labels}))
        elif question.additive.n_scores > 1:
            number = {"type": "integer", "minimum": 0, "maximum": question.additive.n_scores - 1}
            found.append(Parameter("output", "The number of the target to explain.", number, 0))
    if asked.path == "/rules":
        number = {"type": "integer", "minimum": 1, "maximum": MOST_RULES}
        found.append(Parameter("top", "Rules to list for each row.", number, 10))
    if asked.path == "/certify":
        if not question.is_classifier:
            words = "The change that counts as one, in units of the target."
            size = {"type": "number", "exclusiveMinimum": 0, "maximum": 1e300}
            found.append(Parameter("epsilon", words, size, required=True))
        words = "Radii in raw values as well, as far as they are found within a few seconds."
        found.append(Parameter("raw", words, {"type": "boolean"}, False))
    return found


def read_parameters(
    parameters: Sequence[Parameter], given: Sequence[tuple[str, str]]
) -> Mapping[str, Any]:
    """Read the parameters of an address; refuse unknown and repeated ones, all errors at once.

    Parameters
    ----------
    parameters : sequence of Parameter
        Those that there are.
    given : sequence of (str, str)
        Names and texts.

    Returns
    -------
    values : dict

    Examples
    --------
    >>> from kpp.serve.asking import Parameter, read_parameters
    >>> top = Parameter("top", "", {"type": "integer", "minimum": 1}, 10)
    >>> read_parameters([top], []), read_parameters([top], [("top", "3")])
    ({'top': 10}, {'top': 3})
    """
    known = {parameter.name: parameter for parameter in parameters}
    values = {p.name: p.default for p in parameters if not p.required}
    errors, seen = [], set()
    for name, text in given:
        if name not in known:
            errors.append({"message": "A parameter of the address is not known here."})
        elif name in seen:
            errors.append({"message": f"The parameter '{name}' is given twice."})
        else:
            try:
                values[name] = known[name].read(text)
            except ValueError as error:
                errors.append({"message": f"The parameter '{name}' {error}"})
        seen.add(name)
    errors += [
        {"message": f"The parameter '{p.name}' is needed. {p.words}"}
        for p in parameters
        if p.required and p.name not in seen
    ]
    if errors:
        raise invalid(errors)
    return values
