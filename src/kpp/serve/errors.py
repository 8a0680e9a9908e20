"""Requests that cannot be answered: a status, a sentence, and every error of the body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Errors that are listed; all are counted.
MOST_LISTED = 1_000


class RequestError(Exception):
    """What is wrong with a request.

    Parameters
    ----------
    status : int
        The status of the answer.
    message : str
        What was expected, and what to do. It never holds a value of the body.
    errors : sequence of dict
        One for each thing that is wrong: "row" and "column" where they are known, and "message".
    headers : mapping
        More headers of the answer.

    Examples
    --------
    >>> from kpp.serve.errors import RequestError
    >>> RequestError(404, "There is no such page.").body()
    {'error': 'There is no such page.', 'n_errors': 0, 'errors': []}
    """

    def __init__(
        self,
        status: int,
        message: str,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.errors, self.headers = list(errors), dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The answer."""
        listed = self.errors[:MOST_LISTED]
        return {"error": self.message, "n_errors": len(self.errors), "errors": listed}


def invalid(errors: Sequence[Mapping[str, Any]]) -> RequestError:
    """The refusal of a body whose values are not what the model takes."""
    number = len(errors)
    what = "1 thing is" if number == 1 else f"{number} things are"
    return RequestError(422, f"{what} not as the model needs it; nothing was computed.", errors)
