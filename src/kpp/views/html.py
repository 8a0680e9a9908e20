"""What the pictures are made of: cards of facts, tables and small curves, as plain HTML.

Nothing here runs or loads anything: no script, no picture from elsewhere, no link. Colours are
those of the page around the card (``currentColor``), so light and dark themes both work. Every
text is escaped, since names of columns and categories come from anybody's file.
"""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from kpp._colours import DOWN_ON_ANY, UP_ON_ANY
from kpp._numbers import number
from kpp._shown import Shown, picture
from kpp._typing import AnyArray

# Texts from a file may be of any length.
LONGEST_TEXT = 300
LONGEST_TABLE = 10
CHART_WIDTH, CHART_HEIGHT = 240, 48
# Marks that turn the direction of the text around them.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

_STYLE = (
    ".kpp-card{display:inline-block;max-width:100%;overflow-x:auto;box-sizing:border-box;"
    "padding:.6em .9em;margin:.2em 0;border:1px solid;"
    "border-color:color-mix(in srgb,currentColor 25%,transparent);border-radius:6px;"
    "color:inherit;background:transparent;font-size:13px;line-height:1.45;text-align:left}"
    ".kpp-card .kpp-title{font-weight:600;margin:0 0 .3em}"
    ".kpp-card .kpp-note{max-width:62em;margin:.35em 0 0;opacity:.85}"
    ".kpp-card table{border-collapse:collapse;border:0;margin:.3em 0;color:inherit;"
    "background:transparent;font-size:inherit}"
    ".kpp-card caption{caption-side:top;text-align:left;opacity:.75;padding:0 0 .15em}"
    ".kpp-card tr{background:transparent}"
    ".kpp-card th,.kpp-card td{border:0;border-bottom:1px solid;"
    "border-color:color-mix(in srgb,currentColor 15%,transparent);padding:.15em .8em .15em 0;"
    "text-align:left;vertical-align:top;font-weight:normal;white-space:normal;"
    "color:inherit;background:transparent;overflow-wrap:break-word}"
    ".kpp-card thead th{font-weight:600}"
    ".kpp-card tbody th{opacity:.75}"
    ".kpp-card .kpp-number{text-align:right;white-space:nowrap;"
    "font-variant-numeric:tabular-nums}"
    f".kpp-card .kpp-bar{{display:inline-block;height:.7em;background:{UP_ON_ANY}}}"
    f".kpp-card .kpp-bar.kpp-down{{background:{DOWN_ON_ANY}}}"
    ".kpp-card svg{display:block;margin:.3em 0}"
)


class Bar(NamedTuple):
    """A cell drawn as a bar, as long as its share; in another colour below 0."""

    share: float


def escape(value: Any) -> str:
    """Return any value as text that is safe inside an element and inside an attribute."""
    text = str(value)
    if len(text) > LONGEST_TEXT:
        text = text[: LONGEST_TEXT - 1] + "…"
    return html.escape("".join("\ufffd" if _is_unsafe(c) else c for c in text), quote=True)


def _is_unsafe(character: str) -> bool:
    """Whether it is a control, a lone surrogate or a mark of direction."""
    return character in _TURNING or unicodedata.category(character) in ("Cc", "Cs")


def _cell(value: Any, tag: str = "td") -> str:
    if isinstance(value, Bar):
        size = min(abs(value.share), 1.0) if math.isfinite(value.share) else 0.0
        down = " kpp-down" if value.share < 0 else ""
        return f'<{tag}><span class="kpp-bar{down}" style="width:{6 * size:.2f}em"></span></{tag}>'
    is_number = not isinstance(value, str) and (
        value is None or isinstance(value, int | float | np.number | np.bool_)
    )
    kind = ' class="kpp-number"' if is_number else ""
    return f"<{tag}{kind}>{escape(number(value))}</{tag}>"


def facts(values: Mapping[str, Any]) -> str:
    """Names and values, one pair a line."""
    lines = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(number(value))}</td></tr>'
        for name, value in values.items()
    )
    return f"<table><tbody>{lines}</tbody></table>"


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """A table: numbers to the right, texts to the left, a `Bar` drawn."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def note(text: str) -> str:
    """A sentence."""
    return f'<p class="kpp-note">{escape(text)}</p>'


def chart(x: AnyArray, y: AnyArray, label: str) -> str:
    """A curve without axes, for its shape; the label says what it is and where it runs."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    kept = np.isfinite(x) & np.isfinite(y)
    if kept.sum() < 2:
        return ""
    x, y = x[kept], y[kept]
    u = (x - x.min()) / (np.ptp(x) or 1.0) * (CHART_WIDTH - 4) + 2
    v = CHART_HEIGHT - 2 - (y - y.min()) / (np.ptp(y) or 1.0) * (CHART_HEIGHT - 4)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(u, v, strict=True))
    return (
        f'<svg role="img" aria-label="{escape(label)}" width="{CHART_WIDTH}" '
        f'height="{CHART_HEIGHT}" viewBox="0 0 {CHART_WIDTH} {CHART_HEIGHT}">'
        f'<polyline points="{points}" fill="none" stroke="{DOWN_ON_ANY}" stroke-width="2"/></svg>'
        f"{note(label)}"
    )


def card(title: str, *parts: str) -> str:
    """A frame around parts that are HTML already; the title is not."""
    inside = "".join(parts)
    return (
        f'<div class="kpp-card"><style>{_STYLE}</style>'
        f'<p class="kpp-title">{escape(title)}</p>{inside}</div>'
    )


def largest(values: AnyArray, n: int = LONGEST_TABLE) -> AnyArray:
    """Places of the n largest absolute values, the largest first; ties keep their order."""
    return np.argsort(-np.abs(np.asarray(values)), kind="stable")[:n]


def left_out(n_shown: int, n_all: int, what: str) -> str:
    """How many lines a table lacks; nothing where it lacks none."""
    return note(f"{n_shown} of {number(n_all)} {what} shown.") if n_shown < n_all else ""


def quantiles(values: AnyArray) -> dict[str, Any]:
    """Smallest, median and largest, by name."""
    values = np.asarray(values, dtype=np.float64)
    if values.size == 0:
        return {"smallest": None, "median": None, "largest": None}
    with np.errstate(invalid="ignore"):  # the middle of two infinities
        middle = float(np.median(values))
    return {"smallest": float(values.min()), "median": middle, "largest": float(values.max())}


def describe(value: Any) -> Any:
    """An array by its shape and range; anything else as it is."""
    if not isinstance(value, np.ndarray):
        return value
    shape = " × ".join(f"{n:,}" for n in value.shape) or "1"
    if value.dtype.kind not in "iuf" or value.size == 0 or np.isnan(value).all():
        return f"array of {shape}"
    return f"array of {shape}, {number(np.nanmin(value))} to {number(np.nanmax(value))}"


def by_field(result: Any, *properties: str) -> str:
    """A dataclass field by field, then some of its properties; arrays by shape and range.

    Fields that are private, or no part of ``repr``, are left out.
    """
    own = [f.name for f in fields(result) if f.repr and f.name[0] != "_"]
    values = {name: describe(getattr(result, name)) for name in (*own, *properties)}
    return card(type(result).__name__, facts(values))


picture.register(Shown, by_field)
