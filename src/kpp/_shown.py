"""Where results meet their pictures in a notebook.

The mathematics know this file only: what is shown derives from `Shown` or `ShowsItsFit`. The
pictures stand in ``kpp.views``, which registers one for each type with `picture`. It is imported
here by its name when a notebook first shows something, so that no room has to import the views
above it, and no import of a room pays for them.
"""

from __future__ import annotations

from functools import singledispatch
from importlib import import_module
from typing import Any

from sklearn.base import BaseEstimator


@singledispatch
def picture(result: object) -> str:
    """Return a result as HTML, by the view of its type; nothing where there is none."""
    return ""


def drawn(result: object) -> str:
    """Return a result as HTML, with all views there are."""
    import_module("kpp.views")
    return picture(result)


class Shown:
    """A result that a notebook shows, and ``print`` as plain text: the same figures.

    A dataclass without a view of its own is shown field by field.
    """

    def _repr_html_(self) -> str:
        return drawn(self)

    def __str__(self) -> str:
        written: str = import_module("kpp.views.text").plain(drawn(self))
        return written


class ShowsItsFit(BaseEstimator):
    """An estimator whose diagram, scikit-learn's own, is followed by a summary of its fit."""

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._html_summary()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:  # not with display="text"
            bundle["text/html"] += self._html_summary()
        return bundle

    def _html_summary(self) -> str:
        """The fit as a card; nothing before it."""
        return drawn(self)
