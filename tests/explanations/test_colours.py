"""The signs have the same two colours everywhere."""

import re
from importlib.resources import files

from kpp import _colours
from kpp.explanations import _drawing
from kpp.views.html import card


def luminance(colour):
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, two):
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_style_sheet_of_reports_has_them():
    style = (files("kpp.reports") / "templates" / "style.css").read_text("utf-8")
    pairs = re.findall(r"--up: (#\w+); --down: (#\w+);", style)
    dark = (_colours.UP_ON_DARK, _colours.DOWN_ON_DARK)
    light = (_colours.UP, _colours.DOWN)
    assert pairs == [light, dark, dark, light]  # paper is light, whatever the screen


def test_plots_and_notebooks_have_them():
    assert (_drawing.HIGHER, _drawing.LOWER) == (_colours.UP, _colours.DOWN)
    page = card("", "")
    assert f".kpp-bar{{display:inline-block;height:.7em;background:{_colours.UP_ON_ANY}}}" in page
    assert f".kpp-down{{background:{_colours.DOWN_ON_ANY}}}" in page


def test_they_stand_out():
    white, black = "#ffffff", "#11161b"
    assert min(contrast(c, white) for c in (_colours.UP, _colours.DOWN)) >= 4.5
    assert min(contrast(c, black) for c in (_colours.UP_ON_DARK, _colours.DOWN_ON_DARK)) >= 4.5
    for ground in (white, black):
        for colour in (_colours.UP_ON_ANY, _colours.DOWN_ON_ANY):
            assert contrast(colour, ground) >= 3
