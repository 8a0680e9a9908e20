"""Small charts as SVG: scales, axes, lines, bands, points, cells.

Colours are classes of the style sheet, so that charts follow the light and the dark theme. All
text goes through markupsafe, which escapes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from kpp._numbers import MINUS
from kpp._optional import optional
from kpp.tables.numbers import number

WIDTH, HEIGHT = 420, 280
# The left side grows with the numbers beside the axis: GAP from them, and room for its name.
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 14, 46
GAP, NAME = 7, 24
# Widths of a digit and of a comma at the size of the style sheet's ticks.
WIDE, NARROW = 7.5, 4.0


def markup(text: str) -> Any:
    """Text that is known to be safe markup."""
    return optional("markupsafe", "report()", "report").Markup(text)


def escape(text: Any) -> str:
    """Text as it may stand in an element or an attribute."""
    return str(optional("markupsafe", "report()", "report").escape(text))


# Shapes of about the same area, around (0, 0): groups differ in more than their colour.
_SHAPES = (
    "M-{r} 0a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0",
    "M-{s} -{s}h{q}v{q}h-{q}z",
    "M0 -{t}L{t} {u}H-{t}z",
    "M0 -{t}L{t} 0L0 {t}L-{t} 0z",
    "M0 {t}L{t} -{u}H-{t}z",
    "M-{w} -{t}h{v}v{x}h{x}v{v}h-{x}v{x}h-{v}v-{x}h-{x}v-{v}h{x}z",
)


def marker(group: int, x: float = 6, y: float = 6, radius: float = 3.2, kind: str = "") -> Any:
    """The mark of a group of rows: a shape and a colour of its own."""
    r = radius
    sizes = {"r": r, "d": 2 * r, "s": 0.89 * r, "q": 1.78 * r, "t": 1.3 * r, "u": 0.95 * r}
    sizes |= {"w": 0.4 * r, "v": 0.8 * r, "x": 0.9 * r}
    shape = _SHAPES[group % len(_SHAPES)].format(**{k: f"{v:.2f}" for k, v in sizes.items()})
    return markup(
        f'<path class="{kind}group{group}" transform="translate({x:.1f} {y:.1f})" d="{shape}"/>'
    )


@dataclass(frozen=True)
class Scale:
    """From values to places: linear, or by logarithms.

    Parameters
    ----------
    low, high : float
        The values at the two ends.
    start, end : float
        Their places.
    log : bool
        Whether steps are factors.

    Examples
    --------
    >>> from kpp.reports.svg import Scale
    >>> Scale(0, 10, 100, 200)(5)
    150.0
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a value; what lies far outside is put just outside."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + min(max(share, -0.05), 1.05) * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Round values between the ends."""
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            step = max(1, -(-(last - first + 1) // most))
            return [10.0**e for e in range(first, last + 1, step)]
        return round_steps(self.low, self.high, most)


def round_steps(low: float, high: float, most: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between two values.

    Examples
    --------
    >>> from kpp.reports.svg import round_steps
    >>> round_steps(0.0, 1.0)
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return [low]
    for exponent in range(math.floor(math.log10(span)) - 2, math.floor(math.log10(span)) + 2):
        for factor in (1, 2, 2.5, 5):
            step = factor * 10.0**exponent
            first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
            if last - first + 1 <= most:
                return [float(f"{k * step:.12g}") for k in range(first, last + 1)]
    return [low, high]


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """Write the numbers beside an axis, with so many digits that they are what they mark.

    Examples
    --------
    >>> from kpp.reports.svg import tick_texts
    >>> tick_texts([0.0, 0.25, 0.5]), tick_texts([1000.25, 1000.5])
    (['0', '0.25', '0.5'], ['1,000.25', '1,000.5'])
    """
    step = min((abs(b - a) for a, b in pairwise(ticks)), default=0.0)
    texts: list[str] = []
    for digits in range(3, 10):
        texts = [number(tick, digits) for tick in ticks]
        read = [float(text.replace(",", "").replace(MINUS, "-")) for text in texts]
        if all(abs(a - b) <= 0.01 * step for a, b in zip(read, ticks, strict=True)):
            return texts
    # Ends that are not round, as those of a scale of one value.
    return texts if step else [number(tick) for tick in ticks]


def text_width(text: str) -> float:
    """About how wide a number beside an axis is, in the units of a chart.

    Examples
    --------
    >>> from kpp.reports.svg import text_width
    >>> text_width("2,200,000") > 2 * text_width("220")
    True
    """
    return sum(NARROW if character in ",." else WIDE for character in text)


def padded(values: Sequence[float], *, zero: bool = False) -> tuple[float, float]:
    """Ends of a scale that leave a little room around the values."""
    known = [v for v in values if v is not None and math.isfinite(v)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    room = 0.04 * (high - low) if low < high else abs(low) * 0.1 or 0.5
    return (low if zero and low == 0 else low - room), high + room


@dataclass
class Chart:
    """A chart with two axes, to which marks are added.

    Parameters
    ----------
    x, y : tuple of float
        Ends of the axes.
    x_label, y_label : str
        What they show.
    label : str
        The chart in one sentence, for those who do not see it.
    log_x : bool
        Whether the steps of x are factors.
    height : int
        Height of the whole.
    x_texts : sequence of str
        What stands at 0, 1, ... of x, instead of numbers of its scale.
    """

    x: tuple[float, float]
    y: tuple[float, float]
    x_label: str
    y_label: str
    label: str
    log_x: bool = False
    height: int = HEIGHT
    x_texts: Sequence[str] = ()
    marks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.at_y = Scale(*self.y, self.height - BOTTOM, TOP)
        widest = max(text_width(text) for text in tick_texts(self.at_y.ticks()))
        self.left = max(LEFT, math.ceil(NAME + widest + GAP))
        self.at_x = Scale(*self.x, self.left, WIDTH - RIGHT, self.log_x)

    def _x_ticks(self) -> list[tuple[float, float, str]]:
        """Places of ticks of x, of their texts, and these: fewer where they would touch."""
        if self.x_texts:
            return [(self.at_x(k), self.at_x(k), text) for k, text in enumerate(self.x_texts)]
        found: list[tuple[float, float, str]] = []
        for most in (5, 4, 3, 2, 1):
            ticks = self.at_x.ticks(most)
            found = []
            for tick, text in zip(ticks, tick_texts(ticks), strict=True):
                place = self.at_x(tick)
                # The last one may be longer than the room on its right.
                found.append((place, min(place, WIDTH - text_width(text) / 2), text))
            if all(
                b - a >= (text_width(one) + text_width(two)) / 2 + GAP
                for (_, a, one), (_, b, two) in pairwise(found)
            ):
                break
        return found

    def line(self, xs: Any, ys: Any, kind: str, *, steps: bool = False) -> Chart:
        """Add a line through points; in steps, every value holds until the next place."""
        points = list(zip(np.asarray(xs, float), np.asarray(ys, float), strict=True))
        parts = []
        for i, (x, y) in enumerate(points):
            place = f"{self.at_x(x):.1f} {self.at_y(y):.1f}"
            if steps and i:
                parts.append(f"H{self.at_x(x):.1f}V{self.at_y(y):.1f}")
            else:
                parts.append(f"{'L' if i else 'M'}{place}")
        self.marks.append(f'<path class="line {kind}" d="{"".join(parts)}"/>')
        return self

    def point(self, x: float, y: float, kind: str, radius: float = 4, title: str = "") -> Chart:
        """Add a point."""
        inside = f"<title>{escape(title)}</title>" if title else ""
        self.marks.append(
            f'<circle class="{kind}" cx="{self.at_x(x):.1f}" cy="{self.at_y(y):.1f}" '
            f'r="{radius:g}">{inside}</circle>'
        )
        return self

    def mark(self, x: float, y: float, group: int, *, ringed: bool = False) -> Chart:
        """Add the mark of a group, with a ring around it if asked."""
        self.marks.append(str(marker(group, self.at_x(x), self.at_y(y), kind="row ")))
        return self.point(x, y, "ring", 6) if ringed else self

    def whisker(self, x: float, low: float, high: float, kind: str) -> Chart:
        """Add a vertical line between two values."""
        path = f"M{self.at_x(x):.1f} {self.at_y(low):.1f}V{self.at_y(high):.1f}"
        self.marks.append(f'<path class="whisker {kind}" d="{path}"/>')
        return self

    def cell(
        self, x: tuple[float, float], y: tuple[float, float], kind: str, opacity: float = 1.0
    ) -> Chart:
        """Add a rectangle between two values of each axis."""
        left, right = self.at_x(x[0]), self.at_x(x[1])
        top, bottom = self.at_y(y[1]), self.at_y(y[0])
        shade = f' fill-opacity="{opacity:.2f}"' if opacity < 1 else ""
        self.marks.append(
            f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" '
            f'width="{max(right - left, 0):.1f}" height="{max(bottom - top, 0):.1f}"{shade}/>'
        )
        return self

    def rule(self, *, x: float | None = None, y: float | None = None, kind: str) -> Chart:
        """Add a line across, at a value of one axis."""
        if x is not None:
            place = f"{self.at_x(x):.1f}"
            path = f"M{place} {TOP}V{self.height - BOTTOM}"
        else:
            assert y is not None
            place = f"{self.at_y(y):.1f}"
            path = f"M{self.left} {place}H{WIDTH - RIGHT}"
        self.marks.append(f'<path class="line {kind}" d="{path}"/>')
        return self

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> Chart:
        """Add words at a place of the two axes."""
        self.marks.append(
            f'<text class="{kind}" x="{self.at_x(x):.1f}" y="{self.at_y(y):.1f}" '
            f'text-anchor="{anchor}">{escape(words)}</text>'
        )
        return self

    def draw(self) -> Any:
        """Return the chart as markup."""
        bottom, right = self.height - BOTTOM, WIDTH - RIGHT
        parts = [
            f'<svg class="chart" viewBox="0 0 {WIDTH} {self.height}" role="img" '
            f'aria-label="{escape(self.label)}">'
        ]
        ticks = self.at_y.ticks()
        for tick, text in zip(ticks, tick_texts(ticks), strict=True):
            place = self.at_y(tick)
            parts.append(f'<path class="grid" d="M{self.left} {place:.1f}H{right}"/>')
            parts.append(
                f'<text class="tick" x="{self.left - GAP}" y="{place + 4:.1f}" '
                f'text-anchor="end">{text}</text>'
            )
        for place, middle, text in self._x_ticks():
            parts.append(f'<path class="grid" d="M{place:.1f} {bottom}V{bottom + 4}"/>')
            parts.append(
                f'<text class="tick" x="{middle:.1f}" y="{bottom + 18}" '
                f'text-anchor="middle">{text}</text>'
            )
        parts.append(f'<path class="axis" d="M{self.left} {bottom}H{right}"/>')
        middle = (self.left + right) / 2
        parts.append(
            f'<text class="name" x="{middle:.1f}" y="{self.height - 8}" text-anchor="middle">'
            f"{escape(self.x_label)}</text>"
        )
        half = (TOP + bottom) / 2
        parts.append(
            f'<text class="name" transform="translate(13 {half:.1f}) rotate(-90)" '
            f'text-anchor="middle">{escape(self.y_label)}</text>'
        )
        parts.extend(self.marks)
        parts.append("</svg>")
        return markup("".join(parts))
